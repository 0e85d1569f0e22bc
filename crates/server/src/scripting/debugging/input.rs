//! The input of a client that debugs: its I/O thread receives it, and the script's thread waits for the next
//! command in it.
//!
//! Invariant: at most [`INPUT_MAX_BYTES`] wait, and commands before the client's end are still read.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use martlet_base::sync::lock;
use martlet_script::DebugInput;

/// Input that waits at most, in bytes.
const INPUT_MAX_BYTES: usize = 1 << 20;
/// Words of a command, and bytes of each.
const WORDS_MAX: i64 = 1024;
const WORD_MAX_BYTES: i64 = 1024;
/// How long a session waits for a command: its client has gone then, whatever its connection says.
const IDLE_MAX: Duration = Duration::from_secs(3600);

/// See the [module docs](self).
#[derive(Default)]
pub struct Input {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// More came than may wait.
    is_too_long: bool,
    /// The client sends nothing more.
    is_ended: bool,
    /// The session is to end at once.
    is_killed: bool,
    /// The script's thread waits for a command.
    waits: bool,
}

impl Input {
    /// Adds bytes that the client has sent.
    pub fn receive(&self, bytes: &[u8]) {
        let mut state = lock(&self.state);
        state.is_too_long |= state.bytes.len() + bytes.len() > INPUT_MAX_BYTES;
        if !state.is_too_long {
            state.bytes.extend_from_slice(bytes);
        }
        self.changed.notify_one();
    }

    /// Notes the end of the input: the script runs to its end without the client.
    pub fn end(&self) {
        lock(&self.state).is_ended = true;
        self.changed.notify_one();
    }

    /// Has the session end at once, as nothing would come of it.
    pub fn kill(&self) {
        lock(&self.state).is_killed = true;
        self.changed.notify_one();
    }

    /// Whether the session is to end at once.
    pub fn is_killed(&self) -> bool {
        lock(&self.state).is_killed
    }

    /// Whether the script's thread waits for a command that has not come.
    pub fn is_awaited(&self) -> bool {
        lock(&self.state).waits
    }

    /// Waits for the client's next command.
    pub fn next(&self) -> DebugInput {
        let mut state = lock(&self.state);
        loop {
            if state.is_killed {
                return DebugInput::Gone;
            }
            if std::mem::take(&mut state.is_too_long) {
                state.bytes.clear();
                return DebugInput::Unreadable("max client buffer reached");
            }
            match parse(&state.bytes) {
                Parsed::Command(words, len) => {
                    state.bytes.drain(..len);
                    return DebugInput::Command(words);
                }
                Parsed::Malformed => {
                    state.bytes.clear();
                    return DebugInput::Unreadable("protocol error");
                }
                Parsed::Incomplete if state.is_ended => return DebugInput::Gone,
                Parsed::Incomplete => {}
            }
            state.waits = true;
            let waited = self.changed.wait_timeout(state, IDLE_MAX);
            let timeout;
            (state, timeout) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
            state.waits = false;
            state.is_ended |= timeout.timed_out();
        }
    }
}

/// The beginning of the input.
#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    /// A command, and the length up to its end.
    Command(Vec<Vec<u8>>, usize),
    Incomplete,
    Malformed,
}

/// A line's number, behind a first byte, and the rest behind its end.
fn number_line(input: &[u8]) -> Option<(i64, &[u8])> {
    let end = input.windows(2).position(|pair| pair == b"\r\n")?;
    let digits = input.get(1..end)?;
    Some((martlet_base::number::parse_i64(digits).unwrap_or_default(), &input[end + 2..]))
}

/// Reads a command, which is an array of strings. As in Redis, bytes before the array are skipped, and words
/// are neither empty nor long.
fn parse(input: &[u8]) -> Parsed {
    if input.is_empty() {
        return Parsed::Incomplete;
    }
    let Some(start) = input.iter().position(|&byte| byte == b'*') else { return Parsed::Malformed };
    let Some((count, mut rest)) = number_line(&input[start..]) else { return Parsed::Incomplete };
    if !(1..=WORDS_MAX).contains(&count) {
        return Parsed::Malformed;
    }
    let mut words = Vec::new();
    for _ in 0..count {
        match rest.first() {
            None => return Parsed::Incomplete,
            Some(b'$') => {}
            Some(_) => return Parsed::Malformed,
        }
        let Some((len, behind)) = number_line(rest) else { return Parsed::Incomplete };
        if !(1..=WORD_MAX_BYTES).contains(&len) {
            return Parsed::Malformed;
        }
        let Some((word, behind)) = behind.split_at_checked(len as usize) else { return Parsed::Incomplete };
        match behind {
            [b'\r', b'\n', behind @ ..] => rest = behind,
            [] | [b'\r'] => return Parsed::Incomplete,
            _ => return Parsed::Malformed,
        }
        words.push(word.to_vec());
    }
    Parsed::Command(words, input.len() - rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn a_command_is_read_once_it_is_there() {
        let whole = b"*2\r\n$5\r\nbreak\r\n$1\r\n3\r\n";
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), Parsed::Incomplete, "{end}");
        }
        assert_eq!(parse(whole), Parsed::Command(words(&["break", "3"]), whole.len()));
        let two = [whole.as_slice(), b"*1\r\n$1\r\ns\r\n"].concat();
        assert_eq!(parse(&two), Parsed::Command(words(&["break", "3"]), whole.len()));
        assert_eq!(parse(b"x *1\r\n$1\r\ns\r\n"), Parsed::Command(words(&["s"]), 13));
    }

    #[test]
    fn anything_else_is_an_error() {
        let inputs: &[&[u8]] = &[
            b"step\r\n",
            b"*0\r\n",
            b"*-1\r\n",
            b"*1025\r\n",
            b"*x\r\n",
            b"*1\r\n:1\r\n",
            b"*1\r\n$0\r\n\r\n",
            b"*1\r\n$1025\r\n",
            b"*1\r\n$-1\r\n",
            b"*1\r\n$1\r\nsx\r\n",
            b"*1\r\n$99999999999999999999\r\n",
        ];
        for input in inputs {
            assert_eq!(parse(input), Parsed::Malformed, "{}", input.escape_ascii());
        }
    }

    #[test]
    fn what_came_before_the_end_is_still_read() {
        let input = Input::default();
        input.receive(b"*1\r\n$1\r\ns\r\n*1\r\n$1\r\nc\r\n*1\r\n");
        input.end();
        assert_eq!(input.next(), DebugInput::Command(words(&["s"])));
        assert_eq!(input.next(), DebugInput::Command(words(&["c"])));
        assert_eq!(input.next(), DebugInput::Gone);
    }

    #[test]
    fn too_much_input_is_an_error_and_takes_no_memory() {
        let input = Input::default();
        for _ in 0..10 {
            input.receive(&vec![b'*'; INPUT_MAX_BYTES / 2]);
            assert!(lock(&input.state).bytes.len() <= INPUT_MAX_BYTES);
        }
        assert_eq!(input.next(), DebugInput::Unreadable("max client buffer reached"));
        input.receive(b"*1\r\n$1\r\ns\r\n");
        assert_eq!(input.next(), DebugInput::Command(words(&["s"])));
        input.kill();
        assert_eq!(input.next(), DebugInput::Gone);
    }

    #[test]
    fn a_thread_that_waits_is_woken() {
        let input = Input::default();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| [input.next(), input.next()]);
            input.receive(b"*1\r\n$1\r\n");
            input.receive(b"s\r\n");
            input.kill();
            let [first, last] = waiting.join().unwrap();
            assert!(matches!(first, DebugInput::Command(_) | DebugInput::Gone));
            assert_eq!(last, DebugInput::Gone);
        });
    }
}
