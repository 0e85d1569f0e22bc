//! CLIENT UNBLOCK of a client that waits for a flush's memory to be freed, and the end of one that is about
//! to wait, on a worker without a backend.

mod stalled_disk;
mod stalled_files;

use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};

use martlet_net::{Sink, Token};

use crate::config::{Config, ConfigStore};
use crate::runtime::Shared;
use crate::runtime::{UNIX, Worker};

/// A worker of a server that frees nothing in the background until the test allows it.
struct House {
    worker: Worker,
    ends: Vec<UnixStream>,
    frees: Option<Sender<()>>,
}

impl House {
    fn new() -> House {
        let registry = Box::leak(Box::new(crate::commands::registry(&[]).unwrap()));
        let shared = Shared::new(ConfigStore::new(Config::default()), registry, 1, None).unwrap();
        let (frees, waits) = channel::<()>();
        shared.engine.lazy_free.when_freed(Box::new(move || {
            let _ = waits.recv();
        }));
        let worker = Worker::new(Box::leak(Box::new(shared)), 0, &crate::wiring::HOOKS);
        House { worker, ends: Vec::new(), frees: Some(frees) }
    }

    fn client(&mut self) -> Token {
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.ends.push(theirs);
        self.worker.adopt(ours.into(), UNIX);
        self.worker.connections.last_mut().unwrap().token
    }

    /// A client's output upon this, and by mail that comes at once.
    fn ask(&mut self, client: Token, requests: &str) -> String {
        self.worker.received(client, requests.as_bytes());
        // On a busy machine a turn ends before all of them have run.
        (0..100).for_each(|_| self.worker.process_ready());
        self.read(client)
    }

    fn read(&mut self, client: Token) -> String {
        self.worker.inbox.note();
        self.worker.read_mail();
        let mut connection = self.worker.take(client).unwrap();
        let told = String::from_utf8(std::mem::take(&mut connection.out)).unwrap();
        self.worker.finish(connection);
        told
    }

    /// Lets everything be freed.
    fn free(&mut self) {
        self.frees.take();
        self.worker.shared.engine.lazy_free.wait();
    }
}

#[test]
fn who_waits_for_memory_to_be_freed_is_answered_once_when_it_is_unblocked() {
    let unblocked = "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n";
    for (how, answer) in [("", "+OK\r\n"), ("TIMEOUT", "+OK\r\n"), ("ERROR", unblocked)] {
        let mut house = House::new();
        let (flushes, other) = (house.client(), house.client());
        assert_eq!(house.ask(flushes, "SET a 1\r\nFLUSHALL\r\nPING\r\n"), "+OK\r\n");
        assert_eq!(house.ask(other, "EXISTS a\r\n"), ":0\r\n");
        assert_eq!(house.ask(other, &format!("CLIENT UNBLOCK 1 {how}\r\n")), ":1\r\n");
        assert_eq!(house.read(flushes), answer, "{how}");
        house.worker.process_ready();
        assert_eq!(house.read(flushes), "+PONG\r\n");
        assert_eq!(house.ask(other, "CLIENT UNBLOCK 1\r\n"), ":0\r\n");
        house.free();
        assert_eq!(house.read(flushes), "", "{how}");
    }
}

#[test]
fn who_waits_for_memory_to_be_freed_is_answered_when_it_is() {
    let mut house = House::new();
    let client = house.client();
    assert_eq!(house.ask(client, "SET a 1\r\nFLUSHDB\r\n"), "+OK\r\n");
    assert_eq!(house.read(client), "");
    house.free();
    assert_eq!(house.read(client), "+OK\r\n");
}

/// Another thread may kill a client after its request was taken in, and look for its wait before there is
/// one.
#[test]
fn who_has_been_killed_by_the_time_it_waits_is_served_nothing() {
    let mut house = House::new();
    let (killed, other) = (house.client(), house.client());
    let mut connection = house.worker.take(killed).unwrap();
    connection.query.extend_from_slice(b"BLPOP queue 0\r\n");
    connection.info.killed.store(true, std::sync::atomic::Ordering::Release);
    house.worker.mark_ready(&mut connection);
    house.worker.finish(connection);
    house.worker.process_ready();
    assert_eq!(house.ask(other, "RPUSH queue a\r\nLLEN queue\r\n"), ":1\r\n:1\r\n");
}
