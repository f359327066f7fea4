//! Everything that can be done to a page, for tests and fuzzers: what passed [`check_bounds`] must get
//! through it without a panic, and be a page that passes it again after every change.

use super::{
    Coming, Inner, InnerMut, Leaf, LeafMut, NodeKind, Order, SplitPoint, StoredValue, check_bounds,
    check_full, kind, may_merge, merge_inner, merge_leaf, split_inner, split_leaf,
};
use crate::pages::Near;
use crate::types::PageId;

const SPLITS: [SplitPoint; 3] = [SplitPoint::Middle, SplitPoint::Append, SplitPoint::Prepend];

fn sound(page: &[u8]) {
    check_bounds(page).expect("what was sound before a change is sound after it");
}

/// Does everything that can be done to a page that passed [`check_bounds`].
///
/// # Panics
/// If anything goes wrong.
pub(crate) fn exercise(page: &[u8], key: &[u8]) {
    let backwards = |a: &[u8], b: &[u8]| b.cmp(a);
    for order in [Order::Bytes, Order::Custom(&backwards)] {
        let _ = check_full(page, order);
        if kind(page) == Some(NodeKind::Leaf) {
            exercise_leaf(page, key, order)
        } else {
            exercise_inner(page, key, order)
        }
    }
}

fn exercise_leaf(page: &[u8], key: &[u8], order: Order<'_>) {
    let leaf = Leaf::new(page);
    let slot = leaf.search(key, order).unwrap_or_else(|slot| slot);
    assert!(slot <= leaf.count());
    let _ = leaf.covers(key, order);
    let near = Near::default();
    for i in 0..leaf.count() {
        let (prefix, suffix) = leaf.key(i);
        let whole = [prefix, suffix].concat();
        let _ = leaf.value(i);
        if let Some(mut alike) = leaf.alike(i..leaf.count()) {
            while alike.next_long().is_some() {}
        }
        if let Some(mut alike) = leaf.alike(i..leaf.count()).filter(|alike| alike.suffix_len() <= 8) {
            let prefix = (0, 8 - alike.suffix_len());
            while alike.next_short(prefix).is_some() {}
        }
        assert!(leaf.search(&whole, order).unwrap_or_else(|slot| slot) <= leaf.count());
        let _ = leaf.is_next(&whole, order, &near);
        assert!(leaf.search_after(&whole, order, &near).unwrap_or_else(|slot| slot) <= leaf.count());
    }
    if leaf.count() >= 2 {
        let (mut left, mut right, mut merged) = (page.to_vec(), page.to_vec(), page.to_vec());
        for at in SPLITS {
            let coming = Coming { key, value: StoredValue::Inline(key), place: leaf.search(key, order) };
            let separator = split_leaf(page, &mut left, &mut right, PageId(5), (at, coming));
            sound(&left);
            sound(&right);
            may_merge(&left, &right, &separator);
            if merge_leaf(&left, &right, &separator, &mut merged) {
                sound(&merged);
            }
        }
    }
    let mut page = page.to_vec();
    let count = |page: &[u8]| Leaf::new(page).count();
    loop {
        let slot = slot.min(count(&page));
        if LeafMut::new(&mut page).insert(slot, key, StoredValue::Inline(b"value")).is_err() {
            break;
        }
        sound(&page);
    }
    for i in 0..count(&page) {
        let _ = LeafMut::new(&mut page).replace_value(i, StoredValue::Inline(&[7; 9][..i % 10]));
    }
    sound(&page);
    while count(&page) > 0 {
        let slot = count(&page) / 2;
        LeafMut::new(&mut page).remove(slot);
    }
    sound(&page);
}

fn exercise_inner(page: &[u8], key: &[u8], order: Order<'_>) {
    let inner = Inner::new(page);
    let (child, _) = inner.find(key, order);
    assert!(child <= inner.count());
    let _ = inner.fences();
    for i in 0..inner.count() {
        let _ = (inner.separator(i), inner.child(i));
    }
    if inner.count() >= 4 {
        let (mut left, mut right, mut merged) = (page.to_vec(), page.to_vec(), page.to_vec());
        for at in SPLITS {
            let separator = split_inner(page, &mut left, &mut right, PageId(5), at);
            sound(&left);
            sound(&right);
            may_merge(&left, &right, &separator);
            if merge_inner(&left, &right, &separator, &mut merged) {
                sound(&merged);
            }
        }
    }
    let mut page = page.to_vec();
    let _ = InnerMut::new(&mut page).insert(child, key, PageId(4));
    sound(&page);
    while Inner::new(&page).count() > 0 {
        InnerMut::new(&mut page).remove(0);
    }
    sound(&page);
}
