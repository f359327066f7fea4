//! Bells, by which work in the background is called for before its time: commits ring for the housekeeping
//! thread when the log's buffer is half full, or its next segment is wanted; sweeps for the cleaning thread,
//! when dirty frames are in their way. Ringing again before it was answered costs one load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The bell.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    stopped: Mutex<bool>,
    heard: Condvar,
    /// Rung with this one, as long as nobody listens.
    instead: Mutex<Option<Arc<Bell>>>,
}

impl Bell {
    /// Has another bell rung with this one [until somebody listens](Bell::has_listener): a thread that hears
    /// the other bell sees to it that somebody listens to this one.
    pub(crate) fn until_listened_to(&self, other: &Arc<Bell>) {
        *self.instead() = Some(Arc::clone(other));
    }

    /// Whether somebody listens, or another bell need not be rung instead.
    pub(crate) fn is_listened_to(&self) -> bool {
        self.instead().is_none()
    }

    /// Somebody listens from now on.
    pub(crate) fn has_listener(&self) {
        *self.instead() = None;
    }

    fn instead(&self) -> MutexGuard<'_, Option<Arc<Bell>>> {
        self.instead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the listener.
    #[inline]
    pub(crate) fn ring(&self) {
        // Relaxed: the thread that rang before has called.
        if !self.rung.load(Ordering::Relaxed) {
            self.ring_loudly();
        }
    }

    #[cold]
    fn ring_loudly(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // A listener between its look at the word and its sleep holds the lock: it is asleep afterwards,
            // and hears.
            drop(self.stopped.lock().unwrap_or_else(PoisonError::into_inner));
            self.heard.notify_one();
            if let Some(other) = &*self.instead() {
                other.ring();
            }
        }
    }

    /// Whether it was rung and nobody has answered yet.
    pub(crate) fn is_rung(&self) -> bool {
        self.rung.load(Ordering::Acquire)
    }

    /// Tells the listener to go.
    pub(crate) fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.heard.notify_all();
    }

    /// Whether the listener is told to go.
    pub(crate) fn is_stopped(&self) -> bool {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the bell is rung or `interval` has passed. False when told to go.
    pub(crate) fn listen(&self, interval: Duration) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = |stopped: &mut bool| !*stopped && !self.rung.load(Ordering::Acquire);
        let (stopped, _) =
            self.heard.wait_timeout_while(stopped, interval, waiting).unwrap_or_else(PoisonError::into_inner);
        self.rung.store(false, Ordering::Release);
        !*stopped
    }
}
