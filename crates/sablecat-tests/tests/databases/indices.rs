//! Secondary indices as users have them: what is read through them, what is refused, and what becomes of
//! handles and transactions from before an index. That they are kept on all ways that records change is
//! checked in sablecat-check (`tests/checks/index.rs`); references are in references.rs.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sablecat::{
    Builder, Database, Env, Error, ErrorKind, Follower, Index, IndexKeys, IndexOptions, Isolation, Method,
    Prefix, Read, Result, TxnOptions,
};
use sablecat_os::sim::SimDisk;
use sablecat_tests::Place;

const ISOLATIONS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

type Bytes = Vec<u8>;

/// Each part of a value between commas.
fn parts(_: &[u8], value: &[u8], keys: &mut IndexKeys) {
    value.split(|&byte| byte == b',').filter(|part| !part.is_empty()).for_each(|part| keys.push(part));
}

fn with_functions(builder: Builder) -> Builder {
    builder.extractor("parts", parts).extractor("all", |_, value, keys| keys.push(value))
}

fn in_memory() -> Env {
    with_functions(Env::builder()).in_memory().expect("opened")
}

fn with(isolation: Isolation) -> TxnOptions {
    TxnOptions::new().isolation(isolation)
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("refused").kind()
}

fn all<T>(found: Result<impl Iterator<Item = Result<T>>>) -> Vec<T> {
    found.expect("begun").map(|one| one.expect("read")).collect()
}

fn keys_of(found: Result<impl Iterator<Item = Result<(Bytes, Bytes)>>>) -> Vec<String> {
    all(found).into_iter().map(|(key, _)| String::from_utf8(key).expect("text")).collect()
}

/// The index agrees with its primary, as it says itself and as it reads.
fn sound(index: &Index) {
    let env = index.primary().env();
    assert_eq!(index.verify(env).expect("read"), [""; 0]);
    let read = env.snapshot().expect("begun");
    let found = all(index.range(&read, ..));
    let by_hand: BTreeSet<_> = all(read.range(index.primary(), ..))
        .into_iter()
        .flat_map(|(key, value)| {
            let mut keys: Vec<Bytes> = match &*index.info().extractor {
                "parts" => value
                    .split(|&byte| byte == b',')
                    .map(<[u8]>::to_vec)
                    .filter(|part| !part.is_empty())
                    .collect(),
                _ => vec![value.clone()],
            };
            keys.sort();
            keys.into_iter().map(move |index_key| (index_key, key.clone(), value.clone())).collect::<Vec<_>>()
        })
        .collect();
    assert!(found.iter().eq(&by_hand), "{} found of {}", found.len(), by_hand.len());
}

fn read_everything<R: Read>(from: &R, index: &Index<R::Of>) {
    let expect = |found: Vec<(Bytes, Bytes)>, keys: &[&str]| {
        let found: Vec<_> = found.into_iter().map(|(key, _)| key).collect();
        assert!(
            found.iter().map(|key| &key[..]).eq(keys.iter().map(|key| key.as_bytes())),
            "{found:?}, not {keys:?}"
        );
    };
    let get = |key: &[u8]| index.get(from, key).expect("read");
    assert_eq!(get(b"red"), Some((b"1".to_vec(), b"red,blue".to_vec())));
    assert_eq!(get(b"re"), None);
    assert_eq!(get(b"z\0"), Some((b"4".to_vec(), b"z\0".to_vec())));
    expect(all(index.get_all(from, "red")), &["1", "2", "5"]);
    let mut backwards = all(index.get_all(from, "red").map(Iterator::rev));
    backwards.reverse();
    expect(backwards, &["1", "2", "5"]);
    expect(all(index.get_all(from, "z")), &["3"]);
    expect(all(index.get_all(from, "none")), &[]);
    let pairs = |keys: Result<_>| -> Vec<(String, String)> {
        let text = |bytes: Bytes| String::from_utf8(bytes).expect("text");
        all(keys).into_iter().map(|(index_key, key)| (text(index_key), text(key))).collect()
    };
    let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
    assert_eq!(pairs(index.keys(from, "blue".."red")), [pair("blue", "1"), pair("green", "2")]);
    assert_eq!(pairs(index.keys(from, Prefix("re"))).len(), 3);
    assert_eq!(pairs(index.keys(from, "red"..="z")).len(), 4);
    assert_eq!(
        pairs(index.keys(from, (std::ops::Bound::Excluded("red"), std::ops::Bound::Unbounded))).len(),
        2
    );
    let last = index.range(from, ..).expect("begun").next_back().expect("one").expect("read");
    assert_eq!(last, (b"z\0".to_vec(), b"4".to_vec(), b"z\0".to_vec()));
    assert_eq!((index.count(from, "red").expect("read"), index.count(from, "z").expect("read")), (3, 1));
    assert!(
        index.contains_key(from, "green").expect("read") && !index.contains_key(from, "gree").expect("read")
    );
    assert_eq!(index.verify(from).expect("read"), [""; 0]);
}

const RECORDS: [(&str, &str); 6] =
    [("1", "red,blue"), ("2", "green,red"), ("3", "z"), ("4", "z\0"), ("5", "red,red"), ("6", "")];

#[test]
fn records_are_found_by_their_index_keys_in_whatever_has_a_state() {
    for method in [Method::default(), Method::Hash] {
        let env = in_memory();
        let records = env.database_as("records", method).expect("made");
        records.insert_batch(RECORDS[..3].iter().copied()).expect("inserted");
        let index = env.index("by part", &records, IndexOptions::new("parts")).expect("made");
        let before = env.snapshot().expect("begun");
        let mut txn = env.begin().expect("begun");
        RECORDS[3..].iter().for_each(|(key, value)| txn.insert(&records, key, value).expect("inserted"));
        read_everything(&txn, &index);
        txn.commit().expect("committed");
        read_everything(&env, &index);
        read_everything(&env.snapshot().expect("begun"), &index);
        assert_eq!(index.count(&before, "red").expect("read"), 2);
        let mut store = with_functions(Env::builder()).data_store_in_memory().expect("opened");
        let records = store.database_as("records", method).expect("made");
        RECORDS[..3].iter().for_each(|(key, value)| store.insert(&records, key, value).expect("inserted"));
        let index = store.index("by part", &records, IndexOptions::new("parts")).expect("made");
        RECORDS[3..].iter().for_each(|(key, value)| store.insert(&records, key, value).expect("inserted"));
        read_everything(&store, &index);
        assert_eq!(index.remove(&mut store, "red").expect("removed"), 3);
        assert_eq!(
            (store.len(&records).expect("read"), index.verify(&store).expect("read")),
            (3, Vec::new())
        );
    }
}

#[test]
fn what_is_removed_through_an_index_is_the_record() {
    for unique in [false, true] {
        let env = in_memory();
        let records = env.database("records").expect("made");
        let index = env.index("by all", &records, IndexOptions::new("all").unique(unique)).expect("made");
        records.insert_batch([("1", "a"), ("2", "b")]).expect("inserted");
        let removed =
            env.write(|txn| Ok((index.remove(txn, "a")?, index.remove(txn, "none")?))).expect("removed");
        assert_eq!((removed, records.len().expect("read")), ((1, 0), 1));
        sound(&index);
    }
}

#[test]
fn nobody_writes_to_an_index_but_the_engine() {
    let env = in_memory();
    let records = env.database("records").expect("made");
    let index = env.index("by all", &records, IndexOptions::new("all")).expect("made");
    records.insert("1", "a").expect("inserted");
    for entries in [index.database().clone(), env.database("by all").expect("there")] {
        let key = entries.first().expect("read").expect("one").0;
        assert_eq!(kind(entries.insert("k", "v")), ErrorKind::NotAllowed);
        assert_eq!(kind(entries.remove(&key)), ErrorKind::NotAllowed);
        assert_eq!(kind(entries.take(&key)), ErrorKind::NotAllowed);
        assert_eq!(kind(entries.clear()), ErrorKind::NotAllowed);
        assert_eq!(kind(entries.pop_first()), ErrorKind::NotAllowed);
        let mut txn = env.begin().expect("begun");
        assert_eq!(kind(txn.insert(&entries, "k", "v")), ErrorKind::NotAllowed);
        assert_eq!(kind(txn.remove(&entries, &key)), ErrorKind::NotAllowed);
        assert_eq!(kind(txn.remove_range(&entries, ..)), ErrorKind::NotAllowed);
        txn.commit().expect("nothing was done");
    }
    records.clear().expect("removed");
    assert_eq!(kind(index.database().bulk_load([("k", "v")])), ErrorKind::NotAllowed);
    let mut store = with_functions(Env::builder()).data_store_in_memory().expect("opened");
    let records = store.database("records").expect("made");
    let index = store.index("by all", &records, IndexOptions::new("all")).expect("made");
    assert_eq!(kind(store.insert(index.database(), "k", "v")), ErrorKind::NotAllowed);
    assert_eq!(kind(store.bulk_load(index.database(), [("k", "v")])), ErrorKind::NotAllowed);
}

#[test]
fn a_unique_index_has_no_index_key_twice() {
    let env = in_memory();
    let users = env.database("users").expect("made");
    let by_email = env.index("by email", &users, IndexOptions::new("parts").unique(true)).expect("made");
    users.insert("ada", "a@x,a@y").expect("inserted");
    assert_eq!(kind(users.insert("eve", "e@x,a@y")), ErrorKind::Duplicate);
    assert_eq!((users.len().expect("read"), by_email.count(&env, "e@x").expect("read")), (1, 0));
    users.insert("ada", "a@y,a@z").expect("its own");
    users.insert("eve", "a@x").expect("free again");
    sound(&by_email);
    // In a transaction it fails alone, and what was exchanged in an order that goes is exchanged.
    env.write(|txn| {
        assert_eq!(kind(txn.insert(&users, "eve", "a@z")), ErrorKind::Duplicate);
        txn.insert(&users, "ada", "")?;
        txn.insert(&users, "eve", "a@z")
    })
    .expect("committed");
    sound(&by_email);
    let error = env.index("other", &users, IndexOptions::new("missing")).expect_err("no extractor");
    assert!(
        error.kind() == ErrorKind::Invalid && error.to_string().contains("Builder::extractor"),
        "{error}"
    );
    // What there is has two of one: nothing was made.
    users.insert("adam", "a@z,").expect_err("there already");
    let names = env.database("names").expect("made");
    names.insert_batch([("1", "x"), ("2", "x")]).expect("inserted");
    assert_eq!(
        kind(env.index("by name", &names, IndexOptions::new("all").unique(true))),
        ErrorKind::Duplicate
    );
    let mut txn = env.begin().expect("begun");
    txn.insert(&names, "3", "y").expect("inserted");
    assert_eq!(
        kind(txn.index("by name", &names, IndexOptions::new("all").unique(true))),
        ErrorKind::Duplicate
    );
    txn.commit().expect("the rest");
    assert_eq!((names.len().expect("read"), env.databases().expect("read").len()), (3, 3));
    assert_eq!(env.verify(&mut |_| {}).expect("read").pages_unreachable, 0);
}

#[test]
fn of_two_transactions_that_want_one_unique_key_one_gets_it() {
    for isolation in ISOLATIONS {
        let env = in_memory();
        let users = env.database("users").expect("made");
        let by_email = env.index("by email", &users, IndexOptions::new("all").unique(true)).expect("made");
        let (mut one, mut other) = (
            env.begin_with(with(isolation)).expect("begun"),
            env.begin_with(with(isolation)).expect("begun"),
        );
        one.insert(&users, "1", "a@x").expect("free");
        other.insert(&users, "2", "a@x").expect("free");
        one.commit().expect("first");
        assert_eq!(kind(other.commit()), ErrorKind::Conflict, "{isolation:?}");
        sound(&by_email);
    }
}

#[test]
fn who_reads_through_an_index_sees_no_phantoms() {
    let env = in_memory();
    let cars = env.database("cars").expect("made");
    let by_colour = env.index("by colour", &cars, IndexOptions::new("all")).expect("made");
    cars.insert_batch([("1", "red"), ("2", "blue")]).expect("inserted");
    let other = env.database("other").expect("made");
    let look: [fn(&sablecat::Txn<'_>, &Index) -> u64; 3] = [
        |txn, index| index.count(txn, "red").expect("read"),
        |txn, index| index.range(txn, "red"..="red").expect("begun").count() as u64,
        |txn, index| u64::from(index.contains_key(txn, "red").expect("read")),
    ];
    for look in look {
        for change in [("3", "red"), ("1", "blue")] {
            let mut txn = env.begin_with(with(Isolation::Serializable)).expect("begun");
            assert_eq!(look(&txn, &by_colour), 1);
            txn.insert(&other, "seen", "1").expect("inserted");
            cars.insert(change.0, change.1).expect("inserted");
            assert_eq!(look(&txn, &by_colour), 1, "one state");
            assert_eq!(kind(txn.commit()), ErrorKind::Conflict);
            cars.insert_batch([("1", "red"), ("3", "blue")]).expect("as before");
        }
        let mut txn = env.begin_with(with(Isolation::Serializable)).expect("begun");
        assert_eq!(look(&txn, &by_colour), 1);
        txn.insert(&other, "seen", "1").expect("inserted");
        txn.commit().expect("nothing came between");
    }
}

/// What a handle from before an index writes is in the index: by one call, in a transaction begun after, and,
/// of transactions in progress, at the second run.
#[test]
fn handles_from_before_an_index_keep_it() {
    for isolation in ISOLATIONS {
        let place = Place::new("indices");
        let one = with_functions(place.builder()).open(place.env()).expect("opened");
        let other = with_functions(place.builder()).open(place.env()).expect("attached");
        let [records, elsewhere] = [&one, &other].map(|env| env.database("records").expect("there"));
        records.insert("0", "a").expect("inserted");
        elsewhere.insert("1", "a").expect("inserted");
        let in_progress = [&one, &other].map(|env| env.begin_with(with(isolation)).expect("begun"));
        let [mut here, mut there] = in_progress;
        here.insert(&records, "2", "b").expect("inserted");
        there.insert(&elsewhere, "3", "b").expect("inserted");
        let index = one.index("by all", &records, IndexOptions::new("all")).expect("made");
        for lost in [here.commit(), there.commit()] {
            assert_eq!(kind(lost), ErrorKind::Conflict, "{isolation:?}");
        }
        records.insert("4", "c").expect("inserted");
        elsewhere.insert("5", "c").expect("inserted");
        elsewhere.insert("0", "d").expect("inserted");
        assert!(elsewhere.remove("1").expect("removed"));
        for (env, records) in [(&one, &records), (&other, &elsewhere)] {
            env.write_with(with(isolation), |txn| txn.insert(records, "6", "e")).expect("written");
        }
        sound(&index);
        // And those from before its removal do not, nor what was made in its place.
        assert!(other.remove_database("by all").expect("removed"));
        records.insert("7", "f").expect("inserted");
        assert_eq!(kind(index.count(&one, "f")), ErrorKind::NotFound);
        let anew = other.index("by all", &elsewhere, IndexOptions::new("parts")).expect("made");
        records.insert("8", "x,y").expect("inserted");
        sound(&anew);
        assert_eq!(anew.count(&other, "y").expect("read"), 1);
    }
}

/// Writers that go on while an index is made and removed, again and again.
#[test]
fn an_index_that_is_made_beside_writers_has_all_that_they_write() {
    let env = in_memory();
    let records = env.database("records").expect("made");
    records.insert_batch((0..200u32).map(|n| (n.to_be_bytes(), "a"))).expect("inserted");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2u32 {
            let (env, records, stop) = (&env, &records, &stop);
            scope.spawn(move || {
                for n in 0u32.. {
                    let key = (n * 7 % 211 + thread).to_be_bytes();
                    let value = format!("{},{}", n % 5, thread);
                    match n % 4 {
                        0 => records.insert(key, value).expect("inserted"),
                        1 => _ = records.remove(key).expect("removed"),
                        2 => env.write(|txn| txn.insert(records, key, &value)).expect("written"),
                        _ => env
                            .write_with(with(ISOLATIONS[n as usize / 4 % 3]), |txn| {
                                txn.insert(records, key, &value)?;
                                txn.remove(records, (n % 200).to_be_bytes()).map(drop)
                            })
                            .expect("written"),
                    }
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        let done = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..20 {
                let index = env.index("by part", &records, IndexOptions::new("parts")).expect("made");
                sound(&index);
                assert!(env.remove_database("by part").expect("removed"));
            }
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn without_the_extractor_records_are_read_and_not_written() {
    let disk = SimDisk::new(1);
    let builder = || Env::builder().disk(Arc::new(disk.clone())).background(false);
    let env = with_functions(builder()).open("env").expect("opened");
    let (records, other) = (env.database("records").expect("made"), env.database("other").expect("made"));
    env.index("by all", &records, IndexOptions::new("all")).expect("made");
    records.insert("1", "a").expect("inserted");
    drop((records, other));
    env.close().expect("closed");

    let env = builder().open("env").expect("opened");
    let records = env.database("records").expect("there");
    let index = Index::existing(&env, "by all").expect("read").expect("there");
    assert_eq!(index.get(&env, "a").expect("read").expect("one").0, b"1");
    let teaches = |error: Error| {
        let message = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(message.contains("extractor \"all\"") && message.contains("Builder::extractor"), "{message}");
    };
    teaches(records.insert("2", "b").expect_err("no extractor"));
    teaches(records.remove("1").expect_err("no extractor"));
    teaches(records.clear().expect_err("no extractor"));
    teaches(env.write(|txn| txn.insert(&records, "2", "b")).expect_err("no extractor"));
    teaches(index.verify(&env).expect_err("no extractor"));
    env.database("other").expect("there").insert("k", "v").expect("nobody's index");
    env.rename_database("records", "renamed").expect("renamed");
    drop((records, index));
    env.close().expect("closed");

    let env = with_functions(builder()).open("env").expect("opened");
    let records = env.database("renamed").expect("there");
    records.insert("2", "b").expect("inserted");
    let index = env.index("by all", &records, IndexOptions::new("all")).expect("the same");
    sound(&index);
}

#[test]
fn an_index_is_what_it_was_made_as() {
    let env = Env::builder().comparator("back", |a, b| b.cmp(a));
    let env = with_functions(env).in_memory().expect("opened");
    let records = env.database("records").expect("made");
    let index = env.index("by all", &records, IndexOptions::new("all")).expect("made");
    env.index("by all", &records, IndexOptions::new("all")).expect("the same");
    let other = env.database("other").expect("made");
    let invalid = |result: Result<Index>| assert_eq!(kind(result), ErrorKind::Invalid);
    invalid(env.index("by all", &records, IndexOptions::new("parts")));
    invalid(env.index("by all", &records, IndexOptions::new("all").unique(true)));
    invalid(env.index("by all", &other, IndexOptions::new("all")));
    invalid(env.index("other", &records, IndexOptions::new("all")));
    invalid(env.index("index of index", index.database(), IndexOptions::new("all")));
    let ordered = env.database_ordered_by("ordered", "back").expect("made");
    invalid(env.index("of ordered", &ordered, IndexOptions::new("all")));
    assert_eq!(kind(Index::existing(&env, "other")), ErrorKind::Invalid);
    assert!(Index::existing(&env, "none").expect("read").is_none());
    assert_eq!((index.name(), index.primary().name()), ("by all", "records"));
    assert_eq!((&*index.info().extractor, index.info().unique), ("all", false));
    let foreign = in_memory().database("records").expect("made");
    invalid(env.index("foreign", &foreign, IndexOptions::new("all")));
    let mut txn = env.begin_with(with(Isolation::ReadCommitted)).expect("begun");
    records.insert("1", "a").expect("inserted");
    assert_eq!(kind(txn.index("read committed", &records, IndexOptions::new("all"))), ErrorKind::NotAllowed);
}

/// A database, its indices and its records all come with one transaction, or with none.
#[test]
fn indices_are_made_renamed_and_removed_as_parts_of_transactions() {
    let env = in_memory();
    let mut txn = env.begin().expect("begun");
    let records = txn.database("records").expect("made");
    txn.insert(&records, "1", "a,b").expect("inserted");
    let index = txn.index("by part", &records, IndexOptions::new("parts")).expect("made");
    txn.insert(&records, "2", "b").expect("inserted");
    assert_eq!((index.count(&txn, "a").expect("read"), index.count(&txn, "b").expect("read")), (1, 2));
    let saved = txn.savepoint();
    txn.index("by all", &records, IndexOptions::new("all")).expect("made");
    txn.insert(&records, "3", "c").expect("inserted");
    txn.rollback_to(&saved).expect("of this transaction");
    txn.insert(&records, "4", "d").expect("inserted");
    txn.rename_database("records", "renamed").expect("renamed");
    txn.insert(&records, "5", "e").expect("inserted");
    txn.rename_database("by part", "index").expect("renamed");
    txn.insert(&records, "6", "f,b").expect("inserted");
    txn.commit().expect("committed");
    assert_eq!(env.databases().expect("read"), ["index", "renamed"]);
    let (records, index) = (
        env.database("renamed").expect("there"),
        Index::existing(&env, "index").expect("read").expect("there"),
    );
    assert_eq!((records.len().expect("read"), index.count(&env, "b").expect("read")), (5, 3));
    sound(&index);

    let mut txn = env.begin().expect("begun");
    txn.remove_database("index").expect("removed");
    txn.insert(&records, "7", "g").expect("inserted");
    txn.abort();
    let mut txn = env.begin().expect("begun");
    txn.index("another", &records, IndexOptions::new("all")).expect("made");
    txn.insert(&records, "7", "g").expect("inserted");
    txn.abort();
    records.insert("8", "h").expect("inserted");
    sound(&index);
    env.write(|txn| {
        txn.remove_database("index")?;
        txn.insert(&records, "9", "i")
    })
    .expect("written");
    records.insert("10", "j").expect("inserted");
    assert_eq!((env.databases().expect("read").len(), records.len().expect("read")), (1, 8));
    let index = env.index("index", &records, IndexOptions::new("parts")).expect("made anew");
    sound(&index);
    assert!(env.remove_database("renamed").expect("removed"));
    assert_eq!(env.databases().expect("read"), [""; 0], "the index goes with its primary");
    let report = env.verify(&mut |_| {}).expect("read");
    assert_eq!((report.problems.len(), report.pages_unreachable), (0, 0));
}

/// Handles to a database and to its indices stay good when these get other names.
#[test]
fn names_change_under_open_handles() {
    let env = in_memory();
    let records = env.database("records").expect("made");
    let index = env.index("by all", &records, IndexOptions::new("all")).expect("made");
    for round in 0..3 {
        env.rename_database(["records", "a", "b"][round], ["a", "b", "c"][round]).expect("renamed");
        records.insert(round.to_string(), "x").expect("inserted");
        env.rename_database(["by all", "i", "j"][round], ["i", "j", "k"][round]).expect("renamed");
        env.write(|txn| txn.insert(&records, format!("{round}'"), "y")).expect("inserted");
        sound(&index);
    }
    assert_eq!(records.len().expect("read"), 6);
    assert_eq!(Index::existing(&env, "k").expect("read").expect("there").info().primary, "c");
    let error = env.index("other", &records, IndexOptions::new("all")).expect_err("another name by now");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn an_extractor_may_panic() {
    let disk = SimDisk::new(1);
    let env =
        Env::builder().disk(Arc::new(disk.clone())).background(false).extractor("picky", |_, value, keys| {
            if value == b"bad" {
                // The panic hook is not asked, so nothing is printed.
                std::panic::resume_unwind(Box::new("bad"));
            }
            keys.push(value);
        });
    let env = env.open("env").expect("opened");
    let records = env.database("records").expect("made");
    let index = env.index("picky", &records, IndexOptions::new("picky")).expect("made");
    records.insert("1", "good").expect("inserted");
    let panics = |work: &mut dyn FnMut()| assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
    panics(&mut || records.insert("1", "bad").expect("panics"));
    panics(&mut || env.write(|txn| txn.insert(&records, "2", "bad")).expect("panics"));
    panics(&mut || records.insert_batch([("3", "good"), ("4", "bad")]).expect("panics"));
    let mut txn = env.begin().expect("begun");
    txn.insert(&records, "5", "good").expect("inserted");
    panics(&mut || txn.insert(&records, "6", "bad").expect("panics"));
    txn.insert(&records, "7", "fine").expect("it goes on");
    txn.commit().expect("committed");
    let other = env.database("other").expect("made");
    other.insert("1", "bad").expect("no index");
    panics(&mut || _ = env.index("other picky", &other, IndexOptions::new("picky")).expect("panics"));
    assert_eq!(keys_of(records.range(..)), ["1", "5", "7"]);
    assert_eq!((index.count(&env, "good").expect("read"), index.verify(&env).expect("read").len()), (2, 0));
    let report = env.verify(&mut |_| {}).expect("read");
    assert_eq!(
        (report.problems.len(), report.pages_unreachable, env.databases().expect("read").len()),
        (0, 0, 3)
    );
}

/// More than the cache has room for, and than stays in memory.
#[test]
fn an_index_of_much_is_made_in_one_transaction() {
    let disk = SimDisk::new(1);
    let builder = Env::builder().disk(Arc::new(disk.clone())).background(false).page_size(512).cache_size(0);
    let env = with_functions(builder).durability(sablecat::Durability::NoSync).open("env").expect("opened");
    let records = env.database("records").expect("made");
    let count = 6000u32;
    records.bulk_load((0..count).map(|n| (n.to_be_bytes(), format!("{},x", n % 7)))).expect("loaded");
    let index = env.index("by part", &records, IndexOptions::new("parts")).expect("made");
    assert_eq!(index.count(&env, "x").expect("read"), u64::from(count));
    assert_eq!(env.write(|txn| index.remove(txn, "3")).expect("removed"), 857);
    sound(&index);
}

/// A copy has the index, what follows the origin's log keeps it, and neither needs the extractor.
#[test]
fn copies_and_followers_have_indices() {
    let env = in_memory();
    let (disk, copied) = (SimDisk::new(1), SimDisk::new(2));
    let on = |disk: &SimDisk| Env::builder().disk(Arc::new(disk.clone())).background(false);
    drop(env);
    let origin = with_functions(on(&disk)).open("env").expect("opened");
    let records = origin.database("records").expect("made");
    origin.index("a before all names", &records, IndexOptions::new("all")).expect("made");
    records.insert_batch([("1", "a"), ("2", "b")]).expect("inserted");
    let copy = on(&copied).open("env").expect("opened");
    let follower = Follower::new(&copy, "origin").expect("made");
    let mut changes = follower.copy(&origin, &mut |_| {}).expect("copied");
    records.insert("3", "a").expect("inserted");
    origin.rename_database("a before all names", "by all").expect("renamed");
    records.remove("1").expect("removed");
    origin
        .write(|txn| {
            let new = txn.database("a new one")?;
            txn.index("a first", &new, IndexOptions::new("parts").unique(true))?;
            txn.insert(&new, "1", "x,y")?;
            txn.rename_database("records", "renamed")?;
            txn.index(
                "by part",
                &txn.existing_database("renamed")?.expect("there"),
                IndexOptions::new("parts"),
            )
        })
        .expect("written");
    records.insert("4", "c,d").expect("inserted");
    let gone = origin.database("gone").expect("made");
    origin.index("gone too", &gone, IndexOptions::new("all")).expect("made");
    gone.insert("1", "x").expect("inserted");
    origin.remove_database("gone").expect("removed");
    origin.sync().expect("written");
    while let Some(commit) = changes.try_next().expect("read") {
        follower.apply(&commit).expect("applied");
    }
    let names: Vec<_> =
        copy.databases().expect("read").into_iter().filter(|name| name != "sablecat.followed").collect();
    assert_eq!(names, origin.databases().expect("read"));
    let contents = |env: &Env| -> BTreeMap<String, Vec<(Bytes, Bytes)>> {
        names.iter().map(|name| (name.clone(), all(env.database(name).expect("there").range(..)))).collect()
    };
    assert!(contents(&copy) == contents(&origin));
    let error = copy.database("renamed").expect("there").insert("5", "z").expect_err("no extractor");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    drop((follower, records));
    copy.close().expect("closed");
    // Who has it goes on with the copy as with the origin.
    let copy = with_functions(on(&copied)).open("env").expect("opened");
    copy.database("renamed").expect("there").insert("5", "z").expect("inserted");
    for name in ["by all", "by part", "a first"] {
        sound(&Index::existing(&copy, name).expect("read").expect("there"));
        assert_eq!(
            Index::existing(&copy, name).expect("read").expect("there").info(),
            Index::existing(&origin, name).expect("read").expect("there").info()
        );
    }
}

/// Going back to a time before an index, and to one with it.
#[test]
fn going_back_goes_back_with_indices() {
    let disk = SimDisk::new(1);
    let builder = || with_functions(Env::builder().disk(Arc::new(disk.clone())).background(false));
    let env = builder().journal(sablecat::Journal::new()).open("env").expect("opened");
    let records = env.database("records").expect("made");
    records.insert("1", "a").expect("inserted");
    let before = env.snapshot().expect("begun").lsn();
    env.index("by all", &records, IndexOptions::new("all")).expect("made");
    records.insert("2", "b").expect("inserted");
    let with_it = env.snapshot().expect("begun").lsn();
    records.insert("3", "c").expect("inserted");
    env.remove_database("by all").expect("removed");
    records.insert("4", "d").expect("inserted");
    drop(records);
    env.close().expect("closed");
    for (target, count) in [(with_it, Some(2)), (before, None)] {
        builder().recovery("env", sablecat::Target::Lsn(target)).expect("prepared").apply().expect("applied");
        let env = builder().open("env").expect("opened");
        let records = env.database("records").expect("there");
        let index = Index::existing(&env, "by all").expect("read");
        assert_eq!(index.as_ref().map(|index| index.database().len().expect("read")), count);
        if let Some(index) = index {
            sound(&index);
        }
        assert_eq!(records.len().expect("read"), count.unwrap_or(1));
        drop(records);
        env.close().expect("closed");
    }
}

/// The primary has more than the records that were there: a handle of a database that a transaction makes.
#[test]
fn databases_with_indices_are_used_by_the_transactions_that_make_them() {
    let env = in_memory();
    let kept: (Database, Index) = env
        .write(|txn| {
            let records = txn.database("records")?;
            let index = txn.index("by all", &records, IndexOptions::new("all"))?;
            txn.insert(&records, "1", "a")?;
            assert_eq!(index.get(txn, "a")?.expect("one").0, b"1");
            Ok((records, index))
        })
        .expect("written");
    kept.0.insert("2", "a").expect("inserted");
    env.write(|txn| txn.insert(&kept.0, "3", "a")).expect("inserted");
    assert_eq!(kept.1.count(&env, "a").expect("read"), 3);
    sound(&kept.1);
}
