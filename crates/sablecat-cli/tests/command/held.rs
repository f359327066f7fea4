//! `volume`: environments that are held in memory, their images written by command, by a guard on signals and
//! every so often, cut short at any system call, and on a full disk.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::support::cut::{calls_of, cut, each_of_some};
use crate::support::{Scratch, answer};
use sablecat_os::check::stepped::is_possible;

/// The directory in memory of a test; removed when dropped.
struct Memory(PathBuf);

impl Memory {
    fn new(test: &str) -> Memory {
        let path = PathBuf::from(format!("/dev/shm/sablecat-held-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Memory(path)
    }

    fn hold(&self, scratch: &Scratch) {
        assert_eq!(scratch.run(&format!("volume hold env {}", self.0.display())), answer(0, "", ""));
        assert!(self.0.join("sablecat.db").exists());
    }

    /// As a crash of the machine does.
    fn forget(&self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A guard; killed when dropped.
struct Guard {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Guard {
    fn start(scratch: &Scratch, arguments: &[&str]) -> Guard {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sablecat"))
            .args(["volume", "guard", "env"])
            .args(arguments)
            .current_dir(scratch.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Guard { child, out }
    }

    /// Waits for its next image.
    fn assert_writes(&mut self) {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        assert!(line.starts_with("wrote "), "{line:?}");
    }

    fn send(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn put(scratch: &Scratch, value: &str) {
    assert_eq!(scratch.run(&format!("put env key {value}")), answer(0, "", ""));
}

/// The value in the environment, as the next process finds it.
fn get(scratch: &Scratch) -> String {
    let got = scratch.run("get env key");
    assert_eq!((got.code, got.err.as_str()), (0, ""));
    got.out
}

#[test]
fn what_was_flushed_is_loaded_when_the_memory_is_gone() {
    let (scratch, memory) = (Scratch::new("held"), Memory::new("flush"));
    memory.hold(&scratch);
    put(&scratch, "1");
    let flushed = scratch.json("volume flush env --json");
    assert!(flushed["bytes"].as_u64().unwrap() > 0 && flushed["lsn"].as_u64().unwrap() > 0, "{flushed}");
    put(&scratch, "2");
    assert_eq!(get(&scratch), "2");
    assert_eq!(
        scratch.json("stat env --json")["volumes"][0]["path"],
        memory.0.join("sablecat.db").to_str().unwrap()
    );
    memory.forget();
    assert_eq!(get(&scratch), "1");
    let again = scratch.run("volume flush env");
    assert!(again.code == 0 && !again.out.is_empty(), "{again:?}");
    assert_eq!(scratch.run("verify env").code, 0);
}

#[test]
fn a_guard_writes_images_when_power_fails_and_when_it_is_told_to_stop() {
    let (scratch, memory) = (Scratch::new("guard"), Memory::new("guard"));
    memory.hold(&scratch);
    put(&scratch, "1");
    let mut guard = Guard::start(&scratch, &[]);
    guard.assert_writes();
    for value in ["2", "3"] {
        put(&scratch, value);
        guard.send("-PWR");
        guard.assert_writes();
    }
    put(&scratch, "4");
    guard.send("-KILL");
    guard.child.wait().unwrap();
    assert_eq!(get(&scratch), "4", "killed without warning");
    memory.forget();
    assert_eq!(get(&scratch), "3");

    for (signal, value) in [("-TERM", "told"), ("-INT", "interrupted")] {
        let mut guard = Guard::start(&scratch, &[]);
        guard.assert_writes();
        put(&scratch, value);
        guard.send(signal);
        assert_eq!(guard.child.wait().unwrap().code(), Some(0));
        memory.forget();
        assert_eq!(get(&scratch), value);
    }
}

#[test]
fn a_guard_writes_images_every_so_often() {
    let (scratch, memory) = (Scratch::new("every"), Memory::new("every"));
    memory.hold(&scratch);
    put(&scratch, "1");
    let mut guard = Guard::start(&scratch, &["--every", "10ms"]);
    guard.assert_writes();
    for value in ["2", "3"] {
        put(&scratch, value);
        guard.assert_writes();
    }
    drop(guard);
    memory.forget();
    // Of what the last command committed, and of what it did before that.
    assert!(["2", "3"].contains(&get(&scratch).as_str()));
}

/// Its listener is gone: it guards nevertheless.
#[test]
fn a_guard_that_nobody_listens_to_goes_on() {
    let (scratch, memory) = (Scratch::new("deaf"), Memory::new("deaf"));
    memory.hold(&scratch);
    put(&scratch, "1");
    let (out, said) = std::io::pipe().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_sablecat"))
        .args(["volume", "guard", "env", "--every", "10ms"])
        .current_dir(scratch.path())
        .stderr(said.try_clone().unwrap())
        .stdout(said)
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line).unwrap();
    assert!(line.starts_with("wrote "), "{line:?}");
    put(&scratch, "2");
    std::thread::sleep(std::time::Duration::from_millis(500));
    put(&scratch, "3");
    assert_eq!(child.try_wait().unwrap(), None, "it has ended");
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    memory.forget();
    assert_eq!(get(&scratch), "3");
}

/// The memory is removed, and others have the image loaded and go on with that: what they commit is guarded
/// soon, and nothing that the guard has of what was removed is in their way.
#[test]
fn a_guard_goes_on_with_what_others_have_when_the_memory_was_gone() {
    let (scratch, memory) = (Scratch::new("gone"), Memory::new("gone"));
    memory.hold(&scratch);
    put(&scratch, "1");
    let mut guard = Guard::start(&scratch, &[]);
    guard.assert_writes();
    memory.forget();
    put(&scratch, "2");
    guard.assert_writes();
    put(&scratch, "3");
    guard.send("-PWR");
    guard.assert_writes();
    memory.forget();
    assert_eq!(get(&scratch), "3");
    // Told to stop at once.
    put(&scratch, "4");
    guard.send("-TERM");
    assert_eq!(guard.child.wait().unwrap().code(), Some(0));
    memory.forget();
    assert_eq!(get(&scratch), "4");

    // And if there is none any more, it says so and ends.
    put(&scratch, "5");
    let mut guard = Guard::start(&scratch, &[]);
    guard.assert_writes();
    fs::remove_dir_all(scratch.path().join("env")).unwrap();
    memory.forget();
    assert_eq!(guard.child.wait().unwrap().code(), Some(2));
}

/// An image that cannot be written when power fails is tried again, until it can.
#[test]
fn a_guard_tries_again() {
    let (scratch, memory) = (Scratch::new("again"), Memory::new("again"));
    memory.hold(&scratch);
    put(&scratch, "1");
    let mut guard = Guard::start(&scratch, &[]);
    guard.assert_writes();
    put(&scratch, "2");
    let unfinished = scratch.path().join("env/sablecat.db.unfinished");
    fs::create_dir(&unfinished).unwrap();
    guard.send("-PWR");
    std::thread::sleep(std::time::Duration::from_millis(300));
    fs::remove_dir(&unfinished).unwrap();
    guard.assert_writes();
    memory.forget();
    assert_eq!(get(&scratch), "2");
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
}

/// So many calls are tried as `SABLECAT_TEST_KILLS` says, spread over all of them.
#[test]
fn a_flush_that_is_cut_short_leaves_the_image_before_and_the_environment() {
    if !is_possible() {
        return;
    }
    let (scratch, memory) = (Scratch::new("cut"), Memory::new("cut"));
    memory.hold(&scratch);
    put(&scratch, "old");
    assert_eq!(scratch.run("volume flush env").code, 0);
    put(&scratch, "new");
    let (env, begun) = (scratch.path().join("env"), scratch.path().join("begun"));
    copy(&env, &begun);
    let in_memory = scratch.path().join("memory");
    copy(&memory.0, &in_memory);
    let put_back = |with_memory: bool| {
        let _ = fs::remove_dir_all(&memory.0);
        if with_memory {
            copy(&in_memory, &memory.0);
        }
    };
    let begin = || {
        let _ = fs::remove_dir_all(&env);
        copy(&begun, &env);
        put_back(true);
    };
    let calls = calls_of(&scratch, "volume flush env");
    let mut found = [0, 0];
    each_of_some(12, calls, |call, fails| {
        begin();
        let (_, told) = cut(&scratch, "volume flush env", call, fails);
        assert_eq!(get(&scratch), "new", "{told}");
        assert_eq!(scratch.run("verify env").code, 0, "{told}");
        put_back(false);
        let there = get(&scratch);
        found[usize::from(there == "new")] += 1;
        assert!(["old", "new"].contains(&there.as_str()), "{there}, {told}");
        assert_eq!(scratch.run("verify env").code, 0, "{told}");
    });
    assert!(found[0] > 0, "{found:?}");
}

/// It takes the right to mount one; without that there is nothing to test.
#[test]
fn on_a_full_disk_the_image_before_stays() {
    let (scratch, memory) = (Scratch::new("full"), Memory::new("full"));
    fs::create_dir(scratch.path().join("disk")).unwrap();
    let shell = |script: &str| {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-ec", script])
            .current_dir(scratch.path())
            .env("S", env!("CARGO_BIN_EXE_sablecat"))
            .env("M", &memory.0);
        command.output()
    };
    let mount = "mount -t tmpfs -o size=3m none disk;";
    if !shell(mount).is_ok_and(|tried| tried.status.success()) {
        eprintln!("skipped: no file system may be mounted here");
        return;
    }
    let done = shell(&format!(
        r#"{mount}
        $S volume hold disk/env $M
        $S put disk/env k old
        $S volume flush disk/env
        v=$(head -c 100000 /dev/zero | tr '\0' a)
        i=0
        while test $i -lt 40; do $S put disk/env k$i "$v"; i=$((i + 1)); done
        $S put disk/env k new
        ! $S volume flush disk/env 2>said
        grep -q 'No space left' said
        test "$($S get disk/env k)" = new
        $S verify disk/env
        rm -r $M
        test "$($S get disk/env k)" = old
        $S verify disk/env
        "#
    ))
    .unwrap();
    let said = [done.stdout, done.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(done.status.success(), "{said:?}");
}
