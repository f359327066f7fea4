//! Mixes of operations on records of which some are asked for more often than others, as YCSB has them.
//!
//! What a thread does is drawn before the clock starts, as a list of acts, so that no system pays for drawing
//! it, and all of them do the same. The peers' own workspace includes this file and hands the list to its C.
//!
//! ```text
//! uniform    every record as often as any other
//! zipfian    the i-th most wanted one 1/i^.99 times as often as the first (Gray and others, "Quickly
//!            Generating Billion-Record Synthetic Databases", 1994), and which that is has nothing to do with
//!            its key: ranks are scattered over all records
//! latest     the same, the most wanted being those that were inserted last: by this thread, and then before
//! ```

use serde::{Deserialize, Serialize};

use crate::workload::{GOLDEN, mix};

/// How much the most wanted records are wanted.
const THETA: f64 = 0.99;

/// The most records of a scan; as many as that, or fewer, down to one.
const SCAN_MAX: u64 = 100;

/// Versions fit in so many bits of a value.
const VERSION_MASK: u64 = (1 << 24) - 1;

/// Which records are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pick {
    /// Any.
    Uniform,
    /// Some more often than others.
    Zipfian,
    /// Those inserted last more often than others.
    Latest,
}

/// Shares of operations in percent, and how many are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Lookups.
    pub read: u32,
    /// New values of records that are there.
    pub update: u32,
    /// New records.
    pub insert: u32,
    /// Short scans from a record that is there.
    pub scan: u32,
    /// A lookup, and then an update of the same record.
    pub modify: u32,
    /// Of which records.
    pub pick: Pick,
    /// How many operations, of all threads together.
    pub operations: u64,
    /// Whether a lookup and the update of the same record are one transaction, which nobody else's change
    /// comes between.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
}

/// What is done next; the numbers are C's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum What {
    /// A lookup.
    Read = 0,
    /// A new value.
    Update = 1,
    /// A new record.
    Insert = 2,
    /// A scan of so many records.
    Scan = 3,
    /// A lookup and a new value.
    Modify = 4,
}

/// An operation on a record. The layout is C's.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act {
    /// The record.
    pub number: u64,
    /// What is done.
    pub what: What,
    /// The version of a value that is written, or how many records a scan visits.
    pub count: u32,
}

impl Mix {
    /// So many lookups in a hundred, and updates, of any records.
    #[must_use]
    pub const fn lookups_and_updates(read: u32, operations: u64) -> Mix {
        let pick = Pick::Uniform;
        Mix { read, update: 100 - read, insert: 0, scan: 0, modify: 0, pick, operations, whole: false }
    }

    /// Whether the shares make a whole.
    ///
    /// # Errors
    /// A sentence, when they do not.
    pub fn check(&self) -> Result<(), String> {
        let sum = self.read + self.update + self.insert + self.scan + self.modify;
        if sum == 100 { Ok(()) } else { Err(format!("the shares of a mix make {sum} percent")) }
    }

    /// What `thread` of `threads` does to a database of `records` records. No two threads insert the same.
    #[must_use]
    pub fn acts(&self, records: u64, (threads, thread): (u64, u64), seed: u64) -> Vec<Act> {
        let share = crate::workload::share(self.operations, threads, thread);
        let mut dice = Dice(mix(seed ^ (thread + 1).wrapping_mul(GOLDEN)));
        let zipf = (self.pick != Pick::Uniform).then(|| Zipf::new(records));
        let mut inserted = 0;
        let new = |nth: u64| records + nth * threads + thread;
        share
            .map(|position| {
                let what = self.what(dice.below(100) as u32);
                let number = match (&zipf, self.pick) {
                    _ if what == What::Insert => {
                        inserted += 1;
                        new(inserted - 1)
                    }
                    (Some(zipf), Pick::Latest) => match zipf.rank(dice.unit()) {
                        rank if rank < inserted => new(inserted - 1 - rank),
                        rank => records - 1 - (rank - inserted).min(records - 1),
                    },
                    (Some(zipf), _) => mix(zipf.rank(dice.unit())) % records,
                    (None, _) => dice.below(records),
                };
                let count = match what {
                    What::Scan => 1 + dice.below(SCAN_MAX) as u32,
                    What::Insert | What::Read => 0,
                    What::Update | What::Modify => (position & VERSION_MASK) as u32,
                };
                Act { number, what, count }
            })
            .collect()
    }

    fn what(&self, die: u32) -> What {
        let shares = [
            (self.read, What::Read),
            (self.update, What::Update),
            (self.insert, What::Insert),
            (self.scan, What::Scan),
        ];
        let mut end = 0;
        for (share, what) in shares {
            end += share;
            if die < end {
                return what;
            }
        }
        What::Modify
    }
}

/// Gray's way to draw ranks: constants of the number of records, and one power for each rank.
struct Zipf {
    records: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    fn new(records: u64) -> Zipf {
        let zeta_of = |records: u64| (1..=records).map(|i| (i as f64).powf(-THETA)).sum::<f64>();
        let zeta = zeta_of(records);
        let count = records as f64;
        let eta = (1.0 - (2.0 / count).powf(1.0 - THETA)) / (1.0 - zeta_of(2) / zeta);
        Zipf { records: count, zeta, alpha: 1.0 / (1.0 - THETA), eta }
    }

    /// The rank, from 0, that belongs to a number from 0 to 1.
    fn rank(&self, unit: f64) -> u64 {
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(THETA) {
            return 1.min(self.records as u64 - 1);
        }
        let rank = self.records * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.records as u64 - 1)
    }
}

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix_of(pick: Pick) -> Mix {
        Mix {
            read: 40,
            update: 20,
            insert: 10,
            scan: 10,
            modify: 20,
            pick,
            operations: 100_000,
            whole: false,
        }
    }

    fn times(acts: &[Act], records: u64) -> Vec<u64> {
        let mut times = vec![0; records as usize];
        for act in acts.iter().filter(|act| act.number < records) {
            times[act.number as usize] += 1;
        }
        times.sort_unstable();
        times.reverse();
        times
    }

    #[test]
    fn what_is_wanted_most_is_wanted_as_often_as_the_law_says() {
        let records = 1000;
        let zeta: f64 = (1..=records).map(|i| (i as f64).powf(-THETA)).sum();
        for pick in [Pick::Zipfian, Pick::Latest] {
            let only_reads = Mix { read: 100, update: 0, insert: 0, scan: 0, modify: 0, ..mix_of(pick) };
            let first = times(&only_reads.acts(records, (1, 0), 5), records)[0] as f64;
            let expected = 100_000.0 / zeta;
            // Scattered ranks may fall together, which makes the first more wanted, not less.
            assert!(first > expected * 0.95 && first < expected * 1.6, "{pick:?}: {first}, not {expected}");
        }
        let uniform = times(&mix_of(Pick::Uniform).acts(records, (1, 0), 5), records);
        assert!(uniform[0] < 3 * uniform[999], "{} and {}", uniform[0], uniform[999]);
    }

    #[test]
    fn the_latest_records_are_wanted_most() {
        let acts = Mix { read: 100, update: 0, insert: 0, scan: 0, modify: 0, ..mix_of(Pick::Latest) }.acts(
            1000,
            (1, 0),
            5,
        );
        let of = |number| acts.iter().filter(|act| act.number == number).count();
        assert!(of(999) > of(998) && of(998) > of(900) && of(900) > of(0));
    }

    #[test]
    fn shares_are_kept_and_threads_insert_records_of_their_own() {
        for pick in [Pick::Uniform, Pick::Zipfian, Pick::Latest] {
            let mix = mix_of(pick);
            mix.check().unwrap();
            let of = |thread| mix.acts(1000, (2, thread), 9);
            let all: Vec<Act> = [of(0), of(1)].concat();
            assert_eq!(all.len(), 100_000);
            assert_ne!(of(0)[..100], of(1)[..100]);
            let count = |what| all.iter().filter(|act| act.what == what).count();
            for (what, percent) in
                [(What::Read, 40), (What::Insert, 10), (What::Scan, 10), (What::Modify, 20)]
            {
                assert!(count(what).abs_diff(percent * 1000) < 700, "{what:?}: {}", count(what));
            }
            let mut inserted: Vec<u64> =
                all.iter().filter(|act| act.what == What::Insert).map(|act| act.number).collect();
            inserted.sort_unstable();
            inserted.dedup();
            assert_eq!(inserted.len(), count(What::Insert));
            // A thread asks for nothing that is not there yet.
            for thread in 0..2 {
                let mut newest = None;
                for act in of(thread) {
                    match act.what {
                        What::Insert => newest = Some(act.number),
                        _ => assert!(act.number < 1000 || Some(act.number) <= newest, "{act:?}"),
                    }
                }
            }
        }
        assert!(Mix { read: 41, ..mix_of(Pick::Uniform) }.check().is_err());
    }

    #[test]
    fn few_records_are_enough() {
        for records in 1..4 {
            for pick in [Pick::Uniform, Pick::Zipfian, Pick::Latest] {
                let acts = mix_of(pick).acts(records, (1, 0), 1);
                assert!(acts.iter().all(|act| act.what == What::Insert || act.number < records + 20_000));
            }
        }
    }
}
