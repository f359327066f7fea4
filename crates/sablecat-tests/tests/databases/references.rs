//! References between databases: what an index demands of its keys, and what the removal of a record that
//! others refer to does.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use sablecat::{
    Builder, Database, Env, ErrorKind, Index, IndexKeys, IndexOptions, Isolation, Kind, OnRemove, Result,
    TxnOptions, Write,
};
use sablecat_os::sim::SimDisk;

const ISOLATIONS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

/// The keys that a value refers to: its words.
fn words(_: &[u8], value: &[u8], keys: &mut IndexKeys) {
    value.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).for_each(|word| keys.push(word));
}

/// The value without a word.
fn without(_: &[u8], value: &[u8], gone: &[u8]) -> Vec<u8> {
    let left: Vec<_> = value.split(|&byte| byte == b' ').filter(|word| *word != gone).collect();
    left.join(&b' ')
}

fn builder() -> Builder {
    Env::builder()
        .extractor("words", words)
        .nullifier("without", without)
        .nullifier("nothing", |_, value, _| value.to_vec())
        .background(false)
}

fn nullify(name: &str) -> OnRemove {
    OnRemove::Nullify(name.to_owned())
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("refused").kind()
}

/// A database with an index of its words that refers to another.
fn refers(env: &Env, name: &str, to: &Database, on_remove: OnRemove) -> (Database, Index) {
    let database = env.database(name).expect("made");
    let options = IndexOptions::new("words").references(to, on_remove);
    let index = env.index(&format!("{name} by word"), &database, options).expect("made");
    (database, index)
}

fn keys(database: &Database) -> Vec<String> {
    let key = |record: Result<(Vec<u8>, Vec<u8>)>| String::from_utf8(record.expect("read").0).expect("text");
    database.range(..).expect("begun").map(key).collect()
}

#[test]
fn a_reference_leads_to_a_record() {
    let env = builder().in_memory().expect("opened");
    let people = env.database("people").expect("made");
    let (orders, index) = refers(&env, "orders", &people, OnRemove::Refuse);
    people.insert_batch([("ada", ""), ("eve", "")]).expect("inserted");
    orders.insert("1", "ada").expect("there");
    assert_eq!(kind(orders.insert("2", "ada bob")), ErrorKind::Reference);
    assert_eq!(kind(orders.insert("1", "bob")), ErrorKind::Reference);
    env.write(|txn| {
        assert_eq!(kind(txn.insert(&orders, "2", "bob")), ErrorKind::Reference);
        txn.insert(&people, "bob", "")?;
        txn.insert(&orders, "2", "bob ada")?;
        assert_eq!(kind(txn.remove(&people, "bob")), ErrorKind::Reference);
        assert!(txn.remove(&people, "eve")?);
        Ok(())
    })
    .expect("committed");
    for refused in
        [people.remove("ada").map(drop), people.clear().map(drop), people.remove_range("a".."b").map(drop)]
    {
        assert_eq!(kind(refused), ErrorKind::Reference);
    }
    people.insert("ada", "another value").expect("it stays");
    assert_eq!(
        (keys(&people), keys(&orders)),
        (vec!["ada".to_owned(), "bob".to_owned()], vec!["1".to_owned(), "2".to_owned()])
    );
    assert_eq!(kind(env.remove_database("people")), ErrorKind::Reference);
    env.rename_database("people", "persons").expect("renamed");
    assert_eq!(kind(people.remove("ada")), ErrorKind::Reference);
    orders.insert("3", "ada").expect("there");
    assert_eq!(index.verify(&env).expect("read"), [""; 0]);
    // What there is has to lead somewhere, too.
    let (bare, wrong) = (
        env.database("bare").expect("made"),
        IndexOptions::new("words").references(&orders, OnRemove::Refuse),
    );
    bare.insert("1", "none").expect("inserted");
    assert_eq!(kind(env.index("bare by word", &bare, wrong)), ErrorKind::Reference);
    env.remove_database("orders").expect("its index goes with it");
    people.clear().expect("nothing refers to them");
    env.remove_database("persons").expect("removed");
}

/// What had got the name of a database since its handle was opened was referred to in its place.
#[test]
fn an_index_refers_to_what_the_handle_is_and_not_to_what_has_its_name() {
    let env = builder().in_memory().expect("opened");
    let (people, orders) = (env.database("people").expect("made"), env.database("orders").expect("made"));
    people.insert("ada", "").expect("inserted");
    orders.insert("1", "ada").expect("inserted");
    env.rename_database("people", "persons").expect("renamed");
    fn options<K: Kind>(to: &Database<K>) -> IndexOptions {
        IndexOptions::new("words").references(to, OnRemove::Cascade)
    }
    for another in [false, true] {
        if another {
            env.database("people").expect("made").insert("ada", "").expect("inserted");
        }
        let refused = env.index("by person", &orders, options(&people)).expect_err("it has another name");
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(refused.to_string().contains("renamed or removed since"), "{refused}");
    }
    let index = env.index("by person", &orders, options(&env.database("persons").expect("there")));
    assert_eq!(index.expect("made").count(&env, "ada").expect("read"), 1);
    people.remove("ada").expect("removed");
    assert!(orders.is_empty().expect("read"));

    let mut store = builder().data_store_in_memory().expect("opened");
    let (people, orders) = (store.database("people").expect("made"), store.database("orders").expect("made"));
    store.rename_database("orders", "old").expect("renamed");
    store.database("orders").expect("made");
    assert_eq!(kind(store.index("by person", &orders, options(&people))), ErrorKind::Invalid);
}

#[test]
fn a_removal_cascades_or_nullifies_in_one_transaction() {
    let env = builder().in_memory().expect("opened");
    let people = env.database("people").expect("made");
    let (orders, by_person) = refers(&env, "orders", &people, OnRemove::Cascade);
    let (lines, by_order) = refers(&env, "lines", &orders, OnRemove::Cascade);
    let (notes, by_note) = refers(&env, "notes", &orders, nullify("without"));
    let fill = || {
        people.insert_batch([("ada", ""), ("eve", "")]).expect("inserted");
        orders.insert_batch([("1", "ada"), ("2", "ada eve"), ("3", "eve")]).expect("inserted");
        lines.insert_batch([("a", "1"), ("b", "2"), ("c", "3"), ("d", "1 3")]).expect("inserted");
        notes.insert_batch([("x", "1 3"), ("y", "2"), ("z", "3")]).expect("inserted");
    };
    let sound = || {
        for index in [&by_person, &by_order, &by_note] {
            assert_eq!(index.verify(&env).expect("read"), [""; 0]);
        }
    };
    fill();
    let mut txn = env.begin().expect("begun");
    assert!(txn.remove(&people, "ada").expect("removed"));
    assert_eq!(txn.get(&notes, "x").expect("read").as_deref(), Some(&b"3"[..]));
    txn.abort();
    assert_eq!((keys(&orders).len(), keys(&lines).len()), (3, 4));
    people.remove("ada").expect("removed");
    assert_eq!((keys(&orders), keys(&lines)), (vec!["3".to_owned()], vec!["c".to_owned()]));
    assert_eq!(notes.get("x").expect("read").as_deref(), Some(&b"3"[..]));
    assert_eq!(notes.get("y").expect("read").as_deref(), Some(&b""[..]));
    sound();
    fill();
    assert_eq!(people.remove_range("a"..).expect("removed"), 2);
    assert_eq!((keys(&orders).len(), keys(&lines).len(), keys(&notes).len()), (0, 0, 3));
    sound();
    // One that refuses, far down, keeps all of it from happening.
    fill();
    let (stops, _) = refers(&env, "stops", &lines, OnRemove::Refuse);
    stops.insert("here", "d").expect("inserted");
    assert_eq!(kind(people.remove("ada")), ErrorKind::Reference);
    env.write(|txn| {
        assert_eq!(kind(txn.remove(&people, "ada")), ErrorKind::Reference);
        assert_eq!(kind(txn.clear(&people)), ErrorKind::Reference);
        Ok(())
    })
    .expect("nothing was done");
    assert_eq!((keys(&people).len(), keys(&orders).len(), keys(&lines).len()), (2, 3, 4));
    sound();
    // An index that the handles of what is removed from did not know of.
    stops.clear().expect("removed");
    let all = env.index("all lines", &lines, IndexOptions::new("words")).expect("made");
    assert!(people.remove("ada").expect("removed"));
    assert_eq!(all.verify(&env).expect("read"), [""; 0]);
    assert_eq!(keys(&lines), ["c"]);
}

#[test]
fn a_nullifier_has_to_let_go() {
    let env = builder().in_memory().expect("opened");
    let people = env.database("people").expect("made");
    let (orders, _) = refers(&env, "orders", &people, nullify("nothing"));
    people.insert("ada", "").expect("inserted");
    orders.insert("1", "ada").expect("inserted");
    assert_eq!(kind(people.remove("ada")), ErrorKind::Invalid);
    assert_eq!(keys(&people), ["ada"]);
    let options = IndexOptions::new("words").references(&people, nullify("none"));
    let error = env.index("other", &orders, options).expect_err("not registered");
    assert!(error.to_string().contains("nullifier \"none\""), "{error}");
}

/// Records that refer to each other, to themselves, in circles, and in a chain that no stack would hold.
#[test]
fn references_may_go_in_circles_and_on_and_on() {
    for on_remove in [OnRemove::Cascade, OnRemove::Refuse, nullify("without")] {
        let env = builder().in_memory().expect("opened");
        let nodes = env.database("nodes").expect("made");
        let options = IndexOptions::new("words").references(&nodes, on_remove.clone());
        let index = env.index("nodes by word", &nodes, options).expect("made");
        nodes.insert("itself", "itself").expect("it will be there");
        assert!(nodes.remove("itself").expect("nobody else refers to it"));
        env.write(|txn| {
            ["a", "b", "c"].iter().try_for_each(|key| txn.insert(&nodes, key, ""))?;
            txn.insert(&nodes, "a", "b a")?;
            txn.insert(&nodes, "b", "c")?;
            txn.insert(&nodes, "c", "a")
        })
        .expect("inserted");
        match on_remove {
            OnRemove::Cascade => {
                assert!(nodes.remove("b").expect("removed") && nodes.is_empty().expect("read"))
            }
            OnRemove::Refuse => assert_eq!(kind(nodes.remove("b")), ErrorKind::Reference),
            _ => {
                assert!(nodes.remove("b").expect("removed"));
                assert_eq!(nodes.get("a").expect("read").as_deref(), Some(&b"a"[..]));
            }
        }
        assert_eq!(index.verify(&env).expect("read"), [""; 0]);
        if on_remove == OnRemove::Cascade {
            let count = 20_000u32;
            let name = |n: u32| format!("{n:06}");
            env.write(|txn| {
                (0..count).try_for_each(|n| {
                    txn.insert(&nodes, name(n), if n == 0 { String::new() } else { name(n - 1) })
                })
            })
            .expect("inserted");
            assert!(nodes.remove(name(0)).expect("removed") && nodes.is_empty().expect("read"));
            assert!(index.database().is_empty().expect("read"));
        }
    }
}

/// One transaction refers to a record that another removes: the second to commit loses, at any isolation.
#[test]
fn no_reference_is_left_that_leads_nowhere() {
    for isolation in ISOLATIONS {
        for on_remove in [OnRemove::Refuse, OnRemove::Cascade, nullify("without")] {
            for first in [false, true] {
                let env = builder().in_memory().expect("opened");
                let people = env.database("people").expect("made");
                let (orders, index) = refers(&env, "orders", &people, on_remove.clone());
                people.insert_batch([("ada", ""), ("eve", "")]).expect("inserted");
                if on_remove != OnRemove::Refuse {
                    orders.insert("0", "ada").expect("inserted");
                }
                let begin = || env.begin_with(TxnOptions::new().isolation(isolation)).expect("begun");
                let (mut referring, mut removing) = (begin(), begin());
                referring.insert(&orders, "1", "ada").expect("there");
                assert!(removing.remove(&people, "ada").expect("nobody refers to it, or goes with it"));
                let (one, other) = if first { (referring, removing) } else { (removing, referring) };
                one.commit().expect("first");
                assert_eq!(kind(other.commit()), ErrorKind::Conflict, "{isolation:?} {on_remove:?}");
                assert_eq!(index.verify(&env).expect("read"), [""; 0]);
                assert_eq!(people.contains_key("ada").expect("read"), first);
                assert_eq!(index.contains_key(&env, "ada").expect("read"), first);
                // Those who are not in each other's way both commit.
                let (mut referring, mut removing) = (begin(), begin());
                people.insert("bob", "").expect("inserted");
                referring.insert(&orders, "2", "eve").expect("there");
                removing.insert(&people, "zoe", "").expect("inserted");
                referring.commit().expect("nobody");
                removing.commit().expect("nobody");
            }
        }
    }
}

/// It ran again for ever: what a removal demands of others was demanded although it had been rolled back, or
/// refused, or the record had been set again.
#[test]
fn a_removal_that_is_taken_back_demands_nothing() {
    for isolation in ISOLATIONS {
        let env = builder().in_memory().expect("opened");
        let people = env.database("people").expect("made");
        let (orders, by_person) = refers(&env, "orders", &people, OnRemove::Cascade);
        let (stops, _) = refers(&env, "stops", &people, OnRemove::Refuse);
        people.insert_batch([("ada", ""), ("eve", "")]).expect("inserted");
        orders.insert_batch([("1", "ada"), ("2", "ada")]).expect("inserted");
        let begin = || env.begin_with(TxnOptions::new().isolation(isolation)).expect("begun");
        let mut txn = begin();
        let before = txn.savepoint();
        assert!(txn.remove(&people, "ada").expect("removed"));
        txn.rollback_to(&before).expect("of this transaction");
        txn.insert(&people, "bob", "").expect("inserted");
        txn.commit().unwrap_or_else(|error| panic!("{isolation:?}: {error}"));
        assert_eq!((keys(&people).len(), keys(&orders).len()), (3, 2));
        stops.insert("here", "ada").expect("inserted");
        let mut txn = begin();
        assert_eq!(kind(txn.remove(&people, "ada")), ErrorKind::Reference);
        txn.insert(&people, "zoe", "").expect("inserted");
        txn.commit().unwrap_or_else(|error| panic!("{isolation:?}: {error}"));
        assert_eq!((keys(&people).len(), keys(&orders).len()), (4, 2));
        stops.clear().expect("removed");
        let mut txn = begin();
        assert!(txn.remove(&people, "ada").expect("removed"));
        txn.insert(&people, "ada", "again").expect("inserted");
        txn.insert(&orders, "3", "ada").expect("there");
        txn.commit().unwrap_or_else(|error| panic!("{isolation:?}: {error}"));
        assert_eq!(keys(&orders), ["3"]);
        assert_eq!(by_person.verify(&env).expect("read"), [""; 0]);
    }
}

/// It ran again for ever, with nobody else at work: the record that was referred to was demanded although it
/// had been set in the same transaction, and rolled back with what referred to it.
#[test]
fn a_reference_to_one_s_own_record_that_is_taken_back_demands_nothing() {
    for isolation in ISOLATIONS {
        let env = builder().in_memory().expect("opened");
        let people = env.database("people").expect("made");
        let (orders, _) = refers(&env, "orders", &people, OnRemove::Cascade);
        let mut txn = env.begin_with(TxnOptions::new().isolation(isolation)).expect("begun");
        let before = txn.savepoint();
        txn.insert(&people, "ada", "").expect("inserted");
        txn.insert(&orders, "1", "ada").expect("inserted");
        txn.rollback_to(&before).expect("of this transaction");
        txn.insert(&people, "eve", "").expect("inserted");
        txn.insert(&orders, "2", "eve").expect("inserted");
        txn.commit().unwrap_or_else(|error| panic!("{isolation:?}: {error}"));
        assert_eq!((keys(&people), keys(&orders)), (vec!["eve".to_owned()], vec!["2".to_owned()]));
    }
}

/// A removal that a panic cuts short, of which a transaction or a Data Store goes on, was not begun.
#[test]
fn a_removal_that_panics_half_way_is_not_done() {
    fn picky(key: &[u8], value: &[u8], gone: &[u8]) -> Vec<u8> {
        if key == b"3" {
            // The panic hook is not asked, so nothing is printed.
            resume_unwind(Box::new("picky"));
        }
        without(key, value, gone)
    }
    let builder = || builder().nullifier("picky", picky);
    let panics = |work: &mut dyn FnMut()| assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
    let notes = [("1", "ada"), ("2", "ada eve"), ("3", "ada"), ("4", "ada")];
    let env = builder().in_memory().expect("opened");
    let people = env.database("people").expect("made");
    let (orders, by_person) = refers(&env, "orders", &people, OnRemove::Cascade);
    let (marks, by_mark) = refers(&env, "marks", &people, nullify("picky"));
    people.insert_batch([("ada", ""), ("eve", "")]).expect("inserted");
    orders.insert_batch(notes).expect("inserted");
    marks.insert_batch(notes).expect("inserted");
    for isolation in ISOLATIONS {
        let mut txn = env.begin_with(TxnOptions::new().isolation(isolation)).expect("begun");
        txn.insert(&people, "bob", "").expect("inserted");
        panics(&mut || _ = txn.remove(&people, "ada").expect("panics"));
        txn.commit().expect("the rest");
        assert_eq!(
            (keys(&people), keys(&orders).len()),
            (["ada", "bob", "eve"].map(str::to_owned).to_vec(), 4)
        );
        assert_eq!(marks.get("1").expect("read").as_deref(), Some(&b"ada"[..]));
        assert_eq!(
            (by_person.verify(&env).expect("read"), by_mark.verify(&env).expect("read")),
            (vec![], vec![])
        );
    }
    let mut store = builder().data_store_in_memory().expect("opened");
    let [people, orders, marks] =
        ["people", "orders", "marks"].map(|name| store.database(name).expect("made"));
    let options = |on_remove| IndexOptions::new("words").references(&people, on_remove);
    let indices = [
        store.index("by person", &orders, options(OnRemove::Cascade)).expect("made"),
        store.index("by mark", &marks, options(nullify("picky"))).expect("made"),
    ];
    ["ada", "eve"].iter().for_each(|key| store.insert(&people, key, "").expect("inserted"));
    for (key, value) in notes {
        store.insert(&orders, key, value).expect("inserted");
        store.insert(&marks, key, value).expect("inserted");
    }
    panics(&mut || _ = store.remove(&people, "ada").expect("panics"));
    assert_eq!((store.len(&people).expect("read"), store.len(&orders).expect("read")), (2, 4));
    assert_eq!(store.get(&marks, "1").expect("read").as_deref(), Some(&b"ada"[..]));
    indices.iter().for_each(|index| assert_eq!(index.verify(&store).expect("read"), [""; 0]));
}

#[test]
fn a_data_store_has_references_and_undoes_what_it_refuses() {
    let mut store = builder().data_store_in_memory().expect("opened");
    let people = store.database("people").expect("made");
    let orders = store.database("orders").expect("made");
    let lines = store.database("lines").expect("made");
    let options = |on_remove| IndexOptions::new("words").references(&people, on_remove);
    let by_person = store.index("by person", &orders, options(OnRemove::Cascade)).expect("made");
    let by_order = IndexOptions::new("words").references(&orders, OnRemove::Refuse);
    let by_order = store.index("by order", &lines, by_order).expect("made");
    store.insert(&people, "ada", "").expect("inserted");
    assert_eq!(kind(store.insert(&orders, "1", "eve")), ErrorKind::Reference);
    store.insert(&orders, "1", "ada").expect("inserted");
    store.insert(&orders, "2", "ada").expect("inserted");
    store.insert(&lines, "x", "2").expect("inserted");
    assert_eq!(kind(store.remove(&people, "ada")), ErrorKind::Reference);
    assert_eq!((store.len(&people).expect("read"), store.len(&orders).expect("read")), (1, 2));
    assert_eq!(by_person.verify(&store).expect("read"), [""; 0]);
    store.clear(&lines).expect("removed");
    assert!(store.remove(&people, "ada").expect("removed"));
    assert_eq!((store.len(&people).expect("read"), store.len(&orders).expect("read")), (0, 0));
    assert_eq!(
        (by_person.verify(&store).expect("read").len(), by_order.verify(&store).expect("read").len()),
        (0, 0)
    );
}

#[test]
fn of_a_bulk_load_into_a_data_store_that_fails_half_way_nothing_is_left() {
    for on_remove in [OnRemove::Refuse, OnRemove::Cascade] {
        let mut store = builder().data_store_in_memory().expect("opened");
        let nodes = store.database("nodes").expect("made");
        let options = IndexOptions::new("words").references(&nodes, on_remove);
        let index = store.index("nodes by word", &nodes, options).expect("made");
        let records = [("1", ""), ("2", "1"), ("3", "2 3"), ("4", "none")];
        assert_eq!(kind(store.bulk_load(&nodes, records)), ErrorKind::Reference);
        assert!(store.is_empty(&nodes).expect("read") && store.is_empty(index.database()).expect("read"));
        assert_eq!(store.bulk_load(&nodes, records[..3].iter().copied()).expect("loaded"), 3);
        assert_eq!(kind(store.bulk_load(&nodes, records)), ErrorKind::Invalid);
        assert_eq!(store.len(&nodes).expect("read"), 3);
        assert_eq!(index.verify(&store).expect("read"), [""; 0]);
    }
}

/// Random changes of three databases that refer to each other in a circle, against maps.
#[test]
fn references_do_what_maps_do() {
    type Model = [BTreeMap<String, String>; 3];
    let ends = |model: &Model, to: usize, key: &str| model[to].contains_key(key);
    fn refers(value: &str, key: &str) -> bool {
        value.split(' ').any(|word| word == key)
    }
    /// Removes a record, and what has to go with it: the first cascades to the second, that is nullified in
    /// the third, and that refuses for the first. False: it is refused.
    fn remove(model: &mut Model, at: usize, key: &str) -> bool {
        model[at].remove(key);
        let from = (at + 1) % 3;
        let concerned: Vec<String> =
            model[from].iter().filter(|(_, value)| refers(value, key)).map(|(key, _)| key.clone()).collect();
        match at {
            0 => concerned.iter().all(|key| remove(model, from, key)),
            1 => {
                for one in &concerned {
                    let value = model[from].get_mut(one).expect("there");
                    *value = value.split(' ').filter(|word| *word != key).collect::<Vec<_>>().join(" ");
                }
                true
            }
            _ => concerned.is_empty(),
        }
    }
    for seed in 1..6u64 {
        let disk = SimDisk::new(seed);
        let open = || builder().disk(Arc::new(disk.clone())).open("env").expect("opened");
        let mut env = open();
        let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |most: u64| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice % most
        };
        let mut model = Model::default();
        let made = |env: &Env| {
            let all = ["a", "b", "c"].map(|name| env.database(name).expect("made"));
            let how = [OnRemove::Refuse, OnRemove::Cascade, nullify("without")];
            let indices: Vec<Index> = (0..3)
                .map(|at| {
                    let options = IndexOptions::new("words").references(&all[(at + 2) % 3], how[at].clone());
                    env.index(["a by", "b by", "c by"][at], &all[at], options).expect("made")
                })
                .collect();
            (all, indices)
        };
        for _ in 0..30 {
            let ((all, indices), mut pending) = (made(&env), model.clone());
            let isolation = ISOLATIONS[below(3) as usize];
            let mut txn = env.begin_with(TxnOptions::new().isolation(isolation)).expect("begun");
            let mut saved = None;
            for _ in 0..below(25) {
                let (at, key) = (below(3) as usize, below(8).to_string());
                match below(10) {
                    0 => saved = Some((txn.savepoint(), pending.clone())),
                    1 => {
                        if let Some((savepoint, then)) = &saved {
                            txn.rollback_to(savepoint).expect("of this transaction");
                            pending = then.clone();
                        }
                    }
                    2..=4 => {
                        let mut after = pending.clone();
                        if !pending[at].contains_key(&key) || remove(&mut after, at, &key) {
                            Write::remove(&mut txn, &all[at], &key).expect("allowed");
                            pending = after;
                        } else {
                            assert_eq!(kind(txn.remove(&all[at], &key)), ErrorKind::Reference);
                        }
                    }
                    _ => {
                        let value = (0..below(3)).map(|_| below(8).to_string()).collect::<Vec<_>>().join(" ");
                        let leads = value
                            .split(' ')
                            .all(|word| word.is_empty() || ends(&pending, (at + 2) % 3, word));
                        let done = txn.insert(&all[at], &key, &value);
                        if leads {
                            done.expect("there");
                            pending[at].insert(key, value);
                        } else {
                            assert_eq!(kind(done), ErrorKind::Reference);
                        }
                    }
                }
            }
            if below(4) > 0 {
                txn.commit().expect("nobody else is there");
                model = pending;
            } else {
                txn.abort();
            }
            for (database, model) in all.iter().zip(&model) {
                let found: Vec<_> =
                    database.range(..).expect("begun").map(|one| one.expect("read")).collect();
                let model =
                    model.iter().map(|(key, value)| (key.clone().into_bytes(), value.clone().into_bytes()));
                assert!(found.into_iter().eq(model));
            }
            indices.iter().for_each(|index| assert_eq!(index.verify(&env).expect("read"), [""; 0]));
            if below(8) == 0 {
                drop((all, indices));
                env.close().expect("closed");
                env = open();
            }
        }
        assert!(model.iter().map(BTreeMap::len).sum::<usize>() > 3);
    }
}
