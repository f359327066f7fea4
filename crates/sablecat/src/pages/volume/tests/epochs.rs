//! Retained epochs: what they name stays, and what nothing names any more goes.

use proptest::prelude::*;
use sablecat_os::sim::Survival;

use super::*;
use crate::pages::volume::{Journal, RetainedCheckpoint};

/// Checkpoints of an epoch of which the model is known.
struct Kept {
    epoch: RetainedCheckpoint,
    model: Model,
}

/// One checkpoint that retains the generation in force, if `retain` says so, and drops epochs as `drop` says.
fn checkpoint(store: &Store, changes: &Changes, kept: &[Kept]) -> Result<()> {
    let before = store.volume.superblock();
    let epochs: Vec<RetainedCheckpoint> = kept.iter().map(|kept| kept.epoch).collect();
    store.checkpoint_with(changes, |next| {
        next.journal = Some(Journal::new());
        next.epochs = epochs;
    })?;
    for (_, block) in store.volume.orphans(&before, &store.volume.superblock()) {
        assert!(store.blocks.release(block), "block {block} was in use");
    }
    Ok(())
}

/// That an epoch is as it was.
fn assert_whole(disk: &SimDisk, kept: &Kept) {
    let store = Store::open(&disk.crash_as(Survival::Everything, 1)).expect("a good volume");
    store.volume.go_back_to(&kept.epoch);
    store.assert_is(&kept.model);
}

/// What a checkpoint does: page changes, whether the last state is retained, and which epochs go.
type Round = (Vec<(u32, bool)>, bool, Option<prop::sample::Index>);

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let page = prop_oneof![4 => 1u32..60, 1 => 1u32..5000, 1 => 1u32..200_000];
    let changes = prop::collection::vec((page, prop::bool::weighted(0.8)), 0..12);
    prop::collection::vec(
        (changes, prop::bool::weighted(0.6), prop::option::of(any::<prop::sample::Index>())),
        1..25,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Epochs are whole for as long as they are retained; and the blocks in use are those that a scan of all
    /// maps finds, no more, no less.
    #[test]
    fn epochs_stay_whole_and_nothing_leaks(
        rounds in rounds(),
        block_size in prop_oneof![Just(512usize), Just(4096)],
        volumes in 0usize..3,
    ) {
        let disk = disk(1);
        let store = Store::create_with(&disk, plain(block_size), volumes).expect("no faults");
        let (mut model, mut kept): (Model, Vec<Kept>) = (Model::new(), Vec::new());
        for (stamp, (pages, retain, dropped)) in rounds.into_iter().enumerate() {
            if retain && store.volume.superblock().map_height > 0 && kept.len() < 8 {
                kept.push(Kept { epoch: store.volume.superblock().epoch(), model: model.clone() });
            }
            if let Some(dropped) = dropped.filter(|_| !kept.is_empty()) {
                kept.remove(dropped.index(kept.len()));
            }
            let changes: Changes =
                pages.into_iter().map(|(page, there)| (page, there.then_some(stamp as u64))).collect();
            checkpoint(&store, &changes, &kept).expect("no faults");
            for (page, stamp) in changes {
                match stamp {
                    Some(stamp) => drop(model.insert(page, stamp)),
                    None => drop(model.remove(&page)),
                }
            }
            store.assert_is(&model);
            kept.iter().for_each(|kept| assert_whole(&disk, kept));
            let found = store.volume.scan().expect("good maps");
            for block in store.blocks.below_marks() {
                prop_assert_eq!(store.blocks.is_used(block), found.blocks.contains(block), "block {}", block);
            }
        }
    }
}

#[test]
fn a_damaged_epoch_harms_nobody_else() {
    let disk = disk(1);
    let store = Store::create(&disk, 512).expect("no faults");
    let some = |stamp| -> Changes { (1..200).map(|page| (page, Some(stamp))).collect() };
    checkpoint(&store, &some(1), &[]).expect("no faults");
    let kept = [Kept { epoch: store.volume.superblock().epoch(), model: Model::new() }];
    checkpoint(&store, &some(2), &kept).expect("no faults");
    let root = kept[0].epoch.map_root.block();
    store.volume.file().write_at(&[0xff; 512], root.0 * 512).expect("no faults");
    // Its blocks cannot be found, and are free; those of the others are not.
    let found = store.volume.scan().expect("the map in force is good");
    assert!(found.blocks.contains(root));
    store.assert_is(&(1..200).map(|page| (page, 2)).collect());
    checkpoint(&store, &some(3), &[]).expect("no faults");
    store.assert_is(&(1..200).map(|page| (page, 3)).collect());
}
