//! TDIGEST.*

use crate::session::{Expected, Session, below_one_of, integers, ok};
use martlet_base::random::Random;
use martlet_client::resp::Reply;
use martlet_sketch::TDigest;
use martlet_sketch::field::{Field, Fields};
use martlet_sketch::tdigest::TYPE;

const KEYS: [&str; 3] = ["t:0", "t:1", "t:2"];

fn fields(digest: &TDigest) -> Vec<Field> {
    let mut fields = Vec::new();
    digest.encode(&mut fields);
    fields
}

/// A value: of few, of many, or of any size.
fn value(random: &mut Random) -> f64 {
    match random.below(12) {
        0 => 0.0,
        1 => -0.0,
        2 => (random.unit_f64() - 0.5) * 1e18,
        3..7 => random.below(20) as f64 / 4.0,
        _ => (random.unit_f64() - 0.3) * 100.0,
    }
}

fn texts(values: &[f64]) -> Vec<String> {
    values.iter().map(|value| format!("{value:?}")).collect()
}

fn command<'a>(name: &'a str, key: &'a [u8], texts: &'a [String]) -> Vec<&'a [u8]> {
    [name.as_bytes(), key].into_iter().chain(texts.iter().map(String::as_bytes)).collect()
}

pub fn run(session: &mut Session, seed: u64) {
    let mut random = Random::seeded(seed);
    let mut digests: [Option<TDigest>; 3] = [None, None, None];
    for _ in 0..session.budget() {
        let at = random.below(3) as usize;
        let key = KEYS[at].as_bytes();
        let Some(digest) = &mut digests[at] else {
            let compression = [1, 2, 10, 100, 100, 500][random.below(6) as usize];
            let text = compression.to_string();
            session.reply(&[b"TDIGEST.CREATE", key, b"COMPRESSION", text.as_bytes()], ok());
            digests[at] = Some(TDigest::new(compression).unwrap());
            continue;
        };
        match random.below(60) {
            0 => {
                session.reply(&[b"DEL", key], Reply::Int(1));
                digests[at] = None;
            }
            1 => {
                digest.reset();
                session.reply(&[b"TDIGEST.RESET", key], ok());
            }
            2 => {
                session.dump(key, TYPE, &fields(digest));
                digest.compress();
            }
            // A digest of one value is what Redis cannot restore.
            3 if digest.size() != 1 => {
                let fields = fields(digest);
                session.restore(key, TYPE, &fields);
                let mut source = Fields::new(&fields);
                *digest = TDigest::decode(TYPE.version, &mut source).unwrap();
                assert!(source.rest().is_empty());
            }
            4..7 => merge(session, &mut random, &mut digests, at),
            7..10 => session.reply(&[b"TDIGEST.INFO", key], info(digest, session.is_redis_8)),
            10..26 => query(session, &mut random, key, digest),
            _ => {
                let count = 1 + below_one_of(&mut random, &[3, 200]);
                let values: Vec<f64> = (0..count).map(|_| value(&mut random)).collect();
                let reply = digest.add_all(&values).map_or_else(crate::session::error, |()| ok());
                session.reply(&command("TDIGEST.ADD", key, &texts(&values)), reply);
            }
        }
    }
}

/// RedisBloom 2.8.2 counts a pointer in place of the struct.
fn info(digest: &TDigest, is_redis_8: bool) -> Reply {
    let info = digest.info();
    let pairs = [
        ("Compression", info.compression),
        ("Capacity", info.capacity),
        ("Merged nodes", info.merged_nodes),
        ("Unmerged nodes", info.unmerged_nodes),
        ("Merged weight", info.merged_weight),
        ("Unmerged weight", info.unmerged_weight),
        ("Observations", info.observations),
        ("Total compressions", info.total_compressions),
        ("Memory usage", info.redis_bytes - if is_redis_8 { 0 } else { 72 }),
    ];
    let pairs = pairs.into_iter();
    Reply::Array(
        pairs
            .flat_map(|(name, value)| [Reply::Simple(name.as_bytes().to_vec()), Reply::Int(value)])
            .collect(),
    )
}

fn query(session: &mut Session, random: &mut Random, key: &[u8], digest: &mut TDigest) {
    let count = 1 + random.below(6);
    let values: Vec<f64> = (0..count).map(|_| value(random)).collect();
    let shares: Vec<f64> =
        (0..count).map(|_| [0.0, 1.0, 0.5, random.unit_f64()][random.below(4) as usize]).collect();
    let ranks: Vec<i64> = (0..count).map(|_| random.below(digest.size() as u64 * 2 + 2) as i64).collect();
    let is_reverse = random.below(2) == 0;
    match random.below(7) {
        0 => session.expect(&[b"TDIGEST.MIN", key], Expected::Doubles(vec![digest.min()])),
        1 => session.expect(&[b"TDIGEST.MAX", key], Expected::Doubles(vec![digest.max()])),
        2 => {
            let expected = Expected::Doubles(digest.cdf(&values));
            session.expect(&command("TDIGEST.CDF", key, &texts(&values)), expected);
        }
        3 => {
            let expected = Expected::Doubles(digest.quantiles(&shares).unwrap());
            session.expect(&command("TDIGEST.QUANTILE", key, &texts(&shares)), expected);
        }
        4 => {
            let reply = integers(digest.ranks(&values, is_reverse));
            let name = if is_reverse { "TDIGEST.REVRANK" } else { "TDIGEST.RANK" };
            session.reply(&command(name, key, &texts(&values)), reply);
        }
        5 => {
            let expected = Expected::Doubles(digest.by_ranks(&ranks, is_reverse).unwrap());
            let name = if is_reverse { "TDIGEST.BYREVRANK" } else { "TDIGEST.BYRANK" };
            let ranks: Vec<String> = ranks.iter().map(i64::to_string).collect();
            session.expect(&command(name, key, &ranks), expected);
        }
        _ => {
            let (low, high) = (shares[0], random.unit_f64());
            let (low, high) = if low < high { (low, high) } else { (high / 2.0, high) };
            let expected = Expected::Doubles(vec![digest.trimmed_mean(low, high).unwrap()]);
            session.expect(&command("TDIGEST.TRIMMED_MEAN", key, &texts(&[low, high])), expected);
        }
    }
}

fn merge(session: &mut Session, random: &mut Random, digests: &mut [Option<TDigest>; 3], at: usize) {
    let candidates: Vec<usize> = (0..3).filter(|other| digests[*other].is_some()).collect();
    let chosen: Vec<usize> = (0..1 + random.below(3))
        .map(|_| candidates[random.below(candidates.len() as u64) as usize])
        .collect();
    let mut texts = vec!["TDIGEST.MERGE".to_owned(), KEYS[at].to_owned(), chosen.len().to_string()];
    texts.extend(chosen.iter().map(|at| KEYS[*at].to_owned()));
    let is_override = random.below(2) == 0;
    let most = chosen.iter().filter_map(|at| Some(digests[*at].as_ref()?.compression())).max();
    let own = digests[at].as_ref().map(TDigest::compression);
    let mut compression = if is_override { most } else { own }.unwrap_or(TDigest::COMPRESSION);
    if random.below(2) == 0 {
        compression = 1 + random.below(200) as i64;
        texts.extend(["COMPRESSION".to_owned(), compression.to_string()]);
    }
    if is_override {
        texts.push("OVERRIDE".to_owned());
    }
    let mut merged = TDigest::new(compression).unwrap();
    let own = (!is_override).then_some(at);
    for source in own.into_iter().chain(chosen) {
        if let Some(source) = &mut digests[source] {
            merged.absorb(source).unwrap();
        }
    }
    digests[at] = Some(merged);
    let command: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    session.reply(&command, ok());
}
