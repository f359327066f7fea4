//! One word of the lock table.
//!
//! ```text
//! 63                20 19     18     17..16  15..0
//! record (44 bits)     flag   coarse mode    owner
//! ```
//! In a lock, the flag says that somebody waits for it, and `coarse` that it stands for every record of its
//! record's home bucket. Mode 0 is no lock: zero. A slot's announcement of what it waits for has the same
//! layout. In the owner's place it has the low bits of the wait's number, so that two waits for one record
//! differ. Its flag says that this wait was chosen to end in a deadlock error.

const OWNER_MASK: u64 = 0xffff;
const MODE_SHIFT: u32 = 16;
const SHARED: u64 = 1 << MODE_SHIFT;
const EXCLUSIVE: u64 = 3 << MODE_SHIFT;
const COARSE: u64 = 1 << 18;
const FLAG: u64 = 1 << 19;
const ID_SHIFT: u32 = 20;

/// How a record is locked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum LockMode {
    /// With others that share it.
    Shared,
    /// Alone.
    Exclusive,
}

/// Bits of a record's hash that the table keeps.
pub(super) const ID_BITS: u32 = 64 - ID_SHIFT;

/// What the table knows of a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct LockId(pub(super) u64);

impl LockId {
    /// The odd multiplier moves every bit of the hash upwards, so a hash that is good in its low bits alone
    /// does not hurt.
    #[inline]
    pub(super) fn of(hash: u64) -> LockId {
        LockId(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> ID_SHIFT)
    }
}

/// A lock that somebody would like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Want {
    pub(super) id: LockId,
    pub(super) mode: LockMode,
}

/// A lock, as it stands in the table; or the announcement of a wait, as it stands in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Word(pub(super) u64);

impl Word {
    pub(super) const FREE: Word = Word(0);
    /// The bits that, set in a shared lock, make it exclusive.
    pub(super) const TO_EXCLUSIVE: Word = Word(EXCLUSIVE);

    #[inline]
    pub(super) fn new(want: Want, owner: u16) -> Word {
        let mode = if want.mode == LockMode::Exclusive { EXCLUSIVE } else { SHARED };
        Word(want.id.0 << ID_SHIFT | mode | u64::from(owner))
    }

    /// An announcement of the `number`-th wait.
    pub(super) fn announcement(want: Want, number: u64) -> Word {
        Word::new(want, (number & OWNER_MASK) as u16)
    }

    #[inline]
    pub(super) fn is_free(self) -> bool {
        self.0 == 0
    }
    #[inline]
    pub(super) fn owner(self) -> u16 {
        (self.0 & OWNER_MASK) as u16
    }
    #[inline]
    pub(super) fn id(self) -> LockId {
        LockId(self.0 >> ID_SHIFT)
    }
    #[inline]
    pub(super) fn mode(self) -> LockMode {
        if self.0 & EXCLUSIVE == EXCLUSIVE { LockMode::Exclusive } else { LockMode::Shared }
    }
    #[inline]
    pub(super) fn want(self) -> Want {
        Want { id: self.id(), mode: self.mode() }
    }
    #[inline]
    pub(super) fn is_coarse(self) -> bool {
        self.0 & COARSE != 0
    }
    #[inline]
    pub(super) fn is_waited(self) -> bool {
        self.0 & FLAG != 0
    }
    /// Of an announcement: whether its owner is to give way.
    #[inline]
    pub(super) fn is_victim(self) -> bool {
        self.0 & FLAG != 0
    }

    #[inline]
    #[must_use]
    pub(super) fn flagged(self, flag: bool) -> Word {
        if flag { Word(self.0 | FLAG) } else { self }
    }
    /// The same lock, to be had with others.
    #[must_use]
    pub(super) fn shared(self) -> Word {
        Word(self.0 & !EXCLUSIVE | SHARED)
    }
    /// The same lock, for all records of its home bucket.
    #[must_use]
    pub(super) fn coarse(self) -> Word {
        Word(self.0 | COARSE)
    }
}

/// Whether two locks on one record can not be held at once by different owners.
#[inline]
pub(super) fn clash(one: LockMode, other: LockMode) -> bool {
    one == LockMode::Exclusive || other == LockMode::Exclusive
}
