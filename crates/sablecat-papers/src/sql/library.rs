//! SQLite's C interface, as far as the suites need it: of the library that this program is linked with, or of
//! one that is loaded when it is asked for.
//!
//! The same few functions, called the same way, whichever library has them: what a suite measures is the
//! library behind them. One that is loaded stays loaded until the process ends, and a process loads one at
//! most.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::ptr::{self, NonNull};

use libsqlite3_sys as ffi;

type Db = ffi::sqlite3;
type Raw = ffi::sqlite3_stmt;
type EachRow = unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;
type Destructor = unsafe extern "C" fn(*mut c_void);

/// How long a connection waits for another one's lock, where libraries wait.
const BUSY_MS: c_int = 60_000;

/// Declares the functions, the ones that are linked, and how others are found.
macro_rules! interface {
    ($($name:ident = $symbol:ident($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions of a library.
        #[derive(Clone, Copy)]
        pub(super) struct Library {
            $($name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        /// The one that this program is linked with.
        pub(super) static LINKED: Library = Library { $($name: ffi::$symbol,)* };

        impl Library {
            /// The functions of a shared library that was opened.
            fn found(handle: NonNull<c_void>) -> Result<Library, String> {
                Ok(Library {
                    $($name: {
                        let at = symbol(handle, concat!(stringify!($symbol), "\0"))?;
                        // SAFETY: a function of SQLite's interface, which has had this name and this type
                        // since version 3.6, in a library that is never closed.
                        unsafe {
                            std::mem::transmute::<
                                NonNull<c_void>,
                                unsafe extern "C" fn($($argument),*) -> $result,
                            >(at)
                        }
                    },)*
                })
            }
        }
    };
}

interface! {
    open = sqlite3_open_v2(*const c_char, *mut *mut Db, c_int, *const c_char) -> c_int;
    close = sqlite3_close(*mut Db) -> c_int;
    busy_timeout = sqlite3_busy_timeout(*mut Db, c_int) -> c_int;
    exec = sqlite3_exec(*mut Db, *const c_char, Option<EachRow>, *mut c_void, *mut *mut c_char) -> c_int;
    prepare = sqlite3_prepare_v2(*mut Db, *const c_char, c_int, *mut *mut Raw, *mut *const c_char) -> c_int;
    bind_number = sqlite3_bind_int64(*mut Raw, c_int, i64) -> c_int;
    bind_text = sqlite3_bind_text(*mut Raw, c_int, *const c_char, c_int, Option<Destructor>) -> c_int;
    step = sqlite3_step(*mut Raw) -> c_int;
    column = sqlite3_column_int64(*mut Raw, c_int) -> i64;
    reset = sqlite3_reset(*mut Raw) -> c_int;
    finalize = sqlite3_finalize(*mut Raw) -> c_int;
    changes = sqlite3_changes(*mut Db) -> c_int;
    get_autocommit = sqlite3_get_autocommit(*mut Db) -> c_int;
    message = sqlite3_errmsg(*mut Db) -> *const c_char;
    version = sqlite3_libversion() -> *const c_char;
}

fn symbol(handle: NonNull<c_void>, name: &str) -> Result<NonNull<c_void>, String> {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: a library that was opened, and a string that ends.
    let at = unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) };
    NonNull::new(at).ok_or_else(|| format!("it has no {}", name.to_string_lossy()))
}

impl Library {
    /// The shared library of this name.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn load(name: &str) -> Result<&'static Library, String> {
        let file = CString::new(name).map_err(|error| error.to_string())?;
        // SAFETY: a string that ends. What the library does when it is loaded is what libraries do. Its
        // functions become nobody else's, and it calls its own, though this program has others of their
        // names.
        let handle =
            unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND) };
        let Some(handle) = NonNull::new(handle) else {
            // SAFETY: after a call that failed there is a string that ends, valid until the next one.
            let why = unsafe { NonNull::new(libc::dlerror()).map(|why| CStr::from_ptr(why.as_ptr())) };
            return Err(why.map_or_else(String::new, |why| why.to_string_lossy().into_owned()));
        };
        let library = Library::found(handle).map_err(|why| format!("{name}: {why}"))?;
        Ok(Box::leak(Box::new(library)))
    }

    /// What it calls itself.
    pub(super) fn version(&self) -> String {
        // SAFETY: a string that ends, and is there for as long as the library.
        unsafe { CStr::from_ptr((self.version)()) }.to_string_lossy().into_owned()
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("version", &self.version()).finish_non_exhaustive()
    }
}

/// What a function of the library came to, if it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    code: c_int,
    what: String,
}

impl Fault {
    /// Whether others were in the way: the transaction is to be run again.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.code & 0xff, ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED)
    }

    /// A failure of what was expected of the statements.
    pub(super) fn of(what: impl Into<String>) -> Fault {
        Fault { code: ffi::SQLITE_ERROR, what: what.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.code)
    }
}

impl From<Fault> for String {
    fn from(fault: Fault) -> String {
        fault.to_string()
    }
}

/// A connection, which one thread uses.
#[derive(Debug)]
pub(super) struct Connection {
    functions: &'static Library,
    db: NonNull<Db>,
}

impl Connection {
    /// Opens a database by its path or URI; makes it if there is none.
    pub(super) fn open(library: &'static Library, name: &str) -> Result<Connection, Fault> {
        let file = CString::new(name).map_err(|error| Fault::of(error.to_string()))?;
        // Ours is built to take URIs anyway, and old ones do not know the flag.
        let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE | ffi::SQLITE_OPEN_NOMUTEX;
        let mut db = ptr::null_mut();
        // SAFETY: a string that ends, a place for the connection, and no other file system than the usual.
        let code = unsafe { (library.open)(file.as_ptr(), &raw mut db, flags, ptr::null()) };
        let Some(db) = NonNull::new(db) else { return Err(Fault { code, what: format!("opening {name}") }) };
        // From here on it is closed whatever comes.
        let connection = Connection { functions: library, db };
        connection.check(code)?;
        // SAFETY: a connection that is open.
        connection.check(unsafe { (library.busy_timeout)(db.as_ptr(), BUSY_MS) })?;
        Ok(connection)
    }

    /// Runs statements; rows are nobody's.
    pub(super) fn execute(&self, sql: &str) -> Result<(), Fault> {
        let text = CString::new(sql).map_err(|error| Fault::of(error.to_string()))?;
        // SAFETY: a connection that is open, a string that ends, and nobody to be called.
        let code = unsafe {
            (self.functions.exec)(self.db.as_ptr(), text.as_ptr(), None, ptr::null_mut(), ptr::null_mut())
        };
        self.check(code).map_err(|fault| Fault { what: format!("{}: {sql}", fault.what), ..fault })
    }

    pub(super) fn prepare(&self, sql: &str) -> Result<Statement<'_>, Fault> {
        let text = CString::new(sql).map_err(|error| Fault::of(error.to_string()))?;
        let mut raw = ptr::null_mut();
        // SAFETY: a connection that is open, a string that ends, and a place for the statement.
        let code = unsafe {
            (self.functions.prepare)(self.db.as_ptr(), text.as_ptr(), -1, &raw mut raw, ptr::null_mut())
        };
        self.check(code).map_err(|fault| Fault { what: format!("{}: {sql}", fault.what), ..fault })?;
        let raw = NonNull::new(raw).ok_or_else(|| Fault::of(format!("no statement: {sql}")))?;
        Ok(Statement { connection: self, raw })
    }

    /// The numbers in the only row that a query has.
    pub(super) fn numbers(&self, sql: &str, columns: usize) -> Result<Vec<i64>, Fault> {
        let mut statement = self.prepare(sql)?;
        if !statement.step()? {
            return Err(Fault::of(format!("no row: {sql}")));
        }
        Ok((0..columns).map(|column| statement.column(column as c_int)).collect())
    }

    /// Whether no transaction is open.
    pub(super) fn is_outside(&self) -> bool {
        // SAFETY: a connection that is open.
        unsafe { (self.functions.get_autocommit)(self.db.as_ptr()) != 0 }
    }

    fn check(&self, code: c_int) -> Result<(), Fault> {
        if code == ffi::SQLITE_OK { Ok(()) } else { Err(self.fault(code)) }
    }

    #[cold]
    fn fault(&self, code: c_int) -> Fault {
        // SAFETY: a connection that is open; the string ends, and is copied before anything else is called.
        let what = unsafe { CStr::from_ptr((self.functions.message)(self.db.as_ptr())) };
        Fault { code, what: what.to_string_lossy().into_owned() }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: it is open, and its statements, which borrow it, are gone. If that fails the process keeps
        // what it has until it ends.
        let _ = unsafe { (self.functions.close)(self.db.as_ptr()) };
    }
}

/// A statement that is ready to run.
#[derive(Debug)]
pub(super) struct Statement<'c> {
    connection: &'c Connection,
    raw: NonNull<Raw>,
}

impl Statement<'_> {
    pub(super) fn bind(&mut self, index: usize, number: i64) -> Result<(), Fault> {
        // SAFETY: a statement that is there.
        let code =
            unsafe { (self.connection.functions.bind_number)(self.raw.as_ptr(), index as c_int, number) };
        self.connection.check(code)
    }

    pub(super) fn bind_text(&mut self, index: usize, text: &str) -> Result<(), Fault> {
        // SAFETY: a statement that is there, and bytes of that number, which it copies.
        let code = unsafe {
            (self.connection.functions.bind_text)(
                self.raw.as_ptr(),
                index as c_int,
                text.as_ptr().cast(),
                text.len() as c_int,
                ffi::SQLITE_TRANSIENT(),
            )
        };
        self.connection.check(code)
    }

    /// Whether there is another row.
    pub(super) fn step(&mut self) -> Result<bool, Fault> {
        // SAFETY: a statement that is there.
        match unsafe { (self.connection.functions.step)(self.raw.as_ptr()) } {
            ffi::SQLITE_ROW => Ok(true),
            ffi::SQLITE_DONE => Ok(false),
            code => Err(self.connection.fault(code)),
        }
    }

    /// A number of the row.
    pub(super) fn column(&self, column: c_int) -> i64 {
        // SAFETY: a statement that is there; of a column or a row that it does not have it gives something.
        unsafe { (self.connection.functions.column)(self.raw.as_ptr(), column) }
    }

    pub(super) fn reset(&mut self) {
        // SAFETY: a statement that is there. What is returned is how the last step ended, which is known.
        let _ = unsafe { (self.connection.functions.reset)(self.raw.as_ptr()) };
    }

    /// Runs it to its end with these numbers.
    pub(super) fn run(&mut self, numbers: &[i64]) -> Result<(), Fault> {
        let done = self.started(numbers).and_then(|mut there| {
            while there {
                there = self.step()?;
            }
            Ok(())
        });
        self.reset();
        done
    }

    /// Runs a statement that is to change one row.
    pub(super) fn change_one(&mut self, numbers: &[i64]) -> Result<(), Fault> {
        self.run(numbers)?;
        // SAFETY: a connection that is open.
        match unsafe { (self.connection.functions.changes)(self.connection.db.as_ptr()) } {
            1 => Ok(()),
            rows => Err(Fault::of(format!("a statement changed {rows} rows instead of one"))),
        }
    }

    /// The first number of the only row there is to be.
    pub(super) fn one(&mut self, numbers: &[i64]) -> Result<i64, Fault> {
        let found = self.started(numbers).map(|there| there.then(|| self.column(0)));
        self.reset();
        found?.ok_or_else(|| Fault::of("a row is not there"))
    }

    fn started(&mut self, numbers: &[i64]) -> Result<bool, Fault> {
        for (before, &number) in numbers.iter().enumerate() {
            self.bind(before + 1, number)?;
        }
        self.step()
    }
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        // SAFETY: a statement that is there. What is returned is how the last step ended, which is known.
        let _ = unsafe { (self.connection.functions.finalize)(self.raw.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_take_numbers_and_give_them() {
        let connection = Connection::open(&LINKED, ":memory:").unwrap();
        connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)").unwrap();
        let mut insert = connection.prepare("INSERT INTO t VALUES (?1, ?2)").unwrap();
        insert.bind_text(2, "four").unwrap();
        insert.change_one(&[7]).unwrap();
        let twice = insert.run(&[7]).unwrap_err();
        assert!(!twice.is_busy() && twice.to_string().contains("UNIQUE"), "{twice}");
        let mut length = connection.prepare("SELECT length(b) FROM t WHERE a = ?1").unwrap();
        assert_eq!(length.one(&[7]), Ok(4));
        assert_eq!(length.one(&[8]), Err(Fault::of("a row is not there")));
        let mut update = connection.prepare("UPDATE t SET b = '' WHERE a = ?1").unwrap();
        assert!(update.change_one(&[8]).is_err());
        assert_eq!(connection.numbers("SELECT count(*), sum(a) FROM t", 2), Ok(vec![1, 7]));
        connection.execute("BEGIN").unwrap();
        assert!(!connection.is_outside());
    }

    #[test]
    fn a_library_that_is_not_there_is_told() {
        let why = Library::load("libnosuchdatabase.so.0").unwrap_err();
        assert!(why.contains("libnosuchdatabase"), "{why}");
    }
}
