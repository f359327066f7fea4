//! Commits that meet: on the same leaves, and in the commit step, where others finish what a stopped one has
//! begun.

use super::*;

/// Finishes, wherever it can, what the holder of the commit role has begun.
fn help_often(store: &Store) {
    let seat = store.kernel.pages.participants.sit().unwrap();
    for _ in 0..8 {
        store.kernel.help_committer(&seat);
        fence(Ordering::SeqCst);
    }
}

#[test]
fn no_update_is_lost_on_overlapping_leaves() {
    explore(11, 100, || {
        let store = Store::with_two_leaves(14, 6, None);
        together(
            &store,
            &[
                |store| (0..2).for_each(|_| store.add_to_both()),
                |store| (0..2).for_each(|_| store.add_to_both()),
                |store| (0..3).for_each(|_| store.add_beside()),
            ],
        );
        store.check_end(4, 3);
    });
}

/// The holder of the commit role may be stopped between any two steps; the helper finishes, others commit,
/// frames are used again; then the holder goes on with what is done already. And the same for the helper.
#[test]
fn a_stopped_commit_is_finished_by_others_once() {
    explore(12, 200, || {
        let store = Store::with_two_leaves(12, 6, None);
        together(
            &store,
            &[
                |store| (1..=3).for_each(|stamp| _ = store.set_both(stamp)),
                |store| (0..4).for_each(|_| store.sweep_and_add_beside()),
                help_often,
                |store| _ = store.look_at_both(1),
            ],
        );
        store.check_end(3, 4);
    });
}

/// As above, with two helpers of the same holder.
#[test]
fn two_may_help_one() {
    explore(13, 150, || {
        let store = Store::with_two_leaves(12, 6, None);
        together(
            &store,
            &[
                |store| (0..3).for_each(|_| store.add_to_both()),
                help_often,
                help_often,
                |store| store.sweep(2),
            ],
        );
        store.check_end(3, 0);
    });
}

/// New pages have no old version whose frame a helper's pin could hold.
#[test]
fn helping_with_pages_that_are_new() {
    explore(14, 100, || {
        let store = Store::with_two_leaves(24, 6, None);
        together(
            &store,
            &[
                |store| {
                    for n in 0..6u8 {
                        store.put(&[b'c', n], &value(n.into())).unwrap();
                    }
                    for n in 0..6u8 {
                        assert!(store.remove(&[b'c', n]).unwrap());
                    }
                },
                help_often,
                |store| (0..2).for_each(|_| store.add_to_both()),
                |store| store.sweep(3),
            ],
        );
        store.check_end(2, 0);
    });
}

/// A transaction may be told that its snapshot is given up while it commits; a helper must not be misled by
/// that.
#[test]
fn a_commit_whose_snapshot_is_given_up_is_whole() {
    explore(15, 250, || {
        let store = Store::with_two_leaves(12, 6, None);
        together(
            &store,
            &[
                |store| (0..2).for_each(|_| store.add_to_both()),
                |store| (0..4).for_each(|_| store.sweep_and_add_beside()),
                |store| {
                    let seat = store.kernel.pages.participants.sit().unwrap();
                    for _ in 0..4 {
                        store.kernel.pages.give_up_oldest(&seat);
                        fence(Ordering::SeqCst);
                    }
                },
                help_often,
            ],
        );
        store.check_end(2, 4);
    });
}

/// A commit can be met on its pages a moment before it is visible. A transaction that lost against it must
/// not lose against it again.
#[test]
fn a_commit_is_lost_against_once() {
    const COMMITS: u32 = 2;
    explore(16, 150, || {
        let store = Store::with_two_leaves(14, 6, None);
        together(
            &store,
            &[
                |store| (1..=COMMITS).for_each(|stamp| _ = store.set_both(stamp)),
                |store| {
                    let mut txn = store.begin(Isolation::Snapshot, false);
                    for _ in 0..=COMMITS {
                        let before = txn.get(&store.tree, LEFT, watch).unwrap();
                        txn.set(&store.tree, LEFT, Some(&value(before))).unwrap();
                        match txn.commit(Durability::Memory) {
                            Ok(_) => return,
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
                        }
                        txn.restart();
                    }
                    panic!("lost more often than others committed");
                },
            ],
        );
        store.check_end(COMMITS, 0);
    });
}
