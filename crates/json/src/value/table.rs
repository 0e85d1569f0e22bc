//! `Table`: the members of a large object, in order, with an index from name to position.
//!
//! Invariant: the index has each member's position once, under the hash of its name.

use super::{Member, Value};
use hashbrown::HashTable;
use martlet_base::hash::KeyHasher;

/// See the module's description.
#[derive(Clone, Default)]
pub(crate) struct Table {
    members: Vec<Member>,
    index: HashTable<u32>,
}

/// Seeded once per process, so that a client cannot choose names that collide.
fn hash(name: &str) -> u64 {
    KeyHasher::process().hash(name.as_bytes())
}

impl Table {
    /// A table of members; of two of one name the last is kept, at the first one's position.
    pub fn from_members(members: impl Iterator<Item = Member>) -> Table {
        let mut table = Table::default();
        for member in members {
            table.insert(member.name, member.value);
        }
        table.members.shrink_to_fit();
        table
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }

    pub fn value_mut(&mut self, position: usize) -> Option<&mut Value> {
        self.members.get_mut(position).map(|member| &mut member.value)
    }

    pub fn position(&self, name: &str) -> Option<usize> {
        let found = self.index.find(hash(name), |at| name_at(&self.members, *at) == name);
        found.map(|at| *at as usize)
    }

    /// Puts a value under a name; the value that was there.
    pub fn insert(&mut self, name: Value, value: Value) -> Option<Value> {
        let text = name.as_str().unwrap_or_default();
        if let Some(position) = self.position(text) {
            let slot = self.value_mut(position)?;
            return Some(std::mem::replace(slot, value));
        }
        let Table { members, index } = self;
        // A document has less than 2^32 members: its text has at most 512 MB.
        let position = members.len() as u32;
        index.insert_unique(hash(text), position, |at| hash(name_at(members, *at)));
        members.push(Member { name, value });
        None
    }

    /// Removes the member at `position`; the last one takes its place, as in ReJSON.
    pub fn remove(&mut self, position: usize) -> Option<Member> {
        let at = self.members.get(position).map(|member| hash(member.name()))?;
        if let Ok(entry) = self.index.find_entry(at, |known| *known as usize == position) {
            entry.remove();
        }
        let last = self.members.len() - 1;
        if last != position {
            let moved = hash(self.members[last].name());
            if let Some(known) = self.index.find_mut(moved, |known| *known as usize == last) {
                *known = position as u32;
            }
        }
        Some(self.members.swap_remove(position))
    }

    /// Bytes of both buffers.
    pub fn buffer_bytes(&self) -> usize {
        super::word::allocated(self.members.capacity() * size_of::<Member>())
            + super::word::allocated(self.index.allocation_size())
    }

    pub fn into_members(self) -> Vec<Member> {
        self.members
    }
}

fn name_at(members: &[Member], position: u32) -> &str {
    members.get(position as usize).map_or("", Member::name)
}
