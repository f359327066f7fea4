//! The Data Store, which changes pages in place: what is left when a change fails on the way.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use sablecat::{DataStore, Database, Env, ErrorKind};
use sablecat_os::sim::{Fault, SimDisk};

/// What is to be found.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

struct Dice(u64);

impl Dice {
    fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        self.throw() % n
    }
}

/// One of some keys, short or nested once or several times, many with common beginnings.
fn key_of(n: u64) -> Vec<u8> {
    let shared = [0, 70, 150, 700, 20][(n % 5) as usize];
    let own = if n.is_multiple_of(3) { n % 400 } else { 0 };
    [
        vec![(n % 7) as u8; shared],
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec(),
        vec![n as u8; own as usize],
    ]
    .concat()
}

/// Short, long, or large.
fn value_of(dice: &mut Dice) -> Vec<u8> {
    let len = match dice.below(10) {
        0..=5 => dice.below(80),
        6..=7 => dice.below(600),
        8 => dice.below(5000),
        _ => dice.below(40_000),
    };
    vec![dice.throw() as u8; len as usize]
}

fn check(store: &DataStore, db: &Database<DataStore>, model: &Model, when: &str) {
    for (key, value) in model {
        let found = store
            .get(db, key)
            .unwrap_or_else(|error| panic!("{when}: a key of {} bytes: {error}", key.len()));
        assert!(found.as_ref() == Some(value), "{when}: a key of {} bytes", key.len());
    }
    assert_eq!(store.range(db, ..).unwrap().count(), model.len(), "{when}");
    assert_eq!(store.verify(&mut |_| {}).unwrap().problems, [""; 0], "{when}");
}

#[test]
fn whatever_fails_a_record_is_as_it_was_or_as_it_was_to_be() {
    for seed in 0..24 {
        let (mut dice, disk, mut model) = (Dice(seed), SimDisk::new(seed), Model::new());
        let (page, keys) =
            ([512, 1024, 4096][dice.below(3) as usize], [30, 300, 1500][dice.below(3) as usize]);
        let builder =
            Env::builder().disk(Arc::new(disk.clone())).page_size(page).cache_size(0).background(false);
        let mut store = builder.open_data_store("/env").unwrap();
        let db = store.database("d").unwrap();
        for n in 0..2000 {
            let when = format!("seed {seed}, step {n}, pages of {page} bytes, {keys} keys");
            let (key, at) = (key_of(dice.below(keys)), disk.calls() + 1 + dice.below(6));
            match dice.below(12) {
                0 => disk.fail_at(at, Fault::DiskFull),
                1 => disk.fail_at(at, Fault::Error(io::ErrorKind::Other)),
                2 => disk.fill_up(),
                _ => {}
            }
            // More comes for a while, then more goes.
            let removes = dice.below(10) < if n / 500 % 2 == 0 { 2 } else { 8 };
            let after = (!removes).then(|| value_of(&mut dice));
            let done = match (dice.below(100), &after) {
                (0, _) => store.checkpoint().map(|_| ()),
                (1, _) => store.compact().map(|_| ()),
                (_, Some(value)) => store.insert(&db, &key, value),
                (_, None) => store.remove(&db, &key).map(|_| ()),
            };
            disk.clear_faults();
            disk.set_capacity(u64::MAX);
            if done.is_err_and(|error| error.kind() == ErrorKind::Poisoned) {
                break;
            }
            let found = match store.get(&db, &key) {
                Err(error) if error.kind() == ErrorKind::Poisoned => break,
                found => {
                    found.unwrap_or_else(|error| panic!("{when}: a key of {} bytes: {error}", key.len()))
                }
            };
            assert!(
                found == after || found == model.get(&key).cloned(),
                "{when}: a key of {} bytes",
                key.len()
            );
            match found {
                Some(value) => _ = model.insert(key, value),
                None => _ = model.remove(&key),
            }
        }
        if store.checkpoint().is_ok() {
            check(&store, &db, &model, &format!("seed {seed}, at the end"));
            // Of what a failure could not give back, since the disk failed there too.
            store.compact().unwrap();
            let pages = store.verify(&mut |_| {}).unwrap().pages;
            assert_eq!(store.stats().unwrap().pages, pages, "seed {seed}: what failures have left is found");
        }
    }
}

#[test]
fn a_nested_key_keeps_its_value_if_there_is_no_room_for_another() {
    let mut store = Env::builder().cache_size(1 << 20).data_store_in_memory().unwrap();
    let db = store.database("d").unwrap();
    let (key, value) = (vec![7; 700], vec![1; 20_000]);
    store.insert(&db, &key, &value).unwrap();
    assert_eq!(store.insert(&db, &key, vec![2; 10_000_000]).unwrap_err().kind(), ErrorKind::CacheFull);
    assert_eq!(store.get(&db, &key).unwrap(), Some(value));
    assert_eq!(store.verify(&mut |_| {}).unwrap().problems, [""; 0]);
}

#[test]
fn an_insertion_that_fails_for_want_of_memory_takes_none() {
    let mut store = Env::builder().cache_size(1 << 20).data_store_in_memory().unwrap();
    let db = store.database("d").unwrap();
    let long = [vec![3; 700], vec![4; 60_000]];
    for key in [&b"short"[..], &long[0], &long[1]] {
        let before = store.stats().unwrap();
        for _ in 0..5 {
            assert_eq!(store.insert(&db, key, vec![1; 2_000_000]).unwrap_err().kind(), ErrorKind::CacheFull);
        }
        assert_eq!(store.stats().unwrap().pages, before.pages);
        // Three quarters of it.
        for n in 0..8_u32 {
            store.insert(&db, n.to_be_bytes(), vec![2; 98_304]).unwrap();
        }
        store.clear(&db).unwrap();
    }
    // Until it is full, by records that split pages.
    let mut n = 0_u32;
    let full = loop {
        match store.insert(&db, [&long[0][..], &n.to_be_bytes()].concat(), [1; 300]) {
            Ok(()) => n += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::CacheFull);
    let pages = store.stats().unwrap().pages;
    for n in 0..100_u32 {
        assert!(store.insert(&db, [&long[0][..], &n.to_be_bytes()].concat(), [1; 9000]).is_err());
        assert!(store.insert(&db, vec![n as u8; 60_000], "").is_err());
    }
    assert_eq!(store.stats().unwrap().pages, pages);
    assert_eq!(store.len(&db).unwrap(), u64::from(n));
    assert_eq!(store.verify(&mut |_| {}).unwrap().problems, [""; 0]);
    assert_eq!(store.clear(&db).unwrap(), u64::from(n));
}
