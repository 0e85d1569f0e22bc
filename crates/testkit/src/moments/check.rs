//! The check of a history.
//!
//! A writer's keys were in the state after its request n from some instant within that request to some
//! instant within the next one. So at an instant M they may have been in every state whose request had
//! begun by M and whose next request had not ended before M. A read is right if, at some M between its
//! request and its reply, some combination of the writers' possible states is what it says. It is enough
//! to look at those M where a request begins or ends, and at both ends of the read: in between no further
//! state is possible. And of two reads of which one ended before the other began, the later one may not
//! see an older state of a writer.
//!
//! An iteration of SCAN is no moment: every name that was there throughout is returned, and no name that
//! was there at no time.

use std::fmt;

use super::{DATABASES, Element, Elements, History, Read, Seen, Span, State, Write, Writer};

/// Lines of writes that a violation shows for each writer.
const SHOWN_WRITES_MAX: usize = 8;

/// A read for which there is no explanation, as a short history.
#[derive(Clone, Debug)]
pub struct Violation(String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The reads that no course of events explains.
pub fn check(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut explained = Vec::new();
    for read in &history.reads {
        match Explanation::of(history, read) {
            Ok(Some(explanation)) => explained.push((read, explanation)),
            Ok(None) => {}
            Err(why) => violations.push(show(history, read, &why)),
        }
    }
    for writer in 0..history.writers.len() {
        violations.extend(going_back(history, &explained, writer));
    }
    violations
}

/// Of each writer, the first and the last state in which its keys may have been at a read.
struct Explanation(Vec<(usize, usize)>);

impl Explanation {
    /// Looks for an explanation; `Ok(None)` of an iteration of SCAN, which has no moment.
    fn of(history: &History, read: &Read) -> Result<Option<Explanation>, String> {
        match &read.seen {
            Seen::Impossible(_) => return Err("no state at all has that".to_owned()),
            Seen::Iteration { db, whole, some } => {
                return check_iteration(history, read.span, *db, *whole, *some).map(|()| None);
            }
            _ => {}
        }
        let mut found: Option<Explanation> = None;
        for at_ns in moments(history, read.span) {
            let possible: Vec<Vec<usize>> =
                history.writers.iter().map(|writer| writer.possible_at(at_ns)).collect();
            for_each_choice(&possible, |choice| {
                let states = choice.iter().zip(&history.writers).map(|(&index, writer)| writer.state(index));
                if matches(history, &read.seen, states.fold(State::default(), State::with)) {
                    found.get_or_insert_with(|| Explanation(choice.iter().map(|&at| (at, at)).collect()));
                    for (range, &index) in found.iter_mut().flat_map(|found| &mut found.0).zip(choice) {
                        *range = (range.0.min(index), range.1.max(index));
                    }
                }
            });
        }
        found.map(Some).ok_or_else(|| "no moment has that".to_owned())
    }
}

impl Writer {
    /// The state after this many of its writes.
    fn state(&self, index: usize) -> State {
        index.checked_sub(1).map_or(self.begin, |last| self.writes[last].after)
    }

    /// Number of writes begun by this time.
    fn begun(&self, at_ns: u64) -> usize {
        self.writes.partition_point(|write| write.span.began_ns <= at_ns)
    }

    /// Number of writes ended before this time.
    fn ended(&self, at_ns: u64) -> usize {
        self.writes.partition_point(|write| write.span.ended_ns < at_ns)
    }

    /// The states in which its keys may have been at an instant, by the number of writes before.
    fn possible_at(&self, at_ns: u64) -> Vec<usize> {
        (self.ended(at_ns)..=self.begun(at_ns)).collect()
    }
}

/// The instants of a read that are to be looked at.
fn moments(history: &History, Span { began_ns, ended_ns }: Span) -> Vec<u64> {
    let ends = |writer: &'_ Writer| {
        let under_way = writer.writes[writer.ended(began_ns)..writer.begun(ended_ns)].to_vec();
        under_way.into_iter().flat_map(|write: Write| [write.span.began_ns, write.span.ended_ns])
    };
    let within = |at_ns: &u64| (began_ns..=ended_ns).contains(at_ns);
    let mut all: Vec<u64> = history.writers.iter().flat_map(ends).filter(within).collect();
    all.extend([began_ns, ended_ns]);
    all.sort_unstable();
    all.dedup();
    all
}

/// Calls `work` with each choice of one item of every list.
fn for_each_choice(lists: &[Vec<usize>], mut work: impl FnMut(&[usize])) {
    let mut at = vec![0; lists.len()];
    if lists.iter().any(Vec::is_empty) {
        return;
    }
    loop {
        let choice: Vec<usize> = at.iter().zip(lists).map(|(&at, list)| list[at]).collect();
        work(&choice);
        let Some(next) = (0..lists.len()).find(|&list| at[list] + 1 < lists[list].len()) else { return };
        at[next] += 1;
        at[..next].fill(0);
    }
}

/// Whether a correct server may send this reply in this state.
fn matches(history: &History, seen: &Seen, state: State) -> bool {
    let count = |db: usize| -> usize { items(state.0[db]).map(|at| history.elements[at].names.len()).sum() };
    match seen {
        Seen::Names { db, asked, whole, some } => whole == some && state.0[*db] & asked == *whole,
        Seen::Among(db, found) => found & !state.0[*db] == 0,
        Seen::Count(db, keys) => count(*db) == *keys,
        Seen::Total(keys) => (0..DATABASES).map(count).sum::<usize>() == *keys,
        Seen::Counts(keys) => (0..DATABASES).all(|db| count(db) == keys[db]),
        Seen::Random(db, None) => state.0[*db] == 0,
        Seen::Random(db, Some(element)) => state.0[*db] & element != 0,
        Seen::Digest(text) => history.digests.as_ref().is_none_or(|digests| digests.of(state) == *text),
        Seen::Iteration { .. } | Seen::Impossible(_) => false,
    }
}

fn items(elements: Elements) -> impl Iterator<Item = usize> {
    (0..Elements::BITS as usize).filter(move |at| elements >> at & 1 == 1)
}

fn check_iteration(
    history: &History,
    Span { began_ns, ended_ns }: Span,
    db: usize,
    whole: Elements,
    some: Elements,
) -> Result<(), String> {
    let (mut throughout, mut ever) = (0, 0);
    for writer in &history.writers {
        let states = (writer.ended(began_ns)..=writer.begun(ended_ns)).map(|at| writer.state(at).0[db]);
        throughout |= states.clone().fold(Elements::MAX, |all, state| all & state);
        ever |= states.fold(0, |all, state| all | state);
    }
    let labels = |elements| names(&history.elements, elements);
    match (throughout & !whole, some & !ever) {
        (0, 0) => Ok(()),
        (0, ghosts) => Err(format!("was never there: {}", labels(ghosts))),
        (missing, _) => {
            Err(format!("was there throughout, and is missing in part or whole: {}", labels(missing)))
        }
    }
}

/// Reads of which an earlier one has seen a later state of the writer.
fn going_back(history: &History, explained: &[(&Read, Explanation)], writer: usize) -> Vec<Violation> {
    let mut by_begin: Vec<&(&Read, Explanation)> = explained.iter().collect();
    by_begin.sort_by_key(|(read, _)| read.span.began_ns);
    let mut by_end = by_begin.clone();
    by_end.sort_by_key(|(read, _)| read.span.ended_ns);
    let (mut ended, mut newest): (_, Option<(usize, &Read)>) = (by_end.into_iter().peekable(), None);
    let mut violations = Vec::new();
    for (read, explanation) in by_begin {
        while let Some((earlier, seen)) = ended.next_if(|(other, _)| other.span.ended_ns < read.span.began_ns)
        {
            if newest.is_none_or(|(index, _)| index < seen.0[writer].0) {
                newest = Some((seen.0[writer].0, earlier));
            }
        }
        if let Some((index, earlier)) = newest
            && explanation.0[writer].1 < index
        {
            let why = format!("an earlier reply had a later state: {}", line(history, earlier));
            violations.push(show(history, read, &why));
        }
    }
    violations
}

fn names(elements: &[Element], wanted: Elements) -> String {
    let labels: Vec<&str> =
        items(wanted).filter_map(|at| elements.get(at)).map(|e| e.label.as_str()).collect();
    if labels.is_empty() { "nothing".to_owned() } else { labels.join(" ") }
}

fn state_text(elements: &[Element], state: State) -> String {
    let dbs = (0..DATABASES).map(|db| format!("db{db} {}", names(elements, state.0[db])));
    dbs.collect::<Vec<_>>().join(", ")
}

/// A reply as text.
fn seen_text(elements: &[Element], seen: &Seen) -> String {
    let names = |of| names(elements, of);
    match seen {
        Seen::Names { whole, some, .. } | Seen::Iteration { whole, some, .. } => match some & !whole {
            0 => names(*whole),
            part => format!("{}, and parts of {}", names(*whole), names(part)),
        },
        Seen::Among(_, found) => names(*found),
        Seen::Count(_, keys) | Seen::Total(keys) => keys.to_string(),
        Seen::Counts(keys) => format!("{keys:?}"),
        Seen::Random(_, found) => found.map_or_else(|| "nil".to_owned(), names),
        Seen::Digest(text) | Seen::Impossible(text) => text.clone(),
    }
}

fn line(history: &History, read: &Read) -> String {
    let Span { began_ns, ended_ns } = read.span;
    format!("{began_ns}..{ended_ns} {} → {}", read.request, seen_text(&history.elements, &read.seen))
}

/// A read with the writes beside it, in nanoseconds.
fn show(history: &History, read: &Read, why: &str) -> Violation {
    let mut text = format!("{}: {why}", line(history, read));
    for (number, writer) in history.writers.iter().enumerate() {
        let (first, last) = (writer.ended(read.span.began_ns), writer.begun(read.span.ended_ns));
        let before = state_text(&history.elements, writer.state(first));
        text.push_str(&format!("\n  writer {number}: {before}"));
        for write in writer.writes[first..last].iter().take(SHOWN_WRITES_MAX) {
            let Span { began_ns, ended_ns } = write.span;
            let after = state_text(&history.elements, write.after);
            text.push_str(&format!("\n    {began_ns}..{ended_ns} {} → {after}", write.request));
        }
        if last - first > SHOWN_WRITES_MAX {
            text.push_str(&format!("\n    and {} more", last - first - SHOWN_WRITES_MAX));
        }
    }
    Violation(text)
}

#[cfg(test)]
mod tests;
