//! Statistics of a comparison: the mean of per-pair log ratios, and its confidence interval by Student's t,
//! which is exact for differences that are normally distributed however few pairs there are.

/// 97.5th percentiles of Student's t for 1, 2, … degrees of freedom.
const STUDENT: [f64; 10] = [
    12.706_205, 4.302_653, 3.182_446, 2.776_445, 2.570_582, 2.446_912, 2.364_624, 2.306_004, 2.262_157,
    2.228_139,
];
/// The normal distribution's.
const NORMAL: f64 = 1.959_964;

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

/// The 97.5th percentile of Student's t; beyond the table by Fisher's expansion around the normal
/// distribution's, within 0.0002.
fn student(degrees: usize) -> f64 {
    if let Some(exact) = degrees.checked_sub(1).and_then(|place| STUDENT.get(place)) {
        return *exact;
    }
    let (z, n) = (NORMAL, degrees as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / n + second / n.powi(2) + third / n.powi(3)
}

/// Mean of `values`, and half the width of its 95 % confidence interval; `None` below two values, which say
/// nothing of their spread.
fn mean_interval(values: &[f64]) -> Option<(f64, f64)> {
    let degrees = values.len().checked_sub(1).filter(|degrees| *degrees > 0)?;
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / degrees as f64;
    Some((mean, student(degrees) * (variance / n).sqrt()))
}

/// The geometric mean of `a / b` over pairs, with its interval; `None` below two pairs whose figures are
/// known.
pub fn ratio(pairs: &[(f64, f64)]) -> Option<Ratio> {
    let logs: Vec<f64> =
        pairs.iter().filter(|(a, b)| *a > 0.0 && *b > 0.0).map(|(a, b)| (a / b).ln()).collect();
    let (mean, half) = mean_interval(&logs)?;
    Some(Ratio { value: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use martlet_base::random::Random;

    fn normal(random: &mut Random) -> f64 {
        (-2.0 * (1.0 - random.unit_f64()).ln()).sqrt() * (std::f64::consts::TAU * random.unit_f64()).cos()
    }

    /// The published table of Student's t, of which the program has a part.
    #[test]
    fn quantiles_are_students() {
        for (degrees, expected) in [
            (1, 12.7062),
            (2, 4.3027),
            (3, 3.1824),
            (4, 2.7764),
            (9, 2.2622),
            (10, 2.2281),
            (11, 2.2010),
            (12, 2.1788),
            (20, 2.0860),
            (30, 2.0423),
            (60, 2.0003),
            (120, 1.9799),
            (999, 1.9623),
        ] {
            assert!((student(degrees) - expected).abs() < 0.0002, "{degrees}: {}", student(degrees));
        }
    }

    /// Values whose standard deviation is known: the interval is that times t over the root of their number.
    #[test]
    fn intervals_of_few_pairs_are_as_wide_as_students() {
        // 1, 2, … n has the variance n (n + 1) / 12.
        for (count, t) in [(2, 12.7062), (3, 4.3027), (4, 3.1824), (5, 2.7764), (6, 2.5706), (20, 2.0930)] {
            let values: Vec<f64> = (1..=count).map(f64::from).collect();
            let n = f64::from(count);
            let expected = t * (n * (n + 1.0) / 12.0 / n).sqrt();
            let (mean, half) = mean_interval(&values).expect("two or more");
            assert!((mean - (n + 1.0) / 2.0).abs() < 1e-9, "{count}: {mean}");
            assert!((half / expected - 1.0).abs() < 1e-4, "{count} values: {half}, not {expected}");
        }
        assert_eq!((mean_interval(&[]), mean_interval(&[1.0])), (None, None));
    }

    /// Of many intervals on synthetic data with a known mean, 95 % must hold it; fewer where the data is
    /// skewed.
    #[test]
    fn intervals_cover_the_true_mean_as_often_as_they_claim() {
        const TRIALS: usize = 4000;
        let mut random = Random::seeded(11);
        for (count, skewed, expected) in
            [(3, false, 0.93..0.97), (4, false, 0.93..0.97), (6, false, 0.93..0.97), (15, true, 0.88..0.97)]
        {
            let covered = (0..TRIALS)
                .filter(|_| {
                    let mut draw =
                        || if skewed { (normal(&mut random) * 0.5).exp() } else { 3.0 + normal(&mut random) };
                    let values: Vec<f64> = (0..count).map(|_| draw()).collect();
                    let truth = if skewed { 0.125f64.exp() } else { 3.0 };
                    mean_interval(&values).is_some_and(|(mean, half)| (mean - truth).abs() <= half)
                })
                .count();
            let share = covered as f64 / TRIALS as f64;
            assert!(expected.contains(&share), "{count} values, seed 11: {share}");
        }
    }

    #[test]
    fn a_ratio_is_the_geometric_mean() {
        let r = ratio(&[(2.0, 1.0), (8.0, 1.0)]).expect("two pairs");
        assert!((r.value - 4.0).abs() < 1e-9 && r.low < 4.0 && r.high > 4.0);
        let same = ratio(&[(2.0, 1.0), (4.0, 2.0), (6.0, 3.0)]).expect("pairs");
        assert!([same.value, same.low, same.high].iter().all(|end| (end - 2.0).abs() < 1e-9), "{same:?}");
        // One pair has no interval: an infinite one could not be written.
        assert_eq!((ratio(&[(0.0, 1.0)]), ratio(&[(2.0, 1.0), (3.0, 0.0)])), (None, None));
    }
}
