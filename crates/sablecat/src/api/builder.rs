//! The builder: settings before opening.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sablecat_os::calendar::Moment;
use sablecat_os::disk::Disk;

use super::{DataStore, Env};
use crate::env::{
    self, Activity, Config, Counters, Extractor, History, IndexKeys, Journaling, Mode, Nullifier, Recovery,
    Target, WallClock,
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
    /// In memory alone the cache is all there is: all records, and the old versions of pages that snapshots
    /// keep. More than it has room for is an error ([`ErrorKind::CacheFull`](crate::ErrorKind::CacheFull)).
    /// Every change makes new versions before the old ones go, removals too: for these an eighth of a small
    /// cache is kept, 80 pages at most, so single records, databases, and some records in one transaction can
    /// be removed when nothing can be added any more. Default there: as much as the machine has.
    pub fn cache_size(mut self, bytes: u64) -> Self {
        self.config.cache_bytes = Some(bytes);
        self
    }

    /// Bytes of a page in a new environment: a power of two from 512 to 65536. An existing one keeps its own.
    /// Default: 4096, and with [`compression`](Builder::compression) 32768.
    ///
    /// Keys of an eighth of a page, less 16 bytes, and longer ones take more pages and time: see
    /// [`Database`](super::Database). With a comparator that is the longest key.
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

    /// Whether the volume is read and written around the operating system's page cache. Default: no.
    ///
    /// Either way checkpoints write whole pages at multiples of the page size, and so whole blocks of the
    /// file system, if pages are as large as these; smaller pages share them, and are always written through
    /// the page cache, which writes whole blocks of its own.
    pub fn direct_io(mut self, direct: bool) -> Self {
        self.config.direct_io = direct;
        self
    }

    /// Whether the log is flushed by writes that are durable when they return (`O_DIRECT | O_DSYNC`) instead
    /// of by a write and a flush: one system call instead of two. Disks that write through, or have a cache
    /// that outlives the power, may be faster that way, others not: measure. It is a matter of each process.
    /// Commits at [`Durability::WriteNoSync`] go through the page cache in any case, and the flush after them
    /// is an ordinary one. Default: no.
    pub fn sync_io(mut self, sync: bool) -> Self {
        self.config.sync_io = sync;
        self
    }

    /// How often the log is flushed in the background: what the rungs below [`Durability::Sync`] may lose in
    /// a crash of the machine. Default: 50 ms.
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

    /// How often housekeeping looks for records that have expired ([`Expiring`](super::Expiring)), to remove
    /// them; [`Duration::MAX`]: never, and [`Env::sweep`](super::Env::sweep) does when it is called. Default:
    /// 1 s.
    pub fn sweep_interval(mut self, interval: Duration) -> Self {
        self.config.sweep_interval = interval;
        self
    }

    /// What tells the time by which records expire ([`Expiring`](super::Expiring)), in place of the system's
    /// time of day: for tests, which set it. It is asked once in each transaction that looks at such records,
    /// by the thread that does, and by housekeeping. All who use an environment should have the same.
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

    /// How many bytes of log bring on a checkpoint before its time: what recovery has to replay at most,
    /// about. Default: 128 MiB.
    pub fn checkpoint_log_size(mut self, bytes: u64) -> Self {
        self.config.checkpoint_log_bytes = bytes;
        self
    }

    /// How many bytes the log's changes that this process reads ([`Env::changes`](super::Env::changes)) may
    /// lie behind its end: as long as they do not lie further behind, the log is kept for them, on top of
    /// what recovery needs, and takes room on the disk: so much and no more. A reader that lags more is given
    /// up, and gets [`ErrorKind::LogGone`](crate::ErrorKind::LogGone) once the log is used again. Where a
    /// journal is kept, old log is there in any case, as far as the journal reaches. Default: 1 GiB.
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

    /// Which transaction gives way when some wait for each other's record locks in a circle. Default: the
    /// youngest.
    pub fn deadlock_policy(mut self, policy: DeadlockPolicy) -> Self {
        self.config.deadlock_policy = policy;
        self
    }

    /// Whether to create the environment if there is none. Default: yes.
    pub fn create(mut self, create: bool) -> Self {
        self.config.create = create;
        self
    }

    /// Whether to read the last checkpoint and nothing else: for a process that may read the environment's
    /// files but not write them, or that must write nothing. Nothing is written anywhere, no lock is taken
    /// and nobody waits; others may have the environment open and go on, or nobody may have had it open since
    /// it crashed. What was committed after the last checkpoint is not seen: the log is not read.
    ///
    /// Each transaction and each single operation begins at the newest checkpoint there is by then. Once the
    /// next one has been written, blocks of the one before may be used again; so a transaction that goes on
    /// reading it gets [`SnapshotTooOld`](crate::ErrorKind::SnapshotTooOld), and a new transaction reads the
    /// newer one. Whatever would change the environment is [`ReadOnly`](crate::ErrorKind::ReadOnly). Of the
    /// other settings only the cache's size and comparators matter. Default: no.
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

    /// The permissions of a new environment: the bits, as of `chmod`, of its files, whatever the process's
    /// mask is. Default: what the mask leaves of 0666. What is made later on, the memory of a shared
    /// environment as well, has the bits of the environment's volume (`sablecat.db`), whichever process makes
    /// it. To share an environment in a group, let the group be that of the directory, with its set-group-ID
    /// bit.
    pub fn file_mode(mut self, mode: u32) -> Self {
        self.config.file_mode = Some(mode);
        self
    }

    /// Whether other processes may have the environment open at the same time. Every process that opens it
    /// has to say so, and each does its part of the work: there is no server. All must have the same build of
    /// this library; a process with another build cannot join. What they share lies in a file in memory
    /// ([`Builder::region_directory`]), which the last one to close the environment removes. Any of them may
    /// be killed at any moment; the others carry on. The first to open it decides the size of the cache and
    /// of the log's buffer. Default: no.
    pub fn shared(mut self, shared: bool) -> Self {
        self.config.shared = shared;
        self
    }

    /// Where the memory of a shared environment lies: a directory on a file system in memory, the same for
    /// every process that opens the environment. Default: `/dev/shm`.
    pub fn region_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.config.region_directory = Some(directory.into());
        self
    }

    /// Whether threads keep house in the background. One flushes, writes checkpoints and finishes what dead
    /// processes left undone; another writes changed pages ahead of need while the cache is too small.
    /// Without them call [`Env::keep_house`] now and then, or [`Env::sync`] and [`Env::checkpoint`] when you
    /// choose. Default: yes.
    pub fn background(mut self, background: bool) -> Self {
        self.config.background = background;
        self
    }

    /// Whether the environment is to keep a journal, and how: old log segments are put into a directory
    /// instead of being used again, checkpoints are retained as *epochs*, and the log says when commits were
    /// made. So the environment can be taken back to any of its commits since the oldest epoch:
    /// [`Builder::recovery`]. The setting is the environment's and stays until it is changed; when nothing is
    /// said here it is left as it is. It can only be changed by the first process to open the environment.
    /// [`Builder::no_journal`] ends it. Default: none is kept.
    ///
    /// What it costs: the disk for all of it; 32 bytes of log every 10 milliseconds in which something is
    /// committed; log segments that are written twice, since none is used again. While epochs are retained,
    /// the file keeps its size but for what is free at its end: free space within it is used again and not
    /// given back.
    pub fn journal(mut self, journal: Journal) -> Self {
        self.config.journaling = Journaling::On(journal);
        self
    }

    /// Ends the journal and lets go of all epochs. The files that it has stay where they are, to be removed
    /// by hand; where they are no other journal can be begun
    /// ([`ErrorKind::Exists`](crate::ErrorKind::Exists)).
    pub fn no_journal(mut self) -> Self {
        self.config.journaling = Journaling::Off;
        self
    }

    /// Declares a volume: a file, beside the main one in the environment's directory, in which databases, or
    /// records of some, can be placed ([`Builder::place`]); on another file system, say. It is made with the
    /// environment, or added to one that is there. The path is that of the file, absolute or relative to the
    /// environment's directory; the directory that it is to be in must be there. Names have 1 to 48 bytes;
    /// `main` is the main volume's. Up to 15 volumes, and as many rules as the superblock has room for: with
    /// short names and paths some tens.
    ///
    /// The environment remembers its volumes: they need not be declared again. All of them are opened with
    /// it, and belong to every transaction, checkpoint and recovery. One that is declared with another path
    /// has been moved there: close the environment, move the file, open it with the new path. Volumes are
    /// never removed.
    ///
    /// A file that is not there, or is of another environment, another volume, or an older state of this one,
    /// is an error that says what is wanted where ([`Builder::open`]); nothing is changed then. New volumes
    /// and rules can be declared only by the first process to open the environment.
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

    /// How pages in the main volume are compressed that are written from now on. The environment remembers
    /// it, so that all who open it do the same; what was written before stays as it is and readable. It can
    /// be changed by who opens the environment while nobody else has it open. Default: as before, and not
    /// in a new environment. For other volumes: [`Builder::volume_compression`].
    ///
    /// Pages are compressed as they are written to the file and whole in the cache, so what is in the cache
    /// is read as fast as without. A page keeps its place in the file; what it does not need of that is given
    /// back to the file system, as a hole in the file. So [`VolumeStats::occupied`](crate::VolumeStats) gets
    /// smaller and not the file's length; copy such a file with a program that keeps holes.
    ///
    /// File systems give space by 4 KiB, so it takes larger pages ([`Builder::page_size`]): of 16 KiB two
    /// thirds or a half of text are left, of 32 and 64 KiB down to a third. Smaller pages than 8 KiB are
    /// refused, since nothing would be saved, and so are file systems that make no holes, when compression is
    /// chosen; one that such an environment was moved to later is written to without compression, which
    /// [`Env::stats`] says.
    ///
    /// ```
    /// use sablecat::{Compression, Env};
    ///
    /// let builder = Env::builder().page_size(16384).compression(Compression::zstd());
    /// # let _ = builder;
    /// ```
    ///
    /// On a full disk pages that take more space than before need some: the write fails with
    /// [`DiskFull`](crate::ErrorKind::DiskFull) then, unless the file's reserve can be given up for it. The
    /// log is not compressed.
    ///
    /// Opening fails with `Invalid` if the build has not the feature `lz4` or `zstd` that is asked for, or
    /// that blocks of the environment may need.
    pub fn compression(self, compression: crate::Compression) -> Self {
        self.volume_compression(MAIN_NAME, compression)
    }

    /// The same for a volume that was [declared](Builder::volume), now or before.
    pub fn volume_compression(mut self, volume: impl Into<String>, compression: crate::Compression) -> Self {
        self.config.declared.compressions.push((volume.into(), compression));
        self
    }

    /// Has the environment be held in memory from now on: its files, data and log, are in this directory,
    /// which is to be on a file system in memory and is made if it is not there; the directory by which it is
    /// opened keeps an *image* of them on a disk. The environment remembers it, so this need not be said
    /// again, and whoever opens it by that directory is led to its files. Where these are gone, since the
    /// machine was started anew, the first who opens it has the image loaded.
    ///
    /// Killed processes lose nothing, at whatever durability: files in memory outlive them, and so does the
    /// memory of a [shared](Builder::shared) environment. What is lost with the memory is what was committed
    /// after the last [`Env::flush_image`]. Images are written by that, and by `sablecat volume flush` and
    /// `sablecat volume guard`; not by closing the environment. A library takes no signals: a program that is
    /// told that power fails calls it.
    ///
    /// An environment that is there already must be closed, and becomes the first image. One in memory has no
    /// other volumes and no journal, and is no Data Store. To have it on the disk again, flush it, close it,
    /// and remove the directory in memory and the file `sablecat.memory` beside the image.
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

    /// Says in which volume, `main` included, something is placed. The environment remembers it; the same
    /// place may be given another volume later on.
    ///
    /// Rules count for what is placed from then on. *Databases* go where the rule for the whole name says, or
    /// else that for the longest beginning of it, when they are created, and stay there. *Records* are placed
    /// by the longest prefix of 1 to 48 bytes that their keys begin with: leaf pages that can hold no other
    /// keys are in that volume, from the next time on that they are split or merged, and long values from the
    /// next time on that they are written. Inner pages, and the leaves at the edges of a prefix, which hold
    /// other keys as well, are where the database is. In a database with a comparator, and in a hash table,
    /// rules for keys mean nothing. The rules for keys go by the name that a database has when it is opened.
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

    /// How databases are arranged that are made from now on and are not asked for as something else: see
    /// [`Env::database_as`]. Those with a comparator are B+trees in any case. Default: as B+trees.
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

    /// Registers an order of keys under a name, for [`Env::database_ordered_by`]. The name is kept with each
    /// database so ordered; the function must be given again, and be the same, whenever the environment is
    /// opened.
    pub fn comparator(
        mut self,
        name: &str,
        compare: impl Fn(&[u8], &[u8]) -> Ordering + Send + Sync + 'static,
    ) -> Self {
        let comparator = Comparator::new(name, compare);
        self.config.comparators.insert(name.to_owned(), Arc::new(comparator));
        self
    }

    /// Registers, under a name, what says which keys a record has in an [`Index`](super::Index): none, one or
    /// many. It is given the record's key and value. The name is kept with each index that is made with it;
    /// the function must be given again, and say the same of the same record, whenever the environment is
    /// opened. A process that does not give it can read everything and not write to the index's primary
    /// database.
    ///
    /// It is called with no lock held, and may panic: then the record was not changed.
    pub fn extractor(
        mut self,
        name: &str,
        extract: impl Fn(&[u8], &[u8], &mut IndexKeys) + Send + Sync + 'static,
    ) -> Self {
        let extractor = Arc::new(Extractor(Box::new(extract)));
        Arc::make_mut(&mut self.config.functions).extractors.insert(name.to_owned(), extractor);
        self
    }

    /// Registers, under a name, what says which value a record has from the removal of another on, to which
    /// it referred: see [`OnRemove::Nullify`](crate::OnRemove::Nullify). It is given the record's key, its
    /// value, and the key of the record that is removed. It must be given again as an extractor is.
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
    /// `InUse` if it is open already, or open in a way that this process cannot join; `Poisoned` if it is
    /// open and must be closed everywhere first; `NotFound` if there is none and [`Builder::create`] is off;
    /// `Corruption` if what is on disk is damaged; `Invalid` for settings that make no sense; `NotFound` and
    /// `Invalid` if a volume is not where it should be, or not itself; `Exists` if another file is where a
    /// new volume is to be made; `ReadOnly` if its files cannot be written and can be read; `Io` and
    /// `DiskFull` from the operating system.
    pub fn open(self, directory: impl AsRef<Path>) -> Result<Env> {
        env::open(directory.as_ref(), self.config, Mode::Transactional).map(Env::new)
    }

    /// What the environment in a directory has kept to go back to. Reads superblocks and names of files, and
    /// changes nothing; others may have the environment open.
    ///
    /// # Errors
    /// `NotFound` if there is no environment; `Corruption` if its superblocks or the header of a log segment
    /// are damaged; `Io`.
    pub fn history(self, directory: impl AsRef<Path>) -> Result<History> {
        env::history(directory.as_ref(), &self.config)
    }

    /// Looks at the processes that share the environment in a directory, and at what they hold, from outside:
    /// as [`Env::processes`] and [`Env::locks`] do, but without joining them. It never waits, not even for a
    /// process that was stopped while it was joining, and changes nothing; the environment's files and its
    /// shared memory need only be readable.
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
    /// `NotFound` if there is no environment; `InUse` if a process has it for itself alone; `Invalid` if its
    /// shared memory is of another build; `Io`.
    pub fn activity(self, directory: impl AsRef<Path>) -> Result<Activity> {
        env::activity(directory.as_ref(), &self.config)
    }

    /// Looks at what those who share the environment in a directory have done, from outside:
    /// [`Env::counters`], without becoming one of them. None if nobody has it open. Waits for nobody and
    /// changes nothing, as [`Builder::activity`] does.
    ///
    /// # Errors
    /// As of [`Builder::activity`].
    pub fn counters(self, directory: impl AsRef<Path>) -> Result<Option<Counters>> {
        env::counters(directory.as_ref(), &self.config)
    }

    /// Prepares to take the environment in a directory back to an earlier state: to the newest epoch at or
    /// before the target, and from there forwards over the log. Keeps everybody else out until the answer is
    /// dropped, and changes no record: [`Recovery::plan`] says what would be replayed and what lost,
    /// [`Recovery::apply`] does it. Commits that only the memory of killed processes holds are brought to the
    /// log's files first.
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
    /// `InUse` if somebody has it open; `NotFound` if there is no environment, no such epoch, none before the
    /// target, or nothing as late as the target; `Invalid` if it keeps no journal; `Corruption` if the log up
    /// to the target is damaged or a file of it is missing, naming it.
    pub fn recovery(self, directory: impl AsRef<Path>, target: Target) -> Result<Recovery> {
        env::prepare_recovery(directory.as_ref(), self.config, target)
    }

    /// An environment in memory alone. It ends with its last handle. Commits have the durability of
    /// [`Durability::Memory`], whatever is asked for.
    ///
    /// # Errors
    /// `Invalid` for settings that make no sense; `MemoryFull` if the address space cannot be had.
    pub fn in_memory(self) -> Result<Env> {
        env::in_memory(self.config, Mode::Transactional).map(Env::new)
    }

    /// Opens an environment as a Data Store: no log, no transactions, one handle. Closed, it may be opened
    /// with transactions the next time.
    ///
    /// # Errors
    /// As [`Builder::open`]; also `Invalid` if the environment was last used with transactions and not
    /// closed: then open it once that way.
    pub fn open_data_store(self, directory: impl AsRef<Path>) -> Result<DataStore> {
        env::open(directory.as_ref(), self.config, Mode::DataStore).map(DataStore::new)
    }

    /// A Data Store in memory alone.
    ///
    /// # Errors
    /// As [`Builder::in_memory`].
    pub fn data_store_in_memory(self) -> Result<DataStore> {
        env::in_memory(self.config, Mode::DataStore).map(DataStore::new)
    }
}
