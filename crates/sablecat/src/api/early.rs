//! What a transaction may ask before it commits, so that nothing is done in vain.

use super::read::within;
use super::{Database, Txn};
use crate::error::Result;

impl Txn<'_> {
    /// Whether nothing was committed since the state that the transaction sees.
    pub fn sees_newest(&self) -> bool {
        self.records().sees_newest()
    }

    /// Checks before the commit for a conflict: an error if another transaction has changed what this one has
    /// read of a key, and has committed. If the key was read as part of a range, a change of what was read
    /// beside it may count too. A key that was not read is no conflict, here as in the commit.
    ///
    /// Takes no lock, and costs next to nothing unless something was committed to the same part of the
    /// database. Even without an error here the commit may fail, because of what other transactions commit
    /// until then.
    ///
    /// ```
    /// # use sablecat::ErrorKind;
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let stock = env.database("stock")?;
    /// stock.insert_batch([("apples", "5"), ("pears", "3")])?;
    /// let mut txn = env.begin()?;
    /// txn.get(&stock, "apples")?;
    /// stock.insert("pears", "2")?;
    /// txn.check_unchanged(&stock, "apples")?;
    /// txn.check_unchanged(&stock, "pears")?; // it has not read them
    /// stock.insert("apples", "4")?;
    /// assert_eq!(txn.check_unchanged(&stock, "apples").unwrap_err().kind(), ErrorKind::Conflict);
    /// txn.insert(&stock, "apples", "6")?;
    /// assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Conflict);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Conflict`, also if the database was removed. At [`Isolation::Snapshot`](crate::Isolation::Snapshot)
    /// if the record was changed, whether or not it was read: a transaction that sets it cannot commit. Never
    /// at [`Isolation::ReadCommitted`](crate::Isolation::ReadCommitted). As [`Txn::get`].
    pub fn check_unchanged(&self, db: &Database, key: impl AsRef<[u8]>) -> Result<()> {
        within(self, db, |txn, tree| txn.records.check_unchanged(tree, key.as_ref()))
    }

    /// As [`Txn::check_unchanged`], for everything that the transaction has read in a database, except what
    /// it has only counted. It checks each part of the database that was read.
    ///
    /// # Errors
    /// As [`Txn::check_unchanged`]; at [`Isolation::Snapshot`](crate::Isolation::Snapshot) only if the
    /// database was removed.
    pub fn check_all_unchanged(&self, db: &Database) -> Result<()> {
        within(self, db, |txn, tree| txn.records.check_all_unchanged(tree))
    }

    /// Whether another transaction has [locked](Txn::get_for_update) the record of a key. That may have
    /// changed when this returns.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let stock = env.database("stock")?;
    /// let (mut one, other) = (env.begin()?, env.begin()?);
    /// one.get_for_update(&stock, "apples")?;
    /// assert!(other.is_locked(&stock, "apples")? && !one.is_locked(&stock, "apples")?);
    /// one.commit()?;
    /// assert!(!other.is_locked(&stock, "apples")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn is_locked(&self, db: &Database, key: impl AsRef<[u8]>) -> Result<bool> {
        within(self, db, |txn, tree| Ok(txn.records.is_locked(tree, key.as_ref())))
    }
}
