//! Expressions and arguments beside RediSearch.
//!
//! `fixtures/oracle.txt` has generated cases and what RediSearch 2.10.5 answered; they are compared always.
//! With
//! `MARTLET_SEARCH_ORACLE=HOST:PORT`, a server that may be flushed, new cases are generated as well
//! (`MARTLET_SEARCH_CASES` many from `MARTLET_SEARCH_SEED`); `MARTLET_SEARCH_RECORD=FILE` writes the fixture.

use martlet_base::number::NumberBuffer;
use martlet_base::random::Random;
use martlet_search::aggregate::expression::{Expression, Scratch};
use martlet_search::aggregate::request::Aggregate;
use martlet_search::aggregate::value::Value;
use martlet_search::definition::{self, Context};
use martlet_search::request::{Limits, Search};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

const FIXTURE: &str = include_str!("fixtures/oracle.txt");
/// Cases of the fixture.
const RECORDED: u64 = 600;
/// The document of the index, whose fields expressions read.
const FIELDS: &[(&str, &str)] =
    &[("t", "Hello World"), ("n", "5"), ("g", "1.5,2.5"), ("x", "7.25"), ("e", "")];

struct Client(BufReader<TcpStream>);

impl Client {
    fn call(&mut self, words: &[&str]) -> String {
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| {
            let _ = write!(request, "${}\r\n{word}\r\n", word.len());
        });
        self.0.get_mut().write_all(request.as_bytes()).expect("the oracle reads");
        self.read()
    }

    /// A reply as text: arrays between brackets, errors behind `-`.
    fn read(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the oracle answers");
        let line = line.trim_end();
        let (kind, rest) = line.split_at(1);
        let count = || rest.parse::<i64>().expect("a length");
        match kind {
            "-" => line.to_owned(),
            "$" if count() >= 0 => {
                let mut bytes = vec![0; count() as usize + 2];
                self.0.read_exact(&mut bytes).expect("a bulk string");
                String::from_utf8_lossy(&bytes[..bytes.len() - 2]).into_owned()
            }
            "*" if count() >= 0 => {
                let items: Vec<_> = (0..count()).map(|_| self.read()).collect();
                format!("[{}]", items.join("|"))
            }
            "$" | "*" => "null".to_owned(),
            _ => rest.to_owned(),
        }
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Array(values) => format!("[{}]", values.iter().map(show).collect::<Vec<_>>().join("|")),
        value => String::from_utf8_lossy(value.to_text(&mut NumberBuffer::new())).into_owned(),
    }
}

/// Our answer to a case: a value, `OK`, or an error behind `-`.
fn ours(case: &str) -> String {
    let (kind, rest) = case.split_at(1);
    let words: Vec<&[u8]> = rest[1..].split('\t').map(str::as_bytes).collect();
    let context = Context { memory_bytes: 1 << 34, is_path: |_| true };
    let answer = match kind {
        "E" => evaluate(&rest.as_bytes()[1..]),
        "C" => definition::create(&words, context).map(|_| "OK".to_owned()),
        "S" => Search::parse(&words, &Limits::default()).and_then(|search| {
            search.query.language()?;
            search.query.check_format(false, false)?;
            search.geo_filter.as_ref().map_or(Ok(()), |filter| filter.check())?;
            Ok("OK".to_owned())
        }),
        _ => Aggregate::parse(&words, &Limits::default()).map(|_| "OK".to_owned()),
    };
    answer.unwrap_or_else(|error| format!("-{error}"))
}

fn evaluate(text: &[u8]) -> Result<String, martlet_search::Error> {
    // A NUMERIC field is loaded as a number.
    let value = |(name, text): &(&str, &str)| match *name {
        "n" => Some(Value::Number(5.0)),
        _ => Some((*text).into()),
    };
    let row: Vec<Option<Value>> = FIELDS.iter().map(value).collect();
    let program = Expression::parse(text)?
        .bind(&mut |name| FIELDS.iter().position(|(field, _)| field.as_bytes() == name))?;
    program.evaluate(&row[..], &mut Scratch::default()).map(|value| show(&value))
}

/// The oracle's answer. What it finds once it has the index counts as accepted arguments.
fn theirs(client: &mut Client, case: &str) -> String {
    let (kind, rest) = case.split_at(1);
    let words: Vec<&str> = rest[1..].split('\t').collect();
    let reply = match kind {
        "E" => {
            let mut command = vec!["FT.AGGREGATE", "i", "*", "LOAD", "5"];
            command.extend(FIELDS.iter().map(|(field, _)| *field));
            command.extend([
                "APPLY",
                &rest[1..],
                "AS",
                "r",
                "GROUPBY",
                "0",
                "REDUCE",
                "FIRST_VALUE",
                "1",
                "r",
                "AS",
                "v",
            ]);
            let reply = client.call(&command);
            return match reply.strip_prefix("[1|[v|").and_then(|reply| reply.strip_suffix("]]")) {
                Some(value) => value.to_owned(),
                // Its texts from documents have another number.
                None => reply.replace("type (5)", "type (3)").replace("type (7)", "type (3)"),
            };
        }
        "C" => {
            client.call(&["FT.DROPINDEX", words[0]]);
            client.call(&[&["FT.CREATE"], &words[..]].concat())
        }
        "S" => client.call(&[&["FT.SEARCH", "i"], &words[..]].concat()),
        _ => client.call(&[&["FT.AGGREGATE", "i"], &words[..]].concat()),
    };
    let is_of_index = ["-Property", "-No such property", "-No such scorer", "-No such reducer"]
        .iter()
        .any(|text| reply.starts_with(text));
    if reply.starts_with('-') && !is_of_index { reply } else { "OK".to_owned() }
}

/// Cases.
struct Generator(Random);

impl Generator {
    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.0.below(words.len() as u64) as usize]
    }

    fn case(&mut self) -> String {
        match self.0.below(4) {
            0 | 1 => format!("E {}", self.expression(3)),
            2 => {
                let words = [
                    "LIMIT",
                    "0",
                    "5",
                    "SORTBY",
                    "n",
                    "DESC",
                    "RETURN",
                    "1",
                    "t",
                    "AS",
                    "FILTER",
                    "-inf",
                    "(3",
                    "VERBATIM",
                    "SLOP",
                    "1.5",
                    "LANGUAGE",
                    "french",
                    "xx",
                    "SUMMARIZE",
                    "FIELDS",
                    "LEN",
                    "HIGHLIGHT",
                    "TAGS",
                    "INKEYS",
                    "WITHSCORES",
                    "PARAMS",
                    "2",
                    "a",
                    "DIALECT",
                    "TIMEOUT",
                    "x",
                    "GEOFILTER",
                    "km",
                    "FORMAT",
                    "PAYLOAD",
                ];
                self.words("S *", &words)
            }
            _ if self.0.below(2) == 0 => {
                let words = [
                    "GROUPBY",
                    "0",
                    "1",
                    "@n",
                    "REDUCE",
                    "COUNT",
                    "SUM",
                    "AS",
                    "c",
                    "SORTBY",
                    "2",
                    "@t",
                    "ASC",
                    "DESC",
                    "MAX",
                    "LIMIT",
                    "5",
                    "LOAD",
                    "*",
                    "t",
                    "n",
                    "VERBATIM",
                    "ADDSCORES",
                    "TIMEOUT",
                    "WITHSCORES",
                ];
                self.words("A *", &words)
            }
            _ => {
                let words = [
                    "SCHEMA",
                    "t",
                    "TEXT",
                    "TAG",
                    "NUMERIC",
                    "GEO",
                    "GEOSHAPE",
                    "FLAT",
                    "AS",
                    "a",
                    "SORTABLE",
                    "UNF",
                    "NOINDEX",
                    "WEIGHT",
                    "2",
                    "PHONETIC",
                    "dm:en",
                    "SEPARATOR",
                    ";",
                    "VECTOR",
                    "INDEXMISSING",
                    "PREFIX",
                    "1",
                    "LANGUAGE",
                    "SCORE",
                    "0.5",
                    "ON",
                    "HASH",
                    "STOPWORDS",
                    "NOOFFSETS",
                ];
                self.words("C z", &words)
            }
        }
    }

    fn words(&mut self, start: &str, words: &[&str]) -> String {
        let mut case = start.to_owned();
        // FT.CREATE with fewer has the wrong number of arguments, which is not found here.
        for _ in 0..3 + self.0.below(6) {
            let _ = write!(case, "\t{}", self.pick(words));
        }
        case
    }

    fn expression(&mut self, depth: u32) -> String {
        let leaf = depth == 0 || self.0.below(4) == 0;
        if leaf {
            let leaves = [
                "@t",
                "@n",
                "@x",
                "@e",
                "@g",
                "1",
                "-2",
                "2.5",
                "0",
                "'a'",
                "\"Hello\"",
                "'5'",
                "NULL",
                "''",
                "' '",
                "3e2",
                "@zz",
                "inf",
                "+inf",
                "'a,b, c'",
                "1514764800",
                ",",
                "#",
            ];
            return self.pick(&leaves).to_owned();
        }
        let (one, two) = (self.expression(depth - 1), self.expression(depth - 1));
        match self.0.below(10) {
            0..=3 => {
                let operators = [
                    " + ", " - ", " * ", " / ", " ^ ", " == ", " != ", " < ", " <= ", " > ", " >= ", " && ",
                    " || ", "-", " = ",
                ];
                format!("{one}{}{two}", self.pick(&operators))
            }
            4 => format!("({one})"),
            5 => format!("!{one}"),
            6 => {
                let functions = ["startswith", "contains", "split", "format", "substr", "log"];
                format!("{}({one}, {two})", self.pick(&functions))
            }
            7 => format!("substr({one}, {}, {two})", self.expression(0)),
            _ => {
                // RediSearch reads freed memory in `to_str` of a property, and any in `day` of NaN.
                let functions = [
                    "upper",
                    "lower",
                    "strlen",
                    "to_number",
                    "abs",
                    "ceil",
                    "floor",
                    "sqrt",
                    "log",
                    "log2",
                    "exp",
                    "exists",
                    "split",
                    "format",
                    "foo",
                    "timefmt(1514764800), lower",
                    "day(1514764800), minute",
                ];
                format!("{}({one})", self.pick(&functions))
            }
        }
    }
}

#[test]
fn the_oracles_recorded_answers_are_ours() {
    let mut compared = 0;
    for pair in FIXTURE.lines().collect::<Vec<_>>().chunks_exact(2) {
        assert_eq!(ours(&pair[0][2..]), pair[1][2..], "{}", pair[0]);
        compared += 1;
    }
    assert!(compared > 300, "{compared}");
}

#[test]
fn generated_cases_are_answered_as_the_oracle_answers_them() {
    let Ok(address) = std::env::var("MARTLET_SEARCH_ORACLE") else {
        println!("skipped: 1 (MARTLET_SEARCH_ORACLE is not set)");
        return;
    };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let record = std::env::var("MARTLET_SEARCH_RECORD").ok();
    let cases = if record.is_some() { RECORDED } else { number("MARTLET_SEARCH_CASES").unwrap_or(20_000) };
    let seed = number("MARTLET_SEARCH_SEED").unwrap_or(41);
    println!("MARTLET_SEARCH_SEED={seed}");
    let stream = TcpStream::connect(address).expect("the oracle listens");
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("a timeout is set");
    let mut client = Client(BufReader::new(stream));
    client.call(&["FLUSHALL"]);
    client.call(&["FT.CREATE", "i", "PREFIX", "1", "d", "SCHEMA", "t", "TEXT", "n", "NUMERIC", "g", "GEO"]);
    let fields = FIELDS.iter().flat_map(|(name, value)| [*name, *value]);
    client.call(&["HSET", "d1"].into_iter().chain(fields).collect::<Vec<_>>());
    let mut generator = Generator(Random::seeded(seed));
    let (mut text, mut differences) = (String::new(), Vec::new());
    for _ in 0..cases {
        let case = generator.case();
        let answer = theirs(&mut client, &case);
        if answer.contains(['\n', '\r']) {
            continue;
        }
        if ours(&case) != answer {
            differences.push(format!("{case}\n  ours   {}\n  theirs {answer}", ours(&case)));
        }
        let _ = writeln!(text, "> {case}\n< {answer}");
    }
    if let Some(file) = record {
        std::fs::write(file, text).expect("the fixture is written");
    }
    assert!(
        differences.is_empty(),
        "{} of {cases}:\n{}",
        differences.len(),
        differences[..differences.len().min(20)].join("\n")
    );
}
