//! Any fragmentation of the input gives the same requests, or the same error after the same requests.

use martlet_protocol::long::LongArguments;
use martlet_protocol::request::{
    Args, Parsed, Partial, ProtocolError, RequestLimits, Span, inline_words, parse,
};

/// The limits under which untrusted input is parsed here: small, so that they are met.
const LIMITS: RequestLimits =
    RequestLimits { bulk_max_bytes: 1 << 20, arguments_max: 1024, unauthenticated: false };

type Requests = Vec<Vec<Vec<u8>>>;

/// The first byte says how the rest is cut.
pub fn check(data: &[u8]) {
    let Some((&cut, input)) = data.split_first() else { return };
    let whole = feed(input, input.len().max(1), usize::MAX);
    let pieces = feed(input, usize::from(cut % 16) + 1, usize::from(cut / 16) * 4);
    assert_eq!(whole, pieces, "in pieces of {} bytes", cut % 16 + 1);
    if let Err((_, error)) = &whole.1 {
        assert!(error.to_string().starts_with("Protocol error: "));
    }
}

/// The requests found when the input arrives in pieces, and the error that ended them. Incomplete arguments
/// of `apart_bytes` or more are received apart.
fn feed(input: &[u8], piece: usize, apart_bytes: usize) -> (Requests, Result<(), (usize, ProtocolError)>) {
    let (mut buffer, mut partial, mut requests) = (Vec::new(), Partial::default(), Requests::new());
    for bytes in input.chunks(piece) {
        buffer.extend_from_slice(partial.receive(bytes));
        if partial.is_apart() {
            continue;
        }
        let mut start = 0;
        loop {
            let mut spans: Vec<Span> = Vec::new();
            match parse(&buffer, start, &LIMITS, &mut partial, &mut spans) {
                Ok(Parsed::Complete(end)) => {
                    assert!(end > start && end <= buffer.len(), "a request ends inside its buffer");
                    let long = partial.take_long();
                    let words = words(&buffer, start..end, &spans, long.as_deref());
                    requests.extend((!words.is_empty()).then_some(words));
                    start = end;
                }
                Ok(Parsed::Incomplete) => break,
                Err(error) => {
                    let count = requests.len();
                    return (requests, Err((count, error)));
                }
            }
        }
        buffer.drain(..start);
        if let Some((_, at)) = partial.pending().filter(|(len, _)| *len >= apart_bytes) {
            partial.set_apart(&buffer[at..]);
            buffer.truncate(at);
        }
    }
    (requests, Ok(()))
}

fn words(
    buffer: &[u8],
    request: std::ops::Range<usize>,
    spans: &[Span],
    long: Option<&LongArguments>,
) -> Vec<Vec<u8>> {
    if spans.is_empty() {
        let words = inline_words(&buffer[request]);
        return words.map(|words| words.view().iter().map(<[u8]>::to_vec).collect()).unwrap_or_default();
    }
    Args::new(buffer, spans).with_long(long).iter().map(<[u8]>::to_vec).collect()
}
