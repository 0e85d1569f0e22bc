//! The parameters of filters that a command creates.

use martlet_sketch::{bloom, cuckoo};

/// Options of filters that are created without their own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SketchSettings {
    /// Of Bloom filters (`bf-error-rate`, `bf-initial-size`, `bf-expansion-factor`).
    pub bloom: bloom::Options,
    /// Of cuckoo filters (`cf-initial-size`, `cf-bucket-size`, `cf-max-iterations`, `cf-expansion-factor`).
    pub cuckoo: cuckoo::Options,
    /// Filters of a cuckoo filter, from which number on it takes no items (`cf-max-expansions`).
    pub cuckoo_max_expansions: usize,
}

impl Default for SketchSettings {
    fn default() -> Self {
        SketchSettings {
            bloom: bloom::Options::default(),
            cuckoo: cuckoo::Options::default(),
            cuckoo_max_expansions: 32,
        }
    }
}
