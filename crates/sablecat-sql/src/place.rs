//! Where a cursor of SQLite's stands: at a key, of which there is a record or is not.
//!
//! It holds the key and a copy of the record, which stays as it is until the cursor is moved, whatever
//! becomes of the tree: that is what SQLite is shown, without another copy. A seek that finds nothing only
//! keeps the key, and reads nothing around it: so a transaction that looks whether there is a record, to
//! insert one, conflicts with none that inserts another.

use std::ops::{Bound, ControlFlow};
use std::ptr::NonNull;
use std::time::Duration;

use sablecat::{Database, ErrorKind, Lsn, Txn};

use crate::ahead::{Ahead, StateOf, no_rowid};
use crate::connection::{Connection, SharedRowIds};
use crate::failure::Failure;
use crate::key::{self, Encoding, Order};
use crate::record::{Value, Values};
use crate::sequences::{self, Sequence};

type Result<T> = std::result::Result<T, Failure>;

/// The longest key.
const KEY_BYTES_MAX: usize = 1 << 16;

/// So much memory for values is kept by a cursor that is not open.
const VALUE_KEPT: usize = 1 << 16;

/// Where to seek, of the records whose keys begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// The only one there may be, or any.
    Any,
    Before,
    After,
    First,
    Last,
}

/// A cursor. Its beginning is what C goes through by itself.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Place {
    /// Leads it from record to record.
    ahead: Ahead,
    pub(crate) connection: NonNull<Connection>,
    root: u32,
    /// As its connection counted when it was made.
    forgotten: u64,
    tree: Database,
    /// How the columns of an index are ordered; none in a table.
    order: Option<Box<[Order]>>,
    encoding: Encoding,
    /// Where it stands: at this key, unless `ahead` leads,
    key: Vec<u8>,
    /// or right before it, whether or not there is a record with it.
    before: bool,
    /// The key at which it stood before an entry was inserted.
    before_entry: Vec<u8>,
    /// The key, or the beginning of one, that was sought last and of which there was no record.
    absent: Vec<u8>,
    /// The record there, unless `ahead` has it.
    value: Vec<u8>,
    led: Led,
    /// How many rows that were sought each had the number behind the one before.
    followed: u32,
    /// What is known of the table's row ids.
    row_ids: SharedRowIds,
    /// Goes through the table of sequences, of what is read of which the transaction does not depend
    /// ([`sequences`]).
    is_of_sequences: bool,
    /// Whether it changes the table of sequences, for AUTOINCREMENT or as a program does.
    pub(crate) changes_sequences: bool,
    /// Is a handle's of a blob, which modules also read by when they write.
    is_of_blob: bool,
}

/// So many rows must have been sought in a row, each with the number behind the one before, for the next ones
/// to be read ahead;
const FOLLOWED_MIN: u32 = 2;
/// so many where it is noted what is read, as what is read ahead counts as read.
const FOLLOWED_NOTED_MIN: u32 = 16;

/// What leads a cursor on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Led {
    /// The key, from which to seek.
    Key,
    Ahead,
}

/// The record at which a cursor stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'p> {
    /// Of a table; in an index 0.
    pub(crate) rowid: i64,
    pub(crate) data: &'p [u8],
}

impl Place {
    pub(crate) fn new(
        connection: NonNull<Connection>,
        of: &mut Connection,
        root: u32,
        order: Option<Box<[Order]>>,
        encoding: Encoding,
    ) -> Result<Place> {
        let tree = of.tree(root)?;
        // The two are the same: the pointer is kept, the reference is for now.
        debug_assert!(std::ptr::eq(connection.as_ptr(), of));
        Ok(Place {
            ahead: Ahead::new(order.is_none()),
            connection,
            root,
            forgotten: of.forgotten(),
            tree,
            order,
            encoding,
            key: Vec::new(),
            before: false,
            before_entry: Vec::new(),
            absent: Vec::new(),
            value: Vec::new(),
            led: Led::Key,
            followed: 0,
            row_ids: of.row_ids(root),
            is_of_sequences: false,
            changes_sequences: false,
            is_of_blob: false,
        })
    }

    /// Whether it is in this tree, with keys in this order.
    pub(crate) fn is_as(
        &self,
        root: u32,
        order: Option<impl Iterator<Item = Order>>,
        encoding: Encoding,
    ) -> bool {
        let is_ordered_so = match (self.order.as_deref(), order) {
            (Some(have), Some(order)) => order.eq(have.iter().copied()),
            (have, order) => have.is_none() && order.is_none(),
        };
        is_ordered_so && self.root == root && self.encoding == encoding
    }

    /// Stands nowhere, as a new one does.
    pub(crate) fn leave(&mut self) {
        self.key.clear();
        self.value.clear();
        self.value.shrink_to(VALUE_KEPT);
        (self.before, self.led, self.followed) = (false, Led::Key, 0);
        (self.is_of_sequences, self.is_of_blob) = (false, false);
        self.ahead.leave();
    }

    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub(crate) fn is_index(&self) -> bool {
        self.order.is_some()
    }

    pub(crate) fn root(&self) -> u32 {
        self.root
    }

    /// Goes to the first record, or the last; in the table of sequences, as [`sequences`] says.
    pub(crate) fn edge(
        &mut self,
        of: &mut Connection,
        last: bool,
        is_of_sequences: bool,
    ) -> Result<Option<Row<'_>>> {
        self.is_of_sequences = is_of_sequences;
        let state = self.state(of);
        self.read(of, |ahead, txn, tree, _| ahead.begin(txn, tree, (Bound::Unbounded, !last, state)))
    }

    /// Goes to the next record from where it stands, or to the one before.
    pub(crate) fn step(&mut self, of: &mut Connection, forward: bool) -> Result<Option<Row<'_>>> {
        let state = self.state(of);
        let is_led = self.led == Led::Ahead && self.ahead.is_of(state, forward);
        if is_led && self.ahead.advance() {
            return Ok(self.went_ahead());
        }
        self.keep_key();
        if is_led && self.ahead.is_at_end() {
            return self.between();
        }
        if is_led {
            return self.read(of, Ahead::more);
        }
        let is_at = forward && self.before;
        self.read(of, |ahead, txn, tree, key| {
            let from = if is_at { Bound::Included(key) } else { Bound::Excluded(key) };
            ahead.begin(txn, tree, (from, forward, state))
        })
    }

    /// The state of the tree in which it is.
    fn state(&self, of: &Connection) -> StateOf {
        of.state_of(self.root, self.depends(of))
    }

    /// Whether the transaction depends on what it reads now.
    fn depends(&self, of: &Connection) -> bool {
        match self.is_of_blob {
            true => of.notes(),
            false => of.depends() && !self.is_of_sequences,
        }
    }

    /// It is a handle's of a blob.
    pub(crate) fn be_of_blob(&mut self) {
        self.is_of_blob = true;
    }

    /// Reads ahead, from the key at which it stands or another.
    fn read(
        &mut self,
        of: &mut Connection,
        read: impl FnOnce(&mut Ahead, &Txn<'_>, &Database, &[u8]) -> Result<()>,
    ) -> Result<Option<Row<'_>>> {
        let (depends, ahead) = (self.depends(of), &mut self.ahead);
        of.look(depends, |txn| read(ahead, txn, &self.tree, &self.key))?;
        if self.is_of_sequences && ahead.record().is_none() {
            // That there is no row yet is what the transaction does depend on.
            of.txn()?.visit(&self.tree, .., |_, _| ControlFlow::Continue(()))?;
        }
        Ok(self.went_ahead())
    }

    /// The row id of the key at which it stands.
    fn rowid(&self) -> Result<i64> {
        match self.is_index() {
            true => Ok(0),
            false => key::rowid(&self.key).ok_or_else(no_rowid),
        }
    }

    /// It is led on by this from now on.
    fn lead(&mut self, led: Led) {
        self.led = led;
        if led != Led::Ahead {
            self.ahead.close();
        }
    }

    /// Has `key` be the key at which it stands, whatever led it there.
    fn keep_key(&mut self) {
        if self.led == Led::Ahead {
            self.ahead.copy_key(&mut self.key);
        }
    }

    /// Stands at the record that was read ahead.
    fn went_ahead(&mut self) -> Option<Row<'_>> {
        self.before = false;
        let is_there = self.ahead.record().is_some();
        self.lead(if is_there { Led::Ahead } else { Led::Key });
        self.ahead.record().map(|(rowid, data)| Row { rowid, data })
    }

    /// Looks again whether there is a record where it stands.
    pub(crate) fn refresh(&mut self, of: &mut Connection) -> Result<Option<Row<'_>>> {
        self.keep_key();
        self.changes(of);
        let (rowid, depends) = (self.rowid()?, self.depends(of));
        let Place { tree, key, value, absent, .. } = self;
        let keep = |found: Option<&[u8]>| {
            found.is_some_and(|found| {
                value.clear();
                value.extend_from_slice(found);
                true
            })
        };
        let there = of.look(depends, |txn| Ok(txn.get_with(tree, &*key, keep)?))?;
        if !there {
            absent.clone_from(key);
        }
        Ok(there.then_some(Row { rowid, data: value }))
    }

    /// Stands at a key, and looks whether there is a record.
    fn exactly(&mut self, of: &mut Connection) -> Result<Option<Row<'_>>> {
        self.lead(Led::Key);
        self.refresh(of)
    }

    /// Goes to a row. After some that each followed the one before it is read as a scan reads them.
    pub(crate) fn seek_rowid(&mut self, of: &mut Connection, rowid: i64) -> Result<Option<Row<'_>>> {
        let stood_at = match self.led {
            Led::Key => key::rowid(&self.key),
            Led::Ahead => self.ahead.record().map(|(rowid, _)| rowid),
        };
        let follows = stood_at.and_then(|rowid| rowid.checked_add(1)) == Some(rowid);
        self.followed = if follows { self.followed.saturating_add(1) } else { 0 };
        let enough = if self.depends(of) { FOLLOWED_NOTED_MIN } else { FOLLOWED_MIN };
        if self.followed >= enough {
            self.step(of, true)?;
            if self.ahead.record().is_some_and(|(found, _)| found == rowid) {
                return Ok(self.went_ahead());
            }
        }
        self.key.clear();
        self.before = false;
        self.key.extend(key::of_rowid(rowid));
        self.exactly(of)
    }

    /// Seeks by the first values of a key.
    pub(crate) fn seek_key<'v>(
        &mut self,
        of: &mut Connection,
        values: impl ExactSizeIterator<Item = Value<'v>>,
        to: Where,
    ) -> Result<Option<Row<'_>>> {
        self.before = to == Where::Before;
        let order = self.order.as_deref().unwrap_or_default();
        let is_whole = values.len() == order.len();
        self.key.clear();
        for (value, order) in values.zip(order) {
            key::push(&mut self.key, value, *order, self.encoding);
        }
        match to {
            // There are no two of one key.
            Where::Any | Where::First | Where::Last if is_whole => self.exactly(of),
            Where::Any | Where::First => {
                let (state, ahead) = (self.state(of), &mut self.ahead);
                let alike = (&*self.key, to == Where::First, state);
                of.look(state.is_noted, |txn| ahead.begin_alike(txn, &self.tree, alike))?;
                if self.ahead.record().is_some() {
                    return Ok(self.went_ahead());
                }
                self.absent.clone_from(&self.key);
                self.between()
            }
            Where::Last => self.last_within(of),
            Where::Before => self.between(),
            Where::After => {
                self.key.push(key::ABOVE);
                self.between()
            }
        }
    }

    /// Stands at a key of which there is no record, as nobody needs to look.
    fn between(&mut self) -> Result<Option<Row<'_>>> {
        self.lead(Led::Key);
        Ok(None)
    }

    /// The last record whose key begins with that at which it stands, and nothing else is read.
    fn last_within(&mut self, of: &mut Connection) -> Result<Option<Row<'_>>> {
        self.lead(Led::Key);
        let mut above = self.key.clone();
        above.push(key::ABOVE);
        let bounds = (Bound::Included(&*self.key), Bound::Excluded(&*above));
        let found =
            of.look(self.depends(of), |txn| Ok(txn.range(&self.tree, bounds)?.next_back().transpose()?))?;
        let Some((key, value)) = found else {
            self.key = above;
            return Ok(None);
        };
        (self.key, self.value) = (key, value);
        Ok(Some(Row { rowid: 0, data: &self.value }))
    }

    /// The row id of a new row, which nobody else is given before the transaction ends; none if the last row
    /// has the greatest there is. With AUTOINCREMENT it is also behind all that the table has had, by its
    /// sequence; that there is none yet is what the first ones meet by.
    pub(crate) fn new_rowid(
        &mut self,
        of: &mut Connection,
        sequence: Option<Sequence>,
    ) -> Result<Option<i64>> {
        let above = sequence.map(|sequence| sequence.last);
        let known = self.row_ids.borrow().next().filter(|rowid| Some(*rowid) > above);
        let is_first = sequence.is_some_and(|sequence| sequence.row.is_none());
        match known {
            Some(rowid) => Ok(Some(rowid)),
            None if is_first || of.is_alone() => self.look_for_last(of),
            None => self.take(of, sequence),
        }
    }

    /// Takes row ids behind the last row, and returns the first.
    fn take(&mut self, of: &mut Connection, sequence: Option<Sequence>) -> Result<Option<i64>> {
        loop {
            let newest = of.newest();
            let after = match self.last_committed(of, newest, sequence)? {
                Some(last) => self.row_ids.borrow().after(last),
                None => None,
            };
            let Some(after) = after else { return self.look_for_last(of) };
            let Some(from) = after else { return Ok(None) };
            let mut blocks = self.row_ids.borrow().blocks(from);
            let block = loop {
                // There always are some.
                let Some(block) = blocks.next() else { return self.look_for_last(of) };
                if of.lock_path(block.path(self.root), Duration::ZERO)? {
                    break block;
                }
            };
            let (mut first, last) = (block.first, block.last());
            let now = of.newest();
            if now != newest
                && let Some(Some(committed)) = self.last_committed(of, now, sequence)?
                && committed >= first
            {
                // Committed by the transaction that had these numbers until now.
                if committed >= last {
                    continue;
                }
                first = committed + 1;
            }
            let (from, to) = (key::of_rowid(first), key::of_rowid(last));
            let txn = of.txn()?;
            let found = if first == last {
                txn.contains_key(&self.tree, from)?.then(|| from.to_vec())
            } else {
                let bounds = (Bound::Included(&from[..]), Bound::Included(&to[..]));
                txn.range(&self.tree, bounds)?.next().transpose()?.map(|(found, _)| found)
            };
            let last = match found {
                None => last,
                // Others have removed it since: the commit will be a conflict.
                Some(found) if found == from => return self.look_for_last(of),
                Some(found) => key::rowid(&found).map_or(first, |found| found - 1),
            };
            of.change_row_ids(&self.row_ids, |ids, savepoints| ids.take(savepoints, (first, last)));
            return Ok(Some(first));
        }
    }

    /// Looks for the last row itself, and returns the number after it.
    fn look_for_last(&mut self, of: &mut Connection) -> Result<Option<i64>> {
        let last = of.txn()?.last(&self.tree)?;
        let last = last.map(|(key, _)| key::rowid(&key).ok_or_else(no_rowid)).transpose()?;
        of.change_row_ids(&self.row_ids, |ids, savepoints| ids.looked(savepoints, last));
        Ok(self.row_ids.borrow().next())
    }

    /// The last row id that is committed, if there is one, or what a sequence says if that is greater, when
    /// the newest commit was this one. None if nobody else has the table, or nobody has it any more.
    fn last_committed(
        &self,
        of: &mut Connection,
        newest: Lsn,
        sequence: Option<Sequence>,
    ) -> Result<Option<Option<i64>>> {
        let rowid = |record: Option<(Vec<u8>, Vec<u8>)>| record.and_then(|(key, _)| key::rowid(&key));
        let known = self.row_ids.borrow().last_committed(newest);
        let last = match known.map_or_else(|| self.tree.last().map(rowid), Ok) {
            Ok(last) => last,
            Err(error) if matches!(error.kind(), ErrorKind::NotAllowed | ErrorKind::NotFound) => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let Some(Sequence { last: given, row }) = sequence else { return Ok(Some(last)) };
        let others = match row {
            Some(row) => sequences::last_committed(of, row)?,
            None => None,
        };
        Ok(Some(last.max(Some(given)).max(others)))
    }

    /// Sets the row of a sequence, for AUTOINCREMENT: whatever others set it to meanwhile.
    pub(crate) fn insert_sequence(&mut self, of: &mut Connection, rowid: i64, data: &[u8]) -> Result<()> {
        if self.row_ids.borrow().is_free(rowid) {
            return self.insert(of, rowid, data, 0);
        }
        let (at, key) = ((self.root, rowid), key::of_rowid(rowid));
        if !of.sequences.is_changed(at)
            && let Some(from) = of.txn()?.unvalidated(|txn| txn.get(&self.tree, key))?
        {
            of.sequences.raised(at, from);
        }
        if of.sequences.is_raised(at) {
            self.lead(Led::Key);
            self.key = key.to_vec();
            self.before = false;
            return Ok(of.writing_to(self.root)?.insert(&self.tree, &self.key, data)?);
        }
        // It stands at the row, maybe, and has not read it so that the transaction depends on it.
        of.txn()?.contains_key(&self.tree, key)?;
        self.insert(of, rowid, data, 0)
    }

    /// Sets the record of a row id, and stands there.
    pub(crate) fn insert(
        &mut self,
        of: &mut Connection,
        rowid: i64,
        data: &[u8],
        zeros: usize,
    ) -> Result<()> {
        let key = key::of_rowid(rowid);
        self.keep_key();
        // Of each record that is set it is known whether it was there, or it may be another's.
        if self.key != key && !self.row_ids.borrow().is_free(rowid) {
            of.txn()?.contains_key(&self.tree, key)?;
        }
        of.check(&self.tree, &key)?;
        if self.key != key {
            self.lead(Led::Key);
        }
        self.changes(of);
        self.before = false;
        self.key.clear();
        self.key.extend(key);
        let txn = of.writing_to(self.root)?;
        match zeros {
            0 => txn.insert(&self.tree, &self.key, data)?,
            _ => {
                let mut whole = Vec::with_capacity(data.len() + zeros);
                whole.extend_from_slice(data);
                whole.resize(data.len() + zeros, 0);
                txn.insert(&self.tree, &self.key, &whole)?;
            }
        }
        self.changed(of);
        of.change_row_ids(&self.row_ids, |ids, savepoints| ids.set(savepoints, rowid));
        if self.changes_sequences {
            of.sequences.is_set((self.root, rowid));
        }
        Ok(())
    }

    /// The record at which it stands is about to change, or to be looked at again: what leads it on does so
    /// still, unless it was read ahead of another change. `key` is kept.
    fn changes(&mut self, of: &Connection) {
        if self.led == Led::Ahead && !self.ahead.is_now(self.state(of)) {
            self.lead(Led::Key);
        }
    }

    /// It has changed.
    fn changed(&mut self, of: &Connection) {
        if self.led == Led::Ahead {
            self.ahead.stays(self.state(of));
        }
    }

    /// Sets the record of an index, and stands there.
    pub(crate) fn insert_key(&mut self, of: &mut Connection, record: &[u8]) -> Result<()> {
        self.before = false;
        self.keep_key();
        self.lead(Led::Key);
        std::mem::swap(&mut self.key, &mut self.before_entry);
        self.key.clear();
        let mut values = Values::of(record)?;
        for order in self.order.as_deref().unwrap_or_default() {
            key::push(&mut self.key, values.next()?, *order, self.encoding);
        }
        if self.key.len() > KEY_BYTES_MAX {
            return Err(Failure::too_big(format!(
                "an entry of an index has a key of {} bytes; they have {KEY_BYTES_MAX} at most",
                self.key.len()
            )));
        }
        // What is another entry, and was not looked for, is set whatever there is.
        let is_sought = !self.absent.is_empty() && self.key.starts_with(&self.absent);
        if is_sought || self.key == self.before_entry {
            of.check(&self.tree, &self.key)?;
        }
        Ok(of.writing_to(self.root)?.insert(&self.tree, &self.key, record)?)
    }

    /// Removes the record at which it stands, and stays between those around it.
    pub(crate) fn delete(&mut self, of: &mut Connection) -> Result<()> {
        self.keep_key();
        of.check(&self.tree, &self.key)?;
        if !self.is_index() {
            let rowid = key::rowid(&self.key).ok_or_else(no_rowid)?;
            of.change_row_ids(&self.row_ids, |ids, savepoints| ids.removed(savepoints, rowid));
            if self.changes_sequences {
                of.sequences.is_set((self.root, rowid));
            }
        }
        self.changes(of);
        of.writing_to(self.root)?.remove(&self.tree, &self.key)?;
        self.changed(of);
        Ok(())
    }

    /// How many records there are, about.
    pub(crate) fn estimate(&self) -> Result<u64> {
        Ok(self.tree.estimate(..)?.records)
    }
}
