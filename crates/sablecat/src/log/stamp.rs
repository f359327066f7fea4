//! Time records: when things were committed, for going back to a time.
//!
//! ```text
//! body: milliseconds since 1970, u64
//! ```
//!
//! Where a journal is kept, a commit that comes [`INTERVAL_MS`] or more after the last time record puts one
//! in front of its own record, in the same commit step. So what stands between two time records was committed
//! at the first of them or up to the interval later, however rarely or often commits come; and it costs 32
//! bytes an interval at most, and a look at the clock a commit. Commits do not say each when they were.
//!
//! Times in the log never go back. While a clock that was set back catches up, the time stands still.

use sablecat_os::atomic::Ordering;
use sablecat_os::calendar::Moment;
use sablecat_os::clock;

use super::Log;
use super::record::{HEADER_BYTES, LogRecord, RecordBuilder, RecordKind, u64_at};
use crate::types::Lsn;

/// How close two time records may come: the resolution of going back to a time.
pub(crate) const INTERVAL_MS: u64 = 10;
const STAMP_BYTES: usize = HEADER_BYTES + 8;

impl Log {
    /// No time record, and no answer of [`Log::time`], will be earlier than this. For a process that opens,
    /// alone.
    pub(crate) fn time_is_at_least(&self, ms: u64) {
        self.words().stamped.fetch_max(ms, Ordering::Relaxed);
    }

    /// The time, in milliseconds since 1970, and never less than that of a commit before.
    pub(crate) fn time(&self) -> u64 {
        clock::wall_coarse().ms.max(self.words().stamped.load(Ordering::Relaxed))
    }

    /// Bytes that [`Log::stamp`] may need at the tail.
    #[inline]
    pub(crate) fn stamp_bytes(&self) -> usize {
        if self.is_archived { STAMP_BYTES } else { 0 }
    }

    /// Puts a time record at the tail, if one is due: the caller's own record comes after it, at the LSN
    /// returned, and the tail moves over both at once. The caller holds the commit role and has seen that
    /// there is room for both.
    #[inline]
    pub(crate) fn stamp(&self) -> Lsn {
        let tail = self.tail();
        if !self.is_archived {
            return tail;
        }
        let now = clock::wall_coarse().ms;
        // Relaxed: written under the commit role only.
        let last = self.words().stamped.load(Ordering::Relaxed);
        if now < last.saturating_add(INTERVAL_MS) {
            return tail;
        }
        self.words().stamped.store(now, Ordering::Relaxed);
        let mut record = RecordBuilder::new();
        record.begin(RecordKind::Time);
        record.raw(&now.to_le_bytes());
        record.finish_body();
        self.copy_record(tail, record.seal(tail, self.durable()));
        Lsn(tail.0 + STAMP_BYTES as u64)
    }
}

impl LogRecord<'_> {
    /// What a time record says; none if it is of another kind.
    pub(crate) fn time(&self) -> Option<Moment> {
        (self.kind == RecordKind::Time && self.body.len() == 8).then(|| Moment { ms: u64_at(self.body, 0) })
    }
}
