//! Cursors beside what a transaction itself and others change; snapshots and transactions that live by
//! themselves.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sablecat::{
    Builder, Cursor, DataStore, Database, Durability, Env, ErrorKind, Isolation, Prefix, Read, ReadTxn,
    Result, Txn, TxnOptions, Write,
};
use sablecat_os::sim::SimDisk;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn with(isolation: Isolation) -> TxnOptions {
    TxnOptions::new().isolation(isolation)
}

/// A database of the even numbers below `end`.
fn even(env: &Env, end: u32) -> Result<Database> {
    let db = env.database("even")?;
    db.insert_batch((0..end / 2).map(|n| (key(2 * n), [n as u8; 30])))?;
    Ok(db)
}

/// All keys that a cursor comes by, in one direction.
fn walked<R: Read<Of = Env>>(from: &R, db: &Database, forward: bool) -> Result<Vec<u32>> {
    let mut cursor = db.cursor();
    let mut keys = Vec::new();
    while let Some(key) = if forward { cursor.next(from)? } else { cursor.prev(from)? } {
        keys.push(u32::from_be_bytes(key.try_into().expect("four bytes")));
    }
    Ok(keys)
}

#[test]
fn at_the_ends_a_cursor_stays_until_it_is_turned_round() -> Result<()> {
    let env = Env::in_memory()?;
    let db = even(&env, 6)?;
    let mut cursor = db.cursor();
    assert_eq!(cursor.next(&env)?, Some(&key(0)[..]));
    assert_eq!(cursor.prev(&env)?, None);
    assert_eq!(cursor.prev(&env)?, None);
    assert_eq!(cursor.key(), None);
    assert_eq!(cursor.next(&env)?, Some(&key(0)[..]));
    assert_eq!(cursor.last(&env)?, Some(&key(4)[..]));
    assert_eq!(cursor.next(&env)?, None);
    assert_eq!(cursor.next(&env)?, None);
    assert_eq!(cursor.value(&env)?, None);
    assert_eq!(cursor.prev(&env)?, Some(&key(4)[..]));
    assert_eq!(cursor.seek(&env, key(2))?, Some(Ordering::Equal));
    assert_eq!((cursor.seek(&env, key(3))?, cursor.key()), (Some(Ordering::Greater), Some(&key(4)[..])));
    assert_eq!((cursor.seek(&env, key(5))?, cursor.key()), (Some(Ordering::Less), Some(&key(4)[..])));
    assert_eq!(env.database("empty")?.cursor().seek(&env, "k")?, None);
    Ok(())
}

/// The write set of the transaction goes to files while cursors walk, and they go on over what is there.
#[test]
fn cursors_go_on_where_they_are_while_what_was_changed_goes_to_files() -> Result<()> {
    let disk = SimDisk::new(7);
    let open = || {
        Env::builder()
            .disk(Arc::new(disk.clone()))
            .cache_size(0)
            .durability(Durability::Memory)
            .background(false)
    };
    let env = open().open(Path::new("spilled"))?;
    let db = env.database("d")?;
    let mut txn = env.begin_with(with(Isolation::Snapshot))?;
    let mut cursor = db.cursor();
    let count = 12_000;
    for n in 0..count {
        // Each goes before the one that the cursor stands at, and the next after it.
        cursor.insert(&mut txn, key(n), [n as u8; 300])?;
        if n % 3 == 2 {
            assert_eq!(cursor.prev(&txn)?, Some(&key(n - 1)[..]));
            assert!(cursor.remove(&mut txn)?);
        }
    }
    let kept: Vec<u32> = (0..count).filter(|n| n % 3 != 1).collect();
    assert!(walked(&txn, &db, false)?.into_iter().rev().eq(kept.iter().copied()));
    let mut other = db.cursor();
    other.at_or_after(&txn, key(1))?;
    for &n in &kept[1..] {
        assert_eq!(other.key(), Some(&key(n)[..]));
        assert_eq!(other.value(&txn)?, Some(&[n as u8; 300][..]));
        if n % 2 == 0 {
            other.put(&mut txn, "even")?;
            assert_eq!(other.value(&txn)?, Some(&b"even"[..]));
        }
        other.next(&txn)?;
    }
    txn.commit()?;
    assert!(walked(&env, &db, true)? == kept);
    assert_eq!(db.get(key(6))?.as_deref(), Some(&b"even"[..]));
    Ok(())
}

#[test]
fn what_others_commit_is_come_by_at_read_committed_alone() -> Result<()> {
    let env = Env::in_memory()?;
    let db = even(&env, 2000)?;
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let txn = env.begin_with(with(isolation))?;
        let mut cursor = db.cursor();
        assert_eq!(cursor.at_or_after(&txn, key(100))?, Some(&key(100)[..]));
        // In the leaf that the cursor has a copy of: one more, one less, one changed.
        db.insert(key(101), "new")?;
        db.remove(key(102))?;
        db.insert(key(104), "other")?;
        let sees = isolation == Isolation::ReadCommitted;
        assert_eq!(cursor.next(&txn)?, Some(&key(if sees { 101 } else { 102 })[..]), "{isolation:?}");
        assert_eq!(cursor.at_or_after(&txn, key(103))?, Some(&key(104)[..]));
        assert_eq!(cursor.value(&txn)?, Some(if sees { &b"other"[..] } else { &[52; 30][..] }));
        drop(txn);
        db.remove(key(101))?;
        db.insert(key(102), [51; 30])?;
        db.insert(key(104), [52; 30])?;
    }
    Ok(())
}

/// Long values that others replace while a read-committed cursor stands in the leaf that named them.
#[test]
fn a_long_value_that_was_replaced_since_a_leaf_was_copied_is_read_as_it_is() -> Result<()> {
    let env = Env::in_memory()?;
    let db = env.database("long")?;
    db.insert_batch((0..10).map(|n| (key(n), vec![n as u8; 20_000])))?;
    let txn = env.begin_with(with(Isolation::ReadCommitted))?;
    let mut range = txn.range(&db, ..)?;
    let mut cursor = db.cursor();
    for n in 0..10 {
        let (_, value) = range.next().expect("ten records")?;
        assert_eq!(value, vec![n as u8 + 100 * u8::from(n > 0); 20_000]);
        assert_eq!(cursor.next(&txn)?, Some(&key(n)[..]));
        assert_eq!(cursor.value(&txn)?, Some(&value[..]));
        if n == 0 {
            (1..10).try_for_each(|n| db.insert(key(n), vec![n as u8 + 100; 20_000]))?;
            // What they were in is used again.
            env.database("more")?.insert_batch((0..10).map(|n| (key(n), vec![255; 20_000])))?;
        }
    }
    Ok(())
}

#[test]
fn a_phantom_between_records_that_a_cursor_came_by_is_a_conflict() -> Result<()> {
    let env = Env::in_memory()?;
    let db = even(&env, 2000)?;
    for (inserted, conflicts) in [(501, true), (1999, false)] {
        let mut txn = env.begin_with(with(Isolation::Serializable))?;
        let mut cursor = db.cursor();
        cursor.at_or_after(&txn, key(498))?;
        while cursor.next(&txn)?.is_some_and(|found| found < &key(510)[..]) {}
        txn.insert(&db, "sum", "of them")?;
        db.insert(key(inserted), "phantom")?;
        assert_eq!(txn.commit().map_err(|error| error.kind()).is_err(), conflicts, "{inserted}");
    }
    Ok(())
}

/// A cursor that was moved in one transaction has a copy of a leaf that the next has not read.
#[test]
fn what_a_cursor_brought_along_from_another_transaction_is_read_again() -> Result<()> {
    let env = Env::in_memory()?;
    let db = even(&env, 20)?;
    let mut cursor = db.cursor();
    let first = env.begin_with(with(Isolation::Serializable))?;
    cursor.first(&first)?;
    drop(first);
    let mut second = env.begin_with(with(Isolation::Serializable))?;
    assert_eq!(cursor.next(&second)?, Some(&key(2)[..]));
    assert_eq!(cursor.value(&second)?, Some(&[1; 30][..]));
    db.remove(key(4))?;
    second.insert(&db, "seen", "two")?;
    assert_eq!(second.commit().map_err(|error| error.kind()), Err(ErrorKind::Conflict));
    Ok(())
}

#[test]
fn what_is_shown_in_place_may_have_its_transaction_read_again() -> Result<()> {
    let env = Env::builder().cache_size(1 << 20).in_memory()?;
    let db = even(&env, 2000)?;
    db.insert("long", vec![5; 50_000])?;
    let snapshot = env.snapshot()?;
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let mut txn = env.begin_with(with(isolation))?;
        txn.insert(&db, key(1), "own")?;
        let looked = txn.get_with(&db, key(10), |outer| {
            // What another transaction does meanwhile to the page that is being looked at.
            db.insert(key(12), "other")?;
            let inner = txn.get(&db, key(12))?;
            let deeper = txn.get_with(&db, key(14), |value| {
                Ok::<_, sablecat::Error>((value.map(<[u8]>::len), txn.first(&db)?))
            })??;
            assert_eq!(txn.get(&db, key(1))?.as_deref(), Some(&b"own"[..]));
            assert_eq!(txn.get(&db, "long")?.map(|value| value.len()), Some(50_000));
            assert_eq!((outer, deeper.0), (Some(&[5; 30][..]), Some(30)));
            Ok::<_, sablecat::Error>(inner.expect("it is there"))
        })?;
        assert_eq!(
            looked?,
            if isolation == Isolation::ReadCommitted { b"other".to_vec() } else { vec![6; 30] }
        );
        drop(txn);
        db.insert(key(12), [6; 30])?;
    }
    // A join of two walks over one state, one within the other.
    let mut pairs = 0;
    snapshot.visit(&db, Prefix([0, 0, 0]), |_, value| {
        pairs += snapshot
            .range(&db, key(0)..key(20))
            .map_or(0, |inner| inner.filter(|other| other.as_ref().unwrap().1 == value).count());
        std::ops::ControlFlow::Continue(())
    })?;
    assert_eq!(pairs, 10);
    Ok(())
}

/// Threads that read one snapshot, while others change everything and the cache is too small to keep much.
#[test]
fn one_snapshot_is_read_by_several_threads_at_once() -> Result<()> {
    let disk = SimDisk::new(3);
    let env = Builder::default()
        .disk(Arc::new(disk))
        .cache_size(8 << 20)
        .durability(Durability::Memory)
        .open(Path::new("many"))?;
    let db = even(&env, 8000)?;
    let snapshot = env.snapshot()?;
    std::thread::scope(|scope| {
        for seed in 0..4u32 {
            let (snapshot, db) = (&snapshot, &db);
            scope.spawn(move || {
                for n in 0..2000u32 {
                    let n = n.wrapping_mul(2_654_435_761).wrapping_add(seed * 77) % 4000;
                    assert_eq!(snapshot.get(db, key(2 * n)).unwrap(), Some(vec![n as u8; 30]));
                    let next = snapshot.at_or_after(db, key(2 * n + 1)).unwrap();
                    assert_eq!(next.map(|(key, _)| key), (n < 3999).then(|| key(2 * n + 2).to_vec()));
                }
            });
        }
        scope.spawn(|| (0..4000).for_each(|n| db.insert(key(2 * n), "changed").unwrap()));
    });
    let range = snapshot.range(&db, ..)?;
    drop((snapshot, env));
    assert_eq!(
        std::thread::spawn(move || range.map(|record| record.unwrap().1.len()).sum::<usize>())
            .join()
            .unwrap(),
        4000 * 30
    );
    Ok(())
}

/// A program's structure that has all of it, in any order.
struct Session {
    cursor: Cursor,
    reader: Option<ReadTxn>,
    txn: Option<Txn<'static>>,
}

#[test]
fn a_transaction_that_is_owned_keeps_the_environment_open() -> Result<()> {
    let disk = SimDisk::new(5);
    let open = || Env::builder().disk(Arc::new(disk.clone())).background(false).open(Path::new("owned"));
    let env = open()?;
    let db = env.database("d")?;
    db.insert("a", "1")?;
    let mut session = Session {
        cursor: db.cursor(),
        reader: Some(env.snapshot()?),
        txn: Some(env.begin_owned(TxnOptions::new())?),
    };
    assert_eq!(env.close().map_err(|error| error.kind()), Err(ErrorKind::InUse));
    drop(db);
    let mut session = std::thread::spawn(move || {
        let txn = session.txn.as_mut().expect("begun");
        assert_eq!(session.cursor.first(txn)?, Some(&b"a"[..]));
        session.cursor.put(txn, "2")?;
        Ok::<_, sablecat::Error>(session)
    })
    .join()
    .unwrap()?;
    assert_eq!(open().map_err(|error| error.kind()).map(drop), Err(ErrorKind::InUse));
    let committed = session.txn.take().expect("begun").commit()?;
    let reader = session.reader.take().expect("begun");
    assert!(reader.lsn() < committed);
    assert_eq!(session.cursor.value(&reader)?, Some(&b"1"[..]));
    assert_eq!(session.cursor.value(session.cursor.clone().database().env())?, Some(&b"2"[..]));
    drop((session, reader));
    let env = open()?;
    assert!(env.lsn() >= committed);
    assert_eq!(env.database("d")?.get("a")?.as_deref(), Some(&b"2"[..]));
    Ok(())
}

#[test]
fn who_waits_for_a_commit_sees_it_and_has_it_durable() -> Result<()> {
    let disk = SimDisk::new(9);
    let builder =
        || Env::builder().disk(Arc::new(disk.clone())).background(false).durability(Durability::Memory);
    let env = builder().open(Path::new("waits"))?;
    let db = env.database("d")?;
    let mut txn = env.begin()?;
    txn.insert(&db, "k", "v")?;
    let lsn = txn.commit()?;
    env.wait_visible(lsn, Duration::ZERO)?;
    assert_eq!(
        env.wait_visible(sablecat::Lsn(lsn.0 + 1_000_000), Duration::from_millis(1)).map_err(|e| e.kind()),
        Err(ErrorKind::Timeout)
    );
    assert_eq!(
        env.make_durable(sablecat::Lsn(lsn.0 + 1_000_000)).map_err(|e| e.kind()),
        Err(ErrorKind::Invalid)
    );
    env.make_durable(lsn)?;
    let after = disk.crash(1);
    let env = Env::builder().disk(Arc::new(after)).background(false).open(Path::new("waits"))?;
    assert_eq!(env.database("d")?.get("k")?.as_deref(), Some(&b"v"[..]));
    Ok(())
}

#[test]
fn a_data_store_is_walked_and_changed_with_cursors_too() -> Result<()> {
    let mut store = Env::builder().data_store_in_memory()?;
    let db: Database<DataStore> = store.database("d")?;
    (0..1000).try_for_each(|n| store.insert(&db, key(n), [n as u8; 30]))?;
    let mut cursor = db.cursor();
    while let Some(found) = cursor.next(&store)? {
        let n = u32::from_be_bytes(found.try_into().expect("four bytes"));
        assert_eq!(cursor.value(&store)?, Some(&[n as u8; 30][..]));
        match n % 3 {
            0 => assert!(cursor.remove(&mut store)?),
            1 => cursor.put(&mut store, "one")?,
            _ => {}
        }
    }
    assert_eq!(store.len(&db)?, 666);
    assert_eq!(store.range(&db, key(3)..)?.next().transpose()?, Some((key(4).to_vec(), b"one".to_vec())));
    assert_eq!(store.at_or_before(&db, key(3))?.map(|(key, _)| key), Some(key(2).to_vec()));
    assert_eq!(store.remove_range(&db, key(500)..)?, 333);
    assert_eq!(store.pop_last(&db)?.map(|(key, _)| key), Some(key(499).to_vec()));
    let other = Env::builder().data_store_in_memory()?;
    assert_eq!(other.get(&db, key(1)).map_err(|error| error.kind()), Err(ErrorKind::Invalid));
    Ok(())
}

/// Each of the verbs, in a transaction and by itself.
#[test]
fn the_verbs_of_a_map_say_what_was_there() -> Result<()> {
    let env = Env::in_memory()?;
    let db = even(&env, 20)?;
    for n in 0..2 {
        env.database("pairs")?;
        let by_itself = n == 0;
        let all = [key(0), key(3)];
        assert_eq!(db.replace(all[0], "zero")?, Some(if by_itself { vec![0; 30] } else { b"zero".to_vec() }));
        assert_eq!((db.insert_new(all[1], "three")?, db.insert_new(all[1], "four")?), (true, false));
        assert_eq!(db.update(all[1], |have| have.map(|have| have[..2].to_vec()))?, Some(b"th".to_vec()));
        assert_eq!(db.update(all[1], |_| None)?, None);
        assert_eq!(db.take(all[1])?, None);
        assert_eq!(db.at_or_after(key(5))?.map(|(key, _)| key), Some(key(6).to_vec()));
        assert_eq!(db.at_or_before(key(5))?.map(|(key, _)| key), Some(key(4).to_vec()));
        env.write(|txn| {
            let (first, last) = (txn.pop_first(&db)?, txn.pop_last(&db)?);
            assert_eq!(
                (first.clone().map(|r| r.0), last.clone().map(|r| r.0)),
                (Some(key(0).to_vec()), Some(key(18).to_vec()))
            );
            assert_eq!(txn.remove_range(&db, key(4)..=key(9))?, 3);
            assert_eq!((txn.len(&db)?, txn.first(&db)?.map(|r| r.0)), (5, Some(key(2).to_vec())));
            for (key, value) in [first, last].into_iter().flatten() {
                assert!(txn.insert_new(&db, key, value)?);
            }
            (2..5).try_for_each(|n| txn.insert(&db, key(2 * n), [n as u8; 30]))
        })?;
    }
    assert_eq!(db.len()?, 10);
    assert_eq!(
        (db.pop_first()?.map(|r| r.1), db.pop_last()?.map(|r| r.1)),
        (Some(b"zero".to_vec()), Some(vec![9; 30]))
    );
    assert_eq!((db.clear()?, db.is_empty()?), (8, true));
    fn add<W: Write>(to: &mut W, db: &Database<W::Of>) -> Result<Option<Vec<u8>>> {
        to.replace(db, "generic", "yes")
    }
    let mut store = Env::builder().data_store_in_memory()?;
    let other = store.database("d")?;
    assert_eq!((add(&mut store, &other)?, env.write(|txn| add(txn, &db))?), (None, None));
    Ok(())
}

/// Consumers that take from one queue never wait for each other, and none takes what another has.
#[test]
fn a_queue_is_emptied_by_several_at_once() -> Result<()> {
    let env = Env::in_memory()?;
    let db = even(&env, 400)?;
    for isolation in [Isolation::Snapshot, Isolation::ReadCommitted] {
        let mut consumers: Vec<Txn<'_>> =
            (0..5).map(|_| env.begin_with(with(isolation))).collect::<Result<_>>()?;
        let taken: Vec<_> =
            consumers.iter_mut().map(|txn| txn.pop_first_unlocked(&db)).collect::<Result<_>>()?;
        let numbers: Vec<_> = taken.into_iter().flatten().map(|(key, _)| key).collect();
        let first = db.first()?.expect("many").0;
        let first = u32::from_be_bytes(first.try_into().expect("four bytes"));
        assert_eq!(numbers, (0..5).map(|n| key(first + 2 * n).to_vec()).collect::<Vec<_>>());
        // A later one comes by records that are gone in the newest state and there in its own.
        consumers.into_iter().rev().try_for_each(|txn| txn.commit().map(drop))?;
    }
    assert_eq!(db.len()?, 190);
    Ok(())
}

/// What a cursor has found in one transaction, and that has not committed, is nothing in another, however
/// like it that is.
#[test]
fn what_one_transaction_has_set_is_not_what_a_cursor_finds_in_another() -> Result<()> {
    let env = Env::in_memory()?;
    let db = even(&env, 10)?;
    for isolation in [Isolation::Serializable, Isolation::Snapshot, Isolation::ReadCommitted] {
        let mut cursor = db.cursor();
        let (mut one, mut other) = (env.begin_with(with(isolation))?, env.begin_with(with(isolation))?);
        one.insert(&db, key(4), "one")?;
        other.insert(&db, key(8), "other")?;
        cursor.at_or_after(&one, key(4))?;
        assert_eq!(cursor.value(&one)?, Some(&b"one"[..]));
        assert_eq!(cursor.value(&other)?, Some(&[2; 30][..]), "{isolation:?}");
    }
    Ok(())
}

#[test]
fn a_cursor_in_a_removed_range_goes_on_in_it_once_it_is_there_again() -> Result<()> {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let env = Env::in_memory()?;
        let db = env.database("d")?;
        db.insert_batch((0..100).map(|n| (key(n), "committed")))?;
        for forward in [true, false] {
            let mut txn = env.begin_with(with(isolation))?;
            let before = txn.savepoint();
            assert_eq!(txn.remove_range(&db, key(20)..key(30))?, 10);
            txn.insert(&db, key(25), "pending")?;
            let mut cursor = db.cursor();
            let found = match forward {
                true => cursor.at_or_after(&txn, key(20))?,
                false => cursor.at_or_before(&txn, key(29))?,
            };
            assert_eq!(found, Some(&key(25)[..]));
            txn.rollback_to(&before)?;
            let (found, next) = match forward {
                true => (cursor.next(&txn)?, 26),
                false => (cursor.prev(&txn)?, 24),
            };
            assert_eq!(found, Some(&key(next)[..]), "{isolation:?}");
        }
    }
    Ok(())
}
