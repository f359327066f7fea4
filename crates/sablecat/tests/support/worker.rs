//! Other processes of a test: its program, started again with [`DIRECTORY`] set, so that it runs one function
//! alone, which is ignored otherwise.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The variable that says where the environment is.
pub(crate) const DIRECTORY: &str = "SABLECAT_TEST_DIR";

/// One of them; killed when dropped. What it fails with it says on the standard error.
pub(crate) struct Worker(pub(crate) Child);

impl Worker {
    /// One that runs the function `worker`.
    pub(crate) fn start(path: &Path) -> Worker {
        Worker::start_as("worker", path)
    }

    pub(crate) fn start_as(function: &str, path: &Path) -> Worker {
        let mut command = Command::new(std::env::current_exe().expect("a program"));
        command
            .args(["--exact", function, "--ignored", "--nocapture"])
            .env(DIRECTORY, path)
            .stdout(Stdio::null());
        Worker(command.spawn().expect("started"))
    }

    /// It is still at work.
    pub(crate) fn assert_works(&mut self) {
        let ended = self.0.try_wait().expect("asked");
        assert_eq!(ended.map(|status| status.success()), None, "it has failed");
    }

    /// It ends by itself, and has not failed.
    pub(crate) fn assert_ends(&mut self) {
        assert!(self.0.wait().expect("waited for").success(), "a worker has failed");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        self.0.wait().expect("waited for");
    }
}
