//! What every system is asked to store and to find: the records of the papers' key/value runs.
//!
//! Sablecat and each peer run the same workload, so it is specified once, here, and depends on nothing: the
//! peers' own workspace includes this very file, and its C loops mirror the three functions that they need
//! ([`Order::key`], [`value`], [`key_bytes`]), which a test there compares with these.
//!
//! ```text
//! key      8 bytes: the key's number, big-endian, so that byte order is number order
//! value   32 bytes: four little-endian words made from the key's number and the value's version
//! order    a run visits positions 0, 1, … n-1; an Order says which key number stands at a position:
//!          the position itself (sequential), or a seeded permutation of 0..n (random); or of runs of
//!          keys that follow each other, if these are to stay together
//! ```
//!
//! The keys of a database of n records are therefore always exactly 0..n, in whatever order they came, and a
//! scan can be checked by its count and by [`key_sum`]. Writes, updates and reads of one random run visit the
//! keys in three independent orders.
//!
//! Cost, since all this runs inside the timed loops: about 1 ns to check a value; for a key's random place
//! about 3 ns among a million and 10 ns among ten million (a multiply-xorshift permutation of the next power
//! of two, walked until it falls inside 0..n: the further n is from that power, the more rounds and
//! mispredicted branches); nothing to speak of for a sequential one.
//!
//! This is no cryptography: the permutation is there to defeat locality, and the values to catch mistakes.

use std::ops::Range;

/// Bytes in every key.
pub const KEY_BYTES: usize = 8;

/// Bytes in every value.
pub const VALUE_BYTES: usize = 32;

/// 2^64 divided by the golden ratio: its multiples have little in common.
pub(crate) const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The order in which a run visits its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Key numbers rising by one.
    Sequential,
    /// A seeded permutation of the same key numbers.
    Random,
}

/// What a run does with the keys; each stage has a random order of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Records are inserted.
    Write,
    /// Records are given a new value of the same size.
    Update,
    /// Records are looked up.
    Read,
}

/// A bijection from positions 0..records to key numbers 0..records.
///
/// The layout is C's: the peers' loops are handed this struct as it is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// How many runs there are, each of so many keys that follow each other.
    runs: u64,
    run: u64,
    random: u64,
    mask: u64,
    shift: u64,
    offset: u64,
    multipliers: [u64; 3],
}

impl Order {
    /// The order in which `stage` visits the keys of a database of `records` records.
    #[must_use]
    pub fn new(keys: Keys, stage: Stage, records: u64, seed: u64) -> Order {
        Order::in_runs(keys, stage, (records, 1), seed)
    }

    /// The same for `runs` of `run` keys each that follow each other; what is ordered are the runs.
    #[must_use]
    pub fn in_runs(keys: Keys, stage: Stage, (runs, run): (u64, u64), seed: u64) -> Order {
        let bits = (64 - runs.saturating_sub(1).leading_zeros()).max(2);
        let stage = match stage {
            Stage::Write => 1,
            Stage::Update => 2,
            Stage::Read => 3,
        };
        let mut state = seed ^ (stage << 56);
        let mut odd = || split_mix(&mut state) | 1;
        let multipliers = [odd(), odd(), odd()];
        Order {
            runs,
            run,
            random: u64::from(keys == Keys::Random),
            mask: u64::MAX >> (64 - bits),
            shift: u64::from(bits.div_ceil(2)),
            offset: split_mix(&mut state),
            multipliers,
        }
    }

    /// The key number at `position`, which must be below the number of records.
    #[inline]
    #[must_use]
    pub fn key(&self, position: u64) -> u64 {
        if self.random == 0 {
            return position;
        }
        if self.run == 1 {
            return self.place(position);
        }
        self.place(position / self.run) * self.run + position % self.run
    }

    /// Where a run stands.
    #[inline]
    fn place(&self, position: u64) -> u64 {
        debug_assert!(position < self.runs, "position {position} is outside of 0..{}", self.runs);
        // Every step of the round is a bijection on 0..=mask, so walking from a position inside 0..records
        // comes back inside, and no two positions meet.
        let mut x = position;
        loop {
            x = x.wrapping_add(self.offset).wrapping_mul(self.multipliers[0]) & self.mask;
            x ^= x >> self.shift;
            x = x.wrapping_mul(self.multipliers[1]) & self.mask;
            x ^= x >> self.shift;
            x = x.wrapping_mul(self.multipliers[2]) & self.mask;
            x ^= x >> self.shift;
            if x < self.runs {
                return x;
            }
        }
    }
}

/// The bytes of key number `key`.
#[inline]
#[must_use]
pub fn key_bytes(key: u64) -> [u8; KEY_BYTES] {
    key.to_be_bytes()
}

/// The number of a key, from its bytes; `None` when they are not [`KEY_BYTES`] long.
#[inline]
#[must_use]
pub fn key_number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_be_bytes)
}

/// The value that `version` of a record has: version 0 as it was inserted, 1 after its first update, and so
/// on.
#[inline]
#[must_use]
pub fn value(key: u64, version: u32) -> [u8; VALUE_BYTES] {
    let mut bytes = [0; VALUE_BYTES];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words(key, version)) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Whether `bytes` are the value that `version` of record `key` must have.
///
/// Compared word by word in registers: a value put together in memory is not there yet when it is loaded for
/// comparing, and waiting for it took longer than any of the systems takes to find the record in a scan.
#[inline]
#[must_use]
pub fn is_value(key: u64, version: u32, bytes: &[u8]) -> bool {
    let Ok(bytes) = <&[u8; VALUE_BYTES]>::try_from(bytes) else { return false };
    let word = |n: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * n + byte]));
    let [a, b, c, d] = words(key, version);
    (word(0) ^ a) | (word(1) ^ b) | (word(2) ^ c) | (word(3) ^ d) == 0
}

/// The part of positions 0..records that falls to `thread` of `threads`: one contiguous stretch each.
#[must_use]
pub fn share(records: u64, threads: u64, thread: u64) -> Range<u64> {
    let at = |i: u64| (u128::from(records) * u128::from(i) / u128::from(threads)) as u64;
    at(thread)..at(thread + 1)
}

/// The same of runs of `run` positions each, none of which is divided.
#[must_use]
pub fn share_of_runs(positions: u64, run: u64, threads: u64, thread: u64) -> Range<u64> {
    let runs = share(positions / run, threads, thread);
    runs.start * run..runs.end * run
}

/// The sum, modulo 2^64, of the key numbers of a whole database: what a scan's keys must add up to.
#[must_use]
pub fn key_sum(records: u64) -> u64 {
    let (even, odd) =
        if records.is_multiple_of(2) { (records, records.wrapping_sub(1)) } else { (records - 1, records) };
    (even / 2).wrapping_mul(odd)
}

/// Cheap, because a scan checks every value it sees: no version reaches 2^24 here, and no key 2^40.
#[inline]
fn words(key: u64, version: u32) -> [u64; 4] {
    let mut base = (key ^ u64::from(version) << 40).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    base ^= base >> 32;
    [base, base ^ 0xA076_1D64_78BD_642F, base ^ 0xE703_7ED1_A0B4_28DB, base ^ 0x8EBC_6AF0_9C88_C6E3]
}

/// Steele, Lea and Flood's generator; only used to turn a seed into constants.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(GOLDEN);
    mix(*state)
}

/// A bijection whose every bit depends on all bits (Stafford's).
#[inline]
#[must_use]
pub(crate) fn mix(number: u64) -> u64 {
    let mut z = number;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_visits_every_key_once() {
        for records in (0..70).chain([127, 128, 129, 1000, 4097]) {
            for seed in 0..5 {
                for keys in [Keys::Sequential, Keys::Random] {
                    let order = Order::new(keys, Stage::Write, records, seed);
                    let mut seen: Vec<u64> = (0..records).map(|position| order.key(position)).collect();
                    seen.sort_unstable();
                    assert!(seen.into_iter().eq(0..records), "{records} records, seed {seed}, {keys:?}");
                }
            }
        }
    }

    #[test]
    fn runs_stay_together_and_come_in_any_order() {
        let order = Order::in_runs(Keys::Random, Stage::Read, (100, 10), 3);
        let seen: Vec<u64> = (0..1000).map(|position| order.key(position)).collect();
        assert!(seen.chunks(10).all(|run| run[0] % 10 == 0 && run.is_sorted() && run[9] == run[0] + 9));
        assert!(!seen.is_sorted());
        let mut all = seen;
        all.sort_unstable();
        assert!(all.into_iter().eq(0..1000));
    }

    #[test]
    fn random_orders_have_no_locality_and_differ_by_stage() {
        let records = 100_000;
        let orders = [Stage::Write, Stage::Update, Stage::Read]
            .map(|stage| Order::new(Keys::Random, stage, records, 7));
        for order in &orders {
            let near = (1..records).filter(|&i| order.key(i).abs_diff(order.key(i - 1)) < 1000).count();
            assert!(
                near < 4000,
                "{near} of {records} neighbours are within 1000 of each other: chance makes 2000"
            );
        }
        let same = (0..records).filter(|&i| orders[0].key(i) == orders[2].key(i)).count();
        assert!(same < 20, "{same} positions agree between writing and reading: chance makes 1");
    }

    #[test]
    fn a_value_belongs_to_one_key_and_version() {
        for key in 0..2000 {
            for version in 0..3 {
                let bytes = value(key, version);
                assert!(is_value(key, version, &bytes));
                assert!(!is_value(key + 1, version, &bytes));
                assert!(!is_value(key, version + 1, &bytes));
                assert!(!is_value(key, version, &bytes[1..]));
            }
        }
        assert_eq!(key_number(&key_bytes(77)), Some(77));
        assert_eq!(key_number(&[0; 7]), None);
    }

    #[test]
    fn shares_tile_the_positions() {
        for (records, threads) in [(10, 3), (0, 4), (1_000_000, 50), (7, 7), (3, 16)] {
            let mut next = 0;
            for thread in 0..threads {
                let share = share(records, threads, thread);
                assert_eq!(share.start, next);
                next = share.end;
            }
            assert_eq!(next, records);
        }
    }

    #[test]
    fn the_key_sum_is_the_sum_of_the_keys() {
        for records in 0..100 {
            assert_eq!(key_sum(records), (0..records).sum::<u64>());
        }
    }
}
