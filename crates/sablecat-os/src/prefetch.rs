//! Hints that a cache line will be read, or written, soon.

/// Starts to bring the cache line at `address` into the first-level cache. Any address will do, also one that
/// is not mapped: a prefetch never faults.
#[inline(always)]
pub fn read(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction is in every x86-64 processor and only hints; it neither faults nor changes
    // memory.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: the instruction is in every arm64 processor and only hints; it neither faults nor changes
    // memory.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{0}]", in(reg) address, options(nostack, readonly, preserves_flags)
        );
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

/// The same for a line that will be written soon: it comes as this processor's own, in one exchange with the
/// others instead of one for reading it and one for writing.
#[inline(always)]
pub fn write(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint that faults on no address and changes nothing; in x86-64 processors that do not know it,
    // it does nothing.
    unsafe {
        std::arch::asm!("prefetchw [{0}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as in `read`.
    unsafe {
        std::arch::asm!(
            "prfm pstl1keep, [{0}]", in(reg) address, options(nostack, readonly, preserves_flags)
        );
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

/// Bytes that will be read after the work at hand, to be brought into the cache in the course of it: all
/// lines at once would be more than a processor keeps track of.
#[derive(Debug)]
pub struct Ahead {
    start: *const u8,
    bytes: usize,
}

impl Ahead {
    /// Nothing to bring.
    pub const NOTHING: Ahead = Ahead { start: std::ptr::null(), bytes: 0 };

    /// `bytes` bytes from `start` on. Any address will do, as for [`read`].
    pub fn new(start: *const u8, bytes: usize) -> Ahead {
        Ahead { start, bytes }
    }

    /// As that many steps, which bring all of it.
    #[inline]
    pub fn in_steps(self, steps: usize) -> Steps {
        // A step of less than a line brings some lines twice, which costs no more than asking whether it
        // would.
        Steps { next: self.start, bytes_a_step: self.bytes.div_ceil(steps.max(1)) }
    }
}

/// The steps of an [`Ahead`].
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    next: *const u8,
    bytes_a_step: usize,
}

impl Steps {
    /// Starts to bring what is next.
    #[inline(always)]
    pub fn step(&mut self) {
        read(self.next);
        let mut more = LINE_BYTES;
        while more < self.bytes_a_step {
            read(self.next.wrapping_add(more));
            more += LINE_BYTES;
        }
        self.next = self.next.wrapping_add(self.bytes_a_step);
    }
}

/// Bytes of a cache line, as all processors at hand have it.
pub const LINE_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    #[test]
    fn no_address_is_wrong() {
        super::read(std::ptr::null());
        super::read(std::ptr::without_provenance(usize::MAX));
        super::read(&7);
        super::write(std::ptr::null());
        super::write(std::ptr::without_provenance(usize::MAX));
        super::write(&7);
    }

    #[test]
    fn steps_go_through_all_of_it() {
        for (bytes, steps) in [(0, 3), (1, 3), (4096, 64), (4096, 85), (4096, 10), (4096, 1), (4100, 0)] {
            let mut ahead = super::Ahead::new(std::ptr::null(), bytes).in_steps(steps);
            (0..steps.max(1)).for_each(|_| ahead.step());
            let brought = ahead.next.addr();
            assert!(
                (bytes..bytes + steps.max(1)).contains(&brought),
                "{brought} of {bytes} bytes in {steps} steps"
            );
        }
    }
}
