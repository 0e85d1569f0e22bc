//! The arguments of a vector field.

use crate::Error;
use crate::arguments::{Cursor, Refused};
use crate::schema::{Algorithm, Compression, Element, Metric, Vector};

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
    degree: Option<u64>,
    construction_window: Option<u64>,
    search_window: Option<u64>,
    compression: Option<&'static str>,
    training_threshold: Option<u64>,
    reduce: Option<u64>,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Kind {
    Flat,
    Hnsw,
    Vamana,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Flat, Kind::Hnsw, Kind::Vamana];

    const fn name(self) -> &'static str {
        match self {
            Kind::Flat => "FLAT",
            Kind::Hnsw => "HNSW",
            Kind::Vamana => "SVS-VAMANA",
        }
    }
}

/// The field behind VECTOR. `memory_bytes` is what limits blocks.
pub(super) fn parse(cursor: &mut Cursor<'_>, memory_bytes: u64) -> Result<Vector, Error> {
    let algorithm = cursor.string().map_err(|refused| refused.of("vector similarity algorithm"))?;
    let kind = Kind::ALL.into_iter().find(|kind| algorithm.eq_ignore_ascii_case(kind.name().as_bytes()));
    let Some(kind) = kind else {
        return Err(Error::new("Bad arguments for vector similarity algorithm: Unknown argument"));
    };
    let count = cursor.u64(0).map_err(|refused| refused.of("vector similarity number of parameters"))?;
    if count % 2 == 1 {
        let what = match kind {
            Kind::Flat => "even number as algorithm parameters (should be submitted as named arguments)",
            Kind::Hnsw | Kind::Vamana => {
                "even number (as algorithm parameters should be submitted as named arguments)"
            }
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
        given.read(kind, cursor)?;
        found += 2;
    }
    if found < count {
        return Err(Error::new(format!("Expected {} parameters but got {found}", count as i32)));
    }
    given.finish(kind, memory_bytes)
}

impl Given {
    fn read(&mut self, kind: Kind, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let (algorithm, is_flat, is_graph) = (kind.name(), kind == Kind::Flat, kind == Kind::Hnsw);
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
        } else if is_graph && cursor.take("M") {
            self.m = Some(cursor.u64(1).map_err(refused("m"))?);
        } else if is_graph && cursor.take("EF_CONSTRUCTION") {
            self.ef_construction = Some(cursor.u64(1).map_err(refused("efConstruction"))?);
        } else if is_graph && cursor.take("EF_RUNTIME") {
            self.ef_runtime = Some(cursor.u64(1).map_err(refused("efRuntime"))?);
        } else if !is_flat && cursor.take("EPSILON") {
            let epsilon = cursor.f64().map_err(refused("epsilon"))?;
            if epsilon < 0.0 || epsilon.is_nan() {
                return Err(refused("epsilon")(Refused::Bounds));
            }
            self.epsilon = Some(epsilon);
        } else if kind == Kind::Vamana && self.read_vamana(cursor)? {
        } else {
            let argument = String::from_utf8_lossy(cursor.peek().unwrap_or_default());
            return Err(Error::new(format!("Bad arguments for algorithm {algorithm}: {argument}")));
        }
        Ok(())
    }

    /// Whether the next argument is one of SVS-VAMANA's own.
    fn read_vamana(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Error> {
        const NAME: &str = Kind::Vamana.name();
        let refused = |what: &str| {
            let place = format!("vector similarity {NAME} index {what}");
            move |refused: Refused| refused.of(place)
        };
        if cursor.take("COMPRESSION") {
            let name = cursor.string().map_err(refused("compression"))?;
            let known = COMPRESSIONS.iter().find(|known| known.as_bytes().eq_ignore_ascii_case(name));
            let unknown = || {
                Error::new(format!(
                    "Bad arguments for vector similarity {NAME} index compression: Unknown argument"
                ))
            };
            self.compression = Some(known.ok_or_else(unknown)?);
            return Ok(true);
        }
        for (name, place, own) in [
            ("GRAPH_MAX_DEGREE", "graph max degree", &mut self.degree),
            ("CONSTRUCTION_WINDOW_SIZE", "construction window size", &mut self.construction_window),
            ("SEARCH_WINDOW_SIZE", "search window size", &mut self.search_window),
            ("TRAINING_THRESHOLD", "training threshold", &mut self.training_threshold),
            ("REDUCE", "reduce", &mut self.reduce),
        ] {
            if cursor.take(name) {
                *own = Some(cursor.u64(1).map_err(refused(place))?);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The compression of vectors of this dimension.
    fn compression(&self, dimension: u64) -> Result<Option<Compression>, Error> {
        let Some(name) = self.compression else {
            return match (self.training_threshold, self.reduce) {
                (Some(_), _) => {
                    Err(Error::new("TRAINING_THRESHOLD is irrelevant when compression was not requested"))
                }
                (None, Some(_)) => Err(Error::new(NOT_LEAN)),
                (None, None) => Ok(None),
            };
        };
        let training_threshold = self.training_threshold.unwrap_or(10 * DEFAULT_BLOCK_SIZE);
        if training_threshold < DEFAULT_BLOCK_SIZE {
            let text = format!(
                "Invalid TRAINING_THRESHOLD: cannot be lower than DEFAULT_BLOCK_SIZE ({DEFAULT_BLOCK_SIZE})"
            );
            return Err(Error::new(text));
        }
        if training_threshold > TRAINING_MAX {
            let text = format!("Invalid TRAINING_THRESHOLD: cannot be higher than {TRAINING_MAX}");
            return Err(Error::new(text));
        }
        if self.reduce.is_some() && !name.starts_with("LeanVec") {
            return Err(Error::new(NOT_LEAN));
        }
        if self.reduce.is_some_and(|reduce| reduce >= dimension) {
            return Err(Error::new("Invalid REDUCE: must be lower than DIM"));
        }
        let size = |given: u64| usize::try_from(given).unwrap_or(usize::MAX);
        let reduce = self.reduce.map(size);
        Ok(Some(Compression { name, training_threshold: size(training_threshold), reduce }))
    }

    fn finish(self, kind: Kind, memory_bytes: u64) -> Result<Vector, Error> {
        let algorithm = kind.name();
        let mandatory = |name| {
            let text = format!(
                "Missing mandatory parameter: cannot create {algorithm} index without specifying {name} argument"
            );
            Error::new(text)
        };
        let element = self.element.ok_or_else(|| mandatory("TYPE"))?;
        let dimension = self.dimension.ok_or_else(|| mandatory("DIM"))?;
        let metric = self.metric.ok_or_else(|| mandatory("DISTANCE_METRIC"))?;
        if kind == Kind::Vamana && !matches!(element, Element::Float16 | Element::Float32) {
            return Err(Error::new("Not supported data type is given. Expected: FLOAT16, FLOAT32"));
        }
        let compression = self.compression(dimension)?;
        self.check_memory(kind, dimension.saturating_mul(element.bytes() as u64), memory_bytes)?;
        let size = |given: Option<u64>, default: usize| {
            given.map_or(default, |given| usize::try_from(given).unwrap_or(usize::MAX))
        };
        Ok(Vector {
            algorithm: match kind {
                Kind::Flat => {
                    Algorithm::Flat { block_size: self.block_size.map(|block| size(Some(block), 0)) }
                }
                Kind::Vamana => Algorithm::Vamana {
                    degree: size(self.degree, 32),
                    construction_window: size(self.construction_window, 200),
                    search_window: size(self.search_window, 10),
                    epsilon: self.epsilon.unwrap_or(0.01),
                    compression,
                },
                Kind::Hnsw => Algorithm::Hnsw {
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
    fn check_memory(&self, kind: Kind, vector_bytes: u64, memory_bytes: u64) -> Result<(), Error> {
        let overhead_bytes = match kind {
            Kind::Flat => 16,
            Kind::Hnsw => self.m.unwrap_or(16).saturating_mul(8).saturating_add(91),
            Kind::Vamana => self.degree.unwrap_or(32).saturating_mul(4).saturating_add(91),
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

const NOT_LEAN: &str = "REDUCE is irrelevant when compression is not of type LeanVec";
/// The most vectors from which a compression is learned, as documented.
const TRAINING_MAX: u64 = 100 * DEFAULT_BLOCK_SIZE;
const COMPRESSIONS: &[&str] = &["LVQ8", "LVQ4", "LVQ4x4", "LVQ4x8", "LeanVec4x8", "LeanVec8x8"];
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
