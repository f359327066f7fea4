//! How the rows of such tables change.

use sablecat::{Database, Error, Expiring, Holds, Numbered, Queue, Txn};

use super::column::Kind;
use super::entries::Expiry;
use super::table::{Form, Layout, Table};
use super::{KeyValue, failure, find};
use crate::connection::Connection;
use crate::failure::Failure;
use crate::record::Value;

type Result<T> = std::result::Result<T, Failure>;

/// A row to be set: its key, none if it gets a number, and what is stored with it.
struct Row {
    key: Option<Vec<u8>>,
    stored: Vec<u8>,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    Done,
    /// A record was set, with this number.
    Numbered(i64),
    /// There is a record where another was to be set.
    Taken,
}

/// What SQL calls the table, and how it is to be changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) table: &'a Table,
    /// Its name to SQL.
    pub(crate) named: &'a str,
    /// Whether a record that is there goes, where another is set.
    pub(crate) replaces: bool,
}

impl Asked<'_> {
    fn layout(&self) -> &Layout {
        &self.table.layout
    }

    /// A record that was to change or to go is not there.
    fn gone(&self) -> Failure {
        Failure::refused(format!(
            "a record of the database {:?} that the statement was to change is not there any more: the \
             statement has changed it already",
            self.table.name
        ))
    }

    /// A record cannot take the place of another.
    fn taken(&self) -> Failure {
        Failure::refused(format!(
            "UPDATE OR REPLACE would give a record of the database {:?} the key of another: remove that one \
             first",
            self.table.name
        ))
    }

    fn null(&self, column: &str) -> Failure {
        Failure::constraint(format!("NOT NULL constraint failed: {}.{column}", self.named))
    }

    fn mismatch(&self, column: &str, takes: &str) -> Failure {
        Failure::mismatch(format!("{}.{column} is made of {takes}", self.named))
    }

    /// The columns by which the key of a row is not the only one.
    pub(crate) fn not_unique(&self) -> Failure {
        let columns = self.layout().columns.iter().map(|column| format!("{}.{}", self.named, column.name));
        let columns: Vec<_> = columns.collect();
        Failure::constraint(format!("UNIQUE constraint failed: {}", columns.join(", ")))
    }

    /// The key of a row that is there, of what SQL knows it by.
    fn key_of(&self, known: Value<'_>) -> Result<Vec<u8>> {
        let layout = self.layout();
        match (known, layout.columns.first()) {
            (Value::Blob(place, _), _) if layout.has_place() => Ok(place.to_vec()),
            (value, Some(column)) if !layout.has_place() => {
                column.kind.encode(value).map_err(|_| self.gone())
            }
            _ => Err(self.gone()),
        }
    }

    /// A row to be set, of the values of all columns.
    fn row_of(&self, values: &[Value<'_>]) -> Result<Row> {
        let layout = self.layout();
        let mut key = Some(Vec::new());
        let mut ended = None;
        for (column, &value) in layout.columns.iter().zip(values) {
            let (name, kind) = (&*column.name, column.kind);
            match (kind, value) {
                (Kind::Number, Value::Null) => {
                    key = None;
                    continue;
                }
                (Kind::Subscript, Value::Null) => {
                    ended = ended.or(Some(name));
                    continue;
                }
                (Kind::WholeText | Kind::WholeBlob | Kind::Name, Value::Null) => return Err(self.null(name)),
                _ => {}
            }
            if let Some(before) = ended {
                return Err(self.null(before));
            }
            let bytes = kind.encode(value).map_err(|takes| self.mismatch(name, takes))?;
            key.iter_mut().for_each(|key| key.extend_from_slice(&bytes));
        }
        let at = |index: usize| values.get(layout.columns.len() + index).copied().unwrap_or(Value::Null);
        let mut stored = match at(0) {
            Value::Null if !layout.content.has_null() => return Err(self.null("value")),
            value => layout.content.encode(value).map_err(|takes| self.mismatch("value", takes))?,
        };
        if let Holds::Numbers { record_bytes: Some(bytes), pad } = layout.holds {
            let bytes = bytes as usize;
            if stored.len() > bytes {
                return Err(self.mismatch("value", &format!("records of {bytes} bytes")));
            }
            stored.resize(bytes, pad);
        }
        if !layout.expires() {
            return Ok(Row { key, stored });
        }
        let gone_from = match at(1) {
            Value::Null => 0,
            // The beginning of 1970 is long past; 0 says something else.
            Value::Integer(ms) => u64::try_from(ms).unwrap_or(0).max(1),
            Value::Real(ms) if ms.is_finite() => (ms.round() as u64).max(1),
            _ => return Err(self.mismatch("expires", "milliseconds since 1970, or null")),
        };
        let head: Expiry = gone_from.to_le_bytes();
        Ok(Row { key, stored: [&head[..], &stored].concat() })
    }
}

/// Removes the row that SQL knows by one value, if it is given that, and sets another, or the same, if it is
/// given the values of that; or does neither. Busy, and nothing is done, while a program has one of the
/// records locked.
pub(crate) fn change(
    of: &mut Connection,
    asked: Asked<'_>,
    known: Option<Value<'_>>,
    values: Option<&[Value<'_>]>,
) -> Result<Changed> {
    let KeyValue { database, number } = find(of, asked.table)?;
    let layout = asked.layout();
    if layout.is_of_values() {
        return Err(Failure::read_only(format!(
            "{} may not be modified: its keys have several values each",
            asked.named
        )));
    }
    let from = known.map(|known| asked.key_of(known)).transpose()?;
    let row = values.map(|values| asked.row_of(values)).transpose()?;
    let keys = [from.as_deref(), row.as_ref().and_then(|row| row.key.as_deref())];
    // A place is no key.
    let keys = if layout.form == Form::Place { [keys[0], None] } else { keys };
    for key in keys.into_iter().flatten() {
        if of.txn()?.is_locked(&database, key).map_err(failure)? {
            return Err(Failure::busy());
        }
    }
    let txn = of.writing_to(number)?;
    let changed = match layout.holds {
        Holds::Queue { .. } => change_queue(txn, &database, &asked, from.as_deref(), row.as_ref()),
        Holds::Numbers { .. } | Holds::Renumbered { .. } => {
            change_numbered(txn, &database, &asked, from.as_deref(), row.as_ref())
        }
        _ => change_records(txn, &database, &asked, from.as_deref(), row.as_ref()),
    }?;
    if changed != Changed::Taken {
        // Behind the looks at what is there.
        keys.into_iter().flatten().try_for_each(|key| of.check(&database, key))?;
    }
    Ok(changed)
}

/// Why a record was not changed, if not for an error: it is not there.
type Stopped = Option<Error>;

fn change_records(
    txn: &mut Txn<'_>,
    database: &Database,
    asked: &Asked<'_>,
    from: Option<&[u8]>,
    row: Option<&Row>,
) -> Result<Changed> {
    let to = row.and_then(|row| Some((row.key.as_deref()?, &row.stored)));
    let is_taken = |txn: &mut Txn<'_>, key: &[u8]| match asked.layout().expires() {
        false => txn.contains_key(database, key),
        true => Expiring::of(txn, database)?.contains_key(txn, key),
    };
    match (from, to) {
        (None, None) => {}
        (Some(from), None) => {
            if !txn.remove(database, from).map_err(failure)? {
                return Err(asked.gone());
            }
        }
        (Some(from), Some((key, stored))) if from == key => {
            txn.insert(database, key, stored).map_err(failure)?;
        }
        (None, Some((key, stored))) => {
            if !asked.replaces && is_taken(txn, key).map_err(failure)? {
                return Ok(Changed::Taken);
            }
            txn.insert(database, key, stored).map_err(failure)?;
        }
        (Some(from), Some((key, stored))) => {
            if is_taken(txn, key).map_err(failure)? {
                // The record there may be one that the statement is still to move: SQLite has what it was.
                return if asked.replaces { Err(asked.taken()) } else { Ok(Changed::Taken) };
            }
            let moved = txn.try_nested(|txn| -> std::result::Result<(), Stopped> {
                if !txn.remove(database, from)? {
                    return Err(None);
                }
                Ok(txn.insert(database, key, stored)?)
            });
            moved.map_err(|stopped| stopped.map_or_else(|| asked.gone(), failure))?;
        }
    }
    Ok(Changed::Done)
}

/// The number that a key is.
fn number_of(key: &[u8]) -> u64 {
    key.try_into().map_or(0, u64::from_be_bytes)
}

/// That a record was set with a number.
fn numbered(number: u64) -> Result<Changed> {
    i64::try_from(number).map(Changed::Numbered).map_err(|_| {
        Failure::refused(format!("the record would get the number {number}, which SQL does not have"))
    })
}

fn change_queue(
    txn: &mut Txn<'_>,
    database: &Database,
    asked: &Asked<'_>,
    from: Option<&[u8]>,
    row: Option<&Row>,
) -> Result<Changed> {
    let queue = Queue::of(database.clone()).map_err(failure)?;
    match (from, row) {
        (None, None) => Ok(Changed::Done),
        (Some(from), None) => match queue.remove(txn, number_of(from)).map_err(failure)? {
            true => Ok(Changed::Done),
            false => Err(asked.gone()),
        },
        (None, Some(Row { key: None, stored })) => numbered(queue.append(txn, stored).map_err(failure)?),
        (from, Some(Row { key: Some(to), stored })) if from.is_none_or(|from| from == to) => {
            let number = number_of(to);
            let is_there = queue.get(txn, number).map_err(failure)?.is_some();
            match from {
                Some(_) if !is_there => return Err(asked.gone()),
                None if is_there && !asked.replaces => return Ok(Changed::Taken),
                _ => queue.restore(txn, number, stored).map_err(failure)?,
            }
            numbered(number)
        }
        _ => Err(Failure::refused(format!(
            "a record of the queue {:?} keeps its number: it is its place in the queue",
            asked.table.name
        ))),
    }
}

fn change_numbered(
    txn: &mut Txn<'_>,
    database: &Database,
    asked: &Asked<'_>,
    from: Option<&[u8]>,
    row: Option<&Row>,
) -> Result<Changed> {
    let records = Numbered::of(database.clone()).map_err(failure)?;
    match (from, row) {
        (None, Some(Row { key: None, stored })) => numbered(records.append(txn, stored).map_err(failure)?),
        (None, Some(Row { key: Some(to), stored })) if records.renumbers() => {
            records.insert(txn, number_of(to), stored).map_err(failure)?;
            numbered(number_of(to))
        }
        (Some(from), Some(Row { key, stored })) if records.renumbers() => {
            let number = txn.rank(database, from).map_err(failure)?.saturating_add(1);
            if !txn.contains_key(database, from).map_err(failure)? {
                return Err(asked.gone());
            }
            if key.as_deref().is_some_and(|to| number_of(to) != number) {
                return Err(Failure::refused(format!(
                    "the number of a record of the database {:?} is its position among all records: it \
                     cannot be changed",
                    asked.table.name
                )));
            }
            records.put(txn, number, stored).map_err(failure)?;
            Ok(Changed::Done)
        }
        (Some(_), Some(Row { key: None, .. })) => Err(asked.null("number")),
        (from, row) => {
            let changed = change_records(txn, database, asked, from, row)?;
            match (changed, row.and_then(|row| row.key.as_deref()), from) {
                (Changed::Done, Some(key), None) => numbered(number_of(key)),
                _ => Ok(changed),
            }
        }
    }
}
