//! Inner pages side by side against a sorted vector of separators.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Inner pages side by side find the child a map finds, and count what is below it.
    #[test]
    fn inner_pages_are_a_map(
        (size, (custom, counted), keys) in (prop::sample::select(&SIZES[..3]), any::<(bool, bool)>())
            .prop_flat_map(|(size, custom)| {
                let key = (a_key(key_bytes_max(size)), any::<u8>(), 0..=key_bytes_max(size)).prop_map(
                    |(mut key, n, len)| {
                        if n % 5 == 0 {
                            key.resize(len, b'k');
                        }
                        key
                    },
                );
                (
                    Just(size),
                    Just(custom),
                    prop::collection::vec((key, a_split_point(), any::<bool>()), 0..200),
                )
            }),
        probes in prop::collection::vec(a_key(40), 20),
    ) {
        let order = if custom { REVERSE } else { Order::Bytes };
        let flags = if custom { FLAG_CUSTOM_ORDER } else { 0 } | if counted { FLAG_COUNTED } else { 0 };
        let mut first = vec![0xcc; size];
        InnerMut::format(&mut first, PageId(1), TREE, flags, 1, Fences::NONE, PageId(1));
        InnerMut::new(&mut first).set_records(0, 1);
        let mut pages = vec![first];
        let mut model: Vec<(Key, PageId)> = Vec::new();
        for (n, (key, at, remove)) in keys.iter().enumerate() {
            let child = PageId(n as u32 + 2);
            let Err(rank) = model.binary_search_by(|(k, _)| order.compare(k, key)) else { continue };
            for attempt in 0..2 {
                let i = pages.iter().position(|page| Inner::new(page).covers(key, order)).unwrap();
                // A fence is no separator of the page it begins; the model has it all the same.
                let at_slot = Inner::new(&pages[i]).find(key, order).0;
                if InnerMut::new(&mut pages[i]).insert(at_slot, key, child).is_ok() {
                    InnerMut::new(&mut pages[i]).add_records(at_slot + 1, i64::from(child.0));
                    break;
                }
                assert_eq!(attempt, 0, "no room after a split");
                let (mut left, mut right) = (vec![1; size], vec![2; size]);
                let edge = at_slot == Inner::new(&pages[i]).count();
                let at = if edge && *at == SplitPoint::Append { *at } else { SplitPoint::Middle };
                split_inner(&pages[i], &mut left, &mut right, PageId(9), at);
                prop_assert!(Inner::new(&left).count() > 0 && Inner::new(&right).count() > 0);
                pages.splice(i..=i, [left, right]);
            }
            model.insert(rank, (key.clone(), child));
            if *remove {
                // Remove some separator that is not a fence.
                let i = n % pages.len();
                let count = Inner::new(&pages[i]).count();
                if count > 1 {
                    let mut gone = Vec::new();
                    Inner::new(&pages[i]).copy_separator(n % count, &mut gone);
                    InnerMut::new(&mut pages[i]).remove(n % count);
                    model.retain(|(k, _)| *k != gone);
                }
                if i + 1 < pages.len() {
                    let separator = Inner::new(&pages[i]).upper_fence().unwrap();
                    let mut out = vec![3; size];
                    if may_merge(&pages[i], &pages[i + 1], separator) {
                        prop_assert!(merge_inner(&pages[i], &pages[i + 1], separator, &mut out));
                        pages.splice(i..i + 2, [out]);
                    }
                }
            }
            for page in &mut pages {
                // What is in the gap means nothing.
                let gap = gap_of(page);
                page[gap].fill(0x5a);
                check_full(page, order).unwrap();
            }
        }
        for key in keys.iter().map(|(key, ..)| key).chain(&probes) {
            let page = pages.iter().find(|page| Inner::new(page).covers(key, order)).unwrap();
            let rank = model.partition_point(|(k, _)| order.compare(k, key).is_le());
            let expected = if rank == 0 { PageId(1) } else { model[rank - 1].1 };
            prop_assert_eq!(Inner::new(page).find(key, order).1, expected);
            let counted = if counted { u64::from(expected.0) } else { 0 };
            prop_assert_eq!(Inner::new(page).records_below(Inner::new(page).find(key, order).0), counted);
        }
    }
}
