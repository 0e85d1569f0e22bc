//! FT.EXPLAIN and FT.EXPLAINCLI: how a query is understood.

use martlet_command::{Acl, Error, Flags, Outcome, command};
use martlet_search::aggregate::request::Aggregate;
use martlet_search::searching::explain;

use super::{GROUP, readable_index, text_line};
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::search::settings;

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&EXPLAIN, &EXPLAIN_CLI];

static EXPLAIN: ServerCommand = command("ft.explain", -3, explain_whole as ServerHandler)
    .flags(Flags::READONLY)
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("index query ?dialect:i=DIALECT")
    .doc(GROUP, "1.0.0", "O(1)", "Returns the execution plan for a complex query");
static EXPLAIN_CLI: ServerCommand = command("ft.explaincli", -3, explain_lines as ServerHandler)
    .flags(Flags::READONLY)
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("index query ?dialect:i=DIALECT")
    .doc(GROUP, "1.0.0", "O(1)", "Returns the execution plan for a complex query");

fn explain_whole(call: &mut Call<'_>) -> Outcome {
    let text = explained(call)?;
    call.reply.bulk(&text);
    Ok(())
}

fn explain_lines(call: &mut Call<'_>) -> Outcome {
    let text = explained(call)?;
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    call.reply.array(lines.len());
    lines.into_iter().for_each(|line| text_line(call.reply, line));
    Ok(())
}

/// The query's tree, a node a line.
fn explained(call: &mut Call<'_>) -> Result<Vec<u8>, Error> {
    let words: Vec<&[u8]> = call.args.iter().collect();
    let index = readable_index(call, words[1])?;
    let text = |error: martlet_search::Error| Error::Text(error.to_string());
    let request = Aggregate::parse(&words[2..], &settings::limits(call.worker.config())).map_err(text)?;
    let name = String::from_utf8_lossy(words[1]);
    let index = index.ok_or_else(|| Error::Text(format!("{name}: no such index")))?;
    explain(index.index(), &request.query).map_err(text)
}
