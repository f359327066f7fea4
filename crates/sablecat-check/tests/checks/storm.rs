//! Small storms, one aimed at each role; `sablecat-check storm` for long ones.

use std::process::Command;

fn storm(words: &[&str]) {
    let out = Command::new(env!("CARGO_BIN_EXE_sablecat-check"))
        .arg("storm")
        .args(words)
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{words:?}: {said}{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn processes_killed_anywhere_lose_nothing() {
    storm(&["--commits", "1000", "--seed", "1"]);
    // With a journal and two volumes.
    storm(&["--commits", "1000", "--seed", "3"]);
}

#[test]
fn processes_killed_in_each_role_lose_nothing() {
    for aim in ["housekeeping", "checkpoint", "commit", "serial"] {
        storm(&["--commits", "300", "--seed", "2", "--aim", aim]);
    }
    // Half of the processes die at once, so that the processes that mend it are at it for long enough to be
    // met.
    storm(&["--commits", "1500", "--seed", "2", "--aim", "reaping", "--processes", "8"]);
}

#[test]
fn calls_that_fail_beside_kills_lose_nothing_that_was_handed_over_and_hold_up_nobody() {
    for (seed, faults) in [("4", "2000"), ("5", "20000"), ("6", "20000"), ("7", "50000")] {
        storm(&["--commits", "1000", "--seed", seed, "--faults", faults]);
    }
    storm(&["--commits", "1000", "--seed", "8", "--faults", "10000", "--aim", "reaping", "--processes", "8"]);
}
