//! R2: connections, payload and pipeline, one parameter at a time.

use crate::claims::{Bound, Claim, Kind, number};
use crate::experiment::Experiment;
use crate::page::{Entry, Section, View};
use crate::scale::Scale;
use crate::trial::{Load, Trial};

pub const EXPERIMENT: Experiment = Experiment {
    id: "R2",
    title: "Connections, payload, pipeline",
    source: "a report on redis-benchmark between two machines with 1 Gbit/s between them",
    trials,
    section,
};

/// Connections and requests/s, 100 bytes.
const CONNECTIONS: [(u64, f64); 4] = [(1, 8_768.0), (5, 35_334.0), (10, 52_430.0), (50, 52_413.0)];
/// Bytes, requests/s, server CPU in percent of a core.
const PAYLOAD: [(usize, f64, &str); 6] = [
    (2, 52_474.0, "42"),
    (1000, 52_430.0, "48"),
    (1400, 45_396.0, "41"),
    (1500, 25_518.0, "29"),
    (5000, 12_736.0, "24"),
    (10_000, 6_476.0, "18"),
];
/// Bytes, depth, requests/s.
const PIPELINE: [(usize, usize, f64); 12] = [
    (100, 1, 52_394.0),
    (100, 8, 495_662.0),
    (100, 10, 558_659.0),
    (100, 11, 312_940.0),
    (100, 15, 452_386.0),
    (100, 40, 487_519.0),
    (200, 1, 51_167.0),
    (200, 4, 220_288.0),
    (200, 6, 161_147.0),
    (200, 8, 221_361.0),
    (3000, 1, 21_104.0),
    (3000, 8, 21_713.0),
];
/// `-c 20 -n 1000000 -t set -d 100 -P 8 -q`.
const COMMAND: &str = "534,759";
const COMMAND_TRIAL: &str = "pipeline 100 8";
/// Connections of what varies another parameter.
const CLIENTS: u64 = 20;

fn set(bytes: usize) -> Load {
    Load::of(format!("SET key {{value {bytes}}}")).clients(CLIENTS)
}

fn trials(_: &Scale) -> Vec<Trial> {
    let connections =
        CONNECTIONS.iter().map(|(clients, _)| Trial::load(connections(*clients), set(100).clients(*clients)));
    let payload = PAYLOAD.iter().map(|(bytes, ..)| Trial::load(payload(*bytes), set(*bytes).clients(50)));
    let pipeline = PIPELINE
        .iter()
        .map(|(bytes, depth, _)| Trial::load(pipeline(*bytes, *depth), set(*bytes).pipeline(*depth)));
    connections.chain(payload).chain(pipeline).collect()
}

fn connections(clients: u64) -> String {
    format!("connections {clients}")
}

fn payload(bytes: usize) -> String {
    format!("payload {bytes}")
}

fn pipeline(bytes: usize, depth: usize) -> String {
    format!("pipeline {bytes} {depth}")
}

fn section(view: &View<'_>) -> Section {
    let figures = [("requests/s", "rate"), ("p50 ms", "p50_ms"), ("server's cores", "cores")];
    let ratio = Some(("rate", false));
    let mut connection_entries: Vec<Entry> = CONNECTIONS
        .iter()
        .map(|(clients, source)| {
            Entry::named(&clients.to_string(), &connections(*clients), &[&number(*source)])
        })
        .collect();
    connection_entries.push(Entry::named("20, -P 8", COMMAND_TRIAL, &[COMMAND]));
    let payload_entries: Vec<Entry> = PAYLOAD
        .iter()
        .map(|(bytes, source, cpu)| {
            Entry::named(&number(*bytes as f64), &payload(*bytes), &[&number(*source), cpu])
        })
        .collect();
    let pipeline_entries: Vec<Entry> = PIPELINE
        .iter()
        .map(|(bytes, depth, source)| {
            let label = format!(
                "{} bytes, {}",
                number(*bytes as f64),
                if *depth == 1 { "none".into() } else { depth.to_string() }
            );
            Entry::named(&label, &pipeline(*bytes, *depth), &[&number(*source)])
        })
        .collect();
    let source = ["requests/s"];
    let points: Vec<_> = CONNECTIONS.iter().map(|(c, y)| (*c as f64, Some(*y), connections(*c))).collect();
    let mut plots = vec![view.plot("SET over connections", ("connections", "requests/s"), &points, "rate")];
    let points: Vec<_> = PAYLOAD.iter().map(|(b, y, _)| (*b as f64, Some(*y), payload(*b))).collect();
    plots.push(view.plot("SET over payload", ("bytes", "requests/s"), &points, "rate"));
    let points: Vec<_> = PIPELINE
        .iter()
        .filter(|(bytes, ..)| *bytes == 100)
        .map(|(bytes, depth, y)| (*depth as f64, Some(*y), pipeline(*bytes, *depth)))
        .collect();
    plots.push(view.plot("SET of 100 bytes over pipeline", ("depth", "requests/s"), &points, "rate"));
    Section {
        method: vec![format!(
            "SET over the loopback device, whose frames have 64 KB; {CLIENTS} connections in the table of pipelines, 50 in \
             that of payloads."
        )],
        claims: claims(view),
        tables: vec![
            view.table(
                "Connections, 100 bytes",
                ("connections", &source),
                &connection_entries,
                &figures,
                ratio,
            ),
            view.table(
                "Payload",
                ("bytes", &["requests/s", "server CPU %"]),
                &payload_entries,
                &figures,
                ratio,
            ),
            view.table("Pipeline", ("payload, depth", &source), &pipeline_entries, &figures, ratio),
        ],
        plots,
        left_out: left_out(),
        ..Section::default()
    }
}

fn claims(view: &View<'_>) -> Vec<Claim> {
    use Kind::Law;
    let claim = |text: &str, test: (&str, Bound), above: String, below: String| {
        view.claim_ratio(Law, text, test, (&above, &below), "rate")
    };
    vec![
        claim(
            "Throughput grows with connections at first",
            ("5 by 1", Bound::AtLeast(1.5)),
            connections(5),
            connections(1),
        ),
        claim(
            "… and is flat from some 10 on",
            ("50 by 10", Bound::Between(0.7, 1.5)),
            connections(50),
            connections(10),
        ),
        claim(
            "Payload costs little up to 1,000 bytes",
            ("1,000 bytes by 2", Bound::AtLeast(0.75)),
            payload(1000),
            payload(2),
        ),
        claim(
            "… and above the frame throughput is inverse to it",
            ("10,000 bytes by 5,000", Bound::Between(0.4, 0.65)),
            payload(10_000),
            payload(5000),
        ),
        claim(
            "A pipeline of 8 gives nine times as much",
            ("100 bytes, 8 by none", Bound::AtLeast(3.0)),
            pipeline(100, 8),
            pipeline(100, 1),
        ),
        claim(
            "Large values gain nothing from a pipeline",
            ("3,000 bytes, 8 by none", Bound::AtMost(1.2)),
            pipeline(3000, 8),
            pipeline(3000, 1),
        ),
    ]
}

fn left_out() -> Vec<(String, String)> {
    let needs = "it needs two hosts with Ethernet between them; the loopback device has no frame of 1,500 bytes, and no \
                 line that fills up";
    [
        ("The cliff at the frame's size", needs),
        ("A batch that just fits a frame is best (8 and 10, but not 11)", needs),
        ("1 Gbit/s as the limit of large values", needs),
    ]
    .map(|(what, why)| (what.to_string(), why.to_string()))
    .into()
}
