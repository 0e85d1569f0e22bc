//! The arguments of a vector field.

use crate::Error;
use crate::arguments::{Cursor, Refused};
use crate::schema::{Algorithm, Element, Metric, Vector};

/// Vectors of a block, unless given.
const DEFAULT_BLOCK_SIZE: u64 = 1024;
/// Blocks are limited to this part of the memory.
const MEMORY_PART: u64 = 10;

/// The parameters so far.
#[derive(Default)]
struct Given {
    element: Option<Element>,
    dimension: Option<u64>,
    metric: Option<Metric>,
    initial_capacity: Option<u64>,
    block_size: Option<u64>,
    m: Option<u64>,
    ef_construction: Option<u64>,
    ef_runtime: Option<u64>,
    epsilon: Option<f64>,
}

/// The field behind VECTOR. `memory_bytes` is what limits blocks.
pub(super) fn parse(cursor: &mut Cursor<'_>, memory_bytes: u64) -> Result<Vector, Error> {
    let algorithm = cursor.string().map_err(|refused| refused.of("vector similarity algorithm"))?;
    let is_flat = algorithm.eq_ignore_ascii_case(b"FLAT");
    if !is_flat && !algorithm.eq_ignore_ascii_case(b"HNSW") {
        return Err(Error::new("Bad arguments for vector similarity algorithm: Unknown argument"));
    }
    let algorithm = if is_flat { "FLAT" } else { "HNSW" };
    let count = cursor.u64(0).map_err(|refused| refused.of("vector similarity number of parameters"))?;
    if count % 2 == 1 {
        let what = match is_flat {
            true => "even number as algorithm parameters (should be submitted as named arguments)",
            false => "even number (as algorithm parameters should be submitted as named arguments)",
        };
        let text = format!(
            "Bad number of arguments for vector similarity index: got {} but expected {what}",
            count as i32
        );
        return Err(Error::new(text));
    }
    let mut given = Given::default();
    let mut found = 0;
    while found < count && !cursor.is_at_end() {
        given.read(is_flat, algorithm, cursor)?;
        found += 2;
    }
    if found < count {
        return Err(Error::new(format!("Expected {} parameters but got {found}", count as i32)));
    }
    given.finish(is_flat, algorithm, memory_bytes)
}

impl Given {
    fn read(&mut self, is_flat: bool, algorithm: &str, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let refused = |what: &'static str| {
            move |refused: Refused| refused.of(format!("vector similarity {algorithm} index {what}"))
        };
        let unknown = |what| {
            Error::new(format!(
                "Bad arguments for vector similarity {algorithm} index {what}: Unknown argument"
            ))
        };
        if cursor.take("TYPE") {
            let name = cursor.string().map_err(refused("type"))?;
            self.element = Some(element(name).ok_or_else(|| unknown("type"))?);
        } else if cursor.take("DIM") {
            self.dimension = Some(cursor.u64(1).map_err(refused("dim"))?);
        } else if cursor.take("DISTANCE_METRIC") {
            let name = cursor.string().map_err(refused("metric"))?;
            self.metric = Some(metric(name).ok_or_else(|| unknown("metric"))?);
        } else if cursor.take("INITIAL_CAP") {
            self.initial_capacity = Some(cursor.u64(0).map_err(refused("initial cap"))?);
        } else if is_flat && cursor.take("BLOCK_SIZE") {
            self.block_size = Some(cursor.u64(1).map_err(refused("blocksize"))?);
        } else if !is_flat && cursor.take("M") {
            self.m = Some(cursor.u64(1).map_err(refused("m"))?);
        } else if !is_flat && cursor.take("EF_CONSTRUCTION") {
            self.ef_construction = Some(cursor.u64(1).map_err(refused("efConstruction"))?);
        } else if !is_flat && cursor.take("EF_RUNTIME") {
            self.ef_runtime = Some(cursor.u64(1).map_err(refused("efRuntime"))?);
        } else if !is_flat && cursor.take("EPSILON") {
            let epsilon = cursor.f64().map_err(refused("epsilon"))?;
            if epsilon < 0.0 || epsilon.is_nan() {
                return Err(refused("epsilon")(Refused::Bounds));
            }
            self.epsilon = Some(epsilon);
        } else {
            let argument = String::from_utf8_lossy(cursor.peek().unwrap_or_default());
            return Err(Error::new(format!("Bad arguments for algorithm {algorithm}: {argument}")));
        }
        Ok(())
    }

    fn finish(self, is_flat: bool, algorithm: &str, memory_bytes: u64) -> Result<Vector, Error> {
        let mandatory = |name| {
            let text = format!(
                "Missing mandatory parameter: cannot create {algorithm} index without specifying {name} argument"
            );
            Error::new(text)
        };
        let element = self.element.ok_or_else(|| mandatory("TYPE"))?;
        let dimension = self.dimension.ok_or_else(|| mandatory("DIM"))?;
        let metric = self.metric.ok_or_else(|| mandatory("DISTANCE_METRIC"))?;
        self.check_memory(is_flat, dimension.saturating_mul(element.bytes() as u64), memory_bytes)?;
        let size = |given: Option<u64>, default: usize| {
            given.map_or(default, |given| usize::try_from(given).unwrap_or(usize::MAX))
        };
        Ok(Vector {
            algorithm: match is_flat {
                true => Algorithm::Flat { block_size: self.block_size.map(|block| size(Some(block), 0)) },
                false => Algorithm::Hnsw {
                    m: size(self.m, 16),
                    ef_construction: size(self.ef_construction, 200),
                    ef_runtime: size(self.ef_runtime, 10),
                    epsilon: self.epsilon.unwrap_or(0.01),
                },
            },
            element,
            dimension: size(Some(dimension), 0),
            metric,
            initial_capacity: self.initial_capacity.map(|capacity| size(Some(capacity), 0)),
        })
    }

    /// A block may have no more vectors than fit a tenth of the memory, and one at least must fit it.
    fn check_memory(&self, is_flat: bool, vector_bytes: u64, memory_bytes: u64) -> Result<(), Error> {
        let overhead_bytes = match is_flat {
            true => 16,
            false => self.m.unwrap_or(16).saturating_mul(8).saturating_add(91),
        };
        let most = memory_bytes / MEMORY_PART / vector_bytes.saturating_add(overhead_bytes);
        let block = self.block_size.unwrap_or(DEFAULT_BLOCK_SIZE.min(most).max(1));
        let capacity = self.initial_capacity.unwrap_or(block);
        let (what, vectors) = match (capacity > most, block > most) {
            (true, _) => ("initial capacity", capacity),
            (false, true) => ("block size", block),
            (false, false) => return Ok(()),
        };
        Err(Error::new(format!(
            "Vector index {what} {vectors} exceeded server limit ({most} with the given parameters)"
        )))
    }
}

const ELEMENTS: &[(&str, Element)] = &[
    ("FLOAT32", Element::Float32),
    ("FLOAT64", Element::Float64),
    ("FLOAT16", Element::Float16),
    ("BFLOAT16", Element::Bfloat16),
    ("INT8", Element::Int8),
    ("UINT8", Element::Uint8),
];
const METRICS: &[(&str, Metric)] =
    &[("L2", Metric::L2), ("IP", Metric::InnerProduct), ("COSINE", Metric::Cosine)];

fn element(name: &[u8]) -> Option<Element> {
    ELEMENTS.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name)).map(|found| found.1)
}

fn metric(name: &[u8]) -> Option<Metric> {
    METRICS.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name)).map(|found| found.1)
}

/// The element type's name.
pub(super) fn element_name(element: Element) -> &'static str {
    ELEMENTS.iter().find(|found| found.1 == element).map_or("FLOAT32", |found| found.0)
}

/// The metric's name.
pub(super) fn metric_name(metric: Metric) -> &'static str {
    METRICS.iter().find(|found| found.1 == metric).map_or("L2", |found| found.0)
}
