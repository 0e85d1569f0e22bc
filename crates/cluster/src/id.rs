//! The 40 characters by which nodes and shards are known.
//!
//! Invariant: a [`NodeId`] has 40 characters of `0-9a-z`, the ones that Redis accepts.

use martlet_base::random::Random;
use std::fmt;

/// Length of an id, in bytes.
pub const ID_BYTES: usize = 40;

/// A node's name or a shard's. Ordered as bytes, which decides between equal epochs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId([u8; ID_BYTES]);

impl NodeId {
    /// The id that these bytes are; `None` when their number or a character is wrong.
    pub fn parse(bytes: &[u8]) -> Option<NodeId> {
        let id: [u8; ID_BYTES] = bytes.try_into().ok()?;
        let is_id = id.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
        is_id.then_some(NodeId(id))
    }

    /// A new id of hexadecimal digits.
    pub fn random(random: &mut Random) -> NodeId {
        NodeId(std::array::from_fn(|_| b"0123456789abcdef"[random.below(16) as usize]))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; ID_BYTES] {
        &self.0
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_forty_small_letters_and_digits() {
        assert!(NodeId::parse(&[b'z'; 40]).is_some());
        assert!(NodeId::parse(&[b'a'; 39]).is_none() && NodeId::parse(&[b'a'; 41]).is_none());
        assert!(NodeId::parse(&[b'A'; 40]).is_none() && NodeId::parse(&[0; 40]).is_none());
        let id = NodeId::random(&mut Random::seeded(1));
        assert_eq!(NodeId::parse(id.as_str().as_bytes()), Some(id));
    }
}
