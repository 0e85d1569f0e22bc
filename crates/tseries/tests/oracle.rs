//! The crate beside RedisTimeSeries.
//!
//! `fixtures/oracle.txt` has commands and what RedisTimeSeries 1.12.2 answered; it is compared always. With
//! `MARTLET_TSERIES_ORACLE=HOST:PORT`, a server that may be flushed, generated commands are compared as well
//! (`MARTLET_TSERIES_SCENARIOS` many scenarios); `MARTLET_TSERIES_RECORD=FILE` writes the fixture.

mod support;

use martlet_tseries::saved::{self, Field, SaveOptions};
use martlet_tseries::series::Series;
use std::fmt::Write as _;
use support::client::Client;
use support::commands::Db;
use support::generate::{Command, SCRIPTS, Scenario, command};
use support::{Reply, payload};

const FIXTURE: &str = include_str!("fixtures/oracle.txt");
/// Commands of a generated scenario.
const SCENARIO_COMMANDS: usize = 400;
/// Scenarios in the fixture, and their commands: few, since it is kept.
const RECORDED: (u64, usize) = (8, 120);

fn show(command: &Command) -> String {
    command.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
}

/// Fields as text, without what RedisTimeSeries leaves uninitialised behind the samples of plain chunks.
fn show_payload(payload: &[u8]) -> String {
    let (fields, version) = payload::read(payload);
    let is_plain = matches!(fields.get(3), Some(Field::Unsigned(options)) if options & 1 == 1);
    let mut text = format!("v{version}");
    let mut before = [0, 0];
    for field in fields {
        match field {
            Field::Unsigned(number) => {
                before = [before[1], number];
                let _ = write!(text, " {number}");
            }
            Field::Signed(number) => {
                let _ = write!(text, " {number}");
            }
            Field::Double(number) => {
                let _ = write!(text, " {number:?}");
            }
            Field::String(mut bytes) => {
                if is_plain && before[1] == bytes.len() as u64 && !bytes.is_empty() {
                    bytes.truncate(before[0] as usize * 16);
                }
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                let _ = write!(text, " x{hex}");
            }
        }
    }
    text
}

/// A reply as both sides render it.
fn rendered(command: &Command, reply: &Reply) -> String {
    let name = command[0].to_ascii_lowercase();
    match (reply, &*name) {
        (Reply::Bulk(bytes), b"dump") => show_payload(bytes),
        // 8.10 has more to say of duplicates.
        (Reply::Error(text), _) if text.starts_with("ERR TSDB: Error at upsert") => {
            "-ERR TSDB: Error at upsert".to_owned()
        }
        (Reply::Array(items), b"ts.info") if items.len() > 6 => {
            let wanted = [
                "totalSamples",
                "firstTimestamp",
                "lastTimestamp",
                "retentionTime",
                "chunkCount",
                "chunkSize",
            ];
            let value = |name: &str| {
                let place =
                    items.iter().position(|item| *item == Reply::Simple(name.to_owned())).expect("a field");
                items[place + 1].clone()
            };
            Reply::Array(wanted.map(value).into()).render()
        }
        _ => reply.render(),
    }
}

#[test]
fn the_oracles_recorded_answers_are_ours() {
    let mut db = Db::default();
    let mut compared = 0;
    for pair in FIXTURE.lines().collect::<Vec<_>>().chunks_exact(2) {
        let command = command(&pair[0][2..]);
        assert_eq!(rendered(&command, &db.call(&command)), pair[1][2..], "{}", pair[0]);
        compared += 1;
    }
    assert!(compared > 1000, "{compared}");
}

#[test]
fn the_oracles_payloads_load_and_are_written_again() {
    let mut loaded = 0;
    for pair in FIXTURE.lines().collect::<Vec<_>>().chunks_exact(2) {
        if !pair[0].starts_with("> DUMP") || !pair[1].starts_with("< v8") {
            continue;
        }
        let fields = fields_of(&pair[1][5..]);
        let read = saved::decode(fields.clone(), 8).expect(pair[0]);
        let options = SaveOptions { version: 8, has_references: false };
        let again = saved::encode(&read.key, &read.series, options);
        // Of a destination an earlier sample may have been saved as the last one.
        let shown = |fields: &[Field]| {
            let mut fields = fields.to_vec();
            fields.drain(4..6);
            show_payload(&payload::write(&fields, 8))
        };
        assert_eq!(shown(&again), shown(&fields), "{}", pair[0]);
        loaded += 1;
    }
    assert!(loaded > 20, "{loaded}");
}

/// The fields of a shown payload; plain chunks are filled up with zeros.
fn fields_of(text: &str) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    for word in text.split(' ') {
        fields.push(match word.strip_prefix('x') {
            Some(hex) => {
                let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
                let mut bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
                let is_plain = matches!(fields.get(3), Some(Field::Unsigned(options)) if options & 1 == 1);
                if let Some(Field::Unsigned(size)) = fields.last()
                    && is_plain
                    && fields.len() > 12
                {
                    bytes.resize(*size as usize, 0);
                }
                Field::String(bytes)
            }
            None if word.contains('.') || word.contains('e') || word.contains("inf") => {
                Field::Double(word.parse().expect("a double"))
            }
            None => Field::Unsigned(word.parse().expect("a number")),
        });
    }
    fields
}

struct Pair {
    client: Client,
    db: Db,
    compared: usize,
    record: String,
}

impl Pair {
    fn call(&mut self, command: &Command, history: &mut Vec<String>) {
        history.push(show(command));
        let theirs = rendered(command, &self.client.call(command));
        let ours = rendered(command, &self.db.call(command));
        let _ = writeln!(self.record, "> {}\n< {theirs}", show(command));
        if ours != theirs {
            let _ = std::fs::write(std::env::temp_dir().join("tseries-difference.txt"), history.join("\n"));
        }
        assert_eq!(ours, theirs, "\nafter {} commands: {}", history.len(), show(command));
        self.compared += 1;
    }

    /// Our payloads load in the oracle, where the series answer as ours do.
    fn restore_all(&mut self) {
        let options = SaveOptions { version: 8, has_references: false };
        let keys: Vec<(Vec<u8>, Series)> =
            self.db.series.iter().map(|(key, series)| (key.clone(), series.clone())).collect();
        for (key, series) in keys {
            let payload = payload::write(&saved::encode(&key, &series, options), 8);
            let restore =
                [b"RESTORE".to_vec(), b"copy".to_vec(), b"0".to_vec(), payload, b"REPLACE".to_vec()];
            assert_eq!(self.client.call(&restore).render(), "+OK");
            for verb in ["TS.RANGE", "TS.REVRANGE"] {
                let theirs = self.client.call(&command(&format!("{verb} copy - +"))).render();
                let mut ours = command(&format!("{verb} k - +"));
                ours[1] = key.clone();
                assert_eq!(theirs, self.db.call(&ours).render());
            }
            self.client.call(&command("DEL copy"));
        }
    }
}

#[test]
fn generated_commands_are_answered_as_the_oracle_answers_them() {
    let Ok(address) = std::env::var("MARTLET_TSERIES_ORACLE") else {
        println!("skipped: 1 (MARTLET_TSERIES_ORACLE is not set)");
        return;
    };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let record = std::env::var("MARTLET_TSERIES_RECORD").ok();
    let (scenarios, commands) = match &record {
        Some(_) => RECORDED,
        None => (number("MARTLET_TSERIES_SCENARIOS").unwrap_or(100), SCENARIO_COMMANDS),
    };
    let mut pair =
        Pair { client: Client::connect(&address), db: Db::default(), compared: 0, record: String::new() };
    for script in SCRIPTS {
        let mut history = Vec::new();
        script.lines().for_each(|line| pair.call(&command(line), &mut history));
    }
    let first = number("MARTLET_TSERIES_SEED").unwrap_or(1);
    for seed in first..first + scenarios {
        println!("MARTLET_TSERIES_SEED={seed}");
        let mut history = Vec::new();
        let (mut scenario, begin) = Scenario::new(seed);
        begin.iter().for_each(|command| pair.call(command, &mut history));
        for _ in 0..commands {
            let command = scenario.next();
            pair.call(&command, &mut history);
        }
        pair.restore_all();
    }
    println!("compared: {}", pair.compared);
    if let Some(path) = record {
        std::fs::write(path, pair.record).expect("the fixture is written");
    }
}
