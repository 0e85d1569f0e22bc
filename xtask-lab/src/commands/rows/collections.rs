//! Lists, sets and hashes of 100,000 elements and of few.

use super::{Before, Group, PLAIN, Row, first, of, row};

const LIST: Before = first(100, "RPUSH l 1000*({value 16})");
const COPY_LIST: &[Before] = &[first(1, "COPY l c REPLACE")];

/// Lists.
pub const LISTS: Group = Group {
    name: "lists",
    fill: &[
        LIST,
        first(100, "RPUSH li 1000*({rand 1000000})"),
        first(1, "RPUSH two a b"),
        first(1, "RPUSH mid m"),
        first(1, "RPUSH small 10*({value 16})"),
    ],
    rows: LIST_ROWS,
    ..PLAIN
};

const LIST_ROWS: &[Row] = &[
    row("LPUSH x 10000", 10_000, "LPUSH p {value 16}").before(&[first(1, "DEL p")]),
    row("RPUSH x 10000", 10_000, "RPUSH p {value 16}").before(&[first(1, "DEL p")]),
    row("LPUSHX", 10_000, "LPUSHX p {value 16}"),
    row("RPUSHX", 10_000, "RPUSHX p {value 16}"),
    row("RPUSH 1000 elems", 100, "RPUSH q 1000*({value 16})").before(&[first(1, "DEL q")]),
    row("LPOP x 10000", 10_000, "LPOP c").before(COPY_LIST),
    row("RPOP x 10000", 10_000, "RPOP c").before(COPY_LIST),
    row("LPOP count 50000", 1, "LPOP c 50000").before(COPY_LIST),
    row("LMPOP count 100", 200, "LMPOP 1 c LEFT COUNT 100").before(COPY_LIST),
    row("BLMPOP, served at once", 200, "BLMPOP 0 1 c LEFT COUNT 100").before(COPY_LIST),
    row("BLPOP, served at once", 10_000, "BLPOP c 0").before(COPY_LIST),
    row("BRPOP, served at once", 10_000, "BRPOP c 0").before(COPY_LIST),
    row("RPOPLPUSH two", 10_000, "RPOPLPUSH two mid ; RPOPLPUSH mid two"),
    row("BRPOPLPUSH, served at once", 10_000, "BRPOPLPUSH two mid 0 ; BRPOPLPUSH mid two 0"),
    row("LMOVE same list", 10_000, "LMOVE l l LEFT RIGHT"),
    row("BLMOVE, served at once", 10_000, "BLMOVE l l LEFT RIGHT 0"),
    row("LLEN", 10_000, "LLEN l"),
    row("LINDEX random", 2_000, "LINDEX l {rand 100000}"),
    row("LSET random", 2_000, "LSET c {rand 100000} {value 16}").before(COPY_LIST),
    row("LINSERT middle", 10, "LINSERT c BEFORE pivot {value 16}")
        .before(&[first(1, "COPY l c REPLACE"), first(1, "LSET c 50000 pivot")]),
    row("LREM middle", 1, "LREM c 1 pivot")
        .before(&[first(1, "COPY l c REPLACE"), first(1, "LSET c 50000 pivot")]),
    row("LREM all absent", 5, "LREM l 0 absent"),
    row("LPOS end", 5, "LPOS l absent"),
    row("LPOS int end", 5, "LPOS li 1000001"),
    row("LPOS COUNT 0", 5, "LPOS l absent COUNT 0"),
    row("LRANGE 100", 2_000, "LRANGE l 0 99"),
    row("LRANGE 100 middle", 2_000, "LRANGE l 50000 50099"),
    row("LRANGE -100 -1", 2_000, "LRANGE l -100 -1"),
    row("LRANGE 0 -1 100k str", 5, "LRANGE l 0 -1"),
    row("LRANGE 0 -1 100k int", 5, "LRANGE li 0 -1"),
    row("LTRIM half", 1, "LTRIM c 0 49999").before(COPY_LIST).idle(30),
    row("LTRIM half of its own", 1, "LTRIM own 0 49999")
        .before(&[first(1, "DEL own"), first(100, "RPUSH own 1000*({value 16})")])
        .idle(30),
    row("DEL list 100k", 1, "DEL c").before(COPY_LIST).idle(30),
    row("DEL list 100k of its own", 1, "DEL own")
        .before(&[first(1, "DEL own"), first(100, "RPUSH own 1000*({value 16})")])
        .idle(30),
    row("UNLINK list 100k of its own", 1, "UNLINK own")
        .before(&[first(1, "DEL own"), first(100, "RPUSH own 1000*({value 16})")])
        .idle(30),
    row("COPY list 100k", 1, "COPY l c REPLACE").before(&[first(1, "DEL c")]).idle(30),
    row(
        "COPY list 100k; LSET each 1000",
        1,
        "COPY l c REPLACE ; LSET c 500 a ; LSET c 50000 a ; LSET c 99000 a",
    )
    .before(&[first(1, "DEL c")])
    .sends(4)
    .idle(30),
    row("SORT 100k ints", 1, "SORT li"),
    row("SORT_RO 100k ints", 1, "SORT_RO li"),
    row("SORT 100k ALPHA", 1, "SORT l ALPHA"),
    row("SORT 100k LIMIT 10", 1, "SORT li LIMIT 0 10"),
    row("SORT 100k STORE", 1, "SORT li STORE c"),
    row("SORT BY nosort GET#", 1, "SORT li BY nosort GET #"),
];

const MEMBERS: Before = first(100, "SADD s 1000*(member:{rand 1000000000})");
const COPY_SET: &[Before] = &[first(1, "COPY s c REPLACE")];

/// Sets.
pub const SETS: Group = Group {
    name: "sets",
    fill: &[
        MEMBERS,
        first(100, "SADD s2 1000*(member:{rand 1000000000})"),
        first(1, "SUNIONSTORE s3 s s2"),
        first(100, "SADD si 1000*({rand 1000000})"),
        first(100, "SADD si2 1000*({rand 1000000})"),
        first(1, "SADD i500 500*(#)"),
        first(1, "SADD j500 250*(#)"),
        first(1, "SADD known 1000*(m:#)"),
        first(1_000, "SADD set100:{count 10} member:{rand 100}"),
    ],
    rows: SET_ROWS,
    ..PLAIN
};

const SET_ROWS: &[Row] = &[
    row("set100 SADD SREM", 10_000, "SADD set100:1 x ; SREM set100:1 x"),
    row("set100 SISMEMBER", 10_000, "SISMEMBER set100:{rand 10} member:{rand 100}"),
    row("set100 SMEMBERS", 2_000, "SMEMBERS set100:{rand 10}"),
    row("set100 SRANDMEMBER", 10_000, "SRANDMEMBER set100:{rand 10}"),
    row("SADD 1000 new", 20, "SADD n 1000*(member:{rand 1000000000})").before(&[first(1, "DEL n")]),
    row("SADD ints 1000 new", 20, "SADD n 1000*({rand 1000000000})").before(&[first(1, "DEL n")]),
    row("SREM 1000", 1, "SREM c 1000*(m:#)").before(&[first(1, "SUNIONSTORE c s known")]),
    row("SISMEMBER 100k", 10_000, "SISMEMBER s member:{rand 1000000000}"),
    row("SISMEMBER intset", 10_000, "SISMEMBER i500 {rand 1000}"),
    row("SMISMEMBER 100", 200, "SMISMEMBER i500 100*(#)"),
    row("SCARD", 10_000, "SCARD s"),
    row("SMOVE", 10_000, "SMOVE known to m:{count 1000} ; SMOVE to known m:1"),
    row("SPOP x 10000", 10_000, "SPOP c").before(COPY_SET),
    row("SPOP count 1000", 10, "SPOP c 1000").before(COPY_SET),
    row("SPOP count 90000", 1, "SPOP c 90000").before(COPY_SET).idle(30),
    row("SRANDMEMBER", 10_000, "SRANDMEMBER s"),
    row("SRANDMEMBER 1000", 20, "SRANDMEMBER s 1000"),
    row("SRANDMEMBER -1000", 20, "SRANDMEMBER s -1000"),
    row("SRANDMEMBER 90000", 1, "SRANDMEMBER s 90000"),
    row("SMEMBERS 100k", 2, "SMEMBERS s"),
    row("SMEMBERS 100k int", 2, "SMEMBERS si"),
    row("SMEMBERS intset 500", 200, "SMEMBERS i500"),
    row("SSCAN 100", 500, "SSCAN s 0 COUNT 100"),
    row("SINTER 2x100k", 2, "SINTER s s3"),
    row("SINTER 3x100k", 2, "SINTER s s3 s"),
    row("SINTER ints", 2, "SINTER si si2"),
    row("SINTER intset 500", 200, "SINTER i500 j500"),
    row("SINTERCARD", 2, "SINTERCARD 2 s s3"),
    row("SINTERSTORE", 2, "SINTERSTORE to2 s s3"),
    row("SUNION 3x100k", 1, "SUNION s s2 s3"),
    row("SUNION intset 500", 100, "SUNION i500 j500"),
    row("SUNIONSTORE", 1, "SUNIONSTORE to2 s s2"),
    row("SUNIONSTORE ints", 1, "SUNIONSTORE to2 si si2"),
    row("SDIFF 2x100k", 1, "SDIFF s3 s"),
    row("SDIFF 3x100k", 1, "SDIFF s3 s s2"),
    row("SDIFF intset 500", 200, "SDIFF i500 j500"),
    row("SDIFFSTORE", 1, "SDIFFSTORE to2 s3 s"),
    row("DEL set 100k", 1, "DEL c").before(COPY_SET).idle(50),
    row("COPY set 100k", 1, "COPY s c REPLACE").before(&[first(1, "DEL c")]).idle(30),
];

const FIELDS: Before = first(100, "HSET h 1000*(field:{rand 1000000000} {value 16})");
const COPY_HASH: &[Before] = &[first(1, "COPY h c REPLACE")];

/// Hashes.
pub const HASHES: Group = Group {
    name: "hashes",
    fill: &[
        FIELDS,
        first(1_000, "HSET known 100*(f{rand 100000} {value 16})"),
        first(1, "HSET ten 10*(f# {value 16})"),
        first(1, "HSET hundred 100*(f# {value 16})"),
        first(1, "HSET thousand 1000*(f# {value 16})"),
        first(1, "HSET numbers n 1 x 1"),
    ],
    rows: HASH_ROWS,
    ..PLAIN
};

const HASH_ROWS: &[Row] = &[
    row("hash10 HGET", 10_000, "HGET ten f{rand 10}"),
    row("hash10 HSET", 10_000, "HSET ten f{rand 10} {value 16}"),
    row("hash10 HGETALL", 5_000, "HGETALL ten"),
    row("hash100 HGET", 10_000, "HGET hundred f{rand 100}"),
    row("hash100 HGET miss", 10_000, "HGET hundred nothing"),
    row("hash100 HSET", 10_000, "HSET hundred f{rand 100} {value 16}"),
    row("hash100 HDEL HSET", 10_000, "HDEL hundred f1 ; HSET hundred f1 {value 16}"),
    row("hash100 HMGET 10", 5_000, "HMGET hundred 10*(f{rand 100})"),
    row("hash100 HGETALL", 1_000, "HGETALL hundred"),
    row("hash100 HKEYS", 1_000, "HKEYS hundred"),
    row("hash100 HVALS", 1_000, "HVALS hundred"),
    row("hash100 HRANDFIELD", 5_000, "HRANDFIELD hundred"),
    row("hash100 HRANDFIELD 5", 5_000, "HRANDFIELD hundred 5"),
    row("hash100 HRANDFIELD -5", 5_000, "HRANDFIELD hundred -5"),
    row("HGET 100k", 10_000, "HGET known f{rand 100000}"),
    row("HSET 100k update", 10_000, "HSET known f{rand 100000} {value 16}"),
    row("HSET 1000 new", 20, "HSET n 1000*(field:{rand 1000000000} {value 16})").before(&[first(1, "DEL n")]),
    row("HMSET 1000 new", 20, "HMSET n 1000*(field:{rand 1000000000} {value 16})")
        .before(&[first(1, "DEL n")]),
    row("HSETNX", 10_000, "HSETNX known f{rand 100000} {value 16}"),
    row("HDEL 1000", 1, "HDEL thousand 1000*(f#)").before(&[first(1, "HSET thousand 1000*(f# {value 16})")]),
    row("HEXISTS", 10_000, "HEXISTS known f{rand 100000}"),
    row("HSTRLEN", 10_000, "HSTRLEN known f{rand 100000}"),
    row("HLEN", 10_000, "HLEN known"),
    row("HINCRBY", 10_000, "HINCRBY numbers n 1"),
    row("HINCRBYFLOAT", 10_000, "HINCRBYFLOAT numbers x 0.25"),
    row("HMGET 100", 500, "HMGET known 100*(f{rand 100000})"),
    row("HGETALL 100k", 1, "HGETALL h"),
    row("HKEYS 100k", 1, "HKEYS h"),
    row("HVALS 100k", 1, "HVALS h"),
    row("HSCAN 100", 500, "HSCAN h 0 COUNT 100"),
    row("HRANDFIELD", 10_000, "HRANDFIELD h"),
    row("HRANDFIELD 1000", 10, "HRANDFIELD h 1000"),
    row("HRANDFIELD -1000 WITHVALUES", 10, "HRANDFIELD h -1000 WITHVALUES"),
    row("HRANDFIELD 90000", 1, "HRANDFIELD h 90000"),
    row("DEL hash 100k", 1, "DEL c").before(COPY_HASH).idle(50),
    row("COPY hash 100k", 1, "COPY h c REPLACE").before(&[first(1, "DEL c")]).idle(30),
    of(10_000, "HGET ten absent"),
];
