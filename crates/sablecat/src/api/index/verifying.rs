//! Whether an index agrees with its primary.

use super::super::read::sealed::Seen;
use super::super::{Kind, Read};
use super::Index;
use crate::env::{VerifyReport, entries_of};
use crate::error::{ErrorKind, Result};
use crate::txn::pairs;

/// Disagreements that are told of, of each kind.
const TOLD_MAX: usize = 100;

impl<O: Kind> Index<O> {
    /// Compares the index with its primary, in one state. Returns the problems, one sentence each, about a
    /// hundred at most. If there are none, the index has an entry for each index key of each record, and no
    /// others. Reads both and runs the extractor on every record.
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
        let state = from.lasting()?;
        let mut problems = self.without_entries(&state)?;
        problems.extend(self.without_records(&state, true)?);
        Ok(problems)
    }

    /// Which records lack entries.
    fn without_entries(&self, state: &impl Read<Of = O>) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        for record in state.range(&self.primary, ..)? {
            let (key, value) = record?;
            if self.is_mark(&value) {
                continue;
            }
            let entries = state
                .with(|Seen(txn)| entries_of(txn.databases(), self.name(), &self.info, (&key, &value)))?;
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
        Ok(problems)
    }

    /// Whether a record of the primary is none of those that it shows: the place of the last of a queue.
    fn is_mark(&self, value: &[u8]) -> bool {
        self.primary.holds().has_marks() && value.is_empty()
    }

    /// Which entries lead to no record, or to one that has another index key, if that can be known
    /// (`extracts`).
    fn without_records(&self, state: &impl Read<Of = O>, extracts: bool) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        for entry in state.range(&self.entries, ..)? {
            let (entry, value) = entry?;
            let (_, key) = pairs::parts(&entry)?;
            let key = if self.info.unique { &value[..] } else { key };
            let is_right = match state.get(&self.primary, key)? {
                None => false,
                Some(value) if self.is_mark(&value) => false,
                Some(_) if !extracts => true,
                Some(record) => state
                    .with(|Seen(txn)| entries_of(txn.databases(), self.name(), &self.info, (key, &record)))?
                    .iter()
                    .any(|(right, _)| *right == entry),
            };
            if !is_right && problems.len() < TOLD_MAX {
                problems.push(format!(
                    "the entry {} is for the record {}, which is not there or has another index key",
                    entry.escape_ascii(),
                    key.escape_ascii()
                ));
            }
        }
        Ok(problems)
    }

    /// Which index keys are none of the database that they refer to, if they are to be.
    fn without_referents(&self, state: &impl Read<Of = O>) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        let Some((name, _)) = &self.info.references else { return Ok(problems) };
        let referred = state.existing_database(name)?;
        for entry in state.range(&self.entries, ..)? {
            let (entry, _) = entry?;
            let (index_key, _) = pairs::parts(&entry)?;
            let is_there = match &referred {
                Some(referred) => state.contains_key(referred, &index_key)?,
                None => false,
            };
            if !is_there && problems.len() < TOLD_MAX {
                problems.push(format!(
                    "the entry {} refers to the record {} of the database {name:?}, which is not there",
                    entry.escape_ascii(),
                    index_key.escape_ascii()
                ));
            }
        }
        Ok(problems)
    }
}

/// Compares all indices with what they are of, in one state whose pages are sound: wholly those whose
/// extractors are there, and of the others the entries alone.
pub(in crate::api) fn verify_indices<O: Kind>(
    from: &impl Read<Of = O>,
    report: &mut VerifyReport,
) -> Result<()> {
    let state = from.lasting()?;
    for name in state.databases()? {
        if report.not_known.contains(&name) || report.order_not_checked.contains(&name) {
            continue;
        }
        let is_index = state.existing_database(&name)?.is_some_and(|database| database.index_of().is_some());
        if !is_index {
            continue;
        }
        let Some(index) = Index::existing(&state, &name)? else { continue };
        let extracts = match index.without_entries(&state) {
            Ok(problems) => {
                report.note(&name, problems);
                true
            }
            Err(error) if error.kind() == ErrorKind::Invalid => {
                report.indices_not_compared.push(name.clone());
                false
            }
            Err(error) => return Err(error),
        };
        report.note(&name, index.without_records(&state, extracts)?);
        let is_read = |of: &String| !report.not_known.contains(of) && !report.order_not_checked.contains(of);
        if index.info().references.as_ref().is_some_and(|(of, _)| is_read(of)) {
            report.note(&name, index.without_referents(&state)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::env::EnvTxn;
    use crate::txn::Options;
    use crate::{Durability, Env, IndexOptions, Isolation, OnRemove};

    /// Removed behind the back of the index that refers to it.
    #[test]
    fn a_reference_to_nothing_is_found() {
        let env = Env::builder().extractor("all", |_, value, keys| keys.push(value)).in_memory().unwrap();
        let (people, towns) = (env.database("people").unwrap(), env.database("towns").unwrap());
        let options = IndexOptions::new("all").references(&towns, OnRemove::Refuse);
        env.index("by town", &people, options).unwrap();
        for town in ["oslo", "rome"] {
            towns.insert(town, "").unwrap();
            people.insert(["from ", town].concat(), town).unwrap();
        }
        assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
        let options = Options {
            isolation: Isolation::Snapshot,
            durability: Durability::Memory,
            read_only: false,
            patience: Duration::from_secs(60),
        };
        let mut txn = EnvTxn::begin(env.core().to_write().unwrap(), options).unwrap();
        let bare = txn.tree(&towns.named).unwrap().with(|tree| tree.follower = None);
        txn.records.set(&bare, b"rome", None).unwrap();
        txn.commit(Durability::Memory).unwrap();
        drop(txn);
        let problems = env.verify(&mut |_| {}).unwrap().problems;
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("the record rome of the database \"towns\""), "{problems:?}");
    }
}
