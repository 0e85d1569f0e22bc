//! The array against a map, and its facts about slices against examples of Redis'.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Array, ArrayLimits, INDEX_MAX, Info, SliceTotals};
use crate::element::Element;

const STEPS: usize = if cfg!(miri) { 40 } else { 300 };

type Model = BTreeMap<u64, Vec<u8>>;

fn check(array: &Array, model: &Model) {
    let shown: Vec<(u64, Vec<u8>)> = array.iter().map(|(index, element)| (index, element.to_vec())).collect();
    assert_eq!(shown, model.iter().map(|(index, text)| (*index, text.clone())).collect::<Vec<_>>());
    assert_eq!((array.len(), array.is_empty()), (model.len(), model.is_empty()));
    assert_eq!(array.extent(), model.last_key_value().map_or(0, |(index, _)| index + 1));
    let inner = &array.inner;
    inner.pages.iter().for_each(|(_, page)| page.check());
    assert_eq!(inner.page_bytes, inner.pages.iter().map(|(_, page)| page.heap_bytes()).sum::<usize>());
    inner.layout.check(&model.keys().copied().collect::<Vec<_>>());
}

#[derive(Clone, Debug)]
enum Step {
    Set(u64, Vec<u8>),
    Run(u64, Vec<Vec<u8>>),
    Remove(u64),
    RemoveRange(u64, u64),
    Look(u64, u64),
    Clone,
}

fn index() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0..600_u64,
        2 => (0..40_u64, 0..3_u64).prop_map(|(near, far)| near + far * 1_000_000),
        1 => (0..5_u64, 0..6_u64).prop_map(|(near, block)| near * 300 + block * 2048 * 256),
        1 => (0..40_u64).prop_map(|below| INDEX_MAX - below),
        1 => 0..=INDEX_MAX,
    ]
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => any::<i32>().prop_map(|number| number.to_string().into_bytes()),
        3 => prop::collection::vec(any::<u8>(), 0..10),
        1 => prop::collection::vec(any::<u8>(), 11..40),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (index(), text()).prop_map(|(index, text)| Step::Set(index, text)),
        2 => (index(), prop::collection::vec(text(), 1..60)).prop_map(|(index, texts)| Step::Run(index, texts)),
        5 => index().prop_map(Step::Remove),
        1 => (index(), 0..700_u64).prop_map(|(low, len)| Step::RemoveRange(low, low.saturating_add(len).min(INDEX_MAX))),
        1 => (index(), index()).prop_map(|(a, b)| Step::RemoveRange(a.min(b), a.max(b))),
        2 => (index(), index()).prop_map(|(a, b)| Step::Look(a.min(b), a.max(b))),
        1 => Just(Step::Clone),
    ]
}

fn look(array: &Array, model: &Model, low: u64, high: u64) {
    let range: Vec<(u64, Vec<u8>)> =
        array.range(low, high).map(|(index, element)| (index, element.to_vec())).collect();
    let expected: Vec<(u64, Vec<u8>)> =
        model.range(low..=high).map(|(index, text)| (*index, text.clone())).collect();
    assert_eq!(range, expected);
    let mut back: Vec<(u64, Vec<u8>)> =
        array.range_back(low, high).map(|(index, element)| (index, element.to_vec())).collect();
    back.reverse();
    assert_eq!(back, expected);
    for index in [low, high] {
        assert_eq!(array.get(index).map(|element| element.to_vec()), model.get(&index).cloned());
    }
    let inside = model.keys().all(|index| (low..=high).contains(index));
    assert_eq!(array.lies_within(low, high), inside);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

    #[test]
    fn behaves_as_a_map(
        steps in prop::collection::vec(step(), 1..STEPS),
        slice_size in prop::sample::select(vec![256_u32, 4096, 65536]),
        sparse in prop::sample::select(vec![(10_u32, 5_u32), (0, 0), (6, 3), (100, 60)]),
    ) {
        let limits = ArrayLimits { slice_size, sparse_max: sparse.0, sparse_min: sparse.1 };
        let (mut array, mut model) = (Array::new(), Model::new());
        let mut clones = Vec::new();
        for step in steps {
            match step {
                Step::Set(index, text) => {
                    let is_new = array.set(index, Element::parse(&text), limits);
                    prop_assert_eq!(is_new, model.insert(index, text).is_none());
                }
                Step::Run(start, texts) => {
                    if start.checked_add(texts.len() as u64).is_none() {
                        continue;
                    }
                    let before = model.len();
                    let filled = array.set_run(start, texts.len() as u64, texts.iter().map(|text| Element::parse(text)), limits);
                    model.extend((start..).zip(texts));
                    prop_assert_eq!(filled, (model.len() - before) as u64);
                }
                Step::Remove(index) => {
                    prop_assert_eq!(array.remove(index, limits), model.remove(&index).is_some());
                }
                Step::RemoveRange(low, high) => {
                    let before = model.len();
                    model.retain(|index, _| !(low..=high).contains(index));
                    prop_assert_eq!(array.remove_range(low, high, limits), (before - model.len()) as u64);
                }
                Step::Look(low, high) => look(&array, &model, low, high),
                Step::Clone => clones.push((array.clone(), model.clone())),
            }
            check(&array, &model);
        }
        clones.iter().for_each(|(array, model)| check(array, model));
    }

    /// A ring holds the latest elements in order, whatever sizes it has had.
    #[test]
    fn a_ring_keeps_the_latest(sizes in prop::collection::vec((1..40_u64, 1..50_usize), 1..12)) {
        let limits = ArrayLimits::default();
        let (mut array, mut latest, mut number) = (Array::new(), Vec::<u64>::new(), 0);
        for (size, times) in sizes {
            array.reshape_ring(size, limits);
            latest.drain(..latest.len().saturating_sub(size as usize));
            for _ in 0..times {
                let index = array.next_index() % size;
                array.set(index, Element::Int(number), limits);
                array.set_cursor(Some(index));
                latest.push(number as u64);
                latest.drain(..latest.len().saturating_sub(size as usize));
                number += 1;
            }
            let extent = array.extent();
            let last = array.cursor().unwrap_or(0);
            let mut held: Vec<u64> =
                array.latest(last, extent).filter_map(|index| array.get(index)?.as_int()).map(|int| int as u64).collect();
            held.reverse();
            prop_assert_eq!(&held, &latest);
        }
    }
}

fn array_of(indexes: impl IntoIterator<Item = u64>) -> Array {
    let mut array = Array::new();
    for index in indexes {
        array.set(index, Element::Int(1), ArrayLimits::default());
    }
    array
}

#[test]
fn slices_are_told_as_in_redis() {
    let limits = ArrayLimits::default();
    let info = |slices, directory_size, blocks| Info { slices, directory_size, blocks, slice_size: 4096 };
    assert_eq!(array_of([0, 1, 100]).info(), info(1, 1, 0));
    assert_eq!(array_of([0, 5000, 4096 * 9]).info(), info(3, 16, 0));
    let mut array = array_of([0, 8_388_607, 8_388_608, 1 << 40, 1 << 41, 1 << 42, INDEX_MAX]);
    assert_eq!(array.info(), info(7, 8, 6));
    assert_eq!(array.remove_range(1 << 40, INDEX_MAX, limits), 4);
    assert_eq!(array.info(), info(3, 8, 2));
    let mut array = array_of([0, 4096 * 9]);
    array.remove(4096 * 9, limits);
    assert_eq!(array.info(), info(1, 1, 0));
}

#[test]
fn sparse_slices_become_dense_and_sparse_again() {
    let limits = ArrayLimits::default();
    let sparse = |sparse_capacity| SliceTotals { sparse: 1, sparse_capacity, ..SliceTotals::default() };
    let dense = |dense_elements, dense_places| SliceTotals {
        dense: 1,
        dense_places,
        dense_elements,
        ..SliceTotals::default()
    };
    let mut array = array_of((0..4).map(|index| index * 100));
    assert_eq!(array.slice_totals(), sparse(4));
    array.set(1000, Element::Int(1), limits);
    assert_eq!(array.slice_totals(), sparse(8));
    (0..5).for_each(|index| _ = array.set(2000 + index, Element::Int(1), limits));
    assert_eq!(array.slice_totals(), sparse(10));
    array.set(4000, Element::Int(1), limits);
    assert_eq!(array.slice_totals(), dense(11, 4096));
    assert_eq!(array.remove_range(1000, 2003, limits), 5);
    assert_eq!(array.slice_totals(), dense(6, 4096));
    array.remove(0, limits);
    assert_eq!(array.slice_totals(), sparse(5));
    let mut array = Array::new();
    array.set_run(4090, 30, (0..30_i32).map(|int| Element::Int(int.into())), limits);
    assert_eq!(array.slice_totals(), SliceTotals { sparse: 1, sparse_capacity: 8, ..dense(24, 32) });
}

#[test]
fn a_clone_costs_little_and_keeps_what_it_had() {
    let limits = ArrayLimits::default();
    let mut array = Array::new();
    array.set_run(0, 20_000, (0..20_000_i32).map(|int| Element::Int(int.into())), limits);
    let before = array.heap_bytes();
    let clone = array.clone();
    array.set(10_000, Element::Bytes(&[b'x'; 5000]), limits);
    assert_eq!(clone.get(10_000), Some(Element::Int(10_000)));
    assert!(array.heap_bytes() > before + 5000 && clone.heap_bytes() == before);
    assert!(before < 20_000 * 8, "{before} bytes");
}
