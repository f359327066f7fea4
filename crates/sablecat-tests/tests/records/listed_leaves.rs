//! Folds over trees with many leaves below one parent, of which some are listed at a time, against a model:
//! with bounds, long values and subtrees anywhere, in a cache that holds a part of the tree.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use sablecat::{Database, Each, Env, Read};
use sablecat_os::sim::SimDisk;

use sablecat_tests::dice::Dice;

type Records = BTreeMap<Vec<u8>, Vec<u8>>;
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Takes so many records at most, and says that it wants many or not. Each time that it was shown as many as
/// `every` says, it has something else done.
struct Taking<F> {
    most: usize,
    wants_many: bool,
    every: usize,
    besides: F,
}

impl<F: FnMut()> Each<Vec<(Vec<u8>, Vec<u8>)>> for Taking<F> {
    fn one(
        &mut self,
        mut so_far: Vec<(Vec<u8>, Vec<u8>)>,
        key: &[u8],
        value: &[u8],
    ) -> ControlFlow<Vec<(Vec<u8>, Vec<u8>)>, Vec<(Vec<u8>, Vec<u8>)>> {
        so_far.push((key.to_vec(), value.to_vec()));
        if so_far.len().is_multiple_of(self.every) {
            (self.besides)();
        }
        if so_far.len() < self.most { ControlFlow::Continue(so_far) } else { ControlFlow::Break(so_far) }
    }

    fn wants_many(&self) -> bool {
        self.wants_many
    }
}

/// One of a thousand keys; some are so long that they are in subtrees, in tens below the same stem.
fn key(n: u64, nested: u64) -> Vec<u8> {
    let mut key = (n / 10).to_be_bytes().to_vec();
    if (n / 10).is_multiple_of(nested) && !n.is_multiple_of(10) {
        key.resize(700, b'-');
    }
    key.extend((n % 10).to_be_bytes());
    key
}

fn between((lower, upper): &Bounds, model: &Records) -> Vec<(Vec<u8>, Vec<u8>)> {
    let within = |key: &Vec<u8>| {
        (match lower {
            Bound::Unbounded => true,
            Bound::Included(bound) => key >= bound,
            Bound::Excluded(bound) => key > bound,
        }) && match upper {
            Bound::Unbounded => true,
            Bound::Included(bound) => key <= bound,
            Bound::Excluded(bound) => key < bound,
        }
    };
    model.iter().filter(|(key, _)| within(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn filled(env: &Env, dice: &mut Dice, keys: u64, (nested, long): (u64, u64)) -> (Database, Records) {
    let db = env.database("records").expect("made");
    let mut model = Records::new();
    for n in 0..keys {
        if dice.below(8) > 0 {
            let len = if dice.below(long) == 0 { 3000 } else { dice.of(&[20, 200, 350]) };
            model.insert(key(n, nested), vec![n as u8; len as usize]);
        }
    }
    // Some at a time, in any order or in theirs.
    let mut left: Vec<_> = model.iter().collect();
    if dice.below(2) == 0 {
        for at in (1..left.len()).rev() {
            left.swap(at, dice.below(at as u64 + 1) as usize);
        }
    }
    for some in left.chunks(50) {
        env.write(|txn| some.iter().try_for_each(|(key, value)| txn.insert(&db, key, value)))
            .expect("filled");
    }
    (db, model)
}

#[test]
fn leaves_that_are_listed_some_at_a_time_are_all_shown_once() {
    for seed in 0..12 {
        let mut dice = Dice(seed * 77 + 5);
        let disk = SimDisk::new(seed);
        let env = Env::builder()
            .page_size(2048)
            .background(false)
            .cache_size(dice.of(&[256, 4096]) * 2048)
            .disk(Arc::new(disk))
            .open("env")
            .expect("opened");
        let keys = dice.of(&[150, 400, 1000, 3000]);
        let kinds = dice.of(&[(1000, 10_000), (7, 10_000), (1000, 13), (5, 50), (13, 400)]);
        let (db, mut model) = filled(&env, &mut dice, keys, kinds);
        for _ in 0..40 {
            let mut bound = || {
                let mut key = key(dice.below(keys), kinds.0);
                if dice.below(3) == 0 {
                    key.truncate(dice.below(key.len() as u64 + 1) as usize);
                }
                match dice.below(5) {
                    0 => Bound::Unbounded,
                    1 | 2 => Bound::Included(key),
                    _ => Bound::Excluded(key),
                }
            };
            let bounds = (bound(), bound());
            let expected = between(&bounds, &model);
            let most = match dice.below(3) {
                0 => 1 + dice.below(expected.len() as u64 + 2) as usize,
                _ => usize::MAX,
            };
            let snapshot = env.snapshot().expect("a snapshot");
            let every = dice.of(&[1, 17, 200, 100_000]) as usize;
            let (mut there, mut beside) = (model.clone(), Dice(dice.below(1 << 40)));
            // What comes in or goes meanwhile is not seen, and is so little that the snapshot is kept; other
            // leaves are looked at.
            let mut changes = 0;
            let besides = || {
                let key = key(beside.below(keys), kinds.0);
                if changes < 12 && beside.below(4) == 0 {
                    changes += 1;
                    if there.remove(&key).is_some() {
                        db.remove(&key).expect("removed");
                    } else {
                        let value = vec![beside.below(200) as u8; 300];
                        db.insert(&key, &value).expect("written");
                        there.insert(key, value);
                    }
                } else {
                    assert_eq!(Read::get(&snapshot, &db, &key).expect("read"), model.get(&key).cloned());
                }
            };
            let taking = Taking { most, wants_many: dice.below(2) == 0, every, besides };
            let found = snapshot.fold_each(&db, bounds.clone(), Vec::new(), taking).expect("folded");
            assert!(
                found == expected[..most.min(expected.len())],
                "seed {seed}: {} of {} between {bounds:?}",
                found.len(),
                expected.len(),
            );
            model = there;
        }
    }
}
