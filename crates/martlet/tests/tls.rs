//! TLS of whole processes, over both I/O backends: accepted clients and their users, the effects of a bad
//! certificate, and that bytes arrive however they are cut.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use martlet_client::address::Address;
use martlet_client::blocking::Client;
use martlet_client::resp::{self, Reply};
use martlet_client::stream::Stream;
use martlet_testkit::peers::is_installed;
use martlet_testkit::server::{ReservedPort, Server};
use martlet_testkit::wait::until as wait_until;
use martlet_tls::{TlsOptions, TlsSettings};
use pkcs8::pkcs5::pbes2;
use pkcs8::{LineEnding, PrivateKeyInfoRef};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

const OURS: &str = env!("CARGO_BIN_EXE_martlet");
const SILENCE: Duration = Duration::from_secs(60);

/// An authority and its certificates, as files of a directory.
struct Authority {
    directory: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("ca.crt"), issuer.pem()).unwrap();
        Authority { directory, issuer }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes `FILE.crt` and `FILE.key`.
    fn certify(&self, file: &str, name: &str) {
        self.certify_by(file, name, KeyPair::generate().unwrap());
    }

    fn certify_by(&self, file: &str, name: &str, key: KeyPair) {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.path(&format!("{file}.key")), key.serialize_pem()).unwrap();
        fs::write(self.path(&format!("{file}.crt")), certificate.pem()).unwrap();
    }
}

/// A server with both ports, and its clients' files.
struct House {
    authority: Authority,
    server: Server,
    address: SocketAddr,
    _port: ReservedPort,
}

impl House {
    fn new(backend: &str, more: &[&str]) -> Option<House> {
        let authority = Authority::new();
        authority.certify("server", "server");
        authority.certify("client", "alice");
        let port = ReservedPort::take().unwrap();
        let number = port.number().to_string();
        let (certificate, key) = (authority.text("server.crt"), authority.text("server.key"));
        let ca = authority.text("ca.crt");
        let mut arguments = vec!["server", "--io-backend", backend, "--tls-port", &number];
        arguments.extend([
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &ca,
        ]);
        arguments.extend(more);
        let server = match Server::start(Path::new(OURS), &arguments) {
            Ok(server) => server,
            // Containers often forbid io_uring.
            Err(_) if backend == "uring" => return None,
            Err(error) => panic!("{error}"),
        };
        let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
        Some(House { authority, server, address, _port: port })
    }

    /// A TLS client that shows the certificate of that name.
    fn connect(&self, certificate: Option<&str>) -> io::Result<Secure> {
        self.connect_by(&self.options(certificate))
    }

    fn options(&self, certificate: Option<&str>) -> TlsOptions {
        let file = |end: &str| certificate.map(|name| self.authority.path(&format!("{name}.{end}")));
        TlsOptions {
            ca_file: Some(self.authority.path("ca.crt")),
            certificate: file("crt"),
            key: file("key"),
            ..TlsOptions::default()
        }
    }

    fn connect_by(&self, options: &TlsOptions) -> io::Result<Secure> {
        let mut stream = Stream::connect(&Address::Tcp(self.address), Some(SILENCE))?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.secure(&TlsSettings::new(options, "localhost")?)?;
        Ok(Secure { stream, received: Vec::new() })
    }

    fn plain(&self) -> Client {
        Client::connect(self.server.address()).unwrap()
    }

    /// What CONFIG SET answers.
    fn configure(&self, pairs: &[&str]) -> String {
        let reply = self.plain().command(&[&["CONFIG", "SET"], pairs].concat()).unwrap();
        text(&reply)
    }
}

struct Secure {
    stream: Stream,
    received: Vec<u8>,
}

impl Secure {
    fn ask(&mut self, request: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        resp::encode_request(&request.split(' ').collect::<Vec<_>>(), &mut bytes);
        self.stream.send(&bytes)?;
        self.reply().map(|reply| text(&reply))
    }

    fn reply(&mut self) -> io::Result<Reply> {
        loop {
            if let Some((reply, length)) = resp::decode(&self.received).map_err(io::Error::other)? {
                self.received.drain(..length);
                return Ok(reply);
            }
            self.more()?;
        }
    }

    fn more(&mut self) -> io::Result<()> {
        match self.stream.read_some(&mut self.received)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            self.more().unwrap();
        }
        self.received.drain(..count).collect()
    }
}

fn text(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(bytes) | Reply::Simple(bytes) | Reply::Error(bytes) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
        other => format!("{other:?}"),
    }
}

/// Runs a test on each backend that works here.
fn on_both(more: &[&str], test: impl Fn(&House)) {
    for backend in ["epoll", "uring"] {
        if let Some(house) = House::new(backend, more) {
            test(&house);
        }
    }
}

#[test]
fn bytes_arrive_however_they_are_cut() {
    on_both(&[], |house| {
        let mut client = house.connect(Some("client")).unwrap();
        assert_eq!(client.ask("PING").unwrap(), "PONG");
        // A pipeline, in records of every size.
        let mut pipeline = Vec::new();
        for i in 0..2000 {
            resp::encode_request(&["SET", &format!("key:{i}"), &"v".repeat(i % 300)], &mut pipeline);
        }
        let (mut rest, mut size) = (&pipeline[..], 1);
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at(size.min(rest.len()));
            client.stream.send(piece).unwrap();
            rest = tail;
            size = size * 7 % 4099 + 1;
        }
        assert!(client.take(2000 * 5) == b"+OK\r\n".repeat(2000));
        assert_eq!(client.ask("STRLEN key:299").unwrap(), "Int(299)");
        // 100 MB, both ways. Nothing is read while it is sent, and later nothing sent while it is read.
        let value: Vec<u8> = (0..100u32 << 20).map(|i| (i % 251) as u8).collect();
        let head = format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${}\r\n", value.len());
        client.stream.send(head.as_bytes()).unwrap();
        client.stream.send(&value).unwrap();
        client.stream.send(b"\r\n").unwrap();
        assert_eq!(client.take(5), b"+OK\r\n");
        client.stream.send(b"*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n").unwrap();
        let head = format!("${}\r\n", value.len());
        assert_eq!(client.take(head.len()), head.as_bytes());
        assert!(client.take(value.len()) == value);
        assert_eq!(client.take(2), b"\r\n");
        assert_eq!(client.ask("PING").unwrap(), "PONG");
        let info = client.ask("INFO server").unwrap();
        assert!(info.contains(&format!("name=tls,bind=*,bind=-::*,port={}", house.address.port())), "{info}");
        assert_eq!(client.ask("QUIT").unwrap(), "OK");
        assert_eq!(client.reply().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    });
}

#[test]
fn a_reader_that_does_not_read_is_disconnected_at_its_limit() {
    on_both(&["--client-output-buffer-limit", "normal 4mb 0 0"], |house| {
        house.plain().command(&["SET", "big", &"x".repeat(1 << 20)]).unwrap();
        let mut client = house.connect(Some("client")).unwrap();
        let mut requests = Vec::new();
        for _ in 0..100 {
            resp::encode_request(&["GET", "big"], &mut requests);
        }
        client.stream.send(&requests).unwrap();
        let mut received = 0;
        while client.more().is_ok() {
            received += std::mem::take(&mut client.received).len();
        }
        assert!(received < 100 << 20);
        assert_eq!(text(&house.plain().command(&["PING"]).unwrap()), "PONG");
    });
}

#[test]
fn certificates_of_clients_are_asked_for_as_configured() {
    on_both(&[], |house| {
        let other = Authority::new();
        other.certify("client", "alice");
        let is_let_in = |client: io::Result<Secure>| client.and_then(|mut client| client.ask("PING")).is_ok();
        let strange = || {
            let options = TlsOptions {
                ca_file: Some(house.authority.path("ca.crt")),
                certificate: Some(other.path("client.crt")),
                key: Some(other.path("client.key")),
                ..TlsOptions::default()
            };
            let mut stream = Stream::connect(&Address::Tcp(house.address), Some(SILENCE))?;
            stream.secure(&TlsSettings::new(&options, "localhost")?)?;
            Ok(Secure { stream, received: Vec::new() })
        };
        for (asks, without, with_strange) in
            [("yes", false, false), ("optional", true, false), ("no", true, true), ("yes", false, false)]
        {
            assert_eq!(house.configure(&["tls-auth-clients", asks]), "OK");
            assert!(is_let_in(house.connect(Some("client"))), "{asks}");
            assert_eq!(is_let_in(house.connect(None)), without, "{asks}");
            assert_eq!(is_let_in(strange()), with_strange, "{asks}");
        }
        assert!(house.server.logged("Error accepting a client connection: ", 1) > 0);
    });
}

#[test]
fn a_certificate_names_its_user() {
    on_both(&[], |house| {
        let whoami = |name| house.connect(Some(name)).unwrap().ask("ACL WHOAMI").unwrap();
        assert_eq!(whoami("client"), "default");
        assert_eq!(house.configure(&["tls-auth-clients-user", "CN"]), "OK");
        assert_eq!(whoami("client"), "default");
        let mut plain = house.plain();
        plain.command(&["ACL", "SETUSER", "alice", "on", "+acl|whoami", "resetpass"]).unwrap();
        assert_eq!(whoami("client"), "alice");
        let refused = |house: &House| {
            let reply = house.plain().command(&["INFO", "stats"]).unwrap();
            let info = String::from_utf8_lossy(reply.text().unwrap()).into_owned();
            let line = info.lines().find_map(|line| line.strip_prefix("acl_access_denied_tls_cert:"));
            line.unwrap().parse::<u64>().unwrap()
        };
        // The user that the certificate names was not there at first, and counts from then on.
        assert_eq!(refused(house), 1);
        house.authority.certify("stranger", "nobody");
        assert_eq!(whoami("stranger"), "default");
        assert_eq!(refused(house), 2);
        plain.command(&["ACL", "SETUSER", "alice", "off"]).unwrap();
        assert_eq!(whoami("client"), "default");
        assert_eq!(refused(house), 3);
        assert!(house.connect(None).is_err() || refused(house) == 3);
        plain.command(&["CONFIG", "RESETSTAT"]).unwrap();
        assert_eq!(refused(house), 0);
        plain.command(&["ACL", "SETUSER", "default", "resetpass", ">pw"]).unwrap();
        assert!(whoami("stranger").starts_with("NOAUTH "));
    });
}

#[test]
fn a_bad_certificate_stops_the_change_and_not_the_server() {
    on_both(&[], |house| {
        let garbage = house.authority.text("garbage");
        fs::write(&garbage, "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n").unwrap();
        house.authority.certify("second", "second");
        let second = |end| house.authority.text(&format!("second.{end}"));
        let server = |end| house.authority.text(&format!("server.{end}"));
        let refused = |name: &str| {
            format!(
                "ERR CONFIG SET failed (possibly related to argument '{name}') - \
                 Unable to update TLS configuration. Check server logs."
            )
        };
        for (name, value) in [
            ("tls-cert-file", garbage.as_str()),
            ("tls-cert-file", "/no/such/file"),
            ("tls-cert-file", ""),
            // The key of another certificate.
            ("tls-key-file", &second("key")),
            ("tls-ca-cert-file", "/no/such/file"),
            ("tls-protocols", "SSLv3"),
            ("tls-ciphers", "RC4-SHA"),
        ] {
            assert_eq!(house.configure(&[name, value]), refused(name), "{name} {value}");
            assert_eq!(house.connect(Some("client")).unwrap().ask("PING").unwrap(), "PONG");
        }
        let pair = ["tls-cert-file", &second("crt"), "tls-key-file", &second("key")];
        assert_eq!(house.configure(&pair), "OK");
        assert_eq!(house.connect(Some("client")).unwrap().ask("PING").unwrap(), "PONG");
        // The same names again: the files are read again.
        fs::write(second("crt"), "nothing").unwrap();
        assert_eq!(house.configure(&["tls-cert-file", &second("crt")]), refused("tls-cert-file"));
        let pair = ["tls-cert-file", &server("crt"), "tls-key-file", &server("key")];
        assert_eq!(house.configure(&pair), "OK");
        // Without the port no client connects; with it again, every client does.
        let mut before = house.connect(Some("client")).unwrap();
        assert_eq!(house.configure(&["tls-port", "0"]), "OK");
        assert_eq!(before.ask("PING").unwrap(), "PONG");
        assert_eq!(house.configure(&["tls-port", &house.address.port().to_string()]), "OK");
        assert_eq!(house.connect(Some("client")).unwrap().ask("PING").unwrap(), "PONG");
    });
}

#[test]
fn groups_are_those_configured() {
    on_both(&["--tls-groups", "nonsense:P-256"], |house| {
        let connects = |groups: &str| {
            let options = TlsOptions { groups: Some(groups.into()), ..house.options(Some("client")) };
            house
                .connect_by(&options)
                .and_then(|mut client| client.ask("PING"))
                .is_ok_and(|pong| pong == "PONG")
        };
        assert!(connects("prime256v1") && !connects("X25519"));
        assert_eq!(house.configure(&["tls-groups", "X25519:P-384"]), "OK");
        assert!(!connects("secp256r1") && connects("X25519") && connects("secp384r1"));
        assert!(house.configure(&["tls-groups", "nonsense"]).contains("'tls-groups'"));
        assert_eq!(house.configure(&["tls-groups", ""]), "OK");
        assert!(connects("P-256") && connects("X25519"));
    });
}

#[test]
fn a_second_certificate_is_for_clients_that_cannot_verify_the_first() {
    if !is_installed("openssl") {
        return;
    }
    on_both(&["--tls-auth-clients", "no"], |house| {
        house.authority.certify_by("second", "second", KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap());
        let subject = |algorithm: &str| {
            let address = house.address.to_string();
            let arguments = ["s_client", "-connect", &address, "-tls1_3", "-sigalgs", algorithm];
            let mut openssl = std::process::Command::new("openssl");
            let output = openssl.args(arguments).stdin(std::process::Stdio::null()).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let names = |text: String, name: &str| {
            text.contains(&format!("CN = {name}")) || text.contains(&format!("CN={name}"))
        };
        let file = |end| house.authority.text(&format!("second.{end}"));
        assert!(names(subject("ECDSA+SHA256"), "server"));
        assert!(!names(subject("ed25519"), "second"));
        assert!(house.configure(&["tls-alt-cert-file", &file("crt")]).starts_with("ERR "));
        let pair = ["tls-alt-cert-file", &file("crt"), "tls-alt-key-file", &file("key")];
        assert_eq!(house.configure(&pair), "OK");
        assert!(names(subject("ed25519"), "second"));
        assert!(names(subject("ECDSA+SHA256"), "server"));
    });
}

#[test]
fn a_key_is_read_with_its_password() {
    let house = House::new("epoll", &[]).unwrap();
    let key = KeyPair::from_pem(&fs::read_to_string(house.authority.path("server.key")).unwrap()).unwrap();
    let key = key.serialize_der();
    let form = pbes2::Parameters::generate_pbkdf2_sha256_aes256cbc(2048, b"saltsalt", [7; 16]).unwrap();
    let key = PrivateKeyInfoRef::try_from(key.as_slice()).unwrap();
    let encrypted = key.encrypt_with_params(form, "pass").unwrap();
    let encrypted = encrypted.to_pem("ENCRYPTED PRIVATE KEY", LineEnding::LF).unwrap();
    fs::write(house.authority.path("locked.key"), encrypted.as_bytes()).unwrap();
    let locked = house.authority.text("locked.key");
    let is_refused = |pairs: &[&str]| {
        house.configure(pairs).ends_with("Unable to update TLS configuration. Check server logs.")
    };
    for password in [&[] as &[&str], &["tls-key-file-pass", "wrong"]] {
        assert!(is_refused(&[&["tls-key-file", &locked], password].concat()));
        assert_eq!(house.connect(Some("client")).unwrap().ask("PING").unwrap(), "PONG");
    }
    let line = "locked.key: it is encrypted, and there is no password";
    assert!(house.server.logged(line, 1) > 0, "{}", house.server.log());
    assert_eq!(house.configure(&["tls-key-file", &locked, "tls-key-file-pass", "pass"]), "OK");
    assert_eq!(house.connect(Some("client")).unwrap().ask("PING").unwrap(), "PONG");
    assert!(is_refused(&["tls-key-file-pass", "other"]));
    // The traditional form.
    let text = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAA==\n";
    fs::write(house.authority.path("old.key"), text).unwrap();
    assert!(is_refused(&["tls-key-file", &house.authority.text("old.key")]));
    assert!(house.server.logged("openssl pkcs8 -topk8", 1) > 0);
    // A replica shows its primary the certificate of this key, which has a separate password.
    let primary = house.address.port().to_string();
    let (certificate, ca) = (house.authority.text("server.crt"), house.authority.text("ca.crt"));
    let replicate = |password: &[&str]| {
        let arguments = ["server", "--tls-replication", "yes", "--tls-ca-cert-file", &ca];
        let own = ["--tls-client-cert-file", &certificate, "--tls-client-key-file", &locked];
        let of = ["--replicaof", "127.0.0.1", &primary];
        Server::start(Path::new(OURS), &[&arguments[..], &own, &of, password].concat()).unwrap()
    };
    let has_copied = |replica: &Server| {
        let info = Client::connect(replica.address()).unwrap().command(&["INFO", "replication"]).unwrap();
        String::from_utf8_lossy(info.text().unwrap()).contains("master_link_status:up")
    };
    let deadline = std::time::Instant::now() + SILENCE;
    let replica = replicate(&["--tls-client-key-file-pass", "pass"]);
    while !has_copied(&replica) {
        assert!(std::time::Instant::now() < deadline, "{}", replica.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    let replica = replicate(&["--tls-client-key-file-pass", "wrong"]);
    while !replica.log().contains("locked.key") {
        assert!(std::time::Instant::now() < deadline, "{}", replica.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!has_copied(&replica));
}

#[test]
fn changed_files_are_read_again() {
    on_both(&["--tls-auto-reload-interval", "1"], |house| {
        // A new authority for all: a client that trusts the old one is refused once the server has noticed.
        let next = Authority::new();
        next.certify("server", "server");
        next.certify("client", "alice");
        for file in ["server.key", "server.crt", "ca.crt"] {
            fs::copy(next.path(file), house.authority.path(&format!("{file}.next"))).unwrap();
        }
        let old = fs::read(house.authority.path("ca.crt")).unwrap();
        let mut before = house.connect(Some("client")).unwrap();
        for file in ["server.key", "server.crt", "ca.crt"] {
            fs::rename(house.authority.path(&format!("{file}.next")), house.authority.path(file)).unwrap();
        }
        for file in ["client.key", "client.crt"] {
            fs::copy(next.path(file), house.authority.path(file)).unwrap();
        }
        let deadline = std::time::Instant::now() + SILENCE;
        while house.connect(Some("client")).and_then(|mut client| client.ask("PING")).is_err() {
            assert!(std::time::Instant::now() < deadline, "{}", house.server.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_ne!(old, fs::read(house.authority.path("ca.crt")).unwrap());
        assert_eq!(before.ask("PING").unwrap(), "PONG");
    });
}

#[test]
fn what_is_no_handshake_holds_nobody_up() {
    on_both(&[], |house| {
        let mut silent = Vec::new();
        for _ in 0..50 {
            let mut stream = TcpStream::connect(house.address).unwrap();
            // The beginning of a record.
            stream.write_all(&[22, 3, 1, 0x0f]).unwrap();
            silent.push(stream);
        }
        assert_eq!(house.connect(Some("client")).unwrap().ask("PING").unwrap(), "PONG");
        for words in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], b"PING\r\n", b"\x16\x03\x01\x00\x05garbage"]
        {
            let mut stream = TcpStream::connect(house.address).unwrap();
            stream.set_read_timeout(Some(SILENCE)).unwrap();
            stream.write_all(words).unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            // Nothing, or an alert.
            assert!(answer.is_empty() || answer[0] == 21, "{answer:?}");
        }
        drop(silent);
        // A handshake that is torn.
        assert_eq!(house.connect(Some("client")).unwrap().ask("PING").unwrap(), "PONG");
        assert!(house.server.logged("Error accepting a client connection: ", 1) > 0);
    });
}

#[test]
fn a_server_whose_certificate_cannot_be_read_does_not_start() {
    let authority = Authority::new();
    let ca = authority.text("ca.crt");
    let mut command = std::process::Command::new(OURS);
    command.args(["server", "--port", "0", "--tls-port", "1", "--tls-ca-cert-file", &ca]);
    let output = command.current_dir(authority.directory.path()).output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(said.contains("No tls-cert-file configured!"), "{said}");
    assert!(said.contains("Failed to configure TLS. Check logs for more info."), "{said}");
}

/// Starts a server with these certificates, and options besides.
fn start(program: &str, authority: &Authority, more: &[&str]) -> Server {
    let mut arguments = if program == OURS { vec!["server".to_owned()] } else { Vec::new() };
    arguments.extend(["--repl-diskless-sync-delay", "0"].map(str::to_owned));
    for (directive, file) in [
        ("--tls-cert-file", "server.crt"),
        ("--tls-key-file", "server.key"),
        ("--tls-ca-cert-file", "ca.crt"),
    ] {
        arguments.extend([directive.to_owned(), authority.text(file)]);
    }
    arguments.extend(more.iter().map(|&word| word.to_owned()));
    Server::start(Path::new(program), &arguments).unwrap()
}

fn ask(server: &Server, request: &str) -> String {
    let words: Vec<_> = request.split(' ').collect();
    text(&Client::connect(server.address()).unwrap().command(&words).unwrap())
}

#[test]
fn replicas_follow_over_tls() {
    let has_peer = is_installed("redis-server");
    let pairs = [(OURS, OURS), (OURS, "redis-server"), ("redis-server", OURS)];
    for (primary, replica) in &pairs[..if has_peer { 3 } else { 1 }] {
        let authority = Authority::new();
        authority.certify("server", "server");
        let port = ReservedPort::take().unwrap();
        let number = port.number().to_string();
        let primary = start(primary, &authority, &["--tls-port", &number, "--protected-mode", "no"]);
        ask(&primary, "SET before 1");
        let options = [
            "--tls-replication",
            "yes",
            "--bind-source-addr",
            "127.0.0.2",
            "--replicaof",
            "127.0.0.1",
            &number,
        ];
        let replica = start(replica, &authority, &options);
        wait_until("the replica has what there was", || ask(&replica, "GET before") == "1");
        ask(&primary, "SET after 2");
        wait_until("the replica has what came", || ask(&replica, "GET after") == "2");
        let lines = ask(&primary, "INFO replication");
        assert!(lines.contains("slave0:ip=127.0.0.2,"), "{lines}");
    }
}

#[test]
fn a_primary_that_nobody_vouches_for_is_not_followed() {
    let (authority, other) = (Authority::new(), Authority::new());
    authority.certify("server", "server");
    other.certify("server", "server");
    let port = ReservedPort::take().unwrap();
    let number = port.number().to_string();
    let _primary = start(OURS, &authority, &["--tls-port", &number, "--tls-auth-clients", "no"]);
    let replica = start(OURS, &other, &["--tls-replication", "yes", "--replicaof", "127.0.0.1", &number]);
    wait_until("the log says why", || {
        let log = replica.log();
        log.contains("Error condition on socket for SYNC: invalid peer certificate: UnknownIssuer")
            || log.contains("Error condition on socket for SYNC: invalid peer certificate: BadSignature")
    });
    assert!(ask(&replica, "INFO replication").contains("master_link_status:down"));
}

#[test]
fn a_primary_of_another_name_is_not_followed() {
    let authority = Authority::new();
    authority.certify("server", "server");
    let port = ReservedPort::take().unwrap();
    let number = port.number().to_string();
    let primary = start(OURS, &authority, &["--tls-port", &number]);
    ask(&primary, "SET k v");
    let options = ["--tls-replication", "yes", "--tls-expected-peer-name", "primary.example other.example"];
    let replica = start(OURS, &authority, &[&options[..], &["--replicaof", "127.0.0.1", &number]].concat());
    wait_until("the log says why", || replica.log().contains("invalid peer certificate: NotValidForName"));
    assert!(ask(&replica, "INFO replication").contains("master_link_status:down"));
    let mut client = Client::connect(replica.address()).unwrap();
    let reply =
        client.command(&["CONFIG", "SET", "tls-expected-peer-name", "other.example localhost"]).unwrap();
    assert_eq!(text(&reply), "OK");
    wait_until("the replica follows", || ask(&replica, "GET k") == "v");
}
