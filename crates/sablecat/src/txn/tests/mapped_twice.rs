//! One region mapped at two addresses, a kernel over each: what is done through one is seen through the
//! other.

use std::collections::BTreeMap;

use super::*;
use crate::error::ErrorKind;
use crate::txn::catalog;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Two kernels over one region, and a tree made by a commit of the first.
pub(super) fn two_kernels(frames: usize) -> [Store; 2] {
    let first = Store::new(frames, 16, None);
    let again = first.kernel.pages.region.again().expect("memory");
    assert_ne!(
        again.frame_pointer(crate::types::FrameId(1)),
        first.kernel.pages.region.frame_pointer(crate::types::FrameId(1))
    );
    let entry = first
        .kernel
        .create_tree(&first.seat(), CatalogEntry::new(TreeId(2), VolumeId::MAIN, Method::Btree))
        .unwrap();
    let second = Store { kernel: kernel(again, None), tree: first.tree.clone() };
    // The second learns of the tree from what the first has committed.
    assert_eq!(second.get(&catalog::note_key(TreeId(2))), Some(entry.encode()));
    let tree = entry.tree_of_note().unwrap();
    [first, second].map(|store| Store { tree: tree.clone(), ..store })
}

fn key(n: u64) -> Vec<u8> {
    format!("key {n:03}").into_bytes()
}

#[test]
fn each_mapping_sees_what_is_done_through_the_other() {
    for seed in 0..10 {
        let sides = two_kernels(1024);
        let mut dice = Dice(seed * 2 + 1);
        let mut model = BTreeMap::new();
        let mut snapshots: Vec<(Transaction<'_>, Model)> = Vec::new();
        for step in 0..1500u64 {
            let (this, other) =
                if dice.below(2) == 0 { (&sides[0], &sides[1]) } else { (&sides[1], &sides[0]) };
            let key = key(dice.below(250));
            match dice.below(16) {
                0..8 => {
                    let value = vec![step as u8; 20 + dice.below(60) as usize];
                    this.put(&key, &value).unwrap();
                    model.insert(key.clone(), value);
                }
                8..11 => assert_eq!(this.remove(&key).unwrap(), model.remove(&key).is_some()),
                11 if snapshots.len() < 3 => {
                    snapshots.push((this.begin(Isolation::Snapshot, true), model.clone()))
                }
                11 => drop(snapshots.remove(dice.below(3) as usize)),
                12 => {
                    let seat = this.kernel.pages.participants.sit().unwrap();
                    this.kernel.pages.sweep_some(&seat);
                }
                13 => {
                    for (txn, then) in &mut snapshots {
                        let seen = txn.get(&this.tree, &key, |value| value.map(<[u8]>::to_vec)).unwrap();
                        assert_eq!(seen, then.get(&key).cloned(), "seed {seed}, step {step}");
                    }
                }
                _ => {
                    let mut txn = this.begin(Isolation::Serializable, false);
                    for n in 0..8 {
                        let key = self::key(dice.below(250));
                        txn.set(&this.tree, &key, Some(&[n; 30])).unwrap();
                        model.insert(key, vec![n; 30]);
                    }
                    txn.commit(Durability::Memory).unwrap();
                }
            }
            assert_eq!(other.get(&key), model.get(&key).cloned(), "seed {seed}, step {step}");
        }
        for (txn, then) in snapshots {
            for n in 0..250 {
                assert_eq!(
                    txn.get(&sides[0].tree, &key(n), |value| value.map(<[u8]>::to_vec)).unwrap(),
                    then.get(&key(n)).cloned()
                );
            }
        }
        for side in &sides {
            assert!(side.verified().0.into_iter().eq(model.clone()), "seed {seed}");
        }
        sides[0].kernel.pages.census();
    }
}

/// Transactions through both mappings add to one record each of two leaves, while others insert, remove and
/// look.
#[test]
fn threads_work_through_both_mappings_at_once() {
    let sides = two_kernels(1024);
    let (first, last) = (key(0), key(999));
    for key in [&first, &last] {
        sides[0].put(key, &0u64.to_le_bytes()).unwrap();
    }
    let number = |value: Option<&[u8]>| {
        u64::from_le_bytes(value.expect("it is there").try_into().expect("eight bytes"))
    };
    std::thread::scope(|scope| {
        for (n, side) in sides.iter().enumerate() {
            let (first, last) = (&first, &last);
            scope.spawn(move || {
                for _ in 0..200 {
                    let mut txn = side.begin(Isolation::Serializable, false);
                    loop {
                        let result = (|| {
                            let one = txn.get(&side.tree, first, number)?;
                            assert_eq!(txn.get(&side.tree, last, number)?, one, "one state");
                            txn.set(&side.tree, first, Some(&(one + 1).to_le_bytes()))?;
                            txn.set(&side.tree, last, Some(&(one + 1).to_le_bytes()))?;
                            txn.commit(Durability::Memory)
                        })();
                        match result {
                            Ok(_) => break,
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
                        }
                        txn.restart();
                    }
                }
            });
            scope.spawn(move || {
                for round in 0..600u64 {
                    let key = key(1 + (round * 37 + n as u64) % 100 * 2 + n as u64);
                    side.put(&key, &[n as u8; 50]).unwrap();
                    assert_eq!(side.get(&key), Some(vec![n as u8; 50]));
                    assert!(round % 3 != 0 || side.remove(&key).unwrap());
                }
            });
            scope.spawn(move || {
                for _ in 0..100 {
                    let txn = side.begin(Isolation::Snapshot, true);
                    let one = txn.get(&side.tree, first, number).unwrap();
                    assert_eq!(txn.get(&side.tree, last, number).unwrap(), one, "one state");
                    let seat = side.kernel.pages.participants.sit().unwrap();
                    side.kernel.pages.sweep_some(&seat);
                    assert_eq!(txn.get(&side.tree, first, number).unwrap(), one, "one state");
                }
            });
        }
    });
    for side in &sides {
        assert_eq!(side.kernel.read_one(&side.tree, &first, number).unwrap(), 400);
    }
    assert_eq!(sides[0].verified().0, sides[1].verified().0);
    sides[1].kernel.pages.census();
}

/// Record locks are words of the region too.
#[test]
fn a_lock_taken_through_one_is_held_against_the_other() {
    let [first, second] = two_kernels(64);
    first.put(b"key", b"value").unwrap();
    let mut holder = first.begin(Isolation::Serializable, false);
    holder.lock(&first.tree, b"key").unwrap();
    let options = Options {
        isolation: Isolation::Serializable,
        durability: Durability::Memory,
        read_only: false,
        patience: Duration::ZERO,
    };
    let mut other = Transaction::begin(&second.kernel, options).unwrap();
    assert_eq!(other.lock(&second.tree, b"key").unwrap_err().kind(), ErrorKind::Timeout);
    drop(holder);
    other.lock(&second.tree, b"key").unwrap();
}
