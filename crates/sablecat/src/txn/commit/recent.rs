//! Which pages commits publish, listed while somebody wants to know. So a transaction that has read much
//! needs, in the commit step, only a look at what has changed since it validated, instead of one at each leaf
//! that it has read.
//!
//! ```text
//! entries  {position, lower half 32 | page 32}, one for each page published, in a ring
//! head     how many there have been
//! wanted   commits that begin in the log before this LSN are listed
//! ```
//!
//! A commit lists its pages in the commit step, before its commit point: one that dies in between leaves
//! entries that say too much, or that the next puts its own in the place of. Nobody needs to end the listing:
//! it ends when the log has passed `wanted`. A transaction that wants it holds the commit role as it says so,
//! so that every later commit sees that. It also holds the role as it goes on from one state to the next, so
//! that no commit is listed and not visible. It is told that something is missing by the log, which has
//! passed what it wanted, or by the entries, whose positions are not those looked for.
//!
//! *A committer that was taken for dead* and goes on may be listing still, beside the one that is in the
//! commit step by now. It changes no entry that the other has changed: each is changed by compare-and-swap
//! from what stood there before a look at the fence. Nor does it say that there are more, but where the other
//! has not yet; which then lists its pages once more.
//!
//! *A transaction that waits for a change* of what it has read has commits list their pages, too, and sleeps
//! beside the list ([`RecentPages::sleepers`]) until there is one of its own among them.
//!
//! Costs: two loads for each commit, of words on one line that is hardly ever written; while it is wanted a
//! swap on a line at hand for each page.

use std::collections::HashSet;

use sablecat_os::atomic::Ordering;

use super::{Committer, publish};
use crate::error::Result;
use crate::pages::{LocalParticipant, Pages};
use crate::region::{RECENT_MAX, RecentPages};
use crate::types::{Lsn, PageId};

/// For so many bytes of log at a time it is wanted.
const WANTED_BYTES: u64 = 16 << 20;

/// What stands at a position.
fn entry(position: u64, page: PageId) -> u64 {
    position << 32 | u64::from(page.0)
}

fn place(position: u64) -> usize {
    position as usize % RECENT_MAX
}

/// Lists what a commit that begins at `start` publishes, if that is wanted. The caller is in the commit step.
///
/// # Errors
/// `Poisoned` if this process was taken for dead.
#[inline]
pub(in crate::txn) fn list(
    pages: &Pages,
    start: Lsn,
    published: impl Iterator<Item = PageId> + Clone,
) -> Result<()> {
    let recent = pages.recent();
    // Relaxed: a transaction that wants it has said so in the commit role.
    if recent.wanted.load(Ordering::Relaxed) > start.0 { list_all(pages, recent, published) } else { Ok(()) }
}

#[cold]
fn list_all(
    pages: &Pages,
    recent: &RecentPages,
    published: impl Iterator<Item = PageId> + Clone,
) -> Result<()> {
    'again: loop {
        let head = recent.head.load(Ordering::Acquire);
        let mut next = head;
        for page in published.clone() {
            let word = &recent.entries[place(next)];
            // Acquire: a participant that sees what another has put there since finds the fence behind which
            // that began.
            let seen = word.load(Ordering::Acquire);
            pages.check_fence()?;
            if word.compare_exchange(seen, entry(next, page), Ordering::AcqRel, Ordering::Relaxed).is_err() {
                // A late one, which gets no further.
                continue 'again;
            }
            next += 1;
        }
        // Release: pairs with the load before a look at the entries below it.
        if recent.head.compare_exchange(head, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Ok(());
        }
    }
}

/// The pages published since a moment, as far as they have been looked at.
pub(in crate::txn) struct Published<'a> {
    committer: &'a Committer,
    /// Entries from here on are to be looked at.
    from: u64,
    /// What is said to be wanted.
    until: u64,
    /// Something may be missing.
    is_broken: bool,
    pages: HashSet<PageId>,
}

impl<'a> Published<'a> {
    /// Every commit after a state that is visible now. Waits for the commit role.
    pub(in crate::txn) fn since_now(
        committer: &'a Committer,
        me: &LocalParticipant,
    ) -> Result<Published<'a>> {
        let _held = publish::acquire(&committer.pages, &committer.log, me)?;
        let from = committer.pages.recent().head.load(Ordering::Acquire);
        let mut published = Published { committer, from, until: 0, is_broken: false, pages: HashSet::new() };
        published.want();
        Ok(published)
    }

    /// Says that it is wanted for some more log. The caller has the commit role.
    fn want(&mut self) {
        self.until = self.committer.log.tail().0 + WANTED_BYTES;
        self.committer.pages.recent().wanted.fetch_max(self.until, Ordering::Relaxed);
    }

    /// Looks at what has been listed meanwhile: of commits that may not be visible yet, too. To be called
    /// often.
    #[inline]
    pub(in crate::txn) fn look(&mut self, me: &LocalParticipant) -> Result<()> {
        #[cfg(test)]
        others();
        let is_ending = self.committer.log.tail().0 + WANTED_BYTES / 2 > self.until;
        if is_ending && !self.is_broken {
            let _held = publish::acquire(&self.committer.pages, &self.committer.log, me)?;
            self.look_in_commit();
            self.want();
        } else {
            self.collect();
        }
        Ok(())
    }

    /// Collects what is listed, and whether anything is missing. The caller has the commit role: so all of it
    /// is visible, but for what the caller publishes, and none that is visible is not listed.
    fn look_in_commit(&mut self) {
        self.collect();
        self.is_broken |= self.committer.log.tail().0 >= self.until;
    }

    fn collect(&mut self) {
        let recent = self.committer.pages.recent();
        // Acquire: pairs with the exchange that raised it.
        let head = recent.head.load(Ordering::Acquire);
        self.is_broken |= head - self.from > RECENT_MAX as u64;
        if self.is_broken {
            return;
        }
        for position in self.from..head {
            let word = recent.entries[place(position)].load(Ordering::Acquire);
            self.is_broken |= word >> 32 != position & u64::from(u32::MAX);
            self.pages.insert(PageId(word as u32));
        }
        self.from = head;
    }

    /// Takes what was published up to a state that is visible now, and says which; none if something is
    /// missing. Everything later is listed after it. Waits for the commit role.
    pub(in crate::txn) fn take(&mut self, me: &LocalParticipant) -> Result<Option<(Lsn, HashSet<PageId>)>> {
        let held = publish::acquire(&self.committer.pages, &self.committer.log, me)?;
        self.look_in_commit();
        self.want();
        let at = self.committer.pages.newest();
        drop(held);
        #[cfg(test)]
        others();
        Ok((!self.is_broken).then(|| (at, std::mem::take(&mut self.pages))))
    }

    /// Takes what was published since, of commits that may not be visible yet, too; none if something may be
    /// missing.
    pub(in crate::txn) fn take_so_far(&mut self, me: &LocalParticipant) -> Result<Option<HashSet<PageId>>> {
        self.look(me)?;
        Ok((!self.is_broken).then(|| std::mem::take(&mut self.pages)))
    }

    /// What was published since it was last taken, if nothing is missing. The caller has the commit role.
    pub(in crate::txn) fn rest(&mut self) -> Option<&HashSet<PageId>> {
        self.look_in_commit();
        (!self.is_broken).then_some(&self.pages)
    }
}

#[cfg(test)]
thread_local! {
    /// What others do between two looks of this thread, and after it has taken what was found.
    static OTHERS: std::cell::RefCell<Option<std::rc::Rc<dyn Fn()>>> =
        const { std::cell::RefCell::new(None) };
}

#[cfg(test)]
fn others() {
    let others = OTHERS.with_borrow(Clone::clone);
    others.into_iter().for_each(|others| others());
}

/// Does something while others do something between any two looks.
#[cfg(test)]
pub(in crate::txn) fn beside(others: std::rc::Rc<dyn Fn()>, act: impl FnOnce()) {
    OTHERS.set(Some(others));
    act();
    OTHERS.set(None);
}
