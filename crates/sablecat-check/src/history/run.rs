//! Running transactions in threads and writing down what they see.
//!
//! An append is what programs do: read, put one more at the end, write. Range reads see every key at once,
//! those that are not there too, so phantoms are anomalies like any other. Some lists are databases: to
//! append to one is to remove it and to create it anew, longer; it is read by name, or through whatever
//! handle a thread has of it, perhaps of one that is gone. Lists outgrow small pages, so leaves split and
//! values get pages of their own all the while.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use sablecat::{Database, Durability, Env, Error, ErrorKind, Isolation, Txn, TxnOptions};
use sablecat_os::sim::SimDisk;

use super::check::Level;
use super::record::{Element, Event, History, Key, Outcome, Transaction};
use crate::alike::{Wrong, clean};
use crate::dice::Dice;
use crate::method;
use crate::setting::{DIRECTORY, Setting};

/// What to run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The isolation of all transactions.
    pub level: Level,
    /// Threads.
    pub threads: u64,
    /// Transactions a thread.
    pub transactions: u64,
    /// Lists.
    pub keys: u32,
    /// Bytes of a page.
    pub page_size: usize,
    /// On a simulated disk with the smallest cache, or in memory.
    pub on_disk: bool,
    /// Lists that are databases of their own. Not at read committed, where nothing protects what was read.
    pub shelves: u32,
    /// With keys so long that the engine nests them, some below each stem.
    pub nested: bool,
    /// What transactions do; not how they interleave.
    pub seed: u64,
}

fn encode(list: &[Element]) -> Vec<u8> {
    list.iter().flat_map(|element| element.to_le_bytes()).collect()
}

fn decode(bytes: Option<&[u8]>) -> Vec<Element> {
    bytes
        .unwrap_or_default()
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
        .collect()
}

/// Runs, and checks that the environment is sound afterwards.
///
/// # Errors
/// Errors of the engine other than those that tell to run a transaction again.
pub fn run(plan: &Run) -> Result<History, Wrong> {
    let mut setting = Setting::small(plan.page_size, Durability::NoSync);
    setting.log_buffer = 1 << 20;
    setting.log_segment = 1 << 20;
    let disk = SimDisk::new(plan.seed);
    let opened =
        if plan.on_disk { setting.builder_on(&disk).open(DIRECTORY) } else { setting.builder().in_memory() };
    let env = opened.map_err(|error| format!("opening: {error}"))?;
    let db = env.database("lists").map_err(|error| format!("creating: {error}"))?;
    let clock = AtomicU64::new(0);
    let done = Mutex::new(Vec::new());
    let wrong = Mutex::new(None);
    std::thread::scope(|scope| {
        for thread in 0..plan.threads {
            let (clock, done, wrong, env, db) = (&clock, &done, &wrong, &env, &db);
            scope.spawn(move || {
                let mut dice = Dice::new(plan.seed ^ thread << 32);
                let mut mine = Vec::new();
                let mut shelves = vec![None; plan.shelves as usize];
                for n in 0..plan.transactions {
                    let first = ((thread * plan.transactions + n) * 16) as Element;
                    let begun = clock.fetch_add(1, Ordering::SeqCst);
                    let mut events = Vec::new();
                    let outcome = match transact(env, (db, &mut shelves), plan, first, &mut dice, &mut events)
                    {
                        Ok(outcome) => outcome,
                        Err(error) if error.is_retryable() => Outcome::Aborted,
                        Err(error) => {
                            *wrong.lock().expect("no thread panics holding it") =
                                Some(format!("{:?}: {error}", error.kind()));
                            break;
                        }
                    };
                    if outcome == Outcome::Aborted {
                        // Those that it made are none.
                        shelves.fill(None);
                    }
                    mine.push(Transaction {
                        span: (begun, clock.fetch_add(1, Ordering::SeqCst)),
                        events,
                        outcome,
                    });
                    if plan.on_disk && thread == 0 && n % 20 == 19 {
                        drop(env.checkpoint());
                    }
                }
                done.lock().expect("no thread panics holding it").extend(mine);
            });
        }
    });
    if let Some(wrong) = wrong.into_inner().expect("no thread panics holding it") {
        return Err(wrong);
    }
    clean(&env)?;
    let mut last = BTreeMap::new();
    for record in db.range(..).map_err(|error| error.to_string())? {
        let (key, value) = record.map_err(|error| error.to_string())?;
        last.insert(number(plan, &key), decode(Some(&value)));
    }
    for shelf in 0..plan.shelves {
        let Some(db) = env.existing_database(&shelf_name(shelf)).map_err(|error| error.to_string())? else {
            continue;
        };
        last.insert(
            plan.keys + shelf,
            decode(db.get(SHELVED).map_err(|error| error.to_string())?.as_deref()),
        );
    }
    Ok(History { transactions: done.into_inner().expect("no thread panics holding it"), last })
}

/// Keys below one stem, of those that are nested.
const NESTED_TOGETHER: Key = 4;

fn name(plan: &Run, key: Key) -> Vec<u8> {
    if !plan.nested {
        return key.to_be_bytes().to_vec();
    }
    let mut name = (key / NESTED_TOGETHER).to_be_bytes().to_vec();
    name.resize(plan.page_size / 8, 0);
    name.extend((key % NESTED_TOGETHER).to_be_bytes());
    name
}

fn number(plan: &Run, name: &[u8]) -> Key {
    let word = |at: usize| u32::from_be_bytes(name[at..at + 4].try_into().expect("four bytes"));
    if plan.nested { word(0) * NESTED_TOGETHER + word(name.len() - 4) } else { word(0) }
}

/// The record of a database that is a list.
const SHELVED: &str = "list";

fn shelf_name(shelf: u32) -> String {
    format!("shelf {shelf}")
}

/// Reads a list that is a database, through the handle there is of it, if its database is still there, or by
/// its name.
fn read_shelf(
    txn: &mut Txn<'_>,
    shelves: &mut [Option<Database>],
    shelf: u32,
) -> Result<Vec<Element>, Error> {
    let handle = &mut shelves[shelf as usize];
    if let Some(db) = handle {
        match txn.get(db, SHELVED) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            list => return Ok(decode(list?.as_deref())),
        }
    }
    *handle = txn.existing_database(&shelf_name(shelf))?;
    match handle {
        Some(db) => Ok(decode(txn.get(db, SHELVED)?.as_deref())),
        None => Ok(Vec::new()),
    }
}

/// Puts another database in a list's place, which says `list`.
fn replace_shelf(
    txn: &mut Txn<'_>,
    shelves: &mut [Option<Database>],
    shelf: u32,
    list: &[Element],
) -> Result<(), Error> {
    txn.remove_database(&shelf_name(shelf))?;
    let db = txn.database(&shelf_name(shelf))?;
    txn.insert(&db, SHELVED, encode(list))?;
    shelves[shelf as usize] = Some(db);
    Ok(())
}

fn transact(
    env: &Env,
    (db, shelves): (&Database, &mut [Option<Database>]),
    plan: &Run,
    first: Element,
    dice: &mut Dice,
    events: &mut Vec<Event>,
) -> Result<Outcome, Error> {
    let isolation = match plan.level {
        Level::ReadCommitted => Isolation::ReadCommitted,
        Level::Snapshot => Isolation::Snapshot,
        Level::Serializable => Isolation::Serializable,
    };
    let mut txn = env.begin_with(TxnOptions::new().isolation(isolation))?;
    let count = 1 + dice.index(6);
    for n in 0..count {
        let key = dice.below(u64::from(plan.keys + plan.shelves)) as Key;
        if let Some(shelf) = key.checked_sub(plan.keys) {
            let mut list = read_shelf(&mut txn, shelves, shelf)?;
            events.push(Event::Read(key, list.clone()));
            if dice.percent(40) {
                let element = first + n as Element;
                list.push(element);
                replace_shelf(&mut txn, shelves, shelf, &list)?;
                events.push(Event::Append(key, element));
            }
            continue;
        }
        match dice.below(10) {
            0..4 => {
                let list = decode(txn.get(db, name(plan, key))?.as_deref());
                events.push(Event::Read(key, list));
            }
            4 if plan.level != Level::ReadCommitted => read_range(&mut txn, db, plan, key, dice, events)?,
            _ => {
                let lock = plan.level == Level::ReadCommitted || dice.percent(20);
                let have = if lock {
                    txn.get_for_update(db, name(plan, key))?
                } else {
                    txn.get(db, name(plan, key))?
                };
                let mut list = decode(have.as_deref());
                events.push(Event::Read(key, list.clone()));
                let element = first + n as Element;
                list.push(element);
                txn.insert(db, name(plan, key), encode(&list))?;
                events.push(Event::Append(key, element));
            }
        }
        if dice.percent(50) {
            std::thread::yield_now();
        }
    }
    if dice.percent(10) {
        txn.abort();
        return Ok(Outcome::Aborted);
    }
    txn.commit()?;
    Ok(Outcome::Committed)
}

/// Reads all lists from a key on: those that are missing are empty.
fn read_range(
    txn: &mut Txn<'_>,
    db: &Database,
    plan: &Run,
    from: Key,
    dice: &mut Dice,
    events: &mut Vec<Event>,
) -> Result<(), Error> {
    let to = (from + 1 + dice.below(6) as Key).min(plan.keys);
    let mut found = BTreeMap::new();
    let range = txn.range(db, method::around(name(plan, from).as_ref(), name(plan, to).as_ref()))?;
    let records: Vec<_> = if dice.percent(50) {
        range.collect::<Result<_, _>>()?
    } else {
        range.rev().collect::<Result<_, _>>()?
    };
    for (key, value) in records {
        found.insert(number(plan, &key), decode(Some(&value)));
    }
    events.extend((from..to).map(|key| Event::Read(key, found.remove(&key).unwrap_or_default())));
    Ok(())
}
