//! A command's further flags in Valkey, and the words of errors there.

use crate::flags::Flags;

/// How a command differs in Valkey.
#[derive(Clone, Copy, Debug)]
pub struct InValkey {
    /// Flags that it has besides those of [`Spec::flags`].
    pub flags: Flags,
    /// Its own errors; the first that fits counts.
    pub words: &'static [Words],
}

impl InValkey {
    /// No difference.
    pub const NONE: InValkey = InValkey { flags: Flags::NONE, words: &[] };
}

/// The words of one error in both products, codes included.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// Redis' text, or the beginning of one.
    redis: &'static str,
    /// Valkey's, with `{command}` for the command's name and `{rest}` for what follows the beginning.
    valkey: &'static str,
}

impl Words {
    /// An error that begins with `redis` is `valkey` there.
    pub const fn new(redis: &'static str, valkey: &'static str) -> Words {
        Words { redis, valkey }
    }

    /// The error in Valkey's words, if it is this one.
    pub fn put(self, text: &[u8], command: &str) -> Option<Vec<u8>> {
        let rest = text.strip_prefix(self.redis.as_bytes())?;
        let text = self.valkey.replace("{command}", command);
        Some(match text.split_once("{rest}") {
            Some((before, after)) => [before.as_bytes(), rest, after.as_bytes()].concat(),
            None => text.into_bytes(),
        })
    }
}
