//! Cursors over keys with several values, against a model; what they refuse.

use std::cmp::Ordering;

use proptest::prelude::*;
use sablecat::{Duplicates, Env, ErrorKind, MultiCursor, MultiMap, Result, Write};

type Pair = (Vec<u8>, Vec<u8>);
/// What is done, and a key and a value for it.
type Step = (u8, Vec<u8>, Vec<u8>);

/// All pairs in order, and where a cursor stands among them: at one, or before one where another was.
#[derive(Debug)]
struct Model {
    sorted: bool,
    pairs: Vec<Pair>,
    cursor: At,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum At {
    Nowhere,
    Before,
    Record(usize),
    /// Of this key; what comes next is here.
    Gap(usize, Vec<u8>),
    After,
}

impl Model {
    fn key(&self) -> Option<&[u8]> {
        match &self.cursor {
            At::Record(n) => Some(&self.pairs[*n].0),
            At::Gap(_, key) => Some(key),
            _ => None,
        }
    }

    fn value(&self) -> Option<&[u8]> {
        match self.cursor {
            At::Record(n) => Some(&self.pairs[n].1),
            _ => None,
        }
    }

    /// Of what comes after and before where it stands.
    fn next(&self) -> usize {
        match self.cursor {
            At::Nowhere | At::Before => 0,
            At::Record(n) => n + 1,
            At::Gap(n, _) => n,
            At::After => self.pairs.len(),
        }
    }

    fn prev(&self) -> Option<usize> {
        match self.cursor {
            At::Nowhere | At::After => self.pairs.len(),
            At::Record(n) | At::Gap(n, _) => n,
            At::Before => 0,
        }
        .checked_sub(1)
    }

    /// Goes to one, or behind all.
    fn forward(&mut self, n: usize) {
        self.cursor = if n < self.pairs.len() { At::Record(n) } else { At::After };
    }

    /// Goes to one, or before all.
    fn backward(&mut self, n: Option<usize>) {
        self.cursor = n.map_or(At::Before, At::Record);
    }

    /// Where the pairs of a key begin and end.
    fn span(&self, key: &[u8]) -> (usize, usize) {
        (
            self.pairs.partition_point(|pair| *pair.0 < *key),
            self.pairs.partition_point(|pair| *pair.0 <= *key),
        )
    }

    /// The first with this value or, if they are sorted and it is asked for, one above it.
    fn find(&self, key: &[u8], value: &[u8], above: bool) -> Option<usize> {
        let (begin, end) = self.span(key);
        (begin..end).find(|&n| self.pairs[n].1 == value || above && *self.pairs[n].1 > *value)
    }

    fn insert(&mut self, n: usize, key: &[u8], value: &[u8]) {
        self.pairs.insert(n, (key.to_vec(), value.to_vec()));
        match &mut self.cursor {
            At::Record(at) if *at >= n => *at += 1,
            // Where something was, it is the keys that say on which side of that the new one is.
            At::Gap(at, of) if *at > n || *at == n && key < &of[..] => *at += 1,
            _ => {}
        }
    }

    fn remove(&mut self, n: usize) {
        let (key, _) = self.pairs.remove(n);
        self.cursor = match std::mem::replace(&mut self.cursor, At::Nowhere) {
            At::Record(at) if at == n => At::Gap(n, key),
            At::Record(at) if at > n => At::Record(at - 1),
            At::Gap(at, key) if at > n => At::Gap(at - 1, key),
            at => at,
        };
    }

    /// Where a value of a key goes, and whether it is there already.
    fn place(&self, key: &[u8], value: &[u8], first: bool) -> (usize, bool) {
        let (begin, end) = self.span(key);
        match self.find(key, value, true) {
            Some(n) if self.sorted => (n, self.pairs[n].1 == value),
            _ if first && !self.sorted => (begin, false),
            _ => (end, false),
        }
    }
}

/// One step, by a cursor and in the model; what both say must be the same.
fn step<W: Write>(
    (what, key, value): &Step,
    model: &mut Model,
    map: &MultiMap<W::Of>,
    cursor: &mut MultiCursor<W::Of>,
    txn: &mut W,
) -> Result<()> {
    let of_model = |found: Option<&[u8]>| found.map(<[u8]>::to_vec);
    // Where something was of this key, another may get the label that it had.
    let in_gap = matches!(&model.cursor, At::Gap(_, of) if of == key);
    match what {
        0 => {
            model.forward(0);
            assert_eq!(cursor.first(txn)?, model.key());
        }
        1 => {
            let n = model.pairs.len().checked_sub(1);
            model.backward(n);
            assert_eq!(cursor.last(txn)?, model.key());
        }
        2..=4 => {
            let n = model.next();
            model.forward(n);
            assert_eq!(cursor.next(txn)?, model.key());
        }
        5..=7 => {
            let n = model.prev();
            model.backward(n);
            assert_eq!(cursor.prev(txn)?, model.key());
        }
        8 | 9 => {
            let n = model.next();
            let has = model.key().is_some() && model.pairs.get(n).map(|pair| &*pair.0) == model.key();
            assert_eq!(cursor.next_of_key(txn)?, has);
            if has {
                model.cursor = At::Record(n);
            }
        }
        10 | 11 => {
            let n = model.prev().filter(|&n| model.key() == Some(&model.pairs[n].0));
            assert_eq!(cursor.prev_of_key(txn)?, n.is_some());
            if let Some(n) = n {
                model.cursor = At::Record(n);
            }
        }
        12 => {
            let n = model.key().map_or(model.next(), |key| model.span(key).1);
            model.forward(n);
            assert_eq!(cursor.next_key(txn)?, model.key());
        }
        13 => {
            let n = match model.key() {
                Some(key) => model.span(key).0.checked_sub(1),
                None => model.prev(),
            };
            model.backward(n);
            assert_eq!(cursor.prev_key(txn)?, model.key());
        }
        14 => {
            let (begin, end) = model.span(key);
            assert_eq!(cursor.seek(txn, key)?, begin < end);
            if begin < end {
                model.cursor = At::Record(begin);
            }
        }
        15 => {
            let n = model.span(key).0;
            model.forward(n);
            assert_eq!(cursor.at_or_after(txn, key)?, model.key());
        }
        16 => {
            let n = model.span(key).1.checked_sub(1);
            model.backward(n);
            assert_eq!(cursor.at_or_before(txn, key)?, model.key());
        }
        17 => {
            let n = model.find(key, value, false);
            assert_eq!(cursor.seek_pair(txn, key, value)?, n.is_some());
            if let Some(n) = n {
                model.cursor = At::Record(n);
            }
        }
        18 if model.sorted => {
            let n = model.find(key, value, true);
            assert_eq!(cursor.seek_pair_or_after(txn, key, value)?, n.is_some());
            if let Some(n) = n {
                model.cursor = At::Record(n);
            }
        }
        18 => {
            let error = cursor.seek_pair_or_after(txn, key, value).expect_err("not sorted");
            assert_eq!(error.kind(), ErrorKind::NotAllowed);
        }
        19 => match model.cursor.clone() {
            At::Record(n) if !model.sorted || model.pairs[n].1 == *value => {
                cursor.put(txn, value)?;
                model.pairs[n].1 = value.clone();
            }
            At::Gap(n, key) if !model.sorted => {
                cursor.put(txn, value)?;
                model.insert(n, &key, value);
                model.cursor = At::Record(n);
            }
            At::Gap(..) => {}
            _ => {
                let kind = cursor.put(txn, value).expect_err("refused").kind();
                let wanted = if model.key().is_some() { ErrorKind::NotAllowed } else { ErrorKind::Invalid };
                assert_eq!(kind, wanted);
            }
        },
        20..=23 => {
            let after = what % 2 == 1;
            let done = if after { cursor.insert_after(txn, value) } else { cursor.insert_before(txn, value) };
            let wanted = match &model.cursor {
                At::Record(_) | At::Gap(..) if !model.sorted => None,
                _ if model.sorted => Some(ErrorKind::NotAllowed),
                _ => Some(ErrorKind::Invalid),
            };
            assert_eq!(done.as_ref().err().map(sablecat::Error::kind), wanted);
            if done.is_ok() {
                let key = of_model(model.key()).expect("it stands at a key");
                let n = if after { model.next() } else { model.prev().map_or(0, |n| n + 1) };
                model.insert(n, &key, value);
                model.cursor = At::Record(n);
            }
        }
        24 | 25 if !in_gap => {
            let first = *what == 24;
            let (n, is_there) = model.place(key, value, first);
            let done = if first {
                cursor.insert_first(txn, key, value)
            } else {
                cursor.insert_last(txn, key, value)
            };
            assert_eq!(done?, !is_there);
            if !is_there {
                model.insert(n, key, value);
            }
            model.cursor = At::Record(n);
        }
        26 if !in_gap => {
            let found = model.find(key, value, false);
            assert_eq!(cursor.insert_new(txn, key, value)?, found.is_none());
            let n = found.unwrap_or_else(|| model.place(key, value, false).0);
            if found.is_none() {
                model.insert(n, key, value);
            }
            model.cursor = At::Record(n);
        }
        27 => {
            let n = match model.cursor {
                At::Record(n) => Some(n),
                _ => None,
            };
            assert_eq!(cursor.remove(txn)?, n.is_some());
            n.into_iter().for_each(|n| model.remove(n));
        }
        // By others, beside it.
        28 if !in_gap => {
            let (n, is_there) = model.place(key, value, false);
            assert_eq!(map.insert(txn, key, value)?, !is_there);
            if !is_there {
                model.insert(n, key, value);
            }
        }
        29 => {
            let n = model.find(key, value, false);
            assert_eq!(map.remove(txn, key, value)?, n.is_some());
            n.into_iter().for_each(|n| model.remove(n));
        }
        _ => {}
    }
    Ok(())
}

fn a_text() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', 0xff]), 0..3)
}

/// Pairs to begin with, in several pages: of some keys there are more values than a page has room for.
fn fill<W: Write>(model: &mut Model, map: &MultiMap<W::Of>, to: &mut W) -> Result<()> {
    for n in 0..150u8 {
        let (key, value) = (vec![b'a'; usize::from(n) % 7 / 3], vec![n; 1 + usize::from(n) % 9]);
        let (at, is_there) = model.place(&key, &value, false);
        assert!(map.insert(to, &key, &value)? && !is_there);
        model.insert(at, &key, &value);
    }
    Ok(())
}

/// Some steps, and after each whether all is as the model has it.
fn go<W: Write>(
    steps: &[Step],
    model: &mut Model,
    map: &MultiMap<W::Of>,
    cursor: &mut MultiCursor<W::Of>,
    to: &mut W,
) -> Result<()> {
    for one in steps {
        step(one, model, map, cursor, to)?;
        assert_eq!(cursor.key(), model.key(), "{one:?}");
        assert_eq!(cursor.value(to)?, model.value(), "{one:?}");
        let same = model.key().map_or(0, |key| {
            let (begin, end) = model.span(key);
            end - begin
        });
        assert_eq!(cursor.count(to)?, same as u64);
        let stands = (model.cursor != At::Nowhere).then_some(Ordering::Equal);
        assert_eq!(cursor.clone().compare(cursor)?, stands);
        let all: Vec<_> = map.range(&*to, ..)?.collect::<Result<_>>()?;
        assert_eq!(all, model.pairs, "{one:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_cursor_keeps_its_place_in_a_list_of_pairs(
        (sorted, filled) in any::<(bool, bool)>(),
        steps in prop::collection::vec((0u8..30, a_text(), a_text()), 1..120),
    ) {
        let small = || Env::builder().page_size(512).background(false);
        let order = if sorted { Duplicates::Sorted } else { Duplicates::Inserted };
        let mut model = Model { sorted, pairs: Vec::new(), cursor: At::Nowhere };
        let env = small().in_memory().expect("created");
        let map = MultiMap::open(&env, "d", order).expect("created");
        if filled {
            env.write(|txn| fill(&mut model, &map, txn)).expect("filled");
        }
        let mut cursor = map.cursor();
        for some in steps.chunks(7) {
            env.write(|txn| go(some, &mut model, &map, &mut cursor, txn)).expect("committed");
        }
        prop_assert_eq!(env.verify(&mut |_| {}).expect("read").problems, Vec::<String>::new());

        let mut store = small().data_store_in_memory().expect("created");
        let map = MultiMap::of(store.database("d").expect("created"), order).expect("of plain records");
        let mut model = Model { sorted, pairs: Vec::new(), cursor: At::Nowhere };
        if filled {
            fill(&mut model, &map, &mut store).expect("filled");
        }
        go(&steps, &mut model, &map, &mut map.cursor(), &mut store).expect("done");
        prop_assert_eq!(store.verify(&mut |_| {}).expect("read").problems, Vec::<String>::new());
    }
}

#[test]
fn thousands_between_two_keep_their_order_and_their_keys_short() -> Result<()> {
    let env = Env::in_memory()?;
    let map = MultiMap::open(&env, "d", Duplicates::Inserted)?;
    env.write(|txn| {
        let mut cursor = map.cursor();
        cursor.insert_last(txn, "k", "begin")?;
        cursor.insert_last(txn, "k", "end")?;
        cursor.prev(txn)?;
        let begin = cursor.clone();
        for n in 0..2000u32 {
            cursor.insert_after(txn, n.to_be_bytes())?;
            // Always at the same place.
            begin.clone().insert_after(txn, "before them")?;
        }
        Ok(())
    })?;
    let values: Vec<_> = map.values(&env, "k")?.collect::<Result<_>>()?;
    assert_eq!((values.len(), &*values[0], &*values[4001]), (4002, &b"begin"[..], &b"end"[..]));
    assert!(values[1..2001].iter().all(|value| value == b"before them"));
    assert!(values[2001..4001].iter().zip(0u32..).all(|(value, n)| *value == n.to_be_bytes()));
    let longest = map
        .database()
        .range(..)?
        .map(|record| record.map(|(key, _)| key.len()))
        .collect::<Result<Vec<_>>>()?;
    assert!(longest.into_iter().max() <= Some(32));
    Ok(())
}

/// The values of a key as `insert` numbered them before there was room below the first.
#[test]
fn before_a_first_value_of_old_numbers_there_is_no_room_and_after_it_there_is() -> Result<()> {
    let env = Env::in_memory()?;
    let map = MultiMap::open(&env, "d", Duplicates::Inserted)?;
    for n in 0..2u64 {
        map.database().insert([&b"k\0\x01"[..], &n.to_be_bytes()].concat(), [n as u8])?;
    }
    env.write(|txn| {
        let mut cursor = map.cursor();
        assert_eq!(cursor.insert_first(txn, "k", "first").expect_err("no room").kind(), ErrorKind::Invalid);
        assert_eq!(cursor.key(), None);
        cursor.first(txn)?;
        assert_eq!(cursor.insert_before(txn, "first").expect_err("no room").kind(), ErrorKind::Invalid);
        assert_eq!(cursor.value(txn)?, Some(&[0][..]));
        cursor.insert_after(txn, "between")?;
        map.insert(txn, "k", "last").map(drop)
    })?;
    let values: Vec<_> = map.values(&env, "k")?.collect::<Result<_>>()?;
    assert_eq!(values, [&[0][..], b"between", &[1], b"last"]);
    Ok(())
}

#[test]
fn two_who_put_values_at_one_place_have_both_there() -> Result<()> {
    let env = Env::in_memory()?;
    let map = MultiMap::open(&env, "d", Duplicates::Inserted)?;
    env.write(|txn| map.insert(txn, "k", "begin").map(drop))?;
    std::thread::scope(|scope| {
        for thread in 0..3u8 {
            let (env, map) = (&env, &map);
            scope.spawn(move || {
                for n in 0..40 {
                    env.write(|txn| {
                        let mut cursor = map.cursor();
                        cursor.first(txn)?;
                        cursor.insert_after(txn, [thread, n])
                    })
                    .expect("inserted");
                }
            });
        }
    });
    let values: Vec<_> = map.values(&env, "k")?.collect::<Result<_>>()?;
    assert_eq!(values.len(), 121);
    for thread in 0..3 {
        let of_one: Vec<u8> = values
            .iter()
            .filter(|value| value.len() == 2 && value[0] == thread)
            .map(|value| value[1])
            .collect();
        assert_eq!(of_one, (0..40).rev().collect::<Vec<_>>(), "the last is the first");
    }
    Ok(())
}

#[test]
fn cursors_of_other_databases_are_not_compared() -> Result<()> {
    let (env, other) = (Env::in_memory()?, Env::in_memory()?);
    let open = |env: &Env, name| MultiMap::open(env, name, Duplicates::Sorted);
    let (one, two, far) = (open(&env, "one")?, open(&env, "two")?, open(&other, "one")?);
    env.write(|txn| Ok(one.insert(txn, "a", "")? && one.insert(txn, "b", "")?))?;
    let (mut low, mut high) = (one.cursor(), one.cursor());
    assert_eq!(low.compare(&high)?, None);
    low.first(&env)?;
    high.last(&env)?;
    assert_eq!((low.compare(&high)?, high.compare(&low)?), (Some(Ordering::Less), Some(Ordering::Greater)));
    high.next(&env)?;
    assert_eq!(low.compare(&high)?, Some(Ordering::Less));
    for elsewhere in [two.cursor(), far.cursor()] {
        assert_eq!(low.compare(&elsewhere).expect_err("elsewhere").kind(), ErrorKind::Invalid);
    }
    Ok(())
}

#[test]
fn a_cursor_stays_where_it_is_if_what_comes_next_is_no_pair() -> Result<()> {
    let mut store = Env::builder().data_store_in_memory()?;
    let database = store.database("d")?;
    let map = MultiMap::of(database.clone(), Duplicates::Sorted)?;
    assert!(map.insert(&mut store, "a", "1")?);
    store.insert(&database, "b", "no pair")?;
    let mut cursor = map.cursor();
    assert_eq!(cursor.first(&store)?, Some(&b"a"[..]));
    for error in [
        cursor.next(&store).expect_err("no pair"),
        cursor.next_of_key(&store).expect_err("no pair"),
        cursor.next_key(&store).expect_err("no pair"),
        cursor.last(&store).expect_err("no pair"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    assert_eq!((cursor.key(), store.contains_key(&database, "b")?), (Some(&b"a"[..]), true));
    assert_eq!(cursor.value(&store)?, Some(&b"1"[..]));
    Ok(())
}
