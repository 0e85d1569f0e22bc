//! One shard: the table from key to value, expiry index; single-threaded by type.
