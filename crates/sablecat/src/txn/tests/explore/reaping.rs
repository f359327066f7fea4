//! What a dead process left is mended by two at once, while others work: under schedules in which either of
//! the two is stopped anywhere.

use super::super::reaping::{DEATHS, DiesAt, processes};
use super::*;

#[test]
fn two_mend_what_one_dead_left_while_others_use_it_again() {
    for (n, dies_at) in DEATHS.into_iter().enumerate() {
        explore(61 + n as u64, 100, move || {
            let [one, two, dead] = processes(24).map(Arc::new);
            for key in
                [LEFT, BESIDE_LEFT, b"y0", b"y1", b"y2", b"y3", b"y4", b"y5", b"y6", b"y7", b"y8", RIGHT]
            {
                one.put(key, &value(0)).unwrap();
            }
            let commits = {
                let one = Arc::clone(&one);
                move || one.kernel.pages.region.counts().commits
            };
            let before = commits();
            dead.begin_to_commit(&[(LEFT, &value(1)), (RIGHT, &value(1))], dies_at);
            dead.dies();
            let spawn = |store: &Arc<Store>, work: Work| {
                let store = Arc::clone(store);
                thread::spawn(move || work(&store))
            };
            let threads = [
                spawn(&one, Store::reap_all),
                spawn(&two, Store::reap_all),
                spawn(&one, |store| (0..2).for_each(|_| store.add_to_both())),
                spawn(&two, |store| {
                    store.sweep(1);
                    store.put(BESIDE_LEFT, &value(7)).unwrap();
                    store.sweep(1);
                }),
            ];
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            one.reap_all();
            assert!(one.slots_of(&dead).is_empty());
            let both = 2 + u32::from(dies_at == DiesAt::Committed);
            assert_eq!(
                [LEFT, RIGHT].map(|key| two.kernel.read_one(&two.tree, key, watch).unwrap()),
                [both; 2]
            );
            assert_eq!(
                commits() - before,
                3 + u64::from(dies_at == DiesAt::Committed),
                "each is counted once"
            );
            two.verified();
            two.check_frames();
        });
    }
}

/// Slots of the dead are somebody else's as soon as nobody mends them, and not before.
#[test]
fn the_slots_of_the_dead_are_given_away_only_when_nobody_mends_them() {
    explore(67, 200, || {
        let [one, two, dead] = processes(24).map(Arc::new);
        one.put(LEFT, &value(0)).unwrap();
        dead.begin_to_commit(&[(LEFT, &value(1))], DiesAt::Prepared);
        dead.dies();
        let slots = one.slots_of(&dead);
        let reapers = [&one, &two].map(|store| {
            let store = Arc::clone(store);
            thread::spawn(move || store.reap_all())
        });
        // The next participant has the slot: what it announces there is its own.
        let next = {
            let (store, slots) = (Arc::clone(&one), slots.clone());
            thread::spawn(move || {
                let region = &store.kernel.pages.region;
                let slot = region.slot(slots[0]);
                let tenant = loop {
                    match (slot.try_take(1), slot.member()) {
                        (Some(tenant), _) => break tenant,
                        (None, Some(1 | 2)) => return,
                        (None, _) => yield_now(),
                    }
                };
                slot.set_pin(Lsn(1));
                slot.begin_load();
                for _ in 0..40 {
                    fence(Ordering::SeqCst);
                    assert!(slot.loads() && slot.pinned() == Some(Lsn(1)), "mended as if it were the dead");
                }
                slot.unpin();
                slot.end_load();
                slot.give_back(tenant);
            })
        };
        reapers.into_iter().for_each(|thread| thread.join().unwrap());
        next.join().unwrap();
    });
}
