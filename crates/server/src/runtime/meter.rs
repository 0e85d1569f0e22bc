//! The measure of commands' costs: limits of the command log and of the latency monitor, the use of slots.
//!
//! Invariant: a cost below all limits takes three comparisons.

use crate::cluster::usage::RequestUse;
use crate::commandlog::LogLimits;
use crate::config::Config;

/// See the [module docs](self).
pub(crate) struct CostMeter {
    /// Limits of the command log.
    limits: LogLimits,
    /// Commands slower than this go to the latency monitor, in nanoseconds.
    latency_ns: u64,
    /// The lower of the limits on a command's time; 0 as well while HOTKEYS counts, or slots' use is counted.
    noted_ns: u64,
    /// Whether commands' times are kept as histograms.
    tracks_latency: bool,
    /// Counters for slots, and the facts of the present request.
    pub(crate) slot_use: RequestUse,
}

impl CostMeter {
    /// One without limits.
    pub fn new() -> CostMeter {
        CostMeter {
            limits: LogLimits::NONE,
            latency_ns: u64::MAX,
            noted_ns: u64::MAX,
            tracks_latency: true,
            slot_use: RequestUse::default(),
        }
    }

    /// Takes up a configuration.
    pub fn configure(&mut self, config: &Config) {
        self.limits = LogLimits::of(config);
        self.latency_ns = match config.latency_monitor_threshold_ms {
            0 => u64::MAX,
            ms => ms.saturating_mul(1_000_000),
        };
        self.slot_use.configure(config);
        self.reset();
        self.tracks_latency = config.latency_tracking;
    }

    /// Notes commands from the configured time on, and no others, unless all are counted for their slots.
    pub fn reset(&mut self) {
        self.noted_ns = match self.slot_use.is_counted() {
            true => 0,
            false => self.latency_ns.min(self.limits.slow_ns),
        };
    }

    /// Notes every command until [`CostMeter::reset`].
    pub fn note_all(&mut self) {
        self.noted_ns = 0;
    }

    /// Whether a command of this time and reply, with a request of at most so many bytes, may be noted.
    #[inline(always)]
    pub fn may_note(&self, ns: u64, reply_bytes: u64, request_bytes: impl FnOnce() -> u64) -> bool {
        ns >= self.noted_ns
            || reply_bytes >= self.limits.reply_bytes
            || request_bytes() >= self.limits.request_bytes
    }

    /// Whether the latency monitor is interested in a command that took so long.
    pub fn is_latency(&self, ns: u64) -> bool {
        ns >= self.latency_ns
    }

    /// Limits of the command log.
    pub fn limits(&self) -> LogLimits {
        self.limits
    }

    /// Whether commands' times are kept as histograms.
    #[inline(always)]
    pub fn tracks_latency(&self) -> bool {
        self.tracks_latency
    }
}
