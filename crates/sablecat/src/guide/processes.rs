//! Processes: sharing an environment.
//!
//! An environment is for one process, unless every process that opens it sets
//! [`Builder::shared`](crate::Builder::shared). Then up to 1,024 processes, each with any number of threads,
//! read and write in it. There is no server, and no process is special.
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
//! Record locks, the detection of deadlocks and [`Env::locks`](crate::Env::locks) cover all processes.
//!
//! # Waiting for each other
//!
//! A process that waits for a commit of another process need not poll.
//! [`Env::write_when`](crate::Env::write_when) runs a closure in a transaction; if the closure finds nothing
//! to do, the thread sleeps until something that the closure has read may have changed, and the closure runs
//! again:
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
//! [`durability`](super::durability). To get every change, and miss none, read
//! [`Env::changes`](crate::Env::changes).
//!
//! # What is shared
//!
//! The files in the environment's directory, and a file in memory, normally in `/dev/shm`
//! ([`Builder::region_directory`](crate::Builder::region_directory)), with the cache, the log's buffer and
//! the locks. The first process to open the environment creates the file in memory, and sets the sizes of
//! cache and buffer for all. The last process to close the environment removes it and writes a checkpoint.
//!
//! So all processes are on one machine. Programs on several machines need a server.
//!
//! # What may be killed
//!
//! Any process, at any moment, by any signal. The others carry on: what the dead process had committed is
//! there, what it had not is gone, its locks are free. Another process finishes its work, within an interval
//! of housekeeping (50 ms), or at once if that work is in the way.
//!
//! If all are killed, the next one to open the environment finds what they had committed, at any
//! [`Durability`](crate::Durability), as long as the machine runs and the file in memory is there. See
//! [`durability`](super::durability) for failures of the machine and [`containers`](super::containers) for
//! files in memory that go with a container.
//!
//! A process that is *stopped* (SIGSTOP, a debugger) is alive. Others take over nearly all of its work that
//! they need, after about half a second. They wait for a record that it has locked, as for any lock.
//!
//! No cleaning up is needed after that: there is no lock file or shared memory to remove, and nothing to
//! repair. One thing stays until you remove it: shared memory of killed processes that does not belong to the
//! files any more, or whose log was poisoned, is renamed to its name with `.aside` appended, in case you need
//! it.
//!
//! # What a process must not do
//!
//! - *Use a handle after `fork`.* In the child each operation fails with
//!   [`Invalid`](crate::ErrorKind::Invalid), also operations of transactions, snapshots, cursors, sequences
//!   and locks that the parent has begun; dropping them there is harmless. Open the environment in the child.
//!   (`Command` is no problem: it starts another program.)
//! - *Close descriptors that are not its own* (`closefrom`, `close_range`, some libraries that make a process
//!   a daemon). Other processes then take it for dead. It gets [`Poisoned`](crate::ErrorKind::Poisoned) from
//!   then on, and may close the environment and open it again. Close descriptors before you open the
//!   environment.
//! - *Touch the files.* Do not overwrite, truncate or remove them while any process has the environment open.
//!   A process that finds a file in memory, or the newest log file, truncated gets
//!   [`Poisoned`](crate::ErrorKind::Poisoned) and no SIGBUS: for that the library installs a signal handler
//!   when the first such file is mapped. Other faults go to the handler that was there before. A program that
//!   installs its own handler later must call the one that it finds.
//!
//! # Permissions
//!
//! Users with permission to read and write the files and the directory may do everything. New files get the
//! permission bits of [`Builder::file_mode`](crate::Builder::file_mode), or 0666 less the process's mask.
//! Files that are made later, by any process, get the bits of the volume, `sablecat.db`; so does the file in
//! memory. To share an environment in a group:
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
//! Users with permission only to read the files can read the last checkpoint:
//! [`Builder::read_only`](crate::Builder::read_only).
//!
//! # The same build
//!
//! Shared memory has no stable format: it is what the code of this library makes of it. So only processes
//! with the same build of the library, from the same source, can share an environment. A process with another
//! build gets [`InUse`](crate::ErrorKind::InUse). To install a new version, stop all processes, then start
//! the new ones. Otherwise different programs can share an environment if each is linked with the same
//! version; so must be the `sablecat` command.
//!
//! The files on disk have a stable format, and are not affected.
//!
//! # Processes and locks
//!
//! [`Env::processes`](crate::Env::processes) and [`Env::locks`](crate::Env::locks) show the processes that
//! have the environment open, what each holds and which transactions wait for which;
//! [`Builder::activity`](crate::Builder::activity) and `sablecat processes`, `sablecat locks` show it from
//! outside.
