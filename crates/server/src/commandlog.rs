//! The command log: the last commands that took long, came in a long request or made a long reply.
//!
//! A request pays one comparison for each of the three, on its own thread's copy of the limits.

use std::collections::VecDeque;
use std::sync::Mutex;

use martlet_base::sync::lock;
use martlet_protocol::request::Args;

use crate::config::Config;

/// Most arguments that an entry keeps, and most bytes of each (as Redis).
const ARGUMENTS_MAX: usize = 32;
const ARGUMENT_MAX_BYTES: usize = 128;

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
    /// Adds a command and drops the oldest beyond `max_len`.
    pub fn add(
        &self,
        args: &Args<'_>,
        value: u64,
        at_s: i64,
        peer: String,
        client_name: Vec<u8>,
        max_len: usize,
    ) {
        if max_len == 0 {
            // Not even a number is spent, as since Redis 7.2.
            return;
        }
        let args = shorten(args);
        let mut inner = lock(&self.0);
        let id = inner.next_id;
        inner.next_id += 1;
        inner.entries.push_front(LogEntry { id, at_s, value, args, peer, client_name });
        inner.entries.truncate(max_len);
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

/// At most 32 arguments of at most 128 bytes, with notes on omitted parts in Redis' words.
fn shorten(args: &Args<'_>) -> Vec<Vec<u8>> {
    let kept = if args.len() > ARGUMENTS_MAX { ARGUMENTS_MAX - 1 } else { args.len() };
    let mut out: Vec<Vec<u8>> = args
        .iter()
        .take(kept)
        .map(|arg| {
            let mut text = arg[..arg.len().min(ARGUMENT_MAX_BYTES)].to_vec();
            if arg.len() > ARGUMENT_MAX_BYTES {
                text.extend(format!("... ({} more bytes)", arg.len() - ARGUMENT_MAX_BYTES).bytes());
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
        for i in 0..5 {
            log.add(&args.view(), i, 0, String::new(), Vec::new(), 3);
        }
        let entries = log.get(None);
        assert_eq!(entries.iter().map(|e| e.id).collect::<Vec<_>>(), [4, 3, 2]);
        assert_eq!(entries[0].args.len(), 32);
        assert!(entries[0].args[0].ends_with(b"... (72 more bytes)"));
        assert_eq!(entries[0].args[31], b"... (9 more arguments)");
        log.reset();
        log.add(&args.view(), 5, 0, String::new(), Vec::new(), 0);
        assert_eq!(log.len(), 0);
        log.add(&args.view(), 6, 0, String::new(), Vec::new(), 3);
        assert_eq!(log.get(None).iter().map(|e| e.id).collect::<Vec<_>>(), [5]);
    }
}
