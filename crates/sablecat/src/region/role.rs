//! Roles: work that one participant does at a time.
//!
//! A role word is {owner slot, sequence}. The sequence changes with every acquisition, so a release or a help that was meant for an older
//! holding fails. Writer: whoever acquires or releases; if the owner dies the word still names it, and the finder decides by the rules of
//! that role what to finish before it releases the word for the dead.

use sablecat_os::atomic::{AtomicU64, Ordering};

const OWNER_BITS: u32 = 16;
const OWNER_MASK: u64 = (1 << OWNER_BITS) - 1;

/// One role.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct Role(AtomicU64);

/// A holding of a role, as seen at one moment: the owner and which of its holdings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Holding(u64);

impl Holding {
    /// The owner's slot; 0 when the role is free.
    #[inline]
    pub(crate) fn owner(self) -> u16 {
        (self.0 & OWNER_MASK) as u16
    }
}

impl Role {
    /// What the word says now. Acquire: pairs with the releases below.
    #[inline]
    pub(crate) fn look(&self) -> Holding {
        Holding(self.0.load(Ordering::Acquire))
    }

    /// Takes the role for `slot` if it is free, and says with which holding; otherwise who has it.
    #[inline]
    pub(crate) fn try_acquire(&self, slot: u16) -> Result<Holding, Holding> {
        debug_assert_ne!(slot, 0);
        let seen = self.0.load(Ordering::Relaxed);
        if seen & OWNER_MASK != 0 {
            return Err(Holding(seen));
        }
        let mine = seen.wrapping_add(1 << OWNER_BITS) | u64::from(slot);
        // SeqCst, so also: the new holder sees all that the last one did; its claim is ordered before what it does.
        match self.0.compare_exchange(seen, mine, Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => Ok(Holding(mine)),
            Err(now) => Err(Holding(now)),
        }
    }

    /// Ends one holding, whoever calls (its owner, or a helper for it). False if it had ended already.
    #[inline]
    pub(crate) fn release(&self, holding: Holding) -> bool {
        self.0.compare_exchange(holding.0, holding.0 & !OWNER_MASK, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }
}
