//! Leaves side by side, split and merged, against a `BTreeMap`.

use super::*;

/// Leaves side by side, as under one parent.
pub(super) struct Row {
    pub(super) size: usize,
    pub(super) order: Order<'static>,
    pub(super) pages: Vec<Bytes>,
}

impl Row {
    fn new(size: usize, order: Order<'static>) -> Row {
        let mut page = vec![0; size];
        let flags = if matches!(order, Order::Custom(_)) { FLAG_CUSTOM_ORDER } else { 0 };
        LeafMut::format(&mut page, PageId(1), TREE, flags, Fences::NONE);
        Row { size, order, pages: vec![page] }
    }

    fn place(&self, key: &[u8]) -> usize {
        let covering: Vec<usize> =
            (0..self.pages.len()).filter(|&i| Leaf::new(&self.pages[i]).covers(key, self.order)).collect();
        assert_eq!(covering.len(), 1, "pages {covering:?} cover {key:x?}");
        covering[0]
    }

    /// Sets a record, with as many splits as it takes: each leaves fewer records beside it, and beside one
    /// there is room.
    fn insert(&mut self, key: &[u8], value: StoredValue<'_>, at: SplitPoint) {
        loop {
            let i = self.place(key);
            let leaf = Leaf::new(&self.pages[i]);
            let (place, count) = (leaf.search(key, self.order), leaf.count());
            match place {
                Ok(slot) => {
                    if LeafMut::new(&mut self.pages[i]).replace_value(slot, value).is_ok() {
                        return;
                    }
                }
                Err(slot) => {
                    if LeafMut::new(&mut self.pages[i]).insert(slot, key, value).is_ok() {
                        return;
                    }
                }
            }
            // Only what goes to an end may be appended or prepended.
            let at = match at {
                SplitPoint::Append if place != Err(count) => SplitPoint::Middle,
                SplitPoint::Prepend if place != Err(0) => SplitPoint::Middle,
                at => at,
            };
            assert!(count >= 2, "no room beside one record");
            self.split(i, at, Coming { key, value, place });
        }
    }

    fn split(&mut self, i: usize, at: SplitPoint, coming: Coming<'_>) {
        let (mut left, mut right) = (vec![0xee; self.size], vec![0xee; self.size]);
        let new = PageId(self.pages.len() as u32 + 1);
        let separator = split_leaf(&self.pages[i], &mut left, &mut right, new, (at, coming));
        if at == SplitPoint::Middle {
            assert!(Leaf::new(&left).count() > 0 && Leaf::new(&right).count() > 0);
        }
        assert_eq!(Leaf::new(&left).upper_fence(), Some(&separator[..]));
        assert_eq!(Leaf::new(&right).lower_fence(), Some(&separator[..]));
        self.pages.splice(i..=i, [left, right]);
        self.check();
    }

    fn remove(&mut self, key: &[u8]) {
        let i = self.place(key);
        if let Ok(slot) = Leaf::new(&self.pages[i]).search(key, self.order) {
            LeafMut::new(&mut self.pages[i]).remove(slot);
        }
        if i + 1 < self.pages.len() {
            let mut out = vec![0xdd; self.size];
            let separator = Leaf::new(&self.pages[i]).upper_fence().unwrap();
            let may = may_merge(&self.pages[i], &self.pages[i + 1], separator);
            if merge_leaf(&self.pages[i], &self.pages[i + 1], separator, &mut out) {
                if may {
                    self.pages.splice(i..i + 2, [out]);
                }
            } else {
                assert!(!may);
            }
            self.check();
        }
    }

    pub(super) fn check(&self) {
        for (i, page) in self.pages.iter().enumerate() {
            check_full(page, self.order).unwrap();
            if i > 0 {
                assert_eq!(Leaf::new(&self.pages[i - 1]).upper_fence(), Leaf::new(page).lower_fence());
            }
        }
    }

    pub(super) fn records(&self) -> Vec<(Key, Held)> {
        self.pages.iter().flat_map(|page| records(Leaf::new(page))).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Keys and values of any length up to the largest: after splits there is room, and nothing is lost in
    /// splits and merges.
    #[test]
    fn splits_make_room(
        (size, custom, inserts, removes) in (prop::sample::select(&SIZES[..3]), any::<bool>())
            .prop_flat_map(|(size, custom)| {
                let max = key_bytes_max(size);
                let insert = (a_key(max), 0..=max, 0..=100usize, a_split_point()).prop_map(
                    move |(mut key, len, percent, at)| {
                        if percent % 3 == 0 {
                            key.resize(len, b'k');
                        }
                        (key, percent, at)
                    },
                );
                (
                    Just(size),
                    Just(custom),
                    prop::collection::vec(insert, 0..120),
                    prop::collection::vec(any::<prop::sample::Index>(), 0..60),
                )
            }),
    ) {
        let order = if custom { REVERSE } else { Order::Bytes };
        let mut row = Row::new(size, order);
        let mut model = BTreeMap::new();
        for (key, percent, at) in &inserts {
            let value = vec![*percent as u8; inline_value_bytes_max(size, key.len()) * percent / 100];
            row.insert(key, StoredValue::Inline(&value), *at);
            model.insert(key.clone(), Held::Inline(value));
        }
        for i in removes.iter().filter(|_| !inserts.is_empty()) {
            let key = &inserts[i.index(inserts.len())].0;
            row.remove(key);
            model.remove(key);
        }
        let mut expected: Vec<_> = model.into_iter().collect();
        if custom {
            expected.reverse();
        }
        prop_assert_eq!(row.records(), expected);
    }
}

#[test]
fn an_empty_separator_has_something_below_it_in_custom_order() {
    let mut row = Row::new(512, REVERSE);
    for key in [&b"b"[..], b"a"] {
        row.insert(key, StoredValue::Inline(b"value"), SplitPoint::Middle);
    }
    row.split(0, SplitPoint::Append, Coming { key: b"", value: StoredValue::Inline(b""), place: Err(2) });
    assert_eq!(Leaf::new(&row.pages[1]).lower_fence(), Some(&b""[..]));
    assert_eq!(row.place(b"a"), 0);
    assert_eq!(row.place(b""), 1);
}

#[test]
fn a_split_is_where_a_short_key_divides() {
    let mut row = Row::new(4096, Order::Bytes);
    for n in 0..60u8 {
        let key = [&[if n < 32 { b'a' } else { b'b' }; 20][..], &[n]].concat();
        row.insert(&key, StoredValue::Inline(&[7; 20]), SplitPoint::Middle);
    }
    row.split(0, SplitPoint::Middle, Coming { key: b"c", value: StoredValue::Inline(b""), place: Err(60) });
    assert_eq!(Leaf::new(&row.pages[1]).lower_fence(), Some(&b"b"[..]));
}

#[test]
fn ascending_inserts_fill_pages() {
    let mut row = Row::new(4096, Order::Bytes);
    for n in 0u64..2000 {
        row.insert(&n.to_be_bytes(), StoredValue::Inline(&[5; 32]), SplitPoint::Append);
    }
    assert!(row.pages.len() <= 2000 / 80, "{} pages", row.pages.len());
}

#[test]
fn a_split_at_an_end_moves_nothing_to_the_other_half() {
    for (order, ascends) in [(Order::Bytes, true), (REVERSE, false)] {
        for at in [SplitPoint::Append, SplitPoint::Prepend] {
            let upward = ascends == (at == SplitPoint::Append);
            let mut row = Row::new(512, order);
            // Five fit a page, with a fence.
            for n in 0..12u8 {
                row.insert(&[if upward { n } else { !n }], StoredValue::Inline(&[7; 60]), at);
            }
            let mut counts: Vec<usize> = row.pages.iter().map(|page| Leaf::new(page).count()).collect();
            if at == SplitPoint::Prepend {
                counts.reverse();
            }
            assert_eq!(counts, [5, 5, 2], "{at:?}, ascending: {ascends}");
        }
    }
}
