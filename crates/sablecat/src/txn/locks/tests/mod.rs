//! Tests of the lock table.

mod deadlock;
mod death;
mod exclusion;
mod explore;
mod model;
mod overflow;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use sablecat_os::atomic::Ordering;

use super::{HeldLocks, LockMode, LockTable, record_hash};
use crate::error::Result;
use crate::region::{Geometry, Region};
use crate::types::TreeId;

/// Longer than any wait that ends by itself.
const PATIENT: Duration = Duration::from_secs(60);

/// A lock table of `words` words for participants 1 to `participants`.
fn lock_table(participants: u16, words: usize) -> LockTable {
    let slots = participants + 1;
    let geometry = Geometry {
        block_size: 512,
        page_size: 512,
        frames: 2,
        slots,
        ring_bytes: 65536,
        lock_words: words,
        pages_max: 64,
        blocks_max: 64,
        volumes: 1,
        members: 1,
    };
    let region = Region::private(geometry).unwrap();
    region.header().slots_high.0.store(u32::from(slots), Ordering::SeqCst);
    LockTable::new(&Arc::new(region))
}

/// The hash of a record.
fn record(key: u64) -> u64 {
    record_hash(TreeId(7), &key.to_be_bytes())
}

/// The bucket where a record is at home.
fn home(locks: &LockTable, hash: u64) -> usize {
    locks.table.home(super::LockId::of(hash))
}

/// Hashes of records that are all at home in one bucket.
fn at_home_in(locks: &LockTable, bucket: usize, count: usize) -> Vec<u64> {
    (0..).map(record).filter(|hash| home(locks, *hash) == bucket).take(count).collect()
}

/// A participant and what it has locked.
struct Party<'a> {
    locks: &'a LockTable,
    me: u16,
    held: HeldLocks,
}

impl<'a> Party<'a> {
    fn new(locks: &'a LockTable, me: u16) -> Party<'a> {
        Party { locks, me, held: HeldLocks::default() }
    }
    fn acquire(&mut self, hash: u64, mode: LockMode) -> Result<()> {
        self.locks.acquire(self.me, hash, mode, PATIENT, &mut self.held)
    }
    fn try_acquire(&mut self, hash: u64, mode: LockMode) -> Result<bool> {
        self.locks.try_acquire(self.me, hash, mode, &mut self.held)
    }
    fn release_all(&mut self) {
        self.locks.release_all(self.me, &mut self.held);
    }
}

/// Lets others run until `slot` has announced a wait.
fn until_waiting(locks: &LockTable, slot: u16) {
    while locks.table.slot(slot).waits_for.load(Ordering::SeqCst) == 0 {
        sablecat_os::atomic::yield_now();
    }
}

/// Fails unless the table is as good as new.
fn assert_empty(locks: &LockTable) {
    locks
        .table
        .each_place(|index| assert_eq!(locks.table.word(index).load(Ordering::SeqCst), 0, "word {index}"));
    for slot in 1..locks.table.slots() as u16 {
        assert_eq!(locks.table.slot(slot).waits_for.load(Ordering::SeqCst), 0, "announcement of slot {slot}");
    }
    locks.table.each_bucket(|number| {
        let latch = locks.table.try_latch(number, 1).expect("no latch is held");
        drop(latch);
    });
}
