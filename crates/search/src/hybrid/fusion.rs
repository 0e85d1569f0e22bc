//! Two lists of documents with scores become one.

use std::collections::HashMap;
use std::hash::Hash;

use crate::schema::Metric;

/// COMBINE
#[derive(Clone, Debug, PartialEq)]
pub struct Combine {
    /// The formula.
    pub method: Method,
    /// WINDOW: how many documents each list has at the most.
    pub window: usize,
    /// YIELD_SCORE_AS: the property that has the fused score.
    pub score_name: Option<Box<[u8]>>,
}

impl Default for Combine {
    fn default() -> Self {
        Combine { method: Method::Rrf { constant: 60.0 }, window: 20, score_name: None }
    }
}

/// How the fused score comes about.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Method {
    /// Reciprocal rank fusion: 1 / (constant + rank) for each list, ranks from 1 on.
    Rrf {
        /// CONSTANT
        constant: f64,
    },
    /// The weighted sum of the scores.
    Linear {
        /// ALPHA: the weight of the score by text.
        alpha: f64,
        /// BETA: the weight of the similarity of vectors.
        beta: f64,
    },
}

/// A document of the fused list.
#[derive(Clone, Debug, PartialEq)]
pub struct Fused<K> {
    /// The document.
    pub key: K,
    /// Its score in the first list.
    pub search: Option<f64>,
    /// Its score in the second.
    pub vector: Option<f64>,
    /// The fused score.
    pub score: f64,
}

/// How alike two vectors of this distance are, between 0 and 1 for vectors of length 1.
pub fn similarity(metric: Metric, distance: f64) -> f64 {
    match metric {
        Metric::L2 => 1.0 / (1.0 + distance),
        // Both distances are 1 less the product.
        Metric::InnerProduct | Metric::Cosine => (1.0 + (1.0 - distance)) / 2.0,
    }
}

/// Fuses two lists, each with its best document first and no document twice: the greatest score first, equals
/// in the order in which they came, the first list before the second.
pub fn fuse<K: Clone + Eq + Hash>(search: &[(K, f64)], vector: &[(K, f64)], method: Method) -> Vec<Fused<K>> {
    let part = |list: usize, place: usize, score: f64| match method {
        Method::Rrf { constant } => 1.0 / (constant + (place + 1) as f64),
        Method::Linear { alpha, beta } => score * if list == 0 { alpha } else { beta },
    };
    let mut places = HashMap::with_capacity(search.len());
    let mut fused = Vec::with_capacity(search.len() + vector.len());
    for (place, (key, score)) in search.iter().enumerate() {
        places.insert(key, fused.len());
        let own = part(0, place, *score);
        fused.push(Fused { key: key.clone(), search: Some(*score), vector: None, score: own });
    }
    for (place, (key, score)) in vector.iter().enumerate() {
        let own = part(1, place, *score);
        match places.get(key).and_then(|&at| fused.get_mut(at)) {
            Some(both) => {
                both.vector = Some(*score);
                both.score += own;
            }
            None => fused.push(Fused { key: key.clone(), search: None, vector: Some(*score), score: own }),
        }
    }
    fused.sort_by(|a, b| b.score.total_cmp(&a.score));
    fused
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use martlet_base::random::Random;

    use super::*;

    fn scores(fused: &[Fused<&'static str>]) -> Vec<(&'static str, f64)> {
        fused.iter().map(|one| (one.key, one.score)).collect()
    }

    #[test]
    fn ranks_and_scores_are_fused() {
        let (search, vector) = ([("a", 3.0), ("b", 2.0)], [("b", 0.9), ("c", 0.5)]);
        let fused = fuse(&search, &vector, Method::Rrf { constant: 60.0 });
        let (first, second) = (1.0 / 61.0, 1.0 / 62.0);
        assert_eq!(scores(&fused), [("b", second + first), ("a", first), ("c", second)]);
        assert_eq!((fused[0].search, fused[0].vector), (Some(2.0), Some(0.9)));
        let fused = fuse(&search, &vector, Method::Linear { alpha: 0.3, beta: 0.7 });
        assert_eq!(scores(&fused), [("b", 0.3 * 2.0 + 0.7 * 0.9), ("a", 0.3 * 3.0), ("c", 0.7 * 0.5)]);
        assert_eq!(fuse::<u8>(&[], &[], Method::Rrf { constant: 1.0 }), []);
    }

    #[test]
    fn vectors_that_are_equal_are_most_alike() {
        assert_eq!(similarity(Metric::L2, 0.0), 1.0);
        assert_eq!(similarity(Metric::L2, 3.0), 0.25);
        assert_eq!(similarity(Metric::Cosine, 0.0), 1.0);
        assert_eq!(similarity(Metric::Cosine, 2.0), 0.0);
        assert_eq!(similarity(Metric::InnerProduct, 0.5), 0.75);
    }

    /// Each document's score equals the one by its places in both lists, looked up one by one.
    #[test]
    fn fused_lists_have_each_document_once_in_order() {
        let seed = Random::from_entropy().next_u64();
        let mut random = Random::seeded(seed);
        for _ in 0..500 {
            let mut list = |most: u64| -> Vec<(u64, f64)> {
                let mut keys: Vec<u64> = (0..30).filter(|_| random.below(30) < most).collect();
                for at in (1..keys.len()).rev() {
                    keys.swap(at, random.below(at as u64 + 1) as usize);
                }
                let mut scores: Vec<f64> = keys.iter().map(|_| random.below(9) as f64 / 2.0).collect();
                scores.sort_by(|a, b| b.total_cmp(a));
                keys.into_iter().zip(scores).collect()
            };
            let (search, vector) = (list(20), list(10));
            let methods = [Method::Rrf { constant: 7.5 }, Method::Linear { alpha: 0.25, beta: -0.5 }];
            for method in methods {
                let fused = fuse(&search, &vector, method);
                let mut wanted = BTreeMap::new();
                for key in 0..30 {
                    let places = [&search, &vector].map(|list| list.iter().position(|one| one.0 == key));
                    let score = match method {
                        Method::Rrf { constant } => {
                            places.iter().flatten().map(|&place| 1.0 / (constant + 1.0 + place as f64)).sum()
                        }
                        Method::Linear { alpha, beta } => {
                            let of = |list: &[(u64, f64)], place: Option<usize>| place.map(|at| list[at].1);
                            of(&search, places[0]).unwrap_or(0.0) * alpha
                                + of(&vector, places[1]).unwrap_or(0.0) * beta
                        }
                    };
                    if places != [None, None] {
                        wanted.insert(key, score);
                    }
                }
                let found: BTreeMap<u64, f64> = fused.iter().map(|one| (one.key, one.score)).collect();
                assert_eq!(found.len(), fused.len(), "seed {seed}");
                assert_eq!(
                    found.keys().collect::<Vec<_>>(),
                    wanted.keys().collect::<Vec<_>>(),
                    "seed {seed}"
                );
                let is_near = |(key, score): (&u64, &f64)| (found[key] - score).abs() < 1e-12;
                assert!(wanted.iter().all(is_near), "seed {seed}");
                assert!(fused.is_sorted_by(|a, b| a.score >= b.score), "seed {seed}");
            }
        }
    }
}
