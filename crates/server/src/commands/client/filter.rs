//! Which clients CLIENT LIST and CLIENT KILL mean.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_base::number::parse_i64;
use martlet_command::Error;

use crate::clients::{ClientInfo, flag};
use crate::commands::Call;
use crate::shared::lock;

/// The kinds of clients that TYPE tells apart.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum ClientType {
    Normal,
    Replica,
    Pubsub,
    Primary,
}

/// Conditions that must all hold.
#[derive(Debug, Default)]
pub(super) struct Filter {
    id: Option<u64>,
    peer: Option<String>,
    local: Option<String>,
    user: Option<Vec<u8>>,
    kind: Option<ClientType>,
    max_age_s: Option<i64>,
    skip_me: bool,
    /// `CLIENT KILL addr:port`, which answers OK or an error.
    pub(super) is_old_style: bool,
    now_ms: i64,
}

impl Filter {
    /// Whether the filter means this client; `me` is the one that asks.
    pub(super) fn matches(&self, client: &ClientInfo, me: u64) -> bool {
        let age_s = (self.now_ms - client.created_ms) / 1000;
        !client.killed.load(Ordering::Acquire)
            && self.id.is_none_or(|id| id == client.id)
            && self.peer.as_ref().is_none_or(|peer| *peer == client.peer)
            && self.local.as_ref().is_none_or(|local| *local == client.local)
            && self.user.as_ref().is_none_or(|user| *user == lock(&client.details).user)
            && self.kind.is_none_or(|kind| kind == type_of(client))
            && self.max_age_s.is_none_or(|least| age_s >= least)
            && !(self.skip_me && client.id == me)
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

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
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

/// The clients that CLIENT LIST is asked for: with ID those of the ids, in their order, and as often as each
/// is named.
pub(super) fn listed(call: &Call<'_>) -> Result<Vec<Arc<ClientInfo>>, Error> {
    let clients = &call.worker.shared.clients;
    let is_listed = |client: &Arc<ClientInfo>| !client.killed.load(Ordering::Acquire);
    let mut rest = call.rest(2);
    if rest.option("id", 1) {
        let ids: Option<Vec<i64>> = rest.args().iter().map(parse_i64).collect();
        let ids = ids.ok_or(Error::Fixed("ERR Invalid client ID"))?;
        // Nobody has an id below 1.
        return Ok(ids.into_iter().filter_map(|id| clients.get(id as u64)).filter(is_listed).collect());
    }
    let kind = if rest.option("type", 1) { Some(rest.value()?) } else { None };
    rest.finish()?;
    let kind = kind.map(client_type).transpose()?;
    let is_meant = |client: &Arc<ClientInfo>| is_listed(client) && kind.is_none_or(|k| type_of(client) == k);
    Ok(clients.all().into_iter().filter(is_meant).collect())
}

/// CLIENT KILL's arguments.
pub(super) fn parse_kill(call: &Call<'_>) -> Result<Filter, Error> {
    let mut filter = Filter { now_ms: call.worker.now_ms, skip_me: true, ..Filter::default() };
    if call.argc() == 3 {
        filter.peer = Some(text(call.arg(2)));
        filter.skip_me = false;
        filter.is_old_style = true;
        return Ok(filter);
    }
    let mut rest = call.rest(2);
    loop {
        if rest.option("id", 1) {
            filter.id = Some(rest.at_least(1, "ERR client-id should be greater than 0")? as u64);
        } else if rest.option("maxage", 1) {
            let age_s = rest.at_least(i64::MIN, "ERR maxage is not an integer or out of range")?;
            if age_s <= 0 {
                return Err(Error::Fixed("ERR maxage should be greater than 0"));
            }
            filter.max_age_s = Some(age_s);
        } else if rest.option("type", 1) {
            filter.kind = Some(client_type(rest.value()?)?);
        } else if rest.option("addr", 1) {
            filter.peer = Some(text(rest.value()?));
        } else if rest.option("laddr", 1) {
            filter.local = Some(text(rest.value()?));
        } else if rest.option("user", 1) {
            let user = rest.value()?;
            if call.worker.users.get(user).is_none() {
                return Err(Error::quoting("ERR No such user '", user, "'"));
            }
            filter.user = Some(user.to_vec());
        } else if rest.option("skipme", 1) {
            filter.skip_me = rest.one_of(&[("yes", true), ("no", false)]).ok_or(Error::Syntax)?;
        } else {
            rest.finish()?;
            return Ok(filter);
        }
    }
}
