//! Key events as messages: on which channels an event is published, and in which words.
//!
//! Channels and payloads are those of Redis 8.8. A length stands before each field, and before the key where
//! fields follow it, so that they may hold any bytes.

use martlet_engine::{EventClass, KeyEvent};

/// Hands the messages of an event to `publish`, as channel and payload, for those of the channels that are
/// wanted; in Redis' order.
pub(crate) fn messages(wanted: u32, event: &KeyEvent, mut publish: impl FnMut(&[u8], &[u8])) {
    let wants = |class: EventClass| wanted & class.0 != 0;
    let (key, name) = (event.key.as_slice(), event.name.as_bytes());
    let mut send = |family: &str, topic: &[&[u8]], payload: &[u8]| {
        let mut channel = format!("__{family}@{}__:", event.db).into_bytes();
        topic.iter().for_each(|part| channel.extend_from_slice(part));
        publish(&channel, payload);
    };
    if wants(EventClass::KEYSPACE) {
        send("keyspace", &[key], name);
    }
    if wants(EventClass::KEYEVENT) {
        send("keyevent", &[name], key);
    }
    if event.subkeys.is_empty() {
        return;
    }
    let subkeys = listed(&event.subkeys);
    if wants(EventClass::SUBKEYSPACE) {
        send("subkeyspace", &[key], &[name, b"|", &subkeys].concat());
    }
    if wants(EventClass::SUBKEYEVENT) {
        send("subkeyevent", &[name], &[&listed(&[key]), b"|".as_slice(), &subkeys].concat());
    }
    // A key with a line break would make the channel's name ambiguous.
    if wants(EventClass::SUBKEYSPACEITEM) && !key.contains(&b'\n') {
        for subkey in &event.subkeys {
            send("subkeyspaceitem", &[key, b"\n", subkey], name);
        }
    }
    if wants(EventClass::SUBKEYSPACEEVENT) {
        send("subkeyspaceevent", &[name, b"|", key], &subkeys);
    }
}

/// `<length>:<bytes>` of each, with commas between.
fn listed<S: AsRef<[u8]>>(items: &[S]) -> Vec<u8> {
    let mut out = Vec::new();
    for item in items.iter().map(AsRef::as_ref) {
        if !out.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(format!("{}:", item.len()).as_bytes());
        out.extend_from_slice(item);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(wanted: &[EventClass], key: &[u8], subkeys: &[&[u8]]) -> Vec<String> {
        let event = KeyEvent {
            class: EventClass::HASH,
            name: "hset",
            db: 3,
            key: key.to_vec(),
            subkeys: subkeys.iter().map(|subkey| subkey.to_vec()).collect(),
        };
        let mut told = Vec::new();
        let wanted = wanted.iter().fold(0, |all, class| all | class.0);
        messages(wanted, &event, |channel, payload| {
            told.push(format!("{} {}", channel.escape_ascii(), payload.escape_ascii()));
        });
        told
    }

    #[test]
    fn each_channel_names_fields_in_its_own_way() {
        let all = [EventClass::CHANNELS];
        assert_eq!(
            told(&all, b"key", &[b"f1", b"a,b|c", b""]),
            [
                "__keyspace@3__:key hset",
                "__keyevent@3__:hset key",
                "__subkeyspace@3__:key hset|2:f1,5:a,b|c,0:",
                "__subkeyevent@3__:hset 3:key|2:f1,5:a,b|c,0:",
                r"__subkeyspaceitem@3__:key\nf1 hset",
                r"__subkeyspaceitem@3__:key\na,b|c hset",
                r"__subkeyspaceitem@3__:key\n hset",
                "__subkeyspaceevent@3__:hset|key 2:f1,5:a,b|c,0:",
            ]
        );
        assert_eq!(told(&all, b"key", &[]), ["__keyspace@3__:key hset", "__keyevent@3__:hset key"]);
    }

    #[test]
    fn only_wanted_channels_are_used() {
        assert_eq!(
            told(&[EventClass::SUBKEYSPACEEVENT], b"key", &[b"f"]),
            ["__subkeyspaceevent@3__:hset|key 1:f"]
        );
        assert_eq!(told(&[EventClass::HASH], b"key", &[b"f"]), [] as [&str; 0]);
    }

    #[test]
    fn a_key_with_a_line_break_has_no_channels_of_its_fields() {
        let told = told(&[EventClass::OF_SUBKEYS], b"a\nb", &[b"f"]);
        assert_eq!(told.len(), 3);
        assert!(told.iter().all(|message| !message.contains("item")), "{told:?}");
    }
}
