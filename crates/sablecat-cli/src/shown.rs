//! A database as `get` and `scan` show it: without what has expired, if its records do.

use sablecat::{Database, Expiring, Holds, KeyRange, ReadTxn, Record, Result};

/// Records in order, from either end.
pub(crate) type Ordered = Box<dyn DoubleEndedIterator<Item = Result<Record>>>;

/// A database, in one state.
#[derive(Debug)]
pub(crate) struct Shown {
    state: ReadTxn,
    database: Database,
    expiring: Option<Expiring>,
}

impl Shown {
    pub(crate) fn new(database: Database) -> Result<Shown> {
        let state = database.env().snapshot()?;
        let expires = database.holds() == Holds::Expiring;
        let expiring = expires.then(|| Expiring::of(&state, &database)).transpose()?;
        Ok(Shown { state, database, expiring })
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match &self.expiring {
            None => self.state.get(&self.database, key),
            Some(expiring) => expiring.get(&self.state, key),
        }
    }

    pub(crate) fn value_len(&self, key: &[u8]) -> Result<Option<u64>> {
        match &self.expiring {
            None => self.state.value_len(&self.database, key),
            Some(expiring) => expiring.value_len(&self.state, key),
        }
    }

    pub(crate) fn read_at(&self, key: &[u8], offset: u64, into: &mut [u8]) -> Result<Option<usize>> {
        match &self.expiring {
            None => self.state.read_at(&self.database, key, offset, into),
            Some(expiring) => expiring.read_at(&self.state, key, offset, into),
        }
    }

    /// What tells in milliseconds since 1970 from when on a record is gone; none if it is there for good.
    pub(crate) fn expires(&self, key: &[u8]) -> Result<Option<u64>> {
        let lifetime =
            self.expiring.as_ref().map(|expiring| expiring.lifetime(&self.state, key)).transpose()?;
        Ok(lifetime.flatten().and_then(crate::lifetime::expires))
    }

    pub(crate) fn range(&self, keys: impl KeyRange) -> Result<Ordered> {
        Ok(match &self.expiring {
            None => Box::new(self.database.range(keys)?),
            Some(expiring) => Box::new(expiring.range(self.database.env(), keys)?),
        })
    }
}
