//! The watch as the loops use it, on the clock and the buckets that the adapters in C have.

use crate::c::now_ns;

/// How long the operations of one thread took so far: each lasts from the end of the last one to its own.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    last_ns: u64,
    pub(super) seen: Box<crate::watch::Watch>,
}

impl Watch {
    pub(super) fn start() -> Watch {
        let seen = crate::watch::Watch::new();
        Watch { last_ns: now_ns(), seen }
    }

    /// An operation has ended.
    #[inline]
    pub(super) fn stop(&mut self, is_read: bool) {
        let now = now_ns();
        self.seen.count((self.last_ns, now), !is_read);
        self.last_ns = now;
    }

    /// The times of two threads.
    pub(super) fn and(mut self, other: Watch) -> Box<Watch> {
        self.seen.add(&other.seen);
        Box::new(self)
    }
}
