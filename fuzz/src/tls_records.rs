//! Arbitrary bytes to the TLS adapter: whatever they are, only bytes that a client has encrypted after its
//! handshake reach the sink, whole records of it and in order.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use martlet_net::rustls::crypto::ring;
use martlet_net::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use martlet_net::rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};
use martlet_net::{Backend, Buffer, Sink, Tls, Token, Waker};

const TOKEN: Token = Token::new(0, 1);

/// A backend without sockets.
#[derive(Default)]
struct Memory {
    arrived: VecDeque<Vec<u8>>,
    sent: Vec<Buffer>,
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
        self.sent.push(buffer);
    }
    fn pause(&mut self, _: Token) {}
    fn resume(&mut self, _: Token) {}
    fn close(&mut self, _: Token) {}
    fn waker(&self) -> Waker {
        Waker::from_fn(|| {})
    }
    fn poll(&mut self, _: Option<Duration>, sink: &mut dyn Sink) -> io::Result<()> {
        for data in self.arrived.drain(..) {
            sink.received(TOKEN, &data);
        }
        Ok(())
    }
}

#[derive(Default)]
struct Record {
    received: Vec<u8>,
    ends: usize,
    is_secure: bool,
}

impl Sink for Record {
    fn accepted(&mut self, _: u32, _: OwnedFd) {}
    fn received(&mut self, _: Token, data: &[u8]) -> bool {
        assert!(self.is_secure && self.ends == 0 && !data.is_empty());
        self.received.extend_from_slice(data);
        true
    }
    fn sent(&mut self, _: Token, _: Buffer, _: io::Result<()>) {}
    fn closed(&mut self, _: Token, _: Option<io::Error>) {
        self.ends += 1;
    }
    fn secured(&mut self, _: Token, _: Option<&[u8]>) {
        assert!(!self.is_secure);
        self.is_secure = true;
    }
    fn woken(&mut self) {}
}

fn configs() -> &'static (Arc<ServerConfig>, Arc<ClientConfig>) {
    static CONFIGS: OnceLock<(Arc<ServerConfig>, Arc<ClientConfig>)> = OnceLock::new();
    CONFIGS.get_or_init(|| {
        let provider = Arc::new(ring::default_provider());
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
        let mut roots = RootCertStore::empty();
        roots.add(own.cert.der().clone()).expect("a root");
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .expect("a key");
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        (Arc::new(server), Arc::new(client))
    })
}

fn client() -> ClientConnection {
    let name = ServerName::try_from("localhost").expect("a name");
    ClientConnection::new(configs().1.clone(), name).expect("a client")
}

fn output(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).expect("memory");
    }
    bytes
}

/// A client's first flight, as a seed.
pub fn hello() -> Vec<u8> {
    output(&mut client())
}

fn poll(server: &mut Tls<Memory>, record: &mut Record) {
    server.poll(Some(Duration::ZERO), record).expect("memory");
}

/// Ends the handshake of an honest client.
fn shake_hands(server: &mut Tls<Memory>, record: &mut Record, client: &mut ClientConnection) {
    while client.is_handshaking() || !record.is_secure {
        server.inner_mut().arrived.push_back(output(client));
        poll(server, record);
        for buffer in std::mem::take(&mut server.inner_mut().sent) {
            let mut records = &buffer[..];
            while !records.is_empty() {
                client.read_tls(&mut records).expect("memory");
                client.process_new_packets().expect("an honest server");
            }
        }
    }
}

/// The first byte says which side speaks and the second how bytes are cut; then come the bytes.
pub fn check(data: &[u8]) {
    let [mode, cut, bytes @ ..] = data else { return };
    let mut server = Tls::new(Memory::default());
    let nothing = std::fs::File::open("/dev/null").expect("it is there");
    server.adopt_tls(nothing.into(), TOKEN, &configs().0).expect("memory");
    let mut record = Record::default();
    let mut honest = Vec::new();
    let mut stream = bytes.to_vec();
    if mode % 4 == 3 {
        let mut client = client();
        shake_hands(&mut server, &mut record, &mut client);
        if mode & 4 != 0 {
            // The client's encrypted bytes, with one bit inverted.
            honest = bytes.to_vec();
            for piece in bytes.chunks(usize::from(*cut) * 7 + 1) {
                client.writer().write_all(piece).expect("memory");
            }
            stream = output(&mut client);
            let place = usize::from(mode >> 3) * 37 + usize::from(*cut);
            if let Some(byte) = stream.get_mut(place) {
                *byte ^= 1 << (mode >> 5);
            }
        }
    }
    server.inner_mut().arrived.extend(stream.chunks(usize::from(*cut) + 1).map(<[u8]>::to_vec));
    poll(&mut server, &mut record);
    assert!(honest.starts_with(&record.received), "more than a client has sent");
    assert!(record.ends <= 1);
    server.send(TOKEN, b"+OK\r\n".to_vec().into());
    poll(&mut server, &mut record);
    server.close(TOKEN);
    poll(&mut server, &mut record);
}
