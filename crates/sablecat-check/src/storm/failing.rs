//! The disk of a worker, whose calls fail at random: with the errors that the system has for each, now and
//! then several times in a row, of writes perhaps after half of the bytes.

use std::io;
use std::sync::{Mutex, PoisonError};

use sablecat_os::disk::HostDisk;
use sablecat_os::disk::between::{Between, Call, Judge, Verdict};

use crate::dice::Dice;

/// Of calls that fail so many in a hundred do so again for a while.
const SPELLS: u64 = 20;
/// The longest such while, in calls of the same kind.
const SPELL_MAX: u64 = 20;

const EIO: i32 = 5;
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;

/// The errors that a call may answer with.
fn errors(call: Call) -> &'static [i32] {
    match call {
        Call::Open | Call::SyncDir => &[EIO, ENOMEM, ENFILE, EMFILE],
        Call::Make => &[EIO, ENOMEM, EMFILE, ENOSPC],
        Call::Look => &[EIO, ENOMEM],
        Call::Read => &[EIO],
        Call::Write => &[EIO, ENOMEM, ENOSPC, ENOSPC],
        Call::Grow | Call::Rename | Call::Remove | Call::Sync => &[EIO, ENOSPC],
        Call::Map => &[ENOMEM],
        Call::Store => &[EIO],
    }
}

/// The machine's disk, of whose calls so many in a million fail.
pub(super) fn disk(per_million: u64, seed: u64) -> Between {
    Between::new(
        HostDisk,
        Failing { per_million, chance: Mutex::new(Chance { dice: Dice::new(seed), spell: None }) },
    )
}

#[derive(Debug)]
struct Failing {
    per_million: u64,
    chance: Mutex<Chance>,
}

#[derive(Debug)]
struct Chance {
    dice: Dice,
    spell: Option<Spell>,
}

/// Calls of one kind that go on failing.
#[derive(Debug)]
struct Spell {
    call: Call,
    error: i32,
    left: u64,
}

impl Chance {
    fn error(&mut self, call: Call, per_million: u64) -> Option<i32> {
        if let Some(spell) = self.spell.as_mut().filter(|spell| spell.call == call) {
            let error = spell.error;
            spell.left -= 1;
            if spell.left == 0 {
                self.spell = None;
            }
            return Some(error);
        }
        if self.dice.below(1_000_000) >= per_million {
            return None;
        }
        let error = self.dice.pick(errors(call));
        if self.dice.percent(SPELLS) {
            self.spell = Some(Spell { call, error, left: 1 + self.dice.below(SPELL_MAX) });
        }
        Some(error)
    }
}

impl Judge for Failing {
    fn judge(&self, call: Call) -> Verdict {
        if errors(call).is_empty() {
            return Verdict::Make;
        }
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        match chance.error(call, self.per_million).map(io::Error::from_raw_os_error) {
            None => Verdict::Make,
            Some(error) if chance.dice.percent(30) => Verdict::Cut(error),
            Some(error) => Verdict::Fail(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_as_many_calls_fail_as_are_to() {
        let failing = |per_million| Failing {
            per_million,
            chance: Mutex::new(Chance { dice: Dice::new(1), spell: None }),
        };
        let failed = |failing: Failing| {
            (0..100_000).filter(|_| !matches!(failing.judge(Call::Write), Verdict::Make)).count()
        };
        assert_eq!(failed(failing(0)), 0);
        assert_eq!(failed(failing(1_000_000)), 100_000);
        assert!((500..8000).contains(&failed(failing(10_000))));
    }
}
