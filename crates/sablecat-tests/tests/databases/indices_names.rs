//! Indices, and handles and names: whoever writes to a database keeps the indices that it has by now, by
//! whatever handle, and names that change beside somebody are no damage.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sablecat::{
    Duplicates, Env, ErrorKind, Index, IndexOptions, Isolation, MultiMap, Numbered, OnRemove, Queue, Result,
    Txn, TxnOptions,
};
use sablecat_os::sim::SimDisk;

const ISOLATIONS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

fn in_memory() -> Env {
    let env = Env::builder().extractor("all", |_, value, keys| keys.push(value));
    env.background(false).in_memory().expect("opened")
}

fn with(isolation: Isolation) -> TxnOptions {
    TxnOptions::new().isolation(isolation)
}

fn sound(index: &Index) {
    assert_eq!(index.verify(index.primary().env()).expect("read"), [""; 0]);
}

/// One that appends takes numbers or places for itself, and has a way of its own to write.
type Append = Box<dyn Fn(&mut Txn<'_>) -> Result<()>>;

fn appenders(env: &Env) -> [(&'static str, Append); 3] {
    let queue = Queue::open(env, "queue", 4).expect("made");
    let numbered = Numbered::open(env, "numbered").expect("made");
    let values = MultiMap::open(env, "values", Duplicates::Inserted).expect("made");
    [
        ("queue", Box::new(move |txn| queue.append(txn, "job").map(drop))),
        ("numbered", Box::new(move |txn| numbered.append(txn, "line").map(drop))),
        ("values", Box::new(move |txn| values.insert(txn, "key", "value").map(drop))),
    ]
}

/// They ran again for ever: each time with the handle that did not know.
#[test]
fn who_appends_by_a_handle_from_before_an_index_keeps_it() {
    for isolation in ISOLATIONS {
        let env = in_memory();
        for (name, append) in appenders(&env) {
            env.write(&append).expect("written");
            let records = env.existing_database(name).expect("read").expect("there");
            let index = env.index(&format!("of {name}"), &records, IndexOptions::new("all")).expect("made");
            let mut txn = env.begin_with(with(isolation)).expect("begun");
            append(&mut txn).expect("appended");
            txn.commit().unwrap_or_else(|error| panic!("{name}, {isolation:?}: {error}"));
            assert_eq!(records.len().expect("read"), 2);
            sound(&index);
            // And one in progress when another is made runs again once.
            let mut txn = env.begin_with(with(isolation)).expect("begun");
            append(&mut txn).expect("appended");
            env.index(&format!("also of {name}"), &records, IndexOptions::new("all")).expect("made");
            assert_eq!(txn.commit().expect_err("it did not know").kind(), ErrorKind::Conflict);
        }
    }
}

#[test]
fn who_appends_in_the_transaction_that_makes_an_index_keeps_it() {
    let env = in_memory();
    for (name, append) in appenders(&env) {
        let records = env.existing_database(name).expect("read").expect("there");
        let index = env
            .write(|txn| {
                append(txn)?;
                let index = txn.index(&format!("of {name}"), &records, IndexOptions::new("all"))?;
                append(txn)?;
                Ok(index)
            })
            .expect("written");
        assert_eq!(records.len().expect("read"), 2, "{name}");
        sound(&index);
    }
}

#[test]
fn who_consumes_by_a_handle_from_before_an_index_keeps_it() {
    for isolation in ISOLATIONS {
        let env = in_memory();
        let queue = Queue::open(&env, "queue", 4).expect("made");
        env.write(|txn| (0..3).try_for_each(|_| queue.append(txn, "job").map(drop))).expect("written");
        let index = env.index("of queue", queue.database(), IndexOptions::new("all")).expect("made");
        let mut txn = env.begin_with(with(isolation)).expect("begun");
        assert_eq!(queue.consume(&mut txn).expect("consumed").map(|(number, _)| number), Some(1));
        txn.commit().unwrap_or_else(|error| panic!("{isolation:?}: {error}"));
        sound(&index);
        assert_eq!(queue.len(&env).expect("read"), 2);
    }
}

/// A transaction makes an index, and what it renames after that it takes back.
#[test]
fn a_name_that_is_rolled_back_does_not_lead_past_an_index() {
    for renames in 1..4 {
        let env = in_memory();
        let records = env.database("records").expect("made");
        records.insert("1", "a").expect("inserted");
        let index = env
            .write(|txn| {
                txn.index("by all", &records, IndexOptions::new("all"))?;
                let before = txn.savepoint();
                ["records", "b", "c", "d"].windows(2).take(renames).try_for_each(|names| {
                    txn.rename_database(names[0], names[1])?;
                    txn.insert(&records, names[1], "while it has another name")
                })?;
                txn.rollback_to(&before)?;
                txn.insert(&records, "2", "b")?;
                txn.remove(&records, "1")?;
                Ok(Index::existing(txn, "by all")?.expect("there"))
            })
            .expect("written");
        assert_eq!(records.len().expect("read"), 1);
        sound(&index);
    }
}

/// Who refers to a record is found by the index's name, which may be another than in the snapshot.
#[test]
fn an_index_that_was_renamed_since_a_transaction_began_is_no_damage() {
    for isolation in ISOLATIONS {
        for on_remove in [OnRemove::Cascade, OnRemove::Refuse] {
            let env = in_memory();
            let (people, orders) =
                (env.database("people").expect("made"), env.database("orders").expect("made"));
            let options = IndexOptions::new("all").references(&people, on_remove.clone());
            env.index("by person", &orders, options).expect("made");
            people.insert("ada", "").expect("inserted");
            orders.insert("1", "ada").expect("inserted");
            let mut txn = env.begin_with(with(isolation)).expect("begun");
            assert_eq!(txn.get(&orders, "1").expect("read").as_deref(), Some(&b"ada"[..]));
            env.rename_database("by person", "another name").expect("renamed");
            let removed = txn.remove(&people, "ada").and_then(|_| txn.commit());
            match (removed, &on_remove) {
                (Ok(_), OnRemove::Cascade) => assert!(orders.is_empty().expect("read")),
                (Err(error), OnRemove::Refuse) if error.kind() == ErrorKind::Reference => {}
                (Err(error), _) => assert_eq!(error.kind(), ErrorKind::Conflict, "{isolation:?}: {error}"),
                (Ok(_), _) => panic!("it is referred to"),
            }
        }
    }
}

/// The handle knows it, and the snapshot has not got it.
#[test]
fn an_index_made_since_a_transaction_began_is_a_conflict_for_it() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let env = in_memory();
        let records = env.database("records").expect("made");
        let mut txn = env.begin_with(with(isolation)).expect("begun");
        assert_eq!(txn.get(&records, "1").expect("read"), None);
        let index = env.index("by all", &records, IndexOptions::new("all").unique(true)).expect("made");
        records.insert("1", "a").expect("inserted");
        let refused = txn.insert(&records, "2", "a").expect_err("it does not see who has this");
        assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
        sound(&index);
    }
}

/// Runs `beside` in another thread, so many times, and `work` again and again meanwhile.
fn beside(rounds: u32, beside: impl Fn(u32) + Send, mut work: impl FnMut(u32)) {
    let has_failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let has_failed = &has_failed;
        let thread = scope.spawn(move || {
            (0..rounds).take_while(|_| !has_failed.load(Ordering::Relaxed)).for_each(beside);
        });
        let mut done = Ok(());
        for n in 0.. {
            if thread.is_finished() || done.is_err() {
                break;
            }
            done = catch_unwind(AssertUnwindSafe(|| work(n)));
        }
        has_failed.store(done.is_err(), Ordering::Relaxed);
        thread.join().expect("the other thread goes on");
        done.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

#[test]
fn indices_are_opened_while_their_primary_gets_other_names() {
    let env = in_memory();
    let records = env.database("records").expect("made");
    env.index("by all", &records, IndexOptions::new("all")).expect("made");
    let rename = |n: u32| {
        let (from, to) = if n.is_multiple_of(2) { ("records", "renamed") } else { ("renamed", "records") };
        env.rename_database(from, to).expect("renamed");
    };
    beside(2000, rename, |_| {
        let index = Index::existing(&env, "by all").expect("it is no damage").expect("there");
        assert!(["records", "renamed"].contains(&index.primary().name()));
    });
}

#[test]
fn an_index_is_opened_while_it_comes_and_goes_with_its_primary() {
    let env = in_memory();
    let make = |_| {
        let records = env.database("records").expect("made");
        env.index("by all", &records, IndexOptions::new("all")).expect("made");
        env.remove_database("records").expect("removed");
    };
    beside(1000, make, |_| _ = Index::existing(&env, "by all").expect("it is no damage"));
}

/// A handle goes on with what its database has, whatever that is called meanwhile.
#[test]
fn a_handle_writes_while_its_database_gets_names_and_indices() {
    let env = in_memory();
    let records = env.database("records").expect("made");
    let change = |n: u32| {
        let names = ["records", "a", "b"];
        let (from, to) = (names[n as usize % 3], names[(n as usize + 1) % 3]);
        env.rename_database(from, to).expect("renamed");
        let named = env.database(to).expect("there");
        if n.is_multiple_of(2) {
            env.index("by all", &named, IndexOptions::new("all")).expect("made");
        } else {
            env.remove_database("by all").expect("removed");
        }
    };
    beside(2000, change, |n| {
        records.insert((n % 7).to_be_bytes(), n.to_be_bytes()).expect("it is there");
        let isolation = ISOLATIONS[n as usize % 3];
        env.write_with(with(isolation), |txn| txn.remove(&records, (n % 5).to_be_bytes()))
            .expect("it is there");
    });
    if let Some(index) = Index::existing(&env, "by all").expect("read") {
        sound(&index);
    }
}

/// A read committed transaction looks at the catalog several times, at a state of its own each.
#[test]
fn names_that_change_while_a_read_committed_transaction_looks_are_no_damage() {
    let env = in_memory();
    let records = env.database("records").expect("made");
    env.index("by all", &records, IndexOptions::new("all")).expect("made");
    let rename = |n: u32| {
        let (from, to) = if n.is_multiple_of(2) { ("by all", "renamed") } else { ("renamed", "by all") };
        env.rename_database(from, to).expect("renamed");
    };
    beside(2000, rename, |n| {
        let work = |txn: &mut Txn<'_>| {
            let records = txn.existing_database("records")?.expect("there");
            txn.insert(&records, (n % 5).to_be_bytes(), "x")
        };
        env.write_with(with(Isolation::ReadCommitted), work).expect("it is no damage");
    });
}

/// Of a record that refers, the entry is read first, and the record after it: another transaction may have
/// removed it in between, or had it refer to something else.
#[test]
fn read_committed_removals_cascade_to_what_refers_and_to_nothing_else() {
    let env = in_memory();
    let (people, orders) = (env.database("people").expect("made"), env.database("orders").expect("made"));
    let options = IndexOptions::new("all").references(&people, OnRemove::Cascade);
    let index = env.index("by person", &orders, options).expect("made");
    people.insert("eve", "").expect("inserted");
    let change = |n: u32| {
        let order = (n / 2 % 3).to_be_bytes();
        // The order is there all the time; whom it is of changes.
        let person = if n.is_multiple_of(2) { "ada" } else { "eve" };
        match orders.insert(order, person) {
            Err(error) if error.kind() == ErrorKind::Reference => {}
            done => done.expect("inserted"),
        }
        if n.is_multiple_of(5) {
            orders.remove(order).expect("removed");
        }
    };
    beside(20_000, change, |_| {
        people.insert("ada", "").expect("inserted");
        env.write_with(with(Isolation::ReadCommitted), |txn| txn.remove(&people, "ada"))
            .expect("it is no damage");
        env.write_with(with(Isolation::ReadCommitted), |txn| index.remove(txn, "eve"))
            .expect("it is no damage");
    });
    sound(&index);
    let leads = orders.fold(.., true, |leads, _, person| {
        ControlFlow::Continue(leads && people.contains_key(person).expect("read"))
    });
    assert!(leads.expect("read"));
}

/// What a savepoint undoes of indices is undone for the writes that come after it.
#[test]
fn indices_made_renamed_and_removed_are_rolled_back_for_who_writes() {
    for seed in 0..60u64 {
        let disk = SimDisk::new(seed);
        let env = Env::builder().extractor("all", |_, value, keys| keys.push(value)).background(false);
        let env = env.disk(Arc::new(disk)).open("env").expect("opened");
        let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |most: u64| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice % most
        };
        let records = env.database("records 0").expect("made");
        let (mut primary, mut names) = ("records 0".to_owned(), Vec::<String>::new());
        for round in 0..10 {
            let isolation = if below(2) == 0 { Isolation::Snapshot } else { Isolation::Serializable };
            let mut txn = env.begin_with(with(isolation)).expect("begun");
            let (mut now, mut has) = (primary.clone(), names.clone());
            let mut saved = Vec::new();
            for step in 0..below(30) {
                match below(9) {
                    0 => saved.push((txn.savepoint(), now.clone(), has.clone())),
                    1 if !saved.is_empty() => {
                        saved.truncate(1 + below(saved.len() as u64) as usize);
                        let (savepoint, then, had) = saved.last().expect("there is one");
                        txn.rollback_to(savepoint).expect("of this transaction");
                        (now, has) = (then.clone(), had.clone());
                    }
                    2 => {
                        let name = format!("index {round} {step}");
                        let of = txn.existing_database(&now).expect("read").expect("there");
                        txn.index(&name, &of, IndexOptions::new("all")).expect("made");
                        has.push(name);
                    }
                    3 if !has.is_empty() => {
                        let name = has.swap_remove(below(has.len() as u64) as usize);
                        assert!(txn.remove_database(&name).expect("removed"));
                    }
                    4 if !has.is_empty() => {
                        let at = below(has.len() as u64) as usize;
                        let name = format!("index {round} {step}");
                        txn.rename_database(&has[at], &name).expect("renamed");
                        has[at] = name;
                    }
                    5 => {
                        let name = format!("records {round} {step}");
                        txn.rename_database(&now, &name).expect("renamed");
                        now = name;
                    }
                    6 => _ = txn.remove(&records, below(9).to_be_bytes()).expect("removed"),
                    _ => txn.insert(&records, below(9).to_be_bytes(), below(5).to_be_bytes()).expect("set"),
                }
            }
            if below(4) > 0 {
                txn.commit().expect("nobody is in the way");
                (primary, names) = (now, has);
            } else {
                txn.abort();
            }
            let mut all: Vec<_> = names.iter().chain([&primary]).cloned().collect();
            all.sort();
            assert_eq!(env.databases().expect("read"), all, "seed {seed}, round {round}");
            for name in &names {
                let index = Index::existing(&env, name).expect("read").expect("there");
                assert_eq!(index.verify(&env).expect("read"), [""; 0], "seed {seed}, round {round}, {name}");
            }
            assert_eq!(env.verify(&mut |_| {}).expect("read").pages_unreachable, 0);
        }
    }
}
