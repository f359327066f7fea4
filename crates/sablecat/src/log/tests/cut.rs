//! Segments that somebody has cut short, as housekeeping finds them.

use sablecat_os::disk::How;
use sablecat_os::sim::SimDisk;

use super::*;
use crate::error::ErrorKind;

const SEGMENT: u64 = 8192;
const NEWEST: &str = "log/0000000000000000.log";

/// A log of which so much of the first segment is written and durable.
fn written_up_to(disk: &Arc<SimDisk>, end: u64) -> TestLog {
    let log = TestLog::create(Arc::clone(disk) as Arc<dyn Disk>, SEGMENT, 1 << 16);
    let tail = || log.log.tail().0;
    let put = |len: u64| log.put(b"key", &vec![7; len as usize], me(1)).unwrap();
    while end - tail() > 2048 {
        put(1024);
    }
    // What a record has beside its value. A time record may come before it, once.
    let besides = {
        put(0);
        let before = tail();
        put(0).0 - before
    };
    let missing = end - tail();
    put(missing - besides);
    assert_eq!(tail(), end);
    log.log.make_durable(Lsn(end), me(1)).unwrap();
    log
}

fn cut(disk: &SimDisk, len: u64) {
    let file = disk.open(Path::new(NEWEST), How::default()).unwrap();
    file.set_len(len).unwrap();
}

#[test]
fn a_segment_that_was_cut_short_is_found_also_if_it_is_full() {
    for end in [SEGMENT - 64, SEGMENT] {
        let disk = Arc::new(SimDisk::new(1));
        let log = written_up_to(&disk, end);
        log.log.check_newest().unwrap();
        cut(&disk, 4096 + end);
        log.log.check_newest().unwrap();
        cut(&disk, 4096 + end - 1);
        assert_eq!(log.log.check_newest().unwrap_err().kind(), ErrorKind::Poisoned, "up to {end}");
    }
}

/// Only what this life has written must be there.
#[test]
fn a_life_that_has_written_nothing_asks_after_no_segment() {
    let disk = Arc::new(SimDisk::new(1));
    drop(written_up_to(&disk, SEGMENT / 2));
    let log =
        TestLog::open(Some(Arc::clone(&disk) as Arc<dyn Disk>), Path::new("log"), config(SEGMENT), 1 << 16)
            .unwrap();
    assert_eq!(go_on(&log.log, Lsn(0)).unwrap(), Lsn(SEGMENT));
    cut(&disk, 4096);
    log.log.check_newest().unwrap();
}
