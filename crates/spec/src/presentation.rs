//! As what the server presents itself to clients: Redis, or Valkey to those that come from there
//! (`martlet-presents-as`).
//!
//! Names, versions and the words of errors are here and in the entries of commands ([`Spec::valkey`]); other
//! code asks [`Presentation::is_valkey`] where the two products do different things. What differs was found
//! by running the same requests against Valkey 9.1.2 and Redis 8.2.3.

use crate::entry::Spec;
use crate::error::Error;
use crate::flags::Flags;
use crate::handshake::{REDIS_VERSION, REDIS_VERSION_NUMBER};
use crate::module::{LUA, Module};
use crate::words::Words;

/// The release of Valkey whose replies and fields are there.
pub const VALKEY_VERSION: &str = "9.1.2";
/// [`VALKEY_VERSION`] as a number: a byte for each part.
pub const VALKEY_VERSION_NUMBER: u32 = 0x0009_0102;
/// The version of Redis that Valkey says it is compatible with.
const VALKEY_REDIS_VERSION: &str = "7.2.4";
const VALKEY_REDIS_VERSION_NUMBER: u32 = 0x0007_0204;

/// See the [module docs](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presentation {
    /// Redis.
    #[default]
    Redis,
    /// Valkey.
    Valkey {
        /// `extended-redis-compatibility`: it names itself Redis where clients look.
        names_redis: bool,
    },
}

impl Presentation {
    /// Whether replies are Valkey's.
    #[inline]
    pub fn is_valkey(self) -> bool {
        matches!(self, Presentation::Valkey { .. })
    }

    /// Whether the name in HELLO, LOLWUT and messages is Valkey.
    pub fn names_valkey(self) -> bool {
        matches!(self, Presentation::Valkey { names_redis: false })
    }

    /// `server` of HELLO.
    pub fn server(self) -> &'static str {
        if self.names_valkey() { "valkey" } else { "redis" }
    }

    /// The product's name in texts.
    pub fn title(self) -> &'static str {
        if self.names_valkey() { "Valkey" } else { "Redis" }
    }

    /// The version that belongs to [`Presentation::server`].
    pub fn version(self) -> &'static str {
        if self.names_valkey() { VALKEY_VERSION } else { self.redis_version() }
    }

    /// `redis_version` of INFO.
    pub fn redis_version(self) -> &'static str {
        if self.is_valkey() { VALKEY_REDIS_VERSION } else { REDIS_VERSION }
    }

    /// [`Presentation::redis_version`] as a number.
    pub fn redis_version_number(self) -> u32 {
        if self.is_valkey() { VALKEY_REDIS_VERSION_NUMBER } else { REDIS_VERSION_NUMBER }
    }

    /// The module that MODULE LIST has besides those of commands.
    pub fn module(self) -> Option<&'static Module> {
        self.is_valkey().then_some(&LUA)
    }

    /// A command's flags.
    pub fn flags(self, spec: &Spec) -> Flags {
        if self.is_valkey() { spec.flags | spec.valkey.flags } else { spec.flags }
    }

    /// The bytes of an error that a command answers.
    pub fn error_text(self, spec: Option<&Spec>, error: &Error) -> Vec<u8> {
        let text = error.to_bytes();
        if !self.is_valkey() {
            return text;
        }
        let own = spec.map_or(&[][..], |spec| spec.valkey.words);
        let words = own.iter().chain(WORDS).chain(if self.names_valkey() { NAMES } else { &[] });
        let command = spec.map_or("", |spec| spec.full_name);
        words.copied().find_map(|words| words.put(&text, command)).unwrap_or(text)
    }
}

/// Errors of more than one command.
const WORDS: &[Words] = &[
    Words::new("ERR Unexpected engine in script shebang: #!", "ERR Could not find scripting engine '{rest}'"),
    Words::new("NOSCRIPT No matching script.", "NOSCRIPT No matching script."),
    Words::new(
        "ERR This Redis instance is not configured to use an ACL file.",
        "ERR This instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a configuration file set) in order to store users in the configuration.",
    ),
    Words::new(
        "ERR exactly one of BYRADIUS and BYBOX can",
        "ERR exactly one of BYRADIUS, BYBOX and BYPOLYGON can{rest}",
    ),
    Words::new(
        "ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or",
        "ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified.",
    ),
    Words::new("ERR Unknown Redis command called from script", "ERR Unknown command called from script"),
    Words::new(
        "ERR Wrong number of args calling Redis command from script",
        "ERR Wrong number of args calling command from script",
    ),
];

/// Errors that name the product.
const NAMES: &[Words] = &[
    Words::new("ERR This Redis command is not allowed", "ERR This Valkey command is not allowed{rest}"),
    Words::new("LOADING Redis ", "LOADING Valkey {rest}"),
    Words::new("BUSY Redis ", "BUSY Valkey {rest}"),
    Words::new(
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands",
        "MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Valkey logs for details about the RDB error.",
    ),
    Words::new("MISCONF Redis ", "MISCONF Valkey {rest}"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::command;

    const VALKEY: Presentation = Presentation::Valkey { names_redis: false };
    const COMPATIBLE: Presentation = Presentation::Valkey { names_redis: true };

    #[test]
    fn names_and_versions_belong_together() {
        assert_eq!((Presentation::Redis.server(), Presentation::Redis.version()), ("redis", REDIS_VERSION));
        assert_eq!((VALKEY.server(), VALKEY.version(), VALKEY.redis_version()), ("valkey", "9.1.2", "7.2.4"));
        assert_eq!((COMPATIBLE.server(), COMPATIBLE.version()), ("redis", "7.2.4"));
        assert!(COMPATIBLE.is_valkey() && !COMPATIBLE.names_valkey());
    }

    #[test]
    fn errors_are_in_the_words_of_the_product() {
        const OWN: &[Words] =
            &[Words::new("ERR bad part", "ERR wrong {command}"), Words::new("ERR odd", "ERR strange{rest}")];
        let entry = command("one", 1, ()).in_valkey(Flags::NO_MULTI, OWN);
        let says = |as_what: Presentation, text: &'static str| {
            String::from_utf8_lossy(&as_what.error_text(Some(&entry.spec), &Error::Fixed(text))).into_owned()
        };
        for (text, valkey, compatible) in [
            ("ERR bad part: x", "ERR wrong one", "ERR wrong one"),
            ("ERR odd: x", "ERR strange: x", "ERR strange: x"),
            ("ERR other", "ERR other", "ERR other"),
            ("BUSY Redis is", "BUSY Valkey is", "BUSY Redis is"),
            (
                "NOSCRIPT No matching script. Please use EVAL.",
                "NOSCRIPT No matching script.",
                "NOSCRIPT No matching script.",
            ),
        ] {
            assert_eq!(says(Presentation::Redis, text), text);
            assert_eq!(says(VALKEY, text), valkey);
            assert_eq!(says(COMPATIBLE, text), compatible);
        }
        assert!(VALKEY.flags(&entry.spec).has(Flags::NO_MULTI));
        assert!(!Presentation::Redis.flags(&entry.spec).has(Flags::NO_MULTI));
    }
}
