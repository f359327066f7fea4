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
//! `PRAGMA sablecat_isolation = snapshot`, before a transaction and for as long as the connection is open, is
//! for long reports in transactions that also write: what `SELECT` has read others may change, and nobody
//! conflicts. What statements that write have read counts all the same, as do handles of blobs. So two that
//! change one row still conflict, and keys that are unique, foreign keys, triggers, indices and virtual
//! tables are as sure as ever; but of two programs that look first, and then write what was only right by
//! what they saw, both may commit (*write skew*). `PRAGMA sablecat_isolation` says which it is:
//! `serializable` at first.
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
//! - Which columns there are depends on what the database holds, as the table below has it. `value` is a blob
//!   unless `value=text` is said, or the type of a [typed](sablecat::typed) value (`i8` to `i64`, `u8` to
//!   `u64`, `f32`, `f64`, `bool`). A column takes what it is made of; one of text takes numbers as well, as
//!   the text that they are. A record that is none of these is an error to who reads it.
//! - `=`, `IN`, `<`, `<=`, `>`, `>=` and `BETWEEN` on the key read the records concerned alone, and `ORDER
//!   BY` the key takes no sorting, in either direction. Of several columns those count that come first: any
//!   number of them with `=`, then one with a range. Not with another collation than BINARY, nor, where a
//!   column is text, in a database whose encoding is UTF-16. Of hash tables `=` and `IN` on all of the key
//!   alone do.
//! - `INSERT`, `UPDATE` and `DELETE`, with `OR REPLACE`, `OR IGNORE` and the like, but where keys have
//!   several values: there is a row for each, to be read only. A key that is there is `SQLITE_CONSTRAINT`.
//! - Writers that `BEGIN IMMEDIATE` waits for, and keeps away, are those of SQL. A program that changes the
//!   same records by itself may still be in its way. While it has one
//!   [locked](sablecat::Txn::get_for_update), a statement that changes that waits, as the busy handler says,
//!   and then fails with `SQLITE_BUSY`. SQL itself locks no records.
//!
//! | a database of | is made a table with | and has the columns |
//! |---|---|---|
//! | [records](sablecat::Database), [keys with several values](sablecat::MultiMap) | `key=text`, or nothing | `key`, `value` |
//! | records with [typed keys](sablecat::typed) or [tuples](sablecat::tuple) | `key=(customer text, day integer)`; there are `real`, `blob`, `boolean` and `uuid` too | those, and `value` |
//! | a [queue](sablecat::Queue), [records by number](sablecat::Numbered) | | `number`, `value`. A row inserted without a number is appended; [`last_insert_rowid`](https://www.sqlite.org/c3ref/last_insert_rowid.html) says where |
//! | [renumbered records](sablecat::Numbered::open_renumbered) | | the same; `number` is the place among all, and a row that is inserted comes before the one which has it |
//! | [globals](sablecat::globals) | `subscripts=3`; without it 8 | `global`, `s1`, `s2` and so on, `value`. A subscript that is a number is one: `s1 = 42`, not `s1 = '42'` |
//! | [records that expire](sablecat::Expiring) | as records | `expires` too: milliseconds since 1970, or null. What has expired is no row |
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
//!          SELECT 'Dear ' || value FROM globals WHERE global = 'acct' AND s1 BETWEEN 1 AND 99 AND s2 = 'name';",
//! )?;
//! let letters: i64 = db.query_row("SELECT count(*) FROM letters WHERE value LIKE 'Dear Ada%'", [], |row| row.get(0))?;
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

pub use engine::{environment, is_complete, uri};

/// The version of SQLite that this library is.
pub const SQLITE_VERSION: &str = env!("SABLECAT_SQLITE_VERSION");
