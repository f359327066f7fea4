//! Records by number.

use std::ops::{Bound, ControlFlow, RangeBounds};

use super::{Database, Env, Kind, Range, Read, Record, Write};
use crate::error::{Error, Result};
use crate::txn::Holds;
use crate::txn::queue::{key_of, number_of};

/// Records by number, from 1 on: what Berkeley DB calls DB_RECNO, without renumbering.
///
/// ```
/// use sablecat::Numbered;
///
/// # fn main() -> sablecat::Result<()> {
/// # let env = sablecat::Env::in_memory()?;
/// let lines = Numbered::open(&env, "lines")?;
/// env.write(|txn| {
///     assert_eq!(lines.append(txn, "one")?, 1);
///     assert_eq!(lines.append(txn, "two")?, 2);
///     lines.put(txn, 7, "seven") // 3 to 6 are a gap
/// })?;
/// assert_eq!(lines.get(&env, 2)?.as_deref(), Some(&b"two"[..]));
/// assert_eq!(lines.get(&env, 3)?, None);
/// assert_eq!(lines.last_number(&env)?, 7);
/// let numbers = lines.range(&env, 2..)?.rev().map(|record| record.map(|(number, _)| number));
/// assert_eq!(numbers.collect::<Result<Vec<_>, _>>()?, [7, 2]);
/// # Ok(())
/// # }
/// ```
///
/// A handle to a [`Database`], whose keys are the numbers: eight bytes, the most significant first. So a
/// record's number stays what it is: one that is removed leaves a gap, and what is put beyond the last leaves
/// one below it. The records have any length, or all one; the database remembers which.
///
/// Of two transactions that append at once, one conflicts and runs again, at any isolation; many that append
/// do better with a [`Queue`](super::Queue), which leaves gaps in place of conflicts. The lines of a file can
/// be such records: [`TextFile`](super::TextFile).
#[derive(Clone, Debug)]
pub struct Numbered<O: Kind = Env> {
    database: Database<O>,
    record_bytes: Option<usize>,
    pad: u8,
}

impl Numbered {
    /// The records of this name, of any length. The database is created if there is none.
    ///
    /// # Errors
    /// As [`Env::database`]; `Invalid` for a database that holds something else, or records of one length.
    pub fn open(env: &Env, name: &str) -> Result<Numbered> {
        Numbered::of(env.database_holding(name, Holds::Numbers { record_bytes: None, pad: 0 })?)
    }

    /// The records of this name, each of so many bytes; shorter ones are filled up with `pad`. The database
    /// is created if there is none.
    ///
    /// # Errors
    /// As [`Env::database`]; `Invalid` for records of no bytes, and for a database that holds something else,
    /// or other such records.
    pub fn open_fixed(env: &Env, name: &str, record_bytes: u32, pad: u8) -> Result<Numbered> {
        if record_bytes == 0 {
            return Err(no_bytes());
        }
        let holds = Holds::Numbers { record_bytes: Some(record_bytes), pad };
        Numbered::of(env.database_holding(name, holds)?)
    }
}

impl<O: Kind> Numbered<O> {
    /// The records in a database that was made for such, whatever their length.
    ///
    /// # Errors
    /// `Invalid` for a database that holds something else.
    pub fn of(database: Database<O>) -> Result<Numbered<O>> {
        match database.holds() {
            Holds::Numbers { record_bytes: Some(0), .. } => Err(no_bytes()),
            Holds::Numbers { record_bytes, pad } => {
                database.require_order_of_bytes("numbered records")?;
                Ok(Numbered { database, record_bytes: record_bytes.map(|bytes| bytes as usize), pad })
            }
            holds => Err(Error::invalid(format!(
                "the database {:?} holds {holds}, and was asked for as one of numbered records",
                database.name()
            ))),
        }
    }

    /// The database that the records are in.
    pub fn database(&self) -> &Database<O> {
        &self.database
    }

    /// Bytes of each record; none: they have any length.
    pub fn record_bytes(&self) -> Option<usize> {
        self.record_bytes
    }

    /// What shorter records are filled up with, where all have one length.
    pub fn pad(&self) -> u8 {
        self.pad
    }

    /// The record with a number.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn get(&self, from: &impl Read<Of = O>, number: u64) -> Result<Option<Vec<u8>>> {
        from.get(&self.database, key_of(number))
    }

    /// Sets the record with a number, whether or not there was one.
    ///
    /// # Errors
    /// `Invalid` for the number 0, and for a record longer than all are; as [`Write::insert`].
    pub fn put(&self, to: &mut impl Write<Of = O>, number: u64, record: impl AsRef<[u8]>) -> Result<()> {
        if number == 0 {
            return Err(Error::invalid(format!(
                "record 0 of the database {:?}: numbers begin with 1",
                self.database.name()
            )));
        }
        self.whole(record.as_ref(), |record| to.insert(&self.database, key_of(number), record))
    }

    /// Sets the record after the last; its number.
    ///
    /// # Errors
    /// `Invalid` for a record longer than all are; `Exhausted` if the last number is the greatest there is;
    /// as [`Write::insert`].
    pub fn append(&self, to: &mut impl Write<Of = O>, record: impl AsRef<[u8]>) -> Result<u64> {
        let number = self.last_number(to)?.checked_add(1).ok_or_else(|| {
            Error::exhausted(format!("all numbers of the database {:?} are used", self.database.name()))
        })?;
        self.whole(record.as_ref(), |record| to.insert_found_absent(&self.database, key_of(number), record))?;
        Ok(number)
    }

    /// Removes the record with a number, which leaves a gap; false if there is none.
    ///
    /// # Errors
    /// As [`Write::remove`].
    pub fn remove(&self, to: &mut impl Write<Of = O>, number: u64) -> Result<bool> {
        to.remove(&self.database, key_of(number))
    }

    /// The greatest number that has a record; 0 if there are no records.
    ///
    /// # Errors
    /// As [`Read::get`]; `Invalid` if something else was written to the database.
    pub fn last_number(&self, from: &impl Read<Of = O>) -> Result<u64> {
        let mut cursor = self.database.cursor();
        cursor.last(from)?.map_or(Ok(0), number_of)
    }

    /// How many records there are, gaps left out. Counts them.
    ///
    /// # Errors
    /// As [`Read::fold`].
    pub fn len(&self, from: &impl Read<Of = O>) -> Result<u64> {
        from.fold(&self.database, .., 0, |count, _, _| ControlFlow::Continue(count + 1))
    }

    /// Whether there are no records.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn is_empty(&self, from: &impl Read<Of = O>) -> Result<bool> {
        Ok(self.last_number(from)? == 0)
    }

    /// All records, in order and from either end.
    ///
    /// # Errors
    /// As [`Numbered::range`].
    pub fn iter<'s, S: Read<Of = O>>(&self, from: &'s S) -> Result<InOrderOfNumbers<S::Lasting<'s>>> {
        self.range(from, ..)
    }

    /// The records with some numbers, in order and from either end. Gaps are passed over.
    ///
    /// # Errors
    /// As [`Read::range`]. Each record comes as a result, with the errors of [`Read::get`], and `Invalid` if
    /// something else was written to the database.
    pub fn range<'s, S: Read<Of = O>>(
        &self,
        from: &'s S,
        numbers: impl RangeBounds<u64>,
    ) -> Result<InOrderOfNumbers<S::Lasting<'s>>> {
        let key = |bound: Bound<&u64>| bound.map(|&number| key_of(number));
        let bounds = (key(numbers.start_bound()), key(numbers.end_bound()));
        Ok(InOrderOfNumbers { range: from.range(&self.database, bounds)? })
    }

    /// A record as it is stored.
    fn whole<T>(&self, record: &[u8], set: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        match self.record_bytes {
            Some(bytes) if record.len() > bytes => Err(Error::invalid(format!(
                "a record of {} bytes for the database {:?}, which has records of {bytes}",
                record.len(),
                self.database.name()
            ))),
            Some(bytes) if record.len() < bytes => {
                let mut whole = vec![self.pad; bytes];
                whole[..record.len()].copy_from_slice(record);
                set(&whole)
            }
            _ => set(record),
        }
    }
}

#[cold]
fn no_bytes() -> Error {
    Error::invalid("numbered records of no bytes each; they have at least one, or any length")
}

/// Records with their numbers: see [`Numbered::range`].
#[derive(Debug)]
pub struct InOrderOfNumbers<S: Read> {
    range: Range<S>,
}

fn numbered(record: Result<Record>) -> Result<(u64, Vec<u8>)> {
    let (key, record) = record?;
    Ok((number_of(&key)?, record))
}

impl<S: Read> Iterator for InOrderOfNumbers<S> {
    type Item = Result<(u64, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.range.next().map(numbered)
    }
}

impl<S: Read> DoubleEndedIterator for InOrderOfNumbers<S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.range.next_back().map(numbered)
    }
}
