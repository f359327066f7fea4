//! Keys with many values: a hundred values of 40 bytes a key, sorted, are inserted in random order, each in a
//! transaction of its own, and then all are scanned.

use super::{beside_peers, own_session};
use crate::Options;
use crate::contestant::DUPS;
use crate::field::{Field, Outcome};
use crate::grid::{Grid, thousands};
use crate::protocol::{Kind, Mode};
use crate::serve::VALUES_A_KEY;
use crate::session::{Session, Step};
use crate::wp43::cache_for;

/// How often all are scanned.
const PASSES: u32 = 10;

pub(super) fn duplicates(options: &Options, field: &mut Field<'_>) -> (Grid, Outcome) {
    let records = options.records.unwrap_or(if options.quick { 100_000 } else { 1_000_000 });
    let cache = options.cache.unwrap_or_else(|| cache_for(records));
    let session = Session {
        in_cache: options.cache.is_none(),
        steps: vec![
            Step { op: "insert", ..Step::new(Kind::Write, 1, 0.0) },
            Step { op: "scan", ..Step::new(Kind::Bulk, PASSES, 0.0) },
        ],
        ..own_session(Mode::NoSync, records, cache)
    };
    let outcome = field.run(&[session]);
    let title = format!(
        "duplicates: {} values, {VALUES_A_KEY} a key, sorted; inserted in random order in transactions of \
         one, and scanned; values a second",
        thousands(records as f64)
    );
    (beside_peers(title, &outcome.rows, DUPS), outcome)
}
