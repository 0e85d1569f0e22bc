//! An experiment: one of the five reports, as rows to measure and a section of the page.

use crate::page::{Section, View};
use crate::scale::Scale;
use crate::trial::Trial;

/// One of the reports.
pub struct Experiment {
    pub id: &'static str,
    pub title: &'static str,
    /// Where its figures are from.
    pub source: &'static str,
    pub trials: fn(&Scale) -> Vec<Trial>,
    pub section: fn(&View<'_>) -> Section,
}
