//! Commits larger than the cache, which are built beside what there is, over the method of a sample.

use std::collections::BTreeMap;
use std::sync::Arc;

use sablecat::{Durability, Env, Method};
use sablecat_check::method;
use sablecat_os::sim::{SimDisk, Survival};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Changes most of a database, round after round, in commits that do not fit the cache, beside snapshots;
/// then closes, crashes and removes. `called` is what the method is called.
pub(crate) fn commits_are_done_or_not(of: Method, called: &str, key: fn(u32) -> Vec<u8>) {
    const NAME: &str = "records";
    method::choose(of);
    let disk = SimDisk::new(1);
    let open = |disk: &SimDisk| {
        let builder =
            method::builder().page_size(512).cache_size(0).background(false).log_segment_size(1 << 16);
        builder.durability(Durability::NoSync).disk(Arc::new(disk.clone())).open("env").expect("opened")
    };
    let assert_is = |env: &Env, model: &Model| {
        let db = env.database(NAME).expect("there");
        let found: Vec<_> = db.range(..).expect("begun").map(|record| record.expect("read")).collect();
        assert_eq!(found.len(), model.len());
        assert!(!method::has_neighbours() || found.is_sorted());
        assert_eq!(found.into_iter().collect::<Model>(), *model);
        assert!(model.iter().all(|(key, value)| db.get(key).expect("read").as_ref() == Some(value)));
    };
    let env = open(&disk);
    let db = env.database(NAME).expect("made");
    assert_eq!(env.stats().expect("read").methods, [called]);
    let mut model: Model = (0..1500).map(|n: u32| (key(n), n.to_le_bytes().to_vec())).collect();
    let records = (0..1500).map(|n| (key(n), n.to_le_bytes()));
    // In any order, if that will do.
    let loaded = if method::has_neighbours() { db.bulk_load(records) } else { db.bulk_load(records.rev()) };
    assert_eq!(loaded.expect("loaded"), 1500);
    assert_is(&env, &model);
    let value = |n: u32, round: u32| match n % 50 {
        0 => Some(vec![round as u8; 700]),
        // In the third round nearly all go, and pages are joined.
        _ if n % 7 == round || round == 3 && !n.is_multiple_of(40) => None,
        _ => Some(vec![round as u8; 30]),
    };
    for round in 1..4 {
        let seen = env.snapshot().expect("begun");
        let before = seen.len(&db).expect("read");
        let changed = || (0..1500).rev().filter(|n| n % 3 != round % 3 || round == 3);
        env.write(|txn| {
            changed().try_for_each(|n| match value(n, round) {
                Some(value) => txn.insert(&db, key(n), value),
                None => txn.remove(&db, key(n)).map(drop),
            })
        })
        .expect("written");
        for n in changed() {
            match value(n, round) {
                Some(value) => _ = model.insert(key(n), value),
                None => _ = model.remove(&key(n)),
            }
        }
        assert_eq!(seen.len(&db).expect("its pages are kept"), before);
        drop(seen);
        assert_is(&env, &model);
        // Of the last round nothing but the log knows.
        if round < 3 {
            env.checkpoint().expect("written");
            assert_eq!(env.verify(&mut |_| {}).expect("read").problems, [""; 0]);
        }
    }
    env.sync().expect("written");
    let env = open(&disk.crash_as(Survival::Nothing, 1));
    assert_is(&env, &model);
    env.checkpoint().expect("written");
    let report = env.verify(&mut |_| {}).expect("read");
    assert_eq!((report.problems, report.pages_unreachable), (Vec::new(), 0));
    assert!(env.remove_database(NAME).expect("removed"));
    env.checkpoint().expect("written");
    let report = env.verify(&mut |_| {}).expect("read");
    assert_eq!((report.problems, report.pages_unreachable, report.pages), (Vec::new(), 0, 1), "the catalog");
}
