//! State of MIGRATEs under way: the server's part, and each one with its keys.

use std::collections::VecDeque;
use std::sync::Arc;

use martlet_client::resp::encode_request;
use martlet_command::Error;
use martlet_engine::{EventClass, Keys, WatchFlag};
use martlet_keyspace::{Key, StrValue};
use martlet_net::Token;
use martlet_protocol::request::OwnedArgs;
use martlet_values::{Owner, payload};

use super::exchange::{Answers, Destination, Exchangers, KeptTargets, Target};
use super::marks::Marks;
use crate::registry::Entry;

/// Most attempts for a key that is changed again each time.
const TRIES_MAX: u32 = 3;

const CHANGED: Error = Error::Fixed("IOERR key was changed each time that it was sent to target instance");

/// What all threads share of it.
#[derive(Default)]
pub struct Migrations {
    /// Connections that may be used again.
    pub kept: KeptTargets,
    pub(super) exchangers: Exchangers,
    pub(crate) marks: Marks,
}

/// A key to be sent.
pub(super) struct Waiting {
    pub(super) key: Vec<u8>,
    /// How often it has been sent.
    pub(super) tries: u32,
}

/// A key that has been sent.
pub(super) struct Sent {
    pub(super) key: Vec<u8>,
    pub(super) tries: u32,
    /// Raised when it has been changed here since.
    pub(super) flag: Arc<WatchFlag>,
    /// It was gone here, and is to be deleted there as well.
    pub(super) is_gone: bool,
}

/// A MIGRATE under way. It continues if its client leaves.
pub struct Migration {
    pub(super) token: Token,
    pub(super) client: u64,
    /// The client, if it tracks keys.
    pub(super) origin: u64,
    pub(super) entry: &'static Entry,
    pub(super) args: OwnedArgs,
    pub(super) destination: Arc<Destination>,
    /// The database here.
    pub(super) db: usize,
    pub(super) copy: bool,
    pub(super) replace: bool,
    pub(super) is_in_cluster: bool,
    pub(super) rest: VecDeque<Waiting>,
    pub(super) sent: Vec<Sent>,
    /// The connection, between two portions.
    pub(super) target: Option<Target>,
    /// The first key's that was refused.
    pub(super) refusal: Option<Error>,
    /// How long this thread has worked for it, but for the request itself, in nanoseconds.
    pub(super) ns: u64,
}

/// The next step of a MIGRATE that waits until no script is busy.
pub enum MigrationStep {
    /// Encoding the next portion.
    Send(Box<Migration>),
    /// Taking up the answers to the last one.
    Settle(Box<Migration>, Answers),
}

impl Migration {
    /// The command that creates a key over there; in a cluster the slot is still being imported.
    pub(super) fn restore(&self) -> &'static [u8] {
        if self.is_in_cluster { b"RESTORE-ASKING" } else { b"RESTORE" }
    }

    /// Appends the request that brings the key over there to its state here, unless there is nothing to do.
    /// The key's shard is locked.
    pub(super) fn encode(
        &mut self,
        keys: &mut Keys,
        waiting: Waiting,
        compress: bool,
        portion: &mut Vec<u8>,
    ) {
        let Waiting { key: name, tries } = waiting;
        let key = Key::new(&name);
        let entry = keys.get(&key);
        let is_gone = entry.is_none();
        match entry.map(|entry| (entry.view(), entry.expiry_ms())) {
            Some((value, expiry_ms)) => {
                let ttl = expiry_ms.map_or(0, |at_ms| (at_ms - keys.now_ms()).max(1)).to_string();
                let owner = Owner { key: &name, has_links: true };
                let payload = payload::dump_of(owner, value, compress);
                let mut words: Vec<&[u8]> = vec![self.restore(), &name, ttl.as_bytes(), &payload];
                if self.replace || tries > 0 {
                    words.push(b"REPLACE");
                }
                encode_request(&words, portion);
            }
            // In a slot under way a missing key is not asked for there: an expired key is treated as absent.
            None if tries > 0 && self.is_in_cluster => {
                let payload = payload::dump(StrValue::Int(0).into(), compress);
                let words: [&[u8]; 6] = [self.restore(), &name, b"1", &payload, b"REPLACE", b"ABSTTL"];
                encode_request(&words, portion);
            }
            None if tries > 0 => encode_request(&[b"DEL".as_slice(), &name], portion),
            None => return,
        }
        let flag = Arc::<WatchFlag>::default();
        if !self.copy {
            keys.hooks_mut(&key).watch(self.db, &name, &flag, false);
        }
        self.sent.push(Sent { key: name, tries: tries + 1, flag, is_gone });
    }

    /// Takes up a portion's answers, with the shards of its keys locked; the keys that need no mark any more.
    pub(super) fn settle(&mut self, keys: &mut Keys, answers: &mut Answers) -> Vec<Vec<u8>> {
        let (mut moved, mut settled) = (Vec::new(), Vec::new());
        let mut each = answers.each.drain(..);
        for Sent { key: name, tries, flag, is_gone } in self.sent.drain(..) {
            let key = Key::new(&name);
            if !self.copy {
                keys.hooks_mut(&key).unwatch(self.db, &name, &flag);
            }
            match each.next() {
                Some(Ok(())) if flag.is_raised() && tries < TRIES_MAX => {
                    self.rest.push_back(Waiting { key: name, tries });
                    continue;
                }
                Some(Ok(())) if flag.is_raised() => self.refusal = self.refusal.take().or(Some(CHANGED)),
                Some(Ok(())) if !self.copy && !is_gone && keys.delete(&key) => {
                    keys.changed(&key, EventClass::GENERIC, "del");
                    moved.push(name.clone());
                }
                Some(Err(error)) => self.refusal = self.refusal.take().or(Some(error)),
                Some(Ok(())) | None => {}
            }
            settled.push(name);
        }
        if answers.failure.is_some() {
            settled.extend(self.rest.drain(..).map(|waiting| waiting.key));
        }
        if !moved.is_empty() {
            let words = || [b"DEL".as_slice()].into_iter().chain(moved.iter().map(Vec::as_slice));
            keys.effects.replace(self.db, words);
        }
        keys.effects.request_ended(self.db, &self.args.view(), false);
        settled
    }
}
