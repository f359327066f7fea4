//! Steps: a process that dies after any instruction.
//!
//! ```text
//! at.rs         moments of an operation
//! after.rs      what survivors find at each
//! failing.rs    one of its system calls fails instead
//! opening.rs    how an environment is opened
//! operation.rs  what is done, and what there is before
//! state.rs      the shared bytes of an environment: comparing and copying them
//! worker.rs     the process that is stepped
//! survivor.rs   the process that comes after it
//! report.rs     what it came to
//! ```
//!
//! A process does one operation, one instruction at a time. Whenever an instruction has changed anything that
//! processes share, region or file, all of it is copied. In the copy nobody holds a lock, so the process is
//! dead there. A survivor enters where it seems that somebody else lives, and mends what the dead left;
//! another where nobody does, and recovers; a third has the files alone, as after a failure of the machine
//! that loses no write. (What one does that loses writes is the business of [`crash`](crate::crash).) Each
//! works, and looks at everything. It must find the operation done or not done, whole; done if a survivor of
//! an earlier moment found it so; and done if the process had said that it was. Instructions that change
//! nothing shared need no survivors: what these would find is the same.
//!
//! Then some of the deaths are repeated in earnest: the process is killed there, and the survivor is one that
//! was there before. Another time the process is not killed there but stopped: unless it is seen to hold
//! something, the one beside it must be able to do all of its work meanwhile.

mod after;
mod at;
pub mod failing;
mod opening;
mod operation;
mod report;
pub(crate) mod state;
mod survivor;
mod worker;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use sablecat::{Env, Journal};
use sablecat_os::check::stepped::{Did, Stepped, is_possible};
use sablecat_os::liveness::LockFile;

use crate::course::Course;
use crate::dice::Dice;
use crate::{method, stored};
use after::{After, lost};
use at::At;
use opening::{EPOCHS, builder, open};
use operation::Act;
pub use operation::{OPERATIONS, Operation, named};
pub use report::{Report, Why};
use state::{Place, State, Watch};
use survivor::{Left, Possible, attend, come_after, go_on, patiently};
pub use worker::work;

/// A process that is to be succeeded is stopped at most so many instructions behind a call.
const HOLDER_STEPS: u64 = 1500;
/// So many moments are looked at for one at which it holds nothing.
const HOLDERS_TRIED: u64 = 100;
/// A process that is to be mended dies at one of so many changes after some instruction.
const CHANGES_PASSED: u64 = 20;
/// An operation that takes more instructions never ends.
const STEPS_MAX: u64 = 50_000_000;

/// An operation to be stepped through.
#[derive(Clone, Debug)]
pub struct Steps {
    /// Where the environments are made; removed afterwards.
    pub directory: PathBuf,
    /// What is stepped through.
    pub operation: &'static Operation,
    /// The process may die after every so many instructions.
    pub every: u64,
    /// The number of the first of these instructions, and chance.
    pub from: u64,
    /// None of the first so many steps are looked at: they have been.
    pub after: u64,
    /// Instead of after instructions it may die before and after system calls, and `every` counts these: for
    /// long operations.
    pub calls: bool,
    /// How many of the deaths to repeat in earnest, and then to stop the process there instead; all, if there
    /// are fewer.
    pub kills: u64,
    /// Nobody dies: the process is stopped at each of these moments, in earnest, and goes on when others have
    /// worked.
    pub stop: bool,
    /// The environment keeps a journal, with epochs.
    pub journal: bool,
}

impl Steps {
    /// Steps through the operation, until the end of the course.
    ///
    /// # Errors
    /// What is wrong, and after which instruction; or that processes cannot be stepped here.
    pub fn run(&self, course: &Course) -> Result<Report, Why> {
        if !is_possible() {
            return Err(Why::NotPermitted);
        }
        let ran = self.run_in_directory(course);
        let _ = std::fs::remove_dir(&self.directory);
        ran
    }

    fn run_in_directory(&self, course: &Course) -> Result<Report, Why> {
        let name = self.operation.name;
        course.tell(&format_args!("{name}: what is there before"));
        let start = self.start()?;
        let start = Start { victim: self.victim(&start)?, holder: self.holder(&start)?, state: start };
        let possible = Arc::new(self.operation.before_and_after()?);
        let mut report = Report::default();
        let mut deaths = self.step_through(&start, &possible, &mut report, course)?;
        if self.stop {
            // Those that were not come to are not known, and those that were are not yet done.
            let mut last = self.after;
            report.cut_after = report.cut_after.map(|_| last);
            let places = deaths.len();
            for (n, at) in deaths.into_iter().enumerate() {
                if course.is_over() {
                    report.cut_after = Some(last);
                    break;
                }
                course.tell(&format_args!(
                    "{name}: stopped after step {at} of {}, {n} times of {places}",
                    report.steps
                ));
                self.count_stop(
                    self.stop_at(&start, &possible, at).map_err(|why| at_step(at, why))?,
                    &mut report,
                );
                last = at.step;
            }
            return Ok(report);
        }
        Dice::new(self.from).shuffle(&mut deaths);
        for at in deaths.into_iter().take(self.kills as usize) {
            if course.is_over() {
                break;
            }
            course.tell(&format_args!(
                "{name}: killed after step {at} of {}, {} times of {}",
                report.steps, report.kills, self.kills
            ));
            self.kill_at(&start, &possible, at).map_err(|why| at_step(at, why))?;
            report.kills += 1;
            self.count_stop(
                self.stop_at(&start, &possible, at).map_err(|why| at_step(at, why))?,
                &mut report,
            );
        }
        Ok(report)
    }

    fn place(&self, name: &str) -> std::io::Result<Place> {
        Place::new(self.directory.join(name))
    }

    /// What there is before the process begins: as if all processes that made it had been killed.
    fn start(&self) -> Result<State, Why> {
        let place = self.place("start")?;
        if let Act::Create = self.operation.act {
            return Ok(State::of(&place)?);
        }
        let builder =
            builder(&place, self.operation.cache_bytes()).log_segment_size(self.operation.segment_bytes());
        let builder = if self.journal { builder.journal(Journal::new().epochs(EPOCHS)) } else { builder };
        let env = builder.open(place.environment())?;
        self.operation.fill(&env)?;
        if self.journal {
            // The oldest epoch has been let go of.
            (0..=EPOCHS).try_for_each(|_| env.checkpoint().and_then(|_| survivor::work(&env)))?;
        }
        let filled = State::of(&place)?;
        if let Act::SetAside = self.operation.act {
            // The files were closed without that region.
            env.close()?;
            return Ok(State::of(&place)?.with_memory_of(&filled));
        }
        drop(env);
        if self.stop || !matches!(self.operation.act, Act::Reap | Act::Rescue) {
            return Ok(filled);
        }
        // In the middle of a commit.
        let begin = || {
            filled.put(&place, true)?;
            Ok(((), started(&mut worker(&place, "commit")?)?))
        };
        Ok(self.somewhere_in_a_commit(&place, begin)?.1)
    }

    /// After how many steps of a commit something was just changed that processes share, and what there is
    /// then. That hangs on `from`: it is one of the next changes after some step. To look for all of them
    /// after each step takes many times as long.
    fn somewhere_in_a_commit<T>(
        &self,
        place: &Place,
        begin: impl Fn() -> Result<(T, Stepped), Why>,
    ) -> Result<(u64, State), Why> {
        let mut dice = Dice::new(self.from);
        let (company, mut victim) = begin()?;
        let mut all = 0;
        while victim.step()? == Did::Step {
            all += 1;
        }
        drop((company, victim));
        let (first, mut left) = (dice.below(all), dice.below(CHANGES_PASSED));
        let (_company, mut victim) = begin()?;
        run_to(&mut victim, (0, first))?;
        let (mut steps, mut watch) = (first, Watch::begin(place)?);
        // The end is another such place.
        while victim.step()? == Did::Step {
            steps += 1;
            if !watch.is_still_so()? {
                watch = Watch::begin(place)?;
                if left == 0 {
                    break;
                }
                left -= 1;
            }
        }
        Ok((steps, watch.into_state()))
    }

    /// After how many steps another is killed in the middle of a commit, beside a process that lives, for the
    /// process to mend what the killed one left: at a state that hangs on `from`.
    fn victim(&self, start: &State) -> Result<Option<u64>, Why> {
        match self.operation.act {
            Act::Mend => {}
            Act::Reap if self.stop => {}
            _ => return Ok(None),
        }
        let place = self.place("start")?;
        let begin = || {
            start.put(&place, true)?;
            let company = open(&place)?;
            Ok((company, started(&mut worker(&place, "commit")?)?))
        };
        Ok(Some(self.somewhere_in_a_commit(&place, begin)?.0))
    }

    /// Where another is stopped in a checkpoint for the process to succeed it: after how many beginnings and
    /// ends of calls, and how many instructions more. That hangs on `from`. It holds nothing there that
    /// others have to wait for.
    fn holder(&self, start: &State) -> Result<Option<(u64, u64)>, Why> {
        if !matches!(self.operation.act, Act::Succeed) {
            return Ok(None);
        }
        let place = self.place("start")?;
        let begin = || {
            start.put(&place, true)?;
            let company = open(&place)?;
            Ok::<_, Why>((company, started(&mut worker(&place, "checkpoint")?)?))
        };
        let may_be_succeeded = |company: &Env| {
            let participants: Vec<_> =
                company.processes().into_iter().flat_map(|process| process.participants).collect();
            participants.iter().any(|one| one.roles.contains(&"checkpoint"))
                && !participants.iter().any(|one| self.holds(one))
        };
        let (company, mut process) = begin()?;
        let (mut calls, mut places) = (0, Vec::new());
        while process.step_to_call()? == Did::Step {
            calls += 1;
            if may_be_succeeded(&company) {
                places.push(calls);
            }
        }
        drop((company, process));
        let mut dice = Dice::new(self.from);
        for _ in 0..HOLDERS_TRIED {
            let holder = (places[dice.index(places.len())], dice.below(HOLDER_STEPS));
            let (company, mut process) = begin()?;
            if run_to(&mut process, holder)? && may_be_succeeded(&company) {
                return Ok(Some(holder));
            }
        }
        Err(Why::Wrong("nobody can be succeeded".to_owned()))
    }

    /// Starts the process in `place`, with or without company; a process that is to be reaped has no living
    /// company but one that does nothing, unless a process is to be held up.
    fn begin(&self, start: &Start, place: &Place, process: &mut Command) -> Result<Begun, Why> {
        start.state.put(place, !matches!(self.operation.act, Act::Recover))?;
        let company = match (self.operation.act, start.victim) {
            (Act::Reap, Some(steps)) => {
                let env = open(place)?;
                kill_in_a_commit(place, steps)?;
                Company::Somebody(env)
            }
            (Act::Reap, None) => Company::Nobody(attend(place)?),
            _ if self.operation.in_company => Company::Somebody(open(place)?),
            _ => Company::None,
        };
        let holder = match start.holder {
            Some(holder) => {
                let mut process = started(&mut worker(place, "checkpoint")?)?;
                run_to(&mut process, holder)?;
                Some(process)
            }
            None => None,
        };
        let process = started(process)?;
        if let (Act::Mend, Some(steps)) = (self.operation.act, start.victim) {
            kill_in_a_commit(place, steps)?;
        }
        Ok(Begun { company, process, holder })
    }

    fn step(&self, process: &mut Stepped) -> std::io::Result<Did> {
        if self.calls { process.step_to_call() } else { process.step() }
    }

    /// Lets the process run to a moment. False if the operation is over before.
    fn go_to(&self, process: &mut Stepped, at: At) -> std::io::Result<bool> {
        let (calls, steps) = if self.calls { (at.step, 0) } else { (2 * at.calls, at.since) };
        run_to(process, (calls, steps))
    }

    /// Steps the process through the whole operation, with a survivor for each state. After which steps there
    /// was another state.
    fn step_through(
        &self,
        start: &Start,
        possible: &Arc<Possible>,
        report: &mut Report,
        course: &Course,
    ) -> Result<Vec<At>, Why> {
        let place = self.place("place")?;
        let Begun { company: _company, mut process, holder: _holder } =
            self.begin(start, &place, &mut worker(&place, self.operation.name)?)?;
        let copies = Arc::new([self.place("copy")?, self.place("other")?]);
        let mut after = After { copies, possible: Arc::clone(possible), done: false, done_in_files: false };
        let mut watch: Option<Watch<'_>> = None;
        let mut deaths = Vec::new();
        let mut moment = At::default();
        loop {
            let is_call = !self.calls && process.is_before_call()?;
            let did = self.step(&mut process)?;
            if did == Did::Step {
                moment.pass(is_call);
            }
            let at = moment.step;
            report.steps = at;
            if at > STEPS_MAX {
                return Err(Why::Wrong("it does not end".to_owned()));
            }
            course.tell(&format_args!("{}: step {at}, {} states", self.operation.name, report.states));
            if course.is_over() {
                report.cut_after = Some(at.saturating_sub(1).max(self.after));
                return Ok(deaths);
            }
            let ended = did != Did::Step;
            // Nothing of ours changes in the vDSO, which would not end if so long a look came between its
            // looks at the clock.
            if !ended
                && (at <= self.after
                    || !(at + self.from).is_multiple_of(self.every)
                    || process.is_in_vdso()?)
            {
                continue;
            }
            let known = match &watch {
                Some(watch) => watch.is_still_so()?,
                None => false,
            };
            if !known || ended {
                let now = Watch::begin(&place)?;
                let promised = ended && self.operation.promises();
                if self.stop {
                    report.states += 1;
                } else {
                    after.look(now.state(), report, promised).map_err(|why| at_step(moment, why))?;
                }
                deaths.push(moment);
                watch = Some(now);
            }
            match did {
                Did::Step => {}
                Did::Mark => return Ok(deaths),
                Did::End(status) => {
                    return Err(Why::Wrong(format!("the process ended by itself, with status {status:#x}")));
                }
            }
        }
    }

    /// Kills the process at a moment. The survivor is the process that was there with it, if one was.
    fn kill_at(&self, start: &Start, possible: &Arc<Possible>, at: At) -> Result<(), Why> {
        let place = self.place("place")?;
        let Begun { mut company, mut process, holder } =
            self.begin(start, &place, &mut worker(&place, self.operation.name)?)?;
        self.go_to(&mut process, at)?;
        process.kill()?;
        if let (Company::Somebody(env), Some(mut holder)) = (&company, holder) {
            let (env, possible) = (env.clone(), Arc::clone(possible));
            patiently(move || {
                go_on(&env, &possible).map_err(|wrong| format!("beside who was to be succeeded: {wrong}"))
            })?;
            let_go_on(&mut holder)?;
        }
        let (possible, other) = (Arc::clone(possible), self.place("other")?);
        patiently(move || {
            match std::mem::replace(&mut company, Company::None) {
                Company::Somebody(env) => {
                    go_on(&env, &possible)?;
                    // Of this process, which was there before: nothing is recovered.
                    survivor::give_back(&env)?;
                    env.close().map_err(|error| format!("closing: {error}"))?;
                }
                // Its lock would keep the survivor from opening alone what it has closed.
                nobody => drop(nobody),
            }
            come_after(&place, &other, Left::Nobody, &possible)
        })?;
        Ok(())
    }

    /// Stops the process at a moment; if it holds nothing, the process that is there with it works meanwhile.
    /// Then the process goes on to its end.
    fn stop_at(&self, start: &Start, possible: &Arc<Possible>, at: At) -> Result<Stopped, Why> {
        let place = self.place("place")?;
        let begun = self.begin(start, &place, &mut worker(&place, self.operation.name)?)?;
        let Begun { company: Company::Somebody(company), mut process, holder } = begun else {
            return Ok(Stopped::Waited);
        };
        if !self.go_to(&mut process, at)? {
            return Ok(Stopped::Waited);
        }
        let others: Vec<_> = company.processes().into_iter().filter(|other| !other.asking).collect();
        if self.operation.promises() && !others.iter().any(|other| other.alive) {
            return Err(Why::Wrong(format!("a process that is stopped is not shown as alive: {others:?}")));
        }
        let participants = || others.iter().filter(|other| other.alive).flat_map(|other| &other.participants);
        let mut idle = !participants().any(|one| self.holds(one));
        if idle {
            let beside = company.clone();
            let (log, several) = (self.operation.log_used_beside(), holder.is_some());
            let work = move || survivor::work_beside_the_stopped(&beside, log, several);
            idle = patiently(move || {
                work().map_err(|error| format!("beside a process that is stopped: {error}"))
            })
            .map_err(|wrong| format!("{wrong}; stopped are {others:?}"))?;
        }
        let stopped = match idle {
            false => Stopped::Waited,
            true if participants().any(|one| !one.roles.is_empty()) => Stopped::PassedOn,
            true => Stopped::Idle,
        };
        let mut late: Vec<_> = std::iter::once(process).chain(holder).collect();
        if idle {
            // Otherwise the first may hold what the other waits for.
            Dice::new(self.from ^ at.step).shuffle(&mut late);
        }
        late.iter_mut().try_for_each(let_go_on)?;
        let (possible, other) = (Arc::clone(possible), self.place("other")?);
        let done = patiently(move || {
            if idle {
                survivor::look_for_mark(&company, &place, &other, &possible)?;
            }
            go_on(&company, &possible)?;
            company.close().map_err(|error| format!("closing: {error}"))?;
            come_after(&place, &other, Left::Nobody, &possible)
        })?;
        if done || !self.operation.promises() { Ok(stopped) } else { Err(Why::Wrong(lost(true))) }
    }

    fn count_stop(&self, stopped: Stopped, report: &mut Report) {
        report.stops += u64::from(stopped != Stopped::Waited);
        report.passed_on += u64::from(stopped == Stopped::PassedOn);
    }

    /// Whether a stopped process has what others may have to wait for.
    fn holds(&self, one: &sablecat::Participant) -> bool {
        one.pages_latched + one.record_locks > 0
            || one.roles.iter().any(|role| !self.operation.passed_on.contains(role))
    }
}

/// What there is before the process begins.
struct Start {
    state: State,
    /// After how many steps another is killed there in the middle of a commit, if one is.
    victim: Option<u64>,
    /// Where another is stopped in a checkpoint, if one is.
    holder: Option<(u64, u64)>,
}

/// The processes that have begun.
struct Begun {
    company: Company,
    process: Stepped,
    /// The process that is stopped in a checkpoint, if one is.
    holder: Option<Stepped>,
}

/// What is there beside the process that is stepped.
enum Company {
    /// Nobody.
    None,
    /// A process that seems to live, and is none.
    Nobody(#[expect(dead_code, reason = "held for its lock")] LockFile),
    /// A process that has the environment open.
    Somebody(Env),
}

/// What others did while a process was stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stopped {
    /// Nothing: it held what they may have to wait for.
    Waited,
    /// Their work.
    Idle,
    /// Their work, and they took over what it had the role for.
    PassedOn,
}

/// A process that does an operation in a place.
fn worker(place: &Place, operation: &str) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(method::words()).args(stored::words()).arg("steps-worker").arg(place.base()).arg(operation);
    Ok(command)
}

fn started(command: &mut Command) -> Result<Stepped, Why> {
    // In a group of its own: a user that ends the run at the terminal does not end the step in hand.
    Ok(Stepped::start(command.stdin(Stdio::null()).process_group(0))?)
}

/// Has another process die in the middle of a commit, or at the end of that: it may take some instructions
/// less than when they were counted.
fn kill_in_a_commit(place: &Place, steps: u64) -> Result<(), Why> {
    let mut victim = started(&mut worker(place, "commit")?)?;
    for _ in 0..steps {
        match victim.step()? {
            Did::Step => {}
            Did::Mark => break,
            Did::End(status) => {
                return Err(Why::Wrong(format!("whoever is to be killed has ended by itself: {status}")));
            }
        }
    }
    Ok(victim.kill()?)
}

/// Lets a process run to so many beginnings and ends of calls, and so many instructions more. False if it
/// comes to a mark before.
fn run_to(process: &mut Stepped, (calls, steps): (u64, u64)) -> std::io::Result<bool> {
    for _ in 0..calls {
        if process.step_to_call()? != Did::Step {
            return Ok(false);
        }
    }
    for _ in 0..steps {
        if process.step()? != Did::Step {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lets a stopped process go on to the end of what it does; then it is killed.
fn let_go_on(process: &mut Stepped) -> Result<(), Why> {
    match process.run()? {
        Did::Mark => Ok(process.kill()?),
        did => Err(Why::Wrong(format!(
            "the process, let go on, did not come to the end of the operation: {did:?}"
        ))),
    }
}

fn at_step(at: At, why: impl Into<Why>) -> Why {
    match why.into() {
        Why::Wrong(wrong) => Why::Wrong(format!("after step {at}: {wrong}")),
        other => other,
    }
}
