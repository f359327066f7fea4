//! Reading, alike in whatever has a state to read: transactions, snapshots, environments, Data Stores.

use std::ops::{Bound, ControlFlow};

use super::database::Kind;
use super::{Database, KeyRange, Range, RangeEstimate};
use crate::access::{Counting, Each, Scan};
use crate::env::EnvTxn;
use crate::error::{Error, ErrorKind, Result};
use crate::txn::TreeRef;

/// A record: key and value.
pub type Record = (Vec<u8>, Vec<u8>);

/// Anything that records can be read from: a [`Txn`](crate::Txn) or a [`ReadTxn`](crate::ReadTxn), which see
/// one state; an [`Env`](crate::Env), of which each call sees the newest state; a
/// [`DataStore`](crate::DataStore). The trait is for code that reads from any of them. Each of them also has
/// these methods as its own; those of an environment are methods of its databases.
///
/// ```
/// use sablecat::{Database, Env, Read, Result};
///
/// fn total(from: &impl Read<Of = Env>, accounts: &Database) -> Result<u64> {
///     let worth = |value: Vec<u8>| u64::from_be_bytes(value.try_into().expect("eight bytes"));
///     from.range(accounts, ..)?.map(|record| Ok(worth(record?.1))).sum()
/// }
///
/// # fn main() -> Result<()> {
/// # let env = Env::in_memory()?;
/// let accounts = env.database("accounts")?;
/// accounts.insert("ada", 70u64.to_be_bytes())?;
/// let before = env.snapshot()?;
/// env.write(|txn| {
///     txn.insert(&accounts, "grace", 30u64.to_be_bytes())?;
///     assert_eq!(total(txn, &accounts)?, 100);
///     assert_eq!((total(&before, &accounts)?, total(&env, &accounts)?), (70, 70));
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
///
/// Implemented here, and by no other crate.
pub trait Read: sealed::State {
    /// The kind of its databases.
    type Of: Kind;

    /// What its ranges hold, to go on reading the same state.
    type Lasting<'a>: Read<Of = Self::Of>
    where
        Self: 'a;

    #[doc(hidden)]
    fn lasting(&self) -> Result<Self::Lasting<'_>>;

    /// Opens a database if there is one of that name.
    ///
    /// # Errors
    /// `Invalid` for a name that cannot be, or for a database with a comparator that was not registered; as
    /// [`Read::get`].
    fn existing_database(&self, name: &str) -> Result<Option<Database<Self::Of>>>;

    /// The names of all databases, in order.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn databases(&self) -> Result<Vec<String>>;

    /// The value of a key.
    ///
    /// # Errors
    /// `Corruption` and `Io` from reading pages; `SnapshotTooOld`; `Invalid` for a database of another
    /// environment; `NotFound` for one that was removed, or that the state does not have; `NotAllowed` for
    /// one that another transaction is only just creating.
    #[inline]
    fn get(&self, db: &Database<Self::Of>, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        at_one(self, db, |txn, tree| txn.records.get_owned(tree, key.as_ref()))
    }

    /// Calls `look` with the value of a key, in place: nothing is copied. `look` should be brief; while it
    /// runs, evicted memory is not reused.
    ///
    /// # Errors
    /// As [`Read::get`].
    #[inline]
    fn get_with<R>(
        &self,
        db: &Database<Self::Of>,
        key: impl AsRef<[u8]>,
        look: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        within(self, db, |txn, tree| txn.records.get(tree, key.as_ref(), look))
    }

    /// Whether there is a record with this key.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn contains_key(&self, db: &Database<Self::Of>, key: impl AsRef<[u8]>) -> Result<bool> {
        self.value_len(db, key).map(|len| len.is_some())
    }

    /// How many bytes the value of a key has, without reading it; none if there is no record.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn value_len(&self, db: &Database<Self::Of>, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        at_one(self, db, |txn, tree| txn.records.value_len(tree, key.as_ref()))
    }

    /// Reads part of a value, from `offset` on, as much as `into` has room for. None if there is no such
    /// record, else how many bytes were read; 0 at the value's end. Of a long value only the pages concerned
    /// are read.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn read_at(
        &self,
        db: &Database<Self::Of>,
        key: impl AsRef<[u8]>,
        offset: u64,
        into: &mut [u8],
    ) -> Result<Option<usize>> {
        at_one(self, db, |txn, tree| txn.records.read_at(tree, key.as_ref(), offset, into))
    }

    /// The record with the least key.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn first(&self, db: &Database<Self::Of>) -> Result<Option<Record>> {
        edge(self, db, (Bound::Unbounded, Bound::Unbounded), true)
    }

    /// The record with the greatest key.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn last(&self, db: &Database<Self::Of>) -> Result<Option<Record>> {
        edge(self, db, (Bound::Unbounded, Bound::Unbounded), false)
    }

    /// The record with this key or, if there is none, with the next one above it.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn at_or_after(&self, db: &Database<Self::Of>, key: impl AsRef<[u8]>) -> Result<Option<Record>> {
        edge(self, db, (Bound::Included(key.as_ref().to_vec()), Bound::Unbounded), true)
    }

    /// The record with this key or, if there is none, with the next one below it.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn at_or_before(&self, db: &Database<Self::Of>, key: impl AsRef<[u8]>) -> Result<Option<Record>> {
        edge(self, db, (Bound::Unbounded, Bound::Included(key.as_ref().to_vec())), false)
    }

    /// The records of a range of keys, in order, from either end. Any number of ranges may be in use at once,
    /// in turn. To change records while walking over them, use a [`Cursor`](crate::Cursor).
    ///
    /// # Errors
    /// `Invalid` for a [`Prefix`](crate::Prefix) in a database that is ordered by a comparator; as
    /// [`Read::get`]. Each record comes as a result, with the errors of [`Read::get`].
    fn range(&self, db: &Database<Self::Of>, keys: impl KeyRange) -> Result<Range<Self::Lasting<'_>>> {
        let bounds = db.bounds(&keys)?;
        let lasting = self.lasting()?;
        within(&lasting, db, |_, _| Ok(()))?;
        Ok(Range::new(lasting, db.clone(), bounds))
    }

    /// Calls `each` for the records of a range of keys, in order and in place: the fastest way to read many.
    /// All records of a leaf are shown without pause, so `each` should be brief; it may end the visit.
    ///
    /// # Errors
    /// As [`Read::range`].
    fn visit(
        &self,
        db: &Database<Self::Of>,
        keys: impl KeyRange,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.fold(db, keys, (), |(), key, value| each(key, value))
    }

    /// As [`Read::visit`], from the last record to the first. Somewhat slower.
    ///
    /// # Errors
    /// As [`Read::range`].
    fn visit_back(
        &self,
        db: &Database<Self::Of>,
        keys: impl KeyRange,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let bounds = db.bounds(&keys)?;
        let each = |(), key: &[u8], value: &[u8]| each(key, value);
        within(self, db, |txn, tree| fold(txn, tree, bounds, false, (), each))
    }

    /// Folds the records of a range of keys into one value, in order and in place, as [`Read::visit`] shows
    /// them. `each` is called with the value so far, `initial` at first, and a record; `Break` ends the fold.
    ///
    /// # Errors
    /// As [`Read::range`].
    fn fold<B>(
        &self,
        db: &Database<Self::Of>,
        keys: impl KeyRange,
        initial: B,
        each: impl FnMut(B, &[u8], &[u8]) -> ControlFlow<B, B>,
    ) -> Result<B> {
        self.fold_each(db, keys, initial, each)
    }

    #[doc(hidden)]
    fn fold_each<B>(
        &self,
        db: &Database<Self::Of>,
        keys: impl KeyRange,
        initial: B,
        each: impl Each<B>,
    ) -> Result<B> {
        let bounds = db.bounds(&keys)?;
        within(self, db, |txn, tree| fold(txn, tree, bounds, true, initial, each))
    }

    /// The number of records. Counts them, unless the database keeps count
    /// ([`Method::Counted`](crate::Method::Counted)).
    ///
    /// # Errors
    /// As [`Read::get`].
    fn len(&self, db: &Database<Self::Of>) -> Result<u64> {
        if db.method().counts() {
            return self.count(db, ..);
        }
        self.fold_each(db, .., 0, Counting)
    }

    /// How many records a range of keys has. Reads each page that has some of them; in a database that counts
    /// its records ([`Method::Counted`](crate::Method::Counted)), one page a level. In either case it also
    /// goes through everything that the transaction itself has pending in that range.
    ///
    /// # Errors
    /// As [`Read::range`].
    fn count(&self, db: &Database<Self::Of>, keys: impl KeyRange) -> Result<u64> {
        let bounds = db.bounds(&keys)?;
        at_one(self, db, |txn, tree| txn.records.count(tree, &bounds))
    }

    /// How many records a range of keys has: an estimate, or exact if they are in up to some dozens of pages.
    /// It is estimated from 64 paths to records of the range, whatever its size, as
    /// [`Database::stats`](crate::Database::stats) does for all records, and is as rough. For the same state
    /// the result is the same. It is meant for a program that chooses between two ways to an answer, and
    /// needs to know which of them has less to read.
    ///
    /// A transaction counts what it has pending in the range, exactly: it goes through that, and looks for
    /// each of its keys. Where it has removed ranges, what is left between any two of them is estimated by
    /// itself.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let orders = env.database("orders")?;
    /// orders.insert_batch((0..30u8).map(|n| ([n], "")))?;
    /// env.write(|txn| {
    ///     txn.insert(&orders, [15, 1], "")?;
    ///     txn.remove_range(&orders, [20]..)?;
    ///     let estimate = txn.estimate(&orders, [10]..)?;
    ///     assert_eq!((estimate.records, estimate.is_exact), (11, true));
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// In a hash table a range is one of hashes, as [`Method::Hash`](crate::Method::Hash) says, and is
    /// assumed to be as dense as the whole table. If a bound is a long key, all or none of the long keys with
    /// the same beginning may be counted. In a serialisable transaction the result does not count as read:
    /// others may add records to the range, and remove some.
    ///
    /// # Errors
    /// As [`Read::range`].
    fn estimate(&self, db: &Database<Self::Of>, keys: impl KeyRange) -> Result<RangeEstimate> {
        let bounds = db.bounds(&keys)?;
        at_one(self, db, |txn, tree| txn.records.estimate(tree, &bounds)).map(RangeEstimate::from)
    }

    /// How many records have keys below this one, whether or not this key has a record: its number, if the
    /// first record has the number 0. Reads one page a level, and goes through everything that the
    /// transaction itself has pending below the key.
    ///
    /// ```
    /// use sablecat::{Env, Method};
    ///
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = Env::in_memory()?;
    /// let scores = env.database_as("scores", Method::Counted)?;
    /// scores.insert_batch([("0310", "ada"), ("0450", "grace"), ("0890", "joan")])?;
    /// assert_eq!((scores.rank("0450")?, scores.rank("0500")?, scores.len()?), (1, 2, 3));
    /// assert_eq!(scores.nth(2)?, Some((b"0890".to_vec(), b"joan".to_vec())));
    /// assert_eq!(scores.nth(3)?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// In a serialisable transaction the result counts as read: a transaction that adds a record below the
    /// key, or removes one, and commits first, conflicts with it.
    ///
    /// # Errors
    /// `Invalid` for a database that does not count its records: see
    /// [`Method::Counted`](crate::Method::Counted); as [`Read::get`].
    fn rank(&self, db: &Database<Self::Of>, key: impl AsRef<[u8]>) -> Result<u64> {
        db.require_counts("asking for the number of a key")?;
        self.count(db, (Bound::Unbounded, Bound::Excluded(key.as_ref())))
    }

    /// The record with a number: the one with `n` records before it, in the order of keys. None if there are
    /// no more than `n` records. Costs what [`Read::rank`] does.
    ///
    /// # Errors
    /// As [`Read::rank`].
    fn nth(&self, db: &Database<Self::Of>, n: u64) -> Result<Option<Record>> {
        db.require_counts("asking for a record by its number")?;
        at_one(self, db, |txn, tree| txn.records.nth(tree, n))
    }

    /// Whether there are no records.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn is_empty(&self, db: &Database<Self::Of>) -> Result<bool> {
        self.first(db).map(|first| first.is_none())
    }
}

/// Looks at a database in a state.
#[inline]
pub(super) fn within<S: Read + ?Sized, T>(
    state: &S,
    db: &Database<S::Of>,
    look: impl FnOnce(&EnvTxn<'_>, &TreeRef) -> Result<T>,
) -> Result<T> {
    state.with(|Seen(txn)| {
        let tree = txn.tree(db.named_in(txn.databases())?)?;
        look(txn, tree)
    })
}

/// The same for a look of which nobody sees anything before it has ended: if the state was given up
/// meanwhile, and any other does as well, it is looked at that.
#[inline]
fn at_one<S: Read + ?Sized, T>(
    state: &S,
    db: &Database<S::Of>,
    mut look: impl FnMut(&EnvTxn<'_>, &TreeRef) -> Result<T>,
) -> Result<T> {
    loop {
        match within(state, db, &mut look) {
            Err(error) if S::HAS_MANY && error.kind() == ErrorKind::SnapshotTooOld => {}
            seen => return seen,
        }
    }
}

pub(super) mod sealed {
    use std::fmt::{self, Debug};

    use super::{EnvTxn, Result};

    /// A state, as the transaction that sees it.
    pub struct Seen<'t>(pub(in crate::api) &'t EnvTxn<'t>);

    impl Debug for Seen<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt(f)
        }
    }

    /// What has a state.
    pub trait State {
        /// Each look may be at another.
        const HAS_MANY: bool = false;

        /// Looks at it.
        fn with<T>(&self, look: impl FnOnce(Seen<'_>) -> Result<T>) -> Result<T>;
    }
}

use sealed::Seen;

impl<S: sealed::State> sealed::State for &S {
    const HAS_MANY: bool = S::HAS_MANY;

    #[inline]
    fn with<T>(&self, look: impl FnOnce(Seen<'_>) -> Result<T>) -> Result<T> {
        (**self).with(look)
    }
}

impl<S: Read> Read for &S {
    type Of = S::Of;
    type Lasting<'a>
        = S::Lasting<'a>
    where
        Self: 'a;

    fn lasting(&self) -> Result<S::Lasting<'_>> {
        (**self).lasting()
    }

    fn existing_database(&self, name: &str) -> Result<Option<Database<S::Of>>> {
        (**self).existing_database(name)
    }

    fn databases(&self) -> Result<Vec<String>> {
        (**self).databases()
    }
}

/// The first record between two bounds from one end.
fn edge<S: Read + ?Sized>(
    state: &S,
    db: &Database<S::Of>,
    (lower, upper): super::KeySpan,
    forward: bool,
) -> Result<Option<Record>> {
    at_one(state, db, |txn, tree| {
        txn.records.next(tree, &mut Scan::new(lower.clone(), upper.clone()), forward)
    })
}

#[inline]
fn fold<B>(
    txn: &EnvTxn<'_>,
    tree: &TreeRef,
    (lower, upper): super::KeySpan,
    forward: bool,
    initial: B,
    mut each: impl Each<B>,
) -> Result<B> {
    let slices = (lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice));
    if txn.records.sees_committed(tree, slices) {
        return txn.records.fold_committed(tree, (lower, upper), forward, initial, each);
    }
    let mut scan = Scan::new(lower, upper);
    let mut sum = initial;
    while let Some((key, value)) = txn.records.next(tree, &mut scan, forward)? {
        match each.one(sum, &key, &value) {
            ControlFlow::Continue(after) => sum = after,
            ControlFlow::Break(last) => return Ok(last),
        }
    }
    Ok(sum)
}

/// The methods of [`Read`] as a type's own.
macro_rules! reading {
    ($of:ty) => {
        /// The value of a key.
        ///
        /// # Errors
        /// As [`Read::get`](crate::Read::get).
        #[inline]
        pub fn get(&self, db: &Database<$of>, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
            crate::api::Read::get(self, db, key)
        }

        /// Calls `look` with the value of a key, in place: nothing is copied. `look` should be brief; while
        /// it runs, evicted memory is not reused.
        ///
        /// # Errors
        /// As [`Read::get`](crate::Read::get).
        #[inline]
        pub fn get_with<R>(
            &self,
            db: &Database<$of>,
            key: impl AsRef<[u8]>,
            look: impl FnOnce(Option<&[u8]>) -> R,
        ) -> Result<R> {
            crate::api::Read::get_with(self, db, key, look)
        }

        /// Whether there is a record with this key.
        ///
        /// # Errors
        /// As [`Read::get`](crate::Read::get).
        pub fn contains_key(&self, db: &Database<$of>, key: impl AsRef<[u8]>) -> Result<bool> {
            crate::api::Read::contains_key(self, db, key)
        }

        /// How many bytes the value of a key has, without reading it; none if there is no record.
        ///
        /// # Errors
        /// As [`Read::get`](crate::Read::get).
        pub fn value_len(&self, db: &Database<$of>, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
            crate::api::Read::value_len(self, db, key)
        }

        /// Reads part of a value: see [`Read::read_at`](crate::Read::read_at).
        ///
        /// # Errors
        /// As [`Read::get`](crate::Read::get).
        pub fn read_at(
            &self,
            db: &Database<$of>,
            key: impl AsRef<[u8]>,
            offset: u64,
            into: &mut [u8],
        ) -> Result<Option<usize>> {
            crate::api::Read::read_at(self, db, key, offset, into)
        }

        /// The record with the least key.
        ///
        /// # Errors
        /// As [`Read::get`](crate::Read::get).
        pub fn first(&self, db: &Database<$of>) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
            crate::api::Read::first(self, db)
        }

        /// The record with the greatest key.
        ///
        /// # Errors
        /// As [`Read::get`](crate::Read::get).
        pub fn last(&self, db: &Database<$of>) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
            crate::api::Read::last(self, db)
        }

        /// The record with this key or, if there is none, with the next one above it.
        ///
        /// # Errors
        /// As [`Read::get`](crate::Read::get).
        pub fn at_or_after(
            &self,
            db: &Database<$of>,
            key: impl AsRef<[u8]>,
        ) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
            crate::api::Read::at_or_after(self, db, key)
        }

        /// The record with this key or, if there is none, with the next one below it.
        ///
        /// # Errors
        /// As [`Read::get`](crate::Read::get).
        pub fn at_or_before(
            &self,
            db: &Database<$of>,
            key: impl AsRef<[u8]>,
        ) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
            crate::api::Read::at_or_before(self, db, key)
        }

        /// Calls `each` for the records of a range of keys, in order and in place: see
        /// [`Read::visit`](crate::Read::visit).
        ///
        /// # Errors
        /// As [`Read::range`](crate::Read::range).
        pub fn visit(
            &self,
            db: &Database<$of>,
            keys: impl crate::KeyRange,
            each: impl FnMut(&[u8], &[u8]) -> std::ops::ControlFlow<()>,
        ) -> Result<()> {
            crate::api::Read::visit(self, db, keys, each)
        }

        /// Calls `each` for the records of a range of keys, from the last to the first and in place: see
        /// [`Read::visit_back`](crate::Read::visit_back).
        ///
        /// # Errors
        /// As [`Read::range`](crate::Read::range).
        pub fn visit_back(
            &self,
            db: &Database<$of>,
            keys: impl crate::KeyRange,
            each: impl FnMut(&[u8], &[u8]) -> std::ops::ControlFlow<()>,
        ) -> Result<()> {
            crate::api::Read::visit_back(self, db, keys, each)
        }

        /// Folds the records of a range of keys into one value, in order and in place: see
        /// [`Read::fold`](crate::Read::fold).
        ///
        /// # Errors
        /// As [`Read::range`](crate::Read::range).
        pub fn fold<B>(
            &self,
            db: &Database<$of>,
            keys: impl crate::KeyRange,
            initial: B,
            each: impl FnMut(B, &[u8], &[u8]) -> std::ops::ControlFlow<B, B>,
        ) -> Result<B> {
            crate::api::Read::fold(self, db, keys, initial, each)
        }

        /// How many records a range of keys has: see [`Read::count`](crate::Read::count).
        ///
        /// # Errors
        /// As [`Read::range`](crate::Read::range).
        pub fn count(&self, db: &Database<$of>, keys: impl crate::KeyRange) -> Result<u64> {
            crate::api::Read::count(self, db, keys)
        }

        /// How many records a range of keys has, about: see [`Read::estimate`](crate::Read::estimate).
        ///
        /// # Errors
        /// As [`Read::range`](crate::Read::range).
        pub fn estimate(
            &self,
            db: &Database<$of>,
            keys: impl crate::KeyRange,
        ) -> Result<crate::RangeEstimate> {
            crate::api::Read::estimate(self, db, keys)
        }

        /// How many records have keys below this one: see [`Read::rank`](crate::Read::rank).
        ///
        /// # Errors
        /// As [`Read::rank`](crate::Read::rank).
        pub fn rank(&self, db: &Database<$of>, key: impl AsRef<[u8]>) -> Result<u64> {
            crate::api::Read::rank(self, db, key)
        }

        /// The record with `n` records before it: see [`Read::nth`](crate::Read::nth).
        ///
        /// # Errors
        /// As [`Read::rank`](crate::Read::rank).
        pub fn nth(&self, db: &Database<$of>, n: u64) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
            crate::api::Read::nth(self, db, n)
        }

        /// How many records there are: see [`Read::len`](crate::Read::len).
        ///
        /// # Errors
        /// As [`Read::get`](crate::Read::get).
        pub fn len(&self, db: &Database<$of>) -> Result<u64> {
            crate::api::Read::len(self, db)
        }

        /// Whether there are no records.
        ///
        /// # Errors
        /// As [`Read::get`](crate::Read::get).
        pub fn is_empty(&self, db: &Database<$of>) -> Result<bool> {
            crate::api::Read::is_empty(self, db)
        }
    };
}

pub(super) use reading;

/// The error of using a database with another environment than its own.
#[cold]
pub(super) fn foreign(name: &str) -> Error {
    Error::invalid(format!(
        "the database {name:?} belongs to another environment than the one it is used with; open a database \
         of that environment"
    ))
}
