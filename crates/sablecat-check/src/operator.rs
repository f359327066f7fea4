//! Operators: what becomes of an environment whose processes were killed, and whose files or memory somebody
//! changed before the next one came.
//!
//! An environment lives in rounds. In each a process opens it, shared or alone, works, and closes it; at a
//! moment that chance picks, before any of the calls that change a file, in opening, work or closing, all
//! that there is is copied. That is what a SIGKILL at this moment would have left. Then an operator does to
//! it what operators do: nothing; removes the memory, as the end of a container or a cleaner of `/dev/shm`
//! does; copies the directory elsewhere; puts the files of an earlier moment back, beside the memory of this
//! one; or has the memory of an earlier moment beside the files of this one. The next process must be able to
//! open it, find a state that the files may be in, whole, and go on.
//!
//! Which states are possible at a moment: of files and memory together exactly the newest, or the one that
//! the step in progress leads to; of the files alone any from the one that was made durable last. Of files
//! and memory of different moments any that the files may be in, or the newest that the memory knows, if the
//! files are of its history.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sablecat::{Builder, Env};
use sablecat_os::disk::HostDisk;
use sablecat_os::disk::between::{Between, Call, Judge, Verdict};

use crate::alike::{Wrong, clean};
use crate::crash::makes_durable;
use crate::dice::Dice;
use crate::engine;
use crate::model::Model;
use crate::setting::Setting;
use crate::step::{Shape, Step};
use crate::steps::state::{Place, State};

/// The states that an environment may be in.
#[derive(Clone, Debug)]
struct Possible {
    /// As files and memory have it.
    exact: Vec<Model>,
    /// As the files have it, in the order of commits.
    files: Vec<Model>,
}

impl Possible {
    /// In this state and no other, durable.
    fn settled(state: Model) -> Possible {
        Possible { exact: vec![state.clone()], files: vec![state] }
    }

    fn newest(&self) -> &Model {
        self.files.last().expect("there is always a state")
    }
}

/// All that there is at one moment.
struct Moment {
    state: State,
    possible: Possible,
}

/// Has all of a place copied before one of the calls that change something.
#[derive(Clone, Debug)]
struct Copier {
    calls: Arc<AtomicU64>,
    copy_at: u64,
    shared: Arc<Mutex<Copied>>,
}

#[derive(Debug)]
struct Copied {
    base: PathBuf,
    possible: Possible,
    taken: Option<io::Result<(State, Possible)>>,
}

impl Copier {
    fn new(base: &Path, possible: Possible, copy_at: u64) -> Copier {
        let copied = Copied { base: base.to_owned(), possible, taken: None };
        Copier { calls: Arc::default(), copy_at, shared: Arc::new(Mutex::new(copied)) }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Copied) -> T) -> T {
        act(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self) {
        if self.calls.fetch_add(1, Ordering::SeqCst) == self.copy_at {
            self.with(Copied::take);
        }
    }

    /// Says what is possible from now on.
    fn now(&self, possible: Possible) {
        self.with(|copied| copied.possible = possible);
    }

    /// What was copied; or what there is now, if the moment has not come.
    fn moment(&self) -> Result<Moment, Wrong> {
        let taken = self.with(|copied| {
            if copied.taken.is_none() {
                copied.take();
            }
            copied.taken.take()
        });
        let (state, possible) =
            taken.ok_or("nothing was copied")?.map_err(|error| format!("copying: {error}"))?;
        Ok(Moment { state, possible })
    }
}

impl Copied {
    fn take(&mut self) {
        let possible = self.possible.clone();
        self.taken = Some(State::of(&Place::of_another(&self.base)).map(|state| (state, possible)));
    }
}

impl Judge for Copier {
    fn judge(&self, call: Call) -> Verdict {
        if call.changes() {
            self.change();
        }
        Verdict::Make
    }
}

/// What an operator does to an environment that nobody has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Nothing,
    RemoveMemory,
    PutFilesBack,
    PutMemoryBack,
}

const ACTS: [Act; 5] = [Act::Nothing, Act::Nothing, Act::RemoveMemory, Act::PutFilesBack, Act::PutMemoryBack];

/// One seed: some rounds of one environment.
///
/// # Errors
/// Whatever is not as it should be, and in which round.
pub fn explore(seed: u64) -> Result<(), Wrong> {
    let mut dice = Dice::new(seed);
    let setting = Setting::any_journaled(&mut dice);
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let base = base.join(format!("sablecat-operator-{}-{seed}", std::process::id()));
    let text = |error: io::Error| format!("making a place: {error}");
    let place = Place::new(base.join("place")).map_err(text)?;
    let outcome = rounds(&mut dice, &setting, &place).map_err(|wrong| format!("{setting:?}: {wrong}"));
    drop(place);
    std::fs::remove_dir(&base).map_err(text)?;
    outcome
}

fn rounds(dice: &mut Dice, setting: &Setting, place: &Place) -> Result<(), Wrong> {
    let shape = Shape {
        keys: dice.pick(&[30, 300]),
        value_max: 1200,
        stem: setting.stem(),
        reopen: false,
        ..Shape::small()
    };
    let mut earlier: Vec<Moment> = Vec::new();
    let mut possible = Possible::settled(Model::default());
    let mut story = Vec::new();
    for _ in 0..3 + dice.index(4) {
        let count = dice.pick(&[3, 20, 60]);
        let (is_shared, steps) = (dice.percent(70), shape.steps(dice, count));
        let calls = dice.pick(&[30, 100, 400]);
        let copier = Copier::new(place.base(), possible, dice.below(calls));
        story.push(format!("{} with {count} steps", if is_shared { "shared" } else { "alone" }));
        round(&copier, builder(setting, place, is_shared), &steps, setting)
            .map_err(|wrong| format!("{}: {wrong}", story.join(", ")))?;
        let mut moment = copier.moment()?;
        if !is_shared {
            // The memory of a process that was alone is gone with it.
            moment.possible.exact.clone_from(&moment.possible.files);
        }
        let act = if earlier.is_empty() { dice.pick(&ACTS[..3]) } else { dice.pick(&ACTS) };
        let other = earlier.get(dice.index(earlier.len()));
        story.push(format!("{act:?}"));
        let put = |state: &State, with_memory| {
            state.put(place, with_memory).map_err(|error| format!("copying: {error}"))
        };
        possible = moment.possible.clone();
        match (act, other) {
            (Act::RemoveMemory, _) => {
                put(&moment.state, false)?;
                possible.exact.clone_from(&possible.files);
            }
            (Act::PutFilesBack, Some(other)) => {
                put(&other.state.with_memory_of(&moment.state), true)?;
                possible = Possible {
                    exact: [&other.possible.files[..], &possible.exact].concat(),
                    files: other.possible.files.clone(),
                };
                possible.files.extend(moment.possible.exact.iter().cloned());
            }
            (Act::PutMemoryBack, Some(other)) => {
                put(&moment.state.with_memory_of(&other.state), true)?;
                possible.exact.clone_from(&possible.files);
            }
            _ => put(&moment.state, true)?,
        }
        earlier.push(moment);
    }
    // The process that comes last, in either way, finds the same.
    let mut found = possible;
    for is_shared in [true, false] {
        let copier = Copier::new(place.base(), found, u64::MAX);
        round(&copier, builder(setting, place, is_shared), &[], setting)
            .map_err(|wrong| format!("{}, at last: {wrong}", story.join(", ")))?;
        found = copier.with(|copied| copied.possible.clone());
    }
    Ok(())
}

fn builder(setting: &Setting, place: &Place, is_shared: bool) -> Builder {
    setting.builder().shared(is_shared).region_directory(place.regions())
}

/// Opens the environment, holds what is found against what is possible, works, and closes it.
fn round(copier: &Copier, builder: Builder, steps: &[Step], setting: &Setting) -> Result<(), Wrong> {
    let place = Place::of_another(&copier.with(|copied| copied.base.clone()));
    let env = builder
        .disk(Arc::new(Between::new(HostDisk, copier.clone())))
        .open(place.environment())
        .map_err(|error| format!("opening: {:?}: {error}", error.kind()))?;
    let found = engine::state(&env).map_err(|error| format!("reading everything: {error}"))?;
    let possible = copier.with(|copied| copied.possible.clone());
    if !possible.exact.contains(&found) {
        let difference = possible.exact.last().map(|newest| found.difference(newest)).unwrap_or_default();
        return Err(format!(
            "what was found is none of {} states that may be: against the newest {difference}",
            possible.exact.len()
        ));
    }
    clean(&env)?;
    let mut possible = Possible::settled(found);
    copier.now(possible.clone());
    for step in steps {
        work(&env, copier, step, setting, &mut possible)?;
    }
    env.close().map_err(|error| format!("closing: {:?}: {error}", error.kind()))?;
    copier.now(Possible::settled(possible.newest().clone()));
    Ok(())
}

fn work(
    env: &Env,
    copier: &Copier,
    step: &Step,
    setting: &Setting,
    possible: &mut Possible,
) -> Result<(), Wrong> {
    let mut after = possible.newest().clone();
    let expected = after.apply(step);
    let changes = after != *possible.newest();
    if changes {
        possible.exact = vec![possible.newest().clone(), after.clone()];
        possible.files.push(after.clone());
    }
    copier.now(possible.clone());
    match engine::apply(env, step) {
        Ok(answer) if answer == expected => {}
        Ok(answer) => return Err(format!("{step:?} answered {answer:?}, not {expected:?}")),
        Err(error) => return Err(format!("{step:?} failed: {:?}: {error}", error.kind())),
    }
    possible.exact = vec![after];
    let is_for_durability = matches!(step, Step::Sync | Step::Checkpoint | Step::Compact);
    if makes_durable(step, setting) && (changes || is_for_durability) {
        possible.files.drain(..possible.files.len() - 1);
    }
    copier.now(possible.clone());
    Ok(())
}
