//! What each process of a storm does until it is killed, asked to leave, or told that the environment is
//! poisoned.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sablecat::{Durability, Env, Error, ErrorKind, TxnOptions};
use sablecat_os::clock;

use super::plan::{self, number};
use super::registers::{self, Registers};
use super::said::{Commit, Line, Memory};
use super::{Storm, failing};
use crate::dice::Dice;
use crate::faults::is_clear_about;
use crate::order::Call;

/// Calls of registers between two commits.
const CALLS_PER_COMMIT: u64 = 2;

/// Why a worker stops working.
enum Why {
    /// It has been told that the environment is poisoned.
    Poisoned,
    /// Something is wrong.
    Wrong(String),
}

/// Commits until it is to end, and says after each on standard output what it has done.
///
/// # Errors
/// Whatever goes wrong, which nothing should but calls of the disk.
pub fn work(storm: &Storm, worker: u64) -> Result<(), String> {
    // Nothing is repeated from one life to the next but the changes, which hang on the count.
    let mut dice = Dice::new(storm.seed ^ u64::from(std::process::id()));
    let is_to_leave = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_to_leave);
    std::thread::spawn(move || {
        // Nothing is said there: it ends when the worker is to, or the parent has.
        let _ = std::io::stdin().read(&mut [0]);
        asked.store(true, Ordering::SeqCst);
    });
    let is_to_leave = || is_to_leave.load(Ordering::SeqCst);
    let disk = failing::disk(storm.faults, dice.throw());
    let opened = loop {
        match storm.open(Some(disk.clone())) {
            Ok(env) => break Ok(Some(env)),
            Err(error) => match storm.excused("opening", &error) {
                // What stands in the way passes: others leave or enter, and calls do not fail for ever.
                Ok(()) if is_to_leave() => break Ok(None),
                Ok(()) => {}
                Err(why) => break Err(why),
            },
        }
    };
    let ended = opened.and_then(|env| {
        let Some(env) = env else { return Ok(()) };
        let memory = storm.memory().map_err(Why::Wrong)?;
        let mut work = Work { storm, env: &env, worker, memory, dice, known: None };
        let worked = work.go_on_until(&is_to_leave);
        if let Err(Why::Poisoned) = worked {
            say(Line::Poisoned(memory));
        }
        let closed = env.close();
        match worked {
            Err(Why::Poisoned) => Ok(()),
            worked => worked.and_then(|()| closed.or_else(|error| storm.excused("closing", &error))),
        }
    });
    match ended {
        Ok(()) => Ok(()),
        Err(Why::Poisoned) => {
            say(Line::Poisoned(0));
            Ok(())
        }
        Err(Why::Wrong(wrong)) => Err(wrong),
    }
}

/// Nanoseconds of the clock that all processes share.
fn now() -> u64 {
    clock::monotonic().as_nanos() as u64
}

/// Whether anybody hears it: the parent may be gone.
fn say(line: Line) -> bool {
    writeln!(std::io::stdout(), "{line}").is_ok()
}

impl Storm {
    /// Nothing, if an error is what calls of the disk that fail may lead to.
    fn excused(&self, doing: &str, error: &Error) -> Result<(), Why> {
        let wrong = || Err(Why::Wrong(format!("{doing}: {:?}: {error}", error.kind())));
        if self.faults == 0
            || !(is_clear_about(error, &self.directory.to_string_lossy()) || error.kind() == ErrorKind::InUse)
        {
            return wrong();
        }
        match error.kind() {
            // Nobody's lock is taken from it here.
            ErrorKind::Poisoned if error.to_string().contains("taken for dead") => wrong(),
            ErrorKind::Poisoned => Err(Why::Poisoned),
            _ => Ok(()),
        }
    }
}

struct Work<'a> {
    storm: &'a Storm,
    env: &'a Env,
    worker: u64,
    memory: Memory,
    dice: Dice,
    /// How many commits the worker has made, if that is known.
    known: Option<u64>,
}

impl Work<'_> {
    fn go_on_until(&mut self, is_to_leave: &dyn Fn() -> bool) -> Result<(), Why> {
        while !is_to_leave() {
            let rung = match self.dice.below(100) {
                0..3 => Durability::Sync,
                3..10 => Durability::WriteNoSync,
                10..15 => Durability::Memory,
                _ => Durability::NoSync,
            };
            let begun = now();
            let committed = self.commit(rung);
            let returned = now();
            let handed_over = match committed {
                Ok(number) => {
                    self.known = Some(number);
                    matches!(rung, Durability::Sync | Durability::WriteNoSync)
                }
                // What it promised is not kept for now, and that is all.
                Err(error) if error.kind() == ErrorKind::NotDurable => {
                    self.storm.excused("committing", &error)?;
                    self.known = self.known.map(|known| known + 1);
                    false
                }
                // Not committed: the next one finds the records as they were.
                Err(error) => {
                    self.storm.excused("committing", &error)?;
                    continue;
                }
            };
            let memory = self.memory;
            if let Some(number) = self.known
                && !say(Line::Committed(Commit { memory, number, begun, returned, handed_over }))
            {
                return Ok(());
            }
            self.do_something_else()?;
            (0..CALLS_PER_COMMIT).try_for_each(|_| self.call_registers())?;
        }
        Ok(())
    }

    /// A call whose answer is held against those of all others.
    fn call_registers(&mut self) -> Result<(), Why> {
        let (env, worker, memory) = (self.env, self.worker, self.memory);
        let dice = Dice::new(self.dice.throw());
        let say_call = |call: &Call| {
            say(Line::Called(memory, call.clone()));
        };
        let mut registers = Registers { env, worker, dice, say: &say_call, now };
        let line = match registers.call() {
            (call, Ok(())) => Line::Called(memory, call),
            (call, Err(error)) if error.is_retryable() => Line::Undone(memory, call.id),
            (call, Err(error)) => {
                self.storm.excused("calling", &error)?;
                // One that is not durable is visible: it has happened, or is in doubt as the others are.
                if error.kind() == ErrorKind::NotDurable || registers::may_have_happened(&call) {
                    return Ok(());
                }
                Line::Undone(memory, call.id)
            }
        };
        say(line);
        Ok(())
    }

    /// One commit: the worker's next changes, its count, and money moved between two accounts.
    fn commit(&mut self, rung: Durability) -> Result<u64, Error> {
        let (env, worker, dice) = (self.env, self.worker, &mut self.dice);
        let (accounts, counts, records) =
            (env.database("accounts")?, env.database("counts")?, env.database("records")?);
        let (from, to, amount) = (
            plan::account(dice.below(plan::ACCOUNTS)),
            plan::account(dice.below(plan::ACCOUNTS)),
            dice.below(10),
        );
        env.write_with(TxnOptions::new().durability(rung), |txn| {
            let made = txn.get(&counts, worker.to_be_bytes())?.map_or(0, |count| number(&count));
            if let Some(known) = self.known {
                assert_eq!(
                    made, known,
                    "commits of worker {worker}: those that are there, and those that did not fail"
                );
            }
            let count = made + 1;
            txn.insert(&counts, worker.to_be_bytes(), count.to_le_bytes())?;
            for (key, value) in plan::changes(self.storm.seed, worker, count) {
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

    fn do_something_else(&mut self) -> Result<(), Why> {
        let done = match self.dice.below(400) {
            0..4 => self.env.checkpoint().map(drop),
            4 => self.verify(),
            // What the killed had in hand is given back, and may be taken again, while others work.
            5 => self.env.compact().map(drop),
            6..25 => self.read(),
            25 if self.storm.is_encrypted() => self.change_keys(),
            _ => Ok(()),
        };
        match done {
            // Others changed more than the cache can keep beside a long look.
            Err(error) if error.kind() == ErrorKind::SnapshotTooOld => Ok(()),
            Err(error) => self.storm.excused("reading, or writing a checkpoint", &error),
            Ok(()) => Ok(()),
        }
    }

    /// Adds a data key, as long as there can be more, or writes again what has older ones.
    fn change_keys(&mut self) -> Result<(), Error> {
        if self.dice.percent(30) {
            return match self.env.rotate_key() {
                Err(error) if error.kind() == ErrorKind::Exhausted => Ok(()),
                done => done.map(drop),
            };
        }
        match self.env.encipher_anew() {
            Err(error) if error.kind() == ErrorKind::NotAllowed && self.storm.keeps_journal() => Ok(()),
            done => done.map(drop),
        }
    }

    fn read(&mut self) -> Result<(), Error> {
        let records = self.env.database("records")?;
        let from = (self.dice.below(300) as u16).to_be_bytes();
        let snapshot = self.env.snapshot()?;
        snapshot.range(&records, &from[..]..)?.take(100).try_for_each(|record| record.map(drop))
    }

    fn verify(&self) -> Result<(), Error> {
        let report = self.env.verify(&mut |_| {})?;
        // What cannot be read is a problem to it, and may lead to others.
        let is_of_faults = |problem: &String| {
            ["(os error ", "an earlier write or flush of the volume failed"]
                .iter()
                .any(|why| problem.contains(why))
        };
        let could_read = self.storm.faults == 0 || !report.problems.iter().any(is_of_faults);
        assert!(
            !could_read || report.problems.is_empty(),
            "verify, while others work: {:?}",
            report.problems
        );
        Ok(())
    }
}
