//! Locks by name, for what programs agree upon among themselves.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::kept::Kept;
use super::{Database, Env, Kind};
use crate::env::Named;
use crate::error::{ErrorKind, Result};
use crate::txn::locks::record_hash;
use crate::txn::pairs::{END, add_with_end};
use crate::types::TreeId;

/// Under which the paths that programs choose are locked: no database has this number.
const PATHS: TreeId = TreeId(u32::MAX);
/// More than most paths have.
const PATH_BYTES: usize = 128;

/// An owner of locks by name (advisory locks), on which programs, and the processes that share an
/// environment, agree among themselves. No transaction and no other operation regards these locks: they only
/// affect owners that ask for them. In Berkeley DB they are locks of a locker of one's own, in M `LOCK`.
///
/// A name is a path, like that of a directory: a lock on a path excludes other owners from the path, from all
/// paths under it, and from all paths that it is under. An owner may lock a path several times, and paths
/// under and above its own; each path stays locked until it was unlocked as often as it was locked. All locks
/// end when their owner is dropped, or its process dies in any way. Locks of a stopped process are not given
/// to others.
///
/// ```
/// use std::time::Duration;
///
/// # fn main() -> sablecat::Result<()> {
/// let env = sablecat::Env::in_memory()?;
/// let (mut ada, mut bob) = (env.locker()?, env.locker()?);
/// ada.lock(["printers", "tray 1"])?;
///
/// let now = Duration::ZERO;
/// assert!(bob.lock_within(["printers", "tray 2"], now)?);
/// assert!(!bob.lock_within(["printers", "tray 1", "left"], now)?);
/// assert!(!bob.lock_within(["printers"], now)?);
///
/// ada.unlock(["printers", "tray 1"]);
/// assert!(bob.lock_within(["printers"], now)?);
/// # Ok(())
/// # }
/// ```
///
/// Each owner takes a slot of the environment, like a transaction in progress, and, for each path, a word of
/// the lock table for each name in the path. A lock is identified by 44 bits of a hash: two paths may happen
/// to count as one, and an owner may then wait without need.
///
/// Lock first, then begin a transaction: otherwise other transactions may wait for one that waits for a lock
/// by name, until a timeout. An owner that would wait for an owner that waits for it, by locks by name or
/// locks of transactions, gets `Deadlock`. The engine cannot know that two owners, or an owner and a
/// transaction, belong to one thread: if these wait for each other, they get `Timeout`.
pub struct Locker {
    inner: Kept<'static, crate::txn::LockOwner<'static>>,
    /// How often each path is locked, by its hash.
    counts: BTreeMap<u64, u32>,
}

impl fmt::Debug for Locker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locker").field("locked", &self.counts.len()).finish_non_exhaustive()
    }
}

impl Env {
    /// An owner of locks by name, which holds none yet.
    ///
    /// # Errors
    /// `TooMany` if all slots of the environment are taken; `Poisoned` if other processes took this one for
    /// dead.
    pub fn locker(&self) -> Result<Locker> {
        let inner = Kept::owned(self.clone(), |core| crate::txn::LockOwner::new(&core.kernel))?;
        Ok(Locker { inner, counts: BTreeMap::new() })
    }
}

impl Locker {
    /// The environment in which it locks.
    pub fn env(&self) -> &Env {
        self.inner.env()
    }

    /// Locks a path. Waits for other owners that have locked it, a path under it, or a path that it is under,
    /// for as long as transactions of the environment wait for locks
    /// ([`Builder::lock_timeout`](crate::Builder::lock_timeout)).
    ///
    /// # Errors
    /// `Timeout`; `Deadlock` if waiting would never have ended; `TooMany` if the lock table is full;
    /// `Invalid` for a path without names. After an error it has the locks that it had before.
    pub fn lock<N: AsRef<[u8]>>(&mut self, path: impl IntoIterator<Item = N>) -> Result<()> {
        self.lock_hashes(&hashes(path)?, self.patience())
    }

    /// As [`Locker::lock`], waiting for no longer than this. False if it did not get the lock.
    ///
    /// # Errors
    /// As [`Locker::lock`], except `Timeout`.
    pub fn lock_within<N: AsRef<[u8]>>(
        &mut self,
        path: impl IntoIterator<Item = N>,
        time: Duration,
    ) -> Result<bool> {
        self.lock_hashes_within(&hashes(path)?, time)
    }

    /// Unlocks a path, once; false if this owner has not locked that path.
    pub fn unlock<N: AsRef<[u8]>>(&mut self, path: impl IntoIterator<Item = N>) -> bool {
        hashes(path).is_ok_and(|hashes| self.unlock_hashes(&hashes))
    }

    /// Unlocks all that it has locked.
    pub fn unlock_all(&mut self) {
        self.inner.release_all();
        self.counts.clear();
    }

    /// How often this owner has locked a path.
    pub fn count<N: AsRef<[u8]>>(&self, path: impl IntoIterator<Item = N>) -> u32 {
        hashes(path).map_or(0, |hashes| self.count_of(&hashes))
    }

    /// How long it waits where nothing is said.
    pub(crate) fn patience(&self) -> Duration {
        self.env().core().config.lock_timeout
    }

    pub(crate) fn count_of(&self, path: &[u64]) -> u32 {
        path.last().and_then(|last| self.counts.get(last)).copied().unwrap_or(0)
    }

    /// As [`Locker::lock`], by the hashes of all on the way to a path.
    pub(crate) fn lock_hashes(&mut self, path: &[u64], time: Duration) -> Result<()> {
        self.inner.acquire(path, time)?;
        if let Some(last) = path.last() {
            *self.counts.entry(*last).or_default() += 1;
        }
        Ok(())
    }

    pub(crate) fn lock_hashes_within(&mut self, path: &[u64], time: Duration) -> Result<bool> {
        match self.lock_hashes(path, time) {
            Err(error) if error.kind() == ErrorKind::Timeout => Ok(false),
            done => done.map(|()| true),
        }
    }

    pub(crate) fn unlock_hashes(&mut self, path: &[u64]) -> bool {
        let Some(last) = path.last() else { return false };
        let Some(count) = self.counts.get_mut(last) else { return false };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(last);
        }
        self.inner.release(path);
        true
    }
}

impl<K: Kind> Database<K> {
    /// Its number, in an environment that must be its own.
    pub(crate) fn tree_id_in(&self, env: &Env) -> Result<TreeId> {
        self.named_in(env.core()).map(Named::tree_id)
    }
}

/// The hash of a path, and before it those of all that it is under.
fn hashes<N: AsRef<[u8]>>(path: impl IntoIterator<Item = N>) -> Result<Vec<u64>> {
    let mut whole = Vec::with_capacity(PATH_BYTES);
    let hashes: Vec<u64> = path
        .into_iter()
        .map(|name| {
            add_with_end(&mut whole, name.as_ref(), END, 0);
            record_hash(PATHS, &whole)
        })
        .collect();
    match hashes.is_empty() {
        true => Err(crate::error::Error::invalid("locking a path without names; it must have at least one")),
        false => Ok(hashes),
    }
}
