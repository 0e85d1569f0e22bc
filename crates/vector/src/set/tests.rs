//! A set beside a naive model: names, vectors, attributes; clones; the saved form; memory.

use super::*;
use crate::graph::{Metric, SearchOptions};
use crate::quantise::Encoding;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn empty(dimension: usize) -> VectorSet {
    let config = Config { dimension, encoding: Encoding::F32, metric: Metric::Cosine, m: 8, seed: 1 };
    VectorSet::new(config, None).unwrap()
}

type Model = BTreeMap<Vec<u8>, ([f32; 3], Option<Vec<u8>>)>;

fn check(set: &VectorSet, model: &Model) {
    let names: Vec<&[u8]> = set.range(Bound::Unbounded, Bound::Unbounded).map(|e| &*e.name).collect();
    assert!(names.iter().copied().eq(model.keys().map(Vec::as_slice)));
    assert_eq!(set.len(), model.len());
    assert_eq!(set.graph().len(), model.len());
    assert_eq!(set.attributes(), model.values().filter(|(_, attribute)| attribute.is_some()).count());
    for (name, (vector, attribute)) in model {
        let (slot, element) = set.get(name).unwrap();
        assert_eq!(element.attribute.as_deref(), attribute.as_deref());
        assert!(Arc::ptr_eq(element, &set.graph().payload(slot).unwrap()));
        let stored = set.graph().components(slot).unwrap();
        assert!(stored.iter().zip(vector).all(|(a, b)| (a - b).abs() < 1e-3), "{stored:?} {vector:?}");
        // An exact search for its own vector finds it, or one in the same direction.
        let query = set.encode(vector).unwrap();
        let hits =
            set.graph().search(&query, &SearchOptions { is_exact: true, ..SearchOptions::nearest(1, 10) });
        assert!(hits.first().is_some_and(|hit| hit.distance < 1e-3));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u8, [i8; 3], Option<bool>),
    /// Looks for the neighbours of a vector that is inserted later.
    Begin([i8; 3]),
    Finish(u8),
    Remove(u8),
    Attribute(u8, bool),
    Clone,
    Reload,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..60u8, proptest::array::uniform3(-9..9i8), proptest::option::of(any::<bool>()))
            .prop_map(|(name, vector, attribute)| Step::Insert(name, vector, attribute)),
        2 => proptest::array::uniform3(-9..9i8).prop_map(Step::Begin),
        2 => (0..60u8).prop_map(Step::Finish),
        3 => (0..60u8).prop_map(Step::Remove),
        1 => (0..60u8, any::<bool>()).prop_map(|(name, has)| Step::Attribute(name, has)),
        1 => Just(Step::Clone),
        1 => Just(Step::Reload),
    ];
    proptest::collection::vec(step, 0..120)
}

fn reload(set: &VectorSet) -> VectorSet {
    let mut fields = Vec::new();
    set.save(|field| {
        fields.push(match field {
            Field::Unsigned(value) => Field::Unsigned(value),
            Field::Double(value) => Field::Double(value),
            Field::String(text) => Field::String(Cow::Owned(text.into_owned())),
        });
    });
    let mut fields = fields.into_iter();
    VectorSet::load(1, || fields.next()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_set_is_what_its_model_is(steps in steps()) {
        let (mut set, mut model) = (empty(3), Model::new());
        let mut frozen: Vec<(VectorSet, Model)> = Vec::new();
        let mut begun = Vec::new();
        for step in steps {
            match step {
                Step::Insert(name, vector, attribute) => {
                    let (name, vector) = (vec![b'n', name], vector.map(f32::from));
                    let attribute = match attribute {
                        None => Attribute::Kept,
                        Some(true) => Attribute::Text(b"{}"),
                        Some(false) => Attribute::Text(b""),
                    };
                    let old = model.get(&name).and_then(|(_, attribute)| attribute.clone());
                    let text = match attribute {
                        Attribute::Kept => old,
                        Attribute::Text(text) => Some(text.to_vec()).filter(|text| !text.is_empty()),
                    };
                    let is_new = set.insert(&name, &vector, attribute, 20).unwrap();
                    prop_assert_eq!(is_new, model.insert(name, (vector, text)).is_none());
                }
                Step::Begin(vector) => {
                    let vector = vector.map(f32::from);
                    let mut insertion = set.insertion(&vector).unwrap();
                    insertion.find_neighbours(20);
                    begun.push((vector, insertion));
                }
                Step::Finish(name) => if let Some((vector, insertion)) = begun.pop() {
                    let name = vec![b'n', name];
                    let old = model.get(&name).and_then(|(_, attribute)| attribute.clone());
                    let is_new = set.finish_insertion(&name, &insertion, Attribute::Kept, 20).unwrap();
                    prop_assert_eq!(is_new, model.insert(name, (vector, old)).is_none());
                },
                Step::Remove(name) => {
                    let name = vec![b'n', name];
                    prop_assert_eq!(set.remove(&name), model.remove(&name).is_some());
                }
                Step::Attribute(name, has) => {
                    let name = vec![b'n', name];
                    let text: &[u8] = if has { b"[1]" } else { b"" };
                    let found = model.get_mut(&name);
                    prop_assert_eq!(set.set_attribute(&name, text), found.is_some());
                    if let Some((_, attribute)) = found {
                        *attribute = has.then(|| text.to_vec());
                    }
                }
                Step::Clone => frozen.push((set.clone(), model.clone())),
                Step::Reload if !model.is_empty() => set = reload(&set),
                Step::Reload => {}
            }
        }
        // Vectors without a direction are not found by their own.
        let drop_zero = |model: &Model| model.values().all(|(vector, _)| vector.iter().any(|v| *v != 0.0));
        for (set, model) in frozen.iter().chain([&(set, model)]) {
            if drop_zero(model) {
                check(set, model);
            }
        }
    }
}

#[test]
fn names_are_found_in_ranges_over_many_chunks() {
    let mut set = empty(1);
    let mut names: Vec<Vec<u8>> =
        (0..1000u32).map(|n| format!("{:04}", n * 7919 % 1000).into_bytes()).collect();
    for name in &names {
        assert!(set.insert(name, &[1.0], Attribute::Kept, 4).unwrap());
    }
    names.sort();
    let range = |from, to: Bound<&'static [u8]>| -> Vec<Vec<u8>> {
        set.range(from, to).map(|element| element.name.to_vec()).collect()
    };
    assert_eq!(range(Bound::Unbounded, Bound::Unbounded), names);
    assert_eq!(range(Bound::Included(b"0500"), Bound::Excluded(b"0503")), names[500..503]);
    assert_eq!(range(Bound::Excluded(b"0500"), Bound::Included(b"0503")), names[501..504]);
    assert_eq!(range(Bound::Included(b"05005"), Bound::Included(b"05025")), names[501..503]);
    assert!(range(Bound::Included(b"9"), Bound::Unbounded).is_empty());
    assert!(range(Bound::Included(b"7"), Bound::Included(b"3")).is_empty());
    for name in &names[..990] {
        assert!(set.remove(name));
    }
    assert_eq!(set.range(Bound::Unbounded, Bound::Unbounded).count(), 10);
}

#[test]
fn vectors_are_projected_and_refused_as_the_configuration_says() {
    let config = Config { dimension: 2, encoding: Encoding::Q8, metric: Metric::Cosine, m: 8, seed: 1 };
    assert!(VectorSet::new(Config { dimension: 3, ..config }, Projection::new(3, 2)).is_none());
    let mut set = VectorSet::new(config, Projection::new(3, 2)).unwrap();
    assert_eq!(set.insert(b"a", &[1.0, 2.0, 3.0], Attribute::Kept, 10), Ok(true));
    assert_eq!(set.insert(b"b", &[1.0], Attribute::Kept, 10), Err(VectorError::NotAVector));
    assert_eq!(set.insert(b"b", &[1.0, f32::NAN, 1.0], Attribute::Kept, 10), Err(VectorError::NotAVector));
    assert_eq!(set.len(), 1);
    let other = empty(3).insertion(&[1.0, 2.0, 3.0]).unwrap();
    assert_eq!(set.finish_insertion(b"b", &other, Attribute::Kept, 10), Err(VectorError::NotAVector));
    let loaded = reload(&set);
    assert_eq!(loaded.projection(), set.projection());
    assert_eq!(loaded.get(b"a").unwrap().1, set.get(b"a").unwrap().1);
}
