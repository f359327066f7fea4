//! Serialisable transactions that read keys with several values: whatever would alter an answer that one of
//! them has had is a conflict, and what is far from it is none.

use std::ops::ControlFlow;

use sablecat::{Duplicates, Env, ErrorKind, Isolation, MultiCursor, MultiMap, Result, Txn, TxnOptions};
use sablecat_tests::phantoms::{At, Tally, meet};

type Pair = (&'static str, &'static str);

/// What is asked: of the map, or by a cursor that stands somewhere.
type Ask = fn(&mut Txn<'_>, &MultiMap, &mut MultiCursor) -> Result<String>;

struct Look {
    name: String,
    at: At,
    from: Option<Pair>,
    ask: Ask,
    /// Whether the value is asked for as well at which the cursor then stands.
    and_value: bool,
}

const ANY: &[Duplicates] = &[Duplicates::Sorted, Duplicates::Inserted];
const SORTED: &[Duplicates] = &[Duplicates::Sorted];

/// The questions to the map, with where their answers are, and of which orders of values they are asked.
const MAP: &[(&str, At, &[Duplicates], Ask)] = &[
    ("get", At::Middle, ANY, |txn, map, _| text(map.get(txn, "200"))),
    ("get, nothing", At::Middle, ANY, |txn, map, _| text(map.get(txn, "201"))),
    ("contains_key", At::Middle, ANY, |txn, map, _| text(map.contains_key(txn, "200"))),
    ("contains_key, nothing", At::Middle, ANY, |txn, map, _| text(map.contains_key(txn, "201"))),
    ("contains", At::Middle, ANY, |txn, map, _| text(map.contains(txn, "200", "d"))),
    ("contains, nothing", At::Middle, ANY, |txn, map, _| text(map.contains(txn, "200", "c"))),
    ("contains, no key", At::Middle, ANY, |txn, map, _| text(map.contains(txn, "201", "x"))),
    ("count", At::Middle, ANY, |txn, map, _| text(map.count(txn, "200"))),
    ("count, nothing", At::Middle, ANY, |txn, map, _| text(map.count(txn, "201"))),
    ("values", At::Middle, ANY, |txn, map, _| all(map.values(txn, "200")?)),
    ("values, nothing", At::Middle, ANY, |txn, map, _| all(map.values(txn, "201")?)),
    ("values, the first", At::Middle, ANY, |txn, map, _| all(map.values(txn, "200")?.take(1))),
    ("values, backwards", At::Middle, ANY, |txn, map, _| all(map.values(txn, "200")?.rev())),
    ("values, the last", At::Middle, ANY, |txn, map, _| all(map.values(txn, "200")?.rev().take(1))),
    ("values_from", At::Middle, SORTED, |txn, map, _| all(map.values_from(txn, "200", "c")?)),
    ("values_from, nothing", At::Middle, SORTED, |txn, map, _| all(map.values_from(txn, "200", "g")?)),
    ("range", At::Middle, ANY, |txn, map, _| all(map.range(txn, "199".."202")?)),
    ("range, nothing", At::Middle, ANY, |txn, map, _| all(map.range(txn, "2001".."202")?)),
    ("range, from either end", At::Middle, ANY, |txn, map, _| {
        let mut range = map.range(txn, "199".."202")?;
        text(Ok((range.next().transpose()?, range.next_back().transpose()?)))
    }),
    ("range, everywhere", At::Everywhere, ANY, |txn, map, _| all(map.range(txn, ..)?)),
    ("fold", At::Middle, ANY, |txn, map, _| folded(txn, map, "199", "202", usize::MAX)),
    ("fold, to some", At::Middle, ANY, |txn, map, _| folded(txn, map, "199", "209", 2)),
    ("fold, nothing", At::Middle, ANY, |txn, map, _| folded(txn, map, "2001", "202", usize::MAX)),
    ("fold, everywhere", At::Everywhere, ANY, |txn, map, _| folded(txn, map, "", "999", usize::MAX)),
    ("next_key", At::Middle, ANY, |txn, map, _| text(map.next_key(txn, Some(b"200")))),
    ("next_key, of none", At::Middle, ANY, |txn, map, _| text(map.next_key(txn, Some(b"1999")))),
    ("next_key, nothing", At::End, ANY, |txn, map, _| text(map.next_key(txn, Some(b"398")))),
    ("next_key, the first", At::Begin, ANY, |txn, map, _| text(map.next_key(txn, None))),
    ("prev_key", At::Middle, ANY, |txn, map, _| text(map.prev_key(txn, Some(b"202")))),
    ("prev_key, of none", At::Middle, ANY, |txn, map, _| text(map.prev_key(txn, Some(b"2011")))),
    ("prev_key, nothing", At::Begin, ANY, |txn, map, _| text(map.prev_key(txn, Some(b"000")))),
    ("prev_key, the last", At::End, ANY, |txn, map, _| text(map.prev_key(txn, None))),
    // What a change says of what it has found is an answer as well.
    ("insert, is there", At::Middle, SORTED, |txn, map, _| text(map.insert(txn, "200", "d"))),
    ("insert, is new", At::Middle, SORTED, |txn, map, _| text(map.insert(txn, "200", "c"))),
    ("remove", At::Middle, ANY, |txn, map, _| text(map.remove(txn, "200", "d"))),
    ("remove, nothing", At::Middle, ANY, |txn, map, _| text(map.remove(txn, "200", "c"))),
    ("remove_all", At::Middle, ANY, |txn, map, _| text(map.remove_all(txn, "200"))),
    ("remove_all, nothing", At::Middle, ANY, |txn, map, _| text(map.remove_all(txn, "201"))),
    ("cursor: insert_new, is there", At::Middle, ANY, |txn, _, cursor| {
        text(cursor.insert_new(txn, "200", "d"))
    }),
    ("cursor: insert_new", At::Middle, ANY, |txn, _, cursor| text(cursor.insert_new(txn, "200", "c"))),
    ("cursor: insert_first", At::Middle, SORTED, |txn, _, cursor| text(cursor.insert_first(txn, "200", "c"))),
    ("cursor: insert_last", At::Middle, SORTED, |txn, _, cursor| text(cursor.insert_last(txn, "200", "d"))),
];

/// What a cursor does from where it stands.
const MOVES: &[(&str, Ask)] = &[
    ("next", |txn, _, cursor| moved(cursor.next(txn))),
    ("prev", |txn, _, cursor| moved(cursor.prev(txn))),
    ("next_of_key", |txn, _, cursor| text(cursor.next_of_key(txn))),
    ("prev_of_key", |txn, _, cursor| text(cursor.prev_of_key(txn))),
    ("next_key", |txn, _, cursor| moved(cursor.next_key(txn))),
    ("prev_key", |txn, _, cursor| moved(cursor.prev_key(txn))),
    ("count", |txn, _, cursor| text(cursor.count(txn))),
    ("value", |txn, _, cursor| text(cursor.value(txn).map(|value| value.map(<[u8]>::to_vec)))),
    ("remove", |txn, _, cursor| text(cursor.remove(txn))),
    ("five on", |txn, _, cursor| {
        text((0..5).map(|_| Ok(cursor.next(txn)?.map(<[u8]>::to_vec))).collect::<Result<Vec<_>>>())
    }),
    ("on and back", |txn, _, cursor| {
        cursor.next(txn)?;
        cursor.prev(txn)?;
        moved(cursor.prev_key(txn))
    }),
];

/// What a cursor does wherever it stands.
const SEEKS: &[(&str, At, &[Duplicates], Ask)] = &[
    ("first", At::Begin, ANY, |txn, _, cursor| moved(cursor.first(txn))),
    ("last", At::End, ANY, |txn, _, cursor| moved(cursor.last(txn))),
    ("next, from nowhere", At::Begin, ANY, |txn, _, cursor| moved(cursor.next(txn))),
    ("prev, from nowhere", At::End, ANY, |txn, _, cursor| moved(cursor.prev(txn))),
    ("seek", At::Middle, ANY, |txn, _, cursor| text(cursor.seek(txn, "200"))),
    ("seek, nothing", At::Middle, ANY, |txn, _, cursor| text(cursor.seek(txn, "201"))),
    ("at_or_after", At::Middle, ANY, |txn, _, cursor| moved(cursor.at_or_after(txn, "200"))),
    ("at_or_after, of none", At::Middle, ANY, |txn, _, cursor| moved(cursor.at_or_after(txn, "201"))),
    ("at_or_after, nothing", At::End, ANY, |txn, _, cursor| moved(cursor.at_or_after(txn, "399"))),
    ("at_or_before", At::Middle, ANY, |txn, _, cursor| moved(cursor.at_or_before(txn, "200"))),
    ("at_or_before, of none", At::Middle, ANY, |txn, _, cursor| moved(cursor.at_or_before(txn, "201"))),
    ("at_or_before, nothing", At::Begin, ANY, |txn, _, cursor| moved(cursor.at_or_before(txn, "!"))),
    ("seek_pair", At::Middle, ANY, |txn, _, cursor| text(cursor.seek_pair(txn, "200", "d"))),
    ("seek_pair, nothing", At::Middle, ANY, |txn, _, cursor| text(cursor.seek_pair(txn, "200", "c"))),
    ("seek_pair, no key", At::Middle, ANY, |txn, _, cursor| text(cursor.seek_pair(txn, "201", "x"))),
    ("seek_pair_or_after", At::Middle, SORTED, |txn, _, cursor| {
        text(cursor.seek_pair_or_after(txn, "200", "c"))
    }),
    ("seek_pair_or_after, nothing", At::Middle, SORTED, |txn, _, cursor| {
        text(cursor.seek_pair_or_after(txn, "200", "g"))
    }),
    ("seek_pair_or_after, no key", At::Middle, SORTED, |txn, _, cursor| {
        text(cursor.seek_pair_or_after(txn, "201", "a"))
    }),
];

fn text<T: std::fmt::Debug>(answer: Result<T>) -> Result<String> {
    answer.map(|answer| format!("{answer:?}"))
}

fn moved(key: Result<Option<&[u8]>>) -> Result<String> {
    text(key)
}

fn all<T: std::fmt::Debug>(found: impl Iterator<Item = Result<T>>) -> Result<String> {
    text(found.collect::<Result<Vec<_>>>())
}

fn folded(txn: &Txn<'_>, map: &MultiMap, from: &str, to: &str, some: usize) -> Result<String> {
    text(map.fold(txn, from..to, Vec::new(), |mut pairs, key, value| {
        pairs.push((key.to_vec(), value.to_vec()));
        if pairs.len() < some { ControlFlow::Continue(pairs) } else { ControlFlow::Break(pairs) }
    }))
}

/// All questions to a map of this order. Of a cursor, each is asked with and without the value.
fn looks(order: Duplicates) -> Vec<Look> {
    let is = |orders: &[Duplicates]| orders.contains(&order);
    let mut looks = Vec::new();
    for &(name, at, _, ask) in MAP.iter().filter(|look| is(look.2)) {
        looks.push(Look { name: name.into(), at, from: None, ask, and_value: false });
    }
    let [first, ..] = values(order);
    let starts = ["b", "d", "f"]
        .map(|value| (At::Middle, ("200", value)))
        .into_iter()
        .chain([(At::Begin, ("000", first)), (At::End, ("398", "f"))]);
    let moves = starts.flat_map(|(at, from)| {
        MOVES.iter().map(move |&(name, ask)| (format!("{name} from {from:?}"), at, Some(from), ask))
    });
    let seeks = SEEKS.iter().filter(|look| is(look.2)).map(|look| (look.0.to_owned(), look.1, None, look.3));
    for (name, at, from, ask) in moves.chain(seeks) {
        for and_value in [false, true] {
            looks.push(Look { name: format!("cursor: {name}"), at, from, ask, and_value });
        }
    }
    looks
}

/// What another transaction does.
#[derive(Clone, Copy, Debug)]
enum Change {
    Add(Pair),
    First(Pair),
    Remove(Pair),
    Clear(&'static str),
    /// Another value for one, in its place; of two in order, this is one less and one more.
    Put(Pair, &'static str),
}

const CHANGES: &[(At, Change)] = &[
    (At::Middle, Change::Add(("200", "c"))),
    (At::Middle, Change::Add(("200", ""))),
    (At::Middle, Change::Add(("200", "z"))),
    (At::Middle, Change::First(("200", "a"))),
    (At::Middle, Change::Remove(("200", "b"))),
    (At::Middle, Change::Remove(("200", "d"))),
    (At::Middle, Change::Remove(("200", "f"))),
    (At::Middle, Change::Clear("200")),
    (At::Middle, Change::Put(("200", "b"), "bb")),
    (At::Middle, Change::Put(("200", "d"), "dd")),
    (At::Middle, Change::Put(("200", "f"), "ff")),
    (At::Middle, Change::Add(("199", "x"))),
    (At::Middle, Change::Add(("2", "x"))),
    (At::Middle, Change::Add(("200\0", "x"))),
    (At::Middle, Change::Add(("201", "x"))),
    (At::Middle, Change::Clear("198")),
    (At::Middle, Change::Clear("202")),
    (At::Begin, Change::Add(("", "x"))),
    (At::Begin, Change::First(("000", "a"))),
    (At::Begin, Change::Remove(("000", "b"))),
    (At::Begin, Change::Remove(("000", "d"))),
    (At::Begin, Change::Put(("000", "b"), "bb")),
    (At::Begin, Change::Put(("000", "d"), "dd")),
    (At::Begin, Change::Clear("000")),
    (At::Begin, Change::Add(("001", "x"))),
    (At::End, Change::Add(("399", "x"))),
    (At::End, Change::Add(("398", "z"))),
    (At::End, Change::Remove(("398", "f"))),
    (At::End, Change::Put(("398", "f"), "ff")),
    (At::End, Change::Clear("398")),
    (At::End, Change::Add(("397", "x"))),
];

impl Change {
    fn make(self, map: &MultiMap) -> Result<()> {
        if let Change::Add((key, value)) = self {
            return map.insert_one(key, value);
        }
        map.database().env().write(|txn| match self {
            Change::Add(_) => Ok(()),
            Change::First((key, value)) => map.cursor().insert_first(txn, key, value).map(drop),
            Change::Remove((key, value)) => map.remove(txn, key, value).map(drop),
            Change::Clear(key) => map.remove_all(txn, key).map(drop),
            Change::Put((key, value), other) => {
                let mut cursor = map.cursor();
                assert!(cursor.seek_pair(txn, key, value)?);
                if map.order() == Duplicates::Inserted {
                    return cursor.put(txn, other);
                }
                cursor.remove(txn)?;
                map.insert(txn, key, other).map(drop)
            }
        })
    }
}

/// A key's values, in their order.
fn values(order: Duplicates) -> [&'static str; 3] {
    if order == Duplicates::Sorted { ["b", "d", "f"] } else { ["d", "b", "f"] }
}

fn fill(map: &MultiMap, numbers: impl Iterator<Item = u32> + Clone) -> Result<()> {
    map.database().env().write(|txn| {
        for n in numbers.clone().map(|n| 2 * n) {
            for value in values(map.order()) {
                map.insert(txn, format!("{n:03}"), value)?;
            }
        }
        Ok(())
    })
}

/// Puts back what there was where something was changed.
fn restore(map: &MultiMap, at: At) -> Result<()> {
    let (from, to, numbers) = match at {
        At::Begin => ("", "010", 0..5),
        At::Middle => ("19", "21", 95..105),
        At::End => ("39", "4", 195..200),
        At::Everywhere => return Ok(()),
    };
    // Keys with several values are in the order of their bytes.
    map.database().remove_range(from..to)?;
    fill(map, numbers)
}

fn whatever_alters_an_answer_is_a_conflict(order: Duplicates) -> Result<()> {
    let env = Env::builder().page_size(512).in_memory()?;
    let map = MultiMap::open(&env, "map", order)?;
    fill(&map, 0..200)?;
    let looks = looks(order);
    for own in [false, true] {
        for look in &looks {
            let mut tally = Tally::default();
            for &(at, change) in CHANGES {
                let mut stands = map.cursor();
                if let Some((key, value)) = look.from {
                    assert!(stands.seek_pair(&env, key, value)?);
                }
                let ask = |txn: &mut Txn<'_>| {
                    if own {
                        // Over changes of its own, that nobody else looks at.
                        map.insert(txn, "2005", "own")?;
                        map.remove(txn, "196", "d")?;
                    }
                    let mut cursor = stands.clone();
                    let answer = (look.ask)(txn, &map, &mut cursor)?;
                    let value = if look.and_value { text(cursor.value(txn))? } else { String::new() };
                    Ok(answer + &value)
                };
                let met = meet(&env, ask, || change.make(&map).expect("changed"))?;
                let is_far = look.at != At::Everywhere && look.at != at && (!own || at != At::Middle);
                tally.note(&met, is_far, || {
                    format!("{}, value {}, own {own}, {change:?}", look.name, look.and_value)
                });
                for place in [At::Middle, look.at, at] {
                    restore(&map, place)?;
                }
            }
            tally.finish(look.at, &look.name);
        }
    }
    Ok(())
}

#[test]
fn whatever_alters_an_answer_of_sorted_values_is_a_conflict() -> Result<()> {
    whatever_alters_an_answer_is_a_conflict(Duplicates::Sorted)
}

#[test]
fn whatever_alters_an_answer_of_values_as_they_came_is_a_conflict() -> Result<()> {
    whatever_alters_an_answer_is_a_conflict(Duplicates::Inserted)
}

/// Labels say where each value goes between others: of two that are made for one place, both must not be
/// kept under one.
#[test]
fn values_that_two_add_at_one_place_are_both_there_or_one_is_refused() -> Result<()> {
    type Add = fn(&mut Txn<'_>, &mut MultiCursor, &str) -> Result<()>;
    let adds: [Add; 4] = [
        |txn, cursor, value| cursor.insert_before(txn, value),
        |txn, cursor, value| cursor.insert_after(txn, value),
        |txn, cursor, value| cursor.insert_first(txn, "200", value).map(drop),
        |txn, cursor, value| cursor.insert_last(txn, "200", value).map(drop),
    ];
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        for (n, other) in (0..16).map(|n| (n / 4, n % 4)) {
            let env = Env::in_memory()?;
            let map = MultiMap::open(&env, "map", Duplicates::Inserted)?;
            fill(&map, 99..102)?;
            let options = TxnOptions::new().isolation(isolation);
            let mut one = env.begin_with(options)?;
            let mut cursor = map.cursor();
            assert!(cursor.seek_pair(&env, "200", "b")?);
            adds[n](&mut one, &mut cursor.clone(), "one")?;
            env.write_with(options, |txn| adds[other](txn, &mut cursor.clone(), "other"))?;
            let refused = match one.commit() {
                Ok(_) => false,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Conflict);
                    true
                }
            };
            assert!(refused || n != other, "one place: {isolation:?}, {n}");
            let found = map.values(&env, "200")?.collect::<Result<Vec<_>>>()?;
            assert_eq!(found.len(), if refused { 4 } else { 5 }, "{isolation:?}, {n} and {other}");
            let old = found.iter().filter(|value| !value.starts_with(b"o"));
            assert!(old.eq(["d", "b", "f"].map(str::as_bytes)), "{isolation:?}, {n} and {other}");
        }
    }
    Ok(())
}
