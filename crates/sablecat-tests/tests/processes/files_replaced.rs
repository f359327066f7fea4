//! A region and files that are not of the same moment: one of them was left behind, put back, moved,
//! poisoned, or used without the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sablecat::{Durability, Env, ErrorKind};
use sablecat_os::disk::HostDisk;
use sablecat_os::disk::between::{Between, Call, Judge, Verdict};
use sablecat_os::sim::{Fault, SimDisk};

use sablecat_tests::worker::test_name;
use sablecat_tests::{CUT_OFF, Place, copy, cut_off_after, get, put, put_in_memory};

/// More records than the cache has room for, all of one generation.
const RECORDS: u32 = 3000;

fn fill(env: &Env, generation: u8) {
    let d = env.database("many").expect("there");
    for from in (0..RECORDS).step_by(100) {
        env.write(|txn| {
            (from..from + 100)
                .try_for_each(|n| txn.insert(&d, n.to_be_bytes(), vec![generation; 300]).map(drop))
        })
        .expect("written");
    }
}

/// That there is nothing but the records of one generation, and nothing is wrong.
fn expect(env: &Env, generation: u8) {
    let d = env.database("many").expect("there");
    let mut count = 0;
    for record in env.snapshot().expect("begun").range(&d, ..).expect("read") {
        let (key, value) = record.expect("read");
        assert_eq!(value, vec![generation; 300], "{key:?}");
        count += 1;
    }
    assert_eq!(count, RECORDS);
    let report = env.verify(&mut |_| {}).expect("verified");
    assert_eq!(report.problems, Vec::<String>::new());
}

/// Opens what is there, changes it, and opens it once more.
fn go_on(place: &Place, generation: u8) {
    let env = place.open().expect("opened");
    expect(&env, generation);
    fill(&env, 200);
    env.close().expect("closed");
    let env = place.open_alone().expect("opened alone");
    expect(&env, 200);
    env.close().expect("closed");
}

/// Removes all that is in a directory, which stays the same.
fn empty(directory: &Path) {
    for entry in fs::read_dir(directory).expect("there") {
        let path = entry.expect("read").path();
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("removed");
    }
}

/// Takes a backup of a state, and lets the environment go on from there; all processes are killed in between
/// and at the end.
fn backup_and_what_came_after(name: &str, after: impl FnOnce(&Env)) -> (Place, Place) {
    let place = Place::new(&format!("{name}-first"));
    let env = place.open().expect("created");
    fill(&env, 1);
    let backup = place.killed(&format!("{name}-backup"));
    after(&env);
    let left = place.killed(name);
    (backup, left)
}

#[test]
fn a_backup_put_back_over_killed_processes_is_what_is_found() {
    type After = fn(&Env);
    let afters: [(&str, After); 3] = [
        ("checkpoints", |env| {
            fill(env, 2);
            env.checkpoint().expect("written");
        }),
        ("commits", |env| fill(env, 2)),
        ("evictions", |env| {
            for name in ["many", "other"] {
                let d = env.database(name).expect("there");
                (0..RECORDS).for_each(|n| drop(d.get(n.to_be_bytes()).expect("read")));
            }
        }),
    ];
    for (name, after) in afters {
        for replaced in [false, true] {
            let (backup, left) = backup_and_what_came_after(&format!("backup-{name}-{replaced}"), after);
            if replaced {
                empty(&left.env());
            }
            copy(&backup.env(), &left.env());
            go_on(&left, 1);
        }
    }
}

#[test]
fn files_copied_or_moved_are_what_they_were() {
    let place = Place::new("moved");
    let env = place.open().expect("created");
    fill(&env, 1);
    put_in_memory(&env, "in the region");
    let left = place.killed("moved-left");
    // A copy elsewhere has the files and not the region.
    let copied = Place::new("moved-copied");
    copy(&left.env(), &copied.env());
    go_on(&copied, 1);
    // Another environment's files, where there is a region of this one.
    let other = Place::new("moved-other");
    let foreign = other.open().expect("created");
    fill(&foreign, 7);
    foreign.close().expect("closed");
    let away = left.base.join("away");
    fs::create_dir(&away).expect("made");
    copy(&left.env(), &away);
    empty(&left.env());
    copy(&other.env(), &left.env());
    go_on(&left, 7);
    // Back again: what this region knows is no news to anybody now.
    empty(&left.env());
    copy(&away, &left.env());
    go_on(&left, 1);
}

#[test]
fn a_private_opening_goes_on_from_what_killed_processes_had_committed() {
    let place = Place::new("private");
    let env = place.open().expect("created");
    put(&env, "flushed");
    put_in_memory(&env, "in the region");
    let left = place.killed("private-left");
    let alone = left.open_alone().expect("opened alone");
    assert_eq!(get(&alone).as_deref(), Some(&b"in the region"[..]));
    assert_eq!(left.regions(), Vec::<PathBuf>::new());
    alone.close().expect("closed");
    assert_eq!(get(&left.open().expect("opened")).as_deref(), Some(&b"in the region"[..]));
}

/// Has a file renamed before the first call that may make one: in opening alone, that is the lock file.
#[derive(Debug)]
struct Comes {
    from: PathBuf,
    to: PathBuf,
    has_come: AtomicBool,
}

impl Judge for Comes {
    fn judge(&self, call: Call) -> Verdict {
        if call == Call::Make && !self.has_come.swap(true, Ordering::SeqCst) {
            fs::rename(&self.from, &self.to).expect("renamed");
        }
        Verdict::Make
    }
}

/// They came after it had looked for what is left, and were dead when it took the lock.
#[test]
fn processes_killed_while_one_takes_the_environment_alone_are_not_passed_by() {
    let place = Place::new("between");
    let env = place.open().expect("created");
    put(&env, "flushed");
    put_in_memory(&env, "in the region");
    let left = place.killed("between-left");
    let (away, region) = (left.base.join("away"), left.region());
    fs::rename(&region, &away).expect("renamed");
    let comes = Comes { from: away, to: region, has_come: AtomicBool::new(false) };
    let disk = Between::new(HostDisk, comes);
    let alone = left.builder().shared(false).disk(Arc::new(disk)).open(left.env()).expect("opened alone");
    assert_eq!(get(&alone).as_deref(), Some(&b"in the region"[..]));
    assert_eq!(left.regions(), Vec::<PathBuf>::new());
}

const OPENED: &str = "SABLECAT_TEST_OPENED";
const CALLS: &str = "SABLECAT_TEST_CALLS";

#[test]
#[ignore = "what the processes of the next test do"]
fn opener() {
    let (Some(base), Ok(calls)) = (std::env::var_os(OPENED), std::env::var(CALLS)) else { return };
    let place = std::mem::ManuallyDrop::new(Place { base: base.into() });
    let disk = cut_off_after(calls.parse().expect("a number"));
    let env = place.builder().shared(false).disk(Arc::new(disk)).open(place.env()).expect("opened");
    std::mem::forget(env);
    std::process::exit(0);
}

/// A process that opens an environment for itself ends after each of its calls; those who share the
/// environment next lose nothing by it, nor by a failure of the machine after that.
#[test]
fn a_private_opening_cut_short_brings_no_old_region_back() {
    let place = Place::new("cut");
    let env = place.open().expect("created");
    put(&env, "flushed");
    put_in_memory(&env, "in the region");
    for calls in 0.. {
        let left = place.killed("cut-left");
        let mut child = Command::new(std::env::current_exe().expect("a program"));
        child
            .args(["--exact", test_name(opener), "--ignored", "--nocapture"])
            .env(OPENED, &left.base)
            .env(CALLS, calls.to_string())
            .stdout(Stdio::null());
        let ended = child.status().expect("run").code();
        assert!(matches!(ended, Some(0 | CUT_OFF)), "after {calls} calls: {ended:?}");
        let shared = left.open().unwrap_or_else(|error| panic!("after {calls} calls: {error}"));
        assert_eq!(get(&shared).as_deref(), Some(&b"in the region"[..]), "after {calls} calls");
        put(&shared, "later");
        let after = Place::new("cut-after");
        copy(&left.env(), &after.env());
        let again =
            after.open().unwrap_or_else(|error| panic!("the files alone, after {calls} calls: {error}"));
        assert_eq!(get(&again).as_deref(), Some(&b"later"[..]), "the files alone, after {calls} calls");
        let report = again.verify(&mut |_| {}).expect("verified");
        assert_eq!(report.problems, Vec::<String>::new(), "the files alone, after {calls} calls");
        if ended == Some(0) {
            assert!(calls > 10, "{calls}");
            break;
        }
    }
}

#[test]
fn a_shared_environment_recovers_from_a_failed_flush_by_being_reopened() {
    let place = Place::new("poisoned");
    let disk = SimDisk::new(1);
    let open = || place.builder().disk(Arc::new(disk.clone())).open(place.env());
    let env = open().expect("created");
    let other = open().expect("joined");
    put(&env, "flushed");
    let d = env.database("d").expect("there");
    disk.fail_at(disk.calls() + 1, Fault::SyncFails);
    assert_eq!(d.insert("k", "lost").expect_err("not flushed").kind(), ErrorKind::Poisoned);
    let refused = open().expect_err("the others have to close it first");
    assert_eq!(refused.kind(), ErrorKind::Poisoned, "{refused}");
    assert!(refused.to_string().contains("close"), "{refused}");
    drop(d);
    assert_eq!(env.close().expect_err("poisoned").kind(), ErrorKind::Poisoned);
    assert_eq!(other.close().expect_err("poisoned").kind(), ErrorKind::Poisoned);
    let env = open().expect("the cause is gone");
    assert!(get(&env).is_some());
    put(&env, "after");
    env.close().expect("closed");
    assert_eq!(get(&open().expect("opened")).as_deref(), Some(&b"after"[..]));
}

#[test]
fn a_failed_checkpoint_of_a_shared_environment_is_over_when_it_is_reopened() {
    let place = Place::new("poisoned-volume");
    let disk = SimDisk::new(1);
    let open = || place.builder().disk(Arc::new(disk.clone())).open(place.env());
    let env = open().expect("created");
    put(&env, "flushed");
    put_in_memory(&env, "in the region");
    env.sync().expect("flushed");
    disk.fail_at(disk.calls() + 1, Fault::SyncFails);
    assert_eq!(env.checkpoint().expect_err("not flushed").kind(), ErrorKind::Poisoned);
    put_in_memory(&env, "after it");
    assert_eq!(env.close().expect_err("poisoned").kind(), ErrorKind::Poisoned);
    let env = open().expect("the cause is gone");
    assert_eq!(get(&env).as_deref(), Some(&b"after it"[..]), "the log was not at fault");
    env.close().expect("closed");
}

#[test]
fn files_replaced_under_living_processes_are_an_error_and_not_corruption() {
    let backups = Place::new("beneath-backup");
    let place = Place::new("beneath");
    let env = place.open().expect("created");
    fill(&env, 1);
    env.checkpoint().expect("written");
    copy(&place.env(), &backups.env());
    fill(&env, 2);
    env.checkpoint().expect("written");
    // As rsync does: a new file takes the name.
    let volume = Path::new("sablecat.db");
    fs::copy(backups.env().join(volume), place.env().join("new")).expect("copied");
    fs::rename(place.env().join("new"), place.env().join(volume)).expect("renamed");
    assert_eq!(place.open().expect_err("not the files that are open").kind(), ErrorKind::InUse);
    fill(&env, 3);
    let refused = env.checkpoint().expect_err("not the file that is open");
    assert_eq!(refused.kind(), ErrorKind::Poisoned, "{refused}");
    assert!(refused.to_string().contains("sablecat.db"), "{refused}");
    let refused = env.database("d").and_then(|d| d.insert("k", "v")).expect_err("poisoned");
    assert_eq!(refused.kind(), ErrorKind::Poisoned, "{refused}");
    drop(env);
    copy(&backups.env(), &place.env());
    let env = place.open().expect("opened");
    let found = env.database("many").and_then(|d| d.get(0u32.to_be_bytes())).expect("read").expect("there");
    assert!([vec![1; 300], vec![2; 300], vec![3; 300]].contains(&found));
    let report = env.verify(&mut |_| {}).expect("verified");
    assert_eq!(report.problems, Vec::<String>::new());
}

/// Those who have the environment open go on in the log that they know, and nobody joins them in another.
#[test]
fn the_log_of_another_life_beneath_living_processes_is_not_joined() {
    let place = Place::new("beneath-log");
    let env = place.open().expect("created");
    put(&env, "first");
    let left = place.killed("beneath-log-left");
    let other = left.open().expect("opened");
    put(&other, "in another life");
    let others = left.killed("beneath-log-others");
    let (log, away) = (place.env().join("log"), place.base.join("log"));
    fs::rename(&log, &away).expect("renamed");
    copy(&others.env().join("log"), &log);
    let refused = place.open().expect_err("not the log that is written to");
    assert_eq!(refused.kind(), ErrorKind::InUse, "{refused}");
    assert!(refused.to_string().contains("log"), "{refused}");
    fs::remove_dir_all(&log).expect("removed");
    fs::rename(&away, &log).expect("renamed");
    assert_eq!(get(&place.open().expect("joined")).as_deref(), Some(&b"first"[..]));
}

#[test]
fn a_region_removed_while_it_is_used_is_missed_by_nobody() {
    let place = Place::new("wiped");
    let env = place.open().expect("created");
    put(&env, "first");
    fs::remove_file(place.region()).expect("there");
    assert_eq!(place.open().expect_err("it cannot be joined").kind(), ErrorKind::InUse);
    put(&env, "second");
    env.close().expect("closed");
    assert_eq!(get(&place.open().expect("opened")).as_deref(), Some(&b"second"[..]));
}

/// It takes memory, and has no other name that anybody would look for.
#[test]
fn a_region_that_was_killed_in_the_making_is_removed_by_the_next_in_whatever_way_it_opens() {
    let place = Place::new("unfinished");
    let mut unfinished = place.region().into_os_string();
    unfinished.push(".new");
    for open in [Place::open, Place::open_alone, Place::open] {
        fs::write(&unfinished, [1; 5000]).expect("written");
        let env = open(&place).expect("opened");
        assert!(!Path::new(&unfinished).exists());
        put(&env, "v");
        env.close().expect("closed");
        assert_eq!(place.regions(), Vec::<PathBuf>::new());
    }
}

#[test]
fn the_region_of_another_environment_is_not_removed_by_who_closes_a_deleted_one() {
    let place = Place::new("namesake");
    let env = place.open().expect("created");
    put(&env, "v");
    fs::rename(place.region(), place.base.join("own")).expect("renamed");
    fs::write(place.region(), "of another").expect("written");
    let _ = env.close();
    assert_eq!(fs::read(place.region()).expect("there"), b"of another");
}

#[test]
fn an_environment_opened_by_a_relative_path_outlives_a_change_of_directory() {
    let place = Place::new("relative");
    // Of this process alone: the tests of this file run in threads, and none other names a relative path.
    let before = std::env::current_dir().expect("there");
    std::env::set_current_dir(&place.base).expect("entered");
    let env = place.builder().durability(Durability::Sync).open("env");
    let data_store = Env::builder().open_data_store("store");
    std::env::set_current_dir(before).expect("back");
    let (env, mut data_store) = (env.expect("created"), data_store.expect("created"));
    fill(&env, 1);
    env.checkpoint().expect("written");
    env.close().expect("closed");
    expect(&place.open().expect("opened"), 1);
    let table = data_store.database("d").expect("created");
    data_store.insert(&table, "k", "v").expect("inserted");
    data_store.close().expect("closed");
    assert_eq!(Env::open("").expect_err("no directory").kind(), ErrorKind::Invalid);
    assert_eq!(Env::builder().shared(true).open("").expect_err("no directory").kind(), ErrorKind::Invalid);
}
