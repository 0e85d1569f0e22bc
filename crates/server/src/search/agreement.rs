//! The definitions of indexes in a cluster: one node, the owner of the first slot, orders their changes.
//!
//! A change is made there first and then at each other primary, which records it for itself. Its client is
//! answered when all that have slots have confirmed it. A node that has missed something, or is new, gets all
//! definitions: the ordering node compares versions once a second. Definitions that another node has newer
//! than the ordering one, as after a failover, are taken over by it first; those of a node that has never
//! agreed with the cluster are added to the cluster's.

use std::sync::atomic::Ordering;
use std::time::Duration;

use martlet_base::clock::monotonic;
use martlet_client::resp::Reply as Answer;
use martlet_indexes::{Catalogue, Changed, DEFINE, join};
use martlet_protocol::reply::Reply;

use super::nodes::{AGREEMENT, NO_THREAD, Nodes, PAUSE, TRY_AGAIN, unreachable};
use crate::cluster::asking;
use crate::cluster::peers::{Failure, Peer};
use crate::runtime::{Mail, Worker};

/// How long the node that orders a change may take, with all others.
const FORWARDED: Duration = Duration::from_secs(15);

type Words = Vec<Vec<u8>>;

fn words(of: &[&[u8]]) -> Words {
    of.iter().map(|word| word.to_vec()).collect()
}

/// Sends each of these nodes the same request.
fn ask(nodes: Nodes, peers: &[&Peer], request: &[Vec<u8>], limit: Duration) -> Vec<Result<Answer, Failure>> {
    let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
    let requests: Vec<(&Peer, Vec<&[u8]>)> = peers.iter().map(|peer| (*peer, words.clone())).collect();
    asking::ask(nodes.shared(), nodes.node(), &requests, monotonic().checked_add(limit))
}

/// The definitions of this node as a request.
fn whole(indexes: &Catalogue) -> Words {
    let (version, commands) = indexes.definitions();
    let mut request = words(&[DEFINE, version.to_string().as_bytes(), b"ALL"]);
    request.extend(join(&commands).into_iter().map(Vec::from));
    request
}

/// The reason why a node has not carried out a request.
fn failure(peer: &Peer, answer: Result<Answer, Failure>) -> Option<String> {
    match answer {
        Ok(Answer::Error(text)) => {
            let text = String::from_utf8_lossy(&text);
            Some(format!("the node at {}:{} refuses it: {text}", peer.host, peer.port))
        }
        Ok(_) => None,
        Err(Failure::TimedOut) => Some(unreachable(peer, "no answer in time")),
        Err(Failure::Unreachable(why)) => Some(unreachable(peer, &why)),
    }
}

/// Has all others make a change that was made here; the error if not all have.
pub fn publish(nodes: Nodes, has_thread: bool, change: &[Vec<u8>]) -> Option<String> {
    let failure = match has_thread {
        true => publish_change(nodes, change),
        false => Some(NO_THREAD.to_owned()),
    };
    failure.map(|why| {
        format!(
            "ERRCLUSTER The indexes have changed, but not yet at all nodes, which follow as soon as they can: {why}"
        )
    })
}

fn publish_change(nodes: Nodes, change: &[Vec<u8>]) -> Option<String> {
    let others = nodes.others();
    let others: Vec<&Peer> = others.iter().collect();
    let answers = ask(nodes, &others, change, AGREEMENT);
    let (mut failed, mut behind) = (None, Vec::new());
    for (peer, answer) in others.into_iter().zip(answers) {
        match answer {
            Ok(Answer::Error(_)) => behind.push(peer),
            // The cluster answers without a node that has no slots.
            answer if peer.has_slots => failed = failed.or(failure(peer, answer)),
            _ => {}
        }
    }
    let answers = ask(nodes, &behind, &whole(nodes.shared().indexes), AGREEMENT);
    let late = behind.into_iter().zip(answers).find_map(|(peer, answer)| failure(peer, answer));
    failed.or(late)
}

/// Has the node that orders changes make this one, and answers the client that has asked for it.
pub fn forward(nodes: Nodes, has_thread: bool, change: &[Vec<u8>], reply: &mut Reply) {
    if !has_thread {
        return reply.error(NO_THREAD);
    }
    let began = monotonic();
    loop {
        let Some(leader) = nodes.leader() else { return reply.error("CLUSTERDOWN Hash slot not served") };
        let answer = match leader.is_me {
            // This node has become the one, and will know soon.
            true => Some(Ok(Answer::Error(TRY_AGAIN.to_vec()))),
            false => ask(nodes, &[&leader], change, FORWARDED).pop(),
        };
        match answer {
            Some(Ok(Answer::Error(text))) if text.starts_with(TRY_AGAIN) && began.elapsed() < AGREEMENT => {
                std::thread::sleep(PAUSE);
            }
            Some(Ok(Answer::Error(text))) => return reply.error(text),
            Some(Ok(Answer::Int(count))) => return reply.int(count),
            Some(Ok(_)) => return reply.ok(),
            Some(Err(Failure::TimedOut)) => return reply.error(unreachable(&leader, "no answer in time")),
            Some(Err(Failure::Unreachable(why))) => return reply.error(unreachable(&leader, &why)),
            None => return reply.error(NO_THREAD),
        }
    }
}

/// Has a thread compare the definitions of all primaries, if this node orders their changes.
pub fn look(worker: &Worker) {
    let shared = worker.shared;
    let Some(nodes) = Nodes::new(shared) else { return };
    let leads = worker.routes.as_ref().is_some_and(|routes| routes.leads() && !routes.has_all_slots());
    let peers = &nodes.node().peers;
    // Without any index here, another node hardly has one.
    let turn = peers.looks.fetch_add(1, Ordering::Relaxed);
    let is_due = shared.indexes.version() > 0 || shared.indexes.has_any() || turn.is_multiple_of(10);
    let is_looking = &peers.is_looking;
    if !leads || !is_due || shared.is_replica() || is_looking.swap(true, Ordering::AcqRel) {
        return;
    }
    peers.threads.run("ask-nodes", move |has_thread| {
        if has_thread {
            compare(nodes);
        }
        is_looking.store(false, Ordering::Release);
    });
}

/// The version and digest in a node's answer.
fn state(answer: Result<Answer, Failure>) -> Option<(u64, u64)> {
    let Ok(Answer::Array(fields)) = answer else { return None };
    let [Answer::Int(version), Answer::Int(digest)] = fields.as_slice() else { return None };
    Some((u64::try_from(*version).ok()?, digest.cast_unsigned()))
}

/// Compares the definitions of all primaries with this node's. A change of this node's definitions is left to
/// a worker; the next comparison finds it made.
fn compare(nodes: Nodes) {
    let indexes = nodes.shared().indexes;
    let others = nodes.others();
    let others: Vec<&Peer> = others.iter().collect();
    if others.is_empty() {
        return;
    }
    let own = indexes.digest();
    let asked = words(&[b"_FT.DEFINITIONS"]);
    let answers = ask(nodes, &others, &asked, AGREEMENT);
    let states: Vec<(&Peer, (u64, u64))> =
        others.into_iter().zip(answers).filter_map(|(peer, answer)| Some((peer, state(answer)?))).collect();
    if indexes.is_flushed() {
        // The cluster's indexes go with this node's keys.
        return order(nodes, vec![Own::Version]);
    }
    if let Some((newest, _)) =
        states.iter().filter(|(_, state)| state.0 > own.0).max_by_key(|(_, state)| state.0)
    {
        return take_over(nodes, newest, own.0 == 0);
    }
    let is_new = |(version, digest): (u64, u64)| version == 0 && digest != own.1 && has_any(digest);
    for (peer, state) in &states {
        // Once: what this node has by now is not added.
        if is_new(*state) && nodes.node().peers.notes_definitions(peer, state.1) {
            return add_from(nodes, peer);
        }
    }
    let differs = |state: (u64, u64)| state != own;
    if own.0 == 0 || states.iter().any(|(_, state)| state.0 == own.0 && differs(*state)) {
        if own.0 > 0 || has_any(own.1) {
            order(nodes, vec![Own::Version]);
        }
        return;
    }
    let behind: Vec<&Peer> =
        states.into_iter().filter(|(_, state)| differs(*state)).map(|(peer, _)| peer).collect();
    if behind.is_empty() {
        return;
    }
    let answers = ask(nodes, &behind, &whole(indexes), AGREEMENT);
    for (peer, answer) in behind.into_iter().zip(answers) {
        match failure(peer, answer) {
            None => tracing::info!("The node at {}:{} has the cluster's indexes", peer.host, peer.port),
            Some(why) => tracing::warn!("A node has not taken the cluster's indexes: {why}"),
        }
    }
}

/// Whether definitions of this digest are any.
fn has_any(digest: u64) -> bool {
    digest != martlet_indexes::DIGEST_OF_NONE
}

/// A change of this node's definitions as the server's own doing.
enum Own {
    /// None, but the version is the next one.
    Version,
    /// A request of [`DEFINE`].
    Request(Words),
    /// The change that a command makes.
    Command(Words),
}

impl Own {
    fn request(self, indexes: &Catalogue) -> Words {
        let [version, base] = [indexes.next_version(), indexes.version()].map(|number| number.to_string());
        match self {
            Own::Version => words(&[DEFINE, version.as_bytes(), b"SET"]),
            Own::Request(request) => request,
            Own::Command(command) => {
                let mut request = words(&[DEFINE, version.as_bytes(), b"ONE", base.as_bytes()]);
                request.extend(command);
                request
            }
        }
    }
}

/// All definitions of a node: their version, and the words of the commands.
fn fetch(nodes: Nodes, peer: &Peer) -> Option<(Vec<u8>, Words)> {
    let asked = words(&[b"_FT.DEFINITIONS", b"WHOLE"]);
    let Some(Ok(Answer::Array(answer))) = ask(nodes, &[peer], &asked, AGREEMENT).pop() else { return None };
    let mut all = answer.into_iter().filter_map(|word| word.text().map(<[u8]>::to_vec));
    Some((all.next()?, all.collect()))
}

/// Takes the definitions of a node whose version is newer. `keeps_own`: this node's, on which nothing has
/// been agreed, are added.
fn take_over(nodes: Nodes, newest: &Peer, keeps_own: bool) {
    let indexes = nodes.shared().indexes;
    let Some((version, theirs)) = fetch(nodes, newest) else { return };
    let own = if keeps_own { indexes.commands() } else { Vec::new() };
    let mut request = vec![DEFINE.to_vec(), version, b"ALL".to_vec()];
    request.extend(theirs);
    let own = own.into_iter().map(|command| Own::Command(command.into_iter().map(Vec::from).collect()));
    order(nodes, std::iter::once(Own::Request(request)).chain(own).collect());
}

/// Adds the definitions of a node that has never agreed with the cluster to the cluster's.
fn add_from(nodes: Nodes, peer: &Peer) {
    let Some((_, theirs)) = fetch(nodes, peer) else { return };
    let theirs: Vec<&[u8]> = theirs.iter().map(Vec::as_slice).collect();
    let commands = martlet_indexes::split(&theirs).unwrap_or_default();
    let mut changes: Vec<Own> = commands.into_iter().map(|command| Own::Command(words(command))).collect();
    // The cluster may have indexes of all these names.
    changes.push(Own::Version);
    order(nodes, changes);
}

/// Has a worker make changes of this node's definitions, if it still orders them.
fn order(nodes: Nodes, changes: Vec<Own>) {
    let make = move |worker: &mut Worker| {
        worker.alone(|worker| {
            let leads = worker.routes.as_ref().is_some_and(|routes| routes.leads());
            if leads && !worker.shared.is_replica() {
                changes.into_iter().for_each(|change| worker.change_indexes(change));
            }
        });
    };
    nodes.shared().send(0, Mail::Run(Box::new(make)));
}

impl Worker {
    /// Makes a change of the definitions as the server's own doing, and records it. All shards are locked.
    fn change_indexes(&mut self, change: Own) {
        let request = change.request(self.shared.indexes);
        let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        let memory_bytes = self.shared.index_memory_bytes();
        match self.shared.indexes.change(&words, memory_bytes) {
            Ok(Changed::No) => {}
            Ok(Changed::Yes | Changed::Dropped(_) | Changed::Terms(_)) => self.record_import(&words),
            Err(error) => tracing::warn!("The cluster's indexes: {error}"),
        }
    }
}
