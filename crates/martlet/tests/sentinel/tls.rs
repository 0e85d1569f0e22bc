//! TLS and nothing else: servers and Sentinels without a plain port find each other, replace a primary that
//! is killed, and refuse clients without a certificate.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::ReservedPort;
use martlet_tls::{TlsOptions, TlsSettings};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::{OURS, PEER, flat, has_peer, until};

/// How long one of these may take to answer; then it is asked again.
const STEP: Duration = Duration::from_secs(10);

/// Files of an authority and of a certificate by it.
struct Certificates(tempfile::TempDir);

impl Certificates {
    fn new() -> Certificates {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "authority of the Sentinels");
        let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let certified = CertificateParams::new(["sentinel".to_owned()]).unwrap().signed_by(&key, &issuer);
        let files = Certificates(tempfile::tempdir().unwrap());
        for (name, text) in [
            ("ca.crt", issuer.pem()),
            ("one.crt", certified.unwrap().pem()),
            ("one.key", key.serialize_pem()),
        ] {
            fs::write(files.path(name), text).unwrap();
        }
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The directives that all have in common.
    fn lines(&self) -> String {
        let [ca, certificate, key] =
            ["ca.crt", "one.crt", "one.key"].map(|name| self.path(name).display().to_string());
        format!(
            "tls-replication yes\ntls-auth-clients yes\ntls-ca-cert-file {ca}\n\
             tls-cert-file {certificate}\ntls-key-file {key}\n"
        )
    }

    /// A client's settings, with the certificate or without one.
    fn settings(&self, has_certificate: bool) -> TlsSettings {
        let file = |name| has_certificate.then(|| self.path(name));
        let options = TlsOptions {
            ca_file: Some(self.path("ca.crt")),
            any_name: true,
            certificate: file("one.crt"),
            key: file("one.key"),
            ..TlsOptions::default()
        };
        TlsSettings::new(&options, "localhost").unwrap()
    }
}

/// A server or a Sentinel with a port for TLS alone; dropping it kills it.
struct Process {
    child: Child,
    port: ReservedPort,
    settings: TlsSettings,
    file: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts one from a file, in a separate directory.
    fn start(certificates: &Certificates, name: &str, command: &[&str], lines: &str) -> Process {
        let port = ReservedPort::take().unwrap();
        let directory = certificates.path(name);
        fs::create_dir(&directory).unwrap();
        let file = directory.join("its.conf");
        let text = format!(
            "port 0\ntls-port {}\nbind 127.0.0.1\ndir {}\n{}{lines}",
            port.number(),
            directory.display(),
            certificates.lines()
        );
        fs::write(&file, text).unwrap();
        let log = fs::File::create(directory.join("its.log")).unwrap();
        let mut words = command.iter();
        let child = Command::new(words.next().unwrap())
            .args(words)
            .arg(&file)
            .stdin(Stdio::null())
            .stderr(log.try_clone().unwrap())
            .stdout(log)
            .spawn()
            .unwrap();
        let process = Process { child, port, settings: certificates.settings(true), file };
        until("it answers", || process.ask(&["PING"]).is_ok_and(|reply| !reply.is_error()));
        process
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.number()))
    }

    fn port(&self) -> String {
        self.port.number().to_string()
    }

    fn client(&self, settings: &TlsSettings) -> io::Result<Client> {
        let mut client = Client::connect_within(self.address(), STEP)?;
        client.secure(settings)?;
        Ok(client)
    }

    fn ask(&self, words: &[&str]) -> io::Result<Reply> {
        self.client(&self.settings)?.command(words)
    }

    /// The words of a reply; none while it does not answer.
    fn words(&self, words: &[&str]) -> Vec<String> {
        self.ask(words).map_or(Vec::new(), |reply| flat(&reply))
    }

    fn primary_port(&self) -> String {
        self.words(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"]).pop().unwrap_or_default()
    }

    /// How many replicas and other Sentinels it knows of.
    fn known(&self) -> [String; 2] {
        let words = self.words(&["SENTINEL", "MASTER", "mymaster"]);
        ["num-slaves", "num-other-sentinels"].map(|name| {
            let at = words.iter().position(|word| word == name);
            at.and_then(|at| words.get(at + 1)).cloned().unwrap_or_default()
        })
    }
}

fn start_sentinels(certificates: &Certificates, primary: &str) -> Vec<Process> {
    let lines = format!(
        "sentinel monitor mymaster 127.0.0.1 {primary} 2\n\
         sentinel down-after-milliseconds mymaster 30000\nsentinel failover-timeout mymaster 8000\n"
    );
    let ours = ["first", "second", "third"];
    let start = |name: &&str| match *name {
        "third" if has_peer() => Process::start(certificates, name, &[PEER], &lines),
        _ => Process::start(certificates, name, &[OURS, "sentinel"], &lines),
    };
    ours.iter().map(start).collect()
}

#[test]
fn with_tls_alone_a_killed_primary_is_replaced() {
    let certificates = Certificates::new();
    let server = [OURS, "server"];
    let primary = Process::start(&certificates, "primary", &server, "");
    let old = primary.port();
    let replica_of = format!("replicaof 127.0.0.1 {old}\nrepl-diskless-sync-delay 0\n");
    let replica = Process::start(&certificates, "replica", &server, &replica_of);
    let sentinels = start_sentinels(&certificates, &old);
    until("the replica is connected", || {
        replica.words(&["ROLE"]).get(3).is_some_and(|state| state == "connected")
    });
    for sentinel in &sentinels {
        until("all are known", || sentinel.known() == ["1", "2"]);
        until("the quorum is reachable", || {
            sentinel.ask(&["SENTINEL", "CKQUORUM", "mymaster"]).is_ok_and(|reply| !reply.is_error())
        });
    }
    let info = sentinels[0].words(&["INFO", "server"]).concat();
    assert!(info.contains(&format!("\r\ntcp_port:{}\r\n", sentinels[0].port())), "{info}");
    for sentinel in &sentinels {
        let words = ["SENTINEL", "SET", "mymaster", "down-after-milliseconds", "1500"];
        until("it is set", || sentinel.ask(&words).is_ok_and(|reply| !reply.is_error()));
    }
    drop(primary);
    for sentinel in &sentinels {
        until("all agree on the replica", || sentinel.primary_port() == replica.port());
    }
    until("the replica is a primary", || {
        replica.words(&["ROLE"]).first().is_some_and(|role| role == "master")
    });
    until("the file says so and keeps its lines", || {
        let text = fs::read_to_string(&sentinels[0].file).unwrap();
        text.starts_with(&format!("port 0\ntls-port {}\n", sentinels[0].port()))
            && text.contains(&certificates.lines())
            && text.contains(&format!("\nsentinel monitor mymaster 127.0.0.1 {} 2\n", replica.port()))
            && text
                .contains(&format!("\nsentinel known-sentinel mymaster 127.0.0.1 {} ", sentinels[1].port()))
    });
}

#[test]
fn who_has_no_certificate_is_let_in_as_the_configuration_says() {
    let certificates = Certificates::new();
    let without = certificates.settings(false);
    for (value, is_let_in) in [("yes", false), ("optional", true), ("no", true)] {
        let lines = format!("tls-auth-clients {value}\n");
        let sentinel = Process::start(&certificates, value, &[OURS, "sentinel"], &lines);
        // TLS 1.3 has the server look at the certificate after the client is done.
        let reply = sentinel.client(&without).and_then(|mut client| client.command(&["PING"]));
        assert_eq!(reply.is_ok_and(|reply| flat(&reply) == ["PONG"]), is_let_in, "{value}");
        // A client without TLS is not understood.
        let plain = Client::connect_within(sentinel.address(), STEP).unwrap().command(&["PING"]);
        assert!(plain.is_err(), "{plain:?}");
        // Requests and replies of many records.
        let long = "x".repeat(100_000);
        let mut client = sentinel.client(&sentinel.settings).unwrap();
        for _ in 0..3 {
            assert_eq!(flat(&client.command(&["PING", &long]).unwrap()), [long.as_str()]);
        }
    }
}

/// A peer that begins no handshake, or drips one, is closed by its deadline; clients are served meanwhile.
#[test]
fn a_handshake_that_does_not_end_has_a_deadline() {
    use std::io::{Read, Write};
    let certificates = Certificates::new();
    let sentinel = Process::start(&certificates, "deadline", &[OURS, "sentinel"], "maxclients 20\n");
    let connect = || std::net::TcpStream::connect(sentinel.address()).unwrap();
    let mut silent = connect();
    let mut slow = connect();
    // The head of a record of 512 bytes, of which little follows.
    slow.write_all(&[22, 3, 1, 2, 0]).unwrap();
    let mut strangers: Vec<_> = (0..40).map(|_| connect()).collect();
    let answers = || sentinel.ask(&["PING"]).is_ok_and(|reply| flat(&reply) == ["PONG"]);
    assert!(answers());
    strangers.truncate(5);
    let mut later = connect();
    let is_closed = |stream: &mut std::net::TcpStream| {
        stream.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
        match stream.read(&mut [0; 64]) {
            Ok(count) => count == 0,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        }
    };
    until("handshakes that do not end are closed", || {
        // A byte more does not put the end off.
        let _ = (slow.write_all(&[0]), later.write_all(&[22]));
        [&mut silent, &mut slow, &mut later].into_iter().all(is_closed)
    });
    assert!(answers());
}

#[test]
fn without_what_tls_needs_it_does_not_start() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sentinel.conf");
    for (lines, why) in [
        ("tls-port 1\n", "No tls-cert-file configured!"),
        ("tls-replication yes\n", "Either tls-ca-cert-file or tls-ca-cert-dir must be specified"),
    ] {
        fs::write(&file, format!("port 0\n{lines}")).unwrap();
        let output = Command::new(OURS).arg("sentinel").arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stdout).contains(why), "{output:?}");
    }
}
