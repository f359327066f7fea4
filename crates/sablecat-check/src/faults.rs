//! Faults: the n-th call of a workload fails, for every n. The error must say what was tried; what was
//! committed must be there after opening again, with or without the power failing too; what failed must not
//! be; a failed flush poisons until then.

use std::path::Path;

use sablecat::{Durability, Env, Error, ErrorKind};
use sablecat_os::disk::Disk;
use sablecat_os::sim::{Fault, SimDisk, Survival};

use crate::alike::{Wrong, clean};
use crate::crash::Promise;
use crate::dice::Dice;
use crate::engine;
use crate::setting::{DIRECTORY, Setting};
use crate::step::{Shape, Step};

/// The ways for a call to fail.
pub const FAULTS: [Fault; 6] = [
    Fault::Error(std::io::ErrorKind::Other),
    Fault::Error(std::io::ErrorKind::PermissionDenied),
    Fault::ShortWrite,
    Fault::DiskFull,
    Fault::SyncFails,
    Fault::NoDescriptor,
];

/// Whether an error tells its reader what to look at or what to do.
pub(crate) fn is_clear(error: &Error) -> bool {
    is_clear_about(error, DIRECTORY)
}

/// The same, where the files are in `directory`.
pub(crate) fn is_clear_about(error: &Error, directory: &str) -> bool {
    let message = error.to_string();
    let names_a_place = message.contains(directory);
    let says_what_to_do =
        ["open it again", "reopen", "close the environment", "free", "room", "run it again", "try", "allow"]
            .iter()
            .any(|words| message.contains(words));
    // `ReadOnly`: what is not permitted when opening to write.
    let fits = matches!(
        error.kind(),
        ErrorKind::Io
            | ErrorKind::DiskFull
            | ErrorKind::MemoryFull
            | ErrorKind::NotDurable
            | ErrorKind::Poisoned
            | ErrorKind::ReadOnly
    );
    fits && (names_a_place || says_what_to_do)
}

pub(crate) fn unclear(step: &str, error: &Error) -> Wrong {
    format!("{step}: the error is not clear: {:?}: {error}", error.kind())
}

/// What became of a workload with a fault in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Steps that failed.
    pub failed: u64,
    /// The environment was poisoned.
    pub poisoned: bool,
    /// And cannot be read, so what a further step would build upon is not known.
    pub blind: bool,
}

/// Does steps, some of which may fail, and keeps the promise up to date.
///
/// # Errors
/// Whatever is not as promised.
fn work(env: &Env, setting: &Setting, steps: &[Step], promise: &mut Promise) -> Result<Outcome, Wrong> {
    let mut outcome = Outcome::default();
    for step in steps {
        work_on(env, setting, step, promise, &mut outcome)?;
        if outcome.blind {
            break;
        }
    }
    Ok(outcome)
}

/// Does a step, which may fail, and keeps the promise up to date.
///
/// # Errors
/// Whatever is not as promised.
pub(crate) fn work_on(
    env: &Env,
    setting: &Setting,
    step: &Step,
    promise: &mut Promise,
    outcome: &mut Outcome,
) -> Result<(), Wrong> {
    let before = promise.newest().clone();
    let mut after = before.clone();
    let expected = after.apply(step);
    let changes = after != before;
    let syncs = match step {
        Step::Sync => true,
        Step::Transaction(transaction) => changes && transaction.durability == Durability::Sync,
        Step::Checkpoint | Step::Compact => true,
        _ => changes && setting.durability == Durability::Sync,
    };
    match engine::apply(env, step) {
        Ok(_) if outcome.poisoned && syncs => {
            return Err(format!("{step:?} claims to be durable after a flush failed"));
        }
        Ok(answer) if answer == expected => {
            promise.push(after);
            if syncs && (changes || matches!(step, Step::Sync | Step::Checkpoint | Step::Compact)) {
                promise.durable();
            }
        }
        Ok(answer) => return Err(format!("{step:?} answered {answer:?}, not {expected:?}")),
        Err(error) => {
            if !is_clear(&error) {
                return Err(unclear(&format!("{step:?}"), &error));
            }
            outcome.failed += 1;
            outcome.poisoned |= error.kind() == ErrorKind::Poisoned;
            let found = match engine::state(env) {
                Ok(found) => found,
                Err(_) if outcome.poisoned => {
                    // Reading may be refused too; then whether it happened can only be told when it is opened
                    // again.
                    outcome.blind = true;
                    promise.push(after);
                    return Ok(());
                }
                Err(error) => return Err(format!("reading after {step:?} failed: {error}")),
            };
            if found == after {
                // Creating and removing databases takes more than one commit: the one that names it may be
                // there.
                let may_be = matches!(error.kind(), ErrorKind::NotDurable | ErrorKind::Poisoned)
                    || !changes
                    || matches!(step, Step::Create(_) | Step::Drop(_) | Step::Rename(..));
                if !may_be {
                    return Err(format!("{step:?} failed with {:?} ({error}) and is visible", error.kind()));
                }
                promise.push(after);
            } else if found == before {
                if outcome.poisoned {
                    promise.push(after);
                    promise.push(before);
                }
            } else {
                return Err(format!("{step:?} failed half way: {}", found.difference(&before)));
            }
        }
    }
    Ok(())
}

fn reopen(disk: &SimDisk, setting: &Setting, promise: &mut Promise, what: &str) -> Result<(), Wrong> {
    reopen_by(|| setting.builder_on(disk).open(DIRECTORY), promise, what)
}

/// Opens after a fault, without more of them, and holds what is there against the promise; then works on.
///
/// # Errors
/// Whatever is not as promised.
pub(crate) fn reopen_by(
    open: impl FnOnce() -> sablecat::Result<Env>,
    promise: &mut Promise,
    what: &str,
) -> Result<(), Wrong> {
    let env = open().map_err(|error| format!("{what}: opening again: {:?}: {error}", error.kind()))?;
    let found = engine::state(&env).map_err(|error| format!("{what}: reading everything: {error}"))?;
    promise.settle(found).map_err(|wrong| format!("{what}: {wrong}"))?;
    clean(&env).map_err(|wrong| format!("{what}: {wrong}"))?;
    let db = env.database("after").map_err(|error| format!("{what}: working on: {error}"))?;
    db.insert("k", "v").map_err(|error| format!("{what}: working on: {error}"))?;
    env.sync().map_err(|error| format!("{what}: working on: {error}"))?;
    promise.apply(&Step::Create("after".into()));
    promise.apply(&Step::Insert("after".into(), b"k".to_vec(), b"v".to_vec()));
    promise.durable();
    Ok(())
}

/// One fault at one call of the steps of a seed.
///
/// # Errors
/// Whatever is not as promised.
pub fn one(seed: u64, setting: &Setting, steps: &[Step], call: u64, fault: Fault) -> Result<Outcome, Wrong> {
    let disk = SimDisk::new(seed);
    disk.fail_at(call, fault);
    let mut promise = Promise::default();
    let mut outcome = Outcome::default();
    let mut failed_to_open = false;
    let wrong = |wrong: Wrong| format!("{fault:?} at call {call}, {setting:?}: {wrong}");
    match setting.builder_on(&disk).open(DIRECTORY) {
        Ok(env) => {
            outcome = work(&env, setting, steps, &mut promise).map_err(wrong)?;
            if let Err(error) = env.close() {
                outcome.failed += 1;
                if !is_clear(&error) {
                    return Err(wrong(unclear("closing", &error)));
                }
            }
        }
        Err(error) if is_clear(&error) => {
            outcome.failed += 1;
            failed_to_open = true;
        }
        Err(error) => return Err(wrong(unclear("opening", &error))),
    }
    disk.clear_faults();
    for survival in [Survival::Nothing, Survival::Everything, Survival::Sectors] {
        reopen(
            &disk.crash_as(survival, seed ^ call),
            setting,
            &mut promise.clone(),
            &format!("power lost too, {survival:?}"),
        )
        .map_err(wrong)?;
    }
    reopen(&disk, setting, &mut promise, "the same disk").map_err(wrong)?;
    // What was done after it must last: nothing of the fault may linger. But names whose sync failed are
    // never durable, and no program can know which: here they are, if it failed while the environment was
    // made.
    if fault == Fault::SyncFails && failed_to_open {
        return Ok(outcome);
    }
    reopen(&disk.crash_as(Survival::Nothing, seed), setting, &mut promise, "power lost after opening again")
        .map_err(wrong)?;
    Ok(outcome)
}

/// A flush fails, and the next opening of the environment, on the same running machine, is cut short after so
/// many calls, or meets another failed flush there. Then the power fails. What was promised before the first
/// failure must be found: nothing that could be read although it never reached the disk may have been built
/// upon.
///
/// # Errors
/// Whatever is not as promised.
pub fn twice(
    seed: u64,
    setting: &Setting,
    steps: &[Step],
    first: u64,
    (second, cut): (u64, bool),
) -> Result<(), Wrong> {
    let disk = SimDisk::new(seed);
    let mut promise = Promise::default();
    {
        let env = setting.builder_on(&disk).open(DIRECTORY).map_err(|error| format!("opening: {error}"))?;
        disk.fail_at(disk.calls() + first, Fault::SyncFails);
        let wrong = |wrong| format!("a flush fails {first} calls after opening, {setting:?}: {wrong}");
        work(&env, setting, steps, &mut promise).map_err(wrong)?;
        // Killed, so that nothing is written after the failure.
        disk.crash_at(disk.calls());
    }
    disk.clear_faults();
    if cut {
        disk.crash_at(disk.calls() + second)
    } else {
        disk.fail_at(disk.calls() + second, Fault::SyncFails)
    }
    drop(setting.builder_on(&disk).open(DIRECTORY));
    disk.clear_faults();
    let what = format!(
        "a flush failed {first} calls after opening, the next opening {}, {setting:?}",
        if cut { "was cut short" } else { "met another" }
    );
    for survival in [Survival::Nothing, Survival::Sectors] {
        reopen(
            &disk.crash_as(survival, seed ^ first),
            setting,
            &mut promise.clone(),
            &format!("{what} after {second}, power lost, {survival:?}"),
        )?;
    }
    reopen(&disk, setting, &mut promise, &format!("{what} after {second}, once more"))?;
    reopen(
        &disk.crash_as(Survival::Nothing, seed),
        setting,
        &mut promise,
        &format!("{what} after {second}, once more, then power lost"),
    )
}

/// An environment that was closed is opened by a process that finds the disk full, for so many calls from any
/// one on, and then something else wrong. The process is killed, if it got in. To open it again, without
/// faults, must be enough.
///
/// # Errors
/// Whatever is not as promised.
pub fn openings(seed: u64) -> Result<Outcome, Wrong> {
    let (setting, steps) = workload(seed, 10);
    let mut outcome = Outcome::default();
    let mut promise = Promise::default();
    let closed = SimDisk::new(seed);
    let env = setting.builder_on(&closed).open(DIRECTORY).map_err(|error| format!("opening: {error}"))?;
    work(&env, &setting, &steps, &mut promise)?;
    env.close().map_err(|error| format!("closing: {error}"))?;
    promise.durable();
    for second in FAULTS {
        for call in 1.. {
            let disk = closed.crash_as(Survival::Everything, seed);
            let mut dice = Dice::new(seed ^ call);
            let (begin, full) = (disk.calls() + call, 1 + dice.below(5));
            // Each at the next call that it fits: what was refused may be tried in another way.
            (0..full).for_each(|_| disk.fail_at(begin, Fault::DiskFull));
            (0..1 + dice.below(3)).for_each(|_| disk.fail_at(begin + full + dice.below(30), second));
            let wrong = |wrong: Wrong| {
                format!(
                    "{full} times no room from call {call} of an opening on, {second:?} next, {setting:?}: \
                     {wrong}"
                )
            };
            match setting.builder_on(&disk).open(DIRECTORY) {
                Ok(env) => {
                    let is_over = disk.calls() < begin;
                    disk.crash_at(disk.calls());
                    drop(env);
                    if is_over {
                        break;
                    }
                }
                Err(error) if is_clear(&error) => outcome.failed += 1,
                Err(error) => return Err(wrong(unclear("opening", &error))),
            }
            disk.clear_faults();
            reopen(&disk, &setting, &mut promise.clone(), "killed").map_err(wrong)?;
        }
    }
    Ok(outcome)
}

/// The workload of a seed.
pub fn workload(seed: u64, count: usize) -> (Setting, Vec<Step>) {
    let mut dice = Dice::new(seed);
    let setting = Setting::any_journaled(&mut dice);
    let shape = Shape {
        keys: 30,
        value_max: dice.pick(&[1200, 12_000]),
        reopen: false,
        stem: setting.stem(),
        ..Shape::small()
    };
    (setting, shape.steps(&mut dice, count))
}

/// Every fault at every call.
///
/// # Errors
/// Whatever is not as promised.
pub fn every_call(seed: u64, count: usize) -> Result<Outcome, Wrong> {
    let (setting, steps) = workload(seed, count);
    let whole = one(seed, &setting, &steps, u64::MAX, Fault::SyncFails)?;
    if whole.failed > 0 {
        return Err("a step failed without a fault".into());
    }
    let disk = SimDisk::new(seed);
    {
        let env = setting.builder_on(&disk).open(DIRECTORY).map_err(|error| error.to_string())?;
        work(&env, &setting, &steps, &mut Promise::default())?;
    }
    let mut outcome = Outcome::default();
    for call in 1..=disk.calls() {
        for fault in FAULTS {
            let this = one(seed, &setting, &steps, call, fault)?;
            outcome.failed += this.failed;
            outcome.poisoned |= this.poisoned;
        }
    }
    Ok(outcome)
}

/// So many failed flushes in the workload of a seed, and something wrong in the opening after each, at any
/// moment of that.
///
/// # Errors
/// Whatever is not as promised.
pub fn twice_anywhere(seed: u64, times: u64) -> Result<(), Wrong> {
    let (setting, steps) = workload(seed, 15);
    let disk = SimDisk::new(seed);
    let env = setting.builder_on(&disk).open(DIRECTORY).map_err(|error| error.to_string())?;
    let opened = disk.calls();
    work(&env, &setting, &steps, &mut Promise::default())?;
    let calls = disk.calls() - opened;
    disk.crash_at(disk.calls());
    drop(env);
    disk.clear_faults();
    let before = disk.calls();
    drop(setting.builder_on(&disk).open(DIRECTORY).map_err(|error| error.to_string())?);
    let opening = disk.calls() - before;
    let mut dice = Dice::new(seed);
    (0..times).try_for_each(|_| {
        twice(seed, &setting, &steps, dice.below(calls + 1), (dice.below(opening), dice.below(2) == 0))
    })
}

/// A few faults at random calls of a workload of the seed's own.
///
/// # Errors
/// Whatever is not as promised.
pub fn explore(seed: u64) -> Result<(), Wrong> {
    let mut dice = Dice::new(seed ^ 0xfa17);
    let count = dice.pick(&[10, 40, 100]);
    let (setting, steps) = workload(seed, count);
    for _ in 0..4 {
        let calls = dice.pick(&[30, 100, 400]);
        let (call, fault) = (1 + dice.below(calls), dice.pick(&FAULTS));
        one(seed, &setting, &steps, call, fault)?;
    }
    twice(seed, &setting, &steps, 1 + dice.below(200), (dice.below(100), dice.below(2) == 0))
}

/// Space without limit, for a disk that is to count it.
const ROOM: u64 = 1 << 40;

/// A disk that is too small: errors of a full disk, nothing lost, and work goes on once there is room.
///
/// # Errors
/// Whatever is not as promised.
pub fn small_disk(seed: u64) -> Result<Outcome, Wrong> {
    let mut dice = Dice::new(seed ^ 0xd15c);
    let setting = Setting { log_buffer: 1 << 20, cache: 4 << 20, ..Setting::any_journaled(&mut dice) };
    let shape = Shape {
        keys: 1500,
        value_max: 16_000,
        batch_max: 100,
        reopen: false,
        stem: setting.stem(),
        ..Shape::small()
    };
    let steps = shape.steps(&mut dice, 250);
    let disk = SimDisk::new(seed);
    let mut promise = Promise::default();
    let env = setting.builder_on(&disk).open(DIRECTORY).map_err(|error| format!("opening: {error}"))?;
    // What is taken by now, and a little more.
    disk.set_capacity(ROOM);
    let free = disk.free_bytes(Path::new(DIRECTORY)).map_err(|error| error.to_string())?;
    disk.set_capacity(ROOM - free + dice.below(120_000));
    let outcome =
        work(&env, &setting, &steps, &mut promise).map_err(|wrong| format!("{setting:?}: {wrong}"))?;
    drop(env);
    disk.set_capacity(ROOM);
    reopen(&disk, &setting, &mut promise, "with room again")
        .map_err(|wrong| format!("{setting:?}: {wrong}"))?;
    Ok(outcome)
}
