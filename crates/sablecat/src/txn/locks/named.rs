//! Locks that are held by name and each given back by itself: those of programs, not of transactions.
//!
//! A name is a path: a sequence of names each of which is under the one before. A lock on it keeps others off
//! from the path, from all paths under it, and from all that it is under; paths beside it are free. In the
//! table it is an exclusive lock on the path and a shared one on each that it is under (Gray's intention
//! locks, of which one kind is enough: nobody locks a path to share it).
//!
//! An owner may lock a path several times, and paths under ones that it has locked: it counts what it has of
//! each, and the table has the stronger of what these need. So a lock is made stronger when a path is locked
//! of which one under it was locked before, and weaker when it is given back first.
//!
//! Records that the table takes for one, by their 44 bits, are one here too. What was made coarse stays so
//! until its owner has nothing left in that home.

use std::collections::HashMap;
use std::time::Duration;

use sablecat_os::atomic::Ordering;
use sablecat_os::clock;

use super::word::{LockId, Word};
use super::{HeldLocks, LockMode, LockTable};
use crate::error::Result;

/// The locks of one owner.
#[derive(Debug, Default)]
pub(crate) struct NamedLocks {
    held: HeldLocks,
    /// What is had of each record.
    of: HashMap<LockId, Uses>,
}

#[cfg(test)]
impl NamedLocks {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.of.is_empty()
    }
}

/// How often a record is had, as a path itself and as what others are under.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Uses {
    exclusive: u32,
    shared: u32,
}

impl Uses {
    fn count(&mut self, mode: LockMode) -> &mut u32 {
        match mode {
            LockMode::Exclusive => &mut self.exclusive,
            LockMode::Shared => &mut self.shared,
        }
    }

    fn mode(self) -> Option<LockMode> {
        match self {
            Uses { exclusive: 0, shared: 0 } => None,
            Uses { exclusive: 0, .. } => Some(LockMode::Shared),
            _ => Some(LockMode::Exclusive),
        }
    }
}

/// The locks of a path: of each hash on the way to it, the last of which is its own.
fn locks_of(path: &[u64]) -> impl Iterator<Item = (u64, LockMode)> {
    let last = path.len().saturating_sub(1);
    path.iter()
        .enumerate()
        .map(move |(n, &hash)| (hash, if n == last { LockMode::Exclusive } else { LockMode::Shared }))
}

impl LockTable {
    /// Locks a path, by the hashes of all on the way to it, waiting for up to `timeout`.
    ///
    /// # Errors
    /// As [`LockTable::acquire`]; then there are the locks that there were before.
    pub(crate) fn acquire_path(
        &self,
        me: u16,
        path: &[u64],
        timeout: Duration,
        named: &mut NamedLocks,
    ) -> Result<()> {
        let begun = clock::monotonic();
        for (n, (hash, mode)) in locks_of(path).enumerate() {
            let uses = named.of.entry(LockId::of(hash)).or_default();
            let had = uses.mode();
            *uses.count(mode) += 1;
            if had >= uses.mode() {
                continue;
            }
            let left = timeout.saturating_sub(clock::monotonic().saturating_sub(begun));
            if let Err(error) = self.acquire(me, hash, mode, left, &mut named.held) {
                // The last one was counted, and not had.
                locks_of(path).take(n + 1).for_each(|(hash, mode)| self.give_back(me, hash, mode, named));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Gives a path back that was locked once more than it was given back.
    pub(crate) fn release_path(&self, me: u16, path: &[u64], named: &mut NamedLocks) {
        locks_of(path).for_each(|(hash, mode)| self.give_back(me, hash, mode, named));
    }

    /// Gives back whatever there is.
    pub(crate) fn release_paths(&self, me: u16, named: &mut NamedLocks) {
        self.release_all(me, &mut named.held);
        named.of.clear();
    }

    /// Counts one use of a record less. The table has what the others need, or what it had, if that is less.
    fn give_back(&self, me: u16, hash: u64, mode: LockMode, named: &mut NamedLocks) {
        let id = LockId::of(hash);
        let Some(uses) = named.of.get_mut(&id) else { return };
        let count = uses.count(mode);
        *count = count.saturating_sub(1);
        let left = uses.mode();
        if left.is_none() {
            named.of.remove(&id);
        }
        if left < Some(LockMode::Exclusive) && !self.table.is_fenced() {
            self.weaken(me, id, left, named);
        }
    }

    /// Leaves a lock with no more than this.
    fn weaken(&self, me: u16, id: LockId, left: Option<LockMode>, named: &mut NamedLocks) {
        let home = self.table.home(id);
        let is_home_left = || named.of.keys().any(|other| self.table.home(*other) == home);
        let mut ended = Vec::new();
        {
            let latch = self.table.latch(home, me);
            for index in self.places(home, latch.reach()) {
                let place = self.table.word(index);
                // Relaxed: what matters here we wrote, but for the flag, which the swap sees.
                let word = Word(place.load(Ordering::Relaxed));
                if word.is_free() || word.owner() != me || self.table.home(word.id()) != home {
                    continue;
                }
                let is_freed = match word.is_coarse() {
                    true => left.is_none() && !is_home_left(),
                    false => left.is_none() && word.id() == id,
                };
                let is_weakened = !word.is_coarse() && word.id() == id && Some(word.mode()) > left;
                if !is_freed && !is_weakened {
                    continue;
                }
                // The home's latch is held: nobody flags it meanwhile. SeqCst: as in `release`.
                let after = if is_freed { Word::FREE } else { word.shared() };
                ended.push(Word(place.swap(after.0, Ordering::SeqCst)));
            }
        }
        // Without what was freed, here or as it was made coarse, which may be another's by now.
        let is_mine =
            |&index: &u32| Word(self.table.word(index as usize).load(Ordering::Relaxed)).owner() == me;
        named.held.words.retain(is_mine);
        ended.into_iter().filter(|last| last.is_waited()).for_each(|last| self.pass_on(last));
    }
}
