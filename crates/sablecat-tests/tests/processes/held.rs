//! Environments that are held in memory: what is there after processes were killed, after the memory is gone,
//! and after an image was cut short; and what is refused.
//!
//! The workers are this test program itself, started again with `SABLECAT_TEST_DIR` set, so that it runs
//! [`worker`] alone.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use sablecat::{Builder, Durability, Env, ErrorKind, Journal};
use sablecat_os::disk::Disk;
use sablecat_os::sim::{Fault, SimDisk, Survival};
use sablecat_tests::worker::{DIRECTORY, Worker};
use sablecat_tests::{Place, copy, get, put, put_in_memory};

fn memory(place: &Place) -> PathBuf {
    place.base.join("memory")
}

fn image(place: &Place) -> PathBuf {
    place.env().join("sablecat.db")
}

fn held(place: &Place) -> Builder {
    place.builder().held_in(memory(place))
}

/// As a crash of the machine does: nothing of the files in memory is left, and nothing of the region.
fn forget(place: &Place) {
    fs::remove_dir_all(memory(place)).unwrap();
    fs::remove_dir_all(place.base.join("region")).unwrap();
    fs::create_dir(place.base.join("region")).unwrap();
}

fn assert_sound(env: &Env) {
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
}

/// The error of opening it.
fn refused(builder: Builder, path: &Path) -> sablecat::Error {
    builder.open(path).expect_err("it is refused")
}

#[test]
fn what_is_committed_is_in_memory_and_what_was_flushed_is_in_the_image() {
    let place = Place::new("held");
    let env = held(&place).open(place.env()).unwrap();
    put(&env, "1");
    let first = env.flush_image().unwrap();
    assert!(first.bytes > 0);
    let again = env.flush_image().unwrap();
    assert_eq!((again.lsn, again.bytes), (first.lsn, 0), "nothing was committed since");
    put(&env, "2");
    env.close().unwrap();
    // By its name alone, shared or not, without being allowed to make one: an older image is not put over it.
    for shared in [true, false] {
        let env = place.builder().shared(shared).create(false).open(place.env()).unwrap();
        assert_eq!(get(&env).unwrap(), b"2");
        env.close().unwrap();
    }
    let files: Vec<_> =
        ["sablecat.db", "sablecat.lock"].iter().map(|name| memory(&place).join(name).exists()).collect();
    assert_eq!(files, [true, true]);

    for shared in [true, false] {
        forget(&place);
        let read = Env::builder().read_only(true).open(place.env()).unwrap();
        assert!(get(&read).unwrap() == b"1" && read.recovery().closed);
        drop(read);
        let env = place.builder().shared(shared).create(false).open(place.env()).unwrap();
        assert_eq!(get(&env).unwrap(), b"1");
        assert_sound(&env);
        put(&env, "3");
        env.close().unwrap();
        let read = Env::builder().read_only(true).open(place.env()).unwrap();
        assert_eq!(get(&read).unwrap(), b"3", "of the files in memory");
    }
}

#[test]
#[ignore = "the workers of the test below"]
fn worker() {
    let Some(path) = std::env::var_os(DIRECTORY) else { return };
    let base = Path::new(&path);
    let env = Env::builder()
        .shared(true)
        .cache_size(1 << 20)
        .log_buffer_size(1 << 16)
        .region_directory(base.join("region"))
        .durability(Durability::Memory)
        .open(base.join("env"))
        .unwrap();
    let counts = env.database("counts").unwrap();
    let of_this = std::process::id().to_be_bytes();
    let told = base.join(format!("told-{}", std::process::id()));
    for n in 1u64.. {
        counts.insert(of_this, n.to_be_bytes()).unwrap();
        fs::write(&told, n.to_be_bytes()).unwrap();
    }
}

/// All are killed at once, again and again: whatever a commit was told of is there, though none was ever
/// flushed to any disk but the first.
#[test]
fn killed_processes_lose_nothing() {
    let place = Place::new("held-killed");
    let env = held(&place).open(place.env()).unwrap();
    env.database("counts").unwrap();
    env.flush_image().unwrap();
    env.close().unwrap();
    let kills = std::env::var("SABLECAT_TEST_KILLS").map_or(3, |kills| kills.parse().unwrap());
    let mut told: Vec<PathBuf> = Vec::new();
    for _ in 0..kills {
        let mut workers: Vec<_> = (0..2).map(|_| Worker::start(worker, &place.base)).collect();
        for worker in &mut workers {
            let path = place.base.join(format!("told-{}", worker.0.id()));
            let has_worked =
                || fs::read(&path).is_ok_and(|n| n.len() == 8 && n > 20u64.to_be_bytes().to_vec());
            while !has_worked() {
                worker.assert_works();
                thread::yield_now();
            }
            told.push(path);
        }
        drop(workers);
        let env = place.open().unwrap();
        assert!(env.recovery().recovered);
        assert_sound(&env);
        let counts = env.database("counts").unwrap();
        for path in &told {
            let name = path.file_name().unwrap().to_str().unwrap();
            let pid: u32 = name.strip_prefix("told-").unwrap().parse().unwrap();
            let there = counts.get(pid.to_be_bytes()).unwrap().expect("it has committed");
            // Killed as it wrote the file, it may have left it empty.
            let last = fs::read(path).unwrap();
            assert!(there >= last, "{there:?} of {pid}, after {last:?}");
        }
        drop(counts);
        env.close().unwrap();
    }
    assert!(!told.is_empty());
}

/// Says that something is over when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writers go on while images are made: each image has whole transactions, and all that were committed
/// before.
#[test]
fn an_image_is_of_one_state() {
    let place = Place::new("held-state");
    let env = held(&place).open(place.env()).unwrap();
    let [one, two] = ["one", "two"].map(|name| env.database(name).unwrap());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..2u32 {
            let (env, one, two, is_over) = (&env, &one, &two, &is_over);
            scope.spawn(move || {
                // So many at most: what they log stays in memory.
                for n in 0u64..30_000 {
                    let key = [&thread.to_be_bytes()[..], &(n % 500).to_be_bytes()].concat();
                    env.write(|txn| {
                        txn.insert(one, &key, vec![n as u8; 300])?;
                        txn.insert(two, &key, vec![n as u8; 300]).map(drop)
                    })
                    .unwrap();
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        // Also when something here fails.
        let _over = Over(&is_over);
        let beside = place.open().unwrap();
        for round in 0..6u8 {
            one.insert("round", [round]).unwrap();
            // By one of two members.
            let report = if round % 2 == 0 { env.flush_image() } else { beside.flush_image() }.unwrap();
            assert!(report.bytes > 0);
            // As the machine would find it, if it crashed now.
            let other = Place::new(&format!("held-state-{round}"));
            fs::copy(image(&place), image(&other)).unwrap();
            let loaded = held(&other).open(other.env()).unwrap();
            assert_sound(&loaded);
            let all = |name: &str| {
                let state = loaded.snapshot().unwrap();
                let database = loaded.database(name).unwrap();
                state.range(&database, ..).unwrap().map(|record| record.unwrap()).collect::<Vec<_>>()
            };
            let (mut ones, twos) = (all("one"), all("two"));
            let there = ones.pop().unwrap();
            assert_eq!((&there.0[..], &there.1[..]), (&b"round"[..], &[round][..]));
            assert!(ones == twos);
        }
        drop(beside);
    });
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let [place, other] = ["held-one", "held-other"].map(Place::new);
    for (place, value) in [(&place, "one"), (&other, "other")] {
        let env = held(place).open(place.env()).unwrap();
        put(&env, value);
        env.flush_image().unwrap();
        env.close().unwrap();
    }
    // Another's image, to be loaded, found beside the files, and about to be replaced.
    let own = fs::read(image(&place)).unwrap();
    let env = place.open().unwrap();
    put(&env, "newer");
    fs::copy(image(&other), image(&place)).unwrap();
    let error = env.flush_image().unwrap_err();
    assert!(
        error.kind() == ErrorKind::Invalid && error.to_string().contains("another environment"),
        "{error}"
    );
    env.close().unwrap();
    let error = refused(place.builder(), &place.env());
    assert!(
        error.kind() == ErrorKind::Invalid && error.to_string().contains("another environment"),
        "{error}"
    );
    fs::rename(memory(&place), place.base.join("aside")).unwrap();
    let error = refused(place.builder(), &place.env());
    assert!(
        error.kind() == ErrorKind::Invalid && error.to_string().contains("another environment"),
        "{error}"
    );
    assert_eq!(fs::read(image(&place)).unwrap(), fs::read(image(&other)).unwrap(), "it is as it was");
    fs::write(image(&place), &own).unwrap();
    fs::remove_dir_all(memory(&place)).unwrap();
    fs::rename(place.base.join("aside"), memory(&place)).unwrap();
    let env = place.open().unwrap();
    assert_eq!(get(&env).unwrap(), b"newer");

    // Files that are older than the image.
    copy(&memory(&place), &place.base.join("old"));
    put(&env, "newest");
    env.flush_image().unwrap();
    env.close().unwrap();
    fs::remove_dir_all(memory(&place)).unwrap();
    copy(&place.base.join("old"), &memory(&place));
    let error = refused(place.builder(), &place.env());
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("is newer"), "{error}");

    // Another's files in the memory.
    fs::remove_dir_all(memory(&place)).unwrap();
    copy(&memory(&other), &memory(&place));
    for shared in [true, false] {
        let error = refused(place.builder().shared(shared), &place.env());
        assert!(
            error.kind() == ErrorKind::Invalid && error.to_string().contains("another environment"),
            "{error}"
        );
    }

    // A log without its volume.
    fs::remove_dir_all(memory(&place)).unwrap();
    fs::create_dir_all(memory(&place).join("log")).unwrap();
    fs::write(memory(&place).join("log/0000000000000000.log"), "x").unwrap();
    let error = refused(place.builder(), &place.env());
    assert!(error.kind() == ErrorKind::Corruption && error.to_string().contains("has a log"), "{error}");

    // An image that was cut short, and none at all.
    fs::remove_dir_all(memory(&place)).unwrap();
    let whole = fs::read(image(&place)).unwrap();
    fs::write(image(&place), &whole[..whole.len() - 1]).unwrap();
    let error = refused(place.builder(), &place.env());
    assert!(error.kind() == ErrorKind::Corruption && error.to_string().contains("cut short"), "{error}");
    fs::remove_file(image(&place)).unwrap();
    for shared in [true, false] {
        let error = refused(place.builder().shared(shared), &place.env());
        assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("no image"), "{error}");
    }
    fs::write(image(&place), &whole).unwrap();
    let env = place.open().unwrap();
    assert_eq!(get(&env).unwrap(), b"newest");
}

#[test]
fn what_cannot_be_held_in_memory_is_refused() {
    let place = Place::new("held-refused");
    let invalid = |builder: Builder, why: &str| {
        let error = refused(builder, &place.env());
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(why), "{error}");
    };
    invalid(held(&place).journal(Journal::new()), "a journal");
    invalid(held(&place).volume("other", "other.db"), "other volumes");
    invalid(place.builder().held_in(place.env()), "directory for its image");
    let error = held(&place).open_data_store(place.env()).expect_err("it is refused");
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("a Data Store"), "{error}");
    assert_eq!(refused(held(&place).create(false), &place.env()).kind(), ErrorKind::NotFound);
    let error = place.open_alone().and_then(|env| {
        env.close()?;
        Env::builder().in_memory()?.flush_image()
    });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);

    // One that is open, or was not closed; and one with a journal.
    let env = place.open().unwrap();
    put(&env, "there");
    assert_eq!(env.flush_image().unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(refused(held(&place), &place.env()).kind(), ErrorKind::InUse);
    let left = place.killed("held-refused-left");
    let error = refused(held(&left), &left.env());
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("not closed"), "{error}");
    env.close().unwrap();
    place.builder().journal(Journal::new()).open(place.env()).unwrap().close().unwrap();
    invalid(held(&place), "it keeps a journal");
    place.builder().no_journal().open(place.env()).unwrap().close().unwrap();
    let _ = fs::remove_dir_all(place.env().join("journal"));

    // One that is closed becomes the first image, and stays what it is.
    let env = held(&place).open(place.env()).unwrap();
    assert_eq!(get(&env).unwrap(), b"there");
    put(&env, "in memory");
    env.close().unwrap();
    invalid(place.builder().held_in(place.base.join("elsewhere")), "cannot be in");
    invalid(place.builder().journal(Journal::new()), "a journal");
    invalid(place.builder().volume("other", "other.db"), "other volumes");
    held(&place).open(place.env()).unwrap().close().unwrap();

    // And back to the disk.
    let env = place.open().unwrap();
    env.flush_image().unwrap();
    env.close().unwrap();
    fs::remove_dir_all(memory(&place)).unwrap();
    fs::remove_file(place.env().join("sablecat.memory")).unwrap();
    let env = place.open().unwrap();
    assert_eq!(get(&env).unwrap(), b"in memory");
    assert_eq!(env.flush_image().unwrap_err().kind(), ErrorKind::Invalid);
}

/// Who has files open that were taken away, and others put in their place, must not make an image of them.
#[test]
fn files_that_are_gone_are_not_made_an_image_of() {
    let place = Place::new("held-gone");
    let env = held(&place).open(place.env()).unwrap();
    put(&env, "first");
    env.flush_image().unwrap();
    put(&env, "lost");
    forget(&place);
    let loaded = place.open().unwrap();
    put(&loaded, "second");
    loaded.flush_image().unwrap();
    let there = fs::read(image(&place)).unwrap();
    assert_eq!(env.flush_image().unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(fs::read(image(&place)).unwrap(), there);
    assert_eq!(get(&loaded).unwrap(), b"second");
}

/// The log goes on elsewhere than that which was lost.
#[test]
fn who_follows_is_told_that_what_it_has_seen_is_gone() {
    let place = Place::new("held-followed");
    let env = held(&place).open(place.env()).unwrap();
    put(&env, "first");
    env.flush_image().unwrap();
    (0..100).for_each(|_| put(&env, "lost"));
    let lost = env.lsn();
    env.close().unwrap();
    forget(&place);
    let env = place.open().unwrap();
    for _ in 0..3 {
        (0..300).for_each(|_| put_in_memory(&env, "second"));
        assert!(env.lsn() > lost);
        let error = env.changes(lost).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LogGone, "{error}");
        env.checkpoint().unwrap();
    }
}

/// A disk in memory for the image and the files: the lock of the image alone is the machine's.
struct Simulated {
    place: Place,
}

impl Simulated {
    fn new(name: &str) -> Simulated {
        Simulated { place: Place::new(name) }
    }

    fn builder(&self, disk: &SimDisk) -> Builder {
        Env::builder()
            .disk(Arc::new(disk.clone()))
            .background(false)
            .page_size(1024)
            .cache_size(1 << 19)
            .log_buffer_size(1 << 16)
            .log_segment_size(1 << 16)
            .held_in(memory(&self.place))
    }

    fn open(&self, disk: &SimDisk) -> sablecat::Result<Env> {
        self.builder(disk).open(self.place.env())
    }

    /// Takes the files in memory away.
    fn forget(&self, disk: &SimDisk) {
        let memory = memory(&self.place);
        for directory in [memory.join("log"), memory] {
            for name in disk.list(&directory).unwrap_or_default().iter().filter(|name| *name != "log") {
                disk.remove(&directory.join(name)).unwrap();
            }
        }
    }
}

fn fill(env: &Env, generation: u8) {
    let d = env.database("d").unwrap();
    (0..200u32).for_each(|n| d.insert(n.to_be_bytes(), [generation; 100]).unwrap());
}

/// That there is one generation alone: which.
fn generation(env: &Env) -> u8 {
    let d = env.database("d").unwrap();
    let generation = d.get(0u32.to_be_bytes()).unwrap().unwrap()[0];
    for n in 0..200u32 {
        assert_eq!(d.get(n.to_be_bytes()).unwrap().unwrap(), [generation; 100], "{n}");
    }
    assert_sound(env);
    generation
}

/// A disk with an image of generation 1, and files of generation 2 that nobody has closed.
fn before_a_flush(sim: &Simulated) -> SimDisk {
    let disk = SimDisk::new(1);
    let env = sim.open(&disk).unwrap();
    fill(&env, 1);
    env.flush_image().unwrap();
    fill(&env, 2);
    disk.crash_as(Survival::Everything, 1)
}

/// The calls of a flush.
fn calls_of_flush(sim: &Simulated, whole: &SimDisk) -> u64 {
    let disk = whole.crash_as(Survival::Everything, 1);
    let env = sim.open(&disk).unwrap();
    let before = disk.calls();
    env.flush_image().unwrap();
    disk.calls() - before
}

#[test]
fn an_image_that_power_cuts_short_leaves_the_one_before() {
    let sim = Simulated::new("held-cut");
    let whole = before_a_flush(&sim);
    let calls = calls_of_flush(&sim, &whole);
    assert!(calls > 10, "{calls}");
    let mut found = [0; 3];
    for call in 0..=calls {
        let disk = whole.crash_as(Survival::Everything, call);
        let env = sim.open(&disk).unwrap();
        disk.crash_at(disk.calls() + call);
        let flushed = env.flush_image();
        drop(env);
        let crashed = disk.crash(call);
        sim.forget(&crashed);
        let env = sim.open(&crashed).unwrap_or_else(|error| panic!("after {call} calls: {error}"));
        let there = generation(&env);
        found[usize::from(there)] += 1;
        assert!(there == 2 || flushed.is_err(), "after {call} calls");
    }
    assert!(found[1] > 0 && found[2] > 0, "{found:?}");
}

#[test]
fn an_image_that_fails_leaves_the_one_before_and_the_environment_goes_on() {
    let sim = Simulated::new("held-fails");
    let whole = before_a_flush(&sim);
    let calls = calls_of_flush(&sim, &whole);
    for fault in [Fault::Error(std::io::ErrorKind::Other), Fault::DiskFull, Fault::SyncFails] {
        let (mut failed, mut full) = (0, 0);
        for call in 1..=calls {
            let disk = whole.crash_as(Survival::Everything, call);
            let env = sim.open(&disk).unwrap();
            disk.fail_at(disk.calls() + call, fault);
            let flushed = env.flush_image();
            disk.clear_faults();
            let Err(error) = flushed else { continue };
            failed += 1;
            full += u32::from(error.kind() == ErrorKind::DiskFull);
            assert!(
                fault != Fault::DiskFull || error.is_full() || error.kind() == ErrorKind::Poisoned,
                "{error:?}"
            );
            let crashed = disk.crash_as(Survival::Everything, call);
            sim.forget(&crashed);
            generation(&sim.open(&crashed).unwrap());
            if error.kind() == ErrorKind::Poisoned {
                // A flush of the files in memory.
                continue;
            }
            assert_eq!(generation(&env), 2);
            env.flush_image().unwrap_or_else(|again| panic!("call {call}: {again}, after {error}"));
            let unfinished = sim.place.env().join("sablecat.db.unfinished");
            assert!(!disk.exists(&unfinished).unwrap(), "call {call}");
            drop(env);
            sim.forget(&disk);
            assert_eq!(generation(&sim.open(&disk).unwrap()), 2, "call {call}: {error}");
        }
        assert!(failed > 0, "{fault:?}");
        assert_eq!(full > 0, fault == Fault::DiskFull, "{fault:?}");
    }
}

#[test]
fn loading_and_being_put_into_memory_may_be_cut_short() {
    let sim = Simulated::new("held-loading");
    let whole = before_a_flush(&sim);
    sim.forget(&whole);
    for begun in [whole, SimDisk::new(1)] {
        let is_new = begun.calls() == 0;
        let calls = {
            let disk = begun.crash_as(Survival::Everything, 1);
            let env = sim.open(&disk).unwrap();
            drop(env);
            disk.calls()
        };
        for call in 0..calls {
            for is_power in [false, true] {
                let disk = begun.crash_as(Survival::Everything, call);
                disk.crash_at(call);
                let _ = sim.open(&disk);
                let crashed =
                    if is_power { disk.crash(call) } else { disk.crash_as(Survival::Everything, call) };
                if is_power {
                    sim.forget(&crashed);
                }
                let env = sim.open(&crashed).unwrap_or_else(|error| panic!("after {call} calls: {error}"));
                if is_new {
                    fill(&env, 1);
                }
                assert_eq!(generation(&env), 1, "after {call} calls");
                env.flush_image().unwrap();
                drop(env);
                sim.forget(&crashed);
                assert_eq!(generation(&sim.open(&crashed).unwrap()), 1, "after {call} calls");
            }
        }
    }
}

#[test]
fn compressed_pages_are_as_small_in_the_image() {
    let place = Place::new("held-compressed");
    let open = || held(&place).compression(sablecat::Compression::Lz4).open(place.env()).unwrap();
    let env = open();
    let d = env.database("d").unwrap();
    (0..3000u32).for_each(|n| d.insert(n.to_be_bytes(), format!("{n:0300}")).unwrap());
    drop(d);
    let report = env.flush_image().unwrap();
    let stats = env.stats().unwrap();
    assert!(report.bytes < stats.volumes[0].bytes / 2, "{report:?}, {stats:?}");
    env.close().unwrap();
    forget(&place);
    let env = open();
    assert_sound(&env);
    let d = env.database("d").unwrap();
    assert!((0..3000u32).all(|n| d.get(n.to_be_bytes()).unwrap().unwrap() == format!("{n:0300}").as_bytes()));
    let loaded = env.stats().unwrap().volumes[0].occupied;
    assert!(loaded < stats.volumes[0].bytes / 2, "{loaded}");
}

#[test]
fn an_image_is_enciphered_and_has_the_keys_of_the_environment() {
    use sablecat::EncryptionKey;
    let place = Place::new("held-enciphered");
    let keys = [[1; 32], [2; 32]].map(|bytes| EncryptionKey::from_bytes(&bytes));
    let open = |key: &EncryptionKey| held(&place).encryption_key(key.clone()).open(place.env());
    let env = open(&keys[0]).unwrap();
    put(&env, "plain-as-day");
    env.flush_image().unwrap();
    env.rotate_key().unwrap();
    put(&env, "plain-as-day, again");
    env.flush_image().unwrap();
    let bytes = fs::read(image(&place)).unwrap();
    assert!(!bytes.windows(12).any(|window| window == b"plain-as-day"));
    env.change_encryption_key(&keys[1]).unwrap();
    let report = env.flush_image().unwrap();
    assert!(report.bytes > 0, "nothing was committed since, but the key is another");
    env.close().unwrap();
    forget(&place);
    assert_eq!(open(&keys[0]).map(drop).unwrap_err().kind(), ErrorKind::EncryptionKey);
    let env = open(&keys[1]).unwrap();
    assert_eq!(get(&env).unwrap(), b"plain-as-day, again");
    assert_sound(&env);
}
