//! Globals through the public interface, and against an extract that GT.M has made.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use sablecat::globals::{Data, Globals, Node, Number, Subscript};
use sablecat::{Env, ErrorKind, Method, Result};
use sablecat_os::sim::SimDisk;

/// What GT.M V7.0 wrote with `MUPIP EXTRACT -FORMAT=ZWR`, in its M character set, of nodes set in no order:
/// numbers at the ends of what there is, texts that look like numbers, bytes that cannot be printed.
const EXTRACT: &[u8] = include_bytes!("../data/globals.zwr");

fn open() -> (Env, Globals) {
    let env = Env::in_memory().expect("created");
    let globals = Globals::open(&env, "globals").expect("created");
    (env, globals)
}

fn names<'g>(nodes: impl Iterator<Item = Result<Node<'g>>>) -> Vec<String> {
    nodes.map(|node| node.expect("read").to_string()).collect()
}

fn after_two_lines(text: &[u8]) -> &[u8] {
    let mut ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    &text[ends.nth(1).expect("a second line")..]
}

#[test]
fn an_extract_of_gtm_is_read_and_written_as_it_was() {
    let (env, globals) = open();
    let count = env.write(|txn| globals.import(txn, EXTRACT)).expect("imported");
    let mut written = Vec::new();
    assert_eq!(globals.export(&env, &mut written).expect("exported"), count);
    assert_eq!(
        String::from_utf8_lossy(after_two_lines(&written)),
        String::from_utf8_lossy(after_two_lines(EXTRACT)),
    );
    assert!(after_two_lines(&written) == after_two_lines(EXTRACT));
    // And its order is what GT.M's is, which the keys did not come from.
    assert_eq!(names(globals.all(&env)), ["^%b", "^B", "^a", "^b", "^c", "^d"]);
    let a = globals.global("a").expect("a name");
    assert_eq!(
        names(a.children(&env))[..4],
        ["^a(\"\")", "^a(-1.5)", "^a(-1)", "^a(.0000000000000000000000000000000000000000001)"]
    );
}

#[test]
fn characters_of_unicode_are_told_from_bytes() {
    let (env, globals) = open();
    let text = "GT.M MUPIP EXTRACT UTF-8\n23-NOV-2026  15:39:48 ZWR\n\
                ^a(\"b\"_$C(233))=\"x\"_$C(8364)_$ZCH(255)\n^b=\"caf\u{e9}\"\n";
    env.write(|txn| globals.import(txn, text.as_bytes())).expect("imported");
    let a = globals.global("a").expect("a name");
    assert_eq!(a.at("b\u{e9}").get(&env).expect("read").as_deref(), Some(&b"x\xe2\x82\xac\xff"[..]));
    let b = globals.global("b").expect("a name");
    assert_eq!(b.get(&env).expect("read").as_deref(), Some("caf\u{e9}".as_bytes()));
}

#[test]
fn odd_text_is_refused_with_its_line() {
    let (env, globals) = open();
    let head = "x\ny ZWR\n^ok=\"1\"\n";
    for (line, why) in [
        ("^a(1)=\"x", "closing quotes"),
        ("^a(1)=\"x\"y", "the line's end"),
        ("^a(1=\"x\"", "\")\""),
        ("^a()=\"x\"", "a text or a number"),
        ("^a(01)=\"x\"", "as M writes it"),
        ("^a(1,)=\"x\"", "a text or a number"),
        ("^1a=\"x\"", "the name of a global"),
        ("^=\"x\"", "the name of a global"),
        ("a=\"x\"", "\"^\""),
        ("", "\"^\""),
        ("^a", "\"=\""),
        ("^a=", "a text or a number"),
        ("^a=1-2", "as M writes it"),
        ("^a=.5.", "as M writes it"),
        ("^a=007", "as M writes it"),
        ("^a=$C(256)", "from 0 to 255"),
        ("^a=$C(", "from 0 to 255"),
        ("^a=$Z(1)", "$C or $ZCH"),
        ("^a=\"x\"_", "a text"),
        ("^a=\"x\"_1", "a text"),
    ] {
        let text = format!("{head}{line}\n");
        let error = env.write(|txn| globals.import(txn, text.as_bytes())).expect_err(line);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{line:?}: {error}");
        assert!(
            error.to_string().starts_with("line 4 ") && error.to_string().contains(why),
            "{line:?}: {error}"
        );
        assert_eq!(names(globals.all(&env)), [""; 0], "nothing of it is there");
    }
    for (text, line) in [("", 2), ("x\n", 2), ("x\ny GO\n", 2), ("x\ny ZWR\n^a=\"1\"", 3)] {
        let error = env.write(|txn| globals.import(txn, text.as_bytes())).expect_err(text);
        assert!(error.to_string().starts_with(&format!("line {line} ")), "{text:?}: {error}");
    }
}

#[test]
fn a_node_has_a_value_or_children_or_both() {
    let (env, globals) = open();
    let a = globals.global("a").expect("a name");
    env.write(|txn| {
        assert_eq!(a.data(txn)?, Data::default());
        a.at(1).at("x").set(txn, "deep")?;
        assert_eq!(a.at(1).data(txn)?, Data { value: false, children: true });
        a.at(1).set(txn, "one")?;
        a.at(12).set(txn, "twelve")?;
        assert_eq!(a.at(1).data(txn)?, Data { value: true, children: true });
        assert_eq!(a.at(12).data(txn)?, Data { value: true, children: false });
        a.at(1).kill_value(txn)?;
        assert_eq!(a.at(1).data(txn)?, Data { value: false, children: true });
        a.at(1).kill(txn)?;
        assert_eq!(a.at(1).data(txn)?, Data::default());
        assert_eq!(names(a.children(txn)), ["^a(12)"]);
        a.kill(txn)?;
        assert_eq!(globals.all(txn).count(), 0);
        Ok(())
    })
    .expect("committed");
}

#[test]
fn nodes_lead_to_each_other() {
    let (env, globals) = open();
    env.write(|txn| {
        for reference in ["^a(1)", "^a(1,\"x\",5)", "^a(2,2)", "^a(\"t\")", "^ab(7)", "^b"] {
            globals.node(reference)?.set(txn, reference)?;
        }
        Ok(())
    })
    .expect("set");
    let node = |reference: &str| globals.node(reference).expect("a reference");
    let shown = |found: Result<Option<Node<'_>>>| found.expect("read").map(|node| node.to_string());
    let a = node("^a");
    assert_eq!(names(a.children(&env)), ["^a(1)", "^a(2)", "^a(\"t\")"]);
    assert_eq!(names(a.children(&env).rev()), ["^a(\"t\")", "^a(2)", "^a(1)"]);
    let mut both = a.children(&env);
    assert_eq!(
        (shown(both.next().transpose()), shown(both.next_back().transpose())),
        (Some("^a(1)".into()), Some("^a(\"t\")".into()))
    );
    assert_eq!(
        (shown(both.next().transpose()), shown(both.next_back().transpose())),
        (Some("^a(2)".into()), None)
    );
    assert_eq!(names(globals.all(&env)), ["^a", "^ab", "^b"]);
    for (of, next, previous) in [
        ("^a(1)", Some("^a(2)"), None),
        ("^a(1,\"a\")", Some("^a(1,\"x\")"), None),
        ("^a(1,\"x\")", None, None),
        ("^a(1.5)", Some("^a(2)"), Some("^a(1)")),
        ("^a(\"t\")", None, Some("^a(2)")),
        ("^a", Some("^ab"), None),
        ("^aa", Some("^ab"), Some("^a")),
        ("^b", None, Some("^ab")),
    ] {
        assert_eq!(shown(node(of).next_sibling(&env)).as_deref(), next, "after {of}");
        assert_eq!(shown(node(of).previous_sibling(&env)).as_deref(), previous, "before {of}");
    }
    for (of, next, previous) in [
        ("^a", Some("^a(1)"), None),
        ("^a(1)", Some("^a(1,\"x\",5)"), None),
        ("^a(1,\"x\",5)", Some("^a(2,2)"), Some("^a(1)")),
        ("^a(\"t\")", None, Some("^a(2,2)")),
        ("^b", None, None),
    ] {
        assert_eq!(shown(node(of).next(&env)).as_deref(), next, "after {of}");
        assert_eq!(shown(node(of).previous(&env)).as_deref(), previous, "before {of}");
    }
    let of_one = node("^a(1)").nodes(&env).expect("read").map(|found| found.expect("read").0.to_string());
    assert_eq!(of_one.collect::<Vec<_>>(), ["^a(1)", "^a(1,\"x\",5)"]);
    assert_eq!(shown(node("^a(1,\"x\",5)").parent()).as_deref(), Some("^a(1,\"x\")"));
    assert_eq!(shown(a.parent()), None);
    assert_eq!(
        node("^a(1,\"x\",5)").subscripts().expect("a node"),
        [Subscript::from(1), "x".into(), 5.into()]
    );
}

#[test]
fn merging_copies_a_subtree_beside_what_is_there() {
    let (env, globals) = open();
    let (a, b) = (globals.global("a").expect("a name"), globals.global("b").expect("a name"));
    env.write(|txn| {
        a.at(1).set(txn, "1")?;
        a.at(1).at(2).set(txn, "2")?;
        b.at("kept").set(txn, "kept")?;
        b.at("to").at(2).set(txn, "old")?;
        b.at("to").merge(txn, &a.at(1))?;
        b.at("to").merge(txn, &b.at("to"))?;
        let all: Vec<String> = b
            .nodes(txn)?
            .map(|found| found.map(|(node, value)| format!("{node}={}", value.escape_ascii())))
            .collect::<Result<_>>()?;
        assert_eq!(all, ["^b(\"kept\")=kept", "^b(\"to\")=1", "^b(\"to\",2)=2"]);
        for (into, from) in [(a.at(1), &a), (a.clone(), &a.at(1))] {
            assert_eq!(into.merge(txn, from).expect_err("within").kind(), ErrorKind::Invalid);
        }
        Ok(())
    })
    .expect("committed");
}

/// What was told by the names that handles were opened under: nothing was copied, or it went on for ever.
#[test]
fn merging_goes_by_what_databases_are_and_not_by_their_names() {
    let (env, old) = open();
    env.rename_database("globals", "old").expect("renamed");
    let (new, renamed) =
        (Globals::open(&env, "globals").expect("made"), Globals::open(&env, "old").expect("there"));
    fn a(globals: &Globals) -> Node<'_> {
        globals.global("a").expect("a name")
    }
    env.write(|txn| {
        a(&old).at(1).set(txn, "x")?;
        a(&new).merge(txn, &a(&old))?;
        a(&new).at(2).merge(txn, &a(&old).at(1))?;
        a(&renamed).merge(txn, &a(&old))?;
        let below = a(&renamed).at(1).at(1).merge(txn, &a(&old).at(1));
        assert_eq!(below.expect_err("within").kind(), ErrorKind::Invalid);
        let nodes = a(&new).nodes(txn)?.map(|found| found.map(|(node, _)| node));
        assert_eq!(names(nodes), ["^a(1)", "^a(2)"]);
        Ok(())
    })
    .expect("merged");
}

#[test]
fn increments_of_many_at_once_are_all_counted() {
    let (env, globals) = open();
    let counter = globals.global("counter").expect("a name").at("visits");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    env.write(|txn| counter.increment(txn, Number::of_text(b".5"))).expect("counted");
                }
            });
        }
    });
    assert_eq!(counter.get(&env).expect("read").as_deref(), Some(&b"100"[..]));
}

#[test]
fn a_data_store_has_globals_too_and_a_comparator_has_none() {
    let disk = Arc::new(SimDisk::new(1));
    let mut store = Env::builder().disk(disk).open_data_store("/store").expect("created");
    let globals = Globals::of(store.database("globals").expect("created")).expect("in the order of bytes");
    let a = globals.global("a").expect("a name");
    a.at(1).set(&mut store, "x").expect("set");
    assert_eq!(a.at("1").get(&store).expect("read").as_deref(), Some(&b"x"[..]));
    globals.clear(&mut store).expect("cleared");
    assert_eq!(globals.all(&store).count(), 0);

    let env = Env::builder().comparator("backwards", |a, b| b.cmp(a)).in_memory().expect("created");
    let ordered = env.database_ordered_by("d", "backwards").expect("created");
    assert_eq!(Globals::of(ordered).expect_err("an order of its own").kind(), ErrorKind::Invalid);
    let hashed = Env::in_memory().and_then(|env| env.database_as("hashed", Method::Hash)).expect("created");
    assert_eq!(Globals::of(hashed).expect_err("an order of its own").kind(), ErrorKind::Invalid);
}

#[test]
fn a_record_that_is_no_node_is_an_error_and_nothing_worse() {
    let (env, globals) = open();
    globals.global("a").and_then(|a| env.write(|txn| a.at(1).set(txn, ""))).expect("set");
    for key in [&b"a\0\x06"[..], b"a\0\x05x", b"a\0\x04", b"1", b"", b"a\0\x04\x81\x65\0", b"\xff\xff"] {
        globals.database().insert(key, "").expect("set");
        assert_eq!(globals.export(&env, &mut Vec::new()).expect_err("no node").kind(), ErrorKind::Invalid);
        let _ = names(globals.all(&env));
        let _ = names(globals.all(&env).rev());
        let a = globals.global("a").expect("a name");
        let _ = (names(a.children(&env)), names(a.children(&env).rev()));
        for node in a.nodes(&env).expect("read") {
            let (node, _) = node.expect("read");
            let _ = (node.next_sibling(&env), node.previous_sibling(&env), node.parent(), node.to_string());
        }
        assert!(globals.database().remove(key).expect("removed"));
    }
}

type Model = BTreeMap<Vec<Subscript<'static>>, Vec<u8>>;

fn a_subscript() -> impl Strategy<Value = Subscript<'static>> {
    prop_oneof![
        (-2i32..12).prop_map(Subscript::from),
        prop::sample::select(vec!["", "a", "a\0", "b", "\u{ff}"]).prop_map(Subscript::from)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn globals_are_a_tree(
        steps in prop::collection::vec((prop::collection::vec(a_subscript(), 0..4), 0..5u8), 1..60),
    ) {
        let (env, globals) = open();
        let root = globals.global("g").expect("a name");
        let node = |path: &[Subscript<'static>]| {
            path.iter().fold(root.clone(), |node, subscript| node.at(subscript.clone()))
        };
        let mut model = Model::new();
        for (path, what) in &steps {
            env.write(|txn| match what {
                0..=2 => node(path).set(txn, [*what]),
                3 => node(path).kill(txn),
                _ => node(path).kill_value(txn),
            }).expect("written");
            match what {
                0..=2 => drop(model.insert(path.clone(), vec![*what])),
                3 => model.retain(|other, _| !other.starts_with(path)),
                _ => drop(model.remove(path)),
            }
            let found: Vec<_> = root.nodes(&env).expect("read").map(|found| found.expect("read")).collect();
            let found: Vec<_> =
                found.into_iter().map(|(node, value)| (node.subscripts().expect("a node"), value)).collect();
            prop_assert_eq!(found, model.clone().into_iter().collect::<Vec<_>>());
            let below = |path: &[Subscript<'static>]| -> Vec<Subscript<'static>> {
                let mut below: Vec<_> = model
                    .keys()
                    .filter(|key| key.starts_with(path))
                    .filter_map(|key| key.get(path.len()).cloned())
                    .collect();
                below.dedup();
                below
            };
            let children: Vec<_> = node(path)
                .children(&env)
                .map(|child| child.expect("read").subscripts().expect("a node").pop().expect("one"))
                .collect();
            prop_assert_eq!(&children, &below(path));
            prop_assert_eq!(
                node(path).data(&env).expect("read"),
                Data { value: model.contains_key(path), children: !children.is_empty() }
            );
            if let Some((last, parent)) = path.split_last() {
                let siblings = below(parent);
                let last_of = |node: Option<Node<'_>>| {
                    node.map(|node| node.subscripts().expect("a node").pop().expect("one"))
                };
                prop_assert_eq!(
                    last_of(node(path).next_sibling(&env).expect("read")),
                    siblings.iter().find(|other| *other > last).cloned()
                );
                prop_assert_eq!(
                    last_of(node(path).previous_sibling(&env).expect("read")),
                    siblings.iter().rfind(|other| *other < last).cloned()
                );
            }
        }
    }
}
