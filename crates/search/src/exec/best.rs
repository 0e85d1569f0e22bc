//! The best matches of an evaluation, in order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::evaluation::{Distances, Match};
use super::score::Explanation;
use crate::index::DocId;
use crate::index::sortables::{Sortable, SortableRef};

/// By what matches are ordered. Among equals the document that came into the index first is first; it is last
/// where the greatest value is first.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Ranking {
    /// The greatest score first.
    Score,
    /// The least distance of the first vector query first, or the greatest.
    Distance {
        /// Whether the greatest is first.
        descending: bool,
    },
    /// By the distance of a vector query that is not the first.
    FurtherDistance {
        /// Its place among a match's distances.
        place: usize,
        /// Whether the greatest is first.
        descending: bool,
    },
    /// By the numbers of a field that is indexed.
    Number {
        /// The field's number in the schema.
        field: usize,
        /// Whether the greatest is first.
        descending: bool,
    },
    /// By a sortable field; the number is its place among those.
    Sortable {
        /// The place.
        place: usize,
        /// Whether the greatest is first.
        descending: bool,
    },
}

/// The values of a result by which it is ordered.
#[derive(Copy, Clone, Debug)]
pub struct Ranks<'a> {
    /// Its score.
    pub score: f64,
    /// The first of its distances.
    pub distance: Option<f32>,
    /// The value of the field, or the further distance, by which results are sorted.
    pub sortable: Option<&'a Sortable>,
}

impl Ranking {
    /// The order of equals, by their numbers in the index.
    fn by_age(self, a: u64, b: u64) -> Ordering {
        match self {
            Ranking::Distance { descending: true }
            | Ranking::FurtherDistance { descending: true, .. }
            | Ranking::Number { descending: true, .. }
            | Ranking::Sortable { descending: true, .. } => b.cmp(&a),
            _ => a.cmp(&b),
        }
    }

    /// The order of two results; equal ones are in any order.
    pub fn compare(self, a: Ranks<'_>, b: Ranks<'_>) -> Ordering {
        match self {
            Ranking::Score => b.score.total_cmp(&a.score),
            Ranking::Distance { descending } => by_distance(a.distance, b.distance, descending),
            Ranking::Sortable { descending, .. }
            | Ranking::Number { descending, .. }
            | Ranking::FurtherDistance { descending, .. } => {
                by_value(value(a.sortable), value(b.sortable), descending)
            }
        }
    }
}

/// A match that is kept beyond its partition's lock.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The document's key.
    pub key: Box<[u8]>,
    /// Its partition.
    pub partition: usize,
    /// Its id there.
    pub id: DocId,
    /// Its number in the index.
    pub sequence: u64,
    /// Its score.
    pub score: f64,
    /// The score's explanation.
    pub explanation: Option<Explanation>,
    /// The distances of its vectors.
    pub distances: Distances,
    /// The value that orders it.
    pub sortable: Option<Sortable>,
    /// Its payload, if that was asked for.
    pub payload: Option<Box<[u8]>>,
}

impl Hit {
    /// The values by which it is ordered.
    pub fn ranks(&self) -> Ranks<'_> {
        Ranks { score: self.score, distance: self.distance(), sortable: self.sortable.as_ref() }
    }

    /// The first of its distances.
    pub fn distance(&self) -> Option<f32> {
        distance(&self.distances, 0)
    }
}

/// The first matches by a ranking, and how many there were in all.
#[derive(Debug)]
pub struct Best {
    ranking: Ranking,
    most: usize,
    with_payloads: bool,
    heap: BinaryHeap<Ranked>,
    total: usize,
    /// The greatest score of all matches, if scores are to be parts of it.
    greatest: Option<f64>,
}

/// A hit by its rank: the last is the greatest.
#[derive(Debug)]
struct Ranked {
    ranking: Ranking,
    hit: Hit,
}

impl Best {
    /// Nothing yet; at most `most` hits are kept.
    pub fn new(ranking: Ranking, most: usize, with_payloads: bool) -> Best {
        Best { ranking, most, with_payloads, heap: BinaryHeap::new(), total: 0, greatest: None }
    }

    /// The same with scores that are parts of the greatest one, if `is_normalised`.
    pub fn normalised(self, is_normalised: bool) -> Best {
        Best { greatest: is_normalised.then_some(0.0), ..self }
    }

    /// How many matches there were.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Takes a match.
    pub fn add(&mut self, found: Match<'_>) {
        self.note(found.score);
        if self.most == 0 || self.heap.len() == self.most && !self.is_better(&found) {
            return;
        }
        let hit = self.hit(found);
        self.keep(hit);
    }

    /// Takes a hit whose value the caller has set.
    pub fn offer(&mut self, hit: Hit) {
        self.note(hit.score);
        self.keep(hit);
    }

    fn note(&mut self, score: f64) {
        self.total += 1;
        if let Some(greatest) = &mut self.greatest {
            *greatest = greatest.max(score);
        }
    }

    fn keep(&mut self, hit: Hit) {
        self.heap.push(Ranked { ranking: self.ranking, hit });
        if self.heap.len() > self.most {
            self.heap.pop();
        }
    }

    /// A match as it is kept.
    pub fn hit(&self, found: Match<'_>) -> Hit {
        let document = found.document();
        let sortable = match self.ranking {
            Ranking::Sortable { place, .. } => Some(found.sortable(place).into()),
            Ranking::Number { field, .. } => Some(number(&found, field).into()),
            Ranking::FurtherDistance { place, .. } => Some(further(&found, place).into()),
            Ranking::Score | Ranking::Distance { .. } => None,
        };
        Hit {
            key: document.map(|document| document.key.clone()).unwrap_or_default(),
            partition: found.partition,
            id: found.id,
            sequence: found.rank.sequence,
            score: found.score,
            explanation: found.notes.explanation,
            distances: found.distances,
            sortable,
            payload: document.filter(|_| self.with_payloads).and_then(|document| document.payload.clone()),
        }
    }

    /// Whether a match comes before the last one that is kept.
    fn is_better(&self, found: &Match<'_>) -> bool {
        let Some(Ranked { hit: last, .. }) = self.heap.peek() else { return true };
        let order = match self.ranking {
            Ranking::Score => last.score.total_cmp(&found.score),
            Ranking::Distance { descending } => {
                by_distance(distance(&found.distances, 0), last.distance(), descending)
            }
            Ranking::FurtherDistance { place, descending } => {
                by_value(further(found, place), value(last.sortable.as_ref()), descending)
            }
            Ranking::Sortable { place, descending } => {
                by_value(found.sortable(place), value(last.sortable.as_ref()), descending)
            }
            Ranking::Number { field, descending } => {
                by_value(number(found, field), value(last.sortable.as_ref()), descending)
            }
        };
        order.then(self.ranking.by_age(found.rank.sequence, last.sequence)) == Ordering::Less
    }

    /// The hits in order, without the first `offset`.
    pub fn into_hits(self, offset: usize) -> Vec<Hit> {
        let ranked = self.heap.into_sorted_vec();
        let mut hits: Vec<Hit> = ranked.into_iter().skip(offset).map(|ranked| ranked.hit).collect();
        if let Some(greatest) = self.greatest.filter(|greatest| *greatest > 0.0) {
            hits.iter_mut().for_each(|hit| hit.score /= greatest);
        }
        hits
    }
}

fn number(found: &Match<'_>, field: usize) -> SortableRef<'static> {
    found.number(field).map_or(SortableRef::Missing, SortableRef::Number)
}

fn value(sortable: Option<&Sortable>) -> SortableRef<'_> {
    sortable.map_or(SortableRef::Missing, Sortable::as_ref)
}

/// The distance at a place.
fn distance(distances: &[Option<f32>], place: usize) -> Option<f32> {
    distances.get(place).copied().flatten()
}

fn further(found: &Match<'_>, place: usize) -> SortableRef<'static> {
    let distance = distance(&found.distances, place);
    distance.map_or(SortableRef::Missing, |distance| SortableRef::Number(f64::from(distance)))
}

/// Matches without a distance come last in either direction.
fn by_distance(a: Option<f32>, b: Option<f32>, descending: bool) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) if descending => b.total_cmp(&a),
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

/// Documents without the value come last in either direction.
fn by_value(a: SortableRef<'_>, b: SortableRef<'_>, descending: bool) -> Ordering {
    let order = match (a, b) {
        (SortableRef::Missing, SortableRef::Missing) => return Ordering::Equal,
        (SortableRef::Missing, _) => return Ordering::Greater,
        (_, SortableRef::Missing) => return Ordering::Less,
        (SortableRef::Number(a), SortableRef::Number(b)) => a.total_cmp(&b),
        (SortableRef::Text(a), SortableRef::Text(b)) => a.cmp(b),
        (SortableRef::Number(_), SortableRef::Text(_)) => Ordering::Less,
        (SortableRef::Text(_), SortableRef::Number(_)) => Ordering::Greater,
    };
    if descending { order.reverse() } else { order }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (&self.hit, &other.hit);
        self.ranking.compare(a.ranks(), b.ranks()).then(self.ranking.by_age(a.sequence, b.sequence))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}

#[cfg(test)]
mod tests {
    use martlet_base::random::Random;

    use super::*;
    use crate::exec::score::Notes;
    use crate::index::content::Content;
    use crate::index::partition::Partition;
    use crate::index::partition::tests::definition;

    /// The number of the field with numbers.
    const NUMBERS: usize = 2;

    /// A partition whose documents have the numbers from 0 on in the index, and these values.
    fn partition(values: &[Sortable]) -> Partition {
        let mut partition = Partition::new(&definition());
        for (sequence, value) in values.iter().enumerate() {
            let key = sequence.to_string().into_bytes();
            let mut content = Content { key, score: 1.0, ..Content::default() };
            content.sortables.push(value.clone());
            if let Sortable::Number(number) = value {
                content.numbers.push((NUMBERS, *number));
            }
            partition.put(&mut content, Vec::new(), || sequence as u64);
        }
        partition
    }

    #[test]
    fn the_best_are_those_of_a_sort_of_all() {
        let seed = Random::from_entropy().next_u64();
        let mut random = Random::seeded(seed);
        for ranking in [
            Ranking::Score,
            Ranking::Distance { descending: false },
            Ranking::Distance { descending: true },
            Ranking::Sortable { place: 0, descending: false },
            Ranking::Sortable { place: 0, descending: true },
            Ranking::FurtherDistance { place: 1, descending: false },
            Ranking::FurtherDistance { place: 1, descending: true },
            Ranking::Number { field: NUMBERS, descending: false },
            Ranking::Number { field: NUMBERS, descending: true },
        ] {
            let most = random.below(40) as usize;
            let (mut best, mut all) = (Best::new(ranking, most, false), Best::new(ranking, 1_000, false));
            let values: Vec<Sortable> = (0..200)
                .map(|_| match random.below(4) {
                    0 => Sortable::Missing,
                    1 => Sortable::Text(vec![b'a' + random.below(5) as u8].into()),
                    _ => Sortable::Number(random.below(9) as f64),
                })
                .collect();
            let within = &partition(&values);
            let mut ids: Vec<u64> = (0..200).collect();
            for at in 0..200usize {
                ids.swap(at, random.below(200) as usize);
            }
            for id in ids {
                let score = random.below(9) as f64;
                let near = [random.below(9) as f32, random.below(9) as f32];
                let rank = within.documents().rank(id);
                for best in [&mut best, &mut all] {
                    let notes = Notes::default();
                    let distances = near.map(|near| (near < 6.0).then_some(near)).into_iter().collect();
                    best.add(Match { within, rank, partition: 0, id, score, notes, distances });
                }
            }
            assert_eq!((best.total(), all.total()), (200, 200));
            let key = |hits: Vec<Hit>| hits.into_iter().map(|hit| hit.sequence).collect::<Vec<_>>();
            let (best, mut all) = (key(best.into_hits(3)), key(all.into_hits(3)));
            all.truncate(most.saturating_sub(3));
            assert_eq!(best, all, "seed {seed} {ranking:?}");
        }
    }
}
