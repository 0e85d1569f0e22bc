//! Walking over the paths of a [`PathHash`](super::PathHash) in order of their bytes.

use super::node::Node;
use crate::hash::Hash;

/// A node on the way to the current one, and which of its children comes next.
struct Level<'a> {
    node: &'a Node,
    next: usize,
}

/// Paths in order of their bytes, with their hashes.
pub struct Paths<'a> {
    levels: Vec<Level<'a>>,
    /// The path to the last level's node.
    path: Vec<u8>,
    /// The last level's node itself comes next.
    is_next: bool,
}

impl<'a> Paths<'a> {
    /// From `path` on.
    pub(super) fn from(root: &'a Node, path: &[u8]) -> Paths<'a> {
        Paths::seek(root, path, true)
    }

    /// Behind `path`.
    pub(super) fn after(root: &'a Node, path: &[u8]) -> Paths<'a> {
        Paths::seek(root, path, false)
    }

    fn seek(root: &'a Node, bound: &[u8], is_included: bool) -> Paths<'a> {
        let mut paths = Paths { levels: Vec::new(), path: Vec::new(), is_next: false };
        let (mut node, mut rest) = (root, bound);
        loop {
            let Some(&first) = rest.first() else {
                paths.levels.push(Level { node, next: 0 });
                paths.is_next = is_included;
                return paths;
            };
            let below = node.children_below(first);
            let child = node.child_at(below).filter(|child| child.label().first() == Some(&first));
            let Some(child) = child else {
                paths.levels.push(Level { node, next: below });
                return paths;
            };
            let Some(behind) = rest.strip_prefix(child.label()) else {
                // The child's paths are all behind the bound, or all before it.
                let next = below + usize::from(child.label() < rest);
                paths.levels.push(Level { node, next });
                return paths;
            };
            paths.levels.push(Level { node, next: below + 1 });
            paths.path.extend_from_slice(child.label());
            (node, rest) = (child, behind);
        }
    }

    /// The next path, whose bytes are there until the one after it is asked for.
    #[expect(clippy::should_implement_trait, reason = "the path is lent from the walk itself")]
    pub fn next(&mut self) -> Option<(&[u8], &'a Hash)> {
        loop {
            let level = self.levels.last_mut()?;
            let node = level.node;
            if std::mem::take(&mut self.is_next)
                && let Some(hash) = node.hash()
            {
                return Some((&self.path, hash));
            }
            match node.child_at(level.next) {
                Some(child) => {
                    level.next += 1;
                    self.path.extend_from_slice(child.label());
                    self.levels.push(Level { node: child, next: 0 });
                    self.is_next = true;
                }
                None => {
                    self.levels.pop();
                    self.path.truncate(self.path.len() - node.label().len());
                }
            }
        }
    }
}
