//! COMMAND: the command table for clients, derived from the entries.

use martlet_base::glob;
use martlet_protocol::reply::Reply;
use martlet_spec::{Acl, Error, Flags, Group, Outcome, Tip, command};

use super::registry::Entry;
use super::{Call, Handler, SentinelCommand, registry, text, write_help};

/// The family.
pub static COMMANDS: &[&SentinelCommand] = &[&COMMAND];

const OPEN: Flags = Flags::LOADING.with(Flags::STALE);

static COMMAND: SentinelCommand = SentinelCommand {
    subcommands: &[&COUNT, &DOCS, &GETKEYS, &HELP, &INFO, &LIST],
    ..entry("command", -1, all, "2.8.13", "Describes all commands.")
};

const fn entry(
    name: &'static str,
    arity: i32,
    handler: Handler,
    since: &'static str,
    summary: &'static str,
) -> SentinelCommand {
    command(name, arity, handler)
        .flags(OPEN)
        .acl(Acl::CONNECTION)
        .doc(Group::Server, since, "O(N) for N commands", summary)
        .tips(&[Tip::NONDETERMINISTIC_OUTPUT_ORDER])
}

fn all(call: &mut Call<'_>) -> Outcome {
    if call.argc() > 1 {
        return Err(Error::Bytes(
            [b"ERR unknown subcommand '", call.arg(1), b"'. Try COMMAND HELP."].concat(),
        ));
    }
    let commands: Vec<&Entry> = registry().commands().collect();
    call.reply.array(commands.len());
    commands.iter().for_each(|entry| write_info(call.reply, entry));
    Ok(())
}

static COUNT: SentinelCommand = entry("command|count", 2, count, "2.8.13", "Counts the commands.");

fn count(call: &mut Call<'_>) -> Outcome {
    call.reply.count(registry().commands().count());
    Ok(())
}

static INFO: SentinelCommand =
    entry("command|info", -2, info, "2.8.13", "Describes the named commands.").syntax("?*command-name");

fn info(call: &mut Call<'_>) -> Outcome {
    let names: Vec<&[u8]> = match call.argc() {
        2 => registry().commands().map(|entry| entry.spec.full_name.as_bytes()).collect(),
        _ => call.args.iter().skip(2).collect(),
    };
    call.reply.array(names.len());
    for name in names {
        match registry().find(name) {
            Some(entry) => write_info(call.reply, entry),
            None => call.reply.null(),
        }
    }
    Ok(())
}

/// No command of a Sentinel has keys.
fn write_info(reply: &mut Reply, entry: &Entry) {
    let spec = entry.spec;
    reply.array(10);
    reply.bulk(spec.full_name.as_bytes());
    reply.int(i64::from(spec.arity));
    let flags: Vec<&str> = spec.flags.names().collect();
    reply.set(flags.len());
    flags.iter().for_each(|name| reply.simple(name));
    [0, 0, 0].into_iter().for_each(|number| reply.int(number));
    let categories: Vec<&str> = spec.acl().names().collect();
    reply.set(categories.len());
    categories.iter().for_each(|category| reply.simple(&format!("@{category}")));
    reply.set(spec.tips.len());
    spec.tips.iter().for_each(|tip| reply.bulk(tip.text().as_bytes()));
    reply.set(0);
    match entry.subcommands.len() {
        0 => reply.set(0),
        count => reply.array(count),
    }
    entry.subcommands.iter().for_each(|id| write_info(reply, &registry().entries()[*id]));
}

static DOCS: SentinelCommand =
    entry("command|docs", -2, docs, "7.0.0", "Documents the named commands, or all.")
        .syntax("?*command-name");

fn docs(call: &mut Call<'_>) -> Outcome {
    let entries: Vec<&Entry> = match call.argc() {
        2 => registry().commands().collect(),
        _ => call.args.iter().skip(2).filter_map(|name| registry().find(name)).collect(),
    };
    call.reply.map(entries.len());
    entries.iter().for_each(|entry| write_docs(call.reply, entry));
    Ok(())
}

fn write_docs(reply: &mut Reply, entry: &Entry) {
    let spec = entry.spec;
    reply.bulk(spec.full_name.as_bytes());
    reply.map(4 + usize::from(!entry.subcommands.is_empty()));
    let fields = [
        ("summary", spec.summary),
        ("since", spec.since),
        ("group", spec.group.name()),
        ("complexity", spec.complexity),
    ];
    for (name, value) in fields {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    if !entry.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(entry.subcommands.len());
        entry.subcommands.iter().for_each(|id| write_docs(reply, &registry().entries()[*id]));
    }
}

static GETKEYS: SentinelCommand =
    entry("command|getkeys", -3, getkeys, "2.8.13", "Finds the keys among arguments.")
        .syntax("command ?*arg");

fn getkeys(call: &mut Call<'_>) -> Outcome {
    let args = call.args.from(2);
    let entry = registry().resolve(&args).ok_or(Error::Fixed("ERR Invalid command specified"))?;
    let takes = entry.spec.takes(args.len());
    Err(Error::Fixed(match takes {
        true => "ERR The command has no key arguments",
        false => "ERR Invalid number of arguments specified for command",
    }))
}

static LIST: SentinelCommand = entry("command|list", -2, list, "7.0.0", "Lists the names of commands.")
    .syntax("?filterby=FILTERBY(module-name=MODULE|category=ACLCAT|pattern:p=PATTERN)");

fn list(call: &mut Call<'_>) -> Outcome {
    let keeps: Box<dyn Fn(&Entry) -> bool> = match call.argc() {
        2 => Box::new(|_| true),
        5 if call.arg(2).eq_ignore_ascii_case(b"filterby") => {
            let value = call.arg(4).to_vec();
            match call.arg(3).to_ascii_lowercase().as_slice() {
                b"pattern" => {
                    Box::new(move |entry| glob::matches(&value, entry.spec.full_name.as_bytes(), true))
                }
                b"aclcat" => {
                    let wanted = text(&value).to_ascii_lowercase();
                    Box::new(move |entry| entry.spec.acl().names().any(|category| category == wanted))
                }
                b"module" => Box::new(|_| false),
                _ => return Err(Error::Syntax),
            }
        }
        _ => return Err(Error::Syntax),
    };
    let names: Vec<_> =
        registry().entries().iter().filter(|entry| keeps(entry)).map(|entry| entry.spec.full_name).collect();
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}

static HELP: SentinelCommand = entry("command|help", 2, help, "5.0.0", "Lists the subcommands.");

fn help(call: &mut Call<'_>) -> Outcome {
    write_help(call, "COMMAND")
}
