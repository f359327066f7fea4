//! What all processes have counted together, whoever is killed.
//!
//! The other processes are this test program itself, started again with `SABLECAT_TEST_DIR` set, so that it
//! runs [`writer`] alone.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use sablecat::{Counters, Durability, Env, ErrorKind, Isolation, TxnOptions};
use sablecat_tests::Place;
use sablecat_tests::worker::test_name;

const DIRECTORY: &str = "SABLECAT_TEST_DIR";
const NUMBER: &str = "SABLECAT_TEST_NUMBER";

fn open(base: &Path) -> Env {
    let builder =
        Env::builder().shared(true).background(false).cache_size(1 << 20).durability(Durability::WriteNoSync);
    builder.region_directory(base.join("region")).open(base.join("env")).expect("opened")
}

/// Commits records that nobody else does, one at a time, for ever; reads each again; and says so.
#[test]
#[ignore = "what the processes of the other tests do"]
fn writer() {
    let (Ok(base), Ok(number)) = (std::env::var(DIRECTORY), std::env::var(NUMBER)) else { return };
    let env = open(Path::new(&base));
    let records = env.existing_database("records").expect("read").expect("there");
    let mut out = std::io::stdout().lock();
    for count in 0u64.. {
        let key = format!("{number}/{count}");
        records.insert(&key, [7; 100]).expect("committed");
        assert!(records.get(&key).expect("read").is_some());
        writeln!(out, "{count}").expect("heard");
    }
}

struct Writer {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Writer {
    fn start(place: &Place, number: usize) -> Writer {
        let mut child = Command::new(std::env::current_exe().expect("known"))
            .args(["--exact", test_name(writer), "--ignored", "--nocapture", "--test-threads", "1"])
            .env(DIRECTORY, &place.base)
            .env(NUMBER, number.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        Writer { child, out }
    }

    /// Kills it some time after it said that it has committed so many records.
    fn kill_after(mut self, count: u64) {
        let mut line = String::new();
        while line.trim().parse() != Ok(count) {
            line.clear();
            assert_ne!(self.out.read_line(&mut line).expect("read"), 0, "it ended by itself");
        }
        self.child.kill().and_then(|()| self.child.wait()).expect("killed");
    }
}

/// The numbers that only grow.
fn growing(seen: &Counters) -> [u64; 10] {
    [
        seen.commits,
        seen.conflicts,
        seen.snapshots_given_up,
        seen.page_hits,
        seen.page_misses,
        seen.pages_swept,
        seen.checkpoints,
        seen.pages_checkpointed,
        seen.log_flushes,
        seen.log_bytes,
    ]
}

#[test]
fn commits_are_counted_once_whoever_is_killed() {
    let place = Place::new("counters-killed");
    let env = open(&place.base);
    let records = env.database("records").expect("created");
    let before = env.counters();
    let mut last = before.clone();
    for round in 0..12 {
        let writers = [0, 1].map(|n| Writer::start(&place, 2 * round + n));
        // Two at once: each may be killed at what the other helps it with, and has the other's slots next.
        for (n, writer) in (7..).zip(writers) {
            writer.kill_after(n * 5 + round as u64);
        }
        let now = env.counters();
        assert!(
            growing(&last).iter().zip(growing(&now)).all(|(last, now)| *last <= now),
            "{last:?} and then {now:?}"
        );
        last = now;
    }
    // Whoever waits for something finishes for the dead; so does who looks.
    env.keep_house().expect("kept");
    while env.processes().len() > 1 {
        env.keep_house().expect("kept");
    }
    let there = records.range(..).expect("read").count() as u64;
    let now = env.counters();
    assert_eq!(now.commits - before.commits, there);
    assert!(
        there >= 2 * 12 * 35 && now.page_hits - before.page_hits >= 2 * there,
        "{there} records, {now:?}"
    );
    assert_eq!((now.processes, now.since), (1, before.since));
    assert!(now.log_bytes - before.log_bytes >= there * 100);
}

#[test]
fn what_a_small_cache_costs_is_counted() {
    let place = Place::new("counters-cache");
    let env = place.open().expect("created");
    let records = env.database("records").expect("created");
    let before = env.counters();
    (0..4000u32).for_each(|n| records.insert(n.to_be_bytes(), [7; 500]).expect("inserted"));
    let written = env.counters();
    assert!(written.pages_swept - before.pages_swept > 100, "{written:?}");
    let pages = env.stats().expect("looked").pages;
    let report = env.checkpoint().expect("written");
    let saved = env.counters();
    assert_eq!(saved.checkpoints - written.checkpoints, 1);
    assert_eq!(saved.pages_checkpointed - written.pages_checkpointed, report.written);
    assert!(written.log_flushes - before.log_flushes >= 4000, "each was made durable: {written:?}");
    assert_eq!(records.range(..).expect("read").count(), 4000);
    let read = env.counters();
    let (misses, hits) = (read.page_misses - saved.page_misses, read.page_hits - saved.page_hits);
    assert!((pages / 2..=pages + 10).contains(&misses), "{misses} of {pages} pages were read in");
    records.get(1u32.to_be_bytes()).expect("read");
    let cached = env.counters();
    for _ in 0..100 {
        records.get(1u32.to_be_bytes()).expect("read");
    }
    let again = env.counters();
    assert_eq!(
        (again.page_misses, again.page_hits - cached.page_hits),
        (cached.page_misses, 100),
        "the leaf is remembered"
    );
    assert_eq!(again.pages_swept, cached.pages_swept);
    assert!(hits > 0);
}

#[test]
fn conflicts_and_snapshots_given_up_are_counted() {
    let env = Env::builder().cache_size(1 << 20).in_memory().expect("made");
    let records = env.database("records").expect("created");
    let before = env.counters();
    let mut loser = env.begin().expect("begun");
    loser.get(&records, "key").expect("read");
    loser.insert(&records, "other", "value").expect("set");
    records.insert("key", "value").expect("committed");
    assert_eq!(loser.commit().expect_err("it has read the key").kind(), ErrorKind::Conflict);
    let mut late = env.begin_with(TxnOptions::new().isolation(Isolation::Snapshot)).expect("begun");
    late.get(&records, "key").expect("read");
    records.insert("key", "newer").expect("committed");
    assert_eq!(late.get_for_update(&records, "key").expect_err("it was changed").kind(), ErrorKind::Conflict);
    assert_eq!(env.counters().conflicts - before.conflicts, 2);
    drop(late);

    // Half of the cache, all of which the snapshot keeps as it is.
    let rewrite = |with: u8| (0..1000u32).try_for_each(|n| records.insert(n.to_be_bytes(), [with; 400]));
    rewrite(1).expect("committed");
    let old = env.snapshot().expect("begun");
    let kept = env.counters().oldest_snapshot.expect("there is one");
    assert_eq!((kept.lag, kept.pid), (0, std::process::id()));
    records.insert("key", "newest").expect("committed");
    let oldest = env.counters().oldest_snapshot.expect("there is one");
    assert!(oldest.lsn == kept.lsn && oldest.lag > 0, "{oldest:?} after {kept:?}");
    assert_eq!(env.counters().snapshots_given_up, 0);
    rewrite(2).expect("committed");
    assert_eq!(env.counters().snapshots_given_up, 1);
    assert_eq!(old.get(&records, "key").expect_err("given up").kind(), ErrorKind::SnapshotTooOld);
}

#[test]
fn who_looks_from_outside_sees_the_same() {
    let place = Place::new("counters-outside");
    let outside = || place.builder().counters(place.env());
    assert_eq!(outside().expect_err("there is none").kind(), ErrorKind::NotFound);
    let env = place.open().expect("created");
    let records = env.database("records").expect("created");
    records.insert("key", "value").expect("committed");
    let _snapshot = env.snapshot().expect("begun");
    let (inside, seen) = (env.counters(), outside().expect("looked").expect("it is open"));
    assert_eq!(seen, inside);
    assert_eq!(
        (seen.processes, seen.oldest_snapshot.map(|oldest| oldest.pid)),
        (1, Some(std::process::id()))
    );
    drop((_snapshot, records));
    env.close().expect("closed");
    assert_eq!(outside().expect("looked"), None, "nobody has it open");
    let left = {
        let env = place.open().expect("opened");
        let left = place.killed("counters-left");
        drop(env);
        left
    };
    assert_eq!(left.builder().counters(left.env()).expect("looked"), None, "all were killed");
    let alone = place.open_alone().expect("opened");
    assert_eq!(outside().expect_err("it is another's alone").kind(), ErrorKind::InUse);
    let counted = alone.counters();
    assert_eq!((counted.processes, counted.oldest_snapshot), (1, None));
}
