//! Hints: the arguments that are still to come after the typed ones, in redis-cli's form.
//!
//! Words are matched against a tree of arguments. Optional arguments that follow each other come in any
//! order; one that has begun and is not complete is shown first and without brackets. A word that fits
//! nothing ends the hints.
//!
//! Invariant: hints are redis-cli's to the byte, also where it leaves a bracket that nothing opens.

use crate::docs::{Argument, Arguments, Docs, Entry, Kind};
use martlet_protocol::quote;
use std::ops::Range;

/// The hint after a line; `None` where the line begins with no known command.
pub fn hint(docs: &Docs, line: &str) -> Option<String> {
    let words = finished_words(line)?;
    let entry = docs.find(&words)?;
    Some(of_entry(entry, words.get(entry.words.len()..).unwrap_or_default()))
}

/// The arguments of a command of which nothing has been typed.
pub fn all_arguments(entry: &Entry) -> String {
    of_entry(entry, &[])
}

fn of_entry(entry: &Entry, words: &[Vec<u8>]) -> String {
    let mut out = String::new();
    match &entry.arguments {
        Arguments::Guessed(text) if words.is_empty() => out.push_str(text),
        Arguments::Guessed(_) => {}
        Arguments::Known(arguments) => {
            let mut list = Matched::list(arguments);
            if match_list(&mut list, words) == words.len() {
                show_list(&mut list, " ", &mut out);
            }
        }
    }
    out
}

/// The tokens that can come next, sorted.
pub fn next_tokens(docs: &Docs, line: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let Some(words) = finished_words(line) else { return tokens };
    let Some(entry) = docs.find(&words) else { return tokens };
    if let Arguments::Known(arguments) = &entry.arguments {
        let words = words.get(entry.words.len()..).unwrap_or_default();
        let mut list = Matched::list(arguments);
        if match_list(&mut list, words) == words.len() {
            list_tokens(&list, &mut tokens);
        }
    }
    tokens.sort();
    tokens.dedup();
    tokens
}

/// The words of a line except the one that is still being typed; `None` within quotes.
fn finished_words(line: &str) -> Option<Vec<Vec<u8>>> {
    let mut words = quote::split(line.as_bytes())?;
    if !line.bytes().last().is_some_and(quote::is_space) {
        words.pop();
    }
    Some(words)
}

/// An argument, and its typed part.
struct Matched<'d> {
    argument: &'d Argument,
    words: usize,
    has_token: bool,
    has_value: bool,
    is_complete: bool,
    inner: Vec<Matched<'d>>,
}

impl<'d> Matched<'d> {
    fn list(arguments: &'d [Argument]) -> Vec<Matched<'d>> {
        arguments.iter().map(Matched::new).collect()
    }

    fn new(argument: &'d Argument) -> Matched<'d> {
        Matched {
            argument,
            words: 0,
            has_token: false,
            has_value: false,
            is_complete: false,
            inner: Matched::list(&argument.inner),
        }
    }

    fn clear(&mut self) {
        (self.words, self.has_token, self.has_value, self.is_complete) = (0, false, false, false);
        self.inner.iter_mut().for_each(Matched::clear);
    }

    /// Takes as many words as fit; gives how many.
    fn take(&mut self, words: &[Vec<u8>]) -> usize {
        let mut taken = self.take_once(words);
        if !self.argument.is_multiple {
            return taken;
        }
        while self.is_complete && taken < words.len() {
            self.clear();
            let rest = words.get(taken..).unwrap_or_default();
            let more = if self.argument.token.is_some() && !self.argument.repeats_token {
                let more = self.take_value(rest);
                self.has_token = self.words > 0;
                more
            } else {
                self.take_once(rest)
            };
            if more == 0 {
                break;
            }
            taken += more;
        }
        // It can always come again.
        self.is_complete = false;
        taken
    }

    fn take_once(&mut self, words: &[Vec<u8>]) -> usize {
        let Some(token) = &self.argument.token else { return self.take_value(words) };
        let [first, rest @ ..] = words else { return 0 };
        if !token.as_bytes().eq_ignore_ascii_case(first) {
            return 0;
        }
        (self.has_token, self.words) = (true, 1);
        if self.argument.kind == Kind::Token {
            self.is_complete = true;
        } else if !rest.is_empty() {
            return self.take_value(rest);
        }
        1
    }

    /// Takes the words after the token; returns how many words the argument has with it.
    fn take_value(&mut self, words: &[Vec<u8>]) -> usize {
        let Some(first) = words.first() else { return 0 };
        let fits = match self.argument.kind {
            Kind::Block => {
                self.words += match_list(&mut self.inner, words);
                self.is_complete = self.inner.iter().all(|inner| inner.is_complete);
                return self.words;
            }
            Kind::OneOf => {
                for inner in &mut self.inner {
                    if inner.take(words) > 0 {
                        self.words += inner.words;
                        self.is_complete = inner.is_complete;
                        break;
                    }
                }
                return self.words;
            }
            Kind::Integer => begins_with_integer(first),
            Kind::Double => begins_with_double(first),
            Kind::Word | Kind::Token => true,
        };
        if fits {
            self.words += 1;
            (self.has_value, self.is_complete) = (true, true);
        } else {
            (self.words, self.has_value) = (0, false);
        }
        self.words
    }

    fn show(&mut self, out: &mut String) {
        if self.is_complete {
            return;
        }
        if self.argument.is_optional && self.words == 0 {
            out.push('[');
        }
        if let Some(token) = &self.argument.token
            && !self.has_token
        {
            push_or_quotes(token, out);
            if self.argument.kind != Kind::Token {
                out.push(' ');
            }
        }
        match self.argument.kind {
            Kind::OneOf if self.words == 0 => show_list(&mut self.inner, "|", out),
            Kind::OneOf => self.inner.iter_mut().filter(|inner| inner.words > 0).for_each(|i| i.show(out)),
            Kind::Block => show_list(&mut self.inner, " ", out),
            Kind::Token => {}
            _ if self.has_value => {}
            _ => push_or_quotes(&self.argument.text, out),
        }
        self.show_repetition(out);
        if self.argument.is_optional && self.words == 0 {
            out.push(']');
        }
    }

    /// A repeated argument is shown whole, whatever has been typed.
    fn show_repetition(&mut self, out: &mut String) {
        if !self.argument.is_multiple {
            return;
        }
        self.clear();
        if !out.is_empty() {
            out.push(' ');
        }
        out.push('[');
        if self.argument.repeats_token {
            push_or_quotes(self.argument.token.as_deref().unwrap_or_default(), out);
            if self.argument.kind != Kind::Token {
                out.push(' ');
            }
        }
        match self.argument.kind {
            Kind::OneOf => show_list(&mut self.inner, "|", out),
            Kind::Block => show_list(&mut self.inner, " ", out),
            Kind::Token => {}
            _ => push_or_quotes(&self.argument.text, out),
        }
        out.push_str(" ...]");
    }

    /// Adds the tokens that can come next; returns whether it must be continued before anything else.
    fn tokens(&self, tokens: &mut Vec<String>) -> bool {
        if self.is_complete {
            return false;
        }
        match &self.argument.token {
            Some(token) if !self.has_token || self.argument.repeats_token => tokens.push(token.clone()),
            _ => match self.argument.kind {
                Kind::OneOf => {
                    let is_open = |inner: &&Matched| self.words == 0 || inner.words > 0;
                    for inner in self.inner.iter().filter(is_open) {
                        inner.tokens(tokens);
                    }
                }
                Kind::Block => list_tokens(&self.inner, tokens),
                _ => {}
            },
        }
        !self.argument.is_optional || (self.words > 0 && !self.is_satisfied())
    }

    /// Whether nothing is missing, though more could come.
    fn is_satisfied(&self) -> bool {
        match self.argument.kind {
            Kind::OneOf => self.inner.iter().any(|inner| inner.words > 0 && inner.is_satisfied()),
            Kind::Block => self.inner.iter().all(|inner| inner.argument.is_optional || inner.is_satisfied()),
            Kind::Token => self.has_token,
            _ => self.has_value,
        }
    }
}

fn list_tokens(list: &[Matched], tokens: &mut Vec<String>) {
    // One that has begun goes first.
    let begun = list.iter().find(|one| one.words > 0 && !one.is_complete && !one.is_satisfied());
    if let Some(begun) = begun {
        begun.tokens(tokens);
        return;
    }
    let past = list.iter().rposition(|one| one.words > 0 && !one.argument.is_optional).map_or(0, |at| at);
    for one in list.get(past..).unwrap_or_default() {
        if one.tokens(tokens) && !one.is_satisfied() {
            break;
        }
    }
}

/// Matches words against arguments in their order; gives how many fit.
fn match_list(list: &mut [Matched], words: &[Vec<u8>]) -> usize {
    let (mut at, mut taken) = (0, 0);
    while taken < words.len() && at < list.len() {
        let rest = words.get(taken..).unwrap_or_default();
        let options = optional_run(list, at);
        if options.is_empty() {
            match list[at].take(rest) {
                0 => return 0,
                more => taken += more,
            }
            at += 1;
        } else {
            at = options.end;
            taken += match_options(&mut list[options], rest);
        }
    }
    taken
}

/// The optional arguments that follow each other from here on.
fn optional_run(list: &[Matched], at: usize) -> Range<usize> {
    let length = list.get(at..).unwrap_or_default().iter().take_while(|one| one.argument.is_optional).count();
    at..at + length
}

fn match_options(options: &mut [Matched], words: &[Vec<u8>]) -> usize {
    let mut taken = 0;
    let mut last = None;
    while taken < words.len() {
        let rest = words.get(taken..).unwrap_or_default();
        let matched = options
            .iter_mut()
            .enumerate()
            .filter(|(_, one)| one.words == 0)
            .find_map(|(at, one)| Some(one.take(rest)).filter(|more| *more > 0).map(|more| (at, more)));
        let Some((at, more)) = matched else { break };
        // The one before cannot be gone on with.
        if let Some(before) = last.replace(at) {
            options[before].is_complete = true;
        }
        taken += more;
    }
    taken
}

fn show_list(list: &mut [Matched], separator: &str, out: &mut String) {
    let count = list.len();
    let mut shown_bytes = out.len();
    let mut separate = |is_last: bool, out: &mut String| {
        if out.len() > shown_bytes && !is_last {
            out.push_str(separator);
            shown_bytes = out.len();
        }
    };
    let mut at = 0;
    while at < count {
        let options = optional_run(list, at);
        if options.is_empty() {
            list[at].show(out);
            separate(at + 1 == count, out);
            at += 1;
            continue;
        }
        let mut begun = None;
        for index in options.clone() {
            if list[index].words > 0 && !list[index].is_complete {
                list[index].show(out);
                separate(at + 1 == count, out);
                begun = Some(index);
            }
        }
        if list.get(options.end).is_none_or(|next| next.words == 0) {
            for index in options.clone().filter(|index| begun != Some(*index)) {
                list[index].show(out);
                separate(index + 1 == count, out);
            }
        }
        at = options.end;
    }
}

fn push_or_quotes(text: &str, out: &mut String) {
    out.push_str(if text.is_empty() { "\"\"" } else { text });
}

/// What C's scanf takes a number from: the beginning of a word is enough.
fn begins_with_integer(word: &[u8]) -> bool {
    unsigned(word).first().is_some_and(u8::is_ascii_digit)
}

fn begins_with_double(word: &[u8]) -> bool {
    let word = unsigned(word);
    let begins = |name: &[u8]| word.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    let digits = word.strip_prefix(b".").unwrap_or(word);
    digits.first().is_some_and(u8::is_ascii_digit) || begins(b"inf") || begins(b"nan")
}

fn unsigned(word: &[u8]) -> &[u8] {
    let word = word.trim_ascii_start();
    word.strip_prefix(b"-").or(word.strip_prefix(b"+")).unwrap_or(word)
}

#[cfg(test)]
mod tests;
