//! Long snapshots: versions are taken from the middle of the chains they walk, and they may be given up.

use super::*;

/// Two snapshots of different ages walk chains from which a sweep takes what neither needs.
#[test]
fn chains_are_mended_under_their_walkers() {
    explore(41, 150, || {
        let store = Store::with_two_leaves(24, 6, None);
        together(
            &store,
            &[
                |store| (1..=5).for_each(|stamp| _ = store.set_both(stamp)),
                |store| assert!(store.look_at_both(3).is_some(), "there was room"),
                |store| assert!(store.look_at_both(2).is_some(), "there was room"),
                |store| store.sweep(4),
            ],
        );
        store.check_end(5, 0);
    });
}

/// A writer that changes the pages again and again runs out of frames with their latches in hand, and mends
/// the chains behind them.
#[test]
fn chains_are_mended_by_who_has_their_pages_latched() {
    explore(43, 150, || {
        let store = Store::with_two_leaves(14, 6, None);
        together(
            &store,
            &[
                |store| (1..=6).for_each(|stamp| _ = store.set_both(stamp)),
                |store| _ = store.look_at_both(3),
                |store| _ = store.look_at_both(2),
                |store| store.sweep(2),
            ],
        );
        store.check_end(6, 0);
    });
}

/// A snapshot that is given up ends with an error, never with a wrong answer; the next one, on the same seat,
/// is not touched by that.
#[test]
fn a_snapshot_given_up_is_told_and_the_next_one_holds() {
    explore(42, 250, || {
        let store = Store::with_two_leaves(12, 6, None);
        together(
            &store,
            &[
                |store| (1..=5).for_each(|stamp| _ = store.set_both(stamp)),
                |store| {
                    store.look_at_both(1);
                    store.look_at_both(2);
                },
                |store| {
                    let seat = store.kernel.pages.participants.sit().unwrap();
                    for _ in 0..3 {
                        store.kernel.pages.give_up_oldest(&seat);
                        fence(Ordering::SeqCst);
                    }
                },
            ],
        );
        store.check_end(5, 0);
    });
}
