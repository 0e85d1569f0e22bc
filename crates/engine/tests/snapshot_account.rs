//! What a snapshot alone keeps is what its account says. In a program of its own: where tests run beside each
//! other, threads share the counters of allocated bytes.

use martlet_base::alloc::{Accounting, thread_bytes};
use martlet_base::random::Random;
use martlet_engine::{Engine, Keys, SavedKeys, Walk};
use martlet_keyspace::{ExpiryChange, Key};
use martlet_types::element::Element;
use martlet_types::set::{Set, SetLimits};

#[global_allocator]
static ALLOCATOR: Accounting = Accounting;

fn engine(threads: usize) -> &'static Engine {
    Box::leak(Box::new(Engine::new(threads).unwrap()))
}

/// The members of the sets in [`what_only_the_snapshot_keeps_is_counted`].
const MEMBERS: i64 = 20_000;

fn add_members(keys: &mut Keys, name: &[u8], members: std::ops::Range<i64>) {
    let mut set = keys.create::<Set>(&Key::new(name)).unwrap();
    members.for_each(|member| _ = set.add(Element::Int(member * 1_000_003), SetLimits::default(), 0));
}

/// What is counted is what the snapshot gives back when it ends, for each way to change a key that a writer
/// saved and that the walk has taken.
#[test]
fn what_only_the_snapshot_keeps_is_counted() {
    type Work = fn(&mut Keys, &[u8]);
    let ways: [(&str, Work, Work, std::ops::Range<u64>); 7] = [
        (
            "deleted",
            |k, n| add_members(k, n, 0..MEMBERS),
            |k, n| assert!(k.delete(&Key::new(n))),
            250_000..600_000,
        ),
        (
            "replaced",
            |k, n| add_members(k, n, 0..MEMBERS),
            |k, n| k.set_str(&Key::new(n), &[b'x'; 700_000], ExpiryChange::Clear),
            250_000..600_000,
        ),
        (
            "one member more",
            |k, n| add_members(k, n, 0..MEMBERS),
            |k, n| add_members(k, n, MEMBERS..MEMBERS + 1),
            100..50_000,
        ),
        (
            "twice as many",
            |k, n| add_members(k, n, 0..MEMBERS),
            |k, n| add_members(k, n, MEMBERS..2 * MEMBERS),
            250_000..600_000,
        ),
        (
            "a string that is copied",
            |k, n| k.set_str(&Key::new(n), &[b'x'; 900], ExpiryChange::Clear),
            |k, n| k.set_int(&Key::new(n), 1, ExpiryChange::Clear),
            0..4000,
        ),
        (
            "a shared string",
            |k, n| k.set_str(&Key::new(n), &[b'x'; 50_000], ExpiryChange::Clear),
            |k, n| k.update_str(&Key::new(n), 0..0, |text| text.extend(b"appended")),
            50_000..52_000,
        ),
        (
            "a pinned string",
            |k, n| k.set_str(&Key::new(n), &[b'x'; 200_000], ExpiryChange::Clear),
            |k, n| _ = k.change_bytes(&Key::new(n), 20_000..20_001, |text| text[20_000] = b'y'),
            16_384..20_000,
        ),
    ];
    for (what, make, change, expected) in ways {
        for is_taken in [false, true] {
            let engine = engine(2);
            let mut keys = Keys::new(engine, 0, Random::seeded(1));
            let name = b"key";
            keys.alone(|keys| make(keys, name));
            keys.alone(|keys| keys.cut_snapshot());
            let (mut walk, mut out) = (Walk::new(engine, 1), SavedKeys::default());
            while is_taken && out.is_empty() {
                walk.take(&mut out);
            }
            let before = engine.snapshot.held_bytes();
            keys.lock_shard(Key::new(name).shard());
            change(&mut keys, name);
            keys.release();
            engine.lazy_free.wait();
            let (held, used) = (engine.snapshot.held_bytes(), thread_bytes());
            let counted = held - before;
            assert!(expected.contains(&counted), "{what}, {is_taken}: {counted}");
            let mut rest = SavedKeys::default();
            walk.end(&mut rest);
            drop((out, rest));
            let freed = (used - thread_bytes()) as u64;
            assert!(
                held.abs_diff(freed) < 3000 + held / 10,
                "{what}, {is_taken}: {held} counted, {freed} freed"
            );
            assert_eq!(engine.snapshot.held_bytes(), 0);
        }
    }
}
