//! Where a statement is in a database of keys and values.
//!
//! Records are read some at a time, as those of SQL's own trees are ([`ahead`](crate::ahead)), but within the
//! bounds that a statement has given, in either direction. What is shown is a copy: it stays as it is until
//! the next step, which reads anew, from behind the key shown last, if anything was changed meanwhile.

use std::ops::{Bound, ControlFlow};
use std::ptr::NonNull;

use sablecat::{Database, Duplicates, Holds, MultiCursor, MultiMap, Txn};

use crate::ahead::{BYTES_MAX, BYTES_NOTED_MAX, RECORDS_MAX, RECORDS_MIN, StateOf, too_long};
use crate::connection::Connection;
use crate::failure::Failure;
use crate::key_value::{self, KeyValue, Shape};

type Result<T> = std::result::Result<T, Failure>;

/// The bounds of some keys.
pub(crate) type Keys = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A record, as it is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'e> {
    pub(crate) key: &'e [u8],
    pub(crate) value: &'e [u8],
    /// How many values of the key come before.
    pub(crate) nth: u64,
}

/// A statement's place.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) connection: NonNull<Connection>,
    name: Box<str>,
    shape: Shape,
    keys: Keys,
    forward: bool,
    /// What goes on; none before the first seek and behind the last record.
    under_way: Option<UnderWay>,
    read: Read,
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
        Some(Entry { key: &self.bytes[begin..key_end], value: &self.bytes[key_end..end], nth: self.nth })
    }

    /// Reads records between two keys.
    fn fill(
        &mut self,
        txn: &Txn<'_>,
        database: &Database,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        (forward, is_noted): (bool, bool),
    ) -> Result<()> {
        self.clear();
        let bytes_max = if is_noted { BYTES_NOTED_MAX } else { BYTES_MAX };
        let add = |key: &[u8], value: &[u8]| {
            self.push(key, value);
            match self.ends.len() < self.most && self.bytes.len() < bytes_max {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        match forward {
            true => txn.visit(database, (lower, upper), add),
            false => txn.visit_back(database, (lower, upper), add),
        }
        .map_err(key_value::failure)
    }
}

impl Entries {
    pub(crate) fn new(connection: NonNull<Connection>, name: &str, shape: Shape) -> Entries {
        Entries {
            connection,
            name: name.into(),
            shape,
            keys: (Bound::Unbounded, Bound::Unbounded),
            forward: true,
            under_way: None,
            read: Read::default(),
        }
    }

    /// Goes to the first record of some keys, or to the last, to go on from there to the other end.
    pub(crate) fn seek(
        &mut self,
        of: &mut Connection,
        keys: Keys,
        forward: bool,
    ) -> Result<Option<Entry<'_>>> {
        (self.keys, self.forward, self.under_way) = (keys, forward, None);
        self.read.clear();
        self.read.nth = 0;
        let found = find(of, &self.name, self.shape)?;
        let state = of.state_of(found.number);
        if let Holds::Values(order) = found.database.holds() {
            return self.seek_value(of, found.database, order);
        }
        self.read.most = if state.is_noted { 1 } else { RECORDS_MIN };
        let txn = &*of.txn()?;
        if let (Bound::Included(key), Bound::Included(last)) = &self.keys
            && key == last
        {
            // There is one at most, in whatever order.
            let read = &mut self.read;
            txn.get_with(&found.database, key, |value| {
                value.into_iter().for_each(|value| read.push(key, value))
            })
            .map_err(key_value::failure)?;
            return shown(&self.read);
        }
        let bounds = (self.keys.0.as_ref().map(Vec::as_slice), self.keys.1.as_ref().map(Vec::as_slice));
        self.read.fill(txn, &found.database, bounds, (forward, state.is_noted))?;
        self.under_way = Some(UnderWay::Records(found, state));
        shown(&self.read)
    }

    /// Goes to the next record.
    pub(crate) fn step(&mut self, of: &mut Connection) -> Result<Option<Entry<'_>>> {
        let (found, state) = match &mut self.under_way {
            None => {
                self.read.clear();
                return Ok(None);
            }
            Some(UnderWay::Values(_)) => return self.step_value(of),
            Some(UnderWay::Records(found, state)) => (found, state),
        };
        let now = of.state_of(found.number);
        if *state == now && self.read.at + 1 < self.read.ends.len() {
            self.read.at += 1;
            return shown(&self.read);
        }
        let Some(last) = self.read.entry().map(|entry| entry.key.to_vec()) else { return Ok(None) };
        self.read.most = match *state == now {
            true => (self.read.most * 4).min(RECORDS_MAX),
            false if now.is_noted => 1,
            false => RECORDS_MIN,
        };
        if state.transaction != now.transaction {
            *found = find(of, &self.name, self.shape)?;
        }
        *state = now;
        let (lower, upper) =
            (self.keys.0.as_ref().map(Vec::as_slice), self.keys.1.as_ref().map(Vec::as_slice));
        let bounds = match self.forward {
            true => (Bound::Excluded(&*last), upper),
            false => (lower, Bound::Excluded(&*last)),
        };
        self.read.fill(&*of.txn()?, &found.database, bounds, (self.forward, now.is_noted))?;
        shown(&self.read)
    }

    /// Goes to the first value of the first of the keys.
    fn seek_value(
        &mut self,
        of: &mut Connection,
        database: Database,
        order: Duplicates,
    ) -> Result<Option<Entry<'_>>> {
        let mut cursor = MultiMap::of(database, order).map_err(key_value::failure)?.cursor();
        let txn = &*of.txn()?;
        let went = match &self.keys.0 {
            Bound::Unbounded => cursor.first(txn).map(drop),
            Bound::Included(key) => cursor.at_or_after(txn, key).map(drop),
            Bound::Excluded(key) => match cursor.at_or_after(txn, key) {
                Ok(Some(found)) if found == key => cursor.next_key(txn).map(drop),
                found => found.map(drop),
            },
        };
        went.map_err(key_value::failure)?;
        self.stand(of, Box::new(cursor))
    }

    /// Goes to the next value.
    fn step_value(&mut self, of: &mut Connection) -> Result<Option<Entry<'_>>> {
        let Some(UnderWay::Values(mut cursor)) = self.under_way.take() else { return Ok(None) };
        cursor.next(&*of.txn()?).map_err(key_value::failure)?;
        let last = self.read.entry().map(|entry| entry.key);
        self.read.nth = if last == cursor.key() { self.read.nth + 1 } else { 0 };
        self.stand(of, cursor)
    }

    /// Shows the value at which the cursor stands, if its key is one of those wanted.
    fn stand(&mut self, of: &mut Connection, mut cursor: Box<MultiCursor>) -> Result<Option<Entry<'_>>> {
        self.read.clear();
        let Some(key) = cursor.key() else { return Ok(None) };
        let is_within = match &self.keys.1 {
            Bound::Unbounded => true,
            Bound::Included(last) => key <= &**last,
            Bound::Excluded(end) => key < &**end,
        };
        if !is_within {
            return Ok(None);
        }
        let key = key.to_vec();
        let value = cursor.value(&*of.txn()?).map_err(key_value::failure)?;
        self.read.push(&key, value.unwrap_or_default());
        self.under_way = Some(UnderWay::Values(cursor));
        shown(&self.read)
    }
}

/// The database, as it is in the transaction in progress.
fn find(of: &mut Connection, name: &str, shape: Shape) -> Result<KeyValue> {
    let found = key_value::find(of, name)?;
    match found.shape == shape {
        true => Ok(found),
        false => Err(Failure::refused(format!(
            "the database {name:?} was made anew, of another kind; a table of it is to be made anew too"
        ))),
    }
}

/// The record that was come to, if C can be told how long it is.
fn shown(read: &Read) -> Result<Option<Entry<'_>>> {
    let entry = read.entry();
    match entry.is_some_and(|entry| u32::try_from(entry.value.len()).is_err()) {
        true => Err(too_long()),
        false => Ok(entry),
    }
}
