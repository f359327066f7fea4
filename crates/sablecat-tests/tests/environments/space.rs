//! What nobody can reach is given back, whatever was cut short.

use std::cell::RefCell;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sablecat::{Database, Durability, Env, ErrorKind, Method};
use sablecat_os::sim::{SimDisk, Survival};

const RECORDS: u32 = 20_000;

fn open(disk: &Arc<SimDisk>) -> Env {
    Env::builder()
        .disk(Arc::clone(disk) as Arc<_>)
        .background(false)
        .log_segment_size(1 << 16)
        .open("env")
        .expect("opened")
}

fn records(count: u32) -> impl Iterator<Item = ([u8; 4], Vec<u8>)> {
    (0..count).map(|n| (n.to_be_bytes(), vec![n as u8; if n % 1000 == 999 { 200_000 } else { 100 }]))
}

/// The disk as it is if everybody is killed now, and the machine goes on.
fn killed(disk: &SimDisk) -> Arc<SimDisk> {
    Arc::new(disk.crash_as(Survival::Everything, 1))
}

/// Loads, and has `at` called before the record of that number; false if that panics.
fn load(db: &Database, stop: u32, at: impl Fn()) -> bool {
    let records = records(RECORDS)
        .enumerate()
        .inspect(|(n, _)| {
            if *n as u32 == stop {
                at()
            }
        })
        .map(|(_, record)| record);
    catch_unwind(AssertUnwindSafe(|| db.bulk_load(records).expect("loaded"))).is_ok()
}

fn unreachable(env: &Env) -> u64 {
    let report = env.verify(&mut |_| {}).expect("verified");
    assert_eq!(report.problems, [""; 0]);
    report.pages_unreachable
}

#[test]
fn a_bulk_load_that_was_killed_after_a_checkpoint_keeps_no_space() {
    let disk = Arc::new(SimDisk::new(1));
    let env = open(&disk);
    env.database("other").unwrap().insert("k", "v").unwrap();
    env.compact().unwrap();
    let before = env.stats().unwrap().volume_bytes;
    let db = env.database("loaded").unwrap();
    let left = RefCell::new(None);
    assert!(load(&db, RECORDS - 1, || {
        env.checkpoint().unwrap();
        *left.borrow_mut() = Some(killed(&disk));
    }));
    let left = left.into_inner().expect("it came so far");
    let env = open(&left);
    assert_eq!(env.database("loaded").unwrap().len().unwrap(), 0);
    assert!(env.stats().unwrap().volume_bytes > 10 * before);
    env.compact().unwrap();
    assert_eq!(unreachable(&env), 0);
    assert!(env.stats().unwrap().volume_bytes <= before + 65536, "but for what a file grows by");
    assert_eq!(env.database("other").unwrap().get("k").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn a_panic_in_the_records_of_a_bulk_load_keeps_no_space() {
    for (stop, checkpoint) in [(0, false), (500, false), (1500, true), (RECORDS - 1, true)] {
        let disk = Arc::new(SimDisk::new(1));
        let env = open(&disk);
        let db = env.database("loaded").unwrap();
        assert!(!load(&db, stop, || {
            if checkpoint {
                env.checkpoint().unwrap();
            }
            panic!("the records end here");
        }));
        env.checkpoint().unwrap();
        assert_eq!((unreachable(&env), db.len().unwrap()), (0, 0), "{stop}");
        assert!(load(&db, 0, || ()));
        assert_eq!((unreachable(&env), db.len().unwrap()), (0, u64::from(RECORDS)), "{stop}");
    }
}

/// A long value may be stored and not published yet, pages published and not named by a checkpoint yet.
#[test]
fn a_bulk_load_keeps_no_space_wherever_it_is_killed() {
    for stop in (0..RECORDS).step_by(2311).chain([999, 1000, 2000]) {
        let disk = Arc::new(SimDisk::new(1));
        let env = open(&disk);
        let db = env.database("loaded").unwrap();
        let left = RefCell::new(Vec::new());
        assert!(load(&db, stop, || {
            left.borrow_mut().push(killed(&disk));
            env.checkpoint().unwrap();
            left.borrow_mut().push(killed(&disk));
        }));
        for (n, left) in left.into_inner().iter().enumerate() {
            let env = open(left);
            env.compact().unwrap();
            assert_eq!(
                (unreachable(&env), env.database("loaded").unwrap().len().unwrap()),
                (0, 0),
                "{stop}, {n}"
            );
            env.close().unwrap();
            let env = open(left);
            env.compact().unwrap();
            assert_eq!(env.stats().unwrap().pages, 2, "the roots of the catalog and the database");
        }
    }
}

#[test]
fn what_a_bulk_load_in_progress_has_made_is_not_freed_under_it() {
    for stop in [0, 700, 5000, RECORDS - 1] {
        let disk = Arc::new(SimDisk::new(1));
        let env = open(&disk);
        let db = env.database("loaded").unwrap();
        assert!(load(&db, stop, || {
            env.checkpoint().unwrap();
            assert_eq!(env.compact().unwrap().pages_freed, 0);
        }));
        assert_eq!(unreachable(&env), 0);
        let found: Vec<_> = db.range(..).unwrap().collect::<sablecat::Result<_>>().unwrap();
        assert!(found.into_iter().eq(records(RECORDS).map(|(key, value)| (key.to_vec(), value))));
    }
}

/// Whoever compacts looks at pages that others are making, freeing, loading, and reading at old states.
#[test]
fn what_nothing_leads_to_is_freed_while_others_work() {
    let disk = Arc::new(SimDisk::new(1));
    let env = open(&disk);
    let left = RefCell::new(None);
    assert!(load(&env.database("lost").unwrap(), RECORDS / 2, || {
        env.checkpoint().unwrap();
        *left.borrow_mut() = Some(killed(&disk));
    }));
    let env = Env::builder()
        .disk(left.into_inner().expect("it came so far"))
        .cache_size(8 << 20)
        .log_segment_size(1 << 16)
        .open("env")
        .unwrap();
    let before = unreachable(&env);
    assert!(before > 100);
    let freed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let work = [0, 1].map(|mine| {
            let env = &env;
            scope.spawn(move || {
                let db = env.database(&format!("work {mine}")).unwrap();
                for round in 0..60u32 {
                    (0..50u32).for_each(|n| {
                        db.insert((n * 7 + round).to_be_bytes(), vec![round as u8; (n * 97) as usize])
                            .unwrap()
                    });
                    db.insert("large", vec![round as u8; 300_000]).unwrap();
                    let snapshot = env.snapshot().unwrap();
                    (0..50u32).for_each(|n| _ = db.remove((n * 5 + round).to_be_bytes()).unwrap());
                    if round % 10 == 9 {
                        let name = format!("loaded {mine}");
                        let loaded = env.database(&name).unwrap();
                        assert_eq!(
                            load(&loaded, 2000, || if round == 19 {
                                panic!("the records end here")
                            }),
                            round != 19
                        );
                        env.remove_database(&name).unwrap();
                    }
                    drop(snapshot);
                }
            })
        });
        while !work.iter().all(|thread| thread.is_finished()) {
            freed.fetch_add(env.compact().unwrap().pages_freed, Ordering::SeqCst);
        }
    });
    freed.fetch_add(env.compact().unwrap().pages_freed, Ordering::SeqCst);
    assert_eq!(unreachable(&env), 0);
    assert!(freed.into_inner() >= before);
}

/// To remove a database takes room for a moment, and so does giving back its pages.
#[test]
fn a_memory_that_a_database_has_filled_is_free_again_when_that_is_removed() {
    let env = Env::builder().cache_size(1 << 20).in_memory().unwrap();
    let filled = || {
        let db = env.database("full").unwrap();
        let (count, error) = (0u32..)
            .find_map(|n| db.insert(n.to_be_bytes(), [7; 100]).err().map(|error| (n, error)))
            .unwrap();
        assert_eq!(error.kind(), ErrorKind::CacheFull);
        drop(db);
        assert!(env.remove_database("full").unwrap());
        count
    };
    let first = filled();
    (0..3).for_each(|_| assert_eq!(filled(), first));
}

/// The pages of a new database are committed before its name is, whose commit may have no room beside them.
#[test]
fn a_database_is_made_in_a_full_memory_or_refused() {
    for _ in 0..3 {
        let env = Env::builder().cache_size(400 * 512).page_size(512).in_memory().unwrap();
        let db = env.database_as("records", Method::Hash).unwrap();
        let mut failures = 0;
        for n in 0..u32::MAX {
            failures += u32::from(db.insert(n.wrapping_mul(0x9e37_79b1).to_be_bytes(), [1; 20]).is_err());
            if failures == 5 {
                break;
            }
        }
        match env.database("another") {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::CacheFull, "{error}"),
        }
        assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
    }
}

/// All frames have pages in the end, however many there are.
#[test]
fn a_large_memory_is_filled_to_its_end() {
    const FRAMES: u64 = 160_000;
    let env = Env::builder().cache_size(FRAMES * 512).page_size(512).in_memory().unwrap();
    let db = env.database("full").unwrap();
    // Of one of each a leaf is full.
    let fill = |first: u64| {
        env.write(|txn| (first..first + 100).try_for_each(|n| txn.insert(&db, n.to_be_bytes(), [7; 400])))
    };
    let error = (0..).step_by(100).find_map(|first| fill(first).err()).expect("it ends");
    assert_eq!(error.kind(), ErrorKind::CacheFull);
    assert!(env.stats().unwrap().pages > FRAMES * 9 / 10, "{}", env.stats().unwrap().pages);
    let report = env.verify(&mut |_| {}).expect("verified");
    assert!(report.problems.is_empty(), "{report:?}");
}

/// Of a few pages and the map of them: not of the beginning of the file, which no page can have.
#[test]
fn blocks_in_use_are_those_of_pages_and_of_their_map() {
    let disk = Arc::new(SimDisk::new(1));
    let env = open(&disk);
    env.database("d").unwrap().insert("k", "v").unwrap();
    env.checkpoint().unwrap();
    let stats = env.stats().unwrap();
    assert!(
        stats.pages < stats.blocks && stats.blocks < 3 * stats.pages + 8,
        "{} pages, {} blocks",
        stats.pages,
        stats.blocks
    );
    assert!(stats.blocks * stats.page_size <= stats.volume_bytes);
}

/// A call that shows nothing before it has ended can have any newest state.
#[test]
fn a_single_read_whose_snapshot_is_given_up_is_made_at_another() {
    const READS: u64 = 0;
    const BEGUN: u64 = 1;
    const REACHED: u64 = 2;
    let held = Arc::new(AtomicU64::new(READS));
    let compare = {
        let held = Arc::clone(&held);
        move |a: &[u8], b: &[u8]| {
            // In the middle of the first read, until its snapshot is given up.
            if held.compare_exchange(BEGUN, REACHED, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                while held.load(Ordering::SeqCst) == REACHED {
                    std::thread::yield_now();
                }
            }
            a.cmp(b)
        }
    };
    let env = Env::builder()
        .disk(Arc::new(SimDisk::new(1)))
        .page_size(512)
        .cache_size(0)
        .background(false)
        .durability(Durability::Memory)
        .comparator("held", compare)
        .open("/env")
        .expect("created");
    let read = env.database_ordered_by("read", "held").expect("created");
    for n in 0..200u32 {
        read.insert(n.to_be_bytes(), [1; 50]).expect("set");
    }
    let other = env.database("other").expect("created");
    for n in 0..2000u32 {
        other.insert(n.to_be_bytes(), [1; 80]).expect("set");
    }
    let reads: [fn(&Database) -> u64; 3] = [
        |read| u64::from(read.at_or_after(50u32.to_be_bytes()).expect("read").is_some()),
        |read| u64::from(read.at_or_before(50u32.to_be_bytes()).expect("read").is_some()),
        |read| {
            sablecat::Read::count(read.env(), read, 40u32.to_be_bytes()..41u32.to_be_bytes()).expect("read")
        },
    ];
    for one in reads {
        let before = env.counters().snapshots_given_up;
        held.store(BEGUN, Ordering::SeqCst);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| one(&read));
            while held.load(Ordering::SeqCst) == BEGUN {
                std::thread::yield_now();
            }
            let mut n = 0u32;
            while env.counters().snapshots_given_up == before {
                // There is no room while the reader is where it is.
                let _ = read.insert((n % 200).to_be_bytes(), n.to_be_bytes().repeat(12));
                let _ = other.insert((n % 2000).to_be_bytes(), n.to_be_bytes().repeat(20));
                n += 1;
            }
            held.store(READS, Ordering::SeqCst);
            assert_eq!(reader.join().expect("it has read"), 1);
        });
    }
}

/// Whole segments are made ready where that is cheap, once the log has grown; memory is not.
#[test]
fn a_log_in_memory_takes_little_more_than_it_has() {
    const WRITTEN: usize = 6 << 20;
    let dir = PathBuf::from(format!("/dev/shm/sablecat-test-log-in-memory-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let env = Env::builder().durability(Durability::WriteNoSync).open(&dir).expect("opened");
    let db = env.database("values").expect("a database");
    for n in 0..WRITTEN / 1000 {
        db.insert(n.to_be_bytes(), [n as u8; 1000]).expect("set");
    }
    let segments = std::fs::read_dir(dir.join("log")).expect("a directory");
    let taken: u64 =
        segments.map(|entry| entry.expect("a file").metadata().expect("a file").blocks() * 512).sum();
    assert!((WRITTEN as u64..2 * WRITTEN as u64).contains(&taken), "{taken} bytes");
    drop(env);
    std::fs::remove_dir_all(&dir).expect("removed");
}
