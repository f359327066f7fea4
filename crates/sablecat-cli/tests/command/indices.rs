//! What the command shows of indices, and what it refuses, which has no extractors.

#![allow(clippy::unwrap_used, reason = "an error is a failed test")]

use crate::support::Scratch;
use sablecat::{Env, Index, IndexOptions, OnRemove};
use serde_json::json;

#[test]
fn indices_are_shown_read_copied_and_not_written() {
    let scratch = Scratch::new("indices");
    let open = |name: &str| {
        let builder = Env::builder().background(false).extractor("all", |_, value, keys| keys.push(value));
        builder.open(scratch.path().join(name)).unwrap()
    };
    let env = open("env");
    let (people, towns) = (env.database("people").unwrap(), env.database("towns").unwrap());
    let options = IndexOptions::new("all").unique(true).references(&towns, OnRemove::Refuse);
    env.index("by-town", &people, options).unwrap();
    towns.insert("rome", "").unwrap();
    people.insert("ada", "rome").unwrap();
    drop((people, towns));
    env.close().unwrap();

    let is = json!({ "of": "people", "extractor": "all", "unique": true, "references": "towns" });
    assert_eq!(scratch.json("stat env --json")["indices"], json!({ "by-town": is }));
    assert_eq!(scratch.json("stat env people --json")["indices"], json!({}));
    assert!(scratch.run("stat env").out.contains("by-town (index of people by \"all\")"));
    assert_eq!(scratch.run("get env --db people ada").out, "rome");
    assert_eq!(scratch.run("scan env --db by-town").out, "rome\tada\n", "which record has the index key");
    let refused = scratch.run("put env --db people eve rome");
    assert!(refused.code != 0 && refused.err.contains("Builder::extractor"), "{}", refused.err);
    let verified = scratch.json("verify env --json");
    assert_eq!((&verified["problems"], &verified["indices_not_compared"]), (&json!([]), &json!(["by-town"])));
    assert!(scratch.run("verify env").out.contains("index \"by-town\": its entries lead to records"));
    assert_eq!(scratch.run("backup env copy --json").code, 0);
    assert_eq!(scratch.run("restore copy restored").code, 0);
    let restored = open("restored");
    let index = Index::existing(&restored, "by-town").unwrap().unwrap();
    assert_eq!(index.verify(&restored).unwrap(), [""; 0]);
    assert_eq!(index.get(&restored, "rome").unwrap().unwrap().0, b"ada");
}

#[test]
fn what_is_dumped_is_loaded_without_indices_which_are_made_again() {
    let scratch = Scratch::new("indices-dumped");
    let open = |name: &str| {
        let builder = Env::builder().background(false).extractor("all", |_, value, keys| keys.push(value));
        builder.open(scratch.path().join(name)).unwrap()
    };
    let with_index = |env: &Env| {
        let people = env.database("people").unwrap();
        env.index("towns", &people, IndexOptions::new("all")).unwrap()
    };
    let env = open("env");
    let index = with_index(&env);
    index.primary().insert("ada", "rome").unwrap();
    index.primary().insert("eve", "rome").unwrap();
    drop(index);
    env.close().unwrap();
    assert_eq!(scratch.run("scan env --db towns --prefix r").out, "rome\tada\nrome\teve\n");
    assert_eq!(scratch.run("get env rome --db towns").out, "ada\neve\n");
    for call in ["put env rome ann --db towns", "del env rome --db towns"] {
        let refused = scratch.run(call);
        assert!(refused.code == 2 && refused.err.contains("index"), "{call}: {refused:?}");
    }

    for format in ["db", "db-print", "json"] {
        let dumped = scratch.run(&format!("dump env --format {format}"));
        assert_eq!(dumped.code, 0, "{format}: {}", dumped.err);
        assert!(dumped.err.contains("towns is left out: it is an index of people by \"all\""), "{format}");
        let loaded = scratch.run_with(&format!("load {format}"), dumped.out.as_bytes(), &[]);
        assert_eq!((loaded.code, &*loaded.out), (0, "2 records set\n"), "{format}: {}", loaded.err);
        let again = open(format);
        assert!(Index::existing(&again, "towns").unwrap().is_none(), "{format}");
        let index = with_index(&again);
        assert_eq!(index.verify(&again).unwrap(), [""; 0], "{format}");
        assert_eq!(index.count(&again, "rome").unwrap(), 2, "{format}");
        drop(index);
        again.close().unwrap();
    }
    let named = scratch.run("dump env --format db-print --db people --db towns");
    assert_eq!((named.code, &*named.err), (0, ""));
    assert!(named.out.contains("database=towns"), "{}", named.out);
}
