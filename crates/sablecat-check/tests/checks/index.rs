//! Indices are kept, on every way that records change: always, each has what its extractor finds in the
//! records there are, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use sablecat::{
    ChangesOptions, DataStore, Database, Durability, Env, ErrorKind, Follower, Index, IndexOptions,
    Isolation, Kind, Lsn, Read, Result, TxnOptions,
};
use sablecat_check::dice::Dice;
use sablecat_os::sim::{SimDisk, Survival};

/// An index key, the key of a record that has it, and its value.
type Found = (Vec<u8>, Vec<u8>, Vec<u8>);

const ISOLATIONS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

fn builder(disk: &SimDisk) -> sablecat::Builder {
    let builder = Env::builder()
        .page_size(512)
        .cache_size(0)
        .background(false)
        .log_buffer_size(1 << 16)
        .log_segment_size(1 << 16);
    builder
        .durability(Durability::NoSync)
        .disk(Arc::new(disk.clone()))
        .extractor("part", |_, value, keys| keys.push(part(value)))
        .extractor("letters", |_, value, keys| value.iter().take(3).for_each(|&one| keys.push([one, 0, one])))
}

/// What the first index has of a record: the first bytes of its value.
fn part(value: &[u8]) -> &[u8] {
    &value[..value.len().min(16)]
}

/// The records, and their indices: by a part of the value, and by each of some letters, often none.
fn open(env: &Env) -> Result<(Database, [Index; 2])> {
    let records = env.database("records")?;
    let by_part = env.index("by part", &records, IndexOptions::new("part"))?;
    let by_letter = env.index("by letter", &records, IndexOptions::new("letters"))?;
    Ok((records, [by_part, by_letter]))
}

/// Each index finds what is there, and nothing besides; how many records there are.
fn sound<O: Kind, R: Read<Of = O>>(state: &R, records: &Database<O>, indices: &[Index<O>; 2]) -> u64 {
    let all: BTreeMap<_, _> = state.range(records, ..).expect("read").map(|one| one.expect("read")).collect();
    let mut expected: [Vec<Found>; 2] = Default::default();
    for (key, value) in &all {
        expected[0].push((part(value).to_vec(), key.clone(), value.clone()));
        let mut letters = value[..value.len().min(3)].to_vec();
        letters.sort_unstable();
        letters.dedup();
        expected[1].extend(letters.iter().map(|&one| (vec![one, 0, one], key.clone(), value.clone())));
    }
    for (index, mut expected) in indices.iter().zip(expected) {
        expected.sort();
        let found: Vec<_> = index.range(state, ..).expect("read").map(|one| one.expect("read")).collect();
        assert!(found == expected, "{} entries for {}", found.len(), expected.len());
    }
    all.len() as u64
}

fn all_sound(env: &Env) -> u64 {
    let (records, indices) = open(env).expect("there");
    let count = sound(&env.snapshot().expect("begun"), &records, &indices);
    assert_eq!(env.verify(&mut |_| {}).expect("read").problems, [""; 0]);
    count
}

/// Some values are in pages of their own, and some differ in what no entry has.
fn value(dice: &mut Dice) -> Vec<u8> {
    let len = dice.pick(&[0, 3, 40, 40, 1500]);
    let mut value = vec![dice.below(4) as u8; len];
    value.extend(dice.below(3).to_le_bytes());
    value
}

fn key(dice: &mut Dice) -> Vec<u8> {
    format!("key {}", dice.below(60)).into_bytes()
}

#[test]
fn an_index_is_kept_by_transactions_that_commit_abort_and_roll_back() {
    for (seed, isolation) in ISOLATIONS.into_iter().cycle().take(30).enumerate() {
        let mut dice = Dice::new(seed as u64);
        let env = builder(&SimDisk::new(1)).open("env").expect("opened");
        let (records, indices) = open(&env).expect("made");
        for _ in 0..20 {
            let mut txn = env.begin_with(TxnOptions::new().isolation(isolation)).expect("begun");
            let mut saved = Vec::new();
            for _ in 0..dice.below(40) {
                match dice.below(8) {
                    0 => saved.push(txn.savepoint()),
                    1 if !saved.is_empty() => {
                        saved.truncate(1 + dice.index(saved.len()));
                        txn.rollback_to(saved.last().expect("there is one")).expect("of this transaction");
                    }
                    2 => _ = txn.remove(&records, key(&mut dice)).expect("removed"),
                    3 if dice.percent(20) => {
                        _ = txn.remove_range(&records, key(&mut dice)..key(&mut dice)).expect("removed");
                    }
                    3 => _ = txn.remove(&records, key(&mut dice)).expect("removed"),
                    4 => {
                        let undone = txn.nested(|txn| {
                            txn.insert(&records, key(&mut dice), value(&mut dice))?;
                            Err::<(), _>(txn.rename_database("none", "other").expect_err("there is none"))
                        });
                        assert!(undone.is_err());
                    }
                    _ => txn.insert(&records, key(&mut dice), value(&mut dice)).expect("inserted"),
                }
                if dice.percent(5) {
                    sound(&txn, &records, &indices);
                }
            }
            if dice.percent(80) {
                txn.commit().expect("nobody is in the way");
            }
            sound(&env.snapshot().expect("begun"), &records, &indices);
        }
        all_sound(&env);
    }
}

#[test]
fn an_index_is_kept_by_changes_that_are_transactions_of_their_own() {
    let env = builder(&SimDisk::new(1)).open("env").expect("opened");
    let (records, indices) = open(&env).expect("made");
    let mut dice = Dice::new(1);
    for _ in 0..400 {
        match dice.below(5) {
            0 if dice.percent(20) => {
                _ = records.remove_range(key(&mut dice)..key(&mut dice)).expect("removed");
            }
            0 => _ = records.remove(key(&mut dice)).expect("removed"),
            1 => _ = records.take(key(&mut dice)).expect("taken"),
            2 => records.insert_batch((0..5).map(|_| (key(&mut dice), value(&mut dice)))).expect("inserted"),
            _ => records.insert(key(&mut dice), value(&mut dice)).expect("inserted"),
        }
        sound(&env.snapshot().expect("begun"), &records, &indices);
    }
    assert!(all_sound(&env) > 10);
}

#[test]
fn an_index_is_kept_when_others_are_in_the_way() {
    for isolation in ISOLATIONS {
        let env = builder(&SimDisk::new(1)).cache_size(1 << 20).open("env").expect("opened");
        let (records, _) = open(&env).expect("made");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (env, records) = (&env, &records);
                scope.spawn(move || {
                    let mut dice = Dice::new(thread);
                    for _ in 0..100 {
                        if dice.percent(30) {
                            records.insert(key(&mut dice), value(&mut dice)).expect("inserted");
                        }
                        let work = |txn: &mut sablecat::Txn<'_>| {
                            for _ in 0..3 {
                                txn.insert(records, key(&mut dice), value(&mut dice))?;
                            }
                            txn.remove(records, key(&mut dice)).map(drop)
                        };
                        env.write_with(TxnOptions::new().isolation(isolation), work)
                            .expect("run again until it commits");
                    }
                });
            }
        });
        assert!(all_sound(&env) > 10);
    }
}

/// Read committed transactions are not protected from what others commit after they have read; an index would
/// be wrong for that.
#[test]
fn what_an_index_made_of_a_record_that_others_have_changed_since_is_not_committed() {
    for isolation in ISOLATIONS {
        let env = builder(&SimDisk::new(1)).open("env").expect("opened");
        let (records, _) = open(&env).expect("made");
        records.insert("key", "old").expect("inserted");
        let mut txn = env.begin_with(TxnOptions::new().isolation(isolation)).expect("begun");
        txn.insert(&records, "key", "mine").expect("inserted");
        records.insert("key", "another's").expect("inserted");
        assert_eq!(txn.commit().expect_err("it was another").kind(), ErrorKind::Conflict, "{isolation:?}");
        assert_eq!(all_sound(&env), 1);
    }
}

#[test]
fn an_index_is_kept_by_bulk_loads_and_by_commits_larger_than_the_cache() {
    let env = builder(&SimDisk::new(1)).open("env").expect("opened");
    let (records, _) = open(&env).expect("made");
    let sorted = |count: u32| (0..count).map(|n| (n.to_be_bytes(), [n as u8; 60]));
    let error = records.bulk_load(sorted(50).chain(sorted(1))).expect_err("not in order");
    assert_eq!((error.kind(), all_sound(&env)), (ErrorKind::Invalid, 0));
    assert_eq!(records.bulk_load(sorted(6000)).expect("loaded"), 6000);
    assert_eq!(all_sound(&env), 6000);
    assert_eq!(records.bulk_load(sorted(1)).expect_err("not empty").kind(), ErrorKind::Invalid);
    env.write(|txn| {
        (0..6000u32).step_by(2).try_for_each(|n| txn.insert(&records, n.to_be_bytes(), [n as u8 ^ 1; 60]))
    })
    .expect("written");
    assert_eq!(all_sound(&env), 6000);
}

#[test]
fn an_index_is_kept_in_a_crash_anywhere() {
    let work = |disk: &SimDisk, dice: &mut Dice| -> Result<()> {
        let env = builder(disk).durability(Durability::Sync).open("env")?;
        let (records, _) = open(&env)?;
        for n in 0..30 {
            records.insert(key(dice), value(dice))?;
            env.write(|txn| {
                txn.insert(&records, key(dice), value(dice))?;
                txn.remove(&records, key(dice)).map(drop)
            })?;
            if n % 10 == 9 {
                env.checkpoint()?;
            }
        }
        drop(records);
        env.close()
    };
    let whole = SimDisk::new(1);
    work(&whole, &mut Dice::new(1)).expect("nothing goes wrong");
    let calls = whole.calls();
    let mut most = 0;
    for crash in 0..60 {
        let disk = SimDisk::new(1);
        disk.crash_at(1 + crash * calls / 60);
        work(&disk, &mut Dice::new(1)).expect_err("no power");
        let env = builder(&disk.crash(crash)).open("env").expect("recovered");
        most = most.max(all_sound(&env));
    }
    assert!(most > 10);
}

/// It gets the index's changes from the log, and needs none of its own.
#[test]
fn who_follows_another_environment_gets_the_index_with_the_records() {
    let (origin, copy) = (
        builder(&SimDisk::new(1)).open("env").expect("opened"),
        builder(&SimDisk::new(2)).open("env").expect("opened"),
    );
    let follower = Follower::new(&copy, "origin").expect("made");
    let mut changes = origin
        .changes(Lsn(0))
        .or_else(|_| origin.changes_from_now(ChangesOptions::new().written(true)))
        .expect("read");
    let (records, _) = open(&origin).expect("made");
    let mut dice = Dice::new(1);
    for _ in 0..50 {
        records.insert(key(&mut dice), value(&mut dice)).expect("inserted");
        records.remove(key(&mut dice)).expect("removed");
    }
    origin.sync().expect("written");
    while let Some(commit) = changes.try_next().expect("read") {
        follower.apply(&commit).expect("applied");
    }
    assert_eq!(all_sound(&copy), all_sound(&origin));
    assert!(all_sound(&copy) > 10);
}

#[test]
fn a_data_store_keeps_an_index() {
    let disk = SimDisk::new(1);
    let mut store = builder(&disk).open_data_store("env").expect("opened");
    let records = store.database("records").expect("made");
    store.insert(&records, "there before", "it").expect("inserted");
    let open = |store: &mut DataStore| {
        [("by part", "part"), ("by letter", "letters")]
            .map(|(name, extractor)| store.index(name, &records, IndexOptions::new(extractor)).expect("made"))
    };
    let indices = open(&mut store);
    assert_eq!(sound(&store, &records, &indices), 1);
    store.remove(&records, "there before").expect("removed");
    assert_eq!(
        store.bulk_load(&records, (0..300u32).map(|n| (n.to_be_bytes(), [n as u8; 30]))).expect("loaded"),
        300
    );
    let mut dice = Dice::new(1);
    for _ in 0..500 {
        if dice.percent(30) {
            store.remove(&records, key(&mut dice)).expect("removed");
        } else if dice.percent(5) {
            store.remove_range(&records, key(&mut dice)..key(&mut dice)).expect("removed");
        } else {
            store.insert(&records, key(&mut dice), value(&mut dice)).expect("inserted");
        }
    }
    assert!(sound(&store, &records, &indices) > 300);
    store.close().expect("closed");
    let env = builder(&disk.crash_as(Survival::Everything, 1)).open("env").expect("opened");
    assert!(all_sound(&env) > 300);
}
