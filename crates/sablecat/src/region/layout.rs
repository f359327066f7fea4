//! Where each part of a region begins.

use sablecat_os::atomic::{AtomicU8, AtomicU64};
use sablecat_os::mapping::LARGE_PAGE;

use super::geometry::{LOG_WORDS_BYTES, Offsets, PAGES_A_WORD, STRUCTURE_LATCHES, WAIT_QUEUES};
use super::{FrameDesc, Geometry, Member, PageEntry, RegionHeader, RoleWord, Slot, WaitQueue};

impl Geometry {
    pub(super) fn offsets(&self) -> Offsets {
        let mut at = 0usize;
        let mut part = |bytes: usize, align: usize| {
            at = at.div_ceil(align) * align;
            let here = at;
            at += bytes;
            here
        };
        part(size_of::<RegionHeader>(), 4096);
        let log_words = part(LOG_WORDS_BYTES, 4096);
        let queues = part(WAIT_QUEUES * size_of::<WaitQueue>(), 4096);
        let structure = part(STRUCTURE_LATCHES * size_of::<RoleWord>(), 4096);
        let members = part(usize::from(self.members) * size_of::<Member>(), 4096);
        let slots = part(usize::from(self.slots) * size_of::<Slot>(), 4096);
        let locks = part(self.lock_words * size_of::<AtomicU64>(), 4096);
        let ring = part(self.ring_bytes, 4096);
        // What few frames need is not worth large pages of its own.
        let described = self.frames * size_of::<FrameDesc>();
        let align = if described < LARGE_PAGE / 4 { 4096 } else { LARGE_PAGE };
        let descriptors = part(described, align);
        let references = part(self.frames * size_of::<AtomicU8>(), 4096);
        let pages = usize::try_from(self.pages_max).expect("a 64-bit address space");
        let blocks = usize::try_from(self.blocks_max).expect("a 64-bit address space");
        let table = part(pages * size_of::<PageEntry>(), align);
        let page_bits = part(pages / 8, 4096);
        let block_bits = part(self.volumes * (blocks / 8), 4096);
        let words = pages / PAGES_A_WORD as usize * size_of::<AtomicU64>();
        let unsaved = part(words, 4096);
        let capturing = part(words, 4096);
        let frames = part(self.frames * self.block_size, LARGE_PAGE);
        let last_word = part(size_of::<AtomicU64>(), LARGE_PAGE);
        let end = part(0, 1);
        Offsets {
            log_words,
            queues,
            structure,
            members,
            slots,
            locks,
            ring,
            descriptors,
            references,
            table,
            page_bits,
            block_bits,
            unsaved,
            capturing,
            frames,
            last_word,
            end,
        }
    }
}
