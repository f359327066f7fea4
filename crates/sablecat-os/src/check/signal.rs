//! Stopping processes for a while, and killing them.
//!
//! `unsafe` here: a signal is sent to the thread that sends it.

use std::io;

use rustix::process::{Pid, Signal, kill_process};

/// Stops a process.
///
/// # Errors
/// Those of the system.
pub fn stop(pid: u32) -> io::Result<()> {
    send(pid, Signal::STOP)
}

/// Stops this process, and the calling thread before it does anything else: what another process sends comes
/// to threads a little later.
///
/// # Errors
/// Those of the system.
pub fn stop_here() -> io::Result<()> {
    // SAFETY: it sends a signal that nobody can handle.
    if unsafe { libc::raise(libc::SIGSTOP) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets a stopped process go on.
///
/// # Errors
/// Those of the system.
pub fn go_on(pid: u32) -> io::Result<()> {
    send(pid, Signal::CONT)
}

/// Kills a process, a stopped one as well.
///
/// # Errors
/// Those of the system.
pub fn kill(pid: u32) -> io::Result<()> {
    send(pid, Signal::KILL)
}

fn send(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process(pid, signal)?)
}
