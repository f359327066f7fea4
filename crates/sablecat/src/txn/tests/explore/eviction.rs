//! Eviction and reading in, against readers and writers: pages of a volume on a simulated disk.

use super::*;

/// Pages leave the pool and come back while they are read; a frame that was evicted is not used again before
/// its readers have left it.
#[test]
fn a_page_is_evicted_under_its_readers() {
    explore(21, 150, || {
        let store = Store::with_two_leaves(10, 6, Some(volume(1)));
        together(
            &store,
            &[
                |store| store.sweep(5),
                |store| _ = store.look_at_both(2),
                |store| {
                    store.kernel.read_one(&store.tree, RIGHT, watch).unwrap();
                    store.kernel.read_one(&store.tree, LEFT, watch).unwrap();
                },
            ],
        );
        store.check_end(0, 0);
    });
}

/// Two sweeps at once, each with its own idea of what time it is.
#[test]
fn two_sweeps_evict_under_a_reader() {
    explore(22, 200, || {
        let store = Store::with_two_leaves(10, 6, Some(volume(1)));
        store.sweep(2);
        together(
            &store,
            &[
                |store| store.sweep(4),
                |store| store.sweep(4),
                |store| {
                    for key in [LEFT, RIGHT, LEFT] {
                        store.kernel.read_one(&store.tree, key, watch).unwrap();
                    }
                },
            ],
        );
        store.check_end(0, 0);
    });
}

/// A participant that no longer waits for operations uses their frames, but for those that they look at:
/// whatever an operation was about to do, it sees its snapshot.
#[test]
fn frames_are_used_again_under_operations_that_do_not_look_at_them() {
    for volume in [|| Some(volume(1)), || None] {
        explore(24, 150, move || {
            let store = Store::with_two_leaves(16, 6, volume());
            together(
                &store,
                &[
                    |store| (1..=3).for_each(|stamp| _ = store.set_both(stamp)),
                    |store| store.overwrite_unlooked(4),
                    |store| _ = store.look_at_both(2),
                    |store| {
                        [LEFT, RIGHT, LEFT]
                            .iter()
                            .for_each(|key| _ = store.kernel.read_one(&store.tree, key, watch).unwrap())
                    },
                ],
            );
            store.check_end(3, 0);
        });
    }
}

#[test]
fn commits_meet_eviction() {
    explore(23, 100, || {
        let store = Store::with_two_leaves(16, 6, Some(volume(1)));
        together(
            &store,
            &[
                |store| (0..2).for_each(|_| store.add_to_both()),
                |store| (0..2).for_each(|_| store.add_beside()),
                |store| store.sweep(4),
                |store| _ = store.look_at_both(2),
            ],
        );
        store.check_end(2, 2);
    });
}

/// What is written ahead of the hand is changed, evicted and captured at the same time.
#[test]
fn commits_and_eviction_meet_cleaning() {
    explore(24, 150, || {
        let store = Store::with_two_leaves(16, 6, Some(volume(1)));
        store.sweep(1);
        together(
            &store,
            &[
                |store| (0..2).for_each(|_| store.add_to_both()),
                |store| store.clean(3),
                |store| store.clean(2),
                |store| store.sweep(4),
                |store| _ = store.checkpoint().unwrap(),
            ],
        );
        store.check_end(2, 0);
    });
}
