//! An aggregation of documents that are spread over parts, as over the nodes of a cluster: what each part
//! does with its own documents, and what is done with the rows of all parts.
//!
//! A part goes as far as a row needs no others: up to the first stage that looks at several. It runs that
//! stage over its own rows where this leaves fewer of them; the rest begins with the same stage. Both are
//! made of the plan of the whole, so that the slots of rows are the same.

use super::expression::Slot;
use super::plan::{Plan, Section};
use super::stage::Stage;

/// Which stages a pipeline has.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// All of them.
    Whole,
    /// Those of a part of the documents.
    Part,
    /// Those that make the rows of the whole of those of all parts. They load nothing.
    Rest,
}

impl Plan {
    /// The stages of a role.
    pub(super) fn of(self, role: Role) -> Plan {
        match role {
            Role::Whole => self,
            Role::Part => self.into_part(),
            Role::Rest => self.into_rest(),
        }
    }

    /// The number of the first stage that looks at several rows.
    fn split(&self) -> usize {
        let is_split =
            |stage: &Stage| stage.is_blocking() || matches!(stage, Stage::Limit { .. } | Stage::Count);
        self.stages.iter().position(is_split).unwrap_or(self.stages.len())
    }

    fn into_part(mut self) -> Plan {
        let at = self.split();
        let behind = self.stages.split_off(self.stages.len().min(at + 1));
        let last = if at < self.stages.len() { self.stages.pop() } else { None };
        self.sections.truncate(1);
        match last {
            Some(Stage::Group(grouper)) => {
                if let Some(part) = grouper.of_part() {
                    self.sections.push(Section::without_names(part.width()));
                    self.stages.push(Stage::Group(Box::new(part)));
                }
            }
            Some(stage) => {
                self.stages.push(match stage {
                    Stage::Limit { skipped, left } => {
                        Stage::Limit { skipped: 0, left: skipped.saturating_add(left) }
                    }
                    stage => stage,
                });
                // Documents are looked at where they are, for the rows that are left.
                let of_rows = behind.into_iter().take_while(|stage| !matches!(stage, Stage::Group(_)));
                self.stages.extend(of_rows.filter(|stage| matches!(stage, Stage::Load { .. })));
            }
            None => {}
        }
        self.sections_of_stages = vec![0; self.stages.len()];
        self
    }

    fn into_rest(mut self) -> Plan {
        let at = self.split();
        self.stages.drain(..at);
        self.sections_of_stages.drain(..at);
        self.scanned.clear();
        if let Some(Stage::Group(grouper)) = self.stages.first_mut()
            && let Some(rest) = grouper.of_rest()
        {
            let width = grouper.of_part().map_or(0, |part| part.width());
            if let Some(section) = self.sections.first_mut() {
                *section = Section::without_names(width);
            }
            **grouper = rest;
        }
        let stages = std::mem::take(&mut self.stages).into_iter();
        let kept = stages.zip(std::mem::take(&mut self.sections_of_stages));
        (self.stages, self.sections_of_stages) =
            kept.filter(|(stage, _)| !matches!(stage, Stage::Load { .. })).unzip();
        self
    }

    /// The slots that GROUPBY reads, if it is the first stage that looks at several rows.
    pub(super) fn wanted_by_group(&self) -> Option<Vec<Slot>> {
        match self.stages.get(self.split()) {
            Some(Stage::Group(grouper)) => Some(grouper.read_slots()),
            _ => None,
        }
    }
}
