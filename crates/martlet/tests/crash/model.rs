//! One client's changes to its keys: the model that the keys are compared with after a crash.
//!
//! Each client owns its keys, so the model is exact up to facts that only a reply shows: the member that SPOP
//! took, whether a key had expired when INCR came. An operation therefore has several outcomes, of which the
//! reply selects one; without a reply, the data after the crash does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use martlet_client::resp::Reply;

/// The server's clock is read once for a batch of requests: by so much it may be behind.
const CLOCK_MS: i64 = 50;

/// Between these times, Unix milliseconds, both included, lies the moment of expiry.
pub type Expiry = Option<(i64, i64)>;

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(String),
    List(VecDeque<String>),
    Set(BTreeSet<String>),
    Scores(BTreeMap<String, i64>),
    Fields(BTreeMap<String, (String, Expiry)>),
}

/// A key's value and when it expires.
pub type Entry = (Value, Expiry);
/// The keys of one client.
pub type Keys = BTreeMap<String, Entry>;

/// One command on keys of one client, without its prefix.
#[derive(Clone, Debug)]
pub enum Op {
    Incr(String),
    Set(String, String),
    Append(String, String),
    Del(String),
    Rename(String, String),
    Push {
        key: String,
        item: String,
        left: bool,
    },
    Pop {
        key: String,
        left: bool,
    },
    SAdd(String, String),
    SPop(String),
    SMove(String, String, String),
    ZIncr(String, String, i64),
    ZPopMin(String),
    HSet(String, String, String),
    HDel(String, String),
    HIncr(String, String),
    /// Expires that far in the future; relative to now.
    Expire(String, i64),
    /// SET … PX, short.
    SetPx(String, i64),
    Persist(String),
    /// HPEXPIRE of one field.
    HExpire(String, String, i64),
}

/// One outcome: its reply, and its keys.
pub struct Outcome {
    pub reply: Reply,
    pub keys: Vec<(String, Option<Entry>)>,
}

/// When a request was sent and when its reply was there, Unix milliseconds.
pub type Times = (i64, i64);

fn ok() -> Reply {
    Reply::Simple(b"OK".to_vec())
}

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.as_bytes().to_vec())
}

fn text(entry: Option<&Entry>) -> String {
    match entry {
        Some((Value::Text(text), _)) => text.clone(),
        _ => String::new(),
    }
}

impl Op {
    /// The request, with `prefix` before each key.
    pub fn words(&self, prefix: &str) -> Vec<String> {
        let key = |name: &String| format!("{prefix}{name}");
        let line = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match self {
            Op::Incr(k) => line(&["INCR", &key(k)]),
            Op::Set(k, v) => line(&["SET", &key(k), v]),
            Op::Append(k, v) => line(&["APPEND", &key(k), v]),
            Op::Del(k) => line(&["DEL", &key(k)]),
            Op::Rename(from, to) => line(&["RENAME", &key(from), &key(to)]),
            Op::Push { key: k, item, left } => line(&[if *left { "LPUSH" } else { "RPUSH" }, &key(k), item]),
            Op::Pop { key: k, left } => line(&[if *left { "LPOP" } else { "RPOP" }, &key(k)]),
            Op::SAdd(k, member) => line(&["SADD", &key(k), member]),
            Op::SPop(k) => line(&["SPOP", &key(k)]),
            Op::SMove(from, to, member) => line(&["SMOVE", &key(from), &key(to), member]),
            Op::ZIncr(k, member, by) => line(&["ZINCRBY", &key(k), &by.to_string(), member]),
            Op::ZPopMin(k) => line(&["ZPOPMIN", &key(k)]),
            Op::HSet(k, field, v) => line(&["HSET", &key(k), field, v]),
            Op::HDel(k, field) => line(&["HDEL", &key(k), field]),
            Op::HIncr(k, field) => line(&["HINCRBY", &key(k), field, "1"]),
            Op::Expire(k, ms) => line(&["PEXPIRE", &key(k), &ms.to_string()]),
            Op::SetPx(k, ms) => line(&["SET", &key(k), "100", "PX", &ms.to_string()]),
            Op::Persist(k) => line(&["PERSIST", &key(k)]),
            Op::HExpire(k, field, ms) => line(&["HPEXPIRE", &key(k), &ms.to_string(), "FIELDS", "1", field]),
        }
    }

    /// Whether only the reply shows its effect.
    pub fn is_open(&self) -> bool {
        match self {
            Op::SPop(_) | Op::HIncr(..) | Op::HExpire(..) => true,
            Op::Incr(key) | Op::Persist(key) => key.starts_with('x'),
            _ => false,
        }
    }

    /// Its possible effects on these keys.
    pub fn outcomes(&self, keys: &Keys, (sent, done): Times) -> Vec<Outcome> {
        let one = |reply, keys| vec![Outcome { reply, keys }];
        let within = |ms: i64| Some((sent + ms - CLOCK_MS, done + ms));
        match self {
            Op::Incr(k) => may_be_gone(keys.get(k), done)
                .map(|entry| {
                    let number = text(entry).parse::<i64>().unwrap_or(0) + 1;
                    let value = (Value::Text(number.to_string()), entry.and_then(|entry| entry.1));
                    Outcome { reply: Reply::Int(number), keys: vec![(k.clone(), Some(value))] }
                })
                .collect(),
            Op::Persist(k) => may_be_gone(keys.get(k), done)
                .map(|entry| {
                    let has_expiry = entry.is_some_and(|entry| entry.1.is_some());
                    let value = entry.map(|(value, _)| (value.clone(), None));
                    Outcome { reply: Reply::Int(i64::from(has_expiry)), keys: vec![(k.clone(), value)] }
                })
                .collect(),
            Op::Set(k, v) => one(ok(), vec![(k.clone(), Some((Value::Text(v.clone()), None)))]),
            Op::SetPx(k, ms) => one(ok(), vec![(k.clone(), Some((Value::Text("100".into()), within(*ms))))]),
            Op::Append(k, v) => {
                let new = text(keys.get(k)) + v;
                let expiry = keys.get(k).and_then(|entry| entry.1);
                one(Reply::Int(new.len() as i64), vec![(k.clone(), Some((Value::Text(new), expiry)))])
            }
            Op::Del(k) => one(Reply::Int(i64::from(keys.contains_key(k))), vec![(k.clone(), None)]),
            Op::Rename(from, to) => match keys.get(from) {
                None => one(Reply::Error(b"ERR no such key".to_vec()), Vec::new()),
                Some(entry) => one(ok(), vec![(from.clone(), None), (to.clone(), Some(entry.clone()))]),
            },
            Op::Expire(k, ms) => match keys.get(k) {
                None => one(Reply::Int(0), Vec::new()),
                Some((value, _)) => one(Reply::Int(1), vec![(k.clone(), Some((value.clone(), within(*ms))))]),
            },
            _ => self.outcomes_of_collections(keys, (sent, done)),
        }
    }

    fn outcomes_of_collections(&self, keys: &Keys, times: Times) -> Vec<Outcome> {
        match self {
            Op::Push { .. } | Op::Pop { .. } => vec![self.list_outcome(keys)],
            Op::SAdd(k, member) => {
                let (mut set, expiry) = set_of(keys.get(k));
                let is_new = set.insert(member.clone());
                vec![Outcome {
                    reply: Reply::Int(i64::from(is_new)),
                    keys: vec![(k.clone(), Some((Value::Set(set), expiry)))],
                }]
            }
            Op::SPop(k) => {
                let (set, expiry) = set_of(keys.get(k));
                if set.is_empty() {
                    return vec![Outcome { reply: Reply::NullBulk, keys: Vec::new() }];
                }
                let without = |member: &String| {
                    let mut rest = set.clone();
                    rest.remove(member);
                    let entry = (!rest.is_empty()).then_some((Value::Set(rest), expiry));
                    Outcome { reply: bulk(member), keys: vec![(k.clone(), entry)] }
                };
                set.iter().map(without).collect()
            }
            Op::SMove(from, to, member) => {
                let ((mut source, from_expiry), (mut target, to_expiry)) =
                    (set_of(keys.get(from)), set_of(keys.get(to)));
                if !source.remove(member) {
                    return vec![Outcome { reply: Reply::Int(0), keys: Vec::new() }];
                }
                target.insert(member.clone());
                let source = (!source.is_empty()).then_some((Value::Set(source), from_expiry));
                let target = Some((Value::Set(target), to_expiry));
                vec![Outcome {
                    reply: Reply::Int(1),
                    keys: vec![(from.clone(), source), (to.clone(), target)],
                }]
            }
            Op::ZIncr(..) | Op::ZPopMin(_) => vec![self.scores_outcome(keys)],
            _ => self.hash_outcomes(keys, times),
        }
    }

    fn list_outcome(&self, keys: &Keys) -> Outcome {
        let list = |k| match keys.get(k) {
            Some((Value::List(list), expiry)) => (list.clone(), *expiry),
            _ => Default::default(),
        };
        let (reply, key, list, expiry) = match self {
            Op::Push { key, item, left } => {
                let (mut list, expiry) = list(key);
                if *left {
                    list.push_front(item.clone())
                } else {
                    list.push_back(item.clone())
                }
                (Reply::Int(list.len() as i64), key, list, expiry)
            }
            Op::Pop { key, left } => {
                let (mut list, expiry) = list(key);
                let item = if *left { list.pop_front() } else { list.pop_back() };
                (item.map_or(Reply::NullBulk, |item| bulk(&item)), key, list, expiry)
            }
            other => panic!("{other:?} is not of lists"),
        };
        let entry = (!list.is_empty()).then_some((Value::List(list), expiry));
        Outcome { reply, keys: vec![(key.clone(), entry)] }
    }

    fn scores_outcome(&self, keys: &Keys) -> Outcome {
        let scores = |k| match keys.get(k) {
            Some((Value::Scores(scores), expiry)) => (scores.clone(), *expiry),
            _ => Default::default(),
        };
        let (reply, key, scores, expiry) = match self {
            Op::ZIncr(key, member, by) => {
                let (mut scores, expiry) = scores(key);
                let score = scores.entry(member.clone()).or_default();
                *score += by;
                (bulk(&score.to_string()), key, scores, expiry)
            }
            Op::ZPopMin(key) => {
                let (mut scores, expiry) = scores(key);
                let least = scores.iter().map(|(member, score)| (*score, member.clone())).min();
                let items = least.iter().flat_map(|(score, member)| [bulk(member), bulk(&score.to_string())]);
                let items = items.collect();
                if let Some((_, member)) = least {
                    scores.remove(&member);
                }
                (Reply::Array(items), key, scores, expiry)
            }
            other => panic!("{other:?} is not of sorted sets"),
        };
        let entry = (!scores.is_empty()).then_some((Value::Scores(scores), expiry));
        Outcome { reply, keys: vec![(key.clone(), entry)] }
    }

    fn hash_outcomes(&self, keys: &Keys, (sent, done): Times) -> Vec<Outcome> {
        let (Op::HSet(key, name, _) | Op::HDel(key, name) | Op::HIncr(key, name) | Op::HExpire(key, name, _)) =
            self
        else {
            panic!("{self:?} is not of hashes");
        };
        let (fields, expiry) = match keys.get(key) {
            Some((Value::Fields(fields), expiry)) => (fields.clone(), *expiry),
            _ => Default::default(),
        };
        let now = fields.get(name).cloned();
        let may_be_due = now.as_ref().and_then(|field| field.1).is_some_and(|(least, _)| least <= done);
        let states = [Some(now), may_be_due.then_some(None)];
        let outcome = |field: Option<(String, Expiry)>| {
            let (reply, field) = match self {
                Op::HSet(_, _, value) => {
                    (Reply::Int(i64::from(field.is_none())), Some((value.clone(), None)))
                }
                Op::HDel(..) => (Reply::Int(i64::from(field.is_some())), None),
                Op::HIncr(..) => {
                    let (value, expiry) = field.unwrap_or_default();
                    let number = value.parse::<i64>().unwrap_or(0) + 1;
                    (Reply::Int(number), Some((number.to_string(), expiry)))
                }
                Op::HExpire(_, _, ms) => {
                    let (code, field) = match field {
                        None => (-2, None),
                        Some((value, _)) => (1, Some((value, Some((sent + ms - CLOCK_MS, done + ms))))),
                    };
                    (Reply::Array(vec![Reply::Int(code)]), field)
                }
                other => panic!("{other:?} is not of hashes"),
            };
            let mut fields = fields.clone();
            match field {
                Some(field) => fields.insert(name.clone(), field),
                None => fields.remove(name),
            };
            let entry = (!fields.is_empty()).then_some((Value::Fields(fields), expiry));
            Outcome { reply, keys: vec![(key.clone(), entry)] }
        };
        states.into_iter().flatten().map(outcome).collect()
    }
}

/// An entry as it is and, if it may have expired until `done`, without it.
fn may_be_gone(entry: Option<&Entry>, done: i64) -> impl Iterator<Item = Option<&Entry>> {
    let is_due = entry.and_then(|entry| entry.1).is_some_and(|(least, _)| least <= done);
    [Some(entry), is_due.then_some(None)].into_iter().flatten()
}

fn set_of(entry: Option<&Entry>) -> (BTreeSet<String>, Expiry) {
    match entry {
        Some((Value::Set(set), expiry)) => (set.clone(), *expiry),
        _ => Default::default(),
    }
}

fn same_expiry(model: Expiry, seen: Expiry) -> bool {
    match (model, seen) {
        (None, None) => true,
        (Some((least, most)), Some((at, _))) => (least..=most).contains(&at),
        _ => false,
    }
}

fn is_due(expiry: Expiry, now_ms: i64) -> bool {
    expiry.is_some_and(|(least, _)| least <= now_ms)
}

/// Whether the data, read until `now_ms`, can be the model's.
pub fn agrees(model: Option<&Entry>, seen: Option<&Entry>, now_ms: i64) -> bool {
    let Some((value, expiry)) = model else { return seen.is_none() };
    let Some((seen_value, seen_expiry)) = seen else {
        let all_due = |fields: &BTreeMap<_, (String, Expiry)>| fields.values().all(|f| is_due(f.1, now_ms));
        return is_due(*expiry, now_ms) || matches!(value, Value::Fields(fields) if all_due(fields));
    };
    same_expiry(*expiry, *seen_expiry)
        && match (value, seen_value) {
            (Value::Fields(fields), Value::Fields(seen)) => {
                let kept = |(name, (text, expiry)): (&String, &(String, Expiry))| match seen.get(name) {
                    None => is_due(*expiry, now_ms),
                    Some((seen_text, seen_expiry)) => text == seen_text && same_expiry(*expiry, *seen_expiry),
                };
                fields.iter().all(kept) && seen.keys().all(|name| fields.contains_key(name))
            }
            _ => value == seen_value,
        }
}
