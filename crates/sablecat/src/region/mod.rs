//! The region: the one mapped segment in which everything shared lives.
//!
//! ```text
//! 0 ─ header ─ log words ─ wait queues ─ structure latches ─ members ─ slots ─ lock table
//!   ─ log ring ─ frame descriptors ─ reference bytes ─ page table ─ page-id bits ─ block bits ─ unsaved bits
//!   ─ capturing bits ─ (2 MiB boundary) frames
//!   ─ (2 MiB boundary) last word
//! ```
//!
//! Every reference inside it is an offset or an index, never a pointer, so the same bytes work at whatever
//! address a process maps them. The page table and the bitmaps are sized for the largest volume and touched
//! only where used: the mapping is lazy, and an untouched page of it costs nothing.
//!
//! A shared region is a file in memory, which the kernel keeps in small pages unless told otherwise. So what
//! all processes use is gathered in large pages when its memory is made certain: the parts up to
//! the log's ring at creation, frames and what describes them as they come into use ([decision
//! 17](../../../../docs/decisions/0017-large-pages.md)).
//!
//! Rules of the region: every word is an atomic; each type says which participants may write its words and
//! what a reader finds if that writer dies. The bytes of a frame are plain memory, written only by the one
//! participant that holds the frame as *building*, and immutable from its publication until the frame is
//! freed.
//!
//! This module and its children hold the casts between the mapping and its types; `unsafe` stands here and
//! nowhere above, except for the modules that turn a frame into a page.

mod berth;
mod bitmap;
mod bytes;
mod counts;
mod entry;
mod fence;
mod frame;
mod geometry;
mod guard;
mod header;
mod label;
mod layout;
mod member;
mod membership;
mod ready;
mod role;
mod slot;
#[cfg(test)]
pub(crate) mod tests;
mod wait;

pub(crate) use berth::{BerthWords, DRAFT_BYTES, GENERATION_MAX, Moored, Stage};
pub(crate) use bitmap::{BitmapLevel, LEVELS_MAX, divide};
pub(crate) use bytes::SEARCH_LINES;
pub(crate) use entry::{BlockWord, EntryWord, PageEntry};
pub(crate) use frame::{FrameDesc, FrameState};
pub(crate) use geometry::{
    Geometry, LOG_WORDS_BYTES, PAGE_QUEUES, PAGES_A_WORD, RING_BYTES, STRUCTURE_LATCHES, VOLUMES_MAX,
};
pub(crate) use guard::DiskGuard;
pub(crate) use header::{
    CachePadded, RECENT_MAX, Rebuilds, RecentPages, RegionHeader, RegionIdentity, TAKEN_GROUPS,
};
pub(crate) use member::{Member, MemberIncarnation};
pub(crate) use membership::Membership;
pub(crate) use role::{HeldRole, Role, RoleHolding, RoleWatch, RoleWord, WRITTEN_QUEUE, Work};
pub(crate) use slot::{ANY_FRAME, ListItem, NO_EPOCH, Phase, SLOT_LIST_INLINE, Slot, SlotCounter, Tenant};
pub(crate) use wait::{RegionQueue, Sleepers, WaitPhase, WaitQueue};

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use sablecat_os::atomic::{AtomicU8, AtomicU64, Ordering};
use sablecat_os::machine;
use sablecat_os::mapping::Mapping;

use self::fence::Fence;
use self::geometry::Offsets;
use crate::error::{Error, Result};
use crate::types::{FrameId, Lsn, PageId, VolumeId};

/// Where in a page the LSN is at which its version became current.
pub(crate) const BORN_AT: usize = 8;

/// What to do about a shared region that cannot grow.
pub(crate) const MEMORY_IS_FULL: &str = "the file system that holds the environment's shared memory is \
                                         full; enlarge it, choose a smaller cache, or another place \
                                         (Builder::region_directory)";

/// What is in the last word of a shared region.
const WHOLE: u64 = u64::from_le_bytes(*b"the end.");

/// A mapped region and where its parts begin.
pub(crate) struct Region {
    mapping: Mapping,
    base: NonNull<u8>,
    geometry: Geometry,
    offsets: Offsets,
    /// Which of the processes that share the region this is; none when it is private.
    membership: Option<Membership>,
    /// What says whether this process was taken for dead, or is a child of the one that mapped this. At hand,
    /// since it is asked before nearly everything.
    fence: Fence,
    /// What stands between a shared one and the files.
    guard: OnceLock<Arc<DiskGuard>>,
    /// What to do when a wait takes long: a participant that died may be in the way.
    stalled: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Until when, by the monotonic clock in milliseconds, this process asks for no memory for more frames. A
    /// hint.
    refused_until: AtomicU64,
}

// SAFETY: all state behind `base` and in the fence is atomics, or frame bytes under the publication protocol
// of the module essay.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}

impl Region {
    /// Whether this process can have the address space that a region takes; and make a file as long, if it is
    /// to be `shared`.
    pub(crate) fn can_be(geometry: &Geometry, shared: bool) -> bool {
        let is_file_possible = || {
            let bytes = geometry.clone().shared().offsets().end as u64;
            machine::file_bytes_max().is_none_or(|most| bytes <= most)
        };
        Mapping::anonymous(geometry.offsets().end).is_ok() && (!shared || is_file_possible())
    }

    /// A new region in anonymous memory of this process alone.
    ///
    /// # Errors
    /// `MemoryFull` if there is no address space for it.
    pub(crate) fn private(geometry: Geometry) -> Result<Region> {
        let offsets = geometry.offsets();
        let mapping = Mapping::anonymous(offsets.end).map_err(|e| no_memory(offsets.end, &e))?;
        mapping.advise_huge(offsets.frames, offsets.last_word - offsets.frames);
        let region = Region::at(mapping, geometry)?;
        region.create(RegionIdentity::default(), u64::MAX);
        Ok(region)
    }

    /// A new region in a file that other processes will map, for which there is room for the least it needs.
    /// It is not ready yet.
    ///
    /// # Errors `MemoryFull` if the file system that holds it is too small, or this process may make no file
    /// as long; those of the system.
    pub(crate) fn create_shared(
        (file, path): (File, &Path),
        geometry: Geometry,
        identity: RegionIdentity,
        membership: Membership,
    ) -> Result<Region> {
        let offsets = geometry.offsets();
        if let Some(most) = machine::file_bytes_max().filter(|&most| offsets.end as u64 > most) {
            return Err(Error::memory_full(format!(
                "the shared memory is a file of {} bytes, most of them a hole, and this process may make \
                 files of {most}; allow it as much (ulimit -f), or choose a smaller cache \
                 (Builder::cache_size)",
                offsets.end
            )));
        }
        file.set_len(offsets.end as u64).map_err(|e| Error::io("sizing the shared memory", path, e))?;
        let mapping = Mapping::file(file, offsets.end).map_err(|e| no_memory(offsets.end, &e))?;
        mapping.advise_huge(offsets.frames, offsets.last_word - offsets.frames);
        let region = Region::at(mapping, geometry)?;
        region.gather(0..region.offsets.descriptors)?;
        region.describe_frames(&(0..1))?;
        region.reserve(region.offsets.last_word, size_of::<AtomicU64>())?;
        region.last_word().store(WHOLE, Ordering::Relaxed);
        let region = region.joined_as(membership)?;
        region.create(identity, 0);
        Ok(region)
    }

    /// A region that others made, if it is for this environment and this build: to look at, until
    /// [`Region::joined_as`]. Nothing but its header is mapped before that is found to be so.
    ///
    /// # Errors
    /// Invalid, saying why it is not such a region; others are the system's, and say nothing about it.
    pub(crate) fn attach(file: (File, &Path), identity: RegionIdentity) -> Result<Region> {
        Region::attach_by(Mapping::file, file, identity)
    }

    /// The same, to look at and nothing else: for a process that may perhaps not even write to it. Whatever
    /// of it is changed through this is a fault of the process.
    ///
    /// # Errors
    /// As [`Region::attach`].
    pub(crate) fn look_at(
        file: (File, &Path),
        identity: RegionIdentity,
        outside: Membership,
    ) -> Result<Region> {
        Region::attach_by(Mapping::file_to_look_at, file, identity)
            .and_then(|region| region.joined_as(outside))
    }

    fn attach_by(
        map: fn(File, usize) -> std::io::Result<Mapping>,
        (file, path): (File, &Path),
        identity: RegionIdentity,
    ) -> Result<Region> {
        let looking = |e| Error::io("looking at the shared memory", path, e);
        let length = file.metadata().map_err(looking)?.len();
        if length < size_of::<RegionHeader>() as u64 {
            return Err(Error::invalid("it is too short"));
        }
        let start = map(file.try_clone().map_err(looking)?, size_of::<RegionHeader>())
            .map_err(|e| no_memory(size_of::<RegionHeader>(), &e))?;
        // SAFETY: the mapping is long enough for a header, page-aligned, and a header consists of atomics,
        // valid for any bytes.
        let geometry = unsafe { start.base().cast::<RegionHeader>().as_ref() }.judge(identity)?;
        let end = geometry.offsets().end;
        if end as u64 != length {
            return Err(Error::invalid("its length is not what its sizes come to"));
        }
        let mapping = map(file, end).map_err(|e| no_memory(end, &e))?;
        let region = Region::at(mapping, geometry)?;
        if !region.has_end() {
            return Err(Error::invalid("its end was cut off once"));
        }
        region.check_bounds()?;
        Ok(region)
    }

    /// What the file of a shared region ends in: a process that makes it shorter takes this away or leaves
    /// zeros, also if it is made as long again.
    fn last_word(&self) -> &AtomicU64 {
        self.part(self.offsets.last_word, 0)
    }

    /// Whether the end of a shared region is there.
    fn has_end(&self) -> bool {
        self.last_word().load(Ordering::Acquire) == WHOLE
    }

    /// Whether everything that says where something is stays within the region.
    fn check_bounds(&self) -> Result<()> {
        self.header().check_bounds(&self.geometry)?;
        if (0..STRUCTURE_LATCHES).any(|index| self.structure(index).look().owner() >= self.geometry.slots) {
            return Err(Error::invalid("the owner of a structure latch is impossible"));
        }
        let out_of_bounds = |slot: &Slot| slot.member().is_some_and(|member| member >= self.geometry.members);
        match (1..self.geometry.slots).find(|&slot| out_of_bounds(self.slot(slot))) {
            Some(slot) => Err(Error::invalid(format!("the owner of slot {slot} is impossible"))),
            None => Ok(()),
        }
    }

    /// The region as one of its members, or looked at from outside.
    ///
    /// # Errors
    /// Those of being told of forks.
    pub(crate) fn joined_as(self, membership: Membership) -> Result<Region> {
        if membership.number >= self.geometry.members {
            return Ok(Region { membership: Some(membership), ..self });
        }
        let member = self.member(membership.number);
        let fence = Fence::of_member(member)?;
        fence.watch(&self.mapping);
        Ok(Region { membership: Some(membership), fence, ..self })
    }

    /// A new region in memory that [`Region::again`] can map a second time.
    #[cfg(test)]
    pub(crate) fn shareable(geometry: Geometry) -> Result<Region> {
        let end = geometry.offsets().end;
        let mapping = Mapping::shared_memory(end).map_err(|e| no_memory(end, &e))?;
        let region = Region::at(mapping, geometry)?;
        region.create(RegionIdentity::default(), u64::MAX);
        Ok(region)
    }

    /// The same region, mapped at another address.
    #[cfg(test)]
    pub(crate) fn again(&self) -> Result<Region> {
        let mapping = self.mapping.again().map_err(|e| no_memory(self.offsets.end, &e))?;
        Region::at(mapping, self.geometry.clone())
    }

    fn at(mapping: Mapping, geometry: Geometry) -> Result<Region> {
        let offsets = geometry.offsets();
        assert!(mapping.len() >= offsets.end, "the mapping holds the whole region");
        let base = mapping.base();
        let fence = Fence::of_nobody()?;
        fence.watch(&mapping);
        Ok(Region {
            mapping,
            base,
            geometry,
            offsets,
            membership: None,
            fence,
            guard: OnceLock::new(),
            stalled: OnceLock::new(),
            refused_until: AtomicU64::new(0),
        })
    }

    /// Fills in what is not zero in a fresh region; memory comes zeroed. `ready` is below what there is
    /// memory for certain: everything, or nothing yet. A private region is ready with that.
    fn create(&self, identity: RegionIdentity, ready: u64) {
        for slot in 0..self.geometry.slots {
            self.slot(slot).reset();
        }
        let header = self.header();
        header.create(&self.geometry, identity);
        header.frames_ready.0.store(ready.clamp(1, self.geometry.frames as u64), Ordering::Relaxed);
        header.pages_ready.store(ready, Ordering::Relaxed);
        header
            .blocks
            .iter()
            .for_each(|volume| volume.0.ready.store(ready.min(self.geometry.blocks_max), Ordering::Relaxed));
        if self.membership.is_none() {
            header.set_ready();
        }
    }

    /// Counts that some of these numbers, page ids or blocks of one of the volumes, are about to be taken, if
    /// anybody looks for what is lost.
    #[inline]
    pub(crate) fn count_taken(&self, space: usize, numbers: Range<u64>) {
        // SeqCst: see `Slot::begin_hand`. So is the count, before the number is taken: a participant that
        // finds that taken finds it counted.
        if self.header().suspecting.0.load(Ordering::SeqCst) != 0 {
            let words = numbers.start / 64..numbers.end.div_ceil(64);
            for word in words.take(TAKEN_GROUPS) {
                self.header().taken[taken_group(space, word * 64)].fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    /// This process's number among the members; 0 when the region is private.
    #[inline]
    pub(crate) fn number(&self) -> u16 {
        self.membership.as_ref().map_or(0, |membership| membership.number)
    }

    /// Whether the file of the region is the one at a path now.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn is_at(&self, path: &Path) -> Result<bool> {
        self.mapping.is_of(path).map_err(|e| Error::io("looking at", path, e))
    }

    /// This process's membership, if the region is shared.
    pub(crate) fn membership(&self) -> Option<&Membership> {
        self.membership.as_ref()
    }

    /// A member's place.
    pub(crate) fn member(&self, number: u16) -> &Member {
        assert!(number < self.geometry.members);
        self.part(self.offsets.members, usize::from(number))
    }

    /// Whether the participant in a slot lives. One that cannot be asked after counts as alive: nothing is
    /// ever taken from the living.
    pub(crate) fn is_alive(&self, slot: u16) -> bool {
        match (self.slot(slot).member(), &self.membership) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(member), Some(membership)) => membership.is_alive(member),
        }
    }

    /// Whether the participant in a slot, which holds something, is dead. If so its member is another
    /// incarnation when this returns: should its process live after all, it touches nothing shared any more.
    /// `holds_still` says whether it still holds it.
    ///
    /// A member that has left by itself, or was reaped, holds nothing, and a process that has its number
    /// since must not be fenced. So the incarnation is read first, and changed from that only: a process that
    /// reaps has changed it before.
    pub(crate) fn is_dead_and_fenced(&self, slot: u16, holds_still: &dyn Fn() -> bool) -> bool {
        let (Some(member), Some(membership)) = (self.slot(slot).member(), &self.membership) else {
            return !self.is_alive(slot);
        };
        if member >= self.geometry.members {
            return !membership.is_alive(member);
        }
        let incarnation = self.member(member).incarnation().load(Ordering::SeqCst);
        let is_dead =
            self.slot(slot).member() == Some(member) && !membership.is_alive(member) && holds_still();
        if is_dead {
            self.member(member).fence_from(incarnation);
        }
        is_dead
    }

    /// Whether the process of the participant in a slot is seen to be stopped; none if that is this process.
    pub(crate) fn is_stopped(&self, slot: u16) -> Option<bool> {
        let (member, own) = (self.slot(slot).member()?, self.membership.as_ref()?.number);
        let is_other = member != own && member < self.geometry.members;
        // Numbers of another namespace are others' here, or nobody's: then the answer means nothing.
        is_other.then(|| sablecat_os::liveness::is_stopped(self.member(member).pid()))
    }

    /// Says from where on this process reads the log (none: nowhere), and that it wants no more of it than
    /// `lag_max` bytes.
    ///
    /// # Errors
    /// `Poisoned` if this process was taken for dead.
    pub(crate) fn want_log(&self, from: Option<Lsn>, lag_max: u64) -> Result<()> {
        let (member, incarnation) = self.as_member().unwrap_or((self.member(0), 0));
        if member.want_log(incarnation, from, lag_max) { Ok(()) } else { Err(self.fenced()) }
    }

    /// From where on processes want the log that ends at `tail`.
    pub(crate) fn log_wanted(&self, tail: Lsn) -> Option<Lsn> {
        (0..self.geometry.members).filter_map(|number| self.member(number).log_wanted(tail)).min()
    }

    /// Says what to do when a wait takes long.
    pub(crate) fn when_stalled(&self, act: impl Fn() + Send + Sync + 'static) {
        let _ = self.stalled.set(Box::new(act));
    }

    /// A wait takes long.
    #[cold]
    pub(crate) fn stall(&self) {
        if let Some(act) = self.stalled.get() {
            act();
        }
    }

    /// What the region was sized for.
    #[inline]
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The bytes of one page.
    #[inline]
    pub(crate) fn page_size(&self) -> usize {
        self.geometry.page_size
    }

    #[inline]
    fn part<T>(&self, offset: usize, index: usize) -> &T {
        // SAFETY: `offset` is the start of an array of `T` inside the mapping (geometry.rs lays the parts out
        // with their sizes and alignments); callers bound `index` by the array's length. All `T` used here
        // consist of atomics, valid for any bytes.
        unsafe { &*self.base.as_ptr().add(offset).cast::<T>().add(index) }
    }

    /// The header's words.
    #[inline]
    pub(crate) fn header(&self) -> &RegionHeader {
        self.part(0, 0)
    }

    /// Where the log keeps its words: [`LOG_WORDS_BYTES`] zeroed bytes.
    pub(crate) fn log_words(&self) -> NonNull<u8> {
        self.pointer(self.offsets.log_words)
    }

    /// The log ring's memory, `geometry().ring_bytes` long, 4096-aligned.
    pub(crate) fn ring(&self) -> NonNull<u8> {
        self.pointer(self.offsets.ring)
    }

    fn pointer(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset < self.mapping.len());
        // SAFETY: the offset lies inside the mapping.
        unsafe { self.base.add(offset) }
    }

    /// The wait queue for things hashed to `hash`.
    #[inline]
    pub(crate) fn queue(&self, hash: usize) -> RegionQueue<'_> {
        RegionQueue { words: self.part(self.offsets.queues, hash % geometry::WAIT_QUEUES), region: self }
    }

    /// The `index`-th structure latch.
    #[inline]
    fn structure(&self, index: usize) -> &RoleWord {
        assert!(index < STRUCTURE_LATCHES);
        self.part(self.offsets.structure, index)
    }

    /// A participant's slot. Slot 0 is never used, so that 0 can mean "nobody".
    #[inline]
    pub(crate) fn slot(&self, slot: u16) -> &Slot {
        assert!(slot < self.geometry.slots);
        self.part(self.offsets.slots, usize::from(slot))
    }

    /// The lock table's words: a power of two of them, zeroed in a new region.
    #[inline]
    pub(crate) fn lock_words(&self) -> (NonNull<AtomicU64>, usize) {
        (self.pointer(self.offsets.locks).cast(), self.geometry.lock_words)
    }

    /// The descriptor of a frame.
    #[inline]
    pub(crate) fn frame(&self, frame: FrameId) -> &FrameDesc {
        assert!((frame.0 as usize) < self.geometry.frames);
        self.part(self.offsets.descriptors, frame.0 as usize)
    }

    /// The byte that readers set when they use a frame while the pool is under pressure.
    #[inline]
    pub(crate) fn referenced(&self, frame: FrameId) -> &AtomicU8 {
        assert!((frame.0 as usize) < self.geometry.frames);
        self.part(self.offsets.references, frame.0 as usize)
    }

    /// The page table's entry of a page. Any page id has one; an id never used has a zero entry.
    #[inline]
    pub(crate) fn entry(&self, page: PageId) -> &PageEntry {
        // The table is laid out for every id below `pages_max`; ids beyond are refused where ids are read.
        assert!(u64::from(page.0) < self.geometry.pages_max);
        self.part(self.offsets.table, page.0 as usize)
    }

    /// The bitmap of page ids in use.
    pub(crate) fn page_bits(&self) -> (NonNull<AtomicU64>, u64) {
        (self.pointer(self.offsets.page_bits).cast(), self.geometry.pages_max)
    }

    /// The bitmap of a volume's blocks in use.
    pub(crate) fn block_bits(&self, volume: VolumeId) -> (NonNull<AtomicU64>, u64) {
        (self.pointer(self.block_bits_at(volume)).cast(), self.geometry.blocks_max)
    }

    fn block_bits_at(&self, volume: VolumeId) -> usize {
        assert!(volume.index() < self.geometry.volumes);
        self.offsets.block_bits + volume.index() * (self.geometry.blocks_max / 8) as usize
    }

    /// A word of the bitmap of pages changed since a checkpoint last looked, of [`PAGES_A_WORD`] pages.
    #[inline]
    pub(crate) fn unsaved(&self, word: usize) -> &AtomicU64 {
        assert!((word as u64) < self.geometry.pages_max / PAGES_A_WORD);
        self.part(self.offsets.unsaved, word)
    }

    /// A word of the bitmap of pages that the checkpoint in progress has taken over from `unsaved`.
    #[inline]
    pub(crate) fn capturing(&self, word: usize) -> &AtomicU64 {
        assert!((word as u64) < self.geometry.pages_max / PAGES_A_WORD);
        self.part(self.offsets.capturing, word)
    }
}

/// In which group a number is of those of which it is counted how often they are taken.
pub(crate) fn taken_group(space: usize, number: u64) -> usize {
    // Spaces begin in different places, so that the lowest numbers of all are not in the same groups.
    (number as usize / 64 + space * (TAKEN_GROUPS / 17)) % TAKEN_GROUPS
}

fn no_memory(bytes: usize, source: &std::io::Error) -> Error {
    Error::memory_full(format!(
        "reserving {bytes} bytes of address space for the environment's region: {source}; allow the process \
         as much (ulimit -v, vm.overcommit_memory): most of it stays unused; or ask for a smaller cache"
    ))
}
