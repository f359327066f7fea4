//! How long keys and inline values in a page may be, so that four of the longest always fit a page.
//!
//! With page size P, header H = 128, longest key K and largest leaf entry C (head 4, offset 2, cell header 4,
//! key, value), we want
//!
//! ```text
//! 4 C + 2 K <= P - H          four largest entries and two longest fences
//! K = P/8 - 16                so 2K = P/4 - 32
//! C = 3P/16 - 24              so 4C = 3P/4 - 96, and 4C + 2K = P - 128
//! ```
//!
//! hence key + value <= C - 10 = 3P/16 - 34, rounded down. With the longest key there remain P/16 - 18 >= 12
//! bytes (at P = 480), and the reference to a long value needs 12, one to a subtree 8. An inner entry is at
//! most K + 14 (head 4, child 4, offset 2, cell header 4): less than C.
//!
//! A split in the middle leaves room for any further entry in both halves. With U = P - H, the full page held
//! S <= U - L - R bytes of entries between fences of L and R bytes. The halves differ by at most one entry,
//! so the larger has at most (S + C)/2; it keeps one fence (say L), gets a new one of at most K, and takes
//! one more entry of at most C:
//!
//! ```text
//! (U - L - R + C)/2 + L + K + C  <=  U/2 + 3/2 (C + K)  <=  U     if 3C + 3K <= U, which follows from 4C + 2K <= U and K <= C
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

/// The longest key that pages of `page_size` bytes can hold; longer ones are nested.
pub(crate) const fn key_bytes_max(page_size: usize) -> usize {
    page_size / 8 - 16
}

/// The longest value stored in the leaf itself beside a key of `key_len` bytes; a longer one becomes
/// [`Long`](super::Value::Long).
pub(crate) const fn inline_value_bytes_max(page_size: usize, key_len: usize) -> usize {
    record_bytes_max(page_size).saturating_sub(key_len)
}

/// Key and value together.
pub(super) const fn record_bytes_max(page_size: usize) -> usize {
    page_size * 3 / 16 - 34
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
        assert!(4 * (record_bytes_max(page_size) + 10) + 2 * key <= usable_bytes(page_size));
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
