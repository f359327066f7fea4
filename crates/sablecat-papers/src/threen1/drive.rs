//! The parent: starts the workers, kills some if asked to, and waits until all integers are done.
//!
//! The parent does not have the environment open meanwhile: when all workers are killed nobody has, and those who follow find what
//! they had committed in the memory that they had shared.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::input::Line;
use super::store::Store;
use super::{Kills, check};
use crate::machine;

/// How often the workers are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(1);
const SIGKILL: i32 = 9;

/// What a line came to.
pub(super) struct Outcome {
    pub(super) total: super::store::Account,
    /// From the first worker's start until the last one has ended, its last checkpoint included.
    pub(super) seconds: f64,
    /// Processor time of all workers, those that were killed included.
    pub(super) cpu_seconds: f64,
    /// Workers killed.
    pub(super) kills: u64,
    pub(super) problems: Vec<String>,
}

/// Runs a line in a new environment in `dir`.
pub(super) fn run(line: &Line, dir: &Path, cache_bytes: u64, kills: &Kills, program: &[OsString]) -> Result<Outcome, String> {
    Store::open(dir, cache_bytes)?.close()?;
    let done = Arc::default();
    let mut crew = Crew { line, dir, cache_bytes, program, done, workers: Vec::new(), kills: 0, dice: 0x9e37_79b9_7f4a_7c15 };
    let (started, cpu) = (Instant::now(), machine::children_cpu_seconds());
    let ended = crew.run(kills, started);
    let (seconds, cpu_seconds) = (started.elapsed().as_secs_f64(), machine::children_cpu_seconds() - cpu);
    let kills = crew.kills;
    // Ends who is left, if something went wrong; then whoever opens and closes removes the shared memory.
    drop(crew);
    let store = Store::open(dir, cache_bytes)?;
    let checked = ended.and_then(|()| check::total(&store, line)).and_then(|total| Ok((total, check::problems(&store, line, &total)?)));
    store.close()?;
    let (total, problems) = checked?;
    Ok(Outcome { total, seconds, cpu_seconds, kills, problems })
}

/// The worker processes of a line.
struct Crew<'a> {
    line: &'a Line,
    dir: &'a Path,
    cache_bytes: u64,
    program: &'a [OsString],
    /// Integers done, as the workers say.
    done: Arc<AtomicU64>,
    /// By their numbers; none has done its part.
    workers: Vec<Option<Process>>,
    kills: u64,
    dice: u64,
}

impl Crew<'_> {
    fn run(&mut self, kills: &Kills, started: Instant) -> Result<(), String> {
        self.workers = (0..self.line.workers).map(|number| self.start(number).map(Some)).collect::<Result<_, _>>()?;
        let mut next_kill = kills.every.map(|every| started + every);
        let mut kill_all_at = kills.all_at_percent.map(|percent| u128::from(self.line.count()) * u128::from(percent) / 100);
        while self.is_anybody_at_work()? {
            if let (Some(at), Some(every)) = (next_kill, kills.every)
                && Instant::now() >= at
            {
                let victim = self.victim();
                self.kill(&[victim])?;
                next_kill = Some(Instant::now() + every);
            }
            // Relaxed: an estimate, since who is killed may have done more than it said.
            if kill_all_at.is_some_and(|at| u128::from(self.done.load(Ordering::Relaxed)) >= at) {
                kill_all_at = None;
                let all: Vec<usize> = (0..self.workers.len()).collect();
                self.kill(&all)?;
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn start(&self, number: u32) -> Result<Process, String> {
        let Crew { line: Line { start, finish, workers, block }, dir, cache_bytes, program, done, .. } = self;
        let (name, before) = program.split_first().ok_or("no program to run as a worker")?;
        let mut command = Command::new(name);
        command.args(before).arg(dir).args([number, *workers].map(|n| n.to_string()));
        command.args([start, finish, block, cache_bytes].map(u64::to_string));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot start a worker: {error}"))?;
        if let Some(says) = child.stdout.take() {
            let done = Arc::clone(done);
            // It ends with the worker.
            thread::spawn(move || {
                for said in BufReader::new(says).lines().map_while(Result::ok) {
                    // Relaxed: as where it is read. A line that a kill cut short counts for less than it should.
                    done.fetch_add(said.parse().unwrap_or(0), Ordering::Relaxed);
                }
            });
        }
        Ok(Process(child))
    }

    /// Forgets who has done its part; says whether anybody is left.
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

    /// One of those at work, of whom there are some.
    fn victim(&mut self) -> usize {
        let at_work: Vec<usize> = (0..self.workers.len()).filter(|&number| self.workers[number].is_some()).collect();
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

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing to do for one that has ended, which is the usual case.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
