//! Databases created, renamed and removed in transactions.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use sablecat::{
    Database, Durability, Env, ErrorKind, Isolation, Journal, Place, Result, Target, Txn, TxnOptions,
};
use sablecat_os::sim::{SimDisk, Survival};

const LEVELS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

fn at(isolation: Isolation) -> TxnOptions {
    TxnOptions::new().isolation(isolation)
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("refused").kind()
}

fn fill(db: &Database, records: u32) {
    db.insert_batch((0..records).map(|n| (n.to_be_bytes(), [n as u8; 60]))).unwrap();
}

/// Nothing is wrong, and no page is lost to use.
fn check(env: &Env) {
    env.checkpoint().unwrap();
    let report = env.verify(&mut |_| {}).unwrap();
    assert_eq!((report.problems, report.pages_unreachable), (vec![], 0));
}

/// An environment in a directory of its own, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("sablecat-databases-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(disk: &Arc<SimDisk>) -> Env {
    Env::builder()
        .disk(Arc::clone(disk) as Arc<_>)
        .background(false)
        .log_segment_size(1 << 16)
        .open("env")
        .unwrap()
}

/// How many pages there are when all is freed that is to be: closed, and opened again.
fn pages(env: Env, disk: &Arc<SimDisk>) -> u64 {
    env.close().unwrap();
    let env = open(disk);
    // Which finds out what is free.
    env.compact().unwrap();
    env.stats().unwrap().pages
}

/// What a power failure leaves that only spares what was flushed.
fn cut(disk: &SimDisk) -> Arc<SimDisk> {
    Arc::new(disk.crash_as(Survival::Nothing, 1))
}

#[test]
fn what_a_transaction_does_to_databases_is_done_at_once_or_not_at_all() {
    let disk = Arc::new(SimDisk::new(1));
    let env = open(&disk);
    fill(&env.database("old").unwrap(), 2000);
    fill(&env.database("kept").unwrap(), 10);
    check(&env);
    let work = |txn: &mut Txn<'_>| {
        let new = txn.database("new")?;
        (0..100u32).try_for_each(|n| txn.insert(&new, n.to_be_bytes(), "value"))?;
        assert!(txn.remove_database("old")?);
        assert!(!txn.remove_database("old")?);
        txn.rename_database("kept", "renamed")?;
        assert_eq!(txn.databases()?, ["new", "renamed"]);
        assert_eq!(env.databases().unwrap(), ["kept", "old"], "nobody else sees anything of it");
        assert!(env.existing_database("new").unwrap().is_none());
        Ok(())
    };

    let mut txn = env.begin().unwrap();
    work(&mut txn).unwrap();
    txn.abort();
    assert_eq!(env.databases().unwrap(), ["kept", "old"]);
    assert_eq!(env.existing_database("old").unwrap().unwrap().len().unwrap(), 2000);
    check(&env);

    let before = env.snapshot().unwrap();
    env.write(work).unwrap();
    assert_eq!(env.databases().unwrap(), ["new", "renamed"]);
    assert_eq!(env.existing_database("new").unwrap().unwrap().len().unwrap(), 100);
    assert_eq!(env.existing_database("renamed").unwrap().unwrap().len().unwrap(), 10);
    assert_eq!(before.databases().unwrap(), ["kept", "old"]);
    let old = before.existing_database("old").unwrap().unwrap();
    assert_eq!(before.range(&old, ..).unwrap().count(), 2000, "a snapshot keeps what it has");
    drop(before);
    check(&env);

    let disk = cut(&disk);
    let after = open(&disk);
    assert_eq!(after.databases().unwrap(), ["new", "renamed"]);
    assert_eq!(after.existing_database("new").unwrap().unwrap().len().unwrap(), 100);
    check(&after);
    assert_eq!(pages(after, &disk), 3, "the catalog, and a page each");
}

#[test]
fn a_new_database_is_read_and_written_in_its_transaction_at_any_isolation() {
    let env = Env::builder().comparator("reversed", |a, b| b.cmp(a)).in_memory().unwrap();
    for isolation in LEVELS {
        let (plain, reversed) = env
            .write_with(at(isolation), |txn| {
                let (plain, reversed) =
                    (txn.database("plain")?, txn.database_ordered_by("reversed", "reversed")?);
                for db in [&plain, &reversed] {
                    assert_eq!(
                        (txn.get(db, "k")?, txn.value_len(db, "k")?, txn.first(db)?, txn.last(db)?),
                        (None, None, None, None)
                    );
                    assert_eq!(txn.get_for_update(db, "k")?, None);
                    assert_eq!(txn.read_at(db, "k", 0, &mut [0])?, None);
                    for key in ["a", "b", "c"] {
                        txn.insert(db, key, key)?;
                    }
                    txn.insert(db, "long", vec![1; 100_000])?;
                    assert!(txn.remove(db, "b")?);
                    assert_eq!(txn.value_len(db, "long")?, Some(100_000));
                }
                txn.insert(&plain, [b'n'; 5000], "nested")?;
                assert_eq!(txn.get(&plain, [b'n'; 5000])?.as_deref(), Some(&b"nested"[..]));
                assert_eq!(txn.database("plain")?.name(), "plain");
                let keys = |range: sablecat::Range<&Txn<'_>>| {
                    range.map(|record| record.map(|(key, _)| key[0])).collect::<Result<Vec<u8>>>()
                };
                assert_eq!(keys(txn.range(&plain, ..)?)?, b"acln");
                assert_eq!(keys(txn.range(&reversed, ..)?)?, b"lca");
                assert_eq!(kind(txn.database_ordered_by("plain", "reversed")), ErrorKind::Invalid);
                Ok((plain, reversed))
            })
            .unwrap();
        assert_eq!((plain.len().unwrap(), reversed.len().unwrap()), (4, 3));
        assert_eq!(reversed.first().unwrap().unwrap().0, b"long");
        plain.insert("later", "through the same handle").unwrap();
        assert!(env.remove_database("plain").unwrap() && env.remove_database("reversed").unwrap());
        check(&env);
    }
}

#[test]
fn of_two_transactions_that_change_one_name_the_second_to_commit_gets_a_conflict() {
    type Work = fn(&mut Txn<'_>) -> Result<()>;
    let create: Work = |txn| {
        let new = txn.database("new")?;
        txn.insert(&new, "k", "v")
    };
    let rename: Work = |txn| txn.rename_database("a", "new");
    let away: Work = |txn| txn.rename_database("a", "elsewhere");
    let remove: Work = |txn| txn.remove_database("a").map(drop);
    let replace: Work = |txn| {
        txn.remove_database("a")?;
        txn.database("a").map(drop)
    };
    let pairs = [
        (create, create),
        (create, rename),
        (rename, create),
        (rename, away),
        (rename, remove),
        (remove, rename),
        (remove, remove),
        (remove, replace),
        (replace, remove),
        (replace, replace),
    ];
    for isolation in LEVELS {
        for (n, (first, second)) in pairs.into_iter().enumerate() {
            let disk = Arc::new(SimDisk::new(2));
            let env = open(&disk);
            env.database("a").unwrap().insert("k", "v").unwrap();
            let (mut one, mut two) =
                (env.begin_with(at(isolation)).unwrap(), env.begin_with(at(isolation)).unwrap());
            second(&mut two).unwrap();
            first(&mut one).unwrap();
            one.commit().unwrap();
            assert_eq!(kind(two.commit()), ErrorKind::Conflict, "pair {n} at {isolation:?}");
            check(&env);
            let names = env.databases().unwrap().len() as u64;
            assert_eq!(pages(env, &disk), 1 + names, "pair {n}: the catalog, and a page each");
        }
    }
}

#[test]
fn transactions_that_change_other_names_are_no_conflict() {
    for isolation in LEVELS {
        let env = Env::in_memory().unwrap();
        let mut one = env.begin_with(at(isolation)).unwrap();
        let mut two = env.begin_with(at(isolation)).unwrap();
        one.database("one").unwrap();
        two.database("two").unwrap();
        env.begin().unwrap().database("three").unwrap();
        one.commit().unwrap();
        two.commit().unwrap();
        assert_eq!(env.databases().unwrap(), ["one", "two"]);
        check(&env);
    }
}

#[test]
fn a_transaction_that_lost_a_name_finds_it_when_it_is_run_again() {
    let env = Env::in_memory().unwrap();
    let mut attempts = 0;
    env.write(|txn| {
        attempts += 1;
        let shared = txn.database("shared")?;
        if attempts == 1 {
            assert_eq!(txn.first(&shared)?, None);
            elsewhere(&env.database("shared")?, "theirs", 1);
        }
        txn.insert(&shared, "ours", "2")
    })
    .unwrap();
    assert_eq!(attempts, 2);
    assert_eq!(env.database("shared").unwrap().len().unwrap(), 2);
    check(&env);
}

#[test]
fn rolling_back_to_a_savepoint_undoes_what_was_done_to_databases_since() {
    for isolation in LEVELS {
        let disk = Arc::new(SimDisk::new(4));
        let env = open(&disk);
        let old = env.database("old").unwrap();
        old.insert("k", "v").unwrap();
        let mut txn = env.begin_with(at(isolation)).unwrap();
        let first = txn.database("first").unwrap();
        txn.insert(&first, "k", "1").unwrap();
        let here = txn.savepoint();
        let second = txn.database("second").unwrap();
        txn.insert(&second, "k", "2").unwrap();
        txn.rename_database("first", "other").unwrap();
        txn.remove_database("old").unwrap();
        assert_eq!(kind(txn.get(&old, "k")), ErrorKind::NotFound);
        assert_eq!(txn.databases().unwrap(), ["other", "second"]);
        txn.rollback_to(&here).unwrap();
        assert_eq!(txn.databases().unwrap(), ["first", "old"]);
        assert_eq!(kind(txn.get(&second, "k")), ErrorKind::NotFound);
        assert_eq!(kind(second.get("k")), ErrorKind::NotFound);
        assert_eq!(txn.get(&first, "k").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(txn.get(&old, "k").unwrap().as_deref(), Some(&b"v"[..]));
        let failed = txn.nested(|txn| {
            txn.remove_database("first")?;
            txn.database("within")?;
            txn.rename_database("no such", "thing")
        });
        assert_eq!(kind(failed), ErrorKind::NotFound);
        txn.nested(|txn| {
            let second = txn.database("second")?;
            txn.insert(&second, "k", "again")
        })
        .unwrap();
        txn.commit().unwrap();
        assert_eq!(env.databases().unwrap(), ["first", "old", "second"]);
        assert_eq!(first.get("k").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(kind(second.get("k")), ErrorKind::NotFound, "another of that name");
        assert_eq!(env.database("second").unwrap().get("k").unwrap().as_deref(), Some(&b"again"[..]));
        check(&env);
        drop((old, first, second));
        assert_eq!(pages(env, &disk), 4, "the catalog, and a page each");
    }
}

#[test]
fn a_database_created_and_removed_in_one_transaction_leaves_nothing() {
    let disk = Arc::new(SimDisk::new(9));
    let env = open(&disk);
    for commit in [true, false] {
        let mut txn = env.begin().unwrap();
        let passing = txn.database("passing").unwrap();
        txn.insert(&passing, "k", vec![0; 10_000]).unwrap();
        assert!(txn.remove_database("passing").unwrap());
        assert_eq!(kind(txn.insert(&passing, "k", "v")), ErrorKind::NotFound);
        if commit {
            txn.commit().unwrap();
        } else {
            txn.abort();
        }
        assert_eq!(kind(passing.get("k")), ErrorKind::NotFound);
        assert_eq!(env.databases().unwrap(), Vec::<String>::new());
        check(&env);
    }
    assert_eq!(pages(env, &disk), 1, "the catalog");
}

#[test]
fn a_handle_is_good_where_its_database_is() {
    let env = Env::in_memory().unwrap();
    let mut txn = env.begin().unwrap();
    let new = txn.database("new").unwrap();
    txn.insert(&new, "k", "v").unwrap();
    assert_eq!(kind(new.get("k")), ErrorKind::NotAllowed);
    assert_eq!(kind(new.insert("k", "w")), ErrorKind::NotAllowed);
    assert_eq!(kind(new.range(..).map(drop)), ErrorKind::NotAllowed);
    assert_eq!(kind(new.bulk_load([("k", "v")])), ErrorKind::NotAllowed);
    assert_eq!(kind(env.begin().unwrap().insert(&new, "k", "w")), ErrorKind::NotAllowed);
    assert_eq!(kind(env.snapshot().unwrap().get(&new, "k")), ErrorKind::NotAllowed);
    txn.commit().unwrap();
    assert_eq!(new.get("k").unwrap().as_deref(), Some(&b"v"[..]));

    let mut txn = env.begin().unwrap();
    let undone = txn.database("undone").unwrap();
    txn.abort();
    assert_eq!(kind(undone.get("k")), ErrorKind::NotFound);
    assert_eq!(kind(env.begin().unwrap().get(&undone, "k")), ErrorKind::NotFound);

    // A removal that is not committed concerns nobody else, and if it never is, nobody.
    let mut txn = env.begin().unwrap();
    txn.remove_database("new").unwrap();
    assert_eq!(kind(txn.insert(&new, "k", "w")), ErrorKind::NotFound);
    new.insert("k", "w").unwrap();
    txn.abort();
    assert_eq!(env.begin().unwrap().get(&new, "k").unwrap().as_deref(), Some(&b"w"[..]));

    let before = env.snapshot().unwrap();
    env.remove_database("new").unwrap();
    assert_eq!(kind(new.get("k")), ErrorKind::NotFound);
    assert_eq!(kind(env.begin().unwrap().get(&new, "k")), ErrorKind::NotFound);
    assert_eq!(before.get(&new, "k").unwrap().as_deref(), Some(&b"w"[..]), "it goes on seeing one state");
}

/// Writes to a database that is removed before the write is committed: by `remove`, through whatever process.
fn race(env: &Env, remove: impl Fn() -> JoinHandle<()>) {
    let witness = env.database("witness").unwrap();
    for isolation in LEVELS {
        for records in [1, 3000] {
            let doomed = env.database("doomed").unwrap();
            fill(&doomed, records);
            let (mut puts, mut splits) =
                (env.begin_with(at(isolation)).unwrap(), env.begin_with(at(isolation)).unwrap());
            let mut reads = env.begin_with(at(isolation)).unwrap();
            assert!(reads.get(&doomed, 0u32.to_be_bytes()).unwrap().is_some());
            puts.insert(&doomed, 0u32.to_be_bytes(), "another").unwrap();
            (0..200u32).for_each(|n| splits.insert(&doomed, n.to_be_bytes(), vec![1; 3000]).unwrap());
            remove().join().unwrap();
            // Its pages are others' now.
            let other = env.database("other").unwrap();
            fill(&other, records);
            assert_eq!(kind(puts.commit()), ErrorKind::Conflict, "{records} records at {isolation:?}");
            assert_eq!(kind(splits.commit()), ErrorKind::Conflict, "{records} records at {isolation:?}");
            assert_eq!(kind(doomed.insert("k", "v")), ErrorKind::NotFound);
            assert_eq!(kind(doomed.remove(1u32.to_be_bytes())), ErrorKind::NotFound);
            assert_eq!(kind(doomed.get("k")), ErrorKind::NotFound);
            assert_eq!(kind(doomed.entry("k").or_insert("v")), ErrorKind::NotFound);
            reads.insert(&witness, "k", "v").unwrap();
            match reads.commit() {
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict),
                Ok(_) => assert_ne!(isolation, Isolation::Serializable),
            }
            env.remove_database("other").unwrap();
            check(env);
        }
    }
    let doomed = env.database("doomed").unwrap();
    let mut removing = None;
    let loaded = doomed.bulk_load((0..5000u32).map(|n| {
        if n == 4000 {
            removing = Some(remove());
        }
        (n.to_be_bytes(), [7; 100])
    }));
    assert_eq!(kind(loaded), ErrorKind::NotFound);
    removing.unwrap().join().unwrap();
    check(env);
}

#[test]
fn nothing_is_committed_to_a_database_that_was_removed() {
    let env = Env::in_memory().unwrap();
    race(&env, || remove_beside(&env));
    let disk = Arc::new(SimDisk::new(3));
    let env = open(&disk);
    race(&env, || remove_beside(&env));
}

#[test]
fn nothing_is_committed_to_a_database_that_another_process_removed() {
    let scratch = Scratch::new("race");
    let share = || {
        Env::builder()
            .shared(true)
            .cache_size(4 << 20)
            .durability(Durability::NoSync)
            .open(&scratch.0)
            .unwrap()
    };
    let (one, two) = (share(), share());
    race(&one, || remove_beside(&two));
}

/// Removes the database, and returns when it is gone: its pages are freed by a thread, which a bulk load in
/// this one keeps waiting.
fn remove_beside(env: &Env) -> JoinHandle<()> {
    let removal = env.clone();
    let removing = std::thread::spawn(move || assert!(removal.remove_database("doomed").unwrap()));
    while env.existing_database("doomed").unwrap().is_some() {
        std::thread::yield_now();
    }
    removing
}

#[test]
fn the_environment_is_asked_for_databases_within_a_transaction_that_has_it_to_itself() {
    let env = Env::in_memory().unwrap();
    let db = env.database("d").unwrap();
    let mut runs = 0;
    env.write(|txn| {
        runs += 1;
        let name = format!("{runs} more");
        env.database(&name)?;
        env.rename_database(&name, "renamed")?;
        assert!(env.remove_database("renamed")?);
        txn.get(&db, "k")?;
        // One that has lost four times is let through alone.
        if runs < 5 {
            elsewhere(&db, "k", runs);
        }
        txn.insert(&db, "k", "v")
    })
    .unwrap();
    assert_eq!((runs, db.get("k").unwrap().as_deref()), (5, Some(&b"v"[..])));
}

/// Sets a record in another thread, as another client would.
fn elsewhere(db: &Database, key: &str, value: u32) {
    std::thread::scope(|scope| scope.spawn(|| db.insert(key, value.to_le_bytes())).join().unwrap().unwrap());
}

#[test]
fn a_name_that_stands_for_another_database_is_found_to() {
    let env = Env::in_memory().unwrap();
    env.database("a").unwrap().insert("k", "first").unwrap();
    let what = |name: &str| env.existing_database(name).unwrap().and_then(|db| db.get("k").unwrap());
    assert_eq!(what("a").as_deref(), Some(&b"first"[..]));
    // No name goes.
    env.write(|txn| {
        txn.rename_database("a", "b")?;
        let a = txn.database("a")?;
        txn.insert(&a, "k", "second")
    })
    .unwrap();
    assert_eq!((what("a").as_deref(), what("b").as_deref()), (Some(&b"second"[..]), Some(&b"first"[..])));
    env.write(|txn| {
        txn.rename_database("a", "c")?;
        txn.rename_database("b", "a")?;
        txn.rename_database("c", "b")
    })
    .unwrap();
    assert_eq!((what("a").as_deref(), what("b").as_deref()), (Some(&b"first"[..]), Some(&b"second"[..])));
}

#[test]
fn a_renamed_database_is_no_conflict_for_who_writes_to_it() {
    let env = Env::in_memory().unwrap();
    let db = env.database("a").unwrap();
    for isolation in LEVELS {
        let mut txn = env.begin_with(at(isolation)).unwrap();
        txn.insert(&db, "k", format!("{isolation:?}")).unwrap();
        env.rename_database("a", "b").unwrap();
        txn.commit().unwrap();
        assert_eq!(env.database("b").unwrap().get("k").unwrap(), Some(format!("{isolation:?}").into_bytes()));
        env.rename_database("b", "a").unwrap();
    }
}

#[test]
fn a_creation_cut_short_by_a_crash_leaves_nothing() {
    for with_checkpoint in [false, true] {
        let disk = Arc::new(SimDisk::new(5));
        let env = open(&disk);
        let mut txn = env.begin().unwrap();
        let new = txn.database("new").unwrap();
        txn.insert(&new, "k", "v").unwrap();
        env.sync().unwrap();
        if with_checkpoint {
            env.checkpoint().unwrap();
        }
        let disk = cut(&disk);
        let after = open(&disk);
        assert_eq!(after.databases().unwrap(), Vec::<String>::new());
        check(&after);
        assert_eq!(after.database("new").unwrap().len().unwrap(), 0);
        after.remove_database("new").unwrap();
        assert_eq!(pages(after, &disk), 1, "the catalog");
    }
}

#[test]
fn a_creation_that_was_committed_survives_a_crash_wherever_the_last_checkpoint_was() {
    for checkpoint in 0..3 {
        let disk = Arc::new(SimDisk::new(6));
        let env = open(&disk);
        env.database("old").unwrap().insert("k", "old").unwrap();
        let mut txn = env.begin().unwrap();
        let new = txn.database("new").unwrap();
        txn.insert(&new, "k", "v").unwrap();
        txn.insert(&new, "long", vec![9; 50_000]).unwrap();
        txn.remove_database("old").unwrap();
        let again = txn.database("old").unwrap();
        txn.insert(&again, "k", "another").unwrap();
        if checkpoint == 1 {
            env.checkpoint().unwrap();
        }
        txn.commit_with(Durability::Sync).unwrap();
        if checkpoint == 2 {
            env.checkpoint().unwrap();
        }
        // Twice: what one opening frees the next one would miss.
        let mut disk = cut(&disk);
        for _ in 0..2 {
            let after = open(&disk);
            assert_eq!(after.databases().unwrap(), ["new", "old"]);
            let new = after.database("new").unwrap();
            assert_eq!(new.get("k").unwrap().as_deref(), Some(&b"v"[..]));
            assert_eq!(new.value_len("long").unwrap(), Some(50_000));
            assert_eq!(after.database("old").unwrap().get("k").unwrap().as_deref(), Some(&b"another"[..]));
            fill(&after.database("more").unwrap(), 500);
            assert_eq!(new.get("k").unwrap().as_deref(), Some(&b"v"[..]));
            after.remove_database("more").unwrap();
            check(&after);
            disk = cut(&disk);
        }
    }
}

#[test]
fn going_back_gives_the_databases_of_that_time() {
    let disk = Arc::new(SimDisk::new(7));
    let builder =
        || Env::builder().disk(Arc::clone(&disk) as Arc<_>).background(false).log_segment_size(1 << 16);
    let env = builder().journal(Journal::new()).open("env").unwrap();
    env.database("old").unwrap().insert("k", "v").unwrap();
    env.sync().unwrap();
    let empty = env.stats().unwrap().log_tail;
    let mut txn = env.begin().unwrap();
    let new = txn.database("new").unwrap();
    let between = env.stats().unwrap().log_tail;
    assert!(between > empty, "the tree was made in a commit of its own");
    txn.insert(&new, "k", "v").unwrap();
    txn.remove_database("old").unwrap();
    txn.commit().unwrap();
    env.sync().unwrap();
    let committed = env.stats().unwrap().log_tail;
    drop((new, env));
    for (lsn, names) in [(committed, vec!["new"]), (between, vec!["old"]), (empty, vec!["old"])] {
        builder().recovery("env", Target::Lsn(lsn)).unwrap().apply().unwrap();
        let env = builder().open("env").unwrap();
        assert_eq!(env.databases().unwrap(), names, "at LSN {lsn}");
        assert_eq!(env.database(names[0]).unwrap().get("k").unwrap().as_deref(), Some(&b"v"[..]));
        check(&env);
        env.close().unwrap();
    }
}

#[test]
fn a_new_database_is_in_the_volume_of_its_name_and_replayed_into_it() {
    let disk = Arc::new(SimDisk::new(8));
    let place = |disk: &Arc<SimDisk>| {
        let builder =
            Env::builder().disk(Arc::clone(disk) as Arc<_>).background(false).log_segment_size(1 << 16);
        builder
            .volume("one", "one.db")
            .place(Place::database("far"), "one")
            .place(Place::keys("near", "x"), "one")
            .open("env")
            .unwrap()
    };
    let make = |env: &Env| {
        let made = env.write(|txn| {
            for name in ["far", "near"] {
                let db = txn.database(name)?;
                (0..200u32).try_for_each(|n| txn.insert(&db, format!("x{n:05}"), [1; 400]))?;
            }
            Ok(())
        });
        made.unwrap();
    };
    let blocks =
        |env: &Env| env.stats().unwrap().volumes.iter().map(|volume| volume.blocks).collect::<Vec<_>>();
    let env = place(&disk);
    env.checkpoint().unwrap();
    let before = blocks(&env);
    make(&env);
    env.checkpoint().unwrap();
    let made = blocks(&env);
    assert!(made[1] > before[1] + 30, "{made:?} after {before:?}");
    drop(env);
    let disk = Arc::new(SimDisk::new(8));
    let env = place(&disk);
    make(&env);
    env.sync().unwrap();
    let env = place(&cut(&disk));
    check(&env);
    assert!(env.recovery().recovered);
    assert_eq!(env.database("far").unwrap().len().unwrap(), 200);
    assert!(blocks(&env)[1] >= made[1] - 2, "{:?} against {made:?}", blocks(&env));
}

#[test]
fn who_reads_the_last_checkpoint_sees_no_half_of_a_creation() {
    let scratch = Scratch::new("read-only");
    let env = Env::builder().background(false).open(&scratch.0).unwrap();
    let mut txn = env.begin().unwrap();
    let new = txn.database("new").unwrap();
    txn.insert(&new, "k", "v").unwrap();
    env.checkpoint().unwrap();
    let reader = Env::builder().read_only(true).open(&scratch.0).unwrap();
    assert_eq!(reader.databases().unwrap(), Vec::<String>::new());
    let report = reader.verify(&mut |_| {}).unwrap();
    assert_eq!(
        (report.problems, report.pages_unreachable),
        (vec![], 0),
        "what is being made is accounted for"
    );
    txn.commit().unwrap();
    env.checkpoint().unwrap();
    assert_eq!(reader.databases().unwrap(), ["new"]);
    let snapshot = reader.snapshot().unwrap();
    let seen = snapshot.existing_database("new").unwrap().unwrap();
    assert_eq!(snapshot.get(&seen, "k").unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(kind(reader.database("other")), ErrorKind::ReadOnly);
}

#[test]
fn threads_that_create_and_remove_the_same_names_get_through() {
    let env = Env::builder().cache_size(8 << 20).in_memory().unwrap();
    std::thread::scope(|scope| {
        for me in 0..4u32 {
            let env = &env;
            scope.spawn(move || {
                for n in 0..60u32 {
                    let name = format!("db {}", (n + me) % 3);
                    env.write(|txn| {
                        if (n + me) % 5 == 4 {
                            return txn.remove_database(&name).map(drop);
                        }
                        let db = txn.database(&name)?;
                        let have = txn
                            .get(&db, "count")?
                            .map_or(0, |value| u32::from_le_bytes(value.try_into().unwrap()));
                        txn.insert(&db, "count", (have + 1).to_le_bytes())?;
                        txn.insert(&db, format!("{have}"), "")
                    })
                    .unwrap();
                }
            });
        }
    });
    for name in env.databases().unwrap() {
        let db = env.database(&name).unwrap();
        let count = db.get("count").unwrap().map_or(0, |value| u32::from_le_bytes(value.try_into().unwrap()));
        assert_eq!(db.len().unwrap(), u64::from(count) + 1);
    }
    check(&env);
}
