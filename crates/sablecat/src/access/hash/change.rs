//! Setting and removing a record: in its bucket alone, or with whatever else has to change.
//!
//! A writer in place may fail at any page that cannot be had. So each split, and each joining, has all pages
//! that it changes before it changes one, and leaves a table that is whole: where several are needed they
//! follow each other.

use super::bucket::{Bucket, BucketMut, HashPrefix, LEVEL_MAX, inline_value_bytes_max};
use super::directory::{Child, Directory, DirectoryMut};
use super::{DirectoryStep, find_bucket, hash_of, is_bucket, is_bucket_for, is_directory, remember_record};
use crate::access::btree::nest;
use crate::access::method::{SetOrRemove, StoredValue, Tree, Tried};
use crate::access::wrong::damaged;
use crate::access::{PageWrite, long};
use crate::error::{Error, Result};
use crate::pages::header;
use crate::types::{PageId, TreeId};

/// How a change of a bucket ended.
enum BucketOutcome {
    Done,
    /// There was nothing to remove.
    Missing,
    /// The bucket has become so empty that it should be joined with another.
    Sparse,
    /// The bucket had no room and was split: another may cover the key now.
    Split,
}

/// Whether a bucket is so empty that it should be joined with the other half of what it was split from.
fn is_sparse(bucket: Bucket<'_>) -> bool {
    bucket.stretch().level > 0 && bucket.used_bytes() < bucket.usable_bytes() / 4
}

/// How full a bucket may be that two are joined to: it is to be neither split nor joined again soon.
fn joined_bytes_max(bucket: Bucket<'_>) -> usize {
    bucket.usable_bytes() * 5 / 8
}

/// Sets or removes a record in its bucket, if nothing else has to change.
#[inline(always)]
pub(crate) fn try_change<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    page: PageId,
    (hash, (key, value)): (u64, SetOrRemove<'_>),
) -> Result<Tried> {
    let bytes = writer.latched(page)?;
    let bucket = Bucket::new(bytes);
    let place = bucket.find(hash, key);
    // A value in pages of its own: those change as well.
    if place.is_some_and(|slot| matches!(bucket.value(slot), StoredValue::Long { .. }))
        || value.is_some_and(|value| value.len() > inline_value_bytes_max(bytes.len(), key.len()))
    {
        return Ok(Tried::Structure);
    }
    // The version that is written has what was read in the same slots.
    let fits = match (value, place) {
        (None, None) => return Ok(Tried::Missing),
        (Some(value), place) => {
            set(writer.write(page)?, tree, hash, (key, StoredValue::Inline(value), place))
        }
        (None, Some(slot)) => {
            let bytes = writer.write(page)?;
            BucketMut::new(bytes).remove(slot);
            !is_sparse(Bucket::new(bytes))
        }
    };
    Ok(if fits { Tried::Done } else { Tried::Structure })
}

/// Sets a record in its place in a bucket, if there is room.
#[inline(always)]
fn set(
    bytes: &mut [u8],
    tree: &Tree<'_>,
    hash: u64,
    (key, value, place): (&[u8], StoredValue<'_>, Option<usize>),
) -> bool {
    let page_bytes = bytes.len();
    let mut bucket = BucketMut::new(bytes);
    let is_set = match place {
        Some(slot) => return bucket.replace_value(slot, value).is_ok(),
        None => bucket.insert(hash, key, value).is_ok(),
    };
    if is_set {
        remember_record(tree, hash, (bucket.last_cell_at(), page_bytes));
    }
    is_set
}

/// Sets or removes a record with all that has to change for it. The structure latch is held, or nobody else
/// is there.
pub(crate) fn change<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    (hash, change): (u64, SetOrRemove<'_>),
    last: &mut PageId,
    store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
) -> Result<bool> {
    let (key, value) = change;
    if nest::is_nested(tree, key, writer.page_size()) {
        return nest::change(writer, tree, key, value, store);
    }
    if *last == PageId::NONE || !is_bucket_for(writer.latched(*last)?, tree, hash) {
        *last = find_bucket(writer, tree, hash, |_| {})?;
    }
    change_page(writer, tree, (hash, change), last, store, &mut |_, _, _, child| Ok(child))
}

/// Sets or removes a record in `last`, the bucket for its hash, which then is none if another may be that
/// now. Before a bucket is joined with another, that is made ready by `ready`.
///
/// The pages of the value before are freed last: a writer in place that fails on the way leaves pages that
/// nothing leads to, and no record without its value.
pub(super) fn change_page<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    (hash, change): (u64, SetOrRemove<'_>),
    last: &mut PageId,
    store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
    ready: &mut impl FnMut(&mut W, &Tree<'_>, PageId, PageId) -> Result<PageId>,
) -> Result<bool> {
    let changed = change_bucket(writer, tree, *last, (hash, change), store)?;
    if let BucketOutcome::Sparse = changed {
        join(writer, tree, hash, ready)?;
    }
    if let BucketOutcome::Sparse | BucketOutcome::Split = changed {
        *last = PageId::NONE;
    }
    Ok(!matches!(changed, BucketOutcome::Missing))
}

fn change_bucket<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    page: PageId,
    (hash, (key, value)): (u64, SetOrRemove<'_>),
    store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
) -> Result<BucketOutcome> {
    let bytes = writer.latched(page)?;
    if !is_bucket_for(bytes, tree, hash) {
        return Err(damaged(tree, page, "is not the bucket for the hashes that lead to it"));
    }
    let bucket = Bucket::new(bytes);
    let place = bucket.find(hash, key);
    let before = match place.map(|slot| bucket.value(slot)) {
        Some(StoredValue::Long { first_page, len }) => Some((first_page, len)),
        _ => None,
    };
    let changed = match (value, place) {
        (None, None) => return Ok(BucketOutcome::Missing),
        (None, Some(slot)) => {
            let bytes = writer.write(page)?;
            BucketMut::new(bytes).remove(slot);
            if is_sparse(Bucket::new(bytes)) { BucketOutcome::Sparse } else { BucketOutcome::Done }
        }
        (Some(value), place) => {
            let stored = nest::store_value(writer, tree, key.len(), value, store)?;
            let is_set = match writer.write(page).map(|bytes| set(bytes, tree, hash, (key, stored, place))) {
                Ok(true) => Ok(BucketOutcome::Done),
                Ok(false) => put(writer, tree, hash, (key, stored)).map(|()| BucketOutcome::Split),
                Err(error) => Err(error),
            };
            is_set.inspect_err(|_| long::give_back(writer, stored))?
        }
    };
    if let Some((first, len)) = before {
        long::free(writer, first, len)?;
    }
    Ok(changed)
}

/// Sets a record, splitting buckets as needed.
pub(super) fn put<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    hash: u64,
    (key, value): (&[u8], StoredValue<'_>),
) -> Result<()> {
    let mut path = Vec::new();
    loop {
        path.clear();
        let page = find_bucket(writer, tree, hash, |step| path.push(step))?;
        let bytes = writer.write(page)?;
        if !is_bucket_for(bytes, tree, hash) {
            return Err(damaged(tree, page, "is not the bucket for the hashes that lead to it"));
        }
        let place = Bucket::new(bytes).find(hash, key);
        if set(bytes, tree, hash, (key, value, place)) {
            return Ok(());
        }
        split(writer, tree, path.last().copied(), page)?;
    }
}

/// Splits a bucket, or does what has to be done before it can be split; the caller descends again.
fn split<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    above: Option<DirectoryStep>,
    page: PageId,
) -> Result<()> {
    let source = writer.read(page, <[u8]>::to_vec)?;
    let stretch = Bucket::new(&source).stretch();
    if stretch.level == LEVEL_MAX {
        return Err(Error::invalid(format!(
            "a record whose key has the same hash, in all {LEVEL_MAX} bits, as those of as many others as a \
             page holds: page {page} of tree {}; a hash table cannot hold it",
            tree.id
        )));
    }
    let made = writer.allocate(tree.home.volume)?;
    let done = match above {
        None => grow(writer, tree, made),
        Some(above) => {
            let level = writer.read(above.page, |bytes| {
                let directory = Directory::new(bytes);
                directory.stretch().level + directory.bits()
            })?;
            if stretch.level >= level {
                deepen(writer, tree, above, (page, HashPrefix::around(stretch.prefix, level)), made)
            } else {
                halve(writer, tree, above.page, (page, &source), made)
            }
        }
    };
    done.inspect_err(|_| writer.give_back(made, 1))
}

/// Moves the root's records into a bucket of their own; the root then is a directory.
fn grow<W: PageWrite>(writer: &mut W, tree: &Tree<'_>, made: PageId) -> Result<()> {
    let [root, below] = writer.write_all([tree.root, made])?;
    below.copy_from_slice(root);
    header::set_page_id(below, made);
    DirectoryMut::format(root, (tree.root, tree.id), HashPrefix::default(), Child::bucket(made));
    Ok(())
}

/// Puts a directory between another one and a bucket which that has but one slot for.
fn deepen<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    above: DirectoryStep,
    (page, stretch): (PageId, HashPrefix),
    made: PageId,
) -> Result<()> {
    let [directory, below] = writer.write_all([above.page, made])?;
    DirectoryMut::format(below, (made, tree.id), stretch, Child::bucket(page));
    DirectoryMut::new(directory).set(above.slot..above.slot + 1, Child::directory(made));
    Ok(())
}

/// Splits a bucket, its upper half going to a page that was made for it.
fn halve<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    directory: PageId,
    (page, source): (PageId, &[u8]),
    made: PageId,
) -> Result<()> {
    let [lower, upper, directory] = writer.write_all([page, made, directory])?;
    let halves = Bucket::new(source).stretch().halves();
    let of = |key: &[u8]| hash_of(tree, key);
    let placed = |hash, at| remember_record(tree, hash, (at, source.len()));
    divide(source, halves, (of, placed), [(page, lower), (made, upper)], tree.id);
    let slots = Directory::new(directory).slots_of(halves[1]);
    DirectoryMut::new(directory).set(slots, Child::bucket(made));
    Ok(())
}

/// Divides the records of a bucket between two. `placed` is told of the hash of each, and where it is.
fn divide(
    source: &[u8],
    halves: [HashPrefix; 2],
    (hash, placed): (impl Fn(&[u8]) -> u64, impl Fn(u64, usize)),
    into: [(PageId, &mut [u8]); 2],
    tree: TreeId,
) {
    let source = Bucket::new(source);
    let [(one, lower), (other, upper)] = into;
    let mut lower = BucketMut::format(lower, (one, tree), halves[0]);
    let mut upper = BucketMut::format(upper, (other, tree), halves[1]);
    for slot in 0..source.count() {
        let hash = hash(source.key(slot));
        let half = if halves[1].covers(hash) { &mut upper } else { &mut lower };
        half.take_over(source, slot);
        placed(hash, half.last_cell_at());
    }
}

/// Removes a record, then what `led_to` removes, and joins buckets. False if it was not there.
pub(super) fn remove_with<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    key: &[u8],
    led_to: impl FnOnce(&mut W) -> Result<()>,
) -> Result<bool> {
    let hash = hash_of(tree, key);
    let page = find_bucket(writer, tree, hash, |_| {})?;
    let is_there =
        |bytes: &[u8]| is_bucket_for(bytes, tree, hash) && Bucket::new(bytes).find(hash, key).is_some();
    if !writer.read(page, is_there)? {
        return Ok(false);
    }
    let bytes = writer.write(page)?;
    let Some(slot) = Bucket::new(bytes).find(hash, key) else { return Ok(false) };
    BucketMut::new(bytes).remove(slot);
    let should_join = is_sparse(Bucket::new(bytes));
    led_to(writer)?;
    if should_join {
        join(writer, tree, hash, &mut |_, _, _, child| Ok(child))?;
    }
    Ok(true)
}

/// What can be done about a sparse bucket.
enum Joining {
    Nothing,
    /// Its directory leads to it alone: the directory can be given up.
    Alone,
    /// It has another half.
    With(PageId),
}

/// Joins the bucket for a hash with the other half of what it was split from, as often as that can be done,
/// and gives up directories that lead to it alone.
fn join<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    hash: u64,
    ready: &mut impl FnMut(&mut W, &Tree<'_>, PageId, PageId) -> Result<PageId>,
) -> Result<()> {
    // It ends: each time there is a page less.
    loop {
        let mut path = Vec::new();
        let page = find_bucket(writer, tree, hash, |step| path.push(step))?;
        let Some(above) = path.pop() else { return Ok(()) };
        let this = writer.read(page, |bytes| {
            let bucket = is_bucket(bytes).then(|| Bucket::new(bytes))?;
            Some((bucket.stretch(), is_sparse(bucket)))
        })?;
        let (stretch, is_sparse) = this.ok_or_else(|| damaged(tree, page, "is no bucket"))?;
        let joining = writer.read(above.page, |bytes| {
            let directory = Directory::new(bytes);
            if directory.only_child() == Some(Child::bucket(page)) {
                return Joining::Alone;
            }
            match stretch.whole_and_other() {
                Some((_, other)) if is_sparse && stretch.level > directory.stretch().level => {
                    let child = directory.child(directory.slots_of(other).start);
                    if child.is_directory || child.page == page {
                        Joining::Nothing
                    } else {
                        Joining::With(child.page)
                    }
                }
                _ => Joining::Nothing,
            }
        })?;
        let is_done = match joining {
            Joining::Nothing => false,
            Joining::Alone => give_up(writer, tree, path.last().copied(), (above.page, page))?,
            Joining::With(other) => {
                let other = ready(writer, tree, above.page, other)?;
                join_two(writer, tree, above.page, (page, other))?
            }
        };
        if !is_done {
            return Ok(());
        }
    }
}

/// Gives up a directory that leads to one bucket alone: what leads to it leads to that, or, if it is the
/// root, it takes in the records.
fn give_up<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    above: Option<DirectoryStep>,
    (directory, bucket): (PageId, PageId),
) -> Result<bool> {
    let Some(above) = above else {
        let [root, below] = writer.write_all([tree.root, bucket])?;
        root.copy_from_slice(below);
        header::set_page_id(root, tree.root);
        return writer.free(bucket).map(|()| true);
    };
    DirectoryMut::new(writer.write(above.page)?).set(above.slot..above.slot + 1, Child::bucket(bucket));
    writer.free(directory).map(|()| true)
}

/// Joins two buckets, if the other is the other half of what the first was split from, both have room in one,
/// and it can be had.
fn join_two<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    directory: PageId,
    (page, other): (PageId, PageId),
) -> Result<bool> {
    // Buckets are latched in the order of hashes, and it may come before what is held already: so no waiting
    // for it.
    if !writer.try_claim(other)? || !writer.try_claim(page)? {
        return Ok(false);
    }
    let (one, two) = (writer.latched(page)?.to_vec(), writer.latched(other)?.to_vec());
    if !is_bucket(&one) || !is_bucket(&two) || header::tree_id(&two) != tree.id {
        return Err(damaged(tree, other, "is no bucket"));
    }
    let (first, second) = (Bucket::new(&one), Bucket::new(&two));
    let Some((whole, half)) = first.stretch().whole_and_other() else { return Ok(false) };
    if second.stretch() != half || first.used_bytes() + second.used_bytes() > joined_bytes_max(first) {
        return Ok(false);
    }
    let (keep, gone, from) =
        if half.prefix == whole.prefix { (other, page, first) } else { (page, other, second) };
    // Nothing may fail from here on: what is joined would be there twice.
    let [into, _, above] = writer.write_all([keep, gone, directory])?;
    let mut bucket = BucketMut::new(into);
    bucket.set_stretch(whole);
    (0..from.count()).for_each(|slot| bucket.take_over(from, slot));
    let slots = Directory::new(above).slots_of(whole);
    DirectoryMut::new(above).set(slots, Child::bucket(keep));
    writer.free(gone).map(|()| true)
}

/// Has a directory, if it is one, lead to another page where it led to this one.
pub(super) fn redirect(bytes: &mut [u8], from: PageId, to: PageId) -> bool {
    if !is_directory(bytes) {
        return false;
    }
    let directory = Directory::new(bytes);
    let slots: Vec<usize> =
        (0..directory.count()).filter(|&slot| directory.child(slot).page == from).collect();
    for &slot in &slots {
        let child = Child { page: to, ..Directory::new(bytes).child(slot) };
        DirectoryMut::new(bytes).set(slot..slot + 1, child);
    }
    !slots.is_empty()
}

/// Divides a bucket that passed the check, whatever its records are, and joins the halves again.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn exercise(bytes: &[u8]) {
    let stretch = Bucket::new(bytes).stretch();
    if stretch.level == LEVEL_MAX {
        return;
    }
    let (mut one, mut two) = (vec![0; bytes.len()], vec![0; bytes.len()]);
    let into = [(PageId(1), &mut one[..]), (PageId(2), &mut two[..])];
    let seed = super::Seed { low: 1, high: 2 };
    divide(bytes, stretch.halves(), (|key: &[u8]| seed.hash(key), |_, _| ()), into, TreeId(1));
    let (mut into, from) = (BucketMut::new(&mut one), Bucket::new(&two));
    (0..from.count()).for_each(|slot| into.take_over(from, slot));
}
