//! COMMAND and its subcommands: the command table for clients. Everything here is derived from the entries.

use martlet_base::glob;
use martlet_command::{
    Acl, Begin, Deprecation, Error, Find, Flags, Group, KeyFlags, KeyPart, Outcome, Presentation, Tip,
    command,
};
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_spec::syntax::Argument;

use super::{Call, ServerCommand, ServerHandler};
use crate::registry::{Entry, Registry};

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&COMMAND];

const OPEN: Flags = Flags::LOADING.with(Flags::STALE);

static COMMAND: ServerCommand = ServerCommand {
    subcommands: &[&COUNT, &DOCS, &GETKEYS, &GETKEYSANDFLAGS, &HELP, &INFO, &LIST],
    ..command("command", -1, all as ServerHandler)
        .flags(OPEN)
        .acl(Acl::CONNECTION)
        .doc(Group::Server, "2.8.13", "O(N) for N commands", "Describes all commands.")
        .tips(&[Tip::NONDETERMINISTIC_OUTPUT_ORDER])
};

/// Commands as clients can call them, in the table's order.
fn sorted(registry: &Registry) -> Vec<(&[u8], &Entry)> {
    let mut commands: Vec<_> = registry.commands().collect();
    commands.sort_unstable_by_key(|(_, entry)| entry.id);
    commands
}

fn all(call: &mut Call<'_>) -> Outcome {
    if call.argc() > 1 {
        return Err(crate::runtime::checks::unknown_subcommand(call.entry, &call.args));
    }
    let registry = call.worker.shared.registry;
    let commands = sorted(registry);
    call.reply.array(commands.len());
    let presentation = call.worker.presentation();
    for (name, entry) in commands {
        write_info(call.reply, registry, presentation, name, entry);
    }
    Ok(())
}

static COUNT: ServerCommand = command("command|count", 2, count as ServerHandler)
    .flags(OPEN)
    .acl(Acl::CONNECTION)
    .doc(Group::Server, "2.8.13", "O(1)", "Counts the commands.");

fn count(call: &mut Call<'_>) -> Outcome {
    call.reply.count(call.worker.shared.registry.commands().count());
    Ok(())
}

static INFO: ServerCommand = command("command|info", -2, info as ServerHandler)
    .flags(OPEN)
    .acl(Acl::CONNECTION)
    .syntax("?*command-name")
    .doc(Group::Server, "2.8.13", "O(N) for N commands asked for", "Describes the named commands.")
    .history(&[("7.0.0", "Without arguments, returns all commands.")])
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT_ORDER]);

fn info(call: &mut Call<'_>) -> Outcome {
    let presentation = call.worker.presentation();
    if call.argc() == 2 {
        let registry = call.worker.shared.registry;
        let commands = sorted(registry);
        call.reply.array(commands.len());
        commands
            .into_iter()
            .for_each(|(name, entry)| write_info(call.reply, registry, presentation, name, entry));
        return Ok(());
    }
    let registry = call.worker.shared.registry;
    call.reply.array(call.argc() - 2);
    for name in call.args.iter().skip(2) {
        match registry.find_full(name) {
            Some(entry) => {
                write_info(call.reply, registry, presentation, entry.spec.full_name.as_bytes(), entry)
            }
            None => call.reply.null(),
        }
    }
    Ok(())
}

/// A flag's name: Valkey has several logs of commands.
fn flag_name(name: &'static str, presentation: Presentation) -> &'static str {
    if name == "skip_slowlog" && presentation.is_valkey() { "skip_commandlog" } else { name }
}

fn write_info(
    reply: &mut Reply,
    registry: &Registry,
    presentation: Presentation,
    name: &[u8],
    entry: &Entry,
) {
    let spec = entry.spec;
    reply.array(10);
    reply.bulk(name);
    reply.int(i64::from(spec.arity));
    let movable = spec.keys.iter().any(|part| !is_simple(part));
    let mut names: Vec<&str> =
        presentation.flags(spec).names().map(|name| flag_name(name, presentation)).collect();
    if movable && !names.contains(&"movablekeys") {
        names.push("movablekeys");
    }
    reply.set(names.len());
    names.iter().for_each(|name| reply.simple(name));
    let (first, last, step) = spec.legacy_range();
    [first, last, step].into_iter().for_each(|n| reply.int(n));
    let categories: Vec<&str> = spec.acl().names().collect();
    reply.set(categories.len());
    categories.iter().for_each(|category| reply.simple(&format!("@{category}")));
    reply.set(spec.tips.len());
    spec.tips.iter().for_each(|tip| reply.bulk(tip.text().as_bytes()));
    reply.set(spec.keys.len());
    spec.keys.iter().for_each(|part| write_key_part(reply, part));
    // As in Redis, an array if there are any; in Valkey always.
    match entry.visible_subcommands().len() {
        0 if !presentation.is_valkey() => reply.set(0),
        count => reply.array(count),
    }
    for &id in entry.visible_subcommands() {
        let sub = &registry.entries()[id];
        write_info(reply, registry, presentation, sub.spec.full_name.as_bytes(), sub);
    }
}

fn is_simple(part: &KeyPart) -> bool {
    matches!((part.begin, part.find), (Begin::Index(_), Find::Range { .. }))
}

fn write_key_part(reply: &mut Reply, part: &KeyPart) {
    let pairs = |reply: &mut Reply, pairs: &[(&str, i64)]| {
        reply.map(pairs.len());
        for (name, value) in pairs {
            reply.bulk(name.as_bytes());
            reply.int(*value);
        }
    };
    let flags: Vec<&str> = part.flags.names().collect();
    reply.map(3 + usize::from(!part.notes.is_empty()));
    if !part.notes.is_empty() {
        reply.bulk(b"notes");
        reply.bulk(part.notes.as_bytes());
    }
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    match part.begin {
        Begin::Index(index) => {
            reply.bulk(b"index");
            reply.bulk(b"spec");
            pairs(reply, &[("index", index as i64)]);
        }
        Begin::FirstKeyword(word, from) => {
            reply.bulk(b"keyword");
            reply.bulk(b"spec");
            reply.map(2);
            reply.bulk(b"keyword");
            reply.bulk(word.as_bytes());
            reply.bulk(b"startfrom");
            reply.int(from as i64);
        }
        Begin::Keyword(_) | Begin::Unknown => unknown(reply),
    }
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    match part.find {
        _ if matches!(part.begin, Begin::Keyword(_)) => unknown(reply),
        Find::Range { last, step, limit } => {
            reply.bulk(b"range");
            reply.bulk(b"spec");
            pairs(reply, &[("lastkey", last as i64), ("keystep", step as i64), ("limit", limit as i64)]);
        }
        Find::Count { count, first, step } => {
            reply.bulk(b"keynum");
            reply.bulk(b"spec");
            pairs(
                reply,
                &[("keynumidx", count as i64), ("firstkey", first as i64), ("keystep", step as i64)],
            );
        }
        Find::Unknown => unknown(reply),
    }
}

fn unknown(reply: &mut Reply) {
    reply.bulk(b"unknown");
    reply.bulk(b"spec");
    reply.map(0);
}

static DOCS: ServerCommand = command("command|docs", -2, docs as ServerHandler)
    .flags(OPEN)
    .acl(Acl::CONNECTION)
    .syntax("?*command-name")
    .doc(Group::Server, "7.0.0", "O(N) for N commands asked for", "Documents the named commands, or all.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT_ORDER]);

fn docs(call: &mut Call<'_>) -> Outcome {
    let registry = call.worker.shared.registry;
    let entries: Vec<&Entry> = if call.argc() == 2 {
        sorted(registry).into_iter().map(|(_, entry)| entry).collect()
    } else {
        call.args.iter().skip(2).filter_map(|name| registry.find_full(name)).collect()
    };
    call.reply.map(entries.len());
    for entry in entries {
        write_docs(call.reply, registry, entry);
    }
    Ok(())
}

fn write_docs(reply: &mut Reply, registry: &Registry, entry: &Entry) {
    let spec = entry.spec;
    reply.bulk(spec.full_name.as_bytes());
    let arguments = spec.arguments();
    let is_system = spec.flags.has(Flags::SYSTEM);
    let fields = [
        ("summary", spec.summary),
        ("since", spec.since),
        ("group", spec.group.name()),
        ("complexity", spec.complexity),
        ("module", spec.group.module().map_or("", |module| module.name)),
    ];
    let fields = || fields.iter().filter(|(_, value)| !value.is_empty());
    reply.map(
        fields().count()
            + usize::from(spec.deprecated.is_some() || is_system)
            + 2 * usize::from(spec.deprecated.is_some())
            + usize::from(!spec.history.is_empty())
            + usize::from(!arguments.is_empty())
            + usize::from(!entry.visible_subcommands().is_empty()),
    );
    for (name, value) in fields() {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    if spec.deprecated.is_some() || is_system {
        reply.bulk(b"doc_flags");
        reply.set(1);
        reply.simple(if is_system { "syscmd" } else { "deprecated" });
    }
    if let Some(Deprecation { since, replacement }) = spec.deprecated {
        for text in ["deprecated_since", since, "replaced_by", replacement] {
            reply.bulk(text.as_bytes());
        }
    }
    if !spec.history.is_empty() {
        reply.bulk(b"history");
        reply.set(spec.history.len());
        for (version, change) in spec.history {
            reply.array(2);
            reply.bulk(version.as_bytes());
            reply.bulk(change.as_bytes());
        }
    }
    if !arguments.is_empty() {
        reply.bulk(b"arguments");
        write_arguments(reply, &arguments);
    }
    if !entry.visible_subcommands().is_empty() {
        reply.bulk(b"subcommands");
        reply.map(entry.visible_subcommands().len());
        for &id in entry.visible_subcommands() {
            write_docs(reply, registry, &registry.entries()[id]);
        }
    }
}

fn write_arguments(reply: &mut Reply, arguments: &[Argument]) {
    reply.array(arguments.len());
    for argument in arguments {
        write_argument(reply, argument);
    }
}

/// An argument as a map, in Redis' order of fields.
fn write_argument(reply: &mut Reply, argument: &Argument) {
    let inner = argument.kind.arguments();
    let shown = argument.display.unwrap_or(&argument.name);
    let texts = [
        ("name", Some(&*argument.name)),
        ("type", Some(argument.kind.name())),
        ("display_text", inner.is_none().then_some(shown)),
    ];
    let versions = [
        ("token", argument.token),
        ("since", argument.since),
        ("deprecated_since", argument.deprecated_since),
    ];
    let part = argument.key_part;
    let flags = argument.flags();
    let count = texts.iter().chain(&versions).filter(|(_, text)| text.is_some()).count();
    let has_flags = flags.clone().next().is_some();
    reply.map(count + [part.is_some(), has_flags, inner.is_some()].iter().filter(|is| **is).count());
    let write = |reply: &mut Reply, pairs: &[(&str, Option<&str>)]| {
        for (name, text) in pairs {
            if let Some(text) = text {
                reply.bulk(name.as_bytes());
                reply.bulk(text.as_bytes());
            }
        }
    };
    write(reply, &texts);
    if let Some(part) = part {
        reply.bulk(b"key_spec_index");
        reply.count(part);
    }
    write(reply, &versions);
    if has_flags {
        reply.bulk(b"flags");
        reply.set(flags.clone().count());
        flags.for_each(|flag| reply.simple(flag));
    }
    if let Some(inner) = inner {
        reply.bulk(b"arguments");
        write_arguments(reply, inner);
    }
}

static LIST: ServerCommand = command("command|list", -2, list as ServerHandler)
    .flags(OPEN)
    .acl(Acl::CONNECTION)
    .syntax("?filterby=FILTERBY(module-name=MODULE|category=ACLCAT|pattern:p=PATTERN)")
    .doc(Group::Server, "7.0.0", "O(N) for N commands", "Lists the names of commands.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT_ORDER]);

fn list(call: &mut Call<'_>) -> Outcome {
    let registry = call.worker.shared.registry;
    let mut rest = call.rest(2);
    let keep: Box<dyn Fn(&Entry) -> bool> = if !rest.option("filterby", 2) {
        Box::new(|_| true)
    } else if rest.word("pattern") {
        let pattern = rest.value()?;
        Box::new(move |entry| glob::matches(pattern, entry.spec.full_name.as_bytes(), true))
    } else if rest.word("aclcat") {
        let wanted = String::from_utf8_lossy(rest.value()?).to_ascii_lowercase();
        Box::new(move |entry| entry.spec.acl().names().any(|category| category == wanted))
    } else if rest.word("module") {
        let wanted = rest.value()?;
        Box::new(move |entry| {
            entry.spec.group.module().is_some_and(|module| module.name.as_bytes() == wanted)
        })
    } else {
        return Err(Error::Syntax);
    };
    rest.finish()?;
    let names = names_of(registry, keep.as_ref());
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}

/// The full names of the commands to `keep`, each before its subcommands.
fn names_of(registry: &Registry, keep: &dyn Fn(&Entry) -> bool) -> Vec<&'static str> {
    let mut names = Vec::new();
    for (_, entry) in sorted(registry) {
        let subcommands = entry.visible_subcommands().iter().map(|&id| &registry.entries()[id]);
        let kept = std::iter::once(entry).chain(subcommands).filter(|one| keep(one));
        names.extend(kept.map(|one| one.spec.full_name));
    }
    names
}

static GETKEYS: ServerCommand = command("command|getkeys", -3, getkeys as ServerHandler)
    .flags(OPEN)
    .acl(Acl::CONNECTION)
    .syntax("command ?*arg")
    .doc(Group::Server, "2.8.13", "O(N) for N arguments", "Finds the keys among a command's arguments.");

fn getkeys(call: &mut Call<'_>) -> Outcome {
    let (args, keys) = find_keys(call)?;
    call.reply.array(keys.len());
    keys.iter().for_each(|(index, _)| call.reply.bulk(args.at(*index)));
    Ok(())
}

static GETKEYSANDFLAGS: ServerCommand =
    command("command|getkeysandflags", -3, getkeysandflags as ServerHandler)
        .flags(OPEN)
        .acl(Acl::CONNECTION)
        .syntax("command ?*arg")
        .doc(Group::Server, "7.0.0", "O(N) for N arguments", "Finds a command's keys and its use of them.");

fn getkeysandflags(call: &mut Call<'_>) -> Outcome {
    let (args, keys) = find_keys(call)?;
    call.reply.array(keys.len());
    for (index, flags) in keys {
        call.reply.array(2);
        call.reply.bulk(args.at(index));
        let names: Vec<&str> = flags.names().collect();
        call.reply.set(names.len());
        names.iter().for_each(|name| call.reply.simple(name));
    }
    Ok(())
}

/// The keys of the command in the arguments, with the flags of the part that each is of.
fn find_keys<'a>(call: &Call<'a>) -> Result<(Args<'a>, Vec<(usize, KeyFlags)>), Error> {
    let args = call.args.from(2);
    let registry = call.worker.shared.registry;
    let invalid = Error::Fixed("ERR Invalid command specified");
    let Some(entry) = registry.resolve(&args) else {
        return Err(invalid);
    };
    // What resolves to a container names none of its subcommands.
    if !entry.subcommands.is_empty() && args.len() > 1 {
        return Err(invalid);
    }
    if !entry.spec.has_keys() {
        return Err(Error::Fixed("ERR The command has no key arguments"));
    }
    if !entry.spec.takes(args.len()) {
        return Err(Error::Fixed("ERR Invalid number of arguments specified for command"));
    }
    let invalid_arguments = Error::Fixed("ERR Invalid arguments specified for command");
    let may_lack = entry.spec.flags.has(Flags::NO_MANDATORY_KEYS);
    if !may_lack
        && entry.spec.find_keys.is_none()
        && entry.spec.keys.iter().any(|part| part.is_left_out(&args))
    {
        return Err(invalid_arguments);
    }
    let Some(keys) = entry.spec.key_accesses(&args) else { return Err(invalid_arguments) };
    if keys.is_empty() && !may_lack {
        return Err(invalid_arguments);
    }
    Ok((args, keys))
}

static HELP: ServerCommand = command("command|help", 2, help as ServerHandler)
    .flags(OPEN)
    .acl(Acl::CONNECTION)
    .doc(Group::Server, "5.0.0", "O(1)", "Lists the subcommands.");

fn help(call: &mut Call<'_>) -> Outcome {
    super::write_help(call, "COMMAND");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{names_of, write_key_part};
    use martlet_protocol::reply::Reply;

    /// In Redis it is no keyword spec, for the word may stand anywhere.
    #[test]
    fn where_sort_stores_is_unknown_to_clients() {
        let registry = crate::commands::registry(&[]).unwrap();
        let entry = registry.find_full(b"sort").unwrap();
        let mut reply = Reply::new(Vec::new(), false);
        write_key_part(&mut reply, entry.spec.keys.last().unwrap());
        let unknown = "*4\r\n$4\r\ntype\r\n$7\r\nunknown\r\n$4\r\nspec\r\n*0\r\n";
        let part = entry.spec.keys.last().unwrap();
        let notes = format!("*8\r\n$5\r\nnotes\r\n${}\r\n{}\r\n", part.notes.len(), part.notes);
        let flags = "$5\r\nflags\r\n*2\r\n+OW\r\n+update\r\n";
        let expected = format!("{notes}{flags}$12\r\nbegin_search\r\n{unknown}$9\r\nfind_keys\r\n{unknown}");
        assert_eq!(String::from_utf8_lossy(&reply.into_bytes()), expected);
    }

    #[test]
    fn names_are_listed_with_those_of_subcommands() {
        let registry = crate::commands::registry(&[]).unwrap();
        let names = names_of(&registry, &|_| true);
        for name in ["set", "client", "client|list", "command|getkeys"] {
            assert_eq!(names.iter().filter(|one| **one == name).count(), 1, "{name}");
        }
        let few = names_of(&registry, &|entry| entry.spec.full_name.starts_with("config|s"));
        assert_eq!(few, ["config|set"]);
    }
}
