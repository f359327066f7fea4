//! The commands, as a shell sees them: what they print, where, and how they end.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::support::{Scratch, answer};
use serde_json::json;

#[test]
fn a_value_is_put_got_and_deleted() {
    let scratch = Scratch::new("round");
    assert_eq!(scratch.run("put env colour blue"), answer(0, "", ""));
    assert_eq!(scratch.run("get env colour"), answer(0, "blue", ""));
    assert_eq!(
        scratch.json("get env colour --json"),
        json!({"key": "colour", "value": "blue", "found": true})
    );
    assert_eq!(scratch.json("del env colour --json"), json!({"key": "colour", "removed": true}));
    assert_eq!(scratch.run("get env colour"), answer(1, "", ""));
    assert_eq!(scratch.run("del env colour"), answer(1, "", ""));
    let absent = scratch.run("get env colour --json");
    assert_eq!(absent.code, 1);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&absent.out).unwrap(),
        json!({"key": "colour", "found": false})
    );
}

#[test]
fn nothing_but_put_creates_an_environment() {
    let scratch = Scratch::new("create");
    for command in [
        "get env k",
        "del env k",
        "scan env",
        "stat env",
        "verify env",
        "checkpoint env",
        "compact env",
        "recover env",
    ] {
        let refused = scratch.run(command);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{command}");
        let whole = scratch.path().canonicalize().expect("it is there").join("env");
        assert_eq!(
            refused.err,
            format!("sablecat: there is no environment in {}\n", whole.display()),
            "{command}"
        );
        assert!(!scratch.path().join("env").exists(), "{command}");
    }
}

#[test]
fn nothing_but_put_creates_a_database() {
    let scratch = Scratch::new("database");
    scratch.run("put env k v --db one");
    for command in ["get env k", "del env k", "scan env"] {
        assert_eq!(
            scratch.run(command),
            answer(2, "", "sablecat: there is no database main in env, only one\n")
        );
    }
    assert_eq!(scratch.json("stat env --json")["databases"], json!(["one"]));
}

#[test]
fn any_bytes_can_be_stored() {
    let scratch = Scratch::new("bytes");
    assert_eq!(scratch.run("put env --hex 00ff 61ff00"), answer(0, "", ""));
    assert_eq!(scratch.run("get env --hex 00ff"), answer(0, "61ff00\n", ""));
    assert_eq!(
        scratch.json("get env --hex 00ff --json"),
        json!({"key_hex": "00ff", "value_hex": "61ff00", "found": true})
    );
    scratch.run("put env --hex 6b 74657874");
    assert_eq!(scratch.run("scan env"), answer(0, "\\x00\\xff\ta\\xff\\x00\nk\ttext\n", ""));
    let refused = scratch.run("put env --hex 0g 00");
    assert_eq!(refused, answer(2, "", "sablecat: \"0g\" is not pairs of hexadecimal digits\n"));
}

#[test]
fn keys_may_be_as_long_as_the_engine_takes_them() {
    let scratch = Scratch::new("long-keys");
    let (longest, neighbour) = ("k".repeat(65536), "k".repeat(65535));
    for key in [&longest, &neighbour] {
        assert_eq!(scratch.run(&format!("put env {key} blue")), answer(0, "", ""));
    }
    assert_eq!(scratch.run(&format!("get env {longest}")), answer(0, "blue", ""));
    assert_eq!(
        scratch.run(&format!("scan env --prefix {}", &longest[..1000])),
        answer(0, &format!("{neighbour}\tblue\n{longest}\tblue\n"), "")
    );
    assert_eq!(
        scratch.run(&format!("scan env --from {longest} --reverse")),
        answer(0, &format!("{longest}\tblue\n"), "")
    );
    assert_eq!(scratch.run(&format!("del env {longest}")), answer(0, "", ""));
    assert_eq!(scratch.run(&format!("get env {longest}")), answer(1, "", ""));
    let refused = scratch.run(&format!("put env {longest}k blue"));
    assert_eq!(refused, answer(2, "", "sablecat: a key of 65537 bytes; keys can have 65536 at most\n"));
    assert_eq!(scratch.run("verify env").code, 0);
}

#[test]
fn a_value_may_come_from_standard_input() {
    let scratch = Scratch::new("input");
    let long = "a line\n".repeat(30_000);
    assert_eq!(scratch.run_with("put env k", long.as_bytes(), &[]).code, 0);
    assert_eq!(scratch.run("get env k").out, long);
    assert_eq!(scratch.run("put env empty").code, 0);
    assert_eq!(scratch.run("get env empty"), answer(0, "", ""));
}

#[test]
fn a_scan_is_in_order_and_can_be_narrowed() {
    let scratch = Scratch::new("scan");
    for key in ["b", "a", "c", "ca", "d"] {
        scratch.run(&format!("put env {key} {key}{key}"));
    }
    let keys =
        |arguments: &str| scratch.run(&format!("scan env --keys-only {arguments}")).out.replace('\n', " ");
    assert_eq!(keys(""), "a b c ca d ");
    assert_eq!(keys("--from b --to ca"), "b c ");
    assert_eq!(keys("--prefix c"), "c ca ");
    assert_eq!(keys("--prefix c --reverse"), "ca c ");
    assert_eq!(keys("--reverse --limit 2"), "d ca ");
    assert_eq!(keys("--from x"), "");
    assert_eq!(scratch.json("scan env --json --limit 1"), json!([{"key": "a", "value": "aa"}]));
    assert_eq!(scratch.json("scan env --json --from x"), json!([]));
    assert_eq!(scratch.run("scan env --from b --to a").code, 2);
    assert_eq!(scratch.run("scan env --from b --prefix a").code, 2);
}

#[test]
fn what_is_no_environment_is_refused_whole() {
    let scratch = Scratch::new("damage");
    scratch.run("put env k v");
    let volume = scratch.path().join("env/sablecat.db");
    let bytes = fs::read(&volume).unwrap();
    fs::write(&volume, vec![7; bytes.len()]).unwrap();
    for command in ["get env k", "stat env", "verify env"] {
        let refused = scratch.run(command);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{command}");
        assert!(refused.err.starts_with("sablecat: "), "{}", refused.err);
    }
}

#[test]
fn a_sound_environment_has_no_problems() {
    let scratch = Scratch::new("verify");
    for key in 0..20 {
        scratch.run(&format!("put env {key} v"));
    }
    let report = scratch.json("verify env --json");
    assert_eq!(
        (&report["problems"], &report["records"], &report["databases"]),
        (&json!([]), &json!(20), &json!(1))
    );
    assert!(scratch.run("verify env").out.starts_with("problems "));
}

#[test]
fn a_page_that_changed_on_disk_is_a_problem_or_an_error() {
    let scratch = Scratch::new("flipped");
    let value = "x".repeat(1000);
    for key in 0..40 {
        scratch.run(&format!("put env {key} {value}"));
    }
    let volume = scratch.path().join("env/sablecat.db");
    let mut bytes = fs::read(&volume).unwrap();
    // In every block that holds values, one bit.
    for block in bytes[131_072..].chunks_mut(4096) {
        if block.windows(100).any(|window| window.iter().all(|&byte| byte == b'x')) {
            block[3000] ^= 1;
        }
    }
    fs::write(&volume, bytes).unwrap();
    let found = scratch.run("verify env");
    assert!(matches!(found.code, 1 | 2), "{found:?}");
    assert!(found.out.contains("page") || found.err.contains("page"), "{found:?}");
}

#[test]
fn a_checkpoint_and_a_recovery_say_what_they_did() {
    let scratch = Scratch::new("recover");
    scratch.run("put env k v");
    let report = scratch.json("recover env --json");
    assert_eq!((&report["recovered"], &report["commits"]), (&json!(false), &json!(0)));
    assert_eq!(
        scratch.run("recover env"),
        answer(0, "It had been closed: there was nothing to recover.\n", "")
    );
    assert!(scratch.json("checkpoint env --json")["lsn"].is_u64());
    assert!(scratch.run("checkpoint env").out.starts_with("LSN "));
    let report = scratch.json("compact env --json");
    assert!(report["bytes_after"].as_u64() <= report["bytes_before"].as_u64(), "{report}");
    assert_eq!(scratch.run("get env k"), answer(0, "v", ""));
}

#[test]
fn what_a_killed_process_has_committed_is_recovered() {
    let scratch = Scratch::new("killed");
    let mut child = Command::new(env!("CARGO_BIN_EXE_sablecat"))
        .args(["papers-serve", "sablecat"])
        .current_dir(scratch.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    for request in [
        json!({"op": "open", "dir": "env", "mode": "NoSync", "cache_bytes": 1 << 24, "log_buffer": 1 << 20,
               "threads": 1, "keep_log": true}),
        json!({"op": "run", "kind": "write", "keys": "random", "records": 200, "threads": 1,
               "seed": 1, "seconds_max": 0.0, "passes": 1, "warm": false}),
        json!({"op": "sync"}),
    ] {
        writeln!(input, "{request}").unwrap();
        let answer = answers.next().unwrap().unwrap();
        assert!(answer.contains("\"errors\":0"), "{answer}");
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let report = scratch.json("recover env --json");
    assert_eq!(report["recovered"], json!(true));
    assert!(report["commits"].as_u64() >= Some(200), "{report}");
    assert_eq!(scratch.json("verify env --json")["records"], json!(200));
    assert_eq!(scratch.json("recover env --json")["recovered"], json!(false));
}

#[test]
fn an_environment_that_is_open_elsewhere_is_refused() {
    let scratch = Scratch::new("in_use");
    let dir = scratch.path().join("env");
    let env = sablecat::Env::open(&dir).unwrap();
    let refused = scratch.run("stat env");
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    assert!(refused.err.starts_with("sablecat: ") && refused.err.contains("open"), "{}", refused.err);
    // It says which process has it, and what can be done all the same.
    let who = format!("process {} ", std::process::id());
    assert!(refused.err.contains(&who) && refused.err.contains("--read-only"), "{}", refused.err);
    assert_eq!(scratch.run("stat env --read-only").code, 0);
    let put = scratch.run("put env k v");
    assert!(put.code == 2 && put.err.contains(&who) && put.err.contains("read-only"), "{}", put.err);
    env.close().unwrap();
    assert_eq!(scratch.run("stat env").code, 0);
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let scratch = Scratch::new("pipe");
    let value = "x".repeat(2000);
    for key in 0..100 {
        scratch.run_with(&format!("put env {key}"), value.as_bytes(), &[]);
    }
    for json in [&["--json"][..], &[]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sablecat"))
            .args(["scan", "env"])
            .args(json)
            .current_dir(scratch.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]));
    }
}

#[test]
fn wrong_usage_is_explained_on_standard_error() {
    let scratch = Scratch::new("usage");
    for wrong in ["", "fly", "get env", "papers wp44", "papers --repeat 2", "papers --cache much"] {
        let refused = scratch.run(wrong);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{wrong}");
        assert!(!refused.err.is_empty(), "{wrong}");
    }
    assert!(scratch.run("--help").out.contains("Exit codes"));
}

#[test]
fn an_environment_with_a_journal_can_be_taken_back() {
    let scratch = Scratch::new("journal");
    scratch.run("put env k before");
    assert_eq!(scratch.run("journal env"), answer(0, "No journal is kept.\n", ""));
    let refused = scratch.run("recover env --to-lsn 0");
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    assert!(refused.err.contains("keeps no journal"), "{}", refused.err);

    assert_eq!(
        scratch.json("journal env --on --epochs 3 --keep-for 3600 --json")["journal"]["epochs_max"],
        json!(3)
    );
    scratch.run("put env k first");
    let first = scratch.json("recover env --list --json");
    let (epoch, lsn) = {
        let last = first["epochs"].as_array().unwrap().last().unwrap();
        (last["number"].clone(), last["lsn"].clone())
    };
    scratch.run("put env k second");
    scratch.run("put env k third");

    let plan = scratch.json(&format!("recover env --to-lsn {lsn} --json"));
    assert_eq!(
        (&plan["applied"], &plan["lsn"], &plan["commits_lost"]),
        (&json!(false), &lsn, &json!(2)),
        "{plan}"
    );
    assert_eq!(scratch.run("get env k").out, "third", "nothing was changed");
    assert!(
        scratch
            .run(&format!("recover env --to-epoch {epoch}"))
            .out
            .ends_with("Nothing was changed. With --apply the plan is carried out.\n")
    );
    assert_eq!(scratch.json(&format!("recover env --to-lsn {lsn} --apply --json"))["applied"], json!(true));
    assert_eq!(scratch.run("get env k").out, "first");
    assert_eq!(scratch.run("verify env").code, 0);
    let files = scratch.json("recover env --list --json")["files"].as_array().unwrap().len();
    assert!(files >= 3, "what was lost can be looked at");

    scratch.run("put env k fourth");
    let past = scratch.run("recover env --to-time 2020-01-01");
    assert_eq!(past.code, 2);
    assert!(past.err.contains("the oldest epoch is number"), "{}", past.err);
    assert!(scratch.run("recover env --to-epoch 4711").err.contains("there is no epoch 4711; there are"));
    assert!(scratch.run("recover env --to-lsn 99999999999").err.contains("the log ends at LSN"));
    assert_eq!(
        scratch.json("recover env --to-time 2999-01-01 --json")["commits_lost"],
        json!(0),
        "everything is before that"
    );
    assert_eq!(scratch.run("recover env --to-time yesterday").code, 2);
    assert_eq!(scratch.run("journal env --off"), answer(0, "No journal is kept.\n", ""));
    assert_eq!(scratch.run("get env k").out, "fourth");
}

#[test]
fn a_journal_that_is_missing_is_named() {
    let scratch = Scratch::new("gap");
    scratch.run("put env k 0");
    scratch.run("journal env --on");
    for n in 1..5 {
        scratch.run(&format!("put env k {n}"));
    }
    let history = scratch.json("recover env --list --json");
    let epochs = history["epochs"].as_array().unwrap();
    let oldest = &epochs[0];
    let journal = scratch.path().join("env/journal");
    let mut names: Vec<_> = fs::read_dir(&journal).unwrap().map(|file| file.unwrap().path()).collect();
    names.sort_by_key(|path| path.to_string_lossy().split('-').next_back().map(str::to_owned));
    assert!(names.len() >= 4, "{names:?}");
    fs::remove_file(&names[2]).unwrap();
    let refused =
        scratch.run(&format!("recover env --to-lsn {}", epochs.last().unwrap()["lsn"].as_u64().unwrap() - 8));
    assert_eq!(refused.code, 2, "{refused:?}");
    let number = names[2].to_string_lossy().split('-').next_back().unwrap().replace(".journal", "");
    assert!(refused.err.contains(&number) && refused.err.contains("missing"), "{}", refused.err);
    // An epoch needs no log.
    assert_eq!(scratch.run(&format!("recover env --to-epoch {} --apply", oldest["number"])).code, 0);
    assert_eq!(scratch.run("get env k").out, "0");
}

#[test]
fn volumes_are_declared_listed_moved_and_verified() {
    let scratch = Scratch::new("volumes");
    fs::create_dir_all(scratch.path().join("far")).unwrap();
    assert_eq!(
        scratch
            .run("put env k v --db logs --volume far=../far/one.db --place log*=far --place main:2019/*=far"),
        answer(0, "", "")
    );
    let volumes = scratch.json("stat env --json")["volumes"].clone();
    assert_eq!(
        (&volumes[0]["name"], &volumes[1]["name"], &volumes[1]["blocks"]),
        (&json!("main"), &json!("far"), &json!(1))
    );
    assert!(scratch.run("stat env").out.contains("env/../far/one.db"));
    fs::rename(scratch.path().join("far/one.db"), scratch.path().join("env/two.db")).unwrap();
    let refused = scratch.run("get env k --db logs");
    assert!(
        refused.code == 2 && refused.err.contains("far/one.db") && refused.err.contains("\"far\""),
        "{}",
        refused.err
    );
    assert_eq!(scratch.run("get env k --db logs --volume far=two.db"), answer(0, "v", ""));
    assert_eq!(scratch.run("verify env").code, 0);
    let refused = scratch.run("put env k v --place main=nowhere");
    assert!(refused.code == 2 && refused.err.contains("nowhere"), "{}", refused.err);
}

#[test]
fn the_version_is_that_of_another_name() {
    assert!(Scratch::new("version").run("--version").out.starts_with("sablecat 0."));
}
