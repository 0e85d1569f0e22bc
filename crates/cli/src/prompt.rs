//! Lines typed at a terminal: editing, history, completion, hints and colours.
//!
//! Invariant: a typed line is sent unchanged; colours and hints only show.

use crate::command_docs::CommandDocs;
use crate::docs::Docs;
use crate::hint::hint;
use crate::history::{History, LINES_MAX};
use crate::line::{Class, completions, goes_on, parts};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hint, Hinter};
use rustyline::history::MemHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use std::borrow::Cow;
use std::io;
use std::sync::Arc;

const GREY: &str = "\x1b[90m";
const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const CYAN: &str = "\x1b[36m";
const PLAIN: &str = "\x1b[0m";

/// Whether colours are wanted.
pub fn has_colors() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The result of a prompt.
pub enum Typed {
    Text(String),
    /// Ctrl-C or Ctrl-D.
    End,
}

/// A terminal's prompt.
pub struct Prompt {
    editor: Editor<Assistant, MemHistory>,
    history: History,
}

impl Prompt {
    /// A prompt that remembers and knows so much.
    pub fn new(history: History, command_docs: Arc<CommandDocs>) -> Result<Prompt, ReadlineError> {
        let config = Config::builder()
            .max_history_size(LINES_MAX)?
            .completion_type(CompletionType::Circular)
            .auto_add_history(false)
            .build();
        let mut editor = Editor::with_history(config.clone(), MemHistory::with_config(&config))?;
        for line in history.lines() {
            editor.add_history_entry(line)?;
        }
        editor.set_helper(Some(Assistant { command_docs, shows_hints: true, prompt_columns: 0 }));
        Ok(Prompt { editor, history })
    }

    /// Shows hints from now on, or does not.
    pub fn show_hints(&mut self, shows: bool) {
        if let Some(assistant) = self.editor.helper_mut() {
            assistant.shows_hints = shows;
        }
    }

    /// Reads typed lines until one is complete.
    pub fn read(&mut self, prompt: &str) -> io::Result<Typed> {
        if let Some(assistant) = self.editor.helper_mut() {
            assistant.prompt_columns = prompt.chars().count();
        }
        match self.editor.readline(prompt) {
            Ok(text) => Ok(Typed::Text(text)),
            Err(ReadlineError::Interrupted | ReadlineError::Eof) => Ok(Typed::End),
            Err(ReadlineError::Io(error)) => Err(error),
            Err(other) => Err(io::Error::other(other.to_string())),
        }
    }

    /// Remembers a line, unless it holds a password.
    pub fn remember(&mut self, line: &str) {
        if self.history.add(line) {
            // A history that is full of memory is no reason to stop.
            let _ = self.editor.add_history_entry(line);
        }
    }
}

/// What helps while a line is typed.
struct Assistant {
    command_docs: Arc<CommandDocs>,
    shows_hints: bool,
    prompt_columns: usize,
}

impl Helper for Assistant {}

/// The rest of a command; nothing that a key could take over.
struct Rest(String);

impl Hint for Rest {
    fn display(&self) -> &str {
        &self.0
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Hinter for Assistant {
    type Hint = Rest;

    fn hint(&self, line: &str, pos: usize, _: &Context<'_>) -> Option<Rest> {
        if !self.shows_hints || pos < line.len() || line.contains('\n') {
            return None;
        }
        let mut shown = hint(&*self.command_docs.now()?, line)?;
        if !line.ends_with(' ') {
            shown.insert(0, ' ');
        }
        let columns = rustix::termios::tcgetwinsize(io::stdout()).map_or(80, |size| size.ws_col);
        let room = usize::from(columns).saturating_sub(self.prompt_columns + line.chars().count() + 1);
        let shown: String = shown.trim_end().chars().take(room).collect();
        (!shown.is_empty()).then_some(Rest(shown))
    }
}

impl Completer for Assistant {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let (Some(docs), Some(typed)) = (self.command_docs.wait(), line.get(..pos)) else {
            return Ok((pos, Vec::new()));
        };
        Ok(completions(&docs, typed))
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext) -> rustyline::Result<ValidationResult> {
        let is_whole = !goes_on(context.input());
        Ok(if is_whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        Cow::Owned(colored(self.command_docs.now().as_deref(), line))
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("{GREY}{hint}{PLAIN}"))
    }

    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        true
    }
}

/// Words that the shell itself understands.
const OWN: &[&str] = &["help", "?", "quit", "exit", "clear", "connect", "restart", ":set"];

/// A line with colours: commands that are known or not, strings, numbers.
fn colored(docs: Option<&Docs>, line: &str) -> String {
    let mut out = String::new();
    let parts = parts(line);
    let words: Vec<&str> =
        parts.iter().filter(|(class, _)| *class != Class::Space).map(|(_, word)| *word).collect();
    // A number first says how often.
    let first = usize::from(words.len() > 1 && matches!(parts.first(), Some((Class::Number, _))));
    let known = words.get(first..).and_then(|words| docs?.find(words));
    let named = known.map_or(1, |entry| entry.words.len());
    let is_own = words.first().is_some_and(|word| OWN.iter().any(|own| word.eq_ignore_ascii_case(own)));
    let mut index = 0;
    for (at, (class, part)) in parts.iter().enumerate() {
        let is_named = (first..first + named).contains(&index) && *class != Class::Space;
        let color = match class {
            Class::Space => "",
            _ if is_named && (known.is_some() || is_own) => GREEN,
            // A word that is still being typed may become one.
            _ if is_named && docs.is_some() && at + 1 < parts.len() => RED,
            Class::Quoted { .. } => YELLOW,
            Class::Number => CYAN,
            Class::Word => "",
        };
        index += usize::from(*class != Class::Space);
        if color.is_empty() {
            out.push_str(part);
        } else {
            out.extend([color, *part, PLAIN]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use martlet_client::resp::Reply;

    fn docs() -> Docs {
        let text = |text: &str| Reply::Bulk(text.into());
        let entry = |name: &str| (text(name), Reply::Map(vec![(text("summary"), text("what it does"))]));
        let subcommands = (text("subcommands"), Reply::Map(vec![entry("config|set")]));
        let config = (text("config"), Reply::Map(vec![subcommands]));
        Docs::read(&Reply::Map(vec![entry("get"), config]))
    }

    #[test]
    fn colors_tell_commands_strings_and_numbers() {
        let docs = docs();
        for (line, expected) in [
            ("get k", "\x1b[32mget\x1b[0m k"),
            ("5 GET 'k'", "\x1b[36m5\x1b[0m \x1b[32mGET\x1b[0m \x1b[33m'k'\x1b[0m"),
            ("config set a 1", "\x1b[32mconfig\x1b[0m \x1b[32mset\x1b[0m a \x1b[36m1\x1b[0m"),
            ("gte k", "\x1b[31mgte\x1b[0m k"),
            ("ge", "ge"),
            ("help get", "\x1b[32mhelp\x1b[0m get"),
            ("", ""),
        ] {
            assert_eq!(colored(Some(&docs), line), expected, "{line}");
        }
        assert_eq!(colored(None, "gte k"), "gte k");
    }

    #[test]
    fn commands_and_subcommands_are_completed() {
        let docs = docs();
        assert_eq!(completions(&docs, "con"), (0, vec!["CONFIG".to_string(), "CONFIG SET".into()]));
        assert_eq!(completions(&docs, "help ge"), (5, vec!["GET".to_string()]));
        assert_eq!(completions(&docs, "nothing x"), (8, vec![]));
    }
}
