//! Vector sets: adding, removing and describing elements. Searching is in `search`, the graph and its
//! elements in `martlet_vector`.
//!
//! As in Redis no key event tells of a change, and the commands have no ACL category.

mod add;
mod inspect;
mod search;
#[cfg(test)]
mod tests;

use martlet_base::number::parse_f64_saturating;
use martlet_spec::{Command, Cursor, Error, Flags, Group, KeyFlags, KeyPart, module};
use martlet_values::Vectors;
use martlet_vector::convert::Component;

use crate::Handler;
use crate::context::Context;

/// The family.
pub static COMMANDS: &[&Command<Handler>] = &[
    &add::VADD,
    &add::VREM,
    &add::VSETATTR,
    &search::VSIM,
    &inspect::VCARD,
    &inspect::VDIM,
    &inspect::VEMB,
    &inspect::VGETATTR,
    &inspect::VINFO,
    &inspect::VISMEMBER,
    &inspect::VLINKS,
    &inspect::VRANDMEMBER,
    &inspect::VRANGE,
];

const GROUP: Group = Group::Module(&module::VECTOR_SETS);
/// Redis says the same of all these commands.
const KEY: &[KeyPart] = &[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))];
const READS_FAST: Flags = Flags::READONLY.with(Flags::FAST);

const INVALID_VECTOR: Error = Error::Fixed("ERR invalid vector specification");

/// Candidates that a search keeps, at most.
const EF_MAX: i64 = 1_000_000;

/// EF's value.
fn exploration(rest: &mut Cursor<'_>) -> Result<usize, Error> {
    let ef = rest.int().ok().filter(|ef| (1..=EF_MAX).contains(ef));
    ef.map(|ef| ef as usize).ok_or(Error::Fixed("ERR invalid EF"))
}

/// Takes `FP32 blob` or `VALUES count value …`; finite components of single precision.
fn vector(rest: &mut Cursor<'_>) -> Result<Vec<f32>, Error> {
    let mut components = Vec::new();
    if rest.option("FP32", 1) {
        Component::F32.decode(rest.value()?, &mut components).ok_or(INVALID_VECTOR)?;
    } else if rest.option("VALUES", 1) {
        let count = rest.int().map_err(|_| INVALID_VECTOR)?;
        let args = rest.args();
        let span = rest.span(count).map_err(|_| INVALID_VECTOR)?;
        components.reserve_exact(span.len());
        for text in args.iter().take(span.len()) {
            components.push(parse_f64_saturating(text).ok_or(INVALID_VECTOR)? as f32);
        }
    }
    if components.is_empty() || components.iter().any(|component| !component.is_finite()) {
        return Err(INVALID_VECTOR);
    }
    Ok(components)
}

/// The set at the first key.
fn read<'a>(ctx: &'a mut Context<'_>) -> Result<Option<&'a Vectors>, Error> {
    let key = ctx.key(1);
    Ok(ctx.keys.read::<Vectors>(&key)?)
}
