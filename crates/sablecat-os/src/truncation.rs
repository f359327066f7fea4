//! Files that are cut short under a mapping.
//!
//! A thread that touches a page of a mapping that its file does not have any more, or for which the file
//! system has no room, gets a SIGBUS, which ends the process. Here is a handler that puts a page of zeros of
//! the process's own in its place and lets it go on: what it has seen and done since is worth nothing, but it
//! can say so, and end what it was about. What is to be known at once, before the first zero can be read, is
//! the number by which the process knows itself ([`OfParent`]).
//!
//! The handler is the process's from the first such mapping on. What it does not know is for the handler
//! that was there before, or for the system, which ends the process; a program that sets up a handler of its
//! own later has taken this one's place.
//!
//! `unsafe` here: the handler only calls what may be called in one, and looks at places that are never freed.

use std::io;
use std::ptr;
// Not this crate's own: a signal handler is no place for an explorer of schedules.
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, PoisonError};

use libc::{c_int, c_void, siginfo_t};
use rustix::io::Errno;

use crate::fork::OfParent;
use crate::machine::page_bytes;
use crate::places::{Places, Taken};
use crate::signals::action;

/// What the number of a process is ([`OfParent`]) whose memory was cut short.
pub const CUT_SHORT: u64 = OfParent::IN_CHILDREN - 1;

static MAPPED: Places<Mapped> = Places::new();
/// What was done about the signal before; set before the handler is.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

/// Whether any mapping of this process ever was.
static HAPPENED: AtomicBool = AtomicBool::new(false);

/// Whether any memory of this process was ever found to be cut short: for code that looks often, and then
/// looks closely.
#[inline(always)]
pub fn ever_happened() -> bool {
    // After what was read: if another thread has found that missing, the zero came after the store.
    fence(Ordering::Acquire);
    HAPPENED.load(Ordering::Relaxed)
}

/// A range that a file is mapped to. It is looked at by the handler while its end is not 0; what is in it
/// changes only while that is 0.
#[derive(Debug, Default)]
struct Mapped {
    start: AtomicUsize,
    end: AtomicUsize,
    is_cut: AtomicBool,
    number: AtomicPtr<AtomicU64>,
}

/// Knows whether a page of a mapping had to be replaced. To be dropped before the mapping is undone.
#[derive(Debug)]
pub(crate) struct Cuts(Taken<Mapped>);

impl Cuts {
    /// Of a file's mapping.
    ///
    /// # Errors
    /// Those of the system in setting up the handler; there is no reason for any.
    pub(crate) fn of(base: ptr::NonNull<u8>, len: usize) -> io::Result<Cuts> {
        watch()?;
        let taken = MAPPED.take();
        let mapped = taken.get();
        // Release: after the end of the range before, for a thread that finds this.
        mapped.start.store(base.addr().get(), Ordering::Release);
        mapped.is_cut.store(false, Ordering::Relaxed);
        mapped.number.store(ptr::null_mut(), Ordering::Relaxed);
        // Release: for a thread that finds the end.
        mapped.end.store(base.addr().get() + len.next_multiple_of(page_bytes()), Ordering::Release);
        Ok(Cuts(taken))
    }

    /// Whether something that this thread has read or written so far was not there.
    pub(crate) fn happened(&self) -> bool {
        // After what was read and stored; the handler runs on the thread that touches.
        fence(Ordering::SeqCst);
        self.0.get().is_cut.load(Ordering::Relaxed)
    }

    /// Something is missing, as was found in another way.
    pub(crate) fn found(&self) {
        self.0.get().note();
    }

    /// Has this number be [`CUT_SHORT`] from the moment on when something is found not to be there. It is to
    /// live for as long as this.
    pub(crate) fn tell(&self, number: &OfParent) {
        let mapped = self.0.get();
        // SeqCst, here and in the handler: either that finds the number, or this finds what it has said.
        mapped.number.store(ptr::from_ref(number.place()).cast_mut(), Ordering::SeqCst);
        if mapped.is_cut.load(Ordering::SeqCst) {
            mark(number.place());
        }
    }
}

impl Drop for Cuts {
    fn drop(&mut self) {
        self.0.get().end.store(0, Ordering::Release);
    }
}

impl Mapped {
    /// Says that something is missing.
    fn note(&self) {
        HAPPENED.store(true, Ordering::SeqCst);
        self.is_cut.store(true, Ordering::SeqCst);
        // SAFETY: the number lives for as long as the mapping is looked at.
        if let Some(number) = unsafe { self.number.load(Ordering::SeqCst).as_ref() } {
            mark(number);
        }
    }

    fn has(&self, address: usize) -> bool {
        let end = self.end.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Acquire);
        // Looked at again: meanwhile it may have become another range's. No page is in both, since it is
        // mapped to this one as long as somebody touches it.
        (start..end).contains(&address) && self.end.load(Ordering::Acquire) == end
    }
}

/// The error of a call that was given memory to read or to write. The system refuses what it does not find;
/// then it is touched here, so that it is known from then on to be cut short.
#[cold]
pub(crate) fn refused(error: Errno, memory: &[&[u8]]) -> io::Error {
    if error != Errno::FAULT {
        return error.into();
    }
    for bytes in memory {
        for byte in bytes.iter().step_by(page_bytes()).chain(bytes.last()) {
            // SAFETY: a byte of a slice. Volatile, so that it is read.
            unsafe { ptr::from_ref(byte).read_volatile() };
        }
    }
    MemoryGone.into()
}

/// The error of a call that is not made, or cannot be, since memory was cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryGone;

impl MemoryGone {
    /// Whether an error is this one.
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<MemoryGone>())
    }
}

impl std::fmt::Display for MemoryGone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("memory is not there any more, since the file that holds it was cut short")
    }
}

impl std::error::Error for MemoryGone {}

impl From<MemoryGone> for io::Error {
    fn from(gone: MemoryGone) -> io::Error {
        io::Error::other(gone)
    }
}

/// Makes a number [`CUT_SHORT`], but in a child made by fork, whose it never was.
fn mark(number: &AtomicU64) {
    let own = |number| (number != OfParent::IN_CHILDREN).then_some(CUT_SHORT);
    // Whose it is not, it stays.
    let _ = number.fetch_update(Ordering::SeqCst, Ordering::SeqCst, own);
}

/// Sets up the handler, once.
fn watch() -> io::Result<()> {
    static WATCHED: Mutex<bool> = Mutex::new(false);
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if *watched {
        return Ok(());
    }
    let before = Box::new(action(libc::SIGBUS, None)?);
    BEFORE.store(Box::into_raw(before), Ordering::Release);
    // SAFETY: all zeros is an action, the default one.
    let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
    ours.sa_sigaction = on_fault as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
    // On the stack that a thread has for signals, if it has one. While it runs the signal is not blocked:
    // what the handler before this one touches may be ours.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    action(libc::SIGBUS, Some(&ours))?;
    *watched = true;
    Ok(())
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: each thread has a place for the number of the last error, which is put back.
    let error = unsafe { libc::__errno_location() };
    // SAFETY: as above; and the system gives a description of the signal.
    let (kept, code, address) = unsafe { (*error, (*info).si_code, (*info).si_addr().addr()) };
    if code != libc::BUS_ADRERR || !replace(address) {
        // SAFETY: with what the system gave.
        unsafe { as_before(signal, info, context) };
    }
    // SAFETY: as above.
    unsafe { *error = kept };
}

/// Puts zeros where a page is missing. False if that is in no mapping of ours, or cannot be done.
fn replace(address: usize) -> bool {
    let Some(mapped) = MAPPED.all().find(|mapped| mapped.has(address)) else { return false };
    // First of all: a thread that reads a zero finds it said.
    mapped.note();
    let page = ptr::without_provenance_mut(address & !(page_bytes() - 1));
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the page is part of a mapping that the file does not fill: nobody has anything in it.
    unsafe { libc::mmap(page, page_bytes(), access, how, -1, 0) != libc::MAP_FAILED }
}

/// Does what was done about the signal before there was this handler.
///
/// # Safety
/// With what the system gave to the handler.
unsafe fn as_before(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: set before the handler was, and never freed.
    let before = unsafe { &*BEFORE.load(Ordering::Acquire) };
    // SAFETY: as the caller promised.
    let was_sent = unsafe { (*info).si_code } <= 0;
    match before.sa_sigaction {
        libc::SIG_IGN if was_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // Touched once more, it ends the process. A signal that was sent does not come by itself.
            // SAFETY: all zeros is the default action.
            let _ = action(libc::SIGBUS, Some(&unsafe { std::mem::zeroed() }));
            if was_sent {
                // SAFETY: no more than a signal to this thread.
                unsafe { libc::raise(signal) };
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: that is what a handler with this flag is.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: that is what a handler without it is.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
