//! What a database holds: said when it is made, and to whoever takes it for something else.

use sablecat::globals::Globals;
use sablecat::typed::Typed;
use sablecat::{Database, Duplicates, Env, ErrorKind, Follower, Holds, Method, MultiMap};
use sablecat_tests::Place;

const ALL: [(&str, Holds); 9] = [
    ("plain", Holds::Records),
    ("sorted", Holds::Values(Duplicates::Sorted)),
    ("inserted", Holds::Values(Duplicates::Inserted)),
    ("queue", Holds::Queue { record_bytes: 4, pad: b' ' }),
    ("lines", Holds::Numbers { record_bytes: None, pad: 0 }),
    ("rows", Holds::Numbers { record_bytes: Some(80), pad: b' ' }),
    ("globals", Holds::Globals),
    ("poem", Holds::Renumbered { record_bytes: None, pad: 0 }),
    ("table", Holds::Renumbered { record_bytes: Some(7), pad: b'.' }),
];

fn make_all(env: &Env) {
    for (name, holds) in ALL {
        assert_eq!(env.database_holding(name, holds).expect("created").holds(), holds);
    }
}

fn check_all(env: &Env) {
    for (name, holds) in ALL {
        let found = env.existing_database(name).expect("read").expect("there");
        assert_eq!(found.holds(), holds);
    }
}

fn refused<T: std::fmt::Debug>(result: sablecat::Result<T>, what: &str) {
    let error = result.expect_err("it holds something else");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains(what), "{error}");
}

#[test]
fn it_is_kept_by_reopening_replay_copies_followers_and_new_names() {
    let (place, second) = (Place::new("holds"), Place::new("holds-second"));
    let env = place.open().expect("created");
    let mut changes = env.changes(env.oldest_change().expect("read")).expect("followed");
    make_all(&env);
    check_all(&env);
    env.sync().expect("durable");
    let copy = second.open().expect("created");
    let follower = Follower::new(&copy, "origin").expect("begun");
    while let Some(commit) = changes.try_next().expect("read") {
        follower.apply(&commit).expect("applied");
    }
    drop(changes);
    check_all(&copy);
    let left = place.killed("holds-replayed");
    check_all(&left.open_alone().expect("replayed"));
    env.rename_database("queue", "jobs").expect("renamed");
    assert_eq!(env.existing_database("jobs").expect("read").expect("there").holds(), ALL[3].1);
    env.rename_database("jobs", "queue").expect("renamed");
    env.close().expect("closed");
    let env = place.open().expect("opened");
    check_all(&env);
    let into = Env::in_memory().expect("created");
    env.snapshot().and_then(|state| state.copy_into(&into, &mut |_| {})).expect("copied");
    check_all(&into);
    let stats = env.stats().expect("read");
    for (name, holds) in ALL {
        let at = stats.databases.iter().position(|found| found == name).expect("listed");
        assert_eq!(stats.holds[at], holds);
    }
}

#[test]
fn another_kind_is_refused_and_named() {
    let env = Env::in_memory().expect("created");
    make_all(&env);
    refused(env.database("queue"), "\"queue\" holds a queue, records of 4 bytes");
    refused(env.database_as("lines", Method::Btree), "\"lines\" holds numbered records");
    refused(env.write(|txn| txn.database("globals").map(drop)), "\"globals\" holds globals");
    refused(MultiMap::open(&env, "sorted", Duplicates::Inserted), "keys with several values, sorted");
    refused(MultiMap::open(&env, "queue", Duplicates::Sorted), "holds a queue");
    refused(Globals::open(&env, "inserted"), "keys with several values, as inserted");
    refused(Typed::<u32, String>::open(&env, "globals"), "holds globals");
    let raw = |name: &str| env.existing_database(name).expect("read").expect("there");
    refused(MultiMap::of(raw("globals"), Duplicates::Sorted), "holds globals");
    refused(Globals::of(raw("rows")), "numbered records of 80 bytes");
    refused(Typed::<u32, String>::of(raw("sorted")), "keys with several values");
    refused(env.database_holding("plain", ALL[3].1), "\"plain\" holds plain records");
    refused(env.database_holding("queue", Holds::Queue { record_bytes: 5, pad: b' ' }), "4 bytes");
}

/// As those are that were made before there was anything to say.
#[test]
fn a_database_that_says_nothing_serves_as_it_always_has() {
    let env = Env::in_memory().expect("created");
    let plain: Database = env.database("plain").expect("created");
    MultiMap::of(plain.clone(), Duplicates::Sorted).expect("used so");
    MultiMap::open(&env, "plain", Duplicates::Inserted).expect("used so");
    Globals::open(&env, "plain").expect("used so");
    Globals::of(plain).expect("used so");
    assert_eq!(env.database("plain").expect("opened").holds(), Holds::Records);
}

#[test]
fn it_is_said_by_the_commit_that_makes_the_database_and_gone_if_that_is_undone() {
    let env = Env::in_memory().expect("created");
    let mut txn = env.begin().expect("begun");
    let made = txn.database_holding("d", Holds::Globals).expect("created");
    assert_eq!(made.holds(), Holds::Globals);
    refused(txn.database("d"), "holds globals");
    drop((made, txn));
    assert_eq!(env.database("d").expect("created").holds(), Holds::Records);
    // One with an order is not made a hash table, whatever the environment makes otherwise.
    assert_eq!(env.database_holding("g", Holds::Globals).expect("created").method(), Method::Btree);
}
