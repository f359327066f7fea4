//! Records found by an index, in its order.

use std::fmt;

use super::super::{Kind, Range, Read};
use super::{Index, LOOKS};
use crate::env::{key_of, leads_nowhere};
use crate::error::Result;
use crate::txn::pairs;

/// An index key, the key of a record that has it, and its value.
type IndexedRecord = (Vec<u8>, Vec<u8>, Vec<u8>);

/// An index key with the key of a record that has it.
type Pair = (Vec<u8>, Vec<u8>);

/// Index keys, each with the key of a record that has it: see [`Index::keys`].
#[derive(Debug)]
pub struct FoundKeys<S: Read> {
    range: Range<S>,
    unique: bool,
}

impl<S: Read> FoundKeys<S> {
    pub(super) fn new(range: Range<S>, unique: bool) -> FoundKeys<S> {
        FoundKeys { range, unique }
    }

    fn pair(&self, entry: Result<Pair>) -> Result<Pair> {
        let (entry, value) = entry?;
        let (index_key, key) = pairs::parts(&entry)?;
        Ok((index_key, if self.unique { value } else { key.to_vec() }))
    }
}

impl<S: Read> Iterator for FoundKeys<S> {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Result<Pair>> {
        let entry = self.range.next()?;
        Some(self.pair(entry))
    }
}

impl<S: Read> DoubleEndedIterator for FoundKeys<S> {
    fn next_back(&mut self) -> Option<Result<Pair>> {
        let entry = self.range.next_back()?;
        Some(self.pair(entry))
    }
}

/// Records by their index keys: see [`Index::range`].
pub struct Found<S: Read> {
    keys: FoundKeys<S>,
    index: Index<S::Of>,
}

impl<S: Read> fmt::Debug for Found<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Found").field("index", &self.index.name()).finish_non_exhaustive()
    }
}

impl<S: Read> Found<S> {
    pub(super) fn new(keys: FoundKeys<S>, index: Index<S::Of>) -> Found<S> {
        Found { keys, index }
    }

    /// The record; none if it was removed since the entry was read, as in a read committed transaction.
    fn record(&self, pair: Result<Pair>) -> Result<Option<IndexedRecord>> {
        let (index_key, key) = pair?;
        let value = self.index.value_of(self.keys.range.state(), &index_key, &key)?;
        Ok(value.map(|value| (index_key, key, value)))
    }
}

impl<O: Kind> Index<O> {
    /// The value of a record that an entry leads to; none if both are gone.
    pub(super) fn value_of(
        &self,
        state: &impl Read<Of = O>,
        index_key: &[u8],
        key: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        for _ in 0..LOOKS {
            if let Some(value) = state.get(&self.primary, key)? {
                return Ok(Some(value));
            }
            let unique = self.info.unique;
            let entry =
                if unique { pairs::with_end(index_key, pairs::END) } else { pairs::pair(index_key, key) };
            let Some(value) = state.get(&self.entries, &entry)? else { return Ok(None) };
            if key_of(unique, &entry, value)? != key {
                return Ok(None);
            }
        }
        Err(leads_nowhere(self.name(), self.primary.name(), key))
    }
}

impl<S: Read> Iterator for Found<S> {
    type Item = Result<IndexedRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let pair = self.keys.next()?;
            if let Some(found) = self.record(pair).transpose() {
                return Some(found);
            }
        }
    }
}

impl<S: Read> DoubleEndedIterator for Found<S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            let pair = self.keys.next_back()?;
            if let Some(found) = self.record(pair).transpose() {
                return Some(found);
            }
        }
    }
}
