//! Long runs of the checks: `sablecat-check <check> [--seeds N] [--from S]`. Exit code 0: all is well; 1: something is wrong; 2: the command
//! makes no sense. `sablecat-check steps [--operation NAME] [--every N] [--from K] [--kills N] [--by instructions|calls] [--stop]` has a process die after any instruction (3: not
//! permitted here). `sablecat-check storm [--processes N] [--commits N] [--cache BYTES] [--seed S] [--faults PER_MILLION] [--aim ROLE]` kills processes, and has calls of the disk
//! fail.

use std::path::PathBuf;
use std::process::ExitCode;

use sablecat_check::seeds;
use sablecat_check::steps::{self, OPERATIONS, Steps, Why};
use sablecat_check::storm::{self, Storm};

const USAGE: &str =
    "usage: sablecat-check <model|crash|crash-calls|backward|backward-calls|backward-times|store|faults|crash-shared|faults-shared|faults-mending|damage|lies|histories|operator|fuzz <pages|log|superblock>> [--seeds N] [--from S]
       sablecat-check steps [--operation NAME] [--every N] [--from K] [--kills N] [--by instructions|calls] [--stop]
       sablecat-check storm [--processes N] [--commits N] [--cache BYTES] [--seed S] [--faults PER_MILLION] [--aim any|housekeeping|reaping|checkpoint|commit|serial]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("storm") => run_storm(&words[1..]),
        Some("storm-worker") => run_worker(&words),
        Some("steps") => run_steps(&words[1..]),
        Some("steps-worker") => run_stepped(&words[1..]),
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
    let mut storm = Storm { directory, processes: 4, commits: 10_000, cache: 1 << 20, seed: 0, faults: 0, aim: None };
    for pair in words.chunks(2) {
        let [option, value] = pair else { return None };
        match option.as_str() {
            "--processes" => storm.processes = value.parse().ok().filter(|n| (1..=255).contains(n))?,
            "--commits" => storm.commits = value.parse().ok()?,
            "--cache" => storm.cache = value.parse().ok()?,
            "--seed" => storm.seed = value.parse().ok()?,
            "--faults" => storm.faults = value.parse().ok().filter(|n| (0..=1_000_000).contains(n))?,
            "--aim" if value == "any" => storm.aim = None,
            "--aim" => storm.aim = Some(Storm::AIMS.into_iter().find(|aim| aim == value)?),
            _ => return None,
        }
    }
    Some(storm)
}

fn run_steps(words: &[String]) -> ExitCode {
    let Some((steps, one)) = steps_of(words) else {
        let names: Vec<_> = OPERATIONS.iter().map(|operation| operation.name).collect();
        eprintln!("{USAGE}\noperations: {}", names.join(" "));
        return ExitCode::from(2);
    };
    let mut exit = ExitCode::SUCCESS;
    for operation in OPERATIONS.iter().filter(|operation| one.is_none_or(|one| one == operation.name)) {
        match (Steps { operation, ..steps.clone() }).run() {
            Ok(report) => println!("{}: {report}", operation.name),
            Err(Why::NotPermitted) => {
                println!("not tested: processes cannot be stepped here");
                return ExitCode::from(3);
            }
            Err(Why::Wrong(wrong)) => {
                println!("{} --every {} --from {}: {wrong}", operation.name, steps.every, steps.from);
                exit = ExitCode::FAILURE;
            }
        }
    }
    exit
}

/// The options, and the one operation asked for.
fn steps_of(words: &[String]) -> Option<(Steps, Option<&'static str>)> {
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let directory = base.join(format!("sablecat-steps-{}", std::process::id()));
    let mut steps = Steps { directory, operation: &OPERATIONS[0], every: 1, from: 0, calls: false, kills: 0, stop: false };
    let mut one = None;
    let (flags, words): (Vec<_>, Vec<_>) = words.iter().partition(|word| *word == "--stop");
    steps.stop = !flags.is_empty();
    for pair in words.chunks(2) {
        let [option, value] = pair else { return None };
        match option.as_str() {
            "--operation" => one = Some(steps::named(value)?.name),
            "--every" => steps.every = value.parse().ok().filter(|&n| n > 0)?,
            "--from" => steps.from = value.parse().ok()?,
            "--by" => steps.calls = ["instructions", "calls"].iter().position(|by| by == value)? == 1,
            "--kills" => steps.kills = value.parse().ok()?,
            _ => return None,
        }
    }
    Some((steps, one))
}

/// What stepping starts; not for people.
fn run_stepped(words: &[String]) -> ExitCode {
    let [base, name] = words else { return ExitCode::from(2) };
    let Some(operation) = steps::named(name) else { return ExitCode::from(2) };
    match steps::work(base.as_ref(), operation) {
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
        let number = |words: &mut dyn Iterator<Item = String>| words.next().and_then(|word| word.parse::<u64>().ok());
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
