//! Generated histories: those of true executions are accepted, and small ones with a changed reply get the
//! verdict of a search that tries every order. Failures print the seed.

use martlet_history::{
    AnomalyKind, Call, Ending, Limits, ObjectKind, Operation, Reply, Verdict, check, line, parse,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The naive objects: one struct with the state of every kind.
#[derive(Clone, Default)]
struct Model {
    value: Option<String>,
    number: i64,
    members: BTreeSet<String>,
    items: VecDeque<String>,
    balances: BTreeMap<String, i64>,
}

impl Model {
    fn apply(&mut self, kind: ObjectKind, call: &Call) -> Reply {
        match call {
            Call::Read => match kind {
                ObjectKind::Register => Reply::Value(self.value.clone()),
                ObjectKind::Counter => Reply::Number(self.number),
                ObjectKind::Set => Reply::Members(self.members.clone()),
                ObjectKind::List => Reply::Items(self.items.iter().cloned().collect()),
                ObjectKind::Transfer => Reply::Balances(self.balances.clone()),
            },
            Call::Write(value) => {
                self.value = Some(value.clone());
                Reply::Done
            }
            Call::CompareAndSet { expected, new } => {
                let changes = self.value == *expected;
                if changes {
                    self.value = Some(new.clone());
                }
                Reply::Changed(changes)
            }
            Call::Increment(by) => {
                self.number += by;
                Reply::Number(self.number)
            }
            Call::Add(member) => Reply::Changed(self.members.insert(member.clone())),
            Call::Remove(member) => Reply::Changed(self.members.remove(member)),
            Call::Push(item) => {
                self.items.push_back(item.clone());
                Reply::Number(self.items.len() as i64)
            }
            Call::Pop => Reply::Value(self.items.pop_front()),
            Call::Open(balances) => {
                self.balances = balances.clone();
                Reply::Done
            }
            Call::Move { from, to, amount } => {
                *self.balances.entry(from.clone()).or_default() -= amount;
                *self.balances.entry(to.clone()).or_default() += amount;
                self.balances.retain(|_, balance| *balance != 0);
                Reply::Done
            }
        }
    }
}

const KINDS: [ObjectKind; 5] =
    [ObjectKind::Register, ObjectKind::Counter, ObjectKind::Set, ObjectKind::List, ObjectKind::Transfer];

/// What histories are generated.
#[derive(Clone, Copy)]
struct Shape {
    kind: ObjectKind,
    operations: usize,
    clients: usize,
    unique: bool,
    unknown_percent: u64,
    read_percent: u64,
}

fn call(shape: Shape, count: usize, chance: &mut Chance) -> Call {
    if chance.percent(shape.read_percent) {
        return Call::Read;
    }
    let value = |chance: &mut Chance| {
        if shape.unique { format!("v{count}") } else { format!("v{}", chance.below(3)) }
    };
    match shape.kind {
        ObjectKind::Register if chance.percent(20) => {
            let back = chance.below(4) as usize;
            let expected =
                if shape.unique { format!("v{}", count.saturating_sub(back)) } else { value(chance) };
            Call::CompareAndSet { expected: (count > 0 && back > 0).then_some(expected), new: value(chance) }
        }
        ObjectKind::Register => Call::Write(value(chance)),
        ObjectKind::Counter => Call::Increment(if shape.unique { 1 } else { chance.below(5) as i64 - 2 }),
        ObjectKind::Set if chance.percent(45) => {
            let member = if shape.unique { format!("v{}", chance.below(64)) } else { value(chance) };
            Call::Remove(member)
        }
        ObjectKind::Set if shape.unique => Call::Add(format!("v{}", count % 64)),
        ObjectKind::Set => Call::Add(value(chance)),
        ObjectKind::List if chance.percent(50) => Call::Pop,
        ObjectKind::List => Call::Push(value(chance)),
        ObjectKind::Transfer => {
            let account = |chance: &mut Chance| format!("a{}", chance.below(4));
            Call::Move { from: account(chance), to: account(chance), amount: 1 + chance.below(9) as i64 }
        }
    }
}

/// The state of a client in an execution.
enum Client {
    Idle,
    Invoked(usize),
    Effective(usize, Reply),
}

/// The history of an execution in which every operation takes effect at once, at some time between its
/// invocation and its completion.
fn execute(shape: Shape, chance: &mut Chance) -> Vec<Operation> {
    let mut model = Model::default();
    let mut history: Vec<Operation> = Vec::new();
    let mut clients: Vec<Client> = (0..shape.clients).map(|_| Client::Idle).collect();
    let mut postponed: Vec<usize> = Vec::new();
    let mut now_ns = 0;
    loop {
        now_ns += chance.below(2);
        if !postponed.is_empty() && chance.percent(2) {
            let index = postponed.swap_remove(chance.below(postponed.len() as u64) as usize);
            model.apply(shape.kind, &history[index].call);
        }
        let number = chance.below(shape.clients as u64) as usize;
        clients[number] = match std::mem::replace(&mut clients[number], Client::Idle) {
            Client::Idle if history.len() == shape.operations => {
                if clients.iter().all(|client| matches!(client, Client::Idle)) {
                    return history;
                }
                Client::Idle
            }
            Client::Idle => {
                history.push(Operation {
                    kind: shape.kind,
                    key: "k".into(),
                    client: number as u64,
                    node: "a".into(),
                    call: call(shape, history.len(), chance),
                    invoked_ns: now_ns,
                    ending: Ending::Unknown,
                });
                Client::Invoked(history.len() - 1)
            }
            Client::Invoked(index) if chance.percent(shape.unknown_percent) => {
                if chance.percent(20) {
                    history[index].ending = Ending::Failed;
                } else {
                    postponed.push(index);
                }
                Client::Idle
            }
            Client::Invoked(index) => {
                let reply = model.apply(shape.kind, &history[index].call);
                Client::Effective(index, reply)
            }
            Client::Effective(index, reply) => {
                let says_nothing =
                    !matches!(history[index].call, Call::Read | Call::Pop | Call::CompareAndSet { .. });
                let reply =
                    if says_nothing && (shape.unique || chance.percent(50)) { Reply::Done } else { reply };
                history[index].ending = Ending::Replied { at_ns: now_ns, reply };
                Client::Idle
            }
        };
    }
}

/// Tries every order.
fn is_linearizable(history: &[Operation], taken: &mut Vec<bool>, model: &Model) -> bool {
    let open = |taken: &[bool]| (0..history.len()).filter(|index| !taken[*index]).collect::<Vec<_>>();
    let left = open(taken);
    if left.iter().all(|index| !history[*index].is_acknowledged()) {
        return true;
    }
    left.iter().any(|&index| {
        let operation = &history[index];
        if operation.is_failed() || left.iter().any(|other| history[*other].precedes(operation)) {
            return false;
        }
        let mut after = model.clone();
        let reply = after.apply(operation.kind, &operation.call);
        let fits = operation.reply().is_none_or(|seen| *seen == reply || *seen == Reply::Done);
        taken[index] = true;
        let found = fits && is_linearizable(history, taken, &after);
        taken[index] = false;
        found
    })
}

/// Changes one reply, or exchanges two.
fn mutate(history: &mut [Operation], chance: &mut Chance) {
    let acknowledged: Vec<usize> =
        (0..history.len()).filter(|index| history[*index].is_acknowledged()).collect();
    if acknowledged.is_empty() {
        return;
    }
    let pick = |chance: &mut Chance| acknowledged[chance.below(acknowledged.len() as u64) as usize];
    let (one, other) = (pick(chance), pick(chance));
    let Ending::Replied { at_ns, reply } = history[one].ending.clone() else { return };
    let as_other =
        history[other].reply().cloned().filter(|_| history[one].call == history[other].call && one != other);
    let changed = as_other.unwrap_or_else(|| match reply {
        Reply::Done => Reply::Done,
        Reply::Value(_) => Reply::Value(chance.percent(70).then(|| format!("v{}", chance.below(7)))),
        Reply::Changed(changed) => Reply::Changed(!changed),
        Reply::Number(number) => Reply::Number(number + chance.below(3) as i64 - 1),
        Reply::Members(mut members) => {
            let member = format!("v{}", chance.below(7));
            if !members.remove(&member) {
                members.insert(member);
            }
            Reply::Members(members)
        }
        Reply::Items(mut items) => {
            if chance.percent(50) || items.is_empty() {
                items.push(format!("v{}", chance.below(7)));
            } else {
                items.remove(0);
            }
            Reply::Items(items)
        }
        Reply::Balances(mut balances) => {
            *balances.entry(format!("a{}", chance.below(4))).or_default() += 1;
            Reply::Balances(balances)
        }
    });
    history[one].ending = Ending::Replied { at_ns, reply: changed };
}

fn verdict(history: &[Operation]) -> Verdict {
    check(history, &Limits::default()).objects.first().map_or(Verdict::Linearizable, |object| object.verdict)
}

fn text(history: &[Operation]) -> String {
    history.iter().map(|operation| line(operation) + "\n").collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn true_executions_are_linearizable(seed: u64) {
        let chance = &mut Chance(seed);
        let shape = Shape {
            kind: KINDS[chance.below(5) as usize],
            operations: 1 + chance.below(60) as usize,
            clients: 1 + chance.below(6) as usize,
            unique: chance.percent(50),
            unknown_percent: chance.below(12),
            read_percent: 20 + chance.below(50),
        };
        let history = execute(shape, chance);
        let report = check(&history, &Limits { steps: 100_000, ..Limits::default() });
        let is_refused = report.count_objects(|verdict| verdict == Verdict::NotLinearizable) > 0;
        prop_assert!(!is_refused && report.offence.is_none(), "{}\n{}", report, text(&history));
        prop_assert_eq!(parse(&text(&history)), Ok(history));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn small_changed_histories_get_the_verdict_of_all_orders(seed: u64) {
        let chance = &mut Chance(seed);
        let shape = Shape {
            kind: KINDS[chance.below(5) as usize],
            operations: 2 + chance.below(6) as usize,
            clients: 1 + chance.below(4) as usize,
            unique: chance.percent(60),
            unknown_percent: chance.below(30),
            read_percent: 30 + chance.below(40),
        };
        let mut history = execute(shape, chance);
        (0..=chance.below(2)).for_each(|_| mutate(&mut history, chance));
        let expected = is_linearizable(&history, &mut vec![false; history.len()], &Model::default());
        let report = check(&history, &Limits::default());
        prop_assert_eq!(report.is_linearizable(), expected, "{}\n{}", report, text(&history));
        if let Some(offence) = &report.offence {
            let part: Vec<Operation> = offence.operations.iter().map(|(_, operation)| operation.clone()).collect();
            prop_assert!(!is_linearizable(&part, &mut vec![false; part.len()], &Model::default()), "{}", report);
        }
    }
}

/// The steps of a long history, per operation.
fn steps_per_operation(shape: Shape, seed: u64) -> u64 {
    let history = execute(shape, &mut Chance(seed));
    let limits = Limits { steps: 3_000_000, ..Limits::default() };
    let report = check(&history, &limits);
    assert!(report.is_linearizable(), "seed {seed}, {:?}: {report}", shape.kind);
    report.objects[0].steps / shape.operations as u64
}

#[test]
fn long_histories_take_few_steps_per_operation() {
    // Moves are subset sums: fewer clients at a time. States of sets and lists are dear to copy in a debug
    // build.
    let clients = |kind| if kind == ObjectKind::Transfer { 8 } else { 20 };
    let operations = |kind| if matches!(kind, ObjectKind::Set | ObjectKind::List) { 2_000 } else { 10_000 };
    for (number, kind) in KINDS.into_iter().enumerate() {
        let shape = Shape {
            kind,
            operations: operations(kind),
            clients: clients(kind),
            unique: true,
            unknown_percent: u64::from(kind != ObjectKind::Transfer),
            read_percent: 40,
        };
        let steps = steps_per_operation(shape, 43 + number as u64);
        assert!(steps < 200, "{kind:?}: {steps} steps per operation");
    }
}

#[test]
fn a_stale_read_in_ten_thousand_operations_is_shown_in_a_few_lines() {
    let shape = Shape {
        kind: ObjectKind::Register,
        operations: 10_000,
        clients: 20,
        unique: true,
        unknown_percent: 1,
        read_percent: 60,
    };
    let mut history = execute(shape, &mut Chance(7));
    let reads: Vec<usize> =
        (0..10_000).filter(|index| matches!(history[*index].reply(), Some(Reply::Value(Some(_))))).collect();
    let (old, late) = (reads[100], reads[reads.len() / 2]);
    let reply = history[old].reply().cloned().unwrap();
    history[late].ending = Ending::Replied { at_ns: history[late].completed_ns(), reply };
    let report = check(&history, &Limits::default());
    assert_eq!(verdict(&history), Verdict::NotLinearizable);
    assert_eq!(report.count(AnomalyKind::StaleRead) + report.count(AnomalyKind::LostWrite), 1);
    let offence = report.offence.as_ref().unwrap();
    assert!(offence.operations.len() <= 5, "{report}");
    assert!(offence.operations.iter().any(|(index, _)| *index == late), "{report}");
}

#[test]
fn a_search_at_its_limit_is_undecided() {
    let shape = Shape {
        kind: ObjectKind::List,
        operations: 200,
        clients: 5,
        unique: true,
        unknown_percent: 0,
        read_percent: 40,
    };
    let history = execute(shape, &mut Chance(1));
    let limits = Limits { steps: 20, ..Limits::default() };
    let report = check(&history, &limits);
    assert!(matches!(report.objects[0].verdict, Verdict::Undecided(_)));
    assert!(!report.is_linearizable());
    assert!(report.to_string().contains("undecided: list \"k\""));
}
