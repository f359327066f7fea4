//! Trees with a page that passes the check and is wrong: an operation that reads or changes them gets an
//! error, or wrong data as far as nothing could tell, and nothing worse. Which page, and what is wrong with
//! it, is chance.

use std::ops::{Bound, ControlFlow};

use super::*;
use crate::access::{Each, Method};
use crate::error::ErrorKind;

/// Of each kind of tree pages are damaged by these seeds.
fn seeds() -> std::ops::Range<u64> {
    let number = |name, default| std::env::var(name).map_or(default, |number| number.parse().unwrap());
    let from = number("SABLECAT_TEST_DAMAGES_FROM", 1);
    from..from + number("SABLECAT_TEST_DAMAGES", 150)
}

const RECORDS: u32 = 260;

fn key(n: u32) -> Vec<u8> {
    match n % 13 {
        // In subtrees of their own, and in one of several levels.
        0 => [vec![b'a' + (n / 13 % 3) as u8; 200], n.to_be_bytes().to_vec()].concat(),
        _ => n.to_be_bytes().to_vec(),
    }
}

fn value(n: u32) -> Vec<u8> {
    vec![n as u8; if n.is_multiple_of(19) { 700 } else { 12 }]
}

fn store(method: Method) -> Store {
    // Any number may be that of a page, as where there are files that say so.
    filled(Store::of_geometry(Geometry { pages_max: 1 << 32, ..geometry(1500, 4) }, None), method)
}

/// With records in a tree of this method.
fn filled(store: Store, method: Method) -> Store {
    let store = if method == Method::Hash {
        store.made_hashed(7)
    } else {
        let tree = store.tree.with(|tree| tree.method = method);
        store.in_place(|direct| tree.tree().format(direct.write(tree.root).unwrap()));
        Store { tree, ..store }
    };
    (0..RECORDS).for_each(|n| store.put(&key(n), &value(n)).unwrap());
    store
}

/// Makes something else of a page, which passes the check. False if it would not.
fn damage(store: &Store, pages: &[PageId], dice: &mut Dice) -> bool {
    let one = |dice: &mut Dice| pages[dice.below(pages.len() as u64) as usize];
    let (page, other) = (one(dice), one(dice));
    damage_one(store, page, other, dice)
}

fn damage_one(store: &Store, page: PageId, other: PageId, dice: &mut Dice) -> bool {
    let how = dice.below(4);
    store.in_place(|direct| {
        let image = direct.latched(other).unwrap().to_vec();
        let bytes = direct.write(page).unwrap();
        let before = bytes.to_vec();
        for _ in 0..=dice.below(3) {
            // Behind what says which page it is, and of when.
            let at = 16 + dice.below(bytes.len() as u64 - 16) as usize;
            match how {
                0 => bytes[at] ^= 1 << dice.below(8),
                1 => bytes[at] = dice.below(256) as u8,
                // Leads to a page that something else leads to, or to itself.
                2 => {
                    let at = at / 4 * 4;
                    bytes[at..at + 4].copy_from_slice(&other.0.to_le_bytes());
                }
                _ => bytes[16..].copy_from_slice(&image[16..]),
            }
        }
        let passes = access::check_page(bytes).is_ok() && bytes[..] != before[..];
        if !passes {
            bytes.copy_from_slice(&before);
        }
        passes
    })
}

/// Does a bit of everything to a tree.
fn use_it(store: &Store, dice: &mut Dice) -> Result<()> {
    let n = dice.below(u64::from(RECORDS)) as u32;
    match dice.below(10) {
        0 => _ = store.kernel.read_one(&store.tree, &key(n), |value| value.map(<[u8]>::to_vec))?,
        1 => _ = store.scan(dice.below(2) == 0)?,
        2 => store.put(&key(n), &value(n + 1))?,
        3 => store.put(&[&key(n)[..], b"more"].concat(), &value(n))?,
        4 => _ = store.remove(&key(n))?,
        5 => {
            let mut txn = store.begin(Isolation::Serializable, false);
            for n in n..n + 30 {
                txn.get_owned(&store.tree, &key(n))?;
                txn.set(&store.tree, &key(n), n.is_multiple_of(3).then_some(&[9; 60][..]))?;
            }
            txn.commit(Durability::Memory)?;
        }
        6 => {
            let mut txn = store.begin(Isolation::Snapshot, false);
            let span = if store.tree.method == Method::Hash || dice.below(4) == 0 {
                (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded)
            } else {
                (std::ops::Bound::Included(key(n)), std::ops::Bound::Excluded(key(n + 40)))
            };
            txn.remove_range(&store.tree, span)?;
            txn.commit(Durability::Memory)?;
        }
        7 if store.tree.method.counts() => {
            let txn = store.begin(Isolation::Serializable, false);
            txn.nth(&store.tree, u64::from(n))?;
            txn.count(&store.tree, &(std::ops::Bound::Included(key(n)), std::ops::Bound::Unbounded))?;
        }
        7 => _ = store.kernel.estimate(&store.tree)?,
        8 => {
            let tree = store.tree.tree();
            store.in_place(|direct| {
                direct.change(&tree, &key(n), n.is_multiple_of(2).then_some(&[3; 50][..]))?;
                direct.change(&tree, &[&key(n + 1)[..], b"in place"].concat(), Some(&value(n)))
            })?;
        }
        _ => _ = store.problems(),
    }
    Ok(())
}

#[test]
fn damage_that_passes_the_check_ends_nothing_in_a_panic() {
    for method in [Method::Btree, Method::Counted, Method::Hash] {
        let mut refused = 0;
        for seed in seeds() {
            let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let store = store(method);
            let mut pages: Vec<PageId> = store.verified().1.into_iter().collect();
            pages.sort_unstable();
            while !damage(&store, &pages, &mut dice) {}
            // Shown if it panics.
            println!("{method:?}, seed {seed}");
            for _ in 0..12 {
                if let Err(error) = use_it(&store, &mut dice) {
                    refused += 1;
                    let is_clear = matches!(
                        error.kind(),
                        ErrorKind::Corruption | ErrorKind::CacheFull | ErrorKind::Conflict
                    );
                    assert!(is_clear, "{:?}: {error}", error.kind());
                }
            }
        }
        assert!(refused > 0, "{refused} errors");
    }
}

/// The same in commits that build beside what there is: of more pages than an ordinary one may have.
#[test]
fn damage_that_passes_the_check_ends_no_large_commit_in_a_panic_or_never() {
    for method in [Method::Btree, Method::Counted, Method::Hash] {
        let mut refused = 0;
        for seed in seeds() {
            let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let geometry = Geometry { pages_max: 1 << 32, ..geometry(128, 6) };
            let store = Store::of_geometry(geometry, Some(volume(seed))).and_catalog();
            let store = filled(store, method);
            let mut pages: Vec<PageId> = store.verified().1.into_iter().collect();
            pages.sort_unstable();
            while !damage(&store, &pages, &mut dice) {}
            // Shown if it panics, or does not end.
            println!("{method:?}, seed {seed}");
            for _ in 0..4 {
                if let Err(error) = change_much(&store, &mut dice) {
                    refused += 1;
                    // Not found is a tree whose root says that it is another's.
                    let is_clear = matches!(
                        error.kind(),
                        ErrorKind::Corruption
                            | ErrorKind::CacheFull
                            | ErrorKind::Conflict
                            | ErrorKind::NotFound
                    );
                    assert!(is_clear, "{:?}: {error}", error.kind());
                }
            }
        }
        assert!(refused > 0, "{refused} errors");
    }
}

/// Changes most records, or removes a range of them and changes others.
fn change_much(store: &Store, dice: &mut Dice) -> Result<()> {
    let mut txn = store.begin(Isolation::ReadCommitted, false);
    let n = dice.below(u64::from(RECORDS)) as u32;
    if dice.below(2) == 0 {
        let span = if store.tree.method == Method::Hash || dice.below(4) == 0 {
            (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded)
        } else {
            (std::ops::Bound::Included(key(n)), std::ops::Bound::Excluded(key(n + 40)))
        };
        txn.remove_range(&store.tree, span)?;
    }
    for n in (0..RECORDS).filter(|n| n % 5 < 3) {
        txn.set(&store.tree, &key(n), (n % 5 < 2).then_some(&[9; 40][..]))?;
    }
    txn.commit(Durability::Memory).map(drop)
}

#[test]
fn a_record_that_its_key_does_not_lead_to_does_not_keep_a_large_commit_for_ever() {
    let (sought, mut refused) = (key(200), 0);
    for other in 1..=40 {
        let store = filled(Store::with_catalog(128, 6, Some(volume(1))), Method::Hash);
        let tree = store.tree.tree();
        store.in_place(|direct| {
            let bucket = tree.find(direct, tree.sought(&sought)).unwrap();
            let bytes = direct.write(bucket).unwrap();
            let at = bytes.windows(5).position(|bytes| bytes == [0, 0, 0, 200, 200]).unwrap();
            // Its key becomes another.
            bytes[at] = other;
            access::check_page(bytes).unwrap();
        });
        let mut txn = store.begin(Isolation::ReadCommitted, false);
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        txn.remove_range(&store.tree, all).unwrap();
        (0..RECORDS).for_each(|n| txn.set(&store.tree, &key(n), Some(&[9; 40])).unwrap());
        if let Err(error) = txn.commit(Durability::Memory) {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            refused += 1;
        }
    }
    assert!(refused > 0, "no commit came to the record");
}

/// Counts records, of which it wants many or not.
struct Shown {
    wants_many: bool,
}

impl Each<u32> for Shown {
    fn one(&mut self, so_far: u32, _: &[u8], _: &[u8]) -> ControlFlow<u32, u32> {
        assert!(so_far < 1 << 20, "a fold comes to the same leaves again and again");
        ControlFlow::Continue(so_far + 1)
    }

    fn wants_many(&self) -> bool {
        self.wants_many
    }
}

/// With so many leaves below one parent that they are listed some at a time.
#[test]
fn damage_that_passes_the_check_ends_no_fold_over_many_leaves_in_a_panic_or_never() {
    const MANY: u32 = 2000;
    let (mut refused, mut most) = (0, 0);
    for seed in seeds() {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let store = store(Method::Btree);
        (RECORDS..MANY).for_each(|n| store.put(&key(n), &value(n)).unwrap());
        let pages: Vec<PageId> = store.verified().1.into_iter().collect();
        let tree = store.tree.tree();
        // Those that lead to others.
        let mut inner = HashSet::<PageId>::from_iter(pages.iter().copied());
        store.in_place(|direct| {
            for n in 0..MANY {
                inner.remove(&tree.find(direct, tree.sought(&n.to_be_bytes())).unwrap());
            }
        });
        let (mut pages, mut inner) = (pages, Vec::from_iter(inner));
        pages.sort_unstable();
        inner.sort_unstable();
        let one = |dice: &mut Dice, of: &[PageId]| of[dice.below(of.len() as u64) as usize];
        let all = pages.len() as u32;
        while !damage_one(&store, one(&mut dice, &inner), one(&mut dice, &pages), &mut dice) {}
        // Shown if it panics.
        println!("seed {seed}, {all} pages");
        for _ in 0..8 {
            let txn = store.begin(Isolation::Serializable, false);
            let mut bound = || {
                let key = key(dice.below(u64::from(MANY)) as u32);
                [Bound::Unbounded, Bound::Included(key.clone()), Bound::Excluded(key)][dice.below(3) as usize]
                    .clone()
            };
            let (span, wants_many) = ((bound(), bound()), dice.below(2) == 0);
            match txn.fold_committed(&store.tree, span, true, 0, Shown { wants_many }) {
                Ok(shown) => most = most.max(shown),
                Err(error) => {
                    refused += 1;
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                }
            }
        }
    }
    assert!(refused > 0 && most > 0, "{refused} errors, {most} records at most");
    println!("{refused} errors, {most} records at most");
}
