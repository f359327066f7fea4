//! Other processes of a test: its program, started again with [`DIRECTORY`] set, so that it runs one function
//! alone, which is ignored otherwise.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use sablecat::{Env, ErrorKind, Result};
use sablecat_os::check::signal;
use sablecat_os::liveness;

/// The variable that says where the environment is.
pub const DIRECTORY: &str = "SABLECAT_TEST_DIR";

/// The name by which this program knows a test.
pub fn test_name<F: Fn()>(_: F) -> &'static str {
    let (_, name) = std::any::type_name::<F>().split_once("::").expect("the name of the program comes first");
    name
}

/// One of them; killed when dropped. What it fails with it says on the standard error.
pub struct Worker(pub Child);

impl Worker {
    /// One that runs the function.
    pub fn start(function: impl Fn(), path: &Path) -> Worker {
        Worker::start_named(test_name(function), path)
    }

    pub fn start_named(test: &str, path: &Path) -> Worker {
        let mut command = Command::new(std::env::current_exe().expect("a program"));
        command
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(DIRECTORY, path)
            .stdout(Stdio::null());
        Worker(command.spawn().expect("started"))
    }

    /// It is still at work.
    pub fn assert_works(&mut self) {
        let ended = self.0.try_wait().expect("asked");
        assert_eq!(ended.map(|status| status.success()), None, "it has failed");
    }

    /// Stops it, does `work`, which others get through but for the pages that it has latched, and lets it go
    /// on. Does nothing if it was stopped in the commit role before its commit point: there it holds up every
    /// commit.
    pub fn stopped_beside(&mut self, env: &Env, work: impl FnOnce()) {
        let pid = self.0.id();
        signal::stop(pid).expect("stopped");
        while !self.threads().all(liveness::is_stopped) {
            // One that has ended never does.
            self.assert_works();
            std::thread::yield_now();
        }
        let holds_up = |process: &sablecat::Process| {
            let is_before = |p: &sablecat::Participant| p.roles.contains(&"commit") && !p.committing;
            process.pid == pid && process.participants.iter().any(is_before)
        };
        if !env.processes().iter().any(holds_up) {
            work();
        }
        signal::go_on(pid).expect("continued");
    }

    /// Each stops when it comes to see the signal.
    fn threads(&self) -> impl Iterator<Item = u32> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).expect("a process");
        tasks.map(|task| {
            task.expect("a thread").file_name().to_str().and_then(|n| n.parse().ok()).expect("a number")
        })
    }

    /// It ends by itself, and has not failed.
    pub fn assert_ends(&mut self) {
        assert!(self.0.wait().expect("waited for").success(), "a worker has failed");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        self.0.wait().expect("waited for");
    }
}

/// Passes over what may come of others' being there, stopped perhaps with the serial gate.
pub fn unless<T>(kinds: &[ErrorKind], result: Result<T>) {
    match result {
        Err(error) if error.kind() == ErrorKind::Timeout || kinds.contains(&error.kind()) => {}
        done => drop(done.expect("nothing else fails")),
    }
}

/// Looks again when the cache is too small for so many changes beside a long look.
pub fn patiently<T>(look: impl Fn() -> Result<T>) -> T {
    loop {
        match look() {
            Err(error) if error.kind() == ErrorKind::SnapshotTooOld => {}
            seen => return seen.expect("looked"),
        }
    }
}
