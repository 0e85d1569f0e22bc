//! Requests to an index whose parts are at the nodes of a cluster.
//!
//! Invariant: the parts of an answer are those of all slots, each once. A request to a node has the
//! fingerprint of the slots that the asking node expects there; a node with other slots, before or after its
//! work, refuses the request, and all nodes are asked again.

use std::time::{Duration, Instant};

use martlet_base::clock::monotonic;
use martlet_client::resp::Reply as Answer;
use martlet_cluster::slots::SLOTS;
use martlet_command::{Error, Flags};
use martlet_engine::Engine;
use martlet_indexes::Access;
use martlet_protocol::reply::Reply;
use martlet_search::exec::KeyFilter;

use super::job::Job;
use crate::cluster::asking;
use crate::cluster::node::ClusterNode;
use crate::cluster::peers::{self, Failure, Peer};
use crate::runtime::Shared;
use crate::runtime::call::Call;

/// How long nodes are asked again that have other slots than expected, or do not know the index yet.
pub const AGREEMENT: Duration = Duration::from_secs(5);
/// Between two attempts.
pub const PAUSE: Duration = Duration::from_millis(20);
/// How much longer than its time limit a request waits for the answers of nodes that end by themselves.
const GRACE: Duration = Duration::from_millis(250);
/// The code of an answer after which all nodes are asked again.
pub const TRY_AGAIN: &[u8] = b"TRYAGAIN";
/// The answer of a node that has other slots.
pub const OTHER_SLOTS: Error = Error::Fixed("TRYAGAIN The slots of this node have changed");
/// The answer of a node that does not have the index yet.
pub const OTHER_INDEXES: Error = Error::Fixed("TRYAGAIN The index is not known at this node yet");
/// The answer of a node that does not order the changes of definitions.
pub const OTHER_LEADER: Error = Error::Fixed("TRYAGAIN Another node orders the changes of indexes");
/// The reply if no thread can be had.
pub const NO_THREAD: &str = "ERR The cluster's nodes cannot be asked: no thread is left";

/// The reply if a node's answer is none that it can be.
pub const UNREADABLE: &[u8] = b"ERRCLUSTER A node's answer cannot be read";

/// The nodes to be asked for a request, if this node does not have all slots.
#[derive(Copy, Clone)]
pub struct Nodes {
    shared: &'static Shared,
    node: &'static ClusterNode,
}

/// The documents that count at this node, if not all do: slots may be on their way here.
pub fn key_filter(engine: &'static Engine) -> Option<KeyFilter> {
    engine.hidden.is_any().then(|| KeyFilter::new(|key| !engine.hidden.has_key(key)))
}

impl Nodes {
    /// The nodes that the request concerns; `None`: this one alone.
    ///
    /// # Errors
    /// The cluster is down, or the request is part of a transaction or script, which cannot wait.
    pub fn of(call: &Call<'_>) -> Result<Option<Nodes>, Error> {
        match &call.worker.routes {
            Some(routes) if !routes.has_all_slots() => Nodes::all(call).map(Some),
            _ => Ok(None),
        }
    }

    /// All nodes of the cluster.
    ///
    /// # Errors
    /// As [`Nodes::of`].
    pub fn all(call: &Call<'_>) -> Result<Nodes, Error> {
        let (Some(routes), Some(node)) = (&call.worker.routes, call.worker.shared.cluster()) else {
            return Err(Error::Fixed("ERR This instance has cluster support disabled"));
        };
        let writes = call.entry.spec.flags.has(Flags::WRITE);
        if let Err(why) = routes.serves_all(writes, call.worker.config()) {
            return Err(Error::Redirect(call.worker.redirection(call.connection, why)));
        }
        if call.deny_blocking {
            return Err(cannot_block(call));
        }
        Ok(Nodes { shared: call.worker.shared, node })
    }

    /// All nodes, if there is a primary beside this one.
    ///
    /// # Errors
    /// As [`Nodes::of`].
    pub fn beside(call: &Call<'_>) -> Result<Option<Nodes>, Error> {
        let Some(node) = call.worker.shared.cluster() else { return Ok(None) };
        let nodes = Nodes { shared: call.worker.shared, node };
        if nodes.others().is_empty() {
            return Ok(None);
        }
        if call.deny_blocking { Err(cannot_block(call)) } else { Ok(Some(nodes)) }
    }

    /// The nodes, for this node's own purposes.
    pub fn new(shared: &'static Shared) -> Option<Nodes> {
        Some(Nodes { shared, node: shared.cluster()? })
    }

    /// The server.
    pub fn shared(self) -> &'static Shared {
        self.shared
    }

    /// This node.
    pub fn node(self) -> &'static ClusterNode {
        self.node
    }

    /// All primaries but this node.
    pub fn others(self) -> Vec<Peer> {
        let has_tls = self.shared.config.snapshot().tls_replication;
        let mut peers = self.node.read(|cluster| peers::primaries(cluster, has_tls));
        peers.retain(|peer| !peer.is_me);
        peers
    }

    /// The owner of the first slot that has one.
    pub fn leader(self) -> Option<Peer> {
        let has_tls = self.shared.config.snapshot().tls_replication;
        self.node.read(|cluster| {
            let owner = (0..SLOTS).find_map(|slot| cluster.owner(slot))?;
            let id = cluster.node(owner).id;
            peers::primaries(cluster, has_tls).into_iter().find(|peer| peer.id == id)
        })
    }

    /// Has a thread answer the client, which waits. `answer` gets `false` if no thread can be had, and must
    /// not ask then.
    pub fn answer(self, call: &mut Call<'_>, answer: impl FnOnce(bool, &mut Reply) + Send + 'static) {
        let (connection, entry, threads) = (&mut *call.connection, call.entry, &self.node.peers.threads);
        call.worker.ask_others(connection, entry, &call.args, threads, answer);
    }

    /// Answers the client with what `write` makes of the parts of all nodes. `decode` reads a node's answer.
    pub fn answer_parts<T>(
        self,
        call: &mut Call<'_>,
        request: PartRequest,
        decode: impl Fn(&[u8]) -> Option<T> + Send + 'static,
        write: impl FnOnce(Vec<Option<T>>, &mut Reply) + Send + 'static,
    ) {
        self.answer(call, move |has_thread, reply| {
            if !has_thread {
                return reply.error(NO_THREAD);
            }
            match self.parts(&request, decode) {
                Ok(parts) => write(parts, reply),
                Err(error) => reply.error(error),
            }
        });
    }

    /// The parts of all nodes: for each its own, or `None` if it has not come in time.
    ///
    /// # Errors
    /// As [`Nodes::ask`], and for an answer that `decode` cannot read.
    pub fn parts<T>(
        self,
        request: &PartRequest,
        decode: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<Option<T>>, Vec<u8>> {
        let words = |peer: &Peer| part_request(request.command, peer, &request.words);
        let answers = self.ask(request.timeout_ms, words)?;
        let read = |answer: Answer| answer.text().and_then(&decode).ok_or_else(|| UNREADABLE.to_vec());
        answers.into_iter().map(|answer| answer.map(read).transpose()).collect()
    }

    /// Asks the primaries of all slots: for each its answer, or `None` if it has not come in time. `request`
    /// makes a node's request.
    ///
    /// # Errors
    /// A node's error, or that it cannot be reached: the reply to the client.
    pub fn ask(
        self,
        timeout_ms: u64,
        request: impl Fn(&Peer) -> Vec<Vec<u8>>,
    ) -> Result<Vec<Option<Answer>>, Vec<u8>> {
        let began = monotonic();
        let limit = (timeout_ms > 0).then(|| began.checked_add(Duration::from_millis(timeout_ms))).flatten();
        let deadline = limit.and_then(|limit| limit.checked_add(GRACE));
        loop {
            let has_tls = self.shared.config.snapshot().tls_replication;
            let mut peers = self.node.read(|cluster| peers::primaries(cluster, has_tls));
            peers.retain(|peer| peer.has_slots);
            let answers = self.ask_once(&peers, deadline, &request);
            let is_over = began.elapsed() >= AGREEMENT || limit.is_some_and(|limit| monotonic() >= limit);
            match answers {
                Err(error) if error.starts_with(TRY_AGAIN) && !is_over => std::thread::sleep(PAUSE),
                answers => return answers,
            }
        }
    }

    fn ask_once(
        self,
        peers: &[Peer],
        deadline: Option<Instant>,
        request: impl Fn(&Peer) -> Vec<Vec<u8>>,
    ) -> Result<Vec<Option<Answer>>, Vec<u8>> {
        let requests: Vec<Vec<Vec<u8>>> = peers.iter().map(request).collect();
        let words = requests.iter().map(|words| words.iter().map(Vec::as_slice).collect());
        let requests: Vec<(&Peer, Vec<&[u8]>)> = peers.iter().zip(words).collect();
        let answers = asking::ask(self.shared, self.node, &requests, deadline);
        let mut all = Vec::with_capacity(answers.len());
        let mut refusal = None;
        for (peer, answer) in peers.iter().zip(answers) {
            match answer {
                Ok(Answer::Error(text)) if text.starts_with(TRY_AGAIN) => refusal = Some(text),
                Ok(Answer::Error(text)) => return Err(text),
                Ok(answer) => all.push(Some(answer)),
                Err(Failure::TimedOut) => all.push(None),
                Err(Failure::Unreachable(why)) => return Err(unreachable(peer, &why).into_bytes()),
            }
        }
        refusal.map_or(Ok(all), Err)
    }
}

/// This node's part of a request that another node was asked, and the slots that are expected here.
#[derive(Copy, Clone)]
pub struct PartOf {
    node: &'static ClusterNode,
    slots: u64,
}

/// A job whose reply counts only if this node still has the expected slots.
pub struct PartJob<J> {
    of: PartOf,
    job: J,
}

impl PartOf {
    /// The part that a request is about, whose first argument is the fingerprint of the slots.
    ///
    /// # Errors
    /// The client is no node of the cluster, or this node has other slots.
    pub fn check(call: &Call<'_>) -> Result<PartOf, Error> {
        let node = call.worker.shared.cluster().filter(|_| call.connection.session.peer.is_some());
        let node = node.ok_or_else(|| Error::unknown_command(&call.args))?;
        let part = PartOf { node, slots: call.int(1)?.cast_unsigned() };
        if part.is_valid() { Ok(part) } else { Err(OTHER_SLOTS) }
    }

    fn is_valid(self) -> bool {
        self.node.routes().own_slots() == self.slots
    }

    /// The job of this part.
    pub fn job<J: Job>(self, job: J) -> PartJob<J> {
        PartJob { of: self, job }
    }
}

impl<J: Job> Job for PartJob<J> {
    fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        self.job.step(access, now_ms)
    }

    fn end_early(&mut self) {
        self.job.end_early();
    }

    fn finish(self, reply: &mut Reply) {
        match self.of.is_valid() {
            true => self.job.finish(reply),
            false => reply.error(OTHER_SLOTS.to_string()),
        }
    }
}

/// What each node is asked for its part.
pub struct PartRequest {
    /// The command.
    pub command: &'static str,
    /// The words behind the fingerprint of the node's slots.
    pub words: Vec<Vec<u8>>,
    /// The time limit, milliseconds; 0 is unlimited.
    pub timeout_ms: u64,
}

impl PartRequest {
    /// The request of a command: these words, and then the client's arguments.
    pub fn new(command: &'static str, words: &[&str], call: &Call<'_>, timeout_ms: u64) -> PartRequest {
        let own = words.iter().map(|word| word.as_bytes().to_vec());
        let words = own.chain(call.args.iter().skip(1).map(<[u8]>::to_vec)).collect();
        PartRequest { command, words, timeout_ms }
    }
}

/// The request of a node's part: the command, the fingerprint of its slots, and these words.
pub fn part_request(command: &str, peer: &Peer, words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let slots = peer.slots.cast_signed().to_string();
    let own = [command, &slots].map(|word| word.as_bytes().to_vec());
    own.into_iter().chain(words.iter().cloned()).collect()
}

/// The number of the protocol of the client's replies.
pub fn protocol(call: &Call<'_>) -> &'static str {
    if call.reply.is_resp3() { "3" } else { "2" }
}

/// The error for a node that has not answered.
pub fn unreachable(peer: &Peer, why: &str) -> String {
    format!("ERRCLUSTER The node at {}:{} cannot be reached: {why}", peer.host, peer.port)
}

/// RediSearch's error where a client cannot wait.
pub fn cannot_block(call: &Call<'_>) -> Error {
    Error::Text(format!("Cannot perform `{}`: Cannot block", call.entry.spec.name.to_uppercase()))
}
