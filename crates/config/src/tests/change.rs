//! Tests of CONFIG GET and CONFIG SET. The refusals were recorded from redis-server 7.0.15.

use std::sync::{Arc, Mutex};

use super::super::table::{HIDDEN, IMMUTABLE, PROTECTED};
use super::*;

fn set(store: &ConfigStore, pairs: &[(&str, &str)]) -> Result<Vec<&'static str>, String> {
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    let changed = store.set(&pairs, Setter::default()).map_err(|error| error.to_string())?;
    Ok(changed.iter().map(|changed| changed.parameter.name).collect())
}

fn get(store: &ConfigStore, patterns: &[&str]) -> Vec<(String, String)> {
    let patterns: Vec<_> = patterns.iter().map(|pattern| pattern.as_bytes()).collect();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    store.get(&patterns).into_iter().map(|(name, value)| (text(name), text(value))).collect()
}

/// Name, value and the rest of the message behind `ERR CONFIG SET failed (possibly related to argument
/// 'NAME') - `.
const REFUSED: &[(&str, &str, &str)] = &[
    ("maxmemory", "1x", "argument must be a memory value"),
    ("databases", "3", "can't set immutable config"),
    ("martlet-presents-as", "valkey", "can't set immutable config"),
    ("preload-file", "rdb:/a.rdb", "can't set immutable config"),
    ("priority-subnets", "127.0.0.1/99", "Invalid IP address or CIDR subnet"),
    ("priority-subnets", "nowhere/24", "Invalid IP address or CIDR subnet"),
    (
        "tls-expected-peer-name",
        " ",
        "tls-expected-peer-name contains no usable name; use an empty string to disable it",
    ),
    ("io-threads", "3", "can't set immutable config"),
    ("replicaof", "a b", "can't set immutable config"),
    ("dir", "/", "can't set protected config"),
    ("dbfilename", "a/b", "can't set protected config"),
    ("appendfsync", "foo", "argument(s) must be one of the following: everysec, always, no"),
    ("save", "10 1  60 2", "Invalid save parameters"),
    ("client-output-buffer-limit", "foo", "Wrong number of arguments in buffer limit configuration."),
    ("slave-priority", "zz", "argument couldn't be parsed into an integer"),
    ("maxmemory-clients", "200%", "percentage argument must be less or equal to 100"),
    ("maxmemory-clients", "-1", "argument must be a memory or percent value"),
    ("port", "70000", "argument must be between 0 and 65535 inclusive"),
    ("port", " 1", "argument couldn't be parsed into an integer"),
    ("proc-title-template", "{x}", "template format is invalid or contains unknown variables"),
    ("notify-keyspace-events", "q", "Invalid event class character. Use 'Ag$lshzxeKEtmdnocaSTIV'."),
    (
        "latency-tracking-info-percentiles",
        "200",
        "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
    ),
    ("latency-tracking-info-percentiles", "x", "Invalid latency-tracking-info-percentiles parameters"),
    ("activerehashing", "maybe", "argument must be 'yes' or 'no'"),
    ("oom-score-adj-values", "1", "wrong number of arguments"),
    (
        "oom-score-adj-values",
        "a 1 2",
        "Invalid oom-score-adj-values, elements must be between -2000 and 2000.",
    ),
    ("shutdown-on-sigterm", "save nosave", "shutdown options SAVE and NOSAVE can't be used simultaneously"),
    (
        "shutdown-on-sigint",
        "save foo",
        "argument(s) must be one of the following: default, save, nosave, now, force",
    ),
    ("repl-backlog-size", "0", "argument must be between 1 and 9223372036854775807 inclusive"),
    ("hash-max-listpack-value", "-1", "argument must be a memory value"),
    (
        "cluster-announce-hostname",
        "a_b",
        "Hostnames may only contain alphanumeric characters, hyphens or dots",
    ),
    ("slowlog-max-len", "-1", "argument must be between 0 and 9223372036854775807 inclusive"),
    ("list-max-listpack-size", "3000000000", "argument must be between -2147483648 and 2147483647 inclusive"),
];

#[test]
fn refuses_in_redis_words() {
    let store = ConfigStore::new(Config::default());
    for (name, value, why) in REFUSED {
        let expected = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
        assert_eq!(set(&store, &[(name, value)]), Err(expected));
    }
    let unknown = "ERR Unknown option or number of arguments for CONFIG SET - 'nope'";
    assert_eq!(set(&store, &[("port", "1"), ("nope", "1")]), Err(unknown.into()));
    let twice = "ERR CONFIG SET failed (possibly related to argument 'MaxMemory') - duplicate parameter";
    assert_eq!(set(&store, &[("maxmemory", "1"), ("MaxMemory", "2")]), Err(twice.into()));
    let twice = "ERR CONFIG SET failed (possibly related to argument 'slave-priority') - duplicate parameter";
    assert_eq!(set(&store, &[("replica-priority", "1"), ("slave-priority", "2")]), Err(twice.into()));
    // A value's refusal names the parameter as the table writes it, unlike the ones before a value is read.
    let value = set(&store, &[("MAXMEMORY", "zz")]).unwrap_err();
    assert!(value.contains("argument 'maxmemory'"), "{value}");
    assert_eq!((store.generation(), &*store.snapshot()), (0, &Config::default()));
}

#[test]
fn sets_all_or_nothing() {
    let store = ConfigStore::new(Config::default());
    assert!(set(&store, &[("port", "7000"), ("timeout", "x")]).is_err());
    assert_eq!(store.snapshot().port, 6379);
    assert_eq!(set(&store, &[("port", "7000"), ("timeout", "0"), ("hz", "9999")]), Ok(vec!["port", "hz"]));
    assert_eq!((store.snapshot().port, store.snapshot().hz, store.generation()), (7000, 500, 1));
    assert_eq!(set(&store, &[("port", "7000")]), Ok(vec![]));
    assert_eq!(store.generation(), 1);
    assert_eq!(set(&store, &[("save", "10 1")]), Ok(vec!["save"]));
    assert_eq!(set(&store, &[("save", "")]), Ok(vec!["save"]));
    assert_eq!(get(&store, &["save"]), [("save".into(), "".into())]);
}

#[test]
fn protected_and_loading_depend_on_the_setter() {
    let store = |who| ConfigStore::new(Config { enable_protected_configs: who, ..Config::default() });
    let set = |who, setter| store(who).set(&[(b"dir", b"/")], setter).map(|_| ());
    let local = Setter { is_local: true, is_loading: false };
    assert!(set(ProtectedAction::No, local).is_err());
    assert!(set(ProtectedAction::Local, Setter::default()).is_err());
    assert!(set(ProtectedAction::Local, local).is_ok());
    assert!(set(ProtectedAction::Yes, Setter::default()).is_ok());
    let loading = Setter { is_local: true, is_loading: true };
    assert_eq!(set(ProtectedAction::Yes, loading), Err(SetError::Loading));
    assert!(store(ProtectedAction::No).set(&[(b"port", b"1")], loading).is_ok());
}

#[test]
fn hooks_may_refuse_and_are_undone() {
    let store = ConfigStore::new(Config::default());
    let calls = Arc::new(Mutex::new(Vec::new()));
    let recorder = Arc::clone(&calls);
    store.on_change(
        &["port", "bind"],
        Box::new(move |old, new| {
            recorder.lock().unwrap().push((old.port, new.port));
            Ok(())
        }),
    );
    store.on_change(
        &["maxclients"],
        Box::new(|_, new| if new.maxclients > 100 { Err("too many".into()) } else { Ok(()) }),
    );
    let refused = set(&store, &[("port", "1"), ("maxclients", "101")]);
    assert_eq!(
        refused,
        Err("ERR CONFIG SET failed (possibly related to argument 'maxclients') - too many".into())
    );
    assert_eq!(std::mem::take(&mut *calls.lock().unwrap()), [(6379, 1), (1, 6379)]);
    assert_eq!(store.snapshot().port, 6379);
    assert!(set(&store, &[("port", "1"), ("maxclients", "100")]).is_ok());
    assert!(set(&store, &[("timeout", "5")]).is_ok());
    assert_eq!(*calls.lock().unwrap(), [(6379, 1)]);
}

#[test]
fn what_a_hook_prepares_is_used_after_the_publication_or_dropped() {
    let store = ConfigStore::new(Config::default());
    let prepared = Arc::new(Prepared::<u16>::default());
    let (made, used) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (hook, count) = (Arc::clone(&prepared), Arc::clone(&made));
    store.on_change(
        &["port", "bind"],
        Box::new(move |_, new| {
            hook.prepare(|| {
                *count.lock().unwrap() += 1;
                Ok(new.port)
            })
        }),
    );
    store.on_change(&["hz"], Box::new(|_, _| Err("no".into())));
    let (follow, seen) = (Arc::clone(&prepared), Arc::clone(&used));
    let published = Arc::downgrade(&store);
    store.on_published(
        &["bind", "port"],
        Box::new(move |old, new| {
            let current = published.upgrade().unwrap().snapshot().port;
            seen.lock().unwrap().push((old.port, new.port, current, follow.take()));
        }),
    );
    assert!(set(&store, &[("port", "1"), ("hz", "20")]).is_err());
    assert_eq!((*made.lock().unwrap(), prepared.take()), (1, None), "what was made is dropped");
    assert!(used.lock().unwrap().is_empty());
    assert!(set(&store, &[("timeout", "5")]).is_ok());
    assert!(set(&store, &[("port", "2"), ("bind", "127.0.0.1")]).is_ok());
    assert_eq!(*made.lock().unwrap(), 2);
    assert_eq!(*used.lock().unwrap(), [(6379, 2, 2, Some(2))], "once, after the publication");
}

#[test]
fn readers_follow_the_generation() {
    let store = ConfigStore::new(Config::default());
    let mut reader = store.reader();
    assert!(!reader.refresh());
    set(&store, &[("timeout", "5")]).unwrap();
    assert_eq!(reader.timeout_s, 0);
    assert!(reader.refresh() && !reader.refresh());
    assert_eq!(reader.timeout_s, 5);
}

#[test]
fn gets_by_name_and_pattern() {
    let store = ConfigStore::new(Config::default());
    let names = |patterns: &[&str]| -> Vec<String> {
        get(&store, patterns).into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(
        get(&store, &["PORT", "port", "port"]),
        [("PORT".into(), "6379".into()), ("port".into(), "6379".into())]
    );
    assert_eq!(names(&["nope"]), Vec::<String>::new());
    assert_eq!(names(&["replicaof", "slaveof"]), ["replicaof", "slaveof"]);
    assert_eq!(names(&["*-MAX-z?plist-*"]).len(), 5);
    assert_eq!(names(&["s[l]aveo*", "slaveof"]), ["slaveof"]);
    assert_eq!(names(&["use-*"]), Vec::<String>::new());
    assert_eq!(get(&store, &["use-exit-on-panic"]), [("use-exit-on-panic".into(), "no".into())]);
    let all = names(&["*"]);
    let shown: usize = parameters().filter(|p| !p.has(HIDDEN)).map(|p| 1 + p.aliases.len()).sum();
    assert_eq!(all.len(), shown);
    let limits = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";
    assert_eq!(get(&store, &["client-output-buffer-limit"])[0].1, limits);
}

#[test]
fn every_modifiable_parameter_survives_set_get_rewrite_and_load() {
    for parameter in parameters().filter(|p| !p.has(IMMUTABLE | PROTECTED)) {
        let store = ConfigStore::new(Config::default());
        let value = other_value(parameter);
        assert_eq!(set(&store, &[(parameter.name, &value)]), Ok(vec![parameter.name]));
        assert_eq!(get(&store, &[parameter.name])[0].1, value);
        for old in ["", &format!("# mine\n{} \"nonsense\"\nport 6379\n", parameter.name)] {
            let text = crate::rewrite(old.as_bytes(), &store.snapshot(), None, Extent::Needed);
            let text = String::from_utf8(text).unwrap();
            let loaded = load_text(&text, "").unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(loaded.config, *store.snapshot(), "{text}");
            let again = crate::rewrite(text.as_bytes(), &loaded.config, None, Extent::Needed);
            assert_eq!(String::from_utf8(again).unwrap(), text);
        }
    }
}
