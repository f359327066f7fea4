//! Durability: what is safe when a commit returns, and how to pay less for it.
//!
//! Every commit is *atomic* and *visible* when it returns. How durable it is then is its
//! [`Durability`](crate::Durability), of which there are four levels, called rungs. The environment has one
//! ([`Builder::durability`](crate::Builder::durability); default: `Sync`), and a transaction may have its own
//! ([`TxnOptions::durability`](crate::TxnOptions::durability)).
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
//! Whatever is lost, what is left is a state that existed: all commits up to one of them, and none after. If
//! a commit is on the disk, so are all before it, at whatever rungs.
//!
//! ```
//! # fn main() -> sablecat::Result<()> {
//! # use std::sync::Arc;
//! # use sablecat_os::sim::{SimDisk, Survival};
//! use sablecat::{Durability, Env, TxnOptions};
//!
//! # let disk = Arc::new(SimDisk::new(1));
//! # let open = |disk: &Arc<SimDisk>| {
//! #     Env::builder().disk(Arc::clone(disk) as Arc<_>).background(false).open("env")
//! # };
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
//! - *Commit from several threads or processes.* Commits that wait for the disk at the same time share one
//!   flush (group commit). No setting is needed.
//! - *Put more into a transaction.* A flush for a thousand records costs as much as a flush for a single
//!   record. [`Database::insert_batch`](crate::Database::insert_batch),
//!   [`Database::bulk_load`](crate::Database::bulk_load).
//! - *Wait later.* Commit at `NoSync`, go on, and wait once before you report success:
//!   [`Env::make_durable`](crate::Env::make_durable) with the LSN that the last commit returned, or
//!   [`Env::sync`](crate::Env::sync) for all there is.
//! - *Ask for less where less is enough.* What can be computed again may be at `NoSync`, beside orders at
//!   `Sync`, in the same environment.
//! - *Ask for nothing where nothing needs to last.* For sessions, and for what can be computed again, there
//!   are [temporary](crate::DatabaseOptions::temporary) databases. They take part in transactions with
//!   others, and all processes see them, but their records are not logged or waited for, and they are empty
//!   when the environment is opened after no process had it open. A transaction that changes durable records
//!   as well is as durable as any.
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
//! [`Env::wait_visible`](crate::Env::wait_visible) waits until what was committed at an LSN is visible here.
//! In processes that share an environment it is visible when the commit returns; in a
//! [read-only](crate::Builder::read_only) process, after the next checkpoint.
//! [`Env::changes`](crate::Env::changes) gives commits as they become durable.
//!
//! # Checkpoints, closing
//!
//! Recovery begins at the last checkpoint, so checkpoints limit how long recovery takes and how much log
//! there is. After a checkpoint, everything that was committed before it is on the disk, at any rung.
//! Checkpoints are written at an interval
//! ([`Builder::checkpoint_interval`](crate::Builder::checkpoint_interval)), and when the environment is
//! closed. Durability does not depend on either: a program may be killed at any moment instead of closing,
//! and the next opening recovers.
//!
//! # In memory, with an image on a disk
//!
//! An environment that is [held in memory](crate::Builder::held_in) has its files on a tmpfs: `Sync` costs no
//! disk, and is as good as the memory. When processes are killed, nothing is lost. A crash of the machine
//! loses what was committed after the last image. [`Env::flush_image`](crate::Env::flush_image) writes an
//! image; so does `sablecat volume guard`: at an interval, when it is told that power fails (SIGPWR), and
//! when it is told to stop. Stop `guard` last of all processes that use the environment, give it the time
//! that the disk needs for the whole image, and run it as the user who owns the environment. It shares the
//! environment, so all other processes must share it too.
//!
//! # In memory alone
//!
//! An environment in memory alone ends with its last handle. A [`DataStore`](crate::DataStore) has no log:
//! durable is only what its last checkpoint wrote.
//!
//! # When durability fails
//!
//! [`NotDurable`](crate::ErrorKind::NotDurable): the commit was made and is visible, and could not be written
//! for now, because the disk is full. Do not commit it again; make room and call
//! [`Env::sync`](crate::Env::sync). [`Poisoned`](crate::ErrorKind::Poisoned): a write or flush failed, and
//! what is on the disk is not known. Close the environment everywhere and open it again: see
//! [`errors`](super::errors).
//!
//! A flush is only as good as the disk: a disk that reports a flush as done without doing it loses what was
//! written last.
