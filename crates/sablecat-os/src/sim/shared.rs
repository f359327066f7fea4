//! The state of a disk, shared by all who hold the disk or a file of it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::fault::{Call, Fault};
use super::state::State;

/// A clone is the same state.
#[derive(Clone)]
pub(super) struct SharedState(Arc<Mutex<State>>);

impl SharedState {
    pub(super) fn new(state: State) -> SharedState {
        SharedState(Arc::new(Mutex::new(state)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked did so in a test that is failing already.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, to do a call on it, and what is to go wrong in the call.
    pub(super) fn call(&self, call: Call) -> io::Result<(MutexGuard<'_, State>, Option<Fault>)> {
        let mut state = self.lock();
        let fault = state.plan.count(call)?;
        Ok((state, fault))
    }
}
