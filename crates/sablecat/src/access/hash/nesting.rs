//! What the table around nested keys does for them (btree/nest.rs): references to subtrees, each a record
//! with the stem for its key.

use super::bucket::{Bucket, BucketMut};
use super::{beside, change, find_bucket, hash_of, is_bucket};
use crate::access::btree::{self, nest};
use crate::access::method::{StoredValue, Tree};
use crate::access::wrong::damaged;
use crate::access::{CopyWrite, PageRead, PageWrite};
use crate::error::Result;
use crate::types::PageId;

/// The subtree of a stem.
pub(crate) fn subtree_of<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    stem: &[u8],
) -> Result<Option<Tree<'static>>> {
    let bucket = find_bucket(reader, tree, hash_of(tree, stem), |_| {})?;
    reader.read(bucket, |bytes| Ok(reference_in(bytes, tree, (bucket, stem))?.map(|(_, subtree)| subtree)))?
}

/// The slot of a stem in the bucket for its hash, and the subtree that is referred to there.
fn reference_in(
    bytes: &[u8],
    tree: &Tree<'_>,
    (page, stem): (PageId, &[u8]),
) -> Result<Option<(usize, Tree<'static>)>> {
    if !is_bucket(bytes) {
        return Err(damaged(tree, page, "is no bucket"));
    }
    let bucket = Bucket::new(bytes);
    match bucket.find(hash_of(tree, stem), stem) {
        Some(slot) => subtree_at(tree, page, bucket.value(slot)).map(|subtree| Some((slot, subtree))),
        None => Ok(None),
    }
}

/// The subtree that a reference in a bucket names.
pub(super) fn subtree_at(tree: &Tree<'_>, page: PageId, value: StoredValue<'_>) -> Result<Tree<'static>> {
    nest::subtree(value, tree.method.nested()).map_err(|why| damaged(tree, page, why))
}

/// Sets the reference of a stem.
pub(crate) fn put_reference<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    stem: &[u8],
    reference: StoredValue<'_>,
) -> Result<()> {
    change::put(writer, tree, hash_of(tree, stem), (stem, reference))
}

/// Removes the reference of a stem, then what `led_to` removes. False if it was not there.
pub(crate) fn remove_reference<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    stem: &[u8],
    led_to: impl FnOnce(&mut W) -> Result<()>,
) -> Result<bool> {
    change::remove_with(writer, tree, stem, led_to)
}

/// Makes sure that all pages on the way to a nested key are copies, those of its subtrees too. The root is.
/// False if a subtree is not wholly copied yet.
pub(super) fn own_nested<W: CopyWrite>(writer: &mut W, tree: &Tree<'_>, key: &[u8]) -> Result<bool> {
    let Some((stem, rest)) = key.split_at_checked(nest::stem_bytes(tree.order, writer.page_size())) else {
        return Ok(true);
    };
    let bucket = beside::own_bucket(writer, tree, hash_of(tree, stem))?;
    let found = writer.read(bucket, |bytes| reference_in(bytes, tree, (bucket, stem)))??;
    let Some((slot, below)) = found else { return Ok(true) };
    let mut subtree = Tree { home: tree.home.of_subtree(stem), ..below };
    if !writer.is_own(subtree.root)? {
        let Some(copy) = btree::copy_subtree(writer, &subtree)? else { return Ok(false) };
        subtree = copy;
        let reference = nest::reference(&subtree, 0);
        BucketMut::new(writer.write(bucket)?)
            .replace_value(slot, StoredValue::Inline(&reference))
            .map_err(|_| damaged(tree, bucket, "has no room for what stood there"))?;
    }
    btree::own_nested(writer, &subtree, rest)
}
