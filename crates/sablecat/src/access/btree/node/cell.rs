//! Cells: a key's suffix and a value that say their own lengths.
//!
//! ```text
//! short  u16 = key length (7 bits) | value length << 7 (8 bits)        key  value
//! long   u16 = key length (15 bits) | 0x8000
//!        u16 = value length (15 bits) | 0x8000 if the value is Long    key  value
//! ```
//!
//! "Key" is what is left of it after the page's prefix. The value of a `Long` is {first page u32, length
//! u64}. An inner page's cells have an empty value; their child is in the slot.

use super::StoredValue;
use super::bytes::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use super::limits::LONG_VALUE_BYTES;
use crate::types::PageId;

const WIDE: u16 = 0x8000;

/// Where the parts of a cell are.
#[derive(Clone, Copy)]
pub(super) struct Cell {
    /// Of the key's suffix; the value follows it.
    pub(super) key_at: usize,
    pub(super) key_len: usize,
    pub(super) value_len: usize,
    pub(super) is_long: bool,
    header_len: usize,
}

impl Cell {
    /// Reads the header of the cell at `at`.
    #[inline(always)]
    pub(super) fn at(page: &[u8], at: usize) -> Cell {
        let first = u16_at(page, at);
        if first & WIDE == 0 {
            let (key_len, value_len) = (usize::from(first & 0x7f), usize::from(first >> 7));
            Cell { key_at: at + 2, key_len, value_len, is_long: false, header_len: 2 }
        } else {
            let second = u16_at(page, at + 2);
            let (key_len, value_len) = (usize::from(first & !WIDE), usize::from(second & !WIDE));
            Cell { key_at: at + 4, key_len, value_len, is_long: second & WIDE != 0, header_len: 4 }
        }
    }

    /// The same, for bytes nobody checked: `None` if the cell or its value's form is impossible in a page of
    /// this length.
    #[inline(always)]
    pub(super) fn checked_at(page: &[u8], at: usize) -> Option<Cell> {
        let header = page.get(at..)?;
        if header.len() < 2 || (header[1] & 0x80 != 0 && header.len() < 4) {
            return None;
        }
        let cell = Cell::at(page, at);
        let fits = cell.value_at() + cell.value_len <= page.len();
        (fits && (!cell.is_long || cell.value_len == LONG_VALUE_BYTES)).then_some(cell)
    }

    /// How many bytes there are of key and value, by the header that `bytes` begin with; none if that is not
    /// the short one, or the key has not this length.
    #[inline(always)]
    pub(super) fn narrow_body(bytes: &[u8], key_len: u8) -> Option<usize> {
        let header = u16::from_le_bytes(*bytes.first_chunk()?);
        let is_so = header & (WIDE | 0x7f) == u16::from(key_len);
        is_so.then_some(usize::from(key_len) + usize::from(header >> 7))
    }

    /// Whether its header is the short one.
    #[inline(always)]
    pub(super) fn is_narrow(&self) -> bool {
        self.header_len == 2
    }

    #[inline(always)]
    pub(super) fn value_at(&self) -> usize {
        self.key_at + self.key_len
    }

    #[inline(always)]
    pub(super) fn size(&self) -> usize {
        self.header_len + self.key_len + self.value_len
    }

    #[inline(always)]
    pub(super) fn key<'a>(&self, page: &'a [u8]) -> &'a [u8] {
        &page[self.key_at..self.key_at + self.key_len]
    }

    #[inline(always)]
    pub(super) fn value<'a>(&self, page: &'a [u8]) -> StoredValue<'a> {
        if self.is_long {
            decode_long(&page[self.value_at()..])
        } else {
            StoredValue::Inline(&page[self.value_at()..self.value_at() + self.value_len])
        }
    }
}

pub(super) fn decode_long(bytes: &[u8]) -> StoredValue<'_> {
    StoredValue::Long { first_page: PageId(u32_at(bytes, 0)), len: u64_at(bytes, 4) }
}

/// A value in pages of its own, as it is in cells.
pub(super) fn encode_long(first_page: PageId, len: u64) -> [u8; LONG_VALUE_BYTES] {
    let mut bytes = [0; LONG_VALUE_BYTES];
    put_u32(&mut bytes, 0, first_page.0);
    put_u64(&mut bytes, 4, len);
    bytes
}

/// The bytes a value takes in a cell.
#[inline(always)]
pub(super) fn value_len(value: StoredValue<'_>) -> usize {
    match value {
        StoredValue::Inline(bytes) => bytes.len(),
        StoredValue::Long { .. } => LONG_VALUE_BYTES,
    }
}

/// Whether its value is in pages of its own.
#[inline(always)]
fn is_long(value: StoredValue<'_>) -> bool {
    matches!(value, StoredValue::Long { .. })
}

#[inline(always)]
fn header_len(key_len: usize, value_len: usize, is_long: bool) -> usize {
    if key_len > 0x7f || value_len > 0xff || is_long { 4 } else { 2 }
}

/// The bytes a cell takes.
#[inline(always)]
pub(super) fn size(key_len: usize, value: StoredValue<'_>) -> usize {
    let value_len = value_len(value);
    header_len(key_len, value_len, is_long(value)) + key_len + value_len
}

/// Writes a cell's header at `at`; returns where its key goes.
#[inline(always)]
pub(super) fn write_header(page: &mut [u8], at: usize, key_len: usize, value: StoredValue<'_>) -> usize {
    write_form(page, at, key_len, value_len(value), is_long(value))
}

#[inline(always)]
fn write_form(page: &mut [u8], at: usize, key_len: usize, value_len: usize, is_long: bool) -> usize {
    debug_assert!(key_len < 1 << 15 && value_len < 1 << 15);
    let header_len = header_len(key_len, value_len, is_long);
    if header_len == 4 {
        put_u16(page, at, key_len as u16 | WIDE);
        put_u16(page, at + 2, value_len as u16 | if is_long { WIDE } else { 0 });
    } else {
        put_u16(page, at, (key_len | value_len << 7) as u16);
    }
    at + header_len
}

#[inline(always)]
pub(super) fn write_value(page: &mut [u8], at: usize, value: StoredValue<'_>) {
    match value {
        StoredValue::Inline(bytes) => page[at..at + bytes.len()].copy_from_slice(bytes),
        StoredValue::Long { first_page, len } => {
            page[at..at + LONG_VALUE_BYTES].copy_from_slice(&encode_long(first_page, len));
        }
    }
}

/// Writes a whole cell at `at`.
#[inline(always)]
pub(super) fn write(page: &mut [u8], at: usize, key: &[u8], value: StoredValue<'_>) {
    let key_at = write_header(page, at, key.len(), value);
    page[key_at..key_at + key.len()].copy_from_slice(key);
    write_value(page, key_at + key.len(), value);
}

/// What a cell is made of, as it lies elsewhere: in a cell of another page, most often.
#[derive(Clone, Copy)]
pub(super) struct CellContent<'a> {
    /// What the key begins with.
    front: &'a [u8],
    /// The rest of the key, and the value as it is in cells.
    body: &'a [u8],
    /// How much of the body is the key's.
    rest_len: usize,
    is_long: bool,
}

impl<'a> CellContent<'a> {
    /// `body`: the rest of the key, `rest_len` bytes at most, and the value as it is in cells.
    #[inline(always)]
    pub(super) fn new(front: &'a [u8], body: &'a [u8], rest_len: usize, is_long: bool) -> CellContent<'a> {
        CellContent { front, body, rest_len, is_long }
    }

    /// Of a cell of a page whose keys begin with this.
    #[inline(always)]
    pub(super) fn of(page: &'a [u8], prefix: &'a [u8], cell: Cell) -> CellContent<'a> {
        let body = &page[cell.key_at..cell.value_at() + cell.value_len];
        CellContent::new(prefix, body, cell.key_len, cell.is_long)
    }

    /// The same without the key's first `n` bytes.
    #[inline(always)]
    pub(super) fn without(self, n: usize) -> CellContent<'a> {
        let of_body = n.saturating_sub(self.front.len()).min(self.rest_len);
        CellContent {
            front: self.front.get(n..).unwrap_or_default(),
            body: &self.body[of_body..],
            rest_len: self.rest_len - of_body,
            is_long: self.is_long,
        }
    }

    #[inline(always)]
    fn key_len(self) -> usize {
        self.front.len() + self.rest_len
    }

    #[inline(always)]
    fn value_len(self) -> usize {
        self.body.len() - self.rest_len
    }

    /// The bytes its cell takes.
    #[inline(always)]
    pub(super) fn size(self) -> usize {
        header_len(self.key_len(), self.value_len(), self.is_long) + self.front.len() + self.body.len()
    }

    /// Writes its cell at `at`.
    #[inline(always)]
    pub(super) fn write(self, page: &mut [u8], at: usize) {
        let mut at = write_form(page, at, self.key_len(), self.value_len(), self.is_long);
        // Mostly left out: two halves of a page begin with no less than the whole.
        if !self.front.is_empty() {
            page[at..at + self.front.len()].copy_from_slice(self.front);
            at += self.front.len();
        }
        page[at..at + self.body.len()].copy_from_slice(self.body);
    }
}
