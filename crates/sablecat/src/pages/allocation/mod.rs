//! Allocation: numbers of pages and of blocks, each in use or free.
//!
//! Both are bits in shared memory (`space`), those of blocks for each volume (`blocks`). Whoever has numbers
//! that nothing names yet, or any more, says so (`hand`): what the dead had in hand is found by that
//! (`lost`).

mod blocks;
pub(in crate::pages) mod hand;
mod lost;
mod space;
mod used;

pub(crate) use blocks::{BlockSpace, Bounds, UsedBlocks, first_within};
pub(crate) use lost::Lost;
pub(crate) use space::BitSpace;
#[cfg(test)]
pub(in crate::pages) use space::tests::Owned;
pub(crate) use used::Used;
