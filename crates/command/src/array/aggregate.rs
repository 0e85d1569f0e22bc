//! AROP: one number from the elements in a range.
//!
//! Invariant: sums are those of the x87's 64-bit mantissas, in which Redis adds on x86.

use martlet_base::number::LongDouble;
use martlet_protocol::reply::Reply;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyPart, Outcome, command};
use martlet_types::array::{Array, inline_float};
use martlet_types::element::Element;

use super::{Bounds, RO_ACCESS};
use crate::Handler;
use crate::context::Context;

pub(super) static AROP: Command<Handler> = command("arop", -5, arop as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::ARRAY)
    .syntax("key:k0 start:i end:i operation(SUM|MIN|MAX|AND|OR|XOR|match(MATCH value)|USED)")
    .doc(
        Group::Array,
        "8.8.0",
        "O(N), N being the number of elements in the range and of the slices that it touches",
        "Returns the sum, the extremes, the bits or the number of the elements in a range of an array.",
    );

#[derive(Clone, Copy)]
enum Operation {
    Sum,
    Min,
    Max,
    And,
    Or,
    Xor,
    Match,
    Used,
}

const OPERATIONS: [(&str, Operation); 8] = [
    ("SUM", Operation::Sum),
    ("MIN", Operation::Min),
    ("MAX", Operation::Max),
    ("AND", Operation::And),
    ("OR", Operation::Or),
    ("XOR", Operation::Xor),
    ("MATCH", Operation::Match),
    ("USED", Operation::Used),
];

fn arop(ctx: &mut Context<'_>) -> Outcome {
    let (bounds, key) = (Bounds::parse(ctx, 2)?, ctx.key(1));
    let Some(operation) = ctx.rest(4).one_of(&OPERATIONS) else {
        return Err(Error::Fixed("ERR unknown operation"));
    };
    match (operation, ctx.argc()) {
        (Operation::Match, 6) => {}
        (Operation::Match, _) => return Err(Error::Fixed("ERR MATCH requires a value argument")),
        (_, 5) => {}
        _ => return Err(Error::Arity("arop")),
    }
    let wanted = ctx.arg(5);
    let Context { keys, reply, .. } = ctx;
    let none = Array::new();
    let array = keys.read::<Array>(&key)?.unwrap_or(&none);
    let elements = bounds.elements(array).map(|(_, element)| element);
    match operation {
        Operation::Used => reply.count(elements.count()),
        Operation::Match => reply.count(elements.filter(|element| element.eq_bytes(wanted)).count()),
        Operation::And => bits(reply, elements, |left, right| left & right),
        Operation::Or => bits(reply, elements, |left, right| left | right),
        Operation::Xor => bits(reply, elements, |left, right| left ^ right),
        Operation::Min => float(
            reply,
            elements.filter_map(number).reduce(|least, next| if next < least { next } else { least }),
        ),
        Operation::Max => float(
            reply,
            elements.filter_map(number).reduce(|most, next| if next > most { next } else { most }),
        ),
        Operation::Sum => sum(reply, elements.filter_map(number)),
    }
    Ok(())
}

/// The number that an element spells.
fn number(element: Element<'_>) -> Option<LongDouble> {
    let text = match element {
        Element::Int(int) => return Some(LongDouble::from(int)),
        Element::Bytes(text) => text,
    };
    // What Redis holds as a double it also computes with as that.
    match inline_float(text) {
        Some(value) => LongDouble::from_f64(value),
        None => LongDouble::parse(text),
    }
}

fn float(reply: &mut Reply, number: Option<LongDouble>) {
    match number {
        Some(number) => reply.bulk(&number.to_general_text()),
        None => reply.null(),
    }
}

fn sum(reply: &mut Reply, mut numbers: impl Iterator<Item = LongDouble>) {
    let Some(first) = numbers.next() else { return reply.null() };
    match numbers.try_fold(first, LongDouble::add_infinite) {
        Some(sum) => float(reply, Some(sum)),
        // As C writes what infinities of both signs make on x86.
        None => reply.bulk(b"-nan"),
    }
}

/// Combines the integer parts of all numbers that have one.
fn bits<'a>(reply: &mut Reply, elements: impl Iterator<Item = Element<'a>>, combine: fn(i64, i64) -> i64) {
    let whole = |element: Element<'_>| match element {
        Element::Int(int) => Some(int),
        _ => number(element)?.truncated(),
    };
    match elements.filter_map(whole).reduce(combine) {
        Some(bits) => reply.int(bits),
        None => reply.null(),
    }
}
