//! Strings, numbers and bitmaps, and strings of 256 MB.

use super::{Before, Group, PLAIN, Row, first, of, row};

const KEYS: Before = first(10_000, "SET k{count 10000} {value 16}");
const MILLION_BYTES: Before = first(1, "SET big {value 350000}{value 350000}{value 348576}");
const SET_THOUSAND: Before = first(1, "MSET 1000*(m# {value 16})");
const THOUSAND: &[Before] = &[SET_THOUSAND];

/// Strings of 16 bytes, and one of 1 MB.
pub const STRINGS: Group = Group {
    name: "strings",
    fill: &[KEYS, MILLION_BYTES, first(1, "MSET la {value 2000} lb {value 2000} number 1"), SET_THOUSAND],
    rows: STRING_ROWS,
    ..PLAIN
};

const STRING_ROWS: &[Row] = &[
    row("GET x 10000 pipelined", 10_000, "GET k{rand 10000}"),
    row("SET x 10000 pipelined", 10_000, "SET k{rand 10000} {value 16}"),
    row("SET EX", 10_000, "SET e{rand 10000} {value 16} EX 100"),
    row("SETNX", 10_000, "SETNX n{rand 1000000000} {value 16}"),
    row("SETEX x 10000", 10_000, "SETEX e{rand 10000} 100 {value 16}"),
    row("PSETEX", 10_000, "PSETEX e{rand 10000} 100000 {value 16}"),
    row("GETSET", 10_000, "GETSET k{rand 10000} {value 16}"),
    row("GETDEL, SET", 10_000, "GETDEL k1 ; SET k1 {value 16}"),
    row("GETEX EX", 10_000, "GETEX e{rand 10000} EX 100"),
    row("INCR", 10_000, "INCR number"),
    row("DECR", 10_000, "DECR number"),
    row("INCRBY", 10_000, "INCRBY number {rand 1000}"),
    row("DECRBY", 10_000, "DECRBY number {rand 1000}"),
    row("INCRBYFLOAT", 10_000, "INCRBYFLOAT float 0.25"),
    row("STRLEN", 10_000, "STRLEN k{rand 10000}"),
    row("APPEND 10000 x 10B", 10_000, "APPEND grown {value 10}").before(&[first(1, "DEL grown")]),
    row("SETRANGE growing", 10_000, "SETRANGE grown {count 100000} x").before(&[first(1, "DEL grown")]),
    row("SETRANGE 10 in 1MB", 2_000, "SETRANGE big {rand 1000000} {value 10}"),
    row("GETRANGE 100 of 1MB", 5_000, "GETRANGE big 500000 500099"),
    row("GETRANGE 64K of 1MB", 200, "GETRANGE big 100000 165535"),
    row("SUBSTR", 5_000, "SUBSTR big 500000 500099"),
    row("GET 1MB", 50, "GET big"),
    row("SET 1MB", 50, "SET other {value 350000}{value 350000}{value 348576}"),
    row("MGET 1000", 100, "MGET 1000*(m#)"),
    row("MGET 1000 random", 100, "MGET 1000*(k{rand 10000})"),
    row("MSET 1000", 100, "MSET 1000*(m# {value 16})"),
    row("MSETNX 1000", 1, "MSETNX 1000*(f# {value 16})").before(&[first(1, "UNLINK 1000*(f#)")]).idle(20),
    row("EXISTS 1000", 100, "EXISTS 1000*(m#)"),
    row("TOUCH 1000", 100, "TOUCH 1000*(m#)"),
    row("DEL 1000 keys", 1, "DEL 1000*(m#)").before(THOUSAND).idle(20),
    row("UNLINK 1000 keys", 1, "UNLINK 1000*(m#)").before(THOUSAND).idle(20),
    row("DEL x 10000", 10_000, "DEL k{count 10000}").before(&[KEYS]),
    row("UNLINK x 10000", 10_000, "UNLINK k{count 10000}").before(&[KEYS]),
    row("LCS 2000x2000", 3, "LCS la lb"),
    row("LCS LEN 2000x2000", 3, "LCS la lb LEN"),
    row("LCS IDX 2000x2000", 3, "LCS la lb IDX"),
];

/// Bitmaps of 1 MB.
pub const BITMAPS: Group = Group {
    name: "bitmaps",
    fill: &[
        MILLION_BYTES,
        first(1, "SETRANGE zero 1048575 x"),
        first(1, "SET b2 {value 350000}{value 350000}{value 348576}"),
    ],
    rows: &[
        row("GETBIT 1MB", 10_000, "GETBIT big {rand 8000000}"),
        row("SETBIT 1MB", 10_000, "SETBIT big {rand 8000000} 1"),
        row("SETBIT growing", 10_000, "SETBIT grown {count 100000} 1").before(&[first(1, "DEL grown")]),
        row("BITCOUNT 1MB", 50, "BITCOUNT big"),
        row("BITCOUNT 1MB range bit", 50, "BITCOUNT big 9 8000000 BIT"),
        row("BITPOS 1MB zero", 50, "BITPOS zero 1"),
        row("BITOP NOT 1MB", 20, "BITOP NOT to big"),
        row("BITOP AND 2x1MB", 20, "BITOP AND to big b2"),
        row("BITOP XOR 4x1MB", 20, "BITOP XOR to big b2 zero big"),
        row("BITFIELD incr", 10_000, "BITFIELD big INCRBY u8 #{rand 1000} 1"),
        row("BITFIELD_RO", 10_000, "BITFIELD_RO big GET u8 #{rand 1000}"),
    ],
    ..PLAIN
};

const COPIED: &[Before] = &[first(1, "COPY big copy REPLACE")];
const COPY_NOTE: &str = "COPY shares the block; the sum with COPY is the line that counts";

/// A string of 256 MB.
pub const LARGE: Group = Group {
    name: "large",
    fill: &[first(1, "SETRANGE zero 268435455 x"), first(1, "BITOP NOT big zero"), first(1, "DEL zero")],
    rows: &[
        row("COPY 256MB", 1, "COPY big copy REPLACE").before(&[first(1, "DEL copy")]).idle(50),
        row("COPY 256MB; APPEND", 1, "COPY big copy REPLACE ; APPEND copy x")
            .before(&[first(1, "DEL copy")])
            .idle(50)
            .sends(2),
        row("COPY 256MB; SETBIT", 1, "COPY big copy REPLACE ; SETBIT copy 100 1")
            .before(&[first(1, "DEL copy")])
            .idle(50)
            .sends(2),
        row("COPY 256MB; SETRANGE", 1, "COPY big copy REPLACE ; SETRANGE copy 100 x")
            .before(&[first(1, "DEL copy")])
            .idle(50)
            .sends(2),
        row("APPEND after COPY 256MB", 1, "APPEND copy x").before(COPIED).idle(50).note(COPY_NOTE),
        row("SETBIT after COPY 256MB", 1, "SETBIT copy 100 1").before(COPIED).idle(50).note(COPY_NOTE),
        row("SETRANGE fresh 256MB", 1, "SETRANGE fresh 268435455 x")
            .before(&[first(1, "DEL fresh")])
            .idle(50),
        row("BITCOUNT 256MB", 1, "BITCOUNT big"),
        row("BITPOS 256MB", 1, "BITPOS big 0"),
        of(1_000, "STRLEN big"),
    ],
    ..PLAIN
};
