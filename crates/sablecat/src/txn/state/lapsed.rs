//! Whether two states of a record are the same to a transaction that has seen the first: but for what others
//! did, also if it had lapsed at that transaction's time, and has been swept since (catalog/lapse.rs).

use super::{CommittedState, States};
use crate::access::{ScannedValue, StoredValue};
use crate::error::Result;
use crate::pages::LocalParticipant;
use crate::txn::catalog::lapse::{HEAD_BYTES, expires, is_gone};
use crate::txn::catalog::{Lapse, TreeRef};
use crate::types::Lsn;

impl CommittedState<'_> {
    /// Whether a record of this state, with this value in it, had lapsed at a time.
    pub(in crate::txn) fn had_lapsed(
        &self,
        lapse: Lapse,
        (key, value): (&[u8], StoredValue<'_>),
        time: u64,
    ) -> Result<bool> {
        let (by_key, ask_value) = lapse.of_key(key, time);
        if !ask_value {
            return Ok(by_key);
        }
        let mut head = [0; HEAD_BYTES];
        let head = match value {
            StoredValue::Inline(value) => value,
            StoredValue::Long { first_page, len } => {
                let read = self.states.read_long(self.me, self.at, first_page, len, 0, &mut head)?;
                &head[..read]
            }
        };
        Ok(expires(head).is_some_and(|expires| is_gone(expires, time)))
    }
}

impl States {
    /// Whether a record is the same now as it was at a moment, to a transaction that has the time `time`.
    pub(in crate::txn) fn record_is_same(
        &self,
        tree: &TreeRef,
        key: &[u8],
        (at, time): (Lsn, u64),
        now: Lsn,
        me: &LocalParticipant,
    ) -> Result<bool> {
        let newest = self.value_at(&tree.tree(), key, now, me)?;
        self.was(tree, key, (at, time), newest.as_ref(), me)
    }

    /// Whether a record was at a moment what it is now, to a transaction that has the time `time`.
    pub(in crate::txn) fn was(
        &self,
        tree: &TreeRef,
        key: &[u8],
        (at, time): (Lsn, u64),
        now: Option<&ScannedValue>,
        me: &LocalParticipant,
    ) -> Result<bool> {
        let then = self.value_at(&tree.tree(), key, at, me)?;
        match (&then, now) {
            (then, now) if then.as_ref() == now => Ok(true),
            (Some(then), None) => {
                CommittedState { states: self, me, at }.had_lapsed(tree.lapse, (key, then.as_stored()), time)
            }
            _ => Ok(false),
        }
    }
}
