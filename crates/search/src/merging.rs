//! The results of a search over documents that are spread over parts, as over the nodes of a cluster.
//!
//! Each part has its first results in order. Merging compares the parts' first remaining results only, so a
//! longer beginning of a part never changes the order of the results before: pages fit each other. A document
//! that two parts have at the moment at which it moves from one to the other is shown and counted once, if
//! both show it.

use std::collections::HashSet;

use crate::exec::{Ranking, Ranks};
use crate::index::sortables::Sortable;

/// How the results of the parts become one.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Merging {
    /// The order of the results.
    pub ranking: Ranking,
    /// How many of the nearest vectors are wanted (KNN); each part has as many.
    pub nearest: Option<u64>,
}

/// A result of a part.
#[derive(Clone, Debug, PartialEq)]
pub struct PartRow {
    /// The document's key.
    pub key: Vec<u8>,
    /// Its score.
    pub score: f64,
    /// The distance of its vector.
    pub distance: Option<f32>,
    /// The value of the field by which results are sorted.
    pub sortable: Option<Sortable>,
    /// The result as a client sees it.
    pub body: Vec<u8>,
}

/// The results of a part, or of all parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// How many documents match.
    pub total: usize,
    /// The search was ended early.
    pub is_partial: bool,
    /// The first of them, in order.
    pub rows: Vec<PartRow>,
}

impl PartRow {
    fn ranks(&self) -> Ranks<'_> {
        Ranks { score: self.score, distance: self.distance, sortable: self.sortable.as_ref() }
    }
}

impl Merging {
    /// How many rows each part has to have for `kept` rows of the whole. A part's nearest vectors may be far
    /// from the nearest of all: all of them are needed, whatever they are sorted by.
    pub fn rows_of_part(&self, kept: u64) -> u64 {
        kept.max(self.nearest.unwrap_or(0))
    }

    /// The results of all parts: the first `kept` rows without the first `offset`.
    pub fn merge(&self, parts: Vec<Part>, offset: u64, kept: u64) -> Part {
        let mut whole = Part::default();
        let mut rows = Vec::with_capacity(parts.len());
        for part in parts {
            whole.total += part.total;
            whole.is_partial |= part.is_partial;
            rows.push(part.rows);
        }
        whole.total -= drop_repeated(&mut rows);
        if let Some(nearest) = self.nearest {
            let nearest = usize::try_from(nearest).unwrap_or(usize::MAX);
            keep_nearest(&mut rows, nearest);
            whole.total = whole.total.min(nearest);
        }
        let [offset, kept] = [offset, kept].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        whole.rows = self.in_order(rows, kept);
        whole.rows.drain(..offset.min(whole.rows.len()));
        whole
    }

    /// The first `kept` of the rows of all parts.
    fn in_order(&self, rows: Vec<Vec<PartRow>>, kept: usize) -> Vec<PartRow> {
        let mut heads: Vec<_> = rows.into_iter().map(|rows| rows.into_iter().peekable()).collect();
        let mut merged = Vec::new();
        while merged.len() < kept {
            let firsts = heads.iter_mut().enumerate().filter_map(|(at, rows)| Some((at, rows.peek()?)));
            let first = firsts.min_by(|(_, a), (_, b)| {
                self.ranking.compare(a.ranks(), b.ranks()).then_with(|| a.key.cmp(&b.key))
            });
            let Some(at) = first.map(|(at, _)| at) else { break };
            merged.extend(heads[at].next());
        }
        merged
    }
}

/// Leaves one row of each key; how many are gone.
fn drop_repeated(parts: &mut [Vec<PartRow>]) -> usize {
    let mut seen = HashSet::new();
    let mut is_repeated = |row: &PartRow| !seen.insert(row.key.clone());
    let mut gone = 0;
    for rows in parts {
        let before = rows.len();
        rows.retain(|row| !is_repeated(row));
        gone += before - rows.len();
    }
    gone
}

/// Leaves the `count` rows with the least distances.
fn keep_nearest(parts: &mut [Vec<PartRow>], count: usize) {
    let mut places: Vec<_> = (0..)
        .zip(parts.iter())
        .flat_map(|(part, rows)| {
            (0..).zip(rows).map(move |(at, row)| (row.distance.unwrap_or(f32::INFINITY), &row.key, part, at))
        })
        .collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(b.1)));
    let kept: HashSet<(usize, usize)> =
        places.into_iter().take(count).map(|(_, _, part, at)| (part, at)).collect();
    for (part, rows) in parts.iter_mut().enumerate() {
        let mut at = 0..;
        rows.retain(|_| at.next().is_some_and(|at| kept.contains(&(part, at))));
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use martlet_base::random::Random;

    use super::*;

    fn row(number: u64, random: &mut Random) -> PartRow {
        let sortable = match random.below(4) {
            0 => Sortable::Missing,
            1 => Sortable::Text(vec![b'a' + random.below(5) as u8].into()),
            _ => Sortable::Number(random.below(9) as f64),
        };
        let key = format!("{number:05}").into_bytes();
        PartRow {
            body: key.clone(),
            key,
            score: random.below(9) as f64,
            distance: Some(number as f32),
            sortable: Some(sortable),
        }
    }

    /// The first rows of these in order, as a search has them.
    fn part(merging: &Merging, rows: &[PartRow], kept: u64) -> Part {
        let mut rows = rows.to_vec();
        let nearest = merging.nearest.unwrap_or(u64::MAX).min(rows.len() as u64) as usize;
        rows.sort_by(|a, b| a.distance.unwrap_or(0.0).total_cmp(&b.distance.unwrap_or(0.0)));
        if merging.nearest.is_some() {
            rows.truncate(nearest);
        }
        let total = rows.len();
        rows.sort_by(|a, b| merging.ranking.compare(a.ranks(), b.ranks()).then_with(|| a.key.cmp(&b.key)));
        rows.truncate(kept as usize);
        Part { total, is_partial: false, rows }
    }

    fn all_mergings(random: &mut Random) -> Vec<Merging> {
        let mut all = Vec::new();
        for nearest in [None, Some(random.below(60))] {
            for descending in [false, true] {
                all.push(Merging { ranking: Ranking::Distance { descending }, nearest });
                all.push(Merging { ranking: Ranking::Sortable { place: 0, descending }, nearest });
            }
            all.push(Merging { ranking: Ranking::Score, nearest });
        }
        all
    }

    #[test]
    fn the_merged_parts_are_the_whole() {
        let seed = Random::from_entropy().next_u64();
        let mut random = Random::seeded(seed);
        for _ in 0..200 {
            let rows: Vec<PartRow> = (0..random.below(120)).map(|number| row(number, &mut random)).collect();
            for merging in all_mergings(&mut random) {
                let (offset, count) = (random.below(30), random.below(40));
                let kept = offset + count;
                let mut parts = vec![Vec::new(); 1 + random.below(5) as usize];
                let places = parts.len() as u64;
                rows.iter().for_each(|row| parts[random.below(places) as usize].push(row.clone()));
                let of_part = merging.rows_of_part(kept);
                let parts = parts.iter().map(|rows| part(&merging, rows, of_part)).collect();
                let mut whole = part(&merging, &rows, kept);
                whole.rows.drain(..whole.rows.len().min(offset as usize));
                assert_eq!(merging.merge(parts, offset, kept), whole, "seed {seed} {merging:?}");
            }
        }
    }

    /// Parts order equal results by age, not by name.
    #[test]
    fn pages_fit_each_other() {
        let seed = Random::from_entropy().next_u64();
        let mut random = Random::seeded(seed);
        let merging = Merging { ranking: Ranking::Score, nearest: None };
        let mut parts = vec![Part::default(); 3];
        for number in 0..90 {
            let mut row = row((number * 37) % 90, &mut random);
            row.score = (number / 45) as f64;
            parts[random.below(3) as usize].rows.push(row);
        }
        for part in &mut parts {
            part.rows.sort_by(|a, b| b.score.total_cmp(&a.score));
            part.total = part.rows.len();
        }
        let beginnings = |kept: usize| {
            let mut beginnings = parts.clone();
            beginnings.iter_mut().for_each(|part| part.rows.truncate(kept));
            beginnings
        };
        let all = merging.merge(beginnings(90), 0, 90).rows;
        let pages = (0..9).flat_map(|page| {
            merging.merge(beginnings(page * 10 + 10), page as u64 * 10, page as u64 * 10 + 10).rows
        });
        assert_eq!(pages.collect::<Vec<_>>(), all, "seed {seed}");
        assert!(all.is_sorted_by(|a, b| merging.ranking.compare(a.ranks(), b.ranks()) != Ordering::Greater));
    }

    #[test]
    fn a_document_on_its_way_counts_once() {
        let mut random = Random::seeded(1);
        let rows: Vec<PartRow> = (0..4).map(|number| row(number, &mut random)).collect();
        let merging = Merging { ranking: Ranking::Score, nearest: None };
        let parts = vec![part(&merging, &rows[..3], 9), part(&merging, &rows[2..], 9)];
        assert_eq!(merging.merge(parts, 0, 9), part(&merging, &rows, 9));
        let is_partial = Part { is_partial: true, ..Part::default() };
        assert!(merging.merge(vec![Part::default(), is_partial], 0, 9).is_partial);
    }
}
