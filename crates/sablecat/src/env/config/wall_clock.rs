//! What tells the time of day: the system, or in its place a program, whose tests set it.

use std::fmt;
use std::sync::Arc;

use sablecat_os::calendar::Moment;
use sablecat_os::clock;

type TellFn = dyn Fn() -> Moment + Send + Sync;

/// A clock.
#[derive(Clone, Default)]
pub(crate) struct WallClock(Option<Arc<TellFn>>);

impl WallClock {
    pub(crate) fn of(tell: impl Fn() -> Moment + Send + Sync + 'static) -> WallClock {
        WallClock(Some(Arc::new(tell)))
    }

    /// The time, in milliseconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        match &self.0 {
            Some(tell) => tell().ms,
            None => clock::wall_coarse().ms,
        }
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "a program's clock" } else { "the system's clock" })
    }
}
