//! What each part of a query finds by itself, and the time that takes: FT.PROFILE.
//!
//! The parts are run again after the query, one in one partition a step, apart from each other. So the query
//! itself is measured as it always runs, and a counter is that of a part's own documents, also where an
//! intersection has looked at fewer of them.

use std::sync::Arc;
use std::time::Duration;

use martlet_base::clock::monotonic;

use super::{Binder, fill};
use crate::exec::node::{Kind, List, Node, names_of};
use crate::exec::plan::{Expansion, Plan};
use crate::exec::prepared::Prepared;
use crate::index::bits::{Bits, WINDOW};
use crate::index::numbers::Range;
use crate::index::partition::Partition;
use crate::index::whole::Index;

/// The most parts of a profile. A node with further parts shows only their number.
const ITERATORS_MAX: usize = 4096;

/// A part of the query.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// RediSearch's name of such an iterator.
    pub kind: &'static str,
    /// `Term` or `Query type`, and its value.
    pub detail: Option<(&'static str, Vec<u8>)>,
    /// The time that the part has taken, its own parts included.
    pub time: Duration,
    /// How many documents it has found.
    pub counter: u64,
    /// How many entries a list has, those of gone documents included.
    pub size: Option<u64>,
    /// Its parts.
    pub parts: Parts,
}

/// The parts of a part.
#[derive(Clone, Debug, PartialEq)]
pub enum Parts {
    /// It cannot have any.
    None,
    /// It has exactly one: its place among the iterators.
    One(usize),
    /// It has several.
    Several(Vec<usize>),
    /// Too many for a profile: their number.
    Many(usize),
}

/// How a part is found again.
#[derive(Clone, Debug)]
enum Source {
    /// From another part, or from the root of the plan, child by child.
    Child { parent: Option<usize>, way: Vec<usize> },
    /// A name of a pattern, of a field's tags or of the terms.
    Name { field: Option<usize>, name: Box<[u8]>, mask: u128 },
    /// The search for the nearest vectors, which the whole query was.
    Nearest,
}

impl Source {
    const ROOT: Source = Source::Child { parent: None, way: Vec::new() };

    fn child(parent: usize, child: usize) -> Source {
        Source::Child { parent: Some(parent), way: vec![child] }
    }
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct Profile {
    index: Arc<Index>,
    plan: Arc<Plan>,
    prepared: Arc<Prepared>,
    iterators: Vec<Part>,
    sources: Vec<Source>,
    /// The next part and partition.
    next: (usize, usize),
    limited: bool,
}

impl Profile {
    /// The parts of a finished query. `nearest` has its time and its number of results if the whole query was
    /// a search for the nearest vectors. With `limited` a pattern shows the number of its names, not the
    /// names.
    pub(crate) fn new(
        index: Arc<Index>,
        plan: Arc<Plan>,
        prepared: Arc<Prepared>,
        nearest: Option<(Duration, u64)>,
        limited: bool,
    ) -> Profile {
        let (iterators, sources) = (Vec::new(), Vec::new());
        let mut profile =
            Profile { index, plan: Arc::clone(&plan), prepared, iterators, sources, next: (0, 0), limited };
        match nearest {
            None => drop(profile.add(&plan, Source::ROOT)),
            Some((time, counter)) => {
                let root = profile.push("VECTOR", None, Source::Nearest);
                profile.iterators[root].time = time;
                profile.iterators[root].counter = counter;
                if !matches!(*plan, Plan::All) {
                    let child = profile.add(&plan, Source::ROOT);
                    profile.iterators[root].parts = Parts::One(child);
                }
            }
        }
        profile
    }

    fn push(&mut self, kind: &'static str, detail: Option<(&'static str, Vec<u8>)>, source: Source) -> usize {
        let (time, counter, size, parts) = (Duration::ZERO, 0, None, Parts::None);
        self.iterators.push(Part { kind, detail, time, counter, size, parts });
        self.sources.push(source);
        self.iterators.len() - 1
    }

    /// Adds a part with its parts.
    fn add(&mut self, plan: &Plan, source: Source) -> usize {
        let query = |kind: &'static str| Some(("Query type", kind.as_bytes().to_vec()));
        let term = |name: &[u8]| Some(("Term", name.to_vec()));
        match plan {
            Plan::All => self.push("WILDCARD", None, source),
            _ if self.is_nothing(plan) => self.push("EMPTY", None, source),
            Plan::Nothing => self.push("EMPTY", None, source),
            Plan::Term { name, .. } => self.list("TEXT", term(name), source),
            Plan::Tag { name, .. } => self.list("TAG", term(name), source),
            Plan::Terms { which, mask, .. } => self.names(None, which, *mask, source),
            Plan::Tags { field, which, .. } => self.names(Some(*field), which, u128::MAX, source),
            Plan::Numbers { range, .. } => self.list("NUMERIC", term(&range_text(range)), source),
            Plan::Points { .. } => self.list("GEO", None, source),
            Plan::Missing { .. } => self.list("MISSING", None, source),
            Plan::Near { .. } => self.push("METRIC - VECTOR DISTANCE", None, source),
            Plan::Keys(_) | Plan::Shapes { .. } => self.push("ID-LIST", None, source),
            Plan::Not(child) => self.with_one("NOT", child, source),
            Plan::Optional(child) => self.with_one("OPTIONAL", child, source),
            Plan::And { children, .. } => self.with_several("INTERSECT", None, children, source),
            Plan::Or { children, .. } => {
                let is_tag = |child: &Plan| matches!(child, Plan::Tag { .. } | Plan::Tags { .. });
                let kind = if children.iter().all(is_tag) { "TAG" } else { "UNION" };
                self.with_several("UNION", query(kind), children, source)
            }
        }
    }

    fn is_nothing(&self, plan: &Plan) -> bool {
        let known = |which: &Expansion| {
            self.prepared.expansions.get(which.number).is_some_and(|names| !names.is_empty())
        };
        match plan {
            Plan::Nothing => true,
            Plan::Term { name, .. } => !self.prepared.knows(None, name),
            Plan::Tag { field, name, .. } => !self.prepared.knows(Some(*field), name),
            Plan::Terms { which, .. } | Plan::Tags { which, .. } => !known(which),
            Plan::And { children, .. } => children.iter().any(|child| self.is_nothing(child)),
            Plan::Or { children, .. } => children.iter().all(|child| self.is_nothing(child)),
            _ => false,
        }
    }

    fn list(&mut self, kind: &'static str, detail: Option<(&'static str, Vec<u8>)>, source: Source) -> usize {
        let at = self.push(kind, detail, source);
        self.iterators[at].size = Some(0);
        at
    }

    fn with_one(&mut self, kind: &'static str, child: &Plan, source: Source) -> usize {
        let at = self.push(kind, None, source);
        let child = self.add(child, Source::child(at, 0));
        self.iterators[at].parts = Parts::One(child);
        at
    }

    /// A union or an intersection; one of a single part is that part.
    fn with_several(
        &mut self,
        kind: &'static str,
        detail: Option<(&'static str, Vec<u8>)>,
        children: &[Plan],
        source: Source,
    ) -> usize {
        let is_union = kind == "UNION";
        let children: Vec<(usize, &Plan)> =
            children.iter().enumerate().filter(|(_, child)| !is_union || !self.is_nothing(child)).collect();
        if let ([(child, plan)], Source::Child { parent, way }) = (&children[..], &source) {
            let way = way.iter().chain([child]).copied().collect();
            return self.add(plan, Source::Child { parent: *parent, way });
        }
        let at = self.push(kind, detail, source);
        if self.iterators.len() + children.len() > ITERATORS_MAX {
            self.iterators[at].parts = Parts::Many(children.len());
            return at;
        }
        let parts = children.into_iter().map(|(child, plan)| self.add(plan, Source::child(at, child)));
        let parts: Vec<usize> = parts.collect();
        self.iterators[at].parts = Parts::Several(parts);
        at
    }

    fn names(&mut self, field: Option<usize>, which: &Expansion, mask: u128, source: Source) -> usize {
        let at = self.push("UNION", Some(("Query type", which.pattern.text())), source);
        let prepared = Arc::clone(&self.prepared);
        let names = prepared.expansions.get(which.number);
        let count = names.map_or(0, |names| names.len());
        if self.limited || self.iterators.len() + count > ITERATORS_MAX {
            self.iterators[at].parts = Parts::Many(count);
            return at;
        }
        let kind = if field.is_some() { "TAG" } else { "TEXT" };
        let parts = names.into_iter().flatten().map(|(name, _)| {
            let source = Source::Name { field, name: name.clone(), mask };
            self.list(kind, Some(("Term", name.to_vec())), source)
        });
        let parts: Vec<usize> = parts.collect();
        self.iterators[at].parts = Parts::Several(parts);
        at
    }

    /// Runs one part in one partition; whether that was the last.
    pub fn step(&mut self) -> bool {
        let (part, number) = self.next;
        let (index, plan) = (Arc::clone(&self.index), Arc::clone(&self.plan));
        let Some(source) = self.sources.get(part) else { return true };
        let Some(partition) = index.partition(number).filter(|_| !matches!(source, Source::Nearest)) else {
            self.next = (part + 1, 0);
            return part + 1 >= self.sources.len();
        };
        let began = monotonic();
        let prepared = Arc::clone(&self.prepared);
        let mut binder = Binder { partition: &partition, number, prepared: &prepared, leaves: 0 };
        let mut root = match source {
            Source::Name { field, name, mask } => list_of(&partition, *field, name, *mask),
            _ => binder.node(self.plan_of(&plan, part)),
        };
        let (size, counter) = (super::estimate(&root, &partition), count(&mut root, &partition));
        let one = &mut self.iterators[part];
        one.counter += counter;
        one.time += began.elapsed();
        if let Some(sum) = &mut one.size {
            *sum += size as u64;
        }
        self.next = (part, number + 1);
        false
    }

    /// The plan of a part, by the way from the root.
    fn plan_of<'p>(&self, root: &'p Plan, mut part: usize) -> &'p Plan {
        let mut ways: Vec<&[usize]> = Vec::new();
        while let Some(Source::Child { parent, way }) = self.sources.get(part) {
            ways.push(way);
            let Some(parent) = parent else { break };
            part = *parent;
        }
        ways.into_iter().rev().flatten().fold(root, |plan, child| match plan {
            Plan::Not(only) | Plan::Optional(only) => only,
            Plan::And { children, .. } | Plan::Or { children, .. } => children.get(*child).unwrap_or(plan),
            _ => plan,
        })
    }

    /// The parts, of which the first is the whole.
    pub fn into_parts(self) -> Vec<Part> {
        self.iterators
    }
}

/// The node of one of a pattern's names.
fn list_of(partition: &Partition, field: Option<usize>, name: &[u8], mask: u128) -> Node {
    let number = names_of(partition, field).and_then(|names| names.number(name));
    let lists = number.map(|number| List { number, documents: 0 }).into_iter().collect();
    Node { kind: Kind::Lists { field, lists, mask, weight: 1.0, is_single: true, leaf: 0 }, bits: None }
}

/// How many live documents a node finds.
fn count(root: &mut Node, partition: &Partition) -> u64 {
    let documents = partition.documents();
    let (first, end) = (documents.first_id() / WINDOW as u64 * WINDOW as u64, documents.next_id());
    let mut counter = 0;
    for base in (first..end).step_by(WINDOW) {
        let (mut live, mut found) = (Bits::empty(base), Bits::empty(base));
        documents.live(&mut live);
        if !live.is_empty() && !matches!(root.kind, Kind::Nothing) {
            fill(root, partition, &live, &mut found, false);
            found.and(&live);
            counter += found.count() as u64;
        }
    }
    counter
}

fn range_text(range: &Range) -> Vec<u8> {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let end = |bound: &std::ops::Bound<f64>, unbounded: &str| match bound {
        Included(number) | Excluded(number) => number.to_string(),
        Unbounded => unbounded.to_string(),
    };
    format!("{} - {}", end(&range.min, "-inf"), end(&range.max, "inf")).into_bytes()
}

#[cfg(test)]
mod tests;
