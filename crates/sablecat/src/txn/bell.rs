//! The bell by which commits call the housekeeping thread before its time: when the log's buffer is half full, or its next segment is
//! wanted. Ringing it again before it was answered costs one load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The bell.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    stopped: Mutex<bool>,
    heard: Condvar,
}

impl Bell {
    /// Calls whoever listens.
    #[inline]
    pub(crate) fn ring(&self) {
        // Relaxed: a listener that misses it hears the next one, or wakes by itself.
        if !self.rung.load(Ordering::Relaxed) {
            self.ring_loudly();
        }
    }

    #[cold]
    fn ring_loudly(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            self.heard.notify_one();
        }
    }

    /// Tells the listener to go.
    pub(crate) fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.heard.notify_all();
    }

    /// Waits until the bell is rung or `interval` has passed. False when told to go.
    pub(crate) fn listen(&self, interval: Duration) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = |stopped: &mut bool| !*stopped && !self.rung.load(Ordering::Acquire);
        let (stopped, _) = self.heard.wait_timeout_while(stopped, interval, waiting).unwrap_or_else(PoisonError::into_inner);
        self.rung.store(false, Ordering::Release);
        !*stopped
    }
}
