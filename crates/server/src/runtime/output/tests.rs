//! The moment at which replies leave under `appendfsync always`, on a worker whose backend records its calls.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use martlet_journal::{Follower, Position};
use martlet_net::{Backend, Buffer, Sink, Token, Waker};
use proptest::prelude::*;

use crate::config::{Config, ConfigStore};
use crate::runtime::Shared;
use crate::runtime::{UNIX, Worker};

/// Has a backend's shape and keeps the output.
#[derive(Default)]
struct Notebook(Vec<(Token, Vec<u8>)>);

impl Backend for Notebook {
    fn name(&self) -> &'static str {
        "notebook"
    }
    fn listen(&mut self, _: OwnedFd, _: u32) -> io::Result<()> {
        Ok(())
    }
    fn unlisten(&mut self, _: u32) {}
    fn adopt(&mut self, _: OwnedFd, _: Token) -> io::Result<()> {
        Ok(())
    }
    fn send(&mut self, token: Token, buffer: Buffer) {
        assert!(!buffer.is_empty());
        self.0.push((token, buffer.to_vec()));
    }
    fn pause(&mut self, _: Token) {}
    fn resume(&mut self, _: Token) {}
    fn close(&mut self, _: Token) {}
    fn waker(&self) -> Waker {
        Waker::from_fn(|| {})
    }
    fn poll(&mut self, _: Option<Duration>, _: &mut dyn Sink) -> io::Result<()> {
        Ok(())
    }
}

/// A worker that holds replies until the test declares the records durable.
struct House {
    shared: &'static Shared,
    worker: Worker,
    backend: Notebook,
    ends: Vec<UnixStream>,
}

impl House {
    fn new() -> House {
        let registry = Box::leak(Box::new(crate::commands::registry(&[]).unwrap()));
        let shared = Shared::new(ConfigStore::new(Config::default()), registry, 1, None).unwrap();
        let shared: &'static Shared = Box::leak(Box::new(shared));
        shared.engine.journal.open().unwrap();
        shared.engine.journal.follow(Follower::File, true);
        shared.engine.journal.hold_replies(true);
        House {
            shared,
            worker: Worker::new(shared, 0, &crate::wiring::HOOKS),
            backend: Notebook::default(),
            ends: Vec::new(),
        }
    }

    fn client(&mut self) -> Token {
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.ends.push(theirs);
        self.worker.adopt(ours.into(), UNIX);
        self.worker.connections.last_mut().unwrap().token
    }

    fn answer(&mut self, client: Token, text: &[u8]) {
        let mut connection = self.worker.take(client).unwrap();
        connection.out.extend_from_slice(text);
        self.worker.finish(connection);
    }

    /// A write of `client`'s and the reply to it; where its record ends.
    fn write(&mut self, client: Token, reply: &[u8]) -> Position {
        let end = self.shared.engine.journal.append(0, b"*1\r\n$4\r\nSAVE\r\n");
        let mut connection = self.worker.take(client).unwrap();
        connection.recorded = end;
        self.worker.put(connection);
        self.answer(client, reply);
        end
    }

    fn durable(&self, position: Position) {
        self.shared.engine.journal.set_durable(position);
    }

    /// What leaves at the end of a loop.
    fn flush(&mut self) -> Vec<(Token, Vec<u8>)> {
        self.worker.flush(&mut self.backend);
        for (token, _) in &self.backend.0 {
            let mut connection = self.worker.take(*token).unwrap();
            connection.in_flight.pop();
            self.worker.finish(connection);
        }
        std::mem::take(&mut self.backend.0)
    }

    /// The output of the only client that has any.
    fn told(&mut self) -> Vec<u8> {
        self.flush().into_iter().flat_map(|(_, bytes)| bytes).collect()
    }
}

#[test]
fn a_later_reply_does_not_leave_with_the_one_that_became_durable() {
    let mut house = House::new();
    let client = house.client();
    let first = house.write(client, b"+1");
    assert_eq!(house.told(), b"");
    let second = house.write(client, b"+2");
    house.durable(first);
    assert_eq!(house.told(), b"+1");
    assert_eq!(house.told(), b"");
    house.durable(second);
    assert_eq!(house.told(), b"+2");
    assert!(house.worker.outbox.awaiting_fsync.is_empty());
}

/// A request that waits for the gate while the server saves its data and ends comes too late.
#[test]
fn who_comes_to_run_alone_after_the_end_is_not_answered() {
    let mut house = House::new();
    let client = house.client();
    let mut connection = house.worker.take(client).unwrap();
    let mut runs = 0;
    assert!(house.worker.alone_for(&mut connection, |_, _| runs += 1));
    assert!(runs == 1 && !connection.closing);
    house.shared.stop();
    assert!(house.worker.alone_for(&mut connection, |_, _| runs += 1));
    assert!(runs == 1 && connection.closing);
}

#[test]
fn who_streams_without_a_pause_is_answered_all_along() {
    let mut house = House::new();
    let client = house.client();
    let mut before = house.write(client, b"0");
    assert_eq!(house.told(), b"");
    for pass in 1..10u8 {
        let now = house.write(client, &[b'0' + pass]);
        house.durable(before);
        assert_eq!(house.told(), [b'0' + pass - 1]);
        before = now;
    }
}

#[test]
fn while_the_disk_refuses_only_the_writers_own_replies_wait() {
    let mut house = House::new();
    let (writer, reader) = (house.client(), house.client());
    let first = house.write(writer, b"+1");
    house.answer(reader, b"$1");
    assert_eq!(house.told(), b"");
    house.shared.persistence.log.refuses_writes.store(true, Ordering::Relaxed);
    assert_eq!(house.flush(), [(reader, b"$1".to_vec())]);
    house.answer(reader, b"$2");
    house.answer(writer, b"$3");
    assert_eq!(house.flush(), [(reader, b"$2".to_vec())]);
    house.shared.persistence.log.refuses_writes.store(false, Ordering::Relaxed);
    assert_eq!(house.told(), b"");
    house.durable(first);
    assert_eq!(house.told(), b"+1$3");
}

#[test]
fn replies_that_are_dropped_leave_nothing_to_wait_for() {
    let mut house = House::new();
    let client = house.client();
    let first = house.write(client, b"+1");
    assert_eq!(house.told(), b"");
    let mut connection = house.worker.take(client).unwrap();
    connection.discard_output();
    house.worker.put(connection);
    let second = house.write(client, b"+2");
    house.durable(first);
    assert_eq!(house.told(), b"");
    house.durable(second);
    assert_eq!(house.told(), b"+2");
}

#[test]
fn nothing_waits_once_replies_are_not_held_any_more() {
    let mut house = House::new();
    let client = house.client();
    house.write(client, b"+1");
    assert_eq!(house.told(), b"");
    house.write(client, b"+2");
    house.shared.engine.journal.hold_replies(false);
    assert_eq!(house.told(), b"+1+2");
    assert!(house.worker.outbox.awaiting_fsync.is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    /// A client writes and is answered.
    Write(usize),
    /// A client reads.
    Read(usize),
    /// The loop's end.
    Flush,
    /// This many records more are on disk.
    Durable(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3usize).prop_map(Step::Write),
        (0..3usize).prop_map(Step::Read),
        Just(Step::Flush),
        (0..3usize).prop_map(Step::Durable)
    ]
}

proptest! {
    /// Each reply leaves at the first end of a loop at which the records before its own loop's end are on
    /// disk.
    #[test]
    fn replies_leave_as_soon_as_they_may_and_never_sooner(steps in proptest::collection::vec(step(), 1..80)) {
        let mut house = House::new();
        let clients = [house.client(), house.client(), house.client()];
        let mut records: Vec<Position> = Vec::new();
        let mut durable = 0;
        // Of each client: its replies that have not left, each with how many records it waits for once a loop
        // has ended.
        let mut waiting: [Vec<(u8, Option<usize>)>; 3] = Default::default();
        for (number, step) in steps.into_iter().enumerate() {
            let reply = number as u8;
            match step {
                Step::Write(who) => {
                    records.push(house.write(clients[who], &[reply]));
                    waiting[who].push((reply, None));
                }
                Step::Read(who) => {
                    house.answer(clients[who], &[reply]);
                    waiting[who].push((reply, None));
                }
                Step::Durable(count) => {
                    durable = records.len().min(durable + count);
                    house.durable(durable.checked_sub(1).map_or(0, |last| records[last]));
                }
                Step::Flush => {
                    let mut left: [Vec<u8>; 3] = Default::default();
                    for (token, bytes) in house.flush() {
                        let who = clients.iter().position(|client| *client == token).unwrap();
                        left[who].extend(bytes);
                    }
                    for (who, left) in left.iter().enumerate() {
                        waiting[who].iter_mut().for_each(|(_, until)| _ = until.get_or_insert(records.len()));
                        let may = waiting[who].partition_point(|(_, until)| until.is_some_and(|until| until <= durable));
                        let expected: Vec<u8> = waiting[who].drain(..may).map(|(reply, _)| reply).collect();
                        prop_assert_eq!(left, &expected);
                    }
                }
            }
        }
    }
}
