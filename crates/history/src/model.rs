//! The sequential objects: states, and the effect of a call on them. States are values; a call that
//! contradicts its reply yields no state.

use crate::record::{Call, ObjectKind, Reply};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// A state of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    Register(Option<Rc<str>>),
    Counter(i128),
    Set(Rc<BTreeSet<String>>),
    List(Rc<VecDeque<String>>),
    /// Accounts with balance 0 are absent.
    Transfer(Rc<BTreeMap<String, i128>>),
}

impl State {
    /// The state before every operation.
    pub(crate) fn initial(kind: ObjectKind) -> State {
        match kind {
            ObjectKind::Register => State::Register(None),
            ObjectKind::Counter => State::Counter(0),
            ObjectKind::Set => State::Set(Rc::default()),
            ObjectKind::List => State::List(Rc::default()),
            ObjectKind::Transfer => State::Transfer(Rc::default()),
        }
    }

    /// The state after `call`; `None` if `reply` contradicts it. Without a reply nothing contradicts.
    pub(crate) fn after(&self, call: &Call, reply: Option<&Reply>) -> Option<State> {
        let fits = |expected: Reply| reply.is_none_or(|reply| *reply == expected || *reply == Reply::Done);
        match (self, call) {
            (_, Call::Read) => reply.is_none_or(|reply| self.equals(reply)).then(|| self.clone()),
            (State::Register(_), Call::Write(value)) => Some(State::Register(Some(value.as_str().into()))),
            (State::Register(value), Call::CompareAndSet { expected, new }) => {
                let changes = value.as_deref() == expected.as_deref();
                let after = if changes { State::Register(Some(new.as_str().into())) } else { self.clone() };
                fits(Reply::Changed(changes)).then_some(after)
            }
            (State::Counter(value), Call::Increment(by)) => {
                let sum = value + i128::from(*by);
                let agrees = match reply {
                    Some(Reply::Number(number)) => i128::from(*number) == sum,
                    _ => true,
                };
                agrees.then_some(State::Counter(sum))
            }
            (State::Set(members), Call::Add(member)) => {
                let changes = !members.contains(member);
                fits(Reply::Changed(changes))
                    .then(|| self.with_members(changes, |all| _ = all.insert(member.clone())))
            }
            (State::Set(members), Call::Remove(member)) => {
                let changes = members.contains(member);
                fits(Reply::Changed(changes))
                    .then(|| self.with_members(changes, |all| _ = all.remove(member)))
            }
            (State::List(items), Call::Push(item)) => {
                fits(Reply::Number(items.len() as i64 + 1)).then(|| {
                    let mut items = (**items).clone();
                    items.push_back(item.clone());
                    State::List(Rc::new(items))
                })
            }
            (State::List(items), Call::Pop) => fits(Reply::Value(items.front().cloned())).then(|| {
                let mut items = (**items).clone();
                items.pop_front();
                State::List(Rc::new(items))
            }),
            (State::Transfer(_), Call::Open(balances)) => {
                let balances = balances.iter().filter(|(_, balance)| **balance != 0);
                let balances = balances.map(|(account, balance)| (account.clone(), i128::from(*balance)));
                Some(State::Transfer(Rc::new(balances.collect())))
            }
            (State::Transfer(balances), Call::Move { from, to, amount }) => {
                let mut balances = (**balances).clone();
                for (account, change) in [(from, -i128::from(*amount)), (to, i128::from(*amount))] {
                    let balance = balances.entry(account.clone()).or_default();
                    *balance += change;
                    if *balance == 0 {
                        balances.remove(account);
                    }
                }
                Some(State::Transfer(Rc::new(balances)))
            }
            _ => None,
        }
    }

    fn with_members(&self, changes: bool, change: impl FnOnce(&mut BTreeSet<String>)) -> State {
        match self {
            State::Set(members) if changes => {
                let mut members = (**members).clone();
                change(&mut members);
                State::Set(Rc::new(members))
            }
            _ => self.clone(),
        }
    }

    /// Whether a read's reply shows this state.
    fn equals(&self, reply: &Reply) -> bool {
        match (self, reply) {
            (State::Register(value), Reply::Value(seen)) => value.as_deref() == seen.as_deref(),
            (State::Counter(value), Reply::Number(seen)) => *value == i128::from(*seen),
            (State::Set(members), Reply::Members(seen)) => **members == *seen,
            (State::List(items), Reply::Items(seen)) => **items == *seen,
            (State::Transfer(_), Reply::Balances(seen)) => self.distance(seen) == 0,
            _ => false,
        }
    }

    /// Whether `call` brings the state nearer to the one that a read saw; the search tries such calls
    /// first.
    pub(crate) fn approaches(&self, call: &Call, seen: &Reply) -> bool {
        match (self, call, seen) {
            (State::Register(_), Call::Write(value), Reply::Value(seen)) => seen.as_ref() == Some(value),
            (State::Register(_), Call::CompareAndSet { new, .. }, Reply::Value(seen)) => {
                seen.as_ref() == Some(new)
            }
            (State::Counter(value), Call::Increment(by), Reply::Number(seen)) => {
                (value + i128::from(*by)).abs_diff(i128::from(*seen)) < value.abs_diff(i128::from(*seen))
            }
            (State::Set(members), Call::Add(member), Reply::Members(seen)) => {
                seen.contains(member) && !members.contains(member)
            }
            (State::Set(members), Call::Remove(member), Reply::Members(seen)) => {
                !seen.contains(member) && members.contains(member)
            }
            (State::List(items), Call::Push(item), Reply::Items(seen)) => seen.get(items.len()) == Some(item),
            (State::List(items), Call::Pop, Reply::Items(seen)) => items.front() != seen.first(),
            (State::Transfer(_), _, Reply::Balances(seen)) => {
                let after = self.after(call, None);
                after.is_some_and(|after| after.distance(seen) < self.distance(seen))
            }
            _ => false,
        }
    }

    /// The sum of the differences of all balances.
    fn distance(&self, seen: &BTreeMap<String, i64>) -> u128 {
        let State::Transfer(balances) = self else { return u128::MAX };
        let accounts = balances.keys().chain(seen.keys().filter(|account| !balances.contains_key(*account)));
        let differences = accounts.map(|account| {
            let seen = seen.get(account).copied().unwrap_or_default();
            balances.get(account).copied().unwrap_or_default().abs_diff(i128::from(seen))
        });
        differences.fold(0, u128::saturating_add)
    }
}
