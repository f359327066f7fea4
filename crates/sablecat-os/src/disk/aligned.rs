//! A buffer that direct transfers accept: aligned to 4096 bytes.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

/// What the first byte's address is a multiple of.
const ALIGNMENT: usize = 4096;

/// Bytes of a fixed number, zero at first, at an address that is a multiple of 4096.
///
/// ```
/// let mut block = sablecat_os::disk::AlignedBuf::new(8192);
/// block[..5].copy_from_slice(b"hello");
/// assert_eq!((block.len(), &block[..6]), (8192, &b"hello\0"[..]));
/// ```
pub struct AlignedBuf {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the buffer owns its bytes, as a Vec does.
unsafe impl Send for AlignedBuf {}
// SAFETY: as above; `&AlignedBuf` gives only `&[u8]`.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// `len` zero bytes.
    pub fn new(len: usize) -> AlignedBuf {
        if len == 0 {
            let base = NonNull::new(ptr::without_provenance_mut(ALIGNMENT)).expect("4096 is not zero");
            return AlignedBuf { base, len };
        }
        let layout = AlignedBuf::layout(len);
        // SAFETY: the layout's size is not zero.
        let base = unsafe { alloc_zeroed(layout) };
        AlignedBuf { base: NonNull::new(base).unwrap_or_else(|| handle_alloc_error(layout)), len }
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, ALIGNMENT).expect("a buffer smaller than the address space")
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: allocated in `new` with this very layout.
            unsafe { dealloc(self.base.as_ptr(), AlignedBuf::layout(self.len)) }
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes at `base` are allocated and initialised (or `len` is 0), and borrowed as `self`
        // is.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl Clone for AlignedBuf {
    fn clone(&self) -> AlignedBuf {
        let mut copy = AlignedBuf::new(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl Default for AlignedBuf {
    fn default() -> AlignedBuf {
        AlignedBuf::new(0)
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_zeroed_and_their_own() {
        for len in [0, 1, 512, 4096, 100_000] {
            let mut one = AlignedBuf::new(len);
            assert_eq!(one.len(), len);
            assert!(one.as_ptr().addr().is_multiple_of(4096));
            assert!(one.iter().all(|byte| *byte == 0));
            one.fill(1);
            let two = one.clone();
            one.fill(2);
            assert!(two.iter().all(|byte| *byte == 1));
        }
    }
}
