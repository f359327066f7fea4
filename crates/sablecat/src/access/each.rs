//! What is done with each record that a fold shows.

use std::ops::ControlFlow;

use super::btree::Several;

/// What is done with each record that a fold shows: a closure, as a rule. What knows more of the records may
/// do it for several at once, without asking of each what holds for all.
pub trait Each<B> {
    /// Makes something of what was made so far and a record.
    fn one(&mut self, so_far: B, key: &[u8], value: &[u8]) -> ControlFlow<B, B>;

    /// The same for several records one after the other.
    #[inline]
    fn several(&mut self, mut so_far: B, records: &mut Several<'_>) -> ControlFlow<B, B> {
        while let Some(some) = records.whole() {
            for (key, value) in some {
                so_far = self.one(so_far, key, value)?;
            }
        }
        ControlFlow::Continue(so_far)
    }
}

impl<B, F: FnMut(B, &[u8], &[u8]) -> ControlFlow<B, B>> Each<B> for F {
    #[inline(always)]
    fn one(&mut self, so_far: B, key: &[u8], value: &[u8]) -> ControlFlow<B, B> {
        self(so_far, key, value)
    }
}
