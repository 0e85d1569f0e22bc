//! Commands that are typed or come from a pipe, a line each, and the shell's own commands among them.
//!
//! Invariant: a lost connection ends no shell; the next command makes another one.

use crate::command_docs::{self, CommandDocs};
use crate::connection::{Lost, plain};
use crate::debugger::{self, Debugger};
use crate::docs::Docs;
use crate::eval;
use crate::format::{Expected, Output, Tables};
use crate::help;
use crate::history::{History, dotfile};
use crate::interrupt;
use crate::line::{is_repeat, split_lines};
use crate::prompt::{self, Prompt, Typed};
use crate::session::{Failure, Session};
use crate::settings::{Mode, Settings};
use martlet_client::resp::Reply;
use martlet_protocol::quote;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// From here on a command's time is shown.
const SHOWN_TIME: Duration = Duration::from_millis(500);
/// Longest line that is read.
const LINE_MAX_BYTES: usize = 1 << 30;

/// The consequence of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Another line.
    Line,
    /// The end, with this status.
    End(i32),
}

/// Understands lines.
pub struct Shell<'a> {
    settings: &'a Settings,
    session: Session<'a>,
    command_docs: Arc<CommandDocs>,
    preferences: Preferences,
    debugger: Debugger,
    /// Lines are typed at a terminal.
    has_prompt: bool,
}

/// What `:set` changes of the prompt.
struct Preferences {
    hints: bool,
}

impl<'a> Shell<'a> {
    /// A shell, which tries to connect at once; that it cannot is said, and is no end.
    pub fn new(settings: &'a Settings) -> Shell<'a> {
        let mut session = Session::new(settings);
        session.is_interactive = true;
        if let Err(failure) = session.connect() {
            eprintln!("{failure}");
        }
        Shell {
            settings,
            session,
            command_docs: Arc::default(),
            preferences: Preferences { hints: true },
            debugger: Debugger::default(),
            has_prompt: false,
        }
    }

    /// Carries out a line.
    pub fn line(&mut self, line: &[u8]) -> Next {
        let verbatim = if self.debugger.is_on { debugger::verbatim(line) } else { None };
        let Some(words) = verbatim.or_else(|| quote::split(line)) else {
            println!("Invalid argument(s)");
            return Next::Line;
        };
        let (repeat, words) = match split_repeat(&words) {
            Ok(split) => split,
            Err(message) => {
                println!("{message}");
                return Next::Line;
            }
        };
        let Some(first) = words.first() else { return Next::Line };
        let is = |name: &str| first.eq_ignore_ascii_case(name.as_bytes());
        if is("quit") || is("exit") {
            return Next::End(0);
        }
        match words {
            [name, rest @ ..] if name.starts_with(b":") => self.set(name, rest, ""),
            [_, rest @ ..] if !self.debugger.is_on && (is("help") || is("?")) => self.help(rest),
            [_, host, port] if is("connect") => self.connect(host, port),
            [_] if is("clear") => print!("\x1b[H\x1b[2J"),
            [_] if is("restart") && self.settings.debugs.is_some() => return self.begin_debugging(true),
            [_] if is("restart") => println!("Use 'restart' only in Lua debugging mode."),
            words if self.debugger.takes(words) => return self.debug(words, repeat),
            words => {
                self.debugger.note(words);
                return self.command(words, repeat);
            }
        }
        Next::Line
    }

    /// Opens the session of `--ldb`, or another one.
    fn begin_debugging(&mut self, is_another: bool) -> Next {
        if is_another {
            if let Err(failure) = self.session.connect() {
                eprintln!("{failure}");
            }
            println!();
        }
        print!("{}", debugger::INTRODUCTION);
        let Mode::Eval(file) = &self.settings.mode else { return Next::Line };
        let words = match eval::script(self.settings, file) {
            Ok(words) => words,
            Err(message) => {
                eprintln!("{message}");
                return Next::End(1);
            }
        };
        let is_sync = self.settings.debugs == Some(true);
        self.debugger = Debugger { is_on: true, is_due: false, is_sync };
        let mode: &[u8] = if is_sync { b"sync" } else { b"yes" };
        let begun = self.ask_to_debug(mode).and_then(|()| self.ask_debugger(&words));
        if let Err(failure) = begun {
            eprintln!("{failure}");
            return Next::End(1);
        }
        if self.debugger.is_on {
            return Next::Line;
        }
        println!("Eval debugging session can't start:");
        let shown = self.session.print_reply(Expected::default());
        Next::End(i32::from(shown.is_err()))
    }

    /// Asks for the debugger; while a session before this one still ends the server is busy.
    fn ask_to_debug(&mut self, mode: &[u8]) -> Result<(), Failure> {
        const TRIES: u32 = 100;
        const PAUSE: Duration = Duration::from_millis(50);
        for _ in 0..TRIES {
            let Some(connection) = self.session.connection() else { return Err(Lost::Closed.into()) };
            match connection.command(&[b"SCRIPT", &b"DEBUG"[..], mode])? {
                Reply::Error(text) if text.starts_with(b"BUSY ") => std::thread::sleep(PAUSE),
                _ => break,
            }
        }
        Ok(())
    }

    /// Sends a command to the debugger, or opens its session, and shows the lines that it answers.
    fn ask_debugger(&mut self, words: &[Vec<u8>]) -> Result<(), Failure> {
        let Some(connection) = self.session.connection() else { return Err(Lost::Closed.into()) };
        let (text, has_ended) = debugger::text(&connection.command(words)?);
        if has_ended {
            self.debugger.end();
            self.session.style.output = Output::Standard;
        }
        // If the reader is gone, the program ends.
        let _ = io::stdout().write_all(&text);
        Ok(())
    }

    /// Carries out a line that is for the debugger; at the end of its session EVAL's reply follows.
    fn debug(&mut self, words: &[Vec<u8>], repeat: i64) -> Next {
        for _ in 0..repeat.max(1) {
            if !self.debugger.is_on {
                break;
            }
            let mut outcome = self.ask_debugger(words);
            if outcome.is_ok() && !self.debugger.is_on {
                outcome = self.session.print_reply(Expected::default()).map(|_| {
                    println!("{}", self.debugger.farewell());
                    // The server closes it.
                    self.session.disconnect();
                });
            }
            if let Err(failure) = outcome {
                eprintln!("{failure}");
                self.debugger.end();
                self.session.disconnect();
            }
        }
        Next::Line
    }

    /// The text before a typed line.
    fn prompt(&self) -> String {
        let is_in_session = self.debugger.is_on && self.settings.debugs.is_some();
        if is_in_session && self.session.is_connected() {
            debugger::PROMPT.into()
        } else {
            self.session.prompt()
        }
    }

    fn connect(&mut self, host: &[u8], port: &[u8]) {
        let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
        let (Ok(host), Some(port)) = (std::str::from_utf8(host), port) else {
            println!("Invalid server port.");
            return;
        };
        self.session.turn_to(host.into(), port);
        if let Err(failure) = self.session.connect() {
            eprintln!("{failure}");
        }
    }

    /// Changes a preference; `origin` precedes the message about an unknown one.
    fn set(&mut self, name: &[u8], rest: &[Vec<u8>], origin: &str) {
        let Some(preference) = rest.first().filter(|_| name.eq_ignore_ascii_case(b":set")) else {
            println!("{origin}unknown redis-cli internal command '{}'", String::from_utf8_lossy(name));
            return;
        };
        match preference.to_ascii_lowercase().as_slice() {
            b"hints" => self.preferences.hints = true,
            b"nohints" => self.preferences.hints = false,
            b"pager" => self.session.pager.turn(self.has_prompt),
            b"nopager" => self.session.pager.turn(false),
            b"human" => self.session.style.is_human = true,
            b"nohuman" => self.session.style.is_human = false,
            b"table" => self.use_tables(),
            b"notable" => self.session.style.tables = Tables::None,
            _ => {
                let preference = String::from_utf8_lossy(preference);
                println!("{origin}unknown redis-cli preference '{preference}'");
            }
        }
    }

    fn use_tables(&mut self) {
        self.session.style.tables = Tables::All;
        if let Err(failure) = self.session.prefer_resp3() {
            eprintln!("{failure}");
        }
    }

    /// Lines are typed at a terminal: sets up the parts for people.
    fn begin_prompt(&mut self) {
        self.has_prompt = true;
        self.session.pager.turn(self.settings.pager.unwrap_or(true));
        if self.session.style.tables == Tables::None {
            self.session.style.tables = Tables::Lists;
        }
        // A pager that is left before its text ends is no reason to end.
        // SAFETY: a system call that installs no handler.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    }

    /// Reads the file of preferences.
    fn load_preferences(&mut self) {
        let file = dotfile("REDISCLI_RCFILE", ".redisclirc");
        let bytes = file.and_then(|file| std::fs::read(file).ok()).unwrap_or_default();
        for line in bytes.split(|byte| *byte == b'\n') {
            let words = quote::split(line).unwrap_or_default();
            if let [name, rest @ ..] = words.as_slice() {
                self.set(name, rest, ".redisclirc: ");
            }
        }
    }

    fn help(&mut self, words: &[Vec<u8>]) {
        if words.is_empty() {
            print!("{}", help::general());
            return;
        }
        self.command_docs.ask(self.settings, self.session.place());
        self.session.pager.show(help_about(self.command_docs.wait().as_deref(), words));
    }

    fn command(&mut self, words: &[Vec<u8>], repeat: i64) -> Next {
        self.session.pager.take_spent();
        let begun = Instant::now();
        let mut outcome = self.session.run(words, repeat);
        if self.has_prompt && matches!(&outcome, Err(Failure::Lost(lost)) if lost.is_end()) {
            // The server may have ended it while the user typed nothing.
            outcome = self.session.run(words, repeat);
        }
        // Without the time of the reader of a pager, and of what follows the command.
        let took = begun.elapsed().saturating_sub(self.session.pager.take_spent());
        match outcome {
            Ok(()) => {}
            Err(Failure::Exit(status)) => return Next::End(status),
            Err(Failure::Lost(lost)) if lost.is_interrupt() => self.turn_back(),
            Err(failure) => eprintln!("{failure}"),
        }
        if self.command_docs.now().is_none() {
            self.learn(words);
        }
        if !self.session.is_subscribed {
            interrupt::take();
        }
        if took >= SHOWN_TIME && self.session.style.output == Output::Standard {
            println!("({:.2}s)", took.as_secs_f64());
        }
        Next::Line
    }

    /// After Ctrl-C: the reply that is not waited for any more comes over the old connection.
    fn turn_back(&mut self) {
        self.session.disconnect();
        interrupt::take();
        if self.has_prompt
            && let Err(failure) = self.session.connect()
        {
            eprintln!("{failure}");
        }
    }

    /// Asks for documentation over the session, which may do so since this command only.
    fn learn(&mut self, words: &[Vec<u8>]) {
        let authenticates = words.first().is_some_and(|name| {
            [&b"auth"[..], b"hello"].iter().any(|known| name.eq_ignore_ascii_case(known))
        });
        let is_free = !self.session.in_transaction && !self.session.is_subscribed;
        if self.has_prompt
            && authenticates
            && is_free
            && let Some(connection) = self.session.connection()
        {
            // A connection that is lost is found out by the next command.
            self.command_docs.put(Docs::ask(connection).ok());
        }
    }

    /// Prints messages until the user types, presses Ctrl-C (which ends the subscriptions) or the server is
    /// gone.
    fn show_messages(&mut self, has_input: bool) {
        let _keys = self.has_prompt.then(KeysAtOnce::new);
        let shows_hint = self.session.style.output != Output::Raw
            && (io::stdout().is_terminal() || crate::pretends_terminal());
        while self.session.is_subscribed {
            let outcome = self.wait_for_message(has_input, shows_hint);
            match outcome {
                Ok(true) => {}
                Ok(false) => return,
                Err(failure) => {
                    eprintln!("{failure}");
                    self.session.disconnect();
                    return;
                }
            }
        }
    }

    /// Prints one message; false when the user types instead.
    fn wait_for_message(&mut self, has_input: bool, shows_hint: bool) -> Result<bool, Failure> {
        let Some(connection) = self.session.connection() else { return Ok(false) };
        if interrupt::take() {
            self.session.connect()?;
            return Ok(false);
        }
        if !connection.has_received() {
            if has_input {
                return Ok(false);
            }
            if shows_hint {
                show("Reading messages... (press Ctrl-C to quit or any key to type command)\r");
            }
            let stdin = io::stdin();
            let mut ready = vec![PollFd::new(connection, PollFlags::IN), PollFd::new(&stdin, PollFlags::IN)];
            ready.extend(interrupt::wake().map(|wake| PollFd::from_borrowed_fd(wake, PollFlags::IN)));
            let polled = poll(&mut ready, None);
            let (has_message, has_input) = (!ready[0].revents().is_empty(), !ready[1].revents().is_empty());
            if shows_hint {
                show("\x1b[K");
            }
            if polled.is_err() || interrupt::take() {
                self.session.connect()?;
                return Ok(false);
            }
            if !has_message {
                return Ok(!has_input);
            }
        }
        self.session.print_reply(Expected::default()).map(|_| true)
    }
}

fn show(text: &str) {
    print!("{text}");
    // If the reader is gone, the next write fails.
    let _ = io::stdout().flush();
}

/// A number before a command says how often it runs.
fn split_repeat(words: &[Vec<u8>]) -> Result<(i64, &[Vec<u8>]), &'static str> {
    let [first, rest @ ..] = words else { return Ok((1, words)) };
    if rest.is_empty() || !is_repeat(first) {
        return Ok((1, words));
    }
    let number = std::str::from_utf8(first).ok().and_then(|number| number.parse().ok());
    match number {
        Some(number @ 1..) => Ok((number, rest)),
        _ => Err("Invalid redis-cli repeat command option value."),
    }
}

/// Lines of standard input.
struct Input(BufReader<io::Stdin>);

impl Input {
    fn has_buffered(&self) -> bool {
        !self.0.buffer().is_empty()
    }

    /// The next line without its end; `None` after the last one.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        loop {
            match io::Read::take(&mut self.0, LINE_MAX_BYTES as u64).read_until(b'\n', &mut line) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
                Ok(0) if line.is_empty() => return Ok(None),
                Ok(_) => break,
            }
        }
        if line.ends_with(b"\n") {
            line.pop();
        }
        Ok(Some(line))
    }
}

/// A terminal that gives keys, not lines, and does not show them. Ctrl-C is a key as well, for the prompt to
/// read: a signal just before the wait would not end it.
struct KeysAtOnce(Option<Termios>);

impl KeysAtOnce {
    fn new() -> KeysAtOnce {
        let before = tcgetattr(io::stdin()).ok();
        if let Some(mut modes) = before.clone() {
            modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
            // Lines do as well.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
        }
        KeysAtOnce(before)
    }
}

impl Drop for KeysAtOnce {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// The documentation of these words.
fn help_about(docs: Option<&Docs>, words: &[Vec<u8>]) -> String {
    let text = help::about(docs.unwrap_or(&Docs::default()), words);
    if prompt::has_colors() { text } else { help::without_colors(&text) }
}

/// HELP as the command of a command line.
pub fn help(settings: &Settings, words: &[Vec<u8>]) {
    if words.is_empty() {
        print!("{}", help::general());
        return;
    }
    print!("{}", help_about(command_docs::load(settings, &Session::new(settings).place()).as_ref(), words));
}

/// Runs the commands that are typed or that standard input has; gives the exit status.
pub fn run(settings: &Settings) -> Result<i32, String> {
    interrupt::catch();
    run_shell(Shell::new(settings))
}

/// Debugs the script of `--eval`, and then is a shell like another.
pub fn debug(settings: &Settings, file: &Path) -> Result<i32, String> {
    eval::script(settings, file)?;
    interrupt::catch();
    let mut shell = Shell::new(settings);
    match shell.begin_debugging(false) {
        Next::End(status) => Ok(status),
        Next::Line => run_shell(shell),
    }
}

fn run_shell(mut shell: Shell) -> Result<i32, String> {
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        shell.begin_prompt();
        run_typed(shell).map_err(|error| format!("Reading from the terminal: {}", plain(&error)))
    } else {
        run_lines(shell)
    }
}

/// Runs commands that are typed.
fn run_typed(mut shell: Shell) -> io::Result<i32> {
    let history = History::load(dotfile("REDISCLI_HISTFILE", ".rediscli_history"));
    let prompt = Prompt::new(history, shell.command_docs.clone());
    let mut prompt = prompt.map_err(|error| io::Error::other(error.to_string()))?;
    shell.load_preferences();
    loop {
        prompt.show_hints(shell.preferences.hints);
        if shell.session.is_connected() && !shell.debugger.is_on {
            shell.command_docs.ask(shell.settings, shell.session.place());
        }
        // One from here on until the terminal gives keys was pressed at no command.
        interrupt::take();
        let Typed::Text(text) = prompt.read(&shell.prompt())? else {
            if shell.session.is_subscribed && shell.session.connect().is_ok() {
                continue;
            }
            return Ok(0);
        };
        for line in split_lines(&text) {
            if !line.trim().is_empty() {
                prompt.remember(line);
            }
            if let Next::End(status) = shell.line(line.as_bytes()) {
                return Ok(status);
            }
        }
        let _ = io::stdout().flush();
        shell.show_messages(false);
    }
}

/// Runs commands that come a line each.
fn run_lines(mut shell: Shell) -> Result<i32, String> {
    let mut input = Input(BufReader::new(io::stdin()));
    loop {
        let line = input.next().map_err(|error| format!("Reading from standard input: {}", plain(&error)))?;
        let Some(line) = line else { return Ok(0) };
        if let Next::End(status) = shell.line(&line) {
            return Ok(status);
        }
        // The reader of the output waits for it.
        let _ = io::stdout().flush();
        shell.show_messages(input.has_buffered());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_before_a_command_repeats_it() {
        let words = |line: &str| quote::split(line.as_bytes()).expect("words");
        let three = words("3 ping");
        assert_eq!(split_repeat(&three), Ok((3, &three[1..])));
        for plain in ["ping 3", "3", "3a ping", ""] {
            let words = words(plain);
            assert_eq!(split_repeat(&words), Ok((1, words.as_slice())), "{plain}");
        }
        for bad in ["0 ping", "-1 ping", "99999999999999999999 ping"] {
            assert!(split_repeat(&words(bad)).is_err(), "{bad}");
        }
    }
}
