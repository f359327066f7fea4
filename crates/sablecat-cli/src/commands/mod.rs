//! One file a command: what it accepts, and what it does.

pub(crate) mod backup;
pub(crate) mod checkpoint;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod del;
pub(crate) mod dump;
pub(crate) mod get;
pub(crate) mod journal;
pub(crate) mod keygen;
pub(crate) mod keys;
pub(crate) mod load;
pub(crate) mod locks;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod papers;
pub(crate) mod processes;
pub(crate) mod put;
pub(crate) mod recover;
pub(crate) mod report;
pub(crate) mod restore;
pub(crate) mod scan;
pub(crate) mod serve;
pub(crate) mod stat;
pub(crate) mod verify;
pub(crate) mod work;
