//! Errors: the kinds, which to retry, what to do about the others.
//!
//! There is one type, [`Error`](crate::Error). Its [`kind`](crate::Error::kind) is for programs; its text,
//! for people, says what was tried, on what, and what to do. Damaged bytes, full disks and killed processes
//! cause errors, never panics.
//!
//! # The kinds
//!
//! | [`ErrorKind`](crate::ErrorKind) | means | do |
//! |---|---|---|
//! | `Conflict`, `Deadlock`, `Timeout`, `SnapshotTooOld` | a conflict with another transaction; nothing was changed | run the transaction again. [`Env::write`](crate::Env::write) does. |
//! | `DiskFull` | no room on the disk; nothing was changed | make room, try again: [below](#a-full-disk) |
//! | `CacheFull` | no room in the cache; nothing was changed | end snapshots, change less at once: [below](#a-full-cache) |
//! | `TooMany` | too many transactions, locks or processes at once | end some, try again |
//! | `MemoryFull` | the system has no memory for it | a smaller cache |
//! | `Exhausted` | no numbers are left for pages, blocks or log | another environment, or open it again, as the text says |
//! | `NotDurable` | committed and visible, not on the disk yet | do **not** commit again; make room, [`Env::sync`](crate::Env::sync) |
//! | `Poisoned` | what is on the disk is not known, or others took this process for dead | close everywhere, open again: [below](#poisoned) |
//! | `Corruption` | bytes on the disk are not what was written | [below](#damage) |
//! | `Io` | a system call failed in another way | as the text says |
//! | `LogGone` | the log is not kept from there on | begin again with a copy |
//! | `InUse` | the environment is open in another process, not shared or with another build | close it there, or share it |
//! | `NotFound`, `Exists` | there is none, or one already | |
//! | `Duplicate` | another record has this key in a unique index; nothing was changed | another key |
//! | `Reference` | a record refers to this one, or would refer to a record that is not there; nothing was changed | remove the referring record first, or insert the other one first |
//! | `ReadOnly` | nothing can be written here | |
//! | `EncryptionKey` | the environment is encrypted, and this is not its key; or it is not, and a key was given | the right key, or none |
//! | `Invalid`, `NotAllowed` | the call is wrong: a mistake in the program | correct the program |
//!
//! Kinds may be added. Match on those you know, and use the predicates for the others:
//! [`is_retryable`](crate::Error::is_retryable), [`is_full`](crate::Error::is_full),
//! [`is_corruption`](crate::Error::is_corruption).
//!
//! ```
//! use std::time::Duration;
//! use sablecat::{Env, ErrorKind, Txn};
//!
//! /// For transactions begun by hand; `Env::write` does this, and more.
//! fn retry<T>(env: &Env, mut work: impl FnMut(&mut Txn<'_>) -> sablecat::Result<T>) -> sablecat::Result<T> {
//!     loop {
//!         let mut txn = env.begin()?;
//!         match work(&mut txn).and_then(|made| txn.commit().map(|_| made)) {
//!             Err(error) if error.is_retryable() => std::thread::sleep(Duration::from_millis(1)),
//!             Err(error) if error.kind() == ErrorKind::NotDurable => {
//!                 eprintln!("{error}"); // it is committed: to run it again would do it twice
//!                 return Err(error);
//!             }
//!             outcome => return outcome,
//!         }
//!     }
//! }
//! # fn main() -> sablecat::Result<()> {
//! # let env = Env::in_memory()?;
//! # let db = env.database("d")?;
//! # let mut runs = 0;
//! # retry(&env, |txn| {
//! #     runs += 1;
//! #     txn.get(&db, "k")?;
//! #     if runs == 1 {
//! #         db.insert("k", "another's")?;
//! #     }
//! #     txn.insert(&db, "k", "ours")
//! # })?;
//! # assert_eq!((runs, db.get("k")?), (2, Some(b"ours".to_vec())));
//! # Ok(())
//! # }
//! ```
//!
//! # After an error
//!
//! If setting a record in a transaction fails, the transaction is as it was; it may go on or be dropped. A
//! commit that failed has changed nothing, with two exceptions that say so: `NotDurable`, and `Poisoned`,
//! after which the changes may be visible and may not survive. An operation of a
//! [`Database`](crate::Database) is a commit of its own.
//!
//! # A full disk
//!
//! Nothing is lost, and reading goes on. Commits fail with `DiskFull`, or with `NotDurable` if they had been
//! made when the disk became full. Make room: elsewhere on the disk, or in the environment by removing
//! records or a database and calling [`Env::compact`](crate::Env::compact), which makes the file smaller.
//! That works even on a disk without a free byte, also after closing or a crash.
//!
//! ```
//! # fn main() -> sablecat::Result<()> {
//! # use std::sync::Arc;
//! # use sablecat_os::sim::SimDisk;
//! use sablecat::{Durability, Env, ErrorKind};
//!
//! # let disk = Arc::new(SimDisk::new(1));
//! # let open = || {
//! #     let builder = Env::builder().disk(Arc::clone(&disk) as Arc<_>).background(false);
//! #     builder.durability(Durability::NoSync).open("env")
//! # };
//! let env = open()?;
//! let files = env.database("files")?;
//! for n in 0..100u32 {
//!     files.insert(n.to_be_bytes(), vec![7; 100_000])?;
//! }
//! # drop(files);
//! env.close()?;
//! # disk.fill_up();
//!
//! // Now the disk is full.
//! let env = open()?;
//! let files = env.database("files")?;
//! assert_eq!(files.len()?, 100);
//! assert_eq!(files.insert("new", vec![7; 1_000_000]).unwrap_err().kind(), ErrorKind::DiskFull);
//! let before = env.stats()?.volume_bytes;
//! for n in 0..50u32 {
//!     files.remove(n.to_be_bytes())?;
//! }
//! env.compact()?;
//! assert!(env.stats()?.volume_bytes < before * 2 / 3);
//! # drop(files);
//! # env.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # A full cache
//!
//! If the environment is on disk, the cache need not hold the data. It is full when everything in it cannot
//! be evicted at the moment: versions that old snapshots keep, and pages of operations in progress. Wait, end
//! snapshots, use smaller transactions, or a larger cache.
//!
//! If the environment is in memory alone, the cache holds everything, and `CacheFull` means that it holds as
//! much as it can. Records can still be removed then.
//!
//! ```
//! # fn main() -> sablecat::Result<()> {
//! use sablecat::{Env, ErrorKind};
//!
//! let env = Env::builder().cache_size(2 << 20).in_memory()?;
//! let db = env.database("d")?;
//! let mut count = 0u32;
//! let full = loop {
//!     match db.insert(count.to_be_bytes(), [7; 1000]) {
//!         Ok(()) => count += 1,
//!         Err(error) => break error,
//!     }
//! };
//! assert_eq!(full.kind(), ErrorKind::CacheFull);
//! assert_eq!(db.len()?, u64::from(count), "nothing is lost");
//! for n in 0..count / 2 {
//!     db.remove(n.to_be_bytes())?;
//! }
//! db.insert("there is room again", [7; 1000])?;
//! # Ok(())
//! # }
//! ```
//!
//! # Poisoned
//!
//! A write or flush failed, so it is not known what is on the disk. The operating system may have dropped
//! what it could not write, and another flush would only seem to help. So the environment promises nothing
//! more: every commit at `WriteNoSync` or `Sync` fails from then on, in all processes. Drop all handles, in
//! all processes; remove the cause; open the environment again. Opening recovers it: what was acknowledged as
//! durable is there.
//!
//! ```
//! # fn main() -> sablecat::Result<()> {
//! # use std::sync::Arc;
//! # use sablecat_os::sim::{Fault, SimDisk};
//! use sablecat::{Env, ErrorKind};
//!
//! # let disk = Arc::new(SimDisk::new(1));
//! # let open = || Env::builder().disk(Arc::clone(&disk) as Arc<_>).background(false).open("env");
//! let env = open()?;
//! let orders = env.database("orders")?;
//! orders.insert("1", "safe")?;
//! # let calls = disk.calls();
//! # (0..4).for_each(|call| disk.fail_at(calls + call, Fault::SyncFails));
//!
//! // The disk fails.
//! assert_eq!(orders.insert("2", "who knows").unwrap_err().kind(), ErrorKind::Poisoned);
//! # disk.clear_faults();
//! assert_eq!(orders.insert("3", "refused").unwrap_err().kind(), ErrorKind::Poisoned);
//! drop((orders, env));
//!
//! let env = open()?;
//! let orders = env.database("orders")?;
//! assert_eq!(orders.get("1")?.as_deref(), Some(&b"safe"[..]));
//! orders.insert("4", "goes on")?;
//! # Ok(())
//! # }
//! ```
//!
//! # Damage
//!
//! `Corruption` names the file, the page and what is wrong with it. Records in other pages can still be read.
//! [`Env::verify`](crate::Env::verify), `sablecat verify`, says how much is damaged. Then copy what can be
//! read, or go back to a backup, or to an earlier time if a journal is kept
//! ([`Builder::journal`](crate::Builder::journal)). There is no repair tool that guesses.
