//! What a look at the whole environment finds.

use sablecat::Env;

use super::plan::{self, number};

/// Keys and values, in the order of bytes.
pub(super) type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// What is in the environment, at one snapshot.
pub(super) struct Seen {
    pub(super) money: u64,
    /// Of each worker its count, and its records in order.
    pub(super) workers: Vec<(u64, Records)>,
}

impl Seen {
    pub(super) fn look(env: &Env, workers: usize) -> sablecat::Result<Seen> {
        let (accounts, counts, records) =
            (env.database("accounts")?, env.database("counts")?, env.database("records")?);
        let snapshot = env.snapshot()?;
        let mut seen = Seen { money: 0, workers: vec![(0, Vec::new()); workers] };
        for record in snapshot.range(&accounts, ..)? {
            seen.money += number(&record?.1);
        }
        for worker in 0..workers {
            seen.workers[worker].0 =
                snapshot.get(&counts, (worker as u64).to_be_bytes())?.map_or(0, |count| number(&count));
        }
        for record in snapshot.range(&records, ..)? {
            let (key, value) = record?;
            if let Some((_, of_worker)) = seen.workers.get_mut(plan::owner(&key) as usize) {
                of_worker.push((key.to_vec(), value.to_vec()));
            }
        }
        // Whatever order the method has them in.
        seen.workers.iter_mut().for_each(|(_, records)| records.sort_unstable());
        Ok(seen)
    }
}
