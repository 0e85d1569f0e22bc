//! Sorted sets, places and streams.

use super::{Before, Group, PLAIN, Row, first, of, row};

const SCORES: Before = first(100, "ZADD z 1000*({rand 1000000} member:{rand 1000000000})");
const COPY: &[Before] = &[first(1, "COPY z c REPLACE")];

/// Sorted sets.
pub const SORTED_SETS: Group = Group {
    name: "zsets",
    fill: &[
        SCORES,
        first(100, "ZADD z2 1000*({rand 1000000} member:{rand 1000000000})"),
        first(1, "ZUNIONSTORE z3 2 z z2"),
        first(100, "ZADD zf 1000*({rand 1000000}.5 member:{rand 1000000000})"),
        first(1, "ZADD known 1000*({rand 1000000} m:#)"),
        first(100, "ZADD lex 1000*(0 {value 12})"),
        first(1, "ZADD hundred 100*({rand 1000} m:#)"),
        first(1, "ZUNIONSTORE zk 2 z known"),
    ],
    rows: ROWS,
    ..PLAIN
};

const ROWS: &[Row] = &[
    row("zset100 ZADD update", 10_000, "ZADD hundred {rand 1000} m:{rand 100}"),
    row("zset100 ZSCORE", 10_000, "ZSCORE hundred m:{rand 100}"),
    row("zset100 ZRANK", 10_000, "ZRANK hundred m:{rand 100}"),
    row("zset100 ZCOUNT", 10_000, "ZCOUNT hundred 100 500"),
    row("zset100 ZINCRBY", 10_000, "ZINCRBY hundred 1 m:{rand 100}"),
    row("zset100 ZRANGEBYSCORE", 5_000, "ZRANGEBYSCORE hundred 100 200"),
    row("zset100 ZRANGEBYSCORE LIMIT 5", 5_000, "ZRANGEBYSCORE hundred 100 500 LIMIT 0 5"),
    row("zset100 ZREVRANGE 10", 5_000, "ZREVRANGE hundred 0 9"),
    row("zset100 ZRANGE WITHSCORES", 1_000, "ZRANGE hundred 0 -1 WITHSCORES"),
    row("zset100 ZREM ZADD", 10_000, "ZREM hundred m:1 ; ZADD hundred 5 m:1"),
    row("zset100 ZPOPMIN ZADD", 10_000, "ZPOPMIN hundred ; ZADD hundred 5 m:1"),
    row("ZADD update", 5_000, "ZADD zk {rand 1000000} m:{rand 1000}"),
    row("ZADD 1000 new", 10, "ZADD n 1000*({rand 1000000} member:{rand 1000000000})")
        .before(&[first(1, "DEL n")]),
    row("ZINCRBY", 5_000, "ZINCRBY zk 5 m:{rand 1000}"),
    row("ZSCORE", 10_000, "ZSCORE zk m:{rand 1000}"),
    row("ZMSCORE 100", 200, "ZMSCORE zk 100*(m:#)"),
    row("ZRANK", 5_000, "ZRANK zk m:{rand 1000}"),
    row("ZREVRANK", 5_000, "ZREVRANK zk m:{rand 1000}"),
    row("ZCARD", 10_000, "ZCARD z"),
    row("ZCOUNT", 5_000, "ZCOUNT z 100000 900000"),
    row("ZLEXCOUNT", 5_000, "ZLEXCOUNT lex [b [y"),
    row("ZRANGE 100", 2_000, "ZRANGE z 50000 50099"),
    row("ZRANGE 0 -1 100k", 2, "ZRANGE z 0 -1"),
    row("ZRANGE WITHSCORES int", 2, "ZRANGE z 0 -1 WITHSCORES"),
    row("ZRANGE WITHSCORES .5", 2, "ZRANGE zf 0 -1 WITHSCORES"),
    row("ZREVRANGE 100 WITHSCORES", 1_000, "ZREVRANGE z 50000 50099 WITHSCORES"),
    row("ZRANGEBYSCORE 100", 2_000, "ZRANGEBYSCORE z 500000 501000"),
    row("ZRANGEBYSCORE LIMIT 10", 5_000, "ZRANGEBYSCORE z 500000 600000 LIMIT 0 10"),
    row("ZREVRANGEBYSCORE LIMIT 10", 5_000, "ZREVRANGEBYSCORE z 600000 500000 LIMIT 0 10"),
    row("ZRANGEBYLEX 100", 1_000, "ZRANGEBYLEX lex [m + LIMIT 0 100"),
    row("ZRANGEBYLEX all", 2, "ZRANGEBYLEX lex - +"),
    row("ZREVRANGEBYLEX 100", 1_000, "ZREVRANGEBYLEX lex [m - LIMIT 0 100"),
    row("ZRANGESTORE half", 1, "ZRANGESTORE to z 0 49999").before(&[first(1, "DEL to")]),
    row("ZREM 1000", 1, "ZREM c 1000*(m:#)").before(&[first(1, "COPY zk c REPLACE")]),
    row("ZREMRANGEBYSCORE half", 1, "ZREMRANGEBYSCORE c 0 500000").before(COPY).idle(30),
    row("ZREMRANGEBYRANK half", 1, "ZREMRANGEBYRANK c 0 49999").before(COPY).idle(30),
    row("ZREMRANGEBYLEX half", 1, "ZREMRANGEBYLEX c - [m").before(&[first(1, "COPY lex c REPLACE")]).idle(30),
    row("ZREMRANGEBYRANK half of its own", 1, "ZREMRANGEBYRANK own 0 49999")
        .before(&[first(1, "DEL own"), first(100, "ZADD own 1000*({rand 1000000} member:{rand 1000000000})")])
        .idle(30),
    row("ZPOPMIN 1000", 10, "ZPOPMIN c 1000").before(COPY),
    row("ZPOPMAX 1", 5_000, "ZPOPMAX c").before(COPY),
    row("ZMPOP 100", 100, "ZMPOP 1 c MIN COUNT 100").before(COPY),
    row("BZPOPMIN, served at once", 5_000, "BZPOPMIN c 0").before(COPY),
    row("BZPOPMAX, served at once", 5_000, "BZPOPMAX c 0").before(COPY),
    row("BZMPOP, served at once", 100, "BZMPOP 0 1 c MIN COUNT 100").before(COPY),
    row("ZRANDMEMBER", 5_000, "ZRANDMEMBER z"),
    row("ZRANDMEMBER 1000", 10, "ZRANDMEMBER z 1000"),
    row("ZRANDMEMBER -1000", 10, "ZRANDMEMBER z -1000"),
    row("ZRANDMEMBER 90000", 1, "ZRANDMEMBER z 90000"),
    row("ZSCAN 100", 500, "ZSCAN z 0 COUNT 100"),
    row("ZUNION WITHSCORES", 1, "ZUNION 2 z z2 WITHSCORES"),
    row("ZINTER", 1, "ZINTER 2 z z3"),
    row("ZINTERCARD", 1, "ZINTERCARD 2 z z3"),
    row("ZDIFF", 1, "ZDIFF 2 z3 z"),
    row("ZUNIONSTORE 2x100k", 1, "ZUNIONSTORE to 2 z z2"),
    row("ZINTERSTORE 2x100k", 1, "ZINTERSTORE to 2 z z3"),
    row("ZDIFFSTORE 2x100k", 1, "ZDIFFSTORE to 2 z3 z"),
    row("SORT zset BY score", 1, "SORT known BY nosort"),
    row("DEL zset 100k", 1, "DEL c").before(COPY).idle(50),
    row("COPY zset 100k", 1, "COPY z c REPLACE").before(&[first(1, "DEL c")]).idle(30),
];

/// 100,000 places.
pub const GEO: Group = Group {
    name: "geo",
    fill: &[
        first(100, "GEOADD g 1000*({rand 179}.{rand 999999} {rand 84}.{rand 999999} p:{rand 1000000000})"),
        first(1, "GEOADD g 1000*({rand 179}.{rand 999999} {rand 84}.{rand 999999} m:#)"),
    ],
    rows: &[
        of(5_000, "GEOADD g {rand 179}.{rand 999999} {rand 84}.{rand 999999} m:{rand 1000}"),
        of(5_000, "GEODIST g m:{rand 1000} m:{rand 1000}"),
        of(5_000, "GEOHASH g m:{rand 1000}"),
        of(5_000, "GEOPOS g m:{rand 1000}"),
        of(500, "GEORADIUS g {rand 179} {rand 84} 100 km"),
        of(500, "GEORADIUS_RO g {rand 179} {rand 84} 100 km"),
        of(500, "GEORADIUSBYMEMBER g m:{rand 1000} 100 km"),
        of(500, "GEORADIUSBYMEMBER_RO g m:{rand 1000} 100 km"),
        of(500, "GEOSEARCH g FROMLONLAT {rand 179} {rand 84} BYRADIUS 100 km"),
        of(500, "GEOSEARCH g FROMMEMBER m:{rand 1000} BYBOX 200 200 km ASC WITHDIST"),
        of(200, "GEOSEARCHSTORE to g FROMMEMBER m:{rand 1000} BYRADIUS 100 km"),
        of(5_000, "PFADD log {value 16}"),
        of(2_000, "PFCOUNT log"),
        of(200, "PFCOUNT log other"),
        of(200, "PFMERGE sum log other"),
    ],
    ..PLAIN
};

const STREAM: Before = first(100_000, "XADD x {count 1000000}-1 field {value 16}");
const GROUP: &[Before] = &[
    first(1, "DEL x2"),
    first(10_000, "XADD x2 {count 1000000}-1 field {value 16}"),
    first(1, "XGROUP CREATE x2 g 0"),
];
const PENDING: &[Before] = &[
    first(1, "DEL x2"),
    first(10_000, "XADD x2 {count 1000000}-1 field {value 16}"),
    first(1, "XGROUP CREATE x2 g 0"),
    first(1, "XREADGROUP GROUP g c COUNT 10000 STREAMS x2 >"),
];

/// A stream of 100,000 entries, and one of 10,000 with a group.
pub const STREAMS: Group = Group {
    name: "streams",
    fill: &[STREAM, first(1, "XGROUP CREATE x other 0")],
    rows: &[
        row("XADD", 10_000, "XADD n * field {value 16}").before(&[first(1, "DEL n")]),
        row("XADD MAXLEN ~", 10_000, "XADD n MAXLEN ~ 1000 * field {value 16}"),
        of(10_000, "XLEN x"),
        of(2_000, "XRANGE x {rand 100000} + COUNT 10"),
        of(2_000, "XREVRANGE x {rand 100000} - COUNT 10"),
        row("XRANGE 100k", 1, "XRANGE x - +"),
        of(2_000, "XREAD COUNT 10 STREAMS x {rand 100000}"),
        row("XREADGROUP", 10_000, "XREADGROUP GROUP g c COUNT 1 STREAMS x2 >").before(GROUP),
        row("XACK", 10_000, "XACK x2 g {count 1000000}-1").before(PENDING),
        row("XCLAIM", 10_000, "XCLAIM x2 g d 0 {count 1000000}-1").before(PENDING),
        row("XAUTOCLAIM", 100, "XAUTOCLAIM x2 g d 0 0").before(PENDING),
        row("XPENDING", 2_000, "XPENDING x2 g").before(PENDING),
        row("XPENDING 10", 2_000, "XPENDING x2 g - + 10").before(PENDING),
        row("XDEL", 10_000, "XDEL x2 {count 1000000}-1").before(GROUP),
        row("XTRIM half", 1, "XTRIM x2 MAXLEN 5000").before(GROUP),
        row("XSETID", 2_000, "XSETID x 99999999-1"),
        row("XGROUP CREATE, DESTROY", 2_000, "XGROUP CREATE x g 0 ; XGROUP DESTROY x g"),
        row(
            "XGROUP CREATECONSUMER, DELCONSUMER",
            2_000,
            "XGROUP CREATECONSUMER x other c ; XGROUP DELCONSUMER x other c",
        ),
        of(2_000, "XGROUP SETID x other 5"),
        of(2_000, "XINFO STREAM x"),
        of(2_000, "XINFO GROUPS x"),
        of(2_000, "XINFO CONSUMERS x other"),
    ],
    ..PLAIN
};
