//! Keys with several values, against a model.

use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::prelude::*;
use sablecat::{Duplicates, Env, ErrorKind, Method, MultiMap, Prefix};

type Model = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

fn pairs(model: &Model) -> Vec<(Vec<u8>, Vec<u8>)> {
    model.iter().flat_map(|(key, values)| values.iter().map(|value| (key.clone(), value.clone()))).collect()
}

/// Bytes that come near to what ends keys.
fn a_text() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0u8, 0, 1, 2, b'a', 0xff]), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn it_is_a_map_of_lists(
        sorted in any::<bool>(),
        steps in prop::collection::vec((0u8..6, a_text(), a_text()), 1..60),
    ) {
        let env = Env::in_memory().expect("created");
        let order = if sorted { Duplicates::Sorted } else { Duplicates::Inserted };
        let map = MultiMap::open(&env, "d", order).expect("created");
        let mut model = Model::new();
        for (what, key, value) in &steps {
            let values = model.entry(key.clone()).or_default();
            env.write(|txn| {
                match what {
                    0..=3 => {
                        let place = if sorted { values.binary_search(value) } else { Err(values.len()) };
                        assert_eq!(map.insert(txn, key, value)?, place.is_err());
                        if let Err(place) = place {
                            values.insert(place, value.clone());
                        }
                    }
                    4 => assert_eq!(map.remove_all(txn, key)?, std::mem::take(values).len() as u64),
                    _ => {
                        let place = values.iter().position(|other| other == value);
                        assert_eq!(map.remove(txn, key, value)?, place.is_some());
                        if let Some(place) = place {
                            values.remove(place);
                        }
                    }
                }
                Ok(())
            }).expect("written");
            let (first, count) = (values.first().cloned(), values.len() as u64);
            let (has, values) = (values.contains(value), values.clone());
            model.retain(|_, values| !values.is_empty());
            prop_assert_eq!(map.get(&env, key).expect("read"), first);
            prop_assert_eq!(map.contains_key(&env, key).expect("read"), count > 0);
            prop_assert_eq!(map.contains(&env, key, value).expect("read"), has);
            prop_assert_eq!(map.count(&env, key).expect("read"), count);
            let read: Vec<_> = map.values(&env, key).expect("read").rev().map(|value| value.expect("read")).collect();
            prop_assert_eq!(read, values.iter().rev().cloned().collect::<Vec<_>>());
            if sorted {
                let read: Vec<_> = map.values_from(&env, key, value).expect("read").map(|value| value.expect("read")).collect();
                prop_assert_eq!(read, values.into_iter().filter(|other| other >= value).collect::<Vec<_>>());
            }
            let all: Vec<_> = map.range(&env, ..).expect("read").map(|pair| pair.expect("read")).collect();
            prop_assert_eq!(all, pairs(&model));
            let (after, before) = (map.next_key(&env, Some(key)).expect("read"), map.prev_key(&env, Some(key)).expect("read"));
            prop_assert_eq!(after.as_ref(), model.range::<[u8], _>((Bound::Excluded(&key[..]), Bound::Unbounded)).next().map(|(key, _)| key));
            prop_assert_eq!(before.as_ref(), model.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(&key[..]))).next_back().map(|(key, _)| key));
            prop_assert_eq!(map.next_key(&env, None).expect("read"), model.keys().next().cloned());
            prop_assert_eq!(map.prev_key(&env, None).expect("read"), model.keys().next_back().cloned());
            for (low, high) in [(key, value), (value, key)] {
                for bounds in [
                    (Bound::Included(low.clone()), Bound::Included(high.clone())),
                    (Bound::Excluded(low.clone()), Bound::Excluded(high.clone())),
                ] {
                    let read: Vec<_> = map.range(&env, bounds.clone()).expect("read").map(|pair| pair.expect("read")).collect();
                    let within = |key: &Vec<u8>| std::ops::RangeBounds::contains(&bounds, key);
                    prop_assert_eq!(read, pairs(&model).into_iter().filter(|(key, _)| within(key)).collect::<Vec<_>>());
                }
            }
            let read: Vec<_> = map.range(&env, Prefix(value)).expect("read").map(|pair| pair.expect("read")).collect();
            prop_assert_eq!(read, pairs(&model).into_iter().filter(|(key, _)| key.starts_with(value)).collect::<Vec<_>>());
        }
    }
}

#[test]
fn values_inserted_at_once_are_all_there() {
    for order in [Duplicates::Sorted, Duplicates::Inserted] {
        let env = Env::in_memory().expect("created");
        let map = MultiMap::open(&env, "d", order).expect("created");
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let (env, map) = (&env, &map);
                scope.spawn(move || {
                    (0..50u8)
                        .try_for_each(|n| env.write(|txn| map.insert(txn, "key", [thread, n]).map(drop)))
                        .expect("inserted");
                });
            }
        });
        assert_eq!(map.count(&env, "key").expect("counted"), 200);
        let of_one: Vec<_> = map
            .values(&env, "key")
            .expect("read")
            .map(|value| value.expect("read"))
            .filter(|value| value[0] == 2)
            .collect();
        assert_eq!(
            of_one,
            (0..50u8).map(|n| vec![2, n]).collect::<Vec<_>>(),
            "each thread's are in its order"
        );
    }
}

#[test]
fn what_is_of_another_kind_is_an_error() {
    let env = Env::builder().comparator("backwards", |a, b| b.cmp(a)).in_memory().expect("created");
    let ordered = env.database_ordered_by("ordered", "backwards").expect("created");
    assert_eq!(
        MultiMap::of(ordered, Duplicates::Sorted).expect_err("an order of its own").kind(),
        ErrorKind::Invalid
    );
    let hashed = Env::in_memory().and_then(|env| env.database_as("hashed", Method::Hash)).expect("created");
    assert_eq!(
        MultiMap::of(hashed, Duplicates::Sorted).expect_err("an order of its own").kind(),
        ErrorKind::Invalid
    );
    let map = MultiMap::open(&env, "d", Duplicates::Inserted).expect("created");
    for record in [&b"k"[..], b"k\0", b"k\0\x02", b"k\0\x03x"] {
        map.database().insert(record, "").expect("inserted");
        let read: Vec<_> = map.range(&env, ..).expect("read").collect();
        assert!(read.len() == 1 && read[0].as_ref().is_err_and(|error| error.kind() == ErrorKind::Invalid));
        assert!(map.next_key(&env, None).is_err() && map.prev_key(&env, None).is_err());
        map.database().remove(record).expect("removed");
    }
    // Written as sorted, or at the end of what can be numbered.
    for record in [&b"k\0\x01value"[..], b"k\0\x01\xff\xff\xff\xff\xff\xff\xff\xff"] {
        map.database().insert(record, "").expect("inserted");
        let error = env.write(|txn| map.insert(txn, "k", "v")).expect_err("another order");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        map.database().remove(record).expect("removed");
    }
    assert_eq!(map.values_from(&env, "k", "v").expect_err("not sorted").kind(), ErrorKind::NotAllowed);
}

#[test]
fn long_keys_and_values_fit_as_far_as_keys_do() {
    let env = Env::in_memory().expect("created");
    let sorted = MultiMap::open(&env, "sorted", Duplicates::Sorted).expect("created");
    let inserted = MultiMap::open(&env, "inserted", Duplicates::Inserted).expect("created");
    env.write(|txn| {
        sorted.insert(txn, vec![b'k'; 3000], vec![b'v'; 40_000])?;
        assert_eq!(
            sorted.insert(txn, "k", vec![0; 70_000]).expect_err("too long").kind(),
            ErrorKind::Invalid
        );
        inserted.insert(txn, vec![0; 3000], vec![b'v'; 70_000])?;
        Ok(())
    })
    .expect("committed");
    assert_eq!(sorted.get(&env, vec![b'k'; 3000]).expect("read"), Some(vec![b'v'; 40_000]));
    assert_eq!(inserted.get(&env, vec![0; 3000]).expect("read"), Some(vec![b'v'; 70_000]));
}
