//! The sections of INFO on search, with the names of Redis 8. As there, plain INFO has none of them: INFO
//! EVERYTHING, INFO MODULES and INFO SEARCH have all, and each has its name.

use std::collections::BTreeMap;
use std::sync::Arc;

use martlet_indexes::KeyIndex;
use martlet_search::schema::{Algorithm, Definition, FieldKind};
use martlet_spec::module;

use super::{Section, Shown, Text};
use crate::runtime::Worker;
use crate::search::settings;
use crate::stats::command_totals;

/// The sections.
pub(super) const SECTIONS: &[Section] = &[
    Section { name: "search_version", shown: Shown::Search, write: version },
    Section { name: "search_indexes", shown: Shown::Search, write: indexes },
    Section { name: "search_fields_statistics", shown: Shown::Search, write: fields },
    Section { name: "search_memory", shown: Shown::Search, write: memory },
    Section { name: "search_cursors", shown: Shown::Search, write: cursors },
    Section { name: "search_garbage_collector", shown: Shown::Search, write: collections },
    Section { name: "search_queries", shown: Shown::Search, write: queries },
    Section { name: "search_warnings_and_errors", shown: Shown::Search, write: errors },
    Section { name: "search_dialect_statistics", shown: Shown::Search, write: dialects },
    Section { name: "search_runtime_configurations", shown: Shown::Search, write: configuration },
];

/// The commands that search.
const SEARCHES: &[&str] = &["ft.search", "ft.aggregate", "ft.hybrid", "ft.profile"];

fn all(worker: &Worker) -> Vec<Arc<KeyIndex>> {
    worker.shared.indexes.indexes()
}

fn version(_: &mut Worker, text: &mut Text) {
    let version = module::SEARCH.version;
    text.title("search_version");
    text.field(
        "search_version",
        format_args!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100),
    );
    text.field("search_redis_version", format_args!("{} - oss", crate::config::REDIS_VERSION));
}

fn indexes(worker: &mut Worker, text: &mut Text) {
    let all = all(worker);
    let scanned = all.iter().filter(|index| !index.progress().is_done()).count();
    let time_ms: f64 = all.iter().map(|index| index.index().indexing_time().as_secs_f64() * 1000.0).sum();
    text.title("search_indexes");
    text.field("search_number_of_indexes", all.len());
    text.field("search_number_of_active_indexes_indexing", scanned);
    text.field(
        "search_total_num_docs_in_indexes",
        all.iter().map(|index| index.index().len()).sum::<usize>(),
    );
    text.field("search_total_indexing_time", time_ms);
}

/// Counts of fields of a kind, by what they have beside it.
#[derive(Default)]
struct Kinds(BTreeMap<&'static str, Vec<(&'static str, u64)>>);

impl Kinds {
    fn count(&mut self, field: &'static str, property: &'static str, by: u64) {
        let properties = self.0.entry(field).or_default();
        match properties.iter_mut().find(|(name, _)| *name == property) {
            Some((_, count)) => *count += by,
            None => properties.push((property, by)),
        }
    }

    fn add(&mut self, definition: &Definition, failures: &[u64]) {
        for (place, field) in definition.fields.iter().enumerate() {
            let (name, kind) = match &field.kind {
                FieldKind::Text(_) => ("search_fields_text", "Text"),
                FieldKind::Tag(_) => ("search_fields_tag", "Tag"),
                FieldKind::Numeric => ("search_fields_numeric", "Numeric"),
                FieldKind::Geo => ("search_fields_geo", "Geo"),
                FieldKind::GeoShape(_) => ("search_fields_geoshape", "Geoshape"),
                FieldKind::Vector(_) => ("search_fields_vector", "Vector"),
            };
            self.count(name, kind, 1);
            let properties = [
                (field.sortable, "Sortable"),
                (field.no_index, "NoIndex"),
                (matches!(&field.kind, FieldKind::Tag(tag) if tag.case_sensitive), "CaseSensitive"),
                (is_vector(&field.kind, |kind| matches!(kind, Algorithm::Flat { .. })), "Flat"),
                (is_vector(&field.kind, |kind| matches!(kind, Algorithm::Hnsw { .. })), "HNSW"),
                (is_vector(&field.kind, |kind| matches!(kind, Algorithm::Vamana { .. })), "SVS-VAMANA"),
            ];
            properties.iter().filter(|one| one.0).for_each(|one| self.count(name, one.1, 1));
            self.count(name, "IndexErrors", failures.get(place).copied().unwrap_or_default());
        }
    }
}

fn is_vector(kind: &FieldKind, is_it: impl Fn(&Algorithm) -> bool) -> bool {
    matches!(kind, FieldKind::Vector(vector) if is_it(&vector.algorithm))
}

fn fields(worker: &mut Worker, text: &mut Text) {
    let mut kinds = Kinds::default();
    for index in all(worker) {
        let failures: Vec<u64> = index.index().failures().1.iter().map(|one| one.count).collect();
        kinds.add(&index.index().rules().definition, &failures);
    }
    text.title("search_fields_statistics");
    for (field, properties) in kinds.0 {
        let properties: Vec<String> =
            properties.into_iter().map(|(name, count)| format!("{name}={count}")).collect();
        text.field(field, properties.join(","));
    }
}

fn memory(worker: &mut Worker, text: &mut Text) {
    let (mut bytes, mut vectors) = (Vec::new(), 0);
    for index in all(worker) {
        let rules = index.index().rules();
        vectors += rules.vectors.iter().flatten().map(|vectors| vectors.heap_bytes()).sum::<usize>();
        bytes.push(index.index().heap_bytes());
    }
    let sizes = [
        ("search_used_memory_indexes", bytes.iter().sum::<usize>()),
        ("search_smallest_memory_index", bytes.iter().copied().min().unwrap_or(0)),
        ("search_largest_memory_index", bytes.iter().copied().max().unwrap_or(0)),
    ];
    text.title("search_memory");
    for (name, bytes) in sizes {
        text.field(name, bytes);
        // Megabytes, as a number.
        text.field(&format!("{name}_human"), bytes as f64 / f64::from(1 << 20));
    }
    text.field("search_used_memory_vector_index", vectors);
}

fn cursors(worker: &mut Worker, text: &mut Text) {
    let (idle, total) = worker.shared.cursors.total();
    text.title("search_cursors");
    text.field("search_global_idle_user", idle);
    text.field("search_global_idle_internal", 0);
    text.field("search_global_total_user", total);
    text.field("search_global_total_internal", 0);
}

fn collections(worker: &mut Worker, text: &mut Text) {
    let (mut bytes, mut cycles, mut ms) = (0, 0, 0);
    for index in all(worker) {
        let collections = index.index().collections();
        bytes += index.index().collected_bytes();
        cycles += collections.cycles;
        ms += collections.total.as_millis();
    }
    text.title("search_garbage_collector");
    text.field("search_gc_bytes_collected", bytes);
    text.field("search_gc_total_cycles", cycles);
    text.field("search_gc_total_ms_run", ms);
}

fn queries(worker: &mut Worker, text: &mut Text) {
    let (mut processed, mut commands, mut ns) = (0, 0, 0);
    for entry in worker.shared.registry.entries() {
        let name = entry.spec.full_name;
        let is_search = SEARCHES.contains(&name);
        if is_search || name == "ft.cursor" {
            let totals = command_totals(&worker.shared.threads, entry.id);
            commands += totals.calls;
            processed += if is_search { totals.calls } else { 0 };
            ns += totals.ns;
        }
    }
    text.title("search_queries");
    text.field("search_total_queries_processed", processed);
    text.field("search_total_query_commands", commands);
    text.field("search_total_query_execution_time_ms", ns / 1_000_000);
}

fn errors(worker: &mut Worker, text: &mut Text) {
    let counts: Vec<u64> = all(worker).iter().map(|index| index.index().failures().0.count).collect();
    text.title("search_warnings_and_errors");
    text.field("search_errors_indexing_failures", counts.iter().sum::<u64>());
    text.field("search_errors_for_index_with_max_failures", counts.iter().max().copied().unwrap_or(0));
}

fn dialects(worker: &mut Worker, text: &mut Text) {
    let used = all(worker).iter().map(|index| index.dialects()).fold([false; 4], |mut sum, used| {
        sum.iter_mut().zip(used).for_each(|(sum, used)| *sum |= used);
        sum
    });
    text.title("search_dialect_statistics");
    for (dialect, used) in (1..).zip(used) {
        text.field(&format!("search_dialect_{dialect}"), u8::from(used));
    }
}

fn configuration(worker: &mut Worker, text: &mut Text) {
    let config = Arc::clone(worker.config());
    let (search, limits) = (&config.search, settings::limits(&config));
    let results = |limit: u64| i64::try_from(limit).unwrap_or(-1);
    text.title("search_runtime_configurations");
    text.field("search_enableGC", if search.no_gc { "OFF" } else { "ON" });
    text.field("search_minimal_term_prefix", search.min_prefix);
    text.field("search_minimal_stem_length", search.min_stem_len);
    text.field("search_maximal_prefix_expansions", search.max_prefix_expansions);
    text.field("search_query_timeout_ms", search.timeout_ms);
    text.field("search_timeout_policy", if settings::fails_late(&config) { "fail" } else { "return" });
    text.field("search_cursor_read_size", limits.cursor_count);
    text.field("search_cursor_max_idle_time", search.cursor_max_idle_ms);
    text.field("search_max_doc_table_size", search.max_doctablesize);
    text.field("search_max_search_results", results(limits.search_results));
    text.field("search_max_aggregate_results", results(limits.aggregate_results));
    text.field("search_gc_scan_size", search.gc_scan_size);
    text.field("search_min_phonetic_term_length", search.min_phonetic_term_len);
    text.field("search_bm25std_tanh_factor", search.bm25std_tanh_factor);
}
