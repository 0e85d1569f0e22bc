//! Replies beside a real server's: a recorded table, and generated commands if `MARTLET_JSON_ORACLE` is the
//! address of a Redis Stack 7.4 (ReJSON 2.8). `MARTLET_JSON_RECORD` names the file to which a run with the
//! oracle writes the table.
//!
//! Where RedisJSON 8 answers otherwise than 2.8, ours follows 8, and the generator does not go there:
//! `docs/internals/json.md` lists the cases.

mod common;

use common::Store;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

const TABLE: &str = include_str!("oracle.txt");

/// Commands chosen by hand, their arguments between spaces.
const CHOSEN: &str = include_str!("commands.txt");

/// Generated sequences, and commands in each.
const SEQUENCES: u64 = 1_500;
const COMMANDS: u64 = 12;

/// xorshift64*: reproducible, and no dependency.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }

    fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len() as u64) as usize]
    }

    fn scalar(&mut self) -> String {
        match self.below(6) {
            0 => self.pick(&["null", "true", "false", "[]", "{}"]).to_owned(),
            1 => (self.below(7) as i64 - 3).to_string(),
            2 => self.pick(&["0.5", "1.0", "-2.25", "1e20", "12345678901234567890", "0.1"]).to_owned(),
            _ => format!("\"{}\"", self.pick(&["", "x", "yes", "longer than a word", "é\\n", "1"])),
        }
    }

    fn value(&mut self, depth: u64) -> String {
        match self.below(if depth == 0 { 2 } else { 6 }) {
            0 | 1 => self.scalar(),
            2 | 3 => {
                let count = self.below(5);
                let items: Vec<String> = (0..count).map(|_| self.value(depth - 1)).collect();
                format!("[{}]", items.join(","))
            }
            4 => {
                let count = self.below(10);
                let items: Vec<String> = (0..count).map(|_| self.below(300).to_string()).collect();
                format!("[{}]", items.join(","))
            }
            _ => {
                let count = self.below(5);
                let items: Vec<String> =
                    (0..count).map(|_| format!("\"{}\":{}", self.name(), self.value(depth - 1))).collect();
                format!("{{{}}}", items.join(","))
            }
        }
    }

    fn name(&mut self) -> &'static str {
        self.pick(&["a", "b", "c", "dd", "a long name"])
    }

    /// A path; one that is `plain` has no place within another.
    fn path(&mut self, plain: bool) -> String {
        let mut path = if self.below(4) == 0 { String::new() } else { "$".to_owned() };
        let is_legacy = path.is_empty();
        for _ in 0..self.below(4) {
            let step = match self.below(if is_legacy { 3 } else { 9 }) {
                0 | 1 => format!(".{}", self.pick(&["a", "b", "c", "dd"])),
                2 => format!("[{}]", self.below(5) as i64 - 2),
                3 | 4 if plain => "[-1]".to_owned(),
                3 => ".*".to_owned(),
                4 => format!("..{}", self.pick(&["a", "b", "[0]", "*"])),
                5 => format!("[\"{}\"]", self.name()),
                6 => format!("[{}:{}]", self.below(5) as i64 - 2, self.below(5) as i64 - 2),
                7 => self.filter(),
                _ => format!("[\"a\",\"{}\"]", self.pick(&["b", "c"])),
            };
            path.push_str(&step);
        }
        if path.is_empty() { ".".to_owned() } else { path }
    }

    fn filter(&mut self) -> String {
        let operand = self.pick(&["@", "@.a", "@.b", "@[0]", "$.a"]);
        let literal = self.pick(&["1", "0", "\"x\"", "true", "null", "0.5", "-2", "\"yes\""]);
        // A missing value is unequal to every other only since 8.
        let operators: &[&str] =
            if operand == "@" { &["==", "!=", "<", ">"] } else { &["==", "<", "<=", ">", ">="] };
        let operator = self.pick(operators);
        match self.below(6) {
            0 => format!("[?({operand})]"),
            1 => format!("[?({operand}=~\"^(x|y.*)$\")]"),
            2 => format!("[?({operand} {operator} {literal} || @.c == 1)]"),
            3 => format!("[?({operand} {operator} {literal} && (@.c == 1 || @.a))]"),
            _ => format!("[?({operand}{operator}{literal})]"),
        }
    }

    fn command(&mut self) -> Vec<String> {
        let name = self.pick(&[
            "SET",
            "SET",
            "SET",
            "GET",
            "GET",
            "GET",
            "MERGE",
            "MERGE",
            "DEL",
            "TYPE",
            "RESP",
            "STRLEN",
            "OBJLEN",
            "OBJKEYS",
            "ARRLEN",
            "ARRINDEX",
            "ARRAPPEND",
            "ARRAPPEND",
            "ARRPOP",
            "ARRINSERT",
            "ARRTRIM",
            "NUMINCRBY",
            "NUMMULTBY",
            "TOGGLE",
            "STRAPPEND",
            "CLEAR",
        ]);
        // 2.8 sets places within places one after the other (MERGE stops the server then), and leaves changes
        // before an error as they are.
        let plain = ["SET", "MERGE", "ARRINSERT", "ARRTRIM", "ARRPOP"].contains(&name);
        let mut command = vec![format!("JSON.{name}"), "doc".to_owned(), self.path(plain)];
        let index = |random: &mut Self| (random.below(9) as i64 - 4).to_string();
        match name {
            "SET" => {
                command.push(self.value(2));
                command.extend(["NX", "XX", "", "", ""].get(self.below(5) as usize).map(|s| (*s).to_owned()));
                command.retain(|argument| !argument.is_empty());
            }
            "GET" if self.below(4) == 0 => {
                let path = command.remove(2);
                command.extend(["INDENT", "\t", "NEWLINE", "\n", "SPACE", " "].map(str::to_owned));
                command.push(path);
            }
            // Of several paths, ReJSON's order is that of a hash map.
            "MERGE" => command.push(self.value(2)),
            "ARRINDEX" => command.extend([self.value(1), index(self), index(self)]),
            "ARRAPPEND" => command.extend([self.value(1), self.value(1)]),
            // An index outside of the second of several arrays is an error after a change, which 2.8 keeps.
            "ARRINSERT" if command[2].contains(['?', ',', ':']) => {
                command.extend(["0".to_owned(), self.value(1)])
            }
            "ARRINSERT" => command.extend([index(self), self.value(1)]),
            "ARRPOP" => command.push(index(self)),
            "ARRTRIM" => command.extend([index(self), index(self)]),
            "NUMINCRBY" | "NUMMULTBY" => {
                command.push(self.pick(&["1", "-2", "0.5", "1e3", "x", "\"1\""]).to_owned())
            }
            "STRAPPEND" => command.push(self.pick(&["\"more\"", "\"\"", "1", "x"]).to_owned()),
            _ => {}
        }
        command
    }
}

/// A connection that speaks as much RESP2 as the commands' replies need.
struct Oracle(BufReader<TcpStream>);

impl Oracle {
    fn connect() -> Option<Oracle> {
        let address = std::env::var("MARTLET_JSON_ORACLE").ok()?;
        let stream = TcpStream::connect(address).expect("the oracle's address");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("a timeout");
        Some(Oracle(BufReader::new(stream)))
    }

    fn run(&mut self, command: &[&str]) -> String {
        let mut request = format!("*{}\r\n", command.len());
        for argument in command {
            write!(request, "${}\r\n{argument}\r\n", argument.len()).expect("a string");
        }
        self.0.get_mut().write_all(request.as_bytes()).expect("the request is sent");
        self.reply()
    }

    fn reply(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a reply");
        assert!(!line.is_empty(), "the oracle has gone");
        let (kind, rest) = line.trim_end_matches("\r\n").split_at(1);
        match kind {
            "$" | "*" if rest == "-1" => "nil".to_owned(),
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>().expect("a length") + 2];
                self.0.read_exact(&mut bytes).expect("a bulk string");
                bytes.truncate(bytes.len() - 2);
                format!("${}", String::from_utf8(bytes).expect("UTF-8"))
            }
            "*" => {
                let count: usize = rest.parse().expect("a count");
                let items: Vec<String> = (0..count).map(|_| self.reply()).collect();
                format!("[{}]", items.join(" | "))
            }
            _ => line.trim_end_matches("\r\n").to_owned(),
        }
    }
}

fn chosen() -> Vec<Vec<String>> {
    // A value may have spaces in it.
    let split = |line: &str| match line.strip_prefix("JSON.SET doc $ ") {
        Some(value) if value.starts_with(['{', '[', '"', '1']) && !value.ends_with("NX") => {
            vec!["JSON.SET".to_owned(), "doc".to_owned(), "$".to_owned(), value.to_owned()]
        }
        _ => line.split(' ').map(str::to_owned).collect(),
    };
    let start = ["JSON.DEL", "doc"].map(str::to_owned).to_vec();
    std::iter::once(start).chain(CHOSEN.lines().map(split)).collect()
}

fn generate(sequence: u64) -> Vec<Vec<String>> {
    let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ (sequence + 1).wrapping_mul(0xD134_2543_DE82_EF95));
    let start = ["JSON.SET", "doc", "$"].map(str::to_owned).to_vec();
    let mut commands =
        vec![vec!["JSON.DEL".to_owned(), "doc".to_owned()], [start, vec![random.value(4)]].concat()];
    for _ in 0..COMMANDS {
        commands.push(random.command());
        commands.push(vec!["JSON.GET".to_owned(), "doc".to_owned()]);
    }
    commands
}

/// A reply in one line.
fn shown(reply: &str) -> String {
    reply.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t")
}

#[test]
fn recorded_replies() {
    let mut store = Store::default();
    let mut cases = 0;
    for (at, line) in TABLE.lines().enumerate() {
        let mut parts = line.split('\u{1f}');
        let command: Vec<String> = parts
            .next()
            .expect("a command")
            .split('\u{1e}')
            .map(|argument| match argument {
                "\\n" => "\n".to_owned(),
                "\\t" => "\t".to_owned(),
                other => other.to_owned(),
            })
            .collect();
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let expected = parts.next().expect("a reply");
        assert_eq!(shown(&store.run(&command)), expected, "line {}: {command:?}", at + 1);
        cases += 1;
    }
    assert!(cases > 1000, "the table is there");
}

#[test]
fn generated_commands_beside_the_oracle() {
    let Some(mut oracle) = Oracle::connect() else {
        println!("skipped: MARTLET_JSON_ORACLE is not set (1 test)");
        return;
    };
    let first = std::env::var("MARTLET_JSON_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let record = std::env::var("MARTLET_JSON_RECORD").ok();
    let (mut table, mut differences, mut count) = (String::new(), 0, 0);
    let mut store = Store::default();
    for sequence in first..first + SEQUENCES {
        let mut last = String::new();
        let commands = if sequence == first { chosen() } else { generate(sequence) };
        for (at, command) in commands.iter().enumerate() {
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            if at == 0 {
                oracle.run(&command);
                store = Store::default();
                continue;
            }
            if at > 1 && sequence > first && store.is_empty() {
                break;
            }
            if command.len() > 2 && store.filters_no_array(&command) {
                continue;
            }
            let ours = store.run(&command);
            if std::env::var_os("MARTLET_JSON_VERBOSE").is_some() {
                println!("MARTLET_JSON_SEED={sequence} {command:?}");
            }
            let theirs = oracle.run(&command);
            count += 1;
            if theirs != ours {
                println!(
                    "MARTLET_JSON_SEED={sequence} {last}\n{command:?}\n  theirs {theirs}\n  ours   {ours}"
                );
                differences += 1;
                if sequence == first {
                    continue;
                }
                break;
            }
            if command.len() > 2 {
                last = format!("{command:?}");
            } else {
                last = format!("{last} -> {ours}");
            }
            if sequence - first < 60 {
                // Of control characters, only whole arguments are one (NEWLINE, INDENT).
                let argument = |a: &&str| if ["\n", "\t"].contains(a) { shown(a) } else { (*a).to_owned() };
                let command: Vec<String> = command.iter().map(argument).collect();
                writeln!(table, "{}\u{1f}{}", command.join("\u{1e}"), shown(&theirs)).expect("a string");
            }
        }
        assert!(differences < 30, "too many differences");
    }
    println!("{count} commands, {differences} differences");
    assert_eq!(differences, 0);
    if let Some(record) = record {
        std::fs::write(record, table).expect("the table is written");
    }
}
