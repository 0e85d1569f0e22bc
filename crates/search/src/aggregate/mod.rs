//! FT.AGGREGATE: values, expressions, the plan of a request, and the pipeline over rows.

pub mod batch;
pub mod expression;
mod group;
mod key;
pub mod pipeline;
mod plan;
mod reducers;
pub mod request;
mod sort;
mod stage;
pub mod value;
