//! Records that a transaction means to change, as it found them.
//!
//! A transaction that found no database of a name, or found one, acts upon that: it gives the name to a tree
//! that it made, or takes it away. So the name must still stand for what it was found to when the transaction
//! commits, whatever its isolation; else two trees might get one name, and one of them be lost. It is the
//! same with a record of which a follower made something (follow.rs). What was found is kept, and compared in
//! the commit step.

use std::collections::BTreeMap;

use super::apply::OwnedValue;
use super::catalog::CATALOG;
use super::write_set::WriteSet;
use super::{Kernel, TreeRef, conflict};
use crate::error::Result;
use crate::pages::Participant;
use crate::types::TreeId;

/// What records were found to be, by tree and key.
#[derive(Debug, Default)]
pub(super) struct Claims {
    records: BTreeMap<(TreeId, Vec<u8>), Claim>,
}

#[derive(Debug)]
struct Claim {
    tree: TreeRef,
    /// Its value then.
    found: Option<Vec<u8>>,
}

impl Claims {
    /// Notes what a record was found to be; what it was found to first counts.
    pub(super) fn add(&mut self, tree: &TreeRef, key: &[u8], found: Option<&[u8]>) {
        let claim = || Claim { tree: tree.clone(), found: found.map(<[u8]>::to_vec) };
        self.records.entry((tree.id, key.to_vec())).or_insert_with(claim);
    }

    pub(super) fn clear(&mut self) {
        self.records.clear();
    }
}

impl Kernel {
    /// In the commit step, as the last part of it that may fail: a conflict if a record that was claimed, and
    /// is to change, is not what it was found to be. If a name stood for a database, that loses it, for
    /// another name or for good, and others are told.
    pub(super) fn settle_claims(&self, claims: &Claims, writes: &WriteSet, me: &Participant) -> Result<()> {
        let newest = self.pages.region.header().visible();
        let mut takes_names = false;
        for ((tree, key), claim) in &claims.records {
            if writes.records(*tree).map_or(Ok(None), |records| records.get(key))?.is_none() {
                continue;
            }
            let now = match self.value_at(&claim.tree.tree(), key, newest, me)? {
                Some(OwnedValue::Long(first, len)) => Some(self.load_long(me, newest, first, len)?),
                Some(OwnedValue::Inline(value)) => Some(value),
                None => None,
            };
            let is_name = *tree == CATALOG;
            if now != claim.found {
                return Err(conflict(if is_name {
                    "another transaction created, renamed or removed a database of that name, and committed first; run it again"
                } else {
                    "another transaction changed a record that this one changes, and committed first; run it again"
                }));
            }
            takes_names |= is_name && claim.found.is_some();
        }
        if takes_names {
            self.take_names();
        }
        Ok(())
    }
}
