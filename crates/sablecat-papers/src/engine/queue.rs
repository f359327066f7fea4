//! Queues: records of 32 bytes are appended one by one, and then consumed one by one, by one thread, each in
//! a transaction of its own.

use super::{beside_peers, own_session};
use crate::Options;
use crate::contestant::QUEUE;
use crate::field::{Field, Outcome};
use crate::grid::{Grid, thousands};
use crate::protocol::{Kind, Mode};
use crate::session::{Session, Step};
use crate::workload::{Keys, VALUE_BYTES};
use crate::wp43::cache_for;

/// What becomes of a commit: nothing is waited for.
const MODES: [Mode; 2] = [Mode::Memory, Mode::NoSync];

pub(super) fn queue(options: &Options, field: &mut Field<'_>) -> (Grid, Outcome) {
    let records = options.records.unwrap_or(if options.quick { 100_000 } else { 1_000_000 });
    let cache = options.cache.unwrap_or_else(|| cache_for(records));
    let sessions = MODES.map(|mode| Session {
        keys: Keys::Sequential,
        steps: vec![
            Step { op: "append", ..Step::new(Kind::Write, 1, 0.0) },
            Step { op: "consume", ..Step::new(Kind::Take, 1, 0.0) },
        ],
        ..own_session(mode, records, cache)
    });
    let outcome = field.run(&sessions);
    let title = format!(
        "queues: {} records of {VALUE_BYTES} bytes, appended and then consumed one by one; transactions a \
         second",
        thousands(records as f64)
    );
    (beside_peers(title, &outcome.rows, QUEUE), outcome)
}
