//! The globals of scripts: which of them the subset has.

/// A library, as a script names it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    Redis,
    String,
    Table,
    Math,
    Json,
    Bit,
    Pack,
    Struct,
}

/// A function of the subset.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    Assert,
    Ipairs,
    /// What `ipairs` returns.
    IpairsNext,
    Next,
    Pairs,
    Pcall,
    Raise,
    RawEqual,
    RawGet,
    RawSet,
    Select,
    ToNumber,
    ToString,
    Type,
    Unpack,
    Call,
    CallProtected,
    ErrorReply,
    Log,
    ReplicateCommands,
    Sha1Hex,
    StatusReply,
    Byte,
    Char,
    Find,
    Format,
    Len,
    Lower,
    Rep,
    Reverse,
    Sub,
    Upper,
    Concat,
    GetN,
    Insert,
    MaxN,
    Remove,
    Abs,
    Ceil,
    Floor,
    Fmod,
    Max,
    Min,
    Modf,
    Pow,
    Sqrt,
    Encode,
    Decode,
    UnpackMessage,
    BitAnd,
    BitOr,
    BitXor,
    BitNot,
    ShiftLeft,
    ShiftRight,
    ShiftArithmetic,
    ToBit,
    /// A function of Lua's own state that takes and returns texts and numbers only.
    Lua(LuaFunction),
}

/// A function that [`crate::Server::lua_function`] runs: without effects, of texts, numbers and booleans.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LuaFunction {
    /// The name of the table that has it.
    pub table: &'static str,
    /// The function's name in it.
    pub name: &'static str,
}

/// The meaning of a name in a library.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) enum Field {
    Function(Builtin),
    Number(f64),
    /// `cjson.null`
    Null,
}

/// A global of the subset.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) enum Global {
    Keys,
    Argv,
    Library(Library),
    Function(Builtin),
}

/// The global of a name, if the subset has it.
pub(crate) fn global(name: &[u8]) -> Option<Global> {
    Some(match name {
        b"KEYS" => Global::Keys,
        b"ARGV" => Global::Argv,
        b"redis" | b"server" => Global::Library(Library::Redis),
        b"string" => Global::Library(Library::String),
        b"table" => Global::Library(Library::Table),
        b"math" => Global::Library(Library::Math),
        b"cjson" => Global::Library(Library::Json),
        b"bit" => Global::Library(Library::Bit),
        b"cmsgpack" => Global::Library(Library::Pack),
        b"struct" => Global::Library(Library::Struct),
        _ => Global::Function(function(name)?),
    })
}

fn function(name: &[u8]) -> Option<Builtin> {
    Some(match name {
        b"assert" => Builtin::Assert,
        b"error" => Builtin::Raise,
        b"ipairs" => Builtin::Ipairs,
        b"next" => Builtin::Next,
        b"pairs" => Builtin::Pairs,
        b"pcall" => Builtin::Pcall,
        b"rawequal" => Builtin::RawEqual,
        b"rawget" => Builtin::RawGet,
        b"rawset" => Builtin::RawSet,
        b"select" => Builtin::Select,
        b"tonumber" => Builtin::ToNumber,
        b"tostring" => Builtin::ToString,
        b"type" => Builtin::Type,
        b"unpack" => Builtin::Unpack,
        _ => return None,
    })
}

impl Library {
    /// The name by which Lua's globals have it.
    pub fn name(self) -> &'static str {
        match self {
            Library::Redis => "redis",
            Library::String => "string",
            Library::Table => "table",
            Library::Math => "math",
            Library::Json => "cjson",
            Library::Bit => "bit",
            Library::Pack => "cmsgpack",
            Library::Struct => "struct",
        }
    }

    /// The meaning of a name in it, if the subset has it.
    pub fn field(self, name: &[u8]) -> Option<Field> {
        let function = match self {
            Library::Redis => return redis(name),
            Library::Math => return math(name),
            Library::Json => match name {
                b"null" => return Some(Field::Null),
                b"encode" => Builtin::Encode,
                b"decode" => Builtin::Decode,
                _ => return None,
            },
            Library::String => string(name)?,
            Library::Table => table(name)?,
            Library::Bit => bit(name)?,
            Library::Struct => match name {
                b"pack" => lua("struct", "pack"),
                b"unpack" => lua("struct", "unpack"),
                b"size" => lua("struct", "size"),
                _ => return None,
            },
            Library::Pack if name == b"unpack" => Builtin::UnpackMessage,
            Library::Pack => return None,
        };
        Some(Field::Function(function))
    }
}

const fn lua(table: &'static str, name: &'static str) -> Builtin {
    Builtin::Lua(LuaFunction { table, name })
}

fn redis(name: &[u8]) -> Option<Field> {
    Some(match name {
        b"LOG_DEBUG" => Field::Number(0.0),
        b"LOG_VERBOSE" => Field::Number(1.0),
        b"LOG_NOTICE" => Field::Number(2.0),
        b"LOG_WARNING" => Field::Number(3.0),
        _ => Field::Function(match name {
            b"call" => Builtin::Call,
            b"pcall" => Builtin::CallProtected,
            b"error_reply" => Builtin::ErrorReply,
            b"log" => Builtin::Log,
            b"replicate_commands" => Builtin::ReplicateCommands,
            b"sha1hex" => Builtin::Sha1Hex,
            b"status_reply" => Builtin::StatusReply,
            _ => return None,
        }),
    })
}

fn string(name: &[u8]) -> Option<Builtin> {
    Some(match name {
        b"byte" => Builtin::Byte,
        b"char" => Builtin::Char,
        b"find" => Builtin::Find,
        b"format" => Builtin::Format,
        b"gsub" => lua("string", "gsub"),
        b"len" => Builtin::Len,
        b"lower" => Builtin::Lower,
        b"match" => lua("string", "match"),
        b"rep" => Builtin::Rep,
        b"reverse" => Builtin::Reverse,
        b"sub" => Builtin::Sub,
        b"upper" => Builtin::Upper,
        _ => return None,
    })
}

fn table(name: &[u8]) -> Option<Builtin> {
    Some(match name {
        b"concat" => Builtin::Concat,
        b"getn" => Builtin::GetN,
        b"insert" => Builtin::Insert,
        b"maxn" => Builtin::MaxN,
        b"remove" => Builtin::Remove,
        _ => return None,
    })
}

fn math(name: &[u8]) -> Option<Field> {
    Some(match name {
        b"huge" => Field::Number(f64::INFINITY),
        b"pi" => Field::Number(std::f64::consts::PI),
        _ => Field::Function(match name {
            b"abs" => Builtin::Abs,
            b"ceil" => Builtin::Ceil,
            b"floor" => Builtin::Floor,
            b"fmod" | b"mod" => Builtin::Fmod,
            b"max" => Builtin::Max,
            b"min" => Builtin::Min,
            b"modf" => Builtin::Modf,
            b"pow" => Builtin::Pow,
            b"sqrt" => Builtin::Sqrt,
            b"exp" => lua("math", "exp"),
            b"log" => lua("math", "log"),
            b"log10" => lua("math", "log10"),
            _ => return None,
        }),
    })
}

fn bit(name: &[u8]) -> Option<Builtin> {
    Some(match name {
        b"arshift" => Builtin::ShiftArithmetic,
        b"band" => Builtin::BitAnd,
        b"bnot" => Builtin::BitNot,
        b"bor" => Builtin::BitOr,
        b"bxor" => Builtin::BitXor,
        b"lshift" => Builtin::ShiftLeft,
        b"rshift" => Builtin::ShiftRight,
        b"tobit" => Builtin::ToBit,
        b"tohex" => lua("bit", "tohex"),
        _ => return None,
    })
}
