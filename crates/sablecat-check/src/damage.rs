//! Damage: bytes of an environment's files are changed while nobody looks. Opening, verifying and reading
//! everything must then either work with the right data, or say that something is wrong; never panic, never
//! answer with wrong data.
//!
//! Right data of an environment that was closed is its last state. One that was not closed ends in a log
//! whose last records a crash may legitimately have torn: there a damaged log may also show an older state,
//! but one that was.

use std::path::PathBuf;

use sablecat_os::disk::{Disk, How};
use sablecat_os::sim::{SimDisk, Survival};

use crate::alike::Wrong;
use crate::dice::Dice;
use crate::engine;
use crate::model::Model;
use crate::setting::{DIRECTORY, Setting};
use crate::step::{Shape, Step};

/// What damage was met with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An error or a problem found by `verify`.
    Reported,
    /// The right data: the damaged bytes were not in use.
    Harmless,
    /// An older state, from a log without its end.
    Older,
}

/// An environment on a disk, and the states that it went through since its last checkpoint; the last is what
/// it holds.
#[derive(Debug)]
pub struct Subject {
    /// The disk.
    pub disk: SimDisk,
    /// How it was made.
    pub setting: Setting,
    /// The states.
    pub states: Vec<Model>,
    /// Whether it was closed.
    pub closed: bool,
}

/// Makes an environment to damage.
///
/// # Errors
/// If the engine cannot even do that.
pub fn subject(seed: u64, closed: bool) -> Result<Subject, Wrong> {
    subject_on(SimDisk::new(seed), seed, closed)
}

/// As [`subject`], on a disk of which somebody may have something planned.
pub(crate) fn subject_on(disk: SimDisk, seed: u64, closed: bool) -> Result<Subject, Wrong> {
    let mut dice = Dice::new(seed);
    let setting = Setting::any_small(&mut dice);
    let shape = Shape {
        keys: dice.pick(&[30, 400]),
        value_max: 4000,
        reopen: false,
        stem: setting.stem(),
        ..Shape::small()
    };
    let env = setting.builder_on(&disk).open(DIRECTORY).map_err(|error| format!("creating: {error}"))?;
    let mut states = vec![Model::default()];
    let count = dice.pick(&[20, 80, 160]);
    for step in shape.steps(&mut dice, count) {
        let mut model = states.last().cloned().unwrap_or_default();
        model.apply(&step);
        engine::apply(&env, &step).map_err(|error| format!("{step:?}: {error}"))?;
        if matches!(step, Step::Checkpoint | Step::Compact) {
            states.clear();
        }
        states.push(model);
    }
    env.sync().map_err(|error| format!("syncing: {error}"))?;
    let disk = if closed {
        env.close().map_err(|error| format!("closing: {error}"))?;
        states.drain(..states.len() - 1);
        disk.clone()
    } else {
        disk.crash_as(Survival::Everything, seed)
    };
    Ok(Subject { disk, setting, states, closed })
}

pub(crate) fn files(disk: &SimDisk) -> std::io::Result<Vec<PathBuf>> {
    let directory = PathBuf::from(DIRECTORY);
    let mut files = Vec::new();
    for name in disk.list(&directory)? {
        let path = directory.join(name);
        match disk.list(&path) {
            Ok(names) => files.extend(names.into_iter().map(|name| path.join(name))),
            Err(_) => files.push(path),
        }
    }
    Ok(files)
}

/// Does some damage to some file, and says what.
fn damage(disk: &SimDisk, page_size: u64, dice: &mut Dice) -> std::io::Result<(String, bool)> {
    let all = files(disk)?;
    let path = dice.pick(&all);
    let in_log = path.parent().is_some_and(|parent| parent.ends_with("log"));
    let file = disk.open(&path, How::default())?;
    let len = file.len()?;
    let name = path.display();
    // Half of it at the start, where headers and superblocks are.
    let at = if dice.percent(40) { dice.below(len.min(70_000)) } else { dice.below(len) };
    let overwrite = |len: u64, mut byte: Box<dyn FnMut() -> u8 + '_>| {
        let bytes: Vec<u8> = (0..len).map(|_| byte()).collect();
        file.write_at(&bytes, at)
    };
    let what = if len == 0 {
        format!("{name} is empty: nothing")
    } else {
        match dice.below(7) {
            0..3 => {
                let mut byte = [0];
                file.read_at(&mut byte, at)?;
                let bit = dice.below(8);
                file.write_at(&[byte[0] ^ 1 << bit], at)?;
                format!("bit {bit} of byte {at} of {name} flipped")
            }
            3 => {
                let count = dice.pick(&[1, 16, 512, 4096]).min(len - at);
                overwrite(count, Box::new(|| 0))?;
                format!("{count} bytes at {at} of {name} zeroed")
            }
            4 => {
                let count = dice.pick(&[1, 16, 512, 4096]).min(len - at);
                overwrite(count, Box::new(|| dice.throw() as u8))?;
                format!("{count} bytes at {at} of {name} scrambled")
            }
            5 => {
                file.set_len(at)?;
                format!("{name} cut off at {at} of {len}")
            }
            _ => {
                let blocks = len / page_size;
                let (from, to) = (dice.below(blocks) * page_size, dice.below(blocks) * page_size);
                let mut block = vec![0; page_size as usize];
                let read = file.read_at(&mut block, from)?;
                file.write_at(&block[..read], to)?;
                format!("{page_size} bytes at {from} of {name} copied to {to}")
            }
        }
    };
    Ok((what, in_log))
}

/// Opens, verifies and reads everything.
pub(crate) fn examine(subject: &Subject, disk: &SimDisk, in_log: bool) -> Result<Verdict, Wrong> {
    let env = match subject.setting.builder_on(disk).open(DIRECTORY) {
        Ok(env) => env,
        Err(_) => return Ok(Verdict::Reported),
    };
    let verified = engine::problems(&env);
    let found = engine::state(&env);
    let reported = match &verified {
        Ok(problems) => !problems.is_empty(),
        Err(_) => true,
    };
    let newest = subject.states.last();
    match found {
        Err(_) => Ok(Verdict::Reported),
        Ok(found) if Some(&found) == newest => {
            Ok(if reported { Verdict::Reported } else { Verdict::Harmless })
        }
        Ok(_) if reported => Ok(Verdict::Reported),
        Ok(found) if !subject.closed && in_log && subject.states.contains(&found) => Ok(Verdict::Older),
        Ok(found) => Err(format!(
            "wrong data, and nobody says so: {}",
            newest.map_or(String::new(), |newest| found.difference(newest))
        )),
    }
}

/// Damages an environment of the seed in some ways, one at a time.
///
/// # Errors
/// Whatever went unnoticed.
pub fn explore(seed: u64) -> Result<(), Wrong> {
    tally(seed, 12).map(|_| ())
}

/// As [`explore`], so many times; says how often each verdict came.
///
/// # Errors
/// Whatever went unnoticed.
pub fn tally(seed: u64, times: u64) -> Result<[u64; 3], Wrong> {
    let subject = subject(seed, seed.is_multiple_of(2))?;
    let mut verdicts = [0; 3];
    for time in 0..times {
        let mut dice = Dice::new(seed.wrapping_mul(1000) + time);
        let disk = subject.disk.crash_as(Survival::Everything, time);
        let (what, in_log) =
            damage(&disk, subject.setting.page_size as u64, &mut dice).map_err(|error| error.to_string())?;
        let examined =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| examine(&subject, &disk, in_log)));
        let verdict = match examined {
            Ok(verdict) => verdict
                .map_err(|wrong| format!("closed {}, damage {time}: {what}: {wrong}", subject.closed))?,
            Err(_) => return Err(format!("closed {}, damage {time}: {what}: panic", subject.closed)),
        };
        verdicts[verdict as usize] += 1;
    }
    Ok(verdicts)
}
