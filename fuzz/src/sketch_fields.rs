//! The decoders of the five sketches on any fields: they never panic nor allocate by a number that lies, and
//! an accepted sketch takes commands and goes round.
//!
//! The input is a byte for type and version, then fields: a byte for the kind, then eight bytes, or a length
//! of two bytes and a string.

use martlet_sketch::field::{DecodeError, Field, FieldSink, FieldSource, Fields};
use martlet_sketch::{Bloom, CountMin, Cuckoo, TDigest, TopK, bloom, cms, cuckoo, tdigest, topk};

/// Bytes that a value may take beside a multiple of its fields: a page, a branch, and the smaller blocks.
const HEAP_MAX_BYTES: usize = 128 * 1024;

const UNSIGNED: u8 = 0;
const DOUBLE: u8 = 1;
const STRING: u8 = 2;

/// A sketch as this target knows it.
trait Sketch: Clone {
    /// The version that is written.
    const NEWEST: u16;
    fn decode(version: u16, source: &mut dyn FieldSource) -> Result<Self, DecodeError>;
    fn encode(&self, sink: &mut dyn FieldSink);
    fn heap_bytes(&self) -> usize;
    /// Every kind of command.
    fn run(&mut self);
}

macro_rules! sketch {
    ($sketch:ident, $module:ident, $run:expr) => {
        impl Sketch for $sketch {
            const NEWEST: u16 = $module::TYPE.version;

            fn decode(version: u16, source: &mut dyn FieldSource) -> Result<Self, DecodeError> {
                $sketch::decode(version, source)
            }

            fn encode(&self, sink: &mut dyn FieldSink) {
                $sketch::encode(self, sink);
            }

            fn heap_bytes(&self) -> usize {
                $sketch::heap_bytes(self)
            }

            fn run(&mut self) {
                let run: fn(&mut $sketch) = $run;
                run(self);
            }
        }
    };
}

sketch!(Bloom, bloom, |bloom| {
    let _ = (bloom.add_all(&[b"a", b"", b"c"]), bloom.contains(b"a"), bloom.capacity(), bloom.scan_dump(1));
});
sketch!(Cuckoo, cuckoo, |cuckoo| {
    let _ = (cuckoo.add_all(&[b"a", b"", b"c"], true), cuckoo.delete(b"a"), cuckoo.count(b"c"));
    cuckoo.compact();
});
sketch!(CountMin, cms, |cms| {
    let copy = cms.clone();
    let _ = (cms.incr_by(b"a", u64::MAX), cms.query(b"b"), cms.merge(&[(copy.clone(), 2), (copy, -1)]));
});
sketch!(TopK, topk, |topk| {
    let _ = (topk.add(b"a", 100_000), topk.add(b"b", 0));
    let _ = (topk.count(b"a"), topk.contains(b"b"), topk.list());
});
sketch!(TDigest, tdigest, |digest| {
    let mut copy = digest.clone();
    let _ = (digest.add_all(&[1.0, -0.0, 1e308, 1.0]), digest.absorb(&mut copy), digest.info());
    let _ = (digest.quantiles(&[0.0, 0.5, 1.0]), digest.cdf(&[1.0]), digest.ranks(&[1.0], true));
    let _ = (digest.by_ranks(&[1], false), digest.trimmed_mean(0.1, 0.9));
});

/// See the [module docs](self).
pub fn check(data: &[u8]) {
    let Some((head, body)) = data.split_first() else { return };
    let version = u16::from(head / 5 % 6);
    let fields = parse(body);
    let room = HEAP_MAX_BYTES + 64 * body.len();
    match head % 5 {
        0 => round::<Bloom>(&fields, version, room),
        1 => round::<Cuckoo>(&fields, version, room),
        2 => round::<CountMin>(&fields, version, room),
        3 => round::<TopK>(&fields, version, room),
        _ => round::<TDigest>(&fields, version, room),
    }
}

/// The fields as a text: NaN is not equal to itself.
fn saved<T: Sketch>(value: &T) -> (Vec<Field>, String) {
    let mut fields = Vec::new();
    value.encode(&mut fields);
    let text = format!("{fields:?}");
    (fields, text)
}

fn round<T: Sketch>(fields: &[Field], version: u16, room: usize) {
    let Ok(value) = T::decode(version, &mut Fields::new(fields)) else { return };
    assert!(value.heap_bytes() <= room, "{} bytes of {fields:?}", value.heap_bytes());
    let (again, text) = saved(&value);
    let again = T::decode(T::NEWEST, &mut Fields::new(&again)).expect("what was written is read");
    assert_eq!(saved(&again).1, text);
    let mut changed = value.clone();
    changed.run();
    assert_eq!(saved(&value).1, text, "a clone changed");
}

fn parse(mut body: &[u8]) -> Vec<Field> {
    let mut fields = Vec::new();
    while let Some((kind, rest)) = body.split_first() {
        let field = match kind % 3 {
            STRING => {
                let Some((len, rest)) = rest.split_first_chunk::<2>() else { break };
                let len = rest.len().min(usize::from(u16::from_le_bytes(*len)));
                let (string, rest) = rest.split_at(len);
                body = rest;
                Field::String(string.to_vec())
            }
            kind => {
                let Some((bytes, rest)) = rest.split_first_chunk::<8>() else { break };
                body = rest;
                if kind == UNSIGNED {
                    Field::Unsigned(u64::from_le_bytes(*bytes))
                } else {
                    Field::Double(f64::from_le_bytes(*bytes))
                }
            }
        };
        fields.push(field);
    }
    fields
}

fn frame(family: u8, version: u8, fields: &[Field]) -> Vec<u8> {
    let mut bytes = vec![family + 5 * version];
    for field in fields {
        match field {
            Field::Unsigned(value) => {
                bytes.push(UNSIGNED);
                bytes.extend(value.to_le_bytes());
            }
            Field::Double(value) => {
                bytes.push(DOUBLE);
                bytes.extend(value.to_le_bytes());
            }
            Field::Float(_) => {}
            Field::String(string) => {
                bytes.push(STRING);
                bytes.extend((string.len() as u16).to_le_bytes());
                bytes.extend(string);
            }
        }
    }
    bytes
}

/// A small value of each type, in the newest version, and filters in the older ones' form.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut add = |family: u8, version: u8, encode: &dyn Fn(&mut Vec<Field>)| {
        let mut fields = Vec::new();
        encode(&mut fields);
        seeds.push(frame(family, version, &fields));
    };
    let options = martlet_sketch::bloom::Options { capacity: 3, ..Default::default() };
    let mut bloom = Bloom::new(options).expect("a small filter");
    bloom.add_all(&[b"1", b"2", b"3", b"4", b"5"]);
    add(0, 4, &|fields| bloom.encode(fields));
    let old =
        [Field::Unsigned(0), Field::Unsigned(1), Field::Unsigned(5), Field::Double(0.01), Field::Unsigned(7)];
    let rest = [Field::Double(9.585058), Field::String(vec![0; 6]), Field::Unsigned(0)];
    add(0, 0, &|fields| fields.extend(old.iter().chain(&rest).cloned()));
    let options = martlet_sketch::cuckoo::Options { capacity: 4, ..Default::default() };
    let mut cuckoo = Cuckoo::new(options).expect("a small filter");
    cuckoo.add_all(&[b"1", b"2", b"3", b"4", b"5", b"6"], false);
    add(1, 4, &|fields| cuckoo.encode(fields));
    let old = [Field::Unsigned(1), Field::Unsigned(2), Field::Unsigned(1), Field::String(vec![9, 0, 0, 0])];
    add(1, 3, &|fields| fields.extend(old.iter().cloned()));
    let mut cms = CountMin::by_dimensions(5, 2).expect("a small sketch");
    let _ = cms.incr_by(b"a", 7);
    add(2, 0, &|fields| cms.encode(fields));
    let options = martlet_sketch::topk::Options { k: 2, width: 3, depth: 2, decay: 0.9 };
    let mut topk = TopK::new(options).expect("a small sketch");
    topk.add(b"a", 3);
    add(3, 0, &|fields| topk.encode(fields));
    let mut digest = TDigest::new(2).expect("a small digest");
    add(4, 0, &|fields| digest.encode(fields));
    digest.add_all(&[2.5]).expect("a value");
    add(4, 0, &|fields| digest.encode(fields));
    digest.add_all(&[1.0, 3.0, 2.0, 2.0, 9.0]).expect("values");
    add(4, 0, &|fields| digest.encode(fields));
    seeds
}
