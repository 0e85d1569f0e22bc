//! An index under several writers.

use martlet_base::hash::hash_bytes;

use super::*;
use crate::definition::{Context, create};
use crate::index::bits::{Bits, WINDOW};

fn definition(arguments: &str) -> Definition {
    let arguments: Vec<&[u8]> = arguments.split(' ').map(str::as_bytes).collect();
    create(&arguments, Context { memory_bytes: 1 << 30, is_path: |_| true }).unwrap()
}

fn fill(content: &mut Content, key: &str, word: &str, number: u64) {
    content.clear();
    content.key.extend_from_slice(key.as_bytes());
    content.fingerprint = hash_bytes(word.as_bytes()) ^ number;
    content.terms.add(word.as_bytes(), 0, 1, 1, true);
    content.vectors.push((1, vec![number as f32, 1.0]));
}

/// The keys of the documents with a word, sorted.
fn with_word(index: &Index, word: &str) -> Vec<String> {
    let mut keys = Vec::new();
    for number in 0..index.partitions() {
        let partition = index.partition(number).unwrap();
        let Some(postings) = partition.terms().get(word.as_bytes()) else { continue };
        for base in (0..partition.documents().next_id()).step_by(WINDOW) {
            let (mut found, mut live) = (Bits::empty(base), Bits::empty(base));
            postings.fill(partition.layout(), u128::MAX, None, &mut found);
            partition.documents().live(&mut live);
            found.and(&live);
            let key = |id| String::from_utf8(partition.documents().get(id).unwrap().key.to_vec()).unwrap();
            keys.extend(found.iter().map(key));
        }
    }
    keys.sort();
    keys
}

#[test]
fn writers_of_other_keys_do_not_disturb_each_other() {
    let vector = "VECTOR HNSW 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2";
    let index = Index::new(definition(&format!("i SCHEMA t TEXT v {vector}")), 4);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let index = &index;
            scope.spawn(move || {
                let mut content = Content::default();
                for round in 0..2u64 {
                    for at in 0..400u64 {
                        let key = format!("{thread}:{at}");
                        let hash = hash_bytes(key.as_bytes());
                        let word = if round == 0 { "old" } else { "new" };
                        fill(&mut content, &key, word, at);
                        assert!(index.put(hash, &mut content).unwrap());
                        fill(&mut content, &key, word, at);
                        assert!(!index.put(hash, &mut content).unwrap());
                        if round == 1 && at % 4 == 0 {
                            assert!(index.remove(hash, key.as_bytes()));
                            assert!(!index.remove(hash, key.as_bytes()));
                        }
                    }
                }
            });
        }
    });
    assert_eq!(with_word(&index, "old"), [""; 0]);
    let wanted =
        (0..3).flat_map(|thread| (0..400).filter(|at| at % 4 > 0).map(move |at| format!("{thread}:{at}")));
    let mut wanted: Vec<String> = wanted.collect();
    wanted.sort();
    assert_eq!(with_word(&index, "new"), wanted);
    assert_eq!((index.len(), index.statistics().average_length), (900, 1.0));

    let rules = index.rules();
    let vectors = rules.vectors[1].as_ref().unwrap();
    assert_eq!(vectors.len(), 900);
    let nearest = vectors.nearest(&[101.2, 1.0], 6, None, false, None);
    let numbers: Vec<u32> = nearest.iter().map(|near| near.distance.sqrt().round() as u32).collect();
    assert_eq!(numbers, [0, 0, 0, 1, 1, 1], "101 and 102, of each thread");
    while index.collect(10) {}
}

#[test]
fn an_index_gains_fields() {
    let before = definition("i SCHEMA t TEXT");
    let index = Index::new(before.clone(), 2);
    let mut content = Content::default();
    fill(&mut content, "k", "word", 1);
    assert!(index.put(1, &mut content).unwrap());
    let vector = "VECTOR FLAT 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2";
    index.extend(definition(&format!("i SCHEMA t TEXT v {vector}")));
    fill(&mut content, "k", "word", 2);
    assert!(index.put(1, &mut content).unwrap());
    assert_eq!(index.rules().vectors[1].as_ref().unwrap().len(), 1);
    index.failed(b"x", Failure { field: Some(1), error: Error::new("no") });
    let (all, fields) = index.failures();
    assert_eq!((all.count, fields[0].count, fields[1].count), (1, 0, 1));
}
