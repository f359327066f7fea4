//! How long keys and inline values in a page may be, so that two of the longest always fit a page.
//!
//! With page size P, header H = 128, longest key K and largest leaf entry C (head 4, offset 2, cell header 4,
//! key, value), we want
//!
//! ```text
//! 2 C + 2 K <= P - H          two largest entries and two longest fences
//! K = P/8 - 16                so 2K = P/4 - 32
//! C = 3P/8 - 48               so 2C = 3P/4 - 96, and 2C + 2K = P - 128
//! ```
//!
//! hence key + value <= C - 10 = 3P/8 - 58, rounded down; and no more than a record of the log takes with the
//! least of buffers (12,254 bytes, which only pages of more than 32 KiB would have beyond). With the longest
//! key there remain P/4 - 42 bytes, and the reference to a long value needs 12, one to a subtree 8. An inner
//! entry is at most K + 14 (head 4, child 4, offset 2, cell header 4): less than C.
//!
//! Of a leaf that has no room for an entry there are at least two in it, so it can be split; and each half
//! has room for what it gets. With U = P - H, the full page held S <= U - L - R bytes of entries between
//! fences of L and R bytes. The halves of a split in the middle differ by at most one entry, so the larger
//! has at most (S + C)/2; it keeps one fence (say L) and gets a new one of at most K:
//!
//! ```text
//! (U - L - R + C)/2 + L + K  <=  U/2 + (C + 3K)/2  <=  U
//!                                if C + 3K <= U, which follows from 2C + 2K <= U and K <= C
//! ```
//!
//! It need not have room for the entry that the split is for: then it is split again, at most until that
//! entry is beside one other. Inner pages have room at once: their entries are at most E = K + 14, and with a
//! further one the larger half has
//!
//! ```text
//! (U - L - R + E)/2 + L + K + E  <=  U/2 + 3/2 (E + K)  <=  U     if 3E + 3K <= U: 6K + 42 = 3P/4 - 54
//! ```
//!
//! Entries do not grow in a split, since a half's prefix is at least that of the whole.

use super::counts::COUNT_BYTES;
use super::header::HEADER_BYTES;
use crate::pages::header::{PAGE_SIZE_MIN, is_page_size};

/// What a reference to a long value takes in a cell: page id u32, length u64.
pub(super) const LONG_VALUE_BYTES: usize = 12;

/// The longest reference to a subtree: tree id u32, root page u32, and a count (nest.rs).
pub(super) const REFERENCE_BYTES_MAX: usize = 8 + COUNT_BYTES;

/// Key and value together, in pages of whatever size.
const RECORD_BYTES_MAX: usize = 12_254;

/// The longest key that pages of `page_size` bytes can hold; longer ones are nested.
pub(crate) const fn key_bytes_max(page_size: usize) -> usize {
    page_size / 8 - 16
}

/// The longest value stored in the leaf itself beside a key of `key_len` bytes; a longer one becomes
/// [`Long`](super::StoredValue::Long).
pub(crate) const fn inline_value_bytes_max(page_size: usize, key_len: usize) -> usize {
    record_bytes_max(page_size).saturating_sub(key_len)
}

/// Key and value together.
pub(super) const fn record_bytes_max(page_size: usize) -> usize {
    let most = page_size * 3 / 8 - 58;
    if most < RECORD_BYTES_MAX { most } else { RECORD_BYTES_MAX }
}

/// All that fences, slots and cells can share in a page.
pub(super) const fn usable_bytes(page_size: usize) -> usize {
    page_size - HEADER_BYTES
}

const _: () = {
    let mut page_size = PAGE_SIZE_MIN;
    while page_size <= 65536 {
        assert!(is_page_size(page_size));
        let key = key_bytes_max(page_size);
        assert!(2 * (record_bytes_max(page_size) + 10) + 2 * key <= usable_bytes(page_size));
        assert!(3 * (key + 14 + COUNT_BYTES) + 3 * key <= usable_bytes(page_size));
        assert!(inline_value_bytes_max(page_size, key) >= LONG_VALUE_BYTES);
        assert!(key + 14 + COUNT_BYTES <= record_bytes_max(page_size) + 10);
        // In the smallest pages a reference with a count has two bytes more than a record may, and two less
        // of a header.
        let reference = key + REFERENCE_BYTES_MAX;
        assert!(reference <= record_bytes_max(page_size) + if key <= 0x7f { 2 } else { 0 });
        // Lengths fit the 15 bits a cell header has for them.
        assert!(record_bytes_max(page_size) < 1 << 15);
        page_size += 8;
    }
};
