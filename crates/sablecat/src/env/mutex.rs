//! Mutexes that a thread may have held when it panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks it. What is in it is sound whenever it is not locked, and whenever it may panic.
pub(in crate::env) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
