//! Storms: processes that share an environment, killed and stopped at any moment, whose calls of the disk may
//! fail.
//!
//! ```text
//! plan.rs       what the n-th commit of a worker changes
//! failing.rs    a disk whose calls fail at random
//! registers.rs  records that all workers read and write at once
//! worker.rs     commits, checkpoints, reads, until killed
//! said.rs       what workers acknowledge, and what must be found then
//! seen.rs       what a look at the whole environment finds
//! processes.rs  starting, stopping and killing workers, and hearing what they say
//! ```
//!
//! A storm goes over lives of an environment: each begins when nobody has it open, and ends when nobody has
//! it any more, because all were killed or have closed it. The parent has it open as well, but does no work
//! in it, and none of its calls fails: it looks for workers to kill, and checks. A worker's records follow
//! from how many commits it has made, a number that is changed in each of them, so what is there is checked
//! to the byte: no commit that was acknowledged is missing, and none is there in part.
//!
//! Beside its commits each worker reads and writes registers that are everybody's. When a life has ended
//! there must be an order of all their calls that agrees with what they saw and with the clock, calls of
//! killed processes in doubt included.
//!
//! If calls fail, somebody may poison the environment. Then everybody must be told before long, whatever was
//! handed over to the system must be there when all have left, and opening it again, without failing calls,
//! must be enough to go on. Killed processes lose nothing that was written, so nobody may claim that
//! something is gone because a flush failed.

mod failing;
mod plan;
mod processes;
mod registers;
mod said;
mod seen;
mod worker;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sablecat::{Builder, Durability, EncryptionKey, Env, Error, ErrorKind, Journal, Place, Target};
use sablecat_os::disk::between::Between;

use crate::dice::Dice;
use crate::order::{self, Call};
use crate::{method, stored};
use plan::Expected;
use processes::Worker;
use said::{Memory, Said};
use seen::Seen;
pub use worker::work;

/// Nobody commits for so long, or somebody does not leave: then something holds everybody up.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a page, unless it is compressed.
const PAGE_BYTES: usize = 4096;
/// How often to look for somebody in the role aimed at before anybody is killed.
const LOOKS: u32 = 300;
/// How often to try a check beside the workers before they are killed for it.
const CHECKS: u32 = 5;
const KILLS_PER_CHECK: u64 = 25;
/// Kills in a life of the environment, at most.
const KILLS_PER_LIFE: u64 = 200;
/// With so many processes another dies each time; with twice as many, two others.
const PROCESSES_PER_KILL: usize = 16;
/// Commits of each worker between two kills, at most.
const COMMITS_PER_KILL: u64 = 10;

/// A storm to be.
#[derive(Clone, Debug)]
pub struct Storm {
    /// Where the environment is; removed before and after. Where its memory is, beside others' in `/dev/shm`,
    /// is named after it.
    pub directory: PathBuf,
    /// Workers at a time, at most 255.
    pub processes: u64,
    /// Commits to be acknowledged before it ends.
    pub commits: u64,
    /// Bytes of cache.
    pub cache: u64,
    /// Chance.
    pub seed: u64,
    /// Of the workers' calls of the disk so many in a million fail.
    pub faults: u64,
    /// The role of the worker that is to be killed; none: any worker.
    pub aim: Option<&'static str>,
}

impl Storm {
    /// The roles that can be aimed at, as [`Env::processes`] names them.
    pub const AIMS: [&'static str; 5] = ["housekeeping", "reaping", "checkpoint", "commit", "serial"];

    /// Opens it: on a disk of which calls fail for a worker, on the machine's for the parent, which looks on.
    fn open(&self, disk: Option<Between>) -> sablecat::Result<Env> {
        let volumes: &[&str] = if self.has_volume() { &["one"] } else { &[] };
        let builder = self.encrypted(stored::compressed(method::builder(), PAGE_BYTES, volumes));
        let builder = if self.keeps_journal() { builder.journal(Journal::new().epochs(3)) } else { builder };
        let builder = if self.has_volume() {
            builder.volume("one", "one.db").place(Place::database("accounts"), "one")
        } else {
            builder
        };
        let builder = builder.background(disk.is_some());
        let builder = if let Some(disk) = disk { builder.disk(Arc::new(disk)) } else { builder };
        builder
            .shared(true)
            .cache_size(self.cache)
            .log_segment_size(1 << 20)
            .log_buffer_size(1 << 20)
            .checkpoint_log_size(4 << 20)
            .durability(Durability::NoSync)
            .region_directory(self.regions())
            .open(&self.directory)
    }

    fn regions(&self) -> PathBuf {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let name = self.directory.file_name().unwrap_or_default().to_string_lossy();
        base.join(format!("{name}-memory"))
    }

    /// Which memory the processes share that have the environment open. The number is no other's while this
    /// storm goes on.
    fn memory(&self) -> Result<Memory, String> {
        let text = |error: std::io::Error| format!("looking for the shared memory: {error}");
        let directory = std::fs::metadata(&self.directory).map_err(text)?;
        let name = format!("sablecat-{:x}-{:x}", directory.dev(), directory.ino());
        std::fs::metadata(self.regions().join(name)).map(|region| region.ino()).map_err(text)
    }

    /// Whether the memory of somebody's was set aside; it is gone then.
    fn was_set_aside(&self) -> Result<bool, String> {
        let regions = self.regions();
        let text = |error: std::io::Error| format!("{}: {error}", regions.display());
        let mut found = false;
        for entry in std::fs::read_dir(&regions).map_err(text)? {
            let path = entry.map_err(text)?.path();
            if path.extension().is_some_and(|extension| extension == "aside") {
                std::fs::remove_file(&path).map_err(text)?;
                found = true;
            }
        }
        Ok(found)
    }

    /// Every third storm goes over an environment of two volumes, across which money is moved.
    fn has_volume(&self) -> bool {
        self.seed.is_multiple_of(3)
    }

    /// Two of four storms go over an environment that is encrypted, of which keys are added; all if that is
    /// asked for.
    fn is_encrypted(&self) -> bool {
        self.seed % 4 >= 2 || stored::is_encrypted()
    }

    fn encrypted(&self, builder: Builder) -> Builder {
        if self.is_encrypted() {
            builder.encryption_key(EncryptionKey::from_bytes(&[self.seed as u8; 32]))
        } else {
            builder
        }
    }

    /// Every other storm goes over an environment with a journal.
    fn keeps_journal(&self) -> bool {
        self.seed % 2 == 1
    }

    /// That the journal has all of the log since the oldest epoch, and that it can be gone back to.
    fn check_journal(&self) -> Result<(), String> {
        let history = self.encrypted(Env::builder()).history(&self.directory).map_err(text)?;
        let oldest = history.epochs.first().ok_or("no epoch, not even the last checkpoint")?.number;
        let plan = self
            .encrypted(Env::builder())
            .recovery(&self.directory, Target::Epoch(oldest))
            .and_then(|recovery| recovery.apply())
            .map_err(text)?;
        if let Some(damage) = plan.damage {
            return Err(damage);
        }
        let env = self.open(None).map_err(text)?;
        let report = env.verify(&mut |_| {}).map_err(text)?;
        env.close().map_err(text)?;
        if report.problems.is_empty() { Ok(()) } else { Err(report.problems.join("; ")) }
    }

    fn words_for_worker(&self, worker: u64) -> Vec<String> {
        let directory = self.directory.to_string_lossy().into_owned();
        let numbers = [worker, self.cache, self.seed, self.faults].map(|number| number.to_string());
        [["storm-worker".into(), directory].as_slice(), &numbers].concat()
    }

    /// The storm and the worker that `Storm::words_for_worker` describes.
    #[must_use]
    pub fn of_worker(words: &[String]) -> Option<(Storm, u64)> {
        let [name, directory, numbers @ ..] = words else { return None };
        let numbers: Vec<u64> = numbers.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let [worker, cache, seed, faults] = numbers[..] else { return None };
        let storm =
            Storm { directory: directory.into(), processes: 0, commits: 0, cache, seed, faults, aim: None };
        (name == "storm-worker").then_some((storm, worker))
    }

    /// Runs it. What it came to, in words.
    ///
    /// # Errors
    /// What went wrong, in words. The environment's directory is left as it is then.
    pub fn run(&self) -> Result<String, String> {
        self.remove()?;
        std::fs::create_dir_all(self.regions()).map_err(|error| format!("making a directory: {error}"))?;
        let env = self.open(None).map_err(text)?;
        fill(&env).map_err(text)?;
        env.close().map_err(text)?;
        let mut raging = Raging {
            storm: self,
            dice: Dice::new(self.seed),
            workers: (0..self.processes).map(Worker::new).collect(),
            settled: vec![Expected::default(); self.processes as usize],
            expected: vec![Expected::default(); self.processes as usize],
            poisoned: false,
            came_to: CameTo::default(),
        };
        while raging.acknowledged() < self.commits {
            raging.live()?;
        }
        // And once more, after it was closed.
        raging.settle()?;
        if self.keeps_journal() {
            self.check_journal().map_err(|wrong| format!("the journal: {wrong}"))?;
        }
        self.remove()?;
        Ok(format!("{} commits, {}", raging.acknowledged(), raging.came_to))
    }

    fn remove(&self) -> Result<(), String> {
        for directory in [&self.directory, &self.regions()] {
            match std::fs::remove_dir_all(directory) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(format!("removing {}: {error}", directory.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn text(error: Error) -> String {
    format!("{:?}: {error}", error.kind())
}

fn fill(env: &Env) -> sablecat::Result<()> {
    let accounts = env.database("accounts")?;
    env.database("counts")?;
    env.database("records")?;
    registers::fill(env)?;
    env.write(|txn| {
        (0..plan::ACCOUNTS)
            .try_for_each(|n| txn.insert(&accounts, plan::account(n), plan::BALANCE.to_le_bytes()).map(drop))
    })
}

/// Judges the calls of registers, and what they have left. How many there were.
fn check_registers(env: &Env, said: &[Said], is_lost: bool) -> Result<u64, String> {
    let found = registers::look(env).map_err(text)?;
    let mut by_memory: BTreeMap<Memory, Vec<Call>> = BTreeMap::new();
    for (memory, call) in said.iter().flat_map(Said::calls) {
        by_memory.entry(memory).or_default().push(call.clone());
    }
    let count = by_memory.values().map(|calls| calls.len() as u64).sum();
    if let (true, Some(mut last)) = (by_memory.len() == 1, by_memory.first_entry()) {
        if is_lost {
            registers::check_cut(last.get(), &found)?;
        } else {
            // A reader that looks when all is over.
            let end = u64::MAX - 1;
            last.get_mut().push(Call {
                id: u64::MAX,
                begun: end,
                returned: Some(end),
                snapshot: false,
                reads: found,
                writes: Vec::new(),
            });
        }
    }
    by_memory
        .values()
        .try_for_each(|calls| order::check(calls))
        .map_err(|wrong| format!("answers that cannot be: {wrong}"))?;
    Ok(count)
}

/// What a storm came to.
#[derive(Clone, Copy, Debug, Default)]
struct CameTo {
    lives: u64,
    kills: u64,
    /// Calls of registers.
    calls: u64,
    /// Kills of workers in the role aimed at.
    aimed: u64,
    /// Lives that ended because the environment was poisoned.
    poisoned: u64,
    /// Lives after which some memory had been set aside.
    set_aside: u64,
}

impl std::fmt::Display for CameTo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} other calls, {} killed, {} of them in the role aimed at; ",
            self.calls, self.kills, self.aimed
        )?;
        write!(
            f,
            "{} lives, {} of them poisoned, {} with memory set aside",
            self.lives, self.poisoned, self.set_aside
        )
    }
}

/// A storm in progress.
struct Raging<'a> {
    storm: &'a Storm,
    dice: Dice,
    workers: Vec<Worker>,
    /// The records when nobody had the environment open.
    settled: Vec<Expected>,
    expected: Vec<Expected>,
    /// Somebody has been told that the environment is poisoned.
    poisoned: bool,
    came_to: CameTo,
}

impl Raging<'_> {
    /// One life of the environment, from when nobody has it open to when nobody has it open any more.
    fn live(&mut self) -> Result<(), String> {
        let wrong = |wrong: String, life: u64| format!("life {life}: {wrong}");
        self.came_to.lives += 1;
        self.poisoned = false;
        self.go_through_life().map_err(|error| wrong(error, self.came_to.lives))?;
        self.came_to.poisoned += u64::from(self.poisoned);
        self.settle().map_err(|error| wrong(error, self.came_to.lives))
    }

    fn go_through_life(&mut self) -> Result<(), String> {
        // The first process has to end what is left of the dead, with calls that fail or without.
        let comes_first = self.storm.faults == 0 || self.dice.percent(50);
        let env = if comes_first {
            Some(self.storm.open(None).map_err(|error| format!("opening: {}", text(error)))?)
        } else {
            None
        };
        self.start_all()?;
        let env = match env {
            Some(env) => Some(env),
            None => self.join()?,
        };
        if let Some(env) = &env {
            let kills = self.came_to.kills + 1 + self.dice.below(KILLS_PER_LIFE);
            self.rage(env, kills)?;
        }
        if let (true, Some(env)) = (self.poisoned, &env) {
            self.wait_until_told(env)?;
        }
        self.all_leave(env)
    }

    /// Joins the workers, which came first, unless they poison it before that.
    fn join(&mut self) -> Result<Option<Env>, String> {
        let end = Instant::now() + PATIENCE;
        loop {
            self.hear()?;
            if self.poisoned {
                return Ok(None);
            }
            if self.workers.iter().any(|worker| worker.said().has_committed()) {
                match self.storm.open(None) {
                    Ok(env) => return Ok(Some(env)),
                    Err(error) if error.kind() == ErrorKind::Poisoned => self.poisoned = true,
                    Err(error) => return Err(format!("joining: {}", text(error))),
                }
            }
            if Instant::now() >= end {
                return Err("nobody begins to commit".into());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Kills until so many have been killed in all, or the environment is poisoned.
    fn rage(&mut self, env: &Env, kills: u64) -> Result<(), String> {
        let mut checked = self.came_to.kills / KILLS_PER_CHECK;
        while self.acknowledged() < self.storm.commits && self.came_to.kills < kills {
            let commits = 1 + self.dice.below(COMMITS_PER_KILL * self.storm.processes);
            self.wait_for(commits, env)?;
            if self.poisoned {
                return Ok(());
            }
            if self.storm.aim == Some("reaping") {
                // So that there is much to reap, for the workers that come in their place.
                let dead = 0..self.workers.len().div_ceil(2);
                dead.clone().try_for_each(|dead| self.kill(dead))?;
                dead.into_iter().try_for_each(|dead| self.start(dead))?;
            }
            let victim = self.victim(env)?;
            if self.dice.percent(20) {
                self.workers[victim].stop()?;
                // The others may all be waiting for it: then it is looked at no longer than this.
                let until = Instant::now() + Duration::from_millis(self.dice.below(20));
                let enough = self.acknowledged() + 20;
                while Instant::now() < until && self.acknowledged() < enough {
                    std::thread::yield_now();
                }
                if self.dice.percent(50) {
                    self.workers[victim].go_on()?;
                    continue;
                }
            }
            self.replace(victim)?;
            for _ in 0..self.workers.len() / PROCESSES_PER_KILL {
                let another = self.dice.index(self.workers.len());
                self.replace(another)?;
            }
            if self.came_to.kills / KILLS_PER_CHECK > checked {
                checked = self.came_to.kills / KILLS_PER_CHECK;
                self.check_beside_workers(env)?;
            }
        }
        Ok(())
    }

    fn kill(&mut self, victim: usize) -> Result<(), String> {
        self.came_to.kills += 1;
        self.workers[victim].kill()
    }

    fn start(&mut self, worker: usize) -> Result<(), String> {
        let words = self.storm.words_for_worker(self.workers[worker].number);
        self.workers[worker].start(&words)
    }

    fn replace(&mut self, victim: usize) -> Result<(), String> {
        self.kill(victim)?;
        self.start(victim)
    }

    fn start_all(&mut self) -> Result<(), String> {
        (0..self.workers.len()).try_for_each(|worker| self.start(worker))
    }

    fn kill_all(&mut self) -> Result<(), String> {
        self.workers.iter_mut().try_for_each(Worker::kill)
    }

    fn acknowledged(&self) -> u64 {
        self.workers.iter().map(Worker::acknowledged).sum()
    }

    /// Hears what workers say of more than commits.
    ///
    /// # Errors
    /// If one has failed.
    fn hear(&mut self) -> Result<(), String> {
        self.poisoned |= self.workers.iter().any(|worker| worker.poisoned().is_some());
        self.workers.iter_mut().find(|worker| worker.has_failed()).map_or(Ok(()), Worker::kill)
    }

    fn wait_for(&mut self, commits: u64, env: &Env) -> Result<(), String> {
        let (enough, end) = (self.acknowledged() + commits, Instant::now() + PATIENCE);
        while self.acknowledged() < enough && !self.poisoned {
            if Instant::now() >= end {
                return Err(format!(
                    "nobody commits any more, after {} were killed: {:#?}",
                    self.came_to.kills,
                    env.processes()
                ));
            }
            std::thread::sleep(Duration::from_micros(200));
            self.hear()?;
        }
        Ok(())
    }

    /// Waits until everybody knows that the environment is poisoned, if it is this memory that is.
    fn wait_until_told(&mut self, env: &Env) -> Result<(), String> {
        let (memory, end) = (self.storm.memory()?, Instant::now() + PATIENCE);
        if self.workers.iter().all(|worker| worker.poisoned() != Some(memory)) {
            return Ok(());
        }
        while let Some(untold) = self.workers.iter().find(|worker| !worker.is_told()) {
            if Instant::now() >= end {
                let (number, processes) = (untold.number, env.processes());
                return Err(format!(
                    "the environment is poisoned, and nobody tells worker {number}: {processes:#?}"
                ));
            }
            self.hear()?;
            std::thread::sleep(Duration::from_micros(200));
        }
        // Of nobody's: it counts no worker's commits.
        let told = env
            .database("counts")
            .and_then(|counts| counts.insert("parent", "told"))
            .and_then(|_| env.sync());
        match told {
            Err(error) if error.kind() == ErrorKind::Poisoned => Ok(()),
            other => Err(format!(
                "the environment is poisoned, and a commit that is to be durable comes to {other:?}"
            )),
        }
    }

    /// All leave, or are killed, or both.
    fn all_leave(&mut self, env: Option<Env>) -> Result<(), String> {
        let leaves_first = self.dice.percent(60);
        let mut env = env;
        if leaves_first {
            self.leave(env.take())?;
        }
        let all_die = self.dice.percent(30);
        for n in 0..self.workers.len() {
            if all_die || self.dice.percent(30) {
                self.workers[n].kill()?;
            } else {
                self.workers[n].ask_to_leave();
            }
        }
        for n in 0..self.workers.len() {
            if self.dice.percent(20) {
                // Perhaps while it leaves.
                self.workers[n].kill()?;
            }
            self.workers[n].wait_until_gone(PATIENCE)?;
        }
        self.leave(env)
    }

    fn leave(&mut self, env: Option<Env>) -> Result<(), String> {
        match env.map(Env::close) {
            Some(Err(error)) if error.kind() == ErrorKind::Poisoned && self.storm.faults > 0 => {
                self.poisoned = true
            }
            Some(Err(error)) => return Err(format!("closing: {}", text(error))),
            _ => {}
        }
        Ok(())
    }

    /// Opens the environment, which nobody has open, and no call of the disk fails: that is always enough.
    /// What must be there is.
    fn settle(&mut self) -> Result<(), String> {
        self.hear()?;
        let before = self.storm.was_set_aside()?;
        let env =
            self.storm.open(None).map_err(|error| format!("opening after all have left: {}", text(error)))?;
        let aside = self.storm.was_set_aside()? || before;
        self.came_to.set_aside += u64::from(aside);
        let said: Vec<Said> = self.workers.iter().map(|worker| worker.said().clone()).collect();
        let is_lost = self.poisoned || (aside && self.storm.faults > 0);
        self.came_to.calls += check_registers(&env, &said, is_lost)?;
        let at_least =
            if is_lost { said::kept(said.iter()) } else { said.iter().map(Said::acknowledged).collect() };
        self.expected.clone_from(&self.settled);
        let poisoned = self.poisoned;
        let text_of_all = |wrong: String| format!("poisoned: {poisoned}, set aside: {aside}: {wrong}");
        let found = self.check(&env, &at_least).map_err(text_of_all)?.map_err(text)?;
        for (worker, &found) in self.workers.iter().zip(&found) {
            let mut said = worker.said();
            if found > said.at_most() {
                return Err(format!(
                    "worker {} made {} commits at most, and {found} are there",
                    worker.number,
                    said.at_most()
                ));
            }
            said.settle(found);
        }
        self.settled.clone_from(&self.expected);
        env.close().map_err(|error| format!("closing what was opened after all have left: {}", text(error)))
    }

    /// The worker to kill: one in the role aimed at, if there is one before long. It is stopped then, so that
    /// it does not leave the role.
    fn victim(&mut self, env: &Env) -> Result<usize, String> {
        let any = self.dice.index(self.workers.len());
        let Some(aim) = self.storm.aim else { return Ok(any) };
        for _ in 0..LOOKS {
            if let Some(found) = self.in_role(aim, env) {
                self.workers[found].stop()?;
                if self.in_role(aim, env) == Some(found) {
                    self.came_to.aimed += 1;
                    return Ok(found);
                }
                self.workers[found].go_on()?;
            }
            std::thread::yield_now();
        }
        Ok(any)
    }

    /// The worker that has a role.
    fn in_role(&self, role: &str, env: &Env) -> Option<usize> {
        let has_role =
            |process: &sablecat::Process| process.participants.iter().any(|p| p.roles.contains(&role));
        let pid = env.processes().into_iter().find(|p| p.alive && !p.asking && has_role(p)).map(|p| p.pid)?;
        self.workers.iter().position(|worker| worker.pid() == Some(pid))
    }

    fn check_beside_workers(&mut self, env: &Env) -> Result<(), String> {
        for _ in 0..CHECKS {
            if self.look_beside_workers(env)? {
                return Ok(());
            }
        }
        self.kill_all()?;
        if !self.look_beside_workers(env)? {
            return Err("a snapshot was given up, and nobody is at work".into());
        }
        self.start_all()
    }

    /// False if others changed more meanwhile than the cache can keep.
    fn look_beside_workers(&mut self, env: &Env) -> Result<bool, String> {
        let memory = self.storm.memory()?;
        let at_least: Vec<_> =
            self.workers.iter().map(|worker| worker.said().acknowledged_in(memory)).collect();
        match self.check(env, &at_least)? {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::SnapshotTooOld => Ok(false),
            Err(error) if error.kind() == ErrorKind::Poisoned && self.storm.faults > 0 => {
                self.poisoned = true;
                Ok(true)
            }
            Err(error) => Err(format!("looking beside the workers: {}", text(error))),
        }
    }

    /// Holds what is there against what must be: so many commits of each worker, or more, which are then the
    /// answer. The outer error is what is wrong, the inner one what prevented looking.
    fn check(&mut self, env: &Env, at_least: &[u64]) -> Result<sablecat::Result<Vec<u64>>, String> {
        let kills = self.came_to.kills;
        let seen = match Seen::look(env, self.workers.len()) {
            Ok(seen) => seen,
            Err(error) => return Ok(Err(error)),
        };
        if seen.money != plan::ACCOUNTS * plan::BALANCE {
            return Err(format!("the accounts sum up to {}, after {kills} were killed", seen.money));
        }
        for (n, expected) in self.expected.iter_mut().enumerate() {
            let worker = self.workers[n].number;
            let (count, records) = &seen.workers[n];
            if *count < at_least[n] {
                return Err(format!(
                    "{} commits of worker {worker} must be there, and {count} are",
                    at_least[n]
                ));
            }
            let expected = expected.after(self.storm.seed, worker, *count);
            if !expected.iter().eq(records.iter().map(|(k, v)| (k, v))) {
                let here: BTreeMap<_, _> = records.iter().cloned().collect();
                let missing = expected.iter().filter(|(k, v)| here.get(*k) != Some(v)).count();
                let extra = here.keys().filter(|k| !expected.contains_key(*k)).count();
                return Err(format!(
                    "after {count} commits of worker {worker}, {missing} of its records are not as they \
                     should be, {extra} too many"
                ));
            }
        }
        match env.verify(&mut |_| {}) {
            Ok(report) if report.problems.is_empty() => {
                Ok(Ok(seen.workers.iter().map(|(count, _)| *count).collect()))
            }
            // What cannot be read is a problem to it, whatever the cause; and somebody may just have poisoned
            // the volume.
            Ok(report)
                if self.storm.faults > 0
                    && report.problems.iter().any(|problem| problem.contains("close the environment")) =>
            {
                self.poisoned = true;
                Ok(Ok(at_least.to_vec()))
            }
            Ok(report) => Err(format!("verify, after {kills} were killed: {}", report.problems.join("; "))),
            Err(error) => Ok(Err(error)),
        }
    }
}
