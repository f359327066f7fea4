//! Records that expire: sessions, caches, leases.
//!
//! # Setting, reading, touching
//!
//! A database of [`Expiring`](crate::Expiring) records has an expiry time for each record, or none. From that
//! millisecond on no transaction sees the record, whether or not it was removed.
//!
//! ```
//! use std::time::Duration;
//!
//! use sablecat::{Env, Expiring, Lifetime};
//!
//! # fn main() -> sablecat::Result<()> {
//! # let env = Env::in_memory()?;
//! let hour = Duration::from_secs(3600);
//! let sessions = Expiring::open(&env, "sessions")?;
//! env.write(|txn| sessions.insert(txn, "4f1c", "ada", hour))?;
//! // With each request: found, and kept for an hour from now.
//! let user = env.write(|txn| {
//!     let user = sessions.get(txn, "4f1c")?;
//!     if user.is_some() {
//!         sessions.touch(txn, "4f1c", hour)?;
//!     }
//!     Ok(user)
//! })?;
//! assert_eq!(user.as_deref(), Some(&b"ada"[..]));
//! // A lease: whoever sets it first has it until it expires.
//! let leases = Expiring::open(&env, "leases")?;
//! let mine = env.write(|txn| leases.insert_new(txn, "leader", "host 1", Duration::from_secs(10)))?;
//! let theirs = env.write(|txn| leases.insert_new(txn, "leader", "host 2", Duration::from_secs(10)))?;
//! assert!(mine && !theirs);
//! # Ok(())
//! # }
//! ```
//!
//! Touching a record writes the whole record again. If that is too much for each read, touch it when less
//! than half of its time is left: [`Expiring::remaining`](crate::Expiring::remaining).
//!
//! # Time
//!
//! A transaction uses one time for all its reads, so that what it finds does not change meanwhile; a snapshot
//! uses the time of its beginning. The clock is the machine's time of day. If it is set forward, records
//! expire early; if it is set back, they expire late, and expired records that are not swept yet are visible
//! again.
//!
//! Tests set a clock of their own ([`Builder::clock`](crate::Builder::clock)).
//!
//! # Sweeping
//!
//! Housekeeping, in one of the processes, removes expired records some seconds later, a thousand records at a
//! time, at an interval of [`Builder::sweep_interval`](crate::Builder::sweep_interval). The cost depends on
//! how many records have expired, not on how many there are. If no housekeeping runs, in memory alone or with
//! [`Builder::background`](crate::Builder::background) off, call [`Env::sweep`](crate::Env::sweep) now and
//! then. A transaction that found no record, because it had expired, gets no conflict when that record is
//! swept.
//!
//! # From the command line
//!
//! `sablecat put --ttl 1h` sets a record that expires; `get` and `scan` do not show expired records. `dump
//! --json` and `load` keep the times; Berkeley DB's text format has no place for them.
