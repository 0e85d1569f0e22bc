//! Values go round, payloads of real servers are read, damage is refused.

use martlet_types::array::{Array, ArrayLimits, INDEX_MAX};
use martlet_types::element::Element;
use martlet_types::hash::{FieldExpiry, Hash, HashLimits};
use martlet_types::list::{End, List};
use martlet_types::set::{NO_EXPIRY, Set, SetLimits};
use martlet_types::stream::{Group, Id, Pending, Stream, StreamLimits};
use martlet_types::zset::{ZSet, ZSetLimits};
use proptest::prelude::*;

use martlet_keyspace::Value;
use martlet_rdb::crc64::crc64;
use martlet_rdb::input::{FileInput, Input};

use crate::payload::{self, Refused};
use crate::{Error, Limits, ValueType};

/// A value's type, encoding and content: elements in order for lists and sorted sets, sorted for others.
fn show(value: &Value) -> (&'static str, Vec<String>) {
    let text = |element: Element<'_>| element.to_vec().escape_ascii().to_string();
    let (encoding, mut lines): (_, Vec<String>) = match value {
        Value::Int(int) => return ("string", vec![int.to_string()]),
        Value::Str { bytes, .. } => return ("string", vec![bytes.escape_ascii().to_string()]),
        Value::Module(value) => return ("module", vec![format!("{value:?}")]),
        Value::List(list) => return (list.encoding(), list.iter().map(text).collect()),
        Value::ZSet(zset) => {
            // A packed sorted set keeps no sign of zero, as in Redis.
            let entries = zset.iter().map(|entry| format!("{} {:?}", text(entry.member), entry.score + 0.0));
            return (zset.encoding(), entries.collect());
        }
        Value::Stream(stream) => return ("stream", vec![format!("{stream:?}")]),
        Value::Array(array) => return ("array", vec![format!("{array:?}")]),
        Value::PathHash(tree) => {
            let (mut paths, mut lines) = (tree.paths(), Vec::new());
            while let Some((path, hash)) = paths.next() {
                let fields = hash.iter().map(|field| format!("{}={}", text(field.name), text(field.value)));
                lines.push(format!("{} {:?}", path.escape_ascii(), fields.collect::<Vec<_>>()));
            }
            return ("pathhash", lines);
        }
        Value::Set(set) => {
            let line = |member: martlet_types::set::Member<'_>| match member.expire_at_ms {
                NO_EXPIRY => text(member.element),
                at_ms => format!("{} {at_ms}", text(member.element)),
            };
            (set.encoding(), set.iter().map(line).collect())
        }
        Value::Hash(hash) => {
            let line = |field: martlet_types::hash::Field<'_>| {
                format!("{}={} {}", text(field.name), text(field.value), field.expire_at_ms)
            };
            (hash.encoding(), hash.iter().map(line).collect())
        }
    };
    lines.sort();
    (encoding, lines)
}

fn restore(payload: &[u8]) -> Result<Value, Refused> {
    payload::restore(payload, &Limits::default())
}

/// A payload of type byte and value, with version and checksum.
fn seal(body: &[u8], version: u16) -> Vec<u8> {
    let mut payload = [body, &version.to_le_bytes()].concat();
    let sum = crc64(0, &payload);
    payload.extend(sum.to_le_bytes());
    payload
}

fn goes_round(value: &Value) -> Result<(), TestCaseError> {
    for compress in [false, true] {
        let payload = payload::dump(value.view(), compress);
        prop_assert_eq!(payload.len() - 11, crate::encoded_len(value.view(), payload::dump_form(compress)));
        let back = restore(&payload).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(show(&back), show(value));
    }
    // Valkey's does not hold what streams have since Redis 8.6.
    let lowest = value.view().lowest_version();
    let version = if lowest > crate::VERSION_TIMED { lowest } else { crate::VERSION_VALKEY };
    let form = crate::Form { version, compress: true };
    let byte = crate::encoded_byte(value.view(), form.version);
    let value_type = ValueType::from_byte(byte, form.version).unwrap();
    let (mut bytes, limits) = (Vec::new(), Limits::default());
    crate::write_value(&mut bytes, value.view(), form);
    let mut rest = bytes.as_slice();
    let back = value_type.read_slice(&mut rest, form.version, &limits);
    prop_assert!(rest.is_empty() && show(&back.unwrap()).1 == show(value).1, "{byte}");
    let mut file = FileInput::new(bytes.as_slice(), bytes.len() as u64, false);
    let back = value_type.read(&mut file, form.version, &limits);
    prop_assert!(file.remaining() == 0 && show(&back.unwrap()).1 == show(value).1, "{byte}");
    let mut rest = bytes.as_slice();
    prop_assert!(value_type.skip(&mut rest, form.version).is_ok() && rest.is_empty());
    Ok(())
}

/// This many entries are added together as they are read.
#[test]
fn large_collections_go_round() {
    const ENTRIES: usize = 10_001;
    // One text in a thousand exceeds the limit of a joint insertion.
    let text =
        |i: usize| if i % 1000 == 7 { format!("{i:020000}") } else { format!("{}", i * i) }.into_bytes();
    let (mut set, mut zset, mut hash) = (Set::new_hashtable(), ZSet::new(), Hash::new());
    for i in 0..ENTRIES {
        set.add(Element::parse(&text(i)), SetLimits::default(), 0);
        zset.insert(&text(i), i as f64 / 3.0, ZSetLimits::default());
        hash.set(&text(i), Element::parse(&text(i + 1)), FieldExpiry::Clear, HashLimits::default(), 0);
    }
    let mut timed = hash.clone();
    (0..ENTRIES).step_by(3).for_each(|i| {
        timed.set_expiry(&text(i), 1 << 40 | i as i64);
    });
    let mut members = set.clone();
    (0..ENTRIES).step_by(3).for_each(|i| {
        members.set_expiry(Element::parse(&text(i)), 1 << 40 | i as i64, SetLimits::default());
    });
    let hashes = [Value::Hash(hash), Value::Hash(timed)];
    for value in [Value::Set(set), Value::Set(members), Value::ZSet(zset)].into_iter().chain(hashes) {
        goes_round(&value).unwrap();
    }
}

#[test]
fn a_member_that_comes_twice_in_a_large_set_is_refused() {
    let member = |i: usize| blob(format!("member {i}").as_bytes());
    let payload = |last: usize| {
        let members = (0..5000).chain([last]).flat_map(member);
        let count = [0x80].into_iter().chain(5001u32.to_be_bytes());
        seal(&[2].into_iter().chain(count).chain(members).collect::<Vec<u8>>(), 11)
    };
    assert!(restore(&payload(5000)).is_ok());
    for repeated in [0, 4990, 4999] {
        assert!(restore(&payload(repeated)).is_err(), "{repeated}");
    }
}

/// Texts of every length class, and integers of every width.
fn element() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..20),
        1 => prop::collection::vec(any::<u8>(), 60..70),
        1 => (any::<u8>(), prop_oneof![Just(4095usize), Just(4096), 100..9000usize]).prop_map(|(b, n)| vec![b; n]),
        3 => (any::<i64>(), 0u32..64).prop_map(|(int, shift)| (int >> shift).to_string().into_bytes()),
    ]
}

fn elements(most: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop_oneof![prop::collection::vec(element(), 1..20), prop::collection::vec(element(), 1..most)]
}

#[test]
fn a_wrong_checksum_is_refused_and_may_be_looked_over() {
    for (_, payload) in golden() {
        let mut wrong = payload.to_vec();
        *wrong.last_mut().unwrap() ^= 1;
        assert_eq!(restore(&wrong).err(), Some(Refused::Footer));
        assert!(payload::restore_unsummed(&wrong, &Limits::default()).is_ok());
    }
    for short in [&b""[..], b"\x00", &[0; 9]] {
        assert_eq!(restore(short).err(), Some(Refused::Footer));
        assert_eq!(payload::restore_unsummed(short, &Limits::default()).err(), Some(Refused::Footer));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn strings_go_round(bytes in element()) {
        goes_round(&Value::from_vec(bytes))?;
    }

    #[test]
    fn lists_go_round(elements in elements(300)) {
        let mut list = List::new();
        elements.iter().for_each(|element| list.push(End::Tail, element));
        list.after_building(Limits::default().list);
        goes_round(&Value::List(list))?;
    }

    #[test]
    fn lists_are_read_however_they_are_cut_into_nodes(
        nodes in prop::collection::vec((elements(300), any::<bool>()), 1..6),
    ) {
        let long = |len: usize| [&[0x80][..], &(len as u32).to_be_bytes()].concat();
        let mut body = vec![18];
        let count: usize = nodes.iter().map(|(node, plain)| if *plain { node.len() } else { 1 }).sum();
        body.extend(long(count));
        for (node, plain) in &nodes {
            for texts in node.chunks(if *plain { 1 } else { node.len() }) {
                let mut packed = martlet_rdb::listpack::Writer::new();
                texts.iter().for_each(|text| packed.push(Element::parse(text)));
                // An empty string cannot be a plain node.
                let (container, bytes) = match texts {
                    [text] if *plain && !text.is_empty() => (1, text.clone()),
                    _ => (2, packed.finish(<[u8]>::to_vec)),
                };
                body.push(container);
                body.extend(long(bytes.len()));
                body.extend(bytes);
            }
        }
        let texts = nodes.iter().flat_map(|(node, _)| node);
        let lines: Vec<String> = texts.map(|text| text.escape_ascii().to_string()).collect();
        let value = restore(&seal(&body, 11)).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(show(&value).1, lines);
        goes_round(&value)?;
    }

    #[test]
    fn sets_go_round(members in elements(300), ints in prop::collection::vec((any::<i64>(), 0u32..64), 1..40)) {
        for only_ints in [false, true] {
            let mut set = Set::new();
            for (int, shift) in &ints {
                set.add(Element::Int(int >> shift), SetLimits::default(), 0);
            }
            for member in members.iter().filter(|_| !only_ints) {
                set.add(Element::parse(member), SetLimits::default(), 0);
            }
            goes_round(&Value::Set(set))?;
        }
    }

    #[test]
    fn streams_go_round(
        entries in prop::collection::vec((0..5_u64, any::<u16>(), elements(6)), 0..60),
        deleted in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        pending in prop::collection::vec((any::<u16>(), 0..3_u8, any::<i64>()), 0..40),
        released: bool,
        named in prop::collection::vec((0..3_u8, "[a-d]{1,3}", any::<u64>()), 0..20),
    ) {
        let mut stream = Stream::new();
        let limits = StreamLimits { node_max_bytes: 4096, node_max_entries: 7 };
        let mut ids: Vec<Id> = Vec::new();
        for (ms, seq, texts) in &entries {
            let last = stream.log().last_id();
            let seq = u64::from(*seq);
            let id = if *ms == 0 { last.next().unwrap() } else { Id { ms: last.ms + ms, seq } };
            let fields: Vec<_> = texts.iter().map(|text| (Element::Bytes(b"n"), Element::Bytes(text))).collect();
            stream.log_mut().append(id, fields.into_iter(), limits);
            ids.push(id);
        }
        for at in deleted.iter().filter(|_| !ids.is_empty()) {
            stream.log_mut().delete(ids[at.index(ids.len())]);
        }
        for (name, entries_read) in [("one", None), ("two", Some(3)), ("three", Some(0))] {
            stream.add_group(name.as_bytes(), Group::new(stream.log().last_id(), entries_read));
        }
        for (seq, consumer, delivered_ms) in pending {
            stream.expect_released();
            let (_, group) = stream.group_mut(b"two").unwrap();
            let consumer = group.add_consumer(&[consumer], delivered_ms);
            let pending = Pending { consumer: Some(consumer), delivered_ms, deliveries: u64::from(seq) << 20 };
            group.set_pending(Id { ms: 1, seq: u64::from(seq) }, pending);
            let consumer = group.consumer_mut(consumer).unwrap();
            // Only the newest form distinguishes them.
            consumer.active_ms = consumer.seen_ms;
            if released && seq % 3 == 0 {
                let pending = Pending { consumer: None, delivered_ms: 0, deliveries: u64::from(seq) };
                group.set_pending(Id { ms: 1, seq: u64::from(seq) }, pending);
            }
        }
        for (producer, name, ms) in named {
            let id = Id { ms, seq: 1 };
            stream.idempotency_mut().insert(&[producer], name.as_bytes(), id, 1000);
            stream.idempotency_mut().duplicates += 1;
        }
        goes_round(&Value::Stream(stream))?;
    }

    #[test]
    fn arrays_go_round(
        texts in elements(200),
        numbers in prop::collection::vec((any::<i64>(), any::<f32>(), 0..3_u32), 0..60),
        steps in prop::collection::vec(0..2000_u64, 260),
        cursor in prop::option::of(0..=INDEX_MAX),
    ) {
        let numbers = numbers.into_iter().map(|(int, float, shift)| match shift {
            0 => format!("{float:?}"),
            _ => (int >> (shift * 20)).to_string(),
        });
        let texts = texts.into_iter().chain(numbers.map(String::into_bytes));
        let (mut array, mut index) = (Array::new(), 0);
        for (text, step) in texts.zip(steps) {
            array.set(index, Element::parse(&text), ArrayLimits::default());
            index += 1 + if step > 1900 { step << 40 } else { step / 600 };
        }
        array.set(INDEX_MAX, Element::Int(1), ArrayLimits::default());
        array.set_cursor(cursor);
        goes_round(&Value::Array(array))?;
    }

    #[test]
    fn sorted_sets_go_round(members in elements(300), scores in prop::collection::vec(any::<f64>(), 300)) {
        let mut zset = ZSet::new();
        for (member, score) in members.iter().zip(scores) {
            zset.insert(member, if score.is_nan() { f64::INFINITY } else { score }, ZSetLimits::default());
        }
        goes_round(&Value::ZSet(zset))?;
    }

    #[test]
    fn sets_with_times_go_round(members in elements(300), times in prop::collection::vec(0i64..1 << 42, 300)) {
        let mut set = Set::new();
        for (member, time) in members.iter().zip(times) {
            let at_ms = if time % 2 == 1 { time } else { NO_EXPIRY };
            set.insert(Element::parse(member), at_ms, SetLimits::default(), i64::MIN);
        }
        if set.next_expiry_ms() != NO_EXPIRY {
            goes_round(&Value::Set(set))?;
        }
    }

    #[test]
    fn hashes_go_round(pairs in elements(600), times in prop::collection::vec(0i64..1 << 42, 600), timed: bool) {
        let (mut hash, mut names) = (Hash::new(), std::collections::HashSet::new());
        for (pair, time) in pairs.chunks(2).zip(times) {
            // A long value that was replaced has left a hashtable, which its text does not show.
            if !names.insert(pair[0].clone()) {
                continue;
            }
            let expiry = if timed && time % 2 == 1 { FieldExpiry::At(time) } else { FieldExpiry::Clear };
            let value = pair.last().map_or(&b""[..], |value| value);
            hash.set(&pair[0], Element::parse(value), expiry, HashLimits::default(), i64::MIN);
        }
        goes_round(&Value::Hash(hash))?;
    }

    #[test]
    fn damage_never_panics(at in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>()) {
        for (_, payload) in golden() {
            let mut body = payload[..payload.len() - 10].to_vec();
            *at.get_mut(&mut body) = byte;
            let _ = restore(&seal(&body, 12)).map(|value| show(&value));
            body.truncate(cut.index(body.len()));
            let _ = restore(&seal(&body, 12)).map(|value| show(&value));
        }
    }
}

fn golden() -> Vec<(String, Vec<u8>)> {
    let files = [include_str!("../tests/redis_7_0.txt"), include_str!("../tests/valkey_8.txt")];
    let lines = files.iter().flat_map(|file| file.lines());
    let parse = |line: &str| {
        let (name, hex) = line.split_once(' ').unwrap();
        let digits: Vec<u8> = hex.bytes().map(|b| (b as char).to_digit(16).unwrap() as u8).collect();
        (name.to_owned(), digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
    };
    lines.map(parse).collect()
}

#[test]
fn payloads_of_real_servers_are_read() {
    let mut seen = 0;
    for (name, payload) in golden() {
        let value = restore(&payload).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (encoding, lines) = show(&value);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        match name.as_str() {
            "s_text" => assert_eq!(lines, ["hello"]),
            "s_int8" => assert_eq!(lines, ["-5"]),
            "s_int32" => assert_eq!(lines, ["-70000"]),
            "s_int64" => assert_eq!(lines, ["12345678901234"]),
            "s_lzf" => assert_eq!(lines, ["ab".repeat(60)]),
            "l_small" => {
                assert_eq!(lines, ["1", "-200", "two", "70000", "9000000", "99999999999", &"x".repeat(100)]);
            }
            "l_nodes" => assert_eq!((encoding, lines.len()), ("quicklist", 2000)),
            "i_16" => assert_eq!((encoding, lines), ("intset", vec!["-2", "1", "300"])),
            "i_64" => assert_eq!(lines, ["1", "5000000000"]),
            "set_small" => assert_eq!((encoding, lines), ("listpack", vec!["5", "a", "b"])),
            "set_big" => assert_eq!((encoding, lines.len()), ("hashtable", 200)),
            "h_big" => assert_eq!((encoding, lines.len()), ("hashtable", 600)),
            "z_small" => assert_eq!(lines, ["c -inf", "e -0.1", "a 1.5", "d 3.0", "b inf"]),
            "z_big" => assert_eq!((encoding, lines[1]), ("skiplist", "m1 0.14285714285714285")),
            _ => continue,
        }
        seen += 1;
    }
    assert_eq!(seen, 28);
}

#[test]
fn the_footer_is_checked() {
    let (_, payload) = golden().remove(0);
    assert!(restore(&payload).is_ok());
    for end in 0..payload.len() {
        assert_eq!(restore(&payload[..end]).err(), Some(Refused::Footer));
    }
    let body = &payload[..payload.len() - 10];
    assert!(restore(&seal(body, 1)).is_ok());
    for (version, is_read) in
        [(15, true), (17, true), (18, false), (79, false), (80, true), (81, true), (82, false)]
    {
        assert_eq!(restore(&seal(body, version)).is_ok(), is_read, "{version}");
    }
    // A checksum of 0 stands for none.
    let unsummed = [body, &10u16.to_le_bytes(), &[0; 8]].concat();
    assert!(restore(&unsummed).is_ok());
    assert_eq!(
        restore(&[body, &10u16.to_le_bytes(), &[0, 0, 0, 0, 0, 0, 0, 1]].concat()).err(),
        Some(Refused::Footer)
    );
    assert_eq!(
        restore(&seal(&[body, b"x"].concat(), 10)).err(),
        Some(Refused::Value(Error::Corrupt("bytes behind the value")))
    );
}

#[test]
fn arrays_have_the_form_of_redis() {
    let mut array = Array::new();
    let limits = ArrayLimits::default();
    for (index, text) in
        [(1, "7"), (2, "2.5"), (300, "ab"), (301, "longer text"), (70_000, "9223372036854775807")]
    {
        array.set(index, Element::parse(text.as_bytes()), limits);
    }
    array.set_cursor(Some(8));
    let payload = payload::dump(Value::Array(array.clone()).view(), true);
    let body = [
        &[28, 5, 1, 8][..],
        &[1, 1, 7, 0, 0, 0, 0, 0, 0, 0],
        &[2, 2, 0, 0, 0, 0, 0, 0, 4, 0x40],
        b"\x41\x2c\x03\x02ab",
        b"\x41\x2d\x00\x0blonger text",
        b"\x80\x00\x01\x11\x70\x00\x139223372036854775807",
    ]
    .concat();
    assert_eq!(payload, seal(&body, 14));
    assert_eq!(show(&restore(&payload).unwrap()), show(&Value::Array(array)));
    let head = |count: u8| [28, count, 0];
    for (what, bytes) in [
        ("no element", vec![28, 0, 0]),
        ("a cursor's mark", vec![28, 1, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("a cursor beyond", [&[28, 1, 1, 0x81][..], &[0xff; 8], &[0, 3, 1, b'a']].concat()),
        ("an index beyond", [&head(1)[..], &[0x81], &[0xff; 8], &[3, 1, b'a']].concat()),
        ("an index twice", [&head(2)[..], &[4, 3, 1, b'a', 4, 3, 1, b'b']].concat()),
        ("a tag", [&head(1)[..], &[4, 4, 1, b'a']].concat()),
        ("a short count", [&head(1)[..], &[4, 3, 1, b'a', 5, 3, 1, b'b']].concat()),
        ("a long count", [&head(3)[..], &[4, 3, 1, b'a', 5, 3, 1, b'b']].concat()),
    ] {
        assert!(matches!(restore(&seal(&bytes, 14)).err(), Some(Refused::Value(_))), "{what}");
    }
}

/// A value's body behind its type byte, read under a version.
fn read(kind: u8, body: &[u8], version: u16) -> Option<(&'static str, Vec<String>)> {
    restore(&seal(&[&[kind], body].concat(), version)).ok().map(|value| show(&value))
}

fn blob(bytes: &[u8]) -> Vec<u8> {
    [&[bytes.len() as u8], bytes].concat()
}

#[test]
fn older_kinds_are_read() {
    let lines = |lines: &[&str]| lines.iter().map(|line| line.to_string()).collect::<Vec<_>>();
    assert_eq!(read(1, b"\x02\x01a\xc0\x05", 1), Some(("listpack", lines(&["a", "5"]))));
    assert_eq!(
        read(3, b"\x03\x01a\x031.5\x01b\xfe\x01c\xff", 1),
        Some(("listpack", lines(&["c -inf", "a 1.5", "b inf"])))
    );
    assert_eq!(read(3, b"\x01\x01a\xfd", 1), None);
    // Elements: string "ab", immediate 4, int8 -2, int16 300, int24, and a string.
    let ziplist = b"\x2a\0\0\0\x24\0\0\0\x06\0\0\x02ab\x04\xf5\x02\xfe\xfe\x03\xc0\x2c\x01\x04\xf0\0\0\x01\x05\x0bhello hello";
    let mut ziplist = ziplist.to_vec();
    ziplist.push(0xff);
    let total = ziplist.len() as u8;
    ziplist[0] = total;
    ziplist[4] = total - 1 - 13;
    let expected = lines(&["ab", "4", "-2", "300", "65536", "hello hello"]);
    assert_eq!(read(10, &blob(&ziplist), 1), Some(("listpack", expected.clone())));
    assert_eq!(read(14, &[&[1], &blob(&ziplist)[..]].concat(), 7), Some(("listpack", expected)));
    assert_eq!(read(13, &blob(&ziplist), 1).map(|(_, pairs)| pairs.len()), Some(3));
    let mut tail = ziplist.clone();
    tail[4] -= 1;
    assert_eq!(read(10, &blob(&tail), 1), None);
    let zipmap = b"\x02\x03foo\x03\x02bar..\x01b\x05\0hello\xff";
    let none = i64::MAX;
    let fields = [format!("b=hello {none}"), format!("foo=bar {none}")].to_vec();
    assert_eq!(read(9, &blob(zipmap), 1), Some(("listpack", fields)));
    assert_eq!(read(9, &blob(&zipmap[..12]), 1), None);
    let with_field = |length: &[u8], field: &[u8]| [b"\x01", length, field, b"\x01\0v\xff"].concat();
    let long = vec![b'f'; 254];
    let fields = vec![format!("{}=v {none}", "f".repeat(254))];
    assert_eq!(
        read(9, &[b"\x41\x08", &with_field(b"\xfe\xfe\0\0\0", &long)[..]].concat(), 1).map(|read| read.1),
        Some(fields)
    );
    assert_eq!(read(9, &blob(&with_field(b"\xfe\x03\0\0\0", b"foo")), 1), None);
}

#[test]
fn field_expiry_of_every_origin_is_read() {
    let at = 1_700_000_000_000u64;
    let none = i64::MAX;
    let expected = Some(("listpackex", vec![format!("f=v {at}"), format!("g=w {none}")]));
    let absolute =
        [b"\x02\x81".to_vec(), at.to_be_bytes().to_vec(), b"\x01f\x01v\0\x01g\x01w".to_vec()].concat();
    assert_eq!(read(22, &absolute, 12), expected);
    let relative = [&at.to_le_bytes()[..], b"\x02\x01\x01f\x01v\0\x01g\x01w"].concat();
    assert_eq!(read(24, &relative, 12), expected);
    let none_le = (-1i64).to_le_bytes();
    let valkey = [&b"\x02\x01f\x01v"[..], &at.to_le_bytes(), b"\x01g\x01w", &none_le].concat();
    assert_eq!(read(22, &valkey, 80), expected);
    let late = [&(1u64 << 48).to_le_bytes()[..], b"\x01\x01\x01f\x01v"].concat();
    assert_eq!(read(24, &late, 12), None);
}

#[test]
fn contradictions_are_refused() {
    for (kind, body) in [
        (2, &b"\x02\x01a\x01a"[..]),
        (2, b"\0"),
        (2, b"\x80\xff\xff\xff\xff\x01a"),
        (2, b"\x81\xff\xff\xff\xff\xff\xff\xff\xff"),
        (4, b"\x02\x01f\x01v\x01f\x01w"),
        (5, b"\x01\x01a\0\0\0\0\0\0\xf8\x7f"),
        (11, b"\x0c\x02\0\0\0\x02\0\0\0\x01\0\x01\0"),
        (11, b"\x0c\x02\0\0\0\x02\0\0\0\x02\0\x01\0"),
        (11, b"\x0c\x03\0\0\0\x02\0\0\0\x01\0\x02\0"),
        (15, b"\0"),
        (16, b"\x07\x07\0\0\0\0\0\xff"),
        // A header and nothing behind it.
        (16, b"\x06\x06\0\0\0\0\0"),
        (17, b"\x06\x06\0\0\0\0\0"),
        (20, b"\x06\x06\0\0\0\0\0"),
        (16, b"\x09\x09\0\0\0\x01\0\x01\x01\xff"),
        (16, b"\x09\x09\0\0\0\x02\0\x01\x01\xff"),
        (16, b"\x0b\x0b\0\0\0\x02\0\x01\x01\x01\x02\xff"),
        (17, b"\x0d\x0d\0\0\0\x02\0\x01\x01\x82no\x03\xff"),
        (18, b"\x01\x03\x01a"),
        (18, b"\x01\x01\0"),
        (0, b"\xc3\x02\x40\xff\x00a"),
        (0, b"\xc4"),
        (200, b"\x01a"),
    ] {
        assert_eq!(read(kind, body, 12), None, "type {kind}, {}", body.escape_ascii());
    }
}

#[test]
fn payloads_of_libraries_go_round_and_others_are_told_apart() {
    let codes: [&[u8]; 2] = [b"#!lua name=a\n", &[b'x'; 100]];
    let payload = payload::dump_libraries(codes, true);
    let read: Result<Vec<_>, _> = payload::libraries(&payload).unwrap().collect();
    assert_eq!(read.unwrap(), codes);
    let mut damaged = payload.clone();
    damaged[3] ^= 1;
    assert_eq!(payload::libraries(&damaged).err(), Some(Refused::Footer));
    assert_eq!(payload::libraries(b"").err(), Some(Refused::Footer));
    let with_sum = |body: &[u8]| {
        let mut bytes = [body, &[10, 0]].concat();
        bytes.extend(crc64(0, &bytes).to_le_bytes());
        bytes
    };
    let first = |payload: &[u8]| payload::libraries(payload).unwrap().next().unwrap().unwrap_err();
    assert_eq!(first(&with_sum(&[246, 1, b'x'])), payload::NoLibrary::PreGa);
    assert_eq!(first(&with_sum(&[0, 1, b'x'])), payload::NoLibrary::Other);
    assert_eq!(first(&with_sum(&[245, 9, b'x'])), payload::NoLibrary::Damaged);
}

/// A stream in Redis 8.8's layout: counters, a group with two pending entries of which one has no consumer,
/// and the records of a producer.
#[test]
fn the_latest_kind_of_stream_is_read_and_written_as_it_is() {
    let id = |seq: u8| [[0; 8], [0, 0, 0, 0, 0, 0, 0, seq]].concat();
    let ms = |ms: i64| ms.to_le_bytes();
    let mut body = vec![0, 0, 9, 9, 0, 0, 0, 0, 5];
    body.extend([&[1][..], &blob(b"g"), &[9, 9, 4]].concat());
    body.extend([&[2][..], &id(1), &ms(0), &[3], &id(2), &ms(7), &[1]].concat());
    body.extend([&[1][..], &blob(b"c"), &ms(5), &ms(6), &[1], &id(2)].concat());
    body.extend([&[1][..], &id(1)].concat());
    // 100 as a length takes two bytes.
    body.extend([&[0x40, 100, 50, 1][..], &blob(b"p"), &[1], &blob(b"i"), &[9, 9], &[8, 2]].concat());
    let value = restore(&seal(&[&[27][..], &body].concat(), 14)).unwrap();
    let Value::Stream(stream) = &value else { panic!("{value:?}") };
    let group = stream.group(b"g").unwrap();
    assert_eq!(group.released().collect::<Vec<_>>(), [Id { ms: 0, seq: 1 }]);
    assert_eq!(group.pending(Id { ms: 0, seq: 1 }).unwrap().deliveries, 3);
    assert_eq!(stream.idempotency_limits().max_records, 50);
    let table = stream.idempotency().unwrap();
    assert_eq!(table.get(b"p", b"i"), Some(Id { ms: 9, seq: 9 }));
    assert_eq!((table.added, table.duplicates), (8, 2));
    let payload = payload::dump(value.view(), false);
    assert_eq!(payload, seal(&[&[27][..], &body].concat(), 14));
    // Without that entry it is of the kind before.
    let mut stream = stream.clone();
    stream.group_mut(b"g").unwrap().1.acknowledge(Id { ms: 0, seq: 1 });
    assert_eq!(payload::dump(Value::Stream(stream).view(), false)[0], 26);
    // An entry without a consumer by one list only.
    for (kind, version) in [(26, 13), (21, 11)] {
        assert!(restore(&seal(&[&[kind][..], &body].concat(), version)).is_err());
    }
}

fn listpack_of(elements: &[&[u8]]) -> Vec<u8> {
    let mut writer = martlet_rdb::listpack::Writer::new();
    elements.iter().for_each(|element| writer.push(Element::parse(element)));
    writer.finish(<[u8]>::to_vec)
}

/// Behind the type byte, a stream of version 19 with the entries 1-1 and 1-2, one more that was deleted, and
/// these numbers.
fn counted_stream(node: [&[u8]; 2], length: u8, last: u8, highest_deleted: u8, added: u8) -> Vec<u8> {
    let [count, deleted] = node;
    let entries: [&[u8]; 15] =
        [b"2", b"0", b"0", b"a", b"4", b"3", b"0", b"1", b"b", b"4", b"2", b"0", b"1", b"c", b"4"];
    let head: [&[u8]; 5] = [count, deleted, b"1", b"f", b"0"];
    let node = listpack_of(&[&head[..], &entries].concat());
    let master = Id { ms: 1, seq: 1 }.to_bytes();
    let counters = [length, 1, last, 1, 1, 1, highest_deleted, added, 0];
    [&[1][..], &blob(&master), &blob(&node), &counters].concat()
}

/// Redis 7.0 and 8.2 load all of these, and believe most of the numbers; Valkey 9.1 refuses some.
#[test]
fn a_streams_numbers_are_counted_again() {
    let right = read(19, &counted_stream([b"2", b"1"], 2, 2, 2, 3), 10).unwrap();
    let stream = |body: &[u8]| match restore(&seal(&[&[19], body].concat(), 10)) {
        Ok(Value::Stream(stream)) => stream,
        other => panic!("{other:?}"),
    };
    for length in [0, 1, 60, 2] {
        for node in [[b"2".as_slice(), b"1"], [b"3", b"0"], [b"1", b"1"], [b"0", b"0"], [b"-1", b"9"]] {
            let read = stream(&counted_stream(node, length, 2, 2, 3));
            assert_eq!(read.log().len(), 2, "{length} {node:?}");
            assert_eq!(show(&Value::Stream(read)), right, "{length} {node:?}");
        }
    }
    // A last id, a highest deleted id and a number of added entries that the entries contradict.
    for (last, highest_deleted, added, expected) in
        [(0, 0, 2, (2, 0, 2)), (1, 2, 0, (2, 2, 2)), (9, 9, 7, (9, 9, 7)), (5, 9, 1, (5, 5, 2))]
    {
        let read = stream(&counted_stream([b"2", b"1"], 2, last, highest_deleted, added));
        let log = read.log();
        let numbers = (log.last_id().seq, log.max_deleted_id().seq, log.entries_added());
        assert_eq!(numbers, expected);
        // The commands that make it can be run: XSETID compares the same numbers.
        assert!(log.last_id() >= log.max_deleted_id() && log.entries_added() >= log.len());
    }
    // A length without any entry is a stream that is not whole; so is an entry that is not.
    assert!(restore(&seal(&[19, 0, 1, 1, 2, 1, 1, 0, 0, 2, 0], 10)).is_err());
    let mut torn = counted_stream([b"2", b"1"], 2, 2, 2, 3);
    let at = torn.iter().rposition(|byte| *byte == b'c').unwrap();
    torn[at + 2] = 5;
    assert!(restore(&seal(&[&[19], torn.as_slice()].concat(), 10)).is_err());
}

/// A ziplist of these texts.
fn ziplist_of(texts: &[&[u8]]) -> Vec<u8> {
    let (mut entries, mut before, mut tail) = (Vec::new(), 0, 10);
    for text in texts {
        tail = 10 + entries.len();
        let from = entries.len();
        entries.extend([before, text.len() as u8]);
        entries.extend(*text);
        before = (entries.len() - from) as u8;
    }
    let total = 11 + entries.len() as u32;
    let head = [&total.to_le_bytes()[..], &(tail as u32).to_le_bytes(), &(texts.len() as u16).to_le_bytes()];
    [&head.concat()[..], &entries, &[0xff]].concat()
}

/// Redis up to 6.2 wrote such scores into ziplists; later ones keep the text while the set is a listpack.
#[test]
fn minus_zero_is_kept_where_an_encoded_set_has_it() {
    let scores = |value: &Value| match value {
        Value::ZSet(zset) => zset.iter().map(|entry| entry.score.to_bits()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let (minus, zero) = ((-0.0f64).to_bits(), 0.0f64.to_bits());
    for elements in [[&b"a"[..], b"-0", b"b", b"0"], [b"b", b"0", b"a", b"-0"]] {
        for (kind, bytes) in [(12, ziplist_of(&elements)), (17, listpack_of(&elements))] {
            let value = restore(&seal(&[&[kind], blob(&bytes).as_slice()].concat(), 10)).unwrap();
            assert_eq!(scores(&value), [minus, zero], "{kind}");
            let again = restore(&payload::dump(value.view(), true)).unwrap();
            assert_eq!(scores(&again), [minus, zero], "{kind}");
        }
    }
    // As ZADD does it, and as Redis reads the other forms into a listpack.
    let binary = [&[5, 1, 1, b'a'][..], &(-0.0f64).to_le_bytes()].concat();
    assert_eq!(scores(&restore(&seal(&binary, 10)).unwrap()), [zero]);
    assert_eq!(scores(&restore(&seal(b"\x03\x01\x01a\x02-0", 9)).unwrap()), [zero]);
}

/// The forms of Redis 8.10, as its tests have them: names and values, each as a listpack or as strings.
#[test]
fn hashes_with_templates_are_read_as_hashes() {
    let lines = vec!["field1=1 9223372036854775807".to_owned(), "field2=2 9223372036854775807".to_owned()];
    let packed_names = blob(&listpack_of(&[b"field1", b"field2"]));
    let raw_names = b"\x02\x06field1\x06field2".to_vec();
    let packed_values = blob(&listpack_of(&[b"5", b"1", b"2"]));
    let raw_values = b"\xc0\x01\xc0\x02".to_vec();
    for (form, names) in [(0, &packed_names), (1, &raw_names)] {
        for (kind, values) in [(29, &packed_values), (31, &raw_values)] {
            let body = [&[form][..], names, values].concat();
            assert_eq!(read(kind, &body, 15), Some(("listpack", lines.clone())), "{form} {kind}");
            let mut rest = body.as_slice();
            ValueType::from_byte(kind, 15).unwrap().skip(&mut rest, 15).unwrap();
            assert!(rest.is_empty());
            for end in 0..body.len() {
                assert_eq!(read(kind, &body[..end], 15), None, "{form} {kind} {end}");
                let skipped = ValueType::from_byte(kind, 15).unwrap().skip(&mut &body[..end], 15);
                assert_eq!(skipped, Err(Error::Truncated), "{form} {kind} {end}");
            }
        }
    }
    let names = |names: &[&[u8]]| [&[0][..], &blob(&listpack_of(names))].concat();
    for (what, kind, body) in [
        ("descending", 31, [names(&[b"field2", b"field1"]), raw_values.clone()].concat()),
        ("twice", 31, [names(&[b"field1", b"field1"]), raw_values.clone()].concat()),
        ("longer first", 31, [names(&[b"field1", b"b"]), raw_values.clone()].concat()),
        ("none", 31, names(&[])),
        ("no raw ones", 31, vec![1, 0]),
        ("a form beyond", 31, [&[2][..], &raw_names, &raw_values].concat()),
        ("too few values", 29, [names(&[b"a", b"b", b"c"]), packed_values.clone()].concat()),
        ("too many values", 29, [names(&[b"a"]), packed_values.clone()].concat()),
        ("no number", 29, [names(&[b"a"]), blob(&listpack_of(&[b"x", b"1"]))].concat()),
        ("nothing", 29, [names(&[b"a"]), blob(&listpack_of(&[]))].concat()),
        // In a payload no template can be named by number.
        ("by number", 30, packed_values.clone()),
        ("by number", 32, b"\x05\xc0\x01".to_vec()),
    ] {
        assert_eq!(read(kind, &body, 15), None, "{what}");
    }
    // Two strings, the shorter first, as Redis sorts them.
    let body = [&names(&[b"b", b"aa"])[..], b"\x01x\x01y"].concat();
    assert!(read(31, &body, 15).is_some());
}

/// The same bytes mean other types in Valkey's versions; types without a structure here are refused by name.
#[test]
fn the_version_says_whose_types_they_are() {
    let refused = |byte: u8, version: u16| ValueType::from_byte(byte, version).err();
    assert_eq!(refused(23, 12), None);
    assert_eq!(refused(23, 81), None);
    assert_eq!(refused(33, 17), Some(Error::Unknown("rate limit")));
    for byte in [24, 25, 26, 27, 28, 29, 31, 33, 34, 35] {
        assert_eq!(refused(byte, 80), Some(Error::UnknownType(byte)));
    }
    for byte in [8, 30, 32, 36, 63, 64, 241] {
        assert_eq!(refused(byte, 17), Some(Error::UnknownType(byte)), "{byte}");
    }
}

/// Payloads as Valkey's sources describe type 23, and those that its own suite spoils.
#[test]
fn path_hashes_are_read_and_written_as_valkey_does() {
    let body = b"\x17\x02\x00\x01\x04root\x05value\x03abc\x02\x02f1\x02v1\x02f2\xc0\x07";
    let value = restore(&seal(body, 81)).unwrap();
    let lines = [r#" ["root=value"]"#, r#"abc ["f1=v1", "f2=7"]"#].map(str::to_owned).to_vec();
    assert_eq!(show(&value), ("pathhash", lines));
    assert_eq!(payload::dump(value.view(), false), seal(body, 81));
    let empty = restore(&seal(b"\x17\x00", 81)).unwrap();
    assert_eq!(show(&empty), ("pathhash", Vec::new()));
    for (body, why) in [
        (&b"\x17\x01\x01p\x00"[..], "Path hash path with empty payload"),
        (b"\x17\x02\x01a\x01\x01f\x01x\x01a\x01\x01f\x01y", "Duplicate pathhash path"),
        (b"\x17\x01\x01p\x02\x01a\x01x\x01a\x01y", "Duplicate pathhash payload field"),
    ] {
        assert_eq!(restore(&seal(body, 81)).err(), Some(Refused::Value(Error::Corrupt(why))));
    }
    // In Redis' versions the byte is a hash of a candidate of 7.4.
    assert!(restore(&seal(body, 12)).is_err());
    for cut in 1..body.len() {
        assert!(restore(&seal(&body[..cut], 81)).is_err(), "{cut}");
        let skipped = ValueType::from_byte(23, 81).unwrap().skip(&mut &body[1..cut], 81);
        assert_eq!(skipped, Err(Error::Truncated), "{cut}");
    }
}
