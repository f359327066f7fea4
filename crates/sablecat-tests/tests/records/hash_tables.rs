//! Hash tables through the public interface: beside B+trees, in threads, over reopenings and crashes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use sablecat::{Builder, Durability, Env, ErrorKind, Method, Prefix};
use sablecat_os::sim::{SimDisk, Survival};

fn builder(disk: &SimDisk) -> Builder {
    Env::builder()
        .disk(Arc::new(disk.clone()))
        .page_size(512)
        .log_segment_size(1 << 16)
        .durability(Durability::WriteNoSync)
        .background(false)
        .comparator("backwards", |one, other| other.cmp(one))
}

#[test]
fn a_database_is_what_it_was_made_as() {
    let disk = SimDisk::new(1);
    let env = builder(&disk).open("/env").unwrap();
    let hashed = env.database_as("hashed", Method::Hash).unwrap();
    assert_eq!((hashed.method(), env.database("plain").unwrap().method()), (Method::Hash, Method::Btree));
    assert_eq!(env.database("hashed").unwrap().method(), Method::Hash, "it exists");
    for (name, method) in [("hashed", Method::Btree), ("plain", Method::Hash)] {
        assert_eq!(env.database_as(name, method).unwrap_err().kind(), ErrorKind::Invalid);
        let mut txn = env.begin().unwrap();
        assert_eq!(txn.database_as(name, method).unwrap_err().kind(), ErrorKind::Invalid);
    }
    let error = env.database_ordered_by("hashed", "backwards").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let made = env.write(|txn| {
        let made = txn.database_as("made", Method::Hash)?;
        txn.insert(&made, "key", "value")?;
        assert_eq!(txn.get(&made, "key")?.as_deref(), Some(&b"value"[..]));
        assert_eq!(txn.range(&made, ..)?.count(), 1);
        Ok(made)
    });
    assert_eq!(made.unwrap().get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(env.stats().unwrap().methods, ["hash table", "hash table", "B+tree"]);
    drop((hashed, env));

    // All that are made from now on, but for those with a comparator.
    let env = builder(&disk).method(Method::Hash).open("/env").unwrap();
    assert_eq!(env.database("plain").unwrap().method(), Method::Btree);
    assert_eq!(env.database("new").unwrap().method(), Method::Hash);
    assert_eq!(env.database_ordered_by("ordered", "backwards").unwrap().method(), Method::Btree);
    assert_eq!(env.database("made").unwrap().get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn what_goes_by_neighbours_is_refused_or_goes_by_hashes() {
    let env = Env::in_memory().unwrap();
    let db = env.database_as("hashed", Method::Hash).unwrap();
    assert_eq!(db.bulk_load((0..500u32).map(|n| (n.to_le_bytes(), []))).unwrap(), 500);
    assert_eq!(db.range(Prefix("k")).unwrap_err().kind(), ErrorKind::Invalid);
    let all: Vec<_> = db.range(..).unwrap().map(|record| record.unwrap().0).collect();
    assert_eq!(all.len(), 500);
    assert!(!all.is_sorted());
    let mut back: Vec<_> = db.range(..).unwrap().rev().map(|record| record.unwrap().0).collect();
    back.reverse();
    assert_eq!(back, all);
    assert_eq!(db.first().unwrap().unwrap().0, all[0]);
    assert_eq!(db.last().unwrap().unwrap().0, all[499]);
    let part = (Bound::Excluded(all[99].clone()), Bound::Included(all[200].clone()));
    let found: Vec<_> = db.range(part).unwrap().map(|record| record.unwrap().0).collect();
    assert_eq!(found, all[100..=200]);
    let txn = env.snapshot().unwrap();
    let mut cursor = db.cursor();
    cursor.at_or_after(&txn, &all[250]).unwrap();
    assert_eq!(cursor.next(&txn).unwrap(), Some(&all[251][..]));
    assert_eq!(cursor.prev(&txn).unwrap(), Some(&all[250][..]));
    let twice = db.bulk_load([("a", ""), ("a", "")]).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::Invalid);
}

/// Each database hashes with a seed of its own: what stands together in one does not in another.
#[test]
fn seeds_differ() {
    let env = Env::in_memory().unwrap();
    let order = |name: &str| {
        let db = env.database_as(name, Method::Hash).unwrap();
        db.insert_batch((0..100u8).map(|n| ([n], []))).unwrap();
        db.range(..).unwrap().map(|record| record.unwrap().0).collect::<Vec<_>>()
    };
    assert_ne!(order("one"), order("other"));
}

/// Transactions of several threads over hash tables and a B+tree: no change is lost, and sums hold.
#[test]
fn threads_lose_nothing() {
    const THREADS: u64 = 4;
    const EACH: u64 = 400;
    let env = Env::builder().page_size(512).in_memory().unwrap();
    let (one, other) = (env.database_as("one", Method::Hash).unwrap(), env.database("other").unwrap());
    let number = |value: Option<Vec<u8>>| {
        value.map_or(0, |value| u64::from_le_bytes(value.try_into().expect("eight bytes")))
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (env, one, other) = (&env, &one, &other);
            scope.spawn(move || {
                for n in 0..EACH {
                    // Its own, so that the table grows; and one that all change.
                    one.insert([&b"own"[..], &(thread << 32 | n).to_le_bytes()].concat(), [7; 40]).unwrap();
                    env.write(|txn| {
                        let (from, to) = (n % 7, 100 + n % 11);
                        let have = number(txn.get(one, from.to_le_bytes())?);
                        txn.insert(one, from.to_le_bytes(), (have + 1).to_le_bytes())?;
                        let have = number(txn.get(other, to.to_le_bytes())?);
                        txn.insert(other, to.to_le_bytes(), (have + 1).to_le_bytes())
                    })
                    .unwrap();
                    if n % 3 == 0 {
                        assert!(
                            one.remove([&b"own"[..], &(thread << 32 | n).to_le_bytes()].concat()).unwrap()
                        );
                    }
                }
            });
        }
    });
    let sum = |keys: std::ops::Range<u64>, db: &sablecat::Database| -> u64 {
        keys.map(|key| number(db.get(key.to_le_bytes()).unwrap())).sum()
    };
    assert_eq!((sum(0..7, &one), sum(100..111, &other)), (THREADS * EACH, THREADS * EACH));
    let kept = EACH - EACH.div_ceil(3);
    assert_eq!(one.len().unwrap(), 7 + THREADS * kept);
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
}

/// After a crash the log has everything, with keys and values of all lengths.
#[test]
fn a_crash_loses_nothing_that_was_promised() {
    let disk = SimDisk::new(2);
    let env = builder(&disk).open("/env").unwrap();
    let db = env.database_as("hashed", Method::Hash).unwrap();
    let mut model = BTreeMap::new();
    for n in 0..1200u32 {
        let key = match n % 40 {
            0 => [&[b'k'; 200][..], &n.to_le_bytes()].concat(),
            1 => vec![n as u8; 44 + n as usize % 3],
            _ => n.to_le_bytes().to_vec(),
        };
        let value = vec![n as u8; if n % 100 == 0 { 5000 } else { n as usize % 60 }];
        db.insert(&key, &value).unwrap();
        model.insert(key, value);
        if n == 600 {
            env.checkpoint().unwrap();
        }
    }
    let gone: Vec<_> = model.keys().step_by(3).cloned().collect();
    for key in &gone {
        assert!(db.remove(key).unwrap());
        assert!(!db.remove(key).unwrap());
        model.remove(key);
    }
    let env = builder(&disk.crash_as(Survival::Everything, 1)).open("/env").unwrap();
    let db = env.existing_database("hashed").unwrap().expect("there");
    assert_eq!(db.method(), Method::Hash);
    let found: BTreeMap<_, _> = db.range(..).unwrap().map(Result::unwrap).collect();
    assert_eq!(found, model);
    let report = env.verify(&mut |_| {}).unwrap();
    assert_eq!((report.problems, report.records), (vec![], model.len() as u64));
    assert!(env.remove_database("hashed").unwrap());
    env.checkpoint().unwrap();
    let report = env.verify(&mut |_| {}).unwrap();
    assert_eq!((report.problems, report.pages_unreachable, report.pages), (vec![], 0, 1), "the catalog");
}

#[test]
fn a_bulk_load_of_no_records_is_one() {
    let env = Env::in_memory().expect("made");
    for method in [Method::Btree, Method::Hash, Method::Counted] {
        let database = env.database_as(&format!("{method:?}"), method).expect("made");
        let none = || std::iter::empty::<(&str, &str)>();
        assert_eq!(database.bulk_load(none()).expect("loaded"), 0);
        assert!(database.is_empty().expect("read"));
        assert_eq!(database.bulk_load([("key", "value")]).expect("loaded"), 1);
        assert_eq!(database.bulk_load(none()).expect_err("not empty").kind(), ErrorKind::Invalid);
    }
}
