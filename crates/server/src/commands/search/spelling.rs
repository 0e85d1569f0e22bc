//! FT.SPELLCHECK: words of a query that no document has, with terms near them. The shapes of the reply are on
//! the page of `martlet_search::spelling`.

use std::sync::Arc;

use martlet_command::{Acl, Error, Flags, Outcome, command};
use martlet_indexes::Access;
use martlet_protocol::reply::Reply;
use martlet_search::request::Limits;
use martlet_search::spelling::{Check, Found, Misspelled, Request, Suggestion};

use super::{GROUP, readable_index};
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::search::job::{self, Job, TimeLimit};

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&SPELL_CHECK];

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

fn spell_check(call: &mut Call<'_>) -> Outcome {
    let words: Vec<&[u8]> = call.args.iter().skip(1).collect();
    let index = readable_index(call, words[0])?;
    let text = |error: martlet_search::Error| Error::Text(error.to_string());
    let request = Request::parse(&words, Limits::default().dialect as u8).map_err(text)?;
    let index = index.ok_or(Error::Fixed("Unknown Index name"))?;
    index.count_dialect(request.dialect.into());
    let shared = call.worker.shared;
    let check = shared.indexes.with_dictionaries(|all| Check::new(Arc::clone(index.index()), &request, all));
    let has_full_scores = request.has_full_scores;
    job::run(call, SpellCheck { check: check.map_err(text)?, has_full_scores }, TimeLimit::new(0, false))
}

/// The check whose end is a reply.
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
        let shape = Shape { found: &self.check.into_found(), has_full_scores: self.has_full_scores };
        if reply.is_resp3() { shape.write_map(reply) } else { shape.write_list(reply) }
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
