//! Changes that several processes make, as one follows them, and some are killed.
//!
//! The other processes are this test program itself, started again with `SABLECAT_TEST_DIR` set, so that it
//! runs [`writer`] or [`reader`] alone.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use sablecat::{Change, ChangesOptions, Durability, Env, ErrorKind, Lsn};
use sablecat_tests::worker::test_name;

const DIRECTORY: &str = "SABLECAT_TEST_DIR";
const NUMBER: &str = "SABLECAT_TEST_NUMBER";

/// A directory for an environment, and one for its region; removed when dropped.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let base = PathBuf::from("/dev/shm").join(format!("sablecat-changes-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&base);
        std::fs::create_dir_all(base.join("region")).unwrap();
        Place(base)
    }

    fn segments(&self) -> usize {
        let files = std::fs::read_dir(self.0.join("env/log")).unwrap();
        files
            .filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|kind| kind == "log"))
            .count()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(base: &Path) -> Env {
    let builder =
        Env::builder().shared(true).cache_size(4 << 20).log_segment_size(1 << 16).log_buffer_size(1 << 16);
    builder
        .region_directory(base.join("region"))
        .durability(Durability::NoSync)
        .open(base.join("env"))
        .unwrap()
}

fn me() -> Option<(Env, String)> {
    let (Ok(base), Ok(number)) = (std::env::var(DIRECTORY), std::env::var(NUMBER)) else { return None };
    Some((open(Path::new(&base)), number))
}

/// Counts for ever, in two records of one commit, each third time made durable; and says the count once it is
/// committed.
#[test]
#[ignore = "what the processes of the other tests do"]
fn writer() {
    let Some((env, number)) = me() else { return };
    let (counts, others) = (env.database("counts").unwrap(), env.database("others").unwrap());
    let mut out = std::io::stdout().lock();
    let first = counts.get(&number).unwrap().map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    for count in first + 1.. {
        let mut txn = env.begin().unwrap();
        txn.insert(&counts, &number, count.to_le_bytes()).unwrap();
        // Now and then in chunks.
        let len = if count % 50 == 0 { 40_000 } else { 100 };
        txn.insert(&others, &number, [&count.to_le_bytes()[..], &vec![7; len]].concat()).unwrap();
        txn.commit_with(if count % 3 == 0 { Durability::Sync } else { Durability::NoSync }).unwrap();
        writeln!(out, "{count}").unwrap();
    }
}

/// Follows from now on, says that it does, and then only that it lives.
#[test]
#[ignore = "what the processes of the other tests do"]
fn reader() {
    let Some((env, _)) = me() else { return };
    let mut changes = env.changes_from_now(ChangesOptions::new()).unwrap();
    // The test program has begun a line of its own.
    println!("\n1");
    changes.next().unwrap();
    println!("\n2");
    loop {
        std::thread::park();
    }
}

struct Other {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Other {
    fn start(what: &str, place: &Place, number: usize) -> Other {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", what, "--ignored", "--nocapture", "--test-threads", "1"])
            .env(DIRECTORY, &place.0)
            .env(NUMBER, number.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Other { child, out }
    }

    /// The next count that it says.
    fn hear(&mut self) -> u64 {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "it ended by itself");
            if let Ok(count) = line.trim().parse() {
                return count;
            }
        }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn who_follows_several_processes_is_told_each_commit_once_however_they_end() {
    let place = Place::new("writers");
    let env = open(&place.0);
    env.database("counts").unwrap();
    env.database("others").unwrap();
    let mut changes = env.changes_from_now(ChangesOptions::new()).unwrap();
    let mut writers: Vec<Option<Other>> =
        (0..3).map(|n| Some(Other::start(test_name(writer), &place, n))).collect();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut told = BTreeMap::new();
    let mut last = Lsn(0);
    let mut read = |commit: sablecat::Commit<'_>, counts: &mut BTreeMap<String, u64>| {
        assert!(commit.lsn() > last, "in order");
        last = commit.lsn();
        let mut each = commit.changes();
        let mut seen = Vec::new();
        while let Some(change) = each.next().unwrap() {
            let Change::Insert { database, key, value } = change else { panic!("{change:?}") };
            let count = u64::from_le_bytes(value[..8].try_into().unwrap());
            seen.push((database.to_owned(), String::from_utf8(key.to_vec()).unwrap(), count));
        }
        let [(_, number, count), (_, same, again)] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!((number, count), (same, again));
        let before = counts.insert(number.clone(), *count).unwrap_or(0);
        assert_eq!(*count, before + 1, "each once, of writer {number}");
    };
    for round in 0..6 {
        for (n, writer) in writers.iter_mut().enumerate() {
            let writer = writer.as_mut().unwrap();
            let target = writer.hear() + 40;
            let mut heard = 0;
            while heard < target {
                heard = writer.hear();
                if let Some(commit) = changes.try_next().unwrap() {
                    read(commit, &mut counts);
                }
            }
            told.insert(n.to_string(), heard);
        }
        let at = round % 3;
        writers[at].take().unwrap().kill();
        writers[at] = Some(Other::start(test_name(writer), &place, at));
        // Nothing is lost of the killed, nor is what they had begun in the way. It waits for it, and is woken
        // by others.
        while counts.get(&at.to_string()).copied().unwrap_or(0) < told[&at.to_string()] {
            let commit = changes.next().unwrap().unwrap();
            read(commit, &mut counts);
        }
        env.checkpoint().unwrap();
    }
    writers.into_iter().flatten().for_each(Other::kill);
    env.sync().unwrap();
    while let Some(commit) = changes.try_next().unwrap() {
        read(commit, &mut counts);
    }
    let database = env.database("counts").unwrap();
    for (number, count) in counts {
        assert_eq!(database.get(&number).unwrap().unwrap(), count.to_le_bytes(), "writer {number}");
    }
}

#[test]
fn who_is_killed_while_it_reads_the_log_keeps_none_of_it() {
    let place = Place::new("reader");
    let env = open(&place.0);
    let database = env.database("d").unwrap();
    let fill = || {
        (0..300u32).for_each(|n| database.insert(n.to_be_bytes(), [1; 3000]).unwrap());
        env.sync().unwrap();
        env.checkpoint().unwrap();
    };
    fill();
    let few = place.segments();
    let mut reader = Other::start(test_name(reader), &place, 0);
    reader.hear();
    fill();
    assert_eq!(reader.hear(), 2, "it was woken from another process");
    fill();
    let kept = place.segments();
    assert!(kept > few + 10, "{kept} segments are kept for it, {few} before");
    reader.kill();
    let kept_after = || {
        database.insert("more", "value").unwrap();
        env.checkpoint().unwrap();
        place.segments()
    };
    // Somebody notes its death, as of any that is killed.
    while kept_after() > few + 3 {
        env.keep_house().unwrap();
    }
    assert_eq!(env.changes(Lsn(0)).expect_err("gone").kind(), ErrorKind::LogGone);
}
