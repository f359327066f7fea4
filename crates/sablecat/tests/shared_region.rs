//! The memory that processes share: left behind, damaged or somebody else's, too small, inherited by fork, or full of processes.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sablecat::{Builder, Durability, Env, ErrorKind, TxnOptions};
use sablecat_os::check::sparse;

/// A directory for an environment, and one for its region; removed when dropped.
struct Place {
    base: PathBuf,
}

impl Place {
    fn new(name: &str) -> Place {
        let base = PathBuf::from("/dev/shm").join(format!("sablecat-test-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        for part in ["env", "region"] {
            fs::create_dir_all(base.join(part)).expect("made");
        }
        Place { base }
    }

    fn builder(&self) -> Builder {
        Env::builder()
            .shared(true)
            .background(false)
            .cache_size(1 << 20)
            .log_buffer_size(1 << 16)
            .region_directory(self.base.join("region"))
    }

    fn open(&self) -> sablecat::Result<Env> {
        self.builder().open(self.base.join("env"))
    }

    /// What is left of this one when all of its processes are killed at this moment: its files and its region, and nobody who holds a lock.
    fn killed(&self, name: &str) -> Place {
        let left = Place::new(name);
        copy(&self.base.join("env"), &left.base.join("env"));
        sparse::copy(&self.region(), &left.region()).expect("copied");
        left
    }

    /// Where its region is.
    fn region(&self) -> PathBuf {
        let directory = fs::metadata(self.base.join("env")).expect("there");
        self.base.join("region").join(format!("sablecat-{:x}-{:x}", directory.dev(), directory.ino()))
    }

    fn spoil(&self, at: u64, how: impl FnOnce(u8) -> u8) {
        let file = fs::File::options().read(true).write(true).open(self.region()).expect("there");
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("read");
        file.write_all_at(&[how(byte[0])], at).expect("written");
    }

    /// The files beside the environment: its region, and any that was set aside.
    fn regions(&self) -> Vec<PathBuf> {
        let mut found: Vec<_> = fs::read_dir(self.base.join("region")).expect("there").map(|file| file.expect("read").path()).collect();
        found.sort();
        found
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.base);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("there") {
        let (from, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).expect("read");
        if from.is_dir() { copy(&from, &to) } else { fs::copy(&from, &to).map(drop).expect("copied") }
    }
}

/// An environment with a value that is durable, and a newer one that is in the region alone.
fn flushed_then_not(place: &Place) -> Env {
    let env = place.open().expect("created");
    put(&env, "flushed");
    let d = env.database("d").expect("opened");
    let in_memory = TxnOptions::new().durability(Durability::Memory);
    env.write_with(in_memory, |txn| txn.insert(&d, "k", "in the region").map(drop)).expect("committed");
    env
}

fn put(env: &Env, value: &str) {
    env.database("d").and_then(|d| d.insert("k", value)).expect("inserted");
}

fn get(env: &Env) -> Option<Vec<u8>> {
    env.database("d").and_then(|d| d.get("k")).expect("read")
}

#[test]
fn the_region_of_killed_processes_is_attached_to_and_removed_by_the_last_to_close() {
    let place = Place::new("warm");
    let left = {
        let _env = flushed_then_not(&place);
        place.killed("warm-left")
    };
    assert_eq!(left.regions(), [left.region()]);
    for _ in 0..2 {
        let env = left.open().expect("attached");
        assert_eq!(get(&env).as_deref(), Some(&b"in the region"[..]));
        assert_eq!(env.processes().len(), 1, "the dead have been struck out");
        env.close().expect("closed");
        assert_eq!(left.regions(), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_region_that_is_not_right_is_set_aside_and_the_files_are_recovered() {
    let place = Place::new("spoilt");
    let env = flushed_then_not(&place);
    let other = Place::new("spoilt-other");
    let _others = flushed_then_not(&other);
    type Spoil = fn(&Place, &Place);
    let ways: [(&str, Spoil); 6] = [
        ("version", |left, _| left.spoil(7, |byte| byte ^ 1)),
        ("header", |left, _| left.spoil(16, |byte| byte ^ 1)),
        ("variable", |left, _| drop(fs::File::options().write(true).open(left.region()).and_then(|f| f.write_all_at(&[0xff; 4096], 4096)))),
        ("zeros", |left, _| {
            let length = fs::metadata(left.region()).expect("there").len();
            fs::File::create(left.region()).and_then(|file| file.set_len(length)).expect("emptied");
        }),
        ("cut", |left, _| fs::File::options().write(true).open(left.region()).and_then(|file| file.set_len(1 << 20)).expect("cut")),
        ("foreign", |left, other| {
            fs::remove_file(left.region()).expect("there");
            sparse::copy(&other.region(), &left.region()).expect("copied");
        }),
    ];
    for (name, spoil) in ways {
        let left = place.killed(&format!("spoilt-{name}"));
        spoil(&left, &other);
        let env = left.open().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(get(&env).as_deref(), Some(&b"flushed"[..]), "{name}");
        let aside = left.region().with_extension("aside");
        assert_eq!(left.regions(), [left.region(), aside.clone()], "{name}");
        env.close().expect("closed");
        assert_eq!(left.regions(), [aside], "{name}");
    }
    drop(env);
}

#[test]
fn a_region_that_is_in_use_is_never_set_aside() {
    let place = Place::new("live");
    let env = flushed_then_not(&place);
    place.spoil(16, |byte| byte ^ 1);
    let refused = place.open().expect_err("damaged, and in use");
    assert_eq!(refused.kind(), ErrorKind::InUse, "{refused}");
    assert_eq!(place.regions(), [place.region()]);
    place.spoil(16, |byte| byte ^ 1);
    assert_eq!(get(&place.open().expect("attached")).as_deref(), Some(&b"in the region"[..]));
    drop(env);
}

#[test]
fn a_region_that_cannot_be_had_is_full_and_leaves_nothing() {
    let place = Place::new("tiny");
    let region = place.base.join("region");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=128k", "none"]).arg(&region).output();
    if !mounted.is_ok_and(|out| out.status.success()) {
        eprintln!("not tested: mounting takes privileges");
        return;
    }
    let outcome = place.open();
    let left = place.regions();
    let unmounted = Command::new("umount").arg(&region).status();
    assert_eq!(outcome.expect_err("there is no room").kind(), ErrorKind::Full);
    assert_eq!(left, Vec::<PathBuf>::new());
    assert!(unmounted.is_ok_and(|status| status.success()));
}

#[test]
fn a_region_directory_that_fills_up_makes_for_a_smaller_cache() {
    let place = Place::new("small");
    let region = place.base.join("region");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=12m", "none"]).arg(&region).output();
    if !mounted.is_ok_and(|out| out.status.success()) {
        eprintln!("not tested: mounting takes privileges");
        return;
    }
    let worked = place.builder().cache_size(64 << 20).open(place.base.join("env")).and_then(|env| {
        let d = env.database("d")?;
        (0..8000u32).try_for_each(|n| d.insert(n.to_be_bytes(), [7; 2000]).map(drop))?;
        let all = env.snapshot()?.range::<&[u8]>(&d, ..)?.try_fold(0, |n, record| record.map(|_| n + 1))?;
        drop(d);
        env.close().map(|()| all)
    });
    let unmounted = Command::new("umount").arg(&region).status();
    match worked {
        Ok(all) => assert_eq!(all, 8000),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Full, "{error}"),
    }
    assert!(unmounted.is_ok_and(|status| status.success()));
}

#[test]
fn a_forked_child_must_open_the_environment_again_and_harms_nobody() {
    let place = Place::new("fork");
    let env = place.open().expect("created");
    put(&env, "parent's");
    let (mut inherited, builder, directory) = (Some(env.clone()), place.builder(), place.base.join("env"));
    let in_child = move || {
        let inherited = inherited.take().expect("asked once");
        let refused = inherited.database("d").and_then(|d| d.get("k")).expect_err("the parent's handle");
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        drop(inherited);
        let own = builder.clone().open(&directory).map_err(|error| std::io::Error::other(error.to_string()))?;
        assert_eq!(get(&own).as_deref(), Some(&b"parent's"[..]));
        put(&own, "child's");
        drop(own);
        Ok(())
    };
    let mut command = Command::new("true");
    // SAFETY: of the other threads, none holds a lock that the closure takes but the allocator's, which the C library sees to at fork.
    unsafe { command.pre_exec(in_child) };
    // A closure that panics or fails makes this an error.
    assert!(command.status().expect("the child did it all").success());
    assert_eq!(get(&env).as_deref(), Some(&b"child's"[..]));
    put(&env, "parent's again");
    assert_eq!(env.processes().len(), 1);
    drop(command);
    env.close().expect("closed");
    assert_eq!(get(&place.open().expect("opened")).as_deref(), Some(&b"parent's again"[..]));
}

#[test]
fn two_hundred_attachments_at_once() {
    let place = Place::new("many");
    let all: Vec<_> = (0..200).map(|_| place.open().expect("attached")).collect();
    for (n, env) in all.iter().enumerate() {
        put(env, &n.to_string());
    }
    assert_eq!(all[0].processes().len(), 200);
    assert!(all.iter().all(|env| get(env).as_deref() == Some(&b"199"[..])));
    drop(all);
    assert_eq!(place.regions(), Vec::<PathBuf>::new());
}
