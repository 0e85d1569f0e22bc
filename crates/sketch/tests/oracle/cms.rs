//! CMS.*

use crate::session::{Session, error, integers, item, ok};
use martlet_base::random::Random;
use martlet_client::resp::Reply;
use martlet_sketch::CountMin;
use martlet_sketch::cms::TYPE;
use martlet_sketch::field::{Field, Fields};

const KEYS: [&str; 4] = ["m:0", "m:1", "m:2", "m:3"];

fn fields(sketch: &CountMin) -> Vec<Field> {
    let mut fields = Vec::new();
    sketch.encode(&mut fields);
    fields
}

fn init(session: &mut Session, random: &mut Random, key: &[u8]) -> CountMin {
    if random.below(3) == 0 {
        let error_rate = [0.5, 0.1, 0.013, 0.002][random.below(4) as usize];
        let probability = [0.5, 0.3, 0.01, 0.0001, 0.9, 0.125][random.below(6) as usize];
        let texts = [error_rate.to_string(), probability.to_string()];
        session.reply(&[b"CMS.INITBYPROB", key, texts[0].as_bytes(), texts[1].as_bytes()], ok());
        return CountMin::by_probability(error_rate, probability).unwrap();
    }
    let (width, depth) = ([7, 100][random.below(2) as usize], 1 + random.below(2) as i64 * 4);
    let texts = [width.to_string(), depth.to_string()];
    session.reply(&[b"CMS.INITBYDIM", key, texts[0].as_bytes(), texts[1].as_bytes()], ok());
    CountMin::by_dimensions(width, depth).unwrap()
}

pub fn run(session: &mut Session, seed: u64) {
    let mut random = Random::seeded(seed);
    let mut sketches: [Option<CountMin>; 4] = [None, None, None, None];
    for _ in 0..session.budget() {
        let at = random.below(4) as usize;
        let key = KEYS[at].as_bytes();
        let Some(sketch) = &mut sketches[at] else {
            sketches[at] = Some(init(session, &mut random, key));
            continue;
        };
        match random.below(30) {
            0 => {
                session.reply(&[b"DEL", key], Reply::Int(1));
                sketches[at] = None;
            }
            1 | 2 => session.dump(key, TYPE, &fields(sketch)),
            3 => {
                let fields = fields(sketch);
                session.restore(key, TYPE, &fields);
                let mut source = Fields::new(&fields);
                *sketch = CountMin::decode(TYPE.version, &mut source).unwrap();
                assert!(source.rest().is_empty());
            }
            4 => {
                let pairs = [("width", sketch.width()), ("depth", sketch.depth()), ("count", sketch.count())];
                let pairs = pairs.into_iter();
                let name = |text: &str| Reply::Simple(text.as_bytes().to_vec());
                let info = pairs.flat_map(|(text, value)| [name(text), Reply::Int(value as i64)]);
                session.reply(&[b"CMS.INFO", key], Reply::Array(info.collect()));
            }
            5..12 => merge(session, &mut random, &mut sketches, at),
            12..20 => {
                let items: Vec<Vec<u8>> = (0..1 + random.below(20)).map(|_| item(&mut random, 200)).collect();
                let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
                let reply = integers(sketch.query_all(&items).into_iter().map(i64::from));
                let command: Vec<&[u8]> = [&b"CMS.QUERY"[..], key].into_iter().chain(items).collect();
                session.reply(&command, reply);
            }
            _ => incr_by(session, &mut random, key, sketch),
        }
    }
}

fn incr_by(session: &mut Session, random: &mut Random, key: &[u8], sketch: &mut CountMin) {
    let count = 1 + random.below(6);
    let limit = if random.below(40) == 0 { 6_000_000_000 } else { 50 };
    let pairs: Vec<(Vec<u8>, u64)> = (0..count).map(|_| (item(random, 200), random.below(limit))).collect();
    let borrowed: Vec<(&[u8], u64)> = pairs.iter().map(|(item, value)| (&item[..], *value)).collect();
    let counts = sketch.incr_all(&borrowed).into_iter();
    let reply = Reply::Array(
        counts.map(|count| count.map_or_else(error, |count| Reply::Int(count.into()))).collect(),
    );
    let values: Vec<String> = pairs.iter().map(|(_, value)| value.to_string()).collect();
    let pairs = borrowed.iter().zip(&values).flat_map(|((item, _), value)| [*item, value.as_bytes()]);
    let command: Vec<&[u8]> = [&b"CMS.INCRBY"[..], key].into_iter().chain(pairs).collect();
    session.reply(&command, reply);
}

fn merge(session: &mut Session, random: &mut Random, sketches: &mut [Option<CountMin>; 4], at: usize) {
    let candidates: Vec<usize> = (0..4).filter(|other| sketches[*other].is_some()).collect();
    let chosen: Vec<usize> = (0..1 + random.below(3))
        .map(|_| candidates[random.below(candidates.len() as u64) as usize])
        .collect();
    let has_weights = random.below(2) == 0;
    let weight = |random: &mut Random| [1, 1, 2, 3, -1, 0, 1_000_000][random.below(7) as usize];
    let weights: Vec<i64> = chosen.iter().map(|_| if has_weights { weight(random) } else { 1 }).collect();
    let sources: Vec<(CountMin, i64)> = chosen
        .iter()
        .zip(&weights)
        .filter_map(|(at, weight)| Some((sketches[*at].clone()?, *weight)))
        .collect();
    let Some(sketch) = &mut sketches[at] else { return };
    let reply = sketch.merge(&sources).map_or_else(error, |()| ok());
    let mut texts = vec!["CMS.MERGE".to_owned(), KEYS[at].to_owned(), chosen.len().to_string()];
    texts.extend(chosen.iter().map(|at| KEYS[*at].to_owned()));
    if has_weights {
        texts.push("WEIGHTS".to_owned());
        texts.extend(weights.iter().map(i64::to_string));
    }
    let command: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    session.reply(&command, reply);
}
