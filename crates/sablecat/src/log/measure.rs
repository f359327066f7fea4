//! Measurements, not tests:
//! `cargo test --release -p sablecat log::measure -- --ignored --nocapture --test-threads 1`.
//!
//! They write below the system's temporary directory, or where `SABLECAT_MEASURE_DIR` says.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sablecat_os::disk::{AlignedBuf, Disk, HostDisk, How};

use super::tests::{TestLog, alive, config, me};
use super::*;
use crate::types::TreeId;

const SEGMENT: u64 = 16 << 20;
const RING: usize = 16 << 20;

fn directory(name: &str) -> PathBuf {
    let base = std::env::var_os("SABLECAT_MEASURE_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = base.join(format!("sablecat-measure-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).expect("a directory to measure in");
    directory
}

fn log(directory: &std::path::Path, direct: bool) -> TestLog {
    let disk: Arc<dyn Disk> = Arc::new(HostDisk);
    let mut config = config(SEGMENT);
    config.direct = direct;
    let log = TestLog::open(Some(disk), &directory.join("log"), config, RING).expect("open");
    log.log.start_fresh(Lsn(0), Lsn(0), me(1)).expect("start");
    log
}

/// A record of 72 bytes: what a small put needs.
fn small() -> RecordBuilder {
    let mut record = RecordBuilder::new();
    record.begin(RecordKind::Commit);
    record.put(TreeId(9), b"0123456789abcdef", b"0123456789abcdef01234567");
    record.finish_body();
    assert_eq!(record.len(), 72);
    record
}

/// Processor time this process has used: on a busy machine the truer measure.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("the kernel's own account");
    let after_name = stat.rsplit(") ").next().unwrap_or("");
    let ticks: u64 = after_name.split(' ').skip(11).take(2).map(|n| n.parse::<u64>().unwrap_or(0)).sum();
    Duration::from_millis(ticks * 10)
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}

#[test]
#[ignore = "measures"]
fn sync_alone_against_the_device() {
    let dir = directory("sync");
    let log = log(&dir, true);
    let buffered = self::log(&directory("sync-cached"), false);
    // The device: a 4 KiB direct overwrite of a prewritten file, and a flush.
    let how = How { create: true, direct: true, ..How::default() };
    let file = HostDisk.open(&dir.join("raw"), how).expect("a file");
    let zeros = AlignedBuf::new(1 << 20);
    for n in 0..4 {
        file.write_at(&zeros, n << 20).expect("filled");
    }
    file.sync().expect("flushed");
    let block = AlignedBuf::new(4096);
    let mut record = small();
    let (mut raw, mut ours, mut cached) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..3000 {
        let begun = Instant::now();
        file.write_at(&block, round / 57 * 4096 % (4 << 20)).expect("written");
        file.sync().expect("flushed");
        raw.push(begun.elapsed());
        for (log, times) in [(&log, &mut ours), (&buffered, &mut cached)] {
            let begun = Instant::now();
            let lsn = log.append(&mut record, me(1)).expect("appended");
            log.log.make_durable(lsn, me(1)).expect("durable");
            times.push(begun.elapsed());
        }
    }
    for (name, times) in
        [("raw device", &mut raw), ("make_durable", &mut ours), ("without O_DIRECT", &mut cached)]
    {
        println!(
            "{name:18} p10 {:?} p50 {:?} p90 {:?}",
            percentile(times, 10),
            percentile(times, 50),
            percentile(times, 90)
        );
    }
}

#[test]
#[ignore = "measures"]
fn hand_over_alone() {
    for recycled in [false, true] {
        let log = log(&directory("hand-over"), true);
        let mut record = small();
        if recycled {
            // Go through some segments by direct writes first, so that reused files are not in the page
            // cache.
            for _ in 0..(6 * SEGMENT / 72) {
                let lsn = log.append(&mut record, me(1)).expect("appended");
                if lsn.0 % (1 << 20) < 72 {
                    log.log.make_durable(lsn, me(1)).expect("durable");
                    log.log.recycle_before(lsn, me(1)).expect("recycled");
                    log.log.prepare_next(me(1)).expect("prepared");
                }
            }
        }
        let rounds = 1_000_000;
        let (mut append, mut all, mut other) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        for batch in 0..rounds / 1000 {
            if batch % 10 == 0 {
                let begun = Instant::now();
                log.log.prepare_next(me(1)).expect("prepared");
                log.log
                    .recycle_before(Lsn(log.log.written().0.saturating_sub(SEGMENT)), me(1))
                    .expect("recycled");
                other += begun.elapsed();
            }
            let begun = Instant::now();
            for _ in 0..1000 {
                let lsn = log.append(&mut record, me(1)).expect("appended");
                log.log.hand_over(lsn, me(1)).expect("handed over");
            }
            all += begun.elapsed();
        }
        let log = super::tests::TestLog::open(None, std::path::Path::new(""), config(SEGMENT), RING)
            .map(|l| (l, log))
            .expect("memory")
            .1;
        for _ in 0..rounds / 1000 {
            let begun = Instant::now();
            for _ in 0..1000 {
                log.append(&mut record, me(1)).expect("appended");
            }
            append += begun.elapsed();
            log.log.drain(me(1)).expect("drained");
            log.log.prepare_next(me(1)).expect("prepared");
        }
        println!(
            "recycled {recycled}: append {:.1} ns, append + hand_over {:.1} ns (housekeeping beside it {:?})",
            append.as_nanos() as f64 / f64::from(rounds),
            all.as_nanos() as f64 / f64::from(rounds),
            other
        );
        println!("{:?}", log.log);
    }
}

fn many(threads: u16, for_ms: u64, commit: impl Fn(&TestLog, Lsn, Caller<'_>) + Sync, log: &TestLog) -> f64 {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for owner in 1..=threads {
            let (stop, done, commit) = (&stop, &done, &commit);
            scope.spawn(move || {
                let caller = Caller::new(owner, &alive);
                let mut record = small();
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    let lsn = log.append(&mut record, caller).expect("appended");
                    commit(log, lsn, caller);
                    count += 1;
                }
                done.fetch_add(count, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            let caller = Caller::new(1000, &alive);
            while begun.elapsed() < Duration::from_millis(for_ms) {
                log.log.prepare_next(caller).expect("prepared");
                std::thread::park_timeout(Duration::from_millis(5));
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
    done.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64()
}

#[test]
#[ignore = "measures"]
fn groups() {
    for direct in [true, false] {
        let log = log(&directory("groups"), direct);
        for threads in [1, 2, 4, 16, 50, 100] {
            let flushes = log.log.words().counters.0.flushes.load(Ordering::Relaxed);
            let used = processor_time();
            let rate = many(
                threads,
                1500,
                |log, lsn, caller| log.log.make_durable(lsn, caller).expect("durable"),
                &log,
            );
            let flushes = log.log.words().counters.0.flushes.load(Ordering::Relaxed) - flushes;
            let each = (processor_time() - used).as_secs_f64() * 1e6 / (rate * 1.5);
            let flushes = flushes as f64 / 1.5;
            println!(
                "direct {direct}: sync, {threads:3} threads: {rate:9.0} commits/s, {flushes:8.0} flushes/s, \
                 {each:.1} us of processor each"
            );
        }
    }
}

#[test]
#[ignore = "measures"]
fn hand_over_from_many() {
    let log = log(&directory("many"), true);
    for threads in [1, 2, 4, 16, 50] {
        let rate =
            many(threads, 500, |log, lsn, caller| log.log.hand_over(lsn, caller).expect("handed over"), &log);
        println!("write-no-sync, {threads:3} threads: {rate:9.0} commits/s");
    }
}
