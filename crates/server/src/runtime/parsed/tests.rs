//! How often requests are parsed, on a worker without a backend.

use std::os::unix::net::UnixStream;

use martlet_net::{Arrival, Sink, Token};
use proptest::prelude::*;

use crate::config::{Config, ConfigStore};
use crate::runtime::Shared;
use crate::runtime::busy::BackendPlace;
use crate::runtime::{UNIX, Worker};

struct House {
    worker: Worker,
    ends: Vec<UnixStream>,
}

impl House {
    fn new() -> House {
        let registry = Box::leak(Box::new(crate::commands::registry(&[]).unwrap()));
        let shared = Shared::new(ConfigStore::new(Config::default()), registry, 1, None).unwrap();
        House { worker: Worker::new(Box::leak(Box::new(shared)), 0, &crate::wiring::HOOKS), ends: Vec::new() }
    }

    fn clients(&mut self, count: usize) -> Vec<Token> {
        let client = |_| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            self.ends.push(theirs);
            self.worker.adopt(ours.into(), UNIX);
            self.worker.connections.last_mut().unwrap().token
        };
        (0..count).map(client).collect()
    }

    /// Reports input as a backend does in one poll; what is announced is so together.
    fn poll(&mut self, input: &[(Token, &[u8])], announced: usize) {
        self.worker.backend = BackendPlace::Taken;
        for group in input.chunks(announced.max(1)) {
            if announced > 1 {
                let arrivals: Vec<_> = group.iter().map(|&(token, data)| Arrival { token, data }).collect();
                self.worker.will_receive(&arrivals);
            }
            group.iter().for_each(|(token, data)| _ = self.worker.received(*token, data));
        }
        self.worker.backend = BackendPlace::None;
        (0..100).for_each(|_| self.worker.process_ready());
    }

    fn output(&mut self, client: Token) -> String {
        let mut connection = self.worker.take(client).unwrap();
        let text = String::from_utf8(std::mem::take(&mut connection.out)).unwrap();
        self.worker.finish(connection);
        text
    }

    /// How often requests are parsed in that time.
    fn parsed(&mut self, work: impl FnOnce(&mut House)) -> usize {
        let before = self.worker.intake.parse_count;
        work(self);
        self.worker.intake.parse_count - before
    }
}

fn request(words: &[&str]) -> Vec<u8> {
    let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let words: Vec<String> = words.collect();
    format!("*{}\r\n{}", words.len(), words.concat()).into_bytes()
}

#[test]
fn announced_requests_are_parsed_once() {
    let mut house = House::new();
    let clients = house.clients(8);
    let requests = [
        (request(&["GET", "k"]), "$-1\r\n"),
        (request(&["SET", "k", "v"]), "+OK\r\n"),
        (request(&["GET", "k"]), "$1\r\nv\r\n"),
        (request(&["PING"]), "+PONG\r\n"),
        (request(&["OBJECT", "ENCODING", "k"]), "$6\r\nembstr\r\n"),
        (request(&["MGET", "k", "l"]), "*2\r\n$1\r\nv\r\n$-1\r\n"),
        (request(&["NOSUCH"]), "-ERR unknown command 'NOSUCH', with args beginning with: \r\n"),
        (request(&["HGET", "h", "f"]), "$-1\r\n"),
    ];
    let input: Vec<_> =
        clients.iter().zip(&requests).map(|(token, (data, _))| (*token, data.as_slice())).collect();
    assert_eq!(house.parsed(|house| house.poll(&input, 8)), clients.len());
    for (client, (_, expected)) in clients.iter().zip(&requests) {
        assert_eq!(house.output(*client), *expected);
    }
}

/// EVALSHA that arrives in a poll, after a request of another kind and after one of its own kind, announced
/// or not: parsed once each, and once more only with a script's first request, which was not announced.
#[test]
fn scripts_are_parsed_once() {
    for announced in [1, 4] {
        let mut house = House::new();
        let clients = house.clients(4);
        let eval = request(&["EVAL", "return ARGV[1]", "0", "once"]);
        let get = request(&["GET", "k"]);
        for (turn, data) in [&eval, &eval, &get, &eval, &get, &get, &eval].into_iter().enumerate() {
            let input: Vec<_> = clients.iter().map(|token| (*token, data.as_slice())).collect();
            assert_eq!(
                house.parsed(|house| house.poll(&input, announced)),
                clients.len(),
                "{announced} {turn}"
            );
            let expected = if std::ptr::eq(data, &eval) { "$4\r\nonce\r\n" } else { "$-1\r\n" };
            clients.iter().for_each(|client| assert_eq!(house.output(*client), expected));
        }
        // What comes behind it is parsed then.
        let both = [eval.clone(), get.clone(), eval.clone()].concat();
        house.poll(&[(clients[0], &get), (clients[0], &both), (clients[0], b"PING\r\n")], announced);
        assert_eq!(house.output(clients[0]), "$-1\r\n$4\r\nonce\r\n$-1\r\n$4\r\nonce\r\n+PONG\r\n");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Bytes in the same place that are others, reports that are missing, and pieces of requests: each client
    /// gets the replies to what it has sent, however that was announced.
    #[test]
    fn only_the_announced_bytes_count(
        pieces in prop::collection::vec((0usize..4, 0usize..40, 1usize..60, any::<bool>()), 1..60),
        announced in 1usize..5,
    ) {
        let mut house = House::new();
        let clients = house.clients(4);
        let streams: Vec<Vec<u8>> = (0..4)
            .map(|client| (0..100).flat_map(|n| request(&["ECHO", &format!("{client}:{n}")])).collect())
            .collect();
        let mut sent = [0; 4];
        // One buffer, as of a ring: all pieces lie at a few places.
        let mut buffer = vec![0u8; 4 * 64];
        for group in pieces.chunks(announced) {
            house.worker.backend = BackendPlace::Taken;
            let mut places = Vec::new();
            for (at, &(client, _, len, _)) in group.iter().enumerate() {
                let rest = &streams[client][sent[client]..];
                let piece = &rest[..len.min(rest.len())];
                buffer[at * 64..at * 64 + piece.len()].copy_from_slice(piece);
                sent[client] += piece.len();
                places.push((clients[client], at * 64..at * 64 + piece.len()));
            }
            places.retain(|(_, range)| !range.is_empty());
            let arrivals: Vec<_> =
                places.iter().map(|(token, range)| Arrival { token: *token, data: &buffer[range.clone()] }).collect();
            if arrivals.len() > 1 && group[0].3 {
                house.worker.will_receive(&arrivals);
            }
            for arrival in &arrivals {
                house.worker.received(arrival.token, arrival.data);
            }
            house.worker.backend = BackendPlace::None;
            (0..100).for_each(|_| house.worker.process_ready());
        }
        for (client, token) in clients.iter().enumerate() {
            let text = house.output(*token);
            let mut whole = String::new();
            let mut bytes = 0;
            for n in 0..100 {
                let word = format!("{client}:{n}");
                bytes += request(&["ECHO", &word]).len();
                if bytes > sent[client] {
                    break;
                }
                whole.push_str(&format!("${}\r\n{word}\r\n", word.len()));
            }
            prop_assert_eq!(text, whole);
        }
    }
}
