//! What an access method is: all that the layers above do with the pages of a database.
//!
//! Each function of [`Tree`] here is one `match` over [`Method`], known to the compiler, and has its meaning
//! written down; what it does is in the method's own folder. A method arranges records in pages so that
//!
//! * there is one *place* for each key, given the state of the pages: the page that *covers* it;
//! * most changes of a record concern that page alone ([`Tree::try_change`]), and the participant that has
//!   latched it can tell whether it still covers the key;
//! * all others, the changes of *structure*, are made under the structure latch of the database
//!   ([`Tree::change`]), one at a time;
//! * the root page keeps its id for ever;
//! * keys have an order, in which pages that cover them are latched, and in which they are scanned.
//!
//! Versions, latches, commits, logs and recovery know nothing of methods: a changed page is a changed page,
//! and what is logged is the record.

use std::collections::HashSet;
use std::fmt;
use std::ops::Bound;

#[cfg(feature = "seam")]
use super::flat;
use super::one_by_one;
use super::scan::{self, KeyBounds, Part, ScanSource, StateSource, WantedPage};
use super::whole::{Freeing, Load};
use super::{
    Append, CopyWrite, Each, Estimate, Home, PageRead, PageWrite, RecordEstimate, Sought, btree, hash, lsm,
};
use crate::error::Result;
use crate::pages::Foresight;
#[cfg(feature = "fuzzing")]
use crate::pages::header;
use crate::types::{PageId, TreeId, VolumeId};

pub(crate) use btree::node::{Order, StoredValue};

/// The access method of a database: how its records are arranged in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Method {
    /// A B+tree: for keys in order, and for most things.
    #[default]
    Btree,
    /// A B+tree that counts its records (Berkeley DB's DB_RECNUM): as [`Method::Btree`], but it also knows
    /// how many records are before a key ([`Read::rank`](crate::Read::rank)) and which record is the nth
    /// ([`Read::nth`](crate::Read::nth)), without going through them. Adding and removing records costs more,
    /// and is done by one transaction at a time; changing a value costs the same.
    Counted,
    /// A hash table: for records that are looked up by their whole keys, in no order.
    Hash,
    /// An LSM tree (log-structured merge-tree): for records in the order of their keys that are far more than
    /// memory holds, and written more often than they are read. What is written stays in memory, and is
    /// merged in the background with what was written before. Keys fit a page (495 bytes with pages of 4
    /// KiB). In a Data Store nothing is merged.
    Lsm,
    /// A flat list, for tests.
    #[cfg(feature = "seam")]
    #[doc(hidden)]
    Flat,
}

/// Pages that are removed of a range in one step.
const REMOVED_AT_ONCE: usize = 128;

impl Method {
    const ALL: &[Method] = &[
        Method::Btree,
        Method::Hash,
        Method::Counted,
        Method::Lsm,
        #[cfg(feature = "seam")]
        Method::Flat,
    ];

    /// Its number, as the catalog has it.
    pub(crate) fn number(self) -> u8 {
        match self {
            Method::Btree => 1,
            Method::Hash => 2,
            Method::Counted => 3,
            Method::Lsm => 4,
            #[cfg(feature = "seam")]
            Method::Flat => 255,
        }
    }

    /// The method with a number, if this build knows it.
    pub(crate) fn of(number: u8) -> Option<Method> {
        Method::ALL.iter().copied().find(|method| method.number() == number)
    }

    /// Whether keys are ordered by their hashes.
    pub(crate) fn hashes(self) -> bool {
        self == Method::Hash
    }

    /// Whether it knows which is the nth record.
    #[inline]
    pub(crate) fn counts(self) -> bool {
        self == Method::Counted
    }

    /// How the subtrees of nested keys are arranged.
    pub(crate) fn nested(self) -> Method {
        if self.counts() { Method::Counted } else { Method::Btree }
    }

    /// Makes the root page of a tree, with nothing in it.
    pub(crate) fn format(self, bytes: &mut [u8], tree: TreeId, root: PageId, custom_order: bool) {
        match self {
            Method::Btree | Method::Counted | Method::Lsm => {
                btree::format_root(bytes, tree, root, btree::flags_of(self, custom_order));
            }
            Method::Hash => hash::format(bytes, tree, root),
            #[cfg(feature = "seam")]
            Method::Flat => flat::format(bytes, tree, root),
        }
    }
}

/// What it is called.
impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::Btree => "B+tree",
            Method::Hash => "hash table",
            Method::Counted => "counted B+tree",
            Method::Lsm => "LSM tree",
            #[cfg(feature = "seam")]
            Method::Flat => "flat list",
        })
    }
}

/// What names the pages of a database: its tree, whatever the method.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree<'a> {
    /// Stands in each of its pages.
    pub(crate) id: TreeId,
    /// Where it begins, for ever.
    pub(crate) root: PageId,
    /// How its pages are arranged.
    pub(crate) method: Method,
    /// How its keys are ordered.
    pub(crate) order: Order<'a>,
    /// Where its pages go.
    pub(crate) home: Home<'a>,
}

/// Where a key belongs: in the innermost tree that there is for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyPlace<'t, 'k> {
    pub(crate) tree: Tree<'t>,
    /// What of the key led there.
    pub(crate) stems: &'k [u8],
    /// What of it is left. At least as long as a stem: there is no such subtree, and so no such record.
    pub(crate) rest: &'k [u8],
}

/// How a change of one page alone ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tried {
    Done,
    /// There was nothing to remove.
    Missing,
    /// It takes a change of structure. The page may have been written to, and is to be thrown away.
    Structure,
}

/// A record to be set, or, without a value, to be removed.
pub(crate) type SetOrRemove<'a> = (&'a [u8], Option<&'a [u8]>);

/// What of a range was removed.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    /// How many records.
    pub(crate) records: u64,
    /// The least key of those that may be left of it; none: nothing is.
    pub(crate) left: Option<Vec<u8>>,
}

/// What a database consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) levels: u32,
    pub(crate) inner_pages: u64,
    pub(crate) leaf_pages: u64,
    pub(crate) long_pages: u64,
    pub(crate) records: u64,
}

impl<'a> Tree<'a> {
    /// Refuses keys that it cannot hold.
    #[inline]
    pub(crate) fn check_key(&self, page_size: usize, key: &[u8]) -> Result<()> {
        match self.method {
            Method::Btree | Method::Counted | Method::Hash => btree::check_key(self.order, page_size, key),
            Method::Lsm => lsm::check_key(page_size, key),
            #[cfg(feature = "seam")]
            Method::Flat => flat::check_key(page_size, key),
        }
    }

    /// Whether a key is at or above a lower bound.
    #[inline]
    pub(crate) fn above(&self, key: &[u8], lower: Bound<&[u8]>) -> bool {
        match lower {
            Bound::Unbounded => true,
            Bound::Included(bound) => self.order.compare(key, bound).is_ge(),
            Bound::Excluded(bound) => self.order.compare(key, bound).is_gt(),
        }
    }

    /// Whether a key is at or below an upper bound.
    #[inline]
    pub(crate) fn below(&self, key: &[u8], upper: Bound<&[u8]>) -> bool {
        match upper {
            Bound::Unbounded => true,
            Bound::Included(bound) => self.order.compare(key, bound).is_le(),
            Bound::Excluded(bound) => self.order.compare(key, bound).is_lt(),
        }
    }

    /// Makes its root page, with nothing in it.
    pub(crate) fn format(&self, bytes: &mut [u8]) {
        self.method.format(bytes, self.id, self.root, matches!(self.order, Order::Custom(_)));
    }

    /// Whether the root page has nothing in it, as it was made.
    pub(crate) fn is_as_made(&self, root: &[u8]) -> bool {
        match self.method {
            Method::Btree | Method::Counted | Method::Lsm => btree::is_empty_leaf(root),
            Method::Hash => hash::is_as_made(root),
            #[cfg(feature = "seam")]
            Method::Flat => flat::is_as_made(root),
        }
    }

    /// Whether a key is *nested*: its place may be in another tree within this one, which changes by changes
    /// of structure alone.
    #[inline]
    pub(crate) fn is_nested(&self, key: &[u8], page_size: usize) -> bool {
        match self.method {
            Method::Btree | Method::Counted | Method::Hash => btree::is_nested(self, key, page_size),
            Method::Lsm => false,
            #[cfg(feature = "seam")]
            Method::Flat => false,
        }
    }

    /// Where a key belongs: for one that is not nested, in this very tree.
    #[inline]
    pub(crate) fn place<'k, R: PageRead>(&self, reader: &R, key: &'k [u8]) -> Result<KeyPlace<'a, 'k>> {
        match self.method {
            Method::Btree | Method::Counted | Method::Hash => btree::find_place(reader, self, key, |_| {}),
            Method::Lsm => Ok(KeyPlace { tree: *self, stems: &[], rest: key }),
            #[cfg(feature = "seam")]
            Method::Flat => Ok(KeyPlace { tree: *self, stems: &[], rest: key }),
        }
    }

    /// The page that covers a key that is not nested, by what leads there: it may not be in memory yet.
    pub(crate) fn led_to<R: PageRead>(&self, reader: &R, sought: Sought<'_>) -> Result<PageId> {
        match self.method {
            Method::Btree | Method::Counted => btree::leaf_led_to(reader, self, sought.key),
            Method::Lsm => lsm::led_to(reader, self, sought.key),
            Method::Hash => hash::find(reader, self, sought.hash),
            #[cfg(feature = "seam")]
            Method::Flat => flat::find(reader, self, sought.key),
        }
    }

    /// The page that covers a key that is not nested.
    #[inline(always)]
    pub(crate) fn find<R: PageRead>(&self, reader: &R, sought: Sought<'_>) -> Result<PageId> {
        match self.method {
            Method::Btree | Method::Counted => {
                btree::find_leaf(reader, self, sought.key, btree::Toward::Key, |_| {})
            }
            Method::Lsm => lsm::find(reader, self, sought.key),
            Method::Hash => hash::find(reader, self, sought.hash),
            #[cfg(feature = "seam")]
            Method::Flat => flat::find(reader, self, sought.key),
        }
    }

    /// Whether a page of any kind is the page of this tree that covers a key.
    #[inline(always)]
    pub(crate) fn covers(&self, bytes: &[u8], sought: Sought<'_>) -> bool {
        match self.method {
            Method::Btree | Method::Counted | Method::Lsm => btree::is_leaf_for(bytes, self, sought),
            Method::Hash => hash::is_bucket_for(bytes, self, sought.hash),
            #[cfg(feature = "seam")]
            Method::Flat => flat::covers(bytes, self, sought.key),
        }
    }

    /// The value of a record in the page that says what it is: the one that covers its key, or one of an
    /// older layer.
    #[inline(always)]
    pub(crate) fn get<'p>(&self, bytes: &'p [u8], sought: Sought<'_>) -> Option<StoredValue<'p>> {
        match self.method {
            Method::Btree | Method::Counted => btree::get(bytes, sought, self.order),
            Method::Lsm => lsm::get(bytes, sought, self),
            Method::Hash => hash::get(bytes, self, (sought.key, sought.hash)),
            #[cfg(feature = "seam")]
            Method::Flat => flat::get(bytes, sought.key, self.order),
        }
    }

    /// Sets or removes a record in the page that covers its key, if that page alone has to change, and no
    /// page of a long value.
    #[inline(always)]
    pub(crate) fn try_change<W: PageWrite>(
        &self,
        writer: &mut W,
        page: PageId,
        (sought, value): (Sought<'_>, Option<&[u8]>),
    ) -> Result<Tried> {
        match self.method {
            Method::Btree | Method::Counted => btree::try_change(writer, self, page, (sought, value)),
            Method::Lsm => lsm::try_change(writer, self, page, (sought, value)),
            Method::Hash => hash::try_change(writer, self, page, (sought.hash, (sought.key, value))),
            #[cfg(feature = "seam")]
            Method::Flat => flat::try_change(writer, self, page, (sought.key, value)),
        }
    }

    /// Sets or removes any record, `store` storing its value if that is long: the structure latch is held, or
    /// nobody else is there. `last` is the page that covered the key of the change before, if that is known,
    /// and then the one that covers this key, if it is worth knowing. False if there was nothing to remove.
    pub(crate) fn change<W: PageWrite>(
        &self,
        writer: &mut W,
        (sought, value): (Sought<'_>, Option<&[u8]>),
        last: &mut PageId,
        store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
    ) -> Result<bool> {
        let change = (sought.key, value);
        match self.method {
            Method::Btree | Method::Counted => btree::change(writer, self, change, last, store),
            Method::Lsm => lsm::change(writer, self, change, last, store),
            Method::Hash => hash::change(writer, self, (sought.hash, change), last, store),
            #[cfg(feature = "seam")]
            Method::Flat => flat::change(writer, self, change, last, store),
        }
    }

    /// Begins to append records, if the method can do that better than by one change after another, and
    /// `key`, of the first, lies behind all that there are: to be finished before anything else is done to
    /// the tree. The structure latch is held; the writer's changes come about as a whole or not at all.
    pub(crate) fn append<W: PageWrite>(&self, writer: &mut W, key: &[u8]) -> Result<Option<Append<'a>>> {
        match self.method {
            Method::Btree if !self.is_nested(key, writer.page_size()) => {
                Append::begin_in_use(writer, *self, key)
            }
            _ => Ok(None),
        }
    }

    /// As [`Tree::append`], for a tree whose root is a copy, by a writer that must not change what is none.
    pub(crate) fn append_beside<W: CopyWrite>(
        &self,
        writer: &mut W,
        key: &[u8],
    ) -> Result<Option<Append<'a>>> {
        match self.method {
            Method::Btree if !self.is_nested(key, writer.page_size()) => {
                Append::begin_beside(writer, *self, key)
            }
            _ => Ok(None),
        }
    }

    /// As [`Tree::change`], for a tree whose root is a copy, by a writer that must not change what is none:
    /// pages on the way are copied first. None if these are more than should be copied at once
    /// ([`CopyWrite::is_full`]): some were, nothing was changed, and it is to be called again once the copies
    /// are published.
    pub(crate) fn change_beside<W: CopyWrite>(
        &self,
        writer: &mut W,
        change: SetOrRemove<'_>,
        last: &mut PageId,
        store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
    ) -> Result<Option<bool>> {
        match self.method {
            Method::Btree | Method::Counted => btree::change_beside(writer, self, change, last, store),
            Method::Lsm => lsm::change_beside(writer, self, change, last, store),
            Method::Hash => hash::change_beside(writer, self, change, last, store),
            #[cfg(feature = "seam")]
            Method::Flat => flat::change_beside(writer, self, change, last, store),
        }
    }

    /// Removes the first records of a range, by pages as far as the method can: some `most` pages' worth. The
    /// structure latch is held, or nobody else is there.
    pub(crate) fn remove_some<W: PageWrite>(
        &self,
        writer: &mut W,
        bounds: KeyBounds<'_>,
        most: usize,
    ) -> Result<Removed> {
        match self.method {
            Method::Btree | Method::Counted => btree::remove_some(writer, self, bounds, most),
            Method::Hash | Method::Lsm => one_by_one::remove_some(writer, self, bounds),
            #[cfg(feature = "seam")]
            Method::Flat => one_by_one::remove_some(writer, self, bounds),
        }
    }

    /// Removes all records of a range, as [`Tree::remove_some`] does; says how many there were.
    pub(crate) fn remove_range<W: PageWrite>(
        &self,
        writer: &mut W,
        (lower, upper): KeyBounds<'_>,
    ) -> Result<u64> {
        let mut removed = self.remove_some(writer, (lower, upper), REMOVED_AT_ONCE)?;
        let mut records = removed.records;
        while let Some(from) = removed.left {
            removed = self.remove_some(writer, (Bound::Included(&from), upper), REMOVED_AT_ONCE)?;
            records += removed.records;
        }
        Ok(records)
    }

    /// As [`Tree::remove_some`], for a tree whose root is a copy, as [`Tree::change_beside`]: pages that are
    /// not needed any more need no copies.
    pub(crate) fn remove_some_beside<W: CopyWrite>(
        &self,
        writer: &mut W,
        bounds: KeyBounds<'_>,
        most: usize,
    ) -> Result<Removed> {
        match self.method {
            Method::Btree | Method::Counted => btree::remove_some_beside(writer, self, bounds, most),
            Method::Hash | Method::Lsm => one_by_one::remove_some_beside(writer, self, bounds),
            #[cfg(feature = "seam")]
            Method::Flat => one_by_one::remove_some_beside(writer, self, bounds),
        }
    }

    /// How many committed records lie between two bounds: looks at pages, not at each record, as far as the
    /// method can.
    pub(crate) fn count<S: ScanSource>(&self, source: &mut S, bounds: KeyBounds<'_>) -> Result<u64> {
        match self.method {
            Method::Btree | Method::Counted => btree::count(source, self, bounds),
            Method::Hash | Method::Lsm => one_by_one::count(source, self, bounds),
            #[cfg(feature = "seam")]
            Method::Flat => one_by_one::count(source, self, bounds),
        }
    }

    /// The page that a scan of a part of this tree wants next. What may come after it is asked for.
    pub(crate) fn wanted<R: PageRead>(
        &self,
        reader: &R,
        part: &Part<'_>,
        wanted: WantedPage<'_>,
        foresight: &mut Foresight,
    ) -> Result<PageId> {
        match self.method {
            Method::Btree | Method::Counted => btree::wanted(reader, part, wanted, foresight),
            Method::Lsm => Ok(self.root),
            Method::Hash => hash::wanted(reader, self, wanted, foresight),
            #[cfg(feature = "seam")]
            Method::Flat => flat::wanted(reader, self, wanted),
        }
    }

    /// From which key to which a page has all records of its tree, as far as it has ends and they say so.
    pub(super) fn ends_of<'p>(&self, bytes: &'p [u8]) -> (Option<&'p [u8]>, Option<&'p [u8]>) {
        match self.method {
            Method::Btree | Method::Counted | Method::Lsm => btree::ends_of(bytes),
            // Its order is not that of bytes: its pages are for no prefix of keys.
            Method::Hash => (None, None),
            #[cfg(feature = "seam")]
            Method::Flat => flat::ends_of(bytes),
        }
    }

    /// Where a page of it goes.
    pub(crate) fn home_of_page(&self, bytes: &[u8]) -> VolumeId {
        if self.home.keys.is_empty() {
            return self.home.volume;
        }
        let (lower, upper) = self.ends_of(bytes);
        self.home.of_range(lower, upper)
    }

    /// The longest value that is kept beside a key of this length; a longer one gets pages of its own.
    #[inline]
    pub(crate) fn inline_value_bytes_max(&self, page_size: usize, key_len: usize) -> usize {
        match self.method {
            Method::Btree | Method::Counted | Method::Lsm => {
                btree::node::inline_value_bytes_max(page_size, key_len)
            }
            Method::Hash => hash::inline_value_bytes_max(page_size, key_len),
            #[cfg(feature = "seam")]
            Method::Flat => flat::inline_value_bytes_max(page_size),
        }
    }

    /// Shows all records between the bounds, from the first (`forward`) or the last on and in place as far as
    /// may be, each with what was made of those before it, `sum` at first. Returns what was made of the last.
    #[inline]
    pub(crate) fn fold<S: StateSource, B>(
        &self,
        state: S,
        bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
        forward: bool,
        sum: B,
        each: impl Each<B>,
    ) -> Result<B> {
        match (self.method, forward) {
            (Method::Btree | Method::Counted, true) => btree::fold(state, self, bounds, sum, each),
            (Method::Btree | Method::Counted, false) => btree::fold_back(state, self, bounds, sum, each),
            (Method::Hash | Method::Lsm, _) => scan::fold(state, self, bounds, forward, sum, each),
            #[cfg(feature = "seam")]
            (Method::Flat, _) => scan::fold(state, self, bounds, forward, sum, each),
        }
    }

    /// Whether records of a bulk load must come in the order of keys.
    pub(crate) fn loads_in_order(&self) -> bool {
        self.method != Method::Hash
    }

    /// Begins to load records that come in order, if they must; there is nothing in the tree yet.
    pub(crate) fn load(&self, page_size: usize) -> Load<'a> {
        match self.method {
            Method::Btree | Method::Counted => Load::Btree(btree::Load::new(*self, page_size)),
            Method::Lsm => Load::Lsm(lsm::Load::new(*self, page_size)),
            Method::Hash => Load::Hash(hash::Load::new(*self)),
            #[cfg(feature = "seam")]
            Method::Flat => Load::Flat(flat::Load::new(*self, page_size)),
        }
    }

    /// Begins to free its pages.
    pub(crate) fn freeing(&self) -> Freeing<'a> {
        match self.method {
            Method::Btree | Method::Counted => Freeing::Btree(btree::Freeing::new(*self)),
            Method::Lsm => Freeing::Lsm(lsm::Freeing::new(*self)),
            Method::Hash => Freeing::Hash(hash::Freeing::new(*self)),
            #[cfg(feature = "seam")]
            Method::Flat => Freeing::Flat(flat::Freeing::new(*self)),
        }
    }

    /// Frees its root page, the only one it has left, with what belongs to that.
    pub(crate) fn free_root<W: PageWrite>(&self, writer: &mut W) -> Result<()> {
        match self.method {
            Method::Btree | Method::Counted => btree::free_root(writer, self),
            Method::Lsm => lsm::free_root(writer, self),
            Method::Hash => hash::free_root(writer, self),
            #[cfg(feature = "seam")]
            Method::Flat => flat::free_root(writer, self),
        }
    }

    /// Tells `met` of every page; it says whether that is news.
    ///
    /// # Errors
    /// Those of reading, and corruption if the pages are not arranged as they must be: then not all were
    /// found.
    pub(crate) fn reach<R: PageRead>(&self, reader: &R, met: &mut dyn FnMut(PageId) -> bool) -> Result<()> {
        match self.method {
            Method::Btree | Method::Counted => btree::reach(reader, self, met),
            Method::Lsm => lsm::reach(reader, self, met),
            Method::Hash => hash::reach(reader, self, met),
            #[cfg(feature = "seam")]
            Method::Flat => flat::reach(reader, self, met),
        }
    }

    /// How large it is, about, from a few of its pages, which `seed` picks.
    ///
    /// # Errors
    /// Those of reading, and corruption if pages that were looked at are not arranged as they must be.
    pub(crate) fn estimate<R: PageRead>(&self, reader: &R, seed: u64) -> Result<Estimate> {
        match self.method {
            Method::Btree | Method::Counted => btree::estimate(reader, self, seed),
            Method::Lsm => lsm::estimate(reader, self, seed),
            Method::Hash => hash::estimate(reader, self, seed),
            #[cfg(feature = "seam")]
            Method::Flat => flat::estimate(reader, self),
        }
    }

    /// How many records there are between two bounds, about, as [`Tree::estimate`] says how large it is.
    ///
    /// # Errors
    /// As [`Tree::estimate`].
    pub(crate) fn estimate_range<R: PageRead>(
        &self,
        reader: &R,
        bounds: KeyBounds<'_>,
        seed: u64,
    ) -> Result<RecordEstimate> {
        match self.method {
            Method::Btree | Method::Counted => btree::estimate_range(reader, self, bounds, seed),
            Method::Lsm => lsm::estimate_range(reader, self, bounds, seed),
            Method::Hash => hash::estimate_range(reader, self, bounds, seed),
            #[cfg(feature = "seam")]
            Method::Flat => flat::estimate_range(reader, self, bounds),
        }
    }

    /// Walks all pages and tells `problem` of whatever is wrong, naming page and reason; `seen` collects
    /// every page met, to find pages met twice.
    pub(crate) fn verify<R: PageRead>(
        &self,
        reader: &R,
        seen: &mut HashSet<PageId>,
        problem: &mut dyn FnMut(String),
        progress: &mut dyn FnMut(u64),
    ) -> Shape {
        match self.method {
            Method::Btree | Method::Counted => btree::verify(reader, self, seen, problem, progress),
            Method::Lsm => lsm::verify(reader, self, seen, problem, progress),
            Method::Hash => hash::verify(reader, self, seen, problem, progress),
            #[cfg(feature = "seam")]
            Method::Flat => flat::verify(reader, self, seen, problem, progress),
        }
    }
}

/// Does everything to a page that passed the check, with this key, as far as the page has room for it.
#[cfg(feature = "fuzzing")]
pub(crate) fn exercise(page: &[u8], key: &[u8]) {
    #[cfg(feature = "seam")]
    if header::kind(page) == Some(flat::KIND) {
        return flat::exercise(page, key);
    }
    if header::kind(page).is_some_and(hash::is_kind) {
        return hash::exercise(page, key);
    }
    if btree::node::kind(page).is_some() {
        btree::node::exercise(page, &key[..key.len().min(btree::node::key_bytes_max(page.len()))]);
    }
}

/// Forms a page that is of no database yet, so that it can be written and read before its owner forms it.
pub(crate) fn form_blank(bytes: &mut [u8], page: PageId) {
    Method::Btree.format(bytes, TreeId(0), page, false);
}
