//! Bulk reading in place: whole leaves, at one snapshot, an operation a leaf.
//!
//! A snapshot's tree does not change, so one look at a parent names all the leaves below it that follow; they
//! are visited without a descent, the next one being fetched into the processor's cache meanwhile, a line or
//! two with each record. A visit that ends in its first leaf, as one of a few records does, does not list
//! them, unless it says that it wants many. Only the leaves at the bounds have keys compared.
//!
//! Keys that are nested (nest.rs) are copied out by a scan of their subtree, between two leaves.
//!
//! Records that are cut alike, as those of most databases are, go through a loop of their own, of some 25
//! instructions beside what the caller does.
//!
//! Costs (8 + 32 bytes, 1 M records, out of the processor's cache): 3.0 ns a record, one of them for the
//! check of the value that the caller did; 2.4 in the cache; 5.4 if each record is taken apart for itself; 10
//! if the next leaf is fetched all at once.

use std::ops::{Bound, ControlFlow, Range};

use sablecat_os::prefetch::{Ahead, Steps};

use super::behind::leaves_behind;
use super::node::{self, Alike, Inner, Leaf, LeafRecord, NodeKind, StoredValue};
use super::several::{Keys, Several};
use super::{Step, Toward, Tree, find_edge, find_leaf, nest};
use crate::access::ahead::VisitForesight;
use crate::access::scan::{Part, Scan, ScannedValue, StateSource};
use crate::access::{Each, PageRead, after};
use crate::error::{Error, Result};
use crate::pages::{Snapshot, header};
use crate::types::PageId;

/// Where a visit stands after a leaf.
enum Next {
    /// The next leaf below the same parent.
    Following,
    /// The leaf that begins with this key, below another parent.
    From(Vec<u8>),
    /// A long value interrupts: its key and place.
    Long(Vec<u8>, PageId, u64),
    /// A subtree interrupts: its stem.
    Below(Vec<u8>),
    Done,
}

/// Shows all records between the bounds in a state, each with what was made of those before it, `sum` at
/// first. Returns what was made of the last.
pub(crate) fn fold<S: StateSource, B>(
    mut state: S,
    tree: &Tree<'_>,
    (mut lower, upper): (Bound<Vec<u8>>, Bound<Vec<u8>>),
    sum: B,
    each: impl Each<B>,
) -> Result<B> {
    if is_empty(tree, (&lower, &upper)) {
        return Ok(sum);
    }
    let mut leaves = Leaves { wants_many: each.wants_many(), ..Leaves::default() };
    let stem_bytes = nest::stem_bytes(tree.order, state.page_size());
    let mut visit = Visit { tree, stem_bytes, key: WholeKey::default(), keys: Keys::default(), each };
    let mut sum = Some(sum);
    // From where the last descent went on, once something follows it.
    let mut from = None;
    loop {
        let step = state.operate(|snapshot| {
            let page = leaves.next(snapshot, tree, (&lower, &upper))?;
            let ahead = leaves.ahead(snapshot);
            let bytes = snapshot.page(page)?;
            let leaf = leaf_of(tree, page, bytes)?;
            let part = Part {
                tree,
                stems: &[],
                lower: lower.as_ref().map(Vec::as_slice),
                upper: upper.as_ref().map(Vec::as_slice),
            };
            state.shows(&part, page, bytes);
            leaves.pass();
            let is_last = leaves.is_empty();
            let before = sum.take().expect("a leaf is shown once, after all that may have to be repeated");
            let (after, next) = visit.leaf(leaf, (&lower, &upper), is_last, ahead, before);
            sum = Some(after);
            if matches!(next, Next::Done) {
                leaves.foresight.end(snapshot, page, leaves.following.last().copied());
            }
            Ok(next)
        })?;
        let mut before = sum.take().expect("the leaf was shown");
        let next = match step {
            Next::Done => return Ok(before),
            // From its first record on.
            Next::Following => Bound::Unbounded,
            Next::From(fence) => Bound::Included(fence),
            Next::Long(key, first, len) => {
                let value = state.load(ScannedValue::Long(first, len))?;
                match visit.each.one(before, &key, &value) {
                    ControlFlow::Continue(after) => before = after,
                    ControlFlow::Break(last) => return Ok(last),
                }
                leaves.clear();
                Bound::Excluded(key)
            }
            Next::Below(stem) => {
                let after = after(&stem);
                let more =
                    after.as_ref().is_some_and(|after| tree.below(after, upper.as_ref().map(Vec::as_slice)));
                let to = match &after {
                    Some(after) if more => Bound::Excluded(after.clone()),
                    _ => upper.clone(),
                };
                let from = match &lower {
                    Bound::Included(bound) | Bound::Excluded(bound) if bound.starts_with(&stem) => {
                        lower.clone()
                    }
                    _ => Bound::Included(stem),
                };
                let mut each = |so_far, key: &[u8], value: &[u8]| visit.each.one(so_far, key, value);
                match Scan::new(from, to).show(tree, &mut state, true, before, &mut each)? {
                    ControlFlow::Continue(after) => before = after,
                    ControlFlow::Break(last) => return Ok(last),
                }
                leaves.clear();
                match after {
                    Some(after) if more => Bound::Included(after),
                    _ => return Ok(before),
                }
            }
        };
        sum = Some(before);
        let descended = from.get_or_insert(std::mem::replace(&mut lower, next));
        if lower != Bound::Unbounded {
            if !goes_on(tree, descended, &lower) {
                return Err(Error::corruption(format!(
                    "the leaves of tree {} lead back to where a visit has been",
                    tree.id
                )));
            }
            descended.clone_from(&lower);
        }
    }
}

/// Whether there is no key between two bounds.
pub(super) fn is_empty(tree: &Tree<'_>, bounds: (&Bound<Vec<u8>>, &Bound<Vec<u8>>)) -> bool {
    let (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) = bounds
    else {
        return false;
    };
    let order = tree.order.compare(from, to);
    order.is_gt() || order.is_eq() && !matches!(bounds, (Bound::Included(_), Bound::Included(_)))
}

/// A page as the leaf of a tree that it should be.
pub(super) fn leaf_of<'p>(tree: &Tree<'_>, page: PageId, bytes: &'p [u8]) -> Result<Leaf<'p>> {
    if node::kind(bytes) != Some(NodeKind::Leaf) || header::tree_id(bytes) != tree.id {
        return Err(Error::corruption(format!(
            "page {page} should be a leaf of tree {} and is not",
            tree.id
        )));
    }
    Ok(Leaf::new(bytes))
}

/// Whether a descent to the second lower bound goes on from one to the first: leaves whose fences are damaged
/// could be visited for ever.
fn goes_on(tree: &Tree<'_>, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
    let (Bound::Included(key) | Bound::Excluded(key)) = to else { return true };
    match (from.as_ref().map(Vec::as_slice), to) {
        (Bound::Included(before), Bound::Included(_)) => tree.above(key, Bound::Excluded(before)),
        (before, _) => tree.above(key, before),
    }
}

/// A visit under way.
struct Visit<'a, F> {
    tree: &'a Tree<'a>,
    stem_bytes: usize,
    key: WholeKey,
    keys: Keys,
    each: F,
}

impl<F> Visit<'_, F> {
    /// Shows one leaf's records between the bounds, `is_last` of those that its parent names. Returns what
    /// was made of them.
    #[inline]
    fn leaf<B>(
        &mut self,
        leaf: Leaf<'_>,
        (lower, upper): (&Bound<Vec<u8>>, &Bound<Vec<u8>>),
        is_last: bool,
        ahead: Ahead,
        sum: B,
    ) -> (B, Next)
    where
        F: Each<B>,
    {
        let Visit { tree, stem_bytes, .. } = *self;
        let order = tree.order;
        let place = |bound: &[u8]| leaf.search(bound, order);
        let from = match lower {
            Bound::Unbounded => 0,
            // As in all that are the first below their parent.
            Bound::Included(bound) if leaf.lower_fence() == Some(bound) => 0,
            // The subtree that the bound lies in, if there is one, stands before it.
            Bound::Included(bound) | Bound::Excluded(bound) if bound.len() >= stem_bytes => {
                place(&bound[..stem_bytes]).unwrap_or_else(|slot| slot)
            }
            Bound::Included(bound) => place(bound).unwrap_or_else(|slot| slot),
            Bound::Excluded(bound) => place(bound).map_or_else(|slot| slot, |slot| slot + 1),
        };
        let upper = upper.as_ref().map(Vec::as_slice);
        let next = leaf.upper_fence().filter(|fence| tree.below(fence, upper));
        let to = match upper {
            _ if next.is_some() => leaf.count(),
            Bound::Unbounded => leaf.count(),
            // The leaf covers the bound, or lies wholly below it.
            Bound::Included(bound) if leaf.covers(bound, order) => {
                place(bound).map_or_else(|slot| slot, |slot| slot + 1)
            }
            Bound::Excluded(bound) if leaf.covers(bound, order) => place(bound).unwrap_or_else(|slot| slot),
            _ => leaf.count(),
        };
        self.key.begin(leaf.prefix());
        let to = to.max(from);
        self.each.leaf(leaf.prefix(), leaf.cells(), to - from, leaf.count());
        let mut ahead = ahead.in_steps(to - from);
        let (mut sum, shown) = match self.show_alike(leaf, from..to, &mut ahead, sum) {
            ControlFlow::Continue(shown) => shown,
            ControlFlow::Break(last) => return (last, Next::Done),
        };
        for record in leaf.records(from + shown..to) {
            ahead.step();
            let key = self.key.with(leaf.prefix(), record);
            if key.len() == stem_bytes {
                return (sum, Next::Below(key.to_vec()));
            }
            match record.value() {
                StoredValue::Inline(value) => match self.each.one(sum, key, value) {
                    ControlFlow::Continue(after) => sum = after,
                    ControlFlow::Break(last) => return (last, Next::Done),
                },
                StoredValue::Long { first_page, len } => {
                    return (sum, Next::Long(key.to_vec(), first_page, len));
                }
            }
        }
        let next = match next {
            None => Next::Done,
            Some(fence) if is_last => Next::From(fence.to_vec()),
            Some(_) => Next::Following,
        };
        (sum, next)
    }

    /// Shows the first of a range of a leaf's records that are alike, mostly all of them. Returns how many
    /// these were, and what was made of them.
    fn show_alike<B>(
        &mut self,
        leaf: Leaf<'_>,
        slots: Range<usize>,
        ahead: &mut Steps,
        sum: B,
    ) -> ControlFlow<B, (B, usize)>
    where
        F: Each<B>,
    {
        let count = slots.len();
        let Some(alike) = leaf.alike(slots) else { return ControlFlow::Continue((sum, 0)) };
        let key_len = self.key.prefix_len + alike.suffix_len();
        if key_len == self.stem_bytes {
            return ControlFlow::Continue((sum, 0));
        }
        // What is looked at with each record is in variables of the loop, not in memory that outlives it.
        let shown = if key_len <= SHORT {
            self.show_short(&alike, key_len, ahead, sum)
        } else {
            self.show_long(&alike, leaf.prefix(), ahead, sum)
        };
        shown.map_continue(|(sum, left, ahead_of_left)| {
            *ahead = ahead_of_left;
            (sum, count - left)
        })
    }

    /// Shows records whose keys fit in a word. Returns what was made of them, how many are left, and what is
    /// to be brought with those.
    ///
    /// A function of its own, so that the loop has the registers to itself.
    #[inline(never)]
    fn show_short<B>(
        &mut self,
        alike: &Alike<'_>,
        key_len: usize,
        ahead: &Steps,
        mut sum: B,
    ) -> ControlFlow<B, (B, usize, Steps)>
    where
        F: Each<B>,
    {
        let (mut alike, mut ahead) = (alike.clone(), *ahead);
        let prefix = (self.key.prefix, self.key.prefix_len);
        while let Some((key, value)) = alike.next_short(prefix) {
            ahead.step();
            sum = self.each.one(sum, &key.to_le_bytes()[..key_len], value)?;
        }
        ControlFlow::Continue((sum, alike.left(), ahead))
    }

    /// Shows records whose keys do not.
    #[inline(never)]
    fn show_long<B>(
        &mut self,
        alike: &Alike<'_>,
        prefix: &[u8],
        ahead: &Steps,
        sum: B,
    ) -> ControlFlow<B, (B, usize, Steps)>
    where
        F: Each<B>,
    {
        let mut records = Several::new(prefix, alike.clone(), *ahead, &mut self.keys);
        let sum = self.each.several(sum, &mut records)?;
        let (left, ahead) = records.left();
        ControlFlow::Continue((sum, left, ahead))
    }
}

/// Puts whole keys together from a leaf's prefix and each record's suffix.
///
/// A short key is put together in a register and stored at once: a load of bytes that came by two stores
/// would have to wait for both to reach the cache.
#[derive(Default)]
struct WholeKey {
    short: [u8; SHORT],
    prefix: u64,
    prefix_len: usize,
    /// The last key that did not fit in a word, or nothing since the prefix is another one.
    long: Vec<u8>,
}

const SHORT: usize = size_of::<u64>();

impl WholeKey {
    /// The keys that follow begin with `prefix`.
    fn begin(&mut self, prefix: &[u8]) {
        self.prefix_len = prefix.len();
        self.prefix = prefix.iter().take(SHORT).rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        self.long.clear();
    }

    /// Where long keys that begin with the same prefix are put together: that is there.
    #[inline(always)]
    fn long(&mut self, prefix: &[u8]) -> &mut Vec<u8> {
        if self.long.len() < self.prefix_len {
            self.long.extend_from_slice(prefix);
        }
        &mut self.long
    }

    #[inline(always)]
    fn with(&mut self, prefix: &[u8], record: LeafRecord<'_>) -> &[u8] {
        if let Some((len, suffix)) = record.short_suffix()
            && self.prefix_len + len <= SHORT
        {
            // A prefix as long as that leaves no suffix to shift out of the word.
            self.short = (self.prefix | suffix.wrapping_shl(8 * self.prefix_len as u32)).to_le_bytes();
            return &self.short[..self.prefix_len + len];
        }
        let key = self.long(prefix);
        key.truncate(prefix.len());
        key.extend_from_slice(record.suffix());
        key
    }
}

/// So many leaves are listed at a time,
const LISTED: usize = 32;
/// and more when no more than these are left: the next ones are asked for ahead.
const LISTED_MIN: usize = 2;

/// The leaves still to be visited below the parent looked at last, the next one at the end.
#[derive(Default)]
struct Leaves {
    following: Vec<PageId>,
    /// The parent, and which child of it the next one is.
    parent: Option<Step>,
    /// The visit has come to its first leaf, and behind those listed there are so many below the parent.
    unlisted: Option<usize>,
    /// There is more than one leaf to be visited, as far as is known.
    wants_many: bool,
    foresight: VisitForesight,
}

impl Leaves {
    /// The next leaf, which is in memory then; it stays in `following` until the caller has [passed
    /// it](Leaves::pass), since an operation may have to be repeated.
    fn next(
        &mut self,
        snapshot: &mut Snapshot<'_>,
        tree: &Tree<'_>,
        (lower, upper): (&Bound<Vec<u8>>, &Bound<Vec<u8>>),
    ) -> Result<PageId> {
        let before = snapshot.waits();
        let page = self.find(snapshot, tree, lower)?;
        snapshot.page(page)?;
        let (waited, upper) = (snapshot.waits() != before, upper.as_ref().map(Vec::as_slice));
        let list = |many| leaves_behind(snapshot, tree, self.parent, (true, upper), many);
        self.foresight.came(snapshot, (page, waited), list)?;
        Ok(page)
    }

    /// The next leaf has been visited.
    fn pass(&mut self) {
        self.following.pop();
        if let Some(Step { slot, .. }) = &mut self.parent {
            *slot += 1;
        }
    }

    /// Whether none is left.
    fn is_empty(&self) -> bool {
        self.following.is_empty() && self.unlisted.is_none_or(|unlisted| unlisted == 0)
    }

    /// What comes next is found from the root.
    fn clear(&mut self) {
        self.following.clear();
        self.unlisted = self.unlisted.map(|_| 0);
    }

    fn find(&mut self, snapshot: &Snapshot<'_>, tree: &Tree<'_>, lower: &Bound<Vec<u8>>) -> Result<PageId> {
        let has_more = self.unlisted.is_some_and(|unlisted| unlisted > 0);
        if let (true, Some(Step { page, slot })) =
            (has_more && self.following.len() <= LISTED_MIN, self.parent)
        {
            return self.list(snapshot, tree, (page, slot));
        }
        if let Some(&page) = self.following.last() {
            return Ok(page);
        }
        let mut parent = None;
        let note = |step: Step| parent = Some(step);
        let page = match lower {
            Bound::Unbounded => find_edge(snapshot, tree, true, note)?,
            Bound::Included(key) | Bound::Excluded(key) => find_leaf(snapshot, tree, key, Toward::Key, note)?,
        };
        self.parent = parent;
        match (parent, self.unlisted) {
            (Some(Step { page, slot }), None) if !self.wants_many => {
                self.unlisted =
                    Some(snapshot.read(page, |bytes| Inner::new(bytes).count().saturating_sub(slot))?);
            }
            (Some(Step { page, slot }), _) => return self.list(snapshot, tree, (page, slot)),
            (None, _) => self.unlisted = Some(0),
        }
        self.following.push(page);
        Ok(page)
    }

    /// Lists the children of a page from this one on, some of them. Returns this one.
    fn list(
        &mut self,
        snapshot: &Snapshot<'_>,
        tree: &Tree<'_>,
        (parent, from): (PageId, usize),
    ) -> Result<PageId> {
        self.following.clear();
        self.following.reserve(LISTED);
        snapshot.read(parent, |bytes| {
            if node::kind(bytes) == Some(NodeKind::Inner) && header::tree_id(bytes) == tree.id {
                let inner = Inner::new(bytes);
                let (children, end) = (inner.count() + 1, from + LISTED);
                self.following.extend((from..end.min(children)).rev().map(|slot| inner.child(slot)));
                self.unlisted = Some(children.saturating_sub(end));
            }
        })?;
        self.following.last().copied().ok_or_else(|| not_the_parent(tree, parent))
    }

    /// The leaf after the next.
    fn ahead(&self, snapshot: &Snapshot<'_>) -> Ahead {
        let [rest @ .., following, _] = &self.following[..] else { return Ahead::NOTHING };
        if let [.., far, _, _] = rest {
            snapshot.far_ahead(*far);
        }
        snapshot.ahead(*following)
    }
}

#[cold]
fn not_the_parent(tree: &Tree<'_>, page: PageId) -> Error {
    Error::corruption(format!("page {page} led to leaves of tree {}, and does not any more", tree.id))
}
