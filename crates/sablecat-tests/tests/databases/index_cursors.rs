//! Cursors over indices, against a model; beside what others change.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use proptest::prelude::*;
use sablecat::{Env, ErrorKind, Index, IndexOptions, Isolation, Result, TxnOptions};

/// Each byte of a value is an index key of it. Of one byte there are more than a page has room for.
fn env() -> Env {
    Env::builder()
        .page_size(512)
        .extractor("bytes", |_, value, keys| value.chunks(1).for_each(|byte| keys.push(byte)))
        .extractor("all", |_, value, keys| keys.push(value))
        .in_memory()
        .expect("created")
}

/// Where a cursor is to stand: at an index key of a record.
type Entry = (Vec<u8>, Vec<u8>);

fn at(cursor: &sablecat::IndexCursor) -> Option<Entry> {
    cursor.key().map(<[u8]>::to_vec).zip(cursor.primary_key().map(<[u8]>::to_vec))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn it_goes_by_index_keys_and_primary_keys(
        unique in any::<bool>(),
        records in prop::collection::btree_map(0u8..160, prop::collection::vec(0u8..4, 0..4), 0..150),
        moves in prop::collection::vec((0u8..13, 0u8..5, 0u8..160), 1..60),
    ) {
        let env = env();
        let primary = env.database("records").expect("created");
        let options = IndexOptions::new(if unique { "all" } else { "bytes" }).unique(unique);
        let index = env.index("index", &primary, options).expect("made");
        let mut entries = Vec::new();
        let mut values = BTreeMap::new();
        for (key, value) in &records {
            if unique && values.values().any(|other| other == value) {
                continue;
            }
            primary.insert([*key], value).expect("inserted");
            values.insert(vec![*key], value.clone());
            if unique {
                entries.push((value.clone(), vec![*key]));
            } else {
                entries.extend(value.iter().map(|byte| (vec![*byte], vec![*key])));
            }
        }
        entries.sort();
        entries.dedup();
        let mut cursor = index.cursor();
        // Where it stands: between those below and those from here on, or at one, or nowhere.
        let (mut place, mut is_at): (Option<usize>, Option<usize>) = (None, None);
        for (what, index_key, key) in &moves {
            let (index_key, key) = (vec![*index_key], vec![*key]);
            let span = |wanted: &Vec<u8>| (
                entries.partition_point(|entry| entry.0 < *wanted),
                entries.partition_point(|entry| entry.0 <= *wanted),
            );
            let after = is_at.map_or(place.unwrap_or(0), |at| at + 1);
            let before = is_at.or(place).unwrap_or(entries.len()).checked_sub(1);
            // Where it is to go; none where it is to stay.
            let target: Option<std::result::Result<usize, usize>> = match what {
                0 => Some(Ok(0)),
                1 => Some(entries.len().checked_sub(1).ok_or(0)),
                2 | 3 => Some(Ok(after)),
                4 | 5 => Some(before.ok_or(0)),
                6 => is_at
                    .filter(|&at| entries.get(at + 1).is_some_and(|next| next.0 == entries[at].0))
                    .map(|at| Ok(at + 1)),
                7 => is_at.filter(|&at| at > 0 && entries[at - 1].0 == entries[at].0).map(|at| Ok(at - 1)),
                8 => Some(Ok(is_at.map_or(after, |at| span(&entries[at].0).1))),
                9 => Some(is_at.map_or(before, |at| span(&entries[at].0).0.checked_sub(1)).ok_or(0)),
                10 => Some(Ok(span(&index_key).0)),
                11 => Some(span(&index_key).1.checked_sub(1).ok_or(0)),
                _ => {
                    let (begin, end) = span(&index_key);
                    (begin..end).find(|&at| entries[at].1 >= key).map(Ok)
                }
            };
            let went = match what {
                0 => cursor.first(&env),
                1 => cursor.last(&env),
                2 | 3 => cursor.next(&env),
                4 | 5 => cursor.prev(&env),
                6 => { prop_assert_eq!(cursor.next_of_key(&env).expect("moved"), target.is_some()); Ok(None) }
                7 => { prop_assert_eq!(cursor.prev_of_key(&env).expect("moved"), target.is_some()); Ok(None) }
                8 => cursor.next_key(&env),
                9 => cursor.prev_key(&env),
                10 => cursor.at_or_after(&env, &index_key),
                11 => cursor.at_or_before(&env, &index_key),
                _ => {
                    let exact = entries.contains(&(index_key.clone(), key.clone()));
                    prop_assert_eq!(cursor.clone().seek_pair(&env, &index_key, &key).expect("sought"), exact);
                    let (begin, end) = span(&index_key);
                    prop_assert_eq!(cursor.clone().seek(&env, &index_key).expect("sought"), begin < end);
                    prop_assert_eq!(
                        cursor.seek_pair_or_after(&env, &index_key, &key).expect("sought"),
                        target.is_some()
                    );
                    Ok(None)
                }
            };
            went.expect("moved");
            match target {
                Some(Ok(n)) => {
                    is_at = (n < entries.len()).then_some(n);
                    place = Some(n.min(entries.len()));
                }
                Some(Err(n)) => (place, is_at) = (Some(n), None),
                None => {}
            }
            let wanted = is_at.map(|n| entries[n].clone());
            prop_assert_eq!(at(&cursor), wanted.clone(), "{}", what);
            let value = wanted.as_ref().map(|(_, key)| &*values[key]);
            prop_assert_eq!(cursor.value(&env).expect("read"), value);
            let same = wanted.map_or(0, |(index_key, _)| {
                let (begin, end) = span(&index_key);
                end - begin
            });
            prop_assert_eq!(cursor.count(&env).expect("counted"), same as u64);
        }
    }
}

fn three(unique: bool) -> Result<(Env, sablecat::Database, Index)> {
    let env = env();
    let primary = env.database("records")?;
    let index = env.index("index", &primary, IndexOptions::new("all").unique(unique))?;
    primary.insert_batch([("1", "a"), ("2", "b"), ("3", "c")])?;
    Ok((env, primary, index))
}

#[test]
fn where_a_record_went_or_has_another_key_a_cursor_stays_and_goes_on() -> Result<()> {
    for unique in [false, true] {
        let (env, primary, index) = three(unique)?;
        let txn = env.begin_with(TxnOptions::new().isolation(Isolation::ReadCommitted))?;
        let mut cursor = index.cursor();
        assert!(cursor.seek(&txn, "b")?);
        primary.insert("2", "z")?;
        assert_eq!(cursor.value(&txn)?, None, "it has another key");
        assert_eq!(cursor.primary_key(), Some(&b"2"[..]));
        assert_eq!(cursor.next(&txn)?, Some(&b"c"[..]));
        primary.remove("3")?;
        assert_eq!(cursor.value(&txn)?, None, "it is gone");
        assert_eq!(cursor.prev(&txn)?, Some(&b"a"[..]));
        assert_eq!(cursor.next(&txn)?, Some(&b"z"[..]));
        assert_eq!(cursor.primary_key(), Some(&b"2"[..]));
        assert_eq!(cursor.value(&txn)?, Some(&b"z"[..]));
    }
    Ok(())
}

#[test]
fn what_it_removes_is_the_record_if_that_is_still_the_one() -> Result<()> {
    for unique in [false, true] {
        let (env, primary, index) = three(unique)?;
        env.write(|txn| {
            let mut cursor = index.cursor();
            assert!(!cursor.remove(txn)?, "it stands nowhere");
            assert!(cursor.seek(txn, "b")?);
            txn.insert(&primary, "2", "y")?;
            assert!(!cursor.remove(txn)?, "the record has another key");
            if unique {
                txn.insert(&primary, "4", "b")?;
                assert!(!cursor.remove(txn)?, "another record has the key");
            }
            assert!(cursor.seek_pair(txn, "c", "3")? && cursor.remove(txn)? && !cursor.remove(txn)?);
            assert_eq!(cursor.prev(txn)?, Some(if unique { &b"b"[..] } else { b"a" }));
            Ok(())
        })?;
        assert_eq!((primary.get("2")?.as_deref(), primary.get("3")?), (Some(&b"y"[..]), None));
        assert!(index.verify(&env)?.is_empty());
    }
    Ok(())
}

#[test]
fn places_compare_within_an_index() -> Result<()> {
    let (env, primary, index) = three(false)?;
    let other = env.index("other", &primary, IndexOptions::new("bytes"))?;
    let (mut one, mut two) = (index.cursor(), index.cursor());
    one.first(&env)?;
    two.last(&env)?;
    assert_eq!(
        (one.compare(&two)?, one.compare(&one.clone())?),
        (Some(Ordering::Less), Some(Ordering::Equal))
    );
    assert_eq!(one.compare(&other.cursor()).expect_err("another index").kind(), ErrorKind::Invalid);
    Ok(())
}
