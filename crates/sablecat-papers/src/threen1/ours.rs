//! Sablecat as one of the systems: a shared environment, and workers that are this program again.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use super::check::{Records, Results};
use super::input::Line;
use super::store::{Account, NEXT, Store, integer, say, steps};
use super::system::System;
use super::variant::Variant;
use crate::contestant::OURS;

/// One variant of ours.
pub(super) struct Ours<'a> {
    pub(super) variant: &'static Variant,
    pub(super) cache_bytes: u64,
    /// A command line that calls [`work`](super::work()).
    pub(super) program: &'a [OsString],
}

impl Ours<'_> {
    fn open(&self, dir: &Path) -> Result<Store, String> {
        Store::open(dir, self.cache_bytes, self.variant)
    }
}

impl System for Ours<'_> {
    fn name(&self) -> &'static str {
        OURS
    }

    fn options(&self) -> &'static str {
        self.variant.name
    }

    fn durability(&self) -> &'static str {
        self.variant.durability
    }

    fn create(&self, dir: &Path, _: &Line) -> Result<(), String> {
        self.open(dir)?.close()
    }

    fn worker(&self, dir: &Path, line: &Line, number: u32) -> Result<Command, String> {
        let &Line { start, finish, workers, block } = line;
        let (name, before) = self.program.split_first().ok_or("no program to run as a worker")?;
        let mut command = Command::new(name);
        command.args(before).arg(dir).args([number, workers].map(|n| n.to_string()));
        command.args([start, finish, block, self.cache_bytes].map(|n| n.to_string())).arg(self.variant.name);
        Ok(command)
    }

    fn results(&self, dir: &Path, line: &Line) -> Result<Results, String> {
        // Nobody else has it open any more: closing it removes the shared memory.
        let store = self.open(dir)?;
        let results = results(&store, line);
        store.close()?;
        results
    }

    fn abandon(&self, dir: &Path) {
        // To open and close removes the shared memory; more than trying cannot be done.
        let _ = self.open(dir).and_then(Store::close);
    }
}

fn results(store: &Store, line: &Line) -> Result<Results, String> {
    let mut problems = Vec::new();
    let mut total = Account::default();
    for worker in 0..line.workers {
        let account = store.account(worker)?;
        if account.at != account.end {
            let Account { at, end, .. } = account;
            problems.push(format!(
                "nobody finished the block of worker {worker}: it is at {at}, and the block ends before {end}"
            ));
        }
        total = total.merge(account);
    }
    let next = store.work.get_with(NEXT, |value| value.and_then(integer)).map_err(say)?;
    let mut count = None;
    if let Some(mut records) = Records::of(line) {
        let each = |key: &[u8], value: &[u8]| {
            let number = key.try_into().ok().map(u64::from_be_bytes);
            if records.see(number, steps(value).map(u64::from)) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        store.numbers.visit(.., each).map_err(say)?;
        let (found, mut wrong) = records.end();
        count = Some(found);
        problems.append(&mut wrong);
    }
    Ok(Results { total, next, records: count, problems })
}
