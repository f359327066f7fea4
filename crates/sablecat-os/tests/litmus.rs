//! The orderings of the shared memory's protocols, in all executions that the memory model of the language
//! allows: loads may be old, stores late.
//!
//! Explored by loom (Norris, Demsky 2013), which needs words of its own kind, so these are copies of the few
//! operations that matter, each named after the code it stands for: an ordering that is changed there must be
//! changed here. Every protocol is run as it is, and again without one of its orderings, which must fail: so
//! an ordering that is here is needed.
//!
//! Loom takes sequentially consistent loads and stores for Acquire and Release ones. Where a protocol rests
//! on two such operations in a row there is a fence between them here, which means the same to these
//! programs.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use loom::thread;

use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// No pin, no frame, in no operation.
const NONE: usize = 99;
/// What is in a frame.
const OLD: usize = 1;
const NEW: usize = 2;
const REUSED: usize = 66;

/// The words of one slot, one page, one role.
struct Words {
    visible: AtomicUsize,
    pin: AtomicUsize,
    epoch: AtomicUsize,
    revoked: AtomicUsize,
    entry: AtomicUsize,
    other_entry: AtomicUsize,
    bytes: AtomicUsize,
    item: AtomicUsize,
    role: AtomicUsize,
    queue: AtomicUsize,
    tail: AtomicUsize,
}

fn words() -> Arc<Words> {
    Arc::new(Words {
        visible: AtomicUsize::new(1),
        pin: AtomicUsize::new(NONE),
        epoch: AtomicUsize::new(NONE),
        revoked: AtomicUsize::new(0),
        entry: AtomicUsize::new(0),
        other_entry: AtomicUsize::new(0),
        bytes: AtomicUsize::new(OLD),
        item: AtomicUsize::new(OLD),
        role: AtomicUsize::new(HELD_FIRST),
        queue: AtomicUsize::new(0),
        tail: AtomicUsize::new(0),
    })
}

/// A role's word: free, and two holdings one after the other.
const HELD_FIRST: usize = 1;
const FREE: usize = 10;
const HELD_NEXT: usize = 11;

fn fence_if(it: bool) {
    if it {
        fence(SeqCst);
    }
}

/// Runs two threads in all ways.
fn run(
    one: impl Fn(&Words) + Send + Sync + Copy + 'static,
    two: impl Fn(&Words) + Send + Sync + Copy + 'static,
) {
    loom::model(move || {
        let words = words();
        let other = Arc::clone(&words);
        let thread = thread::spawn(move || one(&other));
        two(&words);
        thread.join().unwrap();
    });
}

/// `Participants::pin_with` against `Participants::horizon` and its kin in pages/participants/horizon.rs: the
/// version valid at 1 is superseded at 2, and its frame used again if nobody has pinned 1.
fn pins(reader_fences: bool, reclaimer_fences: bool) {
    run(
        move |words| {
            let at = loop {
                let at = words.visible.load(Acquire);
                words.pin.swap(at, AcqRel);
                fence_if(reader_fences);
                if words.visible.load(Acquire) == at {
                    break at;
                }
            };
            if at == 1 {
                assert_eq!(words.bytes.load(Relaxed), OLD, "freed under a pin");
            }
        },
        move |words| {
            words.visible.fetch_max(2, AcqRel);
            if words.visible.load(Acquire) >= 2 {
                fence_if(reclaimer_fences);
                if words.pin.load(Acquire) != 1 {
                    words.bytes.store(REUSED, Relaxed);
                }
            }
        },
    );
}

#[test]
fn a_pin_is_seen_or_its_owner_looks_again() {
    pins(true, true);
}

#[test]
#[should_panic(expected = "freed under a pin")]
fn a_pin_needs_its_fence() {
    pins(false, true);
}

#[test]
#[should_panic(expected = "freed under a pin")]
fn who_reclaims_needs_a_fence() {
    pins(true, false);
}

/// `Slot::enter_fenced` against an eviction and `Participants::oldest_epoch`: an operation that is not seen
/// finds the entry empty.
fn operations(reader_fences: bool, sweep_fences: bool) {
    run(
        move |words| {
            words.epoch.swap(1, AcqRel);
            fence_if(reader_fences);
            if words.entry.load(Acquire) != NONE {
                assert_eq!(words.bytes.load(Relaxed), OLD, "used again under an operation");
            }
        },
        move |words| {
            words.entry.swap(NONE, AcqRel);
            fence_if(sweep_fences);
            if words.epoch.load(Acquire) == NONE {
                words.bytes.store(REUSED, Relaxed);
            }
        },
    );
}

#[test]
fn an_operation_is_seen_or_finds_the_page_gone() {
    operations(true, true);
}

#[test]
#[should_panic(expected = "used again under an operation")]
fn an_operation_needs_the_fence_behind_its_epoch() {
    operations(false, true);
}

#[test]
#[should_panic(expected = "used again under an operation")]
fn a_sweep_needs_a_fence_before_it_looks_at_epochs() {
    operations(true, false);
}

/// `Visibility::at_pin` against `Pool::revoke_oldest`: a reader that begins hears that its snapshot is given
/// up, or is seen reading.
fn revocation(reader_fences: bool) {
    run(
        move |words| {
            words.epoch.swap(1, AcqRel);
            fence_if(reader_fences);
            if words.revoked.load(Acquire) == 0 {
                assert_eq!(words.bytes.load(Relaxed), OLD, "given up while it is read");
            }
        },
        |words| {
            words.revoked.store(1, Release);
            fence(SeqCst);
            if words.epoch.load(Acquire) == NONE {
                words.bytes.store(REUSED, Relaxed);
            }
        },
    );
}

#[test]
fn a_snapshot_is_given_up_between_operations() {
    revocation(true);
}

#[test]
#[should_panic(expected = "given up while it is read")]
fn who_reads_at_a_snapshot_needs_the_fence_behind_its_epoch() {
    revocation(false);
}

/// `publish::help` against the owner's next commit: what is read from the slot belongs to the holding, if
/// that still stands.
fn help(store: Ordering, load: Ordering) {
    run(
        move |words| {
            // The end of one holding, the next, and its list.
            words.role.compare_exchange(HELD_FIRST, FREE, AcqRel, Relaxed).unwrap();
            words.role.compare_exchange(FREE, HELD_NEXT, AcqRel, Acquire).unwrap();
            words.item.store(NEW, store);
        },
        move |words| {
            let item = words.item.load(load);
            if words.role.load(Acquire) == HELD_FIRST {
                assert_eq!(item, OLD, "the list of a later commit");
            }
        },
    );
}

#[test]
fn a_helper_does_not_take_a_later_list_for_that_of_the_commit_it_helps() {
    help(Release, Acquire);
}

#[test]
#[should_panic(expected = "the list of a later commit")]
fn a_list_is_stored_by_release() {
    help(Relaxed, Acquire);
}

#[test]
#[should_panic(expected = "the list of a later commit")]
fn a_list_is_loaded_by_acquire() {
    help(Release, Relaxed);
}

/// `Sleepers::announce` and the last look before sleeping, against the end of a role and `WaitQueue::wake`.
/// They meet in one of two places.
fn sleep(sleeper_fences: bool) {
    loom::model(move || {
        let words = words();
        let other = Arc::clone(&words);
        let sleeper = thread::spawn(move || {
            other.queue.fetch_or(1, AcqRel);
            fence_if(sleeper_fences);
            other.role.load(Acquire) == HELD_FIRST
        });
        words.role.compare_exchange(HELD_FIRST, FREE, AcqRel, Relaxed).unwrap();
        fence(SeqCst);
        let woken = words.queue.load(Acquire) != 0;
        let sleeps = sleeper.join().unwrap();
        assert!(!sleeps || woken, "sleeps on what is free");
    });
}

#[test]
fn a_sleeper_is_woken_or_does_not_fall_asleep() {
    sleep(true);
}

#[test]
#[should_panic(expected = "sleeps on what is free")]
fn a_sleeper_needs_the_fence_behind_its_announcement() {
    sleep(false);
}

/// The commit step's swings and `visible`, against a new snapshot that reads two pages (`PageEntry::word`).
fn publish(entry: Ordering, visible: Ordering) {
    run(
        |words| {
            words.bytes.store(NEW, Relaxed);
            words.entry.compare_exchange(0, 1, AcqRel, Relaxed).unwrap();
            words.other_entry.compare_exchange(0, 1, AcqRel, Relaxed).unwrap();
            words.visible.fetch_max(2, AcqRel);
        },
        move |words| {
            if words.other_entry.load(entry) == 1 {
                assert_eq!(words.bytes.load(Relaxed), NEW, "a frame that is not filled");
            }
            if words.visible.load(visible) == 2 {
                assert_eq!(
                    (words.entry.load(Relaxed), words.other_entry.load(Relaxed)),
                    (1, 1),
                    "visible and not there"
                );
            }
        },
    );
}

#[test]
fn what_is_visible_is_there_and_filled() {
    publish(Acquire, Acquire);
}

#[test]
#[should_panic(expected = "a frame that is not filled")]
fn entries_are_loaded_by_acquire() {
    publish(Relaxed, Acquire);
}

#[test]
#[should_panic(expected = "visible and not there")]
fn visible_is_loaded_by_acquire() {
    publish(Acquire, Relaxed);
}

/// `Log::copy_record` and `Log::advance_tail` against the thread that drains the ring.
fn ring(store: Ordering, load: Ordering) {
    run(
        move |words| {
            words.bytes.store(NEW, Relaxed);
            words.tail.store(2, store);
        },
        move |words| {
            if words.tail.load(load) == 2 {
                assert_eq!(words.bytes.load(Relaxed), NEW, "below the tail and not there");
            }
        },
    );
}

#[test]
fn what_is_below_the_tail_is_in_the_ring() {
    ring(Release, Acquire);
}

#[test]
#[should_panic(expected = "below the tail and not there")]
fn the_tail_is_stored_by_release() {
    ring(Relaxed, Acquire);
}

#[test]
#[should_panic(expected = "below the tail and not there")]
fn the_tail_is_loaded_by_acquire() {
    ring(Release, Relaxed);
}

/// Two commits, one after the other under the role: the second works on what the first has left
/// (`RoleWord::acquire`, `release`).
fn turns(release: Ordering, acquire: Ordering) {
    run(
        move |words| {
            words.bytes.store(NEW, Relaxed);
            words.role.compare_exchange(HELD_FIRST, FREE, release, Relaxed).unwrap();
        },
        move |words| {
            if words.role.compare_exchange(FREE, HELD_NEXT, acquire, Relaxed).is_ok() {
                assert_eq!(words.bytes.load(Relaxed), NEW, "what the last holder did is not there");
            }
        },
    );
}

#[test]
fn who_has_a_role_sees_what_the_last_holder_did() {
    turns(Release, Acquire);
}

#[test]
#[should_panic(expected = "what the last holder did is not there")]
fn a_role_is_given_up_by_release() {
    turns(Relaxed, Acquire);
}

#[test]
#[should_panic(expected = "what the last holder did is not there")]
fn a_role_is_taken_by_acquire() {
    turns(Release, Relaxed);
}
