//! The request parser: malformed input, and any fragmentation gives the same requests as the whole.

use super::*;
use proptest::prelude::*;

type Requests = Vec<Vec<Vec<u8>>>;

/// Feeds `input` in pieces that end at `cuts` and collects all requests.
fn feed(input: &[u8], cuts: &[usize]) -> Result<Requests, ProtocolError> {
    feed_apart(input, cuts, usize::MAX)
}

/// As [`feed`], and incomplete arguments of `apart_bytes` or more are received apart.
fn feed_apart(input: &[u8], cuts: &[usize], apart_bytes: usize) -> Result<Requests, ProtocolError> {
    let limits = RequestLimits::default();
    let mut buffer = Vec::new();
    let mut partial = Partial::default();
    let mut requests = Vec::new();
    let mut fed = 0;
    for cut in cuts.iter().copied().chain([input.len()]) {
        let cut = cut.clamp(fed, input.len());
        buffer.extend_from_slice(partial.receive(&input[fed..cut]));
        fed = cut;
        if partial.is_apart() {
            continue;
        }
        let mut start = 0;
        loop {
            let mut spans = Vec::new();
            match parse(&buffer, start, &limits, &mut partial, &mut spans)? {
                Parsed::Complete(end) => {
                    let request: Vec<Vec<u8>> = if spans.is_empty() {
                        inline_words(&buffer[start..end])
                            .map(|o| o.view().iter().map(<[u8]>::to_vec).collect())
                            .unwrap_or_default()
                    } else {
                        let long = partial.take_long();
                        let args = Args::new(&buffer, &spans).with_long(long.as_deref());
                        let words: Vec<Vec<u8>> = args.iter().map(<[u8]>::to_vec).collect();
                        if let Some(long) = &long {
                            assert_eq!(long.unfold(&buffer[start..end]), encode(&vec![words.clone()]));
                            assert_eq!(args.encoded(), None);
                        }
                        for (index, word) in words.iter().enumerate() {
                            assert!(args.shared(index).is_none_or(|bytes| **bytes == *word));
                        }
                        words
                    };
                    if !request.is_empty() {
                        requests.push(request);
                    }
                    start = end;
                }
                Parsed::Incomplete => break,
            }
        }
        buffer.drain(..start);
        if let Some((_, at)) = partial.pending().filter(|(len, _)| *len >= apart_bytes) {
            partial.set_apart(&buffer[at..]);
            buffer.truncate(at);
        }
    }
    Ok(requests)
}

fn encode(requests: &Requests) -> Vec<u8> {
    let mut out = Vec::new();
    for request in requests {
        out.extend(format!("*{}\r\n", request.len()).bytes());
        for argument in request {
            out.extend(format!("${}\r\n", argument.len()).bytes());
            out.extend(argument);
            out.extend(b"\r\n");
        }
    }
    out
}

#[test]
fn inline_and_multibulk_mix() {
    let input = b"PING\r\n*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n\r\nset a \"b c\"\n*0\r\n*-1\r\nGET a\n";
    let got = feed(input, &[]).unwrap();
    let text: Vec<String> =
        got.iter().map(|r| r.join(&b'|')).map(|r| String::from_utf8(r).unwrap()).collect();
    assert_eq!(text, ["PING", "ECHO|hi", "set|a|b c", "GET|a"]);
}

#[test]
fn errors_are_redis_errors() {
    let cases: [(&[u8], &str); 10] = [
        (b"*x\r\n", "Protocol error: invalid multibulk length"),
        (b"*20000000000\r\n", "Protocol error: invalid multibulk length"),
        (b"*99999999999999999999999\r\n", "Protocol error: invalid multibulk length"),
        (b"*1\r\n$-1\r\n", "Protocol error: invalid bulk length"),
        (b"*1\r\n$x\r\n", "Protocol error: invalid bulk length"),
        (b"*1\r\n$2000000000\r\n", "Protocol error: invalid bulk length"),
        (b"*1\r\nfoo\r\n", "Protocol error: expected '$', got 'f'"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n", "Protocol error: expected '$', got 'f'"),
        (b"set \"\"\"test\"\"\" test\r\n", "Protocol error: unbalanced quotes in request"),
        (b"*01\r\n", "Protocol error: invalid multibulk length"),
    ];
    for (input, expected) in cases {
        assert_eq!(feed(input, &[]).unwrap_err().to_string(), expected, "{}", String::from_utf8_lossy(input));
    }
    let long = vec![b'a'; INLINE_MAX_BYTES + 1];
    assert_eq!(feed(&long, &[]).unwrap_err(), ProtocolError::InlineTooBig);
    let mut long = b"*".to_vec();
    long.resize(INLINE_MAX_BYTES + 2, b'1');
    assert_eq!(feed(&long, &[]).unwrap_err(), ProtocolError::MultibulkCountTooBig);
    let mut long = b"*1\r\n$".to_vec();
    long.resize(INLINE_MAX_BYTES + 6, b'1');
    assert_eq!(feed(&long, &[]).unwrap_err(), ProtocolError::BulkCountTooBig);
}

#[test]
fn unauthenticated_limits() {
    let limits = RequestLimits { bulk_max_bytes: 16384, arguments_max: 10, unauthenticated: true };
    let mut spans = Vec::new();
    let parse =
        |input: &[u8], spans: &mut Vec<Span>| parse(input, 0, &limits, &mut Partial::default(), spans);
    assert_eq!(parse(b"*11\r\n", &mut spans).unwrap_err(), ProtocolError::UnauthenticatedMultibulkLength);
    assert_eq!(parse(b"*1\r\n$16385\r\n", &mut spans).unwrap_err(), ProtocolError::UnauthenticatedBulkLength);
    assert!(matches!(parse(b"*1\r\n$16384\r\n", &mut spans), Ok(Parsed::Incomplete)));
}

#[test]
fn a_long_request_in_pieces_stays_out_of_the_batch_until_it_is_whole() {
    let input = encode(&vec![vec![b"abc".to_vec(); 1000]]);
    let (limits, mut partial) = (RequestLimits::default(), Partial::default());
    let mut spans = vec![Span { start: 0, end: 0 }];
    for end in 1..input.len() {
        let parsed = parse(&input[..end], 0, &limits, &mut partial, &mut spans);
        assert!(matches!(parsed, Ok(Parsed::Incomplete)) && spans.len() == 1, "{end}");
    }
    let parsed = parse(&input, 0, &limits, &mut partial, &mut spans);
    assert!(matches!(parsed, Ok(Parsed::Complete(end)) if end == input.len()));
    assert!(Args::new(&input, &spans[1..]).iter().eq(std::iter::repeat_n(&b"abc"[..], 1000)));
    assert_eq!(partial.heap_bytes(), 0);
}

proptest! {
    /// The short way and the long way read the same, whatever the bytes.
    #[test]
    fn common_requests_are_read_as_any(
        requests in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..130), 1..11), 1..3),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(b"*$\r\n019a".to_vec())), 0..4),
        cut in any::<prop::sample::Index>(),
        arguments_max in 1i64..12,
        bulk_max_bytes in 1i64..140,
    ) {
        let mut input = encode(&requests);
        for (at, byte) in changes {
            let at = at.index(input.len());
            input[at] = byte;
        }
        input.truncate(cut.index(input.len()) + 1);
        let limits = RequestLimits { bulk_max_bytes, arguments_max, unauthenticated: false };
        let before = Span { start: 7, end: 9 };
        let (mut short, mut long) = (vec![before], vec![before]);
        let end = parse_common(&input, 0, &limits, &mut short);
        let parsed = parse_any(&input, 0, &limits, &mut Partial::default(), &mut long);
        match end {
            Some(end) => {
                prop_assert!(matches!(parsed, Ok(Parsed::Complete(at)) if at == end), "{parsed:?}");
                prop_assert_eq!(short, long);
            }
            None => prop_assert_eq!(short, vec![before]),
        }
    }

    #[test]
    fn common_requests_are_read_the_short_way(
        request in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..999), 1..=COMMON_ARGUMENTS_MAX),
    ) {
        let input = encode(&vec![request]);
        prop_assert_eq!(parse_common(&input, 0, &RequestLimits::default(), &mut Vec::new()), Some(input.len()));
    }

    #[test]
    fn any_fragmentation_gives_the_same_requests(
        requests in proptest::collection::vec(proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 1..6), 0..6),
        mut cuts in proptest::collection::vec(0usize..600, 0..30),
    ) {
        cuts.sort_unstable();
        let input = encode(&requests);
        prop_assert_eq!(feed(&input, &cuts).unwrap(), requests.clone());
        let every: Vec<usize> = (0..input.len()).collect();
        prop_assert_eq!(feed(&input, &every).unwrap(), requests.clone());
        for apart_bytes in [0, 1, 20] {
            prop_assert_eq!(feed_apart(&input, &cuts, apart_bytes).unwrap(), requests.clone());
            prop_assert_eq!(feed_apart(&input, &every, apart_bytes).unwrap(), requests.clone());
        }
    }

    /// What lies apart is the first request's, however many are read ahead of it.
    #[test]
    fn requests_behind_one_with_a_long_argument_leave_it_that(
        long in proptest::collection::vec(any::<u8>(), 1..30),
        behind in prop::sample::select(vec![&b"PING\r\n"[..], b"*1\r\n$4\r\nPING\r\n", b"*0\r\n", b"PI", b"*2\r\n$4\r\nEC"]),
    ) {
        let mut input = encode(&vec![vec![b"SET".to_vec(), b"key".to_vec(), long.clone()]]);
        let (limits, mut partial, mut spans) = (RequestLimits::default(), Partial::default(), Vec::new());
        let begin = input.len() - long.len() - 2;
        let parsed = parse(&input[..begin], 0, &limits, &mut partial, &mut spans);
        prop_assert!(matches!(parsed, Ok(Parsed::Incomplete)));
        partial.set_apart(b"");
        input.extend_from_slice(behind);
        let rest = partial.receive(&input[begin..]);
        prop_assert_eq!(rest, behind);
        let buffer = [&input[..begin], behind].concat();
        let parsed = parse(&buffer, 0, &limits, &mut partial, &mut spans);
        prop_assert!(matches!(parsed, Ok(Parsed::Complete(end)) if end == begin), "{parsed:?}");
        let _ = parse(&buffer, begin, &limits, &mut partial, &mut Vec::new()).unwrap();
        let taken = partial.take_long();
        let args = Args::new(&buffer, &spans).with_long(taken.as_deref());
        prop_assert_eq!(args.at(2), long);
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_fragmentation_does_not_matter(
        input in proptest::collection::vec(prop_oneof![Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), b'0'..=b'9', any::<u8>()], 0..200),
    ) {
        let whole = feed(&input, &[]);
        let every: Vec<usize> = (0..input.len()).collect();
        let pieces = feed(&input, &every);
        prop_assert_eq!(whole.is_ok(), pieces.is_ok());
        if let (Ok(whole), Ok(pieces)) = (whole, pieces) {
            prop_assert_eq!(whole, pieces);
        }
    }
}

#[test]
fn the_length_as_an_array_is_told_and_bounded() {
    let requests: [Vec<Vec<u8>>; 4] = [
        vec![b"PING".to_vec()],
        vec![b"SET".to_vec(), b"k".to_vec(), vec![b'x'; 200]],
        vec![b"DEL".to_vec(), Vec::new(), vec![b'a'; 10]],
        vec![Vec::new(); 120],
    ];
    for words in requests {
        let owned = OwnedArgs::from_slices(words.iter().map(Vec::as_slice));
        let mut wire = format!("*{}\r\n", words.len()).into_bytes();
        for word in &words {
            wire.extend(format!("${}\r\n", word.len()).bytes());
            wire.extend_from_slice(word);
            wire.extend_from_slice(b"\r\n");
        }
        assert_eq!(owned.view().encoded_bytes(), wire.len());
        assert!(owned.view().encoded_bytes_at_most() >= wire.len());
    }
}
