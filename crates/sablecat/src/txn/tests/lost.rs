//! Page ids and blocks in the hands of the dead: given back while others live, and nothing else is.

use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::succession::{Two, key};
use super::*;
use crate::error::ErrorKind;
use crate::pages::{LocalParticipant, PageRun, Seat};

/// A store whose participants come and go: if one is killed, another mends its slot.
fn store(seed: u64) -> Store {
    let store = Store::new(400, 12, Some(volume(seed)));
    (0..200u32).for_each(|n| store.put(&n.to_be_bytes(), &[7; 40]).unwrap());
    store.checkpoint().unwrap();
    store
}

impl Store {
    /// Ends a participant as if its process had been killed, and mends what it left.
    fn kill(&self, dead: Seat<'_>) {
        let number = dead.number();
        // Its seat is never left; another process would not know of that.
        forget(dead);
        assert!(self.kernel.mend_slot(number, &self.seat()));
    }

    /// What was lost, and has been given back, if that could be told.
    fn try_find_lost(&self) -> Option<(u64, u64)> {
        self.checkpoint().unwrap();
        let lost = self.kernel.pages.free_lost(&self.seat()).unwrap();
        lost.map(|lost| (lost.pages, lost.blocks))
    }

    pub(super) fn find_lost(&self) -> (u64, u64) {
        self.try_find_lost().expect("nobody has anything in hand")
    }

    fn store_large<'a>(&'a self, me: &'a LocalParticipant, pages: usize) -> PageRun<'a> {
        self.kernel.store_large(me, (self.tree.id, VolumeId::MAIN), &vec![1; pages * 440]).unwrap()
    }
}

#[test]
fn nothing_is_lost_where_nobody_died() {
    let store = store(1);
    store.put(b"large", &vec![1; 40 * 440]).unwrap();
    assert_eq!(store.find_lost(), (0, 0));
    assert!(store.remove(b"large").unwrap());
    assert_eq!(store.find_lost(), (0, 0));
    store.assert_nothing_leaks();
}

#[test]
fn a_large_value_that_was_being_stored_is_given_back() {
    let store = store(2);
    let dead = store.seat();
    forget((store.store_large(&dead, 40), store.store_large(&dead, 20)));
    store.kill(dead);
    let (pages, blocks) = store.find_lost();
    assert!(
        pages >= 60 && blocks == pages - 2,
        "{pages} page ids, {blocks} blocks, and no block for the first page of each"
    );
    assert_eq!(store.find_lost(), (0, 0));
    store.put(b"large", &vec![1; 70 * 440]).unwrap();
    store.assert_nothing_leaks();
}

#[test]
fn what_a_living_participant_has_in_hand_is_not_given_back() {
    let store = store(3);
    let living = store.seat();
    let run = store.store_large(&living, 40);
    let dead = store.seat();
    forget(store.store_large(&dead, 20));
    store.kill(dead);
    assert_eq!(store.try_find_lost(), None, "it cannot be told whose they are");
    drop(run);
    drop(living);
    assert_ne!(store.find_lost(), (0, 0));
    store.assert_nothing_leaks();
}

#[test]
fn pages_of_a_commit_and_blocks_that_were_not_named_yet_are_given_back() {
    let store = store(4);
    let pages = &store.kernel.pages;
    let dead = store.seat();
    forget(dead.in_hand());
    let taken = pages.allocate_run(5).unwrap();
    pages.allocate_page().unwrap();
    (0..7).for_each(|_| _ = pages.allocate_block(VolumeId::MAIN).unwrap());
    store.kill(dead);
    assert_eq!(store.find_lost(), (6, 7), "from page {taken} on");
    store.assert_nothing_leaks();
}

/// Blocks that a checkpoint has named are freed by checkpoints; not those of one that named nothing after
/// all.
#[test]
fn what_a_checkpoint_had_written_that_came_to_nothing_is_given_back() {
    let store = store(5);
    let change = |value: u8| (0..200u32).for_each(|n| store.put(&n.to_be_bytes(), &[value; 40]).unwrap());
    change(1);
    let seat = store.seat();
    let died = catch_unwind(AssertUnwindSafe(|| {
        store.kernel.pages.checkpoint(&seat, Moving::Little, |_, _| panic!("as if killed here")).map(drop)
    }));
    assert!(died.is_err());
    drop(seat);
    // The versions that were captured are old by the time of the next checkpoint, and gone by the one after
    // it.
    change(2);
    store.checkpoint().unwrap();
    store.kernel.pages.sweep_all(&store.seat());
    assert_ne!(store.find_lost().1, 0);
    store.assert_nothing_leaks();
}

/// The maker of the checkpoint has copies, what it has captured, and what it is about to free.
#[test]
fn what_a_checkpoint_that_moves_pages_has_in_hand_is_given_back_before_whatever_call_it_dies() {
    let (mut calls, mut given_back) = (0, 0);
    loop {
        // Never dropped: the dead do nothing any more.
        let two: &'static Two = Box::leak(Box::new(Two::new(calls)));
        (0..100).for_each(|n| assert!(two.first.remove(&key(n)).unwrap()));
        two.first.checkpoint().unwrap();
        two.first.change(140..200, 9);
        let (say, hear) = std::sync::mpsc::channel();
        let dies = say.clone();
        two.disk.before_call(calls, move || {
            dies.send(None).unwrap();
            loop {
                std::thread::park();
            }
        });
        std::thread::spawn(move || {
            let seat = two.first.seat();
            say.send(Some(seat.number())).unwrap();
            two.first.kernel.pages.checkpoint(&seat, Moving::Much, |_, _| Ok(())).unwrap();
            say.send(Some(0)).unwrap();
        });
        let dead = hear.recv().unwrap().expect("it has a seat");
        if hear.recv().unwrap().is_some() {
            break;
        }
        let store = &two.second;
        assert!(store.kernel.mend_slot(dead, &store.seat()));
        given_back += store.find_lost().1;
        // What only an old version names is found once that has gone.
        store.change(100..200, 10);
        store.checkpoint().unwrap();
        store.kernel.pages.sweep_all(&store.seat());
        given_back += store.find_lost().1;
        store.assert_nothing_leaks();
        calls += 1;
    }
    assert!(calls > 15 && given_back > 100, "{calls} calls, {given_back} blocks");
}

/// Words by which a value says whose it is.
fn value(tag: u64, pages: usize) -> Vec<u8> {
    let words = (pages * 448) as u64 / 8;
    (0..words).flat_map(|n| (tag << 32 | n).to_le_bytes()).collect()
}

/// Threads that insert, remove, read and load values of all lengths in a cache that is too small, make
/// checkpoints, and die with numbers in hand, while one gives back what is lost.
#[test]
fn what_is_lost_is_given_back_while_others_work() {
    let rounds: u64 =
        std::env::var("SABLECAT_TEST_ROUNDS").map_or(150, |rounds| rounds.parse().expect("a number"));
    for seed in 1..4 {
        let store = Store::new(300, 24, Some(volume(seed)));
        let (found, untold) = (AtomicU64::new(0), AtomicU64::new(0));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let work = [0, 1, 2u64].map(|mine| {
                let store = &store;
                scope.spawn(move || {
                    let mut dice = Dice(seed * 77 + mine + 1);
                    let mut model: std::collections::HashMap<u64, (u64, usize)> = Default::default();
                    let key = |n: u64| (mine << 32 | n).to_be_bytes();
                    for round in 0..rounds {
                        let n = dice.below(40);
                        match dice.below(12) {
                            0..=4 => {
                                let pages = [0, 1, 3, 20, 45][dice.below(5) as usize];
                                let tag = mine << 24 | round;
                                store.put(&key(n), &value(tag, pages)).unwrap();
                                model.insert(n, (tag, pages));
                            }
                            5..=6 => assert_eq!(store.remove(&key(n)).unwrap(), model.remove(&n).is_some()),
                            7..=8 => {
                                let found = store.get(&key(n));
                                assert!(
                                    found == model.get(&n).map(|&(tag, pages)| value(tag, pages)),
                                    "{mine}, round {round}"
                                );
                            }
                            9 => match store.checkpoint_moving(if dice.below(2) == 0 {
                                Moving::Little
                            } else {
                                Moving::Much
                            }) {
                                Ok(_) => {}
                                Err(error) => assert_eq!(error.kind(), ErrorKind::TooMany),
                            },
                            10 => store.kernel.pages.sweep_all(&store.seat()),
                            _ => {
                                let dead = store.seat();
                                if dice.below(2) == 0 {
                                    forget(store.store_large(&dead, 17 + dice.below(30) as usize));
                                } else {
                                    forget(dead.in_hand());
                                    (0..dice.below(9)).for_each(|_| {
                                        _ = store.kernel.pages.allocate_block(VolumeId::MAIN).unwrap()
                                    });
                                    store.kernel.pages.allocate_page().unwrap();
                                }
                                let number = dead.number();
                                // The seat can be taken again, as its slot by another process once all is
                                // mended.
                                assert!(store.kernel.mend_slot(number, &store.seat()));
                                dead.forget_hands();
                            }
                        }
                    }
                    for n in 0..40 {
                        assert!(
                            store.get(&key(n)) == model.get(&n).map(|&(tag, pages)| value(tag, pages)),
                            "{mine}, at the end"
                        );
                    }
                })
            });
            let (store, over, found, untold) = (&store, &over, &found, &untold);
            scope.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    match store.try_find_lost() {
                        Some((pages, blocks)) => _ = found.fetch_add(pages + blocks, Ordering::SeqCst),
                        None => _ = untold.fetch_add(1, Ordering::SeqCst),
                    }
                }
            });
            while !work.iter().all(|thread| thread.is_finished()) {
                sablecat_os::atomic::yield_now();
            }
            over.store(true, Ordering::SeqCst);
        });
        println!("found {found:?}, could not tell {untold:?} times");
        // Blocks that something still names which is gone a checkpoint later.
        (0..3).for_each(|_| _ = store.find_lost());
        store.kernel.pages.sweep_all(&store.seat());
        (0..2).for_each(|_| _ = store.find_lost());
        store.assert_nothing_leaks();
    }
}
