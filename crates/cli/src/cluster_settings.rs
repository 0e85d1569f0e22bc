//! What `--cluster-…` options say; the defaults are redis-cli's.

/// How long a MIGRATE may wait for the other node.
const MIGRATE_TIMEOUT_MS: u32 = 60_000;
/// Keys of one MIGRATE.
const MIGRATE_KEYS: u32 = 10;
/// By how many per cent a node may be off before slots are moved.
const THRESHOLD_PERCENT: f32 = 2.0;

/// The options of `--cluster`.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Messages are valkey-cli's, because the program is called by that name.
    pub is_valkey: bool,
    /// `--cluster-yes`: plans are carried out without a question.
    pub is_confirmed: bool,
    /// Replicas of each primary of a cluster that is created.
    pub replicas: usize,
    /// Where slots or keys come from.
    pub from: Option<String>,
    /// Where slots go to.
    pub to: Option<String>,
    /// How many slots move; 0: it is asked for.
    pub slots: usize,
    pub timeout_ms: u32,
    /// Keys of one MIGRATE.
    pub pipeline: u32,
    /// Keys that the target has already are overwritten.
    pub replaces: bool,
    /// `NODE=WEIGHT`
    pub weights: Vec<String>,
    pub uses_empty_primaries: bool,
    /// Only says what would be moved.
    pub simulates: bool,
    pub threshold_percent: f32,
    /// `CLUSTER MIGRATESLOTS` moves slots, where the nodes know it.
    pub is_atomic: bool,
    /// A node that is added becomes a replica.
    pub adds_replica: bool,
    /// Whose replica; without, of the primary that has the fewest.
    pub primary_id: Option<String>,
    /// `call` asks primaries, or replicas, only.
    pub only_primaries: bool,
    pub only_replicas: bool,
    pub searches_multiple_owners: bool,
    pub fixes_with_unreachable_primaries: bool,
    /// Keys that are imported stay at their source, too.
    pub copies: bool,
    /// User to authenticate as at the source of an import.
    pub from_user: Option<Vec<u8>>,
    pub from_password: Option<Vec<u8>>,
    pub asks_from_password: bool,
}

impl Default for ClusterSettings {
    fn default() -> ClusterSettings {
        ClusterSettings {
            is_valkey: false,
            is_confirmed: false,
            replicas: 0,
            from: None,
            to: None,
            slots: 0,
            timeout_ms: MIGRATE_TIMEOUT_MS,
            pipeline: MIGRATE_KEYS,
            replaces: false,
            weights: Vec::new(),
            uses_empty_primaries: false,
            simulates: false,
            threshold_percent: THRESHOLD_PERCENT,
            is_atomic: false,
            adds_replica: false,
            primary_id: None,
            only_primaries: false,
            only_replicas: false,
            searches_multiple_owners: false,
            fixes_with_unreachable_primaries: false,
            copies: false,
            from_user: None,
            from_password: None,
            asks_from_password: false,
        }
    }
}
