//! Where encoded bytes go: a trait, so that they are counted, kept or written by the same code.

use martlet_base::copy;

/// Where encoded bytes go. It cannot fail: a file keeps its first error for the end.
pub trait Sink {
    /// Takes the next bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        copy::extend(self, bytes);
    }
}

/// Counts bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter(pub usize);

impl Sink for Counter {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// Bytes collected before they are passed on: most puts are of a few.
const BUFFER_BYTES: usize = 512;

/// A sink of one type in front of one of any type: what collects small pieces without a call for each.
/// Dropping it passes on the rest.
pub struct Writer<'a> {
    buffer: [u8; BUFFER_BYTES],
    len: usize,
    out: &'a mut dyn Sink,
    owner: Owner<'a>,
}

/// The key of a value that is written, for types whose form has it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Owner<'a> {
    /// The key; empty where it is not known.
    pub key: &'a [u8],
    /// Whether the value's ties to other keys are written, as in files; DUMP leaves them out.
    pub has_links: bool,
}

impl<'a> Writer<'a> {
    /// In front of `out`.
    pub fn new(out: &'a mut dyn Sink) -> Writer<'a> {
        Writer::of(out, Owner::default())
    }

    /// In front of `out`, for the value of a key.
    pub fn of(out: &'a mut dyn Sink, owner: Owner<'a>) -> Writer<'a> {
        Writer { buffer: [0; BUFFER_BYTES], len: 0, out, owner }
    }

    /// The key whose value is written.
    pub fn owner(&self) -> Owner<'a> {
        self.owner
    }

    fn flush(&mut self) {
        if let Some(bytes) = self.buffer.get(..self.len).filter(|bytes| !bytes.is_empty()) {
            self.out.put(bytes);
            self.len = 0;
        }
    }

    #[cold]
    fn put_beyond(&mut self, bytes: &[u8]) {
        self.flush();
        match self.buffer.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.len = bytes.len();
            }
            None => self.out.put(bytes),
        }
    }
}

impl Sink for Writer<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        match self.buffer.get_mut(self.len..self.len + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.put_beyond(bytes),
        }
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_arrive_in_order() {
        let (mut plain, mut collected) = (Vec::new(), Vec::new());
        let mut writer = Writer::new(&mut collected);
        for len in (0..700).chain([BUFFER_BYTES, 1, BUFFER_BYTES - 1, 5_000]) {
            let piece: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
            plain.put(&piece);
            writer.put(&piece);
        }
        drop(writer);
        assert!(plain == collected);
    }
}
