//! LCS: the longest common subsequence of two strings.

use martlet_base::number::NumberBuffer;
use martlet_protocol::reply::Reply;
use martlet_spec::{Acl, Command, Cursor, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};

use crate::Handler;
use crate::context::Context;

pub(super) static LCS: Command<Handler> = command("lcs", -3, lcs as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::range(1, 1, 1, KeyFlags::RO.with(KeyFlags::ACCESS))])
    .acl(Acl::STRING)
    .syntax("key1:k0 key2:k0 ?LEN ?IDX ?min-match-len:i=MINMATCHLEN ?WITHMATCHLEN")
    .doc(
        Group::String,
        "7.0.0",
        "O(N*M), N and M being the strings' lengths",
        "Returns the longest common subsequence of two string values.",
    );

#[derive(Default)]
struct Options {
    len: bool,
    idx: bool,
    with_match_len: bool,
    min_match_len: usize,
}

impl Options {
    fn parse(mut rest: Cursor<'_>) -> Result<Options, Error> {
        let mut options = Options::default();
        loop {
            if rest.word("idx") {
                options.idx = true;
            } else if rest.word("len") {
                options.len = true;
            } else if rest.word("withmatchlen") {
                options.with_match_len = true;
            } else if rest.option("minmatchlen", 1) {
                options.min_match_len = usize::try_from(rest.int()?).unwrap_or(0);
            } else {
                break rest.finish()?;
            }
        }
        if options.len && options.idx {
            let text = "ERR If you want both the length and indexes, please just use IDX.";
            return Err(Error::Fixed(text));
        }
        Ok(options)
    }
}

fn lcs(ctx: &mut Context<'_>) -> Outcome {
    let keys = [ctx.key(1), ctx.key(2)];
    for key in &keys {
        if ctx.keys.lookup(key).is_some_and(|entry| entry.str().is_none()) {
            return Err(Error::Fixed("ERR The specified keys must contain string values"));
        }
    }
    let options = Options::parse(ctx.rest(3))?;
    let mut buffers = [NumberBuffer::new(), NumberBuffer::new()];
    let [a_buffer, b_buffer] = &mut buffers;
    let a = ctx.keys.get(&keys[0]).and_then(|e| e.str()).map_or(&[][..], |v| v.bytes(a_buffer));
    let b = ctx.keys.get(&keys[1]).and_then(|e| e.str()).map_or(&[][..], |v| v.bytes(b_buffer));
    let cells = (a.len() as u64 + 1).saturating_mul(b.len() as u64 + 1);
    if cells.saturating_mul(4) > ctx.settings.string_max_bytes as u64 {
        let text = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
        return Err(Error::Fixed(text));
    }
    let no_room = Error::Fixed("ERR Insufficient memory, failed allocating transient memory for LCS");
    let lengths = Lengths::new(a, b).ok_or(no_room)?;
    let total = lengths.at(a.len(), b.len());
    if options.idx {
        write_matches(ctx.reply, &options, &lengths.matches(a, b), total);
    } else if options.len {
        ctx.reply.count(total);
    } else {
        ctx.reply.bulk(&lengths.common(a, b));
    }
    Ok(())
}

/// The lengths of the longest common subsequences of all pairs of prefixes.
struct Lengths {
    /// Row by row, `width` numbers each: how many bytes of `a` by how many of `b`.
    cells: Vec<u32>,
    width: usize,
}

/// A run of equal bytes: where it begins and ends (inclusively) in both strings.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Match {
    a: (usize, usize),
    b: (usize, usize),
}

impl Lengths {
    /// `None` if there is not the memory for it.
    fn new(a: &[u8], b: &[u8]) -> Option<Lengths> {
        let width = b.len() + 1;
        let mut cells = Vec::new();
        cells.try_reserve_exact((a.len() + 1).checked_mul(width)?).ok()?;
        cells.resize((a.len() + 1) * width, 0u32);
        let mut rows = cells.chunks_exact_mut(width);
        let mut above: &mut [u32] = rows.next().unwrap_or(&mut []);
        for (&x, row) in a.iter().zip(rows) {
            let mut left = 0;
            for (j, &y) in b.iter().enumerate() {
                left = if x == y { above[j] + 1 } else { above[j + 1].max(left) };
                row[j + 1] = left;
            }
            above = row;
        }
        Some(Lengths { cells, width })
    }

    /// The length for the first `i` bytes of one string and the first `j` of the other.
    fn at(&self, i: usize, j: usize) -> usize {
        self.cells.get(i * self.width + j).map_or(0, |&length| length as usize)
    }

    /// Positions of equal bytes that make up one longest subsequence, from the last to the first.
    fn walk(&self, a: &[u8], b: &[u8], mut visit: impl FnMut(usize, usize)) {
        let (mut i, mut j) = (a.len(), b.len());
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                i -= 1;
                j -= 1;
                visit(i, j);
            } else if self.at(i - 1, j) > self.at(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
    }

    fn common(&self, a: &[u8], b: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.at(a.len(), b.len()));
        self.walk(a, b, |i, _| bytes.push(a[i]));
        bytes.reverse();
        bytes
    }

    /// The runs, from the last to the first.
    fn matches(&self, a: &[u8], b: &[u8]) -> Vec<Match> {
        let mut matches: Vec<Match> = Vec::new();
        self.walk(a, b, |i, j| match matches.last_mut() {
            Some(last) if last.a.0 == i + 1 && last.b.0 == j + 1 => {
                last.a.0 = i;
                last.b.0 = j;
            }
            _ => matches.push(Match { a: (i, i), b: (j, j) }),
        });
        matches
    }
}

fn write_matches(reply: &mut Reply, options: &Options, matches: &[Match], total: usize) {
    let length = |found: &Match| found.a.1 - found.a.0 + 1;
    let long_enough = || matches.iter().filter(|found| length(found) >= options.min_match_len);
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(long_enough().count());
    for found in long_enough() {
        reply.array(if options.with_match_len { 3 } else { 2 });
        for (from, to) in [found.a, found.b] {
            reply.array(2);
            reply.count(from);
            reply.count(to);
        }
        if options.with_match_len {
            reply.count(length(found));
        }
    }
    reply.bulk(b"len");
    reply.count(total);
}
