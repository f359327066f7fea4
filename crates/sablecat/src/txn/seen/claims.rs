//! Records that a transaction means to change, as it found them.
//!
//! A transaction that found no database of a name, or found one, acts upon that: it gives the name to a tree
//! that it made, or takes it away. So the name must still stand for what it was found to when the transaction
//! commits, whatever its isolation; else two trees might get one name, and one of them be lost. It is the
//! same with a record of which a follower made something (follow.rs). What was found is kept, and compared in
//! the commit step.
//!
//! References between records are true of two of them, and a transaction may change one and read the other. A
//! transaction that refers to a record claims that the record is there when it commits; one that has removed
//! a record claims that nothing refers to it. Of two such transactions the second to commit finds what the
//! first did, at any isolation. (Serializable ones have all that they read validated, and claim none of it.)

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::access::{KeySpan, Scan, StateSource};
use crate::error::Result;
use crate::pages::LocalParticipant;
use crate::seldom::Seldom;
use crate::txn::catalog::lapse::{expires, is_gone};
use crate::txn::catalog::{CATALOG, Lapse, TreeRef};
use crate::txn::commit::Committer;
use crate::txn::pending::write_set::WriteSet;
use crate::txn::ranges;
use crate::txn::refusals::conflict;
use crate::txn::state::CommittedState;
use crate::types::TreeId;

/// What a transaction has found that is to be the same when it commits. Most claim nothing.
#[derive(Debug, Default)]
pub(in crate::txn) struct Claims(Seldom<Claimed>);

/// What records were found to be, by tree and key.
#[derive(Debug, Default)]
struct Claimed {
    records: BTreeMap<(TreeId, Vec<u8>), NameClaim>,
    /// Records that are to be there.
    staying: BTreeMap<(TreeId, Vec<u8>), TreeRef>,
    /// Ranges that are to be empty, by where they begin.
    empty: BTreeMap<(TreeId, Vec<u8>), Empty>,
}

/// A range that is to be empty if a record is removed. That may be rolled back, or the record be set again:
/// then others may be in the range, or were before.
#[derive(Debug)]
struct Empty {
    tree: TreeRef,
    span: KeySpan,
    removed: (TreeId, Vec<u8>),
}

#[derive(Debug)]
struct NameClaim {
    tree: TreeRef,
    /// Its value then.
    found: Option<Vec<u8>>,
}

impl Claims {
    /// Notes what a record was found to be; what it was found to first counts.
    pub(in crate::txn) fn add(&mut self, tree: &TreeRef, key: &[u8], found: Option<&[u8]>) {
        let claim = || NameClaim { tree: tree.clone(), found: found.map(<[u8]>::to_vec) };
        self.0.needed().records.entry((tree.id, key.to_vec())).or_insert_with(claim);
    }

    /// A record that is there is to be there.
    pub(in crate::txn) fn add_staying(&mut self, tree: &TreeRef, key: &[u8]) {
        self.0.needed().staying.entry((tree.id, key.to_vec())).or_insert_with(|| tree.clone());
    }

    /// A range is to be empty, but for what the transaction changes in it, if it removes a record.
    pub(in crate::txn) fn add_empty(&mut self, tree: &TreeRef, span: KeySpan, (of, key): (TreeId, &[u8])) {
        let begin = match &span.0 {
            Bound::Included(key) | Bound::Excluded(key) => key.clone(),
            Bound::Unbounded => Vec::new(),
        };
        let empty = || Empty { tree: tree.clone(), span, removed: (of, key.to_vec()) };
        self.0.needed().empty.entry((tree.id, begin)).or_insert_with(empty);
    }

    #[inline(always)]
    pub(in crate::txn) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Committer {
    /// In the commit step, as the last part of it that may fail: a conflict if a record that was claimed, and
    /// is to change, is not what it was found to be. If a name stood for a database, that loses it, for
    /// another name or for good, and others are told. What had lapsed at `time` may have been swept.
    #[inline(always)]
    pub(in crate::txn) fn settle_claims(
        &self,
        claims: &Claims,
        writes: &WriteSet,
        time: u64,
        me: &LocalParticipant,
    ) -> Result<()> {
        claims.0.get().map_or(Ok(()), |claimed| self.settle_claimed(claimed, writes, time, me))
    }

    #[cold]
    #[inline(never)]
    fn settle_claimed(
        &self,
        claims: &Claimed,
        writes: &WriteSet,
        time: u64,
        me: &LocalParticipant,
    ) -> Result<()> {
        let newest = self.pages.newest();
        let mut takes_names = false;
        for ((tree, key), claim) in &claims.records {
            if writes.records(*tree).map_or(Ok(None), |records| records.get(key))?.is_none() {
                continue;
            }
            let state = CommittedState { states: self, me, at: newest };
            let found = self.value_at(&claim.tree.tree(), key, newest, me)?;
            let now = found.map(|found| state.load(found)).transpose()?;
            let is_name = *tree == CATALOG;
            let is_swept = || {
                let had_lapsed =
                    |found: &Vec<u8>| expires(found).is_some_and(|expires| is_gone(expires, time));
                claim.tree.lapse == Lapse::Records
                    && now.is_none()
                    && claim.found.as_ref().is_some_and(had_lapsed)
            };
            if now != claim.found && !is_swept() {
                return Err(conflict(if is_name {
                    "another transaction created, renamed or removed a database of that name, and committed \
                     first; run this one again"
                } else {
                    "another transaction changed a record that this one changes, and committed first; run \
                     this one again"
                }));
            }
            takes_names |= is_name && claim.found.is_some();
        }
        self.settle_references(claims, writes, CommittedState { states: self, me, at: newest })?;
        if takes_names {
            self.take_names();
        }
        Ok(())
    }

    /// A conflict if a record that another refers to is not there, or one that was removed is referred to.
    fn settle_references(
        &self,
        claims: &Claimed,
        writes: &WriteSet,
        newest: CommittedState<'_>,
    ) -> Result<()> {
        for ((id, key), tree) in &claims.staying {
            let is_pending =
                writes.records(*id).map_or(Ok(None), |records| records.get(key)).map(|own| own.is_some())?;
            if !is_pending && self.value_at(&tree.tree(), key, newest.at, newest.me)?.is_none() {
                return Err(conflict(
                    "another transaction removed a record that a record of this one refers to, and \
                     committed first; run this one again",
                ));
            }
        }
        for Empty { tree, span, removed } in claims.empty.values() {
            let is_removed = match writes.records(removed.0) {
                Some(records) => records.get(&removed.1)?.is_some_and(|pending| pending.is_none()),
                None => false,
            };
            if is_removed && !self.is_empty_but_for((tree, span), writes, newest)? {
                return Err(conflict(
                    "another transaction set a record that refers to one that this one removes, and \
                     committed first; run this one again",
                ));
            }
        }
        Ok(())
    }

    /// In the commit step: whether a range is empty in the newest state but for what is pending there.
    fn is_empty_but_for(
        &self,
        (tree, span): (&TreeRef, &KeySpan),
        writes: &WriteSet,
        mut newest: CommittedState<'_>,
    ) -> Result<bool> {
        let (lower, upper) = ranges::bounds(span);
        let mut scan = Scan::new(lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec));
        while let Some((key, _)) = scan.next(&tree.tree(), &mut newest, true)? {
            let pending = writes.records(tree.id).map_or(Ok(None), |records| records.get(&key))?;
            if pending.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
