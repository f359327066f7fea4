//! Keys with many values as the harness uses them: a hundred sorted values a key, each the number of a record
//! and its value, inserted one by one and scanned.

use std::ops::ControlFlow;
use std::path::Path;

use sablecat::{Duplicates, Env, MultiMap};

use super::batch::Batch;
use super::engine::{configure, say};
use super::loops::{self, Job, Table, Tally};
use crate::protocol::{Kind, Mode, Open};
use crate::workload::{self, KEY_BYTES, VALUE_BYTES};

/// Values of a key.
pub(crate) const VALUES_A_KEY: u64 = 100;

/// An open database of keys with several values, in an environment of its own.
pub(super) struct Pairs {
    map: MultiMap,
    env: Env,
}

impl Pairs {
    pub(super) fn open(open: &Open, shared: bool) -> Result<Pairs, String> {
        if open.mode == Mode::Ds {
            return Err("this is measured on an environment".to_owned());
        }
        let env = configure(open).shared(shared).open(Path::new(&open.dir)).map_err(say)?;
        let map = MultiMap::open(&env, "pairs", Duplicates::Sorted).map_err(say)?;
        Ok(Pairs { map, env })
    }

    /// Inserts or scans the records of a job.
    pub(super) fn run(&mut self, job: &Job) -> Result<Tally, String> {
        match job.kind {
            Kind::Write | Kind::Bulk => Ok(loops::run(self, job)),
            _ => Err("pairs are inserted and scanned".to_owned()),
        }
    }

    pub(super) fn close(self) -> Result<(), String> {
        drop(self.map);
        self.env.close().map_err(say)
    }
}

impl Table for Pairs {
    const CHECK_EVERY: u64 = 64;
    type Error = sablecat::Error;

    fn put(&mut self, key: &[u8], value: &[u8]) -> sablecat::Result<()> {
        let number = workload::key_number(key).expect("the workload's keys are numbers");
        let mut pair = [0; KEY_BYTES + VALUE_BYTES];
        pair[..KEY_BYTES].copy_from_slice(key);
        pair[KEY_BYTES..].copy_from_slice(value);
        self.map.insert_one(workload::key_bytes(number / VALUES_A_KEY), pair)
    }

    fn put_batch(&mut self, records: &Batch) -> sablecat::Result<()> {
        records.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    fn remove(&mut self, _: &[u8]) -> sablecat::Result<bool> {
        Ok(false)
    }

    fn look(&mut self, _: &[u8], _: impl FnOnce(Option<&[u8]>) -> bool) -> sablecat::Result<bool> {
        Ok(false)
    }

    fn modify(&mut self, _: &[u8], mut change: impl FnMut(Option<&[u8]>) -> Vec<u8>) -> sablecat::Result<()> {
        change(None);
        Ok(())
    }

    fn range(&mut self, _: &[u8], _: u32, _: impl FnMut(&[u8], &[u8])) -> sablecat::Result<u32> {
        Ok(0)
    }

    fn scan<B>(&mut self, initial: B, mut each: impl FnMut(B, &[u8], &[u8]) -> B) -> sablecat::Result<B> {
        self.map.fold(&self.env, .., initial, |sum, _, pair| {
            let (number, value) = pair.split_at_checked(KEY_BYTES).unwrap_or((pair, &[]));
            ControlFlow::Continue(each(sum, number, value))
        })
    }
}
