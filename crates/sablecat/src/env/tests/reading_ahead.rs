//! What is asked for before it is wanted, and who reads it.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sablecat_os::sim::SimDisk;

use crate::access::{Method, Scan};
use crate::env::config::{Config, EnvMode};
use crate::env::databases::{Asked, Named};
use crate::env::opening::Core;
use crate::env::opening::open::open;
use crate::txn::{Durability, RecordChange};
use crate::types::{FrameId, PageId};

/// A core of which the records take more pages than its cache has.
fn larger_than_cache(method: Method, background: bool) -> (Arc<Core>, Arc<Named>) {
    let config = Config {
        disk: Arc::new(SimDisk::new(1)),
        cache_bytes: Some(1 << 21),
        // Nobody else rings for the thread that keeps house.
        flush_interval: Duration::from_secs(3600),
        background,
        ..Config::default()
    };
    let core = open(Path::new("larger"), config, EnvMode::Transactional).unwrap();
    let records = core.database_or_new("records", Asked::arranged_as(method)).unwrap();
    for n in 0..30_000u32 {
        let change = RecordChange::Put(&[7; 150]);
        core.kernel.change_one(&records.tree, &n.to_be_bytes(), change, Durability::Memory).unwrap();
    }
    (core, records)
}

fn is_in_memory(core: &Core, page: PageId) -> bool {
    core.kernel.pages.region().entry(page).word().frame() != FrameId::NONE
}

/// Although the thread that starts those that read sleeps for an hour, but for what it is called for.
#[test]
fn threads_read_what_is_asked_for() {
    let (core, records) = larger_than_cache(Method::Btree, true);
    let out: Vec<_> = (1..500).map(PageId).filter(|&page| !is_in_memory(&core, page)).take(8).collect();
    assert_eq!(core.kernel.pages.ask_for(&out), 8);
    let begun = sablecat_os::clock::monotonic();
    while !out.iter().all(|&page| is_in_memory(&core, page)) {
        assert!(sablecat_os::clock::monotonic() - begun < Duration::from_secs(60), "nobody has come");
        sablecat_os::atomic::pause(Duration::from_millis(1));
    }
    drop(records);
    core.close().unwrap();
}

/// Where nobody reads ahead of them, what they have asked for waits until they come to it.
#[test]
fn walks_ask_for_what_they_will_come_to() {
    for method in [Method::Btree, Method::Hash] {
        let (core, records) = larger_than_cache(method, false);
        let txn = super::begin(&core);
        let state = &mut txn.records.committed();
        for forward in [true, false] {
            let mut walk = Scan::new(Bound::Unbounded, Bound::Unbounded);
            let mut seen = 0;
            let mut next = || walk.next(&records.tree.tree(), state, forward).unwrap();
            let mut waiting = Vec::new();
            while waiting.is_empty() && next().is_some() {
                seen += 1;
                waiting = core.kernel.pages.ahead.waiting();
            }
            assert!(seen < 20_000, "{method}: {seen} records");
            assert!(waiting.iter().all(|&page| !is_in_memory(&core, page)));
            while next().is_some() {
                seen += 1;
            }
            assert_eq!(seen, 30_000);
            assert!(waiting.iter().all(|page| !core.kernel.pages.ahead.waiting().contains(page)));
        }
        drop((txn, records));
        core.close().unwrap();
    }
}

/// It would wait there for whoever comes to it.
#[test]
fn nothing_is_asked_for_beyond_a_range() {
    for method in [Method::Btree, Method::Hash] {
        let (core, records) = larger_than_cache(method, false);
        let txn = super::begin(&core);
        let state = &mut txn.records.committed();
        let mut walk = |from, to, forward| {
            let mut walk = Scan::new(from, to);
            std::iter::from_fn(|| walk.next(&records.tree.tree(), state, forward).unwrap())
                .map(|(key, _)| key)
                .collect::<Vec<_>>()
        };
        let keys = walk(Bound::Unbounded, Bound::Unbounded, true);
        for (n, forward) in (1..20).flat_map(|n| [(1000 * n, true), (1000 * n, false)]) {
            let (from, to) = (keys[n].clone(), keys[n + 700].clone());
            assert_eq!(walk(Bound::Included(from), Bound::Excluded(to), forward).len(), 700);
            assert_eq!(core.kernel.pages.ahead.waiting(), [], "{method}, {n}, {forward}");
        }
        drop((txn, records));
        core.close().unwrap();
    }
}
