//! How large the parts of a region are, and where each begins (layout.rs).

use std::ops::RangeInclusive;

use crate::types::BlockId;

/// Bytes kept for the log's words.
pub(crate) const LOG_WORDS_BYTES: usize = 4096;
/// Wait queues that waiters hash to.
pub(super) const WAIT_QUEUES: usize = 256;
/// Those below are for the latches of pages, the others for one structure latch or role each.
pub(crate) const PAGE_QUEUES: usize = 128;
/// Latches under which trees change shape; trees hash to them.
pub(crate) const STRUCTURE_LATCHES: usize = 64;

/// Volumes of an environment at most, the main one included: what the superblock has room for, about.
pub(crate) const VOLUMES_MAX: usize = 16;

/// Bytes that the log ring may have.
pub(crate) const RING_BYTES: RangeInclusive<usize> = 65536..=1 << 32;

/// Pages of a word in which something is said of each to checkpoints: half of it is a tag.
pub(crate) const PAGES_A_WORD: u64 = 32;
/// Page numbers that an environment may have.
const PAGES_MAX: u64 = 1 << 32;
/// Places for pages and blocks, where there are not places for all, come by so many.
const PLACES_STEP: u64 = 65536;

/// Processes that may share a region, and participants that they may have in all.
const MEMBERS_MAX: u16 = 1024;
const SHARED_SLOTS: u16 = 4096;

/// The sizes a region is created with. Two processes agree on all of them or do not share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Bytes of a frame, and of a block: a power of two from 512 to 65536.
    pub(crate) block_size: usize,
    /// Bytes of a page, which stands at the start of a frame.
    pub(crate) page_size: usize,
    /// Frames of the pool, frame 0 (never used) included.
    pub(crate) frames: usize,
    /// Participant slots, slot 0 (never used) included.
    pub(crate) slots: u16,
    /// Bytes of the log ring: a power of two among [`RING_BYTES`].
    pub(crate) ring_bytes: usize,
    /// Words of the lock table: a power of two.
    pub(crate) lock_words: usize,
    /// Page ids the table has room for, a multiple of 64.
    pub(crate) pages_max: u64,
    /// Blocks that the bitmap of each volume has room for, a multiple of 64.
    pub(crate) blocks_max: u64,
    /// Volumes, the main one included: bitmaps of blocks.
    pub(crate) volumes: usize,
    /// Processes that can be attached at once.
    pub(crate) members: u16,
}

/// Where each part begins, in bytes from the start of the mapping.
#[derive(Clone, Debug)]
pub(super) struct Offsets {
    pub(super) log_words: usize,
    pub(super) queues: usize,
    pub(super) structure: usize,
    pub(super) members: usize,
    pub(super) slots: usize,
    pub(super) locks: usize,
    pub(super) ring: usize,
    pub(super) descriptors: usize,
    pub(super) references: usize,
    pub(super) table: usize,
    pub(super) page_bits: usize,
    pub(super) block_bits: usize,
    pub(super) unsaved: usize,
    pub(super) capturing: usize,
    pub(super) frames: usize,
    pub(super) last_word: usize,
    pub(super) end: usize,
}

impl Geometry {
    /// The geometry for a pool of `cache_bytes` in frames of `block_size`, with pages as large, and a ring of
    /// `ring_bytes`.
    ///
    /// `bounded` says that pages are nowhere but in frames, so that no more ids are needed than there are
    /// frames.
    pub(crate) fn new(block_size: usize, cache_bytes: u64, ring_bytes: usize, bounded: bool) -> Geometry {
        assert!(block_size.is_power_of_two() && (512..=65536).contains(&block_size));
        assert!(ring_bytes.is_power_of_two() && RING_BYTES.contains(&ring_bytes));
        let frames = (cache_bytes / block_size as u64).clamp(64, u64::from(u32::MAX)) as usize + 1;
        Geometry {
            block_size,
            page_size: block_size,
            frames,
            slots: 1024,
            ring_bytes,
            lock_words: 1 << 16,
            pages_max: if bounded {
                (frames as u64 + PLACES_STEP).next_multiple_of(PLACES_STEP)
            } else {
                PAGES_MAX
            },
            blocks_max: if bounded { PLACES_STEP } else { BlockId::WITHIN_MAX },
            volumes: 1,
            members: 1,
        }
    }

    /// The same with pages that do not fill their frames.
    pub(crate) fn with_pages_of(self, page_size: usize) -> Geometry {
        assert!((self.block_size / 2..=self.block_size).contains(&page_size));
        Geometry { page_size, ..self }
    }

    /// The same with places for so many pages, and so many blocks of each volume, at most.
    pub(crate) fn with_places_for(self, pages: u64, blocks: u64) -> Geometry {
        let places =
            |wanted: u64, max: u64| wanted.checked_next_multiple_of(PLACES_STEP).unwrap_or(max).min(max);
        Geometry {
            pages_max: places(pages, self.pages_max),
            blocks_max: places(blocks, self.blocks_max),
            ..self
        }
    }

    /// Whether there are fewer places than an environment may need.
    pub(crate) fn is_limited(&self) -> bool {
        self.pages_max < PAGES_MAX
    }

    /// The same for many processes.
    pub(crate) fn shared(self) -> Geometry {
        Geometry { slots: SHARED_SLOTS, members: MEMBERS_MAX, ..self }
    }

    /// The same for an environment of so many volumes.
    pub(crate) fn with_volumes(self, volumes: usize) -> Geometry {
        assert!((1..=VOLUMES_MAX).contains(&volumes));
        Geometry { volumes, ..self }
    }

    /// Whether sizes read from somewhere are such as this module makes.
    pub(super) fn is_possible(&self) -> bool {
        self.block_size.is_power_of_two()
            && (512..=65536).contains(&self.block_size)
            && (self.block_size / 2..=self.block_size).contains(&self.page_size)
            && (64..=1 << 32).contains(&self.frames)
            && self.slots > 1
            && self.members > 0
            && self.ring_bytes.is_power_of_two()
            && RING_BYTES.contains(&self.ring_bytes)
            && self.lock_words.is_power_of_two()
            && self.lock_words <= 1 << 24
            && (64..=PAGES_MAX).contains(&self.pages_max)
            && (64..=BlockId::WITHIN_MAX).contains(&self.blocks_max)
            && (1..=VOLUMES_MAX).contains(&self.volumes)
    }
}
