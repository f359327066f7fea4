//! The serial gate: while a transaction has it, nobody else begins a commit.

use std::time::Duration;

use sablecat_os::clock;

use super::{Kernel, Transaction};
use crate::error::{Error, ErrorKind, Result};
use crate::pages::Participant;
use crate::region::{Role, Work};

impl Kernel {
    /// Waits while some other transaction holds the serial gate.
    #[inline]
    pub(super) fn wait_for_gate(&self, me: &Participant) -> Result<()> {
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
                "waited {:?} to commit: the transaction of {} has the environment to itself, after others had kept getting in its way; \
                 see what it does (sablecat processes), and run this again. If what it runs waits for this, nothing of it will ever end: have that use \
                 the transaction itself",
                self.patience,
                self.pages.name_of(owner)
            ),
        ))
    }
}

impl Transaction<'_> {
    /// Takes the serial gate: until this transaction ends, nobody else begins a commit. The snapshot has been
    /// given up: others may have the gate for long, and one from before would have missed what they commit.
    /// False if they had it for all of `time`, or this process was taken for dead meanwhile.
    pub(crate) fn take_gate(&mut self, time: Duration) -> bool {
        if self.gate.is_none() {
            // Whoever has the gate now may be waiting for them.
            self.release_locks();
            let gate = self.kernel.pages.role(Work::Serial);
            let me = self.seat.number();
            self.gate =
                at_the_gate(gate, time, || gate.try_take_unfenced(me).transpose()).and_then(Result::ok);
        }
        self.has_gate()
    }

    /// Whether it holds the serial gate.
    pub(crate) fn has_gate(&self) -> bool {
        self.gate.is_some()
    }

    /// Has it commit beside who has the serial gate.
    pub(crate) fn pass_gate(&mut self) {
        self.passes_gate = true;
    }
}

/// What `done` gives, waiting at the serial gate; none once `time` has passed.
fn at_the_gate<T>(gate: Role<'_>, time: Duration, mut done: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = clock::monotonic();
    gate.wait_for(|| match done() {
        None => (clock::monotonic().saturating_sub(begun) > time).then_some(None),
        got => Some(got),
    })
}
