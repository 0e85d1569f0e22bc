//! The fuzz targets without a fuzzer: seeds, and mutations of them from a seed that is printed.

use martlet_fuzz::TARGETS;
use martlet_fuzz::mutate::Mutator;

/// Mutations of each target unless `MARTLET_FUZZ_MUTATIONS` says otherwise.
const MUTATIONS: usize = 10_000;

fn replay(name: &str) {
    replay_some(name, MUTATIONS);
}

fn replay_some(name: &str, mutations: usize) {
    let (_, check, seeds) = TARGETS.iter().find(|(target, ..)| *target == name).expect("a target's name");
    let seeds = seeds();
    seeds.iter().for_each(|seed| check(seed));
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("MARTLET_FUZZ_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |now| now.as_nanos() as u64)
    });
    println!("MARTLET_FUZZ_SEED={seed}");
    let mut mutator = Mutator::new(seed);
    let mut last = seeds[0].clone();
    for _ in 0..number("MARTLET_FUZZ_MUTATIONS").map_or(mutations, |count| count as usize) {
        let start =
            if mutator.below(3) == 0 { last.clone() } else { seeds[mutator.below(seeds.len())].clone() };
        let other = &seeds[mutator.below(seeds.len())];
        last = mutator.mutate(&start, other);
        last.truncate(4096);
        check(&last);
    }
}

#[test]
fn acl_rules() {
    replay("acl_rules");
}

#[test]
fn search_commands() {
    // Each makes indexes, and makes them again.
    replay_some("search_commands", 2000);
}

#[test]
fn search_words() {
    replay("search_words");
}

#[test]
fn tls_records() {
    replay("tls_records");
}

#[test]
fn vector_set() {
    replay("vector_set");
}

#[test]
fn script_libraries() {
    replay("script_libraries");
}

#[test]
fn native_scripts() {
    // Each is a script that takes a millisecond.
    replay_some("native_scripts", 3000);
}

#[test]
fn script_calls() {
    // Each is a program that takes some milliseconds.
    replay_some("script_calls", 400);
}

#[test]
fn json_cbor() {
    replay("json_cbor");
}

#[test]
fn json_path() {
    replay("json_path");
}

#[test]
fn json_text() {
    replay("json_text");
}

#[test]
fn request_parser() {
    replay("request_parser");
}

#[test]
fn reply_decoder() {
    replay("reply_decoder");
}

#[test]
fn rdb_file() {
    replay("rdb_file");
}

#[test]
fn rdb_packed() {
    replay("rdb_packed");
}

#[test]
fn append_log() {
    replay("append_log");
}

#[test]
fn rdb_payload() {
    replay("rdb_payload");
}

#[test]
fn commands() {
    replay("commands");
}

#[test]
fn cluster_bus() {
    replay("cluster_bus");
}

#[test]
fn nodes_conf() {
    replay("nodes_conf");
}

#[test]
fn sketch_fields() {
    replay("sketch_fields");
}

#[test]
fn sketch_chunks() {
    replay("sketch_chunks");
}

#[test]
fn search_expression() {
    replay("search_expression");
}

#[test]
fn search_create() {
    replay("search_create");
}

#[test]
fn search_request() {
    replay("search_request");
}

#[test]
fn search_aggregate() {
    replay("search_aggregate");
}

#[test]
fn series_chunk() {
    replay("series_chunk");
}

#[test]
fn series_filter() {
    replay("series_filter");
}

#[test]
fn series_saved() {
    replay("series_saved");
}

#[test]
fn module_payloads() {
    replay("module_payloads");
}

#[test]
fn search_query() {
    replay("search_query");
}

#[test]
fn search_shape() {
    replay("search_shape");
}

#[test]
fn search_hybrid() {
    replay("search_hybrid");
}

#[test]
fn search_text() {
    replay("search_text");
}
