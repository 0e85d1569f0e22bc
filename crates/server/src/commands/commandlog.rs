//! COMMANDLOG and SLOWLOG: commands that took long, came in a long request or made a long reply.

use martlet_base::number::parse_i64;
use martlet_command::{Error, Flags, Group, Outcome, Tip, command, container};
use martlet_protocol::reply::Reply;

use super::{Call, ServerCommand, ServerHandler};
use crate::commandlog::{Log, LogKind};

/// The families.
pub static COMMANDS: &[&ServerCommand] = &[&COMMANDLOG, &SLOWLOG];

const ADMIN: Flags = OPEN.with(Flags::ADMIN);
const OPEN: Flags = Flags::LOADING.with(Flags::STALE);
const LEN_TIPS: &[Tip] = &[Tip::REQUEST_ALL_NODES, Tip::RESPONSE_AGG_SUM, Tip::NONDETERMINISTIC_OUTPUT];
const GET_TIPS: &[Tip] = &[Tip::REQUEST_ALL_NODES, Tip::NONDETERMINISTIC_OUTPUT];
const RESET_TIPS: &[Tip] = &[Tip::REQUEST_ALL_NODES, Tip::RESPONSE_ALL_SUCCEEDED];

static COMMANDLOG: ServerCommand =
    container("commandlog", -2, &[&COMMANDLOG_GET, &COMMANDLOG_HELP, &COMMANDLOG_LEN, &COMMANDLOG_RESET])
        .doc(Group::Server, "8.1.0", "Depends on subcommand", "A container for command log commands.");

static COMMANDLOG_GET: ServerCommand = command("commandlog|get", 4, commandlog_get as ServerHandler)
    .flags(ADMIN)
    .syntax("count:i type(SLOW|LARGE-REQUEST|LARGE-REPLY)")
    .doc(Group::Server, "8.1.0", "O(N) for N entries returned", "Returns entries of one of the command logs.")
    .tips(GET_TIPS);

fn commandlog_get(call: &mut Call<'_>) -> Outcome {
    let count = parse_count(call.arg(2))?;
    let log = chosen_log(call, 3)?;
    write_entries(call.reply, log, count);
    Ok(())
}

static COMMANDLOG_LEN: ServerCommand = command("commandlog|len", 3, commandlog_len as ServerHandler)
    .flags(ADMIN)
    .syntax("type(SLOW|LARGE-REQUEST|LARGE-REPLY)")
    .doc(Group::Server, "8.1.0", "O(1)", "Counts the entries of one of the command logs.")
    .tips(LEN_TIPS);

fn commandlog_len(call: &mut Call<'_>) -> Outcome {
    let len = chosen_log(call, 2)?.len();
    call.reply.count(len);
    Ok(())
}

static COMMANDLOG_RESET: ServerCommand = command("commandlog|reset", 3, commandlog_reset as ServerHandler)
    .flags(ADMIN)
    .syntax("type(SLOW|LARGE-REQUEST|LARGE-REPLY)")
    .doc(Group::Server, "8.1.0", "O(N) for N entries", "Empties one of the command logs.")
    .tips(RESET_TIPS);

fn commandlog_reset(call: &mut Call<'_>) -> Outcome {
    chosen_log(call, 2)?.reset();
    call.reply.ok();
    Ok(())
}

static COMMANDLOG_HELP: ServerCommand = command("commandlog|help", 2, commandlog_help as ServerHandler)
    .flags(OPEN)
    .doc(Group::Server, "8.1.0", "O(1)", "Lists the subcommands.");

fn commandlog_help(call: &mut Call<'_>) -> Outcome {
    super::write_help(call, "COMMANDLOG");
    Ok(())
}

static SLOWLOG: ServerCommand = container(
    "slowlog",
    -2,
    &[&SLOWLOG_GET, &SLOWLOG_HELP, &SLOWLOG_LEN, &SLOWLOG_RESET],
)
.doc(Group::Server, "2.2.12", "Depends on subcommand", "A container for slow log commands.");

static SLOWLOG_GET: ServerCommand = command("slowlog|get", -2, slowlog_get as ServerHandler)
    .flags(ADMIN)
    .syntax("?count:i")
    .doc(Group::Server, "2.2.12", "O(N) for N entries returned", "Returns entries of the slow log.")
    .history(&[("4.0.0", "The client's address, port and name.")])
    .tips(GET_TIPS);

fn slowlog_get(call: &mut Call<'_>) -> Outcome {
    let count = match call.argc() {
        2 => Some(10),
        3 => parse_count(call.arg(2))?,
        _ => return Err(Error::subcommand_syntax(&call.args)),
    };
    write_entries(call.reply, call.worker.shared.command_log.of(LogKind::Slow), count);
    Ok(())
}

static SLOWLOG_LEN: ServerCommand = command("slowlog|len", 2, slowlog_len as ServerHandler)
    .flags(ADMIN)
    .doc(Group::Server, "2.2.12", "O(1)", "Counts the entries of the slow log.")
    .tips(LEN_TIPS);

fn slowlog_len(call: &mut Call<'_>) -> Outcome {
    call.reply.count(call.worker.shared.command_log.of(LogKind::Slow).len());
    Ok(())
}

static SLOWLOG_RESET: ServerCommand = command("slowlog|reset", 2, slowlog_reset as ServerHandler)
    .flags(ADMIN)
    .doc(Group::Server, "2.2.12", "O(N) for N entries", "Empties the slow log.")
    .tips(RESET_TIPS);

fn slowlog_reset(call: &mut Call<'_>) -> Outcome {
    call.worker.shared.command_log.of(LogKind::Slow).reset();
    call.reply.ok();
    Ok(())
}

static SLOWLOG_HELP: ServerCommand = command("slowlog|help", 2, slowlog_help as ServerHandler)
    .flags(OPEN)
    .doc(Group::Server, "6.2.0", "O(1)", "Lists the subcommands.");

fn slowlog_help(call: &mut Call<'_>) -> Outcome {
    super::write_help(call, "SLOWLOG");
    Ok(())
}

/// How many entries are wanted; `None` for all.
fn parse_count(text: &[u8]) -> Result<Option<usize>, Error> {
    match parse_i64(text) {
        Some(-1) => Ok(None),
        Some(count @ 0..) => Ok(Some(count as usize)),
        _ => Err(Error::Fixed("ERR count should be greater than or equal to -1")),
    }
}

/// The log that an argument names.
fn chosen_log(call: &Call<'_>, argument: usize) -> Result<&'static Log, Error> {
    let kinds = [
        ("slow", LogKind::Slow),
        ("large-request", LogKind::LargeRequest),
        ("large-reply", LogKind::LargeReply),
    ];
    let kind = call.rest(argument).one_of(&kinds);
    let kind = kind
        .ok_or(Error::Fixed("ERR type should be one of the following: slow, large-request, large-reply"))?;
    Ok(call.worker.shared.command_log.of(kind))
}

fn write_entries(reply: &mut Reply, log: &Log, count: Option<usize>) {
    let entries = log.get(count);
    reply.array(entries.len());
    for entry in entries {
        reply.array(6);
        reply.int(entry.id as i64);
        reply.int(entry.at_s);
        reply.int(entry.value as i64);
        reply.array(entry.args.len());
        entry.args.iter().for_each(|arg| reply.bulk(arg));
        reply.bulk(entry.peer.as_bytes());
        reply.bulk(&entry.client_name);
    }
}
