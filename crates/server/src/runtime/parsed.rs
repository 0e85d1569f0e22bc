//! Requests that are parsed and resolved before their connection's turn: those of bytes that the backend has
//! announced, and one that waits for the end of the poll. So a request is parsed once.
//!
//! Invariant: a request stands for the very bytes that it was parsed from. Announced bytes are the same as
//! long as they are reported in the announced order; the first others end the announcement.

use martlet_net::{Arrival, Token};
use martlet_protocol::request::Span;

use crate::batch::{Batch, ParsedRequest, Request};

/// Most spare requests that are kept.
const SPARE_MAX: usize = 64;

/// Where announced bytes are.
#[derive(Copy, Clone, PartialEq, Eq)]
struct Place {
    token: Token,
    address: usize,
    len: usize,
}

impl Place {
    fn of(token: Token, data: &[u8]) -> Place {
        Place { token, address: data.as_ptr().addr(), len: data.len() }
    }
}

/// Requests of the announced bytes, as far as they are one whole request each.
#[derive(Default)]
pub(super) struct Announced {
    /// Its requests start at the number of their place, and are in that order.
    pub batch: Batch,
    places: Vec<Place>,
    /// The first place that has not been reported, and the first request that belongs to none before it.
    next: (usize, usize),
    /// The request of the bytes that are being reported.
    claimed: Option<(Place, usize)>,
}

impl Announced {
    /// Begins with other announced bytes, of which there are no requests yet.
    pub fn begin(&mut self, arrivals: &[Arrival<'_>]) {
        self.forget();
        self.places.extend(arrivals.iter().map(|arrival| Place::of(arrival.token, arrival.data)));
    }

    fn forget(&mut self) {
        self.batch.clear();
        self.places.clear();
        (self.next, self.claimed) = ((0, 0), None);
    }

    /// These bytes are reported.
    #[inline]
    pub fn claim(&mut self, token: Token, data: &[u8]) {
        let (place, request) = self.next;
        let Some(announced) = self.places.get(place) else { return };
        if *announced != Place::of(token, data) {
            return self.forget();
        }
        let is_parsed = self.batch.requests.get(request).is_some_and(|of| of.start as usize == place);
        self.claimed = is_parsed.then_some((*announced, request));
        self.next = (place + 1, request + usize::from(is_parsed));
    }

    /// The call that reported them ends.
    #[inline]
    pub fn end_claim(&mut self) {
        self.claimed = None;
    }

    /// Adds the request that `input` is to `batch`, if these are the reported bytes.
    #[inline]
    pub fn take(&mut self, token: Token, input: &[u8], batch: &mut Batch) -> bool {
        let Some((_, index)) = self.claimed.take_if(|(place, _)| *place == Place::of(token, input)) else {
            return false;
        };
        let Some(request) = self.batch.requests.get(index) else { return false };
        let Some(spans) = self.batch.spans_of(request) else { return false };
        batch.push(spans, 0, input.len(), request.entry, request.hash);
        true
    }
}

/// Parsed requests that are not in use.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "a connection holds a request by its box")]
pub(super) struct SpareRequests(Vec<Box<ParsedRequest>>);

impl SpareRequests {
    /// A request of a batch as the first one of its connection's input.
    pub fn keep(&mut self, batch: &Batch, request: &Request) -> Option<Box<ParsedRequest>> {
        let mut kept = self.0.pop().unwrap_or_default();
        kept.spans.clear();
        let begin = request.start;
        let moved = |span: &Span| Span { start: span.start - begin, end: span.end - begin };
        kept.spans.extend(batch.spans_of(request)?.iter().map(moved));
        (kept.len, kept.entry, kept.hash) = ((request.end - begin) as usize, request.entry, request.hash);
        Some(kept)
    }

    pub fn put(&mut self, request: Box<ParsedRequest>) {
        if self.0.len() < SPARE_MAX {
            self.0.push(request);
        }
    }
}

#[cfg(test)]
mod tests;
