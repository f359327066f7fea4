//! Small storms, one aimed at each role; `sablecat-check storm` for long ones.

use std::process::Command;

fn storm(words: &[&str]) {
    let out = Command::new(env!("CARGO_BIN_EXE_sablecat-check")).arg("storm").args(words).output().expect("started");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{words:?}: {said}{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn processes_killed_anywhere_lose_nothing() {
    storm(&["--commits", "1000", "--seed", "1"]);
}

#[test]
fn processes_killed_in_each_role_lose_nothing() {
    for aim in ["housekeeping", "reaping", "checkpoint", "commit", "serial"] {
        storm(&["--commits", "300", "--seed", "2", "--aim", aim]);
    }
}
