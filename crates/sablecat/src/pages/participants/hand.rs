//! Hands: page ids and blocks that are in use and that nothing names, because a participant is about to name
//! them or to give them back.
//!
//! ```text
//! taken ──in hand──▶ named by an entry, a descriptor, a map ──in hand──▶ given back
//! ```
//!
//! A participant that has some says so in its slot, from before it takes a number, or takes away its name,
//! until after it has named it, or given it back. So a participant that has waited until every hand that was
//! full has been empty once knows that what was in one then is not in it any more
//! ([`store`](crate::pages::store), lost.rs). Hands may be said to be full when they are not, and for longer
//! than they are.
//!
//! What is in the hands of the dead is lost, and found by that look.
//!
//! Costs: two stores to the participant's own slot where numbers are taken or given back: none for a read, or
//! for a commit of leaves that fit.

use super::LocalParticipant;

/// The participant may have page ids and blocks in hand, until all of these are dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct InHand<'a> {
    me: &'a LocalParticipant,
}

impl LocalParticipant {
    /// From now on page ids and blocks may be in hand.
    pub(crate) fn in_hand(&self) -> InHand<'_> {
        let hands = self.hands.get();
        if hands == 0 {
            self.slot().begin_hand();
        }
        self.hands.set(hands + 1);
        #[cfg(debug_assertions)]
        HANDS.set(HANDS.get() + 1);
        InHand { me: self }
    }
}

/// Does what is done in hand for a test, of which nobody dies.
#[cfg(test)]
pub(crate) fn pretend<T>(act: impl FnOnce() -> T) -> T {
    #[cfg(debug_assertions)]
    HANDS.set(HANDS.get() + 1);
    let done = act();
    #[cfg(debug_assertions)]
    HANDS.set(HANDS.get() - 1);
    done
}

#[cfg(test)]
impl LocalParticipant {
    /// For a participant that was killed, as far as others can see, and was mended: it is another.
    pub(crate) fn forget_hands(&self) {
        #[cfg(debug_assertions)]
        HANDS.set(HANDS.get() - self.hands.get());
        self.hands.set(0);
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        let hands = self.me.hands.get() - 1;
        self.me.hands.set(hands);
        if hands == 0 {
            self.me.slot().end_hand();
        }
        #[cfg(debug_assertions)]
        HANDS.set(HANDS.get() - 1);
    }
}

#[cfg(debug_assertions)]
thread_local! {
    /// How often this thread has said that it has something in hand.
    static HANDS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Nothing is taken or given back by a participant that has not said so.
#[inline(always)]
pub(in crate::pages) fn assert_in_hand() {
    #[cfg(debug_assertions)]
    assert!(HANDS.get() > 0, "page ids and blocks are taken and given back in hand");
}
