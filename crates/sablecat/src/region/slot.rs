//! Participant slots: what each operation or transaction in progress has announced.
//!
//! A slot is written by its owner alone, except for `revoked` (set by a sweep that needs the room) and what
//! menders end of the dead's. Everything in it that others act upon is written before the act it announces,
//! so that a finder of a dead owner's slot knows all that may be half done.
//!
//! Whose it is one word says, by compare-and-swap only: {taking 45 | mended 1 | dead 1 | member and one 17}.
//! Each taking has another number; so a participant that acts upon a tenant that it saw a while ago finds
//! that there is another.

use sablecat_os::atomic::{AtomicU32, AtomicU64, Ordering, fence_behind_swap};

use super::WaitQueue;
use super::label::Label;
use crate::types::{Berth, FrameId, Lsn, PageId};

/// Items of the publish list kept in the slot itself.
pub(crate) const SLOT_LIST_INLINE: usize = 20;
/// `epoch` of a slot that is in no operation.
pub(crate) const NO_EPOCH: u64 = u64::MAX;
const NO_PIN: u64 = u64::MAX;
/// `looked_at` of a slot whose operation may be looking at any frame.
pub(crate) const ANY_FRAME: FrameId = FrameId(u32::MAX);

/// Where a participant is in the commit step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Not past the commit point, or finished.
    Idle,
    /// The record is in the ring and `commit` says its end: committed as soon as the tail reaches it.
    Committing,
}

/// How many commits the owners of a slot have begun and ended, as seen at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CommitCount(u64);

/// One change of a commit: this page's current version goes from `old` to `new`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ListItem {
    pub(crate) page: PageId,
    pub(crate) old: FrameId,
    pub(crate) new: FrameId,
}

#[repr(C)]
#[derive(Debug)]
struct ListWords {
    page: AtomicU32,
    old: AtomicU32,
    new: AtomicU32,
}

/// The tenant of a slot, as seen at one moment: a member, and which of all its takings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tenant(u64);

impl Tenant {
    const MEMBER: u64 = (1 << 17) - 1;
    const DEAD: u64 = 1 << 17;
    const MENDED: u64 = 1 << 18;
    const TAKING: u64 = 1 << 19;

    /// Whose participant it is; none if the slot is free.
    pub(crate) fn member(self) -> Option<u16> {
        // A number that no member can have stays one.
        (self.0 & Self::MEMBER).checked_sub(1).map(|member| u16::try_from(member).unwrap_or(u16::MAX))
    }

    /// Whether it has been found dead: then it gives back nothing itself, should it live.
    fn is_dead(self) -> bool {
        self.0 & Self::DEAD != 0
    }

    /// Whether all that it left has been mended.
    pub(crate) fn is_mended(self) -> bool {
        self.0 & Self::MENDED != 0
    }

    fn next(self, member: u16) -> Tenant {
        Tenant((self.0 & !(Self::TAKING - 1)).wrapping_add(Self::TAKING) | (u64::from(member) + 1))
    }
}

/// What participants count, beside their commits and the pages that they find in the cache: rare enough to be
/// on lines of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SlotCounter {
    /// Pages that were not in the cache, and were read in.
    Misses,
    /// Transactions that met a conflict.
    Conflicts,
    /// Snapshots given up for want of cache.
    GivenUp,
    /// Pages written so that their frames could be used for others.
    Swept,
    /// Pages written for checkpoints.
    Captured,
}

impl SlotCounter {
    const KINDS: usize = SlotCounter::Captured as usize + 1;
}

/// One participant's slot.
///
/// What is counted in it is never taken back: it goes on with the next tenant's. So nothing is to be done
/// about it when somebody leaves or dies, and the sum over all slots is what was counted since the region was
/// made (counts.rs).
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Slot {
    /// Whose it is ([`Tenant`]).
    tenant: AtomicU64,
    /// 1 while the owner mends what the dead left: their slots stay theirs.
    mends: AtomicU32,
    /// 1 when the pinned snapshot was given up for want of room.
    revoked: AtomicU32,
    /// The snapshot of a transaction or an operation.
    pinned: AtomicU64,
    /// A second pin, held through the commit step or through helping, whatever snapshot the transaction
    /// keeps.
    guard: AtomicU64,
    /// The same as the guard while the owner finishes the commit of another; else none.
    helps: AtomicU64,
    epoch: AtomicU64,
    /// Twice the commits that the tenants of this slot have published; one more from before the commit point
    /// of the next until that is published. A participant that mends what the dead left says by
    /// compare-and-swap which it was.
    commits: AtomicU64,
    commit: AtomicU64,
    /// Where the log of this participant's large, uncommitted write set begins at the earliest: recovery must
    /// read from there.
    chain: AtomicU64,
    list_len: AtomicU32,
    /// The first frame of the rest of a long publish list (its layout: txn/commit/publish.rs), 0 if none.
    list_more: AtomicU32,
    /// The one frame that the operation in progress may be looking at, or [`ANY_FRAME`].
    looked_at: AtomicU32,
    /// The berth of which the owner writes another's superblock, and one; 0: none.
    settles: AtomicU32,
    /// 1 while the owner publishes pages that nothing leads to yet: those of a bulk load.
    loads: AtomicU32,
    /// Odd while the owner has page ids or blocks in hand (pages/participants/hand.rs). Another number each
    /// time.
    hand: AtomicU32,
    /// Pages looked at and found in the cache, by the tenants of this slot. Beside `looked_at`, which a look
    /// writes anyway.
    hits: AtomicU64,
    list: [ListWords; SLOT_LIST_INLINE],
    /// What else the tenants of this slot have counted ([`SlotCounter`]).
    counts: [AtomicU64; SlotCounter::KINDS],
    /// The record lock that the owner waits for, 0 if none, encoded by txn/locks. Written by the owner; a
    /// deadlock detector may mark it by compare-and-swap. If the owner dies it stays, and says nothing that
    /// the lock table does not.
    pub(crate) waits_for: AtomicU64,
    /// When that wait began, and when the transaction took its first lock, both counted by the lock table.
    /// Written by the owner before `waits_for`.
    pub(crate) waits_since: AtomicU64,
    pub(crate) locks_since: AtomicU64,
    /// Where the owner sleeps while it waits for a record lock.
    pub(crate) lock_queue: WaitQueue,
    /// What the transaction calls itself.
    label: Label,
}

impl Slot {
    pub(super) fn reset(&self) {
        self.pinned.store(NO_PIN, Ordering::Relaxed);
        self.guard.store(NO_PIN, Ordering::Relaxed);
        self.helps.store(NO_PIN, Ordering::Relaxed);
        self.chain.store(NO_PIN, Ordering::Relaxed);
        self.epoch.store(NO_EPOCH, Ordering::Relaxed);
        self.looked_at.store(ANY_FRAME.0, Ordering::Relaxed);
    }

    /// Takes the slot for a member, if it is free.
    pub(crate) fn try_take(&self, member: u16) -> Option<Tenant> {
        let free = self.tenant();
        let mine = free.next(member);
        let taken = (free.member().is_none() && self.change_tenant(free, mine)).then_some(mine);
        if taken.is_some() {
            // A dead one did not.
            self.label.clear();
        }
        taken
    }
    /// The tenant. SeqCst: in one order with the reapers' marks ([`Slot::mends`]).
    pub(crate) fn tenant(&self) -> Tenant {
        Tenant(self.tenant.load(Ordering::SeqCst))
    }
    /// Whose participant it is; none if it is free.
    pub(crate) fn member(&self) -> Option<u16> {
        self.tenant().member()
    }
    /// Says that the tenant was found dead. None if there is another by now, or the same has been said.
    pub(crate) fn note_dead(&self, tenant: Tenant) -> Option<Tenant> {
        let dead = Tenant(tenant.0 | Tenant::DEAD);
        (tenant.is_dead() || self.change_tenant(tenant, dead)).then_some(dead)
    }
    /// Says that all that a dead tenant left has been mended. Nothing of it is to be mended after that.
    pub(crate) fn note_mended(&self, dead: Tenant) -> Tenant {
        let mended = Tenant(dead.0 | Tenant::MENDED);
        // Another may have said so.
        self.change_tenant(dead, mended);
        mended
    }
    /// Gives the slot back, if it still is the tenant's.
    pub(crate) fn give_back(&self, tenant: Tenant) {
        self.change_tenant(tenant, Tenant(tenant.0 & !(Tenant::TAKING - 1)));
    }
    fn change_tenant(&self, from: Tenant, to: Tenant) -> bool {
        self.tenant.compare_exchange(from.0, to.0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Says that the owner mends, before it looks for tenants to mend. SeqCst: a participant that has marked
    /// a slot as mended, and then sees no participant that mends, knows that one that begins later finds the
    /// mark.
    pub(crate) fn begin_mending(&self) {
        self.mends.store(1, Ordering::SeqCst);
    }
    /// It has mended, or is dead.
    pub(crate) fn end_mending(&self) {
        self.mends.store(0, Ordering::SeqCst);
    }
    /// Whether the owner mends.
    pub(crate) fn mends(&self) -> bool {
        self.mends.load(Ordering::SeqCst) != 0
    }

    /// The pinned snapshot, if any. SeqCst: the reclaimer's scan must not miss a pin that was stored before
    /// its fence.
    #[inline]
    pub(crate) fn pinned(&self) -> Option<Lsn> {
        match self.pinned.load(Ordering::SeqCst) {
            NO_PIN => None,
            lsn => Some(Lsn(lsn)),
        }
    }
    /// The guard pin, if any.
    #[inline]
    pub(crate) fn guarded(&self) -> Option<Lsn> {
        match self.guard.load(Ordering::SeqCst) {
            NO_PIN => None,
            lsn => Some(Lsn(lsn)),
        }
    }
    /// Stores the guard pin with a full fence behind it.
    #[inline]
    pub(crate) fn set_guard(&self, at: Lsn) {
        self.guard.swap(at.0, Ordering::SeqCst);
        fence_behind_swap();
    }
    #[inline]
    pub(crate) fn unguard(&self) {
        self.guard.store(NO_PIN, Ordering::Release);
    }
    /// The state above which the owner may put versions in their places for another, if any.
    #[inline]
    pub(crate) fn helps(&self) -> Option<Lsn> {
        match self.helps.load(Ordering::SeqCst) {
            NO_PIN => None,
            lsn => Some(Lsn(lsn)),
        }
    }
    /// Says that the owner may do so, before it stores its guard pin.
    pub(crate) fn begin_helping(&self, at: Lsn) {
        self.helps.store(at.0, Ordering::SeqCst);
    }
    /// It has helped, or is dead.
    pub(crate) fn end_helping(&self) {
        self.helps.store(NO_PIN, Ordering::Release);
    }
    /// Stores a pin with a full fence behind it.
    #[inline]
    pub(crate) fn set_pin(&self, at: Lsn) {
        self.pinned.swap(at.0, Ordering::SeqCst);
        fence_behind_swap();
    }
    /// Release: reads made under the pin stay before its end.
    #[inline]
    pub(crate) fn unpin(&self) {
        self.pinned.store(NO_PIN, Ordering::Release);
    }

    /// Announces that chunks of a write set will be logged at or above `from`; before the first of them is.
    pub(crate) fn begin_chain(&self, from: Lsn) {
        self.chain.store(from.0, Ordering::SeqCst);
    }
    /// The chunks are committed, or void.
    pub(crate) fn end_chain(&self) {
        self.chain.store(NO_PIN, Ordering::Release);
    }
    /// Where the participant's uncommitted chunks begin at the earliest, if there are any.
    pub(crate) fn chain(&self) -> Option<Lsn> {
        match self.chain.load(Ordering::SeqCst) {
            NO_PIN => None,
            lsn => Some(Lsn(lsn)),
        }
    }

    /// Announces that the superblock that another set in this berth will be written; before the berth is
    /// looked at. SeqCst: then either the berth is another's by now, or a participant that takes it after
    /// that sees this.
    pub(crate) fn begin_settling(&self, berth: Berth) {
        self.settles.store(berth.index() as u32 + 1, Ordering::SeqCst);
    }
    /// It is written, or is not going to be.
    pub(crate) fn end_settling(&self) {
        self.settles.store(0, Ordering::SeqCst);
    }
    /// Whether the owner may write to a berth that another set.
    pub(crate) fn settles(&self, berth: Berth) -> bool {
        self.settles.load(Ordering::SeqCst) == berth.index() as u32 + 1
    }

    /// Announces pages that are published before anything leads to them; before the first of them is. SeqCst:
    /// a participant that looks for pages that nothing leads to pins its state first, and then sees this or a
    /// state that does not have the pages.
    pub(crate) fn begin_load(&self) {
        self.loads.store(1, Ordering::SeqCst);
    }
    /// Something leads to them now, or they are free.
    pub(crate) fn end_load(&self) {
        self.loads.store(0, Ordering::SeqCst);
    }
    /// Whether there may be such pages of this participant.
    pub(crate) fn loads(&self) -> bool {
        self.loads.load(Ordering::SeqCst) != 0
    }

    /// From now on the owner may have page ids and blocks in hand. SeqCst: a participant that looks for what
    /// is lost says so first and then looks at all hands; so either it finds this, or what the owner takes
    /// from now on is counted.
    pub(crate) fn begin_hand(&self) {
        let hand = self.hand.load(Ordering::Relaxed);
        self.hand.store(hand.wrapping_add(1) | 1, Ordering::SeqCst);
    }
    /// It has none any more. Release: a participant that finds this finds what was named and given back.
    pub(crate) fn end_hand(&self) {
        let hand = self.hand.load(Ordering::Relaxed);
        self.hand.store(hand.wrapping_add(1) & !1, Ordering::Release);
    }
    /// Odd while the owner may have page ids and blocks in hand.
    pub(crate) fn hand(&self) -> u32 {
        self.hand.load(Ordering::SeqCst)
    }

    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }
    /// Announces that an operation runs, without a fence: the caller's pin or [`Slot::enter_fenced`] supplies
    /// it.
    #[inline]
    pub(crate) fn enter(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Relaxed);
    }
    /// Announces that an operation runs, with a full fence behind it.
    #[inline]
    pub(crate) fn enter_fenced(&self, epoch: u64) {
        self.epoch.swap(epoch, Ordering::SeqCst);
        fence_behind_swap();
    }
    /// Says which frame the operation looks at from now on, until it says another. What it then loads, behind
    /// a light fence, shows whether the frame was still to be had.
    #[inline]
    pub(crate) fn look_at(&self, frame: FrameId) {
        // Release: what was looked at before has been.
        self.looked_at.store(frame.0, Ordering::Release);
    }
    /// For a participant that has fenced everywhere since it made a frame unreachable.
    pub(crate) fn looked_at(&self) -> FrameId {
        FrameId(self.looked_at.load(Ordering::SeqCst))
    }
    #[inline]
    pub(crate) fn exit(&self) {
        self.epoch.store(NO_EPOCH, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire) != 0
    }
    /// Tells the owner that its snapshot is given up; its next operation will see it. False if somebody has
    /// said so.
    pub(crate) fn mark_revoked(&self) -> bool {
        self.revoked.swap(1, Ordering::SeqCst) == 0
    }
    /// Ends the pin of a revoked owner that is in no operation, unless it is another one by now: pins never
    /// return to an old LSN.
    pub(crate) fn unpin_for_owner(&self, pin: Lsn) {
        let _ = self.pinned.compare_exchange(pin.0, NO_PIN, Ordering::SeqCst, Ordering::Relaxed);
    }
    pub(crate) fn clear_revoked(&self) {
        self.revoked.store(0, Ordering::Release);
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        if self.begun().0.is_multiple_of(2) { Phase::Idle } else { Phase::Committing }
    }
    #[inline]
    pub(crate) fn commit(&self) -> Lsn {
        Lsn(self.commit.load(Ordering::Acquire))
    }
    /// Announces the commit at `at`; the Release of the phase orders the list and the LSN before it. That of
    /// the LSN, as with the list's words: a participant that reads what belongs to a holding of the commit
    /// role finds the one before it ended.
    #[inline]
    pub(crate) fn begin_commit(&self, at: Lsn) {
        self.commit.store(at.0, Ordering::Release);
        self.commits.store(self.commits.load(Ordering::Relaxed) | 1, Ordering::Release);
    }
    /// It is published, and counted by the same store.
    #[inline]
    pub(crate) fn end_commit(&self) {
        // Once the tenant was taken for dead, others have.
        self.commits.store(self.commits.load(Ordering::Relaxed).wrapping_add(1) & !1, Ordering::Release);
    }
    /// How far its commits have come, for a participant that mends what it left.
    pub(crate) fn begun(&self) -> CommitCount {
        CommitCount(self.commits.load(Ordering::Acquire))
    }
    /// Ends the commit that a dead owner had begun, if it was published or is not going to be. Several may
    /// say so: one of them is heard, since the word never comes to be the same again while anybody mends.
    pub(crate) fn end_commit_of(&self, begun: CommitCount, is_published: bool) {
        if !begun.0.is_multiple_of(2) {
            let ended = if is_published { begun.0.wrapping_add(1) } else { begun.0 - 1 };
            let _ = self.commits.compare_exchange(begun.0, ended, Ordering::SeqCst, Ordering::Relaxed);
        }
    }

    /// Gives the transaction a name that others can see, or an empty one for none: as much of it as there is
    /// room for.
    pub(crate) fn set_name(&self, name: &str) {
        self.label.set(name);
    }
    /// The name of the transaction, if it has one.
    pub(crate) fn name(&self) -> Option<String> {
        self.label.get()
    }

    /// The transaction as an error names it, whose slot has this number.
    #[cold]
    pub(crate) fn called(&self, number: u16) -> String {
        self.name()
            .map_or_else(|| format!("participant {number}"), |name| format!("participant {number} {name:?}"))
    }

    /// Counts something that the owner did.
    pub(crate) fn count(&self, what: SlotCounter, more: u64) {
        add(&self.counts[what as usize], more);
    }
    /// Counts a page that the owner found in the cache.
    #[inline(always)]
    pub(crate) fn count_hit(&self) {
        add(&self.hits, 1);
    }
    /// What was counted of a kind.
    pub(super) fn counted(&self, what: SlotCounter) -> u64 {
        self.counts[what as usize].load(Ordering::Relaxed)
    }
    /// Commits that were published.
    pub(super) fn committed(&self) -> u64 {
        self.commits.load(Ordering::Relaxed) / 2
    }
    /// Pages that were found in the cache.
    pub(super) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn list_len(&self) -> usize {
        self.list_len.load(Ordering::Acquire) as usize
    }
    #[inline]
    pub(crate) fn set_list_len(&self, len: usize) {
        self.list_len.store(len as u32, Ordering::Release);
    }
    #[inline]
    pub(crate) fn list_more(&self) -> FrameId {
        FrameId(self.list_more.load(Ordering::Acquire))
    }
    #[inline]
    pub(crate) fn set_list_more(&self, frame: FrameId) {
        self.list_more.store(frame.0, Ordering::Release);
    }
    /// An item of the list, as it is at the moment. Acquire: a helper looks at the commit role afterwards,
    /// and if it has met a word of its owner's next commit finds that the holding it helps has ended.
    #[inline]
    pub(crate) fn item(&self, index: usize) -> ListItem {
        let words = &self.list[index];
        ListItem {
            page: PageId(words.page.load(Ordering::Acquire)),
            old: FrameId(words.old.load(Ordering::Acquire)),
            new: FrameId(words.new.load(Ordering::Acquire)),
        }
    }
    /// Release: pairs with the Acquire of [`Slot::item`].
    #[inline]
    pub(crate) fn set_item(&self, index: usize, item: ListItem) {
        let words = &self.list[index];
        words.page.store(item.page.0, Ordering::Release);
        words.old.store(item.old.0, Ordering::Release);
        words.new.store(item.new.0, Ordering::Release);
    }
}

/// Adds to what only its owner adds to: so a plain load and store do, which are one instruction and no locked
/// one.
#[inline(always)]
fn add(count: &AtomicU64, more: u64) {
    // Relaxed: nobody concludes anything from it.
    count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}
