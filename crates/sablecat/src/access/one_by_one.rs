//! Ranges, one record after the other: for a method that has no faster way.

use std::ops::Bound;

use super::method::Removed;
use super::scan::{KeyBounds, PageCopy, Part, PendingRecord, Scan, ScanSource, Scanned, WantedPage};
use super::{CopyWrite, PageWrite, Tree};
use crate::error::{Error, Result};
use crate::types::PageId;

fn scan((lower, upper): KeyBounds<'_>) -> Scan {
    Scan::new(lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec))
}

/// How many committed records lie between the bounds: see [`Tree::count`].
pub(super) fn count<S: ScanSource>(source: &mut S, tree: &Tree<'_>, bounds: KeyBounds<'_>) -> Result<u64> {
    let (mut scan, mut count) = (scan(bounds), 0);
    while scan.next(tree, &mut CommittedOnly(source), true)?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// A source without what is pending.
struct CommittedOnly<'s, S>(&'s mut S);

impl<S: ScanSource> ScanSource for CommittedOnly<'_, S> {
    fn copy(&mut self, part: &Part<'_>, wanted: WantedPage<'_>, into: &mut PageCopy) -> Result<()> {
        self.0.copy(part, wanted, into)
    }

    fn copy_unseen(&mut self, part: &Part<'_>, wanted: WantedPage<'_>, into: &mut PageCopy) -> Result<()> {
        self.0.copy_unseen(part, wanted, into)
    }

    fn pending(&self, _: Bound<&[u8]>, _: Bound<&[u8]>, _: bool) -> Result<Option<PendingRecord>> {
        Ok(None)
    }
}

/// Removes the first record of a range: see [`Tree::remove_some`].
pub(super) fn remove_some<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    bounds: KeyBounds<'_>,
) -> Result<Removed> {
    let Some((key, _)) = scan(bounds).next(tree, &mut Scanned(writer), true)? else {
        return Ok(Removed::default());
    };
    let change = (tree.sought(&key), None);
    let removed = tree.change(writer, change, &mut { PageId::NONE }, |_, _, _| Err(no_value()))?;
    if !removed {
        // Another may have removed it meanwhile: then it is not found again, its page being held by now.
        let again = scan(bounds).next(tree, &mut Scanned(writer), true)?;
        if again.is_some_and(|(again, _)| again == key) {
            return Err(misplaced(tree));
        }
    }
    Ok(Removed { records: u64::from(removed), left: Some(key) })
}

/// As [`remove_some`], in a tree whose root is a copy.
pub(super) fn remove_some_beside<W: CopyWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    bounds: KeyBounds<'_>,
) -> Result<Removed> {
    let Some((key, _)) = scan(bounds).next(tree, &mut Scanned(writer), true)? else {
        return Ok(Removed::default());
    };
    let change = (&key[..], None);
    let removed = tree.change_beside(writer, change, &mut { PageId::NONE }, |_, _, _| Err(no_value()))?;
    // Nobody else changes the tree.
    if removed == Some(false) {
        return Err(misplaced(tree));
    }
    // Or pages were copied, and it is to be removed once these are published.
    Ok(Removed { records: u64::from(removed.is_some()), left: Some(key) })
}

fn misplaced(tree: &Tree<'_>) -> Error {
    Error::corruption(format!(
        "a record of tree {} is not where its key leads to, and cannot be removed",
        tree.id
    ))
}

fn no_value() -> Error {
    Error::corruption("a removal stored a value")
}
