//! Transactions: private until they commit, published in one step.
//!
//! ```text
//! transaction.rs  a snapshot, a write set, the reads to be validated
//! seeing.rs       what it sees of records
//! merged.rs       its state as a scan sees it: the snapshot with what is pending
//! gate.rs         having the environment to oneself
//! write_set.rs    what a transaction would change, in key order, with savepoints
//! ranges.rs       ranges of keys that it would remove
//! remove_range.rs removing a range
//! savepoints.rs   what they were before
//! runs.rs         what of that does not stay in memory
//! reads.rs        what it has seen, and whether that still stands
//! committed.rs    the state at one LSN
//! apply.rs        prepare: latch the leaves in key order, build their new versions, split and merge
//! beside.rs       commits larger than the cache: built beside what there is, switched to at the roots
//! copy.rs         the writer for that, which copies what it changes
//! listed.rs       lists of the pages that it makes and replaces
//! recent.rs       which pages are published while somebody validates
//! rebuilt.rs      who may change a tree meanwhile, and what still holds of where its leaves were
//! large.rs        values too large for the pool, stored before the commit
//! direct.rs       writing in place, for who is alone
//! changes.rs      the latched pages and new versions of one commit
//! publish.rs      the commit step, and helping
//! catalog.rs      which databases there are
//! entry.rs        what the catalog says of each
//! presence.rs     whether a database is still there
//! meaning.rs      what the operations of the log mean
//! waiting.rs      sleeping until something that it has read changes
//! claims.rs       records that a transaction means to change, as it found them
//! follow.rs       who follows the records of a database, as an index does
//! followed.rs     changes of such records in a transaction
//! relation.rs     what the catalog says of indices
//! pairs.rs        an index key and a key in one, sorted by both
//! chunks.rs       logging a write set, however large
//! trees.rs        making and unmaking whole trees
//! estimate.rs     how large a tree is, about
//! unreachable.rs  finding and freeing pages that nothing leads to
//! finding.rs      the page that covers a key, and what it says of it
//! single.rs       one-record commits without a write set
//! bulk.rs         loading an empty tree
//! scratch.rs      the record in the making
//! locks/          record locks, and locks by name
//! locker.rs       who holds those by name
//! ```

mod apply;
mod beside;
mod bulk;
pub(crate) mod catalog;
mod changes;
mod chunks;
mod claims;
mod committed;
mod copy;
mod direct;
mod entry;
mod estimate;
mod finding;
mod follow;
mod followed;
mod gate;
mod holds;
mod large;
pub(crate) mod listed;
mod locker;
pub(crate) mod locks;
mod meaning;
mod merged;
mod notes;
pub(crate) mod pairs;
mod presence;
mod publish;
pub(crate) mod queue;
pub(crate) mod ranges;
mod ranks;
mod reads;
mod reap;
mod rebuilt;
mod recent;
pub(crate) mod relation;
mod remove_range;
mod run_file;
pub(crate) mod runs;
mod savepoints;
mod scratch;
mod seeing;
mod short;
mod single;
#[cfg(test)]
mod tests;
mod transaction;
mod trees;
mod unreachable;
mod waiting;
mod write_set;

use chunks::ChainHold;
pub(crate) use committed::Committed;
pub(crate) use direct::Direct;
pub(crate) use follow::{Also, Follow, Progress, Records, View, With, change as change_followed, not_empty};
pub use holds::{Duplicates, Holds};
pub(crate) use locker::Locker;
pub use locks::DeadlockPolicy;
pub(crate) use meaning::Meaning;
pub(crate) use presence::{Known, Looked, Presence, State};
pub use relation::{IndexInfo, OnRemove};
pub(crate) use savepoints::Position;
pub(crate) use single::RecordChange;
pub(crate) use transaction::{Options, Stamp, Transaction};

use std::time::Duration;

use crate::access::hash::Hashing;
use crate::access::{Home, KeyRule, Method, Order, Tree};
use crate::error::{Error, ErrorKind, Result};
use crate::log::{Caller, Log};
use crate::pages::{Bell, Pages, Participant};
use crate::region::{Counted, Work};
use crate::trace::{self, Happened};
use crate::types::{Lsn, PageId, TreeId, VolumeId};

/// What becomes of a commit when the process or the machine stops right after it returned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Durability {
    /// Nothing is promised: a crash may go back to the last checkpoint.
    Memory,
    /// The log is written when its buffer is half full and every flush interval: a crash may lose that much.
    NoSync,
    /// The record is with the operating system when the commit returns: lost only if that crashes too.
    WriteNoSync,
    /// The record is on stable storage when the commit returns. Commits that wait together share one flush.
    Sync,
}

/// What a transaction is protected from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Isolation {
    /// Each operation sees the newest committed state.
    ReadCommitted,
    /// All reads see one state; of two transactions that change the same record, the second to commit gets a
    /// conflict.
    Snapshot,
    /// As if transactions ran one after the other.
    Serializable,
}

/// A tree's identity, as the process remembers it.
#[derive(Clone)]
pub(crate) struct TreeRef {
    pub(crate) id: TreeId,
    pub(crate) root: PageId,
    /// How its records are arranged.
    pub(crate) method: Method,
    pub(crate) comparator: Option<std::sync::Arc<Comparator>>,
    /// The volume of its pages.
    pub(crate) volume: VolumeId,
    /// Which of its records go elsewhere; none: none.
    pub(crate) keys: Option<std::sync::Arc<[KeyRule]>>,
    /// Whether it is still a database's; none: nobody can take it away.
    pub(crate) presence: Option<std::sync::Arc<Presence>>,
    /// Who follows its records; none: nobody.
    pub(crate) follower: Option<std::sync::Arc<dyn Follow>>,
}

/// A user's order of keys, by the name that the catalog remembers it under; or that of a hash table.
pub(crate) struct Comparator {
    pub(crate) name: String,
    pub(crate) compare: CompareFn,
    /// It is none of a user's, but that of a hash table.
    pub(crate) hashing: Option<Hashing>,
}

impl Comparator {
    /// A user's.
    pub(crate) fn new(
        name: &str,
        compare: impl Fn(&[u8], &[u8]) -> std::cmp::Ordering + Send + Sync + 'static,
    ) -> Comparator {
        Comparator { name: name.to_owned(), compare: Box::new(compare), hashing: None }
    }

    /// The order of a hash table.
    pub(crate) fn by_hash(hashing: Hashing) -> Comparator {
        let compare = move |one: &[u8], other: &[u8]| hashing.compare(one, other);
        Comparator { hashing: Some(hashing), ..Comparator::new("", compare) }
    }
}

/// A user's order of keys.
pub(crate) type CompareFn = Box<dyn Fn(&[u8], &[u8]) -> std::cmp::Ordering + Send + Sync>;

impl std::fmt::Debug for Comparator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Comparator").field("name", &self.name).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for TreeRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TreeRef").field("id", &self.id).field("root", &self.root).finish_non_exhaustive()
    }
}

impl TreeRef {
    /// The tree as the access methods want it.
    #[inline]
    pub(crate) fn tree(&self) -> Tree<'_> {
        let order = match &self.comparator {
            Some(comparator) => match &comparator.hashing {
                Some(hashing) => Order::Hashed(hashing),
                None => Order::Custom(&*comparator.compare),
            },
            None => Order::Bytes,
        };
        let home = Home { volume: self.volume, keys: self.keys.as_deref().unwrap_or_default() };
        Tree { id: self.id, root: self.root, method: self.method, order, home }
    }

    /// Whether a transaction in progress is making it: then it has nothing but what is pending there.
    #[inline]
    fn is_new(&self) -> bool {
        self.presence.as_ref().is_some_and(|presence| matches!(presence.state(), State::New(_)))
    }

    /// Whether it was found to be no database's any more.
    #[cold]
    fn is_gone(&self) -> bool {
        self.presence.as_ref().is_some_and(|presence| presence.state() == State::Gone)
    }
}

/// How often an operation that finds no room begins anew, its latches released, before it gives up; and how
/// long it pauses the first time, twice as long each time after, unless there is a checkpoint to wait for.
const TRIES_FOR_ROOM: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// Pages and log together: what transactions run on.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) pages: Pages,
    pub(crate) log: Log,
    pub(crate) locks: locks::LockTable,
    /// Rung when the log wants housekeeping.
    pub(crate) bell: std::sync::Arc<Bell>,
    /// How long to wait for a record lock or the serial gate.
    pub(crate) patience: Duration,
    /// Where write sets go that are too large for memory; none: they stay there.
    pub(crate) spill: Option<runs::Place>,
    /// What large commits of this process have left and could not free yet.
    pub(crate) unfreed: listed::Unfreed,
    /// For how long another has been mending what the dead left.
    pub(crate) reaper: crate::region::Watch,
}

impl Kernel {
    /// Runs `work`, which holds no latch when it returns, and again when others, who may have waited for its
    /// latches, kept the cache full under it.
    #[inline]
    pub(crate) fn patiently<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let mut tries = 1;
        loop {
            match work() {
                Err(error) if error.is_no_room() && tries < TRIES_FOR_ROOM => {
                    if !self.pages.wait_for_checkpoint() {
                        sablecat_os::atomic::pause(FIRST_PAUSE * (1 << (tries - 1)));
                    }
                    tries += 1;
                }
                result => return result,
            }
        }
    }

    /// Makes the commit at `lsn` as durable as asked.
    #[inline]
    pub(crate) fn settle(&self, lsn: Lsn, durability: Durability, me: u16) -> Result<()> {
        if self.log.wants_drain() || self.log.wants_segment() {
            self.call_keeper();
        }
        match durability {
            Durability::Memory | Durability::NoSync => Ok(()),
            Durability::WriteNoSync => self.log.hand_over(lsn, caller(&self.pages, me)),
            Durability::Sync => self.log.make_durable(lsn, caller(&self.pages, me)),
        }?;
        // The log may be sound when the volume is not; but no checkpoint will ever relieve it.
        if durability < Durability::WriteNoSync { Ok(()) } else { self.pages.fail_if_poisoned() }
    }

    /// Calls this process's housekeeping thread, unless somebody keeps house already, here or in another
    /// process.
    ///
    /// Who is called meanwhile finds the role taken and sleeps again, and every commit would call anew, for
    /// as long as the one at it waits for the disk: with eight processes a sixth of all processor time. What
    /// is still wanted afterwards the next commit calls for; if the one at it is dead, whoever's interval
    /// ends first takes over.
    fn call_keeper(&self) {
        if self.pages.role(Work::Housekeeping).look().owner() == 0 {
            self.bell.ring();
        }
    }

    /// Bytes of a page.
    #[inline]
    pub(crate) fn page_size(&self) -> usize {
        self.pages.page_size()
    }

    /// Refuses keys and values that the tree cannot hold.
    #[inline]
    pub(crate) fn check_record(&self, tree: &TreeRef, key: &[u8], value_len: usize) -> Result<()> {
        check_record(&tree.tree(), self.pages.page_size(), key, value_len)
    }
}

/// Refuses keys and values that a tree of pages of `page_size` bytes cannot hold.
#[inline]
fn check_record(tree: &Tree<'_>, page_size: usize, key: &[u8], value_len: usize) -> Result<()> {
    tree.check_key(page_size, key)?;
    if value_len as u64 > u64::from(u32::MAX) {
        return Err(Error::invalid(format!(
            "a value of {value_len} bytes; values can have 4294967295 at most"
        )));
    }
    Ok(())
}

/// Who calls the log.
#[inline]
pub(crate) fn caller(pages: &Pages, me: u16) -> Caller<'_> {
    Caller::new(me, &**pages.region())
}

/// The error of a transaction that lost to another.
#[cold]
pub(crate) fn conflict(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Conflict, what)
}

/// Counts the error of a transaction, if it is that one.
#[cold]
fn count_conflict(error: Error, me: &Participant) -> Error {
    if error.kind() == ErrorKind::Conflict {
        me.slot().count(Counted::Conflicts, 1);
        trace::tell(Happened::Conflict(&error));
    }
    error
}
