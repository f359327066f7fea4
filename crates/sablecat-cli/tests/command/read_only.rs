//! Looking at an environment that somebody else has for himself, or that may not be written.

#![allow(clippy::unwrap_used, reason = "an error is a failed test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::support::{Scratch, answer};
use sablecat::Env;
use serde_json::json;

#[test]
fn the_last_checkpoint_is_shown_whoever_has_the_environment_open() {
    let scratch = Scratch::new("read-only");
    let env = Env::builder().background(false).open(scratch.path().join("env")).unwrap();
    let db = env.database("main").unwrap();
    db.insert("k", "v").unwrap();
    let at = env.checkpoint().unwrap().lsn;
    db.insert("k", "later").unwrap();
    assert_eq!(scratch.run("get env k").code, 2, "somebody has it for himself");
    assert_eq!(scratch.run("get env k --read-only"), answer(0, "v", ""));
    assert_eq!(scratch.run("get env none --read-only"), answer(1, "", ""));
    assert_eq!(scratch.run("scan env --read-only"), answer(0, "k\tv\n", ""));
    assert_eq!(scratch.json("stat env --read-only --json")["checkpoint"], json!(at.0));
    assert_eq!(scratch.json("verify env --read-only --json")["problems"], json!([]));
    assert_eq!(
        scratch.run("scan env --read-only --db other").err,
        "sablecat: there is no database other in env, only main\n"
    );
    assert_eq!(scratch.run("put env k v --read-only").code, 2, "it is no option of those who write");
}

#[test]
fn who_may_not_write_is_shown_the_last_checkpoint_and_told_so() {
    let scratch = Scratch::new("fallback");
    scratch.run("put env k v");
    fs::set_permissions(scratch.path().join("env"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(scratch.path().join("env/sablecat.db"), fs::Permissions::from_mode(0o644)).unwrap();
    // A copy that anybody can start, wherever the command is.
    let program = scratch.path().join("sablecat");
    fs::copy(env!("CARGO_BIN_EXE_sablecat"), &program).unwrap();
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(scratch.path()).uid(65534).gid(65534);
        command.output().ok().map(|out| {
            (
                out.status.code(),
                String::from_utf8(out.stdout).unwrap(),
                String::from_utf8(out.stderr).unwrap(),
            )
        })
    };
    let Some((code, out, err)) = as_nobody(&["get", "env", "k"]) else {
        eprintln!("not tested: being another user takes privileges");
        return;
    };
    // It had been closed, so there is nothing but that.
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "v", ""));
    let env = sablecat::Env::builder().shared(true).open(scratch.path().join("env")).unwrap();
    let (code, out, err) = as_nobody(&["get", "env", "k"]).unwrap();
    assert_eq!((code, out.as_str()), (Some(0), "v"), "{err}");
    assert!(
        err.starts_with("sablecat: ")
            && err.contains("env/sablecat")
            && err.contains("last checkpoint")
            && err.lines().count() == 1,
        "{err}"
    );
    for command in ["scan", "stat", "verify"] {
        let (code, _, err) = as_nobody(&[command, "env"]).unwrap();
        assert_eq!((code, err.lines().count()), (Some(0), 1), "{command}: {err}");
    }
    assert_eq!(
        as_nobody(&["get", "env", "k", "--read-only"]).unwrap(),
        (Some(0), "v".to_owned(), String::new())
    );
    env.close().unwrap();
    let (code, _, err) = as_nobody(&["put", "env", "k", "w"]).unwrap();
    assert_eq!(code, Some(2));
    assert!(err.contains("read-only"), "{err}");
    assert_eq!(scratch.run("get env k"), answer(0, "v", ""));
}
