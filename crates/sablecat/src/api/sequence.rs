//! Sequences: numbers that no two callers get, whatever becomes of them.
//!
//! ```text
//! value of the record: version 1 u8 | flags u8: 1 descending, 2 wraps, 4 exhausted
//!                      | least i64 | greatest i64 | next i64, little-endian
//! ```
//!
//! A sequence is a record, which says the next number that nobody has been given. A process that needs
//! numbers takes several in a small transaction of its own, and hands them out without looking at the record
//! again. What is not handed out when the process ends is lost: numbers may be missing, and none comes twice.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};

use super::{Database, Txn, Write};
use crate::error::{Error, ErrorKind, Result};
use crate::txn::Durability;

const VERSION: u8 = 1;
const DESCENDING: u8 = 1;
const WRAPS: u8 = 2;
const EXHAUSTED: u8 = 4;
const BYTES: usize = 26;

/// The options of a sequence.
#[derive(Clone, Debug)]
#[must_use]
pub struct SequenceOptions {
    start: Option<i64>,
    bounds: RangeInclusive<i64>,
    descending: bool,
    wraps: bool,
    cache: u64,
    durability: Durability,
}

impl Default for SequenceOptions {
    fn default() -> Self {
        SequenceOptions {
            start: None,
            bounds: 1..=i64::MAX,
            descending: false,
            wraps: false,
            cache: 100,
            durability: Durability::Sync,
        }
    }
}

impl SequenceOptions {
    /// From 1 upwards, a hundred at a time.
    pub fn new() -> Self {
        Self::default()
    }

    /// The first number of a new sequence. Default: the least one, or the greatest one of a descending
    /// sequence.
    pub fn start(mut self, start: i64) -> Self {
        self.start = Some(start);
        self
    }

    /// The numbers that a new sequence may give. Default: 1 to [`i64::MAX`].
    pub fn bounds(mut self, bounds: RangeInclusive<i64>) -> Self {
        self.bounds = bounds;
        self
    }

    /// Whether a new sequence goes downwards. Default: no.
    pub fn descending(mut self, descending: bool) -> Self {
        self.descending = descending;
        self
    }

    /// Whether a new sequence begins again at the other end after its last number. Default: no; then it ends
    /// there.
    pub fn wraps(mut self, wraps: bool) -> Self {
        self.wraps = wraps;
        self
    }

    /// How many numbers this handle takes at a time. More are faster, and more are lost when the process
    /// ends. Default: 100; 0 is 1.
    pub fn cache(mut self, numbers: u64) -> Self {
        self.cache = numbers.max(1);
        self
    }

    /// How durably numbers are reserved before the first of them is returned. Default: [`Durability::Sync`].
    /// With less, numbers may be returned twice after a crash of the machine; with [`Durability::Memory`],
    /// after any crash of all processes.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }
}

/// What a sequence's record says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Course {
    descending: bool,
    wraps: bool,
    least: i64,
    greatest: i64,
    /// The next number that nobody was given; none: there is none left.
    next: Option<i64>,
}

impl Course {
    fn new(options: &SequenceOptions) -> Result<Course> {
        let (&least, &greatest) = (options.bounds.start(), options.bounds.end());
        if least > greatest {
            return Err(Error::invalid(format!(
                "a sequence from {least} to {greatest}: there are no numbers in that range"
            )));
        }
        let start = options.start.unwrap_or(if options.descending { greatest } else { least });
        if !options.bounds.contains(&start) {
            return Err(Error::invalid(format!(
                "a sequence that starts with {start}, which is not in the range from {least} to {greatest}"
            )));
        }
        Ok(Course {
            descending: options.descending,
            wraps: options.wraps,
            least,
            greatest,
            next: Some(start),
        })
    }

    fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[0] = VERSION;
        let flags = [(self.descending, DESCENDING), (self.wraps, WRAPS), (self.next.is_none(), EXHAUSTED)];
        bytes[1] = flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |flags, (_, flag)| flags | flag);
        for (n, number) in [self.least, self.greatest, self.next.unwrap_or_default()].into_iter().enumerate()
        {
            bytes[2 + 8 * n..][..8].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Course> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let number = |n: usize| bytes[2 + 8 * n..].first_chunk().map(|bytes| i64::from_le_bytes(*bytes));
        let (flags, least, greatest, next) = (bytes[1], number(0)?, number(1)?, number(2)?);
        let course = Course {
            descending: flags & DESCENDING != 0,
            wraps: flags & WRAPS != 0,
            least,
            greatest,
            next: (flags & EXHAUSTED == 0).then_some(next),
        };
        let is_one = bytes[0] == VERSION
            && flags < 8
            && least <= greatest
            && course.next.is_none_or(|next| (least..=greatest).contains(&next));
        is_one.then_some(course)
    }

    /// Takes some numbers in a row, as many as there are up to `most`; none if there are none left.
    fn take(&mut self, most: u64) -> Option<NumberBlock> {
        let first = self.next?;
        let left = if self.descending { first.abs_diff(self.least) } else { self.greatest.abs_diff(first) };
        // So many after the first one.
        let more = left.min(most - 1);
        let last = if self.descending {
            first.checked_sub_unsigned(more)?
        } else {
            first.checked_add_unsigned(more)?
        };
        self.next = if more < left {
            Some(if self.descending { last - 1 } else { last + 1 })
        } else if self.wraps {
            Some(if self.descending { self.greatest } else { self.least })
        } else {
            None
        };
        Some(NumberBlock { next: first, last })
    }
}

/// Numbers in a row, upwards or downwards, that were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NumberBlock {
    next: i64,
    last: i64,
}

/// A sequence of unique numbers: no number is returned twice, in any thread or process. See
/// [`Database::sequence`]. Any number of threads may use one handle.
pub struct Sequence {
    database: Database,
    key: Vec<u8>,
    cache: u64,
    durability: Durability,
    /// What was taken and not handed out.
    taken: Mutex<Option<NumberBlock>>,
}

impl fmt::Debug for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequence")
            .field("database", &self.database.name())
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl Database {
    /// Opens the sequence that is kept in a record of the database, creating it if there is no such record.
    /// For an existing one the options for new sequences have no effect.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// use sablecat::SequenceOptions;
    ///
    /// let (meta, orders) = (env.database("meta")?, env.database("orders")?);
    /// let numbers = meta.sequence("orders", SequenceOptions::new().bounds(1000..=9999))?;
    /// assert_eq!(numbers.next()?, 1000);
    /// env.write(|txn| {
    ///     let number = numbers.next()?;
    ///     txn.insert(&orders, number.to_be_bytes(), "two chairs")
    /// })?;
    /// assert_eq!(numbers.next()?, 1002);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` for options that make no sequence, or if the record is something else; as
    /// [`Database::insert`].
    pub fn sequence(&self, key: impl AsRef<[u8]>, options: SequenceOptions) -> Result<Sequence> {
        let new = Course::new(&options)?;
        let (cache, durability) = (options.cache, options.durability);
        let sequence = Sequence {
            database: self.clone(),
            key: key.as_ref().to_vec(),
            cache,
            durability,
            taken: Mutex::default(),
        };
        sequence.change(|course| {
            course.get_or_insert(new.clone());
        })?;
        Ok(sequence)
    }
}

impl Sequence {
    /// The next number. Most calls return a number that this handle has reserved. Now and then a call
    /// reserves more, in a transaction of its own: the call waits for it and, unless a lower durability was
    /// asked for, for its flush. It may be called within [`Env::write`](crate::Env::write); the number is
    /// then used up whatever becomes of that transaction.
    ///
    /// # Errors
    /// `Exhausted` if there are none left; `NotFound` if the record was removed, `Invalid` if it is something
    /// else by now; as [`Database::insert`].
    pub fn next(&self) -> Result<i64> {
        // A child made by fork has a copy of what its parent hands out.
        self.database.of.core().kernel.pages.check_fence()?;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let block = match *taken {
            Some(block) => block,
            None => self.take(self.cache)?,
        };
        let step = if block.last < block.next { -1 } else { 1 };
        *taken =
            (block.next != block.last).then(|| NumberBlock { next: block.next + step, last: block.last });
        Ok(block.next)
    }

    /// Consecutive numbers: `count` of them or, before the end of the sequence, fewer; [`Sequence::next`]
    /// goes on after them. Returns the first and the last one: for a descending sequence the greatest and the
    /// least.
    ///
    /// # Errors
    /// As [`Sequence::next`]; `Invalid` for none.
    pub fn next_block(&self, count: u64) -> Result<(i64, i64)> {
        if count == 0 {
            return Err(Error::invalid("a block of 0 numbers of a sequence; ask for at least 1"));
        }
        self.take(count).map(|block| (block.next, block.last))
    }

    /// The next number as part of a transaction: if the transaction is rolled back, another one gets the
    /// number, and none is missing. Transactions that take a number from the same sequence wait for each
    /// other, and conflict, at any isolation, with handles that reserve numbers meanwhile; so use this where
    /// they are few. It skips the numbers that handles have reserved.
    ///
    /// # Errors
    /// As [`Sequence::next`], and [`Txn::get`].
    pub fn next_in(&self, txn: &mut Txn<'_>) -> Result<i64> {
        let found = txn.get_for_update(&self.database, &self.key)?.ok_or_else(|| self.gone())?;
        let mut course = self.course_there(Some(&found))?;
        let block = course.take(1).ok_or_else(|| self.exhausted(&course))?;
        // Handles that reserve numbers meanwhile ask for no lock.
        txn.insert_found(&self.database, &self.key, &found, course.encode())?;
        Ok(block.next)
    }

    /// The range of the numbers that it may return.
    ///
    /// # Errors
    /// `NotFound` if the record was removed, `Invalid` if it is something else; as [`Database::get`].
    pub fn bounds(&self) -> Result<RangeInclusive<i64>> {
        let record = self.database.get(&self.key)?;
        let course = self.course_there(record.as_deref())?;
        Ok(course.least..=course.greatest)
    }

    fn take(&self, most: u64) -> Result<NumberBlock> {
        self.change(|course| match course {
            None => Err(self.gone()),
            Some(course) => course.take(most).ok_or_else(|| self.exhausted(course)),
        })?
    }

    /// Changes the record, if there is one, in a transaction of its own.
    fn change<T>(&self, mut change: impl FnMut(&mut Option<Course>) -> T) -> Result<T> {
        let core = self.database.env().core().to_write()?;
        core.write_beside(self.durability, |txn| {
            let tree = &*txn.tree_to_write(self.database.named_in(core)?)?;
            let record = txn.records.get_owned(tree, &self.key)?;
            let before = self.course_of(record.as_deref())?;
            let mut course = before.clone();
            let made = change(&mut course);
            if course != before
                && let Some(course) = course
            {
                core.kernel.check_record(tree, &self.key, BYTES)?;
                txn.records.set(tree, &self.key, Some(&course.encode()))?;
            }
            Ok(made)
        })
    }

    fn course_there(&self, record: Option<&[u8]>) -> Result<Course> {
        self.course_of(record)?.ok_or_else(|| self.gone())
    }

    fn course_of(&self, record: Option<&[u8]>) -> Result<Option<Course>> {
        let wrong = || {
            Error::invalid(format!(
                "the record {:?} of the database {:?} is not a sequence",
                self.shown_key(),
                self.database.name()
            ))
        };
        record.map(|record| Course::decode(record).ok_or_else(wrong)).transpose()
    }

    fn shown_key(&self) -> String {
        String::from_utf8_lossy(&self.key).into_owned()
    }

    #[cold]
    fn gone(&self) -> Error {
        Error::new(
            ErrorKind::NotFound,
            format!(
                "the sequence {:?} of the database {:?} was removed",
                self.shown_key(),
                self.database.name()
            ),
        )
    }

    #[cold]
    fn exhausted(&self, course: &Course) -> Error {
        let Course { least, greatest, .. } = course;
        let (key, database) = (self.shown_key(), self.database.name());
        Error::exhausted(format!(
            "all numbers of the sequence {key:?} of the database {database:?}, {least} to {greatest}, have \
             been given out"
        ))
    }
}
