//! The six histories that faults have shown in replicated servers, each with its expected finding.

use martlet_history::{AnomalyKind, Limits, Report, check, parse};

/// The report on a history in short form: `client node call-with-fields invoked ending`, one operation a
/// line.
fn report(lines: &[(u64, &str, &str, u64, &str)]) -> Report {
    let text: String = lines
        .iter()
        .map(|(client, node, call, invoked, ending)| {
            format!(
                "{{\"kind\":\"register\",\"key\":\"k\",\"client\":{client},\"node\":\"{node}\",{call},\
                 \"invoked\":{},{ending}}}\n",
                invoked * 1_000_000
            )
        })
        .collect();
    check(&parse(&text).unwrap(), &Limits::default())
}

fn counts(report: &Report) -> [usize; 3] {
    [AnomalyKind::LostWrite, AnomalyKind::StaleRead, AnomalyKind::PhantomRead].map(|kind| report.count(kind))
}

const READ: &str = r#""call":"read""#;
const WRITE_1: &str = r#""call":"write","value":"1""#;
const WRITE_2: &str = r#""call":"write","value":"2""#;
const UNKNOWN: &str = r#""outcome":"unknown""#;

fn done(at_ms: u64) -> String {
    format!("\"completed\":{},\"reply\":\"done\"", at_ms * 1_000_000)
}

fn saw(at_ms: u64, value: &str) -> String {
    format!("\"completed\":{},\"reply\":{{\"value\":{value}}}", at_ms * 1_000_000)
}

#[test]
fn a_isolated_primary_shows_a_pending_write_that_vanishes() {
    let report = report(&[
        (1, "a", WRITE_1, 0, &done(2)),
        (1, "a", WRITE_2, 10, UNKNOWN),
        (2, "a", READ, 20, &saw(21, "\"2\"")),
        (3, "b", READ, 40, &saw(41, "\"1\"")),
    ]);
    assert_eq!(counts(&report), [0, 0, 1]);
    let shown = report.offence.unwrap().to_string();
    assert_eq!(
        shown,
        "register \"k\" is not linearizable:\n  \
         [0] 0 to 2 ms  client 1 at a: write \"1\" → done\n  \
         [1] 10 to ?  client 1 at a: write \"2\" → outcome unknown\n  \
         [2] 20 to 21 ms  client 2 at a: read → \"2\"\n  \
         [3] 40 to 41 ms  client 3 at b: read → \"1\"\n\
         Operation 2 shows \"2\", which operation 1 wrote and which was never acknowledged; operation 3 began later \
         and misses it.\n"
    );
}

#[test]
fn b_restarted_primary_serves_unacknowledged_writes_from_its_file() {
    let report = report(&[
        (1, "a", WRITE_1, 0, UNKNOWN),
        (2, "b", READ, 10, &saw(11, "null")),
        (2, "a", READ, 20, &saw(21, "\"1\"")),
        (3, "b", READ, 30, &saw(31, "null")),
    ]);
    assert_eq!(counts(&report), [0, 0, 1]);
    assert_eq!(report.offence.unwrap().operations.len(), 3);
}

#[test]
fn c_promoted_replica_lacks_an_acknowledged_write() {
    let report = report(&[
        (1, "a", WRITE_1, 0, &done(1)),
        (1, "a", WRITE_2, 2, &done(3)),
        (2, "b", READ, 20, &saw(21, "\"1\"")),
        (3, "b", READ, 22, &saw(23, "\"1\"")),
    ]);
    assert_eq!(counts(&report), [1, 0, 0]);
    assert_eq!(report.offence.unwrap().operations.len(), 3);
}

#[test]
fn d_two_primaries_acknowledge_beside_each_other() {
    let report = report(&[
        (1, "a", WRITE_1, 0, &done(1)),
        (2, "b", WRITE_2, 10, &done(11)),
        (1, "a", READ, 12, &saw(13, "\"1\"")),
        (2, "b", READ, 14, &saw(15, "\"2\"")),
    ]);
    assert_eq!(counts(&report), [0, 1, 0]);
    let offence = report.offence.unwrap();
    assert!(
        offence.sentence.starts_with("Operation 2 misses \"2\", which operation 1 shows before it began")
    );
}

#[test]
fn e_stopped_writes_are_no_anomaly() {
    let report = report(&[
        (1, "a", WRITE_1, 0, &done(1)),
        (1, "a", WRITE_2, 10, UNKNOWN),
        (2, "a", READ, 20, &saw(21, "\"1\"")),
        (3, "b", r#""call":"write","value":"3""#, 20, UNKNOWN),
        (2, "a", READ, 30, &saw(31, "\"2\"")),
    ]);
    assert!(report.is_linearizable(), "{report}");
    assert_eq!((report.acknowledged, report.unknown, report.failed), (3, 2, 0));
}

#[test]
fn f_primary_with_an_empty_disk_empties_the_others() {
    let text = r#"
{"kind":"set","key":"s","client":1,"call":"add","member":"x","invoked":0,"completed":1,"reply":"done"}
{"kind":"set","key":"s","client":1,"call":"add","member":"y","invoked":2,"completed":3,"reply":{"changed":true}}
{"kind":"set","key":"s","client":1,"call":"read","invoked":4,"completed":5,"reply":{"members":["x","y"]}}
{"kind":"set","key":"s","client":2,"call":"read","invoked":60,"completed":61,"reply":{"members":[]}}
{"kind":"counter","key":"c","client":1,"call":"increment","by":2,"invoked":6,"completed":7,"reply":"done"}
{"kind":"counter","key":"c","client":2,"call":"read","invoked":62,"completed":63,"reply":{"number":0}}
{"kind":"list","key":"l","client":1,"call":"push","item":"x","invoked":8,"completed":9,"reply":"done"}
{"kind":"list","key":"l","client":2,"call":"read","invoked":64,"completed":65,"reply":{"items":[]}}
{"kind":"transfer","key":"t","client":1,"call":"open","balances":{"a":5,"b":5},"invoked":0,"completed":1,"reply":"done"}
{"kind":"transfer","key":"t","client":2,"call":"read","invoked":66,"completed":67,"reply":{"balances":{}}}
"#;
    let report = check(&parse(text).unwrap(), &Limits::default());
    assert_eq!(counts(&report), [5, 0, 0], "{report}");
    assert_eq!(report.count(AnomalyKind::UnbalancedRead), 1);
    assert!(report.objects.iter().all(|object| object.verdict == martlet_history::Verdict::NotLinearizable));
    assert_eq!(report.offence.unwrap().key, "s");
}

#[test]
fn failed_writes_and_values_from_nowhere_are_phantoms() {
    let report = report(&[
        (1, "a", WRITE_1, 0, r#""outcome":"failed""#),
        (2, "a", READ, 10, &saw(11, "\"1\"")),
        (2, "a", READ, 20, &saw(21, "\"7\"")),
        (2, "a", READ, 30, &saw(31, "\"2\"")),
        (1, "a", WRITE_2, 40, &done(41)),
    ]);
    assert_eq!(counts(&report), [0, 0, 3], "{report}");
    assert!(report.to_string().contains("which only operation 0 wrote, and it failed"), "{report}");
}

#[test]
fn a_contradiction_without_a_name_is_shown_by_its_smallest_part() {
    let text = r#"
{"kind":"list","key":"l","client":1,"call":"push","item":"x","invoked":0,"completed":9,"reply":"done"}
{"kind":"list","key":"l","client":2,"call":"push","item":"y","invoked":0,"completed":9,"reply":"done"}
{"kind":"list","key":"l","client":3,"call":"push","item":"z","invoked":1,"completed":9,"reply":"done"}
{"kind":"list","key":"l","client":1,"call":"pop","invoked":10,"completed":11,"reply":{"value":"z"}}
{"kind":"list","key":"l","client":1,"call":"read","invoked":20,"completed":21,"reply":{"items":["x","y"]}}
{"kind":"list","key":"l","client":2,"call":"read","invoked":22,"completed":23,"reply":{"items":["y","x"]}}
"#;
    let report = check(&parse(text).unwrap(), &Limits::default());
    let offence = report.offence.as_ref().unwrap();
    let indices: Vec<usize> = offence.operations.iter().map(|(index, _)| *index).collect();
    assert_eq!(indices, [0, 1, 4, 5], "{report}");
    assert!(offence.sentence.contains("operations 0, 1 and of 4, 5"), "{report}");
}
