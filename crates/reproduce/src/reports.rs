//! The five reports.

use crate::experiment::Experiment;
use crate::{r1, r2, r3, r4, r5};

/// All of them, in order.
pub const EXPERIMENTS: [Experiment; 5] =
    [r1::EXPERIMENT, r2::EXPERIMENT, r3::EXPERIMENT, r4::EXPERIMENT, r5::EXPERIMENT];
