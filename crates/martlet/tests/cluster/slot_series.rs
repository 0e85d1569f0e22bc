//! Time series that move with their slots: rules, open buckets, and each node's index of labels.

use super::slot_migration::{begin_endless, field, is_over, migrate, pair};
use super::{Node, until};

const SOURCE: &str = "{06S}source";
const RULED: &str = "{06S}ruled";

fn facts(node: &Node) -> Vec<String> {
    let asked: [&[&str]; 5] = [
        &["TS.RANGE", SOURCE, "-", "+"],
        &["TS.RANGE", RULED, "-", "+", "LATEST"],
        &["TS.INFO", SOURCE],
        &["TS.INFO", RULED],
        &["TS.MRANGE", "-", "+", "LATEST", "WITHLABELS", "FILTER", "of=test"],
    ];
    asked.map(|words| node.ask(words)).to_vec()
}

fn found(node: &Node) -> String {
    node.ask(&["TS.QUERYINDEX", "of=test"])
}

#[test]
fn series_move_with_their_slots() {
    let (from, to) = (Node::ours(&[]), Node::ours(&[]));
    pair(&from, &to);
    for key in [SOURCE, RULED] {
        assert_eq!(from.ask(&["TS.CREATE", key, "CHUNK_SIZE", "128", "LABELS", "of", "test"]), "OK");
    }
    assert_eq!(from.ask(&["TS.CREATERULE", SOURCE, RULED, "AGGREGATION", "avg", "10"]), "OK");
    for time in 0..300 {
        let (time, value) = ((time * 3).to_string(), format!("{}.5", time % 7));
        assert_eq!(from.ask(&["TS.ADD", SOURCE, &time, &value]), time);
    }
    let (before, both) = (facts(&from), found(&from));
    assert_eq!(both, format!("{RULED} {SOURCE}"));

    // Keys that have arrived are not shown before the slot is this node's, and are gone if it never is.
    begin_endless(&from, &to);
    assert_eq!((found(&to).as_str(), found(&from)), ("", both.clone()));
    assert_eq!(from.ask(&["CLUSTER", "CANCELSLOTMIGRATIONS"]), "OK");
    until("both ends have given it up", || is_over(&from) && is_over(&to));
    until("its keys are gone", || to.ask(&["CLUSTER", "COUNTKEYSINSLOT", "0"]) == "0");
    assert_eq!((found(&to).as_str(), facts(&from)), ("", before.clone()));

    assert_eq!(from.ask(&["CONFIG", "SET", "rdb-key-save-delay", "0"]), "OK");
    assert_eq!(migrate(&from, &to), "OK");
    until("both ends have ended", || is_over(&from) && is_over(&to));
    assert_eq!([&from, &to].map(|node| field(node, "state")), ["success"; 2]);
    assert_eq!((found(&from).as_str(), found(&to)), ("", both));
    assert_eq!(facts(&to), before);
    // The rule continues its open bucket.
    assert_eq!(to.ask(&["TS.ADD", SOURCE, "1000", "1"]), "1000");
    assert_eq!(to.ask(&["TS.GET", RULED]), "890 4.5");
}
