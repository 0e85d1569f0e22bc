//! The thread of a script that is debugged: it runs the script and waits where the script stops, and has
//! whatever touches keys or the connection done by the client's I/O thread.
//!
//! Invariant: this thread sees no key, and nothing waits for it but its own client.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use martlet_base::limits::SHARD_COUNT;
use martlet_command::Presentation;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::{Args, OwnedArgs};
use martlet_script::{Called, DebugInput, Engine, Host, Inputs, Interpreter, LogLevel, Run, Verdict};

use super::input::Input;
use crate::scripting::compiled::script_product;
use crate::scripting::libraries::log;

/// Memory that a script can have.
const MEMORY_MAX_BYTES: usize = 256 << 20;
/// As that of I/O threads, which scripts fit in.
const STACK_BYTES: usize = 2 << 20;
/// Shards whose keys are copied while the I/O thread does nothing else.
const SHARDS_TOGETHER: usize = 32;

/// The answer to a command.
pub enum Answer {
    /// Its reply.
    Replied(Vec<u8>),
    /// It was refused before it ran: the error.
    Refused(Vec<u8>),
    /// It looks at the whole store, of which there is no copy yet.
    NeedsAll,
}

/// A request to the client's I/O thread. Dropping it unanswered ends the session.
pub enum Request {
    /// Send this to the client.
    Send(Vec<u8>),
    /// Run a command, whose reply is of RESP3 if the flag says so.
    Call(OwnedArgs, bool, Sender<Answer>),
    /// Say whether the script's user may run a command.
    MayCall(OwnedArgs, Sender<Option<bool>>),
    /// Copy the keys of these shards; false is the answer if a busy script has one of them.
    Copy(Range<usize>, Sender<bool>),
    /// See [`Host::set_propagation`].
    Propagate(i64),
    /// The script has ended.
    End(End),
}

/// How a script has ended.
pub struct End {
    /// Its reply.
    pub reply: Vec<u8>,
    /// Whether that is an error.
    pub has_failed: bool,
}

/// Hands a request to the client's I/O thread.
pub type Deliver = Box<dyn FnMut(Request) + Send>;

/// The script of a session.
pub struct Debuggee {
    /// Its digest.
    pub name: String,
    /// As the client sent it.
    pub source: Vec<u8>,
    /// The length of its first line, which is not Lua.
    pub first_line_len: usize,
    /// `KEYS`
    pub keys: Vec<Vec<u8>>,
    /// `ARGV`
    pub args: Vec<Vec<u8>>,
    /// The client's protocol version.
    pub resp3: bool,
    /// The product that the server presents to the script.
    pub presentation: Presentation,
    /// `busy-reply-threshold`, milliseconds.
    pub overdue_ms: u64,
    /// The client's input.
    pub input: Arc<Input>,
    /// The server's clock.
    pub clock: &'static martlet_base::clock::Clock,
}

/// Starts the thread of a session.
///
/// # Errors
/// When the operating system refuses it.
pub fn start(debuggee: Debuggee, deliver: Deliver) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name("lua-debug".into()).stack_size(STACK_BYTES);
    thread.spawn(move || run(debuggee, deliver)).map(drop)
}

fn run(debuggee: Debuggee, deliver: Deliver) {
    let mut interpreter =
        Interpreter::new(Engine::Eval, script_product(debuggee.presentation), MEMORY_MAX_BYTES);
    let mut reply = Reply::new(Vec::new(), debuggee.resp3);
    let mut host = SessionHost {
        input: debuggee.input,
        deliver,
        clock: debuggee.clock,
        since: debuggee.clock.raw(),
        overdue_ms: debuggee.overdue_ms,
    };
    let lua = debuggee.source.get(debuggee.first_line_len..).unwrap_or_default();
    let failed = match interpreter.compile(lua) {
        Err(text) => {
            host.debug_send(&[b"<endsession>".to_vec()]);
            Some([b"ERR Error compiling script (new function): ".as_slice(), &text].concat())
        }
        Ok(compiled) => {
            let [keys, args] = [&debuggee.keys, &debuggee.args]
                .map(|words| words.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let inputs = Inputs { name: &debuggee.name, keys: &keys, args: &args };
            match interpreter.debug(&compiled, inputs, &debuggee.source, &mut host, &mut reply) {
                Run::Failed(error) => Some(error.text),
                Run::Replied | Run::Abandoned => None,
            }
        }
    };
    if let Some(text) = &failed {
        reply.error(text);
    }
    let end = End { reply: reply.into_bytes(), has_failed: failed.is_some() };
    (host.deliver)(Request::End(end));
}

/// The server as the script sees it.
struct SessionHost {
    input: Arc<Input>,
    deliver: Deliver,
    clock: &'static martlet_base::clock::Clock,
    /// A raw reading of the clock: when the client was asked last.
    since: u64,
    overdue_ms: u64,
}

impl SessionHost {
    /// Asks the client's I/O thread; `None` if it has no session any more.
    fn ask<A>(&mut self, request: impl FnOnce(Sender<A>) -> Request) -> Option<A> {
        let (answer, wait) = channel();
        (self.deliver)(request(answer));
        wait.recv().ok()
    }

    /// Has all keys copied, some at a time; false if the session ends.
    fn copy_all(&mut self) -> bool {
        (0..SHARD_COUNT).step_by(SHARDS_TOGETHER).all(|first| {
            let shards = first..(first + SHARDS_TOGETHER).min(SHARD_COUNT);
            // A busy script may have one of them for a while.
            loop {
                let shards = shards.clone();
                match self.ask(|answer| Request::Copy(shards, answer)) {
                    Some(true) => return true,
                    Some(false) if !self.input.is_killed() => {}
                    _ => return false,
                }
            }
        })
    }
}

impl Host for SessionHost {
    fn call(&mut self, args: &Args<'_>, reply: &mut Reply) -> Called {
        let resp3 = reply.is_resp3();
        loop {
            match self.ask(|answer| Request::Call(args.to_owned(), resp3, answer)) {
                Some(Answer::Replied(bytes)) => {
                    reply.raw().extend_from_slice(&bytes);
                    return Called::Replied;
                }
                Some(Answer::Refused(text)) => {
                    reply.error(text);
                    return Called::Refused;
                }
                Some(Answer::NeedsAll) if self.copy_all() => {}
                _ => {
                    self.input.kill();
                    return Called::Abandon;
                }
            }
        }
    }

    fn may_call(&mut self, args: &Args<'_>) -> Option<bool> {
        self.ask(|answer| Request::MayCall(args.to_owned(), answer)).flatten()
    }

    fn interrupt(&mut self) -> Verdict {
        match self.input.is_killed() {
            true => Verdict::Kill(crate::scripting::KILLED_TEXT),
            false => Verdict::Continue,
        }
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        log(level, text);
    }

    fn set_propagation(&mut self, targets: i64) {
        (self.deliver)(Request::Propagate(targets));
    }

    fn debug_send(&mut self, lines: &[Vec<u8>]) {
        let mut bytes = format!("*{}\r\n", lines.len()).into_bytes();
        for line in lines {
            bytes.push(b'+');
            bytes.extend(line.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
            bytes.extend_from_slice(b"\r\n");
        }
        (self.deliver)(Request::Send(bytes));
    }

    fn debug_receive(&mut self) -> DebugInput {
        let input = self.input.next();
        self.since = self.clock.raw();
        input
    }

    fn is_debug_overdue(&mut self) -> bool {
        self.clock.elapsed_ns(self.since, self.clock.raw()) / 1_000_000 >= self.overdue_ms
    }
}
