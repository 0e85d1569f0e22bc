//! ARSCAN and ARGREP: the elements in a range, all or those that some text is found in.

use martlet_base::glob;
use martlet_base::number::parse_i64;
use martlet_base::regex::Regex;
use martlet_protocol::reply::Reply;
use martlet_types::array::{Array, INDEX_MAX};
use martlet_types::element::{Element, IntBuffer};

use super::{Bounds, RO_ACCESS, index};
use crate::Handler;
use crate::context::Context;
use crate::cursor::Cursor;
use crate::error::{Error, Outcome};
use crate::list::bulk;
use crate::spec::{Acl, Command, Flags, Group, KeyPart, command};

/// Predicates of a request.
const PREDICATES_MAX: usize = 250;
/// Bytes of a regular expression.
const EXPRESSION_MAX_BYTES: usize = 2048;

pub(super) static ARSCAN: Command<Handler> = command("arscan", -4, arscan as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::ARRAY)
    .syntax("key:k0 start:i end:i ?limit:i=LIMIT")
    .doc(
        Group::Array,
        "8.8.0",
        "O(N), N being the number of elements in the range and of the slices that it touches",
        "Returns the elements in a range of an array with their indexes.",
    );

/// What LIMIT allows.
fn limit(text: &[u8]) -> Result<usize, Error> {
    match parse_i64(text).ok_or(Error::NotInteger)? {
        count @ 1.. => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
        _ => Err(Error::Fixed("ERR LIMIT must be positive")),
    }
}

/// Writes an index, and the element there if that is wanted.
fn write(reply: &mut Reply, (index, element): (u64, Element<'_>), with_value: bool) {
    if with_value {
        reply.array(2);
    }
    reply.unsigned(index);
    if with_value {
        bulk(reply, element);
    }
}

fn arscan(ctx: &mut Context<'_>) -> Outcome {
    let (bounds, key) = (Bounds::parse(ctx, 2)?, ctx.key(1));
    let most = match ctx.argc() {
        4 => usize::MAX,
        6 if ctx.arg(4).eq_ignore_ascii_case(b"LIMIT") => limit(ctx.arg(5))?,
        6 => return Err(Error::Syntax),
        _ => return Err(Error::Arity("arscan")),
    };
    let Context { keys, reply, .. } = ctx;
    let Some(array) = keys.read::<Array>(&key)? else {
        reply.array(0);
        return Ok(());
    };
    let (place, mut count) = (reply.defer(), 0);
    for found in bounds.elements(array).take(most) {
        write(reply, found, true);
        count += 1;
    }
    reply.close_array(place, count);
    Ok(())
}

pub(super) static ARGREP: Command<Handler> = command("argrep", -6, argrep as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::ARRAY)
    .syntax(
        "key:k0 start end *predicate(exact(EXACT string)|match(MATCH string)|glob(GLOB pattern)|re(RE pattern)) \
         ?*options(AND|OR|limit:i=LIMIT|WITHVALUES|NOCASE)",
    )
    .doc(
        Group::Array,
        "8.8.0",
        "O(N*M), N being the number of elements in the range, M the cost of the predicates for each",
        "Returns the indexes in a range of an array whose elements match a text, a pattern or an expression.",
    );

/// One end of the range.
#[derive(Clone, Copy)]
enum End {
    First,
    Last,
    At(u64),
}

impl End {
    fn parse(text: &[u8]) -> Result<End, Error> {
        match text {
            b"-" => Ok(End::First),
            b"+" => Ok(End::Last),
            _ => index(text).map(End::At),
        }
    }

    fn index(self, array: &Array) -> u64 {
        match self {
            End::First => 0,
            End::Last => array.extent().saturating_sub(1).min(INDEX_MAX),
            End::At(index) => index,
        }
    }
}

#[derive(Clone, Copy)]
enum Way {
    Exact,
    Match,
    Glob,
    Expression,
}

enum Predicate<'a> {
    Exact(&'a [u8]),
    Match(&'a [u8]),
    Glob(&'a [u8]),
    Expression(Box<Regex>),
}

/// What a request asks of an element.
struct Plan<'a> {
    predicates: Vec<Predicate<'a>>,
    all: bool,
    nocase: bool,
    with_values: bool,
    most: usize,
}

impl<'a> Plan<'a> {
    /// Predicates and options in any order; of an option that comes twice, the last counts.
    fn parse(mut rest: Cursor<'a>) -> Result<Plan<'a>, Error> {
        let mut asked: Vec<(Way, &[u8])> = Vec::new();
        let mut plan =
            Plan { predicates: Vec::new(), all: false, nocase: false, with_values: false, most: usize::MAX };
        const WAYS: [(&str, Way); 4] =
            [("EXACT", Way::Exact), ("MATCH", Way::Match), ("GLOB", Way::Glob), ("RE", Way::Expression)];
        while rest.left() > 0 {
            if let Some(way) = rest.one_of(&WAYS) {
                let text = rest.value()?;
                if asked.len() == PREDICATES_MAX {
                    return Err(Error::Text(format!("ERR too many predicates, maximum is {PREDICATES_MAX}")));
                }
                if matches!(way, Way::Expression) && text.len() > EXPRESSION_MAX_BYTES {
                    return Err(Error::Text(format!(
                        "ERR regular expression is too long, maximum is {EXPRESSION_MAX_BYTES} bytes"
                    )));
                }
                asked.push((way, text));
            } else if rest.word("LIMIT") {
                plan.most = limit(rest.value()?)?;
            } else if rest.word("WITHVALUES") {
                plan.with_values = true;
            } else if rest.word("NOCASE") {
                plan.nocase = true;
            } else if let Some(all) = rest.one_of(&[("AND", true), ("OR", false)]) {
                plan.all = all;
            } else {
                return Err(Error::Syntax);
            }
        }
        if asked.is_empty() {
            return Err(Error::Syntax);
        }
        let nocase = plan.nocase;
        plan.predicates = asked
            .into_iter()
            .map(|(way, text)| Predicate::new(way, text, nocase))
            .collect::<Result<_, Error>>()?;
        Ok(plan)
    }

    fn wants(&mut self, text: &[u8]) -> bool {
        let (nocase, mut predicates) = (self.nocase, self.predicates.iter_mut());
        if self.all {
            predicates.all(|predicate| predicate.holds(text, nocase))
        } else {
            predicates.any(|predicate| predicate.holds(text, nocase))
        }
    }
}

impl<'a> Predicate<'a> {
    fn new(way: Way, text: &'a [u8], nocase: bool) -> Result<Predicate<'a>, Error> {
        Ok(match way {
            Way::Exact => Predicate::Exact(text),
            Way::Match => Predicate::Match(text),
            Way::Glob => Predicate::Glob(text),
            Way::Expression if text.is_empty() => {
                return Err(Error::Fixed("ERR regular expression is empty"));
            }
            Way::Expression => {
                let expression = Regex::new(text, nocase)
                    .map_err(|error| Error::Text(format!("ERR invalid regular expression: {error}")))?;
                if expression.has_back_references() {
                    return Err(Error::Fixed("ERR regular expression backreferences are not supported"));
                }
                Predicate::Expression(Box::new(expression))
            }
        })
    }

    fn holds(&mut self, text: &[u8], nocase: bool) -> bool {
        match self {
            Predicate::Exact(whole) if nocase => text.eq_ignore_ascii_case(whole),
            Predicate::Exact(whole) => text == *whole,
            Predicate::Match(part) => contains(text, part, nocase),
            Predicate::Glob(pattern) => glob::matches(pattern, text, nocase),
            Predicate::Expression(expression) => expression.is_match(text),
        }
    }
}

/// Whether `part` is somewhere in `text`.
fn contains(text: &[u8], part: &[u8], nocase: bool) -> bool {
    let [first, ..] = part else { return true };
    text.windows(part.len()).any(|window| match nocase {
        true => window[0].eq_ignore_ascii_case(first) && window.eq_ignore_ascii_case(part),
        false => window[0] == *first && window == part,
    })
}

fn argrep(ctx: &mut Context<'_>) -> Outcome {
    let (start, end) = (End::parse(ctx.arg(2))?, End::parse(ctx.arg(3))?);
    let (mut plan, key) = (Plan::parse(ctx.rest(4))?, ctx.key(1));
    let Context { keys, reply, .. } = ctx;
    let Some(array) = keys.read::<Array>(&key)? else {
        reply.array(0);
        return Ok(());
    };
    let bounds = Bounds::new(start.index(array), end.index(array));
    let (place, mut count) = (reply.defer(), 0);
    let mut buffer = IntBuffer::new();
    for (index, element) in bounds.elements(array) {
        if plan.wants(element.as_bytes(&mut buffer)) {
            write(reply, (index, element), plan.with_values);
            count += 1;
            if count == plan.most {
                break;
            }
        }
    }
    reply.close_array(place, count);
    Ok(())
}
