//! Lua's stack for functions written in Rust.
//!
//! Invariant: a Rust function never meets an error of Lua's. Allocations cannot fail while it runs (see
//! [`crate::memory`]), no finalizer runs (scripts can make no userdata), and no function called here consults
//! a metatable. It returns its own error, which is raised once nothing of it is left to drop. There is always
//! room for another value, whatever the arguments are: Lua's limit of a function's values holds for
//! [`Stack::reserve`], which a function calls whose number of pushed values depends on its input.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;

pub use martlet_bytecode::number::to_integer;
use martlet_lua as lua;
use martlet_lua::{lua_CFunction, lua_State};

use crate::memory::Memory;

/// An error of a function, to be raised in its caller.
#[derive(Debug)]
pub enum Raise {
    /// A text, before which Lua puts the place of the call.
    Error(Vec<u8>),
    /// The fault of an argument, the first being 1.
    Argument(c_int, Vec<u8>),
    /// The value on top of the stack.
    Top,
    /// Scripts have no more memory.
    Memory,
}

impl Raise {
    /// [`Raise::Argument`] from text.
    pub fn argument(number: c_int, text: impl Into<Vec<u8>>) -> Raise {
        Raise::Argument(number, text.into())
    }

    /// [`Raise::Error`] from text.
    pub fn error(text: impl Into<String>) -> Raise {
        Raise::Error(text.into().into_bytes())
    }
}

/// How many values on top of the stack are a function's results.
pub type Results = Result<c_int, Raise>;

/// The type of a value.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// There is no value at this index.
    None,
    /// `nil`
    Nil,
    /// `boolean`
    Boolean,
    /// `userdata` that is only an address.
    Light,
    /// `number`
    Number,
    /// `string`
    String,
    /// `table`
    Table,
    /// `function`
    Function,
    /// Anything else.
    Other,
}

/// Values for which Lua is asked for room at once.
const ROOM: c_int = 16;

/// Bytes that an object of Lua's takes at least.
const OBJECT_BYTES: usize = 32;

/// See the [module docs](self). Indexes count from 1 at the function's first argument, or down from -1 at the
/// top.
pub struct Stack<'l> {
    state: *mut lua_State,
    /// Number of values for which Lua has been asked for room, at least, beyond the present ones.
    spare: c_int,
    alive: PhantomData<&'l ()>,
}

impl<'s> Stack<'s> {
    /// The stack of a state.
    ///
    /// # Safety
    /// The state is alive for `'l`, its memory is unbounded, and no other code works on it in that time.
    pub unsafe fn of<'l>(state: *mut lua_State) -> Stack<'l> {
        Stack { state, spare: 0, alive: PhantomData }
    }

    /// The state, for calls that are not here.
    pub(crate) fn state(&self) -> *mut lua_State {
        self.state
    }

    /// Number of values.
    #[inline]
    pub fn top(&self) -> c_int {
        // SAFETY: the state is alive.
        unsafe { lua::lua_gettop(self.state) }
    }

    /// The index, once it is seen to be of a value, or beyond the top, which reads as no value.
    #[inline]
    fn checked(&self, index: c_int) -> c_int {
        assert!(index > 0 || (index < 0 && -index <= self.top()), "index {index} below the stack");
        index
    }

    /// The index of a value that must be there.
    #[inline]
    fn present(&self, index: c_int) -> c_int {
        assert!(index != 0 && index.abs() <= self.top(), "no value at {index}");
        index
    }

    /// The index of a table that must be there.
    #[inline]
    fn table(&self, index: c_int) -> c_int {
        assert!(self.kind(index) == Kind::Table, "no table at {index}");
        index
    }

    /// An index that stays true when more is pushed.
    #[inline]
    pub fn absolute(&self, index: c_int) -> c_int {
        if index < 0 { self.top() + index + 1 } else { index }
    }

    /// Drops all values above the first `count`.
    pub fn set_top(&mut self, count: c_int) {
        assert!(count >= 0 && count <= self.top());
        // SAFETY: there are as many.
        unsafe { lua::lua_settop(self.state, count) }
    }

    /// Drops the topmost values.
    #[inline]
    pub fn pop(&mut self, count: c_int) {
        self.set_top(self.top() - count);
    }

    /// Whether there is room for this many values more; Lua's stack has a limit.
    #[inline]
    pub fn reserve(&mut self, count: c_int) -> bool {
        // The caller may push without telling.
        self.spare = 0;
        // SAFETY: the state is alive.
        unsafe { lua::lua_checkstack(self.state, count) != 0 }
    }

    /// Makes room for one more, which there always is. A function that pushes as many values as its input
    /// wants asks [`Stack::reserve`] before.
    #[inline]
    pub(crate) fn room(&mut self) {
        if self.spare == 0 {
            // SAFETY: the state is alive, and memory is unbounded.
            unsafe { lua::lua_ensureroom(self.state, ROOM) };
            self.spare = ROOM;
        }
        self.spare -= 1;
    }

    /// The memory of the state.
    #[inline]
    pub(crate) fn memory(&self) -> &'s Memory {
        // SAFETY: the states of interpreters have their memory, which outlives them.
        unsafe { Memory::of(self.state) }
    }

    /// Fails if scripts cannot have this many bytes more: for a coming allocation, by Lua or by Rust.
    #[inline]
    pub fn need(&self, bytes: usize) -> Result<(), Raise> {
        if self.memory().has_room(bytes) { Ok(()) } else { Err(Raise::Memory) }
    }

    /// The type of a value.
    #[inline]
    pub fn kind(&self, index: c_int) -> Kind {
        // SAFETY: the index was checked.
        match unsafe { lua::lua_type(self.state, self.checked(index)) } {
            lua::LUA_TNONE => Kind::None,
            lua::LUA_TNIL => Kind::Nil,
            lua::LUA_TBOOLEAN => Kind::Boolean,
            lua::LUA_TLIGHTUSERDATA => Kind::Light,
            lua::LUA_TNUMBER => Kind::Number,
            lua::LUA_TSTRING => Kind::String,
            lua::LUA_TTABLE => Kind::Table,
            lua::LUA_TFUNCTION => Kind::Function,
            _ => Kind::Other,
        }
    }

    /// The name of a value's type, `no value` if absent.
    pub fn type_name(&self, index: c_int) -> &'static str {
        match self.kind(index) {
            Kind::None => "no value",
            Kind::Nil => "nil",
            Kind::Boolean => "boolean",
            Kind::Light => "userdata",
            Kind::Number => "number",
            Kind::String => "string",
            Kind::Table => "table",
            Kind::Function => "function",
            // SAFETY: the index was checked.
            Kind::Other if unsafe { lua::lua_type(self.state, index) } == lua::LUA_TTHREAD => "thread",
            Kind::Other => "userdata",
        }
    }

    // ---- reading ----

    /// A number, or the one that a string spells; 0 for anything else.
    #[inline]
    pub fn number(&self, index: c_int) -> f64 {
        // SAFETY: the index was checked.
        unsafe { lua::lua_tonumber(self.state, self.checked(index)) }
    }

    /// Whether it is a number or spells one.
    pub fn is_numeric(&self, index: c_int) -> bool {
        // SAFETY: the index was checked.
        unsafe { lua::lua_isnumber(self.state, self.checked(index)) != 0 }
    }

    /// Whether it is neither `nil` nor `false`.
    pub fn truth(&self, index: c_int) -> bool {
        // SAFETY: the index was checked.
        unsafe { lua::lua_toboolean(self.state, self.checked(index)) != 0 }
    }

    /// The bytes of a string; `None` for anything else.
    #[inline]
    pub fn bytes(&self, index: c_int) -> Option<&[u8]> {
        if self.kind(index) != Kind::String {
            return None;
        }
        let mut len = 0;
        // SAFETY: a string's bytes stay where they are as long as it is on the stack, and taking it off needs
        // `&mut self`.
        unsafe {
            let bytes = lua::lua_tolstring(self.state, index, &mut len);
            Some(std::slice::from_raw_parts(bytes.cast(), len))
        }
    }

    /// As [`Stack::bytes_argument`], for as long as the function runs.
    ///
    /// # Safety
    /// The value stays at this index until then. (Lua moves no string.)
    pub unsafe fn anchored_argument(&mut self, index: c_int) -> Result<&'s [u8], Raise> {
        let bytes = self.bytes_argument(index)?;
        // SAFETY: the string is on the stack as long as the caller says.
        Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) })
    }

    /// As [`Stack::bytes`]; a number becomes the string that Lua spells it as.
    pub fn text(&mut self, index: c_int) -> Option<&[u8]> {
        if self.kind(index) == Kind::Number {
            // SAFETY: the index is of a value.
            unsafe { lua::lua_tolstring(self.state, index, std::ptr::null_mut()) };
        }
        self.bytes(index)
    }

    /// The address that identifies a table or function.
    pub fn identity(&self, index: c_int) -> *const c_void {
        // SAFETY: the index was checked.
        unsafe { lua::lua_topointer(self.state, self.checked(index)) }
    }

    // ---- arguments ----

    /// An argument that must be a number, or spell one.
    pub fn number_argument(&self, index: c_int) -> Result<f64, Raise> {
        if self.is_numeric(index) { Ok(self.number(index)) } else { Err(self.unexpected(index, "number")) }
    }

    /// An argument that must be a string, or a number, which becomes one.
    pub fn bytes_argument(&mut self, index: c_int) -> Result<&[u8], Raise> {
        if self.text(index).is_none() {
            return Err(self.unexpected(index, "string"));
        }
        Ok(self.bytes(index).unwrap_or_default())
    }

    /// An argument that may be left out, as C converts it to an integer.
    pub fn optional_integer(&self, index: c_int, default: i64) -> Result<i64, Raise> {
        match self.kind(index) {
            Kind::None | Kind::Nil => Ok(default),
            _ => self.number_argument(index).map(to_integer),
        }
    }

    /// The error of an argument of another type.
    pub fn unexpected(&self, index: c_int, expected: &str) -> Raise {
        Raise::argument(index, format!("{expected} expected, got {}", self.type_name(index)))
    }

    // ---- pushing ----

    /// Pushes a copy of a value.
    #[inline]
    pub fn push_copy(&mut self, index: c_int) {
        self.room();
        // SAFETY: there is room, and a value.
        unsafe { lua::lua_pushvalue(self.state, self.present(index)) }
    }

    /// Pushes `nil`.
    #[inline]
    pub fn push_nil(&mut self) {
        self.room();
        // SAFETY: there is room.
        unsafe { lua::lua_pushnil(self.state) }
    }

    /// Pushes a boolean.
    #[inline]
    pub fn push_bool(&mut self, value: bool) {
        self.room();
        // SAFETY: there is room.
        unsafe { lua::lua_pushboolean(self.state, c_int::from(value)) }
    }

    /// Pushes a number.
    #[inline]
    pub fn push_number(&mut self, value: f64) {
        self.room();
        // SAFETY: there is room.
        unsafe { lua::lua_pushnumber(self.state, value) }
    }

    /// Pushes a string.
    #[inline]
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        self.room();
        // SAFETY: there is room; Lua copies the bytes.
        unsafe { lua::lua_pushlstring_(self.state, bytes.as_ptr().cast(), bytes.len()) }
    }

    /// As [`Stack::push_bytes`], if scripts can have as much memory more.
    #[inline]
    pub fn try_push_bytes(&mut self, bytes: &[u8]) -> Result<(), Raise> {
        self.need(bytes.len() + OBJECT_BYTES)?;
        self.push_bytes(bytes);
        Ok(())
    }

    /// As [`Stack::push_table`], if scripts can have as much memory more.
    #[inline]
    pub fn try_push_table(&mut self, elements: usize, fields: usize) -> Result<(), Raise> {
        self.need(2 * OBJECT_BYTES)?;
        self.push_table(elements, fields);
        Ok(())
    }

    /// Pushes an address.
    pub fn push_address(&mut self, address: *mut c_void) {
        self.room();
        // SAFETY: there is room; Lua does not look at the memory there.
        unsafe { lua::lua_pushlightuserdata(self.state, address) }
    }

    /// Pushes a function.
    pub fn push_function(&mut self, function: lua_CFunction) {
        self.room();
        // SAFETY: there is room.
        unsafe { lua::lua_pushcclosure(self.state, function, 0) }
    }

    /// Pushes an empty table with room for this many elements and fields.
    #[inline]
    pub fn push_table(&mut self, elements: usize, fields: usize) {
        self.room();
        // Only a hint: a reply cannot make Lua ask for more than it brings.
        let clamp = |count: usize| count.min(1 << 16) as c_int;
        // SAFETY: there is room.
        unsafe { lua::lua_createtable(self.state, clamp(elements), clamp(fields)) }
    }

    /// Pushes where the function at this level of calls is (`user_script:1: `), if that is known.
    pub fn push_place(&mut self, level: c_int) {
        self.room();
        // SAFETY: there is room.
        unsafe { lua::luaL_where(self.state, level) }
    }

    /// Replaces the topmost strings by all of them in one.
    pub fn concat(&mut self, count: c_int) {
        let all_strings = (1..=count).all(|at| matches!(self.kind(-at), Kind::String | Kind::Number));
        assert!(all_strings, "only strings are put together");
        // SAFETY: strings have no metamethod for this.
        unsafe { lua::lua_concat(self.state, count) }
    }

    /// Pushes the first value that the running function was made with; `nil` if there is none.
    pub fn push_upvalue(&mut self) {
        self.room();
        // SAFETY: there is room; a value that is absent reads as `nil`.
        unsafe { lua::lua_pushvalue(self.state, lua::lua_upvalueindex(1)) }
    }

    /// Replaces the value on top by a function that is made with it.
    pub fn push_closure(&mut self, function: lua_CFunction) {
        self.present(-1);
        // SAFETY: there is a value.
        unsafe { lua::lua_pushcclosure(self.state, function, 1) }
    }

    /// Takes the value on top for as long as the state lives; its reference.
    pub fn keep(&mut self) -> c_int {
        self.present(-1);
        // SAFETY: there is a value, and the registry is a table.
        unsafe { lua::luaL_ref(self.state, lua::LUA_REGISTRYINDEX) }
    }

    /// Pushes a value by its reference.
    pub fn push_kept(&mut self, reference: c_int) {
        self.room();
        // SAFETY: there is room, and the registry is a table.
        unsafe { lua::lua_rawgeti_(self.state, lua::LUA_REGISTRYINDEX, reference) };
    }

    /// The length of a table's list part, as `#` gives it.
    pub fn raw_len(&self, index: c_int) -> usize {
        // SAFETY: there is a table.
        unsafe { lua::lua_objlen(self.state, self.table(index)) }
    }

    /// Moves the top to `index`, and the values there upwards.
    pub fn insert(&mut self, index: c_int) {
        // SAFETY: there is a value.
        unsafe { lua::lua_insert(self.state, self.present(index)) }
    }

    /// Takes a value out.
    pub fn remove(&mut self, index: c_int) {
        // SAFETY: there is a value.
        unsafe { lua::lua_remove(self.state, self.present(index)) }
    }

    // ---- tables ----

    /// Replaces the key on top by its value in the table at `index`.
    #[inline]
    pub fn get(&mut self, index: c_int) {
        // SAFETY: there are a table and a key.
        unsafe { lua::lua_rawget_(self.state, self.table(index)) }
    }

    /// Pushes a field of the table at `index`.
    pub fn get_field(&mut self, index: c_int, name: &str) {
        let table = self.absolute(index);
        self.push_bytes(name.as_bytes());
        self.get(table);
    }

    /// Pushes an element of the table at `index`.
    #[inline]
    pub fn get_element(&mut self, index: c_int, element: c_int) {
        let table = self.table(self.absolute(index));
        self.room();
        // SAFETY: there are a table and room.
        unsafe { lua::lua_rawgeti_(self.state, table, element) }
    }

    /// Whether a table can have this value as a key.
    #[inline]
    fn is_key(&self, index: c_int) -> bool {
        match self.kind(index) {
            Kind::Nil => false,
            Kind::Number => !self.number(index).is_nan(),
            _ => true,
        }
    }

    /// Takes a key and, above it, a value off the stack and puts them into the table at `index`. `nil` and
    /// NaN cannot be keys: they are dropped.
    #[inline]
    pub fn set(&mut self, index: c_int) {
        let table = self.table(self.absolute(index));
        if self.is_key(-2) {
            // SAFETY: there are a table, a key that it takes, and a value.
            unsafe { lua::lua_rawset(self.state, table) }
        } else {
            self.pop(2);
        }
    }

    /// As [`Stack::set`], if scripts can have the memory that the table grows by.
    #[inline]
    pub fn try_set(&mut self, index: c_int) -> Result<(), Raise> {
        if !self.memory().is_large() || !self.is_key(-2) {
            self.set(index);
            return Ok(());
        }
        self.set_bounded(index, 0)
    }

    /// As [`Stack::set_element`], if scripts can have the memory that the table grows by.
    #[inline]
    pub fn try_set_element(&mut self, index: c_int, element: c_int) -> Result<(), Raise> {
        if !self.memory().is_large() || element == 0 {
            self.set_element(index, element);
            return Ok(());
        }
        self.set_bounded(index, element)
    }

    #[cold]
    fn set_bounded(&mut self, index: c_int, element: c_int) -> Result<(), Raise> {
        let table = self.table(self.absolute(index));
        self.present(if element == 0 { -2 } else { -1 });
        let memory = self.memory();
        memory.set_bounded(true);
        // SAFETY: there are a table, a key that it takes, and a value; an error is caught within.
        let is_set = unsafe { lua::lua_tryset(self.state, table, element) != 0 };
        memory.set_bounded(false);
        if is_set { Ok(()) } else { Err(Raise::Memory) }
    }

    /// Takes the top off the stack and makes it a field of the table at `index`.
    pub fn set_field(&mut self, index: c_int, name: &str) {
        let table = self.absolute(index);
        self.push_bytes(name.as_bytes());
        self.insert(-2);
        self.set(table);
    }

    /// Takes the top off the stack and makes it an element of the table at `index`.
    #[inline]
    pub fn set_element(&mut self, index: c_int, element: c_int) {
        let table = self.table(self.absolute(index));
        self.present(-2);
        // SAFETY: there are a table and a value.
        unsafe { lua::lua_rawseti_(self.state, table, element) }
    }

    /// Replaces the key on top by the next key of the table at `index` and its value; by nothing, and false,
    /// after the last. `nil` comes before the first. The table must not get new keys during the walk.
    pub fn next(&mut self, index: c_int) -> bool {
        self.room();
        let table = self.table(self.absolute(index));
        // SAFETY: there are a table, room, and a key that the table has.
        unsafe { lua::lua_next(self.state, table) != 0 }
    }

    /// Pushes a value's metatable, if it has one.
    pub fn get_metatable(&mut self, index: c_int) -> bool {
        self.room();
        // SAFETY: there are a value and room.
        unsafe { lua::lua_getmetatable(self.state, self.checked(index)) != 0 }
    }

    /// Takes a table off the stack and makes it a value's metatable.
    pub fn set_metatable(&mut self, index: c_int) {
        self.table(-1);
        // SAFETY: there are a value and a table.
        unsafe { lua::lua_setmetatable(self.state, self.present(index)) };
    }

    /// Makes functions the fields of the table on top.
    pub fn set_functions(&mut self, functions: &[(&str, lua_CFunction)]) {
        for (name, function) in functions {
            self.push_function(*function);
            self.set_field(-2, name);
        }
    }
}
