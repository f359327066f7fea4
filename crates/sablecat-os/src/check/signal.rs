//! Stopping other processes for a while, and killing them.

use std::io;

use rustix::process::{Pid, Signal, kill_process};

/// Stops a process.
///
/// # Errors
/// Those of the system.
pub fn stop(pid: u32) -> io::Result<()> {
    send(pid, Signal::STOP)
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
