//! Prometheus' text format 0.0.4: families of samples, each with its kind and help once.

use std::fmt::Write;

use super::names::Kind;

/// The namespace of all names but the process' own.
const PREFIX: &str = "redis_";

/// A kind as the format spells it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Shape {
    Gauge,
    Counter,
    Summary,
    Histogram,
}

struct Family {
    name: String,
    shape: Shape,
    help: String,
    samples: String,
}

/// Metrics as they are collected: samples of one name stand together, whatever the order they came in.
#[derive(Default)]
pub(super) struct Metrics {
    families: Vec<Family>,
}

/// A metric's labels.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Metrics {
    /// Adds a sample. The name is without its prefix; it may be any field's.
    pub fn add(&mut self, kind: Kind, name: &str, help: &str, labels: Labels<'_>, value: f64) {
        let shape = match kind {
            Kind::Gauge => Shape::Gauge,
            Kind::Counter => Shape::Counter,
        };
        let family = self.family(shape, name, help);
        sample(family, "", labels, value);
    }

    /// Adds quantiles of a quantity, with its count and its sum.
    pub fn add_summary(
        &mut self,
        name: &str,
        help: &str,
        label: (&str, &str),
        quantiles: &[(f64, f64)],
        (count, sum): (f64, f64),
    ) {
        let family = self.family(Shape::Summary, name, help);
        for (quantile, value) in quantiles {
            sample(family, "", &[label, ("quantile", &quantile.to_string())], *value);
        }
        sample(family, "_sum", &[label], sum);
        sample(family, "_count", &[label], count);
    }

    /// Adds a histogram: how many are at most so much, from the least bucket to the largest.
    pub fn add_histogram(
        &mut self,
        name: &str,
        help: &str,
        label: (&str, &str),
        buckets: &[(f64, f64)],
        (count, sum): (f64, f64),
    ) {
        let family = self.family(Shape::Histogram, name, help);
        for (most, below) in buckets {
            sample(family, "_bucket", &[label, ("le", &most.to_string())], *below);
        }
        sample(family, "_bucket", &[label, ("le", "+Inf")], count);
        sample(family, "_sum", &[label], sum);
        sample(family, "_count", &[label], count);
    }

    fn family(&mut self, shape: Shape, name: &str, help: &str) -> &mut Family {
        let name = format!("{PREFIX}{}", cleaned(name));
        // A name belongs to one family, of one kind.
        let at = self.families.iter().position(|family| family.name == name).unwrap_or_else(|| {
            let help =
                if help.is_empty() { format!("{} metric", &name[PREFIX.len()..]) } else { help.into() };
            self.families.push(Family { name, shape, help, samples: String::new() });
            self.families.len() - 1
        });
        &mut self.families[at]
    }

    /// All of it as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for family in &self.families {
            let kind = match family.shape {
                Shape::Gauge => "gauge",
                Shape::Counter => "counter",
                Shape::Summary => "summary",
                Shape::Histogram => "histogram",
            };
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "# HELP {0} {1}\n# TYPE {0} {kind}\n{2}",
                family.name,
                escaped(&family.help, false),
                family.samples
            );
        }
        text
    }
}

fn sample(family: &mut Family, suffix: &str, labels: Labels<'_>, value: f64) {
    let Family { name, samples, .. } = family;
    let _ = write!(samples, "{name}{suffix}");
    for (at, (label, value)) in labels.iter().enumerate() {
        let open = if at == 0 { '{' } else { ',' };
        let _ = write!(samples, "{open}{}=\"{}\"", cleaned(label), escaped(value, true));
    }
    let close = if labels.is_empty() { "" } else { "}" };
    let _ = match value == f64::INFINITY {
        true => writeln!(samples, "{close} +Inf"),
        false => writeln!(samples, "{close} {value}"),
    };
}

/// A name of letters, digits and underscores.
fn cleaned(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

fn escaped(text: &str, is_label: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if is_label { text.replace('"', "\\\"") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_written_once_with_what_needs_escaping_escaped() {
        let mut metrics = Metrics::default();
        metrics.add(Kind::Counter, "a-b_total", "", &[("cmd", "x\"\\\n")], 2.0);
        metrics.add(Kind::Gauge, "other", "of it", &[], 0.5);
        metrics.add(Kind::Counter, "a-b_total", "", &[("cmd", "y"), ("db", "0")], f64::INFINITY);
        metrics.add_histogram("h", "us", ("cmd", "get"), &[(1.0, 3.0)], (4.0, 9.0));
        metrics.add_summary("s", "us", ("cmd", "get"), &[(0.5, 7.0)], (4.0, 9.0));
        assert_eq!(
            metrics.text(),
            "# HELP redis_a_b_total a_b_total metric\n# TYPE redis_a_b_total counter\n\
             redis_a_b_total{cmd=\"x\\\"\\\\\\n\"} 2\nredis_a_b_total{cmd=\"y\",db=\"0\"} +Inf\n\
             # HELP redis_other of it\n# TYPE redis_other gauge\nredis_other 0.5\n\
             # HELP redis_h us\n# TYPE redis_h histogram\nredis_h_bucket{cmd=\"get\",le=\"1\"} 3\n\
             redis_h_bucket{cmd=\"get\",le=\"+Inf\"} 4\nredis_h_sum{cmd=\"get\"} 9\nredis_h_count{cmd=\"get\"} 4\n\
             # HELP redis_s us\n# TYPE redis_s summary\nredis_s{cmd=\"get\",quantile=\"0.5\"} 7\n\
             redis_s_sum{cmd=\"get\"} 9\nredis_s_count{cmd=\"get\"} 4\n"
        );
    }
}
