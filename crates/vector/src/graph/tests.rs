//! The graph's invariants, against naive models. Every random test prints its seed (proptest does on
//! failure; the others have it in their name or message).

use super::*;
use crate::quantise::Encoding;
use martlet_base::random::Random;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn config(dimension: usize, encoding: Encoding, m: usize) -> Config {
    Config { dimension, encoding, metric: Metric::Cosine, m, seed: 7 }
}

fn vector(random: &mut Random, dimension: usize) -> Vec<f32> {
    (0..dimension).map(|_| (random.unit_f64() * 2.0 - 1.0) as f32).collect()
}

fn filled(config: Config, count: usize, seed: u64) -> (Graph<u64>, Vec<Vec<f32>>) {
    let mut random = Random::seeded(seed);
    let graph = Graph::new(config).unwrap();
    let all: Vec<Vec<f32>> = (0..count).map(|_| vector(&mut random, config.dimension)).collect();
    for (index, components) in all.iter().enumerate() {
        graph.insert(components, index as u64, 100).unwrap();
    }
    (graph, all)
}

/// Checks the invariants, and returns how many nodes are reachable on layer 0 from the entry point.
fn check(graph: &Graph<u64>) -> usize {
    let core = graph.read();
    let view = graph.view(&core);
    let slots: Vec<u32> = view.slots().collect();
    assert_eq!(slots.len(), graph.len());
    let m = graph.config().m;
    for slot in &slots {
        let level = view.level(*slot).unwrap();
        assert!(level <= graph.level_max(), "the entry point has the highest level");
        for layer in 0..=level as usize {
            let links: Vec<u32> = view.layer(*slot, layer).slots().collect();
            let limit = if layer == 0 { 3 * m } else { 2 * m };
            assert!(links.len() <= limit, "{} links", links.len());
            let mut distinct = links.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), links.len(), "no link is there twice");
            for linked in &links {
                assert_ne!(linked, slot);
                assert!(view.level(*linked).is_some_and(|level| level as usize >= layer));
                assert!(view.layer(*linked, layer).position(*slot).is_some(), "links are reciprocal");
            }
            let (worst, distance) = view.layer(*slot, layer).worst();
            let farthest =
                links.iter().map(|linked| view.distance(*slot, *linked)).fold(f32::NEG_INFINITY, f32::max);
            assert!(links.is_empty() || (distance - farthest).abs() < 1e-4, "{distance} {farthest}");
            assert!(worst < links.len().max(1));
        }
    }
    let Some(entry) = graph.entry_point() else {
        assert!(slots.is_empty());
        return 0;
    };
    let mut seen = std::collections::HashSet::from([entry.slot]);
    let mut stack = vec![entry.slot];
    while let Some(slot) = stack.pop() {
        stack.extend(view.layer(slot, 0).slots().filter(|linked| seen.insert(*linked)));
    }
    seen.len()
}

/// The share of the truly nearest ten that searches find.
fn recall(graph: &Graph<u64>, queries: usize, ef: usize) -> f64 {
    let mut random = Random::seeded(99);
    let mut found = 0;
    for _ in 0..queries {
        let query = graph.encode(&vector(&mut random, graph.config().dimension)).unwrap();
        let exact = SearchOptions { is_exact: true, ..SearchOptions::nearest(10, ef) };
        let truth: Vec<u64> = graph.search(&query, &exact).iter().map(|hit| *hit.payload).collect();
        let hits = graph.search(&query, &SearchOptions::nearest(10, ef));
        found += hits.iter().filter(|hit| truth.contains(&hit.payload)).count();
    }
    found as f64 / (queries * 10) as f64
}

#[test]
fn searches_find_what_a_scan_finds() {
    for (encoding, least) in [(Encoding::F32, 0.98), (Encoding::Q8, 0.98), (Encoding::Bin, 0.7)] {
        let (graph, _) = filled(config(24, encoding, 16), 2000, 1);
        assert_eq!(check(&graph), 2000);
        let recall = recall(&graph, 50, 100);
        assert!(recall >= least, "{encoding:?}: {recall}");
    }
}

#[test]
fn other_metrics_rank_by_their_distance() {
    for metric in [Metric::L2, Metric::InnerProduct] {
        let config = Config { metric, ..config(8, Encoding::F32, 16) };
        let (graph, all) = filled(config, 500, 2);
        check(&graph);
        let query = vec![0.5; 8];
        let distance = |vector: &Vec<f32>| match metric {
            Metric::L2 => vector.iter().map(|value| (value - 0.5) * (value - 0.5)).sum::<f32>(),
            _ => 1.0 - vector.iter().map(|value| value * 0.5).sum::<f32>(),
        };
        let mut expected: Vec<(f32, usize)> = all.iter().map(distance).zip(0..).collect();
        expected.sort_by(|a, b| a.0.total_cmp(&b.0));
        let hits = graph.search(&graph.encode(&query).unwrap(), &SearchOptions::nearest(5, 200));
        for (hit, (distance, index)) in hits.iter().zip(&expected) {
            assert_eq!(*hit.payload, *index as u64);
            assert!((hit.distance - distance).abs() < 1e-4);
        }
    }
}

#[test]
fn filtered_walks_find_the_accepted_within_their_bound() {
    let (graph, _) = filled(config(16, Encoding::Q8, 16), 3000, 3);
    let query = graph.encode(&[0.3; 16]).unwrap();
    let accepts = |payload: &u64| payload.is_multiple_of(50);
    let options = |examined_max| SearchOptions {
        filter: Some(&accepts),
        examined_max,
        ..SearchOptions::nearest(10, 100)
    };
    let exact = SearchOptions { is_exact: true, ..options(0) };
    let truth: Vec<u64> = graph.search(&query, &exact).iter().map(|hit| *hit.payload).collect();
    assert_eq!(truth.len(), 10);
    let found: Vec<u64> = graph.search(&query, &options(0)).iter().map(|hit| *hit.payload).collect();
    assert_eq!(found, truth);
    let calls = std::cell::Cell::new(0);
    let counting = |_: &u64| {
        calls.set(calls.get() + 1);
        false
    };
    let bounded =
        SearchOptions { filter: Some(&counting), examined_max: 5, ..SearchOptions::nearest(10, 100) };
    assert!(graph.search(&query, &bounded).is_empty());
    assert!(calls.get() <= 1 + 5 * 33, "{} calls", calls.get());
}

#[test]
fn results_end_at_the_distance() {
    let (graph, _) = filled(config(4, Encoding::F32, 8), 300, 4);
    let query = graph.encode(&[1.0, 0.0, 0.0, 0.0]).unwrap();
    let all = graph.search(&query, &SearchOptions::nearest(300, 300));
    assert_eq!(all.len(), 300);
    assert!(all.is_sorted_by(|a, b| a.distance <= b.distance));
    let near = SearchOptions { distance_max: 0.5, ..SearchOptions::nearest(300, 300) };
    let expected = all.iter().filter(|hit| hit.distance <= 0.5).count();
    assert_eq!(graph.search(&query, &near).len(), expected);
    assert!(graph.search(&query, &SearchOptions::nearest(0, 10)).is_empty());
}

#[test]
fn bad_vectors_change_nothing() {
    let graph: Graph<u64> = Graph::new(config(3, Encoding::Q8, 16)).unwrap();
    for components in [&[1.0, 2.0][..], &[1.0, 2.0, f32::NAN], &[1.0, f32::INFINITY, 0.0], &[]] {
        assert_eq!(graph.insert(components, 1, 10), Err(VectorError::NotAVector));
    }
    assert_eq!((graph.len(), graph.last_id(), graph.heap_bytes()), (0, 0, 0));
    for bad in [
        Config { dimension: 0, ..config(3, Encoding::Q8, 16) },
        Config { dimension: quantise::DIMENSION_MAX + 1, ..config(3, Encoding::Q8, 16) },
        Config { m: 0, ..config(3, Encoding::Q8, 16) },
        Config { m: M_MAX + 1, ..config(3, Encoding::Q8, 16) },
        Config { metric: Metric::L2, ..config(3, Encoding::Q8, 16) },
    ] {
        assert!(Graph::<u64>::new(bad).is_none(), "{bad:?}");
    }
}

#[test]
fn equal_vectors_stay_reachable() {
    let graph: Graph<u64> = Graph::new(config(4, Encoding::Q8, 4)).unwrap();
    for index in 0..400 {
        graph.insert(&[1.0, 2.0, 3.0, 4.0], index, 50).unwrap();
    }
    assert_eq!(check(&graph), 400);
}

#[test]
fn links_carry_their_distances() {
    let (graph, _) = filled(config(8, Encoding::F32, 8), 200, 5);
    for slot in 0..200 {
        let layers = graph.links(slot).unwrap();
        let own = graph.encode(&graph.components(slot).unwrap()).unwrap();
        for hit in layers.iter().flatten() {
            let theirs = graph.encode(&graph.components(hit.slot).unwrap()).unwrap();
            let distance = graph.shape.distance(own.as_operand(), theirs.as_operand());
            assert!((distance - hit.distance).abs() < 1e-5);
        }
    }
    assert!(graph.links(200).is_none());
}

#[test]
fn random_nodes_are_all_met() {
    let (graph, _) = filled(config(4, Encoding::Bin, 8), 150, 6);
    for slot in (0..150).filter(|slot| slot % 3 != 0) {
        graph.remove(slot).unwrap();
    }
    let mut random = Random::seeded(6);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..2000 {
        let (slot, payload) = graph.random(|bound| random.below(bound)).unwrap();
        assert_eq!(u64::from(slot), *payload);
        assert_eq!(slot % 3, 0);
        seen.insert(slot);
    }
    assert_eq!(seen.len(), 50);
    let empty: Graph<u64> = Graph::new(config(4, Encoding::Bin, 8)).unwrap();
    assert!(empty.random(|_| 0).is_none());
}

#[test]
fn deletions_repair_links() {
    let (graph, _) = filled(config(16, Encoding::F32, 16), 1500, 8);
    let mut random = Random::seeded(8);
    let mut left: Vec<u32> = (0..1500).collect();
    for _ in 0..1200 {
        let slot = left.swap_remove(random.below(left.len() as u64) as usize);
        assert_eq!(graph.remove(slot).as_deref(), Some(&u64::from(slot)));
        assert!(graph.remove(slot).is_none());
    }
    assert_eq!(check(&graph), 300);
    let recall = recall(&graph, 50, 100);
    assert!(recall > 0.98, "{recall}");
    left.iter().for_each(|slot| assert!(graph.remove(*slot).is_some()));
    assert_eq!((check(&graph), graph.len(), graph.level_max()), (0, 0, 0));
    graph.insert(&[1.0; 16], 1, 10).unwrap();
    assert_eq!(check(&graph), 1);
}

#[test]
fn snapshots_do_not_change() {
    let (graph, _) = filled(config(8, Encoding::Q8, 8), 500, 9);
    let describe = |snapshot: &Snapshot<u64>| -> Vec<String> {
        let node = |slot: &u32| format!("{:?}", snapshot.node(*slot).unwrap());
        snapshot.order().iter().map(node).collect()
    };
    let snapshot = graph.snapshot();
    let before = describe(&snapshot);
    assert_eq!(before.len(), 500);
    let mut random = Random::seeded(9);
    for round in 0..400 {
        if round % 3 == 0 {
            let (slot, _) = graph.random(|bound| random.below(bound)).unwrap();
            graph.remove(slot);
        } else {
            graph.insert(&vector(&mut random, 8), 1000 + round, 50).unwrap();
        }
    }
    let (slot, _) = graph.random(|bound| random.below(bound)).unwrap();
    graph.set_payload(slot, 5).unwrap();
    assert_eq!(describe(&snapshot), before);
    check(&graph);
    let copy = snapshot.to_graph();
    assert_eq!(check(&copy), 500);
    copy.insert(&vector(&mut random, 8), 1, 50).unwrap();
    copy.remove(3).unwrap();
    assert_eq!(describe(&snapshot), before);
    check(&copy);
    drop(graph);
    check(&copy);
    assert_eq!(describe(&snapshot), before);
}

#[test]
fn ids_ascend_and_are_not_given_twice() {
    let (graph, _) = filled(config(4, Encoding::Q8, 8), 100, 10);
    graph.remove(99).unwrap();
    let slot = graph.insert(&[1.0, 0.0, 0.0, 0.0], 7, 10).unwrap();
    assert_eq!(slot, 99, "slots are used again");
    let snapshot = graph.snapshot();
    let ids: Vec<u64> = snapshot.order().iter().map(|slot| snapshot.node(*slot).unwrap().id).collect();
    assert_eq!(ids, (1..=99).chain([101]).collect::<Vec<_>>());
}

#[test]
fn freeing_goes_in_slices() {
    let (graph, _) = filled(config(4, Encoding::Q8, 8), 1000, 11);
    let mut slices = graph.into_free_slices();
    let mut steps = 0;
    assert!(slices.remaining() >= 1000);
    while !slices.step(2) {
        steps += 1;
    }
    assert!((7..=9).contains(&steps), "{steps}");
    assert!(slices.step(1));
}

/// The graph's bytes, counted page by page.
fn counted_bytes(graph: &Graph<u64>) -> usize {
    let core = graph.read();
    let view = graph.view(&core);
    let bytes = |room: usize| {
        page::NodePage::<u64>::page_bytes(&graph.shape, room)
            + page::VectorPage::page_bytes(&graph.shape, room)
    };
    let pages: usize =
        core.table.iter().filter_map(|entry| entry.page()).map(|page| bytes(page.room())).sum();
    let spill = |slot: u32| {
        let (page, index) = view.page(slot).unwrap();
        page.spill(index).map_or(0, page::Spill::heap_bytes)
    };
    let spills: usize = view.slots().map(spill).sum();
    core.table.capacity() * size_of::<Entry<u64>>() + pages + spills + graph.len() * 24
}

#[test]
fn a_small_graph_is_small_and_grows() {
    let mut random = Random::seeded(21);
    let graph: Graph<u64> = Graph::new(config(16, Encoding::Q8, 16)).unwrap();
    let mut snapshots = Vec::new();
    for index in 0..70u64 {
        graph.insert(&vector(&mut random, 16), index, 50).unwrap();
        let retired = graph.retired.lock().unwrap().capacity() * size_of::<Retired<u64>>();
        assert_eq!(graph.heap_bytes(), counted_bytes(&graph) + retired);
        if index == 0 {
            assert!(graph.heap_bytes() < 1600, "{}", graph.heap_bytes());
        }
        if [0, 2, 3, 4, 20].contains(&index) {
            snapshots.push((graph.snapshot(), index as usize + 1));
        }
        check(&graph);
    }
    for (snapshot, len) in snapshots {
        let copy = snapshot.to_graph();
        assert_eq!(check(&copy), len);
        copy.insert(&vector(&mut random, 16), 1, 50).unwrap();
        assert_eq!(check(&copy), len + 1);
    }
    assert_eq!(check(&graph), 70);
}

#[test]
fn bytes_are_exact() {
    let (graph, _) = filled(config(12, Encoding::Q8, 4), 700, 12);
    let mut random = Random::seeded(12);
    let exact = |graph: &Graph<u64>| {
        let removed = graph.slots.lock().unwrap().removed.capacity() * 4;
        let retired = graph.retired.lock().unwrap().capacity() * size_of::<Retired<u64>>();
        assert_eq!(graph.heap_bytes(), counted_bytes(graph) + removed + retired);
    };
    exact(&graph);
    for round in 0..500u64 {
        if round % 2 == 0 {
            let (slot, _) = graph.random(|bound| random.below(bound)).unwrap();
            graph.remove(slot);
        } else {
            // Equal vectors make layers grow.
            graph.insert(&[1.0; 12], round, 50).unwrap();
        }
        if round == 250 {
            let snapshot = graph.snapshot();
            exact(&snapshot.to_graph());
        }
        exact(&graph);
    }
}

#[test]
fn threads_insert_search_and_remove_together() {
    const THREADS: usize = 4;
    let graph: Graph<u64> = Graph::new(config(16, Encoding::Q8, 8)).unwrap();
    let snapshots = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (graph, snapshots) = (&graph, &snapshots);
            scope.spawn(move || {
                let mut random = Random::seeded(100 + thread as u64);
                let mut own = Vec::new();
                for round in 0..400u64 {
                    let components = vector(&mut random, 16);
                    let query = graph.encode(&components).unwrap();
                    // Half of the threads look for the neighbours beside the others' changes, and link later.
                    let neighbours = (thread % 2 == 0).then(|| graph.neighbours(&query, 40)).flatten();
                    let inserted = graph.insert_encoded(&query, thread as u64, 40, neighbours.as_ref());
                    own.push(inserted.unwrap());
                    let hits = graph.search(&query, &SearchOptions::nearest(5, 40));
                    assert!(hits.len() <= 5 && hits.is_sorted_by(|a, b| a.distance <= b.distance));
                    if round % 7 == 0 {
                        let slot = own.swap_remove(random.below(own.len() as u64) as usize);
                        assert_eq!(graph.remove(slot).as_deref(), Some(&(thread as u64)));
                    }
                    if round % 100 == 50 {
                        snapshots.lock().unwrap().push(graph.snapshot());
                    }
                }
            });
        }
    });
    assert_eq!(graph.len(), THREADS * (400 - 58));
    let reachable = check(&graph);
    assert!(reachable >= graph.len() - 3, "{reachable} of {}", graph.len());
    for snapshot in snapshots.into_inner().unwrap() {
        check(&snapshot.to_graph());
    }
    let recall = recall(&graph, 30, 100);
    assert!(recall > 0.95, "{recall}");
}

#[test]
fn neighbours_are_used_while_most_of_them_are_there() {
    let mut random = Random::seeded(9);
    let graph: Graph<u64> = Graph::new(config(8, Encoding::F32, 8)).unwrap();
    let slots: Vec<u32> =
        (0..300).map(|index| graph.insert(&vector(&mut random, 8), index, 50).unwrap()).collect();
    let query = graph.encode(&vector(&mut random, 8)).unwrap();
    let found = graph.neighbours(&query, 50).unwrap();
    let present = |graph: &Graph<u64>| {
        let core = graph.read();
        found.present(graph.view(&core), graph.entry_point()).map(|(_, layers)| layers[0].len())
    };
    assert_eq!(present(&graph), Some(50));
    let near = graph.search(&query, &SearchOptions::nearest(20, 50));
    near.iter().take(5).for_each(|hit| drop(graph.remove(hit.slot)));
    assert_eq!(present(&graph).filter(|left| *left < 50), Some(45));
    // Other nodes in their slots are not them.
    for index in 0..5 {
        graph.insert(&vector(&mut random, 8), 1000 + index, 50).unwrap();
    }
    assert_eq!(present(&graph), Some(45));
    near.iter().skip(5).for_each(|hit| drop(graph.remove(hit.slot)));
    assert_eq!(present(&graph), None);
    let slot = graph.insert_encoded(&query, 7, 50, Some(&found)).unwrap();
    assert_eq!(graph.search(&query, &SearchOptions::nearest(1, 50))[0].slot, slot);
    assert_eq!(slots.len() - 20 + 5 + 1, graph.len());
    check(&graph);
}

/// One step on a graph and on its model.
#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<f32>),
    Update(usize, Vec<f32>),
    Remove(usize),
    Payload(usize, u64),
    Snapshot,
    Search(Vec<f32>, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let components = || prop::collection::vec(-1.0f32..1.0, 5);
    prop::collection::vec(
        prop_oneof![
            6 => components().prop_map(Step::Insert),
            2 => (any::<usize>(), components()).prop_map(|(at, components)| Step::Update(at, components)),
            3 => any::<usize>().prop_map(Step::Remove),
            1 => (any::<usize>(), any::<u64>()).prop_map(|(at, payload)| Step::Payload(at, payload)),
            1 => Just(Step::Snapshot),
            2 => (components(), 1usize..20).prop_map(|(components, count)| Step::Search(components, count)),
        ],
        1..120,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sequences_equal_a_naive_model(steps in steps(), quantised in any::<bool>()) {
        let encoding = if quantised { Encoding::Q8 } else { Encoding::F32 };
        let graph: Graph<u64> = Graph::new(config(5, encoding, 4)).unwrap();
        let mut model: BTreeMap<u32, (Vec<f32>, u64)> = BTreeMap::new();
        let mut kept = Vec::new();
        let pick = |model: &BTreeMap<u32, (Vec<f32>, u64)>, at: usize| {
            model.keys().nth(at % model.len().max(1)).copied()
        };
        for step in steps {
            match step {
                Step::Insert(components) => {
                    let payload = model.len() as u64;
                    let slot = graph.insert(&components, payload, 30).unwrap();
                    prop_assert!(model.insert(slot, (components, payload)).is_none());
                }
                Step::Update(at, components) => if let Some(slot) = pick(&model, at) {
                    let payload = graph.remove(slot).unwrap();
                    model.remove(&slot);
                    let slot = graph.insert(&components, *payload, 30).unwrap();
                    prop_assert!(model.insert(slot, (components, *payload)).is_none());
                },
                Step::Remove(at) => if let Some(slot) = pick(&model, at) {
                    let (_, payload) = model.remove(&slot).unwrap();
                    prop_assert_eq!(graph.remove(slot).map(|was| *was), Some(payload));
                },
                Step::Payload(at, payload) => if let Some(slot) = pick(&model, at) {
                    graph.set_payload(slot, payload).unwrap();
                    model.get_mut(&slot).unwrap().1 = payload;
                },
                Step::Snapshot => kept.push((graph.snapshot(), model.clone())),
                Step::Search(components, count) => {
                    let query = graph.encode(&components).unwrap();
                    let exact = SearchOptions { is_exact: true, ..SearchOptions::nearest(count, 10) };
                    let found = graph.search(&query, &exact);
                    prop_assert_eq!(found.len(), count.min(model.len()));
                    let distance = |other: &[f32]| {
                        let other = graph.encode(other).unwrap();
                        graph.shape.distance(query.as_operand(), other.as_operand())
                    };
                    let mut expected: Vec<f32> = model.values().map(|(other, _)| distance(other)).collect();
                    expected.sort_by(f32::total_cmp);
                    for (hit, distance) in found.iter().zip(&expected) {
                        prop_assert!((hit.distance - distance).abs() < 1e-5);
                    }
                }
            }
            prop_assert_eq!(graph.len(), model.len());
            for (slot, (_, payload)) in &model {
                prop_assert_eq!(graph.payload(*slot).map(|is| *is), Some(*payload));
            }
        }
        check(&graph);
        for (snapshot, model) in &kept {
            prop_assert_eq!(snapshot.len(), model.len());
            for (slot, (_, payload)) in model {
                prop_assert_eq!(snapshot.payload(*slot).map(|payload| **payload), Some(*payload));
            }
            check(&snapshot.to_graph());
        }
    }
}
