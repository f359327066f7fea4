//! Walks: cursors of one transaction in one database, moved in turn, with changes through them and beside
//! them in between.

use std::cmp::Ordering;
use std::ops::Bound;

use sablecat::{Cursor, Database, Env, Result, Write};

use crate::answer::Answer;
use crate::records::{Bytes, Records, between, order};

/// How many cursors there are.
pub(crate) const CURSORS: usize = 3;

/// What is done with one of them, or beside them.
#[derive(Clone, Debug)]
pub enum Move {
    /// `first`
    First,
    /// `last`
    Last,
    /// `next`
    Next,
    /// `prev`
    Prev,
    /// `seek`
    Seek(Bytes),
    /// `at_or_after`
    AtOrAfter(Bytes),
    /// `at_or_before`
    AtOrBefore(Bytes),
    /// `key` and `value`
    Look,
    /// `put`
    Put(Bytes),
    /// `insert`
    Insert(Bytes, Bytes),
    /// `insert_new`
    InsertNew(Bytes, Bytes),
    /// `remove`
    Remove,
    /// `compare`, with another cursor.
    Compare,
    /// Another cursor in the same place takes this one's.
    Clone,
    /// The transaction itself sets a record.
    InsertBeside(Bytes, Bytes),
    /// The transaction itself removes a record.
    RemoveBeside(Bytes),
}

/// Moves of cursors, by number.
pub type Walk = Vec<(usize, Move)>;

fn compared(order: Option<Ordering>) -> Answer {
    order.map_or(Answer::Missing, |order| Answer::Count((order as i8 + 1) as u64))
}

/// Walks in the engine.
///
/// # Errors
/// The engine's.
pub fn engine<W: Write<Of = Env>>(txn: &mut W, db: &Database, walk: &Walk) -> Result<Answer> {
    let mut cursors: [Cursor; CURSORS] = std::array::from_fn(|_| db.cursor());
    let key = |key: Option<&[u8]>| Answer::Value(key.map(<[u8]>::to_vec));
    let mut answers = Vec::new();
    for (number, one) in walk {
        let another = (number + 1) % CURSORS;
        if let Move::Compare = one {
            answers.push(compared(cursors[*number].compare(&cursors[another])?));
            continue;
        }
        let cursor = &mut cursors[*number];
        answers.push(match one {
            Move::First => key(cursor.first(txn)?),
            Move::Last => key(cursor.last(txn)?),
            Move::Next => key(cursor.next(txn)?),
            Move::Prev => key(cursor.prev(txn)?),
            Move::Seek(to) => compared(cursor.seek(txn, to)?),
            Move::AtOrAfter(to) => key(cursor.at_or_after(txn, to)?),
            Move::AtOrBefore(to) => key(cursor.at_or_before(txn, to)?),
            Move::Look => {
                let value = cursor.value(txn)?.map(<[u8]>::to_vec);
                assert_eq!(cursor.value_len(txn)?, value.as_ref().map(|value| value.len() as u64));
                Answer::Parts(vec![key(cursor.key()), Answer::Value(value)])
            }
            Move::Put(_) if cursor.key().is_none() => Answer::Missing,
            Move::Put(value) => cursor.put(txn, value).map(|()| Answer::Done)?,
            Move::Insert(to, value) => cursor.insert(txn, to, value).map(|()| Answer::Done)?,
            Move::InsertNew(to, value) => Answer::Flag(cursor.insert_new(txn, to, value)?),
            Move::Remove => Answer::Flag(cursor.remove(txn)?),
            Move::Compare => Answer::Done,
            Move::Clone => {
                cursors[another] = cursor.clone();
                Answer::Done
            }
            Move::InsertBeside(to, value) => txn.insert(db, to, value).map(|()| Answer::Done)?,
            Move::RemoveBeside(from) => Answer::Flag(txn.remove(db, from)?),
        });
    }
    Ok(Answer::Parts(answers))
}

/// Where a cursor stands.
#[derive(Clone, Default)]
enum Place {
    #[default]
    Nowhere,
    Before,
    At(Bytes),
    After,
}

/// Walks in the model.
pub fn model(name: &str, records: &mut Records, walk: &Walk) -> Answer {
    let mut places: [Place; CURSORS] = Default::default();
    let mut answers = Vec::new();
    for (number, one) in walk {
        let place = &mut places[*number];
        let after = |records: &Records, from: Bound<Bytes>| {
            between(name, records, &(from, Bound::Unbounded)).pop_front()
        };
        let before =
            |records: &Records, to: Bound<Bytes>| between(name, records, &(Bound::Unbounded, to)).pop_back();
        let forward = |place: &mut Place, found: Option<(Bytes, Bytes)>| {
            *place = found.map_or(Place::After, |(key, _)| Place::At(key));
            standing(place)
        };
        let backward = |place: &mut Place, found: Option<(Bytes, Bytes)>| {
            *place = found.map_or(Place::Before, |(key, _)| Place::At(key));
            standing(place)
        };
        let is_first = matches!(place, Place::Nowhere | Place::Before);
        let is_last = matches!(place, Place::Nowhere | Place::After);
        let here = key_of(place);
        answers.push(match one {
            Move::First => forward(place, after(records, Bound::Unbounded)),
            Move::Last => backward(place, before(records, Bound::Unbounded)),
            Move::Next if is_first => forward(place, after(records, Bound::Unbounded)),
            Move::Next => match here {
                Some(key) => forward(place, after(records, Bound::Excluded(key))),
                None => Answer::Value(None),
            },
            Move::Prev if is_last => backward(place, before(records, Bound::Unbounded)),
            Move::Prev => match here {
                Some(key) => backward(place, before(records, Bound::Excluded(key))),
                None => Answer::Value(None),
            },
            Move::Seek(to) => {
                let found = after(records, Bound::Included(to.clone()));
                let order = match &found {
                    Some((key, _)) if key == to => Some(Ordering::Equal),
                    Some(_) => Some(Ordering::Greater),
                    None if records.is_empty() => None,
                    None => Some(Ordering::Less),
                };
                match found {
                    Some(found) => _ = forward(place, Some(found)),
                    None => _ = backward(place, before(records, Bound::Unbounded)),
                }
                compared(order)
            }
            Move::AtOrAfter(to) => forward(place, after(records, Bound::Included(to.clone()))),
            Move::AtOrBefore(to) => backward(place, before(records, Bound::Included(to.clone()))),
            Move::Look => {
                let value = here.as_ref().and_then(|key| records.get(key).cloned());
                Answer::Parts(vec![Answer::Value(here), Answer::Value(value)])
            }
            Move::Put(value) => here.map_or(Answer::Missing, |key| {
                records.insert(key, value.clone());
                Answer::Done
            }),
            Move::Insert(to, value) => {
                records.insert(to.clone(), value.clone());
                *place = Place::At(to.clone());
                Answer::Done
            }
            Move::InsertNew(to, value) => {
                *place = Place::At(to.clone());
                let is_new = !records.contains_key(to);
                if is_new {
                    records.insert(to.clone(), value.clone());
                }
                Answer::Flag(is_new)
            }
            Move::Compare => {
                let other = &places[(number + 1) % CURSORS];
                compared(compare(name, &places[*number], other))
            }
            Move::Remove => Answer::Flag(here.is_some_and(|key| records.remove(&key).is_some())),
            Move::Clone => {
                let place = place.clone();
                places[(number + 1) % CURSORS] = place;
                Answer::Done
            }
            Move::InsertBeside(to, value) => {
                records.insert(to.clone(), value.clone());
                Answer::Done
            }
            Move::RemoveBeside(from) => Answer::Flag(records.remove(from).is_some()),
        });
    }
    Answer::Parts(answers)
}

fn compare(name: &str, one: &Place, other: &Place) -> Option<Ordering> {
    // Before all records, at one, after all.
    let rank = |place: &Place| match place {
        Place::Nowhere => None,
        Place::Before => Some(0),
        Place::At(_) => Some(1),
        Place::After => Some(2),
    };
    match (one, other) {
        (Place::At(one), Place::At(other)) => Some(order(name, one, other)),
        _ => Some(rank(one)?.cmp(&rank(other)?)),
    }
}

fn key_of(place: &Place) -> Option<Bytes> {
    match place {
        Place::At(key) => Some(key.clone()),
        _ => None,
    }
}

fn standing(place: &Place) -> Answer {
    Answer::Value(key_of(place))
}
