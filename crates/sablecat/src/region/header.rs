//! The header: the few words that everybody reads.
//!
//! It begins with what is fixed once the region is made, under a checksum. A process that attaches believes
//! nothing else of a region before that checksum is right; then it looks whether what varies is within its
//! bounds.

use sablecat_os::atomic::{AtomicU32, AtomicU64, Ordering};
use sablecat_os::clock;

use super::{BerthWords, Geometry, Member, RoleWord, Sleepers, Slot, VOLUMES_MAX, WaitQueue};
use crate::error::{Error, Result};
use crate::types::{Berth, Lsn};

/// What the ready word holds when the region has been created completely ("sablecat", layout 4).
pub(crate) const READY: u64 = u64::from_le_bytes(*b"sblcat\x00\x04");

/// Which environment a region belongs to, and which run of the machine: with another, its contents mean
/// nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RegionIdentity {
    /// The environment's own number.
    pub(crate) uuid: [u8; 16],
    /// The machine's run ([`sablecat_os::machine::boot_id`]).
    pub(crate) boot: [u8; 16],
}

/// Groups of page ids and blocks of which it is counted how often they are taken.
pub(crate) const TAKEN_GROUPS: usize = 4096;

/// Entries of the list of pages that were published of late.
pub(crate) const RECENT_MAX: usize = 4096;

/// Pages that commits have published of late, listed while a participant wants to know
/// (txn/commit/recent.rs).
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct RecentPages {
    /// Commits that begin in the log before this LSN are listed. Written by the participant that wants that,
    /// in the commit role; only grows.
    pub(crate) wanted: AtomicU64,
    /// How many entries there have been. Written in the commit step; only grows.
    pub(crate) head: AtomicU64,
    /// Where participants sleep that wait for a change. Woken by commits once they are visible.
    pub(crate) sleepers: Sleepers,
    /// {position, lower half 32 | page 32}. Written in the commit step, by compare-and-swap.
    pub(crate) entries: [AtomicU64; RECENT_MAX],
}

/// A value on cache lines of its own (two, since processors fetch lines in pairs).
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct CachePadded<T>(pub(crate) T);

/// The newest published commit and, on the same cache lines, whether what was learnt of where leaves are
/// still holds (txn/commit/rebuilt.rs): a participant that reads the one has the other at hand.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Visible(pub(crate) AtomicU64, pub(crate) Rebuilds);

/// Trees that are, or were, built anew.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Rebuilds {
    /// States at or above this LSN come after the last commit that switched trees to pages built beside the
    /// old ones: a leaf that was found in a state below may be no page of its tree any more. Written in the
    /// commit step, before the commit point; only grows.
    pub(crate) since: AtomicU64,
    /// Leaves that were found in a state below this LSN are not to be remembered: pages have been made since
    /// that look like leaves of a tree and are none, or not yet, perhaps under the number of one that is
    /// gone. Never below `since`; written in commit steps; only grows.
    pub(crate) leaves: AtomicU64,
    /// The structure latches, one bit each, under which trees are being built anew: no leaf of these may
    /// change without the latch. A bit is set and cleared by the holder of the latch; one that a dead holder
    /// left, by the next holder.
    pub(crate) frozen: AtomicU64,
}

/// What there is of a volume's allocator beside its bitmap.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct BlockWords {
    /// Where allocation last succeeded. A hint.
    pub(crate) hint: AtomicU64,
    /// Blocks at or above this are free.
    pub(crate) high: AtomicU64,
    /// Blocks below this have their places in the bitmap for certain. Only grows.
    pub(crate) ready: AtomicU64,
}

/// What is fixed once the region is made: written by its creator before the ready word.
#[repr(C)]
#[derive(Debug)]
struct Fixed {
    /// Which build lays it out and works in it.
    build: AtomicU64,
    block_size: AtomicU64,
    page_size: AtomicU64,
    frames: AtomicU64,
    slots: AtomicU64,
    ring_bytes: AtomicU64,
    lock_words: AtomicU64,
    pages_max: AtomicU64,
    blocks_max: AtomicU64,
    volumes: AtomicU64,
    members: AtomicU64,
    identity: [AtomicU64; 4],
    /// CRC-32C of the words above.
    checksum: AtomicU64,
}

/// How far into a header the ready word and what is fixed reach.
#[cfg(test)]
pub(super) const FIXED_BYTES: usize = std::mem::offset_of!(RegionHeader, fixed) + size_of::<Fixed>();

/// The header's words, each hot one on its own lines.
#[repr(C, align(4096))]
#[derive(Debug)]
pub(crate) struct RegionHeader {
    /// [`READY`], stored last at creation: a region without it was never finished.
    pub(crate) ready: AtomicU64,
    fixed: Fixed,
    /// When the region was made: milliseconds since 1970. For people.
    pub(crate) made: AtomicU64,
    /// Published commits: every commit with an LSN at or below it is swung. Written in the commit step and by
    /// helpers; only grows.
    pub(crate) visible: Visible,
    /// The participant that is in the commit step.
    pub(crate) commit: CachePadded<RoleWord>,
    /// The participant that is making a checkpoint.
    pub(crate) checkpoint: CachePadded<RoleWord>,
    /// How far a checkpoint has come: {tag of the role's holding 32 | words of the bits of changed pages that
    /// it has dealt with, all ones: all 32}. Written by the holder of the role, by compare-and-swap; it
    /// counts only for the holding that it names.
    pub(crate) captured_below: CachePadded<AtomicU64>,
    /// Grows while the holder of the checkpoint role gets on. Written by the holder, and also by one that was
    /// succeeded.
    pub(crate) checkpoint_moves: AtomicU64,
    /// How often the checkpoint role was taken over from the living since a checkpoint came to its end.
    pub(crate) checkpoint_successions: AtomicU32,
    /// Where superblocks are written, and by which participants.
    pub(crate) berths: BerthWords,
    /// The operation clock for physical reuse of evicted frames. Written by evictors; only grows.
    pub(crate) epoch: CachePadded<AtomicU64>,
    /// Where the clock sweep stands, a frame number modulo the pool. A hint.
    pub(crate) hand: CachePadded<AtomicU64>,
    /// Slots below this have been used at some time, so scans stop here. Only grows.
    pub(crate) slots_high: CachePadded<AtomicU32>,
    /// 1 once the pool has had to evict: readers then mark the frames they use.
    pub(crate) pressure: CachePadded<AtomicU32>,
    /// Allocation hint and high-water mark of the page ids.
    pub(crate) page_hint: CachePadded<AtomicU64>,
    pub(crate) page_high: AtomicU64,
    /// Allocation hint and high-water mark of the blocks of each volume.
    pub(crate) blocks: [CachePadded<BlockWords>; VOLUMES_MAX],
    /// The next tree number to give out.
    pub(crate) tree_next: CachePadded<AtomicU32>,
    /// The generation of the volume in force. Written by the checkpointer once it is durable; only grows.
    pub(crate) generation: CachePadded<AtomicU64>,
    /// The generation that was in force when the region was made.
    pub(crate) generation_first: AtomicU64,
    /// The LSN of the last checkpoint.
    pub(crate) checkpointed: AtomicU64,
    /// 1 once the free page ids and blocks below the opening high-water marks are known. Written by the
    /// checkpointer.
    pub(crate) free_known: AtomicU32,
    /// 1 once a write to the volume has failed in a way that leaves unknown what is on it.
    pub(crate) volume_poisoned: AtomicU32,
    /// States at or above this LSN come after the last commit that took a name from a database: a participant
    /// that has seen a name in a state below looks for it again. Written in the commit step, before the
    /// commit point. 1 at first, so that 0 is a state that nobody has seen.
    pub(crate) names_since: AtomicU64,
    /// Frames below this have memory for certain, and so page ids their places in the tables. Only grow.
    pub(crate) frames_ready: CachePadded<AtomicU64>,
    pub(crate) pages_ready: AtomicU64,
    /// The participant that keeps house: flushes in the background, makes checkpoints.
    pub(crate) housekeep: CachePadded<RoleWord>,
    /// The participant that mends what dead processes left undone.
    pub(crate) reap: CachePadded<RoleWord>,
    /// When the dead were last looked for: milliseconds of the monotonic clock.
    pub(crate) looked: CachePadded<AtomicU64>,
    /// The serial gate: a transaction that keeps losing holds it while others stay out of commit.
    pub(crate) serial: CachePadded<RoleWord>,
    /// The participant that frees pages that nothing leads to.
    pub(crate) unreachable: CachePadded<RoleWord>,
    /// How many bulk loads have begun. Written by them, each before it publishes anything.
    pub(crate) loads_begun: AtomicU64,
    /// The holding of the role above (`unreachable`) that looks for what is lost (pages/store/lost.rs), and
    /// one; 0: none.
    pub(crate) suspecting: CachePadded<AtomicU64>,
    /// How often page ids and blocks of each group were taken while a participant looked for what is lost.
    /// Written by the participant that takes them, before it does.
    pub(crate) taken: [AtomicU32; TAKEN_GROUPS],
    /// Which pages were published of late.
    pub(crate) recent: RecentPages,
    /// The number of the newest key block: a process that enciphers and knows an older one looks at the file.
    /// Written by the process that has written that key block; only grows.
    pub(crate) keys: CachePadded<AtomicU64>,
    /// How far ahead of the hand cleaners have seen to dirty frames. Written by them; a hint.
    pub(crate) cleaned: CachePadded<AtomicU64>,
}

impl RegionHeader {
    /// Fills in a fresh header, all but the ready word.
    pub(super) fn create(&self, geometry: &Geometry, identity: RegionIdentity) {
        self.fixed.create(geometry, identity);
        // Relaxed stores: nobody reads them before the ready word, whose Release store they precede.
        self.made.store(clock::wall_coarse().ms, Ordering::Relaxed);
        self.epoch.0.store(1, Ordering::Relaxed);
        self.hand.0.store(1, Ordering::Relaxed);
        self.slots_high.0.store(1, Ordering::Relaxed);
        self.names_since.store(1, Ordering::Relaxed);
    }

    /// The region can be attached to from now on.
    pub(crate) fn set_ready(&self) {
        self.ready.store(READY, Ordering::Release);
    }

    /// Whether the region was made completely, by a build that lays it out as this one, for this environment
    /// in this run of the machine; and what it was sized for.
    ///
    /// # Errors
    /// Invalid, saying what is different.
    pub(super) fn judge(&self, identity: RegionIdentity) -> Result<Geometry> {
        // Acquire: pairs with `set_ready`.
        if self.ready.load(Ordering::Acquire) != READY {
            return Err(Error::invalid("it was never finished, or is of another version"));
        }
        self.fixed.judge(identity)
    }

    /// Whether the words that vary are such as they can be in a region of these sizes, whatever its users are
    /// doing: so that no process that goes by them leaves the region.
    ///
    /// # Errors
    /// Invalid, naming the word.
    pub(super) fn check_bounds(&self, geometry: &Geometry) -> Result<()> {
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let slots = u64::from(geometry.slots);
        let bounds = [
            ("slots used", u64::from(self.slots_high.0.load(Ordering::Relaxed)), 1..=slots),
            ("frames with memory", word(&self.frames_ready.0), 1..=geometry.frames as u64),
            ("page ids with memory", word(&self.pages_ready), 0..=geometry.pages_max),
            ("page ids used", word(&self.page_high), 0..=geometry.pages_max),
        ];
        for (what, value, possible) in bounds {
            if !possible.contains(&value) {
                return Err(Error::invalid(format!("its number of {what}, {value}, is impossible")));
            }
        }
        for volume in &self.blocks[..geometry.volumes] {
            for (what, value) in [("blocks with memory", &volume.0.ready), ("blocks used", &volume.0.high)] {
                if word(value) > geometry.blocks_max {
                    return Err(Error::invalid(format!(
                        "its number of {what}, {}, is impossible",
                        word(value)
                    )));
                }
            }
        }
        let roles =
            [&self.commit, &self.checkpoint, &self.housekeep, &self.reap, &self.serial, &self.unreachable];
        if roles.iter().any(|role| role.0.look().owner() >= geometry.slots) {
            return Err(Error::invalid("a role's owner is impossible"));
        }
        if Berth::all()
            .filter_map(|berth| self.berths.look(berth))
            .any(|mooring| mooring.owner() >= geometry.slots)
        {
            return Err(Error::invalid("a berth's owner is impossible"));
        }
        Ok(())
    }

    /// The LSN of the newest published commit. Acquire: pairs with the Release in the commit step, so that a
    /// participant that sees the LSN sees the entries it swung.
    #[inline]
    pub(crate) fn visible(&self) -> Lsn {
        Lsn(self.visible.0.load(Ordering::Acquire))
    }

    /// States at or above this LSN come after the last commit that switched trees to other pages.
    #[inline]
    pub(crate) fn rebuilt_since(&self) -> Lsn {
        // Acquire: pairs with the Release in `say_rebuilt`. A participant that has pinned that commit or a
        // later one sees it, since it was stored before `visible` was raised.
        Lsn(self.visible.1.since.load(Ordering::Acquire))
    }

    /// Where leaves are is remembered from states at or above this LSN only.
    #[inline]
    pub(crate) fn leaves_since(&self) -> Lsn {
        // Acquire: as in `rebuilt_since`, for a participant that has pinned a state with such pages.
        Lsn(self.visible.1.leaves.load(Ordering::Acquire))
    }
}

impl Fixed {
    fn create(&self, geometry: &Geometry, identity: RegionIdentity) {
        // Relaxed: as in `RegionHeader::create`.
        for (word, value) in self.words().zip(values(geometry, identity)) {
            word.store(value, Ordering::Relaxed);
        }
        self.checksum.store(self.sum(), Ordering::Relaxed);
    }

    fn judge(&self, identity: RegionIdentity) -> Result<Geometry> {
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        if word(&self.checksum) != self.sum() {
            return Err(Error::invalid("its header is damaged"));
        }
        if word(&self.build) != build() {
            return Err(Error::invalid("it was made by another build of this library"));
        }
        if !self.identity.iter().map(word).eq(identity.words()) {
            return Err(Error::invalid("it is of another environment, or of before the machine was started"));
        }
        // What is too large is no size at all, and refused as such.
        let small = |at: &AtomicU64| u16::try_from(word(at)).unwrap_or(0);
        let geometry = Geometry {
            block_size: word(&self.block_size) as usize,
            page_size: word(&self.page_size) as usize,
            frames: word(&self.frames) as usize,
            slots: small(&self.slots),
            ring_bytes: word(&self.ring_bytes) as usize,
            lock_words: word(&self.lock_words) as usize,
            pages_max: word(&self.pages_max),
            blocks_max: word(&self.blocks_max),
            volumes: word(&self.volumes) as usize,
            members: small(&self.members),
        };
        if !geometry.is_possible() {
            return Err(Error::invalid("its sizes are impossible"));
        }
        Ok(geometry)
    }

    /// All words but the checksum, in their order.
    fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        let sizes = [
            &self.build,
            &self.block_size,
            &self.page_size,
            &self.frames,
            &self.slots,
            &self.ring_bytes,
            &self.lock_words,
        ];
        let more = [&self.pages_max, &self.blocks_max, &self.volumes, &self.members];
        sizes.into_iter().chain(more).chain(&self.identity)
    }

    fn sum(&self) -> u64 {
        let sum = self
            .words()
            .fold(0, |sum, word| crc32c::crc32c_append(sum, &word.load(Ordering::Relaxed).to_le_bytes()));
        u64::from(sum)
    }
}

/// What stands in [`Fixed::words`].
fn values(geometry: &Geometry, identity: RegionIdentity) -> impl Iterator<Item = u64> {
    let sizes = [
        build(),
        geometry.block_size as u64,
        geometry.page_size as u64,
        geometry.frames as u64,
        u64::from(geometry.slots),
        geometry.ring_bytes as u64,
        geometry.lock_words as u64,
        geometry.pages_max,
        geometry.blocks_max,
        geometry.volumes as u64,
        u64::from(geometry.members),
    ];
    sizes.into_iter().chain(identity.words())
}

impl RegionIdentity {
    fn words(self) -> impl Iterator<Item = u64> {
        let word = |bytes: &[u8]| u64::from_le_bytes(std::array::from_fn(|n| bytes[n]));
        [word(&self.uuid[..8]), word(&self.uuid[8..]), word(&self.boot[..8]), word(&self.boot[8..])]
            .into_iter()
    }
}

/// A number for the sources that the library was built from.
const SOURCES: u64 = match u64::from_str_radix(env!("SABLECAT_SOURCES"), 16) {
    Ok(number) => number,
    Err(_) => panic!("the build script wrote a number"),
};

/// A number that differs for builds of different sources, and for those of the same in which the types in the
/// region have different sizes.
fn build() -> u64 {
    let parts = [size_of::<RegionHeader>(), size_of::<Slot>(), size_of::<Member>(), size_of::<WaitQueue>()];
    let sources = SOURCES.wrapping_mul(65599).wrapping_add(sablecat_os::SOURCES);
    parts.into_iter().fold(sources, |sum: u64, part| sum.wrapping_mul(65599).wrapping_add(part as u64))
}
