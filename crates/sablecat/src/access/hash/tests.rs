//! Buckets and directories as pages: against a map, and damaged.

use std::collections::HashMap;

use proptest::prelude::*;

use super::bucket::{Bucket, BucketMut, HashPrefix, LEVEL_MAX};
use super::directory::{Child, Directory, DirectoryMut};
use super::*;
use crate::access::btree::node::key_bytes_max;
use crate::access::check_page;

const TREE: TreeId = TreeId(20);
const SEED: Seed = Seed { low: 3, high: 4 };

fn a_bucket(size: usize, stretch: HashPrefix) -> Vec<u8> {
    let mut page = vec![0xaa; size];
    BucketMut::format(&mut page, (PageId(1), TREE), stretch);
    page
}

/// What a record of a bucket is to become.
#[derive(Clone, Debug)]
enum Op {
    Set(Vec<u8>, usize),
    SetLong(Vec<u8>, u64),
    Remove(Vec<u8>),
}

fn an_op(key_max: usize, value_max: usize) -> impl Strategy<Value = Op> {
    let key = prop_oneof![
        4 => prop::collection::vec(0u8..4, 0..3),
        1 => prop::collection::vec(any::<u8>(), 0..=key_max)
    ];
    let value = prop_oneof![4 => 0..=value_max / 8, 1 => 0..=value_max];
    (key, value, 0..4).prop_map(|(key, value, what)| match what {
        0 => Op::Remove(key),
        1 if value % 3 == 0 => Op::SetLong(key, value as u64),
        _ => Op::Set(key, value),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// A bucket answers as a map does, says that it is full only if it is, and is sound after each change.
    #[test]
    fn a_bucket_is_a_map(
        size in prop::sample::select(vec![480usize, 512, 4096]),
        ops in prop::collection::vec(
            an_op(key_bytes_max(480), inline_value_bytes_max(480, key_bytes_max(480))),
            1..120,
        ),
    ) {
        let mut page = a_bucket(size, HashPrefix::default());
        let mut model: HashMap<Vec<u8>, (Vec<u8>, Option<u64>)> = HashMap::new();
        for (n, op) in ops.into_iter().enumerate() {
            let (key, value, long) = match op {
                Op::Set(key, len) => (key, Some(vec![n as u8; len]), None),
                Op::SetLong(key, len) => (key, Some(Vec::new()), Some(len)),
                Op::Remove(key) => (key, None, None),
            };
            let hash = SEED.hash(&key);
            let place = Bucket::new(&page).find(hash, &key);
            prop_assert_eq!(place.is_some(), model.contains_key(&key));
            let mut bucket = BucketMut::new(&mut page);
            if let Some(bytes) = value {
                let stored = match long {
                    Some(len) => StoredValue::Long { first_page: PageId(n as u32), len },
                    None => StoredValue::Inline(&bytes),
                };
                let set = match place {
                    Some(slot) => bucket.replace_value(slot, stored),
                    None => bucket.insert(hash, &key, stored),
                };
                let mut with = model.clone();
                with.insert(key.clone(), (bytes.clone(), long));
                let cells: usize =
                    with.iter()
                        .map(|(key, (value, long))| 4 + key.len() + long.map_or(value.len(), |_| 12))
                        .sum();
                let fits = 48 + with.len().next_multiple_of(16) + 2 * with.len() + cells <= size;
                prop_assert_eq!(set.is_ok(), fits, "{} records, {} bytes of cells", with.len(), cells);
                if set.is_ok() {
                    model = with;
                }
            } else if let Some(slot) = place {
                bucket.remove(slot);
                model.remove(&key);
            }
            // What is in the gap means nothing.
            let gap = gap_of(&page);
            page[gap].fill(0x5a);
            check_page(&page).unwrap();
            let bucket = Bucket::new(&page);
            prop_assert_eq!(bucket.count(), model.len());
            for (key, (bytes, long)) in &model {
                let slot = bucket.find(SEED.hash(key), key).expect("it was set");
                match (bucket.value(slot), long) {
                    (StoredValue::Inline(value), None) => prop_assert_eq!(value, &bytes[..]),
                    (StoredValue::Long { len, .. }, Some(wanted)) => prop_assert_eq!(len, *wanted),
                    (value, _) => prop_assert!(false, "{:?}", value),
                }
            }
        }
    }

    /// A damaged page is refused, or every function gets along with it.
    #[test]
    fn damage_is_refused_or_harmless(
        size in prop::sample::select(vec![480usize, 512, 1024, 4088]),
        directory in any::<bool>(),
        level in 0u8..=LEVEL_MAX,
        keys in prop::collection::hash_set(prop::collection::vec(any::<u8>(), 0..14), 0..30),
        damage in prop::collection::vec(
            (prop_oneof![0usize..64, 0usize..256, any::<usize>()], prop_oneof![any::<u8>(), 0u8..4]),
            1..4,
        ),
        probe in prop::collection::vec(any::<u8>(), 0..14),
    ) {
        let stretch = HashPrefix::around(SEED.hash(&probe), level);
        let mut page = a_bucket(size, stretch);
        if directory {
            let stretch =
                HashPrefix::around(SEED.hash(&probe), level / directory::bits(size) * directory::bits(size));
            DirectoryMut::format(&mut page, (PageId(1), TREE), stretch, Child::bucket(PageId(7)));
        } else {
            for key in &keys {
                let _ = BucketMut::new(&mut page).insert(SEED.hash(key), key, StoredValue::Inline(key));
            }
        }
        if !directory || level / directory::bits(size) * directory::bits(size) < LEVEL_MAX {
            check_page(&page).unwrap();
        }
        for (at, byte) in damage {
            page[at % size] = byte;
        }
        if header::kind(&page).is_some_and(is_kind) && check_page(&page).is_ok() {
            exercise(&page, &probe);
        }
    }
}

/// One page for each thing the checks look for.
#[test]
fn each_kind_of_damage_is_named() {
    let stretch = HashPrefix { level: 3, prefix: 0b101 << 61 };
    let mut bucket = a_bucket(512, stretch);
    for key in [b"aa", b"ab"] {
        BucketMut::new(&mut bucket).insert(SEED.hash(key), key, StoredValue::Inline(b"12345")).unwrap();
    }
    let mut directory = vec![0; 512];
    let all = HashPrefix { level: 6, prefix: 0 };
    DirectoryMut::format(&mut directory, (PageId(1), TREE), all, Child::bucket(PageId(7)));
    assert!(check_page(&bucket).and(check_page(&directory)).is_ok());
    let slots = 64;
    type Case<'a> = (&'a str, &'a [u8], &'a [(usize, u16)]);
    let cases: [Case<'_>; 12] = [
        ("the hashes", &bucket, &[(21, 65)]),
        ("the hashes", &bucket, &[(24, 1)]),
        ("400 records", &bucket, &[(22, 400)]),
        ("from 600 on", &bucket, &[(32, 600)]),
        ("bytes in cells", &bucket, &[(36, 1)]),
        ("is at 480", &bucket, &[(slots, 480)]),
        ("overlaps another", &bucket, &[(slots + 2, 501)]),
        ("cut short", &bucket, &[(slots, 510)]),
        ("cut short", &bucket, &[(501, 300)]),
        ("a directory of 5 bits", &directory, &[(22, 5)]),
        ("the hashes", &directory, &[(21, 0x0605)]),
        ("the hashes", &directory, &[(24, 1)]),
    ];
    for (what, page, damage) in cases {
        let mut page = page.to_vec();
        for &(at, word) in damage {
            page[at..at + 2].copy_from_slice(&word.to_le_bytes());
        }
        let error = check_page(&page).unwrap_err();
        assert!(error.contains(what), "{what}: {error}");
    }
    let mut long = a_bucket(1024, HashPrefix::default());
    BucketMut::new(&mut long).insert(1, &[1; 120], StoredValue::Inline(b"")).unwrap();
    assert!(check_page(&long).unwrap_err().contains("longer than"));
}

#[test]
fn stretches_halve_and_join() {
    let mut stretch = HashPrefix::default();
    let hash = SEED.hash(b"a key");
    for level in 0..=LEVEL_MAX {
        assert_eq!(stretch, HashPrefix::around(hash, level));
        assert!(stretch.is_sound() && stretch.covers(hash) && stretch.covers(stretch.last()));
        assert!(stretch.last().checked_add(1).is_none_or(|next| !stretch.covers(next)));
        assert!(stretch.prefix.checked_sub(1).is_none_or(|before| !stretch.covers(before)));
        if level == LEVEL_MAX {
            break;
        }
        let halves = stretch.halves();
        assert_eq!(halves[0].prefix, stretch.prefix, "the lower half begins where the whole does");
        assert_eq!(halves[0].last() + 1, halves[1].prefix);
        assert_eq!(halves[1].last(), stretch.last());
        for (half, other) in [(0, 1), (1, 0)] {
            assert_eq!(halves[half].whole_and_other(), Some((stretch, halves[other])));
        }
        stretch = halves[usize::from(halves[1].covers(hash))];
    }
    assert_eq!(HashPrefix::default().whole_and_other(), None);
}

#[test]
fn a_directory_leads_each_hash_to_the_stretch_that_covers_it() {
    for (size, bits) in [(480, 6), (512, 6), (4096, 9), (65536, 13)] {
        assert_eq!(directory::bits(size), bits);
        for level in [0, bits] {
            let mut page = vec![0; size];
            let stretch = HashPrefix::around(SEED.hash(b"a key"), level);
            DirectoryMut::format(&mut page, (PageId(1), TREE), stretch, Child::bucket(PageId(7)));
            let mut wanted = Vec::new();
            let mut left = stretch;
            for n in 1..=u32::from(bits) {
                let [lower, upper] = left.halves();
                let slots = Directory::new(&page).slots_of(lower);
                let child = Child { page: PageId(100 + n), is_directory: n == u32::from(bits) };
                DirectoryMut::new(&mut page).set(slots, child);
                wanted.push((lower, child));
                left = upper;
            }
            wanted.push((left, Child::bucket(PageId(7))));
            check_page(&page).unwrap();
            let directory = Directory::new(&page);
            for (stretch, child) in &wanted {
                for hash in [stretch.prefix, stretch.last()] {
                    assert_eq!(directory.child(directory.slot_of(hash)), *child);
                }
            }
            let children: Vec<_> = directory.children().map(|(_, child)| child).collect();
            assert_eq!(children, wanted.iter().map(|(_, child)| *child).collect::<Vec<_>>());
            assert_eq!(directory.only_child(), None);
        }
    }
}

/// Four of the longest records have room in a bucket, whatever the page's size.
#[test]
fn four_of_the_longest_records_have_room() {
    for size in (480..=65536).step_by(8).filter(|size| size % 1000 < 8 || *size < 1000) {
        let mut page = a_bucket(size, HashPrefix::default());
        for n in 0..4 {
            let key = vec![n; key_bytes_max(size)];
            let value = vec![n; inline_value_bytes_max(size, key.len())];
            BucketMut::new(&mut page).insert(SEED.hash(&key), &key, StoredValue::Inline(&value)).unwrap();
        }
    }
}
