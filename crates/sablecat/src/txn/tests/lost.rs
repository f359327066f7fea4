//! Page ids and blocks in the hands of the dead: given back while others live.

use super::*;
use crate::pages::{Participant, Seat};

/// A store whose participants come and go: whoever is killed has its slot mended by another.
fn store(seed: u64) -> Store {
    let store = Store::new(400, 8, Some(volume(seed)));
    (0..200u32).for_each(|n| store.put(&n.to_be_bytes(), &[7; 40]).unwrap());
    store.checkpoint().unwrap();
    store
}

impl Store {
    /// Ends a participant as if its process had been killed, and mends what it left.
    fn kill(&self, dead: Seat<'_>) {
        let number = dead.number();
        // Its seat is never left; another process would not know of that.
        std::mem::forget(dead);
        let reaper = self.kernel.pages.participants.sit().unwrap();
        assert!(self.kernel.reap_slot(number, &reaper));
    }

    /// What was lost, given back.
    fn find_lost(&self) -> (usize, usize) {
        self.checkpoint().unwrap();
        let seat = self.kernel.pages.participants.sit().unwrap();
        self.kernel.pages.release_free(&seat);
        let lost = self.kernel.pages.free_lost(&seat).unwrap().expect("nobody is at work");
        (lost.pages.len(), lost.blocks.len())
    }
}

fn store_large<'a>(store: &'a Store, me: &'a Participant, pages: usize) -> crate::pages::Run<'a> {
    store.kernel.store_large(me, (store.tree.id, VolumeId::MAIN), &vec![1; pages * 440]).unwrap()
}

#[test]
fn a_large_value_that_was_being_stored_is_given_back() {
    let store = store(1);
    let dead = store.kernel.pages.participants.sit().unwrap();
    std::mem::forget((store_large(&store, &dead, 40), store_large(&store, &dead, 20)));
    store.kill(dead);
    let (pages, blocks) = store.find_lost();
    assert!(pages >= 60 && blocks == pages - 2, "{pages} page ids, {blocks} blocks, and no block for the first page of each");
    assert_eq!(store.find_lost(), (0, 0));
    store.assert_nothing_leaks();
}

#[test]
fn what_a_living_participant_has_in_hand_is_not_given_back() {
    let store = store(2);
    let living = store.kernel.pages.participants.sit().unwrap();
    let run = store_large(&store, &living, 40);
    let dead = store.kernel.pages.participants.sit().unwrap();
    std::mem::forget(store_large(&store, &dead, 20));
    store.kill(dead);
    let seat = store.kernel.pages.participants.sit().unwrap();
    store.checkpoint().unwrap();
    assert_eq!(store.kernel.pages.free_lost(&seat).unwrap(), None, "it cannot be told whose they are");
    drop((run, seat));
    drop(living);
    assert_ne!(store.find_lost(), (0, 0));
    store.assert_nothing_leaks();
}

#[test]
fn pages_of_a_commit_and_blocks_that_were_not_named_yet_are_given_back() {
    let store = store(3);
    let pages = &store.kernel.pages;
    let dead = pages.participants.sit().unwrap();
    std::mem::forget(dead.in_hand());
    let taken = pages.allocate_run(5).unwrap();
    pages.allocate_page().unwrap();
    (0..7).for_each(|_| _ = pages.allocate_block(VolumeId::MAIN).unwrap());
    store.kill(dead);
    assert_eq!(store.find_lost(), (6, 7), "from page {taken} on");
    store.assert_nothing_leaks();
}

/// Blocks that a checkpoint has named are freed by checkpoints; not those of one that named nothing after all.
#[test]
fn what_a_checkpoint_had_written_that_came_to_nothing_is_given_back() {
    let store = store(4);
    let change = |value: u8| (0..200u32).for_each(|n| store.put(&n.to_be_bytes(), &[value; 40]).unwrap());
    change(1);
    let dead = store.kernel.pages.participants.sit().unwrap();
    store.kernel.pages.die_before_superblock(&dead);
    store.kill(dead);
    // The versions that were captured are old by the time of the next checkpoint, and gone by the one after it.
    change(2);
    store.checkpoint().unwrap();
    assert_ne!(store.find_lost().1, 0);
    store.assert_nothing_leaks();
}

/// A checkpointer that dies once its superblock is in force leaves the blocks that it was to free, and pages that have been moved and do not know of it; one
/// that dies before, its copies of pages in lower blocks.
#[test]
fn what_was_being_moved_is_given_back() {
    for after_superblock in [false, true] {
        let store = store(5);
        (0..150u32).for_each(|n| assert!(store.remove(&n.to_be_bytes()).unwrap()));
        (0..3).for_each(|_| _ = store.checkpoint_moving(Moving::Little).unwrap());
        (200..900u32).for_each(|n| store.put(&n.to_be_bytes(), &[7; 40]).unwrap());
        store.checkpoint().unwrap();
        (0..600u32).for_each(|n| _ = store.remove(&n.to_be_bytes()).unwrap());
        store.checkpoint().unwrap();
        let dead = store.kernel.pages.participants.sit().unwrap();
        store.kernel.pages.sweep_all(&dead);
        store.kernel.pages.die_moving(&dead, after_superblock);
        store.kill(dead);
        assert_ne!(store.find_lost().1, 0);
        store.assert_nothing_leaks();
    }
}

/// What a large commit had made when it died, and a database that a transaction had made: their notes are nobody's.
#[test]
fn what_notes_name_that_nobody_sees_to_is_freed_while_others_work() {
    let store = Store::with_catalog(400, 8, Some(volume(6)));
    (0..200u32).for_each(|n| store.put(&n.to_be_bytes(), &[7; 40]).unwrap());
    let kernel = &store.kernel;
    let living = kernel.care();
    let care = kernel.care();
    let seat = kernel.pages.participants.sit().unwrap();
    kernel.create_tree(&seat, TreeId(77), VolumeId::MAIN, None).unwrap();
    drop(seat);
    store.checkpoint().unwrap();
    drop(care);
    assert_eq!(kernel.free_unreachable().unwrap(), 0, "somebody sees to a note");
    drop(living);
    assert_eq!(kernel.free_unreachable().unwrap(), 1);
    store.assert_nothing_leaks();
}
