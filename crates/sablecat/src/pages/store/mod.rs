//! The store: what brings versions from frames to blocks, and makes them the state that a crash leaves.
//!
//! `writing` puts single versions on blocks, for whoever asks. A `checkpoint` does so with all that is
//! `unsaved`, and names them in the next generation of the volume; meanwhile it may move others (`relocate`),
//! and if it stops, another takes over (`succession`). Long values go to blocks at once (`run`). A process
//! that only reads follows the generations (`follow`).

mod capture;
mod checkpoint;
pub(in crate::pages) mod follow;
pub(in crate::pages) mod relocate;
pub(in crate::pages) mod run;
pub(in crate::pages) mod settled;
pub(in crate::pages) mod succession;
mod unsaved;
pub(in crate::pages) mod writing;
