//! No single insertion or removal pays for growth or shrinking: the allocations of each are counted, up to a
//! million entries.
//!
//! Every structure is made of blocks, and moves entries within its blocks and into fresh ones: so the
//! allocations of a step bound its moves, too. Nothing here looks at a clock.

use martlet_base::random::Random;
use martlet_keyspace::{Db, ExpiryChange, Key};
use martlet_types::hash::{FieldExpiry, Hash, HashLimits};
use martlet_types::list::{End, List, ListLimit};
use martlet_types::set::{Set, SetLimits};
use martlet_types::zset::{ZSet, ZSetLimits};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// A thread's requests to the allocator.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
struct Work {
    /// Bytes that it got, all of them again where a block was moved.
    bytes: usize,
    /// Blocks that it got or gave back.
    blocks: usize,
}

thread_local! {
    static WORK: Cell<Work> = const { Cell::new(Work { bytes: 0, blocks: 0 }) };
}

fn note(bytes: usize) {
    // A thread that ends counts no more.
    let _ = WORK.try_with(|work| {
        let Work { bytes: before, blocks } = work.get();
        work.set(Work { bytes: before + bytes, blocks: blocks + 1 });
    });
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: the system's allocator does it all; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promises are those that it wants.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(new_size);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(0);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

/// The work of one call.
fn work_of(step: impl FnOnce()) -> Work {
    let before = WORK.get();
    step();
    let after = WORK.get();
    Work { bytes: after.bytes - before.bytes, blocks: after.blocks - before.blocks }
}

/// Takes a step for each number below `count`, and fails when one needs more than `most` allows with that
/// many entries.
fn each_within(what: &str, count: usize, most: impl Fn(usize) -> Work, mut step: impl FnMut(usize, &[u8])) {
    let mut name = Vec::new();
    let mut worst = Work::default();
    for number in 0..count {
        name.clear();
        std::io::Write::write_fmt(&mut name, format_args!("name:{number:012}")).unwrap();
        let work = work_of(|| step(number, &name));
        let most = most(number);
        assert!(
            work.bytes <= most.bytes && work.blocks <= most.blocks,
            "{what} {number}: {work:?}, not {most:?}"
        );
        worst = Work { bytes: worst.bytes.max(work.bytes), blocks: worst.blocks.max(work.blocks) };
    }
    println!("{what}: at most {worst:?}");
}

/// This many KB and blocks, whatever the number of entries.
fn within(kilobytes: usize, blocks: usize) -> impl Fn(usize) -> Work {
    move |_| Work { bytes: kilobytes << 10, blocks }
}

const ENTRIES: usize = 1_000_000;
const VALUE: [u8; 64] = [b'v'; 64];

/// Sets and deletes keys; `most` is the limit of either with a number of keys.
fn keys(expiry: ExpiryChange, most: impl Fn(usize) -> Work) {
    let mut db = Db::default();
    each_within("SET", ENTRIES, &most, |_, name| {
        db.set_str(&Key::new(name), &VALUE, expiry, 0);
    });
    // The directory is halved when the last segment of its depth goes: how late that is depends on the
    // hashes' seed.
    let left = |gone: usize| most(4 * (ENTRIES - gone));
    each_within("DEL", ENTRIES, left, |_, name| {
        db.delete(&Key::new(name), usize::MAX);
    });
    assert!(db.is_empty());
}

/// Two segments, their entries, and one level of the directory, which is bounded.
#[test]
fn a_key() {
    keys(ExpiryChange::Clear, |keys| Work { bytes: (8 << 10) + keys.min(64 << 10), blocks: 16 });
}

/// The same, and a byte for each key in the index of expiries.
#[test]
fn a_key_that_expires() {
    keys(ExpiryChange::At(1_000_000), |keys| Work { bytes: (8 << 10) + keys, blocks: 16 });
}

#[test]
fn a_member_of_a_set() {
    let mut set = Set::new();
    each_within("SADD", ENTRIES, within(32, 64), |_, name| {
        set.add(name.into(), SetLimits::default(), 0);
    });
    each_within("SREM", ENTRIES, within(4, 16), |_, name| {
        set.remove(name.into(), 0);
    });
    assert!(set.is_empty());
}

#[test]
fn a_field_of_a_hash() {
    let mut hash = Hash::new();
    // All that was one block goes into a table at once, when the limit of that is reached.
    let limits = HashLimits::default();
    let most = |fields| match fields > limits.listpack_max_entries {
        true => within(32, 16)(fields),
        false => within(512, 256)(fields),
    };
    each_within("HSET", ENTRIES, most, |_, name| {
        hash.set(name, (&VALUE[..]).into(), FieldExpiry::Keep, limits, 0);
    });
    each_within("HDEL", ENTRIES, within(16, 16), |_, name| {
        hash.remove(name, 0);
    });
    assert!(hash.is_empty());
}

#[test]
fn a_member_of_a_sorted_set() {
    for is_ordered in [true, false] {
        let (mut zset, mut random) = (ZSet::new(), Random::seeded(1));
        each_within("ZADD", ENTRIES / 4, within(64, 128), |number, name| {
            let score = if is_ordered { number as u64 } else { random.below(ENTRIES as u64) };
            zset.insert(name, score as f64, ZSetLimits::default());
        });
        each_within("ZREM", ENTRIES / 4, within(16, 128), |_, name| {
            zset.remove(name);
        });
        assert!(zset.is_empty());
    }
}

#[test]
fn an_element_of_a_list() {
    for end in [End::Head, End::Tail] {
        let mut list = List::new();
        each_within("PUSH", ENTRIES / 4, within(16, 16), |_, name| {
            list.before_growth(ListLimit::default(), 1, name.len());
            list.push(end, name);
        });
        // The first from a sealed chunk makes a page of it.
        each_within("POP", ENTRIES / 4, within(8, 64), |_, _| {
            list.pop_with(end, |_| ());
            list.after_shrink(ListLimit::default());
        });
        assert!(list.is_empty());
    }
}
