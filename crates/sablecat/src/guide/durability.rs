//! Durability: what is safe when a commit returns, and how to pay less for it.
//!
//! Every commit is *atomic* and *visible* when it returns. How safe it is then is its
//! [`Durability`](crate::Durability), of which there are four rungs. The environment has one
//! ([`Builder::durability`](crate::Builder::durability), `Sync` if nothing is said), and a transaction may
//! have its own ([`TxnOptions::durability`](crate::TxnOptions::durability)).
//!
//! # The rungs
//!
//! | rung | when the commit returns, its record is | process killed | machine fails |
//! |---|---|---|---|
//! | `Memory` | in memory | may go back to the last checkpoint, unless shared | may go back to the last checkpoint |
//! | `NoSync` | in memory; written soon | may lose the last 50 ms, unless shared | may lose the last 50 ms |
//! | `WriteNoSync` | with the operating system | loses nothing | may lose the last 50 ms |
//! | `Sync` | on stable storage | loses nothing | loses nothing |
//!
//! 50 ms is the [flush interval](crate::Builder::flush_interval). A disk that is slow makes it longer.
//!
//! *Unless shared*: if an environment is [shared](super::processes), its memory survives its processes.
//! Nothing that was committed is lost by killing them, at any rung, for as long as the machine runs and the
//! file in memory is there.
//!
//! Whatever is lost, what is left is a state that there was: all commits up to one of them, and none after.
//! If a commit is on the disk, so are all before it, whatever their rungs.
//!
//! ```
//! # fn main() -> sablecat::Result<()> {
//! # use std::sync::Arc;
//! # use sablecat_os::sim::{SimDisk, Survival};
//! use sablecat::{Durability, Env, TxnOptions};
//!
//! # let disk = Arc::new(SimDisk::new(1));
//! # let open = |disk: &Arc<SimDisk>| Env::builder().disk(Arc::clone(disk) as Arc<_>).background(false).open("env");
//! # let env = open(&disk)?;
//! let orders = env.database("orders")?;
//! let rung = |rung| TxnOptions::new().durability(rung);
//! env.write_with(rung(Durability::NoSync), |txn| txn.insert(&orders, "1", "a draft"))?;
//! env.write_with(rung(Durability::Sync), |txn| txn.insert(&orders, "2", "paid"))?;
//! env.write_with(rung(Durability::NoSync), |txn| txn.insert(&orders, "3", "a draft"))?;
//!
//! // The machine fails here.
//! # let left = Arc::new(disk.crash_as(Survival::Nothing, 1));
//! # let env = open(&left)?;
//! # let orders = env.database("orders")?;
//! assert!(orders.contains_key("2")?, "it was paid");
//! assert!(orders.contains_key("1")?, "what came before that is there as well");
//! assert!(!orders.contains_key("3")?, "what came after may be lost, and is");
//! # Ok(())
//! # }
//! ```
//!
//! # Paying less
//!
//! A flush takes as long as the disk takes: some tens of microseconds to some ten milliseconds. A commit at
//! any other rung takes microseconds.
//!
//! - *Commit from several threads or processes.* Those that wait for the disk at the same time share one
//!   flush. There is nothing to turn on.
//! - *Put more into a transaction.* One flush for a thousand records costs what one for a single record does.
//!   [`Database::insert_batch`](crate::Database::insert_batch),
//!   [`Database::bulk_load`](crate::Database::bulk_load).
//! - *Wait later.* Commit at `NoSync`, go on, and wait once before telling anybody:
//!   [`Env::make_durable`](crate::Env::make_durable) with the LSN that the last commit returned, or
//!   [`Env::sync`](crate::Env::sync) for all there is.
//! - *Ask for less where less is enough.* What can be computed again may be at `NoSync`, beside orders at
//!   `Sync`, in the same environment.
//! - *Ask for nothing where nothing is to last.* Who is logged in, what can be computed again: a
//!   [temporary](crate::DatabaseOptions::temporary) database has such records. It is in transactions with
//!   others, and all processes have it, but nothing of it is logged or waited for, and it is empty when the
//!   environment is opened after nobody had it open. A transaction that changes durable records as well is as
//!   durable as any.
//!
//! ```
//! # fn main() -> sablecat::Result<()> {
//! # let directory = std::env::temp_dir().join(format!("sablecat-guide-durability-{}", std::process::id()));
//! use sablecat::{Durability, Env, Lsn};
//!
//! let env = Env::builder().durability(Durability::NoSync).open(&directory)?;
//! let events = env.database("events")?;
//! let mut last = Lsn::default();
//! for n in 0..100u32 {
//!     let mut txn = env.begin()?;
//!     txn.insert(&events, n.to_be_bytes(), "happened")?;
//!     last = txn.commit()?;
//! }
//! env.make_durable(last)?; // one flush
//! assert!(env.stats()?.log_durable >= last);
//! # drop((events, env));
//! # std::fs::remove_dir_all(directory).unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! # Waiting for others' commits
//!
//! [`Env::wait_visible`](crate::Env::wait_visible) waits until what was committed at an LSN is seen here. In
//! processes that share an environment that is so when the commit returns; in one that [reads
//! only](crate::Builder::read_only) after the next checkpoint. [`Env::changes`](crate::Env::changes) gives
//! commits as they become durable.
//!
//! # Checkpoints, closing
//!
//! A checkpoint says from where recovery begins, so it bounds how long that takes and how much log there is.
//! What was committed before it is on the disk after it, at any rung. Checkpoints come by themselves
//! ([`Builder::checkpoint_interval`](crate::Builder::checkpoint_interval)), and with the close of the
//! environment. What is durable needs neither: a program may be killed at any moment instead of closing, and
//! the next opening recovers.
//!
//! # In memory, with an image on a disk
//!
//! An environment that is [held in memory](crate::Builder::held_in) has its files on a tmpfs: `Sync` costs no
//! disk, and is as good as the memory. Killed processes lose nothing. A crash of the machine loses what was
//! committed after the last image, which [`Env::flush_image`](crate::Env::flush_image) writes, or `sablecat
//! volume guard`: every so often, when it is told that power fails (SIGPWR), and when it is told to stop. Let
//! that be the last to be stopped of all who use the environment, give it the time that the disk takes for
//! the whole, and have it run as the user whose the environment is. It shares the environment, so that all
//! others have to.
//!
//! # In memory alone
//!
//! An environment in memory alone ends with its last handle. A [`DataStore`](crate::DataStore) has no log:
//! safe is what its last checkpoint wrote.
//!
//! # When durability fails
//!
//! [`NotDurable`](crate::ErrorKind::NotDurable): the commit is there and visible, and could not be written
//! for now, as the disk is full. Do not commit it again; make room and call [`Env::sync`](crate::Env::sync).
//! [`Poisoned`](crate::ErrorKind::Poisoned): a write or flush failed, and nobody knows what is on the disk.
//! Close the environment everywhere and open it again: see [`errors`](super::errors).
//!
//! A flush is as good as the disk. One that says "done" and does not do it loses what it was given last.
