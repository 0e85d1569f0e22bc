//! The part of the stream of commands that concerns some slots.
//!
//! Invariant: whole commands leave, in the stream's order, each in its own database. A transaction's commands
//! leave without its bounds: they are invisible at the other end before the end of the migration.

use martlet_cluster::slots::SlotSet;
use martlet_command::{Control, Flags};
use martlet_protocol::request::Args;

use super::requests::Requests;
use crate::registry::{Registry, slot_of_keys};

/// Why nothing more leaves.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// All keys have been deleted at once.
    Flushed,
    /// The stream cannot be read.
    Damaged(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Stop {
        Stop::Damaged(why)
    }
}

/// See the [module docs](self).
pub(super) struct Filter {
    registry: &'static Registry,
    slots: SlotSet,
    /// The stream's database, and the one that was selected at the other end last.
    db: Vec<u8>,
    told_db: Option<Vec<u8>>,
    requests: Requests,
}

impl Filter {
    pub fn new(registry: &'static Registry, slots: impl IntoIterator<Item = u16>) -> Filter {
        Filter {
            registry,
            slots: slots.into_iter().collect(),
            db: b"0".to_vec(),
            told_db: None,
            requests: Requests::default(),
        }
    }

    /// Takes in bytes of the stream, and appends to `out` what concerns the slots.
    pub fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Stop> {
        let mut requests = std::mem::take(&mut self.requests);
        let taken = requests.take(bytes, |args, bytes| self.command(args, bytes, out));
        self.requests = requests;
        taken
    }

    fn command(&mut self, args: &Args<'_>, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Stop> {
        let Some(entry) = (!args.is_empty()).then(|| self.registry.resolve(args)).flatten() else {
            return Ok(());
        };
        if entry.spec.control == Control::SelectDatabase {
            self.db = args.at(1).to_vec();
            return Ok(());
        }
        if entry.spec.control != Control::None {
            return Ok(());
        }
        if !entry.has_keys() {
            let writes = entry.spec.flags.has(Flags::WRITE);
            return if writes { Err(Stop::Flushed) } else { Ok(()) };
        }
        if !entry.spec.flags.has(Flags::WRITE)
            || slot_of_keys(entry, args).is_none_or(|slot| !self.slots.contains(slot))
        {
            return Ok(());
        }
        if self.told_db.as_ref() != Some(&self.db) {
            martlet_client::resp::encode_request(&[b"SELECT".as_slice(), &self.db], out);
            self.told_db = Some(self.db.clone());
        }
        out.extend_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(requests: &[&[&str]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        requests.iter().for_each(|words| martlet_client::resp::encode_request(words, &mut bytes));
        bytes
    }

    fn filter() -> Filter {
        let registry = Box::leak(Box::new(crate::commands::registry(&[]).unwrap()));
        Filter::new(registry, [martlet_base::slot::slot_of(b"{a}")])
    }

    #[test]
    fn the_slots_commands_leave_however_the_stream_is_cut() {
        let stream = encoded(&[
            &["SELECT", "0"],
            &["SET", "{a}1", "x"],
            &["SET", "{b}1", "x"],
            &["PING"],
            &["MULTI"],
            &["DEL", "{a}2", "{a}3"],
            &["INCR", "{b}"],
            &["EXEC"],
            &["SELECT", "2"],
            &["SET", "{b}1", "y"],
            &["SELECT", "1"],
            &["RPUSH", "{a}4", "MULTI"],
        ]);
        let expected = encoded(&[
            &["SELECT", "0"],
            &["SET", "{a}1", "x"],
            &["DEL", "{a}2", "{a}3"],
            &["SELECT", "1"],
            &["RPUSH", "{a}4", "MULTI"],
        ]);
        for cut in 0..=stream.len() {
            let (mut filter, mut out) = (filter(), Vec::new());
            filter.take(&stream[..cut], &mut out).unwrap();
            filter.take(&stream[cut..], &mut out).unwrap();
            assert_eq!(out, expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_flush_ends_it() {
        for words in [&["FLUSHALL"][..], &["FLUSHDB", "ASYNC"]] {
            let (mut filter, mut out) = (filter(), Vec::new());
            let stream = encoded(&[&["SET", "{a}", "x"], words]);
            assert_eq!(filter.take(&stream, &mut out), Err(Stop::Flushed));
        }
        assert!(matches!(filter().take(b"*x\r\n", &mut Vec::new()), Err(Stop::Damaged(_))));
    }
}
