//! Requests of this node to others, as their client: those that concern all of the cluster's keys, or all of
//! its nodes.
//!
//! Connections are logged in with the cluster's secret. Invariant: only threads that see no key wait here
//! (see [`NetworkThreads`](crate::network_threads::NetworkThreads)).

use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use martlet_base::clock::monotonic;
use martlet_base::disk::error_text;
use martlet_client::blocking::{Client, is_closed};
use martlet_client::resp::{Reply, encode_request};

use super::node::ClusterNode;
use super::peers::{Failure, Peer};
use super::slot_migration::import::INTERNAL_USER;
use crate::outgoing;
use crate::runtime::Shared;

/// How long connecting may take, and logging in.
const CONNECT: Duration = Duration::from_secs(2);
/// Between two looks whether the other node is there still, while its answer is awaited.
const LOOK: Duration = Duration::from_millis(500);
/// How long a node may refuse the cluster's secret, and the time between two attempts.
const SECRET_AGREEMENT: Duration = Duration::from_secs(3);
const SECRET_PAUSE: Duration = Duration::from_millis(50);
/// The most bytes of an answer.
const ANSWER_MAX_BYTES: usize = 512 << 20;

/// Sends each of these nodes its request, then waits for all answers.
pub fn ask(
    shared: &'static Shared,
    node: &'static ClusterNode,
    requests: &[(&Peer, Vec<&[u8]>)],
    deadline: Option<Instant>,
) -> Vec<Result<Reply, Failure>> {
    let begin = |(peer, words): &(&Peer, Vec<&[u8]>)| {
        let mut bytes = Vec::new();
        encode_request(words, &mut bytes);
        Exchange::begin(Asker { shared, node, deadline }, (*peer).clone(), bytes)
    };
    let begun: Vec<_> = requests.iter().map(begin).collect();
    begun.into_iter().map(|exchange| exchange?.end()).collect()
}

#[derive(Copy, Clone)]
struct Asker {
    shared: &'static Shared,
    node: &'static ClusterNode,
    deadline: Option<Instant>,
}

struct Exchange {
    asker: Asker,
    peer: Peer,
    request: Vec<u8>,
    client: Client,
    /// The connection was kept: the other end may have closed it.
    is_kept: bool,
}

impl Asker {
    fn left(&self) -> Duration {
        self.deadline.map_or(CONNECT, |deadline| deadline.saturating_duration_since(monotonic()))
    }

    fn connect(&self, peer: &Peer) -> Result<Client, Failure> {
        let began = monotonic();
        loop {
            let timeout = CONNECT.min(self.left());
            if timeout.is_zero() {
                return Err(Failure::TimedOut);
            }
            match self.log_in(peer, timeout) {
                Ok(client) => return Ok(client),
                // A node that is new to the cluster learns the secret with the next packets.
                Err(error) if is_refusal(&error) && began.elapsed() < SECRET_AGREEMENT => {
                    std::thread::sleep(SECRET_PAUSE);
                }
                Err(error) => return Err(unreachable(&error)),
            }
        }
    }

    fn log_in(&self, peer: &Peer, timeout: Duration) -> io::Result<Client> {
        let config = self.shared.config.snapshot();
        let mut client = outgoing::node_client(&config, (&peer.host, peer.port), timeout)?;
        let secret = self.node.read(|cluster| *cluster.secret());
        match client.command(&[b"AUTH".as_slice(), INTERNAL_USER, &secret])? {
            Reply::Simple(_) => {}
            other => {
                let text = String::from_utf8_lossy(other.text().unwrap_or_default()).into_owned();
                return Err(io::Error::new(ErrorKind::PermissionDenied, text));
            }
        }
        client.limit_replies(ANSWER_MAX_BYTES);
        Ok(client)
    }

    /// Whether it is of use to wait on.
    fn check(&self, peer: &Peer) -> Result<(), Failure> {
        if self.deadline.is_some_and(|deadline| monotonic() >= deadline) {
            return Err(Failure::TimedOut);
        }
        let has_gone = self
            .node
            .read(|cluster| cluster.find(peer.id.as_bytes()).is_none_or(|key| cluster.node(key).is_failed()));
        if has_gone || self.shared.stopping.load(Ordering::Relaxed) {
            return Err(Failure::Unreachable("the node has failed".into()));
        }
        Ok(())
    }
}

fn is_refusal(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}

fn unreachable(error: &io::Error) -> Failure {
    Failure::Unreachable(match error.raw_os_error() {
        Some(_) => error_text(error),
        None => error.to_string(),
    })
}

impl Exchange {
    fn begin(asker: Asker, peer: Peer, request: Vec<u8>) -> Result<Exchange, Failure> {
        if let Some(mut client) = asker.node.peers.take(&peer)
            && client.send_raw(&request).is_ok()
        {
            return Ok(Exchange { asker, peer, request, client, is_kept: true });
        }
        let client = asker.connect(&peer)?;
        Exchange { asker, peer, request, client, is_kept: false }.sent()
    }

    fn sent(mut self) -> Result<Exchange, Failure> {
        let sent = self.client.send_raw(&self.request);
        sent.map_err(|error| unreachable(&error))?;
        Ok(self)
    }

    fn end(mut self) -> Result<Reply, Failure> {
        loop {
            self.client.set_timeout(LOOK.min(self.asker.left()).max(Duration::from_millis(1)));
            match self.client.read_reply() {
                Ok(reply) => {
                    self.asker.node.peers.keep(&self.peer, self.client);
                    return Ok(reply);
                }
                Err(error) if error.kind() == ErrorKind::TimedOut => self.asker.check(&self.peer)?,
                Err(error) if self.is_kept && is_closed(&error) => {
                    self.client = self.asker.connect(&self.peer)?;
                    self.is_kept = false;
                    self = self.sent()?;
                }
                Err(error) => return Err(unreachable(&error)),
            }
        }
    }
}
