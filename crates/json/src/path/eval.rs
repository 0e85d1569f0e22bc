//! Evaluation: from a value along the steps, depth first, so that places come in the order of the document.
//!
//! Every value that is looked at counts as a visit, also within filters and by comparisons, and the
//! evaluation ends with an error at [`VISITS_MAX`]: `$..*..*` and filters within filters cannot run for
//! longer than that. The recursion is bounded by the depth of documents, the nesting of filters, and a
//! counter of frames.

use super::function::Function;
use super::parse::compile;
use super::term::Term;
use super::{Arithmetic, Comparison, Expr, Place, PlaceStep, Step};
use crate::error::{Error, Result};
use crate::limits::{DEPTH_LIMIT, RESULTS_MAX, VISITS_MAX};
use crate::value::{Array, Node, Number, Value, View};
use regex::Regex;

/// Calls of `walk` and `scan` within each other: two for each level of a document, and some for filters.
const FRAMES_MAX: usize = 4 * DEPTH_LIMIT;

/// Visits that compiling a regular expression counts for, when its pattern is no literal.
const COMPILE_VISITS: u64 = 10_000;

/// The value at `steps` from `root`, if there is one and all steps are names: most paths, for which nothing
/// is to be counted. `enter` is called with each name.
fn named<'d>(steps: &'d [Step], root: Node<'d>, mut enter: impl FnMut(&'d str)) -> Option<Option<Node<'d>>> {
    let name = |step: &'d Step| match step {
        Step::Child(name) => Some(&**name),
        _ => None,
    };
    if !steps.iter().all(|step| name(step).is_some()) {
        return None;
    }
    Some(steps.iter().filter_map(name).try_fold(root, |node, name| {
        let View::Object(object) = node.view() else { return None };
        enter(name);
        object.get(name).map(Node::Value)
    }))
}

/// The values at `steps` from `root`.
pub fn nodes<'d>(steps: &'d [Step], root: Node<'d>) -> Result<Vec<Node<'d>>> {
    if let Some(found) = named(steps, root, |_| {}) {
        return Ok(found.into_iter().collect());
    }
    let mut out = Out { found: Vec::new(), places: None };
    Evaluator::new(root).walk(steps, root, &mut out)?;
    Ok(out.found)
}

/// The values at `steps` from `root`, and where they stand.
pub fn places<'d>(steps: &'d [Step], root: Node<'d>) -> Result<Vec<(Node<'d>, Place)>> {
    let mut place = Vec::with_capacity(steps.len());
    if let Some(found) = named(steps, root, |name| place.push(PlaceStep::Name(Value::text(name)))) {
        return Ok(found.map(|node| (node, place)).into_iter().collect());
    }
    let mut out = Out { found: Vec::new(), places: Some(Places::default()) };
    Evaluator::new(root).walk(steps, root, &mut out)?;
    let places = out.places.unwrap_or_default().found;
    Ok(out.found.into_iter().zip(places).collect())
}

/// The values that an expression computes.
pub fn compute<'d>(expression: &'d Expr, root: Node<'d>) -> Result<Vec<Value>> {
    Evaluator::new(root).term(expression, root).map(Term::into_values)
}

/// The results so far.
struct Out<'d> {
    found: Vec<Node<'d>>,
    places: Option<Places>,
}

#[derive(Default)]
struct Places {
    /// From the root to the value that is being looked at.
    current: Place,
    found: Vec<Place>,
}

impl<'d> Out<'d> {
    fn enter(&mut self, step: impl FnOnce() -> PlaceStep) {
        if let Some(places) = &mut self.places {
            places.current.push(step());
        }
    }

    fn leave(&mut self) {
        if let Some(places) = &mut self.places {
            places.current.pop();
        }
    }

    fn add(&mut self, node: Node<'d>) -> Result<()> {
        if self.found.len() == RESULTS_MAX {
            return Err(Error::TooMuchWork);
        }
        self.found.push(node);
        if let Some(places) = &mut self.places {
            places.found.push(places.current.clone());
        }
        Ok(())
    }
}

struct Evaluator<'d> {
    root: Node<'d>,
    visits: u64,
    frames: usize,
    /// The last pattern compiled for a comparison, and its regular expression if it is valid.
    regex: Option<(String, Option<Regex>)>,
}

impl<'d> Evaluator<'d> {
    fn new(root: Node<'d>) -> Evaluator<'d> {
        Evaluator { root, visits: 0, frames: 0, regex: None }
    }

    fn visit(&mut self, count: u64) -> Result<()> {
        self.visits = self.visits.saturating_add(count);
        if self.visits > VISITS_MAX { Err(Error::TooMuchWork) } else { Ok(()) }
    }

    fn walk(&mut self, steps: &'d [Step], node: Node<'d>, out: &mut Out<'d>) -> Result<()> {
        self.visit(1)?;
        let Some((step, rest)) = steps.split_first() else { return out.add(node) };
        self.frames += 1;
        if self.frames > FRAMES_MAX {
            return Err(Error::TooMuchWork);
        }
        match step {
            Step::Child(name) => self.child(name, rest, node, out)?,
            Step::Children(names) => {
                for name in names {
                    self.child(name, rest, node, out)?;
                }
            }
            Step::Elements(indices) => {
                if let View::Array(array) = node.view() {
                    for index in indices {
                        self.element(array, resolve(*index, array.len()), rest, out)?;
                    }
                }
            }
            Step::Slice { start, end, step } => {
                if let View::Array(array) = node.view() {
                    let start = start.map_or(0, |start| resolve(start, array.len()));
                    let end = end.map_or(array.len(), |end| resolve(end, array.len()));
                    for index in (start..end).step_by(*step) {
                        self.element(array, index, rest, out)?;
                    }
                }
            }
            Step::All => {
                self.children(node, out, |evaluator, child, out| evaluator.walk(rest, child, out))?
            }
            Step::Filter(condition) => self.children(node, out, |evaluator, child, out| {
                evaluator.visit(1)?;
                if evaluator.holds(condition, child)? { evaluator.walk(rest, child, out) } else { Ok(()) }
            })?,
            Step::Descend => {
                self.walk(rest, node, out)?;
                self.scan(rest, node, out)?;
            }
        }
        self.frames -= 1;
        Ok(())
    }

    /// `walk` from everything below `node`.
    fn scan(&mut self, steps: &'d [Step], node: Node<'d>, out: &mut Out<'d>) -> Result<()> {
        self.frames += 1;
        if self.frames > FRAMES_MAX {
            return Err(Error::TooMuchWork);
        }
        self.children(node, out, |evaluator, child, out| {
            evaluator.walk(steps, child, out)?;
            evaluator.scan(steps, child, out)
        })?;
        self.frames -= 1;
        Ok(())
    }

    fn child(&mut self, name: &str, rest: &'d [Step], node: Node<'d>, out: &mut Out<'d>) -> Result<()> {
        let View::Object(object) = node.view() else { return Ok(()) };
        let Some(value) = object.get(name) else { return Ok(()) };
        out.enter(|| PlaceStep::Name(Value::text(name)));
        self.walk(rest, Node::Value(value), out)?;
        out.leave();
        Ok(())
    }

    fn element(&mut self, array: Array<'d>, index: usize, rest: &'d [Step], out: &mut Out<'d>) -> Result<()> {
        let Some(node) = array.get(index) else { return Ok(()) };
        out.enter(|| PlaceStep::Index(index));
        self.walk(rest, node, out)?;
        out.leave();
        Ok(())
    }

    /// Calls `f` with each child.
    fn children(
        &mut self,
        node: Node<'d>,
        out: &mut Out<'d>,
        mut f: impl FnMut(&mut Self, Node<'d>, &mut Out<'d>) -> Result<()>,
    ) -> Result<()> {
        match node.view() {
            View::Array(array) => {
                for (index, child) in array.iter().enumerate() {
                    out.enter(|| PlaceStep::Index(index));
                    f(self, child, out)?;
                    out.leave();
                }
            }
            View::Object(object) => {
                for member in object.members() {
                    out.enter(|| PlaceStep::Name(member.name_value().clone()));
                    f(self, Node::Value(member.value()), out)?;
                    out.leave();
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether a condition is true of `current`.
    fn holds(&mut self, condition: &'d Expr, current: Node<'d>) -> Result<bool> {
        Ok(match condition {
            Expr::And(conditions) => {
                for condition in conditions {
                    if !self.holds(condition, current)? {
                        return Ok(false);
                    }
                }
                true
            }
            Expr::Or(conditions) => {
                for condition in conditions {
                    if self.holds(condition, current)? {
                        return Ok(true);
                    }
                }
                false
            }
            Expr::Not(condition) => !self.holds(condition, current)?,
            Expr::Compare(comparison, left, right) => {
                let left = self.term(left, current)?;
                let right = self.term(right, current)?;
                self.compare(*comparison, &left, &right)?
            }
            Expr::Matches(text, pattern) => {
                let text = self.term(text, current)?;
                self.visit(text.cost())?;
                match pattern {
                    Some(pattern) => texts(&text).iter().any(|text| pattern.is_match(text)),
                    None => false,
                }
            }
            value => self.term(value, current)?.holds(),
        })
    }

    fn compare(&mut self, comparison: Comparison, left: &Term<'d>, right: &Term<'d>) -> Result<bool> {
        self.visit(left.cost().saturating_mul(right.cost()))?;
        if comparison != Comparison::Matches {
            return Ok(left.compares(comparison, right));
        }
        let subjects = texts(left);
        for pattern in texts(right) {
            for subject in &subjects {
                if self.matches(subject, pattern.to_owned())? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn matches(&mut self, subject: &str, pattern: String) -> Result<bool> {
        if self.regex.as_ref().is_none_or(|(known, _)| *known != pattern) {
            self.visit(COMPILE_VISITS)?;
            let regex = compile(&pattern);
            self.regex = Some((pattern, regex));
        }
        Ok(self
            .regex
            .as_ref()
            .and_then(|(_, regex)| regex.as_ref())
            .is_some_and(|regex| regex.is_match(subject)))
    }

    /// The value of an expression, where `@` is `current`.
    fn term(&mut self, expression: &'d Expr, current: Node<'d>) -> Result<Term<'d>> {
        Ok(match expression {
            Expr::Literal(value) => Term::Literal(value),
            Expr::Current(steps) => self.inner(steps, current)?,
            Expr::Root(steps) => self.inner(steps, self.root)?,
            Expr::Call(function, arguments) => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    let value = self.term(argument, current)?;
                    self.visit(value.cost())?;
                    values.push(value);
                }
                match function {
                    Function::Match | Function::Search => {
                        Term::Computed(Value::bool(self.regex_function(*function, &values)?))
                    }
                    _ => function.call(values),
                }
            }
            Expr::Arithmetic(operator, left, right) => {
                let left = self.term(left, current)?.number();
                let right = self.term(right, current)?.number();
                Term::from_number(left.zip(right).and_then(|(left, right)| operator.apply(left, right)))
            }
            Expr::Negative(operand) => {
                Term::from_number(self.term(operand, current)?.number().map(|number| match number {
                    Number::Int(value) => {
                        value.checked_neg().map_or(Number::Float(-(value as f64)), Number::Int)
                    }
                    number => Number::Float(-number.as_f64()),
                }))
            }
            Expr::Positive(operand) => Term::from_number(self.term(operand, current)?.number()),
            condition => Term::Computed(Value::bool(self.holds(condition, current)?)),
        })
    }

    fn inner(&mut self, steps: &'d [Step], from: Node<'d>) -> Result<Term<'d>> {
        let mut out = Out { found: Vec::new(), places: None };
        self.walk(steps, from, &mut out)?;
        Ok(Term::from_nodes(out.found))
    }

    fn regex_function(&mut self, function: Function, arguments: &[Term<'d>]) -> Result<bool> {
        let [subject, pattern] = arguments else { return Ok(false) };
        let (Some(subject), Some(pattern)) = (subject.text(), pattern.text()) else { return Ok(false) };
        let pattern =
            if function == Function::Match { format!("^(?:{pattern})$") } else { pattern.to_owned() };
        self.matches(subject, pattern)
    }
}

/// All strings of a term.
fn texts<'t>(term: &'t Term<'_>) -> Vec<&'t str> {
    match term {
        Term::Nodes(nodes) => nodes
            .iter()
            .filter_map(|node| match node.view() {
                View::Text(text) => Some(text),
                _ => None,
            })
            .collect(),
        _ => term.text().into_iter().collect(),
    }
}

/// An index that counts from the end if it is negative, within 0 and the length.
fn resolve(index: i64, length: usize) -> usize {
    match usize::try_from(index) {
        Ok(index) => index.min(length),
        Err(_) => length.saturating_sub(usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX)),
    }
}

impl Arithmetic {
    /// Integers stay integers but for division, and for results beyond `i64`; a division by zero is nothing.
    fn apply(self, left: Number, right: Number) -> Option<Number> {
        if let (Number::Int(a), Number::Int(b)) = (left, right) {
            let exact = match self {
                Arithmetic::Add => a.checked_add(b),
                Arithmetic::Subtract => a.checked_sub(b),
                Arithmetic::Multiply => a.checked_mul(b),
                Arithmetic::Remainder => return a.checked_rem(b).map(Number::Int),
                Arithmetic::Divide => None,
            };
            if let Some(exact) = exact {
                return Some(Number::Int(exact));
            }
        }
        let (a, b) = (left.as_f64(), right.as_f64());
        Number::from_f64(match self {
            Arithmetic::Add => a + b,
            Arithmetic::Subtract => a - b,
            Arithmetic::Multiply => a * b,
            Arithmetic::Divide => a / b,
            Arithmetic::Remainder => a % b,
        })
    }
}
