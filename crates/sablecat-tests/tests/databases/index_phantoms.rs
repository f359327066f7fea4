//! Serialisable transactions that read through an index: whatever would alter an answer that one of them has
//! had is a conflict, and what is far from it is none.

use sablecat::{Database, Env, Index, IndexCursor, IndexOptions, Result, Txn};
use sablecat_tests::phantoms::{At, Tally, meet};

/// The index that is asked, and the others of the same records, which are joined with it.
struct Indices {
    by_key: Index,
    by_parity: Index,
    by_colour: Index,
}

/// What is asked: of the index, or by a cursor that stands somewhere.
type Ask = fn(&mut Txn<'_>, &Indices, &mut IndexCursor) -> Result<String>;

struct Look {
    name: String,
    at: At,
    from: Option<(&'static str, &'static str)>,
    ask: Ask,
    /// Whether the record is asked for as well to which the cursor then leads.
    and_value: bool,
}

/// The questions to the index, with where their answers are.
const INDEX: &[(&str, At, Ask)] = &[
    ("get", At::Middle, |txn, of, _| text(of.by_key.get(txn, "200"))),
    ("get, nothing", At::Middle, |txn, of, _| text(of.by_key.get(txn, "201"))),
    ("get_all", At::Middle, |txn, of, _| all(of.by_key.get_all(txn, "200")?)),
    ("get_all, backwards", At::Middle, |txn, of, _| all(of.by_key.get_all(txn, "200")?.rev())),
    ("get_all, the last", At::Middle, |txn, of, _| all(of.by_key.get_all(txn, "200")?.rev().take(1))),
    ("get_all, nothing", At::Middle, |txn, of, _| all(of.by_key.get_all(txn, "201")?)),
    ("contains_key", At::Middle, |txn, of, _| text(of.by_key.contains_key(txn, "200"))),
    ("contains_key, nothing", At::Middle, |txn, of, _| text(of.by_key.contains_key(txn, "201"))),
    ("count", At::Middle, |txn, of, _| text(of.by_key.count(txn, "200"))),
    ("count, nothing", At::Middle, |txn, of, _| text(of.by_key.count(txn, "201"))),
    ("keys", At::Middle, |txn, of, _| all(of.by_key.keys(txn, "199".."202")?)),
    ("keys, nothing", At::Middle, |txn, of, _| all(of.by_key.keys(txn, "2001".."202")?)),
    ("keys, everywhere", At::Everywhere, |txn, of, _| all(of.by_key.keys(txn, ..)?)),
    ("range", At::Middle, |txn, of, _| all(of.by_key.range(txn, "199".."203")?)),
    ("range, nothing", At::Middle, |txn, of, _| all(of.by_key.range(txn, "2001".."202")?)),
    ("range, from either end", At::Middle, |txn, of, _| {
        let mut range = of.by_key.range(txn, "199".."203")?;
        text(Ok((range.next().transpose()?, range.next_back().transpose()?)))
    }),
    ("range, everywhere", At::Everywhere, |txn, of, _| all(of.by_key.range(txn, ..)?)),
    ("join of one", At::Middle, |txn, of, _| all(Index::join(txn, &[(&of.by_key, b"200")])?)),
    ("join", At::Middle, |txn, of, _| all(Index::join(txn, &[(&of.by_key, b"200"), (&of.by_parity, b"0")])?)),
    ("join, the other first", At::Middle, |txn, of, _| {
        all(Index::join(txn, &[(&of.by_colour, b"200 red"), (&of.by_parity, b"0"), (&of.by_key, b"200")])?)
    }),
    ("join, nothing", At::Middle, |txn, of, _| {
        all(Index::join(txn, &[(&of.by_key, b"201"), (&of.by_parity, b"1")])?)
    }),
    ("join, nothing in common", At::Middle, |txn, of, _| {
        all(Index::join(txn, &[(&of.by_key, b"200"), (&of.by_colour, b"200 blue")])?)
    }),
    // It begins at the first record of the one index.
    ("join, the first", At::Everywhere, |txn, of, _| {
        all(Index::join(txn, &[(&of.by_parity, b"0"), (&of.by_key, b"200")])?.take(1))
    }),
    ("remove", At::Middle, |txn, of, _| text(of.by_key.remove(txn, "200"))),
    ("remove, nothing", At::Middle, |txn, of, _| text(of.by_key.remove(txn, "201"))),
];

/// What a cursor does from where it stands.
const MOVES: &[(&str, Ask)] = &[
    ("next", |txn, _, cursor| text(cursor.next(txn))),
    ("prev", |txn, _, cursor| text(cursor.prev(txn))),
    ("next_of_key", |txn, _, cursor| text(cursor.next_of_key(txn))),
    ("prev_of_key", |txn, _, cursor| text(cursor.prev_of_key(txn))),
    ("next_key", |txn, _, cursor| text(cursor.next_key(txn))),
    ("prev_key", |txn, _, cursor| text(cursor.prev_key(txn))),
    ("count", |txn, _, cursor| text(cursor.count(txn))),
    ("remove", |txn, _, cursor| text(cursor.remove(txn))),
    ("stay", |_, _, _| Ok(String::new())),
    ("five on", |txn, _, cursor| {
        text((0..5).map(|_| Ok(cursor.next(txn)?.map(<[u8]>::to_vec))).collect::<Result<Vec<_>>>())
    }),
];

/// What a cursor does wherever it stands.
const SEEKS: &[(&str, At, Ask)] = &[
    ("first", At::Begin, |txn, _, cursor| text(cursor.first(txn))),
    ("last", At::End, |txn, _, cursor| text(cursor.last(txn))),
    ("next, from nowhere", At::Begin, |txn, _, cursor| text(cursor.next(txn))),
    ("prev, from nowhere", At::End, |txn, _, cursor| text(cursor.prev(txn))),
    ("seek", At::Middle, |txn, _, cursor| text(cursor.seek(txn, "200"))),
    ("seek, nothing", At::Middle, |txn, _, cursor| text(cursor.seek(txn, "201"))),
    ("at_or_after", At::Middle, |txn, _, cursor| text(cursor.at_or_after(txn, "200"))),
    ("at_or_after, of none", At::Middle, |txn, _, cursor| text(cursor.at_or_after(txn, "201"))),
    ("at_or_after, nothing", At::End, |txn, _, cursor| text(cursor.at_or_after(txn, "399"))),
    ("at_or_before", At::Middle, |txn, _, cursor| text(cursor.at_or_before(txn, "200"))),
    ("at_or_before, of none", At::Middle, |txn, _, cursor| text(cursor.at_or_before(txn, "201"))),
    ("at_or_before, nothing", At::Begin, |txn, _, cursor| text(cursor.at_or_before(txn, "!"))),
    ("seek_pair", At::Middle, |txn, _, cursor| text(cursor.seek_pair(txn, "200", "p200b"))),
    ("seek_pair, nothing", At::Middle, |txn, _, cursor| text(cursor.seek_pair(txn, "200", "p200c"))),
    ("seek_pair, no key", At::Middle, |txn, _, cursor| text(cursor.seek_pair(txn, "201", "p201"))),
    ("seek_pair_or_after", At::Middle, |txn, _, cursor| text(cursor.seek_pair_or_after(txn, "200", "p200"))),
    ("seek_pair_or_after, nothing", At::Middle, |txn, _, cursor| {
        text(cursor.seek_pair_or_after(txn, "200", "p200z"))
    }),
    ("seek_pair_or_after, no key", At::Middle, |txn, _, cursor| {
        text(cursor.seek_pair_or_after(txn, "201", "p"))
    }),
];

fn text<T: std::fmt::Debug>(answer: Result<T>) -> Result<String> {
    answer.map(|answer| format!("{answer:?}"))
}

fn all<T: std::fmt::Debug>(found: impl Iterator<Item = Result<T>>) -> Result<String> {
    text(found.collect::<Result<Vec<_>>>())
}

/// All questions to an index. Of a cursor, each is asked with and without the record.
fn looks(unique: bool) -> Vec<Look> {
    let mut looks = Vec::new();
    for &(name, at, ask) in INDEX {
        looks.push(Look { name: name.into(), at, from: None, ask, and_value: false });
    }
    let mut starts = vec![
        (At::Middle, ("200", "p200b")),
        (At::Begin, ("000", if unique { "p000b" } else { "p000a" })),
        (At::End, ("398", if unique { "p398b" } else { "p398c" })),
    ];
    if !unique {
        starts.extend([(At::Middle, ("200", "p200a")), (At::Middle, ("200", "p200c"))]);
    }
    let moves = starts.into_iter().flat_map(|(at, from)| {
        MOVES.iter().map(move |&(name, ask)| (format!("{name} from {from:?}"), at, Some(from), ask))
    });
    let seeks = SEEKS.iter().map(|&(name, at, ask)| (name.to_owned(), at, None, ask));
    for (name, at, from, ask) in moves.chain(seeks) {
        // Where it stands a cursor knows by itself, and that no other record has a unique index key.
        let is_known = name.starts_with("stay") || unique && name.contains("_of_key");
        for and_value in [false, true].into_iter().filter(|&and_value| and_value || !is_known) {
            looks.push(Look { name: format!("cursor: {name}"), at, from, ask, and_value });
        }
    }
    looks
}

/// Changes of records by another transaction: a new value, or none.
type Change = &'static [(&'static str, Option<&'static str>)];

const CHANGES: &[(At, Change)] = &[
    (At::Middle, &[("p200aa", Some("200 red"))]),
    (At::Middle, &[("p200z", Some("200 red"))]),
    (At::Middle, &[("p", Some("200 red"))]),
    (At::Middle, &[("p200a", None)]),
    (At::Middle, &[("p200b", None)]),
    (At::Middle, &[("p200c", None)]),
    (At::Middle, &[("p200a", None), ("p200b", None), ("p200c", None)]),
    (At::Middle, &[("p200a", Some("201 red"))]),
    (At::Middle, &[("p200b", Some("201 red"))]),
    (At::Middle, &[("p200b", Some("199 red"))]),
    (At::Middle, &[("p200c", Some("2001 red"))]),
    (At::Middle, &[("p202b", Some("200 red"))]),
    (At::Middle, &[("p198b", Some("200 red"))]),
    // Only the record, and not its index key.
    (At::Middle, &[("p200a", Some("200 blue"))]),
    (At::Middle, &[("p200b", Some("200 blue"))]),
    (At::Middle, &[("p200c", Some("200 blue"))]),
    (At::Middle, &[("p198a", Some("198 blue"))]),
    (At::Middle, &[("p198b", Some("198 blue"))]),
    (At::Middle, &[("p198c", Some("198 blue"))]),
    (At::Middle, &[("p202a", Some("202 blue"))]),
    (At::Middle, &[("p202b", Some("202 blue"))]),
    // The same index key, of another record.
    (At::Middle, &[("p200b", None), ("p200d", Some("200 red"))]),
    (At::Middle, &[("p200b", None), ("p200zz", Some("200 red"))]),
    (At::Middle, &[("p200b", None), ("p200c", Some("200 red"))]),
    (At::Middle, &[("p200b", Some("202 red")), ("p202b", Some("200 red"))]),
    (At::Middle, &[("p201", Some("201 red"))]),
    (At::Middle, &[("p199", Some("199 red"))]),
    (At::Middle, &[("p198a", None), ("p198b", None), ("p198c", None)]),
    (At::Middle, &[("p202a", None), ("p202b", None), ("p202c", None)]),
    (At::Begin, &[("p000", Some("! red"))]),
    (At::Begin, &[("p", Some("000 red"))]),
    (At::Begin, &[("p000aa", Some("000 red"))]),
    (At::Begin, &[("p000a", None)]),
    (At::Begin, &[("p000b", None)]),
    (At::Begin, &[("p000b", None), ("p000c", None)]),
    (At::Begin, &[("p000b", Some("001 red"))]),
    (At::Begin, &[("p000a", Some("000 blue"))]),
    (At::Begin, &[("p000b", Some("000 blue"))]),
    (At::Begin, &[("p000b", None), ("p000d", Some("000 red"))]),
    (At::Begin, &[("p001", Some("001 red"))]),
    (At::End, &[("p399", Some("399 red"))]),
    (At::End, &[("p398z", Some("398 red"))]),
    (At::End, &[("p398bb", Some("398 red"))]),
    (At::End, &[("p398b", None)]),
    (At::End, &[("p398c", None)]),
    (At::End, &[("p398a", None), ("p398b", None)]),
    (At::End, &[("p398b", Some("397 red"))]),
    (At::End, &[("p398b", Some("398 blue"))]),
    (At::End, &[("p398c", Some("398 blue"))]),
    (At::End, &[("p398b", None), ("p398d", Some("398 red"))]),
    (At::End, &[("p397", Some("397 red"))]),
];

fn make(records: &Database, change: Change, unique: bool) -> Result<bool> {
    let made = records.env().write(|txn| {
        for (key, value) in change {
            match value {
                Some(value) => txn.insert(records, key, value)?,
                None => _ = txn.remove(records, key)?,
            }
        }
        Ok(())
    });
    match made {
        Ok(()) => Ok(true),
        // Another record has the index key.
        Err(_) if unique => Ok(false),
        Err(error) => Err(error),
    }
}

fn fill(records: &Database, numbers: impl Iterator<Item = u32>, unique: bool) -> Result<()> {
    let letters: &[_] = if unique { &["b"] } else { &["a", "b", "c"] };
    let record = |n: u32| letters.iter().map(move |one| (format!("p{n:03}{one}"), format!("{n:03} red")));
    records.insert_batch(numbers.flat_map(|n| record(2 * n))).map(drop)
}

/// Puts back what there was where something was changed.
fn restore(records: &Database, at: At, unique: bool) -> Result<()> {
    let (from, to, numbers) = match at {
        At::Begin => ("p0", "p010", 0..5),
        At::Middle => ("p19", "p21", 95..105),
        At::End => ("p39", "p4", 195..200),
        At::Everywhere => return Ok(()),
    };
    records.remove("p")?;
    records.remove_range(from..to)?;
    fill(records, numbers, unique)
}

fn whatever_alters_an_answer_is_a_conflict(unique: bool) -> Result<()> {
    let env = Env::builder()
        .page_size(512)
        .extractor("key", |_, value, keys| {
            keys.push(value.split(|&byte| byte == b' ').next().unwrap_or_default());
        })
        .extractor("colour", |_, value, keys| keys.push(value))
        .extractor("parity", |_, value, keys| {
            keys.push(if value[2] % 2 == 0 { "0" } else { "1" });
        })
        .in_memory()?;
    let records = env.database("records")?;
    let index = |name: &str, unique| {
        env.index(&format!("by {name}"), &records, IndexOptions::new(name).unique(unique))
    };
    let indices = Indices {
        by_key: index("key", unique)?,
        by_parity: index("parity", false)?,
        by_colour: index("colour", false)?,
    };
    fill(&records, 0..200, unique)?;
    for own in [false, true] {
        let looks = looks(unique).into_iter();
        for look in looks.filter(|look| !own || look.and_value || look.from.is_none()) {
            let mut tally = Tally::default();
            for &(at, change) in CHANGES {
                let mut stands = indices.by_key.cursor();
                if let Some((index_key, key)) = look.from {
                    assert!(stands.seek_pair(&env, index_key, key)?);
                }
                let ask = |txn: &mut Txn<'_>| {
                    if own {
                        // Over changes of its own, that nobody else looks at.
                        txn.insert(&records, "p2045", "2045 green")?;
                        txn.remove(&records, "p196b")?;
                    }
                    let mut cursor = stands.clone();
                    let answer = (look.ask)(txn, &indices, &mut cursor)?;
                    if !look.and_value {
                        return Ok(answer);
                    }
                    let value = text(cursor.value(txn))?;
                    Ok(format!("{answer} {value} {:?}", cursor.primary_key()))
                };
                let mut made = true;
                let met = meet(&env, ask, || made = make(&records, change, unique).expect("changed"))?;
                if made {
                    let is_far = look.at != At::Everywhere && look.at != at && (!own || at != At::Middle);
                    tally.note(&met, is_far, || {
                        format!("{}, value {}, own {own}, {change:?}", look.name, look.and_value)
                    });
                }
                for place in [At::Middle, look.at, at] {
                    restore(&records, place, unique)?;
                }
            }
            tally.finish(look.at, &look.name);
        }
    }
    Ok(())
}

#[test]
fn whatever_alters_an_answer_of_an_index_is_a_conflict() -> Result<()> {
    whatever_alters_an_answer_is_a_conflict(false)
}

#[test]
fn whatever_alters_an_answer_of_a_unique_index_is_a_conflict() -> Result<()> {
    whatever_alters_an_answer_is_a_conflict(true)
}
