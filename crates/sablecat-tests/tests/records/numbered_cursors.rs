//! Cursors of numbered records, against a model.

use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::prelude::*;
use sablecat::{Env, ErrorKind, Numbered};

/// Renumbered records, of which one may be where the cursor stands and be gone.
#[derive(Default)]
struct Model {
    records: Vec<Vec<u8>>,
    /// How many records there are before the cursor's, and whether that is gone; none: it stands at none.
    at: Option<(usize, bool)>,
}

impl Model {
    fn number(&self) -> Option<u64> {
        self.at.filter(|&(_, is_gone)| !is_gone).map(|(before, _)| before as u64 + 1)
    }

    fn stand(&mut self, at: usize) -> Option<u64> {
        self.at = (at < self.records.len()).then_some((at, false));
        self.number()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn among_renumbered_records_it_is_a_place_in_a_list(
        steps in prop::collection::vec((0u8..12, 0u64..12, prop::collection::vec(any::<u8>(), 0..4)), 1..80),
    ) {
        let env = Env::in_memory().expect("created");
        let numbered = Numbered::open_renumbered(&env, "d").expect("created");
        let mut txn = env.begin().expect("begun");
        let (mut cursor, mut model) = (numbered.cursor(), Model::default());
        for (what, number, record) in steps {
            let len = model.records.len();
            match (what, model.at) {
                (0, _) => {
                    let first = if len == 0 { None } else { model.stand(0) };
                    prop_assert_eq!(cursor.first(&txn).expect("read"), first);
                    model.at = first.map(|_| (0, false));
                }
                (1, _) => {
                    let last = if len == 0 { None } else { model.stand(len - 1) };
                    prop_assert_eq!(cursor.last(&txn).expect("read"), last);
                    model.at = last.map(|_| (len - 1, false));
                }
                (2, Some((before, is_gone))) => {
                    let next = model.stand(if is_gone { before } else { before + 1 });
                    prop_assert_eq!(cursor.next(&txn).expect("read"), next);
                }
                (3, Some((before, _))) => {
                    let prev = before.checked_sub(1).and_then(|at| model.stand(at));
                    model.at = prev.map(|number| (number as usize - 1, false));
                    prop_assert_eq!(cursor.prev(&txn).expect("read"), prev);
                }
                (4, _) => {
                    let found = model.stand(number.saturating_sub(1) as usize);
                    prop_assert_eq!(cursor.at_or_after(&txn, number).expect("read"), found);
                }
                (5, Some((before, is_gone))) => {
                    cursor.put(&mut txn, &record).expect("set");
                    if is_gone {
                        model.records.insert(before, record);
                    } else {
                        model.records[before] = record;
                    }
                    model.at = Some((before, false));
                }
                (6, Some((before, _))) => {
                    let inserted = cursor.insert_before(&mut txn, &record).expect("inserted");
                    model.records.insert(before, record);
                    prop_assert_eq!(Some(inserted), model.stand(before));
                }
                (7, Some((before, is_gone))) => {
                    let inserted = cursor.insert_after(&mut txn, &record).expect("inserted");
                    let at = if is_gone { before } else { before + 1 };
                    model.records.insert(at, record);
                    prop_assert_eq!(Some(inserted), model.stand(at));
                }
                (8, Some((before, is_gone))) => {
                    prop_assert_eq!(cursor.remove(&mut txn).expect("removed"), !is_gone);
                    if !is_gone {
                        model.records.remove(before);
                    }
                    model.at = Some((before, true));
                }
                (5..=7, None) => {
                    let error = cursor.insert_after(&mut txn, &record).expect_err("nowhere");
                    prop_assert_eq!(error.kind(), ErrorKind::Invalid);
                }
                // What is changed without it while it stands at a record.
                (9.., None | Some((_, false))) if number < 6 || len == 0 => {
                    let at = (number as usize).min(len);
                    numbered.insert(&mut txn, at as u64 + 1, &record).expect("inserted");
                    model.records.insert(at, record);
                    if let Some((before, _)) = &mut model.at {
                        *before += usize::from(at <= *before);
                    }
                }
                (9.., None | Some((_, false))) => {
                    let at = (number as usize).min(len - 1);
                    prop_assert!(numbered.remove(&mut txn, at as u64 + 1).expect("removed"));
                    model.records.remove(at);
                    model.at = model.at.map(|(before, _)| (before - usize::from(at < before), at == before));
                }
                _ => {}
            }
            prop_assert_eq!(cursor.number(&txn).expect("read"), model.number());
            let record = model.number().map(|number| model.records[number as usize - 1].clone());
            prop_assert_eq!(cursor.record(&txn).expect("read"), record);
            let all = numbered.iter(&txn).expect("read").map(|record| record.map(|(_, record)| record));
            prop_assert_eq!(all.collect::<Result<Vec<_>, _>>().expect("read"), &model.records[..]);
        }
    }

    #[test]
    fn among_records_that_keep_their_numbers_it_passes_gaps(
        numbers in prop::collection::btree_set(1u64..20, 0..12),
        steps in prop::collection::vec((0u8..7, 0u64..22), 1..40),
    ) {
        let env = Env::in_memory().expect("created");
        let numbered = Numbered::open(&env, "d").expect("created");
        let mut txn = env.begin().expect("begun");
        let mut model: BTreeMap<u64, Vec<u8>> =
            numbers.iter().map(|&number| (number, vec![number as u8])).collect();
        for (number, record) in &model {
            numbered.put(&mut txn, *number, record).expect("set");
        }
        let (mut cursor, mut at) = (numbered.cursor(), None);
        for (what, number) in steps {
            let first = |range: (Bound<u64>, Bound<u64>)| model.range(range).next().map(|one| *one.0);
            let (moved, expected) = match (what, at) {
                (0, _) => (cursor.first(&txn), model.keys().next().copied()),
                (1, _) => (cursor.last(&txn), model.keys().next_back().copied()),
                (2, _) => (
                    cursor.at_or_after(&txn, number),
                    first((Bound::Included(number), Bound::Unbounded)),
                ),
                (3, Some(at)) => (
                    cursor.next(&txn),
                    first((Bound::Excluded(at), Bound::Unbounded)),
                ),
                (4, Some(at)) => (cursor.prev(&txn), model.range(..at).next_back().map(|one| *one.0)),
                (5, Some(at)) => {
                    prop_assert_eq!(cursor.remove(&mut txn).expect("removed"), model.remove(&at).is_some());
                    prop_assert_eq!(cursor.number(&txn).expect("read"), None);
                    continue;
                }
                (6, Some(at)) => {
                    cursor.put(&mut txn, "put").expect("set");
                    model.insert(at, b"put".to_vec());
                    let error = cursor.insert_after(&mut txn, "x").expect_err("numbers are kept");
                    prop_assert_eq!(error.kind(), ErrorKind::Invalid);
                    (cursor.number(&txn), Some(at))
                }
                _ => continue,
            };
            prop_assert_eq!(moved.expect("read"), expected);
            at = expected;
            prop_assert_eq!(cursor.record(&txn).expect("read"), at.map(|at| model[&at].clone()));
        }
    }
}

#[test]
fn cursors_of_fixed_records_fill_them_up_and_refuse_longer_ones() {
    let env = Env::in_memory().expect("created");
    let numbered = Numbered::open_renumbered_fixed(&env, "d", 3, b'.').expect("created");
    env.write(|txn| {
        numbered.append(txn, "a")?;
        let mut cursor = numbered.cursor();
        cursor.first(txn)?;
        cursor.insert_after(txn, "b")?;
        assert_eq!(cursor.record(txn)?.as_deref(), Some(&b"b.."[..]));
        cursor.put(txn, "cc")?;
        assert_eq!(numbered.get(txn, 2)?.as_deref(), Some(&b"cc."[..]));
        for error in [cursor.put(txn, "long").err(), cursor.insert_before(txn, "long").err()] {
            assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Invalid));
        }
        let other = cursor.clone();
        assert_eq!(cursor.prev(txn)?, Some(1));
        assert_eq!(cursor.compare(&other)?, Some(std::cmp::Ordering::Less));
        Ok(())
    })
    .expect("written");
}
