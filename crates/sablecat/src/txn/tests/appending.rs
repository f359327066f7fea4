//! Large transactions that append, in any mixture with what is before, between and removed: the tree is what
//! it would be record by record, and whole.

use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::prelude::*;

use super::*;
use crate::txn::commit::changes::ChangedPages;

/// A change: where its key comes, how long that is and its value, or none.
#[derive(Clone, Debug)]
enum Step {
    /// So many records behind all others, with values of these lengths.
    Append(usize, Vec<usize>),
    /// Records anywhere.
    Put(Vec<(u16, usize)>),
    Remove(Vec<u16>),
    /// All from one key on.
    Cut(u16),
}

fn lengths(most: usize) -> impl Strategy<Value = Vec<usize>> {
    // Most are short; some fill a page, some are long ones.
    let length = prop_oneof![20 => 0..60usize, 3 => 60..200usize, 1 => 200..1500usize];
    proptest::collection::vec(length, 1..most)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..30usize, lengths(200)).prop_map(|(key_len, lengths)| Step::Append(key_len, lengths)),
        2 => proptest::collection::vec((any::<u16>(), 0..200usize), 1..40).prop_map(Step::Put),
        1 => proptest::collection::vec(any::<u16>(), 1..40).prop_map(Step::Remove),
        1 => any::<u16>().prop_map(Step::Cut),
    ]
}

/// Of any length, some nested, in the order of the number.
fn key(number: u32, len: usize) -> Vec<u8> {
    let mut key = number.to_be_bytes().to_vec();
    key.resize(4 + if len == 29 { 600 } else { len }, number as u8);
    key
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_is_appended_is_what_was_set(
        transactions in proptest::collection::vec(proptest::collection::vec(step(), 1..4), 1..8),
        in_volume in any::<bool>(),
    ) {
        // In a volume many of these are larger than ordinary commits may be there, and are built beside. In
        // memory alone there is room for the largest of all cases, in both versions.
        let (frames, volume) = if in_volume { (240, Some(volume(1))) } else { (30_000, None) };
        let store = Store::new(frames, 4, volume).and_catalog();
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut next = 1u32 << 16;
        for steps in transactions {
            let mut txn = store.begin(Isolation::Serializable, false);
            for step in steps {
                match step {
                    Step::Append(key_len, lengths) => {
                        for len in lengths {
                            next += 1 + (len % 3) as u32;
                            let (key, value) = (key(next, key_len), vec![len as u8; len]);
                            txn.set(&store.tree, &key, Some(&value)).unwrap();
                            model.insert(key, value);
                        }
                    }
                    Step::Put(records) => {
                        for (number, len) in records {
                            let (key, value) = (key(number.into(), len % 30), vec![1; len]);
                            txn.set(&store.tree, &key, Some(&value)).unwrap();
                            model.insert(key, value);
                        }
                    }
                    Step::Remove(numbers) => {
                        for number in numbers {
                            let Some(key) =
                                model.range(key(number.into(), 0)..).next().map(|(key, _)| key.clone())
                            else {
                                continue;
                            };
                            txn.set(&store.tree, &key, None).unwrap();
                            model.remove(&key);
                        }
                    }
                    Step::Cut(number) => {
                        let from = key(u32::from(number) + (1 << 16), 0);
                        txn.remove_range(&store.tree, (Bound::Included(from.clone()), Bound::Unbounded))
                            .unwrap();
                        model.split_off(&from);
                    }
                }
            }
            txn.commit(Durability::Memory).unwrap();
            drop(txn);
            let (records, _) = store.verified();
            prop_assert!(records.iter().map(|(key, value)| (key, value)).eq(&model));
        }
    }
}

/// A participant that latches leaves out of their order may wait for one that waits for it.
#[test]
fn the_last_leaf_is_not_latched_before_what_comes_before_it() {
    let store = Store::new(3000, 4, None);
    (0..400u32).for_each(|n| store.put(&n.to_be_bytes(), &[1; 40]).unwrap());
    let seat = store.seat();
    let mut changes = ChangedPages::new(&store.kernel.pages, &seat, store.kernel.pages.newest());
    let tree = store.tree.tree();
    assert!(tree.append(&mut changes, &5u32.to_be_bytes()).unwrap().is_none());
    assert!(changes.items().is_empty(), "nothing is latched");
}
