//! The place of one key.

use std::fmt;

use super::{Database, Write};
use crate::error::Result;

/// The entry of one key in a database, like that of a `BTreeMap`. Nothing happens until `or_insert`,
/// `or_insert_with` or `apply` is called; then everything is done in one transaction.
///
/// ```
/// # fn main() -> sablecat::Result<()> {
/// # let env = sablecat::Env::in_memory()?;
/// let words = env.database("words")?;
/// for word in ["a", "rose", "is", "a", "rose"] {
///     words.entry(word).and_modify(|count| count[0] += 1).or_insert([1])?;
/// }
/// assert_eq!(words.get("rose")?.as_deref(), Some(&[2][..]));
/// assert_eq!(words.entry("tulip").and_modify(|count| count[0] = 0).apply()?, None);
/// # Ok(())
/// # }
/// ```
///
/// The entry of a [transaction](crate::Txn::entry) or of a [Data Store](crate::DataStore::entry) is changed
/// as part of that:
///
/// ```
/// # fn main() -> sablecat::Result<()> {
/// # let env = sablecat::Env::in_memory()?;
/// let (words, last) = (env.database("words")?, env.database("last")?);
/// env.write(|txn| {
///     txn.entry(&words, "rose").and_modify(|count| count[0] += 1).or_insert([1])?;
///     txn.insert(&last, "word", "rose")
/// })?;
/// assert_eq!(words.get("rose")?.as_deref(), Some(&[1][..]));
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing happens before `or_insert`, `or_insert_with` or `apply`"]
pub struct Entry<'d> {
    key: Vec<u8>,
    update: Box<Update<'d>>,
    changes: Vec<Modifier<'d>>,
}

/// What changes a value.
type Modifier<'d> = Box<dyn FnMut(&mut Vec<u8>) + 'd>;

/// Sets the value of a key to what is made of the one that it has, if it has one. If it is said that this one
/// stays as it is, nothing is locked where there is one.
type Update<'d> = dyn FnMut(&[u8], bool, &mut Make<'_>) -> Result<Option<Vec<u8>>> + 'd;
type Make<'m> = dyn FnMut(Option<&[u8]>) -> Option<Vec<u8>> + 'm;

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<'d> Entry<'d> {
    /// The place of a key in a database, by itself.
    pub(super) fn new(database: &'d Database, key: &[u8]) -> Entry<'d> {
        let update = |key: &[u8], stays: bool, make: &mut Make<'_>| {
            database.change(|txn| {
                if stays && let Some(have) = txn.get(database, key)? {
                    return Ok(Some(have));
                }
                txn.get_for_update(database, key)?;
                txn.update(database, key, &mut *make)
            })
        };
        Entry { key: key.to_vec(), update: Box::new(update), changes: Vec::new() }
    }

    /// The place of a key in a database, in what is written to already.
    pub(super) fn within<W: Write>(
        writer: &'d mut W,
        database: &'d Database<W::Of>,
        key: &[u8],
    ) -> Entry<'d> {
        let update = |key: &[u8], _: bool, make: &mut Make<'_>| writer.update(database, key, make);
        Entry { key: key.to_vec(), update: Box::new(update), changes: Vec::new() }
    }

    /// Lets `change` change the value, if there is one. If the entry is a transaction of its own, `change`
    /// may run more than once, each time on the newest committed value.
    pub fn and_modify(mut self, change: impl FnMut(&mut Vec<u8>) + 'd) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Returns the changed value. If there is none, sets `value`, unchanged, and returns it.
    ///
    /// # Errors
    /// As [`Env::write`](crate::Env::write), or, in a transaction or Data Store, as
    /// [`Write::remove`](crate::Write::remove).
    pub fn or_insert(self, value: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.or_insert_with(|| value.as_ref().to_vec())
    }

    /// As [`Entry::or_insert`], with a value that is made only if it is needed; perhaps more than once.
    ///
    /// # Errors
    /// As [`Entry::or_insert`].
    pub fn or_insert_with(self, mut make: impl FnMut() -> Vec<u8>) -> Result<Vec<u8>> {
        let value = self.run(|| Some(make()))?;
        Ok(value.expect("it is there, or was made"))
    }

    /// Returns the changed value; none if there is none.
    ///
    /// # Errors
    /// As [`Entry::or_insert`].
    pub fn apply(self) -> Result<Option<Vec<u8>>> {
        self.run(|| None)
    }

    fn run(self, mut make: impl FnMut() -> Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
        let Entry { key, mut update, mut changes } = self;
        let stays = changes.is_empty();
        update(&key, stays, &mut |have| match have {
            None => make(),
            Some(have) => {
                let mut value = have.to_vec();
                changes.iter_mut().for_each(|change| change(&mut value));
                Some(value)
            }
        })
    }
}
