//! Faults while the dead are being mended: a process that shares an environment is killed before one of its
//! calls of the disk, and of the calls of the processes that live on, which find what it left half done, one
//! fails.
//!
//! The processes are handles in this one, as in shared.rs. The one that dies works in a thread of its own,
//! which stops before that call for good, and its locks end, as the system ends those of a killed process.
//! When all is over the thread goes on, finds that all of its calls fail, and itself taken for dead, and
//! ends.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use sablecat::{Env, ErrorKind};
use sablecat_os::check::descriptors;
use sablecat_os::disk::between::{Between, Call, Judge, Verdict};
use sablecat_os::sim::{Fault, SimDisk};

use crate::alike::Wrong;
use crate::crash::Promise;
use crate::dice::Dice;
use crate::engine;
use crate::faults::{FAULTS, Outcome, is_clear, reopen_by, unclear, work_on};
use crate::shared::{Machine, keep_house, scene};
use crate::step::Step;

/// What a process that has an environment open locks.
const LOCK: &str = "sablecat.lock";
/// How often the processes that live look whether they can read: each attempt may meet what the last one has
/// led to.
const ATTEMPTS: u32 = 5;

/// Where a process dies.
#[derive(Debug, Default)]
struct End {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    calls_left: u64,
    is_dead: bool,
    /// Nothing hangs on it any more: its thread may end.
    is_over: bool,
}

impl End {
    fn after(calls: u64) -> Arc<End> {
        Arc::new(End { state: Mutex::new(State { calls_left: calls, ..State::default() }), ..End::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, state: MutexGuard<'_, State>, until: impl Fn(&State) -> bool) {
        drop(self.changed.wait_while(state, |state| !until(state)).unwrap_or_else(PoisonError::into_inner));
    }

    /// The thread that calls it does nothing until all is over.
    fn die(&self) {
        let mut state = self.lock();
        state.is_dead = true;
        self.changed.notify_all();
        self.wait(state, |state| state.is_over);
    }
}

/// Asked by the disk of the process that dies.
#[derive(Debug)]
struct Calls(Arc<End>);

impl Judge for Calls {
    fn judge(&self, _: Call) -> Verdict {
        let mut state = self.0.lock();
        if !state.is_over {
            if state.calls_left > 0 {
                state.calls_left -= 1;
                return Verdict::Make;
            }
            drop(state);
            self.0.die();
        }
        Verdict::Fail(io::Error::other("the process was killed"))
    }
}

/// A process that dies.
struct Dying {
    end: Arc<End>,
    thread: Option<JoinHandle<()>>,
}

impl Dying {
    /// Runs it until it is dead: before so many calls of it, or when it has done its step.
    fn run(machine: &Machine<'_>, step: &Step, calls: u64) -> Result<Dying, Wrong> {
        let lock = machine.directory().join(LOCK);
        let of_lock =
            |lock: &PathBuf| descriptors::of(lock).map_err(|error| format!("looking for locks: {error}"));
        let of_others = of_lock(&lock)?;
        let end = End::after(calls);
        let disk = Between::new(machine.disk.clone(), Calls(Arc::clone(&end)));
        let (builder, directory) = (machine.builder().disk(Arc::new(disk)), machine.directory());
        let (of_thread, step) = (Arc::clone(&end), step.clone());
        let thread = std::thread::spawn(move || {
            if let Ok(env) = builder.open(directory) {
                let _ = engine::apply(&env, &step);
                of_thread.die();
            } else {
                of_thread.die();
            }
        });
        end.wait(end.lock(), |state| state.is_dead);
        for descriptor in of_lock(&lock)?.into_iter().filter(|descriptor| !of_others.contains(descriptor)) {
            descriptors::unlock(descriptor).map_err(|error| format!("ending a lock: {error}"))?;
        }
        Ok(Dying { end, thread: Some(thread) })
    }
}

impl Drop for Dying {
    fn drop(&mut self) {
        self.end.lock().is_over = true;
        self.end.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One death and one fault.
fn one(seed: u64, calls: u64, (call, fault): (u64, Fault)) -> Result<Outcome, Wrong> {
    let mut dice = Dice::new(seed ^ 0xdead_5a4e);
    let (setting, steps, living) = scene(&mut dice);
    let wrong = |wrong: Wrong| {
        format!(
            "killed before call {calls}, {fault:?} at call {call} after that, {living} others, {setting:?}: \
             {wrong}"
        )
    };
    let machine = Machine::new(SimDisk::new(seed), &setting)?;
    machine.open().and_then(Env::close).map_err(|error| wrong(format!("made: {error}")))?;
    let (mut promise, mut outcome) = (Promise::default(), Outcome::default());
    let mut envs = Vec::new();
    for _ in 1..living {
        envs.push(machine.open().map_err(|error| wrong(format!("opening: {error}")))?);
    }
    let (before_death, after_death) = steps.split_at(dice.index(steps.len()));
    for step in before_death.iter().filter(|step| !matches!(step, Step::Reopen)) {
        work_on(&envs[dice.index(envs.len())], &setting, step, &mut promise, &mut outcome).map_err(wrong)?;
    }
    let changes = |step: &&Step| {
        let mut after = promise.newest().clone();
        after.apply(step);
        after != *promise.newest()
    };
    let Some(last) = after_death.iter().find(changes) else { return Ok(outcome) };
    let dying = Dying::run(&machine, last, calls).map_err(wrong)?;
    machine.disk.fail_at(machine.disk.calls() + call, fault);

    // A process that comes or keeps house finds the dead.
    let before = promise.newest().clone();
    let mut after = before.clone();
    after.apply(last);
    match machine.open() {
        Ok(env) => envs.push(env),
        Err(error) if is_clear(&error) => {
            outcome.failed += 1;
            outcome.poisoned |= error.kind() == ErrorKind::Poisoned;
        }
        Err(error) => return Err(wrong(unclear("opening", &error))),
    }
    envs.iter().try_for_each(|env| keep_house(env, &mut outcome)).map_err(wrong)?;
    let found = (0..ATTEMPTS).find_map(|_| engine::state(&envs[0]).ok());
    match found {
        Some(found) if found == after => promise.push(after),
        Some(found) if found == before => {}
        Some(found) => {
            return Err(wrong(format!("{last:?} was left half done: {}", found.difference(&before))));
        }
        None => match engine::state(&envs[0]) {
            Err(error) if error.kind() == ErrorKind::Poisoned => {
                outcome.blind = true;
                promise.push(after);
                promise.push(before);
            }
            other => return Err(wrong(format!("nothing can be read: {:?}", other.err()))),
        },
    }
    for step in after_death.iter().filter(|step| !matches!(step, Step::Reopen)) {
        if outcome.blind {
            break;
        }
        work_on(&envs[dice.index(envs.len())], &setting, step, &mut promise, &mut outcome).map_err(wrong)?;
        if dice.percent(30) {
            keep_house(&envs[dice.index(envs.len())], &mut outcome).map_err(wrong)?;
        }
    }
    for env in envs {
        match env.close() {
            Err(error) if !is_clear(&error) => return Err(wrong(unclear("closing", &error))),
            closed => outcome.failed += u64::from(closed.is_err()),
        }
    }
    machine.disk.clear_faults();
    reopen_by(|| machine.open(), &mut promise, "all have closed").map_err(wrong)?;
    machine.is_closed().map_err(wrong)?;
    drop(dying);
    Ok(outcome)
}

/// A few deaths, and a fault after each.
///
/// # Errors
/// Whatever is not as promised.
pub fn some(seed: u64) -> Result<Outcome, Wrong> {
    let mut dice = Dice::new(seed ^ 0xfa17_dead);
    let mut outcome = Outcome::default();
    for _ in 0..4 {
        let (calls, after) = (dice.pick(&[5, 20, 60, 200]), dice.pick(&[3, 10, 40]));
        let this = one(seed, dice.below(calls), (1 + dice.below(after), dice.pick(&FAULTS)))?;
        outcome.failed += this.failed;
        outcome.poisoned |= this.poisoned || this.blind;
    }
    Ok(outcome)
}

/// The same, as a check.
///
/// # Errors
/// Whatever is not as promised.
pub fn explore(seed: u64) -> Result<(), Wrong> {
    some(seed).map(drop)
}
