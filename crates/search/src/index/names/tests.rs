//! Names of several partitions against sets.

use martlet_base::hash::hash_bytes;
use martlet_base::random::Random;

use super::*;
use crate::definition::{Context, create};
use crate::index::content::Content;

#[test]
fn each_name_comes_once_and_in_order() {
    let words: Vec<&[u8]> = "i SCHEMA t TEXT g TAG".split(' ').map(str::as_bytes).collect();
    let definition = create(&words, Context { memory_bytes: 1 << 30, is_path: |_| true }).unwrap();
    let seed = Random::from_entropy().next_u64();
    let mut random = Random::seeded(seed);
    let index = Index::new(definition, 4);
    let mut documents = std::collections::BTreeMap::new();
    for round in 0..3_000 {
        let key = format!("k{}", random.below(1_500)).into_bytes();
        let hash = hash_bytes(&key);
        if random.below(4) == 0 {
            index.remove(hash, &key);
            documents.remove(&key);
            continue;
        }
        let mut content = Content::default();
        let name = random.below(2_000).to_string().into_bytes();
        content.key.extend_from_slice(&key);
        content.fingerprint = round;
        content.terms.add(&name, 0, 1, 1, true);
        content.tags.push((1, name.as_slice().into()));
        index.put(hash, &mut content).unwrap();
        documents.insert(key, name);
    }
    let names = |names| {
        let (mut walk, mut found, mut steps) = (Walk::new(names), Vec::new(), 1);
        while !walk.step(&index, &mut |name| found.push(name.to_vec())) {
            steps += 1;
        }
        (found, steps)
    };
    let wanted: BTreeSet<Vec<u8>> = documents.into_values().collect();
    let (tags, _) = names(Names::Tags(1));
    assert!(tags.iter().eq(&wanted), "seed {seed}");
    let (terms, steps) = names(Names::Terms);
    assert!(steps > 1 && terms.is_sorted_by(|a, b| a < b), "seed {seed}");
    assert!(wanted.iter().all(|name| terms.contains(name)), "seed {seed}");
    assert_eq!(names(Names::Tags(0)), (Vec::new(), 1));
}

#[test]
fn tries_have_bytes_with_a_sign() {
    let mut names = ["x", "é", "", "xy", "X", "ß"];
    names.sort_by(|a, b| trie_order(a.as_bytes(), b.as_bytes()));
    assert_eq!(names, ["", "ß", "é", "X", "x", "xy"]);
}
