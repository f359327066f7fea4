//! The page table: one 16-byte entry a page id.
//!
//! Word A = {frame 32 | latch owner 16 | unused 16}: the frame of the page's current version (0: not in
//! memory) and the slot that holds its latch (0: nobody). Word B = {block 40 | seal 20 | flags 4}: where the
//! current version can be read from when A names no frame, and the seal that it is to have there. While it is
//! being written its seal is not known: there stands {block 40 | writer 16 | 0 4 | flags 4}.
//!
//! A is written by compare-and-swap only: to latch, to unlatch, and by the commit step from {old, owner} to
//! {new, nobody}. B is written by the holder of the latch, once from zero by the participant that reads the
//! page's map leaf, and for a page whose id nobody knows yet by the participant that is storing it
//! (pages/store/run.rs).

use sablecat_os::atomic::{AtomicU64, Ordering};

use crate::types::{BlockId, FrameId, SealedBlock, VolumeId};

/// One page's entry.
#[repr(C, align(16))]
#[derive(Debug)]
pub(crate) struct PageEntry {
    a: AtomicU64,
    b: AtomicU64,
}

/// Word A, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EntryWord(u64);

impl EntryWord {
    #[inline]
    pub(crate) fn new(frame: FrameId, owner: u16) -> EntryWord {
        EntryWord(u64::from(frame.0) | u64::from(owner) << 32)
    }
    #[inline]
    pub(crate) fn frame(self) -> FrameId {
        FrameId(self.0 as u32)
    }
    #[inline]
    pub(crate) fn owner(self) -> u16 {
        (self.0 >> 32) as u16
    }
}

/// Bits of a word B for the block's number; where the version is on no block, they say in which volume it is
/// to be.
const BLOCK_BITS: u32 = 40;

/// A block and what is known of it: word B of an entry, and the same word in a frame's descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct BlockWord(pub(crate) u64);

impl BlockWord {
    /// Set in an entry once its map leaf was read, so that "no block" differs from "not looked up yet".
    const KNOWN: u64 = 1 << 63;
    /// A checkpoint has named this block: from then on only checkpoints free it.
    const CAPTURED: u64 = 1 << 62;
    /// The block is allocated but its write has not finished.
    const WRITING: u64 = 1 << 61;
    /// The page belongs to the run of the page before it and was written past the pool (pages/store/run.rs):
    /// captured with the run's first page, and of no meaning after that.
    const REST: u64 = 1 << 60;
    const BLOCK: u64 = (1 << BLOCK_BITS) - 1;
    /// While it is being written: by the participant of which slot.
    const WRITER: u64 = 0xffff << BLOCK_BITS;

    /// A known block, not captured.
    #[inline]
    pub(crate) fn fresh(block: SealedBlock) -> BlockWord {
        BlockWord(block.0 | Self::KNOWN)
    }
    /// Known to be on no block yet; it will be given one in this volume.
    #[inline]
    pub(crate) fn unwritten(volume: VolumeId) -> BlockWord {
        BlockWord(BlockId::new(volume, 0).0 | Self::KNOWN)
    }
    /// No page, and so on no block.
    pub(crate) const NOTHING: BlockWord = BlockWord(Self::KNOWN);
    /// On no block any more; it will be given another one in the same volume.
    #[inline]
    pub(crate) fn dropped(self) -> BlockWord {
        Self::unwritten(self.volume())
    }
    /// A block that the durable map names.
    #[inline]
    pub(crate) fn mapped(block: SealedBlock) -> BlockWord {
        BlockWord(block.0 | Self::KNOWN | if block.0 == 0 { 0 } else { Self::CAPTURED })
    }
    #[inline]
    pub(crate) fn block(self) -> BlockId {
        let block = BlockId(self.0 & Self::BLOCK);
        if block.within() == 0 { BlockId::NONE } else { block }
    }
    /// The block, and the seal that it is to have unless it is being written.
    #[inline]
    pub(crate) fn sealed(self) -> SealedBlock {
        match self.block() {
            BlockId::NONE => SealedBlock::NONE,
            block if self.is_writing() => SealedBlock::unsealed(block),
            _ => SealedBlock(self.0 & SealedBlock::BITS),
        }
    }
    /// The volume of the block, or of the one that it will be given.
    #[inline]
    pub(crate) fn volume(self) -> VolumeId {
        BlockId(self.0 & Self::BLOCK).volume()
    }
    #[inline]
    pub(crate) fn is_known(self) -> bool {
        self.0 & Self::KNOWN != 0
    }
    #[inline]
    pub(crate) fn is_captured(self) -> bool {
        self.0 & Self::CAPTURED != 0
    }
    #[inline]
    pub(crate) fn is_writing(self) -> bool {
        self.0 & Self::WRITING != 0
    }
    /// True when the version's bytes can be read back from its block.
    #[inline]
    pub(crate) fn is_saved(self) -> bool {
        self.block() != BlockId::NONE && !self.is_writing()
    }
    #[inline]
    pub(crate) fn captured(self) -> BlockWord {
        BlockWord(self.0 | Self::CAPTURED)
    }
    /// No checkpoint's any more: the participant that frees the page releases the block.
    #[inline]
    pub(crate) fn uncaptured(self) -> BlockWord {
        BlockWord(self.0 & !Self::CAPTURED)
    }
    #[inline]
    pub(crate) fn rest(self) -> BlockWord {
        BlockWord(self.0 | Self::REST)
    }
    #[inline]
    pub(crate) fn is_rest(self) -> bool {
        self.0 & Self::REST != 0
    }
    #[inline]
    pub(crate) fn writing(self, writer: u16) -> BlockWord {
        BlockWord(self.0 | Self::WRITING | u64::from(writer) << BLOCK_BITS)
    }
    /// The slot of the participant that writes the block, while it is being written.
    #[inline]
    pub(crate) fn writer(self) -> u16 {
        ((self.0 & Self::WRITER) >> BLOCK_BITS) as u16
    }
    /// The same once it has been written, with what seal.
    #[inline]
    pub(crate) fn written(self, block: SealedBlock) -> BlockWord {
        debug_assert_eq!(block.block(), self.block());
        BlockWord(self.0 & !(Self::WRITING | Self::WRITER) | block.0)
    }
}

impl PageEntry {
    /// Word A. Acquire: pairs with the swing in the commit step and with page-in, so the frame's bytes are
    /// seen.
    #[inline]
    pub(crate) fn word(&self) -> EntryWord {
        EntryWord(self.a.load(Ordering::Acquire))
    }

    /// Word A, in one order with all changes of entries and looks at the count of epochs
    /// (pages/visibility/unchanged.rs).
    #[inline]
    pub(crate) fn word_in_order(&self) -> EntryWord {
        EntryWord(self.a.load(Ordering::SeqCst))
    }

    /// Replaces word A if it still is `from`. Sequentially consistent: the unsaved-bit protocol needs the
    /// swing and the later look at the bit in order (pages/store/checkpoint.rs).
    #[inline]
    pub(crate) fn change(&self, from: EntryWord, to: EntryWord) -> bool {
        self.a.compare_exchange(from.0, to.0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Word B.
    #[inline]
    pub(crate) fn block(&self) -> BlockWord {
        BlockWord(self.b.load(Ordering::Acquire))
    }

    /// Sets word B; the caller holds the latch.
    #[inline]
    pub(crate) fn set_block(&self, word: BlockWord) {
        self.b.store(word.0, Ordering::Release);
    }

    /// Fills word B from the map unless somebody has filled it.
    #[inline]
    pub(crate) fn learn_block(&self, word: BlockWord) {
        // A lost race leaves what the other wrote, which is the same or newer.
        let _ = self.b.compare_exchange(0, word.0, Ordering::AcqRel, Ordering::Relaxed);
    }
}
