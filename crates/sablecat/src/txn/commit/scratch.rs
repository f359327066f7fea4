//! The participant's log record in the making: memory that is lent and comes back, so that single operations
//! allocate nothing.

use std::ops::{Deref, DerefMut};

use crate::log::RecordBuilder;
use crate::pages::LocalParticipant;

/// A record builder over the participant's memory.
pub(in crate::txn) struct ScratchRecord<'a> {
    me: &'a LocalParticipant,
    builder: RecordBuilder,
}

impl<'a> ScratchRecord<'a> {
    #[inline]
    pub(in crate::txn) fn of(me: &'a LocalParticipant) -> ScratchRecord<'a> {
        ScratchRecord { me, builder: RecordBuilder::over(me.scratch.take()) }
    }
}

impl Deref for ScratchRecord<'_> {
    type Target = RecordBuilder;
    #[inline]
    fn deref(&self) -> &RecordBuilder {
        &self.builder
    }
}

impl DerefMut for ScratchRecord<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut RecordBuilder {
        &mut self.builder
    }
}

impl Drop for ScratchRecord<'_> {
    #[inline]
    fn drop(&mut self) {
        self.me.scratch.set(std::mem::take(&mut self.builder).into_memory());
    }
}
