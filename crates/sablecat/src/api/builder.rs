//! The builder: settings before opening.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sablecat_os::calendar::Moment;
use sablecat_os::disk::Disk;

use super::{DataStore, Env};
use crate::env::{
    self, Activity, Config, Counters, EnvMode, Extractor, History, IndexKeys, Journaling, Nullifier,
    Recovery, Target, WallClock,
};
use crate::error::Result;
use crate::pages::volume::{Journal, MAIN_NAME, Place};
use crate::txn::{Comparator, DeadlockPolicy, Durability, Isolation};

/// Settings of an environment. Each has a default that needs no tuning; begin with [`Env::builder`].
///
/// ```
/// use sablecat::{Durability, Env};
///
/// # fn main() -> sablecat::Result<()> {
/// let env = Env::builder().cache_size(64 << 20).durability(Durability::NoSync).in_memory()?;
/// # let _ = env;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Builder {
    pub(super) config: Config,
}

impl Builder {
    /// Bytes of the page cache, 256 pages at least. Memory is taken as it is used. Default: a quarter of the
    /// machine's memory, or of what its container or the limit of its address space (`ulimit -v`) leaves the
    /// process, at least 64 MiB.
    ///
    /// In an environment in memory alone, the cache holds everything: all records, and the old versions of
    /// pages that snapshots keep. What does not fit is an error
    /// ([`ErrorKind::CacheFull`](crate::ErrorKind::CacheFull)). Every change, a removal too, makes new
    /// versions of pages before the old ones are freed. For removals an eighth of a small cache is reserved,
    /// 80 pages at most: so single records, databases, and some records in one transaction can still be
    /// removed when nothing more can be added. Default in memory alone: as much as the machine has.
    pub fn cache_size(mut self, bytes: u64) -> Self {
        self.config.cache_bytes = Some(bytes);
        self
    }

    /// Bytes of a page in a new environment: a power of two from 512 to 65536. An existing environment keeps
    /// its page size. Default: 4096, and with [`compression`](Builder::compression) 32768.
    ///
    /// Keys with at least an eighth of a page less 16 bytes take more pages and time: see
    /// [`Database`](super::Database). In a database with a comparator, that is the length of the longest key.
    pub fn page_size(mut self, bytes: usize) -> Self {
        self.config.page_size = Some(bytes);
        self
    }

    /// Bytes left free behind each page of a new environment, as a codec might need them: a multiple of 8 up
    /// to 32. For tests: they stay zero.
    #[cfg(feature = "fuzzing")]
    #[doc(hidden)]
    pub fn trailer_bytes(mut self, bytes: usize) -> Self {
        self.config.trailer_bytes = bytes;
        self
    }

    /// Bytes of log in a segment file of a new log: a multiple of 4096. Default: 16 MiB.
    pub fn log_segment_size(mut self, bytes: u64) -> Self {
        self.config.log_segment_bytes = bytes;
        self
    }

    /// Bytes of the log's buffer in memory: a power of two, from 64 KiB to 4 GiB. Default: 8 MiB.
    pub fn log_buffer_size(mut self, bytes: usize) -> Self {
        self.config.log_buffer_bytes = bytes;
        self
    }

    /// How safe a commit is when it returns, unless a transaction says otherwise. Default:
    /// [`Durability::Sync`]. See [the guide](crate::guide::durability).
    pub fn durability(mut self, durability: Durability) -> Self {
        self.config.durability = durability;
        self
    }

    /// What transactions are protected from, unless one says otherwise. Default: [`Isolation::Serializable`].
    /// See [the guide](crate::guide::isolation).
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.config.isolation = isolation;
        self
    }

    /// Whether the volume is read and written with direct I/O, around the operating system's page cache.
    /// Default: no.
    ///
    /// Either way checkpoints write whole pages at multiples of the page size: whole blocks of the file
    /// system, if pages are at least as large. Smaller pages share blocks of the file system. They are always
    /// written through the page cache, which writes whole blocks.
    pub fn direct_io(mut self, direct: bool) -> Self {
        self.config.direct_io = direct;
        self
    }

    /// Whether the log is flushed by writes that are durable when they return (`O_DIRECT | O_DSYNC`) instead
    /// of by a write and a flush: one system call instead of two. Disks that write through, or whose cache
    /// survives a power failure, may be faster that way, others not: measure. Each process has its own
    /// setting. Commits at [`Durability::WriteNoSync`] go through the page cache in any case, and the flush
    /// after them is an ordinary one. Default: no.
    pub fn sync_io(mut self, sync: bool) -> Self {
        self.config.sync_io = sync;
        self
    }

    /// How often the log is flushed in the background. This is how much the rungs (durability levels) below
    /// [`Durability::Sync`] may lose in a crash of the machine. Default: 50 ms.
    pub fn flush_interval(mut self, interval: Duration) -> Self {
        self.config.flush_interval = interval;
        self
    }

    /// How often a checkpoint is written if anything was committed: any time, a second or five minutes.
    /// Default: 60 s.
    pub fn checkpoint_interval(mut self, interval: Duration) -> Self {
        self.config.checkpoint_interval = interval;
        self
    }

    /// How large the newest layer of an LSM tree ([`Method::Lsm`](crate::Method::Lsm)) becomes, in bytes,
    /// about, before it is merged with others: it stays in the cache, and the larger it is the less often is
    /// each record written again. At least two pages. Default: a sixteenth of the cache, 8 MiB at most.
    pub fn newest_layer_bytes(mut self, bytes: usize) -> Self {
        self.config.newest_layer_bytes = Some(bytes);
        self
    }

    /// How often housekeeping looks for expired records ([`Expiring`](super::Expiring)) and removes them.
    /// With [`Duration::MAX`] it never does; then only [`Env::sweep`](super::Env::sweep) removes them.
    /// Default: 1 s.
    pub fn sweep_interval(mut self, interval: Duration) -> Self {
        self.config.sweep_interval = interval;
        self
    }

    /// The clock by which records expire ([`Expiring`](super::Expiring)), in place of the system's time of
    /// day: for tests that set the time. It is called once in each transaction that reads such records, on
    /// the thread that reads them, and by housekeeping. All processes that use an environment should have the
    /// same clock.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use std::time::Duration;
    ///
    /// use sablecat::{Env, Expiring, Moment};
    ///
    /// # fn main() -> sablecat::Result<()> {
    /// let now = Arc::new(AtomicU64::new(1_000_000));
    /// let told = Arc::clone(&now);
    /// let env = Env::builder().clock(move || Moment { ms: told.load(Ordering::Relaxed) }).in_memory()?;
    /// let sessions = Expiring::open(&env, "sessions")?;
    /// env.write(|txn| sessions.insert(txn, "4f1c", "ada", Duration::from_secs(60)))?;
    /// assert!(sessions.contains_key(&env, "4f1c")?);
    /// now.fetch_add(60_000, Ordering::Relaxed);
    /// assert!(!sessions.contains_key(&env, "4f1c")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn clock(mut self, tell: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        self.config.clock = WallClock::of(tell);
        self
    }

    /// After how many bytes of log a checkpoint is written, although its interval has not passed: about as
    /// much as recovery has to replay at most. Default: 128 MiB.
    pub fn checkpoint_log_size(mut self, bytes: u64) -> Self {
        self.config.checkpoint_log_bytes = bytes;
        self
    }

    /// How many bytes a reader of the changes in this process ([`Env::changes`](super::Env::changes)) may lag
    /// behind the end of the log. Up to this lag the log is kept for the reader, in addition to the log that
    /// recovery needs, and takes that much room on the disk and no more. A reader that lags more is given up:
    /// it gets [`ErrorKind::LogGone`](crate::ErrorKind::LogGone) once that part of the log is used again.
    /// With a journal, old log is kept in any case, as far back as the journal reaches. Default: 1 GiB.
    pub fn changes_lag_max(mut self, bytes: u64) -> Self {
        self.config.changes_lag_max = bytes;
        self
    }

    /// How long to wait for a record lock before giving up with
    /// [`ErrorKind::Timeout`](crate::ErrorKind::Timeout). Default: 10 s.
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.config.lock_timeout = timeout;
        self
    }

    /// Which transaction is the victim of a deadlock, in which transactions wait for each other's record
    /// locks. Default: the youngest.
    pub fn deadlock_policy(mut self, policy: DeadlockPolicy) -> Self {
        self.config.deadlock_policy = policy;
        self
    }

    /// Whether to create the environment if there is none. Default: yes.
    pub fn create(mut self, create: bool) -> Self {
        self.config.create = create;
        self
    }

    /// Opens the environment read-only, at its last checkpoint: for a process that may read the environment's
    /// files but not write them, or that must write nothing. Nothing is written anywhere, no lock is taken,
    /// and no process waits. Other processes may have the environment open and go on; or it may not have been
    /// opened since a crash. Commits after the last checkpoint are not seen: the log is not read.
    ///
    /// Each transaction and each single operation reads the newest checkpoint that there is when it begins.
    /// Once the next checkpoint has been written, blocks of the one before may be used again: a transaction
    /// that goes on reading the older one gets [`SnapshotTooOld`](crate::ErrorKind::SnapshotTooOld), and a
    /// new transaction reads the newer one. Every operation that would change the environment fails with
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly). Of the other settings only the cache's size and the
    /// comparators matter. Default: no.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let directory = std::env::temp_dir().join(format!("sablecat-doc-read-only-{}", std::process::id()));
    /// use sablecat::{Env, ErrorKind};
    ///
    /// let env = Env::open(&directory)?;
    /// let stock = env.database("stock")?;
    /// stock.insert("apples", "3")?;
    /// env.checkpoint()?;
    /// stock.insert("apples", "4")?;
    ///
    /// // Most likely by somebody else, in another process.
    /// let reader = Env::builder().read_only(true).open(&directory)?;
    /// let seen = reader.database("stock")?;
    /// assert_eq!(seen.get("apples")?.as_deref(), Some(&b"3"[..]));
    /// assert_eq!(seen.insert("apples", "5").unwrap_err().kind(), ErrorKind::ReadOnly);
    ///
    /// env.checkpoint()?;
    /// assert_eq!(seen.get("apples")?.as_deref(), Some(&b"4"[..]));
    /// # drop((env, stock));
    /// # std::fs::remove_dir_all(directory).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.config.read_only = read_only;
        self
    }

    /// The permission bits, as of `chmod`, of the files of a new environment, whatever the process's mask
    /// (`umask`) is. Default: 0666 less the mask. Files that are made later, by any process, get the
    /// permission bits of the environment's volume (`sablecat.db`); so does the memory of a shared
    /// environment. To share an environment within a group, give the directory that group and the
    /// set-group-ID bit.
    pub fn file_mode(mut self, mode: u32) -> Self {
        self.config.file_mode = Some(mode);
        self
    }

    /// Whether other processes may have the environment open at the same time. Every process that opens it
    /// must set this, and each does its part of the work: there is no server. All must have the same build of
    /// this library; a process with another build cannot join. The shared memory is a file in memory
    /// ([`Builder::region_directory`]), which the last process to close the environment removes. Any process
    /// may be killed at any moment; the others carry on. The first process to open the environment sets the
    /// cache size and the log buffer size for all. Default: no.
    pub fn shared(mut self, shared: bool) -> Self {
        self.config.shared = shared;
        self
    }

    /// Where the shared memory of a shared environment is: a directory on a file system in memory, the same
    /// for every process that opens the environment. Default: `/dev/shm`.
    pub fn region_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.config.region_directory = Some(directory.into());
        self
    }

    /// Whether threads do the housekeeping (background maintenance). One flushes the log, writes checkpoints
    /// and finishes the work of processes that died; another writes changed pages ahead of need while the
    /// cache is too small, eight more read what scans and large commits will come to, once these wait for the
    /// disk, and one merges the layers of LSM trees, which commits do where there is none. Without them, call
    /// [`Env::keep_house`] about every flush interval, or [`Env::sync`] and [`Env::checkpoint`] when you
    /// choose. Default: yes.
    pub fn background(mut self, background: bool) -> Self {
        self.config.background = background;
        self
    }

    /// Keeps a journal (a log archive), with these settings: old log segments are moved into a directory
    /// instead of being used again, checkpoints are retained as *epochs* (restore points), and the log
    /// records when commits were made. The environment can then be taken back to any of its commits since the
    /// oldest epoch (point-in-time recovery): [`Builder::recovery`]. The setting is stored in the
    /// environment. If this is not called, the stored setting stays as it is. Only the first process to open
    /// the environment can change it. [`Builder::no_journal`] ends the journal. Default for a new
    /// environment: no journal.
    ///
    /// It costs: disk space for all that is kept; 32 bytes of log for every 10 milliseconds in which
    /// something is committed; and log segments that are written twice, since none is used again. While
    /// epochs are retained, the volume's file gives back only the free space at its end: free space within it
    /// is used again and not given back.
    pub fn journal(mut self, journal: Journal) -> Self {
        self.config.journaling = Journaling::On(journal);
        self
    }

    /// Ends the journal and releases all epochs. The journal's files stay where they are; remove them by
    /// hand. While they are there, no other journal can be begun in that directory
    /// ([`ErrorKind::Exists`](crate::ErrorKind::Exists)).
    pub fn no_journal(mut self) -> Self {
        self.config.journaling = Journaling::Off;
        self
    }

    /// Declares a volume: a data file in addition to the main one in the environment's directory, for example
    /// on another file system. Databases, or some records of a database, can be placed in it
    /// ([`Builder::place`]). It is created with the environment, or added to an existing one. The path is
    /// that of the file, absolute or relative to the environment's directory; its directory must exist. Names
    /// have 1 to 48 bytes; `main` is the main volume's. There can be up to 15 volumes besides the main one,
    /// and as many placement rules as the superblock has room for: with short names and paths some tens.
    ///
    /// The environment remembers its volumes: they need not be declared again. All of them are opened with
    /// it, and belong to every transaction, checkpoint and recovery. To move a volume, close the environment,
    /// move the file, and declare the volume with its new path when you open the environment. Volumes are
    /// never removed.
    ///
    /// If the file is missing, or belongs to another environment or another volume, or is an older state of
    /// this volume, opening fails with an error that says which file is wanted where ([`Builder::open`]), and
    /// nothing is changed. Only the first process to open the environment can declare new volumes and rules.
    ///
    /// ```no_run
    /// # fn main() -> sablecat::Result<()> {
    /// use sablecat::{Env, Place};
    ///
    /// let env = Env::builder()
    ///     .volume("archive", "/mnt/large/archive.db")
    ///     .place(Place::databases_beginning_with("log."), "archive")
    ///     .place(Place::keys("orders", "2019/"), "archive")
    ///     .open("some/directory")?;
    /// # let _ = env;
    /// # Ok(())
    /// # }
    /// ```
    pub fn volume(mut self, name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        self.config.declared.volumes.push((name.into(), path.into()));
        self
    }

    /// How pages that are written to the main volume from now on are compressed. The environment remembers
    /// the setting for all processes that open it; pages that were written before stay as they are and
    /// readable. Only the first process to open the environment can change it. Default: the stored setting,
    /// and no compression in a new environment. For other volumes: [`Builder::volume_compression`].
    ///
    /// Pages are compressed when they are written to the file, and are uncompressed in the cache: reading
    /// from the cache is as fast as without compression. A page keeps its place in the file; the part of the
    /// place that it does not need is given back to the file system, as a hole in the file. So compression
    /// reduces [`VolumeStats::occupied`](crate::VolumeStats) and not the file's length; copy such a file with
    /// a program that keeps holes.
    ///
    /// File systems allocate space in units of 4 KiB, so compression needs larger pages
    /// ([`Builder::page_size`]): with pages of 16 KiB, text takes two thirds to a half of its size; with 32
    /// and 64 KiB, down to a third. Choosing compression is refused for pages smaller than 8 KiB, since
    /// nothing would be saved, and on file systems without support for holes. If the environment is moved to
    /// such a file system later, pages are written there without compression, and [`Env::stats`] says so.
    ///
    /// ```
    /// use sablecat::{Compression, Env};
    ///
    /// let builder = Env::builder().page_size(16384).compression(Compression::zstd());
    /// # let _ = builder;
    /// ```
    ///
    /// On a full disk, a page that takes more space than before may not fit: the write fails with
    /// [`DiskFull`](crate::ErrorKind::DiskFull), unless the file's reserve can be used for it. The log is not
    /// compressed.
    ///
    /// Opening fails with `Invalid` if the build lacks the feature `lz4` or `zstd` that this setting needs,
    /// or that blocks of the environment may need.
    pub fn compression(self, compression: crate::Compression) -> Self {
        self.volume_compression(MAIN_NAME, compression)
    }

    /// As [`Builder::compression`], for a volume that was [declared](Builder::volume), now or before.
    pub fn volume_compression(mut self, volume: impl Into<String>, compression: crate::Compression) -> Self {
        self.config.declared.compressions.push((volume.into(), compression));
        self
    }

    /// In an encrypted environment, has a volume that is [declared](Builder::volume) for the first time hold
    /// its pages without encryption: what is placed there is written as fast as without a key, and whoever
    /// has the file can read it. Whoever can write to the file can change it unnoticed, and so have the
    /// environment show, or free, pages of other volumes too: keep such a file where nobody else writes. The
    /// log stays encrypted, records of that volume included. Of a database in that volume, inner pages are
    /// there too, whatever volume records are [placed](Builder::place) in by their keys.
    ///
    /// A volume stays as it was made, so afterwards this need not be said again. In an environment that is
    /// not encrypted it has no effect. Opening fails with `Invalid` for a volume that is not declared; in an
    /// encrypted environment also for the main one, which says what is where, and for one that was made with
    /// encryption.
    ///
    /// ```no_run
    /// # #[cfg(feature = "encryption")]
    /// # fn main() -> sablecat::Result<()> {
    /// use sablecat::{EncryptionKey, Env, Place};
    ///
    /// let env = Env::builder()
    ///     .encryption_key(EncryptionKey::from_file("key")?)
    ///     .volume("tiles", "tiles.db")
    ///     .volume_unencrypted("tiles")
    ///     .place(Place::database("map tiles"), "tiles")
    ///     .open("some/directory")?;
    /// # let _ = env;
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "encryption"))]
    /// # fn main() {}
    /// ```
    pub fn volume_unencrypted(mut self, volume: impl Into<String>) -> Self {
        self.config.declared.unencrypted.push(volume.into());
        self
    }

    /// Holds the environment in memory from now on. Its files, data and log, are then in the directory
    /// `memory`, which must be on a file system in memory, and is created if it does not exist. The directory
    /// by which the environment is opened keeps an *image* of the files on a disk. The environment remembers
    /// this setting: it need not be given again, and a process that opens the environment by that directory
    /// finds its files in memory. If these are gone, because the machine was restarted, the first process to
    /// open the environment loads the image.
    ///
    /// When processes are killed, nothing is lost, at any durability: files in memory outlive processes, and
    /// so does the memory of a [shared](Builder::shared) environment. When the memory is lost, so is
    /// everything that was committed after the last image. [`Env::flush_image`], `sablecat volume flush` and
    /// `sablecat volume guard` write images; closing the environment does not. The library does not handle
    /// signals: a program that is told of a power failure must call [`Env::flush_image`] itself.
    ///
    /// An existing environment must be closed, and becomes the first image. An environment held in memory has
    /// no other volumes and no journal, and cannot be opened as a Data Store. To move it back to the disk,
    /// flush an image, close the environment, and remove the directory in memory and the file
    /// `sablecat.memory` beside the image.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let directory = std::env::temp_dir().join(format!("sablecat-doc-held-{}", std::process::id()));
    /// # let memory = directory.with_extension("memory");
    /// use sablecat::Env;
    ///
    /// let env = Env::builder().held_in(&memory).open(&directory)?;
    /// env.database("stock")?.insert("apples", "3")?;
    /// env.flush_image()?;
    /// env.close()?;
    ///
    /// // As a start of the machine does.
    /// std::fs::remove_dir_all(&memory).unwrap();
    /// let env = Env::open(&directory)?;
    /// assert_eq!(env.database("stock")?.get("apples")?.as_deref(), Some(&b"3"[..]));
    /// # drop(env);
    /// # std::fs::remove_dir_all(directory).unwrap();
    /// # std::fs::remove_dir_all(memory).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    pub fn held_in(mut self, memory: impl Into<PathBuf>) -> Self {
        self.config.memory = Some(memory.into());
        self
    }

    /// Adds a placement rule: which volume, `main` included, databases or records are placed in. The
    /// environment remembers the rule; a later rule for the same place can name another volume.
    ///
    /// Rules apply to what is placed from then on. A new *database* goes to the volume of the rule with its
    /// exact name, or else of the rule with the longest matching beginning of the name, and stays there.
    /// *Records* are placed by the rule with the longest matching prefix of their keys, of 1 to 48 bytes. A
    /// leaf page that can hold no other keys moves to that volume when it is next split or merged; a long
    /// value, when it is next written. Inner pages, and the leaves at the edges of a prefix, which hold other
    /// keys as well, stay in the database's volume. In a database with a comparator, and in a hash table,
    /// rules for keys have no effect. Rules for keys use the name that the database has when it is opened.
    pub fn place(mut self, place: Place, volume: impl Into<String>) -> Self {
        self.config.declared.places.push((place, volume.into()));
        self
    }

    /// The disk to live on, for this project's own tests with a simulated one. Default: the machine's.
    #[doc(hidden)]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.config.disk = disk;
        self
    }

    /// The access method of new databases for which no other one is asked for: see [`Env::database_as`].
    /// Databases with a comparator are always B+trees, and so are those of what is in the order of its keys
    /// (queues, globals and their like) where this says hash tables or LSM trees. Default: B+trees.
    pub fn method(mut self, method: crate::Method) -> Self {
        self.config.method = method;
        self
    }

    /// What hash tables are made with in the place of chance, for this project's own tests.
    #[cfg(any(feature = "seam", feature = "fuzzing"))]
    #[doc(hidden)]
    pub fn hash_seed(mut self, seed: [u8; 16]) -> Self {
        self.config.hash_seed = Some(seed);
        self
    }

    /// Registers a comparator, which orders keys, under a name, for [`Env::database_ordered_by`]. The name is
    /// stored with each database that is ordered by it. The function must be given again, and be the same,
    /// whenever the environment is opened.
    pub fn comparator(
        mut self,
        name: &str,
        compare: impl Fn(&[u8], &[u8]) -> Ordering + Send + Sync + 'static,
    ) -> Self {
        let comparator = Comparator::new(name, compare);
        self.config.comparators.insert(name.to_owned(), Arc::new(comparator));
        self
    }

    /// Registers an extractor under a name: a function that returns the keys of a record in an
    /// [`Index`](super::Index), none, one or many. Its arguments are the record's key and value. The name is
    /// stored with each index that is made with it. The function must be given again whenever the environment
    /// is opened, and must return the same keys for the same record. A process that does not give it can read
    /// everything, but cannot write to the index's primary database.
    ///
    /// The function is called with no lock held. If it panics, the record is not changed.
    pub fn extractor(
        mut self,
        name: &str,
        extract: impl Fn(&[u8], &[u8], &mut IndexKeys) + Send + Sync + 'static,
    ) -> Self {
        let extractor = Arc::new(Extractor(Box::new(extract)));
        Arc::make_mut(&mut self.config.functions).extractors.insert(name.to_owned(), extractor);
        self
    }

    /// Registers a nullifier under a name: a function that returns the new value of a record when another
    /// record, to which it refers, is removed: see [`OnRemove::Nullify`](crate::OnRemove::Nullify). Its
    /// arguments are the record's key, its value, and the key of the removed record. Like an extractor, it
    /// must be given again whenever the environment is opened.
    pub fn nullifier(
        mut self,
        name: &str,
        nullify: impl Fn(&[u8], &[u8], &[u8]) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let nullifier = Arc::new(Nullifier(Box::new(nullify)));
        Arc::make_mut(&mut self.config.functions).nullifiers.insert(name.to_owned(), nullifier);
        self
    }

    /// Opens the environment in a directory, creating it if need be, recovering it if it was not closed.
    ///
    /// # Errors
    /// `InUse` if it is open already, or is open in a way that this process cannot join; `Poisoned` if it is
    /// open and must be closed in all processes first; `NotFound` if there is none and [`Builder::create`] is
    /// off; `Corruption` if what is on disk is damaged; `Invalid` for settings that make no sense; `NotFound`
    /// and `Invalid` if a volume is not where it should be, or not itself; `Exists` if another file is where
    /// a new volume is to be made; `ReadOnly` if its files cannot be written and can be read; `Io` and
    /// `DiskFull` from the operating system.
    pub fn open(self, directory: impl AsRef<Path>) -> Result<Env> {
        env::open(directory.as_ref(), self.config, EnvMode::Transactional).map(Env::new)
    }

    /// The epochs and log files of the environment in a directory: what it can be taken back to. Reads
    /// superblocks and names of files, and changes nothing; other processes may have the environment open.
    ///
    /// # Errors
    /// `NotFound` if there is no environment; `Corruption` if its superblocks or the header of a log segment
    /// are damaged; `Io`.
    pub fn history(self, directory: impl AsRef<Path>) -> Result<History> {
        env::history(directory.as_ref(), &self.config)
    }

    /// The processes that share the environment in a directory, and what they hold: as [`Env::processes`] and
    /// [`Env::locks`], but from outside, without joining the environment. Never waits, not even for a process
    /// that was stopped while it was joining, and changes nothing. The environment's files and its shared
    /// memory need only be readable.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let directory = std::env::temp_dir().join(format!("sablecat-doc-activity-{}", std::process::id()));
    /// let env = sablecat::Env::builder().shared(true).open(&directory)?;
    /// let seen = sablecat::Env::builder().activity(&directory)?;
    /// assert_eq!(seen.processes[0].pid, std::process::id());
    /// assert!(seen.locks.is_empty());
    /// # drop(env);
    /// # std::fs::remove_dir_all(directory).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound` if there is no environment; `InUse` if a process has it open exclusively; `Invalid` if its
    /// shared memory is of another build; `Io`.
    pub fn activity(self, directory: impl AsRef<Path>) -> Result<Activity> {
        env::activity(directory.as_ref(), &self.config)
    }

    /// What the processes that share the environment in a directory have done: as [`Env::counters`], but from
    /// outside, without joining the environment. None if no process has it open. Like [`Builder::activity`],
    /// never waits and changes nothing.
    ///
    /// # Errors
    /// As [`Builder::activity`].
    pub fn counters(self, directory: impl AsRef<Path>) -> Result<Option<Counters>> {
        env::counters(directory.as_ref(), &self.config)
    }

    /// Prepares to take the environment in a directory back to an earlier state (point-in-time recovery): to
    /// the newest epoch (restore point) at or before the target, and from there forwards by replaying the
    /// log. Until the returned value is dropped, no other process can open the environment. No record is
    /// changed: [`Recovery::plan`] says what would be replayed and what would be lost, and
    /// [`Recovery::apply`] carries it out. Commits that are only in the memory of killed processes are
    /// written to the log's files first.
    ///
    /// ```no_run
    /// # fn main() -> sablecat::Result<()> {
    /// use sablecat::{Env, Lsn, Target};
    ///
    /// let recovery = Env::builder().recovery("some/directory", Target::Lsn(Lsn(4_711_000)))?;
    /// println!("{} commits would be lost", recovery.plan().commits_lost);
    /// recovery.apply()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InUse` if any process has it open; `NotFound` if there is no environment, no such epoch, none before
    /// the target, or nothing as late as the target; `Invalid` if it keeps no journal; `Corruption` if the
    /// log up to the target is damaged or a file of it is missing, naming it.
    pub fn recovery(self, directory: impl AsRef<Path>, target: Target) -> Result<Recovery> {
        env::prepare_recovery(directory.as_ref(), self.config, target)
    }

    /// An environment in memory alone. It ends when its last handle is dropped. Commits have the durability
    /// of [`Durability::Memory`], whatever is asked for.
    ///
    /// # Errors
    /// `Invalid` for settings that make no sense; `MemoryFull` if the address space cannot be reserved.
    pub fn in_memory(self) -> Result<Env> {
        env::in_memory(self.config, EnvMode::Transactional).map(Env::new)
    }

    /// Opens an environment as a Data Store: no log, no transactions, one handle. After it was closed, it can
    /// be opened with transactions the next time.
    ///
    /// # Errors
    /// As [`Builder::open`]; also `Invalid` if the environment was last used with transactions and not
    /// closed: then open it once with transactions.
    pub fn open_data_store(self, directory: impl AsRef<Path>) -> Result<DataStore> {
        env::open(directory.as_ref(), self.config, EnvMode::DataStore).map(DataStore::new)
    }

    /// A Data Store in memory alone.
    ///
    /// # Errors
    /// As [`Builder::in_memory`].
    pub fn data_store_in_memory(self) -> Result<DataStore> {
        env::in_memory(self.config, EnvMode::DataStore).map(DataStore::new)
    }
}
