//! The measured rows: every row of the table, with the ratio that it must reach.

/// Requests that build the data a row reads.
pub struct Fill {
    /// The request, by template.
    pub template: &'static str,
    /// How many of them.
    pub requests: u64,
}

/// One measurement.
pub struct Row {
    /// Unique; what `--rows` selects by prefix.
    pub name: &'static str,
    /// The least ratio, peer ÷ ours, or the most bytes, as `kind` says.
    pub target: f64,
    /// How it is measured.
    pub kind: Kind,
    /// Run once before it.
    pub fill: &'static [Fill],
    /// The request that is measured.
    pub template: &'static str,
    /// Requests under way on each connection.
    pub pipeline: u64,
    /// Connections.
    pub connections: usize,
    /// Our I/O backend.
    pub backend: &'static str,
    /// Whether the data set is built again before each round, for commands that make it grow.
    pub refill: bool,
    /// Subscribers of `channel` that read beside the load.
    pub subscribers: usize,
    /// Other clients that are connected at the same time.
    pub beside: Option<Beside>,
    /// Our I/O threads, all on the one core.
    pub threads: usize,
    /// Its peer has modules.
    pub is_of_module: bool,
}

/// Clients that send something before the load, and then stay without a word.
pub struct Beside {
    /// How many.
    pub connections: usize,
    /// Their requests, all of them together.
    pub sends: &'static [Fill],
}

/// The method of a row, and the meaning of its target.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// Server CPU per request; the target is the least ratio peer ÷ ours.
    Cpu,
    /// Resident bytes per key after the fill; the target is Martlet's upper bound.
    BytesPerKey(u64),
    /// Resident bytes after the fill; the target is the least saving against the peer, as a ratio peer ÷
    /// ours.
    Memory(u64),
    /// Resident bytes of a server without data; the target is Martlet's upper bound.
    EmptyServer,
    /// Resident bytes per idle connection; the target is Martlet's upper bound.
    IdleConnections(usize),
    /// Server CPU per request with many connections against 50; the target is Martlet's least efficiency.
    ManyConnections(usize),
    /// Entries that the fill left in the slow log at 1,000 µs, the least of all rounds: the server's own work
    /// appears in each of them, a thread's wait for its core does not. The target is an upper bound.
    SlowFill,
    /// As `SlowFill`, but that the request left.
    SlowRequest,
    /// Keys with TTLs over a span; the target is the 99th percentile of lateness in milliseconds.
    ExpiryLag,
}

impl Kind {
    /// Whether entries of the slow log are counted.
    pub fn is_slow_log(self) -> bool {
        matches!(self, Kind::SlowFill | Kind::SlowRequest)
    }
}

const PLAIN: Row = Row {
    name: "",
    target: 1.0,
    kind: Kind::Cpu,
    fill: &[],
    template: "PING",
    pipeline: 1,
    connections: 50,
    backend: "auto",
    refill: false,
    subscribers: 0,
    beside: None,
    threads: 1,
    is_of_module: false,
};

const SET_100K: &str = "SET {key uniform 100000} {value 64}";
const GET_100K: &str = "GET {key uniform 100000}";
const FILL_100K: &[Fill] = &[Fill { template: "SET {key sequence 100000} {value 64}", requests: 100_000 }];
const FILL_1M: &[Fill] = &[Fill { template: "SET {key sequence 1000000} {value 64}", requests: 1_000_000 }];
const FILL_10M: &[Fill] =
    &[Fill { template: "SET {key sequence 10000000} {value 64}", requests: 10_000_000 }];
const FILL_ZSET: &[Fill] =
    &[Fill { template: "ZADD {key sequence 100} {rand 70000} {key sequence 10007}", requests: 1_000_700 }];
const FILL_HASH: &[Fill] =
    &[Fill { template: "HSET {key sequence 100} {key sequence 10007} {value 64}", requests: 1_000_700 }];
const FILL_LIST: &[Fill] = &[Fill { template: "LPUSH {key sequence 100} {value 64}", requests: 1_000_000 }];
const FILL_SET_OF_VALUES: &[Fill] =
    &[Fill { template: "SADD {key sequence 100} {value 64}", requests: 1_000_000 }];
const FILL_SET: &[Fill] =
    &[Fill { template: "SADD {key sequence 100} {key sequence 10007}", requests: 1_000_700 }];

const FILL_STREAMS: &[Fill] =
    &[Fill { template: "XADD {key sequence 100} {count 1000000}-1 field {value 64}", requests: 1_000_000 }];
const CREATE_GROUP: Fill = Fill { template: "XGROUP CREATE stream group 0 MKSTREAM", requests: 1 };
const ADD_TO_STREAM: Fill =
    Fill { template: "XADD stream {count 3000000}-1 field {value 64}", requests: 3_000_000 };
const FILL_GROUP: &[Fill] = &[CREATE_GROUP, ADD_TO_STREAM];
const FILL_PENDING: &[Fill] = &[
    CREATE_GROUP,
    ADD_TO_STREAM,
    Fill { template: "XREADGROUP GROUP group consumer COUNT 1000 STREAMS stream >", requests: 3_000 },
];
const FILL_TO_LIMIT: &[Fill] = &[
    Fill { template: "CONFIG SET maxmemory-policy allkeys-lru maxmemory 60mb", requests: 1 },
    Fill { template: "SET {key sequence 1000000} {value 64}", requests: 1_000_000 },
];
const FILL_ACL: &[Fill] = &[
    Fill { template: "ACL SETUSER default resetkeys ~other ~key* -debug", requests: 1 },
    Fill { template: "SET {key sequence 100000} {value 64}", requests: 100_000 },
];

/// A document of about 100 bytes.
const SET_JSON: &str = r#"JSON.SET {key uniform 100000} $ {{"id":{rand 1000000},"name":"{value 20}","n":{rand 10},"tags":["red","blue"],"o":{{"x":1.5,"y":true,"z":"text"}}"#;
const FILL_JSON: &[Fill] = &[Fill {
    template: r#"JSON.SET {key sequence 100000} $ {{"id":{rand 1000000},"name":"{value 20}","n":{rand 10},"tags":["red","blue"],"o":{{"x":1.5,"y":true,"z":"text"}}"#,
    requests: 100_000,
}];
const FILL_BLOOM: &[Fill] = &[
    Fill { template: "BF.RESERVE filter 0.01 1000000", requests: 1 },
    Fill { template: "BF.ADD filter {key sequence 100000}", requests: 100_000 },
];
const FILL_COUNT_MIN: &[Fill] = &[Fill { template: "CMS.INITBYDIM counts 2000 7", requests: 1 }];
const FILL_TOP_K: &[Fill] = &[Fill { template: "TOPK.RESERVE top 50 2000 7 0.9", requests: 1 }];
const FILL_DIGEST: &[Fill] = &[Fill { template: "TDIGEST.CREATE digest", requests: 1 }];
const FILL_SERIES: &[Fill] = &[Fill {
    template: "TS.ADD {key sequence 100000} {count 3000000} {rand 100} ON_DUPLICATE LAST",
    requests: 300_000,
}];

const FILL_VECTORS: &[Fill] =
    &[Fill { template: "VADD set FP32 {vector 128} {key sequence 10000}", requests: 10_000 }];

const WATCHERS: Beside =
    Beside { connections: 100, sends: &[Fill { template: "WATCH {key uniform 100000}", requests: 100 }] };
const TRACKER: Beside = Beside {
    connections: 1,
    sends: &[
        Fill { template: "CLIENT TRACKING ON", requests: 1 },
        Fill { template: "GET {key sequence 10000}", requests: 10_000 },
    ],
};

/// Every row, in the order of the table.
pub const ROWS: &[Row] = &[
    Row { name: "set-p1", target: 1.4, fill: FILL_100K, template: SET_100K, pipeline: 1, ..PLAIN },
    Row { name: "get-p1", target: 1.4, fill: FILL_100K, template: GET_100K, pipeline: 1, ..PLAIN },
    Row { name: "set-p16", target: 2.4, fill: FILL_100K, template: SET_100K, pipeline: 16, ..PLAIN },
    Row { name: "get-p16", target: 2.4, fill: FILL_100K, template: GET_100K, pipeline: 16, ..PLAIN },
    Row { name: "set-p64", target: 3.2, fill: FILL_100K, template: SET_100K, pipeline: 64, ..PLAIN },
    Row { name: "get-p64", target: 3.2, fill: FILL_100K, template: GET_100K, pipeline: 64, ..PLAIN },
    Row {
        name: "epoll-set-p1",
        target: 1.15,
        backend: "epoll",
        fill: FILL_100K,
        template: SET_100K,
        ..PLAIN
    },
    Row {
        name: "epoll-get-p1",
        target: 1.15,
        backend: "epoll",
        fill: FILL_100K,
        template: GET_100K,
        ..PLAIN
    },
    Row {
        name: "epoll-set-p16",
        target: 1.8,
        backend: "epoll",
        fill: FILL_100K,
        template: SET_100K,
        pipeline: 16,
        ..PLAIN
    },
    Row {
        name: "epoll-get-p16",
        target: 1.8,
        backend: "epoll",
        fill: FILL_100K,
        template: GET_100K,
        pipeline: 16,
        ..PLAIN
    },
    Row {
        name: "get-10m-p16",
        target: 2.0,
        fill: FILL_10M,
        template: "GET {key uniform 10000000}",
        pipeline: 16,
        ..PLAIN
    },
    white_paper("wp-set", 1.99, FILL_1M, "SET {key uniform 1000000} {value 64}"),
    white_paper("wp-get", 2.54, FILL_1M, "GET {key uniform 1000000}"),
    white_paper("wp-zadd", 1.84, FILL_ZSET, "ZADD {key uniform 100} {rand 70000} {key uniform 10000}"),
    white_paper("wp-zscore", 2.73, FILL_ZSET, "ZSCORE {key uniform 100} {key uniform 10007}"),
    white_paper("wp-hset", 2.09, FILL_HASH, "HSET {key uniform 100} {key uniform 10000} {value 64}"),
    white_paper("wp-hget", 2.62, FILL_HASH, "HGET {key uniform 100} {key uniform 10007}"),
    Row { refill: true, ..white_paper("wp-lpush", 1.87, FILL_LIST, "LPUSH {key uniform 100} {value 64}") },
    white_paper("wp-lindex", 2.63, FILL_LIST, "LINDEX {key uniform 100} {rand 10000}"),
    Row {
        refill: true,
        ..white_paper("wp-sadd", 2.09, FILL_SET_OF_VALUES, "SADD {key uniform 100} {value 64}")
    },
    white_paper("wp-sismember", 2.93, FILL_SET, "SISMEMBER {key uniform 100} {key uniform 10007}"),
    Row {
        name: "many-connections",
        target: 0.9,
        kind: Kind::ManyConnections(1000),
        fill: FILL_100K,
        template: GET_100K,
        pipeline: 1,
        ..PLAIN
    },
    Row { name: "idle-connections", target: 4096.0, kind: Kind::IdleConnections(10_000), ..PLAIN },
    Row {
        name: "evalsha",
        target: 2.12,
        fill: &[Fill { template: "EVAL return(redis.call('SET',KEYS[1],ARGV[1])) 1 key value", requests: 1 }],
        template: "EVALSHA 35155eb5f7653c2c49d3770cc58ae533f868174e 1 {key uniform 100000} {value 64}",
        pipeline: 64,
        ..PLAIN
    },
    scripted(
        "script-compare-and-delete",
        "EVALSHA 492ba3147c4d4212d015bc099c3971097a861e31 1 {key uniform 100000} value",
        &[
            Fill { template: "SET {key sequence 100000} value", requests: 100_000 },
            Fill {
                template: "EVAL if\nredis.call('GET',KEYS[1])==ARGV[1]\nthen\nreturn(redis.call('DEL',KEYS[1]))\nelse\nreturn(0)\nend 1 key value",
                requests: 1,
            },
        ],
    ),
    scripted(
        "script-limiter",
        "EVALSHA 0b2f530068e5faa8b177c1e04169393549c5a3a2 1 {key uniform 100000} 100",
        &[Fill {
            template: "EVAL local\nn=redis.call('INCR',KEYS[1])\nif(n==1)then\nredis.call('EXPIRE',KEYS[1],ARGV[1])\nend\nreturn(n) 1 key 100",
            requests: 1,
        }],
    ),
    scripted(
        "script-sliding-window",
        "EVALSHA d48e7d7acd5397776ee3449ff9b2b1a3babcb84c 1 {key uniform 1000} {count 3000000} 10000 100 {value 16}",
        &[Fill {
            template: "EVAL redis.call('ZREMRANGEBYSCORE',KEYS[1],0,ARGV[1]-ARGV[2])\nlocal\nn=redis.call('ZCARD',KEYS[1])\nif(n<tonumber(ARGV[3]))then\nredis.call('ZADD',KEYS[1],ARGV[1],ARGV[4])\nredis.call('PEXPIRE',KEYS[1],ARGV[2])\nreturn(1)\nend\nreturn(0) 1 key 1 10000 100 m",
            requests: 1,
        }],
    ),
    publish("publish-1", 1),
    publish("publish-10", 10),
    publish("publish-100", 100),
    Row { refill: true, ..pipelined("xadd", 2.0, &[], "XADD {key uniform 100} * field {value 64}") },
    pipelined("xrange", 2.0, FILL_STREAMS, "XRANGE {key uniform 100} {rand 1000000} + COUNT 10"),
    Row {
        refill: true,
        ..pipelined("xreadgroup", 2.0, FILL_GROUP, "XREADGROUP GROUP group consumer COUNT 1 STREAMS stream >")
    },
    Row { refill: true, ..pipelined("xack", 2.0, FILL_PENDING, "XACK stream group {count 3000000}-1") },
    pipelined(
        "geosearch",
        1.5,
        &[Fill {
            template: "GEOADD geo {rand 179}.{rand 999999} {rand 84}.{rand 999999} {key sequence 100000}",
            requests: 100_000,
        }],
        "GEOSEARCH geo FROMLONLAT {rand 179}.{rand 99} {rand 84}.{rand 99} BYRADIUS 100 km",
    ),
    pipelined("pfadd", 1.5, &[], "PFADD {key uniform 100} {value 16}"),
    pipelined("set-at-limit", 1.5, FILL_TO_LIMIT, "SET {key uniform 1000000} {value 64}"),
    pipelined("get-at-limit", 1.5, FILL_TO_LIMIT, "GET {key uniform 1000000}"),
    pipelined("get-acl", 1.5, FILL_ACL, GET_100K),
    Row { beside: Some(WATCHERS), ..pipelined("get-watched", 2.4, FILL_100K, GET_100K) },
    Row { beside: Some(TRACKER), ..pipelined("get-tracked", 2.4, FILL_100K, GET_100K) },
    Row {
        threads: 2,
        ..pipelined(
            "eval-declared",
            1.5,
            FILL_100K,
            "EVAL return(redis.call('GET',KEYS[1])) 1 {key uniform 100000}",
        )
    },
    Row {
        threads: 2,
        ..pipelined(
            "eval-undeclared",
            1.5,
            FILL_100K,
            "EVAL return(redis.call('GET',ARGV[1])) 0 {key uniform 100000}",
        )
    },
    Row {
        name: "memory-20-1",
        target: 48.0,
        kind: Kind::BytesPerKey(2_000_000),
        fill: &[Fill { template: "SET prefix{key sequence 2000000} {value 1}", requests: 2_000_000 }],
        ..PLAIN
    },
    Row {
        name: "memory-16-16",
        target: 56.0,
        kind: Kind::BytesPerKey(2_000_000),
        fill: &[Fill { template: "SET xx{key sequence 2000000} {value 16}", requests: 2_000_000 }],
        ..PLAIN
    },
    Row {
        name: "memory-hashes",
        target: 1.3334,
        kind: Kind::Memory(1_000_000),
        fill: &[Fill {
            template: "HSET {key sequence 1000000} f0 {value 4} f1 {value 4} f2 {value 4} f3 {value 4} f4 {value 4} \
                f5 {value 4} f6 {value 4} f7 {value 4} f8 {value 4} f9 {value 4}",
            requests: 1_000_000,
        }],
        ..PLAIN
    },
    Row {
        name: "memory-zset",
        target: 1.3334,
        kind: Kind::Memory(1_000_000),
        fill: &[Fill { template: "ZADD z {rand 1000000} {key sequence 1000000}", requests: 1_000_000 }],
        ..PLAIN
    },
    shape(
        "memory-1k",
        262_144,
        &[Fill { template: "SET {key sequence 262144} {value 1024}", requests: 262_144 }],
    ),
    shape(
        "memory-list",
        1_000_000,
        &[Fill { template: "RPUSH {key sequence 100} {value 16}", requests: 1_000_000 }],
    ),
    shape(
        "memory-numbers",
        1_000_000,
        &[Fill { template: "SADD {key sequence 2000} {count 1000000}", requests: 1_000_000 }],
    ),
    shape(
        "memory-ttl",
        1_000_000,
        &[Fill { template: "SET {key sequence 1000000} {value 8} EX 1{rand 99999}", requests: 1_000_000 }],
    ),
    Row { name: "memory-empty", target: 8.0 * 1024.0 * 1024.0, kind: Kind::EmptyServer, ..PLAIN },
    Row { name: "growth", target: 0.0, kind: Kind::SlowFill, fill: FILL_10M, template: "DBSIZE", ..PLAIN },
    Row {
        name: "big-delete",
        target: 0.0,
        kind: Kind::SlowRequest,
        fill: &[Fill { template: "SADD s {key sequence 5000000}", requests: 5_000_000 }],
        template: "DEL s",
        ..PLAIN
    },
    Row { name: "expiry-lag", target: 20.0, kind: Kind::ExpiryLag, ..PLAIN },
    of_module("json-set", FILL_JSON, SET_JSON),
    of_module("json-get", FILL_JSON, "JSON.GET {key uniform 100000} $.o.z"),
    of_module("json-numincrby", FILL_JSON, "JSON.NUMINCRBY {key uniform 100000} $.n 1"),
    of_module("bf-add", FILL_BLOOM, "BF.ADD filter {key uniform 100000}"),
    of_module("bf-exists", FILL_BLOOM, "BF.EXISTS filter {key uniform 100000}"),
    of_module("cms-incrby", FILL_COUNT_MIN, "CMS.INCRBY counts {key uniform 100000} 1"),
    of_module("topk-add", FILL_TOP_K, "TOPK.ADD top {key uniform 100000}"),
    of_module("tdigest-add", FILL_DIGEST, "TDIGEST.ADD digest {rand 1000000}"),
    of_module("ts-add", FILL_SERIES, "TS.ADD {key uniform 100000} * {rand 100} ON_DUPLICATE LAST"),
    // VADD makes the set grow, which costs more the larger it is.
    Row {
        target: 2.0,
        refill: true,
        ..of_module("vadd", FILL_VECTORS, "VADD set FP32 {vector 128} new{count 1000000000}")
    },
    Row { target: 3.0, ..of_module("vsim", FILL_VECTORS, "VSIM set FP32 {vector 128} NOTHREAD") },
];

const fn white_paper(name: &'static str, target: f64, fill: &'static [Fill], template: &'static str) -> Row {
    Row { name, target, fill, template, pipeline: 64, ..PLAIN }
}

const fn pipelined(name: &'static str, target: f64, fill: &'static [Fill], template: &'static str) -> Row {
    Row { name, target, fill, template, pipeline: 16, ..PLAIN }
}

const fn of_module(name: &'static str, fill: &'static [Fill], template: &'static str) -> Row {
    Row { is_of_module: true, ..pipelined(name, 2.5, fill, template) }
}

/// A script by its digest, at P=64; its text is a part of the fill, without spaces.
const fn scripted(name: &'static str, template: &'static str, fill: &'static [Fill]) -> Row {
    Row { name, target: 2.5, fill, template, pipeline: 64, refill: true, ..PLAIN }
}

/// Resident memory by shape, no more than the peer's; `./x memory-shapes` has all shapes and several peers.
const fn shape(name: &'static str, elements: u64, fill: &'static [Fill]) -> Row {
    Row { name, target: 1.0, kind: Kind::Memory(elements), fill, ..PLAIN }
}

const fn publish(name: &'static str, subscribers: usize) -> Row {
    Row { subscribers, ..pipelined(name, 1.5, &[], "PUBLISH channel {value 64}") }
}
