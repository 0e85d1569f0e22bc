//! FT.AGGREGATE: values, expressions, the plan of a request, and the pipeline over rows.

pub mod expression;
pub mod value;
