//! A client under load: its requests, the replies to them, and the state of its keys that a restart shows.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use martlet_base::random::Random;
use martlet_client::blocking::Client;
use martlet_client::resp::{Reply, encode_request};

use super::model::{Keys, Op, Times, agrees};

/// Accounts of which the sum stays.
pub const ACCOUNTS: u64 = 8;
/// A server that is silent for longer hangs; machines may be stopped for less.
pub const PATIENCE: Duration = Duration::from_secs(240);
/// Databases that clients use.
pub const DATABASES: u64 = 3;

/// Unix milliseconds.
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as i64)
}

/// One request: a command, a transaction, or a change of the clients' shared keys.
#[derive(Clone, Debug)]
pub enum Request {
    One(Op),
    Transaction(Vec<Op>),
    /// Moves an amount between accounts, and counts that, in one transaction.
    Transfer {
        from: u64,
        to: u64,
        amount: u64,
    },
    /// Takes an item of one shared list to another.
    Move {
        from: &'static str,
        to: &'static str,
        blocks: bool,
    },
}

/// A request that was sent.
#[derive(Debug)]
pub struct Sent {
    request: Request,
    times: Times,
    /// The last of its replies.
    reply: Option<Reply>,
    /// A crash may not take it, whenever it comes.
    is_safe: bool,
    /// A crash may not take it a while later.
    is_safe_soon: bool,
}

/// One client.
pub struct Actor {
    pub id: u64,
    pub keys: Keys,
    random: Random,
    history: Vec<Sent>,
    unique: u64,
}

/// What there is to know before and after each request.
pub trait Watch: Sync {
    /// Whether a reply sent now may not be lost: at once, after a second.
    fn is_safe(&self) -> (bool, bool);
    /// A reply has come; may not return while there is something else to do.
    fn replied(&self);
}

impl Actor {
    pub fn new(seed: u64, id: u64) -> Actor {
        Actor {
            id,
            keys: Keys::new(),
            random: Random::seeded(seed.wrapping_mul(31).wrapping_add(id)),
            history: Vec::new(),
            unique: 0,
        }
    }

    pub fn prefix(&self) -> String {
        format!("c{}:", self.id)
    }

    pub fn db(&self) -> u64 {
        self.id % DATABASES
    }

    /// Works until the server is gone.
    pub fn run(&mut self, address: SocketAddr, watch: &dyn Watch) {
        let Ok(mut client) = Client::connect(address) else { return };
        client.set_timeout(PATIENCE);
        let Ok(reply) = client.command(&["SELECT".to_owned(), self.db().to_string()]) else { return };
        assert_eq!(reply, Reply::Simple(b"OK".to_vec()));
        while self.batch(&mut client, watch).is_some() {}
    }

    /// Sends some requests at once and takes their replies; `None` when the server is gone.
    fn batch(&mut self, client: &mut Client, watch: &dyn Watch) -> Option<()> {
        let first = self.history.len();
        let most = 1 + self.random.below(6);
        let (mut bytes, mut counts) = (Vec::new(), Vec::new());
        for _ in 0..most {
            let request = self.draw();
            let lines = self.lines(&request);
            lines.iter().for_each(|words| encode_request(words, &mut bytes));
            counts.push(lines.len());
            let ends = request.is_open();
            self.history.push(Sent {
                request,
                times: (now_ms(), i64::MAX),
                reply: None,
                is_safe: false,
                is_safe_soon: false,
            });
            if ends {
                break;
            }
        }
        let before = watch.is_safe();
        client.send_raw(&bytes).ok()?;
        for (at, count) in counts.into_iter().enumerate() {
            let mut last = None;
            for _ in 0..count {
                last = Some(client.read_reply().ok()?);
            }
            let after = watch.is_safe();
            let sent = &mut self.history[first + at];
            sent.times.1 = now_ms();
            sent.reply = last;
            (sent.is_safe, sent.is_safe_soon) = (before.0 && after.0, before.1 && after.1);
            watch.replied();
        }
        Some(())
    }

    /// The requests' words.
    fn lines(&self, request: &Request) -> Vec<Vec<String>> {
        let line = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        match request {
            Request::One(op) => vec![op.words(&self.prefix())],
            Request::Transaction(ops) => {
                let mut lines = vec![line("MULTI")];
                lines.extend(ops.iter().map(|op| op.words(&self.prefix())));
                lines.push(line("EXEC"));
                lines
            }
            Request::Transfer { from, to, amount } => vec![
                line("MULTI"),
                // With a command that walks, the transaction runs alone.
                line(if amount % 2 == 0 { "DBSIZE" } else { "PING" }),
                line("SELECT 0"),
                line(&format!("DECRBY account:{from} {amount}")),
                line(&format!("INCRBY account:{to} {amount}")),
                line("INCR transfers"),
                line(&format!("SELECT {}", self.db())),
                line(&format!("INCR {}transfers", self.prefix())),
                line("EXEC"),
            ],
            Request::Move { from, to, blocks: true } => {
                vec![line(&format!("BLMOVE {from} {to} LEFT RIGHT 0.01"))]
            }
            Request::Move { from, to, .. } => vec![line(&format!("LMOVE {from} {to} RIGHT LEFT"))],
        }
    }

    fn draw(&mut self) -> Request {
        match self.random.below(20) {
            0 | 1 => Request::Transfer {
                from: self.random.below(ACCOUNTS),
                to: self.random.below(ACCOUNTS),
                amount: self.random.below(50),
            },
            2 if self.db() == 0 => {
                let (from, to) =
                    if self.random.below(2) == 0 { ("here", "there") } else { ("there", "here") };
                Request::Move { from, to, blocks: self.random.below(2) == 0 }
            }
            3 | 4 => {
                let mut ops = Vec::new();
                for _ in 0..=self.random.below(4) {
                    ops.push(self.draw_op());
                    if ops.iter().any(Op::is_open) {
                        break;
                    }
                }
                Request::Transaction(ops)
            }
            _ => Request::One(self.draw_op()),
        }
    }

    fn name(&mut self, kind: &str) -> String {
        format!("{kind}{}", self.random.below(3))
    }

    fn draw_op(&mut self) -> Op {
        self.unique += 1;
        let unique = self.unique;
        let left = self.random.below(2) == 0;
        let short_ms = 5 + self.random.below(300) as i64;
        let field = format!("f{}", self.random.below(12));
        match self.random.below(25) {
            0..4 => Op::Incr(self.name("n")),
            4..7 => {
                // Some are longer than what lies in the journal's ring itself.
                let most = if self.random.below(60) == 0 { 200_000 } else { 300 };
                let len = self.random.below(most) as usize;
                Op::Set(self.name("s"), format!("{unique}-").repeat(len / 4))
            }
            7 => Op::Append(self.name("s"), format!("+{unique}")),
            8 => Op::Del(
                ["s", "l", "e", "z", "h"].map(|kind| self.name(kind))[self.random.below(5) as usize].clone(),
            ),
            9 => Op::Rename(self.name("s"), self.name("s")),
            10 | 11 => Op::Push { key: self.name("l"), item: unique.to_string(), left },
            12 => Op::Pop { key: self.name("l"), left },
            13 | 14 => Op::SAdd(self.name("e"), unique.to_string()),
            15 => Op::SPop(self.name("e")),
            16 => {
                let (from, to) = ("e0".to_owned(), "e1".to_owned());
                Op::SMove(from, to, self.random.below(unique).to_string())
            }
            17 => Op::ZIncr(self.name("z"), field, self.random.below(9) as i64 - 4),
            18 => Op::ZPopMin(self.name("z")),
            19 => Op::HSet(self.name("h"), field, unique.to_string()),
            20 => Op::HDel("h0".into(), field),
            21 => Op::HIncr("hx".into(), field),
            22 => {
                let long_ms = if left { short_ms } else { 1_000_000 + short_ms };
                Op::HExpire("hx".into(), field, long_ms)
            }
            23 if left => Op::SetPx(self.name("x"), short_ms),
            23 => Op::Incr(self.name("x")),
            _ if left => Op::Expire(
                ["n", "l", "h"].map(|kind| self.name(kind))[unique as usize % 3].clone(),
                5_000_000,
            ),
            _ => Op::Persist(self.name("x")),
        }
    }

    /// Finds the state among those that the history allows that equals `seen`, read until `seen_ms`, after a
    /// crash at `crash_ms`, and continues from it.
    ///
    /// # Errors
    /// The part that contradicts the history.
    pub fn settle(&mut self, seen: &Keys, crash_ms: i64, seen_ms: i64) -> Result<(), String> {
        let history = std::mem::take(&mut self.history);
        let soon = |sent: &Sent| sent.is_safe_soon && sent.times.1 + super::LAG_MS < crash_ms;
        let needed = history.iter().rposition(|sent| sent.reply.is_some() && (sent.is_safe || soon(sent)));
        let needed = needed.map_or(0, |at| at + 1);
        let differs = |keys: &Keys, name: &String| !agrees(keys.get(name), seen.get(name), seen_ms);
        let names = self.keys.keys().chain(seen.keys());
        let mut different: BTreeSet<String> =
            names.filter(|name| differs(&self.keys, name)).cloned().collect();
        let mut found = None;
        let mut nearest = (usize::MAX, String::new());
        for at in 0..=history.len() {
            if at >= needed {
                if different.is_empty() {
                    found = Some((at, self.keys.clone()));
                } else if different.len() < nearest.0 {
                    let name = different.first().cloned().unwrap_or_default();
                    let concerns =
                        |sent: &&Sent| format!("{:?}", sent.request).contains(&format!("\"{name}\""));
                    let before: Vec<_> = history[..at].iter().filter(concerns).rev().take(8).collect();
                    let text = format!(
                        "{name}: {:?} is {:?}, last concerned by {before:?}",
                        self.keys.get(&name),
                        seen.get(&name)
                    );
                    nearest = (different.len(), format!("after {at}, {} differ, {text}", different.len()));
                }
            }
            let Some(sent) = history.get(at) else { break };
            for name in self.follow(sent, seen, crash_ms, seen_ms)? {
                match differs(&self.keys, &name) {
                    true => different.insert(name),
                    false => different.remove(&name),
                };
            }
        }
        let (at, keys) = found.ok_or_else(|| {
            let around = &history[needed.saturating_sub(3)..history.len().min(needed + 12)];
            format!(
                "client {}: of {} requests {needed} must be there, but no state fits; {}; around there: {around:?}",
                self.id,
                history.len(),
                nearest.1
            )
        })?;
        let answered = history.iter().filter(|sent| sent.reply.is_some()).count();
        super::note(answered, answered.saturating_sub(at));
        self.keys = keys;
        Ok(())
    }

    /// Applies a request to the model; the names of the keys that it concerned.
    fn follow(
        &mut self,
        sent: &Sent,
        seen: &Keys,
        crash_ms: i64,
        seen_ms: i64,
    ) -> Result<Vec<String>, String> {
        let times = (sent.times.0, sent.times.1.min(crash_ms));
        let wrong = |reply: &Reply| format!("client {}: {reply:?} to {:?}", self.id, sent.request);
        let (ops, replies) = match (&sent.request, &sent.reply) {
            (Request::One(op), reply) => (vec![op.clone()], reply.clone().map(|reply| vec![reply])),
            (Request::Transaction(ops), None) => (ops.clone(), None),
            (Request::Transaction(ops), Some(Reply::Array(replies))) if replies.len() == ops.len() => {
                (ops.clone(), Some(replies.clone()))
            }
            (Request::Transfer { .. }, reply) => {
                let own = reply.as_ref().map(|reply| match reply {
                    Reply::Array(items) if items.len() == 7 => Ok(vec![items[6].clone()]),
                    other => Err(wrong(other)),
                });
                (vec![Op::Incr("transfers".into())], own.transpose()?)
            }
            (Request::Move { .. }, Some(reply)) if reply.is_error() => return Err(wrong(reply)),
            (Request::Move { .. }, _) => return Ok(Vec::new()),
            (_, Some(other)) => return Err(wrong(other)),
        };
        let mut names = Vec::new();
        for (at, op) in ops.iter().enumerate() {
            let mut outcomes = op.outcomes(&self.keys, times);
            let fits = |name: &String, entry: &Option<_>| agrees(entry.as_ref(), seen.get(name), seen_ms);
            let chosen = match &replies {
                Some(replies) => {
                    outcomes.iter().position(|outcome| outcome.reply == replies[at]).ok_or_else(|| {
                        let allowed: Vec<_> = outcomes.iter().map(|outcome| &outcome.reply).collect();
                        format!("client {}: {:?} to {op:?}, not {allowed:?}", self.id, replies[at])
                    })?
                }
                None => outcomes
                    .iter()
                    .position(|outcome| outcome.keys.iter().all(|(name, entry)| fits(name, entry)))
                    .unwrap_or(0),
            };
            for (name, entry) in outcomes.swap_remove(chosen).keys {
                match entry {
                    Some(entry) => self.keys.insert(name.clone(), entry),
                    None => self.keys.remove(&name),
                };
                names.push(name);
            }
        }
        Ok(names)
    }
}

impl Request {
    fn is_open(&self) -> bool {
        match self {
            Request::One(op) => op.is_open(),
            Request::Transaction(ops) => ops.iter().any(Op::is_open),
            _ => false,
        }
    }
}
