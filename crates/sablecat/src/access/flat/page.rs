//! A page of the chain: its ends, the next page, and its records in order, one after the other.
//!
//! ```text
//!   0  ..   what all pages have (pages/header.rs); kind 255
//!  21  u8   1: it is the first, without a lower end
//!  22  u16  bytes of the lower end
//!  24  u32  next page; 0: it is the last, without an upper end
//!  28  u16  bytes of the upper end
//!  32  u32  where the records end
//!  36  ..   lower end | upper end | records
//!
//! record   key length u16 | value length u16 | key | value
//!          a value length of 0xffff: in pages of its own; the value is its first page u32 and its length u64
//! ```
//!
//! A page is written whole, from its *content*. With page size P, ends and keys have P/8 - 16 bytes at most,
//! values in the page P/8: so a record takes at most a third of what the longest ends leave, and of what is
//! one record too much for a page there always is a first part and a second one that fit.

use std::cmp::Ordering;

use crate::access::method::{Order, StoredValue};
use crate::pages::header;
use crate::types::{PageId, TreeId};

/// The kind of these pages.
pub(crate) const KIND: u8 = 255;

const FLAGS_AT: usize = 21;
const LOWER_LEN_AT: usize = 22;
const NEXT_AT: usize = 24;
const UPPER_LEN_AT: usize = 28;
const END_AT: usize = 32;
const HEADER_BYTES: usize = 36;
const FIRST: u8 = 1;

const RECORD_HEADER_BYTES: usize = 4;
const LONG: u16 = u16::MAX;
const LONG_BYTES: usize = 12;

/// The longest key.
pub(crate) fn key_bytes_max(page_size: usize) -> usize {
    page_size / 8 - 16
}

/// The longest value in the page itself.
pub(crate) fn inline_value_bytes_max(page_size: usize) -> usize {
    page_size / 8
}

/// A key and its value.
pub(super) type FlatRecord<'p> = (&'p [u8], StoredValue<'p>);

/// A page that passed [`check`].
#[derive(Clone, Copy)]
pub(super) struct Page<'p> {
    bytes: &'p [u8],
}

impl<'p> Page<'p> {
    pub(super) fn new(bytes: &'p [u8]) -> Page<'p> {
        Page { bytes }
    }

    fn half(self, at: usize) -> usize {
        u16::from_le_bytes(header::at(self.bytes, at)).into()
    }

    /// The least key that may be in it; none: it is the first.
    pub(super) fn lower(self) -> Option<&'p [u8]> {
        let lower = &self.bytes[HEADER_BYTES..HEADER_BYTES + self.half(LOWER_LEN_AT)];
        (self.bytes[FLAGS_AT] & FIRST == 0).then_some(lower)
    }

    /// The next page.
    pub(super) fn next(self) -> Option<PageId> {
        Some(PageId(u32::from_le_bytes(header::at(self.bytes, NEXT_AT)))).filter(|next| *next != PageId::NONE)
    }

    /// The next page, and where that begins.
    pub(super) fn upper(self) -> Option<(&'p [u8], PageId)> {
        let at = HEADER_BYTES + self.half(LOWER_LEN_AT);
        self.next().map(|next| (&self.bytes[at..at + self.half(UPPER_LEN_AT)], next))
    }

    /// Whether a key belongs here.
    pub(super) fn covers(self, key: &[u8], order: Order<'_>) -> bool {
        self.lower().is_none_or(|lower| order.compare(lower, key).is_le())
            && self.upper().is_none_or(|(upper, _)| order.compare(key, upper).is_lt())
    }

    /// All records.
    pub(super) fn records(self) -> impl Iterator<Item = FlatRecord<'p>> {
        let begin = HEADER_BYTES + self.half(LOWER_LEN_AT) + self.half(UPPER_LEN_AT);
        let mut left = &self.bytes[begin..u32::from_le_bytes(header::at(self.bytes, END_AT)) as usize];
        std::iter::from_fn(move || take(&mut left))
    }

    /// The value of a key.
    pub(super) fn get(self, key: &[u8], order: Order<'_>) -> Option<StoredValue<'p>> {
        self.records().find(|(have, _)| order.compare(have, key).is_eq()).map(|(_, value)| value)
    }

    /// All that it holds.
    pub(super) fn content(self) -> PageContent<'p> {
        PageContent { lower: self.lower(), upper: self.upper(), records: self.records().collect() }
    }
}

/// Takes the first record off some; none if there is none.
fn take<'p>(left: &mut &'p [u8]) -> Option<FlatRecord<'p>> {
    let (head, rest) = left.split_first_chunk::<RECORD_HEADER_BYTES>()?;
    let (key_len, value_len) =
        (u16::from_le_bytes([head[0], head[1]]), u16::from_le_bytes([head[2], head[3]]));
    let (key, rest) = rest.split_at_checked(key_len.into())?;
    let (value, rest) =
        rest.split_at_checked(if value_len == LONG { LONG_BYTES } else { value_len.into() })?;
    *left = rest;
    let value = match value.split_first_chunk::<4>() {
        Some((first, len)) if value_len == LONG => StoredValue::Long {
            first_page: PageId(u32::from_le_bytes(*first)),
            len: u64::from_le_bytes(*len.first_chunk()?),
        },
        _ => StoredValue::Inline(value),
    };
    Some((key, value))
}

/// Tells whether bytes that say they are such a page can be worked on.
pub(crate) fn check(page: &[u8]) -> Result<(), String> {
    if !header::is_page_size(page.len()) {
        return Err(format!("{} bytes are no page", page.len()));
    }
    let this = Page::new(page);
    let (begin, end) = (
        HEADER_BYTES + this.half(LOWER_LEN_AT) + this.half(UPPER_LEN_AT),
        u32::from_le_bytes(header::at(page, END_AT)) as usize,
    );
    let Some(mut left) = page.get(begin..end) else {
        return Err(format!("its records are from {begin} to {end}"));
    };
    while !left.is_empty() {
        let at = end - left.len();
        let (key, value) = take(&mut left).ok_or_else(|| format!("a record at {at} is cut short"))?;
        let is_long =
            matches!(value, StoredValue::Inline(value) if value.len() > inline_value_bytes_max(page.len()));
        if key.len() > key_bytes_max(page.len()) || is_long {
            return Err(format!("a record at {at} is longer than records are"));
        }
    }
    if this.half(LOWER_LEN_AT).max(this.half(UPPER_LEN_AT)) > key_bytes_max(page.len()) {
        return Err("its ends are longer than keys are".to_owned());
    }
    Ok(())
}

/// Tells whether the records of a page are in order and between its ends.
pub(super) fn check_order(page: Page<'_>, order: Order<'_>) -> Result<(), String> {
    let mut last = None;
    for (n, (key, _)) in page.records().enumerate() {
        if !page.covers(key, order) {
            return Err(format!("record {n} lies outside the ends of the page"));
        }
        if last.replace(key).is_some_and(|last| order.compare(last, key).is_ge()) {
            return Err(format!("record {n} is not above the one before it"));
        }
    }
    Ok(())
}

/// What a page is to hold.
#[derive(Clone, Default)]
pub(super) struct PageContent<'c> {
    pub(super) lower: Option<&'c [u8]>,
    pub(super) upper: Option<(&'c [u8], PageId)>,
    pub(super) records: Vec<FlatRecord<'c>>,
}

impl<'c> PageContent<'c> {
    /// Sets or removes a record; says what it was.
    pub(super) fn set(
        &mut self,
        order: Order<'_>,
        key: &'c [u8],
        value: Option<StoredValue<'c>>,
    ) -> Option<StoredValue<'c>> {
        let place = self.records.binary_search_by(|(have, _)| order.compare(have, key));
        match (place, value) {
            (Ok(at), Some(value)) => Some(std::mem::replace(&mut self.records[at].1, value)),
            (Ok(at), None) => Some(self.records.remove(at).1),
            (Err(at), Some(value)) => {
                self.records.insert(at, (key, value));
                None
            }
            (Err(_), None) => None,
        }
    }

    /// Bytes that it takes of a page.
    pub(super) fn bytes(&self) -> usize {
        let records: usize = self.records.iter().map(record_bytes).sum();
        HEADER_BYTES
            + self.lower.map_or(0, <[u8]>::len)
            + self.upper.map_or(0, |(upper, _)| upper.len())
            + records
    }

    /// Divides what is too much for a page between two, of which the second is to be this page. None if it
    /// cannot be.
    pub(super) fn split(
        mut self,
        page_size: usize,
        second: PageId,
    ) -> Option<(PageContent<'c>, PageContent<'c>)> {
        let sizes: Vec<usize> = self.records.iter().map(record_bytes).collect();
        let whole: usize = sizes.iter().sum();
        let mut before = 0;
        let parts = sizes.iter().enumerate().skip(1).map(|(n, _)| {
            before += sizes[n - 1];
            (n, before.max(whole - before))
        });
        let (at, _) = parts.min_by(|a, b| a.1.cmp(&b.1).then(Ordering::Less))?;
        let records = self.records.split_off(at);
        let begins = records[0].0;
        let right = PageContent { lower: Some(begins), upper: self.upper, records };
        let left = PageContent { upper: Some((begins, second)), ..self };
        (left.bytes() <= page_size && right.bytes() <= page_size).then_some((left, right))
    }

    /// Writes a page, which it fits.
    pub(super) fn write(&self, bytes: &mut [u8], page: PageId, tree: TreeId) {
        bytes.fill(0);
        header::form(bytes, page, tree, KIND);
        bytes[FLAGS_AT] = if self.lower.is_none() { FIRST } else { 0 };
        let mut end = HEADER_BYTES;
        let mut put = |bytes: &mut [u8], part: &[u8]| {
            bytes[end..end + part.len()].copy_from_slice(part);
            end += part.len();
            end as u32
        };
        let set = |bytes: &mut [u8], at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        let half = |len: usize| (len as u16).to_le_bytes();
        let lower = self.lower.unwrap_or_default();
        set(bytes, LOWER_LEN_AT, &half(lower.len()));
        let mut last = put(bytes, lower);
        if let Some((upper, next)) = self.upper {
            set(bytes, NEXT_AT, &next.0.to_le_bytes());
            set(bytes, UPPER_LEN_AT, &half(upper.len()));
            last = put(bytes, upper);
        }
        for (key, value) in &self.records {
            put(bytes, &half(key.len()));
            match value {
                StoredValue::Inline(value) => {
                    put(bytes, &half(value.len()));
                    put(bytes, key);
                    last = put(bytes, value);
                }
                StoredValue::Long { first_page, len } => {
                    put(bytes, &LONG.to_le_bytes());
                    put(bytes, key);
                    put(bytes, &first_page.0.to_le_bytes());
                    last = put(bytes, &len.to_le_bytes());
                }
            }
        }
        set(bytes, END_AT, &last.to_le_bytes());
    }
}

/// Bytes that a record takes of a page.
pub(super) fn record_bytes((key, value): &FlatRecord<'_>) -> usize {
    let value = match value {
        StoredValue::Inline(value) => value.len(),
        StoredValue::Long { .. } => LONG_BYTES,
    };
    RECORD_HEADER_BYTES + key.len() + value
}
