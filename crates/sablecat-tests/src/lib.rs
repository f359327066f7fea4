//! Tests of the library's interface are in `tests`. Here is what they have in common: places for
//! environments, disks that fail, other processes, a clock, and numbers that look like chance.

#![allow(missing_docs, missing_debug_implementations, reason = "names say it")]

pub mod clock;
pub mod dice;
pub mod phantoms;
pub mod worker;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use sablecat::{Builder, Durability, Env, TxnOptions};
use sablecat_os::check::sparse;
use sablecat_os::disk::HostDisk;
use sablecat_os::disk::between::{Between, Call, Judge, Verdict};

/// A directory for an environment, and one for its region; removed when dropped.
pub struct Place {
    pub base: PathBuf,
}

impl Place {
    pub fn new(name: &str) -> Place {
        static PLACES: AtomicU64 = AtomicU64::new(0);
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let base = format!("/dev/shm/sablecat-test-{name}-{}-{number}", std::process::id());
        let base = PathBuf::from(base);
        let _ = fs::remove_dir_all(&base);
        for part in ["env", "region"] {
            fs::create_dir_all(base.join(part)).expect("made");
        }
        Place { base }
    }

    pub fn env(&self) -> PathBuf {
        self.base.join("env")
    }

    pub fn builder(&self) -> Builder {
        Env::builder()
            .shared(true)
            .background(false)
            .cache_size(1 << 20)
            .log_buffer_size(1 << 16)
            .region_directory(self.base.join("region"))
    }

    pub fn open(&self) -> sablecat::Result<Env> {
        self.builder().open(self.env())
    }

    pub fn open_alone(&self) -> sablecat::Result<Env> {
        self.builder().shared(false).open(self.env())
    }

    /// What is left of this one when all of its processes are killed at this moment: its files and its
    /// region, and nobody who holds a lock.
    pub fn killed(&self, name: &str) -> Place {
        let left = Place::new(name);
        copy(&self.env(), &left.env());
        sparse::copy(&self.region(), &left.region()).expect("copied");
        left
    }

    /// Where its region is.
    pub fn region(&self) -> PathBuf {
        let directory = fs::metadata(self.env()).expect("there");
        self.base.join("region").join(format!("sablecat-{:x}-{:x}", directory.dev(), directory.ino()))
    }

    pub fn spoil(&self, at: u64, how: impl FnOnce(u8) -> u8) {
        let file = fs::File::options().read(true).write(true).open(self.region()).expect("there");
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("read");
        file.write_all_at(&[how(byte[0])], at).expect("written");
    }

    /// The files beside the environment: its region, and any that was set aside.
    pub fn regions(&self) -> Vec<PathBuf> {
        let mut found: Vec<_> = fs::read_dir(self.base.join("region"))
            .expect("there")
            .map(|file| file.expect("read").path())
            .collect();
        found.sort();
        found
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.base);
    }
}

/// Copies a directory's files over what is there, as `cp -r` does.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("there") {
        let (from, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).expect("read");
        if from.is_dir() { copy(&from, &to) } else { fs::copy(&from, &to).map(drop).expect("copied") }
    }
}

/// Copies this program, for others to start. Another process does it: a file that is open for writing here is
/// also in what another test starts at this moment, until that executes, and cannot be executed itself.
pub fn copy_program(to: &Path) {
    let copied = Command::new("cp").arg(std::env::current_exe().expect("a program")).arg(to).status();
    assert!(copied.expect("started").success());
}

/// An environment with a value that is durable, and a newer one that is in the region alone.
pub fn flushed_then_not(place: &Place) -> Env {
    let env = place.open().expect("created");
    put(&env, "flushed");
    put_in_memory(&env, "in the region");
    env
}

pub fn put(env: &Env, value: &str) {
    env.database("d").and_then(|d| d.insert("k", value)).expect("inserted");
}

pub fn put_in_memory(env: &Env, value: &str) {
    let d = env.database("d").expect("opened");
    let in_memory = TxnOptions::new().durability(Durability::Memory);
    env.write_with(in_memory, |txn| txn.insert(&d, "k", value).map(drop)).expect("committed");
}

pub fn get(env: &Env) -> Option<Vec<u8>> {
    env.database("d").and_then(|d| d.get("k")).expect("read")
}

/// With what a process ends that is cut off.
pub const CUT_OFF: i32 = 77;

/// The machine's disk, and the end of the process before so many calls that change something have been made
/// on it.
pub fn cut_off_after(calls: i64) -> Between {
    Between::new(HostDisk, CutOff { left: AtomicI64::new(calls) })
}

#[derive(Debug)]
struct CutOff {
    left: AtomicI64,
}

impl Judge for CutOff {
    fn judge(&self, call: Call) -> Verdict {
        if call.changes() && self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            // Nothing is let go of in good order, and no other thread does anything after this.
            std::process::exit(CUT_OFF);
        }
        Verdict::Make
    }
}
