//! What signals do.

use std::io;
use std::ptr;

/// What calls a function, which does what is allowed in a handler.
pub(crate) fn calling(handler: extern "C" fn(libc::c_int), flags: libc::c_int) -> libc::sigaction {
    // SAFETY: the struct is of integers and nullable pointers, for which zero is a value: no signal masked,
    // no flag set.
    let mut calling: libc::sigaction = unsafe { std::mem::zeroed() };
    calling.sa_sigaction = handler as libc::sighandler_t;
    calling.sa_flags = flags;
    calling
}

/// Sets what a signal does, if there is something to set, and tells what it did.
pub(crate) fn action(signal: libc::c_int, new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    // SAFETY: as above, in `calling`.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to structs that outlive the call, or null; the handlers do what is allowed
    // in one.
    match unsafe { libc::sigaction(signal, new.map_or(ptr::null(), ptr::from_ref), &mut old) } {
        0 => Ok(old),
        _ => Err(io::Error::last_os_error()),
    }
}
