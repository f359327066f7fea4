//! Sablecat as the harness opens it: which mode of the papers is which configuration.
//!
//! | mode | is |
//! |---|---|
//! | DS | a data store: no log, no transactions |
//! | TDS, NoSync | an environment whose commits stay in the log buffer |
//! | Memory, WriteNoSync, Sync | an environment of that durability |
//! | Background | one whose commits stay in the log buffer, flushed every 50 ms, with a checkpoint every 4 s |
//! | Unlogged | one whose log is in memory alone |
//!
//! A put, a removal or a lookup outside of a transaction is one of its own, so each is one commit or one
//! snapshot. The environment keeps its default isolation, which is serialisable.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use sablecat::{Builder, DataStore, Database, Durability, Env, Method};

use super::batch::Batch;
use super::loops::{self, Job, Table, Tally};
use crate::protocol::{Mode, Open};

/// The name of the one database that a run uses.
const DATABASE: &str = "records";

/// What [`Mode::Background`] says.
const FLUSH_INTERVAL: Duration = Duration::from_millis(50);
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(4);

/// An open store of sablecat's.
pub(super) enum Engine {
    Data { store: Box<DataStore>, table: Database<DataStore> },
    Transactional { env: Env, database: Database, is_sync: bool },
}

impl Engine {
    /// Opens what is asked for; `shared`: as processes do that share it, which a data store cannot be.
    pub(super) fn open(open: &Open, shared: bool, method: Method) -> Result<Engine, String> {
        let builder = configure(open).shared(shared);
        let dir = Path::new(&open.dir);
        let (builder, dir) = if open.image.is_empty() {
            (builder, dir)
        } else {
            (builder.held_in(dir), Path::new(&open.image))
        };
        if open.mode == Mode::Ds {
            let mut store = builder.open_data_store(dir).map_err(say)?;
            let table = store.database_as(DATABASE, method).map_err(say)?;
            return Ok(Engine::Data { store: Box::new(store), table });
        }
        let env = builder.open(dir).map_err(say)?;
        let database = env.database_as(DATABASE, method).map_err(say)?;
        Ok(Engine::Transactional { env, database, is_sync: open.mode == Mode::Sync })
    }

    /// Commits that opening replayed.
    pub(super) fn replayed(&self) -> u64 {
        match self {
            Engine::Data { .. } => 0,
            Engine::Transactional { env, .. } => env.recovery().commits,
        }
    }

    /// Does a job on this thread.
    pub(super) fn run(&mut self, job: &Job) -> Result<Tally, String> {
        match self {
            Engine::Data { store, table } => Ok(loops::run(&mut DataTable { store, table }, job)),
            Engine::Transactional { .. } => Ok(self.part()?.run(job)),
        }
    }

    /// What one of several threads works with.
    pub(super) fn part(&self) -> Result<Part, String> {
        match self {
            Engine::Data { .. } => Err("a data store has one handle: one thread".to_owned()),
            Engine::Transactional { database, is_sync: false, .. } => {
                Ok(Part::Fast(Commits(database.clone())))
            }
            Engine::Transactional { database, is_sync: true, .. } => {
                Ok(Part::Sync(Commits(database.clone())))
            }
        }
    }

    /// Everything to disk, so that what follows is not disturbed by it.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        match self {
            Engine::Data { store, .. } => store.checkpoint().map(drop).map_err(say),
            Engine::Transactional { env, .. } => env.checkpoint().map(drop).map_err(say),
        }
    }

    pub(super) fn sync(&mut self) -> Result<(), String> {
        match self {
            Engine::Data { .. } => Err("a data store has no log".to_owned()),
            Engine::Transactional { env, .. } => env.sync().map_err(say),
        }
    }

    /// The environment, for the thread that keeps house beside a run.
    pub(super) fn env(&self) -> Result<Env, String> {
        match self {
            Engine::Data { .. } => Err("a data store makes no checkpoints beside a run".to_owned()),
            Engine::Transactional { env, .. } => Ok(env.clone()),
        }
    }

    /// The database, for what only environments are asked to do.
    pub(super) fn database(&self) -> Result<&Database, String> {
        match self {
            Engine::Data { .. } => Err("this is measured on an environment".to_owned()),
            Engine::Transactional { database, .. } => Ok(database),
        }
    }

    pub(super) fn close(self) -> Result<(), String> {
        match self {
            Engine::Data { store, .. } => store.close().map_err(say),
            Engine::Transactional { env, database, .. } => {
                drop(database);
                env.close().map_err(say)
            }
        }
    }
}

pub(super) fn configure(open: &Open) -> Builder {
    let builder = Env::builder()
        .cache_size(open.cache_bytes)
        .log_buffer_size(open.log_buffer as usize)
        .direct_io(open.direct)
        .durability(match open.mode {
            Mode::Ds | Mode::Tds | Mode::NoSync | Mode::Background => Durability::NoSync,
            Mode::Memory | Mode::Unlogged => Durability::Memory,
            Mode::WriteNoSync => Durability::WriteNoSync,
            Mode::Sync => Durability::Sync,
        });
    let builder = if open.page_size == 0 { builder } else { builder.page_size(open.page_size as usize) };
    if open.mode == Mode::Background {
        builder.flush_interval(FLUSH_INTERVAL).checkpoint_interval(CHECKPOINT_INTERVAL)
    } else if open.keep_log {
        builder.checkpoint_interval(Duration::from_secs(1 << 30)).checkpoint_log_size(u64::MAX)
    } else {
        builder
    }
}

pub(super) fn say(error: sablecat::Error) -> String {
    error.to_string()
}

/// What a thread works with, which looks at the clock as often as its commits allow.
pub(super) enum Part {
    /// Commits that wait for nothing.
    Fast(Commits<64>),
    /// Commits that wait for the disk.
    Sync(Commits<1>),
}

impl Part {
    /// Does a job on this thread.
    pub(super) fn run(&mut self, job: &Job) -> Tally {
        match self {
            Part::Fast(table) => loops::run(table, job),
            Part::Sync(table) => loops::run(table, job),
        }
    }
}

/// Whether to go on after so many records.
fn up_to(count: u32, seen: u32) -> ControlFlow<u32, u32> {
    if seen < count { ControlFlow::Continue(seen) } else { ControlFlow::Break(seen) }
}

/// A table of a data store.
struct DataTable<'a> {
    store: &'a mut DataStore,
    table: &'a Database<DataStore>,
}

impl Table for DataTable<'_> {
    const CHECK_EVERY: u64 = 64;
    type Error = sablecat::Error;

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> sablecat::Result<()> {
        self.store.insert(self.table, key, value)
    }

    fn put_batch(&mut self, records: &Batch) -> sablecat::Result<()> {
        records.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> sablecat::Result<bool> {
        self.store.remove(self.table, key)
    }

    #[inline]
    fn look(&mut self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> bool) -> sablecat::Result<bool> {
        self.store.get_with(self.table, key, look)
    }

    fn modify(&mut self, key: &[u8], change: impl FnMut(Option<&[u8]>) -> Vec<u8>) -> sablecat::Result<()> {
        let changed = self.store.get_with(self.table, key, change)?;
        self.put(key, &changed)
    }

    fn range(
        &mut self,
        from: &[u8],
        count: u32,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> sablecat::Result<u32> {
        self.store.fold(self.table, from.., 0, |seen, key, value| {
            each(key, value);
            up_to(count, seen + 1)
        })
    }

    fn scan<B>(&mut self, initial: B, mut each: impl FnMut(B, &[u8], &[u8]) -> B) -> sablecat::Result<B> {
        self.store
            .fold(self.table, .., initial, |sum, key, value| ControlFlow::Continue(each(sum, key, value)))
    }
}

/// A database whose every operation is a transaction, and which looks at the clock every so many of them.
pub(super) struct Commits<const CHECK_EVERY: u64>(Database);

impl<const CHECK_EVERY: u64> Table for Commits<CHECK_EVERY> {
    const CHECK_EVERY: u64 = CHECK_EVERY;
    type Error = sablecat::Error;

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> sablecat::Result<()> {
        self.0.insert(key, value)
    }

    fn put_batch(&mut self, records: &Batch) -> sablecat::Result<()> {
        self.0.insert_batch(records.iter())
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> sablecat::Result<bool> {
        self.0.remove(key)
    }

    #[inline]
    fn look(&mut self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> bool) -> sablecat::Result<bool> {
        self.0.get_with(key, look)
    }

    fn modify(
        &mut self,
        key: &[u8],
        mut change: impl FnMut(Option<&[u8]>) -> Vec<u8>,
    ) -> sablecat::Result<()> {
        self.0.update(key, |value| Some(change(value))).map(drop)
    }

    fn range(
        &mut self,
        from: &[u8],
        count: u32,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> sablecat::Result<u32> {
        self.0.fold(from.., 0, |seen, key, value| {
            each(key, value);
            up_to(count, seen + 1)
        })
    }

    fn scan<B>(&mut self, initial: B, mut each: impl FnMut(B, &[u8], &[u8]) -> B) -> sablecat::Result<B> {
        self.0.fold(.., initial, |sum, key, value| ControlFlow::Continue(each(sum, key, value)))
    }
}
