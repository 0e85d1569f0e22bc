//! A cluster of two nodes on this machine: where a key lives, while its slot moves and after.

use crate::claims::{Bound, Claim, Kind};
use crate::page::{Entry, Table, View};
use crate::rows::Values;
use crate::scale::Cost;
use crate::servers::{NOTHING_KEPT, Running};
use crate::trial::{Lab, Trial};
use martlet_bench::control::reply_text;
use martlet_bench::servers::free_port;
use std::time::Duration;

/// A key of the second node's slots, and another of the same slot.
const KEY: &str = "foo";
const ABSENT: &str = "{foo}absent";
const NAME: &str = "redirects";
/// How long two nodes may take to agree.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn trial() -> Trial {
    Trial::starting(NAME, Cost { fixed_s: 3.0, ..Cost::default() }, run)
}

/// A node that holds these slots, and its bus port.
fn node(lab: &Lab<'_>, slots: [&str; 2]) -> Result<(Running, String), String> {
    let bus = free_port()?.to_string();
    let options = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", "5000"];
    let node = lab.start(&[&NOTHING_KEPT[..], &options].concat())?;
    node.command(&["CLUSTER", "ADDSLOTSRANGE", slots[0], slots[1]])?;
    Ok((node, bus))
}

fn id(node: &Running) -> Result<String, String> {
    Ok(reply_text(&node.command(&["CLUSTER", "MYID"])?))
}

/// The text of a node's answer, error or not.
fn answer(node: &Running, words: &[&str]) -> Result<String, String> {
    let reply = node.control()?.command(words).map_err(|e| e.to_string())?;
    Ok(reply_text(&reply))
}

fn run(lab: &mut Lab<'_>) -> Result<Values, String> {
    let (first, _) = node(lab, ["0", "8191"])?;
    let (second, bus) = node(lab, ["8192", "16383"])?;
    let port = second.settings.port.to_string();
    first.command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
    for node in [&first, &second] {
        let agreed = || {
            let info = answer(node, &["CLUSTER", "INFO"])?;
            Ok(info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384"))
        };
        node.await_that(PATIENCE, "the cluster's agreement", agreed)?;
    }
    let slot = first.number(&["CLUSTER", "KEYSLOT", KEY])?.to_string();
    let [to_first, to_second] =
        [&first, &second].map(|node| format!("{slot} 127.0.0.1:{}", node.settings.port));
    let mut values = Values::new();
    let mut seen = |name: &str, answer: String, expected: String| {
        values.insert(name.into(), f64::from(u8::from(answer == expected)));
    };
    second.command(&["SET", KEY, "value"])?;
    seen("moved", answer(&first, &["GET", KEY])?, format!("MOVED {to_second}"));
    let (first_id, second_id) = (id(&first)?, id(&second)?);
    first.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &second_id])?;
    second.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &first_id])?;
    seen("present", answer(&second, &["GET", KEY])?, "value".into());
    seen("ask", answer(&second, &["GET", ABSENT])?, format!("ASK {to_first}"));
    let mut control = first.control()?;
    control.command(&["ASKING"]).map_err(|e| e.to_string())?;
    let reply = control.command(&["SET", ABSENT, "new"]).map_err(|e| e.to_string())?;
    seen("asking", reply_text(&reply), "OK".into());
    let port = first.settings.port.to_string();
    second.command(&["MIGRATE", "127.0.0.1", &port, KEY, "0", "5000"])?;
    for node in [&first, &second] {
        node.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &first_id])?;
    }
    seen("arrived", answer(&first, &["GET", KEY])?, "value".into());
    seen("moved_after", answer(&second, &["GET", KEY])?, format!("MOVED {to_first}"));
    Ok(values)
}

/// The observations, and the source's statements about them.
const SEEN: [(&str, &str); 6] = [
    ("moved", "Any node answers with where a key lives (MOVED)"),
    ("present", "While its slot moves, a key that is still there is answered"),
    ("ask", "… for one that is not, a temporary redirect (ASK)"),
    ("asking", "… with ASKING the other node takes it"),
    ("arrived", "A key moves with its slot while both serve"),
    ("moved_after", "After that the redirect is permanent (MOVED)"),
];

pub fn table(view: &View<'_>) -> Table {
    let figures: Vec<(&str, &str)> = SEEN.iter().map(|(name, _)| (*name, *name)).collect();
    let entries = [Entry::named("two nodes", NAME, &[])];
    view.table("Cluster: 1 is as the source says", ("", &[]), &entries, &figures, None)
}

pub fn claims(view: &View<'_>) -> Vec<Claim> {
    let seen = |(name, text): &(&str, &str)| {
        let test = ("as said (1) or not (0)", Bound::AtLeast(1.0));
        view.claim(Kind::Law, text, test, |server| view.value(NAME, server, name))
    };
    SEEN.iter().map(seen).collect()
}
