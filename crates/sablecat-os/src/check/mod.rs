//! What the checks of the engine need of the system, and the engine does not. With the feature `check` only.
//!
//! | module | does |
//! |---|---|
//! | [`signal`] | stops processes |
//! | [`sparse`] | finds, copies and watches what is in a file with holes |
//! | [`stepped`] | runs a process one instruction at a time |

pub mod signal;
pub mod sparse;
pub mod stepped;
