//! A plan bound to a partition: the documents that it finds, a window at a time.

pub mod profile;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::gather::Gathered;
use super::near::is_near;
use super::node::{Kind, List, Node, Where, layout_of, names_of};
use super::plan::{Expansion, Order, Plan};
use super::prepared::Prepared;
use super::score::{Explanation, Found, MatchedTerm, Notes, Scorer, Scoring, Subject, score};
use crate::index::DocId;
use crate::index::bits::{Bits, WINDOW};
use crate::index::documents::Rank;
use crate::index::numbers::Range;
use crate::index::partition::Partition;
use crate::index::postings::{Layout, Postings};
use crate::index::statistics::Statistics;

/// A range or area in which there are at most this many times fewer documents than in a partition is looked
/// up in order; a wider one is looked for in the column.
const NARROW: usize = 16;

/// A query on its way through one partition. Every call must be given that partition.
#[derive(Debug)]
pub struct Run {
    plan: Arc<Plan>,
    prepared: Arc<Prepared>,
    number: usize,
    root: Node,
    leaves: usize,
    removals: u64,
    /// The window to look at next, and the id at which the run ends.
    next: DocId,
    end: DocId,
    /// Whether the bits of the nodes are kept, for scores.
    scores: bool,
}

impl Run {
    /// Binds a plan to the partition of this number. `scores` says whether scores will be asked for.
    pub fn new(
        plan: Arc<Plan>,
        prepared: Arc<Prepared>,
        partition: &Partition,
        number: usize,
        scores: bool,
    ) -> Run {
        let documents = partition.documents();
        let mut run = Run {
            plan,
            prepared,
            number,
            root: Node { kind: Kind::Nothing, bits: None },
            leaves: 0,
            removals: 0,
            next: documents.first_id() / WINDOW as u64 * WINDOW as u64,
            end: documents.next_id(),
            scores,
        };
        run.bind(partition);
        run
    }

    fn bind(&mut self, partition: &Partition) {
        let mut binder = Binder { partition, number: self.number, prepared: &self.prepared, leaves: 0 };
        self.root = binder.node(&self.plan);
        self.leaves = binder.leaves;
        self.removals = partition.removals();
    }

    /// How many documents it may find at most.
    pub fn estimate(&self, partition: &Partition) -> usize {
        estimate(&self.root, partition)
    }

    /// The live documents of the next window, or none behind the last. An empty window is returned as such.
    pub fn window(&mut self, partition: &Partition) -> Option<Bits> {
        if self.removals != partition.removals() {
            self.bind(partition);
        }
        if self.next >= self.end {
            return None;
        }
        let live = self.live(partition);
        let mut found = Bits::empty(live.base());
        if !live.is_empty() {
            fill(&mut self.root, partition, &live, &mut found, self.scores);
            found.and(&live);
        }
        Some(found)
    }

    /// Leaves out the windows before that of a document; the next window, empty.
    pub fn skip_to(&mut self, id: DocId) -> Bits {
        self.next = self.next.max(id / WINDOW as u64 * WINDOW as u64);
        Bits::empty(self.next)
    }

    /// The live documents of the next window, which is passed.
    fn live(&mut self, partition: &Partition) -> Bits {
        let mut live = Bits::empty(self.next);
        self.next += WINDOW as u64;
        partition.documents().live(&mut live);
        live.truncate(self.end);
        live
    }

    /// Calls `each` with the live documents of the next window and their scores; false behind the last
    /// window.
    pub fn scores(
        &mut self,
        partition: &Partition,
        scoring: &Scoring<'_>,
        mut each: impl FnMut(DocId, Rank, f64, Notes),
    ) -> bool {
        let wants_terms = scoring.scorer.wants_terms() || scoring.with_terms;
        let mut gathered = Gathered::new(self.leaves, scoring.scorer.wants_positions());
        if self.removals != partition.removals() {
            self.bind(partition);
            gathered = Gathered::new(self.leaves, scoring.scorer.wants_positions());
        }
        if self.next >= self.end {
            return false;
        }
        let live = self.live(partition);
        if live.is_empty() {
            return true;
        }
        let at_once =
            if wants_terms { gathered.fill(&mut self.root, partition, &live, scoring) } else { None };
        let found = at_once.unwrap_or_else(|| {
            let mut found = Bits::empty(live.base());
            fill(&mut self.root, partition, &live, &mut found, self.scores);
            found.and(&live);
            if wants_terms {
                gathered.gather(&self.root, partition, &found, scoring);
            }
            found
        });
        let documents = partition.documents();
        let is_wanted = |id: &DocId| scoring.neighbours.is_none_or(|neighbours| neighbours.contains(*id));
        for id in found.iter().filter(is_wanted) {
            let rank = documents.rank(id);
            let payload = match scoring.scorer {
                Scorer::Hamming => documents.get(id).and_then(|document| document.payload.as_deref()),
                _ => None,
            };
            let mut tree = gathered.found(&self.root, id, wants_terms);
            if scoring.neighbours.is_some() {
                tree = match *self.plan {
                    Plan::All => Found::neighbour(),
                    _ => tree.of_neighbour(),
                };
            }
            let mut explanation = scoring.explain.then(Explanation::default);
            let value = score(scoring, &Subject { rank, payload }, &tree, explanation.as_mut());
            let mut terms = Vec::new();
            if scoring.with_terms {
                tree.each_term(&mut |term| terms.push(term.name.into()));
            }
            each(id, rank, value, Notes { explanation, terms });
        }
        true
    }

    /// The terms that a document has, with positions; none if the plan does not find it. The run, which keeps
    /// the bits of its nodes, stays where it is.
    pub(super) fn matched_terms(
        &mut self,
        partition: &Partition,
        id: DocId,
        statistics: Statistics,
    ) -> Vec<MatchedTerm> {
        if self.removals != partition.removals() {
            self.bind(partition);
        }
        let mut wanted = Bits::empty(id / WINDOW as u64 * WINDOW as u64);
        wanted.insert(id);
        let mut found = Bits::empty(wanted.base());
        fill(&mut self.root, partition, &wanted, &mut found, true);
        let mut terms = Vec::new();
        if found.contains(id) {
            let scoring = Scoring { statistics, ..Scoring::default() };
            let mut gathered = Gathered::new(self.leaves, true);
            gathered.gather(&self.root, partition, &wanted, &scoring);
            gathered.found(&self.root, id, true).each_term(&mut |term| {
                if term.places.is_some() {
                    terms.push(MatchedTerm { name: term.name.into(), idf: term.idf });
                }
            });
        }
        terms
    }
}

struct Binder<'a> {
    partition: &'a Partition,
    number: usize,
    prepared: &'a Prepared,
    leaves: usize,
}

impl Binder<'_> {
    fn node(&mut self, plan: &Plan) -> Node {
        Node { kind: self.kind(plan), bits: None }
    }

    fn kind(&mut self, plan: &Plan) -> Kind {
        match plan {
            Plan::All => Kind::All,
            Plan::Nothing => Kind::Nothing,
            Plan::Term { name, mask, weight } => self.name(None, name, *mask, *weight),
            Plan::Tag { field, name, weight } => self.name(Some(*field), name, u128::MAX, *weight),
            Plan::Terms { which, mask, weight } => self.names(None, which, *mask, *weight),
            Plan::Tags { field, which, weight } => self.names(Some(*field), which, u128::MAX, *weight),
            Plan::Numbers { field, range, weight } => {
                self.column(*field, Where::Range(*range), vec![*range], *weight)
            }
            Plan::Points { field, area, weight } => {
                let included = |range: std::ops::Range<u64>| Range {
                    min: std::ops::Bound::Included(range.start as f64),
                    max: std::ops::Bound::Excluded(range.end as f64),
                };
                let ranges = area.score_ranges().into_iter().map(included).collect();
                self.column(*field, Where::Area(area.clone()), ranges, *weight)
            }
            Plan::Missing { field } => Kind::Missing { field: *field },
            Plan::Near { number } => {
                let near = self.prepared.near.get(*number).into_iter().flat_map(|near| near.keys());
                let here = near.filter(|(partition, _)| *partition == self.number);
                let mut ids: Vec<DocId> = here.map(|&(_, id)| id).collect();
                ids.sort_unstable();
                Kind::Unscored(ids)
            }
            Plan::Shapes { number } => {
                let found = self.prepared.shapes.get(*number).and_then(|found| found.get(self.number));
                Kind::Unscored(found.cloned().unwrap_or_default())
            }
            Plan::Keys(keys) => {
                let documents = self.partition.documents();
                let mut ids: Vec<DocId> = keys.iter().filter_map(|key| documents.find(key)).collect();
                ids.sort_unstable();
                Kind::Ids(ids)
            }
            Plan::Not(child) => Kind::Not(Box::new(self.node(child))),
            Plan::Optional(child) => Kind::Optional(Box::new(self.node(child))),
            Plan::And { children, order, weight } => {
                let mut children: Vec<Node> = children.iter().map(|child| self.node(child)).collect();
                if children.iter().any(|child| matches!(child.kind, Kind::Nothing)) {
                    return Kind::Nothing;
                }
                if !order.is_some_and(|order| order.in_order) {
                    children.sort_by_key(|child| estimate(child, self.partition));
                }
                match children.len() {
                    1 => children.remove(0).kind,
                    _ => Kind::And { children, order: *order, weight: *weight },
                }
            }
            Plan::Or { children, weight } => {
                let mut children: Vec<Node> = children.iter().map(|child| self.node(child)).collect();
                children.retain(|child| !matches!(child.kind, Kind::Nothing));
                match children.len() {
                    0 => Kind::Nothing,
                    1 => children.remove(0).kind,
                    _ => Kind::Or { children, weight: *weight },
                }
            }
        }
    }

    fn leaf(&mut self) -> usize {
        self.leaves += 1;
        self.leaves - 1
    }

    /// A name without documents in the whole index becomes [`Kind::Nothing`], so that unions and
    /// intersections with it have the same form in every partition.
    fn name(&mut self, field: Option<usize>, name: &[u8], mask: u128, weight: f64) -> Kind {
        if !self.prepared.knows(field, name) {
            return Kind::Nothing;
        }
        let lists = names_of(self.partition, field).and_then(|names| {
            let number = names.number(name)?;
            let (_, postings) = names.at(number)?;
            Some(List { number, documents: self.prepared.of(field, name, postings) })
        });
        let leaf = self.leaf();
        let lists = lists.into_iter().collect();
        Kind::Lists { field, lists, mask, weight, is_single: true, leaf }
    }

    fn names(&mut self, field: Option<usize>, which: &Expansion, mask: u128, weight: f64) -> Kind {
        let known = self.prepared.expansions.get(which.number);
        if known.is_none_or(BTreeMap::is_empty) {
            return Kind::Nothing;
        }
        let names = names_of(self.partition, field);
        let known = known.into_iter().flatten();
        let lists = known.filter_map(|(name, &documents)| {
            let number = names?.number(name)?;
            Some(List { number, documents })
        });
        let lists = lists.collect();
        let leaf = self.leaf();
        Kind::Lists { field, lists, mask, weight, is_single: false, leaf }
    }

    fn column(&mut self, field: usize, what: Where, ranges: Vec<Range>, weight: f64) -> Kind {
        let few = self.partition.numbers(field).and_then(|numbers| {
            let count: usize = ranges.iter().map(|range| numbers.count(range)).sum();
            (count <= self.partition.documents().len() / NARROW).then(|| {
                let mut ids: Vec<DocId> = ranges.into_iter().flat_map(|range| numbers.ids(range)).collect();
                if let Where::Area(area) = &what {
                    ids.retain(|&id| numbers.get(id).any(|cell| area.find(cell).is_some()));
                }
                ids.sort_unstable();
                ids.dedup();
                ids
            })
        });
        Kind::Column { field, what, few, weight }
    }
}

fn estimate(node: &Node, partition: &Partition) -> usize {
    let all = partition.documents().len();
    match &node.kind {
        Kind::All | Kind::Not(_) | Kind::Optional(_) => all,
        Kind::Nothing => 0,
        Kind::Lists { field, lists, .. } => {
            let names = names_of(partition, *field);
            let count =
                |list: &List| names.and_then(|names| names.at(list.number)).map_or(0, |(_, p)| p.len());
            lists.iter().map(count).sum::<usize>().min(all)
        }
        Kind::Column { few: Some(ids), .. } | Kind::Ids(ids) | Kind::Unscored(ids) => ids.len(),
        Kind::Column { field, what: Where::Range(range), .. } => {
            partition.numbers(*field).map_or(0, |numbers| numbers.count(range))
        }
        Kind::Column { .. } => all,
        Kind::Missing { field } => partition.missing(*field).map_or(0, Postings::len),
        Kind::And { children, .. } => {
            children.iter().map(|child| estimate(child, partition)).min().unwrap_or(0)
        }
        Kind::Or { children, .. } => {
            children.iter().map(|child| estimate(child, partition)).sum::<usize>().min(all)
        }
    }
}

/// Adds to `window`, which is empty, the documents that a node finds; those outside `wanted` may be left out.
fn fill(node: &mut Node, partition: &Partition, wanted: &Bits, window: &mut Bits, keep: bool) {
    match &mut node.kind {
        Kind::All => window.or(wanted),
        Kind::Nothing => {}
        Kind::Lists { field, lists, mask, .. } => {
            let Some(names) = names_of(partition, *field) else { return };
            let layout = layout_of(partition, *field);
            for list in lists.iter() {
                if let Some((_, postings)) = names.at(list.number) {
                    postings.fill(layout, *mask, Some(wanted), window);
                }
            }
        }
        Kind::Column { few: Some(ids), .. } | Kind::Ids(ids) | Kind::Unscored(ids) => {
            let begin = ids.partition_point(|&id| id < window.base());
            let end = window.end();
            ids[begin..].iter().take_while(|&&id| id < end).for_each(|&id| window.insert(id));
        }
        Kind::Column { field, what, .. } => fill_column(*field, what, partition, wanted, window),
        Kind::Missing { field } => {
            if let Some(postings) = partition.missing(*field) {
                postings.fill(Layout::IDS, u128::MAX, Some(wanted), window);
            }
        }
        Kind::Not(child) => {
            let mut without = Bits::empty(window.base());
            fill(child, partition, wanted, &mut without, false);
            window.or(wanted);
            window.and_not(&without);
        }
        Kind::Optional(child) => {
            if keep {
                let mut with = Bits::empty(window.base());
                fill(child, partition, wanted, &mut with, keep);
                child.bits = Some(with);
            }
            window.or(wanted);
        }
        Kind::Or { children, .. } => {
            for child in children {
                if keep {
                    let mut one = Bits::empty(window.base());
                    fill(child, partition, wanted, &mut one, keep);
                    window.or(&one);
                } else {
                    fill_into(child, partition, wanted, window);
                }
            }
        }
        Kind::And { children, order, .. } => {
            fill_all(children, partition, wanted, window, keep);
            if let Some(order) = *order
                && !window.is_empty()
            {
                keep_near(children, partition, window, order);
            }
        }
    }
    node.bits = keep.then(|| window.clone());
}

/// The documents with a number, or a point, where it is wanted.
fn fill_column(field: usize, what: &Where, partition: &Partition, wanted: &Bits, window: &mut Bits) {
    let Some(numbers) = partition.numbers(field) else { return };
    match what {
        Where::Range(range) => numbers.fill(range, wanted, window),
        Where::Area(area) => {
            window.or(wanted);
            window.retain(|id| numbers.get(id).any(|cell| area.find(cell).is_some()));
        }
    }
}

/// As `fill`, for a window that is not empty.
fn fill_into(node: &mut Node, partition: &Partition, wanted: &Bits, window: &mut Bits) {
    if let Kind::Lists { .. } = node.kind {
        return fill(node, partition, wanted, window, false);
    }
    let mut one = Bits::empty(window.base());
    fill(node, partition, wanted, &mut one, false);
    window.or(&one);
}

/// The documents that all children find.
fn fill_all(children: &mut [Node], partition: &Partition, wanted: &Bits, window: &mut Bits, keep: bool) {
    window.or(wanted);
    let mut one = Bits::empty(window.base());
    for child in children {
        if window.is_empty() {
            return;
        }
        one.clear();
        fill(child, partition, window, &mut one, keep);
        window.and(&one);
    }
}

/// Keeps the documents in which the children's terms stand as `order` wants.
fn keep_near(children: &mut [Node], partition: &Partition, window: &mut Bits, order: Order) {
    let leaves = children.iter().filter_map(last_leaf).max().map_or(0, |leaf| leaf + 1);
    let mut gathered = Gathered::new(leaves, true);
    for child in children.iter_mut() {
        // Parts of a child say which documents they find: each again, for those that are left.
        if !matches!(child.kind, Kind::Lists { .. }) {
            let mut one = Bits::empty(window.base());
            fill(child, partition, window, &mut one, true);
        }
        gathered.gather(child, partition, window, &Scoring::default());
    }
    let mut lists: Vec<Vec<u32>> = vec![Vec::new(); children.len()];
    window.retain(|id| {
        let mut count = 0;
        for child in children.iter() {
            count += usize::from(gathered.places(child, id, &mut lists[count]));
        }
        is_near(&lists[..count], order)
    });
}

fn last_leaf(node: &Node) -> Option<usize> {
    match &node.kind {
        Kind::Lists { leaf, .. } => Some(*leaf),
        Kind::Not(child) | Kind::Optional(child) => last_leaf(child),
        Kind::And { children, .. } | Kind::Or { children, .. } => children.iter().filter_map(last_leaf).max(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
