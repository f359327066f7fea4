//! Calls of the simulated disk that fail, power that goes at a chosen call, and space that runs out.

#![allow(clippy::unwrap_used, reason = "an error is a failed test")]

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use sablecat_os::disk::{Disk, File, How};
use sablecat_os::sim::{Fault, PowerLost, SimDisk, Survival};

const CREATE: How = How { create: true, create_new: false, read_only: false, direct: false, durable: false };
const ROOT: &str = "";

fn open(disk: &SimDisk, path: &str) -> Arc<dyn File> {
    disk.open(Path::new(path), CREATE).unwrap()
}

fn all(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn with_file(seed: u64, bytes: &[u8]) -> (SimDisk, Arc<dyn File>) {
    let disk = SimDisk::new(seed);
    let file = open(&disk, "a");
    file.write_at(bytes, 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir(Path::new(ROOT)).unwrap();
    (disk, file)
}

fn kind<T>(result: io::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn every_call_counts_and_can_be_the_one_that_fails() {
    let (disk, file) = with_file(0, &[0; 4096]);
    let path = Path::new("a");
    type Act<'a> = &'a dyn Fn() -> io::Result<()>;
    let acts: [Act<'_>; 17] = [
        &|| disk.open(path, CREATE).map(drop),
        &|| disk.create_dir_all(Path::new("d")),
        &|| disk.list(Path::new(ROOT)).map(drop),
        &|| disk.rename(path, path),
        &|| disk.remove(Path::new("b")),
        &|| disk.exists(path).map(drop),
        &|| disk.sync_dir(Path::new(ROOT)),
        &|| disk.free_bytes(Path::new(ROOT)).map(drop),
        &|| file.read_at(&mut [0], 0).map(drop),
        &|| file.write_at(&[0], 0),
        &|| file.write_all_at(&[&[0]], 0),
        &|| file.sync(),
        &|| file.len().map(drop),
        &|| file.set_len(4096),
        &|| file.preallocate(0, 1),
        &|| file.try_lock().map(drop),
        &|| file.window(0, 1).map(drop),
    ];
    for act in acts {
        let before = disk.calls();
        disk.fail_at(before + 1, Fault::Error(ErrorKind::TimedOut));
        assert_eq!(kind(act()), Some(ErrorKind::TimedOut));
        assert_eq!(disk.calls(), before + 1);
        assert_ne!(kind(act()), Some(ErrorKind::TimedOut), "a fault happens once");
        assert_eq!(disk.calls(), before + 2);
    }
    let window = file.window(0, 1).unwrap();
    let before = disk.calls();
    disk.fail_at(before + 1, Fault::Error(ErrorKind::TimedOut));
    assert_eq!(kind(window.write(0, &[7])), Some(ErrorKind::TimedOut));
    assert_eq!(disk.calls(), before + 1, "a write through a window counts");
    window.write(0, &[7]).unwrap();
    assert_eq!(all(&*file)[0], 7);
}

#[test]
fn a_call_that_fails_does_nothing() {
    let (disk, file) = with_file(0, b"old");
    let plan = |kind| disk.fail_at(disk.calls() + 1, Fault::Error(kind));
    plan(ErrorKind::Other);
    assert!(file.write_at(b"new", 0).is_err());
    plan(ErrorKind::Other);
    assert!(file.set_len(0).is_err());
    plan(ErrorKind::Other);
    assert!(disk.remove(Path::new("a")).is_err());
    plan(ErrorKind::Other);
    assert!(disk.open(Path::new("b"), CREATE).is_err());
    assert_eq!((all(&*file), disk.list(Path::new(ROOT)).unwrap()), (b"old".to_vec(), vec!["a".to_owned()]));
    assert_eq!(disk.unsynced(), 0);
}

#[test]
fn faults_wait_for_a_call_they_suit_and_keep_their_order() {
    let (disk, file) = with_file(0, &[0; 512]);
    let next = disk.calls() + 1;
    disk.fail_at(next, Fault::SyncFails);
    disk.fail_at(next, Fault::ShortWrite);
    disk.fail_at(next + 1000, Fault::Error(ErrorKind::Other));
    assert!(file.len().is_ok());
    assert_eq!(kind(file.write_at(&[1; 512], 0)), Some(ErrorKind::WriteZero));
    assert!(file.write_at(&[1; 512], 0).is_ok());
    assert!(file.sync().is_err());
    assert!(file.sync().is_ok());
    disk.clear_faults();
    for _ in 0..1000 {
        file.len().unwrap();
    }
}

#[test]
fn a_short_write_writes_a_part_from_the_start() {
    let mut lengths = BTreeSet::new();
    for seed in 0..100 {
        for fault in [Fault::ShortWrite, Fault::DiskFull] {
            let (disk, file) = with_file(seed, &[0; 2048]);
            disk.fail_at(disk.calls() + 1, fault);
            let expected =
                if fault == Fault::DiskFull { ErrorKind::StorageFull } else { ErrorKind::WriteZero };
            assert_eq!(kind(file.write_all_at(&[&[1; 1000], &[1; 1048]], 0)), Some(expected));
            let bytes = all(&*file);
            let written = bytes.iter().take_while(|byte| **byte == 1).count();
            assert!(bytes[written..].iter().all(|byte| *byte == 0));
            lengths.insert(written);
        }
    }
    assert_eq!(lengths, BTreeSet::from([0, 512, 1024, 1536]), "never all");
}

#[test]
fn a_full_disk_refuses_whatever_takes_space() {
    let (disk, file) = with_file(0, &[0; 512]);
    let full = |act: &dyn Fn() -> io::Result<()>| {
        disk.fail_at(disk.calls() + 1, Fault::DiskFull);
        assert_eq!(kind(act()), Some(ErrorKind::StorageFull));
    };
    full(&|| file.preallocate(0, 100));
    full(&|| disk.create_dir_all(Path::new("d")));
    full(&|| disk.open(Path::new("b"), CREATE).map(drop));
    assert_eq!(disk.list(Path::new(ROOT)).unwrap(), ["a"]);
    disk.fail_at(disk.calls() + 1, Fault::DiskFull);
    disk.remove(Path::new("a")).unwrap();
}

/// What fsyncgate taught: the data is gone, the cache may show it, and the next sync says all is well.
#[test]
fn after_a_failed_sync_the_data_may_be_lost_for_good() {
    let (mut lost, mut kept, mut torn, mut still_read, mut forgotten) = (0, 0, 0, 0, 0);
    for seed in 0..200 {
        let (disk, file) = with_file(seed, &[1; 1024]);
        file.write_at(&[2; 1024], 0).unwrap();
        disk.fail_at(disk.calls() + 1, Fault::SyncFails);
        assert!(file.sync().is_err());
        let read = all(&*file);
        assert_eq!(disk.unsynced(), 0, "the system takes it for clean");
        file.sync().unwrap();
        let states: BTreeSet<Vec<u8>> = (0..20).map(|seed| all(&*open(&disk.crash(seed), "a"))).collect();
        let durable = states.into_iter().next().expect("twenty crashes of one state");
        match (durable[0], durable[512]) {
            (1, 1) => lost += 1,
            (2, 2) => kept += 1,
            _ => torn += 1,
        }
        if read == durable {
            forgotten += 1;
        } else {
            assert_eq!(read, [2; 1024]);
            still_read += 1;
        }
    }
    assert!(
        lost > 0 && kept > 0 && torn > 0 && still_read > 0 && forgotten > 0,
        "{lost} {kept} {torn} {still_read}"
    );
}

#[test]
fn after_a_failed_sync_what_was_synced_before_and_what_comes_after_is_safe() {
    for seed in 0..100 {
        let (disk, file) = with_file(seed, &[1; 1024]);
        file.write_at(&[2; 512], 512).unwrap();
        disk.fail_at(disk.calls() + 1, Fault::SyncFails);
        assert!(file.sync().is_err());
        file.write_at(&[3; 512], 1024).unwrap();
        file.sync().unwrap();
        let found = all(&*open(&disk.crash(seed), "a"));
        assert_eq!((&found[..512], &found[1024..]), (&[1; 512][..], &[3; 512][..]));
    }
}

#[test]
fn after_a_failed_directory_sync_names_may_be_lost_for_good() {
    let mut there = BTreeSet::new();
    for seed in 0..100 {
        let (disk, _file) = with_file(seed, b"x");
        let new = open(&disk, "b");
        disk.fail_at(disk.calls() + 1, Fault::SyncFails);
        assert!(disk.sync_dir(Path::new(ROOT)).is_err());
        disk.sync_dir(Path::new(ROOT)).unwrap();
        new.write_at(b"y", 0).unwrap();
        assert_eq!(disk.list(Path::new(ROOT)).unwrap(), ["a", "b"], "readers see the name");
        there.insert(disk.crash(0).list(Path::new(ROOT)).unwrap().concat());
    }
    assert_eq!(there, BTreeSet::from(["a".to_owned(), "ab".to_owned()]));
}

#[test]
fn after_the_power_is_gone_nothing_happens() {
    let (disk, file) = with_file(0, &[0; 512]);
    let window = file.window(0, 512).unwrap();
    disk.crash_at(disk.calls() + 1);
    file.write_at(&[1], 0).unwrap();
    assert!(!disk.has_crashed(), "the last call is done");
    let calls = disk.calls();
    assert!(PowerLost::is(&window.write(1, &[1]).unwrap_err()));
    let error = file.write_at(&[1], 2).unwrap_err();
    assert!(PowerLost::is(&error), "{error}");
    assert!(PowerLost::is(&disk.list(Path::new(ROOT)).unwrap_err()));
    assert!(PowerLost::is(&file.len().unwrap_err()));
    assert!(PowerLost::is(&file.sync().unwrap_err()));
    assert!(PowerLost::is(&disk.open(Path::new("b"), CREATE).unwrap_err()));
    assert!(!PowerLost::is(&io::Error::other("another")));
    assert!(disk.has_crashed());
    assert_eq!((disk.calls(), disk.unsynced()), (calls, 1));
    drop((file, window));
    let found = disk.crash_as(Survival::Everything, 0);
    assert_eq!(all(&*open(&found, "a"))[..3], [1, 0, 0]);
    assert!(!found.has_crashed());
    disk.clear_faults();
    assert_eq!(all(&*open(&disk, "a"))[..3], [1, 0, 0], "only the power was gone");
}

#[test]
fn power_that_is_gone_from_the_start_leaves_an_empty_disk() {
    let disk = SimDisk::new(0);
    disk.crash_at(0);
    assert!(disk.open(Path::new("a"), CREATE).is_err());
    assert_eq!(disk.crash(0).list(Path::new(ROOT)).unwrap(), [""; 0]);
}

/// The pattern that the whole simulation is for, with a program that gets it right: write aside, sync,
/// rename, sync.
#[test]
fn a_careful_program_is_safe_at_every_call() {
    fn replace(disk: &SimDisk, bytes: &[u8]) -> io::Result<()> {
        let file = disk.open(Path::new("d/new"), CREATE)?;
        file.set_len(0)?;
        file.write_at(bytes, 0)?;
        file.sync()?;
        disk.rename(Path::new("d/new"), Path::new("d/current"))?;
        disk.sync_dir(Path::new("d"))
    }
    fn start(disk: &SimDisk) -> io::Result<()> {
        disk.create_dir_all(Path::new("d"))?;
        disk.sync_dir(Path::new(ROOT))
    }
    let bytes = |version: u8| vec![version; 3000];
    let whole = SimDisk::new(0);
    start(&whole)
        .and_then(|()| replace(&whole, &bytes(1)))
        .and_then(|()| replace(&whole, &bytes(2)))
        .unwrap();
    for call in 0..=whole.calls() {
        let disk = SimDisk::new(0);
        disk.crash_at(call);
        let mut acknowledged = 0;
        let run = start(&disk).and_then(|()| {
            for version in 1..=2 {
                replace(&disk, &bytes(version))?;
                acknowledged = version;
            }
            Ok(())
        });
        assert_eq!(run.is_err(), call < whole.calls());
        for seed in 0..40 {
            let found = disk.crash(seed);
            let current = found
                .open(Path::new("d/current"), How::default())
                .map(|file| all(&*file))
                .unwrap_or_default();
            let versions = acknowledged..=2;
            let fits = |version| current == if version == 0 { Vec::new() } else { bytes(version) };
            assert!(versions.into_iter().any(fits), "call {call}, seed {seed}, {acknowledged} acknowledged");
        }
    }
}

/// The same program without its first sync is caught.
#[test]
fn a_careless_program_is_caught() {
    let (disk, _old) = with_file(0, &[1; 3000]);
    let file = open(&disk, "new");
    file.write_at(&[2; 3000], 0).unwrap();
    disk.rename(Path::new("new"), Path::new("a")).unwrap();
    disk.sync_dir(Path::new(ROOT)).unwrap();
    let broken = (0..100).filter(|seed| all(&*open(&disk.crash(*seed), "a")) != [2; 3000]).count();
    assert!(broken > 10, "{broken} of 100");
}

#[test]
fn space_runs_out_and_comes_back() {
    let disk = SimDisk::new(0);
    disk.set_capacity(10 * 4096);
    let room = || disk.free_bytes(Path::new(ROOT)).unwrap();
    let (first, second) = (open(&disk, "a"), open(&disk, "b"));
    first.preallocate(0, 8 * 4096).unwrap();
    assert_eq!(room(), 2 * 4096);
    assert_eq!(kind(second.write_at(&[1; 3 * 4096], 0)), Some(ErrorKind::StorageFull));
    assert_eq!(second.len().unwrap(), 2 * 4096, "what fits is written");
    assert_eq!(room(), 0);
    assert_eq!(kind(second.write_at(&[1], 2 * 4096)), Some(ErrorKind::StorageFull));
    assert_eq!(kind(second.preallocate(2 * 4096, 1)), Some(ErrorKind::StorageFull));
    first.write_at(&[1; 8 * 4096], 0).unwrap();
    second.write_at(&[2; 2 * 4096], 0).unwrap();
    second.set_len(1 << 40).unwrap();
    assert_eq!(room(), 0, "holes take no space");
    disk.remove(Path::new("a")).unwrap();
    assert_eq!(room(), 0, "who has it open keeps it");
    drop(first);
    assert_eq!(room(), 8 * 4096);
    assert_eq!(
        disk.crash_as(Survival::Everything, 0).free_bytes(Path::new(ROOT)).unwrap(),
        8 * 4096,
        "and after a crash"
    );
    second.set_len(0).unwrap();
    assert_eq!(room(), 10 * 4096);
}

#[test]
fn what_no_path_leads_to_after_a_crash_takes_no_space() {
    let disk = SimDisk::new(0);
    disk.set_capacity(8192);
    disk.create_dir_all(Path::new("d")).unwrap();
    let file = open(&disk, "d/a");
    file.write_at(&[1; 8192], 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir(Path::new("d")).unwrap();
    let found = disk.crash_as(Survival::Nothing, 0);
    assert_eq!(found.free_bytes(Path::new(ROOT)).unwrap(), 8192);
}

#[test]
fn a_window_onto_a_hole_is_refused() {
    let (disk, file) = with_file(0, b"");
    file.set_len(8192).unwrap();
    assert_eq!(kind(file.window(0, 10)), Some(ErrorKind::InvalidInput));
    file.preallocate(0, 8192).unwrap();
    assert!(file.window(0, 8192).is_ok());
    drop(disk);
}

#[test]
fn threads_share_a_disk() {
    let disk = SimDisk::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let disk = &disk;
            scope.spawn(move || {
                let own = open(disk, &format!("own{thread}"));
                let common = open(disk, "common");
                for round in 0..200 {
                    own.write_at(&[thread; 600], round * 600).unwrap();
                    common.write_at(&[1], round * 4 + u64::from(thread)).unwrap();
                    own.sync().unwrap();
                    disk.sync_dir(Path::new(ROOT)).unwrap();
                    drop(disk.crash(round));
                }
            });
        }
    });
    assert_eq!(all(&*open(&disk, "common")), [1; 800]);
    for thread in 0..4 {
        assert_eq!(all(&*open(&disk.crash(0), &format!("own{thread}"))), vec![thread; 200 * 600]);
    }
}

#[test]
fn a_lie_is_not_told_and_changes_nothing_or_another_place() {
    for seed in 0..20 {
        let (disk, file) = with_file(seed, &[1; 16384]);
        disk.fail_at(disk.calls() + 1, Fault::LostWrite);
        file.write_at(&[2; 4096], 4096).unwrap();
        file.sync().unwrap();
        assert_eq!(all(&*file), [1; 16384]);
        assert!(disk.has_lied_about(Path::new("a")).unwrap());
        disk.fail_at(disk.calls() + 1, Fault::LostWrite);
        file.write_at(&[2; 4096], 16384).unwrap();
        assert_eq!(all(&*file)[16384..], [0; 4096], "the file is as long as it would be");

        let (disk, file) = with_file(seed, &[1; 16384]);
        assert!(!disk.has_lied_about(Path::new("a")).unwrap());
        disk.fail_at(disk.calls() + 1, Fault::MisdirectedWrite);
        file.write_at(&[2; 4096], 4096).unwrap();
        file.sync().unwrap();
        let crashed = disk.crash(seed);
        let bytes = all(&*open(&crashed, "a"));
        let wrong: Vec<_> = bytes.chunks(4096).map(|block| block == [2; 4096]).collect();
        assert_eq!(wrong.iter().filter(|&&is_there| is_there).count(), 1, "{wrong:?}");
        assert!(!wrong[1]);
        assert!(crashed.has_lied_about(Path::new("a")).unwrap());
    }
}
