//! Pages that a checkpoint has moved, whose maker is stopped while it tells them, and goes on when others
//! have made some.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::succession::{Two, key};
use super::*;
use crate::pages::impatiently;
use crate::region::BlockWord;
use crate::types::BlockId;

/// Stamps by keys.
type Model = BTreeMap<u64, u8>;

impl Store {
    fn say(&self, keys: std::ops::Range<u64>, stamp: u8, model: &mut Model) {
        self.change(keys.clone(), stamp);
        model.extend(keys.map(|n| (n, stamp)));
    }

    fn expect(&self, model: &Model, at: &str) {
        for (&n, &stamp) in model {
            assert_eq!(self.get(&key(n)).as_deref(), Some(&[stamp; 40][..]), "record {n}, {at}");
        }
        assert_eq!(self.verified().0.len(), model.len(), "{at}");
    }

    /// Every block that the map names, or the current version of a page, is in use, and named by nothing
    /// else.
    pub(super) fn expect_named_to_be_used(&self, at: &str) {
        let pages = &self.kernel.pages;
        let mut named: BTreeMap<BlockId, PageId> = BTreeMap::new();
        let mut name = |page, block: BlockId, how: &str| {
            assert!(
                block == BlockId::NONE || pages.blocks().is_used(block),
                "block {block} of page {page} is free, {how}, {at}"
            );
            let other = *named.entry(block).or_insert(page);
            assert!(
                block == BlockId::NONE || other == page,
                "block {block} is that of page {page}, {how}, and {other}, {at}"
            );
        };
        let mut look = |found| {
            if let crate::pages::volume::MapFinding::Page(page, block) = found {
                name(page, block.block(), "in the map");
            }
            Ok(())
        };
        pages.follow_generation(pages.volume().unwrap()).unwrap();
        pages.volume().unwrap().walk(0..u64::MAX, &mut look).unwrap();
        for page in (1..pages.page_ids().high_water())
            .filter(|&page| pages.page_ids().is_used(page))
            .map(|page| PageId(page as u32))
        {
            let entry = pages.region.entry(page);
            let block = match entry.word().frame() {
                FrameId::NONE => entry.block(),
                frame => pages.region.frame(frame).block(),
            };
            name(page, block.block(), "by its current version");
        }
    }

    fn mark_all_unsaved(&self) {
        let pages = &self.kernel.pages;
        let is_current = |page: &u64| pages.page_ids().is_used(*page);
        (1..pages.page_ids().high_water())
            .filter(is_current)
            .for_each(|page| pages.mark_unsaved(PageId(page as u32)));
    }

    /// Takes the lowest free blocks.
    fn take_low(&self, count: u64) -> Vec<BlockId> {
        let seat = self.seat();
        let _hand = seat.in_hand();
        (0..count).map(|_| self.kernel.pages.allocate_block(VolumeId::MAIN).unwrap()).collect()
    }

    fn give_back(&self, blocks: &[BlockId]) {
        let seat = self.seat();
        let _hand = seat.in_hand();
        blocks.iter().for_each(|&block| assert!(self.kernel.pages.blocks().release(block)));
    }

    /// Writes into blocks that are free.
    fn spoil(&self) {
        let seat = self.seat();
        let place = (self.tree.id, VolumeId::MAIN);
        let runs: Vec<_> =
            (0..4).map(|_| self.kernel.store_large(&seat, place, &[0xee; 20 * 440]).unwrap()).collect();
        drop(runs);
    }
}

/// Before it latches each page, and when it has; for as long as others take to make so many checkpoints,
/// which move pages again, to blocks that have become free meanwhile, and find them all changed, in some
/// lives.
#[test]
fn who_is_stopped_as_it_tells_pages_where_they_are_is_succeeded_and_does_no_harm_when_it_goes_on() {
    for life in 0..8 {
        let (is_evicted, are_marked, made) =
            (life & 1 == 0, life & 2 == 0, if life & 4 == 0 { 1 } else { 3 });
        let (mut stops, again) = (0, Arc::new(AtomicU64::new(0)));
        loop {
            let two = Two::new(stops);
            let mut model = Model::from_iter((100..200).map(|n| (n, 3)));
            // More than all pages need: when they are given back, those that were moved before are above the
            // bound again.
            let mut low = Vec::new();
            (0..4).for_each(|stamp| {
                low.extend(two.second.take_low(if stamp < 2 { 60 } else { 0 }));
                two.first.change(0..200, stamp);
                two.first.checkpoint().unwrap();
            });
            (0..100).for_each(|n| assert!(two.first.remove(&key(n)).unwrap()));
            two.first.checkpoint().unwrap();
            two.first.say(185..200, 9, &mut model);
            if is_evicted {
                two.first.kernel.pages.sweep_all(&two.first.seat());
            }
            let is_latched = stops % 2 == 1;
            let (other, again) = (Arc::clone(&two.second), Arc::clone(&again));
            two.first.kernel.pages.telling.before(stops, move || {
                other.take_over();
                other.give_back(&low);
                for round in 0..made {
                    if are_marked {
                        other.mark_all_unsaved();
                    }
                    let seat = other.seat();
                    let made =
                        impatiently(|| other.kernel.pages.checkpoint(&seat, Moving::Much, |_, _| Ok(())))
                            .unwrap();
                    drop(seat);
                    again.fetch_add(made.moved, Ordering::SeqCst);
                    other.spoil();
                    if !is_latched {
                        other.change(110..180, 50 + round);
                    }
                }
            });
            let seat = two.first.seat();
            two.first
                .kernel
                .pages
                .checkpoint(&seat, Moving::Much, |_, _| {
                    // After its snapshot.
                    two.second.change(160..163, 20);
                    Ok(())
                })
                .unwrap();
            drop(seat);
            if two.first.kernel.pages.telling.forget() {
                break;
            }
            let at = format!("life {life}, stopped before moment {stops}");
            model.extend((160..163).map(|n| (n, 20)));
            if !is_latched {
                model.extend((110..180).map(|n| (n, 49 + made)));
            }
            two.first.expect_named_to_be_used(&at);
            two.second.spoil();
            two.second.kernel.pages.sweep_all(&two.second.seat());
            two.first.expect(&model, &at);
            two.second.expect(&model, &at);
            two.second.checkpoint_moving(Moving::Much).unwrap();
            two.first.say(120..140, 77, &mut model);
            two.first.checkpoint_moving(Moving::Much).unwrap();
            two.first.expect_named_to_be_used(&at);
            two.second.spoil();
            two.second.find_lost();
            two.first.spoil();
            two.first.kernel.pages.sweep_all(&two.first.seat());
            two.first.find_lost();
            two.first.kernel.pages.sweep_all(&two.first.seat());
            two.first.expect(&model, &at);
            two.first.find_lost();
            two.first.assert_nothing_leaks();
            stops += 1;
        }
        assert!(
            stops > 8 && (are_marked || again.load(Ordering::SeqCst) > stops),
            "{stops} moments, {again:?} moved again"
        );
    }
}

/// A participant that looked it up before it was moved may have been stopped, and say where it was when those
/// that moved it and told others are long gone.
#[test]
fn a_page_whose_entry_nobody_had_filled_when_it_was_moved_is_not_said_to_be_where_it_was() {
    let two = Two::new(1);
    (0..100).for_each(|n| assert!(two.first.remove(&key(n)).unwrap()));
    two.first.checkpoint().unwrap();
    let pages = &two.first.kernel.pages;
    pages.sweep_all(&two.first.seat());
    let volume = pages.volume().unwrap();
    let in_use = |page: &PageId| pages.page_ids().is_used(u64::from(page.0));
    let all: Vec<_> = (1..pages.page_ids().high_water() as u32).map(PageId).filter(in_use).collect();
    let place = |page: PageId| {
        pages.follow_generation(volume).unwrap();
        let (first, blocks) = volume.lookup_leaf(page).unwrap();
        blocks[(page.0 - first.0) as usize]
    };
    let mut before = Vec::new();
    for &page in &all {
        let entry = pages.region.entry(page);
        if entry.word().frame() == FrameId::NONE && entry.block() == BlockWord::mapped(place(page)) {
            entry.set_block(BlockWord::default());
            before.push((page, place(page)));
        }
    }
    let other = Arc::clone(&two.second);
    pages.telling.before(0, move || other.take_over());
    two.first.checkpoint_moving(Moving::Much).unwrap();
    let moved: Vec<_> = before.into_iter().filter(|&(page, from)| place(page) != from).collect();
    assert!(moved.len() > 3, "{moved:?}");
    two.first.find_lost();
    for (page, from) in moved {
        // As a participant does that fills the entries of all pages of a map leaf.
        pages.region.entry(page).learn_block(BlockWord::mapped(from));
    }
    two.first.expect_named_to_be_used("at the end");
    two.first.assert_nothing_leaks();
}
