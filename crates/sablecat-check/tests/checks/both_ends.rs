//! Scans from both ends at once, of what is there and what is pending over it.

use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::prelude::*;
use sablecat::{Env, Method, hash_order};

const PAGE_BYTES: usize = 512;

/// Short keys, and some that are nested, several below one stem.
fn a_key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => (0u8..12).prop_map(|n| vec![n]),
        4 => (0usize..2, prop::sample::select(vec![20usize, 48, 49, 60, 103, 140, 300]))
            .prop_map(|(which, len)| vec![b"ab"[which]; len]),
    ]
}

fn a_bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![Just(Bound::Unbounded), a_key().prop_map(Bound::Included), a_key().prop_map(Bound::Excluded)]
}

#[derive(Clone, Debug)]
enum Change {
    Insert(Vec<u8>, u8),
    Remove(Vec<u8>),
    RemoveRange(Bound<Vec<u8>>, Bound<Vec<u8>>),
}

fn a_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        5 => (a_key(), any::<u8>()).prop_map(|(key, value)| Change::Insert(key, value)),
        2 => a_key().prop_map(Change::Remove),
        1 => (a_bound(), a_bound()).prop_map(|(lower, upper)| Change::RemoveRange(lower, upper)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn both_ends_meet(
        seed in any::<[u8; 16]>(),
        method in prop::sample::select(vec![Method::Btree, Method::Hash]),
        committed in prop::collection::vec(a_change(), 0..20),
        pending in prop::collection::vec(a_change(), 0..12),
        scans in
            prop::collection::vec((a_bound(), a_bound(), prop::collection::vec(any::<bool>(), 24)), 1..4),
    ) {
        let order = |one: &[u8], other: &[u8]| match method {
            Method::Hash => hash_order(seed, PAGE_BYTES, one, other),
            _ => one.cmp(other),
        };
        let is_within = |key: &[u8], lower: &Bound<Vec<u8>>, upper: &Bound<Vec<u8>>| {
            (match lower {
                Bound::Included(bound) => order(key, bound).is_ge(),
                Bound::Excluded(bound) => order(key, bound).is_gt(),
                Bound::Unbounded => true,
            }) && match upper {
                Bound::Included(bound) => order(key, bound).is_le(),
                Bound::Excluded(bound) => order(key, bound).is_lt(),
                Bound::Unbounded => true,
            }
        };
        let env = Env::builder().page_size(PAGE_BYTES).hash_seed(seed).in_memory().expect("created");
        let db = env.database_as("d", method).expect("created");
        let mut model: BTreeMap<Vec<u8>, u8> = BTreeMap::new();
        let mut txn = env.begin().expect("begun");
        let count = committed.len();
        for (n, change) in committed.into_iter().chain(pending).enumerate() {
            if n == count {
                txn.commit().expect("alone");
                txn = env.begin().expect("begun");
            }
            match change {
                Change::Insert(key, value) => {
                    txn.insert(&db, &key, [value]).expect("set");
                    model.insert(key, value);
                }
                Change::Remove(key) => {
                    prop_assert_eq!(txn.remove(&db, &key).expect("removed"), model.remove(&key).is_some());
                }
                Change::RemoveRange(lower, upper) => {
                    let before = model.len();
                    model.retain(|key, _| !is_within(key, &lower, &upper));
                    let removed = txn.remove_range(&db, (lower, upper)).expect("removed");
                    prop_assert_eq!(removed, (before - model.len()) as u64);
                }
            }
        }
        let mut all: Vec<_> = model.into_iter().map(|(key, value)| (key, vec![value])).collect();
        all.sort_by(|(one, _), (other, _)| order(one, other));
        for (lower, upper, directions) in scans {
            let mut left = all.iter().filter(|(key, _)| is_within(key, &lower, &upper));
            let mut range = txn.range(&db, (lower.clone(), upper.clone())).expect("begun");
            for forward in directions {
                let next = if forward { range.next() } else { range.next_back() };
                let expected = if forward { left.next() } else { left.next_back() };
                prop_assert_eq!(next.transpose().expect("read"), expected.cloned());
            }
        }
    }
}
