//! ARSCAN and ARGREP: the elements in a range, all or those that some text is found in.

use martlet_base::glob;
use martlet_base::number::parse_i64;
use martlet_base::regex::{Budget, PROGRAM_MAX, Regex, TooManySteps};
use martlet_protocol::reply::Reply;
use martlet_spec::{Acl, Command, Cursor, Error, Flags, Group, KeyPart, Outcome, command};
use martlet_types::array::{Array, INDEX_MAX};
use martlet_types::element::{Element, IntBuffer};
use memchr::memmem;

use super::{Bounds, RO_ACCESS, index};
use crate::Handler;
use crate::context::Context;
use crate::list::bulk;

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
    /// For the text in lower case, if case is ignored.
    Match(Box<memmem::Finder<'a>>),
    Glob(&'a [u8]),
    Expression(Box<Regex>),
}

/// A request's questions about an element.
struct Plan<'a> {
    predicates: Vec<Predicate<'a>>,
    all: bool,
    nocase: bool,
    with_values: bool,
    most: usize,
    /// For the expressions.
    budget: Budget,
    /// An element in lower case.
    folded: Vec<u8>,
}

impl<'a> Plan<'a> {
    /// Predicates and options in any order; of an option that comes twice, the last counts.
    fn parse(mut rest: Cursor<'a>) -> Result<Plan<'a>, Error> {
        let mut asked: Vec<(Way, &[u8])> = Vec::new();
        let mut plan = Plan {
            predicates: Vec::new(),
            all: false,
            nocase: false,
            with_values: false,
            most: usize::MAX,
            budget: Budget::new(),
            folded: Vec::new(),
        };
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
        let (nocase, mut steps_left) = (plan.nocase, PROGRAM_MAX);
        plan.predicates = asked
            .into_iter()
            .map(|(way, text)| Predicate::new(way, text, nocase, &mut steps_left))
            .collect::<Result<_, Error>>()?;
        Ok(plan)
    }

    fn wants(&mut self, text: &[u8]) -> Result<bool, TooManySteps> {
        if self.nocase && self.predicates.iter().any(|predicate| matches!(predicate, Predicate::Match(_))) {
            self.folded.clear();
            self.folded.extend_from_slice(text);
            self.folded.make_ascii_lowercase();
        }
        for predicate in &mut self.predicates {
            let holds = match predicate {
                Predicate::Exact(whole) if self.nocase => text.eq_ignore_ascii_case(whole),
                Predicate::Exact(whole) => text == *whole,
                Predicate::Match(finder) if self.nocase => finder.find(&self.folded).is_some(),
                Predicate::Match(finder) => finder.find(text).is_some(),
                Predicate::Glob(pattern) => glob::matches(pattern, text, self.nocase),
                Predicate::Expression(expression) => expression.is_match(text, &mut self.budget)?,
            };
            if holds != self.all {
                return Ok(holds);
            }
        }
        Ok(self.all)
    }
}

impl<'a> Predicate<'a> {
    /// The predicates of a request have `steps_left` steps for the programs of their expressions.
    fn new(way: Way, text: &'a [u8], nocase: bool, steps_left: &mut usize) -> Result<Predicate<'a>, Error> {
        Ok(match way {
            Way::Exact => Predicate::Exact(text),
            Way::Match if nocase => {
                let text = text.to_ascii_lowercase();
                Predicate::Match(Box::new(memmem::Finder::new(&text).into_owned()))
            }
            Way::Match => Predicate::Match(Box::new(memmem::Finder::new(text))),
            Way::Glob => Predicate::Glob(text),
            Way::Expression if text.is_empty() => {
                return Err(Error::Fixed("ERR regular expression is empty"));
            }
            Way::Expression => {
                let expression = Regex::new(text, nocase, *steps_left)
                    .map_err(|error| Error::Text(format!("ERR invalid regular expression: {error}")))?;
                if expression.has_back_references() {
                    return Err(Error::Fixed("ERR regular expression backreferences are not supported"));
                }
                *steps_left = steps_left.saturating_sub(expression.program_len());
                Predicate::Expression(Box::new(expression))
            }
        })
    }
}

/// The error for expressions that would take long; Redis has no such error, and continues.
fn too_many_steps(error: TooManySteps) -> Error {
    Error::Text(format!("ERR {error}, search fewer elements at a time or simplify it"))
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
        if plan.wants(element.as_bytes(&mut buffer)).map_err(too_many_steps)? {
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
