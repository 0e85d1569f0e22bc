//! The ring's memory: a mapping of zeroes that takes room once it is used.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use martlet_base::copy;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes in words of 8. Exclusive access to them is the queue's affair.
pub struct Memory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone; accesses are ordered by the queue (see its page).
unsafe impl Send for Memory {}
// SAFETY: the same holds for sharing.
unsafe impl Sync for Memory {}

impl Memory {
    /// `bytes` zeroes, a multiple of the page size.
    ///
    /// # Errors
    /// When the operating system has no addresses left.
    pub fn new(bytes: usize) -> io::Result<Memory> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)
        }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Memory { start, bytes })
    }

    fn check(&self, offset: usize, len: usize) {
        assert!(offset <= self.bytes && len <= self.bytes - offset);
    }

    /// The word at `offset`, a multiple of 8.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        self.check(offset, 8);
        debug_assert!(offset.is_multiple_of(8));
        // SAFETY: inside the mapping, which is aligned to pages; first words of records are only accessed as
        // atomics while others may look at them.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Safety
    /// No other thread touches that room during the call.
    #[inline]
    pub unsafe fn write(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        // SAFETY: inside the mapping; the caller promises that no other thread touches it.
        unsafe { copy::copy(bytes.as_ptr(), self.start.as_ptr().add(offset), bytes.len()) }
    }

    /// The `len` bytes at `offset`.
    ///
    /// # Safety
    /// No thread writes there while the slice is used.
    #[inline]
    pub unsafe fn read(&self, offset: usize, len: usize) -> &[u8] {
        self.check(offset, len);
        // SAFETY: inside the mapping, which is initialised with zeroes; the caller promises that no thread
        // writes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset), len) }
    }

    /// Zeroes `len` bytes at `offset`.
    ///
    /// # Safety
    /// No other thread touches that room during the call.
    #[inline]
    pub unsafe fn zero(&self, offset: usize, len: usize) {
        self.check(offset, len);
        // SAFETY: as for `write`.
        unsafe { self.start.as_ptr().add(offset).write_bytes(0, len) }
    }

    /// Gives room back to the operating system; it reads as zeroes. Both are multiples of the page size.
    ///
    /// # Safety
    /// No other thread touches that room during the call.
    pub unsafe fn discard(&self, offset: usize, len: usize) {
        self.check(offset, len);
        // SAFETY: inside the mapping, and unused. Should the kernel refuse, it stays unchanged, which is
        // zeroes too.
        let _ = unsafe { madvise(self.start.as_ptr().add(offset).cast(), len, Advice::LinuxDontNeed) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and no borrow of it is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
