//! VADD, VREM, VSETATTR.

use martlet_keyspace::{Key, Object};
use martlet_spec::{Command, Cursor, Error, Flags, Outcome, command};
use martlet_values::Vectors;
use martlet_vector::graph::{Config, M_MAX, M_MIN, Metric, VectorError};
use martlet_vector::quantise::{DIMENSION_MAX, Encoding, Projection};
use martlet_vector::set::{Attribute, Insertion, VectorSet};

use super::{GROUP, INVALID_VECTOR, KEY, exploration, vector};
use crate::Handler;
use crate::context::Context;

/// Redis' defaults.
const M_DEFAULT: usize = 16;
const EF_DEFAULT: usize = 200;

pub(super) static VADD: Command<Handler> = command("vadd", -5, vadd as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(KEY)
    .syntax(
        "key:k0 ?reduce=REDUCE(dim:i) format(FP32|VALUES) vector element ?CAS \
         ?quant_type(NOQUANT|BIN|Q8) ?build-exploration-factor:i=EF ?attributes=SETATTR ?numlinks:i=M",
    )
    .doc(
        GROUP,
        "8.0.0",
        "O(log(N)) for each element added, N being the number of elements in the vector set",
        "Adds an element to a vector set, or replaces its vector.",
    );

/// The arguments of VADD.
struct Addition<'a> {
    reduce: Option<usize>,
    components: Vec<f32>,
    name: &'a [u8],
    encoding: Encoding,
    m: usize,
    ef: usize,
    attribute: Attribute<'a>,
}

impl<'a> Addition<'a> {
    fn parse(mut rest: Cursor<'a>) -> Result<Addition<'a>, Error> {
        let reduce = if rest.option("REDUCE", 1) {
            let dimension = rest.int().ok().and_then(|dimension| usize::try_from(dimension).ok());
            Some(dimension.filter(|dimension| *dimension > 0).ok_or(INVALID_VECTOR)?)
        } else {
            None
        };
        let components = vector(&mut rest)?;
        let mut addition = Addition {
            reduce,
            components,
            name: rest.value().map_err(|_| INVALID_VECTOR)?,
            encoding: Encoding::Q8,
            m: M_DEFAULT,
            ef: EF_DEFAULT,
            attribute: Attribute::Kept,
        };
        const ENCODINGS: &[(&str, Encoding)] =
            &[("NOQUANT", Encoding::F32), ("Q8", Encoding::Q8), ("BIN", Encoding::Bin)];
        while rest.left() > 0 {
            if let Some(encoding) = rest.one_of(ENCODINGS) {
                addition.encoding = encoding;
            } else if rest.option("EF", 1) {
                addition.ef = exploration(&mut rest)?;
            } else if rest.option("M", 1) {
                let m = rest.int().ok().and_then(|m| usize::try_from(m).ok());
                let m = m.filter(|m| (M_MIN..=M_MAX).contains(m));
                addition.m = m.ok_or(Error::Fixed("ERR invalid M"))?;
            } else if rest.option("SETATTR", 1) {
                addition.attribute = Attribute::Text(rest.value()?);
            } else if !rest.word("CAS") {
                return Err(Error::Fixed("ERR invalid option after element"));
            }
        }
        Ok(addition)
    }

    /// Whether a set that is there takes it.
    fn check(&self, set: &VectorSet) -> Outcome {
        let config = set.config();
        if self.encoding != config.encoding {
            return Err(Error::Fixed("ERR asked quantization mismatch with existing vector set"));
        }
        if self.m != config.m {
            return Err(Error::Fixed("ERR asked M value mismatch with existing vector set"));
        }
        let given = self.components.len();
        let fits = match (self.reduce, set.projection()) {
            (None, None) => given == config.dimension,
            (None, Some(_)) => false,
            (Some(_), None) if given == config.dimension => {
                return Err(Error::Fixed("ERR cannot add projection to existing set without projection"));
            }
            (Some(_), None) => false,
            (Some(reduced), Some(_)) if reduced != config.dimension => false,
            (Some(_), Some(projection)) if given != projection.input() => {
                return Err(super::search::input_mismatch(given, projection));
            }
            (Some(_), Some(_)) => true,
        };
        if fits { Ok(()) } else { Err(super::search::dimension_mismatch(given, config.dimension)) }
    }

    /// A set for it alone.
    fn new_set(&self, seed: u64) -> Result<VectorSet, Error> {
        let given = self.components.len();
        let projection = match self.reduce {
            Some(reduced) => Some(Projection::new(given, reduced).ok_or(INVALID_VECTOR)?),
            None => None,
        };
        let dimension = self.reduce.unwrap_or(given);
        let (encoding, metric, m) = (self.encoding, Metric::Cosine, self.m);
        VectorSet::new(Config { dimension, encoding, metric, m, seed }, projection).ok_or(INVALID_VECTOR)
    }

    fn insert(&self, set: &mut VectorSet, begun: Option<&Insertion>) -> Result<bool, Error> {
        let inserted = match begun {
            Some(begun) => set.finish_insertion(self.name, begun, self.attribute, self.ef),
            None => set.insert(self.name, &self.components, self.attribute, self.ef),
        };
        inserted.map_err(|error| match error {
            VectorError::NotAVector => INVALID_VECTOR,
            VectorError::Full => Error::Fixed("ERR the vector set has as many elements as it can have"),
        })
    }
}

/// Elements from which on neighbours are looked for without the shard's lock: for fewer, linking takes
/// longer.
const UNLOCKED_MIN: usize = 128;

/// Looks for the neighbours of the element to be, while others use the key and its shard; `None` where there
/// is too little to gain, or more than the request depends on the lock (in MULTI, in scripts, for a replica's
/// primary). The element is linked under the lock, with those neighbours that are still there then. So a
/// client's elements are added in the order of its requests, and each at one moment.
fn begin(ctx: &mut Context<'_>, key: &Key<'_>, addition: &Addition<'_>) -> Result<Option<Insertion>, Error> {
    let is_alone = ctx.deny_blocking || ctx.first_key.is_none();
    if is_alone || !ctx.settings.inserts_beside_others {
        return Ok(None);
    }
    let set = ctx.keys.get(key).and_then(|entry| entry.object::<Vectors>());
    let set = set.filter(|set| set.len() >= UNLOCKED_MIN && addition.check(set).is_ok());
    let Some(mut begun) = set.and_then(|set| set.insertion(&addition.components).ok()) else {
        return Ok(None);
    };
    ctx.keys.unlocked(|| begun.find_neighbours(addition.ef)).map_err(|_| Error::ShardBusy)?;
    Ok(Some(begun))
}

fn vadd(ctx: &mut Context<'_>) -> Outcome {
    let addition = Addition::parse(ctx.rest(2))?;
    if addition.components.len() > DIMENSION_MAX {
        return Err(INVALID_VECTOR);
    }
    let key = ctx.key(1);
    let begun = begin(ctx, &key, &addition)?;
    let present = match ctx.keys.write::<Vectors>(&key)? {
        Some(mut set) => {
            addition.check(&set)?;
            Some(addition.insert(&mut set, begun.as_ref())?)
        }
        None => None,
    };
    let is_new = match present {
        Some(is_new) => is_new,
        None => {
            let mut set = addition.new_set(ctx.keys.random.next_u64())?;
            addition.insert(&mut set, None)?;
            ctx.keys.set_value(&key, Vectors(set).into_value(), None);
            true
        }
    };
    changed(ctx, &key);
    ctx.reply.bool(is_new);
    Ok(())
}

/// Notes a change; no event tells of it.
fn changed(ctx: &mut Context<'_>, key: &Key<'_>) {
    ctx.keys.dirty += 1;
    ctx.keys.signal(key);
}

pub(super) static VREM: Command<Handler> =
    command("vrem", 3, vrem as Handler).flags(Flags::WRITE).keys(KEY).syntax("key:k0 element").doc(
        GROUP,
        "8.0.0",
        "O(log(N)), N being the number of elements in the vector set",
        "Removes an element from a vector set.",
    );

fn vrem(ctx: &mut Context<'_>) -> Outcome {
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let is_removed = ctx.keys.write::<Vectors>(&key)?.is_some_and(|mut set| set.remove(name));
    if is_removed {
        ctx.keys.delete_if_empty::<Vectors>(&key);
        changed(ctx, &key);
    }
    ctx.reply.bool(is_removed);
    Ok(())
}

pub(super) static VSETATTR: Command<Handler> = command("vsetattr", 4, vsetattr as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(KEY)
    .syntax("key:k0 element json")
    .doc(GROUP, "8.0.0", "O(1)", "Gives an element of a vector set an attribute, or removes it.");

fn vsetattr(ctx: &mut Context<'_>) -> Outcome {
    let (key, name, text) = (ctx.key(1), ctx.arg(2), ctx.arg(3));
    let is_there = ctx.keys.write::<Vectors>(&key)?.is_some_and(|mut set| set.set_attribute(name, text));
    if is_there {
        changed(ctx, &key);
    }
    ctx.reply.bool(is_there);
    Ok(())
}
