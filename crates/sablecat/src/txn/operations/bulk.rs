//! Bulk loading in a transaction: pages are built directly and published as they fill, unreachable; the last
//! commit publishes the root.
//!
//! The records come from the caller's iterator, which may take its time and do with the environment what it
//! likes. So some are drawn while nothing is held, neither a latch nor a snapshot; then pages are made of
//! them and published, which takes moments; and so on. The tree's structure latch is taken at the very end,
//! for the root. Nobody knows the pages before that, so nothing can come between but a change of the tree
//! itself. It is found when the next pages are published, at the latest with the latch held, and then the
//! load has failed.
//!
//! What was loaded is in the log as one large write set, so that it is as durable as any commit and recovery
//! replays it. When loading fails, or the caller's iterator panics, the pages published so far are freed.
//! When the process dies meanwhile, they stay in use until they are looked for (unreachable.rs).

use std::ops::Bound;

use super::Kernel;
use crate::access::{InOrder, Load, PageRead, PageWrite, Scan, long};
use crate::error::{Error, Result};
use crate::log::{self, RecordBuilder};
use crate::pages::{LocalParticipant, PageRun, header};
use crate::txn::catalog::TreeRef;
use crate::txn::commit::changes::ChangedPages;
use crate::txn::commit::publish::{self, filler};
use crate::txn::options::{Durability, Isolation, Options};
use crate::txn::refusals::conflict;
use crate::txn::refusals::{not_empty, removed};
use crate::txn::state::CommittedState;
use crate::txn::transactions::Transaction;
use crate::txn::trees::chunks::ChainHold;
use crate::types::{FrameId, Lsn, PageId, TreeId, VolumeId};

/// Pages published together.
const PAGES_AT_ONCE: usize = 64;

/// Some of the records of a load.
type RecordsDrawn<'r> = [(&'r [u8], &'r [u8])];

/// Draws the next records of a load, and has them taken. False if there were no more.
type Next<'a> = dyn FnMut(&mut dyn FnMut(&RecordsDrawn<'_>) -> Result<()>) -> Result<bool> + 'a;

impl Kernel {
    /// Loads records that come in ascending order into an empty tree: one commit. Returns how many there
    /// were.
    pub(crate) fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        tree: &TreeRef,
        records: impl IntoIterator<Item = (K, V)>,
        durability: Durability,
    ) -> Result<u64> {
        // Whether there are more is asked again behind the last.
        let (mut records, mut drawn) = (records.into_iter().fuse(), Vec::new());
        self.load_drawn(tree, durability, &mut |take| {
            draw(&mut records, PAGES_AT_ONCE * self.page_size(), &mut drawn);
            let drawn: Vec<_> = drawn.iter().map(|(key, value)| (key.as_ref(), value.as_ref())).collect();
            take(&drawn)?;
            Ok(!drawn.is_empty())
        })
    }

    /// The same of records that are drawn some at a time.
    fn load_drawn(&self, tree: &TreeRef, durability: Durability, next: &mut Next<'_>) -> Result<u64> {
        if tree.follower.is_some() {
            return self.load_followed(tree, durability, next);
        }
        let seat = self.pages.participants.sit()?;
        let me: &LocalParticipant = &seat;
        // In this order: a process that looks for what nothing leads to sees the slot, or another count than
        // before (unreachable.rs).
        me.slot().begin_load();
        self.pages.count_load();
        let mut loading = Loading {
            kernel: self,
            me,
            tree,
            published: Vec::new(),
            root_born: None,
            large: Vec::new(),
            log: LoadLog::new(self, me, tree),
        };
        let loaded = loading.run(next);
        let undone = if loaded.is_err() { loading.undo() } else { Ok(()) };
        drop(loading);
        let (records, lsn) = loaded?;
        undone?;
        self.settle(lsn, tree.durability(durability), me.number())?;
        Ok(records)
    }

    /// Loads records into an empty tree that somebody follows: by a transaction, which may be of any size.
    fn load_followed(&self, tree: &TreeRef, durability: Durability, next: &mut Next<'_>) -> Result<u64> {
        // That nothing was there has been read, and is validated.
        let options = Options {
            isolation: Isolation::Serializable,
            durability,
            read_only: false,
            patience: self.patience,
        };
        let mut txn = Transaction::begin(self, options)?;
        if txn.next_found(tree, &mut Scan::new(Bound::Unbounded, Bound::Unbounded), true)?.is_some() {
            return Err(not_empty());
        }
        let mut order = InOrder::default();
        let mut take = |drawn: &RecordsDrawn<'_>| {
            for &(key, value) in drawn {
                if tree.tree().loads_in_order() {
                    order.next(tree.tree().order, key)?;
                } else {
                    order.next_of_any(txn.value_len(tree, key)?.is_some())?;
                }
                txn.set(tree, key, Some(value))?;
            }
            Ok(())
        };
        while next(&mut take)? {}
        txn.commit(durability).map(|_| order.count())
    }
}

/// A load in progress. Dropped before its last commit, which a panic brings about, it frees what it has
/// published.
struct Loading<'a> {
    kernel: &'a Kernel,
    me: &'a LocalParticipant,
    tree: &'a TreeRef,
    /// Pages and runs that nothing leads to before the last commit, by their first page, with how many pages
    /// they have.
    published: Vec<(PageId, u64)>,
    /// When the root's version was born that was there when leaves were last said not to be remembered.
    root_born: Option<Lsn>,
    /// Large values whose first pages are not published yet.
    large: Vec<PageRun<'a>>,
    log: LoadLog<'a>,
}

impl<'a> Loading<'a> {
    /// Begins changes over the newest state, which the guard holds: a load's snapshot may be given up.
    fn changes(&self) -> ChangedPages<'a> {
        ChangedPages::at_newest(&self.kernel.pages, self.me)
    }

    fn run(&mut self, next: &mut Next<'_>) -> Result<(u64, Lsn)> {
        let kernel = self.kernel;
        if !self.is_empty()? {
            return Err(not_empty());
        }
        let mut load = self.tree.tree().load(kernel.page_size());
        while next(&mut |mut left| {
            while !left.is_empty() {
                let count = self.take(&mut load, left)?;
                self.log(&left[..count])?;
                left = &left[count..];
            }
            Ok(())
        })? {
            // So that it is not found out only after the last of many records.
            if !self.is_empty()? {
                return Err(filled());
            }
        }
        if self.log.chain.is_some() {
            self.publish_chunks()?;
        }
        let mut record = self.log.finish();
        let done = kernel.patiently_at_newest(self.me, || self.publish_root(load.clone(), &mut record))?;
        self.published.clear();
        Ok(done)
    }

    /// Makes the pages that are left, and publishes them with the root: the load's commit. Says how many
    /// records there were.
    fn publish_root(&mut self, load: Load<'_>, record: &mut RecordBuilder) -> Result<(u64, Lsn)> {
        let kernel = self.kernel;
        let _structure = kernel.hold_structure(std::iter::once(self.tree.id), self.me)?;
        // With the latch held: if the tree is there now, nobody frees it before the latch is given back.
        if !kernel.is_there(self.tree, kernel.pages.guarded(self.me).at(), self.me)? {
            return Err(removed());
        }
        if !self.is_empty()? {
            return Err(filled());
        }
        let mut changes = self.changes();
        let records = load.finish(&mut changes)?;
        // The tree's shape is held, but a commit that needs one leaf alone may have found the root, which was
        // a leaf until now. A load that has loaded nothing may have left it alone.
        if !changes.read_old(self.tree.root, |root| self.tree.tree().is_as_made(root)).unwrap_or(true) {
            return Err(filled());
        }
        let (tree, me, is_published) = (self.tree, self.me, !self.published.is_empty());
        let lsn = publish::publish(&kernel.pages, &kernel.log, changes, record, |_| {
            kernel.check_there(tree, me)?;
            if is_published {
                // Snapshots of since those pages were published are younger than they are, and do not have
                // them.
                kernel.say_rebuilt();
            }
            Ok(())
        })?;
        Ok((records, lsn))
    }

    /// Makes pages of the first of some records, and publishes them. Says how many records those were: the
    /// fewer the longer others keep the cache full.
    fn take(&mut self, load: &mut Load<'_>, drawn: &RecordsDrawn<'_>) -> Result<usize> {
        let mut most = PAGES_AT_ONCE;
        let (taken, count) = self.kernel.patiently_at_newest(self.me, || {
            let taken = self.take_some(load.clone(), drawn, most);
            most = most.div_ceil(2);
            taken
        })?;
        *load = taken;
        Ok(count)
    }

    fn take_some<'t>(
        &mut self,
        mut load: Load<'t>,
        drawn: &RecordsDrawn<'_>,
        most: usize,
    ) -> Result<(Load<'t>, usize)> {
        let kernel = self.kernel;
        // Those of an attempt before this one.
        self.large.clear();
        let (mut changes, mut count) = (self.changes(), 0);
        for &(key, value) in drawn {
            kernel.check_record(self.tree, key, value.len())?;
            let home = self.tree.tree().home.of_key(key);
            load.push(&mut changes, key, value, |changes, within, value| {
                self.store(changes, (within, home), value)
            })?;
            count += 1;
            if changes.items().len() >= most {
                break;
            }
        }
        if !changes.items().is_empty() {
            self.publish(changes, &mut filler())?;
        }
        Ok((load, count))
    }

    /// Adds records to what is logged of the load.
    fn log(&mut self, records: &RecordsDrawn<'_>) -> Result<()> {
        if self.tree.temporary {
            return Ok(());
        }
        for &(key, value) in records {
            self.log.record.begin_put(self.tree.id, key, value.len());
            for part in value.chunks(self.kernel.log.record_bytes_max() / 4) {
                self.log.record.raw(part);
                if self.log.is_full() {
                    self.publish_chunks()?;
                }
            }
            if self.log.is_full() {
                self.publish_chunks()?;
            }
        }
        Ok(())
    }

    /// Whether the tree is as it was made, in the newest state. There are no changes meanwhile, which would
    /// lose their guard.
    fn is_empty(&self) -> Result<bool> {
        let (kernel, me) = (self.kernel, self.me);
        kernel.patiently_at_newest(me, || {
            let newest = kernel.pages.guarded(me);
            CommittedState { states: kernel, me, at: newest.at() }
                .read(self.tree.root, |root| self.tree.tree().is_as_made(root))
        })
    }

    /// Stores a long value in pages of its own, past the pool if it is large, and says which is the first.
    fn store(
        &mut self,
        changes: &mut ChangedPages<'a>,
        (within, home): (TreeId, VolumeId),
        value: &[u8],
    ) -> Result<PageId> {
        if !self.kernel.is_large(value.len()) {
            return long::store(changes, (within, home), value);
        }
        let run = self.kernel.store_large(self.me, (within, home), value)?;
        let first = changes.add_run(&run, within, value);
        self.large.push(run);
        first
    }

    /// Publishes the pages made so far under `record`.
    fn publish(&mut self, changes: ChangedPages<'a>, record: &mut RecordBuilder) -> Result<()> {
        // A subtree's root is published twice: when it is made, and when it is loaded.
        let made = changes.items().iter().filter(|item| item.old == FrameId::NONE);
        let mut made: Vec<(PageId, u64)> = made.map(|item| (item.page, 1)).collect();
        let (pages, log) = (&self.kernel.pages, &self.kernel.log);
        publish::publish(pages, log, changes, record, |changes| self.be_alone(changes))?;
        for run in self.large.drain(..) {
            made.iter_mut()
                .filter(|(page, _)| *page == run.first())
                .for_each(|(_, count)| *count = run.count());
            run.keep();
        }
        self.published.extend(made);
        Ok(())
    }

    /// In the commit step of a committer that publishes pages that look like leaves of the tree: nobody takes
    /// one of them for a leaf that was there before.
    ///
    /// Up to now the tree has no leaf but its root, and has had none since that was last changed. If that was
    /// after leaves were said not to be remembered, it may have had others in between, which were, and which
    /// the pages have their numbers from.
    fn be_alone(&mut self, changes: &mut ChangedPages<'_>) -> Result<()> {
        changes.guard();
        self.kernel.check_there(self.tree, self.me)?;
        let newest = CommittedState { states: self.kernel, me: self.me, at: self.kernel.pages.newest() };
        let (is_as_made, born) =
            newest.read(self.tree.root, |root| (self.tree.tree().is_as_made(root), header::born(root)))?;
        if !is_as_made {
            return Err(filled());
        }
        if self.root_born.replace(born) != Some(born) {
            self.kernel.forget_leaves();
        }
        Ok(())
    }

    /// Logs what has gathered in chunks.
    fn publish_chunks(&mut self) -> Result<()> {
        let kernel = self.kernel;
        let (chain, body) = self.log.take();
        let mut record = RecordBuilder::new();
        for bytes in body.chunks(kernel.log.record_bytes_max() / 2) {
            record.chunk(chain, bytes);
            kernel.patiently_at_newest(self.me, || self.publish(self.changes(), &mut record))?;
            self.log.chunks += 1;
            self.log.bytes += bytes.len() as u64;
        }
        Ok(())
    }

    /// Frees what was published, some pages at a time: where a load has filled memory there are only the
    /// frames that are kept for commits that only remove.
    fn undo(&mut self) -> Result<()> {
        let kernel = self.kernel;
        let most = kernel.changed_at_once();
        while !self.published.is_empty() {
            let from = self.published.len().saturating_sub(most);
            kernel.patiently_at_newest(self.me, || {
                let mut changes = self.changes();
                changes.only_remove();
                self.published[from..]
                    .iter()
                    .try_for_each(|&(first, count)| changes.free_run(first, count))?;
                publish::publish(&kernel.pages, &kernel.log, changes, &mut filler(), |_| Ok(()))
            })?;
            self.published.truncate(from);
        }
        Ok(())
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        // What this cannot free is found by the search for what nothing leads to.
        let _ = self.undo();
        self.me.slot().end_load();
    }
}

/// Draws records for as many bytes, one at least unless there is none.
fn draw<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    records: &mut impl Iterator<Item = (K, V)>,
    bytes: usize,
    drawn: &mut Vec<(K, V)>,
) {
    drawn.clear();
    let mut have = 0;
    while have < bytes
        && let Some((key, value)) = records.next()
    {
        have += size_of::<(K, V)>() + key.as_ref().len() + value.as_ref().len();
        drawn.push((key, value));
    }
}

#[cold]
fn filled() -> Error {
    conflict(
        "another transaction inserted into the database while it was being loaded; clear it, or load a new \
         one",
    )
}

/// The log's side of a load: its records, to be logged in chunks when they are many.
struct LoadLog<'a> {
    kernel: &'a Kernel,
    me: &'a LocalParticipant,
    record: RecordBuilder,
    chain: Option<(u64, ChainHold<'a>)>,
    chunks: u64,
    bytes: u64,
}

impl<'a> LoadLog<'a> {
    fn new(kernel: &'a Kernel, me: &'a LocalParticipant, tree: &TreeRef) -> LoadLog<'a> {
        let mut record = RecordBuilder::new();
        record.begin(tree.record_kind());
        LoadLog { kernel, me, record, chain: None, chunks: 0, bytes: 0 }
    }

    fn is_full(&self) -> bool {
        self.record.len() > self.kernel.log.record_bytes_max() / 2
    }

    /// Takes what has gathered, to be logged as part of the chain.
    fn take(&mut self) -> (u64, Vec<u8>) {
        let body = self.record.body().to_vec();
        self.record.begin(log::RecordKind::Commit);
        let (log, me) = (&self.kernel.log, self.me);
        let (chain, _) = self.chain.get_or_insert_with(|| {
            let hold = ChainHold::begin(me, log.tail());
            (log.new_chain(), hold)
        });
        (*chain, body)
    }

    /// The record that commits the load.
    fn finish(&mut self) -> RecordBuilder {
        match self.chain {
            Some((chain, _)) => self.record.commit_chunked(chain, self.chunks, self.bytes),
            None => self.record.finish_body(),
        }
        std::mem::replace(&mut self.record, RecordBuilder::new())
    }
}
