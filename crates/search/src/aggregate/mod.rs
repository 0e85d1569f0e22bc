//! FT.AGGREGATE: values, expressions, the plan of a request, and the pipeline over rows.

pub mod batch;
pub mod expression;
mod group;
mod key;
mod measure;
pub mod pipeline;
mod plan;
mod reducers;
pub mod request;
pub mod rows;
mod sort;
mod split;
mod stage;
pub mod value;
