//! Long runs of the checks: `sablecat-check <check> [--seeds N] [--from S]`. Exit code 0: all is well; 1:
//! something is wrong; 2: the command makes no sense.
//!
//! `steps` has a process die after any instruction (3: not permitted here); it says on standard error where
//! it is, and ends when its time is over, or at Ctrl-C, with what it has done and how to do the rest. `calls`
//! has each system call of an operation fail, in the same way. `storm` kills processes, and has calls of the
//! disk fail. A command that makes no sense is answered by all that do.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sablecat_check::course::Course;
use sablecat_check::steps::failing::{self, Failing};
use sablecat_check::steps::{self, OPERATIONS, Operation, Steps, Why};
use sablecat_check::storm::{self, Storm};
use sablecat_check::{method, seeds, stored};

const USAGE: &str =
    "usage: sablecat-check <model|crash|crash-calls|backward|backward-calls|backward-times|store|faults|
                       crash-shared|faults-shared|faults-mending|damage|lies|histories|operator|
                       fuzz <pages|log|superblock>> [--seeds N] [--from S]
       sablecat-check steps [--operation NAME] [--every N] [--from K] [--after STEP] [--kills N]
                            [--by instructions|calls] [--stop] [--journal] [--minutes N]
       sablecat-check calls [--operation NAME] [--every N] [--from K] [--after N] [--on] [--journal]
                            [--minutes N] [--tell]
       sablecat-check storm [--processes N] [--commits N] [--cache BYTES] [--seed S] [--faults PER_MILLION]
                            [--aim any|housekeeping|reaping|checkpoint|commit|serial]
       and with any of the last three: --compression lz4, --encryption
       and with any of them: --method btree|counted|flat|hash|lsm";

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    if method::take_from(&mut words).is_none() {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    stored::take_from(&mut words);
    match words.first().map(String::as_str) {
        Some("storm") => run_storm(&words[1..]),
        Some("storm-worker") => run_worker(&words),
        Some("steps") => run_steps(&words[1..]),
        Some("steps-worker") => run_worker_of_steps(&words[1..], steps::work),
        Some("calls") => run_failing(&words[1..]),
        Some("calls-worker") => run_worker_of_steps(&words[1..], failing::work),
        // The others have that among their settings.
        _ if stored::is_chosen() => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
        _ => run_seeds(words.into_iter()),
    }
}

/// What a storm starts; not for people.
fn run_worker(words: &[String]) -> ExitCode {
    let Some((storm, worker)) = Storm::of_worker(words) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match storm::work(&storm, worker) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("worker {worker}: {wrong}");
            ExitCode::FAILURE
        }
    }
}

fn run_storm(words: &[String]) -> ExitCode {
    let Some(storm) = storm_of(words) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match storm.run() {
        Ok(came_to) => {
            println!("storm: {came_to}");
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            println!("{storm:?}: {wrong}");
            ExitCode::FAILURE
        }
    }
}

fn storm_of(words: &[String]) -> Option<Storm> {
    let directory = std::env::temp_dir().join(format!("sablecat-storm-{}", std::process::id()));
    let mut cache = None;
    let mut storm =
        Storm { directory, processes: 4, commits: 10_000, cache: 0, seed: 0, faults: 0, aim: None };
    for pair in words.chunks(2) {
        let [option, value] = pair else { return None };
        match option.as_str() {
            "--processes" => storm.processes = value.parse().ok().filter(|n| (1..=255).contains(n))?,
            "--commits" => storm.commits = value.parse().ok()?,
            "--cache" => cache = Some(value.parse().ok()?),
            "--seed" => storm.seed = value.parse().ok()?,
            "--faults" => storm.faults = value.parse().ok().filter(|n| (0..=1_000_000).contains(n))?,
            "--aim" if value == "any" => storm.aim = None,
            "--aim" => storm.aim = Some(Storm::AIMS.into_iter().find(|aim| aim == value)?),
            _ => return None,
        }
    }
    // With much less each waits for the frames of those that are stopped.
    storm.cache = cache.unwrap_or(storm.processes * (64 << 12));
    Some(storm)
}

fn run_steps(words: &[String]) -> ExitCode {
    let Some(Stepping { steps, course }) = steps_of(words) else { return misused(OPERATIONS.iter()) };
    course.run(OPERATIONS.iter(), |operation, course| {
        let ran = Steps { operation, ..steps.clone() }.run(course);
        ran.map_err(|why| {
            about(why, &format!("{} --every {} --from {}", operation.name, steps.every, steps.from))
        })
    })
}

fn run_failing(words: &[String]) -> ExitCode {
    let Some((failing, course)) = failing_of(words) else { return misused(failing::operations()) };
    course.run(failing::operations(), |operation, course| {
        let ran = Failing { operation, ..failing.clone() }.run(course);
        ran.map_err(|why| about(why, &format!("{} --from {}", operation.name, failing.from)))
    })
}

fn misused(operations: impl Iterator<Item = &'static Operation>) -> ExitCode {
    let names: Vec<_> = operations.map(|operation| operation.name).collect();
    eprintln!("{USAGE}\noperations: {}", names.join(" "));
    ExitCode::from(2)
}

/// What is wrong, and with what.
fn about(why: Why, what: &str) -> Why {
    match why {
        Why::Wrong(wrong) => Why::Wrong(format!("{what}: {wrong}")),
        other => other,
    }
}

/// Which operations are asked for, and for how long.
#[derive(Default)]
struct Operations {
    one: Option<&'static str>,
    minutes: Option<u64>,
}

impl Operations {
    /// Does something with each operation, and says what it came to.
    fn run<T: Display>(
        &self,
        operations: impl Iterator<Item = &'static Operation>,
        run: impl Fn(&'static Operation, &Course) -> Result<T, Why>,
    ) -> ExitCode {
        let course = match Course::begin(self.minutes) {
            Ok(course) => course,
            Err(error) => {
                eprintln!("cannot watch for signals: {error}");
                return ExitCode::FAILURE;
            }
        };
        let mut not_begun = Vec::new();
        for operation in operations.filter(|operation| self.one.is_none_or(|one| one == operation.name)) {
            if course.is_over() {
                not_begun.push(operation.name);
                continue;
            }
            match run(operation, &course) {
                Ok(report) => course.say(&format_args!("{}: {report}", operation.name)),
                Err(Why::NotPermitted) => {
                    println!("not tested: processes cannot be stepped here");
                    return ExitCode::from(3);
                }
                Err(Why::Wrong(wrong)) => course.fail(&wrong),
            }
        }
        if !not_begun.is_empty() {
            println!("not begun: {}", not_begun.join(" "));
        }
        if course.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// How to step, and what.
struct Stepping {
    steps: Steps,
    course: Operations,
}

/// A directory of this process, in memory if that can be.
fn directory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
    base.join(format!("sablecat-steps-{}", std::process::id()))
}

fn steps_of(words: &[String]) -> Option<Stepping> {
    let mut steps = Steps {
        directory: directory(),
        operation: &OPERATIONS[0],
        every: 1,
        from: 0,
        after: 0,
        calls: false,
        kills: 0,
        stop: false,
        journal: false,
    };
    let mut course = Operations::default();
    let (flags, words): (Vec<_>, Vec<_>) =
        words.iter().partition(|word| ["--stop", "--journal"].contains(&word.as_str()));
    steps.stop = flags.iter().any(|flag| *flag == "--stop");
    steps.journal = flags.iter().any(|flag| *flag == "--journal");
    for pair in words.chunks(2) {
        let [option, value] = pair else { return None };
        match option.as_str() {
            "--operation" => {
                course.one = Some(
                    steps::named(value)
                        .filter(|one| OPERATIONS.iter().any(|operation| operation.name == one.name))?
                        .name,
                )
            }
            "--every" => steps.every = value.parse().ok().filter(|&n| n > 0)?,
            "--from" => steps.from = value.parse().ok()?,
            "--after" => steps.after = value.parse().ok()?,
            "--minutes" => course.minutes = Some(value.parse().ok()?),
            "--by" => steps.calls = ["instructions", "calls"].iter().position(|by| by == value)? == 1,
            "--kills" => steps.kills = value.parse().ok()?,
            _ => return None,
        }
    }
    Some(Stepping { steps, course })
}

fn failing_of(words: &[String]) -> Option<(Failing, Operations)> {
    let mut failing = Failing {
        directory: directory(),
        operation: &OPERATIONS[0],
        every: 1,
        from: 0,
        after: 0,
        journal: false,
        on: false,
        tell: false,
    };
    let mut course = Operations::default();
    let (flags, words): (Vec<_>, Vec<_>) =
        words.iter().partition(|word| ["--tell", "--journal", "--on"].contains(&word.as_str()));
    failing.on = flags.iter().any(|flag| *flag == "--on");
    failing.tell = flags.iter().any(|flag| *flag == "--tell");
    failing.journal = flags.iter().any(|flag| *flag == "--journal");
    for pair in words.chunks(2) {
        let [option, value] = pair else { return None };
        match option.as_str() {
            "--operation" => course.one = Some(steps::named(value)?.name),
            "--every" => failing.every = value.parse().ok().filter(|&n| n > 0)?,
            "--from" => failing.from = value.parse().ok()?,
            "--after" => failing.after = value.parse().ok()?,
            "--minutes" => course.minutes = Some(value.parse().ok()?),
            _ => return None,
        }
    }
    Some((failing, course))
}

/// What stepping starts, and having calls fail; not for people.
fn run_worker_of_steps(words: &[String], work: fn(&Path, &Operation) -> Result<(), String>) -> ExitCode {
    let [base, name] = words else { return ExitCode::from(2) };
    let Some(operation) = steps::named(name) else { return ExitCode::from(2) };
    match work(base.as_ref(), operation) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("{name}: {wrong}");
            ExitCode::FAILURE
        }
    }
}

fn run_seeds(mut words: impl Iterator<Item = String>) -> ExitCode {
    let (mut name, mut count, mut from) = (None, 1000, 0);
    while let Some(mut word) = words.next() {
        if word == "fuzz" {
            word.extend(words.next().map(|target| format!(" {target}")));
        }
        let number =
            |words: &mut dyn Iterator<Item = String>| words.next().and_then(|word| word.parse::<u64>().ok());
        let understood = match word.as_str() {
            "--seeds" => number(&mut words).map(|n| count = n),
            "--from" => number(&mut words).map(|n| from = n),
            _ if name.is_none() && seeds::CHECKS.iter().any(|(known, _)| *known == word) => {
                name = Some(word);
                Some(())
            }
            _ => None,
        };
        if understood.is_none() {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    let Some(name) = name else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let mut failed = 0;
    for seed in from..from.saturating_add(count) {
        if let Err(wrong) = seeds::one(&name, seed) {
            println!("{wrong}");
            failed += 1;
        }
    }
    println!("{name}: {count} seeds from {from}, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
