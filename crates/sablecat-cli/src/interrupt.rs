//! Being told to stop, by Ctrl-C or by whoever ends the session: the command closes the environment and ends with 128 and the signal's number.
//!
//! What takes long asks now and then. Told a second time, the process ends at once, as it would have without this.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// The signal that came; 0: none.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// What a command is cut short with. Nobody reads it: the signal says why.
#[derive(Debug)]
struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Begins to listen.
///
/// # Errors
/// Those of the system.
pub(crate) fn listen() -> std::io::Result<()> {
    let told = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order, so that only the second one ends the process.
        flag::register_conditional_default(signal, Arc::clone(&told))?;
        flag::register(signal, Arc::clone(&told))?;
        flag::register_usize(signal, Arc::clone(&SIGNAL), signal as usize)?;
    }
    Ok(())
}

/// The signal that came, if one has.
pub(crate) fn signal() -> Option<u8> {
    // Relaxed: nothing else is told with it.
    u8::try_from(SIGNAL.load(Ordering::Relaxed)).ok().filter(|&signal| signal != 0)
}

/// An error if a signal has come.
pub(crate) fn check() -> Result<(), crate::Failure> {
    if signal().is_some() { Err(Interrupted.into()) } else { Ok(()) }
}

/// Cuts the command short if a signal has come, from where no error can be returned: everything on the way is dropped, and the environment closed by that.
pub(crate) fn unwind_if_told() {
    if signal().is_some() {
        resume_unwind(Box::new(Interrupted));
    }
}
