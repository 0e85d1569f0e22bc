//! CF.*

use crate::session::{Session, below_one_of, error, integers, item, ok};
use martlet_base::random::Random;
use martlet_client::resp::Reply;
use martlet_sketch::cuckoo::{CuckooError, Options, TYPE};
use martlet_sketch::field::{Field, Fields};
use martlet_sketch::{Chunk, Cuckoo};

const KEYS: [&str; 3] = ["c:0", "c:1", "c:2"];

fn options(random: &mut Random, is_large: bool) -> (Options, Vec<String>) {
    let bucket_size = [1, 2, 2, 3, 4, 8, 255][random.below(7) as usize];
    let capacity = 2 * bucket_size + below_one_of(random, &[3, 60, 1000]) as i64;
    let capacity = if is_large { capacity * 50 } else { capacity };
    let max_iterations = [1, 5, 20, 300][random.below(4) as usize];
    let expansion = [0, 1, 1, 2, 3, 4][random.below(6) as usize];
    let options = Options { capacity, bucket_size, max_iterations, expansion };
    let pairs = [("BUCKETSIZE", bucket_size), ("MAXITERATIONS", max_iterations), ("EXPANSION", expansion)];
    let pairs = pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_string()]);
    (options, std::iter::once(capacity.to_string()).chain(pairs).collect())
}

fn fields(cuckoo: &Cuckoo) -> Vec<Field> {
    let mut fields = Vec::new();
    cuckoo.encode(&mut fields);
    fields
}

fn info(cuckoo: &Cuckoo) -> Reply {
    let info = cuckoo.info();
    let pairs = [
        ("Size", info.redis_bytes),
        ("Number of buckets", info.buckets),
        ("Number of filters", info.filters),
        ("Number of items inserted", info.items),
        ("Number of items deleted", info.deletes),
        ("Bucket size", u64::from(info.bucket_size)),
        ("Expansion rate", u64::from(info.expansion)),
        ("Max iterations", u64::from(info.max_iterations)),
    ];
    let pairs = pairs.into_iter();
    Reply::Array(
        pairs
            .flat_map(|(name, value)| [Reply::Simple(name.as_bytes().to_vec()), Reply::Int(value as i64)])
            .collect(),
    )
}

fn added(result: Result<bool, CuckooError>) -> Reply {
    result.map_or_else(error, |is_new| Reply::Int(i64::from(is_new)))
}

fn added_of_many(result: Result<bool, CuckooError>) -> i64 {
    result.map_or(-1, i64::from)
}

pub fn run(session: &mut Session, seed: u64) {
    let mut random = Random::seeded(seed);
    let mut filters: [Option<Cuckoo>; 3] = [None, None, None];
    for _ in 0..session.budget() {
        let at = random.below(3) as usize;
        let key = KEYS[at].as_bytes();
        let Some(filter) = &mut filters[at] else {
            let is_large = session.wants_large(&mut random);
            let (options, texts) = options(&mut random, is_large);
            let command: Vec<&[u8]> =
                [&b"CF.RESERVE"[..], key].into_iter().chain(texts.iter().map(String::as_bytes)).collect();
            session.reply(&command, ok());
            filters[at] = Some(Cuckoo::new(options).unwrap());
            continue;
        };
        let distinct = 1 + filter.info().buckets * u64::from(filter.info().bucket_size) * 2;
        let mut item = || item(&mut random, distinct.min(2000));
        let one = item();
        match random.below(48) {
            0 => {
                session.reply(&[b"DEL", key], Reply::Int(1));
                filters[at] = None;
            }
            1 => session.reply(&[b"CF.INFO", key], info(filter)),
            2 | 3 => session.dump(key, TYPE, &fields(filter)),
            4 => {
                let fields = fields(filter);
                session.restore(key, TYPE, &fields);
                let mut source = Fields::new(&fields);
                *filter = Cuckoo::decode(TYPE.version, &mut source).unwrap();
                assert!(source.rest().is_empty());
            }
            5 => scan(session, key, filter),
            6 => {
                filter.compact();
                session.reply(&[b"CF.COMPACT", key], ok());
            }
            7 => {
                let position = random.below(200) as i64 + 1;
                session.reply(
                    &[b"CF.SCANDUMP", key, position.to_string().as_bytes()],
                    piece(filter.scan_dump(position)),
                );
            }
            8..12 => {
                let mut item = || crate::session::item(&mut random, distinct.min(2000));
                let items: Vec<Vec<u8>> = (0..20).map(|_| item()).collect();
                let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
                insert(session, key, filter, &items, random.below(3));
            }
            12..20 => {
                let reply = Reply::Int(i64::from(filter.delete(&one)));
                session.reply(&[b"CF.DEL", key, &one], reply);
            }
            20..24 => session.reply(&[b"CF.COUNT", key, &one], Reply::Int(filter.count(&one) as i64)),
            24..36 => {
                let is_nx = random.below(3) == 0;
                let name: &[u8] = if is_nx { b"CF.ADDNX" } else { b"CF.ADD" };
                let reply = match filter.check_expansions(32) {
                    Err(words) => error(words),
                    Ok(()) if is_nx => added(filter.add_new(&one)),
                    Ok(()) => added(filter.add(&one).map(|()| true)),
                };
                session.reply(&[name, key, &one], reply);
            }
            _ => session.reply(&[b"CF.EXISTS", key, &one], Reply::Int(i64::from(filter.contains(&one)))),
        }
    }
}

fn insert(session: &mut Session, key: &[u8], filter: &mut Cuckoo, items: &[&[u8]], kind: u64) {
    if kind == 2 {
        let command: Vec<&[u8]> =
            [&b"CF.MEXISTS"[..], key].into_iter().chain(items.iter().copied()).collect();
        return session.reply(&command, integers(filter.contains_all(items).into_iter().map(i64::from)));
    }
    let name: &[u8] = if kind == 1 { b"CF.INSERTNX" } else { b"CF.INSERT" };
    let command: Vec<&[u8]> = [name, key, b"ITEMS"].into_iter().chain(items.iter().copied()).collect();
    let reply = match filter.check_expansions(32) {
        Err(words) => error(words),
        Ok(()) => integers(filter.add_all(items, kind == 1).into_iter().map(added_of_many)),
    };
    session.reply(&command, reply);
}

fn piece(chunk: Option<Chunk>) -> Reply {
    let (next, bytes) = chunk.map_or((0, Reply::NullBulk), |chunk| (chunk.next, Reply::Bulk(chunk.bytes)));
    Reply::Array(vec![Reply::Int(next), bytes])
}

/// SCANDUMP to the end, and LOADCHUNK of it into a key that replaces this one.
fn scan(session: &mut Session, key: &[u8], filter: &mut Cuckoo) {
    let mut chunks = Vec::new();
    let mut position = 0;
    loop {
        let chunk = filter.scan_dump(position);
        session.reply(&[b"CF.SCANDUMP", key, position.to_string().as_bytes()], piece(chunk.clone()));
        let Some(chunk) = chunk else { break };
        position = chunk.next;
        chunks.push(chunk);
    }
    let Some((header, pieces)) = chunks.split_first() else { return };
    session.reply(&[b"DEL", key], Reply::Int(1));
    let mut copy = Cuckoo::from_header(&header.bytes).unwrap();
    session.reply(&[b"CF.LOADCHUNK", key, b"1", &header.bytes], ok());
    for chunk in pieces {
        copy.load_chunk(chunk.next, &chunk.bytes).unwrap();
        session.reply(&[b"CF.LOADCHUNK", key, chunk.next.to_string().as_bytes(), &chunk.bytes], ok());
    }
    session.dump(key, TYPE, &fields(filter));
    *filter = copy;
}
