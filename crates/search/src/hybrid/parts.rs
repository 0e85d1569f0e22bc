//! Both searches of FT.HYBRID as aggregations, which WITHCURSOR leaves to two cursors: rows have the key and
//! the score, the best first, and are not fused.

use super::{Hybrid, metric};
use crate::Error;
use crate::aggregate::request::{Aggregate, Load, LoadField, Step};
use crate::query::ast::Near;
use crate::request::{Arrange, SortKey};
use crate::schema::{Definition, Metric};

const KEY: &[u8] = b"__key";
const SCORE: &[u8] = b"__score";
const DISTANCE: &[u8] = b"__distance";

/// The aggregations of SEARCH and of VSIM.
///
/// # Errors
/// VSIM's field has no vectors, or none with its options.
pub fn aggregates(request: &Hybrid, definition: &Definition) -> Result<[Aggregate; 2], Error> {
    let rows = request.combine.window as u64;
    let mut search = whole(request, request.query.text.clone());
    search.add_scores = true;
    let named = request.search_score_name.iter();
    search.steps.extend(named.map(|name| apply("@__score", name)));
    search.steps.push(best_first(SCORE, true, rows));

    let metric = metric(definition, &request.vector)?;
    let (text, rows) = vector_query(request);
    let mut vector = whole(request, text);
    let similarity = match metric {
        Metric::L2 => "1/(1+@__distance)",
        Metric::InnerProduct | Metric::Cosine => "(2-@__distance)/2",
    };
    vector.steps.push(apply(similarity, request.vector.score_name.as_deref().unwrap_or(SCORE)));
    vector.steps.push(best_first(DISTANCE, false, rows));
    Ok([search, vector])
}

fn whole(request: &Hybrid, text: Box<[u8]>) -> Aggregate {
    let key = LoadField { path: KEY.into(), name: KEY.into() };
    let mut query = request.query.clone();
    query.text = text;
    Aggregate {
        query,
        steps: vec![Step::Load(Load::Fields(vec![key]))],
        add_scores: false,
        with_scores: false,
        with_payloads: false,
        with_sort_keys: false,
        no_content: false,
        count_only: false,
        cursor: request.tail.cursor,
    }
}

fn apply(expression: &str, name: &[u8]) -> Step {
    Step::Apply { expression: expression.as_bytes().into(), name: name.into() }
}

fn best_first(name: &[u8], descending: bool, rows: u64) -> Step {
    let sort = Some(vec![SortKey { name: name.into(), descending }]);
    Step::Arrange(Arrange { sort, offset: 0, count: rows.max(1) })
}

/// The query of VSIM, and how many documents it finds at most.
fn vector_query(request: &Hybrid) -> (Box<[u8]>, u64) {
    let part = &request.vector;
    // Signs of a name are no signs of the query.
    let field: Vec<u8> = part
        .field
        .iter()
        .flat_map(|byte| byte.is_ascii_punctuation().then_some(b'\\').into_iter().chain([*byte]))
        .collect();
    let (field, parameter) = (String::from_utf8_lossy(&field), String::from_utf8_lossy(&part.parameter));
    let filter = part.filter.as_ref().map(|filter| [b"(", &**filter, b")"].concat());
    let text = match part.near {
        Near::Nearest(_) => {
            let count = request.nearest_max();
            let ef = part.ef_runtime.map_or(String::new(), |ef| format!(" EF_RUNTIME {ef}"));
            let nearest = format!("=>[KNN {count} @{field} ${parameter}{ef} AS __distance]");
            [filter.as_deref().unwrap_or(b"*"), nearest.as_bytes()].concat()
        }
        Near::Within(radius) => {
            let near =
                format!("@{field}:[VECTOR_RANGE {radius} ${parameter}]=>{{$yield_distance_as: __distance}}");
            [filter.as_deref().unwrap_or_default(), near.as_bytes()].concat()
        }
    };
    (text.into(), request.nearest_max() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{self, create};
    use crate::request::Limits;

    #[test]
    fn both_searches_are_aggregations() {
        let schema = "i SCHEMA t TEXT v-w VECTOR HNSW 6 TYPE FLOAT32 DIM 1 DISTANCE_METRIC COSINE";
        let words: Vec<&[u8]> = schema.split(' ').map(str::as_bytes).collect();
        let definition =
            create(&words, definition::Context { memory_bytes: 1 << 30, is_path: |_| true }).unwrap();
        let of = |text: &str| {
            let words: Vec<&[u8]> = text.split('|').map(str::as_bytes).collect();
            let request = Hybrid::parse(&words, &Limits::default()).unwrap();
            aggregates(&request, &definition)
        };
        let text = |aggregate: &Aggregate| String::from_utf8_lossy(&aggregate.query.text).into_owned();
        let tail = "YIELD_SCORE_AS|s|FILTER|@t:red|WITHCURSOR|COUNT|7|PARAMS|2|b|1234";
        let [search, vector] = of(&format!("SEARCH|a b|VSIM|@v-w|$b|KNN|4|K|3|EF_RUNTIME|9|{tail}")).unwrap();
        assert_eq!(text(&search), "a b");
        assert_eq!(text(&vector), "(@t:red)=>[KNN 3 @v\\-w $b EF_RUNTIME 9 AS __distance]");
        assert!(vector.steps.contains(&apply("(2-@__distance)/2", b"s")), "{:?}", vector.steps);
        assert!([&search, &vector].iter().all(|one| one.cursor.is_some_and(|cursor| cursor.count == 7)));
        let [_, vector] = of("SEARCH|a|VSIM|@v-w|$b|RANGE|2|RADIUS|0.5|WITHCURSOR|PARAMS|2|b|1234").unwrap();
        assert_eq!(text(&vector), "@v\\-w:[VECTOR_RANGE 0.5 $b]=>{$yield_distance_as: __distance}");
        assert!(of("SEARCH|a|VSIM|@t|$b|WITHCURSOR|PARAMS|2|b|1234").is_err());
    }
}
