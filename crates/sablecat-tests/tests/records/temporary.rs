//! Temporary databases: what of them is logged, told, copied and kept, and what they may have to do with
//! durable ones. That they are as any database until the environment is opened afresh, and empty then, is
//! tested in sablecat-check/tests/checks/temporary.rs.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sablecat::globals::Globals;
use sablecat::{
    Builder, Change, ChangesOptions, Database, DatabaseOptions, Duplicates, Durability, Env, ErrorKind,
    Expiring, Follower, Holds, IndexOptions, Journal, Method, MultiMap, Numbered, OnRemove, Queue,
    SequenceOptions, Target, TxnOptions,
};
use sablecat_os::disk::{Disk, How};
use sablecat_os::sim::{SimDisk, Survival};

const DIRECTORY: &str = "env";
/// Where a record of no operation ends.
const EMPTY_RECORD_BYTES: u64 = 24;

fn builder(disk: &SimDisk) -> Builder {
    Env::builder()
        .disk(Arc::new(disk.clone()))
        .background(false)
        .log_buffer_size(1 << 16)
        .log_segment_size(1 << 16)
        .extractor("value", |_, value, keys| keys.push(value))
}

fn open(disk: &SimDisk) -> Env {
    builder(disk).open(DIRECTORY).unwrap()
}

fn temporary() -> DatabaseOptions {
    DatabaseOptions::new().temporary(true)
}

fn make(env: &Env, name: &str) -> Database {
    env.database_with(name, temporary()).unwrap()
}

fn assert_sound(env: &Env) {
    env.keep_house().unwrap();
    env.checkpoint().unwrap();
    let report = env.verify(&mut |_| {}).unwrap();
    assert_eq!((&report.problems[..], report.pages_unreachable), (&[][..], 0));
}

/// A change of a database and a queue, which is one commit.
type Deed = (&'static str, fn(&Env, &Database, &Queue));

const DEEDS: [Deed; 8] = [
    ("one record", |_, records, _| records.insert("one", "SECRET").unwrap()),
    ("a long value", |_, records, _| records.insert("long", "SECRET".repeat(3000)).unwrap()),
    ("a long key", |_, records, _| records.insert("SECRET".repeat(200), "v").unwrap()),
    ("one goes", |_, records, _| assert!(records.remove("one").unwrap())),
    ("a transaction", |env, records, queue| {
        env.write(|txn| {
            (0..300u32).try_for_each(|n| txn.insert(records, n.to_be_bytes(), "SECRET"))?;
            queue.append(txn, "SECRET").map(drop)
        })
        .unwrap();
    }),
    ("a range goes", |_, records, _| {
        assert_eq!(records.remove_range(1u32.to_be_bytes()..200u32.to_be_bytes()).unwrap(), 199);
    }),
    ("one is appended", |_, _, queue| _ = queue.append_one("SECRET").unwrap()),
    ("one is consumed", |_, _, queue| assert!(queue.consume_one().unwrap().is_some())),
];

/// Whether a file of the environment has the records' text.
fn tells(disk: &SimDisk, directory: &str) -> bool {
    disk.list(Path::new(directory)).unwrap().iter().any(|name| {
        let file = disk.open(&Path::new(directory).join(name), How::default()).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        bytes.windows(6).any(|window| window == b"SECRET")
    })
}

#[test]
fn nothing_is_logged_of_their_records_and_their_commits_wait_for_no_disk() {
    for (name, is_temporary) in [("durable", false), ("temporary", true)] {
        let disk = SimDisk::new(1);
        let env = builder(&disk).durability(Durability::Sync).open(DIRECTORY).unwrap();
        let options = DatabaseOptions::new().temporary(is_temporary);
        let records = env.database_with(name, options.clone()).unwrap();
        let holds = Holds::Queue { record_bytes: 6, pad: 0 };
        let queue = Queue::of(env.database_with("queue", options.holds(holds)).unwrap()).unwrap();
        // Taking space for itself is no commit's affair.
        env.keep_house().unwrap();
        for (what, deed) in DEEDS {
            let (tail, calls) = (env.stats().unwrap().log_tail.0, disk.calls());
            deed(&env, &records, &queue);
            let calls = disk.calls() - calls;
            let grown = env.stats().unwrap().log_tail.0 - tail;
            assert_eq!(grown == EMPTY_RECORD_BYTES, is_temporary, "{what}: {grown} bytes");
            assert_eq!(calls == 0, is_temporary, "{what}: {calls} calls");
        }
        env.sync().unwrap();
        assert_eq!(tells(&disk, "env/log"), !is_temporary);
    }
}

#[test]
fn a_crash_leaves_nothing_of_their_commits_to_replay() {
    let disk = SimDisk::new(1);
    let env = open(&disk);
    let sessions = make(&env, "sessions");
    env.checkpoint().unwrap();
    (0..10u8).for_each(|n| sessions.insert([n], "v").unwrap());
    env.write(|txn| txn.insert(&sessions, "k", "v")).unwrap();
    env.sync().unwrap();
    assert_eq!(open(&disk.crash_as(Survival::Everything, 1)).recovery().commits, 0);
}

/// What is larger than a record of the log, than the cache, and loaded in bulk.
#[test]
fn nothing_is_logged_of_records_that_are_many() {
    for is_temporary in [false, true] {
        let disk = SimDisk::new(1);
        let env = builder(&disk).page_size(512).cache_size(1 << 17).open(DIRECTORY).unwrap();
        let records = env.database_with("records", DatabaseOptions::new().temporary(is_temporary)).unwrap();
        let loaded = env.database_with("loaded", DatabaseOptions::new().temporary(is_temporary)).unwrap();
        let tail = || env.stats().unwrap().log_tail.0;
        let before = tail();
        env.write(|txn| (0..8000u32).try_for_each(|n| txn.insert(&records, n.to_be_bytes(), [7; 40])))
            .unwrap();
        let half = tail();
        assert_eq!(loaded.bulk_load((0..8000u32).map(|n| (n.to_be_bytes(), [7; 40]))).unwrap(), 8000);
        let after = tail();
        assert_eq!((records.len().unwrap(), loaded.len().unwrap()), (8000, 8000));
        // Pages that are published in between have records of no operation.
        assert!((half - before < 40_000) == is_temporary, "{}", half - before);
        assert!((after - half < 10_000) == is_temporary, "{}", after - half);
        assert_eq!(records.clear().unwrap(), 8000);
        assert!((tail() - after < 40_000), "{}", tail() - after);
    }
}

#[test]
fn a_commit_that_changes_durable_records_too_is_as_durable_as_was_asked() {
    let disk = SimDisk::new(1);
    let env = open(&disk);
    let (durable, sessions) = (env.database("durable").unwrap(), make(&env, "sessions"));
    for (n, rung) in [Durability::Sync, Durability::NoSync].into_iter().enumerate() {
        env.write_with(TxnOptions::new().durability(rung), |txn| {
            txn.insert(&sessions, [n as u8], "SECRET")?;
            txn.remove_range(&sessions, [200]..)?;
            txn.insert(&durable, [n as u8], "v")
        })
        .unwrap();
    }
    let after = disk.crash_as(Survival::Nothing, 1);
    assert!(!tells(&after, "env/log"));
    let env = open(&after);
    assert_eq!(env.database("durable").unwrap().len().unwrap(), 1);
    assert!(env.database("sessions").unwrap().is_empty().unwrap());
    assert_sound(&env);
}

#[test]
fn more_than_the_cache_has_room_for_is_held_and_its_blocks_are_free_afterwards() {
    let disk = SimDisk::new(1);
    let open = |disk: &SimDisk| {
        builder(disk)
            .page_size(512)
            .cache_size(1 << 17)
            .durability(Durability::NoSync)
            .open(DIRECTORY)
            .unwrap()
    };
    let env = open(&disk);
    let (sessions, durable) = (make(&env, "sessions"), env.database("durable").unwrap());
    durable.insert("k", "v").unwrap();
    env.checkpoint().unwrap();
    let few = env.stats().unwrap().blocks;
    for n in 0..20_000u32 {
        sessions.insert(n.wrapping_mul(0x9e37_79b9).to_be_bytes(), [n as u8; 60]).unwrap();
        if n % 5000 == 0 {
            env.checkpoint().unwrap();
        }
    }
    for n in 0..20_000u32 {
        let found = sessions.get(n.wrapping_mul(0x9e37_79b9).to_be_bytes()).unwrap();
        assert_eq!(found.as_deref(), Some(&[n as u8; 60][..]));
    }
    env.checkpoint().unwrap();
    assert!(env.stats().unwrap().blocks > few + 2000);
    let crashed = disk.crash_as(Survival::Nothing, 1);
    drop((sessions, durable));
    env.close().unwrap();
    for left in [crashed, disk] {
        let env = open(&left);
        assert!(env.database("sessions").unwrap().is_empty().unwrap());
        assert_sound(&env);
        assert!(env.stats().unwrap().blocks < few + 30, "{} {few}", env.stats().unwrap().blocks);
        env.compact().unwrap();
        assert!(env.stats().unwrap().volume_bytes < 1 << 20);
    }
}

#[test]
fn changes_tell_of_the_database_and_not_of_its_records_and_copies_have_it_empty() {
    let (here, there, third) = (SimDisk::new(1), SimDisk::new(2), SimDisk::new(3));
    let (origin, copy) = (open(&here), open(&there));
    let mut changes = origin.changes_from_now(ChangesOptions::new()).unwrap();
    let (sessions, durable) = (make(&origin, "sessions"), origin.database("durable").unwrap());
    let by_value = origin.index("sessions by value", &sessions, IndexOptions::new("value")).unwrap();
    sessions.insert("alone", "SECRET").unwrap();
    origin
        .write(|txn| {
            txn.insert(&sessions, "k", "SECRET")?;
            txn.insert(&durable, "k", "v")
        })
        .unwrap();
    origin.rename_database("sessions", "renamed").unwrap();
    sessions.insert("after", "SECRET").unwrap();
    let follower = Follower::new(&copy, "origin").unwrap();
    let mut told = Vec::new();
    while let Some(commit) = changes.try_next().unwrap() {
        let mut each = commit.changes();
        while let Some(change) = each.next().unwrap() {
            told.push(match change {
                Change::CreateDatabase { name, temporary, .. } => format!("create {name} {temporary}"),
                Change::Insert { database, .. } => format!("insert {database}"),
                Change::RenameDatabase { from, to } => format!("rename {from} {to}"),
                other => format!("{other:?}"),
            });
        }
        assert!(follower.apply(&commit).unwrap());
    }
    let expected = [
        "create sessions true",
        "create durable false",
        "create sessions by value true",
        "insert durable",
        "rename sessions renamed",
    ];
    assert_eq!(told, expected);
    assert!(by_value.get(&origin, "SECRET").unwrap().is_some());

    let backup = open(&third);
    Follower::new(&backup, "origin").unwrap().copy(&origin, &mut |_| {}).unwrap();
    for copy in [copy, backup] {
        let sessions = copy.database("renamed").unwrap();
        assert!(sessions.is_temporary() && sessions.is_empty().unwrap());
        let by_value = copy.index("sessions by value", &sessions, IndexOptions::new("value")).unwrap();
        sessions.insert("k", "own").unwrap();
        assert_eq!(by_value.get(&copy, "own").unwrap().unwrap().0, b"k");
        assert_eq!(copy.database("durable").unwrap().len().unwrap(), 1);
        assert_sound(&copy);
    }
}

#[test]
fn going_back_brings_durable_records_back_and_no_others() {
    let disk = SimDisk::new(1);
    let open = || builder(&disk).journal(Journal::default()).open(DIRECTORY).unwrap();
    let env = open();
    let (sessions, durable) = (make(&env, "sessions"), env.database("durable").unwrap());
    let both = |n: u32| {
        env.write(|txn| {
            txn.insert(&sessions, n.to_be_bytes(), "s")?;
            txn.insert(&durable, n.to_be_bytes(), "v")
        })
        .unwrap();
    };
    (0..100).for_each(both);
    env.checkpoint().unwrap();
    (100..150).for_each(both);
    sessions.insert("alone", "s").unwrap();
    let then = env.lsn();
    (150..200).for_each(both);
    env.remove_database("sessions").unwrap();
    drop((sessions, durable));
    env.close().unwrap();
    builder(&disk).recovery(DIRECTORY, Target::Lsn(then)).unwrap().apply().unwrap();
    let env = open();
    assert_eq!(env.database("durable").unwrap().len().unwrap(), 150);
    let sessions = env.existing_database("sessions").unwrap().unwrap();
    assert!(sessions.is_temporary() && sessions.is_empty().unwrap());
    assert_sound(&env);
}

#[test]
fn who_only_reads_sees_what_the_last_checkpoint_has() {
    let base = std::env::temp_dir().join(format!("sablecat-temporary-read-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&base);
    let writer = || Env::builder().background(false).open(&base).unwrap();
    let count = || {
        let reader = Env::builder().read_only(true).open(&base).unwrap();
        let sessions = reader.database("sessions").unwrap();
        assert!(sessions.is_temporary());
        sessions.len().unwrap()
    };
    let env = writer();
    let sessions = make(&env, "sessions");
    sessions.insert("a", "1").unwrap();
    env.checkpoint().unwrap();
    sessions.insert("b", "2").unwrap();
    assert_eq!(count(), 1);
    drop(sessions);
    env.close().unwrap();
    let env = writer();
    assert_eq!(count(), 0);
    drop(env);
    std::fs::remove_dir_all(base).unwrap();
}

#[test]
fn what_is_durable_refers_to_nothing_temporary() {
    let disk = SimDisk::new(1);
    let env = open(&disk);
    let (users, orders) = (env.database("users").unwrap(), env.database("orders").unwrap());
    let (sessions, carts) = (make(&env, "sessions"), make(&env, "carts"));
    let refer = |name: &str, from: &Database, to: &Database| {
        env.index(name, from, IndexOptions::new("value").references(to, OnRemove::Cascade)).map(drop)
    };
    let refused = refer("orders by session", &orders, &sessions).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("they would lead nowhere"), "{refused}");
    refer("sessions by user", &sessions, &users).unwrap();
    refer("carts by session", &carts, &sessions).unwrap();
    let fill = || {
        let env = open(&disk.crash_as(Survival::Everything, 1));
        let [users, sessions, carts] = ["users", "sessions", "carts"].map(|name| env.database(name).unwrap());
        assert!(sessions.is_empty().unwrap() && carts.is_empty().unwrap());
        assert_eq!(sessions.insert("s", "eve").unwrap_err().kind(), ErrorKind::Reference);
        assert_eq!(carts.insert("c", "old").unwrap_err().kind(), ErrorKind::Reference);
        sessions.insert("s", "ada").unwrap();
        carts.insert("c", "s").unwrap();
        users.remove("ada").unwrap();
        assert!(sessions.is_empty().unwrap() && carts.is_empty().unwrap(), "by cascade");
        assert_sound(&env);
    };
    users.insert("ada", "").unwrap();
    sessions.insert("old", "ada").unwrap();
    carts.insert("cart", "old").unwrap();
    fill();
    env.checkpoint().unwrap();
    fill();
}

#[test]
fn a_durable_database_is_not_one_that_was_asked_for_as_temporary() {
    let env = open(&SimDisk::new(1));
    env.database("durable").unwrap();
    let refused = env.database_with("durable", temporary()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("durable"), "{refused}");
    let refused = env.write(|txn| txn.database_with("durable", temporary()).map(drop)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);

    let hashed = env.database_with("hashed", temporary().method(Method::Hash)).unwrap();
    assert_eq!((hashed.method(), hashed.is_temporary()), (Method::Hash, true));
    let refused = env.database_with("hashed", temporary().method(Method::Counted)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    // Who does not ask gets it as it is, and what is asked for in a transaction is there if that commits.
    assert!(env.database("hashed").unwrap().is_temporary());
    let mut txn = env.begin().unwrap();
    let made = txn.database_with("made", temporary()).unwrap();
    txn.insert(&made, "k", "v").unwrap();
    txn.abort();
    assert_eq!(env.databases().unwrap(), ["durable", "hashed"]);
    assert_eq!(env.stats().unwrap().temporary, ["hashed"]);
    let by_value = env.index("by value", &hashed, IndexOptions::new("value")).unwrap();
    assert_eq!(env.stats().unwrap().temporary, ["by value", "hashed"]);
    drop(by_value);
}

#[test]
fn all_kinds_may_be_temporary() {
    let disk = SimDisk::new(1);
    let make = |env: &Env| {
        let of = |name: &str, holds| env.database_with(name, temporary().holds(holds)).unwrap();
        of("queue", Holds::Queue { record_bytes: 5, pad: 0 });
        of("values", Holds::Values(Duplicates::Sorted));
        of("numbers", Holds::Numbers { record_bytes: None, pad: 0 });
        of("closing up", Holds::Renumbered { record_bytes: None, pad: 0 });
        of("globals", Holds::Globals);
        of("expiring", Holds::Expiring);
    };
    let mut env = open(&disk);
    make(&env);
    for _ in 0..3 {
        let queue = Queue::open(&env, "queue", 5).unwrap();
        let values = MultiMap::open(&env, "values", Duplicates::Sorted).unwrap();
        let numbers = Numbered::open(&env, "numbers").unwrap();
        let closing_up = Numbered::open_renumbered(&env, "closing up").unwrap();
        let globals = Globals::open(&env, "globals").unwrap();
        let expiring = Expiring::open(&env, "expiring").unwrap();
        let counts = env.database_with("counts", temporary()).unwrap();
        let sequence = counts.sequence("s", SequenceOptions::new()).unwrap();
        assert!(env.stats().unwrap().databases == env.stats().unwrap().temporary, "indices included");
        assert_eq!(queue.append_one("a").unwrap(), 1);
        assert_eq!(sequence.next().unwrap(), 1);
        env.write(|txn| {
            assert_eq!(queue.append(txn, "b")?, 2);
            values.insert(txn, "k", "1")?;
            values.insert(txn, "k", "2")?;
            assert_eq!(values.count(txn, "k")?, 2);
            assert_eq!(numbers.append(txn, "first")?, 1);
            assert_eq!(closing_up.append(txn, "first")?, 1);
            closing_up.insert(txn, 1, "before it")?;
            globals.global("acct")?.at(42).set(txn, "Ada")?;
            assert!(expiring.is_empty(txn)?);
            expiring.insert(txn, "session", "ada", Duration::from_secs(3600))
        })
        .unwrap();
        assert_eq!(expiring.verify(&env).unwrap(), [""; 0]);
        assert_eq!(queue.consume_one().unwrap().unwrap().0, 1);
        assert_sound(&env);
        drop((queue, values, numbers, closing_up, globals, expiring, sequence, counts));
        env.close().unwrap();
        env = open(&disk);
        for name in env.databases().unwrap() {
            assert!(env.existing_database(&name).unwrap().unwrap().is_empty().unwrap(), "{name}");
        }
    }
}

#[test]
fn one_that_is_damaged_is_emptied_and_keeps_nobody_from_the_others() {
    for all in [false, true] {
        let disk = SimDisk::new(1);
        let env = builder(&disk).page_size(512).open(DIRECTORY).unwrap();
        let (sessions, durable) = (make(&env, "sessions"), env.database("durable").unwrap());
        for n in 0..500u32 {
            sessions.insert(n.to_be_bytes(), b"MARKED".repeat(4)).unwrap();
        }
        durable.insert("k", "v").unwrap();
        drop((sessions, durable));
        env.close().unwrap();
        let volume = disk.open(Path::new("env/sablecat.db"), How::default()).unwrap();
        let mut bytes = vec![0; volume.len().unwrap() as usize];
        volume.read_at(&mut bytes, 0).unwrap();
        let marked: Vec<usize> = (0..bytes.len() - 6).filter(|&at| &bytes[at..at + 6] == b"MARKED").collect();
        for &at in marked.iter().step_by(if all { 1 } else { 1000 }) {
            volume.write_at(&[!bytes[at]], at as u64).unwrap();
        }
        volume.sync().unwrap();
        let env = builder(&disk).page_size(512).open(DIRECTORY).unwrap();
        let sessions = env.database("sessions").unwrap();
        assert!(sessions.is_empty().unwrap());
        sessions.insert("k", "v").unwrap();
        assert_eq!(env.database("durable").unwrap().get("k").unwrap().as_deref(), Some(&b"v"[..]));
        env.checkpoint().unwrap();
        let problems = env.verify(&mut |_| {}).unwrap().problems;
        assert!(problems.iter().all(|why| why.contains("is damaged")), "{problems:?}");
    }
}

#[test]
fn they_are_emptied_on_a_full_disk() {
    let disk = SimDisk::new(1);
    let open = |disk: &SimDisk| builder(disk).durability(Durability::WriteNoSync).open(DIRECTORY).unwrap();
    let env = open(&disk);
    let (sessions, durable) = (make(&env, "sessions"), env.database("durable").unwrap());
    for n in 0..3000u32 {
        sessions.insert(n.to_be_bytes(), [7; 200]).unwrap();
        durable.insert(n.to_be_bytes(), [7; 20]).unwrap();
    }
    env.checkpoint().unwrap();
    sessions.insert("more", [7; 200]).unwrap();
    env.sync().unwrap();
    let mut left = disk.crash_as(Survival::Everything, 1);
    for n in 0..3000 {
        left.fill_up();
        let env = open(&left);
        assert!(env.database("sessions").unwrap().is_empty().unwrap());
        assert_eq!(env.database("durable").unwrap().len().unwrap(), 3000 - n);
        assert!(env.database("durable").unwrap().remove((n as u32).to_be_bytes()).unwrap());
        if n == 4 {
            assert_sound(&env);
            break;
        }
        let next = left.crash_as(Survival::Everything, 1);
        drop(env);
        left = next;
    }
}

#[test]
fn a_data_store_empties_them_too() {
    let disk = SimDisk::new(1);
    let env = open(&disk);
    make(&env, "sessions").insert("k", "v").unwrap();
    env.database("durable").unwrap().insert("k", "v").unwrap();
    env.close().unwrap();
    let mut left = 0;
    for _ in 0..2 {
        let mut store = builder(&disk).open_data_store(DIRECTORY).unwrap();
        let [sessions, durable] = ["sessions", "durable"].map(|name| store.database(name).unwrap());
        assert!(sessions.is_temporary());
        assert_eq!(store.range(&sessions, ..).unwrap().count(), 0);
        left += store.range(&durable, ..).unwrap().count();
        store.insert(&sessions, "k", "v").unwrap();
        store.close().unwrap();
    }
    assert_eq!(left, 2);
}

#[test]
fn one_that_is_placed_in_a_volume_stays_there() {
    let disk = SimDisk::new(1);
    let open = || {
        let builder = builder(&disk).volume("fast", "fast.vol");
        builder.place(sablecat::Place::Database("sessions".into()), "fast").open(DIRECTORY).unwrap()
    };
    let blocks =
        |env: &Env| env.stats().unwrap().volumes.iter().map(|volume| volume.blocks).collect::<Vec<_>>();
    let env = open();
    let sessions = make(&env, "sessions");
    (0..1000u32).for_each(|n| sessions.insert(n.to_be_bytes(), [7; 100]).unwrap());
    env.checkpoint().unwrap();
    assert!(blocks(&env)[1] > 20);
    drop(sessions);
    env.close().unwrap();
    let env = open();
    assert_sound(&env);
    assert_eq!(blocks(&env)[1], 1);
    let sessions = make(&env, "sessions");
    (0..1000u32).for_each(|n| sessions.insert(n.to_be_bytes(), [7; 100]).unwrap());
    assert_sound(&env);
    assert!(blocks(&env)[1] > 20);
}
