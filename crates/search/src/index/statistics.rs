//! Figures of an index for scores, by RediSearch's formulas.

/// Figures of the whole index that scores depend on.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Documents of the index.
    pub documents: u64,
    /// The mean of their lengths.
    pub average_length: f64,
}

impl Statistics {
    /// The inverse document frequency of TFIDF and BM25: a whole number.
    pub fn idf(&self, frequency: u64) -> f64 {
        let ratio = 1.0 + (self.documents as f64 + 1.0) / frequency.max(1) as f64;
        f64::from(ratio.log2().floor() as i32)
    }

    /// The one of BM25STD.
    pub fn bm25_idf(&self, frequency: u64) -> f64 {
        // RediSearch computes the ratio in single precision.
        let (total, with) = (self.documents as f32, frequency as f32);
        f64::from((1.0 + (total - with + 0.5) / (with + 0.5)).max(1.0)).ln()
    }
}
