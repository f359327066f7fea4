//! Walks over more than the cache holds ask for pages before they come to them, and read those together that
//! lie next to each other.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use sablecat::{Database, Durability, Env, ErrorKind, Read};
use sablecat_os::disk::{Disk, How};
use sablecat_os::sim::SimDisk;

const PAGE: usize = 2048;
const RECORDS: u32 = 30_000;
/// Pages that the cache holds when they are read.
const CACHE: u64 = 512;
/// In one leaf.
const TOGETHER: u64 = 18;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn value(n: u32) -> Vec<u8> {
    vec![n as u8; 100]
}

fn open(disk: &SimDisk, cache_pages: u64) -> Env {
    Env::builder()
        .page_size(PAGE)
        .background(false)
        .cache_size(cache_pages * PAGE as u64)
        .log_segment_size(1 << 22)
        .durability(Durability::NoSync)
        .disk(Arc::new(disk.clone()))
        .open("env")
        .expect("opened")
}

/// An environment in which records were inserted in order, and written by one checkpoint; opened anew.
fn filled(disk: &SimDisk) -> (Env, Database) {
    let env = open(disk, 8192);
    let records = env.database("records").expect("made");
    for part in 0..RECORDS / 100 {
        env.write(|txn| {
            (part * 100..part * 100 + 100).try_for_each(|n| txn.insert(&records, key(n), value(n)))
        })
        .expect("committed");
    }
    drop(records);
    env.close().expect("closed");
    let env = open(disk, CACHE);
    let records = env.existing_database("records").expect("read").expect("made");
    (env, records)
}

/// How many calls of the disk something takes.
fn calls(disk: &SimDisk, work: impl FnOnce()) -> u64 {
    let before = disk.calls();
    work();
    disk.calls() - before
}

fn visited(records: &Database, back: bool) -> Vec<u32> {
    let mut seen = Vec::new();
    let see = |key: &[u8], value_there: &[u8]| {
        let n = u32::from_be_bytes(key.try_into().expect("of four bytes"));
        assert_eq!(value_there, value(n));
        seen.push(n);
        ControlFlow::Continue(())
    };
    if back { records.visit_back(.., see) } else { records.visit(.., see) }.expect("visited");
    seen
}

#[test]
fn walks_read_neighbouring_pages_together() {
    let disk = SimDisk::new(1);
    let (_env, records) = filled(&disk);
    let all = 0..RECORDS;
    let number =
        |pair: sablecat::Result<(Vec<u8>, Vec<u8>)>| u32::from_be_bytes(pair.unwrap().0.try_into().unwrap());
    let took = [
        calls(&disk, || assert!(visited(&records, false).into_iter().eq(all.clone()))),
        calls(&disk, || assert!(visited(&records, true).into_iter().eq(all.clone().rev()))),
        calls(&disk, || assert!(records.range(..).unwrap().map(number).eq(all.clone()))),
        calls(&disk, || assert!(records.range(..).unwrap().rev().map(number).eq(all.clone().rev()))),
        calls(&disk, || assert_eq!(records.count(..).unwrap(), u64::from(RECORDS))),
    ];
    let leaves = u64::from(RECORDS) / TOGETHER;
    assert!(took.iter().all(|&took| took < leaves / 3), "{took:?} of {leaves}");
}

/// A visit may be one of several that each go on where the one before ended.
#[test]
fn visits_that_go_on_read_as_one_does() {
    let disk = SimDisk::new(1);
    let (env, records) = filled(&disk);
    let snapshot = env.snapshot().unwrap();
    let took = calls(&disk, || {
        let mut next = 0;
        while next < RECORDS {
            let (from, mut left) = (key(next), 20);
            let each = |_: &[u8], _: &[u8]| {
                (next, left) = (next + 1, left - 1);
                if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            Read::visit(&snapshot, &records, from.as_slice().., each).unwrap();
        }
    });
    let leaves = u64::from(RECORDS) / TOGETHER;
    assert!(took < leaves / 3, "{took} of {leaves}");
}

#[test]
fn a_short_walk_reads_nothing_in_vain() {
    let disk = SimDisk::new(1);
    let (_env, records) = filled(&disk);
    let walk = |from: u32, many: usize| {
        calls(&disk, || assert_eq!(records.range(key(from)..).unwrap().take(many).count(), many))
    };
    // The way down, which the second finds in memory.
    walk(1000, 1);
    assert_eq!(walk(1200, 1), 1);
    assert!(walk(1400, 5 * TOGETHER as usize) <= 6);
    // A range's end is known: nothing beyond it is asked for.
    let bounded = |from: u32, to: u32| {
        calls(&disk, || assert_eq!(records.range(key(from)..key(to)).unwrap().count(), (to - from) as usize))
    };
    let (to, leaf) = (2000 + 12 * TOGETHER as u32, TOGETHER as usize);
    bounded(2000, to);
    let mut beyond = (to..to + 4 * TOGETHER as u32).step_by(leaf).skip(1);
    assert!(beyond.all(|n| calls(&disk, || _ = records.get(key(n)).unwrap()) == 1));
    let bounded_back = |from: u32, to: u32| {
        assert_eq!(records.range(key(from)..key(to)).unwrap().rev().count(), (to - from) as usize)
    };
    bounded_back(9000, 9000 + 12 * TOGETHER as u32);
    let mut beyond = (9000 - 4 * TOGETHER as u32..9000).step_by(leaf).rev().skip(1);
    assert!(beyond.all(|n| calls(&disk, || _ = records.get(key(n)).unwrap()) == 1));
}

#[test]
fn a_transaction_of_many_records_asks_for_their_pages() {
    let disk = SimDisk::new(1);
    let (env, records) = filled(&disk);
    let leaves = 100;
    let took = calls(&disk, || {
        env.write(|txn| {
            (0..leaves).try_for_each(|n| txn.insert(&records, key(2000 + n * TOGETHER as u32), [1; 100]))
        })
        .unwrap();
    });
    assert!(took < u64::from(leaves) / 3, "{took} of {leaves}");
    for n in 2000..2000 + leaves * TOGETHER as u32 {
        let expected = if (n - 2000) % TOGETHER as u32 == 0 { vec![1; 100] } else { value(n) };
        assert_eq!(records.get(key(n)).unwrap().unwrap(), expected);
    }
}

#[test]
fn what_is_wrong_with_a_page_is_said_once_it_is_wanted() {
    let disk = SimDisk::new(1);
    let (env, records) = filled(&disk);
    drop(records);
    env.close().unwrap();
    // Where some record's value is, of which there is one in the file.
    let file = disk.open(&Path::new("env").join("sablecat.db"), How::default()).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    let pattern = [&key(3000)[2..], &value(3000)[..60]].concat();
    let at = bytes.windows(60).position(|window| *window == pattern[2..]).unwrap();
    file.write_at(&[0xff], at as u64).unwrap();
    drop(file);

    let env = open(&disk, CACHE);
    let records = env.existing_database("records").unwrap().unwrap();
    let mut seen = 0;
    let walked = records.visit(.., |_, _| {
        seen += 1;
        ControlFlow::Continue(())
    });
    assert_eq!(walked.unwrap_err().kind(), ErrorKind::Corruption);
    // All before it, and all behind it, can be read.
    let damaged: Vec<u32> = (0..RECORDS).filter(|&n| records.get(key(n)).is_err()).collect();
    assert!(!damaged.is_empty() && damaged.len() <= 2 * TOGETHER as usize, "{damaged:?}");
    assert_eq!(damaged.first(), Some(&seen));
    let behind = damaged.last().unwrap() + 1;
    assert_eq!(records.count(key(behind)..).unwrap(), u64::from(RECORDS - behind));
}
