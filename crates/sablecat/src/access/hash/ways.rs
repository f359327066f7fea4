//! Ways: in which bucket a hash was when it was last looked for, so that a lookup need not go through the
//! directories; and about where in the bucket its record was, so that the processor can be asked for that
//! together with the bucket's beginning, and not once that has said where it is.
//!
//! A process remembers that for each of its tables, by the first bits of the hash, for all its threads. What
//! it remembers need not be right, only cheap to check: a bucket says which tree it is of and which hashes it
//! is for, in whatever state it is looked at. So nobody is told of a bucket that is split, joined or freed,
//! in this process or another. A thread that finds that a page is not what was remembered goes through the
//! directories and remembers what they say.
//!
//! A page cannot say that the tree leads to it (txn/commit/rebuilt.rs). So what is remembered is good as long
//! as no tree is built anew: for states at or above the LSN of the last time, as with all hints. Threads find
//! out about that one after the other; therefore each time is a *turn*, and what is remembered says of which
//! turn it is. One that comes late, and remembers what it found before, is not believed.
//!
//! ```text
//! row n   2^(8 + n) ways, in the order of the hashes' first bits; the row in use is one
//! way     turn u32 | page id u32
//! spots   32 for each way, by five bits of the hash more: which part of its page the record was in, u8
//! ```
//!
//! As many bits are told apart as most buckets have that are met: a row of twice the length is begun when
//! buckets with more bits have been met often. A row takes eight bytes a way: a table whose buckets share b
//! bits takes 2^(b + 3) of the process's memory, and as much again for the rows before; some .4 percent of
//! the table with pages of 4 KiB. Spots are four times as many bytes, up to 32 MiB, for up to a million
//! buckets: there is nearly one for each record. A wrong one costs a line that was not needed.
//!
//! Costs (sketch): five loads of two lines, one of them of the row, which as a rule has to come from the
//! second or third cache. They stand for two directories, with a version to be found and three lines each.

use std::sync::OnceLock;

use sablecat_os::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::types::{Lsn, PageId};

/// The first row tells so many bits of hashes apart, and each next one a bit more.
const FIRST_BITS: u32 = 8;
/// The last one so many: 32 MiB of ways, for some four million buckets. Buckets of more bits are not
/// remembered.
const LAST_BITS: u32 = 22;
const ROWS: usize = (LAST_BITS - FIRST_BITS + 1) as usize;

/// Stands for no LSN: a turn is being begun.
const BETWEEN: u64 = u64::MAX;

/// Spots for each way, as a power of two: as many as records have room in a page of 4 KiB.
const SPOT_BITS: u32 = 5;
/// The last row that has spots tells so many bits apart.
const SPOTTED_BITS: u32 = 20;

/// A part of a page: a cache line of 64 bytes in one of up to 16 KiB, else 256 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PagePart(u8);

impl PagePart {
    /// The part in which a byte is.
    #[inline(always)]
    pub(super) fn of(at: usize, page_bytes: usize) -> PagePart {
        PagePart((at >> part_bits(page_bytes)) as u8)
    }

    /// Its first byte.
    #[inline(always)]
    pub(super) fn start(self, page_bytes: usize) -> usize {
        usize::from(self.0) << part_bits(page_bytes)
    }
}

#[inline(always)]
fn part_bits(page_bytes: usize) -> u32 {
    if page_bytes > 1 << 14 { 8 } else { 6 }
}

struct WayRow {
    ways: Box<[AtomicU64]>,
    /// None where there would be too many.
    spots: Box<[AtomicU8]>,
}

/// What a process remembers of a table.
pub(super) struct Ways {
    /// From which LSN on states are of this turn; or [`BETWEEN`].
    since: AtomicU64,
    /// How many turns there have been. What belongs to no turn says 0.
    turn: AtomicU32,
    /// Which row is in use.
    row: AtomicU32,
    /// How often buckets were met that have more bits than this row tells apart.
    crowded: AtomicU32,
    rows: [OnceLock<WayRow>; ROWS],
}

impl WayRow {
    /// A row that remembers what the one before it does.
    fn new(row: u32, before: Option<&WayRow>) -> WayRow {
        let bits = FIRST_BITS + row;
        let spots = if bits > SPOTTED_BITS { 0 } else { 1usize << (bits + SPOT_BITS) };
        let way =
            |n: usize| before.and_then(|row| row.ways.get(n / 2)).map_or(0, |it| it.load(Ordering::Relaxed));
        let spot =
            |n: usize| before.and_then(|row| row.spots.get(n / 2)).map_or(0, |it| it.load(Ordering::Relaxed));
        WayRow {
            ways: (0..1usize << bits).map(|n| AtomicU64::new(way(n))).collect(),
            spots: (0..spots).map(|n| AtomicU8::new(spot(n))).collect(),
        }
    }
}

impl Default for Ways {
    fn default() -> Ways {
        Ways {
            since: AtomicU64::new(0),
            turn: AtomicU32::new(1),
            row: AtomicU32::new(0),
            crowded: AtomicU32::new(0),
            rows: [const { OnceLock::new() }; ROWS],
        }
    }
}

impl std::fmt::Debug for Ways {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ways").field("since", &self.since).field("row", &self.row).finish_non_exhaustive()
    }
}

impl Ways {
    /// The page in which a hash may be, trees having been built anew last at `since`; or no page.
    #[inline(always)]
    pub(super) fn page(&self, hash: u64, since: Lsn) -> PageId {
        self.page_and_record(hash, since).0
    }

    /// The same, and in which part of the page its record may be: 0 if that is not remembered.
    #[inline(always)]
    pub(super) fn page_and_record(&self, hash: u64, since: Lsn) -> (PageId, PagePart) {
        let none = (PageId::NONE, PagePart(0));
        let Some(turn) = self.turn_of(since) else { return none };
        let row = self.row.load(Ordering::Relaxed);
        let Some(in_use) = self.rows.get(row as usize).and_then(OnceLock::get) else { return none };
        let spot = spot(hash, row);
        // Relaxed: what it says is checked by the thread that goes there.
        let Some(way) = in_use.ways.get(spot >> SPOT_BITS) else { return none };
        let part = in_use.spots.get(spot).map_or(0, |spot| spot.load(Ordering::Relaxed));
        let way = way.load(Ordering::Relaxed);
        if (way >> 32) as u32 == turn { (PageId(way as u32), PagePart(part)) } else { none }
    }

    /// Remembers in which page a hash was, whose bucket has hashes that share so many bits, in a state at or
    /// above `since`.
    pub(super) fn remember(&self, hash: u64, (page, level): (PageId, u8), since: Lsn) {
        let Some(turn) = self.turn_of(since) else { return };
        let row = self.row.load(Ordering::Relaxed);
        let more = u32::from(level).saturating_sub(FIRST_BITS + row);
        if more > 0 {
            self.note_crowded(row);
        }
        if more > 1 {
            // Most of the threads that are sent there would go in vain.
            return;
        }
        let Some(in_use) = self.rows.get(row as usize) else { return };
        let before = || row.checked_sub(1).and_then(|before| self.rows.get(before as usize)?.get());
        let in_use = in_use.get_or_init(|| WayRow::new(row, before()));
        if let Some(way) = in_use.ways.get(place(hash, row)) {
            way.store(u64::from(turn) << 32 | u64::from(page.0), Ordering::Relaxed);
        }
    }

    /// Remembers in which part of its page the record with a hash was.
    #[inline(always)]
    pub(super) fn remember_record(&self, hash: u64, part: PagePart) {
        let row = self.row.load(Ordering::Relaxed);
        let Some(in_use) = self.rows.get(row as usize).and_then(OnceLock::get) else { return };
        // Relaxed: it says only what the processor is asked for. Looked at first: a line that is written to
        // is taken from all other processors.
        if let Some(spot) = in_use.spots.get(spot(hash, row))
            && spot.load(Ordering::Relaxed) != part.0
        {
            spot.store(part.0, Ordering::Relaxed);
        }
    }

    /// A bucket was met that shares its way with others.
    fn note_crowded(&self, row: u32) {
        if row as usize >= ROWS - 1 {
            return;
        }
        // Relaxed, as all that only says how much is remembered: of two counts at once one may be lost.
        let crowded = self.crowded.load(Ordering::Relaxed).saturating_add(1);
        self.crowded.store(crowded, Ordering::Relaxed);
        if crowded >= 1 << (FIRST_BITS + row - 2) {
            self.crowded.store(0, Ordering::Relaxed);
            let _ = self.row.compare_exchange(row, row + 1, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The turn of states from `since` on, if it is that of now.
    #[inline(always)]
    fn turn_of(&self, since: Lsn) -> Option<u32> {
        // Acquire, both: a thread that has found the LSN of a turn finds its number, or a later one. A thread
        // that has found a later one finds another LSN the second time, or that there is none.
        let of = self.since.load(Ordering::Acquire);
        let turn = self.turn.load(Ordering::Acquire);
        if of == since.0 && self.since.load(Ordering::Relaxed) == of {
            return Some(turn);
        }
        self.begin(since);
        None
    }

    /// Begins a turn, if none has begun that is as late: all that was remembered is forgotten.
    #[cold]
    fn begin(&self, since: Lsn) {
        let of = self.since.load(Ordering::Acquire);
        // Between two turns somebody else begins one.
        if of >= since.0
            || self.since.compare_exchange(of, BETWEEN, Ordering::AcqRel, Ordering::Relaxed).is_err()
        {
            return;
        }
        // When all numbers have been used it stays so, and nothing is remembered any more.
        let Some(turn) = self.turn.load(Ordering::Relaxed).checked_add(1) else { return };
        // Release: after the LSN was taken away.
        self.turn.store(turn, Ordering::Release);
        self.since.store(since.0, Ordering::Release);
    }
}

/// Which of a row's ways is a hash's.
fn place(hash: u64, row: u32) -> usize {
    spot(hash, row) >> SPOT_BITS
}

/// Which of a row's spots is a hash's.
#[inline(always)]
fn spot(hash: u64, row: u32) -> usize {
    // A row's number is below `ROWS`.
    (hash >> (u64::BITS - LAST_BITS - SPOT_BITS) >> (LAST_BITS - FIRST_BITS).saturating_sub(row)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: Lsn = Lsn(0);

    fn hash(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn a_page_is_remembered_for_the_hashes_that_begin_alike() {
        let ways = Ways::default();
        assert_eq!(ways.page(hash(1), NEVER), PageId::NONE);
        ways.remember(0x1234 << 48, (PageId(7), 8), NEVER);
        assert_eq!(ways.page(0x1234 << 48, NEVER), PageId(7));
        assert_eq!(ways.page(0x12ff << 48, NEVER), PageId(7), "the first eight bits are the same");
        assert_eq!(ways.page(0x1334 << 48, NEVER), PageId::NONE);
        ways.remember(0x1200 << 48, (PageId(8), 8), NEVER);
        assert_eq!(ways.page(0x1234 << 48, NEVER), PageId(8));
        ways.remember(0x1200 << 48, (PageId(9), 40), NEVER);
        assert_eq!(ways.page(0x1234 << 48, NEVER), PageId(8), "a bucket of so many bits is not worth it");
    }

    #[test]
    fn as_many_bits_are_told_apart_as_buckets_have() {
        let ways = Ways::default();
        let bucket = |hash: u64, level: u8| (PageId((hash >> (64 - level)) as u32 + 1), level);
        for level in [8u8, 9, 11, 14] {
            for n in 0..1 << (level + 2) {
                ways.remember(hash(n), bucket(hash(n), level), NEVER);
            }
            let right = (0..1000).filter(|&n| ways.page(hash(n), NEVER) == bucket(hash(n), level).0);
            assert!(right.count() > 900, "buckets of {level} bits");
            assert_eq!(ways.row.load(Ordering::Relaxed) + FIRST_BITS, level.into());
        }
        // A row that would be in vain is not made.
        let made = |row: u32| ways.rows[row as usize].get().is_some();
        assert_eq!((0..8).filter(|&row| made(row)).collect::<Vec<_>>(), [0, 1, 2, 3, 5, 6]);
    }

    #[test]
    fn a_record_is_remembered_by_five_bits_more_than_its_bucket() {
        let part = |n: u64| PagePart((n * 97) as u8);
        let ways = Ways::default();
        ways.remember_record(0, part(1));
        assert_eq!(ways.page_and_record(0, NEVER), (PageId::NONE, PagePart(0)), "there are none yet");
        ways.remember(0, (PageId(7), 8), NEVER);
        (0..1u64 << 13).for_each(|n| ways.remember_record(n << 51, part(n)));
        for n in 0..1u64 << 13 {
            let page = if n < 32 { PageId(7) } else { PageId::NONE };
            let found = ways.page_and_record(n << 51 | 1 << 50, NEVER);
            assert_eq!(found, (page, if n < 32 { part(n) } else { PagePart(0) }));
        }
        let last = Ways::default();
        last.row.store(SPOTTED_BITS - FIRST_BITS + 1, Ordering::Relaxed);
        last.remember(0, (PageId(7), SPOTTED_BITS as u8 + 1), NEVER);
        last.remember_record(0, part(1));
        assert_eq!(last.page_and_record(0, NEVER), (PageId(7), PagePart(0)));
    }

    #[test]
    fn a_part_is_a_line_of_a_page_that_is_not_large() {
        for (page_bytes, bytes) in [(512, 64), (4096, 64), (16384, 64), (32736, 256), (65536, 256)] {
            for at in 0..page_bytes {
                assert_eq!(PagePart::of(at, page_bytes).start(page_bytes), at / bytes * bytes);
            }
        }
    }

    #[test]
    fn there_is_a_last_row() {
        let ways = Ways::default();
        let last = (ROWS - 1) as u32;
        for row in 0..=last + 3 {
            assert_eq!(ways.row.load(Ordering::Relaxed), row.min(last));
            (0..=1 << 20).take_while(|_| ways.row.load(Ordering::Relaxed) == row).for_each(|n| {
                ways.remember(hash(n), (PageId(1), 64), NEVER);
            });
        }
        assert_eq!(ways.page(hash(1), NEVER), PageId::NONE);
        assert!(ways.rows.iter().all(|row| row.get().is_none()), "none was worth making");
        ways.remember(u64::MAX, (PageId(3), LAST_BITS as u8), NEVER);
        assert_eq!(ways.page(u64::MAX, NEVER), PageId(3));
    }

    /// A thread that remembers late, or looks at an older state, has nothing to do with what is remembered
    /// now.
    #[test]
    fn what_was_before_a_tree_was_built_anew_is_forgotten() {
        let ways = Ways::default();
        let (before, after) = (Lsn(100), Lsn(200));
        ways.begin(before);
        ways.remember(hash(1), (PageId(7), 8), before);
        assert_eq!(ways.page(hash(1), before), PageId(7));
        assert_eq!(ways.page(hash(1), after), PageId::NONE, "found before it was built anew");
        ways.remember(hash(1), (PageId(8), 8), before);
        assert_eq!(ways.page(hash(1), after), PageId::NONE, "remembered late");
        assert_eq!(ways.page(hash(1), before), PageId::NONE, "there is no way back");
        ways.remember(hash(1), (PageId(9), 8), after);
        assert_eq!(ways.page(hash(1), after), PageId(9));
        assert_eq!(ways.page(hash(1), before), PageId::NONE, "a page of later is none of an older state");
    }

    #[test]
    fn when_all_turns_have_been_nothing_is_remembered() {
        let ways = Ways::default();
        ways.turn.store(u32::MAX, Ordering::Relaxed);
        ways.remember(hash(1), (PageId(7), 8), NEVER);
        assert_eq!(ways.page(hash(1), NEVER), PageId(7));
        for since in 1..10 {
            ways.remember(hash(1), (PageId(8), 8), Lsn(since));
            assert_eq!(ways.page(hash(1), Lsn(since)), PageId::NONE);
        }
    }
}
