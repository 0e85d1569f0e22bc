//! FT.SPELLCHECK: words of a query that no document has, with terms near them.
//!
//! A check is made in steps, of which each looks at some thousand names of one partition under its lock, or
//! of a dictionary; what it keeps is bounded by [`SUGGESTIONS_MAX`]. Its words are those of the query, in
//! their order, those of tags, phrases and negations included; patterns are no words.
//!
//! A server writes [`Found`] as RediSearch 2.10 does, here for `helo wrld zzzzz` in three documents:
//!
//! ```text
//! RESP2  *3  *3 +TERM $helo  *2  *2 $0.6666666666666666 $hello  *2 $0.3333333333333333 $held
//!            *3 +TERM $wrld  *1  *2 $0.3333333333333333 $world
//!            *3 +TERM $zzzzz *0
//! RESP3  %1 +results %3 $helo *2 %1 $hello ,0.6666666666666666 %1 $held ,0.3333333333333333
//!                       $wrld *1 %1 $world ,0.3333333333333333
//!                       $zzzzz *0
//! ```
//!
//! Without such a word the reply is an empty array, or `%1 +results %0`. A word that the query repeats is
//! repeated. [`Found::merge`] joins what the nodes of a cluster have found.
//!
//! With FULLSCOREINFO (RediSearch has it for its coordinator, and documents it nowhere) a score is the number
//! of documents, their total stands before the words (`:3`, and `+total_docs :3`), and a word that some
//! document has is there, too: `*3 +TERM $hello +term exists in index`; its value in RESP3 is an error of the
//! same words.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use martlet_base::number::parse_i64;

use crate::Error;
use crate::arguments::{Cursor, Numbers};
use crate::dictionaries::{Dictionaries, Dictionary};
use crate::index::partition::Partition;
use crate::index::postings::Postings;
use crate::index::whole::Index;
use crate::query::ast::{ALL_FIELDS, FieldMask, Kind, Node};
use crate::query::pattern::{Fuzzy, Step, successor};
use crate::query::{Options, Params, parse};
use crate::text::fold::folded;

/// Names that one step looks at.
const NAMES: usize = 4096;
/// Most terms that a check keeps; further ones are passed over.
pub const SUGGESTIONS_MAX: usize = 1 << 18;
/// The greatest DISTANCE.
const DISTANCE_MAX: i64 = 4;

/// The arguments of FT.SPELLCHECK. Arguments that it does not know are passed over, as in RediSearch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request<'a> {
    /// The index's name.
    pub index: &'a [u8],
    /// The query.
    pub query: &'a [u8],
    /// DIALECT
    pub dialect: u8,
    /// FULLSCOREINFO: numbers of documents, and also the words that documents have.
    pub has_full_scores: bool,
    /// DISTANCE and TERMS are read later: RediSearch looks for the index, and reads the query, before them.
    rest: &'a [&'a [u8]],
}

impl<'a> Request<'a> {
    /// The request of these arguments, from the index's name on; `dialect` is DEFAULT_DIALECT.
    ///
    /// # Errors
    /// DIALECT is refused.
    pub fn parse(arguments: &'a [&'a [u8]], dialect: u8) -> Result<Request<'a>, Error> {
        let mut cursor = Cursor::new(arguments, Numbers::C);
        let index = cursor.take_next().unwrap_or_default();
        let query = cursor.take_next().unwrap_or_default();
        let rest = cursor.rest();
        let has_full_scores = rest.iter().any(|word| word.eq_ignore_ascii_case(b"FULLSCOREINFO"));
        let mut request = Request { index, query, dialect, has_full_scores, rest };
        while let Some(argument) = cursor.take_next() {
            if argument.eq_ignore_ascii_case(b"DIALECT") {
                request.dialect = crate::request::read_dialect(&mut cursor)? as u8;
                break;
            }
        }
        Ok(request)
    }

    fn distance(&self) -> Result<u8, Error> {
        let Some(at) = self.rest.iter().position(|word| word.eq_ignore_ascii_case(b"DISTANCE")) else {
            return Ok(1);
        };
        let missing = || Error::new("DISTANCE arg is given but no DISTANCE comes after");
        let distance = parse_i64(self.rest.get(at + 1).ok_or_else(missing)?);
        distance
            .filter(|distance| (1..=DISTANCE_MAX).contains(distance))
            .map(|distance| distance as u8)
            .ok_or_else(|| Error::new("bad distance given, distance must be a natural number between 1 to 4"))
    }

    /// The dictionaries of TERMS: those that are included, and those that are excluded.
    fn dictionaries(&self, all: &Dictionaries) -> Result<[Vec<Arc<Dictionary>>; 2], Error> {
        let mut found = [Vec::new(), Vec::new()];
        let mut rest = self.rest;
        while let Some((word, behind)) = rest.split_first() {
            rest = behind;
            if !word.eq_ignore_ascii_case(b"TERMS") {
                continue;
            }
            let [side, name, behind @ ..] = behind else {
                return Err(Error::new("TERM arg is given but no TERM params comes after"));
            };
            let side = match () {
                () if side.eq_ignore_ascii_case(b"INCLUDE") => 0,
                () if side.eq_ignore_ascii_case(b"EXCLUDE") => 1,
                () => return Err(Error::new("bad format, exlude/include operation was not given")),
            };
            let dictionary = all.get(name).ok_or_else(|| {
                Error::new(format!("Dict does not exist: {}", String::from_utf8_lossy(name)))
            })?;
            if !found[side].iter().any(|other| Arc::ptr_eq(other, dictionary)) {
                found[side].push(Arc::clone(dictionary));
            }
            rest = behind;
        }
        Ok(found)
    }
}

/// A term that may be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// The term.
    pub text: Box<[u8]>,
    /// The entries that the index has of it, of documents that died lately included; none: it is a
    /// dictionary's.
    pub documents: u64,
}

/// A word that no document has, unless FULLSCOREINFO asks for all words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misspelled {
    /// The word, in lower case.
    pub word: Box<[u8]>,
    /// Whether a document has it; there is no suggestion then.
    pub is_known: bool,
    /// The terms near it, descending by their documents, then ascending by their bytes (RediSearch: in no
    /// order).
    pub suggestions: Vec<Suggestion>,
}

/// The results of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Documents of the index.
    pub documents: u64,
    /// The words, in the query's order.
    pub words: Vec<Misspelled>,
}

impl Found {
    /// A suggestion's score: the part of the documents that have it.
    pub fn score(&self, suggestion: &Suggestion) -> f64 {
        if self.documents == 0 { 0.0 } else { suggestion.documents as f64 / self.documents as f64 }
    }

    /// Joins the results of other documents for the same request: words that both miss are missed, those that
    /// one knows are known, and the numbers of documents are added. A dictionary's term that one part has in
    /// other fields only is suggested if another part lacks it.
    pub fn merge(&mut self, mut other: Found) {
        self.documents += other.documents;
        self.words.retain_mut(|mine| {
            let Some(at) = other.words.iter().position(|theirs| theirs.word == mine.word) else {
                return false;
            };
            let other = other.words.remove(at);
            if mine.is_known || other.is_known {
                (mine.is_known, mine.suggestions) = (true, Vec::new());
                return true;
            }
            for theirs in other.suggestions {
                match mine.suggestions.iter_mut().find(|suggestion| suggestion.text == theirs.text) {
                    Some(suggestion) => suggestion.documents += theirs.documents,
                    None => mine.suggestions.push(theirs),
                }
            }
            let texts = mine.suggestions.iter().filter(|one| one.documents > 0);
            let known: HashSet<Vec<u8>> = texts.map(|one| folded(&one.text).into_owned()).collect();
            mine.suggestions.retain(|one| one.documents > 0 || !known.contains(&*folded(&one.text)));
            sort(&mut mine.suggestions);
            true
        });
    }
}

fn sort(suggestions: &mut [Suggestion]) {
    suggestions.sort_by(|a, b| b.documents.cmp(&a.documents).then_with(|| a.text.cmp(&b.text)));
}

/// A word of the query that is to be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    folded: Box<[u8]>,
    text: Box<[u8]>,
    fields: FieldMask,
}

/// The sums of a term over the partitions.
#[derive(Clone, Copy, Debug, Default)]
struct Candidate {
    documents: u64,
    /// Whether one of the word's fields has it.
    is_in_field: bool,
}

/// The partition or the dictionary at which a word's check goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Partition(usize),
    Dictionary(usize),
}

/// The state of one word's check.
#[derive(Debug)]
struct Walk {
    is_new: bool,
    place: Place,
    from: Vec<u8>,
    fuzzy: Fuzzy,
    candidates: BTreeMap<Box<[u8]>, Candidate>,
    /// Terms of dictionaries that the index does not have.
    others: Vec<Box<[u8]>>,
}

/// The result of looking at names of one place.
enum Looked {
    /// The word is a name.
    Known,
    /// There are more, from here on.
    More(Vec<u8>),
    End,
}

/// A check on its way; see the [module docs](self).
#[derive(Debug)]
pub struct Check {
    index: Arc<Index>,
    distance: u8,
    lists_known: bool,
    included: Vec<Arc<Dictionary>>,
    words: std::vec::IntoIter<Word>,
    word: Option<(Word, Walk)>,
    left: usize,
    found: Found,
}

impl Check {
    /// The check that a request asks for.
    ///
    /// # Errors
    /// The query, DISTANCE or TERMS are refused, in this order.
    pub fn new(
        index: Arc<Index>,
        request: &Request<'_>,
        dictionaries: &Dictionaries,
    ) -> Result<Check, Error> {
        let rules = index.rules();
        let params = Params::new();
        let options = Options {
            dialect: request.dialect,
            stopwords: None,
            verbatim: true,
            ..Options::new(&rules.definition, &rules.stopwords, &params)
        };
        let root = parse(request.query, &options)?;
        let distance = request.distance()?;
        let [included, excluded] = request.dictionaries(dictionaries)?;
        let mut words = Vec::new();
        words_of(&root, &mut words);
        words.retain(|word| !excluded.iter().any(|dictionary| dictionary.has_folded(&word.folded)));
        let found = Found { documents: index.len() as u64, words: Vec::new() };
        let words = words.into_iter();
        let (lists_known, left) = (request.has_full_scores, SUGGESTIONS_MAX);
        Ok(Check { index, distance, lists_known, included, words, word: None, left, found })
    }

    /// A step; whether there are more.
    pub fn step(&mut self) -> bool {
        let Some((word, mut walk)) = self.word.take().or_else(|| self.next_word()) else { return false };
        if walk.is_new && self.is_known(&word) {
            self.note_known(word);
            return true;
        }
        walk.is_new = false;
        match self.look(&word, &mut walk) {
            Looked::Known => {
                self.note_known(word);
                return true;
            }
            Looked::More(from) => walk.from = from,
            Looked::End => {
                walk.from.clear();
                walk.fuzzy = Fuzzy::new(&word.folded, self.distance);
                walk.place = match walk.place {
                    Place::Partition(number) if number + 1 < self.index.partitions() => {
                        Place::Partition(number + 1)
                    }
                    Place::Partition(_) => Place::Dictionary(0),
                    Place::Dictionary(number) => Place::Dictionary(number + 1),
                };
                if walk.place == Place::Dictionary(self.included.len()) {
                    self.found.words.push(misspelled(word, walk));
                    return true;
                }
            }
        }
        self.word = Some((word, walk));
        true
    }

    /// The results, once [`Check::step`] has said that there are no more.
    pub fn into_found(self) -> Found {
        self.found
    }

    fn note_known(&mut self, word: Word) {
        if self.lists_known {
            self.found.words.push(Misspelled { word: word.text, is_known: true, suggestions: Vec::new() });
        }
    }

    fn next_word(&mut self) -> Option<(Word, Walk)> {
        let word = self.words.next()?;
        let fuzzy = Fuzzy::new(&word.folded, self.distance);
        let (candidates, others) = (BTreeMap::new(), Vec::new());
        let place = Place::Partition(0);
        let walk = Walk { is_new: true, place, from: Vec::new(), fuzzy, candidates, others };
        Some((word, walk))
    }

    /// Whether a term is the word itself; the walks find those that differ in their case.
    fn is_known(&self, word: &Word) -> bool {
        let mut partitions = (0..self.index.partitions()).filter_map(|number| self.index.partition(number));
        partitions.any(|partition| partition.terms().number(&word.folded).is_some())
    }

    fn look(&mut self, word: &Word, walk: &mut Walk) -> Looked {
        match walk.place {
            Place::Partition(number) => {
                let Some(partition) = self.index.partition(number) else { return Looked::End };
                look_at_terms(word, walk, &partition, &mut self.left)
            }
            Place::Dictionary(number) => match self.included.get(number) {
                Some(dictionary) => look_at_dictionary(walk, dictionary, &mut self.left),
                None => Looked::End,
            },
        }
    }
}

/// The words below a node, in the query's order.
fn words_of(node: &Node, words: &mut Vec<Word>) {
    if let Kind::Term(term) = &node.kind
        && !term.text.is_empty()
    {
        let text = term.text.to_ascii_lowercase().into_boxed_slice();
        words.push(Word { folded: (*folded(&text)).into(), text, fields: node.fields });
    }
    node.children().iter().for_each(|child| words_of(child, words));
}

fn look_at_terms(word: &Word, walk: &mut Walk, partition: &Partition, left: &mut usize) -> Looked {
    let terms = partition.terms();
    let mut from = std::mem::take(&mut walk.from);
    let mut budget = NAMES;
    loop {
        let mut skipped = None;
        for (name, number) in terms.from(&from) {
            if budget == 0 {
                return Looked::More(name.to_vec());
            }
            budget -= 1;
            let plain = folded(name);
            if *plain == *word.folded {
                return Looked::Known;
            }
            match walk.fuzzy.step(&plain) {
                Step::Match => {
                    if let Some((_, postings)) = terms.at(number) {
                        note(word, walk, name, partition, postings, left);
                    }
                }
                // A name with capitals stands elsewhere than the folded one.
                Step::Skip(length) if *plain == *name => {
                    skipped = name.get(..length).map(<[u8]>::to_vec);
                    break;
                }
                Step::Skip(_) | Step::Pass => {}
            }
        }
        if !skipped.is_some_and(|prefix| successor(&prefix, &mut from)) {
            return Looked::End;
        }
    }
}

/// Adds a partition's documents of a term that is near the word.
fn note(
    word: &Word,
    walk: &mut Walk,
    name: &[u8],
    partition: &Partition,
    postings: &Postings,
    left: &mut usize,
) {
    if !walk.candidates.contains_key(name) {
        if *left == 0 {
            return;
        }
        *left -= 1;
    }
    let candidate = walk.candidates.entry(name.into()).or_default();
    candidate.documents += postings.len() as u64;
    if !candidate.is_in_field && word.fields == ALL_FIELDS {
        candidate.is_in_field = true;
    } else if !candidate.is_in_field && word.fields != 0 {
        postings.all(partition.layout(), |entry| candidate.is_in_field |= entry.mask & word.fields != 0);
    }
}

fn look_at_dictionary(walk: &mut Walk, dictionary: &Dictionary, left: &mut usize) -> Looked {
    let mut from = std::mem::take(&mut walk.from);
    let mut budget = NAMES;
    loop {
        let mut skipped = None;
        for (name, spelling) in dictionary.folded_from(&from) {
            if budget == 0 {
                return Looked::More(name.to_vec());
            }
            budget -= 1;
            match walk.fuzzy.step(name) {
                Step::Match if *left > 0 => {
                    *left -= 1;
                    walk.others.push(spelling.into());
                }
                Step::Match | Step::Pass => {}
                Step::Skip(length) => {
                    skipped = name.get(..length).map(<[u8]>::to_vec);
                    break;
                }
            }
        }
        if !skipped.is_some_and(|prefix| successor(&prefix, &mut from)) {
            return Looked::End;
        }
    }
}

/// A word with its suggestions. They leave out a dictionary's term that the index has, and one of which they
/// have another spelling.
fn misspelled(word: Word, walk: Walk) -> Misspelled {
    let mut suggestions: Vec<Suggestion> = walk
        .candidates
        .iter()
        .filter(|(_, candidate)| candidate.is_in_field)
        .map(|(text, candidate)| Suggestion { text: text.clone(), documents: candidate.documents })
        .collect();
    let mut known: HashSet<Vec<u8>> = suggestions.iter().map(|one| folded(&one.text).into_owned()).collect();
    let others = walk.others.into_iter().filter(|text| !walk.candidates.contains_key(text));
    let others = others.filter(|text| known.insert(folded(text).into_owned()));
    suggestions.extend(others.map(|text| Suggestion { text, documents: 0 }));
    sort(&mut suggestions);
    Misspelled { word: word.text, is_known: false, suggestions }
}
