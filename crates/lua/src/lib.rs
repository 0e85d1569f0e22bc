//! Lua 5.1.5, built from `lua-5.1.5/`, and its C interface as `mlua-sys` declares it.
//!
//! The sources are Lua's own with checks added; `docs/internals/lua.md` lists each with its origin.

use std::ffi::c_int;

pub use mlua_sys::*;

unsafe extern "C-unwind" {
    /// Makes room for `size` more values: `lua_checkstack` without its limit.
    pub fn lua_ensureroom(state: *mut lua_State, size: c_int);

    /// Raises the error of an allocation that failed.
    pub fn lua_raisememory(state: *mut lua_State) -> !;

    /// `lua_rawseti`, or `lua_rawset` if `element` is 0, that returns 0 when memory does not suffice. Takes
    /// its values off the stack either way; `index` counts from the bottom.
    pub fn lua_tryset(state: *mut lua_State, index: c_int, element: c_int) -> c_int;
}
