//! The ring: the newest bytes of the log, in memory shared by all processes that use the environment.
//!
//! One writer at a time (the commit role) fills it from `tail` upwards; one reader at a time (the flush turn)
//! takes it from the block of `written` up to a `tail` it has read. The two never touch the same bytes: that
//! is what `Log::has_room` is for.

use std::ptr::NonNull;

use sablecat_os::prefetch;

use crate::types::Lsn;

/// The ring's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    len: usize,
}

impl Ring {
    /// A ring over `len` bytes at `base`.
    ///
    /// # Safety
    /// The memory is readable and writable for as long as this value or a copy of it is used, and nothing but
    /// the log touches it.
    pub(crate) unsafe fn new(base: NonNull<u8>, len: usize) -> Ring {
        assert!(len.is_power_of_two() && len >= 8192, "a ring is a power of two of at least two blocks");
        assert!(base.addr().get().is_multiple_of(4096), "a ring begins at a 4096-byte boundary");
        Ring { base, len }
    }

    /// Bytes of the ring.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn place(&self, lsn: Lsn) -> usize {
        // The cast keeps the low bits, which are all the mask looks at.
        lsn.0 as usize & (self.len - 1)
    }

    /// Starts to bring the lines of what will be copied to the place of `start`, if that is short.
    #[inline]
    pub(crate) fn foresee(&self, start: Lsn) {
        let at = self.base.as_ptr().wrapping_add(self.place(start));
        prefetch::write(at);
        prefetch::write(at.wrapping_add(prefetch::LINE_BYTES));
    }

    /// Copies `bytes` to the place of `start`, around the end if need be.
    ///
    /// # Safety
    /// Nobody else reads or writes the places of [start, start + bytes.len()) meanwhile, and `bytes` is not
    /// in the ring.
    #[inline]
    pub(crate) unsafe fn copy_in(&self, start: Lsn, bytes: &[u8]) {
        assert!(bytes.len() <= self.len);
        let at = self.place(start);
        let first = bytes.len().min(self.len - at);
        // SAFETY: at < len and first <= len - at; the rest fits before `at` since bytes.len() <= len. The
        // caller excludes others.
        unsafe {
            self.base.as_ptr().add(at).copy_from_nonoverlapping(bytes.as_ptr(), first);
            self.base.as_ptr().copy_from_nonoverlapping(bytes.as_ptr().add(first), bytes.len() - first);
        }
    }

    /// Copies the bytes from `start` on out, around the end if need be.
    ///
    /// # Safety
    /// Nobody writes these places meanwhile; or else the bytes are taken for nothing, once it is seen that
    /// somebody may have.
    pub(crate) unsafe fn copy_out(&self, start: Lsn, bytes: &mut [u8]) {
        assert!(bytes.len() <= self.len);
        let at = self.place(start);
        let first = bytes.len().min(self.len - at);
        // SAFETY: as in `copy_in`.
        unsafe {
            self.base.as_ptr().add(at).copy_to_nonoverlapping(bytes.as_mut_ptr(), first);
            self.base.as_ptr().copy_to_nonoverlapping(bytes.as_mut_ptr().add(first), bytes.len() - first);
        }
    }

    /// The bytes of [from, to), in at most two pieces (the second may be empty).
    ///
    /// # Safety
    /// Nobody writes the places of [from, to) while the slices live.
    #[inline]
    pub(crate) unsafe fn slices<'a>(&self, from: Lsn, to: Lsn) -> [&'a [u8]; 2] {
        let bytes = usize::try_from(to.0 - from.0).expect("at most the ring's length");
        assert!(bytes <= self.len);
        let at = self.place(from);
        let first = bytes.min(self.len - at);
        // SAFETY: as in `copy_in`: both pieces lie inside the ring. The caller excludes writers.
        unsafe {
            [
                std::slice::from_raw_parts(self.base.as_ptr().add(at), first),
                std::slice::from_raw_parts(self.base.as_ptr(), bytes - first),
            ]
        }
    }
}
