//! The debugger against a host with scripted commands.

use std::collections::VecDeque;

use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;

use crate::tests::interpreter;
use crate::{Called, DebugInput, Host, Inputs, LogLevel, Run, Verdict};

/// Sends these commands, then nothing any more.
#[derive(Default)]
struct Client {
    commands: VecDeque<DebugInput>,
    shown: Vec<String>,
    is_overdue: bool,
    interrupts_left: Option<usize>,
}

impl Client {
    fn new(commands: &[&str]) -> Client {
        let words = |command: &&str| command.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let commands = commands.iter().map(words).map(DebugInput::Command).collect();
        Client { commands, ..Client::default() }
    }
}

impl Host for Client {
    fn call(&mut self, args: &Args<'_>, reply: &mut Reply) -> Called {
        reply.bulk(args.at(1));
        Called::Replied
    }

    fn may_call(&mut self, _: &Args<'_>) -> Option<bool> {
        None
    }

    fn interrupt(&mut self) -> Verdict {
        match &mut self.interrupts_left {
            Some(0) => return Verdict::Kill("killed"),
            Some(left) => *left -= 1,
            None => {}
        }
        Verdict::Continue
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) {}

    fn set_propagation(&mut self, _: i64) {}

    fn debug_send(&mut self, lines: &[Vec<u8>]) {
        self.shown.extend(lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()));
    }

    fn debug_receive(&mut self) -> DebugInput {
        self.commands.pop_front().unwrap_or(DebugInput::Gone)
    }

    fn is_debug_overdue(&mut self) -> bool {
        self.is_overdue
    }
}

/// Debugs a script; its reply, or its error.
fn debug(source: &str, client: &mut Client) -> String {
    let mut interpreter = interpreter();
    let script = interpreter.compile(source.as_bytes()).unwrap();
    let mut reply = Reply::new(Vec::new(), false);
    let inputs = Inputs { name: "sha", keys: &[b"k1"], args: &[] };
    let run = interpreter.debug(&script, inputs, source.as_bytes(), client, &mut reply);
    // The state is as after any other script: the next one is not debugged.
    let mut after = Client::new(&["s"]);
    let next = interpreter.compile(b"local a = 1\nreturn tostring(redis.breakpoint())").unwrap();
    let mut answer = Reply::new(Vec::new(), false);
    assert_eq!(interpreter.run(&next, inputs, &mut after, &mut answer), Run::Replied);
    assert_eq!((answer.as_bytes(), after.shown.len()), (b"$5\r\nfalse\r\n".as_slice(), 0));
    match run {
        Run::Replied => String::from_utf8_lossy(reply.as_bytes()).into_owned(),
        Run::Failed(error) => String::from_utf8_lossy(&error.text).into_owned(),
        Run::Abandoned => "abandoned".into(),
    }
}

#[test]
fn a_script_without_end_stops_when_it_is_overdue() {
    let mut client = Client { is_overdue: true, ..Client::new(&["c", "a"]) };
    let error = debug("local a = 1\nwhile true do end", &mut client);
    assert_eq!(error, "ERR script aborted for user request script: sha, on @user_script:2.");
    assert!(client.shown.contains(&"* Stopped at 2, stop reason = timeout reached, infinite loop?".into()));
    assert_eq!(client.shown.last().unwrap(), "<endsession>");
    let mut gone = Client { is_overdue: true, ..Client::new(&["c"]) };
    let error = debug("while true do end", &mut gone);
    assert!(error.contains("timeout during Lua debugging with client closing connection"), "{error}");
}

#[test]
fn evaluated_code_without_end_is_ended() {
    let mut client = Client { is_overdue: true, ..Client::new(&["e while true do end", "c"]) };
    assert_eq!(debug("return 1", &mut client), ":1\r\n");
    assert!(client.shown.iter().any(|line| line.contains("<error> timeout reached")));
    let mut killed = Client { interrupts_left: Some(3), ..Client::new(&["e while true do pcall(nil) end"]) };
    let error = debug("pcall(function() local a = 1 end)\nreturn 1", &mut killed);
    assert!(error.starts_with("ERR killed"), "{error}");
}

#[test]
fn a_killed_script_ends_at_its_stop() {
    let mut client = Client { interrupts_left: Some(0), ..Client::default() };
    let error = debug("local ok = pcall(function()\nreturn 1 end)\nreturn 1", &mut client);
    assert!(error.starts_with("ERR killed"), "{error}");
}

#[test]
fn evaluated_code_has_no_more_memory_than_the_script() {
    let commands = ["e local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end", "e 1", "c"];
    let mut client = Client::new(&commands);
    assert_eq!(debug("return 1", &mut client), ":1\r\n");
    assert!(client.shown.contains(&"<error> not enough memory".into()), "{:?}", client.shown);
    assert!(client.shown.contains(&"<retval> 1".into()));
}

#[test]
fn lines_that_wait_are_bounded() {
    let script = "for i = 1, 200000 do redis.debug(('x'):rep(1000)) end return 1";
    let mut client = Client::new(&["c"]);
    assert_eq!(debug(script, &mut client), ":1\r\n");
    let bytes: usize = client.shown.iter().map(String::len).sum();
    assert!(
        bytes < super::state::TEXT_BYTES_MAX + 1000 && client.shown.len() < super::state::LINES_MAX,
        "{bytes}"
    );
    assert_eq!(client.shown.last().unwrap(), "<endsession>");
}

#[test]
fn the_innermost_variable_is_shown() {
    let script = "local x = 1\nlocal function f(x)\nlocal y = x\nreturn y\nend\nlocal v = f(2)\nreturn v";
    let mut client = Client::new(&["b 4", "c", "p x", "p", "t", "p 1", "p KEYS", "c"]);
    assert_eq!(debug(script, &mut client), ":2\r\n");
    for line in ["<value> 2", "<value> x = 2", "In f:", "From top level:", "<value> {\"k1\"}"] {
        assert!(client.shown.iter().any(|shown| shown == line), "{line}: {:#?}", client.shown);
    }
}
