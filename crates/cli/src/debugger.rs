//! The client's side of Redis' Lua debugger: `--ldb`, and EVAL after a typed `SCRIPT DEBUG`.
//!
//! Invariant: from a session's first reply to its `<endsession>` all that is typed goes to the server's
//! debugger, which has commands and a help of its own.

use martlet_client::resp::Reply;

use crate::prompt::has_colors;

/// The prompt of a session that `--ldb` has begun.
pub const PROMPT: &str = "lua debugger> ";
/// The words before a session that `--ldb` begins.
pub const INTRODUCTION: &str = "Lua debugging session started, please use:\n\
    quit    -- End the session.\n\
    restart -- Restart the script in debug mode again.\n\
    help    -- Show Lua script debugging commands.\n\n";
/// The last line of a session's last lines, which is not shown.
const END: &[u8] = b"<endsession>";

/// Where the shell is in a session.
#[derive(Debug, Default)]
pub struct Debugger {
    /// A session is open.
    pub is_on: bool,
    /// SCRIPT DEBUG was typed: the next EVAL opens one.
    pub is_due: bool,
    /// What the script does stays.
    pub is_sync: bool,
}

impl Debugger {
    /// Notes what a typed command does to later ones.
    pub fn note(&mut self, words: &[Vec<u8>]) {
        if let [script, debug, mode] = words
            && script.eq_ignore_ascii_case(b"script")
            && debug.eq_ignore_ascii_case(b"debug")
        {
            self.is_sync = mode.eq_ignore_ascii_case(b"sync");
            self.is_due = self.is_sync || mode.eq_ignore_ascii_case(b"yes");
        }
    }

    /// Whether a command is for the debugger, or opens its session.
    pub fn takes(&mut self, words: &[Vec<u8>]) -> bool {
        let opens = self.is_due && words.first().is_some_and(|name| name.eq_ignore_ascii_case(b"eval"));
        self.is_on |= opens;
        self.is_on
    }

    /// Notes the end of a session.
    pub fn end(&mut self) {
        (self.is_on, self.is_due) = (false, false);
    }

    /// The line after a session.
    pub fn farewell(&self) -> &'static str {
        match self.is_sync {
            true => "\n(Lua debugging session ended)\n",
            false => "\n(Lua debugging session ended -- dataset changes rolled back)\n",
        }
    }
}

/// The words of a line for the debugger: code that is to be evaluated stays as it is.
pub fn verbatim(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    ["e", "eval"].iter().find_map(|name| {
        let code = line.strip_prefix(name.as_bytes())?.strip_prefix(b" ")?;
        Some(vec![name.as_bytes().to_vec(), code.to_vec()])
    })
}

/// A reply of the debugger as text, and whether the session has ended with it.
pub fn text(reply: &Reply) -> (Vec<u8>, bool) {
    let lines: &[Reply] = match reply {
        Reply::Array(lines) => lines,
        other => std::slice::from_ref(other),
    };
    let paints =
        has_colors() && std::env::var_os("TERM").is_some_and(|term| term.to_string_lossy().contains("xterm"));
    let (mut out, mut has_ended) = (Vec::new(), false);
    for (at, line) in lines.iter().enumerate() {
        if at > 0 {
            out.push(b'\n');
        }
        match line {
            Reply::Simple(text) if text.starts_with(END) => has_ended = true,
            Reply::Simple(text) if paints => paint(&mut out, text),
            Reply::Simple(text) | Reply::Error(text) => out.extend_from_slice(text),
            other => out.extend_from_slice(other.text().unwrap_or_default()),
        }
    }
    out.push(b'\n');
    (out, has_ended)
}

/// Appends a line in the colour of its kind.
fn paint(out: &mut Vec<u8>, line: &[u8]) {
    const KINDS: &[(&[u8], u8)] = &[
        (b"<retval>", 35),
        (b"<value>", 35),
        (b"<hint>", 0),
        (b"<error>", 31),
        (b"<reply>", 36),
        (b"<redis>", 32),
        (b"<debug>", 0),
    ];
    let kind = KINDS.iter().find(|(mark, _)| line.windows(mark.len()).any(|part| part == *mark));
    let mark =
        line.get(3).filter(|byte| byte.is_ascii_digit() && line.len() > 4).and_then(|_| line.get(1..3));
    let color = match mark {
        Some([b'>', _]) => 33,
        Some([_, b'#']) => 0,
        _ => kind.map_or(37, |(_, color)| *color),
    };
    // 0 stands for bold.
    let (bold, color) = if color == 0 { (1, 37) } else { (0, color) };
    out.extend_from_slice(format!("\x1b[{bold};{color};49m").as_bytes());
    out.extend_from_slice(line);
    out.extend_from_slice(b"\x1b[0m");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn an_eval_after_script_debug_opens_a_session() {
        let mut debugger = Debugger::default();
        assert!(!debugger.takes(&words("eval x 0")));
        debugger.note(&words("SCRIPT debug Sync"));
        assert!(!debugger.takes(&words("get k")) && debugger.takes(&words("EVAL x 0")) && debugger.is_sync);
        assert!(debugger.takes(&words("help")));
        debugger.end();
        assert!(!debugger.takes(&words("eval x 0")));
        debugger.note(&words("script debug yes"));
        debugger.note(&words("script debug no"));
        assert!(!debugger.takes(&words("eval x 0")));
    }

    #[test]
    fn evaluated_code_is_not_split() {
        assert_eq!(verbatim(b"e  \"a b\" .. 'c"), Some(vec![b"e".to_vec(), b" \"a b\" .. 'c".to_vec()]));
        assert_eq!(verbatim(b"eval 1"), Some(words("eval 1")));
        assert_eq!((verbatim(b"e"), verbatim(b"evaluate 1"), verbatim(b" e 1")), (None, None, None));
    }

    #[test]
    fn lines_have_the_colours_of_redis_cli() {
        for (line, color) in [
            ("-> 1   local x", "0;33"),
            ("->#1   local x", "0;33"),
            ("  #12  local x", "1;37"),
            ("   2   <redis>", "0;32"),
            ("<redis> get a", "0;32"),
            ("<reply> 1", "0;36"),
            ("<error> no", "0;31"),
            ("<hint> more", "1;37"),
            ("<value> 1", "0;35"),
            ("<debug> line 1: 2", "1;37"),
            ("* Stopped at 1", "0;37"),
        ] {
            let mut out = Vec::new();
            paint(&mut out, line.as_bytes());
            assert_eq!(String::from_utf8_lossy(&out), format!("\x1b[{color};49m{line}\x1b[0m"));
        }
    }
}
