//! The parent: starts the workers of a system, kills some if asked to, and waits until all integers are done.
//!
//! The parent does not have the database open meanwhile: when all workers are killed nobody has, and the
//! workers that follow find what those had committed in the memory that they had shared.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sablecat_os::interrupt;

use super::Kills;
use super::check::Table;
use super::input::Line;
use super::store::Account;
use super::system::System;
use crate::{machine, patience};

/// How often the workers are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long a worker that is told to end may take to put things in order.
const PATIENCE: Duration = Duration::from_secs(5);
/// For each integer of a line, on top of what everything has: two stores, each flushed by a slow disk.
const AN_INTEGER: Duration = Duration::from_millis(5);
const SIGKILL: i32 = 9;

/// What a run of a line came to.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) total: Account,
    /// From the first worker's start until the last one has ended, its last checkpoint included.
    pub(super) seconds: f64,
    /// Processor time of all workers, those that were killed included.
    pub(super) cpu_seconds: f64,
    /// Workers killed.
    pub(super) kills: u64,
    pub(super) problems: Vec<String>,
}

/// Runs a line on a new database in `dir`, which is removed afterwards.
///
/// # Errors
/// A sentence, when something could not be done, a worker fails, or this process is asked to end.
pub(super) fn run(
    system: &dyn System,
    line: &Line,
    expected: &Table,
    dir: &Path,
    kills: &Kills,
) -> Result<Outcome, String> {
    let limit = patience::LEAST + AN_INTEGER.saturating_mul(u32::try_from(line.count()).unwrap_or(u32::MAX));
    let outcome =
        system.create(dir, line).and_then(|()| run_created(system, line, expected, dir, (kills, limit)));
    if outcome.is_err() {
        system.abandon(dir);
    }
    // What could not be cleared away is in a directory that will be removed as a whole.
    let _ = fs::remove_dir_all(dir);
    outcome
}

fn run_created(
    system: &dyn System,
    line: &Line,
    expected: &Table,
    dir: &Path,
    (kills, limit): (&Kills, Duration),
) -> Result<Outcome, String> {
    let mut crew = Crew::new(system, line, dir, limit);
    let (started, cpu) = (Instant::now(), machine::children_cpu_seconds());
    crew.run(kills, started)?;
    let (seconds, cpu_seconds) = (started.elapsed().as_secs_f64(), machine::children_cpu_seconds() - cpu);
    let results = system.results(dir, line)?;
    Ok(Outcome {
        total: results.total,
        seconds,
        cpu_seconds,
        kills: crew.kills,
        problems: results.problems(line, expected, crew.kills),
    })
}

/// The worker processes of a line.
struct Crew<'a> {
    system: &'a dyn System,
    line: &'a Line,
    dir: &'a Path,
    /// Integers done, as the workers say.
    done: Arc<AtomicU64>,
    /// How long there may be nothing more that is done.
    limit: Duration,
    /// By their numbers; none has done its part.
    workers: Vec<Option<Process>>,
    kills: u64,
    dice: u64,
}

impl<'a> Crew<'a> {
    fn new(system: &'a dyn System, line: &'a Line, dir: &'a Path, limit: Duration) -> Crew<'a> {
        let (done, dice) = (Arc::default(), 0x9e37_79b9_7f4a_7c15);
        Crew { system, line, dir, done, limit, workers: Vec::new(), kills: 0, dice }
    }

    fn run(&mut self, kills: &Kills, started: Instant) -> Result<(), String> {
        self.workers =
            (0..self.line.workers).map(|number| self.start(number).map(Some)).collect::<Result<_, _>>()?;
        let mut next_kill = kills.every.map(|every| started + every);
        let mut done_at_kill = 0;
        let mut kill_all_at =
            kills.all_at_percent.map(|percent| u128::from(self.line.count()) * u128::from(percent) / 100);
        // When somebody has last said to have done more. Systems whose workers say nothing have the same time
        // for all of it.
        let mut seen = (started, 0);
        while self.is_anybody_at_work()? {
            if interrupt::is_asked() {
                return Err("interrupted".to_owned());
            }
            // Not before somebody has done more: if all were killed sooner than they can recover the
            // database, none would ever come further.
            let done = self.done.load(Ordering::Relaxed);
            if done > seen.1 {
                seen = (Instant::now(), done);
            } else if seen.0.elapsed() > self.limit {
                let workers = self.workers.iter().flatten().count();
                return Err(format!(
                    "the {workers} workers that are left have done nothing more for {}, and were ended",
                    patience::told(self.limit)
                ));
            }
            if let (Some(at), Some(every)) = (next_kill, kills.every)
                && Instant::now() >= at
                && done > done_at_kill
            {
                done_at_kill = done;
                let victim = self.victim();
                self.kill(&[victim])?;
                next_kill = Some(Instant::now() + every);
            }
            // An estimate, since a killed worker may have done more than it said.
            if kill_all_at.is_some_and(|at| u128::from(done) >= at) {
                kill_all_at = None;
                let all: Vec<usize> = (0..self.workers.len()).collect();
                self.kill(&all)?;
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn start(&self, number: u32) -> Result<Process, String> {
        let mut command = self.system.worker(self.dir, self.line, number)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot start a worker: {error}"))?;
        if let Some(says) = child.stdout.take() {
            let done = Arc::clone(&self.done);
            // It ends with the worker.
            thread::spawn(move || {
                for said in BufReader::new(says).lines().map_while(Result::ok) {
                    // Relaxed: as where it is read. A line that a kill cut short counts for less than it
                    // should.
                    done.fetch_add(said.parse().unwrap_or(0), Ordering::Relaxed);
                }
            });
        }
        Ok(Process(child))
    }

    /// Forgets workers that have done their part; says whether any is left.
    fn is_anybody_at_work(&mut self) -> Result<bool, String> {
        for (number, worker) in self.workers.iter_mut().enumerate() {
            let Some(process) = worker else { continue };
            match process.0.try_wait().map_err(|error| format!("waiting for worker {number}: {error}"))? {
                None => {}
                Some(status) if status.success() => *worker = None,
                Some(status) => return Err(failed(number, status)),
            }
        }
        Ok(self.workers.iter().any(Option::is_some))
    }

    /// One of the workers at work; there are some.
    fn victim(&mut self) -> usize {
        let at_work: Vec<usize> =
            (0..self.workers.len()).filter(|&number| self.workers[number].is_some()).collect();
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        at_work[(self.dice % at_work.len() as u64) as usize]
    }

    /// Kills workers, all before any new one is started; the new ones go on where they were.
    fn kill(&mut self, numbers: &[usize]) -> Result<(), String> {
        let io = |error| format!("killing a worker: {error}");
        for &number in numbers {
            if let Some(process) = &mut self.workers[number] {
                process.0.kill().map_err(io)?;
            }
        }
        let mut killed = Vec::new();
        for &number in numbers {
            let Some(mut process) = self.workers[number].take() else { continue };
            let status = process.0.wait().map_err(io)?;
            match status.signal() {
                Some(SIGKILL) => killed.push(number),
                // It was faster.
                _ if status.success() => {}
                _ => return Err(failed(number, status)),
            }
        }
        self.kills += killed.len() as u64;
        for number in killed {
            self.workers[number] = Some(self.start(number as u32)?);
        }
        Ok(())
    }
}

fn failed(number: usize, status: ExitStatus) -> String {
    format!("worker {number} failed: {status}")
}

/// A worker process, which does not outlive its parent's interest.
struct Process(Child);

impl Process {
    fn has_ended(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|status| status.is_some())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing to do for one that has ended, which is the usual case.
        if self.has_ended() {
            return;
        }
        // Told, not killed: there are systems whose processes then leave their database in order.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let told = Instant::now();
        while !self.has_ended() && told.elapsed() < PATIENCE {
            thread::sleep(LOOK_EVERY);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;
    use crate::threen1::check::Results;
    use std::process::Command;

    /// Its workers are shell scripts.
    struct Scripts(&'static str);

    impl System for Scripts {
        fn name(&self) -> &'static str {
            "scripts"
        }
        fn options(&self) -> &'static str {
            ""
        }
        fn durability(&self) -> &'static str {
            ""
        }
        fn create(&self, dir: &Path, _: &Line) -> Result<(), String> {
            fs::create_dir(dir).map_err(|error| error.to_string())
        }
        fn worker(&self, _: &Path, _: &Line, number: u32) -> Result<Command, String> {
            let mut command = Command::new("sh");
            command.args(["-c", self.0, &number.to_string()]);
            Ok(command)
        }
        fn results(&self, _: &Path, _: &Line) -> Result<Results, String> {
            Err("all have ended".to_owned())
        }
        fn abandon(&self, _: &Path) {}
    }

    #[test]
    fn workers_that_hang_are_ended_and_told_of() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let line = Line { start: 1, finish: 10, workers: 2, block: 1 };
        let run = |script, limit| {
            Crew::new(&Scripts(script), &line, place.path(), limit).run(&Kills::default(), Instant::now())
        };
        let hanging = run("exec sleep 1000", Duration::from_millis(20)).unwrap_err();
        assert_eq!(hanging, "the 2 workers that are left have done nothing more for 20 ms, and were ended");
        assert_eq!(run("echo 5", Duration::from_secs(600)), Ok(()));
    }
}
