//! Moments of an operation: after so many instructions.

use std::fmt;

/// A moment of an operation.
#[derive(Clone, Copy, Default)]
pub(super) struct At {
    /// After so many steps.
    pub(super) step: u64,
    /// Of these the last so many come after so many system calls: it is a hundred times faster to go from
    /// call to call.
    pub(super) calls: u64,
    pub(super) since: u64,
}

impl At {
    /// One step later.
    pub(super) fn pass(&mut self, was_call: bool) {
        self.step += 1;
        (self.calls, self.since) = if was_call { (self.calls + 1, 0) } else { (self.calls, self.since + 1) };
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (the last {} of them behind {} calls)", self.step, self.since, self.calls)
    }
}
