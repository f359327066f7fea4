//! For users of Berkeley DB: what they know, and its name here.
//!
//! Data is moved as text: `db_dump` writes it and `sablecat load` reads it, and `sablecat dump` and `db_load`
//! do the reverse (the command's help says which parts of B+trees, hash tables, queues, numbered records and
//! duplicates are moved).
//!
//! # Environments and databases
//!
//! | Berkeley DB | here |
//! |---|---|
//! | Data Store: no locks, no log | [`DataStore`](crate::DataStore), and databases of it |
//! | Concurrent Data Store | an [`Env`](crate::Env): there is no lower rung with many writers |
//! | Transactional Data Store | [`Env`](crate::Env), with [`Env::write`](crate::Env::write), which retries transactions |
//! | `DB_TXN_SYNC`, `DB_TXN_WRITE_NOSYNC`, `DB_TXN_NOSYNC`, log in memory | [`Durability`](crate::Durability), each rung also by transaction |
//! | `DB_RECOVER`, one process, before all others | nothing: the first process to open recovers, and live processes finish the work of dead ones |
//! | `db_deadlock` | nothing: [`DeadlockPolicy`](crate::DeadlockPolicy) |
//! | `DB_BTREE`, `DB_HASH` | [`Env::database`](crate::Env::database), [`Method::Hash`](crate::Method) |
//! | `DB_RECNUM` | [`Method::Counted`](crate::Method) |
//! | `DB_RECNO`, with `DB_RENUMBER`, `re_source` | [`Numbered`](crate::Numbered), [`Numbered::open_renumbered`](crate::Numbered::open_renumbered), [`TextFile`](crate::TextFile) |
//! | `DB_QUEUE`, `DB_CONSUME`, `DB_CONSUME_WAIT` | [`Queue`](crate::Queue) |
//! | `DB_DUP`, `DB_DUPSORT` | [`MultiMap`](crate::MultiMap) |
//! | `DB->associate`, `DB->associate_foreign`, `DB->join` | [`Env::index`](crate::Env::index), [`IndexOptions::references`](crate::IndexOptions::references), [`Index::join`](crate::Index::join) |
//! | databases without a file, `DB_TXN_NOT_DURABLE` | [`DatabaseOptions::temporary`](crate::DatabaseOptions::temporary) |
//! | `DB_SEQUENCE` | [`Database::sequence`](crate::Database::sequence) |
//! | `DB_READ_COMMITTED`, `DB_TXN_SNAPSHOT` | [`Isolation`](crate::Isolation); there are no dirty reads |
//! | `DB_RMW` | [`Txn::get_for_update`](crate::Txn::get_for_update) |
//! | `DB_DBT_PARTIAL` | [`Read::read_at`](crate::Read::read_at), [`Write::splice`](crate::Write::splice) |
//! | `DB_MULTIPLE`, bulk | [`Read::visit`](crate::Read::visit), [`Database::insert_batch`](crate::Database::insert_batch), [`Write::remove_range`](crate::Write::remove_range); of several values of a key [`MultiMap::fold`](crate::MultiMap::fold), [`MultiMap::bulk_load`](crate::MultiMap::bulk_load) |
//! | `DB->key_range`, `DB->truncate`, `DB->stat` | [`Database::estimate`](crate::Database::estimate), [`Write::clear`](crate::Write::clear), [`Database::stats`](crate::Database::stats) |
//! | child transactions | [`Txn::nested`](crate::Txn::nested), [`Txn::savepoint`](crate::Txn::savepoint) |
//!
//! # Cursors
//!
//! Berkeley DB's `DBC->get` and `DBC->put` take a flag that says what to do. Here each is a method, of a
//! [`Cursor`](crate::Cursor), of a [`MultiCursor`](crate::MultiCursor) where keys have several values, or of
//! an [`IndexCursor`](crate::IndexCursor), which leads to the records of the primary. A
//! [`NumberedCursor`](crate::NumberedCursor) is a cursor that knows the numbers of records. Each call is
//! given the transaction. Cursors hold no lock and no page, need not be closed, and keep their position
//! whatever happens to the records around it.
//!
//! | flag | [`Cursor`](crate::Cursor) | [`MultiCursor`](crate::MultiCursor), [`IndexCursor`](crate::IndexCursor) |
//! |---|---|---|
//! | `DB_FIRST`, `DB_LAST` | `first`, `last` | the same |
//! | `DB_NEXT`, `DB_PREV` | `next`, `prev` | the same |
//! | `DB_NEXT_DUP`, `DB_PREV_DUP` | | `next_of_key`, `prev_of_key` |
//! | `DB_NEXT_NODUP`, `DB_PREV_NODUP` | `next`, `prev` | `next_key`, `prev_key` |
//! | `DB_SET` | `seek`, if it says `Equal` | `seek` |
//! | `DB_SET_RANGE` | `at_or_after`; downwards `at_or_before` | the same |
//! | `DB_GET_BOTH` | `seek`, then compare `value` | `seek_pair` |
//! | `DB_GET_BOTH_RANGE` | | `seek_pair_or_after` |
//! | `DB_CURRENT` of a get | `key`, `value` | the same; `primary_key` |
//! | `DB_SET_RECNO`, `DB_GET_RECNO` | `seek_nth`, `rank`; of a [`NumberedCursor`](crate::NumberedCursor) `at_or_after`, `number` | |
//! | `DB_CURRENT` of a put | `put` | `put` |
//! | `DB_BEFORE`, `DB_AFTER` | of a [`NumberedCursor`](crate::NumberedCursor) `insert_before`, `insert_after` | the same |
//! | `DB_KEYFIRST`, `DB_KEYLAST` | `insert` | `insert_first`, `insert_last` |
//! | `DB_NODUPDATA`, `DB_NOOVERWRITE` | `insert_new` | `insert_new` |
//! | `DBC->del` | `remove` | `remove`, of an index that of the record |
//! | `DBC->count` | | `count` |
//! | `DBC->dup`, `DBC->cmp` | `clone`, `compare` | the same |
//!
//! A move that finds nothing takes the cursor behind the last record or before the first, and it can move
//! back from there; in Berkeley DB it stays where it was. Methods that look for something exactly, or among
//! the values of a key, leave it where it was here too. The only write through an index is `remove`.
//!
//! ```
//! use sablecat::{Duplicates, MultiMap};
//!
//! # fn main() -> sablecat::Result<()> {
//! let env = sablecat::Env::in_memory()?;
//! let phones = MultiMap::open(&env, "phones", Duplicates::Sorted)?;
//! env.write(|txn| {
//!     for (name, number) in [("ada", "17"), ("ada", "42"), ("bob", "17"), ("cyd", "99")] {
//!         phones.insert(txn, name, number)?;
//!     }
//!     Ok(())
//! })?;
//!
//! let state = env.snapshot()?;
//! let mut cursor = phones.cursor();
//! assert!(cursor.seek(&state, "ada")?); // DB_SET
//! assert!(cursor.next_of_key(&state)?); // DB_NEXT_DUP
//! assert_eq!(cursor.value(&state)?, Some(&b"42"[..])); // DB_CURRENT
//! assert!(!cursor.next_of_key(&state)?, "ada has no more");
//! assert_eq!(cursor.next_key(&state)?, Some(&b"bob"[..])); // DB_NEXT_NODUP
//! assert!(cursor.seek_pair_or_after(&state, "cyd", "50")?); // DB_GET_BOTH_RANGE
//! assert_eq!(cursor.value(&state)?, Some(&b"99"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! # What is not here
//!
//! Dirty reads; user functions for the hash and for prefixes; writing to a file that Berkeley DB has written;
//! hash tables whose keys have several values, of which `sablecat load` makes B+trees, with a warning.
