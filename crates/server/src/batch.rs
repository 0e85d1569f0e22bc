//! Requests that are parsed ahead, and the members whose memory is asked for before they run.

use martlet_base::number::parse_i64;
use martlet_base::prefetch::{Name, PrefetchQueue};
use martlet_command::{Flags, Group};
use martlet_protocol::request::{Args, Span};

use crate::registry::Entry;

/// A request parsed ahead.
#[derive(Copy, Clone)]
pub struct Request {
    pub(crate) first_span: u32,
    pub(crate) span_count: u32,
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) entry: Option<&'static Entry>,
    /// Hash of a plain command's key.
    pub(crate) hash: u64,
}

/// Requests parsed ahead; reused from batch to batch.
#[derive(Default)]
pub struct Batch {
    pub(crate) spans: Vec<Span>,
    pub(crate) requests: Vec<Request>,
    /// A request's command looks for a member of its key's value.
    pub(crate) names_members: bool,
    /// What they look for, as far as there is more of it to prefetch.
    pub(crate) members: Vec<Member>,
    pub(crate) queue: PrefetchQueue,
}

impl Batch {
    /// Leaves no request in it.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.requests.clear();
        self.names_members = false;
    }

    /// The arguments of one of its requests.
    pub fn spans_of(&self, request: &Request) -> Option<&[Span]> {
        let first = request.first_span as usize;
        self.spans.get(first..first + request.span_count as usize)
    }

    /// Adds a request that was parsed before.
    pub fn push(
        &mut self,
        spans: &[Span],
        start: usize,
        end: usize,
        entry: Option<&'static Entry>,
        hash: u64,
    ) {
        let (first_span, span_count) = (self.spans.len() as u32, spans.len() as u32);
        self.spans.extend_from_slice(spans);
        self.names_members |= entry.is_some_and(|entry| entry.spec.member.is_some());
        let (start, end) = (start as u32, end as u32);
        self.requests.push(Request { first_span, span_count, start, end, entry, hash });
    }
}

/// What a plain command's request looks for within its key's value.
#[derive(Copy, Clone)]
pub struct Member {
    pub(crate) db: usize,
    pub(crate) key_hash: u64,
    pub(crate) name: Name,
    /// Whether the command may add it.
    pub(crate) is_write: bool,
}

impl Member {
    /// What `request` looks for, if it is something; its arguments are in `input`.
    pub fn new(db: usize, input: &[u8], spans: &[Span], request: &Request) -> Option<Member> {
        let entry = request.entry?;
        entry.plain_key?;
        let first = request.first_span as usize;
        let spans = spans.get(first..first + request.span_count as usize)?;
        let bytes = Args::new(input, spans).get(entry.spec.member?)?;
        let name = match entry.spec.group {
            Group::List => Name::Index(parse_i64(bytes)?),
            _ => Name::text(bytes),
        };
        let is_write = entry.spec.flags.has(Flags::WRITE);
        Some(Member { db, key_hash: request.hash, name, is_write })
    }
}

/// The parsed request at the front of a connection's query buffer.
#[derive(Default)]
pub struct ParsedRequest {
    pub(crate) spans: Vec<Span>,
    /// Bytes of it.
    pub(crate) len: usize,
    pub(crate) entry: Option<&'static Entry>,
    pub(crate) hash: u64,
}

impl ParsedRequest {
    /// Adds it to `batch`, as the request at the front of `input`; the offset of its end.
    pub fn give(&self, input: &[u8], batch: &mut Batch) -> Option<usize> {
        let is_whole = self.len <= input.len();
        is_whole.then(|| {
            batch.push(&self.spans, 0, self.len, self.entry, self.hash);
            self.len
        })
    }
}
