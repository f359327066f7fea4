//! The border to C: databases of keys and values, as `c/key_values.c` makes tables of them.
//!
//! # Safety
//! As in the module above. A handle of entries is one that `sablecat_sql_entries` gave, and was not closed;
//! it is closed before its database.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use super::{CValue, bytes, connection, told, value_of};
use crate::ahead;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::key_value;
use crate::key_value::change::{Asked, Changed, change};
use crate::key_value::entries::Entries;
use crate::key_value::table::Table;
use crate::record::Value;

/// A column, as `c/ours.h` has it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CColumn {
    name: *const c_char,
    affinity: u8,
    sorts: u8,
    is_exact: u8,
}

/// What SQLite is to know of a table, as `c/ours.h` has it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CTable {
    declaration: *const c_char,
    columns: *const CColumn,
    column_count: u32,
    key_count: u32,
    is_ordered: u8,
    is_of_values: u8,
    has_place: u8,
}

/// A table, with what C sees of it.
#[derive(Debug)]
struct Shown {
    table: Arc<Table>,
    seen: CTable,
    _declaration: CString,
    _names: Vec<CString>,
    _columns: Vec<CColumn>,
}

impl Shown {
    fn new(table: Table) -> Result<Shown, Failure> {
        let string = |text: &str| CString::new(text).map_err(|_| Failure::internal("a name with a zero"));
        let layout = &table.layout;
        let declaration = string(&layout.declaration())?;
        let names = layout.all().map(|(name, _)| string(name)).collect::<Result<Vec<_>, _>>()?;
        let column = |(n, (_, declared)): (usize, (&str, &str))| CColumn {
            name: names[n].as_ptr(),
            affinity: match declared {
                "INTEGER" => b'D',
                "REAL" => b'E',
                "TEXT" => b'B',
                _ => b'A',
            },
            sorts: layout.columns.get(n).is_some_and(|column| column.kind.sorts()).into(),
            is_exact: layout.columns.get(n).is_some_and(|column| column.kind.is_exact()).into(),
        };
        let columns: Vec<CColumn> = layout.all().enumerate().map(column).collect();
        let seen = CTable {
            declaration: declaration.as_ptr(),
            columns: columns.as_ptr(),
            column_count: columns.len() as u32,
            key_count: layout.columns.len() as u32,
            is_ordered: layout.is_ordered.into(),
            is_of_values: layout.is_of_values().into(),
            has_place: layout.has_place().into(),
        };
        let table = Arc::new(table);
        Ok(Shown { table, seen, _declaration: declaration, _names: names, _columns: columns })
    }
}

/// A string of C's as a name.
///
/// # Safety
/// It is one, for as long as the result is used.
unsafe fn name<'n>(name: *const c_char) -> Result<&'n str, Failure> {
    // SAFETY: by the caller's word.
    key_value::name(unsafe { CStr::from_ptr(name) }.to_bytes())
}

/// A string of C's that is text.
///
/// # Safety
/// As [`name`].
unsafe fn text<'n>(text: *const c_char) -> Result<&'n str, Failure> {
    // SAFETY: by the caller's word.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| Failure::refused("what is no UTF-8"))
}

/// The table behind a handle.
///
/// # Safety
/// It is one that `sablecat_sql_table` gave, and was not closed.
unsafe fn table<'h>(handle: *const c_void) -> &'h Arc<Table> {
    // SAFETY: by the caller's word.
    unsafe { &(*handle.cast::<Shown>()).table }
}

/// So many values of C's.
///
/// # Safety
/// There are so many, each with as many bytes as it says, for as long as the result is used.
unsafe fn values<'v>(values: *const CValue, count: u32) -> Vec<Value<'v>> {
    match count {
        0 => Vec::new(),
        // SAFETY: by the caller's word.
        _ => unsafe { slice::from_raw_parts(values, count as usize) }
            .iter()
            // SAFETY: likewise.
            .map(|value| unsafe { value_of(value) })
            .collect(),
    }
}

/// A value as C has it.
fn shown(value: Value<'_>) -> Result<CValue, Failure> {
    let none = CValue { kind: 0, len: 0, zeros: 0, integer: 0, real: 0.0, bytes: std::ptr::null() };
    let of_bytes = |kind, bytes: &[u8]| {
        let len = u32::try_from(bytes.len()).map_err(|_| ahead::too_long())?;
        Ok(CValue { kind, len, bytes: bytes.as_ptr(), ..none })
    };
    match value {
        Value::Null => Ok(CValue { ..none }),
        Value::Integer(integer) => Ok(CValue { kind: 1, integer, ..none }),
        Value::Real(real) => Ok(CValue { kind: 2, real, ..none }),
        Value::Text(text) => of_bytes(3, text),
        Value::Blob(blob, _) => of_bytes(4, blob),
    }
}

/// The entries behind a handle, and their connection.
///
/// # Safety
/// As the module says; and only one of these at a time.
unsafe fn entries<'h>(handle: *mut c_void) -> (&'h mut Entries, &'h mut Connection) {
    // SAFETY: it was made in `sablecat_sql_entries`, of a connection that goes after it, by the caller's
    // word; the two are different objects, and neither is used by anybody else.
    unsafe {
        let entries: &mut Entries = &mut *handle.cast();
        let connection = entries.connection.as_ptr();
        (entries, &mut *connection)
    }
}

exported! {
    /// Whether text of a key or a value comes back as it was from where SQLite has text in UTF-16.
    fn sablecat_sql_is_held_by_utf16(text: *const u8, len: u32, is_held: *mut c_int) {
        // SAFETY: there are so many bytes, and what can be written to.
        unsafe { is_held.write(key_value::is_held_by_utf16(bytes(text, len)).into()) };
        Ok(())
    }

    /// The table that a database makes, with what SQLite is to know of it; `is_new` where it is being made.
    /// Without a handle there is no such database.
    fn sablecat_sql_table(
        handle: *mut c_void,
        named: *const c_char,
        count: u32,
        arguments: *const *const c_char,
        is_new: c_int,
        into: *mut *mut c_void,
        seen: *mut *const CTable,
    ) {
        // SAFETY: as the module says; strings of C's, of which there are so many, and what can be written to.
        unsafe {
            let named = name(named)?;
            let arguments = match count {
                0 => Vec::new(),
                _ => slice::from_raw_parts(arguments, count as usize)
                    .iter()
                    .map(|&argument| text(argument))
                    .collect::<Result<Vec<_>, _>>()?,
            };
            let found = match handle.is_null() {
                false => connection(handle).existing(named)?,
                true => None,
            };
            let shown = Box::new(Shown::new(Table::new(named, &arguments, found.as_ref(), is_new != 0)?)?);
            seen.write(&raw const shown.seen);
            into.write(Box::into_raw(shown).cast());
        }
        Ok(())
    }

    fn sablecat_sql_table_close(handle: *mut c_void) {
        // SAFETY: it was made by `Box::into_raw`, and is not used any more.
        drop(unsafe { Box::from_raw(handle.cast::<Shown>()) });
        Ok(())
    }

    /// How many records the database of a table has, about.
    fn sablecat_sql_records(handle: *mut c_void, of: *const c_void, count: *mut i64) {
        // SAFETY: as the module says; and what can be written to.
        unsafe {
            let records = key_value::estimate(connection(handle), &table(of).name)?;
            count.write(i64::try_from(records).unwrap_or(i64::MAX));
        }
        Ok(())
    }

    /// Removes the row that is known by a value, if it is given that, and sets that of some values, if it is
    /// given these: see [`change`]. `named` is what SQL calls the table; `rowid` is what a new row gets,
    /// where rows have numbers.
    fn sablecat_sql_change(
        handle: *mut c_void,
        of: *const c_void,
        named: *const c_char,
        known: *const CValue,
        new: *const CValue,
        count: u32,
        replaces: c_int,
        rowid: *mut i64,
    ) {
        // SAFETY: as the module says; each value has the bytes that it says; and what can be written to.
        unsafe {
            let asked = Asked { table: table(of), named: text(named)?, replaces: replaces != 0 };
            let known = known.as_ref().map(|known| value_of(known));
            let new = (count > 0).then(|| values(new, count));
            match change(connection(handle), asked, known, new.as_deref())? {
                Changed::Done => {}
                Changed::Numbered(number) if known.is_none() => rowid.write(number),
                Changed::Numbered(_) => {}
                Changed::Taken => return Err(asked.not_unique()),
            }
        }
        Ok(())
    }

    /// A place in a table.
    fn sablecat_sql_entries(handle: *mut c_void, of: *const c_void, into: *mut *mut c_void) {
        let pointer = NonNull::new(handle.cast()).ok_or_else(|| Failure::internal("no handle"))?;
        // SAFETY: as the module says; and what can be written to.
        unsafe {
            let entries = Box::new(Entries::new(pointer, Arc::clone(table(of))));
            into.write(Box::into_raw(entries).cast());
        }
        Ok(())
    }

    fn sablecat_sql_entries_close(handle: *mut c_void) {
        // SAFETY: it was made by `Box::into_raw`, and is not used any more.
        drop(unsafe { Box::from_raw(handle.cast::<Entries>()) });
        Ok(())
    }

    /// Goes to the first record, or, backwards, to the last, of those whose first columns have some values
    /// and whose next is bound by up to two more.
    fn sablecat_sql_entries_seek(
        handle: *mut c_void,
        given: *const CValue,
        equal: u32,
        how: c_int,
        is_there: *mut c_int,
    ) {
        let (has_lower, has_upper) = (how & FROM != 0, how & TO != 0);
        // SAFETY: as the module says; there are so many values, each with the bytes that it says; and what
        // can be written to.
        unsafe {
            let (entries, of) = entries(handle);
            let values = values(given, equal + u32::from(has_lower) + u32::from(has_upper));
            let (equal, bounds) = values.split_at(equal as usize);
            let mut bounds = bounds.iter().copied();
            let lower = bounds.by_ref().take(has_lower.into()).next().map(|value| (value, how & ABOVE != 0));
            let upper = bounds.next().map(|value| (value, how & BELOW != 0));
            let wanted = entries.table().layout.wanted(equal, lower, upper);
            is_there.write(entries.seek(of, wanted, how & BACK == 0)?.into());
        }
        Ok(())
    }

    fn sablecat_sql_entries_step(handle: *mut c_void, is_there: *mut c_int) {
        // SAFETY: as the module says; `is_there` can be written to.
        unsafe {
            let (entries, of) = entries(handle);
            is_there.write(entries.step(of)?.into());
        }
        Ok(())
    }

    /// The value of a column, good until the next call for the same place.
    fn sablecat_sql_entries_column(handle: *mut c_void, index: c_int, value: *mut CValue) {
        // SAFETY: as the module says; `value` can be written to.
        unsafe {
            let (entries, _) = entries(handle);
            value.write(shown(entries.column(index as usize)?)?);
        }
        Ok(())
    }
}

/// How a statement reads a table, as `c/ours.h` has it.
const FROM: c_int = 1;
const TO: c_int = 2;
const ABOVE: c_int = 4;
const BELOW: c_int = 8;
const BACK: c_int = 16;
