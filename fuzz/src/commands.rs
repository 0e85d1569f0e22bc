//! Any arguments to any command: no panic, one well-formed reply, and the same whatever the protocol.
//! The fixture itself checks that a command that fails, or only reads, has changed nothing.

use martlet_client::resp::{Reply, decode};
use martlet_command::FAMILIES;
use martlet_command::testing::Fixture;

/// Words that commands give a meaning to; raw bytes come from the input.
const WORDS: &[&str] = &[
    "k",
    "l",
    "s",
    "z",
    "h",
    "m",
    "a",
    "b",
    "c",
    "",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "-2",
    "10",
    "100",
    "1000",
    "1.5",
    "-1.5",
    "1e3",
    "inf",
    "-inf",
    "+inf",
    "nan",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "4294967296",
    "(1",
    "(a",
    "[a",
    "[b",
    "-",
    "+",
    "*",
    "?",
    "[a-",
    "a*",
    "EX",
    "PX",
    "EXAT",
    "PXAT",
    "NX",
    "XX",
    "GT",
    "LT",
    "CH",
    "INCR",
    "GET",
    "SET",
    "KEEPTTL",
    "PERSIST",
    "FIELDS",
    "WITHSCORES",
    "WITHSCORE",
    "WITHVALUES",
    "LIMIT",
    "BYSCORE",
    "BYLEX",
    "REV",
    "WEIGHTS",
    "AGGREGATE",
    "SUM",
    "MIN",
    "MAX",
    "COUNT",
    "MATCH",
    "TYPE",
    "NOVALUES",
    "LEFT",
    "RIGHT",
    "BEFORE",
    "AFTER",
    "RANK",
    "MAXLEN",
    "BY",
    "ASC",
    "DESC",
    "ALPHA",
    "STORE",
    "#",
    "w_*",
    "h->f",
    "h_*->f",
    "BIT",
    "BYTE",
    "AND",
    "OR",
    "XOR",
    "NOT",
    "DIFF",
    "ONE",
    "u8",
    "i64",
    "u63",
    "u64",
    "#1",
    "OVERFLOW",
    "WRAP",
    "SAT",
    "FAIL",
    "INCRBY",
    "REPLACE",
    "DB",
    "ABSTTL",
    "IDLETIME",
    "FREQ",
    "LEN",
    "IDX",
    "MINMATCHLEN",
    "WITHMATCHLEN",
    "FNX",
    "FXX",
    "ENCODING",
    "string",
    "list",
    "hash",
    "zset",
    "set",
    "value",
    "member",
    "field",
    "$",
    ".",
    "$.a",
    "$..*",
    "$..a[0]",
    "$.a[?(@>1)]",
    "null",
    "true",
    "\"x\"",
    "[1,2,\"x\"]",
    "{\"a\":1,\"b\":{\"a\":[1,2]}}",
    "FORMAT",
    "EXPAND",
    "FPHA",
    "FP16",
    "MEMORY",
];
/// Requests of one input; more would only be slow.
const MOST_REQUESTS: usize = 64;
/// Longest string that a command may make here, in bytes.
const STRING_MAX_BYTES: usize = 1 << 16;

/// Requests with other effects in RESP3: numbers at JSON's legacy paths, FORMAT.
fn depends_on_protocol(request: &[Vec<u8>]) -> bool {
    let Some((name, rest)) = request.split_first() else { return false };
    name.starts_with(b"json.num") || name.starts_with(b"json.") && rest.iter().any(|word| word == b"FORMAT")
}

/// The input is a program: each request is a command's number, a count, and a byte for each argument.
pub fn check(data: &[u8]) {
    let mut two = fixture(false);
    let mut three = fixture(true);
    // Runs all requests of JSON.
    let mut apart = fixture(true);
    let mut input = Input { data };
    for _ in 0..MOST_REQUESTS {
        let Some(request) = input.request() else { return };
        if request.first().is_some_and(|name| name.starts_with(b"json.")) {
            one_reply(&request, &apart.run_args(&request));
        }
        if depends_on_protocol(&request) {
            continue;
        }
        let first = one_reply(&request, &two.run_args(&request));
        let second = one_reply(&request, &three.run_args(&request));
        if let (Reply::Error(first), Reply::Error(second)) = (&first, &second) {
            assert_eq!(first, second, "{}", shown(&request));
        }
        assert_eq!(first.is_error(), second.is_error(), "{}", shown(&request));
        assert_eq!(two.effects().len(), three.effects().len(), "effects of {}", shown(&request));
        if request.len() % 7 == 0 {
            two.advance_ms(20);
            three.advance_ms(20);
        }
    }
}

fn fixture(resp3: bool) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.resp3 = resp3;
    fixture.deny_blocking = true;
    fixture.settings.string_max_bytes = STRING_MAX_BYTES;
    fixture
}

fn one_reply(request: &[Vec<u8>], bytes: &[u8]) -> Reply {
    match decode(bytes) {
        Ok(Some((reply, length))) if length == bytes.len() => reply,
        other => panic!("{} answered {:?}: {other:?}", shown(request), String::from_utf8_lossy(bytes)),
    }
}

fn shown(request: &[Vec<u8>]) -> String {
    request.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
}

struct Input<'a> {
    data: &'a [u8],
}

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.data.split_first()?;
        self.data = rest;
        Some(byte)
    }

    fn request(&mut self) -> Option<Vec<Vec<u8>>> {
        let commands: Vec<_> = FAMILIES.iter().flat_map(|family| family.iter()).collect();
        let number = usize::from(self.byte()?) << 8 | usize::from(self.byte()?);
        let command = commands.get(number % commands.len().max(1))?;
        let mut request = vec![command.spec.name.as_bytes().to_vec()];
        if let Some(sub) = command.subcommands.get(number / commands.len() % command.subcommands.len().max(1))
        {
            request.push(sub.spec.name.as_bytes().to_vec());
        }
        // Mostly a number of arguments that the command takes.
        let least = (command.spec.arity.unsigned_abs() as usize).saturating_sub(1);
        let shape = self.byte()?;
        let more = if shape & 0x80 == 0 { usize::from(shape % 8) } else { 0 };
        let count = if shape & 0xf0 == 0xf0 { usize::from(shape % 4) } else { least + more };
        for _ in 0..count {
            let argument = self.argument()?;
            request.push(argument);
        }
        Some(request)
    }

    fn argument(&mut self) -> Option<Vec<u8>> {
        let byte = usize::from(self.byte()?);
        if let Some(word) = WORDS.get(byte) {
            return Some(word.as_bytes().to_vec());
        }
        if byte == 255 {
            // Long enough to leave every compact encoding.
            return Some(vec![b'x'; 40 + usize::from(self.byte()?)]);
        }
        let length = (byte % 16).min(self.data.len());
        let (word, rest) = self.data.split_at(length);
        self.data = rest;
        Some(word.to_vec())
    }
}

/// The input that stands for these requests: the inverse of what `check` reads, for seeds.
pub fn encode(requests: &[&str]) -> Vec<u8> {
    let commands: Vec<_> = FAMILIES.iter().flat_map(|family| family.iter()).collect();
    let mut out = Vec::new();
    for request in requests {
        let mut words = request.split(' ');
        let name = words.next().unwrap_or_default();
        let Some(number) = commands.iter().position(|command| command.spec.name.eq_ignore_ascii_case(name))
        else {
            continue;
        };
        let words: Vec<&str> = words.collect();
        let least = (commands[number].spec.arity.unsigned_abs() as usize).saturating_sub(1);
        let Some(more) = words.len().checked_sub(least).filter(|more| *more < 8) else { continue };
        out.extend([(number >> 8) as u8, number as u8, more as u8]);
        for word in words {
            match WORDS.iter().position(|known| *known == word) {
                Some(at) => out.push(at as u8),
                None => {
                    let length = word.len().min(15);
                    out.push(240 + length as u8 % 15);
                    out.extend_from_slice(&word.as_bytes()[..length % 15]);
                }
            }
        }
    }
    out
}
