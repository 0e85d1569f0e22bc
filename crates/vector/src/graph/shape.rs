//! The parameters that are fixed for a graph's life: dimension, encoding, metric, links per layer; and the
//! distances that follow from them. All distances here are of stored vectors.

use crate::kernels::Kernels;
use crate::quantise::{self, Encoding};

/// The distance between two vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// `1 - cosine`, in `[0, 2]`; vectors are normalised when they are stored. The only one for quantised
    /// vectors.
    Cosine,
    /// The squared Euclidean distance.
    L2,
    /// `1 - dot product`.
    InnerProduct,
}

/// The smallest and the largest M that a graph takes (Redis' limits).
pub const M_MIN: usize = 4;
/// See [`M_MIN`].
pub const M_MAX: usize = 4096;
/// The level above which no node is placed (Redis' limit).
pub const LEVEL_MAX: u32 = 16;

/// The parameters of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Components of a vector, 1 to [`quantise::DIMENSION_MAX`].
    pub dimension: usize,
    /// How vectors are stored.
    pub encoding: Encoding,
    /// What distance is; [`Metric::Cosine`] unless the encoding is [`Encoding::F32`].
    pub metric: Metric,
    /// Links of a node per layer above layer 0, which has twice as many; [`M_MIN`] to [`M_MAX`].
    pub m: usize,
    /// Decides the nodes' levels: equal seeds and equal inserts give equal graphs.
    pub seed: u64,
}

impl Config {
    /// Bytes of a stored vector.
    pub fn stored_bytes(&self) -> usize {
        self.encoding.stored_bytes(self.dimension)
    }

    /// Whether a graph can be made with it.
    pub fn is_valid(&self) -> bool {
        let is_measurable = self.encoding == Encoding::F32 || self.metric == Metric::Cosine;
        (1..=quantise::DIMENSION_MAX).contains(&self.dimension)
            && (1..=M_MAX).contains(&self.m)
            && is_measurable
    }
}

/// A vector as it is stored, with its range and its former length. Words, so that the bytes are aligned for
/// every kernel.
#[derive(Clone, Debug, Default)]
pub struct StoredVector {
    words: Vec<u64>,
    bytes: usize,
    /// The range of a Q8 vector.
    pub(super) range: f32,
    /// The length before it was normalised.
    pub(super) length: f32,
}

impl StoredVector {
    /// From the stored bytes.
    pub(super) fn from_bytes(bytes: &[u8], range: f32, length: f32) -> StoredVector {
        let word = |chunk: &[u8]| {
            let mut padded = [0u8; 8];
            padded[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(padded)
        };
        StoredVector { words: bytes.chunks(8).map(word).collect(), bytes: bytes.len(), range, length }
    }

    /// The number of stored bytes.
    pub fn len_bytes(&self) -> usize {
        self.bytes
    }

    /// The stored bytes.
    pub(super) fn as_bytes(&self) -> &[u8] {
        let all = self.words.as_ptr().cast::<u8>();
        // SAFETY: the words have at least `bytes` bytes, all initialised.
        unsafe { std::slice::from_raw_parts(all, self.bytes) }
    }

    /// The vector as [`Shape::distance`] takes it.
    pub(super) fn as_operand(&self) -> Operand<'_> {
        Operand { bytes: self.as_bytes(), range: self.range }
    }
}

/// A stored vector somewhere: bytes aligned to 8, and the range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) range: f32,
}

/// A graph's configuration with the kernels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) config: Config,
    pub(super) kernels: Kernels,
    stored_bytes: usize,
}

/// The bytes as numbers; empty when they are not aligned for them, which stored vectors always are.
fn as_numbers<N: Copy>(bytes: &[u8]) -> &[N] {
    // SAFETY: f32, i8 and u64, the only types asked for, have no invalid values.
    let (head, numbers, _) = unsafe { bytes.align_to::<N>() };
    if head.is_empty() { numbers } else { &[] }
}

/// Rows of bytes as rows of numbers.
fn cast_rows<N>(rows: &[*const u8]) -> &[*const N] {
    // SAFETY: pointers have one size and alignment, whatever they point to.
    unsafe { std::slice::from_raw_parts(rows.as_ptr().cast(), rows.len()) }
}

/// The distance of two quantised vectors from their dot product and their ranges, each through 127.
#[inline]
fn q8_distance(dot: i32, a: f32, b: f32) -> f32 {
    let distance = (1.0 - dot as f32 * (a * b)).clamp(0.0, 2.0);
    if a == 0.0 || b == 0.0 { 1.0 } else { distance }
}

impl Shape {
    pub(super) fn new(config: Config) -> Shape {
        Shape { config, kernels: Kernels::best(), stored_bytes: config.stored_bytes() }
    }

    /// Bytes of a stored vector.
    #[inline]
    pub(super) fn stored_bytes(&self) -> usize {
        self.stored_bytes
    }

    /// Bytes from one vector to the next.
    #[inline]
    pub(super) fn vector_stride(&self) -> usize {
        self.stored_bytes().next_multiple_of(8)
    }

    /// Links for which a node has room on a layer, unless it has outgrown that.
    pub(super) fn capacity(&self, level: usize) -> usize {
        if level == 0 { self.config.m * 2 } else { self.config.m }
    }

    /// Words of an inline layer 0.
    pub(super) fn links_stride(&self) -> usize {
        super::layer::HEADER_WORDS + self.capacity(0)
    }

    /// Makes components ready to be stored or compared. `None` for a wrong dimension or a component that is
    /// not finite.
    pub(super) fn encode(&self, components: &[f32]) -> Option<StoredVector> {
        let is_finite = components.iter().all(|value| value.is_finite());
        if components.len() != self.config.dimension || !is_finite {
            return None;
        }
        let mut values = components.to_vec();
        let length = match self.config.metric {
            Metric::Cosine => quantise::normalise(&mut values),
            Metric::L2 | Metric::InnerProduct => 1.0,
        };
        let mut bytes = Vec::with_capacity(self.stored_bytes());
        let range = quantise::encode(self.config.encoding, &values, &mut bytes);
        Some(StoredVector::from_bytes(&bytes, range, length))
    }

    /// The distance of two stored vectors. For quantised ones, to the bit, what Redis computes.
    #[inline]
    pub(super) fn distance(&self, a: Operand<'_>, b: Operand<'_>) -> f32 {
        match self.config.encoding {
            Encoding::F32 => {
                let (x, y) = (as_numbers::<f32>(a.bytes), as_numbers::<f32>(b.bytes));
                match self.config.metric {
                    Metric::L2 => self.kernels.l2_f32(x, y),
                    Metric::Cosine | Metric::InnerProduct => 1.0 - self.kernels.dot_f32(x, y),
                }
            }
            Encoding::Q8 => {
                let dot = self.kernels.dot_i8(as_numbers(a.bytes), as_numbers(b.bytes));
                q8_distance(dot, a.range / 127.0, b.range / 127.0)
            }
            Encoding::Bin => {
                let opposite = self.kernels.hamming(as_numbers(a.bytes), as_numbers(b.bytes));
                opposite as f32 * 2.0 / self.config.dimension as f32
            }
        }
    }

    /// The distances of a stored vector from others, as [`Shape::distance`] gives them. `ranges` are those
    /// of the vectors, and are read of quantised ones only.
    ///
    /// # Safety
    /// Each of `vectors` points to a stored vector of this shape, aligned to 8.
    #[inline]
    pub(super) unsafe fn distances(
        &self,
        query: Operand<'_>,
        vectors: &[*const u8],
        ranges: &[f32],
        out: &mut Vec<f32>,
    ) {
        out.clear();
        out.resize(vectors.len(), 0.0);
        if query.bytes.len() != self.stored_bytes() {
            return;
        }
        // SAFETY: rows are as long as the query: stored vectors of one shape. Results of 32 bits fit where
        // f32 do.
        unsafe {
            let integers = std::slice::from_raw_parts_mut(out.as_mut_ptr().cast::<i32>(), out.len());
            match (self.config.encoding, self.config.metric) {
                (Encoding::F32, Metric::L2) => {
                    self.kernels.l2_f32_rows(as_numbers(query.bytes), cast_rows(vectors), out);
                }
                (Encoding::F32, _) => {
                    self.kernels.dot_f32_rows(as_numbers(query.bytes), cast_rows(vectors), out);
                    out.iter_mut().for_each(|dot| *dot = 1.0 - *dot);
                }
                (Encoding::Q8, _) => {
                    self.kernels.dot_i8_rows(as_numbers(query.bytes), cast_rows(vectors), integers);
                    let scale = query.range / 127.0;
                    for (distance, range) in out.iter_mut().zip(ranges) {
                        let dot = distance.to_bits().cast_signed();
                        *distance = q8_distance(dot, scale, range / 127.0);
                    }
                }
                (Encoding::Bin, _) => {
                    let counts =
                        std::slice::from_raw_parts_mut(integers.as_mut_ptr().cast::<u32>(), integers.len());
                    self.kernels.hamming_rows(as_numbers(query.bytes), cast_rows(vectors), counts);
                    let dimension = self.config.dimension as f32;
                    out.iter_mut().for_each(|count| *count = count.to_bits() as f32 * 2.0 / dimension);
                }
            }
        }
    }

    /// The level of the node with this id: each level is four times rarer than the one below (Redis'
    /// probability).
    pub(super) fn level_of(&self, id: u64) -> u32 {
        let mut random = martlet_base::random::Random::seeded(self.config.seed ^ id.rotate_left(32));
        (random.next_u64().trailing_zeros() / 2).min(LEVEL_MAX)
    }
}
