//! The kernel's own code under many thread schedules. `SABLECAT_SCHEDULES=N` multiplies the schedules by N.
//!
//! Half of the schedules switch threads at random at every atomic operation. The other half let one thread
//! run until a few chosen moments (probabilistic concurrency testing: Burckhardt et al., 2010), which is what
//! finds a thread that is stopped between two instructions while others commit, reclaim and use frames again.
//!
//! What holds everywhere: the records LEFT and RIGHT lie in different leaves and are always written together,
//! so that a reader that sees one state of them sees them equal. Every value repeats one number, and is
//! looked at twice with others running in between, so that a frame used again under its reader shows.

mod answers;
mod checkpoint;
mod commits;
mod eviction;
mod large;
mod pins;
mod reaping;
mod removal;
mod snapshots;
mod two_mappings;

use sablecat_os::atomic::{self, Ordering, fence, yield_now};
use sablecat_os::shuttle::thread;

use super::*;
use crate::error::ErrorKind;

pub(super) const LEFT: &[u8] = b"a0";
pub(super) const BESIDE_LEFT: &[u8] = b"b0";
pub(super) const RIGHT: &[u8] = b"z0";

/// Runs `body` under `runs` schedules of each kind.
pub(super) fn explore(seed: u64, runs: usize, body: impl Fn() + Send + Sync + Clone + 'static) {
    let times = std::env::var("SABLECAT_SCHEDULES").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    let runs = runs * times;
    atomic::explore(seed, runs / 2, body.clone());
    for moments in [2, 3, 5] {
        atomic::explore_few_switches(seed + moments as u64, moments, runs / 2, body.clone());
    }
}

pub(super) type Work = fn(&Store);

/// Runs each of `works` in a thread of its own, to the end of all.
pub(super) fn together(store: &Arc<Store>, works: &[Work]) {
    let threads: Vec<_> = works
        .iter()
        .map(|&work| {
            let store = Arc::clone(store);
            thread::spawn(move || work(&store))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// The value that says `stamp` all over.
pub(super) fn value(stamp: u32) -> Vec<u8> {
    stamp.to_le_bytes().repeat(15)
}

/// The stamp of a value in place, which stays what it is while others run.
pub(super) fn watch(value: Option<&[u8]>) -> u32 {
    let value = value.expect("the record is always there");
    let before = stamp(value);
    for _ in 0..4 {
        fence(Ordering::SeqCst);
    }
    assert_eq!(stamp(value), before, "the frame was used again under its reader");
    before
}

fn stamp(value: &[u8]) -> u32 {
    assert_eq!(value.len(), 60);
    assert!(value.chunks_exact(4).all(|word| word == &value[..4]), "torn inside");
    u32::from_le_bytes(value[..4].try_into().expect("four bytes"))
}

impl Store {
    /// Two leaves and their root, with all stamps 0; nothing else in the pool.
    pub(super) fn with_two_leaves(frames: usize, slots: u16, volume: Option<Volume>) -> Arc<Store> {
        let store = Store::new(frames, slots, volume);
        let seat = store.kernel.pages.participants.sit().unwrap();
        // SAFETY: the threads come later.
        let mut direct = unsafe { Direct::new(&store.kernel.pages, &seat) };
        for key in [LEFT, BESIDE_LEFT, b"y0", b"y1", b"y2", b"y3", b"y4", b"y5", b"y6", b"y7", b"y8", RIGHT] {
            direct.change(&store.tree.tree(), key, Some(&value(0))).unwrap();
        }
        let (left, right) = (store.leaf(LEFT, &seat), store.leaf(RIGHT, &seat));
        assert!(left != right && left == store.leaf(BESIDE_LEFT, &seat));
        drop(direct);
        drop(seat);
        Arc::new(store)
    }

    fn leaf(&self, key: &[u8], me: &crate::pages::LocalParticipant) -> PageId {
        let snapshot = self.kernel.pages.snapshot(me);
        let tree = self.tree.tree();
        tree.find(&snapshot, tree.sought(key)).unwrap()
    }

    /// Adds one to both records, however often others are faster.
    pub(super) fn add_to_both(&self) {
        let mut txn = self.begin(Isolation::Serializable, false);
        loop {
            let result = (|| {
                let left = txn.get(&self.tree, LEFT, watch)?;
                let right = txn.get(&self.tree, RIGHT, watch)?;
                assert_eq!(left, right, "torn");
                txn.set(&self.tree, LEFT, Some(&value(left + 1)))?;
                txn.set(&self.tree, RIGHT, Some(&value(left + 1)))?;
                txn.commit(Durability::Memory)
            })();
            match result {
                Ok(_) => return,
                Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::SnapshotTooOld) => {
                    // The participant that is in the way may need to run.
                    yield_now();
                    txn.restart();
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Writes both records without looking.
    pub(super) fn set_both(&self, stamp: u32) -> Lsn {
        let mut txn = self.begin(Isolation::ReadCommitted, false);
        loop {
            txn.set(&self.tree, LEFT, Some(&value(stamp))).unwrap();
            txn.set(&self.tree, RIGHT, Some(&value(stamp))).unwrap();
            match txn.commit(Durability::Memory) {
                Ok(at) => return at,
                Err(error) if error.kind() == ErrorKind::SnapshotTooOld => {
                    // The participant that is in the way may need to run.
                    yield_now();
                    txn.restart();
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Adds one to a record that shares a leaf with LEFT; only one thread may.
    pub(super) fn add_beside(&self) {
        let now = self.kernel.read_one(&self.tree, BESIDE_LEFT, watch).unwrap();
        self.put(BESIDE_LEFT, &value(now + 1)).unwrap();
    }

    /// As [`Store::add_beside`], with whatever frames a sweep over the whole pool finds free at this moment,
    /// the latest freed included.
    pub(super) fn sweep_and_add_beside(&self) {
        self.sweep(1);
        self.add_beside();
    }

    /// Both records at one snapshot, `times` times; none once the snapshot was given up.
    pub(super) fn look_at_both(&self, times: usize) -> Option<u32> {
        let txn = self.begin(Isolation::Snapshot, true);
        let mut first = None;
        for _ in 0..times {
            for key in [LEFT, RIGHT] {
                match txn.get(&self.tree, key, watch) {
                    Ok(seen) => assert_eq!(seen, *first.get_or_insert(seen), "one snapshot, one state"),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::SnapshotTooOld, "{error}");
                        return None;
                    }
                }
            }
        }
        first
    }

    /// Sweeps a few times.
    pub(super) fn sweep(&self, times: usize) {
        let seat = self.kernel.pages.participants.sit().unwrap();
        for _ in 0..times {
            self.kernel.pages.sweep_some(&seat);
        }
    }

    /// Uses frames that operations in progress hold, and do not look at.
    pub(super) fn overwrite_unlooked(&self, times: usize) {
        let seat = self.kernel.pages.participants.sit().unwrap();
        (0..times).for_each(|_| self.kernel.pages.overwrite_unlooked(&seat));
    }

    /// Writes ahead of the hand what is dirty.
    pub(super) fn clean(&self, times: usize) {
        let seat = self.kernel.pages.participants.sit().unwrap();
        (0..times).for_each(|_| self.kernel.pages.clean(&seat).unwrap());
    }

    /// What must hold when all have ended: both records say `both`, nothing is latched, no frame, page or
    /// block is lost.
    pub(super) fn check_end(&self, both: u32, beside: u32) {
        let end: Vec<_> = [LEFT, RIGHT, BESIDE_LEFT]
            .map(|key| self.kernel.read_one(&self.tree, key, watch).unwrap())
            .into();
        assert_eq!(end, [both, both, beside]);
        self.assert_nothing_leaks();
    }
}
