//! A server as Sentinels see it: it answers PING and INFO, passes messages on, and follows whom it is told
//! to.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use martlet_client::resp::Reply;

/// How long a replica takes to connect to another primary, in milliseconds.
const SYNC_MS: i64 = 700;

/// Whose connection, and which.
pub(super) type Peer = usize;

/// See the [module docs](self).
pub(super) struct Server {
    pub ip: String,
    pub is_up: bool,
    pub life: u64,
    /// Whom it follows; kept over a restart.
    pub primary: Option<String>,
    pub offset: u64,
    /// Since when its link to the primary could be up.
    pub link_since_ms: Option<i64>,
    pub link_lost_ms: i64,
    pub subscribers: BTreeSet<Peer>,
}

/// What follows from a request.
pub(super) enum Effect {
    /// Nothing but the reply.
    None,
    /// A message to all subscribers.
    Publish(Vec<u8>),
    /// Other connections are closed.
    CloseOthers,
}

impl Server {
    pub fn new(ip: String, primary: Option<String>) -> Server {
        Server {
            ip,
            is_up: true,
            life: 1,
            primary,
            offset: 0,
            link_since_ms: None,
            link_lost_ms: 0,
            subscribers: BTreeSet::new(),
        }
    }

    /// Whether its link to its primary is up.
    pub fn is_linked(&self, now_ms: i64) -> bool {
        self.link_since_ms.is_some_and(|since_ms| now_ms - since_ms >= SYNC_MS)
    }

    /// Answers a request of a connection.
    pub fn answer(
        &mut self,
        peer: Peer,
        request: &[Vec<u8>],
        replicas: &[String],
        now_ms: i64,
    ) -> (Reply, Effect) {
        let ok = || Reply::Simple(b"OK".to_vec());
        let word = |index: usize| request.get(index).map(|word| String::from_utf8_lossy(word).into_owned());
        match word(0).unwrap_or_default().as_str() {
            "PING" => (Reply::Simple(b"PONG".to_vec()), Effect::None),
            "INFO" => (Reply::Bulk(self.info(replicas, now_ms).into_bytes()), Effect::None),
            "PUBLISH" => (Reply::Int(1), Effect::Publish(request.get(2).cloned().unwrap_or_default())),
            "SUBSCRIBE" => {
                self.subscribers.insert(peer);
                let parts = [b"subscribe".to_vec(), request.get(1).cloned().unwrap_or_default()];
                let mut parts: Vec<Reply> = parts.into_iter().map(Reply::Bulk).collect();
                parts.push(Reply::Int(1));
                (Reply::Array(parts), Effect::None)
            }
            "SLAVEOF" => {
                self.follow(word(1).filter(|host| host != "NO"), now_ms);
                (ok(), Effect::None)
            }
            "EXEC" => (Reply::Array(Vec::new()), Effect::CloseOthers),
            _ => (ok(), Effect::None),
        }
    }

    /// Follows another server, or none.
    pub fn follow(&mut self, primary: Option<String>, now_ms: i64) {
        if self.primary != primary {
            self.primary = primary;
            self.link_since_ms = None;
            self.link_lost_ms = now_ms;
        }
    }

    fn info(&self, replicas: &[String], now_ms: i64) -> String {
        let mut text = format!("# Server\r\nrun_id:{:040x}\r\n# Replication\r\n", self.run_number());
        match &self.primary {
            None => {
                text.push_str("role:master\r\n");
                for (index, ip) in replicas.iter().enumerate() {
                    let _ = write!(text, "slave{index}:ip={ip},port=6379,state=online\r\n");
                }
            }
            Some(primary) => {
                let is_linked = self.is_linked(now_ms);
                let status = if is_linked { "up" } else { "down" };
                let _ = write!(
                    text,
                    "role:slave\r\nmaster_host:{primary}\r\nmaster_port:6379\r\nmaster_link_status:{status}\r\n"
                );
                if !is_linked {
                    let seconds = (now_ms - self.link_lost_ms) / 1_000;
                    let _ = write!(text, "master_link_down_since_seconds:{seconds}\r\n");
                }
                let _ = write!(text, "slave_repl_offset:{}\r\nslave_priority:100\r\n", self.offset);
            }
        }
        text
    }

    /// Each life has a run id of its own.
    fn run_number(&self) -> u64 {
        let place: u64 = self.ip.rsplit('.').next().and_then(|part| part.parse().ok()).unwrap_or(0);
        place << 32 | self.life
    }
}
