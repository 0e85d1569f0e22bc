//! The buffers that the kernel receives into, chosen by it when data arrives: idle connections hold none.
//!
//! With incremental consumption (Linux 6.12) a buffer is filled piece by piece by whichever connection has
//! data, so that small requests lie close together; before, each receive takes a whole one. Either way the
//! kernel owns the bytes from a buffer's `offset` on, we own those before it, until it is full and recycled.
//! They are a mapping of their own, which becomes resident page by page as the kernel fills it.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use io_uring::{IoUring, cqueue};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// The group that receives name.
pub const GROUP: u16 = 0;
/// The flag of `struct io_uring_buf_reg` for incremental consumption.
const REGISTER_INCREMENTAL: u16 = 2;
const PAGE: usize = 4096;
/// Expected size of a receive, to limit how many are started without a buffer for each.
const USUAL_RECEIVE_BYTES: u32 = 512;

/// How many buffers of which size; `count` is a power of two.
#[derive(Copy, Clone, Debug)]
pub struct Shape {
    pub count: u16,
    pub bytes: u32,
}

/// What serves incremental rings.
const INCREMENTAL: Shape = Shape { count: 16, bytes: 64 << 10 };
/// What serves rings that spend a buffer on each receive.
const WHOLE: Shape = Shape { count: 256, bytes: 16 << 10 };

/// A ring of provided buffers, registered with one io_uring instance, which stops before they are dropped.
pub struct Buffers {
    entries: *mut BufRingEntry,
    data: *mut u8,
    shape: Shape,
    incremental: bool,
    /// How much of each buffer the kernel has filled.
    offsets: Box<[u32]>,
    tail: u16,
    leaked: bool,
}

// SAFETY: the pointers are to allocations that this value alone owns.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Buffers registered with `ring`, all of them with the kernel.
    ///
    /// # Errors
    /// The kernel's, of the registration.
    pub fn new(ring: &IoUring) -> io::Result<Buffers> {
        Buffers::with_shape(ring, INCREMENTAL, true).or_else(|_| Buffers::with_shape(ring, WHOLE, false))
    }

    fn with_shape(ring: &IoUring, shape: Shape, incremental: bool) -> io::Result<Buffers> {
        let data = map(data_bytes(shape))?;
        let mut buffers = Buffers {
            entries: allocate(entries_layout(shape)).cast(),
            data,
            shape,
            incremental,
            offsets: vec![0; shape.count.into()].into_boxed_slice(),
            tail: 0,
            leaked: false,
        };
        let flags = if incremental { REGISTER_INCREMENTAL } else { 0 };
        let address = buffers.entries as u64;
        // SAFETY: the entries are page-aligned, zeroed, as many as announced, and live until the ring is
        // gone.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, shape.count, GROUP, flags)? };
        (0..shape.count).for_each(|id| buffers.give(id));
        buffers.publish();
        Ok(buffers)
    }

    /// The bytes that a completed receive brought. They stay valid until [`Buffers::release`] of the same
    /// completion.
    #[inline]
    pub fn received(&self, completion: &cqueue::Entry) -> &[u8] {
        let Some((id, length)) = self.buffer_of(completion) else { return &[] };
        self.filled(id, self.offsets[id as usize], length)
    }

    /// `length` bytes of a buffer from `offset` on, which the kernel has filled.
    #[inline]
    fn filled(&self, id: u16, offset: u32, length: usize) -> &[u8] {
        let length = length.min((self.shape.bytes - offset) as usize);
        // SAFETY: buffer `id` is in bounds and so is the range in it; the kernel wrote it and does not touch
        // it before the buffer is given back, which takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.data.add(self.start_of(id) + offset as usize), length) }
    }

    /// A look at completions that are not released yet, in their order.
    pub fn ahead(&self) -> Ahead<'_> {
        Ahead { buffers: self, id: self.shape.count, offset: 0 }
    }

    /// Notes that the bytes of `completion` are used. Full buffers go back to the kernel with
    /// [`Buffers::publish`].
    #[inline]
    pub fn release(&mut self, completion: &cqueue::Entry) {
        let Some((id, length)) = self.buffer_of(completion) else { return };
        if self.incremental {
            debug_assert!(
                length == 0
                    || cqueue::buffer_more(completion.flags())
                        == (self.offsets[id as usize] + (length as u32) < self.shape.bytes)
            );
            let offset = &mut self.offsets[id as usize];
            *offset += length as u32;
            if *offset < self.shape.bytes {
                return;
            }
            *offset = 0;
        }
        self.give(id);
    }

    /// Shows released buffers to the kernel.
    #[inline]
    pub fn publish(&mut self) {
        // SAFETY: the tail lies in the first entry, which is initialised and aligned; the kernel only reads
        // it.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    /// The buffer a completion names and how many bytes it brought.
    #[inline]
    fn buffer_of(&self, completion: &cqueue::Entry) -> Option<(u16, usize)> {
        let id = cqueue::buffer_select(completion.flags()).filter(|id| *id < self.shape.count)?;
        Some((id, usize::try_from(completion.result()).unwrap_or(0)))
    }

    #[inline]
    fn start_of(&self, id: u16) -> usize {
        id as usize * stride(self.shape)
    }

    #[inline]
    fn give(&mut self, id: u16) {
        let slot = (self.tail & (self.shape.count - 1)) as usize;
        // SAFETY: `slot` and `id` are below the count both allocations were made for; the kernel does not
        // read entries from the published tail on. The tail shares the first entry, whose other fields are
        // written alone.
        unsafe {
            let address = self.data.add(self.start_of(id)) as u64;
            let entry = &mut *self.entries.add(slot);
            entry.set_addr(address);
            entry.set_len(self.shape.bytes);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Keeps the memory for ever, since the kernel may still use it.
    pub fn leak(&mut self) {
        self.leaked = true;
    }

    /// How many receives it makes sense to start at once.
    pub fn receives(&self) -> usize {
        let bytes_each = if self.incremental { USUAL_RECEIVE_BYTES } else { self.shape.bytes };
        self.shape.count as usize * (self.shape.bytes / bytes_each) as usize
    }
}

/// See [`Buffers::ahead`]. Completions fill one buffer after the other, so one offset is enough.
pub struct Ahead<'a> {
    buffers: &'a Buffers,
    id: u16,
    offset: u32,
}

impl<'a> Ahead<'a> {
    /// The bytes that the next completion brought.
    #[inline]
    pub fn received(&mut self, completion: &cqueue::Entry) -> &'a [u8] {
        let Some((id, length)) = self.buffers.buffer_of(completion) else { return &[] };
        if id != self.id {
            (self.id, self.offset) = (id, self.buffers.offsets[id as usize]);
        }
        let data = self.buffers.filled(id, self.offset, length);
        if self.buffers.incremental {
            self.offset += data.len() as u32;
        }
        data
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if self.leaked {
            return;
        }
        // SAFETY: allocated with the same layout, and mapped with the same length; the kernel has stopped
        // before, see `Uring`'s drop.
        unsafe {
            dealloc(self.entries.cast(), entries_layout(self.shape));
            let _ = munmap(self.data.cast(), data_bytes(self.shape));
        }
    }
}

/// The distance of buffers: a cache line more than their size, so that their starts do not share cache sets.
fn stride(shape: Shape) -> usize {
    shape.bytes as usize + 64
}

fn entries_layout(shape: Shape) -> Layout {
    page_aligned(shape.count as usize * size_of::<BufRingEntry>())
}

fn data_bytes(shape: Shape) -> usize {
    (shape.count as usize * stride(shape)).next_multiple_of(PAGE)
}

fn page_aligned(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, PAGE).expect("the shapes are small constants")
}

fn allocate(layout: Layout) -> *mut u8 {
    // SAFETY: the layouts are of non-zero size.
    let pointer = unsafe { alloc_zeroed(layout) };
    if pointer.is_null() {
        handle_alloc_error(layout);
    }
    pointer
}

/// A private mapping of zero bytes, page-aligned.
fn map(bytes: usize) -> io::Result<*mut u8> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
    let pointer = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE)? };
    Ok(pointer.cast())
}
