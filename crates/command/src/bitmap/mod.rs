//! Bitmaps: strings seen as bits, the most significant bit of each byte first.

use martlet_base::number::{NumberBuffer, parse_i64};
use martlet_engine::EventClass;
use martlet_protocol::reply::Reply;
use martlet_spec::{Acl, Command, Cursor, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};

use crate::Handler;
use crate::context::{Context, Settings};

mod bits;
mod field;
mod op;
#[cfg(test)]
mod tests;

/// The family.
pub static COMMANDS: &[&Command<Handler>] =
    &[&SETBIT, &GETBIT, &BITCOUNT, &BITPOS, &op::BITOP, &field::BITFIELD, &field::BITFIELD_RO];

const READS: &[KeyPart] = &[KeyPart::one(1, KeyFlags::RO.with(KeyFlags::ACCESS))];

const BAD_OFFSET: Error = Error::Fixed("ERR bit offset is not an integer or out of range");

/// A bit offset within the longest string that is allowed. With `unit_bits`, `#n` stands for the n-th unit.
fn parse_offset(settings: &Settings, text: &[u8], unit_bits: Option<u32>) -> Result<u64, Error> {
    let offset = match (text.strip_prefix(b"#"), unit_bits) {
        (Some(number), Some(bits)) => parse_i64(number).and_then(|n| n.checked_mul(i64::from(bits))),
        _ => parse_i64(text),
    };
    let offset = offset.and_then(|offset| u64::try_from(offset).ok()).ok_or(BAD_OFFSET)?;
    if offset >> 3 >= settings.string_max_bytes as u64 { Err(BAD_OFFSET) } else { Ok(offset) }
}

static SETBIT: Command<Handler> = command("setbit", 4, setbit as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))])
    .acl(Acl::BITMAP)
    .syntax("key:k0 offset:i value:i")
    .doc(
        Group::Bitmap,
        "2.2.0",
        "O(1)",
        "Sets or clears one bit of a string value; the key is created if it does not exist.",
    );

fn setbit(ctx: &mut Context<'_>) -> Outcome {
    let offset = parse_offset(ctx.settings, ctx.arg(2), None)?;
    let on = match parse_i64(ctx.arg(3)) {
        Some(bit @ (0 | 1)) => bit == 1,
        _ => return Err(Error::Fixed("ERR bit is not an integer or out of range")),
    };
    let key = ctx.key(1);
    let (byte, mask) = ((offset >> 3) as usize, 0x80u8 >> (offset & 7));
    let old_len = ctx.keys.read_str_for_write(&key)?.map(|value| value.len());
    let set = |place: &mut u8| {
        let was = *place & mask != 0;
        *place = if on { *place | mask } else { *place & !mask };
        was
    };
    let touched = byte..byte + 1;
    let fits = old_len.is_some_and(|len| byte < len);
    let in_place =
        if fits { ctx.keys.change_bytes(&key, touched.clone(), |bytes| set(&mut bytes[byte])) } else { None };
    let was = match in_place {
        Some(was) => was,
        None => ctx.keys.update_str(&key, touched, |bytes| {
            if bytes.len() <= byte {
                bytes.resize(byte + 1, 0);
            }
            set(&mut bytes[byte])
        }),
    };
    if was != on || old_len.is_none_or(|len| len <= byte) {
        ctx.keys.changed(&key, EventClass::STRING, "setbit");
    }
    ctx.reply.int(i64::from(was));
    Ok(())
}

static GETBIT: Command<Handler> = command("getbit", 3, getbit as Handler)
    .flags(Flags::READONLY.with(Flags::FAST))
    .keys(READS)
    .acl(Acl::BITMAP)
    .syntax("key:k0 offset:i")
    .doc(Group::Bitmap, "2.2.0", "O(1)", "Returns one bit of a string value.");

fn getbit(ctx: &mut Context<'_>) -> Outcome {
    let offset = parse_offset(ctx.settings, ctx.arg(2), None)?;
    let key = ctx.key(1);
    let mut buffer = NumberBuffer::new();
    let bytes = ctx.keys.read_str(&key)?.map_or(&[][..], |value| value.bytes(&mut buffer));
    let byte = bytes.get((offset >> 3) as usize).copied().unwrap_or(0);
    ctx.reply.int(i64::from(byte >> (7 - (offset & 7)) & 1));
    Ok(())
}

/// A range of a string as two arguments gave it: inclusive, from the end where negative.
#[derive(Copy, Clone, Debug)]
struct Range {
    start: i64,
    end: i64,
    in_bits: bool,
}

impl Range {
    /// `BIT` or `BYTE`, if one is there: whether bits count.
    fn parse_unit(mut rest: Cursor<'_>) -> Result<bool, Error> {
        let in_bits = rest.one_of(&[("bit", true), ("byte", false)]).unwrap_or(false);
        rest.finish()?;
        Ok(in_bits)
    }

    /// The bits of a string of `len` bytes that the range covers: begin and past the end. `None` without any.
    fn within(self, len: usize) -> Option<(u64, u64)> {
        let units = if self.in_bits { len as i64 * 8 } else { len as i64 };
        let from_end = |at: i64| if at < 0 { (at + units).max(0) } else { at };
        if self.start < 0 && self.end < 0 && self.start > self.end {
            return None;
        }
        let (start, end) = (from_end(self.start), from_end(self.end).min(units - 1));
        if start > end {
            return None;
        }
        let bits = if self.in_bits { 1 } else { 8 };
        Some((start as u64 * bits, (end as u64 + 1) * bits))
    }
}

static BITCOUNT: Command<Handler> = command("bitcount", -2, bitcount as Handler)
    .flags(Flags::READONLY)
    .keys(READS)
    .acl(Acl::BITMAP)
    .syntax("key:k0 ?range(start:i end:i ?unit(BYTE|BIT)^7.0.0)")
    .doc(Group::Bitmap, "2.6.0", "O(N)", "Counts the bits that are set in a string value or a part of it.")
    .history(&[("7.0.0", "`BYTE` and `BIT`, the unit of the range.")]);

fn bitcount(ctx: &mut Context<'_>) -> Outcome {
    let range = match ctx.argc() {
        2 => None,
        3 if ctx.settings.presentation.is_valkey() => {
            Some(Range { start: ctx.int(2)?, end: -1, in_bits: false })
        }
        4 | 5 => {
            let (start, end) = (ctx.int(2)?, ctx.int(3)?);
            Some(Range { start, end, in_bits: Range::parse_unit(ctx.rest(4))? })
        }
        _ => return Err(Error::Syntax),
    };
    let key = ctx.key(1);
    let mut buffer = NumberBuffer::new();
    let bytes = ctx.keys.read_str(&key)?.map_or(&[][..], |value| value.bytes(&mut buffer));
    let count = match range {
        None => bits::count(bytes),
        Some(range) => {
            range.within(bytes.len()).map_or(0, |(begin, end)| bits::count_range(bytes, begin, end))
        }
    };
    ctx.reply.int(count as i64);
    Ok(())
}

static BITPOS: Command<Handler> = command("bitpos", -3, bitpos as Handler)
    .flags(Flags::READONLY)
    .keys(READS)
    .acl(Acl::BITMAP)
    .syntax("key:k0 bit:i ?range(start:i ?end-unit-block(end:i ?unit(BYTE|BIT)^7.0.0))")
    .doc(Group::Bitmap, "2.8.7", "O(N)", "Finds the first bit that is set, or clear, in a string value.")
    .history(&[("7.0.0", "`BYTE` and `BIT`, the unit of the range.")]);

fn bitpos(ctx: &mut Context<'_>) -> Outcome {
    let wanted = match ctx.int(2)? {
        0 => false,
        1 => true,
        _ => return Err(Error::Fixed("ERR The bit argument must be 1 or 0.")),
    };
    if ctx.argc() > 6 {
        return Err(Error::Syntax);
    }
    let start = if ctx.argc() > 3 { ctx.int(3)? } else { 0 };
    let in_bits = Range::parse_unit(ctx.rest(5))?;
    let end = if ctx.argc() > 4 { Some(ctx.int(4)?) } else { None };
    let key = ctx.key(1);
    let mut buffer = NumberBuffer::new();
    let Some(value) = ctx.keys.read_str(&key)? else {
        // Nothing but clear bits, without an end.
        ctx.reply.int(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let bytes = value.bytes(&mut buffer);
    let range = Range { start, end: end.unwrap_or(-1), in_bits };
    write_position(ctx.reply, bytes, wanted, range, end.is_some());
    Ok(())
}

fn write_position(reply: &mut Reply, bytes: &[u8], wanted: bool, range: Range, has_end: bool) {
    let units = if range.in_bits { bytes.len() as i64 * 8 } else { bytes.len() as i64 };
    // Unlike BITCOUNT, a range of two negative ends in the wrong order may still cover the first unit.
    let from_end = |at: i64| if at < 0 { (at + units).max(0) } else { at };
    let range = Range { start: from_end(range.start), end: from_end(range.end), ..range };
    let position = match range.within(bytes.len()) {
        None => -1,
        Some((begin, end)) => match bits::find(bytes, wanted, begin, end) {
            Some(position) => position as i64,
            // A string without an explicit end continues with clear bits.
            None if !wanted && !has_end => end as i64,
            None => -1,
        },
    };
    reply.int(position);
}
