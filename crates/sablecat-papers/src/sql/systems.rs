//! The systems that take part: libraries with SQLite's C interface, and how each is set up.
//!
//! | system | library | database |
//! |---|---|---|
//! | `sablecat` | the one that this program is linked with | an environment, which is shared |
//! | `sqlite` | the same: version, compiler and flags are equal, and a file gets SQLite's own b-tree | a file with a write-ahead log |
//! | `sqlite-system` | the system's `libsqlite3`, only if it is asked for: the same without our dispatcher | as `sqlite` |
//! | `bdb-sql` | Debian's `libdb5.3-sql`, Berkeley DB's SQL, loaded when it is asked for and never linked | a file with a directory of logs |
//!
//! Each has the settings that its documentation recommends for the case. Where that leaves a choice, the
//! one that it is faster with:
//!
//! - SQLite's writers are one at a time. They begin with `BEGIN IMMEDIATE`, so that none fails half way;
//!   within a process they queue on a mutex of ours, which is kinder than its busy handler, which sleeps. A
//!   connection that is alone keeps the file's locks (`locking_mode=EXCLUSIVE`). The log is 64 MB long
//!   between checkpoints.
//! - Berkeley DB is told when there is one process alone (`bdbsql_single_process`), and has log files of
//!   64 MB. Its writers lock pages; one of those in a deadlock is busy, and begins anew.
//! - Ours is shared in any case, since SQL's environments are: what other processes would need is paid for.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::library::{self, Library};
use crate::protocol::Mode;

/// Pages of SQLite's log between two checkpoints.
const LOG_PAGES: u32 = 16_384;

/// What a database is to be set up for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    /// [`Mode::NoSync`] or [`Mode::Sync`].
    pub(super) mode: Mode,
    pub(super) cache_bytes: u64,
    pub(super) use_by: UseBy,
    /// Whether the connection is the first of its process.
    pub(super) is_first: bool,
}

/// What uses a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum UseBy {
    /// A connection.
    One,
    /// Threads of a process.
    Threads,
    Processes,
}

/// A library and its settings.
#[derive(Debug)]
pub(super) struct System {
    pub(super) name: &'static str,
    /// The file to load, and the package that has it; none: this program is linked with it.
    loaded: Option<(&'static str, &'static str)>,
    /// How a transaction begins that will write.
    pub(super) begin: &'static str,
    /// Whether writers of a process queue on a mutex.
    pub(super) queues: bool,
    /// Statements for each connection before any other.
    settings: fn(Setting) -> String,
    /// What is told of both modes.
    pub(super) modes: [(Mode, &'static str); 2],
}

/// Our own name.
pub(super) const OURS: &str = crate::OURS;

/// All of them; ours is the first.
static SYSTEMS: [System; 4] = [
    System {
        name: OURS,
        loaded: None,
        begin: "BEGIN",
        queues: false,
        settings: |setting| format!("PRAGMA synchronous = {};", synchronous(setting.mode)),
        modes: [
            (Mode::NoSync, "synchronous=OFF: commits are in shared memory, and flushed every 50 ms"),
            (Mode::Sync, "synchronous=FULL: durable when COMMIT returns; commits share flushes"),
        ],
    },
    System {
        name: "sqlite",
        loaded: None,
        begin: "BEGIN IMMEDIATE",
        queues: true,
        settings: stock,
        modes: STOCK_MODES,
    },
    System {
        name: "sqlite-system",
        loaded: Some(("libsqlite3.so.0", "libsqlite3-0")),
        begin: "BEGIN IMMEDIATE",
        queues: true,
        settings: stock,
        modes: STOCK_MODES,
    },
    System {
        name: "bdb-sql",
        loaded: Some(("libdb_sql-5.3.so", "libdb5.3-sql")),
        begin: "BEGIN",
        queues: false,
        settings: |setting| {
            let alone = if setting.use_by == UseBy::Processes { "OFF" } else { "ON" };
            let pages = setting.cache_bytes / 4096;
            // What is all connections' can be set before the first of them has the database.
            let common = format!(
                "PRAGMA bdbsql_single_process = {alone}; PRAGMA cache_size = {pages};
                 PRAGMA journal_size_limit = 67108864;"
            );
            let common = if setting.is_first { common } else { String::new() };
            format!("{common} PRAGMA synchronous = {};", synchronous(setting.mode))
        },
        modes: [
            (Mode::NoSync, "synchronous=OFF: commits are in the log's buffer"),
            (Mode::Sync, "synchronous=FULL: durable when COMMIT returns"),
        ],
    },
];

const STOCK_MODES: [(Mode, &str); 2] = [
    (Mode::NoSync, "WAL, synchronous=OFF: commits are with the operating system; BEGIN IMMEDIATE"),
    (Mode::Sync, "WAL, synchronous=FULL: durable when COMMIT returns; BEGIN IMMEDIATE"),
];

fn synchronous(mode: Mode) -> &'static str {
    if mode == Mode::Sync { "FULL" } else { "OFF" }
}

fn stock(setting: Setting) -> String {
    let locking = if setting.use_by == UseBy::One { "EXCLUSIVE" } else { "NORMAL" };
    format!(
        "PRAGMA locking_mode = {locking}; PRAGMA journal_mode = WAL; PRAGMA synchronous = {};
         PRAGMA cache_size = -{}; PRAGMA wal_autocheckpoint = {LOG_PAGES};",
        synchronous(setting.mode),
        setting.cache_bytes >> 10
    )
}

impl System {
    /// The one of a name.
    pub(super) fn named(name: &str) -> Option<&'static System> {
        SYSTEMS.iter().find(|system| system.name == name)
    }

    /// Those that there are besides ours.
    pub(super) fn peers() -> impl Iterator<Item = &'static System> {
        SYSTEMS[1..].iter()
    }

    /// Whether it takes part unless others are named.
    pub(super) fn is_usual(&self) -> bool {
        self.name != "sqlite-system"
    }

    pub(super) fn is_ours(&self) -> bool {
        self.name == OURS
    }

    /// Its functions.
    ///
    /// # Errors
    /// A sentence, when it is not here.
    pub(super) fn functions(&self) -> Result<&'static Library, String> {
        match self.loaded {
            None => Ok(&library::LINKED),
            Some((file, package)) => Library::load(file)
                .map_err(|why| format!("its library is not here (Debian: {package}): {why}")),
        }
    }

    /// What its database in a directory is opened by.
    pub(super) fn address(&self, dir: &Path) -> String {
        if self.is_ours() {
            sablecat_sql::uri(dir.join("store"))
        } else {
            dir.join("store.db").to_string_lossy().into_owned()
        }
    }

    pub(super) fn settings(&self, setting: Setting) -> String {
        let own = (self.settings)(setting);
        format!("{own} PRAGMA temp_store = MEMORY;")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_of_the_case() {
        let setting = |mode, use_by| Setting { mode, cache_bytes: 256 << 20, use_by, is_first: true };
        let settings = |name: &str, setting| System::named(name).unwrap().settings(setting);
        let stock = settings("sqlite", setting(Mode::Sync, UseBy::One));
        assert!(
            stock.contains("EXCLUSIVE") && stock.contains("= FULL") && stock.contains("-262144"),
            "{stock}"
        );
        assert!(settings("sqlite", setting(Mode::NoSync, UseBy::Threads)).contains("NORMAL"));
        let bdb = settings("bdb-sql", setting(Mode::NoSync, UseBy::Processes));
        assert!(bdb.contains("single_process = OFF") && bdb.contains("= 65536;"), "{bdb}");
        let next = Setting { is_first: false, ..setting(Mode::NoSync, UseBy::Processes) };
        assert!(!settings("bdb-sql", next).contains("cache_size"));
        assert!(settings(OURS, setting(Mode::NoSync, UseBy::One)).contains("synchronous = OFF"));
        assert!(System::named("oracle").is_none() && System::peers().all(|peer| !peer.is_ours()));
    }
}
