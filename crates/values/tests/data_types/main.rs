//! What holds for every data type, by its descriptor: each goes round in every version, by DUMP, and by the
//! commands that make it, its digest tells so, a clone is left alone, its size is what it has allocated, and
//! what is due in it goes without a command.
//!
//! `bag` is a type that only this test has.

mod bag;

use martlet_base::alloc::{Accounting, thread_bytes};
use martlet_command::testing::{Fixture, START_MS};
use martlet_keyspace::{Key, Kind, Value, ValueRef};
use martlet_spec::data_type::{BEGINNING_BYTES, BEGINNING_ELEMENTS, DATA_TYPES, Form};
use martlet_values::file::{FileWriter, Item, ReadOptions, Record, read_file};
use martlet_values::{
    Carried, Commands, Digest, Form as FileForm, Limits, TYPES, VERSION_MODULES, VERSION_NEWEST,
    VERSION_OLDEST, VERSION_PATH_HASHES, VERSION_VALKEY, built_in_views, requirement,
};

#[global_allocator]
static ALLOCATOR: Accounting = Accounting;

static MODULES: [&martlet_values::ModuleDescriptor; 1] = [&bag::descriptor::DESCRIPTOR];

fn fixture() -> Fixture {
    martlet_values::install(&MODULES);
    let mut fixture = Fixture::new();
    fixture.families.push(bag::commands::COMMANDS);
    fixture
}

/// A payload of a module that nobody has here: `test-type`, an integer, a double and strings.
fn carried_payload(strings: usize) -> Vec<u8> {
    let mut body = vec![7, 0x81];
    body.extend(martlet_rdb::module::ModuleId::new(b"test-type", 5).0.to_be_bytes());
    body.extend([2, 7, 4]);
    body.extend(1.5f64.to_le_bytes());
    for number in 0..strings {
        body.extend([5, 6]);
        body.extend(format!("{number:06}").bytes());
    }
    body.push(0);
    body.extend(10u16.to_le_bytes());
    let sum = martlet_rdb::crc64::crc64(0, &body);
    body.extend(sum.to_le_bytes());
    body
}

/// A command of the arguments.
type Words = Vec<Vec<u8>>;

fn words(line: &str) -> Words {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// The commands that make keys of a kind at the key `k`, and for each one that changes it.
fn samples(kind: Kind) -> Vec<(Vec<Words>, Words)> {
    let lines = |count: usize, line: &dyn Fn(usize) -> String, change: &str| {
        ((0..count).map(|number| words(&line(number))).collect(), words(change))
    };
    let restore = |strings| {
        let words: Words =
            [b"RESTORE".as_slice(), b"k", b"0", &carried_payload(strings)].map(<[u8]>::to_vec).into();
        (vec![words], words_of_change())
    };
    match kind {
        Kind::String => vec![
            lines(1, &|_| "SET k 12".into(), "APPEND k x"),
            lines(1, &|_| format!("SET k {}", "text".repeat(20_000)), "SETRANGE k 5 y"),
        ],
        Kind::List => [3, 3_000].map(|n| lines(n, &|i| format!("RPUSH k e{i}"), "LSET k 0 y")).into(),
        Kind::Set => [3, 3_000]
            .into_iter()
            .flat_map(|n| {
                let timed = |i: usize| match i % 3 {
                    0 => format!("SADDEX k EXAT {} MEMBERS 1 e{i}", START_MS / 1000 + 900 + i as i64),
                    _ => format!("SADD k e{i}"),
                };
                [
                    lines(n, &|i| format!("SADD k {i}"), "SADD k 1000000"),
                    lines(n, &|i| format!("SADD k e{i}"), "SADD k y"),
                    lines(n, &timed, "SADD k y"),
                ]
            })
            .collect(),
        Kind::ZSet => {
            [3, 3_000].map(|n| lines(n, &|i| format!("ZADD k {}.5 e{i}", i % 100), "ZINCRBY k 1 e1")).into()
        }
        Kind::Hash => [3, 3_000]
            .into_iter()
            .flat_map(|n| {
                let timed = |i: usize| match i % 3 {
                    0 => format!("HSETEX k EXAT {} FIELDS 1 f{i} v", START_MS / 1000 + 900 + i as i64),
                    _ => format!("HSET k f{i} v{i}"),
                };
                [lines(n, &|i| format!("HSET k f{i} v{i}"), "HSET k f1 y"), lines(n, &timed, "HSET k f1 y")]
            })
            .collect(),
        Kind::Module => [3, 3_000]
            .into_iter()
            .flat_map(|n| {
                let member = |i: usize| match i {
                    0 => "JSON.SET k $ {}".to_owned(),
                    i if i % 2 == 0 => format!(r#"JSON.SET k $.m{i} {{"a":[{i},null,"text"]}}"#),
                    i => format!(r#"JSON.SET k $.m{i} "a-text-that-is-longer-than-a-word-{i}""#),
                };
                let element = |i: usize| match i {
                    0 => "JSON.SET k $ [] FPHA BF16".to_owned(),
                    1 => "JSON.ARRAPPEND k $ [1,2,3]".to_owned(),
                    2 => "JSON.SET k $[0] [0.5,1.25,3] FPHA FP16".to_owned(),
                    i => format!("JSON.ARRAPPEND k $ {i}.5"),
                };
                let sample = |i: usize| match i {
                    0 => "TS.CREATE k RETENTION 100000000 CHUNK_SIZE 128 LABELS a b c d IGNORE 1 0.5".into(),
                    1 => "TS.CREATE dest".into(),
                    2 => "TS.CREATERULE k dest AGGREGATION twa 1000 5".into(),
                    i => format!("TS.ADD k {} {}.{}", i * 10, i % 7, i % 3),
                };
                let plain = |i: usize| match i {
                    0 => "TS.CREATE k ENCODING UNCOMPRESSED DUPLICATE_POLICY SUM".into(),
                    i => format!("TS.ADD k {} {}.{}", i * 10, i % 7, i % 3),
                };
                [
                    lines(n, &|i| format!("BAG.ADD k w{i:05} 2"), "BAG.ADD k w00001 3"),
                    lines(n, &member, "JSON.NUMINCRBY k $.m2.a[0] 1"),
                    lines(n, &element, "JSON.ARRPOP k"),
                    restore(n),
                    lines(n + 3, &sample, "TS.ADD k 20 7 ON_DUPLICATE LAST"),
                    lines(n, &plain, "TS.ADD k 10 7"),
                ]
            })
            .chain(sketches())
            .chain(vector_sets())
            .chain(suggestions())
            .collect(),
        Kind::Stream => {
            let grouped = |i: usize| match i {
                0 => "XGROUP CREATE k g 0 MKSTREAM".into(),
                5 => "XREADGROUP GROUP g c COUNT 3 STREAMS k >".into(),
                7 => "XNACK k g FAIL IDS 1 1-1".into(),
                i => format!("XADD k {i}-1 f{} v{i}", i % 2),
            };
            let named = |i: usize| format!("XADD k IDMP p i{i} * f v");
            vec![
                lines(3, &|i| format!("XADD k {}-1 f v", i + 1), "XADD k * f y"),
                lines(3_000, &|i| format!("XADD k {}-1 f{} v{i}", i + 1, i % 5), "XDEL k 2-1"),
                lines(50, &grouped, "XADD k * f y"),
                lines(3, &named, "XADD k * f y"),
            ]
        }
        Kind::Array => {
            [3, 3_000].map(|n| lines(n, &|i| format!("ARSET k {} v{i}", i * 3), "ARSET k 0 y")).into()
        }
        Kind::PathHash => {
            let deep = |i: usize| format!("PHSET k {} FIELDS 2 f{i} v{i} g w", "path".repeat(i % 40 + 1));
            let wide = |i: usize| format!("PHSET k p{i:05} FIELDS 1 a-field-of-some-length v{i}");
            let long = |i: usize| format!("PHSET k p FIELDS 1 f{i} v{i}");
            vec![
                lines(3, &wide, "PHSET k p00001 FIELDS 1 f y"),
                lines(3_000, &wide, "PHDEL k p00001"),
                lines(3_000, &deep, "PHDELPREFIX k pathpathpath"),
                lines(3_000, &long, "PHDEL k p f7"),
            ]
        }
    }
}

/// The same for sketches, small ones and ones of several pages.
fn sketches() -> Vec<(Vec<Words>, Words)> {
    let sketch = |create: &str, add: &dyn Fn(usize) -> String, change: &str| {
        let lines = std::iter::once(create.to_owned()).chain((0..600).map(add));
        (lines.map(|line| words(&line)).collect(), words(change))
    };
    vec![
        sketch("BF.ADD k e", &|i| format!("BF.ADD k e{i}"), "BF.ADD k y"),
        sketch("BF.RESERVE k 0.001 90000 NONSCALING", &|i| format!("BF.ADD k e{i}"), "BF.ADD k y"),
        sketch("CF.ADD k e", &|i| format!("CF.ADD k e{}", i % 200), "CF.DEL k e1"),
        sketch("CF.RESERVE k 500 EXPANSION 2", &|i| format!("CF.ADD k e{i}"), "CF.ADD k y"),
        (vec![words("CF.RESERVE k 90000")], words("CF.ADD k y")),
        sketch("CMS.INITBYDIM k 20 3", &|i| format!("CMS.INCRBY k e{i} {i}"), "CMS.INCRBY k y 1"),
        sketch("CMS.INITBYDIM k 9000 7", &|i| format!("CMS.INCRBY k e{i} 1"), "CMS.INCRBY k y 1"),
        sketch("TOPK.RESERVE k 10", &|i| format!("TOPK.ADD k e{}", i % 60), "TOPK.ADD k e1"),
        sketch("TOPK.RESERVE k 2000 900 7 0.8", &|i| format!("TOPK.ADD k e{i}"), "TOPK.ADD k y"),
        (vec![words("TDIGEST.CREATE k")], words("TDIGEST.ADD k 1")),
        sketch("TDIGEST.CREATE k", &|i| format!("TDIGEST.ADD k {i}.5"), "TDIGEST.ADD k 3"),
        sketch("TDIGEST.CREATE k COMPRESSION 10", &|i| format!("TDIGEST.ADD k -{i}"), "TDIGEST.RESET k"),
    ]
}

/// Dictionaries of suggestions: with payloads, without, with a score that commands alone cannot make.
fn suggestions() -> Vec<(Vec<Words>, Words)> {
    let made = |count: usize, line: &dyn Fn(usize) -> String, change: &str| {
        ((0..count).map(|number| words(&line(number))).collect(), words(change))
    };
    let with_payload = |i: usize| format!("FT.SUGADD k text{i:05} {i}.25 PAYLOAD p{i}");
    let zero = |i: usize| format!("FT.SUGADD k text {} INCR", if i == 0 { 1 } else { -1 });
    vec![
        made(2, &zero, "FT.SUGDEL k text"),
        made(3, &with_payload, "FT.SUGADD k text00001 1 INCR"),
        made(3_000, &|i| format!("FT.SUGADD k {i:b}-text {}", i + 1), "FT.SUGDEL k 101-text"),
        made(3_000, &with_payload, "FT.SUGADD k text00001 1 PAYLOAD q"),
    ]
}

/// Vector sets of each encoding, with a projection and attributes.
fn vector_sets() -> impl Iterator<Item = (Vec<Words>, Words)> {
    let vector = |i: usize| format!("VALUES 4 {} {} {} 1 e{i:04}", i % 7, i % 11, i % 13);
    let made = |count: usize, line: &dyn Fn(usize) -> String, change: &str| {
        ((0..count).map(|number| words(&line(number))).collect(), words(change))
    };
    [3, 300].into_iter().flat_map(move |n| {
        let reduced = |i: usize| format!("VADD k REDUCE 2 {} SETATTR {{\"n\":{i}}}", vector(i));
        [
            made(n, &|i| format!("VADD k {}", vector(i)), "VREM k e0001"),
            made(n, &|i| format!("VADD k {} NOQUANT M 5", vector(i)), "VSETATTR k e0001 {}"),
            made(n, &|i| format!("VADD k {} BIN", vector(i)), "VREM k e0002"),
            made(n, &reduced, "VADD k REDUCE 2 VALUES 4 3 2 1 0 e0001"),
        ]
    })
}

/// Nothing changes a value of an unknown module but its removal.
fn words_of_change() -> Words {
    words("DEL k")
}

fn run(fixture: &mut Fixture, words: &Words) {
    let reply = fixture.run_args(words);
    assert!(!reply.starts_with(b"-"), "{}: {}", words[0].escape_ascii(), reply.escape_ascii());
}

fn digest(fixture: &mut Fixture, name: &[u8]) -> Option<String> {
    let key = Key::new(name);
    fixture.keys.with_shard(key.shard(), |keys| {
        keys.get(&key).map(|entry| {
            let mut digest = Digest::default();
            martlet_values::digest(&entry, &mut digest);
            digest.hex()
        })
    })
}

fn value(fixture: &mut Fixture, name: &[u8]) -> Value {
    let key = Key::new(name);
    fixture.keys.with_shard(key.shard(), |keys| keys.get(&key).expect("the key is there").value())
}

/// For each sample of each type: the fixture that has it at `k`, and the command that changes it.
fn each(mut check: impl FnMut(&str, &mut Fixture, &Words)) {
    for data_type in TYPES {
        for (number, (make, change)) in samples(data_type.kind).into_iter().enumerate() {
            let mut fixture = fixture();
            make.iter().for_each(|words| run(&mut fixture, words));
            assert_eq!(value(&mut fixture, b"k").kind(), data_type.kind);
            check(&format!("{} {number}", data_type.name()), &mut fixture, &change);
        }
    }
}

fn in_file(value: ValueRef<'_>, form: FileForm) -> Value {
    let mut writer = FileWriter::new(Vec::new(), form, &[], true);
    writer.record(&Record { db: 0, key: b"k", expiry_ms: None, access: None, value });
    let file = writer.finish().unwrap();
    let options = ReadOptions { verify: true, any_version: false, limits: Limits::default() };
    let mut read = None;
    read_file(&file[..], file.len() as u64, &options, |item, _| {
        if let Item::Record(record) = item {
            read = Some(record.value);
        }
        Ok(())
    })
    .unwrap();
    read.expect("one record")
}

/// Tools know exactly the server's types, and what they ask of one is answered as its view says.
#[test]
fn each_type_answers_what_its_view_promises() {
    let (mut views, mut listed): (Vec<&str>, Vec<&str>) =
        (built_in_views().map(|view| view.name).collect(), DATA_TYPES.iter().map(|view| view.name).collect());
    views.sort_unstable();
    listed.sort_unstable();
    assert_eq!(views, listed);
    for data_type in TYPES {
        assert_eq!(
            data_type.view.map(|view| view.name),
            match data_type.kind {
                Kind::Module => None,
                kind => Some(kind.name()),
            }
        );
    }
    each(|what, fixture, _| {
        let name = fixture.run("TYPE k");
        let Some(view) = built_in_views().find(|view| name.strip_prefix('+') == Some(view.name)) else {
            return;
        };
        let count: Option<usize> = view.length.as_ref().map(|length| {
            let length = fixture.run_args(&[length.command, "k"]);
            assert!(length.starts_with(b":"), "{what}: {}", length.escape_ascii());
            std::str::from_utf8(&length[1..length.len() - 2]).unwrap().parse().unwrap()
        });
        assert_ne!(count, Some(0), "{what}");
        let beginning = view.beginning.as_ref().expect(what);
        let reply = fixture.run_args(&[&[beginning.command, "k"], beginning.arguments].concat());
        // Facts about a value are no elements of it.
        let count = count.filter(|_| !beginning.arguments.is_empty()).unwrap_or(0);
        // How many items the list in the reply has, by the form.
        let (skipped, items) = match beginning.form {
            Form::Text => ("$", count.min(BEGINNING_BYTES)),
            Form::Scan(_) => ("*2\r\n$", 0),
            Form::Flat(columns) => ("*", count.min(BEGINNING_ELEMENTS) * columns.len()),
            Form::Nested(_) => ("*", count.min(BEGINNING_ELEMENTS)),
        };
        assert!(reply.starts_with(skipped.as_bytes()), "{what}: {}", reply.escape_ascii());
        if items > 0 {
            assert!(reply.starts_with(format!("{skipped}{items}\r\n").as_bytes()), "{what}: {}", items);
        }
    });
}

#[test]
fn values_go_round_in_every_version_that_holds_them() {
    each(|what, fixture, _| {
        let (value, before) = (value(fixture, b"k"), digest(fixture, b"k"));
        for version in (VERSION_OLDEST..=VERSION_NEWEST).chain([VERSION_VALKEY, VERSION_PATH_HASHES]) {
            // Path hashes have a form of their own in versions without them.
            let is_held_anyway = value.kind() == Kind::PathHash && version >= VERSION_MODULES;
            if !is_held_anyway
                && requirement(value.view()).is_some_and(|requirement| !requirement.is_met_by(version))
            {
                continue;
            }
            for compress in [false, true] {
                let back = in_file(value.view(), FileForm { version, compress });
                let key = Key::new(b"back");
                fixture.keys.with_shard(key.shard(), |keys| keys.set_value(&key, back, None));
                assert_eq!(digest(fixture, b"back"), before, "{what} in version {version}");
            }
        }
        let lowest = value.view().lowest_version();
        assert!(lowest <= VERSION_NEWEST || lowest == VERSION_PATH_HASHES, "{what}");
    });
}

#[test]
fn dumps_and_the_commands_of_the_append_only_base_make_the_same_value() {
    each(|what, fixture, _| {
        let before = digest(fixture, b"k");
        let payload = martlet_values::payload::dump(value(fixture, b"k").view(), true);
        let restore = [b"RESTORE".as_slice(), b"d", b"0", &payload].map(<[u8]>::to_vec).into();
        run(fixture, &restore);
        assert_eq!(digest(fixture, b"d"), before, "{what}");

        let value = value(fixture, b"k");
        let mut all: Vec<Words> = Vec::new();
        let mut take = |arguments: &[&[u8]]| all.push(arguments.iter().map(|word| word.to_vec()).collect());
        martlet_values::write_commands(value.view(), b"c", &mut Commands::new(&mut take));
        all.iter().for_each(|words| run(fixture, words));
        assert_eq!(digest(fixture, b"c"), before, "{what}");
        // The digest leaves out groups, times and cursors; no form of the value does.
        let encoded = |fixture: &mut Fixture, name: &[u8]| {
            let value = self::value(fixture, name);
            let form = FileForm { version: VERSION_NEWEST, compress: false };
            martlet_values::encoded_len(value.view(), form)
        };
        assert_eq!(encoded(fixture, b"d"), encoded(fixture, b"k"), "{what}");
        assert_eq!(encoded(fixture, b"c"), encoded(fixture, b"k"), "{what}");
        let encoding = |fixture: &mut Fixture, name: &str| fixture.run(&format!("OBJECT ENCODING {name}"));
        assert_eq!(encoding(fixture, "d"), encoding(fixture, "k"), "{what}");
        assert_eq!(fixture.run("TYPE c"), fixture.run("TYPE k"), "{what}");
    });
}

#[test]
fn a_change_leaves_the_clone_alone() {
    each(|what, fixture, change| {
        let (clone, before) = (value(fixture, b"k"), digest(fixture, b"k"));
        run(fixture, change);
        assert_ne!(digest(fixture, b"k"), before, "{what}");
        let key = Key::new(b"clone");
        fixture.keys.with_shard(key.shard(), |keys| keys.set_value(&key, clone, None));
        assert_eq!(digest(fixture, b"clone"), before, "{what}");
    });
}

#[test]
fn the_size_of_a_value_is_what_it_has_allocated() {
    each(|what, fixture, _| {
        let payload = martlet_values::payload::dump(value(fixture, b"k").view(), false);
        let before = thread_bytes();
        let back = martlet_values::payload::restore(&payload, &Limits::default()).unwrap();
        let allocated = thread_bytes() - before;
        let key = Key::new(b"k");
        let own = fixture.keys.with_shard(key.shard(), |keys| {
            keys.set_value(&key, back, None);
            keys.get(&key).expect("the key is there").heap_bytes()
        }) as i64;
        // The entry itself, and nodes that are not full.
        const FIXED_BYTES: i64 = 512;
        assert!((own - allocated).abs() <= allocated / 20 + FIXED_BYTES, "{what}: {own} of {allocated}");
    });
}

#[test]
fn due_parts_go_without_a_command() {
    let mut fixture = fixture();
    let due = |fixture: &mut Fixture| {
        let shard = Key::new(b"k").shard();
        fixture.keys.with_shard(shard, |keys| keys.shard(shard).keys.db(0).next_due_ms())
    };
    run(&mut fixture, &words("BAG.ADD k a 1"));
    assert_eq!(due(&mut fixture), None);
    run(&mut fixture, &words(&format!("BAG.ADD k b 1 {}", START_MS + 500)));
    run(&mut fixture, &words(&format!("BAG.ADD k c 1 {}", START_MS + 100)));
    assert_eq!(due(&mut fixture), Some(START_MS + 100));
    fixture.advance_ms(200);
    assert_eq!(fixture.run("BAG.COUNT k c"), ":0");
    fixture.expire_due();
    assert_eq!(due(&mut fixture), Some(START_MS + 500));
    run(&mut fixture, &words("COPY k copy"));
    run(&mut fixture, &words("DEL k"));
    assert_eq!(due(&mut fixture), None);
    fixture.advance_ms(500);
    fixture.expire_due();
    assert_eq!(fixture.run("BAG.COUNT copy a"), ":1");
    let Value::Module(copy) = value(&mut fixture, b"copy") else { panic!("no module's value") };
    assert_eq!(copy.get::<bag::structure::Bag>().unwrap().words().len(), 1);
}

/// Commands of the sketches about the key `k`.
const OF_SKETCHES: &[&str] = &[
    "BF.EXISTS k a",
    "BF.MEXISTS k a b",
    "BF.CARD k",
    "BF.INFO k",
    "BF.DEBUG k",
    "BF.SCANDUMP k 0",
    "BF.SCANDUMP k 1",
    "BF.ADD k a",
    "BF.MADD k a b c",
    "BF.INSERT k ITEMS d e",
    "BF.LOADCHUNK k 5 abcd",
    "CF.EXISTS k a",
    "CF.MEXISTS k a b",
    "CF.COUNT k a",
    "CF.INFO k",
    "CF.DEBUG k",
    "CF.SCANDUMP k 0",
    "CF.SCANDUMP k 1",
    "CF.ADD k a",
    "CF.ADDNX k q",
    "CF.INSERT k ITEMS a b",
    "CF.INSERTNX k ITEMS s",
    "CF.DEL k a",
    "CF.COMPACT k",
    "CF.LOADCHUNK k 5 abcd",
    "CMS.QUERY k a b",
    "CMS.INFO k",
    "CMS.INCRBY k a 5 b 4294967295",
    "CMS.MERGE k 2 k k WEIGHTS 3 4",
    "TOPK.LIST k WITHCOUNT",
    "TOPK.QUERY k a",
    "TOPK.COUNT k a",
    "TOPK.INFO k",
    "TOPK.ADD k a b",
    "TOPK.INCRBY k a 100000 c 3",
    "TDIGEST.MIN k",
    "TDIGEST.MAX k",
    "TDIGEST.INFO k",
    "TDIGEST.QUANTILE k 0 0.5 1",
    "TDIGEST.CDF k 1 2",
    "TDIGEST.RANK k 1 9",
    "TDIGEST.REVRANK k 1",
    "TDIGEST.BYRANK k 0 5",
    "TDIGEST.BYREVRANK k 1",
    "TDIGEST.TRIMMED_MEAN k 0.1 0.8",
    "TDIGEST.ADD k 1 2 3",
    "TDIGEST.MERGE k 1 k",
    "TDIGEST.MERGE m 2 k k COMPRESSION 10 OVERRIDE",
    "TDIGEST.RESET k",
    "DUMP k",
    "MEMORY USAGE k",
    "COPY k copy REPLACE",
    "OBJECT ENCODING k",
    "DEL k m",
];

#[test]
fn a_payload_that_lies_is_refused_or_answers_every_command() {
    let mut random = martlet_base::random::Random::seeded(5);
    println!("seed 5");
    let (mut taken, mut refused) = (0, 0);
    for (make, _) in sketches() {
        let mut fixture = fixture();
        make.iter().take(40).for_each(|words| run(&mut fixture, words));
        let payload = martlet_values::payload::dump(value(&mut fixture, b"k").view(), false);
        for _ in 0..300 {
            let mut lie = payload[..payload.len() - 8].to_vec();
            // Mostly in the first fields, which say how large the rest is; not in the type's name.
            let body = lie.len() as u64 - 12;
            for _ in 0..1 + random.below(3) {
                let at =
                    10 + if random.below(4) == 0 { random.below(body) } else { random.below(body.min(70)) };
                lie[at as usize] = match random.below(3) {
                    0 => random.below(256) as u8,
                    1 => 0xff,
                    _ => lie[at as usize] ^ (1 << random.below(8)),
                };
            }
            let sum = martlet_rdb::crc64::crc64(0, &lie);
            lie.extend(sum.to_le_bytes());
            let restored = fixture.run_args(&[b"RESTORE".as_slice(), b"k", b"0", &lie, b"REPLACE"]);
            if restored.starts_with(b"-") {
                refused += 1;
                continue;
            }
            taken += 1;
            for line in OF_SKETCHES {
                assert!(!fixture.run(line).is_empty(), "{line}");
            }
        }
    }
    println!("{taken} taken, {refused} refused");
    assert!(taken > 100 && refused > 100, "{taken} taken, {refused} refused");
}

#[test]
fn values_of_unknown_modules_are_carried() {
    let mut fixture = fixture();
    let payload = carried_payload(5);
    let restore = [b"RESTORE".as_slice(), b"k", b"0", &payload].map(<[u8]>::to_vec).into();
    run(&mut fixture, &restore);
    assert_eq!(fixture.run("TYPE k"), "+test-type");
    assert_eq!(fixture.run("OBJECT ENCODING k"), "\"raw\"");
    assert!(fixture.run("GET k").starts_with("-WRONGTYPE"));
    assert!(fixture.run("BAG.ADD k w 1").starts_with("-WRONGTYPE"));
    assert_eq!(fixture.run("SCAN 0 TYPE TEST-type COUNT 100000"), "[\"0\" [\"k\"]]");
    assert_eq!(fixture.run("SCAN 0 TYPE module COUNT 100000"), "[\"0\" []]");
    let Value::Module(carried) = value(&mut fixture, b"k") else { panic!("no module's value") };
    assert!(carried.get::<Carried>().is_some());
    assert!(martlet_values::payload::dump(value(&mut fixture, b"k").view(), false) == payload);
    let mut cut = payload.clone();
    cut.truncate(payload.len() - 12);
    cut.extend(10u16.to_le_bytes());
    let sum = martlet_rdb::crc64::crc64(0, &cut);
    cut.extend(sum.to_le_bytes());
    let restore: Words = [b"RESTORE".as_slice(), b"bad", b"0", &cut].map(<[u8]>::to_vec).into();
    assert_eq!(fixture.run_args(&restore), b"-ERR Bad data format\r\n");
}

#[test]
fn a_known_type_of_an_unknown_version_is_carried() {
    let mut fixture = fixture();
    run(&mut fixture, &words("BAG.ADD k w 1"));
    let mut payload = martlet_values::payload::dump(value(&mut fixture, b"k").view(), false);
    // The version is in the id's last ten bits, behind the type byte and the length's first.
    payload[9] ^= 2;
    payload.truncate(payload.len() - 8);
    let sum = martlet_rdb::crc64::crc64(0, &payload);
    payload.extend(sum.to_le_bytes());
    let restore: Words = [b"RESTORE".as_slice(), b"later", b"0", &payload].map(<[u8]>::to_vec).into();
    run(&mut fixture, &restore);
    assert_eq!(fixture.run("TYPE later"), "+bag-words");
    assert!(fixture.run("BAG.COUNT later w").starts_with("-WRONGTYPE"));
    assert!(martlet_values::payload::dump(value(&mut fixture, b"later").view(), false) == payload);
}
