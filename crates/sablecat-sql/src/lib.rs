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
//! the other. If not, it fails with `SQLITE_BUSY_SNAPSHOT`: at the statement that changes or removes a row,
//! or inserts one of a key, of which another transaction has committed a change since; or at `COMMIT`. Such a
//! statement leaves nothing behind, and the transaction is open until `ROLLBACK`, which is all that helps:
//! whatever would write after it, and `COMMIT`, fail as well. If `COMMIT` fails the transaction is over. The
//! program runs it again. A statement outside a transaction runs again by itself. `BEGIN
//! IMMEDIATE` and `BEGIN EXCLUSIVE` wait, as the busy handler says, until no other transaction writes, keep
//! others from writing, and never meet a conflict; readers go on. `BEGIN CONCURRENT`, which a branch of
//! SQLite's has for many writers, is `BEGIN`, in files of SQLite's as well.
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
//!
//! The others are tables once SQL is told so: every connection has the module `sablecat`. What a statement
//! reads and changes there it does in the transaction that its other tables are in. So one `COMMIT` is for
//! rows and records, as are `ROLLBACK` and savepoints, and a conflict over a record is one as over a row.
//!
//! ```
//! # use rusqlite::Connection;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = std::env::temp_dir().join(format!("sablecat-sql-doc-kv-{}", std::process::id()));
//! # let _ = std::fs::remove_dir_all(&directory);
//! let db = Connection::open(sablecat_sql::uri(&directory))?;
//! let sessions = sablecat_sql::environment(&directory)?.database("sessions")?;
//! sessions.insert("4f1c", "ada")?;
//!
//! db.execute_batch(
//!     "CREATE VIRTUAL TABLE sessions USING sablecat('sessions', key=text, value=text);
//!      CREATE TABLE users (name TEXT PRIMARY KEY, born INTEGER) WITHOUT ROWID;
//!      BEGIN;
//!      INSERT INTO users VALUES ('ada', 1815), ('grace', 1906);
//!      INSERT INTO sessions VALUES ('77a0', 'grace');
//!      COMMIT;",
//! )?;
//! assert_eq!(sessions.get("77a0")?.as_deref(), Some(&b"grace"[..]));
//! let sql = "SELECT born FROM sessions JOIN users ON name = value WHERE key < '5'";
//! assert_eq!(db.query_row(sql, [], |row| row.get::<_, i64>(0))?, 1815);
//! # drop((db, sessions));
//! # let _ = std::fs::remove_dir_all(&directory);
//! # Ok(())
//! # }
//! ```
//!
//! - The database is one of the environment that the table's schema is in (`main`, or what was attached), and
//!   is there already. `DROP TABLE` leaves it as it is.
//! - The columns are `key`, the primary key, and `value`: blobs, unless `key=text` or `value=text` is said. A
//!   column takes what it is made of, and no NULL; one of text takes numbers as well, as the text that they
//!   are.
//! - `=`, `IN`, `<`, `<=`, `>`, `>=` and `BETWEEN` on the key read the records concerned alone, and `ORDER BY
//!   key` takes no sorting, in either direction; not with another collation than BINARY, nor, where keys are
//!   text, in a database whose encoding is UTF-16. Of hash tables `=` and `IN` alone do.
//! - `INSERT`, `UPDATE` and `DELETE`, with `OR REPLACE`, `OR IGNORE` and the like. A key that is there is
//!   `SQLITE_CONSTRAINT`. Where keys have several values ([`MultiMap`](sablecat::MultiMap)) there is a row
//!   for each value, to be read only. Queues, records by number, globals and records that expire make no
//!   tables.
//! - Writers that `BEGIN IMMEDIATE` waits for, and keeps away, are those of SQL. A program that changes the
//!   same records by itself may still be in its way. While it has one
//!   [locked](sablecat::Txn::get_for_update), a statement that changes that waits, as the busy handler says,
//!   and then fails with `SQLITE_BUSY`. SQL itself locks no records.

mod ahead;
mod border;
mod connection;
mod engine;
mod entries;
mod failure;
mod key;
mod key_value;
mod place;
mod record;
mod row_ids;

pub use engine::{environment, is_complete, uri};

/// The version of SQLite that this library is.
pub const SQLITE_VERSION: &str = env!("SABLECAT_SQLITE_VERSION");
