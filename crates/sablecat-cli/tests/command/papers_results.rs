//! Results of `sablecat papers`: refused before anything is measured, saved as they come, made into pages.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::papers::{TINY, peers};
use crate::support::Scratch;

#[test]
fn results_become_pages_to_look_at() {
    let scratch = Scratch::new("report");
    let program = peers(&scratch, &format!("exec {} papers-serve sablecat", env!("CARGO_BIN_EXE_sablecat")));
    for (name, suite) in [("a", "wp43 --keys random"), ("b", "wp43 --keys random"), ("c", "ycsb")] {
        let arguments = format!("papers {suite} {TINY} --vs twin --json {name}.json");
        let done = scratch.run_with(&arguments, b"", &[("SABLECAT_PEERS", &program)]);
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{}", done.out);
        assert!(done.out.contains("\nRuns lie furthest apart at "), "{}", done.out);
    }
    let read = |name: &str| fs::read_to_string(scratch.path().join(name)).unwrap();

    let one = scratch.run("papers report a.json");
    assert_eq!((one.code, one.out.as_str(), one.err.as_str()), (0, "a.html\na.md\n", ""));
    let (page, text) = (read("a.html"), read("a.md"));
    for shown in
        ["Berkeley DB 4.3 white paper, 2005", "1,002,200", "twin", "papers wp43 --keys random --quick"]
    {
        assert!(page.contains(shown) && text.contains(shown), "{shown} in {page} or {text}");
    }
    assert!(page.contains("<svg") && !page.contains("<script") && !page.contains("://"), "{page}");
    assert!(text.contains("| TDS read | 1 | 466,623 | "), "{text}");

    let all = scratch.run("papers report a.json b.json c.json --html all.html --markdown all.md");
    assert_eq!((all.code, all.out.as_str()), (0, "all.html\nall.md\n"));
    let (page, text) = (read("all.html"), read("all.md"));
    assert!(page.contains("<th scope=\"col\">b / a</th>") && page.contains("YCSB core workloads"), "{page}");
    assert!(text.contains("## Compared: Berkeley DB 4.3 white paper, 2005 (wp43)"), "{text}");
    assert!(
        text.contains(", as b, c\n") && page.contains(", as a, b</dd>"),
        "one build has made all: {text}"
    );

    let results = read("a.json");
    for (file, option, more) in
        [("own.html", "--html", ""), ("own.md", "--markdown", ""), ("a.json", "--html", "--html ./a.json")]
    {
        fs::write(scratch.path().join(file), &results).unwrap();
        let refused = scratch.run(&format!("papers report {file} {more}"));
        let why = format!("sablecat: {file} has the results: name another file with {option}\n");
        assert_eq!((refused.code, refused.err), (2, why));
        assert_eq!(read(file), results);
    }

    fs::write(scratch.path().join("d.json"), "{}").unwrap();
    let none = scratch.run("papers report a.json d.json");
    assert_eq!(none.code, 2, "{}", none.err);
    assert!(none.err.contains("cannot read the results in d.json: missing field"), "{}", none.err);
}

#[test]
fn what_is_finished_outlives_an_interruption() {
    let scratch = Scratch::new("interrupted");
    let mut child = Command::new(env!("CARGO_BIN_EXE_sablecat"))
        .args("papers --quick --records 500 --size 1M --dir work --vs none --json results.json".split(' '))
        .current_dir(scratch.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let results = || -> Option<Value> {
        serde_json::from_slice(&fs::read(scratch.path().join("results.json")).ok()?).ok()
    };
    let finished = || results().map_or(0, |results| results["suites"].as_array().unwrap().len());
    while finished() == 0 && child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let code = child.wait_with_output().unwrap().status.code();
    let results = results().unwrap();
    let rows = results["suites"][0]["rows"].as_array().unwrap().len();
    assert!(finished() >= 1 && rows > 10, "{results}");
    assert_eq!((results["finished"].as_bool(), code), (Some(false), Some(130)), "{results}");
    let report = scratch.run("papers report results.json");
    assert_eq!(report.code, 0, "{}", report.err);
    let page = fs::read_to_string(scratch.path().join("results.html")).unwrap();
    assert!(page.contains("interrupted: what was finished is here"), "{page}");
}

#[test]
fn a_suite_that_cannot_run_and_an_output_that_is_full_lose_nothing_of_the_others() {
    let scratch = Scratch::new("some-fail");
    let program = peers(&scratch, &format!("exec {} papers-serve sablecat", env!("CARGO_BIN_EXE_sablecat")));
    fs::write(scratch.path().join("input"), "1 100 2\n").unwrap();
    let arguments = "papers --quick --records 200 --size 1M --dir work --vs twin,sqlite --input input \
                     --cases methods --json all.json > /dev/full";
    let done = Command::new("sh")
        .args(["-c", &format!("exec \"$0\" {arguments}"), env!("CARGO_BIN_EXE_sablecat")])
        .env("SABLECAT_PEERS", &program)
        .current_dir(scratch.path())
        .output()
        .unwrap();
    let why = String::from_utf8(done.stderr).unwrap();
    let sentence = "line 1 of the input: 3 numbers instead of four: start, finish, workers, blocksize";
    assert_eq!((done.status.code(), why.as_str()), (Some(1), &*format!("sablecat: threen1: {sentence}\n")));
    let results: Value = serde_json::from_slice(&fs::read(scratch.path().join("all.json")).unwrap()).unwrap();
    let reports = results["suites"].as_array().unwrap();
    assert_eq!((reports.len(), &results["finished"]), (10, &Value::Bool(true)), "{results}");
    let systems = |of: usize| -> BTreeSet<&str> {
        reports[of]["rows"].as_array().unwrap().iter().map(|row| row["system"].as_str().unwrap()).collect()
    };
    assert_eq!(systems(0), BTreeSet::from(["device", "sablecat", "twin"]));
    assert_eq!(systems(2), BTreeSet::from(["sablecat", "sqlite"]));
    assert_eq!(reports[9]["problems"], Value::from(vec![sentence]));
}

#[test]
fn what_cannot_be_compared_with_is_refused_before_anything_is_measured() {
    let scratch = Scratch::new("refused");
    let program = peers(&scratch, "exit 3");
    let absent = scratch.path().join("absent");
    fs::write(scratch.path().join("old.json"), "old").unwrap();
    let refused = |arguments: &str, program: &Path| {
        let arguments = format!("papers {arguments} --quick --dir work --json old.json");
        let done = scratch.run_with(&arguments, b"", &[("SABLECAT_PEERS", program)]);
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{}", done.err);
        assert_eq!(fs::read_to_string(scratch.path().join("old.json")).unwrap(), "old");
        done.err
    };
    assert_eq!(
        refused("--vs twin,oracle", &program),
        "sablecat: there is no peer oracle, only twin, ghost, sqlite, sqlite-system, bdb-sql, gtm\n"
    );
    let why = refused("--vs gtm,redb", &absent);
    let only = "sablecat: there is no peer redb, only sqlite, sqlite-system, bdb-sql, gtm: ";
    assert!(why.starts_with(only) && why.contains("absent list: "), "{why}");
    let done = scratch.run_with("papers ycsb --quick --vs redb", b"", &[("SABLECAT_PEERS", &absent)]);
    assert!(done.code == 2 && done.err.starts_with("sablecat: no comparison with redb: "), "{}", done.err);
}

#[test]
fn words_that_are_no_text_are_refused_or_kept_as_they_can_be() {
    let scratch = Scratch::new("no-text");
    let run = |option: &str| {
        Command::new(env!("CARGO_BIN_EXE_sablecat"))
            .args(["papers", "engine", "--quick", "--cases", "methods", "--records", "100", option])
            .arg(OsStr::from_bytes(b"\xff"))
            .current_dir(scratch.path())
            .output()
            .unwrap()
    };
    let done = run("--dir");
    let why = "sablecat: \u{fffd} is no UTF-8: name another directory with --dir\n";
    assert_eq!((done.status.code(), &*String::from_utf8_lossy(&done.stderr)), (Some(2), why));
    let done = run("--json");
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    let results = fs::read_to_string(scratch.path().join(OsStr::from_bytes(b"\xff"))).unwrap();
    assert!(results.contains("--json '\u{fffd}'"), "{results}");
}
