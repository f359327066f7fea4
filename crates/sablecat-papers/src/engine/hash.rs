//! Hash tables: the random operations of the first paper, of records of 40 bytes, ours beside the peers' and
//! beside our own B+tree. Peers that have no hash table show what they have.

use super::{beside_peers, own_session};
use crate::Options;
use crate::contestant::HASH;
use crate::field::{Field, Outcome};
use crate::grid::{Grid, thousands};
use crate::protocol::{Kind, Mode};
use crate::session::{Session, Step};
use crate::wp43::cache_for;

/// How often all records are read.
const PASSES: u32 = 3;

pub(super) fn hash(options: &Options, field: &mut Field<'_>) -> (Grid, Outcome) {
    let records = options.records.unwrap_or(if options.quick { 100_000 } else { 1_000_000 });
    let cache = options.cache.unwrap_or_else(|| cache_for(records));
    let session = |mode, steps: &[Kind]| Session {
        in_cache: options.cache.is_none(),
        steps: steps
            .iter()
            .map(|&kind| Step::new(kind, if kind == Kind::Read { PASSES } else { 1 }, 0.0))
            .collect(),
        ..own_session(mode, records, cache)
    };
    let sessions = [
        session(Mode::Ds, &[Kind::Write, Kind::Read, Kind::Update]),
        session(Mode::NoSync, &[Kind::Write, Kind::Read, Kind::Update]),
    ];
    let outcome = field.run(&sessions);
    let title = format!("hash tables: {} records, random operations a second", thousands(records as f64));
    (beside_peers(title, &outcome.rows, HASH), outcome)
}
