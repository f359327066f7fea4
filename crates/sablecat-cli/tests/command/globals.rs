//! `globals`: from node to node, nodes merged, nodes locked while a command runs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sablecat::globals::Globals;

use crate::kinds::{all_done, refused, with_all_kinds};
use crate::support::{Scratch, answer};
use serde_json::json;

/// An environment with some nodes, in the database `globals`.
fn with_nodes(test: &str) -> Scratch {
    let scratch = with_all_kinds(test);
    all_done(
        &scratch,
        &[
            "put env acct(42) gold --db globals",
            "put env acct(42,\"name\") Ada --db globals",
            "put env acct(7,\"name\") Grace --db globals",
            "put env acct(\"new\") 1 --db globals",
            "put env book 2 --db globals",
        ],
    );
    scratch
}

#[test]
fn a_node_says_what_it_has() {
    let scratch = with_nodes("globals-data");
    for (node, code, data) in [
        ("acct(42)", 0, "11\n"),
        ("^acct(7)", 0, "10\n"),
        ("acct(42,\"name\")", 0, "1\n"),
        ("acct", 0, "10\n"),
        ("acct(8)", 1, "0\n"),
    ] {
        assert_eq!(scratch.run(&format!("globals data env {node} --db globals")), answer(code, data, ""));
    }
    assert_eq!(
        scratch.json("globals data env acct(7) --db globals --json"),
        json!({"node": "^acct(7)", "value": false, "children": true})
    );
    refused(&scratch, "globals data env acct(7 --db globals", "as a reference to a node");
    refused(&scratch, "globals data env acct(7) --db lines", "and was asked for as one of globals");
    refused(&scratch, "globals data env acct(7) --db none", "there is no database none in env, only");
}

#[test]
fn one_goes_from_node_to_node() {
    let scratch = with_nodes("globals-steps");
    for (step, node, found) in [
        ("next", "acct(7)", "^acct(42)"),
        ("next", "acct(8)", "^acct(42)"),
        ("next", "acct(42)", "^acct(\"new\")"),
        ("next", "acct", "^book"),
        ("next", "acct(\"\")", "^acct(7)"),
        ("previous", "acct(42)", "^acct(7)"),
        ("previous", "book", "^acct"),
        ("next --value", "acct", "^acct(7,\"name\")"),
        ("next --value", "acct(7)", "^acct(7,\"name\")"),
        ("next --value", "acct(7,\"name\")", "^acct(42)"),
        ("previous --value", "acct(\"new\")", "^acct(42,\"name\")"),
    ] {
        let shown = scratch.run(&format!("globals {step} env {node} --db globals"));
        assert_eq!(shown, answer(0, &format!("{found}\n"), ""), "{step} {node}");
    }
    for (step, node) in
        [("next", "book"), ("previous", "acct(7)"), ("next --value", "acct(\"new\")"), ("previous", "acct")]
    {
        let shown = scratch.run(&format!("globals {step} env {node} --db globals"));
        assert_eq!(shown, answer(1, "", ""), "{step} {node}");
    }
    assert_eq!(
        scratch.json("globals next env acct(7) --db globals --json"),
        json!({"node": "^acct(42)", "found": true})
    );
    let children = |options: &str| scratch.run(&format!("globals children env {options} --db globals"));
    assert_eq!(children(""), answer(0, "^acct\n^book\n", ""));
    assert_eq!(children("acct"), answer(0, "^acct(7)\n^acct(42)\n^acct(\"new\")\n", ""));
    assert_eq!(children("acct --reverse --limit 2"), answer(0, "^acct(\"new\")\n^acct(42)\n", ""));
    assert_eq!(children("book"), answer(0, "", ""));
    assert_eq!(
        scratch.json("globals children env acct(42) --db globals --json"),
        json!([{"node": "^acct(42,\"name\")"}])
    );
}

#[test]
fn a_node_is_merged_into_another() {
    let scratch = with_nodes("globals-merge");
    all_done(&scratch, &["globals merge env acct(42) book(1) --db globals"]);
    let book = "^book\t2\n^book(1)\tgold\n^book(1,\"name\")\tAda\n";
    assert_eq!(scratch.run("scan env --prefix book --db globals"), answer(0, book, ""));
    assert_eq!(scratch.run("globals merge env acct(8) book --db globals"), answer(1, "", ""));
    assert_eq!(
        scratch.json("globals merge env acct(7) book(1) --db globals --json"),
        json!({"from": "^acct(7)", "to": "^book(1)", "found": true})
    );
    assert_eq!(scratch.run("get env book(1,\"name\") --db globals").out, "Grace");
    assert_eq!(scratch.run("get env book(1) --db globals").out, "gold", "what it had besides stays");
    refused(
        &scratch,
        "globals merge env acct acct(1) --db globals",
        "merging ^acct into ^acct(1): one of them is a descendant of the other",
    );
    all_done(&scratch, &["db create env other --holds globals"]);
    all_done(&scratch, &["globals merge env acct acct(1) --db other --from-db globals"]);
    assert_eq!(scratch.run("get env acct(1,7,\"name\") --db other").out, "Grace");
    refused(
        &scratch,
        "globals merge env acct b --db other --from-db lines",
        "was asked for as one of globals",
    );
    assert_eq!(scratch.json("verify env --json")["problems"], json!([]));
}

/// A file with a script for the shell.
fn script(scratch: &Scratch, name: &str, lines: &str) {
    fs::write(scratch.path().join(name), lines).expect("written");
}

/// A command that runs while the node is locked, once that has begun. It ends with its input.
fn holding(scratch: &Scratch, node: &str) -> Child {
    script(scratch, "hold", "echo held; exec cat >/dev/null");
    let mut child = Command::new(env!("CARGO_BIN_EXE_sablecat"))
        .args(["globals", "lock", "env", node, "--db", "globals", "--", "sh", "hold"])
        .current_dir(scratch.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("it has output"));
    out.read_line(&mut line).expect("read");
    assert_eq!(line, "held\n");
    child
}

#[test]
fn a_node_is_locked_while_a_command_runs_and_no_longer() {
    let scratch = with_nodes("globals-lock");
    let lock = |what: &str| scratch.run(&format!("globals lock env {what}"));
    script(&scratch, "end", "exit $1");
    assert_eq!(lock("acct(42) --db globals -- echo a -b"), answer(0, "a -b\n", ""));
    assert_eq!(lock("acct(42) --db globals -- sh end 7"), answer(7, "", ""));
    assert_eq!(lock("acct(42) --db globals -- sh end 1"), answer(1, "", ""));
    script(&scratch, "die", "kill -9 $$");
    assert_eq!(lock("acct(42) --db globals -- sh die"), answer(137, "", ""));
    // The environment can be used meanwhile, the node itself too.
    let bin = env!("CARGO_BIN_EXE_sablecat");
    script(&scratch, "use", &format!("exec {bin} put env 'acct(42)' silver --db globals"));
    assert_eq!(lock("acct(42) --db globals -- sh use"), answer(0, "", ""));
    assert_eq!(scratch.run("get env acct(42) --db globals").out, "silver");

    let mut held = holding(&scratch, "acct(42)");
    for node in ["acct(42)", "acct(42,\"name\")", "acct"] {
        let said = format!("sablecat: ^{node} is locked by another owner; the command was not run\n");
        for time in ["0", "20ms"] {
            let asked = format!("{node} --db globals --timeout {time} -- echo run");
            assert_eq!(lock(&asked), answer(1, "", &said), "{asked}");
        }
    }
    assert_eq!(lock("acct(7) --db globals --timeout 0 -- echo run"), answer(0, "run\n", ""));
    // One waits for as long as it takes.
    drop(held.stdin.take());
    assert_eq!(lock("acct --db globals -- echo run"), answer(0, "run\n", ""));
    assert_eq!(held.wait().expect("ended").code(), Some(0));

    refused(&scratch, "globals lock env acct --db globals -- ./absent", "running ./absent: No such file");
    refused(&scratch, "globals lock env acct --db globals", "<COMMAND>...");
    refused(&scratch, "globals lock env acct --db lines -- true", "was asked for as one of globals");
    refused(&scratch, "globals lock none acct -- true", "there is no environment in");
}

#[test]
fn the_lock_of_who_is_killed_is_free_and_who_waits_can_be_told_to_stop() {
    let scratch = with_nodes("globals-lock-killed");
    let mut held = holding(&scratch, "acct");
    held.kill().expect("killed");
    held.wait().expect("ended");
    assert_eq!(
        scratch.run("globals lock env acct --db globals --timeout 1m -- echo run"),
        answer(0, "run\n", "")
    );
    drop(held);

    let env = sablecat::Env::builder().shared(true).open(scratch.path().join("env")).expect("opened");
    let globals = Globals::open(&env, "globals").expect("opened");
    let acct = globals.global("acct").expect("a name");
    let mut ours = env.locker().expect("an owner");
    assert!(acct.lock_within(&mut ours, Duration::ZERO).expect("locked"));
    let mut waits = Command::new(env!("CARGO_BIN_EXE_sablecat"))
        .args(["globals", "lock", "env", "acct", "--db", "globals", "--", "echo", "run"])
        .current_dir(scratch.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    while !env.locks().iter().any(|lock| lock.pid == waits.id() && lock.waits_for.is_some()) {
        assert!(waits.try_wait().expect("looked").is_none(), "it waits");
        std::thread::yield_now();
    }
    let told = Command::new("kill").args(["-TERM", &waits.id().to_string()]).status().expect("told");
    assert!(told.success());
    let ended = waits.wait_with_output().expect("ended");
    assert_eq!((ended.status.code(), &ended.stdout[..]), (Some(143), &b""[..]));
}
