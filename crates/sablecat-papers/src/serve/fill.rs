//! A large environment, made quickly: 500-byte records in key order, in large transactions.
//!
//! What is large about it is its number of pages; opening it must not depend on that.

use super::engine::Engine;
use super::loops::Tally;
use crate::workload::{self, KEY_BYTES, VALUE_BYTES};

/// The value is repeated so often, for a record of about 500 bytes: well filled leaves, no long values.
const VALUE_REPEATS: usize = 15;

/// Records in a transaction.
const BATCH: usize = 100;

/// Records that are looked up in a large environment.
const SPOTS: u64 = 1000;

/// How many records there are in so many bytes.
pub(crate) fn records(bytes: u64) -> u64 {
    (bytes / (KEY_BYTES + VALUE_BYTES * VALUE_REPEATS) as u64).max(1)
}

/// Loads records of about so many bytes into the empty database.
pub(super) fn fill(engine: &mut Engine, bytes: u64) -> Result<Tally, String> {
    let database = engine.database()?;
    let ops = records(bytes);
    for first in (0..ops).step_by(BATCH) {
        let keys = first..ops.min(first + BATCH as u64);
        let batch = keys.map(|key| (workload::key_bytes(key), workload::value(key, 0).repeat(VALUE_REPEATS)));
        database.insert_batch(batch).map_err(|error| error.to_string())?;
    }
    Ok(Tally { ops, ..Tally::default() })
}

/// Looks records up from all over the database.
pub(super) fn spot(engine: &mut Engine, bytes: u64) -> Result<Tally, String> {
    let database = engine.database()?;
    let records = records(bytes);
    let mut tally = Tally::default();
    for key in (0..records).step_by((records / SPOTS).max(1) as usize) {
        let expected = workload::value(key, 0).repeat(VALUE_REPEATS);
        match database.get_with(workload::key_bytes(key), |value| value == Some(&expected)) {
            Ok(true) => {}
            Ok(false) => tally.fail("read", key, "not the value that was stored"),
            Err(error) => tally.fail("read", key, error),
        }
        tally.ops += 1;
    }
    Ok(tally)
}
