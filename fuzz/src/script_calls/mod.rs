//! Calls of every function in the sandbox, with extreme arguments and stacks, nested in what calls back:
//! whether the process lives, each outcome is a reply, and, beside a real server, whether the outcomes are
//! the same.
//!
//! Invariant: the functions are those that a walk of the sandbox's own globals finds.

pub mod peer;
pub mod program;

use std::cell::RefCell;

use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_script::{Called, Engine, Host, Inputs, Interpreter, LogLevel, Run, Verdict, Version};

/// Answers the names of all functions in the sandbox, one a line.
pub const ENUMERATE: &str = "
local names = {}
local function walk(prefix, of, depth)
  for name, value in pairs(of) do
    if type(value) == 'function' then names[#names + 1] = prefix .. name end
    if type(value) == 'table' and depth > 0 and name ~= '_G' and name ~= 'server' then
      walk(name .. '.', value, depth - 1)
    end
  end
end
walk('', _G, 1)
table.sort(names)
return table.concat(names, '\\n')";

/// The names that a reply to [`ENUMERATE`] lists, but for handlers of the server's own.
pub fn names(reply: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(reply).into_owned();
    text.lines().filter(|name| !name.starts_with("__")).map(str::to_owned).collect()
}

/// Most interrupts of a program, one every 100,000 instructions.
const INTERRUPTS_MAX: usize = 100;

/// A server that answers each command with its arguments.
#[derive(Default)]
struct Echo {
    interrupts: usize,
}

impl Host for Echo {
    fn call(&mut self, args: &Args<'_>, reply: &mut Reply) -> Called {
        match args.at(0) {
            b"no-such-command" | b"1" => reply.error("ERR unknown command"),
            _ => {
                reply.array(args.len());
                args.iter().for_each(|arg| reply.bulk(arg));
            }
        }
        Called::Replied
    }
    fn may_call(&mut self, args: &Args<'_>) -> Option<bool> {
        (args.at(0) == b"get").then_some(true)
    }
    fn interrupt(&mut self) -> Verdict {
        self.interrupts += 1;
        if self.interrupts > INTERRUPTS_MAX { Verdict::Kill("killed") } else { Verdict::Continue }
    }
    fn log(&mut self, _: LogLevel, _: &[u8]) {}
    fn set_propagation(&mut self, _: i64) {}
}

/// Memory of one state's scripts.
const MEMORY_MAX_BYTES: usize = 64 << 20;

/// A state, and the names of its functions.
struct Sandbox {
    interpreter: Interpreter,
    names: Vec<String>,
}

impl Sandbox {
    fn new() -> Sandbox {
        let version = Version { text: "7.0.15", number: 0x0007_000F };
        let interpreter = Interpreter::new(Engine::Eval, version, MEMORY_MAX_BYTES);
        let mut sandbox = Sandbox { interpreter, names: Vec::new() };
        let reply = sandbox.run(ENUMERATE).expect("the walk is a valid script");
        let text = reply.split_once("\r\n").map_or("", |(_, text)| text);
        sandbox.names = names(text.trim_end().as_bytes());
        assert!(sandbox.names.len() > 80, "functions are missing: {:?}", sandbox.names);
        sandbox
    }

    /// The reply's bytes, or the error.
    fn run(&mut self, source: &str) -> Result<String, String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let script = self.interpreter.compile(source.as_bytes()).map_err(|error| text(&error))?;
        let mut reply = Reply::new(Vec::new(), false);
        let inputs = Inputs { name: "fuzz", keys: &[b"k1"], args: &[b"a1"] };
        let run = self.interpreter.run(&script, inputs, &mut Echo::default(), &mut reply);
        self.interpreter.forget(script);
        match run {
            Run::Replied => Ok(text(reply.as_bytes())),
            Run::Failed(error) => Err(text(&error.text)),
            Run::Abandoned => Err("abandoned".into()),
        }
    }
}

thread_local! {
    static SANDBOX: RefCell<Sandbox> = RefCell::new(Sandbox::new());
}

/// The input is the choices of a program.
pub fn check(data: &[u8]) {
    SANDBOX.with_borrow_mut(|sandbox| {
        let program = program::program(&sandbox.names, data);
        match sandbox.run(&program) {
            Ok(reply) => assert!(reply.starts_with('$'), "{reply}\n{program}"),
            // The arguments of a call are evaluated before it is protected.
            Err(error) => {
                assert!(error.starts_with("ERR ") || error.contains("user_script:"), "{error}\n{program}")
            }
        }
        // A function may allocate the few values more that no input decides the number of.
        assert!(sandbox.interpreter.used_bytes() <= MEMORY_MAX_BYTES + (1 << 20), "{program}");
    });
}
