//! A bucket: a page with the records whose hashes begin with some bits.
//!
//! ```text
//!   0  ..   what all pages have (pages/header.rs); kind 5
//!  21  u8   level: how many bits of the hash all records share, 0 to 64
//!  22  u16  records
//!  24  u64  these bits, from the highest on; the others are zero
//!  32  u32  where cells begin
//!  36  u32  bytes among the cells that are in no cell
//!  40  8    zeros
//!  48  ..   tags u8, of the records in their slots, and up to 15 more to make them a multiple of 16
//!   .  ..   slots: where cells are, u16
//!           free
//!   .  ..   cells, to the page's end
//!
//! cell       key length u16 | value length u16 | key | value
//!            a value length of 0xffff: in pages of its own; the value is its first page u32 and its
//!            length u64
//! tag        the lowest eight bits of the key's hash
//! ```
//!
//! Records are in no order: a new one comes last, and the last one takes the place of one that is removed. A
//! lookup compares all tags, sixteen at a time, and then the keys whose tags are the wanted one: 1.1 of them,
//! with 30 records in a page. The tags of sixteen records are in the processor's line that the header is in.
//!
//! Keys are as long as in a leaf of a B+tree (btree/node/limits.rs). Key and value together have 3P/16 - 34
//! bytes at most, P being the page size: four such records take 4 (3P/16 - 34 + 4 + 2) + 48 + 16 bytes, which
//! is 3P/4 - 48, of the page. So a record has room in a bucket with three others at least: a division of a
//! bucket cannot choose by keys what goes where.

use std::ops::Range;

use super::tags::{LANE, matching};
use crate::access::btree::node::{claim, key_bytes_max};
use crate::access::method::StoredValue;
use crate::pages::header::{self, at};
use crate::types::{PageId, TreeId};

/// The longest value kept in a bucket beside a key of `key_len` bytes; a longer one becomes
/// [`Long`](StoredValue::Long).
pub(crate) const fn inline_value_bytes_max(page_size: usize, key_len: usize) -> usize {
    (page_size * 3 / 16 - 34).saturating_sub(key_len)
}

/// The kind of these pages.
pub(crate) const KIND: u8 = 5;

const LEVEL_AT: usize = 21;
const COUNT_AT: usize = 22;
const PREFIX_AT: usize = 24;
const CELLS_AT: usize = 32;
const GAPS_AT: usize = 36;
/// Where tags begin.
const HEADER_BYTES: usize = 48;

const CELL_HEADER_BYTES: usize = 4;
const SLOT_BYTES: usize = 2;
const LONG: u16 = u16::MAX;
const LONG_BYTES: usize = 12;

/// The most bits that records can share: all.
pub(super) const LEVEL_MAX: u8 = 64;

/// The page has no room for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BucketFull;

/// Which hashes a page is for: those that begin with the first so many bits of some.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct HashPrefix {
    pub(super) level: u8,
    /// The bits behind those that count are zero.
    pub(super) prefix: u64,
}

impl HashPrefix {
    /// The one of so many bits that a hash is in.
    pub(super) fn around(hash: u64, level: u8) -> HashPrefix {
        let prefix = if level == 0 { 0 } else { hash & u64::MAX << (LEVEL_MAX - level) };
        HashPrefix { level, prefix }
    }

    /// Whether a hash is in it.
    #[inline(always)]
    pub(super) fn covers(self, hash: u64) -> bool {
        self.level == 0 || (hash ^ self.prefix) >> (LEVEL_MAX - self.level) == 0
    }

    /// The last hash in it.
    pub(super) fn last(self) -> u64 {
        if self.level == LEVEL_MAX { self.prefix } else { self.prefix | u64::MAX >> self.level }
    }

    /// The bit that tells its halves apart. It has some: its level is not the highest.
    fn bit(self) -> u64 {
        1 << (LEVEL_MAX - 1 - self.level)
    }

    /// Its halves.
    pub(super) fn halves(self) -> [HashPrefix; 2] {
        let level = self.level + 1;
        [HashPrefix { level, ..self }, HashPrefix { level, prefix: self.prefix | self.bit() }]
    }

    /// What it is a half of, and the other half; none: it is everything.
    pub(super) fn whole_and_other(self) -> Option<(HashPrefix, HashPrefix)> {
        let level = self.level.checked_sub(1)?;
        let whole = HashPrefix::around(self.prefix, level);
        Some((whole, HashPrefix { prefix: self.prefix ^ whole.bit(), ..self }))
    }

    /// Whether it can be: no bits are set that do not count.
    pub(super) fn is_sound(self) -> bool {
        self.level <= LEVEL_MAX && self == HashPrefix::around(self.prefix, self.level)
    }
}

/// The tag of a hash.
#[inline(always)]
fn tag(hash: u64) -> u8 {
    hash as u8
}

/// Bytes up to the end of the slots, with so many records.
#[inline(always)]
fn front_bytes(count: usize) -> usize {
    slots_at(count) + SLOT_BYTES * count
}

/// Where slots begin, with so many records.
#[inline(always)]
fn slots_at(count: usize) -> usize {
    HEADER_BYTES + count.next_multiple_of(LANE)
}

/// Bytes that a cell takes.
fn cell_bytes(key: &[u8], value: StoredValue<'_>) -> usize {
    let value = match value {
        StoredValue::Inline(value) => value.len(),
        StoredValue::Long { .. } => LONG_BYTES,
    };
    CELL_HEADER_BYTES + key.len() + value
}

/// Whether two keys are the same.
#[inline(always)]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() || one.len() > 16 {
        return one == other;
    }
    // Most keys are that short: calling what compares any number of bytes would take longer.
    match (one.first_chunk::<8>(), other.first_chunk::<8>(), one.last_chunk::<8>(), other.last_chunk::<8>()) {
        (Some(first), Some(other_first), Some(last), Some(other_last)) => {
            first == other_first && last == other_last
        }
        _ => one == other,
    }
}

/// A record as a bucket has it.
pub(super) type BucketRecord<'p> = (&'p [u8], StoredValue<'p>);

/// A page that passed [`check`].
#[derive(Clone, Copy)]
pub(super) struct Bucket<'p> {
    bytes: &'p [u8],
}

impl<'p> Bucket<'p> {
    #[inline(always)]
    pub(super) fn new(bytes: &'p [u8]) -> Bucket<'p> {
        Bucket { bytes }
    }

    #[inline(always)]
    fn half(self, place: usize) -> usize {
        u16::from_le_bytes(at(self.bytes, place)).into()
    }

    fn word(self, place: usize) -> usize {
        u32::from_le_bytes(at(self.bytes, place)) as usize
    }

    /// Which hashes it is for.
    #[inline(always)]
    pub(super) fn stretch(self) -> HashPrefix {
        let [level] = at(self.bytes, LEVEL_AT);
        HashPrefix { level, prefix: u64::from_le_bytes(at(self.bytes, PREFIX_AT)) }
    }

    /// How many records it has.
    #[inline(always)]
    pub(super) fn count(self) -> usize {
        self.half(COUNT_AT)
    }

    fn tags_of_lane(self, lane: usize) -> [u8; LANE] {
        at(self.bytes, HEADER_BYTES + lane * LANE)
    }

    /// Where the cell of a slot is.
    #[inline(always)]
    pub(super) fn cell_at(self, slot: usize) -> usize {
        self.half(slots_at(self.count()) + SLOT_BYTES * slot)
    }

    #[inline(always)]
    fn cell(self, slot: usize) -> &'p [u8] {
        &self.bytes[self.cell_at(slot)..]
    }

    /// The key of a record.
    #[inline(always)]
    pub(super) fn key(self, slot: usize) -> &'p [u8] {
        let cell = self.cell(slot);
        let len = u16::from_le_bytes(at(cell, 0));
        &cell[CELL_HEADER_BYTES..CELL_HEADER_BYTES + usize::from(len)]
    }

    /// The value of a record.
    #[inline(always)]
    pub(super) fn value(self, slot: usize) -> StoredValue<'p> {
        let cell = self.cell(slot);
        let (key_len, value_len) = (u16::from_le_bytes(at(cell, 0)), u16::from_le_bytes(at(cell, 2)));
        let value = &cell[CELL_HEADER_BYTES + usize::from(key_len)..];
        if value_len == LONG {
            return StoredValue::Long {
                first_page: PageId(u32::from_le_bytes(at(value, 0))),
                len: u64::from_le_bytes(at(value, 4)),
            };
        }
        StoredValue::Inline(&value[..value_len.into()])
    }

    /// All records, in no order.
    pub(super) fn records(self) -> impl Iterator<Item = BucketRecord<'p>> {
        (0..self.count()).map(move |slot| (self.key(slot), self.value(slot)))
    }

    /// The slot of a key with this hash.
    #[inline(always)]
    pub(super) fn find(self, hash: u64, key: &[u8]) -> Option<usize> {
        let count = self.count();
        let wanted = tag(hash);
        for lane in 0..count.div_ceil(LANE) {
            let mut found = matching(&self.tags_of_lane(lane), wanted);
            while found != 0 {
                let slot = lane * LANE + found.trailing_zeros() as usize;
                // Behind the tags of all records there may be more.
                if slot < count && is_same(self.key(slot), key) {
                    return Some(slot);
                }
                found &= found - 1;
            }
        }
        None
    }

    /// The free bytes between slots and cells.
    #[inline]
    pub(super) fn gap(self) -> Range<usize> {
        front_bytes(self.count())..self.word(CELLS_AT)
    }

    /// Bytes that its records take, with their tags and slots.
    pub(super) fn used_bytes(self) -> usize {
        front_bytes(self.count()) - HEADER_BYTES + self.bytes.len() - self.word(CELLS_AT) - self.word(GAPS_AT)
    }

    /// Bytes that records, tags and slots can take.
    pub(super) fn usable_bytes(self) -> usize {
        self.bytes.len() - HEADER_BYTES
    }

    /// Bytes of a cell, with its header.
    fn bytes_of_cell(self, slot: usize) -> usize {
        cell_bytes(self.key(slot), self.value(slot))
    }
}

/// A page that passed [`check`], to be changed.
pub(super) struct BucketMut<'p> {
    bytes: &'p mut [u8],
}

impl<'p> BucketMut<'p> {
    pub(super) fn new(bytes: &'p mut [u8]) -> BucketMut<'p> {
        BucketMut { bytes }
    }

    /// Makes an empty bucket.
    pub(super) fn format(
        bytes: &'p mut [u8],
        (page, tree): (PageId, TreeId),
        stretch: HashPrefix,
    ) -> BucketMut<'p> {
        bytes.fill(0);
        header::form(bytes, page, tree, KIND);
        let mut bucket = BucketMut { bytes };
        bucket.set_stretch(stretch);
        bucket.set_word(CELLS_AT, bucket.bytes.len());
        bucket
    }

    fn look(&self) -> Bucket<'_> {
        Bucket::new(self.bytes)
    }

    fn set_half(&mut self, place: usize, half: usize) {
        self.bytes[place..place + 2].copy_from_slice(&(half as u16).to_le_bytes());
    }

    fn set_word(&mut self, place: usize, word: usize) {
        self.bytes[place..place + 4].copy_from_slice(&(word as u32).to_le_bytes());
    }

    /// Where the cell is that was written last: that of the record that was added last.
    #[inline(always)]
    pub(super) fn last_cell_at(&self) -> usize {
        self.look().word(CELLS_AT)
    }

    /// Says which hashes it is for.
    pub(super) fn set_stretch(&mut self, stretch: HashPrefix) {
        self.bytes[LEVEL_AT] = stretch.level;
        self.bytes[PREFIX_AT..PREFIX_AT + 8].copy_from_slice(&stretch.prefix.to_le_bytes());
    }

    /// Adds a record whose key it does not have.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        key: &[u8],
        value: StoredValue<'_>,
    ) -> std::result::Result<(), BucketFull> {
        let count = self.look().count();
        let cell = self.make_room(front_bytes(count + 1), cell_bytes(key, value))?;
        if count.is_multiple_of(LANE) {
            let slots = slots_at(count);
            self.bytes.copy_within(slots..slots + SLOT_BYTES * count, slots + LANE);
            self.bytes[slots..slots + LANE].fill(0);
        }
        self.bytes[HEADER_BYTES + count] = tag(hash);
        self.set_half(COUNT_AT, count + 1);
        self.set_half(slots_at(count + 1) + SLOT_BYTES * count, cell);
        self.write_cell(cell, key, value);
        Ok(())
    }

    /// Gives a record another value.
    pub(super) fn replace_value(
        &mut self,
        slot: usize,
        value: StoredValue<'_>,
    ) -> std::result::Result<(), BucketFull> {
        let look = self.look();
        if let (StoredValue::Inline(before), StoredValue::Inline(value)) = (look.value(slot), value)
            && before.len() == value.len()
        {
            let at = look.cell_at(slot) + CELL_HEADER_BYTES + look.key(slot).len();
            self.bytes[at..at + value.len()].copy_from_slice(value);
            return Ok(());
        }
        let (key_len, before) = (look.key(slot).len(), look.bytes_of_cell(slot));
        let place = slots_at(look.count()) + SLOT_BYTES * slot;
        let (cell, gaps) = (look.half(place), look.word(GAPS_AT));
        let wanted = cell_bytes(&[], value) + key_len;
        if wanted <= before {
            self.set_word(GAPS_AT, gaps + before - wanted);
            self.write_value(cell + CELL_HEADER_BYTES + key_len, value);
            let len = match value {
                StoredValue::Inline(value) => value.len() as u16,
                StoredValue::Long { .. } => LONG,
            };
            self.set_half(cell + 2, len.into());
            return Ok(());
        }
        let free = look.word(CELLS_AT) - front_bytes(look.count()) + gaps;
        if free + before < wanted {
            return Err(BucketFull);
        }
        let (key, front, cells) = (look.key(slot).to_vec(), front_bytes(look.count()), look.word(CELLS_AT));
        if front + wanted <= cells {
            self.set_word(GAPS_AT, gaps + before);
        } else {
            self.close_gaps(Some(slot));
        }
        let cell = self.look().word(CELLS_AT) - wanted;
        self.set_word(CELLS_AT, cell);
        self.set_half(place, cell);
        self.write_cell(cell, &key, value);
        Ok(())
    }

    /// Removes a record.
    pub(super) fn remove(&mut self, slot: usize) {
        let look = self.look();
        let (count, gaps) = (look.count(), look.word(GAPS_AT) + look.bytes_of_cell(slot));
        let (last, slots) = (count - 1, slots_at(count));
        self.set_word(GAPS_AT, gaps);
        self.bytes[HEADER_BYTES + slot] = self.bytes[HEADER_BYTES + last];
        let moved = self.look().half(slots + SLOT_BYTES * last);
        self.set_half(slots + SLOT_BYTES * slot, moved);
        self.bytes[HEADER_BYTES + last] = 0;
        self.set_half(COUNT_AT, last);
        if last.is_multiple_of(LANE) {
            self.bytes.copy_within(slots..slots + SLOT_BYTES * last, slots - LANE);
        }
    }

    /// Where a cell of so many bytes can be written, with tags and slots up to `front`.
    fn make_room(&mut self, front: usize, cell: usize) -> std::result::Result<usize, BucketFull> {
        let look = self.look();
        let (cells, gaps) = (look.word(CELLS_AT), look.word(GAPS_AT));
        if front + cell > cells {
            if front + cell > cells + gaps {
                return Err(BucketFull);
            }
            self.close_gaps(None);
        }
        let place = self.look().word(CELLS_AT) - cell;
        self.set_word(CELLS_AT, place);
        Ok(place)
    }

    /// Moves all cells, but for that of one slot, to the end of the page.
    fn close_gaps(&mut self, without: Option<usize>) {
        let old = self.bytes.to_vec();
        let look = Bucket::new(&old);
        let slots = slots_at(look.count());
        let mut end = old.len();
        for slot in (0..look.count()).filter(|slot| Some(*slot) != without) {
            let len = look.bytes_of_cell(slot);
            end -= len;
            self.bytes[end..end + len].copy_from_slice(&look.cell(slot)[..len]);
            self.set_half(slots + SLOT_BYTES * slot, end);
        }
        self.set_word(CELLS_AT, end);
        self.set_word(GAPS_AT, 0);
    }

    fn write_cell(&mut self, cell: usize, key: &[u8], value: StoredValue<'_>) {
        self.set_half(cell, key.len());
        let len = match value {
            StoredValue::Inline(value) => value.len() as u16,
            StoredValue::Long { .. } => LONG,
        };
        self.set_half(cell + 2, len.into());
        let place = cell + CELL_HEADER_BYTES;
        self.bytes[place..place + key.len()].copy_from_slice(key);
        self.write_value(place + key.len(), value);
    }

    fn write_value(&mut self, place: usize, value: StoredValue<'_>) {
        match value {
            StoredValue::Inline(value) => self.bytes[place..place + value.len()].copy_from_slice(value),
            StoredValue::Long { first_page, len } => {
                self.bytes[place..place + 4].copy_from_slice(&first_page.0.to_le_bytes());
                self.bytes[place + 4..place + LONG_BYTES].copy_from_slice(&len.to_le_bytes());
            }
        }
    }

    /// Adds a record of another bucket. There is room.
    pub(super) fn take_over(&mut self, from: Bucket<'_>, slot: usize) {
        let hash = u64::from(from.bytes[HEADER_BYTES + slot]);
        self.insert(hash, from.key(slot), from.value(slot)).expect("it has room for what it takes over");
    }
}

/// Tells whether bytes that say they are a bucket can be worked on.
pub(crate) fn check(page: &[u8]) -> Result<(), String> {
    // The map of used bytes is on the stack; clear no more of it than the page needs.
    match page.len() {
        _ if !header::is_page_size(page.len()) => Err(format!("{} bytes are no page", page.len())),
        ..=4096 => check_cells(page, &mut [0; 4096 / 64]),
        _ => check_cells(page, &mut [0; 65536 / 64]),
    }
}

fn check_cells(page: &[u8], used: &mut [u64]) -> Result<(), String> {
    let this = Bucket::new(page);
    if !this.stretch().is_sound() {
        return Err("the hashes that it says it is for are none that a bucket can be for".to_owned());
    }
    let (count, cells, gaps) = (this.count(), this.word(CELLS_AT), this.word(GAPS_AT));
    if front_bytes(count) > cells || cells > page.len() {
        return Err(format!("{count} records, and cells from {cells} on"));
    }
    let mut bytes = 0;
    for slot in 0..count {
        let place = this.half(slots_at(count) + SLOT_BYTES * slot);
        let (true, Some(cell)) = (place >= cells, page.get(place..)) else {
            return Err(format!("the cell of record {slot} is at {place}"));
        };
        let Some(&[a, b, c, d]) = cell.first_chunk::<CELL_HEADER_BYTES>() else {
            return Err(format!("the cell of record {slot} is cut short"));
        };
        let (key_len, value_len) = (usize::from(u16::from_le_bytes([a, b])), u16::from_le_bytes([c, d]));
        let is_long = value_len == LONG;
        let value_bytes = if is_long { LONG_BYTES } else { value_len.into() };
        let len = CELL_HEADER_BYTES + key_len + value_bytes;
        if len > cell.len() {
            return Err(format!("the cell of record {slot} is cut short"));
        }
        if key_len > key_bytes_max(page.len())
            || !is_long && value_bytes > inline_value_bytes_max(page.len(), key_len)
        {
            return Err(format!("record {slot} is longer than records are"));
        }
        // A change of one would change the lengths of the other.
        if !claim(used, place, len) {
            return Err(format!("the cell of record {slot}, {len} bytes at {place}, overlaps another"));
        }
        bytes += len;
    }
    if bytes + gaps != page.len() - cells {
        return Err(format!("{bytes} bytes in cells and {gaps} between them, from {cells} on"));
    }
    Ok(())
}
