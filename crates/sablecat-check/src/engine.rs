//! The engine's side of a step: doing it through the public API, and looking at the whole state.

use std::ops::{Bound, ControlFlow};

use sablecat::{Database, Env, ErrorKind, Method, Prefix, Range, Result, Txn, TxnOptions};

use crate::answer::Answer;
use crate::model::{Model, keeps};
use crate::records::{has_prefixes, reversed};
use crate::step::{Part, Read, Step, Transaction};
use crate::walk;

/// The comparator of databases whose name begins with `r`.
pub const REVERSED: &str = "reversed";

/// Opens a database if there is one.
pub fn find(env: &Env, name: &str) -> Result<Option<Database>> {
    env.existing_database(name)
}

/// Takes records from either end, as the bits of `ends` say.
fn take(mut range: Range<impl sablecat::Read>, limit: usize, ends: u64) -> Result<Answer> {
    let mut found = Vec::new();
    for n in 0..limit {
        let next = if ends >> (n % 64) & 1 == 0 { range.next() } else { range.next_back() };
        match next {
            Some(record) => found.push(record?),
            None => break,
        }
    }
    Ok(Answer::Records(found))
}

pub(crate) fn part(read: impl FnOnce(&mut [u8]) -> Result<Option<usize>>, len: usize) -> Result<Answer> {
    let mut buffer = vec![0xee; len];
    let read = read(&mut buffer)?;
    Ok(Answer::Value(read.map(|read| {
        assert!(read <= len, "read_at read {read} bytes into {len}");
        assert!(buffer[read..].iter().all(|&byte| byte == 0xee), "read_at wrote behind what it read");
        buffer.truncate(read);
        buffer
    })))
}

pub(crate) fn length(len: Option<u64>) -> Answer {
    len.map_or(Answer::Missing, Answer::Count)
}

/// Asks a transaction, a snapshot or the newest state.
pub fn ask(from: &impl sablecat::Read<Of = Env>, db: &Database, question: &Read) -> Result<Answer> {
    Ok(match question {
        Read::Get(key) => Answer::Value(from.get(db, key)?),
        Read::Contains(key) => Answer::Flag(from.contains_key(db, key)?),
        Read::Part(key, offset, len) => part(|buffer| from.read_at(db, key, *offset, buffer), *len)?,
        Read::Length(key) => length(from.value_len(db, key)?),
        Read::First => Answer::Records(from.first(db)?.into_iter().collect()),
        Read::Last => Answer::Records(from.last(db)?.into_iter().collect()),
        Read::Range(bounds, limit, ends) => {
            numbers_agree(from, db, bounds)?;
            take(from.range(db, bounds)?, *limit, *ends)?
        }
        Read::Prefix(_) if !has_prefixes(db.name()) => Answer::Missing,
        Read::Prefix(prefix) => take(from.range(db, Prefix(prefix))?, usize::MAX, 0)?,
    })
}

/// Compares what a counted database says of the numbers of some records with what is found by going through
/// them.
fn numbers_agree(
    from: &impl sablecat::Read<Of = Env>,
    db: &Database,
    bounds: &(Bound<Vec<u8>>, Bound<Vec<u8>>),
) -> Result<()> {
    if db.method() != Method::Counted {
        return Ok(());
    }
    let records: Vec<_> = from.range(db, bounds)?.collect::<Result<_>>()?;
    assert_eq!(from.count(db, bounds)?, records.len() as u64, "records between {bounds:?}");
    let Some((first, _)) = records.first() else { return Ok(()) };
    let before = from.rank(db, first)?;
    assert_eq!(from.count(db, (Bound::Unbounded, Bound::Excluded(first)))?, before);
    for at in [0, records.len() / 2, records.len() - 1] {
        let number = before + at as u64;
        assert_eq!(from.rank(db, &records[at].0)?, number, "the number of a key");
        assert_eq!(from.nth(db, number)?.as_ref(), Some(&records[at]), "record {number}");
    }
    Ok(())
}

/// Asks a snapshot.
pub fn ask_snapshot(txn: &sablecat::ReadTxn, name: &str, question: &Read) -> Result<Answer> {
    txn.existing_database(name)?.map_or(Ok(Answer::Missing), |db| ask(txn, &db, question))
}

/// Opens or creates a database in the order that its name says.
pub fn create(env: &Env, name: &str) -> Result<Database> {
    if reversed(name) { env.database_ordered_by(name, REVERSED) } else { env.database(name) }
}

fn on(env: &Env, name: &str, work: impl FnOnce(&Database) -> Result<Answer>) -> Result<Answer> {
    find(env, name)?.map_or(Ok(Answer::Missing), |db| work(&db))
}

fn within(
    txn: &mut Txn<'_>,
    name: &str,
    work: impl FnOnce(&mut Txn<'_>, &Database) -> Result<Answer>,
) -> Result<Answer> {
    txn.existing_database(name)?.map_or(Ok(Answer::Missing), |db| work(txn, &db))
}

fn renamed(outcome: Result<()>) -> Result<Answer> {
    match outcome {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Answer::Missing),
        Err(error) if error.kind() == ErrorKind::Exists => Ok(Answer::Exists),
        outcome => outcome.map(|()| Answer::Done),
    }
}

/// Does a step. Closing and opening again, and snapshots, are the caller's.
pub fn apply(env: &Env, step: &Step) -> Result<Answer> {
    match step {
        Step::Read(name, question) => on(env, name, |db| ask(env, db, question)),
        Step::Visit(name, bounds, limit) => on(env, name, |db| {
            let mut found = Vec::new();
            if *limit > 0 {
                db.visit(bounds.clone(), |key, value| {
                    found.push((key.to_vec(), value.to_vec()));
                    if found.len() == *limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
            }
            Ok(Answer::Records(found))
        }),
        Step::Len(name) => on(env, name, |db| {
            let len = db.len()?;
            assert_eq!(db.is_empty()?, len == 0);
            Ok(Answer::Count(len))
        }),
        Step::Insert(name, key, value) => on(env, name, |db| db.insert(key, value).map(|()| Answer::Done)),
        Step::Remove(name, key) => on(env, name, |db| db.remove(key).map(Answer::Flag)),
        Step::RemoveRange(name, bounds) => {
            on(env, name, |db| db.remove_range(bounds.clone()).map(Answer::Count))
        }
        Step::OrInsert(name, key, value) => {
            on(env, name, |db| Ok(Answer::Value(Some(db.entry(key).or_insert(value)?))))
        }
        Step::AndModify(name, key, byte) => {
            on(env, name, |db| db.entry(key).and_modify(|value| value.push(*byte)).apply().map(Answer::Value))
        }
        Step::Retain(name, rest, modulus) => on(env, name, |db| {
            db.retain(|key, _| keeps(key, *rest, *modulus))?;
            Ok(Answer::Done)
        }),
        Step::Batch(name, records) => on(env, name, |db| {
            db.insert_batch(records.iter().map(|(key, value)| (key, value)))?;
            Ok(Answer::Done)
        }),
        Step::Transaction(transaction) => run(env, transaction),
        Step::Create(name) => create(env, name).map(|_| Answer::Done),
        Step::Rename(from, to) => renamed(env.rename_database(from, to)),
        Step::Drop(name) => env.remove_database(name).map(Answer::Flag),
        Step::Databases => env.databases().map(Answer::Names),
        Step::Sync => env.sync().map(|()| Answer::Done),
        Step::Checkpoint => env.checkpoint().map(|_| Answer::Done),
        Step::Compact => env.compact().map(|_| Answer::Done),
        Step::Reopen | Step::Hold | Step::Look(..) | Step::Release => Ok(Answer::Done),
    }
}

fn run(env: &Env, transaction: &Transaction) -> Result<Answer> {
    let options = TxnOptions::new().isolation(transaction.isolation).durability(transaction.durability);
    if transaction.closure && transaction.commit {
        return env.write_with(options, |txn| run_parts(txn, &transaction.parts)).map(Answer::Parts);
    }
    let mut txn = env.begin_with(options)?;
    let answers = run_parts(&mut txn, &transaction.parts)?;
    if transaction.commit {
        txn.commit()?;
    }
    Ok(Answer::Parts(answers))
}

fn run_parts(txn: &mut Txn<'_>, parts: &[Part]) -> Result<Vec<Answer>> {
    let mut saved = Vec::new();
    let mut answers = Vec::new();
    for part in parts {
        answers.push(match part {
            Part::Read(name, question) => within(txn, name, |txn, db| ask(txn, db, question))?,
            Part::ForUpdate(name, key) => {
                within(txn, name, |txn, db| txn.get_for_update(db, key).map(Answer::Value))?
            }
            Part::Insert(name, key, value) => {
                within(txn, name, |txn, db| txn.insert(db, key, value).map(|()| Answer::Done))?
            }
            Part::Remove(name, key) => within(txn, name, |txn, db| txn.remove(db, key).map(Answer::Flag))?,
            Part::RemoveRange(name, bounds) => {
                within(txn, name, |txn, db| txn.remove_range(db, bounds).map(Answer::Count))?
            }
            Part::Walk(name, walk) => within(txn, name, |txn, db| walk::engine(txn, db, walk))?,
            Part::Create(name) if reversed(name) => {
                txn.database_ordered_by(name, REVERSED).map(|_| Answer::Done)?
            }
            Part::Create(name) => txn.database(name).map(|_| Answer::Done)?,
            Part::Rename(from, to) => renamed(txn.rename_database(from, to))?,
            Part::Drop(name) => txn.remove_database(name).map(Answer::Flag)?,
            Part::Databases => Answer::Names(txn.databases()?),
            Part::Savepoint => {
                saved.push(txn.savepoint());
                Answer::Done
            }
            Part::RollBack(n) => {
                if !saved.is_empty() {
                    let n = n % saved.len();
                    saved.truncate(n + 1);
                    txn.rollback_to(&saved[n])?;
                }
                Answer::Done
            }
            Part::Nested(parts, succeeds) => nest(txn, parts, *succeeds)?,
        });
    }
    Ok(answers)
}

fn nest(txn: &mut Txn<'_>, parts: &[Part], succeeds: bool) -> Result<Answer> {
    let mut answers = Vec::new();
    let mut failed_on_purpose = false;
    let outcome = txn.nested(|txn| {
        answers = run_parts(txn, parts)?;
        if !succeeds {
            failed_on_purpose = true;
            // The one error that a caller can make at will: this name is too long.
            txn.existing_database(&"x".repeat(1000))?;
        }
        Ok(())
    });
    match outcome {
        Err(error) if !failed_on_purpose => Err(error),
        outcome => {
            assert_eq!(outcome.is_ok(), succeeds);
            Ok(Answer::Parts(answers))
        }
    }
}

/// All there is.
pub fn state(env: &Env) -> Result<Model> {
    let mut model = Model::default();
    for name in env.databases()? {
        let db = find(env, &name)?;
        let records = match &db {
            Some(db) => {
                numbers_agree(env, db, &(Bound::Unbounded, Bound::Unbounded))?;
                db.range(..)?.collect::<Result<_>>()?
            }
            None => panic!("{name:?} is in the list of databases and does not exist"),
        };
        model.tables.insert(name, records);
    }
    Ok(model)
}

/// What `verify` says is wrong.
pub fn problems(env: &Env) -> Result<Vec<String>> {
    Ok(env.verify(&mut |_| {})?.problems)
}
