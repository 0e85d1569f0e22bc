//! How keys are drawn: uniform, in sequence, zipfian, gaussian, latest, hot set. A draw is always below the
//! distribution's size. Ranks are key numbers: key 0 is the most popular.
//!
//! No distribution counts by itself: sequences are computed from the request's number, its *turn*, so that
//! several placeholders of one request agree while other threads draw.

use martlet_base::random::Random;

/// Exponent of `zipfian` where the template names none: resp-benchmark's.
pub const DEFAULT_ZIPF_EXPONENT: f64 = 1.03;

/// Draws numbers in `0..size`.
#[derive(Clone, Debug)]
pub enum Distribution {
    /// All alike.
    Uniform(u64),
    /// 0, 1, 2 … size-1, 0 … over the turns, so each number is drawn before one is drawn twice. Of several
    /// occurrences that share the numbers, each turn takes `step`, and this occurrence the one at `offset`.
    Sequence {
        /// Number of different numbers.
        size: u64,
        /// Numbers that a turn takes.
        step: u64,
        /// Which of them this is.
        offset: u64,
    },
    /// Probability of rank k proportional to k^-exponent.
    Zipfian(Zipf),
    /// Bell around the middle, standard deviation a sixth of the size; what falls outside is drawn again.
    Gaussian(u64),
    /// The newest are the most popular: the head moves on by one with every turn, zipfian distance behind it.
    Latest(Zipf),
    /// `hot` keys get the share `probability` of all draws, the others the rest.
    HotSet {
        /// Number of keys.
        size: u64,
        /// Number of hot keys.
        hot: u64,
        /// Share of draws that hit a hot key, 0 to 1.
        probability: f64,
    },
}

impl Distribution {
    /// Numbers from 0, one each turn.
    pub fn sequence(size: u64) -> Distribution {
        Distribution::Sequence { size, step: 1, offset: 0 }
    }

    /// Whether a draw depends on the turn.
    pub fn is_counted(&self) -> bool {
        matches!(self, Distribution::Sequence { .. } | Distribution::Latest(_))
    }

    /// One number below the size, of the request with this number.
    #[inline]
    pub fn draw(&self, random: &mut Random, turn: u64) -> u64 {
        match self {
            Distribution::Uniform(size) => random.below(*size),
            Distribution::Sequence { size, step, offset } => {
                turn.wrapping_mul(*step).wrapping_add(*offset) % size
            }
            Distribution::Zipfian(zipf) => zipf.draw(random) - 1,
            Distribution::Gaussian(size) => gaussian(*size, random),
            Distribution::Latest(zipf) => {
                let head = turn % zipf.size;
                (head + zipf.size - (zipf.draw(random) - 1)) % zipf.size
            }
            Distribution::HotSet { size, hot, probability } => {
                if hot == size || random.unit_f64() < *probability {
                    random.below(*hot)
                } else {
                    hot + random.below(size - hot)
                }
            }
        }
    }

    /// Parses `NAME SIZE [PARAMETER…]`, as it stands inside a placeholder.
    pub fn parse(words: &[&str]) -> Result<Distribution, String> {
        let (name, size, parameters) = match words {
            [name, size, parameters @ ..] => (*name, parse_size(size)?, parameters),
            [name] => return Err(format!("distribution '{name}' needs a size, as in 'uniform 1000'")),
            [] => {
                return Err(
                    "a distribution is missing: uniform, sequence, zipfian, gaussian, latest or hotset"
                        .into(),
                );
            }
        };
        let exponent = |text: Option<&&str>| match text {
            None => Ok(DEFAULT_ZIPF_EXPONENT),
            Some(text) => match text.parse::<f64>() {
                Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
                _ => Err(format!("'{text}' is not a zipf exponent above 0")),
            },
        };
        let parsed = match (name, parameters) {
            ("uniform", []) => Distribution::Uniform(size),
            ("sequence" | "sequential", []) => Distribution::sequence(size),
            ("zipfian" | "zipf", [] | [_]) => {
                Distribution::Zipfian(Zipf::new(size, exponent(parameters.first())?))
            }
            ("gaussian" | "normal", []) => Distribution::Gaussian(size),
            ("latest", [] | [_]) => Distribution::Latest(Zipf::new(size, exponent(parameters.first())?)),
            ("hotset", [hot, probability]) => {
                let hot = parse_size(hot)?;
                let probability = probability
                    .parse::<f64>()
                    .ok()
                    .filter(|p| (0.0..=1.0).contains(p))
                    .ok_or_else(|| format!("'{probability}' is not a share between 0 and 1"))?;
                if hot > size {
                    return Err(format!("the hot set ({hot}) is larger than the whole ({size})"));
                }
                Distribution::HotSet { size, hot, probability }
            }
            ("hotset", _) => return Err("hotset takes SIZE HOT SHARE, as in 'hotset 1000 10 0.9'".into()),
            (
                "uniform" | "sequence" | "sequential" | "zipfian" | "zipf" | "gaussian" | "normal" | "latest",
                _,
            ) => {
                return Err(format!("too many parameters for distribution '{name}'"));
            }
            _ => return Err(format!("unknown distribution '{name}'")),
        };
        Ok(parsed)
    }
}

/// A size in a template: a whole number above 0.
pub fn parse_size(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(0) => Err("a size of 0 leaves nothing to draw".into()),
        Ok(value) => Ok(value),
        Err(_) => Err(format!("'{text}' is not a whole number")),
    }
}

fn gaussian(size: u64, random: &mut Random) -> u64 {
    loop {
        // Box and Muller's transform; its second value is not kept, which keeps the generator stateless.
        let radius = (-2.0 * (1.0 - random.unit_f64()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * random.unit_f64()).cos();
        let value = (0.5 + normal / 6.0) * size as f64;
        if value >= 0.0 && value < size as f64 {
            return value as u64;
        }
    }
}

/// Exact zipfian ranks for any exponent above 0 in constant time and memory: rejection-inversion
/// (W. Hörmann and G. Derflinger, 1996).
#[derive(Clone, Debug)]
pub struct Zipf {
    size: u64,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    shortcut: f64,
}

impl Zipf {
    /// Ranks `1..=size`.
    pub fn new(size: u64, exponent: f64) -> Zipf {
        let mut zipf = Zipf { size, exponent, integral_first: 0.0, integral_last: 0.0, shortcut: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(size as f64 + 0.5);
        zipf.shortcut = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// Antiderivative of the density; continuous in the exponent at 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        expm1_ratio((1.0 - self.exponent) * log) * log
    }

    fn integral_inverse(&self, x: f64) -> f64 {
        let scaled = (x * (1.0 - self.exponent)).max(-1.0);
        (ln1p_ratio(scaled) * x).exp()
    }

    /// A rank in `1..=size`.
    pub fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.integral_last + random.unit_f64() * (self.integral_first - self.integral_last);
            let x = self.integral_inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.size as f64);
            if k - x <= self.shortcut || u >= self.integral(k + 0.5) - self.density(k) {
                return k as u64;
            }
        }
    }
}

/// (e^x - 1) / x, continuous at 0.
fn expm1_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// ln(1 + x) / x, continuous at 0.
fn ln1p_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chi-square of zipfian draws against the exact law, for exponents below, at and above 1.
    #[test]
    fn zipf_follows_its_exact_law() {
        const SIZE: u64 = 50;
        const DRAWS: u64 = 400_000;
        for exponent in [0.5, 0.99, 1.0, 1.03, 2.5] {
            let mut random = Random::seeded(7);
            let zipf = Zipf::new(SIZE, exponent);
            let mut counts = [0u64; SIZE as usize];
            for _ in 0..DRAWS {
                counts[zipf.draw(&mut random) as usize - 1] += 1;
            }
            let norm: f64 = (1..=SIZE).map(|k| (k as f64).powf(-exponent)).sum();
            let chi: f64 = counts
                .iter()
                .zip(1..)
                .map(|(&count, k)| {
                    let expected = (k as f64).powf(-exponent) / norm * DRAWS as f64;
                    (count as f64 - expected).powi(2) / expected
                })
                .sum();
            // 49 degrees of freedom: 85.4 is the 0.1 % point.
            assert!(chi < 85.4, "exponent {exponent}, seed 7: chi-square {chi}");
        }
    }

    #[test]
    fn a_sequence_covers_everything_before_it_repeats() {
        let sequence = Distribution::parse(&["sequence", "10"]).expect("valid");
        let mut random = Random::seeded(1);
        let drawn: Vec<u64> = (0..20).map(|turn| sequence.draw(&mut random, turn)).collect();
        assert_eq!(drawn, (0..10).chain(0..10).collect::<Vec<_>>());
    }

    #[test]
    fn every_distribution_stays_in_its_range_and_has_its_shape() {
        let mut random = Random::seeded(3);
        for words in [
            &["uniform", "100"][..],
            &["zipfian", "100", "1.2"],
            &["gaussian", "100"],
            &["latest", "100"],
            &["hotset", "100", "5", "0.9"],
        ] {
            let distribution = Distribution::parse(words).expect("valid");
            let draws: Vec<u64> = (0..20_000).map(|turn| distribution.draw(&mut random, turn)).collect();
            assert!(draws.iter().all(|d| *d < 100), "{words:?}");
            let mean = draws.iter().sum::<u64>() as f64 / 20_000.0;
            match words[0] {
                "uniform" | "gaussian" => assert!((mean - 49.5).abs() < 1.5, "{words:?}: {mean}"),
                "hotset" => {
                    let hot = draws.iter().filter(|d| **d < 5).count() as f64 / 20_000.0;
                    assert!((hot - 0.9).abs() < 0.02, "{hot}");
                }
                _ => {}
            }
        }
    }

    #[test]
    fn what_cannot_be_drawn_from_is_named() {
        for (words, message) in [
            (&["foo", "10"][..], "unknown distribution 'foo'"),
            (&["uniform"], "needs a size"),
            (&["uniform", "abc"], "'abc' is not a whole number"),
            (&["uniform", "0"], "nothing to draw"),
            (&["zipfian", "10", "-1"], "zipf exponent"),
            (&["hotset", "10", "20", "0.5"], "larger than"),
            (&["uniform", "10", "10"], "too many"),
            (&[], "missing"),
        ] {
            let error = Distribution::parse(words).expect_err("invalid");
            assert!(error.contains(message), "{error}");
        }
    }
}
