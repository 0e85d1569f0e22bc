//! What COMMAND INFO tells proxies and cluster clients about a command: where to send it and how replies add
//! up. (Redis' `command_tips`; one line per set of tips, so that what is alike stands together.)

/// Tips, and the commands (by full name) that have exactly these, in this order.
const TIPS: &[(&[&str], &[&str])] = &[
    (
        &["nondeterministic_output"],
        &[
            "client|info",
            "client|list",
            "cluster|info",
            "dump",
            "hpttl",
            "hrandfield",
            "hscan",
            "httl",
            "lastsave",
            "migrate",
            "object|encoding",
            "object|freq",
            "object|idletime",
            "object|refcount",
            "pttl",
            "spop",
            "srandmember",
            "sscan",
            "time",
            "ttl",
            "xadd",
            "xautoclaim",
            "xclaim",
            "xinfo|consumers",
            "xpending",
            "xtrim",
            "zrandmember",
            "zscan",
        ],
    ),
    (
        &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
        &["latency|doctor", "latency|graph", "latency|histogram", "latency|history", "latency|latest"],
    ),
    (
        &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        &["function|stats", "info", "memory|doctor", "memory|malloc-stats", "memory|stats"],
    ),
    (&["nondeterministic_output", "request_policy:special", "response_policy:special"], &["scan"]),
    (
        &["nondeterministic_output_order"],
        &[
            "command",
            "command|docs",
            "command|info",
            "command|list",
            "function|list",
            "hgetall",
            "hkeys",
            "hvals",
            "module|list",
            "sdiff",
            "sinter",
            "smembers",
            "sunion",
        ],
    ),
    (&["request_policy:all_nodes", "nondeterministic_output"], &["slowlog|get"]),
    (&["request_policy:all_nodes", "response_policy:agg_sum"], &["latency|reset"]),
    (&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"], &["slowlog|len"]),
    (
        &["request_policy:all_nodes", "response_policy:all_succeeded"],
        &[
            "acl|deluser",
            "acl|save",
            "acl|setuser",
            "client|setinfo",
            "client|setname",
            "config|resetstat",
            "config|rewrite",
            "config|set",
            "script|flush",
            "script|load",
            "slowlog|reset",
        ],
    ),
    (&["request_policy:all_shards", "nondeterministic_output_order"], &["keys"]),
    (&["request_policy:all_shards", "response_policy:agg_logical_and"], &["script|exists"]),
    (&["request_policy:all_shards", "response_policy:agg_min"], &["wait", "waitaof"]),
    (&["request_policy:all_shards", "response_policy:agg_sum"], &["dbsize"]),
    (
        &["request_policy:all_shards", "response_policy:all_succeeded"],
        &[
            "flushall",
            "flushdb",
            "function|delete",
            "function|flush",
            "function|load",
            "function|restore",
            "memory|purge",
            "ping",
        ],
    ),
    (&["request_policy:all_shards", "response_policy:one_succeeded"], &["function|kill", "script|kill"]),
    (&["request_policy:all_shards", "response_policy:special", "nondeterministic_output"], &["randomkey"]),
    (&["request_policy:multi_shard"], &["mget"]),
    (&["request_policy:multi_shard", "response_policy:agg_sum"], &["del", "exists", "touch", "unlink"]),
    (&["request_policy:multi_shard", "response_policy:all_succeeded"], &["mset"]),
];

/// The tips of a command, by its full name (`config|set`).
pub(super) fn of(full_name: &str) -> &'static [&'static str] {
    TIPS.iter().find(|(_, names)| names.contains(&full_name)).map_or(&[], |(tips, _)| tips)
}

#[cfg(test)]
mod tests {
    use super::{TIPS, of};

    #[test]
    fn a_command_stands_in_one_line() {
        let mut names: Vec<_> = TIPS.iter().flat_map(|(_, names)| names.iter()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(of("mset"), ["request_policy:multi_shard", "response_policy:all_succeeded"]);
        assert!(of("get").is_empty());
    }
}
