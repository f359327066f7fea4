//! Long values: those that do not fit beside their key in a leaf.
//!
//! A long value is a run of pages with consecutive ids, so that any part of it is found by arithmetic; the
//! leaf's cell names the first and the length. The pages are never changed: a new value is a new run. Large
//! ones go past the pool (pages/store/run.rs).
//!
//! ```text
//! 0      4         8       16       20     21      64
//! | crc  | page id | born  | tree   | kind | zeros | payload ...
//! ```

use super::{PageWrite, StoredValue};
use crate::error::{Error, Result};
use crate::pages::{Snapshot, header};
use crate::types::{PageId, TreeId, VolumeId};

/// Kind byte of a page that holds part of a long value.
pub(crate) const KIND_LONG: u8 = 3;
const HEADER_BYTES: usize = 64;

/// Bytes of a value in one page.
pub(crate) fn payload_bytes(page_size: usize) -> usize {
    page_size - HEADER_BYTES
}

/// Pages a value takes.
pub(crate) fn page_count(len: u64, page_size: usize) -> u64 {
    len.div_ceil(payload_bytes(page_size) as u64)
}

/// Forms the n-th page of a value.
pub(crate) fn form(bytes: &mut [u8], page: PageId, tree: TreeId, value: &[u8], n: u64) {
    let payload = payload_bytes(bytes.len());
    let from = n as usize * payload;
    let part = &value[from..value.len().min(from + payload)];
    bytes[..HEADER_BYTES].fill(0);
    header::form(bytes, page, tree, KIND_LONG);
    let (payload, rest) = bytes[HEADER_BYTES..].split_at_mut(part.len());
    payload.copy_from_slice(part);
    rest.fill(0);
}

/// Writes a value into pages of its own, in a volume, and says which is the first.
pub(crate) fn store<W: PageWrite>(
    writer: &mut W,
    (tree, home): (TreeId, VolumeId),
    value: &[u8],
) -> Result<PageId> {
    let count = page_count(value.len() as u64, writer.page_size());
    let first = writer.allocate_run(home, count)?;
    for n in 0..count {
        let page = PageId(first.0 + n as u32);
        match writer.write(page) {
            Ok(bytes) => form(bytes, page, tree, value, n),
            Err(error) => {
                writer.give_back(first, count);
                return Err(error);
            }
        }
    }
    Ok(first)
}

/// Gives back the pages of a value that was stored for a record which could not be set.
pub(crate) fn give_back<W: PageWrite>(writer: &mut W, stored: StoredValue<'_>) {
    if let StoredValue::Long { first_page, len } = stored {
        writer.give_back(first_page, page_count(len, writer.page_size()));
    }
}

/// Frees the pages of a value.
pub(crate) fn free<W: PageWrite>(writer: &mut W, first: PageId, len: u64) -> Result<()> {
    let count = page_count(len, writer.page_size());
    if count == 0 || u64::from(first.0) + count > 1 << 32 {
        return Err(Error::corruption(format!(
            "a value of {len} bytes cannot be in pages from page {first} on"
        )));
    }
    writer.free_run(first, count)
}

/// Reads part of a value: from `offset`, as much as `into` has room for and the value holds. Says how much.
pub(crate) fn read(
    snapshot: &Snapshot<'_>,
    page_size: usize,
    first: PageId,
    len: u64,
    offset: u64,
    into: &mut [u8],
) -> Result<usize> {
    let payload = payload_bytes(page_size);
    let wanted = len.saturating_sub(offset).min(into.len() as u64) as usize;
    if wanted == 0 {
        return Ok(0);
    }
    let (from, mut within) = (offset / payload as u64, (offset % payload as u64) as usize);
    let first_read = u32::try_from(u64::from(first.0).saturating_add(from)).map_err(|_| {
        Error::corruption(format!("a value of {len} bytes from page {first} on runs past the last page"))
    })?;
    let mut done = 0;
    snapshot.run(PageId(first_read), ((within + wanted).div_ceil(payload)) as u64, &mut |n, bytes| {
        if header::kind(bytes) != Some(KIND_LONG) {
            return Err(Error::corruption(format!(
                "page {} should hold part of the value that begins in page {first}, but is of another kind",
                u64::from(first_read) + n
            )));
        }
        let from = HEADER_BYTES + std::mem::take(&mut within);
        let part = (bytes.len() - from).min(wanted - done);
        into[done..done + part].copy_from_slice(&bytes[from..from + part]);
        done += part;
        Ok(())
    })?;
    Ok(done)
}

/// Checks bytes from disk that say they are such a page.
pub(crate) fn check(page: &[u8]) -> std::result::Result<(), String> {
    if page.len() < HEADER_BYTES { Err("is shorter than a page header".into()) } else { Ok(()) }
}
