//! How full pages are of records that came in order.

use std::sync::Arc;

use sablecat::{Database, Durability, Env, Result};
use sablecat_os::sim::SimDisk;

/// Of records of this size six fill nine tenths of a page. They come to many times the cache.
const VALUE: [u8; 610] = [7; 610];
const RECORDS: u32 = 3000;

/// How full the pages are, from 0 to 1, once `write` has set the records in this order.
fn fill_after(keys: Vec<u32>, write: impl FnOnce(&Env, &Database, Vec<u32>) -> Result<()>) -> f64 {
    let env = Env::builder()
        .disk(Arc::new(SimDisk::new(1)))
        .page_size(4096)
        .cache_size(0)
        .durability(Durability::NoSync)
        .background(false)
        .open("/env")
        .expect("created");
    let database = env.database("d").expect("created");
    write(&env, &database, keys).expect("written");
    assert_eq!(database.len().expect("counted"), u64::from(RECORDS));
    env.checkpoint().expect("written");
    assert_eq!(env.verify(&mut |_| {}).expect("verified").problems, [] as [String; 0]);
    database.stats().expect("estimated").fill()
}

fn one_by_one(_: &Env, database: &Database, keys: Vec<u32>) -> Result<()> {
    keys.into_iter().try_for_each(|n| database.insert(n.to_be_bytes(), VALUE).map(drop))
}

/// In a transaction that is larger than the cache, which is built beside the tree and sorts its records.
fn all_at_once(env: &Env, database: &Database, keys: Vec<u32>) -> Result<()> {
    let mut txn = env.begin()?;
    keys.into_iter().try_for_each(|n| txn.insert(database, n.to_be_bytes(), VALUE).map(drop))?;
    txn.commit().map(drop)
}

fn ascending() -> Vec<u32> {
    (0..RECORDS).collect()
}

fn descending() -> Vec<u32> {
    (0..RECORDS).rev().collect()
}

#[test]
fn records_in_ascending_order_leave_full_pages() {
    let fills = [fill_after(ascending(), one_by_one), fill_after(ascending(), all_at_once)];
    assert!(fills.iter().all(|fill| *fill > 0.85), "{fills:?}");
}

#[test]
fn records_in_descending_order_leave_full_pages() {
    let fills = [fill_after(descending(), one_by_one), fill_after(descending(), all_at_once)];
    assert!(fills.iter().all(|fill| *fill > 0.85), "{fills:?}");
}
