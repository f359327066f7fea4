//! `sablecat papers`, small: the tables, the JSON, peers that are there, absent or wrong.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::{Answer, Scratch};
use serde_json::Value;

pub(crate) const TINY: &str = "--quick --records 500 --size 1M --dir work";

/// A program that lists one peer, and serves it by a shell command.
pub(crate) fn peers(scratch: &Scratch, serve: &str) -> PathBuf {
    let path = scratch.path().join("sablecat-peers");
    let list = concat!(
        r#"{"systems":[{"system":"twin","available":true,"version":"1.0"},"#,
        r#"{"system":"ghost","available":false,"reason":"not here"}]}"#
    );
    fs::write(&path, format!("#!/bin/sh\nif [ \"$1\" = list ]; then echo '{list}'; exit; fi\n{serve}\n"))
        .unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn labels(report: &Value) -> BTreeSet<String> {
    let word = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    let rows = report["rows"].as_array().unwrap();
    rows.iter().map(|row| format!("{} {} {}", word(row, "mode"), word(row, "op"), row["threads"])).collect()
}

/// The one report of what `--json -` prints.
fn only_suite(out: &str) -> Value {
    let results: Value = serde_json::from_str(out).unwrap_or_else(|error| panic!("{error}: {out}"));
    assert_eq!(results["finished"], true, "{results}");
    let [report] = &results["suites"].as_array().unwrap()[..] else { panic!("{results}") };
    report.clone()
}

#[test]
fn all_suites_run_without_peers() {
    let scratch = Scratch::new("all");
    let done = scratch.run(&format!("papers {TINY} --json figures.json"));
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{}", done.out);
    assert!(done.out.contains("Peers are skipped"), "{}", done.out);
    for shown in [
        "wp43, sequential keys",
        "wp43, random keys",
        "wp11g, 50 batches of 10 records",
        "16 batches are updated, deleted and inserted again",
        "tpcb, 5 branches, 50 tellers, 500 accounts",
        "wisconsin, relations of 500 rows",
        "soliddata, 500 records",
        "bangdb, normal: 500 records",
        "bangdb, stressed: 500 records",
        "ycsb, 500 records of 1024 bytes",
        "latency, one in a thousand takes longer: 500 records",
        "recovery: single-record transactions in the log of a killed process",
        "opening an environment of 1 MB",
        "checkpoints of 500 records of 40 bytes",
        "deadlocks: how long the call takes",
        "50 processes that attach to a shared environment of 1 MB",
        "1,002,200",
        "steps of 3n+1 sequences",
    ] {
        assert!(done.out.contains(shown), "{shown} in {}", done.out);
    }
    assert_eq!(fs::read_dir(scratch.path().join("work")).unwrap().count(), 0, "the environments are removed");

    let results: Value =
        serde_json::from_slice(&fs::read(scratch.path().join("figures.json")).unwrap()).unwrap();
    let reports = &results["suites"];
    let suites: Vec<_> =
        reports.as_array().unwrap().iter().map(|report| report["suite"].as_str().unwrap()).collect();
    let expected = ["wp43", "wp11g", "tpcb", "wisconsin", "soliddata", "bangdb", "ycsb", "latency", "engine"];
    assert_eq!(suites, [&expected[..], &["threen1"]].concat());
    let expected = [
        "DS read 1",
        "DS write 1",
        "DS update 1",
        "DS bulk 1",
        "TDS read 1",
        "Memory write 1",
        "NoSync write 1",
        "WriteNoSync write 1",
        "Sync write 1",
        "Sync write 4",
        "Sync write 16",
        "Sync write 50",
    ];
    assert_eq!(labels(&reports[0]), expected.into_iter().map(str::to_owned).collect());
    for row in reports[0]["rows"].as_array().unwrap() {
        assert!(matches!(row["system"].as_str(), Some("sablecat" | "device")), "{row}");
        assert!(row["ops_per_s"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["runs"].as_array().unwrap().len(), 3, "{row}");
        assert_eq!((row["median_of"].as_u64(), row["errors"].as_u64()), (Some(3), Some(0)), "{row}");
        assert!(row["rss_mb"].as_f64().unwrap() > 0.0 && row["disk_mb"].as_f64().is_some(), "{row}");
    }
    assert!(results["machine"]["cpus"].as_u64().unwrap() >= 1);
}

#[test]
fn every_configuration_of_the_second_paper_is_measured_beside_a_peer() {
    let scratch = Scratch::new("wp11g");
    let program = peers(&scratch, &format!("exec {} papers-serve sablecat", env!("CARGO_BIN_EXE_sablecat")));
    let arguments = "papers wp11g --quick --records 95 --dir work --shared --vs twin --json -";
    let done = scratch.run_with(arguments, b"", &[("SABLECAT_PEERS", &program)]);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{}", done.out);
    let report = only_suite(&done.out);
    let steps = |memory: &str| ["insert", "fetch", "delete", "update"].map(|step| format!("{step}{memory}"));
    let mut expected = BTreeSet::new();
    for mode in ["DS", "WriteNoSync", "NoSync", "Memory"] {
        expected.extend(steps("").map(|step| format!("{mode} {step} 1")));
    }
    for threads in [1, 4, 16] {
        expected.extend(steps("").map(|step| format!("Sync {step} {threads}")));
    }
    if !report["notes"].to_string().contains("RAMDISK is skipped") {
        expected.extend(steps(", RAM disk").map(|step| format!("Sync {step} 1")));
    }
    assert_eq!(labels(&report), expected);
    let mut systems = BTreeSet::new();
    for row in report["rows"].as_array().unwrap() {
        systems.insert(row["system"].as_str().unwrap());
        assert_eq!((row["records"].as_u64(), row["errors"].as_u64()), (Some(100), Some(0)), "{row}");
        assert!(row["mean"].as_f64().unwrap() > 0.0 && row["deviation"].as_f64().unwrap() >= 0.0, "{row}");
    }
    assert_eq!(systems, BTreeSet::from(["sablecat", "sablecat-shared", "twin"]));
    assert_eq!(fs::read_dir(scratch.path().join("work")).unwrap().count(), 0);
}

#[test]
fn every_workload_of_ycsb_is_measured_by_one_thread_and_by_more() {
    let scratch = Scratch::new("ycsb");
    let program = peers(&scratch, &format!("exec {} papers-serve sablecat", env!("CARGO_BIN_EXE_sablecat")));
    let arguments = "papers ycsb --quick --records 300 --dir work --shared --vs twin --json -";
    let done = scratch.run_with(arguments, b"", &[("SABLECAT_PEERS", &program)]);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{}", done.out);
    let report = only_suite(&done.out);
    let mut expected = BTreeSet::new();
    for step in ["load", "A", "A, uniform", "B", "C", "C, uniform", "D", "E", "F"] {
        expected.extend([1, 2, 4].map(|threads| format!("WriteNoSync {step} {threads}")));
    }
    assert_eq!(labels(&report), expected);
    let rows = report["rows"].as_array().unwrap();
    let systems: BTreeSet<_> = rows.iter().map(|row| row["system"].as_str().unwrap()).collect();
    assert_eq!(systems, BTreeSet::from(["sablecat", "sablecat-shared", "twin"]));
    assert_eq!(rows.len(), 3 * 27);
    assert!(rows.iter().all(|row| row["errors"] == 0), "{report}");
}

#[test]
fn both_benchmarks_of_the_solid_state_device_run_on_disk_and_in_memory() {
    let scratch = Scratch::new("soliddata");
    let program = peers(&scratch, &format!("exec {} papers-serve sablecat", env!("CARGO_BIN_EXE_sablecat")));
    let arguments = "papers soliddata --quick --records 300 --dir work --vs twin --json -";
    let done = scratch.run_with(arguments, b"", &[("SABLECAT_PEERS", &program)]);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{}", done.out);
    let report = only_suite(&done.out);
    let mut expected = BTreeSet::from(["Sync 1, disk 50", "Sync 2, disk 100"].map(str::to_owned));
    if !report["notes"].to_string().contains("in memory is skipped") {
        expected.extend(["Sync 1, in memory 50", "Sync 2, in memory 100"].map(str::to_owned));
    }
    assert_eq!(labels(&report), expected);
    for row in report["rows"].as_array().unwrap() {
        assert!(matches!(row["system"].as_str(), Some("sablecat" | "twin")), "{row}");
        assert!(row["errors"] == 0 && row["ops_per_s"].as_f64().unwrap() > 0.0, "{row}");
    }
}

#[test]
fn pools_hold_all_records_and_some_of_them() {
    let scratch = Scratch::new("bangdb");
    let program = peers(&scratch, &format!("exec {} papers-serve sablecat", env!("CARGO_BIN_EXE_sablecat")));
    let arguments = "papers bangdb --quick --records 3000 --dir work --vs twin --json -";
    let done = scratch.run_with(arguments, b"", &[("SABLECAT_PEERS", &program)]);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{}", done.out);
    let report = only_suite(&done.out);
    let mut expected: BTreeSet<String> = ["read", "write"]
        .into_iter()
        .flat_map(|op| [format!("Background {op} 4"), format!("Unlogged {op} 4")])
        .collect();
    for condition in ["stressed", "totally stressed"] {
        expected.extend(["read", "write"].map(|op| format!("Background {op}, {condition} 4")));
    }
    assert_eq!(labels(&report), expected);
    let rows = report["rows"].as_array().unwrap();
    let systems: BTreeSet<_> = rows.iter().map(|row| row["system"].as_str().unwrap()).collect();
    assert_eq!(systems, BTreeSet::from(["sablecat", "sablecat-hash", "sablecat-lsm", "twin"]));
    for row in rows {
        let pool = if row["op"].as_str().unwrap().ends_with("totally stressed") { 81_000 } else { 405_000 };
        let is_part = row["op"].as_str().unwrap().contains("stressed");
        assert!(!is_part || row["cache_bytes"] == pool, "{row}");
        assert!(row["errors"] == 0 && row["ops_per_s"].as_f64().unwrap() > 0.0, "{row}");
    }
}

#[test]
fn operations_are_timed_beside_checkpoints_too() {
    let scratch = Scratch::new("latency");
    let program = peers(&scratch, &format!("exec {} papers-serve sablecat", env!("CARGO_BIN_EXE_sablecat")));
    let arguments = "papers latency --quick --records 2000 --dir work --vs twin --json -";
    let done = scratch.run_with(arguments, b"", &[("SABLECAT_PEERS", &program)]);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{}", done.out);
    let report = only_suite(&done.out);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 4 * 5, "of both, at each durability, of each kind in each run");
    for row in rows {
        let of = |name: &str| row["latency"][name].as_f64().unwrap();
        let rising = [of("p50_us"), of("p99_us"), of("p999_us"), of("max_us")];
        assert!(rising.is_sorted() && rising[0] > 0.0 && row["errors"] == 0, "{row}");
        let stall = row["latency"]["stall"].as_str().unwrap();
        let can_meet = row["op"].as_str().unwrap().ends_with("checkpoints");
        assert!(stall.contains(" ms, ") && (can_meet || stall.ends_with("beside no checkpoint")), "{row}");
    }
}

#[test]
fn peers_are_measured_beside_us() {
    let scratch = Scratch::new("twin");
    // The peer is ourselves under another name.
    let program = peers(&scratch, &format!("exec {} papers-serve sablecat", env!("CARGO_BIN_EXE_sablecat")));
    let arguments = format!("papers wp43 {TINY} --keys random --vs twin,ghost");
    let done = scratch.run_with(&arguments, b"", &[("SABLECAT_PEERS", &program)]);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{}", done.out);
    assert!(done.out.contains("twin: 1.0") && done.out.contains("ghost: skipped: not here"), "{}", done.out);
    assert!(done.out.contains("all systems, random keys"), "{}", done.out);
    assert!(!done.out.contains("sequential keys"), "{}", done.out);

    let json = scratch.run_with(&format!("{arguments} --json -"), b"", &[("SABLECAT_PEERS", &program)]);
    let report = only_suite(&json.out);
    let systems: BTreeSet<_> =
        report["rows"].as_array().unwrap().iter().map(|row| row["system"].as_str().unwrap()).collect();
    assert_eq!(systems, BTreeSet::from(["sablecat", "device", "twin"]));

    let unknown = scratch.run_with("papers wp43 --quick --vs oracle", b"", &[("SABLECAT_PEERS", &program)]);
    assert_eq!(
        (unknown.code, unknown.err.as_str()),
        (2, "sablecat: there is no peer oracle, only twin, ghost\n")
    );
}

#[test]
fn a_shared_environment_is_measured_beside_a_private_one() {
    let scratch = Scratch::new("shared");
    let arguments = format!("papers wp43 {TINY} --keys random --vs none --shared");
    let report = only_suite(&scratch.run(&format!("{arguments} --json -")).out);
    let rows = report["rows"].as_array().unwrap();
    let of = |system: &str| {
        rows.iter()
            .filter(|row| row["system"] == system)
            .map(|row| row["mode"].as_str().unwrap())
            .collect::<Vec<_>>()
    };
    let private = of("sablecat");
    assert_eq!(
        of("sablecat-shared"),
        private.iter().copied().filter(|&mode| mode != "DS").collect::<Vec<_>>()
    );
    assert!(scratch.run(&arguments).out.contains("shared / private"));
}

#[test]
fn shared_memory_is_given_back_by_a_measurement_that_is_asked_to_end() {
    let scratch = Scratch::new("serve-end");
    let dir = scratch.path().join("environment");
    let mut serving = Command::new(env!("CARGO_BIN_EXE_sablecat"))
        .args(["papers-serve", "sablecat-shared"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = serving.stdin.take().unwrap();
    let open = concat!(
        r#"{"op":"open","dir":"DIR","mode":"NoSync","cache_bytes":16777216,"log_buffer":1048576,"#,
        r#""page_size":0,"threads":1}"#
    );
    writeln!(input, "{}", open.replace("DIR", dir.to_str().unwrap())).unwrap();
    let mut answer = String::new();
    BufReader::new(serving.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
    let metadata = fs::metadata(&dir).unwrap();
    let region = PathBuf::from(format!("/dev/shm/sablecat-{:x}-{:x}", metadata.dev(), metadata.ino()));
    assert!(region.exists(), "{answer}");
    assert!(Command::new("kill").arg(serving.id().to_string()).status().unwrap().success());
    // As when its driver has ended.
    drop(input);
    assert_eq!(serving.wait().unwrap().code(), Some(143));
    assert!(!region.exists());
}

#[test]
fn a_wrong_value_fails_the_run() {
    let scratch = Scratch::new("wrong");
    let figures = concat!(
        r#"{"ops":1,"seconds":1,"errors":1,"rss_mb":1,"rss_peak_mb":1,"disk_mb":1,"#,
        r#""first_error":"a wrong value"}"#
    );
    let program = peers(&scratch, &format!("while read line; do echo '{figures}'; done"));
    let done = scratch.run_with(
        &format!("papers wp43 {TINY} --keys random --vs twin"),
        b"",
        &[("SABLECAT_PEERS", &program)],
    );
    assert_eq!(done.code, 1, "{}", done.out);
    assert!(
        done.err.contains("sablecat: wp43: twin DS read, random: 3 errors, first: a wrong value"),
        "{}",
        done.err
    );
}

#[test]
fn a_peer_that_cannot_run_is_only_noted() {
    let scratch = Scratch::new("broken");
    let program = peers(&scratch, "exit 3");
    let done = scratch.run_with(
        &format!("papers wp43 {TINY} --keys random --vs twin"),
        b"",
        &[("SABLECAT_PEERS", &program)],
    );
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{}", done.out);
    assert!(
        done.out.contains("twin could not run: its process ended in the middle: exit status: 3"),
        "{}",
        done.out
    );
}

#[test]
fn large_and_spilling_databases_are_measured_on_request() {
    let scratch = Scratch::new("spill");
    let json = scratch.run("papers engine --quick --records 2000 --cases large,spill --vs none --json -");
    assert_eq!((json.code, json.err.as_str()), (0, ""));
    let report = only_suite(&json.out);
    let expected = [
        "DS read 1",
        "TDS read, data 2x the cache 1",
        "TDS read, data 8x the cache 1",
        "TDS update, data 2x the cache 1",
        "TDS update, data 8x the cache 1",
    ];
    assert_eq!(labels(&report), expected.into_iter().map(str::to_owned).collect());
    assert!(report["rows"].as_array().unwrap().iter().all(|row| row["system"] == "sablecat"), "{report}");
}

#[test]
fn openings_checkpoints_and_deadlocks_are_measured() {
    let scratch = Scratch::new("engine");
    let cases = "replay,open,checkpoint,deadlock";
    let arguments = "--records 2000 --size 1M --dir work --vs none --json -";
    let json = scratch.run(&format!("papers engine --quick --cases {cases} {arguments}"));
    assert_eq!((json.code, json.err.as_str()), (0, ""));
    let report = only_suite(&json.out);
    let expected = [
        "replay",
        "replay, a half",
        "replay, a tenth",
        "open",
        "open, warm",
        "checkpoint, all changed",
        "checkpoint, a hundredth changed",
        "checkpoint, nothing changed",
        "circle of 2",
        "circle of 4",
        "circle of 8",
        "circle of 16",
    ];
    assert_eq!(labels(&report), expected.map(|op| format!("NoSync {op} 1")).into());
    let rows = report["rows"].as_array().unwrap();
    let of = |op: &str| rows.iter().find(|row| row["op"] == op).unwrap();
    assert_eq!(of("replay, a tenth")["records"], 200);
    for row in rows {
        assert!(row["system"] == "sablecat" && row["ops_per_s"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!((row["median_of"].as_u64(), row["errors"].as_u64()), (Some(3), Some(0)), "{row}");
    }
    assert_eq!(fs::read_dir(scratch.path().join("work")).unwrap().count(), 0, "the environments are removed");
}

#[test]
fn processes_that_attach_are_measured() {
    let scratch = Scratch::new("attach");
    let arguments = "papers engine --quick --cases attach --size 1M --dir work";
    let report = only_suite(&scratch.run(&format!("{arguments} --json -")).out);
    let [row] = &report["rows"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!((&row["system"], &row["op"]), (&"sablecat-shared".into(), &"attach".into()));
    assert_eq!((row["median_of"].as_u64(), row["errors"].as_u64()), (Some(3), Some(0)), "{row}");
    let attached = &row["attached"];
    assert_eq!(attached["processes"], 50);
    for name in ["slowest_ms", "private_mb", "page_tables_mb"] {
        assert!(attached[name].as_f64().unwrap() > 0.0, "{name}: {row}");
    }
    assert_eq!(fs::read_dir(scratch.path().join("work")).unwrap().count(), 0, "the environments are removed");

    // Two pipes to each process are soon too many.
    let limited = Command::new("sh")
        .args(["-c", &format!("ulimit -n 40; exec \"$0\" {arguments}"), env!("CARGO_BIN_EXE_sablecat")])
        .current_dir(scratch.path())
        .output()
        .unwrap();
    let why = String::from_utf8(limited.stderr).unwrap();
    assert_eq!(limited.status.code(), Some(1), "{why}");
    assert!(
        why.starts_with("sablecat: engine: attach: failed: with ")
            && why.contains(" of 50 processes attached: cannot start "),
        "{why}"
    );
    assert_eq!(fs::read_dir(scratch.path().join("work")).unwrap().count(), 0, "the environments are removed");
}

/// The rows of the 3n+1 suite's quick run, with more arguments; whatever the workers went through, the
/// results are the same.
fn lines(scratch: &Scratch, arguments: &str) -> Vec<Value> {
    let done = scratch.run(&format!("papers threen1 --quick --dir work --json - {arguments}"));
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{}", done.out);
    assert_eq!(fs::read_dir(scratch.path().join("work")).unwrap().count(), 0, "the environments are removed");
    let report = only_suite(&done.out);
    let rows = report["rows"].as_array().unwrap().clone();
    for row in &rows {
        assert_eq!(
            (row["longest"].as_u64(), row["highest"].as_u64()),
            (Some(278), Some(27_114_424)),
            "{row}"
        );
        assert_eq!((row["finish"].as_u64(), row["correct"].as_bool()), (Some(20_000), Some(true)), "{row}");
        assert_eq!(row["durability"], "NoSync");
        assert!(
            row["reads_per_s"].as_f64().unwrap() > 0.0 && row["updates_per_cpu_s"].as_f64().unwrap() > 0.0,
            "{row}"
        );
    }
    rows
}

#[test]
fn processes_share_the_work_on_3n_plus_1() {
    let scratch = Scratch::new("threen1");
    let rows = lines(&scratch, "--workers 1,8");
    let of = |row: &Value| (row["workers"].as_u64().unwrap(), row["kills"].as_u64().unwrap());
    assert_eq!(rows.iter().map(of).collect::<Vec<_>>(), [(1, 0), (8, 0)]);
    let count = |name: &str| rows[0][name].as_u64().unwrap();
    // Alone: a lookup for each number that is then stored, and one that ends each sequence, but for those of
    // 1 and 2.
    assert_eq!(count("updates"), 43_347);
    assert_eq!(count("reads"), 43_347 + 19_998);
}

#[test]
fn killed_workers_lose_nothing_of_3n_plus_1() {
    let scratch = Scratch::new("threen1-kills");
    for arguments in ["--kill-every 20", "--kill-all-at 30 --workers 1", "--kill-all-at 30 --workers 4"] {
        let rows = lines(&scratch, arguments);
        assert!(rows[0]["kills"].as_u64().unwrap() > 0, "{arguments}: {rows:?}");
    }
}

#[test]
fn an_input_of_3n_plus_1_is_read_from_a_file() {
    let scratch = Scratch::new("threen1-input");
    fs::write(scratch.path().join("input"), "1 100 2 7\n90 3000 3 200 # not from 1\n").unwrap();
    let done = scratch.run("papers threen1 --input input --cache 16M --json -");
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{}", done.out);
    let report = only_suite(&done.out);
    let of = |row: &Value| {
        (row["start"].as_u64().unwrap(), row["longest"].as_u64().unwrap(), row["highest"].as_u64().unwrap())
    };
    let rows: Vec<_> = report["rows"].as_array().unwrap().iter().map(of).collect();
    assert_eq!(rows, [(1, 118, 9232), (90, 216, 1_276_936)]);

    fs::write(scratch.path().join("input"), "1 100 2\n").unwrap();
    let refused = scratch.run("papers threen1 --input input");
    let sentence =
        "sablecat: line 1 of the input: 3 numbers instead of four: start, finish, workers, blocksize\n";
    assert_eq!((refused.code, refused.err.as_str()), (2, sentence));
    assert!(scratch.run("papers threen1 --input absent").err.starts_with("sablecat: cannot read absent: "));

    // 2^64 / 3 and a little: odd, so its successor is too large.
    fs::write(scratch.path().join("input"), "6148914691236517207 6148914691236517207 2 1\n").unwrap();
    let large = scratch.run("papers threen1 --input input");
    assert_eq!(large.code, 2, "{}", large.out);
    assert!(large.err.contains("the sequence of 6148914691236517207 goes beyond 64 bits"), "{}", large.err);
}

/// The report of one worker's run on 1 to 300, with more arguments.
fn small_line(scratch: &Scratch, arguments: &str, variables: &[(&str, &Path)]) -> (Answer, Value) {
    fs::write(scratch.path().join("input"), "1 300 1 50\n").unwrap();
    let done = scratch.run_with(
        &format!("papers threen1 --input input --cache 16M --dir work --json - {arguments}"),
        b"",
        variables,
    );
    assert_eq!(fs::read_dir(scratch.path().join("work")).unwrap().count(), 0, "everything is undone");
    let report = only_suite(&done.out);
    (done, report)
}

fn notes(report: &Value) -> String {
    report["notes"].to_string()
}

#[test]
fn options_are_compared_on_file_systems_that_are_made_for_it() {
    let scratch = Scratch::new("threen1-fs");
    let (done, report) =
        small_line(&scratch, "--options NoSync,writenosync,Sync,journal,sync_io --fs tmpfs,ext4,jfs", &[]);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{}", done.out);
    for name in ["tmpfs", "ext4", "jfs"] {
        let rows: Vec<_> =
            report["rows"].as_array().unwrap().iter().filter(|row| row["file_system"] == name).collect();
        if rows.is_empty() {
            // Not root, no such program, not in this kernel, too little room.
            assert!(notes(&report).contains(&format!("{name}: skipped: ")), "{report}");
            continue;
        }
        assert_eq!(
            rows.iter().map(|row| row["options"].as_str().unwrap()).collect::<Vec<_>>(),
            ["NoSync", "WriteNoSync", "Sync", "journal", "sync_io"]
        );
        for row in rows {
            assert_eq!(
                (row["longest"].as_u64(), row["highest"].as_u64()),
                (Some(127), Some(13_120)),
                "{row}"
            );
            assert_eq!((row["correct"].as_bool(), row["median_of"].as_u64()), (Some(true), Some(1)), "{row}");
        }
    }
    assert!(scratch.run("papers threen1 --fs ntfs").err.contains("no such file system, only ext4"));
    let unknown = scratch.run("papers threen1 --options fast");
    assert_eq!(
        (unknown.code, unknown.err.as_str()),
        (2, "sablecat: there are no options fast, only NoSync, WriteNoSync, Sync, journal, sync_io\n")
    );
}

#[test]
fn gtm_takes_part_where_it_is_installed() {
    let scratch = Scratch::new("threen1-gtm");
    let (done, report) = small_line(&scratch, "--vs gtm --repeat 3", &[]);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{}", done.out);
    match report["rows"].as_array().map(Vec::as_slice) {
        Some([_]) => assert!(notes(&report).contains("gtm: skipped: "), "{report}"),
        Some([ours, gtm]) => {
            assert_eq!((&ours["system"], &gtm["system"]), (&"sablecat".into(), &"gtm".into()));
            for name in ["longest", "highest", "reads", "updates", "correct", "median_of"] {
                assert_eq!(ours[name], gtm[name], "{name}: {report}");
            }
        }
        _ => panic!("{report}"),
    }
    let (_, report) = small_line(&scratch, "--vs gtm", &[("gtm_dist", Path::new("/there/is/no/gtm"))]);
    assert!(
        notes(&report).contains("gtm: skipped: it is not installed (Debian: apt install fis-gtm"),
        "{report}"
    );
    assert!(
        scratch.run("papers threen1 --vs bdb").err.contains("there is no peer bdb for this suite, only gtm")
    );
    assert!(
        scratch.run("papers threen1 --vs gtm --kill-every 5").err.contains("gtm is not made to carry on")
    );
}

#[test]
fn wrong_results_of_gtm_fail_the_run() {
    let scratch = Scratch::new("threen1-wrong");
    let dist = scratch.path().join("dist");
    fs::create_dir(&dist).unwrap();
    // Its results lack a worker's block, its records all but one.
    let program = "#!/bin/sh\ncase \"$2\" in %XCMD) echo wrong;; results*) printf '301\\n9 9 127 9231\\n';; \
                   records*) echo 2 1;; esac\n";
    for name in ["mumps", "mupip"] {
        fs::write(dist.join(name), program).unwrap();
        fs::set_permissions(dist.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let (done, report) = small_line(&scratch, "--vs gtm", &[("gtm_dist", &dist)]);
    assert_eq!(done.code, 1, "{report}");
    for problem in [
        "1 integers of 299 are stored",
        "9 updates were counted, and 1 records are there",
        "highest: 9231 } instead of",
    ] {
        assert!(report["problems"].to_string().contains(problem), "{problem} in {report}");
    }
    let of = |row: &Value| (row["system"].as_str().unwrap().to_owned(), row["correct"].as_bool().unwrap());
    let rows: Vec<_> = report["rows"].as_array().unwrap().iter().map(of).collect();
    assert_eq!(rows, [("sablecat".to_owned(), true), ("gtm".to_owned(), false)]);
}

#[test]
fn a_run_that_is_asked_to_end_leaves_nothing_behind() {
    let scratch = Scratch::new("threen1-end");
    // Long enough for the run to be there still when it is asked.
    fs::write(scratch.path().join("input"), "1 200000 1 5000\n").unwrap();
    let entries = |dir: &Path| {
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect::<Vec<_>>()
    };
    for (arguments, mount) in [("", None), ("--fs tmpfs", Some("tmpfs")), ("--fs ext4", Some("ext4"))] {
        let work = scratch.path().join("work");
        let mut child = Command::new(env!("CARGO_BIN_EXE_sablecat"))
            .args(
                format!("papers threen1 --input input --cache 16M --dir work {arguments}").split_whitespace(),
            )
            .current_dir(scratch.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The shared memory is there as soon as somebody has the environment open.
        let region = loop {
            if let Some(database) =
                entries(&work).first().map(|place| place.join(mount.unwrap_or_default()).join("database"))
                && let Ok(metadata) = fs::metadata(&database)
            {
                let region =
                    PathBuf::from(format!("/dev/shm/sablecat-{:x}-{:x}", metadata.dev(), metadata.ino()));
                if region.exists() {
                    break Some(region);
                }
            }
            if child.try_wait().unwrap().is_some() {
                break None;
            }
            thread::sleep(Duration::from_millis(1));
        };
        if region.is_some() {
            assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        }
        let output = child.wait_with_output().unwrap();
        let (said, why) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        match region {
            Some(region) => {
                assert_eq!(
                    (output.status.code(), why.as_str()),
                    (Some(143), "sablecat: threen1: interrupted\n"),
                    "{arguments}: {said}"
                );
                assert!(!region.exists(), "{arguments}: {}", region.display());
            }
            None => assert!(mount.is_some() && said.contains(": skipped: "), "{arguments}: {said} {why}"),
        }
        assert_eq!(entries(&work), [""; 0].map(PathBuf::from), "{arguments}");
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains("threen1-end"), "{arguments}: {mounts}");
    }
}
