//! The periods and timeouts of a Sentinel, which SENTINEL DEBUG shows and changes.
//!
//! Invariant: one table names them; nothing else knows their names.

/// All in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between two INFOs to a primary or a replica.
    pub info_period_ms: i64,
    /// Between two PINGs, unless `down-after-milliseconds` is less.
    pub ping_period_ms: i64,
    /// Between two questions to another Sentinel whether a primary is down.
    pub ask_period_ms: i64,
    /// Between two hello messages.
    pub publish_period_ms: i64,
    /// `down-after-milliseconds` of a primary without its own setting.
    pub default_down_after_ms: i64,
    /// `failover-timeout` of a primary without its own setting.
    pub default_failover_timeout_ms: i64,
    /// Between two ticks, above which the clock is not trusted.
    pub tilt_trigger_ms: i64,
    /// How long it then is not.
    pub tilt_period_ms: i64,
    /// How long a replica may take to show that it follows the promoted one.
    pub reconfigure_timeout_ms: i64,
    /// The least time between two connections over one link that seems dead.
    pub min_reconnect_period_ms: i64,
    /// How long an election may take.
    pub election_timeout_ms: i64,
    /// How long a script may run.
    pub script_max_runtime_ms: i64,
    /// Before a script is run for the second time; doubles with each.
    pub script_retry_delay_ms: i64,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            info_period_ms: 10_000,
            ping_period_ms: 1_000,
            ask_period_ms: 1_000,
            publish_period_ms: 2_000,
            default_down_after_ms: 30_000,
            default_failover_timeout_ms: 180_000,
            tilt_trigger_ms: 2_000,
            tilt_period_ms: 30_000,
            reconfigure_timeout_ms: 10_000,
            min_reconnect_period_ms: 15_000,
            election_timeout_ms: 10_000,
            script_max_runtime_ms: 60_000,
            script_retry_delay_ms: 30_000,
        }
    }
}

/// How far each start of an election and of a failover is moved, at random.
pub const DESYNC_MAX_MS: u64 = 1_000;

impl Timing {
    /// Names and values, in the order of SENTINEL DEBUG.
    pub fn fields(&mut self) -> [(&'static str, &mut i64); 13] {
        [
            ("INFO-PERIOD", &mut self.info_period_ms),
            ("PING-PERIOD", &mut self.ping_period_ms),
            ("ASK-PERIOD", &mut self.ask_period_ms),
            ("PUBLISH-PERIOD", &mut self.publish_period_ms),
            ("DEFAULT-DOWN-AFTER", &mut self.default_down_after_ms),
            ("DEFAULT-FAILOVER-TIMEOUT", &mut self.default_failover_timeout_ms),
            ("TILT-TRIGGER", &mut self.tilt_trigger_ms),
            ("TILT-PERIOD", &mut self.tilt_period_ms),
            ("SLAVE-RECONF-TIMEOUT", &mut self.reconfigure_timeout_ms),
            ("MIN-LINK-RECONNECT-PERIOD", &mut self.min_reconnect_period_ms),
            ("ELECTION-TIMEOUT", &mut self.election_timeout_ms),
            ("SCRIPT-MAX-RUNTIME", &mut self.script_max_runtime_ms),
            ("SCRIPT-RETRY-DELAY", &mut self.script_retry_delay_ms),
        ]
    }

    /// The value of this name, in any case of letters.
    pub fn field(&mut self, name: &[u8]) -> Option<&mut i64> {
        let mut fields = self.fields().into_iter();
        fields.find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes())).map(|(_, value)| value)
    }
}
