//! The processes of a storm, as their parent sees them.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sablecat_os::check::signal;

use super::said::{Memory, Said};
use crate::{method, stored};

/// A worker: the process that it is at the moment, and what all its lives have said.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) number: u64,
    said: Arc<Mutex<Said>>,
    life: Option<Life>,
}

#[derive(Debug)]
struct Life {
    child: Child,
    /// Open until the worker is to leave.
    order: Option<ChildStdin>,
    listener: JoinHandle<()>,
}

impl Worker {
    pub(super) fn new(number: u64) -> Worker {
        Worker { number, said: Arc::default(), life: None }
    }

    /// Starts a process: this program again, with these words.
    pub(super) fn start(&mut self, words: &[String]) -> Result<(), String> {
        let program = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
        let mut child = Command::new(program)
            .args(method::words())
            .args(stored::words())
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("starting a worker: {e}"))?;
        let out = child.stdout.take().ok_or("the worker has no standard output")?;
        self.said().begin();
        let said = Arc::clone(&self.said);
        let listener = std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                // The last line may be cut short, and is none then.
                if let Ok(line) = line.parse() {
                    said.lock().unwrap_or_else(PoisonError::into_inner).hear(line);
                }
            }
        });
        let order = child.stdin.take();
        self.life = Some(Life { child, order, listener });
        Ok(())
    }

    /// What it has said. Complete once its process has ended.
    pub(super) fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many commits it has acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.said().acknowledged()
    }

    /// In which memory it has been told that the environment is poisoned, if it has.
    pub(super) fn poisoned(&self) -> Option<Memory> {
        self.said().poisoned()
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.life.as_ref().map(|life| life.child.id())
    }

    /// Whether it has ended, for no reason that is known.
    pub(super) fn has_failed(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.listener.is_finished() && life.order.is_some())
            && self.poisoned().is_none()
    }

    /// Whether it has no process, or has been told that the environment is poisoned.
    pub(super) fn is_told(&self) -> bool {
        self.life.is_none() || self.poisoned().is_some()
    }

    /// Kills its process, and hears what it still had to say.
    ///
    /// # Errors
    /// If it had ended by itself, which a worker does only when something is wrong, or when it was told to,
    /// or that the environment is poisoned.
    pub(super) fn kill(&mut self) -> Result<(), String> {
        let Some(mut life) = self.life.take() else { return Ok(()) };
        let ended = life.child.try_wait().map_err(|e| format!("asking after a worker: {e}"))?;
        life.child.kill().map_err(|e| format!("killing a worker: {e}"))?;
        life.child.wait().map_err(|e| format!("waiting for a worker: {e}"))?;
        self.heard(life, ended)
    }

    fn heard(&self, life: Life, ended: Option<ExitStatus>) -> Result<(), String> {
        let was_to_end = life.order.is_none();
        life.listener.join().map_err(|_| "the listener failed")?;
        match ended {
            None => Ok(()),
            Some(status) if status.success() && (was_to_end || self.poisoned().is_some()) => Ok(()),
            Some(status) => Err(format!("worker {} ended by itself: {status}", self.number)),
        }
    }

    /// Tells it to close the environment and to end. One that is poisoned does so without being told.
    pub(super) fn ask_to_leave(&mut self) {
        if let Some(life) = &mut self.life {
            life.order = None;
        }
    }

    /// Waits until it has ended, as it was asked to.
    pub(super) fn wait_until_gone(&mut self, patience: Duration) -> Result<(), String> {
        let Some(life) = &mut self.life else { return Ok(()) };
        let until = Instant::now() + patience;
        loop {
            if let Some(status) = life.child.try_wait().map_err(|e| format!("asking after a worker: {e}"))? {
                return self.life.take().map_or(Ok(()), |life| self.heard(life, Some(status)));
            }
            if Instant::now() >= until {
                return Err(format!("worker {} (process {}) does not end", self.number, life.child.id()));
            }
            std::thread::sleep(Duration::from_micros(200));
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
