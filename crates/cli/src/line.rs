//! A line that is being typed: where its quotes are open, its parts for colours, its completions.
//!
//! Invariant: the parts of a line are the line.

use crate::docs::Docs;
use crate::hint::next_tokens;
use martlet_protocol::quote;

/// The class of a part of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Space,
    Word,
    Number,
    /// A word with quotes, whose end is there or not.
    Quoted {
        is_open: bool,
    },
}

/// The parts of a line: words and the spaces between.
pub fn parts(line: &str) -> Vec<(Class, &str)> {
    let mut parts = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let (class, end) = if is_space(first) {
            (Class::Space, rest.find(|c| !is_space(c)).unwrap_or(rest.len()))
        } else {
            word(rest)
        };
        let (part, after) = rest.split_at(end);
        parts.push((class, part));
        rest = after;
    }
    parts
}

fn is_space(c: char) -> bool {
    u8::try_from(c).is_ok_and(quote::is_space)
}

/// The class and the length of the word that a text begins with.
fn word(text: &str) -> (Class, usize) {
    let mut quote = None;
    let mut has_quotes = false;
    let mut chars = text.char_indices().peekable();
    let end = loop {
        match (chars.next(), quote) {
            (None, _) => break text.len(),
            (Some((_, '\\')), Some(open)) => {
                // Within single quotes only these are escaped.
                chars.next_if(|(_, next)| open == '"' || *next == open);
            }
            (Some((_, c)), Some(open)) if c == open => quote = None,
            (Some((_, c @ ('"' | '\''))), None) => (quote, has_quotes) = (Some(c), true),
            (Some((at, c)), None) if is_space(c) => break at,
            _ => {}
        }
    };
    let is_number = text.get(..end).is_some_and(|word| word.parse::<f64>().is_ok());
    match (has_quotes, is_number) {
        (true, _) => (Class::Quoted { is_open: quote.is_some() }, end),
        (false, true) => (Class::Number, end),
        (false, false) => (Class::Word, end),
    }
}

/// Whether a quote has no end yet, and its last line is not empty: an empty one gives up.
pub fn goes_on(text: &str) -> bool {
    let is_open = matches!(parts(text).last(), Some((Class::Quoted { is_open: true }, _)));
    is_open && !text.ends_with('\n')
}

/// Whether a word before a command says how often it runs; the number may be out of range.
pub fn is_repeat(word: &[u8]) -> bool {
    let digits = word.strip_prefix(b"-").or(word.strip_prefix(b"+")).unwrap_or(word);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// The lines of a text that was pasted; a quoted string that has several lines stays whole.
pub fn split_lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let (mut begin, mut at) = (0, 0);
    for (class, part) in parts(text) {
        if class == Class::Space {
            for (offset, _) in part.match_indices('\n') {
                lines.push(&text[begin..at + offset]);
                begin = at + offset + 1;
            }
        }
        at += part.len();
    }
    lines.push(&text[begin..]);
    lines
}

/// Whether the first word of a line is HELP or a question mark, and where the rest begins.
fn help_offset(line: &str) -> Option<usize> {
    let (first, _) = line.split_once(' ')?;
    let is_help = first.eq_ignore_ascii_case("help") || first == "?";
    is_help.then(|| line.len() - line[first.len()..].trim_start().len())
}

/// The texts that can stand from an offset of the line on.
pub fn completions(docs: &Docs, line: &str) -> (usize, Vec<String>) {
    let help = help_offset(line);
    let begin = help.unwrap_or(0);
    let typed = &line[begin..];
    let begins = |text: &str| text.get(..typed.len()).is_some_and(|start| start.eq_ignore_ascii_case(typed));
    let mut found: Vec<String> =
        docs.entries.iter().map(|entry| entry.name()).filter(|name| begins(name)).collect();
    if help.is_some() {
        found.extend(docs.groups().iter().map(|group| format!("@{group}")).filter(|group| begins(group)));
    }
    if !found.is_empty() || help.is_some() {
        return (begin, found);
    }
    let begin = line.rfind(is_space).map_or(0, |at| at + 1);
    let typed = line.get(begin..).unwrap_or_default();
    let begins =
        |token: &String| token.get(..typed.len()).is_some_and(|start| start.eq_ignore_ascii_case(typed));
    (begin, next_tokens(docs, line).into_iter().filter(begins).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_classes() {
        let classes: Vec<Class> = parts("set 'k 1' -1.5 \"v").iter().map(|(class, _)| *class).collect();
        use Class::{Number, Quoted, Space, Word};
        let (closed, open) = (Quoted { is_open: false }, Quoted { is_open: true });
        assert_eq!(classes, [Word, Space, closed, Space, Number, Space, open]);
    }

    #[test]
    fn open_quotes_go_on_until_an_empty_line() {
        assert!(goes_on("set k \"a"));
        assert!(goes_on("set k 'a\nb"));
        assert!(goes_on(r#"set k "a\""#));
        for whole in ["", "get k", "set k \"a\nb\"", "set k \"a\n", "set k 'it\\'s'"] {
            assert!(!goes_on(whole), "{whole}");
        }
    }

    #[test]
    fn pasted_lines_are_commands_of_their_own() {
        assert_eq!(split_lines("set a 1\nget a"), ["set a 1", "get a"]);
        assert_eq!(split_lines("set a \"1\n2\"\nget a\n"), ["set a \"1\n2\"", "get a", ""]);
        assert_eq!(split_lines(""), [""]);
    }

    proptest::proptest! {
        #[test]
        fn the_parts_are_the_line(line in "[a '\"\\\\\n1é]{0,20}") {
            let joined: String = parts(&line).iter().map(|(_, part)| *part).collect();
            assert_eq!(joined, line);
            assert_eq!(split_lines(&line).join("\n"), line);
        }
    }
}
