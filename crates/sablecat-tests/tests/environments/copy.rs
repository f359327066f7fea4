//! Copies of whole environments: of a state, and to be followed from.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sablecat::{Builder, Env, ErrorKind, Follower, Method, ReadTxn, SequenceOptions};
use sablecat_os::sim::SimDisk;

type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// All that an environment has, but what followers note; in the order of bytes.
fn contents(state: &ReadTxn) -> Contents {
    let names = state.databases().expect("read").into_iter().filter(|name| name != "sablecat.followed");
    let records = |name: &str| {
        let database = state.existing_database(name).expect("read").expect("there");
        state.range(&database, ..).expect("read").collect::<sablecat::Result<_>>().expect("read")
    };
    names.map(|name| (name.clone(), records(&name))).collect()
}

fn all(env: &Env) -> Contents {
    contents(&env.snapshot().expect("a seat"))
}

fn on(disk: &SimDisk) -> Builder {
    Env::builder()
        .disk(Arc::new(disk.clone()))
        .page_size(512)
        .background(false)
        .comparator("backwards", |a, b| b.cmp(a))
}

/// Of all kinds: empty, ordered otherwise, long keys and values, a sequence.
fn fill(env: &Env) {
    env.database("empty").expect("created");
    let backwards = env.database_ordered_by("backwards", "backwards").expect("created");
    let records = env.database("records").expect("created");
    for n in 0..300u32 {
        backwards.insert(n.to_be_bytes(), "b").expect("inserted");
        records.insert(n.to_be_bytes(), vec![n as u8; n as usize % 40]).expect("inserted");
    }
    records.insert([b'k'; 2000], vec![7; 5000]).expect("inserted");
    records.sequence("numbers", SequenceOptions::new()).expect("made").next().expect("a number");
}

#[test]
fn a_copy_has_all_that_a_state_has_and_nothing_else() {
    let (disk, copy_disk) = (SimDisk::new(1), SimDisk::new(2));
    let env = on(&disk).open("/env").expect("created");
    fill(&env);
    let (state, expected) = (env.snapshot().expect("a seat"), all(&env));
    env.database("records").expect("there").clear().expect("cleared");
    env.remove_database("empty").expect("removed");
    let copy = on(&copy_disk).open("/env").expect("created");
    let mut told = 0;
    let copied = state.copy_into(&copy, &mut |_| told += 1).expect("copied");
    assert_eq!(copied.records, expected.values().map(|records| records.len() as u64).sum::<u64>());
    assert_eq!((copied.databases, told), (expected.len() as u64, 1));
    assert_eq!(all(&copy), expected);
    let order = copy.existing_database("backwards").expect("read").expect("there");
    assert_eq!(order.comparator(), Some("backwards"));
    copy.checkpoint().expect("written");
    let report = copy.verify(&mut |_| {}).expect("verified");
    assert_eq!((&report.problems[..], report.pages_unreachable), (&[][..], 0));
    // And a second time there is no room for it.
    assert_eq!(state.copy_into(&copy, &mut |_| {}).expect_err("there").kind(), ErrorKind::Exists);
}

#[test]
fn a_copy_made_beside_writers_becomes_what_they_made() {
    let (disk, copy_disk) = (SimDisk::new(3), SimDisk::new(4));
    let env = on(&disk).cache_size(4 << 20).open("/env").expect("created");
    fill(&env);
    let records = env.database("records").expect("there");
    let (stop, copy) = (AtomicBool::new(false), on(&copy_disk).open("/env").expect("created"));
    let follower = Follower::new(&copy, "origin").expect("made");
    std::thread::scope(|scope| {
        for writer in 0..2u32 {
            let (records, stop, env) = (&records, &stop, &env);
            scope.spawn(move || {
                for n in 0..u32::MAX {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = (n.wrapping_mul(7919) % 500 * 2 + writer).to_be_bytes();
                    if n % 3 == 0 {
                        records.remove(key).expect("removed");
                    } else {
                        records.insert(key, n.to_be_bytes()).expect("inserted");
                    }
                    if n % 200 == 0 {
                        env.database(&format!("new {writer} {n}"))
                            .expect("created")
                            .insert("a", "b")
                            .expect("inserted");
                    }
                }
            });
        }
        let mut changes = follower.copy(&env, &mut |_| {}).expect("copied");
        for _ in 0..200 {
            let commit = changes.next().expect("read").expect("nobody stops it");
            follower.apply(&commit).expect("applied");
        }
        stop.store(true, Ordering::Relaxed);
    });
    env.sync().expect("synced");
    // As one resumes in another process.
    let mut changes = env.changes(follower.position().expect("read").expect("copied")).expect("kept");
    while let Some(commit) = changes.try_next().expect("read") {
        follower.apply(&commit).expect("applied");
    }
    assert_eq!(all(&copy), all(&env));
    let error = follower.copy(&env, &mut |_| {}).expect_err("it follows already");
    assert_eq!(error.kind(), ErrorKind::Exists);
}

#[test]
fn a_range_of_a_hash_table_is_the_same_records_in_a_copy() {
    let [env, copy] = [9, 10].map(|seed| on(&SimDisk::new(seed)).open("/env").expect("created"));
    let hashed = env.database_as("hashed", Method::Hash).expect("created");
    hashed.bulk_load((0..500u32).map(|n| (n.to_be_bytes(), "value"))).expect("loaded");
    let follower = Follower::new(&copy, "origin").expect("made");
    let mut changes = follower.copy(&env, &mut |_| {}).expect("copied");
    assert_eq!(copy.existing_database("hashed").expect("read").expect("there").method(), Method::Hash);
    // In the order of hashes, which the copy has another of.
    let keys: Vec<_> = hashed.range(..).expect("read").map(|record| record.expect("read").0).collect();
    assert_eq!(hashed.remove_range(&keys[100][..]..&keys[300][..]).expect("removed"), 200);
    env.sync().expect("synced");
    while let Some(commit) = changes.try_next().expect("read") {
        follower.apply(&commit).expect("applied");
    }
    assert_eq!(all(&copy), all(&env));
    assert_eq!(hashed.clear().expect("cleared"), 300);
    env.sync().expect("synced");
    while let Some(commit) = changes.try_next().expect("read") {
        follower.apply(&commit).expect("applied");
    }
    assert_eq!(all(&copy), all(&env));
}

#[test]
fn a_copy_cut_short_by_a_power_failure_is_begun_again() {
    let disk = SimDisk::new(5);
    let env = on(&disk).open("/env").expect("created");
    fill(&env);
    let expected = all(&env);
    let calls = {
        let copy_disk = SimDisk::new(6);
        let copy = on(&copy_disk).cache_size(0).open("/env").expect("created");
        let before = copy_disk.calls();
        drop(
            Follower::new(&copy, "origin")
                .and_then(|follower| follower.copy(&env, &mut |_| {}))
                .expect("copied"),
        );
        copy_disk.calls() - before
    };
    assert!(calls > 15, "{calls} calls");
    let (mut cut_short, mut refused) = (0, 0);
    for after in 0..calls {
        let copy_disk = SimDisk::new(after);
        let copy = on(&copy_disk).cache_size(0).open("/env").expect("created");
        copy_disk.crash_at(copy_disk.calls() + after);
        let copied = Follower::new(&copy, "origin").and_then(|follower| follower.copy(&env, &mut |_| {}));
        cut_short += usize::from(copied.is_err());
        drop((copied, copy));
        let copy = on(&copy_disk.crash(after)).open("/env").expect("recovered");
        let follower = Follower::new(&copy, "origin").expect("made");
        if follower.position().expect("read").is_none() {
            let part = copy.snapshot().expect("a seat");
            if let Err(error) = part.copy_into(&Env::in_memory().expect("created"), &mut |_| {}) {
                assert_eq!(error.kind(), ErrorKind::NotAllowed);
                refused += 1;
            } else {
                assert_eq!(all(&copy), Contents::new(), "a part of it is not taken for all");
            }
            drop(part);
            drop(follower.copy(&env, &mut |_| {}).expect("copied"));
        }
        assert_eq!(all(&copy), expected, "after {after} calls");
        copy.keep_house().expect("kept");
        copy.checkpoint().expect("written");
        let report = copy.verify(&mut |_| {}).expect("verified");
        assert_eq!((&report.problems[..], report.pages_unreachable), (&[][..], 0), "after {after} calls");
    }
    assert!(cut_short > 5 && refused > 5, "{cut_short} and {refused} of {calls} calls");
}

#[test]
fn an_environment_with_databases_of_its_own_is_left_alone() {
    let (env, own) = [7, 8].map(|seed| on(&SimDisk::new(seed)).open("/env").expect("created")).into();
    fill_one(&own);
    let follower = Follower::new(&own, "origin").expect("made");
    for _ in 0..2 {
        assert_eq!(follower.copy(&env, &mut |_| {}).expect_err("there").kind(), ErrorKind::Exists);
    }
    assert_eq!(own.database("own").expect("there").len().expect("counted"), 1);
}

/// Whoever begins a copy again that was cut short removes what there is: that is to be its own.
#[test]
fn a_copy_begun_again_does_not_remove_that_of_another_origin() {
    let [one, other] = [9, 10].map(|seed| on(&SimDisk::new(seed)).open("/env").expect("created"));
    fill(&one);
    fill_one(&other);
    // It does not know the order of one of the databases.
    let copy = Env::builder().disk(Arc::new(SimDisk::new(11))).open("/env").expect("created");
    let of = |origin: &Env, name: &str| {
        Follower::new(&copy, name).and_then(|follower| follower.copy(origin, &mut |_| {})).map(drop)
    };
    assert_eq!(of(&one, "one").expect_err("cut short").kind(), ErrorKind::Invalid);
    let refused = of(&other, "other").expect_err("another has begun");
    assert!(refused.kind() == ErrorKind::Exists && refused.to_string().contains("\"one\""), "{refused}");
    assert!(all(&copy).is_empty());
    one.remove_database("backwards").expect("removed");
    of(&one, "one").expect("copied");
    assert_eq!(all(&copy), all(&one));
    assert_eq!(of(&other, "other").expect_err("there are databases").kind(), ErrorKind::Exists);
    assert_eq!(all(&copy), all(&one));
}

fn fill_one(env: &Env) {
    env.database("own").expect("created").insert("a", "b").expect("inserted");
}
