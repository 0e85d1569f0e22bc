//! Closing of clients for idleness or for output that is not read, and the time of this check, on a worker
//! without a backend.

use std::os::unix::net::UnixStream;

use martlet_net::{Buffer, Sink, Token};

use crate::config::{Config, ConfigStore};
use crate::runtime::Shared;
use crate::runtime::{UNIX, Worker};

/// A worker whose clock the test sets.
struct House {
    worker: Worker,
    ends: Vec<UnixStream>,
    began_ms: i64,
}

impl House {
    fn new(config: Config) -> House {
        let registry = Box::leak(Box::new(crate::commands::registry(&[]).unwrap()));
        let shared = Shared::new(ConfigStore::new(config), registry, 1, None).unwrap();
        let mut worker = Worker::new(Box::leak(Box::new(shared)), 0, &crate::wiring::HOOKS);
        worker.enter();
        let began_ms = worker.now_ms;
        House { worker, ends: Vec::new(), began_ms }
    }

    /// A client whose last request was `active_ms` after the beginning.
    fn client(&mut self, active_ms: i64) -> Token {
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.ends.push(theirs);
        self.worker.adopt(ours.into(), UNIX);
        let connection = self.worker.connections.last_mut().unwrap();
        // As if it had come at the beginning.
        connection.last_active_ms = self.began_ms.max(connection.info.created_ms) + active_ms;
        connection.token
    }

    /// Lets the chores run `at_ms` after the beginning.
    fn look(&mut self, at_ms: i64) {
        self.worker.now_ms = self.began_ms + at_ms;
        self.worker.close_idle();
    }

    fn is_open(&mut self, client: Token) -> bool {
        self.worker.take(client).map(|connection| self.worker.put(connection)).is_some()
    }
}

#[test]
fn without_a_timeout_nobody_is_looked_at() {
    let mut house = House::new(Config::default());
    let client = house.client(0);
    house.look(1_000_000);
    assert!(house.is_open(client));
    assert_eq!(house.worker.timers.next_idle_ms, 0);
    assert!(!house.worker.outbox.has_soft_limited);
}

#[test]
fn each_is_closed_at_its_own_time_and_nobody_is_looked_at_before() {
    let mut house = House::new(Config { timeout_s: 5, ..Config::default() });
    let (early, late) = (house.client(0), house.client(3_000));
    house.look(1_000);
    let next_ms = house.worker.timers.next_idle_ms;
    assert!((5_001..5_100).contains(&(next_ms - house.began_ms)), "{}", next_ms - house.began_ms);
    house.look(4_999);
    assert_eq!(house.worker.timers.next_idle_ms, next_ms);
    assert!(house.is_open(early));
    house.look(5_100);
    assert!(!house.is_open(early) && house.is_open(late));
    assert!(house.worker.timers.next_idle_ms - house.began_ms > 8_000);
    house.look(8_100);
    assert!(!house.is_open(late));
}

#[test]
fn output_is_traffic_too() {
    let mut house = House::new(Config { timeout_s: 5, ..Config::default() });
    let (answered, silent) = (house.client(0), house.client(0));
    house.worker.now_ms = house.began_ms + 4_000;
    let id = house.worker.connections.iter().find(|one| one.token == answered).unwrap().info.id;
    house.worker.push_with(answered, id, |connection| {
        connection.out.extend_from_slice(b"+OK\r\n");
    });
    house.look(5_100);
    assert!(house.is_open(answered) && !house.is_open(silent));
    house.look(9_000);
    // Its output comes back from the backend, written.
    Sink::sent(&mut house.worker, answered, Buffer::EMPTY, Ok(()));
    house.look(13_000);
    assert!(house.is_open(answered));
    house.look(14_100);
    assert!(!house.is_open(answered));
}

#[test]
fn who_monitors_is_closed_soon_after_it_does_no_more() {
    let mut house = House::new(Config { timeout_s: 5, ..Config::default() });
    let client = house.client(0);
    house.worker.connections.last_mut().unwrap().is_monitor = true;
    house.look(20_000);
    house.worker.connections.last_mut().unwrap().is_monitor = false;
    house.look(20_900);
    assert!(house.is_open(client));
    house.look(21_000);
    assert!(!house.is_open(client));
}

#[test]
fn a_clock_that_is_set_back_and_a_shorter_timeout_do_not_put_the_next_look_off() {
    let mut house = House::new(Config { timeout_s: 5, ..Config::default() });
    let client = house.client(0);
    house.worker.timers.next_idle_ms = house.began_ms + 1_000_000;
    house.look(6_000);
    assert!(!house.is_open(client));
}

#[test]
fn output_above_the_soft_limit_is_looked_at_until_its_time_is_over() {
    let mut config = Config::default();
    config.client_output_buffer_limits[0].soft_bytes = 10;
    config.client_output_buffer_limits[0].soft_seconds = 2;
    let mut house = House::new(config);
    let client = house.client(0);
    let mut connection = house.worker.take(client).unwrap();
    connection.out.extend_from_slice(&[b'x'; 11]);
    house.worker.now_ms = house.began_ms;
    house.worker.check_output_limit(&mut connection);
    house.worker.put(connection);
    house.look(1_900);
    assert!(house.worker.outbox.has_soft_limited);
    assert!(house.is_open(client));
    house.look(2_100);
    assert!(!house.is_open(client));
    house.look(2_200);
    assert!(!house.worker.outbox.has_soft_limited);
}
