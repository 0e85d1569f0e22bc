//! Asking for a document's memory before a command reads it.

use super::{Array, Value, View};
use martlet_base::prefetch::{CACHE_LINE_BYTES, PrefetchQueue, Progress};

/// Lines of a container that are asked for: a small object's first members.
const CONTAINER_LINES: usize = 2;

impl Value {
    /// One step ahead of a command on the document of this root: its block, then those of its children.
    pub(crate) fn queue_step(&self, step: usize, queue: &mut PrefetchQueue) -> Progress {
        if step == 0 {
            return match self.block() {
                Some(block) => {
                    queue.add_lines(block, CONTAINER_LINES * CACHE_LINE_BYTES);
                    Progress::More
                }
                None => Progress::Done,
            };
        }
        let mut add = |child: &Value| child.block().into_iter().for_each(|block| queue.add(block));
        match self.view() {
            View::Array(Array::Values(values)) => values.iter().take(super::SMALL_MAX).for_each(add),
            View::Object(object) => {
                object.members().iter().take(super::SMALL_MAX).for_each(|member| add(member.value()));
            }
            _ => {}
        }
        Progress::Done
    }
}
