//! The table against a sorted map, its invariants after each step, and clones that must not change.

use super::node::{Child, Slot};
use super::*;
use martlet_base::random::Random;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Fields whose hashes begin alike, so that the tree is deep and has empty leaves.
#[derive(Debug)]
enum Skewed {}

impl Kind for Skewed {
    const HAS_VALUES: bool = true;

    fn hash(field: &[u8]) -> u64 {
        hash_field(field) >> 9
    }
}

/// Members whose hashes are the same in all bits.
#[derive(Debug)]
enum AlikeMembers {}

impl Kind for AlikeMembers {
    const HAS_VALUES: bool = false;

    fn hash(_: &[u8]) -> u64 {
        0x1234_5678_9abc_def0
    }
}

/// Fields with values, of such hashes.
#[derive(Debug)]
enum AlikeFields {}

impl Kind for AlikeFields {
    const HAS_VALUES: bool = true;

    fn hash(_: &[u8]) -> u64 {
        u64::MAX
    }
}

/// Fields of four hashes in all the bits that the tree distinguishes, two of which differ in the last of
/// them, and of different hashes in the others.
#[derive(Debug)]
enum AlmostAlike {}

impl Kind for AlmostAlike {
    const HAS_VALUES: bool = true;

    fn hash(field: &[u8]) -> u64 {
        let hash = hash_field(field);
        let prefix = [0, 1 << CURSOR_SHIFT, 1 << 63, u64::MAX << CURSOR_SHIFT][hash as usize & 3];
        prefix | (hash >> 2 & ((1 << CURSOR_SHIFT) - 1))
    }
}

type Model = BTreeMap<Vec<u8>, (Vec<u8>, i64)>;

impl<K: Kind> Table<K> {
    /// Panics where the module's invariants do not hold.
    fn validate(&self) {
        let mut totals = Totals::default();
        validate_slot::<K>(self.root, 0, 0, self.next_expiry_ms(), &mut totals);
        let beside: Vec<Entry<'_>> = self.excess.iter().flat_map(|excess| excess.iter()).collect();
        let beside_bytes = self.excess.as_ref().map_or(0, |excess| excess.heap_bytes());
        assert_eq!(self.excess.is_some(), !beside.is_empty());
        assert_eq!(totals.len + beside.len(), self.len);
        let is_timed = |entry: &&Entry<'_>| entry.expire_at_ms != NO_EXPIRY;
        assert_eq!(totals.timed + beside.iter().filter(is_timed).count(), self.timed);
        assert!(beside.iter().all(|entry| entry.expire_at_ms >= self.next_expiry_ms()));
        let blobs = |entry: Entry<'_>| entry.blob_bytes();
        let blob_bytes = self.iter().map(blobs).sum::<usize>() - beside.into_iter().map(blobs).sum::<usize>();
        assert_eq!(totals.bytes + blob_bytes + beside_bytes, self.heap_bytes);
        assert!(self.len > 0 || self.root == Slot::EMPTY, "an empty table keeps blocks");
    }

    fn model(&self) -> Model {
        self.iter().map(|e| (e.field.to_vec(), (e.value.to_vec(), e.expire_at_ms))).collect()
    }
}

#[derive(Default)]
struct Totals {
    len: usize,
    timed: usize,
    bytes: usize,
}

fn validate_slot<K: Kind>(slot: Slot, prefix: u64, depth: u32, bound: i64, totals: &mut Totals) {
    match slot.child() {
        Child::Empty => assert_eq!(depth, 0),
        Child::Leaf(leaf) => {
            leaf.validate::<K>(prefix, depth);
            assert!(leaf.timed() == 0 || leaf.earliest_expiry::<K>() >= bound);
            totals.len += leaf.count();
            totals.timed += leaf.timed();
            totals.bytes += leaf.allocated_bytes();
        }
        Child::Node(node) => {
            totals.bytes += node.allocated_bytes();
            assert!(!node.can_halve() || node.bits() == 1);
            node.each_run(|start, child| {
                let (first, len) = node.run(start);
                assert_eq!((first, first % len), (start, 0));
                let local = node.local_bits(start);
                assert!(local > 0, "a node with one child");
                assert!(local == node.bits() || matches!(child.child(), Child::Leaf(_)));
                let below = prefix | (start as u64) << (64 - depth - node.bits());
                let own = node.expiry(start);
                let bound = if node.has_expiries() { own } else { NO_EXPIRY };
                assert!((start + 1..start + len).all(|i| node.expiry(i) == NO_EXPIRY));
                validate_slot::<K>(child, below, depth + local, bound, totals);
            });
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u16, usize, Option<u8>),
    Remove(u16),
    SetExpiry(u16, Option<u8>),
    Collect(u8, usize),
    Clone,
    RemoveRange(u16, u16),
    InsertRange(u16, u16),
    Pop,
}

fn op() -> impl Strategy<Value = Op> {
    let len = prop_oneof![8 => 0usize..40, 2 => 200usize..800, 1 => 2000usize..3000];
    prop_oneof![
        8 => (any::<u16>(), len, prop::option::weighted(0.3, any::<u8>())).prop_map(|(k, l, t)| Op::Insert(k, l, t)),
        4 => any::<u16>().prop_map(Op::Remove),
        3 => (any::<u16>(), prop::option::of(any::<u8>())).prop_map(|(k, t)| Op::SetExpiry(k, t)),
        1 => (any::<u8>(), 1usize..50).prop_map(|(t, n)| Op::Collect(t, n)),
        1 => Just(Op::Clone),
        2 => (any::<u16>(), 0u16..300).prop_map(|(k, n)| Op::RemoveRange(k, n)),
        2 => (any::<u16>(), 0u16..300).prop_map(|(k, n)| Op::InsertRange(k, n)),
        1 => Just(Op::Pop),
    ]
}

fn key(number: u16, space: u16) -> Vec<u8> {
    let number = number % space;
    let mut key = format!("field:{number}").into_bytes();
    if number.is_multiple_of(97) {
        key.resize(usize::from(number) % 900, b'x');
        key.extend_from_slice(number.to_string().as_bytes());
    }
    key
}

/// Runs the operations on a table and a model; `space` is the number of distinct keys.
fn run<K: Kind>(ops: &[Op], space: u16) {
    let mut table = Table::<K>::new();
    let mut model = Model::new();
    let mut pinned: Vec<(Table<K>, Model)> = Vec::new();
    let mut random = Random::seeded(1);
    for op in ops {
        apply::<K>(op, space, &mut table, &mut model, &mut random);
        if let Op::Clone = op {
            pinned.push((table.clone(), model.clone()));
        }
        table.validate();
        assert_eq!(table.len(), model.len());
        let earliest = model.values().map(|v| v.1).min().unwrap_or(NO_EXPIRY);
        assert!(table.next_expiry_ms() <= earliest);
    }
    pinned.push((table, model));
    for (table, model) in &pinned {
        table.validate();
        assert_eq!(&table.model(), model);
        for (field, (value, expire_at_ms)) in model {
            let entry = table.get(K::hash(field), field).expect("a field of the model");
            assert_eq!((entry.value, entry.expire_at_ms), (value.as_slice(), *expire_at_ms));
        }
    }
    // Freed in another order than made, and in slices.
    let (last, _) = pinned.pop().expect("at least the table itself");
    pinned.truncate(1);
    let mut reclaim = last.into_reclaim();
    while !reclaim.run(3) {}
}

fn insert<K: Kind>(table: &mut Table<K>, model: &mut Model, field: &[u8], value: &[u8], expire_at_ms: i64) {
    let is_new = table.insert(K::hash(field), field, value, expire_at_ms);
    assert_eq!(is_new, !model.contains_key(field));
    if K::HAS_VALUES {
        model.insert(field.to_vec(), (value.to_vec(), expire_at_ms));
    } else if is_new {
        model.insert(field.to_vec(), (Vec::new(), expire_at_ms));
    }
}

fn apply<K: Kind>(op: &Op, space: u16, table: &mut Table<K>, model: &mut Model, random: &mut Random) {
    let time = |t: &Option<u8>| t.map_or(NO_EXPIRY, |t| i64::from(t) + 1);
    match op {
        Op::Insert(k, len, t) => insert(table, model, &key(*k, space), &vec![*k as u8; *len], time(t)),
        Op::Remove(k) => {
            let key = key(*k, space);
            assert_eq!(table.remove(K::hash(&key), &key), model.remove(&key).is_some());
        }
        Op::SetExpiry(k, t) => {
            let key = key(*k, space);
            let known = model.get_mut(&key).map(|entry| entry.1 = time(t)).is_some();
            assert_eq!(table.set_expiry(K::hash(&key), &key, time(t)), known);
        }
        Op::Collect(now, limit) => {
            let now = i64::from(*now);
            let due = model.values().filter(|entry| entry.1 <= now).count();
            let mut seen = BTreeSet::new();
            let collected = table.collect_expired(now, *limit, |entry| {
                assert!(entry.expire_at_ms <= now && seen.insert(entry.field.to_vec()));
            });
            assert_eq!((collected, seen.len()), (due.min(*limit), due.min(*limit)));
            assert!(seen.iter().all(|field| model.remove(field).is_some()));
            assert!(collected == *limit || table.next_expiry_ms() > now);
        }
        Op::RemoveRange(k, n) => {
            for i in 0..*n {
                let key = key(k.wrapping_add(i), space);
                assert_eq!(table.remove(K::hash(&key), &key), model.remove(&key).is_some());
            }
        }
        Op::InsertRange(k, n) => {
            for i in 0..*n {
                insert(table, model, &key(k.wrapping_add(i), space), &i.to_le_bytes(), NO_EXPIRY);
            }
        }
        Op::Pop => {
            let mut field = Vec::new();
            let popped = table.pop_random(random, &mut field);
            assert_eq!(popped, model.remove(&field).is_some());
        }
        Op::Clone => {}
    }
}

/// Most steps of a random test.
const STEPS: usize = if cfg!(miri) { 10 } else { 60 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 48 }))]

    #[test]
    fn set_agrees_with_model(ops in prop::collection::vec(op(), 1..STEPS)) {
        run::<Members>(&ops, 3000);
    }

    #[test]
    fn hash_agrees_with_model(ops in prop::collection::vec(op(), 1..STEPS)) {
        run::<Fields>(&ops, 3000);
    }

    #[test]
    fn small_hash_agrees_with_model(ops in prop::collection::vec(op(), 1..STEPS + 20)) {
        run::<Fields>(&ops, 60);
    }

    #[test]
    fn skewed_hash_agrees_with_model(ops in prop::collection::vec(op(), 1..STEPS)) {
        run::<Skewed>(&ops, 2000);
    }

    #[test]
    fn members_of_one_hash_agree_with_model(ops in prop::collection::vec(op(), 1..STEPS)) {
        run::<AlikeMembers>(&ops, 500);
    }

    #[test]
    fn fields_of_one_hash_agree_with_model(ops in prop::collection::vec(op(), 1..STEPS)) {
        run::<AlikeFields>(&ops, 500);
    }

    #[test]
    fn fields_of_few_hashes_agree_with_model(ops in prop::collection::vec(op(), 1..STEPS)) {
        run::<AlmostAlike>(&ops, 1500);
    }

    /// Splits and merges between the calls lose nothing that stays, whatever the hashes.
    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn scan_of_colliding_fields_returns_what_stays(
        stay in 1u32..800,
        churn in prop::collection::vec((any::<bool>(), 0u32..1500, 1u32..500), 1..12),
        count in 1usize..200,
    ) {
        scan_and_churn::<AlikeMembers>(stay, &churn, count);
        scan_and_churn::<AlmostAlike>(stay, &churn, count);
    }

    /// Splits and merges between the calls lose nothing that stays.
    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn scan_returns_what_stays(
        stay in 1u32..2000,
        churn in prop::collection::vec((any::<bool>(), 0u32..4000, 1u32..1500), 1..12),
        count in 1usize..200,
    ) {
        scan_and_churn::<Members>(stay, &churn, count);
    }
}

/// Scans a table of fields that stay, while others come and go by turns: whether to add, from which number
/// on, how many.
fn scan_and_churn<K: Kind>(stay: u32, churn: &[(bool, u32, u32)], count: usize) {
    let mut table = Table::<K>::new();
    let text = |kind: char, i: u32| format!("{kind}{i}").into_bytes();
    for i in 0..stay {
        let member = text('s', i);
        table.insert(K::hash(&member), &member, &[], NO_EXPIRY);
    }
    let mut seen = BTreeSet::new();
    let (mut cursor, mut churn) = (0, churn.iter().cycle());
    loop {
        cursor = table.scan(cursor, count, |entry| {
            seen.insert(entry.field.to_vec());
        });
        assert!(cursor < 1 << DEPTH_MAX);
        if cursor == 0 {
            break;
        }
        let (add, first, len) = churn.next().expect("an endless cycle");
        for member in (*first..first + len).map(|i| text('c', i)) {
            if *add {
                table.insert(K::hash(&member), &member, &[], NO_EXPIRY);
            } else {
                table.remove(K::hash(&member), &member);
            }
        }
    }
    assert!((0..stay).all(|i| seen.contains(&text('s', i))));
}

/// Each member beyond a leaf costs a search in a map: neither the tree nor the map beside it grows beyond
/// that.
#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn many_members_of_one_hash_take_memory_in_proportion() {
    let hash = AlikeMembers::hash(&[]);
    let member = |i: u32| format!("{i:010}").into_bytes();
    let mut table = Table::<AlikeMembers>::new();
    for i in 0..50_000 {
        assert!(table.insert(hash, &member(i), &[], NO_EXPIRY));
    }
    table.validate();
    assert!(table.heap_bytes() < 50_000 * 140, "{} bytes", table.heap_bytes());
    assert!(
        (0..50_000).all(|i| table.contains(hash, &member(i)) && !table.contains(hash, &member(50_000 + i)))
    );
    assert!((0..50_000).all(|i| table.remove(hash, &member(i))));
    table.validate();
    assert_eq!(table.heap_bytes(), 0);
}

/// A random choice ends even if no random hash leads to the fields, and is as even as ever.
#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn random_is_uniform_among_fields_of_one_hash() {
    // All in the root's leaf, in a leaf at the tree's end, and most beside it.
    for (len, gone) in [(60_u32, 0), (70, 400), (1000, 0)] {
        let mut table = Table::<AlikeFields>::new();
        let hash = AlikeFields::hash(&[]);
        for i in 0..len + gone {
            table.insert(hash, &i.to_le_bytes(), &[], NO_EXPIRY);
        }
        for i in len..len + gone {
            assert!(table.remove(hash, &i.to_le_bytes()));
        }
        assert_eq!((table.len(), table.excess.is_some()), (len as usize, len == 1000));
        let mut random = Random::seeded(43);
        let mut counts = BTreeMap::<Vec<u8>, u32>::new();
        for _ in 0..len * 100 {
            *counts.entry(table.random(&mut random).expect("an entry").field.to_vec()).or_default() += 1;
        }
        assert_eq!(counts.len() as u32, len);
        let chi: f64 = counts.values().map(|&n| (f64::from(n) - 100.0).powi(2) / 100.0).sum();
        let degrees = f64::from(len - 1);
        assert!((chi - degrees).abs() < 6.0 * (2.0 * degrees).sqrt() + 6.0, "{chi} for {degrees}");
    }
}

fn filled(len: u32) -> Table<Members> {
    let mut table = Table::new();
    for i in 0..len {
        let member = format!("member:{i}").into_bytes();
        assert!(table.insert(hash_field(&member), &member, &[], NO_EXPIRY));
    }
    table
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn scan_without_changes_returns_each_once() {
    for len in [0, 1, 20, 21, 500, 30_000] {
        let table = filled(len);
        let mut seen = BTreeSet::new();
        let mut cursor = 0;
        loop {
            cursor = table.scan(cursor, 10, |entry| assert!(seen.insert(entry.field.to_vec())));
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen.len(), len as usize);
        assert_eq!(table.iter().count(), len as usize);
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn random_is_uniform() {
    for len in [2u32, 64, 200, 5000] {
        let table = filled(len);
        let mut random = Random::seeded(42);
        let mut counts: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let draws = len * 100;
        for _ in 0..draws {
            *counts.entry(table.random(&mut random).expect("an entry").field.to_vec()).or_default() += 1;
        }
        // Chi-square with len - 1 degrees of freedom: mean len - 1, variance 2 (len - 1).
        let missing = f64::from(len - counts.len() as u32) * 100.0;
        let chi: f64 =
            counts.values().map(|&n| (f64::from(n) - 100.0).powi(2) / 100.0).sum::<f64>() + missing;
        let degrees = f64::from(len - 1);
        assert!((chi - degrees).abs() < 6.0 * (2.0 * degrees).sqrt() + 6.0, "{chi} for {degrees}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn members_are_cheap_and_memory_comes_back() {
    let len = 200_000u32;
    let mut table = Table::<Members>::new();
    for i in 0..len {
        let member = format!("{i:010}").into_bytes();
        table.insert(hash_field(&member), &member, &[], NO_EXPIRY);
    }
    let per_member = table.heap_bytes() as f64 / f64::from(len);
    assert!(per_member < 22.0, "{per_member} bytes for a member of ten");
    for i in 100..len {
        let member = format!("{i:010}").into_bytes();
        assert!(table.remove(hash_field(&member), &member));
    }
    table.validate();
    assert!(table.heap_bytes() < 16_000, "{} bytes for 100 members", table.heap_bytes());
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn a_clone_shares_and_a_write_copies_one_path() {
    let mut table = filled(100_000);
    let before = table.heap_bytes();
    let clone = table.clone();
    let root = table.root;
    assert!(!table.insert(hash_field(b"member:7"), b"member:7", &[], NO_EXPIRY));
    assert!(table.root == root, "a write that changes nothing copies nothing");
    assert!(table.remove(hash_field(b"member:7"), b"member:7"));
    assert!(table.root != root && clone.root == root);
    let (mut shared, mut own) = (0, 0);
    let (Child::Node(new), Child::Node(old)) = (table.root.child(), clone.root.child()) else {
        panic!("a large table has a node at its root");
    };
    for index in 0..new.len() {
        if new.slot(index) == old.slot(index) { shared += 1 } else { own += 1 }
    }
    assert_eq!((own, shared), (1, new.len() - 1));
    assert_eq!((clone.len(), table.len(), clone.heap_bytes()), (100_000, 99_999, before));
    assert!(clone.contains(hash_field(b"member:7"), b"member:7"));
    clone.validate();
    table.validate();
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn clones_are_read_and_dropped_by_other_threads() {
    let mut table = Table::<Fields>::new();
    let field = |i: u32| i.to_string().into_bytes();
    for i in 0..5_000 {
        table.insert(hash_field(&field(i)), &field(i), &vec![1; (i % 600) as usize], NO_EXPIRY);
    }
    std::thread::scope(|scope| {
        for round in 0..8u32 {
            let clone = table.clone();
            scope.spawn(move || {
                assert_eq!(clone.iter().count(), 5_000);
                assert!(clone.iter().all(|entry| entry.value.iter().all(|&b| u32::from(b) <= round + 1)));
            });
            for i in 0..5_000 {
                let value = vec![round as u8 + 2; (i % 600) as usize];
                table.insert(hash_field(&field(i)), &field(i), &value, NO_EXPIRY);
            }
        }
    });
    table.validate();
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn probes_end_at_the_entry() {
    let field = |i: usize| format!("field:{i}").into_bytes();
    // How many steps there are, and how many lines they note.
    let probe = |table: &Table<Members>, name: &[u8], is_write| {
        let mut queue = PrefetchQueue::default();
        for step in 0..6 {
            let before = queue.len();
            let progress =
                table.queue_probe(ProbeStep { name: Name::text(name), is_write, step }, &mut queue);
            if progress == Progress::Done {
                return (step + 1, queue.len());
            }
            assert!(queue.len() > before, "step {step} found nothing");
        }
        panic!("there is no end");
    };
    let mut table = Table::<Members>::new();
    assert_eq!(probe(&table, b"absent", true), (1, 0));
    let mut most = Vec::new();
    for i in 0..100_000 {
        table.insert(hash_field(&field(i)), &field(i), &[], NO_EXPIRY);
        if [39, 4_999, 99_999].contains(&i) {
            let mut missed = 0;
            for i in 0..=i {
                let ((steps, lines), write) =
                    (probe(&table, &field(i), false), probe(&table, &field(i), true));
                // An entry that found its group full is in another, where no step leads.
                missed += usize::from(lines < steps);
                // The place of a new one is a line or continues in the next.
                assert!(
                    write.0 == steps && (2..=3).contains(&(write.1 - lines)),
                    "header and end of the arena"
                );
            }
            assert!(missed <= i / 8, "{missed} of {i} entries are not noted");
            most.push((0..=i).map(|i| probe(&table, &field(i), false).0).max());
            assert!(probe(&table, b"absent", true).0 <= 3);
        }
    }
    // A leaf, a node of leaves, nodes below a node.
    assert_eq!(most, [Some(2), Some(2), Some(3)]);
}
