//! Loaded pages against what was loaded.

use super::row::Row;
use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// A loader's pages hold what was pushed, are full to the factor, and join at their fences.
    #[test]
    fn loaded_pages_hold_what_was_pushed(
        size in prop::sample::select(&SIZES[..3]),
        keys in prop::collection::btree_set(a_key(44), 0..300),
        fill in 50usize..=100,
        len in 0usize..30,
        counted in any::<bool>(),
    ) {
        let flags = if counted { FLAG_COUNTED } else { 0 };
        let mut loader = LeafLoader::new(size, TREE, 0, fill, None);
        let mut inner = InnerLoader::new(size, TREE, flags, 1, fill, None, (PageId(1), 1));
        let mut row = Row { size, order: Order::Bytes, pages: Vec::new() };
        let mut inner_pages = Vec::new();
        let mut separators = Vec::new();
        let value = vec![9; len.min(inline_value_bytes_max(size, 44))];
        for key in &keys {
            if loader.push(key, StoredValue::Inline(&value)) {
                let mut page = vec![0xbb; size];
                separators.push(loader.emit(&mut page, PageId(1)));
                row.pages.push(page);
            }
        }
        loop {
            let mut page = vec![0xbb; size];
            let separator = loader.finish(&mut page, PageId(1), None);
            row.pages.push(page);
            match separator {
                Some(separator) => separators.push(separator),
                None => break,
            }
        }
        row.check();
        let expected: Vec<_> = keys.iter().map(|key| (key.clone(), Held::Inline(value.clone()))).collect();
        prop_assert_eq!(row.records(), expected);
        for page in row.pages.iter().rev().skip(2) {
            let largest = 50 + 8 + value.len() + 50;
            prop_assert!(
                Leaf::new(page).used_bytes() + largest + 128 * fill / 100 >= (size - 128) * fill / 100 / 2
            );
        }
        for (n, separator) in separators.iter().enumerate() {
            if inner.push(separator, (PageId(n as u32 + 2), n as u64 + 2)) {
                let mut page = vec![0xbb; size];
                inner.emit(&mut page, PageId(1));
                inner_pages.push(page);
            }
        }
        loop {
            let mut page = vec![0xbb; size];
            let more = inner.finish(&mut page, PageId(1), None);
            inner_pages.push(page);
            if more.is_none() {
                break;
            }
        }
        let mut children = Vec::new();
        for page in &inner_pages {
            check_full(page, Order::Bytes).unwrap();
            prop_assert!(Inner::new(page).count() > 0 || row.pages.len() == 1);
            for child in 0..=Inner::new(page).count() {
                let expected = if counted { u64::from(Inner::new(page).child(child).0) } else { 0 };
                prop_assert_eq!(Inner::new(page).records_below(child), expected);
            }
            children.extend((0..=Inner::new(page).count()).map(|i| Inner::new(page).child(i).0));
        }
        prop_assert!(children.into_iter().eq(1..=row.pages.len() as u32));
    }
}

/// However many separators there are, no loaded page is left with a single child.
#[test]
fn the_last_inner_page_is_never_left_with_one_child() {
    for n in 1..120u32 {
        let mut loader = InnerLoader::new(512, TREE, 0, 1, 100, None, (PageId(1), 0));
        let mut pages = Vec::new();
        for i in 0..n {
            if loader.push(&(u64::from(i) << 32).to_be_bytes(), (PageId(i + 2), 0)) {
                let mut page = vec![0; 512];
                loader.emit(&mut page, PageId(1));
                pages.push(page);
            }
        }
        loop {
            let mut page = vec![0; 512];
            let more = loader.finish(&mut page, PageId(1), None);
            pages.push(page);
            if more.is_none() {
                break;
            }
        }
        assert!(pages.iter().all(|page| Inner::new(page).count() > 0), "{n} separators");
    }
}
