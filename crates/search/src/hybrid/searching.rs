//! Both searches of FT.HYBRID over an index, in steps, and their fusion.

use std::sync::Arc;

use super::fusion::{Fused, fuse, similarity};
use super::request::{Hybrid, VectorPart};
use crate::Error;
use crate::exec::{Best, Bounds, Evaluation, Hit, Plan, Planned, Planner, Ranking, Scorer, Scores};
use crate::index::whole::{Index, Rules};
use crate::query::ast::{Kind, Near, Node, VectorQuery};
use crate::query::{Options, Params, parse};
use crate::schema::{Algorithm, Definition, FieldKind, Metric};
use crate::searching::Context;

/// A document of the fused list.
#[derive(Debug)]
pub struct HybridHit {
    /// Where it is.
    pub hit: Hit,
    /// Its scores.
    pub scores: Fused<()>,
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct HybridSearching {
    search: Evaluation,
    vector: Evaluation,
    best: [Best; 2],
    metric: Metric,
    request: Hybrid,
}

impl HybridSearching {
    /// A search that has not begun.
    ///
    /// # Errors
    /// RediSearch's, for both queries, the vector and its field.
    pub fn new(index: Arc<Index>, request: Hybrid, context: &Context) -> Result<HybridSearching, Error> {
        let bounds = context.bounds;
        let rules = index.rules();
        let scorer = request.query.scorer(Scorer::parse)?.unwrap_or(Scorer::Bm25Std);
        let mut params = Params::default();
        for parameter in &request.query.parameters {
            params.insert(&parameter.name, &parameter.value)?;
        }
        let metric = metric(&rules.definition, &request.vector)?;
        let root = query(&rules, &request, &params, &request.query.text, "SEARCH")?;
        let planned = Planner::new(&rules.definition, bounds, None, false).without_tags().plan(&root)?;
        let scores = Scores { scorer, by_texts: true, ..Scores::default() };
        let search = Evaluation::new(Arc::clone(&index), planned, Some(scores))?
            .among_keys(context.key_filter.clone());
        let planned = vectors(&rules, &request, &params, bounds)?;
        let vector = Evaluation::new(index, planned, None)?.among_keys(context.key_filter.clone());
        let by_distance = Ranking::Distance { descending: false };
        let best = [
            Best::new(Ranking::Score, request.combine.window, false).normalised(scorer.is_normalised()),
            Best::new(by_distance, request.nearest_max(), false),
        ];
        Ok(HybridSearching { search, vector, best, metric, request })
    }

    /// The request.
    pub fn request(&self) -> &Hybrid {
        &self.request
    }

    /// Whether the search of texts is over.
    pub fn is_at_vectors(&self) -> bool {
        self.search.is_done()
    }

    /// See [`Evaluation::has_long_steps`].
    pub fn has_long_steps(&self) -> bool {
        self.vector.has_long_steps()
    }

    /// A step; whether both searches have come to their ends.
    pub fn step(&mut self) -> bool {
        let [by_text, by_vector] = &mut self.best;
        if !self.search.is_done() {
            self.search.step(&mut |found| by_text.add(found));
        } else if !self.vector.is_done() {
            self.vector.step(&mut |found| by_vector.add(found));
        }
        self.search.is_done() && self.vector.is_done()
    }

    /// The fused list of the documents found so far, the best one first.
    pub fn into_hits(self) -> Vec<HybridHit> {
        let [by_text, by_vector] = self.best.map(|best| best.into_hits(0));
        let metric = self.metric;
        let alike = |hit: &Hit| hit.distance().map_or(0.0, |far| similarity(metric, f64::from(far)));
        // A document that changed between the searches has another id, and the same key.
        let search: Vec<(Box<[u8]>, f64)> = by_text.iter().map(|hit| (hit.key.clone(), hit.score)).collect();
        let vector: Vec<(Box<[u8]>, f64)> =
            by_vector.iter().map(|hit| (hit.key.clone(), alike(hit))).collect();
        let mut hits: std::collections::HashMap<Box<[u8]>, Hit> =
            by_text.into_iter().chain(by_vector).map(|hit| (hit.key.clone(), hit)).collect();
        let fused = fuse(&search, &vector, self.request.combine.method);
        let with_hit = |Fused { key, search, vector, score }: Fused<Box<[u8]>>| {
            Some(HybridHit { hit: hits.remove(&key)?, scores: Fused { key: (), search, vector, score } })
        };
        fused.into_iter().filter_map(with_hit).collect()
    }
}

/// The metric of VSIM's field.
///
/// # Errors
/// It has no vectors, or none of a kind that has the option which is given.
pub(super) fn metric(definition: &Definition, part: &VectorPart) -> Result<Metric, Error> {
    let fields = &definition.fields;
    let vector = fields.iter().find(|field| field.name == part.field).and_then(|field| match &field.kind {
        FieldKind::Vector(vector) => Some(vector),
        _ => None,
    });
    let unknown = || Error::new(format!("Unknown field `{}`", String::from_utf8_lossy(&part.field)));
    let vector = vector.ok_or_else(unknown)?;
    let is_none = match vector.algorithm {
        Algorithm::Flat { .. } => part.ef_runtime.is_some() || part.epsilon.is_some(),
        Algorithm::Hnsw { .. } => false,
        Algorithm::Vamana { .. } => part.ef_runtime.is_some(),
    };
    if is_none {
        return Err(Error::new("Error parsing vector similarity parameters: Invalid option"));
    }
    Ok(vector.metric)
}

/// The tree of one of both queries, which must not look for vectors itself.
fn query(rules: &Rules, request: &Hybrid, params: &Params, text: &[u8], clause: &str) -> Result<Node, Error> {
    let definition = &rules.definition;
    let options = Options {
        dialect: request.query.dialect as u8,
        stopwords: Some(&rules.stopwords),
        language: definition.language.unwrap_or_default(),
        synonyms: Some(&rules.synonyms),
        ..Options::new(definition, &rules.stopwords, params)
    };
    let root = parse(text, &options)?;
    let is_vector = |node: &Node| matches!(node.kind, Kind::Vector(_));
    if any(&root, &is_vector) {
        return Err(Error::new(format!("Vector expressions are not allowed in FT.HYBRID {clause}")));
    }
    Ok(root)
}

/// Whether any node of a tree, whose depth is bounded, is of a kind.
fn any(node: &Node, is_it: &dyn Fn(&Node) -> bool) -> bool {
    is_it(node) || node.children().iter().any(|child| any(child, is_it))
}

/// The plan of VSIM.
fn vectors(rules: &Rules, request: &Hybrid, params: &Params, bounds: Bounds) -> Result<Planned, Error> {
    let part = &request.vector;
    let clause = "VSIM FILTER";
    let filter = part.filter.as_ref().map(|text| query(rules, request, params, text, clause)).transpose()?;
    if filter.as_ref().is_some_and(|root| any(root, &|node| node.attributes.weight != 1.0)) {
        return Err(Error::new("Weight attributes are not allowed in FT.HYBRID VSIM FILTER"));
    }
    let near = match part.near {
        Near::Nearest(_) => Near::Nearest(request.nearest_max() as u64),
        within => within,
    };
    let mut vector = VectorQuery::new(&part.field, near, &part.parameter, params.get(&part.parameter)?);
    (vector.ef_runtime, vector.epsilon) = (part.ef_runtime, part.epsilon);
    (vector.policy, vector.batch_size) = (part.policy, part.batch_size);
    let mut planned = match &filter {
        Some(root) => Planner::new(&rules.definition, bounds, None, false).plan(root)?,
        None => Planned { plan: Plan::All, ranges: Vec::new(), shapes: Vec::new(), nearest: None },
    };
    match near {
        Near::Nearest(_) => planned.nearest = Some(vector),
        Near::Within(_) => {
            planned.ranges.push(vector);
            let near = Plan::Near { number: planned.ranges.len() - 1 };
            let filter = std::mem::replace(&mut planned.plan, Plan::All);
            planned.plan = match filter {
                Plan::All => near,
                filter => Plan::And { children: vec![filter, near], order: None, weight: 1.0 },
            };
        }
    }
    Ok(planned)
}

#[cfg(test)]
mod tests;
