//! `heap_bytes` beside what an allocator that counts has given out, in the allocator's size classes.

use martlet_json::document::Document;
use martlet_json::ops;
use martlet_json::path::Path;
use martlet_json::text::parse;
use martlet_types::size_class::allocated_bytes;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static GIVEN: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: isize) {
    // A thread that ends frees its last blocks after its counter.
    let _ = GIVEN.try_with(|given| given.set(given.get() + bytes));
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(allocated_bytes(layout.size()) as isize);
        // SAFETY: by the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(allocated_bytes(layout.size()) as isize));
        // SAFETY: by the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes given out since `f` began that it has not given back, and its result.
fn given<R>(f: impl FnOnce() -> R) -> (R, isize) {
    let before = GIVEN.with(Cell::get);
    let result = f();
    (result, GIVEN.with(Cell::get) - before)
}

#[track_caller]
fn assert_near(document: &Document, given: isize) {
    let counted = document.heap_bytes() as f64;
    assert!((counted - given as f64).abs() <= 0.05 * given as f64, "counted {counted}, given {given}");
}

fn samples() -> Vec<String> {
    let member = |n: usize| format!("\"member {n}\":{{\"id\":{n},\"name\":\"name of {n}\",\"x\":{n}.1}}");
    let object = |count: usize| format!("{{{}}}", (0..count).map(member).collect::<Vec<_>>().join(","));
    let numbers = (0..1000).map(|n| (n * 7).to_string()).collect::<Vec<_>>().join(",");
    vec![
        object(3),
        object(32),
        object(33),
        object(1000),
        format!("[{numbers}]"),
        format!("[{numbers},\"x\"]"),
        format!("[{}]", vec![object(2); 100].join(",")),
    ]
}

#[test]
fn heap_bytes_are_what_the_allocator_has_given() {
    KEEP_HASHER.with(|_| ());
    for text in samples() {
        let parsed = parse(text.as_bytes(), None).unwrap();
        drop(parsed);
        let (document, bytes) = given(|| Document::new(parse(text.as_bytes(), None).unwrap()).unwrap());
        assert_near(&document, bytes);
    }
}

#[test]
fn writes_count_what_they_take_and_free() {
    for text in samples() {
        let append = parse(b"[\"a text that is appended\",1.1,{\"a\":\"another text\"}]", None).unwrap();
        let ((document, _), bytes) = given(|| {
            let mut document = Document::new(parse(text.as_bytes(), None).unwrap()).unwrap();
            let path = |text: &str| Path::parse(text.as_bytes()).unwrap();
            for _ in 0..200 {
                // Own copies, as a shared one is counted for each reference.
                let value =
                    parse(b"[\"a text that is appended\",1.1,{\"a\":\"another text\"}]", None).unwrap();
                ops::arr_append(&mut document, &path("$"), &[value]).unwrap();
            }
            for n in 0..100 {
                let value = parse(b"{\"a\":\"a text that is set\"}", None).unwrap();
                ops::set(&mut document, &path(&format!("$[\"new {n}\"]")), value, Default::default())
                    .unwrap();
            }
            ops::delete(&mut document, &path("$[5:90:2]")).unwrap();
            ops::delete(&mut document, &path("$[\"member 1\",\"new 3\",\"member 7\"]")).unwrap();
            ops::arr_trim(&mut document, &path("$"), 3, -4).unwrap();
            (document, ())
        });
        drop(append);
        assert_near(&document, bytes);
    }
}

thread_local! {
    /// The hasher's seed is drawn once per process, before anything is counted.
    static KEEP_HASHER: () = drop(parse(samples()[3].as_bytes(), None));
}
