//! Hash tables: a record is looked for in the one page that its key's hash leads to.
//!
//! Keys are hashed to 64 bits (siphash.rs), with a seed that each database has of its own. A *bucket*
//! (bucket.rs) is a page for all hashes that begin with some bits; *directories* (directory.rs) lead to
//! buckets, each by as many bits as it has slots for. While all records have room in one page that is the
//! root, and a bucket; later the root is a directory. This is extendible hashing (Fagin, Nievergelt,
//! Pippenger and Strong, "Extendible hashing", 1979) whose directory is a trie of pages.
//!
//! * A bucket says which hashes it is for. So a participant that has a page can tell whether it covers a key,
//!   in any state.
//! * A bucket without room is split into two, by the next bit, and where its directory tells no more bits
//!   apart it gets one of its own in between. There are no overflow pages: each record has one page where it
//!   can be.
//! * A bucket that has become sparse is joined with the other half of what both were split from, if that is a
//!   bucket and both have room in one page. A directory that leads to one bucket alone is given up for it.
//! * The order of keys is that of their hashes, and for equal hashes that of their bytes. Each page covers
//!   neighbours in that order, and when it is split keeps the lower half.
//! * Keys too long for a page are nested, as in a B+tree (btree/nest.rs): where a stem stands, a reference
//!   leads to a B+tree of what is left of all longer keys that begin with it. Of such a key the stem alone is
//!   hashed, so all that stands below one reference is together in the order of keys.
//! * Records cannot be split up if all 64 bits of their hashes are the same: five of the longest, or hundreds
//!   of short ones, are too many for a page, and the last of them is refused. With 2^40 records the chance of
//!   five such is below 2^-60, and a user without the seed cannot choose them.
//!
//! Buckets are 69 percent full on average (ln 2), between 50 and 85 according to how far the last doubling
//! has come. Linear hashing (Litwin, 1980) with pages as full keeps a quarter to a half of the records of
//! those buckets whose turn to be split has not come on overflow pages, and has one word that each split
//! changes.
//!
//! Costs (sketch): a lookup hashes its key (30 instructions a word), and reads a slot in each directory:
//! there is one directory up to some 300 buckets, and there are two up to some 150,000, with pages of 4 KiB.
//! In the bucket it reads the line of the header, which has the first sixteen tags, one line of slots, and
//! those of the record.

mod beside;
mod bucket;
mod change;
mod directory;
mod estimate;
mod hashing;
mod nesting;
mod scan;
mod siphash;
mod tags;
#[cfg(test)]
mod tests;
mod verify;
mod ways;
mod whole;

pub(super) use beside::change_beside;
pub(crate) use bucket::inline_value_bytes_max;
pub(super) use change::{change, try_change};
pub(super) use estimate::{estimate, estimate_range};
#[cfg(feature = "seam")]
pub use hashing::hash_order;
pub(crate) use hashing::{HashTable, Hashing};
pub(super) use scan::{Ends, bound_read, covered, reads_same, wanted};
pub(crate) use siphash::{SEED_BYTES, Seed};
pub(super) use verify::verify;
pub(super) use whole::{Freeing, Load, free_root, reach};

pub(super) use nesting::{put_reference, remove_reference, subtree_of};

use std::ops::Range;

use self::bucket::{Bucket, BucketMut, HashPrefix};
use self::directory::Directory;
use self::ways::PagePart;
use super::PageRead;
use super::method::{Order, StoredValue, Tree};
use super::wrong::{damaged, misplaced, unborn};
use crate::error::Result;
use crate::pages::header;
use crate::types::{Lsn, PageId, TreeId};

/// Makes an empty root.
pub(super) fn format(bytes: &mut [u8], tree: TreeId, root: PageId) {
    BucketMut::format(bytes, (root, tree), HashPrefix::default());
}

/// Whether a page is a root as it was made.
pub(super) fn is_as_made(bytes: &[u8]) -> bool {
    is_bucket(bytes) && Bucket::new(bytes).count() == 0 && Bucket::new(bytes).stretch().level == 0
}

/// Whether a page is of a kind that there is in hash tables alone.
pub(super) fn is_kind(kind: u8) -> bool {
    kind == bucket::KIND || kind == directory::KIND
}

/// Tells whether bytes that say they are such a page can be worked on.
pub(super) fn check(page: &[u8]) -> std::result::Result<(), String> {
    if is_bucket(page) { bucket::check(page) } else { directory::check(page) }
}

/// The bytes of such a page that mean nothing.
#[inline]
pub(super) fn gap_of(page: &[u8]) -> Range<usize> {
    if is_bucket(page) { Bucket::new(page).gap() } else { 0..0 }
}

#[inline(always)]
fn is_bucket(bytes: &[u8]) -> bool {
    header::kind(bytes) == Some(bucket::KIND)
}

#[inline(always)]
fn is_directory(bytes: &[u8]) -> bool {
    header::kind(bytes) == Some(directory::KIND)
}

/// The hash of a key of a tree.
#[inline(always)]
pub(super) fn hash_of(tree: &Tree<'_>, key: &[u8]) -> u64 {
    match tree.order {
        Order::Hashed(table) => table.hashing.hash(key),
        // A tree whose keys nobody asks for: one that is being freed, or looked through for its pages.
        Order::Bytes | Order::Custom(_) => 0,
    }
}

/// A slot of a directory on the way to a bucket.
#[derive(Clone, Copy, Debug)]
struct DirectoryStep {
    page: PageId,
    slot: usize,
}

/// What a page on the way down says.
enum Down {
    Bucket,
    Child { slot: usize, child: directory::Child, level: u8 },
    OfAnother,
    Wrong(&'static str),
}

/// What a page says, to which so many bits of a hash lead.
#[inline(always)]
fn look(bytes: &[u8], tree: &Tree<'_>, hash: u64, level: u8) -> Down {
    if header::tree_id(bytes) != tree.id {
        return Down::OfAnother;
    }
    if is_directory(bytes) {
        let directory = Directory::new(bytes);
        let stretch = directory.stretch();
        if stretch.level != level || !stretch.covers(hash) {
            return Down::Wrong("is a directory for other hashes than those that lead to it");
        }
        let slot = directory.slot_of(hash);
        return Down::Child { slot, child: directory.child(slot), level: level + directory.bits() };
    }
    match is_bucket(bytes) && Bucket::new(bytes).stretch().covers(hash) {
        true => Down::Bucket,
        false => Down::Wrong("is neither a directory nor the bucket for the hashes that lead to it"),
    }
}

/// Goes down from the root to the bucket for a hash, noting the steps in `path`. The bucket itself is not
/// looked at, unless it is the root.
#[inline(always)]
fn find_bucket<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    hash: u64,
    mut path: impl FnMut(DirectoryStep),
) -> Result<PageId> {
    // It ends: each directory must have a higher level than the one before.
    let (mut page, mut level) = (tree.root, 0);
    loop {
        match reader
            .read(page, |bytes| look(bytes, tree, hash, level))
            .map_err(|error| unborn(tree, page, error))?
        {
            Down::Bucket => return Ok(page),
            Down::Child { slot, child, level: below } => {
                path(DirectoryStep { page, slot });
                if !child.is_directory {
                    return Ok(child.page);
                }
                (page, level) = (child.page, below);
            }
            Down::OfAnother => return Err(misplaced(tree, page)),
            Down::Wrong(why) => return Err(damaged(tree, page, why)),
        }
    }
}

/// The page that covers the keys with a hash.
#[inline(always)]
pub(super) fn find<R: PageRead>(reader: &R, tree: &Tree<'_>, hash: u64) -> Result<PageId> {
    find_bucket(reader, tree, hash, |_| {})
}

/// The page that covered a hash when it was looked for last, trees having been built anew last at `since`; or
/// no page. It may be anything by now.
#[inline(always)]
pub(super) fn remembered(tree: &Tree<'_>, hash: u64, since: Lsn) -> PageId {
    match tree.order {
        Order::Hashed(table) => table.ways.page(hash, since),
        Order::Bytes | Order::Custom(_) => PageId::NONE,
    }
}

/// The same, and about where in the page, of that many bytes, its record was when it was shown last; or its
/// beginning.
#[inline(always)]
pub(super) fn remembered_with_record(
    tree: &Tree<'_>,
    (hash, page_bytes): (u64, usize),
    since: Lsn,
) -> (PageId, usize) {
    match tree.order {
        Order::Hashed(table) => {
            let (page, part) = table.ways.page_and_record(hash, since);
            (page, part.start(page_bytes))
        }
        Order::Bytes | Order::Custom(_) => (PageId::NONE, 0),
    }
}

/// Remembers a page that was found to cover a hash, and looks so, in a state at or above `since`.
pub(super) fn remember(tree: &Tree<'_>, hash: u64, (page, bytes): (PageId, &[u8]), since: Lsn) {
    if let Order::Hashed(table) = tree.order
        && is_bucket_for(bytes, tree, hash)
    {
        table.ways.remember(hash, (page, Bucket::new(bytes).stretch().level), since);
    }
}

/// Remembers where the record with a hash is in its page, of so many bytes.
#[inline(always)]
fn remember_record(tree: &Tree<'_>, hash: u64, (at, page_bytes): (usize, usize)) {
    if let Order::Hashed(table) = tree.order {
        table.ways.remember_record(hash, PagePart::of(at, page_bytes));
    }
}

/// Whether a page of any kind is the bucket of this tree for a hash.
#[inline(always)]
pub(super) fn is_bucket_for(bytes: &[u8], tree: &Tree<'_>, hash: u64) -> bool {
    header::tree_id(bytes) == tree.id && is_bucket(bytes) && Bucket::new(bytes).stretch().covers(hash)
}

/// The value of a record in the page that covers its key. A page that does not say that it is a bucket has no
/// records: nobody but damage leads there.
#[inline(always)]
pub(super) fn get<'p>(
    bytes: &'p [u8],
    tree: &Tree<'_>,
    (key, hash): (&[u8], u64),
) -> Option<StoredValue<'p>> {
    if !is_bucket(bytes) {
        return None;
    }
    let bucket = Bucket::new(bytes);
    let slot = bucket.find(hash, key)?;
    remember_record(tree, hash, (bucket.cell_at(slot), bytes.len()));
    Some(bucket.value(slot))
}

/// Does everything to a page that passed the check, with this key.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn exercise(bytes: &[u8], key: &[u8]) {
    use crate::access::btree::node::key_bytes_max;
    let mut page = bytes.to_vec();
    let key = &key[..key.len().min(key_bytes_max(bytes.len()))];
    let hash = Seed { low: 1, high: 2 }.hash(key);
    if is_directory(bytes) {
        let directory = Directory::new(bytes);
        let _ = (directory.child(directory.slot_of(hash)), directory.only_child());
        for (_, child) in directory.children() {
            directory::DirectoryMut::new(&mut page)
                .set(directory.slots_of(HashPrefix::around(hash, directory.stretch().level + 1)), child);
        }
        return;
    }
    let most = inline_value_bytes_max(bytes.len(), key.len());
    for value in [&b""[..], b"value", &vec![7; most]] {
        let bucket = Bucket::new(bytes);
        let _ = (bucket.records().count(), bucket.used_bytes(), bucket.find(hash, key));
        page.copy_from_slice(bytes);
        let mut changed = BucketMut::new(&mut page);
        let _ = changed.insert(hash, key, StoredValue::Inline(value));
        for slot in 0..bucket.count() {
            let value = vec![255; inline_value_bytes_max(bytes.len(), bucket.key(slot).len())];
            let _ = changed.replace_value(slot, StoredValue::Inline(&value[..value.len() / (1 + slot % 3)]));
        }
        (0..bucket.count()).for_each(|slot| _ = changed.replace_value(slot, StoredValue::Inline(b"")));
        (0..bucket.count()).rev().for_each(|slot| changed.remove(slot));
        assert_eq!(bucket::check(&page), Ok(()), "a change leaves a bucket sound");
    }
    change::exercise(bytes);
}
