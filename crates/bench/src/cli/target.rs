//! From settings to a server: URI, address, prelude, TLS, cluster nodes.

use super::options::Settings;
use crate::control::{Control, plain_error, reply_text};
use crate::plan::{Node, Target};
use martlet_client::address::Address;
use martlet_client::resp;
use martlet_client::tls::TlsSettings;
use std::sync::Arc;

/// Applies `scheme://user:password@host:port/db`.
pub fn apply_uri(settings: &mut Settings, uri: &str) -> Result<(), String> {
    let (scheme, rest) = uri.split_once("://").ok_or("Invalid URI scheme")?;
    match scheme {
        "redis" | "valkey" | "martlet" => {}
        "rediss" | "valkeys" | "martlets" => settings.tls = true,
        _ => return Err("Invalid URI scheme".into()),
    }
    settings.address_given = true;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host_port = match authority.rsplit_once('@') {
        None => authority,
        Some((credentials, host_port)) => {
            match credentials.split_once(':') {
                Some((user, password)) => {
                    settings.user = Some(percent_decode(user)?).filter(|u| !u.is_empty());
                    settings.password = Some(percent_decode(password)?);
                }
                None => settings.password = Some(percent_decode(credentials)?),
            }
            host_port
        }
    };
    let (host, port) = match host_port.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (host_port, None),
    };
    if !host.is_empty() {
        settings.host = host.trim_matches(['[', ']']).into();
    }
    if let Some(port) = port {
        settings.port = port.parse().map_err(|_| "Invalid server port.")?;
    }
    if !path.is_empty() {
        settings.database = path.parse().map_err(|_| format!("'{path}' is no database number"))?;
    }
    Ok(())
}

fn percent_decode(text: &str) -> Result<String, String> {
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits: Vec<u8> = bytes.by_ref().take(2).collect();
        let value = std::str::from_utf8(&digits).ok().and_then(|d| u8::from_str_radix(d, 16).ok());
        out.push(value.ok_or_else(|| format!("'{text}' has a broken percent escape"))?);
    }
    String::from_utf8(out).map_err(|_| format!("'{text}' is not UTF-8"))
}

/// The requests that each connection begins with, and their number.
fn prelude(settings: &Settings) -> (Vec<u8>, u32) {
    let (mut bytes, mut count) = (Vec::new(), 0);
    let mut add = |arguments: &[&str]| {
        resp::encode_request(arguments, &mut bytes);
        count += 1;
    };
    match (&settings.user, &settings.password) {
        (Some(user), Some(password)) => add(&["AUTH", user, password]),
        (None, Some(password)) => add(&["AUTH", password]),
        _ => {}
    }
    if settings.tracking {
        add(&["CLIENT", "TRACKING", "on"]);
    }
    if settings.database != 0 && !settings.cluster {
        add(&["SELECT", &settings.database.to_string()]);
    }
    if settings.resp3 {
        add(&["HELLO", "3"]);
    }
    (bytes, count)
}

/// A server as the settings name it. Nothing is connected yet.
pub fn resolve(settings: &Settings) -> Result<Target, String> {
    let address = match &settings.socket {
        Some(path) => Address::Unix(path.clone()),
        None => Address::resolve(&settings.host, settings.port).map_err(|e| {
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
    pub id: String,
    pub address: Address,
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
                Address::resolve(host, port).map_err(|e| format!("{endpoint}: {e}"))?
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
            eprintln!("WARNING: Primary node {address} has no slots, skipping...");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_everything() {
        let mut settings = Settings::default();
        apply_uri(&mut settings, "rediss://me:p%40ss@example.org:7000/3").expect("valid");
        assert_eq!((settings.host.as_str(), settings.port, settings.database), ("example.org", 7000, 3));
        assert_eq!((settings.user.as_deref(), settings.password.as_deref()), (Some("me"), Some("p@ss")));
        assert!(settings.tls);
        let mut settings = Settings::default();
        apply_uri(&mut settings, "redis://[::1]").expect("valid");
        assert_eq!((settings.host.as_str(), settings.port), ("::1", 6379));
        assert!(apply_uri(&mut settings, "http://x").is_err());
        assert!(apply_uri(&mut settings, "redis://x:port").is_err());
    }
}
