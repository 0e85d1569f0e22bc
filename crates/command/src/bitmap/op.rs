//! BITOP: bitwise operations over several strings.

use martlet_engine::EventClass;
use martlet_keyspace::{StrValue, Value};
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};

use crate::Handler;
use crate::context::Context;

pub(super) static BITOP: Command<Handler> = command("bitop", -4, bitop as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[
        KeyPart::one(2, KeyFlags::OW.with(KeyFlags::UPDATE)),
        KeyPart::range(3, -1, 1, KeyFlags::RO.with(KeyFlags::ACCESS)),
    ])
    .acl(Acl::BITMAP)
    .syntax("operation(AND|OR|XOR|NOT|DIFF|DIFF1|ANDOR|ONE) destkey:k0 *key:k1")
    .doc(Group::Bitmap, "2.6.0", "O(N)", "Combines strings bit by bit and stores the result.");

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    And,
    Or,
    Xor,
    Not,
    /// In the first one and in none of the others.
    Diff,
    /// In one of the others and not in the first.
    Diff1,
    /// In the first one and in one of the others.
    AndOr,
    /// In exactly one.
    One,
}

impl Operation {
    fn parse(word: &[u8]) -> Option<Operation> {
        use Operation::*;
        let all = [And, Or, Xor, Not, Diff, Diff1, AndOr, One];
        all.into_iter().find(|op| word.eq_ignore_ascii_case(op.name().as_bytes()))
    }

    fn name(self) -> &'static str {
        match self {
            Operation::And => "AND",
            Operation::Or => "OR",
            Operation::Xor => "XOR",
            Operation::Not => "NOT",
            Operation::Diff => "DIFF",
            Operation::Diff1 => "DIFF1",
            Operation::AndOr => "ANDOR",
            Operation::One => "ONE",
        }
    }
}

fn bitop(ctx: &mut Context<'_>) -> Outcome {
    let operation = Operation::parse(ctx.arg(1)).ok_or(Error::Syntax)?;
    if operation == Operation::Not && ctx.argc() != 4 {
        return Err(Error::Fixed("ERR BITOP NOT must be called with a single source key."));
    }
    if matches!(operation, Operation::Diff | Operation::Diff1 | Operation::AndOr) && ctx.argc() < 5 {
        let text = format!("ERR BITOP {} must be called with at least two source keys.", operation.name());
        return Err(Error::Text(text));
    }
    let sources: Vec<_> = (3..ctx.argc()).map(|index| ctx.key(index)).collect();
    for key in &sources {
        ctx.keys.read_str(key)?;
    }
    // Numbers are spelt out first, so that all sources are slices.
    let values: Vec<_> = sources.iter().map(|key| ctx.keys.get(key).and_then(|entry| entry.str())).collect();
    let spelt: Vec<_> = values.iter().map(|value| value.filter(is_number).map(StrValue::to_vec)).collect();
    let slices: Vec<&[u8]> = values
        .iter()
        .zip(&spelt)
        .map(|(value, spelt)| match (value, spelt) {
            (_, Some(text)) => text.as_slice(),
            (Some(StrValue::Bytes(bytes)), None) => bytes,
            _ => &[],
        })
        .collect();
    let result = combine(operation, &slices);
    let key = ctx.key(2);
    let len = result.len();
    if len > 0 {
        let value = Value::Str { bytes: result.into(), raw: true };
        ctx.keys.set_value(&key, value, None);
        ctx.keys.changed(&key, EventClass::STRING, "set");
    } else if ctx.keys.delete(&key) {
        ctx.keys.changed(&key, EventClass::GENERIC, "del");
    }
    ctx.reply.count(len);
    Ok(())
}

fn is_number(value: &StrValue<'_>) -> bool {
    matches!(value, StrValue::Int(_))
}

/// The result is as long as the longest source; shorter ones continue with clear bits.
pub(super) fn combine(operation: Operation, sources: &[&[u8]]) -> Vec<u8> {
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let (first, others) =
        sources.split_first().map_or((&[][..], &[][..]), |(first, others)| (*first, others));
    let mut result = first.to_vec();
    result.resize(len, 0);
    match operation {
        Operation::Not => result.iter_mut().for_each(|byte| *byte = !*byte),
        Operation::And => others.iter().for_each(|source| intersect(&mut result, source)),
        Operation::Or => others.iter().for_each(|source| merge(&mut result, source, |a, b| a | b)),
        Operation::Xor => others.iter().for_each(|source| merge(&mut result, source, |a, b| a ^ b)),
        Operation::Diff => others.iter().for_each(|source| merge(&mut result, source, |a, b| a & !b)),
        Operation::Diff1 | Operation::AndOr => {
            let mut union = vec![0; len];
            others.iter().for_each(|source| merge(&mut union, source, |a, b| a | b));
            if operation == Operation::AndOr {
                intersect(&mut result, &union);
            } else {
                merge(&mut union, first, |a, b| a & !b);
                result = union;
            }
        }
        Operation::One => {
            // Bits seen more than once so far are in no result.
            let mut repeated = vec![0; len];
            for source in others {
                merge_three(&mut result, &mut repeated, source);
            }
        }
    }
    result
}

/// Combines the source's bytes; past its end nothing changes.
fn merge(result: &mut [u8], source: &[u8], combine: impl Fn(u8, u8) -> u8) {
    for (byte, &other) in result.iter_mut().zip(source) {
        *byte = combine(*byte, other);
    }
}

fn intersect(result: &mut [u8], source: &[u8]) {
    merge(result, source, |a, b| a & b);
    if let Some(past) = result.get_mut(source.len()..) {
        past.fill(0);
    }
}

fn merge_three(once: &mut [u8], repeated: &mut [u8], source: &[u8]) {
    for ((once, repeated), &other) in once.iter_mut().zip(repeated).zip(source) {
        *repeated |= *once & other;
        *once = (*once | other) & !*repeated;
    }
}
