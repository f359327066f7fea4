//! SQL over sablecat: SQLite's parser, planner and virtual machine, with sablecat's transactions under them.
//!
//! A program uses SQLite as ever, from Rust as a rule through `rusqlite`; this crate beside it in
//! `Cargo.toml` makes the library that it is linked with ours. A database that is a directory is an
//! environment of sablecat, in which any number of connections, threads and processes write at once; one that
//! is a file stays SQLite's, and works as it always did.
//!
//! ```
//! use rusqlite::Connection;
//!
//! # fn main() -> rusqlite::Result<()> {
//! # let directory = std::env::temp_dir().join(format!("sablecat-sql-doc-{}", std::process::id()));
//! # let _ = std::fs::remove_dir_all(&directory);
//! // New, and to be ours; to open it again the path alone is enough.
//! let db = Connection::open(sablecat_sql::uri(&directory))?;
//! db.execute_batch(
//!     "CREATE TABLE accounts (name TEXT PRIMARY KEY, balance INTEGER) WITHOUT ROWID;
//!      INSERT INTO accounts VALUES ('ada', 70), ('grace', 30);",
//! )?;
//! db.execute("UPDATE accounts SET balance = balance - 50 WHERE name = ?1", ["ada"])?;
//! let left: i64 = db.query_row("SELECT sum(balance) FROM accounts", [], |row| row.get(0))?;
//! assert_eq!(left, 50);
//! # drop(db);
//! # let _ = std::fs::remove_dir_all(&directory);
//! # Ok(())
//! # }
//! ```
//!
//! # Which databases are ours
//! A path that is a directory with an environment in it. Of paths where there is nothing yet, those opened
//! with `engine=sablecat` in their URI, or, if that says nothing, with the environment variable
//! `SABLECAT_SQLITE_ENGINE` set to `sablecat`; the variable makes no directories above them. Everything else
//! is SQLite's: files, whatever they hold; `:memory:`; temporary tables. One connection may have both, by
//! `ATTACH`; a transaction that writes to both is atomic in each, not across them.
//!
//! # Transactions
//! A transaction sees the state of its first read, and commits if it is as if transactions had run one after
//! the other. If not, `COMMIT` fails with `SQLITE_BUSY_SNAPSHOT`; nothing was changed, the transaction is
//! over, and the program runs it again. A statement outside a transaction runs again by itself. `BEGIN
//! IMMEDIATE` and `BEGIN EXCLUSIVE` wait, as the busy handler says, until no other transaction writes, keep
//! others from writing, and never meet a conflict; readers go on.
//!
//! `PRAGMA synchronous` says how durable a commit is: `OFF` is [`NoSync`](sablecat::Durability::NoSync),
//! `NORMAL` is [`WriteNoSync`](sablecat::Durability::WriteNoSync), `FULL`, the default, and `EXTRA` are
//! [`Sync`](sablecat::Durability::Sync). `PRAGMA journal_mode` always answers `wal`: readers stop no writer.
//! `VACUUM` makes the environment's files smaller, `PRAGMA wal_checkpoint` writes a checkpoint.
//!
//! # Copies
//! `sqlite3_backup_*` copies between environments, and between these and files or databases in memory, in
//! either direction: one state of the source, while others write to it, which replaces what the destination
//! had in one transaction. `VACUUM INTO` writes to a new database of either kind.
//!
//! # Keys and values of the same environment
//! [`environment`] gives the environment that connections of this process have open, or opens it, for a
//! program that also keeps records in databases of its own there. Those of SQL have names that begin with the
//! byte 1.

mod ahead;
mod border;
mod connection;
mod engine;
mod failure;
mod key;
mod place;
mod record;
mod row_ids;

pub use engine::{environment, is_complete, uri};

/// The version of SQLite that this library is.
pub const SQLITE_VERSION: &str = env!("SABLECAT_SQLITE_VERSION");
