//! The reply of CLUSTER NODES.

use super::slots::SlotSet;

/// One line: a node's statements about another, or about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLine {
    pub id: String,
    /// May be empty: the node does not know it.
    pub host: String,
    pub port: u16,
    pub bus_port: u16,
    /// `ip:port@bus-port`, and the fields behind it.
    pub address: String,
    pub flags: Vec<String>,
    /// The primary's id, of a replica.
    pub primary: Option<String>,
    pub epoch: u64,
    pub is_connected: bool,
    /// Slots and ranges of them as they are written.
    pub slots: Vec<String>,
    /// Slots on their way, and the other node's id.
    pub migrating: Vec<(u16, String)>,
    pub importing: Vec<(u16, String)>,
}

impl NodeLine {
    pub fn has_flag(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| flag == name)
    }

    /// The slots as a set.
    pub fn slot_set(&self) -> SlotSet {
        let bounds = |word: &String| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        self.slots.iter().filter_map(bounds).flat_map(|(first, last): (u16, u16)| first..=last).collect()
    }
}

/// Reads the lines; `None` if it is no such reply.
pub fn parse(text: &str) -> Option<Vec<NodeLine>> {
    text.lines().map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<NodeLine> {
    let mut words = line.split(' ');
    let id = words.next()?;
    let whole_address = words.next()?;
    let flags: Vec<String> = words.next()?.split(',').map(Into::into).collect();
    let (primary, _ping, _pong) = (words.next()?, words.next()?, words.next()?);
    let epoch = words.next()?.parse().ok()?;
    let link = words.next()?;
    let (address, bus) = whole_address.rsplit_once('@').unwrap_or((whole_address, ""));
    let (host, port) = address.rsplit_once(':')?;
    let bus = bus.split(',').next().unwrap_or_default();
    let mut read = NodeLine {
        id: id.into(),
        host: host.into(),
        port: port.parse().ok()?,
        bus_port: bus.parse().unwrap_or(0),
        address: whole_address.into(),
        primary: flags.iter().any(|flag| flag == "slave").then(|| primary.into()),
        flags,
        epoch,
        is_connected: link != "disconnected",
        slots: Vec::new(),
        migrating: Vec::new(),
        importing: Vec::new(),
    };
    for word in words.filter(|word| !word.is_empty()) {
        let Some(open) = word.strip_prefix('[') else {
            read.slots.push(word.into());
            continue;
        };
        let open = open.trim_end_matches(']');
        if let Some((slot, to)) = open.split_once("->-") {
            read.migrating.push((slot.parse().ok()?, to.into()));
        } else if let Some((slot, from)) = open.split_once("-<-") {
            read.importing.push((slot.parse().ok()?, from.into()));
        }
    }
    Some(read)
}

/// The owners of slots in the lines: equal for nodes that agree. `None` while no slot has an owner.
pub fn signature(lines: &[NodeLine]) -> Option<Vec<(&str, Vec<&str>)>> {
    let mut owners: Vec<_> = lines
        .iter()
        .filter(|line| !line.slots.is_empty())
        .map(|line| {
            let mut slots: Vec<&str> = line.slots.iter().map(String::as_str).collect();
            slots.sort_unstable();
            (line.id.as_str(), slots)
        })
        .collect();
    owners.sort_unstable();
    Some(owners).filter(|owners| !owners.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: &str = "\
aa 10.0.0.1:7000@17000,host.example,shard-id=5 myself,master - 0 0 3 connected 0-2 9 [7->-bb] [8-<-cc]
bb ::1:7001@17001 slave aa 0 12 3 disconnected
cc :0@0 master,noaddr - 1 1 0 disconnected 10-11
";

    #[test]
    fn a_line_has_its_node() {
        let lines = parse(REPLY).expect("lines");
        let [first, second, third] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!((first.host.as_str(), first.port, first.bus_port), ("10.0.0.1", 7000, 17000));
        assert_eq!((first.primary.as_deref(), first.epoch, first.is_connected), (None, 3, true));
        assert_eq!(first.slot_set().to_string(), "[0-2],[9]");
        assert_eq!(first.migrating, [(7, "bb".to_string())]);
        assert_eq!(first.importing, [(8, "cc".to_string())]);
        assert_eq!((second.host.as_str(), second.port), ("::1", 7001));
        assert_eq!((second.primary.as_deref(), second.is_connected), (Some("aa"), false));
        assert!(third.has_flag("noaddr") && third.host.is_empty());
    }

    #[test]
    fn what_is_no_such_reply_is_refused() {
        for text in ["nonsense\n", "a b c d e f g h\n", "a b:1 c d e f x connected\n"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_signature_is_of_slots_alone() {
        let (one, other) = (
            "a h:1@2 master - 0 0 1 connected 5 1-2\nb h:2@3 slave a 0 0 1 connected\n",
            "b h:2@3 slave a 0 0 1 connected\na h:1@2 myself,master - 9 9 1 connected 1-2 5 [7->-b]\n",
        );
        let (one, other) = (parse(one).expect("lines"), parse(other).expect("lines"));
        assert_eq!(signature(&one), signature(&other));
        assert_eq!(signature(&one), Some(vec![("a", vec!["1-2", "5"])]));
        assert_eq!(signature(&one[1..]), None);
    }
}
