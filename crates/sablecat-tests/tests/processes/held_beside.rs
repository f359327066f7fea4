//! Images of environments that are held in memory, made beside processes that commit, and by processes that
//! are stopped and killed meanwhile.
//!
//! The others are this test program itself, started again with `SABLECAT_TEST_DIR` set, so that it runs one
//! of [`pairs`] and [`flusher`] alone.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sablecat::{Builder, Durability, Env, Method, TxnOptions};
use sablecat_os::check::signal;
use sablecat_os::disk::HostDisk;
use sablecat_os::disk::between::{Between, Call, Judge, Verdict};
use sablecat_os::liveness;
use sablecat_tests::worker::{DIRECTORY, Worker};
use sablecat_tests::{Place, get, put};

fn memory(base: &Path) -> PathBuf {
    base.join("memory")
}

fn builder(base: &Path) -> Builder {
    Env::builder()
        .shared(true)
        .cache_size(4 << 20)
        .log_buffer_size(1 << 16)
        .region_directory(base.join("region"))
        .held_in(memory(base))
}

/// What is in the image, as the machine would find it if it crashed now.
fn loaded(place: &Place, look: impl FnOnce(&Env)) {
    let other = Place::new("held-loaded");
    fs::copy(place.env().join("sablecat.db"), other.env().join("sablecat.db")).unwrap();
    let env = builder(&other.base).open(other.env()).unwrap();
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
    look(&env);
}

fn pair(n: u64) -> Vec<u8> {
    // Some have pages of their own.
    vec![n as u8; if n.is_multiple_of(61) { 9000 } else { 40 }]
}

#[test]
#[ignore = "the workers of the test below"]
fn pairs() {
    let Some(path) = std::env::var_os(DIRECTORY) else { return };
    let base = Path::new(&path);
    let env = builder(base).open(base.join("env")).unwrap();
    let (one, two) = (env.database("one").unwrap(), env.database_as("two", Method::Hash).unwrap());
    let unfinished = base.join("told.new");
    // So many at most: they stay in memory.
    for n in 0u64..200_000 {
        let in_memory = TxnOptions::new().durability(Durability::Memory);
        env.write_with(in_memory, |txn| {
            txn.insert(&one, n.to_be_bytes(), pair(n))?;
            txn.insert(&two, n.to_be_bytes(), pair(n)).map(drop)
        })
        .unwrap();
        fs::write(&unfinished, n.to_be_bytes()).unwrap();
        fs::rename(&unfinished, base.join("told")).unwrap();
    }
}

/// A process commits numbered pairs while images are made: each has a beginning of them, in both databases
/// the same, and everything whose commit was told of before the image was asked for.
#[test]
fn an_image_has_all_that_others_were_told_of_before_it_was_begun() {
    let place = Place::new("held-pairs");
    let env = builder(&place.base).open(place.env()).unwrap();
    let mut worker = Worker::start(pairs, &place.base);
    let told = || fs::read(place.base.join("told")).ok().map(|n| u64::from_be_bytes(n.try_into().unwrap()));
    let look = |env: &Env, least: u64| {
        let (one, two) = (env.database("one").unwrap(), env.database_as("two", Method::Hash).unwrap());
        let state = env.snapshot().unwrap();
        let mut count = 0u64;
        for record in state.range(&one, ..).unwrap() {
            let (key, value) = record.unwrap();
            assert!(key == count.to_be_bytes() && value == pair(count), "{key:?} is not {count}");
            assert_eq!(state.get(&two, &key).unwrap().as_ref(), Some(&value), "{count}");
            count += 1;
        }
        assert_eq!(state.len(&two).unwrap(), count);
        assert!(count > least, "{count} of them, and of {least} it was told");
        count
    };
    let mut last = 0;
    for _ in 0..5 {
        let before = loop {
            worker.assert_works();
            match told() {
                Some(n) if n > last + 200 => break n,
                _ => thread::yield_now(),
            }
        };
        assert!(env.flush_image().unwrap().bytes > 0);
        let mut there = 0;
        loaded(&place, |env| there = look(env, before));
        last = there;
    }
    // And the environment itself, with the memory gone.
    drop(worker);
    let before = told().unwrap();
    env.flush_image().unwrap();
    env.close().unwrap();
    fs::remove_dir_all(memory(&place.base)).unwrap();
    let env = builder(&place.base).open(place.env()).unwrap();
    look(&env, before);
}

/// Stops its process at a call.
#[derive(Debug)]
struct StopsAt {
    left: AtomicI64,
}

impl Judge for StopsAt {
    fn judge(&self, _: Call) -> Verdict {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            signal::stop_here().unwrap();
        }
        Verdict::Make
    }
}

#[test]
#[ignore = "the worker of the test below"]
fn flusher() {
    let Some(path) = std::env::var_os(DIRECTORY) else { return };
    let base = Path::new(&path);
    // Both calls of opening and of the flush count.
    let call = fs::read_to_string(base.join("call")).unwrap().parse().unwrap();
    let disk = Between::new(HostDisk, StopsAt { left: AtomicI64::new(call) });
    let env = builder(base).background(false).disk(std::sync::Arc::new(disk)).open(base.join("env")).unwrap();
    fs::write(base.join("flushing"), "").unwrap();
    env.flush_image().unwrap();
    fs::write(base.join("flushed"), "").unwrap();
}

/// Whoever makes an image is stopped at any of its calls: others commit, and make checkpoints soon, since
/// they take over from who does not move. If it is killed then, the next image is made as if it had never
/// begun; if it goes on, its image is one state, with all that was committed before it was asked for.
#[test]
fn who_is_stopped_while_it_writes_an_image_holds_up_no_commit_and_no_checkpoint() {
    let place = Place::new("held-stopped");
    let env = builder(&place.base).background(false).open(place.env()).unwrap();
    let d = env.database("d").unwrap();
    env.write(|txn| (0..400u32).try_for_each(|n| txn.insert(&d, n.to_be_bytes(), [7; 900]).map(drop)))
        .unwrap();
    let unfinished = place.env().join("sablecat.db.unfinished");
    let names = ["flushing", "flushed"].map(|name| place.base.join(name));
    let (mut at_image, mut is_killed) = (0, false);
    for call in (1..).step_by(3) {
        let before = format!("before {call}");
        put(&env, &before);
        names.iter().for_each(|name| drop(fs::remove_file(name)));
        fs::write(place.base.join("call"), call.to_string()).unwrap();
        let mut worker = Worker::start(flusher, &place.base);
        let pid = worker.0.id();
        let is_through = loop {
            if worker.0.try_wait().unwrap().is_some() {
                break true;
            }
            if liveness::is_stopped(pid) {
                break false;
            }
            thread::sleep(Duration::from_millis(1));
        };
        if is_through {
            assert!(names[1].exists(), "{call}");
            break;
        }
        // One that is stopped as it enters keeps others from entering alone.
        let is_at_image = names[0].exists() && !names[1].exists();
        at_image += u32::from(is_at_image && unfinished.exists());
        let began = Instant::now();
        let beside = format!("beside {call}");
        put(&env, &beside);
        let committed = began.elapsed();
        let report = env.checkpoint().unwrap();
        assert!(report.lsn >= env.lsn(), "{call}");
        assert!(began.elapsed() < Duration::from_secs(20), "{call}: {committed:?}, {:?}", began.elapsed());
        is_killed = !is_killed;
        if is_killed {
            drop(worker);
        } else {
            signal::go_on(pid).unwrap();
            worker.assert_ends();
            if is_at_image {
                loaded(&place, |env| {
                    let there = get(env).unwrap();
                    assert!(
                        [before.as_bytes(), beside.as_bytes()].contains(&&there[..]),
                        "{call}: {there:?}"
                    );
                });
            }
        }
        put(&env, "last");
        env.checkpoint().unwrap();
        env.flush_image().unwrap();
        assert!(!unfinished.exists(), "{call}");
        loaded(&place, |env| assert_eq!(get(env).unwrap(), b"last", "{call}"));
    }
    assert!(at_image > 1, "{at_image}");
}
