//! A process whose lock was closed behind its back: others take it for dead while it lives. It must find out
//! before it touches anything.
//!
//! The worker is this test program itself, started again with `SABLECAT_TEST_DIR` set, so that it runs
//! [`worker`] alone.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use sablecat::{Durability, Env, Error, ErrorKind};
use sablecat_os::check::descriptors;
use sablecat_tests::worker::test_name;

const DIRECTORY: &str = "SABLECAT_TEST_DIR";

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("sablecat-fencing-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn open(path: &Path) -> Env {
    let builder = Env::builder().shared(true).background(false).cache_size(1 << 20).log_segment_size(1 << 20);
    builder.durability(Durability::NoSync).open(path).expect("opened")
}

/// What a library does that makes a process a daemon.
fn close_lock(directory: &Path) {
    // SAFETY: whoever has the descriptor only asks the kernel about its number.
    assert!(unsafe { descriptors::close_of(&directory.join("sablecat.lock")) }.expect("listed") > 0);
}

fn refused<T>(what: &str, result: Result<T, Error>) {
    let error = result.err().unwrap_or_else(|| panic!("{what}: done by a process that counts as dead"));
    assert!(
        error.kind() == ErrorKind::Poisoned && error.to_string().contains("taken for dead"),
        "{what}: {error}"
    );
}

/// Says something to the test, and waits for its answer.
fn tell(word: &str) {
    println!("{word}");
    std::io::stdout().flush().expect("said");
    std::io::stdin().lock().read_line(&mut String::new()).expect("answered");
}

#[test]
#[ignore = "what the process of the other tests does"]
fn worker() {
    let Ok(path) = std::env::var(DIRECTORY) else { return };
    let env = open(Path::new(&path));
    let records = env.database("records").expect("opened");
    records.insert("worker", "was here").expect("alive");
    {
        let reading = env.snapshot().expect("alive");
        let mut changing = env.begin().expect("alive");
        changing.insert(&records, "key", "of the dead").expect("alive");
        assert!(changing.get(&records, "worker").expect("alive").is_some());
        let mut locking = env.begin().expect("alive");
        locking.get_for_update(&records, "locked").expect("alive");
        let mut creating = env.begin().expect("alive");
        creating.database("of the dead").expect("alive");
        close_lock(Path::new(&path));
        tell("closed");

        refused("a read of a snapshot", reading.get(&records, "key"));
        refused("a read of a transaction", changing.get(&records, "other"));
        refused("a lock", locking.get_for_update(&records, "key"));
        refused("a commit", changing.commit());
        refused("a commit of a database", creating.commit());
        refused(
            "a commit of nothing but a lock",
            locking.insert(&records, "locked", "").and_then(|()| locking.commit()),
        );
        refused("a read", records.get("key"));
        refused("an insert", records.insert("key", "of the dead"));
        refused("a removal", records.remove("worker"));
        refused("a long value", records.insert("long", vec![7; 1 << 20]));
        refused("a range", records.len());
        refused(
            "a load",
            env.database("loaded").and_then(|loaded| loaded.bulk_load([("key", "of the dead")])),
        );
        refused("a flush", env.sync());
        refused("a checkpoint", env.checkpoint());
        refused("housekeeping", env.keep_house());
        refused("verification", env.verify(&mut |_| {}));
        refused("a removed database", env.remove_database("records"));
    }
    drop(records);
    refused("closing", env.close());
    tell("refused");
    // As a new one it is as welcome as any.
    let env = open(Path::new(&path));
    let records = env.database("records").expect("opened");
    assert_eq!(records.get("key").expect("alive").as_deref(), Some(&b"of the living"[..]));
    records.insert("again", "here").expect("alive");
    drop(records);
    env.close().expect("closed");
}

struct Worker {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Worker {
    fn start(path: &Path) -> Worker {
        let mut command = Command::new(std::env::current_exe().expect("a program"));
        command.args(["--exact", test_name(worker), "--ignored", "--nocapture"]).env(DIRECTORY, path);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
        let (to, from) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Worker { child, to, from: BufReader::new(from) }
    }

    fn hears(&mut self, word: &str) {
        let mut line = String::new();
        while !line.trim_end().ends_with(word) {
            line.clear();
            assert!(self.from.read_line(&mut line).expect("heard") > 0, "it ended before it said {word:?}");
        }
    }

    fn goes_on(&mut self) {
        self.to.write_all(b"\n").expect("told");
    }

    /// Waits for its end.
    fn ends(mut self) {
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.from, &mut rest).expect("heard");
        assert!(self.child.wait().expect("ended").success(), "{rest}");
    }
}

#[test]
fn who_was_wrongly_taken_for_dead_changes_nothing_and_is_told_so() {
    let path = directory("reaped");
    let env = open(&path);
    let records = env.database("records").expect("made");
    for n in 0..500u32 {
        records.insert(n.to_be_bytes(), [7; 100]).expect("inserted");
    }
    let mut worker = Worker::start(&path);
    worker.hears("closed");
    while env.processes().len() > 1 {
        env.keep_house().expect("kept");
        std::thread::yield_now();
    }
    // Its slots are used again, and hold something.
    records.insert("key", "of the living").expect("inserted");
    let mut held: Vec<_> = (0..6).map(|_| env.begin().expect("begun")).collect();
    for (n, txn) in held.iter_mut().enumerate() {
        txn.get_for_update(&records, format!("held {n}")).expect("locked");
        txn.insert(&records, format!("held {n}"), "yes").expect("inserted");
    }
    worker.goes_on();
    worker.hears("refused");
    for (n, txn) in held.into_iter().enumerate() {
        assert_eq!(txn.get(&records, format!("none {n}")).expect("read"), None);
        txn.commit().expect("nobody interfered");
    }
    assert_eq!(records.get("key").expect("read").as_deref(), Some(&b"of the living"[..]));
    worker.goes_on();
    worker.ends();
    assert_eq!(records.get("again").expect("read").as_deref(), Some(&b"here"[..]));
    assert!(env.existing_database("of the dead").expect("read").is_none());
    assert_eq!(records.len().expect("read"), 500 + 3 + 6);
    assert_eq!(env.verify(&mut |_| {}).expect("read").problems, [""; 0]);
    drop(records);
    env.close().expect("closed");
    std::fs::remove_dir_all(&path).expect("removed");
}

#[test]
fn who_has_lost_its_lock_notices_although_nobody_else_is_there() {
    let path = directory("alone");
    let env = open(&path);
    let records = env.database("records").expect("made");
    records.insert("key", "of the living").expect("inserted");
    close_lock(&path);
    let _ = env.keep_house();
    refused("an insert", records.insert("key", "of the dead"));
    drop(records);
    refused("closing", env.close());
    let env = open(&path);
    let records = env.database("records").expect("made");
    assert_eq!(
        records.get("key").expect("read").as_deref(),
        Some(&b"of the living"[..]),
        "what was committed is in memory still"
    );
    assert_eq!(env.processes().len(), 1);
    drop(records);
    env.close().expect("closed");
    std::fs::remove_dir_all(&path).expect("removed");
}

#[test]
fn who_has_lost_its_lock_commits_nothing_after_another_has_begun_anew() {
    let path = directory("succeeded");
    let env = open(&path);
    let records = env.database("records").expect("made");
    records.insert("key", "of before").expect("inserted");
    let mut changing = env.begin().expect("alive");
    changing.insert(&records, "key", "of the dead").expect("alive");
    close_lock(&path);
    // To whom nobody lives.
    let other = open(&path);
    let theirs = other.database("records").expect("opened");
    assert_eq!(theirs.get("key").expect("read").as_deref(), Some(&b"of before"[..]));
    refused("a commit", changing.commit());
    refused("an insert", records.insert("key", "of the dead"));
    refused("a checkpoint", env.checkpoint());
    drop(records);
    refused("closing", env.close());
    theirs.insert("key", "of the living").expect("inserted");
    drop(theirs);
    other.close().expect("closed");
    let env = open(&path);
    let records = env.database("records").expect("opened");
    assert_eq!(records.get("key").expect("read").as_deref(), Some(&b"of the living"[..]));
    drop(records);
    env.close().expect("closed");
    std::fs::remove_dir_all(&path).expect("removed");
}
