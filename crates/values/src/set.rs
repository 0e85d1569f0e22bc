//! Sets.
//!
//! ```text
//!  2  count | string …
//! 11  an intset as string
//! 20  a listpack as string
//! ```

use martlet_rdb::input::Input;
use martlet_rdb::{Error, Writer, intset, listpack, read_bytes, read_count, skip_bytes};
use martlet_rdb::{write_bytes, write_element, write_length};
use martlet_spec::data_type::{self, TypeView};
use martlet_types::element::{Element, IntBuffer};
use martlet_types::set::{Set, SetLimits};

use crate::batched_insert::BatchedInsert;
use crate::commands::{Commands, text};
use crate::descriptor::{DataType, Descriptor, Encoded, RdbType};
use crate::digest::Digest;
use crate::export::Export;
use crate::form::{VERSION_SET_LISTPACKS, write_packed};

const STRINGS: u8 = 2;
const INTSET: u8 = 11;
const LISTPACK: u8 = 20;

pub(crate) static DESCRIPTOR: Descriptor = Descriptor::of::<Set>();

impl DataType for Set {
    const RDB_TYPES: &'static [RdbType] = &[
        RdbType { byte: STRINGS, since: 6 },
        RdbType { byte: INTSET, since: 6 },
        RdbType { byte: LISTPACK, since: VERSION_SET_LISTPACKS },
    ];
    const KEYSIZES: Option<&'static str> = Some("distrib_sets_items");
    const VIEW: Option<&'static TypeView> = Some(&data_type::SET);

    fn rdb_type(&self, version: u16) -> u8 {
        match self.encoding() {
            "intset" => INTSET,
            "listpack" if version >= VERSION_SET_LISTPACKS => LISTPACK,
            _ => STRINGS,
        }
    }

    fn write(&self, out: &mut Writer<'_>, byte: u8, compress: bool) {
        match byte {
            INTSET => {
                let ints: Vec<i64> = self.iter().filter_map(|member| member.as_int()).collect();
                write_bytes(out, &intset::write(&ints), compress);
            }
            LISTPACK => write_packed(out, self.packed(), self.iter(), compress),
            _ => {
                write_length(out, self.len() as u64);
                self.iter().for_each(|member| write_element(out, member, compress));
            }
        }
    }

    fn read(input: &mut (impl Input + ?Sized), encoded: Encoded<'_>) -> Result<Set, Error> {
        let (limits, mut scratch) = (encoded.limits.set, Vec::new());
        match encoded.byte {
            INTSET => of_intset(read_bytes(input, &mut scratch)?, limits),
            LISTPACK => of_listpack(read_bytes(input, &mut scratch)?, limits),
            _ => of_strings(input, limits),
        }
    }

    fn skip(input: &mut &[u8], byte: u8, _version: u16) -> Result<(), Error> {
        if byte != STRINGS {
            return skip_bytes(input);
        }
        (0..read_count(input)?).try_for_each(|_| skip_bytes(input))
    }

    fn commands(&self, key: &[u8], out: &mut Commands<'_>) {
        out.elements(b"SADD", key, self.iter().map(|member| [text(member)]));
    }

    fn digest(&self, digest: &mut Digest) {
        self.iter().for_each(|member| digest.xor(member.as_bytes(&mut IntBuffer::new())));
    }

    fn export(&self, out: &mut Export<'_>) {
        out.array(|out| self.iter().for_each(|member| out.element(member)));
    }
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

fn of_strings(input: &mut (impl Input + ?Sized), limits: SetLimits) -> Result<Set, Error> {
    let count = read_count(input)?;
    let mut scratch = Vec::new();
    let mut set = empty(count, limits);
    let mut members = BatchedInsert::new(count);
    for left in (0..count).rev() {
        let end = members.text(read_bytes(input, &mut scratch)?);
        members.push(end, end, ());
        if left == 0 || members.is_full() {
            members.add(&mut set, Set::queue_probe, |set, member, _, ()| {
                if set.add(Element::parse(member), limits) { Ok(()) } else { Err(DUPLICATE_MEMBER) }
            })?;
        }
    }
    if set.is_empty() { Err(Error::Empty("set")) } else { Ok(set) }
}

fn of_intset(bytes: &[u8], limits: SetLimits) -> Result<Set, Error> {
    let ints = intset::read(bytes)?;
    let mut set = if ints.len() > limits.intset_max_entries { Set::new_hashtable() } else { Set::new() };
    ints.into_iter().for_each(|int| {
        set.add(Element::Int(int), limits);
    });
    Ok(set)
}

fn of_listpack(bytes: &[u8], limits: SetLimits) -> Result<Set, Error> {
    let members = listpack::read(bytes)?;
    let mut set = Set::with_capacity(members.element_bytes());
    for member in members {
        if !set.add(member?, limits) {
            return Err(DUPLICATE_MEMBER);
        }
    }
    if set.is_empty() { Err(Error::Empty("set")) } else { Ok(set) }
}
