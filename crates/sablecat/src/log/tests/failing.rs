//! Calls that fail: what was lost poisons, what was not may be tried again, and either is said.

use sablecat_os::sim::{Fault, SimDisk};

use super::*;
use crate::error::ErrorKind;

/// So large that it is filled in pieces.
const SEGMENT: u64 = 8 << 20;
const RING: usize = 1 << 20;

/// The zeros that make more of a segment ready are flushed together with what others have handed over to the
/// same file.
#[test]
fn a_failed_flush_of_zeros_does_not_lose_what_was_handed_over() {
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk.clone(), SEGMENT, RING);
    let mut last = Lsn(0);
    while !log.log.wants_segment() {
        last = log.put(b"key", &[7; 5000], me(1)).unwrap();
        log.log.hand_over(last, me(1)).unwrap();
    }
    disk.fail_at(disk.calls() + 1, Fault::SyncFails);
    let error = log.log.prepare_next(me(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    assert_eq!(
        log.log.make_durable(last, me(2)).unwrap_err().kind(),
        ErrorKind::Poisoned,
        "what was handed over may be lost"
    );
}

/// A file that nobody relies on yet is no loss.
#[test]
fn a_failed_flush_of_a_segment_in_the_making_may_be_tried_again() {
    const SMALL: u64 = 8192;
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk.clone(), SMALL, RING);
    let mut last = log.put(b"key", b"value", me(1)).unwrap();
    while !log.log.wants_segment() {
        last = log.put(b"key", &[7; 500], me(1)).unwrap();
    }
    disk.fail_at(disk.calls() + 1, Fault::SyncFails);
    assert_eq!(log.log.prepare_next(me(1)).unwrap_err().kind(), ErrorKind::Io);
    log.log.prepare_next(me(1)).unwrap();
    for _ in 0..40 {
        last = log.put(b"key", &[7; 500], me(1)).unwrap();
    }
    log.log.make_durable(last, me(1)).unwrap();
    for seed in 0..20 {
        let log =
            TestLog::open(Some(Arc::new(disk.crash(seed))), Path::new("log"), config(SMALL), RING).unwrap();
        assert_eq!(read_all(&log.log, Lsn(0)).unwrap().1.lsn, last);
    }
}

/// The journal's directory, whose name would be gone with everything that is put into it.
#[test]
fn a_journal_whose_name_may_not_last_is_not_filled() {
    const SMALL: u64 = 8192;
    let disk = Arc::new(SimDisk::new(1));
    let archive = Some(PathBuf::from("kept/journal"));
    let log =
        TestLog::open(Some(disk.clone()), Path::new("log"), LogConfig { archive, ..config(SMALL) }, RING)
            .unwrap();
    log.log.start_fresh(Lsn(0), Lsn(0), me(1)).unwrap();
    let mut last = Lsn(0);
    for _ in 0..10 {
        last = log.put(b"key", &[7; 3000], me(1)).unwrap();
    }
    log.log.make_durable(last, me(1)).unwrap();
    disk.fail_at(disk.calls() + 1, Fault::SyncFails);
    assert_eq!(log.log.recycle_before(last, me(1)).unwrap_err().kind(), ErrorKind::Poisoned);
    let again = [log.log.recycle_before(last, me(1)), log.log.give_up_files(last, me(1))];
    assert_eq!(again.map(|again| again.unwrap_err().kind()), [ErrorKind::Poisoned; 2]);
    assert!(disk.list(Path::new("kept/journal")).unwrap().is_empty());
    assert_eq!(log.put(b"key", b"value", me(1)).unwrap_err().kind(), ErrorKind::Poisoned);
}

/// The old name of a spare may be the one that lasts, whatever the next flush of the directory says; then it
/// is no spare.
#[test]
fn a_spare_whose_old_name_may_last_is_not_used_again() {
    const SMALL: u64 = 8192;
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk.clone(), SMALL, RING);
    let mut last = Lsn(0);
    while !log.log.wants_segment() || last.0 < 4 * SMALL {
        last = log.put(b"key", &[7; 500], me(1)).unwrap();
    }
    log.log.make_durable(last, me(1)).unwrap();
    disk.fail_at(disk.calls() + 1, Fault::SyncFails);
    assert_eq!(log.log.recycle_before(last, me(1)).unwrap_err().kind(), ErrorKind::Poisoned);
    let left = disk.list(Path::new("log")).unwrap();
    assert!(left.iter().any(|name| name.ends_with(".spare")), "{left:?}");
    assert_eq!(log.log.prepare_next(me(1)).unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(disk.list(Path::new("log")).unwrap(), left);
}

/// A record that was committed, and a fault that lets nothing out: the committer is told, nobody else is, and
/// the next one does what is missing.
#[test]
fn what_is_refused_is_tried_again_and_poisons_nobody() {
    for (fault, direct) in
        [Fault::DiskFull, Fault::NoDescriptor, Fault::Error(std::io::ErrorKind::PermissionDenied)]
            .into_iter()
            .flat_map(|fault| [(fault, true), (fault, false)])
    {
        // Where the log is fresh a flush opens the segment; where something was handed over, more is written.
        for handed_over in [false, true] {
            let disk = Arc::new(SimDisk::new(1));
            let log = TestLog::open(
                Some(disk.clone()),
                Path::new("log"),
                LogConfig { direct, ..config(8192) },
                RING,
            )
            .unwrap();
            log.log.start_fresh(Lsn(0), Lsn(0), me(1)).unwrap();
            if handed_over && fault == Fault::DiskFull {
                let lsn = log.put(b"key", b"handed over", me(1)).unwrap();
                log.log.hand_over(lsn, me(1)).unwrap();
            }
            let lsn = log.put(b"key", &[3; 5000], me(1)).unwrap();
            disk.fail_at(disk.calls() + 1, fault);
            disk.fail_at(disk.calls() + 1, fault);
            let wait = |caller| {
                if handed_over { log.log.hand_over(lsn, caller) } else { log.log.make_durable(lsn, caller) }
            };
            let error = wait(me(1)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotDurable, "{fault:?}, {direct}, {handed_over}: {error}");
            assert!(error.to_string().contains("0000000000000000.log"), "{error}");
            assert!(log.log.durable() < lsn);
            assert_eq!(log.log.drain(me(1)).map_err(|error| error.kind() == ErrorKind::Poisoned), Err(false));
            let later = log.put(b"key", b"later", me(2)).unwrap();
            wait(me(2)).unwrap();
            log.log.make_durable(later, me(1)).unwrap();
            for seed in 0..4 {
                let log =
                    TestLog::open(Some(Arc::new(disk.crash(seed))), Path::new("log"), config(8192), RING)
                        .unwrap();
                assert_eq!(read_all(&log.log, Lsn(0)).unwrap().1.lsn, later);
            }
        }
    }
}

/// Before the commit point it is the resource that is missing, and nothing has happened.
#[test]
fn a_ring_that_cannot_be_written_out_refuses_commits_until_it_can() {
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk.clone(), SEGMENT, 16384);
    let mut last = Lsn(0);
    for _ in 0..4 {
        last = log.put(b"key", &[3; 4000], me(1)).unwrap();
    }
    disk.fail_at(disk.calls() + 1, Fault::DiskFull);
    assert_eq!(log.put(b"key", &[3; 4000], me(1)).unwrap_err().kind(), ErrorKind::DiskFull);
    assert_eq!(log.log.tail(), last);
    last = log.put(b"key", &[3; 4000], me(1)).unwrap();
    log.log.make_durable(last, me(1)).unwrap();
    assert_eq!(read_all(&log.log, Lsn(0)).unwrap().1.lsn, last);
}

/// The directory could not be opened, so its flush was not tried; the segment is there the next time.
#[test]
fn a_directory_that_cannot_be_opened_poisons_nobody() {
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk.clone(), 8192, RING);
    let mut refused = 0;
    for n in 1..20 {
        disk.fail_at(disk.calls() + n, Fault::NoDescriptor);
        for _ in 0..4 {
            match log.put(b"key", &[3; 4000], me(1)) {
                Ok(lsn) => log
                    .log
                    .hand_over(lsn, me(1))
                    .unwrap_or_else(|error| assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}")),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 5, "{refused}");
    disk.clear_faults();
    let last = log.put(b"key", b"value", me(1)).unwrap();
    log.log.make_durable(last, me(1)).unwrap();
    assert_eq!(read_all(&log.log, Lsn(0)).unwrap().1.lsn, last);
}
