//! Whether an index agrees with its primary.

use super::super::read::sealed::{Seen, State};
use super::super::{Kind, Read};
use super::Index;
use crate::env::entries_of;
use crate::error::Result;
use crate::txn::pairs;

/// Disagreements that are told of, of each kind.
const TOLD_MAX: usize = 100;

impl<O: Kind> Index<O> {
    /// Compares the index with its primary, in one state: what is wrong, one sentence each, the first hundred
    /// or so. Empty: it has an entry for each index key of each record, and none besides. Reads both and runs
    /// the extractor on every record.
    ///
    /// ```
    /// # use sablecat::{Env, IndexOptions};
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = Env::builder().extractor("all", |_, value, keys| keys.push(value)).in_memory()?;
    /// let names = env.database("names")?;
    /// let by_name = env.index("by name", &names, IndexOptions::new("all"))?;
    /// names.insert("1", "ada")?;
    /// assert!(by_name.verify(&env)?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` if the extractor was not registered; as [`Read::range`].
    pub fn verify(&self, from: &impl Read<Of = O>) -> Result<Vec<String>> {
        let (state, unique) = (from.lasting()?, self.info.unique);
        let mut problems = Vec::new();
        for record in state.range(&self.primary, ..)? {
            let (key, value) = record?;
            let entries =
                state.with(|Seen(txn)| entries_of(txn.core(), self.name(), &self.info, (&key, &value)))?;
            for (entry, value) in entries {
                let found = state.get(&self.entries, &entry)?;
                if found.as_ref() != Some(&value) && problems.len() < TOLD_MAX {
                    problems.push(format!(
                        "the record {} has no entry {}",
                        key.escape_ascii(),
                        entry.escape_ascii()
                    ));
                }
            }
        }
        for entry in state.range(&self.entries, ..)? {
            let (entry, value) = entry?;
            let (_, key) = pairs::parts(&entry)?;
            let key = if unique { &value[..] } else { key };
            let is_right = match state.get(&self.primary, key)? {
                None => false,
                Some(record) => state
                    .with(|Seen(txn)| entries_of(txn.core(), self.name(), &self.info, (key, &record)))?
                    .iter()
                    .any(|(right, _)| *right == entry),
            };
            if !is_right && problems.len() < 2 * TOLD_MAX {
                problems.push(format!(
                    "the entry {} is for the record {}, which is not there or has another index key",
                    entry.escape_ascii(),
                    key.escape_ascii()
                ));
            }
        }
        Ok(problems)
    }
}
