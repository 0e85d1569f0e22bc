//! FT.SEARCH.

use martlet_command::{Acl, Error, Flags, Outcome, command};
use martlet_indexes::{Access, Run};
use martlet_protocol::reply::Reply;
use martlet_search::request::Search;

use super::{GROUP, context, limits, readable_index, time_limit};
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::search::job::{self, Job};

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&SEARCH];

static SEARCH: ServerCommand = command("ft.search", -3, search as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax(
        "index query ?NOCONTENT ?VERBATIM ?NOSTOPWORDS ?WITHSCORES ?WITHPAYLOADS ?WITHSORTKEYS \
         ?*+filter=FILTER(numeric_field min:d max:d) \
         ?geo_filter=GEOFILTER(geo_field lon:d lat:d radius:d radius_type(m|km|mi|ft)) \
         ?in_keys=INKEYS(count *key) ?in_fields=INFIELDS(count *field) \
         ?return=RETURN(count *identifier(identifier ?property=AS)) \
         ?summarize=SUMMARIZE(?fields=FIELDS(count *field) ?num:i=FRAGS ?fragsize:i=LEN ?separator=SEPARATOR) \
         ?highlight=HIGHLIGHT(?fields=FIELDS(count *field) ?tags=TAGS(open close)) ?slop:i=SLOP \
         ?timeout:i=TIMEOUT ?INORDER ?language=LANGUAGE ?expander=EXPANDER ?scorer=SCORER ?EXPLAINSCORE \
         ?payload=PAYLOAD ?sortby=SORTBY(sortby ?order(ASC|DESC)) ?limit=LIMIT(offset:i num:i) \
         ?params=PARAMS(nargs:i *values(name value)) ?dialect:i=DIALECT",
    )
    .doc(GROUP, "1.0.0", "O(N)", "Searches an index.");

fn search(call: &mut Call<'_>) -> Outcome {
    let words: Vec<&[u8]> = call.args.iter().collect();
    let index = readable_index(call, words[1])?;
    let text = |error: martlet_search::Error| Error::Text(error.to_string());
    let request = Search::parse(&words[2..], &limits(call)).map_err(text)?;
    let name = String::from_utf8_lossy(words[1]);
    let index = index.ok_or_else(|| Error::Text(format!("{name}: no such index")))?;
    index.count_dialect(request.query.dialect);
    let run = Run::new(index, request, context(call)).map_err(text)?;
    let limit = time_limit(call, run.request().query.timeout_ms);
    job::run(call, run, limit)
}

impl Job for Run {
    fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        Run::step(self, access, now_ms)
    }

    fn end_early(&mut self) {
        Run::end_early(self);
    }

    fn finish(self, reply: &mut Reply) {
        let request = self.request().clone();
        let results = self.into_results();
        crate::search::reply::write(&request, &results, reply);
    }
}
