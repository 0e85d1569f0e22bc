//! Long arguments, each received into a buffer of its own, which a command may keep: a stored argument is
//! copied once less.

use triomphe::Arc;

use crate::room;

/// What ends an argument.
const LINE_END_BYTES: usize = 2;

/// The long arguments of one request, in order. The last may be under way.
#[derive(Clone, Debug, Default)]
pub struct LongArguments {
    done: Vec<Long>,
    under_way: Option<UnderWay>,
}

#[derive(Clone, Debug)]
struct Long {
    bytes: Arc<Vec<u8>>,
    /// How much of the rest of the request lies before it, in bytes.
    at: usize,
}

#[derive(Clone, Debug)]
struct UnderWay {
    bytes: Vec<u8>,
    len: usize,
    at: usize,
    /// Bytes to come of what ends it.
    line_end: usize,
}

impl LongArguments {
    /// The argument with this number.
    pub fn get(&self, number: usize) -> Option<&Arc<Vec<u8>>> {
        self.done.get(number).map(|long| &long.bytes)
    }

    /// Puts `request`, which lacks them, together again, as it was received.
    pub fn unfold(&self, request: &[u8]) -> Vec<u8> {
        let line_ends = self.done.len() * LINE_END_BYTES;
        let mut whole = Vec::with_capacity(request.len() + self.len_bytes() + line_ends);
        let mut taken = 0;
        for long in &self.done {
            whole.extend_from_slice(&request[taken..long.at]);
            martlet_base::copy::extend(&mut whole, &long.bytes);
            whole.extend_from_slice(b"\r\n");
            taken = long.at;
        }
        whole.extend_from_slice(&request[taken..]);
        whole
    }

    pub(crate) fn begin(&mut self, at: usize, len: usize) {
        self.under_way = Some(UnderWay { bytes: Vec::new(), len, at, line_end: LINE_END_BYTES });
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// How many are whole.
    pub(crate) fn count(&self) -> usize {
        self.done.len()
    }

    /// Bytes received.
    pub(crate) fn len_bytes(&self) -> usize {
        let done: usize = self.done.iter().map(|long| long.bytes.len()).sum();
        done + self.under_way.as_ref().map_or(0, |long| long.bytes.len())
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let done: usize = self.done.iter().map(|long| long.bytes.capacity() + size_of::<Long>()).sum();
        size_of::<LongArguments>() + done + self.under_way.as_ref().map_or(0, |long| long.bytes.capacity())
    }

    /// Takes the bytes of the argument under way; returns the rest.
    pub(crate) fn receive<'d>(&mut self, data: &'d [u8]) -> &'d [u8] {
        let Some(long) = &mut self.under_way else { return data };
        let (taken, rest) = data.split_at(data.len().min(long.len - long.bytes.len()));
        let present = long.bytes.len() + taken.len();
        if let Some(capacity) = room::grown(long.bytes.capacity(), present, long.len) {
            long.bytes.reserve_exact(capacity.min(long.len) - long.bytes.len());
        }
        martlet_base::copy::extend(&mut long.bytes, taken);
        if long.bytes.len() < long.len {
            return rest;
        }
        let skipped = rest.len().min(long.line_end);
        long.line_end -= skipped;
        if long.line_end == 0
            && let Some(UnderWay { bytes, at, .. }) = self.under_way.take()
        {
            self.done.push(Long { bytes: Arc::new(bytes), at });
        }
        &rest[skipped..]
    }
}
