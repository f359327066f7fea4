//! Databases whose keys and values have types.
//!
//! ```
//! use sablecat::typed::Typed;
//!
//! # fn main() -> sablecat::Result<()> {
//! let env = sablecat::Env::in_memory()?;
//! // By customer and day: what was paid.
//! let paid: Typed<(String, u32), u64> = Typed::open(&env, "paid")?;
//! env.write(|txn| {
//!     paid.insert(txn, &("ada".to_owned(), 20), &700)?;
//!     paid.insert(txn, &("ada".to_owned(), 3), &250)?;
//!     paid.insert(txn, &("grace".to_owned(), 3), &100)?;
//!     paid.update(txn, &("ada".to_owned(), 3), |before| before.map(|cents| cents + 50))
//! })?;
//! let of_ada = paid.beginning_with(&env, &("ada",))?;
//! let of_ada = of_ada.map(|record| record.map(|((_, day), cents)| (day, cents)));
//! let of_ada: Vec<(u32, u64)> = of_ada.collect::<Result<_, _>>()?;
//! assert_eq!(of_ada, [(3, 300), (20, 700)]);
//! # Ok(())
//! # }
//! ```
//!
//! Keys are the bytes of [tuples](crate::tuple), so that they sort as their values do, a value alone being a
//! tuple of one. Each call is given what to read from or write to: an environment's transaction or snapshot,
//! the environment itself, a [`DataStore`](crate::DataStore). A typed database is a handle to a [`Database`],
//! which programs can also read without types. Nothing is stored about types; a record of other types is an
//! error, `Invalid`, when it is read.

mod key;
mod subscript;
mod value;

pub use key::{Key, KeyBytes};
#[cfg(feature = "bytemuck")]
pub use value::Pod;
#[cfg(feature = "serde")]
pub use value::Postcard;
pub use value::{Value, ValueBytes};

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use crate::error::Result;
use crate::tuple::{self, PackElements};
use crate::{Database, Env, Holds, Kind, Range, Read, Record, Write};

/// A database whose keys are `K`s and whose values are `V`s. A handle; clones name the same database.
pub struct Typed<K, V, O: Kind = Env> {
    database: Database<O>,
    types: PhantomData<fn(K) -> V>,
}

impl<K: Key, V: Value> Typed<K, V> {
    /// The database of this name, which is created if there is none.
    ///
    /// # Errors
    /// As [`Env::database`].
    pub fn open(env: &Env, name: &str) -> Result<Typed<K, V>> {
        Typed::of(env.database(name)?)
    }
}

impl<K: Key, V: Value, O: Kind> Typed<K, V, O> {
    /// A database with records of these types.
    ///
    /// # Errors
    /// `Invalid` for a database that holds something else than plain records, and for one with an order of
    /// its own, or a hash table: it would not be that of the keys.
    pub fn of(database: Database<O>) -> Result<Typed<K, V, O>> {
        database.require_holds(Holds::Records)?;
        database.require_order_of_bytes("keys with a type")?;
        Ok(Typed { database, types: PhantomData })
    }

    /// The database, of bytes.
    pub fn database(&self) -> &Database<O> {
        &self.database
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Read::get`]; `Invalid` if the value has another type.
    pub fn get<Q: KeyBytes + ?Sized>(&self, from: &impl Read<Of = O>, key: &Q) -> Result<Option<V>>
    where
        K: Borrow<Q>,
    {
        from.get_with(&self.database, key.key_bytes(), |value| value.map(V::from_value_bytes))?.transpose()
    }

    /// Whether there is a record with this key.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn contains_key<Q: KeyBytes + ?Sized>(&self, from: &impl Read<Of = O>, key: &Q) -> Result<bool>
    where
        K: Borrow<Q>,
    {
        from.contains_key(&self.database, key.key_bytes())
    }

    /// The record with the least key.
    ///
    /// # Errors
    /// As [`Typed::get`]; `Invalid` if its key has another type.
    pub fn first(&self, from: &impl Read<Of = O>) -> Result<Option<(K, V)>> {
        from.first(&self.database)?.map(typed).transpose()
    }

    /// The record with the greatest key.
    ///
    /// # Errors
    /// As [`Typed::first`].
    pub fn last(&self, from: &impl Read<Of = O>) -> Result<Option<(K, V)>> {
        from.last(&self.database)?.map(typed).transpose()
    }

    /// The records of some keys, in order, from either end.
    ///
    /// # Errors
    /// As [`Read::range`]. Each record comes as a result, with the errors of [`Typed::first`].
    pub fn range<'s, Q: KeyBytes + ?Sized, S: Read<Of = O>>(
        &self,
        from: &'s S,
        keys: impl RangeBounds<Q>,
    ) -> Result<Records<K, V, S::Lasting<'s>>>
    where
        K: Borrow<Q>,
    {
        self.records(from, bounds(&keys))
    }

    /// All records, in order, from either end.
    ///
    /// # Errors
    /// As [`Typed::range`].
    pub fn iter<'s, S: Read<Of = O>>(&self, from: &'s S) -> Result<Records<K, V, S::Lasting<'s>>> {
        self.records(from, (Bound::Unbounded, Bound::Unbounded))
    }

    /// The records whose keys, which are tuples, begin with these elements.
    ///
    /// # Errors
    /// As [`Typed::range`].
    pub fn beginning_with<'s, S: Read<Of = O>>(
        &self,
        from: &'s S,
        elements: &impl PackElements,
    ) -> Result<Records<K, V, S::Lasting<'s>>> {
        self.records(from, tuple::beginning_with(elements))
    }

    fn records<'s, S: Read<Of = O>>(
        &self,
        from: &'s S,
        bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    ) -> Result<Records<K, V, S::Lasting<'s>>> {
        Ok(Records { range: from.range(&self.database, bounds)?, types: PhantomData })
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// As [`Write::insert`].
    pub fn insert<Q: KeyBytes + ?Sized, W: ValueBytes + ?Sized>(
        &self,
        to: &mut impl Write<Of = O>,
        key: &Q,
        value: &W,
    ) -> Result<()>
    where
        K: Borrow<Q>,
        V: Borrow<W>,
    {
        to.insert(&self.database, key.key_bytes(), value.value_bytes()).map(drop)
    }

    /// Sets the value of a key that has none; false, and nothing is done, if it has one.
    ///
    /// # Errors
    /// As [`Write::insert_new`].
    pub fn insert_new<Q: KeyBytes + ?Sized, W: ValueBytes + ?Sized>(
        &self,
        to: &mut impl Write<Of = O>,
        key: &Q,
        value: &W,
    ) -> Result<bool>
    where
        K: Borrow<Q>,
        V: Borrow<W>,
    {
        to.insert_new(&self.database, key.key_bytes(), value.value_bytes())
    }

    /// Removes a record, and returns its value; none if there was none.
    ///
    /// # Errors
    /// As [`Write::take`]; `Invalid` if the value had another type: the record is removed.
    pub fn take<Q: KeyBytes + ?Sized>(&self, to: &mut impl Write<Of = O>, key: &Q) -> Result<Option<V>>
    where
        K: Borrow<Q>,
    {
        to.take(&self.database, key.key_bytes())?.map(|value| V::from_value_bytes(&value)).transpose()
    }

    /// Removes a record; false if there was none.
    ///
    /// # Errors
    /// As [`Write::remove`].
    pub fn remove<Q: KeyBytes + ?Sized>(&self, to: &mut impl Write<Of = O>, key: &Q) -> Result<bool>
    where
        K: Borrow<Q>,
    {
        to.remove(&self.database, key.key_bytes())
    }

    /// Removes the records of a range of keys, and returns how many there were.
    ///
    /// # Errors
    /// As [`Write::remove_range`].
    pub fn remove_range<Q: KeyBytes + ?Sized>(
        &self,
        to: &mut impl Write<Of = O>,
        keys: impl RangeBounds<Q>,
    ) -> Result<u64>
    where
        K: Borrow<Q>,
    {
        to.remove_range(&self.database, bounds(&keys))
    }

    /// Sets the value of a key to what `change` returns for its present value, or for none if there is no
    /// record; if `change` returns none, the record is removed. Returns the new value.
    ///
    /// # Errors
    /// As [`Typed::get`] and [`Write::insert`].
    pub fn update<Q: KeyBytes + ?Sized>(
        &self,
        to: &mut impl Write<Of = O>,
        key: &Q,
        change: impl FnOnce(Option<V>) -> Option<V>,
    ) -> Result<Option<V>>
    where
        K: Borrow<Q>,
    {
        let after = change(self.get(to, key)?);
        match &after {
            Some(value) => to.insert(&self.database, key.key_bytes(), value.value_bytes()).map(drop)?,
            None => drop(to.remove(&self.database, key.key_bytes())?),
        }
        Ok(after)
    }
}

/// The bounds of keys, as bytes.
fn bounds<Q: KeyBytes + ?Sized>(keys: &impl RangeBounds<Q>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (keys.start_bound().map(Q::key_bytes), keys.end_bound().map(Q::key_bytes))
}

fn typed<K: Key, V: Value>((key, value): Record) -> Result<(K, V)> {
    Ok((K::from_key_bytes(&key)?, V::from_value_bytes(&value)?))
}

impl<K, V, O: Kind> Clone for Typed<K, V, O> {
    fn clone(&self) -> Self {
        Typed { database: self.database.clone(), types: PhantomData }
    }
}

impl<K, V, O: Kind> fmt::Debug for Typed<K, V, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Typed").field(&self.database).finish()
    }
}

/// Records with types, in order and from either end: see [`Typed::range`]. `S` is what they are read in.
pub struct Records<K, V, S: Read> {
    range: Range<S>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value, S: Read> Iterator for Records<K, V, S> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.range.next()?.and_then(typed))
    }
}

impl<K: Key, V: Value, S: Read> DoubleEndedIterator for Records<K, V, S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.range.next_back()?.and_then(typed))
    }
}

impl<K, V, S: Read + fmt::Debug> fmt::Debug for Records<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Records").field(&self.range).finish()
    }
}
