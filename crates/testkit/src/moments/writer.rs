//! What writers send: each of its requests, or transactions, takes all of a writer's keys from one state
//! to the next at once.

use martlet_base::random::Random;

use super::{DATABASES, Element, Elements, State};

/// The work of a writer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// RENAMEs one key around a ring of names.
    Ring,
    /// Makes and deletes groups of keys, few and many, by MSET and DEL.
    Groups,
    /// Moves keys to other names by MULTI and EXEC, and by scripts: their number stays.
    Transfers,
    /// Deletes its key, then makes another: there is one, or none.
    Lone,
    /// All of that, and COPY, MOVE, SWAPDB, FLUSHDB and FLUSHALL. No other writer may be beside it.
    Everything,
}

/// Names of the largest group: a walk over more than some thousand keys is another than over fewer.
const LARGE_GROUP: usize = 1_200;

/// Takes a key to another name, and a second one if there are four: with no keys declared but the first.
const MOVE_SCRIPT: &str =
    "for i = 1, #ARGV, 2 do redis.call('del', ARGV[i]); redis.call('set', ARGV[i + 1], 'v') end";

/// A request as its words.
pub(super) type Request = Vec<String>;

/// A writer's next step.
pub(super) struct Step {
    /// One request, or those of a transaction.
    pub requests: Vec<Request>,
    /// The same for people.
    pub text: String,
}

/// A writer's plan: its elements, and in which state they are.
pub(super) struct Hand {
    kind: Kind,
    /// Its elements are from this one on.
    first: usize,
    elements: Vec<Element>,
    pub state: State,
    random: Random,
}

fn words(line: &str) -> Request {
    line.split(' ').map(str::to_owned).collect()
}

impl Hand {
    /// A writer whose elements get the bits from `first` on.
    pub fn new(kind: Kind, first: usize, seed: u64) -> Hand {
        let singles =
            |label: &str, count: usize| (0..count).map(|n| Element::single(format!("{label}:{n}"))).collect();
        let groups = |label: &str| -> Vec<Element> {
            [("few", 3), ("many", LARGE_GROUP)]
                .map(|(size, count)| Element::group(format!("{label}-{size}"), count))
                .into()
        };
        let elements: Vec<Element> = match kind {
            Kind::Ring => singles("ring", 5),
            Kind::Groups => groups("group"),
            Kind::Transfers => singles("transfer", 8),
            Kind::Lone => singles("lone", 4),
            Kind::Everything => {
                [singles("any", 8), groups("any"), vec![Element::group("stay", 200)]].concat()
            }
        };
        let begin: Elements = match kind {
            Kind::Ring | Kind::Lone => 1,
            Kind::Groups => 0,
            Kind::Transfers => 0b1111,
            Kind::Everything => 1 << (elements.len() - 1) | 0b101,
        };
        let mut state = State::default();
        state.0[0] = begin << first;
        Hand { kind, first, elements, state, random: Random::seeded(seed) }
    }

    /// Its elements, the first of which has its first bit.
    pub fn elements(&self) -> &[Element] {
        &self.elements
    }

    /// The requests that make its first state.
    pub fn begin(&self) -> Vec<Request> {
        self.set(self.state.0[0])
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn bit(&self, at: usize) -> Elements {
        1 << (self.first + at)
    }

    fn names(&self, elements: Elements) -> Vec<String> {
        let wanted = (0..self.elements.len()).filter(|at| elements & self.bit(*at) != 0);
        wanted.flat_map(|at| self.elements[at].names.iter().cloned()).collect()
    }

    fn set(&self, elements: Elements) -> Vec<Request> {
        let names = self.names(elements);
        if names.is_empty() {
            return Vec::new();
        }
        let pairs = names.into_iter().flat_map(|name| [name, "v".to_owned()]);
        vec![std::iter::once("MSET".to_owned()).chain(pairs).collect()]
    }

    fn delete(&self, elements: Elements) -> Request {
        std::iter::once("DEL".to_owned()).chain(self.names(elements)).collect()
    }

    /// One of its elements that is in the first database, or is not.
    fn any(&mut self, is_there: bool, among: usize) -> Option<usize> {
        let there = self.state.0[0];
        let fitting: Vec<usize> = (0..among).filter(|at| (there & self.bit(*at) != 0) == is_there).collect();
        let at = (!fitting.is_empty()).then(|| self.below(fitting.len()))?;
        Some(fitting[at])
    }

    /// The next step, after which [`Hand::state`] is the next state.
    pub fn step(&mut self) -> Step {
        let requests = match self.kind {
            Kind::Ring => self.rename(5),
            Kind::Groups => self.toggle(),
            Kind::Transfers => self.transfer(),
            Kind::Lone => self.lone(),
            Kind::Everything => self.anything(),
        };
        let short = |request: &Request| {
            let shown = request.iter().take(6).cloned().collect::<Vec<_>>().join(" ");
            if request.len() > 6 { format!("{shown} …") } else { shown }
        };
        let text = requests.iter().map(short).collect::<Vec<_>>().join("; ");
        Step { requests, text }
    }

    fn rename(&mut self, among: usize) -> Vec<Request> {
        let (Some(from), to) = (self.any(true, among), self.below(among)) else { return self.toggle() };
        let (old, new) = (&self.elements[from].names[0], &self.elements[to].names[0]);
        let request = words(&format!("RENAME {old} {new}"));
        self.state.0[0] = self.state.0[0] & !self.bit(from) | self.bit(to);
        vec![request]
    }

    /// Makes or deletes one element, or two together.
    fn toggle(&mut self) -> Vec<Request> {
        let (one, other) = (self.below(self.elements.len()), self.below(self.elements.len()));
        let chosen = self.bit(one) | self.bit(other);
        if self.below(2) == 0 {
            self.state.0[0] |= chosen;
            return self.set(chosen);
        }
        self.state.0[0] &= !chosen;
        vec![self.delete(chosen)]
    }

    fn transfer(&mut self) -> Vec<Request> {
        let mut moves = Vec::new();
        for _ in 0..1 + self.below(2) {
            if let (Some(from), Some(to)) = (self.any(true, 8), self.any(false, 8)) {
                self.state.0[0] ^= self.bit(from) | self.bit(to);
                moves.push([from, to].map(|at| self.elements[at].names[0].clone()));
            }
        }
        if self.below(3) == 0 {
            let mut request: Request = ["EVAL", MOVE_SCRIPT, "1"].map(str::to_owned).to_vec();
            request.push(moves[0][0].clone());
            request.extend(moves.into_iter().flatten());
            return vec![request];
        }
        let queued = moves.iter().flat_map(|[from, to]| [format!("DEL {from}"), format!("SET {to} v")]);
        in_transaction(queued.map(|line| words(&line)).collect())
    }

    fn lone(&mut self) -> Vec<Request> {
        match self.any(true, 4) {
            Some(at) => {
                self.state.0[0] = 0;
                vec![words(&format!("DEL {}", self.elements[at].names[0]))]
            }
            None => {
                let at = self.below(4);
                self.state.0[0] = self.bit(at);
                vec![words(&format!("SET {} v", self.elements[at].names[0]))]
            }
        }
    }

    fn anything(&mut self) -> Vec<Request> {
        if self.below(6) == 0 {
            let queued = (0..2).flat_map(|_| self.one_thing()).collect();
            return in_transaction(queued);
        }
        self.one_thing()
    }

    fn one_thing(&mut self) -> Vec<Request> {
        match self.below(100) {
            0 => {
                self.state = State::default();
                vec![words("FLUSHALL")]
            }
            1 => {
                self.state.0[0] = 0;
                vec![words("FLUSHDB")]
            }
            2..8 => {
                self.state.0.swap(0, 1);
                vec![words("SWAPDB 0 1")]
            }
            // The group that mostly stays, so that iterations have something that was there throughout.
            8..16 => {
                let stay = self.bit(self.elements.len() - 1);
                self.state.0[0] |= stay;
                self.set(stay)
            }
            16..24 => self.move_or_copy(),
            24..60 => self.rename(8),
            _ => self.toggle_but_the_last(),
        }
    }

    /// To the second database.
    fn move_or_copy(&mut self) -> Vec<Request> {
        let Some(at) = self.any(true, 8) else { return self.toggle_but_the_last() };
        let (bit, name) = (self.bit(at), &self.elements[at].names[0]);
        if self.state.0[1] & bit != 0 {
            return vec![words(&format!("COPY {name} {name} DB 1 REPLACE"))];
        }
        let request = words(&format!("MOVE {name} 1"));
        self.state.0[0] &= !bit;
        self.state.0[1] |= bit;
        vec![request]
    }

    fn toggle_but_the_last(&mut self) -> Vec<Request> {
        let stays = self.elements.pop();
        let requests = self.toggle();
        self.elements.extend(stays);
        requests
    }
}

fn in_transaction(queued: Vec<Request>) -> Vec<Request> {
    std::iter::once(words("MULTI")).chain(queued).chain(std::iter::once(words("EXEC"))).collect()
}

const _: () = assert!(DATABASES == 2, "SWAPDB and MOVE name both");
