//! Pages of large values that somebody who is stopped has latched: checkpoints pass them by.

use std::sync::OnceLock;

use super::succession::Two;
use super::*;
use crate::pages::impatiently;
use crate::pages::volume::CHECKSUM_BYTES;
use crate::region::BlockWord;
use crate::types::SealedBlock;

const PAGES: usize = 20;

fn value(tag: u8) -> Vec<u8> {
    vec![tag; PAGES * 440]
}

impl Store {
    /// The pages behind the first of each large value.
    fn rest(&self) -> Vec<PageId> {
        let region = &self.kernel.pages.region;
        let all = (1..self.kernel.pages.page_ids().high_water()).map(|page| PageId(page as u32));
        all.filter(|&page| region.entry(page).block().is_rest()).collect()
    }

    /// What is known of the block of a page.
    fn own_block(&self, page: PageId) -> BlockWord {
        let region = &self.kernel.pages.region;
        match region.entry(page).word().frame() {
            FrameId::NONE => region.entry(page).block(),
            frame => region.frame(frame).block(),
        }
    }

    /// The block that the map in force names for a page.
    fn named_block(&self, page: PageId) -> SealedBlock {
        let volume = self.kernel.pages.volume().unwrap();
        self.kernel.pages.follow_generation(volume).unwrap();
        let (first, blocks) = volume.lookup_leaf(page).unwrap();
        blocks[(page.0 - first.0) as usize]
    }

    /// What is on a block of the page, without the checksum, which is of the block too.
    fn stored(&self, page: PageId, block: SealedBlock) -> Vec<u8> {
        let pages = &self.kernel.pages;
        let mut bytes = vec![0; 512];
        pages.check_stored(pages.volume().unwrap(), page, block, &mut bytes).unwrap();
        bytes.split_off(CHECKSUM_BYTES)
    }

    fn checkpoint_impatiently(&self, moving: Moving) {
        impatiently(|| self.checkpoint_moving(moving)).unwrap();
    }
}

#[test]
fn a_value_is_in_checkpoints_although_somebody_has_a_page_of_it_latched() {
    for (which, is_in_memory) in
        [0, 7, PAGES - 3].into_iter().flat_map(|which| [false, true].map(|read| (which, read)))
    {
        let store = Store::with_catalog(400, 12, Some(volume(which as u64)));
        store.checkpoint().unwrap();
        store.put(b"large", &value(1)).unwrap();
        let rest = store.rest();
        assert!(rest.len() > PAGES - 3);
        if is_in_memory {
            let mut part = [0; 1];
            store.kernel.read_part(&store.tree, b"large", which as u64 * 440 + 450, &mut part).unwrap();
        }
        let busy = store.seat();
        store.kernel.pages.keep_latched(rest[which], &busy);
        for _ in 0..2 {
            store.checkpoint_impatiently(Moving::Little);
            for &page in &rest {
                let (named, own) = (store.named_block(page), store.own_block(page).sealed());
                assert_ne!(named, SealedBlock::NONE, "page {page} is in the map");
                assert_eq!(named != own, page == rest[which], "page {page}: its block, or a copy");
                assert_eq!(store.stored(page, named), store.stored(page, own), "page {page}");
            }
        }
        store.expect_named_to_be_used("latched");
        store.kernel.pages.let_go_of(rest[which], &busy);
        drop(busy);
        store.checkpoint().unwrap();
        assert!(rest.iter().all(|&page| store.named_block(page) == store.own_block(page).sealed()));
        assert!(store.get(b"large") == Some(value(1)));
        assert!(store.remove(b"large").unwrap());
        store.assert_nothing_leaks();
    }
}

#[test]
fn a_freed_value_leaves_the_map_although_somebody_has_a_page_of_it_latched() {
    // Its page was captured, copied beside who had it latched then, or not in any checkpoint.
    for before in [Some(false), Some(true), None] {
        let store = Store::with_catalog(400, 12, Some(volume(5)));
        store.checkpoint().unwrap();
        store.put(b"large", &value(1)).unwrap();
        let rest = store.rest();
        let busy = store.seat();
        if before == Some(false) {
            store.checkpoint().unwrap();
        }
        store.kernel.pages.keep_latched(rest[7], &busy);
        if before == Some(true) {
            store.checkpoint_impatiently(Moving::Little);
        }
        let snapshot = store.begin(Isolation::Snapshot, true);
        assert!(store.remove(b"large").unwrap());
        for round in 0..3 {
            store.checkpoint_impatiently(Moving::Little);
            assert!(rest.iter().all(|&page| store.named_block(page) == SealedBlock::NONE));
            store.put(&[round], &value(2 + round)).unwrap();
            store.expect_named_to_be_used("freed");
            let seen = snapshot.get(&store.tree, b"large", |value| value.map(<[u8]>::to_vec)).unwrap();
            assert!(seen == Some(value(1)), "round {round}");
        }
        drop(snapshot);
        store.checkpoint_impatiently(Moving::Little);
        store.expect_named_to_be_used("unseen");
        store.kernel.pages.let_go_of(rest[7], &busy);
        drop(busy);
        store.checkpoint().unwrap();
        store.kernel.pages.sweep_all(&store.seat());
        let (pages, blocks) = store.find_lost();
        assert!(pages == 0 && blocks <= 1, "{pages} page ids, {blocks} blocks");
        store.assert_nothing_leaks();
    }
}

/// Before it latches each page, and when it has, unless others need that page itself; they free the values
/// meanwhile, and use what is free then.
#[test]
fn who_is_stopped_as_it_tells_a_large_value_where_it_is_holds_up_no_checkpoint_that_frees_it() {
    let (mut stops, mut latched) = (0, 0);
    loop {
        let two = Two::new(stops);
        let keys = [b"a", b"b", b"c"];
        // Room below them, to which they are moved.
        two.first.put(b"below", &vec![3; 100 * 440]).unwrap();
        keys.iter().for_each(|key| two.first.put(*key, &value(key[0])).unwrap());
        two.first.checkpoint().unwrap();
        assert!(two.first.remove(b"below").unwrap());
        two.first.checkpoint().unwrap();
        let rest = two.first.rest();
        let (other, stopped_in) = (Arc::clone(&two.second), Arc::new(OnceLock::new()));
        let stopped = Arc::clone(&stopped_in);
        two.first.kernel.pages.telling.before(stops, move || {
            other.take_over();
            let region = &other.kernel.pages.region;
            let all = (1..other.kernel.pages.page_ids().high_water()).map(|page| PageId(page as u32));
            let held = all.into_iter().find(|&page| region.entry(page).word().owner() != 0);
            let is_free = held.is_none_or(|page| rest.contains(&page));
            stopped.set((is_free, held.is_some())).unwrap();
            if is_free {
                keys.iter().for_each(|key| assert!(other.remove(*key).unwrap()));
            }
            for round in 0..3 {
                other.checkpoint_impatiently(if round == 1 { Moving::Much } else { Moving::Little });
                if is_free {
                    other.put(&[b'd', round], &value(100 + round)).unwrap();
                }
            }
        });
        two.first.checkpoint_moving(Moving::Much).unwrap();
        if two.first.kernel.pages.telling.forget() {
            break;
        }
        let &(is_free, is_latched) = stopped_in.get().unwrap();
        latched += u32::from(is_free && is_latched);
        let at = format!("stopped before moment {stops}");
        for round in 0..4 {
            two.first.expect_named_to_be_used(&at);
            for n in 0..3 {
                let expected = is_free.then(|| value(100 + n));
                assert!(two.second.get(&[b'd', n]) == expected, "{at}");
                assert!(two.second.get(keys[usize::from(n)]).is_some() != is_free, "{at}");
            }
            two.second.put(&[b'e', round], &value(200 + round)).unwrap();
            two.first.checkpoint_moving(Moving::Much).unwrap();
            two.second.kernel.pages.sweep_all(&two.second.seat());
        }
        two.first.find_lost();
        two.second.find_lost();
        two.first.kernel.pages.sweep_all(&two.first.seat());
        two.first.find_lost();
        two.first.assert_nothing_leaks();
        stops += 1;
    }
    assert!(latched > 20, "{latched} pages of the values in {stops} moments");
}
