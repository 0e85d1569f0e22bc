//! A vector set in RDB: the fields of module type `vectorset`, encoding version 0, which Redis 8.0 to 8.6
//! write. Nodes carry their links, so that nothing is linked again when a set is loaded.
//!
//! | field | type | what |
//! |---|---|---|
//! | dimension | unsigned | components of a stored vector |
//! | elements | unsigned | how many nodes follow |
//! | configuration | unsigned | bits 0 to 7: 0 f32, 1 int8, 2 binary; bits 8 to 23: M, or 0 for 16 |
//! | flags | unsigned | bit 0: a projection follows; bit 1: elements have an attribute field |
//! | input dimension, matrix | unsigned, string | only with bit 0: little-endian f32, row by row |
//!
//! Each node, the newest first: name (string), attribute (string, empty for none; only with bit 1), stored
//! vector (string), number of parameters (unsigned), then the parameters (unsigned): id; level in bits 0 to
//! 7 and the node's version in bits 24 to 31; for each layer from 0 upwards the number of links, the room
//! for links, the neighbours' ids, and from version 1 on the index of the most distant link with its
//! distance's bits in the upper half; at last the length's bits with the range's bits in the upper half.
//! Version 1 is what all released versions write; version 0, without the most distant links, is read as
//! well.

use crate::element::Element;
use crate::graph::{
    Config, Graph, GraphBuilder, LEVEL_MAX, M_MAX, Metric, NodeView, RestoreError, RestoredNode, SavedLayer,
    Snapshot,
};
use crate::quantise::{DIMENSION_MAX, Encoding, Projection};
use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The module type's name.
pub const TYPE_NAME: &str = "vectorset";
/// The module type's encoding version.
pub const ENCODING_VERSION: u64 = 0;

const FLAG_PROJECTION: u64 = 1;
const FLAG_ATTRIBUTES: u64 = 2;
const NODE_VERSION: u64 = 1;
const M_DEFAULT: usize = 16;
/// Parameters that a node can have: 17 full layers.
const PARAMETERS_MAX: u64 = 3 + (LEVEL_MAX as u64 + 1) * (3 + 4 * M_MAX as u64);

/// One field of a module's value in RDB.
#[derive(Clone, Debug, PartialEq)]
pub enum Field<'a> {
    /// An unsigned integer.
    Unsigned(u64),
    /// A double; vector sets have none.
    Double(f64),
    /// A string.
    String(Cow<'a, [u8]>),
}

/// Why fields are no vector set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedError {
    /// The fields end too early, or one has another type.
    Field,
    /// A number in the head is out of its limits, or there are no elements.
    Head,
    /// The projection's dimensions or length are wrong.
    Projection,
    /// A node's parameters are of an unknown version, too few or too many.
    Parameters,
    /// Two elements have the same name.
    Name,
    /// The nodes make no graph.
    Graph(RestoreError),
}

impl From<RestoreError> for SavedError {
    fn from(error: RestoreError) -> SavedError {
        SavedError::Graph(error)
    }
}

/// A vector set that was read.
pub struct Saved {
    /// Its elements.
    pub graph: Graph<Element>,
    /// REDUCE's matrix.
    pub projection: Option<Projection>,
}

/// Writes a snapshot of a vector set as fields. A set without elements has no saved form, as it is no key.
pub fn encode(snapshot: &Snapshot<Element>, projection: Option<&Projection>, mut put: impl FnMut(Field<'_>)) {
    let config = snapshot.config();
    let order = snapshot.order();
    let has_attributes =
        order.iter().any(|slot| snapshot.payload(*slot).is_some_and(|element| element.attribute.is_some()));
    let quantisation = match config.encoding {
        Encoding::F32 => 0,
        Encoding::Q8 => 1,
        Encoding::Bin => 2,
    };
    let flags = if projection.is_some() { FLAG_PROJECTION } else { 0 }
        | if has_attributes { FLAG_ATTRIBUTES } else { 0 };
    put(Field::Unsigned(config.dimension as u64));
    put(Field::Unsigned(order.len() as u64));
    put(Field::Unsigned(quantisation | (config.m as u64) << 8));
    put(Field::Unsigned(flags));
    if let Some(projection) = projection {
        put(Field::Unsigned(projection.input() as u64));
        put(Field::String(projection.to_bytes().into()));
    }
    for node in snapshot.nodes(order.iter().rev().copied()) {
        encode_node(&node, has_attributes, &mut put);
    }
}

fn encode_node(node: &NodeView<'_, Element>, has_attributes: bool, put: &mut impl FnMut(Field<'_>)) {
    put(Field::String(Cow::Borrowed(&node.payload.name)));
    if has_attributes {
        put(Field::String(Cow::Borrowed(node.payload.attribute.as_deref().unwrap_or_default())));
    }
    put(Field::String(Cow::Borrowed(node.vector)));
    let links: usize = node.layers.iter().map(|layer| layer.links.len()).sum();
    put(Field::Unsigned((3 + links + 3 * node.layers.len()) as u64));
    put(Field::Unsigned(node.id));
    put(Field::Unsigned((node.layers.len() as u64).saturating_sub(1) | NODE_VERSION << 24));
    for layer in &node.layers {
        put(Field::Unsigned(layer.links.len() as u64));
        put(Field::Unsigned(layer.capacity as u64));
        layer.links.iter().for_each(|id| put(Field::Unsigned(*id)));
        let (index, distance) = layer.worst.unwrap_or_default();
        put(Field::Unsigned(pack(index, distance)));
    }
    put(Field::Unsigned(pack(node.length.to_bits(), node.range)));
}

/// A float's bits above 32 others.
fn pack(low: u32, high: f32) -> u64 {
    u64::from(high.to_bits()) << 32 | u64::from(low)
}

fn unpack(word: u64) -> (u32, f32) {
    (word as u32, f32::from_bits((word >> 32) as u32))
}

/// Reads a vector set; `next` gives the fields in turn, `None` behind the last one. `seed` decides the
/// levels of nodes that are inserted later.
///
/// # Errors
/// Any [`SavedError`]. Memory is asked for as fields arrive, never on the word of a count.
pub fn decode<'a>(seed: u64, next: impl FnMut() -> Option<Field<'a>>) -> Result<Saved, SavedError> {
    let mut fields = Fields { next };
    let (dimension, elements) = (fields.unsigned()?, fields.unsigned()?);
    let (configuration, flags) = (fields.unsigned()?, fields.unsigned()?);
    let encoding = match configuration & 0xff {
        0 => Encoding::F32,
        1 => Encoding::Q8,
        2 => Encoding::Bin,
        _ => return Err(SavedError::Head),
    };
    let m = match (configuration >> 8 & 0xffff) as usize {
        0 => M_DEFAULT,
        m => m.min(M_MAX),
    };
    if dimension == 0 || dimension > DIMENSION_MAX as u64 || elements == 0 {
        return Err(SavedError::Head);
    }
    let dimension = dimension as usize;
    let projection = match flags & FLAG_PROJECTION {
        0 => None,
        _ => {
            let input = usize::try_from(fields.unsigned()?).map_err(|_| SavedError::Projection)?;
            let matrix = fields.string()?;
            let projection = Projection::from_bytes(input, dimension, &matrix);
            Some(projection.ok_or(SavedError::Projection)?)
        }
    };
    let config = Config { dimension, encoding, metric: Metric::Cosine, m, seed };
    let graph = decode_nodes(&mut fields, config, elements, flags & FLAG_ATTRIBUTES != 0)?;
    Ok(Saved { graph, projection })
}

/// An element, as a set of names sees it.
struct ByName(Arc<Element>);

impl PartialEq for ByName {
    fn eq(&self, other: &ByName) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ByName {}

impl Hash for ByName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

fn decode_nodes<'a, N: FnMut() -> Option<Field<'a>>>(
    fields: &mut Fields<N>,
    config: Config,
    elements: u64,
    has_attributes: bool,
) -> Result<Graph<Element>, SavedError> {
    let mut builder = GraphBuilder::new(config)?;
    let mut names = HashSet::new();
    let mut parameters = Vec::new();
    for _ in 0..elements {
        let name = fields.string()?;
        let attribute = if has_attributes { Some(fields.string()?) } else { None };
        let element = Arc::new(Element::new(&name, attribute.as_deref()));
        if !names.insert(ByName(Arc::clone(&element))) {
            return Err(SavedError::Name);
        }
        let vector = fields.string()?;
        let count = fields.unsigned()?;
        if count > PARAMETERS_MAX {
            return Err(SavedError::Parameters);
        }
        parameters.clear();
        for _ in 0..count {
            parameters.push(fields.unsigned()?);
        }
        let (id, layers, tail) = decode_parameters(&parameters)?;
        let (length, range) = unpack(tail);
        let length = f32::from_bits(length);
        let node = RestoredNode { id, vector: &vector, range, length, layers: &layers };
        builder.add(&node, element)?;
    }
    drop(names);
    Ok(builder.finish()?)
}

/// The id, the layers and the last parameter.
fn decode_parameters(parameters: &[u64]) -> Result<(u64, Vec<SavedLayer>, u64), SavedError> {
    let mut rest = parameters.iter().copied();
    let mut take = || rest.next().ok_or(SavedError::Parameters);
    let (id, head) = (take()?, take()?);
    let (level, version) = (head & 0xff, head >> 24 & 0xff);
    if version > NODE_VERSION {
        return Err(SavedError::Parameters);
    }
    if level > u64::from(LEVEL_MAX) {
        return Err(SavedError::Graph(RestoreError::Level));
    }
    let mut layers = Vec::with_capacity(level as usize + 1);
    for _ in 0..=level {
        let (count, capacity) = (take()?, take()?);
        if count > capacity || capacity > 4 * M_MAX as u64 {
            return Err(SavedError::Graph(RestoreError::Links));
        }
        let mut links = Vec::new();
        for _ in 0..count {
            links.push(take()?);
        }
        let worst = if version > 0 { Some(unpack(take()?)) } else { None };
        layers.push(SavedLayer { capacity: capacity as usize, links, worst });
    }
    let tail = take()?;
    if take().is_ok() { Err(SavedError::Parameters) } else { Ok((id, layers, tail)) }
}

struct Fields<N> {
    next: N,
}

impl<'a, N: FnMut() -> Option<Field<'a>>> Fields<N> {
    fn unsigned(&mut self) -> Result<u64, SavedError> {
        match (self.next)() {
            Some(Field::Unsigned(value)) => Ok(value),
            _ => Err(SavedError::Field),
        }
    }

    fn string(&mut self) -> Result<Cow<'a, [u8]>, SavedError> {
        match (self.next)() {
            Some(Field::String(text)) => Ok(text),
            _ => Err(SavedError::Field),
        }
    }
}

#[cfg(test)]
mod tests;
