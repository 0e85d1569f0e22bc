//! Parameters that take one word of a fixed list.
//!
//! The order of the words is Redis', since its error text lists them.

use super::value::{Kind, Lines, Value};

/// A value that is one of a list of words.
pub trait Enumeration: Copy + PartialEq + 'static {
    /// The words and their values; a value's own word is its first one.
    const WORDS: &'static [(&'static str, Self)];

    /// The value's own word.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, value)| *value == self).map_or("unknown", |(word, _)| word)
    }

    /// The value of a word; letter case does not matter.
    fn from_word(text: &[u8]) -> Option<Self> {
        Self::WORDS
            .iter()
            .find(|(word, _)| word.as_bytes().eq_ignore_ascii_case(text))
            .map(|(_, value)| *value)
    }
}

/// The error for a word that is not in `words`.
pub(super) fn unknown_word(words: impl Iterator<Item = &'static str>) -> String {
    format!("argument(s) must be one of the following: {}", words.collect::<Vec<_>>().join(", "))
}

macro_rules! enumerations {
    ($($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $variant_doc:literal])+ $variant:ident = $($word:literal)|+,)+ })+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[doc = $variant_doc])+ $variant,)+
        }

        impl Enumeration for $name {
            const WORDS: &'static [(&'static str, Self)] = &[$($(($word, Self::$variant),)+)+];
        }

        impl $name {
            /// How the table describes it.
            pub(super) const KIND: Kind = Kind::OneOf(&[$($($word,)+)+]);
        }

        impl Value for $name {
            fn parse(words: &[&[u8]], _: &Self, _: bool, _: &Kind) -> Result<Self, String> {
                match words {
                    [word] => Self::from_word(word),
                    _ => None,
                }
                .ok_or_else(|| unknown_word(Self::WORDS.iter().map(|(word, _)| *word)))
            }

            fn render(&self, _: &Kind) -> Vec<u8> {
                self.word().into()
            }

            fn lines(&self, default: &Self, _: &Kind) -> Lines {
                Lines::one(self.word().into(), self != default)
            }
        }
    )+};
}

enumerations! {
    /// What becomes of a sample whose timestamp is taken.
    SeriesDuplicates {
        /// It is an error.
        Block = "block",
        /// The new value replaces the old one.
        Last = "last",
        /// The old value stays.
        First = "first",
        /// The smaller value.
        Min = "min",
        /// The greater value.
        Max = "max",
        /// The sum of both.
        Sum = "sum",
    }

    /// What becomes of a search that takes too long.
    OnTimeout {
        /// Its results so far.
        Return = "return",
        /// An error.
        Fail = "fail",
    }

    /// How documents are scored.
    DefaultScorer {
        /// By BM25.
        Bm25Std = "BM25STD",
        /// By BM25, between 0 and 1.
        Bm25StdTanh = "BM25STD.TANH",
        /// By BM25, as a part of the best score.
        Bm25StdNorm = "BM25STD.NORM",
        /// By the older BM25.
        Bm25 = "BM25",
        /// By the frequencies of terms.
        TfIdf = "TFIDF",
        /// By the frequencies of terms and the length.
        TfIdfDocNorm = "TFIDF.DOCNORM",
        /// By the greatest of the frequencies.
        DisMax = "DISMAX",
        /// By the document's own score.
        DocScore = "DOCSCORE",
        /// By the payloads.
        Hamming = "HAMMING",
    }

    /// How time series save samples.
    SeriesEncoding {
        /// As a stream of bits.
        Compressed = "compressed",
        /// 16 bytes each.
        Uncompressed = "uncompressed",
    }

    /// How much is logged: a level includes those after it.
    LogLevel {
        /// Everything.
        Debug = "debug",
        /// Connections and periodic statistics.
        Verbose = "verbose",
        /// What an operator wants to see in production.
        Notice = "notice",
        /// Only errors.
        Warning = "warning",
        /// Nothing at all.
        Nothing = "nothing",
    }
    /// The form of a log line.
    LogFormat {
        /// Redis' own.
        Legacy = "legacy",
        /// Structured `key=value` pairs.
        Logfmt = "logfmt",
        /// An object for each line, as Valkey 9 writes it.
        Json = "json",
    }
    /// A node's reaction to a file of the cluster that cannot be written.
    ClusterConfigSaveBehavior {
        /// It ends.
        Sync = "sync",
        /// It logs the error, and continues.
        BestEffort = "best-effort",
    }
    /// The form of a log line's time.
    LogTimestampFormat {
        /// `01 Jan 2026 00:00:00.000`
        Legacy = "legacy",
        /// `2026-01-01T00:00:00.000+00:00`
        Iso8601 = "iso8601",
        /// Milliseconds since the epoch.
        Milliseconds = "milliseconds",
    }
    /// The facility that messages to syslog carry.
    SyslogFacility {
        /// LOG_USER
        User = "user",
        /// LOG_LOCAL0
        Local0 = "local0",
        /// LOG_LOCAL1
        Local1 = "local1",
        /// LOG_LOCAL2
        Local2 = "local2",
        /// LOG_LOCAL3
        Local3 = "local3",
        /// LOG_LOCAL4
        Local4 = "local4",
        /// LOG_LOCAL5
        Local5 = "local5",
        /// LOG_LOCAL6
        Local6 = "local6",
        /// LOG_LOCAL7
        Local7 = "local7",
    }
    /// The supervisor of the process.
    Supervised {
        /// upstart: stops itself once ready.
        Upstart = "upstart",
        /// systemd: notified over `NOTIFY_SOCKET`.
        Systemd = "systemd",
        /// Found out from the environment.
        Auto = "auto",
        /// No supervisor.
        No = "no",
    }
    /// What gives room when `maxmemory` is reached.
    MaxmemoryPolicy {
        /// Keys with an expiry, least recently used first.
        VolatileLru = "volatile-lru",
        /// Keys with an expiry, least frequently used first.
        VolatileLfu = "volatile-lfu",
        /// Keys with an expiry, at random.
        VolatileRandom = "volatile-random",
        /// Keys with an expiry, the soonest first.
        VolatileTtl = "volatile-ttl",
        /// Keys with an expiry, least recently modified first.
        VolatileLrm = "volatile-lrm",
        /// Any key, least recently used first.
        AllkeysLru = "allkeys-lru",
        /// Any key, least frequently used first.
        AllkeysLfu = "allkeys-lfu",
        /// Any key, at random.
        AllkeysRandom = "allkeys-random",
        /// Any key, least recently modified first.
        AllkeysLrm = "allkeys-lrm",
        /// Nothing: writes are refused.
        Noeviction = "noeviction",
        /// Keys with an expiry, least recently and frequently used first.
        VolatileLrfu = "volatile-lrfu",
        /// Any key, least recently and frequently used first.
        AllkeysLrfu = "allkeys-lrfu",
    }
    /// When the append-only file is forced to disk.
    AppendFsync {
        /// Once a second.
        Everysec = "everysec",
        /// Before a write is answered.
        Always = "always",
        /// When the kernel likes.
        No = "no",
    }
    /// How a replica loads a full sync that comes over the socket.
    ReplDisklessLoad {
        /// Through a file.
        Disabled = "disabled",
        /// Directly when the data set is empty.
        OnEmptyDb = "on-empty-db",
        /// Beside the old data set.
        Swapdb = "swapdb",
        /// After emptying the data set.
        FlushBeforeLoad = "flush-before-load",
    }
    /// Whether TLS clients must show a certificate.
    TlsAuthClients {
        /// Never asked.
        No = "no",
        /// Required.
        Yes = "yes",
        /// Verified when shown.
        Optional = "optional",
    }
    /// What in a TLS client's certificate names its user.
    TlsAuthClientsUser {
        /// Nothing: clients authenticate themselves.
        Off = "off",
        /// The subject's common name.
        CommonName = "CN",
        /// A URI among the subject's alternative names.
        Uri = "URI",
    }
    /// Whether the kernel's OOM score is adjusted.
    OomScoreAdj {
        /// Left alone.
        No = "no",
        /// The values are added to the score at start.
        Relative = "yes" | "relative",
        /// The values are the score.
        Absolute = "absolute",
    }
    /// The channels of a new ACL user.
    AclPubsubDefault {
        /// All of them.
        Allchannels = "allchannels",
        /// None.
        Resetchannels = "resetchannels",
    }
    /// When RESTORE's payloads are checked in depth.
    SanitizeDumpPayload {
        /// Never.
        No = "no",
        /// Always.
        Yes = "yes",
        /// For clients, not for a replication stream.
        Clients = "clients",
    }
    /// Which clients may do something that is forbidden by default.
    ProtectedAction {
        /// No client.
        No = "no",
        /// Every client.
        Yes = "yes",
        /// Clients of this machine.
        Local = "local",
    }
    /// The address that cluster redirections name.
    ClusterPreferredEndpointType {
        /// The IP address.
        Ip = "ip",
        /// The announced host name.
        Hostname = "hostname",
        /// None: the client keeps its own.
        UnknownEndpoint = "unknown-endpoint",
    }
    /// What happens when a replicated or loaded command fails.
    PropagationErrorBehavior {
        /// It is logged.
        Ignore = "ignore",
        /// The server stops.
        Panic = "panic",
        /// A replica stops.
        PanicOnReplicas = "panic-on-replicas",
    }
    /// How RDB files are compressed.
    RdbCompression {
        /// They are not.
        No = "no",
        /// Each long string by itself.
        Yes = "yes",
        /// As a whole, in Valkey 9.2.
        Lz4 = "lz4",
        /// The same.
        Zstd = "zstd",
    }
    /// How Valkey 9.2 makes a background save.
    SaveMethod {
        /// A child process writes it.
        Fork = "fork",
        /// A thread does.
        Forkless = "forkless",
    }
    /// How strictly the version in an RDB file is checked.
    RdbVersionCheck {
        /// A version from the future is refused.
        Strict = "strict",
        /// It is read as far as possible.
        Relaxed = "relaxed",
    }
    /// The product as which the server presents itself.
    PresentsAs {
        /// Redis.
        Redis = "redis",
        /// Valkey.
        Valkey = "valkey",
    }
    /// The version of the RDB format that is written.
    RdbVersion {
        /// The lowest that holds the data, from Redis 7.0's on.
        Lowest = "lowest",
        /// Redis 2.6's.
        V6 = "6",
        /// Redis 3.2's.
        V7 = "7",
        /// Redis 4.0's.
        V8 = "8",
        /// Redis 5.0's.
        V9 = "9",
        /// Redis 7.0's.
        V10 = "10",
        /// Redis 7.2's and Valkey 8's.
        V11 = "11",
        /// Redis 7.4's.
        V12 = "12",
        /// Redis 8.6's.
        V13 = "13",
        /// Redis 8.8's.
        V14 = "14",
        /// Redis 8.10's.
        V15 = "15",
        /// Between Redis 8.10 and 8.12.
        V16 = "16",
        /// Redis 8.12's.
        V17 = "17",
        /// Valkey 9.0's.
        Valkey80 = "80",
        /// Valkey 9.2's.
        Valkey81 = "81",
    }
    /// How the I/O threads talk to the kernel.
    IoBackend {
        /// io_uring where the kernel allows it, else epoll.
        Auto = "auto",
        /// io_uring, or the start fails.
        Uring = "uring",
        /// epoll.
        Epoll = "epoll",
    }
}

/// How a signal shuts the server down: a set of words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownFlags {
    /// Save although no save point is configured.
    pub save: bool,
    /// Do not save although save points are configured.
    pub nosave: bool,
    /// Do not wait for lagging replicas.
    pub now: bool,
    /// Ignore errors that would keep the server from exiting.
    pub force: bool,
}

impl ShutdownFlags {
    const WORDS: [&'static str; 5] = ["default", "save", "nosave", "now", "force"];
    pub(super) const KIND: Kind = Kind::AnyOf(&Self::WORDS);

    fn text(self) -> String {
        let set = [self.save, self.nosave, self.now, self.force];
        let words: Vec<_> =
            Self::WORDS[1..].iter().zip(set).filter(|(_, set)| *set).map(|(word, _)| *word).collect();
        if words.is_empty() { Self::WORDS[0].into() } else { words.join(" ") }
    }
}

impl Value for ShutdownFlags {
    fn parse(words: &[&[u8]], _: &Self, _: bool, _: &Kind) -> Result<Self, String> {
        let mut flags = Self::default();
        for word in words {
            let known = Self::WORDS.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(word));
            match known {
                Some(0) => {}
                Some(1) => flags.save = true,
                Some(2) => flags.nosave = true,
                Some(3) => flags.now = true,
                Some(4) => flags.force = true,
                _ => return Err(unknown_word(Self::WORDS.into_iter())),
            }
        }
        if words.is_empty() {
            return Err(unknown_word(Self::WORDS.into_iter()));
        }
        if flags.save && flags.nosave {
            return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
        }
        Ok(flags)
    }

    fn render(&self, _: &Kind) -> Vec<u8> {
        self.text().into()
    }

    fn lines(&self, default: &Self, _: &Kind) -> Lines {
        Lines::one(self.text().into(), self != default)
    }
}

impl RdbVersion {
    /// The version asked for, if one is.
    pub fn number(self) -> Option<u16> {
        match self {
            RdbVersion::Lowest => None,
            RdbVersion::V6 => Some(6),
            RdbVersion::V7 => Some(7),
            RdbVersion::V8 => Some(8),
            RdbVersion::V9 => Some(9),
            RdbVersion::V10 => Some(10),
            RdbVersion::V11 => Some(11),
            RdbVersion::V12 => Some(12),
            RdbVersion::V13 => Some(13),
            RdbVersion::V14 => Some(14),
            RdbVersion::V15 => Some(15),
            RdbVersion::V16 => Some(16),
            RdbVersion::V17 => Some(17),
            RdbVersion::Valkey80 => Some(80),
            RdbVersion::Valkey81 => Some(81),
        }
    }
}

impl RdbCompression {
    /// Whether strings are compressed, unless a whole file is.
    pub fn is_on(self) -> bool {
        self != RdbCompression::No
    }
}
