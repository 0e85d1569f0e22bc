//! `List` against a double-ended queue of byte strings.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

type Model = VecDeque<Vec<u8>>;

fn check(list: &List, model: &Model) {
    assert_eq!(list.len(), model.len());
    if let Form::Chunked(chunked) = list.form.get() {
        chunked.check();
    }
    assert!(list.iter().map(|element| element.to_vec()).eq(model.iter().cloned()));
}

/// All that reads: each index, both directions from everywhere, ends.
fn check_reads(list: &List, model: &Model) {
    let (mut in_runs, mut entries) = (Vec::new(), Vec::new());
    list.runs(|run| {
        let before = in_runs.len();
        run.write_listpack(&mut in_runs);
        assert_eq!(in_runs.len() - before, run.listpack_bytes());
        assert!(run.len() > 0 || list.is_empty());
    });
    model.iter().for_each(|text| crate::packed::listpack::put_entry(&mut entries, Element::parse(text)));
    assert_eq!(in_runs, entries);
    check(list, model);
    for (index, text) in model.iter().enumerate() {
        assert!(list.get(index).is_some_and(|element| element.eq_bytes(text)));
    }
    assert_eq!(list.get(model.len()), None);
    assert_eq!(list.peek(End::Head).map(|element| element.to_vec()), model.front().cloned());
    assert_eq!(list.peek(End::Tail).map(|element| element.to_vec()), model.back().cloned());
    for start in [0, 1, model.len() / 2, model.len().saturating_sub(1), model.len(), model.len() + 3] {
        let onwards = list.iter_from(start);
        assert_eq!(onwards.len(), model.len().saturating_sub(start));
        assert!(onwards.map(|element| element.to_vec()).eq(model.iter().skip(start).cloned()));
        let count = (start + 1).min(model.len());
        let back = list.iter_back_from(start);
        assert_eq!(back.len(), count);
        assert!(back.map(|element| element.to_vec()).eq(model.iter().take(count).rev().cloned()));
    }
}

#[derive(Clone, Debug)]
enum Op {
    Push(End, Vec<u8>),
    PushMany(End, Vec<u8>, usize),
    Pop(End),
    PopMany(End, usize),
    Insert(usize, Vec<u8>),
    Set(usize, Vec<u8>),
    RemoveMatches(Vec<u8>, usize, End),
    Find(Vec<u8>, usize, usize),
    Cut(End, usize),
    Trim(usize, usize),
    Pin,
    Unpin,
    AfterShrink,
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![Just(End::Head), Just(End::Tail)]
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => "[a-c]{0,2}".prop_map(String::into_bytes),
        3 => any::<i64>().prop_map(|int| int.to_string().into_bytes()),
        3 => (50usize..80).prop_map(|len| vec![b'm'; len]),
        1 => (1000usize..4200).prop_map(|len| vec![b'l'; len]),
        1 => prop::sample::select(vec![4093, 4094, 4095, 8000, 9000]).prop_map(|len| vec![b'h'; len]),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let index = || any::<u16>().prop_map(usize::from);
    prop_oneof![
        6 => (end(), text()).prop_map(|(end, text)| Op::Push(end, text)),
        3 => (end(), text(), 1usize..300).prop_map(|(end, text, count)| Op::PushMany(end, text, count)),
        4 => end().prop_map(Op::Pop),
        1 => (end(), 1usize..200).prop_map(|(end, count)| Op::PopMany(end, count)),
        8 => (index(), text()).prop_map(|(at, text)| Op::Insert(at, text)),
        5 => (index(), text()).prop_map(|(at, text)| Op::Set(at, text)),
        2 => (text(), prop_oneof![1usize..4, Just(usize::MAX)], end())
            .prop_map(|(text, most, end)| Op::RemoveMatches(text, most, end)),
        3 => (text(), index(), index()).prop_map(|(text, from, to)| Op::Find(text, from, to)),
        1 => (end(), 0usize..400).prop_map(|(end, count)| Op::Cut(end, count)),
        1 => (0usize..300, 200usize..3000).prop_map(|(start, count)| Op::Trim(start, count)),
        2 => Just(Op::Pin),
        1 => Just(Op::Unpin),
        1 => Just(Op::AfterShrink),
    ]
}

/// Removes matches as the list should.
fn remove_matches(model: &mut Model, needle: &[u8], most: usize, from: End) -> usize {
    let mut places: Vec<usize> = (0..model.len()).filter(|&index| model[index] == needle).collect();
    if from == End::Tail {
        places.reverse();
    }
    places.truncate(most);
    let removed: std::collections::HashSet<usize> = places.into_iter().collect();
    let mut index = 0;
    model.retain(|_| {
        index += 1;
        !removed.contains(&(index - 1))
    });
    removed.len()
}

struct Pair {
    list: List,
    model: Model,
    pins: Vec<(List, Model)>,
}

impl Pair {
    fn push(&mut self, end: End, text: &[u8]) {
        self.list.push(end, text);
        match end {
            End::Head => self.model.push_front(text.to_vec()),
            End::Tail => self.model.push_back(text.to_vec()),
        }
    }

    fn pop(&mut self, end: End) {
        let expected = match end {
            End::Head => self.model.pop_front(),
            End::Tail => self.model.pop_back(),
        };
        assert_eq!(self.list.pop(end), expected);
    }

    fn apply(&mut self, op: Op) {
        let len = self.model.len();
        match op {
            Op::Push(end, text) => self.push(end, &text),
            Op::PushMany(end, text, count) => (0..count).for_each(|_| self.push(end, &text)),
            Op::Pop(end) => self.pop(end),
            Op::PopMany(end, count) => (0..count).for_each(|_| self.pop(end)),
            Op::Insert(at, text) => {
                self.list.insert(at % (len + 1), &text);
                self.model.insert(at % (len + 1), text);
            }
            Op::Set(at, text) if len > 0 => {
                self.list.set(at % len, &text);
                self.model[at % len] = text;
            }
            Op::Set(..) => {}
            Op::RemoveMatches(text, most, from) => {
                let removed = self.list.remove_matches(&text, most, from);
                assert_eq!(removed, remove_matches(&mut self.model, &text, most, from));
            }
            Op::Find(text, from, to) => {
                let (from, to) = (from % (len + 1), to % (len + 2));
                let mut places = (from..to.min(len)).filter(|&index| self.model[index] == text);
                assert_eq!(self.list.find(&text, from..to), places.next());
                let last = (from..to.min(len)).rfind(|&index| self.model[index] == text);
                assert_eq!(self.list.rfind(&text, from..to), last);
            }
            Op::Cut(end, count) => {
                drop(self.list.cut(end, count));
                let count = count.min(len);
                match end {
                    End::Head => drop(self.model.drain(..count)),
                    End::Tail => self.model.truncate(len - count),
                }
            }
            Op::Trim(start, count) => {
                drop(self.list.trim(start, count));
                self.model = self.model.iter().skip(start).take(count).cloned().collect();
            }
            Op::Pin => self.pins.push((self.list.clone(), self.model.clone())),
            Op::Unpin => drop(self.pins.pop()),
            Op::AfterShrink => {
                let before = self.list.encoding();
                self.list.after_shrink(ListLimit::default());
                assert!(before == "quicklist" || self.list.encoding() == "listpack");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 96 }))]

    #[test]
    fn behaves_as_a_queue(ops in prop::collection::vec(op(), 0..if cfg!(miri) { 20 } else { 150 })) {
        let mut pair = Pair { list: List::new(), model: Model::new(), pins: Vec::new() };
        for op in ops {
            pair.apply(op);
            check(&pair.list, &pair.model);
        }
        check_reads(&pair.list, &pair.model);
        for (list, model) in &pair.pins {
            check_reads(list, model);
        }
    }

    #[test]
    fn what_is_built_is_what_pushes_make(
        runs in prop::collection::vec((text(), 1usize..200), 0..12),
        ops in prop::collection::vec(op(), 0..if cfg!(miri) { 5 } else { 20 }),
    ) {
        let texts = || runs.iter().flat_map(|(text, count)| std::iter::repeat_n(text, *count));
        let (mut built, mut pushed) = (texts().collect::<List>(), List::new());
        texts().for_each(|text| pushed.push(End::Tail, text));
        check_reads(&built, &texts().cloned().collect());
        prop_assert_eq!(matches!(built.form.get(), Form::Packed(_)), matches!(pushed.form.get(), Form::Packed(_)));
        // But for a step of the allocator's at either end.
        let most = pushed.heap_bytes() / 64 * 65 + 64;
        prop_assert!(built.heap_bytes() <= most, "{} > {}", built.heap_bytes(), pushed.heap_bytes());
        built.after_building(ListLimit::default());
        pushed.after_building(ListLimit::default());
        prop_assert_eq!(built.encoding(), pushed.encoding());
        let mut pair = Pair { list: built, model: texts().cloned().collect(), pins: Vec::new() };
        for op in ops {
            pair.apply(op);
            check(&pair.list, &pair.model);
        }
    }

    #[test]
    fn encoding_changes_where_redis_changes_it(
        limit in -5i32..20,
        texts in prop::collection::vec(text(), 0..60),
    ) {
        // The rule of `listTypeTryConvertListpack`, with a listpack's size counted by its definition.
        let limit = ListLimit::from_directive(limit);
        let (mut list, mut sizes, mut quick) = (List::new(), Vec::new(), false);
        for text in &texts {
            let listpack = 7 + sizes.iter().sum::<usize>() + text.len();
            quick |= match limit {
                ListLimit::Bytes(most) => listpack > most as usize,
                ListLimit::Count(most) => listpack > 8192 || sizes.len() + 1 > most as usize,
            };
            list.before_growth(limit, 1, text.len());
            list.push(End::Tail, text);
            prop_assert_eq!(list.encoding(), if quick { "quicklist" } else { "listpack" });
            let body = match Element::parse(text) {
                Element::Int(0..=127) => 1,
                Element::Int(-4096..=4095) => 2,
                Element::Int(int) => [2usize, 3, 4].into_iter().find(|&width| {
                    let shift = 64 - 8 * width as u32;
                    (int << shift) >> shift == int
                }).unwrap_or(8) + 1,
                Element::Bytes(bytes) => bytes.len() + match bytes.len() { 0..64 => 1, 64..4096 => 2, _ => 5 },
            };
            sizes.push(body + if body <= 127 { 1 } else { 2 });
        }
        let half = match limit {
            ListLimit::Bytes(most) => 7 + sizes.iter().sum::<usize>() <= most as usize / 2,
            ListLimit::Count(most) => sizes.len() <= most as usize / 2,
        };
        list.after_shrink(limit);
        prop_assert_eq!(list.encoding() == "listpack", !quick || half);
    }
}

fn numbers(count: usize) -> List {
    (0..count as i64).collect()
}

#[test]
fn is_two_words() {
    assert_eq!(size_of::<List>(), 8);
}

#[test]
fn long_lists_keep_every_index() {
    let count = if cfg!(miri) { 1500 } else { 300_000 };
    let mut list = numbers(count);
    (0..count as i64).for_each(|int| list.push(End::Head, -1 - int));
    let Form::Chunked(chunked) = list.form.get() else { panic!("{count} numbers in one block") };
    chunked.check();
    for index in (0..2 * count).step_by(97) {
        assert_eq!(list.get(index), Some(Element::Int(index as i64 - count as i64)));
    }
    for expected in (0..2 * count as i64).rev() {
        let popped = list.pop_with(End::Tail, |element| element.as_int());
        assert_eq!(popped, Some(Some(expected - count as i64)));
    }
    assert!(list.is_empty() && list.pop(End::Head).is_none());
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn a_write_after_a_pin_copies_a_path_only() {
    let mut list = numbers(100_000);
    let pin = list.clone();
    list.set(50_000, b"other");
    let shared = |index| {
        let (Form::Chunked(one), Form::Chunked(two)) = (list.form.get(), pin.form.get()) else {
            panic!("not chunked")
        };
        std::ptr::eq(one.locate(index).0.page_address(), two.locate(index).0.page_address())
    };
    assert!(!shared(50_000));
    assert_eq!((0..100_000).step_by(256).filter(|&index| !shared(index)).count(), 1);
    assert_eq!(pin.get(50_000), Some(Element::Int(50_000)));
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn inserting_at_one_place_fills_its_chunks() {
    let mut list = numbers(1000);
    for _ in 0..20_000 {
        list.insert(500, b"12345678x");
    }
    // Twelve bytes each where chunks are full.
    assert!(list.heap_bytes() < 21_000 * 12 * 5 / 2, "{} bytes", list.heap_bytes());
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn removing_most_elements_gives_memory_back() {
    let mut list: List = (0..100_000).map(|int| if int % 100 == 0 { int } else { -1 }).collect();
    let before = list.heap_bytes();
    assert_eq!(list.remove_matches(b"-1", usize::MAX, End::Head), 99_000);
    assert_eq!(list.len(), 1000);
    assert!(list.heap_bytes() < before / 20, "{} of {before} bytes", list.heap_bytes());
}

#[test]
fn small_lists_are_one_block_again() {
    let mut list = numbers(1000);
    while list.len() > 32 {
        list.pop(End::Tail);
        list.after_shrink(ListLimit::default());
    }
    assert!(matches!(list.form.get(), Form::Packed(_)));
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn debris_is_freed_in_slices() {
    let mut list = numbers(100_000);
    let pin = list.clone();
    let mut debris = list.trim(99_990, 5).expect("hundreds of chunks");
    assert_eq!(list.iter().map(|element| element.as_int()).sum::<Option<i64>>(), Some(5 * 99_992));
    while !debris.free_slice(10) {}
    assert!(pin.iter().enumerate().all(|(index, element)| element == Element::Int(index as i64)));
    let mut debris = pin.into_debris().expect("hundreds of chunks");
    assert!(!debris.free_slice(10));
    while !debris.free_slice(10) {}
    assert!(numbers(100).into_debris().is_none());
}

#[test]
fn directive_values() {
    let limits: Vec<ListLimit> = [-9, -5, -4, -2, -1, 0, 1, 128].map(ListLimit::from_directive).into();
    let bytes = ListLimit::Bytes;
    let count = ListLimit::Count;
    let expected =
        [bytes(65536), bytes(65536), bytes(32768), bytes(8192), bytes(4096), count(1), count(1), count(128)];
    assert_eq!(limits, expected);
}

#[test]
fn chunks_between_the_ends_are_sealed_until_they_change() {
    let text = |index: usize| format!("element {index:08}").into_bytes();
    for builds in [false, true] {
        let mut model: Model = (0..10_000).map(text).collect();
        let mut list = List::new();
        if builds {
            let mut builder = ListBuilder::new();
            model.iter().for_each(|text| builder.push(text.as_slice()));
            list = builder.finish();
        } else {
            model.iter().for_each(|text| list.push(End::Tail, Element::parse(text)));
        }
        let bytes = list.heap_bytes() as f64 / 10_000.0;
        assert!(bytes < 18.5, "{bytes} for each element of 16 bytes, builds {builds}");
        check_reads(&list, &model);
        let copy = list.clone();
        for index in [300, 1_000, 5_001, 9_000] {
            list.set(index, Element::parse(b"a longer element in its place"));
            model[index] = b"a longer element in its place".to_vec();
        }
        check(&list, &model);
        check(&copy, &(0..10_000).map(text).collect());
        drop(copy);
        while list.len() > 100 {
            let first = list.peek(End::Head).map(|element| element.to_vec());
            assert_eq!(first, model.pop_front());
            list.pop(End::Head);
        }
        check(&list, &model);
    }
}
