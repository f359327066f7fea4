//! The archive: what is put there and kept, and scans through it.

use sablecat_os::calendar::Moment;
use sablecat_os::sim::SimDisk;

use super::*;

const SEGMENT: u64 = 8192;
const RING: usize = 32768;

fn archiving() -> LogConfig {
    LogConfig { archive: Some(PathBuf::from("journal")), ..config(SEGMENT) }
}

fn open(disk: &Arc<SimDisk>) -> TestLog {
    TestLog::open(Some(disk.clone()), Path::new("log"), archiving(), RING).unwrap()
}

/// Commits `count` records of 4000 bytes, each durable; where each ends.
fn fill(log: &TestLog, count: usize) -> Vec<Lsn> {
    let commit = |n: usize| {
        let end = log.put(&[n as u8], &[7; 3900], me(1)).unwrap();
        log.log.make_durable(end, me(1)).unwrap();
        end
    };
    (0..count).map(commit).collect()
}

fn names(disk: &SimDisk, directory: &str) -> Vec<String> {
    disk.list(Path::new(directory)).unwrap_or_default()
}

/// The ends of the commits of a scan.
fn commits(scan: LogScan<'_>) -> Vec<Lsn> {
    read(scan)
        .unwrap()
        .0
        .into_iter()
        .filter(|(kind, ..)| *kind == RecordKind::Commit)
        .map(|(_, _, end, _)| end)
        .collect()
}

#[test]
fn the_oldest_go_first_and_never_one_that_is_needed() {
    let disk = Arc::new(SimDisk::new(1));
    let log = open(&disk);
    log.log.start_fresh(Lsn(0), Lsn(0), me(1)).unwrap();
    let ends = fill(&log, 21);
    let tail = *ends.last().unwrap();
    log.log.recycle_before(tail, me(1)).unwrap();
    let all = names(&disk, "journal").len();
    assert!(all >= 9, "{all}");
    let prune = |bytes_max, since, needed| {
        log.log.prune_archive(Retention { bytes_max, since }, needed, me(1)).unwrap();
        names(&disk, "journal").len()
    };
    assert_eq!(prune(None, None, tail), all, "no limit");
    assert_eq!(prune(Some(1), Some(Moment { ms: u64::MAX }), Lsn(0)), all, "all of it is needed");
    assert_eq!(prune(None, Some(Moment { ms: 0 }), tail), all, "nothing is as old as that");
    let len = 4096 + SEGMENT;
    assert_eq!(prune(Some(len * all as u64 - 1), None, tail), all - 1);
    // That which ends at the LSN needed is needed: a scan from there wants to see it.
    assert_eq!(prune(Some(1), None, Lsn(4 * SEGMENT)), all - 3);
    assert_eq!(commits(log.log.segments().unwrap().scan_kept(ends[8], None).unwrap()), ends[9..]);
    assert_eq!(prune(None, Some(Moment { ms: u64::MAX }), tail), 0);
}

#[test]
fn closing_archives_what_was_logged_and_no_more() {
    let disk = Arc::new(SimDisk::new(1));
    let log = open(&disk);
    log.log.start_fresh(Lsn(0), Lsn(0), me(1)).unwrap();
    let ends = fill(&log, 5);
    let end = ends[4];
    log.log.give_up_files(end, me(1)).unwrap();
    assert_eq!((names(&disk, "journal").len(), names(&disk, "log").len()), (3, 0));
    let last = log.log.segments().unwrap().files().unwrap().pop().unwrap();
    assert_eq!(last.bytes, 4096 + (end.0 - last.first.0).next_multiple_of(4096), "the last one is cut");

    // A life in which nothing happens is as if it had not been.
    for _ in 0..3 {
        let log = open(&disk);
        let start = log.log.start_fresh(end, Lsn(0), me(1)).unwrap();
        assert_eq!((start, log.log.closing_position(start)), (Lsn(3 * SEGMENT), end));
        log.log.give_up_files(start, me(1)).unwrap();
        assert_eq!((names(&disk, "journal").len(), names(&disk, "log").len()), (3, 0));
    }
    let log = open(&disk);
    log.log.start_fresh(end, Lsn(0), me(1)).unwrap();
    let more = fill(&log, 3);
    assert_eq!(log.log.closing_position(more[2]), more[2]);
    log.log.give_up_files(more[2], me(1)).unwrap();
    let segments = open(&disk);
    let scan = segments.log.segments().unwrap().scan_kept(Lsn(0), Some(more[2])).unwrap();
    assert_eq!(commits(scan), [&ends[..], &more[..]].concat());
}

/// Taken back to an earlier LSN, the log goes on elsewhere; what came after that LSN is a branch that leads
/// nowhere.
#[test]
fn a_scan_follows_the_lives_that_lead_to_the_end() {
    let disk = Arc::new(SimDisk::new(1));
    let log = open(&disk);
    log.log.start_fresh(Lsn(0), Lsn(0), me(1)).unwrap();
    let first = fill(&log, 9);
    log.log.give_up_files(first[8], me(1)).unwrap();
    let log = open(&disk);
    let floor = log.log.segments().unwrap().end_of_numbers().unwrap();
    let start = log.log.start_fresh(first[2], floor, me(1)).unwrap();
    assert!(start >= floor);
    let second = fill(&log, 4);
    log.log.give_up_files(second[3], me(1)).unwrap();
    // Once more, to before the second life.
    let log = open(&disk);
    let floor = log.log.segments().unwrap().end_of_numbers().unwrap();
    log.log.start_fresh(first[1], floor, me(1)).unwrap();
    let third = fill(&log, 2);

    let segments = log.log.segments().unwrap();
    let all = |parts: &[&[Lsn]]| parts.concat();
    assert_eq!(commits(segments.scan_kept(Lsn(0), None).unwrap()), all(&[&first[..2], &third]));
    assert_eq!(commits(segments.scan_kept(first[0], None).unwrap()), all(&[&first[1..2], &third]));
    assert_eq!(
        commits(segments.scan_kept(Lsn(0), Some(second[1])).unwrap()),
        all(&[&first[..3], &second[..2]])
    );
    assert_eq!(commits(segments.scan_kept(Lsn(0), Some(first[5])).unwrap()), first[..6]);
    assert!(
        segments.scan_kept(first[5], None).unwrap_err().is_corruption(),
        "the present does not come from there"
    );
}

#[test]
fn commits_have_a_time_record_before_them() {
    let disk = Arc::new(SimDisk::new(1));
    let log = open(&disk);
    log.log.start_fresh(Lsn(0), Lsn(0), me(1)).unwrap();
    log.log.time_is_at_least(1000);
    let before = log.log.time();
    fill(&log, 1);
    let mut scan = log.log.scan(Lsn(0)).unwrap();
    let time = scan.next().unwrap().unwrap().time().expect("the first record says when it was");
    assert!(time.ms >= before);
    assert_eq!(scan.next().unwrap().unwrap().kind, RecordKind::Commit);
    // A clock that was set back: time stands still, and there is no record.
    log.log.time_is_at_least(u64::MAX);
    assert_eq!(log.log.time(), u64::MAX);
    let start = log.log.tail();
    fill(&log, 1);
    assert_eq!(log.log.scan(start).unwrap().next().unwrap().unwrap().kind, RecordKind::Commit);
}

/// A process that closes dies between cutting a segment to what it holds, which is nothing, and archiving it.
#[test]
fn a_segment_cut_to_nothing_is_not_a_log_that_goes_on() {
    let disk = Arc::new(SimDisk::new(1));
    open(&disk).log.start_fresh(Lsn(0), Lsn(0), me(1)).unwrap();
    let log = open(&disk);
    let start = log.log.start_fresh(Lsn(0), Lsn(0), me(1)).unwrap();
    for n in 1.. {
        // Each with words of its own: the words of a log that met an error say so from then on.
        let log = open(&disk);
        disk.crash_at(disk.calls() + n);
        let done = log.log.give_up_files(start, me(1)).is_ok();
        disk.clear_faults();
        assert!(!open(&disk).log.goes_on_after(Lsn(0), Lsn(0)).unwrap(), "after {n} calls");
        if done {
            break;
        }
    }
}
