//! Martlet servers behind a proxy: Twemproxy (nutcracker) spreads keys over three by their hashes. Where it
//! is not installed the test says so and passes.

use martlet_client::blocking::Client;
use martlet_client::resp::{Reply, encode_request};
use martlet_testkit::peers::is_installed;
use martlet_testkit::server::{ReservedPort, Server};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const OURS: &str = env!("CARGO_BIN_EXE_martlet");
const PROXY: &str = "nutcracker";
/// A condition that does not come true in this time never will.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
const KEYS: usize = 300;

/// A running proxy; dropping it ends it.
struct Proxy {
    child: Child,
    port: ReservedPort,
    _directory: tempfile::TempDir,
}

impl Proxy {
    fn start(servers: &[Server]) -> Option<Proxy> {
        if !is_installed(PROXY) {
            return None;
        }
        let (port, directory) = (ReservedPort::take().unwrap(), tempfile::tempdir().unwrap());
        let mut text = format!(
            "ours:\n  listen: 127.0.0.1:{}\n  redis: true\n  hash: murmur\n  distribution: ketama\n  \
             auto_eject_hosts: false\n  server_retry_timeout: 100\n  servers:\n",
            port.number()
        );
        for (at, server) in servers.iter().enumerate() {
            text.push_str(&format!("    - {}:1 server{at}\n", server.address()));
        }
        let file = directory.path().join("nutcracker.yml");
        std::fs::write(&file, text).unwrap();
        let statistics = ReservedPort::take().unwrap().number().to_string();
        let child = Command::new(PROXY)
            .args(["-a", "127.0.0.1", "-s", &statistics, "-c"])
            .arg(&file)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Some(Proxy { child, port, _directory: directory })
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port.number()))
    }

    fn connect(&self) -> Client {
        let end = Instant::now() + PATIENCE;
        loop {
            match Client::connect(self.address()) {
                Ok(client) => return client,
                Err(error) if Instant::now() > end => panic!("{error}"),
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(client: &mut Client, line: &str) -> String {
    told(&client.command(&line.split(' ').collect::<Vec<_>>()).unwrap())
}

fn told(reply: &Reply) -> String {
    match reply {
        Reply::Error(text) => format!("-{}", String::from_utf8_lossy(text)),
        Reply::Int(number) => number.to_string(),
        Reply::Array(parts) => parts.iter().map(told).collect::<Vec<_>>().join(" "),
        other => other.text().map_or("nil".into(), |text| String::from_utf8_lossy(text).into_owned()),
    }
}

#[test]
fn twemproxy_spreads_keys_over_three_servers() {
    let servers: Vec<Server> =
        (0..3).map(|_| Server::start(Path::new(OURS), &["server", "--io-threads", "2"]).unwrap()).collect();
    let Some(proxy) = Proxy::start(&servers) else { return };
    let mut client = proxy.connect();

    for number in 0..KEYS {
        assert_eq!(ask(&mut client, &format!("SET key:{number} {number}")), "OK");
    }
    let sizes: Vec<usize> = servers
        .iter()
        .map(|server| ask(&mut Client::connect(server.address()).unwrap(), "DBSIZE").parse().unwrap())
        .collect();
    assert_eq!(sizes.iter().sum::<usize>(), KEYS);
    assert!(sizes.iter().all(|size| *size > KEYS / 10), "{sizes:?}");

    // Commands for many keys are split and put together again.
    let names: Vec<String> = (0..KEYS).map(|number| format!("key:{number}")).collect();
    let all = ask(&mut client, &format!("MGET {}", names.join(" ")));
    assert_eq!(all, (0..KEYS).map(|number| number.to_string()).collect::<Vec<_>>().join(" "));
    assert_eq!(ask(&mut client, &format!("DEL {}", names[..100].join(" "))), "100");

    for (line, reply) in [
        ("INCRBY key:200 5", "205"),
        ("RPUSH list a b c", "3"),
        ("LRANGE list 0 -1", "a b c"),
        ("HSET hash field value", "1"),
        ("HGETALL hash", "field value"),
        ("ZADD zset 1 a 2 b", "2"),
        ("ZRANGE zset 0 -1 WITHSCORES", "a 1 b 2"),
        ("SADD set a b", "2"),
        ("PFADD hll a", "1"),
        ("EXPIRE list 100", "1"),
        ("GET missing", "nil"),
    ] {
        assert_eq!(ask(&mut client, line), reply, "{line}");
    }
    let wrong = ask(&mut client, "LPUSH key:200 x");
    assert_eq!(wrong, "-WRONGTYPE Operation against a key holding the wrong kind of value");
    let script = ["EVAL", "return redis.call('INCRBY', KEYS[1], ARGV[1])", "1", "key:201", "9"];
    assert_eq!(told(&client.command(&script).unwrap()), "210");
    let long = "x".repeat(1_000_000);
    assert_eq!(told(&client.command(&["SET", "long", &long]).unwrap()), "OK");
    assert_eq!(told(&client.command(&["GET", "long"]).unwrap()), long);
    replies_come_in_order(&proxy);
}

/// A pipeline over all servers, whose replies come from three connections.
fn replies_come_in_order(proxy: &Proxy) {
    let mut requests = Vec::new();
    let mut expected = Vec::new();
    for number in 0..2_000 {
        let name = format!("piped:{number}");
        encode_request(&[b"SET", name.as_bytes(), number.to_string().as_bytes()], &mut requests);
        encode_request(&[b"GET".as_slice(), name.as_bytes()], &mut requests);
        let text = number.to_string();
        expected.extend_from_slice(format!("+OK\r\n${}\r\n{text}\r\n", text.len()).as_bytes());
    }
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(&requests).unwrap());
    let mut replies = vec![0; expected.len()];
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut replies).unwrap();
    writing.join().unwrap();
    assert!(replies == expected, "replies in another order, or others");
}
