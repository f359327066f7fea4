//! `sablecat papers tpcb` and `papers wisconsin`, small: every line, beside SQLite's own b-tree, and beside
//! Berkeley DB's SQL if it is installed.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::Scratch;
use serde_json::Value;

/// The one report that a call prints as JSON.
fn report(scratch: &Scratch, arguments: &str) -> Value {
    let results = scratch.json(&format!("papers {arguments} --dir work --json -"));
    assert_eq!(results["finished"], true, "{results}");
    let [report] = &results["suites"].as_array().unwrap()[..] else { panic!("{results}") };
    assert_eq!(fs::read_dir(scratch.path().join("work")).unwrap().count(), 0, "the databases are removed");
    report.clone()
}

fn rows(report: &Value) -> &[Value] {
    report["rows"].as_array().unwrap()
}

fn words<'a>(report: &'a Value, name: &str) -> BTreeSet<&'a str> {
    rows(report).iter().map(|row| row[name].as_str().unwrap()).collect()
}

/// Whether Berkeley DB's SQL has a part in it, or why it has none.
fn has_bdb(report: &Value) -> bool {
    let notes = report["notes"].to_string();
    let is_told = notes.contains("bdb-sql: skipped: its library is not here (Debian: libdb5.3-sql)");
    let takes_part = words(report, "system").contains("bdb-sql");
    assert!(takes_part != is_told, "{notes}");
    takes_part
}

#[test]
fn transfers_are_made_by_threads_and_by_processes() {
    let scratch = Scratch::new("tpcb");
    let report = report(&scratch, "tpcb --quick --records 500");
    let mut expected = BTreeSet::from(["NoSync processes, 10 % transfers 4".to_owned()]);
    for mode in ["NoSync", "Sync"] {
        expected.extend([1, 3].map(|threads| format!("{mode} threads {threads}")));
        expected.insert(format!("{mode} processes 3"));
    }
    let label = |row: &Value| {
        format!("{} {} {}", row["mode"].as_str().unwrap(), row["op"].as_str().unwrap(), row["threads"])
    };
    let systems = if has_bdb(&report) { 3 } else { 2 };
    assert_eq!(rows(&report).iter().map(label).collect::<BTreeSet<_>>(), expected);
    assert_eq!(rows(&report).len(), expected.len() * systems);
    for row in rows(&report) {
        assert_eq!((row["records"].as_u64(), row["median_of"].as_u64()), (Some(500), Some(3)), "{row}");
        assert!(row["ops_per_s"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["sql"]["cpu_us"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["sql"]["again_of_1000"].as_f64().unwrap() >= 0.0, "{row}");
    }
}

#[test]
fn all_queries_are_run_and_a_table_is_filled() {
    let scratch = Scratch::new("wisconsin");
    let report = report(&scratch, "wisconsin --quick --records 450 --fill 1K");
    has_bdb(&report);
    let queries: BTreeSet<String> = (1..=32).map(|number| number.to_string()).collect();
    let ops: BTreeSet<String> = words(&report, "op").into_iter().map(str::to_owned).collect();
    assert_eq!(ops, queries.into_iter().chain(["fill".to_owned()]).collect());
    for system in words(&report, "system") {
        assert_eq!(rows(&report).iter().filter(|row| row["system"] == system).count(), 33, "{system}");
    }
    assert!(rows(&report).iter().all(|row| row["sql"]["us"].as_f64().unwrap() > 0.0), "{report}");
}

#[test]
fn a_page_shows_the_papers_figures_beside() {
    let scratch = Scratch::new("sql-report");
    for (name, arguments) in [("a", "tpcb --threads 1,2"), ("b", "wisconsin")] {
        let done = scratch.run(&format!(
            "papers {arguments} --quick --records 300 --vs sqlite --dir work --json {name}.json"
        ));
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{}", done.out);
        assert_eq!(scratch.run(&format!("papers report {name}.json")).code, 0);
    }
    let read = |name: &str| fs::read_to_string(scratch.path().join(name)).unwrap();
    let [bank, queries] = ["a.md", "b.md"].map(read);
    for shown in ["| threads, sync off | 2 | 2,311 |", "sqlite NoSync: WAL", "µs CPU", "TPC-B in SQL"] {
        assert!(bank.contains(shown), "{shown} in {bank}");
    }
    for shown in ["| 9: JoinAselB, no index | 31047.220 |", "processor time to sqlite's", "two indices"] {
        assert!(queries.contains(shown), "{shown} in {queries}");
    }
    assert!(read("a.html").contains("<svg") && read("b.html").contains("JoinCselAselB"));
}

#[test]
fn a_peer_that_there_is_not_is_refused() {
    let scratch = Scratch::new("sql-peer");
    let done = scratch.run("papers tpcb --quick --vs oracle");
    let why = "sablecat: there is no peer oracle for this suite, only sqlite, sqlite-system, bdb-sql\n";
    assert_eq!((done.code, done.err.as_str()), (2, why));
}

#[test]
fn an_interrupted_run_gives_shared_memory_back() {
    let scratch = Scratch::new("tpcb-end");
    let work = scratch.path().join("work");
    let mut child = Command::new(env!("CARGO_BIN_EXE_sablecat"))
        .args("papers tpcb --records 500 --cache 16M --vs none --processes --dir work".split(' '))
        .current_dir(scratch.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let entries = |dir: &Path| {
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect::<Vec<_>>()
    };
    // The shared memory is there as soon as somebody has the environment open.
    let region = loop {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        if let Some(metadata) =
            entries(&work).first().and_then(|place| fs::metadata(place.join("bank/store")).ok())
        {
            let name = format!("/dev/shm/sablecat-{:x}-{:x}", metadata.dev(), metadata.ino());
            if Path::new(&name).exists() {
                break PathBuf::from(name);
            }
        }
        thread::sleep(Duration::from_millis(1));
    };
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let why = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), why.as_str()), (Some(143), "sablecat: tpcb: interrupted\n"));
    assert!(!region.exists(), "{}", region.display());
    assert_eq!(entries(&work), [""; 0].map(PathBuf::from));
}
