//! One transaction: a snapshot, what it would change, what it has seen.
//!
//! It runs privately: nothing shared is touched before it commits, and dropping it drops everything. Until
//! then it holds a seat; its pin keeps its snapshot.
//!
//! What it sees of records is told in seeing.rs.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{self, AtomicU64};

use super::Transactions;
use super::known_queues::Queues;
use super::passed_over::PassedOver;
use crate::access::{StateId, Tried};
use crate::error::{Error, ErrorKind, Result};
use crate::log::RecordBuilder;
use crate::pages::{LocalParticipant, PinnedSeat};
use crate::region::HeldRole;
use crate::seldom::Seldom;
use crate::txn::catalog::{CATALOG, CatalogEntry, TreeRef};
use crate::txn::commit::changes::ChangedPages;
use crate::txn::commit::publish;
use crate::txn::commit::scratch::ScratchRecord;
use crate::txn::locks::{HeldLocks, LockMode, record_hash};
use crate::txn::options::{Durability, Isolation, Options};
use crate::txn::pending::savepoints::Position;
use crate::txn::pending::write_set::{Becomes, NewValue, PendingRecords, WriteSet};
use crate::txn::refusals::{conflict, count_conflict};
use crate::txn::seen::claims::Claims;
use crate::txn::seen::reads::ReadSet;
use crate::txn::trees::apply::WriteCheck;
use crate::types::{Content, Lsn, TreeId};

/// Write sets with more records than this are applied with the structure latches from the start: some leaf
/// will be full.
const SHAPE_FIRST: usize = 64;

/// Numbers of runs of transactions.
static RUNS: AtomicU64 = AtomicU64::new(1);

/// What a transaction saw when: the state that it looked at, and how much it had changed.
pub(crate) type Stamp = (StateId, u64);

/// A transaction in progress.
pub(crate) struct Transaction<'k> {
    pub(in crate::txn) transactions: &'k Transactions,
    /// Its seat, with its snapshot.
    pub(in crate::txn) seat: PinnedSeat<'k>,
    pub(in crate::txn) options: Options,
    pub(in crate::txn) writes: WriteSet,
    pub(in crate::txn) reads: RefCell<ReadSet>,
    /// Names that are to change only if they still stand for what they were found to.
    pub(in crate::txn) claims: Claims,
    pub(in crate::txn) held: HeldLocks,
    pub(in crate::txn) passed: Seldom<PassedOver>,
    /// What it knows of the queues that it uses.
    pub(super) queues: Queues,
    /// Counts what was done since the snapshot was taken; 0: it may still be moved.
    pub(in crate::txn) used: Cell<u64>,
    /// An operation is in progress in its seat.
    pub(in crate::txn) busy: Cell<bool>,
    /// Its slot says what it is called.
    pub(super) is_named: Cell<bool>,
    /// The number of this run of it, if it notes what it reads or has set anything; 0: none was asked for. No
    /// other run of a transaction of this process has it.
    pub(in crate::txn) run: Cell<u64>,
    /// Counts what was set and rolled back.
    pub(super) sets: u64,
    /// Holds the serial gate, with which nobody else commits.
    pub(in crate::txn) gate: Seldom<HeldRole<'k>>,
    /// Does not wait for the holder of the gate.
    pub(super) passes_gate: bool,
    /// The list of what its commit has replaced, if it was a large one.
    pub(in crate::txn) replaced: Seldom<CatalogEntry>,
    /// What the content was before it committed, and is since; none: it has changed nothing.
    contents: Cell<Option<[Content; 2]>>,
    /// Its time, by which records have lapsed or not, in milliseconds since 1970; 0: it was not asked for.
    pub(super) time: Cell<u64>,
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("at", &self.at())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.release();
        if self.is_named.get() {
            self.seat.slot().set_name("");
        }
    }
}

impl<'k> Transaction<'k> {
    /// Begins: takes a seat and pins the newest published state.
    #[inline]
    pub(crate) fn begin(transactions: &'k Transactions, options: Options) -> Result<Transaction<'k>> {
        Ok(Self::in_seat(transactions, transactions.pages.sit_pinned_to_read()?, options))
    }

    /// Begins at the snapshot of another transaction, which only reads and lasts longer: see
    /// `Participants::sit_beside`.
    pub(crate) fn begin_beside(
        transactions: &'k Transactions,
        options: Options,
        (slot, at): (u16, Lsn),
    ) -> Result<Transaction<'k>> {
        Ok(Self::in_seat(transactions, transactions.pages.sit_beside(slot, at)?, options))
    }

    /// A transaction in a seat that has pinned its snapshot.
    #[inline(always)]
    fn in_seat(transactions: &'k Transactions, seat: PinnedSeat<'k>, options: Options) -> Transaction<'k> {
        Transaction {
            transactions,
            seat,
            options,
            writes: WriteSet::default(),
            reads: RefCell::new(ReadSet::default()),
            claims: Claims::default(),
            held: HeldLocks::default(),
            passed: Seldom::default(),
            queues: Queues::default(),
            used: Cell::new(0),
            busy: Cell::new(false),
            is_named: Cell::new(false),
            run: Cell::new(0),
            sets: 0,
            gate: Seldom::default(),
            passes_gate: false,
            replaced: Seldom::default(),
            contents: Cell::new(None),
            time: Cell::new(0),
        }
    }

    /// Tells others what it is called, until it ends.
    pub(crate) fn set_name(&self, name: &str) {
        self.is_named.set(true);
        self.seat.slot().set_name(name);
    }

    /// Forgets everything, and the snapshot with it, so that whatever is waited for before
    /// [`Transaction::restart`] keeps no old versions. Record locks are kept, so that the second attempt
    /// finds the records it waited for unchanged.
    pub(crate) fn give_up(&mut self) {
        self.writes = WriteSet::default();
        self.reads.get_mut().clear();
        self.claims.clear();
        self.passed.clear();
        self.queues.clear();
        self.used.set(0);
        self.run.set(0);
        self.time.set(0);
        self.sets += 1;
        self.seat.let_go();
    }

    /// Forgets everything and pins the newest state: the same transaction, to be run again.
    pub(crate) fn restart(&mut self) {
        self.give_up();
        self.seat.renew();
    }

    /// Gives up everything but the snapshot, record locks and the gate too, and says what it has read at it.
    pub(super) fn abandon(&mut self) -> (ReadSet, Lsn) {
        self.release();
        let reads = self.reads.replace(ReadSet::default());
        (self.writes, self.claims) = (WriteSet::default(), Claims::default());
        (reads, self.at())
    }

    /// Lets go of all record locks. A transaction that gave way in a circle must: the circle would stay
    /// closed.
    pub(crate) fn release_locks(&mut self) {
        self.transactions.locks.release_to_retry(self.seat.number(), &mut self.held);
    }

    fn release(&mut self) {
        self.gate.clear();
        self.transactions.locks.release_all(self.seat.number(), &mut self.held);
    }

    /// Its time, by which records have lapsed or not: what the clock says when it first asks, and from then
    /// on the same, until it is run again.
    pub(crate) fn time(&self, clock: impl FnOnce() -> u64) -> u64 {
        if self.time.get() == 0 {
            self.set_time(clock());
        }
        self.time.get()
    }

    /// Gives it a time.
    pub(crate) fn set_time(&self, time: u64) {
        self.time.set(time.max(1));
        self.reads.borrow_mut().time = self.time.get();
    }

    /// The snapshot's LSN.
    pub(crate) fn at(&self) -> Lsn {
        self.seat.at()
    }

    /// What tells the state that it looks at from others: leaves that were copied from another may not be
    /// used in this one. A transaction that notes what it reads has to see each leaf itself, and what a
    /// transaction has set no other has; for all others the snapshot says everything.
    pub(in crate::txn) fn state(&self, at: Lsn) -> StateId {
        if (self.tracks_reads() || self.sets > 0) && self.run.get() == 0 {
            // Relaxed: the numbers need only differ.
            self.run.set(RUNS.fetch_add(1, atomic::Ordering::Relaxed));
        }
        (self.run.get(), at)
    }

    /// Says which of several states with one LSN it looks at: records may be changed in place.
    pub(crate) fn set_state(&self, run: u64) {
        self.run.set(run);
    }

    /// What tells what it sees now from what it sees after others or it itself have changed something. None
    /// if that cannot be told: each look may see another state.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        self.keeps_snapshot().then(|| (self.state(self.at()), self.sets))
    }

    /// Whether all of it is to see that one state.
    pub(crate) fn keeps_snapshot(&self) -> bool {
        self.options.isolation != Isolation::ReadCommitted
    }

    /// The slot it has: no other transaction in progress has that.
    pub(crate) fn number(&self) -> u16 {
        self.seat.number()
    }

    /// An error once the snapshot was given up.
    pub(crate) fn check_snapshot(&self) -> Result<()> {
        self.transactions.pages.at_pin(&self.seat, self.at()).map(drop)?;
        self.transactions.pages.confirm(self.at())
    }

    /// Whether anything of a commit is compared with the snapshot.
    pub(super) fn needs_snapshot(&self) -> bool {
        self.options.isolation == Isolation::Snapshot || !self.reads.borrow().is_empty()
    }

    /// Whether it is compared at the commit what is read from now on, where that is the isolation's; what it
    /// was before.
    pub(crate) fn set_compared(&mut self, is_compared: bool) -> bool {
        let was = self.options.isolation;
        self.options.isolation = match was {
            Isolation::ReadCommitted => was,
            _ if is_compared => Isolation::Serializable,
            _ => Isolation::Snapshot,
        };
        was == Isolation::Serializable
    }

    pub(super) fn tracks_reads(&self) -> bool {
        self.options.isolation == Isolation::Serializable && !self.options.read_only
    }

    /// Locks the record and makes sure that the snapshot sees its newest state.
    pub(crate) fn lock(&mut self, tree: &TreeRef, key: &[u8]) -> Result<()> {
        self.transactions.pages.check_fence()?;
        let me = self.seat.number();
        let hash = record_hash(tree.id, key);
        self.transactions.locks.acquire(
            me,
            hash,
            LockMode::Exclusive,
            self.options.patience,
            &mut self.held,
        )?;
        if self.sees_newest_of(tree, key)? {
            Ok(())
        } else {
            let lost = conflict(
                "a record locked for update had been changed since the transaction began; run the \
                 transaction again",
            );
            Err(count_conflict(lost, &self.seat))
        }
    }

    /// Locks the record if nobody else has it locked. False if somebody has, or if the snapshot does not see
    /// its newest state.
    pub(crate) fn try_lock(&mut self, tree: &TreeRef, key: &[u8]) -> Result<bool> {
        self.try_lock_and(tree, key, |_| Ok(()))
    }

    /// As [`Transaction::try_lock`], `then` being done between the lock and the look at the newest state.
    pub(super) fn try_lock_and(
        &mut self,
        tree: &TreeRef,
        key: &[u8],
        then: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<bool> {
        self.transactions.pages.check_fence()?;
        let hash = record_hash(tree.id, key);
        let is_taken = self.transactions.locks.try_acquire(
            self.seat.number(),
            hash,
            LockMode::Exclusive,
            &mut self.held,
        )?;
        if is_taken {
            then(self)?;
        }
        let is_newest = is_taken && self.sees_newest_of(tree, key)?;
        if !is_newest && self.tracks_reads() {
            self.passed.needed().note(is_taken, hash);
        }
        Ok(is_newest)
    }

    /// Whether it sees the newest state of a record, which it has locked. One that has not been used yet does
    /// from now on.
    fn sees_newest_of(&mut self, tree: &TreeRef, key: &[u8]) -> Result<bool> {
        if self.used.get() == 0 {
            // Nothing was read or written yet: the snapshot may as well be one that sees what the last holder
            // did.
            self.seat.renew();
            return Ok(true);
        }
        if self.options.isolation == Isolation::ReadCommitted || tree.is_new() {
            return Ok(true);
        }
        let me: &LocalParticipant = &self.seat;
        let now = self.transactions.pages.guarded(me);
        let looked = self.transactions.record_is_same(tree, key, (self.at(), self.time.get()), now.at(), me);
        self.note_if_absent(tree, &looked);
        looked
    }

    /// Sets or removes a record. On any error, as when there is no room where much is to go, nothing is set
    /// that was not.
    pub(crate) fn set(&mut self, tree: &TreeRef, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        if self.options.read_only {
            return Err(Error::new(ErrorKind::NotAllowed, "a write in a read-only transaction"));
        }
        match &tree.follower {
            None => self.set_one(tree, key, value),
            Some(follower) => self.set_followed(tree, &**follower, key, value),
        }
    }

    #[inline]
    pub(super) fn set_one(&mut self, tree: &TreeRef, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        // A file that a part of it is in is also that of children made by fork.
        self.transactions.pages.check_fence()?;
        self.transactions.check_record(tree, key, value.map_or(0, <[u8]>::len))?;
        self.used.set(self.used.get() + 1);
        self.sets += 1;
        self.transactions.spill.as_ref().map_or(Ok(()), |place| self.writes.make_room(tree.id, place))?;
        self.writes.set(tree, key, value)
    }

    /// The value of a name's record in the catalog, which may be changed from then on: only if it is the same
    /// when the transaction commits, at any isolation.
    pub(crate) fn claim(&mut self, catalog: &TreeRef, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.get_owned(catalog, key)?;
        if self.pending_in_catalog(key).is_none() {
            self.claims.add(catalog, key, found.as_deref());
        }
        Ok(found)
    }

    /// What a record is to become, if it is to change.
    pub(in crate::txn) fn pending(&self, tree: TreeId, key: &[u8]) -> Result<Option<NewValue<'_>>> {
        let Some(records) = self.writes.records(tree) else { return Ok(None) };
        let found = records.get(key);
        if !matches!(found, Ok(None)) {
            self.transactions.pages.check_fence()?;
        }
        found
    }

    /// What a record of the catalog is to become, if it is to change.
    pub(crate) fn pending_in_catalog(&self, key: &[u8]) -> Option<Becomes<'_>> {
        self.writes.records(CATALOG).and_then(|records| records.get_in_memory(key))
    }

    /// Whether a record of the catalog is to change of which the key begins so.
    pub(crate) fn has_pending_in_catalog(&self, prefix: &[u8]) -> bool {
        self.writes.records(CATALOG).is_some_and(|records| records.has_prefix(prefix))
    }

    /// Whether a record of the catalog is to change.
    #[inline]
    pub(crate) fn changes_catalog(&self) -> bool {
        self.writes.records(CATALOG).is_some_and(|records| records.len() > 0)
    }

    /// The records of the catalog that are to change, in order.
    pub(crate) fn changes_of_catalog(&self) -> impl Iterator<Item = (&[u8], Becomes<'_>)> {
        self.writes.records(CATALOG).into_iter().flat_map(PendingRecords::iter)
    }

    /// The trees of which records are to change.
    pub(crate) fn trees(&self) -> impl Iterator<Item = TreeId> {
        self.transactions.trees_of(&self.writes)
    }

    /// Whether anything is to change. Nothing is once it has been published.
    pub(crate) fn has_changes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Marks this place.
    pub(crate) fn position(&mut self) -> Position {
        self.writes.savepoint()
    }

    /// Undoes what was set since the position was marked. What was read since stays read.
    ///
    /// # Errors
    /// As [`WriteSet::roll_back_to`].
    pub(crate) fn roll_back_to(&mut self, position: Position) -> Result<()> {
        self.sets += 1;
        self.queues.rolled_back();
        // A search that looks at what is committed beyond a range that was removed has to look before the
        // range again.
        self.run.set(0);
        self.writes.roll_back_to(position)
    }

    /// Keeps what was set so far from being rolled back: see [`WriteSet::keep`].
    pub(crate) fn keep(&mut self) -> Option<usize> {
        self.writes.keep()
    }

    /// Ends [`Transaction::keep`], by what that said.
    pub(crate) fn keep_only(&mut self, kept: Option<usize>) {
        self.writes.keep_only(kept);
    }

    /// Has no position any more to roll back to: see [`WriteSet::forget_savepoints`].
    pub(crate) fn forget_positions(&mut self) {
        self.writes.forget_savepoints();
    }

    /// Commits. On success everything is visible to every transaction that begins afterwards, and as durable
    /// as the transaction's rung says. On a conflict nothing happened, and the transaction can be restarted.
    pub(crate) fn commit(&mut self, durability: Durability) -> Result<Lsn> {
        if self.writes.is_empty() {
            return Ok(self.at());
        }
        let (lsn, is_shaped) = match self.publish() {
            Ok(published) => published,
            Err(error) => {
                let reads = self.reads.borrow();
                let trees = self.writes.trees().map(|(tree, _)| tree).chain(reads.trees());
                return Err(count_conflict(self.transactions.explain(error, trees, &self.seat), &self.seat));
            }
        };
        let number = self.number();
        let shaped =
            self.writes.trees().map(|(tree, _)| tree).filter(|tree| is_shaped && tree.tree().has_layers());
        let shaped: Vec<TreeRef> = shaped.cloned().collect();
        // Of what is temporary there is nothing that a flush would keep.
        let durability = if self.writes.is_logged() { durability } else { Durability::Memory };
        self.release();
        self.writes = WriteSet::default();
        let settled = self.transactions.settle(lsn, durability, number);
        if let Some(replaced) = self.replaced.take() {
            // The snapshot still sees it.
            self.seat.let_go();
            self.transactions.free_pages_of(&self.seat, replaced, lsn);
        }
        if !shaped.is_empty() {
            // It would keep what is merged.
            self.seat.let_go();
            shaped.iter().for_each(|tree| self.transactions.structure_changed(tree));
        }
        settled.map(|()| lsn)
    }

    /// What the content was right before it committed, and is since; none if it changed nothing.
    pub(crate) fn contents(&self) -> Option<[Content; 2]> {
        self.contents.get()
    }

    /// Makes the changes visible to everybody, and says whether trees have changed their structure. On any
    /// error nothing happened.
    fn publish(&mut self) -> Result<(Lsn, bool)> {
        self.writes.forget_void()?;
        let me: &LocalParticipant = &self.seat;
        let transactions = self.transactions;
        let large = transactions.store_all_large(me, &self.writes)?;
        // A transaction that holds record locks goes on: the holder of the gate may be waiting for them.
        if self.gate.is_none() && self.held.is_empty() && !self.passes_gate {
            transactions.wait_for_gate(me)?;
        }
        let mut record = ScratchRecord::of(me);
        let chain = transactions.write_record(&self.writes, &mut record, me)?;
        if self.options.isolation == Isolation::ReadCommitted {
            // Storing and logging may have taken long, and no earlier snapshot is to be kept.
            self.seat.renew();
        } else if me.slot().is_revoked() {
            return Err(Error::new(
                ErrorKind::SnapshotTooOld,
                "the transaction's snapshot was given up because the cache was full; run the transaction \
                 again",
            ));
        }
        let at = self.at();
        let time = self.time.get();
        let check = WriteCheck::of(self.options.isolation, (at, time), me);
        let ahead = self.reads.borrow_mut().validate_ahead(transactions, at, me)?;
        let (reads, claims, writes) = (&self.reads, &self.claims, &self.writes);
        let contents = &self.contents;
        let validate = |_: &mut ChangedPages<'_>| {
            // Of a transaction that has read a database, too: its pages may say the same for long after its
            // removal.
            writes.trees().try_for_each(|(tree, _)| transactions.check_there(tree, me))?;
            let mut reads = reads.borrow_mut();
            reads.trees().try_for_each(|tree| transactions.check_readable(tree, me))?;
            // As in `check_there`: nobody else publishes meanwhile.
            let newest = transactions.pages.newest();
            reads.absent().try_for_each(|tree| transactions.check_absent(tree, newest, me))?;
            reads.validate(transactions, at, &ahead, me)?;
            transactions.settle_claims(claims, writes, time, me)
        };
        // Once nothing can get in the way any more.
        let note = || contents.set(Some(transactions.change_content()));
        let leaves = |record: &mut RecordBuilder| {
            let mut changes = transactions.changes_of(writes, ChangedPages::new(&transactions.pages, me, at));
            if transactions.apply_leaves(&mut changes, writes, at, check)? == Tried::Structure {
                return Ok(None);
            }
            let published =
                publish::publish(&transactions.pages, &transactions.log, changes, record, |changes| {
                    writes.trees().try_for_each(|(tree, _)| transactions.check_not_rebuilt(tree.id, at))?;
                    validate(changes).map(|()| note())
                });
            match published {
                Err(error) if error.is_rebuilt() => Ok(None),
                done => done.map(Some),
            }
        };
        let most = transactions.pages_in_place_max(writes);
        let shape = |record: &mut RecordBuilder| {
            let _structure = transactions.hold_structure(transactions.trees_of(writes), me)?;
            let mut changes =
                transactions.changes_of(writes, ChangedPages::at_newest(&transactions.pages, me));
            changes.limit(most);
            // Leaves are latched in key order, and those of a range only when it is removed: so what a write
            // set with ranges changes of single records is looked at in the commit step.
            let (first, last) =
                if writes.has_ranges() { (WriteCheck::None, check) } else { (check, WriteCheck::None) };
            transactions.apply_shape(&mut changes, writes, &large, first)?;
            publish::publish(&transactions.pages, &transactions.log, changes, record, |changes| {
                validate(changes)?;
                transactions.check_writes(writes, last).map(|()| note())
            })
        };
        let small = writes.len() <= SHAPE_FIRST && !writes.has_ranges();
        let done = if small { transactions.patiently(|| leaves(&mut record))? } else { None };
        let is_shaped = done.is_none();
        let done = match done {
            Some(lsn) => Ok(lsn),
            // The pages of what does not fit memory will hardly fit the cache.
            None if writes.is_spilled() => Err(Error::too_many()),
            None => transactions.patiently(|| shape(&mut record)),
        };
        let lsn = match done {
            Err(error) if error.is_too_many() => {
                if !self.needs_snapshot() {
                    // It would keep what others replace meanwhile.
                    self.seat.let_go();
                }
                let validate = |changes: &mut ChangedPages<'_>| validate(changes).map(|()| note());
                let switched =
                    transactions.commit_beside(me, (writes, large), check, &mut record, validate)?;
                self.replaced.put(Some(switched.replaced));
                switched.lsn
            }
            done => {
                let lsn = done?;
                large.keep();
                lsn
            }
        };
        drop(record);
        drop(chain);
        Ok((lsn, is_shaped))
    }
}
