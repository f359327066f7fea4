//! Names that a transaction means to change.
//!
//! A transaction that found no database of a name, or found one, acts upon that: it gives the name to a tree that it made, or takes it away. So the
//! name must still stand for what it was found to when the transaction commits, whatever its isolation; else two trees might get one name,
//! and one of them be lost. What was found is kept, and compared in the commit step.

use super::apply::OwnedValue;
use super::catalog::{self, CATALOG};
use super::write_set::WriteSet;
use super::{Kernel, conflict};
use crate::error::Result;
use crate::pages::Participant;

/// What names were found to stand for.
#[derive(Debug, Default)]
pub(super) struct Claims {
    names: Vec<Claim>,
}

#[derive(Debug)]
struct Claim {
    key: Vec<u8>,
    /// The name's record in the catalog.
    found: Option<Vec<u8>>,
}

impl Claims {
    /// Notes what a name was found to stand for; what it was found to first counts.
    pub(super) fn add(&mut self, key: &[u8], found: Option<&[u8]>) {
        if !self.names.iter().any(|claim| claim.key == key) {
            self.names.push(Claim { key: key.to_vec(), found: found.map(<[u8]>::to_vec) });
        }
    }

    pub(super) fn clear(&mut self) {
        self.names.clear();
    }
}

impl Kernel {
    /// In the commit step, as the last part of it that may fail: a conflict if a name that was claimed, and is to change, does not stand for what
    /// it was found to. If it stood for a database, that loses it, for another name or for good, and others are told.
    pub(super) fn settle_claims(&self, claims: &Claims, writes: &WriteSet, me: &Participant) -> Result<()> {
        let Some(records) = writes.records(CATALOG) else { return Ok(()) };
        let (catalog, newest) = (catalog::catalog_tree(), self.pages.region.header().visible());
        let names = || claims.names.iter().filter(|claim| records.get_in_memory(&claim.key).is_some());
        for claim in names() {
            let now = self.value_at(&catalog.tree(), &claim.key, newest, me)?;
            if now != claim.found.clone().map(OwnedValue::Inline) {
                return Err(conflict(
                    "another transaction created, renamed or removed a database of that name, and committed first; run it again",
                ));
            }
        }
        if names().any(|claim| claim.found.is_some()) {
            self.take_names();
        }
        Ok(())
    }
}
