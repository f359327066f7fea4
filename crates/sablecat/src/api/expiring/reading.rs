//! Reading what has not expired.

use std::ops::ControlFlow;

use super::{Expiring, Lifetime, Unexpired};
use crate::access::Counting;
use crate::api::read::within;
use crate::api::{Env, ExpiringCursor, KeyRange, Range, Read, Record};
use crate::env::EnvTxn;
use crate::error::Result;
use crate::txn::TreeRef;
use crate::txn::lapse::{HEAD_BYTES, expires, index_key, is_gone};
use crate::txn::pairs::{BEYOND, with_end};

impl Expiring {
    /// The value of a key.
    ///
    /// # Errors
    /// As [`Read::get`]; `Invalid` for a record that says no time.
    pub fn get(&self, from: &impl Read<Of = Env>, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_with(from, key, |value| value.map(<[u8]>::to_vec))
    }

    /// Shows the value of a key to `look`, in place: see [`Read::get_with`].
    ///
    /// # Errors
    /// As [`Expiring::get`].
    pub fn get_with<R>(
        &self,
        from: &impl Read<Of = Env>,
        key: impl AsRef<[u8]>,
        look: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        within(from, &self.database, |txn, tree| {
            let now = txn.time();
            txn.records.get(tree, key.as_ref(), |stored| self.live(stored, now).map(look))?
        })
    }

    /// Whether there is a record with this key.
    ///
    /// # Errors
    /// As [`Expiring::get`].
    pub fn contains_key(&self, from: &impl Read<Of = Env>, key: impl AsRef<[u8]>) -> Result<bool> {
        self.head(from, key.as_ref()).map(|head| head.is_some())
    }

    /// When a record expires, or [`Lifetime::Unlimited`]; none if there is no such record.
    ///
    /// # Errors
    /// As [`Expiring::get`].
    pub fn lifetime(&self, from: &impl Read<Of = Env>, key: impl AsRef<[u8]>) -> Result<Option<Lifetime>> {
        Ok(self.head(from, key.as_ref())?.map(|(gone_from, _)| Lifetime::until(gone_from)))
    }

    /// The time that a record has left, counted from the time of the state, or [`Lifetime::Unlimited`]; none
    /// if there is no such record.
    ///
    /// # Errors
    /// As [`Expiring::get`].
    pub fn remaining(&self, from: &impl Read<Of = Env>, key: impl AsRef<[u8]>) -> Result<Option<Lifetime>> {
        Ok(self.head(from, key.as_ref())?.map(|(gone_from, now)| Lifetime::remaining(gone_from, now)))
    }

    /// How many bytes the value of a key has, without reading it; none if there is no record.
    ///
    /// # Errors
    /// As [`Expiring::get`].
    pub fn value_len(&self, from: &impl Read<Of = Env>, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        let key = key.as_ref();
        within(from, &self.database, |txn, tree| {
            let stored = self.head_in(txn, tree, key)?.and(txn.records.value_len(tree, key)?);
            Ok(stored.map(|len| len.saturating_sub(HEAD_BYTES as u64)))
        })
    }

    /// Reads part of a value: see [`Read::read_at`].
    ///
    /// # Errors
    /// As [`Expiring::get`].
    pub fn read_at(
        &self,
        from: &impl Read<Of = Env>,
        key: impl AsRef<[u8]>,
        offset: u64,
        into: &mut [u8],
    ) -> Result<Option<usize>> {
        let key = key.as_ref();
        within(from, &self.database, |txn, tree| match self.head_in(txn, tree, key)? {
            None => Ok(None),
            Some(_) => txn.records.read_at(tree, key, offset.saturating_add(HEAD_BYTES as u64), into),
        })
    }

    /// From when on a record is gone that is there, and the time of the state.
    pub(super) fn head(
        &self,
        from: &(impl Read<Of = Env> + ?Sized),
        key: &[u8],
    ) -> Result<Option<(u64, u64)>> {
        within(from, &self.database, |txn, tree| self.head_in(txn, tree, key))
    }

    fn head_in(&self, txn: &EnvTxn<'_>, tree: &TreeRef, key: &[u8]) -> Result<Option<(u64, u64)>> {
        let (mut head, now) = ([0; HEAD_BYTES], txn.time());
        let Some(read) = txn.records.read_at(tree, key, 0, &mut head)? else { return Ok(None) };
        let gone_from = expires(&head[..read]).ok_or_else(|| self.not_ours())?;
        Ok((!is_gone(gone_from, now)).then_some((gone_from, now)))
    }

    /// The records of some keys, in order and from either end: by their hashes, if it is a hash table.
    ///
    /// # Errors
    /// As [`Read::range`]. Each record comes as a result, with the errors of [`Expiring::get`].
    pub fn range<'s, S: Read<Of = Env>>(
        &self,
        from: &'s S,
        keys: impl KeyRange,
    ) -> Result<Unexpired<S::Lasting<'s>>> {
        let bounds = self.database.bounds(&keys)?;
        let state = from.lasting()?;
        let now = Expiring::now(&state)?;
        within(&state, &self.database, |_, _| Ok(()))?;
        Ok(Unexpired::new(Range::new(state, self.database.clone(), bounds), self.clone(), now))
    }

    /// Folds the records of some keys into one value, in order and in place: see [`Read::fold`].
    ///
    /// # Errors
    /// As [`Expiring::range`].
    pub fn fold<B>(
        &self,
        from: &impl Read<Of = Env>,
        keys: impl KeyRange,
        initial: B,
        mut each: impl FnMut(B, &[u8], &[u8]) -> ControlFlow<B, B>,
    ) -> Result<B> {
        let (now, mut wrong) = (Expiring::now(from)?, Ok(()));
        let sum = from.fold(&self.database, keys, initial, |sum, key, stored| {
            match self.live(Some(stored), now) {
                Ok(Some(value)) => each(sum, key, value),
                Ok(None) => ControlFlow::Continue(sum),
                Err(error) => {
                    wrong = Err(error);
                    ControlFlow::Break(sum)
                }
            }
        })?;
        wrong.map(|()| sum)
    }

    /// How many records there are. Counts them.
    ///
    /// # Errors
    /// As [`Expiring::get`].
    pub fn len(&self, from: &impl Read<Of = Env>) -> Result<u64> {
        self.fold(from, .., 0, |count, _, _| ControlFlow::Continue(count + 1))
    }

    /// Whether there are no records.
    ///
    /// # Errors
    /// As [`Expiring::get`].
    pub fn is_empty(&self, from: &impl Read<Of = Env>) -> Result<bool> {
        self.first(from).map(|first| first.is_none())
    }

    /// The record with the least key.
    ///
    /// # Errors
    /// As [`Expiring::get`].
    pub fn first(&self, from: &impl Read<Of = Env>) -> Result<Option<Record>> {
        self.range(from, ..)?.next().transpose()
    }

    /// The record with the greatest key.
    ///
    /// # Errors
    /// As [`Expiring::get`].
    pub fn last(&self, from: &impl Read<Of = Env>) -> Result<Option<Record>> {
        self.range(from, ..)?.next_back().transpose()
    }

    /// A cursor, which stands at no record yet.
    pub fn cursor(&self) -> ExpiringCursor {
        ExpiringCursor::new(self.clone())
    }

    /// How many records have expired and are not swept yet. Counts them, and reads no others.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn unswept(&self, from: &impl Read<Of = Env>) -> Result<u64> {
        let now = Expiring::now(from)?;
        let end = std::ops::Bound::Excluded(with_end(&index_key(now), BEYOND));
        let bounds = (std::ops::Bound::Unbounded, end);
        from.fold_each(&self.by_expiry, bounds, 0, Counting)
    }
}
