//! Clusters whose bus speaks TLS (`tls-cluster`): Martlet alone, Martlet with real servers, and refused
//! connections.

use std::fs;
use std::net::SocketAddr;

use martlet_client::address::Address;
use martlet_client::resp::{Reply, decode, encode_request};
use martlet_client::stream::Stream;
use martlet_testkit::server::ReservedPort;
use martlet_tls::{TlsOptions, TlsSettings};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::{
    Node, OURS, OWN_OPTIONS, PATIENCE, PEER, attach, expect_death, has_peer, take_over, told, until,
    until_known, until_up,
};

/// Files of an authority and of a certificate by it.
struct Certificates(tempfile::TempDir);

impl Certificates {
    fn new() -> Certificates {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority of the cluster");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["node".to_owned()]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let files = Certificates(directory);
        fs::write(files.path("ca.crt"), issuer.pem()).unwrap();
        fs::write(files.path("node.crt"), params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
        fs::write(files.path("node.key"), key.serialize_pem()).unwrap();
        files
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

/// A node with both ports, whose bus and links to its primary use TLS.
struct Secure {
    node: Node,
    tls: ReservedPort,
    options: TlsOptions,
}

impl Secure {
    fn start(program: &str, first: &[&str], files: &Certificates, more: &[&str]) -> Secure {
        let tls = ReservedPort::take().unwrap();
        let port = tls.number().to_string();
        let (certificate, key, ca) = (files.path("node.crt"), files.path("node.key"), files.path("ca.crt"));
        let mut all = vec!["--tls-cluster", "yes", "--tls-replication", "yes", "--tls-port", &port];
        all.extend(["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &ca]);
        all.extend(more);
        let node = Node::start(program, first, &all);
        let options = TlsOptions {
            ca_file: Some(ca.into()),
            certificate: Some(certificate.into()),
            key: Some(key.into()),
            any_name: true,
            ..TlsOptions::default()
        };
        Secure { node, tls, options }
    }

    fn ours(files: &Certificates) -> Secure {
        Secure::start(OURS, OWN_OPTIONS, files, &[])
    }

    fn real(files: &Certificates) -> Secure {
        Secure::start(PEER, &[], files, &[])
    }

    fn meet(&self, other: &Secure) {
        let (port, bus) = (other.tls.number().to_string(), other.node.bus.number().to_string());
        assert_eq!(self.node.ask(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]), "OK");
    }

    /// The answer to one request over TLS.
    fn ask_securely(&self, words: &[&str]) -> Reply {
        let address = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], self.tls.number())));
        let mut stream = Stream::connect(&address, Some(PATIENCE)).unwrap();
        stream.secure(&TlsSettings::new(&self.options, "127.0.0.1").unwrap()).unwrap();
        let (mut request, mut received) = (Vec::new(), Vec::new());
        encode_request(words, &mut request);
        stream.send(&request).unwrap();
        loop {
            if let Some((reply, _)) = decode(&received).unwrap() {
                return reply;
            }
            assert_ne!(stream.read_some(&mut received).unwrap(), 0);
        }
    }
}

fn form(nodes: &[&Secure]) {
    nodes.iter().skip(1).for_each(|node| nodes[0].meet(node));
    let part = 16_384 / nodes.len();
    for (index, node) in nodes.iter().enumerate() {
        let last = if index + 1 == nodes.len() { 16_383 } else { (index + 1) * part - 1 };
        let (first, last) = ((index * part).to_string(), last.to_string());
        assert_eq!(node.node.ask(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]), "OK");
    }
    let all: Vec<&Node> = nodes.iter().map(|node| &node.node).collect();
    until_up(&all);
}

#[test]
fn a_cluster_over_tls_moves_slots_and_fails_over() {
    let files = Certificates::new();
    let nodes = [Secure::ours(&files), Secure::ours(&files), Secure::ours(&files)];
    let [first, second, third] = &nodes;
    let replica = Secure::ours(&files);
    form(&[first, second, third]);
    // A client over TLS is sent to ports with TLS, others to plain ones.
    let moved = |port: u16| format!("-MOVED 12182 127.0.0.1:{port}");
    assert_eq!(first.node.ask(&["GET", "foo"]), moved(third.node.address().port()));
    assert_eq!(told(&first.ask_securely(&["GET", "foo"])), moved(third.tls.number()));
    let slots = told(&first.ask_securely(&["CLUSTER", "SLOTS"]));
    assert!(slots.contains(&format!("127.0.0.1 {} ", second.tls.number())), "{slots}");
    let listed = |node: &Secure, list: String| {
        list.lines().any(|line| line.contains(&format!("127.0.0.1:{}@", node.tls.number())))
    };
    assert!(listed(second, told(&first.ask_securely(&["CLUSTER", "NODES"]))));
    assert!(!listed(second, first.node.ask(&["CLUSTER", "NODES"])));

    // Slot 0 goes key by key, slot 1 at once.
    for number in 0..50 {
        let words = ["MSET", &format!("{{06S}}{number}"), "a", &format!("{{06S}}other{number}"), "b"];
        assert_eq!(first.node.ask(&words), "OK");
        assert_eq!(first.node.ask(&["SET", &format!("{{Qi}}{number}"), "c"]), "OK");
    }
    let id = second.node.id();
    assert_eq!(second.node.ask(&["CLUSTER", "SETSLOT", "0", "IMPORTING", &first.node.id()]), "OK");
    assert_eq!(first.node.ask(&["CLUSTER", "SETSLOT", "0", "MIGRATING", &id]), "OK");
    let names = first.node.ask(&["CLUSTER", "GETKEYSINSLOT", "0", "1000"]);
    let names: Vec<&str> = names.split(' ').collect();
    let migrate = |port: u16| {
        let port = port.to_string();
        let words = [&["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"][..], &names].concat();
        first.node.ask(&words)
    };
    assert!(migrate(second.node.address().port()).starts_with("-IOERR"), "MIGRATE went without TLS");
    assert_eq!(migrate(second.tls.number()), "OK");
    for node in [second, first] {
        assert_eq!(node.node.ask(&["CLUSTER", "SETSLOT", "0", "NODE", &id]), "OK");
    }
    assert_eq!(second.node.ask(&["CLUSTER", "COUNTKEYSINSLOT", "0"]), "100");
    let at_once = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", "1", "1", "NODE", &id];
    until("the slot is let go", || first.node.ask(&at_once) == "OK");
    until("the slot has moved", || second.node.ask(&["CLUSTER", "COUNTKEYSINSLOT", "1"]) == "50");
    until("it has been told so", || first.node.ask(&["CLUSTER", "GETSLOTMIGRATIONS"]).contains("success"));

    // A replica follows over TLS, and takes over by agreement and by votes.
    let all = [&first.node, &second.node, &third.node, &replica.node];
    second.meet(&replica);
    attach(&replica.node, &second.node);
    assert_eq!(replica.node.ask(&["CONFIG", "GET", "tls-replication"]), "tls-replication yes");
    take_over(&replica.node, &all);
    until("the primary follows", || second.node.ask(&["ROLE"]).starts_with("slave"));
    until("the link is up", || second.node.ask(&["INFO", "replication"]).contains("master_link_status:up"));
    until("it serves", || replica.node.ask(&["GET", "{Qi}7"]) == "c");
    until_known(&second.node, &[&first.node, &third.node, &replica.node]);
    expect_death(&all);
    drop(replica);
    until("it is a primary again", || second.node.ask(&["ROLE"]).starts_with("master"));
    until("it serves", || second.node.ask(&["GET", "{06S}7"]) == "a");
    until_up(&[&first.node, &second.node, &third.node]);
}

#[test]
fn nobody_joins_without_tls_or_by_another_authority() {
    let (files, others) = (Certificates::new(), Certificates::new());
    let (node, known) = (Secure::ours(&files), Secure::ours(&files));
    let strangers = [Secure::ours(&others).node, Node::ours(&[])];
    for stranger in &strangers {
        // Both ways.
        node.node.meet(stranger);
        stranger.meet(&node.node);
    }
    form(&[&node, &known]);
    // Those two have met since, no other pair has.
    let known_by = |node: &Node| {
        let list = node.ask(&["CLUSTER", "NODES"]);
        list.lines().filter(|line| !line.contains("handshake")).count()
    };
    until("the two know each other", || (known_by(&node.node), known_by(&known.node)) == (2, 2));
    strangers.iter().for_each(|stranger| assert_eq!(known_by(stranger), 1));
    // The log has the cause, and not ten times a second.
    let told = || {
        node.node
            .server
            .log()
            .matches("The TLS handshake with 127.0.0.1 on the cluster bus has failed")
            .count()
    };
    until("the log tells", || told() > 0);
    assert!(told() < 20, "{}", told());
}

/// A reset, or the alert of TLS; no timeout.
fn is_refusal(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionReset, InvalidData};
    matches!(error.kind(), ConnectionReset | InvalidData)
}

#[test]
fn certificates_are_asked_for_on_the_bus_whatever_clients_show() {
    let files = Certificates::new();
    let open = ["--tls-auth-clients", "no"];
    let node = Secure::start(OURS, OWN_OPTIONS, &files, &open);
    let other = Secure::ours(&files);
    let try_bus = |options: TlsOptions| {
        let address = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], node.node.bus.number())));
        let mut stream = Stream::connect(&address, Some(PATIENCE)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.secure(&TlsSettings::new(&options, "127.0.0.1").unwrap()).unwrap();
        // With TLS 1.3 a client is refused after its own end of the handshake.
        stream.read_some(&mut Vec::new())
    };
    let without = TlsOptions { certificate: None, key: None, ..node.options.clone() };
    // The connection is closed, with the reason or without.
    let told = try_bus(without);
    assert!(told.as_ref().map_or_else(is_refusal, |count| *count == 0), "{told:?}");
    form(&[&node, &other]);
}

#[test]
fn ours_and_real_ones_are_one_cluster_over_tls() {
    if !has_peer() {
        return;
    }
    let files = Certificates::new();
    let (ours, real, third) = (Secure::ours(&files), Secure::real(&files), Secure::ours(&files));
    let replica = Secure::ours(&files);
    form(&[&ours, &real, &third]);
    assert_eq!(real.node.ask(&["SET", "name", "1"]), "OK");
    assert_eq!(ours.node.ask(&["GET", "name"]), format!("-MOVED 5798 {}", real.node.address()));
    ours.meet(&replica);
    attach(&replica.node, &real.node);
    let all = [&ours.node, &real.node, &third.node, &replica.node];
    take_over(&replica.node, &all);
    until("the real one follows", || real.node.ask(&["ROLE"]).starts_with("slave"));
    until("the link is up", || real.node.ask(&["INFO", "replication"]).contains("master_link_status:up"));
    until("it serves", || replica.node.ask(&["GET", "name"]) == "1");
}
