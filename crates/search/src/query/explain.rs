//! A query's tree as FT.EXPLAIN prints it.

use super::ast::{ALL_FIELDS, Attributes, Kind, Near, Node, Relation, Side, VectorQuery};
use crate::schema::{Definition, FieldKind};
use martlet_base::number::{NumberBuffer, format_f64_significant};

/// The tree as text, a node a line.
pub fn explain(node: &Node, definition: &Definition) -> Vec<u8> {
    let names = definition.fields.iter().filter(|field| matches!(field.kind, FieldKind::Text(_)));
    let mut printer = Printer { out: Vec::new(), names: names.map(|field| &*field.name).collect() };
    printer.node(node, 0);
    printer.out
}

/// The lines of [`explain`], of which the last one is empty: FT.EXPLAINCLI.
pub fn explain_lines(node: &Node, definition: &Definition) -> Vec<Vec<u8>> {
    explain(node, definition).split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

struct Printer<'d> {
    out: Vec<u8>,
    /// The text fields, by their bits.
    names: Vec<&'d [u8]>,
}

impl Printer<'_> {
    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn bytes(&mut self, before: &str, bytes: &[u8], after: &str) {
        self.text(before);
        self.out.extend_from_slice(bytes);
        self.text(after);
    }

    fn indent(&mut self, depth: usize) {
        self.out.resize(self.out.len() + 2 * depth, b' ');
    }

    fn node(&mut self, node: &Node, depth: usize) {
        self.indent(depth);
        self.fields(node);
        if let Kind::Term(term) = &node.kind {
            let text = if term.text.is_empty() { b"\"\"" } else { &*term.text };
            self.bytes("", text, if term.expanded { "(expanded)" } else { "" });
            if node.attributes.weight != 1.0 {
                let weight = general(node.attributes.weight);
                self.bytes(" => {$weight: ", weight.as_bytes(), ";}");
            }
            self.text("\n");
            return;
        }
        self.kind(node, depth);
        self.attributes(&node.attributes);
        self.text("\n");
    }

    fn fields(&mut self, node: &Node) {
        match node.fields {
            0 => self.text("@NULL:"),
            ALL_FIELDS => {}
            _ if matches!(node.kind, Kind::Numeric(_) | Kind::Geo(_)) => {}
            mask => {
                let mut before = "@";
                for bit in (0..128).filter(|bit| mask >> bit & 1 == 1) {
                    let name = self.names.get(bit).copied().unwrap_or(b"n/a");
                    self.bytes(before, name, "");
                    before = "|";
                }
                self.text(":");
            }
        }
    }

    fn block(&mut self, head: &str, node: &Node, depth: usize) {
        self.text(head);
        self.text("\n");
        for child in node.children() {
            self.node(child, depth + 1);
        }
        self.indent(depth);
        self.text("}");
    }

    fn kind(&mut self, node: &Node, depth: usize) {
        match &node.kind {
            Kind::Empty => self.text("<empty>"),
            Kind::All => self.text("<WILDCARD>"),
            Kind::Term(_) => {}
            Kind::Intersect(list) => {
                self.block(if list.exact { "EXACT {" } else { "INTERSECT {" }, node, depth);
            }
            Kind::Union(_) => self.block("UNION {", node, depth),
            Kind::Not(_) => self.block("NOT{", node, depth),
            Kind::Optional(_) => self.block("OPTIONAL{", node, depth),
            Kind::Affix(affix) => match affix.side {
                Side::Prefix => self.bytes("PREFIX{", &affix.text, "*}"),
                Side::Suffix => self.bytes("SUFFIX{*", &affix.text, "}"),
                Side::Infix => self.bytes("INFIX{*", &affix.text, "*}"),
            },
            Kind::Wildcard(pattern) => self.bytes("WILDCARD{", pattern, "}"),
            Kind::Fuzzy(fuzzy) => self.bytes("FUZZY{", &fuzzy.text, "}"),
            Kind::Tag(tag) => {
                self.bytes("TAG:@", &tag.field, "");
                self.block(" {", node, depth);
            }
            Kind::Numeric(range) => {
                let sign = |included| if included { "<=" } else { "<" };
                self.text(&format!("NUMERIC {{{} {} ", fixed(range.min), sign(range.includes_min)));
                self.bytes("@", &range.field, "");
                self.text(&format!(" {} {}}}", sign(range.includes_max), fixed(range.max)));
            }
            Kind::Geo(circle) => {
                self.bytes("GEO ", &circle.field, ":{");
                let [x, y, radius] = [circle.longitude, circle.latitude, circle.radius].map(fixed);
                let unit = circle.unit.map_or("<badunit>", |unit| unit.name());
                self.text(&format!("{x},{y} --> {radius} {unit}}}"));
            }
            Kind::Shape(shape) => {
                let number = match shape.relation {
                    Relation::Contains => 1,
                    Relation::Within => 2,
                    Relation::Disjoint => 3,
                    Relation::Intersects => 4,
                };
                self.bytes(&format!("GEOSHAPE{{{number} "), &shape.text, "}");
            }
            Kind::Missing(field) => self.bytes("ISMISSING{", field, "}"),
            Kind::Vector(query) => self.vector(query, node, depth),
        }
    }

    fn vector(&mut self, query: &VectorQuery, node: &Node, depth: usize) {
        self.text("VECTOR {");
        if query.filter.is_some() {
            self.block("", node, depth);
            self.text(" => {");
        }
        match query.near {
            Near::Nearest(count) => self.text(&format!("K={count} nearest vectors to ")),
            Near::Within(radius) => {
                let radius = general(radius);
                self.text(&format!("Vectors that are within {radius} distance radius from "));
            }
        }
        self.bytes("`$", &query.parameter, "` ");
        self.bytes("in vector index associated with field @", &query.field, "");
        for (name, value) in &query.options {
            self.bytes(", ", name, " = ");
            self.bytes("", value, "");
        }
        if let Some(field) = &query.distance_field {
            self.bytes(", yields distance as `", field, "`");
        }
        self.text("}");
    }

    fn attributes(&mut self, attributes: &Attributes) {
        let in_order = attributes.in_order == Some(true);
        if attributes.weight == 1.0 && attributes.slop.is_none() && !in_order {
            return;
        }
        self.text(" => {");
        if attributes.weight != 1.0 {
            let weight = general(attributes.weight);
            self.bytes(" $weight: ", weight.as_bytes(), ";");
        }
        if let Some(slop) = attributes.slop {
            self.text(&format!(" $slop: {slop};"));
        }
        if in_order || attributes.slop.is_some() {
            self.text(&format!(" $inorder: {in_order};"));
        }
        self.text(" }");
    }
}

/// A number as C's `%f` prints it.
fn fixed(number: f64) -> String {
    match number {
        number if number.is_nan() => if number.is_sign_negative() { "-nan" } else { "nan" }.into(),
        number => format!("{number:.6}"),
    }
}

/// A number as C's `%g` prints it.
fn general(number: f64) -> String {
    let mut buffer = NumberBuffer::new();
    String::from_utf8_lossy(format_f64_significant(number, 6, &mut buffer)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_c_prints_them() {
        for (number, expected) in [
            (1.0, "1"),
            (2.5, "2.5"),
            (0.1, "0.1"),
            (1e-5, "1e-05"),
            (123456.0, "123456"),
            (1234567.0, "1.23457e+06"),
            (999999.5, "1e+06"),
            (-0.00012, "-0.00012"),
            (0.0, "0"),
            (f64::INFINITY, "inf"),
            (1e100, "1e+100"),
        ] {
            assert_eq!(general(number), expected);
        }
        assert_eq!(fixed(f64::NEG_INFINITY), "-inf");
        assert_eq!(fixed(-5.0), "-5.000000");
    }
}
