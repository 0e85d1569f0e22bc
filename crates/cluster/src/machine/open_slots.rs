//! Slots that move key by key, as a primary sends them to a replica that gets its whole data set: Valkey's
//! text `SLOT<ID,` for one that comes from a node, `SLOT>ID,` for one that goes to it.

use super::{Cluster, Time, parse_slot};
use crate::conf::Open;
use crate::id::NodeId;

/// One of the text's entries, if it is one.
fn parse(entry: &str) -> Option<(u16, Open)> {
    let at = entry.find(['<', '>'])?;
    let (slot, (way, id)) = (&entry[..at], entry[at..].split_at(1));
    let (slot, id) = (parse_slot(slot.as_bytes()).ok()?, NodeId::parse(id.as_bytes())?);
    Some((slot, if way == "<" { Open::Importing(id) } else { Open::Migrating(id) }))
}

impl Cluster {
    /// The text, if there are any.
    pub fn open_slots_text(&self) -> Option<String> {
        let entry = |(slot, open): (u16, Open)| match open {
            Open::Importing(id) => format!("{slot}<{id},"),
            Open::Migrating(id) => format!("{slot}>{id},"),
        };
        let text: String = self.open_slots().into_iter().map(entry).collect();
        (!text.is_empty()).then_some(text)
    }

    /// This replica's primary has sent these. Those of an unknown node are kept until it is known.
    pub fn take_open_slots(&mut self, now: Time, text: &str) {
        self.now = now;
        self.told_open = text.split_terminator(',').filter_map(parse).collect();
        self.open_told_slots();
        self.finish();
    }

    /// Applies open slots of nodes that have become known.
    pub(super) fn open_told_slots(&mut self) {
        if self.table[self.myself].is_primary() {
            self.told_open.clear();
        }
        for (slot, open) in std::mem::take(&mut self.told_open) {
            let (Open::Importing(id) | Open::Migrating(id)) = open;
            let Some(node) = self.find(id.as_bytes()) else {
                self.told_open.push((slot, open));
                continue;
            };
            match open {
                Open::Importing(_) => self.importing.insert(slot, node),
                Open::Migrating(_) => self.migrating.insert(slot, node),
            };
            self.todo.state = true;
            self.save(false);
        }
    }
}
