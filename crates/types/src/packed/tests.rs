//! `Packed` against a vector of byte strings.

use super::*;
use proptest::prelude::*;

fn texts(packed: &Packed) -> Vec<Vec<u8>> {
    packed.iter().map(|element| element.to_vec()).collect()
}

fn check(packed: &Packed, model: &[Vec<u8>]) {
    assert_eq!(packed.len(), model.len());
    assert_eq!(texts(packed), model);
    let backwards: Vec<Vec<u8>> = packed.iter_rev().map(|element| element.to_vec()).collect();
    assert_eq!(backwards, model.iter().rev().cloned().collect::<Vec<_>>());
    assert!(packed.heap_bytes() >= packed.bytes_used());
    let class = class_of(packed.bytes_used());
    let most = class_bytes(class + 1).max(class_bytes(class) * 4 / 3);
    assert!(packed.heap_bytes() <= most, "{} for {}", packed.heap_bytes(), packed.bytes_used());
    for (index, text) in model.iter().enumerate() {
        assert!(packed.get(index).is_some_and(|element| element.eq_bytes(text)));
    }
    assert_eq!(packed.get(model.len()), None);
}

#[derive(Clone, Debug)]
enum Op {
    PushBack(Vec<u8>),
    PushFront(Vec<u8>),
    Insert(usize, Vec<u8>),
    InsertPair(usize, Vec<u8>, Vec<u8>),
    Replace(usize, Vec<u8>),
    Remove(usize),
    RemoveRange(usize, usize),
    Find(Vec<u8>, usize),
    ShrinkToFit,
    Clone,
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[a-c]{0,6}".prop_map(String::into_bytes),
        2 => "-?[0-9]{1,20}".prop_map(String::into_bytes),
        2 => (any::<i64>(), 0u32..64).prop_map(|(int, shift)| (int >> shift).to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 55..75),
        1 => (4000usize..4200).prop_map(|len| vec![b'x'; len]),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let index = || 0usize..64;
    prop_oneof![
        4 => text().prop_map(Op::PushBack),
        3 => text().prop_map(Op::PushFront),
        2 => (index(), text()).prop_map(|(at, text)| Op::Insert(at, text)),
        2 => (index(), text(), text()).prop_map(|(at, one, two)| Op::InsertPair(at, one, two)),
        2 => (index(), text()).prop_map(|(at, text)| Op::Replace(at, text)),
        2 => index().prop_map(Op::Remove),
        1 => (index(), 0usize..8).prop_map(|(at, count)| Op::RemoveRange(at, count)),
        2 => (text(), 1usize..3).prop_map(|(text, step)| Op::Find(text, step)),
        1 => Just(Op::ShrinkToFit),
        1 => Just(Op::Clone),
    ]
}

fn apply(packed: &mut Packed, model: &mut Vec<Vec<u8>>, op: Op) {
    let within = |at: usize, len: usize| at % (len + 1);
    match op {
        Op::PushBack(text) => {
            packed.push_back(&text);
            model.push(text);
        }
        Op::PushFront(text) => {
            packed.push_front(&text);
            model.insert(0, text);
        }
        Op::Insert(at, text) => {
            let at = within(at, model.len());
            packed.insert(at, &text);
            model.insert(at, text);
        }
        Op::InsertPair(at, one, two) => {
            let at = within(at, model.len());
            let pos = packed.seek(at).unwrap_or(packed.end());
            packed.insert_pair_at(pos, &one, &two);
            model.splice(at..at, [one, two]);
        }
        Op::Replace(at, text) if at < model.len() => {
            packed.replace(at, &text);
            model[at] = text;
        }
        Op::Remove(at) if at < model.len() => {
            packed.remove(at);
            model.remove(at);
        }
        Op::RemoveRange(at, count) => {
            let at = within(at, model.len());
            packed.remove_range(at, count);
            model.drain(at..model.len().min(at + count));
        }
        Op::Find(text, step) => {
            let expected = (0..model.len()).step_by(step).find(|&index| model[index] == text);
            assert_eq!(packed.find(&text, step), expected);
            let pos = packed.find_pos(&text, step);
            assert_eq!(pos, expected.and_then(|index| packed.seek(index)));
            if let Some(pos) = pos {
                assert!(packed.at(pos).eq_bytes(&text));
                let rest = expected.map_or(0, |index| model.len() - index);
                assert_eq!(packed.iter_from(pos).count(), rest);
                assert_eq!(packed.next(pos).is_some(), rest > 1);
            }
        }
        Op::ShrinkToFit => {
            packed.shrink_to_fit();
            assert_eq!(packed.heap_bytes(), class_bytes(class_of(packed.bytes_used())));
        }
        Op::Clone => {
            let copy = packed.clone();
            assert_eq!(copy, *packed);
            *packed = copy;
        }
        Op::Replace(..) | Op::Remove(..) => {}
    }
}

proptest! {
    #[test]
    fn behaves_as_a_vector(ops in prop::collection::vec(op(), 0..if cfg!(miri) { 20 } else { 120 })) {
        let (mut packed, mut model) = (Packed::new(), Vec::new());
        for op in ops {
            apply(&mut packed, &mut model, op);
            check(&packed, &model);
        }
    }
}

#[test]
fn is_one_pointer() {
    assert_eq!(size_of::<Packed>(), 8);
    assert_eq!(size_of::<Option<Packed>>(), 8);
}

#[test]
fn empty_takes_the_smallest_block() {
    assert_eq!(Packed::new().heap_bytes(), 8);
}

#[test]
fn ten_small_fields_take_one_byte_each_beside_their_text() {
    let mut hash = Packed::new();
    for field in 0..10 {
        hash.push_back(format!("field{field}").as_bytes());
        hash.push_back(format!("value{field}").as_bytes());
    }
    assert_eq!(hash.bytes_used(), 6 + 20 * 7);
    assert_eq!(hash.heap_bytes(), 160);
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn room_ends_at_the_limits() {
    let mut packed = Packed::new();
    assert!(packed.has_room(1, Packed::MAX_BYTES - 5));
    assert!(!packed.has_room(1, Packed::MAX_BYTES));
    assert!(!packed.has_room(1, usize::MAX));
    packed.extend((0..Packed::MAX_LEN).map(|_| Element::Int(1)));
    assert_eq!(packed.len(), Packed::MAX_LEN);
    assert!(!packed.has_room(1, 1));
    packed.clear();
    assert!(packed.is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
#[should_panic(expected = "65536 elements")]
fn pushing_past_the_count_limit_panics() {
    let mut packed = Packed::new();
    packed.extend((0..=Packed::MAX_LEN).map(|_| Element::Int(1)));
}

#[test]
fn pushing_and_popping_at_a_class_edge_keeps_the_block() {
    let mut packed = Packed::new();
    packed.extend((0..58).map(|_| Element::Int(1)));
    assert_eq!(packed.heap_bytes(), 64);
    packed.push_back(Element::Int(1));
    let block = packed.block;
    for _ in 0..10 {
        packed.remove(0);
        packed.push_back(Element::Int(1));
        assert_eq!(packed.block, block);
    }
}
