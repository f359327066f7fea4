//! Allocation: numbers of pages and of blocks, each in use or free.
//!
//! Both are bits in shared memory (`space`), those of blocks for each volume (`blocks`). A participant that
//! has numbers that nothing names yet, or any more, says so (participants/hand.rs): what the dead had in hand
//! is found by that (store/lost.rs).

mod blocks;
mod space;
mod used;

pub(crate) use blocks::{BlockSpace, UsedBlocks, VolumeBounds, first_within};
pub(in crate::pages) use blocks::{EXTRA_RESERVED_BYTES, RESERVED_BYTES};
pub(crate) use space::BitSpace;
#[cfg(test)]
pub(in crate::pages) use space::tests::Owned;
pub(crate) use used::Used;
