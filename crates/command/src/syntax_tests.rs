//! What the entries of all families say of their arguments.

use martlet_spec::syntax::{Argument, Kind};
use martlet_spec::{Acl, Flags, Group, Spec};

/// The notation of a tree: the inverse of parsing.
fn show(argument: &Argument) -> String {
    let mut text = String::new();
    for (is, mark) in
        [(argument.is_optional, '?'), (argument.is_multiple, '*'), (argument.is_token_multiple, '+')]
    {
        text.extend(is.then_some(mark));
    }
    let name = &*argument.name;
    let token = argument.token.filter(|token| {
        let is_lower = name == name.to_ascii_lowercase();
        let is_name = argument.kind == Kind::PureToken && *token == name.to_ascii_uppercase();
        !(is_name && is_lower)
    });
    let is_word = argument.token.is_some() && token.is_none();
    text += &if is_word { name.to_ascii_uppercase() } else { name.to_string() };
    text += &match &argument.kind {
        Kind::Integer => ":i".to_string(),
        Kind::Double => ":d".into(),
        Kind::UnixTime => ":t".into(),
        Kind::Pattern => ":p".into(),
        Kind::PureToken if !is_word => ":x".into(),
        Kind::Key => ":k".into(),
        _ => String::new(),
    };
    text.extend(argument.key_part.map(|part| part.to_string()));
    text.extend(argument.display.map(|display| format!("/{display}")));
    text.extend(token.map(|token| format!("={token}")));
    if let Some(arguments) = argument.kind.arguments() {
        let between = if matches!(argument.kind, Kind::OneOf(_)) { "|" } else { " " };
        let inner: Vec<String> = arguments.iter().map(show).collect();
        text += &format!("({})", inner.join(between));
    }
    text.extend(argument.since.map(|since| format!("^{since}")));
    text.extend(argument.deprecated_since.map(|since| format!("!{since}")));
    text
}

fn entries() -> impl Iterator<Item = &'static Spec> {
    let commands = crate::FAMILIES.iter().flat_map(|family| family.iter());
    commands.flat_map(|one| std::iter::once(&one.spec).chain(one.subcommands.iter().map(|sub| &sub.spec)))
}

#[test]
fn every_syntax_reads_back_as_it_is_written() {
    for spec in entries() {
        let shown: Vec<String> = spec.arguments().iter().map(show).collect();
        assert_eq!(shown.join(" "), spec.syntax, "{}", spec.full_name);
    }
}

#[test]
fn keys_of_the_syntax_are_parts_of_the_key_spec() {
    fn parts(arguments: &[Argument], out: &mut Vec<usize>) {
        for argument in arguments {
            out.extend(argument.key_part);
            parts(argument.kind.arguments().unwrap_or_default(), out);
        }
    }
    for spec in entries() {
        let mut found = Vec::new();
        parts(&spec.arguments(), &mut found);
        assert!(found.iter().all(|part| *part < spec.keys.len()), "{}", spec.full_name);
    }
}

/// A module's command has the category of what it does to keys, if any command of its module has categories.
#[test]
fn commands_of_modules_are_in_the_categories_of_their_flags() {
    let of_modules = || entries().filter(|spec| spec.group.is_module());
    let names_categories = |group: Group| of_modules().any(|spec| spec.group == group && spec.acl().0 != 0);
    for spec in of_modules().filter(|spec| names_categories(spec.group)) {
        for (flag, category) in [(Flags::WRITE, Acl::WRITE), (Flags::READONLY, Acl::READ)] {
            assert_eq!(spec.flags.has(flag), spec.acl().has(category), "{}", spec.full_name);
        }
    }
}
