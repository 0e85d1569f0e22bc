//! Asking the processor for memory that will be used soon: hints without effect on what the program means.

/// What the processor loads at a time.
pub const CACHE_LINE_BYTES: usize = 64;

/// Asks for the line at `address`, which need not be valid.
#[inline(always)]
pub fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and never faults, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch(address.cast::<i8>(), std::arch::x86_64::_MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for all lines of an object.
#[inline]
pub fn prefetch_object<T>(object: *const T) {
    for offset in (0..size_of::<T>()).step_by(CACHE_LINE_BYTES) {
        prefetch(object.cast::<u8>().wrapping_add(offset));
    }
}
