//! What sablecat asks of the operating system, and nothing else: memory, waiting, storage, time.
//!
//! Every system call of the engine is made here, and nearly all of its unsafe code that is not about the
//! layout of its own pages. Two of the modules are seams, places where a test can put something else in:
//!
//! - [`disk`] is the one way to storage. [`disk::HostDisk`] is the real one; [`sim::SimDisk`] is a disk in
//!   memory that loses power, tears writes and fails calls when it is told to.
//! - [`atomic`] is the one way to shared words. With the feature `shuttle` each operation asks the explorer
//!   which thread goes on, so that the engine's real code can be driven through its interleavings.
//!
//! | module | holds |
//! |---|---|
//! | [`atomic`] | atomic words, fences, spinning |
//! | [`liveness`], [`fork`] | telling living processes from dead ones, and children from their parents |
//! | [`futex`] | sleeping until a word changes, also across processes |
//! | [`places`] | places that are one's at a time, taken and given back without waiting |
//! | [`mapping`] | memory: anonymous, or shared between processes |
//! | [`truncation`] | what becomes of it when its file is cut short |
//! | [`disk`] | files and directories |
//! | [`sim`] | a disk that misbehaves on purpose, from a seed |
//! | [`interrupt`] | being asked to end |
//! | [`clock`], [`calendar`], [`random`], [`machine`], [`prefetch`] | what their names say |
//!
//! With the feature `check` there is also `check`: what the engine's checks need, and the engine does not.
//!
//! It knows nothing of pages, logs or transactions. Linux on x86-64 and arm64 is what it is written for; what
//! only Linux has is behind a plain name.

pub mod atomic;
pub mod calendar;
#[cfg(feature = "check")]
pub mod check;
pub mod clock;
pub mod disk;
pub mod fork;
pub mod futex;
pub mod interrupt;
pub mod liveness;
pub mod machine;
pub mod mapping;
pub mod places;
pub mod prefetch;
pub mod random;
pub mod regular;
mod signals;
pub mod sim;
#[cfg(test)]
mod sources;
pub mod truncation;

/// A number for the sources that this crate was built from: the same in every build of them, another in any
/// of others.
pub const SOURCES: u64 = match u64::from_str_radix(env!("SABLECAT_SOURCES"), 16) {
    Ok(number) => number,
    Err(_) => panic!("the build script wrote a number"),
};

/// The explorer itself, for tests that spawn threads in it.
#[cfg(feature = "shuttle")]
pub use shuttle;
