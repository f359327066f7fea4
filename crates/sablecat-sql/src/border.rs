//! The border to C: what the dispatcher in `c` calls, as `c/ours.h` declares it.
//!
//! Each function is given handles that were made here, and nothing else of ours; returns a code of SQLite's;
//! and lets no panic out. SQLite calls with the mutex of its connection held: so nobody else uses a handle of
//! that connection meanwhile, and none of these functions calls back.
//!
//! # Safety
//! Of all functions here: a handle is one that `sablecat_sql_open` or `sablecat_sql_cursor` gave, and was not
//! closed; the cursors of a database are closed before it; other pointers are as C declares them, good for
//! the call, and `SablecatRow` is written by each function that is given one.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;

use sablecat::{DatabaseStats, Durability};

use crate::ahead;
use crate::connection::Connection;
use crate::connection::statements::{Level, Statements};
use crate::engine::{self, Wanted};
use crate::failure::{self, Failure, OK};
use crate::key::{Collation, Encoding, Order};
use crate::place::{Place, Row, Where};
use crate::record::Value;
use crate::sequences::Sequence;

const OPEN_READWRITE: c_int = 2;
const OPEN_CREATE: c_int = 4;

/// A value, as `c/ours.h` has it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CValue {
    kind: u8,
    len: u32,
    zeros: u32,
    integer: i64,
    real: f64,
    bytes: *const u8,
}

/// A record, as `c/ours.h` has it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CRow {
    rowid: i64,
    data: *const u8,
    len: u32,
    is_there: u8,
}

/// What is known of the numbers that AUTOINCREMENT has given, as `c/ours.h` has it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CSequence {
    last: i64,
    row: i64,
    root: u32,
}

/// How large a tree is, as `c/ours.h` has it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CSize {
    pages: i64,
    records: i64,
    bytes: i64,
    page_size: i64,
}

/// Where SQLite counts the statements that a connection has in progress, as `c/ours.h` has it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CStatements {
    writing: *const c_int,
    running: *const c_int,
}

impl CStatements {
    /// # Safety
    /// As of [`Statements::new`].
    unsafe fn told(&self) -> Result<Statements, Failure> {
        let count = |count: *const c_int| {
            NonNull::new(count.cast_mut()).ok_or_else(|| Failure::internal("no count of statements"))
        };
        // SAFETY: by the caller's word.
        Ok(unsafe { Statements::new(count(self.writing)?, count(self.running)?) })
    }
}

/// The order of a column, as `c/ours.h` has it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct COrder {
    collation: u8,
    descending: u8,
}

/// Runs `work`, and says what came of it as a code.
fn told(work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Failure::internal(format!("sablecat panicked: {said}")))
    });
    done.map_or_else(Failure::tell, |()| OK)
}

/// The connection behind a handle.
///
/// # Safety
/// As the module says; and only one of these at a time.
unsafe fn connection<'h>(handle: *mut c_void) -> &'h mut Connection {
    // SAFETY: it was made in `sablecat_sql_open`, and nobody else uses it, by the caller's word.
    unsafe { &mut *handle.cast() }
}

/// The cursor behind a handle, and its connection.
///
/// # Safety
/// As [`connection`].
unsafe fn place<'h>(handle: *mut c_void) -> (&'h mut Place, &'h mut Connection) {
    // SAFETY: it was made in `sablecat_sql_cursor`, of a connection that goes after it, by the caller's word;
    // the two are different objects, and neither is used by anybody else.
    unsafe {
        let place: &mut Place = &mut *handle.cast();
        let connection = place.connection.as_ptr();
        (place, &mut *connection)
    }
}

/// Bytes of C's; none may be at a null pointer.
///
/// # Safety
/// There are so many, for as long as the result is used.
unsafe fn bytes<'b>(data: *const u8, len: u32) -> &'b [u8] {
    match len {
        0 => &[],
        // SAFETY: by the caller's word.
        _ => unsafe { slice::from_raw_parts(data, len as usize) },
    }
}

/// Shows a cursor's record to C.
///
/// # Safety
/// `into` can be written to.
unsafe fn show(found: Option<Row<'_>>, into: *mut CRow) -> Result<(), Failure> {
    let row = match found {
        None => CRow { rowid: 0, data: ptr::null(), len: 0, is_there: 0 },
        Some(Row { rowid, data }) => {
            let len = u32::try_from(data.len()).map_err(|_| ahead::too_long())?;
            CRow { rowid, data: data.as_ptr(), len, is_there: 1 }
        }
    };
    // SAFETY: by the caller's word.
    unsafe { into.write(row) };
    Ok(())
}

/// Functions for C: each runs its work, and says what came of it as a code.
macro_rules! exported {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $work:block)*) => {$(
        $(#[$about])*
        ///
        /// # Safety
        /// As the module says.
        // SAFETY: nothing else has such a name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            told(|| $work)
        }
    )*};
}

mod key_value;

exported! {
    /// Opens a database if it is ours; else the handle is null.
    fn sablecat_sql_open(
        path: *const c_char,
        engine: *const c_char,
        flags: c_int,
        statements: *const CStatements,
        into: *mut *mut c_void,
    ) {
        // SAFETY: strings of C's, or null where there is no parameter.
        let (path, engine) = unsafe {
            let engine = NonNull::new(engine.cast_mut()).map(|engine| CStr::from_ptr(engine.as_ptr()));
            (CStr::from_ptr(path), engine)
        };
        let engine = engine.map(CStr::to_string_lossy);
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        let create = flags & OPEN_CREATE != 0 && flags & OPEN_READWRITE != 0;
        if !engine::is_ours(Wanted { path, engine: engine.as_deref(), create })? {
            return Ok(());
        }
        // SAFETY: C says where they are, and whose they are is closed after this handle.
        let statements = unsafe { (*statements).told() }?;
        let opened =
            engine::shared(path, create).and_then(|shared| Connection::open(shared, statements));
        let opened = opened.map_err(|error| {
            Failure::cannot_open(format!("opening {} as a database of sablecat: {error}", path.display()))
        })?;
        // SAFETY: it can be written to.
        unsafe { into.write(Box::into_raw(Box::new(opened)).cast()) };
        Ok(())
    }

    /// Whether a path is an environment's directory.
    fn sablecat_sql_is_there(path: *const c_char, is_there: *mut c_int) {
        // SAFETY: a string of C's, and what can be written to.
        unsafe {
            let path = Path::new(OsStr::from_bytes(CStr::from_ptr(path).to_bytes()));
            is_there.write(engine::is_there(path).into());
        }
        Ok(())
    }

    /// Whether two databases are the same environment.
    fn sablecat_sql_is_same(one: *mut c_void, other: *mut c_void, is_same: *mut c_int) {
        // SAFETY: as the module says, of both; the two are different objects if their handles are. `is_same`
        // can be written to.
        unsafe {
            let same = one == other || connection(one).is_same(connection(other));
            is_same.write(same.into());
        }
        Ok(())
    }

    fn sablecat_sql_close(handle: *mut c_void) {
        // SAFETY: it was made by `Box::into_raw`, and is not used any more.
        drop(unsafe { Box::from_raw(handle.cast::<Connection>()) });
        Ok(())
    }

    fn sablecat_sql_begin(
        handle: *mut c_void,
        is_write: c_int,
        is_alone: c_int,
        is_explicit: c_int,
        is_savepoint: c_int,
    ) {
        // SAFETY: as the module says.
        let connection = unsafe { connection(handle) };
        connection.begin(is_write != 0, is_alone != 0, is_explicit != 0, is_savepoint != 0)
    }

    /// Whether a transaction is in progress on which nothing that is written may rest.
    fn sablecat_sql_is_snapshot(handle: *mut c_void, is_snapshot: *mut c_int) {
        // SAFETY: as the module says; and what can be written to.
        unsafe { is_snapshot.write(connection(handle).is_snapshot().into()) };
        Ok(())
    }

    /// How isolated transactions are, and are to be, if that is said.
    fn sablecat_sql_isolation(handle: *mut c_void, wanted: *const c_char, is: *mut *const c_char) {
        // SAFETY: as the module says; and a string of C's, or null.
        let (connection, wanted) = unsafe {
            (connection(handle), NonNull::new(wanted.cast_mut()).map(|name| CStr::from_ptr(name.as_ptr())))
        };
        if let Some(wanted) = wanted {
            connection.level = Level::of_name(wanted)?;
        }
        // SAFETY: it can be written to.
        unsafe { is.write(connection.level.name().as_ptr()) };
        Ok(())
    }

    /// What is another number for each state that the connection has come to.
    fn sablecat_sql_version(handle: *mut c_void, version: *mut u32) {
        // SAFETY: as the module says; `version` can be written to.
        unsafe { version.write(connection(handle).version()) };
        Ok(())
    }

    /// Why the transaction does not commit, if that is known.
    fn sablecat_sql_may_commit(handle: *mut c_void) {
        // SAFETY: as the module says.
        unsafe { connection(handle) }.may_commit()
    }

    /// Commits, as durably as `PRAGMA synchronous` says: 1 is OFF, 2 NORMAL, and above is FULL.
    fn sablecat_sql_commit(handle: *mut c_void, synchronous: c_int) {
        let durability = match synchronous {
            1 => Durability::NoSync,
            2 => Durability::WriteNoSync,
            _ => Durability::Sync,
        };
        // SAFETY: as the module says.
        unsafe { connection(handle) }.commit(durability)
    }

    fn sablecat_sql_end(handle: *mut c_void) {
        // SAFETY: as the module says.
        unsafe { connection(handle) }.end();
        Ok(())
    }

    /// A statement begins to write, where there are so many savepoints with names, by itself or within
    /// another.
    fn sablecat_sql_begin_statement(handle: *mut c_void, named: c_int, is_by_itself: c_int) {
        // SAFETY: as the module says.
        let connection = unsafe { connection(handle) };
        connection.begin_statement(usize::try_from(named).unwrap_or(0), is_by_itself != 0)
    }

    /// SQLite can roll it back, to the savepoint of this number.
    fn sablecat_sql_be_whole(handle: *mut c_void, number: c_int) {
        // SAFETY: as the module says.
        unsafe { connection(handle) }.be_whole(usize::try_from(number).unwrap_or(0))
    }

    /// Rolls back to a savepoint or releases it; below 0 it is the transaction as a whole.
    fn sablecat_sql_savepoint(handle: *mut c_void, is_rollback: c_int, index: c_int) {
        // SAFETY: as the module says.
        let connection = unsafe { connection(handle) };
        let index = usize::try_from(index).ok();
        if is_rollback != 0 {
            return connection.roll_back(index);
        }
        connection.release(index.unwrap_or(0));
        Ok(())
    }

    fn sablecat_sql_create(handle: *mut c_void, root: *mut u32) {
        // SAFETY: as the module says; `root` can be written to.
        unsafe { root.write(connection(handle).create()?) };
        Ok(())
    }

    fn sablecat_sql_drop(handle: *mut c_void, root: u32) {
        // SAFETY: as the module says.
        unsafe { connection(handle) }.drop_tree(root)
    }

    fn sablecat_sql_clear(handle: *mut c_void, root: u32, count: *mut i64) {
        // SAFETY: as the module says; `count` can be written to.
        unsafe { count.write(connection(handle).clear(root)? as i64) };
        Ok(())
    }

    fn sablecat_sql_meta(handle: *mut c_void, index: c_int, number: *mut u32) {
        // SAFETY: as the module says; `number` can be written to.
        unsafe { number.write(connection(handle).meta(index)?) };
        Ok(())
    }

    fn sablecat_sql_set_meta(handle: *mut c_void, index: c_int, number: u32) {
        // SAFETY: as the module says.
        unsafe { connection(handle) }.set_meta(index, number)
    }

    /// The highest root.
    fn sablecat_sql_last_root(handle: *mut c_void, root: *mut u32) {
        // SAFETY: as the module says; `root` can be written to.
        unsafe { root.write(connection(handle).last_root()?) };
        Ok(())
    }

    fn sablecat_sql_checkpoint(handle: *mut c_void) {
        // SAFETY: as the module says.
        unsafe { connection(handle) }.checkpoint()
    }

    fn sablecat_sql_compact(handle: *mut c_void) {
        // SAFETY: as the module says.
        unsafe { connection(handle) }.compact()
    }

    /// Verifies the environment; what is wrong, one sentence a line, or null. It goes to `sablecat_sql_free`.
    fn sablecat_sql_verify(handle: *mut c_void, found: *mut *mut c_char) {
        // SAFETY: as the module says.
        let problems = unsafe { connection(handle) }.verify()?;
        let said = match problems.is_empty() {
            true => ptr::null_mut(),
            false => CString::new(problems.join("\n").replace('\0', " ")).unwrap_or_default().into_raw(),
        };
        // SAFETY: it can be written to.
        unsafe { found.write(said) };
        Ok(())
    }

    fn sablecat_sql_check(handle: *mut c_void, root: u32, count: *mut i64) {
        // SAFETY: as the module says; `count` can be written to.
        unsafe { count.write(connection(handle).count(root)? as i64) };
        Ok(())
    }

    fn sablecat_sql_size(handle: *mut c_void, root: u32, size: *mut CSize) {
        // SAFETY: as the module says.
        let of = unsafe { connection(handle) }.size(root)?;
        let DatabaseStats { pages, records, bytes, page_size, .. } = of;
        let [pages, records, bytes, page_size] = [pages, records, bytes, page_size].map(|n| n as i64);
        // SAFETY: `size` can be written to.
        unsafe { size.write(CSize { pages, records, bytes, page_size }) };
        Ok(())
    }

    fn sablecat_sql_next_alone(handle: *mut c_void) {
        // SAFETY: as the module says.
        unsafe { connection(handle) }.next_alone();
        Ok(())
    }

    fn sablecat_sql_free(said: *mut c_char) {
        // SAFETY: it is of `CString::into_raw`, in `sablecat_sql_verify`.
        drop(unsafe { CString::from_raw(said) });
        Ok(())
    }

    /// A cursor in a table, or, if it is given how columns are ordered, in an index. `is_sequences`: one that
    /// changes the table of sequences.
    fn sablecat_sql_cursor(
        handle: *mut c_void,
        root: u32,
        order: *const COrder,
        columns: u32,
        encoding: c_int,
        is_sequences: c_int,
        into: *mut *mut c_void,
    ) {
        let order = NonNull::new(order.cast_mut()).map(|order| {
            // SAFETY: there are so many.
            unsafe { slice::from_raw_parts(order.as_ptr(), columns as usize) }.iter().map(order_of)
        });
        let encoding = match encoding {
            2 => Encoding::Utf16Le,
            3 => Encoding::Utf16Be,
            _ => Encoding::Utf8,
        };
        let pointer = NonNull::new(handle.cast()).ok_or_else(|| Failure::internal("no handle"))?;
        // SAFETY: as the module says.
        let connection = unsafe { connection(handle) };
        let mut place = match connection.spare(|place| place.is_as(root, order.clone(), encoding)) {
            Some(place) => place,
            None => {
                let order = order.map(Iterator::collect);
                Box::new(Place::new(pointer, connection, root, order, encoding)?)
            }
        };
        place.changes_sequences = is_sequences != 0;
        // SAFETY: it can be written to.
        unsafe { into.write(Box::into_raw(place).cast()) };
        Ok(())
    }

    fn sablecat_sql_cursor_close(handle: *mut c_void) {
        // SAFETY: it was made by `Box::into_raw`, and is not used any more.
        let place = unsafe { Box::from_raw(handle.cast::<Place>()) };
        // SAFETY: its connection is closed after it.
        unsafe { connection(place.connection.as_ptr().cast()) }.keep(place);
        Ok(())
    }

    /// A cursor is a handle's of a blob.
    fn sablecat_sql_of_blob(handle: *mut c_void) {
        // SAFETY: as the module says.
        unsafe { place(handle) }.0.be_of_blob();
        Ok(())
    }

    fn sablecat_sql_edge(handle: *mut c_void, is_last: c_int, is_of_sequences: c_int, row: *mut CRow) {
        // SAFETY: as the module says.
        let (place, of) = unsafe { place(handle) };
        // SAFETY: it can be written to.
        unsafe { show(place.edge(of, is_last != 0, is_of_sequences != 0)?, row) }
    }

    fn sablecat_sql_step(handle: *mut c_void, is_forward: c_int, row: *mut CRow) {
        // SAFETY: as the module says.
        let (place, of) = unsafe { place(handle) };
        // SAFETY: it can be written to.
        unsafe { show(place.step(of, is_forward != 0)?, row) }
    }

    fn sablecat_sql_refresh(handle: *mut c_void, row: *mut CRow) {
        // SAFETY: as the module says.
        let (place, of) = unsafe { place(handle) };
        // SAFETY: it can be written to.
        unsafe { show(place.refresh(of)?, row) }
    }

    fn sablecat_sql_seek_rowid(handle: *mut c_void, rowid: i64, row: *mut CRow) {
        // SAFETY: as the module says.
        let (place, of) = unsafe { place(handle) };
        // SAFETY: it can be written to.
        unsafe { show(place.seek_rowid(of, rowid)?, row) }
    }

    fn sablecat_sql_seek_key(
        handle: *mut c_void,
        values: *const CValue,
        count: u32,
        to: c_int,
        row: *mut CRow,
    ) {
        let to = match to {
            1 => Where::Before,
            2 => Where::After,
            3 => Where::Last,
            4 => Where::First,
            _ => Where::Any,
        };
        let values = match count {
            0 => &[],
            // SAFETY: there are so many.
            _ => unsafe { slice::from_raw_parts(values, count as usize) },
        };
        // SAFETY: as the module says.
        let (place, of) = unsafe { place(handle) };
        // SAFETY: of each value C says how many bytes it has; and `row` can be written to.
        unsafe { show(place.seek_key(of, values.iter().map(|value| value_of(value)), to)?, row) }
    }

    /// The row id before that of a new row; the greatest there is if that is used. For AUTOINCREMENT there is
    /// a sequence.
    fn sablecat_sql_before_new(handle: *mut c_void, sequence: *const CSequence, rowid: *mut i64) {
        // SAFETY: as the module says.
        let (place, of) = unsafe { place(handle) };
        // SAFETY: it is one, or null.
        let sequence = unsafe { sequence.as_ref() };
        let sequence = sequence.map(|sequence| Sequence {
            last: sequence.last,
            row: (sequence.row != 0).then_some((sequence.root, sequence.row)),
        });
        let new = place.new_rowid(of, sequence)?;
        // SAFETY: it can be written to.
        unsafe { rowid.write(new.map_or(i64::MAX, |new| new - 1)) };
        Ok(())
    }

    /// Sets a row of the table of sequences, for AUTOINCREMENT.
    fn sablecat_sql_insert_sequence(handle: *mut c_void, rowid: i64, data: *const u8, len: u32) {
        // SAFETY: as the module says; there are so many bytes.
        let ((place, of), data) = unsafe { (place(handle), bytes(data, len)) };
        place.insert_sequence(of, rowid, data)
    }

    fn sablecat_sql_insert(handle: *mut c_void, rowid: i64, data: *const u8, len: u32, zeros: u32) {
        // SAFETY: as the module says; there are so many bytes.
        let ((place, of), data) = unsafe { (place(handle), bytes(data, len)) };
        place.insert(of, rowid, data, zeros as usize)
    }

    fn sablecat_sql_insert_key(handle: *mut c_void, record: *const u8, len: u32) {
        // SAFETY: as the module says; there are so many bytes.
        let ((place, of), record) = unsafe { (place(handle), bytes(record, len)) };
        place.insert_key(of, record)
    }

    fn sablecat_sql_delete(handle: *mut c_void) {
        // SAFETY: as the module says.
        let (place, of) = unsafe { place(handle) };
        place.delete(of)
    }

    fn sablecat_sql_count(handle: *mut c_void, count: *mut i64) {
        // SAFETY: as the module says; `count` can be written to.
        unsafe {
            let (place, of) = place(handle);
            count.write(of.count(place.root())? as i64);
        }
        Ok(())
    }

    fn sablecat_sql_estimate(handle: *mut c_void, count: *mut i64) {
        // SAFETY: as the module says; `count` can be written to.
        unsafe { count.write(place(handle).0.estimate()? as i64) };
        Ok(())
    }
}

/// The sentence for a code, if this thread's last failure had it.
// SAFETY: nothing else has such a name.
#[unsafe(no_mangle)]
extern "C" fn sablecat_sql_message(code: c_int) -> *const c_char {
    catch_unwind(|| failure::message(code)).unwrap_or(ptr::null())
}

fn order_of(order: &COrder) -> Order {
    let collation = match order.collation {
        1 => Collation::NoCase,
        2 => Collation::RTrim,
        _ => Collation::Binary,
    };
    Order { collation, descending: order.descending != 0 }
}

/// A value of C's.
///
/// # Safety
/// It has as many bytes as it says.
unsafe fn value_of(value: &CValue) -> Value<'_> {
    // SAFETY: by the caller's word.
    let bytes = |value: &CValue| unsafe { bytes(value.bytes, value.len) };
    match value.kind {
        1 => Value::Integer(value.integer),
        2 if value.real.is_nan() => Value::Null,
        2 => Value::Real(value.real),
        3 => Value::Text(bytes(value)),
        4 => Value::Blob(bytes(value), value.zeros),
        _ => Value::Null,
    }
}
