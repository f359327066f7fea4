//! Writes that the disk said it had done and had not: what was there before is whole, and is not to be
//! believed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sablecat::{Builder, Durability, Env, Error, Journal, Place, Target};
use sablecat_os::disk::{Disk, How};
use sablecat_os::sim::{SimDisk, Survival};

const DIRECTORY: &str = "env";
const PAGE: usize = 512;

fn builder(disk: &SimDisk) -> Builder {
    let builder = Env::builder()
        .page_size(PAGE)
        .background(false)
        .cache_size(1 << 17)
        .log_buffer_size(1 << 16)
        .log_segment_size(1 << 16);
    let builder = builder.volume("beside", "beside.db").place(Place::database("far"), "beside");
    builder.durability(Durability::NoSync).disk(Arc::new(disk.clone()))
}

fn files() -> [(PathBuf, usize); 2] {
    [(Path::new(DIRECTORY).join("sablecat.db"), 131_072), (Path::new(DIRECTORY).join("beside.db"), 65536)]
}

fn bytes_of(disk: &SimDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, How::default()).expect("there");
    let mut bytes = vec![0; file.len().expect("no faults") as usize];
    file.read_at(&mut bytes, 0).expect("no faults");
    bytes
}

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// A round of changes: some short records, some long values.
fn change(env: &Env, round: u32) {
    for (name, step) in [("near", 3), ("far", 2)] {
        let records = env.database(name).expect("made");
        for n in (0..120u32).filter(|n| (n + round).is_multiple_of(step) || round == 0) {
            records.insert(n.to_be_bytes(), format!("{round} {n} {}", "x".repeat(30))).expect("inserted");
        }
        for n in 0..2u32 {
            records.insert(format!("long {n}"), vec![(round + n) as u8; 12_000]).expect("inserted");
        }
    }
}

fn read_all(env: &Env) -> Result<[Records; 2], Error> {
    let mut all = [Records::new(), Records::new()];
    for (name, into) in ["near", "far"].into_iter().zip(&mut all) {
        let records = env.existing_database(name)?.expect("it was made");
        for record in records.range(sablecat::Prefix(""))? {
            let (key, value) = record?;
            into.insert(key, value);
        }
    }
    Ok(all)
}

/// An environment that has used blocks again, closed; what its files were after each round but the last, and
/// what it holds.
fn used_again(builder: impl Fn(&SimDisk) -> Builder) -> (SimDisk, Vec<Vec<Vec<u8>>>, [Records; 2]) {
    let disk = SimDisk::new(1);
    let mut images = Vec::new();
    let mut records = Default::default();
    for round in 0..7 {
        let env = builder(&disk).open(DIRECTORY).expect("opened");
        change(&env, round);
        env.checkpoint().expect("written");
        records = read_all(&env).expect("read");
        env.close().expect("closed");
        images.push(files().iter().map(|(path, _)| bytes_of(&disk, path)).collect());
    }
    images.pop();
    (disk, images, records)
}

/// Puts each block in turn back to what it was, and has somebody look.
fn each_block_as_it_was(disk: &SimDisk, images: &[Vec<Vec<u8>>], mut look: impl FnMut(&SimDisk, &str)) {
    for (round, image) in images.iter().enumerate() {
        for ((path, reserved), before) in files().iter().zip(image) {
            let now = bytes_of(disk, path);
            let end = before.len().min(now.len());
            for at in (*reserved..end).step_by(PAGE).filter(|&at| before[at..at + PAGE] != now[at..at + PAGE])
            {
                let copy = disk.crash_as(Survival::Everything, 1);
                let file = copy.open(path, How::default()).expect("there");
                file.write_at(&before[at..at + PAGE], at as u64).expect("no faults");
                drop(file);
                look(&copy, &format!("byte {at} of {} as after round {round}", path.display()));
            }
        }
    }
}

#[test]
fn a_block_that_holds_an_older_version_of_its_page_is_damage_and_not_old_data() {
    let (disk, images, records) = used_again(builder);
    let (mut reported, mut harmless) = (0, 0);
    each_block_as_it_was(&disk, &images, |disk, what| {
        let looked = builder(disk)
            .read_only(true)
            .open(DIRECTORY)
            .and_then(|env| Ok((env.verify(&mut |_| {})?.problems, read_all(&env)?)));
        match looked {
            Ok((problems, read)) if problems.is_empty() => {
                assert!(read == records, "{what}: old data, and nobody says so");
                harmless += 1;
            }
            Ok(_) => reported += 1,
            Err(error) => {
                assert!(error.is_corruption(), "{what}: {error}");
                reported += 1;
            }
        }
    });
    assert!(reported > 100 && harmless > 0, "{reported} reported, {harmless} harmless");
}

#[test]
fn an_epoch_that_lost_a_write_is_not_gone_back_to() {
    let journaled = |disk: &SimDisk| builder(disk).journal(Journal::new().epochs(2));
    let (disk, images, _) = used_again(journaled);
    let oldest = journaled(&disk).history(DIRECTORY).expect("read").epochs[0].number;
    let go_back = |disk: &SimDisk| {
        journaled(disk).recovery(DIRECTORY, Target::Epoch(oldest))?.apply()?;
        let env = journaled(disk).open(DIRECTORY)?;
        read_all(&env)
    };
    let expected = go_back(&disk.crash_as(Survival::Everything, 1)).expect("a good epoch");
    let mut reported = 0;
    each_block_as_it_was(&disk, &images[..3], |disk, what| match go_back(disk) {
        Ok(read) => assert!(read == expected, "{what}: old data, and nobody says so"),
        Err(error) => {
            assert!(error.is_corruption(), "{what}: {error}");
            reported += 1;
        }
    });
    assert!(reported > 20, "{reported} reported");
}

/// The map of one checkpoint over the blocks of a later one.
#[test]
fn a_page_from_after_the_checkpoint_that_names_it_is_damage() {
    let disk = SimDisk::new(1);
    let env = builder(&disk).open(DIRECTORY).expect("opened");
    change(&env, 0);
    env.close().expect("closed");
    let file = disk.open(&files()[0].0, How::default()).expect("there");
    let mut found = 0;
    for at in (0..131_072).step_by(4096) {
        let mut copy = vec![0; 4096];
        file.read_at(&mut copy, at).expect("no faults");
        if !copy.starts_with(b"\x89sablecat") {
            continue;
        }
        found += 1;
        // The checkpoint's LSN and the log position, as if they were those of an early one.
        copy[56..64].copy_from_slice(&8u64.to_le_bytes());
        copy[64..72].copy_from_slice(&8u64.to_le_bytes());
        copy[20..24].fill(0);
        let sum = crc32c::crc32c(&copy);
        copy[20..24].copy_from_slice(&sum.to_le_bytes());
        file.write_at(&copy, at).expect("no faults");
    }
    assert!(found > 1, "{found} superblocks");
    drop(file);
    for builder in [builder(&disk).read_only(true), builder(&disk)] {
        let error = builder.open(DIRECTORY).and_then(|env| read_all(&env).map(drop)).expect_err("damage");
        assert!(
            error.is_corruption() && error.to_string().contains("a later checkpoint was lost"),
            "{error}"
        );
    }
}

/// Makes both copies of the newest superblock unreadable.
fn lose_newest_superblock(disk: &SimDisk) {
    let file = disk.open(&files()[0].0, How::default()).expect("there");
    let generation = |slot: u64| {
        let mut bytes = [0; 8];
        file.read_at(&mut bytes, slot + 48).expect("no faults");
        u64::from_le_bytes(bytes)
    };
    let slot = if generation(0) > generation(65536) { 0 } else { 65536 };
    for copy in [slot, if slot == 0 { 131_072 - 4096 } else { 8192 }] {
        file.write_at(&[0xa5; 4096], copy).expect("no faults");
    }
}

#[test]
fn a_checkpoint_that_was_lost_is_made_up_from_the_log_or_missed() {
    let (mut made_up, mut missed) = (0, 0);
    for rounds in 1..12 {
        let disk = SimDisk::new(rounds);
        let env = builder(&disk).open(DIRECTORY).expect("opened");
        for round in 0..rounds as u32 {
            change(&env, round);
            // Now and then two without a change in between: the second lets go of the log that only the first
            // needed.
            (0..1 + round % 3).for_each(|_| _ = env.checkpoint().expect("written"));
        }
        change(&env, 50);
        env.sync().expect("written");
        let records = read_all(&env).expect("read");
        let crashed = disk.crash_as(Survival::Nothing, 1);
        drop(env);
        lose_newest_superblock(&crashed);
        match builder(&crashed).open(DIRECTORY) {
            Ok(env) => {
                assert!(env.recovery().doubt, "round {rounds}: nobody says so");
                assert!(
                    read_all(&env).expect("read") == records,
                    "round {rounds}: something is lost, and nobody says so"
                );
                assert_eq!(env.verify(&mut |_| {}).expect("read").problems.len(), 2, "the copies");
                env.close().expect("closed");
                let env = builder(&crashed).open(DIRECTORY).expect("opened");
                assert!(!env.recovery().doubt, "what is there now is whole");
                made_up += 1;
            }
            Err(error) => {
                assert!(error.is_corruption(), "{error}");
                missed += 1;
            }
        }
    }
    assert!(made_up > 0, "{made_up} made up, {missed} missed");
}

#[test]
fn a_data_store_says_that_it_may_have_lost_a_checkpoint() {
    let disk = SimDisk::new(1);
    let open = || Env::builder().page_size(PAGE).cache_size(1 << 17).disk(Arc::new(disk.clone()));
    let mut store = open().open_data_store(DIRECTORY).expect("opened");
    for round in 0..3u32 {
        let records = store.database("records").expect("made");
        store.insert(&records, "round", round.to_le_bytes()).expect("inserted");
        store.checkpoint().expect("written");
    }
    drop(store);
    lose_newest_superblock(&disk);
    let error = open().open_data_store(DIRECTORY).expect_err("in doubt");
    assert!(error.is_corruption() && error.to_string().contains("without Data Store mode"), "{error}");
    open().background(false).open(DIRECTORY).expect("on purpose").close().expect("closed");
    open().open_data_store(DIRECTORY).expect("an older checkpoint, on purpose");
}
