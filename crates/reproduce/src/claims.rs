//! Whether a source's claim holds here: a claim is a bound on a figure that is computed from measured rows,
//! server by server. Where a row is missing there is no claim.

use serde::Serialize;

/// The purpose of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A law that should be seen on any machine.
    Law,
    /// A limit of the server that the source measured, which a better one breaks.
    Limit,
    /// What our server is to reach.
    Goal,
}

/// The judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Holds,
    Fails,
    Unknown,
}

/// Where a figure must lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Between(f64, f64),
}

impl Bound {
    fn contains(self, figure: f64) -> bool {
        match self {
            Bound::AtLeast(low) => figure >= low,
            Bound::AtMost(high) => figure <= high,
            Bound::Between(low, high) => (low..=high).contains(&figure),
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::AtLeast(low) => write!(f, "at least {}", number(*low)),
            Bound::AtMost(high) => write!(f, "at most {}", number(*high)),
            Bound::Between(low, high) => write!(f, "{} to {}", number(*low), number(*high)),
        }
    }
}

/// A claim and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    pub kind: Kind,
    /// The source's words.
    pub text: String,
    /// The figure that decides, and where it must lie.
    pub test: String,
    pub judgements: Vec<Judgement>,
}

/// A claim's verdict for one server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    pub server: String,
    pub verdict: Verdict,
    /// The verdict in words.
    pub words: &'static str,
    /// The figure, as shown.
    pub found: String,
}

impl Verdict {
    fn words(self, kind: Kind) -> &'static str {
        match (self, kind) {
            (Verdict::Holds, Kind::Goal) => "reached",
            (Verdict::Fails, Kind::Goal) => "missed",
            (Verdict::Holds, Kind::Limit) => "holds, the limit stands",
            (Verdict::Fails, Kind::Limit) => "does not hold, the limit is broken",
            (Verdict::Holds, Kind::Law) => "holds",
            (Verdict::Fails, Kind::Law) => "does not hold",
            (Verdict::Unknown, _) => "not measured",
        }
    }
}

/// The verdict on a figure; `None` if it could not be computed.
fn judge(server: &str, kind: Kind, figure: Option<f64>, bound: Bound) -> Judgement {
    let figure = figure.filter(|figure| figure.is_finite());
    let verdict = match figure {
        None => Verdict::Unknown,
        Some(figure) if bound.contains(figure) => Verdict::Holds,
        Some(_) => Verdict::Fails,
    };
    Judgement {
        server: server.into(),
        verdict,
        words: verdict.words(kind),
        found: figure.map_or("–".into(), number),
    }
}

/// A claim whose figure is computed for each server; `name` describes the figure.
pub fn claim<'a>(
    kind: Kind,
    text: &str,
    (name, bound): (&str, Bound),
    servers: impl IntoIterator<Item = &'a str>,
    figure: impl Fn(&str) -> Option<f64>,
) -> Claim {
    Claim {
        kind,
        text: text.into(),
        test: format!("{name}: {bound}"),
        judgements: servers.into_iter().map(|server| judge(server, kind, figure(server), bound)).collect(),
    }
}

/// One by the other, where both are known and the second is above 0.
pub fn quotient(above: Option<f64>, below: Option<f64>) -> Option<f64> {
    above.zip(below).filter(|(_, below)| *below > 0.0).map(|(above, below)| above / below)
}

/// The middle of some values; of an even number, the mean of the two in the middle.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => Some((values.get(middle.checked_sub(1)?)? + values.get(middle)?) / 2.0),
        _ => values.get(middle).copied(),
    }
}

/// A number as tables show it: three digits or all before the point, thousands apart.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let decimals = match () {
        () if size >= 100.0 || value == value.trunc() => 0,
        () if size >= 10.0 => 1,
        () if size >= 1.0 => 2,
        () => 3,
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(w, r)| (w, Some(r)));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut out = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    rest.map_or(out.clone(), |rest| format!("{out}.{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_judged_by_its_bound() {
        for (figure, bound, verdict) in [
            (0.8, Bound::AtLeast(0.8), Verdict::Holds),
            (0.79, Bound::AtLeast(0.8), Verdict::Fails),
            (0.8, Bound::AtMost(0.8), Verdict::Holds),
            (0.81, Bound::AtMost(0.8), Verdict::Fails),
            (1.2, Bound::Between(0.8, 1.2), Verdict::Holds),
            (1.3, Bound::Between(0.8, 1.2), Verdict::Fails),
            (f64::NAN, Bound::AtMost(0.8), Verdict::Unknown),
            (f64::INFINITY, Bound::AtLeast(0.8), Verdict::Unknown),
        ] {
            assert_eq!(judge("a", Kind::Law, Some(figure), bound).verdict, verdict, "{figure} {bound}");
        }
        assert_eq!(judge("a", Kind::Law, None, Bound::AtLeast(0.0)).verdict, Verdict::Unknown);
    }

    #[test]
    fn each_server_is_judged_by_its_own_figure() {
        let figure = |server: &str| (server != "gone").then_some(if server == "slow" { 0.5 } else { 2.0 });
        let test = ("with by without", Bound::AtLeast(1.5));
        let claim = claim(Kind::Limit, "faster", test, ["fast", "slow", "gone"], figure);
        assert_eq!(claim.test, "with by without: at least 1.50");
        let words: Vec<_> = claim.judgements.iter().map(|j| (j.found.as_str(), j.words)).collect();
        let expected = [
            ("2", "holds, the limit stands"),
            ("0.500", "does not hold, the limit is broken"),
            ("–", "not measured"),
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn quotients_need_both_sides() {
        assert_eq!(quotient(Some(1.0), Some(4.0)), Some(0.25));
        for (above, below) in [(None, Some(1.0)), (Some(1.0), None), (Some(1.0), Some(0.0))] {
            assert_eq!(quotient(above, below), None);
        }
    }

    #[test]
    fn the_middle_of_some_values() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn numbers_are_short_and_their_thousands_apart() {
        for (value, text) in [
            (0.1234, "0.123"),
            (1.5, "1.50"),
            (12.34, "12.3"),
            (1234567.8, "1,234,568"),
            (-1000.0, "-1,000"),
            (5.0, "5"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
