//! Which databases a transaction has changed that are indices, or have some.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Named;
use crate::seldom::Seldom;
use crate::types::TreeId;

/// What a transaction does about which databases are indices of which. Most do nothing.
#[derive(Debug, Default)]
pub(in crate::env) struct RelationChanges(Seldom<ChangedDatabases>);

#[derive(Debug, Default)]
pub(super) struct ChangedDatabases {
    /// The names that trees have had in it of which it has changed what a transaction that writes to them
    /// must know. Which of them they have is for the catalog to say: what gave it may have been rolled back.
    pub(super) names: BTreeMap<TreeId, Vec<String>>,
    /// Them, as they are in the transaction.
    pub(super) named: RefCell<HashMap<TreeId, Arc<Named>>>,
}

impl RelationChanges {
    /// What it has changed, if anything.
    pub(super) fn get(&self) -> Option<&ChangedDatabases> {
        self.0.get()
    }

    /// A tree has a name from here on, or had it.
    pub(super) fn note_name(&mut self, tree: TreeId, name: &str) {
        let names = self.0.needed().names.entry(tree).or_default();
        if !names.iter().any(|have| have == name) {
            names.push(name.to_owned());
        }
    }
}
