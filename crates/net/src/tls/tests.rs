//! The adapter against rustls' client: over a backend in memory that cuts records anywhere, and over the real
//! ones.

use std::io::{Read, Write};
use std::net::TcpStream;

use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::*;
use crate::{Kind, listen_tcp};

/// The configuration of a server and its clients: an authority, and a certificate of it for each.
struct Keys {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

fn keys() -> Keys {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let certify = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::OrganizationName, "Birds");
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names.push(SanType::URI(format!("spiffe://nest/{name}").try_into().unwrap()));
        let certificate = params.signed_by(&key, &authority).unwrap().der().clone();
        (vec![certificate], PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der())))
    };
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let roots = Arc::new(roots);
    let (chain, key) = certify("server");
    let verifier =
        rustls::server::WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.allow_unauthenticated().build().unwrap())
        .with_single_cert(chain, key)
        .unwrap();
    let (chain, key) = certify("alice");
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .unwrap();
    Keys { server: Arc::new(server), client: Arc::new(client) }
}

/// A backend without sockets: output is kept, and the test supplies the input.
#[derive(Default)]
struct Memory {
    arrived: VecDeque<Vec<u8>>,
    /// Sent, and taken by the peer in `read`.
    sent: VecDeque<Buffer>,
    /// Taken by the peer, to be reported.
    done: Vec<Buffer>,
    last_words: Vec<u8>,
    last_timeout: Option<Duration>,
}

impl Backend for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }
    fn listen(&mut self, _: OwnedFd, _: u32) -> io::Result<()> {
        Ok(())
    }
    fn unlisten(&mut self, _: u32) {}
    fn adopt(&mut self, _: OwnedFd, _: Token) -> io::Result<()> {
        Ok(())
    }
    fn send(&mut self, _: Token, buffer: Buffer) {
        self.sent.push_back(buffer);
    }
    fn farewell(&mut self, _: Token, bytes: &[u8]) {
        self.last_words.extend_from_slice(bytes);
    }
    fn pause(&mut self, _: Token) {}
    fn resume(&mut self, _: Token) {}
    fn close(&mut self, _: Token) {}
    fn waker(&self) -> Waker {
        unreachable!("nobody sleeps")
    }
    fn poll(&mut self, timeout: Option<Duration>, sink: &mut dyn Sink) -> io::Result<()> {
        self.last_timeout = timeout;
        for buffer in self.done.drain(..) {
            sink.sent(TOKEN, buffer, Ok(()));
        }
        for data in self.arrived.drain(..) {
            sink.received(TOKEN, &data);
        }
        Ok(())
    }
}

const TOKEN: Token = Token::new(3, 7);

#[derive(Default)]
struct Recorder {
    accepted: Vec<OwnedFd>,
    received: Vec<u8>,
    sent: Vec<Vec<u8>>,
    closed: Vec<Option<io::ErrorKind>>,
    names: Vec<Option<Vec<u8>>>,
    uris: Vec<Option<Vec<u8>>>,
}

impl Sink for Recorder {
    fn accepted(&mut self, _: u32, socket: OwnedFd) {
        self.accepted.push(socket);
    }
    fn received(&mut self, token: Token, data: &[u8]) -> bool {
        assert_eq!(token, TOKEN);
        assert!(!data.is_empty() && self.names.len() == 1 && self.closed.is_empty());
        self.received.extend_from_slice(data);
        true
    }
    fn sent(&mut self, _: Token, buffer: Buffer, result: io::Result<()>) {
        result.unwrap();
        self.sent.push(buffer.to_vec());
    }
    fn closed(&mut self, _: Token, reason: Option<io::Error>) {
        self.closed.push(reason.map(|reason| reason.kind()));
    }
    fn secured(&mut self, _: Token, certificate: Option<&[u8]>) {
        self.names.push(certificate.and_then(common_name));
        self.uris.push(certificate.and_then(alternative_uri));
    }
    fn woken(&mut self) {}
}

/// Any descriptor: the backend in memory drops it.
fn descriptor() -> OwnedFd {
    std::fs::File::open("/dev/null").unwrap().into()
}

fn client(keys: &Keys) -> ClientConnection {
    ClientConnection::new(keys.client.clone(), ServerName::try_from("localhost").unwrap()).unwrap()
}

/// A server and its peer, both in memory.
struct Pair {
    server: Tls<Memory>,
    recorder: Recorder,
    client: ClientConnection,
    replies: Vec<u8>,
}

impl Pair {
    fn new(keys: &Keys) -> Pair {
        let mut server = Tls::new(Memory::default());
        server.adopt_tls(descriptor(), TOKEN, &keys.server).unwrap();
        Pair { server, recorder: Recorder::default(), client: client(keys), replies: Vec::new() }
    }

    /// Lets the client's bytes arrive in pieces of `cut` bytes, and the server's at the client.
    fn turn(&mut self, cut: usize) {
        let mut bytes = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut bytes).unwrap();
        }
        self.server.inner.arrived.extend(bytes.chunks(cut).map(<[u8]>::to_vec));
        self.server.poll(Some(Duration::ZERO), &mut self.recorder).unwrap();
        assert!(self.server.inner.sent.iter().map(|buffer| buffer.len()).sum::<usize>() < 2 * AHEAD_BYTES);
        while let Some(buffer) = self.server.inner.sent.pop_front() {
            let mut records = &buffer[..];
            while !records.is_empty() {
                self.client.read_tls(&mut records).unwrap();
                let state = self.client.process_new_packets().unwrap();
                let start = self.replies.len();
                self.replies.resize(start + state.plaintext_bytes_to_read(), 0);
                self.client.reader().read_exact(&mut self.replies[start..]).unwrap();
            }
            self.server.inner.done.push(buffer);
        }
    }

    fn is_secure(&self) -> bool {
        !self.client.is_handshaking() && !self.recorder.names.is_empty()
    }

    fn shake_hands(&mut self, cut: usize) {
        while !self.is_secure() {
            self.turn(cut);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn bytes_arrive_whole_however_records_are_cut(
        cut in 1usize..5000,
        requests in proptest::collection::vec(1usize..40_000, 1..5),
        replies in proptest::collection::vec(1usize..900_000, 1..5),
    ) {
        let keys = keys();
        let mut pair = Pair::new(&keys);
        pair.shake_hands(cut);
        prop_assert_eq!(&pair.recorder.names, &[Some(b"alice".to_vec())]);
        prop_assert_eq!(&pair.recorder.uris, &[Some(b"spiffe://nest/alice".to_vec())]);
        let bytes = |length: usize, salt: usize| (0..length).map(|i| (i * 7 + salt) as u8).collect::<Vec<_>>();
        let requests: Vec<_> = requests.iter().enumerate().map(|(salt, length)| bytes(*length, salt)).collect();
        let replies: Vec<_> = replies.iter().enumerate().map(|(salt, length)| bytes(*length, salt)).collect();
        for reply in &replies {
            pair.server.send(TOKEN, reply.clone().into());
        }
        for request in &requests {
            pair.client.writer().write_all(request).unwrap();
            pair.turn(cut);
        }
        let expected = replies.concat();
        while pair.recorder.sent.len() < replies.len() {
            // The rest of a long reply does not wait for an event.
            pair.turn(cut);
            prop_assert_eq!(pair.server.inner.last_timeout, Some(Duration::ZERO));
        }
        prop_assert!(pair.recorder.received == requests.concat());
        prop_assert!(pair.recorder.sent == replies && pair.replies == expected);
    }

    #[test]
    fn garbage_ends_the_connection_and_no_other(garbage in proptest::collection::vec(any::<u8>(), 1..600)) {
        let keys = keys();
        let mut pair = Pair::new(&keys);
        pair.server.inner.arrived.push_back(garbage);
        pair.server.poll(None, &mut pair.recorder).unwrap();
        // Either it waits for the rest of a record, no longer than a handshake may take, or it has ended.
        pair.turn(9);
        prop_assert!(pair.recorder.names.is_empty() && pair.recorder.received.is_empty());
        prop_assert!(pair.recorder.closed.len() <= 1);
        pair.server.close(TOKEN);
    }
}

#[test]
fn what_is_not_tls_is_told_and_ended() {
    let keys = keys();
    let mut pair = Pair::new(&keys);
    pair.server.inner.arrived.push_back(b"GET / HTTP/1.1\r\n\r\n".to_vec());
    pair.server.poll(None, &mut pair.recorder).unwrap();
    assert_eq!(pair.recorder.closed, [Some(io::ErrorKind::InvalidData)]);
    // An alert, fatal.
    assert_eq!(pair.server.inner.last_words.get(..1), Some(&[21][..]));
    assert!(pair.recorder.names.is_empty());
    // Later buffers come back unsent.
    pair.server.close(TOKEN);
    assert_eq!(pair.server.sessions.live, 0);
}

#[test]
fn the_time_of_a_handshake_runs_out() {
    let keys = keys();
    let mut pair = Pair::new(&keys);
    let now = martlet_base::clock::monotonic();
    assert!(pair.server.sessions.expire(now, &mut pair.recorder).is_some_and(|rest| rest <= HANDSHAKE_LIMIT));
    assert!(pair.recorder.closed.is_empty());
    assert_eq!(pair.server.sessions.expire(now + 2 * HANDSHAKE_LIMIT, &mut pair.recorder), None);
    assert_eq!(pair.recorder.closed, [Some(io::ErrorKind::TimedOut)]);
    // One that is done has all the time it wants.
    let mut pair = Pair::new(&keys);
    pair.shake_hands(1000);
    assert_eq!(pair.server.sessions.expire(now + 2 * HANDSHAKE_LIMIT, &mut pair.recorder), None);
    assert!(pair.recorder.closed.is_empty());
}

#[test]
fn both_ends_say_goodbye() {
    let keys = keys();
    let mut pair = Pair::new(&keys);
    pair.shake_hands(1000);
    pair.turn(1000);
    pair.client.send_close_notify();
    pair.turn(1000);
    assert_eq!(pair.recorder.closed, [None]);
    pair.server.close(TOKEN);
    let mut notify = &pair.server.inner.last_words[..];
    pair.client.read_tls(&mut notify).unwrap();
    assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
}

#[test]
fn common_names_are_found_or_not() {
    assert_eq!(common_name(b""), None);
    assert_eq!(common_name(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    assert_eq!(common_name(&[0x30, 0x89]), None);
}

/// A client on a separate thread talks to a real backend.
fn serve(kind: Kind) {
    const BYTES: usize = 5_000_000;
    let keys = keys();
    let mut backend = kind.open().unwrap();
    let listener = listen_tcp("127.0.0.1:0".parse().unwrap(), 16).unwrap();
    let address = std::net::TcpListener::from(listener.try_clone().unwrap()).local_addr().unwrap();
    backend.listen(listener, 5).unwrap();
    let mut stream = StreamOwned::new(client(&keys), TcpStream::connect(address).unwrap());
    let peer = std::thread::spawn(move || {
        let request: Vec<u8> = (0..BYTES).map(|i| (i % 251) as u8).collect();
        stream.write_all(&request).unwrap();
        let mut reply = vec![0; BYTES];
        stream.read_exact(&mut reply).unwrap();
        assert!(reply == request);
        // The end is TLS' own: without it rustls says `UnexpectedEof`.
        assert_eq!(stream.read(&mut reply).unwrap(), 0);
    });
    let mut recorder = Recorder::default();
    while recorder.received.len() < BYTES {
        backend.poll(None, &mut recorder).unwrap();
        if let Some(socket) = recorder.accepted.pop() {
            backend.adopt_tls(socket, TOKEN, &keys.server).unwrap();
        }
    }
    backend.send(TOKEN, recorder.received.clone().into());
    while recorder.sent.is_empty() {
        backend.poll(None, &mut recorder).unwrap();
    }
    backend.close(TOKEN);
    backend.poll(Some(Duration::ZERO), &mut recorder).unwrap();
    peer.join().unwrap();
}

#[test]
fn epoll_speaks_tls() {
    serve(Kind::Epoll);
}

#[test]
fn io_uring_speaks_tls() {
    if crate::probe().is_ok() {
        serve(Kind::Uring);
    }
}
