//! What SSCAN, HSCAN and ZSCAN have in common: cursor, options, and the shape of the reply.
//!
//! As in Redis, the cursor is looked at before the key, the options only where there is something to scan.

use martlet_base::glob;
use martlet_protocol::reply::Reply;

use crate::context::Context;
use crate::error::Error;
use crate::generic::parse_cursor;

/// Options of a scan.
pub(crate) struct ScanOptions<'a> {
    /// About how many elements a call visits.
    pub count: usize,
    /// Names only (HSCAN).
    pub no_values: bool,
    /// `None` for all.
    pattern: Option<&'a [u8]>,
}

/// The cursor, argument 2.
pub(crate) fn cursor(ctx: &Context<'_>) -> Result<u64, Error> {
    parse_cursor(ctx.arg(2)).ok_or(Error::Fixed("ERR invalid cursor"))
}

impl<'a> ScanOptions<'a> {
    /// The options from argument 3 on; NOVALUES where `of_hash`.
    pub fn parse(ctx: &Context<'a>, of_hash: bool) -> Result<ScanOptions<'a>, Error> {
        let mut options = ScanOptions { count: 10, no_values: false, pattern: None };
        let mut index = 3;
        while index < ctx.argc() {
            let has_value = index + 1 < ctx.argc();
            if ctx.is(index, "count") && has_value {
                let count = ctx.int(index + 1)?;
                options.count = usize::try_from(count).ok().filter(|n| *n >= 1).ok_or(Error::Syntax)?;
                index += 2;
            } else if ctx.is(index, "match") && has_value {
                options.pattern = Some(ctx.arg(index + 1)).filter(|pattern| *pattern != b"*");
                index += 2;
            } else if ctx.is(index, "novalues") {
                if !of_hash {
                    return Err(Error::Fixed("ERR NOVALUES option can only be used in HSCAN"));
                }
                options.no_values = true;
                index += 1;
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(options)
    }

    /// Whether an element of this name is asked for.
    #[inline]
    pub fn takes(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name, false))
    }
}

/// Writes the reply: `walk` writes the elements and returns the cursor to go on from and their number.
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
