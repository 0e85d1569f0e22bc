//! Seeds made by rule rather than kept as files: every shape of input that the targets read.

use crate::commands::encode;
use martlet_base::random::Random;
use martlet_cluster::flags::NodeFlags;
use martlet_cluster::id::NodeId;
use martlet_cluster::packet::{Body, Extension, Gossip, Header, Packet, PingKind, Published};
use martlet_command::testing::Fixture;
use martlet_json::document::Document;
use martlet_json::text::parse;
use martlet_json::value::FloatKind;
use martlet_keyspace::ModuleValue;
use martlet_tseries::aggregate::Aggregator;
use martlet_tseries::rule::{Buckets, Rule};
use martlet_tseries::sample::{DuplicatePolicy, Sample};
use martlet_tseries::series::{Series, Settings, label};
use martlet_tseries::store;
use martlet_values::time_series::TimeSeries;
use martlet_values::{Json, Owner, payload};
use martlet_vector::element::Element;
use martlet_vector::graph::{Config, Graph, Metric};
use martlet_vector::quantise::{Encoding, Projection};
use martlet_vector::saved::Saved;

/// Requests in both forms, whole, cut short and malformed; the first byte is the size of the pieces.
pub fn requests() -> Vec<Vec<u8>> {
    let texts: &[&[u8]] = &[
        b"PING\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\na\r\nb\0\r\n",
        b"SET k \"a \\x41\\n\" 'b'\r\nGET k\n",
        b"\r\n*0\r\n*-1\r\n\nPING\r\n",
        b"*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\nPING\r\n",
        b"*1\r\n$-1\r\n",
        b"*x\r\n",
        b"*1\r\n!",
        b"*2147483648\r\n",
        b"*1\r\n$99999999999999999999\r\n",
        b"SET \"k v\r\n",
        b"*2\r\n$3\r\nGET\r\n$10\r\nab",
    ];
    let cut = |text: &&[u8]| [0, 1, 6, 15].map(|piece| [&[piece], *text].concat());
    texts.iter().flat_map(cut).collect()
}

/// Files of users, right and wrong.
pub fn users() -> Vec<Vec<u8>> {
    let texts: &[&[u8]] = &[
        b"user default on nopass ~* &* +@all\n",
        b"user a on >pw #7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed ~a* %R~b %W~c -@all +get\n",
        b"user b off (+set %W~w* &c) ( +get|x %R~r* ) +@read -@string db=1,2\n",
        b"user c resetchannels &x (\"~a)\" +get) clearselectors reset resetpass <a !b\n",
        b"user d (+get\nuser d on\nusr\n",
    ];
    texts.iter().map(|text| text.to_vec()).collect()
}

/// Input of a TLS port: a hello, an alert, other protocols, and requests to be encrypted.
pub fn records() -> Vec<Vec<u8>> {
    let texts: &[&[u8]] = &[
        &crate::tls_records::hello(),
        b"GET / HTTP/1.1\r\n\r\n",
        b"PING\r\n",
        b"\x15\x03\x03\x00\x02\x01\x00",
        b"\x17\x03\x03\x00\x05hello",
        b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
    ];
    // Without a handshake, behind one, and within one's records.
    let spoken = |text: &&[u8]| [[0, 255], [0, 0], [3, 16], [7, 3]].map(|head| [&head, *text].concat());
    texts.iter().flat_map(spoken).collect()
}

/// Replies of every type.
pub fn replies() -> Vec<Vec<u8>> {
    let texts: &[&[u8]] = &[
        b"+OK\r\n",
        b"-ERR no\r\n",
        b":-12\r\n",
        b"$3\r\nabc\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"_\r\n",
        b"*2\r\n:1\r\n*1\r\n$0\r\n\r\n",
        b"%1\r\n+a\r\n~1\r\n,1.5\r\n",
        b">2\r\n#t\r\n(123\r\n",
        b"=5\r\ntxt:a\r\n",
        b"|1\r\n+ttl\r\n:5\r\n$1\r\nv\r\n",
    ];
    texts.iter().map(|text| text.to_vec()).collect()
}

/// Programs of commands, a family or two each.
const PROGRAMS: &[&[&str]] = &[
    &[
        "XADD k 1-1 a 1 b two",
        "XADD k MAXLEN ~ 2 LIMIT 5 1-* a 3",
        "XADD k NOMKSTREAM * c -7",
        "XRANGE k - + COUNT 2",
        "XREVRANGE k + (1-1",
        "XTRIM k MINID = 1-2",
        "XSETID k 1800000000000-0 ENTRIESADDED 9 MAXDELETEDID 1-1",
        "XINFO STREAM k FULL COUNT 1",
    ],
    &[
        "XGROUP CREATE k g $ MKSTREAM",
        "XADD k 1-1 a 1",
        "XREADGROUP GROUP g c COUNT 1 BLOCK 5 STREAMS k >",
        "XCLAIM k g d 0 1-1 FORCE RETRYCOUNT 3 LASTID 1-1",
        "XAUTOCLAIM k g e 0 - COUNT 9 JUSTID",
        "XPENDING k g IDLE 0 - + 9 e",
        "XACK k g 1-1",
        "XGROUP SETID k g 0 ENTRIESREAD 0",
        "XREAD COUNT 1 STREAMS k 0",
        "XGROUP DELCONSUMER k g c",
        "XGROUP DESTROY k g",
    ],
    &[
        "SET k value EX 100",
        "GET k",
        "APPEND k b",
        "GETRANGE k 0 -1",
        "SETRANGE k 10 a",
        "STRLEN k",
        "GETDEL k",
    ],
    &[
        "SET k 10",
        "INCR k",
        "INCRBY k 9223372036854775807",
        "DECRBY k 3",
        "INCRBYFLOAT k 1.5",
        "SETBIT k 100 1",
    ],
    &[
        "MSET a 1 b 2",
        "MGET a b c",
        "MSETNX a 1 c 2",
        "LCS a b IDX",
        "BITOP XOR c a b",
        "BITCOUNT c 0 -1 BIT",
    ],
    &["BITFIELD k SET u8 #1 100 OVERFLOW SAT INCRBY i64 0 10", "BITPOS k 1 0 -1 BIT", "GETEX k PX 1000"],
    &[
        "RPUSH l a b c",
        "LINSERT l BEFORE b 1",
        "LPOS l a RANK -1 COUNT 0",
        "LRANGE l 0 -1",
        "LREM l 0 a",
        "LTRIM l 1 2",
    ],
    &["RPUSH l a b c", "LMOVE l m LEFT RIGHT", "LMPOP 2 l m LEFT COUNT 10", "LSET m 0 value", "LPOP m 2"],
    &[
        "SADD s 1 2 3",
        "SADD m 2 a",
        "SINTERSTORE a s m",
        "SUNION s m",
        "SDIFF s m",
        "SMOVE s m 1",
        "SPOP m 1",
    ],
    &["HSET h a 1 b 2 field value", "HINCRBY h a 10", "HGETALL h", "HRANDFIELD h -2 WITHVALUES", "HDEL h a"],
    &[
        "HSET h a 1 b 2",
        "HEXPIRE h 100 FIELDS 2 a b",
        "HTTL h FIELDS 1 a",
        "HPERSIST h FIELDS 1 a",
        "HPEXPIRE h 10 FIELDS 1 b",
    ],
    &[
        "SADD s a 1 b",
        "SEXPIRE s 100 NX MEMBERS 2 a b",
        "STTL s MEMBERS 1 a",
        "SPERSIST s MEMBERS 1 a",
        "SADDEX s PX 10 MEMBERS 2 a c",
        "SPOP s",
    ],
    &["HSET h a 1", "HGETEX h EX 100 FIELDS 1 a", "HSETEX h PX 10 FIELDS 1 b 2", "HGETDEL h FIELDS 1 a"],
    &[
        "ARSET a 5 x 2.5 3",
        "ARMSET a 9000000 y 0 z",
        "ARDELRANGE a 6 5 9000000 9000000",
        "ARGETRANGE a 8 0",
        "ARGREP a - + RE ^(x|z){1,2}$ GLOB ?.* NOCASE WITHVALUES LIMIT 2",
        "AROP a 0 9 SUM",
        "ARINFO a FULL",
    ],
    &[
        "ARRING r 3 a b c d",
        "ARRING r 5 e",
        "ARINSERT r f g",
        "ARSEEK r 18446744073709551615",
        "ARLASTITEMS r 9 REV",
        "ARSCAN r 9 0 LIMIT 3",
        "ARDEL r 0 1 2",
    ],
    &["ZADD z 1 a 2 b 1.5 c", "ZRANGE z (1 +inf BYSCORE LIMIT 0 10", "ZINCRBY z 3 a", "ZRANK z a WITHSCORE"],
    &[
        "ZADD z 0 a 0 b 0 c",
        "ZRANGE z - + BYLEX REV",
        "ZLEXCOUNT z [a (c",
        "ZREMRANGEBYLEX z - [a",
        "ZPOPMAX z 2",
    ],
    &[
        "ZADD z 1 a 2 b",
        "ZADD m 3 a",
        "ZUNIONSTORE c 2 z m WEIGHTS 2 3",
        "ZINTER 2 z m WITHSCORES",
        "ZDIFF 2 z m",
    ],
    &[
        "SET k value",
        "COPY k a REPLACE",
        "RENAME a b",
        "EXPIRE b 10 NX",
        "PEXPIRE b 1000 GT",
        "TTL b",
        "DEL k b",
    ],
    &[
        "JSON.SET k $ [1,2,\"x\"] FPHA FP16",
        "JSON.SET k $ {\"a\":1,\"b\":{\"a\":[1,2]}}",
        "JSON.NUMINCRBY k $..* 1.5",
        "JSON.ARRAPPEND k $..* null",
        "JSON.GET k FORMAT EXPAND $..*",
        "JSON.MERGE k $ {\"a\":1,\"b\":{\"a\":[1,2]}}",
        "JSON.DEL k $..a[0]",
        "JSON.DEBUG MEMORY k $..*",
        "JSON.RESP k",
    ],
    &[
        "RPUSH l 3 1 2",
        "SORT l DESC LIMIT 0 2 STORE m",
        "SORT l BY w_* GET # ALPHA",
        "SCAN 0 MATCH * COUNT 10",
        "DUMP l",
    ],
];

/// Programs of sketches; each makes the key `k`.
const SKETCHES: &[&[&str]] = &[
    &[
        "BF.RESERVE k 0.1 3 EXPANSION 2",
        "BF.MADD k a b c d",
        "BF.INSERT k NOCREATE ITEMS e",
        "BF.MEXISTS k a z",
        "BF.INFO k",
        "BF.SCANDUMP k 1",
        "BF.LOADCHUNK k 3 ab",
        "BF.DEBUG k",
    ],
    &[
        "CF.RESERVE k 4 BUCKETSIZE 2",
        "CF.INSERT k ITEMS a b c",
        "CF.ADD k a",
        "CF.ADDNX k d",
        "CF.DEL k a",
        "CF.COUNT k b",
        "CF.COMPACT k",
        "CF.SCANDUMP k 1",
        "CF.LOADCHUNK k 3 ab",
    ],
    &["CMS.INITBYDIM k 5 3", "CMS.INCRBY k a 3 b 100", "CMS.MERGE k 2 k k WEIGHTS 1 2", "CMS.QUERY k a c"],
    &["FT.SUGADD k ab 1 PAYLOAD p", "FT.SUGADD k Abc 2.5", "FT.SUGADD k b 1 INCR", "FT.SUGGET k a FUZZY"],
    &[
        "TOPK.RESERVE k 2 3 2 0.5",
        "TOPK.ADD k a b c a",
        "TOPK.INCRBY k b 10",
        "TOPK.LIST k",
        "TOPK.COUNT k b",
    ],
    &[
        "TDIGEST.CREATE k COMPRESSION 3",
        "TDIGEST.ADD k 1 2 3 1.5 10",
        "TDIGEST.QUANTILE k 0.5 1",
        "TDIGEST.MERGE k 1 k",
        "TDIGEST.RANK k 2",
        "TDIGEST.BYREVRANK k 1",
        "TDIGEST.TRIMMED_MEAN k 0.1 0.9",
    ],
];

/// Programs over the command table; names that it does not have are left out.
pub fn commands() -> Vec<Vec<u8>> {
    PROGRAMS.iter().chain(SKETCHES).map(|program| encode(program)).collect()
}

/// The value of `k` that a program leaves, as it is encoded.
fn value_of(program: &[&str]) -> Vec<u8> {
    let mut fixture = Fixture::new();
    for request in program {
        fixture.run(request);
    }
    let reply = fixture.run_args(&["DUMP", "k"]);
    let body = reply.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    reply.get(body..reply.len().saturating_sub(12)).unwrap_or_default().to_vec()
}

/// Encoded values: of real servers, and of types that are only read.
pub fn payloads() -> Vec<Vec<u8>> {
    let lines = include_str!("../../crates/values/tests/redis_7_0.txt").lines();
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
    let recorded = lines.filter_map(|line| line.split_once(' ')).map(|(_, hex)| {
        let bytes: Vec<u8> =
            hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect();
        bytes[..bytes.len() - 10].to_vec()
    });
    let others: [&[u8]; 8] = [
        b"\x13\x01\x10\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01@AA\0\0\0\x19\0\x02\x01\x01\x01\x02\x01\x81a\x02\x81b\x02\
          \0\x01\x02\x01\0\x01\0\x01\x01\x01\x83two\x04\x05\x01\x03\x01\0\x01\x01\x01\x02\x01\x81x\x02\x05\x01\0\x01\x01\
          \x01\xdf\xff\x02\x01\x01\x81c\x02\x03\x01\x06\x01\xff\x02\x02\0\x01\x01\x01\x02\x03\x01\x01g\x01\x01\x81\xff\xff\xff\
          \xff\xff\xff\xff\xff\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\x17\xb6\x0a\x0a\xa2\x01\0\0\x01\x02\x02al\
          \x1b\xb6\x0a\x0a\xa2\x01\0\0\0\x03bob\x17\xb6\x0a\x0a\xa2\x01\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01",
        b"\x17\x02\x00\x01\x04root\x05value\x03abc\x02\x02f1\x02v1\x02f2\xc0\x07",
        b"\x01\x02\x01a\xc0\x05",
        b"\x03\x03\x01a\x031.5\x01b\xfe\x01c\xff",
        b"\x09\x12\x02\x03foo\x03\x00bar\x01b\x05\x00hello\xff",
        b"\x0a\x12\x12\0\0\0\x0e\0\0\0\x02\0\0\x02ab\x04\xf5\xff",
        b"\x18\0\0\0\0\x01\0\0\0\x02\x01\x01f\x01v\0\x01g\x01w",
        b"\x1c\x04\x01\x08\x01\x01\x07\0\0\0\0\0\0\0\x02\x02\0\0\0\0\0\0\x04@A,\x03\x02abA-\0\x09long text",
    ];
    let others = others.map(<[u8]>::to_vec).into_iter().chain(saved_documents()).chain(time_series());
    let others = others.chain(SKETCHES.iter().map(|program| value_of(program)));
    recorded.filter(|bytes| bytes.len() < 2048).chain(others).collect()
}

/// Encoded values of Redis 8's types.
pub fn module_payloads() -> Vec<Vec<u8>> {
    let sketches = SKETCHES.iter().map(|program| value_of(program));
    let vectors = [
        &["VADD k VALUES 3 1 2 3 e0", "VADD k VALUES 3 3 1 2 e1 SETATTR [1]", "VADD k VALUES 3 1 1 2 e2"][..],
        &["VADD k REDUCE 2 VALUES 3 1 2 3 e0 NOQUANT M 4", "VADD k REDUCE 2 VALUES 3 3 1 2 e1 NOQUANT M 4"],
        &["VADD k VALUES 3 1 -2 3 e0 BIN", "VADD k VALUES 3 3 1 -2 e1 BIN"],
    ];
    let vectors = vectors.map(value_of);
    saved_documents().into_iter().chain(time_series()).chain(sketches).chain(vectors).collect()
}

/// JSON documents as text, and as CBOR with an array of short floats.
fn saved_documents() -> Vec<Vec<u8>> {
    let saved = [None, Some(FloatKind::Bf16)].map(|floats| {
        let text = br#"{"a":[1.5,2],"b":{"c":[true,null]},"text":"a longer text","u":18446744073709551615}"#;
        let document = parse(text, floats).and_then(Document::new).ok()?;
        let payload = payload::dump(ModuleValue::new(Json(document)).view(), false);
        payload.len().checked_sub(10).map(|end| payload[..end].to_vec())
    });
    saved.into_iter().flatten().collect()
}

/// Time series of both encodings with labels, and with a rule whose bucket is open.
fn time_series() -> Vec<Vec<u8>> {
    [store::Encoding::Compressed, store::Encoding::Uncompressed].map(series).into()
}

fn series(encoding: store::Encoding) -> Vec<u8> {
    let labels: Vec<_> = label(b"room", b"kitchen").into_iter().collect();
    let settings = Settings { chunk_bytes: 48, labels: labels.into(), ..Settings::default() };
    let Ok(mut series) = Series::new(encoding, settings) else { return Vec::new() };
    if let Ok(buckets) = Buckets::new(10, 3) {
        series.add_rule(Rule::new(b"to", Aggregator::Twa, buckets));
    }
    for time in 0..30 {
        let sample = Sample::new(time * 5, time as f64 / 4.0);
        // It is later than all before.
        let _ = series.add(sample, None, DuplicatePolicy::Block, &mut Vec::new());
    }
    let owner = Owner { key: b"k", has_links: true };
    let payload = payload::dump_of(owner, ModuleValue::new(TimeSeries(series)).view(), false);
    payload[..payload.len() - 10].to_vec()
}

/// Whole RDB files: of real servers, and of our own encoded values one by one, in several versions.
pub fn files() -> Vec<Vec<u8>> {
    let recorded: [&[u8]; 2] = [
        include_bytes!("../../crates/values/tests/redis_7_0.rdb"),
        include_bytes!("../../crates/values/tests/valkey_8.rdb"),
    ];
    let small = payloads().into_iter().flat_map(|value| {
        [b"REDIS0003", b"REDIS0014", b"VALKEY080", b"VALKEY081"].map(|header| {
            let (kind, value) = value.split_at(1);
            let before: &[u8] = b"\xfa\x01a\x01b\xfe\x02\xfb\x01\x00\xfc\0\0\0\0\0\x01\0\0\xf9\x07";
            [header, before, kind, b"\x03key", value, b"\xf8\x05\x00\x01s\xc0\x07\xff\0\0\0\0\0\0\0\0"]
                .concat()
        })
    });
    // Templates, and a hash of each form that names one by number.
    let templates: &[u8] = b"REDIS0015\xf2\x03\x02\x01a\x01b\xf2\x00\x01\x01c\xfe\x00\x00\x01z\x01z\
        \x1e\x01x\x0d\x0d\0\0\0\x03\0\x03\x01\x01\x01\x02\x01\xff\xfc\0\0\0\0\0\x01\0\0\x20\x01y\x00\x03one\
        \x1d\x01s\x00\x0d\x0d\0\0\0\x02\0\x81a\x02\x81b\x02\xff\x0d\x0d\0\0\0\x03\0\x05\x01\x01\x01\x02\x01\xff\
        \x1f\x01r\x01\x02\x01a\x01b\x01x\x01y\xff\0\0\0\0\0\0\0\0";
    recorded.into_iter().chain([templates]).map(<[u8]>::to_vec).chain(small).collect()
}

fn command(words: &[&str]) -> String {
    let mut bytes = Vec::new();
    martlet_journal::encode(&mut bytes, words.iter().map(|word| word.as_bytes()));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Files of commands, and manifests.
pub fn logs() -> Vec<Vec<u8>> {
    let set = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\n\r\n1\r\n";
    [
        format!("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n{set}*1\r\n$5\r\nMULTI\r\n{set}{set}*1\r\n$4\r\nEXEC\r\n"),
        format!("#TS:1700000000\r\n{set}# a comment\n{set}*1\r\n$4\r\nPI"),
        [
            &["SELECT", "3"][..],
            &["RPUSH", "l", "a", "b"],
            &["MULTI"],
            &["LPOP", "l"],
            &["SELECT", "0"],
            &["EXEC"],
        ]
        .into_iter()
        .chain([
            &["PEXPIREAT", "l", "1"][..],
            &["HSET", "h", "f", "v"],
            &["HPEXPIREAT", "h", "9", "FIELDS", "1", "f"],
        ])
        .chain([
            &["SETEX", "k", "10", "v"][..],
            &["ZADD", "z", "1.5", "m"],
            &["SPOP", "s"],
            &["SETRANGE", "k", "9", "x"],
        ])
        .map(command)
        .collect(),
        "*1\r\n$536870912\r\nabc".into(),
        "*1048576\r\n$1\r\na\r\n".into(),
        "file a.1.base.rdb seq 1 type b\nfile a.1.incr.aof seq 1 type i\nfile a.0.incr.aof seq 1 type h\n"
            .into(),
        "# x\nfile \"a \\x00b\" seq 2 type i startoffset 7\n".into(),
    ]
    .map(String::into_bytes)
    .to_vec()
}

/// Choices of programs: a few for each kind of call, from which the generator continues.
pub fn choices() -> Vec<Vec<u8>> {
    (0..=255u8).step_by(3).map(|first| vec![0, first, first.wrapping_mul(7), first / 3]).collect()
}

/// JSON, MessagePack, and formats of records with data behind them.
pub fn documents() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 12] = [
        br#"{"a":[1,2.5e3,-0.1,true,false,null],"b":{"c":"\u00e9\ud83d\ude00\n"}}"#,
        br#"[[],{},"",0x1F,inf,nan,+1,01,[1 2]]"#,
        b"\x83\xa1a\x01\xa1b\x92\xc0\xc3\xa1c\xcb\x3f\xf0\0\0\0\0\0\0",
        b"\xdc\0\x02\xcc\xff\xd1\xff\0",
        b"\xde\0\x01\xda\0\x01k\xca\x3f\x80\0\0",
        b"\xdf\xff\xff\xff\xff\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
        b"<i4>h!4bdfs\n0123456789abcdefghij",
        b"bc0\n\x03abc",
        b"i32I16lLT\n",
        b"!8x x c5 s\nabcdefgh\0",
        b"i99999999999\n",
        b"[[[[[[[[[[",
    ];
    texts.iter().map(|text| text.to_vec()).collect()
}

/// Packets of the cluster bus: each kind, with and without gossip and extensions, and two in one stream.
pub fn bus_packets() -> Vec<Vec<u8>> {
    let id = NodeId::random(&mut Random::seeded(1));
    let header = Header {
        sender: id,
        port: 6379,
        other_port: 0,
        bus_port: 16379,
        current_epoch: 7,
        config_epoch: 3,
        offset: 1 << 40,
        slots: (0..5461).collect(),
        primary: Some(id),
        address: "10.0.0.1".into(),
        flags: NodeFlags::PRIMARY.with(NodeFlags::MYSELF),
        is_down: true,
        is_paused: false,
        forces_vote: true,
        knows_extensions: true,
        is_martlet: true,
    };
    let gossip = Gossip {
        node: id,
        ping_sent_s: 0,
        pong_received_s: 1_700_000_000,
        address: "::1".into(),
        port: 6380,
        other_port: 6381,
        bus_port: 16380,
        flags: NodeFlags::REPLICA,
    };
    let extensions = vec![
        Extension::HostName("a.example".into()),
        Extension::NodeName("n".into()),
        Extension::Forgotten(id, 60),
        Extension::ShardId(id),
        Extension::ClientIpv4("10.0.0.2".into()),
        Extension::ClientIpv6("::2".into()),
        Extension::ClientPort(7000),
        Extension::ClientTlsPort(7001),
        Extension::AvailabilityZone("z".into()),
        Extension::Other(9, vec![1; 16]),
    ];
    let published = |is_sharded| Published { channel: b"c".to_vec(), message: b"hello".to_vec(), is_sharded };
    let bodies = vec![
        Body::Ping { kind: PingKind::Ping, gossip: vec![gossip; 2], extensions },
        Body::Ping { kind: PingKind::Meet, gossip: vec![], extensions: vec![] },
        Body::Fail(id),
        Body::Publish(published(false)),
        Body::VoteRequest,
        Body::Vote,
        Body::Update { node: id, config_epoch: 9, slots: [1, 16_383].into_iter().collect() },
        Body::ManualFailover,
        Body::Module,
    ];
    let full = bodies.into_iter().map(|body| Packet::Full(Box::new(header.clone()), body).encode());
    let mut seeds: Vec<Vec<u8>> = full.collect();
    let light = Packet::Light(published(true)).encode();
    seeds.push([&light[..], &light].concat());
    seeds
}

/// Files of nodes, with all that a line can have, and a malformed one.
pub fn nodes_files() -> Vec<Vec<u8>> {
    let ids: Vec<String> = (1..4).map(|seed| NodeId::random(&mut Random::seeded(seed)).to_string()).collect();
    let fields =
        "a.example,availability-zone=z,client-tcp-port=7,client-ipv6=::2,client-ipv4=1.2.3.4,tls-port=0";
    let whole = format!(
        "{0} 10.0.0.1:1@2,{fields},nodename=n,shard-id={2} \
         myself,master - 0 0 3 connected 0-9 12 [3->-{1}] [99-<-{1}]\n\
         {1} ::1:3@4,,shard-id={2} slave,fail? {0} 5 6 3 disconnected\n\
         vars currentEpoch 4 lastVoteEpoch 3\n",
        ids[0], ids[1], ids[2]
    );
    let old = format!(
        "{0} :6379 myself,slave,nofailover {1} 0 0 0 connected\n{1} 10.0.0.1:1@2,h noflags - 0 0 1 x 5",
        ids[0], ids[1]
    );
    vec![whole.into_bytes(), old.into_bytes(), b"vars currentEpoch".to_vec()]
}

/// Saved vector sets of every encoding, and filters with attributes.
pub fn vector_sets() -> Vec<Vec<u8>> {
    let encodings = [Encoding::F32, Encoding::Q8, Encoding::Bin];
    let sets = encodings.iter().flat_map(|encoding| [1, 2, 9, 40].map(|count| vector_set(*encoding, count)));
    let filters: &[&[u8]] = &[
        b".x > 1 and .s == \"a\"\n{\"x\": 2, \"s\": \"a\"}",
        b"!(.x in [1, 'b', -2.5e3]) || .y ** 2 % 3 != null\n{\"y\": 1e3, \"x\": [1, [null, true]]}",
        b"'a' in .s && \"\\\"b\" in .s or not .n\n{\"n\": null, \"o\": {\"s\": [\"}\"]}, \"s\": \"\\\"b\\n\"}",
        b"(.a - -1) * 2 / .b <= 0x10\n{\"a\": +5., \"b\": \"0x1p3\"}",
    ];
    sets.chain(filters.iter().map(|text| [b"\x01", *text].concat())).collect()
}

fn vector_set(encoding: Encoding, count: usize) -> Vec<u8> {
    let mut random = Random::seeded(count as u64);
    let config = Config { dimension: 3, encoding, metric: Metric::Cosine, m: 4, seed: 5 };
    let graph = Graph::new(config).expect("the configuration is valid");
    for index in 0..count {
        let components = [(); 3].map(|()| random.unit_f64() as f32 - 0.5);
        let attribute = (count > 2).then_some(&b"{\"x\":1}"[..]);
        let element = Element::new(format!("e{index}").as_bytes(), attribute);
        graph.insert(&components, element, 20).expect("the vector fits");
    }
    let projection = Projection::new(4, 3).filter(|_| count == 9);
    let mut seed = vec![0];
    seed.extend(crate::vector_set::encode_fields(&Saved { graph, projection }));
    seed
}
