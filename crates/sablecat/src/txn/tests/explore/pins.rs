//! Pin against publish against reclaim.

use super::*;

/// A reader at a snapshot sees whole commits, and no frame is used again under it, while a writer whose pool
/// is so small that it must use its superseded frames at once commits over two leaves.
#[test]
fn a_snapshot_sees_whole_commits_while_frames_are_used_again() {
    explore(1, 120, || {
        let store = Store::with_two_leaves(10, 6, None);
        together(
            &store,
            &[
                |store| {
                    for stamp in 1..=5 {
                        store.set_both(stamp);
                    }
                },
                |store| {
                    let first = store.look_at_both(2);
                    let second = store.look_at_both(1);
                    assert!(first <= second || second.is_none(), "time goes forward");
                },
            ],
        );
        store.check_end(5, 0);
    });
}

/// Reads that pin for themselves, one record each, with the remembered leaf and without.
#[test]
fn single_reads_see_whole_values_and_never_older_ones() {
    explore(2, 120, || {
        let store = Store::with_two_leaves(10, 6, None);
        together(
            &store,
            &[
                |store| {
                    for stamp in 1..=5 {
                        store.set_both(stamp);
                    }
                },
                |store| {
                    let mut last = 0;
                    for key in [LEFT, RIGHT, LEFT, RIGHT] {
                        let seen = store.kernel.read_one(&store.tree, key, watch).unwrap();
                        assert!(seen >= last, "what was seen committed stays committed");
                        last = seen;
                    }
                },
                |store| store.sweep(3),
            ],
        );
        store.check_end(5, 0);
    });
}
