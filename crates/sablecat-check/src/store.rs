//! The Data Store, held to the model, and to its promise: after a crash it is whole, as of its last
//! checkpoint.

use std::ops::ControlFlow;

use sablecat::{DataStore, Result};
use sablecat_os::sim::SimDisk;

use crate::alike::Wrong;
use crate::answer::Answer;
use crate::crash::Promise;
use crate::dice::Dice;
use crate::engine::{length, part};
use crate::model::Model;
use crate::setting::{DIRECTORY, Setting};
use crate::step::{Read, Shape, Step};

/// What of a step's kind a Data Store can do, as the same step or a simpler one.
pub fn plain(step: Step) -> Option<Step> {
    match step {
        Step::Read(_, Read::Get(_) | Read::Contains(_) | Read::Part(..) | Read::Length(_))
        | Step::Visit(..)
        | Step::Insert(..)
        | Step::Remove(..)
        | Step::RemoveRange(..)
        | Step::Batch(..)
        | Step::Create(_)
        | Step::Drop(_)
        | Step::Databases
        | Step::Checkpoint
        | Step::Compact
        | Step::Reopen => Some(step),
        _ => None,
    }
}

/// Does a plain step, databases of which exist if the model says so.
///
/// # Errors
/// The engine's.
pub fn apply(store: &mut DataStore, step: &Step, model: &Model) -> Result<Answer> {
    let there = |name: &String| model.tables.contains_key(name);
    Ok(match step {
        Step::Read(name, _)
        | Step::Visit(name, ..)
        | Step::Insert(name, ..)
        | Step::Remove(name, ..)
        | Step::RemoveRange(name, ..)
        | Step::Batch(name, ..)
            if !there(name) =>
        {
            Answer::Missing
        }
        Step::Read(name, Read::Get(key)) => {
            let table = store.database(name)?;
            Answer::Value(store.get(&table, key)?)
        }
        Step::Read(name, Read::Contains(key)) => {
            let table = store.database(name)?;
            Answer::Flag(store.get_with(&table, key, |value| value.is_some())?)
        }
        Step::Read(name, Read::Part(key, offset, len)) => {
            let table = store.database(name)?;
            part(|buffer| store.read_at(&table, key, *offset, buffer), *len)?
        }
        Step::Read(name, Read::Length(key)) => {
            let table = store.database(name)?;
            length(store.value_len(&table, key)?)
        }
        Step::Visit(name, bounds, limit) => {
            let table = store.database(name)?;
            let mut found = Vec::new();
            if *limit > 0 {
                store.visit(&table, bounds.clone(), |key, value| {
                    found.push((key.to_vec(), value.to_vec()));
                    if found.len() == *limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
            }
            Answer::Records(found)
        }
        Step::Insert(name, key, value) => {
            let table = store.database(name)?;
            store.insert(&table, key, value)?;
            Answer::Done
        }
        Step::Remove(name, key) => {
            let table = store.database(name)?;
            Answer::Flag(store.remove(&table, key)?)
        }
        Step::RemoveRange(name, bounds) => {
            let table = store.database(name)?;
            Answer::Count(store.remove_range(&table, bounds)?)
        }
        Step::Batch(name, records) => {
            let table = store.database(name)?;
            for (key, value) in records {
                store.insert(&table, key, value)?;
            }
            Answer::Done
        }
        Step::Create(name) => store.database(name).map(|_| Answer::Done)?,
        Step::Drop(name) => Answer::Flag(store.remove_database(name)?),
        Step::Databases => Answer::Names(store.databases()?),
        Step::Checkpoint => store.checkpoint().map(|_| Answer::Done)?,
        Step::Compact => store.compact().map(|_| Answer::Done)?,
        _ => Answer::Done,
    })
}

/// All there is.
///
/// # Errors
/// The engine's.
pub fn state(store: &mut DataStore) -> Result<Model> {
    let mut model = Model::default();
    for name in store.databases()? {
        let table = store.database(&name)?;
        let records = model.tables.entry(name).or_default();
        store.visit(&table, .., |key, value| {
            records.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        })?;
    }
    Ok(model)
}

/// Databases of a Data Store have the order of bytes.
fn names() -> Vec<&'static str> {
    vec!["a", "b", "c"]
}

/// Lives with crashes. Within a life every answer is the model's; after a crash the state is that of the last
/// checkpoint, or of one that the crash cut short.
///
/// # Errors
/// Whatever is not as promised.
pub fn explore(seed: u64) -> std::result::Result<(), Wrong> {
    let mut dice = Dice::new(seed);
    let setting = Setting::any_small(&mut dice);
    let shape = Shape {
        keys: dice.pick(&[10, 60, 300]),
        value_max: dice.pick(&[200, 3000, 20_000]),
        names: names(),
        stem: setting.stem(),
        ..Shape::small()
    };
    let mut disk = SimDisk::new(seed);
    let mut promise = Promise::default();
    let lives = 2 + dice.index(3);
    for life in 0..=lives {
        let count = dice.pick(&[10, 60, 200]);
        let steps: Vec<Step> = shape.steps(&mut dice, count).into_iter().filter_map(plain).collect();
        if life < lives {
            let calls = dice.pick(&[20, 60, 200]);
            disk.crash_at(1 + dice.below(calls));
        }
        live(&disk, &setting, &steps, &mut promise)
            .map_err(|wrong| format!("life {life} of {lives}, {setting:?}: {wrong}"))?;
        disk = disk.crash(dice.throw());
    }
    Ok(())
}

fn live(
    disk: &SimDisk,
    setting: &Setting,
    steps: &[Step],
    promise: &mut Promise,
) -> std::result::Result<(), Wrong> {
    let power = |what: &str, error: sablecat::Error| {
        if disk.has_crashed() { Ok(()) } else { Err(format!("{what}: {:?}: {error}", error.kind())) }
    };
    let open = || setting.builder_on(disk).open_data_store(DIRECTORY);
    let mut store = match open() {
        Ok(store) => store,
        Err(error) => return power("opening", error),
    };
    match state(&mut store) {
        Ok(found) => promise.settle(found)?,
        Err(error) => return power("reading everything", error),
    }
    match store.verify(&mut |_| {}) {
        Ok(report) if report.problems.is_empty() => {}
        Ok(report) if !disk.has_crashed() => return Err(format!("verify: {:?}", report.problems)),
        Ok(_) => return Ok(()),
        Err(error) => return power("verify", error),
    }
    let mut model = promise.newest().clone();
    for step in steps {
        let before = model.clone();
        let expected = model.apply(step);
        if matches!(step, Step::Checkpoint | Step::Compact | Step::Reopen) {
            promise.push(model.clone());
        }
        if matches!(step, Step::Reopen) {
            if let Err(error) = store.close() {
                return power("closing", error);
            }
            promise.durable();
            store = match open() {
                Ok(store) => store,
                Err(error) => return power("opening again", error),
            };
            continue;
        }
        match apply(&mut store, step, &before) {
            Ok(answer) if answer == expected => {}
            Ok(answer) => return Err(format!("{step:?} answered {answer:?}, not {expected:?}")),
            Err(error) => return power(&format!("{step:?}"), error),
        }
        if matches!(step, Step::Checkpoint | Step::Compact) {
            promise.durable();
        }
    }
    // Dropping the handle writes a checkpoint as well.
    promise.push(model);
    Ok(())
}
