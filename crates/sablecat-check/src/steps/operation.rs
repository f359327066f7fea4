//! The operations that are stepped, and what there is before them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use sablecat::{ChangesOptions, Durability, Env, ErrorKind, Method, Result, TxnOptions};

use super::opening::{PAGE_BYTES, SEGMENT_BYTES};
use crate::method;

/// All records of all databases.
pub(super) type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// A process that is stopped for so long is succeeded.
const STILL: Duration = Duration::from_millis(250);

/// Records of a hash table that is split or joined.
const TABLE: u64 = 250;

/// Something that a process does, from one mark to the next.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Whether another process has the environment open meanwhile.
    pub(super) in_company: bool,
    pub(super) act: Act,
    /// Roles that others take over from a process that is stopped in them, however long it lives.
    pub(super) passed_on: &'static [&'static str],
}

/// What is done between the marks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// Work in an open environment.
    Work(fn(&Env) -> Result<()>),
    /// A checkpoint.
    Checkpoint,
    /// A checkpoint, in place of another process that is stopped in one.
    Succeed,
    /// Opening an environment whose region is there, whatever was left in it.
    Attach,
    /// Opening one without a region: its log is replayed.
    Recover,
    /// Opening one where there is nothing yet.
    Create,
    /// Opening one whose files are not those that the region left behind is of.
    SetAside,
    /// Opening one in which another died in the middle of a commit, while a third lives.
    Reap,
    /// Keeping house when another has just died in the middle of a commit, while a third lives.
    Mend,
    /// Opening one in which all died, that one in the middle of a commit.
    Rescue,
    /// Closing an environment.
    Close,
}

/// What is committed is written and flushed, and a process that is stopped at that is succeeded.
const fn work(name: &'static str, work: fn(&Env) -> Result<()>) -> Operation {
    Operation { name, in_company: true, act: Act::Work(work), passed_on: &["log flush"] }
}

const fn act(name: &'static str, in_company: bool, act: Act) -> Operation {
    Operation { name, in_company, act, passed_on: &[] }
}

/// All that can be stepped.
pub const OPERATIONS: [Operation; 39] = [
    work("get", |env| env.database("d")?.get(key(30)).map(drop)),
    work("insert", |env| env.database("d")?.insert(key(30), "another")),
    work("remove", |env| env.database("d")?.remove(key(30)).map(drop)),
    work("split", |env| env.database("d")?.insert(b"k030-and-more", [b's'; 300])),
    work("merge", |env| {
        let d = env.database("d")?;
        env.write(|txn| (20..40).try_for_each(|n| txn.remove(&d, key(n)).map(drop)))
    }),
    work("commit", commit),
    work("hand-over", |env| handed_over(env, key(30), "another")),
    work("commit-large", |env| {
        let (d, many) = (env.database("d")?, env.database("many")?);
        env.write(|txn| {
            (0..900).filter(|n| n % 7 != 0).try_for_each(|n| txn.insert(&many, key(n), [n as u8; 150]))?;
            (0..900).step_by(7).try_for_each(|n| txn.remove(&many, key(n)).map(drop))?;
            txn.insert(&d, key(30), vec![b'v'; 3000])
        })
    }),
    work("remove-range", |env| {
        let (d, e) = (env.database("d")?, env.database("e")?);
        env.write(|txn| {
            txn.insert(&d, key(3), "before it")?;
            txn.remove_range(&d, key(7)..key(52))?;
            txn.insert(&d, key(30), "in it")?;
            txn.clear(&e).map(drop)
        })
    }),
    work("clear-large", |env| env.database("many")?.clear().map(drop)),
    // Its pages are published in several steps.
    work("load", |env| {
        env.database("loaded")?.bulk_load((0..400).map(|n| (key(n), [n as u8; 200]))).map(drop)
    }),
    // A bucket becomes some fifty under a directory, and the other way round.
    work("hash-grow", |env| {
        let table = env.database_as("table", Method::Hash)?;
        env.write(|txn| (0..TABLE).try_for_each(|n| txn.insert(&table, key(n), value(n))))
    }),
    work("hash-shrink", |env| {
        let table = env.database_as("table", Method::Hash)?;
        env.write(|txn| (2..TABLE).try_for_each(|n| txn.remove(&table, key(n)).map(drop)))
    }),
    work("savepoint", |env| {
        let d = env.database("d")?;
        env.write(|txn| {
            txn.insert(&d, key(5), "kept")?;
            let here = txn.savepoint();
            txn.insert(&d, key(45), "not kept")?;
            txn.rollback_to(&here)?;
            txn.insert(&d, key(25), "kept too").map(drop)
        })
    }),
    work("abort", |env| {
        let d = env.database("d")?;
        let mut txn = env.begin()?;
        txn.get_for_update(&d, key(5))?;
        txn.insert(&d, key(5), "never")?;
        txn.abort();
        Ok(())
    }),
    work("lock", |env| {
        let d = env.database("d")?;
        env.write(|txn| {
            txn.get_for_update(&d, key(8))?;
            txn.insert(&d, key(8), "locked").map(drop)
        })
    }),
    work("long-value", |env| env.database("d")?.insert(key(30), vec![b'v'; 5000])),
    work("large-value", |env| env.database("d")?.insert(key(30), vec![b'v'; 20_000])),
    // It is a series of checkpoints.
    Operation { passed_on: &["log flush", "checkpoint"], ..work("compact", |env| env.compact().map(drop)) },
    work("long-key", |env| {
        env.database("d")?.insert(&[b'q'; 300][..if method::nests() { 300 } else { 40 }], "of a nested key")
    }),
    work("create-database", |env| env.database("new").map(drop)),
    work("remove-database", |env| env.remove_database("e").map(drop)),
    work("define", |env| {
        let d = env.database("d")?;
        env.write(|txn| {
            let new = txn.database("new")?;
            txn.insert(&new, key(1), "the first")?;
            txn.insert(&d, key(21), "with it")?;
            txn.remove_database("e")?;
            txn.rename_database("new", "e")
        })
    }),
    work("undefine", |env| {
        let mut txn = env.begin()?;
        let new = txn.database("new")?;
        txn.insert(&new, key(1), "never")?;
        txn.remove_database("e")?;
        txn.abort();
        Ok(())
    }),
    work("follow", follow),
    work("evict", |env| env.database("many")?.insert(key(700), "in a page that was not in memory")),
    // It comes to pages that were not in memory, and reads those with it that come behind them.
    work("scan", |env| env.database("many")?.visit(.., |_, _| ControlFlow::Continue(()))),
    Operation { passed_on: &["log supply", "log flush", "housekeeping"], ..work("supply", Env::keep_house) },
    Operation { passed_on: &["log supply", "log flush", "housekeeping"], ..work("fill", Env::keep_house) },
    Operation { passed_on: &["checkpoint"], ..act("checkpoint", true, Act::Checkpoint) },
    Operation { passed_on: &["checkpoint"], ..act("succeed", true, Act::Succeed) },
    act("create", false, Act::Create),
    act("attach", true, Act::Attach),
    act("recover", false, Act::Recover),
    Operation { passed_on: &["reaping"], ..act("reap", false, Act::Reap) },
    Operation { passed_on: &["reaping", "housekeeping"], ..act("mend", true, Act::Mend) },
    act("rescue", false, Act::Rescue),
    act("detach", true, Act::Close),
    act("close", false, Act::Close),
];

/// More, of which calls fail. One is long; the other is refused where it seems that somebody lives, as a
/// survivor has it.
pub(super) const MORE_OPERATIONS: [Operation; 2] = [
    work("grow", |env| {
        let many = env.database("many")?;
        env.write(|txn| (0..4500).try_for_each(|n| txn.insert(&many, key(n), [n as u8; 280]).map(drop)))
    }),
    act("set-aside", false, Act::SetAside),
];

/// The operation of a name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Operation> {
    OPERATIONS.iter().chain(&MORE_OPERATIONS).find(|operation| operation.name == name)
}

impl Operation {
    /// Whether there is more data than cache.
    fn is_large(&self) -> bool {
        matches!(self.name, "evict" | "scan" | "commit-large" | "clear-large")
    }

    /// Bytes of the cache: the smallest there is, as the less there is to copy the better; or the smallest in
    /// which anything is read ahead; or what takes more than one large page.
    pub(super) fn cache_bytes(&self) -> u64 {
        match self.name {
            "scan" => 160 * PAGE_BYTES as u64,
            "grow" => 8 << 20,
            _ => 0,
        }
    }

    /// Whether the environment is opened between the marks, and not before.
    pub(super) fn opens(&self) -> bool {
        matches!(self.act, Act::Create | Act::Attach | Act::Recover | Act::SetAside | Act::Reap | Act::Rescue)
    }

    /// Whether it makes or removes databases, which takes more than one commit.
    pub(super) fn is_of_names(&self) -> bool {
        matches!(self.name, "create-database" | "remove-database")
    }

    /// Bytes of a segment of the log: so few that each is made whole, or so many that one in use is filled
    /// bit by bit.
    pub(super) fn segment_bytes(&self) -> u64 {
        if self.name == "fill" { 3 << 20 } else { SEGMENT_BYTES }
    }

    /// How much of the log the process uses before it makes more of it ready, and how much others use then,
    /// which is more than was ready, but no more than a segment: both as [`use_log`] counts it.
    fn log_used(&self) -> (u64, u64) {
        match self.name {
            // More than half of a segment: another is wanted.
            "supply" => (5, 3),
            // More than half of the megabyte that is made ready at first.
            "fill" => (60, 60),
            _ => (0, 0),
        }
    }

    /// How much of the log the processes that work beside it use, as [`use_log`] counts it.
    pub(super) fn log_used_beside(&self) -> u64 {
        self.log_used().1
    }

    /// Whether it ends with something promised: everything that it did is on the disk.
    pub(super) fn promises(&self) -> bool {
        matches!(self.act, Act::Work(_))
    }

    /// What is there before, made by no process that is watched.
    pub(super) fn fill(&self, env: &Env) -> Result<()> {
        if let Act::Create = self.act {
            // What survivors work in is there after them.
            return env.database("d").map(drop);
        }
        for (name, records) in [("d", 60), ("e", 12)] {
            let database = env.database(name)?;
            (0..records).try_for_each(|n| database.insert(key(n), value(n)))?;
        }
        if self.name == "grow" {
            env.database("many")?;
        }
        if self.name == "load" {
            env.database("loaded")?;
        }
        if self.name.starts_with("hash-") {
            let table = env.database_as("table", Method::Hash)?;
            let records = if self.name == "hash-grow" { 2 } else { TABLE };
            (0..records).try_for_each(|n| table.insert(key(n), value(n)))?;
        }
        if self.name == "compact" {
            let many = env.database("many")?;
            (0..100).try_for_each(|n| many.insert(key(n), [n as u8; 200]))?;
            // Behind it in the file.
            env.checkpoint()?;
            (0..30).try_for_each(|n| env.database("e")?.insert(key(n), value(n + 7)))?;
        }
        if self.is_large() {
            let many = env.database("many")?;
            (0..900).try_for_each(|n| many.insert(key(n), [n as u8; 200]))?;
        }
        Ok(())
    }

    /// What the process does itself before it is watched: pages of its own that no checkpoint has written,
    /// and no more to open.
    pub(super) fn prepare(&self, env: &Env) -> Result<()> {
        let (d, _) = (env.database("d")?, env.database("e")?);
        d.insert(key(58), "before")?;
        if self.is_large() || self.name == "grow" {
            env.database("many")?;
        }
        if self.name == "hand-over" {
            // So that the next one need only store to a block that is there.
            handed_over(env, key(58), "before, again")?;
        }
        if self.name == "compact" {
            // Holes below what is to be moved into them.
            env.remove_database("many")?;
            env.checkpoint()?;
        }
        use_log(env, self.log_used().0)?;
        if let Act::Succeed = self.act {
            // It looks which process is there, and when it looks again that one has stood still for so long
            // that it is succeeded.
            env.keep_house()?;
            std::thread::sleep(STILL);
        }
        Ok(())
    }

    /// The records before and after, as an environment in memory has them that nobody disturbs.
    pub(super) fn before_and_after(&self) -> Result<[Contents; 2]> {
        let twin = method::builder().page_size(PAGE_BYTES).in_memory()?;
        self.fill(&twin)?;
        if !matches!(self.act, Act::Create | Act::Attach | Act::Recover | Act::SetAside) {
            self.prepare(&twin)?;
        }
        let before = contents(&twin)?;
        match self.act {
            Act::Work(work) => work(&twin)?,
            // The victim's commit.
            Act::Reap | Act::Mend | Act::Rescue => commit(&twin)?,
            Act::Checkpoint
            | Act::Succeed
            | Act::Create
            | Act::Attach
            | Act::Recover
            | Act::SetAside
            | Act::Close => {}
        }
        Ok([before, contents(&twin)?])
    }
}

/// A commit that changes pages of several trees.
pub(super) fn commit(env: &Env) -> Result<()> {
    let (d, e) = (env.database("d")?, env.database("e")?);
    env.write(|txn| {
        [3, 18, 33, 48].into_iter().try_for_each(|n| txn.insert(&d, key(n), "committed").map(drop))?;
        txn.remove(&d, key(57))?;
        txn.insert(&e, key(1), "committed").map(drop)
    })
}

/// A commit that is only handed over to the system.
fn handed_over(env: &Env, key: Vec<u8>, value: &str) -> Result<()> {
    let d = env.database("d")?;
    env.write_with(TxnOptions::new().durability(Durability::WriteNoSync), |txn| {
        txn.insert(&d, &key, value).map(drop)
    })
}

/// A commit that is followed: waited for, and read from the log. Where there is no log to read it is only
/// made.
fn follow(env: &Env) -> Result<()> {
    let d = env.database("d")?;
    let mut changes = match env.changes_from_now(ChangesOptions::new()) {
        Err(error) if error.kind() == ErrorKind::Invalid => None,
        changes => Some(changes?),
    };
    d.insert(key(30), "another")?;
    if let Some(changes) = &mut changes {
        changes.next()?;
        changes.next_within(Duration::from_millis(1))?;
    }
    Ok(())
}

/// Uses up so many times ten thousand bytes of the log and more.
pub(super) fn use_log(env: &Env, times: u64) -> Result<()> {
    let d = env.database("d")?;
    (0..times).try_for_each(|n| {
        d.insert(b"log", vec![n as u8; 10_000])?;
        d.remove(b"log").map(drop)
    })
}

/// Everything in an environment, at one snapshot.
pub(super) fn contents(env: &Env) -> Result<Contents> {
    let mut found = Contents::new();
    let snapshot = env.snapshot()?;
    for name in snapshot.databases()? {
        let Some(database) = snapshot.existing_database(&name)? else { continue };
        let mut records = BTreeMap::new();
        for record in snapshot.range(&database, ..)? {
            let (key, value) = record?;
            records.insert(key.to_vec(), value.to_vec());
        }
        found.insert(name, records);
    }
    Ok(found)
}

/// The key of a record.
pub(super) fn key(n: u64) -> Vec<u8> {
    format!("k{n:03}").into_bytes()
}

fn value(n: u64) -> Vec<u8> {
    vec![b'a' + (n % 26) as u8; 40]
}
