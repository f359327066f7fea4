//! Pages against models: a `BTreeMap` for the records, a plain binary search for the search, random damage
//! for the checks.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::types::TreeId;

mod bulk;
mod damage;
mod inner;
mod leaf;
mod row;

const SIZES: [usize; 7] = [480, 512, 1024, 4064, 4096, 65528, 65536];
const TREE: TreeId = TreeId(7);

type Key = Vec<u8>;
type Bytes = Vec<u8>;

fn reverse(a: &[u8], b: &[u8]) -> Ordering {
    b.cmp(a)
}

const REVERSE: Order<'static> = Order::Custom(&reverse);

/// What a test's record holds.
#[derive(Clone, PartialEq, Debug)]
enum Held {
    Inline(Bytes),
    Long(u32, u64),
}

impl Held {
    fn value(&self) -> StoredValue<'_> {
        match self {
            Held::Inline(bytes) => StoredValue::Inline(bytes),
            &Held::Long(page, len) => StoredValue::Long { first_page: PageId(page), len },
        }
    }
}

/// Keys of few different bytes, so that they share prefixes, tie in their heads and are prefixes of each
/// other.
fn a_key(max: usize) -> impl Strategy<Value = Key> {
    let byte = prop::sample::select(vec![0u8, 0, 1, b'a', 255]);
    let eight = any::<u16>().prop_map(|n| u64::from(n).to_be_bytes().to_vec());
    prop_oneof![
        4 => prop::collection::vec(byte.clone(), 0..6.min(max)),
        3 => prop::collection::vec(byte, 0..24.min(max)),
        2 => eight,
        1 => prop::collection::vec(any::<u8>(), 0..12.min(max)),
        1 => (prop::collection::vec(0u8..2, 0..4), 0..max)
            .prop_map(|(tail, len)| [vec![0; len.saturating_sub(4)], tail].concat()),
    ]
}

fn a_value(max: usize) -> impl Strategy<Value = Held> {
    prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 0..40.min(max)).prop_map(Held::Inline),
        2 => (any::<u8>(), 0..=max).prop_map(|(byte, len)| Held::Inline(vec![byte; len])),
        1 => (any::<u32>(), any::<u64>()).prop_map(|(page, len)| Held::Long(page, len)),
    ]
}

fn records(leaf: Leaf<'_>) -> Vec<(Key, Held)> {
    leaf.records(0..leaf.count())
        .map(|record| {
            let suffix = record.suffix();
            let short = (suffix.len() <= 8).then(|| {
                (suffix.len(), suffix.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)))
            });
            assert_eq!(record.short_suffix(), short);
            ([leaf.prefix(), suffix].concat(), held(record.value()))
        })
        .collect()
}

fn held(value: StoredValue<'_>) -> Held {
    match value {
        StoredValue::Inline(bytes) => Held::Inline(bytes.to_vec()),
        StoredValue::Long { first_page, len } => Held::Long(first_page.0, len),
    }
}

fn a_split_point() -> impl Strategy<Value = SplitPoint> {
    prop::sample::select(vec![SplitPoint::Middle, SplitPoint::Append, SplitPoint::Prepend])
}
