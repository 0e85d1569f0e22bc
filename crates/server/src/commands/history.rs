//! How commands have changed since Redis first had them: which version brought what. COMMAND DOCS tells it.
//!
//! Clients read it to see what a server of some version understands, so the versions are Redis' own; only
//! what this server does is listed.

/// A version and what came with it, the earliest first.
pub type Change = (&'static str, &'static str);

const EXPIRE_OPTIONS: &[Change] = &[("7.0.0", "Options `NX`, `XX`, `GT` and `LT`.")];
const FLUSH_MODES: &[Change] = &[("4.0.0", "Modifier `ASYNC`."), ("6.2.0", "Modifier `SYNC`.")];
const FRACTIONS: &[Change] = &[("6.0.0", "`timeout` may have a fraction.")];
const SEVERAL_ELEMENTS_2: &[Change] = &[("2.4.0", "Takes several elements.")];
const SEVERAL_ELEMENTS_4: &[Change] = &[("4.0.0", "Takes several elements.")];
const SEVERAL_MEMBERS: &[Change] = &[("2.4.0", "Takes several members.")];
const POP_COUNT: &[Change] = &[("6.2.0", "Argument `count`.")];
const MISSING_KEY: &[Change] = &[("2.8.0", "Answers -2 when there is no key.")];
const UNITS: &[Change] = &[("7.0.0", "`BYTE` and `BIT` say what the range counts.")];
const ANY: Change = ("6.2.0", "Option `ANY` of `COUNT`.");
const UPPER_CASE_UNITS: Change = ("7.0.0", "Units in upper case, too.");
const EXCLUSIVE_BOUNDS: &[Change] = &[("6.2.0", "Bounds may be exclusive.")];
const WITH_SCORE: &[Change] = &[("7.2.0", "Argument `WITHSCORE`.")];

/// Full names, sorted.
const HISTORY: &[(&str, &[Change])] = &[
    ("auth", &[("6.0.0", "Takes a user's name before the password.")]),
    ("bgsave", &[("3.2.2", "Option `SCHEDULE`.")]),
    ("bitcount", UNITS),
    ("bitpos", UNITS),
    ("blpop", FRACTIONS),
    ("brpop", FRACTIONS),
    ("brpoplpush", FRACTIONS),
    ("bzpopmax", FRACTIONS),
    ("bzpopmin", FRACTIONS),
    (
        "client|kill",
        &[
            ("2.8.12", "Filters, each a name and a value."),
            ("2.8.12", "Filter `ID`."),
            ("3.2.0", "Type `master` of the filter `TYPE`."),
            ("5.0.0", "Type `replica` of the filter `TYPE`, for which `slave` still stands."),
            ("6.2.0", "Filter `LADDR`."),
            ("7.4.0", "Filter `MAXAGE`."),
        ],
    ),
    (
        "client|list",
        &[
            ("2.8.12", "Field `id`, which no other client ever has."),
            ("5.0.0", "Filter `TYPE`."),
            ("6.0.0", "Field `user`."),
            ("6.2.0", "Fields `argv-mem`, `tot-mem`, `laddr` and `redir`, and the filter `ID`."),
            ("7.0.0", "Fields `resp`, `multi-mem`, `rbs` and `rbp`."),
            ("7.0.3", "Field `ssub`."),
            ("7.2.0", "Fields `lib-name` and `lib-ver`."),
            ("7.4.0", "Field `watch`."),
            ("8.0.0", "Field `io-thread`."),
        ],
    ),
    ("client|pause", &[("6.2.0", "Argument `mode`, and with it `WRITE`.")]),
    ("command|info", &[("7.0.0", "Without arguments, tells of all commands.")]),
    ("config|get", &[("7.0.0", "Takes several patterns.")]),
    ("config|set", &[("7.0.0", "Sets several parameters at once.")]),
    ("exists", &[("3.0.3", "Takes several keys.")]),
    ("expire", EXPIRE_OPTIONS),
    ("expireat", EXPIRE_OPTIONS),
    ("flushall", FLUSH_MODES),
    ("flushdb", FLUSH_MODES),
    ("geoadd", &[("6.2.0", "`CH`, `NX` and `XX`.")]),
    ("georadius", &[ANY, UPPER_CASE_UNITS]),
    ("georadius_ro", &[ANY]),
    ("georadiusbymember", &[UPPER_CASE_UNITS]),
    ("geosearch", &[UPPER_CASE_UNITS]),
    ("geosearchstore", &[UPPER_CASE_UNITS]),
    ("hdel", &[("2.4.0", "Takes several fields.")]),
    ("hello", &[("6.2.0", "`protover` may be left out: then only tells of the connection.")]),
    ("hset", &[("4.0.0", "Takes several fields with their values.")]),
    ("info", &[("7.0.0", "Takes several sections.")]),
    ("lpop", POP_COUNT),
    ("lpush", SEVERAL_ELEMENTS_2),
    ("lpushx", SEVERAL_ELEMENTS_4),
    (
        "migrate",
        &[
            ("3.0.0", "`COPY` and `REPLACE`."),
            ("3.0.6", "`KEYS`."),
            ("4.0.7", "`AUTH`."),
            ("6.0.0", "`AUTH2`."),
        ],
    ),
    ("pexpire", EXPIRE_OPTIONS),
    ("pexpireat", EXPIRE_OPTIONS),
    ("pttl", MISSING_KEY),
    ("renamenx", &[("3.2.0", "The same name twice is no error any more.")]),
    (
        "restore",
        &[
            ("3.0.0", "Modifier `REPLACE`."),
            ("5.0.0", "Modifier `ABSTTL`."),
            ("5.0.0", "Options `IDLETIME` and `FREQ`."),
        ],
    ),
    ("rpop", POP_COUNT),
    ("rpush", SEVERAL_ELEMENTS_2),
    ("rpushx", SEVERAL_ELEMENTS_4),
    ("sadd", SEVERAL_MEMBERS),
    ("scan", &[("6.0.0", "Filter `TYPE`.")]),
    (
        "set",
        &[
            ("2.6.12", "Options `EX`, `PX`, `NX` and `XX`."),
            ("6.0.0", "Option `KEEPTTL`."),
            ("6.2.0", "Options `GET`, `EXAT` and `PXAT`."),
            ("7.0.0", "`NX` and `GET` go together."),
        ],
    ),
    ("shutdown", &[("7.0.0", "Modifiers `NOW`, `FORCE` and `ABORT`.")]),
    ("slowlog|get", &[("4.0.0", "Tells the client's address, port and name.")]),
    ("spop", &[("3.2.0", "Argument `count`.")]),
    ("srandmember", &[("2.6.0", "Argument `count`, which may be left out.")]),
    ("srem", SEVERAL_MEMBERS),
    ("ttl", MISSING_KEY),
    (
        "xadd",
        &[("6.2.0", "Options `NOMKSTREAM`, `MINID` and `LIMIT`."), ("7.0.0", "An id of the form `<ms>-*`.")],
    ),
    (
        "xautoclaim",
        &[(
            "7.0.0",
            "A third element, the ids of entries that are gone and were cleared from what is pending.",
        )],
    ),
    ("xgroup|create", &[("7.0.0", "Argument `ENTRIESREAD`.")]),
    ("xgroup|setid", &[("7.0.0", "Argument `ENTRIESREAD`.")]),
    ("xinfo|consumers", &[("7.2.0", "Field `inactive`.")]),
    ("xinfo|groups", &[("7.0.0", "Fields `entries-read` and `lag`.")]),
    (
        "xinfo|stream",
        &[
            ("6.0.0", "Modifier `FULL`."),
            (
                "7.0.0",
                "Fields `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, `entries-read` and `lag`.",
            ),
            ("7.2.0", "Field `active-time`."),
        ],
    ),
    ("xpending", &[("6.2.0", "Option `IDLE`, and exclusive bounds.")]),
    ("xrange", EXCLUSIVE_BOUNDS),
    ("xrevrange", EXCLUSIVE_BOUNDS),
    ("xsetid", &[("7.0.0", "Arguments `ENTRIESADDED` and `MAXDELETEDID`.")]),
    ("xtrim", &[("6.2.0", "Options `MINID` and `LIMIT`.")]),
    (
        "zadd",
        &[
            ("2.4.0", "Takes several members with their scores."),
            ("3.0.2", "Options `XX`, `NX`, `CH` and `INCR`."),
            ("6.2.0", "Options `GT` and `LT`."),
        ],
    ),
    ("zrange", &[("6.2.0", "Options `REV`, `BYSCORE`, `BYLEX` and `LIMIT`.")]),
    ("zrangebyscore", &[("2.0.0", "Modifier `WITHSCORES`.")]),
    ("zrank", WITH_SCORE),
    ("zrem", SEVERAL_MEMBERS),
    ("zrevrangebyscore", &[("2.1.6", "`min` and `max` may be exclusive.")]),
    ("zrevrank", WITH_SCORE),
];

/// The changes of a command; none if it is as it always was.
pub fn of(full_name: &str) -> &'static [Change] {
    HISTORY.binary_search_by_key(&full_name, |(name, _)| name).map_or(&[], |at| HISTORY[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    fn versions(name: &str) -> Vec<&'static str> {
        of(name).iter().map(|(version, _)| *version).collect()
    }

    #[test]
    fn names_are_sorted_and_of_commands() {
        assert!(HISTORY.is_sorted_by(|a, b| a.0 < b.0));
        let registry = Registry::new(&[]).unwrap();
        for (name, changes) in HISTORY {
            let entry = registry.find_full(name.as_bytes()).unwrap_or_else(|| panic!("{name}"));
            assert!(!changes.is_empty());
            let number =
                |version: &str| -> Vec<u32> { version.split('.').map(|n| n.parse().unwrap()).collect() };
            assert!(changes.is_sorted_by_key(|change| number(change.0)), "{name}");
            // 2.1.6 came before the release that the command counts from.
            let is_early = number(changes[0].0) < number(entry.spec.since);
            assert_eq!(is_early, *name == "zrevrangebyscore", "{name}");
        }
    }

    /// As redis-server 7.0.15 and 8.2.3 have them.
    #[test]
    fn versions_are_those_of_redis() {
        assert_eq!(versions("set"), ["2.6.12", "6.0.0", "6.2.0", "7.0.0"]);
        assert_eq!(versions("restore"), ["3.0.0", "5.0.0", "5.0.0"]);
        assert_eq!(versions("client|kill"), ["2.8.12", "2.8.12", "3.2.0", "5.0.0", "6.2.0", "7.4.0"]);
        assert_eq!(versions("zrevrangebyscore"), ["2.1.6"]);
        assert_eq!(versions("zadd"), ["2.4.0", "3.0.2", "6.2.0"]);
        assert!(versions("get").is_empty());
    }
}
