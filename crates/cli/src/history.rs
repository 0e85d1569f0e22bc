//! Lines that were typed, kept in a file from one session to the next.
//!
//! Invariants: a line that holds a password is not added, neither to the file nor in memory. A file that
//! cannot be read as lines of text is not overwritten.

use crate::line::is_repeat;
use martlet_protocol::quote;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// How many lines are kept, as redis-cli does.
pub const LINES_MAX: usize = 100;

/// A file in the home directory, unless a variable names another; `/dev/null` stands for none.
pub fn dotfile(variable: &str, name: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).filter(|path| !path.is_empty());
    let home = || Some(PathBuf::from(std::env::var_os("HOME").filter(|home| !home.is_empty())?).join(name));
    named.map(PathBuf::from).or_else(home).filter(|path| path.as_os_str() != "/dev/null")
}

/// The file of lines.
pub struct History {
    file: Option<PathBuf>,
    lines: Vec<String>,
}

impl History {
    /// Reads the file. One that cannot be read, or is no text, has no lines and is left as it is: the lines
    /// of this session are in memory only.
    pub fn load(file: Option<PathBuf>) -> History {
        let (file, text) = match file.as_ref().map(std::fs::read_to_string) {
            Some(Ok(text)) if !text.contains('\0') => (file, text),
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => (file, String::new()),
            _ => (None, String::new()),
        };
        let lines = text.lines().map(str::to_string).collect();
        let mut history = History { file, lines };
        history.trim();
        history
    }

    /// The lines, the oldest first.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Adds a line and writes the file, unless the line is the last one or holds a password; whether the line
    /// may be remembered at all.
    pub fn add(&mut self, line: &str) -> bool {
        if holds_password(line) {
            return false;
        }
        // The file has a line for each entry.
        if line.contains('\n') || self.lines.last().is_some_and(|last| last == line) {
            return true;
        }
        self.lines.push(line.into());
        self.trim();
        // Without a history the prompt still works.
        let _ = self.save();
        true
    }

    fn trim(&mut self) {
        self.lines.drain(..self.lines.len().saturating_sub(LINES_MAX));
    }

    fn save(&self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut text = self.lines.join("\n");
        text.push('\n');
        // A link stays one, and names the file beside which the next one is written.
        let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.clone());
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = file.with_file_name(name);
        let mut options = std::fs::OpenOptions::new();
        let written = (options.write(true).create(true).truncate(true).mode(0o600).open(&temporary))
            .and_then(|mut new| new.write_all(text.as_bytes()))
            .and_then(|()| std::fs::rename(&temporary, &file));
        if written.is_err() {
            // The error that counts is the first one.
            let _ = std::fs::remove_file(&temporary);
        }
        written
    }
}

/// Words that a password can follow, by the words that a command begins with. An empty list stands for any
/// word.
const SENSITIVE: &[(&[&str], &[&str])] = &[
    (&["auth"], &[]),
    (&["acl", "deluser"], &[]),
    (&["acl", "setuser"], &[]),
    (&["acl", "getuser"], &[]),
    (
        &["config", "set"],
        &[
            "masterauth",
            "masteruser",
            "primaryauth",
            "primaryuser",
            "tls-key-file-pass",
            "tls-client-key-file-pass",
            "requirepass",
        ],
    ),
    (&["hello"], &["auth"]),
    (&["migrate"], &["auth", "auth2"]),
    (&["sentinel", "config", "set"], &["sentinel-pass", "sentinel-user"]),
    (&["sentinel", "set"], &["auth-pass", "auth-user"]),
];

/// Whether a typed line can hold a password: behind the number that repeats a command, too, and where a quote
/// does not end, so that the line is no command yet.
fn holds_password(line: &str) -> bool {
    let words = quote::split(line.as_bytes()).unwrap_or_else(|| {
        let words = line.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
        words.map(|word| word.as_bytes().to_vec()).collect()
    });
    is_sensitive(without_repeat(&words))
}

/// The words without a number before them, which says how often a command runs.
fn without_repeat(words: &[Vec<u8>]) -> &[Vec<u8>] {
    match words {
        [first, rest @ ..] if is_repeat(first) => rest,
        words => words,
    }
}

/// Whether a command can hold a password. Of a word that could be a key or a value the answer is yes.
fn is_sensitive(words: &[Vec<u8>]) -> bool {
    let is = |word: &Vec<u8>, name: &&str| word.eq_ignore_ascii_case(name.as_bytes());
    SENSITIVE.iter().any(|(command, names)| {
        words.len() >= command.len()
            && words.iter().zip(*command).all(|(word, name)| is(word, name))
            && (names.is_empty()
                || words[command.len()..].iter().any(|word| names.iter().any(|name| is(word, name))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_recognised() {
        for line in [
            "auth secret",
            "AUTH me secret",
            "acl setuser me >secret",
            "ACL GETUSER me",
            "config set maxmemory 1 requirepass secret",
            "CONFIG SET MASTERAUTH x",
            "hello 3 auth me secret",
            "hello 3 setname a auth me secret",
            "migrate h 1 k 0 10 copy auth secret",
            "migrate h 1 \"\" 0 10 auth2 me secret keys a",
            "sentinel config set sentinel-pass x",
            "sentinel set main auth-pass x",
            "config set primaryauth x",
            "2 auth secret",
            "-1 AUTH secret",
            "99999999999999999999 auth secret",
            "auth \"secret",
            "\"auth\" 'se cret",
            "3 acl setuser me '>secret",
        ] {
            assert!(holds_password(line), "{line}");
        }
        for line in [
            "",
            "get auth",
            "acl list",
            "config get requirepass",
            "hello 3",
            "set auth 1",
            "2 get auth",
            "get \"auth",
        ] {
            assert!(!holds_password(line), "{line}");
        }
    }

    #[test]
    fn the_file_keeps_the_last_lines_and_no_password() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("history");
        let mut history = History::load(Some(file.clone()));
        for number in 0..LINES_MAX + 5 {
            let line = format!("get {number}");
            history.add(&line);
            history.add(&line);
        }
        assert!(!history.add("auth secret") && !history.lines().contains(&"auth secret".into()));
        assert!(history.add("set k \"two\nlines\""));
        let read = History::load(Some(file.clone()));
        assert_eq!(read.lines().len(), LINES_MAX);
        assert_eq!((read.lines()[0].as_str(), read.lines()[LINES_MAX - 1].as_str()), ("get 5", "get 104"));
        let mode = std::fs::metadata(&file).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_no_history_is_left_as_it_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("history");
        for bytes in [b"get k\xff\n".as_slice(), b"\0\0\0", b"get a\nset \0 b\n"] {
            std::fs::write(&file, bytes).expect("written");
            let mut history = History::load(Some(file.clone()));
            history.add("get 1");
            assert_eq!(history.lines(), ["get 1"]);
            assert_eq!(std::fs::read(&file).expect("reads"), bytes);
        }
        std::fs::write(&file, "get 1\r\nget 2").expect("written");
        let mut history = History::load(Some(file.clone()));
        history.add("get 3");
        assert_eq!(std::fs::read_to_string(&file).expect("reads"), "get 1\nget 2\nget 3\n");
        assert_eq!(std::fs::read_dir(directory.path()).expect("reads").count(), 1);
        let mut in_the_way = History::load(Some(directory.path().into()));
        in_the_way.add("get 4");
        assert_eq!(in_the_way.lines(), ["get 4"]);
    }

    #[test]
    fn without_a_file_lines_are_kept_in_memory() {
        let mut history = History::load(None);
        history.add("ping");
        assert_eq!(history.lines(), ["ping"]);
    }
}
