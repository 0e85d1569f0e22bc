//! SENTINEL CONFIG: settings of the Sentinel as a whole.
//!
//! Invariant: one table has the options' names; all values are right before one is set.

use martlet_base::{glob, number};
use martlet_spec::{Error, Outcome};

use super::{Call, text};
use crate::events::Level;
use crate::machine::{GlobalOption, Settings};

/// An option: its name, its present value, and the parser of a new value.
struct ConfigOption {
    name: &'static str,
    get: fn(&Settings) -> Vec<u8>,
    parse: fn(&[u8]) -> Option<GlobalOption>,
}

fn word(is_on: bool) -> Vec<u8> {
    if is_on { b"yes".to_vec() } else { b"no".to_vec() }
}

fn yes_or_no(value: &[u8]) -> Option<bool> {
    match value.to_ascii_lowercase().as_slice() {
        b"yes" => Some(true),
        b"no" => Some(false),
        _ => None,
    }
}

/// In the order of SENTINEL CONFIG GET.
static OPTIONS: [ConfigOption; 7] = [
    ConfigOption {
        name: "resolve-hostnames",
        get: |settings| word(settings.resolve_hostnames),
        parse: |value| yes_or_no(value).map(GlobalOption::ResolveHostnames),
    },
    ConfigOption {
        name: "announce-hostnames",
        get: |settings| word(settings.announce_hostnames),
        parse: |value| yes_or_no(value).map(GlobalOption::AnnounceHostnames),
    },
    ConfigOption {
        name: "announce-ip",
        get: |settings| settings.announce_ip.clone().unwrap_or_default().into_bytes(),
        parse: |value| {
            // A comma would end its field of a hello message.
            let is_host = value.iter().all(|byte| byte.is_ascii_graphic() && *byte != b',');
            is_host.then(|| GlobalOption::AnnounceIp(text(value)))
        },
    },
    ConfigOption {
        name: "announce-port",
        get: |settings| settings.announce_port.to_string().into_bytes(),
        parse: |value| {
            let port = number::parse_i64(value).and_then(|port| u16::try_from(port).ok());
            port.map(GlobalOption::AnnouncePort)
        },
    },
    ConfigOption {
        name: "sentinel-user",
        get: |settings| settings.sentinel_user.clone().unwrap_or_default(),
        parse: |value| Some(GlobalOption::SentinelUser(value.to_vec())),
    },
    ConfigOption {
        name: "sentinel-pass",
        get: |settings| settings.sentinel_pass.clone().unwrap_or_default(),
        parse: |value| Some(GlobalOption::SentinelPass(value.to_vec())),
    },
    ConfigOption {
        name: "loglevel",
        get: |settings| settings.log_level.word().into(),
        parse: |value| Level::named(value).map(GlobalOption::LogLevel),
    },
];

/// SENTINEL CONFIG GET: the options that match the patterns, each once.
pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let mut told = [false; OPTIONS.len()];
    let place = call.reply.defer();
    for pattern in call.args.iter().skip(3) {
        for (option, told) in OPTIONS.iter().zip(&mut told) {
            if glob::matches(pattern, option.name.as_bytes(), true) && !std::mem::replace(told, true) {
                call.reply.bulk(option.name.as_bytes());
                call.reply.bulk(&(option.get)(&call.core.sentinel.settings));
            }
        }
    }
    let count = told.iter().filter(|told| **told).count();
    call.reply.close_map(place, count);
    Ok(())
}

/// SENTINEL CONFIG SET.
pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let mut seen = [false; OPTIONS.len()];
    let mut changes = Vec::new();
    for at in (3..call.argc()).step_by(2) {
        let name = call.arg(at);
        let refused = |before: &str, after: &str| {
            Error::Text(format!("ERR {before} '{}' {after}", String::from_utf8_lossy(name)))
        };
        let known = OPTIONS.iter().position(|option| name.eq_ignore_ascii_case(option.name.as_bytes()));
        let known = known.ok_or_else(|| refused("Invalid argument", "to SENTINEL CONFIG SET"))?;
        if std::mem::replace(&mut seen[known], true) {
            return Err(refused("Duplicate argument", "to SENTINEL CONFIG SET"));
        }
        let value = call.args.get(at + 1).ok_or_else(|| refused("Missing argument", "value"))?;
        changes.push((OPTIONS[known].parse)(value).ok_or_else(|| {
            let (value, name) = (text(value), text(name));
            Error::Text(format!("ERR Invalid value '{value}' to SENTINEL CONFIG SET '{name}'"))
        })?);
    }
    let now_ms = call.core.now_ms;
    let result = call.core.sentinel.set_global(now_ms, changes);
    result.map_err(|error| Error::Text(error.to_string()))?;
    call.reply.ok();
    Ok(())
}
