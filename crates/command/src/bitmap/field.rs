//! BITFIELD: integers of 1 to 64 bits at any bit offset of a string.

use martlet_base::number::{NumberBuffer, parse_i64};
use martlet_engine::EventClass;
use martlet_protocol::request::Args;
use martlet_spec::{Acl, Command, Cursor, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};

use super::{READS, parse_offset};
use crate::Handler;
use crate::context::Context;

const COMPLEXITY: &str = "O(1) for each subcommand";

pub(super) static BITFIELD: Command<Handler> = command("bitfield", -2, bitfield as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[KeyPart::one(
        1,
        KeyFlags::RW.with(KeyFlags::UPDATE).with(KeyFlags::ACCESS).with(KeyFlags::VARIABLE_FLAGS),
    )
    .notes("Its operations may read the key, change it, or both.")])
    .key_flags(key_flags)
    .acl(Acl::BITMAP)
    .syntax(
        "key:k0 ?*operation(get-block=GET(encoding \
         offset:i)|write(?overflow-block=OVERFLOW(WRAP|SAT|FAIL) \
         write-operation(set-block=SET(encoding offset:i value:i)|incrby-block=INCRBY(encoding \
         offset:i increment:i))))",
    )
    .doc(
        Group::Bitmap,
        "3.2.0",
        COMPLEXITY,
        "Reads and changes integers of any width inside a string value.",
    );

/// Whether BITFIELD only reads.
fn key_flags(args: &Args<'_>) -> KeyFlags {
    let changes = |word: &[u8]| word.eq_ignore_ascii_case(b"set") || word.eq_ignore_ascii_case(b"incrby");
    if args.iter().skip(2).any(changes) {
        KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE)
    } else {
        KeyFlags::RO.with(KeyFlags::ACCESS)
    }
}

fn bitfield(ctx: &mut Context<'_>) -> Outcome {
    let operations = parse(ctx)?;
    let end_of = |o: &Operation| o.offset + u64::from(o.field.bits);
    let writes = || operations.iter().filter(|o| !matches!(o.action, Action::Get));
    let Some(end) = writes().map(end_of).max() else { return read_all(ctx, &operations) };
    let key = ctx.key(1);
    let old_len = ctx.keys.read_str_for_write(&key)?.map(|value| value.len());
    let len = end.div_ceil(8) as usize;
    let grows = old_len.is_none_or(|old| old < len);
    let run = |bytes: &mut [u8]| operations.iter().map(|o| o.run(bytes)).collect::<Vec<_>>();
    let from = writes().map(|o| (o.offset / 8) as usize).min().unwrap_or(0);
    let in_place = if grows { None } else { ctx.keys.change_bytes(&key, from..len, run) };
    let results = match in_place {
        Some(results) => results,
        None => ctx.keys.update_str(&key, from..len, |bytes| {
            if bytes.len() < len {
                bytes.resize(len, 0);
            }
            run(bytes)
        }),
    };
    ctx.reply.array(results.len());
    for result in &results {
        match result.reply {
            Some(number) => ctx.reply.int(number),
            None => ctx.reply.null(),
        }
    }
    if grows || results.iter().any(|result| result.changed) {
        ctx.keys.changed(&key, EventClass::STRING, "setbit");
    }
    Ok(())
}

pub(super) static BITFIELD_RO: Command<Handler> = command("bitfield_ro", -2, bitfield_ro as Handler)
    .flags(Flags::READONLY.with(Flags::FAST))
    .keys(READS)
    .acl(Acl::BITMAP)
    .syntax("key:k0 ?*+get-block=GET(encoding offset:i)")
    .doc(Group::Bitmap, "6.0.0", COMPLEXITY, "Reads integers of any width inside a string value.");

fn bitfield_ro(ctx: &mut Context<'_>) -> Outcome {
    let operations = parse(ctx)?;
    if operations.iter().any(|o| !matches!(o.action, Action::Get)) {
        return Err(Error::Fixed("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    read_all(ctx, &operations)
}

fn read_all(ctx: &mut Context<'_>, operations: &[Operation]) -> Outcome {
    let key = ctx.key(1);
    let mut buffer = NumberBuffer::new();
    let bytes = ctx.keys.read_str(&key)?.map_or(&[][..], |value| value.bytes(&mut buffer));
    ctx.reply.array(operations.len());
    for operation in operations {
        ctx.reply.int(operation.field.read(bytes, operation.offset));
    }
    Ok(())
}

/// What becomes of a number that its field cannot hold.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Overflow {
    /// The lowest bits are kept.
    Wrap,
    /// The nearest number that fits.
    Saturate,
    /// Nothing is written.
    Fail,
}

#[derive(Copy, Clone, Debug)]
pub(super) enum Action {
    Get,
    Set(i64, Overflow),
    Add(i64, Overflow),
}

/// A kind of integer: 1 to 64 bits, or up to 63 if unsigned.
#[derive(Copy, Clone, Debug)]
pub(super) struct Field {
    pub(super) signed: bool,
    pub(super) bits: u32,
}

#[derive(Copy, Clone, Debug)]
pub(super) struct Operation {
    pub(super) field: Field,
    pub(super) offset: u64,
    pub(super) action: Action,
}

/// A subcommand's answer (`None` for null), and whether it changed the string.
pub(super) struct Done {
    pub(super) reply: Option<i64>,
    pub(super) changed: bool,
}

fn parse(ctx: &Context<'_>) -> Result<Vec<Operation>, Error> {
    let mut operations = Vec::new();
    let (mut overflow, mut rest) = (Overflow::Wrap, ctx.rest(2));
    loop {
        let action: fn(i64, Overflow) -> Action = if rest.option("overflow", 1) {
            let words = [("wrap", Overflow::Wrap), ("sat", Overflow::Saturate), ("fail", Overflow::Fail)];
            let unknown = Error::Fixed("ERR Invalid OVERFLOW type specified");
            overflow = rest.one_of(&words).ok_or(unknown)?;
            continue;
        } else if rest.option("get", 2) {
            let (field, offset) = field_at(ctx, &mut rest)?;
            operations.push(Operation { field, offset, action: Action::Get });
            continue;
        } else if rest.option("set", 3) {
            Action::Set
        } else if rest.option("incrby", 3) {
            Action::Add
        } else {
            rest.finish()?;
            return Ok(operations);
        };
        let (field, offset) = field_at(ctx, &mut rest)?;
        operations.push(Operation { field, offset, action: action(rest.int()?, overflow) });
    }
}

/// A field's type and offset.
fn field_at(ctx: &Context<'_>, rest: &mut Cursor<'_>) -> Result<(Field, u64), Error> {
    let field = Field::parse(rest.value()?)?;
    Ok((field, parse_offset(ctx.settings, rest.value()?, Some(field.bits))?))
}

impl Operation {
    /// Runs on a string that reaches as far as the operation.
    pub(super) fn run(&self, bytes: &mut [u8]) -> Done {
        let old = self.field.read(bytes, self.offset);
        let (wanted, overflow) = match self.action {
            Action::Get => return Done { reply: Some(old), changed: false },
            // A value to set is of its type: an unsigned field takes its 64 bits as a natural number.
            Action::Set(value, overflow) if !self.field.signed => (i128::from(value as u64), overflow),
            Action::Set(value, overflow) => (i128::from(value), overflow),
            Action::Add(increase, overflow) => (i128::from(old) + i128::from(increase), overflow),
        };
        let Some(new) = self.field.fit(wanted, overflow) else {
            return Done { reply: None, changed: false };
        };
        self.field.write(bytes, self.offset, new);
        let reply = if matches!(self.action, Action::Set(..)) { old } else { new };
        Done { reply: Some(reply), changed: old != new }
    }
}

impl Field {
    fn parse(text: &[u8]) -> Result<Field, Error> {
        let parsed = match text.split_first() {
            Some((b'i', width)) => parse_i64(width).filter(|bits| (1..=64).contains(bits)).map(|b| (true, b)),
            Some((b'u', width)) => {
                parse_i64(width).filter(|bits| (1..=63).contains(bits)).map(|b| (false, b))
            }
            _ => None,
        };
        let (signed, bits) = parsed.ok_or(Error::Fixed(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ))?;
        Ok(Field { signed, bits: bits as u32 })
    }

    /// The number at a bit offset; what lies past the string's end is 0.
    pub(super) fn read(&self, bytes: &[u8], offset: u64) -> i64 {
        let first = (offset / 8) as usize;
        let covered = (0..9).map(|i| bytes.get(first + i).copied().unwrap_or(0));
        let window = covered.fold(0u128, |window, byte| window << 8 | u128::from(byte));
        let shifted = (window >> (72 - offset % 8 - u64::from(self.bits))) as u64;
        let unused = 64 - self.bits;
        if self.signed {
            ((shifted << unused) as i64) >> unused
        } else {
            (shifted << unused >> unused) as i64
        }
    }

    /// Writes a number that fits; the string reaches as far as the field.
    pub(super) fn write(&self, bytes: &mut [u8], offset: u64, value: i64) {
        for bit in 0..u64::from(self.bits) {
            let at = offset + bit;
            let mask = 0x80u8 >> (at % 8);
            let set = value >> (u64::from(self.bits) - 1 - bit) & 1 == 1;
            if let Some(byte) = bytes.get_mut((at / 8) as usize) {
                *byte = if set { *byte | mask } else { *byte & !mask };
            }
        }
    }

    /// The number that the field holds when `wanted` is to be stored; `None` if it does not fit and must not
    /// be changed.
    fn fit(&self, wanted: i128, overflow: Overflow) -> Option<i64> {
        let (low, high) = if self.signed {
            (-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1)
        } else {
            (0, (1i128 << self.bits) - 1)
        };
        if (low..=high).contains(&wanted) {
            return Some(wanted as i64);
        }
        match overflow {
            Overflow::Fail => None,
            Overflow::Saturate => Some(wanted.clamp(low, high) as i64),
            Overflow::Wrap => {
                let unused = 64 - self.bits;
                let low_bits = wanted as u64;
                Some(if self.signed {
                    ((low_bits << unused) as i64) >> unused
                } else {
                    (low_bits << unused >> unused) as i64
                })
            }
        }
    }
}
