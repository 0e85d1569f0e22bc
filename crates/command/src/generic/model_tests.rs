//! Random requests of the string and generic commands against a naive model: a map from key to text and
//! expiry.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::testing::{Fixture, START_MS};

#[derive(Clone, Debug)]
enum Op {
    Set { key: u8, value: String, px: Option<i64>, keep: bool, nx: bool, xx: bool, get: bool },
    Get(u8),
    GetDel(u8),
    GetEx(u8, i64),
    Append(u8, String),
    SetRange(u8, usize, String),
    GetRange(u8, i64, i64),
    IncrBy(u8, i64),
    Del(u8, u8),
    Exists(u8),
    Expire(u8, i64, Option<&'static str>),
    Ttl(u8),
    Persist(u8),
    Rename(u8, u8),
    RenameNx(u8, u8),
    Copy(u8, u8, bool),
    MSetNx(u8, u8),
    SetBit(u8, usize, bool),
    Sleep(i64),
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0u8..6;
    let value = prop_oneof![
        3 => any::<i16>().prop_map(|n| n.to_string()),
        3 => "[a-z]{0,12}",
        1 => (40usize..60).prop_map(|n| "r".repeat(n)),
        1 => (1000usize..1100).prop_map(|n| "l".repeat(n)),
    ];
    let px = proptest::option::of(1i64..50);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let when = proptest::sample::select(vec![None, Some("NX"), Some("XX"), Some("GT"), Some("LT")]);
    prop_oneof![
        8 => (key(), value.clone(), px, flags).prop_map(|(key, value, px, (keep, nx, xx, get))| {
            Op::Set { key, value, px, keep: keep && px.is_none(), nx: nx && !xx, xx: xx && !nx, get }
        }),
        3 => key().prop_map(Op::Get),
        1 => key().prop_map(Op::GetDel),
        1 => (key(), 1i64..50).prop_map(|(k, n)| Op::GetEx(k, n)),
        3 => (key(), value.clone()).prop_map(|(k, v)| Op::Append(k, v)),
        2 => (key(), 0usize..1100, "[A-Z]{0,5}").prop_map(|(k, at, v)| Op::SetRange(k, at, v)),
        2 => (key(), -20i64..20, -20i64..20).prop_map(|(k, a, b)| Op::GetRange(k, a, b)),
        3 => (key(), any::<i64>()).prop_map(|(k, n)| Op::IncrBy(k, n)),
        2 => (key(), key()).prop_map(|(a, b)| Op::Del(a, b)),
        1 => key().prop_map(Op::Exists),
        3 => (key(), -5i64..60, when).prop_map(|(k, n, w)| Op::Expire(k, n, w)),
        3 => key().prop_map(Op::Ttl),
        1 => key().prop_map(Op::Persist),
        1 => (key(), key()).prop_map(|(a, b)| Op::Rename(a, b)),
        1 => (key(), key()).prop_map(|(a, b)| Op::RenameNx(a, b)),
        2 => (key(), key(), any::<bool>()).prop_map(|(a, b, r)| Op::Copy(a, b, r)),
        1 => (key(), key()).prop_map(|(a, b)| Op::MSetNx(a, b)),
        1 => (key(), 0usize..9000, any::<bool>()).prop_map(|(k, at, on)| Op::SetBit(k, at, on)),
        2 => (1i64..20).prop_map(Op::Sleep),
    ]
}

/// The expected keyspace.
struct Model {
    now_ms: i64,
    keys: BTreeMap<u8, (Vec<u8>, Option<i64>)>,
}

fn shown(value: Option<&Vec<u8>>) -> String {
    value.map_or("nil".into(), |value| format!("\"{}\"", value.escape_ascii()))
}

fn flag(value: bool) -> String {
    format!(":{}", u8::from(value))
}

fn words(parts: &[&str]) -> Vec<Vec<u8>> {
    parts.iter().map(|part| part.as_bytes().to_vec()).collect()
}

impl Model {
    fn value(&self, key: u8) -> Option<&Vec<u8>> {
        self.keys.get(&key).map(|(value, _)| value)
    }

    fn text(&self, key: u8) -> Vec<u8> {
        self.value(key).cloned().unwrap_or_default()
    }

    /// Changes the value and leaves the expiry.
    fn put(&mut self, key: u8, value: Vec<u8>) {
        self.keys.entry(key).or_default().0 = value;
    }

    /// The request, and the reply to expect; runs it on the model.
    fn apply(&mut self, op: &Op) -> (Vec<Vec<u8>>, String) {
        let name = |key: &u8| format!("key{key}");
        match op {
            Op::Set { key, value, px, keep, nx, xx, get } => {
                let mut request = words(&["SET", &name(key), value]);
                let px_text = px.map(|ms| ms.to_string());
                if let Some(ms) = &px_text {
                    request.extend(words(&["PX", ms]));
                }
                for (on, word) in [(*keep, "KEEPTTL"), (*nx, "nx"), (*xx, "XX"), (*get, "get")] {
                    request.extend(words(&[word]).into_iter().filter(|_| on));
                }
                let old = self.value(*key).cloned();
                let may = !(*nx && old.is_some() || *xx && old.is_none());
                if may {
                    let kept = self.keys.get(key).and_then(|(_, at_ms)| *at_ms).filter(|_| *keep);
                    let at_ms = px.map(|ms| self.now_ms + ms).or(kept);
                    self.keys.insert(*key, (value.clone().into_bytes(), at_ms));
                }
                let reply = match (get, may) {
                    (true, _) => shown(old.as_ref()),
                    (false, true) => "+OK".into(),
                    (false, false) => "nil".into(),
                };
                (request, reply)
            }
            Op::Get(key) => (words(&["GET", &name(key)]), shown(self.value(*key))),
            Op::GetDel(key) => {
                let old = self.keys.remove(key).map(|(value, _)| value);
                (words(&["GETDEL", &name(key)]), shown(old.as_ref()))
            }
            Op::GetEx(key, ms) => {
                if let Some((_, at_ms)) = self.keys.get_mut(key) {
                    *at_ms = Some(self.now_ms + ms);
                }
                (words(&["GETEX", &name(key), "PX", &ms.to_string()]), shown(self.value(*key)))
            }
            Op::Append(..) | Op::SetRange(..) | Op::GetRange(..) | Op::IncrBy(..) | Op::SetBit(..) => {
                self.apply_to_text(op)
            }
            _ => self.apply_to_key(op),
        }
    }

    fn apply_to_text(&mut self, op: &Op) -> (Vec<Vec<u8>>, String) {
        let name = |key: &u8| format!("key{key}");
        match op {
            Op::Append(key, value) => {
                let mut text = self.text(*key);
                text.extend_from_slice(value.as_bytes());
                let len = text.len();
                self.put(*key, text);
                (words(&["APPEND", &name(key), value]), format!(":{len}"))
            }
            Op::SetRange(key, at, value) => {
                let mut text = self.text(*key);
                if !value.is_empty() {
                    text.resize(text.len().max(at + value.len()), 0);
                    text[*at..at + value.len()].copy_from_slice(value.as_bytes());
                    self.put(*key, text.clone());
                }
                (words(&["SETRANGE", &name(key), &at.to_string(), value]), format!(":{}", text.len()))
            }
            Op::GetRange(key, start, end) => {
                let text = self.text(*key);
                let len = text.len() as i64;
                let at = |index: i64| if index < 0 { (index + len).max(0) } else { index };
                let crossed = *start < 0 && *end < 0 && start > end;
                let part: Vec<u8> = (at(*start)..=at(*end))
                    .filter(|_| !crossed)
                    .filter_map(|i| text.get(usize::try_from(i).ok()?).copied())
                    .collect();
                let request = words(&["GETRANGE", &name(key), &start.to_string(), &end.to_string()]);
                (request, shown(Some(&part)))
            }
            Op::IncrBy(key, by) => {
                let request = words(&["INCRBY", &name(key), &by.to_string()]);
                let old = match self.value(*key) {
                    None => Some(0),
                    // What Rust and Redis both take for a number, and spelt as it would be written.
                    Some(text) => std::str::from_utf8(text)
                        .ok()
                        .and_then(|t| t.parse::<i64>().ok().filter(|n| n.to_string() == t)),
                };
                let Some(old) = old else {
                    return (request, "-ERR value is not an integer or out of range".into());
                };
                let Some(new) = old.checked_add(*by) else {
                    return (request, "-ERR increment or decrement would overflow".into());
                };
                self.put(*key, new.to_string().into_bytes());
                (request, format!(":{new}"))
            }
            Op::SetBit(key, at, on) => {
                let mut text = self.text(*key);
                text.resize(text.len().max(at / 8 + 1), 0);
                let mask = 0x80 >> (at % 8);
                let was = text[at / 8] & mask != 0;
                text[at / 8] = if *on { text[at / 8] | mask } else { text[at / 8] & !mask };
                self.put(*key, text);
                let on = u8::from(*on).to_string();
                (words(&["SETBIT", &name(key), &at.to_string(), &on]), flag(was))
            }
            other => panic!("{other:?} does not work on a text"),
        }
    }

    fn apply_to_key(&mut self, op: &Op) -> (Vec<Vec<u8>>, String) {
        let name = |key: &u8| format!("key{key}");
        match op {
            Op::Del(a, b) => {
                let count = [a, b].into_iter().filter(|key| self.keys.remove(key).is_some()).count();
                (words(&["DEL", &name(a), &name(b)]), format!(":{count}"))
            }
            Op::Exists(key) => (words(&["EXISTS", &name(key)]), flag(self.keys.contains_key(key))),
            Op::Expire(key, ms, when) => {
                let mut request = words(&["PEXPIRE", &name(key), &ms.to_string()]);
                request.extend(when.iter().flat_map(|when| words(&[when])));
                let at_ms = self.now_ms + ms;
                let may = self.keys.get(key).is_some_and(|(_, old)| match *when {
                    Some("NX") => old.is_none(),
                    Some("XX") => old.is_some(),
                    Some("GT") => old.is_some_and(|old| at_ms > old),
                    Some("LT") => old.is_none_or(|old| at_ms < old),
                    _ => true,
                });
                if let Some((_, old)) = self.keys.get_mut(key).filter(|_| may) {
                    *old = Some(at_ms);
                }
                if may && *ms <= 0 {
                    self.keys.remove(key);
                }
                (request, flag(may))
            }
            Op::Ttl(key) => {
                let answer = match self.keys.get(key) {
                    None => -2,
                    Some((_, None)) => -1,
                    Some((_, Some(at_ms))) => at_ms - self.now_ms,
                };
                (words(&["PTTL", &name(key)]), format!(":{answer}"))
            }
            Op::Persist(key) => {
                let old = self.keys.get_mut(key).and_then(|(_, at_ms)| at_ms.take());
                (words(&["PERSIST", &name(key)]), flag(old.is_some()))
            }
            Op::Rename(a, b) => {
                let request = words(&["RENAME", &name(a), &name(b)]);
                let Some(taken) = self.keys.remove(a) else { return (request, "-ERR no such key".into()) };
                self.keys.insert(*b, taken);
                (request, "+OK".into())
            }
            Op::RenameNx(a, b) => {
                let request = words(&["RENAMENX", &name(a), &name(b)]);
                let Some(taken) = self.keys.get(a).cloned() else {
                    return (request, "-ERR no such key".into());
                };
                let may = !self.keys.contains_key(b);
                if may {
                    self.keys.remove(a);
                    self.keys.insert(*b, taken);
                }
                (request, flag(may))
            }
            Op::Copy(a, b, replace) => {
                let mut request = words(&["COPY", &name(a), &name(b)]);
                request.extend(words(&["REPLACE"]).into_iter().filter(|_| *replace));
                if a == b {
                    return (request, "-ERR source and destination objects are the same".into());
                }
                let may = self.keys.contains_key(a) && (*replace || !self.keys.contains_key(b));
                if let Some(copied) = self.keys.get(a).cloned().filter(|_| may) {
                    self.keys.insert(*b, copied);
                }
                (request, flag(may))
            }
            Op::MSetNx(a, b) => {
                let may = !self.keys.contains_key(a) && !self.keys.contains_key(b);
                if may {
                    self.keys.insert(*a, (b"1".to_vec(), None));
                    self.keys.insert(*b, (b"two".to_vec(), None));
                }
                (words(&["MSETNX", &name(a), "1", &name(b), "two"]), flag(may))
            }
            other => panic!("{other:?} does not work on a whole key"),
        }
    }

    fn sleep(&mut self, ms: i64) {
        self.now_ms += ms;
        self.keys.retain(|_, (_, at_ms)| at_ms.is_none_or(|at_ms| at_ms > self.now_ms));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_requests(ops in proptest::collection::vec(op(), 1..80), eager in any::<bool>()) {
        let mut t = Fixture::new();
        let mut model = Model { now_ms: START_MS, keys: BTreeMap::new() };
        for op in &ops {
            if let Op::Sleep(ms) = op {
                t.advance_ms(*ms);
                model.sleep(*ms);
                if eager {
                    t.expire_due();
                }
                continue;
            }
            let (request, reply) = model.apply(op);
            let got = crate::testing::show(&t.run_args(&request));
            prop_assert_eq!(got, reply, "{:?}", op);
        }
        let names: Vec<String> = model.keys.keys().map(|key| format!("\"key{key}\"")).collect();
        let got = t.run("KEYS *");
        let mut got: Vec<&str> = got.trim_matches(['[', ']']).split(' ').filter(|n| !n.is_empty()).collect();
        got.sort_unstable();
        prop_assert_eq!(got, names);
        for (key, (value, _)) in &model.keys {
            prop_assert_eq!(t.run(&format!("GET key{key}")), shown(Some(value)));
        }
    }

    /// The journal's records, replayed on an empty server, give the same data.
    #[test]
    fn effects_replay_to_the_same(ops in proptest::collection::vec(op(), 1..60)) {
        let mut t = Fixture::new();
        let mut replica = Fixture::new();
        let mut model = Model { now_ms: START_MS, keys: BTreeMap::new() };
        for op in &ops {
            if let Op::Sleep(ms) = op {
                t.advance_ms(*ms);
                model.sleep(*ms);
                continue;
            }
            let (request, _) = model.apply(op);
            t.run_args(&request);
            for effect in t.effects().to_vec() {
                replica.run_args(&effect.split(' ').collect::<Vec<_>>());
            }
        }
        // A follower never expires keys by itself, so its time stood still.
        replica.keys.see(martlet_engine::View { now_ms: t.keys.now_ms(), ..replica.keys.view() });
        for key in 0u8..6 {
            let request = [format!("GET key{key}"), format!("PTTL key{key}")];
            for line in request {
                prop_assert_eq!(t.run(&line), replica.run(&line), "{}", line);
            }
        }
    }
}
