//! Faults of a rule, and reasons to refuse a request, in Redis' words.

use martlet_spec::Error;

/// The fault of one rule.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// No such command, subcommand or category.
    #[error("Unknown command or category name in ACL")]
    Unknown,
    /// It is no rule.
    #[error("Syntax error")]
    Syntax,
    /// A key pattern where all keys are allowed already.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
    )]
    AfterAllKeys,
    /// A channel pattern where all channels are allowed already.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels"
    )]
    AfterAllChannels,
    /// The user does not have the password to be removed.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// It is no SHA-256 in hexadecimal digits.
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
    )]
    BadHash,
    /// An argument of a subcommand.
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgumentOfSubcommand,
    /// There are fewer databases.
    #[error("The provided database ID is out of range")]
    NoSuchDatabase,
    /// No role has the name that a user is to be given.
    #[error("The specified ACL role does not exist")]
    NoSuchRole,
}

/// Why a user's or a role's rules were refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// A rule is wrong: it, its place among the rules once selectors are put together, and why.
    Rule(Vec<u8>, usize, RuleError),
    /// A selector does not end: its first word, and its place.
    Unmatched(Vec<u8>, usize),
}

impl SetError {
    /// ACL SETUSER's reply.
    pub fn reply(&self) -> Error {
        self.text("SETUSER", "acl selector")
    }

    /// ACL SETROLE's reply.
    pub fn role_reply(&self) -> Error {
        self.text("SETROLE", "selector definition")
    }

    fn text(&self, subcommand: &str, selector: &str) -> Error {
        match self {
            SetError::Rule(rule, _, why) => {
                let before = format!("ERR Error in ACL {subcommand} modifier '");
                Error::Bytes([before.as_bytes(), rule, format!("': {why}").as_bytes()].concat())
            }
            SetError::Unmatched(word, _) => {
                Error::quoting(&format!("ERR Unmatched parenthesis in {selector} starting at '"), word, "'.")
            }
        }
    }
}

/// The reason of a refusal. Keys and channels are given by their argument's index.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// Run the command.
    Command,
    /// Access the key.
    Key(usize),
    /// Access the channel.
    Channel(usize),
    /// Use the database: the one that the argument names, or the selected one.
    Database(Option<usize>),
}

impl Denial {
    /// The object in the log and in messages: the argument, or the command.
    pub fn object<'a>(self, command: &'a str, args: &martlet_protocol::request::Args<'a>) -> &'a [u8] {
        match self {
            Denial::Key(index) | Denial::Channel(index) | Denial::Database(Some(index)) => args.at(index),
            Denial::Command | Denial::Database(None) => command.as_bytes(),
        }
    }

    /// The text that follows `NOPERM`.
    pub fn text(self, user: &[u8], command: &str) -> Vec<u8> {
        match self {
            Denial::Command => refusal(user, b"run the '", command.as_bytes(), b"' command"),
            Denial::Key(_) => b"No permissions to access a key".to_vec(),
            Denial::Channel(_) => b"No permissions to access a channel".to_vec(),
            Denial::Database(_) => b"No permissions to access database".to_vec(),
        }
    }

    /// The text of ACL DRYRUN, which names the `object`.
    pub fn verbose(self, user: &[u8], command: &str, object: &[u8]) -> Vec<u8> {
        match self {
            Denial::Command => self.text(user, command),
            Denial::Key(_) => refusal(user, b"access the '", object, b"' key"),
            Denial::Channel(_) => refusal(user, b"access the '", object, b"' channel"),
            Denial::Database(_) => refusal(user, b"access database ", object, b""),
        }
    }

    /// Why EXEC does not run a command that could be queued.
    pub fn at_exec(self) -> &'static str {
        match self {
            Denial::Command => "no permission to execute the command or subcommand",
            Denial::Key(_) => "no permission to touch the specified keys",
            Denial::Channel(_) => {
                "no permission to access one of the channels used as arguments to the command"
            }
            Denial::Database(_) => "no permission to access database",
        }
    }
}

fn refusal(user: &[u8], what: &[u8], object: &[u8], end: &[u8]) -> Vec<u8> {
    [b"User ", user, b" has no permissions to ", what, object, end].concat()
}
