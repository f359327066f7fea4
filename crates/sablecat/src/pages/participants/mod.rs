//! Participants: all that work on the region, and what is kept for them.
//!
//! An operation or a transaction that begins takes a seat (`seat`), says what it has in hand (`hand`), and
//! pins the state that it reads (`pin`). What no pin protects any more lies beyond the `horizon`, which a
//! checkpoint's holds up the less the further it has come (`captured`). `hints` is what a participant
//! remembers of trees, `words` what the region says of the state that all work in.

pub(in crate::pages) mod captured;
pub(in crate::pages) mod hand;
pub(super) mod hints;
pub(in crate::pages) mod horizon;
mod pin;
mod seat;
mod words;

pub(crate) use hand::InHand;
pub(in crate::pages) use pin::Pinned;
pub(crate) use pin::PinnedSeat;
pub(crate) use seat::{LocalParticipant, Participants, Seat};
pub(in crate::pages) use seat::{PATIENCE, Superseded};
