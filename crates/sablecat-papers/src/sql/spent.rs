//! What work through SQL cost, as it stands in a report.

use serde::{Deserialize, Serialize};

/// What transactions or queries cost beside time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Microseconds of time; for one operation, of all threads and processes together.
    pub us: f64,
    /// Microseconds of processors, in user mode and in the system, of all processes; for one operation.
    pub cpu_us: f64,
    /// How often a transaction was begun anew since others were in the way, for a thousand that were done.
    pub again_of_1000: f64,
}
