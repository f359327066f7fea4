//! Serialisable transactions by turns, against a model: what one has read when it commits is what the newest
//! state says, by whatever access method, and however much was read in turns.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use sablecat::{Database, Durability, Env, ErrorKind, Isolation, Method, Txn, TxnOptions};
use sablecat_os::sim::SimDisk;
use sablecat_tests::dice::Dice;

type Key = Vec<u8>;
type Records = BTreeMap<Key, Vec<u8>>;
type Own = BTreeMap<Key, Option<Vec<u8>>>;

#[derive(Clone, Debug, PartialEq)]
enum Look {
    Get(Key),
    /// So many records at most, from either end.
    Scan(Bound<Key>, Bound<Key>, bool, usize),
    Fold(Bound<Key>, Bound<Key>),
    Rank(Key),
    All,
}

#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Value(Option<Vec<u8>>),
    Records(Vec<(Key, Vec<u8>)>),
    Number(u64),
}

struct Turn<'e> {
    txn: Txn<'e>,
    /// The state that it sees.
    then: Records,
    own: Own,
    kept: Vec<(sablecat::Savepoint, Own)>,
    looks: Vec<(Look, Own, Seen)>,
}

fn over(records: &Records, own: &Own) -> Records {
    let mut all = records.clone();
    for (key, value) in own {
        match value {
            Some(value) => all.insert(key.clone(), value.clone()),
            None => all.remove(key),
        };
    }
    all
}

fn is_empty(lower: &Bound<Key>, upper: &Bound<Key>) -> bool {
    match (lower, upper) {
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a >= b,
        _ => false,
    }
}

fn expected(look: &Look, records: &Records, own: &Own) -> Seen {
    if let Look::Get(key) = look {
        return Seen::Value(own.get(key).cloned().unwrap_or_else(|| records.get(key).cloned()));
    }
    let all = over(records, own);
    let pairs = |lower: &Bound<Key>, upper: &Bound<Key>| {
        if is_empty(lower, upper) {
            return Vec::new();
        }
        all.range((lower.clone(), upper.clone())).map(|(k, v)| (k.clone(), v.clone())).collect::<Vec<_>>()
    };
    match look {
        Look::Get(_) => unreachable!(),
        Look::Scan(lower, upper, forward, most) => {
            let mut found = pairs(lower, upper);
            if !forward {
                found.reverse();
            }
            found.truncate(*most);
            Seen::Records(found)
        }
        Look::Fold(lower, upper) => Seen::Records(pairs(lower, upper)),
        Look::Rank(key) => Seen::Number(all.range(..key.clone()).count() as u64),
        Look::All => Seen::Records(all.into_iter().collect()),
    }
}

fn seen(look: &Look, txn: &Txn<'_>, db: &Database) -> sablecat::Result<Seen> {
    Ok(match look {
        Look::Get(key) => Seen::Value(txn.get(db, key)?),
        Look::Scan(lower, upper, forward, most) => {
            if is_empty(lower, upper) {
                return Ok(Seen::Records(Vec::new()));
            }
            let range = txn.range(db, (lower.clone(), upper.clone()))?;
            let found: sablecat::Result<Vec<_>> =
                if *forward { range.take(*most).collect() } else { range.rev().take(*most).collect() };
            Seen::Records(found?)
        }
        Look::Fold(lower, upper) => {
            if is_empty(lower, upper) {
                return Ok(Seen::Records(Vec::new()));
            }
            let found =
                txn.fold(db, (lower.clone(), upper.clone()), Vec::new(), |mut found, key, value| {
                    found.push((key.to_vec(), value.to_vec()));
                    std::ops::ControlFlow::Continue(found)
                })?;
            Seen::Records(found)
        }
        Look::Rank(key) => Seen::Number(txn.rank(db, key)?),
        Look::All => {
            let mut found = txn.range(db, ..)?.collect::<sablecat::Result<Vec<_>>>()?;
            found.sort();
            Seen::Records(found)
        }
    })
}

/// Short keys, and such that are nested, some below the same stems.
fn key(dice: &mut Dice, method: Method, page: usize) -> Key {
    let n = dice.below(300);
    let stem = page / 8 - 16;
    let long = matches!(method, Method::Btree | Method::Hash | Method::Counted);
    let n4 = format!("{n:04}").into_bytes();
    match n % 10 {
        8 if long => [&vec![b'0' + (n / 10 % 3) as u8; stem][..], &n4].concat(),
        9 if long => [&vec![b'0' + (n / 10 % 2) as u8; 2 * stem][..], &n4].concat(),
        _ => n4,
    }
}

fn value(dice: &mut Dice) -> Vec<u8> {
    let len = dice.of(&[0, 3, 8, 20, 40, 40, 90]);
    vec![dice.below(3) as u8; len]
}

fn bound(dice: &mut Dice, method: Method, page: usize) -> Bound<Key> {
    match dice.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key(dice, method, page)),
        _ => Bound::Excluded(key(dice, method, page)),
    }
}

fn some_look(dice: &mut Dice, method: Method, page: usize) -> Look {
    let what = dice.below(if method == Method::Counted { 12 } else { 10 });
    match what {
        _ if method == Method::Hash => {
            if dice.below(20) == 0 {
                Look::All
            } else {
                Look::Get(key(dice, method, page))
            }
        }
        0..6 => Look::Get(key(dice, method, page)),
        6..8 => {
            let (lower, upper) = (bound(dice, method, page), bound(dice, method, page));
            Look::Scan(lower, upper, dice.below(2) == 0, dice.of(&[1, 3, 20, 1000]))
        }
        8..10 => Look::Fold(bound(dice, method, page), bound(dice, method, page)),
        _ => Look::Rank(key(dice, method, page)),
    }
}

fn is_usual(error: &sablecat::Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::SnapshotTooOld | ErrorKind::Deadlock)
}

/// How many transactions that wrote committed, and how many could not.
fn life(seed: u64, method: Method, cache: Option<u64>, page: usize) -> (u64, u64) {
    let mut dice = Dice(seed);
    let disk = SimDisk::new(seed);
    let mut builder = Env::builder()
        .page_size(page)
        .background(false)
        .log_segment_size(1 << 20)
        .newest_layer_bytes(4096)
        .durability(Durability::NoSync)
        .disk(Arc::new(disk));
    if let Some(cache) = cache {
        builder = builder.cache_size(cache);
    }
    let env = builder.open("env").expect("opened");
    let mut setup = env.begin().expect("begun");
    let db = setup.database_as("db", method).expect("made");
    setup.commit().expect("committed");
    let mut model = Records::new();
    for _ in 0..250 {
        let (key, value) = (key(&mut dice, method, page), value(&mut dice));
        db.insert(&key, &value).expect("put");
        model.insert(key, value);
    }
    if cache.is_some() {
        env.checkpoint().expect("checkpointed");
    }
    let serial = || TxnOptions::new().isolation(Isolation::Serializable);
    let mut turns: Vec<Turn<'_>> = Vec::new();
    let (mut committed, mut refused) = (0, 0);
    for step in 0..400 {
        let context = format!("seed {seed}, {method:?}, cache {cache:?}, page {page}, step {step}");
        if turns.len() < 3 && dice.below(3) == 0 {
            turns.push(Turn {
                txn: env.begin_with(serial()).expect("begun"),
                then: model.clone(),
                own: Own::new(),
                kept: Vec::new(),
                looks: Vec::new(),
            });
            continue;
        }
        if turns.is_empty() || dice.below(12) == 0 {
            // Others commit at once.
            match dice.below(12) {
                0 => {
                    let (low, high) = (key(&mut dice, method, page), key(&mut dice, method, page));
                    if low < high && method != Method::Hash {
                        db.remove_range(&low[..]..&high[..]).expect("removed");
                        model.retain(|key, _| key < &low || key >= &high);
                    }
                }
                1 => {
                    // So much that the tree may be built anew.
                    let options = TxnOptions::new().isolation(Isolation::ReadCommitted);
                    let mut txn = env.begin_with(options).expect("begun");
                    let mut own = Own::new();
                    for _ in 0..200 {
                        let (key, value) = (key(&mut dice, method, page), value(&mut dice));
                        txn.insert(&db, &key, &value).expect("set");
                        own.insert(key, Some(value));
                    }
                    match txn.commit() {
                        Ok(_) => model = over(&model, &own),
                        Err(error) => assert!(is_usual(&error), "{context}: {error}"),
                    }
                }
                2..6 => {
                    let key = key(&mut dice, method, page);
                    db.remove(&key).expect("removed");
                    model.remove(&key);
                }
                _ => {
                    let (key, value) = (key(&mut dice, method, page), value(&mut dice));
                    db.insert(&key, &value).expect("put");
                    model.insert(key, value);
                }
            }
            continue;
        }
        let at = dice.below(turns.len() as u64) as usize;
        let stands = |turn: &Turn<'_>, model: &Records| {
            turn.looks.iter().find(|(look, own, saw)| expected(look, model, own) != *saw).cloned()
        };
        let mut ends = false;
        match dice.below(24) {
            0..10 => {
                let look = some_look(&mut dice, method, page);
                let turn = &mut turns[at];
                match seen(&look, &turn.txn, &db) {
                    Ok(saw) => {
                        let should = expected(&look, &turn.then, &turn.own);
                        assert_eq!(saw, should, "{context}: {look:?}");
                        turn.looks.push((look, turn.own.clone(), saw));
                    }
                    Err(error) => {
                        assert!(is_usual(&error), "{context}: {error}");
                        ends = true;
                    }
                }
            }
            10 => {
                // Some keys in turns, often.
                let keys: Vec<Key> =
                    (0..dice.of(&[2, 5, 30])).map(|_| key(&mut dice, method, page)).collect();
                let turn = &mut turns[at];
                for n in 0..dice.of(&[30, 50, 300, 300, 5000]) {
                    if let Err(error) = turn.txn.get(&db, &keys[n % keys.len()]) {
                        assert!(is_usual(&error), "{context}: {error}");
                        ends = true;
                        break;
                    }
                }
                for key in keys {
                    let look = Look::Get(key);
                    let saw = expected(&look, &turn.then, &turn.own);
                    turn.looks.push((look, turn.own.clone(), saw));
                }
            }
            11..16 => {
                let turn = &mut turns[at];
                let key = key(&mut dice, method, page);
                if dice.below(3) == 0 {
                    // Whether it was there is read too.
                    let look = Look::Get(key.clone());
                    let saw = turn.txn.remove(&db, &key).expect("removed");
                    let should = expected(&look, &turn.then, &turn.own);
                    assert_eq!(Seen::Value(None) != should, saw, "{context}");
                    turn.own.insert(key, None);
                } else {
                    let value = value(&mut dice);
                    turn.txn.insert(&db, &key, &value).expect("set");
                    turn.own.insert(key, Some(value));
                }
            }
            16 => {
                let turn = &mut turns[at];
                let savepoint = turn.txn.savepoint();
                turn.kept.push((savepoint, turn.own.clone()));
            }
            17 => {
                let turn = &mut turns[at];
                if let Some((savepoint, own)) = turn.kept.pop() {
                    turn.txn.rollback_to(&savepoint).expect("back");
                    turn.own = own;
                }
            }
            18 => {
                let turn = &turns[at];
                match turn.txn.check_all_unchanged(&db) {
                    Ok(()) => {
                        let differs = turn
                            .looks
                            .iter()
                            .filter(|(look, ..)| !matches!(look, Look::Rank(_)))
                            .find(|(look, own, saw)| expected(look, &model, own) != *saw);
                        assert_eq!(differs, None, "{context}: all are unchanged");
                    }
                    Err(error) => assert!(is_usual(&error), "{context}: {error}"),
                }
            }
            19 => {
                let turn = &turns[at];
                let key = key(&mut dice, method, page);
                match turn.txn.check_unchanged(&db, &key) {
                    Ok(()) => {
                        let differs = turn
                            .looks
                            .iter()
                            .filter(|(look, ..)| matches!(look, Look::Get(of) if *of == key))
                            .find(|(look, own, saw)| expected(look, &model, own) != *saw);
                        assert_eq!(differs, None, "{context}: {key:?} is unchanged");
                    }
                    Err(error) => assert!(is_usual(&error), "{context}: {error}"),
                }
            }
            _ => ends = true,
        }
        if !ends {
            continue;
        }
        let turn = turns.swap_remove(at);
        // Of one that changes nothing nothing is validated.
        let writes = over(&turn.then, &turn.own) != turn.then;
        let differs = stands(&turn, &model);
        match turn.txn.commit() {
            Ok(_) if writes => {
                assert_eq!(differs, None, "{context}: it committed");
                model = over(&model, &turn.own);
                committed += 1;
            }
            Ok(_) => {
                let all = env.begin().expect("begun");
                if let Seen::Records(records) = seen(&Look::All, &all, &db).expect("read") {
                    model = records.into_iter().collect();
                }
            }
            Err(error) => {
                assert!(is_usual(&error), "{context}: {error}");
                refused += 1;
            }
        }
        if committed % 16 == 0 {
            let all = env.begin().expect("begun");
            let saw = seen(&Look::All, &all, &db).expect("read");
            assert_eq!(saw, expected(&Look::All, &model, &Own::new()), "{context}");
        }
    }
    (committed, refused)
}

#[test]
fn what_was_read_is_what_the_newest_state_says_when_its_reader_commits() {
    let from: u64 = std::env::var("SABLECAT_TEST_FROM").map_or(0, |n| n.parse().expect("a number"));
    let seeds: u64 = std::env::var("SABLECAT_TEST_READ_SEEDS").map_or(3, |n| n.parse().expect("a number"));
    for method in [Method::Btree, Method::Counted, Method::Hash, Method::Lsm] {
        let (mut committed, mut refused) = (0, 0);
        for seed in from..from + seeds {
            let page = [512, 1024][seed as usize % 2];
            for cache in [None, Some(96 * page as u64)] {
                let (more, less) = life(seed, method, cache, page);
                committed += more;
                refused += less;
            }
        }
        println!("{method:?}: {committed} committed, {refused} refused");
        assert!(committed > 0 && refused > 0, "{method:?}: {committed}, {refused}");
    }
}
