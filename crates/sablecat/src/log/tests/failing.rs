//! Calls that fail: what was lost poisons, what was not may be tried again, and either is said.

use sablecat_os::sim::{Fault, SimDisk};

use super::*;
use crate::error::ErrorKind;

/// So large that it is filled in pieces.
const SEGMENT: u64 = 8 << 20;
const RING: usize = 1 << 20;

/// The zeros that make more of a segment ready are flushed together with what others have handed over to the same file.
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
    assert_eq!(log.log.make_durable(last, me(2)).unwrap_err().kind(), ErrorKind::Poisoned, "what was handed over may be lost");
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
        let log = TestLog::open(Some(Arc::new(disk.crash(seed))), Path::new("log"), config(SMALL), RING).unwrap();
        assert_eq!(read_all(&log.log, Lsn(0)).unwrap().1.lsn, last);
    }
}

/// The journal's directory, whose name would be gone with everything that is put into it.
#[test]
fn a_journal_whose_name_may_not_last_is_not_filled() {
    const SMALL: u64 = 8192;
    let disk = Arc::new(SimDisk::new(1));
    let archive = Some(PathBuf::from("kept/journal"));
    let log = TestLog::open(Some(disk.clone()), Path::new("log"), LogConfig { archive, ..config(SMALL) }, RING).unwrap();
    log.log.start_fresh(Lsn(0), Lsn(0), me(1)).unwrap();
    let mut last = Lsn(0);
    for _ in 0..10 {
        last = log.put(b"key", &[7; 3000], me(1)).unwrap();
    }
    log.log.make_durable(last, me(1)).unwrap();
    disk.fail_at(disk.calls() + 1, Fault::SyncFails);
    assert_eq!(log.log.recycle_before(last, me(1)).unwrap_err().kind(), ErrorKind::Poisoned);
    assert!(disk.list(Path::new("kept/journal")).unwrap().is_empty());
    assert_eq!(log.put(b"key", b"value", me(1)).unwrap_err().kind(), ErrorKind::Poisoned);
}
