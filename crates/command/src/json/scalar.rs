//! JSON.NUMINCRBY, NUMMULTBY, NUMPOWBY, STRAPPEND, TOGGLE.

use martlet_json::ops::{self, Answer, NumberOperation};
use martlet_json::path::Path;
use martlet_json::value::Number;
use martlet_protocol::reply::Reply;
use martlet_spec::{Command, Flags, KeyPart, Outcome, command};

use super::{CHANGED, DOCUMENT, FILLS, GROUP, PathArgument, WRITES, answer, fault, format, update, utf8};
use crate::Handler;
use crate::context::Context;

const KEYS: &[KeyPart] = &[KeyPart::one(1, CHANGED)];

/// What the entries of the operations on numbers share.
const fn number_command(name: &'static str, handler: Handler, summary: &'static str) -> Command<Handler> {
    command(name, 4, handler)
        .flags(Flags::WRITE)
        .keys(KEYS)
        .member(DOCUMENT)
        .acl(WRITES)
        .syntax("key:k0 path value:d")
        .doc(
            GROUP,
            "1.0.0",
            "O(1) for a path to one value; else O(N), N being the size of the document",
            summary,
        )
}

pub(super) static NUMINCRBY: Command<Handler> = number_command(
    "json.numincrby",
    numincrby as Handler,
    "Adds a number to those at a path of a JSON document.",
);

fn numincrby(ctx: &mut Context<'_>) -> Outcome {
    operate(ctx, NumberOperation::Increment, "json.numincrby")
}

pub(super) static NUMMULTBY: Command<Handler> = number_command(
    "json.nummultby",
    nummultby as Handler,
    "Multiplies the numbers at a path of a JSON document.",
);

fn nummultby(ctx: &mut Context<'_>) -> Outcome {
    operate(ctx, NumberOperation::Multiply, "json.nummultby")
}

pub(super) static NUMPOWBY: Command<Handler> = number_command(
    "json.numpowby",
    numpowby as Handler,
    "Raises the numbers at a path of a JSON document to a power.",
);

fn numpowby(ctx: &mut Context<'_>) -> Outcome {
    operate(ctx, NumberOperation::Power, "json.numpowby")
}

fn operate(ctx: &mut Context<'_>, operation: NumberOperation, event: &'static str) -> Outcome {
    let (key, argument, operand) = (ctx.key(1), PathArgument::new(ctx.arg(2))?, ctx.arg(3));
    utf8(operand)?;
    let Context { keys, reply, .. } = ctx;
    let is_resp3 = reply.is_resp3();
    let numbers = update(keys, &key, event, |document| {
        let path = argument.path()?;
        // RESP3 has one shape for both dialects.
        let path = if is_resp3 { path.into_jsonpath() } else { path };
        let numbers = ops::number_operation(document, &path, operation, operand).map_err(fault)?;
        let has_result = numbers.has_result();
        Ok((numbers, has_result))
    })?;
    write_numbers(reply, numbers);
    Ok(())
}

/// Replies numbers: an array in RESP3, else JSON text.
fn write_numbers(reply: &mut Reply, numbers: Answer<Number>) {
    match numbers {
        Answer::Paths(_) if reply.is_resp3() => answer(reply, numbers, format::number),
        Answer::Legacy(number) => {
            let mut text = Vec::new();
            number.write(&mut text);
            reply.bulk(&text);
        }
        Answer::Paths(numbers) => {
            let mut text = vec![b'['];
            for (at, number) in numbers.into_iter().enumerate() {
                if at > 0 {
                    text.push(b',');
                }
                match number {
                    Some(number) => number.write(&mut text),
                    None => text.extend(b"null"),
                }
            }
            text.push(b']');
            reply.bulk(&text);
        }
    }
}

pub(super) static STRAPPEND: Command<Handler> = command("json.strappend", -3, strappend as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, CHANGED)])
    .member(DOCUMENT)
    .acl(WRITES)
    .syntax("key:k0 ?path value")
    .doc(
        GROUP,
        "1.0.0",
        "O(1) for a path to one value; else O(N), N being the size of the document",
        "Appends a JSON string to those at a path of a JSON document.",
    );

fn strappend(ctx: &mut Context<'_>) -> Outcome {
    let (argument, suffix) = match ctx.args.get(3) {
        Some(suffix) => (PathArgument::new(ctx.arg(2))?, suffix),
        None => (PathArgument::root(), ctx.arg(2)),
    };
    utf8(suffix)?;
    let key = ctx.key(1);
    let lengths = update(ctx.keys, &key, "json.strappend", |document| {
        let path = argument.path()?;
        let lengths = ops::str_append(document, &path, suffix).map_err(fault)?;
        let has_result = lengths.has_result();
        Ok((lengths, has_result))
    })?;
    answer(ctx.reply, lengths, Reply::count);
    Ok(())
}

pub(super) static TOGGLE: Command<Handler> = command("json.toggle", 3, toggle as Handler)
    .flags(Flags::WRITE)
    .keys(&[KeyPart::one(1, CHANGED)])
    .member(DOCUMENT)
    .acl(WRITES)
    .syntax("key:k0 path")
    .doc(
        GROUP,
        "2.0.0",
        "O(1) for a path to one value; else O(N), N being the size of the document",
        "Negates the booleans at a path of a JSON document.",
    );

fn toggle(ctx: &mut Context<'_>) -> Outcome {
    let (key, argument) = (ctx.key(1), PathArgument::new(ctx.arg(2))?);
    let values = update(ctx.keys, &key, "json.toggle", |document| {
        let path: Path = argument.path()?;
        let values = ops::toggle(document, &path).map_err(fault)?;
        let has_result = values.has_result();
        Ok((values, has_result))
    })?;
    match values {
        Answer::Legacy(value) => ctx.reply.bulk(if value { b"true" } else { b"false" }),
        values => answer(ctx.reply, values, |reply, value| reply.count(usize::from(value))),
    }
    Ok(())
}
