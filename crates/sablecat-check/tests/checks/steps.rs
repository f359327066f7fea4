//! Operations whose process dies after some of their instructions; `sablecat-check steps` for all of them.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::command::{NOT_PERMITTED, run};

fn steps(words: &[&str]) {
    run("steps", words);
}

#[test]
fn dying_at_some_system_call_leaves_nothing_in_doubt() {
    steps(&["--by", "calls", "--every", "2039"]);
}

#[test]
fn dying_after_any_instruction_of_one_change_leaves_nothing_in_doubt() {
    each(&["get", "insert", "remove"], &["--kills", "2"]);
}

#[test]
fn dying_after_some_instruction_of_a_transaction_leaves_nothing_in_doubt() {
    each(&["savepoint", "abort", "lock"], &["--every", "127", "--kills", "2"]);
    each(&["split"], &["--every", "1049", "--kills", "2"]);
    each(&["commit", "remove-range"], &["--every", "19991", "--kills", "2"]);
}

#[test]
fn dying_after_some_instruction_of_what_is_long_leaves_nothing_in_doubt() {
    each(&["evict", "long-key", "define", "follow", "detach"], &["--every", "9973", "--kills", "1"]);
    each(&["merge"], &["--every", "159979", "--kills", "1"]);
}

/// At their system calls; their millions of instructions are for the command.
#[test]
fn what_the_dead_had_in_hand_is_given_back_while_others_live() {
    each(&["large-value", "checkpoint", "compact"], &["--by", "calls", "--every", "23", "--kills", "1"]);
}

/// Others take over, commit and make checkpoints; what it does when it goes on is late and harms nothing.
#[test]
fn who_is_stopped_in_a_checkpoint_holds_up_nobody_and_does_no_harm_later() {
    steps(&["--operation", "checkpoint", "--by", "calls", "--every", "2", "--stop"]);
}

/// A third commits and makes checkpoints, and both stopped processes go on, one after the other.
#[test]
fn who_succeeds_in_a_checkpoint_and_is_stopped_in_turn_holds_up_nobody() {
    steps(&["--operation", "succeed", "--by", "calls", "--every", "11", "--stop"]);
    steps(&["--operation", "succeed", "--by", "calls", "--every", "23", "--stop", "--journal"]);
}

#[test]
fn who_succeeds_in_a_checkpoint_and_is_killed_in_turn_leaves_nothing_in_doubt() {
    steps(&["--operation", "succeed", "--by", "calls", "--every", "11", "--kills", "5", "--journal"]);
}

#[test]
fn who_is_stopped_while_it_makes_a_segment_holds_up_nobody_and_does_no_harm_later() {
    steps(&["--operation", "supply", "--by", "calls", "--every", "2", "--stop"]);
}

#[test]
fn who_is_stopped_while_it_fills_a_segment_in_use_holds_up_nobody_and_does_no_harm_later() {
    steps(&["--operation", "fill", "--by", "calls", "--every", "2", "--stop"]);
}

#[test]
fn who_is_stopped_while_it_writes_or_flushes_the_log_holds_up_nobody_and_does_no_harm_later() {
    steps(&["--operation", "follow", "--by", "calls", "--stop"]);
    for operation in ["insert", "hand-over"] {
        steps(&["--operation", operation, "--by", "calls", "--stop"]);
        steps(&["--operation", operation, "--every", "797", "--stop"]);
    }
}

#[test]
fn who_is_stopped_while_it_mends_what_another_left_holds_up_nobody_and_does_no_harm_later() {
    steps(&["--operation", "mend", "--by", "calls", "--every", "5", "--stop"]);
}

#[test]
fn a_run_that_is_cut_short_says_what_it_did_and_how_to_do_the_rest() {
    let start = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sablecat-check"));
        command
            .args(["steps", "--operation", "insert"])
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().expect("started")
    };
    let said = |mut child: std::process::Child| {
        let mut said = String::new();
        child.stdout.take().expect("piped").read_to_string(&mut said).expect("read");
        (child.wait().expect("ended").code(), said)
    };
    // Asked to as soon as it says that it is at work.
    let mut child = start(&[]);
    let mut errors = BufReader::new(child.stderr.take().expect("piped"));
    let mut first = String::new();
    errors.read_line(&mut first).expect("read");
    assert!(Command::new("kill").arg(child.id().to_string()).status().expect("sent").success());
    let (code, cut) = said(child);
    if code == Some(NOT_PERMITTED) {
        return;
    }
    assert!(first.starts_with("insert: ") && first.ends_with("; 0 failed\n"), "{first}");
    assert!(code == Some(0) && cut.starts_with("insert: ") && cut.contains("the rest is --after "), "{cut}");
    // By its time.
    let (code, cut) = said(start(&["--minutes", "0"]));
    assert!(code == Some(0) && cut.contains("not begun: insert"), "{cut}");
    // The rest: the states after some are fewer than all.
    let states = |words: &[&str]| {
        let (code, said) = said(start(words));
        assert!(code == Some(0) && !said.contains("cut short"), "{said}");
        let states = said.split(" states").next().and_then(|before| before.rsplit(' ').next());
        states.and_then(|states| states.parse::<u64>().ok()).expect("a number of states")
    };
    assert!(states(&["--by", "calls"]) > states(&["--by", "calls", "--after", "3"]));
}

fn each(operations: &[&str], words: &[&str]) {
    for operation in operations {
        steps(&[&["--operation", operation], words].concat());
    }
}
