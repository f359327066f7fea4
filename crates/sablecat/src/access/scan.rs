//! Moving through a database in order, from either end.
//!
//! A scan stands between two bounds, which shrink as records are handed out, and holds nothing from one
//! record to the next but copies of pages: so one left standing holds up nobody but through its snapshot. How
//! it finds what comes next the method knows; what a transaction has pending is merged in by key here: a
//! pending record hides the committed one.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow};

#[cfg(feature = "seam")]
use super::flat;
use super::method::{Method, StoredValue, Tree};
use super::{Each, PageRead, btree, hash, lsm};
use crate::error::Result;
use crate::pages::{Foresight, Snapshot};
use crate::types::{Lsn, PageId};

/// Bounds of keys.
pub(crate) type KeyBounds<'b> = (Bound<&'b [u8]>, Bound<&'b [u8]>);

/// Keys between two bounds.
pub(crate) type KeySpan = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A private copy of a page: where one end of a scan is.
#[derive(Debug, Default)]
pub(crate) struct PageCopy {
    bytes: Vec<u8>,
    /// What was asked for beyond it.
    pub(crate) foresight: Foresight,
}

impl PageCopy {
    /// The page; only after it was filled.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes a copy of a page.
    #[inline]
    pub(crate) fn fill(&mut self, page: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(page);
    }
}

/// Which page a scan wants next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WantedPage<'a> {
    First,
    Last,
    /// The root, of a method with layers: which there are.
    Root,
    /// The one that covers this key.
    At(&'a [u8]),
    /// The one that covers what comes right before this key.
    Before(&'a [u8]),
    /// The one that covers keys with this hash, of a method that hashes.
    Hash {
        hash: u64,
        /// Whether what comes behind it is wanted next, and not what comes before.
        forward: bool,
        /// The hash that ends what is wanted then.
        to: u64,
    },
}

/// A pending record: its key, and the value that it is to have, if it is not to go.
pub(crate) type PendingRecord = (Vec<u8>, Option<Vec<u8>>);

/// Where a scan gets its pages and what is pending over them.
pub(crate) trait ScanSource {
    /// Copies the wanted page.
    fn copy(&mut self, part: &Part<'_>, wanted: WantedPage<'_>, into: &mut PageCopy) -> Result<()>;

    /// The same of a page that says nothing which another does not say that is copied as well: it does not
    /// count as read.
    fn copy_unseen(&mut self, part: &Part<'_>, wanted: WantedPage<'_>, into: &mut PageCopy) -> Result<()>;

    /// The first (`forward`) or last pending record between the bounds: its key, and whether it sets a value.
    fn pending(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        forward: bool,
    ) -> Result<Option<PendingRecord>>;

    /// The range with a key in it of which all that is committed is to go.
    fn removed_around(&self, _key: &[u8]) -> Option<KeyBounds<'_>> {
        None
    }
}

/// The pages that a reader sees, with nothing pending over them.
pub(crate) struct Scanned<'r, R>(pub(crate) &'r R);

impl<R: PageRead> ScanSource for Scanned<'_, R> {
    fn copy(&mut self, part: &Part<'_>, wanted: WantedPage<'_>, into: &mut PageCopy) -> Result<()> {
        let page = part.tree.wanted(self.0, part, wanted, &mut into.foresight)?;
        self.0.read(page, |bytes| into.fill(bytes))
    }

    fn copy_unseen(&mut self, part: &Part<'_>, wanted: WantedPage<'_>, into: &mut PageCopy) -> Result<()> {
        self.copy(part, wanted, into)
    }

    fn pending(&self, _: Bound<&[u8]>, _: Bound<&[u8]>, _: bool) -> Result<Option<PendingRecord>> {
        Ok(None)
    }
}

/// A state with nothing pending over it, whose pages can be looked at in place.
pub(crate) trait StateSource: ScanSource + PageRead {
    /// Runs an operation at the state, again if frames have to be made free first.
    fn operate<T>(&self, work: impl FnMut(&mut Snapshot<'_>) -> Result<T>) -> Result<T>;

    /// A value, whole.
    fn load(&self, found: ScannedValue) -> Result<Vec<u8>>;

    /// What of a page lies in a part is being shown.
    #[inline]
    fn shows(&self, _part: &Part<'_>, _page: PageId, _bytes: &[u8]) {}
}

/// What of a tree, or of one nested in it, a scan looks at.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) tree: &'a Tree<'a>,
    /// What whole keys begin with before what this tree knows of them: nothing in the outermost tree.
    pub(crate) stems: &'a [u8],
    /// From where to where the scan will look, as far as it is known, in keys of this tree.
    pub(crate) lower: Bound<&'a [u8]>,
    pub(crate) upper: Bound<&'a [u8]>,
}

impl<'a> Part<'a> {
    /// What of it lies in a page that has the keys from one to another, or from the first or to the last.
    pub(super) fn between(
        &self,
        from: Option<&'a [u8]>,
        to: Option<&'a [u8]>,
    ) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
        let lower = from.filter(|from| self.tree.above(from, self.lower)).map_or(self.lower, Bound::Included);
        let upper = to.filter(|to| self.tree.below(to, self.upper)).map_or(self.upper, Bound::Excluded);
        (lower, upper)
    }
}

/// A bound as it is kept of what was read.
pub(crate) type ReadBound<'b> = Bound<Cow<'b, [u8]>>;

/// What a scan found under a key. Long values never change in place, so their place stands for them when two
/// are compared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ScannedValue {
    Bytes(Vec<u8>),
    /// A value in pages of its own.
    Long(PageId, u64),
}

impl ScannedValue {
    /// As a leaf stores it.
    pub(crate) fn as_stored(&self) -> StoredValue<'_> {
        match self {
            ScannedValue::Bytes(value) => StoredValue::Inline(value),
            &ScannedValue::Long(first_page, len) => StoredValue::Long { first_page, len },
        }
    }

    /// Whether it stands for a removed record ([`StoredValue::REMOVED`]).
    pub(super) fn is_removed(&self) -> bool {
        self.as_stored().is_removed()
    }
}

impl From<StoredValue<'_>> for ScannedValue {
    fn from(stored: StoredValue<'_>) -> ScannedValue {
        match stored {
            StoredValue::Inline(value) => ScannedValue::Bytes(value.to_vec()),
            StoredValue::Long { first_page, len } => ScannedValue::Long(first_page, len),
        }
    }
}

/// A scan between two bounds that shrink as records are handed out from either end.
#[derive(Debug)]
pub(crate) struct Scan {
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    ends: Ends,
    /// What is nested is not gone into: what leads there is handed out as it stands.
    shallow: bool,
    done: bool,
    /// The state that the pages were copied from, if whose that is may change.
    of: StateId,
}

/// Where a scan stands, as its method knows it.
#[derive(Debug)]
enum Ends {
    /// Nowhere yet.
    Unknown,
    Btree(btree::Ends),
    Hash(hash::Ends),
    Lsm(lsm::Ends),
    #[cfg(feature = "seam")]
    Flat(flat::Ends),
}

/// A state that pages are copied from, as told from any other: the run of a transaction, and its snapshot.
pub(crate) type StateId = (u64, Lsn);

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl Scan {
    pub(crate) fn new(lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>) -> Scan {
        Scan { lower, upper, ends: Ends::Unknown, shallow: false, done: false, of: StateId::default() }
    }

    /// A scan that stays in one tree and hands out what leads to those nested in it as it stands.
    fn shallow(lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>) -> Scan {
        Scan { shallow: true, ..Scan::new(lower, upper) }
    }

    /// Goes on in this state: pages that were copied from another are looked for again.
    #[inline]
    pub(crate) fn look_in(&mut self, state: StateId) {
        if self.of != state {
            self.of = state;
            self.ends = Ends::Unknown;
        }
    }

    /// The next record from the front (`forward`) or the back.
    pub(crate) fn next<S: ScanSource>(
        &mut self,
        tree: &Tree<'_>,
        source: &mut S,
        forward: bool,
    ) -> Result<Option<(Vec<u8>, ScannedValue)>> {
        while !self.done {
            let committed = self.standing(tree, source, forward)?;
            let pending = source.pending(as_slice(&self.lower), as_slice(&self.upper), forward)?;
            let first = |a: &[u8], b: &[u8]| {
                if forward { tree.order.compare(a, b) } else { tree.order.compare(b, a) }
            };
            let take_pending = match (&committed, &pending) {
                (_, None) => false,
                (None, Some(_)) => true,
                (Some(committed), Some((key, _))) => first(key, committed).is_le(),
            };
            if take_pending {
                let Some((key, value)) = pending else { break };
                self.pass(&key, forward);
                if let Some(value) = value {
                    return Ok(Some((key, ScannedValue::Bytes(value))));
                }
            } else if let Some(key) = committed {
                let value = match &self.ends {
                    Ends::Btree(ends) => ends.value(forward),
                    Ends::Hash(ends) => ends.value(forward),
                    Ends::Lsm(ends) => ends.value(forward),
                    #[cfg(feature = "seam")]
                    Ends::Flat(ends) => ends.value(forward),
                    Ends::Unknown => unreachable!("a record was found"),
                };
                self.pass(&key, forward);
                return Ok(Some((key, value)));
            } else {
                self.done = true;
            }
        }
        Ok(None)
    }

    /// Shows the records that are left, from the front (`forward`) or the back on, each with what was made of
    /// those before it, `sum` at first. Returns what was made of the last, or with which one `each` ended it.
    pub(super) fn show<S: StateSource, B>(
        &mut self,
        tree: &Tree<'_>,
        state: &mut S,
        forward: bool,
        mut sum: B,
        each: &mut impl FnMut(B, &[u8], &[u8]) -> ControlFlow<B, B>,
    ) -> Result<ControlFlow<B, B>> {
        while let Some((key, found)) = self.next(tree, state, forward)? {
            let value = state.load(found)?;
            match each(sum, &key, &value) {
                ControlFlow::Continue(after) => sum = after,
                last => return Ok(last),
            }
        }
        Ok(ControlFlow::Continue(sum))
    }

    /// Moves the bound past a key.
    fn pass(&mut self, key: &[u8], forward: bool) {
        let bound = if forward { &mut self.lower } else { &mut self.upper };
        match bound {
            // In the memory of the one before.
            Bound::Excluded(passed) => {
                passed.clear();
                passed.extend_from_slice(key);
            }
            _ => *bound = Bound::Excluded(key.to_vec()),
        }
    }

    /// The key of the next committed record from one end that does not go with a range; none if no more lie
    /// between the bounds.
    fn standing<S: ScanSource>(
        &mut self,
        tree: &Tree<'_>,
        source: &mut S,
        forward: bool,
    ) -> Result<Option<Vec<u8>>> {
        let mut beyond = None;
        loop {
            let Some(key) = self.committed(tree, beyond.as_ref(), source, forward)? else { return Ok(None) };
            let Some((lower, upper)) = source.removed_around(&key) else { return Ok(Some(key)) };
            // What comes beyond the range is looked for from the root.
            self.ends = Ends::Unknown;
            beyond = match if forward { upper } else { lower } {
                Bound::Unbounded => return Ok(None),
                Bound::Included(key) => Some(Bound::Excluded(key.to_vec())),
                Bound::Excluded(key) => Some(Bound::Included(key.to_vec())),
            };
        }
    }

    /// The key of the next committed record from one end, and `beyond` there, which then stands there; none
    /// if no more lie between the bounds.
    fn committed<S: ScanSource>(
        &mut self,
        tree: &Tree<'_>,
        beyond: Option<&Bound<Vec<u8>>>,
        source: &mut S,
        forward: bool,
    ) -> Result<Option<Vec<u8>>> {
        if matches!(self.ends, Ends::Unknown) {
            self.ends = match tree.method {
                Method::Btree | Method::Counted => Ends::Btree(btree::Ends::default()),
                Method::Hash => Ends::Hash(hash::Ends::default()),
                Method::Lsm => Ends::Lsm(lsm::Ends::default()),
                #[cfg(feature = "seam")]
                Method::Flat => Ends::Flat(flat::Ends::default()),
            };
        }
        let bounds = match (beyond, forward) {
            (None, _) => (as_slice(&self.lower), as_slice(&self.upper)),
            (Some(beyond), true) => (as_slice(beyond), as_slice(&self.upper)),
            (Some(beyond), false) => (as_slice(&self.lower), as_slice(beyond)),
        };
        match &mut self.ends {
            Ends::Btree(ends) => ends.next(tree, bounds, source, (forward, self.shallow)),
            Ends::Hash(ends) => ends.next(tree, bounds, source, forward),
            Ends::Lsm(ends) => ends.next(tree, bounds, source, forward),
            #[cfg(feature = "seam")]
            Ends::Flat(ends) => ends.next(tree, bounds, source, forward),
            Ends::Unknown => unreachable!("it was made certain where the scan stands"),
        }
    }
}

/// Whether a record that is there in one state may be missing in a later one that is to read the same. Keys
/// of subtrees come as what is left of them there; what leads to a subtree comes as a record, too.
pub(crate) type MayGo<'g> = dyn Fn(&[u8], StoredValue<'_>) -> Result<bool> + 'g;

/// Whether what lies between two bounds is the same in two states of a tree, without what is nested in that.
/// Its root may not be the same in both.
pub(super) fn reads_same<S: ScanSource>(
    (then_tree, now_tree): (&Tree<'_>, &Tree<'_>),
    (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
    (then, now): (&mut S, &mut S),
    may_go: &MayGo<'_>,
) -> Result<bool> {
    let scan = || Scan::shallow(lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec));
    let (mut before, mut after) = (scan(), scan());
    loop {
        let (mut one, other) = (before.next(then_tree, then, true)?, after.next(now_tree, now, true)?);
        while one != other {
            let goes = match &one {
                Some((key, ScannedValue::Bytes(value))) => may_go(key, StoredValue::Inline(value))?,
                Some((key, ScannedValue::Long(first_page, len))) => {
                    may_go(key, StoredValue::Long { first_page: *first_page, len: *len })?
                }
                None => false,
            };
            if !goes {
                return Ok(false);
            }
            one = before.next(then_tree, then, true)?;
        }
        if one.is_none() {
            return Ok(true);
        }
    }
}

/// Shows all records between the bounds, one after the other from the first (`forward`) or the last on, for a
/// method that has no faster way: see [`Tree::fold`].
pub(super) fn fold<S: StateSource, B>(
    mut state: S,
    tree: &Tree<'_>,
    (lower, upper): (Bound<Vec<u8>>, Bound<Vec<u8>>),
    forward: bool,
    sum: B,
    mut each: impl Each<B>,
) -> Result<B> {
    let mut each = |so_far, key: &[u8], value: &[u8]| each.one(so_far, key, value);
    let shown = Scan::new(lower, upper).show(tree, &mut state, forward, sum, &mut each)?;
    let (ControlFlow::Continue(sum) | ControlFlow::Break(sum)) = shown;
    Ok(sum)
}
