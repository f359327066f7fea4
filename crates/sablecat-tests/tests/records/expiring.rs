//! Records that expire: against a model with a clock, in snapshots, over crashes, in copies, and with their
//! index under other names. Beside sweeps: expiring_sweeps.rs.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use sablecat::{
    Durability, Env, ErrorKind, Expiring, Follower, Holds, Index, IndexOptions, Lifetime, Method, Moment,
    MultiMap, Result, Txn,
};
use sablecat_os::sim::SimDisk;
use sablecat_tests::clock::{BEGIN, Clock, ISOLATIONS, METHODS, at, ms};
use sablecat_tests::dice::Dice;

/// What is thrown here.
trait Throws {
    fn key(&mut self) -> Vec<u8>;
    fn value(&mut self) -> Vec<u8>;
    fn lifetime(&mut self, now: u64) -> Lifetime;
}

impl Throws for Dice {
    /// One of some keys, of which some are too long for a page.
    fn key(&mut self) -> Vec<u8> {
        let n = self.below(40) as u8;
        if n < 4 { vec![n; 1500] } else { format!("key {n:02}").into_bytes() }
    }

    /// Short, or too long for a page.
    fn value(&mut self) -> Vec<u8> {
        let byte = self.below(256) as u8;
        let len = if self.below(8) == 0 { 20_000 } else { self.below(100) as usize };
        vec![byte; len]
    }

    fn lifetime(&mut self, now: u64) -> Lifetime {
        match self.below(4) {
            0 => Lifetime::Unlimited,
            1 => Lifetime::Until(Moment { ms: now.saturating_sub(50) + self.below(200) }),
            _ => Lifetime::For(ms(self.below(100))),
        }
    }
}

/// What is stored: values, and from when on they are gone; 0: never.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

fn gone_from(lifetime: Lifetime, now: u64) -> u64 {
    match lifetime {
        Lifetime::Unlimited => 0,
        Lifetime::For(time) => now + time.as_millis() as u64,
        Lifetime::Until(moment) => moment.ms,
    }
}

/// How long a record is there, as it is told.
fn until(gone_from: u64) -> Lifetime {
    if gone_from == 0 { Lifetime::Unlimited } else { Lifetime::Until(Moment { ms: gone_from }) }
}

fn is_live((_, gone_from): &(Vec<u8>, u64), now: u64) -> bool {
    *gone_from == 0 || *gone_from > now
}

fn live(model: &Model, now: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let live = model.iter().filter(|(_, record)| is_live(record, now));
    live.map(|(key, (value, _))| (key.clone(), value.clone())).collect()
}

/// Compares all that can be read with the model.
fn compare(env: &Env, records: &Expiring, model: &Model, now: u64, dice: &mut Dice) {
    let state = env.snapshot().unwrap();
    let expected = live(model, now);
    let sorted = |mut all: Vec<_>| {
        all.sort();
        all
    };
    let all: Vec<_> = records.range(&state, ..).unwrap().collect::<Result<_>>().unwrap();
    let mut back: Vec<_> = records.range(&state, ..).unwrap().rev().collect::<Result<_>>().unwrap();
    back.reverse();
    assert_eq!(all, back);
    let is_ordered = records.database().method() == Method::Btree;
    assert_eq!(if is_ordered { all.clone() } else { sorted(all.clone()) }, expected);
    let mut walked = Vec::new();
    let mut cursor = records.cursor();
    while let Some(key) = cursor.next(&state).unwrap().map(<[u8]>::to_vec) {
        walked.push((key, cursor.value(&state).unwrap().unwrap()));
    }
    assert_eq!(walked, all);
    while let Some(key) = cursor.prev(&state).unwrap() {
        assert_eq!(key, walked.pop().unwrap().0);
    }
    assert_eq!(records.len(&state).unwrap(), expected.len() as u64);
    assert_eq!(records.is_empty(&state).unwrap(), expected.is_empty());
    assert_eq!(records.first(&state).unwrap(), all.first().cloned());
    assert_eq!(records.last(&state).unwrap(), all.last().cloned());
    for _ in 0..5 {
        let key = dice.key();
        let found = model.get(&key).filter(|record| is_live(record, now));
        assert_eq!(records.get(&state, &key).unwrap().as_ref(), found.map(|found| &found.0));
        assert_eq!(records.contains_key(&state, &key).unwrap(), found.is_some());
        assert_eq!(records.value_len(&state, &key).unwrap(), found.map(|found| found.0.len() as u64));
        let mut part = [0; 10];
        let read = records.read_at(&state, &key, 3, &mut part).unwrap();
        assert_eq!(read, found.map(|found| found.0.len().saturating_sub(3).min(10)));
        let until = found.map(|found| match found.1 {
            0 => (Lifetime::Unlimited, Lifetime::Unlimited),
            time => (Lifetime::Until(Moment { ms: time }), Lifetime::For(ms(time - now))),
        });
        assert_eq!(records.lifetime(&state, &key).unwrap(), until.map(|until| until.0));
        assert_eq!(records.remaining(&state, &key).unwrap(), until.map(|until| until.1));
        if is_ordered {
            let from = all.partition_point(|(have, _)| *have < key);
            let next = records.range(&state, key.clone()..).unwrap().next().transpose().unwrap();
            assert_eq!(next, all.get(from).cloned());
            assert_eq!(cursor.at_or_after(&state, &key).unwrap(), all.get(from).map(|one| &one.0[..]));
            let to = all.partition_point(|(have, _)| *have <= key);
            let before = to.checked_sub(1).map(|before| &all[before].0[..]);
            assert_eq!(cursor.at_or_before(&state, &key).unwrap(), before);
        }
    }
    let unswept = model.values().filter(|record| !is_live(record, now)).count();
    assert_eq!(records.unswept(&state).unwrap(), unswept as u64);
    assert_eq!(records.verify(&state).unwrap(), [""; 0]);
}

/// One change, in a transaction and in the model.
fn change(txn: &mut Txn<'_>, records: &Expiring, model: &mut Model, now: u64, dice: &mut Dice) -> Result<()> {
    let (key, value, lifetime) = (dice.key(), dice.value(), dice.lifetime(now));
    let was_live = model.get(&key).is_some_and(|record| is_live(record, now));
    match dice.below(9) {
        0 | 1 => {
            records.insert(txn, &key, &value, lifetime)?;
            model.insert(key, (value, gone_from(lifetime, now)));
        }
        2 => {
            assert_eq!(records.insert_new(txn, &key, &value, lifetime)?, !was_live);
            if !was_live {
                model.insert(key, (value, gone_from(lifetime, now)));
            }
        }
        3 => {
            assert_eq!(records.touch(txn, &key, lifetime)?, was_live);
            if was_live {
                model.get_mut(&key).unwrap().1 = gone_from(lifetime, now);
            }
        }
        4 => {
            assert_eq!(records.remove(txn, &key)?, was_live);
            if was_live {
                model.remove(&key);
            }
        }
        5 => {
            let taken = records.take(txn, &key)?;
            assert_eq!(taken.as_ref(), model.get(&key).filter(|_| was_live).map(|record| &record.0));
            if was_live {
                model.remove(&key);
            }
        }
        what => {
            let mut cursor = records.cursor();
            assert_eq!(cursor.put(txn, &value, lifetime).unwrap_err().kind(), ErrorKind::Invalid);
            assert!(!cursor.remove(txn)? && cursor.lifetime(txn)?.is_none(), "it stands nowhere");
            let Some(found) = cursor.at_or_after(txn, &key)?.map(<[u8]>::to_vec) else { return Ok(()) };
            assert_eq!(cursor.lifetime(txn)?, Some(until(model[&found].1)));
            if what != 6 {
                assert!(cursor.remove(txn)? && !cursor.remove(txn)?);
                assert_eq!((cursor.value(txn)?, cursor.lifetime(txn)?), (None, None));
                model.remove(&found);
            }
            if what != 7 {
                // Where it stands there is one, or was one.
                let gone_from = gone_from(lifetime, now);
                cursor.put(txn, &value, lifetime)?;
                let there = (gone_from == 0 || gone_from > now).then(|| value.clone());
                assert_eq!(cursor.lifetime(txn)?, there.as_ref().map(|_| until(gone_from)));
                assert_eq!(cursor.value(txn)?, there);
                model.insert(found, (value, gone_from));
            }
        }
    }
    Ok(())
}

#[test]
fn records_expire_as_those_of_a_model_do() {
    for seed in 0..24 {
        let (clock, mut dice) = (Clock::new(), Dice(seed));
        let env = clock.in_memory();
        let records = Expiring::open_as(&env, "records", METHODS[seed as usize % 2]).unwrap();
        let mut model = Model::new();
        for _ in 0..60 {
            match dice.below(8) {
                0 => clock.pass(dice.below(60)),
                // Somebody sets it back: what was not swept is there again.
                1 => clock.set(clock.now() - dice.below(60)),
                2 => {
                    let before = model.len();
                    model.retain(|_, record| is_live(record, clock.now()));
                    assert_eq!(records.sweep().unwrap(), (before - model.len()) as u64, "seed {seed}");
                    assert_eq!(env.sweep().unwrap(), 0);
                }
                _ => {
                    let isolation = ISOLATIONS[dice.below(3) as usize];
                    let mut txn = env.begin_with(at(isolation)).unwrap();
                    let mut after = model.clone();
                    for _ in 0..dice.below(6) {
                        let (before, savepoint) = (after.clone(), txn.savepoint());
                        change(&mut txn, &records, &mut after, clock.now(), &mut dice).unwrap();
                        if dice.below(4) == 0 {
                            txn.rollback_to(&savepoint).unwrap();
                            after = before;
                        }
                    }
                    let seen: Vec<_> = records.range(&txn, ..).unwrap().collect::<Result<_>>().unwrap();
                    assert_eq!(seen.len(), live(&after, clock.now()).len(), "seed {seed}");
                    if dice.below(5) > 0 {
                        txn.commit().unwrap();
                        model = after;
                    }
                }
            }
            compare(&env, &records, &model, clock.now(), &mut dice);
        }
        assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0], "seed {seed}");
    }
}

#[test]
fn a_transaction_has_one_time_and_a_snapshot_that_of_its_beginning() -> Result<()> {
    let clock = Clock::new();
    let env = clock.in_memory();
    let records = Expiring::open(&env, "records")?;
    env.write(|txn| records.insert(txn, "a", "b", ms(100)))?;
    let early = env.snapshot()?;
    for isolation in ISOLATIONS {
        let mut txn = env.begin_with(at(isolation))?;
        assert!(records.contains_key(&txn, "a")?);
        clock.pass(100);
        assert!(records.contains_key(&txn, "a")?, "its time stands still");
        assert_eq!(records.len(&txn)?, 1);
        records.insert(&mut txn, "short", "", ms(1))?;
        assert!(records.contains_key(&txn, "short")?);
        drop(txn);
        let txn = env.begin_with(at(isolation))?;
        assert!(!records.contains_key(&txn, "a")?);
        clock.set(BEGIN);
        assert!(!records.contains_key(&txn, "a")?, "one that expired stays so");
    }
    clock.pass(100);
    let late = env.snapshot()?;
    assert_eq!(env.sweep()?, 1);
    // Not asked before the record had expired, and had been swept.
    assert_eq!(records.remaining(&early, "a")?, Some(Lifetime::For(ms(100))));
    assert_eq!(records.get(&late, "a")?, None);
    thread::scope(|scope| {
        let read = || records.get(&early, "a").unwrap().as_deref() == Some(b"b");
        // Within a closure that is shown something, and by others meanwhile, it has that time too.
        let inner = records.get_with(&early, "a", |_| (read(), scope.spawn(read).join().unwrap())).unwrap();
        assert_eq!(inner, (true, true));
    });
    Ok(())
}

#[test]
fn the_index_goes_with_its_database_and_no_other_may_be() -> Result<()> {
    let clock = Clock::new();
    let env = clock.builder().extractor("bytes", |_, value, keys| keys.push(value)).in_memory()?;
    let records = Expiring::open(&env, "records")?;
    assert_eq!(env.databases()?, ["records", "records by expiry"]);
    assert_eq!(records.database().holds(), Holds::Expiring);
    assert!(Expiring::is_index(&env, "records by expiry")? && !Expiring::is_index(&env, "records")?);
    env.rename_database("records", "renamed")?;
    let renamed = Expiring::open(&env, "renamed")?;
    env.write(|txn| {
        records.insert(txn, "by the handle before", "", ms(1))?;
        renamed.insert(txn, "by the new one", "", ms(1))
    })?;
    clock.pass(1);
    assert_eq!(env.sweep()?, 2);
    // A name that is too long to have more, and one that is taken.
    let long = "l".repeat(48);
    Expiring::open(&env, &long)?;
    env.database("taken by expiry")?;
    let taken = Expiring::open(&env, "taken")?;
    env.write(|txn| taken.insert(txn, "a", "b", ms(1)))?;
    clock.pass(1);
    assert_eq!((taken.sweep()?, env.databases()?.len()), (1, 7));
    assert!(env.remove_database("renamed")? && env.remove_database(&long)?);
    assert_eq!(env.databases()?.len(), 3);

    let invalid = |result: Result<()>| assert_eq!(result.expect_err("refused").kind(), ErrorKind::Invalid);
    invalid(env.index("other", taken.database(), IndexOptions::new("bytes")).map(drop));
    let plain = env.database("plain")?;
    invalid(env.index("odd", &plain, IndexOptions::new("\0expiry")).map(drop));
    invalid(env.index("odd", taken.database(), IndexOptions::new("\0expiry").unique(true)).map(drop));
    invalid(Expiring::open(&env, "plain").map(drop));
    invalid(Expiring::of(&env, &plain).map(drop));
    invalid(Expiring::open_as(&env, "taken", Method::Hash).map(drop));
    invalid(MultiMap::open(&env, "taken", sablecat::Duplicates::Sorted).map(drop));
    let index =
        env.databases()?.into_iter().find(|name| name.starts_with("tree")).expect("of the taken name");
    let index = Index::existing(&env, &index)?.expect("there");
    let refused = index.database().insert("a", "b").expect_err("it is kept");
    assert_eq!(refused.kind(), ErrorKind::NotAllowed);

    // In a transaction: there with it, and gone with it.
    let undone = env.try_write(|txn| {
        let made = Expiring::open_in(txn, "made", Some(Method::Hash))?;
        made.insert(txn, "a", "b", ms(5))?;
        assert_eq!(made.len(txn)?, 1);
        Err::<(), sablecat::Error>(txn.rename_database("none", "nothing").expect_err("there is none"))
    });
    assert_eq!(undone.expect_err("undone").kind(), ErrorKind::NotFound);
    assert_eq!(env.existing_database("made by expiry")?.map(drop), None);
    let made = env.write(|txn| Expiring::open_in(txn, "made", None))?;
    env.write(|txn| made.insert(txn, "a", "b", ms(5)))?;
    assert_eq!(made.verify(&env)?, [""; 0]);
    // Made as what it holds alone, it gets its index when it is opened, with what there is.
    let bare = env.database_holding("bare", Holds::Expiring)?;
    bare.insert("a", (clock.now() + 1).to_le_bytes())?;
    assert_eq!(Expiring::of(&env, &bare).expect_err("no index").kind(), ErrorKind::Invalid);
    let bare = Expiring::open(&env, "bare")?;
    assert_eq!(bare.verify(&env)?, [""; 0]);
    clock.pass(1);
    assert_eq!(bare.sweep()?, 1);
    Ok(())
}

/// The power fails at any moment of changes and sweeps.
#[test]
fn crashes_leave_what_was_committed_with_its_times_and_its_index() {
    for seed in 0..30 {
        let (clock, mut dice) = (Clock::new(), Dice(seed));
        let disk = Arc::new(SimDisk::new(seed));
        let open = |disk: &Arc<SimDisk>| {
            let builder = clock.builder().disk(Arc::clone(disk) as _).durability(Durability::Sync);
            builder.checkpoint_log_size(1 << 16).open(Path::new("env")).unwrap()
        };
        let env = open(&disk);
        let records = Expiring::open_as(&env, "records", METHODS[seed as usize % 2]).unwrap();
        let mut model = Model::new();
        for _ in 0..dice.below(25) {
            env.write(|txn| {
                let mut after = model.clone();
                for _ in 0..3 {
                    change(txn, &records, &mut after, clock.now(), &mut dice)?;
                }
                Ok(after)
            })
            .map(|after| model = after)
            .unwrap();
            clock.pass(dice.below(30));
            match dice.below(3) {
                0 => _ = env.sweep().unwrap(),
                1 => _ = env.checkpoint().unwrap(),
                _ => {}
            }
        }
        let crashed = Arc::new(disk.crash(seed));
        drop((records, env));
        let env = open(&crashed);
        let records = Expiring::open(&env, "records").unwrap();
        let left: Vec<_> = records.range(&env, ..).unwrap().collect::<Result<_>>().unwrap();
        let mut left = left;
        left.sort();
        assert_eq!(left, live(&model, clock.now()), "seed {seed}");
        assert_eq!(records.verify(&env).unwrap(), [""; 0], "seed {seed}");
        // What a crash has undone of a sweep is swept again.
        env.sweep().unwrap();
        assert_eq!(
            (records.unswept(&env).unwrap(), records.database().len().unwrap()),
            (0, left.len() as u64)
        );
        assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0], "seed {seed}");
    }
}

#[test]
fn copies_and_followers_have_the_times() -> Result<()> {
    let clock = Clock::new();
    let open = |seed| clock.builder().disk(Arc::new(SimDisk::new(seed))).open("env");
    let (origin, copy) = (open(1)?, open(2)?);
    let records = Expiring::open(&origin, "records")?;
    origin.write(|txn| {
        records.insert(txn, "a", "b", ms(10))?;
        records.insert(txn, "c", "d", ms(20))
    })?;
    let follower = Follower::new(&copy, "origin")?;
    let mut changes = follower.copy(&origin, &mut |_| {})?;
    let copied = Expiring::open(&copy, "records")?;
    assert_eq!(copied.lifetime(&copy, "a")?, records.lifetime(&origin, "a")?);
    assert_eq!(copied.verify(&copy)?, [""; 0]);
    // What is made later is made there too, swept there too, and may have been swept there before.
    let later = Expiring::open_as(&origin, "later", Method::Hash)?;
    origin.write(|txn| later.insert(txn, "e", "f", ms(10)))?;
    clock.pass(10);
    assert_eq!((copy.sweep()?, origin.sweep()?), (1, 2));
    origin.write(|txn| {
        assert!(records.touch(txn, "c", ms(100))?);
        records.insert(txn, "a", "again", Lifetime::Unlimited)
    })?;
    while let Some(commit) = changes.try_next()? {
        follower.apply(&commit)?;
    }
    assert_eq!(copied.remaining(&copy, "c")?, Some(Lifetime::For(ms(100))));
    assert_eq!(copied.get(&copy, "a")?.as_deref(), Some(&b"again"[..]));
    let later = Expiring::open(&copy, "later")?;
    assert_eq!((later.database().len()?, later.verify(&copy)?, copied.verify(&copy)?), (0, vec![], vec![]));
    clock.pass(100);
    assert_eq!(copy.sweep()?, 1);
    Ok(())
}

/// The last checkpoint is read with the time of now.
#[test]
fn who_only_reads_sees_no_more_than_others() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("sablecat-expiring-{}", std::process::id()));
    let clock = Clock::new();
    let env = clock.builder().open(&directory)?;
    let records = Expiring::open(&env, "records")?;
    env.write(|txn| records.insert(txn, "a", "b", ms(10)))?;
    drop(records);
    env.close()?;
    let env = clock.builder().read_only(true).open(&directory)?;
    let records = Expiring::open(&env, "records")?;
    assert!(records.contains_key(&env, "a")?);
    clock.pass(10);
    assert!(!records.contains_key(&env, "a")?);
    assert_eq!(records.sweep().expect_err("read-only").kind(), ErrorKind::ReadOnly);
    drop((records, env));
    std::fs::remove_dir_all(directory).expect("removed");
    Ok(())
}
