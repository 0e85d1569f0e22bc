//! Errors, in RediSearch's own words.

use std::borrow::Cow;
use std::fmt;

/// Why a definition, a query or an expression was refused; it has changed nothing. The text is the reply's,
/// without the `-` before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Cow<'static, str>);

impl Error {
    /// The error of this text.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Error(text.into())
    }

    /// The reply's text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
