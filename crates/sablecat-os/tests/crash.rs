//! What the simulated disk keeps, loses and breaks when the power fails.
//!
//! Two kinds of test: that a forbidden state never comes, over random histories and many seeds; and that each
//! state the simulation exists for does come, since a disk that loses nothing would pass the first kind.

#![allow(clippy::unwrap_used, reason = "an error is a failed test")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use sablecat_os::disk::{Disk, File, How};
use sablecat_os::sim::{SimDisk, Survival};

const CREATE: How = How { create: true, create_new: false, read_only: false, direct: false, durable: false };
const SEEDS: u64 = 1000;

fn open(disk: &SimDisk, path: &str) -> Arc<dyn File> {
    disk.open(Path::new(path), CREATE).unwrap()
}

fn all(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

/// What a file holds, if it is there.
fn look(disk: &SimDisk, path: &str) -> Option<Vec<u8>> {
    let path = Path::new(path);
    disk.exists(path).unwrap().then(|| all(&*disk.open(path, How::default()).unwrap()))
}

/// A disk with one durable file `a`.
fn with_file(bytes: &[u8]) -> (SimDisk, Arc<dyn File>) {
    let disk = SimDisk::new(0);
    let file = open(&disk, "a");
    file.write_at(bytes, 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir(Path::new("")).unwrap();
    (disk, file)
}

/// What `look_at` sees in the states that a crash may leave.
fn states<T: Ord>(disk: &SimDisk, look_at: impl Fn(&SimDisk) -> T) -> BTreeSet<T> {
    (0..SEEDS).map(|seed| look_at(&disk.crash(seed))).collect()
}

fn contents(disk: &SimDisk) -> BTreeSet<Vec<u8>> {
    states(disk, |disk| look(disk, "a").expect("a durable name"))
}

#[test]
fn a_hole_is_there_after_a_crash_or_not_sector_by_sector_and_for_good_once_synced() {
    let (disk, file) = with_file(&[7; 12_288]);
    assert!(file.punch(4096, 4096).unwrap());
    let found = contents(&disk);
    let mut whole = vec![7; 12_288];
    assert!(found.contains(&whole), "it was lost");
    whole[4096..8192].fill(0);
    assert!(found.contains(&whole), "it was made");
    assert!(found.len() > 2, "and in part");
    for bytes in &found {
        assert!(bytes[..4096] == [7; 4096] && bytes[8192..] == [7; 4096], "nothing beside it is touched");
        assert!(bytes.chunks(512).all(|sector| sector == [0; 512] || sector == [7; 512]));
    }
    // What is written there afterwards is not taken away by it.
    file.write_at(&[9; 512], 4096).unwrap();
    for bytes in contents(&disk) {
        assert!(
            bytes[4096..4608] == [9; 512] || bytes[4096..4608] == [0; 512] || bytes[4096..4608] == [7; 512]
        );
    }
    file.sync().unwrap();
    whole[4096..4608].fill(9);
    assert_eq!(contents(&disk), BTreeSet::from([whole]));
    file.punch(4096, 4096).unwrap();
    file.sync().unwrap();
    let space = |disk: &SimDisk| open(disk, "a").space().unwrap();
    assert_eq!(states(&disk, space), BTreeSet::from([8192]), "its space is given back");
    disk.make_no_holes();
    assert!(!file.punch(0, 4096).unwrap());
    assert_eq!(all(&*file)[..4096], [7; 4096]);
}

#[test]
fn synced_data_survives_every_crash() {
    let (disk, file) = with_file(&[1; 3000]);
    file.write_at(&[2; 1000], 700).unwrap();
    file.set_len(2500).unwrap();
    file.preallocate(0, 9000).unwrap();
    file.window(5000, 100).unwrap().write(0, &[3; 100]).unwrap();
    file.sync().unwrap();
    assert_eq!(disk.unsynced(), 0);
    assert_eq!(contents(&disk), BTreeSet::from([all(&*file)]));
}

#[test]
fn one_unsynced_write_is_kept_lost_or_torn_at_sectors() {
    let (disk, file) = with_file(&[1; 2048]);
    file.write_at(&[2; 2048], 0).unwrap();
    assert_eq!(disk.unsynced(), 1);
    let seen = contents(&disk);
    // Four sectors, each old or new: sixteen states, and no others.
    let expected: BTreeSet<Vec<u8>> =
        (0..16u8).map(|mask| (0..2048).map(|at| 1 + (mask >> (at / 512) & 1)).collect()).collect();
    assert!(seen == expected, "{} states", seen.len());
}

#[test]
fn sectors_are_the_files_not_the_writes() {
    let (disk, file) = with_file(&[1; 1024]);
    file.write_at(&[2; 512], 256).unwrap();
    let part = |range: std::ops::Range<usize>| {
        (0..1024).map(|at| if range.contains(&at) { 2 } else { 1 }).collect::<Vec<u8>>()
    };
    let expected = BTreeSet::from([part(0..0), part(256..768), part(256..512), part(512..768)]);
    assert!(contents(&disk) == expected);
}

#[test]
fn many_buffers_are_torn_like_one_write() {
    let (disk, file) = with_file(&[1; 1024]);
    file.write_all_at(&[&[2; 100], &[2; 924]], 0).unwrap();
    assert_eq!((disk.unsynced(), contents(&disk).len()), (1, 4));
}

#[test]
fn unsynced_writes_survive_in_any_combination() {
    let (disk, file) = with_file(&[0; 4 * 512]);
    for sector in 0..4 {
        file.write_at(&[1; 512], sector * 512).unwrap();
    }
    let states = contents(&disk);
    assert_eq!(states.len(), 16, "also a later write without an earlier one");
}

#[test]
fn a_sector_that_survives_has_all_its_earlier_writes() {
    let (disk, file) = with_file(&[0; 512]);
    file.write_at(b"1", 0).unwrap();
    file.write_at(b"2", 1).unwrap();
    file.write_at(b"3", 0).unwrap();
    let seen: BTreeSet<Vec<u8>> = contents(&disk).into_iter().map(|bytes| bytes[..2].to_vec()).collect();
    let expected = [b"\0\0", b"1\0", b"12", b"32"].map(|state| state.to_vec());
    assert_eq!(seen, BTreeSet::from(expected));
}

#[test]
fn different_files_are_strangers() {
    let disk = SimDisk::new(0);
    let files = [open(&disk, "a"), open(&disk, "b")];
    disk.sync_dir(Path::new("")).unwrap();
    files[0].write_at(b"x", 0).unwrap();
    files[1].write_at(b"x", 0).unwrap();
    let seen = states(&disk, |disk| ["a", "b"].map(|path| look(disk, path) == Some(b"x".to_vec())));
    assert_eq!(seen.len(), 4);
    files[0].sync().unwrap();
    let seen = states(&disk, |disk| ["a", "b"].map(|path| look(disk, path) == Some(b"x".to_vec())));
    assert_eq!(
        seen,
        BTreeSet::from([[true, false], [true, true]]),
        "syncing one file is not syncing another"
    );
}

#[test]
fn a_write_through_a_window_may_be_torn_within_a_sector() {
    let (disk, file) = with_file(&[0; 512]);
    file.window(0, 512).unwrap().write(16, &[1; 64]).unwrap();
    let lengths = states(&disk, |disk| {
        let bytes = look(disk, "a").unwrap();
        let new = bytes.iter().filter(|byte| **byte == 1).count();
        assert!(bytes[16..16 + new].iter().all(|byte| *byte == 1), "from its start");
        new
    });
    assert_eq!(lengths, (0..=8).map(|words| 8 * words).collect());
    file.sync().unwrap();
    assert_eq!(contents(&disk).len(), 1, "syncing the file syncs what came through windows");
}

#[test]
fn a_file_that_grew_has_one_of_its_lengths_and_maybe_not_the_bytes() {
    let (disk, file) = with_file(&[1; 512]);
    file.write_at(&[2; 512], 512).unwrap();
    file.write_at(&[3; 512], 1024).unwrap();
    let sector = |byte: u8| {
        if byte == 0 { vec![0; 512] } else { vec![byte; 512] }
    };
    let seen = contents(&disk);
    let possible: BTreeSet<Vec<u8>> =
        [vec![1], vec![1, 2], vec![1, 0], vec![1, 2, 3], vec![1, 0, 3], vec![1, 2, 0], vec![1, 0, 0]]
            .into_iter()
            .map(|sectors| sectors.into_iter().flat_map(sector).collect())
            .collect();
    assert!(seen == possible, "{} states", seen.len());
}

#[test]
fn an_unsynced_length_may_be_lost() {
    let (disk, file) = with_file(&[1; 512]);
    file.set_len(100).unwrap();
    let lengths = |disk: &SimDisk| states(disk, |disk| look(disk, "a").unwrap().len());
    assert_eq!(lengths(&disk), BTreeSet::from([100, 512]));
    file.sync().unwrap();
    file.preallocate(0, 8192).unwrap();
    assert_eq!(lengths(&disk), BTreeSet::from([100, 8192]));
}

#[test]
fn bytes_written_after_a_cut_are_not_seen_without_it() {
    let (disk, file) = with_file(&[1; 5000]);
    file.set_len(4096).unwrap();
    file.write_at(&[2; 100], 4096).unwrap();
    let tails = states(&disk, |disk| look(disk, "a").unwrap().split_off(4096));
    assert_eq!(tails, BTreeSet::from([vec![1; 904], vec![], vec![0; 100], vec![2; 100]]));
}

#[test]
fn the_block_that_a_cut_goes_through_is_changed_in_place() {
    let (disk, file) = with_file(&[1; 1024]);
    file.set_len(512).unwrap();
    file.write_at(&[2; 100], 512).unwrap();
    let tails = states(&disk, |disk| look(disk, "a").unwrap().split_off(512));
    let cut = [vec![], vec![0; 100], vec![2; 100]];
    let uncut = [vec![1; 512], vec![0; 512], [vec![2; 100], vec![0; 412]].concat()];
    assert_eq!(tails, cut.into_iter().chain(uncut).collect());
}

#[test]
fn what_was_cut_off_does_not_come_back_when_the_file_grows() {
    let (disk, file) = with_file(&[1; 1024]);
    file.write_at(&[2; 1024], 0).unwrap();
    file.set_len(512).unwrap();
    file.set_len(1024).unwrap();
    file.write_at(&[3], 1023).unwrap();
    for tail in states(&disk, |disk| look(disk, "a").unwrap().split_off(512)) {
        let cut = tail.is_empty() || tail[..511] == [0; 511];
        assert!(cut || tail == [1; 512] || tail == [2; 512], "{tail:?}");
    }
}

#[test]
fn a_name_is_not_durable_because_its_file_is() {
    let disk = SimDisk::new(0);
    let file = open(&disk, "a");
    file.write_at(b"x", 0).unwrap();
    file.sync().unwrap();
    assert_eq!(states(&disk, |disk| look(disk, "a")), BTreeSet::from([None, Some(b"x".to_vec())]));
    disk.sync_dir(Path::new("/")).unwrap();
    assert_eq!(states(&disk, |disk| look(disk, "a")), BTreeSet::from([Some(b"x".to_vec())]));
}

#[test]
fn a_rename_happens_or_does_not() {
    let disk = SimDisk::new(0);
    for (name, bytes) in [("old", b"old"), ("new", b"new")] {
        let file = open(&disk, name);
        file.write_at(bytes, 0).unwrap();
        file.sync().unwrap();
    }
    disk.sync_dir(Path::new("")).unwrap();
    disk.rename(Path::new("new"), Path::new("old")).unwrap();
    let seen = |disk: &SimDisk| states(disk, |disk| (look(disk, "old"), look(disk, "new")));
    let before = (Some(b"old".to_vec()), Some(b"new".to_vec()));
    let after = (Some(b"new".to_vec()), None);
    assert_eq!(seen(&disk), BTreeSet::from([before, after.clone()]));
    disk.sync_dir(Path::new("")).unwrap();
    assert_eq!(seen(&disk), BTreeSet::from([after]));
}

#[test]
fn a_removed_file_may_come_back() {
    let (disk, file) = with_file(b"x");
    disk.remove(Path::new("a")).unwrap();
    drop(file);
    assert_eq!(states(&disk, |disk| look(disk, "a")), BTreeSet::from([None, Some(b"x".to_vec())]));
    disk.sync_dir(Path::new("")).unwrap();
    assert_eq!(states(&disk, |disk| look(disk, "a")), BTreeSet::from([None]));
}

#[test]
fn changes_to_different_names_survive_in_any_combination_and_to_one_in_order() {
    let (disk, _file) = with_file(b"1");
    open(&disk, "b");
    disk.rename(Path::new("a"), Path::new("c")).unwrap();
    open(&disk, "a");
    let seen = states(&disk, |disk| {
        let content = |path| look(disk, path).map(|bytes| bytes.len());
        (content("a"), content("b"), content("c"))
    });
    let (one, empty) = (Some(1), Some(0));
    // The second `a`, empty, cannot be there without the first having moved to `c`.
    let of_a_and_c = [(one, None), (None, one), (empty, one)];
    let expected = of_a_and_c.into_iter().flat_map(|(a, c)| [(a, None, c), (a, empty, c)]);
    assert_eq!(seen, expected.collect());
}

#[test]
fn a_file_is_there_if_the_whole_path_to_it_is() {
    let disk = SimDisk::new(0);
    let dir = Path::new("x/y");
    disk.create_dir_all(dir).unwrap();
    open(&disk, "x/y/a").sync().unwrap();
    disk.sync_dir(dir).unwrap();
    let there = |disk: &SimDisk| states(disk, |disk| look(disk, "x/y/a").is_some());
    assert_eq!(there(&disk), BTreeSet::from([false, true]));
    disk.sync_dir(Path::new("x")).unwrap();
    assert_eq!(there(&disk), BTreeSet::from([false, true]));
    disk.sync_dir(Path::new("")).unwrap();
    assert_eq!(there(&disk), BTreeSet::from([true]));
}

#[test]
fn a_rename_between_directories_needs_the_new_ones_sync() {
    let (disk, _file) = with_file(b"x");
    disk.create_dir_all(Path::new("d")).unwrap();
    disk.sync_dir(Path::new("")).unwrap();
    disk.rename(Path::new("a"), Path::new("d/a")).unwrap();
    let places =
        |disk: &SimDisk| states(disk, |disk| [look(disk, "a").is_some(), look(disk, "d/a").is_some()]);
    disk.sync_dir(Path::new("")).unwrap();
    assert_eq!(places(&disk), BTreeSet::from([[true, false], [false, true]]));
    disk.sync_dir(Path::new("d")).unwrap();
    assert_eq!(places(&disk), BTreeSet::from([[false, true]]));
}

#[test]
fn each_survival_does_what_it_says() {
    let (disk, file) = with_file(&[0; 4 * 512]);
    for sector in 0..4 {
        file.write_at(&[1; 512], sector * 512).unwrap();
    }
    let under = |survival| -> BTreeSet<String> {
        let look = |seed| look(&disk.crash_as(survival, seed), "a").unwrap();
        let sectors =
            |bytes: Vec<u8>| bytes.chunks(512).map(|sector| if sector[0] == 0 { '-' } else { '+' }).collect();
        (0..SEEDS).map(|seed| sectors(look(seed))).collect()
    };
    let set = |states: &[&str]| states.iter().map(|state| (*state).to_owned()).collect::<BTreeSet<String>>();
    assert_eq!(under(Survival::Everything), set(&["++++"]));
    assert_eq!(under(Survival::Nothing), set(&["----"]));
    assert_eq!(under(Survival::Earlier), set(&["----", "+---", "++--", "+++-", "++++"]));
    assert_eq!(under(Survival::Later), set(&["----", "---+", "--++", "-+++", "++++"]));
    assert_eq!(under(Survival::AllButOne), set(&["-+++", "+-++", "++-+", "+++-", "++++"]));
    assert_eq!(under(Survival::OnlyOne), set(&["+---", "-+--", "--+-", "---+", "----"]));
    assert_eq!(under(Survival::Changes).len(), 16);
    assert_eq!(under(Survival::Sectors).len(), 16);
}

#[test]
fn a_crash_leaves_the_disk_that_crashed_alone() {
    let (disk, file) = with_file(b"old");
    file.write_at(b"new", 0).unwrap();
    assert!(file.try_lock().unwrap());
    let found = disk.crash_as(Survival::Everything, 0);
    assert_eq!((found.unsynced(), found.calls()), (0, 0), "a disk just started");
    let other = open(&found, "a");
    assert!(other.try_lock().unwrap(), "locks do not survive");
    other.write_at(b"NEW", 0).unwrap();
    assert_eq!(all(&*file), b"new");
    file.write_at(b"end", 0).unwrap();
    assert_eq!(all(&*other), b"NEW");
    assert_eq!(disk.unsynced(), 2);
}

#[test]
fn a_crash_of_a_crash_keeps_what_the_first_one_left() {
    let (disk, file) = with_file(&[0; 4096]);
    file.write_at(&[1; 4096], 0).unwrap();
    open(&disk, "b");
    for seed in 0..50 {
        let first = disk.crash(seed);
        let seen = |disk: &SimDisk| (look(disk, "a"), look(disk, "b"));
        for again in 0..10 {
            assert!(seen(&first.crash(again)) == seen(&first));
        }
    }
}

/// One step of a random history of a disk with three names in two directories.
#[derive(Clone, Debug)]
enum Step {
    Write { file: usize, offset: u64, len: usize, window: bool },
    SetLen { file: usize, len: u64 },
    Sync { file: usize },
    Rename { from: usize, to: usize },
    Remove { file: usize },
    SyncDir { sub: bool },
}

const PATHS: [&str; 3] = ["a", "b", "sub/c"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let file = || 0..PATHS.len();
    let step = prop_oneof![
        4 => (file(), 0..6000u64, 1..3000usize, any::<bool>())
            .prop_map(|(file, offset, len, window)| Step::Write { file, offset, len, window }),
        1 => (file(), 0..9000u64).prop_map(|(file, len)| Step::SetLen { file, len }),
        2 => file().prop_map(|file| Step::Sync { file }),
        1 => (file(), file()).prop_map(|(from, to)| Step::Rename { from, to }),
        1 => file().prop_map(|file| Step::Remove { file }),
        1 => any::<bool>().prop_map(|sub| Step::SyncDir { sub }),
    ];
    prop::collection::vec(step, 1..30)
}

/// Does a step, filling writes with `fill`. Steps on files that are not there do nothing.
fn take(disk: &SimDisk, step: &Step, fill: u8) {
    let path = |file: usize| Path::new(PATHS[file]);
    match *step {
        Step::Write { file, offset, len, window } => {
            let file = open(disk, PATHS[file]);
            if window {
                file.preallocate(offset, len as u64).unwrap();
                file.window(offset, len).unwrap().write(0, &vec![fill; len]).unwrap();
            } else {
                file.write_at(&vec![fill; len], offset).unwrap();
            }
        }
        Step::SetLen { file, len } => open(disk, PATHS[file]).set_len(len).unwrap(),
        Step::Sync { file } => open(disk, PATHS[file]).sync().unwrap(),
        Step::Rename { from, to } => drop(disk.rename(path(from), path(to))),
        Step::Remove { file } => drop(disk.remove(path(file))),
        Step::SyncDir { sub } => disk.sync_dir(Path::new(if sub { "sub" } else { "" })).unwrap(),
    }
}

fn history(seed: u64, steps: &[Step]) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.create_dir_all(Path::new("sub")).unwrap();
    disk.sync_dir(Path::new("")).unwrap();
    for (fill, step) in (1..).zip(steps) {
        take(&disk, step, fill);
    }
    disk
}

fn everything(disk: &SimDisk) -> Vec<Option<Vec<u8>>> {
    PATHS.iter().map(|path| look(disk, path)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn if_all_survives_nothing_has_changed(steps in steps()) {
        let disk = history(0, &steps);
        prop_assert!(everything(&disk.crash_as(Survival::Everything, 1)) == everything(&disk));
    }

    #[test]
    fn if_nothing_survives_the_disk_is_as_synced(
        steps in steps(),
        seeds in prop::array::uniform4(any::<u64>()),
    ) {
        let disk = history(0, &steps);
        let durable = everything(&disk.crash_as(Survival::Nothing, 0));
        // Whatever comes later must not reach back, so syncing nothing more changes nothing.
        for seed in seeds {
            prop_assert!(everything(&disk.crash_as(Survival::Nothing, seed)) == durable);
        }
        for dir in ["", "sub"] {
            disk.sync_dir(Path::new(dir)).unwrap();
        }
        for path in PATHS.iter().filter(|path| look(&disk, path).is_some()) {
            open(&disk, path).sync().unwrap();
        }
        for seed in seeds {
            prop_assert!(everything(&disk.crash(seed)) == everything(&disk), "all synced, all there");
        }
    }

    #[test]
    fn a_crash_follows_from_the_history_and_the_seed(steps in steps(), seed in any::<u64>()) {
        let one = history(seed, &steps).crash(seed);
        let two = history(seed, &steps).crash(seed);
        prop_assert!(everything(&one) == everything(&two));
    }

    /// Each sector is as it was after one of the changes to the file since it was synced; so is the length.
    #[test]
    fn every_sector_is_one_that_was_there(steps in steps(), seeds in prop::array::uniform16(any::<u64>())) {
        let disk = SimDisk::new(0);
        let file = open(&disk, "a");
        disk.sync_dir(Path::new("")).unwrap();
        let mut versions = vec![Vec::new()];
        for (fill, step) in (1..).zip(&steps) {
            match *step {
                Step::Sync { .. } => {
                    file.sync().unwrap();
                    versions = vec![all(&*file)];
                }
                Step::Write { offset, len, .. } => file.write_at(&vec![fill; len], offset).unwrap(),
                Step::SetLen { len, .. } => file.set_len(len).unwrap(),
                _ => {}
            }
            versions.push(all(&*file));
        }
        // A sector of a version, cut off at a length that the file had.
        let sector = |bytes: &[u8], number: usize, len: usize| {
            let mut sector = [0; 512];
            let bytes = bytes[..len.min(bytes.len())].get(number * 512..).unwrap_or_default();
            let len = bytes.len().min(512);
            sector[..len].copy_from_slice(&bytes[..len]);
            sector
        };
        for seed in seeds {
            let found = look(&disk.crash(seed), "a").unwrap();
            prop_assert!(
                versions.iter().any(|version| version.len() == found.len()),
                "length {}",
                found.len()
            );
            for number in 0..found.len().div_ceil(512) {
                let got = sector(&found, number, usize::MAX);
                let seen = (found.len() - number * 512).min(512);
                let was_there = versions.iter().any(|version| {
                    let cuts = versions.iter().map(Vec::len).chain([usize::MAX]);
                    cuts.into_iter().any(|cut| sector(version, number, cut)[..seen] == got[..seen])
                });
                prop_assert!(was_there, "sector {} at seed {}", number, seed);
            }
        }
    }
}

#[test]
fn a_write_that_is_durable_by_itself_survives_every_crash_and_takes_nothing_along() {
    let disk = SimDisk::new(1);
    let path = Path::new("f");
    let file = disk.open(path, CREATE).unwrap();
    file.write_at(&[1; 4096], 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir(Path::new("")).unwrap();
    // Pending on both sides of it, and under it.
    file.write_at(&[2; 2048], 512).unwrap();
    disk.open(path, How { durable: true, ..CREATE }).unwrap().write_at(&[3; 512], 1024).unwrap();
    let found = |disk: SimDisk| {
        let mut bytes = vec![0; 4096];
        disk.open(path, CREATE).unwrap().read_at(&mut bytes, 0).unwrap();
        bytes
    };
    let parts = |bytes: &[u8]| -> Vec<u8> { bytes.chunks(512).map(|sector| sector[0]).collect() };
    assert_eq!(parts(&found(disk.crash_as(Survival::Nothing, 1))), [1, 1, 3, 1, 1, 1, 1, 1]);
    assert_eq!(parts(&found(disk.crash_as(Survival::Everything, 1))), [1, 2, 3, 2, 2, 1, 1, 1]);
    for seed in 0..200 {
        assert_eq!(parts(&found(disk.crash(seed)))[2], 3);
    }
}
