//! Checkpoints beside a run, at set times, so that it is known what the run met.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sablecat::Env;

use super::engine::say;

/// When a checkpoint began, and when it ended.
pub(super) type Made = (Instant, Instant);

/// Does the work while a thread makes a checkpoint, waits so long, and makes the next.
pub(super) fn beside<T>(
    env: &Env,
    interval: Duration,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<(T, Vec<Made>), String> {
    let (done, is_over) = (Mutex::new(false), Condvar::new());
    thread::scope(|scope| {
        let keeper = scope.spawn(|| {
            let mut made = Vec::new();
            loop {
                let over = done.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = is_over.wait_timeout_while(over, interval, |over| !*over);
                if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                    return Ok(made);
                }
                let began = Instant::now();
                env.checkpoint().map_err(say)?;
                made.push((began, Instant::now()));
            }
        });
        let worked = work();
        *done.lock().unwrap_or_else(PoisonError::into_inner) = true;
        is_over.notify_all();
        let kept = keeper.join().unwrap_or_else(|_| Err("who makes checkpoints has panicked".to_owned()));
        worked.and_then(|result| kept.map(|made| (result, made)))
    })
}
