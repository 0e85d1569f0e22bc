//! FT.INFO: an index's definition, its sizes and its failures, in the shapes of RediSearch 2.10.

use std::sync::Arc;

use martlet_command::{Acl, Error, Flags, Outcome, command};
use martlet_indexes::{Access, KeyIndex};
use martlet_protocol::reply::Reply;
use martlet_search::definition::{self as describe, Shown};
use martlet_search::index::census::{Census, Sizes};
use martlet_search::index::names::trie_order;
use martlet_search::index::whole::Failures;
use martlet_search::schema::{Definition, Field};

use super::{GROUP, readable_index, text_line};
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::search::job::{self, Job, TimeLimit};
use crate::search::settings::cursors_max;

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&INFO];

static INFO: ServerCommand = command("ft.info", -2, info as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("index")
    .doc(GROUP, "1.0.0", "O(1)", "Returns information and statistics on the index");

/// Megabytes, as FT.INFO counts sizes.
const MEGABYTE: f64 = (1 << 20) as f64;
/// The error and the key of an index without failures.
const NONE: &str = "N/A";

fn info(call: &mut Call<'_>) -> Outcome {
    let name: Vec<u8> = call.args.get(1).unwrap_or_default().to_vec();
    let index = readable_index(call, &name)?.ok_or(Error::Fixed("Unknown index name"))?;
    let census = Census::new(Arc::clone(index.index()));
    let cursors = cursors(call, &index);
    job::run(call, Info { index, census, cursors }, TimeLimit::new(0, false))
}

/// Open cursors.
#[derive(Copy, Clone, Debug, Default)]
struct Cursors {
    /// Of all indexes, those that no client reads at present.
    global_idle: usize,
    /// Of all indexes.
    global_total: usize,
    /// The most that an index may have.
    index_capacity: usize,
    /// Of this index.
    index_total: usize,
}

/// Counts the cursors of the server and of an index.
fn cursors(call: &Call<'_>, index: &KeyIndex) -> Cursors {
    let counts = call.worker.shared.cursors.counts(index);
    Cursors {
        global_idle: counts.global_idle,
        global_total: counts.global_total,
        index_capacity: cursors_max(call.worker.config()),
        index_total: counts.index_total,
    }
}

/// The count whose end is a reply.
struct Info {
    index: Arc<KeyIndex>,
    census: Census,
    cursors: Cursors,
}

impl Job for Info {
    fn step(&mut self, _: &mut Access<'_>, _: i64) -> bool {
        self.census.step()
    }

    fn end_early(&mut self) {}

    fn finish(self, reply: &mut Reply) {
        let rules = self.index.index().rules();
        let shown = Shape { index: &self.index, definition: &rules.definition, cursors: self.cursors };
        shown.write(&self.census.into_sizes(), reply);
    }
}

fn shown(reply: &mut Reply, value: &Shown<'_>) {
    match value {
        Shown::Text(value) => text_line(reply, value),
        Shown::Number(number) => reply.double(*number),
        Shown::Integer(number) => reply.int(*number),
        Shown::List(values) => {
            reply.array(values.len());
            values.iter().for_each(|value| text_line(reply, value));
        }
    }
}

fn double(reply: &mut Reply, name: &str, value: f64) {
    reply.simple(name);
    reply.double(value);
}

fn count(reply: &mut Reply, name: &str, value: u64) {
    reply.simple(name);
    reply.unsigned(value);
}

fn share(part: f64, of: f64) -> f64 {
    if of == 0.0 { f64::NAN } else { part / of }
}

/// The parts of the reply, without the sizes.
struct Shape<'a> {
    index: &'a KeyIndex,
    definition: &'a Definition,
    cursors: Cursors,
}

impl Shape<'_> {
    fn write(&self, sizes: &Sizes, reply: &mut Reply) {
        let place = reply.defer();
        let (failures, by_field) = self.index.index().failures();
        let mut pairs = self.definition(reply);
        pairs += self.sizes(sizes, reply);
        pairs += self.progress(&failures, sizes, reply);
        if self.definition.options.temporary.is_none() {
            reply.simple("gc_stats");
            self.collections(sizes, reply);
            pairs += 1;
        }
        reply.simple("cursor_stats");
        reply.map(4);
        count(reply, "global_idle", self.cursors.global_idle as u64);
        count(reply, "global_total", self.cursors.global_total as u64);
        count(reply, "index_capacity", self.cursors.index_capacity as u64);
        count(reply, "index_total", self.cursors.index_total as u64);
        if let Some(words) = &self.definition.stopwords {
            let mut words: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
            words.sort_by(|a, b| trie_order(a, b));
            reply.simple("stopwords_list");
            reply.array(words.len());
            words.into_iter().for_each(|word| reply.bulk(word));
            pairs += 1;
        }
        let dialects = self.index.dialects();
        reply.simple("dialect_stats");
        reply.map(dialects.len());
        for (number, used) in (1..).zip(dialects) {
            count(reply, &format!("dialect_{number}"), u64::from(used));
        }
        write_failures(&failures, reply);
        reply.simple("field statistics");
        reply.array(self.definition.fields.len());
        for (place, field) in self.definition.fields.iter().enumerate() {
            reply.map(3);
            names(field, reply);
            write_failures(by_field.get(place).unwrap_or(&Failures::default()), reply);
        }
        reply.close_map(place, pairs + 4);
    }

    /// The definition; how many pairs were written.
    fn definition(&self, reply: &mut Reply) -> usize {
        reply.simple("index_name");
        text_line(reply, self.index.name());
        let options = describe::options(self.definition);
        reply.simple("index_options");
        reply.array(options.len());
        options.into_iter().for_each(|option| reply.simple(option));
        let rule = describe::rule(self.definition);
        reply.simple("index_definition");
        reply.map(rule.len());
        for (name, value) in &rule {
            reply.simple(name);
            shown(reply, value);
        }
        reply.simple("attributes");
        reply.array(self.definition.fields.len());
        self.definition.fields.iter().for_each(|field| attribute(field, reply));
        4
    }

    fn sizes(&self, sizes: &Sizes, reply: &mut Reply) -> usize {
        let megabytes = |bytes: u64| bytes as f64 / MEGABYTE;
        let total = sizes.inverted_bytes
            + sizes.offset_bytes
            + sizes.document_bytes
            + sizes.sortable_bytes
            + sizes.key_table_bytes
            + sizes.tag_bytes
            + sizes.text_bytes;
        let (documents, records) = (sizes.documents as f64, sizes.records as f64);
        let offset_bits = if sizes.offset_bits == 0.0 { f64::NAN } else { sizes.offset_bits };
        let offsets = if sizes.records == 0 { f64::NAN } else { sizes.offsets_per_record };
        count(reply, "num_docs", sizes.documents);
        count(reply, "max_doc_id", sizes.ids);
        count(reply, "num_terms", sizes.terms);
        count(reply, "num_records", sizes.records);
        double(reply, "inverted_sz_mb", megabytes(sizes.inverted_bytes));
        double(reply, "vector_index_sz_mb", megabytes(sizes.vector_bytes));
        count(reply, "total_inverted_index_blocks", sizes.blocks);
        double(reply, "offset_vectors_sz_mb", megabytes(sizes.offset_bytes));
        double(reply, "doc_table_size_mb", megabytes(sizes.document_bytes));
        double(reply, "sortable_values_size_mb", megabytes(sizes.sortable_bytes));
        double(reply, "key_table_size_mb", megabytes(sizes.key_table_bytes));
        double(reply, "tag_overhead_sz_mb", megabytes(sizes.tag_bytes));
        double(reply, "text_overhead_sz_mb", megabytes(sizes.text_bytes));
        double(reply, "total_index_memory_sz_mb", megabytes(total));
        double(reply, "geoshapes_sz_mb", megabytes(self.index.index().shape_bytes() as u64));
        double(reply, "records_per_doc_avg", share(records, documents));
        double(reply, "bytes_per_record_avg", share(sizes.inverted_bytes as f64, records));
        double(reply, "offsets_per_term_avg", offsets);
        double(reply, "offset_bits_per_record_avg", offset_bits);
        19
    }

    fn progress(&self, failures: &Failures, sizes: &Sizes, reply: &mut Reply) -> usize {
        let progress = self.index.progress();
        count(reply, "hash_indexing_failures", failures.count);
        let time = self.index.index().indexing_time();
        double(reply, "total_indexing_time", time.as_secs_f64() * 1000.0);
        count(reply, "indexing", u64::from(!progress.is_done()));
        double(reply, "percent_indexed", progress.done);
        count(reply, "number_of_uses", self.index.uses());
        count(reply, "cleaning", u64::from(sizes.is_collecting));
        6
    }

    fn collections(&self, sizes: &Sizes, reply: &mut Reply) {
        let collections = self.index.index().collections();
        let (total_ms, cycles) = (collections.total.as_millis() as f64, collections.cycles as f64);
        reply.map(7);
        double(reply, "bytes_collected", sizes.collected_bytes as f64);
        double(reply, "total_ms_run", total_ms);
        double(reply, "total_cycles", cycles);
        double(reply, "average_cycle_time_ms", share(total_ms, cycles));
        double(reply, "last_run_time_ms", collections.last.as_millis() as f64);
        // No collection is given up half-way here.
        double(reply, "gc_numeric_trees_missed", 0.0);
        double(reply, "gc_blocks_denied", 0.0);
    }
}

fn names(field: &Field, reply: &mut Reply) {
    reply.simple("identifier");
    text_line(reply, &field.identifier);
    reply.simple("attribute");
    text_line(reply, &field.name);
}

fn attribute(field: &Field, reply: &mut Reply) {
    let attribute = describe::attribute(field);
    match reply.is_resp3() {
        true => reply.map(attribute.values.len() + 1),
        false => reply.array(2 * attribute.values.len() + attribute.flags.len()),
    }
    for (name, value) in &attribute.values {
        reply.simple(name);
        shown(reply, value);
    }
    if reply.is_resp3() {
        reply.simple("flags");
        reply.array(attribute.flags.len());
    }
    attribute.flags.iter().for_each(|flag| reply.simple(flag));
}

fn write_failures(failures: &Failures, reply: &mut Reply) {
    reply.simple("Index Errors");
    reply.map(3);
    count(reply, "indexing failures", failures.count);
    reply.simple("last indexing error");
    match &failures.last {
        Some((error, _)) => text_line(reply, error.to_string().as_bytes()),
        None => reply.simple(NONE),
    }
    reply.simple("last indexing error key");
    reply.bulk(failures.last.as_ref().map_or(NONE.as_bytes(), |(_, key)| key));
}
