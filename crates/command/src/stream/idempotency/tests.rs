//! Exactly-once adding, against names as Redis' algorithm makes them, and a naive model.

use std::collections::HashMap;

use proptest::prelude::*;

use super::name_of_fields;
use crate::testing::Fixture;
use martlet_protocol::request::OwnedArgs;

fn name(fields: &[&str]) -> String {
    let args = OwnedArgs::from_slices(fields.iter().map(|field| field.as_bytes()));
    name_of_fields(args.view(), 0).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn names_depend_on_pairs_and_not_on_their_order() {
    assert_eq!(name(&["a", "1", "b", "2"]), name(&["b", "2", "a", "1"]));
    let others = [&["a", "1"][..], &["a", "2"], &["1", "a"], &["", "a1"], &["a1", ""], &["a", "1", "a", "1"]];
    for (at, left) in others.iter().enumerate() {
        assert!(others[at + 1..].iter().all(|right| name(left) != name(right)), "{left:?}");
    }
    // XXH3's 128 bits, by the reference's own example of an empty input, with its length between.
    let one = xxhash_rust::xxh3::xxh3_128(&[&b"f"[..], &1_u64.to_le_bytes(), b"v"].concat());
    let (low, high) = (one as u64, (one >> 64) as u64);
    let expected = [low ^ high.rotate_left(1), high ^ low.rotate_left(1)].map(u64::to_le_bytes).concat();
    assert_eq!(name(&["f", "v"]), expected.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    assert_eq!(xxhash_rust::xxh3::xxh3_128(b""), 0x99aa_06d3_0147_98d8_6001_c324_468d_497f);
}

#[test]
fn a_duplicate_gets_the_id_of_the_first() {
    let mut t = Fixture::new();
    let first = t.run("XADD s IDMP p i * f v");
    assert_eq!(t.run("XADD s IDMP p i * other fields"), first);
    assert_eq!(t.effects().last().unwrap(), "XADD s IDMP p i * other fields");
    assert_ne!(t.run("XADD s IDMP q i * f v"), first);
    let made = t.run("XADD s IDMPAUTO p * a 1 b 2");
    assert_eq!(t.run("XADD s IDMPAUTO p * b 2 a 1"), made);
    assert_eq!(t.run("XLEN s"), ":3");
    let info = t.run("XINFO STREAM s");
    let counts = r#""pids-tracked" :2 "iids-tracked" :3 "iids-added" :3 "iids-duplicates" :2"#;
    assert!(info.contains(counts), "{info}");
}

#[test]
fn records_are_kept_for_their_time_and_number() {
    let mut t = Fixture::new();
    t.run("XADD s IDMP p i * f v");
    assert_eq!(t.run("XCFGSET s IDMP-DURATION 10 IDMP-MAXSIZE 2"), "+OK");
    let first = t.run("XADD s IDMP p i * f v");
    t.advance_ms(9_999);
    assert_eq!(t.run("XADD s IDMP p i * f v"), first);
    t.advance_ms(1);
    let second = t.run("XADD s IDMP p i * f v");
    assert_ne!(second, first);
    t.run("XADD s IDMP p j * f v");
    assert_eq!(t.run("XADD s IDMP p i * f v"), second);
    t.run("XADD s IDMP p k * f v");
    assert_ne!(t.run("XADD s IDMP p i * f v"), second);
    // The same limits once more forget nothing.
    let last = t.run("XADD s IDMP p i * f v");
    t.run("XCFGSET s IDMP-DURATION 10");
    assert_eq!(t.run("XADD s IDMP p i * f v"), last);
}

#[test]
fn what_is_recorded_gives_the_same_when_it_is_replayed() {
    let mut t = Fixture::new();
    let mut effects = Vec::new();
    let mut run = |t: &mut Fixture, request: &str| {
        let reply = t.run(request);
        effects.extend_from_slice(t.effects());
        reply
    };
    for request in ["XADD s IDMP p i * f v", "XADD s IDMPAUTO p * f v", "XADD s IDMP p i * f v"] {
        run(&mut t, request);
    }
    run(&mut t, "XGROUP CREATE s g 0");
    run(&mut t, "XREADGROUP GROUP g c STREAMS s >");
    let id = run(&mut t, "XADD s IDMP p i * f v");
    run(&mut t, &format!("XNACK s g FAIL IDS 1 {}", id.trim_matches('"')));
    run(&mut t, "XCFGSET s IDMP-MAXSIZE 7");
    let id = run(&mut t, "XADD s IDMP p i * f v");
    let mut replica = Fixture::new();
    replica.keys.see(martlet_engine::View { now_ms: 0, ..replica.keys.view() });
    for effect in effects {
        replica.run(&effect);
    }
    replica.keys.see(martlet_engine::View { now_ms: t.keys.now_ms(), ..replica.keys.view() });
    for question in ["XRANGE s - +", "XPENDING s g", "XPENDING s g - + 9", "XINFO STREAM s"] {
        assert_eq!(t.run(question), replica.run(question));
    }
    assert_eq!(replica.run("XADD s IDMP p i * f v"), id);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// An entry is added exactly if its name is not remembered: not for longer than it should be, and of a
    /// producer not more than there should be.
    #[test]
    fn as_a_naive_table(steps in prop::collection::vec((0..3_u8, 0..6_u8, 0..1_500_i64), 1..60)) {
        let mut t = Fixture::new();
        t.run("XADD s 1-1 f v");
        t.run("XCFGSET s IDMP-DURATION 2 IDMP-MAXSIZE 3");
        let mut model: HashMap<u8, Vec<(u8, i64, String)>> = HashMap::new();
        for (producer, name, wait_ms) in steps {
            t.advance_ms(wait_ms);
            let now_ms = t.keys.now_ms();
            let id = t.run(&format!("XADD s IDMP p{producer} n{name} * f v"));
            let known = model.entry(producer).or_default();
            known.retain(|(_, at_ms, _)| *at_ms > now_ms - 2_000);
            match known.iter().find(|(other, ..)| *other == name) {
                Some((_, _, first)) => prop_assert_eq!(first, &id),
                None => {
                    let is_new = model.values().flatten().all(|(_, _, other)| *other != id);
                    prop_assert!(is_new);
                    let known = model.entry(producer).or_default();
                    known.push((name, now_ms, id));
                    if known.len() > 3 {
                        known.remove(0);
                    }
                }
            }
        }
    }
}
