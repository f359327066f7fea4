//! Trees that are built anew while others go on: which commits may change them, and what still holds of where
//! their leaves were.
//!
//! A commit larger than the cache builds the pages it changes beside the old ones and switches to them at the
//! roots (beside.rs). In between nobody may change these trees; afterwards a committer that found a leaf
//! before may be holding one that is no page of its tree any more. Nothing in such a leaf says so: so three
//! words of the region do, which stand beside `visible`.
//!
//! *Frozen.* A commit that changes leaves alone looks, in its commit step, whether a rebuilder holds the
//! structure latch of one of its trees. If so nothing happens, and the change is made again under that latch,
//! which is to wait. The bit is set under the latch and before a commit step of the rebuilder's own: so each
//! of the others' steps comes before that one, and is seen by it, or after it, and sees the bit. The bit of a
//! rebuilder that died stays until somebody takes the latch, as each commit that finds it set does: a reaper
//! that cleared it could come late, and clear another's.
//!
//! *Since.* In the commit step of the switch, before its commit point, the word is raised above everything
//! visible. What was found in a state below it counts as not found: leaves of a commit that changes leaves
//! alone (made again, as above), remembered leaves (forgotten), reads to be validated and records to be
//! compared (by the records instead of by the leaf's version). States at or above it are of after the switch
//! or, if the switch died before its commit point, of after it might have been. So it is in the last commit
//! step of a bulk load that has published pages before: these are younger than what they say of their tree,
//! and a snapshot from in between does not have that. And so it is where an LSM tree gets another newest
//! layer (trees/layers.rs): leaves of the one before cover keys as they did, and are not the place of any.
//!
//! *Leaves.* What is built beside a tree looks like leaves of it, and may have the number of a leaf that
//! somebody remembers and that has gone since; so do the pages of a bulk load. Before the first of them a
//! third word is raised in the same way. Leaves that were found in a state below it are not believed, neither
//! remembered ones nor those of a commit that changes leaves alone. What is found after that is a page of its
//! tree, and keeps its number for as long as nobody changes the tree. A tree that is loaded may be changed,
//! filled and emptied again. So each time before pages are published the load looks whether the root is the
//! one that was there when the word was raised. If not, it raises the word again (bulk.rs, `be_alone`).

use sablecat_os::atomic::Ordering;

use super::Committer;
use super::changes::ChangedPages;
use super::publish::{self, filler};
use crate::error::{Error, Result};
use crate::pages::LocalParticipant;
use crate::region::STRUCTURE_LATCHES;
use crate::types::{Lsn, PageId, TreeId};

const _: () = assert!(STRUCTURE_LATCHES <= u64::BITS as usize, "a bit each");

fn bit(tree: TreeId) -> u64 {
    1 << (tree.0 as usize % STRUCTURE_LATCHES)
}

/// Trees that nobody else changes, until dropped. Their structure latches are held for longer.
pub(in crate::txn) struct Frozen<'a> {
    committer: &'a Committer,
    bits: u64,
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        if self.committer.pages.is_fenced() {
            // The process that took this one for dead has cleared them, and they may be another's.
            return;
        }
        // Release: what was done under the bit comes before.
        self.committer.pages.rebuilds().frozen.fetch_and(!self.bits, Ordering::Release);
    }
}

impl Committer {
    /// Whether a leaf is in the newest state, which the caller has pinned, what it was at an LSN, and where
    /// it was. False if it cannot be told.
    pub(in crate::txn) fn is_leaf_unchanged(&self, leaf: PageId, at: Lsn) -> bool {
        at >= self.pages.rebuilt_since() && self.pages.is_unchanged_since(leaf, at)
    }

    /// Keeps everybody else from changing trees whose structure latches `me` holds, and returns a state that
    /// is the last which others have made of them. The caller holds no page latch.
    pub(in crate::txn) fn freeze(
        &self,
        trees: impl Iterator<Item = TreeId>,
        me: &LocalParticipant,
    ) -> Result<(Frozen<'_>, Lsn)> {
        let frozen = Frozen { committer: self, bits: trees.fold(0, |bits, tree| bits | bit(tree)) };
        // The commit role, which is taken next, orders this before every commit step that comes after ours.
        let word = &self.pages.rebuilds().frozen;
        let before = word.fetch_or(frozen.bits, Ordering::SeqCst);
        if let Err(error) = self.pages.check_fence() {
            // The participant that mended what this process held may have looked before; what was set already
            // is another's.
            word.fetch_and(!(frozen.bits & !before), Ordering::SeqCst);
            return Err(error);
        }
        let changes = ChangedPages::new(&self.pages, me, Lsn(0));
        let at = publish::publish(&self.pages, &self.log, changes, &mut filler(), |_| {
            self.forget_leaves();
            Ok(())
        })?;
        Ok((frozen, at))
    }

    /// In the commit step of a committer that changes leaves that it found at `at`, without the structure
    /// latch of their tree: "rebuilt" if they may be none of its leaves any more, or must not change.
    #[inline]
    pub(in crate::txn) fn check_not_rebuilt(&self, tree: TreeId, at: Lsn) -> Result<()> {
        // Acquire is enough: the commit role orders the two steps.
        let is_frozen = self.pages.rebuilds().frozen.load(Ordering::Acquire) & bit(tree) != 0;
        if is_frozen || at < self.pages.leaves_since() { Err(Error::rebuilt()) } else { Ok(()) }
    }

    /// Called in the commit step of a committer that switches trees to other pages, or leads to pages that
    /// were published before, as the last thing before its commit point. Leaves that were found up to now may
    /// be no leaves any more, and what is older than a snapshot may be in none that it sees.
    pub(in crate::txn) fn say_rebuilt(&self) {
        // Only upwards, both: a process that was taken for dead does it late.
        self.pages.rebuilds().since.fetch_max(self.pages.newest().0 + 1, Ordering::Release);
        self.forget_leaves();
    }

    /// In a commit step before pages are published that look like leaves of a tree and that nothing leads to:
    /// where leaves were up to now is not to be remembered, since one of them may be gone, and its number be
    /// that of such a page.
    pub(in crate::txn) fn forget_leaves(&self) {
        self.pages.rebuilds().leaves.fetch_max(self.pages.newest().0 + 1, Ordering::Release);
    }

    /// Ends what a dead participant had frozen that had this structure latch before. The caller has it now.
    pub(in crate::txn) fn thaw(&self, structure: usize) {
        let word = &self.pages.rebuilds().frozen;
        // Relaxed: the latch's holder has seen what its last holder did, and nobody else changes the bit.
        if word.load(Ordering::Relaxed) & 1 << structure != 0 {
            word.fetch_and(!(1 << structure), Ordering::Release);
        }
    }
}
