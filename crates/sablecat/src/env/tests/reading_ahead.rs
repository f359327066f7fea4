//! What is asked for before it is wanted, and who reads it.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sablecat_os::disk::{Disk, How};
use sablecat_os::sim::SimDisk;

use crate::access::{Method, Scan};
use crate::env::config::{Config, EnvMode};
use crate::env::databases::{Asked, Named};
use crate::env::opening::Core;
use crate::env::opening::open::open;
use crate::txn::{Durability, RecordChange};
use crate::types::{BlockId, FrameId, PageId};

/// A core of which the records take more pages than its cache has.
fn larger_than_cache(method: Method, background: bool) -> (Arc<Core>, Arc<Named>) {
    larger_than_cache_on(&SimDisk::new(1), method, background)
}

fn larger_than_cache_on(disk: &SimDisk, method: Method, background: bool) -> (Arc<Core>, Arc<Named>) {
    let config = Config {
        disk: Arc::new(disk.clone()),
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

/// Pages that are not in memory, in the order of their blocks, as long as these are neighbours.
fn neighbours_out(core: &Core) -> Vec<PageId> {
    let entry = |page: PageId| core.kernel.pages.region().entry(page);
    let mut out: Vec<_> = (1..1000)
        .map(PageId)
        .filter(|&page| !is_in_memory(core, page) && entry(page).block().block() != BlockId::NONE)
        .collect();
    out.sort_by_key(|&page| entry(page).block().block().0);
    let blocks: Vec<_> = out.iter().map(|&page| entry(page).block().block().0).collect();
    let first = (0..).find(|&n| blocks[n + 7] == blocks[n] + 7).expect("some were written together");
    out.drain(first..first + 8).collect()
}

#[test]
fn one_page_that_is_damaged_keeps_no_other_from_being_read() {
    let disk = SimDisk::new(1);
    let (core, records) = larger_than_cache_on(&disk, Method::Btree, false);
    let pages = &core.kernel.pages;
    let asked = neighbours_out(&core);
    let place = pages.region().entry(asked[2]).block().block().within();
    let file = disk.open(&Path::new("larger").join("sablecat.db"), How::default()).unwrap();
    file.write_at(&[0xff; 64], place * pages.volume().unwrap().block_size() as u64 + 100).unwrap();
    let behind = (1..1000).map(PageId).filter(|page| !is_in_memory(&core, *page) && !asked.contains(page));
    let asked: Vec<_> = asked.iter().copied().chain(behind.take(3)).collect();
    pages.ask_for(&asked);
    pages.read_ahead(&pages.participants.sit().unwrap()).unwrap();
    let read: Vec<_> = asked.iter().map(|&page| is_in_memory(&core, page)).collect();
    assert_eq!(read.iter().position(|read| !read), Some(2), "{read:?}");
    assert_eq!(read.iter().filter(|read| !**read).count(), 1, "{read:?}");
    drop(records);
}

#[test]
fn what_there_are_no_frames_for_is_left_to_who_comes_to_it() {
    let (core, records) = larger_than_cache(Method::Btree, false);
    let pages = &core.kernel.pages;
    let (reader, other) = (pages.participants.sit().unwrap(), pages.participants.sit().unwrap());
    let asked = neighbours_out(&core);
    for _ in 0..3 {
        pages.sweep_all(&reader);
        pages.take_all_free(&other);
    }
    pages.ask_for(&asked);
    pages.read_ahead(&reader).unwrap();
    assert_eq!(pages.ahead.waiting(), asked);
    drop((reader, other, records));
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
