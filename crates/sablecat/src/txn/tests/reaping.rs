//! Processes that mend what a dead one left, side by side, stopped, and late. Each is a mapping of one
//! region, with a lock of its own that says whether it lives.

use std::mem::forget;

use sablecat_os::atomic::Ordering;
use sablecat_os::liveness::LockFile;

use super::*;
use crate::error::ErrorKind;
use crate::region::{EntryWord, FrameState, Membership, Work};
use crate::txn::commit::changes::ChangedPages;
use crate::txn::commit::publish::filler;
use crate::txn::mending::reap::Mending;
use crate::types::FrameId;

/// Kernels over one region, each of another member, and a tree.
pub(super) fn processes<const N: usize>(frames: usize) -> [Store; N] {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let locks = std::env::temp_dir().join(format!("sablecat-reaping-{}-{count}", std::process::id()));
    let first = Store::new(frames, 16, None);
    let tree = first
        .kernel
        .create_tree(&first.seat(), CatalogEntry::new(TreeId(2), VolumeId::MAIN, Method::Btree))
        .unwrap()
        .tree_of_note()
        .unwrap();
    let stores = std::array::from_fn(|n| {
        let membership = Membership::new(LockFile::open(&locks, Some(0o600)).unwrap(), n as u16 + 1);
        assert!(membership.take().unwrap());
        let region =
            first.kernel.pages.region.again().expect("memory").joined_as(membership).expect("joined");
        region.member(region.number()).enter(1, None, "test");
        Store { kernel: kernel(region, None), tree: tree.clone() }
    });
    std::fs::remove_file(&locks).unwrap();
    stores
}

/// How far a commit comes before its process is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DiesAt {
    /// Its pages are latched, the new versions are being built.
    Prepared,
    /// In the commit step, before it says that it commits.
    Published,
    /// Right before the commit point.
    Announced,
    /// Right after it.
    Committed,
}

pub(super) const DEATHS: [DiesAt; 4] =
    [DiesAt::Prepared, DiesAt::Published, DiesAt::Announced, DiesAt::Committed];

impl Store {
    /// Its process is killed, as far as others can see.
    pub(super) fn dies(&self) {
        self.kernel.pages.region.membership().expect("of one of several processes").give_up();
    }

    /// Reaps until nothing is left to be done.
    pub(super) fn reap_all(&self) {
        let seat = self.seat();
        while self.kernel.reap(&seat) {
            sablecat_os::atomic::yield_now();
        }
    }

    /// The slots that are those of another's process.
    pub(super) fn slots_of(&self, other: &Store) -> Vec<u16> {
        let region = &self.kernel.pages.region;
        let number = other.kernel.pages.region.number();
        (1..region.geometry().slots).filter(|&slot| region.slot(slot).member() == Some(number)).collect()
    }

    /// Commits records, no further than to a moment, under the structure latch of their tree, and locks one
    /// of them.
    pub(super) fn begin_to_commit(&self, records: &[(&[u8], &[u8])], dies_at: DiesAt) {
        let (pages, log, locks) = (&self.kernel.pages, &self.kernel.log, &self.kernel.locks);
        let seat = self.seat();
        let mut held = crate::txn::locks::HeldLocks::default();
        let hash = crate::txn::locks::record_hash(self.tree.id, records[0].0);
        locks
            .acquire(seat.number(), hash, crate::txn::locks::LockMode::Exclusive, Duration::ZERO, &mut held)
            .unwrap();
        forget(self.kernel.hold_structure(std::iter::once(self.tree.id), &seat).unwrap());
        let pinned = pages.pinned(&seat);
        let mut changes = ChangedPages::new(pages, &seat, pinned.at());
        forget(pinned);
        for &(key, value) in records {
            assert!(
                self.kernel.apply_one(&mut changes, &self.tree.tree(), (key, Some(value)), None).unwrap()
            );
        }
        if dies_at != DiesAt::Prepared {
            forget(pages.region.role(Work::Commit).try_take(seat.number()).unwrap());
            let mut record = filler();
            let start = log.stamp();
            let bytes = record.seal(start, log.durable());
            let commit = Lsn(start.0 + bytes.len() as u64);
            log.copy_record(start, bytes);
            for item in changes.items().iter().filter(|item| item.new != FrameId::NONE) {
                pages.region.born(item.new).store(commit.0, Ordering::Relaxed);
                pages.region.frame(item.new).set_state(FrameState::Published);
            }
            if dies_at != DiesAt::Published {
                seat.slot().begin_commit(commit);
            }
            if dies_at == DiesAt::Committed {
                log.advance_tail(commit);
            }
        }
        forget((changes, held));
        forget(seat);
    }
}

/// It keeps nothing but what it might still touch: the slots and the number of the dead.
#[test]
fn who_is_stopped_while_it_mends_keeps_nobody_else_from_mending() {
    for dies_at in DEATHS {
        let [stopped, other, dead] = processes(64);
        let region = &other.kernel.pages.region;
        other.put(b"key", b"before").unwrap();
        dead.begin_to_commit(&[(b"key", b"after")], dies_at);
        dead.dies();
        let seat = stopped.seat();
        let mending = Mending::begin(&seat);
        let role = region.role(Work::Reaping).try_take(seat.number()).unwrap();

        let mine = other.seat();
        let is_mended = || other.slots_of(&dead).iter().all(|&slot| region.slot(slot).tenant().is_mended());
        while !is_mended() {
            assert!(other.kernel.reap(&mine), "it must come back for the slots");
        }
        let now = other.get(b"key").unwrap();
        assert_eq!(now, if dies_at == DiesAt::Committed { &b"after"[..] } else { b"before" });
        other.put(b"key", b"the other's").unwrap();
        drop(other.kernel.hold_structure(std::iter::once(other.tree.id), &mine).unwrap());
        assert!(
            !other.slots_of(&dead).is_empty() && region.member(3).is_used(),
            "the stopped one may go on with them"
        );

        drop((role, mending));
        assert!(!other.kernel.reap(&mine));
        assert!(other.slots_of(&dead).is_empty() && !region.member(3).is_used());
        drop((mine, seat));
        assert_eq!(other.get(b"key").unwrap(), b"the other's");
        other.check_frames();
    }
}

impl Store {
    /// With nobody at work: every frame is free or holds a current version.
    pub(super) fn check_frames(&self) {
        let seat = self.seat();
        self.kernel.pages.sweep_all(&seat);
        let census = self.kernel.pages.census();
        assert_eq!((census.old, census.building, census.retired), (0, 0, 0), "{census:?}");
    }
}

/// Which slots there are to mend it found out before another mended them, gave them away, and the next
/// process took them.
#[test]
fn who_begins_late_to_mend_mends_nobody_who_came_after() {
    let [late, other, dead] = processes(64);
    let region = &other.kernel.pages.region;
    let seat = late.seat();
    dead.begin_to_commit(&[(b"key", b"value")], DiesAt::Prepared);
    dead.dies();
    let found = {
        let member = region.member(3);
        crate::txn::mending::reap::Dead {
            member: 3,
            incarnation: member.fence(member.incarnation().load(Ordering::SeqCst)).unwrap(),
        }
    };
    other.reap_all();
    assert!(!region.member(3).is_used());
    // Another process with the same number, in the same slots.
    let member = region.member(3);
    let incarnation = member.begin();
    member.enter(2, None, "next");
    let tenants: Vec<_> =
        (1..16).filter_map(|slot| region.slot(slot).try_take(3).map(|tenant| (slot, tenant))).collect();
    assert!(!tenants.is_empty());
    tenants.iter().for_each(|(slot, _)| region.slot(*slot).begin_load());

    let _mending = Mending::begin(&seat);
    late.kernel.reap_members(&[found], &seat);
    assert!(
        tenants
            .iter()
            .all(|(slot, tenant)| region.slot(*slot).tenant() == *tenant && region.slot(*slot).loads())
    );
    assert!(
        member.is_used() && member.incarnation().load(Ordering::SeqCst) == incarnation,
        "it is not the one that was found dead"
    );
}

/// Its helping does nothing, since it has no pin that counts.
#[test]
fn a_reaper_that_counts_as_dead_ends_no_commit_that_it_has_not_finished() {
    let [reaper, other, dead] = processes(64);
    let region = &other.kernel.pages.region;
    other.put(b"key", b"before").unwrap();
    dead.begin_to_commit(&[(b"key", b"after")], DiesAt::Committed);
    dead.dies();
    let seat = reaper.seat();
    region.member(1).fence(region.member(1).incarnation().load(Ordering::SeqCst)).unwrap();
    other.slots_of(&dead).into_iter().for_each(|slot| assert!(!reaper.kernel.mend_slot(slot, &seat)));
    other.reap_all();
    assert_eq!(other.get(b"key").unwrap(), b"after", "it was committed");
}

/// What the dead had counted stays, and the next tenant of the slot goes on with it; the commit that it was
/// at counts if it was one.
#[test]
fn commits_of_the_dead_are_counted_once_however_often_they_are_mended() {
    for dies_at in DEATHS {
        let [one, other, dead] = processes(64);
        let commits = || one.kernel.pages.region.counts().commits;
        let before = commits();
        dead.put(b"a", b"counted").unwrap();
        dead.begin_to_commit(&[(b"key", b"value")], dies_at);
        let slots = one.slots_of(&dead);
        dead.dies();
        let (seat, late) = (one.seat(), other.seat());
        let mending = Mending::begin(&late);
        assert!(one.kernel.reap(&seat), "the other mends too");
        let happened = 1 + u64::from(dies_at == DiesAt::Committed);
        assert_eq!(commits() - before, happened, "{dies_at:?}");
        // Now the tail is beyond where the dead's commit was to be.
        one.put(b"b", b"beyond").unwrap();
        slots.iter().for_each(|&slot| assert!(other.kernel.mend_slot(slot, &late)));
        assert_eq!(commits() - before, happened + 1, "{dies_at:?}, mended again");
        drop(mending);
        one.reap_all();
        drop(seat);
        let next = one.kernel.pages.region.slot(slots[0]);
        let tenant = next.try_take(1).expect("given away");
        next.begin_commit(Lsn(1));
        next.end_commit();
        assert_eq!(commits() - before, happened + 2, "{dies_at:?}, the next in the same slot");
        next.give_back(tenant);
    }
}

/// A sweep claims a version for a moment that it takes for an old one, and finds that the frame is another's
/// by now; unless it dies before that.
#[test]
fn a_current_version_that_the_dead_had_claimed_for_a_moment_stays() {
    let [dead, other] = processes(64);
    other.put(b"key", b"value").unwrap();
    let pages = &other.kernel.pages;
    let frame = pages.region.entry(other.tree.root).word().frame();
    let seat = dead.seat();
    assert!(pages.region.frame(frame).change(FrameState::Published, FrameState::Claimed(seat.number())));
    forget(seat);
    dead.dies();
    other.reap_all();
    assert_eq!(pages.region.frame(frame).state(), FrameState::Published);
    other.check_frames();
    assert_eq!(other.get(b"key").unwrap(), b"value");
}

/// The slot is another's by then.
#[test]
fn who_was_taken_for_dead_while_it_waited_gets_no_role() {
    for work in [Work::Structure(5), Work::Checkpoint] {
        let [waiting, other] = processes(64);
        let region = &other.kernel.pages.region;
        let seat = other.seat();
        let held = region.role(work).try_take(seat.number()).unwrap();
        std::thread::scope(|scope| {
            let waits = || {
                let seat = waiting.kernel.pages.participants.sit()?;
                waiting.kernel.pages.region.role(work).take(seat.number()).map(drop)
            };
            let waits = scope.spawn(waits);
            while !region.role(work).has_sleepers() {
                std::thread::yield_now();
            }
            region.member(1).fence(region.member(1).incarnation().load(Ordering::SeqCst)).unwrap();
            drop(held);
            assert_eq!(waits.join().unwrap().unwrap_err().kind(), ErrorKind::Poisoned);
        });
        assert_eq!(region.role(work).look().owner(), 0);
    }
}

/// It was stopped between its last look at the fence and the taking: it is mended by then, its slot is
/// another's, and nobody that would end the role knows of it.
#[test]
fn a_role_that_is_got_by_who_was_taken_for_dead_is_let_go_of() {
    for work in [Work::Structure(5), Work::Checkpoint, Work::Commit, Work::Serial] {
        let [late, other] = processes(64);
        let region = &other.kernel.pages.region;
        let seat = late.seat();
        region.member(1).fence(region.member(1).incarnation().load(Ordering::SeqCst)).unwrap();
        let held = late.kernel.pages.region.role(work).try_take(seat.number()).unwrap();
        drop(held);
        assert_eq!(region.role(work).look().owner(), 0, "{work:?}");
        // Nor does it end what another has by then.
        let held = late.kernel.pages.region.role(work).try_take(seat.number()).unwrap();
        region.role(work).end(held.holding());
        let others = other.seat();
        let its = region.role(work).try_take(others.number()).unwrap();
        drop(held);
        assert_eq!(region.role(work).look(), its.holding(), "{work:?}");
    }
}

/// What a rebuilder that died had frozen is thawed by the next holder of the structure latch, not by the
/// mender, which may come late.
#[test]
fn a_tree_that_the_dead_had_frozen_is_changed_again() {
    let [dead, other] = processes(64);
    let region = &other.kernel.pages.region;
    other.put(b"key", b"value").unwrap();
    let seat = dead.seat();
    forget(dead.kernel.hold_structure(std::iter::once(dead.tree.id), &seat).unwrap());
    forget(dead.kernel.freeze(std::iter::once(dead.tree.id), &seat).unwrap().0);
    forget(seat);
    dead.dies();
    other.reap_all();
    let frozen = || region.header().visible.1.frozen.load(Ordering::SeqCst);
    assert_ne!(frozen(), 0);
    other.put(b"key", b"changed").unwrap();
    assert_eq!((frozen(), other.get(b"key").unwrap()), (0, b"changed".to_vec()));
}

/// The last mender finds nothing latched, locked or claimed.
#[test]
fn what_the_dead_left_is_mended_as_often_as_one_likes() {
    for dies_at in DEATHS {
        let [one, two, dead] = processes(64);
        one.put(b"key", b"before").unwrap();
        dead.begin_to_commit(&[(b"key", b"after")], dies_at);
        dead.dies();
        let seats = [&one, &two].map(|store| (store, store.seat()));
        for round in 0..3 {
            for (store, seat) in &seats {
                store.slots_of(&dead).into_iter().for_each(|slot| _ = store.kernel.mend_slot(slot, seat));
                let expected =
                    if dies_at == DiesAt::Committed || round > 0 { &b"after"[..] } else { b"before" };
                assert_eq!(store.get(b"key").unwrap(), expected);
            }
            one.put(b"key", b"after").unwrap();
            let root = one.kernel.pages.region.entry(one.tree.root).word();
            assert_eq!(root, EntryWord::new(root.frame(), 0));
        }
    }
}
