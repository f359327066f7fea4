//! Databases with types.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use sablecat::typed::{Key, KeyBytes, Typed, Value};
use sablecat::{Env, ErrorKind, Method};
use sablecat_os::sim::SimDisk;

fn env() -> Env {
    Env::in_memory().expect("created")
}

/// Keys of a kind sort as their values do, and are read back.
fn keys_sort<K: Key + Ord + Clone + std::fmt::Debug>(values: &[K]) {
    for one in values {
        assert_eq!(K::from_key_bytes(&one.key_bytes()).expect("a key"), *one);
        for other in values {
            assert_eq!(one.key_bytes().cmp(&other.key_bytes()), one.cmp(other), "{one:?} and {other:?}");
        }
    }
}

fn values_come_back<V: Value + PartialEq + std::fmt::Debug>(values: &[V]) {
    for value in values {
        assert_eq!(V::from_value_bytes(&value.value_bytes()).expect("a value"), *value);
    }
}

#[test]
fn keys_and_values_of_all_types_come_back() {
    keys_sort(&[0u8, 1, 255]);
    keys_sort(&[i64::MIN, -1, 0, 1, i64::MAX]);
    keys_sort(&[i128::MIN, -5, 7, i128::MAX]);
    keys_sort(&[false, true]);
    keys_sort(&['a', 'b', '\u{e9}', '\u{10ffff}']);
    keys_sort(&["", "a", "a\0", "ab", "b"].map(str::to_owned));
    keys_sort(&[vec![], vec![0], vec![0, 0], vec![0, 255], vec![1]]);
    keys_sort(&[[0u8, 1], [0, 2], [1, 0]]);
    keys_sort(&[("a".to_owned(), -1), ("a".to_owned(), 2), ("b".to_owned(), -7)]);
    keys_sort(&[((1u8, 2u8), 'x'), ((1, 3), 'a'), ((2, 0), 'a')]);
    values_come_back(&[0u32, 7, u32::MAX]);
    values_come_back(&[-1.5f64, 0.0, f64::INFINITY]);
    values_come_back(&[i128::MIN, 3]);
    values_come_back(&[true, false]);
    values_come_back(&[()]);
    values_come_back(&["", "text"].map(str::to_owned));
    values_come_back(&[vec![], vec![0u8, 255]]);
    values_come_back(&[[1u8, 2, 3]]);
}

#[test]
fn a_record_of_other_types_is_an_error() {
    let env = env();
    let numbers: Typed<u32, u64> = Typed::open(&env, "d").expect("created");
    let bytes = numbers.database();
    for (key, value) in
        [("text".key_bytes(), vec![0; 8]), (5u64.key_bytes(), vec![0; 7]), (b"odd".to_vec(), vec![0; 8])]
    {
        bytes.insert(&key, &value).expect("inserted");
        assert_eq!(numbers.first(&env).expect_err("of other types").kind(), ErrorKind::Invalid);
        let read: Vec<_> = numbers.iter(&env).expect("read").collect();
        assert!(read.len() == 1 && read[0].is_err());
        assert!(bytes.remove(&key).expect("removed"));
    }
    bytes.insert(7u32.key_bytes(), [1]).expect("inserted");
    assert_eq!(numbers.get(&env, &7).expect_err("too short").kind(), ErrorKind::Invalid);
    for (value, is_bool) in [(&[][..], false), (&[1], true), (&[2], false), (&[0, 0], false)] {
        assert_eq!(bool::from_value_bytes(value).is_ok(), is_bool);
    }
    assert!(String::from_value_bytes(&[0xff]).is_err() && <()>::from_value_bytes(&[0]).is_err());
    assert!(
        <[u8; 2]>::from_value_bytes(&[0; 3]).is_err() && u8::from_key_bytes(&256u32.key_bytes()).is_err()
    );
    let ordered = Env::builder().comparator("backwards", |a, b| b.cmp(a)).in_memory().expect("created");
    let ordered = ordered.database_ordered_by("d", "backwards").expect("created");
    assert_eq!(Typed::<u8, u8>::of(ordered).expect_err("an order of its own").kind(), ErrorKind::Invalid);
    let hashed = Env::in_memory().and_then(|env| env.database_as("hashed", Method::Hash)).expect("created");
    assert_eq!(Typed::<u8, u8>::of(hashed).expect_err("an order of its own").kind(), ErrorKind::Invalid);
}

#[test]
fn a_data_store_has_types_too() {
    let mut store =
        Env::builder().disk(Arc::new(SimDisk::new(1))).open_data_store("/store").expect("created");
    let words = Typed::<String, u32, _>::of(store.database("words").expect("created")).expect("in order");
    for word in "a rose is a rose".split(' ') {
        words.update(&mut store, word, |count| Some(count.unwrap_or(0) + 1)).expect("counted");
    }
    let counted: Vec<_> = words.iter(&store).expect("read").map(|record| record.expect("read")).collect();
    assert_eq!(counted, [("a".to_owned(), 2), ("is".to_owned(), 1), ("rose".to_owned(), 2)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn it_is_a_map(steps in prop::collection::vec((0u8..7, 0i64..40, any::<u32>()), 1..80)) {
        let env = env();
        let typed: Typed<(String, i64), u32> = Typed::open(&env, "d").expect("created");
        let mut model = BTreeMap::new();
        for (what, n, value) in steps {
            let key = (["", "a", "b"][n as usize % 3].to_owned(), n - 20);
            let low = (key.0.clone(), key.1 - 5);
            env.write(|txn| {
                match what {
                    0 | 1 => {
                        typed.insert(txn, &key, &value)?;
                        model.insert(key.clone(), value);
                    }
                    2 => {
                        let is_new = !model.contains_key(&key);
                        assert_eq!(typed.insert_new(txn, &key, &value)?, is_new);
                        model.entry(key.clone()).or_insert(value);
                    }
                    3 => assert_eq!(typed.take(txn, &key)?, model.remove(&key)),
                    4 => assert_eq!(typed.remove(txn, &key)?, model.remove(&key).is_some()),
                    5 => {
                        let gone: Vec<_> =
                            model.range(low.clone()..key.clone()).map(|(key, _)| key.clone()).collect();
                        assert_eq!(typed.remove_range(txn, low.clone()..key.clone())?, gone.len() as u64);
                        model.retain(|key, _| !gone.contains(key));
                    }
                    _ => {
                        let change = |before: Option<u32>| {
                            before.map(|before| before ^ value).filter(|after| after % 2 == 0)
                        };
                        let after = change(model.get(&key).copied());
                        assert_eq!(typed.update(txn, &key, change)?, after);
                        match after {
                            Some(after) => drop(model.insert(key.clone(), after)),
                            None => drop(model.remove(&key)),
                        }
                    }
                }
                Ok(())
            }).expect("written");
            let all: Vec<_> = typed.iter(&env).expect("read").map(|record| record.expect("read")).collect();
            prop_assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
            prop_assert_eq!(typed.get(&env, &key).expect("read"), model.get(&key).copied());
            prop_assert_eq!(typed.contains_key(&env, &key).expect("read"), model.contains_key(&key));
            prop_assert_eq!(typed.first(&env).expect("read"), model.clone().pop_first());
            prop_assert_eq!(typed.last(&env).expect("read"), model.clone().pop_last());
            let part: Vec<_> = typed
                .range(&env, low.clone()..=key.clone())
                .expect("read")
                .rev()
                .map(|record| record.expect("read"))
                .collect();
            let expected: Vec<_> =
                model.range(low..=key.clone()).rev().map(|(key, value)| (key.clone(), *value)).collect();
            prop_assert_eq!(part, expected);
            let alike: Vec<_> = typed
                .beginning_with(&env, &(&key.0,))
                .expect("read")
                .map(|record| record.expect("read").0)
                .collect();
            let expected: Vec<_> = model.keys().filter(|other| other.0 == key.0).cloned().collect();
            prop_assert_eq!(alike, expected);
        }
    }
}

#[test]
fn what_serde_writes_is_read_and_nothing_longer() {
    use sablecat::typed::{Postcard, ValueBytes};

    let value = Postcard(("text".to_owned(), vec![Some(1u32), None]));
    let mut bytes = value.value_bytes().into_owned();
    assert_eq!(Value::from_value_bytes(&bytes).ok().as_ref(), Some(&value));
    for cut in 0..bytes.len() {
        assert!(Postcard::<(String, Vec<Option<u32>>)>::from_value_bytes(&bytes[..cut]).is_err());
    }
    bytes.push(0);
    assert!(Postcard::<(String, Vec<Option<u32>>)>::from_value_bytes(&bytes).is_err());
}

#[test]
fn plain_data_is_read_wherever_it_lies() {
    use sablecat::typed::{Pod, ValueBytes};

    let bytes = [&[9][..], &Pod([1u64, 2]).value_bytes()].concat();
    assert_eq!(Value::from_value_bytes(&bytes[1..]).ok(), Some(Pod([1u64, 2])));
    assert!(Pod::<[u64; 2]>::from_value_bytes(&bytes).is_err());
}
