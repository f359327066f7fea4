//! The participant's log record in the making: memory that is lent and comes back, so that single operations
//! allocate nothing.

use std::ops::{Deref, DerefMut};

use crate::log::RecordBuilder;
use crate::pages::LocalParticipant;

/// A record builder over the participant's memory.
pub(in crate::txn) struct Record<'a> {
    me: &'a LocalParticipant,
    builder: RecordBuilder,
}

impl<'a> Record<'a> {
    #[inline]
    pub(in crate::txn) fn of(me: &'a LocalParticipant) -> Record<'a> {
        Record { me, builder: RecordBuilder::over(me.scratch.take()) }
    }
}

impl Deref for Record<'_> {
    type Target = RecordBuilder;
    #[inline]
    fn deref(&self) -> &RecordBuilder {
        &self.builder
    }
}

impl DerefMut for Record<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut RecordBuilder {
        &mut self.builder
    }
}

impl Drop for Record<'_> {
    #[inline]
    fn drop(&mut self) {
        self.me.scratch.set(std::mem::take(&mut self.builder).into_memory());
    }
}
