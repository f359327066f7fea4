//! Changing a hash table in copies of its pages: what is to change is copied, from the root down, before it
//! is changed.
//!
//! The root is a copy already. Copied are the directories on the way to a bucket, which are few, and the
//! bucket; and the other half that it is to be joined with, before that is asked whether it has room.

use super::change::{change_page, redirect};
use super::{DirectoryStep, find_bucket, hash_of, is_bucket_for, nesting};
use crate::access::CopyWrite;
use crate::access::btree::nest;
use crate::access::method::{SetOrRemove, Tree};
use crate::access::wrong::damaged;
use crate::error::Result;
use crate::types::{PageId, TreeId};

/// Sets or removes a record in a tree whose root is a copy. The way to a bucket is never too long to be
/// copied at once; a subtree may be, and then it is none: so far only pages were copied. Else false if there
/// was nothing to remove.
pub(crate) fn change_beside<W: CopyWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    change: SetOrRemove<'_>,
    last: &mut PageId,
    store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
) -> Result<Option<bool>> {
    let (key, value) = change;
    if nest::is_nested(tree, key, writer.page_size()) {
        *last = PageId::NONE;
        if !nesting::own_nested(writer, tree, key)? {
            return Ok(None);
        }
        return nest::change(writer, tree, key, value, store).map(Some);
    }
    let hash = hash_of(tree, key);
    if *last == PageId::NONE || !writer.read(*last, |bytes| is_bucket_for(bytes, tree, hash))? {
        *last = own_bucket(writer, tree, hash)?;
    }
    change_page(writer, tree, (hash, change), last, store, &mut own_child).map(Some)
}

/// Makes sure that what a directory, which is a copy, leads to is one as well, and says which page it is.
fn own_child<W: CopyWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    directory: PageId,
    child: PageId,
) -> Result<PageId> {
    if writer.is_own(child)? {
        return Ok(child);
    }
    let copy = writer.copy(tree, child)?;
    if redirect(writer.write(directory)?, child, copy) {
        return Ok(copy);
    }
    Err(damaged(tree, directory, "does not lead where it led to"))
}

/// Makes sure that all pages from the root, which is a copy, to the bucket for a hash are copies, and says
/// which page the bucket is.
pub(super) fn own_bucket<W: CopyWrite>(writer: &mut W, tree: &Tree<'_>, hash: u64) -> Result<PageId> {
    let mut path: Vec<DirectoryStep> = Vec::new();
    let bucket = find_bucket(writer, tree, hash, |step| path.push(step))?;
    let children = path.iter().skip(1).map(|step| step.page).chain((!path.is_empty()).then_some(bucket));
    let mut page = tree.root;
    for child in children {
        page = own_child(writer, tree, page, child)?;
    }
    Ok(page)
}
