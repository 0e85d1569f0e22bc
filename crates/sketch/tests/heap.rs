//! `heap_bytes` beside the count of the accounting allocator.

use martlet_base::alloc::{Accounting, thread_bytes};
use martlet_sketch::{Bloom, CountMin, Cuckoo, Debris, TDigest, TopK, bloom, cuckoo, topk};

#[global_allocator]
static ALLOCATOR: Accounting = Accounting;

/// Runs a history and compares the growth of both sums.
fn assert_exact<T>(name: &str, make: impl FnOnce() -> T, heap_bytes: fn(&T) -> usize) -> T {
    let before = thread_bytes();
    let value = make();
    let used = (thread_bytes() - before) as usize;
    assert_eq!(heap_bytes(&value), used, "{name}");
    value
}

/// The counter is the thread's: the harness allocates, too.
#[test]
fn heap_bytes_is_what_was_allocated() {
    for capacity in [1_u64, 60, 8000, 100_000] {
        let options = bloom::Options { capacity, ..Default::default() };
        let fill = || {
            let mut bloom = Bloom::new(options).unwrap();
            (0..capacity * 3).for_each(|at| assert!(bloom.add(&at.to_le_bytes()).is_ok()));
            bloom
        };
        drop(assert_exact("bloom", fill, Bloom::heap_bytes));
        let options = cuckoo::Options { capacity: capacity.max(4) as i64, ..Default::default() };
        let fill = || {
            let mut cuckoo = Cuckoo::new(options).unwrap();
            (0..capacity.min(9000) * 3).for_each(|at| assert!(cuckoo.add(&at.to_le_bytes()).is_ok()));
            cuckoo
        };
        drop(assert_exact("cuckoo", fill, Cuckoo::heap_bytes));
        let fill = || {
            let mut cms = CountMin::by_dimensions(capacity as i64, 3).unwrap();
            (0..500_u32).for_each(|at| assert!(cms.incr_by(&at.to_le_bytes(), 1).is_ok()));
            cms
        };
        drop(assert_exact("cms", fill, CountMin::heap_bytes));
        let options = topk::Options { k: capacity.min(5000) as i64, width: 900, depth: 3, decay: 0.9 };
        let fill = || {
            let mut topk = TopK::new(options).unwrap();
            for at in 0..6000_u32 {
                topk.add(format!("item {}", at % 1500).as_bytes(), 1 + at % 3);
            }
            topk
        };
        drop(assert_exact("topk", fill, TopK::heap_bytes));
        let fill = || {
            let mut digest = TDigest::new(1 + capacity as i64 % 300).unwrap();
            (0..3000_u32).for_each(|at| digest.add_all(&[f64::from(at * 7919 % 3001)]).unwrap());
            digest
        };
        drop(assert_exact("tdigest", fill, TDigest::heap_bytes));
    }
    freeing_in_slices_frees_everything();
}

fn freeing_in_slices_frees_everything() {
    let before = thread_bytes();
    let options = bloom::Options { capacity: 1_000_000, ..Default::default() };
    let mut bloom = Bloom::new(options).unwrap();
    (0..20_000_u32).for_each(|at| assert!(bloom.add(&at.to_le_bytes()).is_ok()));
    let full = thread_bytes();
    let mut debris = Debris::default();
    bloom.into_debris(&mut debris);
    assert!(!debris.free_slice(20));
    let freed = full - thread_bytes();
    assert!((10 * 8192..21 * 8192).contains(&freed), "{freed} bytes in a slice");
    while !debris.free_slice(20) {}
    drop(debris);
    assert_eq!(thread_bytes(), before);
}
