//! The command log: the last commands that took long, came in a long request or made a long reply.
//!
//! A request pays one comparison for each of the three, on its own thread's copy of the limits.

use std::collections::VecDeque;
use std::sync::Mutex;

use martlet_base::sync::lock;
use martlet_protocol::request::Args;

use crate::config::Config;

/// What a log keeps.
#[derive(Copy, Clone, Debug)]
pub struct LogBounds {
    /// Most entries.
    pub entries: u64,
    /// Most arguments of each, two at least: the last then says how many more there were.
    pub arguments: usize,
    /// Most bytes of each argument.
    pub argument_bytes: usize,
}

impl LogBounds {
    /// Those of a configuration for a log of so many entries.
    pub fn of(config: &Config, entries: u64) -> LogBounds {
        LogBounds {
            entries,
            arguments: config.slowlog_entry_max_argc as usize,
            argument_bytes: usize::try_from(config.slowlog_entry_max_string_bytes).unwrap_or(usize::MAX),
        }
    }
}

/// The kind of a log; its place in [`CommandLog`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// Commands that took long: the slow log. Microseconds.
    Slow,
    /// Long requests. Bytes of the request as an array of bulk strings.
    LargeRequest,
    /// Long replies. Bytes.
    LargeReply,
}

/// From where on a thread's requests enter the logs.
#[derive(Copy, Clone, Debug)]
pub struct LogLimits {
    /// Nanoseconds of a command.
    pub slow_ns: u64,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// Bytes of a reply.
    pub reply_bytes: u64,
}

impl LogLimits {
    /// Nothing is logged.
    pub const NONE: LogLimits =
        LogLimits { slow_ns: u64::MAX, request_bytes: u64::MAX, reply_bytes: u64::MAX };

    /// Those of a configuration.
    pub fn of(config: &Config) -> LogLimits {
        let limit = |value: i64, len: u64| u64::try_from(value).ok().filter(|_| len > 0).unwrap_or(u64::MAX);
        let slow_us = limit(config.slowlog_log_slower_than_us, config.slowlog_max_len);
        LogLimits {
            slow_ns: slow_us.saturating_mul(1000),
            request_bytes: limit(
                config.commandlog_request_larger_than_bytes,
                config.commandlog_large_request_max_len,
            ),
            reply_bytes: limit(
                config.commandlog_reply_larger_than_bytes,
                config.commandlog_large_reply_max_len,
            ),
        }
    }
}

/// A command that was logged.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// Number, growing by one.
    pub id: u64,
    /// When it ended, Unix seconds.
    pub at_s: i64,
    /// How much it was, in the log's unit.
    pub value: u64,
    /// Its arguments, shortened.
    pub args: Vec<Vec<u8>>,
    /// The sender: address and port.
    pub peer: String,
    /// The client's name.
    pub client_name: Vec<u8>,
}

#[derive(Default)]
struct Inner {
    next_id: u64,
    entries: VecDeque<LogEntry>,
}

/// See the [module docs](self).
#[derive(Default)]
pub struct CommandLog([Log; 3]);

impl CommandLog {
    /// The log of this kind.
    pub fn of(&self, kind: LogKind) -> &Log {
        &self.0[kind as usize]
    }
}

/// One of the logs.
#[derive(Default)]
pub struct Log(Mutex<Inner>);

impl Log {
    /// Adds a command and drops the oldest beyond the bound.
    pub fn add(
        &self,
        args: &Args<'_>,
        value: u64,
        at_s: i64,
        peer: String,
        client_name: Vec<u8>,
        bounds: LogBounds,
    ) {
        if bounds.entries == 0 {
            // Not even a number is spent, as since Redis 7.2.
            return;
        }
        let args = shorten(args, bounds);
        let mut inner = lock(&self.0);
        let id = inner.next_id;
        inner.next_id += 1;
        inner.entries.push_front(LogEntry { id, at_s, value, args, peer, client_name });
        inner.entries.truncate(bounds.entries as usize);
    }

    /// The newest `count` entries, newest first; all if `None`.
    pub fn get(&self, count: Option<usize>) -> Vec<LogEntry> {
        let inner = lock(&self.0);
        inner.entries.iter().take(count.unwrap_or(usize::MAX)).cloned().collect()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        lock(&self.0).entries.len()
    }

    /// Removes all entries; numbering continues.
    pub fn reset(&self) {
        lock(&self.0).entries.clear();
    }
}

/// The arguments within the bounds, with notes on omitted parts in Redis' words.
fn shorten(args: &Args<'_>, bounds: LogBounds) -> Vec<Vec<u8>> {
    let LogBounds { arguments, argument_bytes, .. } = bounds;
    let kept = if args.len() > arguments { arguments.saturating_sub(1) } else { args.len() };
    let mut out: Vec<Vec<u8>> = args
        .iter()
        .take(kept)
        .map(|arg| {
            let mut text = arg[..arg.len().min(argument_bytes)].to_vec();
            if arg.len() > argument_bytes {
                text.extend(format!("... ({} more bytes)", arg.len() - argument_bytes).bytes());
            }
            text
        })
        .collect();
    if kept < args.len() {
        out.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use martlet_protocol::request::OwnedArgs;

    #[test]
    fn keeps_the_newest_and_shortens() {
        let log = Log::default();
        let many: Vec<Vec<u8>> = (0..40).map(|_| vec![b'x'; 200]).collect();
        let args = OwnedArgs::from_slices(many.iter().map(Vec::as_slice));
        let bounds = LogBounds::of(&Config::default(), 3);
        for i in 0..5 {
            log.add(&args.view(), i, 0, String::new(), Vec::new(), bounds);
        }
        let entries = log.get(None);
        assert_eq!(entries.iter().map(|e| e.id).collect::<Vec<_>>(), [4, 3, 2]);
        assert_eq!(entries[0].args.len(), 32);
        assert!(entries[0].args[0].ends_with(b"... (72 more bytes)"));
        assert_eq!(entries[0].args[31], b"... (9 more arguments)");
        log.reset();
        log.add(&args.view(), 5, 0, String::new(), Vec::new(), LogBounds { entries: 0, ..bounds });
        assert_eq!(log.len(), 0);
        log.add(&args.view(), 6, 0, String::new(), Vec::new(), bounds);
        assert_eq!(log.get(None).iter().map(|e| e.id).collect::<Vec<_>>(), [5]);
        let config =
            Config { slowlog_entry_max_argc: 2, slowlog_entry_max_string_bytes: 1, ..Config::default() };
        log.add(&args.view(), 7, 0, String::new(), Vec::new(), LogBounds::of(&config, 3));
        let expected = [b"x... (199 more bytes)".to_vec(), b"... (39 more arguments)".to_vec()];
        assert_eq!(log.get(Some(1))[0].args, expected);
    }
}
