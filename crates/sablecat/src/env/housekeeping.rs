//! The housekeeping thread: hands the log to the operating system and flushes it every interval, prepares the next log segment, and
//! writes checkpoints when the interval has passed or the log has grown enough. When nothing was logged for an interval, it goes on
//! with making the volume smaller, if there is something to gain, and gives back the log's spare segments.
//!
//! Errors do not end it: what went wrong poisons the log or the volume, and the next commit reports it.
//!
//! A program that may not have threads calls [`Core::keep_house`] instead, now and then.

use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Core, lock};
use crate::error::{Error, ErrorKind, Result};
use crate::txn::{Bell, caller};

/// Who keeps house in this process.
#[derive(Debug)]
pub(super) struct Keeper {
    thread: Mutex<Option<JoinHandle<()>>>,
    done: Mutex<Done>,
}

/// When things were done last, by the monotonic clock.
#[derive(Debug)]
struct Done {
    flush: Duration,
    checkpoint: Duration,
}

impl Default for Keeper {
    fn default() -> Keeper {
        let now = sablecat_os::clock::monotonic();
        Keeper { thread: Mutex::default(), done: Mutex::new(Done { flush: now, checkpoint: now }) }
    }
}

impl Keeper {
    pub(super) fn start(&self, core: &Arc<Core>) -> Result<()> {
        let weak = Arc::downgrade(core);
        let bell = Arc::clone(&core.kernel.bell);
        let interval = core.config.flush_interval.max(Duration::from_millis(1));
        let thread = std::thread::Builder::new()
            .name("sablecat".to_owned())
            .spawn(move || keep(&weak, &bell, interval))
            .map_err(|e| Error::new(ErrorKind::Io, format!("starting the housekeeping thread: {e}")))?;
        *lock(&self.thread) = Some(thread);
        Ok(())
    }

    pub(super) fn stop(&self, bell: &Bell) {
        bell.stop();
        if let Some(thread) = lock(&self.thread).take() {
            // A panic of the thread has been printed; there is nothing to add.
            let _ = thread.join();
        }
    }
}

fn keep(core: &Weak<Core>, bell: &Bell, interval: Duration) {
    while bell.listen(interval) {
        let Some(core) = core.upgrade() else { return };
        // What fails poisons the log, or is tried again by the commit that needs it: either way a committer is told.
        let _ = core.keep_house();
    }
}

impl Core {
    /// Does what is due; nothing if another thread or process is at it.
    pub(crate) fn keep_house(&self) -> Result<()> {
        let log = &self.kernel.log;
        let seat = self.kernel.pages.participants.sit()?;
        // Before anything that might wait for the dead. What goes wrong is tried again at the next turn.
        let _ = self.kernel.reap_now_and_then(&seat);
        let Ok(_keeper) = self.kernel.keep(&seat) else { return Ok(()) };
        let mut done = lock(&self.keeper.done);
        let caller = caller(&self.kernel.pages.region, seat.number());
        // One failure does not keep the rest from being done: a checkpoint may be what makes room for the next segment.
        let prepared = log.prepare_next(caller);
        let now = sablecat_os::clock::monotonic();
        let written = if now.saturating_sub(done.flush) >= self.config.flush_interval {
            done.flush = now;
            log.make_durable(log.tail(), caller)
        } else {
            log.drain(caller)
        };
        drop(seat);
        let grown = log.tail().0.saturating_sub(self.checkpointed().0);
        let due = now.saturating_sub(done.checkpoint) >= self.config.checkpoint_interval;
        let checkpointed = if due || grown >= self.config.checkpoint_log_bytes {
            done.checkpoint = now;
            if grown > 0 || self.is_moving() { self.checkpoint(false).map(drop) } else { self.recycle_log() }
        } else {
            Ok(())
        };
        prepared.and(written).and(checkpointed)
    }
}
