//! A hint that a cache line will be read soon.

/// Starts to bring the cache line at `address` into the first-level cache. Any address will do, also one that is not mapped:
/// a prefetch never faults.
#[inline(always)]
pub fn read(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction is in every x86-64 processor and only hints; it neither faults nor changes memory.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: the instruction is in every arm64 processor and only hints; it neither faults nor changes memory.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_address_is_wrong() {
        super::read(std::ptr::null());
        super::read(std::ptr::without_provenance(usize::MAX));
        super::read(&7);
    }
}
