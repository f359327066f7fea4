//! What each process of a storm does until it is killed.

use std::io::Write;

use sablecat::{Env, ErrorKind, Result};

use super::{Storm, number, plan};
use crate::dice::Dice;

/// Commits for ever, and says after each on standard output how many this worker has made in all its lives.
///
/// # Errors
/// Whatever goes wrong, which nothing should.
pub fn work(storm: &Storm, worker: u64) -> std::result::Result<(), String> {
    // Nothing is repeated from one life to the next but the changes, which hang on the count.
    let mut dice = Dice::new(storm.seed ^ u64::from(std::process::id()));
    let env = storm.open(true).map_err(|error| format!("attaching: {error}"))?;
    let mut out = std::io::stdout().lock();
    loop {
        let done = commit(storm, &env, worker, &mut dice).map_err(|error| format!("committing: {error}"))?;
        // The parent may be gone.
        if writeln!(out, "{done}").is_err() {
            return Ok(());
        }
        let other = match dice.below(400) {
            0..4 => env.checkpoint().map(drop),
            4 => verify(&env),
            5..25 => read(&env, &mut dice),
            _ => Ok(()),
        };
        match other {
            // Others changed more than the cache can keep beside a long look.
            Err(error) if error.kind() == ErrorKind::SnapshotTooOld => {}
            other => other.map_err(|error| format!("reading: {error}"))?,
        }
    }
}

/// One commit: the worker's next changes, its count, and money moved between two accounts.
fn commit(storm: &Storm, env: &Env, worker: u64, dice: &mut Dice) -> Result<u64> {
    let (accounts, counts, records) = (env.database("accounts")?, env.database("counts")?, env.database("records")?);
    let (from, to, amount) = (plan::account(dice.below(plan::ACCOUNTS)), plan::account(dice.below(plan::ACCOUNTS)), dice.below(10));
    env.write(|txn| {
        let count = txn.get(&counts, worker.to_be_bytes())?.map_or(0, |count| number(&count)) + 1;
        txn.insert(&counts, worker.to_be_bytes(), count.to_le_bytes())?;
        for (key, value) in plan::changes(storm.seed, worker, count) {
            match value {
                Some(value) => txn.insert(&records, key, value)?,
                None => drop(txn.remove(&records, key)?),
            };
        }
        let have = txn.get(&accounts, from)?.map_or(0, |have| number(&have));
        if from != to && have >= amount {
            let other = txn.get(&accounts, to)?.map_or(0, |have| number(&have));
            txn.insert(&accounts, from, (have - amount).to_le_bytes())?;
            txn.insert(&accounts, to, (other + amount).to_le_bytes())?;
        }
        Ok(count)
    })
}

fn read(env: &Env, dice: &mut Dice) -> Result<()> {
    let records = env.database("records")?;
    let from = (dice.below(300) as u16).to_be_bytes();
    let mut snapshot = env.snapshot()?;
    snapshot.range::<&[u8]>(&records, &from[..]..)?.take(100).try_for_each(|record| record.map(drop))
}

fn verify(env: &Env) -> Result<()> {
    let report = env.verify(&mut |_| {})?;
    assert_eq!(report.problems, Vec::<String>::new(), "verify, while others work");
    Ok(())
}
