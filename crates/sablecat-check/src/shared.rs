//! Environments that several processes share, on the simulated disk: power failures after any call, and calls
//! that fail, whichever process makes them and in whatever role (filling segments, checkpoints, keeping
//! house, entering, leaving).
//!
//! The processes are handles in this one: each is a member of the region with a lock of its own. What they
//! share lies in real memory, in a directory of its own, and so does the lock file; volumes and log are on
//! the simulated disk, under the same name. A failure of the power takes the memory along; a failing call
//! leaves it: what is wrong with it then, closing by all and opening again must mend.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use sablecat::{Builder, Env, ErrorKind};
use sablecat_os::sim::{Fault, SimDisk, Survival};

use crate::alike::{Wrong, clean};
use crate::crash::{End, Promise, makes_durable};
use crate::dice::Dice;
use crate::engine;
use crate::faults::{FAULTS, Outcome, is_clear, reopen_by, unclear, work_on};
use crate::setting::Setting;
use crate::step::{Shape, Step};

/// The most processes.
const PROCESSES_MAX: usize = 3;

/// A machine: its disk, and its memory for as long as it runs.
pub(crate) struct Machine<'a> {
    pub(crate) disk: SimDisk,
    setting: &'a Setting,
    memory: Rc<Memory>,
}

/// A directory in real memory. Its name is that of the environment, and stays when the machine is started
/// again.
struct Memory(PathBuf);

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl<'a> Machine<'a> {
    pub(crate) fn new(disk: SimDisk, setting: &'a Setting) -> Result<Machine<'a>, Wrong> {
        static MACHINES: AtomicU64 = AtomicU64::new(0);
        let name =
            format!("sablecat-shared-{}-{}", std::process::id(), MACHINES.fetch_add(1, Ordering::Relaxed));
        let base = Path::new("/dev/shm");
        let memory = if base.is_dir() { base.join(name) } else { std::env::temp_dir().join(name) };
        Machine { disk, setting, memory: Rc::new(Memory(memory)) }.forget()
    }

    /// The same machine started again, with what a failure of the power has left on its disk, and nothing in
    /// memory.
    fn started_again(&self, disk: SimDisk) -> Result<Machine<'a>, Wrong> {
        Machine { disk, setting: self.setting, memory: Rc::clone(&self.memory) }.forget()
    }

    fn forget(self) -> Result<Machine<'a>, Wrong> {
        let emptied = || {
            let _ = fs::remove_dir_all(&self.memory.0);
            ["env", "region"].into_iter().try_for_each(|part| fs::create_dir_all(self.memory.0.join(part)))
        };
        emptied().map_err(|error| format!("making directories: {error}")).map(|()| self)
    }

    /// Nothing is left of what the processes shared, but what was set aside.
    pub(crate) fn is_closed(&self) -> Result<(), Wrong> {
        let region = self.memory.0.join("region");
        let names = fs::read_dir(&region)
            .map_err(|error| format!("listing a directory: {error}"))?
            .flatten()
            .map(|file| file.file_name());
        match names.map(|name| name.to_string_lossy().into_owned()).find(|name| !name.ends_with(".aside")) {
            Some(name) => Err(format!("all have closed, and {name} is still there")),
            None => Ok(()),
        }
    }

    /// One more process.
    pub(crate) fn open(&self) -> sablecat::Result<Env> {
        self.builder().open(self.directory())
    }

    pub(crate) fn builder(&self) -> Builder {
        self.setting.builder_on(&self.disk).shared(true).region_directory(self.memory.0.join("region"))
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.memory.0.join("env")
    }
}

pub(crate) fn scene(dice: &mut Dice) -> (Setting, Vec<Step>, usize) {
    let setting = Setting::any_journaled(dice);
    let (steps, processes) = play(&setting, dice);
    (setting, steps, processes)
}

/// Steps under a setting, and how many processes take them.
fn play(setting: &Setting, dice: &mut Dice) -> (Vec<Step>, usize) {
    let shape = Shape {
        keys: dice.pick(&[10, 60, 300]),
        value_max: dice.pick(&[200, 3000, 12_000]),
        stem: setting.stem(),
        ..Shape::small()
    };
    let count = dice.pick(&[5, 20, 60]);
    (shape.steps(dice, count), 2 + dice.index(PROCESSES_MAX - 1))
}

/// What a process does beside its steps.
pub(crate) fn keep_house(env: &Env, outcome: &mut Outcome) -> Result<(), Wrong> {
    match env.keep_house() {
        Ok(()) => Ok(()),
        Err(error) if is_clear(&error) => {
            outcome.failed += 1;
            outcome.poisoned |= error.kind() == ErrorKind::Poisoned;
            Ok(())
        }
        Err(error) => Err(unclear("keeping house", &error)),
    }
}

/// All processes work in turn, while calls fail; then all close.
fn work(
    machine: &Machine<'_>,
    steps: &[Step],
    processes: usize,
    dice: &mut Dice,
    promise: &mut Promise,
) -> Result<Outcome, Wrong> {
    let mut outcome = Outcome::default();
    let open = |outcome: &mut Outcome| match machine.open() {
        Ok(env) => Ok(Some(env)),
        Err(error) if is_clear(&error) || error.kind() == ErrorKind::InUse => {
            outcome.failed += 1;
            Ok(None)
        }
        Err(error) => Err(unclear("opening", &error)),
    };
    let close = |env: Env, outcome: &mut Outcome| match env.close() {
        Ok(()) => Ok(()),
        Err(error) if is_clear(&error) => {
            outcome.failed += 1;
            Ok(())
        }
        Err(error) => Err(unclear("closing", &error)),
    };
    let mut envs = Vec::new();
    for _ in 0..processes {
        envs.extend(open(&mut outcome)?);
    }
    for step in steps {
        if envs.is_empty() || outcome.blind {
            break;
        }
        let which = dice.index(envs.len());
        if matches!(step, Step::Reopen) {
            // One leaves, and comes again while others are there: without them what the fault has left would
            // be over.
            if envs.len() > 1 {
                close(envs.swap_remove(which), &mut outcome)?;
                envs.extend(open(&mut outcome)?);
            }
            continue;
        }
        work_on(&envs[which], machine.setting, step, promise, &mut outcome)?;
        if dice.percent(30) {
            keep_house(&envs[dice.index(envs.len())], &mut outcome)?;
        }
    }
    envs.into_iter().try_for_each(|env| close(env, &mut outcome))?;
    Ok(outcome)
}

/// One fault at one call of the steps of some processes.
fn one_fault(seed: u64, call: u64, fault: Fault) -> Result<(Outcome, u64), Wrong> {
    let mut dice = Dice::new(seed ^ 0x5a4e_d000);
    let (setting, steps, processes) = scene(&mut dice);
    let wrong =
        |wrong: Wrong| format!("{fault:?} at call {call}, {processes} processes, {setting:?}: {wrong}");
    let machine = Machine::new(SimDisk::new(seed), &setting)?;
    // What the failing sync of a name loses while the environment is made no program can know of.
    machine.open().and_then(Env::close).map_err(|error| wrong(format!("made without a fault: {error}")))?;
    let made = machine.disk.calls();
    machine.disk.fail_at(made + call, fault);
    let mut promise = Promise::default();
    let outcome = work(&machine, &steps, processes, &mut dice, &mut promise).map_err(wrong)?;
    let calls = machine.disk.calls() - made;
    machine.disk.clear_faults();
    let survived = Survival::ALL.map(|survival| (survival, machine.disk.crash_as(survival, seed ^ call)));
    // The cause is gone, and all have closed: to open it again is enough.
    let what = "all have closed";
    reopen_by(|| machine.open(), &mut promise.clone(), what).map_err(wrong)?;
    machine.is_closed().map_err(wrong)?;
    let afterwards = machine.disk.crash_as(Survival::Nothing, seed);
    for (survival, disk) in survived {
        let machine = machine.started_again(disk)?;
        let what = format!("power lost too, {survival:?}");
        reopen_by(|| machine.open(), &mut promise.clone(), &what).map_err(wrong)?;
    }
    // Closed by the last of them, the environment is whole.
    let machine = machine.started_again(afterwards)?;
    let env = machine.open().map_err(|error| wrong(format!("power lost after closing: {error}")))?;
    clean(&env).map_err(|error| wrong(format!("power lost after closing: {error}")))?;
    Ok((outcome, calls))
}

/// A few faults at calls of a workload of the seed's own.
///
/// # Errors
/// Whatever is not as promised.
pub fn faults(seed: u64) -> Result<(), Wrong> {
    let mut dice = Dice::new(seed ^ 0xfa17_5a4e);
    let (whole, calls) = one_fault(seed, u64::MAX >> 1, Fault::SyncFails)?;
    if whole.failed > 0 {
        return Err("something failed without a fault".into());
    }
    for _ in 0..4 {
        one_fault(seed, 1 + dice.below(calls), dice.pick(&FAULTS))?;
    }
    Ok(())
}

/// Some lives of a machine, each with several processes and its failure of the power, in work, as one comes
/// or goes, or in recovery.
///
/// # Errors
/// Whatever is not as promised, and where.
pub fn crashes(seed: u64) -> Result<(), Wrong> {
    let mut dice = Dice::new(seed ^ 0xc4a5_5a4e);
    let setting = Setting::any_journaled(&mut dice);
    let mut machine = Machine::new(SimDisk::new(seed), &setting)?;
    let mut promise = Promise::default();
    let lives = 2 + dice.index(3);
    for life in 0..=lives {
        let (steps, processes) = play(&setting, &mut dice);
        let last = life == lives;
        if !last {
            let calls = dice.pick(&[20, 60, 200, 800]);
            machine.disk.crash_at(1 + dice.below(calls));
        }
        let steps = if last { &[][..] } else { &steps };
        live(&machine, steps, processes, &mut dice, &mut promise).map_err(|wrong| {
            format!("life {life} of {lives}, {processes} processes, {setting:?}: {wrong}")
        })?;
        machine = machine.started_again(machine.disk.crash(dice.throw()))?;
    }
    Ok(())
}

fn live(
    machine: &Machine<'_>,
    steps: &[Step],
    processes: usize,
    dice: &mut Dice,
    promise: &mut Promise,
) -> Result<End, Wrong> {
    let disk = &machine.disk;
    let open = || match machine.open() {
        Ok(env) => Ok(Some(env)),
        Err(_) if disk.has_crashed() => Ok(None),
        Err(error) => Err(format!("opening: {:?}: {error}", error.kind())),
    };
    let Some(first) = open()? else { return Ok(End::PowerLost) };
    match engine::state(&first) {
        Ok(found) => promise.settle(found)?,
        Err(_) if disk.has_crashed() => return Ok(End::PowerLost),
        Err(error) => return Err(format!("reading everything: {error}")),
    }
    if let Err(wrong) = clean(&first)
        && !disk.has_crashed()
    {
        return Err(wrong);
    }
    let mut envs = vec![first];
    while envs.len() < processes {
        let Some(env) = open()? else { return Ok(End::PowerLost) };
        envs.push(env);
    }
    for step in steps {
        let which = dice.index(envs.len());
        if matches!(step, Step::Reopen) {
            match envs.swap_remove(which).close() {
                Err(error) if !disk.has_crashed() => return Err(format!("closing: {error}")),
                _ => {}
            }
            let Some(env) = open()? else { return Ok(End::PowerLost) };
            envs.push(env);
            continue;
        }
        let mut after = promise.newest().clone();
        let expected = after.apply(step);
        let changes = after != *promise.newest();
        let outcome = engine::apply(&envs[which], step);
        promise.push(after);
        match outcome {
            Ok(answer) if answer == expected => {
                if makes_durable(step, machine.setting)
                    && (changes || matches!(step, Step::Sync | Step::Checkpoint | Step::Compact))
                {
                    promise.durable();
                }
            }
            Ok(answer) => return Err(format!("{step:?} answered {answer:?}, not {expected:?}")),
            Err(_) if disk.has_crashed() => return Ok(End::PowerLost),
            Err(error) => return Err(format!("{step:?} failed: {:?}: {error}", error.kind())),
        }
        if dice.percent(30)
            && let Err(error) = envs[dice.index(envs.len())].keep_house()
            && !disk.has_crashed()
        {
            return Err(format!("keeping house: {error}"));
        }
    }
    for env in envs {
        match env.close() {
            Err(error) if !disk.has_crashed() => return Err(format!("closing: {error}")),
            _ => {}
        }
    }
    if !disk.has_crashed() {
        promise.durable();
    }
    Ok(if disk.has_crashed() { End::PowerLost } else { End::Finished })
}
