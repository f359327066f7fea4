//! Which of the unsynced changes a power failure leaves on the disk.
//!
//! Flipping a coin for each change would visit every state, given for ever. The states that break programs
//! are more orderly: all but one write made it, or everything up to some moment, or the newest and not the
//! older. So a crash first draws a [`Survival`], then coins within it.

use super::dice::Dice;

/// The unit that a disk writes as a whole.
pub(super) const SECTOR: u64 = 512;

/// A way for unsynced changes to survive a power failure, or not to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// Every change.
    Everything,
    /// Only what was synced.
    Nothing,
    /// Changes up to some moment; the one made at that moment may be torn.
    Earlier,
    /// Changes after some moment, and not those before it; the one made at that moment may be torn.
    Later,
    /// All changes but one, which is lost or torn.
    AllButOne,
    /// One change, which may be torn.
    OnlyOne,
    /// Each change has a fate of its own: it survives, is torn, or is lost.
    Changes,
    /// Each sector of each change has a fate of its own.
    Sectors,
}

impl Survival {
    /// All of them.
    pub const ALL: [Survival; 8] = [
        Survival::Everything,
        Survival::Nothing,
        Survival::Earlier,
        Survival::Later,
        Survival::AllButOne,
        Survival::OnlyOne,
        Survival::Changes,
        Survival::Sectors,
    ];
}

/// What becomes of one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Survives,
    Lost,
    /// Each of its parts survives or not. A change without parts does one or the other.
    Torn,
}

/// Decides the fates of changes, each known by the moment it was made.
#[derive(Debug)]
pub(super) struct Fates {
    survival: Survival,
    /// The moment that [`Survival::Earlier`] and its like turn on.
    pivot: u64,
    /// The chance in percent that a change or a sector with a fate of its own survives.
    chance: u64,
    pub(super) dice: Dice,
}

impl Fates {
    /// `moments` are those at which the changes in question were made.
    pub(super) fn new(survival: Survival, mut dice: Dice, moments: &[u64]) -> Fates {
        let pivot = if moments.is_empty() { 0 } else { dice.pick(moments) };
        let chance = dice.pick(&[10, 50, 90]);
        Fates { survival, pivot, chance, dice }
    }

    /// What becomes of the change made at `moment`.
    pub(super) fn of(&mut self, moment: u64) -> Fate {
        let whole = |survives| if survives { Fate::Survives } else { Fate::Lost };
        let at_pivot = moment == self.pivot;
        match self.survival {
            Survival::Everything => Fate::Survives,
            Survival::Nothing => Fate::Lost,
            Survival::Earlier | Survival::Later | Survival::OnlyOne if at_pivot => {
                self.dice.pick(&[Fate::Survives, Fate::Torn])
            }
            Survival::AllButOne if at_pivot => self.dice.pick(&[Fate::Lost, Fate::Torn]),
            Survival::Earlier => whole(moment < self.pivot),
            Survival::Later => whole(moment > self.pivot),
            Survival::AllButOne => Fate::Survives,
            Survival::OnlyOne => Fate::Lost,
            Survival::Changes if self.dice.percent(20) => Fate::Torn,
            Survival::Changes => whole(self.dice.percent(self.chance)),
            Survival::Sectors => Fate::Torn,
        }
    }

    /// Whether a part of a torn change survives.
    pub(super) fn part(&mut self) -> bool {
        let chance = if self.survival == Survival::Sectors { self.chance } else { 50 };
        self.dice.percent(chance)
    }

    /// Whether a change without parts survives.
    pub(super) fn whole(&mut self, moment: u64) -> bool {
        match self.of(moment) {
            Fate::Survives => true,
            Fate::Lost => false,
            Fate::Torn => self.part(),
        }
    }

    /// Whether lengths may be out of step with the bytes, because the file system writes them at another
    /// time.
    pub(super) fn length_strays(&mut self) -> bool {
        matches!(self.survival, Survival::Changes | Survival::Sectors) && self.dice.percent(25)
    }
}
