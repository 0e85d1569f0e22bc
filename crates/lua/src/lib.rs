//! Lua 5.1.5, built from `lua-5.1.5/`, and its C interface as `mlua-sys` declares it.

pub use mlua_sys::*;
