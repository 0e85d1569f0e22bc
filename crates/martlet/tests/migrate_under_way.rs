//! While MIGRATE waits for the other server: which clients are served, which wait, and the fate of changes in
//! that time.
//!
//! The test plays the other server, so that each step happens at the test's command.

use martlet_client::blocking::Client;
use martlet_client::resp::{self, Reply};
use martlet_testkit::server::Server;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

/// One I/O thread, so that every client that could be delayed is.
fn start() -> Server {
    let arguments = ["server", "--io-threads", "1"];
    Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &arguments).unwrap()
}

fn text(reply: &Reply) -> String {
    match reply {
        Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Int(number) => number.to_string(),
        Reply::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(" "),
        _ => reply.text().map_or("nil".into(), |text| String::from_utf8_lossy(text).into_owned()),
    }
}

fn ask(client: &mut Client, request: &str) -> String {
    text(&client.command(&request.split(' ').collect::<Vec<_>>()).unwrap())
}

fn send(client: &mut Client, request: &str) {
    client.send(&request.split(' ').collect::<Vec<_>>()).unwrap();
}

fn answer_to(client: &mut Client) -> String {
    text(&client.read_reply().unwrap())
}

/// Returns once this number of clients waits.
fn await_blocked(client: &mut Client, count: usize) {
    let line = format!("\r\nblocked_clients:{count}\r\n");
    let found = (0..100_000).any(|_| ask(client, "INFO clients").contains(&line));
    assert!(found, "{count} clients do not wait: {}", ask(client, "INFO clients"));
}

/// The other server.
struct Target {
    listener: TcpListener,
    stream: Option<TcpStream>,
    received: Vec<u8>,
}

impl Target {
    fn new() -> Target {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Target { listener, stream: None, received: Vec::new() }
    }

    /// MIGRATE to it, with a timeout of an hour.
    fn request(&self, rest: &str) -> String {
        let port = self.listener.local_addr().unwrap().port();
        format!("MIGRATE 127.0.0.1 {port} {}", rest.replace("TIMEOUT", "3600000"))
    }

    /// The next request that it gets, without payload and time to live.
    fn receive(&mut self) -> String {
        let listener = &self.listener;
        let stream = self.stream.get_or_insert_with(|| listener.accept().unwrap().0);
        loop {
            if let Some((request, length)) = resp::decode(&self.received).unwrap() {
                self.received.drain(..length);
                let mut words: Vec<String> = request.items().unwrap().iter().map(text).collect();
                if words[0] == "RESTORE" {
                    words.drain(2..4);
                }
                return words.join(" ");
            }
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).unwrap();
            assert!(count > 0, "the connection was closed");
            self.received.extend_from_slice(&bytes[..count]);
        }
    }

    fn answer(&mut self, reply: &str) {
        self.stream.as_mut().unwrap().write_all(format!("{reply}\r\n").as_bytes()).unwrap();
    }
}

#[test]
fn nobody_else_waits_for_a_silent_server() {
    let server = start();
    let mut clients = [(); 3].map(|()| Client::connect(server.address()).unwrap());
    let [migrating, other, whole_store] = &mut clients;
    ask(other, "MSET a 1 b 2 w_1 2 w_2 1");
    ask(other, "RPUSH list 1 2");
    let mut target = Target::new();
    send(migrating, &target.request("a 0 TIMEOUT"));
    assert_eq!(target.receive(), "RESTORE a");
    // Other keys, the key itself, and a command that closes the gate.
    assert_eq!(ask(other, "GET b"), "2");
    assert_eq!(ask(other, "GET a"), "1");
    assert_eq!(ask(other, "INCR b"), "3");
    assert_eq!(ask(whole_store, "SORT list BY w_*"), "2 1");
    assert_eq!(ask(other, "EXISTS a"), "1");
    target.answer("+OK");
    assert_eq!(answer_to(migrating), "OK");
    assert_eq!(ask(other, "EXISTS a"), "0");
    assert!(ask(other, "INFO commandstats").contains("cmdstat_migrate:calls=1,"));
}

#[test]
fn who_would_change_a_key_under_way_finds_it_moved() {
    let server = start();
    let mut clients = [(); 5].map(|()| Client::connect(server.address()).unwrap());
    let [migrating, other, counting, transaction, second] = &mut clients;
    ask(other, "MSET a 7 b 2");
    let mut target = Target::new();
    send(migrating, &target.request("a 0 TIMEOUT"));
    assert_eq!(target.receive(), "RESTORE a");
    send(counting, "INCR a");
    await_blocked(other, 1);
    for request in ["MULTI", "APPEND b 0"] {
        ask(transaction, request);
    }
    assert_eq!(ask(transaction, "EXEC"), "2", "it names no such key");
    // Later requests wait with it: the order of one client's requests stays.
    send(second, &target.request("a 0 TIMEOUT COPY"));
    send(second, "GET b");
    await_blocked(other, 2);
    target.answer("+OK");
    assert_eq!(answer_to(migrating), "OK");
    assert_eq!(answer_to(counting), "1", "the counter began anew, as 7 was moved");
    // The other MIGRATE had its turn after the counter's, and finds the new key.
    assert_eq!(target.receive(), "RESTORE a");
    target.answer("-BUSYKEY Target key name already exists.");
    let refusal = "ERR Target instance replied with error: BUSYKEY Target key name already exists.";
    assert_eq!((answer_to(second), answer_to(second)), (refusal.into(), "20".into()));
    assert_eq!(ask(other, "GET a"), "1");
    assert!(ask(other, "INFO clients").contains("\r\nblocked_clients:0\r\n"));
}

/// A script that is busy with a key under way, or with one of the next portion: the thread of the MIGRATE
/// answers its other clients, and the MIGRATE ends after the script.
#[test]
fn a_thread_does_not_wait_for_a_busy_script() {
    let arguments = ["server", "--io-threads", "2", "--busy-reply-threshold", "20", "--rdbcompression", "no"];
    let server = Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &arguments).unwrap();
    // A thread gets every second of them.
    let mut clients = [(); 6].map(|()| Client::connect(server.address()).unwrap());
    for client in &clients {
        client.stream().set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    }
    let [migrating, looping, one, other, third, fourth] = &mut clients;
    // A portion of its own.
    let value = "x".repeat(2 << 20);
    for is_next in [false, true] {
        ask(one, "SET a 1");
        ask(one, &format!("SET b {value}"));
        ask(one, "SET c 1");
        let mut target = Target::new();
        send(migrating, &target.request(" 0 TIMEOUT KEYS b a"));
        assert_eq!(target.receive(), "RESTORE b");
        let name = if is_next { "a" } else { "b" };
        let script = "redis.call('GET', KEYS[1]) while true do end";
        looping.send(&["EVAL_RO", script, "1", name]).unwrap();
        // Reads the answer while the script runs.
        while !ask(one, &format!("EXISTS {name}")).starts_with("BUSY") {}
        target.answer("+OK");
        for _ in 0..20 {
            for client in [&mut *one, &mut *other, &mut *third, &mut *fourth] {
                assert!(ask(client, "GET c").starts_with("BUSY"));
            }
        }
        assert_eq!(ask(fourth, "SCRIPT KILL"), "OK");
        assert!(answer_to(looping).starts_with("ERR Script killed"));
        assert_eq!(target.receive(), "RESTORE a");
        target.answer("+OK");
        assert_eq!(answer_to(migrating), "OK");
        assert_eq!(ask(one, "EXISTS a b c"), "1");
    }
}

#[test]
fn what_flushall_deletes_meanwhile_is_deleted_there_too() {
    let server = start();
    let mut migrating = Client::connect(server.address()).unwrap();
    let mut other = Client::connect(server.address()).unwrap();
    ask(&mut other, "SET a 1");
    let mut target = Target::new();
    send(&mut migrating, &target.request("a 0 TIMEOUT"));
    assert_eq!(target.receive(), "RESTORE a");
    assert_eq!(ask(&mut other, "FLUSHALL"), "OK");
    target.answer("+OK");
    assert_eq!(target.receive(), "DEL a");
    target.answer(":1");
    assert_eq!(answer_to(&mut migrating), "OK");
}

#[test]
fn a_change_that_names_no_such_key_is_sent_after_it() {
    let server = start();
    let mut clients = [(); 3].map(|()| Client::connect(server.address()).unwrap());
    let [migrating, other, moving] = &mut clients;
    ask(other, "RPUSH a 1");
    let mut target = Target::new();
    let change = |clients: (&mut Client, &mut Client), value: usize| {
        send(clients.0, "BLMOVE source a LEFT RIGHT 0");
        await_blocked(clients.1, 1);
        assert_eq!(ask(clients.1, &format!("RPUSH source {value}")), "1");
        assert_eq!(answer_to(clients.0), value.to_string());
    };
    // The client waits before the key is under way; else its request would wait for the end of that.
    send(moving, "BLMOVE source a LEFT RIGHT 0");
    await_blocked(other, 1);
    send(migrating, &target.request("a 0 TIMEOUT"));
    assert_eq!(target.receive(), "RESTORE a");
    ask(other, "RPUSH source 2");
    assert_eq!(answer_to(moving), "2");
    target.answer("+OK");
    assert_eq!(target.receive(), "RESTORE a REPLACE");
    assert_eq!(ask(other, "LRANGE a 0 -1"), "1 2");
    target.answer("+OK");
    assert_eq!(answer_to(migrating), "OK");
    assert_eq!(ask(other, "EXISTS a"), "0");
    // Another client is not delayed by it.
    change((moving, other), 3);
}

#[test]
fn a_key_that_changes_each_time_stays() {
    let server = start();
    let mut clients = [(); 3].map(|()| Client::connect(server.address()).unwrap());
    let [migrating, other, waiting] = &mut clients;
    ask(other, "RPUSH a 1");
    let mut target = Target::new();
    // Each of three clients that waited before the key was under way changes it once.
    let mut moving = [(); 3].map(|()| Client::connect(server.address()).unwrap());
    for (at, client) in moving.iter_mut().enumerate() {
        send(client, &format!("BLMOVE source{at} a LEFT RIGHT 0"));
    }
    await_blocked(other, 3);
    send(migrating, &target.request("a 0 TIMEOUT"));
    for (at, client) in moving.iter_mut().enumerate() {
        assert_eq!(target.receive(), if at == 0 { "RESTORE a" } else { "RESTORE a REPLACE" });
        ask(other, &format!("RPUSH source{at} x"));
        assert_eq!(answer_to(client), "x");
        if at == 2 {
            send(waiting, "RPUSH a y");
            await_blocked(other, 1);
        }
        target.answer("+OK");
    }
    let failure = "IOERR key was changed each time that it was sent to target instance";
    assert_eq!(answer_to(migrating), failure);
    assert_eq!(answer_to(waiting), "5", "it waits no longer");
}

#[test]
fn a_client_that_sends_nothing_more_gets_its_answer() {
    let server = start();
    let mut migrating = Client::connect(server.address()).unwrap();
    let mut other = Client::connect(server.address()).unwrap();
    ask(&mut other, "MSET a 1 b 2");
    let mut target = Target::new();
    send(&mut migrating, &target.request("a 0 TIMEOUT"));
    send(&mut migrating, "GET b");
    migrating.stream().shutdown(Shutdown::Write).unwrap();
    assert_eq!(target.receive(), "RESTORE a");
    target.answer("+OK");
    assert_eq!(migrating.read_to_end().unwrap(), b"+OK\r\n$1\r\n2\r\n");

    // One that is gone altogether has asked for it all the same.
    send(&mut other, &target.request("b 0 TIMEOUT"));
    assert_eq!(target.receive(), "RESTORE b");
    drop(other);
    let mut other = Client::connect(server.address()).unwrap();
    send(&mut other, "SET b 3");
    target.answer("+OK");
    assert_eq!(answer_to(&mut other), "OK");
    assert_eq!(ask(&mut other, "GET b"), "3");
}

#[test]
fn a_transaction_cannot_wait_for_another_server() {
    let server = start();
    let mut client = Client::connect(server.address()).unwrap();
    let target = Target::new();
    for request in
        ["SET a 1", "MULTI", "GET a", &target.request("a 0 TIMEOUT"), &target.request("b 0 TIMEOUT")]
    {
        ask(&mut client, request);
    }
    let error = "ERR MIGRATE is not allowed in a transaction or script";
    assert_eq!(ask(&mut client, "EXEC"), format!("1 {error} NOKEY"));
    assert_eq!(ask(&mut client, "GET a"), "1");
}
