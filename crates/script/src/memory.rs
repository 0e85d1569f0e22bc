//! The memory of one Lua state: counted, and bounded while a script's own code runs.
//!
//! Invariant: an allocation that Rust asks Lua for never fails, so no error of Lua's jumps over a Rust frame.
//! Only Lua's own functions meet the bound. A Rust function asks [`Memory::has_room`] before an allocation
//! that grows with its input, by Lua or by Rust; its own buffer while it runs is an `Output`.

use std::alloc::{Layout, dealloc, handle_alloc_error, realloc};
use std::cell::Cell;
use std::ffi::c_void;

use martlet_lua::{lua_State, lua_getallocf};

/// Lua needs no more for any of its objects.
const ALIGNMENT: usize = 8;

/// See the [module docs](self).
#[derive(Debug)]
pub struct Memory {
    used_bytes: Cell<usize>,
    max_bytes: usize,
    is_bounded: Cell<bool>,
}

impl Memory {
    /// Memory of which scripts can have `max_bytes`.
    pub fn new(max_bytes: usize) -> Memory {
        Memory { used_bytes: Cell::new(0), max_bytes, is_bounded: Cell::new(false) }
    }

    /// Bytes in use.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.get()
    }

    /// Whether at least half of the bound is in use.
    pub fn is_half_full(&self) -> bool {
        self.used_bytes.get() >= self.max_bytes / 2
    }

    /// Says whether the bound holds from here on; what held before.
    #[inline]
    pub fn set_bounded(&self, bounded: bool) -> bool {
        self.is_bounded.replace(bounded)
    }

    /// The memory of a state.
    ///
    /// # Safety
    /// The state was made with [`allocate`] and a pointer to something that begins with its `Memory`, which
    /// outlives `'a`.
    #[inline]
    pub unsafe fn of<'a>(state: *mut lua_State) -> &'a Memory {
        let mut data = std::ptr::null_mut();
        // SAFETY: the state is alive; the function only writes the pointer that the state was made with.
        unsafe {
            lua_getallocf(state, &mut data);
            &*data.cast::<Memory>()
        }
    }

    /// Whether scripts can have this many bytes more.
    #[inline]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.used_bytes.get().saturating_add(bytes) <= self.max_bytes
    }

    /// Whether one table could grow beyond the bound at once: growing doubles it, and both are there while it
    /// does.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.used_bytes.get() > self.max_bytes / 4
    }

    /// Bytes that scripts can still have.
    pub fn left_bytes(&self) -> usize {
        self.max_bytes.saturating_sub(self.used_bytes.get())
    }

    /// Counts bytes that Rust has allocated for a script.
    pub fn add(&self, bytes: usize) {
        self.used_bytes.set(self.used_bytes.get() + bytes);
    }

    /// Takes back what [`Memory::add`] has counted.
    pub fn subtract(&self, bytes: usize) {
        self.used_bytes.set(self.used_bytes.get() - bytes);
    }

    fn accepts(&self, old_bytes: usize, new_bytes: usize) -> bool {
        /// From here on a block that grows is there twice for a moment.
        const COPIED_MIN_BYTES: usize = 1 << 20;
        let more = if old_bytes < COPIED_MIN_BYTES { new_bytes.saturating_sub(old_bytes) } else { new_bytes };
        new_bytes <= old_bytes || !self.is_bounded.get() || self.has_room(more)
    }

    fn resize(&self, block: *mut u8, old_bytes: usize, new_bytes: usize) -> *mut u8 {
        let Ok(new) = Layout::from_size_align(new_bytes, ALIGNMENT) else { return std::ptr::null_mut() };
        if !self.accepts(old_bytes, new_bytes) {
            return std::ptr::null_mut();
        }
        let resized = if block.is_null() {
            // SAFETY: the size is not 0.
            unsafe { std::alloc::alloc(new) }
        } else {
            // SAFETY: Lua says with which size it got the block, and the new one is neither 0 nor too large.
            unsafe { realloc(block, layout(old_bytes), new_bytes) }
        };
        if resized.is_null() {
            handle_alloc_error(new);
        }
        self.used_bytes.set(self.used_bytes.get().wrapping_sub(old_bytes).wrapping_add(new_bytes));
        resized
    }

    fn free(&self, block: *mut u8, bytes: usize) {
        if !block.is_null() {
            self.used_bytes.set(self.used_bytes.get() - bytes);
            // SAFETY: Lua says with which size it got the block.
            unsafe { dealloc(block, layout(bytes)) };
        }
    }
}

/// The layout of a block that there is.
fn layout(bytes: usize) -> Layout {
    // SAFETY: the block was allocated with this layout, so it is a valid one.
    unsafe { Layout::from_size_align_unchecked(bytes, ALIGNMENT) }
}

/// What Lua allocates with.
///
/// # Safety
/// As `lua_Alloc`, with a pointer to something that begins with a [`Memory`].
pub unsafe extern "C" fn allocate(
    data: *mut c_void,
    block: *mut c_void,
    old_bytes: usize,
    new_bytes: usize,
) -> *mut c_void {
    // SAFETY: the caller says so.
    let memory = unsafe { &*data.cast::<Memory>() };
    // Of a block that is not there the old size means nothing.
    let old_bytes = if block.is_null() { 0 } else { old_bytes };
    if new_bytes == 0 {
        memory.free(block.cast(), old_bytes);
        return std::ptr::null_mut();
    }
    memory.resize(block.cast(), old_bytes, new_bytes).cast()
}
