//! Connections move between threads while their clients send requests: replies keep their order, sessions
//! keep their state, notices and CLIENT KILL reach the client.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;
use martlet_testkit::wait::until;

const BACKENDS: [&str; 2] = ["auto", "epoll"];
const THREADS: usize = 4;

fn start(backend: &str, active: &str) -> Server {
    let arguments =
        ["server", "--io-threads", "4", "--martlet-active-threads", active, "--io-backend", backend];
    Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &arguments).unwrap()
}

fn connect(server: &Server) -> Client {
    Client::connect(server.address()).unwrap()
}

/// Runs a line; the reply may not be an error.
fn run(client: &mut Client, line: &str) -> Reply {
    let reply = client.command(&line.split(' ').collect::<Vec<_>>()).unwrap();
    assert!(!reply.is_error(), "{line}: {reply:?}");
    reply
}

fn text(client: &mut Client, line: &str) -> String {
    String::from_utf8_lossy(run(client, line).text().unwrap()).into_owned()
}

fn field(text: &str, name: &str) -> usize {
    let value = text.split([' ', ',', '\r', '\n']).find_map(|word| word.strip_prefix(name));
    value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

/// The number of the thread that serves a client.
fn thread_of(client: &mut Client) -> usize {
    field(&text(client, "CLIENT INFO"), "io-thread=")
}

fn moved(client: &mut Client) -> usize {
    field(&text(client, "INFO threads"), "moved_connections:")
}

/// Changes the number of active threads until `stop`.
fn keep_changing(server: &Server, stop: &AtomicBool) {
    let mut client = connect(server);
    for active in (1..=THREADS).chain((2..THREADS).rev()).cycle() {
        run(&mut client, &format!("CONFIG SET martlet-active-threads {active}"));
        until("the threads to follow", || {
            stop.load(Ordering::Relaxed) || {
                let info = text(&mut client, "INFO threads");
                field(&info, "active_threads:") == active
            }
        });
        if stop.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Runs one client's session: a database, a name, watched keys, transactions that begin on one thread and end
/// on another, long pipelines and long replies. Ends once two threads have served it.
fn work(server: &Server, number: usize) {
    let mut client = connect(server);
    let db = number % 16;
    run(&mut client, &format!("SELECT {db}"));
    run(&mut client, &format!("CLIENT SETNAME client-{number}"));
    let key = format!("counter-{number}");
    let (mut seen, mut count) = (BTreeSet::new(), 0);
    while seen.len() < 2 {
        run(&mut client, &format!("WATCH {key}"));
        run(&mut client, "MULTI");
        for _ in 0..20 {
            run(&mut client, &format!("INCR {key}"));
        }
        let replies = run(&mut client, "EXEC");
        let replies = replies.items().expect("nobody else changes the key");
        assert!(replies.iter().zip(count + 1..).all(|(reply, due)| *reply == Reply::Int(due)));
        count += 20;
        for _ in 0..50 {
            client.send(&["INCR", &key]).unwrap();
        }
        for due in count + 1..=count + 50 {
            assert_eq!(client.read_reply().unwrap(), Reply::Int(due));
        }
        count += 50;
        let long = "x".repeat(number * 1000 + 1);
        run(&mut client, &format!("SET long-{number} {long}"));
        assert_eq!(text(&mut client, &format!("GET long-{number}")), long);
        let info = text(&mut client, "CLIENT INFO");
        assert_eq!(field(&info, "db="), db);
        assert!(info.contains(&format!(" name=client-{number} ")), "{info}");
        seen.insert(field(&info, "io-thread="));
    }
}

#[test]
fn sessions_and_the_order_of_replies_survive_moves() {
    for backend in BACKENDS {
        let server = start(backend, "1");
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| keep_changing(&server, &stop));
            let clients: Vec<_> = (0..12)
                .map(|number| {
                    scope.spawn({
                        let server = &server;
                        move || work(server, number)
                    })
                })
                .collect();
            let results: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
            stop.store(true, Ordering::Relaxed);
            results.into_iter().for_each(|result| result.unwrap());
        });
        let mut client = connect(&server);
        assert!(moved(&mut client) >= 12, "{backend}");
        // Every thread has counted its clients down.
        until("all to be gone", || {
            let info = text(&mut client, "INFO threads");
            let clients = (0..THREADS).map(|thread| field(&info, &format!("io_thread_{thread}:clients=")));
            clients.sum::<usize>() == 1
        });
    }
}

#[test]
fn notices_follow_their_client() {
    for backend in BACKENDS {
        let server = start(backend, "1");
        let (mut reader, mut writer) = (connect(&server), connect(&server));
        run(&mut reader, "HELLO 3");
        run(&mut reader, "CLIENT TRACKING on");
        let (mut active, mut on_thread, mut moves, mut round) = (1, 0, 0, 0);
        while moves < 8 {
            round += 1;
            let key = format!("key-{round}");
            run(&mut writer, &format!("SET {key} 1"));
            // The key changes when the reader is on another thread, or under way to it.
            run(&mut reader, &format!("GET {key}"));
            active = active % THREADS + 1;
            run(&mut writer, &format!("CONFIG SET martlet-active-threads {active}"));
            run(&mut writer, &format!("SET {key} 2"));
            let notice = loop {
                run_beside_notices(&mut reader);
                match reader.read_reply().unwrap() {
                    Reply::Push(items) => break items,
                    reply => assert_eq!(reply, Reply::Simple(b"PONG".to_vec())),
                }
            };
            assert_eq!(notice[1].items().unwrap()[0].text(), Some(key.as_bytes()));
            let thread = read_thread(&mut reader);
            moves += u32::from(thread != on_thread);
            on_thread = thread;
        }
    }
}

/// Sends a request; the caller reads its reply together with the notices.
fn run_beside_notices(client: &mut Client) {
    client.send(&["PING"]).unwrap();
}

/// Reads replies to PING, then the thread that serves the client.
fn read_thread(client: &mut Client) -> usize {
    client.send(&["CLIENT", "INFO"]).unwrap();
    loop {
        let reply = client.read_reply().unwrap();
        if let Some(info) = reply.text().filter(|text| text.starts_with(b"id=")) {
            return field(&String::from_utf8_lossy(info), "io-thread=");
        }
        assert_eq!(reply, Reply::Simple(b"PONG".to_vec()));
    }
}

#[test]
fn a_client_killed_during_its_move_is_closed() {
    for backend in BACKENDS {
        let server = start(backend, "1");
        let mut other = connect(&server);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| keep_changing(&server, &stop));
            while moved(&mut other) < 20 {
                let mut clients: Vec<_> = (0..10).map(|_| connect(&server)).collect();
                let ids: Vec<_> =
                    clients.iter_mut().map(|client| field(&text(client, "CLIENT INFO"), "id=")).collect();
                let begin = moved(&mut other);
                until("moves", || {
                    for client in &mut clients {
                        thread_of(client);
                    }
                    moved(&mut other) > begin
                });
                for id in ids {
                    assert_eq!(run(&mut other, &format!("CLIENT KILL ID {id}")), Reply::Int(1));
                }
                for client in &mut clients {
                    assert!(client.read_to_end().unwrap().is_empty());
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        until("all to be gone", || field(&text(&mut other, "INFO clients"), "connected_clients:") == 1);
    }
}

#[test]
fn one_thread_serves_until_the_load_needs_more() {
    let server = start("auto", "0");
    let mut client = connect(&server);
    assert_eq!(field(&text(&mut client, "INFO threads"), "active_threads:"), 1);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..8 {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || {
                let mut client = connect(server);
                let key = format!("zset-{number}");
                (0..200).for_each(|at| drop(run(&mut client, &format!("ZADD {key} {at} {at}"))));
                let sum = format!("ZUNIONSTORE sum-{number} 3 {key} {key} {key}");
                while !stop.load(Ordering::Relaxed) {
                    (0..50).for_each(|_| client.send(&sum.split(' ').collect::<Vec<_>>()).unwrap());
                    (0..50).for_each(|_| assert_eq!(client.read_reply().unwrap(), Reply::Int(200)));
                }
            });
        }
        until("a second thread", || field(&text(&mut client, "INFO threads"), "active_threads:") > 1);
        stop.store(true, Ordering::Relaxed);
    });
    until("one thread again", || field(&text(&mut client, "INFO threads"), "active_threads:") == 1);
}
