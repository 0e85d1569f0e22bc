//! Which clients CLIENT LIST and CLIENT KILL mean.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_base::number::parse_i64;
use martlet_base::sync::lock;
use martlet_command::{Cursor, Error};

use crate::clients::line;
use crate::clients::{ClientInfo, flag};
use crate::runtime::call::Call;

/// The letters that a client may have among its flags.
const FLAGS: &[u8] = b"OSMPxbtRBdcuAUreTIiEN";
/// The letters that a client may have among its capabilities.
const CAPABILITIES: &[u8] = b"r";

/// The kinds of clients that TYPE distinguishes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum ClientType {
    Normal,
    Replica,
    Pubsub,
    Primary,
}

/// Conditions that must all hold, or of which none may.
#[derive(Debug, Default)]
struct Conditions {
    ids: Vec<u64>,
    peer: Option<Vec<u8>>,
    local: Option<Vec<u8>>,
    ip: Option<Vec<u8>>,
    user: Option<Vec<u8>>,
    name: Option<Vec<u8>>,
    lib_name: Option<Vec<u8>>,
    lib_version: Option<Vec<u8>>,
    kind: Option<ClientType>,
    flags: Option<Vec<u8>>,
    capabilities: Option<Vec<u8>>,
    db: Option<usize>,
}

impl Conditions {
    /// Whether each condition that there is holds for a client.
    fn each<'a>(&'a self, client: &'a ClientInfo) -> impl Iterator<Item = bool> + 'a {
        let details = lock(&client.details).clone();
        let is = |wanted: &Option<Vec<u8>>, text: &[u8]| wanted.as_ref().map(|wanted| wanted == text);
        let has = |wanted: &Option<Vec<u8>>, letters: &str| {
            wanted.as_ref().map(|wanted| wanted.iter().all(|letter| letters.as_bytes().contains(letter)))
        };
        let ip = client.peer.rsplit_once(':').map_or(&*client.peer, |(ip, _)| ip);
        [
            (!self.ids.is_empty()).then(|| self.ids.contains(&client.id)),
            is(&self.peer, client.peer.as_bytes()),
            is(&self.local, client.local.as_bytes()),
            is(&self.ip, ip.trim_matches(['[', ']']).as_bytes()),
            is(&self.user, &details.user),
            is(&self.name, &details.name),
            is(&self.lib_name, &details.lib_name),
            is(&self.lib_version, &details.lib_version),
            self.kind.map(|kind| kind == type_of(client)),
            has(&self.flags, &line::flags(client)),
            has(&self.capabilities, line::capabilities(client)),
            self.db.map(|db| db == client.db.load(Ordering::Relaxed)),
        ]
        .into_iter()
        .flatten()
    }

    /// Takes an option that is a condition, if one comes next: its name without `not-`.
    fn parse(&mut self, call: &Call<'_>, rest: &mut Cursor<'_>, prefix: &str) -> Result<bool, Error> {
        let option = |rest: &mut Cursor<'_>, word: &str| rest.option(&format!("{prefix}{word}"), 1);
        let texts: [(&str, &mut Option<Vec<u8>>); 6] = [
            ("addr", &mut self.peer),
            ("laddr", &mut self.local),
            ("ip", &mut self.ip),
            ("name", &mut self.name),
            ("lib-name", &mut self.lib_name),
            ("lib-ver", &mut self.lib_version),
        ];
        for (word, text) in texts {
            if option(rest, word) {
                *text = Some(rest.value()?.to_vec());
                return Ok(true);
            }
        }
        if option(rest, "type") {
            self.kind = Some(client_type(rest.value()?)?);
        } else if option(rest, "user") {
            let user = rest.value()?;
            if call.worker.users.get(user).is_none() {
                return Err(Error::quoting("ERR No such user '", user, "'"));
            }
            self.user = Some(user.to_vec());
        } else if option(rest, "flags") {
            self.flags =
                Some(letters(rest.value()?, FLAGS, "ERR Unknown flags found in the provided filter: ")?);
        } else if option(rest, "capa") {
            let unknown = "ERR Unknown capa found in the provided filter: ";
            self.capabilities = Some(letters(rest.value()?, CAPABILITIES, unknown)?);
        } else if option(rest, "db") {
            self.db = Some(database(call, rest.value()?)?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

/// See the [module docs](self).
#[derive(Debug, Default)]
pub(super) struct Filter {
    only: Conditions,
    not: Conditions,
    max_age_s: Option<i64>,
    idle_s: Option<i64>,
    skip_me: bool,
    /// `CLIENT KILL addr:port`, which answers OK or an error.
    pub(super) is_old_style: bool,
    now_ms: i64,
}

impl Filter {
    /// Whether the filter means this client; `me` is the one that asks.
    pub(super) fn matches(&self, client: &ClientInfo, me: u64) -> bool {
        let seconds = |since_ms: i64| (self.now_ms - since_ms) / 1000;
        let idle_s = seconds(client.last_active_ms.load(Ordering::Relaxed));
        !client.killed.load(Ordering::Acquire)
            && self.only.each(client).all(|holds| holds)
            && !self.not.each(client).any(|holds| holds)
            && self.max_age_s.is_none_or(|least| seconds(client.created_ms) >= least)
            && self.idle_s.is_none_or(|least| idle_s >= least)
            && !(self.skip_me && client.id == me)
    }

    /// Takes an option that is neither ID nor NOT-ID; whether one came next.
    fn parse(&mut self, call: &Call<'_>, rest: &mut Cursor<'_>) -> Result<bool, Error> {
        if rest.option("maxage", 1) {
            self.max_age_s = Some(seconds(rest, "maxage")?);
        } else if rest.option("idle", 1) {
            self.idle_s = Some(seconds(rest, "idle")?);
        } else if rest.option("skipme", 1) {
            self.skip_me = rest.one_of(&[("yes", true), ("no", false)]).ok_or(Error::Syntax)?;
        } else {
            return Ok(self.only.parse(call, rest, "")? || self.not.parse(call, rest, "not-")?);
        }
        Ok(true)
    }
}

fn type_of(client: &ClientInfo) -> ClientType {
    let flags = client.flags.load(Ordering::Relaxed);
    if flags & flag::PRIMARY != 0 {
        ClientType::Primary
    } else if flags & (flag::MONITOR | flag::REPLICA) != 0 {
        ClientType::Replica
    } else if flags & flag::PUBSUB != 0 {
        ClientType::Pubsub
    } else {
        ClientType::Normal
    }
}

fn client_type(name: &[u8]) -> Result<ClientType, Error> {
    match name.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(ClientType::Normal),
        b"slave" | b"replica" => Ok(ClientType::Replica),
        b"pubsub" => Ok(ClientType::Pubsub),
        b"master" | b"primary" => Ok(ClientType::Primary),
        _ => Err(Error::quoting("ERR Unknown client type '", name, "'")),
    }
}

fn letters(text: &[u8], known: &[u8], unknown: &str) -> Result<Vec<u8>, Error> {
    let is_known = text.iter().all(|letter| known.contains(letter));
    if is_known { Ok(text.to_vec()) } else { Err(Error::quoting(unknown, text, "")) }
}

/// A number of seconds above 0.
fn seconds(rest: &mut Cursor<'_>, what: &str) -> Result<i64, Error> {
    let seconds = parse_i64(rest.value()?)
        .ok_or_else(|| Error::Text(format!("ERR {what} is not an integer or out of range")))?;
    if seconds > 0 { Ok(seconds) } else { Err(Error::Text(format!("ERR {what} should be greater than 0"))) }
}

fn database(call: &Call<'_>, text: &[u8]) -> Result<usize, Error> {
    let db = parse_i64(text).ok_or(Error::Fixed("ERR DB is not an integer or out of range"))?;
    let last = call.worker.config().database_count() - 1;
    usize::try_from(db)
        .ok()
        .filter(|db| *db <= last)
        .ok_or_else(|| Error::Text(format!("ERR DB number should be between 0 and {last}")))
}

const INVALID_ID: &str = "ERR client-id should be greater than 0";

/// An id, and those that follow.
fn ids(call: &Call<'_>, rest: &mut Cursor<'_>) -> Result<Vec<u64>, Error> {
    let is_number = rest.peek().and_then(parse_i64).is_some();
    if !is_number && call.worker.presentation().is_valkey() {
        return Err(Error::Syntax);
    }
    let mut ids = vec![rest.at_least(1, INVALID_ID)? as u64];
    while rest.peek().and_then(parse_i64).is_some() {
        ids.push(rest.at_least(1, INVALID_ID)? as u64);
    }
    Ok(ids)
}

/// The clients that CLIENT LIST is asked for: with ID those of the ids, in their order, and as often as each
/// is named.
pub(super) fn listed(call: &Call<'_>) -> Result<Vec<Arc<ClientInfo>>, Error> {
    let clients = &call.worker.shared.clients;
    let mut filter = Filter { now_ms: call.worker.now_ms, ..Filter::default() };
    let mut named: Option<Vec<i64>> = None;
    let mut rest = call.rest(2);
    loop {
        if rest.option("id", 1) {
            // In Redis the last of several lists counts.
            let is_valkey = call.worker.presentation().is_valkey();
            let named = if is_valkey { named.get_or_insert_default() } else { named.insert(Vec::new()) };
            let before = named.len();
            while let Some(id) = rest.peek().and_then(parse_i64) {
                if id < 1 && is_valkey {
                    return Err(Error::Fixed(INVALID_ID));
                }
                named.push(id);
                rest.skip(1);
            }
            // Ids come last, or one of the options follows.
            let is_last_or_followed = rest.left() == 0
                || rest.is_at("not-id")
                || is_valkey && rest.is_at("id")
                || filter.parse(call, &mut rest)?;
            if named.len() == before || !is_last_or_followed {
                return Err(if is_valkey { Error::Syntax } else { Error::Fixed("ERR Invalid client ID") });
            }
        } else if rest.option("not-id", 1) {
            filter.not.ids = ids(call, &mut rest)?;
        } else if !filter.parse(call, &mut rest)? {
            rest.finish()?;
            break;
        }
    }
    let me = call.connection.info.id;
    let found: Vec<Arc<ClientInfo>> = match named {
        // No client has an id below 1.
        // Valkey lists each client once, in its place.
        Some(ids) if call.worker.presentation().is_valkey() => {
            let is_named = |client: &Arc<ClientInfo>| ids.contains(&(client.id as i64));
            clients.all().into_iter().filter(is_named).collect()
        }
        Some(ids) => ids.into_iter().filter_map(|id| clients.get(id as u64)).collect(),
        None => clients.all(),
    };
    Ok(found.into_iter().filter(|client| filter.matches(client, me)).collect())
}

/// CLIENT KILL's arguments.
pub(super) fn parse_kill(call: &Call<'_>) -> Result<Filter, Error> {
    let mut filter = Filter { now_ms: call.worker.now_ms, skip_me: true, ..Filter::default() };
    if call.argc() == 3 {
        filter.only.peer = Some(call.arg(2).to_vec());
        filter.skip_me = false;
        filter.is_old_style = true;
        return Ok(filter);
    }
    let mut rest = call.rest(2);
    loop {
        if rest.option("id", 1) {
            let wanted = ids(call, &mut rest)?;
            // In Redis the last of several lists counts.
            if !call.worker.presentation().is_valkey() {
                filter.only.ids.clear();
            }
            filter.only.ids.extend(wanted);
        } else if rest.option("not-id", 1) {
            filter.not.ids = ids(call, &mut rest)?;
        } else if !filter.parse(call, &mut rest)? {
            rest.finish()?;
            return Ok(filter);
        }
    }
}
