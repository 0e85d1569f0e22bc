//! What each stage of a pipeline hands on, and the time that takes: FT.PROFILE of an aggregation. A pipeline
//! that is not measured has none of it.

use std::time::{Duration, Instant};

use martlet_base::clock::monotonic;

use super::stage::Stage;

/// A step from the index to the rows, by RediSearch's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Its name.
    pub name: String,
    /// How many rows it has handed on.
    pub rows: u64,
    /// Its own time, without that of the steps before it.
    pub time: Duration,
}

/// The rows and the time of a stage.
#[derive(Copy, Clone, Debug, Default)]
struct Counter {
    rows: u64,
    time: Duration,
}

/// The measurements of a pipeline.
#[derive(Debug, Default)]
pub(super) struct Measured {
    source: Counter,
    stages: Vec<Counter>,
}

/// When a stage began its work; none: it is not measured.
#[derive(Copy, Clone)]
pub(super) struct Began(Option<Instant>);

impl Began {
    pub(super) fn now(measured: Option<&Measured>) -> Began {
        Began(measured.map(|_| monotonic()))
    }
}

impl Measured {
    pub(super) fn new(stages: usize) -> Measured {
        Measured { source: Counter::default(), stages: vec![Counter::default(); stages] }
    }

    /// Adds rows that a stage hands on, or the source if there is no stage.
    pub(super) fn add(measured: &mut Option<Box<Measured>>, stage: Option<usize>, began: Began, rows: usize) {
        let (Some(measured), Some(began)) = (measured, began.0) else { return };
        let counter = match stage {
            Some(stage) => measured.stages.get_mut(stage),
            None => Some(&mut measured.source),
        };
        if let Some(counter) = counter {
            counter.rows += rows as u64;
            counter.time += began.elapsed();
        }
    }

    /// The steps in order. The time of those of the source beside the index is in the index's.
    pub(super) fn processors(&self, stages: &[Stage], of_source: &[&str]) -> Vec<Processor> {
        let index = Processor { name: "Index".into(), rows: self.source.rows, time: self.source.time };
        let beside = of_source.iter().map(|name| Processor {
            name: (*name).to_owned(),
            rows: self.source.rows,
            time: Duration::ZERO,
        });
        let of_stages = stages.iter().zip(&self.stages).map(|(stage, counter)| Processor {
            name: name_of(stage),
            // The number of rows is the one row.
            rows: if matches!(stage, Stage::Count) { 1 } else { counter.rows },
            time: counter.time,
        });
        std::iter::once(index).chain(beside).chain(of_stages).collect()
    }
}

fn name_of(stage: &Stage) -> String {
    match stage {
        Stage::Load { .. } | Stage::LoadAside { .. } | Stage::Place { .. } => "Loader".to_owned(),
        Stage::Apply { program, .. } => format!("Projector - {}", program.title()),
        Stage::Filter(program) => format!("Filter - {}", program.title()),
        Stage::Group(_) => "Grouper".to_owned(),
        Stage::Sort(_) => "Sorter".to_owned(),
        Stage::Limit { .. } => "Pager/Limiter".to_owned(),
        Stage::Count => "Counter".to_owned(),
    }
}
