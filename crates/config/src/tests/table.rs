//! Tests of the table's own consistency.

use std::collections::HashSet;

use super::super::table::{self, IMMUTABLE, MULTI};
use super::*;

#[test]
fn names_are_unique_and_lower_case() {
    let mut seen = HashSet::new();
    for parameter in parameters() {
        for name in std::iter::once(&parameter.name).chain(parameter.aliases) {
            assert!(seen.insert(*name), "{name} twice");
            assert_eq!(*name, name.to_ascii_lowercase());
            assert_eq!(
                find(name.to_ascii_uppercase().as_bytes()).map(|found| found.name),
                Some(parameter.name)
            );
        }
        assert!(!parameter.doc.trim().is_empty(), "{}", parameter.name);
    }
    assert!(find(b"no-such-parameter").is_none());
}

#[test]
fn knows_every_name() {
    // What redis-server 7.0.15 lists, and what Redis 8.2 and Valkey 9.1 declare.
    for name in include_str!("known_names.txt").lines() {
        assert!(find(name.as_bytes()).is_some(), "{name}");
    }
}

#[test]
fn defaults_are_their_own_text() {
    let default = Config::default();
    for parameter in parameters().filter(|parameter| parameter.name != "replicaof") {
        let mut config = Config::default();
        let text = parameter.get(&default);
        super::super::change::assign(&mut config, parameter, &text)
            .unwrap_or_else(|why| panic!("{}: {why}", parameter.name));
        assert!(parameter.is_same(&config, &default), "{}", parameter.name);
    }
}

#[test]
fn bounds_lie_within_the_field() {
    for parameter in parameters() {
        let texts = match parameter.kind {
            Kind::Integer(min, max) | Kind::Memory(min, max) => [min.to_string(), max.to_string()],
            Kind::Octal(min, max) => [format!("{min:o}"), format!("{max:o}")],
            _ => continue,
        };
        for text in texts {
            // A decimal number beyond 64 bits signed is no integer for Redis either.
            let mut config = Config::default();
            match super::super::change::assign(&mut config, parameter, text.as_bytes()) {
                Ok(()) => assert_eq!(parameter.get(&config), text.as_bytes(), "{}", parameter.name),
                Err(why) => {
                    assert_eq!(
                        (text.parse(), why.contains("integer")),
                        (Ok(u64::MAX), true),
                        "{}",
                        parameter.name
                    )
                }
            }
        }
    }
}

#[test]
fn lists_take_several_words_and_nothing_else_does() {
    for parameter in parameters() {
        let is_list = matches!(
            parameter.kind,
            Kind::AnyOf(_)
                | Kind::SaveList
                | Kind::OutputLimits
                | Kind::OomScores
                | Kind::Addresses
                | Kind::HostPort
                | Kind::Percentiles
                | Kind::SlotMetrics
        );
        assert_eq!(parameter.has(MULTI), is_list, "{}", parameter.name);
    }
}

#[test]
fn flags_are_redis_own() {
    let flagged = |flag| -> Vec<_> { parameters().filter(|p| p.has(flag)).map(|p| p.name).collect() };
    assert_eq!(flagged(table::PROTECTED), ["dir", "dbfilename", "lua-enable-insecure-api"]);
    assert_eq!(flagged(table::DENY_LOADING), ["dir", "repl-diskless-load"]);
    // The second key's password is Valkey 9.2's.
    let secrets = [
        "requirepass",
        "masteruser",
        "masterauth",
        "tls-key-file-pass",
        "tls-alt-key-file-pass",
        "tls-client-key-file-pass",
    ];
    assert_eq!(flagged(table::SENSITIVE), secrets);
    assert!(is_sensitive(b"MasterAuth") && !is_sensitive(b"port") && !is_sensitive(b"nope"));
    for name in ["databases", "io-threads", "daemonize", "unixsocket", "logfile", "replicaof", "aclfile"] {
        assert!(find(name.as_bytes()).is_some_and(|parameter| parameter.has(IMMUTABLE)), "{name}");
    }
}

#[test]
fn a_value_survives_its_text() {
    for parameter in parameters() {
        let value = other_value(parameter);
        let mut config = Config::default();
        super::super::change::assign(&mut config, parameter, value.as_bytes())
            .unwrap_or_else(|why| panic!("{} {value}: {why}", parameter.name));
        assert!(!parameter.is_same(&config, &Config::default()), "{} {value}", parameter.name);
        assert_eq!(String::from_utf8_lossy(&parameter.get(&config)), value, "{}", parameter.name);
    }
}

#[test]
fn memory_has_units() {
    for (text, bytes) in [
        ("0", Some(0)),
        ("", Some(0)),
        ("1b", Some(1)),
        ("2k", Some(2000)),
        ("2kB", Some(2048)),
        ("3m", Some(3_000_000)),
        ("3MB", Some(3 << 20)),
        ("1g", Some(1_000_000_000)),
        ("1Gb", Some(1 << 30)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", None),
        ("17179869184gb", None),
        ("1.5gb", None),
        ("-1", None),
        ("1 gb", None),
        ("1tb", None),
    ] {
        assert_eq!(super::super::value::memory(text.as_bytes()), bytes, "{text}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn memory_text_reads_back(bytes: u64, shift in 0u32..40) {
        for bytes in [bytes, bytes << shift] {
            let text = super::super::value::memory_text(bytes);
            proptest::prop_assert_eq!(super::super::value::memory(text.as_bytes()), Some(bytes));
        }
    }

    #[test]
    fn no_text_panics(text: Vec<u8>) {
        let default = Config::default();
        for parameter in parameters() {
            let mut config = default.clone();
            if super::super::change::assign(&mut config, parameter, &text).is_err() {
                proptest::prop_assert!(parameter.is_same(&config, &default));
            }
        }
    }
}

#[test]
fn subnets_have_the_addresses_of_both_families() {
    let subnets = |text: &str| {
        let mut config = Config::default();
        let parameter = find(b"priority-subnets").unwrap();
        super::super::change::assign(&mut config, parameter, text.as_bytes())
            .map(|()| config.priority_subnets)
    };
    let has = |text: &str, address: &str| subnets(text).unwrap().contain(address.parse().unwrap());
    assert!(has("10.0.0.0/8 192.168.1.7", "10.255.1.2") && has("10.0.0.0/8,192.168.1.7", "192.168.1.7"));
    assert!(!has("10.0.0.0/8, 192.168.1.7", "192.168.1.8") && !has("", "127.0.0.1"));
    // Clients of a socket of both families.
    assert!(has("127.0.0.1", "::ffff:127.0.0.1") && has("0.0.0.0/0", "1.2.3.4") && !has("0.0.0.0/0", "::1"));
    assert!(
        has("2001:db8::/32", "2001:db8:1::1") && !has("2001:db8::/32", "2001:db9::1") && has("::/0", "::1")
    );
    for wrong in ["127.0.0.1/33", "::1/129", "127.0.0.1/-1", "127.0.0.1/", "/8", "host"] {
        assert!(subnets(wrong).is_err(), "{wrong}");
    }
}
