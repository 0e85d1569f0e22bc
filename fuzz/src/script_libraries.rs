//! Input of scripts' libraries from anywhere: it is refused with an error, or its value is written again the
//! same way twice.

use std::cell::RefCell;

use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_script::{Called, Compiled, Engine, Host, Inputs, Interpreter, LogLevel, Run, Verdict, Version};

/// Reads ARGV[1] with each library, writes the value, and reads that. MessagePack is written down to 16
/// levels of tables, with nil for deeper ones: as an element that is read as absent, and refused as a key
/// (redis-server 7.0.15 does both). Its value is the same from then on.
const SCRIPT: &[u8] = b"
local function again(decode, encode, cuts)
  local ok, value = pcall(decode, ARGV[1])
  if not ok then assert(type(value) == 'string') return end
  local written, first = pcall(encode, value)
  if not written then return end
  if cuts then
    local read, cut = pcall(decode, first)
    if not read then assert(type(cut) == 'string') return end
    first = encode(cut)
  end
  local second = encode(decode(first))
  assert(#first == #second, first .. ' <> ' .. second)
end
again(cjson.decode, cjson.encode)
again(cmsgpack.unpack, cmsgpack.pack, true)
local format, data = ARGV[1]:match('^([^\\n]*)\\n?(.*)$')
for _, call in ipairs({struct.size, struct.unpack, struct.pack}) do
  local results = {pcall(call, format, data, 1, 2, 3)}
  assert(results[1] or type(results[2]) == 'string')
end
return 1";

/// There is no server.
struct Nobody;

impl Host for Nobody {
    fn call(&mut self, _: &Args<'_>, _: &mut Reply) -> Called {
        Called::Abandon
    }
    fn may_call(&mut self, _: &Args<'_>) -> Option<bool> {
        None
    }
    fn interrupt(&mut self) -> Verdict {
        Verdict::Continue
    }
    fn log(&mut self, _: LogLevel, _: &[u8]) {}
    fn set_propagation(&mut self, _: i64) {}
}

thread_local! {
    static STATE: RefCell<(Interpreter, Compiled)> = RefCell::new({
        let mut interpreter = Interpreter::new(Engine::Eval, Version { text: "0.0.0", number: 0 }, 64 << 20);
        let script = interpreter.compile(SCRIPT).expect("the script is valid");
        (interpreter, script)
    });
}

/// The input is a document, and a format with data behind a line's end.
pub fn check(data: &[u8]) {
    STATE.with_borrow_mut(|(interpreter, script)| {
        let mut reply = Reply::new(Vec::new(), false);
        let inputs = Inputs { name: "fuzz", keys: &[], args: &[data] };
        match interpreter.run(script, inputs, &mut Nobody, &mut reply) {
            Run::Replied => assert_eq!(reply.as_bytes(), b":1\r\n"),
            Run::Failed(error) => panic!("{} of {}", error.text.escape_ascii(), data.escape_ascii()),
            Run::Abandoned => panic!("nobody was called"),
        }
    });
}
