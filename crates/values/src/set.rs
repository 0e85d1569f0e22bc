//! Sets.
//!
//! ```text
//!  2  count | string …
//! 11  an intset as string
//! 20  a listpack as string
//! 34  earliest time: 8 | a listpack of member, time or 0, … as string, by time
//! 35  earliest time: 8 | count | (0, or time - earliest + 1 | member) …
//! ```
//! Times are Unix milliseconds. 34 and 35 are Redis 8.12's, as the branch of its change #15938 has them.

use martlet_rdb::input::{Input, InputExt};
use martlet_rdb::{
    Error, Sink, Writer, intset, listpack, read_bytes, read_count, read_plain_length, skip_bytes,
};
use martlet_rdb::{write_bytes, write_element, write_length};
use martlet_spec::data_type::{self, TypeView};
use martlet_types::element::{Element, IntBuffer};
use martlet_types::set::{Member, NO_EXPIRY, Set, SetLimits};

use crate::batched_insert::BatchedInsert;
use crate::commands::{Commands, number, text};
use crate::descriptor::{DataType, Descriptor, Encoded, RdbType, Requirement};
use crate::digest::Digest;
use crate::export::Export;
use crate::form::{VERSION_SET_LISTPACKS, VERSION_TIMED_MEMBERS, write_packed};
use crate::times;

const STRINGS: u8 = 2;
const INTSET: u8 = 11;
const LISTPACK: u8 = 20;
const TIMED_LISTPACK: u8 = 34;
const TIMED: u8 = 35;

pub(crate) static DESCRIPTOR: Descriptor = Descriptor::of::<Set>();

impl DataType for Set {
    const RDB_TYPES: &'static [RdbType] = &[
        RdbType { byte: STRINGS, since: 6 },
        RdbType { byte: INTSET, since: 6 },
        RdbType { byte: LISTPACK, since: VERSION_SET_LISTPACKS },
        RdbType { byte: TIMED_LISTPACK, since: VERSION_TIMED_MEMBERS },
        RdbType { byte: TIMED, since: VERSION_TIMED_MEMBERS },
    ];
    const REQUIREMENTS: &'static [Requirement] = &[Requirement {
        version: VERSION_TIMED_MEMBERS,
        in_valkey: false,
        values: "sets whose members expire",
    }];
    const KEYSIZES: Option<&'static str> = Some("distrib_sets_items");
    const VIEW: Option<&'static TypeView> = Some(&data_type::SET);

    fn rdb_type(&self, version: u16) -> u8 {
        match (self.encoding(), self.next_expiry_ms() != NO_EXPIRY) {
            ("hashtable", true) => TIMED,
            (_, true) => TIMED_LISTPACK,
            ("intset", false) => INTSET,
            ("listpack" | "listpackex", false) if version >= VERSION_SET_LISTPACKS => LISTPACK,
            (_, false) => STRINGS,
        }
    }

    fn write(&self, out: &mut Writer<'_>, byte: u8, compress: bool) {
        match byte {
            INTSET => {
                let ints: Vec<i64> = self.iter().filter_map(|member| member.element.as_int()).collect();
                write_bytes(out, &intset::write(&ints), compress);
            }
            LISTPACK => write_packed(out, self.packed(), elements(self), compress),
            TIMED_LISTPACK => write_timed_listpack(out, self, compress),
            TIMED => write_timed(out, self, compress),
            _ => {
                write_length(out, self.len() as u64);
                elements(self).for_each(|member| write_element(out, member, compress));
            }
        }
    }

    fn read(input: &mut (impl Input + ?Sized), encoded: Encoded<'_>) -> Result<Set, Error> {
        let (limits, mut scratch) = (encoded.limits.set, Vec::new());
        match encoded.byte {
            INTSET => of_intset(read_bytes(input, &mut scratch)?, limits),
            LISTPACK => of_listpack(read_bytes(input, &mut scratch)?, limits),
            TIMED_LISTPACK => {
                input.array::<8>()?;
                of_timed_listpack(read_bytes(input, &mut scratch)?, limits)
            }
            TIMED => {
                let earliest_ms = u64::from_le_bytes(input.array()?);
                of_strings(input, Some(earliest_ms), limits)
            }
            _ => of_strings(input, None, limits),
        }
    }

    fn skip(input: &mut &[u8], byte: u8, _version: u16) -> Result<(), Error> {
        if matches!(byte, TIMED_LISTPACK | TIMED) {
            input.take(8)?;
        }
        if !matches!(byte, STRINGS | TIMED) {
            return skip_bytes(input);
        }
        for _ in 0..read_count(input)? {
            if byte == TIMED {
                read_plain_length(input)?;
            }
            skip_bytes(input)?;
        }
        Ok(())
    }

    fn commands(&self, key: &[u8], out: &mut Commands<'_>) {
        out.elements(b"SADD", key, elements(self).map(|member| [text(member)]));
        for member in self.iter().filter(|member| member.expire_at_ms != NO_EXPIRY) {
            let at_ms = number(member.expire_at_ms);
            out.put(&[b"SPEXPIREAT", key, &at_ms, b"MEMBERS", b"1", &text(member.element)]);
        }
    }

    fn digest(&self, digest: &mut Digest) {
        // Redis leaves the members' times out.
        elements(self).for_each(|member| digest.xor(member.as_bytes(&mut IntBuffer::new())));
    }

    fn export(&self, out: &mut Export<'_>) {
        out.array(|out| {
            for member in self.iter() {
                if member.expire_at_ms == NO_EXPIRY {
                    out.element(member.element);
                } else {
                    out.array(|out| {
                        out.element(member.element);
                        out.int(member.expire_at_ms);
                    });
                }
            }
        });
    }
}

/// All members without their times.
fn elements(set: &Set) -> impl Iterator<Item = Element<'_>> {
    set.iter().map(|member| member.element)
}

/// Redis keeps the members of such a listpack in order of time, those without at the end.
fn write_timed_listpack(out: &mut Writer<'_>, set: &Set, compress: bool) {
    let mut members: Vec<Member<'_>> = set.iter().collect();
    members.sort_by_key(|member| member.expire_at_ms);
    out.put(&times::earliest_ms(members.iter().map(|member| member.expire_at_ms)).to_le_bytes());
    let mut listpack = listpack::Writer::new();
    for member in members {
        listpack.push(member.element);
        listpack.push(times::element(member.expire_at_ms));
    }
    listpack.finish(|bytes| write_bytes(out, bytes, compress));
}

fn write_timed(out: &mut Writer<'_>, set: &Set, compress: bool) {
    let earliest_ms = times::earliest_ms(set.iter().map(|member| member.expire_at_ms));
    out.put(&earliest_ms.to_le_bytes());
    write_length(out, set.len() as u64);
    for member in set.iter() {
        write_length(out, times::distance(member.expire_at_ms, earliest_ms));
        write_element(out, member.element, compress);
    }
}

/// Adds a member that was read, with its time. Nothing counts as expired, or a member that comes twice could
/// go unnoticed.
fn add(set: &mut Set, member: Element<'_>, expire_at_ms: i64, limits: SetLimits) -> Result<(), Error> {
    if set.insert(member, expire_at_ms, limits, i64::MIN) { Ok(()) } else { Err(DUPLICATE_MEMBER) }
}

/// The set, unless it has no members.
fn filled(set: Set) -> Result<Set, Error> {
    if set.is_empty() { Err(Error::Empty("set")) } else { Ok(set) }
}

const DUPLICATE_MEMBER: Error = Error::Corrupt("duplicate set member");

/// An empty set in the encoding that Redis starts with for `count` members.
fn empty(count: usize, limits: SetLimits) -> Set {
    if count > limits.intset_max_entries.max(limits.listpack_max_entries) {
        Set::new_hashtable()
    } else {
        Set::new()
    }
}

/// A set of strings, behind times that are at the earliest `earliest_ms`, if there is one.
fn of_strings(
    input: &mut (impl Input + ?Sized),
    earliest_ms: Option<u64>,
    limits: SetLimits,
) -> Result<Set, Error> {
    let count = read_count(input)?;
    let mut scratch = Vec::new();
    let mut set = empty(count, limits);
    let mut members = BatchedInsert::new(count);
    for left in (0..count).rev() {
        let expire_at_ms = match earliest_ms {
            Some(earliest_ms) => times::relative(read_plain_length(input)?, earliest_ms)?,
            None => NO_EXPIRY,
        };
        let end = members.text(read_bytes(input, &mut scratch)?);
        members.push(end, end, expire_at_ms);
        if left == 0 || members.is_full() {
            members.add(&mut set, Set::queue_probe, |set, member, _, expire_at_ms| {
                add(set, Element::parse(member), expire_at_ms, limits)
            })?;
        }
    }
    filled(set)
}

fn of_intset(bytes: &[u8], limits: SetLimits) -> Result<Set, Error> {
    let ints = intset::read(bytes)?;
    let mut set = if ints.len() > limits.intset_max_entries { Set::new_hashtable() } else { Set::new() };
    ints.into_iter().for_each(|int| {
        set.add(Element::Int(int), limits, i64::MIN);
    });
    Ok(set)
}

fn of_listpack(bytes: &[u8], limits: SetLimits) -> Result<Set, Error> {
    let members = listpack::read(bytes)?;
    let mut set = Set::with_capacity(members.element_bytes());
    for member in members {
        add(&mut set, member?, NO_EXPIRY, limits)?;
    }
    filled(set)
}

fn of_timed_listpack(bytes: &[u8], limits: SetLimits) -> Result<Set, Error> {
    let mut elements = listpack::read(bytes)?;
    let mut set = Set::with_capacity(elements.element_bytes());
    set.prepare_expiry(limits);
    while let Some(member) = elements.next() {
        let time = elements.next().ok_or(Error::Corrupt("set member without time"))?;
        add(&mut set, member?, times::of_element(time?)?, limits)?;
    }
    filled(set)
}
