//! BF.*

use crate::session::{Expected, Session, below_one_of, error, integers, item, ok};
use martlet_base::random::Random;
use martlet_client::resp::Reply;
use martlet_sketch::bloom::{BloomError, Options, TYPE};
use martlet_sketch::field::{Field, Fields};
use martlet_sketch::{Bloom, Chunk};

const KEYS: [&str; 3] = ["b:0", "b:1", "b:2"];

fn options(random: &mut Random, is_large: bool) -> (Options, Vec<String>) {
    let error_rate = [0.5, 0.25, 0.1, 0.01, 0.001, 0.0000001, 0.37][random.below(7) as usize];
    let capacity = 1 + below_one_of(random, &[3, 30, 300, 3000]);
    let capacity = if is_large { capacity * 40 } else { capacity };
    let mut texts = vec![error_rate.to_string(), capacity.to_string()];
    let (mut expansion, mut is_scaling) = (2, true);
    match random.below(3) {
        0 => {
            expansion = 1 + random.below(4) as u32;
            texts.extend(["EXPANSION".to_owned(), expansion.to_string()]);
        }
        1 => {
            is_scaling = false;
            texts.push("NONSCALING".to_owned());
        }
        _ => {}
    }
    (Options { error_rate, capacity, expansion, is_scaling }, texts)
}

fn added(result: Result<bool, BloomError>) -> Reply {
    result.map_or_else(error, |is_new| Reply::Int(i64::from(is_new)))
}

fn fields(bloom: &Bloom) -> Vec<Field> {
    let mut fields = Vec::new();
    bloom.encode(&mut fields);
    fields
}

fn info(bloom: &Bloom) -> Reply {
    let name = |text: &str| Reply::Simple(text.as_bytes().to_vec());
    let number = |value: u64| Reply::Int(value as i64);
    Reply::Array(vec![
        name("Capacity"),
        number(bloom.capacity()),
        name("Size"),
        number(bloom.redis_bytes()),
        name("Number of filters"),
        number(bloom.links().len() as u64),
        name("Number of items inserted"),
        number(bloom.len()),
        name("Expansion rate"),
        bloom.expansion().map_or(Reply::NullBulk, |expansion| Reply::Int(i64::from(expansion))),
    ])
}

pub fn run(session: &mut Session, seed: u64) {
    let mut random = Random::seeded(seed);
    let mut filters: [Option<Bloom>; 3] = [None, None, None];
    for _ in 0..session.budget() {
        let at = random.below(3) as usize;
        let key = KEYS[at].as_bytes();
        let Some(filter) = &mut filters[at] else {
            let is_large = session.wants_large(&mut random);
            let (options, texts) = options(&mut random, is_large);
            let command: Vec<&[u8]> =
                [&b"BF.RESERVE"[..], key].into_iter().chain(texts.iter().map(String::as_bytes)).collect();
            session.reply(&command, ok());
            let options = if session.is_redis_8 { options.checked().unwrap() } else { options };
            filters[at] = Some(Bloom::new(options).unwrap());
            continue;
        };
        let distinct = 1 + filter.capacity() * 2;
        match random.below(40) {
            0 => {
                session.dump(key, TYPE, &fields(filter));
                session.reply(&[b"DEL", key], Reply::Int(1));
                filters[at] = None;
            }
            1 => session.reply(&[b"BF.INFO", key], info(filter)),
            2 => session.reply(&[b"BF.CARD", key], Reply::Int(filter.len() as i64)),
            3 => session.dump(key, TYPE, &fields(filter)),
            4 => {
                let fields = fields(filter);
                session.restore(key, TYPE, &fields);
                let mut source = Fields::new(&fields);
                *filter = Bloom::decode(TYPE.version, &mut source).unwrap();
                assert!(source.rest().is_empty());
            }
            5 => *filter = scan(session, key, filter),
            6 => {
                let position = random.below(300) as i64 - 5;
                let chunk = filter.scan_dump(position);
                session.reply(&[b"BF.SCANDUMP", key, position.to_string().as_bytes()], piece(&chunk));
            }
            7 => {
                let position = random.below(200) as i64 - 5;
                let bytes: Vec<u8> = (0..random.below(60)).map(|_| random.below(256) as u8).collect();
                let reply = filter.load_chunk(position, &bytes).map_or_else(error, |()| ok());
                session.reply(&[b"BF.LOADCHUNK", key, position.to_string().as_bytes(), &bytes], reply);
            }
            8..12 => {
                let items: Vec<Vec<u8>> =
                    (0..1 + random.below(30)).map(|_| item(&mut random, distinct)).collect();
                let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
                let is_add = random.below(2) == 0;
                let name: &[u8] = if is_add { b"BF.MADD" } else { b"BF.MEXISTS" };
                let reply = if is_add {
                    Reply::Array(filter.add_all(&items).into_iter().map(added).collect())
                } else {
                    integers(filter.contains_all(&items).into_iter().map(i64::from))
                };
                let command: Vec<&[u8]> = [name, key].into_iter().chain(items).collect();
                session.reply(&command, reply);
            }
            12..30 => {
                let item = item(&mut random, distinct);
                session.reply(&[b"BF.ADD", key, &item], added(filter.add(&item)));
            }
            _ => {
                let item = item(&mut random, distinct);
                session.reply(&[b"BF.EXISTS", key, &item], Reply::Int(i64::from(filter.contains(&item))));
            }
        }
    }
}

fn piece(chunk: &Chunk) -> Reply {
    Reply::Array(vec![Reply::Int(chunk.next), Reply::Bulk(chunk.bytes.clone())])
}

/// SCANDUMP to the end, and LOADCHUNK of it into a key that replaces this one.
fn scan(session: &mut Session, key: &[u8], filter: &Bloom) -> Bloom {
    let mut chunks = vec![filter.scan_dump(0)];
    while let Some(last) = chunks.last().filter(|chunk| chunk.next != 0) {
        chunks.push(filter.scan_dump(last.next));
    }
    let mut position = 0_i64;
    for chunk in &chunks {
        session.reply(&[b"BF.SCANDUMP", key, position.to_string().as_bytes()], piece(chunk));
        position = chunk.next;
    }
    session.reply(&[b"DEL", key], Reply::Int(1));
    let mut copy = Bloom::from_header(&chunks[0].bytes).unwrap();
    session.reply(&[b"BF.LOADCHUNK", key, b"1", &chunks[0].bytes], ok());
    for chunk in chunks[1..].iter().filter(|chunk| chunk.next != 0) {
        copy.load_chunk(chunk.next, &chunk.bytes).unwrap();
        session.reply(&[b"BF.LOADCHUNK", key, chunk.next.to_string().as_bytes(), &chunk.bytes], ok());
    }
    session.expect(&[b"DUMP", key], Expected::Dump(crate::session::payload(TYPE, &fields(filter))));
    copy
}
