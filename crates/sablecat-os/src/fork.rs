//! Fork: noticing that this process is a child, and letting go in it of what belongs to the parent.
//!
//! In a child nothing of the parent's threads runs, and its locks and places in shared memory are not the child's. What must not live on in
//! it registers its descriptor here; a handler that runs in the child before fork returns puts `/dev/null` in its place, so that the number
//! stays taken and closing it later is harmless.
//!
//! `unsafe` here: the handler may only call what is safe after fork, which `dup3` is.

use std::io;
use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Descriptors that can be registered at once in a process.
const GIVEN_UP_MAX: usize = 1024;
const NONE: i32 = -1;

static FORKS: AtomicU64 = AtomicU64::new(0);
static NULL: AtomicI32 = AtomicI32::new(NONE);
static GIVEN_UP: [AtomicI32; GIVEN_UP_MAX] = [const { AtomicI32::new(NONE) }; GIVEN_UP_MAX];

/// How many forks lie between the first use of this module and this process: a number that a child sees changed.
#[inline(always)]
pub fn forks() -> u64 {
    // Relaxed: changed only while a process has one thread.
    FORKS.load(Ordering::Relaxed)
}

/// Has [`forks`] count from now on.
///
/// # Errors
/// Those of the system.
pub fn watch() -> io::Result<()> {
    static WATCHED: OnceLock<Result<(), i32>> = OnceLock::new();
    WATCHED
        .get_or_init(|| {
            // SAFETY: a constant path; the descriptor is kept for the life of the process.
            let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
            if null < 0 {
                return Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO));
            }
            NULL.store(null, Ordering::Release);
            // SAFETY: the handler is a function that lives as long as the program and is safe after fork.
            match unsafe { libc::pthread_atfork(None, None, Some(in_child)) } {
                0 => Ok(()),
                error => Err(error),
            }
        })
        .map_err(io::Error::from_raw_os_error)
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    let null = NULL.load(Ordering::Acquire);
    for place in &GIVEN_UP {
        let descriptor = place.load(Ordering::Acquire);
        if descriptor != NONE {
            // SAFETY: both descriptors are open; the call is safe after fork. If it fails there is nothing to be done about it here.
            unsafe { libc::dup3(null, descriptor, libc::O_CLOEXEC) };
        }
    }
}

/// While it lives, children made by fork do not inherit the descriptor's file.
#[derive(Debug)]
pub struct GivenUp {
    place: usize,
}

impl GivenUp {
    /// Registers an open descriptor; drop this before closing it.
    ///
    /// # Errors
    /// Those of the system; `OutOfMemory` if too many are registered.
    pub fn new(descriptor: RawFd) -> io::Result<GivenUp> {
        watch()?;
        let free = |place: &AtomicI32| place.compare_exchange(NONE, descriptor, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        match GIVEN_UP.iter().position(free) {
            Some(place) => Ok(GivenUp { place }),
            None => Err(io::Error::new(io::ErrorKind::OutOfMemory, format!("{GIVEN_UP_MAX} environments are open in this process"))),
        }
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        GIVEN_UP[self.place].store(NONE, Ordering::Release);
    }
}
