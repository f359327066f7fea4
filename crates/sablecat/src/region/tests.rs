//! One region at two addresses.

use sablecat_os::atomic::Ordering;

use super::*;

fn small() -> Geometry {
    Geometry { page_size: 512, frames: 9, slots: 4, ring_bytes: 65536, lock_words: 64, pages_max: 4096, blocks_max: 4096, members: 1 }
}

#[test]
fn every_part_is_the_same_part_at_both_addresses() {
    let here = Region::shareable(small()).unwrap();
    let there = here.again().unwrap();
    assert_ne!(here.frame_pointer(FrameId(0)), there.frame_pointer(FrameId(0)));
    assert_eq!(there.header().ready.load(Ordering::SeqCst), header::READY);

    here.header().visible.0.store(1, Ordering::SeqCst);
    assert_eq!(there.header().visible(), crate::types::Lsn(1));
    let last = FrameId(8);
    assert!(there.frame(last).change(FrameState::Free, FrameState::Building(3)));
    assert_eq!(here.frame(last).state(), FrameState::Building(3));
    // SAFETY: the frame is building, and nobody else is here.
    unsafe { here.page_mut(last) }.fill(7);
    // SAFETY: as above, and the writing is over.
    assert_eq!(unsafe { there.page(last) }, [7; 512]);
    assert!(there.entry(PageId(4095)).change(EntryWord::new(FrameId::NONE, 0), EntryWord::new(last, 2)));
    assert_eq!(here.entry(PageId(4095)).word(), EntryWord::new(last, 2));
    here.slot(3).set_pin(crate::types::Lsn(5));
    assert_eq!(there.slot(3).pinned(), Some(crate::types::Lsn(5)));
    let held = there.structure(STRUCTURE_LATCHES - 1).try_acquire(2).unwrap();
    assert_eq!(here.structure(STRUCTURE_LATCHES - 1).look(), held);
    there.unsaved(63).store(9, Ordering::SeqCst);
    assert_eq!((here.unsaved(63).load(Ordering::SeqCst), here.capturing(63).load(Ordering::SeqCst)), (9, 0));
}

/// The parts lie one behind the other: writing one to its last byte changes no other.
#[test]
fn no_part_overlaps_the_next() {
    let region = Region::shareable(small()).unwrap();
    let offsets = small().offsets();
    let starts = [
        offsets.log_words,
        offsets.queues,
        offsets.structure,
        offsets.slots,
        offsets.locks,
        offsets.descriptors,
        offsets.references,
        offsets.ring,
        offsets.table,
        offsets.page_bits,
        offsets.block_bits,
        offsets.unsaved,
        offsets.capturing,
        offsets.frames,
        offsets.end,
    ];
    assert!(starts.is_sorted());
    assert!(offsets.ring + region.geometry().ring_bytes <= offsets.table);
    assert!(offsets.frames + region.geometry().frames * region.page_size() <= offsets.end);
}

#[test]
fn a_role_is_released_once_for_each_holding() {
    let role = Role::default();
    let first = role.try_acquire(3).unwrap();
    assert_eq!(role.try_acquire(4), Err(first));
    assert!(role.release(first));
    assert!(!role.release(first));
    let second = role.try_acquire(3).unwrap();
    assert_ne!(first, second, "the same owner's next holding is another");
    assert!(!role.release(first), "a release meant for the holding before");
    assert_eq!(role.look(), second);
}
