//! What programs leave in the cache.

use std::path::Path;
use std::sync::Arc;

use sablecat_os::sim::SimDisk;

use crate::env::{self, Config, Core, EnvMode};
use crate::{DataStore, Env};

const RECORDS: u32 = 20_000;
/// Of what is superseded, and of pages that are less full than the first time.
const MORE: usize = 300;

fn open(mode: EnvMode) -> Arc<Core> {
    let disk = Arc::new(SimDisk::new(1));
    let config = Config { disk, cache_bytes: Some(64 << 20), background: false, ..Config::default() };
    env::open(Path::new("records"), config, mode).unwrap()
}

/// In no order.
fn key(n: u32) -> [u8; 4] {
    n.wrapping_mul(0x9e37_79b1).to_be_bytes()
}

/// Records come and go, several times: no more of the cache is used than the first time. `used` says how many
/// frames some page has been in.
fn come_and_go(mut change: impl FnMut(u32, bool), used: impl Fn() -> usize) {
    (0..RECORDS).for_each(|n| change(n, true));
    let first = used();
    for _ in 0..4 {
        [false, true].into_iter().for_each(|comes| (0..RECORDS).for_each(|n| change(n, comes)));
        let again = used();
        assert!(again <= first + MORE, "{first} frames the first time, {again} now");
    }
}

#[test]
fn frames_of_pages_that_transactions_have_freed_are_used_again() {
    let env = Env::new(open(EnvMode::Transactional));
    let database = env.database("records").unwrap();
    let change = |n, comes| match comes {
        true => database.insert(key(n), [7; 100]).unwrap(),
        false => assert!(database.remove(key(n)).unwrap()),
    };
    come_and_go(change, || env.core().kernel.pages.frames_used());
}

#[test]
fn frames_of_pages_that_a_data_store_has_freed_are_used_again() {
    let core = open(EnvMode::DataStore);
    let mut store = DataStore::new(Arc::clone(&core));
    let database = store.database("records").unwrap();
    let change = |n, comes| match comes {
        true => store.insert(&database, key(n), [7; 100]).unwrap(),
        false => assert!(store.remove(&database, key(n)).unwrap()),
    };
    come_and_go(change, || core.kernel.pages.frames_used());
}
