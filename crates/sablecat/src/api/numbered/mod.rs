//! Records by number.

mod cursor;

pub use cursor::NumberedCursor;

use std::ops::{Bound, RangeBounds};

use super::{Database, Env, Kind, Range, Read, Record, Write, label};
use crate::error::{Error, Result};
use crate::txn::Holds;
use crate::txn::queue::{key_of, number_of};

/// Records by number, from 1 on: what Berkeley DB calls DB_RECNO, with or without renumbering.
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
/// A handle to a [`Database`] whose keys are the numbers: eight bytes, the most significant first. A record
/// keeps its number: a removed record leaves a gap, and so does a record that is put beyond the next number.
/// The records have any length, or all the same length; the database remembers which.
///
/// If two transactions append at the same time, one of them conflicts and runs again, at any isolation. If
/// many transactions append, use a [`Queue`](super::Queue), which has gaps instead of conflicts. The lines of
/// a file can be such records: [`TextFile`](super::TextFile).
///
/// # Renumbered
///
/// Records that were opened as *renumbered* have no gaps: when a record is inserted or removed, the numbers
/// of all records behind it go up or down by one, without any change to these records.
///
/// ```
/// # use sablecat::Numbered;
/// # fn main() -> sablecat::Result<()> {
/// # let env = sablecat::Env::in_memory()?;
/// let lines = Numbered::open_renumbered(&env, "poem")?;
/// env.write(|txn| {
///     lines.append(txn, "one")?;
///     lines.append(txn, "three")?;
///     lines.insert(txn, 2, "two")?;
///     assert_eq!(lines.get(txn, 3)?.as_deref(), Some(&b"three"[..]));
///     lines.remove(txn, 1)?;
///     assert_eq!(lines.get(txn, 2)?.as_deref(), Some(&b"three"[..]));
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
///
/// They are kept in a counted B+tree ([`Method::Counted`](crate::Method::Counted)), under keys between which
/// there is always room for more, and the number of a record is its position. So each operation costs one of
/// a B+tree, and a look at everything that the transaction itself has changed; to add many records in one
/// transaction, use an [`Appender`]. A number is valid in one state: when a transaction commits, other
/// transactions may have changed it. A serialisable transaction that has used the number then conflicts.
#[derive(Debug)]
pub struct Numbered<O: Kind = Env> {
    database: Database<O>,
    record_bytes: Option<usize>,
    pad: u8,
    renumbers: bool,
}

impl<O: Kind> Clone for Numbered<O> {
    fn clone(&self) -> Self {
        Numbered { database: self.database.clone(), ..*self }
    }
}

impl Numbered {
    /// The records of this name, of any length. The database is created if there is none.
    ///
    /// # Errors
    /// As [`Env::database`]; `Invalid` for a database that holds something else, or records of one length.
    pub fn open(env: &Env, name: &str) -> Result<Numbered> {
        Numbered::of(env.database_holding(name, Holds::Numbers { record_bytes: None, pad: 0 })?)
    }

    /// The records of this name, each of `record_bytes` bytes; shorter ones are filled up with `pad`. The
    /// database is created if there is none.
    ///
    /// # Errors
    /// As [`Env::database`]; `Invalid` for records of no bytes, and for a database that holds something else,
    /// or other such records.
    pub fn open_fixed(env: &Env, name: &str, record_bytes: u32, pad: u8) -> Result<Numbered> {
        let holds = Holds::Numbers { record_bytes: Some(record_bytes), pad };
        Numbered::of(env.database_holding(name, holds)?)
    }

    /// The renumbered records of this name, of any length. The database is created if there is none.
    ///
    /// # Errors
    /// As [`Numbered::open`]; `Invalid` for records that keep their numbers.
    pub fn open_renumbered(env: &Env, name: &str) -> Result<Numbered> {
        Numbered::of(env.database_holding(name, Holds::Renumbered { record_bytes: None, pad: 0 })?)
    }

    /// The renumbered records of this name, each of `record_bytes` bytes, as [`Numbered::open_fixed`].
    ///
    /// # Errors
    /// As [`Numbered::open_fixed`] and [`Numbered::open_renumbered`].
    pub fn open_renumbered_fixed(env: &Env, name: &str, record_bytes: u32, pad: u8) -> Result<Numbered> {
        let holds = Holds::Renumbered { record_bytes: Some(record_bytes), pad };
        Numbered::of(env.database_holding(name, holds)?)
    }
}

impl<O: Kind> Numbered<O> {
    /// The records in a database that was made for such, whatever their length.
    ///
    /// # Errors
    /// `Invalid` for a database that holds something else.
    pub fn of(database: Database<O>) -> Result<Numbered<O>> {
        let holds = database.holds();
        holds.check()?;
        match holds {
            Holds::Numbers { record_bytes, pad } | Holds::Renumbered { record_bytes, pad } => {
                database.require_order_of_bytes("numbered records")?;
                let renumbers = matches!(holds, Holds::Renumbered { .. });
                if renumbers {
                    database.require_counts("renumbered records")?;
                }
                let record_bytes = record_bytes.map(|bytes| bytes as usize);
                Ok(Numbered { database, record_bytes, pad, renumbers })
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

    /// The byte that shorter records are filled up with, if all have one length.
    pub fn pad(&self) -> u8 {
        self.pad
    }

    /// Whether the records are renumbered.
    pub fn renumbers(&self) -> bool {
        self.renumbers
    }

    /// The record with a number.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn get(&self, from: &impl Read<Of = O>, number: u64) -> Result<Option<Vec<u8>>> {
        if self.renumbers {
            return Ok(self.nth(from, number)?.map(|(_, record)| record));
        }
        from.get(&self.database, key_of(number))
    }

    /// A renumbered record, with its key.
    fn nth(&self, from: &impl Read<Of = O>, number: u64) -> Result<Option<Record>> {
        number.checked_sub(1).map_or(Ok(None), |before| from.nth(&self.database, before))
    }

    /// Sets the record with a number, whether or not there was one. If records are renumbered, the number
    /// must be that of an existing record, or the next one.
    ///
    /// # Errors
    /// `Invalid` for the number 0, for a number that would leave a gap where there are none, and for a record
    /// longer than all are; as [`Write::insert`].
    pub fn put(&self, to: &mut impl Write<Of = O>, number: u64, record: impl AsRef<[u8]>) -> Result<()> {
        if number == 0 {
            return Err(Error::invalid(format!(
                "record 0 of the database {:?}: numbers begin with 1",
                self.database.name()
            )));
        }
        if !self.renumbers {
            return self.whole(record.as_ref(), |record| to.insert(&self.database, key_of(number), record));
        }
        match self.nth(to, number)? {
            Some((key, _)) => self.whole(record.as_ref(), |record| to.insert(&self.database, key, record)),
            None => self.insert(to, number, record),
        }
    }

    /// Inserts a record before the one that has this number; that one and all behind it get the next higher
    /// numbers. If the number is the next one, inserts after the last record. For renumbered records.
    ///
    /// If two transactions insert at one position at the same time, one of them conflicts and runs again, at
    /// any isolation. In a read committed transaction, the position is right behind the record that had the
    /// number before it when it was looked up.
    ///
    /// # Errors
    /// `Invalid` if the records are not renumbered, for the number 0, for one behind the next, for a record
    /// longer than all are, and if something else was written to the database; as [`Write::insert`].
    pub fn insert(&self, to: &mut impl Write<Of = O>, number: u64, record: impl AsRef<[u8]>) -> Result<()> {
        let name = self.database.name();
        if !self.renumbers {
            return Err(Error::invalid(format!(
                "inserting before record {number} of the database {name:?}, whose records keep their numbers"
            )));
        }
        let before = match number {
            0 => None,
            1 => Some(None),
            _ => self.nth(to, number - 1)?.map(|(key, _)| Some(key)),
        };
        let Some(before) = before else {
            return Err(Error::invalid(format!(
                "record {number} of the database {name:?}, which has records 1 to {}: they have no gaps",
                self.last_number(to)?
            )));
        };
        // Found from there on, and not by its number: read committed, that may be another's by now.
        let inserted = self.insert_behind(to, before.as_deref(), record.as_ref())?;
        inserted.map(drop).ok_or_else(|| self.no_place(number))
    }

    /// Inserts a record behind the one with a key, or before all, and returns its own key; none if there is
    /// no place for it.
    fn insert_behind(
        &self,
        to: &mut (impl Write<Of = O> + ?Sized),
        before: Option<&[u8]>,
        record: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let from = before.map_or_else(Vec::new, |before| [before, &[0]].concat());
        let mut cursor = self.database.cursor();
        let after = cursor.at_or_after(to, from)?;
        let Some(key) = label::between(before, after) else { return Ok(None) };
        self.whole(record, |record| to.insert_found_absent(&self.database, &key, record))?;
        Ok(Some(key))
    }

    #[cold]
    fn no_place(&self, number: u64) -> Error {
        Error::invalid(format!(
            "record {number} of the database {:?}: there is no place for it, since something other than \
             numbered records was written to the database",
            self.database.name()
        ))
    }

    /// Sets the record after the last, and returns its number.
    ///
    /// # Errors
    /// `Invalid` for a record longer than all are; `Exhausted` if the last number is the greatest there is;
    /// as [`Write::insert`].
    pub fn append(&self, to: &mut impl Write<Of = O>, record: impl AsRef<[u8]>) -> Result<u64> {
        self.appender(to)?.append(to, record)
    }

    /// An appender, for many records one after the other: it looks up the last record once.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn appender(&self, from: &impl Read<Of = O>) -> Result<Appender<O>> {
        let label =
            if self.renumbers { self.database.cursor().last(from)?.map(<[u8]>::to_vec) } else { None };
        Ok(Appender { numbered: self.clone(), last_number: self.last_number(from)?, label })
    }

    /// Removes the record with a number, which leaves a gap, or, where records are renumbered, gives its
    /// number to the next; false if there is none.
    ///
    /// # Errors
    /// As [`Write::remove`].
    pub fn remove(&self, to: &mut impl Write<Of = O>, number: u64) -> Result<bool> {
        if self.renumbers {
            return match self.nth(to, number)? {
                Some((key, _)) => to.remove(&self.database, key),
                None => Ok(false),
            };
        }
        to.remove(&self.database, key_of(number))
    }

    /// The greatest number that has a record; 0 if there are no records.
    ///
    /// # Errors
    /// As [`Read::get`]; `Invalid` if something else was written to the database.
    pub fn last_number(&self, from: &impl Read<Of = O>) -> Result<u64> {
        if self.renumbers {
            return from.len(&self.database);
        }
        let mut cursor = self.database.cursor();
        cursor.last(from)?.map_or(Ok(0), number_of)
    }

    /// How many records there are, gaps left out. Counts them, unless they are renumbered.
    ///
    /// # Errors
    /// As [`Read::fold`].
    pub fn len(&self, from: &impl Read<Of = O>) -> Result<u64> {
        from.len(&self.database)
    }

    /// Whether there are no records.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn is_empty(&self, from: &impl Read<Of = O>) -> Result<bool> {
        from.is_empty(&self.database)
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
        if self.renumbers {
            return self.range_of_places(from.lasting()?, numbers);
        }
        let key = |bound: Bound<&u64>| bound.map(|&number| key_of(number));
        let bounds = (key(numbers.start_bound()), key(numbers.end_bound()));
        Ok(InOrderOfNumbers { range: from.range(&self.database, bounds)?, places: None })
    }

    /// As [`Numbered::range`], of renumbered records.
    fn range_of_places<S: Read<Of = O>>(
        &self,
        state: S,
        numbers: impl RangeBounds<u64>,
    ) -> Result<InOrderOfNumbers<S>> {
        let first = match numbers.start_bound() {
            Bound::Unbounded => 1,
            Bound::Included(&number) => number.max(1),
            Bound::Excluded(&number) => number.saturating_add(1),
        };
        let last = self.last_number(&state)?.min(match numbers.end_bound() {
            Bound::Unbounded => u64::MAX,
            Bound::Included(&number) => number,
            Bound::Excluded(&number) => number.saturating_sub(1),
        });
        let ends = if first <= last { self.nth(&state, first)?.zip(self.nth(&state, last)?) } else { None };
        let bounds = match ends {
            Some(((from, _), (to, _))) => (Bound::Included(from), Bound::Included(to)),
            // There is no key that is empty.
            None => (Bound::Included(Vec::new()), Bound::Excluded(Vec::new())),
        };
        let range = Range::new(state, self.database.clone(), bounds);
        Ok(InOrderOfNumbers { range, places: Some((first, last)) })
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

/// Appends records, one after the other: see [`Numbered::appender`].
///
/// It does not see what is appended without it meanwhile. If another transaction appends, this one conflicts
/// when it commits, like all that append at the same time; if the same transaction appends without it, the
/// appender overwrites that record.
#[derive(Debug)]
pub struct Appender<O: Kind = Env> {
    numbered: Numbered<O>,
    last_number: u64,
    /// The key of the last record, if these are renumbered and there is one.
    label: Option<Vec<u8>>,
}

impl<O: Kind> Appender<O> {
    /// Sets the record after the last, and returns its number.
    ///
    /// # Errors
    /// As [`Numbered::append`].
    pub fn append(&mut self, to: &mut impl Write<Of = O>, record: impl AsRef<[u8]>) -> Result<u64> {
        let Numbered { database, renumbers, .. } = &self.numbered;
        let number = self.last_number.checked_add(1).ok_or_else(|| {
            Error::exhausted(format!("all numbers of the database {:?} are used", database.name()))
        })?;
        let label = renumbers.then(|| {
            label::between(self.label.as_deref(), None).ok_or_else(|| self.numbered.no_place(number))
        });
        let label = label.transpose()?;
        self.numbered.whole(record.as_ref(), |record| match &label {
            Some(label) => to.insert_found_absent(database, label, record),
            None => to.insert_found_absent(database, key_of(number), record),
        })?;
        (self.last_number, self.label) = (number, label);
        Ok(number)
    }

    /// The number of the last record; 0 if there are none.
    pub fn last_number(&self) -> u64 {
        self.last_number
    }
}

/// Records with their numbers: see [`Numbered::range`].
#[derive(Debug)]
pub struct InOrderOfNumbers<S: Read> {
    range: Range<S>,
    /// The numbers of what comes next from either end, if these are places.
    places: Option<(u64, u64)>,
}

impl<S: Read> InOrderOfNumbers<S> {
    fn numbered(&mut self, record: Result<Record>, forward: bool) -> Result<(u64, Vec<u8>)> {
        let (key, record) = record?;
        let number = match &mut self.places {
            None => number_of(&key)?,
            Some((next, _)) if forward => {
                *next = next.saturating_add(1);
                *next - 1
            }
            Some((_, next)) => {
                *next = next.saturating_sub(1);
                next.saturating_add(1)
            }
        };
        Ok((number, record))
    }
}

impl<S: Read> Iterator for InOrderOfNumbers<S> {
    type Item = Result<(u64, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.range.next()?;
        Some(self.numbered(record, true))
    }
}

impl<S: Read> DoubleEndedIterator for InOrderOfNumbers<S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let record = self.range.next_back()?;
        Some(self.numbered(record, false))
    }
}
