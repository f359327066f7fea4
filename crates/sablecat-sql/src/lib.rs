//! SQL over sablecat: SQLite's parser, planner and virtual machine, with sablecat's transactions under them.
//!
//! A program uses SQLite as usual, from Rust normally through `rusqlite`. With this crate beside it in
//! `Cargo.toml`, the SQLite library that the program is linked with is this one. A database that is a
//! directory is an environment of sablecat, in which any number of connections, threads and processes write
//! at once; a database that is a file stays SQLite's, and works as before.
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
//! A path that is a directory with an environment in it. If a path does not exist yet: a path opened with
//! `engine=sablecat` in its URI or, if the URI names no engine, with the environment variable
//! `SABLECAT_SQLITE_ENGINE` set to `sablecat`; with the variable, parent directories are not created.
//! Everything else is SQLite's: files, whatever they hold; `:memory:`; temporary tables. One connection may
//! have both kinds, by `ATTACH`; a transaction that writes to both is atomic in each, not across them.
//!
//! # Transactions
//! A transaction sees the state of its first read, and commits if it is serializable: if the result is as if
//! transactions had run one after the other. If not, it fails with `SQLITE_BUSY_SNAPSHOT`: at a statement
//! that changes or removes a row, or inserts one with a key, of which another transaction has committed a
//! change since; or at `COMMIT`. Such a statement changes nothing, and the transaction stays open until
//! `ROLLBACK`, which is the only way on: any statement that would write after it fails too, and so does
//! `COMMIT`. If `COMMIT` fails the transaction is over. The program must run the transaction again. A
//! statement outside a transaction is run again automatically. `BEGIN IMMEDIATE` and `BEGIN EXCLUSIVE` wait,
//! as the busy handler says, until no other transaction writes, keep others from writing, and never get a
//! conflict; readers go on. `BEGIN CONCURRENT`, which a branch of SQLite has for many writers, is the same as
//! `BEGIN`, in SQLite's own files too.
//!
//! `PRAGMA sablecat_isolation = snapshot` is for long reports in transactions that also write. It is set
//! before a transaction, and holds for as long as the connection is open. Other transactions may change what
//! `SELECT` has read, without a conflict. What writing statements have read still counts, and so do handles
//! of blobs. So two transactions that change one row still conflict, and unique keys, foreign keys, triggers,
//! indices and virtual tables are as safe as before; but if two programs first read, and then write what is
//! only right given what they read, both may commit (*write skew*). `PRAGMA sablecat_isolation` returns the
//! present level; it is `serializable` at first.
//!
//! `PRAGMA synchronous` says how durable a commit is: `OFF` is [`NoSync`](sablecat::Durability::NoSync),
//! `NORMAL` is [`WriteNoSync`](sablecat::Durability::WriteNoSync), `FULL`, the default, and `EXTRA` are
//! [`Sync`](sablecat::Durability::Sync). `PRAGMA journal_mode` always answers `wal`: readers do not block
//! writers. `VACUUM` makes the environment's files smaller, `PRAGMA wal_checkpoint` writes a checkpoint.
//!
//! # Copies
//! `sqlite3_backup_*` copies between environments, and between these and files or databases in memory, in
//! either direction. It copies one state of the source, while others write to it; in one transaction, this
//! replaces what the destination had. `VACUUM INTO` writes to a new database of either kind.
//! `sqlite3_serialize` returns the bytes of a file of SQLite's that has what an environment has.
//!
//! # Keys and values of the same environment
//! [`environment`] returns the environment that connections of this process have open, or opens it, for a
//! program that also keeps records in its own databases there. The databases of SQL have names that begin
//! with the byte 1.
//!
//! The other databases can be declared as tables in SQL: every connection has the module `sablecat` for
//! virtual tables. A statement reads and changes them in the same transaction as its other tables. So one
//! `COMMIT` is for rows and records, and so are `ROLLBACK` and savepoints; a conflict over a record is like
//! one over a row.
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
//! - The database must exist, in the environment that the table's schema is in (`main`, or an attached one).
//!   `DROP TABLE` leaves it as it is.
//! - The columns depend on what the database holds: see the table below. `value` is a blob, unless the
//!   argument `value=text` is given, or the type of a [typed](sablecat::typed) value (`i8` to `i64`, `u8` to
//!   `u64`, `f32`, `f64`, `bool`). A column takes values of its type; a text column also takes numbers, as
//!   their text. Reading a record that does not fit the columns is an error.
//! - `=`, `IN`, `<`, `<=`, `>`, `>=` and `BETWEEN` on the key read only the records concerned, and `ORDER BY`
//!   the key needs no sorting, in either direction. If the key has several columns, conditions on the first
//!   ones are used: any number of columns with `=`, then one with a range. This does not hold with another
//!   collation than BINARY, nor, for text columns, in a database with the encoding UTF-16. In hash tables it
//!   holds only for `=` and `IN` on the whole key.
//! - `INSERT`, `UPDATE` and `DELETE` work, with `OR REPLACE`, `OR IGNORE` and the like, except where keys
//!   have several values: such a table has a row for each value, and is read-only. Inserting an existing key
//!   fails with `SQLITE_CONSTRAINT`.
//! - `BEGIN IMMEDIATE` waits for, and keeps out, only writers through SQL. A program that changes the same
//!   records through the library may still conflict with it. While such a program has a record
//!   [locked](sablecat::Txn::get_for_update), a statement that changes the record waits, as the busy handler
//!   says, and then fails with `SQLITE_BUSY`. SQL itself locks no records.
//!
//! | a database of | is made a table with | and has the columns |
//! |---|---|---|
//! | [records](sablecat::Database), [keys with several values](sablecat::MultiMap) | `key=text`, or nothing | `key`, `value` |
//! | records with [typed keys](sablecat::typed) or [tuples](sablecat::tuple) | `key=(customer text, day integer)`; there are `real`, `blob`, `boolean` and `uuid` too | those, and `value` |
//! | a [queue](sablecat::Queue), [records by number](sablecat::Numbered) | | `number`, `value`. A row inserted without a number is appended; [`last_insert_rowid`](https://www.sqlite.org/c3ref/last_insert_rowid.html) says where |
//! | [renumbered records](sablecat::Numbered::open_renumbered) | | the same; `number` is the position among all records, and an inserted row comes before the one that has that number |
//! | [globals](sablecat::globals) | `subscripts=3`; without it 8 | `global`, `s1`, `s2` and so on, `value`. A subscript that is a number is one: `s1 = 42`, not `s1 = '42'` |
//! | [records that expire](sablecat::Expiring) | as records | `expires` too: milliseconds since 1970, or null. Expired records are not rows |
//!
//! ```
//! # use rusqlite::Connection;
//! # use sablecat::globals::Globals;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = std::env::temp_dir().join(format!("sablecat-sql-doc-kinds-{}", std::process::id()));
//! # let _ = std::fs::remove_dir_all(&directory);
//! let db = Connection::open(sablecat_sql::uri(&directory))?;
//! let env = sablecat_sql::environment(&directory)?;
//! let acct = Globals::open(&env, "globals")?;
//! sablecat::Queue::open(&env, "letters", 40)?;
//! env.write(|txn| acct.global("acct")?.at(42).at("name").set(txn, "Ada"))?;
//!
//! db.execute_batch(
//!     "CREATE VIRTUAL TABLE globals USING sablecat('globals', subscripts=2, value=text);
//!      CREATE VIRTUAL TABLE letters USING sablecat('letters', value=text);
//!      INSERT INTO letters (value)
//!          SELECT 'Dear ' || value FROM globals
//!          WHERE global = 'acct' AND s1 BETWEEN 1 AND 99 AND s2 = 'name';",
//! )?;
//! let to_ada = "SELECT count(*) FROM letters WHERE value LIKE 'Dear Ada%'";
//! let letters: i64 = db.query_row(to_ada, [], |row| row.get(0))?;
//! assert_eq!(letters, 1);
//! # drop((db, acct, env));
//! # let _ = std::fs::remove_dir_all(&directory);
//! # Ok(())
//! # }
//! ```

mod ahead;
mod border;
mod connection;
mod engine;
mod failure;
mod key;
mod key_value;
mod place;
mod record;
mod row_ids;
mod sequences;

// SQLite's code calls it.
#[cfg(feature = "mimalloc")]
use libmimalloc_sys as _;

pub use engine::{environment, is_complete, uri};

/// The version of SQLite that this library is.
pub const SQLITE_VERSION: &str = env!("SABLECAT_SQLITE_VERSION");
