//! Keys of all types, walks over 100,000 of them, payloads of DUMP and RESTORE, files.

use super::{Before, Group, Kind, PLAIN, Row, first, of, row};

const KEYS: Before = first(10_000, "SET k{count 10000} {value 16}");

/// Keys of few bytes.
pub const SMALL: Group = Group {
    name: "keys",
    fill: &[KEYS, first(1, "SET r {value 16}"), first(100, "RPUSH big 1000*({value 16})")],
    rows: &[
        row("EXPIRE x 10000", 10_000, "EXPIRE k{count 10000} 1000"),
        row("EXPIREAT", 10_000, "EXPIREAT k{count 10000} 4000000000"),
        row("PEXPIRE", 10_000, "PEXPIRE k{count 10000} 1000000"),
        row("PEXPIREAT", 10_000, "PEXPIREAT k{count 10000} 4000000000000"),
        row("TTL x 10000", 10_000, "TTL k{count 10000}"),
        row("PTTL", 10_000, "PTTL k{count 10000}"),
        row("EXPIRETIME", 10_000, "EXPIRETIME k{count 10000}"),
        row("PEXPIRETIME", 10_000, "PEXPIRETIME k{count 10000}"),
        row("PERSIST x 10000", 10_000, "PERSIST k{count 10000}")
            .before(&[first(10_000, "EXPIRE k{count 10000} 1000")]),
        row("expire 10000 at once", 1, "PING")
            .before(&[first(10_000, "SET e{count 10000} v PX 120")])
            .per(10_000)
            .idle(500),
        row("TYPE", 10_000, "TYPE k{count 10000}"),
        row("RENAME small", 10_000, "RENAME r s ; RENAME s r"),
        row("RENAMENX", 10_000, "RENAMENX r s ; RENAMENX s r"),
        row("RENAME big", 2_000, "RENAME big b2 ; RENAME b2 big"),
        row("COPY small", 10_000, "COPY r t REPLACE"),
        row("MOVE", 10_000, "MOVE r 1 ; SELECT 1 ; MOVE r 0 ; SELECT 0"),
        row("DUMP small", 5_000, "DUMP r"),
        row("RESTORE small", 5_000, "RESTORE copy").by(Kind::Restore("r")),
        of(5_000, "OBJECT ENCODING r"),
        of(5_000, "OBJECT REFCOUNT r"),
        of(5_000, "OBJECT IDLETIME r"),
        row("OBJECT FREQ err", 5_000, "OBJECT FREQ r").fails(),
        row("MEMORY USAGE", 5_000, "MEMORY USAGE r"),
        row("MEMORY USAGE list", 5_000, "MEMORY USAGE big"),
        row("DEBUG OBJECT", 2_000, "DEBUG OBJECT r"),
        row("WRONGTYPE error", 5_000, "GET big").fails(),
        row("unknown command", 5_000, "NOSUCHCOMMAND a").fails(),
    ],
    ..PLAIN
};

/// 100,000 strings and an empty database beside them.
pub const KEYSPACE: Group = Group {
    name: "keyspace",
    fill: &[first(100_000, "SET key:{count 100000} {value 16}"), first(100, "SADD set:{count 100} a b c")],
    rows: &[
        of(2_000, "DBSIZE"),
        of(2_000, "RANDOMKEY"),
        row("KEYS * 100k", 1, "KEYS *"),
        row("KEYS key:1*5", 2, "KEYS key:1*5"),
        row("SCAN COUNT 10", 2_000, "SCAN 0 COUNT 10"),
        row("SCAN COUNT 1000", 50, "SCAN 0 COUNT 1000"),
        row("SCAN MATCH COUNT 1000", 50, "SCAN 0 MATCH nothing* COUNT 1000"),
        row("SCAN TYPE COUNT 1000", 50, "SCAN 0 TYPE set COUNT 1000"),
        row("DEBUG DIGEST 100k", 1, "DEBUG DIGEST"),
        row("SWAPDB", 500, "SWAPDB 0 1"),
        row("FLUSHDB empty", 200, "SELECT 5 ; FLUSHDB ; SELECT 0").note(GATE),
        row("FLUSHALL 100k", 1, "FLUSHALL")
            .before(&[first(100_000, "SET key:{count 100000} {value 16}")])
            .idle(100),
    ],
    ..PLAIN
};

const GATE: &str = "it closes the gate: all 1,024 shards of the database are exchanged at one moment";

/// Collections of 1,000,000 and of 10,000.
pub const PAYLOADS: Group = Group {
    name: "payloads",
    fill: &[
        first(1_000, "RPUSH l 1000*({value 8})"),
        first(1_000, "RPUSH li 1000*({rand 1000000})"),
        first(100, "RPUSH l64 1000*({value 65})"),
        first(1_000, "SADD s 1000*({value 8})"),
        first(1_000, "SADD si 1000*({rand 1000000000})"),
        first(1_000, "HSET h 1000*({value 8} {value 8})"),
        first(1_000, "ZADD z 1000*({rand 1000000} {value 8})"),
        first(1, "SET str {value 350000}{value 350000}{value 348576}"),
        first(1, "SETRANGE strr 10485759 x"),
        first(1, "HSET sh 10*(f# {value 8})"),
        first(1, "RPUSH sl 10*({value 8})"),
        first(1, "SADD ss 10*({value 8})"),
        first(1, "SADD sn 10*({rand 100000})"),
        first(1, "ZADD sz 10*({rand 1000} {value 8})"),
        first(1_000, "XADD sx {count 10000}-1 f {value 8}"),
    ],
    rows: PAYLOAD_ROWS,
    ..PLAIN
};

const PAYLOAD_ROWS: &[Row] = &[
    row("DUMP l", 1, "DUMP l"),
    row("DUMP li", 1, "DUMP li"),
    row("DUMP l64", 1, "DUMP l64"),
    row("DUMP s", 1, "DUMP s"),
    row("DUMP si", 1, "DUMP si"),
    row("DUMP h", 1, "DUMP h"),
    row("DUMP z", 1, "DUMP z"),
    row("DUMP str", 10, "DUMP str"),
    row("DUMP strr", 1, "DUMP strr"),
    row("DUMP small hash", 5_000, "DUMP sh"),
    row("DUMP small list", 5_000, "DUMP sl"),
    row("DUMP small set", 5_000, "DUMP ss"),
    row("DUMP small intset", 5_000, "DUMP sn"),
    row("DUMP small zset", 5_000, "DUMP sz"),
    row("DUMP stream", 100, "DUMP sx"),
    row("RESTORE l", 1, "RESTORE copy").by(Kind::Restore("l")).idle(50),
    row("RESTORE li", 1, "RESTORE copy").by(Kind::Restore("li")).idle(50),
    row("RESTORE l64", 1, "RESTORE copy").by(Kind::Restore("l64")).idle(50),
    row("RESTORE s", 1, "RESTORE copy").by(Kind::Restore("s")).idle(50),
    row("RESTORE si", 1, "RESTORE copy").by(Kind::Restore("si")).idle(50),
    row("RESTORE h", 1, "RESTORE copy").by(Kind::Restore("h")).idle(50),
    row("RESTORE z", 1, "RESTORE copy").by(Kind::Restore("z")).idle(50),
    row("RESTORE str", 10, "RESTORE copy").by(Kind::Restore("str")),
    row("RESTORE strr", 1, "RESTORE copy").by(Kind::Restore("strr")),
    row("RESTORE small hash", 5_000, "RESTORE copy").by(Kind::Restore("sh")),
    row("RESTORE small list", 5_000, "RESTORE copy").by(Kind::Restore("sl")),
    row("RESTORE small set", 5_000, "RESTORE copy").by(Kind::Restore("ss")),
    row("RESTORE small intset", 5_000, "RESTORE copy").by(Kind::Restore("sn")),
    row("RESTORE small zset", 5_000, "RESTORE copy").by(Kind::Restore("sz")),
    row("RESTORE stream", 100, "RESTORE copy").by(Kind::Restore("sx")),
];

/// Files of small values, one type after the other.
pub const FILES: Group = Group {
    name: "files",
    rows: &[
        row("SAVE 500k small strings", 1, "SAVE")
            .before(&[first(1, "FLUSHALL SYNC"), first(500_000, "SET key:{count 1000000} {value 16}")]),
        row("DEBUG RELOAD 500k small strings", 1, "DEBUG RELOAD")
            .before(&[first(1, "FLUSHALL SYNC"), first(500_000, "SET key:{count 1000000} {value 16}")]),
        row("SAVE 100k small hashes", 1, "SAVE").before(&[
            first(1, "FLUSHALL SYNC"),
            first(100_000, "HSET key:{count 1000000} 10*(f# {value 8})"),
        ]),
        row("DEBUG RELOAD 100k small hashes", 1, "DEBUG RELOAD").before(&[
            first(1, "FLUSHALL SYNC"),
            first(100_000, "HSET key:{count 1000000} 10*(f# {value 8})"),
        ]),
        row("SAVE 100k small zsets", 1, "SAVE").before(&[
            first(1, "FLUSHALL SYNC"),
            first(100_000, "ZADD key:{count 1000000} 10*({rand 1000} {value 8})"),
        ]),
        row("DEBUG RELOAD 100k small zsets", 1, "DEBUG RELOAD").before(&[
            first(1, "FLUSHALL SYNC"),
            first(100_000, "ZADD key:{count 1000000} 10*({rand 1000} {value 8})"),
        ]),
        row("SAVE 100k lists+sets", 1, "SAVE").before(&[
            first(1, "FLUSHALL SYNC"),
            first(50_000, "RPUSH l:{count 1000000} 10*({value 8})"),
            first(50_000, "SADD s:{count 1000000} 10*({value 8})"),
        ]),
        row("DEBUG RELOAD 100k lists+sets", 1, "DEBUG RELOAD").before(&[
            first(1, "FLUSHALL SYNC"),
            first(50_000, "RPUSH l:{count 1000000} 10*({value 8})"),
            first(50_000, "SADD s:{count 1000000} 10*({value 8})"),
        ]),
        of(2_000, "LASTSAVE"),
    ],
    ..PLAIN
};
