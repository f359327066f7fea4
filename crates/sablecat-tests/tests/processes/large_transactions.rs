//! Transactions that change far more than the cache holds, through the public interface.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use sablecat::{Builder, Durability, Env, ErrorKind, Isolation, Method};
use sablecat_os::disk::between::{Between, Call, Judge, Verdict};
use sablecat_os::sim::{SimDisk, Survival};
use sablecat_tests::worker::test_name;

const DIRECTORY: &str = "/env";

/// The smallest cache there is, of the smallest pages: 128 KiB.
fn tiny(disk: &SimDisk) -> Builder {
    Env::builder()
        .disk(Arc::new(disk.clone()))
        .page_size(512)
        .cache_size(0)
        .log_buffer_size(1 << 16)
        .log_segment_size(1 << 18)
        .durability(Durability::Sync)
        .background(false)
}

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn contents(env: &Env) -> BTreeMap<String, Contents> {
    let snapshot = env.snapshot().expect("a seat");
    let names = snapshot.databases().expect("read");
    let all = |name: &String| {
        let database = snapshot.existing_database(name).expect("read").expect("there");
        let records = snapshot.range(&database, ..).expect("read");
        records
            .map(|record| record.map(|(key, value)| (key.to_vec(), value.to_vec())).expect("read"))
            .collect()
    };
    names.iter().map(String::clone).zip(names.iter().map(all).collect::<Vec<_>>()).collect()
}

/// Whether everything is as it should be once the map says so.
fn assert_sound(env: &Env) {
    env.keep_house().expect("kept");
    env.checkpoint().expect("written");
    let report = env.verify(&mut |_| {}).expect("verified");
    assert_eq!((&report.problems[..], report.pages_unreachable), (&[][..], 0));
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn fill(env: &Env) {
    for (name, records) in [("a", 1200), ("b", 400)] {
        let database = env.database(name).expect("created");
        database.insert_batch((0..records).map(|n| (key(n), [n as u8; 100]))).expect("inserted");
        database.insert(key(7), [7; 9000]).expect("a long value");
        database.insert([b'l'; 300], "of a long key").expect("inserted");
    }
    env.checkpoint().expect("written");
}

/// Changes most pages of two databases, makes one and removes one, with long keys and values.
fn change(env: &Env) -> sablecat::Result<()> {
    let (a, b) = (env.database("a")?, env.database("b")?);
    env.write(|txn| {
        for n in 0..1500 {
            match n % 10 {
                3 => _ = txn.remove(&a, key(n))?,
                7 => txn.insert(&a, key(n), vec![n as u8; 1500 + n as usize])?,
                _ => txn.insert(&a, key(n), [(n as u8).wrapping_add(1); 120])?,
            }
        }
        (50..390).try_for_each(|n| txn.remove(&b, key(n)).map(drop))?;
        txn.insert(&b, [b'l'; 299], "of another long key")?;
        txn.insert(&b, [b'l'; 300], "of the same long key")?;
        txn.remove_database("gone")?;
        let new = txn.database("new")?;
        (0..500).try_for_each(|n| txn.insert(&new, key(n), [n as u8; 60]))
    })
}

fn filled(disk: &SimDisk) -> Env {
    let env = tiny(disk).open(DIRECTORY).expect("created");
    fill(&env);
    env.database("gone").expect("created").insert("k", "v").expect("inserted");
    env
}

/// Before and after, as an environment with room for everything has it.
fn before_and_after() -> [BTreeMap<String, Contents>; 2] {
    let env = Env::builder().page_size(512).in_memory().expect("memory");
    fill(&env);
    env.database("gone").expect("created").insert("k", "v").expect("inserted");
    let before = contents(&env);
    change(&env).expect("committed");
    [before, contents(&env)]
}

#[test]
fn a_transaction_of_many_times_the_cache_is_a_transaction_like_any_other() {
    let [before, after] = before_and_after();
    let disk = SimDisk::new(1);
    let env = filled(&disk);
    assert!(contents(&env) == before);
    change(&env).expect("committed");
    assert!(contents(&env) == after);
    for survival in Survival::ALL {
        let env = tiny(&disk.crash_as(survival, 3)).open(DIRECTORY).expect("recovered");
        assert!(contents(&env) == after, "{survival:?}");
        assert_sound(&env);
    }
    assert_sound(&env);
    env.close().expect("closed");
    let env = tiny(&disk).open(DIRECTORY).expect("opened");
    assert!(contents(&env) == after);
    assert_sound(&env);
}

/// A page that was copied for it and then merged away, or joined with another, takes no room any more.
#[test]
fn a_transaction_that_removes_many_times_the_cache_is_a_transaction_like_any_other() {
    const RECORDS: u32 = 9000;
    for method in [Method::Btree, Method::Hash] {
        for by_range in [true, false] {
            let disk = SimDisk::new(1);
            let env = tiny(&disk).open(DIRECTORY).expect("created");
            let emptied = env.database_as("emptied", method).expect("created");
            emptied.bulk_load((0..RECORDS).map(|n| (key(n), [n as u8; 40]))).expect("loaded");
            let removed = env.write(|txn| match by_range {
                true => txn.clear(&emptied),
                false => {
                    (0..RECORDS).try_fold(0, |sum, n| Ok(sum + u64::from(txn.remove(&emptied, key(n))?)))
                }
            });
            assert_eq!(removed.expect("committed"), u64::from(RECORDS), "{method}, by range: {by_range}");
            assert!(emptied.is_empty().expect("read"));
            assert_sound(&env);
        }
    }
}

/// Power fails somewhere, while checkpoints are written beside the commit: what is found is all or nothing,
/// all if it had been promised, and no page is lost to use.
#[test]
fn a_power_failure_in_the_middle_leaves_all_or_nothing() {
    let [before, after] = before_and_after();
    let calls = {
        let disk = SimDisk::new(1);
        let env = filled(&disk);
        let before = disk.calls();
        change(&env).expect("committed");
        disk.calls() - before
    };
    let (mut none, mut all) = (0, 0);
    for n in 0..24 {
        let disk = SimDisk::new(n);
        let env = filled(&disk);
        // Beside checkpoints there are more calls than without.
        disk.crash_at(disk.calls() + calls * n / 3);
        let over = AtomicBool::new(false);
        let promised = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    let _ = env.checkpoint();
                }
            });
            let done = change(&env).is_ok();
            over.store(true, Ordering::Release);
            done
        });
        for survival in [Survival::Nothing, Survival::Sectors, Survival::Everything] {
            let found = disk.crash_as(survival, n);
            let env = tiny(&found).open(DIRECTORY).expect("recovered");
            let is_done = contents(&env) == after;
            assert!(
                is_done || !promised && contents(&env) == before,
                "{n} {survival:?}, promised: {promised}"
            );
            *if is_done { &mut all } else { &mut none } += 1;
            assert_sound(&env);
            change(&env).expect("done again");
            assert!(contents(&env) == after);
            assert_sound(&env);
        }
    }
    assert!(none > 0 && all > 0, "{none} {all}");
}

/// Has one call of the disk fail.
#[derive(Clone, Debug)]
struct FailsOnce {
    /// So many are made before.
    left: Arc<AtomicI64>,
    with: io::ErrorKind,
}

impl Judge for FailsOnce {
    fn judge(&self, _: Call) -> Verdict {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            return Verdict::Fail(self.with.into());
        }
        Verdict::Make
    }
}

#[test]
fn a_call_that_fails_once_leaves_all_or_nothing_and_the_next_transaction_works() {
    let [before, after] = before_and_after();
    let run = |n: i64, with: io::ErrorKind| {
        let disk = SimDisk::new(1);
        drop(filled(&disk));
        let judge = FailsOnce { left: Arc::new(AtomicI64::new(i64::MAX)), with };
        let open = || tiny(&disk).disk(Arc::new(Between::new(disk.clone(), judge.clone()))).open(DIRECTORY);
        let env = open().expect("opened");
        judge.left.store(n, Ordering::SeqCst);
        let done = change(&env);
        let made = n - judge.left.swap(i64::MAX, Ordering::SeqCst);
        if let Err(error) = &done {
            use ErrorKind::{DiskFull, Io, NotDurable, Poisoned};
            let text = error.to_string();
            assert!(
                matches!(error.kind(), DiskFull | Io | NotDurable | Poisoned) && text.contains('/'),
                "{n} {with}: {:?}: {text}",
                error.kind()
            );
        }
        let is_poisoned = env.database("a").and_then(|a| a.insert(key(0), "")).is_err();
        let env = if is_poisoned {
            drop(env);
            open().expect("opened once nothing fails")
        } else {
            env.database("a")
                .and_then(|a| a.insert(key(0), [if done.is_ok() { 1 } else { 0 }; 120]))
                .expect("set");
            env
        };
        if done.is_err() {
            change(&env).unwrap_or_else(|error| panic!("{n} {with}: the next fails: {error}"));
        }
        let found = contents(&env);
        assert!(found == after || is_poisoned && found == before, "{n} {with}");
        assert_sound(&env);
        let given_back = env.compact().expect("compacted");
        assert_eq!(
            (given_back.pages_freed, given_back.page_numbers_freed, given_back.blocks_freed),
            (0, 0, 0),
            "{n} {with}: {done:?}"
        );
        assert_sound(&env);
        (made, is_poisoned)
    };
    let (calls, _) = run(i64::MAX - 1, io::ErrorKind::Other);
    let parts = std::env::var("SABLECAT_TEST_CALLS").map_or(12, |parts| parts.parse().expect("a number"));
    let mut poisoned = 0;
    for part in 0..parts {
        for with in [io::ErrorKind::StorageFull, io::ErrorKind::Other] {
            poisoned += u32::from(run(calls * part / parts, with).1);
        }
    }
    assert!(poisoned < parts as u32, "{poisoned} of {parts}");
}

/// Readers before, beside and after.
#[test]
fn readers_see_what_was_before_until_they_begin_anew() {
    let [before, after] = before_and_after();
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let disk = SimDisk::new(1);
        let env = tiny(&disk).isolation(isolation).open(DIRECTORY).expect("created");
        fill(&env);
        env.database("gone").expect("created").insert("k", "v").expect("inserted");
        let a = env.database("a").expect("there");
        let snapshot = env.snapshot().expect("a seat");
        assert_eq!(snapshot.get(&a, key(1)).expect("read"), Some(vec![1; 100]));
        change(&env).expect("committed");
        for (key, value) in &before["a"] {
            assert!(snapshot.get(&a, key).expect("read").as_ref() == Some(value));
        }
        drop(snapshot);
        assert!(contents(&env) == after);
        assert_sound(&env);
    }
}

/// What is given up leaves nothing; savepoints and one's own changes are as ever.
/// Holds up one of the writes of a thread called [`SLOW`] until it is told to let it be made.
#[derive(Clone, Debug, Default)]
struct HoldsUp {
    /// So many are made before.
    left: Arc<AtomicU64>,
    is_held: Arc<AtomicBool>,
    goes_on: Arc<AtomicBool>,
}

const SLOW: &str = "slow";

impl Judge for HoldsUp {
    fn judge(&self, call: Call) -> Verdict {
        let is_slow = call == Call::Write && thread::current().name() == Some(SLOW);
        if is_slow && self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            self.is_held.store(true, Ordering::SeqCst);
            while !self.goes_on.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
        }
        Verdict::Make
    }
}

/// Until a checkpoint has come to them, the pages of a load cannot leave the cache.
#[test]
fn a_bulk_load_larger_than_the_cache_waits_for_a_checkpoint_that_takes_long() {
    let record = |n: u32| (key(n).to_vec(), vec![n as u8; if n.is_multiple_of(50) { 2000 } else { 100 }]);
    for method in [Method::Btree, Method::Hash, Method::Counted] {
        let (disk, holds_up) = (SimDisk::new(1), HoldsUp::default());
        // The first is the log's.
        holds_up.left.store(1, Ordering::SeqCst);
        let between = Between::new(disk.clone(), holds_up.clone());
        let env = tiny(&disk).cache_size(1 << 20).disk(Arc::new(between)).open(DIRECTORY).expect("created");
        env.database("a").expect("created").insert_batch((0..6000).map(|n| (key(n), [7; 100]))).expect("set");
        let loaded = env.database_as("loaded", method).expect("created");
        thread::scope(|scope| {
            let checkpoint =
                thread::Builder::new().name(SLOW.into()).spawn_scoped(scope, || env.checkpoint());
            let checkpoint = checkpoint.expect("started");
            while !holds_up.is_held.load(Ordering::SeqCst) && !checkpoint.is_finished() {
                thread::yield_now();
            }
            assert!(!checkpoint.is_finished(), "its first pages are still to be written");
            let load = scope.spawn(|| loaded.bulk_load((0..12_000).map(record)));
            // It has come to where it can but wait, or fail; or it will come there with less of a wait.
            for _ in 0..200 {
                if load.is_finished() {
                    break;
                }
                thread::sleep(Duration::from_millis(1));
            }
            holds_up.goes_on.store(true, Ordering::SeqCst);
            assert_eq!(load.join().expect("no panic").expect("it has waited"), 12_000);
            checkpoint.join().expect("no panic").expect("written");
        });
        let mut all: Vec<_> = loaded.range(..).expect("read").map(|record| record.expect("read")).collect();
        all.sort_unstable();
        assert!(all == (0..12_000).map(record).collect::<Vec<_>>());
        assert_sound(&env);
    }
}

/// What one replaces and frees takes the cache, as long as others look at a state of before: these found no
/// room for their own pages, again and again.
#[test]
fn large_transactions_side_by_side_leave_each_other_room() {
    let env = tiny(&SimDisk::new(1))
        .page_size(1024)
        .cache_size(2 << 20)
        .durability(Durability::Memory)
        .open(DIRECTORY)
        .expect("created");
    let databases = ["a", "b", "c", "d"].map(|name| env.database(name).expect("created"));
    thread::scope(|scope| {
        for database in &databases {
            let env = &env;
            scope.spawn(move || {
                for round in 0..30u32 {
                    let done = env.write(|txn| {
                        txn.clear(database)?;
                        (0..2000).try_for_each(|n| txn.insert(database, key(n), [round as u8; 700]))
                    });
                    done.unwrap_or_else(|error| panic!("{} in round {round}: {error}", database.name()));
                }
            });
        }
    });
    for database in &databases {
        assert_eq!(database.len().expect("read"), 2000);
    }
    assert_sound(&env);
}

#[test]
fn a_transaction_that_is_given_up_leaves_nothing() {
    let disk = SimDisk::new(1);
    let env = filled(&disk);
    let before = contents(&env);
    let a = env.database("a").expect("there");
    let mut txn = env.begin().expect("a seat");
    (0..1200).try_for_each(|n| txn.insert(&a, key(n), [0; 90])).expect("noted");
    let savepoint = txn.savepoint();
    (0..1200).try_for_each(|n| txn.remove(&a, key(n)).map(drop)).expect("noted");
    txn.rollback_to(&savepoint).expect("its own");
    assert_eq!(txn.get(&a, key(5)).expect("read"), Some(vec![0; 90]));
    txn.abort();
    assert!(contents(&env) == before);
    assert_sound(&env);
}

/// Keys that differ in bytes and are one to the comparator.
#[test]
fn what_was_rolled_back_is_gone_however_a_comparator_lets_it_be_written() {
    let caseless = |a: &[u8], b: &[u8]| a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase());
    let env = tiny(&SimDisk::new(1)).comparator("caseless", caseless).open(DIRECTORY).expect("opened");
    let db = env.database_ordered_by("d", "caseless").expect("created");
    let spill = |txn: &mut sablecat::Txn<'_>, stamp| {
        (0..400_u32).try_for_each(|n| txn.insert(&db, format!("{n:04}"), [stamp; 1000]))
    };
    for (first, second) in [("KEY", "KEY"), ("KEY", "key"), ("key", "KEY")] {
        let written = env.write(|txn| {
            let begun = txn.savepoint();
            txn.insert(&db, first, "1")?;
            spill(txn, 1)?;
            txn.insert(&db, second, "2")?;
            spill(txn, 2)?;
            txn.rollback_to(&begun)?;
            for key in [first, second] {
                assert_eq!(txn.get(&db, key)?, None, "{first}, {second}");
                assert!(!txn.remove(&db, key)?, "{first}, {second}");
            }
            assert_eq!(txn.range(&db, ..)?.count(), 0, "{first}, {second}");
            txn.insert(&db, "another", "")
        });
        written.expect("committed");
        let found: Vec<_> = db.range(..).expect("read").map(|record| record.expect("read").0).collect();
        assert_eq!(found, [b"another"], "{first}, {second}");
        db.clear().expect("removed");
    }
}

/// Files without names in a directory that this process has open.
fn nameless(directory: &std::path::Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").expect("Linux says what is open");
    let targets = open.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    targets.filter(|to| to.starts_with(directory) && to.to_string_lossy().ends_with(" (deleted)")).count()
}

/// A process may have a thousand files open, as a rule, and others in it need some.
#[test]
fn a_large_transaction_over_many_databases_has_one_file_open() {
    const DATABASES: u32 = 60;
    let directory = std::env::temp_dir().join(format!("sablecat-one-file-{}", std::process::id()));
    let env = Env::builder()
        .cache_size(0)
        .durability(Durability::NoSync)
        .background(false)
        .open(&directory)
        .expect("created");
    let databases: Vec<_> =
        (0..DATABASES).map(|n| env.database(&format!("d{n}")).expect("created")).collect();
    // What is set in the last rounds, in the order of keys.
    let value = |database: u32, n: u32| vec![(database + n) as u8; 400 + (database + n) as usize % 200];
    let mut most = 0;
    let changed = env.write(|txn| {
        for round in 0..20 {
            for (number, database) in databases.iter().enumerate() {
                for n in (round * 10..round * 10 + 20).map(|n| n * 7 % 200) {
                    txn.insert(database, key(n), value(number as u32, n))?;
                }
            }
            most = most.max(nameless(&directory));
        }
        assert_eq!(txn.range(&databases[7], ..)?.count(), 200);
        Ok(())
    });
    changed.expect("committed");
    assert_eq!(most, 1);
    for (number, database) in databases.iter().enumerate() {
        let found: Vec<_> = database.range(..).expect("read").map(|record| record.expect("read")).collect();
        assert!(found.into_iter().eq((0..200).map(|n| (key(n).to_vec(), value(number as u32, n)))));
    }
    assert_eq!(nameless(&directory), 0);
    assert_sound(&env);
    drop(databases);
    env.close().expect("closed");
    std::fs::remove_dir_all(&directory).expect("removed");
}

/// A number from the environment's variables.
fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// The most memory that this process has had at once, in bytes.
fn memory_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel's own account");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Inserts in no order. One transaction commits and another is rolled back in a process that is not closed;
/// then the log is replayed. All in bounded memory.
#[test]
#[ignore = "takes minutes: two gigabytes, or SABLECAT_LARGE_BYTES, beside a cache of 8 MiB, or \
            SABLECAT_LARGE_CACHE"]
fn a_transaction_is_limited_by_the_disk() {
    let (bytes, cache) =
        (variable("SABLECAT_LARGE_BYTES", 2 << 30), variable("SABLECAT_LARGE_CACHE", 8 << 20));
    // Short enough to stay beside its key: a longer one would take a page of its own.
    const VALUE: usize = 700;
    let stage = std::env::var_os("SABLECAT_LARGE_DIRECTORY");
    let base =
        std::env::var_os("SABLECAT_MEASURE_DIR").map_or_else(std::env::temp_dir, std::path::PathBuf::from);
    let directory = stage.clone().map_or_else(
        || base.join(format!("sablecat-large-{}", std::process::id())),
        std::path::PathBuf::from,
    );
    let (begun, records) = (std::time::Instant::now(), bytes / (8 + VALUE as u64));
    let say = |what: &str| {
        println!("{what} after {:?}, {} MiB of memory at most", begun.elapsed(), memory_peak() >> 20)
    };
    let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let env = if stage.is_some() {
        Env::builder().cache_size(cache).durability(Durability::Sync).open(&directory).expect("created")
    } else {
        let this = std::env::current_exe().expect("a program");
        let words = ["--ignored", "--exact", "--nocapture", test_name(a_transaction_is_limited_by_the_disk)];
        let worker = std::process::Command::new(this)
            .args(words)
            .env("SABLECAT_LARGE_DIRECTORY", &directory)
            .status()
            .expect("started");
        assert!(worker.success());
        Env::builder().cache_size(cache).open(&directory).expect("recovered")
    };
    let d = env.database("d").expect("there");
    if stage.is_some() {
        let mut txn = env.begin().expect("a seat");
        (0..records).try_for_each(|n| txn.insert(&d, key(n), [n as u8; VALUE])).expect("noted");
        say("noted");
        assert_eq!(txn.get(&d, key(records / 2)).expect("read"), Some(vec![(records / 2) as u8; VALUE]));
        txn.commit().expect("committed");
        say("committed");
        let mut undone = env.begin().expect("a seat");
        (0..records / 8).try_for_each(|n| undone.insert(&d, key(n), [0; VALUE])).expect("noted");
        undone.abort();
        say("rolled back");
    } else {
        say("recovered");
        assert_eq!(d.len().expect("counted"), records);
    }
    // The records that are in memory, what leads to those that are not, and what a process takes anyway.
    let most = 2 * cache + bytes / 500 + (128 << 20);
    assert!(memory_peak() < most, "{} bytes of memory, {most} at most", memory_peak());
    if stage.is_some() {
        // Without closing anything.
        std::process::exit(0);
    }
    drop(d);
    env.close().expect("closed");
    std::fs::remove_dir_all(&directory).expect("removed");
}
