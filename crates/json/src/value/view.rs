//! Reading: `Node` refers to a value within a document, `View` has its contents.

use super::word::Word;
use super::{Big, Member, Number, Table, Typed, Value};

/// A type as JSON.TYPE names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number written as an integer.
    Integer,
    /// Any other number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl Kind {
    /// JSON.TYPE's word.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Boolean => "boolean",
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::String => "string",
            Kind::Array => "array",
            Kind::Object => "object",
        }
    }
}

/// A value inside a document. Elements of typed arrays have no word of their own and are numbers by
/// themselves.
#[derive(Clone, Copy)]
pub enum Node<'a> {
    /// A value with its word.
    Value(&'a Value),
    /// An element of a typed array.
    Number(Number),
}

/// The contents of a value, borrowed.
#[derive(Clone, Copy)]
pub enum View<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    Text(&'a str),
    /// An array.
    Array(Array<'a>),
    /// An object.
    Object(Object<'a>),
}

/// An array, borrowed.
#[derive(Clone, Copy)]
pub enum Array<'a> {
    /// Elements with words of their own.
    Values(&'a [Value]),
    /// Numbers of one type.
    Typed(&'a Typed),
}

/// An object, borrowed: its members in order.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    members: &'a [Member],
    table: Option<&'a Table>,
}

impl<'a> Node<'a> {
    /// The contents.
    pub fn view(self) -> View<'a> {
        match self {
            Node::Value(value) => value.view(),
            Node::Number(number) => View::Number(number),
        }
    }

    /// The type.
    pub fn kind(self) -> Kind {
        self.view().kind()
    }

    /// An own value, in O(1).
    pub fn to_value(self) -> Value {
        match self {
            Node::Value(value) => value.clone(),
            Node::Number(number) => Value::number(number),
        }
    }

    /// Bytes of heap below, and the word itself: JSON.DEBUG MEMORY.
    pub fn memory_bytes(self) -> usize {
        let heap = match self {
            Node::Value(value) => value.heap_bytes(),
            Node::Number(_) => 0,
        };
        heap + size_of::<Value>()
    }

    /// Deep equality as ReJSON has it: an integer never equals a double, members may be in any order.
    pub fn equals(self, other: Node<'_>) -> bool {
        if let (Node::Value(a), Node::Value(b)) = (self, other)
            && a.is_same(b)
        {
            return true;
        }
        match (self.view(), other.view()) {
            (View::Null, View::Null) => true,
            (View::Bool(a), View::Bool(b)) => a == b,
            (View::Number(a), View::Number(b)) => a == b,
            (View::Text(a), View::Text(b)) => a == b,
            (View::Array(a), View::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.equals(b))
            }
            (View::Object(a), View::Object(b)) => {
                let mut members = a.members().iter();
                a.len() == b.len()
                    && members.all(|member| {
                        let other = b.get(member.name());
                        other.is_some_and(|other| Node::Value(member.value()).equals(Node::Value(other)))
                    })
            }
            _ => false,
        }
    }
}

impl View<'_> {
    /// The type.
    pub fn kind(self) -> Kind {
        match self {
            View::Null => Kind::Null,
            View::Bool(_) => Kind::Boolean,
            View::Number(number) if number.is_integer() => Kind::Integer,
            View::Number(_) => Kind::Number,
            View::Text(_) => Kind::String,
            View::Array(_) => Kind::Array,
            View::Object(_) => Kind::Object,
        }
    }
}

impl<'a> Array<'a> {
    /// The number of elements.
    pub fn len(self) -> usize {
        match self {
            Array::Values(values) => values.len(),
            Array::Typed(typed) => typed.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The element at `index`.
    pub fn get(self, index: usize) -> Option<Node<'a>> {
        match self {
            Array::Values(values) => values.get(index).map(Node::Value),
            Array::Typed(typed) => typed.get(index).map(Node::Number),
        }
    }

    /// Appends the text of a typed element, in the shortest form of its type; any other element comes back.
    pub(crate) fn write_number(self, index: usize, out: &mut Vec<u8>) -> std::result::Result<(), Node<'a>> {
        match self {
            Array::Typed(typed) => {
                typed.write(index, out);
                Ok(())
            }
            Array::Values(values) => values.get(index).map_or(Ok(()), |value| Err(Node::Value(value))),
        }
    }

    /// The elements in order.
    pub fn iter(self) -> Elements<'a> {
        Elements { array: self, next: 0 }
    }
}

/// The elements of an array.
pub struct Elements<'a> {
    array: Array<'a>,
    next: usize,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Node<'a>;

    fn next(&mut self) -> Option<Node<'a>> {
        let node = self.array.get(self.next)?;
        self.next += 1;
        Some(node)
    }
}

impl<'a> Object<'a> {
    /// The number of members.
    pub fn len(self) -> usize {
        self.members.len()
    }

    /// Whether there is no member.
    pub fn is_empty(self) -> bool {
        self.members.is_empty()
    }

    /// The members in order.
    pub fn members(self) -> &'a [Member] {
        self.members
    }

    /// The value under `name`.
    pub fn get(self, name: &str) -> Option<&'a Value> {
        self.members.get(self.position(name)?).map(Member::value)
    }

    /// Where the member of that name stands.
    pub(super) fn position(self, name: &str) -> Option<usize> {
        match self.table {
            Some(table) => table.position(name),
            None => find(self.members, name),
        }
    }
}

/// Whether no two members have one name. Quadratic: for as many as a small object has.
pub(crate) fn are_distinct(members: &[Member]) -> bool {
    let is_equal = |a: &Member, b: &Member| match (a.name.is_inline_text(), b.name.is_inline_text()) {
        (true, true) => a.name.is_same(&b.name),
        (false, false) => a.name() == b.name(),
        _ => false,
    };
    members
        .iter()
        .enumerate()
        .all(|(at, member)| !members.iter().take(at).any(|other| is_equal(member, other)))
}

/// The position of the member of that name.
fn find(members: &[Member], name: &str) -> Option<usize> {
    // A short name is compared as a word.
    if name.len() < size_of::<Value>() {
        let needle = Value::text(name);
        return members.iter().position(|member| member.name.is_same(&needle));
    }
    members.iter().position(|member| !member.name.is_inline_text() && member.name() == name)
}

impl Member {
    /// A member; `name` is a string.
    pub(crate) fn new(name: Value, value: Value) -> Member {
        Member { name, value }
    }

    /// The member's name.
    pub fn name(&self) -> &str {
        self.name.as_str().unwrap_or_default()
    }

    /// The member's name as a value, which shares the text.
    pub(crate) fn name_value(&self) -> &Value {
        &self.name
    }

    /// The member's value.
    pub fn value(&self) -> &Value {
        &self.value
    }
}

impl Value {
    /// The contents.
    pub fn view(&self) -> View<'_> {
        match self.word() {
            Word::Null => View::Null,
            Word::Bool(value) => View::Bool(value),
            Word::Number(number) => View::Number(number),
            Word::Text(text) => View::Text(text),
            Word::List(values) => View::Array(Array::Values(values)),
            Word::Map(members) => View::Object(Object { members, table: None }),
            Word::Big(Big::Array(values)) => View::Array(Array::Values(values)),
            Word::Big(Big::Typed(typed)) => View::Array(Array::Typed(typed)),
            Word::Big(Big::Object(table)) => {
                View::Object(Object { members: table.members(), table: Some(table) })
            }
        }
    }

    /// The type.
    pub fn kind(&self) -> Kind {
        self.view().kind()
    }

    /// The number that this is.
    pub fn as_number(&self) -> Option<Number> {
        match self.word() {
            Word::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Levels of containers: 0 for a scalar, 1 for `[]`.
    pub fn depth(&self) -> usize {
        match self.view() {
            View::Array(Array::Values(values)) => 1 + values.iter().map(Value::depth).max().unwrap_or(0),
            View::Array(Array::Typed(_)) => 1,
            View::Object(object) => {
                1 + object.members().iter().map(|member| member.value.depth()).max().unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Bytes that the allocator takes for all blocks below, as if none were shared. O(size).
    pub fn heap_bytes(&self) -> usize {
        let children: usize = match self.view() {
            View::Array(Array::Values(values)) => values.iter().map(Value::heap_bytes).sum(),
            View::Object(object) => object
                .members()
                .iter()
                .map(|member| member.name.heap_bytes() + member.value.heap_bytes())
                .sum(),
            _ => 0,
        };
        self.block_bytes() + children
    }
}

/// As [`Node::equals`].
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        Node::Value(self).equals(Node::Value(other))
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.view() {
            View::Null => f.write_str("null"),
            View::Bool(value) => write!(f, "{value}"),
            View::Number(number) => write!(f, "{number}"),
            View::Text(text) => write!(f, "{text:?}"),
            View::Array(array) => f.debug_list().entries(array.iter().map(Node::to_value)).finish(),
            View::Object(object) => {
                let members = object.members().iter();
                f.debug_map().entries(members.map(|member| (member.name(), member.value()))).finish()
            }
        }
    }
}
