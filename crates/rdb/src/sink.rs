//! Where encoded bytes go: a trait, so that they are counted, kept or written by the same code.

/// Where encoded bytes go. It cannot fail: a file keeps its first error for the end.
pub trait Sink {
    /// Takes the next bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        martlet_base::copy::extend(self, bytes);
    }
}
