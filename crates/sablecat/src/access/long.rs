//! Long values: those that do not fit beside their key in a leaf.
//!
//! A long value is a run of pages with consecutive ids, so that any part of it is found by arithmetic; the leaf's cell names the first
//! and the length. The pages are never changed: a new value is a new run.
//!
//! ```text
//! 0      4         8       16       20     21      64
//! | crc  | page id | born  | tree   | kind | zeros | payload ...
//! ```

use super::{PageRead, PageWrite};
use crate::error::{Error, Result};
use crate::types::{PageId, TreeId};

/// Kind byte of a page that holds part of a long value.
pub(crate) const KIND_LONG: u8 = 3;
const KIND_AT: usize = 20;
const HEADER_BYTES: usize = 64;

/// Bytes of a value in one page.
pub(crate) fn payload_bytes(page_size: usize) -> usize {
    page_size - HEADER_BYTES
}

/// Pages a value takes.
pub(crate) fn page_count(len: u64, page_size: usize) -> u64 {
    len.div_ceil(payload_bytes(page_size) as u64)
}

/// Writes a value into pages of its own and says which is the first.
pub(crate) fn store<W: PageWrite>(writer: &mut W, tree: TreeId, value: &[u8]) -> Result<PageId> {
    let count = page_count(value.len() as u64, writer.page_size());
    let first = writer.allocate_run(count)?;
    for (n, part) in value.chunks(payload_bytes(writer.page_size())).enumerate() {
        let page = PageId(first.0 + n as u32);
        let bytes = writer.write(page)?;
        bytes.fill(0);
        bytes[4..8].copy_from_slice(&page.0.to_le_bytes());
        bytes[16..20].copy_from_slice(&tree.0.to_le_bytes());
        bytes[KIND_AT] = KIND_LONG;
        bytes[HEADER_BYTES..HEADER_BYTES + part.len()].copy_from_slice(part);
    }
    Ok(first)
}

/// Frees the pages of a value.
pub(crate) fn free<W: PageWrite>(writer: &mut W, first: PageId, len: u64) -> Result<()> {
    for n in 0..page_count(len, writer.page_size()) {
        writer.free(PageId(first.0 + n as u32))?;
    }
    Ok(())
}

/// Reads part of a value: from `offset`, as much as `into` has room for and the value holds. Says how much.
pub(crate) fn read<R: PageRead>(reader: &R, page_size: usize, first: PageId, len: u64, offset: u64, into: &mut [u8]) -> Result<usize> {
    let payload = payload_bytes(page_size) as u64;
    let wanted = len.saturating_sub(offset).min(into.len() as u64) as usize;
    let mut done = 0;
    while done < wanted {
        let at = offset + done as u64;
        let page = u32::try_from(u64::from(first.0) + at / payload)
            .map_err(|_| Error::corruption(format!("a value of {len} bytes from page {first} on runs past the last page")))?;
        let within = (at % payload) as usize;
        let part = (payload as usize - within).min(wanted - done);
        let target = &mut into[done..done + part];
        let right_kind = reader.read(PageId(page), |bytes| {
            target.copy_from_slice(&bytes[HEADER_BYTES + within..HEADER_BYTES + within + part]);
            bytes[KIND_AT] == KIND_LONG
        })?;
        if !right_kind {
            return Err(Error::corruption(format!(
                "page {page} should hold part of the value that begins in page {first}, but is of another kind"
            )));
        }
        done += part;
    }
    Ok(done)
}

/// Checks bytes from disk that say they are such a page.
pub(crate) fn check(page: &[u8]) -> std::result::Result<(), String> {
    if page.len() < HEADER_BYTES { Err("is shorter than a page header".into()) } else { Ok(()) }
}
