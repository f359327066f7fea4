//! Every system that this build has, in every mode, through the program itself: what is written is there,
//! what is counted is right, and a wrong value is seen.
//!
//! Each test starts the program as its users do, one process per system, and speaks the line protocol.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

const RECORDS: u64 = 10_000;

/// Fewer where each costs a flush or more of the device.
const RECORDS_SYNC: u64 = 500;

/// Its records are taken.
const QUEUE: &str = "bdb-queue";

/// Their records are many values of few keys, inserted and scanned.
const DUPLICATES: [&str; 2] = ["lmdb-dups", "redb-dups"];

/// A `serve` process; ended by closing its input.
struct Served {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Served {
    fn start(system: &str) -> Served {
        let mut child = program(&["serve", "--system", system])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Served { child, requests, answers }
    }

    fn ask(&mut self, request: &Value) -> Value {
        writeln!(self.requests.as_mut().unwrap(), "{request}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{request} was answered by {line:?}: {error}"))
    }

    /// Asks, and insists on so many operations without an error.
    fn ask_all(&mut self, request: &Value, ops: u64) -> Value {
        let answer = self.ask(request);
        assert_eq!(
            (&answer["ops"], &answer["errors"]),
            (&json!(ops), &json!(0)),
            "{request} was answered by {answer}"
        );
        answer
    }

    /// Ends it as it stands.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn end(mut self) {
        drop(self.requests.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// A directory below cargo's own for test files, empty at the start.
fn fresh_dir(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sablecat-peers"));
    command.args(arguments);
    command
}

/// The systems of this build that keep records to be read, each with its modes.
fn systems() -> Vec<(String, Vec<String>)> {
    let output = program(&["list"]).output().unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = list["systems"].as_array().unwrap();
    for system in all.iter().filter(|system| system["available"] == json!(false)) {
        eprintln!("skipped: {}: {}", system["system"], system["reason"]);
    }
    let name = |system: &Value| system["system"].as_str().unwrap().to_owned();
    let modes = |system: &Value| system["modes"].as_object().unwrap().keys().cloned().collect();
    let available = all.iter().filter(|system| system["available"] == json!(true));
    let keeps_records = |name: &str| !matches!(name, "device" | QUEUE) && !DUPLICATES.contains(&name);
    let available = available.filter(|system| keeps_records(&name(system)));
    available.map(|system| (name(system), modes(system))).collect()
}

/// For so many threads, or for two where somebody keeps house beside them.
fn open(dir: &PathBuf, mode: &str, threads: u32) -> Value {
    let threads = if mode == "Background" { threads.max(2) } else { threads };
    json!({"op": "open", "dir": dir, "mode": mode, "cache_bytes": 32 << 20, "threads": threads})
}

fn run(kind: &str, keys: &str, threads: u32) -> Value {
    run_of(RECORDS, kind, keys, threads)
}

fn run_of(records: u64, kind: &str, keys: &str, threads: u32) -> Value {
    json!({"op": "run", "kind": kind, "keys": keys, "records": records, "threads": threads, "seed": 5})
}

fn records_for(mode: &str) -> u64 {
    if mode == "Sync" { RECORDS_SYNC } else { RECORDS }
}

#[test]
fn every_system_keeps_what_it_is_given_in_every_mode() {
    for (system, modes) in systems() {
        for mode in &modes {
            let records = records_for(mode);
            for keys in ["sequential", "random"] {
                let dir = fresh_dir(&format!("{system}-{mode}-{keys}"));
                let mut served = Served::start(&system);
                served.ask_all(&open(&dir, mode, 1), 0);
                served.ask_all(&run_of(records, "write", keys, 1), records);
                served.ask_all(&run_of(records, "read", keys, 1), records);
                served.ask_all(&run_of(records, "bulk", keys, 1), records);
                served.ask_all(&run_of(records, "update", keys, 1), records);
                let read = served.ask_all(&run_of(records, "read", keys, 1), records);
                assert!(read["seconds"].as_f64().unwrap() > 0.0 && read["rss_mb"].as_f64().unwrap() > 0.0);
                served.ask_all(&run_of(records, "bulk", keys, 1), records);
                let closed = served.ask(&json!({"op": "close"}));
                assert!(closed["disk_mb"].as_f64().unwrap() > 0.01, "{system} in {mode}: {closed}");
                served.end();
                std::fs::remove_dir_all(dir).unwrap();
            }
        }
    }
}

#[test]
fn what_is_removed_is_missing_until_it_is_written_again() {
    for (system, modes) in systems() {
        for mode in &modes {
            let records = records_for(mode);
            let dir = fresh_dir(&format!("{system}-{mode}-removed"));
            let mut served = Served::start(&system);
            let threads = if mode == "DS" { 1 } else { 3 };
            served.ask_all(&open(&dir, mode, threads), 0);
            let mut run = |kind: &str, visits: u64, ops: u64| {
                let mut request = run_of(
                    records,
                    kind,
                    "random",
                    if matches!(kind, "load" | "bulk") { 1 } else { threads },
                );
                request["shape"] =
                    json!({"key_bytes": 64, "value_bytes_min": 64, "value_bytes_max": 300, "scattered": 1});
                request["together"] = json!(10);
                request["visits"] = json!(visits);
                served.ask_all(&request, ops);
            };
            run("load", 0, records);
            run("read", 0, records);
            run("update", 100, 100);
            run("read", 0, records);
            run("delete", 200, 200);
            run("bulk", 0, records - 200);
            run("write", 200, 200);
            run("bulk", 0, records);
            run("delete", 0, records);
            run("bulk", 0, 0);
            run("write", 0, records);
            run("read", 0, records);
            served.end();
            std::fs::remove_dir_all(dir).unwrap();
        }
    }
}

#[test]
fn every_system_does_what_a_mix_says_and_keeps_what_it_inserts() {
    for (system, modes) in systems() {
        for mode in modes.iter().filter(|mode| *mode != "DS") {
            let records = records_for(mode);
            let dir = fresh_dir(&format!("{system}-{mode}-mix"));
            let mut served = Served::start(&system);
            let threads = 3;
            served.ask_all(&open(&dir, mode, threads), 0);
            let request = |kind: &str, threads| {
                let mut request = run_of(records, kind, "random", threads);
                request["shape"] =
                    json!({"key_bytes": 24, "value_bytes_min": 100, "value_bytes_max": 300, "scattered": 1});
                request
            };
            served.ask_all(&request("load", 1), records);
            // Hash tables have no order.
            let scan = if system.ends_with("-hash") { 0 } else { 20 };
            let mut mixed = request("mix", threads);
            mixed["mix"] = json!({"read": 40 - scan, "update": 20, "insert": 20, "scan": scan, "modify": 20,
                "pick": "latest", "operations": records});
            served.ask_all(&mixed, records);
            let all = served.ask(&request("bulk", 1));
            let more = all["ops"].as_u64().unwrap() - records;
            assert!(more > records / 8 && more < records / 4, "{system} in {mode}: {all}");
            assert_eq!(all["errors"], json!(0), "{system} in {mode}: {all}");
            served.end();
            std::fs::remove_dir_all(dir).unwrap();
        }
    }
}

#[test]
fn every_operation_is_timed_beside_checkpoints_too() {
    for (system, modes) in systems() {
        for mode in modes.iter().filter(|mode| *mode != "DS") {
            let dir = fresh_dir(&format!("{system}-{mode}-timed"));
            let mut served = Served::start(&system);
            served.ask_all(&open(&dir, mode, 3), 0);
            let shape =
                json!({"key_bytes": 24, "value_bytes_min": 100, "value_bytes_max": 100, "scattered": 1});
            let mut load = run_of(RECORDS_SYNC, "load", "random", 1);
            load["shape"] = shape.clone();
            served.ask_all(&load, RECORDS_SYNC);
            let mut mix = run_of(RECORDS_SYNC, "mix", "random", 3);
            mix["shape"] = shape;
            mix["mix"] = json!({"read": 50, "update": 50, "insert": 0, "scan": 0, "modify": 0,
                                "pick": "uniform", "operations": 3_000_000});
            (mix["timed"], mix["checkpoint_ms"], mix["seconds_max"]) = (json!(true), json!(60), json!(0.4));
            let answer = served.ask(&mix);
            assert_eq!(answer["errors"], 0, "{system} {mode}: {answer}");
            let times = &answer["times"];
            let pairs = ["reads", "writes"].iter().flat_map(|kind| times[kind].as_array().unwrap());
            let counts: u64 = pairs.clone().map(|pair| pair[1].as_u64().unwrap()).sum();
            assert_eq!(counts, answer["ops"].as_u64().unwrap(), "{system} {mode}: {answer}");
            let longest = pairs.map(|pair| pair[0].as_u64().unwrap()).max().unwrap();
            let told = times["longest"]["ns"].as_u64().unwrap();
            assert!(longest >= told && longest <= told + told / 100, "{system} {mode}: {answer}");
            assert!(times["checkpoints"].as_u64().unwrap() >= 1, "{system} {mode}: {answer}");
            served.end();
            std::fs::remove_dir_all(dir).unwrap();
        }
    }
}

#[test]
fn a_lookup_and_an_update_are_one_transaction_on_request() {
    for (system, modes) in systems() {
        if system == "leveldb" || system.starts_with("tkrzw") {
            continue;
        }
        for mode in modes.iter().filter(|mode| *mode != "DS" && *mode != "Unlogged") {
            let dir = fresh_dir(&format!("{system}-{mode}-whole"));
            let mut served = Served::start(&system);
            let mut opening = open(&dir, mode, 4);
            opening["transactions"] = json!(true);
            served.ask_all(&opening, 0);
            let shape =
                json!({"key_bytes": 16, "value_bytes_min": 10, "value_bytes_max": 10, "scattered": 1});
            // Few, so that threads meet.
            let mut run = run_of(20, "load", "random", 1);
            run["shape"] = shape;
            served.ask_all(&run, 20);
            (run["kind"], run["threads"]) = (json!("mix"), json!(4));
            run["mix"] = json!({"read": 0, "update": 0, "insert": 0, "scan": 0, "modify": 100,
                                "pick": "uniform", "operations": records_for(mode), "whole": true});
            served.ask_all(&run, records_for(mode));
            run["mix"] = Value::Null;
            (run["kind"], run["threads"]) = (json!("bulk"), json!(1));
            served.ask_all(&run, 20);
            served.end();
            std::fs::remove_dir_all(dir).unwrap();
        }
    }
}

#[test]
fn a_queue_gives_back_what_it_is_given_in_order_and_once() {
    let output = program(&["list"]).output().unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = list["systems"].as_array().unwrap().iter().find(|system| system["system"] == QUEUE).unwrap();
    let Some(modes) = found["modes"].as_object().filter(|_| found["available"] == json!(true)) else {
        return eprintln!("skipped: {QUEUE}: {}", found["reason"]);
    };
    for mode in modes.keys() {
        let records = records_for(mode);
        let dir = fresh_dir(&format!("{QUEUE}-{mode}"));
        let mut served = Served::start(QUEUE);
        served.ask_all(&open(&dir, mode, 1), 0);
        served.ask_all(&run_of(records, "write", "sequential", 1), records);
        served.ask_all(&run_of(records, "take", "sequential", 1), records);
        let again = served.ask(&run_of(records, "take", "sequential", 1));
        assert!(again["error"].is_string(), "{again}");
        served.end();
        std::fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn duplicates_are_all_found_in_a_scan() {
    let output = program(&["list"]).output().unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let systems = list["systems"].as_array().unwrap();
    for name in DUPLICATES {
        let found = systems.iter().find(|system| system["system"] == name).unwrap();
        if found["available"] == json!(false) {
            eprintln!("skipped: {name}: {}", found["reason"]);
            continue;
        }
        for mode in ["DS", "NoSync", "WriteNoSync"] {
            let dir = fresh_dir(&format!("{name}-{mode}"));
            let mut served = Served::start(name);
            served.ask(&open(&dir, mode, 1));
            served.ask_all(&run("write", "random", 1), RECORDS);
            served.ask_all(&run("bulk", "random", 1), RECORDS);
            served.ask(&json!({"op": "close"}));
            served.end();
            std::fs::remove_dir_all(dir).unwrap();
        }
    }
}

#[test]
fn crates_are_there_without_any_library() {
    let output = program(&["list"]).output().unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    for name in ["redb", "redb-dups", "fjall"] {
        let found =
            list["systems"].as_array().unwrap().iter().find(|system| system["system"] == name).unwrap();
        let version = found["version"].as_str().filter(|version| version.split('.').count() == 3);
        // They can be left out by choice.
        assert!(version.is_some() || found["reason"].as_str().unwrap().starts_with("left out"), "{found}");
    }
}

#[test]
fn what_crates_have_committed_outlives_a_killed_process_if_that_is_asked() {
    let all = systems();
    for (system, _) in all.iter().filter(|(system, _)| matches!(system.as_str(), "redb" | "fjall")) {
        for mode in ["WriteNoSync", "Sync"] {
            let records = records_for(mode);
            let dir = fresh_dir(&format!("{system}-{mode}-killed"));
            let mut killed = Served::start(system);
            killed.ask_all(&open(&dir, mode, 1), 0);
            killed.ask_all(&run_of(records, "write", "random", 1), records);
            killed.kill();
            let mut next = Served::start(system);
            next.ask_all(&open(&dir, mode, 1), 0);
            next.ask_all(&run_of(records, "bulk", "random", 1), records);
            next.end();
            std::fs::remove_dir_all(dir).unwrap();
        }
    }
}

#[test]
fn what_is_no_queue_has_no_records_taken() {
    let Some((system, _)) = systems().into_iter().next() else { return };
    let dir = fresh_dir("no-queue");
    let mut served = Served::start(&system);
    served.ask_all(&open(&dir, "NoSync", 1), 0);
    served.ask_all(&run("write", "sequential", 1), RECORDS);
    let taken = served.ask(&run("take", "sequential", 1));
    assert!(taken["errors"].as_u64().is_some_and(|errors| errors > 0), "{taken}");
    served.end();
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn every_system_works_with_several_threads() {
    for (system, modes) in systems() {
        for mode in modes.iter().filter(|mode| *mode != "DS") {
            let records = records_for(mode);
            let dir = fresh_dir(&format!("{system}-{mode}-threads"));
            let mut served = Served::start(&system);
            served.ask_all(&open(&dir, mode, 4), 0);
            served.ask_all(&run_of(records, "write", "random", 4), records);
            served.ask_all(&run_of(records, "update", "sequential", 3), records);
            served.ask_all(&run_of(records, "read", "random", 4), records);
            served.ask_all(&run_of(records, "bulk", "random", 1), records);
            served.end();
            std::fs::remove_dir_all(dir).unwrap();
        }
    }
}

#[test]
fn a_loaded_store_is_found_again_by_another_process() {
    for (system, modes) in systems() {
        // Berkeley DB's log in memory ends with its process, and a database that refers to it with it.
        for mode in modes.iter().filter(|mode| *mode != "Memory") {
            let records = records_for(mode);
            let dir = fresh_dir(&format!("{system}-{mode}-again"));
            let mut first = Served::start(&system);
            first.ask_all(&open(&dir, mode, 1), 0);
            first.ask_all(&run_of(records, "load", "random", 1), records);
            first.end();
            let mut second = Served::start(&system);
            second.ask_all(&open(&dir, mode, 1), 0);
            second.ask_all(&run_of(records, "read", "random", 1), records);
            second.ask_all(&run_of(records, "update", "random", 1), records);
            second.end();
            let mut third = Served::start(&system);
            third.ask_all(&open(&dir, mode, 1), 0);
            third.ask_all(&run_of(records, "bulk", "random", 1), records);
            third.end();
            std::fs::remove_dir_all(dir).unwrap();
        }
    }
}

#[test]
fn data_store_runs_go_through_cursors_on_request() {
    for (system, _) in systems() {
        let dir = fresh_dir(&format!("{system}-cursor"));
        let with_cursor = |kind: &str| {
            let mut request = run(kind, "random", 1);
            request["cursor"] = json!(true);
            request
        };
        let mut served = Served::start(&system);
        served.ask_all(&open(&dir, "DS", 1), 0);
        served.ask_all(&with_cursor("write"), RECORDS);
        served.ask_all(&with_cursor("update"), RECORDS);
        served.ask_all(&with_cursor("read"), RECORDS);
        served.ask_all(&run("read", "random", 1), RECORDS);
        served.end();
        std::fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn a_wrong_value_is_counted_as_an_error() {
    for (system, _) in systems() {
        let dir = fresh_dir(&format!("{system}-wrong"));
        let mut served = Served::start(&system);
        served.ask_all(&open(&dir, "DS", 1), 0);
        served.ask_all(&run("load", "sequential", 1), RECORDS);
        for kind in ["read", "bulk"] {
            let mut expecting_another = run(kind, "random", 1);
            expecting_another["version"] = json!(1);
            let answer = served.ask(&expecting_another);
            assert_eq!(
                (&answer["ops"], &answer["errors"]),
                (&json!(RECORDS), &json!(RECORDS)),
                "{system}: {answer}"
            );
            assert!(answer["first_error"].as_str().unwrap().contains("not the value"), "{system}: {answer}");
        }
        served.ask_all(&run("read", "random", 1), RECORDS);
        served.end();
        std::fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn what_cannot_be_checked_is_refused() {
    let Some((system, _)) = systems().into_iter().next() else {
        return;
    };
    let dir = fresh_dir("refused");
    let mut served = Served::start(&system);
    let refused = |served: &mut Served, request: Value, why: &str| {
        let answer = served.ask(&request);
        assert!(
            answer["error"].as_str().is_some_and(|error| error.contains(why)),
            "{request} was answered by {answer}"
        );
    };
    refused(&mut served, json!({"op": "close"}), "no store is open");
    refused(&mut served, json!({"op": "dance"}), "request");
    served.ask_all(&open(&dir, "NoSync", 1), 0);
    refused(&mut served, run("read", "random", 1), "the store holds 0");
    refused(&mut served, run("write", "random", 2), "opened for 1");
    served.ask_all(&run("write", "random", 1), RECORDS);
    refused(&mut served, run("write", "random", 1), "not empty");
    let mut short = run("update", "random", 1);
    short["seconds_max"] = json!(1e-9);
    assert!(served.ask(&short)["ops"].as_u64().unwrap() < RECORDS);
    refused(&mut served, run("read", "random", 1), "stopped early");
    served.ask_all(&run("update", "random", 1), RECORDS);
    served.ask_all(&run("read", "random", 1), RECORDS);
    served.end();
    let mut other = Served::start(&system);
    refused(&mut other, open(&dir, "DS", 1), "NoSync");
    other.end();
}

#[test]
fn the_device_is_overwritten_and_nothing_else() {
    let dir = fresh_dir("device");
    let mut served = Served::start("device");
    assert!(served.ask(&open(&dir, "DS", 1))["skipped"].is_string());
    served.ask_all(&open(&dir, "Sync", 1), 0);
    let answer = served.ask_all(&run("write", "sequential", 1), RECORDS / 2);
    assert!(answer["note"].as_str().unwrap().contains("fdatasync"), "{answer}");
    assert!(served.ask(&run("read", "sequential", 1))["error"].is_string());
    served.end();
}

#[test]
fn an_unknown_system_is_skipped_with_a_line() {
    let output = program(&["serve", "--system", "btrieve"]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "skipped: btrieve: no such system\n");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer, json!({"skipped": "btrieve: no such system"}));
    assert_eq!(program(&["serve"]).output().unwrap().status.code(), Some(2));
}
