//! INFO: the server's state as text, in Redis' sections and under Redis' field names.

mod keysizes;
mod persistence;
mod search;
mod sections;
mod traffic;

use std::rc::Rc;

use martlet_command::{Flags, Group, Outcome, Tip, command};

use super::survey::Survey;
use super::{Call, ServerCommand, ServerHandler};
use crate::runtime::Worker;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&INFO];

static INFO: ServerCommand = command("info", -1, info as ServerHandler)
    .flags(Flags::LOADING.with(Flags::STALE).with(Flags::WALK))
    .acl(martlet_command::Acl::DANGEROUS)
    .syntax("?*section")
    .doc(Group::Server, "1.0.0", "O(1)", "Returns the server's state and statistics.")
    .history(&[("7.0.0", "Takes several sections.")])
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT, Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_SPECIAL]);

/// When a section is shown besides by its name.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Shown {
    /// By plain INFO.
    Plain,
    /// The same, from the start of a session of HOTKEYS until its results are forgotten.
    WithHotKeys,
    /// By INFO ALL.
    All,
    /// By INFO EVERYTHING, INFO MODULES and INFO SEARCH.
    Search,
    /// Not at all.
    Named,
}

/// A section: its name, when it is shown, and what writes it.
struct Section {
    name: &'static str,
    shown: Shown,
    write: fn(&mut Worker, &mut Text),
}

const SECTIONS: &[Section] = &[
    Section { name: "server", shown: Shown::Plain, write: sections::server },
    Section { name: "clients", shown: Shown::Plain, write: sections::clients },
    Section { name: "memory", shown: Shown::Plain, write: sections::memory },
    Section { name: "persistence", shown: Shown::Plain, write: persistence::persistence },
    Section { name: "threads", shown: Shown::Plain, write: traffic::threads },
    Section { name: "stats", shown: Shown::Plain, write: traffic::stats },
    Section { name: "replication", shown: Shown::Plain, write: sections::replication },
    Section { name: "cpu", shown: Shown::Plain, write: sections::cpu },
    Section { name: "hotkeys", shown: Shown::WithHotKeys, write: traffic::hotkeys },
    Section { name: "modules", shown: Shown::Plain, write: sections::modules },
    Section { name: "scriptingengines", shown: Shown::Plain, write: sections::scripting_engines },
    Section { name: "commandstats", shown: Shown::All, write: traffic::commandstats },
    Section { name: "errorstats", shown: Shown::Plain, write: traffic::errorstats },
    Section { name: "latencystats", shown: Shown::All, write: traffic::latencystats },
    Section { name: "cluster", shown: Shown::Plain, write: sections::cluster },
    Section { name: "keyspace", shown: Shown::Plain, write: sections::keyspace },
    Section { name: "keysizes", shown: Shown::Plain, write: keysizes::keysizes },
    Section { name: "debug", shown: Shown::Named, write: traffic::debug },
];

/// All sections, in the order in which they are shown.
fn sections() -> impl Iterator<Item = &'static Section> + Clone {
    SECTIONS.iter().chain(search::SECTIONS)
}

/// INFO's text as it grows.
#[derive(Default)]
pub(super) struct Text {
    text: String,
    /// What its sections report of all shards, once one of them has asked.
    survey: Option<Rc<Survey>>,
    /// Whether a section reports sizes.
    has_sizes: bool,
}

impl Text {
    /// What all sections of the reply report of the shards.
    fn survey(&mut self, worker: &mut Worker) -> Rc<Survey> {
        self.survey.get_or_insert_with(|| Rc::new(Survey::of(&mut worker.keys, self.has_sizes))).clone()
    }

    /// Begins a section.
    fn title(&mut self, name: &str) {
        if !self.text.is_empty() {
            self.text.push_str("\r\n");
        }
        self.text.push_str("# ");
        self.text.push_str(name);
        self.text.push_str("\r\n");
    }

    /// Adds a field.
    fn field(&mut self, name: &str, value: impl std::fmt::Display) {
        use std::fmt::Write;
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{name}:{value}\r\n");
    }

    /// Bytes of the text: they are not part of its figures.
    fn heap_bytes(&self) -> u64 {
        self.text.capacity() as u64
    }
}

fn info(call: &mut Call<'_>) -> Outcome {
    let text = render(call.worker, call.args.iter().skip(1));
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// The text of the wanted sections; of the default ones if none is named.
pub(crate) fn render<'s>(worker: &mut Worker, wanted: impl Iterator<Item = &'s [u8]>) -> String {
    let names: Vec<&[u8]> = wanted.collect();
    let named = |word: &str| names.iter().any(|name| name.eq_ignore_ascii_case(word.as_bytes()));
    let all = named("all") || named("everything");
    let default = names.is_empty() || named("default");
    let is_wanted = |section: &&Section| {
        named(section.name)
            || match section.shown {
                Shown::Plain => all || default,
                Shown::WithHotKeys => (all || default) && worker.shared.hotkeys.has_session(),
                Shown::All => all,
                Shown::Search => named("everything") || named("modules") || named("search"),
                Shown::Named => false,
            }
    };
    let wanted: Vec<&Section> = sections().filter(is_wanted).collect();
    let has_sizes = wanted.iter().any(|section| section.name == "keysizes");
    let mut text = Text { has_sizes, ..Text::default() };
    wanted.iter().for_each(|section| (section.write)(worker, &mut text));
    text.text
}

/// The names of all sections; those that ask every shard or index come last.
pub(crate) fn section_names() -> impl Iterator<Item = &'static str> {
    let asks_shards = |name: &str| {
        matches!(name, "clients" | "memory" | "keyspace" | "keysizes") || name.starts_with("search_")
    };
    let names = sections().map(|section| section.name);
    names.clone().filter(move |name| !asks_shards(name)).chain(names.filter(move |name| asks_shards(name)))
}

/// Bytes for people, as Redis writes them.
pub(crate) fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "K", "M", "G", "T", "P"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_for_people() {
        assert_eq!(human(0), "0B");
        assert_eq!(human(1023), "1023B");
        assert_eq!(human(1024), "1.00K");
        assert_eq!(human(1_572_864), "1.50M");
    }
}
