//! FT.TAGVALS: the tags of a field.

use std::sync::Arc;

use martlet_client::resp::Reply as Answer;
use martlet_command::{Acl, Error, Flags, Outcome, command};
use martlet_indexes::{Access, KeyIndex};
use martlet_protocol::reply::Reply;
use martlet_search::index::names::{Names, Walk, trie_order};
use martlet_search::index::whole::Index;
use martlet_search::schema::FieldKind;

use super::{GROUP, readable_index};
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::search::job::{self, Job, TimeLimit};
use crate::search::nodes::{self, Nodes, PartOf, part_request};

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&TAG_VALUES, &TAG_VALUES_PART];

static TAG_VALUES: ServerCommand = command("ft.tagvals", 3, tag_values as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH).with(Acl::ADMIN).with(Acl::DANGEROUS))
    .syntax("index field_name")
    .doc(GROUP, "1.0.0", "O(N)", "Returns the distinct tags indexed in a Tag field");

/// A node's part of FT.TAGVALS, for the node that a client has asked.
static TAG_VALUES_PART: ServerCommand = command("_ft.tagvals", 4, tag_values_part as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH).with(Acl::ADMIN).with(Acl::DANGEROUS))
    .syntax("slots:i index field_name")
    .doc(GROUP, "8.0.0", "O(N)", "Returns the tags of a node's part of an index, for another node.");

fn tag_values(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(1);
    let index = readable_index(call, name)?.ok_or(Error::Fixed("Unknown Index name"))?;
    let values = TagValues::new(&index, call.arg(2))?;
    if let Some(nodes) = Nodes::of(call)? {
        let words: Vec<Vec<u8>> = call.args.iter().skip(1).map(<[u8]>::to_vec).collect();
        nodes.answer(call, move |has_thread, reply| answer_for_all(nodes, has_thread, &words, reply));
        return Ok(());
    }
    job::run(call, values, TimeLimit::new(0, false))
}

fn tag_values_part(call: &mut Call<'_>) -> Outcome {
    let part = PartOf::check(call)?;
    let index = call.worker.shared.indexes.find(call.arg(2)).ok_or(nodes::OTHER_INDEXES)?;
    let values = TagValues::new(&index, call.arg(3))?;
    job::run(call, part.job(values), TimeLimit::new(0, false))
}

/// Writes the tags of all nodes.
fn answer_for_all(nodes: Nodes, has_thread: bool, words: &[Vec<u8>], reply: &mut Reply) {
    if !has_thread {
        return reply.error(nodes::NO_THREAD);
    }
    match nodes.ask(0, |peer| part_request(TAG_VALUES_PART.spec.name, peer, words)) {
        Err(error) => reply.error(error),
        Ok(answers) => {
            let lists = answers.into_iter().flatten().map(|answer| match answer {
                Answer::Array(tags) => tags,
                _ => Vec::new(),
            });
            let tags = lists.flatten().filter_map(|tag| tag.text().map(Box::from));
            write(tags.collect(), reply);
        }
    }
}

/// Writes tags, each once.
fn write(mut tags: Vec<Box<[u8]>>, reply: &mut Reply) {
    tags.sort_by(|a, b| trie_order(a, b));
    tags.dedup();
    reply.set(tags.len());
    tags.iter().for_each(|tag| reply.bulk(tag));
}

/// The walk over the tags.
struct TagValues {
    index: Arc<Index>,
    walk: Walk,
    tags: Vec<Box<[u8]>>,
}

impl TagValues {
    /// The walk over the tags of a field.
    fn new(index: &KeyIndex, field: &[u8]) -> Result<TagValues, Error> {
        let rules = index.index().rules();
        let fields = &rules.definition.fields;
        let place = fields.iter().position(|known| *known.name == *field);
        let place = place.ok_or(Error::Fixed("No such field"))?;
        if !matches!(fields[place].kind, FieldKind::Tag(_)) {
            return Err(Error::Fixed("Not a tag field"));
        }
        let walk = Walk::new(Names::Tags(place));
        Ok(TagValues { index: Arc::clone(index.index()), walk, tags: Vec::new() })
    }
}

impl Job for TagValues {
    fn step(&mut self, _: &mut Access<'_>, _: i64) -> bool {
        self.walk.step(&self.index, &mut |tag| self.tags.push(tag.into()))
    }

    fn end_early(&mut self) {}

    fn finish(self, reply: &mut Reply) {
        write(self.tags, reply);
    }
}
