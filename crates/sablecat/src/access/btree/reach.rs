//! Finding all pages of a tree, with its subtrees and long values, whatever its order: what leads nowhere is
//! to be found by that. And what is right below a page, for estimates, which look at some of them
//! (estimate.rs).

use super::node::{self, Inner, Leaf, NodeKind, Order, StoredValue};
use super::{OwnValues, Tree, damaged, nest};
use crate::access::{PageRead, long};
use crate::error::{Error, Result};
use crate::pages::header;
use crate::types::PageId;

/// Pages to be looked at, on one way down.
#[derive(Clone, Debug)]
pub(super) struct ReachStep<'t> {
    tree: Tree<'t>,
    pub(super) page: PageId,
    /// At which level the page must be; none: a root, at any.
    level: Option<u8>,
    /// Bytes of the stems that lead to the tree.
    stems_len: usize,
}

/// Tells `met` of every page of a tree; it says whether that is news.
///
/// # Errors
/// Those of reading, and corruption if the pages do not form a tree: then not all of it was found.
pub(crate) fn reach<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    met: &mut dyn FnMut(PageId) -> bool,
) -> Result<()> {
    reach_own(reader, tree, &OwnValues::All, met)
}

/// As [`reach`], of a tree of which only some long values are its own.
pub(in crate::access) fn reach_own<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    own: &OwnValues,
    met: &mut dyn FnMut(PageId) -> bool,
) -> Result<()> {
    let mut ahead = vec![ReachStep::root(tree)];
    while let Some(step) = ahead.pop() {
        if !met(step.page) {
            return Err(step.damaged("is reached twice"));
        }
        let mut long = |first: PageId, pages: u64| {
            (0..pages).all(|n| u32::try_from(u64::from(first.0) + n).map(PageId).is_ok_and(&mut *met))
        };
        reader.read(step.page, |bytes| {
            let mut long = |first, len| long(first, long::page_count(len, bytes.len()));
            step.look(bytes, &mut ahead, own, &mut long)
        })??;
    }
    Ok(())
}

impl<'t> ReachStep<'t> {
    /// The first one.
    pub(super) fn root(tree: &Tree<'t>) -> ReachStep<'t> {
        ReachStep { tree: *tree, page: tree.root, level: None, stems_len: 0 }
    }

    /// An error about the page.
    pub(super) fn damaged(&self, what: impl std::fmt::Display) -> Error {
        damaged(&self.tree, self.page, what)
    }

    /// Tells of the long values in a page that are the tree's own, by their first pages and their lengths,
    /// and adds what is below it to the pages to be looked at.
    ///
    /// # Errors
    /// Corruption if it is not the page that it must be, or `long` says of a value that it cannot be where it
    /// is.
    pub(super) fn look(
        &self,
        bytes: &[u8],
        ahead: &mut Vec<ReachStep<'t>>,
        own: &OwnValues,
        long: &mut dyn FnMut(PageId, u64) -> bool,
    ) -> Result<()> {
        let ReachStep { tree, page, level, stems_len } = self;
        if header::tree_id(bytes) != tree.id || level.is_some_and(|level| level != node::level(bytes)) {
            return Err(damaged(tree, *page, "belongs to another tree, or to another level of it"));
        }
        match node::kind(bytes) {
            Some(NodeKind::Inner) => {
                let inner = Inner::new(bytes);
                let Some(level) = inner.level().checked_sub(1) else {
                    return Err(damaged(tree, *page, "is an inner page at the level of leaves"));
                };
                ahead.extend((0..=inner.count()).map(|slot| ReachStep {
                    tree: *tree,
                    page: inner.child(slot),
                    level: Some(level),
                    stems_len: *stems_len,
                }));
                Ok(())
            }
            Some(NodeKind::Leaf) => self.look_into_leaf(bytes, ahead, own, long),
            _ => Err(damaged(tree, *page, "is neither a leaf nor an inner page")),
        }
    }

    fn look_into_leaf(
        &self,
        bytes: &[u8],
        ahead: &mut Vec<ReachStep<'t>>,
        own: &OwnValues,
        long: &mut dyn FnMut(PageId, u64) -> bool,
    ) -> Result<()> {
        let ReachStep { tree, page, stems_len, .. } = self;
        let leaf = Leaf::new(bytes);
        nest::check_depth(tree, bytes, *stems_len)?;
        // The page says how the tree is ordered, for a process that does not have its comparator.
        let nests = node::flags(bytes) & node::FLAG_CUSTOM_ORDER == 0;
        let stem_bytes = if nests { nest::stem_bytes(Order::Bytes, bytes.len()) } else { usize::MAX };
        for slot in 0..leaf.count() {
            let (prefix, suffix) = leaf.key(slot);
            if prefix.len() + suffix.len() == stem_bytes {
                let subtree = nest::subtree_at(tree, bytes, slot)?;
                ahead.push(ReachStep {
                    tree: subtree,
                    page: subtree.root,
                    level: None,
                    stems_len: stems_len + stem_bytes,
                });
            } else if let StoredValue::Long { first_page, len } = leaf.value(slot)
                && own.has(&leaf, slot)
                && !long(first_page, len)
            {
                return Err(damaged(
                    tree,
                    *page,
                    format_args!("has a value that is not its own (record {slot})"),
                ));
            }
        }
        Ok(())
    }
}
