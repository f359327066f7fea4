//! The words every layer counts in: log positions, pages, frames, trees, blocks.
//!
//! Each is a newtype over an integer so that the compiler keeps them apart; all are plain data and may live
//! in the region.

use std::fmt;

macro_rules! word {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        #[allow(unreachable_pub, reason = "some of the words are public, some are not")]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

word! {
    /// A log sequence number: a byte offset in the log since the environment was created. A commit's LSN is
    /// the end of its record.
    Lsn(u64)
}
/// Identifies what transactions have made of an environment: it is another one once a transaction has changed
/// something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(unreachable_pub, reason = "it is public for a crate of this project alone")]
pub struct Content {
    /// Over which state the last transaction to change something does.
    pub(crate) over: Lsn,
    /// Whether that is known to be published.
    pub(crate) is_published: bool,
}

word! {
    /// The stable number of a logical page. 0 names no page.
    PageId(u32)
}
word! {
    /// A frame of the buffer pool: a place in memory for one version of one page. 0 names no frame.
    FrameId(u32)
}
word! {
    /// The number of a tree. A named database's is never given twice in the life of an environment; the
    /// catalog's is 1; a subtree's follows from its root page.
    TreeId(u32)
}
word! {
    /// The number of a volume. 0 is the main one, `sablecat.db`.
    VolumeId(u8)
}
word! {
    /// A block of a volume: in the low 34 bits its place there, counted from the start of the file in
    /// page-size units, in the 6 above the volume. Place 0 names no block.
    BlockId(u64)
}

word! {
    /// A block in the form in which other places name it: in the low 40 bits its number, in the 20 above the
    /// *seal* of what was written there last, 20 bits of its checksum. Seal 0: not known, from before there
    /// were seals.
    SealedBlock(u64)
}

impl Lsn {
    /// The LSN after every commit: what "not yet superseded" is written as.
    pub const MAX: Lsn = Lsn(u64::MAX);
    /// All that commits have are lower than this.
    pub(crate) const END: Lsn = Lsn(1 << 62);
}
impl PageId {
    /// No page.
    pub const NONE: PageId = PageId(0);
}
impl FrameId {
    /// No frame.
    pub(crate) const NONE: FrameId = FrameId(0);
}
impl VolumeId {
    /// The main volume: it holds the superblocks, the map, and whatever is not placed elsewhere.
    pub(crate) const MAIN: VolumeId = VolumeId(0);

    /// The number as a place in an array.
    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}
impl BlockId {
    /// No block.
    pub(crate) const NONE: BlockId = BlockId(0);
    const WITHIN_BITS: u32 = 34;
    /// Places in a volume are below this.
    pub(crate) const WITHIN_MAX: u64 = 1 << Self::WITHIN_BITS;
    /// Numbers of blocks are below this.
    pub(crate) const MAX: u64 = 1 << 40;

    /// A place in a volume.
    #[inline]
    pub(crate) fn new(volume: VolumeId, within: u64) -> BlockId {
        debug_assert!(within < Self::WITHIN_MAX);
        BlockId(u64::from(volume.0) << Self::WITHIN_BITS | within)
    }

    /// Which volume it is in.
    #[inline]
    pub(crate) fn volume(self) -> VolumeId {
        VolumeId((self.0 >> Self::WITHIN_BITS) as u8)
    }

    /// Where it is in its volume.
    #[inline]
    pub(crate) fn within(self) -> u64 {
        self.0 & (Self::WITHIN_MAX - 1)
    }
}
const _: () = assert!(
    BlockId::MAX == 1 << SealedBlock::BLOCK_BITS
        && SealedBlock::BITS >> SealedBlock::BLOCK_BITS == SealedBlock::SEAL_MAX as u64
);
impl SealedBlock {
    /// No block.
    pub(crate) const NONE: SealedBlock = SealedBlock(0);
    const BLOCK_BITS: u32 = 40;
    const SEAL_MAX: u32 = (1 << 20) - 1;
    /// The bits of a word that a block and its seal take.
    pub(crate) const BITS: u64 = (1 << 60) - 1;

    /// A block with this checksum.
    #[inline]
    pub(crate) fn new(block: BlockId, checksum: u32) -> SealedBlock {
        // Never 0, which stands for what is not known.
        let seal = (checksum & Self::SEAL_MAX).max(1);
        SealedBlock(block.0 | u64::from(seal) << Self::BLOCK_BITS)
    }

    /// A block of whose content nothing is known.
    #[inline]
    pub(crate) fn unsealed(block: BlockId) -> SealedBlock {
        SealedBlock(block.0)
    }

    /// The block's number.
    #[inline]
    pub(crate) fn block(self) -> BlockId {
        BlockId(self.0 & (BlockId::MAX - 1))
    }

    /// Its seal; 0 if that is not known.
    #[inline]
    pub(crate) fn seal(self) -> u32 {
        (self.0 >> Self::BLOCK_BITS) as u32 & Self::SEAL_MAX
    }

    /// Whether a number read from somewhere has nothing but a block and its seal.
    pub(crate) fn is_possible(self) -> bool {
        self.0 & !Self::BITS == 0
    }
}

/// How many places there are for superblocks.
pub(crate) const BERTHS: usize = 4;

/// A place for superblocks (pages/volume/superblock.rs).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Berth(u8);

impl Berth {
    /// All there are.
    pub(crate) fn all() -> impl Iterator<Item = Berth> {
        (0..BERTHS as u8).map(Berth)
    }

    /// Where the superblock of a generation stands unless a participant that was stopped may still write
    /// there.
    pub(crate) fn usual(generation: u64) -> Berth {
        Berth((generation % 2) as u8)
    }

    /// Whether it is one of those that are used in turns.
    pub(crate) fn is_usual(self) -> bool {
        self.0 < 2
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}
