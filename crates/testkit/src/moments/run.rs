//! Making a history on a real server.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use martlet_base::random::Random;
use martlet_client::blocking::Client;
use martlet_client::resp::{Reply, encode_request};

use super::reader::{Index, Reader, digest};
use super::stopwatch::Stopwatch;
use super::writer::{Hand, Kind, Request};
use super::{DATABASES, Digests, Element, Elements, History, Seen, State, Write, Writer};

/// The clients of a history and their work.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides all that is not the timing.
    pub seed: u64,
    /// The writers.
    pub writers: Vec<Kind>,
    /// Keys that are there all the while.
    pub bystanders: usize,
    /// Requests of each writer.
    pub requests: usize,
    /// Clients that read until the writers have ended.
    pub readers: usize,
    /// Whether they read DEBUG DIGEST, too: not where a writer uses the second database.
    pub has_digests: bool,
}

/// Sends requests together and reads their replies, none of which may be an error.
fn send_all(client: &mut Client, requests: &[Request]) -> io::Result<Vec<Reply>> {
    let mut bytes = Vec::new();
    requests.iter().for_each(|request| encode_request(request, &mut bytes));
    client.send_raw(&bytes)?;
    let mut replies = Vec::new();
    for request in requests {
        let reply = client.read_reply()?;
        let is_wrong = |reply: &Reply| reply.is_error() || *reply == Reply::NullArray;
        if is_wrong(&reply) || reply.items().is_some_and(|items| items.iter().any(is_wrong)) {
            let shown: Vec<&String> = request.iter().take(6).collect();
            return Err(io::Error::other(format!("{shown:?}: {reply:?}")));
        }
        replies.push(reply);
    }
    Ok(replies)
}

/// Runs a plan against an empty server.
///
/// # Errors
/// A connection breaks, or the server sends an error or a reply of another form.
pub fn run(address: SocketAddr, plan: &Plan) -> io::Result<History> {
    let mut client = Client::connect(address)?;
    let mut elements: Vec<Element> = Vec::new();
    let mut hands = Vec::new();
    for (number, kind) in plan.writers.iter().enumerate() {
        let hand = Hand::new(*kind, elements.len(), plan.seed ^ number as u64);
        elements.extend_from_slice(hand.elements());
        hands.push(hand);
    }
    let mut bystanders = State::default();
    if plan.bystanders > 0 {
        bystanders.0[0] = 1 << elements.len();
        elements.push(Element::group("bystander", plan.bystanders));
    }
    assert!(elements.len() <= Elements::BITS as usize, "more elements than a state has bits");
    let digests = if plan.has_digests { Some(learn_digests(&mut client, &elements)?) } else { None };
    for hand in &hands {
        send_all(&mut client, &hand.begin())?;
    }
    let resting = elements.iter().skip(hands.iter().map(|hand| hand.elements().len()).sum());
    for element in resting {
        send_all(&mut client, &[set(&element.names)])?;
    }
    let (index, clock) = (Index::new(&elements), Stopwatch::start());
    let writing = AtomicUsize::new(hands.len());
    let (writers, reads) = std::thread::scope(|scope| {
        let (index, clock, writing) = (&index, &clock, &writing);
        let writers: Vec<_> = hands
            .into_iter()
            .map(|hand| scope.spawn(move || write(address, hand, plan.requests, clock, writing)))
            .collect();
        let readers: Vec<_> = (0..plan.readers)
            .map(|number| {
                scope.spawn(move || {
                    let mut random = Random::seeded(plan.seed ^ (0x1000 + number as u64));
                    let mut of_dbs = Vec::new();
                    for db in 0..DATABASES {
                        let client = Client::connect(address)?;
                        of_dbs.push(Reader::new(index, clock, (client, db), plan.has_digests)?);
                    }
                    while writing.load(Ordering::Acquire) > 0 {
                        // Most of it happens in the first.
                        let db = usize::from(random.below(4) == 0);
                        of_dbs[db].read_any(&mut random)?;
                    }
                    Ok(of_dbs.into_iter().flat_map(|reader| reader.reads).collect::<Vec<_>>())
                })
            })
            .collect();
        let writers: io::Result<Vec<Writer>> = writers.into_iter().map(joined).collect();
        let reads: io::Result<Vec<_>> = readers.into_iter().map(joined).collect();
        (writers, reads)
    });
    let mut writers = writers?;
    writers.push(Writer { begin: bystanders, writes: Vec::new() });
    Ok(History { writers, reads: reads?.into_iter().flatten().collect(), digests, elements })
}

fn joined<R>(thread: std::thread::ScopedJoinHandle<'_, io::Result<R>>) -> io::Result<R> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("a client's thread has panicked")))
}

/// Counts a running writer; readers stop once the count is zero.
struct Writing<'a>(&'a AtomicUsize);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A writer's run.
fn write(
    address: SocketAddr,
    mut hand: Hand,
    requests: usize,
    clock: &Stopwatch,
    writing: &AtomicUsize,
) -> io::Result<Writer> {
    let _writing = Writing(writing);
    let (begin, mut writes) = (hand.state, Vec::with_capacity(requests));
    let mut client = Client::connect(address)?;
    for _ in 0..requests {
        let step = hand.step();
        let began_ns = clock.now_ns();
        send_all(&mut client, &step.requests)?;
        let span = clock.span_since(began_ns);
        writes.push(Write { span, request: step.text, after: hand.state });
    }
    Ok(Writer { begin, writes })
}

fn set(names: &[String]) -> Request {
    let pairs = names.iter().flat_map(|name| [name.clone(), "v".to_owned()]);
    std::iter::once("MSET".to_owned()).chain(pairs).collect()
}

/// Asks for the digests that those of all states follow from, and empties the server.
fn learn_digests(client: &mut Client, elements: &[Element]) -> io::Result<Digests> {
    let mut of = |elements: &[Element]| {
        let names: Vec<String> = elements.iter().flat_map(|element| element.names.iter().cloned()).collect();
        send_all(client, &[vec!["FLUSHALL".to_owned()], set(&names)])?;
        match digest(&client.command(&["DEBUG", "DIGEST"])?)? {
            Seen::Digest(text) => Ok(text),
            other => Err(io::Error::other(format!("no digest: {other:?}"))),
        }
    };
    let alone: Vec<String> =
        elements.iter().map(|element| of(std::slice::from_ref(element))).collect::<io::Result<_>>()?;
    let first_two = of(&elements[..2])?;
    send_all(client, &[vec!["FLUSHALL".to_owned()]])?;
    Digests::new(&alone, &first_two).ok_or_else(|| io::Error::other(format!("no digests: {alone:?}")))
}
