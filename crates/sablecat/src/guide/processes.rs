//! Processes: sharing an environment.
//!
//! An environment is for one process, unless every process that opens it says
//! [`Builder::shared`](crate::Builder::shared). Then any number up to 1,024, with any number of threads each,
//! read and write in it. There is no server, and none of them is special.
//!
//! ```
//! # fn main() -> sablecat::Result<()> {
//! # let directory = std::env::temp_dir().join(format!("sablecat-guide-processes-{}", std::process::id()));
//! use sablecat::{Env, ErrorKind};
//!
//! let env = Env::builder().shared(true).open(&directory)?;
//! let stock = env.database("stock")?;
//! stock.insert("apples", "5")?;
//!
//! // Another process, as a rule; it may be this one, too.
//! let other = Env::builder().shared(true).open(&directory)?;
//! assert_eq!(other.database("stock")?.get("apples")?.as_deref(), Some(&b"5"[..]));
//! assert!(other.recovery().joined);
//!
//! // A process that does not share it is kept out.
//! assert_eq!(Env::open(&directory).unwrap_err().kind(), ErrorKind::InUse);
//! # drop((stock, env, other));
//! # std::fs::remove_dir_all(directory).unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! A commit is seen by all processes as soon as it returns. Transactions are serialisable across processes.
//! Record locks, deadlocks and [`Env::locks`](crate::Env::locks) are of all of them.
//!
//! # Waiting for each other
//!
//! A process that waits for what another will commit need not poll.
//! [`Env::write_when`](crate::Env::write_when) runs work in a transaction; where it finds nothing to do, it
//! sleeps until something that it has read may have changed, and runs again:
//!
//! ```
//! # fn main() -> sablecat::Result<()> {
//! # let env = sablecat::Env::in_memory()?;
//! # let (orders, bills) = (env.database("orders")?, env.database("bills")?);
//! # orders.insert("17", "two apples")?;
//! // Waits for an order, and bills it, in one transaction.
//! env.write_when(|txn| {
//!     let Some((number, order)) = txn.pop_first(&orders)? else { return Ok(None) };
//!     txn.insert(&bills, number, order).map(Some)
//! })?;
//! # assert_eq!(bills.len()?, 1);
//! # Ok(())
//! # }
//! ```
//!
//! What it waits for is what it has read: any number of keys, ranges and databases. It keeps no lock and no
//! snapshot meanwhile, and is woken by commits of any process at any rung of
//! [`durability`](super::durability). To be told of each change, and miss none, follow
//! [`Env::changes`](crate::Env::changes).
//!
//! # What is shared
//!
//! The files in the environment's directory, and a file in memory, in `/dev/shm` as a rule
//! ([`Builder::region_directory`](crate::Builder::region_directory)): the cache, the log's buffer, the locks.
//! The first process to open the environment makes it, and decides how large cache and buffer are. The last
//! one to close it removes it and writes a checkpoint.
//!
//! So all are on one machine. Programs on several machines want a server.
//!
//! # What may be killed
//!
//! Any process, at any moment, by any signal. The others carry on: what the dead one had committed is there,
//! what it had not is gone, its locks are free. Another process finishes what it was in the middle of, within
//! an interval of housekeeping (50 ms) or at once where it is in the way.
//!
//! If all are killed, the next one to open the environment finds what they had committed, at any
//! [`Durability`](crate::Durability), as long as the machine runs and the file in memory is there. See
//! [`durability`](super::durability) for failures of the machine and [`containers`](super::containers) for
//! files in memory that go with a container.
//!
//! A process that is *stopped* (SIGSTOP, a debugger) lives. Others take over from it nearly everything that
//! they need, after half a second or so. For a record that it has locked they wait, as for anybody.
//!
//! Nobody need clean up after that: there is no lock file to remove, no shared memory, nothing to repair. One
//! thing stays until you remove it: memory of killed processes that does not belong to the files any more, or
//! whose log was poisoned, is set aside under its name with `.aside` behind, in case you want it.
//!
//! # What a process must not do
//!
//! - *Use a handle after `fork`.* In the child each operation is [`Invalid`](crate::ErrorKind::Invalid), of
//!   transactions, snapshots, cursors, sequences and locks too that the parent has begun; to drop them there
//!   is harmless. Open the environment in the child. (`Command` is no problem: it starts another program.)
//! - *Close descriptors that are not its own* (`closefrom`, `close_range`, some libraries that make a process
//!   a daemon). Others then take it for dead. It gets [`Poisoned`](crate::ErrorKind::Poisoned) from then on,
//!   and may close the environment and open it again. Do such things before opening.
//! - *Touch the files.* No copying over, cutting short, or removing while any process has the environment
//!   open. Who finds a file in memory, or the newest one of the log, cut short gets
//!   [`Poisoned`](crate::ErrorKind::Poisoned), and no SIGBUS: for that the library sets up a handler when the
//!   first such file is mapped. Other faults go to the handler that was there before. A program that sets up
//!   its own later is to call the one that it finds.
//!
//! # Permissions
//!
//! A user who may read and write the files and the directory may do everything. New files get the
//! permission bits that [`Builder::file_mode`](crate::Builder::file_mode) says, or what the process's mask
//! leaves of 0666. What is made later, by any process, has the bits of the volume, `sablecat.db`; the file
//! in memory too. To share an environment in a group:
//!
//! ```no_run
//! # fn main() -> sablecat::Result<()> {
//! // `chgrp staff DIRECTORY; chmod 2770 DIRECTORY`, and then:
//! let env = sablecat::Env::builder().shared(true).file_mode(0o660).open("DIRECTORY")?;
//! # let _ = env;
//! # Ok(())
//! # }
//! ```
//!
//! A user who may only read the files can read the last checkpoint:
//! [`Builder::read_only`](crate::Builder::read_only).
//!
//! # The same build
//!
//! The memory that is shared has no format: it is what the code of this library makes of it. So only
//! processes with the same build of the library, source for source, come together. Another is told
//! [`InUse`](crate::ErrorKind::InUse). To bring in a new version, stop all, then start the new ones. Programs
//! that are different in all else share an environment if each is linked with the same version; that of the
//! `sablecat` command counts as well.
//!
//! The files on disk do have a format, and are not concerned.
//!
//! # Who is there
//!
//! [`Env::processes`](crate::Env::processes) and [`Env::locks`](crate::Env::locks) show who has the
//! environment open, what each holds and who waits for whom; [`Builder::activity`](crate::Builder::activity)
//! and `sablecat processes`, `sablecat locks` show it from outside.
