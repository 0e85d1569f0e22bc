//! Both lists of documents that are spread over parts, as over the nodes of a cluster.
//!
//! Each part has as many documents of either list as the whole may have, so that the best of all are among
//! them. Among equals the smaller key is first. A document that moves, and that two parts have meanwhile,
//! counts once.

use std::collections::HashSet;

use super::fusion::{Fused, fuse};
use super::request::Hybrid;

/// A document of a part.
#[derive(Clone, Debug, PartialEq)]
pub struct PartHit {
    /// Its key.
    pub key: Box<[u8]>,
    /// Its score by text, if it is in this list.
    pub search: Option<f64>,
    /// How alike its vector is, if it is in that list.
    pub vector: Option<f64>,
}

/// The fused list of the documents of all parts, the best one first; each by its place in `hits`.
pub fn fuse_parts(request: &Hybrid, hits: &[PartHit]) -> Vec<Fused<usize>> {
    let mut seen = HashSet::new();
    let once: Vec<usize> =
        (0..).zip(hits).filter(|(_, hit)| seen.insert(&hit.key)).map(|(at, _)| at).collect();
    let best = |score: fn(&PartHit) -> Option<f64>, most: usize| {
        let scored = |at: &usize| hits.get(*at).and_then(|hit| Some((*at, score(hit)?, &hit.key)));
        let mut list: Vec<(usize, f64, &Box<[u8]>)> = once.iter().filter_map(scored).collect();
        list.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.2.cmp(b.2)));
        list.truncate(most);
        list.into_iter().map(|(at, score, _)| (at, score)).collect::<Vec<_>>()
    };
    let search = best(|hit| hit.search, request.combine.window);
    let vector = best(|hit| hit.vector, request.nearest_max());
    fuse(&search, &vector, request.combine.method)
}

#[cfg(test)]
mod tests {
    use martlet_base::random::Random;

    use super::*;
    use crate::request::Limits;

    fn request(options: &str) -> Hybrid {
        let mut words: Vec<&[u8]> = vec![b"SEARCH", b"red", b"VSIM", b"@v", b"$b"];
        words.extend(options.split_whitespace().map(str::as_bytes));
        words.extend([&b"PARAMS"[..], b"2", b"b", &[0; 4]]);
        Hybrid::parse(&words, &Limits::default()).unwrap()
    }

    /// The documents of these that a part sends: the best of each list.
    fn part(request: &Hybrid, hits: &[PartHit]) -> Vec<PartHit> {
        let fused = fuse_parts(request, hits);
        let sent = |one: Fused<usize>| {
            let key = hits[one.key].key.clone();
            PartHit { key, search: one.search, vector: one.vector }
        };
        fused.into_iter().map(sent).collect()
    }

    fn shown(request: &Hybrid, hits: &[PartHit]) -> Vec<(Box<[u8]>, String)> {
        let fused = fuse_parts(request, hits).into_iter();
        fused
            .map(|one| {
                let scores = format!("{:?} {:?} {}", one.search, one.vector, one.score);
                (hits[one.key].key.clone(), scores)
            })
            .collect()
    }

    #[test]
    fn the_fused_parts_are_the_whole() {
        let seed = Random::from_entropy().next_u64();
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let requests = [
            "COMBINE RRF 2 WINDOW 7",
            "KNN 2 K 3 COMBINE LINEAR 6 ALPHA 0.3 BETA 0.7 WINDOW 5",
            "RANGE 2 RADIUS 5 COMBINE RRF 4 CONSTANT 2 WINDOW 9",
        ]
        .map(request);
        for _ in 0..300 {
            let mut hits: Vec<PartHit> = (0..random.below(60))
                .map(|number| PartHit {
                    key: format!("{number:03}").into_bytes().into(),
                    search: (random.below(3) > 0).then(|| random.below(20) as f64 / 4.0),
                    vector: (random.below(3) > 0).then(|| random.below(20) as f64 / 20.0),
                })
                .collect();
            hits.retain(|hit| hit.search.is_some() || hit.vector.is_some());
            for request in &requests {
                let mut parts = vec![Vec::new(); 1 + random.below(4) as usize];
                let places = parts.len() as u64;
                hits.iter().for_each(|hit| parts[random.below(places) as usize].push(hit.clone()));
                let mut sent: Vec<PartHit> = parts.iter().flat_map(|hits| part(request, hits)).collect();
                let expected = shown(request, &hits);
                let got = shown(request, &sent);
                // Equal fused scores come in the order of both lists.
                assert_eq!(got, expected, "seed {seed}");
                // A document that two parts have counts once.
                sent.extend(sent.first().cloned());
                assert_eq!(shown(request, &sent), expected, "seed {seed}");
            }
        }
    }
}
