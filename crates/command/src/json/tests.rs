//! The family's tests.

use crate::testing::Fixture;

#[test]
fn a_document_is_set_and_read() {
    let mut t = Fixture::new();
    assert_eq!(t.run(r#"JSON.SET d $ '{"a":1,"b":[1,2]}'"#), "+OK");
    assert_eq!(t.effects(), [r#"JSON.SET d $ {"a":1,"b":[1,2]}"#]);
    assert_eq!(t.events(), ["new d", "json.set d"]);
    assert_eq!(t.run("JSON.GET d"), r#""{\"a\":1,\"b\":[1,2]}""#);
    assert_eq!(t.run("JSON.GET d $.b"), r#""[[1,2]]""#);
    assert_eq!(t.run("TYPE d"), "+ReJSON-RL");
}
