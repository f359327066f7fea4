//! What was committed, as a stream: each commit once and as it was, from wherever it is asked for, over
//! crashes; and another environment that follows.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;

use sablecat::Read;
use sablecat::{
    Builder, Change, Changes, ChangesOptions, Commit, Database, Durability, Env, ErrorKind, Follower,
    Journal, Lsn, Result, Target, Txn,
};
use sablecat_os::sim::{SimDisk, Survival};

/// All records of all databases.
type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// The smallest log: a write set of 32 KiB goes in chunks, and a segment is over soon.
fn builder(disk: &Arc<SimDisk>) -> Builder {
    Env::builder()
        .disk(Arc::clone(disk) as Arc<_>)
        .background(false)
        .cache_size(4 << 20)
        .log_buffer_size(1 << 16)
        .log_segment_size(1 << 16)
}

fn disk(seed: u64) -> Arc<SimDisk> {
    Arc::new(SimDisk::new(seed))
}

fn contents(env: &Env) -> Contents {
    let snapshot = env.snapshot().unwrap();
    let names = snapshot.databases().unwrap().into_iter().filter(|name| name != "sablecat.followed");
    names
        .map(|name| {
            let database = snapshot.existing_database(&name).unwrap().unwrap();
            (name, snapshot.range(&database, ..).unwrap().map(Result::unwrap).collect())
        })
        .collect()
}

/// Does to the model what a commit says, one after the other as it is said.
fn apply(model: &mut Contents, commit: &Commit<'_>) {
    let mut changes = commit.changes();
    let mut count = 0;
    while let Some(change) = changes.next().unwrap() {
        count += 1;
        match change {
            Change::Insert { database, key, value } => {
                _ = model.get_mut(database).unwrap().insert(key.to_vec(), value.to_vec())
            }
            Change::Remove { database, key } => _ = model.get_mut(database).unwrap().remove(key),
            Change::CreateDatabase { name, comparator: None, .. } => {
                assert_eq!(model.insert(name.to_owned(), BTreeMap::new()), None, "{name}")
            }
            Change::RenameDatabase { from, to } => {
                let records = model.remove(from).unwrap_or_else(|| panic!("{from} is renamed to {to}"));
                assert_eq!(model.insert(to.to_owned(), records), None, "{to}");
            }
            Change::RemoveDatabase { name } => {
                _ = model.remove(name).unwrap_or_else(|| panic!("{name} is removed"))
            }
            other => panic!("{other:?}"),
        }
    }
    assert_ne!(count, 0, "a commit of which nothing can be seen");
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn name(&mut self) -> String {
        format!("database {}", self.roll(5))
    }

    fn key(&mut self) -> Vec<u8> {
        let n = self.roll(40);
        // Some are too long for a leaf.
        let len = if n.is_multiple_of(7) { 1500 } else { 8 };
        let mut key = format!("{n:08}").into_bytes();
        key.resize(len, b'k');
        key
    }

    fn value(&mut self) -> Vec<u8> {
        // Some are too long for a leaf, and some for a record of the log.
        let len = [3, 100, 9_000, 70_000][[0, 0, 0, 0, 1, 1, 1, 2, 2, 3][self.roll(10) as usize]];
        vec![self.roll(256) as u8; len]
    }
}

/// A transaction of any kind. None if it changed nothing.
fn work(env: &Env, dice: &mut Dice) -> Option<Lsn> {
    let mut txn = env.begin().unwrap();
    for _ in 0..=dice.roll(4) {
        step(&mut txn, dice).unwrap();
        if dice.roll(6) == 0 {
            let here = txn.savepoint();
            step(&mut txn, dice).unwrap();
            txn.rollback_to(&here).unwrap();
        }
    }
    let before = env.snapshot().unwrap().lsn();
    Some(txn.commit().unwrap()).filter(|&lsn| lsn > before)
}

fn step(txn: &mut Txn<'_>, dice: &mut Dice) -> Result<()> {
    let (name, other) = (dice.name(), dice.name());
    match dice.roll(14) {
        0 => drop(txn.remove_database(&name)?),
        1 | 2 if txn.existing_database(&name)?.is_some() && txn.existing_database(&other)?.is_none() => {
            txn.rename_database(&name, &other)?
        }
        3 if name != other
            && txn.existing_database(&name)?.is_some()
            && txn.existing_database(&other)?.is_some() =>
        {
            txn.rename_database(&name, "between")?;
            txn.rename_database(&other, &name)?;
            txn.rename_database("between", &other)?;
        }
        4 => {
            txn.remove_database(&name)?;
            txn.database(&name)?;
        }
        5 if txn.existing_database(&name)?.is_none() => {
            txn.database(&name)?;
            txn.remove_database(&name)?;
        }
        6..9 => {
            let database = txn.database(&name)?;
            txn.remove(&database, dice.key())?;
        }
        _ => {
            let database = txn.database(&name)?;
            for _ in 0..dice.roll(4) {
                txn.insert(&database, dice.key(), dice.value())?;
            }
        }
    }
    Ok(())
}

/// That what was told after a place, up to the last of it, is each commit once: all but those of which
/// nothing can be seen.
fn check_told(told: &[Lsn], after: Lsn, was: &BTreeMap<Lsn, Contents>, before: &Contents) {
    let last = told.last().copied().unwrap_or(after);
    let mut told = told.iter();
    let (mut next, mut before) = (told.next(), before);
    for (lsn, now) in was.range((Excluded(after), Included(last))) {
        if next == Some(lsn) {
            next = told.next();
        } else {
            assert_eq!(now, before, "the commit at LSN {lsn} was not told");
        }
        before = now;
    }
    assert_eq!(next, None);
}

/// Gives a model everything that is there.
fn catch_up(changes: &mut Changes, model: &mut Contents, mut each: impl FnMut(Lsn, &Contents)) {
    while let Some(commit) = changes.try_next().unwrap() {
        apply(model, &commit);
        let lsn = commit.lsn();
        assert_eq!(changes.position(), lsn);
        each(lsn, model);
    }
}

#[test]
fn each_commit_is_told_once_and_as_it_was_from_wherever_it_is_asked_for() {
    for seed in 0..8 {
        let env = builder(&disk(seed)).open("env").unwrap();
        let mut dice = Dice(seed);
        let begun = env.oldest_change().unwrap();
        // All of it is kept for the first.
        let _first = env.changes(begun).unwrap();
        let mut changes = env.changes(begun).unwrap();
        let mut was = BTreeMap::from([(begun, Contents::new())]);
        let mut model = Contents::new();
        for n in 0..60 {
            if let Some(lsn) = work(&env, &mut dice) {
                was.insert(lsn, contents(&env));
            }
            if n % 9 == 0 {
                env.checkpoint().unwrap();
            }
            if n % 5 == 0 {
                catch_up(&mut changes, &mut model, |lsn, model| {
                    assert_eq!(was.get(&lsn), Some(model), "seed {seed}, {lsn}")
                });
            }
        }
        catch_up(&mut changes, &mut model, |_, _| {});
        assert_eq!(model, contents(&env));
        for (from, then) in was.iter().step_by(4) {
            let mut told = Vec::new();
            let mut again = env.changes(*from).unwrap();
            let mut model = then.clone();
            catch_up(&mut again, &mut model, |lsn, model| {
                assert_eq!(was.get(&lsn), Some(model), "seed {seed}, {lsn} after {from}");
                told.push(lsn);
            });
            assert_eq!(model, contents(&env));
            check_told(&told, *from, &was, then);
        }
    }
}

#[test]
fn bulk_loads_and_large_transactions_are_told_and_who_begins_between_their_parts_finds_them() {
    let env = builder(&disk(1)).open("env").unwrap();
    let loaded = env.database("loaded").unwrap();
    let large = env.database("large").unwrap();
    let mut changes = env.changes_from_now(ChangesOptions::new()).unwrap();
    let from = changes.position();
    let mut model = contents(&env);
    // Others commit while its records are drawn: that is between its chunks.
    let mut between = Vec::new();
    loaded
        .bulk_load((0..3000u32).map(|n| {
            if n % 300 == 299 {
                large.insert("between", n.to_le_bytes()).unwrap();
                between.push(env.lsn());
            }
            (n.to_be_bytes(), [n as u8; 100])
        }))
        .unwrap();
    let mut txn = env.begin().unwrap();
    (0..3000u32).for_each(|n| txn.insert(&large, n.to_be_bytes(), [n as u8; 100]).unwrap());
    txn.commit().unwrap();
    let mut lsns = Vec::new();
    catch_up(&mut changes, &mut model, |lsn, _| lsns.push(lsn));
    assert_eq!(model, contents(&env));
    assert_eq!(lsns.len(), between.len() + 2);
    for &after in between.iter().chain([&from]) {
        let mut again = env.changes(after).unwrap();
        let mut seen = Vec::new();
        while let Some(commit) = again.try_next().unwrap() {
            let mut each = commit.changes();
            let mut count = 0;
            while each.next().unwrap().is_some() {
                count += 1;
            }
            seen.push((commit.lsn(), count));
        }
        assert!(seen.iter().map(|(lsn, _)| lsn).eq(lsns.iter().filter(|&&lsn| lsn > after)), "{after}");
        assert_eq!(seen.iter().filter(|(_, count)| *count == 3000).count(), 2, "after {after}");
    }
}

/// Where a load has logged some of its parts, and others have committed since; the parts before that are in
/// other segments.
fn load_and(env: &Env, between: &mut dyn FnMut()) {
    let (loaded, other) = (env.database("loaded").unwrap(), env.database("other").unwrap());
    let records = (0..3000u32).map(|n| {
        if n == 2000 {
            other.insert("between", "parts").unwrap();
            between();
        }
        (n.to_be_bytes(), [n as u8; 100])
    });
    loaded.bulk_load(records).unwrap();
}

#[test]
fn the_log_is_kept_for_who_begins_between_the_parts_of_a_large_commit_too() {
    let env = builder(&disk(1)).open("env").unwrap();
    let mut begun = None;
    load_and(&env, &mut || begun = Some(env.changes(env.lsn()).unwrap()));
    env.checkpoint().unwrap();
    let mut changes = begun.unwrap();
    let commit = changes.try_next().unwrap().unwrap();
    let mut each = commit.changes();
    let mut count = 0;
    while each.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 3000);
}

#[test]
fn that_parts_of_a_large_commit_are_not_kept_any_more_is_no_damage() {
    let env = builder(&disk(1)).open("env").unwrap();
    let mut from = env.lsn();
    load_and(&env, &mut || from = env.lsn());
    let mut changes = env.changes(from).unwrap();
    env.checkpoint().unwrap();
    let error = changes.try_next().expect_err("its first parts are gone");
    assert_eq!(error.kind(), ErrorKind::LogGone, "{error}");
}

#[test]
fn the_log_is_kept_for_who_reads_it_and_for_nobody_who_lags_too_far_behind() {
    let fill = |env: &Env| {
        let database = env.database("d").unwrap();
        (0..400u32).for_each(|n| database.insert(n.to_be_bytes(), [n as u8; 3000]).unwrap());
        env.checkpoint().unwrap();
    };
    let segments = |disk: &SimDisk| {
        use sablecat_os::disk::Disk;
        disk.list(std::path::Path::new("/env/log"))
            .or_else(|_| disk.list(std::path::Path::new("env/log")))
            .unwrap()
            .iter()
            .filter(|name| name.ends_with(".log"))
            .count()
    };
    let disk = disk(1);
    let env = builder(&disk).open("env").unwrap();
    fill(&env);
    let few = segments(&disk);
    let mut changes = env.changes_from_now(ChangesOptions::new()).unwrap();
    fill(&env);
    assert!(segments(&disk) > few + 15, "{} segments, {few} before", segments(&disk));
    let mut seen = 0;
    while changes.try_next().unwrap().is_some() {
        seen += 1;
    }
    assert_eq!(seen, 400);
    env.checkpoint().unwrap();
    assert!(segments(&disk) <= few + 2, "{} segments are kept for who has read them", segments(&disk));
    // Another in the same process, further behind.
    let behind = env.changes(changes.position()).unwrap();
    fill(&env);
    while changes.try_next().unwrap().is_some() {}
    env.checkpoint().unwrap();
    assert!(segments(&disk) > few + 15);
    drop(behind);
    env.checkpoint().unwrap();
    assert!(segments(&disk) <= few + 2);
    drop(changes);
    env.close().unwrap();

    let env = builder(&disk).changes_lag_max(2_000_000).open("env").unwrap();
    let mut far = env.changes_from_now(ChangesOptions::new()).unwrap();
    let mut near = env.changes_from_now(ChangesOptions::new()).unwrap();
    for _ in 0..3 {
        fill(&env);
        while near.try_next().unwrap().is_some() {}
    }
    fill(&env);
    assert!(
        near.try_next().unwrap().is_some(),
        "one that lags too far behind does not take the log from one that does not"
    );
    assert_eq!(far.try_next().expect_err("let go").kind(), ErrorKind::LogGone);
    drop((far, near));
    env.close().unwrap();

    let env = builder(&disk).changes_lag_max(500_000).open("env").unwrap();
    let mut changes = env.changes_from_now(ChangesOptions::new()).unwrap();
    let from = changes.position();
    fill(&env);
    let error = changes.try_next().expect_err("let go");
    assert_eq!(error.kind(), ErrorKind::LogGone, "{error}");
    assert!(error.to_string().contains("Builder::journal"), "{error}");
    assert_eq!(changes.position(), from);
    assert_eq!(env.changes(from).expect_err("gone").kind(), ErrorKind::LogGone);
    let mut rest = env.changes(env.oldest_change().unwrap()).unwrap();
    assert!(rest.try_next().unwrap().is_some(), "what is left");
}

#[test]
fn nothing_is_given_that_a_crash_takes_back() {
    for seed in 0..60 {
        let disk = disk(seed);
        let env = builder(&disk).journal(Journal::new()).open("env").unwrap();
        let mut dice = Dice(seed);
        let database = env.database("d").unwrap();
        let begun = env.lsn();
        let mut durable = env.changes(begun).unwrap();
        let mut written = env.changes_with(begun, ChangesOptions::new().written(true)).unwrap();
        let (mut given, mut ahead, mut made) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..30u32 {
            let rung = [Durability::Memory, Durability::NoSync, Durability::WriteNoSync, Durability::Sync]
                [dice.roll(4) as usize];
            let mut txn = env.begin().unwrap();
            txn.insert(&database, n.to_be_bytes(), vec![n as u8; 10 + dice.roll(5000) as usize]).unwrap();
            made.push(txn.commit_with(rung).unwrap());
            while let Some(commit) = durable.try_next().unwrap() {
                given.push(commit.lsn());
            }
            while let Some(commit) = written.try_next().unwrap() {
                ahead.push(commit.lsn());
            }
            if dice.roll(10) == 0 {
                env.checkpoint().unwrap();
            }
        }
        assert!(made.starts_with(&ahead) && ahead.starts_with(&given), "in order, and each once");
        let after = Arc::new(disk.crash(seed));
        let env = builder(&after).open("env").unwrap();
        let mut all = env.changes(begun).unwrap();
        let mut there = Vec::new();
        while let Some(commit) = all.try_next().unwrap() {
            there.push(commit.lsn());
        }
        assert!(there.starts_with(&given), "seed {seed}: {given:?} were given, {there:?} are there");
        assert!(made.starts_with(&there));
        // Each once, over the crash.
        let mut rest = env.changes(given.last().copied().unwrap_or(begun)).unwrap();
        while let Some(commit) = rest.try_next().unwrap() {
            given.push(commit.lsn());
        }
        assert_eq!(given, there, "seed {seed}");
        // Who saw more than is there is told.
        if let Some(&last) = ahead.last() {
            match env.changes(last) {
                Ok(_) => assert!(there.contains(&last), "seed {seed}"),
                Err(error) => assert!(
                    error.kind() == ErrorKind::LogGone && !there.contains(&last),
                    "seed {seed}: {error}"
                ),
            }
        }
        let dead = disk.crash_as(Survival::Everything, seed);
        let env = builder(&Arc::new(dead)).open("env").unwrap();
        let mut processes_killed = env.changes(begun).unwrap();
        let mut there = Vec::new();
        while let Some(commit) = processes_killed.try_next().unwrap() {
            there.push(commit.lsn());
        }
        assert!(there.starts_with(&ahead), "seed {seed}: what is with the system survives all processes");
    }
}

/// The origin and the copy, either of which is killed now and then, loses power, or is closed.
#[test]
fn a_copy_is_what_the_origin_was_at_each_commit_whatever_is_killed_in_between() {
    for seed in 0..6 {
        let mut dice = Dice(1000 + seed);
        let (mut here, mut there) = (disk(seed), disk(seed + 100));
        let open_origin = |disk: &Arc<SimDisk>| builder(disk).journal(Journal::new()).open("origin").unwrap();
        let open_copy = |disk: &Arc<SimDisk>| builder(disk).open("copy").unwrap();
        let (mut origin, mut copy) = (open_origin(&here), open_copy(&there));
        let mut was: BTreeMap<Lsn, Contents> = BTreeMap::new();
        let first = origin.oldest_change().unwrap();
        for round in 0..24 {
            for _ in 0..4 {
                if let Some(lsn) = work(&origin, &mut dice) {
                    was.insert(lsn, contents(&origin));
                }
            }
            let follower = Follower::new(&copy, "origin").unwrap();
            let position = follower.position().unwrap().unwrap_or(first);
            let mut changes = origin.changes(position).unwrap();
            let mut applied = Vec::new();
            for _ in 0..dice.roll(8) {
                let Some(commit) = changes.try_next().unwrap() else { break };
                assert!(follower.apply(&commit).unwrap());
                assert!(!follower.apply(&commit).unwrap(), "once");
                assert_eq!(Some(&contents(&copy)), was.get(&commit.lsn()), "seed {seed}, round {round}");
                applied.push(commit.lsn());
            }
            let nothing = Contents::new();
            check_told(&applied, position, &was, was.get(&position).unwrap_or(&nothing));
            drop((changes, follower));
            match dice.roll(6) {
                0 => {
                    origin = {
                        here = Arc::new(here.crash(seed + round));
                        open_origin(&here)
                    }
                }
                1 => {
                    copy = {
                        there = Arc::new(there.crash(seed + round));
                        open_copy(&there)
                    }
                }
                2 => {
                    origin = {
                        origin.close().unwrap();
                        open_origin(&here)
                    }
                }
                3 => {
                    copy = {
                        copy.close().unwrap();
                        open_copy(&there)
                    }
                }
                _ => {}
            }
            let report = copy.verify(&mut |_| {}).unwrap();
            assert_eq!(report.problems, Vec::<String>::new());
        }
        let follower = Follower::new(&copy, "origin").unwrap();
        let mut changes = origin.changes(follower.position().unwrap().unwrap_or(first)).unwrap();
        while let Some(commit) = changes.try_next().unwrap() {
            follower.apply(&commit).unwrap();
        }
        assert_eq!(contents(&copy), contents(&origin), "seed {seed}");
    }
}

#[test]
fn a_copy_of_a_snapshot_goes_on_with_what_came_after_it() {
    let (origin, copy) = (builder(&disk(1)).open("origin").unwrap(), builder(&disk(2)).open("copy").unwrap());
    let letters = origin.database("letters").unwrap();
    letters.insert("a", "alpha").unwrap();
    let mut changes = origin.changes_from_now(ChangesOptions::new()).unwrap();
    letters.insert("b", "beta").unwrap();
    let snapshot = origin.snapshot().unwrap();
    letters.insert("a", "changed").unwrap();
    let follower = Follower::new(&copy, "origin").unwrap();
    let mut txn = copy.begin().unwrap();
    let into = txn.database("letters").unwrap();
    snapshot
        .range(&letters, ..)
        .unwrap()
        .for_each(|record| record.and_then(|(key, value)| txn.insert(&into, key, value)).unwrap());
    follower.set_position(&mut txn, snapshot.lsn()).unwrap();
    txn.commit().unwrap();
    let mut applied = Vec::new();
    while let Some(commit) = changes.try_next().unwrap() {
        applied.push(follower.apply(&commit).unwrap());
    }
    assert_eq!(applied, [false, true], "the copy has the first");
    assert_eq!(contents(&copy), contents(&origin));
    // A copy can be followed, and its position is not its copies'.
    let third = builder(&disk(3)).open("third").unwrap();
    let next = Follower::new(&third, "copy").unwrap();
    let mut changes = copy.changes(copy.oldest_change().unwrap()).unwrap();
    while let Some(commit) = changes.try_next().unwrap() {
        next.apply(&commit).unwrap();
    }
    assert_eq!(contents(&third), contents(&origin));
    assert_eq!(next.position().unwrap(), Some(changes.position()));
}

#[test]
fn where_no_commit_ends_and_what_is_not_kept_is_refused() {
    let memory = Env::in_memory().unwrap();
    assert_eq!(memory.changes(Lsn(0)).expect_err("no log").kind(), ErrorKind::Invalid);
    let disk = disk(1);
    let env = builder(&disk).open("env").unwrap();
    let database = env.database("d").unwrap();
    database.insert("a", "alpha").unwrap();
    let end = env.lsn();
    assert_eq!(env.changes(Lsn(end.0 + 8)).expect_err("beyond the end").kind(), ErrorKind::Invalid);
    let error = env
        .changes(Lsn(end.0 - 8))
        .and_then(|mut changes| changes.try_next().map(drop))
        .expect_err("in a record");
    assert!(
        error.kind() == ErrorKind::Invalid && error.to_string().contains("no commit ends there"),
        "{error}"
    );
    drop(database);
    env.close().unwrap();
    let env = builder(&disk).open("env").unwrap();
    assert_eq!(env.changes(Lsn(0)).expect_err("closed since, without a journal").kind(), ErrorKind::LogGone);
    env.close().unwrap();
    let reader = builder(&disk).read_only(true).open("env").unwrap();
    assert_eq!(reader.changes(Lsn(0)).expect_err("it has no log").kind(), ErrorKind::Invalid);
}

#[test]
fn a_life_in_which_nothing_was_committed_is_a_place_to_go_on_from_and_a_time_that_was_left_is_none() {
    let disk = disk(1);
    let open = || builder(&disk).journal(Journal::new()).open("env").unwrap();
    let put = |env: &Env, key: &str| {
        env.database("d").unwrap().insert(key, "value").unwrap();
        env.lsn()
    };
    let env = open();
    let (first, second) = (put(&env, "first"), put(&env, "second"));
    env.close().unwrap();
    // Three lives that leave no trace but the LSN of a snapshot.
    let idle: Vec<Lsn> = (0..3)
        .map(|_| {
            let env = open();
            let lsn = env.snapshot().unwrap().lsn();
            env.close().unwrap();
            lsn
        })
        .collect();
    let env = open();
    let third = put(&env, "third");
    let keys = |env: &Env, from: Lsn| -> Result<Vec<String>> {
        let mut changes = env.changes(from)?;
        let mut keys = Vec::new();
        while let Some(commit) = changes.try_next()? {
            let mut each = commit.changes();
            while let Some(change) = each.next()? {
                if let Change::Insert { key, .. } = change {
                    keys.push(String::from_utf8(key.to_vec()).unwrap());
                }
            }
        }
        Ok(keys)
    };
    assert_eq!(keys(&env, first).unwrap(), ["second", "third"]);
    for from in idle.iter().chain([&second]) {
        assert_eq!(keys(&env, *from).unwrap(), ["third"], "{from}");
    }
    env.close().unwrap();
    let env = open();
    assert_eq!(keys(&env, idle[1]).unwrap(), ["third"]);
    env.close().unwrap();
    builder(&disk).recovery("env", Target::Lsn(first)).and_then(|recovery| recovery.apply()).unwrap();
    let env = open();
    put(&env, "fourth");
    assert_eq!(keys(&env, first).unwrap(), ["fourth"]);
    for left in idle.iter().chain([&second, &third]) {
        let error = keys(&env, *left).expect_err("not in the past of what is there");
        assert_eq!(error.kind(), ErrorKind::LogGone, "{left}: {error}");
    }
}

#[test]
fn names_are_those_of_then_over_renames_removals_and_another_opening() {
    let disk = disk(1);
    let open = || builder(&disk).journal(Journal::new()).open("env").unwrap();
    let env = open();
    let begun = env.lsn();
    let a = env.database("a").unwrap();
    a.insert("1", "in a").unwrap();
    let named_a = env.lsn();
    a.insert("2", "in a").unwrap();
    env.rename_database("a", "b").unwrap();
    a.insert("3", "in b").unwrap();
    drop(a);
    env.close().unwrap();
    let env = open();
    let new_a: Database = env.database("a").unwrap();
    new_a.insert("4", "in the new a").unwrap();
    assert!(env.remove_database("b").unwrap());
    let told = |from: Lsn| {
        let mut changes = env.changes(from).unwrap();
        let mut told = Vec::new();
        while let Some(commit) = changes.try_next().unwrap() {
            let mut each = commit.changes();
            while let Some(change) = each.next().unwrap() {
                told.push(match change {
                    Change::Insert { database, key, .. } => {
                        format!("{} in {database}", String::from_utf8_lossy(key))
                    }
                    Change::CreateDatabase { name, .. } => format!("create {name}"),
                    Change::RenameDatabase { from, to } => format!("rename {from} {to}"),
                    Change::RemoveDatabase { name } => format!("remove {name}"),
                    other => panic!("{other:?}"),
                });
            }
        }
        told
    };
    let all = ["create a", "1 in a", "2 in a", "rename a b", "3 in b", "create a", "4 in a", "remove b"];
    assert_eq!(told(begun), all);
    assert_eq!(told(named_a), all[2..]);
}

#[test]
fn changes_go_to_another_thread_and_keep_the_environment_open() {
    fn taken<T: Send + 'static>(_: &T) {}
    let disk = disk(1);
    let env = builder(&disk).open("env").unwrap();
    let database = env.database("d").unwrap();
    let changes = env.changes_from_now(ChangesOptions::new()).unwrap();
    taken(&changes);
    database.insert("a", "alpha").unwrap();
    drop(database);
    assert_eq!(env.close().expect_err("it is kept open").kind(), ErrorKind::InUse);
    let seen = std::thread::spawn(move || {
        let mut changes = changes;
        let is_there = changes.try_next().unwrap().is_some();
        drop(changes);
        is_there
    });
    assert!(seen.join().unwrap());
    let env = builder(&disk).create(false).open("env").unwrap();
    assert_eq!(env.get(&env.database("d").unwrap(), "a").unwrap().as_deref(), Some(&b"alpha"[..]));
}
