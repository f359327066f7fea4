//! Copying whole leaves out: what a scan hands to its caller.
//!
//! Keys and values are copied 64 bytes at a time, beyond their ends where page and buffer have the room, because a copy of known
//! length is a vector move or two, and a copy of exact length a call. A page of 8-byte keys and 32-byte values costs some 2-3 ns a record.

use std::ops::Range;

use super::Value;
use super::bytes::u16_at;
use super::cell::{Cell, decode_long};
use super::header;
use super::leaf::Leaf;
use super::slots::{LEAF, offset_at};

/// How far beyond its end a copy may write.
const SLACK: usize = 64;

/// Where a record is in a batch.
#[derive(Clone, Copy, Default, Debug)]
struct Record {
    at: u32,
    key_len: u16,
    /// The top bit says that the value is `Long`.
    value_len: u16,
}

const LONG: u16 = 0x8000;

/// Records copied out of leaves, with whole keys, to be read by number.
#[derive(Default, Debug)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    bytes_used: usize,
    records: Vec<Record>,
    count: usize,
}

impl Batch {
    /// An empty batch.
    pub(crate) fn new() -> Batch {
        Batch::default()
    }

    /// How many records it has.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Forgets the records, keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes_used = 0;
        self.count = 0;
    }

    /// A record's whole key.
    #[inline]
    pub(crate) fn key(&self, i: usize) -> &[u8] {
        let record = self.record(i);
        let at = record.at as usize;
        &self.bytes[at..at + usize::from(record.key_len)]
    }

    /// A record's value.
    #[inline]
    pub(crate) fn value(&self, i: usize) -> Value<'_> {
        let record = self.record(i);
        let at = record.at as usize + usize::from(record.key_len);
        let bytes = &self.bytes[at..at + usize::from(record.value_len & !LONG)];
        if record.value_len & LONG == 0 { Value::Inline(bytes) } else { decode_long(bytes) }
    }

    #[inline]
    fn record(&self, i: usize) -> Record {
        self.records[..self.count][i]
    }

    /// Makes room: the lengths of the vectors are high-water marks, so that nothing is zeroed twice.
    fn reserve(&mut self, bytes: usize, records: usize) {
        let bytes = self.bytes_used + bytes + SLACK;
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes.next_power_of_two(), 0);
        }
        let records = self.count + records;
        if self.records.len() < records {
            self.records.resize(records.next_power_of_two(), Record::default());
        }
    }
}

impl Leaf<'_> {
    /// Appends the records of a range of slots to a batch.
    pub(crate) fn copy_into(self, slots: Range<usize>, batch: &mut Batch) {
        let (page, count) = (self.page, self.count());
        assert!(slots.start <= slots.end && slots.end <= count);
        let prefix = header::prefix(page);
        batch.reserve(page.len() - header::heap_start(page) + slots.len() * prefix.len(), slots.len());
        let offsets = &page[offset_at::<LEAF>(count, slots.start)..offset_at::<LEAF>(count, slots.end)];
        let records = &mut batch.records[batch.count..batch.count + slots.len()];
        let mut at = batch.bytes_used;
        for (offset, record) in offsets.chunks_exact(2).zip(records) {
            let cell = Cell::at(page, u16_at(offset, 0).into());
            let len = cell.key_len + cell.value_len;
            let key_len = prefix.len() + cell.key_len;
            let value_len = cell.value_len as u16 | if cell.is_long { LONG } else { 0 };
            *record = Record { at: at as u32, key_len: key_len as u16, value_len };
            copy(&mut batch.bytes, at, prefix, 0, prefix.len());
            copy(&mut batch.bytes, at + prefix.len(), page, cell.key_at, len);
            at += prefix.len() + len;
        }
        batch.bytes_used = at;
        batch.count += slots.len();
    }
}

/// Copies `len` bytes, and perhaps up to 64 more.
#[inline(always)]
fn copy(to: &mut [u8], to_at: usize, from: &[u8], from_at: usize, len: usize) {
    if len <= SLACK {
        let source = from.get(from_at..).and_then(|rest| rest.first_chunk::<SLACK>());
        let target = to.get_mut(to_at..).and_then(|rest| rest.first_chunk_mut::<SLACK>());
        if let (Some(source), Some(target)) = (source, target) {
            *target = *source;
            return;
        }
    }
    to[to_at..to_at + len].copy_from_slice(&from[from_at..from_at + len]);
}
