//! A command on the command line: its words, the part from standard input, its replies, the exit status.

use crate::cluster;
use crate::connection::plain;
use crate::eval::script;
use crate::format::Expected;
use crate::modes;
use crate::session::{Failure, Session};
use crate::settings::{FromStdin, Mode, Settings};
use crate::shell;
use martlet_protocol::quote;
use std::io::{IsTerminal, Read};

/// Runs the settings; returns the exit status.
pub fn run(settings: &Settings) -> i32 {
    let outcome = match &settings.mode {
        Mode::Command if settings.words.is_empty() => shell::run(settings),
        Mode::Command => match words(settings) {
            Ok(Some(words)) if is_help(&words) => {
                shell::help(settings, &words[1..]);
                Ok(0)
            }
            Ok(Some(words)) => issue(settings, &words),
            Ok(None) => Ok(1),
            Err(message) => Err(message),
        },
        Mode::Cluster(name) => match words(settings) {
            Ok(Some(words)) => cluster::run(settings, name, &words),
            Ok(None) => Ok(1),
            Err(message) => Err(message),
        },
        Mode::Eval(file) if settings.debugs.is_some() => shell::debug(settings, file),
        Mode::Eval(file) => script(settings, file).and_then(|words| issue(settings, &words)),
        _ => modes::run(settings),
    };
    outcome.unwrap_or_else(|message| {
        eprintln!("{message}");
        1
    })
}

/// Whether the client answers itself.
fn is_help(words: &[Vec<u8>]) -> bool {
    words.first().is_some_and(|name| name == b"?" || name.eq_ignore_ascii_case(b"help"))
}

/// The words of the command, complete; `None` where one is no quoted string, which is said on standard
/// output, as redis-cli does.
fn words(settings: &Settings) -> Result<Option<Vec<Vec<u8>>>, String> {
    let mut words = settings.words.clone();
    if settings.quoted_input {
        let unquoted: Option<Vec<Vec<u8>>> = words.iter().map(|word| unquote(word)).collect();
        let Some(unquoted) = unquoted else {
            println!("Invalid quoted string");
            return Ok(None);
        };
        words = unquoted;
    }
    match &settings.from_stdin {
        None => {}
        Some(FromStdin::Last) => words.push(standard_input()?),
        Some(FromStdin::Tag(tag)) => {
            let word = words.iter_mut().find(|word| *word == tag);
            *word.ok_or("Using -X option but stdin tag not match.")? = standard_input()?;
        }
    }
    Ok(Some(words))
}

/// A quoted string's text: a single word.
pub fn unquote(quoted: &[u8]) -> Option<Vec<u8>> {
    <[Vec<u8>; 1]>::try_from(quote::split(quoted)?).ok().map(|[word]| word)
}

fn standard_input() -> Result<Vec<u8>, String> {
    let mut input = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut input);
    read.map_err(|error| format!("Reading from standard input: {}", plain(&error)))?;
    Ok(input)
}

/// Runs one command and, if it subscribes, prints messages for as long as the connection lasts.
fn issue(settings: &Settings, words: &[Vec<u8>]) -> Result<i32, String> {
    let mut session = Session::new(settings);
    session.pager.turn(settings.pager == Some(true) && std::io::stdout().is_terminal());
    let mut issued = session.run(words, settings.repeat);
    while issued.is_ok() && session.is_subscribed {
        issued = session.print_reply(Expected::default()).map(drop);
    }
    match issued {
        Ok(()) => Ok(0),
        Err(Failure::Exit(status)) => Ok(status),
        Err(failure) => Err(failure.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_string_is_one_word() {
        assert_eq!(unquote(br#""a\x00 b""#), Some(b"a\0 b".to_vec()));
        assert_eq!(unquote(b"plain"), Some(b"plain".to_vec()));
        assert_eq!(unquote(b"two words"), None);
        assert_eq!(unquote(b"\"open"), None);
        assert_eq!(unquote(b""), None);
    }
}
