//! Scripts that are made of bytes run both by Lua and without it: on equal data all that can be seen of a run
//! is equal.

mod generate;
mod store;

use std::cell::RefCell;

use martlet_protocol::reply::Reply;

use crate::{Engine, Inputs, Interpreter, Run, RunPath, Version};
use store::Store;

pub use generate::{generate, seeds};

const MEMORY_MAX_BYTES: usize = 64 << 20;

/// All visible parts of a run.
#[derive(Debug, PartialEq)]
struct Seen {
    outcome: String,
    reply: String,
    store: Store,
}

/// One state that runs scripts by Lua, and one that may run them without.
pub struct Pair {
    lua: Interpreter,
    native: Interpreter,
    /// Runs without Lua, runs that Lua had to do again, and others.
    pub paths: [usize; 3],
}

impl Default for Pair {
    fn default() -> Pair {
        let version = Version { text: "7.0.15", number: 0x0007_000F };
        let state = || Interpreter::new(Engine::Eval, version, MEMORY_MAX_BYTES);
        let mut lua = state();
        lua.allow_native(false);
        Pair { lua, native: state(), paths: [0; 3] }
    }
}

/// Inputs of all scripts.
const KEYS: &[&[u8]] = &[b"k1", b"k2", b"list"];
const ARGS: &[&[u8]] = &[
    b"1",
    b"10",
    b"abc",
    b"",
    b"-2.5",
    b" 7 ",
    b"0x10",
    b"{\"a\":[1,2,{\"b\":null}],\"c\":\"x\\u00e9\"}",
    b"1e3",
];

/// Runs a script in one state, which has no other run before it.
fn see(interpreter: &mut Interpreter, source: &str, runs: usize) -> Result<(Seen, RunPath), String> {
    let script =
        interpreter.compile(source.as_bytes()).map_err(|text| String::from_utf8_lossy(&text).into_owned())?;
    let inputs = Inputs { name: "sha", keys: KEYS, args: ARGS };
    let mut last = None;
    for _ in 0..runs {
        let mut store = Store::default();
        let mut reply = Reply::new(b"before".to_vec(), false);
        let outcome = interpreter.run(&script, inputs, &mut store, &mut reply);
        let reply = String::from_utf8_lossy(reply.as_bytes()).into_owned();
        let outcome = match outcome {
            Run::Failed(error) => format!("{} {}", String::from_utf8_lossy(&error.text), error.is_counted),
            other => format!("{other:?}"),
        };
        last = Some(Seen { outcome, reply, store });
    }
    interpreter.forget(script);
    let path = interpreter.run_path();
    last.map(|seen| (seen, path)).ok_or_else(|| "no run".into())
}

impl Pair {
    /// Runs a script both ways.
    ///
    /// # Panics
    /// With a difference.
    pub fn check(&mut self, source: &str) -> RunPath {
        let lua = see(&mut self.lua, source, 1);
        // The first run is Lua's.
        let native = see(&mut self.native, source, 2);
        match (lua, native) {
            (Ok((lua, _)), Ok((native, path))) => {
                assert_eq!(lua, native, "by Lua, and without; {path:?}:\n{source}");
                let place = match path {
                    RunPath::Native => 0,
                    RunPath::Left => 1,
                    RunPath::Lua => 2,
                };
                self.paths[place] += 1;
                path
            }
            (Err(lua), Err(native)) => {
                assert_eq!(lua, native);
                RunPath::Lua
            }
            (lua, native) => panic!("{lua:?} {native:?}:\n{source}"),
        }
    }
}

thread_local! {
    static PAIR: RefCell<Pair> = RefCell::default();
}

/// The input is the choices of a script.
pub fn check(data: &[u8]) {
    PAIR.with_borrow_mut(|pair| pair.check(&generate(data)));
}

#[cfg(test)]
mod tests;
