//! The log while nothing breaks, and while the disk is full or failing: what goes in comes out, in order, or
//! is refused.

use proptest::prelude::*;
use sablecat_os::disk::How;
use sablecat_os::sim::{Fault, SimDisk};

use super::*;
use crate::error::ErrorKind;

const SEGMENT: u64 = 8192;
const RING: usize = 16384;

#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Durable,
    HandOver,
    Drain,
    Prepare,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0usize..400).prop_map(Step::Append),
        2 => (0usize..8000).prop_map(Step::Append),
        2 => Just(Step::Durable),
        3 => Just(Step::HandOver),
        1 => Just(Step::Drain),
        1 => Just(Step::Prepare),
    ];
    proptest::collection::vec(step, 1..120)
}

/// Whatever the block that was written before had there.
#[test]
fn behind_the_tail_its_block_has_zeros() {
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(Arc::clone(&disk) as Arc<dyn Disk>, 1 << 16, RING);
    let file = disk.open(Path::new("log/0000000000000000.log"), How::default()).unwrap();
    for len in [3000, 500, 2000, 10, 3900, 4000, 1000, 200] {
        let end = log.put(b"key", &vec![7; len], me(1)).unwrap();
        log.log.make_durable(end, me(1)).unwrap();
        let mut rest = vec![0xff; (end.0.next_multiple_of(4096) - end.0) as usize];
        file.read_at(&mut rest, 4096 + end.0).unwrap();
        assert!(rest.iter().all(|&byte| byte == 0), "behind {end}, a record of {len} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Around the ring and across segments, by every way out.
    #[test]
    fn what_was_appended_is_read_back(steps in steps(), direct in any::<bool>()) {
        let disk = Arc::new(SimDisk::new(1));
        let mut config = config(SEGMENT);
        config.direct = direct;
        let log = TestLog::open(Some(disk), Path::new("log"), config, RING).unwrap();
        let start = log.log.start_fresh(Lsn(0), Lsn(0), me(1)).unwrap();
        let mut model = Vec::new();
        let mut at = start;
        for (n, step) in steps.iter().enumerate() {
            match step {
                Step::Append(len) => {
                    let mut record = RecordBuilder::new();
                    record.begin(RecordKind::Commit);
                    let body: Vec<u8> = (0..*len).map(|i| (i * 7 + n) as u8).collect();
                    record.raw(&body);
                    record.finish_body();
                    let end = log.append(&mut record, me(1)).unwrap();
                    model.push((RecordKind::Commit, at, end, body));
                    at = end;
                }
                Step::Durable => {
                    log.log.make_durable(at, me(1)).unwrap();
                    prop_assert_eq!(log.log.durable(), at);
                }
                Step::HandOver => {
                    log.log.hand_over(at, me(1)).unwrap();
                    prop_assert_eq!(log.log.written(), at);
                }
                Step::Drain => log.log.drain(me(1)).unwrap(),
                Step::Prepare => log.log.prepare_next(me(1)).unwrap(),
            }
        }
        log.log.hand_over(at, me(1)).unwrap();
        let (records, end) = read_all(&log.log, start).unwrap();
        prop_assert_eq!(records, model.clone());
        prop_assert_eq!(end, LogEnd { lsn: at, reason: EndReason::Clean });
        if let Some((_, middle, ..)) = model.get(model.len() / 2) {
            prop_assert_eq!(read_all(&log.log, *middle).unwrap().0, model[model.len() / 2..].to_vec());
        }
    }
}

#[test]
fn in_memory_everything_counts_at_once() {
    let log = TestLog::open(None, Path::new("unused"), config(SEGMENT), RING).unwrap();
    log.log.start_fresh(Lsn(0), Lsn(0), me(1)).unwrap();
    assert!(!log.log.keeps_records());
    for _ in 0..10_000 {
        let lsn = log.put(b"key", b"value", me(1)).unwrap();
        log.log.make_durable(lsn, me(1)).unwrap();
        assert_eq!((log.log.written(), log.log.durable()), (lsn, lsn));
    }
    assert_eq!(log.log.scan(Lsn(0)).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn segments_behind_the_checkpoint_are_used_again() {
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk.clone(), SEGMENT, RING);
    let mut checkpoint = Lsn(0);
    let mut written = Vec::new();
    for n in 0..2000u32 {
        let lsn = log.put(&n.to_be_bytes(), &[n as u8; 100], me(1)).unwrap();
        written.push(lsn);
        if n % 100 == 99 {
            log.log.make_durable(lsn, me(1)).unwrap();
            log.log.recycle_before(checkpoint, me(1)).unwrap();
            checkpoint = lsn;
        }
        log.log.prepare_next(me(1)).unwrap();
    }
    // 2000 records of 144 bytes, or 35 segments, have passed through; few files remain, none of them new.
    let names = disk.list(Path::new("log")).unwrap();
    assert!(names.len() <= 8, "{names:?}");
    let (records, end) = read_all(&log.log, checkpoint).unwrap();
    assert_eq!((records.len(), end.lsn), (0, *written.last().unwrap()));
    let (records, _) = read_all(&log.log, written[1899]).unwrap();
    assert_eq!(records.len(), 100);
    assert!(log.log.scan(Lsn(0)).unwrap_err().is_corruption(), "segments that are gone are missed");
}

#[test]
fn spare_segments_are_as_many_as_were_needed_lately() {
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk.clone(), SEGMENT, RING);
    let spares =
        || disk.list(Path::new("log")).unwrap().iter().filter(|name| name.ends_with(".spare")).count();
    let append = |count: u32| {
        for _ in 0..count {
            log.put(b"key", &[7; 100], me(1)).unwrap();
        }
        let lsn = log.log.tail();
        log.log.make_durable(lsn, me(1)).unwrap();
        log.log.recycle_before(lsn, me(1)).unwrap();
    };
    append(1000);
    assert_eq!(spares(), 2, "a burst leaves as many as are allowed");
    append(70);
    assert_eq!(spares(), 1, "after less there are fewer");
    append(1);
    assert_eq!(spares(), 0, "and none when none was used up");
}

#[test]
fn a_short_life_fills_no_segment() {
    const LARGE: u64 = 16 << 20;
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk.clone(), LARGE, RING);
    let ready = || log.log.words().prepared.0.load(Ordering::SeqCst);
    assert_eq!(ready(), 1 << 20);
    assert!(!log.log.wants_segment());
    let mut ends = Vec::new();
    while log.log.tail().0 < 3 * LARGE {
        ends.push(log.put(b"key", &[3; 5000], me(1)).unwrap());
        // More than has been used is never made ready, but for the least.
        assert!(ready() <= (4 * log.log.tail().0).max(1 << 20) && ready() >= log.log.tail().0);
        log.log.drain(me(1)).unwrap();
        log.log.prepare_next(me(1)).unwrap();
        assert!(!log.log.wants_segment());
    }
    log.log.make_durable(log.log.tail(), me(1)).unwrap();
    assert_eq!(read_all(&log.log, Lsn(0)).unwrap().0.len(), ends.len());
}

#[test]
fn a_full_disk_is_an_error_before_the_commit_point_and_may_pass() {
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk.clone(), SEGMENT, RING);
    disk.set_capacity(2 * (SEGMENT + 4096) + 4096);
    let mut last = Lsn(0);
    let error = loop {
        match log.put(b"key", &[7; 500], me(1)) {
            Ok(lsn) => last = lsn,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    assert_eq!(log.log.tail(), last);
    log.log.make_durable(last, me(1)).unwrap();
    disk.set_capacity(1 << 30);
    let more = log.put(b"key", &[7; 500], me(1)).unwrap();
    log.log.make_durable(more, me(1)).unwrap();
    assert_eq!(read_all(&log.log, Lsn(0)).unwrap().1.lsn, more);
}

#[test]
fn a_failed_flush_poisons_and_names_the_first_cause() {
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk.clone(), SEGMENT, RING);
    let good = log.put(b"key", b"good", me(1)).unwrap();
    log.log.make_durable(good, me(1)).unwrap();
    let lost = log.put(b"key", b"lost", me(1)).unwrap();
    // The calls from here: the write, the flush.
    disk.fail_at(disk.calls() + 1, Fault::SyncFails);
    disk.fail_at(disk.calls() + 2, Fault::SyncFails);
    let error = log.log.make_durable(lost, me(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Poisoned);
    assert!(error.to_string().contains("0000000000000000.log"), "{error}");
    assert_eq!(log.log.durable(), good);
    let again = log.log.make_durable(lost, me(2)).unwrap_err();
    assert_eq!((again.kind(), again.to_string()), (ErrorKind::Poisoned, error.to_string()));
    assert_eq!(
        log.log.hand_over(lost, me(1)).map_err(|e| e.kind()).unwrap_or(()),
        (),
        "it was written before the flush failed"
    );
    assert_eq!(log.put(b"key", b"later", me(1)).unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(log.log.drain(me(1)).unwrap_err().kind(), ErrorKind::Poisoned);
    log.log.make_durable(good, me(1)).unwrap();
}

#[test]
fn a_large_write_set_comes_back_from_its_chunks() {
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk, SEGMENT, RING);
    let mut body = RecordBuilder::new();
    body.begin(RecordKind::Commit);
    for n in 0..200u32 {
        body.put(TreeId(n), &n.to_be_bytes(), &vec![n as u8; n as usize * 3]);
    }
    let bytes = body.body().to_vec();
    let (chain, other) = (log.log.new_chain(), log.log.new_chain());
    assert_ne!(chain, other);
    let mut record = RecordBuilder::new();
    let mut chunks = 0;
    for part in bytes.chunks(1000) {
        record.chunk(chain, part);
        log.append(&mut record, me(1)).unwrap();
        // Others commit in between, and one of them never finishes.
        log.put(b"other", b"value", me(1)).unwrap();
        record.chunk(other, part);
        log.append(&mut record, me(1)).unwrap();
        chunks += 1;
    }
    record.commit_chunked(chain, chunks, bytes.len() as u64);
    let end = log.append(&mut record, me(1)).unwrap();
    log.log.make_durable(end, me(1)).unwrap();

    let mut commits = Commits::new(log.log.scan(Lsn(0)).unwrap(), Lsn(0));
    let mut seen = 0;
    while let Some(commit) = commits.next().unwrap() {
        // However often it is asked.
        for _ in 0..2 {
            let mut operations = commit.operations();
            let mut at = 0u32;
            while let Some(operation) = operations.next().unwrap() {
                if commit.lsn == end {
                    let value = vec![at as u8; at as usize * 3];
                    assert_eq!(
                        operation,
                        LogOperation::Put { tree: TreeId(at), key: &at.to_be_bytes(), value: &value }
                    );
                } else {
                    assert_eq!(
                        operation,
                        LogOperation::Put { tree: TreeId(9), key: b"other", value: b"value" }
                    );
                }
                at += 1;
            }
            seen = at;
        }
    }
    assert_eq!(seen, 200);
}
