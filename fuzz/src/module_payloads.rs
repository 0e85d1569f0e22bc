//! Payloads of Redis 8's types that RESTORE gets, under every command that reads or changes such values: no
//! panic, one well-formed reply each, and the value still saved and read.
//!
//! The fixture itself checks that a command that fails, or only reads, has changed nothing.

use martlet_client::resp::{Reply, decode};
use martlet_command::testing::Fixture;
use martlet_values::payload;

use crate::rdb_payload::sealed;

/// Longest string that a command may make here, in bytes.
const STRING_MAX_BYTES: usize = 1 << 16;

/// Bytes, or items, of a filter that is large.
const LARGE: i64 = 1 << 24;

/// Requests about `k` by the name that TYPE has for it; questions come before changes.
const REQUESTS: &[(&str, &[&str])] = &[
    (
        "ReJSON-RL",
        &[
            "JSON.GET k",
            "JSON.GET k $..* .",
            "JSON.GET k FORMAT EXPAND $..*",
            "JSON.MGET k k $..a",
            "JSON.TYPE k $..*",
            "JSON.RESP k $..*",
            "JSON.OBJKEYS k $..*",
            "JSON.OBJLEN k $..*",
            "JSON.ARRLEN k $..*",
            "JSON.STRLEN k $..*",
            "JSON.ARRINDEX k $..* 1",
            "JSON.DEBUG MEMORY k $..*",
            "JSON.NUMINCRBY k $..* 1.5",
            "JSON.NUMMULTBY k $..* 2",
            "JSON.NUMPOWBY k $..* 2",
            "JSON.STRAPPEND k $..* \"x\"",
            "JSON.TOGGLE k $..*",
            "JSON.ARRAPPEND k $..* [1] 300",
            "JSON.ARRINSERT k $..* 0 {\"a\":1.5}",
            "JSON.ARRPOP k $..* 1",
            "JSON.ARRTRIM k $..* 0 1",
            "JSON.MERGE k $ {\"a\":{\"b\":null},\"c\":[]}",
            "JSON.SET k $..a {\"a\":1}",
            "JSON.MSET k $..b 5 k $.new 6",
            "JSON.DEL k $..a",
            "JSON.CLEAR k $..*",
            "JSON.FORGET k $..*",
        ],
    ),
    (
        "MBbloom--",
        &[
            "BF.EXISTS k a",
            "BF.MEXISTS k a b",
            "BF.CARD k",
            "BF.INFO k",
            "BF.DEBUG k",
            "BF.SCANDUMP k 0",
            "BF.SCANDUMP k 1",
            "BF.SCANDUMP k 9",
            "BF.ADD k a",
            "BF.MADD k a b c d e f g",
            "BF.INSERT k NOCREATE ITEMS x y",
            "BF.LOADCHUNK k 2 ab",
        ],
    ),
    (
        "MBbloomCF",
        &[
            "CF.EXISTS k a",
            "CF.MEXISTS k a b",
            "CF.COUNT k a",
            "CF.INFO k",
            "CF.DEBUG k",
            "CF.SCANDUMP k 0",
            "CF.SCANDUMP k 1",
            "CF.ADD k a",
            "CF.ADDNX k b",
            "CF.INSERT k NOCREATE ITEMS a a a a a a",
            "CF.INSERTNX k NOCREATE ITEMS c d",
            "CF.DEL k a",
            "CF.COMPACT k",
            "CF.LOADCHUNK k 2 ab",
        ],
    ),
    (
        "CMSk-TYPE",
        &[
            "CMS.QUERY k a b",
            "CMS.INFO k",
            "CMS.INCRBY k a 1 b 9223372036854775807",
            "CMS.INCRBY k a 4294967295",
            "CMS.MERGE k 2 k k WEIGHTS 2 1",
            "CMS.MERGE k 1 k WEIGHTS -1",
        ],
    ),
    (
        "trietype0",
        &[
            "FT.SUGLEN k",
            "FT.SUGGET k a",
            "FT.SUGGET k ab FUZZY WITHSCORES WITHPAYLOADS MAX 100",
            "FT.SUGGET k a TRIM MAX 4294967295",
            "FT.SUGADD k a 1e38 INCR PAYLOAD p",
            "FT.SUGADD k ab -inf",
            "FT.SUGDEL k a",
        ],
    ),
    (
        "TopK-TYPE",
        &[
            "TOPK.QUERY k a b",
            "TOPK.COUNT k a b",
            "TOPK.LIST k",
            "TOPK.LIST k WITHCOUNT",
            "TOPK.INFO k",
            "TOPK.ADD k a b c d a",
            "TOPK.INCRBY k a 100000 e 1",
        ],
    ),
    (
        "TDIS-TYPE",
        &[
            "TDIGEST.INFO k",
            "TDIGEST.MIN k",
            "TDIGEST.MAX k",
            "TDIGEST.QUANTILE k 0 0.5 1",
            "TDIGEST.CDF k 1 2 inf",
            "TDIGEST.RANK k 1 -1",
            "TDIGEST.REVRANK k 1 -1",
            "TDIGEST.BYRANK k 0 1 9223372036854775807",
            "TDIGEST.BYREVRANK k 0 1 9223372036854775807",
            "TDIGEST.TRIMMED_MEAN k 0.1 0.9",
            "TDIGEST.ADD k 1 2 -1e300 1e300",
            "TDIGEST.MERGE k 2 k k",
            "TDIGEST.MERGE k 1 k COMPRESSION 5 OVERRIDE",
            "TDIGEST.QUANTILE k 0.3",
            "TDIGEST.RESET k",
        ],
    ),
    (
        "TSDB-TYPE",
        &[
            "TS.INFO k DEBUG",
            "TS.GET k LATEST",
            "TS.RANGE k - + LATEST",
            "TS.REVRANGE k - + FILTER_BY_VALUE 0 10 COUNT 5",
            "TS.RANGE k - + AGGREGATION twa 1000000000000 EMPTY COUNT 9",
            "TS.RANGE k 0 1000 AGGREGATION avg,std.s,last,count 10 EMPTY",
            "TS.REVRANGE k 0 1000 ALIGN 3 AGGREGATION range 7 BUCKETTIMESTAMP mid",
            "TS.NRANGE 1 k - +",
            "TS.MRANGE - + WITHLABELS FILTER l=v",
            "TS.MGET LATEST WITHLABELS FILTER l=(v,w)",
            "TS.QUERYINDEX l=v",
            "TS.QUERYLABELS VALUES l",
            "TS.ADD k 9007199254740991 1 ON_DUPLICATE SUM",
            "TS.ADD k 5 1 ON_DUPLICATE LAST",
            "TS.MADD k 6 1 k 9007199254740992 NaN",
            "TS.INCRBY k 1 TIMESTAMP 9007199254740993",
            "TS.DECRBY k 1",
            "TS.CREATE to",
            "TS.CREATERULE k to AGGREGATION var.s 10",
            "TS.ADD k 9007199254741993 1",
            "TS.GET to LATEST",
            "TS.DEL k 0 100",
            "TS.ALTER k RETENTION 1000 CHUNK_SIZE 128 DUPLICATE_POLICY MIN LABELS a b",
            "TS.ADD k * 1",
            "TS.DELETERULE k to",
            "TS.DEL k - +",
        ],
    ),
    (
        "vectorset",
        &[
            "VCARD k",
            "VDIM k",
            "VINFO k",
            "VRANGE k - + 5",
            "VRANDMEMBER k -5",
            "VISMEMBER k e1",
            "VEMB k e1",
            "VEMB k e1 RAW",
            "VLINKS k e1 WITHSCORES",
            "VGETATTR k e1",
            "VSIM k ELE e1 WITHSCORES WITHATTRIBS COUNT 50",
            "VSIM k ELE e1 TRUTH EPSILON 0.5",
            "VSIM k VALUES 3 1 2 3 FILTER .x>0 FILTER-EF 20 NOTHREAD",
            "VSETATTR k e1 {\"x\":2}",
            "VADD k VALUES 3 1 2 3 new",
            "VADD k VALUES 3 3 1 2 e1 EF 20",
            "VREM k e1",
            "VREM k e0",
            "VSIM k VALUES 3 1 1 1",
        ],
    ),
];

/// Requests about a value of any type.
const OF_ANY: &[&str] = &[
    "OBJECT ENCODING k",
    "MEMORY USAGE k",
    "SCAN 0 COUNT 100",
    "COPY k copy REPLACE",
    "RENAME copy c",
    "EXPIRE c 100",
    "SORT k",
    "GET k",
];

/// The input is type byte and value; version and checksum are added.
pub fn check(data: &[u8]) {
    let mut fixture = Fixture::new();
    fixture.deny_blocking = true;
    fixture.settings.string_max_bytes = STRING_MAX_BYTES;
    let payload = sealed(data, payload::VERSION_MAX);
    if one_reply(&mut fixture, &[b"RESTORE", b"k", b"0", &payload]).is_error() {
        return;
    }
    let kind = one_reply(&mut fixture, &[b"TYPE", b"k"]);
    let requests = REQUESTS.iter().find(|(name, _)| kind.text() == Some(name.as_bytes()));
    let requests = requests.map_or(&[][..], |(_, requests)| requests);
    for request in requests.iter().chain(OF_ANY) {
        let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        one_reply(&mut fixture, &words);
    }
    if is_large(&mut fixture, kind.text()) {
        return;
    }
    // It may be gone: a series' last sample, a filter that is compacted.
    let dumped = one_reply(&mut fixture, &[b"DUMP", b"k"]);
    let Some(dumped) = dumped.text().map(<[u8]>::to_vec) else { return };
    let restored = one_reply(&mut fixture, &[b"RESTORE", b"again", b"0", &dumped]);
    assert!(!restored.is_error(), "{restored:?} of its own {}", dumped.escape_ascii());
}

/// Whether a filter has grown, by the capacity that its payload announced, so that saving it would be slow.
fn is_large(fixture: &mut Fixture, kind: Option<&[u8]>) -> bool {
    let question: &[u8] = match kind {
        Some(b"MBbloom--") => b"BF.INFO",
        Some(b"MBbloomCF") => b"CF.INFO",
        _ => return false,
    };
    let facts = one_reply(fixture, &[question, b"k"]);
    facts.items().unwrap_or_default().iter().any(|fact| fact.integer() > Some(LARGE))
}

fn one_reply(fixture: &mut Fixture, words: &[&[u8]]) -> Reply {
    let bytes = fixture.run_args(words);
    match decode(&bytes) {
        Ok(Some((reply, length))) if length == bytes.len() => reply,
        other => panic!("{:?} answered {:?}: {other:?}", words, String::from_utf8_lossy(&bytes)),
    }
}
