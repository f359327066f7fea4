//! Removed ranges and others: who conflicts, who is woken and told, what is in the log, what it costs.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use sablecat::{
    Builder, Change, ChangesOptions, Database, Durability, Env, ErrorKind, Follower, Isolation, Journal,
    Prefix, Result, Target, Txn, TxnOptions,
};
use sablecat_os::sim::{SimDisk, Survival};

const DIRECTORY: &str = "/env";
const ISOLATIONS: [Isolation; 2] = [Isolation::Snapshot, Isolation::Serializable];
/// Long for anything that is to happen.
const PATIENCE: Duration = Duration::from_secs(600);

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// An environment in memory, and records 0, 10 and so on up to 1990 in several pages.
fn filled() -> (Env, Database) {
    let env = Env::builder().page_size(512).in_memory().expect("memory");
    let db = env.database("d").expect("created");
    db.insert_batch((0..200).map(|n| (key(n * 10), [7; 20]))).expect("inserted");
    (env, db)
}

fn begin(env: &Env, isolation: Isolation) -> Txn<'_> {
    env.begin_with(TxnOptions::new().isolation(isolation)).expect("a seat")
}

fn count(db: &Database, from: u32, to: u32) -> usize {
    db.range(key(from)..key(to)).expect("read").count()
}

/// Commits after others have done something; whether there was a conflict.
fn is_in_conflict(
    isolation: Isolation,
    mine: impl Fn(&mut Txn<'_>, &Database),
    others: impl Fn(&Database),
) -> bool {
    let (env, db) = filled();
    let mut txn = begin(&env, isolation);
    mine(&mut txn, &db);
    others(&db);
    match txn.commit() {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict);
            true
        }
    }
}

#[test]
fn what_others_commit_in_a_removed_range_is_a_conflict_and_beside_it_is_none() {
    for isolation in ISOLATIONS {
        let removes = |txn: &mut Txn<'_>, db: &Database| {
            assert_eq!(txn.remove_range(db, key(500)..key(1500)).expect("removed"), 100);
        };
        let meets = |others: &dyn Fn(&Database)| is_in_conflict(isolation, removes, others);
        assert!(meets(&|db| db.insert(key(777), "new").expect("inserted")), "a new record");
        assert!(meets(&|db| db.insert(key(500), "other").expect("inserted")), "the first, changed");
        assert!(meets(&|db| assert!(db.remove(key(1490)).expect("removed"))), "the last, removed");
        assert!(meets(&|db| assert_eq!(db.clear().expect("removed"), 200)), "all, removed");
        assert!(meets(&|db| assert_eq!(db.remove_range(..key(501)).expect("removed"), 51)), "met by another");
        assert!(!meets(&|_| {}));
        assert!(!meets(&|db| db.insert(key(1500), "other").expect("inserted")), "right behind it");
        assert!(!meets(&|db| db.insert(key(499), "new").expect("inserted")), "right before it");
        assert!(!meets(&|db| assert_eq!(db.remove_range(key(1500)..).expect("removed"), 50)), "apart");
        let split = |db: &Database| {
            db.insert_batch((0..500).map(|n| (key(2000 + n), [1; 20]))).expect("inserted");
            assert_eq!(db.remove_range(..key(500)).expect("removed"), 50);
        };
        assert!(!meets(&split), "pages of it change, and no record");
    }
}

#[test]
fn read_committed_transactions_remove_what_is_there_when_they_commit() {
    let (env, db) = filled();
    let mut txn = begin(&env, Isolation::ReadCommitted);
    assert_eq!(txn.remove_range(&db, key(500)..key(1500)).expect("removed"), 100);
    txn.insert(&db, key(900), "of its own").expect("inserted");
    db.insert(key(777), "of another").expect("inserted");
    txn.commit().expect("nothing was read");
    assert_eq!((count(&db, 500, 1500), count(&db, 0, 2000)), (1, 101));
    assert_eq!(db.get(key(900)).expect("read").as_deref(), Some(&b"of its own"[..]));
}

#[test]
fn who_changes_a_record_that_went_with_a_range_meanwhile_gets_a_conflict() {
    let removes = |db: &Database| assert_eq!(db.remove_range(key(500)..key(1500)).expect("removed"), 100);
    let overwrites = |txn: &mut Txn<'_>, db: &Database| txn.insert(db, key(600), "mine").expect("inserted");
    assert!(is_in_conflict(Isolation::Snapshot, overwrites, removes));
    let reads = |txn: &mut Txn<'_>, db: &Database| {
        assert!(txn.get(db, key(600)).expect("read").is_some());
        txn.insert(db, key(1), "mine").expect("inserted");
    };
    assert!(is_in_conflict(Isolation::Serializable, reads, removes));
    let locks = |txn: &mut Txn<'_>, db: &Database| {
        assert!(txn.get_for_update(db, key(600)).expect("read").is_some());
        txn.insert(db, key(600), "mine").expect("inserted");
    };
    assert!(is_in_conflict(Isolation::Snapshot, locks, removes));
    // What was not there comes after the range has gone, as if it were later.
    let inserts = |txn: &mut Txn<'_>, db: &Database| txn.insert(db, key(601), "mine").expect("inserted");
    ISOLATIONS.into_iter().for_each(|isolation| assert!(!is_in_conflict(isolation, inserts, removes)));
}

/// With records of single keys in the same transaction, before, in and behind the range.
#[test]
fn single_records_beside_a_range_are_in_conflict_as_ever() {
    let mine = |txn: &mut Txn<'_>, db: &Database| {
        for n in [100, 600, 1800] {
            txn.insert(db, key(n), "mine").expect("inserted");
        }
        txn.remove_range(db, key(500)..key(1500)).expect("removed");
        txn.insert(db, key(700), "mine").expect("inserted");
    };
    let meets = |n: u32| {
        is_in_conflict(Isolation::Snapshot, mine, |db| db.insert(key(n), "another").expect("inserted"))
    };
    assert!(meets(100) && meets(1800) && meets(600) && meets(700) && meets(800));
    assert!(!meets(110) && !meets(1790) && !meets(499) && !meets(1500));
}

/// Each removes what the other would insert into, having seen that nothing is there.
#[test]
fn serialisable_transactions_have_no_phantoms_in_removed_ranges() {
    for first_wins in [true, false] {
        let (env, db) = filled();
        let (mut one, mut other) =
            (begin(&env, Isolation::Serializable), begin(&env, Isolation::Serializable));
        assert_eq!(one.remove_range(&db, key(0)..key(1000)).expect("removed"), 100);
        one.insert(&db, key(1501), "the other range has ended").expect("inserted");
        assert_eq!(other.range(&db, key(1500)..key(1600)).expect("read").count(), 10);
        other.insert(&db, key(501), "the first range has not").expect("inserted");
        let (first, second) = if first_wins { (one, other) } else { (other, one) };
        first.commit().expect("the first");
        assert_eq!(second.commit().expect_err("the second").kind(), ErrorKind::Conflict);
    }
}

#[test]
fn that_a_range_was_counted_stays_read_when_its_removal_is_rolled_back() {
    let mine = |txn: &mut Txn<'_>, db: &Database| {
        let before = txn.savepoint();
        assert_eq!(txn.remove_range(db, key(500)..key(1500)).expect("removed"), 100);
        txn.rollback_to(&before).expect("undone");
        txn.insert(db, "count", "100").expect("inserted");
    };
    let inserts = |db: &Database| db.insert(key(777), "new").expect("inserted");
    assert!(is_in_conflict(Isolation::Serializable, mine, inserts));
}

/// Threads remove ranges and insert into them; what each of them removed and inserted adds up.
#[test]
fn what_is_removed_and_inserted_by_many_adds_up() {
    let (env, db) = filled();
    let total = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4u32)
            .map(|worker| {
                let (env, db) = (&env, &db);
                scope.spawn(move || {
                    let mut sum = 0i64;
                    for round in 0..60u32 {
                        let from = (worker * 613 + round * 379) % 1900;
                        if round % 3 == 0 {
                            sum -= db.remove_range(key(from)..key(from + 150)).expect("removed") as i64;
                            continue;
                        }
                        sum += env
                            .write(|txn| {
                                let gone = txn.remove_range(db, key(from)..key(from + 40))? as i64;
                                let new = (0..30).map(|n| key(from + n * 2));
                                new.map(|key| txn.insert_new(db, key, [1; 20]).map(i64::from))
                                    .sum::<Result<i64>>()
                                    .map(|new| new - gone)
                            })
                            .expect("committed");
                    }
                    sum
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).sum::<i64>()
    });
    assert_eq!(db.range(..).expect("read").count() as i64, 200 + total);
    assert_eq!(env.verify(&mut |_| {}).expect("verified").problems, [""; 0]);
}

/// In pages in place, and in a commit larger than the cache.
#[test]
fn who_waits_for_a_change_is_woken_by_the_removal_of_a_range_around_it() {
    for records in [300u32, 6000] {
        let env = Env::builder()
            .disk(Arc::new(SimDisk::new(1)))
            .page_size(512)
            .cache_size(0)
            .background(false)
            .open(DIRECTORY)
            .expect("created");
        let db = env.database("d").expect("created");
        (0..records).step_by(100).for_each(|from| {
            db.insert_batch((from..from + 100).map(|n| (key(n), [7; 40]))).expect("inserted");
        });
        let (waits, is_waiting) = mpsc::channel();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                env.write_when(|txn| {
                    let is_gone = txn.get(&db, key(150))?.is_none();
                    waits.send(()).expect("heard");
                    Ok(is_gone.then_some(()))
                })
            });
            is_waiting.recv_timeout(PATIENCE).expect("it runs");
            assert_eq!(db.remove_range(key(50)..).expect("removed"), u64::from(records) - 50);
            is_waiting.recv_timeout(PATIENCE).expect("it runs again");
            waiter.join().expect("no panic").expect("committed");
        });
    }
}

fn on(disk: &SimDisk) -> Builder {
    Env::builder()
        .disk(Arc::new(disk.clone()))
        .page_size(512)
        .cache_size(0)
        .log_buffer_size(1 << 16)
        .log_segment_size(1 << 18)
        .durability(Durability::Sync)
        .background(false)
}

/// A record of the log, at most: its header, the operation, and some bytes more.
const RECORD_BYTES: u64 = 64;

#[test]
fn clearing_looks_at_pages_and_logs_one_operation() {
    const RECORDS: u32 = 100_000;
    let env = Env::in_memory().expect("memory");
    let db = env.database("d").expect("created");
    db.bulk_load((0..RECORDS).map(|n| (key(n), [7; 32]))).expect("loaded");
    let pages = env.verify(&mut |_| {}).expect("verified").pages;
    assert!(pages * 50 < u64::from(RECORDS), "{pages}");
    for last in [false, true] {
        let looks = || env.counters().page_hits + env.counters().page_misses;
        let before = (looks(), env.begin().expect("a seat").commit().expect("nothing"));
        let mut txn = env.begin().expect("a seat");
        if last {
            assert_eq!(txn.clear(&db).expect("removed"), u64::from(RECORDS) / 2);
        } else {
            assert_eq!(txn.remove_range(&db, ..key(RECORDS / 2)).expect("removed"), u64::from(RECORDS) / 2);
        }
        let lsn = txn.commit().expect("committed");
        let looked = looks() - before.0;
        assert!(looked < 4 * pages, "{looked} looks for {pages} pages");
        assert!(lsn.0 - before.1.0 <= RECORD_BYTES, "{} bytes of log", lsn.0 - before.1.0);
        let left = env.verify(&mut |_| {}).expect("verified").pages;
        assert!(left < if last { 10 } else { pages * 11 / 20 }, "{left} of {pages} pages are left");
    }
    assert!(db.is_empty().expect("read"));
    db.bulk_load((0..9).map(|n| (key(n), [7; 32]))).expect("it is as it was made");
}

/// What a transaction does that is larger than the cache: ranges, and records in and beside them.
fn change(env: &Env) -> Result<()> {
    let (a, b) = (env.database("a")?, env.database("b")?);
    env.write(|txn| {
        (0..300).try_for_each(|n| txn.insert(&a, key(n * 7), [9; 60]))?;
        assert_eq!(txn.remove_range(&a, key(100)..key(2900))?, 2800);
        (500..800).try_for_each(|n| txn.insert(&a, key(n), vec![n as u8; 90]))?;
        assert_eq!(txn.remove_range(&a, key(700)..key(705))?, 5);
        txn.insert(&a, key(600), vec![6; 9000])?;
        assert_eq!(txn.remove_range(&a, Prefix([b'n'; 200]))?, 40);
        txn.clear(&b).map(drop)
    })
}

fn fill(env: &Env) -> Result<()> {
    for name in ["a", "b"] {
        let db = env.database(name)?;
        for from in (0..3000).step_by(250) {
            db.insert_batch((from..from + 250).map(|n| (key(n), [n as u8; 50])))?;
        }
        db.insert(key(2000), [1; 7000])?;
        db.insert_batch((0..40u8).map(|n| ([&[b'n'; 250][..], &[n]].concat(), [n; 60])))?;
    }
    env.checkpoint().map(drop)
}

fn contents(env: &Env) -> BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>> {
    let all = |name: String| {
        let db = env.existing_database(&name).expect("read").expect("there");
        let records = db.range(..).expect("read").map(|record| record.expect("read")).collect();
        (name, records)
    };
    env.databases().expect("read").into_iter().map(all).collect()
}

fn assert_sound(env: &Env) {
    env.keep_house().expect("kept");
    env.checkpoint().expect("written");
    let report = env.verify(&mut |_| {}).expect("verified");
    assert_eq!((&report.problems[..], report.pages_unreachable), (&[][..], 0));
}

/// Power fails after any of some calls, in a transaction that removes more pages than the cache has.
#[test]
fn ranges_larger_than_the_cache_go_all_or_not_at_all() {
    let (before, after) = {
        let env = Env::builder().page_size(512).in_memory().expect("memory");
        fill(&env).expect("filled");
        let before = contents(&env);
        change(&env).expect("committed");
        (before, contents(&env))
    };
    let calls = {
        let disk = SimDisk::new(1);
        let env = on(&disk).open(DIRECTORY).expect("created");
        fill(&env).expect("filled");
        assert!(contents(&env) == before);
        let begun = disk.calls();
        change(&env).expect("committed");
        assert!(contents(&env) == after);
        assert_sound(&env);
        disk.calls() - begun
    };
    let (mut none, mut all) = (0, 0);
    for n in 0..20 {
        let disk = SimDisk::new(n);
        let env = on(&disk).open(DIRECTORY).expect("created");
        fill(&env).expect("filled");
        disk.crash_at(disk.calls() + calls * n / 19);
        let promised = change(&env).is_ok();
        for survival in [Survival::Nothing, Survival::Sectors, Survival::Everything] {
            let env = on(&disk.crash_as(survival, n)).open(DIRECTORY).expect("recovered");
            let found = contents(&env);
            assert!(found == after || !promised && found == before, "{n} {survival:?}, promised: {promised}");
            *if found == after { &mut all } else { &mut none } += 1;
            assert_sound(&env);
        }
    }
    assert!(none > 0 && all > 0, "{none} {all}");
}

#[test]
fn changes_tell_of_a_range_and_a_follower_removes_it() {
    let origin = on(&SimDisk::new(1)).open(DIRECTORY).expect("created");
    let copy = on(&SimDisk::new(2)).open(DIRECTORY).expect("created");
    let mut changes = origin.changes_from_now(ChangesOptions::new()).expect("followed");
    let db = origin.database("d").expect("created");
    db.insert_batch((0..100).map(|n| (key(n), [7; 20]))).expect("inserted");
    let removed = origin.write(|txn| {
        txn.insert(&db, key(7), "goes")?;
        let removed = txn.remove_range(&db, (Bound::Excluded(key(5)), Bound::Included(key(50))))?;
        txn.insert(&db, key(20), "comes after it")?;
        txn.remove_range(&db, key(90)..).map(|more| removed + more)
    });
    assert_eq!(removed.expect("committed"), 45 + 10);
    let follower = Follower::new(&copy, "origin").expect("made");
    let mut told = Vec::new();
    while let Some(commit) = changes.try_next().expect("read") {
        let mut each = commit.changes();
        while let Some(change) = each.next().expect("read") {
            match change {
                Change::RemoveRange { database, lower, upper } => {
                    assert_eq!(database, "d");
                    told.push((lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec)));
                }
                Change::Insert { key: told_key, .. } if !told.is_empty() => assert_eq!(told_key, key(20)),
                _ => {}
            }
        }
        assert!(follower.apply(&commit).expect("applied"));
    }
    let range =
        |lower: Bound<u32>, upper: Bound<u32>| (lower.map(key).map(Vec::from), upper.map(key).map(Vec::from));
    let expected =
        [range(Bound::Excluded(5), Bound::Included(50)), range(Bound::Included(90), Bound::Unbounded)];
    assert_eq!(told, expected);
    assert_eq!(contents(&copy)["d"], contents(&origin)["d"]);
}

#[test]
fn a_removed_range_comes_back_by_going_back() {
    let disk = SimDisk::new(1);
    let open = || on(&disk).journal(Journal::default()).open(DIRECTORY).expect("opened");
    let env = open();
    fill(&env).expect("filled");
    let db = env.database("a").expect("there");
    let before = (contents(&env), env.begin().expect("a seat").commit().expect("nothing"));
    assert_eq!(db.remove_range(key(10)..key(2990)).expect("removed"), 2980);
    let after = (contents(&env), env.begin().expect("a seat").commit().expect("nothing"));
    db.insert(key(11), "more").expect("inserted");
    drop(db);
    env.close().expect("closed");
    for (contents_then, lsn) in [after, before] {
        on(&disk)
            .recovery(DIRECTORY, Target::Lsn(lsn))
            .and_then(sablecat::Recovery::apply)
            .expect("gone back");
        let env = open();
        assert!(contents(&env) == contents_then, "{lsn:?}");
        env.close().expect("closed");
    }
}
