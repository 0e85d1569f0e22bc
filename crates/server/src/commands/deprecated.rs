//! Commands that new clients should not use: since when, and what took their place. COMMAND DOCS tells it.

/// Full names, sorted; the version; what to use.
const DEPRECATED: &[(&str, &str, &str)] = &[
    ("brpoplpush", "6.2.0", "`BLMOVE` with `RIGHT` and `LEFT`"),
    ("cluster|slaves", "5.0.0", "`CLUSTER REPLICAS`"),
    ("cluster|slots", "7.0.0", "`CLUSTER SHARDS`"),
    ("georadius", "6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with `BYRADIUS`"),
    ("georadius_ro", "6.2.0", "`GEOSEARCH` with `BYRADIUS`"),
    ("georadiusbymember", "6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with `BYRADIUS` and `FROMMEMBER`"),
    ("georadiusbymember_ro", "6.2.0", "`GEOSEARCH` with `BYRADIUS` and `FROMMEMBER`"),
    ("getset", "6.2.0", "`SET` with `GET`"),
    ("hmset", "4.0.0", "`HSET` with several pairs"),
    ("psetex", "2.6.12", "`SET` with `PX`"),
    ("quit", "7.2.0", "closing the connection"),
    ("rpoplpush", "6.2.0", "`LMOVE` with `RIGHT` and `LEFT`"),
    ("setex", "2.6.12", "`SET` with `EX`"),
    ("setnx", "2.6.12", "`SET` with `NX`"),
    ("slaveof", "5.0.0", "`REPLICAOF`"),
    ("substr", "2.0.0", "`GETRANGE`"),
    ("zrangebylex", "6.2.0", "`ZRANGE` with `BYLEX`"),
    ("zrangebyscore", "6.2.0", "`ZRANGE` with `BYSCORE`"),
    ("zrevrange", "6.2.0", "`ZRANGE` with `REV`"),
    ("zrevrangebylex", "6.2.0", "`ZRANGE` with `REV` and `BYLEX`"),
    ("zrevrangebyscore", "6.2.0", "`ZRANGE` with `REV` and `BYSCORE`"),
];

/// The version that deprecated the command, and what to use.
pub fn of(full_name: &str) -> Option<(&'static str, &'static str)> {
    let at = DEPRECATED.binary_search_by_key(&full_name, |(name, _, _)| name).ok()?;
    let (_, since, replacement) = DEPRECATED[at];
    Some((since, replacement))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        assert!(DEPRECATED.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(of("hmset").unwrap().0, "4.0.0");
        assert!(of("hset").is_none());
    }
}
