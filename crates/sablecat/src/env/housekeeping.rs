//! The housekeeping thread: hands the log to the operating system and flushes it every interval, prepares the next log segment, and
//! writes checkpoints when the interval has passed or the log has grown enough.
//!
//! Errors do not end it: what went wrong poisons the log or the volume, and the next commit reports it.

use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Core, lock};
use crate::error::{Error, ErrorKind, Result};
use crate::txn::caller;

/// The thread's handle and its alarm clock.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    thread: Mutex<Option<JoinHandle<()>>>,
    bell: Arc<Bell>,
}

#[derive(Debug, Default)]
struct Bell {
    stopped: Mutex<bool>,
    rung: Condvar,
}

impl Keeper {
    pub(super) fn start(&self, core: &Arc<Core>) -> Result<()> {
        let weak = Arc::downgrade(core);
        let bell = Arc::clone(&self.bell);
        let interval = core.config.flush_interval.max(Duration::from_millis(1));
        let thread = std::thread::Builder::new()
            .name("sablecat".to_owned())
            .spawn(move || keep(&weak, &bell, interval))
            .map_err(|e| Error::new(ErrorKind::Io, format!("starting the housekeeping thread: {e}")))?;
        *lock(&self.thread) = Some(thread);
        Ok(())
    }

    pub(super) fn stop(&self) {
        *lock(&self.bell.stopped) = true;
        self.bell.rung.notify_all();
        if let Some(thread) = lock(&self.thread).take() {
            // A panic of the thread has been printed; there is nothing to add.
            let _ = thread.join();
        }
    }
}

fn keep(core: &Weak<Core>, bell: &Bell, interval: Duration) {
    let mut checkpointed = sablecat_os::clock::monotonic();
    loop {
        let stopped = lock(&bell.stopped);
        let (stopped, _) =
            bell.rung.wait_timeout_while(stopped, interval, |stopped| !*stopped).unwrap_or_else(std::sync::PoisonError::into_inner);
        if *stopped {
            return;
        }
        drop(stopped);
        let Some(core) = core.upgrade() else { return };
        core.keep_house(&mut checkpointed);
    }
}

impl Core {
    fn keep_house(&self, checkpointed: &mut Duration) {
        let log = &self.kernel.log;
        let Ok(seat) = self.kernel.pages.participants.sit() else { return };
        let caller = caller(seat.number());
        // What fails here has poisoned the log, and whoever commits next is told.
        let _ = log.prepare_next(caller);
        if log.durable() < log.tail() {
            let _ = log.make_durable(log.tail(), caller);
        }
        drop(seat);
        let now = sablecat_os::clock::monotonic();
        let grown = log.tail().0.saturating_sub(self.checkpointed().0);
        let due = now.saturating_sub(*checkpointed) >= self.config.checkpoint_interval && grown > 0;
        if due || grown >= self.config.checkpoint_log_bytes {
            *checkpointed = now;
            let _ = self.checkpoint(false);
        }
    }
}
