//! What SSCAN, HSCAN and ZSCAN have in common: cursor, options, and the shape of the reply.
//!
//! As in Redis, the cursor is looked at before the key, the options only where there is something to scan.

use martlet_base::glob;
use martlet_protocol::reply::Reply;
use martlet_spec::Error;

use crate::context::Context;
use crate::generic::parse_cursor;

/// Options of a scan.
pub(crate) struct ScanOptions<'a> {
    /// About how many elements a call visits.
    pub count: usize,
    /// Names only: without the values or scores that belong to them.
    pub names_only: bool,
    /// `None` for all.
    pattern: Option<&'a [u8]>,
}

/// The cursor, argument 2.
pub(crate) fn cursor(ctx: &Context<'_>) -> Result<u64, Error> {
    parse_cursor(ctx.arg(2)).ok_or(Error::Fixed("ERR invalid cursor"))
}

impl<'a> ScanOptions<'a> {
    /// The options from argument 3 on; `names_only` is the word that asks for names only, if any does.
    pub fn parse(ctx: &Context<'a>, names_only: Option<&str>) -> Result<ScanOptions<'a>, Error> {
        let mut options = ScanOptions { count: 10, names_only: false, pattern: None };
        let mut rest = ctx.rest(3);
        loop {
            if rest.option("count", 1) {
                let count = usize::try_from(rest.int()?).ok();
                options.count = count.filter(|count| *count >= 1).ok_or(Error::Syntax)?;
            } else if rest.option("match", 1) {
                options.pattern = Some(rest.value()?).filter(|pattern| *pattern != b"*");
            } else if names_only.is_some_and(|word| rest.word(word)) {
                options.names_only = true;
            } else if rest.is_at("novalues") {
                return Err(Error::Fixed("ERR NOVALUES option can only be used in HSCAN"));
            } else {
                rest.finish()?;
                return Ok(options);
            }
        }
    }

    /// Whether an element of this name is asked for.
    #[inline]
    pub fn takes(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name, false))
    }
}

/// Writes the reply: `walk` writes the elements and returns the next cursor and their number.
pub(crate) fn answer(reply: &mut Reply, walk: impl FnOnce(&mut Reply) -> (u64, usize)) {
    reply.array(2);
    let start = reply.len();
    let (next, count) = walk(reply);
    // The cursor goes before the elements, but is known only after them.
    let elements = reply.as_bytes()[start..].to_vec();
    reply.truncate(start);
    reply.bulk(next.to_string().as_bytes());
    reply.array(count);
    reply.raw().extend_from_slice(&elements);
}

/// The reply for a key that is not there.
pub(crate) fn answer_empty(reply: &mut Reply) {
    answer(reply, |_| (0, 0));
}
