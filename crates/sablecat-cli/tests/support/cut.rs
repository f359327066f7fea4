//! Commands that are killed before one of their system calls, or in which one fails.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use sablecat_os::check::stepped::{Did, Stepped};

use super::Scratch;

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// Killed before a call, or by the system's loader before its program began.
    Killed,
    /// By itself, with this code, after a call had failed.
    Failed(i32),
    /// By itself: it makes fewer calls.
    Through,
}

/// Starts the command, and has its call of that number be its last, or fail in one of its ways.
pub(crate) fn cut(scratch: &Scratch, arguments: &str, call: usize, fails: Option<usize>) -> (Ended, String) {
    let said = scratch.path().join("said");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sablecat"));
    command
        .args(arguments.split_whitespace())
        .current_dir(scratch.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&said).expect("made"));
    let mut stepped = Stepped::start_unasked(&mut command).expect("it may be traced");
    let through = |did| match did {
        Did::End(_) => (Ended::Through, String::new()),
        did => panic!("{arguments}: {did:?}"),
    };
    for _ in 0..call {
        if let Err(did) = stepped.run_to_failing_call().expect("traced") {
            return through(did);
        }
    }
    let call = match stepped.run_to_failing_call().expect("traced") {
        Ok(call) => call,
        Err(did) => return through(did),
    };
    let Some(way) = fails else {
        stepped.kill().expect("killed");
        return (Ended::Killed, format!("killed before {call}"));
    };
    let way = way % call.ways();
    stepped.fail_call(&call, way).expect("traced");
    let Did::End(status) = stepped.run().expect("traced") else { panic!("{arguments}: a mark") };
    let said = fs::read_to_string(&said).expect("text");
    assert!(code_of(status).is_some(), "{call} failed ({}): {status:x}, {said}", call.error(way));
    let is_loader = said.contains("error while loading shared libraries");
    let ended = code_of(status).filter(|_| !is_loader).map_or(Ended::Killed, Ended::Failed);
    (ended, format!("{call} failed ({}): {said}", call.error(way)))
}

/// The code with which a process ended by itself, of a status of waitpid.
fn code_of(status: i32) -> Option<i32> {
    (status & 0x7f == 0).then_some(status >> 8)
}

/// Calls of a command, spread over all of them: `turn` is given each, to be the last and to fail. So many as
/// `SABLECAT_TEST_KILLS` says, or `times`.
pub(crate) fn each_of_some(times: usize, all: usize, mut turn: impl FnMut(usize, Option<usize>)) {
    let times = std::env::var("SABLECAT_TEST_KILLS").map_or(times, |times| times.parse().expect("a number"));
    let every = (all / times).max(1);
    // Not the same each time.
    let from = std::process::id() as usize % every;
    for (n, call) in (from..all).step_by(every).enumerate() {
        turn(call, None);
        turn(call, Some(n));
    }
}

/// How many calls a command makes, more or less; it is done afterwards.
pub(crate) fn calls_of(scratch: &Scratch, arguments: &str) -> usize {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sablecat"));
    command.args(arguments.split_whitespace()).current_dir(scratch.path()).stdout(Stdio::null());
    let mut stepped = Stepped::start_unasked(&mut command).expect("it may be traced");
    let mut calls = 0;
    loop {
        match stepped.run_to_failing_call().expect("traced") {
            Ok(_) => calls += 1,
            Err(Did::End(0)) => return calls,
            Err(did) => panic!("{arguments}: {did:?}"),
        }
    }
}
