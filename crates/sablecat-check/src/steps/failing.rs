//! Of an operation's system calls one fails: each, with each error that it may answer with.
//!
//! The process that does it is traced from call to call, and that one is not made but answers with an error.
//! So this reaches what no disk in front of the system's does: the calls on regions, on the lock file, on
//! `/proc`. Afterwards no call fails, and the process goes on: it tells what it was answered, tries again if
//! that was an error, works and looks at everything. Then so does the process that was there beside it, if
//! one was, and the one that comes when all have gone.
//!
//! An error must say what was tried on what; nothing of what was refused may be done, unless the environment
//! is poisoned or the error says so; a signal in between is no error at all. What was acknowledged must be
//! there, in every case. No process may panic, end by a signal or stand still.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use sablecat::{Env, Error, ErrorKind};
use sablecat_os::check::calls::SystemCall;
use sablecat_os::check::stepped::{self, Did, Stepped, is_possible};

use super::opening::{open, open_with};
use super::operation::{Act, MORE_OPERATIONS, OPERATIONS, Operation, contents};
use super::report::Why;
use super::state::Place;
use super::survivor::{Left, PATIENCE, Possible, come_after, go_on, go_on_but, patiently};
use super::{Begun, Company, Start, Steps};
use crate::course::Course;
use crate::{method, stored};

/// Operations of whose calls one fails.
pub fn operations() -> impl Iterator<Item = &'static Operation> {
    OPERATIONS.iter().chain(&MORE_OPERATIONS)
}

/// An operation of whose calls one fails.
#[derive(Clone, Debug)]
pub struct Failing {
    /// Where the environments are made; removed afterwards.
    pub directory: PathBuf,
    /// What is done.
    pub operation: &'static Operation,
    /// Of all calls and errors every so many are tried.
    pub every: u64,
    /// The number of the first of these, and chance.
    pub from: u64,
    /// None of the first so many are tried: they have been.
    pub after: u64,
    /// The environment keeps a journal, with epochs.
    pub journal: bool,
    /// After the call that fails all others of its kind fail as well, until the operation is over: a disk
    /// that is full, no descriptors that are left.
    pub on: bool,
    /// Says of each what came of it.
    pub tell: bool,
}

/// What it came to.
#[derive(Clone, Copy, Default, Debug)]
pub struct Report {
    /// Calls of the operation that may fail.
    pub calls: u64,
    /// Times that one failed.
    pub failed: u64,
    /// Of these, times that the operation said so.
    pub refused: u64,
    /// Of these, times that the environment was poisoned.
    pub poisoned: u64,
    /// The last try, if the run ended before all were made.
    pub cut_after: Option<u64>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { calls, failed, refused, poisoned, cut_after } = self;
        write!(
            f,
            "{calls} calls; {failed} times one failed, {refused} of them were told, {poisoned} poisoned"
        )?;
        cut_after.map_or(Ok(()), |after| write!(f, "; cut short: the rest is --after {after}"))
    }
}

impl Failing {
    /// Has calls fail, until the end of the course.
    ///
    /// # Errors
    /// That it cannot be begun. What is wrong with one try is told, and the others are made.
    pub fn run(&self, course: &Course) -> Result<Report, Why> {
        if !is_possible() {
            return Err(Why::NotPermitted);
        }
        let ran = self.run_in_directory(course);
        let _ = std::fs::remove_dir_all(&self.directory);
        ran
    }

    fn run_in_directory(&self, course: &Course) -> Result<Report, Why> {
        let Failing { directory, operation, from, .. } = self.clone();
        let name = operation.name;
        course.tell(&format_args!("{name}: what is there before"));
        let steps = Steps {
            directory,
            operation,
            every: 1,
            from,
            after: 0,
            calls: true,
            kills: 0,
            stop: false,
            journal: self.journal,
        };
        let start = steps.start()?;
        let start = Start { victim: steps.victim(&start)?, holder: steps.holder(&start)?, state: start };
        let scene = Scene { on: self.on, possible: Arc::new(operation.before_and_after()?), start, steps };
        let calls = scene.calls()?;
        let tries: Vec<_> =
            (0..).zip(&calls).flat_map(|(at, call)| (0..call.ways()).map(move |way| (at, way))).collect();
        // Nobody is interrupted each time.
        let tries: Vec<_> =
            tries.into_iter().filter(|&(at, way)| !self.on || !calls[at].is_interrupted(way)).collect();
        let mut report = Report { calls: calls.len() as u64, ..Report::default() };
        let mut last = self.after;
        for (n, &(at, way)) in
            (1..).zip(&tries).filter(|(n, _)| *n > self.after && (n + self.from).is_multiple_of(self.every))
        {
            if course.is_over() {
                report.cut_after = Some(last);
                break;
            }
            course.tell(&format_args!("{name}: {n} of {}", tries.len()));
            last = n;
            let mut which = None;
            match scene.one(at, way, &mut which) {
                Ok(None) => {}
                Ok(Some(came_to)) => {
                    report.failed += 1;
                    report.refused += u64::from(came_to.refusal.is_some());
                    report.poisoned += u64::from(came_to.poisoned);
                    if self.tell {
                        course.say(&format_args!("{name}: {n}: {}{came_to}", Tried(&which)));
                    }
                }
                Err(Why::Wrong(wrong)) => {
                    course.fail(&format_args!("{name} --from {from}: {n}: {}{wrong}", Tried(&which)))
                }
                Err(why) => return Err(why),
            }
        }
        Ok(report)
    }
}

/// A call, and what it was made to answer with.
struct Tried<'a>(&'a Option<(SystemCall, usize)>);

impl fmt::Display for Tried<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |(call, way)| write!(f, "{call}: {}: ", call.error(*way)))
    }
}

/// What came of a call that failed.
#[derive(Default)]
struct CameTo {
    /// What the operation said.
    refusal: Option<String>,
    poisoned: bool,
    acknowledged: bool,
}

impl fmt::Display for CameTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.refusal.as_deref().unwrap_or("it went on"))?;
        f.write_str(if self.poisoned { " (poisoned)" } else { "" })
    }
}

/// What a worker says at its end: in one line, and what it was refused for in another.
const ACKNOWLEDGED: &str = "acknowledged";
const POISONED: &str = "poisoned";
const REFUSED: &str = "refused ";

impl CameTo {
    fn of(said: &str) -> CameTo {
        let refusal = said.lines().find_map(|line| line.strip_prefix(REFUSED)).map(str::to_owned);
        let has = |word: &str| said.lines().any(|line| line == word);
        CameTo { refusal, poisoned: has(POISONED), acknowledged: has(ACKNOWLEDGED) }
    }
}

/// What each try begins with.
struct Scene {
    steps: Steps,
    /// The calls after it fail too.
    on: bool,
    start: Start,
    possible: Arc<Possible>,
}

impl Scene {
    fn begin(&self, place: &Place) -> Result<Begun, Why> {
        let operation = self.steps.operation;
        let said = File::create(said_in(place.base()))?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(method::words())
            .args(stored::words())
            .arg("calls-worker")
            .arg(place.base())
            .arg(operation.name)
            .stdout(said.try_clone()?)
            .stderr(said);
        self.steps.begin(&self.start, place, &mut command)
    }

    /// The calls that may fail, in their order.
    fn calls(&self) -> Result<Vec<SystemCall>, Why> {
        let place = self.steps.place("place")?;
        let Begun { company: _company, mut process, holder: _holder } = self.begin(&place)?;
        let mut calls = Vec::new();
        loop {
            match process.run_to_failing_call()? {
                Ok(call) => calls.push(call),
                Err(Did::Mark) => return Ok(calls),
                Err(did) => return Err(ended_by_itself(&place, did)),
            }
        }
    }

    /// Has a call fail: the one after so many, or none if there were no more. Which it was is known also when
    /// it comes to no good.
    fn one(
        &self,
        at: usize,
        way: usize,
        which: &mut Option<(SystemCall, usize)>,
    ) -> Result<Option<CameTo>, Why> {
        let place = self.steps.place("place")?;
        let Begun { company, mut process, holder } = self.begin(&place)?;
        for left in (0..=at).rev() {
            match process.run_to_failing_call()? {
                Ok(_) if left > 0 => {}
                Ok(call) => {
                    let way = way % call.ways();
                    process.fail_call(&call, way)?;
                    *which = Some((call, way));
                }
                Err(Did::Mark) => return Ok(None),
                Err(did) => return Err(ended_by_itself(&place, did)),
            }
        }
        for expected in [Did::Mark, Did::End(0)] {
            let did = match which {
                Some((first, way)) if self.on && expected == Did::Mark => fail_on(&mut process, first, *way)?,
                _ => process.run()?,
            };
            if did != expected {
                return Err(ended_by_itself(&place, did));
            }
        }
        if let Some(mut holder) = holder {
            holder.kill()?;
        }
        let came_to = CameTo::of(&std::fs::read_to_string(said_in(place.base()))?);
        let is_interrupted = which.as_ref().is_some_and(|(call, way)| call.is_interrupted(*way));
        if let (true, Some(refusal)) = (is_interrupted, &came_to.refusal) {
            return Err(Why::Wrong(format!("a signal in between is taken for an error: {refusal}")));
        }
        self.look_afterwards(company, place, &came_to)?;
        Ok(Some(came_to))
    }

    /// Has others go on: the process that was there, and the one that comes then.
    fn look_afterwards(&self, company: Company, place: Place, came_to: &CameTo) -> Result<(), Why> {
        let (possible, other) = (Arc::clone(&self.possible), self.steps.place("other")?);
        let may_be_set_aside = came_to.poisoned || matches!(self.steps.operation.act, Act::SetAside);
        let done = patiently(move || {
            match company {
                Company::Somebody(env) => leave_alone(env, &possible)
                    .map_err(|wrong| format!("who was there beside it: {wrong}"))?,
                // Its lock would keep others from opening what they find.
                nobody => drop(nobody),
            }
            let done = come_after(&place, &other, Left::Nobody, &possible)?;
            match place.set_aside().map_err(|error| error.to_string())? {
                Some(region) if !may_be_set_aside => Err(format!("{region} was set aside")),
                _ => Ok(done),
            }
        })?;
        if came_to.acknowledged && !done { Err(Why::Wrong(super::after::lost(true))) } else { Ok(()) }
    }
}

/// Works and closes, once no call fails any more; or closes, being told of poison.
fn leave_alone(env: Env, possible: &Possible) -> Result<(), String> {
    let poisoned = is_poisoned(&env)?;
    if !poisoned {
        go_on(&env, possible)?;
    }
    match env.close() {
        Err(error) if !poisoned => Err(format!("closing: {error}")),
        _ => Ok(()),
    }
}

/// Has all calls of a kind fail, to the next mark.
fn fail_on(process: &mut Stepped, first: &SystemCall, way: usize) -> Result<Did, Why> {
    loop {
        match process.run_to_failing_call()? {
            Ok(call) if call.is_like(first) => process.fail_call(&call, way)?,
            Ok(_) => {}
            Err(did) => return Ok(did),
        }
    }
}

/// Where a worker says what it has to say: beside its place, which is made anew.
fn said_in(base: &Path) -> PathBuf {
    base.with_extension("said")
}

fn ended_by_itself(place: &Place, did: Did) -> Why {
    let said = std::fs::read_to_string(said_in(place.base())).unwrap_or_default();
    Why::Wrong(format!("the process did not come to a good end ({did:?}): {}", said.trim_end()))
}

/// Whether an environment is poisoned, which must be said clearly.
fn is_poisoned(env: &Env) -> Result<bool, String> {
    match env.sync() {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == ErrorKind::Poisoned && is_clear(&error) => Ok(true),
        Err(error) => Err(format!("to sync: {:?}: {error}", error.kind())),
    }
}

/// Whether an error says what was tried on what, or what to do.
fn is_clear(error: &Error) -> bool {
    let message = error.to_string();
    let hints = [
        "open it again",
        "reopen",
        "close the environment",
        "must close it",
        "free",
        "room",
        "run it again",
        "try",
        "enlarge",
        "choose a smaller",
        "allow the process",
    ];
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
    fits && (message.contains('/') || hints.iter().any(|hint| message.contains(hint)))
}

/// What a process does of whose calls one fails between its marks; it tells its parent what came of it.
///
/// # Errors
/// What is wrong, in words.
pub fn work(base: &Path, operation: &Operation) -> Result<(), String> {
    if stepped::offer().is_err() {
        std::process::exit(stepped::NOT_PERMITTED);
    }
    stepped::set_alarm(PATIENCE.as_secs() as u32);
    let place = Place::of_another(base);
    let possible = operation.before_and_after().map_err(|error| error.to_string())?;
    let (env, acknowledged) = match operation.act {
        _ if operation.opens() => {
            stepped::mark();
            let opened = open_with(&place, operation.cache_bytes());
            stepped::mark();
            (again(opened, || open(&place))?, false)
        }
        Act::Close => {
            let env = open(&place).map_err(|error| error.to_string())?;
            operation.prepare(&env).map_err(|error| error.to_string())?;
            stepped::mark();
            let closed = env.close();
            stepped::mark();
            // Closed it is, whatever it said.
            let _ = refused(closed)?;
            (again(open(&place), || open(&place))?, false)
        }
        _ => {
            let env = open_with(&place, operation.cache_bytes()).map_err(|error| error.to_string())?;
            operation.prepare(&env).map_err(|error| error.to_string())?;
            stepped::mark();
            let did = act(operation, &env);
            stepped::mark();
            let acknowledged = settle(operation, &env, did, &possible)?;
            (Some(env), acknowledged)
        }
    };
    let Some(env) = env else {
        println!("{POISONED}");
        return Ok(());
    };
    let poisoned = is_poisoned(&env)?;
    if !poisoned {
        // It knows of a superblock that it could not read when it opened the environment.
        let done = go_on_but(&env, &possible, &|problem| problem.contains("it cannot be read"))?;
        if acknowledged && !done {
            return Err(super::after::lost(true));
        }
    }
    match env.close() {
        Err(error) if !poisoned || !is_clear(&error) => {
            return Err(format!("closing: {:?}: {error}", error.kind()));
        }
        _ => {}
    }
    if acknowledged {
        println!("{ACKNOWLEDGED}");
    }
    if poisoned {
        println!("{POISONED}");
    }
    Ok(())
}

/// Does an operation in an open environment.
fn act(operation: &Operation, env: &Env) -> sablecat::Result<()> {
    match operation.act {
        Act::Work(work) => work(env),
        Act::Checkpoint | Act::Succeed => env.checkpoint().map(drop),
        Act::Mend => env.keep_house(),
        _ => unreachable!("the others open or close"),
    }
}

/// Tells what the operation answered: its error, if that is what it is.
fn refused<T>(did: sablecat::Result<T>) -> Result<Result<T, ErrorKind>, String> {
    match did {
        Ok(done) => Ok(Ok(done)),
        Err(error) => {
            println!("{REFUSED}{:?}: {error}", error.kind());
            if is_clear(&error) {
                Ok(Err(error.kind()))
            } else {
                Err(format!("the error is not clear: {:?}: {error}", error.kind()))
            }
        }
    }
}

/// What was opened; or else what is opened now that no call fails. Nothing if it cannot be, as it is
/// poisoned.
fn again(
    opened: sablecat::Result<Env>,
    open: impl FnOnce() -> sablecat::Result<Env>,
) -> Result<Option<Env>, String> {
    if let Ok(env) = refused(opened)? {
        return Ok(Some(env));
    }
    match open() {
        Ok(env) => Ok(Some(env)),
        Err(error) if error.kind() == ErrorKind::Poisoned && is_clear(&error) => Ok(None),
        Err(error) => Err(format!("to open it again: {:?}: {error}", error.kind())),
    }
}

/// Holds what an operation answered against what there is, and does it again if it was refused. Whether it
/// was acknowledged, in the end.
fn settle(
    operation: &Operation,
    env: &Env,
    did: sablecat::Result<()>,
    possible: &Possible,
) -> Result<bool, String> {
    let Err(kind) = refused(did)? else { return Ok(operation.promises()) };
    if is_poisoned(env)? {
        return Ok(false);
    }
    let found = contents(env).map_err(|error| format!("reading: {error}"))?;
    let (before, after) = (found == possible[0], found == possible[1]);
    // What is visible and could not be made durable says so. Names take more than one commit.
    let may_be_done = kind == ErrorKind::NotDurable || operation.is_of_names();
    if !(before || after && may_be_done) {
        return Err(format!("it was refused with {kind:?}, and something is done"));
    }
    if before {
        act(operation, env).map_err(|error| format!("to do it again: {:?}: {error}", error.kind()))?;
    } else {
        env.sync().map_err(|error| format!("to make it durable: {:?}: {error}", error.kind()))?;
    }
    Ok(operation.promises())
}
