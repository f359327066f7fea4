//! `sablecat log`, as a shell sees it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::support::{Scratch, answer};
use serde_json::{Value, json};

#[test]
fn a_journal_is_printed_commit_by_commit() {
    let scratch = Scratch::new("log");
    scratch.run("put env colour blue");
    assert_eq!(scratch.run("log env"), answer(0, "", ""), "closed, and no journal is kept");
    scratch.run("journal env --on");
    scratch.run("put env colour green");
    scratch.run("put env name value --db other");
    scratch.run("del env colour");
    let printed = scratch.run("log env");
    assert_eq!((printed.code, printed.err.as_str()), (0, ""));
    let lines: Vec<(u64, &str)> = printed
        .out
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(lsn, rest)| (lsn.parse().expect("an LSN"), rest))
        .collect();
    let told: Vec<&str> = lines.iter().map(|(_, rest)| *rest).collect();
    let all = [
        "insert\tmain\tcolour\tgreen",
        "create database\tother",
        "insert\tother\tname\tvalue",
        "remove\tmain\tcolour",
    ];
    assert_eq!(told, all);
    let after = lines.iter().find(|(_, rest)| rest.starts_with("create")).expect("it was created").0;
    let rest = scratch.run(&format!("log env --json --from {after}"));
    let commits: Vec<Value> =
        rest.out.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert_eq!(
        commits[0]["changes"],
        json!([{"change": "insert", "database": "other", "key": "name", "value": "value"}])
    );
    assert_eq!(commits[1]["changes"], json!([{"change": "remove", "database": "main", "key": "colour"}]));
    assert_eq!(commits.len(), 2);
    let hex = scratch.run(&format!("log env --hex --from {after}"));
    assert!(hex.out.contains("\tinsert\tother\t6e616d65\t76616c7565\n"), "{}", hex.out);
    let refused = scratch.run("log env --from 1");
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    let none = scratch.run("log nothing");
    assert!(none.code == 2 && none.err.starts_with("sablecat: there is no environment in "), "{}", none.err);
}

#[test]
fn a_removed_range_is_one_line() {
    let scratch = Scratch::new("log-range");
    scratch.run("put env a alpha");
    scratch.run("journal env --on");
    let env = sablecat::Env::open(scratch.path().join("env")).expect("opened");
    let main = env.existing_database("main").expect("read").expect("there");
    assert_eq!(main.remove_range("a".."m").expect("removed"), 1);
    main.insert("z", "omega").expect("inserted");
    assert_eq!(main.remove_range("b"..).expect("removed"), 1);
    drop(main);
    env.close().expect("closed");
    let printed = scratch.run("log env").out;
    let told: Vec<&str> =
        printed.lines().filter_map(|line| line.split_once('\t')).map(|(_, rest)| rest).collect();
    let expected = ["remove range\tmain\t=a\t!m", "insert\tmain\tz\tomega", "remove range\tmain\t=b\t.."];
    assert_eq!(told, expected);
    let first = scratch.run("log env --json").out;
    let commit: Value = serde_json::from_str(first.lines().next().expect("a line")).expect("JSON");
    let (lower, upper) = (json!({"key": "a", "included": true}), json!({"key": "m", "included": false}));
    let range = json!({"change": "remove_range", "database": "main", "lower": lower, "upper": upper});
    assert_eq!(commit["changes"], json!([range]));
}

#[test]
fn who_follows_prints_what_another_process_commits_until_it_is_told_to_stop_or_nobody_reads() {
    let scratch = Scratch::new("follow");
    scratch.run("put env a alpha");
    let follow = || {
        Command::new(env!("CARGO_BIN_EXE_sablecat"))
            .args(["log", "env", "--follow"])
            .current_dir(scratch.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started")
    };
    let mut child = follow();
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    // It has the environment open once another finds it there.
    while scratch.json("processes env --json")["processes"].as_array().is_none_or(Vec::is_empty) {
        assert!(child.try_wait().expect("asked").is_none(), "it ended by itself");
    }
    let mut line = String::new();
    for (key, value) in [("b", "beta"), ("c", "gamma")] {
        assert_eq!(scratch.run(&format!("put env {key} {value}")), answer(0, "", ""));
        line.clear();
        out.read_line(&mut line).expect("read");
        assert!(line.ends_with(&format!("\tinsert\tmain\t{key}\t{value}\n")), "{line:?}");
    }
    // Not the signal of Ctrl-C, which a shell may have its background jobs ignore.
    let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("sent");
    assert!(told.success());
    let ended = child.wait_with_output().expect("ended");
    assert_eq!(
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned()),
        (Some(143), String::new())
    );

    let mut child = follow();
    drop(child.stdout.take());
    while child.try_wait().expect("asked").is_none() {
        scratch.run("put env d delta");
    }
    let ended = child.wait_with_output().expect("ended");
    assert_eq!(
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned()),
        (Some(0), String::new())
    );
}
