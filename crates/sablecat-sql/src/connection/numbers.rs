//! The numbers that SQLite keeps of a schema, beside the highest root: records of one small database, read
//! and set in the transaction in progress.
//!
//! Each statement asks for some, and depends on them, whatever else it depends on.

use std::ffi::c_int;

use sablecat::Content;

use super::{Connection, LAST_ROOT, NUMBERS, Result, SCHEMA_ROOT};
use crate::failure::Failure;

/// The number by which a program sees whether others have changed something.
const DATA_VERSION: c_int = 15;
/// Under which one of SQLite's numbers is kept.
fn number_key(index: c_int) -> Result<u8> {
    let key = u8::try_from(index).ok().filter(|key| usize::from(*key) < NUMBERS);
    key.ok_or_else(|| Failure::internal("a number that SQLite has not"))
}

impl Connection {
    /// The highest root so far.
    pub(crate) fn last_root(&mut self) -> Result<u32> {
        Ok(self.number(LAST_ROOT)?.unwrap_or(SCHEMA_ROOT))
    }

    /// One of SQLite's numbers.
    pub(crate) fn meta(&mut self, index: c_int) -> Result<u32> {
        if index == DATA_VERSION {
            if self.txn.is_none() {
                self.note_version();
            }
            return Ok(self.data_version.1);
        }
        let key = number_key(index)?;
        if let (Some(_), Some(number)) = (&self.txn, self.seen[usize::from(key)]) {
            return Ok(number);
        }
        match self.number(&[key]) {
            Ok(number) => {
                let number = number.unwrap_or(0);
                self.seen[usize::from(key)] = Some(number);
                Ok(number)
            }
            Err(failure) => {
                let reason = format!("a number of the schema could not be read: {}", failure.message);
                self.failed.get_or_insert(Failure::internal(reason));
                Err(failure)
            }
        }
    }

    pub(crate) fn set_meta(&mut self, index: c_int, number: u32) -> Result<()> {
        let key = number_key(index)?;
        let numbers = self.numbers.clone();
        self.check(&numbers, &[key])?;
        self.txn()?.insert(&numbers, [key], number.to_be_bytes())?;
        self.seen[usize::from(key)] = Some(number);
        Ok(())
    }

    fn number(&self, key: &[u8]) -> Result<Option<u32>> {
        let number = |value: Option<&[u8]>| {
            let value = value?;
            Some(value.try_into().map(u32::from_be_bytes).map_err(|_| {
                Failure::corrupt(format!("a number of the schema, {key:?}, has {} bytes", value.len()))
            }))
        };
        let number = match &self.txn {
            Some(txn) => txn.get_with(&self.numbers, key, number)?,
            None => self.numbers.get_with(key, number)?,
        };
        number.transpose()
    }

    /// What is another number for each state that the connection has come to: by what others have committed,
    /// once it has begun a transaction since, and by what it has committed itself.
    pub(crate) fn version(&self) -> u32 {
        self.data_version.1.wrapping_add(self.own_changes)
    }

    /// Makes the version another one if others have committed something since. Before a state is taken: what
    /// is in that and was not noted is noted with the next, while what came later and was noted would be
    /// taken for what was read.
    pub(super) fn note_version(&mut self) {
        self.note_change(self.env().content());
    }

    pub(super) fn note_change(&mut self, now: Content) {
        let (then, version) = &mut self.data_version;
        if *then != now {
            (*then, *version) = (now, version.wrapping_add(1));
        }
    }
}
