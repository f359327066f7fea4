//! The border to C: databases of keys and values, as `c/key_values.c` makes tables of them.
//!
//! # Safety
//! As in the module above. A handle of entries is one that `sablecat_sql_entries` gave, and was not closed;
//! it is closed before its database.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Bound;
use std::ptr::{self, NonNull};

use super::{bytes, connection, told};
use crate::ahead;
use crate::connection::Connection;
use crate::entries::{Entries, Entry};
use crate::failure::Failure;
use crate::key_value::{self, Shape};

/// A record with its key, as `c/ours.h` has it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CEntry {
    key: *const u8,
    value: *const u8,
    key_len: u32,
    value_len: u32,
    nth: i64,
    is_there: u8,
}

/// Some bytes, as `c/ours.h` has them.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CBytes {
    data: *const u8,
    len: u32,
    /// Whether there are any, if only none.
    is_there: u8,
    /// As a bound: whether the key with these bytes is left out.
    is_beyond: u8,
}

/// A string of C's as a name.
///
/// # Safety
/// It is one, for as long as the result is used.
unsafe fn name<'n>(name: *const c_char) -> Result<&'n str, Failure> {
    // SAFETY: by the caller's word.
    key_value::name(unsafe { CStr::from_ptr(name) }.to_bytes())
}

/// Bytes that C has, or has not.
///
/// # Safety
/// There are as many as it says, for as long as the result is used.
unsafe fn given<'b>(given: &CBytes) -> Option<&'b [u8]> {
    // SAFETY: by the caller's word.
    (given.is_there != 0).then(|| unsafe { bytes(given.data, given.len) })
}

/// One bound of some keys.
///
/// # Safety
/// As [`given`].
unsafe fn bound(limit: &CBytes) -> Bound<Vec<u8>> {
    // SAFETY: by the caller's word.
    match unsafe { given(limit) } {
        None => Bound::Unbounded,
        Some(key) if limit.is_beyond != 0 => Bound::Excluded(key.to_vec()),
        Some(key) => Bound::Included(key.to_vec()),
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

/// Shows a record to C.
///
/// # Safety
/// `into` can be written to.
unsafe fn show(found: Option<Entry<'_>>, into: *mut CEntry) -> Result<(), Failure> {
    let len = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(|_| ahead::too_long());
    let entry = match found {
        None => {
            CEntry { key: ptr::null(), value: ptr::null(), key_len: 0, value_len: 0, nth: 0, is_there: 0 }
        }
        Some(Entry { key, value, nth }) => CEntry {
            key: key.as_ptr(),
            value: value.as_ptr(),
            key_len: len(key)?,
            value_len: len(value)?,
            nth: nth as i64,
            is_there: 1,
        },
    };
    // SAFETY: by the caller's word.
    unsafe { into.write(entry) };
    Ok(())
}

exported! {
    /// Whether text of a key or a value comes back as it was from where SQLite has text in UTF-16.
    fn sablecat_sql_is_held_by_utf16(text: *const u8, len: u32, is_held: *mut c_int) {
        // SAFETY: there are so many bytes, and what can be written to.
        unsafe { is_held.write(key_value::is_held_by_utf16(bytes(text, len)).into()) };
        Ok(())
    }

    /// What rows the database of a name makes; 0 if there is none.
    fn sablecat_sql_shape(handle: *mut c_void, named: *const c_char, shape: *mut c_int) {
        // SAFETY: as the module says; a string of C's, and what can be written to.
        unsafe {
            let found = key_value::shape(connection(handle), name(named)?)?;
            shape.write(found.map_or(0, |shape| shape as c_int));
        }
        Ok(())
    }

    /// How many records the database of a name has, about.
    fn sablecat_sql_records(handle: *mut c_void, named: *const c_char, count: *mut i64) {
        // SAFETY: as the module says; a string of C's, and what can be written to.
        unsafe {
            let records = key_value::estimate(connection(handle), name(named)?)?;
            count.write(i64::try_from(records).unwrap_or(i64::MAX));
        }
        Ok(())
    }

    /// Removes the record of one key, and sets another, or does one of the two: see [`key_value::change`].
    fn sablecat_sql_change(
        handle: *mut c_void,
        named: *const c_char,
        from: *const CBytes,
        key: *const CBytes,
        value: *const CBytes,
        replaces: c_int,
        is_done: *mut c_int,
    ) {
        // SAFETY: as the module says; each has the bytes that it says.
        unsafe {
            let to = given(&*key).zip(given(&*value));
            let (of, named) = (connection(handle), name(named)?);
            is_done.write(key_value::change(of, named, given(&*from), to, replaces != 0)?.into());
        }
        Ok(())
    }

    /// A place in the database of a name, of which such rows were found.
    fn sablecat_sql_entries(
        handle: *mut c_void,
        named: *const c_char,
        shape: c_int,
        into: *mut *mut c_void,
    ) {
        let pointer = NonNull::new(handle.cast()).ok_or_else(|| Failure::internal("no handle"))?;
        let shape = match shape {
            2 => Shape::Unordered,
            3 => Shape::Values,
            _ => Shape::Ordered,
        };
        // SAFETY: a string of C's, and what can be written to.
        unsafe {
            let entries = Box::new(Entries::new(pointer, name(named)?, shape));
            into.write(Box::into_raw(entries).cast());
        }
        Ok(())
    }

    fn sablecat_sql_entries_close(handle: *mut c_void) {
        // SAFETY: it was made by `Box::into_raw`, and is not used any more.
        drop(unsafe { Box::from_raw(handle.cast::<Entries>()) });
        Ok(())
    }

    /// Goes to the first record between two keys, or, backwards, to the last.
    fn sablecat_sql_entries_seek(
        handle: *mut c_void,
        lower: *const CBytes,
        upper: *const CBytes,
        is_back: c_int,
        entry: *mut CEntry,
    ) {
        // SAFETY: as the module says; each has the bytes that it says; `entry` can be written to.
        unsafe {
            let (entries, of) = entries(handle);
            let keys = (bound(&*lower), bound(&*upper));
            show(entries.seek(of, keys, is_back == 0)?, entry)
        }
    }

    fn sablecat_sql_entries_step(handle: *mut c_void, entry: *mut CEntry) {
        // SAFETY: as the module says; `entry` can be written to.
        unsafe {
            let (entries, of) = entries(handle);
            show(entries.step(of)?, entry)
        }
    }
}
