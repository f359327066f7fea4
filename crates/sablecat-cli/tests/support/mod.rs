//! Running the command in tests: a directory of its own, a call in one line, its three answers.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot run its program has failed")]

pub(crate) mod cut;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory that is removed when the test ends.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

/// What a call answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Scratch {
    /// One that is called after the test.
    pub(crate) fn new(test: &str) -> Scratch {
        static SCRATCHES: AtomicU64 = AtomicU64::new(0);
        let number = SCRATCHES.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sablecat-cli-{}-{number}-{test}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `sablecat` in the directory; the arguments are separated by spaces.
    pub(crate) fn run(&self, arguments: &str) -> Answer {
        self.run_with(arguments, b"", &[])
    }

    /// The same, with something on standard input and in the environment.
    pub(crate) fn run_with(&self, arguments: &str, input: &[u8], variables: &[(&str, &Path)]) -> Answer {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sablecat"))
            .args(arguments.split_whitespace())
            .current_dir(&self.path)
            .env("SABLECAT_PEERS", "/there/are/no/peers")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Dropped at the end of the statement, which is the end of its input. Not everyone reads it.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        Answer {
            code: output.status.code().expect("it ended by itself"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// What an environment holds, as text; of a backup, without what says how far it has come.
    pub(crate) fn dump(&self, directory: &str) -> String {
        let Answer { code, out, err } = self.run(&format!("dump {directory} --format db-print"));
        assert_eq!((code, err.as_str()), (0, ""), "{directory}");
        let sections = out.split_inclusive("DATA=END\n");
        sections.filter(|section| !section.contains("database=sablecat.followed\n")).collect()
    }

    /// A call that must succeed, and its JSON.
    pub(crate) fn json(&self, arguments: &str) -> serde_json::Value {
        let Answer { code, out, err } = self.run(arguments);
        assert_eq!((code, err.as_str()), (0, ""), "{arguments}");
        serde_json::from_str(&out).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Code, standard output, standard error.
pub(crate) fn answer(code: i32, out: &str, err: &str) -> Answer {
    Answer { code, out: out.to_owned(), err: err.to_owned() }
}
