//! Who keeps house beside a run: a thread that flushes what has been committed, and makes checkpoints.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::c::now_ns;
use crate::system::{Mode, Store};

/// What [`Mode::Background`] says.
const FLUSH_INTERVAL: Duration = Duration::from_millis(50);
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(4);

/// When a checkpoint began, and when it ended, by the monotonic clock.
pub(crate) type Made = (u64, u64);

/// How often what is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Intervals {
    /// Somebody comes so often, and flushes if there is no checkpoint to be made.
    tick: Duration,
    flushes: bool,
    checkpoint: Duration,
}

impl Intervals {
    /// Those of a run; none if nobody has to keep house.
    pub(crate) fn of(mode: Mode, checkpoint_ms: u64) -> Option<Intervals> {
        let asked = Duration::from_millis(checkpoint_ms);
        match (mode, checkpoint_ms) {
            (Mode::Background, 0) => {
                Some(Intervals { tick: FLUSH_INTERVAL, flushes: true, checkpoint: CHECKPOINT_INTERVAL })
            }
            (Mode::Background, _) => {
                Some(Intervals { tick: FLUSH_INTERVAL, flushes: true, checkpoint: asked })
            }
            (_, 0) => None,
            _ => Some(Intervals { tick: asked, flushes: false, checkpoint: asked }),
        }
    }
}

/// Does the work while a thread keeps house.
pub(crate) fn beside<T>(
    store: &dyn Store,
    intervals: Intervals,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<(T, Vec<Made>), String> {
    let (done, is_over) = (Mutex::new(false), Condvar::new());
    thread::scope(|scope| {
        let keeper = scope.spawn(|| {
            let (mut made, mut last) = (Vec::new(), now_ns());
            loop {
                let over = done.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = is_over.wait_timeout_while(over, intervals.tick, |over| !*over);
                if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                    return Ok(made);
                }
                let began = now_ns();
                let is_due = u128::from(began - last) >= intervals.checkpoint.as_nanos();
                if is_due || intervals.flushes {
                    store.upkeep(is_due)?;
                }
                if is_due {
                    last = now_ns();
                    made.push((began, last));
                }
            }
        });
        let worked = work();
        *done.lock().unwrap_or_else(PoisonError::into_inner) = true;
        is_over.notify_all();
        let kept = keeper.join().unwrap_or_else(|_| Err("who keeps house has panicked".to_owned()));
        worked.and_then(|result| kept.map(|made| (result, made)))
    })
}
