//! The unit of the log, and how far it can go.

use crate::types::Lsn;

/// The unit in which the log is written: blocks of the ring and of the files.
pub(crate) const BLOCK: u64 = 4096;
/// A life of the log begins below this: the rest is more than it can use up.
pub(super) const LIFE_END: u64 = Lsn::END.0 / 2;
/// The shortest segments that there can be. The log's own tests have shorter ones.
pub(crate) const SEGMENT_BYTES_MIN: u64 = if cfg!(test) { BLOCK } else { 1 << 16 };
