//! How large a table is, from some of its buckets (access/estimate.rs).
//!
//! A random hash leads to a page to which so many bits of hashes lead with a chance of 2^-bits: so each page
//! that it meets counts 2^bits times. Subtrees are looked at as B+trees. A table of one directory with few
//! buckets is looked at whole.

use std::ops::Bound;

use super::bucket::Bucket;
use super::directory::Directory;
use super::whole::subtrees_of;
use super::{hash_of, is_bucket, is_directory};
use crate::access::estimate::{Chances, DESCENTS, Estimate, RecordEstimate, Sum};
use crate::access::method::{StoredValue, Tree};
use crate::access::wrong::{damaged, misplaced, unborn};
use crate::access::{KeyBounds, PageRead, btree, long};
use crate::error::Result;
use crate::pages::header;
use crate::types::PageId;

/// How large a table is, about.
///
/// # Errors
/// Those of reading, and corruption if pages that were looked at do not form a table.
pub(crate) fn estimate<R: PageRead>(reader: &R, tree: &Tree<'_>, seed: u64) -> Result<Estimate> {
    let few = |bytes: &[u8]| {
        if header::tree_id(bytes) != tree.id {
            return Err(misplaced(tree, tree.root));
        }
        if !is_directory(bytes) {
            return Ok(Some(Vec::new()));
        }
        let children: Vec<_> = Directory::new(bytes).children().map(|(_, child)| child).collect();
        let are_few = children.len() <= DESCENTS && children.iter().all(|child| !child.is_directory);
        Ok(are_few.then(|| children.iter().map(|child| child.page).collect()))
    };
    let all = reader.read(tree.root, few).map_err(|error| unborn(tree, tree.root, error))??;
    if let Some(buckets) = all {
        let mut whole = Estimate { depth: 1, is_exact: true, ..Estimate::default() };
        for page in std::iter::once(tree.root).chain(buckets) {
            whole.depth = if page == tree.root { 1 } else { 2 };
            let (sum, subtrees) = look(reader, tree, page)?;
            whole.sum.add(sum, 1.0);
            for subtree in &subtrees {
                let below = btree::estimate(reader, subtree, seed)?;
                whole.sum.add(below.sum, 1.0);
                whole.is_exact &= below.is_exact;
            }
        }
        return Ok(whole);
    }
    let (mut chances, mut about) = (Chances::new(seed), Estimate::default());
    for n in 0..DESCENTS {
        let part = (n as f64 + chances.part()) / DESCENTS as f64;
        let hash = (part * 2f64.powi(64)) as u64;
        let mut ahead = Some(tree.root);
        let (mut depth, mut level) = (0, None);
        while let Some(page) = ahead.take() {
            depth += 1;
            let (stretch, next) = reader.read(page, |bytes| {
                if header::tree_id(bytes) != tree.id || !is_directory(bytes) && !is_bucket(bytes) {
                    return Err(damaged(tree, page, "is neither a directory nor a bucket"));
                }
                if is_bucket(bytes) {
                    return Ok((Bucket::new(bytes).stretch(), None));
                }
                let directory = Directory::new(bytes);
                Ok((directory.stretch(), Some(directory.child(directory.slot_of(hash)).page)))
            })??;
            // Directories have higher levels on the way down, or it would not end.
            if next.is_some() && level.replace(stretch.level).is_some_and(|level| level >= stretch.level) {
                return Err(damaged(
                    tree,
                    page,
                    "is a directory for other hashes than those that lead to it",
                ));
            }
            let times = 2f64.powi(stretch.level.into()) / DESCENTS as f64;
            let (sum, subtrees) = look(reader, tree, page)?;
            about.sum.add(sum, times);
            for subtree in &subtrees {
                about.sum.add(btree::estimate(reader, subtree, seed)?.sum, times);
            }
            ahead = next;
        }
        about.depth = about.depth.max(depth);
    }
    Ok(about)
}

/// How many records there are between two bounds, about: hashes are as dense everywhere.
///
/// # Errors
/// As [`estimate`].
pub(crate) fn estimate_range<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    (lower, upper): KeyBounds<'_>,
    seed: u64,
) -> Result<RecordEstimate> {
    let Estimate { sum, is_exact, .. } = estimate(reader, tree, seed)?;
    // Where in all of it a bound is, from 0 to 1.
    let place = |bound, without| match bound {
        Bound::Included(key) | Bound::Excluded(key) => hash_of(tree, key) as f64 / 2f64.powi(64),
        Bound::Unbounded => without,
    };
    let part = (place(upper, 1.0) - place(lower, 0.0)).max(0.0);
    let is_whole = lower == Bound::Unbounded && upper == Bound::Unbounded;
    Ok(RecordEstimate { number: sum.records * part, is_exact: is_exact && is_whole })
}

/// What a page has, without what its references lead to, and these.
fn look<R: PageRead>(reader: &R, tree: &Tree<'_>, page: PageId) -> Result<(Sum, Vec<Tree<'static>>)> {
    reader.read(page, |bytes| {
        if is_directory(bytes) {
            let bytes = Directory::new(bytes).count() as f64 * 4.0;
            return Ok((Sum { pages: 1.0, records: 0.0, bytes }, Vec::new()));
        }
        if !is_bucket(bytes) || header::tree_id(bytes) != tree.id {
            return Err(damaged(tree, page, "is neither a directory nor a bucket"));
        }
        let bucket = Bucket::new(bytes);
        let subtrees = subtrees_of(bytes, tree, page)?;
        let records = bucket.count() - subtrees.len();
        let mut sum = Sum { pages: 1.0, records: records as f64, bytes: bucket.used_bytes() as f64 };
        for (_, value) in bucket.records() {
            let StoredValue::Long { len, .. } = value else { continue };
            let pages = long::page_count(len, bytes.len()) as f64;
            sum.add(Sum { pages, records: 0.0, bytes: len as f64 }, 1.0);
        }
        Ok((sum, subtrees))
    })?
}
