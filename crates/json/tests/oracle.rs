//! The commands' replies beside a real server's: a recorded table, and generated commands in both protocols
//! if `MARTLET_JSON_ORACLE` is the address of a Redis Stack 7.4 (ReJSON 2.8) that may be flushed.
//! `MARTLET_JSON_RECORD` names the file to which a run with the oracle writes the table. Without an oracle a
//! few generated commands run, and leave the same document in both protocols.
//!
//! Where RedisJSON 8 answers otherwise than 2.8, ours follows 8, and the generator does not go there:
//! `docs/internals/json.md` lists the cases.

use martlet_command::testing::Fixture;
use martlet_json::document::Document;
use martlet_json::path::Path;
use martlet_json::text::parse;
use martlet_json::value::View;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

const TABLE: &str = include_str!("oracle.txt");

/// Commands chosen by hand, their arguments between spaces.
const CHOSEN: &str = include_str!("commands.txt");

/// Generated sequences, and commands in each.
const SEQUENCES: u64 = 2_200;
const SEQUENCES_ALONE: u64 = 60;
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
        // None is the beginning of another: 2.8 takes such paths for nested ones.
        self.pick(&["a", "b", "c", "dd", "long name"])
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
            "MGET",
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
            "GET" if self.below(3) == 0 => {
                let format = self.pick(&["EXPAND", "EXPAND1", "STRING", "STRINGS"]);
                command.splice(2..2, ["FORMAT", format].map(str::to_owned));
            }
            "ARRPOP" if self.below(4) == 0 => {
                let format = self.pick(&["EXPAND", "EXPAND1", "STRINGS"]);
                command.splice(2..2, ["FORMAT", format].map(str::to_owned));
            }
            "MGET" => command.insert(2, "missing".to_owned()),
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

/// The oracle, in one protocol; RESP3 has a database for itself.
struct Oracle(BufReader<TcpStream>);

impl Oracle {
    fn connect(resp3: bool) -> Option<Oracle> {
        let address = std::env::var("MARTLET_JSON_ORACLE").ok()?;
        let stream = TcpStream::connect(address).expect("the oracle's address");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("a timeout");
        let mut oracle = Oracle(BufReader::new(stream));
        if resp3 {
            oracle.run(&["HELLO", "3"]);
            oracle.run(&["SELECT", "1"]);
        }
        Some(oracle)
    }

    fn run(&mut self, command: &[&str]) -> String {
        let mut request = format!("*{}\r\n", command.len());
        for argument in command {
            write!(request, "${}\r\n{argument}\r\n", argument.len()).expect("a string");
        }
        self.0.get_mut().write_all(request.as_bytes()).expect("the request is sent");
        reply(&mut self.0)
    }
}

/// A reply as a line. Members of maps are sorted: ReJSON has them in no order.
fn reply(input: &mut impl BufRead) -> String {
    let mut line = String::new();
    input.read_line(&mut line).expect("a reply");
    assert!(!line.is_empty(), "the oracle has gone");
    let (kind, rest) = line.trim_end_matches("\r\n").split_at(1);
    match kind {
        "$" | "*" if rest == "-1" => "nil".to_owned(),
        "_" => "nil".to_owned(),
        "$" => {
            let mut bytes = vec![0; rest.parse::<usize>().expect("a length") + 2];
            input.read_exact(&mut bytes).expect("a bulk string");
            bytes.truncate(bytes.len() - 2);
            format!("${}", String::from_utf8(bytes).expect("UTF-8"))
        }
        "*" => {
            let count: usize = rest.parse().expect("a count");
            let items: Vec<String> = (0..count).map(|_| reply(input)).collect();
            format!("[{}]", items.join(" | "))
        }
        "%" => {
            let count: usize = rest.parse().expect("a count");
            let mut members: Vec<String> =
                (0..count).map(|_| format!("{} => {}", reply(input), reply(input))).collect();
            members.sort();
            format!("{{{}}}", members.join(" | "))
        }
        _ => line.trim_end_matches("\r\n").to_owned(),
    }
}

/// This program's commands, in one protocol.
struct Ours {
    fixture: Fixture,
    was_deletion: bool,
}

impl Ours {
    fn new(resp3: bool) -> Ours {
        let mut fixture = Fixture::new();
        fixture.resp3 = resp3;
        Ours { fixture, was_deletion: false }
    }

    /// The reply to a command. `theirs` is the oracle's, if there is one: 2.8 keeps a document whose last
    /// child was deleted, so it is made again here.
    fn run(&mut self, command: &[&str], theirs: Option<&str>) -> String {
        let ours = reply(&mut &self.fixture.run_args(command)[..]);
        let kept = theirs.filter(|theirs| matches!(*theirs, "${}" | "$[]"));
        if let Some(kept) = kept.filter(|_| ours == "nil" && self.was_deletion) {
            self.fixture.run_args(&["JSON.SET", "doc", "$", &kept[1..]]);
            return kept.to_owned();
        }
        self.was_deletion = command[0] == "JSON.DEL";
        ours
    }

    fn document(&mut self) -> Option<Document> {
        let text = reply(&mut &self.fixture.run_args(&["JSON.GET", "doc"])[..]);
        Some(Document::new(parse(text.strip_prefix('$')?.as_bytes(), None).ok()?).expect("a document"))
    }

    /// Whether a filter of the command's path would be applied to a value that is no array: of a scalar
    /// ReJSON 2.8 tests the value itself, where 8 selects nothing, and in objects it finds places that it
    /// cannot write to.
    fn filters_no_array(&mut self, command: &[&str]) -> bool {
        let Some(path) = command.iter().skip(2).find(|argument| argument.contains("[?")) else {
            return false;
        };
        let Some(document) = self.document() else { return false };
        let mut prefixes = path.match_indices("[?").map(|(at, _)| &path[..at]);
        prefixes.any(|prefix| {
            let path = Path::parse(prefix.as_bytes()).expect("a path's beginning");
            let nodes = path.nodes(document.root()).expect("a path that is evaluated");
            nodes.iter().any(|node| !matches!(node.view(), View::Array(_)))
        })
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
    let mut ours = Ours::new(false);
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
        assert_eq!(shown(&ours.run(&command, Some(expected))), expected, "line {}: {command:?}", at + 1);
        cases += 1;
    }
    assert!(cases > 1000, "the table is there");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A line of the table. Of control characters, only whole arguments are one (NEWLINE, INDENT).
fn recorded(command: &[&str], reply: &str) -> String {
    let argument = |a: &&str| if ["\n", "\t"].contains(a) { shown(a) } else { (*a).to_owned() };
    let command: Vec<String> = command.iter().map(argument).collect();
    format!("{}\u{1f}{}\n", command.join("\u{1e}"), shown(reply))
}

/// Runs a sequence on both sides, and returns the number of commands, the table's lines and the first
/// difference.
fn compare(
    oracle: &mut Oracle,
    ours: &mut Ours,
    sequence: u64,
    first: bool,
) -> (u64, String, Option<String>) {
    let commands = if first { chosen() } else { generate(sequence) };
    let (mut count, mut table, mut last) = (0, String::new(), String::new());
    for (at, command) in commands.iter().enumerate() {
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        if at > 1 && (ours.filters_no_array(&command) || !first && ours.document().is_none()) {
            continue;
        }
        let theirs = oracle.run(&command);
        let found = ours.run(&command, Some(&theirs));
        count += 1;
        if theirs != found && at > 0 {
            let seed = format!("MARTLET_JSON_SEED={sequence} {last}");
            return (count, table, Some(format!("{seed}\n{command:?}\n  theirs {theirs}\n  ours   {found}")));
        }
        last = format!("{command:?} -> {found}");
        table += &recorded(&command, &theirs);
    }
    (count, table, None)
}

#[test]
fn generated_commands_beside_the_oracle() {
    let (mut table, mut differences, mut count) = (String::new(), 0, 0);
    let first = number("MARTLET_JSON_SEED").unwrap_or(0);
    for resp3 in [false, true] {
        let Some(mut oracle) = Oracle::connect(resp3) else {
            println!("skipped: MARTLET_JSON_ORACLE is not set (1 test)");
            return;
        };
        let mut ours = Ours::new(resp3);
        for sequence in first..first + number("MARTLET_JSON_SEQUENCES").unwrap_or(SEQUENCES) {
            let (commands, lines, difference) =
                compare(&mut oracle, &mut ours, sequence, sequence == first && !resp3);
            count += commands;
            if !resp3 && sequence - first < 60 {
                table += &lines;
            }
            if let Some(difference) = difference {
                println!("resp3 {resp3} {difference}");
                differences += 1;
            }
            assert!(differences < 30, "too many differences");
        }
    }
    println!("{count} commands, {differences} differences");
    assert_eq!(differences, 0);
    if let Ok(record) = std::env::var("MARTLET_JSON_RECORD") {
        std::fs::write(record, table).expect("the table is written");
    }
}

#[test]
fn generated_commands_leave_one_document_in_both_protocols() {
    let seed = number("MARTLET_JSON_SEED").unwrap_or_else(|| u64::from(std::process::id()) << 20);
    println!("MARTLET_JSON_SEED={seed}");
    let (mut two, mut three) = (Ours::new(false), Ours::new(true));
    for sequence in seed..seed + SEQUENCES_ALONE {
        for command in generate(sequence) {
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            // FORMAT is an error in RESP2.
            if command.contains(&"FORMAT") {
                continue;
            }
            two.run(&command, None);
            three.run(&command, None);
            let text = |ours: &mut Ours| ours.document().map(|document| format!("{document:?}"));
            assert_eq!(text(&mut two), text(&mut three), "{command:?}");
        }
    }
}
