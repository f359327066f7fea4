//! Storms: processes that share an environment, killed and stopped at any moment.
//!
//! ```text
//! plan.rs       what the n-th commit of a worker changes
//! worker.rs     commits, checkpoints, reads, until killed
//! processes.rs  starting, stopping and killing workers, and hearing what they acknowledge
//! ```
//!
//! The parent has the environment open as well, but does no work in it: it looks for whom to kill, and checks. A worker's records follow
//! from how many commits it has made, a number that is changed in each of them, so what is there is checked to the byte: no commit that was
//! acknowledged is missing, and none is there in part.

mod plan;
mod processes;
mod worker;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sablecat::{Durability, Env, ErrorKind, Journal, Place, Target};

use crate::dice::Dice;
use plan::Expected;
use processes::Worker;
pub use worker::work;

/// Nobody commits for so long: then something holds everybody up.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often to look for somebody in the role aimed at before anybody is killed.
const LOOKS: u32 = 300;
/// How often to try a check beside the workers before they are killed for it.
const CHECKS: u32 = 5;
const KILLS_PER_CHECK: u64 = 25;
/// With so many processes another dies each time; with twice as many, two others.
const PROCESSES_PER_KILL: usize = 16;
/// Commits of each worker between two kills, at most.
const COMMITS_PER_KILL: u64 = 10;

/// A storm to be.
#[derive(Clone, Debug)]
pub struct Storm {
    /// Where the environment is; removed before and after.
    pub directory: PathBuf,
    /// Workers at a time, at most 255.
    pub processes: u64,
    /// Commits to be acknowledged before it ends.
    pub commits: u64,
    /// Bytes of cache.
    pub cache: u64,
    /// Chance.
    pub seed: u64,
    /// The role that whoever is to be killed has; none: anybody.
    pub aim: Option<&'static str>,
}

impl Storm {
    /// The roles that can be aimed at, as [`Env::processes`] names them.
    pub const AIMS: [&'static str; 5] = ["housekeeping", "reaping", "checkpoint", "commit", "serial"];

    fn open(&self, background: bool) -> sablecat::Result<Env> {
        let builder = if self.keeps_journal() { Env::builder().journal(Journal::new().epochs(3)) } else { Env::builder() };
        let builder = if self.has_volume() { builder.volume("one", "one.db").place(Place::database("accounts"), "one") } else { builder };
        builder
            .shared(true)
            .cache_size(self.cache)
            .log_segment_size(1 << 20)
            .log_buffer_size(1 << 20)
            .checkpoint_log_size(4 << 20)
            .durability(Durability::NoSync)
            .background(background)
            .open(&self.directory)
    }

    /// Every third storm goes over an environment of two volumes, across which money is moved.
    fn has_volume(&self) -> bool {
        self.seed.is_multiple_of(3)
    }

    /// Every other storm goes over an environment with a journal.
    fn keeps_journal(&self) -> bool {
        self.seed % 2 == 1
    }

    /// That the journal has all of the log since the oldest epoch, and that it can be gone back to.
    fn check_journal(&self) -> Result<(), String> {
        let text = |error: sablecat::Error| error.to_string();
        let history = Env::builder().history(&self.directory).map_err(text)?;
        let oldest = history.epochs.first().ok_or("no epoch, not even the last checkpoint")?.number;
        let plan = Env::builder().recovery(&self.directory, Target::Epoch(oldest)).and_then(|recovery| recovery.apply()).map_err(text)?;
        if let Some(damage) = plan.damage {
            return Err(damage);
        }
        let env = self.open(false).map_err(text)?;
        let report = env.verify(&mut |_| {}).map_err(text)?;
        env.close().map_err(text)?;
        if report.problems.is_empty() { Ok(()) } else { Err(report.problems.join("; ")) }
    }

    fn words_for_worker(&self, worker: u64) -> Vec<String> {
        let directory = self.directory.to_string_lossy().into_owned();
        vec!["storm-worker".into(), directory, worker.to_string(), self.cache.to_string(), self.seed.to_string()]
    }

    /// The storm and the worker that `Storm::words_for_worker` describes.
    #[must_use]
    pub fn of_worker(words: &[String]) -> Option<(Storm, u64)> {
        let [name, directory, worker, cache, seed] = words else { return None };
        let number = |word: &String| word.parse::<u64>().ok();
        let storm = Storm { directory: directory.into(), processes: 0, commits: 0, cache: number(cache)?, seed: number(seed)?, aim: None };
        (name == "storm-worker").then_some((storm, number(worker)?))
    }

    /// Runs it. What it came to, in words.
    ///
    /// # Errors
    /// What went wrong, in words. The environment's directory is left as it is then.
    pub fn run(&self) -> Result<String, String> {
        remove(&self.directory)?;
        let text = |error: sablecat::Error| error.to_string();
        let env = self.open(false).map_err(text)?;
        fill(&env).map_err(text)?;
        let mut raging = Raging {
            storm: self,
            dice: Dice::new(self.seed),
            workers: (0..self.processes).map(Worker::new).collect(),
            expected: vec![Expected::default(); self.processes as usize],
            kills: 0,
            aimed: 0,
        };
        raging.rage(&env)?;
        // Nobody is left, and nothing has been flushed for the last of them: what they committed is in the memory they shared.
        drop(env);
        raging.kill_all()?;
        let env = self.open(false).map_err(text)?;
        raging.check(&env)?.map_err(text)?;
        env.close().map_err(text)?;
        let env = self.open(false).map_err(text)?;
        raging.check(&env)?.map_err(text)?;
        env.close().map_err(text)?;
        if self.keeps_journal() {
            self.check_journal().map_err(|wrong| format!("the journal: {wrong}"))?;
        }
        remove(&self.directory)?;
        Ok(format!("{} commits, {} killed, {} of them in the role aimed at", raging.acknowledged(), raging.kills, raging.aimed))
    }
}

fn remove(directory: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("removing {}: {error}", directory.display())),
        _ => Ok(()),
    }
}

fn fill(env: &Env) -> sablecat::Result<()> {
    let accounts = env.database("accounts")?;
    env.database("counts")?;
    env.database("records")?;
    env.write(|txn| (0..plan::ACCOUNTS).try_for_each(|n| txn.insert(&accounts, plan::account(n), plan::BALANCE.to_le_bytes()).map(drop)))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// A storm in progress.
struct Raging<'a> {
    storm: &'a Storm,
    dice: Dice,
    workers: Vec<Worker>,
    expected: Vec<Expected>,
    kills: u64,
    aimed: u64,
}

impl Raging<'_> {
    fn rage(&mut self, env: &Env) -> Result<(), String> {
        self.start_all()?;
        let mut checked = 0;
        while self.acknowledged() < self.storm.commits {
            let commits = 1 + self.dice.below(COMMITS_PER_KILL * self.storm.processes);
            self.wait_for(commits, env)?;
            if self.storm.aim == Some("reaping") {
                // So that there is much to reap, for those who come in their place.
                let dead = 0..self.workers.len().div_ceil(2);
                dead.clone().try_for_each(|dead| self.kill(dead))?;
                dead.into_iter().try_for_each(|dead| self.workers[dead].start(self.storm))?;
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
            if self.kills / KILLS_PER_CHECK > checked {
                checked = self.kills / KILLS_PER_CHECK;
                self.check_beside_workers(env)?;
            }
        }
        Ok(())
    }

    fn kill(&mut self, victim: usize) -> Result<(), String> {
        self.kills += 1;
        self.workers[victim].kill()
    }

    fn replace(&mut self, victim: usize) -> Result<(), String> {
        self.kill(victim)?;
        self.workers[victim].start(self.storm)
    }

    fn start_all(&mut self) -> Result<(), String> {
        self.workers.iter_mut().try_for_each(|worker| worker.start(self.storm))
    }

    fn kill_all(&mut self) -> Result<(), String> {
        self.workers.iter_mut().try_for_each(Worker::kill)
    }

    fn acknowledged(&self) -> u64 {
        self.workers.iter().map(Worker::acknowledged).sum()
    }

    fn wait_for(&self, commits: u64, env: &Env) -> Result<(), String> {
        let (enough, end) = (self.acknowledged() + commits, Instant::now() + PATIENCE);
        while self.acknowledged() < enough {
            if Instant::now() >= end {
                return Err(format!("nobody commits any more, after {} were killed: {:#?}", self.kills, env.processes()));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    /// Whom to kill: somebody in the role aimed at, if there is one before long. It is stopped then, so that it does not leave the role.
    fn victim(&mut self, env: &Env) -> Result<usize, String> {
        let any = self.dice.index(self.workers.len());
        let Some(aim) = self.storm.aim else { return Ok(any) };
        for _ in 0..LOOKS {
            if let Some(found) = self.in_role(aim, env) {
                self.workers[found].stop()?;
                if self.in_role(aim, env) == Some(found) {
                    self.aimed += 1;
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
        let has_role = |process: &sablecat::Process| process.participants.iter().any(|p| p.roles.contains(&role));
        let pid = env.processes().into_iter().find(|p| p.alive && !p.asking && has_role(p)).map(|p| p.pid)?;
        self.workers.iter().position(|worker| worker.pid() == Some(pid))
    }

    fn check_beside_workers(&mut self, env: &Env) -> Result<(), String> {
        for _ in 0..CHECKS {
            match self.check(env)? {
                Err(error) if error.kind() == ErrorKind::SnapshotTooOld => {}
                looked => return looked.map_err(|error| error.to_string()),
            }
        }
        self.kill_all()?;
        self.check(env)?.map_err(|error| error.to_string())?;
        self.start_all()
    }

    /// Holds what is there against what must be. The outer error is what is wrong, the inner one what prevented looking.
    fn check(&mut self, env: &Env) -> Result<sablecat::Result<()>, String> {
        let said: Vec<_> = self.workers.iter().map(Worker::acknowledged).collect();
        let seen = match Seen::look(env, self.workers.len()) {
            Ok(seen) => seen,
            Err(error) => return Ok(Err(error)),
        };
        if seen.money != plan::ACCOUNTS * plan::BALANCE {
            return Err(format!("the accounts sum up to {}, after {} were killed", seen.money, self.kills));
        }
        for (n, expected) in self.expected.iter_mut().enumerate() {
            let worker = self.workers[n].number;
            let (count, records) = &seen.workers[n];
            if *count < said[n] {
                return Err(format!("worker {worker} acknowledged {} commits, and {count} are there", said[n]));
            }
            let expected = expected.after(self.storm.seed, worker, *count);
            if !expected.iter().eq(records.iter().map(|(k, v)| (k, v))) {
                let here: std::collections::BTreeMap<_, _> = records.iter().cloned().collect();
                let missing = expected.iter().filter(|(k, v)| here.get(*k) != Some(v)).count();
                let extra = here.keys().filter(|k| !expected.contains_key(*k)).count();
                return Err(format!(
                    "after {count} commits of worker {worker}, {missing} of its records are not as they should be, {extra} too many"
                ));
            }
        }
        match env.verify(&mut |_| {}) {
            Ok(report) if report.problems.is_empty() => Ok(Ok(())),
            Ok(report) => Err(format!("verify, after {} were killed: {}", self.kills, report.problems.join("; "))),
            Err(error) => Ok(Err(error)),
        }
    }
}

/// Keys and values, in order.
type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// What is in the environment, at one snapshot.
struct Seen {
    money: u64,
    /// Of each worker its count, and its records in order.
    workers: Vec<(u64, Records)>,
}

impl Seen {
    fn look(env: &Env, workers: usize) -> sablecat::Result<Seen> {
        let (accounts, counts, records) = (env.database("accounts")?, env.database("counts")?, env.database("records")?);
        let mut snapshot = env.snapshot()?;
        let mut seen = Seen { money: 0, workers: vec![(0, Vec::new()); workers] };
        for record in snapshot.range::<&[u8]>(&accounts, ..)? {
            seen.money += number(&record?.1);
        }
        for worker in 0..workers {
            seen.workers[worker].0 = snapshot.get(&counts, (worker as u64).to_be_bytes())?.map_or(0, |count| number(&count));
        }
        for record in snapshot.range::<&[u8]>(&records, ..)? {
            let (key, value) = record?;
            if let Some((_, of_worker)) = seen.workers.get_mut(plan::owner(&key) as usize) {
                of_worker.push((key.to_vec(), value.to_vec()));
            }
        }
        Ok(seen)
    }
}
