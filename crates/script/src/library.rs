//! Libraries of functions: the environment of their code during a load, and `redis.register_function`.
//!
//! Invariant: a library's registrations are in the registry of the state, and nowhere else, until
//! [`Interpreter::load_library`](crate::Interpreter::load_library) passes them on or drops them.

use std::ffi::c_int;

use martlet_lua as lua;

use crate::api::{self, Product};
use crate::context::{Compiled, Context, Registered};
use crate::door::entry;
use crate::flags::ScriptFlags;
use crate::sandbox;
use crate::stack::{Kind, Results, Stack};

/// Why a library or a function may not have its name.
pub const BAD_NAME: &str = "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";
/// Valkey's error of a function's name.
const BAD_FUNCTION_NAME: &str = "Function names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// Whether a library or a function may have this name.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Pushes the globals that a library finds while it is loaded: `redis`, with less in it, also by
/// the name `server`, and nothing else.
pub fn push_globals(stack: &mut Stack<'_>, product: Product) {
    stack.push_table(0, 2);
    let globals = stack.top();
    api::push_for_loading(stack, product);
    stack.set_functions(&[("register_function", entry!(register_function))]);
    let table = stack.top();
    sandbox::refuse_unknown_fields(stack, table);
    stack.push_copy(-1);
    stack.set_field(globals, "server");
    stack.set_field(globals, "redis");
    sandbox::protect_fields(stack, globals);
    sandbox::refuse_unknown_fields(stack, globals);
}

/// The fault of a registration.
type Refused = &'static str;

/// The arguments with a function, which is the second value of the stack.
struct Given {
    name: Vec<u8>,
    description: Option<Vec<u8>>,
    flags: ScriptFlags,
}

fn register_function(stack: &mut Stack<'_>) -> Results {
    let context = Context::of(stack);
    if context.registered.borrow().is_none() {
        return api::refuse(stack, "redis.register_function can only be called on FUNCTION LOAD command");
    }
    let given = match stack.top() {
        1 => read_named(stack),
        2 => read_positional(stack),
        _ => Err("wrong number of arguments to redis.register_function"),
    };
    let Given { name, description, flags } = match given {
        Ok(given) => given,
        Err(refused) => return api::refuse(stack, refused),
    };
    if !is_name(&name) {
        return api::refuse(stack, if context.is_valkey.get() { BAD_FUNCTION_NAME } else { BAD_NAME });
    }
    let mut registered = context.registered.borrow_mut();
    let Some(registered) = registered.as_mut() else { return Ok(0) };
    if registered.iter().any(|known| known.name == name) {
        return api::refuse(stack, "Function already exists in the library");
    }
    stack.set_top(2);
    // SAFETY: a function is on top, which is taken.
    let reference = unsafe { lua::luaL_ref(stack.state(), lua::LUA_REGISTRYINDEX) };
    let function = Compiled { reference, translation: None };
    registered.push(Registered { name, description, flags, function });
    Ok(0)
}

fn read_positional(stack: &mut Stack<'_>) -> Result<Given, Refused> {
    let name = stack.text(1).map(<[u8]>::to_vec);
    let name = name.ok_or("first argument to redis.register_function must be a string")?;
    if stack.kind(2) != Kind::Function {
        return Err("second argument to redis.register_function must be a function");
    }
    Ok(Given { name, description: None, flags: ScriptFlags::default() })
}

/// Reads a table of named arguments, and puts the function behind it.
fn read_named(stack: &mut Stack<'_>) -> Result<Given, Refused> {
    const TABLE: c_int = 1;
    const FUNCTION: c_int = 2;
    if stack.kind(TABLE) != Kind::Table {
        return Err(
            "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
        );
    }
    let (mut name, mut description, mut flags) = (None, None, ScriptFlags::default());
    stack.push_nil();
    stack.push_nil();
    while stack.next(TABLE) {
        if !matches!(stack.kind(-2), Kind::String | Kind::Number) {
            return Err("named argument key given to redis.register_function is not a string");
        }
        // A number stays a number: the walk continues from it.
        let key = stack.bytes(-2).unwrap_or_default().to_ascii_lowercase();
        match key.as_slice() {
            b"function_name" => {
                let text = stack.text(-1).map(<[u8]>::to_vec);
                name = Some(
                    text.ok_or("function_name argument given to redis.register_function must be a string")?,
                );
            }
            b"description" => {
                let text = stack.text(-1).map(<[u8]>::to_vec);
                description = Some(
                    text.ok_or("description argument given to redis.register_function must be a string")?,
                );
            }
            b"callback" => {
                if stack.kind(-1) != Kind::Function {
                    return Err("callback argument given to redis.register_function must be a function");
                }
                stack.push_copy(-1);
                stack.insert(FUNCTION);
                stack.remove(FUNCTION + 1);
            }
            b"flags" => {
                if stack.kind(-1) != Kind::Table {
                    return Err(
                        "flags argument to redis.register_function must be a table representing function flags",
                    );
                }
                flags = read_flags(stack).ok_or("unknown flag given")?;
            }
            _ => return Err("unknown argument given to redis.register_function"),
        }
        stack.pop(1);
    }
    let name = name.ok_or("redis.register_function must get a function name argument")?;
    if stack.kind(FUNCTION) != Kind::Function {
        return Err("redis.register_function must get a callback argument");
    }
    Ok(Given { name, description, flags })
}

/// The flags that the elements of the table on top name.
fn read_flags(stack: &mut Stack<'_>) -> Option<ScriptFlags> {
    let mut flags = ScriptFlags::default();
    for element in 1.. {
        stack.get_element(-1, element);
        if stack.kind(-1) == Kind::Nil {
            break;
        }
        let name = stack.text(-1)?.to_ascii_lowercase();
        flags = flags.with(ScriptFlags::named(&name)?);
        stack.pop(1);
    }
    stack.pop(1);
    Some(flags)
}
