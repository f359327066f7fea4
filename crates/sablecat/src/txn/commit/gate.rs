//! The serial gate: while a transaction has it, nobody else begins a commit.

use std::time::Duration;

use sablecat_os::clock;

use super::Committer;
use crate::error::{Error, ErrorKind, Result};
use crate::pages::LocalParticipant;
use crate::region::{Role, Work};

impl Committer {
    /// Waits while some other transaction holds the serial gate.
    #[inline]
    pub(in crate::txn) fn wait_for_gate(&self, me: &LocalParticipant) -> Result<()> {
        let gate = self.pages.role(Work::Serial);
        let owner = gate.look().owner();
        if owner == 0 || owner == me.number() { Ok(()) } else { self.wait_for_gate_slow() }
    }

    #[cold]
    fn wait_for_gate_slow(&self) -> Result<()> {
        let gate = self.pages.role(Work::Serial);
        if at_the_gate(gate, self.patience, || (gate.look().owner() == 0).then_some(())).is_some() {
            return Ok(());
        }
        let owner = gate.look().owner();
        Err(Error::new(
            ErrorKind::Timeout,
            format!(
                "waited {:?} to commit: the transaction of {} has the environment to itself, after others \
                 had kept getting in its way; see what it does (sablecat processes), and run this again. If \
                 what it runs waits for this, nothing of it will ever end: have that use the transaction \
                 itself",
                self.patience,
                self.pages.name_of(owner)
            ),
        ))
    }
}

/// What `done` gives, waiting at the serial gate; none once `time` has passed.
pub(in crate::txn) fn at_the_gate<T>(
    gate: Role<'_>,
    time: Duration,
    mut done: impl FnMut() -> Option<T>,
) -> Option<T> {
    let begun = clock::monotonic();
    gate.wait_for(|| match done() {
        None => (clock::monotonic().saturating_sub(begun) > time).then_some(None),
        got => Some(got),
    })
}
