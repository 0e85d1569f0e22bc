//! `Term`: the value of an expression, and how two of them compare.
//!
//! A path in an expression that leads to several values compares as *any of them*, and one that leads to none
//! is *nothing*, which equals nothing and has no order. Numbers compare by value, except two values of
//! documents: there an integer never equals a double (`@.a == @.b` is strict, `@.a == 1.0` is not), as in
//! ReJSON.

use super::Comparison;
use crate::value::{Node, Number, Value, View};
use std::cmp::Ordering;

/// See the module's description.
#[derive(Clone)]
pub enum Term<'a> {
    Nothing,
    /// A value of the document.
    Stored(Node<'a>),
    /// A literal of the path.
    Literal(&'a Value),
    /// A computed value.
    Computed(Value),
    /// Two or more values of the document.
    Nodes(Vec<Node<'a>>),
    /// A computed sequence.
    List(Vec<Value>),
}

impl<'a> Term<'a> {
    pub fn from_nodes(mut nodes: Vec<Node<'a>>) -> Term<'a> {
        match nodes.len() {
            0 | 1 => nodes.pop().map_or(Term::Nothing, Term::Stored),
            _ => Term::Nodes(nodes),
        }
    }

    pub fn from_number(number: Option<Number>) -> Term<'a> {
        number.map_or(Term::Nothing, |number| Term::Computed(Value::number(number)))
    }

    /// The single value that this is.
    pub fn single(&self) -> Option<Node<'_>> {
        match self {
            Term::Stored(node) => Some(*node),
            Term::Literal(value) => Some(Node::Value(value)),
            Term::Computed(value) => Some(Node::Value(value)),
            Term::Nothing | Term::Nodes(_) | Term::List(_) => None,
        }
    }

    pub fn number(&self) -> Option<Number> {
        self.single().and_then(number)
    }

    pub fn text(&self) -> Option<&str> {
        self.single().and_then(|node| match node.view() {
            View::Text(text) => Some(text),
            _ => None,
        })
    }

    /// The sequence that this is: an array's elements, the values of a path, a computed list.
    pub fn elements(&self) -> Option<Vec<Node<'_>>> {
        match self {
            Term::Nodes(nodes) => Some(nodes.clone()),
            Term::List(values) => Some(values.iter().map(Node::Value).collect()),
            _ => match self.single()?.view() {
                View::Array(array) => Some(array.iter().collect()),
                _ => None,
            },
        }
    }

    /// The values that are compared one by one, with whether they are the document's.
    fn alternatives(&self) -> Vec<(Node<'_>, bool)> {
        match self {
            Term::Nodes(nodes) => nodes.iter().map(|node| (*node, true)).collect(),
            Term::List(values) => values.iter().map(|value| (Node::Value(value), false)).collect(),
            _ => self.single().map(|node| (node, matches!(self, Term::Stored(_)))).into_iter().collect(),
        }
    }

    fn any_pair(&self, other: &Term<'_>, test: impl Fn((Node<'_>, bool), (Node<'_>, bool)) -> bool) -> bool {
        let others = other.alternatives();
        self.alternatives().into_iter().any(|a| others.iter().any(|b| test(a, *b)))
    }

    /// The number of value comparisons that [`Term::compares`] makes at most.
    pub fn cost(&self) -> u64 {
        match self {
            Term::Nodes(nodes) => nodes.len() as u64,
            Term::List(values) => values.len() as u64,
            _ => match self.single().map(Node::view) {
                Some(View::Array(array)) => array.len() as u64 + 1,
                Some(View::Object(object)) => object.len() as u64 + 1,
                _ => 1,
            },
        }
    }

    /// Whether the comparison holds; `=~` is not decided here.
    pub fn compares(&self, comparison: Comparison, other: &Term<'_>) -> bool {
        let ordered =
            |test: fn(Ordering) -> bool| self.any_pair(other, |(a, _), (b, _)| order(a, b).is_some_and(test));
        match comparison {
            Comparison::Equal => self.any_pair(other, equal),
            Comparison::Unequal => !self.any_pair(other, equal),
            Comparison::Less => ordered(Ordering::is_lt),
            Comparison::LessOrEqual => ordered(Ordering::is_le),
            Comparison::Greater => ordered(Ordering::is_gt),
            Comparison::GreaterOrEqual => ordered(Ordering::is_ge),
            Comparison::In => self.is_in(other),
            Comparison::NotIn => !self.is_in(other),
            Comparison::SubsetOf => self.relates(other, true),
            Comparison::AnyOf => self.relates(other, false),
            Comparison::NoneOf => !self.relates(other, false),
            Comparison::Size => self.any_length(other, has_length),
            Comparison::Empty => self.any_length(other, |length, wanted| match wanted.view() {
                View::Bool(is_empty) => (length == 0) == is_empty,
                _ => false,
            }),
            Comparison::Matches => false,
        }
    }

    fn is_in(&self, array: &Term<'_>) -> bool {
        let Some(elements) = array.elements() else { return false };
        match self {
            Term::Nodes(nodes) => {
                elements.iter().any(|element| nodes.iter().any(|node| node.equals(*element)))
            }
            _ => {
                self.single().is_some_and(|node| elements.iter().any(|element| loosely_equal(node, *element)))
            }
        }
    }

    /// Whether all (or any) elements are among those of `other`; of several arrays, whether one of them is
    /// so.
    fn relates(&self, other: &Term<'_>, all: bool) -> bool {
        if let Term::Nodes(nodes) = self {
            return nodes.iter().any(|node| Term::Stored(*node).relates(other, all));
        }
        let Some(elements) = self.elements() else { return false };
        let others = other.elements().unwrap_or_default();
        let mut found = elements.iter().map(|a| others.iter().any(|b| loosely_equal(*a, *b)));
        if all { found.all(|found| found) } else { found.any(|found| found) }
    }

    fn any_length(&self, other: &Term<'_>, test: impl Fn(usize, Node<'_>) -> bool) -> bool {
        let wanted = other.alternatives();
        let lengths: Vec<usize> = match self {
            Term::List(values) => vec![values.len()],
            Term::Nodes(nodes) => nodes.iter().filter_map(|node| length(*node)).collect(),
            _ => self.single().and_then(length).into_iter().collect(),
        };
        lengths.into_iter().any(|length| wanted.iter().any(|(wanted, _)| test(length, *wanted)))
    }

    /// Whether the term is true as a condition: a computed or literal boolean by its value, any other value
    /// by existing.
    pub fn holds(&self) -> bool {
        match self {
            Term::Nothing => false,
            Term::List(values) => !values.is_empty(),
            Term::Literal(value) => !matches!(value.view(), View::Bool(false)),
            Term::Computed(value) => !matches!(value.view(), View::Bool(false)),
            Term::Stored(_) | Term::Nodes(_) => true,
        }
    }

    /// The values that an expression with this result answers.
    pub fn into_values(self) -> Vec<Value> {
        match self {
            Term::Nothing => Vec::new(),
            Term::Stored(node) => vec![node.to_value()],
            Term::Literal(value) => vec![value.clone()],
            Term::Computed(value) => vec![value],
            Term::Nodes(nodes) => vec![Value::array(nodes.into_iter().map(Node::to_value))],
            Term::List(values) => values,
        }
    }
}

pub fn number(node: Node<'_>) -> Option<Number> {
    match node.view() {
        View::Number(number) => Some(number),
        _ => None,
    }
}

/// Characters of a string, elements of an array, members of an object.
pub fn length(node: Node<'_>) -> Option<usize> {
    match node.view() {
        View::Text(text) => Some(text.chars().count()),
        View::Array(array) => Some(array.len()),
        View::Object(object) => Some(object.len()),
        _ => None,
    }
}

/// A number without its fraction, if it is an `i64` then.
pub fn truncated(number: Number) -> Option<i64> {
    match number {
        Number::Int(value) => Some(value),
        Number::UInt(_) => None,
        Number::Float(value) => integer(value.trunc()),
    }
}

/// A whole double as an `i64`, if it is one.
pub fn integer(value: f64) -> Option<i64> {
    // `i64::MAX as f64` is one above the largest.
    (value >= i64::MIN as f64 && value < i64::MAX as f64).then_some(value as i64)
}

fn has_length(length: usize, wanted: Node<'_>) -> bool {
    let wanted = number(wanted).and_then(truncated).and_then(|wanted| usize::try_from(wanted).ok());
    wanted == Some(length)
}

fn equal((a, a_is_stored): (Node<'_>, bool), (b, b_is_stored): (Node<'_>, bool)) -> bool {
    match (number(a), number(b)) {
        (Some(a), Some(b)) if !(a_is_stored && b_is_stored) => a.compare(b).is_eq(),
        _ => a.equals(b),
    }
}

fn loosely_equal(a: Node<'_>, b: Node<'_>) -> bool {
    equal((a, false), (b, false))
}

fn order(a: Node<'_>, b: Node<'_>) -> Option<Ordering> {
    match (a.view(), b.view()) {
        (View::Number(a), View::Number(b)) => Some(a.compare(b)),
        (View::Text(a), View::Text(b)) => Some(a.cmp(b)),
        (View::Bool(a), View::Bool(b)) => Some(a.cmp(&b)),
        (View::Null, View::Null) => Some(Ordering::Equal),
        _ => None,
    }
}
