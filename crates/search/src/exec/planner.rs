//! From a parsed query to a plan: names of fields become numbers, parts of names become patterns.

use std::ops::Bound;

use martlet_types::geo::{Area, Point, Shape};

use super::plan::{Expansion, Order, Plan};
use crate::Error;
use crate::geometry;
use crate::index::numbers::Range;
use crate::query::ast::{
    self, ALL_FIELDS, Circle, FieldMask, Intersect, Kind, Near, Node, Relation, Tag, VectorQuery,
};
use crate::query::pattern::{self, TermPattern};
use crate::schema::{Coordinates, Definition, FieldKind};

/// How patterns are bounded, by parameters of the server.
#[derive(Copy, Clone, Debug)]
pub struct Bounds {
    /// The fewest bytes of a prefix (MINPREFIX).
    pub prefix_min: usize,
    /// The most names that a pattern stands for (MAXEXPANSIONS).
    pub expansions_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { prefix_min: 2, expansions_max: 200 }
    }
}

/// A shape of a query.
#[derive(Clone, Debug)]
pub struct ShapeQuery {
    /// The number of the field.
    pub field: usize,
    /// The field's coordinates.
    pub coordinates: Coordinates,
    /// How documents' shapes must stand to the query's.
    pub relation: Relation,
    /// The query's shape.
    pub shape: geometry::Shape,
}

/// A plan, and the vectors and shapes that must be looked for before it runs.
#[derive(Debug)]
pub struct Planned {
    /// The plan of the filter. Where vectors of a range are meant it has [`Plan::Near`] with their number.
    pub plan: Plan,
    /// Ranges of vectors, by that number.
    pub ranges: Vec<VectorQuery>,
    /// Shapes, by the number that [`Plan::Shapes`] has.
    pub shapes: Vec<ShapeQuery>,
    /// The search for the nearest vectors among the plan's documents, if the query is one.
    pub nearest: Option<VectorQuery>,
}

/// A name that results have a distance under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistanceField {
    /// The name.
    pub name: Box<[u8]>,
    /// The place among a match's distances.
    pub place: usize,
}

impl Planned {
    /// The names that the query gives distances, in the order of the distances.
    pub fn distance_fields(&self) -> Vec<DistanceField> {
        let named = |(place, query): (usize, &VectorQuery)| {
            Some(DistanceField { name: query.distance_field.clone()?, place })
        };
        self.nearest.iter().chain(&self.ranges).enumerate().filter_map(named).collect()
    }
}

/// Makes plans for an index.
#[derive(Debug)]
pub struct Planner<'a> {
    definition: &'a Definition,
    bounds: Bounds,
    /// The query's own SLOP and INORDER, for nodes without.
    slop: Option<u32>,
    in_order: bool,
    /// The text fields that terms are looked for in.
    mask: FieldMask,
    ranges: Vec<VectorQuery>,
    shapes: Vec<ShapeQuery>,
    expansions: usize,
    tag_weight: f64,
}

impl Planner<'_> {
    /// A planner with a query's SLOP and INORDER.
    pub fn new(definition: &Definition, bounds: Bounds, slop: Option<u32>, in_order: bool) -> Planner<'_> {
        Planner {
            definition,
            bounds,
            slop,
            in_order,
            mask: ALL_FIELDS,
            ranges: Vec::new(),
            shapes: Vec::new(),
            expansions: 0,
            tag_weight: 1.0,
        }
    }

    /// The same with tags that do not count in scores.
    pub fn without_tags(self) -> Self {
        Planner { tag_weight: 0.0, ..self }
    }

    /// The same for terms in these text fields only (INFIELDS).
    pub fn within(self, mask: FieldMask) -> Self {
        Planner { mask, ..self }
    }

    /// The plan of a query.
    ///
    /// # Errors
    /// A field, a vector or a shape that cannot be looked for.
    pub fn plan(mut self, root: &Node) -> Result<Planned, Error> {
        if let Kind::Vector(query) = &root.kind
            && let Near::Nearest(_) = query.near
        {
            let plan = query.filter.as_ref().map_or(Ok(Plan::All), |filter| self.node(filter))?;
            let nearest = Some((**query).clone());
            return Ok(Planned { plan, ranges: self.ranges, shapes: self.shapes, nearest });
        }
        let plan = self.node(root)?;
        Ok(Planned { plan, ranges: self.ranges, shapes: self.shapes, nearest: None })
    }

    /// The number of a field.
    fn field(&self, name: &[u8], is_kind: impl Fn(&FieldKind) -> bool) -> Result<usize, Error> {
        let found =
            self.definition.fields.iter().position(|field| *field.name == *name && is_kind(&field.kind));
        found.ok_or_else(|| Error::new(format!("Unknown field `{}`", String::from_utf8_lossy(name))))
    }

    fn node(&mut self, node: &Node) -> Result<Plan, Error> {
        let (mask, weight) = (node.fields & self.mask, node.attributes.weight);
        Ok(match &node.kind {
            Kind::Empty => Plan::Nothing,
            Kind::All => Plan::All,
            Kind::Term(term) => Plan::Term { name: term.text.clone(), mask, weight },
            Kind::Intersect(Intersect { children, exact }) => {
                Plan::And { children: self.nodes(children)?, order: self.order(node, *exact), weight }
            }
            Kind::Union(children) => Plan::Or { children: self.nodes(children)?, weight },
            Kind::Not(child) => Plan::Not(Box::new(self.node(child)?)),
            Kind::Optional(child) => Plan::Optional(Box::new(self.node(child)?)),
            Kind::Affix(_) | Kind::Wildcard(_) | Kind::Fuzzy(_) => match self.expansion(&node.kind, true) {
                Some(which) => Plan::Terms { which, mask, weight },
                None => Plan::Nothing,
            },
            Kind::Tag(tag) => self.tags(tag, weight)?,
            Kind::Numeric(range) => {
                let field = self.field(&range.field, |kind| matches!(kind, FieldKind::Numeric))?;
                let end = |number: f64, includes| match includes {
                    true => Bound::Included(number),
                    false => Bound::Excluded(number),
                };
                let (min, max) = (end(range.min, range.includes_min), end(range.max, range.includes_max));
                Plan::Numbers { field, range: Range { min, max }, weight }
            }
            Kind::Geo(circle) => self.circle(circle, weight)?,
            Kind::Shape(shape) => self.shape(shape)?,
            Kind::Missing(name) => Plan::Missing { field: self.field(name, |_| true)? },
            Kind::Vector(query) => {
                self.ranges.push((**query).clone());
                Plan::Near { number: self.ranges.len() - 1 }
            }
        })
    }

    fn nodes(&mut self, nodes: &[Node]) -> Result<Vec<Plan>, Error> {
        nodes.iter().map(|node| self.node(node)).collect()
    }

    fn order(&self, node: &Node, exact: bool) -> Option<Order> {
        if exact {
            return Some(Order::PHRASE);
        }
        let slop = node.attributes.slop.or(self.slop);
        let in_order = node.attributes.in_order.unwrap_or(self.in_order);
        (slop.is_some() || in_order).then_some(Order { slop, in_order })
    }

    fn circle(&self, circle: &Circle, weight: f64) -> Result<Plan, Error> {
        let field = self.field(&circle.field, |kind| matches!(kind, FieldKind::Geo))?;
        let unit = circle.unit.map_or(1.0, |unit| unit.meters());
        let Some(centre) = Point::new(circle.longitude, circle.latitude) else { return Ok(Plan::Nothing) };
        let shape = Shape::Circle { radius: circle.radius };
        Ok(Plan::Points { field, area: Box::new(Area::new(centre, shape, unit)), weight })
    }

    /// Fields without shapes have none that are found, as in RediSearch.
    fn shape(&mut self, shape: &ast::Shape) -> Result<Plan, Error> {
        let fields = &self.definition.fields;
        let Some((field, coordinates)) = fields.iter().enumerate().find_map(|(at, field)| match field.kind {
            FieldKind::GeoShape(coordinates) if field.name == shape.field => Some((at, coordinates)),
            _ => None,
        }) else {
            return Ok(Plan::Nothing);
        };
        let relation = shape.relation;
        let shape = geometry::Shape::parse(&shape.text, coordinates)
            .map_err(|error| Error::new(format!("Error querying geoshape index: {}", error.text())))?;
        self.shapes.push(ShapeQuery { field, coordinates, relation, shape });
        Ok(Plan::Shapes { number: self.shapes.len() - 1 })
    }

    fn tags(&mut self, tag: &Tag, weight: f64) -> Result<Plan, Error> {
        let field = self.field(&tag.field, |kind| matches!(kind, FieldKind::Tag(_)))?;
        let own = self.tag_weight;
        let mut one = |node: &Node| match &node.kind {
            Kind::Term(term) => Plan::Tag { field, name: term.text.clone(), weight: own },
            // Words with spaces between them are one tag.
            Kind::Intersect(Intersect { children, .. }) => {
                let words: Vec<&[u8]> = children
                    .iter()
                    .filter_map(|child| match &child.kind {
                        Kind::Term(term) => Some(&*term.text),
                        _ => None,
                    })
                    .collect();
                Plan::Tag { field, name: words.join(&b' ').into(), weight: own }
            }
            kind => match self.expansion(kind, false) {
                Some(which) => Plan::Tags { field, which, weight: own },
                None => Plan::Nothing,
            },
        };
        let mut children: Vec<Plan> = tag.children.iter().map(&mut one).collect();
        Ok(match children.len() {
            1 => children.remove(0),
            _ => Plan::Or { children, weight },
        })
    }

    /// The names that a part of a name stands for; `None` if the part is too short.
    fn expansion(&mut self, kind: &Kind, folds_case: bool) -> Option<Expansion> {
        let folded = |text: &[u8]| if folds_case { text.to_ascii_lowercase() } else { text.to_vec() };
        let pattern = match kind {
            Kind::Affix(affix) if affix.text.len() < self.bounds.prefix_min => return None,
            Kind::Affix(affix) => {
                TermPattern::Affix(Box::new(pattern::Affix::new(&folded(&affix.text), affix.side)))
            }
            Kind::Wildcard(text) => TermPattern::Wildcard(pattern::Wildcard::new(&folded(text))),
            Kind::Fuzzy(fuzzy) => {
                TermPattern::Fuzzy(Box::new(pattern::Fuzzy::new(&fuzzy.text, fuzzy.distance)))
            }
            _ => return None,
        };
        self.expansions += 1;
        Some(Expansion { number: self.expansions - 1, pattern, max: self.bounds.expansions_max })
    }
}
