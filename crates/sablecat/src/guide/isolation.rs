//! Isolation: which level for what, what each allows, what runs again.
//!
//! Any number of transactions run at the same time, in any number of threads and processes. No other
//! transaction sees the changes of one before it commits; then all of them see all of its changes. How far
//! transactions are isolated beyond that is the transaction's [`Isolation`](crate::Isolation) level. Readers
//! never wait, and no transaction waits for readers.
//!
//! # The levels
//!
//! | may this happen? | `ReadCommitted` | `Snapshot` | `Serializable` |
//! |---|---|---|---|
//! | reading what is not committed | no | no | no |
//! | reading a record twice and finding another value | yes | no | no |
//! | reading a range twice and finding other records | yes | no | no |
//! | *lost update*: two read a record, both change it, one change is gone | yes | no | no |
//! | *write skew*: two read the same records, each changes another of them, and together they break a rule | yes | yes | no |
//!
//! | use | for |
//! |---|---|
//! | `Serializable`, the default | whatever follows from several records: a sum that must not be exceeded, a name that must be free, a reference that must lead somewhere |
//! | `Snapshot` | work that changes every record it depends on: a counter, an account, a job taken from a queue |
//! | `ReadCommitted` | setting records whatever they were before; a long walk that may see new records as it goes |
//! | [`Env::snapshot`](crate::Env::snapshot) | reading alone: one state, for as long as wanted, never a conflict |
//!
//! The level is that of the environment ([`Builder::isolation`](crate::Builder::isolation)), unless a
//! transaction has its own ([`TxnOptions::isolation`](crate::TxnOptions::isolation)). Transactions of
//! different levels run at the same time; each is isolated as its own level says.
//!
//! A single operation of a [`Database`](crate::Database) is a transaction too. Those that read and write one
//! record, such as [`Database::update`](crate::Database::update),
//! [`Database::insert_new`](crate::Database::insert_new) and [`Entry`](crate::Entry), lose no update,
//! whatever the environment's level is.
//!
//! ```
//! # use sablecat::{ErrorKind, Isolation, TxnOptions};
//! # fn main() -> sablecat::Result<()> {
//! # let env = sablecat::Env::in_memory()?;
//! let stock = env.database("stock")?;
//! let at = |isolation| TxnOptions::new().isolation(isolation);
//!
//! // A lost update: both saw 5.
//! stock.insert("apples", "5")?;
//! let mut one = env.begin_with(at(Isolation::ReadCommitted))?;
//! let mut other = env.begin_with(at(Isolation::ReadCommitted))?;
//! for txn in [&mut one, &mut other] {
//!     assert_eq!(txn.get(&stock, "apples")?.as_deref(), Some(&b"5"[..]));
//!     txn.insert(&stock, "apples", "4")?;
//! }
//! one.commit()?;
//! other.commit()?;
//! assert_eq!(stock.get("apples")?.as_deref(), Some(&b"4"[..]));
//!
//! // At a snapshot the second to commit is refused.
//! let mut one = env.begin_with(at(Isolation::Snapshot))?;
//! let mut other = env.begin_with(at(Isolation::Snapshot))?;
//! for txn in [&mut one, &mut other] {
//!     txn.update(&stock, "apples", |_| Some(b"3".to_vec()))?;
//! }
//! one.commit()?;
//! assert_eq!(other.commit().unwrap_err().kind(), ErrorKind::Conflict);
//!
//! // A write skew: each sees that the other one is there, and goes.
//! for (isolation, both_may) in [(Isolation::Snapshot, true), (Isolation::Serializable, false)] {
//!     let on_call = env.database("on call")?;
//!     on_call.insert_batch([("ann", ""), ("bob", "")])?;
//!     let (mut one, mut other) = (env.begin_with(at(isolation))?, env.begin_with(at(isolation))?);
//!     for (txn, who) in [(&mut one, "ann"), (&mut other, "bob")] {
//!         assert_eq!(txn.len(&on_call)?, 2);
//!         txn.remove(&on_call, who)?;
//!     }
//!     one.commit()?;
//!     assert_eq!(other.commit().is_ok(), both_may);
//!     assert_eq!(on_call.is_empty()?, both_may);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What is a conflict
//!
//! At `Snapshot`: another transaction has changed a record that this one changes, since this one began; or a
//! range that it removes has other records than it had. At `Serializable`, in addition: anything that it has
//! read is different when it commits: a record, its absence, a range with all that was or was not in it. That
//! is compared record by record: other records in the same page do not matter. At any level: of two
//! transactions that create, rename or remove a database of one name, the second to commit gets a conflict.
//!
//! So read only what you need. A serialisable transaction that has read a whole database conflicts with every
//! change of any record in it.
//!
//! # What runs again
//!
//! [`Env::write`](crate::Env::write) runs its closure again after a conflict: on a new snapshot, with
//! everything that the failed run did undone. After a few failed runs it gets the environment to itself for
//! one run, so each transaction gets through. It gives up after a minute
//! ([`TxnOptions::give_up_after`](crate::TxnOptions::give_up_after)).
//!
//! - Do in the closure only what may be done more than once. Send an e-mail, for example, after `write` has
//!   returned.
//! - Use the transaction that the closure is given. A `db.insert` in the closure would be another
//!   transaction, and is refused ([`NotAllowed`](crate::ErrorKind::NotAllowed)).
//! - An error of the program's own ends it: see [`Env::try_write`](crate::Env::try_write). Nothing of that
//!   run is kept.
//!
//! Transactions begun by hand ([`Env::begin`](crate::Env::begin)) are not run again: after a failed
//! [`Txn::commit`](crate::Txn::commit), ask [`Error::is_retryable`](crate::Error::is_retryable).
//!
//! ```
//! # fn main() -> sablecat::Result<()> {
//! # let env = sablecat::Env::in_memory()?;
//! let counter = env.database("counter")?;
//! counter.insert("n", 0u64.to_be_bytes())?;
//! std::thread::scope(|threads| {
//!     for _ in 0..4 {
//!         threads.spawn(|| {
//!             for _ in 0..100 {
//!                 env.write(|txn| {
//!                     let n = txn.get(&counter, "n")?.expect("it is there");
//!                     let n = u64::from_be_bytes(n.try_into().expect("eight bytes"));
//!                     txn.insert(&counter, "n", (n + 1).to_be_bytes())
//!                 })
//!                 .expect("everyone gets through");
//!             }
//!         });
//!     }
//! });
//! assert_eq!(counter.get("n")?.as_deref(), Some(&400u64.to_be_bytes()[..]));
//! # Ok(())
//! # }
//! ```
//!
//! Conflicts are decided at the commit. Before that a transaction can check whether it has a conflict already
//! ([`Txn::check_unchanged`](crate::Txn::check_unchanged)), and skip the rest of its work.
//!
//! # For update
//!
//! A transaction that is about to change a record which others want to change too can lock it first:
//! [`Txn::get_for_update`](crate::Txn::get_for_update). Other transactions that lock it wait, instead of
//! doing work that would be undone. The lock ends with the transaction, also if its process is killed.
//! Waiting ends with [`Timeout`](crate::ErrorKind::Timeout) after ten seconds
//! ([`Builder::lock_timeout`](crate::Builder::lock_timeout)), or with
//! [`Deadlock`](crate::ErrorKind::Deadlock) if transactions wait for each other in a cycle; `Env::write`
//! handles both.
//!
//! A lock does not block a transaction that does not ask for it. Locks save work; conflicts are decided when
//! a transaction commits.
//!
//! ```
//! # use sablecat::ErrorKind;
//! # fn main() -> sablecat::Result<()> {
//! # let env = sablecat::Env::in_memory()?;
//! let stock = env.database("stock")?;
//! stock.insert("apples", "5")?;
//! let mut txn = env.begin()?;
//! txn.get_for_update(&stock, "apples")?;
//! assert!(!env.begin()?.try_lock(&stock, "apples")?, "somebody has it");
//!
//! stock.insert("apples", "0")?; // asks for no lock
//! txn.insert(&stock, "apples", "4")?;
//! assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Conflict);
//! # Ok(())
//! # }
//! ```
//!
//! # Skipping what is locked
//!
//! Several workers that take jobs from one queue should not wait for each other: a [`Queue`](crate::Queue) is
//! made for them, at any isolation. Jobs in another order can be records of any database:
//! [`Txn::pop_first_unlocked`](crate::Txn::pop_first_unlocked) takes the first record that no transaction has
//! locked; [`Txn::try_lock`](crate::Txn::try_lock) tries one lock, and never waits. Use them at `Snapshot`: a
//! serialisable transaction has read the records that it skipped, and conflicts with their removal. See
//! `examples/job_queue.rs`.
//!
//! # Long transactions
//!
//! A snapshot keeps the old versions of all pages that others change. When these fill the cache, the oldest
//! snapshot is given up: [`SnapshotTooOld`](crate::ErrorKind::SnapshotTooOld). Begin a new one, read in
//! smaller parts, or enlarge the cache. A transaction may change more than memory holds, if the environment
//! is on disk; not in memory alone.
