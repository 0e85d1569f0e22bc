//! An aggregation of documents that are spread over parts, as over the nodes of a cluster: what each part
//! does with its own documents, and what is done with the rows of all parts.
//!
//! A part goes as far as a row needs no others: up to the first stage that looks at several. It runs that
//! stage over its own rows where this leaves fewer of them; the rest begins with the same stage. Both are
//! made of the plan of the whole, so that the slots of rows are the same. Loads behind that stage are the
//! part's, into slots of their own: the rest sorts by the values before them.

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

    /// Has the loads behind the split's stage read into slots of their own, which a stage in their place puts
    /// where they belong: what stands there before is read by the stages between. Returns these loads.
    fn take_late_loads(&mut self, at: usize) -> Vec<Stage> {
        let (mut loads, mut has_all) = (Vec::new(), false);
        let Some(section) = self.sections.first_mut() else { return loads };
        for (number, (stage, of)) in self.stages.iter_mut().zip(&self.sections_of_stages).enumerate() {
            let Stage::Load { inputs, all } = stage else { continue };
            let (all, keeps) = (*all, has_all && self.loads_names);
            has_all |= all;
            if number <= at || *of != 0 {
                continue;
            }
            let mut aside = std::mem::take(inputs);
            let mut moves = Vec::with_capacity(aside.len());
            for input in &mut aside {
                let slot = std::mem::replace(&mut input.slot, section.hide());
                moves.push((input.slot, slot));
            }
            loads.push(Stage::LoadAside { inputs: aside, all });
            *stage = Stage::Place { moves, all, keeps };
        }
        loads
    }

    fn into_part(mut self) -> Plan {
        let at = self.split();
        let late = self.take_late_loads(at);
        self.stages.truncate(at + 1);
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
                self.stages.extend(late);
            }
            None => {}
        }
        self.sections_of_stages = vec![0; self.stages.len()];
        self
    }

    fn into_rest(mut self) -> Plan {
        let at = self.split();
        self.take_late_loads(at);
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
