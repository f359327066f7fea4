//! Many at once: group commit, waiting, and taking over from the dead.

use sablecat_os::sim::SimDisk;

use super::*;
use crate::error::{Error, ErrorKind};
use crate::log::turn::Living;

const SEGMENT: u64 = 1 << 16;
const RING: usize = 1 << 16;

#[test]
fn threads_share_flushes_and_none_is_told_too_early() {
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk, SEGMENT, RING);
    let (threads, each) = (8u16, 200u32);
    std::thread::scope(|scope| {
        for owner in 1..=threads {
            let log = &log;
            scope.spawn(move || {
                for n in 0..each {
                    let lsn = log.put(&n.to_be_bytes(), &[owner as u8; 100], me(owner)).unwrap();
                    match n % 3 {
                        0 => log.log.hand_over(lsn, me(owner)).unwrap(),
                        1 => log.log.make_durable(lsn, me(owner)).unwrap(),
                        _ => log.log.drain(me(owner)).unwrap(),
                    }
                    assert!(n % 3 != 0 || log.log.written() >= lsn);
                    assert!(n % 3 != 1 || log.log.durable() >= lsn);
                }
            });
        }
    });
    let tail = log.log.tail();
    log.log.make_durable(tail, me(1)).unwrap();
    let (records, end) = read_all(&log.log, Lsn(0)).unwrap();
    assert_eq!((records.len(), end.lsn), (usize::from(threads) * each as usize, tail));
}

#[test]
fn a_successor_takes_over_from_a_dead_leader() {
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk, SEGMENT, RING);
    let lsn = log.put(b"key", b"value", me(1)).unwrap();
    let Ok(held) = log.log.words().flush.try_take(me(7)) else { panic!("nobody has it") };
    // Slot 7 dies with the turn.
    std::mem::forget(held);
    let alive = |owner| owner != 7;
    log.log.make_durable(lsn, Caller::new(2, &alive)).unwrap();
    assert_eq!(log.log.durable(), lsn);
    let Ok(held) = log.log.words().supply.try_take(me(7)) else { panic!("nobody has it") };
    std::mem::forget(held);
    log.log.prepare_to(Lsn(2 * SEGMENT), Caller::new(2, &alive)).unwrap();
}

/// A process that was taken for dead.
struct Fenced;

impl Living for Fenced {
    fn is_dead(&self, _: u16, _: &dyn Fn() -> bool) -> bool {
        false
    }
    fn check_fence(&self) -> Result<()> {
        Err(Error::fenced())
    }
}

#[test]
fn who_was_taken_for_dead_waits_for_no_flush() {
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk, SEGMENT, RING);
    let lsn = log.put(b"key", b"value", me(1)).unwrap();
    let Ok(_held) = log.log.words().flush.try_take(me(7)) else { panic!("nobody has it") };
    let error = log.log.make_durable(lsn, Caller::new(2, &Fenced)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Poisoned);
}

#[test]
fn a_release_meant_for_a_lost_holding_does_nothing() {
    let turn = super::super::turn::Turn::default();
    let Ok(slow) = turn.try_take(me(7)) else { panic!("nobody has it") };
    let alive = |owner| owner != 7;
    let held = turn.take(Caller::new(2, &alive));
    drop(slow);
    assert!(turn.try_take(me(3)).is_err(), "2 has it still");
    drop(held);
    assert!(turn.try_take(me(3)).is_ok());
}

#[test]
fn all_who_wait_hear_of_a_failed_flush() {
    use sablecat_os::sim::Fault;
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk.clone(), SEGMENT, RING);
    let barrier = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for owner in 1..=8 {
            let (log, barrier, disk) = (&log, &barrier, &disk);
            scope.spawn(move || {
                let lsn = log.put(b"key", b"value", me(owner)).unwrap();
                if barrier.wait().is_leader() {
                    for n in 1..20 {
                        disk.fail_at(disk.calls() + n, Fault::SyncFails);
                    }
                }
                barrier.wait();
                let error = log.log.make_durable(lsn, me(owner)).unwrap_err();
                assert_eq!(error.kind(), crate::error::ErrorKind::Poisoned, "{error}");
            });
        }
    });
    assert_eq!(log.log.durable(), Lsn(0));
}

/// The real code under explored schedules.
mod explored {
    use super::*;
    use sablecat_os::shuttle::thread;

    fn committers(commit: fn(&Log, Lsn, Caller<'_>)) {
        sablecat_os::atomic::explore(11, 300, move || {
            let disk = Arc::new(SimDisk::new(1));
            let log = Arc::new(TestLog::create(disk, SEGMENT, RING));
            let threads: Vec<_> = (1..=3)
                .map(|owner| {
                    let log = Arc::clone(&log);
                    thread::spawn(move || {
                        for _ in 0..2 {
                            // One at a time: the commit role is not what is explored.
                            let lsn = append_spinning(&log);
                            commit(&log.log, lsn, me(owner));
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            let tail = log.log.tail();
            log.log.hand_over(tail, me(1)).unwrap();
            assert_eq!(read_all(&log.log, Lsn(0)).unwrap().0.len(), 6);
        });
    }

    fn append_spinning(log: &TestLog) -> Lsn {
        let mut record = RecordBuilder::new();
        record.begin(RecordKind::Commit);
        record.put(TreeId(1), b"key", b"value");
        record.finish_body();
        loop {
            if let Ok(_commit) = log.commit.try_lock() {
                let start = log.log.tail();
                let bytes = record.seal(start, log.log.durable());
                assert!(log.log.has_room(bytes.len()));
                log.log.copy_record(start, bytes);
                let end = Lsn(start.0 + bytes.len() as u64);
                log.log.advance_tail(end);
                return end;
            }
            sablecat_os::atomic::yield_now();
        }
    }

    #[test]
    fn make_durable_by_three() {
        committers(|log, lsn, caller| {
            log.make_durable(lsn, caller).unwrap();
            assert!(log.durable() >= lsn);
        });
    }

    #[test]
    fn hand_over_by_three() {
        committers(|log, lsn, caller| {
            log.hand_over(lsn, caller).unwrap();
            assert!(log.written() >= lsn);
        });
    }

    /// One died holding the turn: before it did anything, or after it had written.
    #[test]
    fn a_leader_that_dies_is_replaced() {
        for written in [false, true] {
            sablecat_os::atomic::explore(12, 200, move || {
                let disk = Arc::new(SimDisk::new(1));
                let log = Arc::new(TestLog::create(disk, SEGMENT, RING));
                let lsn = append_spinning(&log);
                let Ok(mut held) = log.log.words().flush.try_take(me(7)) else { panic!("nobody has it") };
                if written {
                    log.log.write_cached(log.log.files().unwrap(), (&mut held, me(7))).unwrap();
                }
                std::mem::forget(held);
                let threads: Vec<_> = (1..=3)
                    .map(|owner| {
                        let log = Arc::clone(&log);
                        thread::spawn(move || {
                            let alive = |owner| owner != 7;
                            log.log.make_durable(lsn, Caller::new(owner, &alive)).unwrap();
                            assert!(log.log.durable() >= lsn);
                        })
                    })
                    .collect();
                for thread in threads {
                    thread.join().unwrap();
                }
            });
        }
    }
}

/// A log whose makers of segments are taken over as soon as somebody waits for them.
fn impatient(disk: Arc<SimDisk>, archive: bool) -> TestLog {
    let archive = archive.then(|| PathBuf::from("journal"));
    let config = LogConfig { patience: Duration::ZERO, archive, spares_max: 1, ..config(8192) };
    let log = TestLog::open(Some(disk), Path::new("log"), config, 16384).unwrap();
    log.log.start_fresh(Lsn(0), Lsn(0), me(1)).unwrap();
    log
}

#[test]
fn who_makes_a_segment_and_does_not_move_is_succeeded() {
    let log = impatient(Arc::new(SimDisk::new(1)), false);
    let Ok(slow) = log.log.words().supply.try_take(me(7)) else { panic!("nobody has it") };
    let to = Lsn(3 * 8192);
    log.log.prepare_to(to, me(2)).unwrap();
    assert!(slow.is_succeeded() && log.log.words().prepared.0.load(Ordering::SeqCst) >= to.0);
    drop(slow);
    assert_eq!(log.log.words().supply.owner(), 0);
}

#[test]
fn who_insists_is_waited_for_and_who_moves_is_too() {
    let turn = super::super::turn::Turn::default();
    let Ok(mut held) = turn.try_take(me(7)) else { panic!("nobody has it") };
    assert!(held.insist());
    std::thread::scope(|scope| {
        let other = scope.spawn(|| turn.take_over(me(2), (Duration::ZERO, Duration::ZERO)).number());
        for _ in 0..10_000 {
            assert!(!held.is_succeeded());
            std::thread::yield_now();
        }
        drop(held);
        assert_eq!(other.join().unwrap(), 2);
    });
    let Ok(mut held) = turn.try_take(me(7)) else { panic!("nobody has it") };
    let later = turn.take_over(me(2), (Duration::ZERO, Duration::ZERO));
    assert!(held.is_succeeded() && !held.insist() && later.number() > held.number());
    drop(held);
    assert!(turn.try_take(me(3)).is_err());
}

/// All makers of segments are in each other's way all the time, and those that take segments out of use as
/// well.
#[test]
fn any_number_may_make_the_same_segments() {
    for archive in [false, true] {
        for seed in 0..5 {
            let disk = Arc::new(SimDisk::new(seed));
            let log = impatient(disk.clone(), archive);
            std::thread::scope(|scope| {
                for owner in 1..=4 {
                    let log = &log;
                    scope.spawn(move || {
                        for n in 0..60u32 {
                            let lsn = log.put(&n.to_be_bytes(), &[owner as u8; 900], me(owner)).unwrap();
                            match (n + u32::from(owner)) % 4 {
                                0 => log.log.hand_over(lsn, me(owner)).unwrap(),
                                1 => log.log.prepare_next(me(owner)).unwrap(),
                                2 => log.log.make_durable(lsn, me(owner)).unwrap(),
                                _ => log
                                    .log
                                    .recycle_before(
                                        Lsn(log.log.durable().0.saturating_sub(40_000)),
                                        me(owner),
                                    )
                                    .unwrap(),
                            }
                        }
                    });
                }
            });
            let tail = log.log.tail();
            log.log.make_durable(tail, me(1)).unwrap();
            let from = Lsn(log
                .log
                .segments()
                .unwrap()
                .numbers()
                .unwrap()
                .iter()
                .rev()
                .take(3)
                .min()
                .unwrap()
                * 8192);
            let disk = Arc::new(disk.crash(seed));
            let after = TestLog::open(Some(disk), Path::new("log"), config(8192), 16384).unwrap();
            let (_, end) = read_all(&after.log, first_record(&after.log, from)).unwrap();
            assert_eq!(end.lsn, tail);
            if archive {
                let mut numbers = log.log.segments().unwrap().numbers_kept().unwrap();
                numbers.dedup();
                assert!(numbers.iter().copied().eq(0..=*numbers.last().unwrap()), "{numbers:?}");
                let (records, end) =
                    read(log.log.segments().unwrap().scan_kept(Lsn(0), None).unwrap()).unwrap();
                let commits = records.iter().filter(|(kind, ..)| *kind == RecordKind::Commit).count();
                assert_eq!((commits, end.lsn), (240, tail));
            }
        }
    }
}

/// Where the first record begins that begins at `from` or later.
fn first_record(log: &Log, from: Lsn) -> Lsn {
    let is_there = |at: &u64| {
        log.segments().unwrap().read_record(Lsn(*at), Lsn(at + RECORD_BYTES_MAX as u64), None).is_ok()
    };
    Lsn((from.0..).step_by(8).find(is_there).unwrap())
}

/// It counts as dead, and another has filled the same part and gone on.
#[test]
fn who_fills_a_segment_and_was_taken_for_dead_stops() {
    let disk = SimDisk::new(1);
    let how = sablecat_os::disk::How {
        create: true,
        create_new: true,
        read_only: false,
        direct: false,
        durable: false,
    };
    let file = disk.open(Path::new("segment"), how).unwrap();
    let turn = super::super::turn::Turn::default();
    let Ok(mut held) = turn.try_take(me(7)) else { panic!("nobody has it") };
    assert!(held.insist() && !held.is_lost());
    turn.release_for(7);
    assert!(held.is_lost());
    assert!(super::super::fill::fill(&*file, 0, 4096, &held).is_err());
    assert_eq!(file.len().unwrap(), 0);
}

/// It counts as dead; the others have written more, and used the ring again.
#[test]
fn who_flushes_and_was_taken_for_dead_lowers_nothing() {
    let log = TestLog::create(Arc::new(SimDisk::new(1)), SEGMENT, RING);
    let lsn = log.put(b"key", b"value", me(1)).unwrap();
    let Ok(mut held) = log.log.words().flush.try_take(me(7)) else { panic!("nobody has it") };
    log.log.words().flush.release_for(7);
    log.log.write_cached(log.log.files().unwrap(), (&mut held, me(7))).unwrap();
    assert!(log.log.written() < lsn);
    drop(held);
    log.log.make_durable(lsn, me(1)).unwrap();
    assert_eq!(read_all(&log.log, Lsn(0)).unwrap().1.lsn, lsn);
}
