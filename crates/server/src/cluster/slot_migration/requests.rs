//! Requests of a byte stream that arrives in pieces.
//!
//! Invariant: the kept bytes are the beginning of one request.

use martlet_protocol::request::{Args, Parsed, Partial, RequestLimits, parse};

/// Offsets of arguments are 32 bits wide.
const REQUEST_MAX_BYTES: i64 = u32::MAX as i64 - (1 << 24);

/// See the [module docs](self).
#[derive(Default)]
pub(super) struct Requests {
    input: Vec<u8>,
    partial: Partial,
}

impl Requests {
    /// Takes in bytes, and calls `each` with every request that is complete and with its bytes.
    ///
    /// # Errors
    /// Those of `each`, and that of bytes that are no requests.
    pub fn take<E: From<String>>(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&Args<'_>, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let limits = RequestLimits { bulk_max_bytes: REQUEST_MAX_BYTES, ..RequestLimits::default() };
        let (mut at, mut spans) = (0, Vec::new());
        while at < input.len() {
            spans.clear();
            match parse(&input, at, &limits, &mut self.partial, &mut spans) {
                Ok(Parsed::Incomplete) => break,
                Ok(Parsed::Complete(end)) => {
                    each(&Args::new(&input, &spans), input.get(at..end).unwrap_or_default())?;
                    at = end;
                }
                Err(error) => return Err(error.to_string().into()),
            }
        }
        input.drain(..at);
        self.input = input;
        Ok(())
    }

    /// Bytes of the incomplete request.
    pub fn kept_bytes(&self) -> usize {
        self.input.len()
    }
}
