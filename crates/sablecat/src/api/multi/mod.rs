//! Several values for a key.

mod cursor;
mod shown;

pub use cursor::MultiCursor;

use std::ops::{Bound, ControlFlow};

use shown::EachPair;

use super::{Database, Env, KeyRange, KeySpan, Kind, Range, Read, Record, Write, label};
use crate::access::Counting;
use crate::error::{Error, Result};
use crate::txn::pairs::{BEYOND, END, bounds_of, bounds_of_one, pair, parts, with_end};
use crate::txn::{Duplicates, Holds};

/// A database in which a key may have several values: what Berkeley DB calls duplicates.
///
/// ```
/// use sablecat::{Duplicates, MultiMap};
///
/// # fn main() -> sablecat::Result<()> {
/// let env = sablecat::Env::in_memory()?;
/// let tags = MultiMap::open(&env, "tags", Duplicates::Sorted)?;
/// env.write(|txn| {
///     for (photo, tag) in [("beach.jpg", "sea"), ("beach.jpg", "2026"), ("cat.jpg", "2026")] {
///         assert!(tags.insert(txn, photo, tag)?);
///     }
///     assert!(!tags.insert(txn, "cat.jpg", "2026")?, "it is there already");
///     Ok(())
/// })?;
/// let values: Vec<_> = tags.values(&env, "beach.jpg")?.collect::<Result<_, _>>()?;
/// assert_eq!(values, [b"2026".to_vec(), b"sea".to_vec()]);
/// assert_eq!(tags.count(&env, "beach.jpg")?, 2);
/// # Ok(())
/// # }
/// ```
///
/// A handle to a [`Database`], each record of which is a key with one of its values. If values are sorted,
/// key and value together are the record's key: a zero byte in a key takes two bytes, two bytes come between
/// key and value, and all together may have up to 64 KiB; more than an eighth of a page costs more (see
/// [`Database`]). If values are in the order of insertion, the record's key has eight bytes more than the
/// key, and the value is the record's value, of any size.
#[derive(Debug)]
pub struct MultiMap<O: Kind = Env> {
    database: Database<O>,
    order: Duplicates,
}

impl<O: Kind> Clone for MultiMap<O> {
    fn clone(&self) -> Self {
        MultiMap { database: self.database.clone(), order: self.order }
    }
}

impl MultiMap {
    /// The database of this name, which is created if there is none. What it holds is recorded with it.
    ///
    /// # Errors
    /// As [`Env::database`]; `Invalid` for one that holds something else, or values in the other order.
    pub fn open(env: &Env, name: &str, order: Duplicates) -> Result<MultiMap> {
        MultiMap::of(env.database_holding(name, Holds::Values(order))?, order)
    }

    /// Adds a value to a key, in a transaction of its own: in its sorted place, if values are sorted, else
    /// after all others. Does nothing if values are sorted and the key has this value already. Costs less
    /// than [`MultiMap::insert`] in a transaction, since it need not find out whether the key has the value.
    ///
    /// # Errors
    /// As [`Database::insert`].
    pub fn insert_one(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        match self.order {
            Duplicates::Sorted => self.database.insert(pair(key, value), ""),
            _ => self.database.env().write(|txn| self.insert(txn, key, value).map(drop)),
        }
    }

    /// Loads keys, each with one of its values, into an empty database, and builds its pages directly: the
    /// fastest way to fill one. They must come in the order in which [`MultiMap::range`] shows them: keys in
    /// ascending order, a key once for each value, and its values in theirs if these are sorted. All or none
    /// are loaded; see [`Database::bulk_load`]. Returns how many values there were.
    ///
    /// ```
    /// # use sablecat::{Duplicates, Env, MultiMap};
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = Env::in_memory()?;
    /// let tags = MultiMap::open(&env, "tags", Duplicates::Inserted)?;
    /// tags.bulk_load([("beach.jpg", "sea"), ("beach.jpg", "2026"), ("cat.jpg", "2026")])?;
    /// assert_eq!(tags.count(&env, "beach.jpg")?, 2);
    /// assert_eq!(tags.get(&env, "beach.jpg")?.as_deref(), Some(&b"sea"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Database::bulk_load`]; a value that a key has already is out of order if values are sorted.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        if self.order == Duplicates::Sorted {
            let records = pairs.into_iter().map(|(key, value)| (pair(key.as_ref(), value.as_ref()), ""));
            return self.database.bulk_load(records);
        }
        let mut before: Option<(Vec<u8>, Vec<u8>)> = None;
        self.database.bulk_load(pairs.into_iter().map(|(key, value)| {
            let key = key.as_ref();
            let label = match &before {
                Some((of, label)) if of == key => {
                    Labels::behind(label).expect("a key has fewer values than numbers")
                }
                _ => Labels::first(),
            };
            let record = pair(key, &label);
            before = Some((key.to_vec(), label));
            (record, value)
        }))
    }
}

impl<O: Kind> MultiMap<O> {
    /// A database that holds only keys with several values, always opened with the same order. A database
    /// that was created for plain records may be used in this way; the database itself does not record that.
    ///
    /// # Errors
    /// `Invalid` for a database that holds something else, one with an order of its own, or a hash table.
    pub fn of(database: Database<O>, order: Duplicates) -> Result<MultiMap<O>> {
        database.require_holds(Holds::Values(order))?;
        database.require_order_of_bytes("keys with several values")?;
        Ok(MultiMap { database, order })
    }

    /// The database that the records are in.
    pub fn database(&self) -> &Database<O> {
        &self.database
    }

    /// The order of a key's values.
    pub fn order(&self) -> Duplicates {
        self.order
    }

    /// The first value of a key.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn get(&self, from: &impl Read<Of = O>, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.values(from, key)?.next().transpose()
    }

    /// Whether a key has a value.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn contains_key(&self, from: &impl Read<Of = O>, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        let mut cursor = self.database.cursor();
        let found = cursor.at_or_after(from, with_end(key, END))?;
        Ok(found.is_some_and(|found| *found < with_end(key, BEYOND)[..]))
    }

    /// Whether a key has this value.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn contains(
        &self,
        from: &impl Read<Of = O>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        self.find(from, key.as_ref(), value.as_ref()).map(|found| found.is_some())
    }

    /// How many values a key has. Counts them.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn count(&self, from: &impl Read<Of = O>, key: impl AsRef<[u8]>) -> Result<u64> {
        from.fold_each(&self.database, bounds_of_one(key.as_ref()), 0, Counting)
    }

    /// The values of a key, in their order, from either end.
    ///
    /// # Errors
    /// As [`Read::range`]. Each value comes as a result, with the errors of [`Read::get`].
    pub fn values<'s, S: Read<Of = O>>(
        &self,
        from: &'s S,
        key: impl AsRef<[u8]>,
    ) -> Result<Values<S::Lasting<'s>>> {
        let key = key.as_ref().to_vec();
        Ok(Values { pairs: self.pairs(from, (Bound::Included(key.clone()), Bound::Included(key)))? })
    }

    /// The values of a key from this one on, or from the next one above it.
    ///
    /// # Errors
    /// As [`MultiMap::values`]; `NotAllowed` where values are not sorted.
    pub fn values_from<'s, S: Read<Of = O>>(
        &self,
        from: &'s S,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Values<S::Lasting<'s>>> {
        self.require_order(Duplicates::Sorted, "asking for values from one on")?;
        let lower = pair(key.as_ref(), value.as_ref());
        let bounds = (Bound::Included(lower), Bound::Excluded(with_end(key.as_ref(), BEYOND)));
        Ok(Values { pairs: Pairs { range: from.range(&self.database, bounds)?, order: self.order } })
    }

    /// The keys of a range, each with each of its values, in order and from either end.
    ///
    /// # Errors
    /// As [`Read::range`]. Each pair comes as a result, with the errors of [`Read::get`].
    pub fn range<'s, S: Read<Of = O>>(
        &self,
        from: &'s S,
        keys: impl KeyRange,
    ) -> Result<Pairs<S::Lasting<'s>>> {
        self.pairs(from, self.database.bounds(&keys)?)
    }

    /// Folds the keys of a range, each with each of its values, in order: like [`Read::fold`], the fastest
    /// way to read many. `each` gets both in place.
    ///
    /// ```
    /// # use std::ops::ControlFlow;
    /// # use sablecat::{Duplicates, Env, MultiMap};
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = Env::in_memory()?;
    /// let tags = MultiMap::open(&env, "tags", Duplicates::Sorted)?;
    /// tags.insert_one("beach.jpg", "sea")?;
    /// tags.insert_one("beach.jpg", "2026")?;
    /// let bytes = tags.fold(&env, .., 0, |sum, _, tag| ControlFlow::Continue(sum + tag.len()))?;
    /// assert_eq!(bytes, 7);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Read::fold`]; `Invalid` for a record that is none of such a database.
    pub fn fold<B>(
        &self,
        from: &impl Read<Of = O>,
        keys: impl KeyRange,
        initial: B,
        each: impl FnMut(B, &[u8], &[u8]) -> ControlFlow<B, B>,
    ) -> Result<B> {
        let bounds = bounds_of(self.database.bounds(&keys)?);
        let mut wrong = None;
        let shown = EachPair::new(self.order, &mut wrong, each);
        let folded = from.fold_each(&self.database, bounds, initial, shown)?;
        wrong.map_or(Ok(folded), Err)
    }

    fn pairs<'s, S: Read<Of = O>>(&self, from: &'s S, keys: KeySpan) -> Result<Pairs<S::Lasting<'s>>> {
        Ok(Pairs { range: from.range(&self.database, bounds_of(keys))?, order: self.order })
    }

    /// The first key above `key`, or the first of all if that is none.
    ///
    /// # Errors
    /// As [`Read::get`]; `Invalid` for a record that is none of such a database.
    pub fn next_key(&self, from: &impl Read<Of = O>, key: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let mut cursor = self.database.cursor();
        let found = cursor.at_or_after(from, key.map_or_else(Vec::new, |key| with_end(key, BEYOND)))?;
        found.map(|found| parts(found).map(|(key, _)| key)).transpose()
    }

    /// The last key below `key`, or the last of all if that is none.
    ///
    /// # Errors
    /// As [`MultiMap::next_key`].
    pub fn prev_key(&self, from: &impl Read<Of = O>, key: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let mut cursor = self.database.cursor();
        // No record ends where a key does: sorted, with an empty value, it is the key's own.
        let found = match key {
            None => cursor.last(from)?,
            Some(key) => cursor.below(from, with_end(key, END))?,
        };
        found.map(|found| parts(found).map(|(key, _)| key)).transpose()
    }

    /// Adds a value to a key: in its sorted place, if values are sorted, else after all others. Returns false
    /// and does nothing if values are sorted and the key has this value already.
    ///
    /// # Errors
    /// As [`Write::insert`].
    pub fn insert(
        &self,
        to: &mut impl Write<Of = O>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        let (key, value) = (key.as_ref(), value.as_ref());
        if self.order == Duplicates::Sorted {
            return to.insert_new(&self.database, pair(key, value), "");
        }
        let label = self.label_behind(to, key)?;
        to.insert_found_absent(&self.database, pair(key, &label), value).map(|()| true)
    }

    /// The label of what comes after all values of a key.
    fn label_behind(&self, state: &(impl Read<Of = O> + ?Sized), key: &[u8]) -> Result<Vec<u8>> {
        let begin = with_end(key, END);
        let mut cursor = self.database.cursor();
        let last = cursor.at_or_before(state, with_end(key, BEYOND))?;
        match last.and_then(|last| last.strip_prefix(&begin[..])) {
            None => Ok(Labels::first()),
            Some(last) => Labels::behind(last).ok_or_else(|| self.not_ours(key)),
        }
    }

    /// A label between two of a key.
    fn label_between(&self, key: &[u8], below: Option<&[u8]>, above: Option<&[u8]>) -> Result<Vec<u8>> {
        label::between(below, above).ok_or_else(|| self.not_ours(key))
    }

    /// Removes all values of a key, and returns how many there were.
    ///
    /// # Errors
    /// As [`Write::remove_range`].
    pub fn remove_all(&self, to: &mut impl Write<Of = O>, key: impl AsRef<[u8]>) -> Result<u64> {
        to.remove_range(&self.database, bounds_of_one(key.as_ref()))
    }

    /// Removes a value of a key, the first equal one; false if the key does not have it.
    ///
    /// # Errors
    /// As [`Write::remove`].
    pub fn remove(
        &self,
        to: &mut impl Write<Of = O>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        match self.find(to, key.as_ref(), value.as_ref())? {
            Some(record) => to.remove(&self.database, record),
            None => Ok(false),
        }
    }

    /// The key of the first record of a key with this value.
    fn find(&self, from: &impl Read<Of = O>, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.order == Duplicates::Sorted {
            let record = pair(key, value);
            return Ok(from.contains_key(&self.database, &record)?.then_some(record));
        }
        from.fold(&self.database, bounds_of_one(key), None, |_, record, found| {
            if found == value {
                ControlFlow::Break(Some(record.to_vec()))
            } else {
                ControlFlow::Continue(None)
            }
        })
    }

    #[cold]
    fn not_ours(&self, key: &[u8]) -> Error {
        Error::invalid(format!(
            "the values of {} in the database {:?} have no labels in the order of insertion, or no room \
             between these: they were written in another order, or in another way",
            key.escape_ascii(),
            self.database.name()
        ))
    }
}

/// What tells the values of a key from each other that are in the order of their insertion: a label each
/// (api/label.rs), the first of which have one number, which is counted up.
struct Labels;

impl Labels {
    /// Below the first number there is room for values that are put before.
    const FIRST: u64 = 1 << 32;
    const BYTES: usize = 8;

    /// Of the first value of a key.
    fn first() -> Vec<u8> {
        Labels::FIRST.to_be_bytes().to_vec()
    }

    /// Of what comes after the last value, which has this one; none if that is no label, or the last of all.
    fn behind(last: &[u8]) -> Option<Vec<u8>> {
        let (number, _) = last.split_first_chunk::<{ Labels::BYTES }>()?;
        Some(u64::from_be_bytes(*number).checked_add(1)?.to_be_bytes().to_vec())
    }
}

/// Keys with each of their values: see [`MultiMap::range`].
#[derive(Debug)]
pub struct Pairs<S: Read> {
    range: Range<S>,
    order: Duplicates,
}

impl<S: Read> Pairs<S> {
    fn pair(&self, record: Result<Record>) -> Result<Record> {
        let (key, value) = record?;
        let (key, rest) = parts(&key)?;
        Ok((key, if self.order == Duplicates::Sorted { rest.to_vec() } else { value }))
    }
}

impl<S: Read> Iterator for Pairs<S> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.range.next()?;
        Some(self.pair(record))
    }
}

impl<S: Read> DoubleEndedIterator for Pairs<S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let record = self.range.next_back()?;
        Some(self.pair(record))
    }
}

/// The values of a key: see [`MultiMap::values`].
#[derive(Debug)]
pub struct Values<S: Read> {
    pairs: Pairs<S>,
}

impl<S: Read> Iterator for Values<S> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.pairs.next()?.map(|(_, value)| value))
    }
}

impl<S: Read> DoubleEndedIterator for Values<S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.pairs.next_back()?.map(|(_, value)| value))
    }
}
