//! The commands' changes and records. Their answers are in `tests/wire/geo.case`.

use crate::testing::Fixture;

#[test]
fn positions_are_recorded_as_scores() {
    let mut t = Fixture::new();
    assert_eq!(t.run("GEOADD k ch 13.361389 38.115556 Palermo 15.087269 37.502669 Catania"), ":2");
    assert_eq!(t.dirty, 2);
    assert_eq!(t.effects(), ["ZADD k ch 3479099956230698 Palermo 3479447370796909 Catania"]);
    assert_eq!(t.events(), ["new k", "zadd k"]);
    assert_eq!(t.run("GEOADD k XX 13.361389 38.115556 Palermo"), ":0");
    assert!(t.effects().is_empty() && t.events().is_empty());
}

#[test]
fn a_bad_position_adds_nothing() {
    let mut t = Fixture::new();
    let error = "-ERR invalid longitude,latitude pair 200.000000,0.000000";
    assert_eq!(t.run("GEOADD k 1 1 a 200 0 b"), error);
    assert_eq!(t.run("EXISTS k"), ":0");
    assert!(t.effects().is_empty());
}

#[test]
fn stored_results_replace_the_destination() {
    let mut t = Fixture::new();
    t.run("GEOADD k 13.361389 38.115556 Palermo 15.087269 37.502669 Catania");
    t.run("SET d v");
    t.events();
    assert_eq!(t.run("GEOSEARCHSTORE d k FROMLONLAT 15 37 BYRADIUS 200 km"), ":2");
    assert_eq!(t.dirty, 2);
    assert_eq!(t.effects(), ["GEOSEARCHSTORE d k FROMLONLAT 15 37 BYRADIUS 200 km"]);
    assert_eq!(t.events(), ["overwritten d", "type_changed d", "geosearchstore d"]);
    assert_eq!(t.run("GEORADIUS k 15 37 1 m STOREDIST d"), ":0");
    assert_eq!(t.effects(), ["GEORADIUS k 15 37 1 m STOREDIST d"]);
    assert_eq!(t.events(), ["del d"]);
    assert_eq!(t.run("GEORADIUS k 15 37 1 m STOREDIST d"), ":0");
    assert!(t.effects().is_empty() && t.events().is_empty());
}
