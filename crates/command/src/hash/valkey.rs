//! The errors of commands on fields in Valkey 9.1's words.

use martlet_spec::Words;

const COUNT: &str = "ERR numfields should be greater than 0 and match the provided number of fields";
const SYNTAX: &str = "ERR syntax error";
const TIME: &str = "ERR invalid expire time in '{command}' command";

/// Of HEXPIRE and the like.
pub(super) const SETS_TIMES: &[Words] = &[
    Words::new("ERR Parameter `numFields` should be", COUNT),
    Words::new("ERR The `numfields` parameter must match", COUNT),
    Words::new("ERR Mandatory argument FIELDS is missing", COUNT),
    Words::new("ERR invalid expire time, must be >= 0", TIME),
];

/// Of HTTL and the like.
pub(super) const READS_TIMES: &[Words] = &[
    Words::new("ERR Number of fields must be", SYNTAX),
    Words::new("ERR The `numfields` parameter must match", SYNTAX),
    Words::new("ERR Mandatory argument FIELDS is missing", SYNTAX),
];

/// Of HPERSIST, HGETDEL, HGETEX and HSETEX.
pub(super) const NAMES_FIELDS: &[Words] = &[
    Words::new("ERR Number of fields must be", COUNT),
    Words::new("ERR invalid number of fields", COUNT),
    Words::new("ERR The `numfields` parameter must match", COUNT),
    Words::new("ERR wrong number of arguments for 'h", COUNT),
    Words::new("ERR Mandatory argument FIELDS is missing", SYNTAX),
    Words::new("ERR unknown argument: ", SYNTAX),
    Words::new("ERR Only one of ", SYNTAX),
    Words::new("ERR invalid expire time, must be >= 0", TIME),
];
