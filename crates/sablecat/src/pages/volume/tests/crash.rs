//! Power loss at every call: the disk then holds the last generation that was reported, or the one being
//! written, complete.

use sablecat_os::sim::{Fault, SimDisk};

use super::*;
use crate::error::ErrorKind;

/// A small history in which blocks are reused soon.
fn history(seed: u64) -> Vec<Changes> {
    let mut random = seed;
    let mut next = move || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        random >> 33
    };
    (1..7u64)
        .map(|stamp| {
            let far = if stamp > 3 { 400 } else { 40 };
            (0..12)
                .map(|_| ((next() % far) as u32 + 1, (next() % 4 != 0).then_some(stamp << 32 | next())))
                .collect()
        })
        .collect()
}

/// Runs the history until the disk fails. Returns how many checkpoints were reported durable; none if not
/// even creation was.
fn run(disk: &SimDisk, volumes: usize, history: &[Changes]) -> Option<usize> {
    let mut store = Store::create_with(disk, plain(512), volumes).ok()?;
    for (n, changes) in history.iter().enumerate() {
        if store.checkpoint(changes).is_err()
            || store.volume.give_back_tail(&store.blocks, FreeEnd::Steps).is_err()
        {
            // A checkpoint that was done and then not tidied up counts as reported or not alike.
            return Some(n);
        }
        if n == 2 {
            drop(store);
            let Ok(reopened) = Store::open(disk) else { return Some(n + 1) };
            store = reopened;
            if store.learn_free().is_err() {
                return Some(n + 1);
            }
        }
    }
    Some(history.len())
}

#[test]
fn a_crash_at_any_call_leaves_one_whole_generation() {
    for (seed, volumes) in [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2)] {
        let history = history(seed);
        let mut models = vec![Model::new()];
        for changes in &history {
            models.push(after(&models[models.len() - 1], changes));
        }
        let whole = disk(seed);
        assert_eq!(run(&whole, volumes, &history), Some(history.len()));
        for call in 0..=whole.calls() {
            let disk = disk(seed);
            disk.crash_at(call);
            let reported = run(&disk, volumes, &history);
            for outcome in 0..4 {
                let after_crash = disk.crash(outcome * 1000 + call);
                check(
                    &after_crash,
                    volumes,
                    reported,
                    &models,
                    &format!("seed {seed}, call {call}, outcome {outcome}"),
                );
            }
        }
    }
}

fn check(disk: &SimDisk, volumes: usize, reported: Option<usize>, models: &[Model], what: &str) {
    // A process that goes on declares the same volumes; they may not have been added yet.
    let store = match Store::open_with(disk, volumes) {
        Ok(store) => store,
        Err(error) if reported.is_none() => {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{what}: {error}");
            return;
        }
        Err(error) => panic!("{what}: {error}"),
    };
    assert!(store.volume.complaints().is_empty(), "{what}: {:?}", store.volume.complaints());
    let reported = reported.unwrap_or(0);
    let candidates = &models[reported..models.len().min(reported + 2)];
    let Some(found) = candidates.iter().position(|model| store.is(model)) else {
        panic!(
            "{what}: after {reported} checkpoints the disk holds generation {}",
            store.volume.superblock().generation
        );
    };
    let created = if volumes == 0 { 1 } else { 2 };
    assert_eq!(store.volume.superblock().generation, (reported + found + created) as u64, "{what}");

    // Life goes on from there, in the blocks that are free now, and lasts through another crash.
    store.learn_free().expect("no damage");
    let changes = (1..20).map(|page| (page, Some(99))).collect();
    let model = after(&candidates[found], &changes);
    store.checkpoint(&changes).expect("no faults");
    assert!(store.is(&model), "{what}: and then");
    drop(store);
    let again = Store::open(&disk.crash(7)).expect("durable");
    assert!(again.is(&model), "{what}: and after a second crash");
}

/// Kills a process in the last flush of a checkpoint: all it wrote is with the operating system, nothing of
/// it surely on the disk.
fn killed_before_the_last_flush(seed: u64) -> (SimDisk, Store) {
    let (one, two) = (Changes::from([(1, Some(1))]), Changes::from([(1, Some(2)), (2, Some(2))]));
    let rehearse = disk(seed);
    let store = Store::create(&rehearse, 512).expect("no faults");
    store.checkpoint(&one).expect("no faults");
    store.checkpoint(&two).expect("no faults");
    let calls = rehearse.calls();

    let disk = disk(seed);
    let store = Store::create(&disk, 512).expect("no faults");
    store.checkpoint(&one).expect("no faults");
    disk.crash_at(calls - 1);
    assert_eq!(store.checkpoint(&two).expect_err("killed").kind(), ErrorKind::Poisoned);
    disk.clear_faults();
    (disk, store)
}

#[test]
fn an_added_volume_stays() {
    for seed in 0..64 {
        let disk = disk(seed);
        drop(Store::create(&disk, 512).expect("no faults"));
        drop(Store::open_with(&disk, 2).expect("no faults"));
        assert_eq!(Store::open(&disk.crash(seed)).expect("whole").volume.count(), 3, "seed {seed}");
    }
}

#[test]
fn a_superblock_that_an_opener_believed_stays() {
    for seed in 0..64 {
        let (disk, store) = killed_before_the_last_flush(seed);
        drop(store);
        let store = Store::open(&disk).expect("whole");
        assert_eq!(store.volume.superblock().generation, 3);
        drop(store);
        let later = Store::open(&disk.crash(seed)).expect("whole");
        assert_eq!(later.volume.superblock().generation, 3, "what was gone on from is on the disk");
    }
}

#[test]
fn a_checkpointer_that_takes_over_goes_on_from_what_the_dead_one_wrote() {
    for seed in 0..64 {
        let (disk, store) = killed_before_the_last_flush(seed);
        assert_eq!(store.volume.superblock().generation, 2, "nobody was told");
        let newest = Volume::look(&disk, path()).expect("whole");
        let berth = Berth::usual(newest.generation);
        assert!(
            store
                .volume
                .write_draft(&newest.encode(), 4, berth)
                .expect_err("another generation")
                .is_corruption()
        );
        store.volume.write_draft(&newest.encode(), 3, berth).expect("no faults");
        store.assert_is(&Model::from([(1, 2), (2, 2)]));
        let later = Store::open(&disk.crash(seed)).expect("whole");
        later.assert_is(&Model::from([(1, 2), (2, 2)]));
    }
}

#[test]
fn a_failed_flush_is_the_end_and_the_next_opener_finds_one_generation() {
    let history = history(5);
    let mut models = vec![Model::new()];
    for changes in &history {
        models.push(after(&models[models.len() - 1], changes));
    }
    let whole = disk(5);
    run(&whole, 1, &history).expect("no faults");
    for call in 0..whole.calls() {
        let disk = disk(5);
        disk.fail_at(call, Fault::SyncFails);
        let Ok(store) = Store::create_with(&disk, plain(512), 1) else { continue };
        let Some((n, error)) =
            history.iter().enumerate().find_map(|(n, changes)| Some((n, store.checkpoint(changes).err()?)))
        else {
            continue;
        };
        assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
        drop(store);
        // Without and with the power failing as well.
        check(&disk.crash(call), 1, Some(n), &models, &format!("call {call}"));
        check(&disk, 1, Some(n), &models, &format!("call {call}, power on"));
    }
}
