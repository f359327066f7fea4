//! Removing all records of a range: by pages, not by records.
//!
//! ```text
//! parent  ──┬────────┬────────┬────────┬────────┬──
//!         leaf s   leaf a    ...     leaf b   leaf e
//!         [..███]  [█████]  [█████]  [█████]  [██...]      █ what goes
//! after:  [..   ]  [       empty      ]       [  ...]
//! ```
//!
//! The leaves below one parent are looked at in order, since only a leaf says whether long values or subtrees
//! hang on it. Of those that lose all of their records the first stays, empty, and takes over what the others
//! cover; they go, and their separators. Only at the two ends of the range are records taken out of a leaf.
//! A page keeps its lower end so, as in all that changes a tree, and nothing has to fit anywhere. What has
//! become sparse is merged with its neighbours then, from the leaves upwards; so the inner pages that have
//! lost their children go as well.
//!
//! A range is removed in *steps*, each from the range's beginning on and below one parent: a writer that
//! builds beside what there is publishes between them. After each the tree is whole.
//!
//! A subtree that loses all of its records goes with the reference to it, page by page; beside what there is
//! in as many steps as it takes, before which nothing else of its leaf changes. One that keeps some is gone
//! into, as any tree: at most the first and the last that a range meets.
//!
//! A writer in place that fails on the way leaves pages that nothing leads to, and no record without its
//! value: pages are freed after nothing leads to them.

use std::collections::HashSet;
use std::ops::{Bound, Range};

use super::node::{self, Fences, Inner, InnerMut, Leaf, LeafMut, NodeKind, StoredValue};
use super::reach::ReachStep;
use super::shape::{merge_at, settle, should_merge, shrink};
use super::{
    OwnValues, Step, Toward, Tree, beside, counted, damaged, find_edge, find_leaf, nest, slots_between,
};
use crate::access::method::Removed;
use crate::access::scan::{KeyBounds, Scan, Scanned};
use crate::access::{CopyWrite, PageRead, PageWrite, after, check_different, long};
use crate::error::Result;
use crate::pages::header;
use crate::types::PageId;

/// Removes the first records of a range: see [`Tree::remove_some`].
pub(crate) fn remove_some<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    bounds: KeyBounds<'_>,
    most: usize,
) -> Result<Removed> {
    remove(writer, tree, bounds, most, &InPlace)
}

/// As [`remove_some`], in a tree whose root is a copy.
pub(crate) fn remove_some_beside<W: CopyWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    bounds: KeyBounds<'_>,
    most: usize,
) -> Result<Removed> {
    remove(writer, tree, bounds, most, &InCopies)
}

/// How a page comes to be one that may be changed.
trait Way<W> {
    /// Keeps others from changing a leaf from here on.
    fn hold(&self, writer: &mut W, page: PageId) -> Result<()>;

    /// The page to be changed in the place of a child, which is in this slot of its parent.
    fn own_child(
        &self,
        writer: &mut W,
        tree: &Tree<'_>,
        parent: PageId,
        slot: usize,
        child: PageId,
    ) -> Result<PageId>;

    /// The subtree to be changed in the place of one, to which a stem leads. None if that is not wholly
    /// copied yet.
    fn own_subtree<'t>(
        &self,
        writer: &mut W,
        tree: &Tree<'t>,
        stem: &[u8],
        below: Tree<'t>,
    ) -> Result<Option<Tree<'t>>>;

    /// Whether the pages of a subtree that goes whole, with this root, have begun to.
    fn is_going(&self, writer: &mut W, root: PageId) -> bool;

    /// Frees all pages of a subtree, or adds them to what is to be freed once nothing leads to them; says how
    /// many records it has. None if it is more than should be freed at once: the next call goes on.
    fn let_go(&self, writer: &mut W, subtree: &Tree<'static>, freed: &mut Vec<Freed>) -> Result<Option<u64>>;
}

/// The first of pages to be freed: a single one, or those of a long value of so many bytes.
type Freed = (PageId, Option<u64>);

/// Pages are changed as they are. Leaves are latched in key order.
struct InPlace;

impl<W: PageWrite> Way<W> for InPlace {
    fn hold(&self, writer: &mut W, page: PageId) -> Result<()> {
        writer.latched(page).map(drop)
    }

    fn own_child(&self, _: &mut W, _: &Tree<'_>, _: PageId, _: usize, child: PageId) -> Result<PageId> {
        Ok(child)
    }

    fn own_subtree<'t>(
        &self,
        _: &mut W,
        _: &Tree<'t>,
        _: &[u8],
        below: Tree<'t>,
    ) -> Result<Option<Tree<'t>>> {
        Ok(Some(below))
    }

    fn is_going(&self, _: &mut W, _: PageId) -> bool {
        false
    }

    fn let_go(&self, writer: &mut W, subtree: &Tree<'static>, freed: &mut Vec<Freed>) -> Result<Option<u64>> {
        let mut going = Going::new(subtree);
        going.go_on(
            writer,
            |_| false,
            |_, pages| {
                freed.push(pages);
                Ok(())
            },
        )?;
        Ok(Some(going.records))
    }
}

/// Pages are copied before they are changed. Nobody else changes the tree.
struct InCopies;

impl<W: CopyWrite> Way<W> for InCopies {
    fn hold(&self, _: &mut W, _: PageId) -> Result<()> {
        Ok(())
    }

    fn own_child(
        &self,
        writer: &mut W,
        tree: &Tree<'_>,
        parent: PageId,
        slot: usize,
        child: PageId,
    ) -> Result<PageId> {
        beside::own_child(writer, tree, parent, slot, child)
    }

    fn own_subtree<'t>(
        &self,
        writer: &mut W,
        tree: &Tree<'t>,
        stem: &[u8],
        below: Tree<'t>,
    ) -> Result<Option<Tree<'t>>> {
        let leaf = beside::own_leaf(writer, tree, stem)?;
        let slot = writer.read(leaf, |bytes| Leaf::new(bytes).search(stem, tree.order))?;
        match slot {
            Ok(slot) if !writer.is_own(below.root)? => beside::copy_led_to(writer, &below, leaf, slot),
            _ => Ok(Some(below)),
        }
    }

    fn is_going(&self, writer: &mut W, root: PageId) -> bool {
        writer.begun().going.as_ref().is_some_and(|going| going.root == root)
    }

    fn let_go(&self, writer: &mut W, subtree: &Tree<'static>, _: &mut Vec<Freed>) -> Result<Option<u64>> {
        let begun = writer.begun().going.take().filter(|going| going.root == subtree.root);
        let mut going = begun.unwrap_or_else(|| Going::new(subtree));
        going.go_on(writer, W::is_full, free)?;
        if going.ahead.is_empty() {
            return Ok(Some(going.records));
        }
        writer.begun().going = Some(going);
        Ok(None)
    }
}

/// One step. Bounds know whole keys; in the innermost tree that the range begins in, and does not empty, they
/// are what is left of them.
fn remove<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    (lower, upper): KeyBounds<'_>,
    most: usize,
    way: &impl Way<W>,
) -> Result<Removed> {
    if is_empty(tree, (lower, upper)) {
        return Ok(Removed::default());
    }
    let stem_bytes = nest::stem_bytes(tree.order, writer.page_size());
    let whole = tree;
    let (mut tree, mut bounds, mut stems, mut around) = (*tree, (lower, upper), Vec::new(), Vec::new());
    // As this tree has them: there what is nested is one record, of its stem.
    let (from, to) = loop {
        let stem = stem_of(bounds.0, stem_bytes);
        let to = match stem_of(bounds.1, stem_bytes) {
            // What is nested there comes last.
            Some(last) if Some(last) != stem => Bound::Excluded(last),
            Some(last) => Bound::Included(last),
            None => bounds.1,
        };
        let Some(stem) = stem else { break (bounds.0, to) };
        let Some(below) = nest::find_subtree(writer, &tree, stem)? else { break (Bound::Included(stem), to) };
        let below = Tree { home: tree.home.of_subtree(stem), ..below };
        let inside = (nest::inside(bounds.0, stem), nest::inside(bounds.1, stem));
        // Of one that is going the pages may be free already.
        if way.is_going(writer, below.root) || !has_others(writer, &below, inside)? {
            break (Bound::Included(stem), to);
        }
        let Some(inner) = way.own_subtree(writer, &tree, stem, below)? else {
            // Nothing was removed so far.
            return Ok(Removed { records: 0, left: first_within(lower) });
        };
        let outer = std::mem::replace(&mut tree, inner);
        around.push((outer, stem.to_vec()));
        stems.extend_from_slice(stem);
        bounds = inside;
    };
    let removed = remove_leaves(writer, (&tree, around), (from, to), most, way)?;
    let left = match (removed.left, to) {
        (Some(left), _) => Some([&stems, &left[..]].concat()),
        // What is nested at the range's end.
        (None, Bound::Excluded(last)) if last.len() == stem_bytes => Some([&stems, last].concat()),
        _ if stems.is_empty() => None,
        // Behind all that begins as the tree's keys do.
        _ => after(&stems).filter(|after| whole.below(after, upper)),
    };
    Ok(Removed { left, ..removed })
}

/// The least key within a lower bound, in the order of bytes.
fn first_within(lower: Bound<&[u8]>) -> Option<Vec<u8>> {
    Some(match lower {
        Bound::Unbounded => Vec::new(),
        Bound::Included(key) => key.to_vec(),
        Bound::Excluded(key) => [key, &[0]].concat(),
    })
}

/// The stem of a bound that is nested.
fn stem_of(bound: Bound<&[u8]>, stem_bytes: usize) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => key.get(..stem_bytes),
        Bound::Unbounded => None,
    }
}

/// Whether no key can lie between the bounds.
fn is_empty(tree: &Tree<'_>, (lower, upper): KeyBounds<'_>) -> bool {
    match lower {
        Bound::Unbounded => false,
        Bound::Included(key) => !tree.below(key, upper),
        Bound::Excluded(key) => match upper {
            Bound::Included(end) | Bound::Excluded(end) => tree.order.compare(key, end).is_ge(),
            Bound::Unbounded => false,
        },
    }
}

/// Whether a tree has records outside of the bounds.
fn has_others<R: PageRead>(reader: &R, tree: &Tree<'_>, (lower, upper): KeyBounds<'_>) -> Result<bool> {
    let before = match lower {
        Bound::Unbounded => None,
        Bound::Included(key) => Some((Bound::Unbounded, Bound::Excluded(key.to_vec()))),
        Bound::Excluded(key) => Some((Bound::Unbounded, Bound::Included(key.to_vec()))),
    };
    let behind = match upper {
        Bound::Unbounded => None,
        Bound::Included(key) => Some((Bound::Excluded(key.to_vec()), Bound::Unbounded)),
        Bound::Excluded(key) => Some((Bound::Included(key.to_vec()), Bound::Unbounded)),
    };
    for (from, to) in [before, behind].into_iter().flatten() {
        if Scan::new(from, to).next(tree, &mut Scanned(reader), true)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a leaf loses.
struct Loss {
    leaf: PageId,
    slots: Range<usize>,
    /// All that it has.
    all: bool,
    /// Nothing that it covers behind these goes.
    ends: bool,
    records: u64,
    /// What is to be freed with them.
    freed: Vec<Freed>,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
    /// The first key that is left to a later step, if this is cut short for being much.
    cut: Option<Vec<u8>>,
}

impl Loss {
    /// Leaves what begins in this slot of the leaf to a later step.
    fn cut_at(&mut self, slot: usize, leaf: Leaf<'_>) {
        self.slots.end = slot;
        let (prefix, suffix) = leaf.key(slot);
        self.cut = Some([prefix, suffix].concat());
    }
}

/// What a record leads to, and is to be freed with it.
enum Hanging {
    Value(Freed),
    Subtree(Tree<'static>),
}

/// Removes the first records of a range in the bounds of the own keys of one tree, which is nested in those
/// around it.
fn remove_leaves<W: PageWrite>(
    writer: &mut W,
    (tree, around): (&Tree<'_>, Around<'_>),
    (lower, upper): KeyBounds<'_>,
    most: usize,
    way: &impl Way<W>,
) -> Result<Removed> {
    let first = match lower {
        Bound::Unbounded => None,
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
    };
    let (leaf, mut path) = descend(writer, tree, first, way)?;
    let parent = path.pop();
    let mut step = Removal { tree, around, above: path, way, records: 0, touched: Vec::new() };
    let Some(parent) = parent else {
        way.hold(writer, leaf)?;
        let loss = step.look(writer, leaf, (lower, upper), most)?;
        step.thin_out(writer, &loss, None)?;
        return Ok(Removed { records: step.records, left: loss.cut });
    };
    let last = writer.read(parent.page, |bytes| Inner::new(bytes).count())?;
    let (mut slot, mut weight) = (parent.slot, 0);
    let (mut emptied, mut from) = (Vec::<Loss>::new(), lower);
    let left = loop {
        let leaf = writer.read(parent.page, |bytes| Inner::new(bytes).child(slot))?;
        way.hold(writer, leaf)?;
        let loss = step.look(writer, leaf, (from, upper), most)?;
        from = Bound::Unbounded;
        let behind = loss.upper.clone().filter(|_| !loss.ends);
        if let (Some(behind), Some(first)) = (&behind, first)
            && tree.order.compare(behind, first).is_le()
        {
            return Err(damaged(tree, leaf, "ends before it begins"));
        }
        let next = loss.cut.clone().or(behind);
        weight += 1 + loss.freed.len();
        let stops = next.is_none() || loss.cut.is_some() || slot == last || weight >= most;
        if loss.all {
            emptied.push(loss);
            if stops {
                step.empty(writer, parent.page, slot + 1 - emptied.len(), &emptied)?;
                break next;
            }
        } else {
            // But for the first leaf, what keeps something is the last that loses anything.
            step.empty(writer, parent.page, slot - emptied.len(), &emptied)?;
            let at = slot - emptied.len().saturating_sub(1);
            let leaf = way.own_child(writer, tree, parent.page, at, loss.leaf)?;
            step.thin_out(writer, &Loss { leaf, ..loss }, Some(Step { slot: at, ..parent }))?;
            if stops || !emptied.is_empty() {
                break next;
            }
        }
        slot += 1;
    };
    let touched = std::mem::take(&mut step.touched);
    touched.iter().try_for_each(|key| step.join(writer, key.as_deref()))?;
    if !touched.is_empty() {
        shrink(writer, tree)?;
    }
    Ok(Removed { records: step.records, left })
}

/// The leaf for a key, or the first, and the way to it, all of which may be changed.
fn descend<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    key: Option<&[u8]>,
    way: &impl Way<W>,
) -> Result<(PageId, Vec<Step>)> {
    let mut path = Vec::new();
    match key {
        None => find_edge(writer, tree, true, |step| path.push(step))?,
        Some(key) => find_leaf(writer, tree, key, Toward::Key, |step| path.push(step))?,
    };
    let mut page = tree.root;
    for step in &mut path {
        step.page = page;
        let child = writer.read(page, |bytes| Inner::new(bytes).child(step.slot))?;
        page = way.own_child(writer, tree, page, step.slot, child)?;
    }
    Ok((page, path))
}

/// Trees that one is nested in, from the outermost on, each with the stem that leads on from it.
type Around<'t> = Vec<(Tree<'t>, Vec<u8>)>;

/// A step in one tree.
struct Removal<'a, 't, Y> {
    tree: &'a Tree<'t>,
    around: Around<'t>,
    /// The way to the parent of the leaves.
    above: Vec<Step>,
    way: &'a Y,
    records: u64,
    /// Where leaves begin that were changed.
    touched: Vec<Option<Vec<u8>>>,
}

impl<Y> Removal<'_, '_, Y> {
    /// What a leaf, which is held, loses of a range that begins in it or before it.
    fn look<W: PageWrite>(
        &self,
        writer: &mut W,
        page: PageId,
        bounds: KeyBounds<'_>,
        most: usize,
    ) -> Result<Loss>
    where
        Y: Way<W>,
    {
        let tree = self.tree;
        let stem_bytes = nest::stem_bytes(tree.order, writer.page_size());
        let (mut loss, hanging) = writer.read(page, |bytes| {
            if header::tree_id(bytes) != tree.id || node::kind(bytes) != Some(NodeKind::Leaf) {
                return Err(damaged(tree, page, "should be a leaf of the tree, and is not"));
            }
            let leaf = Leaf::new(bytes);
            let Fences { lower: begins, upper: ends } = leaf.fences();
            let longest = node::key_bytes_max(bytes.len());
            if [begins, ends].into_iter().flatten().any(|fence| fence.len() > longest) {
                return Err(damaged(tree, page, "has a fence longer than any key"));
            }
            let (slots, goes_on) = slots_between(leaf, tree, bounds);
            let mut loss = Loss {
                leaf: page,
                slots,
                all: false,
                ends: !goes_on,
                records: 0,
                freed: Vec::new(),
                lower: begins.map(<[u8]>::to_vec),
                upper: ends.map(<[u8]>::to_vec),
                cut: None,
            };
            let mut hanging = Vec::new();
            for (slot, record) in loss.slots.clone().zip(leaf.records(loss.slots.clone())) {
                if leaf.prefix().len() + record.suffix().len() == stem_bytes {
                    hanging.push((slot, Hanging::Subtree(nest::subtree_at(tree, bytes, slot)?)));
                } else if let StoredValue::Long { first_page, len } = record.value() {
                    hanging.push((slot, Hanging::Value((first_page, Some(len)))));
                } else {
                    continue;
                }
                // What is freed with one leaf may be much.
                if hanging.len() >= most && slot + 1 < loss.slots.end {
                    loss.cut_at(slot + 1, leaf);
                    break;
                }
            }
            loss.all = loss.slots == (0..leaf.count());
            Ok((loss, hanging))
        })??;
        let mut subtrees = 0;
        for (slot, hanging) in hanging {
            match hanging {
                Hanging::Value(pages) => loss.freed.push(pages),
                Hanging::Subtree(subtree) => match self.way.let_go(writer, &subtree, &mut loss.freed)? {
                    Some(records) => {
                        subtrees += 1;
                        loss.records += records;
                    }
                    None => {
                        writer.read(page, |bytes| loss.cut_at(slot, Leaf::new(bytes)))?;
                        loss.all = false;
                        break;
                    }
                },
            }
        }
        loss.records += (loss.slots.len() - subtrees) as u64;
        Ok(loss)
    }

    /// Empties some leaves in a row, the first of which is in this slot of their parent: that stays, for all
    /// of them.
    fn empty<W: PageWrite>(
        &mut self,
        writer: &mut W,
        parent: PageId,
        slot: usize,
        leaves: &[Loss],
    ) -> Result<()>
    where
        Y: Way<W>,
    {
        let tree = self.tree;
        let (Some(first), Some(last)) = (leaves.first(), leaves.last()) else { return Ok(()) };
        if leaves.len() == 1 && first.slots.is_empty() {
            return Ok(());
        }
        let pages: Vec<PageId> = leaves.iter().map(|loss| loss.leaf).chain([parent]).collect();
        check_different(&pages)?;
        let stays = self.way.own_child(writer, tree, parent, slot, first.leaf)?;
        let records = leaves.iter().map(|loss| loss.records).sum();
        let way = [&self.above[..], &[Step { page: parent, slot }]].concat();
        self.begin_to_uncount(writer, &way, stays, records)?;
        let [bytes, above] = writer.write_all([stays, parent])?;
        let fences = Fences { lower: first.lower.as_deref(), upper: last.upper.as_deref() };
        let flags = node::flags(bytes);
        LeafMut::format(bytes, stays, tree.id, flags, fences);
        let mut above = InnerMut::new(above);
        (1..leaves.len()).for_each(|_| above.remove(slot));
        above.set_records(slot, 0);
        let above = &self.above;
        if tree.method.counts() {
            counted::add(writer, above, less(records))?;
        }
        settle(writer, tree, stays)?;
        self.touched.push(first.lower.clone());
        for (n, loss) in leaves.iter().enumerate() {
            if n > 0 {
                writer.free(loss.leaf)?;
            }
            self.free(writer, loss)?;
        }
        Ok(())
    }

    /// Takes out of a leaf what it loses; where its parent has it.
    fn thin_out<W: PageWrite>(&mut self, writer: &mut W, loss: &Loss, parent: Option<Step>) -> Result<()> {
        if loss.slots.is_empty() {
            return Ok(());
        }
        let way: Vec<Step> = self.above.iter().copied().chain(parent).collect();
        self.begin_to_uncount(writer, &way, loss.leaf, loss.records)?;
        let mut leaf = LeafMut::new(writer.write(loss.leaf)?);
        loss.slots.clone().rev().for_each(|slot| leaf.remove(slot));
        if self.tree.method.counts() {
            counted::add(writer, &way, less(loss.records))?;
        }
        self.touched.push(loss.lower.clone());
        self.free(writer, loss)
    }

    /// Says in the trees around that so many records fewer are in what is nested there, and makes sure that
    /// the same can be said on the way to a leaf. Of trees that are not counted nothing is said.
    fn begin_to_uncount<W: PageWrite>(
        &self,
        writer: &mut W,
        way: &[Step],
        leaf: PageId,
        records: u64,
    ) -> Result<()> {
        let is_counted = |(tree, _): &&(Tree<'_>, Vec<u8>)| tree.method.counts();
        for (n, (tree, stem)) in self.around.iter().filter(is_counted).enumerate() {
            if let Err(error) = counted::add_nested(writer, tree, stem, less(records)) {
                for (tree, stem) in self.around.iter().filter(is_counted).take(n) {
                    _ = counted::add_nested(writer, tree, stem, less(records).saturating_neg());
                }
                return Err(error);
            }
        }
        if self.tree.method.counts() { counted::make_ready(writer, way, leaf) } else { Ok(()) }
    }

    /// Frees what nothing leads to any more.
    fn free<W: PageWrite>(&mut self, writer: &mut W, loss: &Loss) -> Result<()> {
        self.records += loss.records;
        loss.freed.iter().try_for_each(|&pages| free(writer, pages))
    }

    /// Merges what has become sparse on the way to the leaf that begins with a key, or to the first.
    fn join<W: PageWrite>(&self, writer: &mut W, key: Option<&[u8]>) -> Result<()>
    where
        Y: Way<W>,
    {
        // Each merge takes a page away.
        while self.join_one(writer, key)? {}
        Ok(())
    }

    fn join_one<W: PageWrite>(&self, writer: &mut W, key: Option<&[u8]>) -> Result<bool>
    where
        Y: Way<W>,
    {
        let (mut page, mut path) = descend(writer, self.tree, key, self.way)?;
        while let Some(parent) = path.pop() {
            if writer.read(page, should_merge)? && self.merge(writer, parent)? {
                return Ok(true);
            }
            page = parent.page;
        }
        Ok(false)
    }

    /// Merges a child with one of its neighbours, if the two fit one page.
    fn merge<W: PageWrite>(&self, writer: &mut W, Step { page: parent, slot }: Step) -> Result<bool>
    where
        Y: Way<W>,
    {
        let count = writer.read(parent, |bytes| Inner::new(bytes).count())?;
        for left in [slot.checked_sub(1), (slot < count).then_some(slot)].into_iter().flatten() {
            let [one, other] = writer
                .read(parent, |bytes| {
                    let inner = Inner::new(bytes);
                    let separator = [inner.separator(left).0, inner.separator(left).1].concat();
                    ([left, left + 1].map(|slot| inner.child(slot)), separator)
                })
                .and_then(|(children, separator)| {
                    let [one, other] = children.map(|child| writer.read(child, <[u8]>::to_vec));
                    Ok(if node::may_merge(&one?, &other?, &separator) { children } else { [PageId::NONE; 2] })
                })?;
            if one == PageId::NONE {
                continue;
            }
            let one = self.way.own_child(writer, self.tree, parent, left, one)?;
            let other = self.way.own_child(writer, self.tree, parent, left + 1, other)?;
            check_different(&[parent, one, other])?;
            if merge_at(writer, self.tree, parent, left, (one, other))? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// So many records fewer.
fn less(records: u64) -> i64 {
    i64::try_from(records).map_or(i64::MIN, |records| -records)
}

fn free<W: PageWrite>(writer: &mut W, (first, len): Freed) -> Result<()> {
    match len {
        Some(len) => long::free(writer, first, len),
        None => writer.free(first),
    }
}

/// A subtree that goes whole, with all that is nested in it, page by page, each before those below it.
#[derive(Clone, Debug)]
pub(super) struct Going {
    root: PageId,
    ahead: Vec<ReachStep<'static>>,
    /// In what is gone.
    records: u64,
}

impl Going {
    fn new(subtree: &Tree<'static>) -> Going {
        Going { root: subtree.root, ahead: vec![ReachStep::root(subtree)], records: 0 }
    }

    /// Has pages go, until there are none left or it is enough.
    fn go_on<W: PageRead>(
        &mut self,
        writer: &mut W,
        is_enough: impl Fn(&W) -> bool,
        mut goes: impl FnMut(&mut W, Freed) -> Result<()>,
    ) -> Result<()> {
        let mut seen = HashSet::new();
        while !is_enough(writer)
            && let Some(step) = self.ahead.pop()
        {
            if !seen.insert(step.page) {
                return Err(step.damaged("is reached twice"));
            }
            let (known, mut values) = (self.ahead.len(), Vec::new());
            let records = writer.read(step.page, |bytes| {
                step.look(bytes, &mut self.ahead, &OwnValues::All, &mut |first, len| {
                    values.push((first, Some(len)));
                    true
                })?;
                let is_leaf = node::kind(bytes) == Some(NodeKind::Leaf);
                Ok(if is_leaf {
                    Leaf::new(bytes).count().saturating_sub(self.ahead.len() - known)
                } else {
                    0
                })
            })??;
            self.records += records as u64;
            values.into_iter().chain([(step.page, None)]).try_for_each(|pages| goes(writer, pages))?;
        }
        Ok(())
    }
}
