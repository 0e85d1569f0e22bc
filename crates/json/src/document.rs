//! `Document`: a value with the exact number of heap bytes that it takes, kept by every edit.
//!
//! A clone is O(1); a write to either copy then copies the containers on its path. Invariant: `heap_bytes` is
//! what [`Value::heap_bytes`] of the root would count, and the root has fewer than
//! [`crate::limits::DEPTH_LIMIT`] levels.

use crate::error::{Error, Result};
use crate::limits::DEPTH_LIMIT;
use crate::path::PlaceStep;
use crate::rewrite::rewrite;
use crate::value::{Array, Node, Typed, Value, View, replace};
use martlet_base::prefetch::{PrefetchQueue, Progress};

/// See the module's description.
#[derive(Clone)]
pub struct Document {
    root: Value,
    heap_bytes: usize,
}

impl Document {
    /// A document of this value.
    ///
    /// # Errors
    /// The value nests too deeply.
    pub fn new(root: Value) -> Result<Document> {
        check_depth(0, &root)?;
        let heap_bytes = root.heap_bytes();
        Ok(Document { root, heap_bytes })
    }

    /// Puts the value of a JSON text in the place of the document's, in its blocks as far as they fit. False,
    /// with nothing changed, if the text is too long for this or is none, which
    /// [`parse`](crate::text::parse) tells.
    pub fn rewrite(&mut self, text: &[u8]) -> bool {
        let mut heap = 0;
        let is_rewritten = rewrite(&mut self.root, text, &mut heap);
        self.heap_bytes = self.heap_bytes.saturating_add_signed(heap);
        is_rewritten
    }

    /// The root.
    pub fn root(&self) -> Node<'_> {
        Node::Value(&self.root)
    }

    /// The root as a value, which shares everything.
    pub fn value(&self) -> &Value {
        &self.root
    }

    /// One step of asking for the document's memory ahead of a command.
    pub fn queue_step(&self, step: usize, queue: &mut PrefetchQueue) -> Progress {
        self.root.queue_step(step, queue)
    }

    /// Bytes that the allocator takes for all blocks, as if none were shared with a clone.
    pub fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    /// Whether the root is a container without children.
    pub fn is_empty(&self) -> bool {
        match self.root.view() {
            View::Array(array) => array.is_empty(),
            View::Object(object) => object.is_empty(),
            _ => false,
        }
    }

    /// Whether an array in it has a float type narrower than `f64`, which only CBOR keeps.
    pub fn has_narrow_floats(&self) -> bool {
        has_narrow_floats(&self.root)
    }

    /// The parts of a removed document, to be freed in slices.
    pub fn into_debris(self) -> Debris {
        Debris { values: vec![self.root] }
    }

    /// The value at a place.
    pub fn get(&self, place: &[PlaceStep]) -> Option<Node<'_>> {
        place.iter().try_fold(self.root(), |node, step| match (node.view(), step) {
            (View::Object(object), PlaceStep::Name(name)) => object.get(name.as_str()?).map(Node::Value),
            (View::Array(array), PlaceStep::Index(index)) => array.get(*index),
            _ => None,
        })
    }

    /// Puts a value in the place of the one at `place`; whether one stood there.
    pub(crate) fn set(&mut self, place: &[PlaceStep], value: Value) -> bool {
        let Some((last, parent)) = place.split_last() else {
            self.heap_bytes = value.heap_bytes();
            self.root = value;
            return true;
        };
        self.edit(parent, |container, heap| match last {
            PlaceStep::Name(name) => {
                // A shared object is copied, without the slack of its buffer.
                let before = container.own_bytes();
                let slot = name.as_str().and_then(|name| container.member_mut(name));
                let found = slot.map(|slot| replace(slot, value, heap)).is_some();
                *heap += container.own_bytes() - before;
                found
            }
            PlaceStep::Index(index) => put_element(container, *index, value, heap),
        })
        .unwrap_or(false)
    }

    /// Removes the value at `place`, which is not the root; whether one stood there.
    pub(crate) fn remove(&mut self, place: &[PlaceStep]) -> bool {
        let Some((last, parent)) = place.split_last() else { return false };
        self.edit(parent, |container, heap| match last {
            PlaceStep::Name(name) => name.as_str().is_some_and(|name| remove_member(container, name, heap)),
            PlaceStep::Index(index) => {
                let removed = container.view_element_bytes(*index);
                measured(container, -removed, heap, |array| array.remove_element(*index)).is_some()
            }
        })
        .unwrap_or(false)
    }

    /// Calls `f` with the value at `place`, which is no element of a typed array; `f` adds to its second
    /// argument by how many bytes the blocks from there on grow. None if there is no such value.
    pub(crate) fn edit<R>(
        &mut self,
        place: &[PlaceStep],
        f: impl FnOnce(&mut Value, &mut isize) -> R,
    ) -> Option<R> {
        let mut heap = 0;
        let result = descend(&mut self.root, place, &mut heap, f);
        self.heap_bytes = self.heap_bytes.saturating_add_signed(heap);
        result
    }
}

/// As JSON text.
impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.root.fmt(f)
    }
}

fn has_narrow_floats(value: &Value) -> bool {
    match value.view() {
        View::Array(Array::Typed(typed)) => {
            matches!(typed, Typed::F16(_) | Typed::Bf16(_) | Typed::F32(_))
        }
        View::Array(Array::Values(values)) => values.iter().any(has_narrow_floats),
        View::Object(object) => object.members().iter().any(|member| has_narrow_floats(member.value())),
        _ => false,
    }
}

/// Refuses a value whose levels and the `below` containers around it reach the limit.
pub(crate) fn check_depth(below: usize, value: &Value) -> Result<()> {
    if below + value.depth() < DEPTH_LIMIT { Ok(()) } else { Err(Error::TooDeep) }
}

fn descend<R>(
    value: &mut Value,
    place: &[PlaceStep],
    heap: &mut isize,
    f: impl FnOnce(&mut Value, &mut isize) -> R,
) -> Option<R> {
    let Some((step, rest)) = place.split_first() else { return Some(f(value, heap)) };
    let before = value.own_bytes();
    let child = match step {
        PlaceStep::Name(name) => value.member_mut(name.as_str()?),
        PlaceStep::Index(index) => value.element_mut(*index),
    };
    let result = child.and_then(|child| descend(child, rest, heap, f));
    // A container that was shared has been copied, without the slack of its buffer.
    *heap += value.own_bytes() - before;
    result
}

/// Puts a member into an object; whether this is one.
pub(crate) fn put_member(object: &mut Value, name: Value, value: Value, heap: &mut isize) -> bool {
    if !matches!(object.view(), View::Object(_)) {
        return false;
    }
    let before = object.own_bytes();
    let name_bytes = name.all_bytes();
    let value_bytes = value.all_bytes();
    *heap += match object.insert_member(name, value) {
        Some(old) => value_bytes - old.all_bytes(),
        None => name_bytes + value_bytes,
    };
    *heap += object.own_bytes() - before;
    true
}

/// Removes a member; whether it was there.
pub(crate) fn remove_member(object: &mut Value, name: &str, heap: &mut isize) -> bool {
    let before = object.own_bytes();
    let removed = object.remove_member(name);
    let removed = removed.map(|member| member.name_value().all_bytes() + member.value().all_bytes());
    *heap += object.own_bytes() - before - removed.unwrap_or(0);
    removed.is_some()
}

fn put_element(array: &mut Value, index: usize, value: Value, heap: &mut isize) -> bool {
    let children = value.all_bytes() - array.view_element_bytes(index);
    measured(array, children, heap, |array| array.set_element(index, value)).is_some()
}

/// Calls `f` on an array, and counts by how much its blocks have grown; `children` is by how much those of
/// its elements have, if they have words of their own before and after.
pub(crate) fn measured<R>(
    array: &mut Value,
    children: isize,
    heap: &mut isize,
    f: impl FnOnce(&mut Value) -> R,
) -> R {
    let is_typed = |array: &Value| matches!(array.view(), View::Array(Array::Typed(_)));
    let before = array.own_bytes();
    let was_typed = is_typed(array);
    let result = f(array);
    *heap += match (was_typed, is_typed(array)) {
        (_, true) => array.own_bytes() - before,
        (true, false) => array.all_bytes() - before,
        (false, false) => array.own_bytes() - before + children,
    };
    result
}

impl Value {
    fn own_bytes(&self) -> isize {
        self.block_bytes() as isize
    }

    /// Bytes of the blocks of an element that has a word.
    fn view_element_bytes(&self, index: usize) -> isize {
        match self.view() {
            View::Array(Array::Values(values)) => values.get(index).map_or(0, Value::all_bytes),
            _ => 0,
        }
    }
}

/// Values to be freed in slices.
pub struct Debris {
    values: Vec<Value>,
}

impl Debris {
    /// Frees about `blocks` containers; whether nothing is left. A container's own buffer is freed at once.
    pub fn free_slice(&mut self, blocks: usize) -> bool {
        for _ in 0..blocks {
            let Some(value) = self.values.pop() else { break };
            value.dismantle(&mut self.values);
        }
        self.values.is_empty()
    }
}

#[cfg(test)]
mod tests;
