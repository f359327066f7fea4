//! A directory: a page that leads to buckets, or to further directories, by some bits of the hash.
//!
//! ```text
//!   0  ..   what all pages have (pages/header.rs); kind 6
//!  21  u8   level: how many bits of the hash lead here
//!  22  u8   bits: how many bits of the hash it tells apart
//!  23  u8   zero
//!  24  u64  the bits that lead here, from the highest on; the others are zero
//!  32  ..   2^bits bits, from the lowest of the first byte on: whether a slot leads to a directory
//!   .  ..   slots: page id u32
//! ```
//!
//! With pages of size P there are as many slots as have room in 32 + 2^bits * 4 1/8 bytes. What shares fewer
//! bits than a directory tells apart stands in several slots, which are neighbours.

use super::bucket::{HashPrefix, LEVEL_MAX};
use crate::pages::header::{self, at};
use crate::types::{PageId, TreeId};

/// The kind of these pages.
pub(crate) const KIND: u8 = 6;

const LEVEL_AT: usize = 21;
const BITS_AT: usize = 22;
const PREFIX_AT: usize = 24;
const MARKS_AT: usize = 32;
const SLOT_BYTES: usize = 4;

/// How many bits of a hash a directory tells apart.
pub(super) const fn bits(page_size: usize) -> u8 {
    let mut bits = 3;
    while MARKS_AT + (2 << bits) / 8 + SLOT_BYTES * (2 << bits) <= page_size {
        bits += 1;
    }
    bits
}

/// Where slots begin.
#[inline(always)]
fn slots_at(bits: u8) -> usize {
    MARKS_AT + (1 << bits) / 8
}

/// What a slot leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Child {
    pub(super) page: PageId,
    pub(super) is_directory: bool,
}

impl Child {
    pub(super) fn bucket(page: PageId) -> Child {
        Child { page, is_directory: false }
    }

    pub(super) fn directory(page: PageId) -> Child {
        Child { page, is_directory: true }
    }
}

/// A page that passed [`check`].
#[derive(Clone, Copy)]
pub(super) struct Directory<'p> {
    bytes: &'p [u8],
}

impl<'p> Directory<'p> {
    #[inline(always)]
    pub(super) fn new(bytes: &'p [u8]) -> Directory<'p> {
        Directory { bytes }
    }

    /// Which hashes it is for.
    #[inline(always)]
    pub(super) fn stretch(self) -> HashPrefix {
        let [level] = at(self.bytes, LEVEL_AT);
        HashPrefix { level, prefix: u64::from_le_bytes(at(self.bytes, PREFIX_AT)) }
    }

    /// How many bits it tells apart.
    #[inline(always)]
    pub(super) fn bits(self) -> u8 {
        let [bits] = at(self.bytes, BITS_AT);
        bits
    }

    /// How many slots it has.
    pub(super) fn count(self) -> usize {
        1 << self.bits()
    }

    /// The slot for a hash.
    #[inline(always)]
    pub(super) fn slot_of(self, hash: u64) -> usize {
        (hash << self.stretch().level >> (LEVEL_MAX - self.bits())) as usize
    }

    /// The first of the hashes that a slot is for.
    pub(super) fn first_hash(self, slot: usize) -> u64 {
        let stretch = self.stretch();
        stretch.prefix | (slot as u64) << (LEVEL_MAX - self.bits()) >> stretch.level
    }

    /// What a slot leads to.
    #[inline(always)]
    pub(super) fn child(self, slot: usize) -> Child {
        let [marks] = at(self.bytes, MARKS_AT + slot / 8);
        let page = u32::from_le_bytes(at(self.bytes, slots_at(self.bits()) + SLOT_BYTES * slot));
        Child { page: PageId(page), is_directory: marks >> (slot % 8) & 1 != 0 }
    }

    /// The slots that hashes of a stretch have. It is within this one.
    pub(super) fn slots_of(self, stretch: HashPrefix) -> std::ops::Range<usize> {
        let first = self.slot_of(stretch.prefix);
        let below = (self.stretch().level + self.bits()).saturating_sub(stretch.level);
        first..(first + (1 << below.min(self.bits()))).min(self.count())
    }

    /// What it leads to, in order: each once, with its first slot.
    pub(super) fn children(self) -> impl Iterator<Item = (usize, Child)> {
        (0..self.count())
            .map(move |slot| (slot, self.child(slot)))
            .filter(move |&(slot, child)| slot == 0 || self.child(slot - 1) != child)
    }

    /// What it leads to, if that is one thing.
    pub(super) fn only_child(self) -> Option<Child> {
        let first = self.child(0);
        (1..self.count()).all(|slot| self.child(slot) == first).then_some(first)
    }
}

/// A page that passed [`check`], to be changed.
pub(super) struct DirectoryMut<'p> {
    bytes: &'p mut [u8],
}

impl<'p> DirectoryMut<'p> {
    pub(super) fn new(bytes: &'p mut [u8]) -> DirectoryMut<'p> {
        DirectoryMut { bytes }
    }

    /// Makes a directory that leads to one thing.
    pub(super) fn format(
        bytes: &'p mut [u8],
        (page, tree): (PageId, TreeId),
        stretch: HashPrefix,
        child: Child,
    ) {
        bytes.fill(0);
        header::form(bytes, page, tree, KIND);
        bytes[LEVEL_AT] = stretch.level;
        bytes[BITS_AT] = bits(bytes.len());
        bytes[PREFIX_AT..PREFIX_AT + 8].copy_from_slice(&stretch.prefix.to_le_bytes());
        let mut directory = DirectoryMut { bytes };
        let all = 0..Directory::new(directory.bytes).count();
        directory.set(all, child);
    }

    /// Has slots lead elsewhere.
    pub(super) fn set(&mut self, slots: std::ops::Range<usize>, child: Child) {
        let begin = slots_at(Directory::new(self.bytes).bits());
        for slot in slots {
            let mark = 1 << (slot % 8);
            let marks = &mut self.bytes[MARKS_AT + slot / 8];
            *marks = if child.is_directory { *marks | mark } else { *marks & !mark };
            let place = begin + SLOT_BYTES * slot;
            self.bytes[place..place + SLOT_BYTES].copy_from_slice(&child.page.0.to_le_bytes());
        }
    }
}

/// Tells whether bytes that say they are a directory can be worked on.
pub(crate) fn check(page: &[u8]) -> Result<(), String> {
    if !header::is_page_size(page.len()) {
        return Err(format!("{} bytes are no page", page.len()));
    }
    let this = Directory::new(page);
    if this.bits() != bits(page.len()) {
        return Err(format!("a directory of {} bits", this.bits()));
    }
    let stretch = this.stretch();
    if !stretch.is_sound() || stretch.level == LEVEL_MAX || !stretch.level.is_multiple_of(this.bits()) {
        return Err("the hashes that it says it is for are none that a directory can be for".to_owned());
    }
    Ok(())
}
