//! MIGRATE between two servers, and payloads that RESTORE refuses.

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::{ReservedPort, Server};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread::JoinHandle;

fn start(arguments: &[&str]) -> (Server, Client) {
    let all = [&["server", "--io-threads", "2"], arguments].concat();
    let server = Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &all).unwrap();
    let client = Client::connect(server.address()).unwrap();
    (server, client)
}

/// The reply as text, `nil` for none.
fn ask(client: &mut Client, request: &str) -> String {
    // Two quotes stand for an empty argument.
    let words: Vec<&str> = request.split(' ').map(|word| if word == "''" { "" } else { word }).collect();
    let reply = client.command(&words).unwrap();
    match &reply {
        Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Int(number) => number.to_string(),
        _ => reply.text().map_or("nil".into(), |text| String::from_utf8_lossy(text).into_owned()),
    }
}

fn migrate(client: &mut Client, to: &Server, rest: &str) -> String {
    let address = to.address();
    ask(client, &format!("MIGRATE {} {} {rest}", address.ip(), address.port()))
}

#[test]
fn keys_of_every_type_arrive_with_their_times() {
    let (_from, mut here) = start(&["--appendonly", "yes"]);
    let (to, mut there) = start(&[]);
    for request in [
        "SET string 12345",
        "PEXPIRE string 1000000",
        "RPUSH list a b c",
        "SADD set 1 2 x",
        "ZADD zset 1.5 a 2 b",
        "HSET hash f v",
    ] {
        ask(&mut here, request);
    }
    let digest = ["string", "list", "set", "zset", "hash"].map(|key| ask(&mut here, &format!("DUMP {key}")));
    assert_eq!(migrate(&mut here, &to, "'' 9 5000 KEYS string list missing set zset hash"), "OK");
    assert_eq!(ask(&mut here, "DBSIZE"), "0");
    assert_eq!(ask(&mut there, "SELECT 9"), "OK");
    assert_eq!(
        ["string", "list", "set", "zset", "hash"].map(|key| ask(&mut there, &format!("DUMP {key}"))),
        digest
    );
    let ttl: i64 = ask(&mut there, "PTTL string").parse().unwrap();
    assert!((1..=1_000_000).contains(&ttl), "{ttl}");
    assert_eq!(migrate(&mut here, &to, "string 9 5000"), "NOKEY");
    // The deletions are on record: they hold after a restart, too.
    ask(&mut here, "DEBUG LOADAOF");
    assert_eq!(ask(&mut here, "DBSIZE"), "0");
}

#[test]
fn a_copy_stays_and_an_old_key_is_replaced_only_on_demand() {
    let (_from, mut here) = start(&[]);
    let (to, mut there) = start(&[]);
    ask(&mut here, "MSET a new b new");
    ask(&mut there, "SET a old");
    let busy = "ERR Target instance replied with error: BUSYKEY Target key name already exists.";
    // What could be moved has been moved.
    assert_eq!(migrate(&mut here, &to, "'' 0 5000 KEYS a b"), busy);
    assert_eq!((ask(&mut here, "GET a"), ask(&mut here, "EXISTS b")), ("new".into(), "0".into()));
    assert_eq!((ask(&mut there, "GET a"), ask(&mut there, "GET b")), ("old".into(), "new".into()));
    assert_eq!(migrate(&mut here, &to, "a 0 5000 COPY REPLACE"), "OK");
    assert_eq!((ask(&mut here, "GET a"), ask(&mut there, "GET a")), ("new".into(), "new".into()));
    assert_eq!(migrate(&mut here, &to, "a 0 5000 REPLACE"), "OK");
    assert_eq!(ask(&mut here, "EXISTS a"), "0");
    assert!(ask(&mut here, "INFO stats").contains("migrate_cached_sockets:1"));
}

#[test]
fn passwords_are_sent_and_refusals_told() {
    let (_from, mut here) = start(&[]);
    let (to, mut there) = start(&[]);
    ask(&mut there, "CONFIG SET requirepass keys");
    ask(&mut here, "SET key value");
    assert!(
        migrate(&mut here, &to, "key 0 5000").starts_with("ERR Target instance replied with error: NOAUTH")
    );
    assert!(migrate(&mut here, &to, "key 0 5000 AUTH wrong").contains("WRONGPASS"));
    assert_eq!(ask(&mut here, "GET key"), "value");
    assert_eq!(migrate(&mut here, &to, "key 0 5000 AUTH keys"), "OK");
    ask(&mut here, "MSET key value '' empty");
    assert_eq!(migrate(&mut here, &to, "'' 0 5000 AUTH2 default keys REPLACE KEYS key"), "OK");
    assert_eq!(migrate(&mut here, &to, "'' 0 5000 AUTH keys COPY"), "OK");
    ask(&mut there, "AUTH keys");
    assert_eq!(ask(&mut there, "MGET key"), "nil");
    assert_eq!((ask(&mut there, "GET key"), ask(&mut there, "GET ''")), ("value".into(), "empty".into()));
    assert!(migrate(&mut here, &to, "'' 99 5000 AUTH keys").contains("DB index is out of range"));
    assert_eq!(ask(&mut here, "GET ''"), "empty");
}

#[test]
fn a_server_that_is_gone_or_silent_costs_no_key() {
    let (_from, mut here) = start(&[]);
    ask(&mut here, "SET key value");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let request = |port: u16| format!("MIGRATE 127.0.0.1 {port} key 0 20");
    let silent_port = silent.local_addr().unwrap().port();
    assert_eq!(ask(&mut here, &request(silent_port)), "IOERR error or timeout reading to target instance");
    let refusing = ReservedPort::take().unwrap();
    assert_eq!(
        ask(&mut here, &request(refusing.number())),
        "IOERR error or timeout connecting to the client"
    );
    assert_eq!(ask(&mut here, "GET key"), "value");
    let none = "MIGRATE 127.0.0.1 port key 0 20";
    assert_eq!(ask(&mut here, none), "IOERR error or timeout connecting to the client");
    let keys = "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string";
    assert_eq!(ask(&mut here, "MIGRATE 127.0.0.1 1 key 0 20 KEYS a"), keys);
    assert_eq!(ask(&mut here, "MIGRATE 127.0.0.1 1 key 0 20 AUTH"), "ERR syntax error");
    assert_eq!(ask(&mut here, "MIGRATE 127.0.0.1 1 key x 20"), "ERR value is not an integer or out of range");
    // A kept connection that the other side has closed is opened again.
    let (to, mut there) = start(&[]);
    assert_eq!(migrate(&mut here, &to, "key 0 5000 COPY"), "OK");
    assert_eq!(ask(&mut there, "CLIENT KILL TYPE normal SKIPME yes"), "1");
    assert_eq!(migrate(&mut here, &to, "key 0 5000 REPLACE"), "OK");
    assert_eq!(ask(&mut there, "GET key"), "value");
}

#[test]
fn a_connection_that_ends_between_two_answers_is_not_tried_again() {
    let (_from, mut here) = start(&[]);
    ask(&mut here, "MSET a 1 b 2");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for _ in 0..2 {
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(b"+OK\r\n").unwrap();
        }
        listener
    });
    assert_eq!(ask(&mut here, &format!("MIGRATE 127.0.0.1 {port} a 0 5000 COPY")), "OK");
    let failure = ask(&mut here, &format!("MIGRATE 127.0.0.1 {port} '' 0 5000 COPY KEYS a b"));
    assert_eq!(failure, "IOERR error or timeout reading to target instance");
    let listener = other.join().unwrap();
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// A port where one connection is accepted, whose first request gets `answer`, and nothing more comes until
/// it is closed.
fn answer_once(answer: Vec<u8>) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        stream.write_all(&answer).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    (port, other)
}

#[test]
fn a_kept_connection_obeys_the_timeout_of_each_command() {
    let (_from, mut here) = start(&[]);
    ask(&mut here, "SET a 1");
    let (port, other) = answer_once(b"+OK\r\n".into());
    assert_eq!(ask(&mut here, &format!("MIGRATE 127.0.0.1 {port} a 0 3600000 COPY")), "OK");
    let failure = ask(&mut here, &format!("MIGRATE 127.0.0.1 {port} a 0 20 COPY"));
    assert_eq!(failure, "IOERR error or timeout reading to target instance");
    // The connection was given up: its late replies answer nothing.
    other.join().unwrap();
}

#[test]
fn an_answer_without_an_end_is_not_waited_for() {
    let (_from, mut here) = start(&[]);
    ask(&mut here, "SET a 1");
    let (port, other) = answer_once(vec![b'+'; 200_000]);
    let failure = ask(&mut here, &format!("MIGRATE 127.0.0.1 {port} a 0 3600000"));
    assert_eq!(failure, "IOERR error or timeout reading to target instance");
    assert_eq!(ask(&mut here, "GET a"), "1");
    other.join().unwrap();
}

/// The log is written once the keys are released, and never more than some lines for one request.
#[test]
fn the_log_says_why_a_payload_is_refused() {
    let (server, mut client) = start(&["--enable-debug-command", "yes"]);
    assert_eq!(ask(&mut client, "DEBUG SET-SKIP-CHECKSUM-VALIDATION 1"), "OK");
    // A sorted set whose ziplist is `x`, the version of the format, and a checksum.
    let payload = b"\x0c\x01x\x09\0--------";
    let restore = [b"RESTORE".as_slice(), b"key", b"0", payload];
    let said = |times| {
        server.logged("Bad data format in RESTORE of a key: Zset ziplist integrity check failed.\n", times)
    };
    let refusal = Reply::Error(b"ERR Bad data format".to_vec());
    assert_eq!(client.command(&restore).unwrap(), refusal);
    assert_eq!(said(1), 1);
    let script = b"return redis.pcall('RESTORE', KEYS[1], 0, ARGV[1])";
    assert_eq!(client.command(&[b"EVAL".as_slice(), script, b"1", b"key", payload]).unwrap(), refusal);
    assert_eq!(said(2), 2);
    assert_eq!(ask(&mut client, "MULTI"), "OK");
    for _ in 0..100 {
        client.command(&restore).unwrap();
    }
    assert_eq!(client.command(&["EXEC"]).unwrap().items(), Some(vec![refusal; 100].as_slice()));
    assert_eq!(said(2 + 16), 2 + 16);
    assert_eq!(ask(&mut client, "EXISTS key"), "0");
}
