//! Round trips, the packets of real servers to the byte, and refused ones.

use super::*;
use proptest::prelude::*;

const CAPTURES: [&str; 3] = [
    include_str!("../../testdata/valkey91.packets"),
    include_str!("../../testdata/redis82.packets"),
    include_str!("../../testdata/redis70.packets"),
];

/// The packets of a file of captures.
fn captured(file: &str) -> Vec<(String, Vec<u8>)> {
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split(' ');
            let name = words.next().unwrap().to_owned();
            let mut bytes = Vec::new();
            for word in words {
                match (word.strip_prefix('Z'), word.strip_prefix('F')) {
                    (Some(run), _) => bytes.resize(bytes.len() + run.parse::<usize>().unwrap(), 0),
                    (_, Some(run)) => bytes.resize(bytes.len() + run.parse::<usize>().unwrap(), 0xff),
                    _ => bytes.extend(
                        (0..word.len())
                            .step_by(2)
                            .map(|at| u8::from_str_radix(&word[at..at + 2], 16).unwrap()),
                    ),
                }
            }
            (name, bytes)
        })
        .collect()
}

#[test]
fn what_real_servers_send_is_read_and_written_to_the_byte() {
    let mut count = 0;
    for (name, bytes) in CAPTURES.iter().flat_map(|file| captured(file)) {
        let packet = Packet::decode(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(packet.encode(), bytes, "{name}");
        assert!(name.trim_start_matches("light-").starts_with(packet.kind().name()), "{name}");
        count += 1;
    }
    assert_eq!(count, 18);
}

#[test]
fn every_extension_of_valkey_9_is_understood() {
    let (_, bytes) = captured(CAPTURES[0]).into_iter().find(|(name, _)| name.ends_with("_8")).unwrap();
    let Ok(Packet::Full(header, Body::Ping { extensions, gossip, .. })) = Packet::decode(&bytes) else {
        panic!("no ping");
    };
    assert!(header.knows_extensions && header.flags.has(NodeFlags::LIGHT_HEADER) && gossip.len() == 1);
    let text = format!("{extensions:?}");
    for part in [
        r#"HostName("host-1.example.com"), NodeName("node-1"), ClientIpv4("10.0.0.1"), ClientIpv6("::2")"#,
        r#"ClientPort(7001), ClientTlsPort(7101), AvailabilityZone("zone-1"), Forgotten("#,
        ", 60), ShardId(",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn the_secret_that_redis_8_sends_is_no_address() {
    let (_, bytes) = captured(CAPTURES[1]).into_iter().find(|(name, _)| name.ends_with("_4")).unwrap();
    let Ok(Packet::Full(_, Body::Ping { extensions, .. })) = Packet::decode(&bytes) else {
        panic!("no ping")
    };
    assert!(extensions.iter().any(|extension| matches!(extension, Extension::Secret(_))));
}

#[test]
fn a_packet_that_is_cut_or_lengthened_is_refused() {
    for (name, bytes) in CAPTURES.iter().flat_map(|file| captured(file)) {
        for length in (0..bytes.len()).step_by(7).chain([bytes.len() - 1]) {
            let mut cut = bytes[..length].to_vec();
            assert!(Packet::decode(&cut).is_err(), "{name}: {length}");
            if length >= 8 {
                cut[4..8].copy_from_slice(&(length as u32).to_be_bytes());
                assert!(Packet::decode(&cut).is_err(), "{name}: {length}, as it says");
            }
        }
        let mut long = [&bytes[..], &[0; 8]].concat();
        assert_eq!(Packet::decode(&long), Err(PacketError::Length), "{name}");
        let length = long.len() as u32;
        long[4..8].copy_from_slice(&length.to_be_bytes());
        assert!(Packet::decode(&long).is_err(), "{name}");
    }
}

#[test]
fn each_fault_has_its_error() {
    let (_, ping) = captured(CAPTURES[0]).into_iter().find(|(name, _)| name == "ping").unwrap();
    let (_, light) = captured(CAPTURES[0]).into_iter().find(|(name, _)| name == "light-publish").unwrap();
    let (_, rich) = captured(CAPTURES[0]).into_iter().find(|(name, _)| name.ends_with("_8")).unwrap();
    let faults: [(&[u8], usize, u8, PacketError); 11] = [
        (&ping, 0, b'r', PacketError::Signature),
        (&ping, 9, 2, PacketError::Version(2)),
        (&ping, 13, 11, PacketError::Kind(11)),
        (&ping, 40, b'A', PacketError::Id),
        (&ping, 2128, b'a', PacketError::Id),
        (&ping, 2168, b' ', PacketError::Text),
        (&ping, HEADER_BYTES, b'A', PacketError::Id),
        (&ping, HEADER_BYTES + 48, b'\n', PacketError::Text),
        (&light, 13, 0, PacketError::Light(Kind::Ping)),
        (&rich, HEADER_BYTES + GOSSIP_BYTES + 3, 7, PacketError::Extension),
        (&rich, HEADER_BYTES + GOSSIP_BYTES, 7, PacketError::Extension),
    ];
    for (bytes, at, byte, error) in faults {
        let mut bytes = bytes.to_vec();
        bytes[at] = byte;
        assert_eq!(Packet::decode(&bytes), Err(error), "byte {at}");
    }
}

fn ids() -> impl Strategy<Value = NodeId> {
    proptest::string::string_regex("[0-9a-z]{40}")
        .unwrap()
        .prop_map(|id| NodeId::parse(id.as_bytes()).unwrap())
}

fn sets() -> impl Strategy<Value = SlotSet> {
    proptest::collection::vec(0..crate::slots::SLOTS, 0..20).prop_map(SlotSet::from_iter)
}

fn headers() -> impl Strategy<Value = Header> {
    let numbers = (any::<[u16; 3]>(), any::<[u64; 3]>(), any::<[bool; 5]>(), any::<u16>());
    (numbers, ids(), sets(), proptest::option::of(ids()), "[0-9a-f.:]{0,45}").prop_map(
        |((ports, epochs, bits, flags), sender, slots, primary, address)| Header {
            sender,
            port: ports[0],
            other_port: ports[1],
            bus_port: ports[2],
            current_epoch: epochs[0],
            config_epoch: epochs[1],
            offset: epochs[2],
            slots,
            primary,
            address,
            flags: NodeFlags(flags),
            is_down: bits[0],
            is_paused: bits[1],
            forces_vote: bits[2],
            knows_extensions: bits[3],
            is_martlet: bits[4],
        },
    )
}

fn gossips() -> impl Strategy<Value = Gossip> {
    (ids(), any::<[u32; 2]>(), any::<[u16; 4]>(), "[0-9a-f.:]{0,45}").prop_map(
        |(node, times, numbers, address)| Gossip {
            node,
            ping_sent_s: times[0],
            pong_received_s: times[1],
            address,
            port: numbers[0],
            other_port: numbers[1],
            bus_port: numbers[2],
            flags: NodeFlags(numbers[3]),
        },
    )
}

fn extensions() -> impl Strategy<Value = Extension> {
    prop_oneof![
        "[a-z.-]{0,255}".prop_map(Extension::HostName),
        "[a-z:/_-]{0,30}".prop_map(Extension::NodeName),
        (ids(), any::<u64>()).prop_map(|(node, seconds)| Extension::Forgotten(node, seconds)),
        ids().prop_map(Extension::ShardId),
        any::<std::net::Ipv4Addr>().prop_map(|ip| Extension::ClientIpv4(ip.to_string())),
        any::<std::net::Ipv6Addr>().prop_map(|ip| Extension::ClientIpv6(ip.to_string())),
        any::<u16>().prop_map(Extension::ClientPort),
        any::<u16>().prop_map(Extension::ClientTlsPort),
        "[a-z-]{0,30}".prop_map(Extension::AvailabilityZone),
        (9u16.., proptest::collection::vec(any::<[u8; 8]>(), 0..4))
            .prop_map(|(number, value)| Extension::Other(number, value.concat())),
    ]
}

fn published() -> impl Strategy<Value = Published> {
    (any::<Vec<u8>>(), any::<Vec<u8>>(), any::<bool>()).prop_map(|(channel, message, is_sharded)| Published {
        channel,
        message,
        is_sharded,
    })
}

fn packets() -> impl Strategy<Value = Packet> {
    let kinds = prop_oneof![Just(PingKind::Ping), Just(PingKind::Pong), Just(PingKind::Meet)];
    let pings =
        (kinds, proptest::collection::vec(gossips(), 0..4), proptest::collection::vec(extensions(), 0..6));
    let bodies = prop_oneof![
        pings.prop_map(|(kind, gossip, extensions)| Body::Ping { kind, gossip, extensions }),
        ids().prop_map(Body::Fail),
        published().prop_map(Body::Publish),
        Just(Body::VoteRequest),
        Just(Body::Vote),
        (ids(), any::<u64>(), sets()).prop_map(|(node, config_epoch, slots)| Body::Update {
            node,
            config_epoch,
            slots
        }),
        Just(Body::ManualFailover),
        Just(Body::Module),
    ];
    let full = (headers(), bodies).prop_map(|(mut header, body)| {
        if matches!(&body, Body::Ping { extensions, .. } if !extensions.is_empty()) {
            header.knows_extensions = true;
        }
        Packet::Full(Box::new(header), body)
    });
    prop_oneof![3 => full, 1 => published().prop_map(Packet::Light)]
}

proptest! {
    #[test]
    fn packets_are_read_as_they_were_written(packet in packets()) {
        let bytes = packet.encode();
        prop_assert_eq!(u32::from_be_bytes(bytes[4..8].try_into().unwrap()) as usize, bytes.len());
        prop_assert_eq!(Packet::decode(&bytes), Ok(packet));
    }

    #[test]
    fn a_stream_in_any_pieces_gives_the_same_packets(
        packets in proptest::collection::vec(packets(), 1..4),
        piece in 1usize..3000,
    ) {
        let stream = packets.iter().flat_map(Packet::encode).collect::<Vec<u8>>();
        let (mut frames, mut read) = (Frames::default(), Vec::new());
        for piece in stream.chunks(piece) {
            frames.push(piece);
            while let Some(packet) = frames.next_packet().unwrap() {
                read.push(Packet::decode(packet).unwrap());
            }
        }
        prop_assert_eq!(read, packets);
    }

    #[test]
    fn changed_bytes_are_read_alike_or_refused(packet in packets(), at: u16, byte: u8) {
        let mut bytes = packet.encode();
        let at = usize::from(at) % bytes.len();
        bytes[at] = byte;
        if let Ok(packet) = Packet::decode(&bytes) {
            prop_assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
        }
    }
}

#[test]
fn a_stream_that_is_none_is_refused_at_once() {
    let mut frames = Frames::default();
    frames.push(b"RC");
    assert_eq!(frames.next_packet(), Ok(None));
    frames.push(b"GET");
    assert_eq!(frames.next_packet(), Err(FrameError::Signature));
    for (length, kind) in [(15u32, 0x8004u16), (2255, 0), (u32::MAX, 4), (0, 0)] {
        let mut frames = Frames::default();
        frames.push(&[&b"RCmb"[..], &length.to_be_bytes(), &[0, 1, 0, 0], &kind.to_be_bytes()].concat());
        assert_eq!(frames.next_packet(), Err(FrameError::Length), "{length} {kind}");
    }
}
