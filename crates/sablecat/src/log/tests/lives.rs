//! Reopening: lives that follow each other, and files that are not what they should be.

use sablecat_os::disk::How;
use sablecat_os::sim::SimDisk;

use super::*;
use crate::error::ErrorKind;

const SEGMENT: u64 = 8192;
const RING: usize = 32768;

fn reopen(disk: &Arc<SimDisk>) -> TestLog {
    TestLog::open(Some(disk.clone()), Path::new("log"), config(SEGMENT), RING).unwrap()
}

fn path(number: u64) -> String {
    format!("log/{number:016x}.log")
}

/// Three lives of two commits each; returns the start of each life and the end of the last.
fn three_lives(disk: &Arc<SimDisk>) -> (Vec<Lsn>, Lsn) {
    let mut starts = Vec::new();
    let mut end = Lsn(0);
    for n in 0..3u8 {
        let log = reopen(disk);
        end = if n == 0 { Lsn(0) } else { read_all(&log.log, Lsn(0)).unwrap().1.lsn };
        starts.push(log.log.start_fresh(end, Lsn(0), me(1)).unwrap());
        log.put(&[n], b"first", me(1)).unwrap();
        end = log.put(&[n], b"second", me(1)).unwrap();
        log.log.make_durable(end, me(1)).unwrap();
    }
    (starts, end)
}

#[test]
fn a_scan_goes_through_all_lives() {
    let disk = Arc::new(SimDisk::new(1));
    let (starts, end) = three_lives(&disk);
    assert_eq!(starts, [Lsn(0), Lsn(SEGMENT), Lsn(2 * SEGMENT)]);
    let log = reopen(&disk);
    for (n, start) in starts.iter().enumerate() {
        let (records, found) = read_all(&log.log, *start).unwrap();
        assert_eq!((records.len(), found), (6 - 2 * n, LogEnd { lsn: end, reason: EndReason::Clean }));
    }
}

type Hook = Box<dyn FnOnce() + Send>;

/// A disk on which something happens right after the files are listed, once.
struct Listed(Arc<SimDisk>, std::sync::Mutex<Option<Hook>>);

impl std::fmt::Debug for Listed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Disk for Listed {
    fn open(&self, path: &Path, how: How) -> std::io::Result<Arc<dyn sablecat_os::disk::File>> {
        self.0.open(path, how)
    }
    fn create_dir_all(&self, path: &Path) -> std::io::Result<()> {
        self.0.create_dir_all(path)
    }
    fn list(&self, dir: &Path) -> std::io::Result<Vec<String>> {
        let listed = self.0.list(dir);
        if let Some(hook) = self.1.lock().unwrap().take() {
            hook();
        }
        listed
    }
    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        self.0.rename(from, to)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        self.0.rename_new(from, to)
    }
    fn remove(&self, path: &Path) -> std::io::Result<()> {
        self.0.remove(path)
    }
    fn exists(&self, path: &Path) -> std::io::Result<bool> {
        self.0.exists(path)
    }
    fn sync_dir(&self, dir: &Path) -> std::io::Result<()> {
        self.0.sync_dir(dir)
    }
    fn free_bytes(&self, dir: &Path) -> std::io::Result<u64> {
        self.0.free_bytes(dir)
    }
}

/// A process that joins others looks at the newest segment there is, and may find that it is no longer in
/// use.
#[test]
fn a_segment_given_up_under_who_opens_the_log_is_passed_by() {
    for listed in [true, false] {
        let disk = Arc::new(SimDisk::new(1));
        let next = path(1);
        let log = TestLog::create(Arc::clone(&disk) as Arc<dyn Disk>, SEGMENT, RING);
        let bytes = log.log.segments().unwrap().header(1, 0, 0).encode();
        if !listed {
            // As where the next one comes too late for the list, and the last one goes too early.
            disk.rename(Path::new(&path(0)), Path::new("log/elsewhere")).unwrap();
        }
        let give_up = {
            let disk = Arc::clone(&disk);
            move || {
                let how =
                    How { create: true, create_new: false, read_only: false, direct: false, durable: false };
                disk.open(Path::new(&next), how).unwrap().write_at(&bytes, 0).unwrap();
                if listed {
                    disk.remove(Path::new(&path(0))).unwrap();
                }
            }
        };
        let listing: Arc<dyn Disk> = Arc::new(Listed(disk, std::sync::Mutex::new(Some(Box::new(give_up)))));
        // The files say how long segments are, not the process that opens them.
        let joined = TestLog::open(Some(listing), Path::new("log"), config(4 * SEGMENT), RING).unwrap();
        assert_eq!(joined.log.segments().unwrap().first_lsn(1), Lsn(SEGMENT), "listed: {listed}");
    }
}

#[test]
fn opening_again_and_again_does_not_pile_up_files() {
    let disk = Arc::new(SimDisk::new(1));
    for _ in 0..20 {
        let log = reopen(&disk);
        let from =
            log.log.files().unwrap().segments.numbers().unwrap().last().map_or(Lsn(0), |n| Lsn(n * SEGMENT));
        let end = read_all(&log.log, from).unwrap().1.lsn;
        let start = log.log.start_fresh(end, Lsn(0), me(1)).unwrap();
        log.log.prepare_next(me(1)).unwrap();
        log.log.recycle_before(start, me(1)).unwrap();
    }
    assert!(disk.list(Path::new("log")).unwrap().len() <= 5);
}

#[test]
fn damage_in_a_life_that_was_followed_is_an_error_even_without_witnesses() {
    let disk = Arc::new(SimDisk::new(1));
    let (starts, _) = three_lives(&disk);
    let file = disk.open(Path::new(&path(1)), How::default()).unwrap();
    // Its last record, which no later record of its life could vouch for.
    file.write_at(&[0xff], 4096 + 64).unwrap();
    let error = read_all(&reopen(&disk).log, starts[0]).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("earlier recovery"), "{error}");
    read_all(&reopen(&disk).log, starts[2]).unwrap();
}

#[test]
fn a_missing_segment_is_named() {
    for (gone, from) in [(0, Lsn(0)), (1, Lsn(0)), (1, Lsn(SEGMENT)), (2, Lsn(2 * SEGMENT + 48))] {
        let disk = Arc::new(SimDisk::new(1));
        three_lives(&disk);
        disk.remove(Path::new(&path(gone))).unwrap();
        // Without its last segment a log cannot know what it lacks, unless it is asked for that.
        let outcome = reopen(&disk).log.scan(from).map(|_| ());
        let error = outcome.expect_err("missing");
        assert!(error.is_corruption(), "{error}");
    }
}

#[test]
fn headers_are_checked() {
    let damage = |at: u64, bytes: &[u8]| {
        let disk = Arc::new(SimDisk::new(1));
        three_lives(&disk);
        disk.open(Path::new(&path(1)), How::default()).unwrap().write_at(bytes, at).unwrap();
        reopen(&disk).log.scan(Lsn(0)).map(|_| ()).expect_err("damaged").to_string()
    };
    assert!(damage(0, b"x").contains("does not begin as a log segment"));
    assert!(damage(20, b"x").contains("checksum"));
    let disk = Arc::new(SimDisk::new(1));
    three_lives(&disk);
    let mut other = config(SEGMENT);
    other.uuid[0] ^= 1;
    let error = TestLog::open(Some(disk.clone()), Path::new("log"), other, RING)
        .map(|_| ())
        .expect_err("another environment's");
    assert!(error.is_corruption() && error.to_string().contains("another environment"), "{error}");
    disk.rename(Path::new(&path(1)), Path::new(&path(7))).unwrap();
    let error = TestLog::open(Some(disk), Path::new("log"), config(SEGMENT), RING)
        .map(|_| ())
        .expect_err("misplaced");
    assert!(error.to_string().contains("says it is segment 0000000000000001"), "{error}");
}

#[test]
fn a_log_keeps_its_segment_size() {
    let disk = Arc::new(SimDisk::new(1));
    let (_, end) = three_lives(&disk);
    let log = TestLog::open(Some(disk.clone()), Path::new("log"), config(4 * SEGMENT), RING).unwrap();
    assert_eq!(log.log.files().unwrap().segments.bytes(), SEGMENT);
    assert_eq!(read_all(&log.log, Lsn(0)).unwrap().1.lsn, end);
    for bytes in [0, 1000, 4097] {
        let refused = TestLog::open(Some(disk.clone()), Path::new("other/log"), config(bytes), RING)
            .map(|_| ())
            .expect_err("size");
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
}

#[test]
fn a_log_may_end_exactly_with_a_segment() {
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk.clone(), SEGMENT, RING);
    let mut record = RecordBuilder::new();
    record.begin(RecordKind::Commit);
    record.raw(&[1; SEGMENT as usize - 24]);
    record.finish_body();
    let end = log.append(&mut record, me(1)).unwrap();
    assert_eq!(end, Lsn(SEGMENT));
    log.log.make_durable(end, me(1)).unwrap();
    log.log.recycle_before(end, me(1)).unwrap();
    assert_eq!(read_all(&log.log, end).unwrap(), (vec![], LogEnd { lsn: end, reason: EndReason::Clean }));
    let log = reopen(&disk);
    let (_, found) = read_all(&log.log, end).unwrap();
    let start = log.log.start_fresh(found.lsn, Lsn(0), me(1)).unwrap();
    assert!(start > end);
    let log = reopen(&disk);
    assert_eq!(read_all(&log.log, end).unwrap().1.lsn, end, "nothing was logged since");
}

#[test]
fn a_new_environment_has_an_empty_log() {
    let disk = Arc::new(SimDisk::new(1));
    let log = reopen(&disk);
    assert_eq!(
        read_all(&log.log, Lsn(0)).unwrap(),
        (vec![], LogEnd { lsn: Lsn(0), reason: EndReason::Clean })
    );
    assert!(log.log.scan(Lsn(SEGMENT)).unwrap_err().is_corruption(), "a checkpoint there, and no log at all");
}

/// Somebody begins a life in the files of a log that is in use.
#[test]
fn nobody_goes_on_in_a_segment_of_another_life() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(7));
    let one = TestLog::create(Arc::clone(&disk), 65536, 65536);
    let end = one.put(b"key", b"of one", me(1)).expect("put");
    one.log.make_durable(end, me(1)).expect("durable");
    let two = TestLog::open(Some(disk), Path::new("log"), config(65536), 65536).expect("open");
    let (_, found) = read_all(&two.log, Lsn(0)).expect("read");
    assert_eq!(found.lsn, end);
    let life = two.log.start_fresh(end, Lsn(0), me(1)).expect("begun");
    let refused = loop {
        match one.put(b"key", &[7; 5000], me(1)) {
            Ok(end) => assert!(end <= life, "{end} is in the other's segment"),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
    let end = two.put(b"key", b"of two", me(1)).expect("put");
    two.log.make_durable(end, me(1)).expect("durable");
    let (records, _) = read_all(&two.log, Lsn(0)).expect("nothing is mixed");
    assert_eq!(records.len(), 2);
}

/// As on a full disk: what the life had is given up before it has a segment, and it goes on from its own
/// beginning.
#[test]
fn a_life_that_begins_where_the_last_checkpoint_ended_is_seen_to_go_on() {
    let disk = Arc::new(SimDisk::new(1));
    let log = reopen(&disk);
    let begins = log.log.start_fresh(Lsn(0), Lsn(2 * SEGMENT), me(1)).unwrap();
    assert!(!log.log.goes_on_after(begins, Lsn(0)).unwrap());
    let end = log.put(b"key", b"value", me(1)).unwrap();
    log.log.make_durable(end, me(1)).unwrap();
    assert!(log.log.goes_on_after(begins, Lsn(0)).unwrap());
}
