//! Statistics of a comparison: the mean of per-pair log ratios and its confidence interval by the bootstrap.
//! The studentized bootstrap is used, as the plain percentile one is too narrow for the few pairs of a run.

use martlet_base::random::Random;

/// Resamples of one interval.
const RESAMPLES: usize = 2000;

/// A ratio with its interval.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Ratio {
    /// Geometric mean of the pairs' ratios.
    pub value: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, (variance / n).sqrt())
}

/// Mean of `values` with its 95 % confidence interval; the interval is the whole line below two values.
pub fn bootstrap_mean(values: &[f64], seed: u64) -> (f64, f64, f64) {
    let (mean, error) = mean_and_error(values);
    if values.len() < 2 {
        return (mean, f64::NEG_INFINITY, f64::INFINITY);
    }
    if error == 0.0 {
        return (mean, mean, mean);
    }
    let mut random = Random::seeded(seed);
    let mut resample = vec![0.0; values.len()];
    let mut pivots: Vec<f64> = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        for place in &mut resample {
            let at = random.below(values.len() as u64) as usize;
            *place = values.get(at).copied().unwrap_or(mean);
        }
        let (m, e) = mean_and_error(&resample);
        // A resample of one value only says nothing about the spread; it stands for an extreme one.
        let pivot = if e > 0.0 { (m - mean) / e } else { (m - mean).signum() * f64::MAX };
        pivots.push(pivot);
    }
    pivots.sort_by(f64::total_cmp);
    // Student's t bounds an interval that degenerate resamples would blow up with very few values.
    let cap = if values.len() < 5 { 12.7 } else { 8.0 };
    let at =
        |share: f64| pivots.get((share * RESAMPLES as f64) as usize).copied().unwrap_or(0.0).clamp(-cap, cap);
    (mean, mean - at(0.975) * error, mean - at(0.025) * error)
}

/// The geometric mean of `a / b` over pairs, with its interval.
pub fn ratio(pairs: &[(f64, f64)], seed: u64) -> Option<Ratio> {
    let logs: Vec<f64> =
        pairs.iter().filter(|(a, b)| *a > 0.0 && *b > 0.0).map(|(a, b)| (a / b).ln()).collect();
    if logs.is_empty() {
        return None;
    }
    let (mean, low, high) = bootstrap_mean(&logs, seed);
    Some(Ratio { value: mean.exp(), low: low.exp(), high: high.exp() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(random: &mut Random) -> f64 {
        (-2.0 * (1.0 - random.unit_f64()).ln()).sqrt() * (std::f64::consts::TAU * random.unit_f64()).cos()
    }

    /// Of many intervals on synthetic data with a known mean, 95 % must hold it; normal and skewed data.
    #[test]
    fn intervals_cover_the_true_mean_as_often_as_they_claim() {
        const TRIALS: usize = 150;
        let mut random = Random::seeded(11);
        for (count, skewed) in [(6, false), (15, true)] {
            let covered = (0..TRIALS)
                .filter(|trial| {
                    let values: Vec<f64> = (0..count)
                        .map(|_| {
                            if skewed {
                                normal(&mut random).mul_add(0.5, 0.0).exp()
                            } else {
                                3.0 + normal(&mut random)
                            }
                        })
                        .collect();
                    let truth = if skewed { 0.125f64.exp() } else { 3.0 };
                    let (_, low, high) = bootstrap_mean(&values, *trial as u64);
                    low <= truth && truth <= high
                })
                .count();
            let share = covered as f64 / TRIALS as f64;
            assert!((0.89..=1.0).contains(&share), "{count} values, seed 11: {share}");
        }
    }

    #[test]
    fn a_ratio_is_the_geometric_mean() {
        let r = ratio(&[(2.0, 1.0), (8.0, 1.0)], 1).expect("two pairs");
        assert!((r.value - 4.0).abs() < 1e-9 && r.low < 4.0 && r.high > 4.0);
        let same = ratio(&[(2.0, 1.0), (4.0, 2.0), (6.0, 3.0)], 1).expect("pairs");
        assert!(
            (same.value - 2.0).abs() < 1e-9
                && (same.low - 2.0).abs() < 1e-9
                && (same.high - 2.0).abs() < 1e-9
        );
        assert_eq!(ratio(&[(0.0, 1.0)], 1), None);
    }
}
