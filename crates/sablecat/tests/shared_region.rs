//! The memory that processes share: too small, inherited by fork, or full of processes.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use sablecat::{Builder, Env, ErrorKind};

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

fn put(env: &Env, value: &str) {
    env.database("d").and_then(|d| d.insert("k", value)).expect("inserted");
}

fn get(env: &Env) -> Option<Vec<u8>> {
    env.database("d").and_then(|d| d.get("k")).expect("read")
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
