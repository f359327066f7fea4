//! Nothing leaks: frames, page ids and blocks, after any mix of commits, aborts, conflicts, removals, sweeps
//! and checkpoints.

use std::collections::BTreeMap;

use super::*;

/// Mostly short keys; in some lives every fifth is so long that it is nested, up to three deep, and shares
/// its stems with others.
fn key(n: u64, nested: bool) -> Vec<u8> {
    let mut key = format!("key {n:03}").into_bytes();
    if nested && n.is_multiple_of(5) {
        key.truncate(5);
        key.resize(50 * (1 + n as usize / 5 % 3), b'.');
        key.extend(n.to_be_bytes());
    }
    key
}

/// Mostly short values, some in pages of their own, some of these past the pool.
fn value(dice: &mut Dice) -> Vec<u8> {
    let len = match dice.below(48) {
        0 | 1 => 600 + dice.below(2000),
        2 => 7000 + dice.below(9000),
        _ => dice.below(120),
    };
    vec![dice.below(256) as u8; len as usize]
}

/// One participant at work, a transaction at a time, against a map.
fn random_life(seed: u64, frames: usize, volume: Option<Volume>) {
    let store = Store::new(frames, 6, volume);
    let mut dice = Dice(seed * 2 + 1);
    let nested = seed.is_multiple_of(2);
    let mut model = BTreeMap::new();
    for step in 0..300 {
        match dice.below(20) {
            0..8 => {
                let (key, value) = (key(dice.below(150), nested), value(&mut dice));
                match store.put(&key, &value) {
                    Ok(()) => drop(model.insert(key, value)),
                    Err(error) => assert!(error.is_full(), "seed {seed}, step {step}: {error}"),
                }
            }
            8..12 => {
                let key = key(dice.below(150), nested);
                match store.remove(&key) {
                    Ok(was_there) => assert_eq!(was_there, model.remove(&key).is_some()),
                    Err(error) => assert!(error.is_full(), "seed {seed}, step {step}: {error}"),
                }
            }
            what @ 12..18 => {
                let mut txn = store.begin(Isolation::Snapshot, false);
                let mut then = model.clone();
                for _ in 0..1 + dice.below(12) {
                    let (key, value) = (key(dice.below(150), nested), value(&mut dice));
                    if dice.below(3) == 0 {
                        txn.set(&store.tree, &key, None).unwrap();
                        then.remove(&key);
                    } else {
                        txn.set(&store.tree, &key, Some(&value)).unwrap();
                        then.insert(key, value);
                    }
                }
                if what == 12 {
                    continue;
                }
                // The transaction's first record changes under it: a conflict after pages were latched and
                // built.
                let loses = what == 13
                    && then.first_key_value().is_some_and(|(key, value)| model.get(key) != Some(value));
                if loses {
                    let (key, _) = then.first_key_value().unwrap();
                    let under: Vec<u8> = vec![0; dice.below(80) as usize + 121];
                    if store.put(key, &under).is_ok() {
                        model.insert(key.clone(), under);
                        let error = txn.commit(Durability::Memory).unwrap_err();
                        assert!(error.is_retryable() || error.is_full(), "{error}");
                    }
                    continue;
                }
                match txn.commit(Durability::Memory) {
                    Ok(_) => model = then,
                    Err(error) => assert!(error.is_full(), "seed {seed}, step {step}: {error}"),
                }
            }
            18 => {
                let seat = store.kernel.pages.participants.sit().unwrap();
                store.kernel.pages.sweep_some(&seat);
                store.kernel.pages.clean(&seat).unwrap();
            }
            // Epochs and moving exclude each other.
            _ if seed % 4 == 3 => _ = store.checkpoint_retaining(&mut dice).unwrap(),
            _ => {
                _ = store
                    .checkpoint_moving(if dice.below(2) == 0 { Moving::Much } else { Moving::Little })
                    .unwrap()
            }
        }
    }
    assert!(store.verified().0.into_iter().eq(model), "seed {seed}");
    store.assert_nothing_leaks();
}

#[test]
fn a_random_life_in_memory_leaks_nothing() {
    for seed in 0..30 {
        random_life(seed, if seed % 3 == 0 { 40 } else { 400 }, None);
    }
}

#[test]
fn a_random_life_on_a_volume_leaks_nothing() {
    for seed in 0..30 {
        random_life(seed, if seed % 3 == 0 { 400 } else { 48 }, Some(volume(seed)));
    }
}

/// Several at once, with their own keys and shared ones, on a pool smaller than the data.
fn lives_together(seed: u64, frames: usize, volume: Option<Volume>) {
    let store = Store::new(frames, 10, volume);
    let mut models: Vec<BTreeMap<_, _>> = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3u64)
            .map(|own| {
                let store = &store;
                scope.spawn(move || {
                    let mut dice = Dice((seed * 3 + own) * 2 + 1);
                    let nested = seed.is_multiple_of(2);
                    let mut model = BTreeMap::new();
                    for _ in 0..300 {
                        // Keys of all threads lie side by side in the same leaves.
                        let key = key(dice.below(60) * 3 + own, nested);
                        let mut value = value(&mut dice);
                        value.truncate(60);
                        if dice.below(3) == 0 {
                            assert_eq!(store.remove(&key).unwrap(), model.remove(&key).is_some());
                        } else {
                            store.put(&key, &value).unwrap();
                            model.insert(key, value);
                        }
                        let known = self::key(dice.below(60) * 3 + own, nested);
                        assert_eq!(store.get(&known), model.get(&known).cloned());
                    }
                    model
                })
            })
            .collect();
        if store.kernel.pages.volume().is_some() {
            for n in 0..20 {
                let seat = store.kernel.pages.participants.sit().unwrap();
                store.kernel.pages.clean(&seat).unwrap();
                store.checkpoint_moving(if n % 2 == 0 { Moving::Much } else { Moving::Little }).unwrap();
            }
        }
        models.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
    });
    let mut model = BTreeMap::new();
    models.into_iter().for_each(|one| model.extend(one));
    assert!(store.verified().0.into_iter().eq(model), "seed {seed}");
    store.assert_nothing_leaks();
}

#[test]
fn lives_together_in_memory_leak_nothing() {
    (0..10).for_each(|seed| lives_together(seed, 256, None));
}

#[test]
fn lives_together_on_a_volume_leak_nothing() {
    (0..10).for_each(|seed| lives_together(seed, 256, Some(volume(seed))));
}

/// The frames that a commit of many pages supersedes serve the next one: no sweep goes to look for others,
/// which are cold in the processor's cache and, in a large pool, were perhaps never touched.
#[test]
fn large_commits_use_their_own_frames_again() {
    let store = Store::new(2000, 4, None);
    let rewrite = |value: &[u8]| {
        let mut txn = store.begin(Isolation::Serializable, false);
        (0..500u32).for_each(|n| txn.set(&store.tree, &n.to_be_bytes(), Some(value)).unwrap());
        txn.commit(Durability::Memory).unwrap();
    };
    (0..3).for_each(|n| rewrite(&[n; 40]));
    let hand = || store.kernel.pages.region.header().hand.0.load(sablecat_os::atomic::Ordering::Relaxed);
    let before = hand();
    (0..20).for_each(|n| rewrite(&[n; 40]));
    assert_eq!(hand(), before);
    assert!(store.verified().1.len() > 64, "more pages than a small commit has");
}
