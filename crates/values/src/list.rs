//! Lists.
//!
//! ```text
//!  1  count | string …
//! 10  a ziplist as string
//! 14  count of nodes | a ziplist as string …
//! 18  count of nodes | (1 | string, or 2 | a listpack as string) …
//! ```

use martlet_rdb::input::Input;
use martlet_rdb::{Error, Writer, listpack, read_bytes, read_count, read_plain_length, skip_bytes, ziplist};
use martlet_rdb::{write_bytes, write_element, write_length};
use martlet_spec::data_type::{self, TypeView};
use martlet_types::element::Element;
use martlet_types::list::{List, ListBuilder, ListLimit, Run};

use crate::commands::{Commands, text};
use crate::descriptor::{DataType, Descriptor, Encoded, RdbType};
use crate::digest::Digest;
use crate::export::Export;
use crate::form::VERSION_LISTPACKS;

const STRINGS: u8 = 1;
const ZIPLIST: u8 = 10;
const ZIPLISTS: u8 = 14;
const LISTPACKS: u8 = 18;

/// Bytes of a node, as with `list-max-listpack-size` -2.
const NODE_MAX_BYTES: usize = 8192;
/// An element of this size or more is a separate node and not a listpack. Redis: `packed_threshold`.
const PLAIN_MIN_BYTES: usize = 1 << 30;
/// A node that is one element.
const PLAIN: u64 = 1;
/// A node that is a listpack.
const PACKED: u64 = 2;

pub(crate) static DESCRIPTOR: Descriptor = Descriptor::of::<List>();

impl DataType for List {
    const RDB_TYPES: &'static [RdbType] = &[
        RdbType { byte: STRINGS, since: 6 },
        RdbType { byte: ZIPLIST, since: 6 },
        RdbType { byte: ZIPLISTS, since: 7 },
        RdbType { byte: LISTPACKS, since: 10 },
    ];
    const KEYSIZES: Option<&'static str> = Some("distrib_lists_items");
    const VIEW: Option<&'static TypeView> = Some(&data_type::LIST);

    fn rdb_type(&self, version: u16) -> u8 {
        if version >= VERSION_LISTPACKS { LISTPACKS } else { STRINGS }
    }

    fn write(&self, out: &mut Writer<'_>, byte: u8, compress: bool) {
        if byte == LISTPACKS {
            return write_nodes(out, self, compress);
        }
        write_length(out, self.len() as u64);
        self.iter().for_each(|element| write_element(out, element, compress));
    }

    fn read(input: &mut (impl Input + ?Sized), encoded: Encoded<'_>) -> Result<List, Error> {
        let (mut list, mut scratch) = (ListBuilder::new(), Vec::new());
        match encoded.byte {
            ZIPLIST => {
                let ziplist = read_bytes(input, &mut scratch)?;
                list.extend(ziplist::read(ziplist, "List ziplist integrity check failed.")?);
            }
            ZIPLISTS | LISTPACKS => read_nodes(input, encoded.byte, &mut list)?,
            _ => {
                for _ in 0..read_count(input)? {
                    list.push(read_bytes(input, &mut scratch)?);
                }
            }
        }
        finish(list, encoded.limits.list)
    }

    fn skip(input: &mut &[u8], byte: u8, _version: u16) -> Result<(), Error> {
        if byte == ZIPLIST {
            return skip_bytes(input);
        }
        for _ in 0..read_count(input)? {
            if byte == LISTPACKS {
                read_plain_length(input)?;
            }
            skip_bytes(input)?;
        }
        Ok(())
    }

    fn commands(&self, key: &[u8], out: &mut Commands<'_>) {
        out.elements(b"RPUSH", key, self.iter().map(|element| [text(element)]));
    }

    fn digest(&self, digest: &mut Digest) {
        self.iter().for_each(|element| digest.mix_element(element));
    }

    fn export(&self, out: &mut Export<'_>) {
        out.array(|out| self.iter().for_each(|element| out.element(element)));
    }
}

/// The number of nodes stands in front, so it is walked twice: once for sizes only. A node is as many whole
/// runs as fit.
fn write_nodes(out: &mut Writer<'_>, list: &List, compress: bool) {
    let (mut nodes, mut used) = (0, 0);
    list.runs(|run| nodes += u64::from(starts_node(&mut used, run)));
    write_length(out, nodes);
    let mut node = listpack::Writer::new();
    used = 0;
    list.runs(|run| {
        if starts_node(&mut used, run) {
            write_node(out, &mut node, compress);
        }
        match run.first() {
            Some(Element::Bytes(text)) if text.len() >= PLAIN_MIN_BYTES => {
                write_length(out, PLAIN);
                write_bytes(out, text, compress);
            }
            _ => node.extend(run.len(), |bytes| run.write_listpack(bytes)),
        }
    });
    write_node(out, &mut node, compress);
}

/// Whether a run does not fit into the node of those before, which take `used` bytes of it.
fn starts_node(used: &mut usize, run: Run<'_>) -> bool {
    let bytes = run.listpack_bytes();
    let starts = *used == 0 || *used + bytes > NODE_MAX_BYTES - listpack::EMPTY_BYTES;
    *used = if starts { bytes } else { *used + bytes };
    starts
}

fn write_node(out: &mut Writer<'_>, node: &mut listpack::Writer, compress: bool) {
    if !node.is_empty() {
        write_length(out, PACKED);
        node.finish(|bytes| write_bytes(out, bytes, compress));
    }
}

fn finish(list: ListBuilder, limit: ListLimit) -> Result<List, Error> {
    let mut list = list.finish();
    if list.is_empty() {
        return Err(Error::Empty("list"));
    }
    list.after_building(limit);
    Ok(list)
}

fn read_nodes(input: &mut (impl Input + ?Sized), byte: u8, list: &mut ListBuilder) -> Result<(), Error> {
    let mut scratch = Vec::new();
    for _ in 0..read_count(input)? {
        let container = if byte == LISTPACKS { Some(read_plain_length(input)?) } else { None };
        let node = read_bytes(input, &mut scratch)?;
        match container {
            _ if node.is_empty() => return Err(Error::Corrupt("empty quicklist node")),
            None => list.extend(ziplist::read(node, "Ziplist integrity check failed.")?),
            Some(PLAIN) => list.push(node),
            Some(PACKED) => {
                let mut elements = listpack::read(node)?;
                loop {
                    while let Some((entry, size)) = elements.short_entry() {
                        list.push_packed(entry, size);
                    }
                    match elements.next() {
                        Some(element) => list.push(element?),
                        None => break,
                    }
                }
            }
            Some(_) => return Err(Error::Corrupt("unknown quicklist container")),
        }
    }
    Ok(())
}
