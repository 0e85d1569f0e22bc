//! FT.SPELLCHECK: words of a query that no document has, with terms near them. The shapes of the reply are on
//! the page of `martlet_search::spelling`.

use std::sync::Arc;

use martlet_command::{Acl, Error, Flags, Outcome, command};
use martlet_indexes::{Access, KeyIndex};
use martlet_protocol::reply::Reply;
use martlet_search::request::Limits;
use martlet_search::spelling::{Check, Found, Misspelled, Request, Suggestion};

use super::{GROUP, readable_index};
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::search::job::{self, Job, TimeLimit};
use crate::search::nodes::{self, Nodes, PartOf, PartRequest};
use crate::search::spelled;

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&SPELL_CHECK, &SPELL_CHECK_PART];

static SPELL_CHECK: ServerCommand = command("ft.spellcheck", -3, spell_check as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax(
        "index query ?distance:i=DISTANCE ?terms=TERMS(inclusion(INCLUDE|EXCLUDE) dictionary *?terms) \
         ?dialect:i=DIALECT",
    )
    .doc(
        GROUP,
        "1.4.0",
        "O(1)",
        "Performs spelling correction on a query, returning suggestions for misspelled terms",
    );

/// The value of a word that documents have, beside FULLSCOREINFO.
const KNOWN: &str = "term exists in index";

/// A node's part of FT.SPELLCHECK, for the node that a client has asked: the query's words
/// with their suggestions ([`spelled`]), and also the words that its documents have.
static SPELL_CHECK_PART: ServerCommand = command("_ft.spellcheck", -4, spell_check_part as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("slots:i index query ?*option")
    .doc(
        GROUP,
        "8.0.0",
        "O(1)",
        "Corrects the words of a query by a node's part of an index, for another node.",
    );

fn spell_check(call: &mut Call<'_>) -> Outcome {
    let words: Vec<&[u8]> = call.args.iter().skip(1).collect();
    let index = readable_index(call, words[0])?;
    let request = parse(&words)?;
    let index = index.ok_or(Error::Fixed("Unknown Index name"))?;
    index.count_dialect(request.dialect.into());
    let (check, has_full_scores) = (check(call, &index, &request)?, request.has_full_scores);
    if let Some(nodes) = Nodes::of(call)? {
        let request = PartRequest::new(SPELL_CHECK_PART.spec.name, &[], call, 0);
        nodes.answer_parts(call, request, spelled::decode, move |parts, reply| {
            let mut parts = parts.into_iter().flatten();
            let mut found = parts.next().unwrap_or_default();
            parts.for_each(|part| found.merge(part));
            found.words.retain(|word| has_full_scores || !word.is_known);
            write(&found, has_full_scores, reply);
        });
        return Ok(());
    }
    job::run(call, SpellCheck { check, has_full_scores }, TimeLimit::new(0, false))
}

fn spell_check_part(call: &mut Call<'_>) -> Outcome {
    let part = PartOf::check(call)?;
    let words: Vec<&[u8]> = call.args.iter().skip(2).collect();
    let mut request = parse(&words)?;
    // A word that one node's documents have is no misspelled one.
    request.has_full_scores = true;
    let index = call.worker.shared.indexes.find(words[0]).ok_or(nodes::OTHER_INDEXES)?;
    let check = check(call, &index, &request)?;
    job::run(call, part.job(SpellCheckPart(check)), TimeLimit::new(0, false))
}

fn parse<'a>(words: &'a [&'a [u8]]) -> Result<Request<'a>, Error> {
    Request::parse(words, Limits::default().dialect as u8).map_err(|error| Error::Text(error.to_string()))
}

fn check(call: &Call<'_>, index: &KeyIndex, request: &Request<'_>) -> Result<Check, Error> {
    let indexes = &call.worker.shared.indexes;
    let check = indexes.with_dictionaries(|all| Check::new(Arc::clone(index.index()), request, all));
    check.map_err(|error| Error::Text(error.to_string()))
}

fn write(found: &Found, has_full_scores: bool, reply: &mut Reply) {
    let shape = Shape { found, has_full_scores };
    if reply.is_resp3() { shape.write_map(reply) } else { shape.write_list(reply) }
}

/// The check whose end is the reply to a client.
struct SpellCheck {
    check: Check,
    has_full_scores: bool,
}

impl Job for SpellCheck {
    fn step(&mut self, _: &mut Access<'_>, _: i64) -> bool {
        !self.check.step()
    }

    fn end_early(&mut self) {}

    fn finish(self, reply: &mut Reply) {
        write(&self.check.into_found(), self.has_full_scores, reply);
    }
}

/// The check whose end is the answer to a node.
struct SpellCheckPart(Check);

impl Job for SpellCheckPart {
    fn step(&mut self, _: &mut Access<'_>, _: i64) -> bool {
        !self.0.step()
    }

    fn end_early(&mut self) {}

    fn finish(self, reply: &mut Reply) {
        reply.bulk(&spelled::encode(&self.0.into_found()));
    }
}

struct Shape<'a> {
    found: &'a Found,
    has_full_scores: bool,
}

impl Shape<'_> {
    fn write_list(&self, reply: &mut Reply) {
        reply.array(self.found.words.len() + usize::from(self.has_full_scores));
        if self.has_full_scores {
            reply.unsigned(self.found.documents);
        }
        for Misspelled { word, is_known, suggestions } in &self.found.words {
            reply.array(3);
            reply.simple("TERM");
            reply.bulk(word);
            if *is_known {
                reply.simple(KNOWN);
                continue;
            }
            reply.array(suggestions.len());
            for suggestion in suggestions {
                reply.array(2);
                self.write_score(suggestion, reply);
                reply.bulk(&suggestion.text);
            }
        }
    }

    fn write_map(&self, reply: &mut Reply) {
        reply.map(1 + usize::from(self.has_full_scores));
        if self.has_full_scores {
            reply.simple("total_docs");
            reply.unsigned(self.found.documents);
        }
        reply.simple("results");
        reply.map(self.found.words.len());
        for Misspelled { word, is_known, suggestions } in &self.found.words {
            reply.bulk(word);
            if *is_known {
                reply.error(KNOWN);
                continue;
            }
            reply.array(suggestions.len());
            for suggestion in suggestions {
                reply.map(1);
                reply.bulk(&suggestion.text);
                self.write_score(suggestion, reply);
            }
        }
    }

    fn write_score(&self, suggestion: &Suggestion, reply: &mut Reply) {
        match self.has_full_scores {
            true => reply.double(suggestion.documents as f64),
            false => reply.double(self.found.score(suggestion)),
        }
    }
}
