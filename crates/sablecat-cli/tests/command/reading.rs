//! Commands that only look write nothing, and a command that is told to stop leaves nothing behind.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use crate::support::{Scratch, answer};

/// What is in a directory and below: with lengths and times.
fn there(directory: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        found.insert(entry.path(), (metadata.len(), metadata.modified().unwrap()));
        if metadata.is_dir() {
            found.extend(there(&entry.path()));
        }
    }
    found
}

/// The shared memory that there is for the environment in a directory.
fn region(directory: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(directory).unwrap();
    let path = PathBuf::from(format!("/dev/shm/sablecat-{:x}-{:x}", metadata.dev(), metadata.ino()));
    path.exists().then_some(path)
}

#[test]
fn reading_an_environment_that_was_closed_writes_nothing() {
    let scratch = Scratch::new("writes-nothing");
    scratch.run("put env k v");
    let env = scratch.path().join("env");
    let before = there(&env);
    for command in [
        "get env k",
        "scan env",
        "stat env",
        "verify env",
        "locks env",
        "processes env",
        "get env k --json",
        "recover env --list",
        "recover env",
        "log env",
    ] {
        let told = scratch.run(command);
        assert_eq!((told.code, told.err.as_str()), (0, ""), "{command}");
        assert_eq!(there(&env), before, "{command}");
        assert_eq!(region(&env), None, "{command}");
    }
    assert_eq!(scratch.run("get env absent"), answer(1, "", ""));
    assert_eq!(there(&env), before);
}

#[test]
fn reading_an_environment_that_was_killed_or_is_open_shows_all_of_it() {
    let scratch = Scratch::new("all-of-it");
    scratch.run("put env k v");
    let mut other = Command::new(env!("CARGO_BIN_EXE_sablecat"))
        .args(["scan", "env"])
        .current_dir(scratch.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    other.wait().unwrap();
    let open = sablecat::Env::builder().shared(true).open(scratch.path().join("env")).unwrap();
    open.existing_database("main").unwrap().unwrap().insert("k", "newer").unwrap();
    assert_eq!(scratch.run("get env k").out, "newer");
    assert_eq!(scratch.run("get env k --read-only").out, "v");
    open.close().unwrap();
    assert_eq!(scratch.run("get env k --read-only").out, "newer");
}

/// It writes to a pipe that nobody empties, so it is in the middle of things.
#[test]
fn a_command_that_is_told_to_stop_closes_the_environment() {
    let scratch = Scratch::new("told");
    let env = scratch.path().join("env");
    let many = sablecat::Env::builder().shared(true).open(&env).unwrap();
    let database = many.database("main").unwrap();
    (0..5000u32).for_each(|n| database.insert(n.to_be_bytes(), [b'v'; 1000]).unwrap());
    drop(database);
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        if is_ignored(code - 128) {
            continue;
        }
        // Held open, so that the command joins.
        let mut scan = Command::new(env!("CARGO_BIN_EXE_sablecat"))
            .args(["scan", "env"])
            .current_dir(scratch.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(scan.stdout.take().unwrap());
        out.read_line(&mut String::new()).unwrap();
        let sent = Command::new("kill").args([format!("-{signal}"), scan.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let rest = out.lines().count();
        assert_eq!(scan.wait().unwrap().code(), Some(code));
        assert!(rest < 4999, "{rest} more lines");
        assert_eq!(
            scratch.json("processes env --json")["processes"].as_array().map(Vec::len),
            Some(1),
            "it has left"
        );
    }
    many.close().unwrap();
    assert_eq!(region(&env), None);
    assert_eq!(fs::read_dir(env.join("log")).unwrap().count(), 0);
}

/// Whether this process has come to ignore a signal, as the background jobs of some shells ignore Ctrl-C and
/// `nohup` the end of a terminal, and what it starts with it.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() >> (signal - 1) & 1 != 0
}

/// A line of what `stat --watch` prints.
fn rates(out: &mut impl BufRead) -> serde_json::Value {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn who_watches_sees_what_others_do_and_writes_nothing_until_interrupted() {
    let scratch = Scratch::new("watch");
    scratch.run("put env k v");
    let env = scratch.path().join("env");
    let before = there(&env);
    for (signal, number) in [("TERM", 15), ("INT", 2), ("HUP", 1)] {
        if is_ignored(number) {
            continue;
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_sablecat"))
            .args(["stat", "env", "--json", "--watch", "0.05"])
            .current_dir(scratch.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let closed = rates(&mut out);
        if signal == "TERM" {
            assert_eq!(
                (&closed["commits"], &closed["processes"]),
                (&0.0.into(), &serde_json::Value::Null),
                "{closed}"
            );
            assert_eq!(
                (there(&env), region(&env)),
                (before.clone(), None),
                "nobody has it open, nor has who watches"
            );
            let open = sablecat::Env::builder().shared(true).open(&env).unwrap();
            let records = open.existing_database("main").unwrap().unwrap();
            let seen = loop {
                (0..10u8).for_each(|n| records.insert([n], "value").unwrap());
                let seen = rates(&mut out);
                if seen["commits"].as_f64().unwrap() > 0.0 {
                    break seen;
                }
            };
            assert_eq!(seen["processes"], 1, "who watches is none of them: {seen}");
            assert!(
                seen["log_bytes"].as_f64().unwrap() > 0.0 && seen["seconds"].as_f64().unwrap() >= 0.05,
                "{seen}"
            );
            let told = scratch.json("stat env --json");
            let (commits, counted) = (open.counters().commits, &told["counters"]);
            assert_eq!(
                (counted["commits"].as_u64(), counted["processes"].as_u64()),
                (Some(commits), Some(1)),
                "{told}"
            );
            assert_eq!(told["sizes"]["main"]["records"], 11);
            let shown = scratch.run("stat env main");
            assert!(
                shown.out.contains("pages found in the cache") && shown.out.contains("\nDatabases\n"),
                "{}",
                shown.out
            );
            drop(records);
            open.close().unwrap();
        }
        assert!(
            Command::new("kill")
                .args([&format!("-{signal}"), &child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        let ended = child.wait_with_output().unwrap();
        let code = 128 + ["", "HUP", "INT"].iter().position(|name| *name == signal).unwrap_or(15) as i32;
        assert_eq!(
            (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned()),
            (Some(code), String::new())
        );
    }
    let told = scratch.json("stat env --json");
    assert_eq!(told["counters"], serde_json::Value::Null, "nobody has it open");
    let missing = scratch.run("stat env main other");
    assert!(
        missing.code == 2 && missing.err.contains("no database other in env, only main"),
        "{}",
        missing.err
    );
}
