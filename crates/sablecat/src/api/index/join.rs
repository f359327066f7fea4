//! Records found by several indices at once.

use std::fmt;

use super::super::{Cursor, Kind, Read, Record};
use super::Index;
use crate::error::{Error, Result};
use crate::txn::pairs;

/// The records that have each of several index keys, in the order of their own keys: see [`Index::join`].
pub struct Join<S: Read> {
    state: S,
    sides: Vec<JoinSide<S::Of>>,
    /// No record before this key is still to come; none: there are no more.
    from: Option<Vec<u8>>,
}

impl<S: Read> fmt::Debug for Join<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indices: Vec<_> = self.sides.iter().map(|side| side.index.name()).collect();
        f.debug_struct("Join").field("indices", &indices).finish_non_exhaustive()
    }
}

/// One of the indices, and what is looked for in it.
struct JoinSide<O: Kind> {
    index: Index<O>,
    key: Vec<u8>,
    /// What all of its entries begin with.
    begin: Vec<u8>,
    cursor: Cursor<O>,
}

impl<O: Kind> JoinSide<O> {
    /// The first record at or after a key that it has.
    fn seek(&mut self, state: &impl Read<Of = O>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.index.info.unique {
            return Ok(state.get(&self.index.entries, &self.begin)?.filter(|found| **found >= *key));
        }
        let found = self.cursor.at_or_after(state, [&self.begin, key].concat())?;
        Ok(found.and_then(|found| found.strip_prefix(&self.begin[..])).map(<[u8]>::to_vec))
    }
}

impl<O: Kind> Index<O> {
    /// The records of one primary database that have all of several index keys, each in one of its indices:
    /// an equality join. They come in the order of their own keys. Each index gives its records in that
    /// order, and records that one index does not have are skipped in the others: the cost is about the
    /// number of records of the rarest index key times the number of indices; it takes no memory.
    ///
    /// ```
    /// # use sablecat::{Env, Index, IndexOptions, Result};
    /// # fn main() -> Result<()> {
    /// // A car is its colour and its make.
    /// let part = |n: usize| move |_: &[u8], car: &[u8], keys: &mut sablecat::IndexKeys| {
    ///     car.split(|&byte| byte == b' ').nth(n).into_iter().for_each(|part| keys.push(part));
    /// };
    /// let env = Env::builder().extractor("colour", part(0)).extractor("make", part(1)).in_memory()?;
    /// let cars = env.database("cars")?;
    /// let by_colour = env.index("cars by colour", &cars, IndexOptions::new("colour"))?;
    /// let by_make = env.index("cars by make", &cars, IndexOptions::new("make"))?;
    /// cars.insert_batch([("1", "red Fiat"), ("2", "blue Fiat"), ("3", "red Volvo"), ("4", "red Fiat")])?;
    /// let found = Index::join(&env, &[(&by_colour, b"red"), (&by_make, b"Fiat")])?;
    /// let found: Vec<_> = found.collect::<Result<_>>()?;
    /// assert_eq!(found, [(b"1".to_vec(), b"red Fiat".to_vec()), (b"4".to_vec(), b"red Fiat".to_vec())]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` for indices of different databases, or none; as [`Read::range`]. Each record comes as a
    /// result, with the errors of [`Index::get`].
    pub fn join<'s, S: Read<Of = O>>(
        from: &'s S,
        wanted: &[(&Index<O>, &[u8])],
    ) -> Result<Join<S::Lasting<'s>>> {
        let Some((first, _)) = wanted.first() else {
            return Err(Error::invalid("a join of no indices; name at least one"));
        };
        if let Some((other, _)) = wanted.iter().find(|(one, _)| !one.primary.is_same(&first.primary)) {
            return Err(Error::invalid(format!(
                "a join of the indices {:?} and {:?}, which are of different databases",
                first.name(),
                other.name()
            )));
        }
        let side = |(index, key): &(&Index<O>, &[u8])| JoinSide {
            index: (*index).clone(),
            key: key.to_vec(),
            begin: pairs::with_end(key, pairs::END),
            cursor: index.entries.cursor(),
        };
        Ok(Join { state: from.lasting()?, sides: wanted.iter().map(side).collect(), from: Some(Vec::new()) })
    }
}

impl<S: Read> Join<S> {
    /// The key of the next record that all have.
    fn next_key(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(mut wanted) = self.from.take() else { return Ok(None) };
        let (mut agree, mut at) = (0, 0);
        while agree < self.sides.len() {
            match self.sides[at].seek(&self.state, &wanted)? {
                None => return Ok(None),
                Some(found) if found == wanted => agree += 1,
                Some(found) => (wanted, agree) = (found, 1),
            }
            at = (at + 1) % self.sides.len();
        }
        self.from = Some([&wanted[..], &[0]].concat());
        Ok(Some(wanted))
    }

    fn step(&mut self) -> Result<Option<Record>> {
        while let Some(key) = self.next_key()? {
            let side = &self.sides[0];
            if let Some(value) = side.index.value_of(&self.state, &side.key, &key)? {
                return Ok(Some((key, value)));
            }
        }
        Ok(None)
    }
}

impl<S: Read> Iterator for Join<S> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        self.step().transpose()
    }
}
