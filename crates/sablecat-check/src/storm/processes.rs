//! The processes of a storm, as their parent sees them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use sablecat_os::check::signal;

use super::Storm;

/// A worker: the process that it is at the moment, and what all its lives have acknowledged.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) number: u64,
    acknowledged: Arc<AtomicU64>,
    life: Option<Life>,
}

#[derive(Debug)]
struct Life {
    child: Child,
    listener: JoinHandle<()>,
}

impl Worker {
    pub(super) fn new(number: u64) -> Worker {
        Worker { number, acknowledged: Arc::default(), life: None }
    }

    /// Starts a process: this program again.
    pub(super) fn start(&mut self, storm: &Storm) -> Result<(), String> {
        let program = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
        let mut child = Command::new(program)
            .args(storm.words_for_worker(self.number))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("starting a worker: {e}"))?;
        let out = child.stdout.take().ok_or("the worker has no standard output")?;
        let acknowledged = Arc::clone(&self.acknowledged);
        let listener = std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                // The last line may be cut short: a smaller number, or none.
                if let Ok(count) = line.parse() {
                    acknowledged.fetch_max(count, Ordering::SeqCst);
                }
            }
        });
        self.life = Some(Life { child, listener });
        Ok(())
    }

    /// How many commits it has acknowledged. Complete once its process is killed.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.life.as_ref().map(|life| life.child.id())
    }

    /// Kills its process, and hears what it still had to say.
    ///
    /// # Errors
    /// If it had ended by itself, which a worker does only when something is wrong.
    pub(super) fn kill(&mut self) -> Result<(), String> {
        let Some(mut life) = self.life.take() else { return Ok(()) };
        let ended = life.child.try_wait().map_err(|e| format!("asking after a worker: {e}"))?;
        life.child.kill().map_err(|e| format!("killing a worker: {e}"))?;
        life.child.wait().map_err(|e| format!("waiting for a worker: {e}"))?;
        life.listener.join().map_err(|_| "the listener failed")?;
        match ended {
            None => Ok(()),
            Some(status) => Err(format!("worker {} ended by itself: {status}", self.number)),
        }
    }

    /// Stops its process.
    pub(super) fn stop(&self) -> Result<(), String> {
        self.pid().map_or(Ok(()), signal::stop).map_err(|e| format!("stopping a worker: {e}"))
    }

    /// Has its process go on.
    pub(super) fn go_on(&self) -> Result<(), String> {
        self.pid().map_or(Ok(()), signal::go_on).map_err(|e| format!("having a worker go on: {e}"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
