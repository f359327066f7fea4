//! redb 4: a B+tree that is copied on write, without a log.
//!
//! It has two rungs of durability. [`Durability::Immediate`], its default, is durable when a commit returns:
//! one `fdatasync`, by its checksummed one-phase commit. [`Durability::None`] keeps commits in the process's
//! memory until one that is durable, and frees and reuses the pages that such commits have replaced. Between
//! the two there is nothing: for `WriteNoSync` it is given a [`StorageBackend`] that does all that its own
//! does, but flushes only on request. A durable commit then writes its pages to the operating system, and
//! what was committed outlives the process; a crash of the system may damage the file, unless the file system
//! keeps the order of writes, as with LMDB's MDB_NOSYNC.
//!
//! A transaction that reads begins, opens the table and gets: a table is one transaction's, so that neither
//! can be kept. Keys and values are bytes, as in the other systems, not types of fixed length. Its pages are
//! 4 KiB, its cache as large as is asked for. One transaction writes at a time, the others wait.

use std::fs::OpenOptions;
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use redb::backends::FileBackend;
use redb::{
    BackendError, Database, Durability, MultimapTableDefinition, ReadOnlyTable, ReadableDatabase,
    ReadableMultimapTable, ReadableTable, StorageBackend, TableDefinition, WriteTransaction,
};

use super::batch::Batch;
use super::loops::{self, Table, Tally};
use super::{as_looped, outcome, say};
use crate::mix::Act;
use crate::protocol::Kind;
use crate::system::{Job, Mode, Options, Outcome, Peer, Session, Store};
use crate::workload;

const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");
const PAIRS: MultimapTableDefinition<'_, &[u8], &[u8]> = MultimapTableDefinition::new("pairs");

/// Values of a key, as the papers' crate has them.
const VALUES_A_KEY: u64 = 100;

type Result<T, E = redb::Error> = std::result::Result<T, E>;

/// The system of that name.
pub(crate) struct Redb {
    /// Whether a key has many values.
    dups: bool,
}

/// A value for each key.
pub(crate) static REDB: Redb = Redb { dups: false };

/// Many sorted values for each key, in a multimap table.
pub(crate) static REDB_DUPS: Redb = Redb { dups: true };

impl Peer for Redb {
    fn version(&self) -> String {
        env!("REDB_VERSION").to_owned()
    }

    fn meaning(&self, mode: Mode) -> Option<String> {
        Some(
            match mode {
                Mode::Ds => "Durability::None; one transaction a run of writes, one a run of reads",
                Mode::Tds => "a read transaction and an opened table per get; writes as NoSync",
                Mode::Memory => "as NoSync: redb has no log",
                Mode::NoSync => "Durability::None, a commit per put: it stays in the process's memory",
                Mode::WriteNoSync => {
                    "Durability::Immediate over a StorageBackend of this program that does not flush: redb \
                     has nothing between memory and disk (a crash of the OS may damage the file)"
                }
                Mode::Sync => {
                    "Durability::Immediate, the default: a commit per put, fdatasync; writers take turns"
                }
                Mode::Background => {
                    "Durability::None, a commit per put; every 50 ms an empty commit of Durability::Immediate"
                }
                Mode::Unlogged => "as NoSync",
            }
            .to_owned(),
        )
    }

    fn open(&self, options: &Options) -> std::result::Result<Box<dyn Store>, String> {
        let durability = match options.mode {
            Mode::Sync | Mode::WriteNoSync => Durability::Immediate,
            _ => Durability::None,
        };
        let opened = || -> Result<StoreOfRedb> {
            let path = options.dir.join("data.redb");
            let mut builder = Database::builder();
            builder.set_cache_size(usize::try_from(options.cache_bytes).unwrap_or(usize::MAX));
            let is_flushed = Arc::new(AtomicBool::new(false));
            let database = if options.mode == Mode::WriteNoSync {
                let file =
                    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
                let (own, is_flushed) = (FileBackend::new(file)?, is_flushed.clone());
                builder.create_with_backend(Written { own, is_flushed })?
            } else {
                builder.create(path)?
            };
            let store = StoreOfRedb { database, durability, mode: options.mode, dups: self.dups, is_flushed };
            let txn = store.database.begin_write()?;
            if self.dups {
                txn.open_multimap_table(PAIRS)?;
            } else {
                txn.open_table(RECORDS)?;
            }
            txn.commit()?;
            Ok(store)
        };
        Ok(Box::new(opened().map_err(say)?))
    }
}

struct StoreOfRedb {
    database: Database,
    durability: Durability,
    mode: Mode,
    dups: bool,
    /// Asks a [`Written`] to flush.
    is_flushed: Arc<AtomicBool>,
}

impl StoreOfRedb {
    fn write(&self) -> Result<WriteTransaction> {
        let mut txn = self.database.begin_write()?;
        txn.set_durability(self.durability)?;
        Ok(txn)
    }

    /// Makes durable what was committed before.
    fn flush(&self) -> Result<()> {
        let mut txn = self.database.begin_write()?;
        txn.set_durability(Durability::Immediate)?;
        // Relaxed: this thread reads it in its commit, and nobody else commits while this transaction writes.
        self.is_flushed.store(true, Ordering::Relaxed);
        let committed = txn.commit();
        self.is_flushed.store(false, Ordering::Relaxed);
        Ok(committed?)
    }

    /// A run of the Data Store, which is one transaction; committing it takes a part of its time.
    fn run_whole(&self, job: &loops::Job) -> Result<Tally> {
        let start = Instant::now();
        let mut tally = if matches!(job.kind, Kind::Read | Kind::Bulk) {
            let txn = self.database.begin_read()?;
            loops::run(&mut Reading(txn.open_table(RECORDS)?), job)
        } else {
            let txn = self.write()?;
            let tally = loops::run(&mut Writing(&mut txn.open_table(RECORDS)?), job);
            txn.commit()?;
            tally
        };
        tally.time = Some((start, Instant::now()));
        Ok(tally)
    }
}

impl Store for StoreOfRedb {
    fn session(&self) -> std::result::Result<Box<dyn Session + '_>, String> {
        Ok(Box::new(SessionOfRedb(self)))
    }

    fn settle(&mut self) -> std::result::Result<(), String> {
        self.flush().map_err(say)
    }

    fn upkeep(&self, _: bool) -> std::result::Result<(), String> {
        self.flush().map_err(say)
    }

    fn close(self: Box<Self>) -> std::result::Result<(), String> {
        self.flush().map_err(say)?;
        self.database.close().map_err(say)
    }
}

struct SessionOfRedb<'a>(&'a StoreOfRedb);

impl Session for SessionOfRedb<'_> {
    fn run(&mut self, job: &Job, acts: Vec<Act>, timed: bool) -> Outcome {
        let looped = as_looped(job, acts, timed);
        outcome(match self.0 {
            store if store.dups => Ok(loops::run(&mut Pairs(store), &looped)),
            store if store.mode == Mode::Ds => store.run_whole(&looped).map_err(say),
            store if job.check_every == 1 => Ok(loops::run(&mut Commits::<1>(store), &looped)),
            store => Ok(loops::run(&mut Commits::<64>(store), &looped)),
        })
    }
}

/// Shows what a table has for a key.
fn look_in(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &[u8],
    look: impl FnOnce(Option<&[u8]>) -> bool,
) -> Result<bool> {
    let found = table.get(key)?;
    Ok(look(found.as_ref().map(|value| value.value())))
}

fn range_in(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    from: &[u8],
    count: u32,
    mut each: impl FnMut(&[u8], &[u8]),
) -> Result<u32> {
    let mut seen = 0;
    for record in table.range::<&[u8]>((Bound::Included(from), Bound::Unbounded))?.take(count as usize) {
        let (key, value) = record?;
        each(key.value(), value.value());
        seen += 1;
    }
    Ok(seen)
}

fn scan_in<B>(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    initial: B,
    mut each: impl FnMut(B, &[u8], &[u8]) -> B,
) -> Result<B> {
    table.iter()?.try_fold(initial, |sum, record| {
        let (key, value) = record?;
        Ok(each(sum, key.value(), value.value()))
    })
}

fn change_in(
    table: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
    key: &[u8],
    mut change: impl FnMut(Option<&[u8]>) -> Vec<u8>,
) -> Result<()> {
    let changed = change(table.get(key)?.as_ref().map(|value| value.value()));
    table.insert(key, &*changed)?;
    Ok(())
}

/// A table in a transaction that lasts for a whole run, and changes it.
struct Writing<'a, 'txn>(&'a mut redb::Table<'txn, &'static [u8], &'static [u8]>);

impl Table for Writing<'_, '_> {
    const CHECK_EVERY: u64 = 64;
    type Error = redb::Error;

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.0.insert(key, value).map(drop)?)
    }

    fn put_batch(&mut self, records: &Batch) -> Result<()> {
        records.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.0.remove(key)?.is_some())
    }

    fn look(&mut self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> bool) -> Result<bool> {
        look_in(self.0, key, look)
    }

    fn modify(&mut self, key: &[u8], change: impl FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<()> {
        change_in(self.0, key, change)
    }

    fn range(&mut self, from: &[u8], count: u32, each: impl FnMut(&[u8], &[u8])) -> Result<u32> {
        range_in(self.0, from, count, each)
    }

    fn scan<B>(&mut self, initial: B, each: impl FnMut(B, &[u8], &[u8]) -> B) -> Result<B> {
        scan_in(self.0, initial, each)
    }
}

/// A table in a transaction that lasts for a whole run, and only reads.
struct Reading(ReadOnlyTable<&'static [u8], &'static [u8]>);

impl Table for Reading {
    const CHECK_EVERY: u64 = 64;
    type Error = redb::Error;

    fn put(&mut self, _: &[u8], _: &[u8]) -> Result<()> {
        Err(only_reads())
    }

    fn put_batch(&mut self, _: &Batch) -> Result<()> {
        Err(only_reads())
    }

    fn remove(&mut self, _: &[u8]) -> Result<bool> {
        Err(only_reads())
    }

    #[inline]
    fn look(&mut self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> bool) -> Result<bool> {
        look_in(&self.0, key, look)
    }

    fn modify(&mut self, _: &[u8], _: impl FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<()> {
        Err(only_reads())
    }

    fn range(&mut self, from: &[u8], count: u32, each: impl FnMut(&[u8], &[u8])) -> Result<u32> {
        range_in(&self.0, from, count, each)
    }

    fn scan<B>(&mut self, initial: B, each: impl FnMut(B, &[u8], &[u8]) -> B) -> Result<B> {
        scan_in(&self.0, initial, each)
    }
}

fn only_reads() -> redb::Error {
    io::Error::other("this transaction only reads").into()
}

/// A store whose every operation is a transaction, and which looks at the clock every so many of them.
struct Commits<'a, const CHECK_EVERY: u64>(&'a StoreOfRedb);

impl<const CHECK_EVERY: u64> Commits<'_, CHECK_EVERY> {
    fn change<B>(
        &self,
        change: impl FnOnce(&mut redb::Table<'_, &'static [u8], &'static [u8]>) -> Result<B>,
    ) -> Result<B> {
        let txn = self.0.write()?;
        let done = change(&mut txn.open_table(RECORDS)?)?;
        txn.commit()?;
        Ok(done)
    }
}

impl<const CHECK_EVERY: u64> Table for Commits<'_, CHECK_EVERY> {
    const CHECK_EVERY: u64 = CHECK_EVERY;
    type Error = redb::Error;

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.change(|table| Ok(table.insert(key, value).map(drop)?))
    }

    fn put_batch(&mut self, records: &Batch) -> Result<()> {
        self.change(|table| Writing(table).put_batch(records))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        self.change(|table| Ok(table.remove(key)?.is_some()))
    }

    #[inline]
    fn look(&mut self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> bool) -> Result<bool> {
        look_in(&self.0.database.begin_read()?.open_table(RECORDS)?, key, look)
    }

    fn modify(&mut self, key: &[u8], change: impl FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<()> {
        self.change(|table| change_in(table, key, change))
    }

    fn range(&mut self, from: &[u8], count: u32, each: impl FnMut(&[u8], &[u8])) -> Result<u32> {
        range_in(&self.0.database.begin_read()?.open_table(RECORDS)?, from, count, each)
    }

    fn scan<B>(&mut self, initial: B, each: impl FnMut(B, &[u8], &[u8]) -> B) -> Result<B> {
        scan_in(&self.0.database.begin_read()?.open_table(RECORDS)?, initial, each)
    }
}

/// Many values for each key, each inserted in a transaction of its own.
struct Pairs<'a>(&'a StoreOfRedb);

impl Table for Pairs<'_> {
    const CHECK_EVERY: u64 = 64;
    type Error = redb::Error;

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let number = workload::key_number(key).ok_or_else(unlike_pairs)?;
        let txn = self.0.write()?;
        let pair = [key, value].concat();
        txn.open_multimap_table(PAIRS)?.insert(&workload::key_bytes(number / VALUES_A_KEY)[..], &*pair)?;
        Ok(txn.commit()?)
    }

    fn put_batch(&mut self, records: &Batch) -> Result<()> {
        records.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    fn remove(&mut self, _: &[u8]) -> Result<bool> {
        Err(unlike_pairs())
    }

    fn look(&mut self, _: &[u8], _: impl FnOnce(Option<&[u8]>) -> bool) -> Result<bool> {
        Err(unlike_pairs())
    }

    fn modify(&mut self, _: &[u8], _: impl FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<()> {
        Err(unlike_pairs())
    }

    fn range(&mut self, _: &[u8], _: u32, _: impl FnMut(&[u8], &[u8])) -> Result<u32> {
        Err(unlike_pairs())
    }

    fn scan<B>(&mut self, initial: B, mut each: impl FnMut(B, &[u8], &[u8]) -> B) -> Result<B> {
        let mut sum = initial;
        for values in self.0.database.begin_read()?.open_multimap_table(PAIRS)?.iter()? {
            for pair in values?.1 {
                let pair = pair?;
                let (number, value) =
                    pair.value().split_at_checked(workload::KEY_BYTES).unwrap_or((pair.value(), &[]));
                sum = each(sum, number, value);
            }
        }
        Ok(sum)
    }
}

fn unlike_pairs() -> redb::Error {
    io::Error::other("pairs are inserted and scanned").into()
}

/// redb's own backend, which is flushed only on request.
#[derive(Debug)]
struct Written {
    own: FileBackend,
    is_flushed: Arc<AtomicBool>,
}

impl StorageBackend for Written {
    fn len(&self) -> io::Result<u64> {
        self.own.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.own.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.own.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        // Relaxed: see `StoreOfRedb::flush`.
        if self.is_flushed.load(Ordering::Relaxed) { self.own.sync_data() } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.own.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.own.sync_data()?;
        self.own.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.own.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.own.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.own.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.own.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.own.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.own.query_lock_range(start, end)
    }
}
