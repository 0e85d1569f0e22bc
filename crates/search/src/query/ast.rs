//! A query as a tree of plain data.
//!
//! A tree that the parser returns is at most [`crate::query::DEPTH_MAX`] levels deep, so that walking it by
//! recursion needs a bounded stack, and all parameters in it have their values.

/// The text fields of which a node's terms may be: bit `n` is the `n`th text field of the definition.
pub type FieldMask = u128;

/// All text fields, those that are added later included.
pub const ALL_FIELDS: FieldMask = FieldMask::MAX;

/// A node of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What matches.
    pub kind: Kind,
    /// In which text fields; none: no document matches the terms below.
    pub fields: FieldMask,
    /// How matches count, and which places of terms match.
    pub attributes: Attributes,
    /// Its terms are not expanded.
    pub verbatim: bool,
    /// Parameters whose values it waits for; empty in a parsed query.
    pub(super) pending: Vec<Pending>,
}

/// What documents a node matches.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// No document.
    Empty,
    /// All documents.
    All,
    /// Documents with a term.
    Term(Term),
    /// Documents that all of the children match.
    Intersect(Intersect),
    /// Documents that one of the children matches.
    Union(Vec<Node>),
    /// Documents that the child does not match.
    Not(Box<Node>),
    /// All documents; those that the child matches score more.
    Optional(Box<Node>),
    /// Documents with a term of which the text is a part.
    Affix(Affix),
    /// Documents with a term that the pattern matches; see [`super::pattern::Wildcard`].
    Wildcard(Box<[u8]>),
    /// Documents with a term at an edit distance from the text.
    Fuzzy(Fuzzy),
    /// Documents with a tag.
    Tag(Tag),
    /// Documents with a number in a range.
    Numeric(Range),
    /// Documents with a point in a circle.
    Geo(Circle),
    /// Documents with a shape.
    Shape(Shape),
    /// Documents without a field.
    Missing(Box<[u8]>),
    /// Documents with a vector near another.
    Vector(Box<VectorQuery>),
}

/// A term, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Its bytes; stems begin with `+`, groups of synonyms with `~`, sounds with `<`.
    pub text: Box<[u8]>,
    /// Whether expansion added it.
    pub expanded: bool,
}

/// Several nodes that must all match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Intersect {
    /// The nodes, in the query's order.
    pub children: Vec<Node>,
    /// A phrase in quotes: the children are terms that stand side by side, in order.
    pub exact: bool,
}

/// Where a text stands in the terms that match it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// At the beginning: `ab*`.
    Prefix,
    /// At the end: `*ab`.
    Suffix,
    /// Anywhere: `*ab*`.
    Infix,
}

/// A part of terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affix {
    /// In the case in which the query has it; the terms of text fields are in lower case.
    pub text: Box<[u8]>,
    /// Where it stands in them.
    pub side: Side,
}

/// A text and terms near it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fuzzy {
    /// In lower case.
    pub text: Box<[u8]>,
    /// The most insertions, deletions and replacements of characters: 1 to 3.
    pub distance: u8,
}

/// Tags of a field.
#[derive(Clone, Debug, PartialEq)]
pub struct Tag {
    /// The field's name.
    pub field: Box<[u8]>,
    /// One of which must match: [`Kind::Term`], [`Kind::Affix`], [`Kind::Wildcard`], or a [`Kind::Intersect`]
    /// whose terms, with spaces between them, are one tag. Their texts are normalised as the field's tags
    /// are.
    pub children: Vec<Node>,
}

/// Numbers between two.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// The field's name.
    pub field: Box<[u8]>,
    /// The lower end.
    pub min: f64,
    /// The upper end.
    pub max: f64,
    /// Whether the lower end itself matches.
    pub includes_min: bool,
    /// Whether the upper end itself matches.
    pub includes_max: bool,
}

/// A unit of distance.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "names of units")]
pub enum Unit {
    Meters,
    Kilometers,
    Feet,
    Miles,
}

impl Unit {
    /// The unit of this name, in any case.
    pub fn parse(name: &[u8]) -> Option<Unit> {
        [Unit::Meters, Unit::Kilometers, Unit::Feet, Unit::Miles]
            .into_iter()
            .find(|unit| unit.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Meters => "m",
            Unit::Kilometers => "km",
            Unit::Feet => "ft",
            Unit::Miles => "mi",
        }
    }

    /// Metres of one unit.
    pub fn meters(self) -> f64 {
        match self {
            Unit::Meters => 1.0,
            Unit::Kilometers => 1000.0,
            Unit::Feet => 0.3048,
            Unit::Miles => 1609.34,
        }
    }
}

/// A circle on the globe.
#[derive(Clone, Debug, PartialEq)]
pub struct Circle {
    /// The field's name.
    pub field: Box<[u8]>,
    /// Its centre, in degrees.
    pub longitude: f64,
    /// See `longitude`.
    pub latitude: f64,
    /// In `unit`s.
    pub radius: f64,
    /// None: the query's unit is unknown; such a query is refused.
    pub unit: Option<Unit>,
}

/// How shapes of documents stand to the query's.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The document's shape contains the query's.
    Contains,
    /// The document's shape is within the query's.
    Within,
    /// They have no point in common.
    Disjoint,
    /// They have a point in common.
    Intersects,
}

impl Relation {
    /// The relation of this name, in any case.
    pub fn parse(name: &[u8]) -> Option<Relation> {
        Some(match name.to_ascii_uppercase().as_slice() {
            b"CONTAINS" => Relation::Contains,
            b"WITHIN" => Relation::Within,
            b"DISJOINT" => Relation::Disjoint,
            b"INTERSECTS" => Relation::Intersects,
            _ => return None,
        })
    }
}

/// A shape, and how documents' shapes stand to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The field's name.
    pub field: Box<[u8]>,
    /// See [`Relation`].
    pub relation: Relation,
    /// Well-known text; not parsed yet.
    pub text: Box<[u8]>,
}

/// Vectors near another.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorQuery {
    /// The field's name.
    pub field: Box<[u8]>,
    /// Which of the near ones.
    pub near: Near,
    /// The name of the parameter that has the vector.
    pub parameter: Box<[u8]>,
    /// The vector's bytes, whose length nothing has checked yet.
    pub vector: Box<[u8]>,
    /// EF_RUNTIME: candidates of the search in a graph.
    pub ef_runtime: Option<usize>,
    /// EPSILON: by how much a range is exceeded on the way.
    pub epsilon: Option<f64>,
    /// HYBRID_POLICY
    pub policy: Option<Policy>,
    /// BATCH_SIZE: of the policy of batches.
    pub batch_size: Option<usize>,
    /// The options above as the query has them.
    pub options: Vec<VectorOption>,
    /// The name under which results have the distance.
    pub distance_field: Option<Box<[u8]>>,
    /// The name that an attribute gives it, until the query is checked.
    pub(super) yielded: Option<Box<[u8]>>,
    /// Which documents are candidates; none: all. Only of [`Near::Nearest`].
    pub filter: Option<Node>,
}

impl VectorQuery {
    /// A query without options, for the vector that a parameter has.
    pub fn new(field: &[u8], near: Near, parameter: &[u8], vector: &[u8]) -> VectorQuery {
        VectorQuery {
            field: field.into(),
            near,
            parameter: parameter.into(),
            vector: vector.into(),
            ef_runtime: None,
            epsilon: None,
            policy: None,
            batch_size: None,
            options: Vec::new(),
            distance_field: None,
            yielded: None,
            filter: None,
        }
    }
}

/// How the nearest ones among the documents of a filter are found.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The nearest vectors in batches, each kept if its document is among the filter's.
    Batches,
    /// The distance of each document of the filter.
    AdHoc,
}

/// The name and the value of an option of a vector query, as the query has them.
pub type VectorOption = (Box<[u8]>, Box<[u8]>);

/// Which vectors are near.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Near {
    /// The nearest ones, that many.
    Nearest(u64),
    /// All within a distance.
    Within(f64),
}

/// The weight of a node's matches, and the places that its terms may have.
#[derive(Clone, Debug, PartialEq)]
pub struct Attributes {
    /// The factor of its score.
    pub weight: f64,
    /// The most places between its terms. None: as the query's options say.
    pub slop: Option<u32>,
    /// Whether its terms stand in order. None: as the query's options say.
    pub in_order: Option<bool>,
    /// Whether its terms match by sound. None: where the field is phonetic.
    pub phonetic: Option<bool>,
}

impl Default for Attributes {
    fn default() -> Self {
        Attributes { weight: 1.0, slop: None, in_order: None, phonetic: None }
    }
}

/// A parameter whose value a node waits for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pending {
    pub name: Box<[u8]>,
    pub target: Target,
    pub is_negative: bool,
}

/// What of a node a parameter's value becomes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The text of a term, an affix, a fuzzy term, in lower case.
    Text,
    /// The text of a tag, or a pattern, as it is.
    ExactText,
    Min,
    Max,
    /// An end of a range that may be infinite.
    RangeMin,
    RangeMax,
    Longitude,
    Latitude,
    Radius,
    Unit,
    Shape,
    Vector,
    Count,
    Distance,
    DistanceField,
    /// The value of the vector query's option of this number.
    Option(usize),
}

impl Node {
    /// A node in all fields, without attributes.
    pub fn new(kind: Kind) -> Node {
        Node {
            kind,
            fields: ALL_FIELDS,
            attributes: Attributes::default(),
            verbatim: false,
            pending: Vec::new(),
        }
    }

    /// A term of the query.
    pub fn term(text: impl Into<Box<[u8]>>) -> Node {
        Node::new(Kind::Term(Term { text: text.into(), expanded: false }))
    }

    /// Makes it wait for a parameter.
    pub(super) fn await_parameter(&mut self, name: &[u8], target: Target, is_negative: bool) {
        let pending = Pending { name: name.into(), target, is_negative };
        self.pending.push(pending);
    }

    /// The nodes below it.
    pub fn children(&self) -> &[Node] {
        match &self.kind {
            Kind::Intersect(Intersect { children, .. }) | Kind::Union(children) => children,
            Kind::Tag(tag) => &tag.children,
            Kind::Not(child) | Kind::Optional(child) => std::slice::from_ref(child),
            Kind::Vector(query) => query.filter.as_slice(),
            _ => &[],
        }
    }

    /// See [`Node::children`].
    pub fn children_mut(&mut self) -> &mut [Node] {
        match &mut self.kind {
            Kind::Intersect(Intersect { children, .. }) | Kind::Union(children) => children,
            Kind::Tag(tag) => &mut tag.children,
            Kind::Not(child) | Kind::Optional(child) => std::slice::from_mut(child),
            Kind::Vector(query) => query.filter.as_mut_slice(),
            _ => &mut [],
        }
    }

    /// Restricts it and all below it to fields.
    pub fn restrict(&mut self, fields: FieldMask) {
        self.fields &= fields;
        for child in self.children_mut() {
            child.restrict(fields);
        }
    }
}
