//! The metatable that marks a table as an array, however few elements it has
//! (`cjson.decode_array_with_array_mt`).
//!
//! Invariant: scripts see a protected table in its place, and change neither.

use std::ffi::{c_int, c_void};

use crate::context::Context;
use crate::json::ArrayMark;
use crate::stack::{Kind, Stack};

/// Notes the state's mark: the table that scripts see is on top, the metatable below it; both are taken.
pub fn keep(stack: &mut Stack<'_>) {
    let mut take = || {
        let identity = stack.identity(-1);
        (stack.keep(), identity)
    };
    let shown = take();
    let metatable = take();
    Context::of(stack).json_array.set(Some(ArrayMark { metatable, shown }));
}

/// Whether a table is marked.
pub fn is_marked(stack: &mut Stack<'_>, index: c_int) -> bool {
    let Some(mark) = Context::of(stack).json_array.get() else { return false };
    let is_marked = stack.get_metatable(index);
    if !is_marked {
        return false;
    }
    let identity = stack.identity(-1);
    stack.pop(1);
    identity == mark.metatable.1
}

/// Marks the table on top.
pub fn mark(stack: &mut Stack<'_>) {
    if let Some(mark) = Context::of(stack).json_array.get() {
        stack.push_kept(mark.metatable.0);
        stack.set_metatable(-2);
    }
}

/// Replaces the metatable on top, if it is the mark, by what scripts see of it.
pub fn show(stack: &mut Stack<'_>) {
    exchange(stack, |mark| (mark.metatable.1, mark.shown.0));
}

/// Replaces the value on top, if it is what scripts see of the mark, by the mark.
pub fn unveil(stack: &mut Stack<'_>) {
    exchange(stack, |mark| (mark.shown.1, mark.metatable.0));
}

fn exchange(stack: &mut Stack<'_>, sides: fn(&ArrayMark) -> (*const c_void, c_int)) {
    if let Some(mark) = Context::of(stack).json_array.get() {
        let (from, to) = sides(&mark);
        if stack.kind(-1) == Kind::Table && stack.identity(-1) == from {
            stack.pop(1);
            stack.push_kept(to);
        }
    }
}
