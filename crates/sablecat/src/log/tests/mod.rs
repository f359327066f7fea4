//! Tests of the log as a whole. This file holds what they share: a log over memory and a disk of their own.

mod archive;
mod crash;
mod cut;
mod failing;
mod following;
mod group;
mod holes;
mod lives;
mod rescue;
mod steady;
mod stepped;
mod stopped;

use std::path::Path;
use std::sync::Arc;

use sablecat_os::disk::Disk;
use sablecat_os::mapping::Mapping;

use super::scan::LogScan;
use super::*;
use crate::types::TreeId;

/// Participants never die in these tests unless they say so.
pub(super) fn alive(_: u16) -> bool {
    true
}

pub(super) fn me(owner: u16) -> Caller<'static> {
    Caller::new(owner, &alive)
}

impl Log {
    /// The supply turn, for as long as what is returned lives.
    pub(crate) fn hold_supply(&self, caller: Caller<'_>) -> impl Drop {
        self.words().supply.take(caller)
    }
}

/// A log with the memory it works on.
pub(super) struct TestLog {
    pub(super) log: Log,
    memory: Arc<Mapping>,
    /// Stands in for the commit role.
    commit: Arc<std::sync::Mutex<()>>,
}

pub(super) const UUID: [u8; 16] = *b"0123456789abcdef";

pub(super) fn config(segment_bytes: u64) -> LogConfig {
    LogConfig {
        keys: None,
        segment_bytes,
        uuid: UUID,
        direct: true,
        sync_io: false,
        spares_max: 2,
        archive: None,
        patience: Duration::from_secs(60),
    }
}

impl TestLog {
    /// A log in memory just created; the files may exist.
    pub(super) fn open(
        disk: Option<Arc<dyn Disk>>,
        dir: &Path,
        config: LogConfig,
        ring_bytes: usize,
    ) -> Result<TestLog> {
        let memory = Arc::new(
            Mapping::anonymous(size_of::<LogWords>().next_multiple_of(4096) + ring_bytes).expect("memory"),
        );
        let at = size_of::<LogWords>().next_multiple_of(4096);
        // SAFETY: the mapping is zeroed, large enough, and kept beside the log; the ring is its second part.
        let memory_of_log = unsafe {
            let ring = Ring::new(memory.base().add(at), ring_bytes);
            LogMemory::new(memory.base().cast(), ring)
        };
        let log = Log::open(disk, dir, config, memory_of_log)?;
        Ok(TestLog { log, memory, commit: Arc::default() })
    }

    /// The same log, as another process has it.
    pub(super) fn beside(&self, disk: Arc<dyn Disk>, config: LogConfig) -> TestLog {
        let log = Log::open(Some(disk), Path::new("log"), config, self.log.memory).expect("open");
        TestLog { log, memory: Arc::clone(&self.memory), commit: Arc::clone(&self.commit) }
    }

    /// The same, begun as new.
    pub(super) fn create(disk: Arc<dyn Disk>, segment_bytes: u64, ring_bytes: usize) -> TestLog {
        let log =
            TestLog::open(Some(disk), Path::new("log"), config(segment_bytes), ring_bytes).expect("open");
        log.log.start_fresh(Lsn(0), Lsn(0), me(1)).expect("start");
        log
    }

    /// Commits a record as the commit step does; returns its end.
    pub(super) fn append(&self, record: &mut RecordBuilder, caller: Caller<'_>) -> Result<Lsn> {
        loop {
            let needed = record.len() + self.log.stamp_bytes();
            self.log.fail_if_poisoned()?;
            let role = self.commit.lock().expect("the commit role");
            if self.log.has_room(needed) {
                let start = self.log.stamp();
                let bytes = record.seal(start, self.log.durable());
                self.log.copy_record(start, bytes);
                let end = Lsn(start.0 + bytes.len() as u64);
                self.log.advance_tail(end);
                return Ok(end);
            }
            drop(role);
            self.log.make_room(needed, caller)?;
        }
    }

    /// Commits "key = value".
    pub(super) fn put(&self, key: &[u8], value: &[u8], caller: Caller<'_>) -> Result<Lsn> {
        let mut record = RecordBuilder::new();
        record.begin(RecordKind::Commit);
        record.put(TreeId(9), key, value);
        record.finish_body();
        self.append(&mut record, caller)
    }
}

/// A record read back: kind, start, end, body.
pub(super) type Found = (RecordKind, Lsn, Lsn, Vec<u8>);

/// All records from `from` on, and the end.
pub(super) fn read_all(log: &Log, from: Lsn) -> Result<(Vec<Found>, LogEnd)> {
    read(log.scan(from)?)
}

/// All records of a scan, and the end.
pub(super) fn read(mut scan: LogScan<'_>) -> Result<(Vec<Found>, LogEnd)> {
    let mut records = Vec::new();
    while let Some(record) = scan.next()? {
        records.push((record.kind, record.start, record.end, record.body.to_vec()));
    }
    Ok((records, scan.end().expect("it has ended")))
}

/// Begins a new life, as recovery does that has read everything from `from` on.
pub(super) fn go_on(log: &Log, from: Lsn) -> Result<Lsn> {
    let mut scan = log.scan(from)?;
    while scan.next()?.is_some() {}
    let end = scan.end().expect("it has ended").lsn;
    scan.make_last(end)?;
    log.start_fresh(end, Lsn(0), me(1))
}
