//! The region mapped twice, under explored schedules.

use super::super::mapped_twice::two_kernels;
use super::*;

#[test]
fn commits_and_snapshots_through_both_mappings() {
    explore(51, 60, || {
        let sides = two_kernels(24).map(Arc::new);
        for key in [LEFT, BESIDE_LEFT, b"y0", b"y1", b"y2", b"y3", b"y4", b"y5", b"y6", b"y7", b"y8", RIGHT] {
            sides[0].put(key, &value(0)).unwrap();
        }
        let spawn = |side: usize, work: Work| {
            let store = Arc::clone(&sides[side]);
            thread::spawn(move || work(&store))
        };
        let threads = [
            spawn(0, |store| (0..2).for_each(|_| store.add_to_both())),
            spawn(1, |store| (0..2).for_each(|_| store.add_to_both())),
            spawn(1, |store| _ = store.look_at_both(2)),
            spawn(0, |store| store.sweep(2)),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        for side in &sides {
            assert_eq!(
                [LEFT, RIGHT].map(|key| side.kernel.read_one(&side.tree, key, watch).unwrap()),
                [4, 4]
            );
            side.verified();
        }
        sides[1].kernel.pages.census();
    });
}
