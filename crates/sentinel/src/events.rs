//! The importance of an event: whether it is logged, published, and passed to scripts.

/// As Redis' log levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Logged only.
    Debug,
    /// Published.
    Verbose,
    /// Published.
    Notice,
    /// Published, and passed to the notification script.
    Warning,
    /// More than any event has: nothing is logged.
    Nothing,
}

impl Level {
    const WORDS: [(Level, &'static str); 5] = [
        (Level::Debug, "debug"),
        (Level::Verbose, "verbose"),
        (Level::Notice, "notice"),
        (Level::Warning, "warning"),
        (Level::Nothing, "nothing"),
    ];

    /// As `loglevel` names it.
    pub fn word(self) -> &'static str {
        Level::WORDS[self as usize].1
    }

    /// The level of this name.
    pub fn named(word: &[u8]) -> Option<Level> {
        let mut words = Level::WORDS.into_iter();
        words.find(|(_, known)| word.eq_ignore_ascii_case(known.as_bytes())).map(|(level, _)| level)
    }

    /// The mark before a line of the log.
    pub fn mark(self) -> char {
        match self {
            Level::Debug => '.',
            Level::Verbose => '-',
            Level::Notice => '*',
            Level::Warning | Level::Nothing => '#',
        }
    }
}
