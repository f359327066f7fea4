//! Many generations against a `BTreeMap`.

use proptest::prelude::*;

use super::*;
use crate::pages::allocation::first_within;
use crate::pages::volume::map::{coverage, height_max};

/// Page numbers near 1, near the edges of leaves and levels, and anywhere.
fn page(page_size: usize) -> impl Strategy<Value = u32> {
    let span = coverage(page_size, 1);
    let edges: Vec<u32> = (1..=height_max(page_size))
        .map(|height| coverage(page_size, height))
        .chain([span * 2, span * 7, 1 << 32])
        .flat_map(|edge| [edge - 2, edge - 1, edge, edge + 1])
        .filter_map(|edge| u32::try_from(edge).ok())
        .filter(|&page| page < u32::MAX)
        .collect();
    prop_oneof![6 => 1u32..200, 3 => prop::sample::select(edges), 1 => 1..u32::MAX]
}

fn changes(page_size: usize, stamp: u64) -> impl Strategy<Value = Changes> {
    let change =
        prop_oneof![3 => any::<u16>().prop_map(move |n| Some(stamp << 16 | u64::from(n))), 2 => Just(None)];
    prop::collection::btree_map(page(page_size), change, 0..25)
}

fn history() -> impl Strategy<Value = (Codec, usize, Vec<(Changes, bool)>)> {
    (9u32..=16, prop_oneof![Just(0), Just(8), Just(32)]).prop_flat_map(|(power, trailer_bytes)| {
        let codec = Codec::new(1 << power, trailer_bytes).expect("a possible size");
        let page_size = codec.page_size();
        let steps: Vec<_> = (1..12).map(|stamp| (changes(page_size, stamp), any::<bool>())).collect();
        (Just(codec), 0usize..4, steps)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn every_generation_is_what_was_checkpointed((codec, volumes, steps) in history()) {
        let disk = disk(1);
        let mut store = Store::create_with(&disk, codec, volumes).expect("no faults");
        let mut model = Model::new();
        store.assert_is(&model);
        for (changes, reopen) in steps {
            store.checkpoint(&changes).expect("no faults");
            model = after(&model, &changes);
            store.assert_is(&model);
            if reopen {
                drop(store);
                store = Store::open(&disk).expect("no faults");
                store.assert_is(&model);
                store.learn_free().expect("no damage");
            }
            // The allocator and the map agree about every block.
            let in_use = store.volume.scan().expect("no damage");
            prop_assert_eq!(store.blocks.used_count(), in_use.blocks.count());
            prop_assert!(
                store
                    .blocks
                    .below_marks()
                    .all(|block| store.blocks.is_used(block) == in_use.blocks.contains(block))
            );
            let _ = store.volume.give_back_tail(&store.blocks, FreeEnd::Steps).expect("no faults");
        }
        // Without pages there is no map.
        let all = model.keys().map(|&page| (page, None)).collect();
        store.checkpoint(&all).expect("no faults");
        store.assert_is(&Model::new());
        let reserved: u64 =
            store.blocks.volumes().map(|volume| first_within(volume, codec.block_size())).sum();
        prop_assert_eq!(store.blocks.used_count(), reserved);
    }
}

#[test]
fn the_generation_before_stays_whole() {
    let disk = disk(1);
    let store = Store::create(&disk, 512).expect("no faults");
    let mut model = Model::new();
    for stamp in 1..40 {
        let before = store.volume.superblock();
        let changes = (0..30)
            .map(|n| (1 + (n * n * 37 + stamp as u32 * 11) % 4000, (n % 4 != 0).then_some(stamp)))
            .collect();
        let freed = store.checkpoint_keeping(&changes).expect("no faults");
        // As after a crash that lost the newer superblock.
        let now = store.volume.superblock();
        store.volume.adopt(before, Berth::usual(stamp + 1));
        store.assert_is(&model);
        store.volume.adopt(now, Berth::usual(stamp));
        model = after(&model, &changes);
        store.assert_is(&model);
        for block in freed {
            store.blocks.release(block);
        }
    }
}

#[test]
fn a_checkpoint_of_nothing_writes_no_map_block() {
    let disk = disk(1);
    let store = Store::create(&disk, 4096).expect("no faults");
    store.checkpoint(&Changes::from([(5, Some(1))])).expect("no faults");
    let used = store.blocks.used_count();
    assert_eq!(store.checkpoint_keeping(&Changes::new()).expect("no faults"), []);
    assert_eq!(
        store.checkpoint_keeping(&Changes::from([(6, None), (4_000_000_000, None)])).expect("no faults"),
        []
    );
    assert_eq!(store.blocks.used_count(), used);
    assert_eq!(store.volume.superblock().generation, 4);
    store.assert_is(&Model::from([(5, 1)]));
}

#[test]
fn a_map_grows_by_many_levels_over_a_root_that_stays() {
    for page_size in [512, 1024, 4096, 65536] {
        let disk = disk(1);
        let store = Store::create(&disk, page_size).expect("no faults");
        let mut model = Model::from([(3, 1)]);
        store.checkpoint(&Changes::from([(3, Some(1))])).expect("no faults");
        let heights = 2..=height_max(page_size);
        let far = heights
            .rev()
            .step_by(3)
            .map(|height| (coverage(page_size, height - 1)) as u32 + 7)
            .collect::<Vec<_>>();
        for (n, page) in far.into_iter().rev().enumerate() {
            let stamp = n as u64 + 2;
            store.checkpoint(&Changes::from([(page, Some(stamp))])).expect("no faults");
            model.insert(page, stamp);
            store.assert_is(&model);
        }
        assert_eq!(store.volume.superblock().map_height, height_max(page_size));
        assert_eq!(store.blocks.used_count(), store.volume.scan().expect("no damage").blocks.count());
    }
}

#[test]
fn the_file_grows_in_steps_and_shrinks() {
    let disk = disk(1);
    let store = Store::create(&disk, 4096).expect("no faults");
    let length = || store.volume.file().len().expect("no faults");
    assert_eq!(length(), 131_072);
    store.checkpoint(&Changes::from([(1, Some(1))])).expect("no faults");
    assert_eq!(length(), 131_072 + 65_536);
    store.checkpoint(&(1..5000).map(|page| (page, Some(2))).collect()).expect("no faults");
    let large = length();
    assert!((5000 * 4096..5000 * 4096 * 9 / 8).contains(&large), "{large}");
    store.checkpoint(&(2..5000).map(|page| (page, None)).collect()).expect("no faults");
    // What is left was written at the end, so it is moved before the end can go.
    store.checkpoint(&Changes::from([(1, Some(3))])).expect("no faults");
    let _ = store.volume.give_back_tail(&store.blocks, FreeEnd::Steps).expect("no faults");
    assert!(length() < 400_000, "{}", length());
    store.assert_is(&Model::from([(1, 3)]));
    store.checkpoint(&(1..500).map(|page| (page, Some(4))).collect()).expect("no faults");
    store.assert_is(&(1..500).map(|page| (page, 4)).collect());
}

#[test]
fn a_full_disk_leaves_the_generation_in_force_and_its_blocks_free() {
    let disk = disk(1);
    let store = Store::create(&disk, 4096).expect("no faults");
    store.checkpoint(&(1..100).map(|page| (page, Some(1))).collect()).expect("no faults");
    let model: Model = (1..100).map(|page| (page, 1)).collect();
    let used = store.blocks.used_count();
    disk.set_capacity(store.volume.file().len().expect("no faults"));
    // Room for no more pages: the write of the pages fails. The map alone: its blocks come back.
    let changes: Vec<_> = (1..60_000).map(|page| (PageId(page * 600), SealedBlock(40))).collect();
    let mut next = store.volume.superblock();
    next.pages_high = u32::MAX;
    let berth = store.volume.berths_of_next().next().expect("several");
    let plan = CheckpointPlan {
        changes: &changes,
        blocks: &store.blocks,
        rewrite_from: BlockId(u64::MAX),
        marks: Marks::Now,
        next,
        berth,
    };
    let error = store.volume.write_checkpoint(plan, &mut |_| Ok(())).expect_err("full");
    assert!(error.is_full(), "{error}");
    assert_eq!(store.blocks.used_count(), used);
    store.assert_is(&model);
    drop(store);
    Store::open(&disk).expect("still whole").assert_is(&model);
}
