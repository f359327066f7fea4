//! Rescue: what only the memory of dead processes has comes to the files, if they are the ones that it
//! belongs to, and to no others.

use sablecat_os::sim::{Fault, SimDisk, Survival};

use super::*;
use crate::error::ErrorKind;

const SEGMENT: u64 = 8192;
const RING: usize = 32768;
/// Records of so many bytes.
const VALUE: [u8; 500] = [7; 500];

/// The files as they are, as if nothing of them was ever lost.
fn copied(disk: &SimDisk) -> Arc<SimDisk> {
    Arc::new(disk.crash_as(Survival::Everything, 1))
}

/// A log of some records that are in the files, and the files with these.
fn begun() -> (TestLog, Arc<SimDisk>) {
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk.clone(), SEGMENT, RING);
    put(&log, 4);
    log.log.hand_over(log.log.tail(), me(1)).unwrap();
    (log, disk)
}

/// Commits so many records that only the memory has.
fn put(log: &TestLog, records: usize) {
    (0..records).for_each(|_| _ = log.put(b"key", &VALUE, me(1)).unwrap());
}

/// What later processes find in the files, and where it ends.
fn found(disk: &Arc<SimDisk>) -> (Vec<Found>, Lsn) {
    let log = TestLog::open(Some(disk.clone()), Path::new("log"), config(SEGMENT), RING).unwrap();
    let (records, end) = read_all(&log.log, Lsn(0)).unwrap();
    (records, end.lsn)
}

/// Rescues what is in the memory of `log` to these files.
fn rescue(log: &TestLog, disk: &Arc<SimDisk>) -> Result<()> {
    log.beside(disk.clone(), config(SEGMENT)).log.rescue(Lsn(0))
}

/// That these files are refused, and left alone.
fn is_refused(log: &TestLog, disk: &Arc<SimDisk>) {
    let before = (found(disk), disk.list(Path::new("log")).unwrap());
    assert_eq!(rescue(log, disk).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!((found(disk), disk.list(Path::new("log")).unwrap()), before);
}

#[test]
fn what_only_memory_has_comes_to_the_files_and_lasts() {
    let (log, disk) = begun();
    put(&log, 40);
    assert!(found(&disk).1 < log.log.tail());
    rescue(&log, &disk).unwrap();
    for survival in Survival::ALL {
        let (records, end) = found(&Arc::new(disk.crash_as(survival, 1)));
        assert_eq!((records.len(), end), (44, log.log.tail()), "{survival:?}");
    }
    // A log is rescued once more if its rescuer died before the memory was removed.
    rescue(&log, &disk).unwrap();
}

/// Neither what a flush was to take with it before that failed, nor what it did not come to.
#[test]
fn a_rescue_whose_flush_fails_can_be_tried_again() {
    for handed_over in [4, 0] {
        for failing in 1..8 {
            let disk = Arc::new(SimDisk::new(failing));
            let log = TestLog::create(disk.clone(), SEGMENT, RING);
            put(&log, 4);
            log.log.make_durable(log.log.tail(), me(1)).unwrap();
            put(&log, handed_over);
            log.log.hand_over(log.log.tail(), me(1)).unwrap();
            put(&log, 40 - handed_over);
            disk.fail_at(disk.calls() + failing, Fault::SyncFails);
            match rescue(&log, &disk) {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                    // What the failed flush has lost may be gone, and then these are other files.
                    match rescue(&log, &disk) {
                        Err(error) if error.kind() == ErrorKind::Invalid && handed_over > 0 => continue,
                        again => again.unwrap(),
                    }
                }
            }
            let (records, end) = found(&Arc::new(disk.crash_as(Survival::Nothing, 1)));
            assert_eq!((records.len(), end), (44, log.log.tail()), "{handed_over}, {failing}");
        }
    }
}

/// A backup that was put back, of the same life.
#[test]
fn files_that_end_before_what_was_written_are_of_another_moment() {
    let (log, disk) = begun();
    let backup = copied(&disk);
    put(&log, 4);
    log.log.hand_over(log.log.tail(), me(1)).unwrap();
    put(&log, 4);
    is_refused(&log, &backup);
    rescue(&log, &disk).unwrap();
}

/// A process had the files to itself meanwhile, and logged as far as the memory did.
#[test]
fn files_in_which_another_life_has_begun_are_not_those_of_the_memory() {
    let (log, disk) = begun();
    let others = copied(&disk);
    put(&log, 50);
    let other = TestLog::open(Some(others.clone()), Path::new("log"), config(SEGMENT), RING).unwrap();
    go_on(&other.log, Lsn(0)).unwrap();
    while other.log.tail().0 < 2 * SEGMENT + 1000 {
        other.put(b"another's", &VALUE, me(1)).unwrap();
    }
    other.log.make_durable(other.log.tail(), me(1)).unwrap();
    let needed = log.log.segments().unwrap().number_of(log.log.tail());
    while other.log.segments().unwrap().numbers().unwrap().last() < Some(&needed) {
        other.log.prepare_to(Lsn(other.log.words().prepared.0.load(Ordering::Acquire) + 1), me(1)).unwrap();
    }
    assert!(
        (log.log.written()..=log.log.tail()).contains(&other.log.tail()),
        "nothing but the life tells them apart"
    );
    is_refused(&log, &others);
}

#[test]
fn files_without_a_segment_that_the_rest_goes_to_are_refused() {
    let (log, disk) = begun();
    put(&log, 40);
    let newest =
        disk.list(Path::new("log")).unwrap().into_iter().filter(|name| name.ends_with(".log")).max().unwrap();
    disk.remove(&Path::new("log").join(newest)).unwrap();
    is_refused(&log, &disk);
}
