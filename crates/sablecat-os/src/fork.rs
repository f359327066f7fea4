//! Fork: noticing that this process is a child, and letting go in it of what belongs to the parent.
//!
//! In a child nothing of the parent's threads runs, and its locks and places in shared memory are not the
//! child's. What must not live on in it registers its descriptor here; a handler that runs in the child
//! before fork returns puts `/dev/null` in its place, so that the number stays taken and closing it later is
//! harmless. A number by which a process knows itself is registered, too, and is another one in the child.
//!
//! `unsafe` here: the handler may only call what is safe after fork, which `dup3` is; and it looks at places
//! for numbers that are never freed.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{IntoRawFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::places::{Places, Taken};

/// Descriptors that can be registered at once in a process.
const GIVEN_UP_MAX: usize = 1024;
const NONE: i32 = -1;

static NULL: AtomicI32 = AtomicI32::new(NONE);
static OF_PARENT: Places<AtomicU64> = Places::new();
static GIVEN_UP: [AtomicI32; GIVEN_UP_MAX] = [const { AtomicI32::new(NONE) }; GIVEN_UP_MAX];

/// Has children let go of what is registered, from now on.
///
/// # Errors
/// Those of the system. Another attempt may be luckier.
fn watch() -> io::Result<()> {
    static WATCHED: Mutex<bool> = Mutex::new(false);
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if *watched {
        return Ok(());
    }
    if NULL.load(Ordering::Acquire) == NONE {
        // Kept for the life of the process.
        let null = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")
            .map_err(|error| told("opening /dev/null", &error))?;
        NULL.store(null.into_raw_fd(), Ordering::Release);
    }
    // SAFETY: the handler is a function that lives as long as the program and is safe after fork.
    match unsafe { libc::pthread_atfork(None, None, Some(in_child)) } {
        0 => *watched = true,
        error => return Err(told("asking to be told of forks", &io::Error::from_raw_os_error(error))),
    }
    Ok(())
}

fn told(tried: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{tried}: {error}"))
}

extern "C" fn in_child() {
    let null = NULL.load(Ordering::Acquire);
    for place in &GIVEN_UP {
        let descriptor = place.load(Ordering::Acquire);
        if descriptor != NONE {
            // SAFETY: both descriptors are open; the call is safe after fork. If it fails there is nothing to
            // be done about it here.
            unsafe { libc::dup3(null, descriptor, libc::O_CLOEXEC) };
        }
    }
    OF_PARENT.all().for_each(|number| number.store(OfParent::IN_CHILDREN, Ordering::Relaxed));
}

/// A number that is another one in children made by fork.
#[derive(Debug)]
pub struct OfParent(Taken<AtomicU64>);

impl OfParent {
    /// What it is in them.
    pub const IN_CHILDREN: u64 = u64::MAX;

    /// A number that is not that.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(number: u64) -> io::Result<OfParent> {
        watch()?;
        let taken = OF_PARENT.take();
        taken.get().store(number, Ordering::Relaxed);
        Ok(OfParent(taken))
    }

    /// The number.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        // Relaxed: changed only while a process has one thread, or by a thread itself (truncation.rs).
        self.0.get().load(Ordering::Relaxed)
    }

    /// Whether this process is a child of the one that made it.
    #[inline(always)]
    pub fn is_inherited(&self) -> bool {
        self.get() == OfParent::IN_CHILDREN
    }

    /// Where the number stands.
    pub(crate) fn place(&self) -> &'static AtomicU64 {
        self.0.get()
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
        let free = |place: &AtomicI32| {
            place.compare_exchange(NONE, descriptor, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        match GIVEN_UP.iter().position(free) {
            Some(place) => Ok(GivenUp { place }),
            None => Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                format!("{GIVEN_UP_MAX} environments are open in this process"),
            )),
        }
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        GIVEN_UP[self.place].store(NONE, Ordering::Release);
    }
}
