//! Operands in brackets, and comparisons: ranges of numbers, circles, shapes, and near vectors.

use super::ast::{Circle, Kind as NodeKind, Near, Node, Range, Relation, Shape, Target, Unit, VectorQuery};
use super::escape::unescaped;
use super::lexer::{Kind, Token};
use super::params::check_circle;
use super::parser::{Parser, syntax_error};
use crate::Error;

/// A number, or the parameter that has it.
#[derive(Copy, Clone)]
struct Number<'q> {
    value: f64,
    parameter: Option<&'q [u8]>,
    is_negative: bool,
    is_included: bool,
}

impl<'q> Number<'q> {
    fn of(token: &Token<'q>) -> Number<'q> {
        Number {
            value: token.number,
            parameter: token.is_parameter.then_some(token.text),
            is_negative: token.is_negative,
            is_included: true,
        }
    }

    /// Has the node wait for it if it is a parameter.
    fn fill(&self, node: &mut Node, target: Target) {
        if let Some(name) = self.parameter {
            node.await_parameter(name, target, self.is_negative);
        }
    }
}

fn range_node(field: Vec<u8>, min: f64, max: f64, includes: (bool, bool)) -> Node {
    let (includes_min, includes_max) = includes;
    Node::new(NodeKind::Numeric(Range { field: field.into(), min, max, includes_min, includes_max }))
}

fn invalid_unit() -> Error {
    Error::new("Invalid GeoFilter unit")
}

impl<'q> Parser<'q, '_> {
    /// A field, an operator and a number.
    pub(super) fn comparison(&mut self, field: Vec<u8>) -> Result<Node, Error> {
        self.count_clause()?;
        let operator = self.token.kind;
        if !matches!(
            operator,
            Kind::NotEqual | Kind::Equal | Kind::Greater | Kind::GreaterEqual | Kind::Less | Kind::LessEqual
        ) {
            return Err(self.syntax_error());
        }
        self.advance();
        let number = self.number()?;
        let (has_min, has_max) = match operator {
            Kind::Greater | Kind::GreaterEqual => (true, false),
            Kind::Less | Kind::LessEqual => (false, true),
            _ => (true, true),
        };
        let min = if has_min { number.value } else { f64::NEG_INFINITY };
        let max = if has_max { number.value } else { f64::INFINITY };
        let includes = (operator != Kind::Greater, operator != Kind::Less);
        let mut node = range_node(field, min, max, includes);
        if has_min {
            number.fill(&mut node, Target::Min);
        }
        if has_max {
            number.fill(&mut node, Target::Max);
        }
        Ok(if operator == Kind::NotEqual { Node::new(NodeKind::Not(Box::new(node))) } else { node })
    }

    /// A number or a parameter, with any minuses before it (one before a parameter).
    fn number(&mut self) -> Result<Number<'q>, Error> {
        let mut minuses = 0_usize;
        while self.token.kind == Kind::Minus {
            self.advance();
            minuses += 1;
        }
        match self.token.kind {
            Kind::Number | Kind::Size => {}
            Kind::Attribute if minuses < 2 => {}
            _ => return Err(self.syntax_error()),
        }
        let token = self.advance();
        let mut number = Number::of(&token);
        if minuses % 2 == 1 {
            number.value = -number.value;
            number.is_negative = true;
        }
        Ok(number)
    }

    /// A number that is excluded from its range by a parenthesis before it, or not.
    fn bound(&mut self) -> Result<Number<'q>, Error> {
        let is_excluded = self.token.kind == Kind::LeftParen;
        if is_excluded {
            self.advance();
        }
        let mut number = self.number()?;
        number.is_included = !is_excluded;
        Ok(number)
    }

    /// An operand in brackets behind a field's name, from dialect 2 on.
    pub(super) fn range(&mut self, field: Vec<u8>) -> Result<Node, Error> {
        self.count_clause()?;
        self.advance();
        if matches!(self.token.kind, Kind::Term | Kind::Exact | Kind::As | Kind::IsMissing) {
            return self.shape_or_vectors(field);
        }
        let min = self.bound()?;
        if min.is_included && self.token.kind == Kind::RightBracket {
            self.advance();
            let mut node = range_node(field, min.value, min.value, (true, true));
            min.fill(&mut node, Target::Min);
            min.fill(&mut node, Target::Max);
            return Ok(node);
        }
        let max = self.bound()?;
        if !(min.is_included && max.is_included) || self.token.kind == Kind::RightBracket {
            self.expect(Kind::RightBracket)?;
            let mut node = range_node(field, min.value, max.value, (min.is_included, max.is_included));
            min.fill(&mut node, Target::RangeMin);
            max.fill(&mut node, Target::RangeMax);
            return Ok(node);
        }
        self.circle(field, min, max)
    }

    /// The rest of a circle behind its centre.
    fn circle(&mut self, field: Vec<u8>, longitude: Number<'q>, latitude: Number<'q>) -> Result<Node, Error> {
        let radius = self.number()?;
        let token = match self.token.kind {
            Kind::Term | Kind::Exact | Kind::As | Kind::IsMissing => self.advance(),
            Kind::Attribute | Kind::Number | Kind::Size => self.advance(),
            _ => return Err(self.syntax_error()),
        };
        self.expect(Kind::RightBracket)?;
        if matches!(token.kind, Kind::Number | Kind::Size) {
            return Err(invalid_unit());
        }
        let mut node = Node::new(NodeKind::Geo(Circle {
            field: field.into(),
            longitude: longitude.value,
            latitude: latitude.value,
            radius: radius.value,
            unit: Unit::parse(token.text),
        }));
        longitude.fill(&mut node, Target::Longitude);
        latitude.fill(&mut node, Target::Latitude);
        radius.fill(&mut node, Target::Radius);
        if token.is_parameter {
            node.await_parameter(token.text, Target::Unit, false);
        }
        Ok(node)
    }

    /// `WITHIN $shape` and its kin, or `VECTOR_RANGE radius $vector`.
    fn shape_or_vectors(&mut self, field: Vec<u8>) -> Result<Node, Error> {
        let word = self.advance();
        let first = match self.token.kind {
            Kind::Attribute => Number::of(&self.advance()),
            _ => self.number()?,
        };
        let Some(parameter) = first.parameter.filter(|_| self.token.kind == Kind::RightBracket) else {
            return self.vector_range(field, &word, first);
        };
        if first.is_negative {
            return Err(self.syntax_error());
        }
        self.advance();
        let Some(relation) = Relation::parse(word.text) else {
            // The parameter's place: the bracket follows it after spaces at most.
            return Err(Error::new(format!(
                "Syntax error: Expecting a geoshape predicate at offset {}",
                self.parameter_offset(&word, parameter)
            )));
        };
        let mut node = Node::new(NodeKind::Shape(Shape { field: field.into(), relation, text: [].into() }));
        node.await_parameter(parameter, Target::Shape, false);
        Ok(node)
    }

    /// Where the parameter behind a word begins.
    fn parameter_offset(&self, word: &Token<'q>, parameter: &'q [u8]) -> usize {
        word.offset + (parameter.as_ptr() as usize).saturating_sub(word.text.as_ptr() as usize) - 1
    }

    fn vector_range(&mut self, field: Vec<u8>, word: &Token<'q>, radius: Number<'q>) -> Result<Node, Error> {
        let vector = self.expect(Kind::Attribute)?;
        if !word.text.eq_ignore_ascii_case(b"VECTOR_RANGE") {
            return Err(syntax_error("Syntax error: expecting vector similarity range command", word));
        }
        self.expect(Kind::RightBracket)?;
        let mut node = vector_node(field, Near::Within(radius.value), &vector);
        radius.fill(&mut node, Target::Distance);
        Ok(node)
    }

    /// `[KNN count @field $vector …]`, the whole query's end, among the documents that the query before it
    /// finds.
    pub(super) fn nearest(&mut self, filter: Option<Node>) -> Result<Node, Error> {
        self.count_clause()?;
        self.expect(Kind::LeftBracket)?;
        if !matches!(self.token.kind, Kind::Term | Kind::Exact | Kind::As | Kind::IsMissing) {
            return Err(self.syntax_error());
        }
        let word = self.advance();
        if !matches!(self.token.kind, Kind::Size | Kind::Attribute) {
            return Err(self.syntax_error());
        }
        let count = self.advance();
        let field = unescaped(self.expect(Kind::Modifier)?.text);
        let vector = self.expect(Kind::Attribute)?;
        if !word.text.eq_ignore_ascii_case(b"KNN") {
            return Err(syntax_error("Syntax error: Expecting Vector Similarity command", &word));
        }
        let distance_field = [b"__", &*field, b"_score"].concat();
        let mut node = vector_node(field, Near::Nearest(count.number as u64), &vector);
        if count.is_parameter {
            node.await_parameter(count.text, Target::Count, false);
        }
        if let NodeKind::Vector(query) = &mut node.kind {
            query.distance_field = Some(distance_field.into());
            query.filter = filter;
        }
        self.vector_options(&mut node)?;
        if self.token.kind == Kind::Arrow {
            self.advance();
            let attributes = self.attributes()?;
            super::attributes::apply(&mut node, &attributes)?;
        }
        self.expect(Kind::End)?;
        Ok(node)
    }

    /// Names and values of options, the field for the distance, and the bracket.
    fn vector_options(&mut self, node: &mut Node) -> Result<(), Error> {
        loop {
            match self.token.kind {
                Kind::RightBracket => break,
                Kind::As => {
                    self.advance();
                    let name = self.plain()?;
                    if name.is_parameter {
                        node.await_parameter(name.text, Target::DistanceField, false);
                    } else if let NodeKind::Vector(query) = &mut node.kind {
                        query.distance_field = Some(name.text.into());
                    }
                    break;
                }
                Kind::Term | Kind::Exact | Kind::IsMissing => {
                    self.count_clause()?;
                    let name = self.advance();
                    let value = self.plain()?;
                    let NodeKind::Vector(query) = &mut node.kind else { break };
                    let text = if value.is_parameter { &[][..] } else { value.text };
                    query.options.push((name.text.into(), text.into()));
                    let place = query.options.len() - 1;
                    if value.is_parameter {
                        node.await_parameter(value.text, Target::Option(place), false);
                    }
                }
                _ => return Err(self.syntax_error()),
            }
        }
        self.expect(Kind::RightBracket).map(|_| ())
    }

    /// A word, a number or a parameter.
    fn plain(&mut self) -> Result<Token<'q>, Error> {
        match self.token.kind {
            Kind::Term | Kind::Exact | Kind::As | Kind::IsMissing => Ok(self.advance()),
            Kind::Number | Kind::Size | Kind::Attribute => Ok(self.advance()),
            _ => Err(self.syntax_error()),
        }
    }

    /// A range or a circle of dialect 1, which is checked at once.
    pub(super) fn first_dialect_range(&mut self, field: Vec<u8>) -> Result<Node, Error> {
        self.count_clause()?;
        self.advance();
        let min = self.first_dialect_number()?;
        let max = self.first_dialect_number()?;
        if self.token.kind == Kind::RightBracket {
            self.advance();
            return Ok(range_node(field, min.value, max.value, (min.is_included, max.is_included)));
        }
        let radius = self.first_dialect_number()?;
        let unit = self.expect(Kind::Term)?;
        self.expect(Kind::RightBracket)?;
        let circle = Circle {
            field: field.into(),
            longitude: min.value,
            latitude: max.value,
            radius: radius.value,
            unit: Unit::parse(unit.text),
        };
        check_circle(&circle)?;
        Ok(Node::new(NodeKind::Geo(circle)))
    }

    /// A number with any parentheses and minuses before it.
    fn first_dialect_number(&mut self) -> Result<Number<'q>, Error> {
        let (mut is_negative, mut is_included) = (false, true);
        loop {
            match self.token.kind {
                Kind::Minus => is_negative = !is_negative,
                Kind::LeftParen => is_included = false,
                _ => break,
            }
            self.advance();
        }
        let token = self.expect(Kind::Number)?;
        let value = if is_negative { -token.number } else { token.number };
        Ok(Number { value, parameter: None, is_negative, is_included })
    }
}

fn vector_node(field: Vec<u8>, near: Near, vector: &Token<'_>) -> Node {
    let query = VectorQuery::new(&field, near, vector.text, &[]);
    let mut node = Node::new(NodeKind::Vector(Box::new(query)));
    node.await_parameter(vector.text, Target::Vector, false);
    node
}
