//! The search for a linearization of one object's operations: Wing and Gong's algorithm with Lowe's memory
//! of configurations (which operations have taken effect, and the state).
//!
//! Operations are tried in the order of their completions, so that each takes effect as late as it may.
//! What keeps the search small, each without changing the verdict:
//! - An operation that fits the state and leaves it as it is takes effect at once, and no other choice is
//!   tried.
//! - Of operations with equal calls whose replies say nothing, the one that completes first is tried alone.
//! - If a register's values are written once each, no write takes effect while a read of the present value
//!   is left.
//! - If a list's items are pushed once each, reads and pops order the pushes.
//! - A set's member that can change no more before a read completes must be as the read shows it.
//! - Operations of unknown outcome without evidence are left out.

use crate::members::MemberOutlook;
use crate::model::State;
use crate::observe::{Evidence, is_informative};
use crate::record::{Call, ObjectKind, Operation, Reply};
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

/// Bounds of one object's search.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Calls tried, at most.
    pub steps: u64,
    /// Configurations remembered, at most; each takes about 40 bytes.
    pub configurations: usize,
    /// Time of the search, at most; `None` for verdicts that do not depend on the machine.
    pub time: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { steps: 20_000_000, configurations: 5_000_000, time: None }
    }
}

/// The limit at which a search ended without a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// [`Limits::steps`].
    Steps,
    /// [`Limits::configurations`].
    Configurations,
    /// [`Limits::time`].
    Time,
}

/// Whether an object's operations are linearizable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is an order that explains every reply.
    Linearizable,
    /// There is none.
    NotLinearizable,
    /// The search ended at a limit.
    Undecided(LimitReached),
}

/// A verdict, and how many calls the search tried for it.
pub(crate) struct Search {
    pub(crate) verdict: Verdict,
    pub(crate) steps: u64,
}

/// Decides whether operations of one object are linearizable. Failed operations have no effect.
pub(crate) fn search(operations: &[&Operation], limits: &Limits) -> Search {
    let Some(kind) = operations.first().map(|operation| operation.kind) else {
        return Search { verdict: Verdict::Linearizable, steps: 0 };
    };
    let evidence = Evidence::of(operations);
    let taking_part = |operation: &&&Operation| {
        operation.is_acknowledged()
            || !operation.is_failed() && operation.call != Call::Read && !evidence.lacks(operation)
    };
    let mut ordered: Vec<&Operation> = operations.iter().filter(taking_part).copied().collect();
    ordered.sort_by_key(|operation| operation.invoked_ns);
    let mut searcher = Searcher::new(ordered, limits);
    let verdict = searcher.run(State::initial(kind));
    Search { verdict, steps: searcher.steps }
}

/// A choice that the search may take back.
struct Choice {
    /// The state before.
    state: State,
    /// The operation that took effect.
    taken: usize,
    /// Others to try in its place, the next one last.
    others: Vec<usize>,
}

struct Searcher<'a> {
    operations: Vec<&'a Operation>,
    /// Doubly linked list of the operations that have not taken effect, by invocation; the last index is
    /// its end and its beginning.
    next: Vec<usize>,
    previous: Vec<usize>,
    /// Equal numbers: equal calls whose replies say nothing.
    classes: Vec<Option<usize>>,
    keys: Vec<u128>,
    /// The sum (exclusive or) of the keys of the operations that have taken effect.
    effective: u128,
    /// Operations with replies that have not taken effect.
    missing: usize,
    observers: Option<HashMap<Option<&'a str>, usize>>,
    /// For each operation those that must take effect before it, beyond the order of time.
    before: Vec<Vec<usize>>,
    /// Pushes of items that some pop returned.
    popped: Vec<bool>,
    /// How many of those have not taken effect; 0 if a pop may have taken an item that no reply shows.
    popped_left: usize,
    has_effect: Vec<bool>,
    outlook: MemberOutlook<'a>,
    seen: HashSet<u128>,
    limits: &'a Limits,
    started: Instant,
    steps: u64,
}

impl<'a> Searcher<'a> {
    fn new(operations: Vec<&'a Operation>, limits: &'a Limits) -> Searcher<'a> {
        let count = operations.len();
        let mut numbers = HashMap::new();
        let popped = popped_pushes(&operations);
        let classes = operations.iter().map(|operation| {
            let number = numbers.len();
            (!is_informative(operation)).then(|| *numbers.entry(&operation.call).or_insert(number))
        });
        Searcher {
            next: (1..=count).chain([0]).collect(),
            previous: [count].into_iter().chain(0..count).collect(),
            classes: classes.collect(),
            keys: (0..count).map(|index| hash_of(&index)).collect(),
            effective: 0,
            missing: operations.iter().filter(|operation| operation.is_acknowledged()).count(),
            observers: observers(&operations),
            before: orders_of_pushes(&operations),
            popped_left: popped.iter().filter(|popped| **popped).count(),
            popped,
            has_effect: vec![false; count],
            outlook: MemberOutlook::new(&operations),
            operations,
            seen: HashSet::new(),
            limits,
            started: Instant::now(),
            steps: 0,
        }
    }

    fn run(&mut self, mut state: State) -> Verdict {
        let mut choices: Vec<Choice> = Vec::new();
        let mut others = self.candidates(&state);
        while self.missing > 0 {
            if let Some(limit) = self.limit_reached() {
                return Verdict::Undecided(limit);
            }
            if let Some(taken) = others.pop() {
                self.steps += 1;
                let operation = self.operations[taken];
                let Some(after) = state.after(&operation.call, operation.reply()) else { continue };
                if after == state && !operation.is_acknowledged() {
                    continue;
                }
                self.take(taken);
                let first = self.next[self.operations.len()];
                if !self.outlook.is_open(&after, taken, first, &self.operations, &self.has_effect)
                    || !self.seen.insert(self.effective ^ hash_of(&after))
                {
                    self.put_back(taken);
                    continue;
                }
                choices.push(Choice { state, taken, others });
                state = after;
                others = self.candidates(&state);
            } else {
                let Some(choice) = choices.pop() else { return Verdict::NotLinearizable };
                self.put_back(choice.taken);
                (state, others) = (choice.state, choice.others);
            }
        }
        Verdict::Linearizable
    }

    fn limit_reached(&self) -> Option<LimitReached> {
        if self.steps >= self.limits.steps {
            return Some(LimitReached::Steps);
        }
        if self.seen.len() >= self.limits.configurations {
            return Some(LimitReached::Configurations);
        }
        let is_late = |time| self.steps.is_multiple_of(1024) && self.started.elapsed() > time;
        self.limits.time.is_some_and(is_late).then_some(LimitReached::Time)
    }

    /// The operations that may take effect next, the one to be tried first last. If one of them fits the
    /// state and leaves it as it is, there is no other.
    fn candidates(&mut self, state: &State) -> Vec<usize> {
        let end = self.operations.len();
        let (mut open, mut first_completion) = (Vec::new(), u64::MAX);
        let mut index = self.next[end];
        while index != end && self.operations[index].invoked_ns <= first_completion {
            first_completion = first_completion.min(self.operations[index].completed_ns());
            open.push(index);
            index = self.next[index];
        }
        for &index in &open {
            let operation = self.operations[index];
            if is_informative(operation) {
                self.steps += 1;
                if state.after(&operation.call, operation.reply()).is_some_and(|after| after == *state) {
                    return vec![index];
                }
            }
        }
        self.ranked(open, state)
    }

    /// Changing operations without those that need not be tried, in the order of trying (reversed).
    fn ranked(&self, mut open: Vec<usize>, state: &State) -> Vec<usize> {
        let operations = &self.operations;
        let targets: Vec<&Reply> = open
            .iter()
            .filter(|index| operations[**index].call == Call::Read)
            .filter_map(|index| operations[*index].reply())
            .collect();
        open.retain(|&index| operations[index].call != Call::Read && self.may_change(index, state));
        open.sort_by_key(|index| operations[*index].completed_ns());
        let mut classes = HashSet::new();
        open.retain(|index| self.classes[*index].is_none_or(|class| classes.insert(class)));
        if !targets.is_empty() && open.len() > 1 {
            open.sort_by_cached_key(|index| {
                let operation = operations[*index];
                let approaches = targets.iter().any(|target| state.approaches(&operation.call, target));
                (!approaches, operation.completed_ns())
            });
        }
        open.reverse();
        open
    }

    /// Whether the operation may change the state before the operations that observe it have taken effect,
    /// and whether those have that must come first.
    fn may_change(&self, index: usize, state: &State) -> bool {
        if !self.before[index].iter().all(|before| self.has_effect[*before]) {
            return false;
        }
        if self.popped_left > 0 && matches!(self.operations[index].call, Call::Push(_)) && !self.popped[index]
        {
            return false;
        }
        let (Some(observers), State::Register(value)) = (&self.observers, state) else { return true };
        let left = observers.get(&value.as_deref()).copied().unwrap_or_default();
        let own = self.operations[index].seen().is_some_and(|seen| seen == value.as_deref());
        left == usize::from(own)
    }

    fn take(&mut self, index: usize) {
        let (next, previous) = (self.next[index], self.previous[index]);
        self.next[previous] = next;
        self.previous[next] = previous;
        self.count(index, true);
    }

    fn put_back(&mut self, index: usize) {
        let (next, previous) = (self.next[index], self.previous[index]);
        self.next[previous] = index;
        self.previous[next] = index;
        self.count(index, false);
    }

    fn count(&mut self, index: usize, takes_effect: bool) {
        let operation = self.operations[index];
        self.has_effect[index] = takes_effect;
        self.effective ^= self.keys[index];
        let change = if takes_effect { usize::wrapping_sub } else { usize::wrapping_add };
        if operation.is_acknowledged() {
            self.missing = change(self.missing, 1);
        }
        if self.popped[index] {
            self.popped_left = change(self.popped_left, 1);
        }
        if let (Some(observers), Some(seen)) = (&mut self.observers, operation.seen()) {
            let left = observers.entry(seen).or_default();
            *left = change(*left, 1);
        }
    }
}

/// 128 bits, so that two configurations of one search do not meet by chance.
fn hash_of(value: &impl Hash) -> u128 {
    let half = |seed: u64| {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        value.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

/// How many operations observe each value of a register; `None` if a value may be written twice.
fn observers<'a>(operations: &[&'a Operation]) -> Option<HashMap<Option<&'a str>, usize>> {
    if operations.first()?.kind != ObjectKind::Register {
        return None;
    }
    let mut written = HashSet::new();
    if !operations.iter().filter_map(|operation| operation.written()).all(|value| written.insert(value)) {
        return None;
    }
    let mut observers = HashMap::new();
    operations.iter().filter_map(|operation| operation.seen()).for_each(|seen| {
        *observers.entry(seen).or_default() += 1;
    });
    Some(observers)
}

/// Which operations push an item that a pop returned, and so come before all pushes of items that stay. All
/// `false` if an item is pushed twice, or if a pop's outcome is unknown.
fn popped_pushes(operations: &[&Operation]) -> Vec<bool> {
    let mut pushed = HashSet::new();
    let mut popped = HashSet::new();
    for operation in operations {
        let is_distinct = match (&operation.call, operation.reply()) {
            (Call::Push(item), _) => pushed.insert(item.as_str()),
            (Call::Pop, Some(Reply::Value(Some(item)))) => {
                popped.insert(item.as_str());
                true
            }
            (call, reply) => *call != Call::Pop || reply.is_some(),
        };
        if !is_distinct {
            return vec![false; operations.len()];
        }
    }
    let is_popped = |call: &Call| matches!(call, Call::Push(item) if popped.contains(item.as_str()));
    operations.iter().map(|operation| is_popped(&operation.call)).collect()
}

/// For each operation the pushes that must come before it, as reads and pops of a list with distinct items
/// show.
fn orders_of_pushes(operations: &[&Operation]) -> Vec<Vec<usize>> {
    let mut before = vec![Vec::new(); operations.len()];
    let mut pushes: HashMap<&str, usize> = HashMap::new();
    for (index, operation) in operations.iter().enumerate() {
        if let Call::Push(item) = &operation.call
            && pushes.insert(item, index).is_some()
        {
            return before;
        }
    }
    let mut edges = HashSet::new();
    let mut edge = |first: &str, second: &str| {
        if let (Some(&first), Some(&second)) = (pushes.get(first), pushes.get(second)) {
            edges.insert((first, second));
        }
    };
    let mut pops: Vec<(u64, u64, &str)> = Vec::new();
    for operation in operations {
        match (&operation.call, operation.reply()) {
            (Call::Read, Some(Reply::Items(items))) => {
                items.windows(2).for_each(|pair| edge(&pair[0], &pair[1]));
            }
            (Call::Pop, Some(Reply::Value(Some(item)))) => {
                pops.push((operation.completed_ns(), operation.invoked_ns, item));
            }
            _ => {}
        }
    }
    pops.sort_unstable();
    for &(_, invoked_ns, item) in &pops {
        let earlier = &pops[..pops.partition_point(|pop| pop.0 < invoked_ns)];
        let latest_invocation = earlier.iter().rev().take(64).map(|pop| pop.1).max().unwrap_or_default();
        let last = earlier.iter().rev().take_while(|pop| pop.0 >= latest_invocation);
        last.for_each(|pop| edge(pop.2, item));
    }
    edges.into_iter().for_each(|(first, second)| before[second].push(first));
    before
}
