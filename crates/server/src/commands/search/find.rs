//! FT.SEARCH.

use martlet_command::{Acl, Error, Flags, Outcome, command};
use martlet_indexes::{Access, Run};
use martlet_protocol::reply::Reply;
use martlet_search::request::{Limits, Search};
use martlet_search::searching::Context;

use super::GROUP;
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::search::job::{self, Job};

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&SEARCH];

static SEARCH: ServerCommand = command("ft.search", -3, search as ServerHandler)
    .flags(Flags::READONLY)
    .acl(Acl::READ.with(Acl::SEARCH))
    .doc(GROUP, "1.0.0", "O(N)", "Searches an index.");

fn search(call: &mut Call<'_>) -> Outcome {
    let words: Vec<&[u8]> = call.args.iter().collect();
    let text = |error: martlet_search::Error| Error::Text(error.to_string());
    let limits = Limits::default();
    let request = Search::parse(&words[2..], &limits).map_err(text)?;
    let name = String::from_utf8_lossy(words[1]);
    let index = call.worker.shared.indexes.find(words[1]);
    let index = index.ok_or_else(|| Error::Text(format!("{name}: no such index")))?;
    let context =
        Context { results_max: limits.search_results, is_resp3: call.reply.is_resp3(), ..Context::default() };
    let run = Run::new(index, request, context).map_err(text)?;
    job::run(call, run)
}

impl Job for Run {
    fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        Run::step(self, access, now_ms)
    }

    fn finish(self, access: &mut Access<'_>, now_ms: i64, reply: &mut Reply) {
        let request = self.request().clone();
        let results = self.into_results(access, now_ms);
        crate::search::reply::write(&request, &results, reply);
    }
}
