//! Cursors by a clock that the test moves.

use martlet_engine::Engine;
use martlet_search::aggregate::request::Aggregate;
use martlet_search::aggregating::Means;
use martlet_search::request::Limits;
use martlet_search::searching::Context;

use super::*;

/// Cursors of an index, at most.
const CURSORS: usize = 20;
const TERMS: Terms = Terms { count: 2, idle_ms: 100 };

fn catalogue() -> &'static Catalogue {
    let engine: &'static Engine = Box::leak(Box::new(Engine::new(1).unwrap()));
    let catalogue: &'static Catalogue = Box::leak(Box::new(Catalogue::new(engine, 1)));
    for name in ["i", "j"] {
        let words = ["FT.CREATE", name, "SCHEMA", "n", "NUMERIC"].map(str::as_bytes);
        catalogue.change(&words, 1 << 30).unwrap();
    }
    catalogue
}

fn aggregation(index: &Arc<KeyIndex>) -> Aggregation {
    let request = Aggregate::parse(&[b"*"], &Limits::default()).unwrap();
    let means = Means { results_max: 10, memory_max_bytes: 1 << 20, seed: 1 };
    Aggregation::new(
        Arc::clone(index),
        request,
        Context::default(),
        means,
        martlet_search::aggregate::pipeline::Role::Whole,
    )
    .unwrap()
}

fn leave(cursors: &Arc<Cursors>, index: &Arc<KeyIndex>, now_ms: i64) -> u64 {
    cursors.open(index, CURSORS, TERMS).unwrap().leave(aggregation(index), now_ms).unwrap()
}

#[test]
fn a_cursor_ends_when_it_was_idle_for_too_long() {
    let (catalogue, cursors) = (catalogue(), Arc::new(Cursors::default()));
    let index = catalogue.find(b"i").unwrap();
    let id = leave(&cursors, &index, 1000);
    assert_eq!(cursors.end_due(catalogue, 1099), 0);
    let (aggregation, lease) = cursors.take(id).unwrap();
    // A cursor that is read is not idle, however long that takes.
    assert_eq!(cursors.end_due(catalogue, 5000), 0);
    assert_eq!(lease.leave(aggregation, 5000), Ok(id));
    assert!(cursors.index_of(id, 5099).is_some());
    assert_eq!((cursors.end_due(catalogue, 5100), cursors.end_due(catalogue, 5100)), (1, 0));
    assert!(cursors.take(id).is_none() && !cursors.delete(id));
    let id = leave(&cursors, &index, 0);
    assert!(cursors.index_of(id, 100).is_none() && !cursors.delete(id));
    assert_eq!(cursors.counts(&index), CursorCounts::default());
}

#[test]
fn one_client_reads_a_cursor() {
    let (catalogue, cursors) = (catalogue(), Arc::new(Cursors::default()));
    let index = catalogue.find(b"i").unwrap();
    let id = leave(&cursors, &index, 0);
    let (aggregation, mut lease) = cursors.take(id).unwrap();
    assert!(cursors.take(id).is_none() && cursors.index_of(id, 0).is_none());
    assert_eq!(cursors.counts(&index), CursorCounts { global_idle: 0, global_total: 1, index_total: 1 });
    lease.set_count(7);
    assert_eq!(lease.leave(aggregation, 0), Ok(id));
    let (aggregation, lease) = cursors.take(id).unwrap();
    assert_eq!(lease.count(), 7);
    // It was deleted while it was read.
    assert!(cursors.delete(id) && !cursors.delete(id));
    assert_eq!(lease.leave(aggregation, 0), Ok(0));
    let id = leave(&cursors, &index, 0);
    // The client has gone.
    drop(cursors.take(id));
    assert_eq!(cursors.counts(&index), CursorCounts::default());
}

#[test]
fn cursors_go_with_their_index() {
    let (catalogue, cursors) = (catalogue(), Arc::new(Cursors::default()));
    let (one, two) = (catalogue.find(b"i").unwrap(), catalogue.find(b"j").unwrap());
    let (id, other) = (leave(&cursors, &one, 0), leave(&cursors, &two, 0));
    let alter = ["FT.ALTER", "i", "SCHEMA", "ADD", "m", "NUMERIC"].map(str::as_bytes);
    catalogue.change(&alter, 1 << 30).unwrap();
    assert_eq!(cursors.end_due(catalogue, 0), 0);
    catalogue.drop_index(b"i").unwrap();
    assert_eq!(cursors.end_due(catalogue, 0), 1);
    assert!(cursors.forget_orphan(id) && !cursors.forget_orphan(id) && !cursors.forget_orphan(other));
    assert!(cursors.take(id).is_none());
    assert_eq!(cursors.counts(&two), CursorCounts { global_idle: 1, global_total: 1, index_total: 1 });
}

#[test]
fn the_number_of_an_index_s_cursors_is_limited() {
    let (catalogue, cursors) = (catalogue(), Arc::new(Cursors::default()));
    let index = catalogue.find(b"i").unwrap();
    let leases: Vec<Lease> = (0..CURSORS).map(|_| cursors.open(&index, CURSORS, TERMS).unwrap()).collect();
    let error = cursors.open(&index, CURSORS, TERMS).unwrap_err();
    assert_eq!(error.to_string(), "Too many cursors allocated for index");
    assert!(cursors.open(&catalogue.find(b"j").unwrap(), CURSORS, TERMS).is_ok());
    let ids: std::collections::BTreeSet<u64> = leases.iter().map(|lease| lease.id).collect();
    assert!(ids.len() == CURSORS && ids.iter().all(|id| (1..ID_END).contains(id)));
    drop(leases);
    assert_eq!(cursors.counts(&index), CursorCounts::default());
    assert!(lock(&cursors.open).of_indexes.is_empty());
}
