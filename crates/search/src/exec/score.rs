//! Scores, by RediSearch's formulas, and their explanations in its words.

use super::near;
use crate::index::bits::Bits;
use crate::index::documents::Rank;
use crate::index::postings::positions;
use crate::index::statistics::Statistics;

/// How documents are scored.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub enum Scorer {
    /// Term frequency, inverse document frequency, by the document's most frequent term and the distance.
    #[default]
    TfIdf,
    /// The same by the document's length.
    TfIdfDocNorm,
    /// RediSearch's older BM25, by the distance.
    Bm25,
    /// BM25 as others know it.
    Bm25Std,
    /// BM25STD between 0 and 1 by the hyperbolic tangent.
    Bm25StdTanh,
    /// BM25STD as a part of the greatest score of all results.
    Bm25StdNorm,
    /// The frequencies alone: the greatest of alternatives.
    DisMax,
    /// The document's own score.
    DocScore,
    /// The reciprocal of the bits in which payloads differ.
    Hamming,
}

impl Scoring<'_> {
    /// The inverse document frequency of a name that stands in so many documents.
    pub(super) fn idf(&self, documents: u64) -> f64 {
        match self.scorer {
            Scorer::Bm25Std | Scorer::Bm25StdTanh | Scorer::Bm25StdNorm => {
                self.statistics.bm25_idf(documents)
            }
            _ => self.statistics.idf(documents),
        }
    }
}

impl Scorer {
    /// The scorer of this name, in any case.
    pub fn parse(name: &[u8]) -> Option<Scorer> {
        const NAMES: &[(&str, Scorer)] = &[
            ("TFIDF", Scorer::TfIdf),
            ("TFIDF.DOCNORM", Scorer::TfIdfDocNorm),
            ("BM25", Scorer::Bm25),
            ("BM25STD", Scorer::Bm25Std),
            ("BM25STD.TANH", Scorer::Bm25StdTanh),
            ("BM25STD.NORM", Scorer::Bm25StdNorm),
            ("DISMAX", Scorer::DisMax),
            ("DOCSCORE", Scorer::DocScore),
            ("HAMMING", Scorer::Hamming),
        ];
        NAMES.iter().find(|(n, _)| n.as_bytes().eq_ignore_ascii_case(name)).map(|&(_, scorer)| scorer)
    }

    /// Whether it looks at terms, and not at the document alone.
    pub fn wants_terms(self) -> bool {
        !matches!(self, Scorer::DocScore | Scorer::Hamming)
    }

    /// Whether scores are parts of the greatest one, which is known once all results are.
    pub fn is_normalised(self) -> bool {
        self == Scorer::Bm25StdNorm
    }

    /// Whether it looks at positions.
    pub fn wants_positions(self) -> bool {
        matches!(self, Scorer::TfIdf | Scorer::TfIdfDocNorm | Scorer::Bm25)
    }
}

/// How the documents of a query are scored.
#[derive(Copy, Clone, Debug, Default)]
pub struct Scoring<'a> {
    /// The formula.
    pub scorer: Scorer,
    /// Figures of the whole index.
    pub statistics: Statistics,
    /// The query's payload, for HAMMING.
    pub payload: Option<&'a [u8]>,
    /// Whether scores come with their explanations.
    pub explain: bool,
    /// Whether they come with the terms of the query that a document has.
    pub with_terms: bool,
    /// Whether texts alone count, as in FT.HYBRID: fields with vectors do not.
    pub by_texts: bool,
    /// The documents of a window that alone are scored: those whose vectors are the nearest, which is a part
    /// of their query that adds nothing.
    pub neighbours: Option<&'a Bits>,
}

/// An explanation: a line, and those of its parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    /// The line.
    pub text: String,
    /// Its parts.
    pub parts: Vec<Explanation>,
}

/// A term, or a tag, in a document.
#[derive(Copy, Clone, Debug)]
pub(super) struct Term<'a> {
    pub name: &'a [u8],
    pub weight: f64,
    pub frequency: u32,
    /// Its inverse document frequency, as the scorer has it.
    pub idf: f64,
    /// Where it stands, for [`positions`]; none for tags.
    pub places: Option<&'a [u8]>,
}

/// What is said of a match beside its score.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// The score's explanation, if that is asked for.
    pub explanation: Option<Explanation>,
    /// The terms of the query that the document has, if they are asked for.
    pub terms: Vec<Box<[u8]>>,
}

/// A term of the query that a document has.
#[derive(Clone, Debug, PartialEq)]
pub struct MatchedTerm {
    /// The term as the index has it: stems begin with `+`, sounds with `<`, groups of synonyms with `~`.
    pub name: Box<[u8]>,
    /// Its inverse document frequency by TFIDF.
    pub idf: f64,
}

/// The parts of a query that one document satisfies, as a tree.
#[derive(Debug)]
pub(super) enum Found<'a> {
    Term(Term<'a>),
    /// All documents: BM25STD and its explanation know it as a term.
    Every,
    /// Something without terms.
    Other {
        weight: f64,
        frequency: u32,
    },
    /// Of several names, the first that the document has.
    First {
        weight: f64,
        term: Option<Term<'a>>,
    },
    /// Several.
    Many {
        weight: f64,
        parts: Vec<Found<'a>>,
        is_union: bool,
    },
}

/// The document's part of a score.
#[derive(Copy, Clone, Debug)]
pub(super) struct Subject<'a> {
    pub rank: Rank,
    pub payload: Option<&'a [u8]>,
}

impl<'a> Found<'a> {
    /// That the document's vector is among the nearest.
    pub(super) fn neighbour() -> Found<'a> {
        Found::Other { weight: 1.0, frequency: 0 }
    }

    /// The same of a document whose vector is also among the nearest.
    pub(super) fn of_neighbour(self) -> Found<'a> {
        Found::Many { weight: 1.0, parts: vec![Found::neighbour(), self], is_union: false }
    }

    /// Positions of all terms below; none if this is of a kind that has none.
    pub(super) fn places(&self) -> Option<Vec<u32>> {
        match self {
            Found::Term(term) => term.places.filter(|places| !places.is_empty()).map(decoded),
            Found::Every | Found::Other { .. } => None,
            Found::First { term, .. } => term.map(|term| term.places.map_or_else(Vec::new, decoded)),
            Found::Many { parts, .. } => {
                let has_terms = parts.iter().any(Found::has_terms);
                let mut all: Vec<u32> = parts.iter().filter_map(Found::places).flatten().collect();
                all.sort_unstable();
                has_terms.then_some(all)
            }
        }
    }

    /// Calls `each` with all terms below.
    pub(super) fn each_term(&self, each: &mut impl FnMut(&Term<'_>)) {
        match self {
            Found::Term(term) | Found::First { term: Some(term), .. } => each(term),
            Found::Many { parts, .. } => parts.iter().for_each(|part| part.each_term(each)),
            Found::Every | Found::Other { .. } | Found::First { term: None, .. } => {}
        }
    }

    fn has_terms(&self) -> bool {
        match self {
            Found::Term(_) => true,
            Found::Every | Found::Other { .. } => false,
            Found::First { term, .. } => term.is_some(),
            Found::Many { parts, .. } => parts.iter().any(Found::has_terms),
        }
    }

    fn distance(&self) -> u32 {
        match self {
            Found::Many { parts, .. } if parts.len() > 1 => {
                near::distance(&parts.iter().map(Found::places).collect::<Vec<_>>())
            }
            _ => 1,
        }
    }
}

fn decoded(places: &[u8]) -> Vec<u32> {
    positions(places).collect()
}

/// BM25's constants.
const B: f64 = 0.5;
const K1: f64 = 1.2f32 as f64;

/// The score of a document, and how it came about, if `explain` is there.
pub(super) fn score(
    scoring: &Scoring<'_>,
    subject: &Subject<'_>,
    found: &Found<'_>,
    mut explain: Option<&mut Explanation>,
) -> f64 {
    let (scorer, statistics) = (scoring.scorer, &scoring.statistics);
    let own = f64::from(subject.rank.score);
    match scorer {
        Scorer::TfIdf | Scorer::TfIdfDocNorm => {
            let norm = match scorer {
                Scorer::TfIdf if scoring.by_texts => subject.rank.max_frequency,
                // RediSearch 2.10 counts each field with a vector, too.
                Scorer::TfIdf => subject.rank.max_frequency.saturating_add(subject.rank.vector_fields),
                _ => subject.rank.length,
            };
            if subject.rank.score == 0.0 {
                note(explain, || "Document score is 0".to_owned());
                return 0.0;
            }
            let terms = tf_idf(found, part(&mut explain));
            let distance = found.distance();
            note(explain, || {
                format!(
                    "Final TFIDF : words TFIDF {terms:.2} * document score {own:.2} / norm {norm} / slop {distance}"
                )
            });
            // Nothing of nothing is not a number in RediSearch, and stands anywhere.
            if terms == 0.0 {
                return 0.0;
            }
            let score = terms * own / f64::from(norm);
            if distance == 1 { score } else { score / f64::from(distance) }
        }
        Scorer::Bm25 => {
            let terms = bm25(statistics, found, part(&mut explain));
            let distance = found.distance();
            note(explain, || {
                format!("Final BM25 : words BM25 {terms:.2} * document score {own:.2} / slop {distance}")
            });
            terms * own / f64::from(distance)
        }
        Scorer::Bm25Std | Scorer::Bm25StdTanh | Scorer::Bm25StdNorm => {
            let terms = bm25_std(statistics, subject, found, part(&mut explain));
            let score = terms * own;
            note(explain, || format!("Final BM25 : words BM25 {terms:.2} * document score {own:.2}"));
            if scorer == Scorer::Bm25StdTanh { (score / 4.0).tanh() } else { score }
        }
        Scorer::DisMax => dis_max(found, explain),
        Scorer::DocScore => {
            note(explain, || format!("Document's score is {own:.2}"));
            own
        }
        Scorer::Hamming => hamming(subject.payload, scoring.payload, explain),
    }
}

fn note(explain: Option<&mut Explanation>, text: impl FnOnce() -> String) {
    if let Some(explain) = explain {
        explain.text = text();
    }
}

/// A new part of an explanation.
fn part<'a>(explain: &'a mut Option<&mut Explanation>) -> Option<&'a mut Explanation> {
    let explain = explain.as_deref_mut()?;
    explain.parts.push(Explanation::default());
    explain.parts.last_mut()
}

/// The sum over parts: each, or the only one of [`Found::First`].
fn sum<'a>(found: &'a Found<'a>, mut of: impl FnMut(&Found<'a>) -> f64) -> f64 {
    match found {
        Found::First { term, .. } => term.map_or(0.0, |term| of(&Found::Term(term))),
        Found::Many { parts, .. } => parts.iter().map(of).sum(),
        _ => 0.0,
    }
}

fn tf_idf(found: &Found<'_>, mut explain: Option<&mut Explanation>) -> f64 {
    match found {
        Found::Term(Term { weight, frequency, idf, .. }) => {
            let score = weight * f64::from(*frequency) * idf;
            note(explain, || {
                format!("(TFIDF {score:.2} = Weight {weight:.2} * TF {frequency} * IDF {idf:.2})")
            });
            score
        }
        Found::Every => tf_idf(&Found::Other { weight: 1.0, frequency: 1 }, explain),
        Found::Other { weight, frequency } => {
            let score = weight * f64::from(*frequency);
            note(explain, || format!("(TFIDF {score:.2} = Weight {weight:.2} * Frequency {frequency})"));
            score
        }
        Found::Many { weight, .. } | Found::First { weight, .. } => {
            let sum = sum(found, |found| tf_idf(found, part(&mut explain)));
            let score = weight * sum;
            note(explain, || format!("(Weight {weight:.2} * total children TFIDF {sum:.2})"));
            score
        }
    }
}

fn bm25(statistics: &Statistics, found: &Found<'_>, mut explain: Option<&mut Explanation>) -> f64 {
    let average = statistics.average_length;
    let one = |idf: f64, frequency: u32| {
        let f = f64::from(frequency);
        idf * f / (f + K1 * (1.0 - B + B * average))
    };
    match found {
        Found::Term(Term { frequency, idf, .. }) => {
            let score = one(*idf, *frequency);
            note(explain, || {
                format!(
                    "({score:.2} = IDF {idf:.2} * F {frequency} / (F {frequency} + k1 {K1:.1} * (1 - b {B:.1} + b \
                     {B:.1} * Average Len {average:.2})))"
                )
            });
            score
        }
        Found::Many { weight, .. } | Found::First { weight, .. } => {
            let sum = sum(found, |found| bm25(statistics, found, part(&mut explain)));
            note(explain, || format!("(Weight {weight:.2} * children BM25 {sum:.2})"));
            weight * sum
        }
        Found::Every => {
            let score = one(1.0, 1);
            note(explain, || {
                format!(
                    "({score:.2} = Weight 1.00 * F 1 / (F 1 + k1 {K1:.1} * (1 - b {B:.1} + b {B:.1} * Average Len \
                     {average:.2})))"
                )
            });
            score
        }
        Found::Other { frequency: 0, .. } => {
            note(explain, || "Frequency 0 -> value 0".to_owned());
            0.0
        }
        Found::Other { weight, frequency } => {
            let score = weight * one(1.0, *frequency);
            note(explain, || format!("({score:.2} = Weight {weight:.2} * Frequency {frequency})"));
            score
        }
    }
}

fn bm25_std(
    statistics: &Statistics,
    subject: &Subject<'_>,
    found: &Found<'_>,
    mut explain: Option<&mut Explanation>,
) -> f64 {
    let average = statistics.average_length;
    match found {
        Found::Term(Term { name, weight, frequency, idf, .. }) => {
            let (f, length) = (f64::from(*frequency), subject.rank.length);
            let below = f + K1 * (1.0 - B + B * f64::from(length) / average);
            let score = weight * idf * f * (K1 + 1.0) / below;
            note(explain, || {
                format!(
                    "{}: ({score:.2} = IDF {idf:.2} * (F {f:.2} * (k1 {K1:.1} + 1)) / (F {f:.2} + k1 {K1:.1} * (1 - b \
                     {B:.1} + b {B:.1} * Doc Len {length} / Average Doc Len {average:.2})))",
                    String::from_utf8_lossy(name)
                )
            });
            score
        }
        Found::Many { weight, .. } | Found::First { weight, .. } => {
            let sum = sum(found, |found| bm25_std(statistics, subject, found, part(&mut explain)));
            note(explain, || format!("(Weight {weight:.2} * children BM25 {sum:.2})"));
            weight * sum
        }
        Found::Every => {
            let term = Term { name: b"*", weight: 1.0, frequency: 1, idf: 1.0, places: None };
            bm25_std(statistics, subject, &Found::Term(term), explain)
        }
        Found::Other { .. } => {
            note(explain, || "Frequency 0 -> value 0".to_owned());
            0.0
        }
    }
}

fn dis_max(found: &Found<'_>, mut explain: Option<&mut Explanation>) -> f64 {
    match found {
        Found::Term(Term { weight, frequency, .. }) | Found::Other { weight, frequency } => {
            let score = weight * f64::from(*frequency);
            note(explain, || format!("DISMAX {score:.2} = Weight {weight:.2} * Frequency {frequency}"));
            score
        }
        Found::Every => dis_max(&Found::Other { weight: 1.0, frequency: 1 }, explain),
        Found::First { weight, .. } => {
            let joined = sum(found, |found| dis_max(found, part(&mut explain)));
            let score = weight * joined;
            note(explain, || format!("{score:.2} = Weight {weight:.2} * children DISMAX {joined:.2}"));
            score
        }
        Found::Many { weight, parts, is_union } => {
            let scores = parts.iter().map(|found| dis_max(found, part(&mut explain)));
            let joined: f64 = if *is_union { scores.fold(0.0, f64::max) } else { scores.sum() };
            let score = weight * joined;
            note(explain, || format!("{score:.2} = Weight {weight:.2} * children DISMAX {joined:.2}"));
            score
        }
    }
}

fn hamming(payload: Option<&[u8]>, query: Option<&[u8]>, explain: Option<&mut Explanation>) -> f64 {
    let (Some(payload), Some(query)) = (payload, query) else {
        note(explain, || "Payloads provided to scorer vary in length".to_owned());
        return 0.0;
    };
    if payload.is_empty() || payload.len() != query.len() {
        note(explain, || "Payloads provided to scorer vary in length".to_owned());
        return 0.0;
    }
    let bits: u32 = payload.iter().zip(query).map(|(a, b)| (a ^ b).count_ones()).sum();
    let score = 1.0 / (f64::from(bits) + 1.0);
    note(explain, || {
        format!(
            "String length is {}. Bit count is {bits}. Result is (1 / count + 1) = {score:.2}",
            payload.len()
        )
    });
    score
}
