//! The notation in which an entry says what arguments its command takes, for COMMAND DOCS and the hints of a
//! command line, and the tree that it stands for.
//!
//! ```text
//! key:k0            an argument: name and type; a key, with the number of its part of the key spec
//! value             without a type, a string; :i integer :d double :t Unix time :p pattern :x a word by itself
//! seconds:i=EX      behind its word            NX        the word itself, as name too
//! by:p/pattern      shown by another name      x^6.2.0   since a version      x!6.2.0   deprecated since one
//! ?a                optional                   *a        repeated             +a        its word repeated with it
//! name(a b)         a block                    name(a|b) one of several
//! ```

use std::borrow::Cow;

/// What an argument is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    String,
    /// An integer.
    Integer,
    /// A number.
    Double,
    /// A key's name.
    Key,
    /// A glob pattern.
    Pattern,
    /// A Unix time.
    UnixTime,
    /// Nothing but its word.
    PureToken,
    /// One of these.
    OneOf(Vec<Argument>),
    /// All of these.
    Block(Vec<Argument>),
}

impl Kind {
    /// The name that COMMAND DOCS gives.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Double => "double",
            Kind::Key => "key",
            Kind::Pattern => "pattern",
            Kind::UnixTime => "unix-time",
            Kind::PureToken => "pure-token",
            Kind::OneOf(_) => "oneof",
            Kind::Block(_) => "block",
        }
    }

    /// Its parts.
    pub fn arguments(&self) -> Option<&[Argument]> {
        match self {
            Kind::OneOf(arguments) | Kind::Block(arguments) => Some(arguments),
            _ => None,
        }
    }
}

/// An argument, or a group of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its kind.
    pub kind: Kind,
    /// The part of the key spec that it is in.
    pub key_part: Option<usize>,
    /// The name that is shown, where it is another.
    pub display: Option<&'static str>,
    /// The word before it, or that it is.
    pub token: Option<&'static str>,
    /// The version that first had it, where the command is older.
    pub since: Option<&'static str>,
    /// The version that deprecated it.
    pub deprecated_since: Option<&'static str>,
    /// May be left out.
    pub is_optional: bool,
    /// May come several times.
    pub is_multiple: bool,
    /// Its word then comes each time.
    pub is_token_multiple: bool,
}

impl Argument {
    /// The names of its flags.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> + Clone {
        let flags = [
            (self.is_optional, "optional"),
            (self.is_multiple, "multiple"),
            (self.is_token_multiple, "multiple_token"),
        ];
        flags.into_iter().filter(|(is, _)| *is).map(|(_, name)| name)
    }
}

/// The tree that a syntax stands for.
pub(crate) fn parse(syntax: &'static str) -> Vec<Argument> {
    Parser { rest: syntax }.sequence()
}

/// Reads the notation of the module's page. Text that does not fit it ends the sequence; a test reads every
/// entry's.
struct Parser {
    rest: &'static str,
}

impl Parser {
    /// Takes `mark` if it comes next.
    fn take(&mut self, mark: char) -> bool {
        let rest = self.rest.strip_prefix(mark);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Takes everything up to one of `ends`.
    fn until(&mut self, ends: &[char]) -> &'static str {
        let (text, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        text
    }

    /// Takes the text behind `mark`, if that comes next.
    fn after(&mut self, mark: char, ends: &[char]) -> Option<&'static str> {
        self.take(mark).then(|| self.until(ends))
    }

    fn sequence(&mut self) -> Vec<Argument> {
        let mut arguments = Vec::new();
        while !self.rest.is_empty() && !self.rest.starts_with([')', '|']) {
            arguments.push(self.argument());
            if !self.take(' ') {
                break;
            }
        }
        arguments
    }

    fn argument(&mut self) -> Argument {
        const ENDS: &[char] = &['(', ')', '|', ' ', '^', '!'];
        let is_optional = self.take('?');
        let is_multiple = self.take('*');
        let is_token_multiple = self.take('+');
        let name = self.until(&['/', ':', '=', '(', ')', '|', ' ', '^', '!']);
        let kind = self.after(':', &['/', '=', '(', ')', '|', ' ', '^', '!']);
        let display = self.after('/', &['=', '(', ')', '|', ' ', '^', '!']);
        let token = self.after('=', ENDS);
        let is_word = name.starts_with(|c: char| c.is_ascii_uppercase()) && kind.is_none() && token.is_none();
        let token = token.or(is_word.then_some(name));
        let group = self.group();
        let since = self.after('^', ENDS);
        let deprecated_since = self.after('!', ENDS);
        let (kind, key_part) = match kind.and_then(|kind| kind.split_at_checked(1)) {
            Some((kind, part)) => (Some(kind), part.parse().ok()),
            None => (None, None),
        };
        let kind = match (group, kind) {
            (Some(group), _) => group,
            (None, None) if is_word => Kind::PureToken,
            (None, None) => Kind::String,
            (None, Some("i")) => Kind::Integer,
            (None, Some("d")) => Kind::Double,
            (None, Some("t")) => Kind::UnixTime,
            (None, Some("p")) => Kind::Pattern,
            (None, Some("x")) => Kind::PureToken,
            (None, Some(_)) => Kind::Key,
        };
        let name = if is_word { Cow::Owned(name.to_ascii_lowercase()) } else { Cow::Borrowed(name) };
        Argument {
            name,
            kind,
            key_part,
            display,
            token,
            since,
            deprecated_since,
            is_optional,
            is_multiple,
            is_token_multiple,
        }
    }

    /// The text in parentheses, if it comes next.
    fn group(&mut self) -> Option<Kind> {
        if !self.take('(') {
            return None;
        }
        let mut arguments = self.sequence();
        let is_choice = self.rest.starts_with('|');
        while self.take('|') {
            arguments.extend(self.sequence());
        }
        self.take(')');
        Some(if is_choice { Kind::OneOf(arguments) } else { Kind::Block(arguments) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(text: &'static str) -> Argument {
        Parser { rest: text }.argument()
    }

    #[test]
    fn the_parts_of_an_argument() {
        let seconds = argument("seconds:i=EX^2.6.12");
        assert_eq!((&*seconds.name, &seconds.kind), ("seconds", &Kind::Integer));
        assert_eq!((seconds.token, seconds.since), (Some("EX"), Some("2.6.12")));
        let word = argument("?NX");
        assert_eq!((&*word.name, word.token, &word.kind), ("nx", Some("NX"), &Kind::PureToken));
        assert_eq!(word.flags().collect::<Vec<_>>(), ["optional"]);
        let pattern = argument("?*+get-pattern:p/pattern=GET");
        assert_eq!((&*pattern.name, pattern.display), ("get-pattern", Some("pattern")));
        assert_eq!(pattern.flags().collect::<Vec<_>>(), ["optional", "multiple", "multiple_token"]);
        let key = argument("key:k2");
        assert_eq!((key.kind, key.key_part), (Kind::Key, Some(2)));
        let block = argument("*data(field value)");
        assert_eq!(block.kind.name(), "block");
        assert_eq!(block.kind.arguments().map(<[_]>::len), Some(2));
        let choice = argument("operator(equal:x==|approximately:x=~)");
        assert_eq!(choice.kind.name(), "oneof");
        assert_eq!(choice.kind.arguments().unwrap()[1].token, Some("~"));
    }
}
