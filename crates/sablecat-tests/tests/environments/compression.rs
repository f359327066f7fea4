//! Compressed pages: what they take of the file system, how the setting is kept and changed, and that nothing
//! else is different: on full disks, with crashes, copies, keys, several processes, and without holes.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sablecat::{Builder, Compression, Durability, Env, ErrorKind, Journal, Place, Target};
use sablecat_os::disk::{Disk, How};
use sablecat_os::sim::{SimDisk, Survival};

const KINDS: [Compression; 2] = [Compression::Lz4, Compression::zstd()];
const VOLUME: &str = "env/sablecat.db";

pub(super) fn builder(disk: &Arc<SimDisk>) -> Builder {
    Env::builder().disk(Arc::clone(disk) as Arc<_>).background(false).durability(Durability::NoSync)
}

/// Words as people use them: few of them often, many seldom.
fn text(n: u32, words: usize) -> Vec<u8> {
    const WORDS: [&str; 24] = [
        "the",
        "of",
        "and",
        "to",
        "in",
        "that",
        "is",
        "was",
        "for",
        "page",
        "block",
        "record",
        "with",
        "whole",
        "commit",
        "reader",
        "writer",
        "volume",
        "written",
        "between",
        "nothing",
        "checkpoint",
        "compression",
        "environment",
    ];
    let mut dice = u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: u64| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        (dice >> 11) % below
    };
    let mut text = String::new();
    for _ in 0..words {
        let rank = next(WORDS.len() as u64).min(next(WORDS.len() as u64));
        text.push_str(WORDS[rank as usize]);
        text.push(' ');
        if next(12) == 0 {
            text.push_str(&next(100_000).to_string());
        }
    }
    text.into_bytes()
}

/// What no compressor makes smaller.
pub(super) fn noise(n: u32, len: usize) -> Vec<u8> {
    let mut dice = u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = std::iter::from_fn(|| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        Some((dice.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8)
    });
    next.take(len).collect()
}

pub(super) type Model = BTreeMap<u32, Vec<u8>>;

pub(super) fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

pub(super) fn put(env: &Env, records: impl IntoIterator<Item = (u32, Vec<u8>)>, model: &mut Model) {
    let db = env.database("records").unwrap();
    for (n, value) in records {
        db.insert(key(n), &value).unwrap();
        model.insert(n, value);
    }
}

pub(super) fn check(env: &Env, model: &Model) {
    let db = env.database("records").unwrap();
    let found: Vec<_> = db.range(..).unwrap().collect::<sablecat::Result<_>>().unwrap();
    assert!(found.into_iter().eq(model.iter().map(|(n, value)| (key(*n).to_vec(), value.clone()))));
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
}

/// Bytes of the main volume's file, and how many it takes.
fn sizes(disk: &SimDisk) -> (u64, u64) {
    let file = disk.open(Path::new(VOLUME), How::default()).unwrap();
    (file.len().unwrap(), file.space().unwrap())
}

#[test]
fn text_takes_half_and_noise_as_much_as_before() {
    for page_size in [8192, 16384, 32768, 65536] {
        for how in KINDS {
            let occupied = |how, value: &dyn Fn(u32) -> Vec<u8>| {
                let disk = Arc::new(SimDisk::new(1));
                let mut model = Model::new();
                let open = || builder(&disk).page_size(page_size).compression(how).open("env").unwrap();
                let env = open();
                put(&env, (0..3000).map(|n| (n, value(n))), &mut model);
                // A long value has pages of its own, which do not go through the cache.
                put(&env, [(5000, value(1).repeat(1000))], &mut model);
                env.close().unwrap();
                let env = open();
                check(&env, &model);
                let stats = env.stats().unwrap();
                assert_eq!(stats.volumes[0].compression, how);
                assert_eq!(stats.occupied_bytes, sizes(&disk).1);
                env.close().unwrap();
                sizes(&disk)
            };
            let plain = occupied(Compression::None, &|n| text(n, 60));
            let small = occupied(how, &|n| text(n, 60));
            assert!(plain.0 - plain.1 < 131_072, "but between superblocks there are no holes");
            assert!(
                small.1 * 10 < plain.1 * if page_size == 8192 { 9 } else { 7 },
                "{how}, {page_size}: {small:?} of {plain:?}"
            );
            let (plain, same) =
                (occupied(Compression::None, &|n| noise(n, 300)), occupied(how, &|n| noise(n, 300)));
            assert!(same.1 <= plain.1 + (1 << 17), "{how}, {page_size}: {same:?} of {plain:?}");
        }
    }
}

#[test]
fn the_setting_is_kept_and_can_be_changed_in_either_direction() {
    let disk = Arc::new(SimDisk::new(1));
    let mut model = Model::new();
    let open = |how: Option<Compression>| {
        let builder = builder(&disk).page_size(16384);
        how.into_iter().fold(builder, Builder::compression).open("env").unwrap()
    };
    let mark = || {
        let newest = |at| {
            let mut bytes = [0; 4096];
            disk.open(Path::new(VOLUME), How::default()).unwrap().read_at(&mut bytes, at).unwrap();
            (u64::from_le_bytes(bytes[48..56].try_into().unwrap()), bytes[81])
        };
        newest(0).max(newest(65536)).1
    };
    let zstd = Compression::Zstd { level: 1 };
    // What is asked for, what it is then, and what is marked.
    let openings = [
        (None, Compression::None, 0),
        (Some(Compression::None), Compression::None, 0),
        (Some(Compression::Lz4), Compression::Lz4, 0x10),
        (None, Compression::Lz4, 0x10),
        (Some(zstd), zstd, 0x30),
        (None, zstd, 0x30),
        (Some(Compression::None), Compression::None, 0x30),
        (None, Compression::None, 0x30),
        (Some(Compression::zstd()), Compression::zstd(), 0x30),
    ];
    for (round, (asked, is, marked)) in (0..).zip(openings) {
        let env = open(asked);
        assert_eq!(env.stats().unwrap().volumes[0].compression, is);
        check(&env, &model);
        let changed = (0..400).filter(|n| n % 3 == round % 3).map(|n| (n, text(n + round, 100)));
        put(&env, changed, &mut model);
        env.checkpoint().unwrap();
        check(&env, &model);
        env.close().unwrap();
        assert_eq!(mark(), marked, "round {round}");
    }
    // Blocks of all kinds are there side by side; compacting goes over all of them.
    let env = open(None);
    let db = env.database("records").unwrap();
    for n in 0..300 {
        db.remove(key(n)).unwrap();
        model.remove(&n);
    }
    drop(db);
    env.compact().unwrap();
    check(&env, &model);
    env.close().unwrap();
    check(&open(None), &model);
}

#[test]
fn each_volume_is_compressed_as_it_is_said_of_it() {
    let disk = Arc::new(SimDisk::new(1));
    let open = |change: &dyn Fn(Builder) -> Builder| {
        let builder = builder(&disk).page_size(16384).volume("far", "far.db");
        change(builder.place(Place::database("far"), "far")).open("env")
    };
    let env = open(&|builder| builder.volume_compression("far", Compression::zstd())).unwrap();
    let (near, far) = (env.database("near").unwrap(), env.database("far").unwrap());
    for n in 0..1000 {
        near.insert(key(n), text(n, 100)).unwrap();
        far.insert(key(n), text(n, 100)).unwrap();
    }
    drop((near, far));
    env.close().unwrap();
    let env = open(&|builder| builder).unwrap();
    let volumes = env.stats().unwrap().volumes;
    assert_eq!([Compression::None, Compression::zstd()], [volumes[0].compression, volumes[1].compression]);
    assert!(volumes[0].bytes - volumes[0].occupied < 131_072, "{volumes:?}");
    assert!(volumes[1].occupied * 10 < volumes[1].bytes * 7, "{volumes:?}");
    let far = env.database("far").unwrap();
    assert!((0..1000).all(|n| far.get(key(n)).unwrap() == Some(text(n, 100))));
    drop(far);
    env.close().unwrap();
    let error = open(&|builder| builder.volume_compression("farther", Compression::Lz4)).unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("farther"), "{error}");
}

#[test]
fn what_would_save_nothing_is_refused() {
    let disk = Arc::new(SimDisk::new(1));
    let error = builder(&disk).page_size(4096).compression(Compression::Lz4).open("env").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("16384"), "{error}");
    let error = builder(&disk).compression(Compression::Zstd { level: 23 }).open("other").unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("22"), "{error}");
    let error = builder(&disk).compression(Compression::Lz4).in_memory().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    // Without a size being asked for, there is one that is of use.
    let env = builder(&disk).compression(Compression::Lz4).open("usual").unwrap();
    assert_eq!(env.stats().unwrap().page_size, 32768);
    let holeless = Arc::new(SimDisk::new(1));
    holeless.make_no_holes();
    let error = builder(&holeless).compression(Compression::Lz4).open("env").unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("holes"), "{error}");
    builder(&holeless).open("env").unwrap().close().unwrap();
}

/// As after it was moved to another file system.
#[test]
fn where_holes_are_not_made_any_more_all_goes_on_without_compression() {
    let disk = Arc::new(SimDisk::new(1));
    let mut model = Model::new();
    let open = || builder(&disk).page_size(16384).compression(Compression::zstd()).open("env").unwrap();
    let env = open();
    put(&env, (0..1000).map(|n| (n, text(n, 100))), &mut model);
    env.close().unwrap();
    disk.make_no_holes();
    for round in 0..3 {
        let env = open();
        let stats = env.stats().unwrap();
        assert!(!stats.volumes[0].makes_holes);
        check(&env, &model);
        put(&env, (0..1000).filter(|n| n % 3 == round).map(|n| (n, text(n + 1, 100))), &mut model);
        env.close().unwrap();
    }
    check(&open(), &model);
    let (bytes, occupied) = sizes(&disk);
    assert!(occupied * 10 > bytes * 9, "{occupied} of {bytes}");
}

/// In the bytes of a block that count, each of them: it is found when the page is read and by verifying. What
/// is behind means nothing.
#[test]
fn every_changed_byte_of_a_compressed_block_is_found() {
    for how in KINDS {
        let disk = Arc::new(SimDisk::new(1));
        let mut model = Model::new();
        let env = builder(&disk).page_size(16384).compression(how).open("env").unwrap();
        put(&env, (0..100).map(|n| (n, text(n, 30))), &mut model);
        env.close().unwrap();
        let file = disk.open(Path::new(VOLUME), How::default()).unwrap();
        let mut volume = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut volume, 0).unwrap();
        let blocks: Vec<_> =
            (131_072..volume.len()).step_by(16384).filter(|at| volume[at + 8..at + 12] == *b"spak").collect();
        assert!(!blocks.is_empty());
        let mut found = 0;
        for at in blocks {
            let length = u32::from_le_bytes(volume[at + 12..at + 16].try_into().unwrap()) as usize;
            assert!(length.is_multiple_of(4096) && length < 16384, "{length}");
            // Every byte of what says how, and some of the rest: all of them are in codec.rs's test.
            for byte in (at..at + 40).chain((at + 40..at + length).step_by(97)) {
                file.write_at(&[volume[byte] ^ 1 << (byte % 8)], byte as u64).unwrap();
                let env = builder(&disk).read_only(true).open("env");
                let is_found = match env {
                    Err(error) => error.is_corruption(),
                    Ok(env) => !env.verify(&mut |_| {}).is_ok_and(|report| report.problems.is_empty()),
                };
                // A block that nothing names any more is not looked at.
                found += usize::from(is_found);
                file.write_at(&volume[byte..=byte], byte as u64).unwrap();
            }
            for byte in [at + length, at + 16383] {
                file.write_at(&[7], byte as u64).unwrap();
            }
        }
        assert!(found > 100, "{found}");
        check(&builder(&disk).open("env").unwrap(), &model);
    }
}

/// As `full_disk.rs` has it, where there is less room for a page than the file is long: what takes 4 KiB in
/// the file is to be more, on a disk without a byte free.
#[test]
fn a_full_disk_locks_nobody_out_although_blocks_need_space() {
    for killed in [false, true] {
        let mut disk = Arc::new(SimDisk::new(1));
        let mut model = Model::new();
        let open =
            |disk: &Arc<SimDisk>| builder(disk).page_size(16384).compression(Compression::zstd()).open("env");
        let env = open(&disk).unwrap();
        // Low blocks that are mostly holes, and free in the end; behind them what takes more.
        put(&env, (0..4000).map(|n| (n, vec![n as u8; 1000])), &mut model);
        env.checkpoint().unwrap();
        put(&env, (10_000..14_000).map(|n| (n, text(n, 150))), &mut model);
        env.checkpoint().unwrap();
        let db = env.database("records").unwrap();
        for n in 0..4000 {
            db.remove(key(n)).unwrap();
            model.remove(&n);
        }
        drop(db);
        if killed {
            env.sync().unwrap();
            let left = Arc::new(disk.crash_as(Survival::Everything, 1));
            drop(env);
            disk = left;
        } else {
            env.close().unwrap();
        }
        disk.fill_up();
        assert_eq!(disk.free_bytes(Path::new("env")).unwrap(), 0);
        let before = sizes(&disk).1;
        for some in [1, 10, 100, 500] {
            let env = open(&disk).unwrap();
            let db = env.database("records").unwrap();
            for n in model.keys().copied().take(some).collect::<Vec<_>>() {
                assert!(db.remove(key(n)).unwrap());
                model.remove(&n);
            }
            drop(db);
            env.compact().unwrap();
            check(&env, &model);
            env.close().unwrap();
            disk.fill_up();
        }
        let after = sizes(&disk).1;
        assert!(after < before, "{after} of {before}");
        disk.set_capacity(u64::MAX);
        check(&open(&disk).unwrap(), &model);
    }
}

/// A page that needs more than it had, when there is nothing at all to be had: an error that does no harm,
/// and when there is room again it is as if nothing had been.
#[test]
fn a_write_that_finds_no_space_can_be_made_later() {
    let disk = Arc::new(SimDisk::new(1));
    let mut model = Model::new();
    let open = || builder(&disk).page_size(32768).compression(Compression::Lz4).open("env").unwrap();
    let env = open();
    put(&env, (0..3000).map(|n| (n, vec![n as u8; 1000])), &mut model);
    env.checkpoint().unwrap();
    for round in 0..4 {
        put(&env, (0..3000).map(|n| (n, noise(n + round, 1000))), &mut model);
        disk.fill_up();
        for _ in 0..3 {
            assert_eq!(env.checkpoint().unwrap_err().kind(), ErrorKind::DiskFull);
        }
        check(&env, &model);
        disk.set_capacity(u64::MAX);
        env.checkpoint().unwrap();
        put(&env, (0..3000).map(|n| (n, vec![(n + round) as u8; 1000])), &mut model);
        env.checkpoint().unwrap();
    }
    check(&env, &model);
    let blocks = |env: &Env| {
        env.compact().unwrap();
        env.stats().unwrap().blocks
    };
    let before = blocks(&env);
    env.close().unwrap();
    let env = open();
    assert_eq!(blocks(&env), before, "no block was lost");
    check(&env, &model);
}

/// As after a flush that failed: what was written there since is durable, that the file was longer is not.
#[test]
fn behind_what_counts_of_the_last_block_the_file_may_end() {
    for how in KINDS {
        let disk = Arc::new(SimDisk::new(1));
        let mut model = Model::new();
        let env = builder(&disk).page_size(16384).compression(how).open("env").unwrap();
        put(&env, (0..500).map(|n| (n, text(n, 60))), &mut model);
        env.close().unwrap();
        let file = disk.open(Path::new(VOLUME), How::default()).unwrap();
        let mut volume = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut volume, 0).unwrap();
        let count = |at: usize| u32::from_le_bytes(volume[at + 12..at + 16].try_into().unwrap()) as usize;
        let is_used = |at: &usize| volume[*at..*at + 16384].iter().any(|&byte| byte != 0);
        let last = (131_072..volume.len()).step_by(16384).rfind(is_used).unwrap();
        assert_eq!(&volume[last + 8..last + 12], b"spak");
        file.set_len((last + count(last)) as u64).unwrap();
        let env = builder(&disk).open("env").unwrap();
        check(&env, &model);
        put(&env, (500..1500).map(|n| (n, text(n, 60))), &mut model);
        env.close().unwrap();
        check(&builder(&disk).open("env").unwrap(), &model);
    }
}

#[test]
fn going_back_finds_compressed_epochs() {
    let disk = Arc::new(SimDisk::new(1));
    let mut model = Model::new();
    let with = |how| builder(&disk).page_size(16384).journal(Journal::new().epochs(4)).compression(how);
    let env = with(Compression::zstd()).open("env").unwrap();
    put(&env, (0..500).map(|n| (n, text(n, 80))), &mut model);
    env.checkpoint().unwrap();
    put(&env, (200..700).map(|n| (n, text(n + 9, 80))), &mut model);
    let then = model.clone();
    env.sync().unwrap();
    let lsn = env.lsn();
    put(&env, (100..900).map(|n| (n, noise(n, 300))), &mut model);
    env.checkpoint().unwrap();
    env.close().unwrap();
    // Blocks of another kind are written over it.
    let env = with(Compression::Lz4).open("env").unwrap();
    put(&env, (0..300).map(|n| (n, text(n + 1, 50))), &mut model);
    env.checkpoint().unwrap();
    check(&env, &model);
    env.close().unwrap();
    with(Compression::Lz4).recovery("env", Target::Lsn(lsn)).unwrap().apply().unwrap();
    let env = with(Compression::Lz4).open("env").unwrap();
    check(&env, &then);
    assert_eq!(env.stats().unwrap().volumes[0].compression, Compression::Lz4);
}

#[test]
fn copies_are_compressed_as_they_are_asked_to_be() {
    let disk = Arc::new(SimDisk::new(1));
    let mut model = Model::new();
    let env = builder(&disk).compression(Compression::zstd()).open("env").unwrap();
    put(&env, (0..2000).map(|n| (n, text(n, 80))), &mut model);
    for (name, how) in [("plain", Compression::None), ("small", Compression::Lz4)] {
        let copy = builder(&disk).page_size(16384).compression(how).open(name).unwrap();
        env.snapshot().unwrap().copy_into(&copy, &mut |_| {}).unwrap();
        check(&copy, &model);
        copy.close().unwrap();
        let copy = builder(&disk).read_only(true).open(name).unwrap();
        check(&copy, &model);
        assert_eq!(copy.stats().unwrap().volumes[0].compression, how);
    }
}

#[test]
fn the_data_store_compresses_as_well() {
    let disk = Arc::new(SimDisk::new(1));
    let open = || builder(&disk).compression(Compression::Lz4).open_data_store("env").unwrap();
    let mut store = open();
    let db = store.database("records").unwrap();
    for n in 0..2000 {
        store.insert(&db, key(n), text(n, 80)).unwrap();
    }
    store.close().unwrap();
    let mut store = open();
    let db = store.database("records").unwrap();
    assert!((0..2000).all(|n| store.get(&db, key(n)).unwrap() == Some(text(n, 80))));
    let (bytes, occupied) = sizes(&disk);
    assert!(occupied * 10 < bytes * 8, "{occupied} of {bytes}");
}

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("sablecat-compression-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("region")).unwrap();
        Directory(path)
    }

    fn shared(&self) -> Builder {
        Env::builder()
            .shared(true)
            .region_directory(self.0.join("region"))
            .background(false)
            .cache_size(1 << 20)
            .durability(Durability::NoSync)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// On the machine's own files: whoever joins compresses as those do who are there, and may not ask for
/// anything else.
#[test]
fn who_shares_an_environment_compresses_as_the_others_do() {
    let place = Directory::new("shared");
    let path = place.0.join("env");
    let mut model = Model::new();
    let first = match place.shared().page_size(16384).compression(Compression::zstd()).open(&path) {
        Err(error) if error.to_string().contains("holes") => return,
        opened => opened.unwrap(),
    };
    let second = place.shared().open(&path).unwrap();
    assert_eq!(second.stats().unwrap().volumes[0].compression, Compression::zstd());
    let error = place.shared().compression(Compression::Lz4).open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InUse, "{error}");
    place.shared().compression(Compression::zstd()).open(&path).unwrap().close().unwrap();
    // More than the cache, so that both write pages and read them in.
    for round in 0..4 {
        for (env, odd) in [(&first, 0), (&second, 1)] {
            put(env, (0..6000).filter(|n| n % 2 == odd).map(|n| (n, text(n + round, 60))), &mut model);
        }
        second.checkpoint().unwrap();
        check(&first, &model);
        check(&second, &model);
    }
    first.close().unwrap();
    second.close().unwrap();
    let env = Env::builder().background(false).open(&path).unwrap();
    let stats = env.stats().unwrap();
    assert!(stats.occupied_bytes * 10 < stats.volume_bytes * 8, "{stats:?}");
    check(&env, &model);
}

/// A file of the machine, whose holes are those of its file system, around the page cache; and blocks changed
/// on it.
#[test]
fn on_the_machines_files_too_damage_is_found() {
    let place = Directory::new("damage");
    let path = place.0.join("env");
    let open = || {
        let builder = Env::builder().background(false).direct_io(true).durability(Durability::NoSync);
        builder.page_size(16384).compression(Compression::Lz4).open(&path)
    };
    let mut model = Model::new();
    let env = match open() {
        Err(error) if error.to_string().contains("holes") => return,
        opened => opened.unwrap(),
    };
    put(&env, (0..3000).map(|n| (n, text(n, 60))), &mut model);
    env.close().unwrap();
    let env = open().unwrap();
    check(&env, &model);
    let stats = env.stats().unwrap();
    assert!(stats.occupied_bytes * 10 < stats.volume_bytes * 8, "{stats:?}");
    env.close().unwrap();
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path.join("sablecat.db")).unwrap();
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let packed: Vec<_> =
        (131_072..bytes.len()).step_by(16384).filter(|at| bytes[at + 8..at + 12] == *b"spak").collect();
    assert!(packed.len() > 10, "{}", packed.len());
    for at in &packed {
        file.write_all_at(&[bytes[at + 600] ^ 1], *at as u64 + 600).unwrap();
    }
    // The map's own blocks are among them.
    let opened = Env::builder().read_only(true).open(&path);
    let found = opened.and_then(|env| env.verify(&mut |_| {})).map(|report| !report.problems.is_empty());
    assert!(found.unwrap_or_else(|error| error.is_corruption()));
    for at in &packed {
        file.write_all_at(&[bytes[at + 600]], *at as u64 + 600).unwrap();
    }
    check(&open().unwrap(), &model);
}

#[test]
fn what_is_compressed_is_enciphered_as_well() {
    use sablecat::{Cipher, EncryptionKey};
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let disk = Arc::new(SimDisk::new(1));
        let mut model = Model::new();
        let key = || EncryptionKey::from_bytes(&[7; 32]);
        let with = || builder(&disk).page_size(16384).encryption(key(), cipher);
        let env = with().open("env").unwrap();
        put(&env, (0..500).map(|n| (n, text(n, 100))), &mut model);
        env.close().unwrap();
        // Of blocks that were there before some stay as they are.
        let env = with().compression(Compression::zstd()).open("env").unwrap();
        put(&env, (400..3000).map(|n| (n, text(n, 100))), &mut model);
        env.rotate_key().unwrap();
        put(&env, (2000..2500).map(|n| (n, text(n + 1, 100))), &mut model);
        env.checkpoint().unwrap();
        let report = env.encipher_anew().unwrap();
        assert_eq!(report.older, 0);
        check(&env, &model);
        env.close().unwrap();
        let (bytes, occupied) = sizes(&disk);
        assert!(occupied * 10 < bytes * 8, "{occupied} of {bytes}");
        let file = disk.open(Path::new(VOLUME), How::default()).unwrap();
        let mut volume = vec![0; bytes as usize];
        file.read_at(&mut volume, 0).unwrap();
        assert!(!volume.windows(11).any(|window| window == b"environment" || window == b"compression"));
        check(&with().open("env").unwrap(), &model);
        assert_eq!(builder(&disk).open("env").unwrap_err().kind(), ErrorKind::EncryptionKey);
    }
}
