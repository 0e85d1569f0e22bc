//! A stream against plain vectors and maps, with clones that must not change.

use std::collections::BTreeMap;

use super::*;
use crate::element::Element;
use proptest::prelude::*;

type Pair = (Vec<u8>, Vec<u8>);

/// The entries one by one, and in groups the pending ones with their consumers.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    entries: Vec<(Id, Vec<Pair>)>,
    last_id: Id,
    max_deleted_id: Id,
    added: u64,
    pending: BTreeMap<Id, (Vec<u8>, u64)>,
    delivered: Id,
}

fn append(stream: &mut Stream, id: Id, fields: &[Pair]) {
    let pairs = fields.iter().map(|(name, value)| (Element::parse(name), Element::parse(value)));
    stream.log_mut().append(id, pairs, LIMITS);
}

const LIMITS: StreamLimits = StreamLimits { node_max_bytes: 300, node_max_entries: 10 };

fn owned(entry: Entry<'_>) -> (Id, Vec<Pair>) {
    assert_eq!(entry.fields.len(), entry.fields.clone().count());
    (entry.id, entry.fields.map(|(name, value)| (name.to_vec(), value.to_vec())).collect())
}

fn same(stream: &Stream, model: &Model) {
    let log = stream.log();
    assert!(log.range(Id::MIN, Id::MAX).map(owned).eq(model.entries.iter().cloned()));
    assert!(log.range_back(Id::MIN, Id::MAX).map(owned).eq(model.entries.iter().rev().cloned()));
    assert_eq!((log.last_id(), log.max_deleted_id()), (model.last_id, model.max_deleted_id));
    assert_eq!((stream.len(), log.entries_added()), (model.entries.len(), model.added));
    assert_eq!(log.first_id(), model.entries.first().map_or(Id::MIN, |(id, _)| *id));
    assert_eq!(log.last_entry().map(owned), model.entries.last().cloned());
    assert!(log.nodes().all(|node| node.count() > 0 && node.entries().count() == node.count() as usize));
    let bytes: usize = log.nodes().map(|node| node.heap_bytes()).sum();
    assert_eq!(log.heap_bytes() - log.node_map_bytes(), bytes);
    let Some(group) = stream.group(b"g") else { return };
    let referenced = |id| stream.is_referenced(id) == model.is_referenced(id);
    assert!(model.entries.iter().all(|(id, _)| referenced(*id)) && referenced(model.last_id.next().unwrap()));
    let name = |pending: &Pending| {
        pending.consumer.map(|number| group.consumer(number).unwrap().name().to_vec()).unwrap_or_default()
    };
    let pending = group.pending_from(Id::MIN).map(|(id, of)| (id, (name(of), of.deliveries)));
    assert!(pending.eq(model.pending.clone()));
    for (_, consumer) in group.consumers() {
        let own = model.pending.iter().filter(|(_, (name, _))| name == consumer.name());
        assert!(consumer.pending_from(Id::MIN).eq(own.map(|(id, _)| *id)));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append { ms: u64, seq: u64, fields: Vec<Pair> },
    Delete(prop::sample::Index),
    MaxLen(usize),
    MinId(prop::sample::Index),
    Deliver(prop::sample::Index, u8),
    Acknowledge(prop::sample::Index),
    DeleteReferences(prop::sample::Index),
    Advance(prop::sample::Index),
    TrimBy(usize, bool, bool),
    RemoveConsumer(u8),
    Clone,
}

fn fields() -> impl Strategy<Value = Vec<Pair>> {
    let name = prop_oneof![3 => Just(b"name".to_vec()), 1 => Just(b"7".to_vec()), 1 => Just(Vec::new())];
    let value = prop_oneof!["[a-z]{0,20}", "-?[0-9]{1,18}", "[a-z]{60,140}"].prop_map(String::into_bytes);
    prop::collection::vec((name, value), 1..4)
}

fn step() -> impl Strategy<Value = Step> {
    let ms = prop_oneof![8 => 0..3_u64, 2 => 0..100_000_u64, 1 => Just(1 << 40)];
    let seq = prop_oneof![8 => 0..3_u64, 1 => any::<u32>().prop_map(u64::from)];
    prop_oneof![
        12 => (ms, seq, fields()).prop_map(|(ms, seq, fields)| Step::Append { ms, seq, fields }),
        4 => any::<prop::sample::Index>().prop_map(Step::Delete),
        1 => (0..60_usize).prop_map(Step::MaxLen),
        1 => any::<prop::sample::Index>().prop_map(Step::MinId),
        4 => (any::<prop::sample::Index>(), b'a'..b'e').prop_map(|(at, name)| Step::Deliver(at, name)),
        2 => any::<prop::sample::Index>().prop_map(Step::Acknowledge),
        1 => (b'a'..b'e').prop_map(Step::RemoveConsumer),
        1 => any::<prop::sample::Index>().prop_map(Step::DeleteReferences),
        2 => any::<prop::sample::Index>().prop_map(Step::Advance),
        2 => (0..60_usize, any::<bool>(), any::<bool>()).prop_map(|(at, by_id, acked)| Step::TrimBy(at, by_id, acked)),
        1 => Just(Step::Clone),
    ]
}

impl Model {
    fn take(&mut self, stream: &mut Stream, step: Step) {
        match step {
            Step::Append { ms, seq, fields } => {
                let after = Id { ms: self.last_id.ms + ms, seq };
                let id = if after > self.last_id { after } else { self.last_id.next().unwrap() };
                append(stream, id, &fields);
                self.entries.push((id, fields));
                (self.last_id, self.added) = (id, self.added + 1);
            }
            Step::Delete(at) if !self.entries.is_empty() => {
                let (id, _) = self.entries.remove(at.index(self.entries.len()));
                assert!(stream.log_mut().delete(id) && !stream.log_mut().delete(id));
                self.max_deleted_id = self.max_deleted_id.max(id);
            }
            Step::MaxLen(max) => {
                let surplus = self.entries.len().saturating_sub(max);
                let whole = stream.clone().log_mut().trim(Trim::MaxLen(max as u64), true, 0);
                assert!(whole <= surplus as u64);
                assert_eq!(stream.log_mut().trim(Trim::MaxLen(max as u64), false, 0), surplus as u64);
                self.entries.drain(..surplus);
            }
            Step::MinId(at) if !self.entries.is_empty() => {
                let at = at.index(self.entries.len());
                let min = Trim::MinId(self.entries[at].0);
                assert!(stream.clone().log_mut().trim(min, true, 0) <= at as u64);
                assert_eq!(stream.log_mut().trim(min, false, 0), at as u64);
                self.entries.drain(..at);
            }
            Step::Deliver(at, name) if !self.entries.is_empty() => {
                let id = self.entries[at.index(self.entries.len())].0;
                let (_, group) = stream.group_mut(b"g").unwrap();
                let consumer = group.add_consumer(&[name], 0);
                let deliveries = group.pending(id).map_or(1, |pending| pending.deliveries + 1);
                group.set_pending(id, Pending { consumer: Some(consumer), delivered_ms: 0, deliveries });
                self.pending.insert(id, (vec![name], deliveries));
            }
            Step::Acknowledge(at) if !self.pending.is_empty() => {
                let id = *self.pending.keys().nth(at.index(self.pending.len())).unwrap();
                let (_, group) = stream.group_mut(b"g").unwrap();
                assert!(group.acknowledge(id).is_some() && group.acknowledge(id).is_none());
                self.pending.remove(&id);
            }
            Step::DeleteReferences(at) if !self.pending.is_empty() => {
                let id = *self.pending.keys().nth(at.index(self.pending.len())).unwrap();
                assert!(stream.delete_references(id) && !stream.delete_references(id));
                self.pending.remove(&id);
            }
            Step::Advance(at) if !self.entries.is_empty() => {
                self.delivered = self.entries[at.index(self.entries.len())].0;
                stream.group_mut(b"g").unwrap().1.last_id = self.delivered;
            }
            Step::TrimBy(at, by_id, acked) => self.trim_by_references(stream, at, by_id, acked),
            Step::RemoveConsumer(name) => {
                let before = self.pending.len();
                self.pending.retain(|_, (of, _)| *of != [name]);
                let (_, group) = stream.group_mut(b"g").unwrap();
                let removed = group.remove_consumer(&[name]).unwrap_or(0);
                assert_eq!(removed, before - self.pending.len());
            }
            _ => {}
        }
    }
}

impl Model {
    fn is_referenced(&self, id: Id) -> bool {
        id > self.delivered || self.pending.contains_key(&id)
    }

    /// The same trimming once more, and by the returned id, must change nothing else.
    fn trim_by_references(&mut self, stream: &mut Stream, at: usize, by_id: bool, acked: bool) {
        let references = if acked { References::Acked } else { References::Delete };
        let trim = match self.entries.get(at) {
            Some((id, _)) if by_id => Trim::MinId(*id),
            _ => Trim::MaxLen(at as u64),
        };
        let mut again = stream.clone();
        let before = self.entries.len();
        let (removed, end) = stream.trim_by_references(trim, 0, references);
        if let Trim::MaxLen(max) = trim {
            let left = before - removed as usize;
            assert!(left >= before.min(max as usize) && (acked || left == before.min(max as usize)));
        }
        // Which entries by number were looked at depends on nodes: `end` says it.
        let bound = if let Trim::MinId(min) = trim { min } else { end };
        let goes = |model: &Model, id| id < bound && (!acked || !model.is_referenced(id));
        let gone: Vec<Id> = self.entries.iter().map(|(id, _)| *id).filter(|id| goes(self, *id)).collect();
        assert_eq!(removed as usize, gone.len());
        self.entries.retain(|(id, _)| gone.binary_search(id).is_err());
        self.pending.retain(|id, _| acked || gone.binary_search(id).is_err());
        assert_eq!(again.trim_by_references(Trim::MinId(end), 0, references).0, removed);
        same(&again, self);
        let limited = again.trim_by_references(Trim::MaxLen(0), 3, References::Delete).0;
        assert!(limited <= 3);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    #[test]
    fn as_plain_collections(
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 20 } else { 200 }),
        bounds in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 5),
    ) {
        let (mut stream, mut model, mut clones) = (Stream::new(), Model::default(), Vec::new());
        stream.add_group(b"g", Group::new(Id::MIN, None));
        for step in steps {
            if let Step::Clone = step {
                clones.push((stream.clone(), model.clone()));
            }
            model.take(&mut stream, step);
            same(&stream, &model);
        }
        for (start, end) in bounds {
            let ids: Vec<Id> = model.entries.iter().map(|(id, _)| *id).collect();
            if ids.is_empty() {
                break;
            }
            let (start, end) = (ids[start.index(ids.len())], ids[end.index(ids.len())].next().unwrap());
            let expected: Vec<Id> =
                ids.iter().copied().filter(|id| (start..=end).contains(id)).collect();
            let found: Vec<Id> = stream.log().range(start, end).map(|entry| entry.id).collect();
            prop_assert_eq!(&found, &expected);
            let mut back: Vec<Id> = stream.log().range_back(start, end).map(|entry| entry.id).collect();
            back.reverse();
            prop_assert_eq!(back, expected);
        }
        for (clone, model) in clones {
            same(&clone, &model);
        }
    }
}

#[test]
fn nodes_are_full_as_in_redis() {
    // What DUMP of redis-server 7.0.15 has: 100 entries of one field, or as many as reach 4096 bytes.
    let mut stream = Stream::new();
    for seq in 1..=250 {
        let fields = [(Element::Bytes(b"f"), Element::Bytes(b"value"))];
        stream.log_mut().append(Id { ms: 1, seq }, fields.into_iter(), StreamLimits::default());
    }
    let counts: Vec<u32> = stream.log().nodes().map(|node| node.count()).collect();
    assert_eq!(counts, [100, 100, 50]);
}

#[test]
fn trimming_by_nodes_stops_at_its_limit() {
    let mut stream = Stream::new();
    for seq in 1..=95 {
        append(&mut stream, Id { ms: 1, seq }, &[(b"f".to_vec(), b"v".to_vec())]);
    }
    assert_eq!(stream.log_mut().trim(Trim::MaxLen(5), true, 25), 20);
    assert_eq!(stream.log_mut().trim(Trim::MaxLen(30), true, 0), 40);
    assert_eq!(stream.log_mut().trim(Trim::MinId(Id { ms: 1, seq: 75 }), true, 0), 10);
    assert_eq!(stream.len(), 25);
}

#[test]
fn ids_at_the_edges() {
    assert_eq!(Id::MAX.next(), None);
    assert_eq!(Id::MIN.previous(), None);
    assert_eq!(Id { ms: 1, seq: u64::MAX }.next(), Some(Id { ms: 2, seq: 0 }));
    assert_eq!(Id { ms: 2, seq: 0 }.previous(), Some(Id { ms: 1, seq: u64::MAX }));
    let id = Id { ms: 0x0102, seq: u64::MAX - 1 };
    assert_eq!(Id::from_bytes(id.to_bytes()), id);
    let mut stream = Stream::new();
    append(&mut stream, Id { ms: 0, seq: 1 }, &[(b"a".to_vec(), b"b".to_vec())]);
    append(&mut stream, Id::MAX, &[(b"a".to_vec(), b"b".to_vec())]);
    let ids: Vec<Id> = stream.log().range_back(Id::MIN, Id::MAX).map(|entry| entry.id).collect();
    assert_eq!(ids, [Id::MAX, Id { ms: 0, seq: 1 }]);
}
