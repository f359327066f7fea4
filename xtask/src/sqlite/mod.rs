//! `sqlite-tests`: SQLite's own tests, those in TCL, on SQLite as it is and over sablecat.
//!
//! ```text
//! cargo run -p xtask -- sqlite-tests --source sqlite3-3.40.1 select1.test 'join*.test'
//! ```
//!
//! The source is SQLite's tree as its authors keep it, with its tests; nothing of it is in this repository,
//! and nothing is written to it. Its `testfixture` is built twice of the same test code, and each file runs
//! in both, each time in a process of its own. A case that passes on SQLite as it is, and not on ours, is a
//! failure, unless `known.txt` says why it need not pass.
//!
//! ```text
//! fixture.rs, fixture.mk   the two programs
//! run.rs, shim.tcl         one file in one of them
//! outcome.rs               what came of its cases, and how ours compares
//! known.rs, known.txt      what is known to differ
//! ```

mod fixture;
mod known;
mod outcome;
mod run;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use fixture::Fixtures;
use known::Known;
use outcome::Compared;

pub(crate) const USAGE: &str = "sqlite-tests --source DIRECTORY [--jobs N] [--seconds N] [FILES...]";

/// Why it cannot be done: a sentence.
type Failure = Box<dyn std::error::Error>;

/// Files that run others.
const SUITES: [&str; 14] = [
    "all.test",
    "async.test",
    "extraquick.test",
    "fts3.test",
    "full.test",
    "mallocAll.test",
    "memleak.test",
    "permutations.test",
    "quick.test",
    "rbu.test",
    "rtree.test",
    "session.test",
    "soak.test",
    "veryquick.test",
];
/// Where there are test files in SQLite's tree.
const PLACES: [&str; 6] = ["test", "ext/expert", "ext/fts5/test", "ext/recover", "ext/rtree", "ext/session"];

#[derive(Debug)]
struct Asked {
    source: PathBuf,
    jobs: usize,
    seconds: u32,
    files: Vec<String>,
}

fn asked(words: &[String]) -> Result<Asked, Failure> {
    let (mut source, mut jobs, mut seconds, mut files) = (None, 1, 120, Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} wants a value; usage: {USAGE}"));
        match word.as_str() {
            "--source" => source = Some(fs::canonicalize(value()?)?),
            "--jobs" => jobs = value()?.parse()?,
            "--seconds" => seconds = value()?.parse()?,
            _ if word.starts_with('-') => {
                return Err(format!("{word}: no such option; usage: {USAGE}").into());
            }
            _ => files.push(word.clone()),
        }
    }
    let source = source.ok_or_else(|| format!("usage: {USAGE}"))?;
    Ok(Asked { source, jobs, seconds, files })
}

/// Runs the command; the exit code is as the others' of this program.
pub(crate) fn main(repository: &Path, words: &[String]) -> ExitCode {
    match asked(words).and_then(|asked| tests(repository, &asked)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the tests; whether all passed that were to.
fn tests(repository: &Path, asked: &Asked) -> Result<bool, Failure> {
    let known = Known::read(include_str!("known.txt"))?;
    let files = chosen(&asked.source, &asked.files)?;
    let place = repository.join("target/sqlite-tests");
    let fixtures = Fixtures::build(repository, &asked.source, &place, asked.jobs)?;

    let (next, all) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..asked.jobs.max(1) {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let compared = compared(&fixtures, &known, file, asked.seconds);
                    let line = match &compared {
                        Ok(compared) => compared.line(),
                        Err(error) => format!("{}: {error}", name_of(file)),
                    };
                    println!("{line}");
                    let compared = compared.map_err(|error| error.to_string());
                    all.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(compared);
                }
            });
        }
    });
    let mut sum = Compared::default();
    for compared in all.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        sum.add(compared?);
    }
    println!("\n{}", sum.summary());
    Ok(sum.failed.is_empty())
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The test files of a tree whose names one of the patterns fits; all, if there are none.
fn chosen(source: &Path, patterns: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for place in PLACES {
        // Older trees do not have all of them.
        let Ok(entries) = fs::read_dir(source.join(place)) else { continue };
        for entry in entries {
            let path = entry?.path();
            let name = name_of(&path);
            let is_asked = patterns.is_empty() || patterns.iter().any(|pattern| known::fits(pattern, &name));
            if name.ends_with(".test") && !SUITES.contains(&name.as_str()) && is_asked {
                files.push(path);
            }
        }
    }
    if files.is_empty() {
        return Err(format!("{} has no such test files", source.display()).into());
    }
    files.sort();
    Ok(files)
}

/// Runs one file in both programs.
fn compared(fixtures: &Fixtures, known: &Known, file: &Path, seconds: u32) -> Result<Compared, Failure> {
    let name = name_of(file);
    let stock = run::stock(fixtures, file, &name, seconds)?;
    if let Some(reason) = known.whole(&name) {
        return Ok(Compared::left_out(name, &stock, reason));
    }
    let ours = run::ours(fixtures, file, &name, seconds)?;
    Ok(Compared::new(name, &stock, &ours, known))
}
