//! A guide: what to know before you build on sablecat, one page for each subject.
//!
//! | page | says |
//! |---|---|
//! | [`keys`] | how keys are ordered; how to write numbers and tuples so that they sort; long keys |
//! | [`isolation`] | which level for what, what each allows, what runs again, locks on records |
//! | [`expiry`] | records that expire: touching, sweeping, clocks |
//! | [`processes`] | sharing an environment: what may be killed, permissions, builds |
//! | [`durability`] | what is safe when a commit returns, and how to pay less for it |
//! | [`errors`] | the kinds of errors, which to retry, what to do about the others |
//! | [`containers`] | shared memory, directories and restarts in containers; what a backup is |
//! | [`berkeley_db`] | for users of Berkeley DB: its terms, flags and methods, and their names here |
//!
//! There is no code in these modules. Every example is run as a test.
//!
//! Programs to start from are in the directory `examples` of the crate: a queue of jobs, an inverted index, a
//! cache with deadlines, a secondary index, several processes, following changes.

pub mod berkeley_db;
pub mod containers;
pub mod durability;
pub mod errors;
pub mod expiry;
pub mod isolation;
pub mod keys;
pub mod processes;
