//! What is done with each record that a fold shows.

use std::ops::ControlFlow;

use super::btree::Several;

/// What is done with each record that a fold shows: a closure, as a rule. What knows more of the records may
/// do it for several at once, without asking of each what holds for all.
pub trait Each<B> {
    /// Makes something of what was made so far and a record.
    fn one(&mut self, so_far: B, key: &[u8], value: &[u8]) -> ControlFlow<B, B>;

    /// Whether more records are wanted than a leaf has, as far as is known: then the leaves that follow the
    /// first one are brought into the processor's cache in time.
    #[inline]
    fn wants_many(&self) -> bool {
        false
    }

    /// Some records of a leaf follow, `records` of the `of` that it has. Their values lie in `cells`, but for
    /// long ones, each right behind what its key has beyond `prefix`, with which all keys begin. What wants
    /// most of them may copy those at once, and find each value there by its address.
    #[inline(always)]
    fn leaf(&mut self, _prefix: &[u8], _cells: &[u8], _records: usize, _of: usize) {}

    /// The same for several records one after the other.
    #[inline]
    fn several(&mut self, mut so_far: B, records: &mut Several<'_>) -> ControlFlow<B, B> {
        while let Some(few) = records.whole() {
            for (key, value) in few {
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

/// Counts records.
pub(crate) struct Counting;

impl Each<u64> for Counting {
    #[inline(always)]
    fn one(&mut self, so_far: u64, _: &[u8], _: &[u8]) -> ControlFlow<u64, u64> {
        ControlFlow::Continue(so_far + 1)
    }

    #[inline]
    fn several(&mut self, mut so_far: u64, records: &mut Several<'_>) -> ControlFlow<u64, u64> {
        while records.next_in_place().is_some() {
            so_far += 1;
        }
        ControlFlow::Continue(so_far)
    }
}
