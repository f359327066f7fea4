//! Environments used by several processes, which are killed and stopped.
//!
//! The others are this program itself, started again to run one of its functions.

mod changes_shared;
mod counters;
mod cut_between;
mod cut_short;
mod expiring_shared;
mod fencing;
mod files_replaced;
mod hash_remembered;
mod held;
mod held_beside;
mod held_elsewhere;
mod indices_shared;
mod large_transactions;
mod lockers;
mod names_shared;
mod queue;
mod queue_out_of_turn;
mod read_only;
mod sequences_shared;
mod shared;
mod shared_region;
mod stopped_shared;
mod temporary_shared;
mod waiting;
