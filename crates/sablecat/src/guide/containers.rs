//! Containers: shared memory, directories, restarts; and what a backup is.
//!
//! An environment that one process uses alone needs only its directory. This page is about
//! [shared](super::processes) environments, except for the last two sections.
//!
//! # The size of the shared memory
//!
//! The cache of a shared environment is a file in `/dev/shm`. In many containers it has 64 MiB: in Docker
//! without `--shm-size`, in Kubernetes unless a volume `emptyDir` with `medium: Memory` is mounted there.
//! Memory is taken as it is used, so the environment opens, and has as much cache as fits. If there is not
//! even room to begin, opening fails with [`MemoryFull`](crate::ErrorKind::MemoryFull), which names the file.
//!
//! Choose the size of the cache yourself: [`Builder::cache_size`](crate::Builder::cache_size). By default it
//! is a quarter of the memory that the container may use, by its control group, or of the machine's memory.
//! In addition to the cache, some 18 MiB are needed, of which 8 are the log's buffer, and for tables a
//! hundredth of what is used of the cache. What is in `/dev/shm` counts towards the container's limit.
//!
//! ```no_run
//! # fn main() -> sablecat::Result<()> {
//! // `docker run --shm-size=192m ...`
//! let env = sablecat::Env::builder().shared(true).cache_size(128 << 20).open("/data/env")?;
//! # let _ = env;
//! # Ok(())
//! # }
//! ```
//!
//! # Several containers
//!
//! Processes in different containers of one machine share an environment if all see the same two directories:
//! the environment's, and the one for the memory. Each container has its own `/dev/shm`, so mount a directory
//! that all of them have, and name it:
//!
//! ```no_run
//! # fn main() -> sablecat::Result<()> {
//! // `docker run -v data:/data -v /dev/shm/shop:/region ...`
//! let env = sablecat::Env::builder().shared(true).region_directory("/region").open("/data/env")?;
//! # let _ = env;
//! # Ok(())
//! # }
//! ```
//!
//! A process that sees the environment but not the memory gets an error that says so:
//!
//! ```
//! # fn main() -> sablecat::Result<()> {
//! # let base = std::env::temp_dir().join(format!("sablecat-guide-containers-{}", std::process::id()));
//! # let [directory, one, another] = ["env", "one", "another"].map(|name| base.join(name));
//! # for region in [&one, &another] { std::fs::create_dir_all(region).unwrap(); }
//! use sablecat::{Env, ErrorKind};
//!
//! let env = Env::builder().shared(true).cache_size(4 << 20).region_directory(&one).open(&directory)?;
//! let error = Env::builder().shared(true).region_directory(&another).open(&directory).unwrap_err();
//! assert_eq!(error.kind(), ErrorKind::InUse);
//! assert!(error.to_string().contains("its shared memory is not where it should be"));
//! # drop(env);
//! # std::fs::remove_dir_all(base).unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! - *Process numbers* do not matter: a lock on a file, which the kernel releases, tells whether a process is
//!   alive. Containers need no common namespace of processes.
//! - *Users* matter as everywhere: see [permissions](super::processes#permissions). Use the same user number,
//!   or a common group.
//! - *The directory* must be the same one, by device and inode: a volume or a directory of the host, not a
//!   layer of the image. It must be on a local file system, where locks and memory are the kernel's own.
//! - *The build* must be the same: [one image](super::processes#the-same-build), or images made from one lock
//!   file.
//!
//! # Restarts
//!
//! A container that is killed takes its own `/dev/shm` with it. For a shared environment that is like a
//! failure of the machine, except that what was written to the operating system is kept: commits at
//! `WriteNoSync` and `Sync` are there, commits at lower rungs may not be. If the directory for the memory
//! outlives the container, nothing is lost: the next process to open the environment takes from the memory
//! what the files lack, and removes it.
//!
//! Nothing needs to be done at SIGTERM. But closing writes a checkpoint, so the next start is quicker: drop
//! all handles if there is time.
//!
//! # Memory of a private environment
//!
//! The cache of a private environment, too, is by default a quarter of the memory that the container may use,
//! and at least 64 MiB. Memory is taken as it is used. Changes of open transactions and values that are being
//! read or written take memory in addition to the cache, so leave room.
//!
//! # What a backup is
//!
//! - *A copy of the files, made while no process has the environment open.* Copy the whole directory, and
//!   volumes elsewhere too.
//! - *Not* a copy of the files made while a process has it open: its parts are of different moments, and it
//!   is refused or damaged. A snapshot that the file system takes of all files at one moment is a backup: it
//!   is what a failure of the machine at that moment would leave.
//! - *A copy of the records*, made while others go on: by `sablecat backup`, or
//!   [`Follower::copy`](crate::Follower::copy), which also keeps it up to date from there.
//! - *A journal* alone is not a backup: with it the environment can go back to an earlier time, but it is on
//!   the same disk. Copy its directory to another one.
//!
//! ```
//! # fn main() -> sablecat::Result<()> {
//! # let base = std::env::temp_dir().join(format!("sablecat-backup-{}", std::process::id()));
//! # let env = sablecat::Env::open(base.join("env"))?;
//! # let db = env.database("d")?;
//! # for n in 0..1000u32 { db.insert(n.to_be_bytes(), "value")?; }
//! let backup = sablecat::Env::open(base.join("backup"))?;
//! let follower = sablecat::Follower::new(&backup, "production")?;
//! let mut changes = match follower.position()? {
//!     Some(position) => env.changes(position)?,
//!     None => follower.copy(&env, &mut |copied| eprintln!("{} records", copied.records))?,
//! };
//! let until = env.lsn();
//! env.sync()?;
//! while changes.position() < until {
//!     let Some(commit) = changes.try_next()? else { break };
//!     follower.apply(&commit)?;
//! }
//! # assert_eq!(backup.database("d")?.len()?, 1000);
//! # drop((changes, follower, db, backup, env));
//! # std::fs::remove_dir_all(base).expect("removed");
//! # Ok(())
//! # }
//! ```
//!
//! A backup is an environment like any other. `sablecat restore` copies it into a new one.
//!
//! To put a copy of the files back, close the environment everywhere, replace its files by the copy, and open
//! it. Memory that killed processes have left is recognised as not belonging to these files, and is set
//! aside.
