//! SUMMARIZE and HIGHLIGHT of results: which of a query's terms a hit has, and where its texts have them.
//!
//! As in RediSearch all places of a term are shown that the hit has, in whatever field and outside of phrases
//! too, and a pattern shows its first name alone. A text is analysed again when it is shown, so that offsets
//! are those of what is shown, and the index need not keep them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::Error;
use crate::exec::{DistanceField, Hit, MatchedTerm, MatchedTerms};
use crate::index::whole;
use crate::request::{Returned, ReturnedField, Search};
use crate::schema::{Definition, Field, FieldKind, Language, Source};
use crate::snippets::{Match, snippet};
use crate::synonyms::Synonyms;
use crate::text::{Analyser, Rules};

/// Shapes the texts of a request's results.
pub struct Highlighter {
    rules: Arc<whole::Rules>,
    matched: MatchedTerms,
    analyser: Analyser,
    /// The terms of the hit whose texts are shaped.
    terms: Vec<MatchedTerm>,
    language: Language,
}

impl Highlighter {
    /// The highlighter of a query that has been evaluated over an index with these rules.
    pub fn new(rules: Arc<whole::Rules>, matched: MatchedTerms) -> Highlighter {
        let language = rules.definition.language.unwrap_or_default();
        Highlighter { rules, matched, analyser: Analyser::new(), terms: Vec::new(), language }
    }

    /// Goes on to a hit, whose texts are in this language.
    pub fn begin(&mut self, hit: &Hit, language: Language) {
        self.language = language;
        self.terms = self.matched.of(hit.partition, &hit.key);
    }

    /// The text that a field of the hit shows instead of its own; `None` if it shows its own. `has_terms`
    /// says whether terms are looked for, which are those of text fields.
    pub fn shape(
        &mut self,
        returned: &Returned,
        name: &[u8],
        text: &[u8],
        has_terms: bool,
    ) -> Option<Vec<u8>> {
        let (summarize, highlight) = returned.shape_of(name);
        if summarize.is_none() && highlight.is_none() {
            return None;
        }
        let field = self.rules.definition.fields.iter().find(|field| *field.name == *name);
        let matches = match field.map(|field| &field.kind) {
            Some(FieldKind::Text(of)) if has_terms && !field.is_some_and(|field| field.no_index) => {
                let rules = Rules::of_field(of, self.language, &self.rules.stopwords);
                matches(&mut self.analyser, rules, &self.rules.synonyms, &self.terms, text)
            }
            _ => Vec::new(),
        };
        snippet(text, &matches, summarize, highlight)
    }
}

/// Checks the fields of a request whose texts are summarised or marked. With RETURN each must be of the
/// schema, else each that SUMMARIZE or HIGHLIGHT names must be among those that RediSearch knows before it
/// reads a document: of JSON these are the sortable ones and the key of SORTBY.
///
/// # Errors
/// RediSearch's, for the first field that is not.
pub(crate) fn check(
    definition: &Definition,
    request: &Search,
    distance_fields: &[DistanceField],
) -> Result<(), Error> {
    let returned = &request.returned;
    if request.no_content || request.count_only || !returned.is_highlighted() {
        return Ok(());
    }
    let sort_key = request.arrange.sort.iter().flatten().next();
    for ReturnedField { name, path, .. } in &returned.fields {
        let field = definition.fields.iter().find(|field| field.name == *path);
        let shown = String::from_utf8_lossy(name);
        let is_distance = distance_fields.iter().any(|field| field.name == *name);
        if returned.is_explicit && field.is_none() || is_distance {
            return Err(Error::new(format!("Property `{shown}` is not in schema")));
        }
        let is_known = |field: &Field| {
            definition.source == Source::Hash
                || field.sortable
                || sort_key.is_some_and(|key| key.name == field.name)
        };
        if !returned.is_explicit && !field.is_some_and(is_known) {
            return Err(Error::new(format!("No such property `{shown}`")));
        }
    }
    Ok(())
}

/// Where a text has terms of a query, one at each position: the first of those that a token stands for.
fn matches(
    analyser: &mut Analyser,
    rules: Rules<'_>,
    synonyms: &Synonyms,
    terms: &[MatchedTerm],
    text: &[u8],
) -> Vec<Match> {
    if terms.is_empty() {
        return Vec::new();
    }
    let mut wanted: HashMap<&[u8], (u32, f32)> = HashMap::with_capacity(terms.len());
    for (number, term) in (0..).zip(terms) {
        wanted.entry(&term.name).or_insert((number, term.idf as f32));
    }
    let is_chinese = rules.language == Language::Chinese;
    let mut found = Vec::new();
    analyser.analyse(text, rules, 0, |token| {
        let own = std::iter::once(token.term).chain(token.stem).chain(token.sound);
        let names = own.chain(synonyms.groups(token.term));
        let first = names.filter_map(|name| wanted.get(name)).min_by_key(|(number, _)| *number);
        if let Some(&(term, score)) = first {
            // RediSearch marks up to the next separator, an escaped one included. Ideographs have none.
            let end = is_chinese.then_some(token.range.end);
            found.push(Match { position: token.position, start: token.range.start, end, term, score });
        }
    });
    found
}

impl std::fmt::Debug for Highlighter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Highlighter").field("terms", &self.terms).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
