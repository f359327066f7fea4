//! How a lock is asked for.

/// How a lock is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Holds back from a shared lock that somebody waits to have exclusively.
    pub(super) polite: bool,
    /// Will sleep if refused: whatever stands against it is flagged, so that its release wakes.
    pub(super) will_sleep: bool,
    /// Has slept: others may be waiting too, so the lock is flagged from the start.
    pub(super) has_slept: bool,
}

impl Manner {
    /// Now or not at all.
    pub(super) const TAKE: Manner = Manner { polite: false, will_sleep: false, has_slept: false };
    /// The first try of a participant that will wait.
    pub(super) const ASK: Manner = Manner { polite: true, ..Manner::TAKE };
}
