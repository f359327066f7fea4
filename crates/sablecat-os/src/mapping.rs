//! Owned stretches of memory, straight from the system: what a region lies in.
//!
//! Both kinds are zeroed, page aligned, reserved rather than taken: a page costs memory once it is touched,
//! so a mapping may be far larger than the machine. A [`Mapping`] hands out its address and nothing more.
//! References into it are made by code that knows what lies where. That code promises that nothing it holds a
//! reference to is unmapped, discarded or written behind Rust's back.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::fd::OwnedFd;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, fstat, fstatvfs, ftruncate, memfd_create, stat};
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use crate::fork::OfParent;
use crate::machine::page_bytes;
use crate::truncation::Cuts;

/// Bytes of a large page, or of the smallest, where there are several sizes.
pub const LARGE_PAGE: usize = 2 << 20;

/// A mapping of memory that lives as long as this does.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// What lies behind shared memory, kept to map it again.
    memory: Option<Arc<OwnedFd>>,
    /// Of a file, which others may make shorter.
    cuts: Option<Cuts>,
}

// SAFETY: a mapping is an address and a length; it belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; through `&Mapping` nobody reads or writes the memory without unsafe code of their own.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Memory of this process alone. A child after fork gets its own copy. It begins where a large page does.
    ///
    /// # Errors
    /// `InvalidInput` for a length of 0; `OutOfMemory` if the address space is exhausted.
    pub fn anonymous(len: usize) -> io::Result<Mapping> {
        Mapping::aligned(len, read_write())
    }

    /// The same, to be accessed so. Kernels put by themselves where a large page begins what is long enough
    /// for one, but for some only if the length is a multiple of that; and otherwise there are none at either
    /// end. So a stretch that is longer by one is taken.
    fn aligned(len: usize, access: ProtFlags) -> io::Result<Mapping> {
        let exhausted = || io::Error::from(io::ErrorKind::OutOfMemory);
        if len == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mapped_len = len.checked_next_multiple_of(page_bytes()).ok_or_else(exhausted)?;
        let stretch_len = mapped_len.checked_add(LARGE_PAGE).ok_or_else(exhausted)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: no address is asked for, so the kernel picks one where nothing is mapped.
        let stretch =
            not_null(unsafe { mmap_anonymous(ptr::null_mut(), stretch_len, access, flags)? }.cast());
        let before = stretch.addr().get().next_multiple_of(LARGE_PAGE) - stretch.addr().get();
        // SAFETY: within the stretch.
        let base = unsafe { stretch.add(before) };
        let mapping = Mapping { base, len, memory: None, cuts: None };
        for (start, len) in [(0, before), (before + mapped_len, LARGE_PAGE - before)] {
            if len > 0 {
                // SAFETY: what is left of the stretch on either side, of which nobody else knows.
                unsafe { munmap(stretch.as_ptr().add(start).cast(), len)? };
            }
        }
        Ok(mapping)
    }

    /// Memory that can be mapped more than once: children after fork share it, and [`Mapping::again`] gives
    /// it a second address.
    ///
    /// # Errors
    /// As [`Mapping::anonymous`], and the system's limit on open files.
    pub fn shared_memory(len: usize) -> io::Result<Mapping> {
        let memory = memfd_create("sablecat", MemfdFlags::CLOEXEC)?;
        ftruncate(&memory, len as u64)?;
        Mapping::of(Arc::new(memory), len)
    }

    /// The first `len` bytes of a file, shared with every process that maps it: what one stores the others
    /// see. The file's holes read as zero and become memory when they are stored to; if the file system then
    /// has no room the memory is [cut short](Mapping::is_cut_short), so [reserve](Mapping::reserve) first.
    ///
    /// # Errors
    /// Those of the system. Nothing is checked: of a file shorter than `len` the memory is cut short.
    pub fn file(file: std::fs::File, len: usize) -> io::Result<Mapping> {
        Mapping::of(Arc::new(file.into()), len)?.watched()
    }

    /// The same, to be looked at: a store to it is a fault. The file need only be open for reading.
    ///
    /// # Errors
    /// As [`Mapping::file`].
    pub fn file_to_look_at(file: std::fs::File, len: usize) -> io::Result<Mapping> {
        Mapping::with(Arc::new(file.into()), len, ProtFlags::READ)?.watched()
    }

    fn watched(mut self) -> io::Result<Mapping> {
        self.cuts = Some(Cuts::of(self.base, self.len)?);
        Ok(self)
    }

    /// Whether something that this thread has read or written so far was not there, since somebody has made
    /// the file shorter, or there was no room for it. It has then met zeros of this process's own, and what
    /// it stored is nobody else's: the memory is of no use any more.
    pub fn is_cut_short(&self) -> bool {
        self.cuts.as_ref().is_some_and(Cuts::happened)
    }

    /// Has the memory be [cut short](Mapping::is_cut_short) from now on, as was found by what is in it: the
    /// rest of a page in which a file ends reads as zero, and some kernels take a large page for one.
    pub fn found_cut_short(&self) {
        self.cuts.iter().for_each(Cuts::found);
    }

    /// Has a number be [`CUT_SHORT`](crate::truncation::CUT_SHORT) before that can be seen of the memory. It
    /// must live for as long as this, or until another one is given.
    pub fn tell_when_cut_short(&self, number: &OfParent) {
        self.cuts.iter().for_each(|cuts| cuts.tell(number));
    }

    /// A range of a file that begins with a page of it: to be stored to, and neither mapped again nor
    /// reserved.
    ///
    /// # Errors
    /// As [`Mapping::file`].
    pub(crate) fn of_part(file: &OwnedFd, offset: u64, len: usize) -> io::Result<Mapping> {
        // Reading is asked for as well: some processors cannot map to write alone.
        // SAFETY: no address is asked for, so the kernel picks one where nothing is mapped.
        let base = unsafe { mmap(ptr::null_mut(), len, read_write(), MapFlags::SHARED, file, offset)? };
        Mapping { base: not_null(base.cast()), len, memory: None, cuts: None }.watched()
    }

    /// Makes sure of room for a range, so that storing to it cannot fail later. Does nothing for anonymous
    /// memory.
    ///
    /// # Errors
    /// `StorageFull`, and others of the system.
    ///
    /// # Panics
    /// If the range is not within the mapping.
    pub fn reserve(&self, offset: usize, len: usize) -> io::Result<()> {
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len),
            "the range is within the mapping"
        );
        let Some(memory) = &self.memory else { return Ok(()) };
        if len == 0 {
            return Ok(());
        }
        // A file that somebody has cut short stays so. A signal ends it half way in files in memory too.
        Ok(retry_on_intr(|| fallocate(memory, FallocateFlags::KEEP_SIZE, offset as u64, len as u64))?)
    }

    /// How many bytes the file system still has for shared memory; none if there is no telling, or it has no
    /// bound of its own.
    pub fn room(&self) -> Option<u64> {
        let system = fstatvfs(self.memory.as_ref()?).ok()?;
        // One without a bound counts no blocks.
        (system.f_blocks > 0).then(|| system.f_bavail.saturating_mul(system.f_frsize))
    }

    /// The same memory at a second address, as another process would have it.
    ///
    /// # Errors
    /// `Unsupported` unless this is shared memory; else as [`Mapping::anonymous`].
    pub fn again(&self) -> io::Result<Mapping> {
        match &self.memory {
            Some(memory) => Mapping::of(Arc::clone(memory), self.len),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn of(memory: Arc<OwnedFd>, len: usize) -> io::Result<Mapping> {
        Mapping::with(memory, len, read_write())
    }

    fn with(memory: Arc<OwnedFd>, len: usize, access: ProtFlags) -> io::Result<Mapping> {
        // The kernel maps a file's large pages as such only where address and offset agree.
        let mut mapping = Mapping::aligned(len, ProtFlags::empty())?;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: over what was taken for this, of which nobody else knows.
        let base = unsafe { mmap(mapping.base.as_ptr().cast(), len, access, flags, &*memory, 0)? };
        mapping.base = not_null(base.cast());
        mapping.memory = Some(memory);
        Ok(mapping)
    }

    /// Whether the file that is mapped is the one at a path now.
    ///
    /// # Errors
    /// Those of the system.
    pub fn is_of(&self, path: &std::path::Path) -> io::Result<bool> {
        let Some(memory) = &self.memory else { return Ok(false) };
        let own = fstat(memory)?;
        match stat(path) {
            Ok(there) => Ok((there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The address of the first byte, aligned to the system's pages.
    #[inline(always)]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes mapped.
    #[expect(clippy::len_without_is_empty, reason = "a mapping is never empty")]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Asks for large pages under the whole pages of a range. A hint: a system without them goes on as
    /// before.
    ///
    /// # Panics
    /// If the range is not within the mapping.
    pub fn advise_huge(&self, offset: usize, len: usize) {
        // Refused by kernels built without large pages, and that is all the answer there is.
        let _ = self.advise(offset, len, Advice::LinuxHugepage);
    }

    /// Puts the memory under the whole large pages of a range into large pages now, with what it holds. Says
    /// whether it is there: that may fail at any time, for want of large pages if for nothing else, and then
    /// all is as before. Before [`Mapping::reserve`] it costs a tenth of what it does afterwards, when there
    /// are small pages to be copied; and that is then nearly for nothing.
    ///
    /// For files in memory, which the system keeps in small pages unless it is set up otherwise. A process
    /// that maps the same memory takes one fault for each large page instead of hundreds, and one entry in
    /// the processor's table of addresses. Anonymous memory only needs to be [advised](Mapping::advise_huge).
    ///
    /// # Panics
    /// If the range is not within the mapping.
    pub fn gather(&self, offset: usize, len: usize) -> bool {
        let end = offset.checked_add(len).expect("a range within a mapping");
        assert!(end <= self.len, "{offset}..{end} is not within a mapping of {} bytes", self.len);
        let starts = (offset.next_multiple_of(LARGE_PAGE)..)
            .step_by(LARGE_PAGE)
            .take_while(|start| start + LARGE_PAGE <= end);
        // All are tried, whether or not the one before could be done.
        starts.filter(|&start| !self.gather_one(start)).count() == 0
    }

    /// Gathers the large page at an offset.
    fn gather_one(&self, start: usize) -> bool {
        // The kernel gathers what is there, and finds nothing in a hole.
        if self.memory.is_none() || self.reserve(start, 1).is_err() {
            return false;
        }
        // SAFETY: the range is within this mapping, and no byte in it changes. Kernels before 6.1 refuse.
        unsafe { libc::madvise(self.base.as_ptr().add(start).cast(), LARGE_PAGE, libc::MADV_COLLAPSE) == 0 }
    }

    /// Has memory found, and cleared, for the whole system pages of a range that have none yet, as if they
    /// were written to. What the others hold stays as it is. Says whether all have it; kernels before 5.14 do
    /// not know the call, and then each page gets its memory when it is first touched.
    ///
    /// # Panics
    /// If the range is not within the mapping.
    pub fn populate(&self, offset: usize, len: usize) -> bool {
        self.advise(offset, len, Advice::LinuxPopulateWrite).is_ok()
    }

    /// Gives the memory under the whole system pages of a range back. They read as zero afterwards, in every
    /// mapping of the same memory; the parts of pages at either end keep what they hold.
    ///
    /// # Errors
    /// Whatever the system answers; nothing is lost then, and nothing given back.
    ///
    /// # Panics
    /// If the range is not within the mapping.
    pub fn discard(&self, offset: usize, len: usize) -> io::Result<()> {
        let advice = if self.memory.is_some() { Advice::LinuxRemove } else { Advice::LinuxDontNeed };
        self.advise(offset, len, advice)
    }

    /// Advises on the whole system pages of a range.
    fn advise(&self, offset: usize, len: usize, advice: Advice) -> io::Result<()> {
        let end = offset.checked_add(len).expect("a range within a mapping");
        assert!(end <= self.len, "{offset}..{end} is not within a mapping of {} bytes", self.len);
        let page = page_bytes();
        let (start, end) = (offset.next_multiple_of(page), end / page * page);
        if start >= end {
            return Ok(());
        }
        // SAFETY: the range is within this mapping. What the advice does to its bytes is documented, and the
        // code that holds references into them answers for the call.
        unsafe { madvise(self.base.as_ptr().add(start).cast(), end - start, advice)? };
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.cuts = None;
        // SAFETY: base and length are those of a mapping made here and not unmapped before.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "unmapping what was mapped: {unmapped:?}");
    }
}

fn read_write() -> ProtFlags {
    ProtFlags::READ | ProtFlags::WRITE
}

fn not_null(base: *mut u8) -> NonNull<u8> {
    NonNull::new(base).expect("the kernel maps nothing at address zero unless asked to")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(mapping: &Mapping, offset: usize, byte: u8) {
        assert!(offset < mapping.len());
        // SAFETY: within the mapping, and no reference into it exists.
        unsafe { mapping.base().as_ptr().add(offset).write(byte) }
    }

    fn get(mapping: &Mapping, offset: usize) -> u8 {
        assert!(offset < mapping.len());
        // SAFETY: within the mapping, and no reference into it exists.
        unsafe { mapping.base().as_ptr().add(offset).read() }
    }

    #[test]
    fn a_mapping_may_be_larger_than_the_machine() {
        let huge = Mapping::anonymous(1 << 40).unwrap();
        set(&huge, (1 << 40) - 1, 7);
        assert_eq!((get(&huge, 0), get(&huge, (1 << 40) - 1)), (0, 7));
        let shared = Mapping::shared_memory(1 << 37).unwrap();
        set(&shared, 1 << 36, 7);
        assert_eq!((get(&shared, 0), get(&shared, 1 << 36)), (0, 7));
    }

    #[test]
    fn shared_memory_is_one_memory_at_two_addresses() {
        let first = Mapping::shared_memory(10_000).unwrap();
        let second = first.again().unwrap();
        assert_ne!(first.base(), second.base());
        set(&first, 9_999, 1);
        assert_eq!(get(&second, 9_999), 1);
        drop(first);
        let third = second.again().unwrap();
        assert_eq!(get(&third, 9_999), 1);
    }

    #[test]
    fn private_memory_cannot_be_mapped_again() {
        let error = Mapping::anonymous(4096).unwrap().again().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn discarded_pages_read_as_zero_and_their_neighbours_stay() {
        let page = page_bytes();
        for mapping in [Mapping::anonymous(4 * page).unwrap(), Mapping::shared_memory(4 * page).unwrap()] {
            for offset in 0..mapping.len() {
                set(&mapping, offset, 1);
            }
            mapping.discard(page - 1, page + 2).unwrap();
            let kept: Vec<usize> = (0..mapping.len()).filter(|offset| get(&mapping, *offset) == 1).collect();
            let expected: Vec<usize> = (0..page).chain(2 * page..4 * page).collect();
            assert!(kept == expected, "only the second page is whole within the range");
            mapping.discard(1, 1).unwrap();
            assert_eq!(get(&mapping, 1), 1, "less than a page is nothing to give back");
        }
    }

    #[test]
    fn discarding_shared_memory_discards_it_everywhere() {
        let page = page_bytes();
        let first = Mapping::shared_memory(page).unwrap();
        let second = first.again().unwrap();
        set(&first, 0, 1);
        second.discard(0, page).unwrap();
        assert_eq!(get(&first, 0), 0);
    }

    #[test]
    fn private_memory_of_any_length_begins_where_a_large_page_does() {
        for len in [1, LARGE_PAGE - 1, LARGE_PAGE, LARGE_PAGE + 4096, 5 * LARGE_PAGE + 1] {
            // One alone may lie there by chance.
            for mapping in [(); 8].map(|()| Mapping::anonymous(len).unwrap()) {
                assert!(mapping.base().addr().get().is_multiple_of(LARGE_PAGE), "{len} bytes");
                set(&mapping, 0, 1);
                set(&mapping, len - 1, 1);
            }
        }
    }

    #[test]
    fn memory_that_was_populated_holds_what_it_held() {
        let mapping = Mapping::anonymous(3 * LARGE_PAGE).unwrap();
        set(&mapping, 5000, 7);
        mapping.populate(0, LARGE_PAGE + 1);
        assert_eq!((get(&mapping, 5000), get(&mapping, 5001), get(&mapping, LARGE_PAGE)), (7, 0, 0));
    }

    #[test]
    fn memory_gathered_in_large_pages_is_the_same_memory() {
        let first = Mapping::shared_memory(3 * LARGE_PAGE + 1).unwrap();
        let second = first.again().unwrap();
        for mapping in [&first, &second] {
            assert!(
                mapping.base().addr().get().is_multiple_of(LARGE_PAGE),
                "large pages can be mapped there"
            );
        }
        for offset in (0..first.len()).step_by(1000) {
            set(&first, offset, (offset / 1000) as u8);
        }
        let gathered = first.gather(1, first.len() - 1);
        assert!((0..first.len()).step_by(1000).all(|offset| get(&second, offset) == (offset / 1000) as u8));
        // Where the kernel has no such thing there is no more to see.
        if gathered {
            assert_eq!(in_large_pages(&second), 2 * LARGE_PAGE, "those that lie in the range as a whole");
        }
        assert!(!Mapping::anonymous(2 * LARGE_PAGE).unwrap().gather(0, 2 * LARGE_PAGE));
    }

    /// Bytes of a mapping that this process has mapped by large pages.
    fn in_large_pages(mapping: &Mapping) -> usize {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let start = format!("{:x}-", mapping.base().addr());
        let own = smaps.lines().skip_while(|line| !line.starts_with(&start));
        let kb = own.filter_map(|line| line.strip_prefix("ShmemPmdMapped:")).next().unwrap();
        kb.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
    }

    #[test]
    #[should_panic(expected = "not within a mapping")]
    fn advice_beyond_the_end_is_a_mistake() {
        let mapping = Mapping::anonymous(4096).unwrap();
        mapping.advise_huge(4096, 1);
    }

    #[test]
    fn an_empty_mapping_is_refused() {
        assert!(Mapping::anonymous(0).is_err());
        assert!(Mapping::shared_memory(0).is_err());
    }
}
