//! A reader of the log, beside processes that let go of it: the reader is stopped at any call of the disk,
//! while others archive what it reads, or use it again.

use sablecat_os::sim::SimDisk;

use super::stepped::{Stepped, Stop};
use super::*;
use crate::error::ErrorKind;

const SEGMENT: u64 = 8192;
const RING: usize = 16384;
const CHUNKS: u64 = 6;
const PART: usize = 3900;

/// A log with commits in two lives, one of them in chunks: where each ends, and where the third chunk does.
struct Logged {
    disk: Arc<SimDisk>,
    log: TestLog,
    ends: Vec<Lsn>,
    third_chunk: Lsn,
}

fn logged(archive: Option<PathBuf>) -> Logged {
    let disk = Arc::new(SimDisk::new(1));
    let open = || {
        let config = LogConfig { archive: archive.clone(), ..config(SEGMENT) };
        TestLog::open(Some(disk.clone()), Path::new("log"), config, RING).unwrap()
    };
    let put = |log: &TestLog, n: u8| {
        let end = log.put(&[n], &[7; PART], me(1)).unwrap();
        log.log.make_durable(end, me(1)).unwrap();
        end
    };
    let log = open();
    log.log.start_fresh(Lsn(0), Lsn(0), me(1)).unwrap();
    let mut ends: Vec<_> = (0..5).map(|n| put(&log, n)).collect();
    drop(log);
    let log = open();
    log.log.start_fresh(ends[4], Lsn(0), me(1)).unwrap();
    ends.extend((5..8).map(|n| put(&log, n)));
    let chain = log.log.new_chain();
    let mut record = RecordBuilder::new();
    let mut operations = RecordBuilder::new();
    operations.begin(RecordKind::Commit);
    operations.put(TreeId(9), b"large", &vec![1; CHUNKS as usize * PART]);
    let body = operations.body().to_vec();
    let mut log_chunk = |part: &[u8]| {
        record.chunk(chain, part);
        let end = log.append(&mut record, me(1)).unwrap();
        log.log.make_durable(end, me(1)).unwrap();
        end
    };
    let chunks: Vec<_> = body.chunks(body.len().div_ceil(CHUNKS as usize)).map(&mut log_chunk).collect();
    record.commit_chunked(chain, CHUNKS, body.len() as u64);
    ends.push(log.append(&mut record, me(1)).unwrap());
    // More than the ring has.
    ends.extend((8..16).map(|n| put(&log, n)));
    Logged { disk, log, ends, third_chunk: chunks[2] }
}

/// Reads all commits after a place, and what they change, with a log of its own beside that log.
fn read_after(log: &Log, from: Lsn) -> Result<Vec<Lsn>> {
    let mut tail = log.tail_from(from, tail::Reach::Durable)?;
    let mut found = Vec::new();
    while tail.advance()? {
        let commit = tail.commit().expect("it has gone on to one");
        let mut operations = commit.operations();
        while operations.next().map_err(|error| tail.explain(error))?.is_some() {}
        found.push(commit.lsn);
    }
    Ok(found)
}

/// Has a reader that reads on from one place stopped at each of its calls, one after the other, while what is
/// below another place is let go of.
fn stopped_at_each_call(
    archive: Option<&str>,
    places: impl Fn(&Logged) -> (Lsn, Lsn),
    judge: impl Fn(u64, &Logged, Result<Vec<Lsn>>),
) {
    stopped_at_each_call_of(read_after, archive, places, judge);
}

/// The same of a reader that reads in this way.
fn stopped_at_each_call_of(
    read: impl Fn(&Log, Lsn) -> Result<Vec<Lsn>> + Sync,
    archive: Option<&str>,
    places: impl Fn(&Logged) -> (Lsn, Lsn),
    judge: impl Fn(u64, &Logged, Result<Vec<Lsn>>),
) {
    for at in 1.. {
        let logged = logged(archive.map(PathBuf::from));
        let stop = Arc::new(Stop::default());
        let disk = Arc::new(Stepped { stop: Arc::clone(&stop), of: Arc::clone(&logged.disk) });
        let reader =
            logged.log.beside(disk, LogConfig { archive: archive.map(PathBuf::from), ..config(SEGMENT) });
        let (from, needed) = places(&logged);
        stop.arm(at);
        let (stopped, read) = std::thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let read = read(&reader.log, from);
                stop.end();
                read
            });
            let stopped = stop.wait();
            if stopped {
                logged.log.log.recycle_before(needed, me(1)).unwrap();
                // Used again.
                for n in 0..4 {
                    let end = logged.log.put(&[n], &[8; PART], me(1)).unwrap();
                    logged.log.log.make_durable(end, me(1)).unwrap();
                }
                stop.go_on();
            }
            (stopped, reading.join().unwrap())
        });
        judge(at, &logged, read);
        if !stopped {
            break;
        }
    }
}

#[test]
fn what_is_archived_under_who_reads_it_is_read_all_the_same() {
    for from in [0, 6] {
        stopped_at_each_call(
            Some("journal"),
            |logged| (logged.ends[from], *logged.ends.last().unwrap()),
            |at, logged, read| {
                let read = read.unwrap_or_else(|error| panic!("from {from}, stopped at call {at}: {error}"));
                assert!(
                    read.starts_with(&logged.ends[from + 1..]),
                    "from {from}, stopped at call {at}: {read:?}"
                );
            },
        );
    }
}

#[test]
fn what_is_used_again_under_who_asks_for_the_oldest_is_no_error_of_the_disk() {
    let from_the_oldest = |log: &Log, _| {
        let oldest = log.oldest_kept().unwrap_or_else(|error| panic!("the oldest: {error}"));
        read_after(log, oldest)
    };
    stopped_at_each_call_of(
        from_the_oldest,
        None,
        |logged| (Lsn(0), *logged.ends.last().unwrap()),
        |at, logged, read| match read {
            Ok(read) => {
                let known = logged.ends.iter().filter(|end| read.contains(end)).count();
                assert!(
                    logged.ends[logged.ends.len() - known..].iter().all(|end| read.contains(end)),
                    "{at}"
                );
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::LogGone, "stopped at call {at}: {error}"),
        },
    );
}

/// Also where only what was looked for backwards is: the first parts of a large commit.
#[test]
fn what_is_used_again_under_who_reads_it_is_gone() {
    type Places = fn(&Logged) -> (Lsn, Lsn);
    let places: [(&str, Places); 3] = [
        ("all", |logged| (logged.ends[6], *logged.ends.last().unwrap())),
        ("all from between the parts of a commit on", |logged| {
            (logged.third_chunk, *logged.ends.last().unwrap())
        }),
        ("what is before that", |logged| (logged.third_chunk, logged.third_chunk)),
    ];
    for (what, places) in places {
        stopped_at_each_call(None, places, |at, logged, read| match read {
            Ok(read) => {
                let after: Vec<_> =
                    logged.ends.iter().copied().filter(|&end| end > places(logged).0).collect();
                assert!(read.starts_with(&after), "{what}, stopped at call {at}: {read:?}, {after:?}");
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::LogGone, "{what}, stopped at call {at}: {error}")
            }
        });
    }
}
