//! Records that expire: sessions, caches, leases.
//!
//! # Setting, reading, touching
//!
//! A database of [`Expiring`](crate::Expiring) records says of each until when it is there. What has expired
//! is not there for anybody from that millisecond on, whether or not it was removed.
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
//! To touch a record writes it anew. Where that is too much for each read, touch it when less than half of
//! its time is left: [`Expiring::remaining`](crate::Expiring::remaining).
//!
//! # Time
//!
//! A transaction has one time, so that what it finds does not change under it; a snapshot has that of its
//! beginning. The clock is the machine's time of day. If that is set forward, records expire early; if it is
//! set back, late, and those that are not swept yet are there again.
//!
//! Tests set a clock of their own ([`Builder::clock`](crate::Builder::clock)).
//!
//! # Sweeping
//!
//! What has expired is removed by the housekeeping of whichever process does that, some seconds later, a
//! thousand records at a time; how often it looks [`Builder::sweep_interval`](crate::Builder::sweep_interval)
//! says. It costs by what has expired, not by what there is. Where no housekeeping runs, in memory alone or
//! with [`Builder::background`](crate::Builder::background) off, call [`Env::sweep`](crate::Env::sweep) now
//! and then. No transaction gets a conflict for having found nothing where a record had expired and was
//! swept.
//!
//! # From elsewhere
//!
//! `sablecat put --ttl 1h` sets a record that expires; `get` and `scan` do not show what has. `dump --json`
//! and `load` keep the times; Berkeley DB's text has no place for them.
