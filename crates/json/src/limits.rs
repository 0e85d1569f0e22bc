//! The crate's limits.

/// A value with this many levels of containers is refused: serde_json's and ReJSON's limit.
pub const DEPTH_LIMIT: usize = 128;

/// The longest path, in bytes.
pub const PATH_BYTES_MAX: usize = 64 << 10;

/// Brackets and parentheses within each other in one path.
pub const PATH_NESTING_MAX: usize = 64;

/// Filters within each other in one path.
pub const FILTER_NESTING_MAX: usize = 8;

/// Values that one evaluation of a path visits, those of its filters included: some tenths of a second. (Unit
/// tests reach the limit without optimisation, and have a lower one.)
pub const VISITS_MAX: u64 = if cfg!(test) { 1 << 20 } else { 1 << 26 };

/// Places that one evaluation of a path leads to.
pub const RESULTS_MAX: usize = 1 << 24;

/// Bytes of a compiled regular expression.
pub const REGEX_BYTES_MAX: usize = 1 << 20;
