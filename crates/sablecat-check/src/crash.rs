//! The crash explorer: power fails after any system call of a random workload, over and over, and what is
//! found afterwards must be what was promised.
//!
//! Each step changes the state at one moment or not at all, so what may be found after a crash is one of the
//! states between two steps: none older than what was made durable last (a commit at `Sync`, a sync, a
//! checkpoint), none that no step led to. A step that the crash cut short counts as a state of its own: it
//! may have happened. What an opening that succeeded has found is durable.

use sablecat::{Durability, Env};
use sablecat_os::sim::{SimDisk, Survival};

use crate::alike::{Wrong, clean};
use crate::dice::Dice;
use crate::engine;
use crate::model::Model;
use crate::setting::{DIRECTORY, Setting};
use crate::step::{Shape, Step};

/// The states that may be found.
#[derive(Clone, Debug)]
pub struct Promise {
    /// In the order of commits; the first is the oldest that may be found.
    states: Vec<Model>,
}

impl Default for Promise {
    fn default() -> Promise {
        Promise { states: vec![Model::default()] }
    }
}

impl Promise {
    /// The state that the environment is in now, if all went well.
    pub fn newest(&self) -> &Model {
        self.states.last().expect("there is always a state")
    }

    /// Notes a state that came about, or may have.
    pub fn push(&mut self, state: Model) {
        if state != *self.newest() {
            self.states.push(state);
        }
    }

    /// Notes the state after one more step.
    pub fn apply(&mut self, step: &Step) {
        let mut after = self.newest().clone();
        after.apply(step);
        self.push(after);
    }

    /// All that came about is durable.
    pub fn durable(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }

    /// Holds what was found against the promise; from then on it is the only state.
    ///
    /// # Errors
    /// What is missing or too much.
    pub fn settle(&mut self, found: Model) -> Result<(), Wrong> {
        if self.states.contains(&found) {
            self.states = vec![found];
            return Ok(());
        }
        let last = self.states.len() - 1;
        let shown = |at: usize| format!("found against state {at}: {}", found.difference(&self.states[at]));
        Err(format!(
            "what was found is none of the {} states that may be (durable is 0, newest {last}): {}; {}",
            last + 1,
            shown(0),
            shown(last)
        ))
    }
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All steps were done.
    Finished,
    /// The power failed.
    PowerLost,
}

/// Whether a step that succeeded makes everything so far durable.
pub(crate) fn makes_durable(step: &Step, setting: &Setting) -> bool {
    match step {
        Step::Sync | Step::Checkpoint | Step::Compact => true,
        Step::Transaction(transaction) => transaction.durability == Durability::Sync,
        _ => setting.durability == Durability::Sync,
    }
}

/// Opens what a crash has left, holds it against the promise, and does steps until they or the power end.
///
/// # Errors
/// Whatever is not as promised.
pub fn live(disk: &SimDisk, setting: &Setting, steps: &[Step], promise: &mut Promise) -> Result<End, Wrong> {
    let mut rest = steps;
    loop {
        let env = match setting.builder_on(disk).open(DIRECTORY) {
            Ok(env) => env,
            Err(_) if disk.has_crashed() => return Ok(End::PowerLost),
            Err(error) => return Err(format!("opening after a crash: {:?}: {error}", error.kind())),
        };
        match engine::state(&env) {
            Ok(found) => promise.settle(found)?,
            Err(_) if disk.has_crashed() => return Ok(End::PowerLost),
            Err(error) => return Err(format!("reading everything after a crash: {error}")),
        }
        if let Err(wrong) = clean(&env)
            && !disk.has_crashed()
        {
            return Err(format!("after a crash: {wrong}"));
        }
        let here = rest.iter().position(|step| matches!(step, Step::Reopen)).unwrap_or(rest.len());
        if work(&env, disk, setting, &rest[..here], promise)? == End::PowerLost {
            return Ok(End::PowerLost);
        }
        if here == rest.len() {
            return Ok(End::Finished);
        }
        match env.close() {
            Ok(()) => promise.durable(),
            Err(_) if disk.has_crashed() => return Ok(End::PowerLost),
            Err(error) => return Err(format!("closing: {error}")),
        }
        rest = &rest[here + 1..];
    }
}

fn work(
    env: &Env,
    disk: &SimDisk,
    setting: &Setting,
    steps: &[Step],
    promise: &mut Promise,
) -> Result<End, Wrong> {
    for step in steps {
        let mut after = promise.newest().clone();
        let expected = after.apply(step);
        let changes = after != *promise.newest();
        let outcome = engine::apply(env, step);
        promise.push(after);
        match outcome {
            Ok(answer) if answer == expected => {
                if makes_durable(step, setting)
                    && (changes || matches!(step, Step::Sync | Step::Checkpoint | Step::Compact))
                {
                    promise.durable();
                }
            }
            Ok(answer) => return Err(format!("{step:?} answered {answer:?}, not {expected:?}")),
            Err(_) if disk.has_crashed() => return Ok(End::PowerLost),
            Err(error) => return Err(format!("{step:?} failed: {:?}: {error}", error.kind())),
        }
    }
    Ok(End::Finished)
}

/// One seed: some lives on one disk, each with its steps and its crash, in work or in recovery.
///
/// # Errors
/// Whatever is not as promised, and where.
pub fn explore(seed: u64) -> Result<(), Wrong> {
    let mut dice = Dice::new(seed);
    let setting = Setting::any_journaled(&mut dice);
    let shape = Shape {
        keys: dice.pick(&[10, 60, 300]),
        value_max: dice.pick(&[200, 3000, 20_000]),
        stem: setting.stem(),
        ..Shape::small()
    };
    let mut disk = SimDisk::new(seed);
    let mut promise = Promise::default();
    let lives = 2 + dice.index(4);
    for life in 0..lives {
        let count = dice.pick(&[5, 30, 100]);
        let steps = shape.steps(&mut dice, count);
        // Some lives end in recovery, most in work, some after it.
        let calls = dice.pick(&[20, 60, 200, 800]);
        disk.crash_at(1 + dice.below(calls));
        live(&disk, &setting, &steps, &mut promise)
            .map_err(|wrong| format!("life {life} of {lives}, {setting:?}: {wrong}"))?;
        disk = disk.crash(dice.throw());
    }
    live(&disk, &setting, &[], &mut promise)
        .map_err(|wrong| format!("after the last life, {setting:?}: {wrong}"))?;
    Ok(())
}

/// One workload, crashed after each of its calls in turn, in all the ways that changes survive.
///
/// # Errors
/// Whatever is not as promised, and after which call.
pub fn every_call(seed: u64, count: usize) -> Result<u64, Wrong> {
    let mut dice = Dice::new(seed);
    let setting = Setting::any_journaled(&mut dice);
    let shape =
        Shape { keys: 30, value_max: dice.pick(&[1200, 12_000]), stem: setting.stem(), ..Shape::small() };
    let steps = shape.steps(&mut dice, count);
    let whole = SimDisk::new(seed);
    live(&whole, &setting, &steps, &mut Promise::default())
        .map_err(|wrong| format!("without a crash: {wrong}"))?;
    let calls = whole.calls();
    for call in 0..=calls {
        let disk = SimDisk::new(seed);
        disk.crash_at(call);
        let mut promise = Promise::default();
        live(&disk, &setting, &steps, &mut promise)
            .map_err(|wrong| format!("call {call} of {calls}, before it: {wrong}"))?;
        for survival in Survival::ALL {
            let found = disk.crash_as(survival, seed ^ call);
            live(&found, &setting, &[], &mut promise.clone())
                .map_err(|wrong| format!("call {call} of {calls}, {survival:?}, {setting:?}: {wrong}"))?;
        }
    }
    Ok(calls)
}
