//! Freeing a tree, some pages at a time: from its lower end and its innermost subtrees on.
//!
//! What is left is a tree at any time, with some of its first leaves missing: so freeing can be cut short,
//! and goes on where it was.
//!
//! Of a tree that no snapshot sees any more, and that has no long values of its own, the leaves need not be
//! looked at ([`UnseenLeaves`]). Those with neighbouring numbers are freed as runs are (pages/store/run.rs):
//! so one of them is read, and one frame is taken, for all. Their later pages have the versions that they had
//! for as long as the first has one that some snapshot wants. That is why no snapshot may be left that sees
//! one of them and is older than the first.

use std::collections::BTreeSet;

use super::node::{self, Inner, InnerMut, Leaf, LeafMut, NodeKind, Order};
use super::{OwnValues, Tree, find_edge, format_root, nest};
use crate::access::wrong::damaged;
use crate::access::{PageRead, PageWrite, long};
use crate::error::Result;
use crate::pages::{header, runs_of};
use crate::types::PageId;

/// A tree being freed.
pub(crate) struct Freeing<'t> {
    outermost: Tree<'t>,
    /// The subtrees on the way to the leaf freed last, each in the first leaf of the one before.
    below: Vec<Tree<'t>>,
    /// The long values that are freed with it.
    own: OwnValues,
}

impl<'t> Freeing<'t> {
    pub(crate) fn new(tree: Tree<'t>) -> Freeing<'t> {
        Freeing::of_owner(tree, OwnValues::All)
    }

    /// A tree of which only some long values are its own.
    pub(in crate::access) fn of_owner(tree: Tree<'t>, own: OwnValues) -> Freeing<'t> {
        Freeing { outermost: tree, below: Vec::new(), own }
    }

    /// Frees the first leaf without the rest, or some of its long values if these are many, or the first
    /// subtree in it if that is a single leaf, or the same in that subtree. False, with nothing freed, if
    /// there is nothing but the root.
    pub(crate) fn step<W: PageWrite>(&mut self, writer: &mut W, most: usize) -> Result<bool> {
        let Freeing { outermost, below, own } = self;
        loop {
            let tree = *below.last().unwrap_or(outermost);
            let mut path = Vec::new();
            let leaf = find_edge(writer, &tree, true, |step| path.push(step.page))?;
            let stem_bytes = nest::stem_bytes(Order::Bytes, writer.page_size());
            let first = writer.read(leaf, |bytes| {
                nest::check_depth(&tree, bytes, below.len() * stem_bytes)?;
                nest::first_subtree(&tree, bytes)
            })??;
            if let Some((_, subtree)) = first {
                below.push(subtree);
                continue;
            }
            if thin_out(writer, leaf, own, most)? {
                return Ok(true);
            }
            if leaf != tree.root {
                free_long_values(writer, leaf, own)?;
                writer.free(leaf)?;
                return drop_first_child(writer, &tree, path).map(|()| true);
            }
            if below.pop().is_none() {
                return Ok(false);
            }
            free_long_values(writer, leaf, own)?;
            writer.free(leaf)?;
            let around = below.last().unwrap_or(outermost);
            let leaf = find_edge(writer, around, true, |_| {})?;
            let bytes = writer.write(leaf)?;
            if let Some((slot, _)) = nest::first_subtree(around, bytes)? {
                LeafMut::new(bytes).remove(slot);
            }
            return Ok(true);
        }
    }

    /// Frees the root, the only page that is left.
    pub(in crate::access) fn end<W: PageWrite>(self, writer: &mut W) -> Result<()> {
        let root = self.outermost.root;
        free_long_values(writer, root, &self.own)?;
        writer.free(root)
    }
}

/// Frees a root, the only page that a tree has left.
pub(crate) fn free_root<W: PageWrite>(writer: &mut W, tree: &Tree<'_>) -> Result<()> {
    Freeing::new(*tree).end(writer)
}

/// Leaves with one parent, the first of a tree, that are freed together.
pub(in crate::access) struct UnseenLeaves {
    /// The pages above them, the root first.
    path: Vec<PageId>,
    count: usize,
    /// The same leaves by number: the first of each run of neighbours, and how many there are.
    runs: Vec<(PageId, u64)>,
}

impl UnseenLeaves {
    /// The next ones of a tree that no snapshot sees, in so many runs at most; none if there is nothing but
    /// the root.
    pub(in crate::access) fn next<R: PageRead>(
        reader: &R,
        tree: &Tree<'_>,
        most: usize,
    ) -> Result<Option<UnseenLeaves>> {
        let mut path = Vec::new();
        find_edge(reader, tree, true, |step| path.push(step.page))?;
        let Some(&parent) = path.last() else { return Ok(None) };
        let mut leaves: Vec<PageId> = reader.read(parent, |bytes| {
            let inner = Inner::new(bytes);
            (0..=inner.count()).map(|slot| inner.child(slot)).collect()
        })?;
        let mut runs = neighbours(&leaves);
        if runs.len() > most {
            leaves.truncate(most);
            runs = neighbours(&leaves);
        }
        let led_to: u64 = runs.iter().map(|run| run.1).sum();
        if led_to != leaves.len() as u64 || path.iter().any(|page| leaves.contains(page)) {
            return Err(damaged(tree, parent, "leads to a page twice"));
        }
        Ok(Some(UnseenLeaves { path, count: leaves.len(), runs }))
    }

    /// The pages that are read as they are freed.
    pub(in crate::access) fn read(&self) -> impl Iterator<Item = PageId> {
        self.runs.iter().map(|run| run.0)
    }

    /// Frees them, none of whose long values are their tree's own: the first of each run is looked at and
    /// written, and the others go with it.
    pub(in crate::access) fn free<W: PageWrite>(self, writer: &mut W, tree: &Tree<'_>) -> Result<()> {
        for &(first, count) in &self.runs {
            let is_leaf =
                |bytes: &[u8]| header::tree_id(bytes) == tree.id && node::kind(bytes) == Some(NodeKind::Leaf);
            if !is_leaf(writer.latched(first)?) {
                return Err(damaged(tree, first, "is to be freed, and is no leaf of it"));
            }
            writer.free_run(first, count)?;
        }
        (0..self.count).try_for_each(|_| drop_first_child(writer, tree, self.path.clone()))
    }
}

/// Pages by number, each once, as runs of neighbours.
fn neighbours(pages: &[PageId]) -> Vec<(PageId, u64)> {
    let pages: BTreeSet<PageId> = pages.iter().copied().collect();
    runs_of(pages.into_iter(), |_, _| true)
}

/// Takes the first leaf, which was freed, out of the pages above it, which are freed with their last child.
/// The root becomes a leaf then.
fn drop_first_child<W: PageWrite>(writer: &mut W, tree: &Tree<'_>, mut path: Vec<PageId>) -> Result<()> {
    while let Some(parent) = path.pop() {
        let bytes = writer.write(parent)?;
        if Inner::new(bytes).count() > 0 {
            let next = Inner::new(bytes).child(1);
            let mut inner = InnerMut::new(bytes);
            inner.replace_child(0, next);
            inner.remove(0);
            return Ok(());
        }
        if parent != tree.root {
            writer.free(parent)?;
            continue;
        }
        let flags = node::flags(bytes);
        format_root(bytes, tree.id, tree.root, flags);
    }
    Ok(())
}

/// The long values of a leaf that are its tree's own: slot, first page and length of each.
fn long_values<W: PageWrite>(writer: &W, leaf: PageId, own: &OwnValues) -> Result<Vec<(usize, PageId, u64)>> {
    writer.read(leaf, |bytes| {
        if node::kind(bytes) != Some(NodeKind::Leaf) {
            return Vec::new();
        }
        let leaf = Leaf::new(bytes);
        (0..leaf.count())
            .filter(|&slot| own.has(&leaf, slot))
            .filter_map(|slot| leaf.value(slot).in_pages().map(|(first_page, len)| (slot, first_page, len)))
            .collect()
    })
}

/// Frees the pages of the long values of a leaf that are its tree's own.
fn free_long_values<W: PageWrite>(writer: &mut W, leaf: PageId, own: &OwnValues) -> Result<()> {
    long_values(writer, leaf, own)?.into_iter().try_for_each(|(_, first, len)| long::free(writer, first, len))
}

/// Removes some long values from a leaf if it has more than should be freed at once. True if it did.
fn thin_out<W: PageWrite>(writer: &mut W, leaf: PageId, own: &OwnValues, most: usize) -> Result<bool> {
    let values = long_values(writer, leaf, own)?;
    if values.len() < most {
        return Ok(false);
    }
    for &(slot, first, len) in values[..most].iter().rev() {
        long::free(writer, first, len)?;
        LeafMut::new(writer.write(leaf)?).remove(slot);
    }
    Ok(true)
}
