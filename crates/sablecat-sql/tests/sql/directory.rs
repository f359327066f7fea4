//! Directories for tests, with a database of sablecat and one of SQLite's own.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::Connection;

/// A directory that goes with the test.
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn new() -> Directory {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sablecat-sql-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).expect("a directory for the test");
        Directory(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The database of sablecat in it, made if there is none.
    pub(super) fn ours(&self) -> Connection {
        Connection::open(sablecat_sql::uri(self.0.join("ours"))).expect("a database of sablecat")
    }

    /// A database of SQLite's own in it.
    pub(super) fn stock(&self) -> Connection {
        Connection::open(self.0.join("stock.db")).expect("a database of SQLite")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
