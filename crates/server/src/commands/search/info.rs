//! FT.INFO: an index's definition, its sizes and its failures, in the shapes of RediSearch 2.10.

use std::sync::Arc;

use martlet_command::{Acl, Error, Flags, Outcome, command};
use martlet_indexes::{Access, KeyIndex};
use martlet_protocol::reply::Reply;
use martlet_search::definition::{self as describe, Shown};
use martlet_search::index::census::Census;
use martlet_search::index::names::trie_order;
use martlet_search::index::whole::Failures;
use martlet_search::schema::{Definition, Field};

use super::{GROUP, readable_index, text_line};
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::search::figures::{Cursors, Figures};
use crate::search::job::{self, Job, TimeLimit};
use crate::search::nodes::{self, Nodes, PartOf, PartRequest};
use crate::search::settings::cursors_max;

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&INFO, &INFO_PART];

static INFO: ServerCommand = command("ft.info", -2, info as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("index")
    .doc(GROUP, "1.0.0", "O(1)", "Returns information and statistics on the index");

/// Megabytes, as FT.INFO counts sizes.
const MEGABYTE: f64 = (1 << 20) as f64;
/// The error and the key of an index without failures.
const NONE: &str = "N/A";

/// A node's part of FT.INFO, for the node that a client has asked: its [`Figures`].
static INFO_PART: ServerCommand = command("_ft.info", 3, info_part as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("slots:i index")
    .doc(GROUP, "8.0.0", "O(1)", "Returns figures of a node's part of an index, for another node.");

fn info(call: &mut Call<'_>) -> Outcome {
    let name: Vec<u8> = call.args.get(1).unwrap_or_default().to_vec();
    let index = readable_index(call, &name)?.ok_or(Error::Fixed("Unknown index name"))?;
    if let Some(nodes) = Nodes::of(call)? {
        let request = PartRequest::new(INFO_PART.spec.name, &[], call, 0);
        nodes.answer_parts(call, request, Figures::decode, move |parts, reply| {
            let mut all = Figures::default();
            parts.into_iter().flatten().for_each(|part| all.merge(part));
            write(&index, &all, reply);
        });
        return Ok(());
    }
    let counting = Counting::new(call, index);
    job::run(call, Info(counting), TimeLimit::new(0, false))
}

fn info_part(call: &mut Call<'_>) -> Outcome {
    let part = PartOf::check(call)?;
    let index = call.worker.shared.indexes.find(call.arg(2)).ok_or(nodes::OTHER_INDEXES)?;
    let counting = Counting::new(call, index);
    job::run(call, part.job(InfoPart(counting)), TimeLimit::new(0, false))
}

/// The count of an index's figures.
struct Counting {
    index: Arc<KeyIndex>,
    census: Census,
    cursors: Cursors,
}

impl Counting {
    fn new(call: &Call<'_>, index: Arc<KeyIndex>) -> Counting {
        let counts = call.worker.shared.cursors.counts(&index);
        let cursors = Cursors {
            global_idle: counts.global_idle as u64,
            global_total: counts.global_total as u64,
            index_capacity: cursors_max(call.worker.config()) as u64,
            index_total: counts.index_total as u64,
        };
        Counting { census: Census::new(Arc::clone(index.index())), index, cursors }
    }

    fn into_figures(self) -> (Arc<KeyIndex>, Figures) {
        let figures = Figures::of(&self.index, self.census.into_sizes(), self.cursors);
        (self.index, figures)
    }
}

/// The count whose end is the reply to a client.
struct Info(Counting);

impl Job for Info {
    fn step(&mut self, _: &mut Access<'_>, _: i64) -> bool {
        self.0.census.step()
    }

    fn end_early(&mut self) {}

    fn finish(self, reply: &mut Reply) {
        let (index, figures) = self.0.into_figures();
        write(&index, &figures, reply);
    }
}

/// The count whose end is the answer to a node.
struct InfoPart(Counting);

impl Job for InfoPart {
    fn step(&mut self, _: &mut Access<'_>, _: i64) -> bool {
        self.0.census.step()
    }

    fn end_early(&mut self) {}

    fn finish(self, reply: &mut Reply) {
        reply.bulk(&self.0.into_figures().1.encode());
    }
}

fn write(index: &KeyIndex, figures: &Figures, reply: &mut Reply) {
    let rules = index.index().rules();
    Shape { index, definition: &rules.definition, figures }.write(reply);
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

/// The parts of the reply.
struct Shape<'a> {
    index: &'a KeyIndex,
    definition: &'a Definition,
    figures: &'a Figures,
}

impl Shape<'_> {
    fn write(&self, reply: &mut Reply) {
        let (place, figures) = (reply.defer(), self.figures);
        let mut pairs = self.definition(reply);
        pairs += self.sizes(reply);
        pairs += self.progress(reply);
        if self.definition.options.temporary.is_none() {
            reply.simple("gc_stats");
            self.collections(reply);
            pairs += 1;
        }
        reply.simple("cursor_stats");
        reply.map(4);
        count(reply, "global_idle", figures.cursors.global_idle);
        count(reply, "global_total", figures.cursors.global_total);
        count(reply, "index_capacity", figures.cursors.index_capacity);
        count(reply, "index_total", figures.cursors.index_total);
        if let Some(words) = &self.definition.stopwords {
            let mut words: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
            words.sort_by(|a, b| trie_order(a, b));
            reply.simple("stopwords_list");
            reply.array(words.len());
            words.into_iter().for_each(|word| reply.bulk(word));
            pairs += 1;
        }
        reply.simple("dialect_stats");
        reply.map(figures.dialects.len());
        for (number, used) in (1..).zip(&figures.dialects) {
            count(reply, &format!("dialect_{number}"), u64::from(*used));
        }
        write_failures(&figures.failures, reply);
        reply.simple("field statistics");
        reply.array(self.definition.fields.len());
        for (place, field) in self.definition.fields.iter().enumerate() {
            reply.map(3);
            names(field, reply);
            write_failures(figures.failures_of_fields.get(place).unwrap_or(&Failures::default()), reply);
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

    fn sizes(&self, reply: &mut Reply) -> usize {
        let sizes = &self.figures.sizes;
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
        double(reply, "geoshapes_sz_mb", megabytes(self.figures.shape_bytes));
        double(reply, "records_per_doc_avg", share(records, documents));
        double(reply, "bytes_per_record_avg", share(sizes.inverted_bytes as f64, records));
        double(reply, "offsets_per_term_avg", offsets);
        double(reply, "offset_bits_per_record_avg", offset_bits);
        19
    }

    fn progress(&self, reply: &mut Reply) -> usize {
        let figures = self.figures;
        count(reply, "hash_indexing_failures", figures.failures.count);
        double(reply, "total_indexing_time", figures.indexing_ns as f64 / 1e6);
        count(reply, "indexing", figures.scanning);
        double(reply, "percent_indexed", share(figures.scanned, figures.nodes as f64));
        count(reply, "number_of_uses", figures.uses);
        count(reply, "cleaning", figures.cleaning);
        6
    }

    fn collections(&self, reply: &mut Reply) {
        let figures = self.figures;
        let (total_ms, cycles) = (figures.collections_ms as f64, figures.collections as f64);
        reply.map(7);
        double(reply, "bytes_collected", figures.sizes.collected_bytes as f64);
        double(reply, "total_ms_run", total_ms);
        double(reply, "total_cycles", cycles);
        double(reply, "average_cycle_time_ms", share(total_ms, cycles));
        double(reply, "last_run_time_ms", figures.last_collection_ms as f64);
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
