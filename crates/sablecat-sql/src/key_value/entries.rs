//! Where a statement is in a database of keys and values.
//!
//! Records are read some at a time, as those of SQL's own trees are ([`ahead`](crate::ahead)), but within the
//! bounds that a statement has given, in either direction. What is shown is a copy: it stays as it is until
//! the next step, which reads anew, from behind the key shown last, if anything was changed meanwhile.

use std::ops::{Bound, ControlFlow};
use std::ptr::NonNull;
use std::sync::Arc;

use sablecat::{Database, Duplicates, Expiring, Holds, MultiCursor, MultiMap, Txn};

use super::column::{self, Kind, Part};
use super::table::{Form, Layout, Table, Wanted};
use super::{KeyValue, failure, find};
use crate::ahead::{BYTES_MAX, BYTES_NOTED, RECORDS_MAX, RECORDS_MIN, StateOf, too_long};
use crate::connection::Connection;
use crate::failure::Failure;
use crate::record::Value;

type Result<T> = std::result::Result<T, Failure>;

/// A statement's place.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) connection: NonNull<Connection>,
    table: Arc<Table>,
    /// The keys that it goes through.
    keys: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    forward: bool,
    /// What goes on; none before the first seek and behind the last record.
    under_way: Option<UnderWay>,
    read: Read,
    /// The columns of the key at which it is, once one was asked for; and the bytes of what is made for one.
    parts: Vec<Part>,
    place: Vec<u8>,
}

#[derive(Debug)]
enum UnderWay {
    /// Through records, some at a time, of this state.
    Records(KeyValue, StateOf),
    /// Through keys with several values.
    Values(Box<MultiCursor>),
}

/// Records that were read, each with the ends of its key and its value among the bytes.
#[derive(Debug, Default)]
struct Read {
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
    /// At which one it is.
    at: usize,
    /// How many are to be read at a time.
    most: usize,
    /// How many values of the key come before.
    nth: u64,
    /// The number of the first of them, where that is its place among all.
    first_number: u64,
}

/// A record that was read.
#[derive(Clone, Copy, Debug)]
struct Entry<'e> {
    key: &'e [u8],
    value: &'e [u8],
}

impl Read {
    /// Forgets all of it. What one long record has taken is not kept for short ones.
    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(2 * BYTES_MAX);
        self.ends.clear();
        self.at = 0;
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let (key_end, end) = *self.ends.get(self.at)?;
        let begin = self.at.checked_sub(1).map_or(0, |before| self.ends[before].1);
        Some(Entry { key: &self.bytes[begin..key_end], value: &self.bytes[key_end..end] })
    }

    /// Reads records between two keys.
    fn fill(
        &mut self,
        txn: &Txn<'_>,
        (database, layout): (&Database, &Layout),
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        (forward, is_noted): (bool, bool),
    ) -> Result<()> {
        self.clear();
        let bytes_max = if is_noted { BYTES_NOTED } else { BYTES_MAX };
        let hidden = Hidden::of(layout, txn)?;
        let add = |key: &[u8], value: &[u8]| {
            if !hidden.hides(value) {
                self.push(key, value);
            }
            match self.ends.len() < self.most && self.bytes.len() < bytes_max {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        match forward {
            true => txn.visit(database, (lower, upper), add),
            false => txn.visit_back(database, (lower, upper), add),
        }
        .map_err(failure)?;
        self.count(txn, (database, layout))
    }

    /// Counts where the first record that was read is, if that is its number.
    fn count(&mut self, txn: &Txn<'_>, (database, layout): (&Database, &Layout)) -> Result<()> {
        if layout.form == Form::Place
            && let Some(first) = self.entry()
        {
            self.first_number = txn.rank(database, first.key).map_err(failure)?.saturating_add(1);
        }
        Ok(())
    }

    /// Reads the record of one key.
    fn fill_one(
        &mut self,
        txn: &Txn<'_>,
        (database, layout): (&Database, &Layout),
        key: &[u8],
    ) -> Result<()> {
        let hidden = Hidden::of(layout, txn)?;
        let push = |value: Option<&[u8]>| match value {
            Some(value) if !hidden.hides(value) => self.push(key, value),
            _ => {}
        };
        txn.get_with(database, key, push).map_err(failure)?;
        self.count(txn, (database, layout))
    }
}

/// Which records are no rows, though they are there.
#[derive(Clone, Copy, Debug)]
enum Hidden {
    None,
    /// Empty ones: where the last record of a queue was.
    Empty,
    /// Those that have expired by now, in milliseconds.
    Expired(u64),
}

/// What a value that may expire begins with: from when on it is gone, or 0.
pub(super) type Expiry = [u8; 8];

impl Hidden {
    fn of(layout: &Layout, txn: &Txn<'_>) -> Result<Hidden> {
        Ok(match layout.holds {
            Holds::Queue { .. } => Hidden::Empty,
            Holds::Expiring => Hidden::Expired(Expiring::time(txn).map_err(failure)?.ms),
            _ => Hidden::None,
        })
    }

    fn hides(self, value: &[u8]) -> bool {
        match (self, expiry(value)) {
            (Hidden::Empty, _) => value.is_empty(),
            (Hidden::Expired(now), Some((gone_from, _))) => gone_from != 0 && gone_from <= now,
            _ => false,
        }
    }
}

/// From when on a record is gone, or 0, and its value.
fn expiry(stored: &[u8]) -> Option<(u64, &[u8])> {
    let (head, value) = stored.split_first_chunk::<{ size_of::<Expiry>() }>()?;
    Some((u64::from_le_bytes(*head), value))
}

impl Entries {
    pub(crate) fn new(connection: NonNull<Connection>, table: Arc<Table>) -> Entries {
        Entries {
            connection,
            table,
            keys: (Bound::Unbounded, Bound::Unbounded),
            forward: true,
            under_way: None,
            read: Read::default(),
            parts: Vec::new(),
            place: Vec::new(),
        }
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// Goes to the first record of some keys, or to the last, to go on from there to the other end. False if
    /// there is none.
    pub(crate) fn seek(&mut self, of: &mut Connection, wanted: Wanted, forward: bool) -> Result<bool> {
        (self.forward, self.under_way) = (forward, None);
        self.leave();
        self.read.nth = 0;
        let found = find(of, &self.table)?;
        let state = of.state_of(found.number, of.depends());
        let depends = state.is_noted;
        self.read.most = if depends { 1 } else { RECORDS_MIN };
        let layout = &self.table.layout;
        let wanted = match layout.form {
            Form::Place => of.look(depends, |txn| keys_of_places(txn, &found.database, wanted))?,
            _ => wanted,
        };
        self.keys = match wanted {
            Wanted::Nothing => return Ok(false),
            Wanted::One(key) if !layout.is_of_values() => {
                // There is one at most, in whatever order.
                of.look(depends, |txn| self.read.fill_one(txn, (&found.database, layout), &key))?;
                return self.is_there();
            }
            Wanted::One(key) => (Bound::Included(key.clone()), Bound::Included(key)),
            Wanted::Keys(lower, upper) => (
                lower.map_or(Bound::Unbounded, Bound::Included),
                upper.map_or(Bound::Unbounded, Bound::Excluded),
            ),
        };
        if let Holds::Values(order) = layout.holds {
            return self.seek_value(of, found.database, order);
        }
        let bounds = (self.keys.0.as_ref().map(Vec::as_slice), self.keys.1.as_ref().map(Vec::as_slice));
        let from = (&found.database, layout);
        of.look(depends, |txn| self.read.fill(txn, from, bounds, (forward, depends)))?;
        self.under_way = Some(UnderWay::Records(found, state));
        self.is_there()
    }

    /// Goes to the next record; false if there is none.
    pub(crate) fn step(&mut self, of: &mut Connection) -> Result<bool> {
        self.parts.clear();
        let (found, state) = match &mut self.under_way {
            None => {
                self.leave();
                return Ok(false);
            }
            Some(UnderWay::Values(_)) => return self.step_value(of),
            Some(UnderWay::Records(found, state)) => (found, state),
        };
        let now = of.state_of(found.number, of.depends());
        if *state == now && self.read.at + 1 < self.read.ends.len() {
            self.read.at += 1;
            return self.is_there();
        }
        let Some(last) = self.read.entry().map(|entry| entry.key.to_vec()) else { return Ok(false) };
        self.read.most = match *state == now {
            true => (self.read.most * 4).min(RECORDS_MAX),
            false if now.is_noted => 1,
            false => RECORDS_MIN,
        };
        if state.transaction != now.transaction {
            *found = find(of, &self.table)?;
        }
        *state = now;
        let (lower, upper) =
            (self.keys.0.as_ref().map(Vec::as_slice), self.keys.1.as_ref().map(Vec::as_slice));
        let bounds = match self.forward {
            true => (Bound::Excluded(&*last), upper),
            false => (lower, Bound::Excluded(&*last)),
        };
        let from = (&found.database, &self.table.layout);
        let how = (self.forward, now.is_noted);
        of.look(now.is_noted, |txn| self.read.fill(txn, from, bounds, how))?;
        self.is_there()
    }

    /// Forgets the record at which it is.
    fn leave(&mut self) {
        self.parts.clear();
        self.read.clear();
    }

    /// Whether there is a record, of which C can be told how long it is.
    fn is_there(&self) -> Result<bool> {
        let entry = self.read.entry();
        match entry.is_some_and(|entry| u32::try_from(entry.value.len()).is_err()) {
            true => Err(too_long()),
            false => Ok(entry.is_some()),
        }
    }

    /// The value of a column of the record at which it is, good until the next call.
    pub(crate) fn column(&mut self, index: usize) -> Result<Value<'_>> {
        let Some(Entry { key, value }) = self.read.entry() else { return Ok(Value::Null) };
        let layout = &self.table.layout;
        let wrong = |why: String| {
            Failure::refused(format!(
                "the record {} of the database {:?} does not fit this table: {why}",
                key.escape_ascii(),
                self.table.name
            ))
        };
        let number = |number: u64| match i64::try_from(number) {
            Ok(number) => Ok(Value::Integer(number)),
            Err(_) => Err(wrong(format!("SQL has no integer {number}"))),
        };
        if let Some(column) = layout.columns.get(index) {
            return match (layout.form, column.kind) {
                (Form::Place, _) => number(match self.forward {
                    true => self.read.first_number.saturating_add(self.read.at as u64),
                    false => self.read.first_number.saturating_sub(self.read.at as u64),
                }),
                (_, Kind::WholeText) => Ok(Value::Text(key)),
                (_, Kind::WholeBlob) => Ok(Value::Blob(key, 0)),
                (_, Kind::Number) => match key.try_into().map(u64::from_be_bytes) {
                    Ok(0) | Err(_) => Err(wrong("its key is not a number above 0".to_owned())),
                    Ok(of) => number(of),
                },
                _ => {
                    if self.parts.is_empty() {
                        self.parts = parts(layout, key).map_err(wrong)?;
                    }
                    Ok(self.parts.get(index).map_or(Value::Null, Part::value))
                }
            };
        }
        let live = || match layout.expires() {
            false => Ok((0, value)),
            true => expiry(value).ok_or_else(|| wrong("it has no expiry time".to_owned())),
        };
        match (index - layout.columns.len(), layout.expires()) {
            (0, _) => layout.content.decode(live()?.1).map_err(wrong),
            (1, true) => match live()?.0 {
                0 => Ok(Value::Null),
                gone_from => number(gone_from),
            },
            _ if layout.is_of_values() => {
                self.place.clear();
                self.place.extend_from_slice(key);
                self.place.extend_from_slice(&self.read.nth.to_be_bytes());
                Ok(Value::Blob(&self.place, 0))
            }
            _ => Ok(Value::Blob(key, 0)),
        }
    }

    /// Goes to the first value of the first of the keys.
    fn seek_value(&mut self, of: &mut Connection, database: Database, order: Duplicates) -> Result<bool> {
        let mut cursor = MultiMap::of(database, order).map_err(failure)?.cursor();
        of.look(of.depends(), |txn| {
            match &self.keys.0 {
                Bound::Included(key) | Bound::Excluded(key) => cursor.at_or_after(txn, key),
                Bound::Unbounded => cursor.first(txn),
            }
            .map_err(failure)
        })?;
        self.stand(of, Box::new(cursor))
    }

    /// Goes to the next value.
    fn step_value(&mut self, of: &mut Connection) -> Result<bool> {
        let Some(UnderWay::Values(mut cursor)) = self.under_way.take() else { return Ok(false) };
        of.look(of.depends(), |txn| cursor.next(txn).map_err(failure))?;
        let last = self.read.entry().map(|entry| entry.key);
        self.read.nth = if last == cursor.key() { self.read.nth + 1 } else { 0 };
        self.stand(of, cursor)
    }

    /// Shows the value at which the cursor stands, if its key is one of those wanted.
    fn stand(&mut self, of: &mut Connection, mut cursor: Box<MultiCursor>) -> Result<bool> {
        self.leave();
        let Some(key) = cursor.key() else { return Ok(false) };
        let is_within = match &self.keys.1 {
            Bound::Unbounded => true,
            Bound::Included(last) => key <= &**last,
            Bound::Excluded(end) => key < &**end,
        };
        if !is_within {
            return Ok(false);
        }
        let key = key.to_vec();
        let value = of.look(of.depends(), |txn| cursor.value(txn).map_err(failure))?;
        self.read.push(&key, value.unwrap_or_default());
        self.under_way = Some(UnderWay::Values(cursor));
        self.is_there()
    }
}

/// The columns of a key of several.
fn parts(layout: &Layout, key: &[u8]) -> std::result::Result<Vec<Part>, String> {
    match layout.form {
        Form::Node => column::of_node(key, layout.columns.len()),
        _ => column::of_tuple(key, layout.columns.iter().map(|column| column.kind)),
    }
}

/// The keys of records whose places are wanted.
fn keys_of_places(txn: &Txn<'_>, database: &Database, wanted: Wanted) -> Result<Wanted> {
    // What comes before the record that has the number which is asked for, or, behind it, with that.
    let before = |place: &[u8]| {
        let number = place.first_chunk().map_or(0, |number| u64::from_be_bytes(*number));
        number.saturating_sub(1).saturating_add(u64::from(place.len() > size_of::<u64>() && number > 0))
    };
    let nth = |before: u64| {
        let found = txn.nth(database, before).map_err(failure)?;
        Ok::<_, Failure>(found.map(|(key, _)| key))
    };
    Ok(match wanted {
        Wanted::Nothing => Wanted::Nothing,
        Wanted::One(place) => nth(before(&place))?.map_or(Wanted::Nothing, Wanted::One),
        Wanted::Keys(lower, upper) => {
            let upper = match upper {
                Some(place) => nth(before(&place))?,
                None => None,
            };
            match lower {
                None => Wanted::Keys(None, upper),
                // Behind the last there is nothing.
                Some(place) => match nth(before(&place))? {
                    Some(lower) => Wanted::Keys(Some(lower), upper),
                    None => Wanted::Nothing,
                },
            }
        }
    })
}
