//! Files that are cut short under mappings of them.

#![allow(clippy::unwrap_used, reason = "an error is a failed test")]

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sablecat_os::disk::{Disk, HostDisk, How};
use sablecat_os::fork::OfParent;
use sablecat_os::machine::page_bytes;
use sablecat_os::mapping::Mapping;
use sablecat_os::truncation::{CUT_SHORT, MemoryGone};

/// A file in memory of so many pages, of which all bytes are 1.
struct Pages {
    path: PathBuf,
    file: File,
}

impl Pages {
    fn new(name: &str, pages: usize) -> Pages {
        let path = Path::new("/dev/shm").join(format!("sablecat-cut-{name}-{}", std::process::id()));
        std::fs::write(&path, vec![1; pages * page_bytes()]).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        Pages { path, file }
    }

    fn map(&self) -> Mapping {
        let file = self.file.try_clone().unwrap();
        Mapping::file(file, self.file.metadata().unwrap().len() as usize).unwrap()
    }

    fn cut_to(&self, pages: usize) {
        self.file.set_len((pages * page_bytes()) as u64).unwrap();
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn get(mapping: &Mapping, page: usize) -> u8 {
    assert!(page * page_bytes() < mapping.len());
    // SAFETY: within the mapping, and no reference into it exists.
    unsafe { mapping.base().as_ptr().add(page * page_bytes()).read_volatile() }
}

fn set(mapping: &Mapping, page: usize, byte: u8) {
    assert!(page * page_bytes() < mapping.len());
    // SAFETY: as above.
    unsafe { mapping.base().as_ptr().add(page * page_bytes()).write_volatile(byte) }
}

#[test]
fn what_was_cut_off_reads_as_zero_and_is_told() {
    let pages = Pages::new("told", 4);
    let (mapping, other) = (pages.map(), pages.map());
    let number = OfParent::new(5).unwrap();
    mapping.tell_when_cut_short(&number);
    pages.cut_to(2);
    assert_eq!(get(&mapping, 1), 1, "what is left is there");
    assert!(!mapping.is_cut_short(), "nothing of what is missing was touched");
    assert_eq!((get(&mapping, 3), number.get()), (0, CUT_SHORT));
    assert!(mapping.is_cut_short());
    set(&mapping, 2, 7);
    assert_eq!(get(&mapping, 2), 7, "it can be stored to, for nobody else to see");
    assert!(!other.is_cut_short(), "each mapping by itself");
    assert_eq!(get(&other, 2), 0);
    assert!(other.is_cut_short());
    let late = OfParent::new(6).unwrap();
    other.tell_when_cut_short(&late);
    assert_eq!(late.get(), CUT_SHORT, "also if it is known already");
}

#[test]
fn what_is_found_otherwise_is_told_as_well() {
    let pages = Pages::new("found", 4);
    let mapping = pages.map();
    let number = OfParent::new(5).unwrap();
    mapping.tell_when_cut_short(&number);
    pages.cut_to(3);
    assert!(!mapping.is_cut_short(), "nobody has touched it");
    mapping.found_cut_short();
    assert!(mapping.is_cut_short());
    assert_eq!(number.get(), CUT_SHORT);
}

#[test]
fn reserving_does_not_make_a_file_longer_that_was_cut_short() {
    let pages = Pages::new("reserved", 4);
    let mapping = pages.map();
    pages.cut_to(1);
    mapping.reserve(0, mapping.len()).unwrap();
    assert_eq!(pages.file.metadata().unwrap().len(), page_bytes() as u64);
    assert_eq!(get(&mapping, 2), 0);
    assert!(mapping.is_cut_short());
}

#[test]
fn many_mappings_are_cut_short_side_by_side() {
    std::thread::scope(|scope| {
        for n in 0..4 {
            scope.spawn(move || {
                for round in 0..50 {
                    let pages = Pages::new(&format!("many-{n}"), 8);
                    let mapping = pages.map();
                    let number = OfParent::new(5).unwrap();
                    mapping.tell_when_cut_short(&number);
                    if round % 2 == 0 {
                        pages.cut_to(round % 8);
                    }
                    let zeros = (0..8).filter(|page| get(&mapping, *page) == 0).count();
                    assert_eq!(zeros, if round % 2 == 0 { 8 - round % 8 } else { 0 });
                    assert_eq!(mapping.is_cut_short(), zeros > 0);
                    assert_eq!(number.get() == CUT_SHORT, zeros > 0);
                }
            });
        }
    });
}

#[test]
fn a_call_that_meets_missing_memory_is_refused_and_that_is_told() {
    let pages = Pages::new("calls", 4);
    let path = pages.path.with_extension("other");
    let how = How { create: true, ..How::default() };
    let file = HostDisk.open(&path, how).unwrap();
    file.write_at(&vec![3; 4 * page_bytes()], 0).unwrap();
    type Call<'a> = &'a dyn Fn(&mut [u8]) -> std::io::Result<()>;
    let calls: [Call<'_>; 3] =
        [&|memory| file.write_at(memory, 0), &|memory| file.write_all_at(&[memory], 0), &|memory| {
            file.read_at(memory, 0).map(drop)
        }];
    for call in calls {
        let mapping = pages.map();
        pages.cut_to(1);
        // SAFETY: all of the mapping, to which no other reference exists.
        let memory = unsafe { std::slice::from_raw_parts_mut(mapping.base().as_ptr(), mapping.len()) };
        assert!(MemoryGone::is(&call(memory).unwrap_err()));
        assert!(mapping.is_cut_short());
        pages.file.set_len(4 * page_bytes() as u64).unwrap();
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_write_through_a_window_is_refused_where_the_file_is_too_short() {
    let pages = Pages::new("window", 4);
    let file = HostDisk.open(&pages.path, How::default()).unwrap();
    let window = file.window(0, 4 * page_bytes()).unwrap();
    window.write(0, &[2]).unwrap();
    pages.cut_to(2);
    window.write(1, &[3]).unwrap();
    let error = window.write(2 * page_bytes() - 1, &[4, 4]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    assert_eq!(window.write(0, &[5]).unwrap_err().kind(), ErrorKind::UnexpectedEof, "from then on");
    let error = file.window(0, 4 * page_bytes()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

/// What a child process does, which is this program once more.
const ROLE: &str = "SABLECAT_TEST_TRUNCATION";

fn run(role: &str) -> std::process::ExitStatus {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["child", "--exact", "--ignored", "--nocapture"]).env(ROLE, role).status().unwrap()
}

const HANDLED: i32 = 77;

extern "C" fn handler(_: libc::c_int) {
    // SAFETY: ends the process, which may be done in a handler.
    unsafe { libc::_exit(HANDLED) }
}

/// A mapping of which this library knows nothing.
fn touch_a_foreign_mapping() {
    use std::os::fd::AsRawFd;
    let pages = Pages::new("foreign", 1);
    let len = page_bytes();
    // SAFETY: no address is asked for.
    let base = unsafe {
        libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, pages.file.as_raw_fd(), 0)
    };
    assert_ne!(base, libc::MAP_FAILED);
    pages.cut_to(0);
    std::fs::remove_file(&pages.path).unwrap();
    // SAFETY: mapped above.
    unsafe { base.cast::<u8>().read_volatile() };
}

#[test]
#[ignore = "what other tests start"]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let signal = |action: libc::sighandler_t| {
        // SAFETY: a handler that may be called at any time, or one of the system's.
        unsafe { libc::signal(libc::SIGBUS, action) };
    };
    let handled = || signal(handler as extern "C" fn(libc::c_int) as libc::sighandler_t);
    match role.as_str() {
        "default" | "default-sent" => signal(libc::SIG_DFL),
        "ignored" | "ignored-sent" => signal(libc::SIG_IGN),
        "handled" | "handled-sent" => handled(),
        // The one that Rust's runtime has set up, which knows the ends of stacks.
        "runtime" => {}
        other => panic!("{other}"),
    }
    let pages = Pages::new("own", 2);
    let mapping = pages.map();
    pages.cut_to(0);
    assert_eq!(get(&mapping, 1), 0, "ours is survived, whatever was before");
    drop((mapping, pages));
    if role.ends_with("-sent") {
        // SAFETY: a signal to this thread.
        unsafe { libc::raise(libc::SIGBUS) };
    } else {
        touch_a_foreign_mapping();
    }
}

#[test]
fn a_fault_of_others_is_what_it_was_before() {
    for role in ["default", "default-sent", "ignored", "runtime"] {
        assert_eq!(run(role).signal(), Some(libc::SIGBUS), "{role}");
    }
    assert!(run("ignored-sent").success());
    for role in ["handled", "handled-sent"] {
        assert_eq!(run(role).code(), Some(HANDLED), "{role}");
    }
}
