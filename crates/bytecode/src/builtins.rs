//! Which code runs a function of the library.

use crate::arguments::{ARGUMENT, Results};
use crate::library::Builtin;
use crate::machine::Run;
use crate::stop::{Reason, Stop};
use crate::value::Value;

impl Run<'_> {
    /// Runs a function of the subset, which is at `at`, with its arguments behind it.
    pub fn builtin(&mut self, function: Builtin, at: usize, argc: usize, wanted: u16) -> Results {
        (at + 1..=at + argc).for_each(|place| self.spend_on(self.at(place)));
        match function {
            Builtin::Call => self.redis_call(at, argc, false, wanted),
            Builtin::CallProtected => self.redis_call(at, argc, true, wanted),
            Builtin::ErrorReply => self.error_reply(at, argc),
            Builtin::StatusReply => self.status_reply(at, argc),
            Builtin::Sha1Hex => self.sha1hex(at, argc),
            Builtin::Log => self.log(at, argc),
            Builtin::ReplicateCommands => self.answer(at, Value::Boolean(true)),
            Builtin::Encode => self.encode(at, argc),
            Builtin::Decode => self.decode(at, argc),
            Builtin::Lua(function) => self.lua_function(function, at, argc),
            _ if argc == 0 && !matches!(function, Builtin::Char) => Err(ARGUMENT),
            Builtin::ToNumber => self.number_of(at, argc),
            Builtin::ToString => self.text_of(at),
            Builtin::Type => {
                let name = self.at(at + 1).type_name();
                let text = self.texts.push(name);
                self.answer(at, Value::Text(text))
            }
            Builtin::Assert if self.at(at + 1).is_true() => self.give_arguments(at, 1, argc),
            Builtin::Assert | Builtin::Raise | Builtin::Pcall => Err(Stop::Leave(Reason::Error)),
            Builtin::Select => self.select(at, argc),
            Builtin::Ipairs | Builtin::Pairs => self.pairs(function, at),
            Builtin::IpairsNext => self.ipairs_next(at, argc),
            Builtin::Next => self.next(at, argc),
            Builtin::RawEqual | Builtin::RawGet | Builtin::RawSet => self.raw(function, at, argc),
            Builtin::Unpack => self.unpack(at, argc),
            Builtin::UnpackMessage => self.unpack_message(at),
            Builtin::Concat => self.concat_table(at, argc),
            Builtin::Insert => self.insert(at, argc),
            Builtin::Remove => self.remove(at, argc),
            Builtin::GetN | Builtin::MaxN => self.table_size(function, at),
            Builtin::Abs
            | Builtin::Ceil
            | Builtin::Floor
            | Builtin::Fmod
            | Builtin::Max
            | Builtin::Min
            | Builtin::Modf
            | Builtin::Pow
            | Builtin::Sqrt => self.math(function, at, argc),
            Builtin::BitAnd
            | Builtin::BitOr
            | Builtin::BitXor
            | Builtin::BitNot
            | Builtin::ShiftLeft
            | Builtin::ShiftRight
            | Builtin::ShiftArithmetic
            | Builtin::ToBit => self.bits(function, at, argc),
            _ => self.string_function(function, at, argc),
        }
    }
}
