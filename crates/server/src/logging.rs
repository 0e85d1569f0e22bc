//! The server's log: tracing events as lines of Redis' form.
//!
//! Once [`Log::start_thread`] has been called one thread writes all lines: threads log with keys locked, and
//! scripts do.
//!
//! Invariant: a line is written by one call, so lines of several threads never mix; the file is opened for
//! each batch of lines, so it may be rotated at any time. The levels are Redis': `trace` is its debug,
//! `debug` its verbose, `info` its notice, `warn` and `error` its warning.

mod queue;

use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Config, Enumeration, LogFormat, LogLevel, LogTimestampFormat};
use crate::process::{LocalTime, Syslog, guard_thread, local_time};
use queue::{Batch, Entry, Queue};

/// How long the end of the process waits for the log's last lines.
const END_LIMIT: Duration = Duration::from_secs(3);

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Settings that may change while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Style {
    level: LogLevel,
    format: LogFormat,
    timestamp: LogTimestampFormat,
    is_replica: bool,
}

impl Style {
    fn of(config: &Config) -> Self {
        Self {
            level: config.loglevel,
            format: config.log_format,
            timestamp: config.log_timestamp_format,
            is_replica: config.replicaof.0.is_some(),
        }
    }
}

/// The open log.
#[derive(Debug)]
pub struct Log {
    style: RwLock<Style>,
    /// None is standard output.
    file: Option<PathBuf>,
    syslog: Option<Syslog>,
    queue: Queue,
}

impl Log {
    /// Opens the log that a configuration asks for. Nothing is written to it before [`Log::install`].
    pub fn open(config: &Config) -> Arc<Self> {
        let file = (!config.logfile.as_os_str().is_empty()).then(|| config.dir.join(&config.logfile));
        let syslog =
            config.syslog_enabled.then(|| Syslog::open(&config.syslog_ident, config.syslog_facility));
        Arc::new(Self { style: RwLock::new(Style::of(config)), file, syslog, queue: Queue::default() })
    }

    /// Makes this the log of every event from now on; false when the process has one already.
    pub fn install(self: &Arc<Self>) -> bool {
        tracing_subscriber::registry().with(LogLayer(Arc::clone(self))).try_init().is_ok()
    }

    /// Takes up level and format of a changed configuration.
    pub fn follow(&self, config: &Config) {
        let mut style = self.style.write().unwrap_or_else(PoisonError::into_inner);
        // The role is not the configuration's once the server runs.
        *style = Style { is_replica: style.is_replica, ..Style::of(config) };
        drop(style);
        tracing::callsite::rebuild_interest_cache();
    }

    /// Lines show from now on whether the server is a replica.
    pub fn set_replica(&self, is_replica: bool) {
        self.style.write().unwrap_or_else(PoisonError::into_inner).is_replica = is_replica;
    }

    fn style(&self) -> Style {
        *self.style.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a separate thread write from now on.
    ///
    /// # Errors
    /// When the operating system refuses it.
    pub fn start_thread(self: &Arc<Self>) -> std::io::Result<()> {
        let log = Arc::clone(self);
        let body = move || {
            guard_thread();
            while let Some(batch) = log.queue.next() {
                log.write_batch(batch);
            }
        };
        self.queue.begin();
        let started = std::thread::Builder::new().name("log".into()).spawn(body);
        started.map(drop).inspect_err(|_| self.queue.end(Duration::ZERO))
    }

    /// Waits until all lines are written, for some seconds at most: the process is about to end. Later lines
    /// are written by the threads that log them.
    pub fn finish(&self) {
        self.queue.end(END_LIMIT);
    }

    /// Logs text as it is, without a time.
    pub fn raw(&self, text: &str) {
        self.log(Entry { text: text.into(), message: None });
    }

    fn write(&self, level: LogLevel, message: &str) {
        let priority = match level {
            LogLevel::Debug => libc::LOG_DEBUG,
            LogLevel::Verbose => libc::LOG_INFO,
            LogLevel::Notice => libc::LOG_NOTICE,
            LogLevel::Warning | LogLevel::Nothing => libc::LOG_WARNING,
        };
        self.log(Entry {
            text: line(self.style(), level, martlet_base::clock::wall(), message),
            message: self.syslog.as_ref().map(|_| (priority, message.into())),
        });
    }

    fn log(&self, entry: Entry) {
        if let Some(entry) = self.queue.push(entry) {
            self.write_batch(Batch { entries: [entry].into(), dropped: 0 });
        }
    }

    /// Writes lines, and how many are missing behind them.
    fn write_batch(&self, mut batch: Batch) {
        if batch.dropped > 0 {
            let message =
                format!("{} lines are missing here: the log's file did not take them.", batch.dropped);
            let now = martlet_base::clock::wall();
            let text = line(self.style(), LogLevel::Warning, now, &message);
            batch.entries.push_back(Entry { text, message: Some((libc::LOG_WARNING, message)) });
        }
        let write = |out: &mut dyn std::io::Write| {
            batch.entries.iter().try_for_each(|entry| out.write_all(entry.text.as_bytes()))
        };
        // A log that cannot be written is no reason to fail, and there is nowhere to say so.
        let _ = match &self.file {
            None => write(&mut std::io::stdout().lock()),
            Some(path) => (std::fs::OpenOptions::new().append(true).create(true).open(path))
                .and_then(|mut file| write(&mut file)),
        };
        if let Some(syslog) = &self.syslog {
            let messages = batch.entries.iter().filter_map(|entry| entry.message.as_ref());
            messages.for_each(|(priority, text)| syslog.write(*priority, text));
        }
    }
}

/// A line for standard output before a log is open, as Redis writes it there.
pub fn early_line(level: LogLevel, message: &str) -> String {
    line(Style::of(&Config::default()), level, martlet_base::clock::wall(), message)
}

/// Redis' name for an event's level.
fn level_of(level: &Level) -> LogLevel {
    match *level {
        Level::TRACE => LogLevel::Debug,
        Level::DEBUG => LogLevel::Verbose,
        Level::INFO => LogLevel::Notice,
        _ => LogLevel::Warning,
    }
}

/// The events that a level lets through.
fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Debug => LevelFilter::TRACE,
        LogLevel::Verbose => LevelFilter::DEBUG,
        LogLevel::Notice => LevelFilter::INFO,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Nothing => LevelFilter::OFF,
    }
}

/// A whole line with its end.
fn line(style: Style, level: LogLevel, now: SystemTime, message: &str) -> String {
    let pid = std::process::id();
    let time = timestamp(style.timestamp, now, local_time);
    match style.format {
        LogFormat::Legacy => {
            let role = if style.is_replica { 'S' } else { 'M' };
            let mark = match level {
                LogLevel::Debug => '.',
                LogLevel::Verbose => '-',
                LogLevel::Notice => '*',
                LogLevel::Warning | LogLevel::Nothing => '#',
            };
            format!("{pid}:{role} {time} {mark} {message}\n")
        }
        LogFormat::Logfmt | LogFormat::Json => {
            let role = if style.is_replica { "replica" } else { "primary" };
            let level = if level == LogLevel::Verbose { "info" } else { level.word() };
            if style.format == LogFormat::Json {
                let message = serde_json::Value::from(message);
                return format!(
                    "{{\"pid\":{pid},\"role\":\"{role}\",\"timestamp\":\"{time}\",\"level\":\"{level}\",\"message\":{message}}}\n"
                );
            }
            // What would end the quoted text or the line is replaced.
            let message = message.replace('"', "'").replace(char::is_control, " ");
            format!("pid={pid} role={role} timestamp=\"{time}\" level={level} message=\"{message}\"\n")
        }
    }
}

/// A moment's text; `local` gives the local time of seconds since the epoch.
fn timestamp(format: LogTimestampFormat, now: SystemTime, local: impl Fn(i64) -> LocalTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = since.subsec_millis();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let LocalTime { year, month, day, hour, minute, second, offset_seconds } = local(seconds);
    match format {
        LogTimestampFormat::Legacy => {
            let month = MONTHS.get(month as usize - 1).unwrap_or(&"");
            format!("{day:02} {month} {year} {hour:02}:{minute:02}:{second:02}.{millis:03}")
        }
        LogTimestampFormat::Iso8601 => {
            let (sign, offset) = (if offset_seconds < 0 { '-' } else { '+' }, offset_seconds.abs() / 60);
            format!(
                "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}{sign}{:02}:{:02}",
                offset / 60,
                offset % 60
            )
        }
        LogTimestampFormat::Milliseconds => since.as_millis().to_string(),
    }
}

/// Passes events to the log.
struct LogLayer(Arc<Log>);

impl<S: Subscriber> Layer<S> for LogLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= filter(self.0.style().level)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(filter(self.0.style().level))
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut message = Message::default();
        event.record(&mut message);
        self.0.write(level_of(event.metadata().level()), &message.text());
    }
}

/// An event's message, and its fields as `name=value`.
#[derive(Default)]
struct Message {
    message: String,
    fields: String,
}

impl Message {
    fn text(mut self) -> String {
        self.message.push_str(&self.fields);
        self.message
    }
}

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
impl Log {
    /// Has this thread's events come here while it runs `work`.
    pub fn while_logging_here<R>(self: &Arc<Self>, work: impl FnOnce() -> R) -> R {
        let subscriber = tracing_subscriber::registry().with(LogLayer(Arc::clone(self)));
        tracing::subscriber::with_default(subscriber, work)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;
    use std::time::Duration;

    use super::*;

    fn style(format: LogFormat, timestamp: LogTimestampFormat) -> Style {
        Style { level: LogLevel::Notice, format, timestamp, is_replica: false }
    }

    #[test]
    fn times_have_three_forms() {
        let now = UNIX_EPOCH + Duration::from_millis(1_700_000_000_007);
        let local = |offset_seconds| {
            move |_| LocalTime {
                year: 2023,
                month: 11,
                day: 4,
                hour: 9,
                minute: 13,
                second: 20,
                offset_seconds,
            }
        };
        assert_eq!(timestamp(LogTimestampFormat::Legacy, now, local(0)), "04 Nov 2023 09:13:20.007");
        let iso = |offset| timestamp(LogTimestampFormat::Iso8601, now, local(offset));
        assert_eq!(iso(0), "2023-11-04T09:13:20.007+00:00");
        assert_eq!(iso(-12_600), "2023-11-04T09:13:20.007-03:30");
        assert_eq!(timestamp(LogTimestampFormat::Milliseconds, now, local(0)), "1700000000007");
    }

    #[test]
    fn lines_have_three_forms() {
        let now = UNIX_EPOCH + Duration::from_millis(5);
        let pid = std::process::id();
        let legacy = style(LogFormat::Legacy, LogTimestampFormat::Milliseconds);
        assert_eq!(line(legacy, LogLevel::Notice, now, "a \"b\""), format!("{pid}:M 5 * a \"b\"\n"));
        assert_eq!(
            line(Style { is_replica: true, ..legacy }, LogLevel::Warning, now, "a"),
            format!("{pid}:S 5 # a\n")
        );
        let logfmt = style(LogFormat::Logfmt, LogTimestampFormat::Milliseconds);
        assert_eq!(
            line(logfmt, LogLevel::Verbose, now, "a \"b\"\nc"),
            format!("pid={pid} role=primary timestamp=\"5\" level=info message=\"a 'b' c\"\n")
        );
        let json = Style { is_replica: true, ..style(LogFormat::Json, LogTimestampFormat::Milliseconds) };
        assert_eq!(
            line(json, LogLevel::Verbose, now, "a \"b\"\\\n\t\r\u{c}\u{8}\u{1}"),
            format!(
                "{{\"pid\":{pid},\"role\":\"replica\",\"timestamp\":\"5\",\"level\":\"info\",{}}}\n",
                r#""message":"a \"b\"\\\n\t\r\f\b\u0001""#
            )
        );
    }

    #[test]
    fn lines_wait_for_the_file_in_their_order_and_up_to_a_limit() {
        const LINE_BYTES: usize = 64 * 1024;
        let directory = tempfile::tempdir().unwrap();
        let config = Config { logfile: "log".into(), dir: directory.path().into(), ..Config::default() };
        let path = directory.path().join("log");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let log = Log::open(&config);
        log.start_thread().unwrap();
        let count = 2 * martlet_base::limits::LOG_WAITING_MAX_BYTES / LINE_BYTES;
        for number in 0..count {
            log.raw(&format!("{number:0width$}\n", width = LINE_BYTES - 1));
        }
        // A pipe whose reading end is open all the time: no line is written to nobody.
        let pipe = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let mut lines = std::io::BufReader::new(pipe).lines();
        // Numbers in their order; where some are missing, the log says how many.
        let (mut next, mut read) = (0, 0);
        while next < count {
            let line = lines.next().unwrap().unwrap();
            match line.parse::<usize>() {
                Ok(number) => {
                    assert_eq!(number, next);
                    (next, read) = (next + 1, read + 1);
                }
                Err(_) => {
                    let message = line.split(" # ").nth(1).unwrap();
                    let missing =
                        message.strip_suffix(" lines are missing here: the log's file did not take them.");
                    next += missing.unwrap().parse::<usize>().unwrap();
                }
            }
        }
        assert!(next == count && (count / 4..count).contains(&read), "{read} of {count}");
        log.finish();
        // From now on each thread writes for itself.
        std::fs::remove_file(&path).unwrap();
        log.raw("at once\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "at once\n");
    }

    #[test]
    fn the_level_and_the_file_follow_the_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let mut config =
            Config { logfile: "server.log".into(), dir: directory.path().into(), ..Config::default() };
        let path = directory.path().join("server.log");
        let log = Log::open(&config);
        log.while_logging_here(|| {
            let say = || {
                tracing::warn!("warning {}", 1);
                tracing::info!(clients = 3, name = "x", "notice");
                tracing::debug!("verbose");
                tracing::trace!("debug");
            };
            let mut said = |level| {
                config.loglevel = level;
                log.follow(&config);
                say();
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                // The log was rotated away: the next line creates it again.
                let _ = std::fs::remove_file(&path);
                text.lines()
                    .map(|line| line.splitn(7, ' ').nth(6).unwrap_or("").to_string())
                    .collect::<Vec<_>>()
            };
            assert_eq!(said(LogLevel::Warning), ["warning 1"]);
            assert_eq!(said(LogLevel::Notice), ["warning 1", "notice clients=3 name=\"x\""]);
            assert_eq!(said(LogLevel::Debug).len(), 4);
            assert_eq!(said(LogLevel::Verbose).len(), 3);
            assert_eq!(said(LogLevel::Nothing), Vec::<String>::new());
        });
    }
}
