//! What comes after the end of the log, looked through where it takes no space.

use std::path::PathBuf;

use sablecat_os::atomic::Ordering;
use sablecat_os::disk::{HostDisk, How};
use sablecat_os::sim::SimDisk;

use super::super::scan::{EndReason, LogEnd};
use super::*;

fn open(disk: &Arc<SimDisk>, segment: u64) -> TestLog {
    TestLog::open(Some(Arc::clone(disk) as Arc<dyn Disk>), Path::new("log"), config(segment), 1 << 16)
        .unwrap()
}

/// Reading all of it would take minutes.
#[test]
fn the_end_of_the_longest_segment_there_can_be_is_found() {
    let disk = Arc::new(SimDisk::new(1));
    disk.set_capacity(4 << 20);
    let log = TestLog::create(Arc::clone(&disk) as Arc<dyn Disk>, 1 << 40, 1 << 16);
    let end = log.put(b"key", b"value", me(1)).unwrap();
    log.log.make_durable(end, me(1)).unwrap();
    let (records, found) = read_all(&open(&disk, 1 << 40).log, Lsn(0)).unwrap();
    assert!(records.iter().any(|record| record.0 == RecordKind::Commit));
    assert_eq!(found, LogEnd { lsn: end, reason: EndReason::Clean });
}

/// Where a hole is damage, what is behind it tells.
#[test]
fn records_behind_a_hole_are_found() {
    const SEGMENT: u64 = 8 << 20;
    for (from, to) in [(0, 3 << 20), (5000, 4 << 20), (0, (3 << 20) + 12345)] {
        let disk = Arc::new(SimDisk::new(1));
        let log = TestLog::create(Arc::clone(&disk) as Arc<dyn Disk>, SEGMENT, 1 << 20);
        while log.log.tail().0 < 6 << 20 {
            let end = log.put(b"key", &[7; 10_000], me(1)).unwrap();
            log.log.make_durable(end, me(1)).unwrap();
        }
        drop(log);
        let file = disk.open(Path::new("log/0000000000000000.log"), How::default()).unwrap();
        assert!(file.punch(4096 + from, to - from).unwrap());
        let error = read_all(&open(&disk, SEGMENT).log, Lsn(0)).unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains("had been flushed"), "{error}");
    }
}

/// What a segment takes of the disk: little when it is made, much more when more of it is wanted, and where
/// there is not as much no more than is wanted.
#[test]
fn the_space_of_a_segment_is_taken_when_it_is_filled_on() {
    const SEGMENT: u64 = 8 << 20;
    for room in [1 << 30, 3 << 20] {
        let disk = Arc::new(SimDisk::new(1));
        disk.set_capacity(room);
        let log = TestLog::create(Arc::clone(&disk) as Arc<dyn Disk>, SEGMENT, 1 << 20);
        let file = disk.open(Path::new("log/0000000000000000.log"), How::default()).unwrap();
        assert!(file.space().unwrap() < 2 << 20 && file.len().unwrap() > SEGMENT);
        while !log.log.wants_segment() {
            let end = log.put(b"key", &[7; 10_000], me(1)).unwrap();
            log.log.make_durable(end, me(1)).unwrap();
        }
        log.log.prepare_next(me(1)).unwrap();
        assert!(!log.log.wants_segment());
        let taken = file.space().unwrap();
        if room > SEGMENT { assert!(taken > 4 << 20) } else { assert!(taken < 5 << 19, "{taken} bytes") }
    }
}

/// In a file system in memory no zeros are written: all that commits may use has its space all the same, and
/// not much more. What waits to be written there is wanted soon.
#[test]
fn what_is_ready_in_memory_has_its_space() {
    const SEGMENT: u64 = 8 << 20;
    let dir = PathBuf::from(format!("/dev/shm/sablecat-log-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let log = TestLog::open(Some(Arc::new(HostDisk)), &dir, config(SEGMENT), 1 << 20).unwrap();
    log.log.start_fresh(Lsn(0), Lsn(0), me(1)).unwrap();
    let file = HostDisk.open(&dir.join("0000000000000000.log"), How::default()).unwrap();
    loop {
        let ready = log.log.words().prepared.0.load(Ordering::Acquire);
        let space = file.space().unwrap();
        assert!(space >= ready, "{ready} bytes are ready");
        let tail = log.log.tail().0;
        assert!(space <= ready + (128 << 10), "{space} bytes are taken, of which {ready} are ready");
        assert!(ready <= tail + (3 << 19), "{ready} bytes are ready, of which {tail} are in use");
        if ready == SEGMENT {
            break;
        }
        assert!(!log.log.wants_drain_behind(log.log.tail()), "all is written");
        let mut end = log.log.tail();
        while end.0 < tail + (256 << 10) {
            end = log.put(b"key", &[7; 10_000], me(1)).unwrap();
        }
        assert!(log.log.wants_drain_behind(end));
        log.log.make_durable(end, me(1)).unwrap();
        while !log.log.wants_segment() {
            let end = log.put(b"key", &[7; 10_000], me(1)).unwrap();
            log.log.make_durable(end, me(1)).unwrap();
        }
        log.log.prepare_next(me(1)).unwrap();
    }
    let (records, _) = read_all(&log.log, Lsn(0)).unwrap();
    assert!(records.len() > 100);
    std::fs::remove_dir_all(&dir).unwrap();
}
