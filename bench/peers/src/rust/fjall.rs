//! fjall 3: a log-structured merge tree, with a journal.
//!
//! Every write goes to its journal, which cannot be switched off or kept in memory. With
//! `manual_journal_persist` it stays in a buffer of the process, of 8 KiB, until that is full or somebody
//! persists it; without, the default, each write hands it to the operating system. A batch of
//! [`PersistMode::SyncData`] is on the disk when its commit returns, before anybody sees it: one `fdatasync`,
//! under the journal's lock, so that threads share none.
//!
//! One put is atomic and one get reads one version, which is all that a transaction of one operation asks.
//! Where a lookup and an update are one transaction, it is opened as a `SingleWriterTxDatabase`: its
//! optimistic transactions commit one after the other too, and begin anew at a conflict besides.
//!
//! The memtable has a quarter of the cache, at most 64 MB, beside the block cache; no compression (the values
//! do not compress); no filters in the last level (every lookup finds its record, which is what its
//! documentation asks of who leaves them out). Else its defaults, among them 4 KiB blocks, Bloom filters of
//! 10 bits and as many workers as processors, up to four. After a load all is compacted, so that reads meet
//! one level.

use std::ops::Bound;

use fjall::config::{BlockSizePolicy, CompressionPolicy};
use fjall::{
    Database, Error, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Result, SingleWriterTxDatabase,
    SingleWriterTxKeyspace,
};

use super::batch::Batch;
use super::loops::{self, Table};
use super::{as_looped, outcome, say};
use crate::mix::Act;
use crate::system::{Job, Mode, Options, Outcome, Peer, Session, Store};

const RECORDS: &str = "records";
const MEMTABLE_BYTES_MIN: u64 = 4 << 20;
const MEMTABLE_BYTES_MAX: u64 = 64 << 20;

/// The system.
pub(crate) struct Fjall;

pub(crate) static FJALL: Fjall = Fjall;

impl Peer for Fjall {
    fn version(&self) -> String {
        env!("FJALL_VERSION").to_owned()
    }

    fn meaning(&self, mode: Mode) -> Option<String> {
        Some(
            match mode {
                Mode::Ds => "as NoSync: the journal cannot be switched off",
                Mode::Tds => "a get is a read of one version; writes as NoSync",
                Mode::Memory => "as NoSync: the journal cannot be kept in memory",
                Mode::NoSync => "manual_journal_persist: the journal is buffered in the process (8 KiB)",
                Mode::WriteNoSync => "the default: a put is written to the OS",
                Mode::Sync => "a batch of PersistMode::SyncData per put: fdatasync; threads share none",
                Mode::Background => "manual_journal_persist; Database::persist(SyncData) every 50 ms",
                Mode::Unlogged => "as NoSync: the journal cannot be switched off",
            }
            .to_owned(),
        )
    }

    fn open(&self, options: &Options) -> std::result::Result<Box<dyn Store>, String> {
        let is_buffered = !matches!(options.mode, Mode::WriteNoSync | Mode::Sync);
        let keyspace = || {
            let memtable = (options.cache_bytes / 4).clamp(MEMTABLE_BYTES_MIN, MEMTABLE_BYTES_MAX);
            let keyspace = KeyspaceCreateOptions::default()
                .manual_journal_persist(is_buffered)
                .max_memtable_size(memtable)
                .data_block_compression_policy(CompressionPolicy::disabled())
                .expect_point_read_hits(true);
            match options.page_size {
                0 => keyspace,
                bytes => keyspace.data_block_size_policy(BlockSizePolicy::all(bytes)),
            }
        };
        let opened = || -> Result<StoreOfFjall> {
            let persist = match options.mode {
                Mode::Sync => Some(PersistMode::SyncData),
                Mode::WriteNoSync => Some(PersistMode::Buffer),
                _ => None,
            };
            let (database, records, transactions);
            if options.transactions {
                let all = SingleWriterTxDatabase::builder(&options.dir)
                    .cache_size(options.cache_bytes)
                    .manual_journal_persist(is_buffered)
                    .open()?;
                let table = all.keyspace(RECORDS, keyspace)?;
                (database, records) = (all.inner().clone(), table.inner().clone());
                transactions = Some((all, table));
            } else {
                database = Database::builder(&options.dir)
                    .cache_size(options.cache_bytes)
                    .manual_journal_persist(is_buffered)
                    .open()?;
                records = database.keyspace(RECORDS, keyspace)?;
                transactions = None;
            }
            Ok(StoreOfFjall { records, database, transactions, persist })
        };
        Ok(Box::new(opened().map_err(say)?))
    }
}

struct StoreOfFjall {
    records: Keyspace,
    database: Database,
    /// The same, where operations are put together to transactions.
    transactions: Option<(SingleWriterTxDatabase, SingleWriterTxKeyspace)>,
    /// What a commit asks for beyond the journal's buffer.
    persist: Option<PersistMode>,
}

impl Store for StoreOfFjall {
    fn session(&self) -> std::result::Result<Box<dyn Session + '_>, String> {
        Ok(Box::new(SessionOfFjall(self)))
    }

    fn settle(&mut self) -> std::result::Result<(), String> {
        self.records.rotate_memtable_and_wait().and_then(|()| self.records.major_compact()).map_err(say)
    }

    /// It moves its memtables into files by itself.
    fn upkeep(&self, _: bool) -> std::result::Result<(), String> {
        self.database.persist(PersistMode::SyncData).map_err(say)
    }

    fn close(self: Box<Self>) -> std::result::Result<(), String> {
        self.database.persist(PersistMode::SyncAll).map_err(say)
    }
}

struct SessionOfFjall<'a>(&'a StoreOfFjall);

impl Session for SessionOfFjall<'_> {
    fn run(&mut self, job: &Job, acts: Vec<Act>, timed: bool) -> Outcome {
        let looped = as_looped(job, acts, timed);
        outcome(Ok(if job.check_every == 1 {
            loops::run(&mut Commits::<1>(self.0), &looped)
        } else {
            loops::run(&mut Commits::<64>(self.0), &looped)
        }))
    }
}

/// A keyspace whose every operation is a commit, and which looks at the clock every so many of them.
struct Commits<'a, const CHECK_EVERY: u64>(&'a StoreOfFjall);

impl<const CHECK_EVERY: u64> Table for Commits<'_, CHECK_EVERY> {
    const CHECK_EVERY: u64 = CHECK_EVERY;
    type Error = Error;

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let store = self.0;
        if let Some((database, records)) = &store.transactions {
            let mut txn = database.write_tx().durability(store.persist);
            txn.insert(records, key, value);
            return txn.commit();
        }
        if store.persist != Some(PersistMode::SyncData) {
            return store.records.insert(key, value);
        }
        let mut batch = store.database.batch().durability(store.persist);
        batch.insert(&store.records, key, value);
        batch.commit()
    }

    fn put_batch(&mut self, records: &Batch) -> Result<()> {
        let mut batch = self.0.database.batch();
        records.iter().for_each(|(key, value)| batch.insert(&self.0.records, key, value));
        batch.commit()
    }

    /// It removes without a look, so that a record which is not there goes unnoticed: a scan counts what is
    /// left.
    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let store = self.0;
        if let Some((database, records)) = &store.transactions {
            let mut txn = database.write_tx().durability(store.persist);
            txn.remove(records, key);
            txn.commit()?;
        } else if store.persist == Some(PersistMode::SyncData) {
            let mut batch = store.database.batch().durability(store.persist);
            batch.remove(&store.records, key);
            batch.commit()?;
        } else {
            store.records.remove(key)?;
        }
        Ok(true)
    }

    #[inline]
    fn look(&mut self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> bool) -> Result<bool> {
        Ok(look(self.0.records.get(key)?.as_deref()))
    }

    fn modify(&mut self, key: &[u8], mut change: impl FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<()> {
        let Some((database, records)) = &self.0.transactions else {
            return Err(std::io::Error::other("it was not opened for transactions that read").into());
        };
        let mut txn = database.write_tx().durability(self.0.persist);
        let changed = change(txn.get(records, key)?.as_deref());
        txn.insert(records, key, changed);
        txn.commit()
    }

    fn range(&mut self, from: &[u8], count: u32, mut each: impl FnMut(&[u8], &[u8])) -> Result<u32> {
        let mut seen = 0;
        let all = self.0.records.range::<&[u8], _>((Bound::Included(from), Bound::Unbounded));
        for record in all.take(count as usize) {
            let (key, value) = record.into_inner()?;
            each(&key, &value);
            seen += 1;
        }
        Ok(seen)
    }

    fn scan<B>(&mut self, initial: B, mut each: impl FnMut(B, &[u8], &[u8]) -> B) -> Result<B> {
        self.0.records.iter().try_fold(initial, |sum, record| {
            let (key, value) = record.into_inner()?;
            Ok(each(sum, &key, &value))
        })
    }
}
