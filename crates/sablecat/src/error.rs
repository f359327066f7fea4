//! The one error type.
//!
//! A message says what was tried, on what, and what the caller can do; the kind is what programs decide on.
//! Kinds are few and stable.

use std::fmt::{self, Display};
use std::path::Path;

use sablecat_os::truncation::MemoryGone;

use crate::types::PageId;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an error, for programs. [The guide](crate::guide::errors) says what to do about each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A call to the operating system failed.
    Io,
    /// Bytes read back are not what was written: a checksum, a length or an invariant is wrong.
    Corruption,
    /// Another transaction committed a change of what this one had read or written. Run this one again.
    Conflict,
    /// Waiting for a record lock would have ended in a deadlock; this transaction was chosen as the victim.
    /// Run it again.
    Deadlock,
    /// A lock or a latch was not free within the time allowed. Run the transaction again, or allow more time.
    Timeout,
    /// The snapshot was given up, because the old versions that it kept filled the cache; or, in a read-only
    /// environment, because a newer checkpoint has replaced the one that was read. Take a new snapshot.
    SnapshotTooOld,
    /// The disk is full, or the quota or limit of this user or process: make room, and try again.
    DiskFull,
    /// The cache is full of what running operations, snapshots or one large transaction need; in an
    /// environment in memory alone, of records. End snapshots, change less in one transaction, remove what is
    /// not needed, or enlarge the cache.
    CacheFull,
    /// There are too many transactions and operations in progress, record locks or processes at once: end
    /// some, or try again once others have ended.
    TooMany,
    /// The system has no memory, or no address space, for what the environment needs: end programs that take
    /// so much, or use a smaller cache.
    MemoryFull,
    /// The environment is as large as it can be: no numbers are left for pages, blocks or the log. Use
    /// another environment, with larger pages or volumes; or, if this process could not get address space for
    /// all numbers, open the environment again. The message says which.
    Exhausted,
    /// The commit was made and is visible, but could not be written to the system or made durable for now:
    /// the disk is full, or this process has no file descriptor left. Do not commit it again: once there is
    /// room, any sync or later commit makes it durable.
    NotDurable,
    /// An earlier flush or write failed, so the environment cannot be used any more, or the other processes
    /// that share it took this one for dead. Close it and open it again to recover.
    Poisoned,
    /// The log is no longer kept from the LSN where reading was to begin, or does not lead from there to the
    /// present. Begin again with a copy of the present state.
    LogGone,
    /// The environment is in use by another process, or by another handle of this one.
    InUse,
    /// What was named does not exist.
    NotFound,
    /// What was named exists already.
    Exists,
    /// A record would have an index key that another record has already, in a unique index. Nothing was
    /// changed.
    Duplicate,
    /// A record would refer to a record that is not there, or a record that others refer to was to be
    /// removed. Nothing was changed.
    Reference,
    /// The environment is encrypted, and no key or a wrong key was given; or a key was given for an
    /// environment that is not encrypted; or what was given is not a key.
    EncryptionKey,
    /// The call itself is wrong: for example an argument out of range, or a handle of another environment.
    Invalid,
    /// The operation is not allowed here: for example a write in a read-only transaction.
    NotAllowed,
    /// Nothing can be written: the environment was opened read-only, or the permissions of its files allow
    /// only reading.
    ReadOnly,
}

/// The error of every operation: a kind for programs, and a sentence for people. Its `Debug`, which is
/// printed when `main` returns it, shows both.
pub struct Error(Box<ErrorDetails>);

/// All that an error says, behind a pointer: so that results are small, and come back in registers.
struct ErrorDetails {
    kind: ErrorKind,
    signal: Signal,
    message: String,
    source: Option<std::io::Error>,
}

const _: () = assert!(size_of::<Result<()>>() == size_of::<usize>());

/// What an error means inside the engine, which answers these itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Signal {
    None,
    /// An operation ran out of frames: leave it, sweep, run it again.
    OutOfFrames,
    /// The cache is full of what a checkpoint in progress or other operations need: wait for the checkpoint,
    /// run it again.
    NoRoom,
    /// A page has no version at the snapshot: at a tree's root, because the tree is younger; elsewhere,
    /// corruption.
    NotThere,
    /// A flush of the volume failed, or the write of a superblock: what is on the disk is not known.
    InDoubt,
    /// A commit changes more pages than it may keep in the cache: build them beside the old ones.
    TooMany,
    /// Another took over the making of checkpoints, or ended what this one was about to write: begin anew.
    Succeeded,
    /// A tree was, or is being, built anew since its pages were looked for: look again under its structure
    /// latch.
    Rebuilt,
    /// A tree is arranged in a way that this build does not know: leave it as it is.
    NotKnown,
    /// A database has other indices than the transaction that writes to it knew: look for them, and write
    /// again.
    Changed,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Display) -> Self {
        Error(Box::new(ErrorDetails {
            kind,
            signal: Signal::None,
            message: message.to_string(),
            source: None,
        }))
    }

    fn with_signal(mut self, signal: Signal) -> Self {
        self.0.signal = signal;
        self
    }

    fn with_source(mut self, source: std::io::Error) -> Self {
        self.0.source = Some(source);
        self
    }

    /// Bytes that came back wrong. `what` names the file, page or LSN and the reason.
    pub(crate) fn corruption(what: impl Display) -> Self {
        Self::new(ErrorKind::Corruption, what)
    }

    /// A failed system call: what was tried, on which file.
    pub(crate) fn io(tried: impl Display, path: &Path, source: std::io::Error) -> Self {
        if MemoryGone::is(&source) {
            return Self::cut_short();
        }
        let kind = if is_full(&source) { ErrorKind::DiskFull } else { ErrorKind::Io };
        Self::new(kind, format!("{tried} {}: {source}", path.display())).with_source(source)
    }

    /// Something without a path that failed, a stream of the caller's for one: what was tried.
    pub(crate) fn stream(tried: impl Display, source: std::io::Error) -> Self {
        Self::new(ErrorKind::Io, format!("{tried}: {source}")).with_source(source)
    }

    #[cold]
    pub(crate) fn out_of_frames() -> Self {
        Self::new(ErrorKind::CacheFull, "the cache has no free frame").with_signal(Signal::OutOfFrames)
    }

    /// What a process does that others have taken for dead.
    #[cold]
    pub(crate) fn fenced() -> Self {
        Self::new(
            ErrorKind::Poisoned,
            "this process was taken for dead: its lock, which shows other processes that it is alive, is \
             gone, perhaps because something closed all descriptors; close the environment here and open it \
             again",
        )
    }

    /// What a process does that has found the shared memory cut short.
    #[cold]
    pub(crate) fn cut_short() -> Self {
        Self::new(
            ErrorKind::Poisoned,
            "the file that holds the environment's shared memory was made shorter (truncated) while it was \
             in use, or there was no room for it any more; close the environment everywhere and open it \
             again: what was handed over to the operating system is in its files",
        )
    }

    /// What a child made by fork does with a handle of its parent's.
    #[cold]
    pub(crate) fn inherited() -> Self {
        Self::invalid(
            "this handle was opened by the process that this one was forked from; open the environment \
             again in the child",
        )
    }

    /// A page that something refers to has no version at the snapshot.
    #[cold]
    pub(crate) fn not_there(page: PageId) -> Self {
        Self::corruption(format!("page {page} is named by a tree but is not in use"))
            .with_signal(Signal::NotThere)
    }

    /// A flush of the volume or the write of a superblock failed.
    pub(crate) fn volume_in_doubt(what: impl Display) -> Self {
        Self::new(ErrorKind::Poisoned, what).with_signal(Signal::InDoubt)
    }

    /// A commit changes more pages than it may keep in the cache.
    #[cold]
    pub(crate) fn too_many() -> Self {
        Self::cache_full("the transaction changes more pages than the cache has room for")
            .with_signal(Signal::TooMany)
    }

    /// Something of a tree is not known to this build.
    #[cold]
    pub(crate) fn not_known(what: impl Display) -> Self {
        Self::invalid(what).with_signal(Signal::NotKnown)
    }

    /// A tree was built anew since its pages were looked for.
    #[cold]
    pub(crate) fn rebuilt() -> Self {
        Self::new(
            ErrorKind::Conflict,
            "a large transaction changed the database meanwhile; run this one again",
        )
        .with_signal(Signal::Rebuilt)
    }

    /// A database has got an index, or lost one, since a transaction that writes to it looked.
    #[cold]
    pub(crate) fn changed() -> Self {
        Self::new(
            ErrorKind::Conflict,
            "another transaction created or removed an index of a database, and committed first; run this \
             one again",
        )
        .with_signal(Signal::Changed)
    }

    /// Another took over the making of checkpoints.
    #[cold]
    pub(crate) fn succeeded() -> Self {
        Self::new(ErrorKind::Conflict, "another process has taken over the checkpoint; try again")
            .with_signal(Signal::Succeeded)
    }

    #[cold]
    pub(crate) fn no_room(what: impl Display) -> Self {
        Self::cache_full(what).with_signal(Signal::NoRoom)
    }

    /// A snapshot was given up for want of room.
    #[cold]
    pub(crate) fn given_up() -> Self {
        Self::new(
            ErrorKind::SnapshotTooOld,
            "the snapshot was given up because the old versions it kept filled the cache; begin a new \
             transaction or enlarge the cache",
        )
    }

    /// A reader of the last checkpoint has come upon a newer one.
    #[cold]
    pub(crate) fn newer_checkpoint() -> Self {
        Self::new(
            ErrorKind::SnapshotTooOld,
            "a newer checkpoint has been made, and the blocks of the one that was being read may have been \
             used again; begin a new transaction, which reads the newest",
        )
    }

    /// Whether the system refused because of permissions, or of a file system mounted to be read only.
    pub(crate) fn is_not_permitted(&self) -> bool {
        use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        self.0
            .source
            .as_ref()
            .is_some_and(|source| matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem))
    }

    /// Whether a system call was refused for something that [may pass](sablecat_os::disk::may_pass). Not to
    /// be asked of a failed flush.
    pub(crate) fn may_pass(&self) -> bool {
        self.0.source.as_ref().is_some_and(sablecat_os::disk::may_pass)
    }

    /// Whether a flush of a directory was [not even tried](sablecat_os::disk::is_unopened).
    pub(crate) fn is_untried(&self) -> bool {
        self.0.source.as_ref().is_some_and(sablecat_os::disk::is_unopened)
    }

    /// Whether another took over the making of checkpoints, or ended what this one was about to write.
    pub(crate) fn is_succeeded(&self) -> bool {
        self.0.signal == Signal::Succeeded
    }

    /// What the caller of a commit is told of an error that lost nothing.
    #[cold]
    pub(crate) fn not_durable(mut self) -> Self {
        self.0.message = format!(
            "{self}; what was committed is visible and nothing is lost, but it is not durable yet: remove \
             the cause, and call sync, which tries again"
        );
        self.0.kind = ErrorKind::NotDurable;
        self
    }

    pub(crate) fn is_no_room(&self) -> bool {
        self.0.signal == Signal::NoRoom
    }

    pub(crate) fn is_out_of_frames(&self) -> bool {
        self.0.signal == Signal::OutOfFrames
    }

    pub(crate) fn is_volume_in_doubt(&self) -> bool {
        self.0.signal == Signal::InDoubt
    }

    /// Whether it is about a tree of which this build does not know something.
    pub(crate) fn is_not_known(&self) -> bool {
        self.0.signal == Signal::NotKnown
    }

    /// Whether a database has other indices than the transaction that writes to it knew.
    pub(crate) fn is_changed(&self) -> bool {
        self.0.signal == Signal::Changed
    }

    pub(crate) fn is_too_many(&self) -> bool {
        self.0.signal == Signal::TooMany
    }

    pub(crate) fn is_rebuilt(&self) -> bool {
        self.0.signal == Signal::Rebuilt
    }

    pub(crate) fn is_not_there(&self) -> bool {
        self.0.signal == Signal::NotThere
    }

    pub(crate) fn cache_full(what: impl Display) -> Self {
        Self::new(ErrorKind::CacheFull, what)
    }

    pub(crate) fn too_many_at_once(what: impl Display) -> Self {
        Self::new(ErrorKind::TooMany, what)
    }

    pub(crate) fn memory_full(what: impl Display) -> Self {
        Self::new(ErrorKind::MemoryFull, what)
    }

    pub(crate) fn exhausted(what: impl Display) -> Self {
        Self::new(ErrorKind::Exhausted, what)
    }

    pub(crate) fn invalid(what: impl Display) -> Self {
        Self::new(ErrorKind::Invalid, what)
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// True when running the same transaction again may succeed: a conflict, a deadlock, a timeout, an
    /// outdated snapshot.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.0.kind,
            ErrorKind::Conflict | ErrorKind::Deadlock | ErrorKind::Timeout | ErrorKind::SnapshotTooOld
        )
    }

    /// True when something bounded is full, whatever it is: nothing was changed, and the operation may be
    /// tried again once there is room.
    pub fn is_full(&self) -> bool {
        use ErrorKind::{CacheFull, DiskFull, Exhausted, MemoryFull, TooMany};
        matches!(self.0.kind, DiskFull | CacheFull | TooMany | MemoryFull | Exhausted)
    }

    /// True when stored bytes are damaged.
    pub fn is_corruption(&self) -> bool {
        self.0.kind == ErrorKind::Corruption
    }
}

/// Whether the system has no room, or none for this user or this process.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| e as _)
    }
}

/// For functions that return errors of input and output. The error is within, as
/// [`get_ref`](std::io::Error::get_ref) shows, with its kind and its sentence. Of a failed call to the
/// operating system the kind is that of the call; of other errors it is what comes closest, and
/// [`Other`](std::io::ErrorKind::Other) where nothing does.
///
/// ```
/// use std::io;
///
/// fn stock() -> io::Result<Option<Vec<u8>>> {
///     let env = sablecat::Env::in_memory()?;
///     Ok(env.database("stock")?.get("apples")?)
/// }
///
/// assert_eq!(stock()?, None);
/// let error = io::Error::from(sablecat::Env::open("").unwrap_err());
/// assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
/// # io::Result::Ok(())
/// ```
impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        use std::io::ErrorKind as Io;
        let kind = match error.0.kind {
            // Of other kinds it says what happened, and not what came of that for the caller.
            ErrorKind::Io => error.0.source.as_ref().map_or(Io::Other, std::io::Error::kind),
            ErrorKind::DiskFull => error.0.source.as_ref().map_or(Io::StorageFull, std::io::Error::kind),
            ErrorKind::Corruption => Io::InvalidData,
            ErrorKind::Deadlock => Io::Deadlock,
            ErrorKind::Timeout => Io::TimedOut,
            ErrorKind::MemoryFull => Io::OutOfMemory,
            ErrorKind::InUse => Io::ResourceBusy,
            ErrorKind::NotFound => Io::NotFound,
            ErrorKind::Exists => Io::AlreadyExists,
            ErrorKind::Invalid => Io::InvalidInput,
            ErrorKind::NotAllowed | ErrorKind::EncryptionKey => Io::PermissionDenied,
            ErrorKind::ReadOnly => Io::ReadOnlyFilesystem,
            ErrorKind::Conflict
            | ErrorKind::SnapshotTooOld
            | ErrorKind::CacheFull
            | ErrorKind::TooMany
            | ErrorKind::Exhausted
            | ErrorKind::NotDurable
            | ErrorKind::Poisoned
            | ErrorKind::LogGone
            | ErrorKind::Duplicate
            | ErrorKind::Reference => Io::Other,
        };
        std::io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_that_is_used_up_is_a_full_disk() {
        for kind in [std::io::ErrorKind::StorageFull, std::io::ErrorKind::QuotaExceeded] {
            assert_eq!(Error::io("writing", Path::new("volume"), kind.into()).kind(), ErrorKind::DiskFull);
        }
    }
    #[test]
    fn an_error_is_one_of_input_and_output_with_what_it_says() {
        use std::io::ErrorKind as Io;
        let is = |error: Error| {
            let (kind, message) = (error.kind(), error.to_string());
            let io = std::io::Error::from(error);
            assert_eq!(io.to_string(), message);
            let within = io.get_ref().and_then(|within| within.downcast_ref::<Error>());
            assert_eq!(within.map(Error::kind), Some(kind));
            io.kind()
        };
        let of_call = |call: Io| Error::io("writing", Path::new("volume"), call.into());
        assert_eq!(is(of_call(Io::PermissionDenied)), Io::PermissionDenied);
        assert_eq!(is(of_call(Io::QuotaExceeded)), Io::QuotaExceeded);
        assert_eq!(is(of_call(Io::StorageFull).not_durable()), Io::Other, "a full disk, but not a write");
        assert_eq!(is(Error::new(ErrorKind::DiskFull, "no room")), Io::StorageFull);
        assert_eq!(is(Error::corruption("a page")), Io::InvalidData);
        assert_eq!(is(Error::rebuilt()), Io::Other);
    }
}
