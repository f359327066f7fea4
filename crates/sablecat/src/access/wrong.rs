//! Errors for pages that are not what leads to them says.

use super::method::Tree;
use crate::error::{Error, ErrorKind};
use crate::types::{PageId, TreeId};

/// Whether a tree is a part of another, as its number says.
fn is_part(tree: &Tree<'_>) -> bool {
    tree.id.0 == !tree.root.0
}

/// The error of looking for a page, told apart where the tree itself has no version as old as the reader's
/// snapshot.
#[cold]
pub(super) fn unborn(tree: &Tree<'_>, page: PageId, error: Error) -> Error {
    if page != tree.root || is_part(tree) || !error.is_not_there() { error } else { absent(tree) }
}

/// The error for a page of another tree. Where the root should be it is one that was there before, or has
/// been since.
#[cold]
pub(super) fn misplaced(tree: &Tree<'_>, page: PageId) -> Error {
    // The catalog, tree 1, is always there.
    let may_be_absent = page == tree.root && !is_part(tree) && tree.id != TreeId(1);
    if may_be_absent { absent(tree) } else { damaged(tree, page, "belongs to another tree") }
}

fn absent(tree: &Tree<'_>) -> Error {
    let message = format!(
        "tree {} has no root page at this snapshot: its database was created, or removed, after the \
         transaction began; begin a new one",
        tree.id
    );
    Error::new(ErrorKind::NotFound, message)
}

/// An error for a page that contradicts its tree.
#[cold]
pub(super) fn damaged(tree: &Tree<'_>, page: PageId, why: impl std::fmt::Display) -> Error {
    Error::corruption(format!("page {page}, reached in tree {} (root page {}), {why}", tree.id, tree.root))
}
