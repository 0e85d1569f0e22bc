//! Values of arguments: plausible ones by an argument's name and type, and extreme ones.

use martlet_base::random::Random;

use super::table::Table;

/// Whole numbers, most of them small.
const INTEGERS: &[&str] = &["0", "1", "2", "3", "5", "10", "-1", "-2", "100", "1000", "0", "1", "2", "-1"];

/// Numbers at the ends of their types, and malformed ones.
pub const EXTREMES: &[&str] = &[
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775806",
    "-9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775808",
    "4611686018427387904",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967295",
    "4294967296",
    "65535",
    "65536",
    "16384",
    "-16384",
    "1e308",
    "1.7976931348623157e308",
    "-1e308",
    "5e-324",
    "0.000001",
    "nan",
    "-nan",
    "inf",
    "-inf",
    "+inf",
    "1e400",
    "-0",
    "+1",
    "01",
    "0x10",
    " 1",
    "1 ",
    "",
    "1.5",
    "99999999999999999999999999999999999999999999",
];

const DOUBLES: &[&str] = &["0", "1", "1.5", "-1.5", "3", "inf", "-inf", "100", "0.1", "-180", "85", "13.36"];
const TIMES: &[&str] = &["1", "100", "1000", "99999999999", "2100000000", "2100000000123", "0", "-1"];
const PATTERNS: &[&str] =
    &["*", "?", "{t}*", "a*", "[a-", "\\", "[^x]*", "*a*a*", "{t}l*", "", "__key*@*__:*"];
const MEMBERS: &[&str] = &[
    "1",
    "2",
    "3",
    "7",
    "12",
    "m1",
    "m2",
    "m3",
    "f1",
    "f2",
    "f3",
    "a",
    "b",
    "c",
    "1.5",
    "-5",
    "9000000000",
    "é",
    "",
];
const STREAM_IDS: &[&str] = &[
    "*",
    "0",
    "0-0",
    "0-1",
    "1-1",
    "1-2",
    "2-*",
    "5-1",
    "$",
    ">",
    "+",
    "-",
    "(1-1",
    "18446744073709551615",
    "18446744073709551615-18446744073709551615",
    "99999999999999-0",
];
const RANGES: &[&str] =
    &["-", "+", "[a", "(b", "[m1", "(m3", "-inf", "+inf", "(1", "1", "5", "(inf", "[", "(", "0", "(1-1"];
const SCRIPTS: &[&str] = &[
    "return 1",
    "return redis.call('GET', KEYS[1])",
    "return {KEYS, ARGV, 1.5, false, {ok='x'}, {err='y'}}",
    "redis.setresp(3) return redis.call('HGETALL', KEYS[1] or '{t}h')",
    "return redis.call(unpack(ARGV))",
    "error({err='E'})",
    "return redis.pcall('NOSUCH')",
    "#!lua flags=no-writes,allow-stale\nreturn redis.call('SET','{t}s','x')",
    "return string.rep('x', 100)",
    "local a = {} a[1] = a return a",
];
const LIBRARIES: &[&str] = &[
    "#!lua name=l1\nredis.register_function('f1', function(k, a) return redis.call(unpack(a)) end)",
    "#!lua name=l2\nredis.register_function{function_name='f2', callback=function(k, a) return k end, \
     flags={'no-writes'}}",
    "#!lua name=l3\nerror('x')",
    "#!lua name=\n",
    "#!lua",
    "",
];
const CATEGORIES: &[&str] = &[
    "+@all",
    "-@all",
    "allkeys",
    "~{t}*",
    "%R~*",
    "on",
    "nopass",
    ">p",
    "(+get ~*)",
    "clearselectors",
    "reset",
    "&*",
    "resetchannels",
    "-get",
    "+config|get",
    "%RW~a",
    "(",
    "db=0",
    "alldbs",
];

/// Sources of argument values that depend on the server.
pub struct Pools<'a> {
    /// The table, for commands' and parameters' names.
    pub table: &'a Table,
}

/// One of a list.
pub fn pick<'a, T: ?Sized>(random: &mut Random, from: &[&'a T]) -> &'a T {
    from[random.below(from.len() as u64) as usize]
}

/// True once in `of` times.
pub fn once_in(random: &mut Random, of: u64) -> bool {
    random.below(of) == 0
}

/// Bytes that are no text, long ones, and numbers at the ends of their types.
pub fn extreme(random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0 => Vec::new(),
        1 => (0..random.below(20)).map(|_| random.next_u64() as u8).collect(),
        2 => vec![b'x'; 20_000],
        3 => vec![0; random.below(70) as usize],
        4 => vec![b'9'; random.below(400) as usize],
        5 => b"\xff\xfe\x80{t}".to_vec(),
        _ => pick(random, EXTREMES).as_bytes().to_vec(),
    }
}

/// A whole number, seldom a large one.
pub fn integer(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => pick(random, EXTREMES).as_bytes().to_vec(),
        1 => random.below(20).to_string().into_bytes(),
        _ => pick(random, INTEGERS).as_bytes().to_vec(),
    }
}

/// A key: one of the kind that the command's group works on, any other, or none.
pub fn key(random: &mut Random, group: &str) -> Vec<u8> {
    let own: &[&str] = match group {
        "string" | "bitmap" | "hyperloglog" => &["s", "int", "long", "pf", "bits", "emb"],
        "list" => &["l", "list", "huge-elements"],
        "set" => &["i", "set", "small-set"],
        "sorted-set" => &["z", "zset"],
        "geo" => &["geo", "z"],
        "hash" => &["h", "hash", "timed-hash"],
        "stream" => &["x", "stream"],
        "array" => &["ar", "array"],
        _ => super::setup::NAMES,
    };
    let name = match random.below(10) {
        0 | 1 => pick(random, super::setup::NAMES),
        2 => pick(random, &["none", "new", "", "new2"]),
        _ => pick(random, own),
    };
    match random.below(40) {
        0 => extreme(random),
        1 => name.as_bytes().to_vec(),
        2 => format!("{{t}}e:{name}").into_bytes(),
        _ => format!("{{t}}{name}").into_bytes(),
    }
}

impl Pools<'_> {
    /// A value for an argument of this name that is any text.
    pub fn text(&self, random: &mut Random, name: &str, group: &str) -> Vec<u8> {
        let has = |part: &str| name.contains(part);
        let of = |random: &mut Random, list: &[&str]| pick(random, list).as_bytes().to_vec();
        if once_in(random, 12) {
            return extreme(random);
        }
        match () {
            () if has("payload") || has("serialized") || has("data") => self.payload(random),
            () if has("host") || has("ip") && !has("script") => {
                of(random, &["127.0.0.1", "::1", "", "127.0.0.2"])
            }
            () if has("script") || has("function-code") => match group == "scripting" && has("function") {
                true => of(random, LIBRARIES),
                false => of(random, SCRIPTS),
            },
            () if has("function") => of(random, &["f1", "f2", "call", "peek", "f9"]),
            () if has("library") => of(random, &["l1", "l2", "lib", "*"]),
            () if has("username") || has("user") => {
                of(random, &["default", "u_read", "u_write", "nobody", "new"])
            }
            () if has("rule") || has("category") => of(random, CATEGORIES),
            () if has("command") => self.command_name(random),
            () if has("parameter") => self.parameter(random).0,
            () if has("group") => of(random, &["g", "g2", "g9"]),
            () if has("consumer") => of(random, &["c", "c2", "c9"]),
            () if has("channel") => of(random, &["{t}ch", "ch", "__redis__:invalidate"]),
            () if has("min") || has("max") || has("start") || has("stop") || has("end") => of(random, RANGES),
            () if group == "stream" && (has("id") || has("threshold")) => of(random, STREAM_IDS),
            () if has("cursor") => integer(random),
            () if has("sha1") => of(random, &["e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "f", ""]),
            () if has("encoding") || has("type") => {
                of(random, &["u8", "i64", "u63", "i5", "u64", "string", "zset"])
            }
            () if has("prefix") => of(random, &["{t}", "", "a", "{t}l"]),
            () => of(random, MEMBERS),
        }
    }

    /// A value that DUMP gave, often damaged.
    fn payload(&self, random: &mut Random) -> Vec<u8> {
        let count = self.table.payloads.len() as u64;
        let Some(payload) = self.table.payloads.get(random.below(count.max(1)) as usize) else {
            return Vec::new();
        };
        let mut payload = payload.clone();
        if once_in(random, 2) && !payload.is_empty() {
            let at = random.below(payload.len() as u64) as usize;
            payload[at] ^= 1 << random.below(8);
        }
        payload
    }

    fn command_name(&self, random: &mut Random) -> Vec<u8> {
        let at = random.below(self.table.commands.len() as u64) as usize;
        self.table.commands[at].words.join("|").into_bytes()
    }

    /// A parameter of the configuration and its first value.
    pub fn parameter(&self, random: &mut Random) -> (Vec<u8>, Vec<u8>) {
        let count = self.table.parameters.len() as u64;
        self.table.parameters.get(random.below(count.max(1)) as usize).cloned().unwrap_or_default()
    }
}

/// A number, seldom a large one or none.
pub fn double(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => pick(random, EXTREMES).as_bytes().to_vec(),
        _ => pick(random, DOUBLES).as_bytes().to_vec(),
    }
}

/// A Unix time, or an extreme number.
pub fn time(random: &mut Random) -> Vec<u8> {
    match random.below(6) {
        0 => pick(random, EXTREMES).as_bytes().to_vec(),
        _ => pick(random, TIMES).as_bytes().to_vec(),
    }
}

/// A glob.
pub fn pattern(random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0 => extreme(random),
        _ => pick(random, PATTERNS).as_bytes().to_vec(),
    }
}
