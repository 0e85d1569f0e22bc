//! The best suggestions for the beginning of a text, exactly or with one edit.
//!
//! The search goes down the tree, the most promising child first, with what [`Match`] knows of the path; it
//! keeps the best candidates in a heap, and leaves a subtree out once no score in it can enter that heap.
//!
//! Invariant: the outcome does not depend on the order in which nodes are visited, as candidates are ordered
//! by score and text.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::character::{Characters, fold};
use super::node::{Entry, Node, Outlook};
use super::{PREFIX_MAX_CHARACTERS, Suggestion};

/// A search for the beginning of texts.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The beginning, in any case of letters.
    pub prefix: &'a [u8],
    /// Takes texts, too, of which some beginning is one edit away: a character more, less, or another.
    pub is_fuzzy: bool,
    /// How many suggestions are returned at most.
    pub max: usize,
}

/// A suggestion that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found<'a> {
    /// The text.
    pub text: Vec<u8>,
    /// The score: lower than the suggestion's own the longer the text is and the more edits it takes, and
    /// highest for a text that equals the prefix.
    pub score: f32,
    /// The payload; never empty.
    pub payload: Option<&'a [u8]>,
}

/// As many edits are as good as more of them.
const TOO_MANY: u8 = 2;
/// The score of a text that equals the prefix (RediSearch: `INT_MAX` as a float).
const EXACT_SCORE: f32 = i32::MAX as f32;

/// The prefix, folded, and how its matches are scored.
struct Pattern {
    folded: Vec<u32>,
    /// The prefix's length in bytes: RediSearch compares a text's characters with it.
    bytes: usize,
    /// Edits that are allowed.
    edits_max: u8,
}

/// How a path, the beginning of texts, matches the prefix.
#[derive(Clone, Copy)]
struct Match {
    /// Characters of the path.
    len: usize,
    /// The distances from the path to the first `len - 1`, `len` and `len + 1` characters of the prefix.
    row: [u8; 3],
    /// The fewest edits between the prefix and a beginning of the path, or [`TOO_MANY`].
    edits: u8,
    /// The path is a beginning of the folded prefix, or all of it.
    is_exact: bool,
}

impl Pattern {
    fn start(&self) -> Match {
        let mut start = Match { len: 0, row: [TOO_MANY, 0, 1], edits: TOO_MANY, is_exact: true };
        // An edit turns one character into none. A fuzzy empty prefix counts as an edit, as in RediSearch.
        if self.folded.len() <= usize::from(self.edits_max) {
            start.edits = self.edits_max;
        }
        start
    }

    /// The path with one more character.
    #[inline]
    fn step(&self, path: Match, character: u32) -> Match {
        let mut next = Match { len: path.len + 1, row: [TOO_MANY; 3], ..path };
        next.is_exact = path.is_exact && self.folded.get(path.len) == Some(&character);
        if path.row.iter().all(|edits| *edits > self.edits_max) {
            return next;
        }
        let folded = fold(character);
        let [_, above, right] = path.row;
        for at in 0..3 {
            // The distance to the first `end` characters of the prefix.
            let end = path.len + at;
            if end > self.folded.len() {
                break;
            }
            let left = if at == 0 { TOO_MANY } else { next.row[at - 1] };
            let over = [above, right, TOO_MANY][at];
            let same = end.checked_sub(1).and_then(|last| self.folded.get(last)) == Some(&folded);
            // Nothing is taken from before the prefix's beginning: that is no place.
            let diagonal = if end == 0 { TOO_MANY } else { path.row[at] + u8::from(!same) };
            let edits = (left + 1).min(over + 1).min(diagonal).min(TOO_MANY);
            next.row[at] = edits;
            if end == self.folded.len() && edits <= self.edits_max {
                next.edits = next.edits.min(edits);
            }
        }
        next
    }

    /// Whether texts that begin with the path can be found.
    fn can_match(&self, path: Match) -> bool {
        path.edits <= self.edits_max || path.row.iter().any(|edits| *edits <= self.edits_max)
    }

    /// The score of a text of `len` characters, or a bound of the scores of longer ones.
    fn score(&self, own: f32, edits: u8, lengths_apart: usize) -> f32 {
        let mut score = own;
        if self.edits_max > 0 {
            score = (f64::from(score) * (-2.0 * f64::from(edits)).exp()) as f32;
        }
        (f64::from(score) / (1.0 + lengths_apart as f64).sqrt()) as f32
    }

    /// The score of the text that the path is.
    fn score_of(&self, entry: &Entry, path: Match) -> f32 {
        let is_exact = path.is_exact && path.len == self.folded.len() && path.len > 0;
        let own = if is_exact { EXACT_SCORE } else { entry.score() };
        self.score(own, path.edits, path.len.abs_diff(self.bytes))
    }

    /// No text of the subtree behind the path has a higher score.
    fn bound(&self, Outlook { best, shortest }: Outlook, path: Match) -> f32 {
        if path.is_exact {
            return f32::INFINITY;
        }
        // A low score comes nearer to zero the longer the text is.
        if best < 0.0 {
            return 0.0;
        }
        let exactly_so_far = path.row[1] == 0;
        let edits = if exactly_so_far { 0 } else { path.edits.min(1) };
        self.score(best, edits, (path.len + usize::from(shortest)).saturating_sub(self.bytes))
    }
}

/// A candidate; the greatest is the worst.
struct Candidate<'a>(Found<'a>);

impl Ord for Candidate<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.score.total_cmp(&self.0.score).then_with(|| self.0.text.cmp(&other.0.text))
    }
}

impl PartialOrd for Candidate<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate<'_> {}

/// The best candidates so far.
struct Best<'a> {
    heap: BinaryHeap<Candidate<'a>>,
    max: usize,
}

impl<'a> Best<'a> {
    /// Whether a text that begins with `text` and scores at most `score` can enter.
    fn takes(&self, score: f32, text: &[u8]) -> bool {
        match self.heap.peek() {
            Some(Candidate(worst)) if self.heap.len() >= self.max => {
                score > worst.score || score == worst.score && text < &worst.text[..]
            }
            _ => self.max > 0,
        }
    }

    fn offer(&mut self, score: f32, suggestion: Suggestion<'_>, payload: Option<&'a [u8]>) {
        if !self.takes(score, suggestion.text) {
            return;
        }
        if self.heap.len() >= self.max {
            self.heap.pop();
        }
        self.heap.push(Candidate(Found { text: suggestion.text.to_vec(), score, payload }));
    }
}

/// A node to visit.
struct Visit<'a> {
    node: &'a Node,
    /// Bytes of the path to its parent.
    path_bytes: usize,
    /// The path with the node's own characters.
    path: Match,
    bound: f32,
}

/// See [`Suggestions::search`](super::Suggestions::search).
pub(super) fn search<'a>(root: &'a Node, query: Query<'_>) -> Option<Vec<Found<'a>>> {
    let folded: Vec<u32> = Characters(query.prefix).map(fold).take(PREFIX_MAX_CHARACTERS).collect();
    if folded.len() >= PREFIX_MAX_CHARACTERS {
        return None;
    }
    let pattern = Pattern { folded, bytes: query.prefix.len(), edits_max: u8::from(query.is_fuzzy) };
    let mut best = Best { heap: BinaryHeap::new(), max: query.max };
    let mut text = Vec::new();
    let start = pattern.start();
    let mut visits = vec![Visit { node: root, path_bytes: 0, path: start, bound: f32::INFINITY }];
    while let Some(Visit { node, path_bytes, path, bound }) = visits.pop() {
        text.truncate(path_bytes);
        text.extend_from_slice(node.label());
        if !best.takes(bound, &text) {
            continue;
        }
        if let Some(entry) = node.entry()
            && path.edits <= pattern.edits_max
        {
            let payload = entry.payload();
            best.offer(pattern.score_of(entry, path), entry.with_text(&text), payload);
        }
        let from = visits.len();
        for child in node.children() {
            let below = Characters(child.label()).fold(path, |path, character| pattern.step(path, character));
            if pattern.can_match(below) {
                let bound = pattern.bound(child.outlook(), below);
                visits.push(Visit { node: child, path_bytes: text.len(), path: below, bound });
            }
        }
        // The last one is visited first: that of the highest bound, and the first of equals.
        if let Some(pushed) = visits.get_mut(from..) {
            pushed.reverse();
            pushed.sort_by(|one, other| one.bound.total_cmp(&other.bound));
        }
    }
    Some(best.heap.into_sorted_vec().into_iter().map(|Candidate(found)| found).collect())
}
