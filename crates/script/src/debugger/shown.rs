//! What functions of `redis` show the client of a debugger, and `redis.breakpoint()` and `redis.debug()`.

use martlet_protocol::request::Args;

use super::state::{Debugger, TEXT_BYTES_MAX};
use super::text::{Text, human_reply, value_text};
use crate::context::Context;
use crate::host::Called;
use crate::stack::{Results, Stack};

/// Arguments of a command that its line shows.
const SHOWN_ARGUMENTS: usize = 10;

/// Lets `work` use the debugger, if the script is debugged.
pub fn with<R>(stack: &Stack<'_>, work: impl FnOnce(&mut Debugger) -> R) -> Option<R> {
    Context::of(stack).debugger.borrow_mut().as_deref_mut().map(work)
}

/// `redis.breakpoint()`: whether there is a debugger to stop in.
pub fn breakpoint(stack: &mut Stack<'_>) -> Results {
    let is_debugged = with(stack, |debugger| debugger.breaks = true).is_some();
    stack.push_bool(is_debugged);
    Ok(1)
}

/// `redis.debug()`: shows its arguments.
pub fn debug(stack: &mut Stack<'_>) -> Results {
    let Some((line, room)) =
        with(stack, |debugger| (debugger.line, TEXT_BYTES_MAX.saturating_sub(debugger.lines_bytes)))
    else {
        return Ok(0);
    };
    let mut text = Text::new(format!("<debug> line {line}: ").as_bytes(), room);
    for index in 1..=stack.top() {
        if index > 1 {
            text.push(b", ");
        }
        value_text(stack, index, &mut text);
    }
    with(stack, |debugger| debugger.say(text.into_bytes()));
    Ok(0)
}

/// Whether commands that the script calls are shown.
#[inline]
pub fn shows_calls(stack: &Stack<'_>) -> bool {
    Context::of(stack).is_debugged.get() && with(stack, |debugger| debugger.steps).unwrap_or_default()
}

/// Shows a command that the script calls.
pub fn show_call(stack: &Stack<'_>, args: &Args<'_>) {
    with(stack, |debugger| {
        let mut text = Text::new(b"<redis>", TEXT_BYTES_MAX);
        for word in args.iter().take(SHOWN_ARGUMENTS) {
            text.push(b" ");
            text.push(word);
        }
        if args.len() > SHOWN_ARGUMENTS {
            text.push(format!(" ... ({} more)", args.len() - SHOWN_ARGUMENTS - 1).as_bytes());
        }
        debugger.say(text.into_bytes());
    });
}

/// Shows the reply to a command that the script has called, or why it was refused.
pub fn show_answer(stack: &Stack<'_>, called: Called, reply: &[u8]) {
    let is_error = reply.first() == Some(&b'-');
    if is_error {
        let line = reply.strip_suffix(b"\r\n").unwrap_or(reply);
        let own = line.strip_prefix(b"-ERR ").filter(|_| called == Called::Refused);
        show_error(stack, own.unwrap_or(line));
    }
    if called == Called::Replied {
        with(stack, |debugger| {
            let mut text = Text::new(b"<reply> ", debugger.wanted_bytes());
            human_reply(reply, &mut text);
            debugger.say_cut(text.into_bytes());
        });
    }
}

/// Shows an error that a function of `redis` returns or raises.
pub fn show_error(stack: &Stack<'_>, text: &[u8]) {
    with(stack, |debugger| debugger.say([b"<error> ", text].concat()));
}
