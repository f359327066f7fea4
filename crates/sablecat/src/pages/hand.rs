//! Hands: page ids and blocks that are in use and that nothing names, because somebody is about to name them or to give them back.
//!
//! ```text
//! taken ──in hand──▶ named by an entry, a descriptor, a map ──in hand──▶ given back
//! ```
//!
//! Whoever has some says so in its slot for as long, and no longer. So whoever finds something in use that nothing names, in a look during which no
//! participant had anything in hand, knows that somebody has died with it ([`lost`](super::lost)).
//!
//! Who has the checkpoint role need not say so: nobody looks beside it. What is in the hands of the dead is lost, and found by that look.
//!
//! Costs: two stores to the participant's own slot, where bits are taken or given back.

use super::Participant;

/// The participant may have page ids and blocks in hand, until all of these are dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct InHand<'a> {
    me: &'a Participant,
}

impl Participant {
    /// From now on page ids and blocks may be in hand.
    pub(crate) fn in_hand(&self) -> InHand<'_> {
        if self.hands.get() == 0 {
            self.slot().begin_hand();
        }
        self.hands.set(self.hands.get() + 1);
        InHand { me: self }
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        let hands = self.me.hands.get() - 1;
        self.me.hands.set(hands);
        if hands == 0 {
            self.me.slot().end_hand();
        }
    }
}
