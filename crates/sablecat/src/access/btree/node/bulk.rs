//! Filling pages from records that come in order.
//!
//! A page's prefix follows from its fences, and its upper fence from the record after its last; so a loader
//! keeps a page's worth of records until it knows. With n records waiting and the next one at hand, the page
//! they would make has a size that is known exactly: the prefix it could leave out, and the fence, are. The
//! loader remembers the last n that fitted.

use super::bytes::common_len;
use super::cell::{CellContent, encode_long};
use super::counts::{COUNT_BYTES, encode_count};
use super::header::{FLAG_COUNTED, FLAG_CUSTOM_ORDER, NodeIdentity, NodeKind};
use super::heap::{HeapEntry, build};
use super::limits::{key_bytes_max, usable_bytes};
use super::slots::{INNER, LEAF, slot_bytes};
use super::split::shortest_separator;
use super::{Fences, StoredValue};
use crate::types::{PageId, TreeId};

/// A waiting entry. In the loader's arena there are its key and its value as it is in cells.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    at: usize,
    end: usize,
    key_len: usize,
    is_long: bool,
    child: PageId,
}

/// Entries of a page, mostly.
const WAITING_USUAL: usize = 32;

/// What leaves and inner pages have in common in loading.
#[derive(Clone, Debug)]
struct Loader<const C: usize> {
    tree: TreeId,
    flags: u16,
    level: u8,
    /// Bytes to fill of a page, less its header.
    budget: usize,
    /// Bytes of a fence, at most.
    fence_max: usize,
    lower: Option<Vec<u8>>,
    first_child: PageId,
    first_records: [u8; COUNT_BYTES],
    arena: Vec<u8>,
    waiting: Vec<Waiting>,
    /// Bytes of the waiting entries with whole keys.
    bytes: usize,
    /// How many of them certainly fit the page, and what then is its upper fence.
    ready: usize,
    ready_upper: Vec<u8>,
}

impl<const C: usize> Loader<C> {
    fn new(
        page_size: usize,
        tree: TreeId,
        flags: u16,
        level: u8,
        fill_percent: usize,
        lower: Option<&[u8]>,
    ) -> Self {
        Loader {
            tree,
            flags,
            level,
            budget: usable_bytes(page_size) * fill_percent.clamp(50, 100) / 100,
            fence_max: key_bytes_max(page_size),
            lower: lower.map(<[u8]>::to_vec),
            first_child: PageId::NONE,
            first_records: [0; COUNT_BYTES],
            // What of a page waits when it is ready, and some more.
            arena: Vec::with_capacity(page_size + page_size / 4),
            waiting: Vec::with_capacity(WAITING_USUAL),
            bytes: 0,
            ready: 0,
            ready_upper: Vec::new(),
        }
    }

    fn is_custom(&self) -> bool {
        self.flags & FLAG_CUSTOM_ORDER != 0
    }

    fn is_counted(&self) -> bool {
        self.flags & FLAG_COUNTED != 0
    }

    fn key(&self, i: usize) -> &[u8] {
        let Waiting { at, key_len, .. } = self.waiting[i];
        &self.arena[at..at + key_len]
    }

    fn entry(&self, i: usize) -> HeapEntry<'_> {
        let Waiting { at, end, key_len, is_long, child } = self.waiting[i];
        HeapEntry { content: CellContent::new(&[], &self.arena[at..end], key_len, is_long), child: child.0 }
    }

    /// At most the size of a page of the first `n` waiting entries, of `bytes` bytes, up to `upper`.
    fn size(&self, n: usize, bytes: usize, upper: Option<&[u8]>) -> usize {
        let lower = self.lower.as_deref();
        let prefix = match (lower, upper) {
            (Some(lower), Some(upper)) if !self.is_custom() => common_len(lower, upper),
            _ => 0,
        };
        lower.map_or(0, <[u8]>::len) + upper.map_or(0, <[u8]>::len) + bytes - n * prefix
    }

    /// The upper fence of a page of the first `n` waiting entries, if `next` follows.
    fn upper<'k>(&self, n: usize, next: &'k [u8]) -> &'k [u8] {
        if C != 0 || self.is_custom() { next } else { shortest_separator(self.key(n - 1), next) }
    }

    /// Takes an entry. True: a page is ready and must be emitted before the next push.
    fn push(&mut self, key: &[u8], (value, is_long): (&[u8], bool), child: PageId) -> bool {
        let n = self.waiting.len();
        let at = self.arena.len();
        self.arena.extend_from_slice(key);
        self.arena.extend_from_slice(value);
        self.waiting.push(Waiting { at, end: self.arena.len(), key_len: key.len(), is_long, child });
        let bytes = self.bytes + self.entry(n).content.size() + slot_bytes::<C>();
        let before = std::mem::replace(&mut self.bytes, bytes);
        // As long as the page has room for this one, whatever comes behind it, it is that which tells.
        if n > 0 && self.size(n + 1, bytes, None) + self.fence_max > self.budget {
            let upper = self.upper(n, key);
            if self.ready == 0 || self.size(n, before, Some(upper)) <= self.budget {
                self.ready_upper.clear();
                self.ready_upper.extend_from_slice(upper);
                self.ready = n;
            }
        }
        self.ready > 0 && self.ready < n
    }

    /// Writes the page that is ready; returns its upper fence.
    fn emit(&mut self, page: &mut [u8], page_id: PageId) -> Vec<u8> {
        let n = self.ready;
        assert!(n > 0, "nothing is ready");
        let upper = std::mem::take(&mut self.ready_upper);
        self.write(page, page_id, n, Some(&upper));
        // In an inner page the entry after those becomes the fence, and its child the first of the next page.
        let rest = self.waiting.split_off(n);
        let bytes = self.arena.split_off(rest.first().map_or(self.arena.len(), |first| first.at));
        let moved = self.arena.len();
        self.arena.clear();
        self.waiting.clear();
        (self.bytes, self.ready) = (0, 0);
        self.lower = Some(upper.clone());
        for (i, Waiting { at, end, key_len, is_long, child }) in rest.into_iter().enumerate() {
            let (key, value) = bytes[at - moved..end - moved].split_at(key_len);
            if C != 0 && i == 0 {
                self.first_child = child;
                self.first_records = value.try_into().unwrap_or_default();
            } else {
                self.push(key, (value, is_long), child);
            }
        }
        upper
    }

    /// Writes what waits as the last page; or, if that does not fit, a page before it, and returns its upper
    /// fence.
    fn finish(&mut self, page: &mut [u8], page_id: PageId, upper: Option<&[u8]>) -> Option<Vec<u8>> {
        let n = self.waiting.len();
        if n > 1 && self.size(n, self.bytes, upper) > usable_bytes(page.len()) {
            if C != 0 && self.ready > 1 && self.ready + 1 == n {
                // Leave the last page a separator.
                self.ready -= 1;
                self.ready_upper = self.key(self.ready).to_vec();
            }
            return Some(self.emit(page, page_id));
        }
        self.write(page, page_id, n, upper);
        self.waiting.clear();
        self.arena.clear();
        None
    }

    fn write(&self, page: &mut [u8], page_id: PageId, n: usize, upper: Option<&[u8]>) {
        let identity = NodeIdentity {
            page: page_id,
            tree: self.tree,
            kind: if C == 0 { NodeKind::Leaf } else { NodeKind::Inner },
            level: self.level,
            flags: self.flags,
            first_child: self.first_child,
            first_records: self.first_records,
        };
        let fences = Fences { lower: self.lower.as_deref(), upper };
        build::<C>(page, identity, fences, n, (0..n).map(|i| self.entry(i)))
            .expect("its size was computed, or it is one entry");
    }
}

/// Makes leaves of records that come in ascending order.
///
/// For each record [`push`](Self::push); whenever it returns true, [`emit`](Self::emit) a page; after the
/// last record [`finish`](Self::finish) until it returns `None`. Each page's separator is its upper fence and
/// the lower fence of the next.
#[derive(Clone, Debug)]
pub(crate) struct LeafLoader(Loader<LEAF>);

impl LeafLoader {
    /// `fill_percent`: 50 to 100; how full a page is to be. `lower`: the first page's lower fence.
    pub(crate) fn new(
        page_size: usize,
        tree: TreeId,
        flags: u16,
        fill_percent: usize,
        lower: Option<&[u8]>,
    ) -> Self {
        LeafLoader(Loader::new(page_size, tree, flags, 0, fill_percent, lower))
    }

    /// Takes a record; true if a page is ready.
    #[must_use]
    #[inline]
    pub(crate) fn push(&mut self, key: &[u8], value: StoredValue<'_>) -> bool {
        match value {
            StoredValue::Inline(bytes) => self.0.push(key, (bytes, false), PageId::NONE),
            StoredValue::Long { first_page, len } => {
                self.0.push(key, (&encode_long(first_page, len), true), PageId::NONE)
            }
        }
    }

    /// Writes a page; returns the separator between it and the next.
    pub(crate) fn emit(&mut self, page: &mut [u8], page_id: PageId) -> Vec<u8> {
        self.0.emit(page, page_id)
    }

    /// Writes the last page, with `upper` for its upper fence, and returns `None`; or, if that would not fit,
    /// one before it, and returns the separator.
    pub(crate) fn finish(
        &mut self,
        page: &mut [u8],
        page_id: PageId,
        upper: Option<&[u8]>,
    ) -> Option<Vec<u8>> {
        self.0.finish(page, page_id, upper)
    }
}

/// Makes inner pages of one level from children that come in order: as [`LeafLoader`], but the separator
/// `emit` returns is one that was pushed: it has moved up, and its child is the first of the next page.
#[derive(Clone, Debug)]
pub(crate) struct InnerLoader(Loader<INNER>);

impl InnerLoader {
    /// As for leaves; `first_child` is the child below the first separator, with so many records below it.
    pub(crate) fn new(
        page_size: usize,
        tree: TreeId,
        flags: u16,
        level: u8,
        fill_percent: usize,
        lower: Option<&[u8]>,
        (first_child, records): (PageId, u64),
    ) -> Self {
        let mut loader = Loader::new(page_size, tree, flags, level, fill_percent, lower);
        loader.first_child = first_child;
        if loader.is_counted() {
            loader.first_records = encode_count(records);
        }
        InnerLoader(loader)
    }

    /// Takes a separator and the child right of it, with so many records below that; true if a page is ready.
    #[must_use]
    pub(crate) fn push(&mut self, separator: &[u8], (child, records): (PageId, u64)) -> bool {
        if self.0.is_counted() {
            self.0.push(separator, (&encode_count(records), false), child)
        } else {
            self.0.push(separator, (&[], false), child)
        }
    }

    /// Writes a page; returns the separator between it and the next.
    pub(crate) fn emit(&mut self, page: &mut [u8], page_id: PageId) -> Vec<u8> {
        self.0.emit(page, page_id)
    }

    /// Writes the last page, or one before it: as [`LeafLoader::finish`].
    pub(crate) fn finish(
        &mut self,
        page: &mut [u8],
        page_id: PageId,
        upper: Option<&[u8]>,
    ) -> Option<Vec<u8>> {
        self.0.finish(page, page_id, upper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::btree::node::limits::record_bytes_max;

    struct Dice(u64);

    impl Dice {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ self.0 >> 31).wrapping_mul(0xd6e8_feb8_6659_fd93);
            ((mixed ^ mixed >> 32) % end as u64) as usize
        }
    }

    /// The pages of some entries, with their upper fences.
    fn loaded<const C: usize>(
        mut loader: Loader<C>,
        entries: &[(Vec<u8>, Vec<u8>)],
        page_size: usize,
        upper: Option<&[u8]>,
    ) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let mut pages = Vec::new();
        let mut page = vec![0; page_size];
        for (key, value) in entries {
            if loader.push(key, (value, false), PageId(9)) {
                let fence = loader.emit(&mut page, PageId(7));
                pages.push((page.clone(), Some(fence)));
            }
        }
        loop {
            let fence = loader.finish(&mut page, PageId(7), upper);
            pages.push((page.clone(), fence.clone()));
            if fence.is_none() {
                return pages;
            }
        }
    }

    fn same<const C: usize>(dice: &mut Dice, page_size: usize) {
        let longest = key_bytes_max(page_size);
        let flags = [0, FLAG_CUSTOM_ORDER, FLAG_COUNTED][dice.below(3)];
        let (prefix, most) = (dice.below(longest - 8), [1, 40, longest][dice.below(3)]);
        let mut keys = std::collections::BTreeSet::new();
        for _ in 0..dice.below(400) {
            let tail = 4 + dice.below(most).min(longest - prefix - 4);
            let mut key = vec![b'm'; prefix];
            key.extend((0..tail.min(longest - prefix)).map(|_| dice.below(3) as u8));
            keys.insert(key);
        }
        let value_max = [1, 30, 300, page_size][dice.below(4)];
        let entries: Vec<_> = keys
            .into_iter()
            .map(|key| {
                let len = match (C, flags) {
                    (0, _) => dice.below(value_max).min(record_bytes_max(page_size) - key.len()),
                    (_, FLAG_COUNTED) => COUNT_BYTES,
                    _ => 0,
                };
                (key, vec![1; len])
            })
            .collect();
        let lower = [None, Some(vec![b'm'; prefix]), Some(vec![b'a'; longest])][dice.below(3)].clone();
        let upper = [None, Some(vec![b'm' + 1; longest]), Some([vec![b'm'; prefix], vec![9]].concat())];
        let upper = upper[dice.below(3)].clone();
        let percent = 50 + dice.below(51);
        let loader =
            Loader::<C>::new(page_size, TreeId(3), flags, u8::from(C != 0), percent, lower.as_deref());
        // It looks for an end of its page with every entry.
        let always = Loader { fence_max: usize::MAX / 2, ..loader.clone() };
        let pages = loaded(loader, &entries, page_size, upper.as_deref());
        assert!(pages == loaded(always, &entries, page_size, upper.as_deref()), "pages of {page_size} bytes");
    }

    /// That no end is looked for while the page has room makes no other pages, whatever they are like.
    #[test]
    fn pages_are_the_same_as_if_an_end_was_looked_for_with_every_entry() {
        let mut dice = Dice(1);
        for round in 0..3000 {
            let page_size = 512 << (round % 8);
            same::<LEAF>(&mut dice, page_size);
            same::<INNER>(&mut dice, page_size);
        }
    }
}
