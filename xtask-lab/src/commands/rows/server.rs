//! Connections, waiting clients, messages, scripts, and commands about the server.

use super::{Before, Group, Kind, PLAIN, Row, first, of, row};

/// Requests about the connection itself, and many connections.
pub const CONNECTIONS: Group = Group {
    name: "connections",
    fill: &[first(1, "SET k v"), first(1, "SET w v")],
    rows: CONNECTION_ROWS,
    ..PLAIN
};

const CONNECTION_ROWS: &[Row] = &[
    row("PING", 10_000, "PING"),
    row("ECHO", 10_000, "ECHO {value 16}"),
    row("SELECT", 10_000, "SELECT 0"),
    row("TIME", 5_000, "TIME"),
    row("ROLE", 5_000, "ROLE"),
    of(5_000, "HELLO 2"),
    of(5_000, "AUTH default anything"),
    of(2_000, "RESET"),
    row("CLIENT ID", 5_000, "CLIENT ID"),
    row("CLIENT INFO", 5_000, "CLIENT INFO"),
    row("CLIENT SETNAME", 5_000, "CLIENT SETNAME name"),
    of(5_000, "CLIENT GETNAME"),
    of(5_000, "CLIENT GETREDIR"),
    of(5_000, "CLIENT TRACKINGINFO"),
    row("CLIENT TRACKING on, off", 2_000, "CLIENT TRACKING ON ; CLIENT TRACKING OFF"),
    of(5_000, "CLIENT NO-EVICT OFF"),
    of(2_000, "CLIENT UNBLOCK 100000000"),
    of(500, "CLIENT KILL ID 100000000"),
    row("CLIENT LIST 1000", 5, "CLIENT LIST").by(Kind::Beside(1_000, "PING")),
    row("PING of 1000 clients", 1, "PING").by(Kind::OfEach(1_000)),
    row("connect PING close", 200, "PING").by(Kind::Connect).idle(20),
    row("MULTI 1 EXEC", 9_999, "MULTI ; SET k v ; EXEC"),
    row("MULTI, DISCARD", 5_000, "MULTI ; DISCARD"),
    row("WATCH MULTI EXEC", 10_000, "WATCH w ; MULTI ; GET k ; EXEC"),
    row("WATCH, UNWATCH", 5_000, "WATCH w ; UNWATCH"),
    row("MULTI 1000 INCR EXEC", 1_002, "MULTI ; INCR n ; EXEC").per(334),
    of(2_000, "WAIT 0 0"),
    row("GET beside 10,000 tracked keys", 10_000, "GET k").by(Kind::Beside(1, TRACKS)),
    row("SET beside 10,000 tracked keys", 10_000, "SET k v").by(Kind::Beside(1, TRACKS)),
];

const TRACKS: &str = "CLIENT TRACKING ON ; MGET 10000*(t#)";

const QUEUE: &[Before] = &[first(1, "DEL q")];

/// Clients that wait.
pub const WAITING: Group = Group {
    name: "waiting",
    rows: &[
        row("BLPOP 1000 waiting, RPUSH each", 1_000, "RPUSH w:{count 1000} {value 16}")
            .by(Kind::Beside(1_000, "BLPOP w:{count 1000} 0"))
            .idle(20),
        row("BLPOP 1000 waiting, one RPUSH", 1, "RPUSH q 1000*({value 16})")
            .by(Kind::Beside(1_000, "BLPOP q 0"))
            .before(QUEUE)
            .per(1_000)
            .idle(20),
        row("BLPOP 10 keys, 1000 clients", 1, "RPUSH q 1000*({value 16})")
            .by(Kind::Beside(1_000, "BLPOP a b c d e f g h i q 0"))
            .before(QUEUE)
            .per(1_000)
            .idle(20),
        row("BZPOPMIN 1000 waiting", 1, "ZADD q 1000*({rand 1000} m#)")
            .by(Kind::Beside(1_000, "BZPOPMIN q 0"))
            .before(QUEUE)
            .per(1_000)
            .idle(20),
        row("BLPOP 1000 time out", 1, "PING").by(Kind::Beside(1_000, "BLPOP none 0.5")).per(1_000).idle(900),
    ],
    ..PLAIN
};

/// Publishers and subscribers.
pub const PUBSUB: Group = Group {
    name: "pubsub",
    rows: &[
        row("PUBLISH no subscriber", 5_000, "PUBLISH nobody {value 16}"),
        row("PUBLISH to 1000 (20 pipelined)", 20, "PUBLISH channel {value 16}")
            .by(Kind::Beside(1_000, "SUBSCRIBE channel"))
            .per(20_000)
            .idle(20),
        row("PUBLISH to 1000 (one a time)", 1, "PUBLISH channel {value 16}")
            .by(Kind::Beside(1_000, "SUBSCRIBE channel"))
            .per(1_000)
            .idle(20),
        row("PUBLISH 10KB to 1000", 1, "PUBLISH channel {value 10000}")
            .by(Kind::Beside(1_000, "SUBSCRIBE channel"))
            .per(1_000)
            .idle(20),
        row("SPUBLISH to 100", 10, "SPUBLISH shard {value 16}")
            .by(Kind::Beside(100, "SSUBSCRIBE shard"))
            .idle(20),
        row("SUBSCRIBE, UNSUBSCRIBE", 2_000, "SUBSCRIBE a ; UNSUBSCRIBE a"),
        row("PSUBSCRIBE, PUNSUBSCRIBE", 2_000, "PSUBSCRIBE a* ; PUNSUBSCRIBE a*"),
        row("SSUBSCRIBE, SUNSUBSCRIBE", 2_000, "SSUBSCRIBE a ; SUNSUBSCRIBE a"),
        of(2_000, "PUBSUB CHANNELS"),
        of(2_000, "PUBSUB NUMPAT"),
        of(2_000, "PUBSUB NUMSUB channel"),
        of(2_000, "PUBSUB SHARDCHANNELS"),
        of(2_000, "PUBSUB SHARDNUMSUB channel"),
    ],
    ..PLAIN
};

/// A library with a function that reads a key, in one argument: of its blanks, only those in braces are none
/// between arguments.
macro_rules! load_library {
    ($then:literal) => {
        concat!(
            "FUNCTION LOAD REPLACE #!lua\tname=lib\n",
            "redis.register_function{{function_name='f',flags={{'no-writes'},",
            "callback=function(k)return(redis.call('GET',k[1]))end}",
            $then
        )
    };
}

/// Scripts and functions.
pub const SCRIPTS: Group = Group {
    name: "scripts",
    fill: &[
        first(1, "SCRIPT LOAD return(redis.call('SET',KEYS[1],ARGV[1]))"),
        first(1, "SCRIPT LOAD return(redis.call('GET',KEYS[1]))"),
        first(1, "SET k v"),
        first(1, load_library!("")),
    ],
    rows: &[
        of(5_000, "EVAL return(redis.call('SET',KEYS[1],ARGV[1])) 1 k v"),
        of(5_000, "EVAL_RO return(redis.call('GET',KEYS[1])) 1 k"),
        of(5_000, "EVALSHA 35155eb5f7653c2c49d3770cc58ae533f868174e 1 k v"),
        of(5_000, "EVALSHA_RO bfef805d9dcd9d3857da9372933ef22c17736f58 1 k"),
        of(2_000, "SCRIPT EXISTS 35155eb5f7653c2c49d3770cc58ae533f868174e"),
        of(1_000, "SCRIPT LOAD return(redis.call('GET',KEYS[1]))"),
        row("SCRIPT LOAD new", 200, "SCRIPT LOAD return({rand 1000000000})"),
        row("SCRIPT FLUSH", 20, "SCRIPT FLUSH"),
        of(5_000, "FCALL f 1 k"),
        of(5_000, "FCALL_RO f 1 k"),
        row("FUNCTION LOAD", 50, load_library!("")),
        of(1_000, "FUNCTION LIST"),
        of(1_000, "FUNCTION STATS"),
        of(1_000, "FUNCTION DUMP"),
        row("FUNCTION RESTORE", 20, "FUNCTION RESTORE").by(Kind::RestoreFunctions),
        row("FUNCTION LOAD, DELETE", 40, load_library!(" ; FUNCTION DELETE lib")),
        row("FUNCTION FLUSH", 20, "FUNCTION FLUSH"),
    ],
    ..PLAIN
};

/// Commands about the server.
pub const ADMIN: Group = Group {
    name: "admin",
    fill: &[
        first(10_000, "SET k{count 10000} {value 16}"),
        first(1, "ACL SETUSER u on nopass ~k* +@all"),
        first(1, "CONFIG SET slowlog-log-slower-than 0"),
        first(200, "PING"),
        first(1, "CONFIG SET slowlog-log-slower-than 10000000"),
        first(1, "CONFIG SET latency-monitor-threshold 1"),
    ],
    rows: ADMIN_ROWS,
    ..PLAIN
};

const ADMIN_ROWS: &[Row] = &[
    row("INFO", 200, "INFO"),
    row("INFO all", 100, "INFO all"),
    of(500, "INFO memory"),
    of(500, "INFO keyspace"),
    row("CONFIG GET *", 100, "CONFIG GET *"),
    row("CONFIG GET maxmemory", 5_000, "CONFIG GET maxmemory"),
    of(500, "CONFIG SET maxmemory 0"),
    of(500, "CONFIG RESETSTAT"),
    row("COMMAND", 20, "COMMAND"),
    row("COMMAND COUNT", 2_000, "COMMAND COUNT"),
    row("COMMAND LIST", 200, "COMMAND LIST"),
    row("COMMAND DOCS", 20, "COMMAND DOCS"),
    row("COMMAND INFO get", 2_000, "COMMAND INFO get"),
    row("COMMAND GETKEYS", 5_000, "COMMAND GETKEYS SET a b"),
    of(2_000, "COMMAND GETKEYSANDFLAGS SET a b"),
    row("SLOWLOG GET", 2_000, "SLOWLOG GET"),
    of(2_000, "SLOWLOG LEN"),
    of(2_000, "SLOWLOG RESET"),
    row("LATENCY HISTOGRAM", 100, "LATENCY HISTOGRAM").before(&[
        first(100, "GET k1"),
        first(100, "SET k1 v"),
        first(100, "PING"),
    ]),
    of(2_000, "LATENCY LATEST"),
    of(2_000, "LATENCY HISTORY command"),
    of(500, "LATENCY DOCTOR"),
    row("LATENCY GRAPH none", 2_000, "LATENCY GRAPH nothing").fails(),
    of(500, "LATENCY RESET"),
    of(500, "MEMORY STATS"),
    of(500, "MEMORY DOCTOR"),
    of(20, "MEMORY PURGE"),
    of(2_000, "MODULE LIST"),
    of(500, "ACL CAT"),
    of(500, "ACL CAT string"),
    of(2_000, "ACL LIST"),
    of(2_000, "ACL USERS"),
    of(2_000, "ACL WHOAMI"),
    of(2_000, "ACL GETUSER u"),
    of(2_000, "ACL LOG"),
    of(2_000, "ACL DRYRUN u GET k1"),
    of(500, "ACL GENPASS"),
    row("ACL SETUSER, DELUSER", 1_000, "ACL SETUSER w on nopass ~k* +@all ; ACL DELUSER w"),
    of(200, "LOLWUT VERSION 5"),
    row("DEBUG SLEEP 0", 1_000, "DEBUG SLEEP 0"),
];

/// Commands about a cluster, on a node that has all slots.
pub const CLUSTER: Group = Group {
    name: "cluster",
    arguments: &["--cluster-enabled", "yes"],
    fill: &[first(1, "CLUSTER ADDSLOTSRANGE 0 16383")],
    settling_ms: 4_000,
    rows: &[
        row("cluster GET", 10_000, "GET k{rand 10000}").before(&[first(10_000, "SET k{count 10000} v")]),
        row("cluster SET", 10_000, "SET k{rand 10000} v"),
        of(2_000, "ASKING"),
        of(2_000, "READONLY"),
        of(2_000, "READWRITE"),
        row("RESTORE-ASKING", 2_000, "RESTORE-ASKING k1")
            .by(Kind::Restore("k1"))
            .before(&[first(1, "SET k1 v")]),
        of(1_000, "CLUSTER INFO"),
        of(1_000, "CLUSTER MYID"),
        of(1_000, "CLUSTER NODES"),
        of(1_000, "CLUSTER SLOTS"),
        of(1_000, "CLUSTER SHARDS"),
        of(1_000, "CLUSTER LINKS"),
        of(2_000, "CLUSTER KEYSLOT key"),
        of(2_000, "CLUSTER COUNTKEYSINSLOT 500"),
        of(2_000, "CLUSTER GETKEYSINSLOT 500 10"),
        row("CLUSTER COUNT-FAILURE-REPORTS none", 1_000, "CLUSTER COUNT-FAILURE-REPORTS x").fails(),
        row("CLUSTER DELSLOTS, ADDSLOTS", 20, "CLUSTER DELSLOTS 1 ; CLUSTER ADDSLOTS 1").idle(20),
        row(
            "CLUSTER DELSLOTSRANGE, ADDSLOTSRANGE",
            20,
            "CLUSTER DELSLOTSRANGE 1 9 ; CLUSTER ADDSLOTSRANGE 1 9",
        )
        .idle(20),
        of(20, "CLUSTER SAVECONFIG"),
        row("CLUSTER FLUSHSLOTS", 1, "CLUSTER FLUSHSLOTS")
            .before(&[first(1, "FLUSHALL"), first(1, "CLUSTER FLUSHSLOTS")]),
    ],
};
