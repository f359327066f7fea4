//! Moving through a hash table in its order, from either end: a copy of one bucket at a time.
//!
//! The records of a copy are put in order, by hash and key, when it is taken. The next bucket is looked for
//! by the hash behind the last that this one is for, from the root. Where a reference to a subtree stands a
//! scan goes on in that, as a scan of a B+tree does.
//!
//! *Places.* Where a key is in this order its hash says first. What of a table was read is kept as such
//! places: the hash, big-endian, and then as much of the key as the table knows, so that they are ordered as
//! their bytes are; and buckets begin and end at places that are no key's.

use std::borrow::Cow;
use std::ops::{Bound, Range};

use super::bucket::{Bucket, BucketRecord};
use super::directory::{Child, Directory};
use super::{DirectoryStep, find_bucket, hash_of, is_bucket_for, is_directory, nesting};
use crate::access::PageRead;
use crate::access::ahead::Many;
use crate::access::btree::{self, nest, node};
use crate::access::method::Tree;
use crate::access::scan::{MayGo, PageCopy, Part, ReadBound, ScanSource, ScannedValue, WantedPage};
use crate::access::wrong::damaged;
use crate::error::Result;
use crate::pages::{Foresight, header};
use crate::types::PageId;

/// Bytes of a hash.
const HASH_BYTES: usize = 8;

/// Where something is in the order of a table: by its hash, then by its bytes.
type HashPlace<'k> = (u64, &'k [u8]);
/// From where to where.
type HashBounds<'k> = (Bound<HashPlace<'k>>, Bound<HashPlace<'k>>);

/// The bucket that a scan wants. Those behind it are asked for, once it is waited for.
pub(crate) fn wanted<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    wanted: WantedPage<'_>,
    foresight: &mut Foresight,
) -> Result<PageId> {
    let (hash, toward) = match wanted {
        WantedPage::First => (0, (true, u64::MAX)),
        WantedPage::Last => (u64::MAX, (false, 0)),
        WantedPage::At(key) => (hash_of(tree, key), (true, u64::MAX)),
        WantedPage::Before(key) => (hash_of(tree, key), (false, 0)),
        WantedPage::Hash { hash, forward, to } => (hash, (forward, to)),
        WantedPage::Root => return Ok(tree.root),
    };
    let before = reader.waits();
    let mut parent = None;
    let page = find_bucket(reader, tree, hash, |step| parent = Some(step))?;
    reader.read(page, |_| ())?;
    let waited = reader.waits() != before;
    foresight.came(reader, waited, |many| buckets_behind(reader, tree, parent, toward, many))?;
    Ok(page)
}

/// The buckets with the same directory that come behind the one that `step` leads to, upward or downward, as
/// far as they are for hashes on this side of `to`, or for that.
fn buckets_behind<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    step: Option<DirectoryStep>,
    (forward, to): (bool, u64),
    many: Many,
) -> Result<Vec<PageId>> {
    let Some(DirectoryStep { page, slot }) = step else { return Ok(Vec::new()) };
    reader.read(page, |bytes| {
        if !is_directory(bytes) || header::tree_id(bytes) != tree.id {
            return Vec::new();
        }
        let directory = Directory::new(bytes);
        let here = directory.child(slot.min(directory.count() - 1));
        let children: Vec<_> = directory.children().collect();
        // With the slot that ends each on the near side, which is in it upward, and behind it downward.
        let behind = |children: &mut dyn Iterator<Item = (usize, Child)>| {
            children
                .skip(many.without)
                .take(many.at_most)
                .take_while(|&(slot, _)| {
                    let first = directory.first_hash(slot);
                    if forward { first <= to } else { first > to }
                })
                .filter(|(_, child)| !child.is_directory)
                .map(|(_, child)| child.page)
                .collect()
        };
        let at = children.iter().position(|&(_, child)| child == here).unwrap_or_default();
        let (below, above) = (&children[..at], &children[at..]);
        if forward {
            behind(&mut above.iter().skip(1).copied())
        } else {
            let ends = children[..=at].iter().skip(1).map(|&(slot, _)| slot);
            behind(&mut ends.zip(below).map(|(end, &(_, child))| (end, child)).rev())
        }
    })
}

/// A bound as it is kept of what was read: as a place, with as much of a nested key as this tree knows of it.
pub(crate) fn bound_read<'b>(tree: &Tree<'_>, bound: Bound<&'b [u8]>, page_size: usize) -> ReadBound<'b> {
    let stem_bytes = node::key_bytes_max(page_size);
    let place = |key: &[u8]| [&hash_of(tree, key).to_be_bytes(), &key[..key.len().min(stem_bytes)]].concat();
    match bound {
        Bound::Excluded(key) if key.len() < stem_bytes => Bound::Excluded(Cow::Owned(place(key))),
        Bound::Included(key) | Bound::Excluded(key) => Bound::Included(Cow::Owned(place(key))),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// What of a part lies in a bucket, as places.
pub(crate) fn covered<'p>(bytes: &[u8], part: &Part<'p>) -> (ReadBound<'p>, ReadBound<'p>) {
    let stretch = Bucket::new(bytes).stretch();
    let lower = bound_read(part.tree, part.lower, bytes.len());
    let upper = bound_read(part.tree, part.upper, bytes.len());
    let begin = stretch.prefix.to_be_bytes();
    let lower = match lower {
        Bound::Included(place) if *place >= begin[..] => Bound::Included(place),
        Bound::Excluded(place) if *place >= begin[..] => Bound::Excluded(place),
        _ => Bound::Included(Cow::Owned(begin.to_vec())),
    };
    let Some(end) = stretch.last().checked_add(1).map(u64::to_be_bytes) else { return (lower, upper) };
    let upper = match upper {
        Bound::Included(place) if *place < end[..] => Bound::Included(place),
        Bound::Excluded(place) if *place < end[..] => Bound::Excluded(place),
        _ => Bound::Excluded(Cow::Owned(end.to_vec())),
    };
    (lower, upper)
}

/// The place that is kept as these bytes.
fn place_of(bytes: &[u8]) -> HashPlace<'_> {
    match bytes.split_first_chunk::<HASH_BYTES>() {
        Some((hash, key)) => (u64::from_be_bytes(*hash), key),
        None => unreachable!("a place begins with a hash"),
    }
}

/// Whether a range reads the same in two states. References to subtrees are compared as what they are: what
/// was read in a subtree was noted by itself.
pub(crate) fn reads_same<S: ScanSource + PageRead>(
    tree: &Tree<'_>,
    stems: &[u8],
    (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
    (then, now): (&mut S, &mut S),
    may_go: &MayGo<'_>,
) -> Result<bool> {
    if !stems.is_empty() {
        return btree::reads_same(tree, stems, (lower, upper), (then, now), may_go);
    }
    let bounds = (lower.map(place_of), upper.map(place_of));
    let (mut before, mut after) = (End::default(), End::default());
    loop {
        let is_there = after.next_here(tree, bounds, now, true)?;
        loop {
            match (before.next_here(tree, bounds, then, true)?, is_there) {
                (false, false) => return Ok(true),
                (false, true) => return Ok(false),
                (true, true) if before.record(true) == after.record(true) => break,
                _ => {}
            }
            let (key, value) = before.record(true);
            if !may_go(key, value)? {
                return Ok(false);
            }
            before.pass(true);
        }
        before.pass(true);
        after.pass(true);
    }
}

/// One end of a scan: a bucket, and where in it, and in the subtree that a reference in it leads to, it
/// stands.
#[derive(Debug, Default)]
struct End {
    copy: PageCopy,
    filled: bool,
    /// The records of the copy in order: hash and slot.
    order: Vec<(u64, usize)>,
    /// Those not yet handed out.
    left: Range<usize>,
    below: Option<Box<(Tree<'static>, btree::Ends)>>,
}

/// Both ends of a scan.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    front: End,
    back: End,
}

impl Ends {
    /// The value of the record that one end stands at.
    pub(crate) fn value(&self, forward: bool) -> ScannedValue {
        let end = if forward { &self.front } else { &self.back };
        match &end.below {
            Some(below) => below.1.value(forward),
            None => end.record(forward).1.into(),
        }
    }

    /// The key of the next record from one end, which then stands at that record; none if no more lie between
    /// the bounds.
    pub(crate) fn next<S: ScanSource>(
        &mut self,
        tree: &Tree<'_>,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        source: &mut S,
        forward: bool,
    ) -> Result<Option<Vec<u8>>> {
        let end = if forward { &mut self.front } else { &mut self.back };
        let place = |key| (hash_of(tree, key), key);
        let bounds = (lower.map(place), upper.map(place));
        loop {
            if let Some(mut inner) = end.below.take() {
                let (subtree, ends) = &mut *inner;
                let stem = end.key(forward);
                // The other end may have passed all of it since, by records that are pending elsewhere.
                if end.is_within(tree, bounds, forward) {
                    let bounds = (below(lower, stem), below(upper, stem));
                    if let Some(key) = ends.next(subtree, bounds, source, (forward, false))? {
                        end.below = Some(inner);
                        return Ok(Some(key));
                    }
                }
                end.pass(forward);
            }
            if !end.next_here(tree, bounds, source, forward)? {
                return Ok(None);
            }
            let (key, value) = end.record(forward);
            let page = end.copy.bytes();
            if key.len() != nest::stem_bytes(tree.order, page.len()) {
                return Ok(Some(key.to_vec()));
            }
            let subtree = nesting::subtree_at(tree, header::page_id(page), value)?;
            end.below = Some(Box::new((subtree, btree::Ends::below(key))));
        }
    }
}

/// A bound as it concerns what is below a stem: if it is not there itself, all of that is on one side of it.
fn below<'b>(bound: Bound<&'b [u8]>, stem: &[u8]) -> Bound<&'b [u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) if !key.starts_with(stem) => Bound::Unbounded,
        bound => bound,
    }
}

impl End {
    /// The place in the order of the record that it stands at.
    fn at(&self, forward: bool) -> (u64, usize) {
        self.order[if forward { self.left.start } else { self.left.end - 1 }]
    }

    /// The record that it stands at.
    fn record(&self, forward: bool) -> BucketRecord<'_> {
        let bucket = Bucket::new(self.copy.bytes());
        let (_, slot) = self.at(forward);
        (bucket.key(slot), bucket.value(slot))
    }

    fn key(&self, forward: bool) -> &[u8] {
        self.record(forward).0
    }

    fn pass(&mut self, forward: bool) {
        if forward {
            self.left.start += 1;
        } else {
            self.left.end -= 1;
        }
    }

    /// Goes to the next record within the bounds, or to the next reference to a subtree with keys that may be
    /// within them. False if there is none.
    fn next_here<S: ScanSource>(
        &mut self,
        tree: &Tree<'_>,
        bounds: HashBounds<'_>,
        source: &mut S,
        forward: bool,
    ) -> Result<bool> {
        let (lower, upper) = bounds;
        if !self.filled {
            let from = match if forward { lower } else { upper } {
                Bound::Included((hash, _)) | Bound::Excluded((hash, _)) => hash,
                Bound::Unbounded if forward => 0,
                Bound::Unbounded => u64::MAX,
            };
            self.fill(tree, bounds, source, (from, forward))?;
        }
        loop {
            while !self.left.is_empty() {
                if self.is_within(tree, bounds, forward) {
                    return Ok(true);
                }
                let place = self.place(forward);
                if if forward { !is_below(place, upper) } else { !self.is_above(tree, place, lower) } {
                    return Ok(false);
                }
                self.pass(forward);
            }
            let stretch = Bucket::new(self.copy.bytes()).stretch();
            let next = if forward { stretch.last().checked_add(1) } else { stretch.prefix.checked_sub(1) };
            let Some(next) = next else { return Ok(false) };
            let is_beyond = match if forward { upper } else { lower } {
                Bound::Included((hash, _)) | Bound::Excluded((hash, _)) => {
                    if forward {
                        hash < next
                    } else {
                        hash > next
                    }
                }
                Bound::Unbounded => false,
            };
            if is_beyond {
                return Ok(false);
            }
            self.fill(tree, bounds, source, (next, forward))?;
        }
    }

    /// Where the record is at which it stands.
    fn place(&self, forward: bool) -> HashPlace<'_> {
        (self.at(forward).0, self.key(forward))
    }

    /// Whether the record at which it stands, or what that leads to, may be within bounds.
    fn is_within(&self, tree: &Tree<'_>, (lower, upper): HashBounds<'_>, forward: bool) -> bool {
        let place = self.place(forward);
        self.is_above(tree, place, lower) && is_below(place, upper)
    }

    /// Whether a place is above a lower bound, or what it leads to may be.
    fn is_above(&self, tree: &Tree<'_>, place: HashPlace<'_>, lower: Bound<HashPlace<'_>>) -> bool {
        is_above(place, lower) || self.leads_above(tree, place, lower)
    }

    /// Whether a key at or below a lower bound is a stem of keys that may be above it.
    fn leads_above(&self, tree: &Tree<'_>, (_, key): HashPlace<'_>, lower: Bound<HashPlace<'_>>) -> bool {
        key.len() == nest::stem_bytes(tree.order, self.copy.bytes().len())
            && matches!(lower,
                Bound::Included((_, bound)) | Bound::Excluded((_, bound)) if bound.starts_with(key))
    }

    /// Takes a copy of the bucket for a hash.
    fn fill<S: ScanSource>(
        &mut self,
        tree: &Tree<'_>,
        (lower, upper): HashBounds<'_>,
        source: &mut S,
        (hash, forward): (u64, bool),
    ) -> Result<()> {
        let to = match if forward { upper } else { lower } {
            Bound::Included((hash, _)) | Bound::Excluded((hash, _)) => hash,
            Bound::Unbounded if forward => u64::MAX,
            Bound::Unbounded => 0,
        };
        let (lower, upper) = (lower.map(|(_, key)| key), upper.map(|(_, key)| key));
        let part = Part { tree, stems: &[], lower, upper };
        source.copy(&part, WantedPage::Hash { hash, forward, to }, &mut self.copy)?;
        let bytes = self.copy.bytes();
        if !is_bucket_for(bytes, tree, hash) {
            let page = header::page_id(bytes);
            return Err(damaged(tree, page, "is not the bucket for the hashes that lead to it"));
        }
        let bucket = Bucket::new(bytes);
        self.order.clear();
        self.order.extend((0..bucket.count()).map(|slot| (hash_of(tree, bucket.key(slot)), slot)));
        self.order.sort_unstable_by(|(one, slot), (two, other)| {
            one.cmp(two).then_with(|| bucket.key(*slot).cmp(bucket.key(*other)))
        });
        self.left = 0..bucket.count();
        self.filled = true;
        Ok(())
    }
}

fn is_above(place: HashPlace<'_>, lower: Bound<HashPlace<'_>>) -> bool {
    match lower {
        Bound::Unbounded => true,
        Bound::Included(bound) => place >= bound,
        Bound::Excluded(bound) => place > bound,
    }
}

fn is_below(place: HashPlace<'_>, upper: Bound<HashPlace<'_>>) -> bool {
    match upper {
        Bound::Unbounded => true,
        Bound::Included(bound) => place <= bound,
        Bound::Excluded(bound) => place < bound,
    }
}
