//! What a connection knows of databases of keys and values.

use std::collections::BTreeMap;
use std::time::Instant;

use sablecat::Database;

/// The numbers of trees are below this.
const NUMBERS_FROM: u32 = 1 << 31;

/// A database, as the transaction in progress sees it.
#[derive(Clone, Debug)]
pub(crate) struct KeyValue {
    pub(crate) database: Database,
    /// By which its connection tells its states.
    pub(crate) number: u32,
}

/// What a connection knows of such databases, by their names.
#[derive(Debug, Default)]
pub(crate) struct KeyValues(BTreeMap<Box<str>, Known>);

#[derive(Debug)]
pub(super) struct Known {
    pub(super) number: u32,
    /// What was found, and in which state of the transaction.
    pub(super) found: Option<(u64, KeyValue)>,
    /// How many records there were, and when.
    pub(super) estimate: Option<(Instant, u64)>,
}

impl KeyValues {
    /// What is known of the database of a name.
    pub(super) fn known(&mut self, name: &str) -> &mut Known {
        let number = NUMBERS_FROM + self.0.len() as u32;
        let new = || Known { number, found: None, estimate: None };
        self.0.entry(name.into()).or_insert_with(new)
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
