//! One leaf against a sorted vector of its records.

use super::*;
use crate::pages::Near;

#[derive(Clone, Debug)]
enum Op {
    Insert(Key, Held),
    Replace(prop::sample::Index, Held),
    Remove(prop::sample::Index),
    Compact,
}

fn an_op(page_size: usize, prefix: usize) -> impl Strategy<Value = Op> {
    let key_max = key_bytes_max(page_size);
    let value_max = inline_value_bytes_max(page_size, key_max);
    prop_oneof![
        8 => (a_key(key_max - prefix), a_value(value_max)).prop_map(|(k, v)| Op::Insert(k, v)),
        2 => (any::<prop::sample::Index>(), a_value(value_max)).prop_map(|(i, v)| Op::Replace(i, v)),
        2 => any::<prop::sample::Index>().prop_map(Op::Remove),
        1 => Just(Op::Compact),
    ]
}

/// All ways to read a leaf say the same.
fn agree(page: &[u8], model: &[(Key, Held)]) {
    let leaf = Leaf::new(page);
    assert_eq!(records(leaf), model);
    assert_eq!(leaf.count(), model.len());
    let mut key_i = Vec::new();
    for (i, (key, value)) in model.iter().enumerate() {
        leaf.copy_key(i, &mut key_i);
        assert_eq!((&key_i, leaf.key_len(i)), (key, key.len()));
        assert_eq!(leaf.value(i), value.value());
    }
    assert_eq!(leaf.used_bytes() + leaf.free_bytes(), page.len() - 128);
    agree_on_what_is_alike(leaf, model);
}

/// What [`Leaf::alike`] shows from any slot on: as many records as are cut like the first.
fn agree_on_what_is_alike(leaf: Leaf<'_>, model: &[(Key, Held)]) {
    let cut_of = |(key, value): &(Key, Held)| match (key.len() - leaf.prefix().len(), value.value()) {
        (suffix, StoredValue::Inline(bytes)) if suffix <= 127 && bytes.len() <= 255 => {
            (suffix + bytes.len() >= 8).then_some(suffix)
        }
        _ => None,
    };
    for (from, first) in model.iter().enumerate() {
        let cut = cut_of(first);
        let Some(mut alike) = leaf.alike(from..model.len()) else {
            assert_eq!(cut, None, "slot {from}");
            continue;
        };
        assert_eq!(cut, Some(alike.suffix_len()), "slot {from}");
        let shown = model[from..].iter().take_while(|record| cut_of(record) == cut).count();
        // Behind a beginning of any length that leaves room for it in a word.
        for before in 0..(size_of::<u64>() + 1).saturating_sub(alike.suffix_len()) {
            let beginning = &[1, 2, 3, 4, 5, 6, 7, 8][..before];
            let prefix = beginning.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            let mut words = leaf.alike(from..model.len()).expect("the same");
            for (key, held) in &model[from..from + shown] {
                let key = [beginning, &key[leaf.prefix().len()..]].concat();
                let (word, value) = words.next_short((prefix, before)).expect("the same");
                let found = (&word.to_le_bytes()[..key.len()], StoredValue::Inline(value));
                assert_eq!(found, (&key[..], held.value()));
            }
        }
        for (key, held) in &model[from..from + shown] {
            let suffix = &key[leaf.prefix().len()..];
            let (found, value) = alike.next_long().expect("all that are cut alike");
            assert_eq!((found, StoredValue::Inline(value)), (suffix, held.value()));
        }
        assert_eq!((alike.next_long(), alike.left()), (None, model.len() - from - shown));
    }
    assert!(leaf.alike(model.len()..model.len()).is_none());
}

fn run_on_leaf(
    page_size: usize,
    fences: Fences<'_>,
    prefix: &[u8],
    order: Order<'_>,
    ops: &[Op],
    probes: &[Key],
) {
    let mut page = vec![0xa5; page_size];
    let flags = if matches!(order, Order::Custom(_)) { FLAG_CUSTOM_ORDER } else { 0 };
    let mut leaf = LeafMut::format(&mut page, PageId(3), TREE, flags, fences);
    let mut model: Vec<(Key, Held)> = Vec::new();
    for op in ops {
        match op {
            Op::Insert(key, value) => {
                let key = [prefix, key].concat();
                let found = leaf.as_leaf().search(&key, order);
                assert_eq!(found, model.binary_search_by(|(k, _)| order.compare(k, &key)));
                let Err(slot) = found else { continue };
                let fits = leaf.as_leaf().fits(key.len(), value.value());
                assert_eq!(leaf.insert(slot, &key, value.value()).is_ok(), fits);
                assert!(fits || model.len() >= 2, "two of the longest fit");
                if fits {
                    model.insert(slot, (key, value.clone()));
                }
            }
            Op::Replace(i, value) if !model.is_empty() => {
                let slot = i.index(model.len());
                let fits = leaf.as_leaf().fits_replacing(slot, value.value());
                assert_eq!(leaf.replace_value(slot, value.value()).is_ok(), fits);
                if fits {
                    model[slot].1 = value.clone();
                }
            }
            Op::Remove(i) if !model.is_empty() => {
                let slot = i.index(model.len());
                leaf.remove(slot);
                model.remove(slot);
            }
            Op::Compact => leaf.compact(),
            _ => {}
        }
        // What is in the gap means nothing.
        leaf.change_gap(|gap| gap.fill(0x5a));
        check_full(leaf.as_leaf().page, order).unwrap();
    }
    agree(&page, &model);
    for probe in probes {
        let probe = [prefix, probe].concat();
        let leaf = Leaf::new(&page);
        let found = leaf.search(&probe, order);
        assert_eq!(found, model.binary_search_by(|(k, _)| order.compare(k, &probe)));
        // Whatever slot was expected, also one beyond those that there are.
        for expected in 1..model.len() + 3 {
            let near = Near::default();
            (0..expected).for_each(|slot| near.found_at(slot));
            assert_eq!(near.expected(), (expected > 1).then_some(expected));
            let is_next = matches!(order, Order::Bytes) && expected > 1 && found == Ok(expected);
            assert_eq!(leaf.is_next(&probe, order, &near), is_next);
            // Another page may have the same slots, behind another beginning.
            for at in 0..header::prefix_len(&page) {
                let mut elsewhere = probe.clone();
                elsewhere[at] ^= 1;
                assert!(!leaf.is_next(&elsewhere, order, &near));
            }
            assert_eq!(leaf.search_after(&probe, order, &near), found);
            let slot = found.unwrap_or_else(|slot| slot);
            assert_eq!(near.expected(), (slot == expected).then_some(slot + 1));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_leaf_is_a_map(
        (size, prefix, fenced, ops) in
            (prop::sample::select(&SIZES[..]), prop::collection::vec(0u8..3, 0..14), any::<bool>())
                .prop_flat_map(|(size, prefix, fenced)| {
                    let prefix = if fenced { prefix } else { Vec::new() };
                    let ops = prop::collection::vec(
                        an_op(size, prefix.len() + 1),
                        0..if size == 512 { 60 } else { 150 },
                    );
                    (Just(size), Just(prefix), Just(fenced), ops)
                }),
        probes in prop::collection::vec(a_key(32), 0..40),
    ) {
        let upper = [&prefix[..], &vec![255; key_bytes_max(size) - prefix.len()]].concat();
        let fences = if fenced { Fences { lower: Some(&prefix), upper: Some(&upper) } } else { Fences::NONE };
        run_on_leaf(size, fences, &prefix, Order::Bytes, &ops, &probes);
        run_on_leaf(size, fences.reversed(), &prefix, REVERSE, &ops, &probes);
    }
}

impl Fences<'_> {
    fn reversed(self) -> Self {
        Fences { lower: self.upper, upper: self.lower.filter(|_| false) }
    }
}

#[test]
fn a_page_of_4_kib_holds_80_records_of_8_and_32_bytes() {
    let mut page = vec![0; 4096];
    let (lower, upper) = (0u64.to_be_bytes(), u64::MAX.to_be_bytes());
    let mut leaf =
        LeafMut::format(&mut page, PageId(1), TREE, 0, Fences { lower: Some(&lower), upper: Some(&upper) });
    let mut n = 0;
    while leaf.insert(n, &(n as u64 * 1_000_000_007).to_be_bytes(), StoredValue::Inline(&[1; 32])).is_ok() {
        n += 1;
    }
    assert!(n >= 80, "{n} records");
}

/// Enough records for the hints' distance to double, and double again.
#[test]
fn hints_follow_growing_and_shrinking() {
    let mut page = vec![0; 65536];
    let mut leaf = LeafMut::format(&mut page, PageId(1), TREE, 0, Fences::NONE);
    let mut model: Vec<Key> = Vec::new();
    let mut random = 1u32;
    for n in 0..1100 {
        random = random.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
        // Some in ascending order at the end, some anywhere.
        let key = if n % 3 == 0 {
            (u64::MAX / 2 + n).to_be_bytes().to_vec()
        } else {
            random.to_be_bytes()[..3].to_vec()
        };
        if let Err(slot) = leaf.as_leaf().search(&key, Order::Bytes) {
            leaf.insert(slot, &key, StoredValue::Inline(b"")).unwrap();
            model.insert(slot, key);
        }
        check_full(leaf.as_leaf().page, Order::Bytes).unwrap();
    }
    for (slot, key) in model.iter().enumerate() {
        assert_eq!(leaf.as_leaf().search(key, Order::Bytes), Ok(slot));
    }
    while !model.is_empty() {
        random = random.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
        let slot = random as usize % model.len();
        leaf.remove(slot);
        model.remove(slot);
        check_full(leaf.as_leaf().page, Order::Bytes).unwrap();
    }
    assert_eq!(leaf.as_leaf().used_bytes(), leaf.as_leaf().page.len() - 128 - leaf.as_leaf().free_bytes());
}

/// Keys that have many bytes in common and no fences to say so, and probes that leave them at each place.
#[test]
fn keys_that_share_any_number_of_bytes_are_found() {
    for shared in 0..24 {
        let stem = vec![b'm'; shared];
        let mut page = vec![0; 4096];
        let mut leaf = LeafMut::format(&mut page, PageId(1), TREE, 0, Fences::NONE);
        let mut model: Vec<Key> = Vec::new();
        for tail in [&b""[..], b"\0", b"a", b"aaaaa", b"aaaab", b"b", b"b\0", b"\xff\xff\xff\xff\xff"] {
            let key = [&stem[..], tail].concat();
            leaf.insert(model.len(), &key, StoredValue::Inline(b"v")).unwrap();
            model.push(key);
            check_full(leaf.as_leaf().page, Order::Bytes).unwrap();
        }
        // Without the shortest key, all may share more.
        for _ in 0..2 {
            leaf.remove(0);
            model.remove(0);
        }
        let (mut left, mut right) = (vec![0; 4096], vec![0; 4096]);
        let coming = Coming { key: &model[1], value: StoredValue::Inline(b"v"), place: Ok(1) };
        split_leaf(leaf.as_leaf().page, &mut left, &mut right, PageId(2), (SplitPoint::Middle, coming));
        let probes =
            (0..=shared).flat_map(|at| [b'a', b'm', b'z'].map(|byte| [&stem[..at], &[byte]].concat()));
        let probes: Vec<Key> =
            probes.chain((0..=shared).map(|at| stem[..at].to_vec())).chain(model.clone()).collect();
        for probe in &probes {
            let expected = model.binary_search(probe);
            assert_eq!(leaf.as_leaf().search(probe, Order::Bytes), expected);
            let in_left = Leaf::new(&left).count();
            let half =
                if Leaf::new(&left).covers(probe, Order::Bytes) { (&left, 0) } else { (&right, in_left) };
            let found = Leaf::new(half.0).search(probe, Order::Bytes);
            assert_eq!(found.map(|slot| slot + half.1).map_err(|slot| slot + half.1), expected);
        }
    }
}
