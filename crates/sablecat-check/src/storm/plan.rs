//! What a worker does in its n-th commit: a function of the storm's seed, the worker and n, so that a process
//! that knows how many commits a worker has made knows what must be there.

use std::collections::BTreeMap;

use crate::dice::Dice;
use crate::method;

/// Accounts between which workers move money.
pub(super) const ACCOUNTS: u64 = 200;
/// What each has in the beginning.
pub(super) const BALANCE: u64 = 1000;

/// Records a worker may have.
const RECORDS: u64 = 300;
/// Records that are removed at once now and then, so that pages merge.
const RECORDS_SWEPT: u64 = 60;
/// One key in so many is a long one.
const LONG_EVERY: u64 = 10;
/// Bytes that all long keys begin with: more than a leaf has for a key.
const STEM: usize = 700;
/// The same, of a method whose keys are no longer than that.
const STEM_SHORT: usize = 400;
const VALUE_MAX: u64 = 900;

/// A change of one record: its value, or none to remove it.
pub(super) type Change = (Vec<u8>, Option<Vec<u8>>);

/// The key of an account.
pub(super) fn account(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// The key of a record. Those of different workers are neighbours, so that they meet in pages and not in
/// records.
fn key(worker: u64, record: u64) -> Vec<u8> {
    let stem = if method::nests() { STEM } else { STEM_SHORT };
    let mut key = if record.is_multiple_of(LONG_EVERY) { vec![b's'; stem] } else { Vec::new() };
    key.extend_from_slice(&(record as u16).to_be_bytes());
    key.push(worker as u8);
    key
}

/// The worker whose record has this key.
pub(super) fn owner(key: &[u8]) -> u64 {
    u64::from(key.last().copied().unwrap_or_default())
}

/// What a worker's `n`-th commit changes, in this order.
pub(super) fn changes(seed: u64, worker: u64, n: u64) -> Vec<Change> {
    let mut dice = Dice::new(seed ^ worker << 48 ^ n << 8);
    if dice.percent(2) {
        let from = dice.below(RECORDS - RECORDS_SWEPT);
        return (from..from + RECORDS_SWEPT).map(|record| (key(worker, record), None)).collect();
    }
    (0..1 + dice.below(6))
        .map(|_| {
            let key = key(worker, dice.below(RECORDS));
            let value = dice.percent(80).then(|| {
                let mut value = n.to_le_bytes().to_vec();
                value.resize(8 + dice.index(VALUE_MAX as usize), worker as u8);
                value
            });
            (key, value)
        })
        .collect()
}

/// The records of one worker as they must be after so many commits.
#[derive(Clone, Debug, Default)]
pub(super) struct Expected {
    commits: u64,
    records: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Expected {
    /// The records after `commits` commits, which are never fewer than before.
    pub(super) fn after(&mut self, seed: u64, worker: u64, commits: u64) -> &BTreeMap<Vec<u8>, Vec<u8>> {
        while self.commits < commits {
            self.commits += 1;
            for (key, value) in changes(seed, worker, self.commits) {
                match value {
                    Some(value) => self.records.insert(key, value),
                    None => self.records.remove(&key),
                };
            }
        }
        &self.records
    }
}

/// The number that a value is.
pub(super) fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}
