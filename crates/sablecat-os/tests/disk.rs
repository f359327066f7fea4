//! What a disk promises while the power is on, asked of the machine's and of the simulated one alike.

#![allow(clippy::unwrap_used, reason = "an error is a failed test")]

use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use proptest::prelude::*;
use sablecat_os::disk::{AlignedBuf, Disk, File, HostDisk, How, Window};
use sablecat_os::sim::SimDisk;

const CREATE: How = How { create: true, create_new: false, read_only: false, direct: false, durable: false };
const EXISTING: How = How { create: false, ..CREATE };
const READ_ONLY: How = How { read_only: true, ..EXISTING };
const DIRECT: How = How { direct: true, ..CREATE };

/// A directory of the test's own on the machine, gone with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        let mut name = [0; 8];
        sablecat_os::random::bytes(&mut name);
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("disk-{:016x}", u64::from_ne_bytes(name)));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a test on both disks, in a directory that exists and is empty.
fn on_both(test: impl Fn(&dyn Disk, &Path)) {
    let scratch = Scratch::new();
    test(&HostDisk, &scratch.0);
    let sim = SimDisk::new(0);
    sim.create_dir_all(Path::new("/scratch")).unwrap();
    test(&sim, Path::new("/scratch"));
}

fn all(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

fn kind<T>(result: io::Result<T>) -> ErrorKind {
    match result {
        Ok(_) => panic!("this was to fail"),
        Err(error) => error.kind(),
    }
}

#[test]
fn bytes_are_read_as_they_were_written() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("a"), CREATE).unwrap();
        assert!(file.is_empty().unwrap());
        file.write_at(b"world", 5000).unwrap();
        file.write_at(b"hello", 0).unwrap();
        assert_eq!(file.len().unwrap(), 5005);
        let mut buf = [9; 8];
        assert_eq!(file.read_at(&mut buf, 0).unwrap(), 8);
        assert_eq!(&buf, b"hello\0\0\0", "a gap reads as zero");
        assert_eq!(file.read_at(&mut buf, 5001).unwrap(), 4, "short at the end");
        assert_eq!(&buf[..4], b"orld");
        assert_eq!(file.read_at(&mut buf, 5005).unwrap(), 0);
        assert_eq!(file.read_at(&mut buf, 1 << 40).unwrap(), 0);
        file.write_at(b"", 1 << 40).unwrap();
        assert_eq!(file.len().unwrap(), 5005, "writing nothing is doing nothing");
        file.sync().unwrap();
    });
}

#[test]
fn many_buffers_are_written_as_one() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("a"), CREATE).unwrap();
        let long: Vec<Vec<u8>> = (0..3000u32).map(|i| i.to_le_bytes()[..i as usize % 5].to_vec()).collect();
        let bufs: Vec<&[u8]> = long.iter().map(Vec::as_slice).collect();
        file.write_all_at(&bufs, 100).unwrap();
        assert_eq!(all(&*file)[100..], bufs.concat());
        let len = file.len().unwrap();
        file.write_all_at(&[], 1 << 30).unwrap();
        file.write_all_at(&[b"", b""], 1 << 30).unwrap();
        assert_eq!(file.len().unwrap(), len);
    });
}

#[test]
fn lengths_change_and_new_bytes_are_zero() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("a"), CREATE).unwrap();
        file.write_at(&[7; 6000], 0).unwrap();
        file.set_len(10).unwrap();
        file.set_len(20).unwrap();
        assert_eq!(all(&*file), [[7; 10], [0; 10]].concat());
        file.preallocate(15, 10_000).unwrap();
        assert_eq!(file.len().unwrap(), 10_015);
        assert_eq!(all(&*file)[..10], [7; 10], "reserving changes no bytes");
        file.preallocate(0, 100).unwrap();
        file.preallocate(1 << 40, 0).unwrap();
        assert_eq!(file.len().unwrap(), 10_015, "reserving never shortens");
        assert_eq!(kind(file.write_at(b"x", u64::MAX)), ErrorKind::InvalidInput);
        assert_eq!(kind(file.write_all_at(&[b"x"], i64::MAX as u64)), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_hole_reads_as_zeros_and_gives_its_space_back() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("a"), CREATE).unwrap();
        file.write_at(&[7; 1 << 20], 0).unwrap();
        file.sync().unwrap();
        let before = file.space().unwrap();
        assert!(before >= 1 << 20, "{before}");
        if !file.punch(100_000, 500_000).unwrap() {
            return;
        }
        assert_eq!(file.len().unwrap(), 1 << 20, "it keeps its length");
        let bytes = all(&*file);
        assert!((0..1 << 20).all(|n| bytes[n] == if (100_000..600_000).contains(&n) { 0 } else { 7 }));
        let after = file.space().unwrap();
        assert!(after + 400_000 < before, "{after} of {before}");
        // Also behind the end, where there is nothing.
        assert!(file.punch(1 << 20, 4096).unwrap());
        assert_eq!(file.len().unwrap(), 1 << 20);
    });
}

#[test]
fn opening_makes_a_file_only_when_asked() {
    on_both(|disk, dir| {
        let path = dir.join("a");
        assert_eq!(kind(disk.open(&path, EXISTING)), ErrorKind::NotFound);
        assert!(!disk.exists(&path).unwrap());
        let new = How { create_new: true, ..EXISTING };
        disk.open(&path, new).unwrap().write_at(b"x", 0).unwrap();
        assert!(disk.exists(&path).unwrap());
        assert_eq!(kind(disk.open(&path, new)), ErrorKind::AlreadyExists);
        assert_eq!(all(&*disk.open(&path, CREATE).unwrap()), b"x", "creating keeps what is there");
        assert_eq!(kind(disk.open(&dir.join("no/b"), CREATE)), ErrorKind::NotFound);
        assert_eq!(kind(disk.open(&path.join("b"), CREATE)), ErrorKind::NotADirectory);
        assert_eq!(kind(disk.open(dir, EXISTING)), ErrorKind::IsADirectory);
        assert_eq!(
            kind(disk.open(&dir.join("c"), How { create: true, ..READ_ONLY })),
            ErrorKind::InvalidInput
        );
    });
}

#[test]
fn a_file_kept_in_place_is_one_like_any_other() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("a"), CREATE).unwrap();
        file.keep_in_place();
        file.preallocate(0, 8192).unwrap();
        file.write_at(&[7; 4096], 100).unwrap();
        // Too late by now, where it is a question at all.
        file.keep_in_place();
        file.write_at(&[8; 4096], 100).unwrap();
        assert_eq!(all(&*file)[..4196], [&[0; 100][..], &[8; 4096]].concat());
    });
}

#[test]
fn space_taken_in_memory_is_ready_to_be_written_to() {
    let path = PathBuf::from(format!("/dev/shm/sablecat-test-{}", std::process::id()));
    let file = HostDisk.open(&path, How { create_new: true, ..CREATE }).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(file.is_ready_preallocated());
    assert_eq!(file.space().unwrap(), 0);
    file.preallocate(0, 1 << 20).unwrap();
    assert_eq!((file.space().unwrap(), file.len().unwrap()), (1 << 20, 1 << 20));
    assert!(all(&*file).iter().all(|&byte| byte == 0));
    assert!(!SimDisk::new(0).open(Path::new("a"), CREATE).unwrap().is_ready_preallocated());
}

#[test]
fn a_file_opened_to_read_is_not_written() {
    on_both(|disk, dir| {
        let path = dir.join("a");
        disk.open(&path, CREATE).unwrap().write_at(b"x", 0).unwrap();
        let file = disk.open(&path, READ_ONLY).unwrap();
        assert!(file.write_at(b"y", 0).is_err());
        assert!(file.write_all_at(&[b"y"], 0).is_err());
        assert!(file.set_len(0).is_err());
        assert!(file.preallocate(0, 10).is_err());
        assert!(file.try_lock().is_err());
        assert!(file.window(0, 1).is_err());
        assert_eq!(all(&*file), b"x");
    });
}

#[test]
fn directories_hold_names() {
    on_both(|disk, dir| {
        disk.create_dir_all(&dir.join("x/y")).unwrap();
        disk.create_dir_all(&dir.join("x/y")).unwrap();
        for name in ["b", "c", "a"] {
            disk.open(&dir.join("x").join(name), CREATE).unwrap();
        }
        assert_eq!(disk.list(&dir.join("x")).unwrap(), ["a", "b", "c", "y"]);
        assert_eq!(disk.list(&dir.join("x/y")).unwrap(), [""; 0]);
        assert_eq!(kind(disk.list(&dir.join("z"))), ErrorKind::NotFound);
        assert_eq!(kind(disk.list(&dir.join("x/a"))), ErrorKind::NotADirectory);
        assert_eq!(kind(disk.create_dir_all(&dir.join("x/a"))), ErrorKind::AlreadyExists);
        disk.remove(&dir.join("x/b")).unwrap();
        assert_eq!(kind(disk.remove(&dir.join("x/b"))), ErrorKind::NotFound);
        assert!(disk.remove(&dir.join("x/y")).is_err(), "a directory is not a file");
        assert_eq!(disk.list(&dir.join("x")).unwrap(), ["a", "c", "y"]);
        disk.sync_dir(&dir.join("x")).unwrap();
        disk.sync_dir(Path::new("")).unwrap();
        assert_eq!(kind(disk.sync_dir(&dir.join("z"))), ErrorKind::NotFound);
        assert_eq!(kind(disk.sync_dir(&dir.join("x/a"))), ErrorKind::NotADirectory);
        assert!(disk.free_bytes(dir).unwrap() > 0);
    });
}

#[test]
fn renaming_replaces_and_moves() {
    on_both(|disk, dir| {
        let write = |name: &str, bytes: &[u8]| {
            disk.open(&dir.join(name), CREATE).unwrap().write_at(bytes, 0).unwrap()
        };
        let read = |name: &str| all(&*disk.open(&dir.join(name), EXISTING).unwrap());
        disk.create_dir_all(&dir.join("sub")).unwrap();
        write("a", b"new");
        write("b", b"old");
        disk.rename(&dir.join("a"), &dir.join("b")).unwrap();
        assert_eq!(
            (read("b"), disk.list(dir).unwrap()),
            (b"new".to_vec(), vec!["b".to_owned(), "sub".to_owned()])
        );
        disk.rename(&dir.join("b"), &dir.join("b")).unwrap();
        disk.rename(&dir.join("b"), &dir.join("sub/c")).unwrap();
        assert_eq!(read("sub/c"), b"new");
        disk.rename(&dir.join("sub"), &dir.join("bus")).unwrap();
        assert_eq!(read("bus/c"), b"new", "a directory takes along what is in it");
        assert_eq!(kind(disk.rename(&dir.join("a"), &dir.join("b"))), ErrorKind::NotFound);
        write("d", b"");
        assert!(disk.rename(&dir.join("d"), &dir.join("bus")).is_err());
        assert!(disk.rename(&dir.join("bus"), &dir.join("d")).is_err());
    });
}

#[test]
fn who_has_a_file_open_keeps_it() {
    on_both(|disk, dir| {
        let path = dir.join("a");
        let old = disk.open(&path, CREATE).unwrap();
        old.write_at(b"old", 0).unwrap();
        disk.remove(&path).unwrap();
        let new = disk.open(&path, CREATE).unwrap();
        new.write_at(b"new", 0).unwrap();
        disk.sync_dir(dir).unwrap();
        old.write_at(b"e", 3).unwrap();
        old.sync().unwrap();
        assert_eq!((all(&*old), all(&*new)), (b"olde".to_vec(), b"new".to_vec()));
    });
}

#[test]
fn a_lock_is_one_openings_and_goes_with_it() {
    on_both(|disk, dir| {
        let path = dir.join("a");
        let (first, second) = (disk.open(&path, CREATE).unwrap(), disk.open(&path, CREATE).unwrap());
        let other = disk.open(&dir.join("b"), CREATE).unwrap();
        assert!(first.try_lock().unwrap());
        assert!(first.try_lock().unwrap());
        assert!(!second.try_lock().unwrap());
        assert!(other.try_lock().unwrap());
        let again = Arc::clone(&first);
        drop(first);
        assert!(!second.try_lock().unwrap(), "the opening lives in its other reference");
        drop(again);
        assert!(second.try_lock().unwrap());
    });
}

#[test]
fn a_killed_process_lets_go_of_its_lock() {
    if let Some(path) = std::env::var_os("SABLECAT_TEST_LOCK") {
        let file = HostDisk.open(Path::new(&path), CREATE).unwrap();
        assert!(file.try_lock().unwrap());
        eprintln!("locked");
        let _ = io::stdin().read(&mut [0]);
        unreachable!("the parent kills this process");
    }
    let scratch = Scratch::new();
    let path = scratch.0.join("a");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_process_lets_go_of_its_lock", "--nocapture"])
        .env("SABLECAT_TEST_LOCK", &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 6];
    child.stderr.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"locked");
    let file = HostDisk.open(&path, CREATE).unwrap();
    assert!(!file.try_lock().unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(file.try_lock().unwrap());
}

/// A window; none on file systems that refuse them.
fn window(file: &dyn File, offset: u64, len: usize) -> Option<Box<dyn Window>> {
    match file.window(offset, len) {
        Err(error) if error.kind() == ErrorKind::Unsupported => None,
        window => Some(window.unwrap()),
    }
}

/// With a disk full of others' files it would kill a process that stores to it; the kernel says what kind of
/// file system a directory is on.
#[test]
fn a_window_is_refused_where_blocks_can_be_shared() {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    for directory in [std::env::temp_dir(), PathBuf::from("/dev/shm")] {
        // Of those mounted on one another the last is the one that is seen.
        let mounts = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .filter(|mount| directory.starts_with(mount[1]));
        let Some(mount) = mounts.max_by_key(|mount| mount[1].len()) else { continue };
        let refused = match mount[2] {
            "btrfs" | "xfs" | "zfs" | "bcachefs" | "overlay" => true,
            "ext4" | "tmpfs" => false,
            _ => continue,
        };
        let path = directory.join(format!("sablecat-window-{}", std::process::id()));
        let file = HostDisk.open(&path, CREATE).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.preallocate(0, 4096).unwrap();
        assert_eq!(window(&*file, 0, 4096).is_none(), refused, "{mount:?}");
    }
}

#[test]
fn what_is_written_through_a_window_is_read_from_the_file() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("a"), CREATE).unwrap();
        file.preallocate(0, 20_000).unwrap();
        let Some(window) = window(&*file, 5001, 10_000) else { return };
        window.write(0, b"first").unwrap();
        window.write(9_996, b"last").unwrap();
        window.write(10_000, b"").unwrap();
        let mut buf = [0; 7];
        file.read_at(&mut buf, 5000).unwrap();
        assert_eq!(&buf, b"\0first\0");
        file.read_at(&mut buf, 14_996).unwrap();
        assert_eq!(&buf, b"\0last\0\0");
        file.write_at(b"F", 5001).unwrap();
        drop(file);
        window.write(1, b"I").unwrap();
        let file = disk.open(&dir.join("a"), EXISTING).unwrap();
        file.read_at(&mut buf, 5000).unwrap();
        assert_eq!(&buf, b"\0FIrst\0", "a window holds the file open");
        file.sync().unwrap();
    });
}

#[test]
fn a_window_is_onto_bytes_that_exist() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("a"), CREATE).unwrap();
        file.preallocate(0, 4096).unwrap();
        assert_eq!(kind(file.window(0, 4097)), ErrorKind::InvalidInput);
        assert_eq!(kind(file.window(4096, 1)), ErrorKind::InvalidInput);
        assert_eq!(kind(file.window(0, 0)), ErrorKind::InvalidInput);
        assert_eq!(kind(file.window(u64::MAX, 2)), ErrorKind::InvalidInput);
        let Some(window) = window(&*file, 0, 4096) else { return };
        for (offset, len) in [(4096, 1), (4000, 97), (usize::MAX, 1)] {
            let beyond = std::panic::AssertUnwindSafe(|| window.write(offset, &vec![1; len]));
            assert!(std::panic::catch_unwind(beyond).is_err(), "{len} bytes at {offset}");
        }
        assert_eq!(all(&*file), [0; 4096]);
        window.write(4000, &[1; 96]).unwrap();
    });
}

#[test]
fn direct_transfers_are_aligned_and_end_with_the_file() {
    on_both(|disk, dir| {
        let path = dir.join("a");
        let mut block = AlignedBuf::new(8192);
        block.fill(7);
        let file = disk.open(&path, DIRECT).unwrap();
        file.write_at(&block[..4096], 4096).unwrap();
        file.write_all_at(&[&block[..4096], &block[4096..]], 8192).unwrap();
        file.sync().unwrap();
        block.fill(0);
        assert_eq!(file.read_at(&mut block, 0).unwrap(), 8192);
        assert_eq!((&block[..4096], &block[4096..]), (&[0; 4096][..], &[7; 4096][..]));
        disk.open(&path, EXISTING).unwrap().set_len(5000).unwrap();
        assert_eq!(file.read_at(&mut block, 0).unwrap(), 5000, "the last block of a file may be part of one");
        assert_eq!(file.read_at(&mut block, 8192).unwrap(), 0);
        let new = How { create_new: true, direct: true, ..EXISTING };
        assert_eq!(kind(disk.open(&path, new)), ErrorKind::AlreadyExists);
        assert!(disk.open(&dir.join("b"), new).is_ok());
    });
}

#[test]
fn a_file_system_without_direct_transfers_gets_ordinary_ones() {
    // Memory-backed file systems have learned direct transfers lately; either way the file opens and works.
    let name = format!("sablecat-test-{}", std::process::id());
    let path = Path::new("/dev/shm").join(name);
    if let Ok(file) = HostDisk.open(&path, DIRECT) {
        file.write_at(&AlignedBuf::new(4096), 0).unwrap();
        assert_eq!(file.len().unwrap(), 4096);
        HostDisk.remove(&path).unwrap();
    }
}

/// As those of large transactions are, by several processes at once: each may take away another's name.
#[test]
fn a_file_whose_name_others_take_away_as_it_is_made_is_made_all_the_same() {
    let scratch = Scratch::new();
    let path = scratch.0.join("a");
    let disk = HostDisk.with_mode(0o600).unwrap();
    let make_and_remove = || {
        for _ in 0..5000 {
            match disk.open(&path, How { create_new: true, ..CREATE }) {
                Ok(file) => file.write_at(b"its own", 0).unwrap(),
                Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
            }
            match disk.remove(&path) {
                Ok(()) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
            }
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(make_and_remove)));
    let how = How { create_new: true, ..CREATE };
    drop(disk.open(&path, how).unwrap());
    assert_eq!(disk.mode(&path).unwrap(), Some(0o600));
}

#[test]
#[cfg(debug_assertions)]
fn a_direct_transfer_that_is_not_aligned_is_a_mistake() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("a"), DIRECT).unwrap();
        if !file.is_direct() {
            return;
        }
        let mut block = AlignedBuf::new(4096);
        let mut fails = |act: &mut dyn FnMut(&mut [u8])| {
            let act = std::panic::AssertUnwindSafe(|| act(&mut block));
            assert!(std::panic::catch_unwind(act).is_err());
        };
        fails(&mut |block| file.write_at(&block[..100], 0).unwrap());
        fails(&mut |block| file.write_at(block, 100).unwrap());
        fails(&mut |block| file.write_at(&block[1..513], 0).unwrap());
        fails(&mut |block| file.write_all_at(&[&block[..512], &block[..100]], 0).unwrap());
        fails(&mut |block| assert_eq!(file.read_at(&mut block[..100], 0).unwrap(), 0));
    });
}

#[test]
fn descriptors_are_not_inherited_by_programs() {
    let scratch = Scratch::new();
    let path = scratch.0.join("a");
    let _file = HostDisk.open(&path, CREATE).unwrap();
    let _direct = HostDisk.open(&path, DIRECT).unwrap();
    let _shared = sablecat_os::mapping::Mapping::shared_memory(4096).unwrap();
    let mut seen = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let entry = entry.unwrap();
        // Other tests open and close theirs meanwhile.
        let Ok(target) = std::fs::read_link(entry.path()) else {
            continue;
        };
        if target != path && !target.to_string_lossy().contains("memfd:sablecat") {
            continue;
        }
        let info = Path::new("/proc/self/fdinfo").join(entry.file_name());
        let Ok(info) = std::fs::read_to_string(info) else {
            continue;
        };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
        let flags = i32::from_str_radix(flags.trim(), 8).unwrap();
        assert_ne!(flags & 0o2000000, 0, "{target:?} stays open across exec");
        seen += 1;
    }
    assert!(seen >= 3);
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, Vec<u8>),
    WriteMany(u64, Vec<Vec<u8>>),
    SetLen(u64),
    Preallocate(u64, u64),
    Window(u64, Vec<u8>),
    Punch(u64, u64),
    Sync,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let offset = 0..20_000u64;
    let bytes = || prop::collection::vec(any::<u8>(), 0..6000);
    let step = prop_oneof![
        (offset.clone(), bytes()).prop_map(|(at, bytes)| Step::Write(at, bytes)),
        (offset.clone(), prop::collection::vec(bytes(), 0..4))
            .prop_map(|(at, bufs)| Step::WriteMany(at, bufs)),
        offset.clone().prop_map(Step::SetLen),
        (offset.clone(), 0..9000u64).prop_map(|(at, len)| Step::Preallocate(at, len)),
        (offset.clone(), bytes()).prop_map(|(at, bytes)| Step::Window(at, bytes)),
        (offset, 1..13_000u64).prop_map(|(at, len)| Step::Punch(at, len)),
        Just(Step::Sync),
    ];
    prop::collection::vec(step, 0..20)
}

fn take(file: &dyn File, step: &Step) {
    match step {
        Step::Write(at, bytes) => file.write_at(bytes, *at).unwrap(),
        Step::WriteMany(at, bufs) => {
            file.write_all_at(&bufs.iter().map(Vec::as_slice).collect::<Vec<_>>(), *at).unwrap();
        }
        Step::SetLen(len) => file.set_len(*len).unwrap(),
        Step::Preallocate(at, len) => file.preallocate(*at, *len).unwrap(),
        Step::Window(at, bytes) => {
            file.preallocate(*at, bytes.len() as u64 + 1).unwrap();
            file.window(*at, bytes.len() + 1).unwrap().write(1, bytes).unwrap();
        }
        Step::Punch(at, len) => {
            if !file.punch(*at, *len).unwrap() {
                // What a hole reads as, where there are none.
                let end = file.len().unwrap().min(at + len);
                file.write_at(&vec![0; end.saturating_sub(*at) as usize], *at).unwrap();
            }
        }
        Step::Sync => file.sync().unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_simulated_disk_reads_as_the_machines_does(steps in steps()) {
        let scratch = Scratch::new();
        let host = HostDisk.open(&scratch.0.join("a"), CREATE).unwrap();
        let sim = SimDisk::new(0).open(Path::new("a"), CREATE).unwrap();
        for step in &steps {
            take(&*host, step);
            take(&*sim, step);
            prop_assert!(all(&*host) == all(&*sim), "after {:?}", step);
        }
    }
}

/// Where the child of the test below makes its file.
const LIMITED: &str = "SABLECAT_TEST_LIMITED";

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_no_signal() {
    let path = Path::new("/dev/shm").join(format!("sablecat-limited-{}", std::process::id()));
    let child = "ulimit -f 8; exec \"$0\" what_a_limited_child_does --exact --ignored";
    // What it prints goes to pipes: to a file that is longer than that it could not.
    let done = Command::new("sh")
        .args(["-c", child])
        .arg(std::env::current_exe().unwrap())
        .env(LIMITED, &path)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
#[ignore = "what another test starts"]
fn what_a_limited_child_does() {
    let Some(path) = std::env::var_os(LIMITED) else { return };
    let file = HostDisk.open(Path::new(&path), How { create: true, ..How::default() }).unwrap();
    file.write_at(&[1; 4096], 0).unwrap();
    for error in [
        file.write_at(&[1; 4096], 1 << 20).unwrap_err(),
        file.set_len(1 << 20).unwrap_err(),
        file.preallocate(0, 1 << 20).unwrap_err(),
    ] {
        assert_eq!(error.kind(), std::io::ErrorKind::FileTooLarge);
    }
    file.write_at(&[2; 4096], 0).unwrap();
}
