//! The globals of a state: what scripts may use, and that they cannot change it.
//!
//! Lua 5.1 has no read-only tables. A protected table is therefore an empty one that scripts see, whose
//! metatable leads to the real one, which they never get hold of: functions that work on tables themselves
//! are guarded.

use std::ffi::{c_int, c_void};

use martlet_lua as lua;
use martlet_lua::{lua_CFunction, lua_State};

use crate::api;
use crate::cjson::array;
use crate::context::Context;
use crate::door::{enter, entry};
use crate::stack::{Kind, Raise, Results, Stack};

const READ_ONLY: &str = "Attempt to modify a readonly table";

/// Globals of Lua's libraries that scripts do not get.
const REMOVED: &[&str] = &["dofile", "loadfile", "print", "newproxy", "getfenv", "setfenv"];

/// The key, in a protected table's metatable, of the real table: an address that scripts cannot name.
fn real_key() -> *mut c_void {
    static KEY: u8 = 0;
    (&raw const KEY).cast_mut().cast()
}

/// Opens Lua's libraries, as far as scripts get them, with the real globals at `globals`.
pub fn open_libraries(stack: &mut Stack<'_>, globals: c_int) {
    let libraries: [(&str, lua_CFunction); 5] = [
        ("", lua::luaopen_base),
        ("table", lua::luaopen_table),
        ("string", lua::luaopen_string),
        ("math", lua::luaopen_math),
        ("os", lua::luaopen_os),
    ];
    for (name, open) in libraries {
        stack.push_function(open);
        stack.push_bytes(name.as_bytes());
        // SAFETY: a library is given its name, and opening it does not fail while memory is unbounded.
        unsafe { lua::lua_call(stack.state(), 1, 0) };
    }
    for name in REMOVED {
        stack.push_nil();
        stack.set_field(globals, name);
    }
    guard_all(stack, globals);
    stack.get_field(globals, "math");
    stack
        .set_functions(&[("random", entry!(api::math_random)), ("randomseed", entry!(api::math_randomseed))]);
    stack.pop(1);
}

/// Replaces functions that work on tables whatever their metatables say.
fn guard_all(stack: &mut Stack<'_>, globals: c_int) {
    guard(stack, globals, "rawset", guarded_rawset);
    guard(stack, globals, "rawget", guarded_read);
    guard(stack, globals, "next", guarded_read);
    stack.get_field(globals, "table");
    let table = stack.top();
    guard(stack, table, "insert", guarded_insert);
    for name in ["foreach", "foreachi"] {
        guard(stack, table, name, guarded_read);
    }
    stack.pop(1);
    stack.get_field(globals, "next");
    push_closure(stack, pairs);
    stack.set_field(globals, "pairs");
    let own: &[(&str, lua_CFunction)] = &[
        ("getmetatable", entry!(getmetatable)),
        ("setmetatable", entry!(setmetatable)),
        ("pcall", pcall),
        ("xpcall", xpcall),
    ];
    for (name, function) in own {
        stack.push_function(*function);
        stack.set_field(globals, name);
    }
}

/// Puts a guard before a function of a table.
fn guard(stack: &mut Stack<'_>, table: c_int, name: &str, guard: lua_CFunction) {
    stack.get_field(table, name);
    push_closure(stack, guard);
    stack.set_field(table, name);
}

/// Replaces the function on top by one that has it.
fn push_closure(stack: &mut Stack<'_>, function: lua_CFunction) {
    assert!(stack.kind(-1) == Kind::Function);
    stack.push_closure(function);
}

/// Runs a guard's function, in the guard's own frame.
///
/// # Safety
/// The running function was made by [`push_closure`] with a C function that has no further values.
unsafe fn run_guarded(state: *mut lua_State) -> c_int {
    // SAFETY: the caller says so.
    unsafe { lua::lua_tocfunction(state, lua::lua_upvalueindex(1)).map_or(0, |original| original(state)) }
}

unsafe extern "C-unwind" fn guarded_rawset(state: *mut lua_State) -> c_int {
    // SAFETY: `guard` has made it, with functions that have no values.
    unsafe {
        enter(state, refuse_rawset);
        run_guarded(state)
    }
}

unsafe extern "C-unwind" fn guarded_insert(state: *mut lua_State) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        enter(state, refuse_insert);
        run_guarded(state)
    }
}

unsafe extern "C-unwind" fn guarded_read(state: *mut lua_State) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        enter(state, reveal);
        run_guarded(state)
    }
}

unsafe extern "C-unwind" fn pairs(state: *mut lua_State) -> c_int {
    // SAFETY: `guard_all` has made it with a function; a call has room for three values.
    unsafe {
        lua::luaL_checktype(state, 1, lua::LUA_TTABLE);
        lua::lua_pushvalue(state, lua::lua_upvalueindex(1));
        lua::lua_pushvalue(state, 1);
        lua::lua_pushnil(state);
        3
    }
}

/// As Redis 7: of an error that is a table the text is returned, or the table in place of the text.
unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    // SAFETY: a call has room for two values more.
    unsafe {
        if lua::lua_gettop(state) == 0 {
            // As Redis: the value that is called then is a boolean.
            lua::lua_pushboolean(state, 1);
        }
        lua::lua_pushboolean(state, 1);
        lua::lua_insert(state, 1);
        if lua::lua_pcall(state, lua::lua_gettop(state) - 2, lua::LUA_MULTRET, 0) != 0 {
            lua::lua_remove(state, 1);
            enter(state, caught);
            lua::lua_pushboolean(state, 0);
            lua::lua_insert(state, 1);
        }
        lua::lua_gettop(state)
    }
}

/// As Lua's, but the handler of a script that must end is passed over: it would run within the hook that has
/// ended it, where nothing can end it any more.
unsafe extern "C-unwind" fn xpcall(state: *mut lua_State) -> c_int {
    // SAFETY: there are two values, and room for further ones.
    unsafe {
        lua::luaL_checkany(state, 2);
        lua::lua_settop(state, 2);
        if lua::lua_type(state, 2) == lua::LUA_TFUNCTION {
            lua::lua_pushcclosure(state, handle, 1);
        }
        lua::lua_insert(state, 1);
        let status = lua::lua_pcall(state, 0, lua::LUA_MULTRET, 1);
        if status != 0 {
            enter(state, raise_end);
        }
        // The results may have left no room.
        lua::lua_ensureroom(state, 1);
        lua::lua_pushboolean(state, c_int::from(status == 0));
        lua::lua_replace(state, 1);
        lua::lua_gettop(state)
    }
}

/// Calls the handler that it has with the error.
unsafe extern "C-unwind" fn handle(state: *mut lua_State) -> c_int {
    // SAFETY: `xpcall` has made it, with a value; a call has room for one more.
    unsafe {
        if enter(state, count_ended) == 0 {
            lua::lua_pushvalue(state, lua::lua_upvalueindex(1));
            lua::lua_insert(state, 1);
            lua::lua_call(state, 1, 1);
        }
        1
    }
}

fn raise_end(stack: &mut Stack<'_>) -> Results {
    api::raise_if_ended(stack).map(|()| 0)
}

/// 1 if the script must end.
fn count_ended(stack: &mut Stack<'_>) -> Results {
    Ok(c_int::from(Context::of(stack).ended.get().is_some()))
}

/// Replaces an error that is a table by its text.
fn caught(stack: &mut Stack<'_>) -> Results {
    api::raise_if_ended(stack)?;
    if stack.kind(-1) == Kind::Table {
        stack.get_field(-1, "err");
        // Anything else is returned as well.
        if matches!(stack.kind(-1), Kind::String | Kind::Number) {
            stack.remove(-2);
        }
    }
    Ok(0)
}

/// Pushes the real table behind the protected one at `index`; false if it is another.
fn push_real(stack: &mut Stack<'_>, index: c_int) -> bool {
    if stack.kind(index) != Kind::Table || !stack.get_metatable(index) {
        return false;
    }
    stack.push_address(real_key());
    stack.get(-2);
    let is_protected = stack.kind(-1) == Kind::Table;
    if is_protected {
        stack.remove(-2);
    } else {
        stack.pop(2);
    }
    is_protected
}

fn refuse_protected(stack: &mut Stack<'_>) -> Results {
    if push_real(stack, 1) {
        stack.push_bytes(READ_ONLY.as_bytes());
        return Err(Raise::Top);
    }
    Ok(0)
}

/// Refuses arguments that `rawset` would take; it has its own error for others, and changes nothing.
fn refuse_rawset(stack: &mut Stack<'_>) -> Results {
    if stack.top() < 3 { Ok(0) } else { refuse_protected(stack) }
}

/// Refuses arguments that `table.insert` would take; it has its own error for others, and changes nothing.
fn refuse_insert(stack: &mut Stack<'_>) -> Results {
    match stack.top() {
        2 => refuse_protected(stack),
        3 if stack.is_numeric(2) => refuse_protected(stack),
        _ => Ok(0),
    }
}

/// Puts the real table in the place of a protected first argument.
fn reveal(stack: &mut Stack<'_>) -> Results {
    if push_real(stack, 1) {
        stack.insert(1);
        stack.remove(2);
    }
    Ok(0)
}

fn getmetatable(stack: &mut Stack<'_>) -> Results {
    if stack.kind(1) == Kind::None {
        return Err(Raise::argument(1, "value expected"));
    }
    if push_real(stack, 1) {
        stack.get_metatable(1);
        stack.get_field(-1, "__metatable");
        if stack.kind(-1) == Kind::Boolean {
            stack.push_nil();
        }
    } else if stack.get_metatable(1) {
        stack.get_field(-1, "__metatable");
        if stack.kind(-1) == Kind::Nil {
            stack.pop(1);
            array::show(stack);
        }
    } else {
        stack.push_nil();
    }
    Ok(1)
}

fn setmetatable(stack: &mut Stack<'_>) -> Results {
    if stack.kind(1) != Kind::Table {
        return Err(stack.unexpected(1, "table"));
    }
    if !matches!(stack.kind(2), Kind::Nil | Kind::Table) {
        return Err(Raise::argument(2, "nil or table expected"));
    }
    refuse_protected(stack)?;
    if stack.get_metatable(1) {
        stack.get_field(-1, "__metatable");
        if stack.kind(-1) != Kind::Nil {
            return Err(Raise::error("cannot change a protected metatable"));
        }
    }
    stack.set_top(2);
    if stack.kind(2) == Kind::Table {
        array::unveil(stack);
        stack.set_metatable(1);
    } else {
        // SAFETY: a table and, on top, nil.
        unsafe { lua::lua_setmetatable(stack.state(), 1) };
    }
    Ok(1)
}

fn refuse_write(_: &mut Stack<'_>) -> Results {
    Err(Raise::error(READ_ONLY))
}

fn refuse_unknown(stack: &mut Stack<'_>) -> Results {
    let name = stack.text(2).unwrap_or(b"?").len();
    // Its copies on the way to the error's text.
    stack.need(8 * name)?;
    let name = stack.text(2).unwrap_or(b"?");
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    let text = [b"Script attempted to access nonexistent global variable '".as_slice(), name, b"'"];
    Err(Raise::Error(text.concat()))
}

/// Replaces the table on top by a read-only proxy. The result of `getmetatable` is below it: a table, or a
/// boolean for nothing.
pub fn protect(stack: &mut Stack<'_>) {
    let real = stack.top();
    stack.push_table(0, 0);
    stack.push_table(0, 4);
    stack.push_copy(real);
    stack.set_field(-2, "__index");
    stack.push_function(entry!(refuse_write));
    stack.set_field(-2, "__newindex");
    stack.push_copy(real - 1);
    stack.set_field(-2, "__metatable");
    stack.push_address(real_key());
    stack.push_copy(real);
    stack.set(-3);
    stack.set_metatable(-2);
    stack.remove(real);
    stack.remove(real - 1);
}

/// Protects all tables in the real globals at `globals`.
pub fn protect_fields(stack: &mut Stack<'_>, globals: c_int) {
    let mut names = Vec::new();
    stack.push_nil();
    while stack.next(globals) {
        let is_library = stack.kind(-1) == Kind::Table && stack.identity(-1) != stack.identity(globals);
        stack.pop(1);
        if is_library && let Some(name) = stack.bytes(-1) {
            names.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    for name in names {
        stack.push_bool(false);
        stack.get_field(globals, &name);
        protect(stack);
        stack.set_field(globals, &name);
    }
}

/// Gives the table at `globals` a metatable, behind which there is nothing.
pub fn refuse_unknown_fields(stack: &mut Stack<'_>, globals: c_int) {
    stack.push_table(0, 1);
    stack.push_function(entry!(refuse_unknown));
    stack.set_field(-2, "__index");
    stack.set_metatable(globals);
}

/// Protects the real globals at `globals`, all tables in them and the metatable of strings, and pushes the
/// globals that scripts see.
pub fn protect_globals(stack: &mut Stack<'_>, globals: c_int) {
    protect_fields(stack, globals);
    // Of strings, scripts see the metatable, and cannot change it, nor the table that it leads to.
    stack.push_bytes(b"");
    stack.get_metatable(-1);
    let metatable = stack.top();
    stack.get_field(globals, "string");
    stack.set_field(metatable, "__index");
    stack.push_bool(false);
    stack.push_copy(metatable);
    protect(stack);
    stack.set_field(metatable, "__metatable");
    stack.pop(2);
    refuse_unknown_fields(stack, globals);
    stack.get_metatable(globals);
    stack.push_bool(false);
    stack.insert(-2);
    protect(stack);
    stack.push_copy(globals);
    protect(stack);
    stack.push_copy(-1);
    stack.set_field(globals, "_G");
}
