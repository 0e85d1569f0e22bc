//! The checks of the fuzz targets, as plain functions of bytes, so that the same checks run without a fuzzer:
//! `cargo test` in this folder replays the seeds and random mutations of them on the stable toolchain.

pub mod acl_rules;
pub mod append_log;
pub mod cluster_bus;
pub mod commands;
pub mod json;
pub mod module_payloads;
pub mod mutate;
pub mod nodes_conf;
pub mod rdb_file;
pub mod rdb_packed;
pub mod rdb_payload;
pub mod reply_decoder;
pub mod request_parser;
pub mod script_calls;
pub mod script_libraries;
pub mod search_commands;
pub mod search_query;
pub mod search_requests;
pub mod search_shape;
pub mod search_text;
pub mod search_words;
pub mod seeds;
pub mod series_chunk;
pub mod series_filter;
pub mod series_saved;
pub mod sketch_chunks;
pub mod sketch_fields;
pub mod tls_records;
pub mod vector_set;

/// A target's name, its check, its seeds.
pub type Target = (&'static str, fn(&[u8]), fn() -> Vec<Vec<u8>>);

/// Every target.
pub const TARGETS: &[Target] = &[
    ("acl_rules", acl_rules::check, seeds::users),
    ("append_log", append_log::check, seeds::logs),
    ("cluster_bus", cluster_bus::check, seeds::bus_packets),
    ("nodes_conf", nodes_conf::check, seeds::nodes_files),
    ("json_cbor", json::check_cbor, json::cbor_seeds),
    ("json_path", json::check_path, json::path_seeds),
    ("json_text", json::check_text, json::text_seeds),
    ("request_parser", request_parser::check, seeds::requests),
    ("reply_decoder", reply_decoder::check, seeds::replies),
    ("rdb_file", rdb_file::check, seeds::files),
    ("rdb_packed", rdb_packed::check, rdb_packed::seeds),
    ("rdb_payload", rdb_payload::check, seeds::payloads),
    ("module_payloads", module_payloads::check, seeds::module_payloads),
    ("search_query", search_query::check, search_query::seeds),
    ("search_shape", search_shape::check, search_shape::seeds),
    ("search_text", search_text::check, search_text::seeds),
    ("search_commands", search_commands::check, search_commands::seeds),
    ("search_words", search_words::check, search_words::seeds),
    ("native_scripts", martlet_script::differential::check, martlet_script::differential::seeds),
    ("script_calls", script_calls::check, seeds::choices),
    ("script_libraries", script_libraries::check, seeds::documents),
    ("sketch_chunks", sketch_chunks::check, sketch_chunks::seeds),
    ("sketch_fields", sketch_fields::check, sketch_fields::seeds),
    ("search_expression", search_requests::check_expression, search_requests::expression_seeds),
    ("search_create", search_requests::check_create, search_requests::create_seeds),
    ("search_request", search_requests::check_search, search_requests::search_seeds),
    ("search_hybrid", search_requests::check_hybrid, search_requests::hybrid_seeds),
    ("search_aggregate", search_requests::check_aggregate, search_requests::aggregate_seeds),
    ("series_chunk", series_chunk::check, series_chunk::seeds),
    ("series_filter", series_filter::check, series_filter::seeds),
    ("series_saved", series_saved::check, series_saved::seeds),
    ("tls_records", tls_records::check, seeds::records),
    ("vector_set", vector_set::check, seeds::vector_sets),
    ("commands", commands::check, seeds::commands),
];
