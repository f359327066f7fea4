//! What is done with a whole table: loading, freeing and reaching its pages.

use super::bucket::{Bucket, BucketMut};
use super::change;
use super::directory::{Directory, DirectoryMut};
use super::{hash_of, is_bucket, is_directory, nesting};
use crate::access::btree::{self, node};
use crate::access::method::{StoredValue, Tree};
use crate::access::wrong::damaged;
use crate::access::{InOrder, PageRead, PageWrite, long};
use crate::error::Result;
use crate::pages::header;
use crate::types::{PageId, TreeId};

/// A table being loaded, of records in any order: they are inserted into one beside it, which has a root that
/// nothing leads to, and whose content the root takes over at the end.
#[derive(Clone)]
pub(crate) struct Load<'t> {
    tree: Tree<'t>,
    /// The root beside the table's; none: there was no record yet.
    root: PageId,
    last: PageId,
    taken: InOrder,
}

impl<'t> Load<'t> {
    pub(crate) fn new(tree: Tree<'t>) -> Load<'t> {
        Load { tree, root: PageId::NONE, last: PageId::NONE, taken: InOrder::default() }
    }

    pub(crate) fn push<W: PageWrite>(
        &mut self,
        writer: &mut W,
        key: &[u8],
        value: &[u8],
        store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
    ) -> Result<()> {
        if self.root == PageId::NONE {
            self.root = writer.allocate(self.tree.home.volume)?;
            super::format(writer.write(self.root)?, self.tree.id, self.root);
        }
        let tree = Tree { root: self.root, ..self.tree };
        let place = tree.place(writer, key)?;
        // What is as long as a stem has no subtree: it is not there.
        let is_there = !place.tree.is_nested(place.rest, writer.page_size()) && {
            let sought = place.sought();
            let page = place.tree.find(writer, sought)?;
            writer.read(page, |bytes| place.tree.get(bytes, sought).is_some())?
        };
        self.taken.next_of_any(is_there)?;
        let hash = hash_of(&tree, key);
        change::change(writer, &tree, (hash, (key, Some(value))), &mut self.last, store).map(drop)
    }

    pub(crate) fn finish<W: PageWrite>(self, writer: &mut W) -> Result<u64> {
        let Load { tree, root, taken, .. } = self;
        if root != PageId::NONE {
            let [into, from] = writer.write_all([tree.root, root])?;
            into.copy_from_slice(from);
            header::set_page_id(into, tree.root);
            writer.free(root)?;
        }
        Ok(taken.count())
    }
}

/// A table being freed: from its lower end on, and in each bucket the subtrees first.
///
/// What is left leads to pages of the table at any time, some of them by more hashes than they are for: so it
/// can be cut short, and goes on where it was.
pub(crate) struct Freeing<'t> {
    tree: Tree<'t>,
    /// The subtree that is being freed.
    below: Option<btree::Freeing<'t>>,
}

impl<'t> Freeing<'t> {
    pub(crate) fn new(tree: Tree<'t>) -> Freeing<'t> {
        Freeing { tree, below: None }
    }

    /// Frees the first bucket, or some of its long values if these are many, or some of the first subtree in
    /// it. False, with nothing freed, if there is nothing but the root.
    pub(crate) fn step<W: PageWrite>(&mut self, writer: &mut W, most: usize) -> Result<bool> {
        let tree = self.tree;
        let (path, page) = first_bucket(writer, &tree)?;
        if self.free_below(writer, page, most)? || thin_out(writer, page, most)? {
            return Ok(true);
        }
        if path.is_empty() {
            return Ok(false);
        }
        free_long_values(writer, page)?;
        writer.free(page)?;
        let mut gone = page;
        for directory in path.into_iter().rev() {
            if drop_first_child(writer, directory, gone)? {
                return Ok(true);
            }
            if directory != tree.root {
                writer.free(directory)?;
                gone = directory;
            }
        }
        super::format(writer.write(tree.root)?, tree.id, tree.root);
        Ok(true)
    }

    /// Frees some of the first subtree that a bucket refers to, or what is left of it and the reference.
    fn free_below<W: PageWrite>(&mut self, writer: &mut W, page: PageId, most: usize) -> Result<bool> {
        let Some((slot, subtree)) = writer.read(page, |bytes| first_subtree(bytes, &self.tree, page))??
        else {
            return Ok(false);
        };
        if self.below.get_or_insert_with(|| btree::Freeing::new(subtree)).step(writer, most)? {
            return Ok(true);
        }
        self.below = None;
        btree::free_root(writer, &subtree)?;
        BucketMut::new(writer.write(page)?).remove(slot);
        Ok(true)
    }
}

/// The first bucket, and the directories that lead there.
fn first_bucket<R: PageRead>(reader: &R, tree: &Tree<'_>) -> Result<(Vec<PageId>, PageId)> {
    let (mut path, mut page) = (Vec::new(), tree.root);
    loop {
        let child = reader.read(page, |bytes| {
            if header::tree_id(bytes) != tree.id || path.contains(&page) {
                return Err(damaged(tree, page, "is no page of its table"));
            }
            match (is_directory(bytes), is_bucket(bytes)) {
                (true, _) => Ok(Some(Directory::new(bytes).child(0).page)),
                (_, true) => Ok(None),
                _ => Err(damaged(tree, page, "is neither a directory nor a bucket")),
            }
        })??;
        let Some(child) = child else { return Ok((path, page)) };
        path.push(page);
        page = child;
    }
}

/// Has what led to the first child of a directory lead to the next one. False if there is none.
fn drop_first_child<W: PageWrite>(writer: &mut W, directory: PageId, gone: PageId) -> Result<bool> {
    let bytes = writer.write(directory)?;
    let look = Directory::new(bytes);
    let next = (0..look.count()).find(|&slot| look.child(slot).page != gone);
    let Some((next, child)) = next.map(|slot| (slot, look.child(slot))) else { return Ok(false) };
    DirectoryMut::new(bytes).set(0..next, child);
    Ok(true)
}

/// The first subtree that a bucket refers to.
fn first_subtree(bytes: &[u8], tree: &Tree<'_>, page: PageId) -> Result<Option<(usize, Tree<'static>)>> {
    let bucket = Bucket::new(bytes);
    let slot = (0..bucket.count()).find(|&slot| is_reference(bytes, slot));
    slot.map(|slot| Ok((slot, nesting::subtree_at(tree, page, bucket.value(slot))?))).transpose()
}

/// Whether a record of a bucket is a reference to a subtree.
pub(super) fn is_reference(bytes: &[u8], slot: usize) -> bool {
    Bucket::new(bytes).key(slot).len() == node::key_bytes_max(bytes.len())
}

/// The long values of a bucket: slot, first page and length of each.
fn long_values(bytes: &[u8]) -> Vec<(usize, PageId, u64)> {
    let values = Bucket::new(bytes).records().enumerate();
    values
        .filter_map(|(slot, (_, value))| match value {
            StoredValue::Long { first_page, len } => Some((slot, first_page, len)),
            StoredValue::Inline(_) => None,
        })
        .collect()
}

/// Frees the pages of all long values of a bucket.
fn free_long_values<W: PageWrite>(writer: &mut W, page: PageId) -> Result<()> {
    let values = writer.read(page, long_values)?;
    values.into_iter().try_for_each(|(_, first, len)| long::free(writer, first, len))
}

/// Removes some long values from a bucket if it has more than should be freed at once. True if it did.
fn thin_out<W: PageWrite>(writer: &mut W, page: PageId, most: usize) -> Result<bool> {
    let values = writer.read(page, long_values)?;
    let most = most.max(1);
    if values.len() < most {
        return Ok(false);
    }
    // From the last on: the last record takes the place of one that is removed.
    for &(slot, first, len) in values[values.len() - most..].iter().rev() {
        long::free(writer, first, len)?;
        BucketMut::new(writer.write(page)?).remove(slot);
    }
    Ok(true)
}

/// Frees a root, the only page that is left, with what belongs to it.
pub(crate) fn free_root<W: PageWrite>(writer: &mut W, tree: &Tree<'_>) -> Result<()> {
    free_long_values(writer, tree.root)?;
    writer.free(tree.root)
}

/// Tells `met` of every page; it says whether that is news.
pub(crate) fn reach<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    met: &mut dyn FnMut(PageId) -> bool,
) -> Result<()> {
    let mut ahead = vec![tree.root];
    while let Some(page) = ahead.pop() {
        if !met(page) {
            return Err(damaged(tree, page, "is reached twice"));
        }
        let mut subtrees = Vec::new();
        reader.read(page, |bytes| {
            if header::tree_id(bytes) != tree.id {
                return Err(damaged(tree, page, "belongs to another tree"));
            }
            if is_directory(bytes) {
                ahead.extend(Directory::new(bytes).children().map(|(_, child)| child.page));
                return Ok(());
            }
            if !is_bucket(bytes) {
                return Err(damaged(tree, page, "is neither a directory nor a bucket"));
            }
            for (_, first, len) in long_values(bytes) {
                let mut pages = (0..long::page_count(len, bytes.len()))
                    .map(|n| u32::try_from(u64::from(first.0) + n).map(PageId));
                if !pages.all(|part| part.is_ok_and(&mut *met)) {
                    return Err(damaged(tree, page, "has a value that is not its own"));
                }
            }
            subtrees = subtrees_of(bytes, tree, page)?;
            Ok(())
        })??;
        subtrees.iter().try_for_each(|subtree| btree::reach(reader, subtree, met))?;
    }
    Ok(())
}

/// The subtrees that a bucket refers to.
pub(super) fn subtrees_of(bytes: &[u8], tree: &Tree<'_>, page: PageId) -> Result<Vec<Tree<'static>>> {
    let bucket = Bucket::new(bytes);
    (0..bucket.count())
        .filter(|&slot| is_reference(bytes, slot))
        .map(|slot| nesting::subtree_at(tree, page, bucket.value(slot)))
        .collect()
}
