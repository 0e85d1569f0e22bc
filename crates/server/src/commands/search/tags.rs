//! FT.TAGVALS: the tags of a field.

use std::sync::Arc;

use martlet_command::{Acl, Error, Flags, Outcome, command};
use martlet_indexes::Access;
use martlet_protocol::reply::Reply;
use martlet_search::index::names::{Names, Walk, trie_order};
use martlet_search::index::whole::Index;
use martlet_search::schema::FieldKind;

use super::{GROUP, readable_index};
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::search::job::{self, Job, TimeLimit};

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&TAG_VALUES];

static TAG_VALUES: ServerCommand = command("ft.tagvals", 3, tag_values as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH).with(Acl::DANGEROUS))
    .syntax("index field_name")
    .doc(GROUP, "1.0.0", "O(N)", "Returns the distinct tags indexed in a Tag field");

fn tag_values(call: &mut Call<'_>) -> Outcome {
    let words: Vec<&[u8]> = call.args.iter().collect();
    let index = readable_index(call, words[1])?.ok_or(Error::Fixed("Unknown Index name"))?;
    let rules = index.index().rules();
    let fields = &rules.definition.fields;
    let field = fields.iter().position(|field| *field.name == *words[2]);
    let field = field.ok_or(Error::Fixed("No such field"))?;
    if !matches!(fields[field].kind, FieldKind::Tag(_)) {
        return Err(Error::Fixed("Not a tag field"));
    }
    let (index, walk) = (Arc::clone(index.index()), Walk::new(Names::Tags(field)));
    job::run(call, TagValues { index, walk, tags: Vec::new() }, TimeLimit::new(0, false))
}

/// The walk over the tags.
struct TagValues {
    index: Arc<Index>,
    walk: Walk,
    tags: Vec<Box<[u8]>>,
}

impl Job for TagValues {
    fn step(&mut self, _: &mut Access<'_>, _: i64) -> bool {
        self.walk.step(&self.index, &mut |tag| self.tags.push(tag.into()))
    }

    fn end_early(&mut self) {}

    fn finish(mut self, reply: &mut Reply) {
        self.tags.sort_by(|a, b| trie_order(a, b));
        reply.set(self.tags.len());
        self.tags.iter().for_each(|tag| reply.bulk(tag));
    }
}
