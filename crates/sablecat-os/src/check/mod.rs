//! What the checks of the engine need of the system, and the engine does not. With the feature `check` only.
//!
//! | module | does |
//! |---|---|
//! | [`calls`] | has system calls of a stepped process fail |
//! | [`descriptors`] | closes descriptors, or ends their locks, behind the back of the code that has them |
//! | [`signal`] | stops processes |
//! | [`sparse`] | finds, copies and watches what is in a file with holes |
//! | [`stepped`] | runs a process one instruction at a time |

pub mod calls;
pub mod descriptors;
pub mod signal;
pub mod sparse;
pub mod stepped;
