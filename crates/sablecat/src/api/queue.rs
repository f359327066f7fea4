//! Queues.

use std::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Database, Env, Range, Read, Record, Txn, TxnOptions};
use crate::env::Core;
use crate::error::{Error, Result};
use crate::txn::queue::{key_of, number_of};
use crate::txn::{Holds, Isolation, TreeRef};

/// A queue of records of one length: what Berkeley DB calls DB_QUEUE.
///
/// Any number of threads and processes append records and consume them, in transactions, without waiting for
/// each other and without conflicts: a consumer skips the records that other transactions have in hand (have
/// locked, as appended or consumed by them). A consumed record is in the queue again if the transaction is
/// undone, or its process is killed.
///
/// ```
/// use sablecat::Queue;
///
/// # fn main() -> sablecat::Result<()> {
/// # let env = sablecat::Env::in_memory()?;
/// let jobs = Queue::open(&env, "jobs", 16)?;
/// let done = env.database("done")?;
/// jobs.append_one("wash")?;
/// jobs.append_one("dry")?;
///
/// env.write(|txn| {
///     let Some((number, job)) = jobs.consume(txn)? else { return Ok(()) };
///     assert_eq!((number, &job), (1, &b"wash\0\0\0\0\0\0\0\0\0\0\0\0".to_vec()));
///     txn.insert(&done, job, "done") // both or neither
/// })?;
/// assert_eq!(jobs.consume_one()?.map(|(number, _)| number), Some(2));
/// assert_eq!(jobs.consume_one()?, None);
/// # Ok(())
/// # }
/// ```
///
/// Records have numbers from 1 on, which rise and are never used twice. Numbers that are not used, because a
/// transaction was undone or several append at the same time, are gaps. What one thread appends, in one
/// transaction or in several one after the other, is in that order, and is consumed in that order, except for
/// records that other transactions have in hand. When several append at the same time, the record that is
/// committed last is not always the last one.
///
/// A queue is kept in an ordinary database, which takes as many pages as the records in the queue need. The
/// database remembers how long the records are. It can be read like any other database, with
/// [`existing_database`](Read::existing_database): keys are the numbers, eight bytes with the most
/// significant first; an empty value marks the place of the last record, if that has been consumed. A program
/// is not kept from writing to it in that way; a record that does not belong in a queue is an error when it
/// is read.
///
/// A transaction locks the records that it has in hand: it may append some hundred thousand records, and
/// consume some thousand, before it blocks other transactions from more than these records.
#[derive(Clone, Debug)]
pub struct Queue {
    database: Database,
    record_bytes: usize,
    pad: u8,
    /// The last number that was taken through this handle: where to look for the next.
    last: Arc<AtomicU64>,
}

impl Queue {
    /// The queue of this name, with records of `record_bytes` bytes; it is created if there is none. Shorter
    /// records are filled up with zeros.
    ///
    /// # Errors
    /// As [`Env::database`]; `Invalid` for records of no bytes, and for a database that holds something else,
    /// or a queue of other records.
    pub fn open(env: &Env, name: &str, record_bytes: u32) -> Result<Queue> {
        Queue::open_padded(env, name, record_bytes, 0)
    }

    /// As [`Queue::open`]; shorter records are filled up with `pad`.
    ///
    /// # Errors
    /// As [`Queue::open`].
    pub fn open_padded(env: &Env, name: &str, record_bytes: u32, pad: u8) -> Result<Queue> {
        Queue::of(env.database_holding(name, Holds::Queue { record_bytes, pad })?)
    }

    /// The queue in a database that was made for one, whatever its records.
    ///
    /// # Errors
    /// `Invalid` for a database that holds something else.
    pub fn of(database: Database) -> Result<Queue> {
        match database.holds() {
            Holds::Queue { record_bytes, pad } => {
                database.require_order_of_bytes("a queue")?;
                database.holds().check()?;
                Ok(Queue { database, record_bytes: record_bytes as usize, pad, last: Arc::default() })
            }
            holds => Err(Error::invalid(format!(
                "the database {:?} holds {holds}, and was asked for as a queue",
                database.name()
            ))),
        }
    }

    /// The database that the records are in.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Bytes of a record.
    pub fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// The byte that shorter records are filled up with.
    pub fn pad(&self) -> u8 {
        self.pad
    }

    /// Appends a record, as part of a transaction, and returns its number. Never waits.
    ///
    /// # Errors
    /// `Invalid` for a record that is too long; as [`Txn::insert`].
    pub fn append(&self, txn: &mut Txn<'_>, record: impl AsRef<[u8]>) -> Result<u64> {
        // Relaxed: a hint, which is checked.
        let last = self.last.load(Ordering::Relaxed);
        let number = self.whole(record.as_ref(), |record| txn.append(&self.database, record, last))?;
        self.last.store(number, Ordering::Relaxed);
        Ok(number)
    }

    /// A record as it is stored.
    fn whole<T>(&self, record: &[u8], set: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        if record.len() == self.record_bytes {
            return set(record);
        }
        if record.len() > self.record_bytes {
            return Err(Error::invalid(format!(
                "a record of {} bytes for the queue {:?}, which has records of {}",
                record.len(),
                self.database.name(),
                self.record_bytes
            )));
        }
        let mut whole = vec![self.pad; self.record_bytes];
        whole[..record.len()].copy_from_slice(record);
        set(&whole)
    }

    /// Sets the record with a number, for example to fill a queue with the records of another one. Only for a
    /// program that has the queue to itself. What is appended afterwards comes after the greatest number.
    ///
    /// # Errors
    /// As [`Queue::append`]; `Invalid` for the number 0.
    pub fn restore(&self, txn: &mut Txn<'_>, number: u64, record: impl AsRef<[u8]>) -> Result<()> {
        let key = key_of(number);
        number_of(&key)?;
        self.whole(record.as_ref(), |record| txn.insert(&self.database, key, record))
    }

    /// Appends a record in a transaction of its own, and returns its number.
    ///
    /// # Errors
    /// As [`Queue::append`] and [`Env::write`].
    pub fn append_one(&self, record: impl AsRef<[u8]>) -> Result<u64> {
        let record = record.as_ref();
        match self.whole(record, |record| self.append_by_itself(record))? {
            Some(number) => Ok(number),
            None => self.database.env().write_with(snapshot(), |txn| self.append(txn, record)),
        }
    }

    /// Takes a record as part of a transaction: the first one that the transaction sees and no other
    /// transaction has in hand. Returns its number and the record; none if there is none. To wait for the
    /// next record, also for one that another transaction gives back, use [`Env::write_when`]. This method
    /// itself never waits.
    ///
    /// Skipped records do not count as read, nor does finding nothing: other transactions can append and
    /// consume meanwhile, at any isolation.
    ///
    /// # Errors
    /// As [`Txn::try_lock`] and [`Txn::insert`]; `Invalid` for a record that does not belong in this queue.
    pub fn consume(&self, txn: &mut Txn<'_>) -> Result<Option<(u64, Vec<u8>)>> {
        let found = txn.consume(&self.database)?;
        found.map(|(number, record)| self.checked(number, record)).transpose()
    }

    /// Removes the record with a number, out of turn, as part of a transaction: for a record that should not
    /// be consumed any more. False if the queue, as this transaction sees it, does not have it. Never waits:
    /// if another transaction consumes the record at the same time, one of the two gets a conflict.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let jobs = sablecat::Queue::open(&env, "jobs", 4)?;
    /// let wash = jobs.append_one("wash")?;
    /// assert!(env.write(|txn| jobs.remove(txn, wash))?);
    /// assert!(!env.write(|txn| jobs.remove(txn, wash))?);
    /// assert_eq!((jobs.consume_one()?, jobs.append_one("dry")?), (None, wash + 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Txn::try_lock`] and [`Txn::remove`].
    pub fn remove(&self, txn: &mut Txn<'_>, number: u64) -> Result<bool> {
        txn.remove_numbered(&self.database, number)
    }

    /// Takes the first record that no transaction has in hand, in a transaction of its own.
    ///
    /// # Errors
    /// As [`Queue::consume`] and [`Env::write`].
    pub fn consume_one(&self) -> Result<Option<(u64, Vec<u8>)>> {
        match self.consume_by_itself()? {
            Some(found) => Ok(Some(found)),
            None => self.database.env().write_with(snapshot(), |txn| self.consume(txn)),
        }
    }

    /// As [`Queue::consume_one`]; if there is no record, sleeps until one is appended or given back, in this
    /// process or another. It does not poll.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let jobs = sablecat::Queue::open(&env, "jobs", 4)?;
    /// std::thread::scope(|scope| {
    ///     let worker = scope.spawn(|| jobs.consume_wait());
    ///     jobs.append_one("wash")?;
    ///     assert_eq!(worker.join().expect("ended")?, (1, b"wash".to_vec()));
    ///     Ok(())
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Queue::consume`] and [`Env::write_when`].
    pub fn consume_wait(&self) -> Result<(u64, Vec<u8>)> {
        match self.consume_by_itself()? {
            Some(found) => Ok(found),
            None => self.database.env().write_when(|txn| self.consume(txn)),
        }
    }

    /// As [`Queue::consume_wait`], for no longer than this: none if no record came.
    ///
    /// # Errors
    /// As [`Queue::consume_wait`].
    pub fn consume_wait_within(&self, time: Duration) -> Result<Option<(u64, Vec<u8>)>> {
        match self.consume_by_itself()? {
            Some(found) => Ok(Some(found)),
            None => self.database.env().write_when_within(time, |txn| self.consume(txn)),
        }
    }

    /// Appends a record as a single change; its number. None if it takes a transaction.
    fn append_by_itself(&self, record: &[u8]) -> Result<Option<u64>> {
        self.by_itself("appending to", |core, tree| {
            core.kernel.append_one(tree, record, core.config.durability)
        })
    }

    /// Takes the first record that nobody has in hand as a single change. None if it takes a transaction, to
    /// know that there is none too.
    fn consume_by_itself(&self) -> Result<Option<(u64, Vec<u8>)>> {
        self.by_itself("consuming of", |core, tree| {
            core.kernel.consume_one(tree, self.record_bytes, core.config.durability)
        })
    }

    #[inline]
    fn by_itself<T>(
        &self,
        doing: &str,
        change: impl FnOnce(&Core, &TreeRef) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let database = &self.database;
        let (core, tree) = (database.env().core().to_write()?, database.tree()?);
        database.refuse_around(tree, doing)?;
        database.unless_removed(change(core, tree))
    }

    /// The record with a number, if it is in the queue, whether or not a transaction has it in hand.
    ///
    /// # Errors
    /// As [`Read::get`]; `Invalid` for a record that does not belong in this queue.
    pub fn get(&self, from: &impl Read<Of = Env>, number: u64) -> Result<Option<Vec<u8>>> {
        match from.get(&self.database, key_of(number))? {
            Some(record) if !record.is_empty() => {
                self.checked(number, record).map(|(_, record)| Some(record))
            }
            _ => Ok(None),
        }
    }

    /// The first record, whether or not a transaction has it in hand.
    ///
    /// # Errors
    /// As [`Read::range`] and [`Queue::get`].
    pub fn peek(&self, from: &impl Read<Of = Env>) -> Result<Option<(u64, Vec<u8>)>> {
        self.iter(from)?.next().transpose()
    }

    /// All records, whether or not transactions have them in hand, in order and from either end.
    ///
    /// # Errors
    /// As [`Queue::range`].
    pub fn iter<'s, S: Read<Of = Env>>(&self, from: &'s S) -> Result<InQueue<S::Lasting<'s>>> {
        self.range(from, ..)
    }

    /// The records with some numbers, whether or not transactions have them in hand, in order and from either
    /// end.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let jobs = sablecat::Queue::open(&env, "jobs", 4)?;
    /// for job in ["wash", "dry", "iron"] {
    ///     jobs.append_one(job)?;
    /// }
    /// assert_eq!(jobs.range(&env, 2..)?.next().transpose()?, Some((2, b"dry\0".to_vec())));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Read::range`]. Each record comes as a result, with the errors of [`Queue::get`].
    pub fn range<'s, S: Read<Of = Env>>(
        &self,
        from: &'s S,
        numbers: impl RangeBounds<u64>,
    ) -> Result<InQueue<S::Lasting<'s>>> {
        let key = |bound: Bound<&u64>| bound.map(|&number| key_of(number));
        let keys = (key(numbers.start_bound()), key(numbers.end_bound()));
        Ok(InQueue { range: from.range(&self.database, keys)?, queue: self.clone() })
    }

    /// How many records there are, including those that transactions have in hand. Counts them;
    /// [`estimated_len`](Queue::estimated_len) does not.
    ///
    /// # Errors
    /// As [`Read::fold`].
    pub fn len(&self, from: &impl Read<Of = Env>) -> Result<u64> {
        let all = (Bound::<[u8; 8]>::Unbounded, Bound::Unbounded);
        from.fold(&self.database, all, 0, |count, _, value| {
            ControlFlow::Continue(count + u64::from(!value.is_empty()))
        })
    }

    /// An estimate of how many records there are in the newest committed state; exact if they are few. See
    /// [`Database::stats`].
    ///
    /// # Errors
    /// As [`Database::stats`].
    pub fn estimated_len(&self) -> Result<u64> {
        let stats = self.database.stats()?;
        if stats.is_exact { self.len(self.database.env()) } else { Ok(stats.records) }
    }

    /// Whether there are no records, not even some that transactions have in hand.
    ///
    /// # Errors
    /// As [`Queue::peek`].
    pub fn is_empty(&self, from: &impl Read<Of = Env>) -> Result<bool> {
        self.peek(from).map(|first| first.is_none())
    }

    fn checked(&self, number: u64, record: Vec<u8>) -> Result<(u64, Vec<u8>)> {
        if record.len() == self.record_bytes {
            return Ok((number, record));
        }
        Err(Error::invalid(format!(
            "record {number} of the queue {:?} has {} bytes instead of {}: something other than records of \
             this queue was written to the database",
            self.database.name(),
            record.len(),
            self.record_bytes
        )))
    }
}

/// What is consumed is compared with its snapshot; nothing else is read.
fn snapshot() -> TxnOptions {
    TxnOptions::new().isolation(Isolation::Snapshot)
}

/// The records of a queue: see [`Queue::range`].
#[derive(Debug)]
pub struct InQueue<S: Read> {
    range: Range<S>,
    queue: Queue,
}

impl<S: Read> InQueue<S> {
    fn shown(&self, record: Result<Record>) -> Option<Result<(u64, Vec<u8>)>> {
        let record = record.and_then(|(key, record)| Ok((number_of(&key)?, record)));
        match record {
            Ok((_, record)) if record.is_empty() => None,
            Ok((number, record)) => Some(self.queue.checked(number, record)),
            Err(error) => Some(Err(error)),
        }
    }
}

impl<S: Read> Iterator for InQueue<S> {
    type Item = Result<(u64, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let record = self.range.next()?;
            if let Some(shown) = self.shown(record) {
                return Some(shown);
            }
        }
    }
}

impl<S: Read> DoubleEndedIterator for InQueue<S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            let record = self.range.next_back()?;
            if let Some(shown) = self.shown(record) {
                return Some(shown);
            }
        }
    }
}
