//! TOPK.* with a decay of 1, which leaves nothing to chance.

use crate::session::{Expected, Session, below_one_of, error, integers, item, ok};
use martlet_base::random::Random;
use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_sketch::TopK;
use martlet_sketch::field::{Field, Fields};
use martlet_sketch::topk::{Options, TYPE};
use std::collections::HashMap;

const KEYS: [&str; 3] = ["k:0", "k:1", "k:2"];

fn fields(sketch: &TopK) -> Vec<Field> {
    let mut fields = Vec::new();
    sketch.encode(&mut fields);
    fields
}

fn reserve(session: &mut Session, random: &mut Random, key: &[u8]) -> TopK {
    let k = 1 + below_one_of(random, &[2, 8, 20]) as i64;
    let (width, depth) = (1 + random.below(20) as i64, 1 + random.below(4) as i64);
    let (k, width) = if session.wants_large(random) { (k * 300, width * 300) } else { (k, width) };
    let texts = [k.to_string(), width.to_string(), depth.to_string()];
    let [k_text, width_text, depth_text] = [0, 1, 2].map(|at| texts[at].as_bytes());
    session.reply(&[b"TOPK.RESERVE", key, k_text, width_text, depth_text, b"1"], ok());
    TopK::new(Options { k, width, depth, decay: 1.0 }).unwrap()
}

/// An item that is not empty: RedisBloom saves one as if there were none.
fn some_item(random: &mut Random) -> Vec<u8> {
    let mut item = item(random, 150);
    if item.is_empty() {
        item.push(b'x');
    }
    item
}

fn expelled(item: Option<impl AsRef<[u8]>>) -> Reply {
    item.map_or(Reply::NullBulk, |item| Reply::Bulk(item.as_ref().to_vec()))
}

pub fn run(session: &mut Session, seed: u64) {
    let mut random = Random::seeded(seed);
    let mut sketches: [Option<TopK>; 3] = [None, None, None];
    for _ in 0..session.budget() {
        let at = random.below(3) as usize;
        let key = KEYS[at].as_bytes();
        let Some(sketch) = &mut sketches[at] else {
            sketches[at] = Some(reserve(session, &mut random, key));
            continue;
        };
        let one = some_item(&mut random);
        match random.below(40) {
            0 => {
                session.reply(&[b"DEL", key], Reply::Int(1));
                sketches[at] = None;
            }
            1 => session.expect(&[b"DUMP", key], Expected::TopKDump(TYPE, fields(sketch))),
            // RedisBloom 2.8.2 forgets lengths and chances where it loads, so the history goes on in the old
            // key.
            2 => {
                let fields = fields(sketch);
                session.restore(b"k:restored", TYPE, &fields);
                session.expect(&[b"DUMP", b"k:restored"], Expected::TopKDump(TYPE, fields.clone()));
                let mut source = Fields::new(&fields);
                *sketch = TopK::decode(TYPE.version, &mut source).unwrap();
                assert!(source.rest().is_empty());
            }
            4 => {
                let list = sketch.list().into_iter();
                let list =
                    list.flat_map(|(item, count)| [Reply::Bulk(item.to_vec()), Reply::Int(count.into())]);
                session.reply(&[b"TOPK.LIST", key, b"WITHCOUNT"], Reply::Array(list.collect()));
            }
            5..10 => {
                let reply = integers([i64::from(sketch.contains(&one))]);
                session.reply(&[b"TOPK.QUERY", key, &one], reply);
            }
            10..15 => session.reply(&[b"TOPK.COUNT", key, &one], integers([i64::from(sketch.count(&one))])),
            15..20 => {
                let increment = [0, 1, 3, 40, 100_000, 100_001, -1][random.below(7) as usize];
                let reply = match TopK::check_increment(increment) {
                    Ok(increment) => expelled(sketch.add(&one, increment)),
                    Err(words) => error(words),
                };
                let text = increment.to_string();
                session.reply(&[b"TOPK.INCRBY", key, &one, text.as_bytes()], Reply::Array(vec![reply]));
            }
            _ => {
                let items: Vec<Vec<u8>> = (0..1 + random.below(5)).map(|_| some_item(&mut random)).collect();
                let pairs: Vec<(&[u8], u32)> = items.iter().map(|item| (&item[..], 1)).collect();
                let replies = sketch.add_all(&pairs).into_iter().map(expelled).collect();
                let items = items.iter().map(Vec::as_slice);
                let command: Vec<&[u8]> = [&b"TOPK.ADD"[..], key].into_iter().chain(items).collect();
                session.reply(&command, Reply::Array(replies));
            }
        }
    }
}

/// The same stream with chance in it: both list the ten most frequent items, with counts that differ by a
/// twentieth at most.
pub fn decay_by_chance(address: &str, seed: u64) {
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let mut client = Client::connect(address).unwrap();
    let options = Options { k: 20, width: 300, depth: 5, decay: 0.9 };
    for command in ["SELECT 6", "FLUSHDB", "TOPK.RESERVE chance 20 300 5 0.9"] {
        assert_eq!(client.command(&command.split(' ').collect::<Vec<_>>()).unwrap(), ok());
    }
    let mut sketch = TopK::new(options).unwrap();
    let mut model: HashMap<String, u32> = HashMap::new();
    for _ in 0..400 {
        // Item `n` of 2000 comes about `1 / n` as often as the first.
        let items: Vec<String> =
            (0..100).map(|_| (2000.0_f64.powf(random.unit_f64()) as u64).to_string()).collect();
        let command = ["TOPK.ADD", "chance"].into_iter().chain(items.iter().map(String::as_str));
        assert!(!client.command(&command.collect::<Vec<_>>()).unwrap().is_error());
        let pairs: Vec<(&[u8], u32)> = items.iter().map(|item| (item.as_bytes(), 1)).collect();
        sketch.add_all(&pairs);
        items.into_iter().for_each(|item| *model.entry(item).or_default() += 1);
    }
    let reply = client.command(&["TOPK.LIST", "chance", "WITHCOUNT"]).unwrap();
    let reply = reply.items().expect("a list");
    let theirs = reply.chunks(2).map(|pair| (pair[0].text().unwrap().to_vec(), pair[1].integer().unwrap()));
    let theirs: HashMap<Vec<u8>, i64> = theirs.collect();
    let ours: HashMap<Vec<u8>, i64> =
        sketch.list().into_iter().map(|(item, count)| (item.to_vec(), i64::from(count))).collect();
    let mut real: Vec<(String, u32)> = model.into_iter().collect();
    real.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (item, count) in &real[..10] {
        let counts = [&theirs, &ours].map(|list| list.get(item.as_bytes()).copied());
        let [Some(their), Some(our)] = counts else { panic!("{item} of {count}: {counts:?}") };
        assert!((their - our).abs() * 20 <= i64::from(*count), "{item} of {count}: {their} and {our}");
        assert!(their.max(our) <= i64::from(*count), "{item} of {count}: {their} and {our}");
    }
}
