//! The housekeeping thread: hands the log to the operating system and flushes it every interval, prepares the next log segment, and
//! writes checkpoints when the interval has passed or the log has grown enough. When nothing was logged for an interval, it goes on
//! with making the volume smaller, if there is something to gain, and gives back the log's spare segments.
//!
//! Errors do not end it: what went wrong poisons the log or the volume, and the next commit reports it.

use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Core, lock};
use crate::error::{Error, ErrorKind, Result};
use crate::txn::{Bell, caller};

/// The thread's handle.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    thread: Mutex<Option<JoinHandle<()>>>,
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
    let mut flushed = sablecat_os::clock::monotonic();
    let mut checkpointed = flushed;
    while bell.listen(interval) {
        let Some(core) = core.upgrade() else { return };
        core.keep_house(&mut flushed, &mut checkpointed);
    }
}

impl Core {
    fn keep_house(&self, flushed: &mut Duration, checkpointed: &mut Duration) {
        let log = &self.kernel.log;
        let Ok(seat) = self.kernel.pages.participants.sit() else { return };
        // Before anything that might wait for the dead. What goes wrong is tried again at the next turn.
        let _ = self.kernel.reap_now_and_then(&seat);
        let Ok(_keeper) = self.kernel.keep(&seat) else { return };
        let caller = caller(&self.kernel.pages.region, seat.number());
        // What fails here poisons the log, or is tried again by the commit that needs it: either way a committer is told.
        let _ = log.prepare_next(caller);
        let now = sablecat_os::clock::monotonic();
        if now.saturating_sub(*flushed) >= self.config.flush_interval {
            *flushed = now;
            let _ = log.make_durable(log.tail(), caller);
        } else {
            let _ = log.drain(caller);
        }
        drop(seat);
        let grown = log.tail().0.saturating_sub(self.checkpointed().0);
        let due = now.saturating_sub(*checkpointed) >= self.config.checkpoint_interval;
        if due || grown >= self.config.checkpoint_log_bytes {
            *checkpointed = now;
            let _ = if grown > 0 || self.is_moving() { self.checkpoint(false).map(|_| ()) } else { self.recycle_log() };
        }
    }
}
