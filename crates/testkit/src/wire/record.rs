//! Writes the replies of a real server into a case file that has only requests, for a person to review. Order
//! and values that the protocol does not promise are generalised by the command's name.

use super::case::{Action, Case, Step, parse};
use super::pattern::{Bindings, Pattern, Protocol, render};
use super::target::Target;
use super::words;
use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// A request with no reply within this time is taken to be blocked or unanswered.
const SILENCE: Duration = Duration::from_millis(150);
/// Commands whose arrays come in no particular order.
const UNORDERED: &[&str] = &[
    "smembers",
    "sunion",
    "sdiff",
    "sinter",
    "keys",
    "hkeys",
    "hvals",
    "hgetall",
    "spop",
    "srandmember",
    "hrandfield",
    "zrandmember",
];

/// The text of the file with a `<` line after every request that no expectation follows.
/// Cases that wait for other clients, or are not for this server, are left as they are.
pub fn record(address: SocketAddr, path: &Path, text: &str) -> io::Result<String> {
    let file = parse(path, text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let target = Target::probe(address)?;
    let mut added: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for case in &file.cases {
        let waits =
            case.steps.iter().any(|step| matches!(step.action, Action::AwaitBlocked(_) | Action::Poll(_)));
        if waits || !case.applies_to(&target) {
            continue;
        }
        let first = replies(address, case, case.protocol.unwrap_or(Protocol::Resp3))?;
        let second = replies(address, case, case.protocol.unwrap_or(Protocol::Resp2))?;
        for (index, (three, two)) in first.into_iter().zip(second).enumerate() {
            let (Some(step), next) = (case.steps.get(index), case.steps.get(index + 1)) else { break };
            let expected =
                next.is_some_and(|next| matches!(next.action, Action::Expect(..) | Action::ExpectRaw(_)));
            if !expected {
                added.insert(step.line, expectations(step, three, two));
            }
        }
    }
    let mut out = String::new();
    for (index, line) in text.lines().enumerate() {
        out.push_str(line);
        out.push('\n');
        for line in added.get(&(index + 1)).into_iter().flatten() {
            out.push_str(line);
            out.push('\n');
        }
    }
    Ok(out)
}

/// The reply to each step, or `None` where there was none.
fn replies(address: SocketAddr, case: &Case, protocol: Protocol) -> io::Result<Vec<Option<Reply>>> {
    let mut control = Client::connect(address)?;
    control.command(&["FLUSHALL"])?;
    let mut saved = Vec::new();
    for (name, value) in &case.config {
        let old = control.command(&["CONFIG", "GET", name])?;
        let old =
            old.items().and_then(|items| items.get(1)).and_then(Reply::text).unwrap_or_default().to_vec();
        control.command(&["CONFIG", "SET", name, value])?;
        saved.push((name, old));
    }
    let mut clients: BTreeMap<usize, Client> = BTreeMap::new();
    let mut replies = Vec::new();
    for step in &case.steps {
        if let std::collections::btree_map::Entry::Vacant(slot) = clients.entry(step.connection) {
            let mut client = Client::connect(address)?;
            if protocol == Protocol::Resp3 {
                client.command(&["HELLO", "3"])?;
            }
            client.set_timeout(SILENCE);
            slot.insert(client);
        }
        let Some(client) = clients.get_mut(&step.connection) else { continue };
        replies.push(match &step.action {
            Action::Send(text) | Action::Poll(text) => {
                let arguments = words::split(text).map_err(io::Error::other)?;
                client.command(&arguments).ok()
            }
            Action::SendRaw(bytes) => {
                client.send_raw(bytes)?;
                client.read_reply().ok()
            }
            _ => None,
        });
    }
    for (name, old) in saved {
        control.command(&[&b"CONFIG"[..], b"SET", name.as_bytes(), &old])?;
    }
    Ok(replies)
}

fn expectations(step: &Step, three: Option<Reply>, two: Option<Reply>) -> Vec<String> {
    let connection = if step.connection == 1 { String::new() } else { step.connection.to_string() };
    let command = match &step.action {
        Action::Send(text) => text.split_whitespace().next().unwrap_or_default().to_ascii_lowercase(),
        Action::SendRaw(_) => String::new(),
        _ => return Vec::new(),
    };
    let (Some(three), Some(two)) = (three, two) else { return vec![format!("# {connection}: no reply")] };
    let general = |reply: &Reply| {
        let text = render(reply);
        if UNORDERED.contains(&command.as_str()) && text.starts_with('[') { format!("*{text}") } else { text }
    };
    let (as_three, as_two) = (general(&three), general(&two));
    let serves_both = |text: &str| {
        Pattern::parse(text).is_ok_and(|pattern| {
            pattern.matches(&two, Protocol::Resp2, &mut Bindings::new())
                && pattern.matches(&three, Protocol::Resp3, &mut Bindings::new())
        })
    };
    for candidate in [as_three.clone(), as_three.replace("nil", "nil-array")] {
        if serves_both(&candidate) || three == two {
            return vec![format!("{connection}< {candidate}")];
        }
    }
    vec![format!("{connection}<2 {as_two}"), format!("{connection}<3 {as_three}")]
}
