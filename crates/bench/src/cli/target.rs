//! From settings to a server: URI, address, prelude, TLS, cluster nodes.

use super::settings::Settings;
use crate::control::{Control, plain_error, reply_text, resolve as resolve_name};
use crate::errln;
use crate::plan::{Node, Target};
use martlet_client::address::Address;
use martlet_client::resp;
use martlet_client::uri::Uri;
use martlet_tls::TlsSettings;
use std::sync::Arc;

/// Applies `scheme://user:password@host:port/db`.
pub fn apply_uri(settings: &mut Settings, uri: &str) -> Result<(), String> {
    let uri = Uri::parse(uri)?;
    settings.address_given = true;
    settings.tls |= uri.tls;
    settings.user = uri.user.map(String::into_bytes).or(settings.user.take());
    settings.password = uri.password.map(String::into_bytes).or(settings.password.take());
    settings.host = uri.host.unwrap_or(std::mem::take(&mut settings.host));
    settings.port = uri.port.unwrap_or(settings.port);
    settings.database = uri.database.unwrap_or(settings.database);
    Ok(())
}

/// The requests that each connection begins with, and their number.
fn prelude(settings: &Settings) -> (Vec<u8>, u32) {
    let (mut bytes, mut count) = (Vec::new(), 0);
    let mut add = |arguments: &[&[u8]]| {
        resp::encode_request(arguments, &mut bytes);
        count += 1;
    };
    match (&settings.user, &settings.password) {
        (Some(user), Some(password)) => add(&[b"AUTH", user, password]),
        (None, Some(password)) => add(&[b"AUTH", password]),
        _ => {}
    }
    if settings.tracking {
        add(&[b"CLIENT", b"TRACKING", b"on"]);
    }
    if settings.database != 0 && !settings.cluster {
        add(&[b"SELECT", settings.database.to_string().as_bytes()]);
    }
    if settings.resp3 {
        add(&[b"HELLO", b"3"]);
    }
    (bytes, count)
}

/// A server as the settings name it. Nothing is connected yet.
pub fn resolve(settings: &Settings) -> Result<Target, String> {
    let address = match &settings.socket {
        Some(path) => Address::Unix(path.clone()),
        None => resolve_name(&settings.host, settings.port).map_err(|e| {
            format!("Could not connect to server at {}:{}: {e}", settings.host, settings.port)
        })?,
    };
    let tls = match settings.tls {
        true => {
            Some(TlsSettings::new(&settings.tls_options, &settings.host).map_err(|e| format!("TLS: {e}"))?)
        }
        false => None,
    };
    let (prelude, prelude_replies) = prelude(settings);
    Ok(Target {
        nodes: vec![Node { address, tags: Arc::new([]), slots: Arc::new([]) }],
        prelude,
        prelude_replies,
        tls,
    })
}

/// A connection for questions to a target's first node, its prelude said.
pub fn control(target: &Target) -> Result<Control, String> {
    let address = &target.nodes.first().ok_or("no server")?.address;
    control_at(target, address)
}

/// The same to one node.
pub fn control_at(target: &Target, address: &Address) -> Result<Control, String> {
    let failed = |e: std::io::Error| format!("Could not connect to server at {address}: {}", plain_error(&e));
    let mut control = Control::connect(address, target.tls.as_ref()).map_err(failed)?;
    control.write(&target.prelude).map_err(failed)?;
    for _ in 0..target.prelude_replies {
        let reply = control.read_reply().map_err(failed)?;
        if let resp::Reply::Error(text) = &reply {
            return Err(format!("Node {address} replied with error:\n{}", String::from_utf8_lossy(text)));
        }
    }
    Ok(control)
}

/// A cluster's primary.
pub struct Primary {
    /// Its node id.
    pub id: String,
    /// Where it listens.
    pub address: Address,
    /// Its slots, ascending by range.
    pub slots: Vec<u16>,
}

/// Asks a cluster for its primaries that hold slots.
pub fn primaries(control: &mut Control, asked: &Address) -> Result<Vec<Primary>, String> {
    let reply = control.command(&["CLUSTER", "NODES"]).map_err(|e| e.to_string())?;
    let text = match reply.text() {
        Some(text) => String::from_utf8_lossy(text).into_owned(),
        None => {
            return Err(format!(
                "Cluster node {asked} replied with error:\n{}\nFailed to fetch cluster configuration from {asked}",
                reply_text(&reply)
            ));
        }
    };
    let mut nodes = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [id, address, flags, primary, _, _, _, _, ranges @ ..] = words.as_slice() else { continue };
        if flags.contains("slave") || *primary != "-" {
            continue;
        }
        let endpoint = address.split(['@', ',']).next().unwrap_or(address);
        let address = match endpoint.rsplit_once(':') {
            // A node that was never met under an address does not know its own.
            Some(("", _)) => asked.clone(),
            Some((host, port)) => {
                let port = port.parse().map_err(|_| format!("Invalid CLUSTER NODES reply: {endpoint}"))?;
                resolve_name(host, port).map_err(|e| format!("{endpoint}: {e}"))?
            }
            None => return Err("Invalid CLUSTER NODES reply: missing addr.".into()),
        };
        let mut slots = Vec::new();
        for range in ranges.iter().filter(|r| !r.starts_with('[')) {
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            if let (Ok(low), Ok(high)) = (low.parse::<u16>(), high.parse::<u16>()) {
                slots.extend(low..=high);
            }
        }
        if slots.is_empty() {
            errln!("WARNING: Primary node {address} has no slots, skipping...");
            continue;
        }
        nodes.push(Primary { id: id.to_string(), address, slots });
    }
    if nodes.is_empty() { Err("Invalid cluster: 0 node(s).".into()) } else { Ok(nodes) }
}

/// Spreads a target over a cluster's primaries.
pub fn spread(target: &mut Target) -> Result<Vec<Primary>, String> {
    let mut control = control(target)?;
    let asked = target.nodes.first().map(|n| n.address.clone()).ok_or("no server")?;
    let nodes = primaries(&mut control, &asked)?;
    let tags = martlet_client::slot::tags();
    target.nodes = nodes
        .iter()
        .map(|node| Node {
            address: node.address.clone(),
            tags: node.slots.iter().filter_map(|slot| tags.get(usize::from(*slot)).copied()).collect(),
            slots: {
                let mut held = vec![false; martlet_client::slot::SLOT_COUNT];
                for slot in &node.slots {
                    if let Some(place) = held.get_mut(usize::from(*slot)) {
                        *place = true;
                    }
                }
                held.into()
            },
        })
        .collect();
    Ok(nodes)
}
