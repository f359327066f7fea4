//! Having the environment to oneself: the serial gate, as a transaction takes it and passes it.

use std::time::Duration;

use super::Transaction;
use crate::region::Work;
use crate::txn::commit::gate::at_the_gate;

impl Transaction<'_> {
    /// Takes the serial gate: until this transaction ends, nobody else begins a commit. The snapshot has been
    /// given up: others may have the gate for long, and one from before would have missed what they commit.
    /// False if they had it for all of `time`, or this process was taken for dead meanwhile.
    pub(crate) fn take_gate(&mut self, time: Duration) -> bool {
        if self.gate.is_none() {
            // The holder of the gate may be waiting for them.
            self.release_locks();
            let gate = self.transactions.pages.role(Work::Serial);
            let me = self.seat.number();
            let held = at_the_gate(gate, time, || gate.try_take_unfenced(me).transpose());
            self.gate.put(held.and_then(Result::ok));
        }
        self.has_gate()
    }

    /// Whether it holds the serial gate.
    pub(crate) fn has_gate(&self) -> bool {
        !self.gate.is_none()
    }

    /// Has it commit beside the holder of the serial gate.
    pub(crate) fn pass_gate(&mut self) {
        self.passes_gate = true;
    }
}
