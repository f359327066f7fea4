//! Locks of nodes, as M's `LOCK`.

use std::time::Duration;

use super::{Node, subscript};
use crate::error::Result;
use crate::txn::locks::record_hash;
use crate::{Env, Locker};

/// Before the key of a node that is locked: no record's key begins so.
const LOCKED: u8 = 0;

impl Node<'_, Env> {
    /// Locks the node for an owner of locks: until it is unlocked, no other owner can lock the node, a
    /// descendant or an ancestor of it. As with M's `LOCK +^a(1)`, the lock does not keep others from reading
    /// or setting the node, a locked node need not exist, and a node that was locked several times must be
    /// unlocked as often. See [`Locker`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use sablecat::globals::Globals;
    ///
    /// # fn main() -> sablecat::Result<()> {
    /// let env = sablecat::Env::in_memory()?;
    /// let globals = Globals::open(&env, "globals")?;
    /// let acct = globals.global("acct")?;
    /// let (mut ours, mut theirs) = (env.locker()?, env.locker()?);
    ///
    /// acct.at(42).lock(&mut ours)?; // LOCK +^acct(42)
    /// let name = acct.at(42).at("name");
    /// assert!(!name.lock_within(&mut theirs, Duration::ZERO)?); // LOCK +^acct(42,"name"):0
    /// assert!(acct.at(7).lock_within(&mut theirs, Duration::ZERO)?);
    /// acct.at(42).unlock(&mut ours); // LOCK -^acct(42)
    /// theirs.unlock_all(); // LOCK
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Locker::lock`]; `Invalid` for a locker of another environment.
    pub fn lock(&self, locker: &mut Locker) -> Result<()> {
        let time = locker.patience();
        locker.lock_hashes(&self.hashes(locker)?, time)
    }

    /// As [`Node::lock`], waiting for no longer than this. False if it did not get the lock: M's `$TEST`.
    ///
    /// # Errors
    /// As [`Node::lock`], except `Timeout`.
    pub fn lock_within(&self, locker: &mut Locker, time: Duration) -> Result<bool> {
        locker.lock_hashes_within(&self.hashes(locker)?, time)
    }

    /// Unlocks the node, once; false if this owner has not locked that node.
    pub fn unlock(&self, locker: &mut Locker) -> bool {
        self.hashes(locker).is_ok_and(|hashes| locker.unlock_hashes(&hashes))
    }

    /// The hash of the node, and before it those of all that it is a descendant of.
    fn hashes(&self, locker: &Locker) -> Result<Vec<u64>> {
        let tree = self.globals.database.tree_id_in(locker.env())?;
        let mut name = vec![LOCKED];
        name.extend_from_slice(&self.key);
        let mut ends = vec![subscript::name_end(&self.key)];
        while let Some(&end) = ends.last().filter(|&&end| end < self.key.len()) {
            ends.push(subscript::end_of(&self.key, end));
        }
        Ok(ends.into_iter().map(|end| record_hash(tree, &name[..=end])).collect())
    }
}
