//! A SHA-1 over values that is the same as Redis', whatever the encoding (DEBUG DIGEST), so that suites can
//! compare data sets.

use martlet_types::element::{Element, IntBuffer};
use sha1::{Digest as _, Sha1};

/// A digest under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest([u8; 20]);

impl Digest {
    /// Adds `bytes` in a way that does not depend on the order of additions.
    pub fn xor(&mut self, bytes: &[u8]) {
        self.xor_with(&Sha1::digest(bytes));
    }

    /// Adds a whole digest in such a way.
    pub fn xor_digest(&mut self, other: &Digest) {
        self.xor(&other.0);
    }

    /// Adds `bytes` behind the earlier ones.
    pub fn mix(&mut self, bytes: &[u8]) {
        self.xor(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    pub(crate) fn mix_element(&mut self, element: Element<'_>) {
        self.mix(element.as_bytes(&mut IntBuffer::new()));
    }

    /// Adds an element of a collection without order, made of parts that have one.
    pub(crate) fn xor_element(&mut self, fill: impl FnOnce(&mut Digest)) {
        let mut element = Digest::default();
        fill(&mut element);
        self.xor(&element.0);
    }

    fn xor_with(&mut self, other: &[u8]) {
        self.0.iter_mut().zip(other).for_each(|(byte, other)| *byte ^= other);
    }

    /// The digest in hexadecimal digits.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn a_string_has_valkeys_digest() {
        let mut digest = Digest::default();
        digest.mix(&0u32.to_be_bytes());
        digest.mix(b"hello");
        assert_eq!(digest.hex(), "36b23a1456b2dce2c3ed252c456761301dba8060");
    }
}
