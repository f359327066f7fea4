//! Operations whose process dies after some of their instructions; `sablecat-check steps` for all of them.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The command's exit status where processes cannot be stepped.
const NOT_PERMITTED: i32 = 3;

fn steps(words: &[&str]) {
    // Others each time; what fails says how to see it again.
    let from = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64 % 1_000_000).to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sablecat-check"));
    let out = command.args(["steps", "--from", &from]).args(words).output().expect("started");
    let said = String::from_utf8_lossy(&out.stdout);
    if out.status.code() == Some(NOT_PERMITTED) {
        eprintln!("{said}");
        return;
    }
    assert!(out.status.success(), "--from {from} {words:?}: {said}{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn dying_at_any_system_call_leaves_nothing_in_doubt() {
    steps(&["--by", "calls", "--every", "4"]);
}

#[test]
fn dying_after_any_instruction_of_one_change_leaves_nothing_in_doubt() {
    each(&["get", "insert", "remove", "split"], &["--kills", "2"]);
}

#[test]
fn dying_after_any_instruction_of_a_transaction_leaves_nothing_in_doubt() {
    each(&["commit", "savepoint", "abort", "lock"], &["--kills", "2"]);
}

#[test]
fn dying_after_some_instruction_of_what_is_long_leaves_nothing_in_doubt() {
    each(&["merge", "evict", "long-key", "define", "follow", "detach"], &["--every", "997", "--kills", "1"]);
}

/// Others take over, commit and make checkpoints; what it does when it goes on is late and harms nothing.
#[test]
fn who_is_stopped_in_a_checkpoint_holds_up_nobody_and_does_no_harm_later() {
    steps(&["--operation", "checkpoint", "--by", "calls", "--stop"]);
}

#[test]
fn who_is_stopped_while_it_makes_a_segment_holds_up_nobody_and_does_no_harm_later() {
    steps(&["--operation", "supply", "--by", "calls", "--stop"]);
}

#[test]
fn who_is_stopped_while_it_writes_or_flushes_the_log_holds_up_nobody_and_does_no_harm_later() {
    steps(&["--operation", "follow", "--by", "calls", "--stop"]);
    for operation in ["insert", "hand-over"] {
        steps(&["--operation", operation, "--by", "calls", "--stop"]);
        steps(&["--operation", operation, "--every", "89", "--stop"]);
    }
}

#[test]
fn who_is_stopped_while_it_mends_what_another_left_holds_up_nobody_and_does_no_harm_later() {
    steps(&["--operation", "mend", "--by", "calls", "--stop"]);
}

fn each(operations: &[&str], words: &[&str]) {
    for operation in operations {
        steps(&[&["--operation", operation], words].concat());
    }
}
