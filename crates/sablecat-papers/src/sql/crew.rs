//! The driving end: processes that work on one database.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sablecat::Env;

use super::protocol::{Done, Open, Request};
use super::systems::{System, UseBy};
use crate::contestant::Refusal;
use crate::process::Process;
use crate::protocol::Mode;

/// How long a process may take to close its database.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a database is opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening<'a> {
    /// A command line that calls [`work`](super::work()), to which the system's name is appended.
    pub(super) worker: &'a [OsString],
    pub(super) mode: Mode,
    pub(super) cache_bytes: u64,
    pub(super) use_by: UseBy,
}

/// Processes that have a database open; the first one has made it.
pub(super) struct Crew<'a> {
    system: &'static System,
    opening: Opening<'a>,
    dir: PathBuf,
    processes: Vec<Process>,
}

impl<'a> Crew<'a> {
    /// One process, which makes a database in a new directory. Both are gone when this is.
    pub(super) fn new(system: &'static System, opening: Opening<'a>, dir: &Path) -> Result<Crew<'a>, String> {
        std::fs::create_dir(dir).map_err(|error| format!("cannot create {}: {error}", dir.display()))?;
        let mut crew = Crew { system, opening, dir: dir.to_owned(), processes: Vec::new() };
        crew.join()?;
        Ok(crew)
    }

    /// Another process that opens the database.
    pub(super) fn join(&mut self) -> Result<(), String> {
        let Opening { worker, mode, cache_bytes, use_by } = self.opening;
        let mut process = super::start(self.system, worker).map_err(Refusal::why)?;
        let open = Open { dir: self.dir.to_string_lossy().into_owned(), mode, cache_bytes, use_by };
        process.tell(&Request::Open(open)).map_err(Refusal::why)?;
        process.hear::<Done>().map_err(Refusal::why)?;
        self.processes.push(process);
        Ok(())
    }

    /// Asks the first process.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Done, String> {
        self.processes[0].tell(request).and_then(|()| self.processes[0].hear()).map_err(Refusal::why)
    }

    /// Asks all of them at once, each by its number; what they have done in that order.
    pub(super) fn ask_all(&mut self, request: impl Fn(usize) -> Request) -> Result<Vec<Done>, String> {
        for (number, process) in self.processes.iter_mut().enumerate() {
            process.tell(&request(number)).map_err(Refusal::why)?;
        }
        // All are heard, so that none is in the middle of something when the first failure is told.
        let heard: Vec<Result<Done, Refusal>> = self.processes.iter_mut().map(Process::hear).collect();
        heard.into_iter().map(|done| done.map_err(Refusal::why)).collect()
    }

    /// Closes the database in all processes; blocks that its files have, in MB.
    pub(super) fn close(mut self) -> Result<f64, String> {
        self.ask_all(|_| Request::Close)?.last().map(|done| done.disk_mb).ok_or_else(|| "nobody".to_owned())
    }
}

impl Drop for Crew<'_> {
    fn drop(&mut self) {
        let mut all_have_left = true;
        for process in &mut self.processes {
            all_have_left &= process.leave(PATIENCE);
        }
        self.processes.clear();
        if !all_have_left && self.system.is_ours() {
            // To open and close it removes the shared memory that killed processes have left; more than
            // trying cannot be done.
            let _ = Env::builder().shared(true).create(false).open(self.dir.join("store")).map(Env::close);
        }
        // What could not be cleared away is in a directory that will be removed as a whole.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;
    use crate::sql::scale::Scale;

    /// Processes that open a database, and answer nothing after that.
    #[test]
    fn a_crew_that_hangs_is_killed_and_says_so() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let script = "read -r line; echo '{\"seconds\":1,\"cpu_seconds\":1}'; exec sleep 1000";
        let worker = ["sh", "-c", script].map(OsString::from);
        let opening = Opening { worker: &worker, mode: Mode::Sync, cache_bytes: 1, use_by: UseBy::Processes };
        let system = System::named("sqlite").unwrap();
        let mut crew = Crew::new(system, opening, &place.path().join("bank")).unwrap();
        crew.join().unwrap();
        // They have answered; from here on they have little time.
        crew.processes.iter_mut().for_each(|process| process.limit(Duration::from_millis(20)));
        let why = crew.ask_all(|_| Request::Bank(Scale::of_accounts(1))).unwrap_err();
        assert_eq!(why, "no answer to \"bank\" within 20 ms: its process was killed");
        assert!(crew.processes.iter_mut().all(|process| !process.leave(PATIENCE)), "all of them are killed");
    }
}
