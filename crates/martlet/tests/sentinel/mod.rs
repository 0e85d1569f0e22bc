//! Sentinels as whole processes: two of Martlet and, if it is installed, a real one in a quorum, over Martlet
//! servers. A primary that is killed is replaced, an operator's failover works, and a Sentinel continues from
//! its file.

mod background;
mod tls;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::peers::is_installed;
use martlet_testkit::server::{ReservedPort, Server};
use martlet_testkit::wait::until;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");
const PEER: &str = "redis-sentinel";
/// A condition that does not come true in this time never will.
const PATIENCE: Duration = Duration::from_secs(90);

/// A Sentinel's process; dropping it kills it.
struct Sentinel {
    child: Child,
    port: ReservedPort,
    file: PathBuf,
    is_ours: bool,
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Sentinel {
    /// Starts one from a given file.
    fn start(directory: &Path, name: &str, is_ours: bool, lines: &str) -> Sentinel {
        let port = ReservedPort::take().unwrap();
        let file = directory.join(name);
        std::fs::write(&file, format!("port {}\n{lines}", port.number())).unwrap();
        let child = spawn(&file, is_ours);
        let sentinel = Sentinel { child, port, file, is_ours };
        sentinel.await_ready();
        sentinel
    }

    fn await_ready(&self) {
        until("the Sentinel answers", || Client::connect(self.address()).is_ok());
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port.number()))
    }

    fn ask(&self, words: &[&str]) -> Reply {
        Client::connect(self.address()).and_then(|mut client| client.command(words)).unwrap()
    }

    /// The words of a flat reply.
    fn words(&self, words: &[&str]) -> Vec<String> {
        flat(&self.ask(words))
    }

    fn primary_port(&self) -> String {
        self.words(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"]).pop().unwrap_or_default()
    }

    fn field(&self, name: &str) -> String {
        let words = self.words(&["SENTINEL", "MASTER", "mymaster"]);
        let at = words.iter().position(|word| word == name);
        at.and_then(|at| words.get(at + 1)).cloned().unwrap_or_default()
    }

    fn file(&self) -> String {
        std::fs::read_to_string(&self.file).unwrap()
    }

    /// Kills it, and starts it again from its file.
    fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = spawn(&self.file, self.is_ours);
        self.await_ready();
    }
}

/// Ours is started as Redis' server is made a Sentinel, or by its name.
fn spawn(file: &Path, is_ours: bool) -> Child {
    let mut command = Command::new(if is_ours { OURS } else { PEER });
    match file.file_name().and_then(|name| name.to_str()) {
        Some("first.conf") => command.arg(file).arg("--sentinel"),
        _ if is_ours => command.arg("sentinel").arg(file),
        _ => command.arg(file),
    };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Whether a real Sentinel can be in the quorum.
fn has_peer() -> bool {
    is_installed(PEER)
}

fn flat(reply: &Reply) -> Vec<String> {
    match reply {
        Reply::Array(parts) => parts.iter().flat_map(flat).collect(),
        Reply::Int(number) => vec![number.to_string()],
        other => vec![other.text().map_or(String::new(), |text| String::from_utf8_lossy(text).into_owned())],
    }
}

fn role(server: &Server) -> Vec<String> {
    Client::connect(server.address())
        .and_then(|mut client| client.command(&["ROLE"]))
        .map_or(Vec::new(), |r| flat(&r))
}

fn port(server: &Server) -> String {
    server.address().port().to_string()
}

/// Three servers, and Sentinels that know all of them and each other.
struct Group {
    servers: Vec<Server>,
    sentinels: Vec<Sentinel>,
    _directory: tempfile::TempDir,
}

impl Group {
    fn start() -> Group {
        let directory = tempfile::tempdir().unwrap();
        let options = ["server", "--repl-diskless-sync-delay", "0"];
        let mut servers = vec![Server::start(Path::new(OURS), &options).unwrap()];
        let primary = format!("127.0.0.1 {}", port(&servers[0]));
        for _ in 0..2 {
            let options = [&options[..], &["--replicaof", &primary]].concat();
            servers.push(Server::start(Path::new(OURS), &options).unwrap());
        }
        let lines = format!(
            "# kept\nsentinel monitor mymaster {primary} 2\nsentinel down-after-milliseconds mymaster 30000\nsentinel failover-timeout mymaster 8000\n"
        );
        let has_peer = has_peer();
        let start = |name: &str, is_ours| Sentinel::start(directory.path(), name, is_ours, &lines);
        let sentinels =
            vec![start("first.conf", true), start("second.conf", true), start("third.conf", !has_peer)];
        let group = Group { servers, sentinels, _directory: directory };
        group.await_whole();
        group
    }

    fn await_whole(&self) {
        for sentinel in &self.sentinels {
            until("all are known", || {
                sentinel.field("num-slaves") == "2" && sentinel.field("num-other-sentinels") == "2"
            });
            until("the quorum is reachable", || {
                !sentinel.ask(&["SENTINEL", "CKQUORUM", "mymaster"]).is_error()
            });
        }
        for replica in self.servers.iter().skip(1) {
            until("the replica is connected", || {
                role(replica).get(3).is_some_and(|state| state == "connected")
            });
        }
    }

    /// Lets the Sentinels find soon that the primary is dead: before that, however busy the machine, none
    /// replaces it.
    fn expect_death(&self) {
        for sentinel in &self.sentinels {
            let words = ["SENTINEL", "SET", "mymaster", "down-after-milliseconds", "1500"];
            assert!(!sentinel.ask(&words).is_error());
        }
    }

    /// The servers' ports but that of the one at `index`.
    fn others(&self, index: usize) -> Vec<String> {
        self.servers
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != index)
            .map(|(_, server)| port(server))
            .collect()
    }
}

#[test]
fn a_killed_primary_is_replaced_by_a_mixed_quorum() {
    let mut group = Group::start();
    let mut subscriber = Client::connect(group.sentinels[0].address()).unwrap();
    subscriber.set_timeout(PATIENCE);
    subscriber.command(&["SUBSCRIBE", "+switch-master"]).unwrap();
    let others = group.others(0);
    let old = port(&group.servers[0]);
    group.expect_death();
    // Dropping it kills it with SIGKILL.
    drop(group.servers.remove(0));
    until("all agree on another", || {
        let ports: Vec<String> = group.sentinels.iter().map(Sentinel::primary_port).collect();
        others.contains(&ports[0]) && ports.iter().all(|port| *port == ports[0])
    });
    let elected = group.sentinels[0].primary_port();
    let message = flat(&subscriber.read_reply().unwrap());
    let expected = format!("mymaster 127.0.0.1 {old} 127.0.0.1 {elected}");
    assert_eq!(message, ["message", "+switch-master", &expected]);
    for server in &group.servers {
        until("every server has its role", || match role(server) {
            words if port(server) == elected => words.first().is_some_and(|word| word == "master"),
            words => words.get(2) == Some(&elected) && words.get(3).is_some_and(|state| state == "connected"),
        });
    }
    // The other replica continues where it was.
    let elected_server = group.servers.iter().find(|server| port(server) == elected).unwrap();
    let mut client = Client::connect(elected_server.address()).unwrap();
    let stats = flat(&client.command(&["INFO", "stats"]).unwrap()).concat();
    assert!(stats.contains("sync_full:0\r\n") && stats.contains("sync_partial_ok:1\r\n"), "{stats}");
    for sentinel in &group.sentinels[..2] {
        until("the file says so", || {
            let file = sentinel.file();
            file.starts_with(&format!("port {}\n# kept\n", sentinel.port.number()))
                && file.contains(&format!("\nsentinel monitor mymaster 127.0.0.1 {elected} 2\n"))
                && file.contains(&format!("\nsentinel known-replica mymaster 127.0.0.1 {old}\n"))
                && !file.contains("\nsentinel current-epoch 0\n")
        });
    }
    // From its file a Sentinel knows all again, without having to find out.
    let id = group.sentinels[0].words(&["SENTINEL", "MYID"]);
    group.sentinels[0].restart();
    let restarted = &group.sentinels[0];
    assert_eq!(restarted.words(&["SENTINEL", "MYID"]), id);
    assert_eq!(restarted.primary_port(), elected);
    assert_eq!(
        (restarted.field("num-slaves"), restarted.field("num-other-sentinels")),
        ("2".into(), "2".into())
    );
}

#[test]
fn an_operators_failover_moves_the_primary_and_the_old_one_follows() {
    let group = Group::start();
    let first = &group.sentinels[0];
    assert!(first.words(&["CLIENT", "LIST"]).concat().contains(" addr=127.0.0.1:"));
    until("a replica can be promoted", || !first.ask(&["SENTINEL", "FAILOVER", "mymaster"]).is_error());
    let others = group.others(0);
    for sentinel in &group.sentinels {
        until("the primary moves", || others.contains(&sentinel.primary_port()));
    }
    until("the old primary follows", || {
        role(&group.servers[0]).get(2) == Some(&group.sentinels[1].primary_port())
    });
    until("the failover ends", || first.field("flags") == "master");
}

/// Peers that connect and say nothing, or half a request, do not keep other Sentinels and clients away.
#[test]
fn a_sentinel_answers_beside_as_many_silent_peers_as_it_may_have_clients() {
    use std::io::Write;
    let directory = tempfile::tempdir().unwrap();
    let sentinel = Sentinel::start(directory.path(), "sentinel.conf", true, "maxclients 20\n");
    for beginning in ["", "PI", "*2\r\n$4\r\nPI"] {
        let silent: Vec<_> = (0..40)
            .map(|_| {
                let mut stream = std::net::TcpStream::connect(sentinel.address()).unwrap();
                // It may be closed for a later one already.
                let _ = stream.write_all(beginning.as_bytes());
                stream
            })
            .collect();
        assert_eq!(sentinel.ask(&["PING"]).text(), Some(&b"PONG"[..]), "{beginning:?}");
        drop(silent);
    }
    // Clients that have asked for something are not closed for others.
    let mut clients: Vec<Client> = Vec::new();
    until("there are as many clients as there may be", || {
        let client = Client::connect(sentinel.address());
        let answered = client.and_then(|mut client| {
            let pong = client.command(&["PING"])?;
            Ok((client, pong.text() == Some(&b"PONG"[..])))
        });
        match answered {
            Ok((client, true)) => clients.push(client),
            _ => return clients.len() >= 15,
        }
        false
    });
    clients.iter_mut().for_each(|client| drop(client.command(&["PING"]).unwrap()));
}

/// Requests of other clients run once the pause is over, in their order; the Sentinel itself goes on.
#[test]
fn a_pause_of_clients_holds_their_requests() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(Path::new(OURS), &["server"]).unwrap();
    let lines = format!("sentinel monitor mymaster 127.0.0.1 {} 1\n", port(&server));
    let sentinel = Sentinel::start(directory.path(), "own.conf", true, &lines);
    let connect = || Client::connect(sentinel.address()).unwrap();
    let (mut first, mut reader, mut writer) = (connect(), connect(), connect());
    let began = Instant::now();
    assert_eq!(flat(&first.command(&["CLIENT", "PAUSE", "400", "WRITE"]).unwrap()), ["OK"]);
    // Reads are served; PUBLISH waits, with the later requests of its client.
    writer.send(&["PUBLISH", "channel", "text"]).unwrap();
    writer.send(&["PING"]).unwrap();
    assert_eq!(flat(&reader.command(&["PING"]).unwrap()), ["PONG"]);
    // It is a Sentinel's own messages alone that it takes.
    let refused = |reply: Reply| matches!(reply, Reply::Error(text) if text.starts_with(b"ERR Only HELLO"));
    assert!(refused(writer.read_reply().unwrap()));
    assert!(began.elapsed() >= Duration::from_millis(400));
    assert_eq!(flat(&writer.read_reply().unwrap()), ["PONG"]);
    // A pause of everything holds what reads as well, also its own client's next requests.
    let began = Instant::now();
    assert_eq!(flat(&first.command(&["CLIENT", "PAUSE", "300", "ALL"]).unwrap()), ["OK"]);
    reader.send(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"]).unwrap();
    assert_eq!(flat(&first.command(&["PING"]).unwrap()), ["PONG"]);
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!(flat(&reader.read_reply().unwrap()), ["127.0.0.1".to_owned(), port(&server)]);
    // CLIENT UNPAUSE ends one of writes before its time.
    assert_eq!(flat(&first.command(&["CLIENT", "PAUSE", "600000", "WRITE"]).unwrap()), ["OK"]);
    writer.send(&["PUBLISH", "channel", "text"]).unwrap();
    assert_eq!(flat(&first.command(&["CLIENT", "UNPAUSE"]).unwrap()), ["OK"]);
    assert!(refused(writer.read_reply().unwrap()));
}
