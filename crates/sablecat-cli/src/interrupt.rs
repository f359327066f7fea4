//! Being told to stop, by Ctrl-C, by a program that ends the session, or by a terminal that goes away: the
//! command closes the environment and ends with 128 and the signal's number.
//!
//! What takes long asks now and then. Told a second time, the process ends at once, as it would have without
//! this.

use std::panic::resume_unwind;

pub(crate) use sablecat_os::interrupt::{
    forget_interrupt, power_failures, signal, watch as listen, watch_power as listen_for_power,
};

/// What a command is cut short with. Nobody reads it: the signal says why.
#[derive(Debug)]
struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// An error if a signal has come.
pub(crate) fn check() -> Result<(), crate::Failure> {
    if signal().is_some() { Err(Interrupted.into()) } else { Ok(()) }
}

/// Cuts the command short if a signal has come, from where no error can be returned: everything on the way is
/// dropped, and the environment closed by that.
pub(crate) fn unwind_if_told() {
    if signal().is_some() {
        resume_unwind(Box::new(Interrupted));
    }
}
