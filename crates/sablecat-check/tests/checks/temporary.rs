//! Temporary databases: in one transaction with durable ones, as these until the environment is opened
//! afresh, and empty then, however it ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use sablecat::{
    Database, DatabaseOptions, Durability, Env, Index, IndexOptions, Isolation, Method, Read, Result, Txn,
    TxnOptions,
};
use sablecat_check::dice::Dice;
use sablecat_os::sim::{SimDisk, Survival};

const DIRECTORY: &str = "env";
const ISOLATIONS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];
const SURVIVALS: [Survival; 3] = [Survival::Nothing, Survival::Sectors, Survival::Everything];
/// Of the databases the first is durable, the others are not.
const NAMES: [&str; 4] = ["durable", "ordered", "hashed", "counted"];

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn builder(disk: &SimDisk) -> sablecat::Builder {
    let builder = Env::builder()
        .page_size(512)
        .cache_size(0)
        .background(false)
        .log_buffer_size(1 << 16)
        .log_segment_size(1 << 16);
    builder.disk(Arc::new(disk.clone())).extractor("part", |_, value, keys| keys.push(part(value)))
}

/// What the index has of a record: the first bytes of its value.
fn part(value: &[u8]) -> &[u8] {
    &value[..value.len().min(5)]
}

struct Opened {
    env: Env,
    databases: [Database; 4],
    by_part: Index,
}

fn open(disk: &SimDisk, durability: Durability) -> Result<Opened> {
    let env = builder(disk).durability(durability).open(DIRECTORY)?;
    let temporary = || DatabaseOptions::new().temporary(true);
    let databases = [
        env.database(NAMES[0])?,
        env.database_with(NAMES[1], temporary())?,
        env.database_with(NAMES[2], temporary().method(Method::Hash))?,
        env.database_with(NAMES[3], temporary().method(Method::Counted))?,
    ];
    let by_part = env.index("ordered by part", &databases[1], IndexOptions::new("part"))?;
    Ok(Opened { env, databases, by_part })
}

impl Opened {
    fn assert_are(&self, models: &[Model; 4]) {
        let state = self.env.snapshot().expect("begun");
        for (database, model) in self.databases.iter().zip(models) {
            let found: Model =
                state.range(database, ..).expect("read").map(|record| record.expect("read")).collect();
            assert!(found == *model, "{}: {} for {}", database.name(), found.len(), model.len());
            assert_eq!(database.is_temporary(), database.name() != NAMES[0]);
        }
        assert_eq!(self.by_part.verify(&state).expect("read"), [""; 0]);
        assert_eq!(self.by_part.range(&state, ..).expect("read").count(), models[1].len());
    }

    fn assert_sound(&self) {
        self.env.keep_house().expect("kept");
        self.env.checkpoint().expect("written");
        let report = self.env.verify(&mut |_| {}).expect("read");
        assert_eq!((&report.problems[..], report.pages_unreachable), (&[][..], 0));
    }
}

/// Some values are in pages of their own, and some keys in subtrees.
fn record(dice: &mut Dice) -> (Vec<u8>, Vec<u8>) {
    let mut key = format!("key {:03}", dice.below(400)).into_bytes();
    key.resize(if dice.percent(3) { 90 } else { key.len() }, b'n');
    let len = dice.pick(&[0, 3, 20, 20, 60, 1500]);
    let mut value = dice.below(1 << 20).to_le_bytes().to_vec();
    value.resize(8 + len, 7);
    (key, value)
}

fn change(txn: &mut Txn<'_>, which: usize, opened: &Opened, models: &mut [Model; 4], dice: &mut Dice) {
    let (database, model) = (&opened.databases[which], &mut models[which]);
    let (key, value) = record(dice);
    match dice.below(20) {
        0 if which != 2 => {
            let end = record(dice).0.max(key.clone());
            txn.remove_range(database, &key[..]..&end[..]).expect("removed");
            model.retain(|have, _| !(key <= *have && *have < end));
        }
        0..8 => {
            let was = txn.remove(database, &key).expect("removed");
            assert_eq!(was, model.remove(&key).is_some());
        }
        _ => {
            txn.insert(database, &key, &value).expect("inserted");
            model.insert(key, value);
        }
    }
}

/// A transaction over some databases, of which a part or all may be given up.
fn transact(opened: &Opened, models: &mut [Model; 4], dice: &mut Dice) {
    let options = TxnOptions::new().isolation(dice.pick(&ISOLATIONS));
    let mut txn = opened.env.begin_with(options).expect("begun");
    let mut new = models.clone();
    let some: Vec<usize> = (0..4).filter(|_| dice.percent(50)).collect();
    let many = dice.pick(&[3, 20, 20, 600]);
    for _ in 0..many {
        if some.is_empty() {
            break;
        }
        let which = dice.pick(&some);
        if dice.percent(2) {
            let (saved, before) = (txn.savepoint(), new.clone());
            change(&mut txn, which, opened, &mut new, dice);
            txn.rollback_to(&saved).expect("of this transaction");
            new = before;
        } else {
            change(&mut txn, which, opened, &mut new, dice);
        }
    }
    if dice.percent(85) {
        txn.commit().expect("nobody is in the way");
        *models = new;
    }
}

/// What is a transaction of its own, and takes the engine's other ways.
fn single(opened: &Opened, models: &mut [Model; 4], dice: &mut Dice) {
    let which = dice.index(4);
    let (database, model) = (&opened.databases[which], &mut models[which]);
    match dice.below(8) {
        0 => {
            database.clear().expect("cleared");
            model.clear();
            let records: Model = (0..dice.below(300)).map(|_| record(dice)).collect();
            assert_eq!(database.bulk_load(&records).expect("loaded"), records.len() as u64);
            *model = records;
        }
        1 => {
            let (key, _) = record(dice);
            assert_eq!(database.remove(&key).expect("removed"), model.remove(&key).is_some());
        }
        _ => {
            let (key, value) = record(dice);
            database.insert(&key, &value).expect("inserted");
            model.insert(key, value);
        }
    }
}

#[test]
fn they_are_as_any_until_the_environment_is_opened_afresh_and_empty_then() {
    for seed in 0..12 {
        let mut dice = Dice::new(seed);
        let mut disk = SimDisk::new(seed);
        let mut models = <[Model; 4]>::default();
        for _ in 0..5 {
            let opened = open(&disk, Durability::Sync).expect("opened");
            models[1..].iter_mut().for_each(Model::clear);
            opened.assert_are(&models);
            opened.assert_sound();
            let old = (opened.env.snapshot().expect("begun"), models.clone());
            for _ in 0..15 {
                match dice.below(8) {
                    0 => _ = opened.env.checkpoint().expect("written"),
                    1 => opened.env.keep_house().expect("kept"),
                    2 | 3 => single(&opened, &mut models, &mut dice),
                    _ => transact(&opened, &mut models, &mut dice),
                }
                opened.assert_are(&models);
            }
            opened.assert_sound();
            // A snapshot that was not given up has what it had.
            if let Ok(found) =
                old.0.range(&opened.databases[1], ..).and_then(Iterator::collect::<Result<Model>>)
            {
                assert!(found == old.1[1]);
            }
            drop(old);
            if dice.percent(50) {
                let Opened { env, databases, by_part } = opened;
                drop((databases, by_part));
                env.close().expect("closed");
            } else {
                let after = disk.crash_as(dice.pick(&SURVIVALS), dice.throw());
                drop(opened);
                disk = after;
            }
        }
    }
}

/// What is done until the power fails. Says how many transactions were acknowledged.
fn live(disk: &SimDisk) -> u32 {
    let mut done = 0;
    let _ = (|| -> Result<()> {
        let Opened { env, databases, by_part } = open(disk, Durability::Sync)?;
        for n in 0..24u32 {
            env.write(|txn| {
                // Each has a part in the same transaction. Some are larger than the cache.
                let many = if n % 8 == 7 { 400 } else { 6 };
                for part in 0..many {
                    let key = [n.to_be_bytes(), u32::to_be_bytes(part)].concat();
                    let value = vec![n as u8; if part == 2 { 1500 } else { 30 }];
                    databases.iter().try_for_each(|database| txn.insert(database, &key, &value))?;
                }
                Ok(())
            })?;
            done = n + 1;
            match n % 6 {
                2 => _ = env.checkpoint()?,
                4 => databases[1..].iter().try_for_each(|database| database.insert("alone", [1; 40]))?,
                5 => _ = databases[2].clear()?,
                _ => {}
            }
        }
        drop((databases, by_part));
        env.close()
    })();
    done
}

/// Power fails after any of some calls; of the opening after that, too.
#[test]
fn after_a_crash_at_any_call_durable_records_are_whole_and_temporary_databases_are_empty_and_of_use() {
    let calls = {
        let disk = SimDisk::new(1);
        assert_eq!(live(&disk), 24);
        disk.calls()
    };
    let cuts = 90;
    let mut met = 0;
    for cut in 0..cuts {
        let disk = SimDisk::new(cut);
        disk.crash_at(1 + calls * cut / cuts);
        let promised = live(&disk);
        for survival in SURVIVALS {
            let mut disk = disk.crash_as(survival, cut);
            if cut % 3 == 0 {
                disk.crash_at(disk.calls() + 1 + cut % 40);
                drop(open(&disk, Durability::Sync));
                disk = disk.crash_as(survival, cut);
            }
            let opened = open(&disk, Durability::Sync).expect("recovered");
            let found: Model = opened
                .env
                .range(&opened.databases[0], ..)
                .expect("read")
                .map(|record| record.expect("read"))
                .collect();
            let has = (0..24u32).take_while(|n| found.contains_key(&[n.to_be_bytes(), [0; 4]].concat()[..]));
            let has = has.count() as u32;
            let records: usize = (0..has).map(|n| if n % 8 == 7 { 400 } else { 6 }).sum();
            assert!((promised..=promised + 1).contains(&has), "{cut} {survival:?}: {has} of {promised}");
            assert_eq!(found.len(), records, "{cut} {survival:?}: each is there as a whole");
            let mut models = [found, Model::new(), Model::new(), Model::new()];
            opened.assert_are(&models);
            opened.assert_sound();
            met += u32::from(has > 0);
            let mut dice = Dice::new(cut);
            (0..3).for_each(|_| transact(&opened, &mut models, &mut dice));
            opened.assert_are(&models);
            opened.assert_sound();
        }
    }
    assert!(met > 100, "{met}");
}
