//! HOTKEYS: the keys that take most of the time, and most of the network.
//!
//! A session counts the cost of commands and shares it out among their keys. Each thread counts for itself,
//! so that sessions cost no thread another's cache lines; GET adds up. Per metric a thread follows a bounded
//! number of keys by the Space-Saving algorithm: a key that is not followed takes the place of the one with
//! the least, and the weight of that one is its error, which is not shown. So no key is shown with more than
//! its cost.
//!
//! Invariant: while no session is active no request comes here.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use martlet_base::random::Random;
use martlet_base::sync::lock;

use crate::process::{CpuTime, Whose, cpu_time};

/// Keys that are followed for each that is shown.
const FOLLOWED_PER_KEY: usize = 100;
/// Longer keys are not followed.
const KEY_MAX_BYTES: usize = 64 << 10;

/// The options of a session.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SessionOptions {
    /// Time of commands.
    pub cpu: bool,
    /// Bytes of requests and replies.
    pub net: bool,
    /// Keys that are shown.
    pub count: usize,
    /// After how long it ends by itself; 0 for never.
    pub duration_ms: i64,
    /// One in this number of commands is counted for its keys.
    pub sample_ratio: u32,
}

/// A session: how it began and ended.
#[derive(Copy, Clone, Debug)]
struct Session {
    options: SessionOptions,
    began_ms: i64,
    cpu_at_start: CpuTime,
    /// How long it took, once it has ended.
    took_ms: Option<i64>,
}

/// What commands have cost.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Nanoseconds of all commands that name keys.
    pub ns: u64,
    /// Bytes of all commands that name keys.
    pub bytes: u64,
    /// Bytes of those that were counted for their keys.
    pub counted_bytes: u64,
}

/// The counts of one thread.
struct Part {
    options: Option<SessionOptions>,
    totals: Totals,
    by_ns: Heaviest,
    by_bytes: Heaviest,
    random: Random,
}

/// The content of HOTKEYS GET.
#[derive(Debug)]
pub struct Report {
    /// Whether it still counts.
    pub is_active: bool,
    /// Its options.
    pub options: SessionOptions,
    /// When it began, Unix milliseconds.
    pub began_ms: i64,
    /// How long it has counted.
    pub took_ms: i64,
    /// The process' time since then.
    pub cpu: CpuTime,
    /// What commands have cost.
    pub totals: Totals,
    /// Keys and nanoseconds, the most first.
    pub by_ns: Vec<(Box<[u8]>, u64)>,
    /// Keys and bytes, the most first.
    pub by_bytes: Vec<(Box<[u8]>, u64)>,
}

/// See the [module docs](self).
pub struct HotKeys {
    is_active: AtomicBool,
    /// Locked before any part.
    session: Mutex<Option<Session>>,
    parts: Box<[Mutex<Part>]>,
}

impl HotKeys {
    /// No session yet, of `threads` threads.
    pub fn new(threads: usize, random: &mut Random) -> HotKeys {
        let part = |seed| {
            Mutex::new(Part {
                options: None,
                totals: Totals::default(),
                by_ns: Heaviest::default(),
                by_bytes: Heaviest::default(),
                random: Random::seeded(seed),
            })
        };
        HotKeys {
            is_active: AtomicBool::new(false),
            session: Mutex::default(),
            parts: (0..threads).map(|_| part(random.next_u64())).collect(),
        }
    }

    /// Whether a session counts.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Acquire)
    }

    /// Whether there is a session, active or with results that have not been forgotten.
    pub fn has_session(&self) -> bool {
        lock(&self.session).is_some()
    }

    /// Begins a session in place of the one before; false if that is still active.
    pub fn start(&self, options: SessionOptions, now_ms: i64) -> bool {
        let mut session = lock(&self.session);
        if self.is_active() {
            return false;
        }
        for part in &self.parts {
            lock(part).begin(Some(options));
        }
        let cpu_at_start = cpu_time(Whose::Process);
        *session = Some(Session { options, began_ms: now_ms, cpu_at_start, took_ms: None });
        self.is_active.store(true, Ordering::Release);
        true
    }

    /// Ends the session; whether one was active.
    pub fn stop(&self, now_ms: i64) -> bool {
        let mut session = lock(&self.session);
        let Some(session) = session.as_mut().filter(|session| session.took_ms.is_none()) else {
            return false;
        };
        session.took_ms = Some(now_ms - session.began_ms);
        self.is_active.store(false, Ordering::Release);
        true
    }

    /// Ends a session whose time is over; whether it did.
    pub fn stop_if_due(&self, now_ms: i64) -> bool {
        if !self.is_active() {
            return false;
        }
        let is_due = lock(&self.session).is_some_and(|session| {
            let duration_ms = session.options.duration_ms;
            duration_ms > 0 && now_ms - session.began_ms >= duration_ms
        });
        is_due && self.stop(now_ms)
    }

    /// Forgets the session; false if it is still active.
    pub fn reset(&self) -> bool {
        let mut session = lock(&self.session);
        if self.is_active() {
            return false;
        }
        for part in &self.parts {
            lock(part).begin(None);
        }
        *session = None;
        true
    }

    /// Counts a command of a thread that names these keys.
    pub fn count(&self, thread: usize, keys: &[&[u8]], ns: u64, bytes: u64) {
        // Workers that serve no clients have no part.
        if let Some(part) = self.parts.get(thread).filter(|_| !keys.is_empty()) {
            lock(part).count(keys, ns, bytes);
        }
    }

    /// The findings; `None` without a session.
    pub fn report(&self, now_ms: i64) -> Option<Report> {
        let session = (*lock(&self.session))?;
        let cpu = cpu_time(Whose::Process);
        let mut totals = Totals::default();
        let (mut by_ns, mut by_bytes) = (HashMap::new(), HashMap::new());
        for part in &self.parts {
            let part = lock(part);
            totals.ns += part.totals.ns;
            totals.bytes += part.totals.bytes;
            totals.counted_bytes += part.totals.counted_bytes;
            part.by_ns.add_to(&mut by_ns);
            part.by_bytes.add_to(&mut by_bytes);
        }
        let count = session.options.count;
        Some(Report {
            is_active: session.took_ms.is_none(),
            options: session.options,
            began_ms: session.began_ms,
            took_ms: session.took_ms.unwrap_or(now_ms - session.began_ms),
            cpu: CpuTime {
                system_s: cpu.system_s - session.cpu_at_start.system_s,
                user_s: cpu.user_s - session.cpu_at_start.user_s,
            },
            totals,
            by_ns: most(by_ns, count),
            by_bytes: most(by_bytes, count),
        })
    }
}

/// The `count` keys with the most, the most first.
fn most(all: HashMap<Box<[u8]>, u64>, count: usize) -> Vec<(Box<[u8]>, u64)> {
    let mut all: Vec<_> = all.into_iter().filter(|(_, weight)| *weight > 0).collect();
    all.sort_unstable_by(|(a, weight_a), (b, weight_b)| weight_b.cmp(weight_a).then_with(|| a.cmp(b)));
    all.truncate(count);
    all
}

impl Part {
    fn begin(&mut self, options: Option<SessionOptions>) {
        let followed = options.map_or(0, |options| options.count * FOLLOWED_PER_KEY);
        self.options = options;
        self.totals = Totals::default();
        self.by_ns = Heaviest::new(followed);
        self.by_bytes = Heaviest::new(followed);
    }

    fn count(&mut self, keys: &[&[u8]], ns: u64, bytes: u64) {
        let Some(options) = self.options else { return };
        self.totals.ns += ns;
        self.totals.bytes += bytes;
        if options.sample_ratio > 1 && self.random.below(u64::from(options.sample_ratio)) != 0 {
            return;
        }
        let (ns, bytes) = (ns / keys.len() as u64, bytes / keys.len() as u64);
        for key in keys {
            if options.cpu {
                self.by_ns.add(key, ns);
            }
            if options.net {
                self.by_bytes.add(key, bytes);
                self.totals.counted_bytes += bytes;
            }
        }
    }
}

/// A key that is followed.
#[derive(Debug)]
struct Followed {
    key: Box<[u8]>,
    /// Its cost, with `error`.
    weight: u64,
    /// The weight of the key that was followed in this place before.
    error: u64,
}

/// The keys with the most, as far as a bounded table can tell.
#[derive(Debug, Default)]
struct Heaviest {
    limit: usize,
    followed: Vec<Followed>,
    places: HashMap<Box<[u8]>, usize>,
    /// Weights and places, the least first.
    by_weight: BTreeSet<(u64, usize)>,
}

impl Heaviest {
    fn new(limit: usize) -> Heaviest {
        Heaviest { limit, ..Heaviest::default() }
    }

    fn add(&mut self, key: &[u8], weight: u64) {
        if weight == 0 || key.len() > KEY_MAX_BYTES {
            return;
        }
        let place = match self.places.get(key) {
            Some(place) => *place,
            None => self.follow(key),
        };
        let Some(followed) = self.followed.get_mut(place) else { return };
        self.by_weight.remove(&(followed.weight, place));
        followed.weight += weight;
        self.by_weight.insert((followed.weight, place));
    }

    /// Gives a key a place, that of the one with the least if none is left.
    fn follow(&mut self, key: &[u8]) -> usize {
        let place = if self.followed.len() < self.limit {
            self.followed.push(Followed { key: key.into(), weight: 0, error: 0 });
            self.followed.len() - 1
        } else {
            let Some(&(_, place)) = self.by_weight.first() else { return usize::MAX };
            if let Some(followed) = self.followed.get_mut(place) {
                self.places.remove(&followed.key);
                (followed.key, followed.error) = (key.into(), followed.weight);
            }
            place
        };
        self.places.insert(key.into(), place);
        place
    }

    fn add_to(&self, all: &mut HashMap<Box<[u8]>, u64>) {
        for followed in &self.followed {
            *all.entry(followed.key.clone()).or_default() += followed.weight - followed.error;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: SessionOptions =
        SessionOptions { cpu: true, net: true, count: 3, duration_ms: 0, sample_ratio: 1 };

    fn hot_keys() -> HotKeys {
        HotKeys::new(2, &mut Random::seeded(1))
    }

    fn names(keys: &[(Box<[u8]>, u64)]) -> Vec<(&str, u64)> {
        keys.iter().map(|(key, weight)| (std::str::from_utf8(key).unwrap(), *weight)).collect()
    }

    #[test]
    fn what_threads_counted_is_added_up() {
        let keys = hot_keys();
        assert!(keys.report(0).is_none() && !keys.stop(0));
        assert!(keys.start(ALL, 1_000) && !keys.start(ALL, 1_000) && !keys.reset());
        keys.count(0, &[b"a"], 10, 100);
        keys.count(1, &[b"a", b"b"], 4, 41);
        keys.count(1, &[b"c"], 1, 500);
        keys.count(1, &[], 1, 1);
        keys.count(7, &[b"c"], 1, 1);
        let report = keys.report(3_000).unwrap();
        assert_eq!(names(&report.by_ns), [("a", 12), ("b", 2), ("c", 1)]);
        assert_eq!(names(&report.by_bytes), [("c", 500), ("a", 120), ("b", 20)]);
        assert_eq!(report.totals, Totals { ns: 15, bytes: 641, counted_bytes: 640 });
        assert_eq!((report.is_active, report.took_ms), (true, 2_000));
        assert!(keys.stop(4_000) && !keys.stop(5_000));
        let report = keys.report(9_000).unwrap();
        assert_eq!((report.is_active, report.took_ms), (false, 3_000));
        assert!(keys.start(ALL, 9_000));
        assert_eq!(keys.report(9_000).unwrap().totals, Totals::default());
        assert!(keys.stop(9_000) && keys.reset() && keys.report(9_000).is_none());
    }

    #[test]
    fn a_session_ends_when_its_time_is_over() {
        let keys = hot_keys();
        assert!(keys.start(SessionOptions { duration_ms: 500, ..ALL }, 1_000));
        assert!(!keys.stop_if_due(1_499) && keys.stop_if_due(1_500) && !keys.stop_if_due(1_500));
        assert!(!keys.is_active());
    }

    #[test]
    fn a_sample_is_about_as_large_as_asked_for() {
        let keys = hot_keys();
        assert!(keys.start(SessionOptions { sample_ratio: 10, ..ALL }, 0));
        (0..10_000).for_each(|_| keys.count(0, &[b"k"], 1, 1));
        let report = keys.report(0).unwrap();
        assert_eq!(report.totals.ns, 10_000);
        assert!((800..1_200).contains(&report.by_ns[0].1), "{:?}", report.by_ns);
    }

    /// Space-Saving against exact counts: no key is shown with more than its cost, and a key with more than
    /// its share of the table is there.
    #[test]
    fn heavy_keys_are_found_among_many() {
        let mut random = Random::seeded(5);
        let mut heaviest = Heaviest::new(100);
        let mut exact: HashMap<Box<[u8]>, u64> = HashMap::new();
        let mut total = 0;
        for _ in 0..100_000 {
            let number = if random.below(2) == 0 { random.below(10) } else { 10 + random.below(20_000) };
            let key = number.to_string().into_bytes();
            let weight = random.below(5);
            heaviest.add(&key, weight);
            *exact.entry(key.into()).or_default() += weight;
            total += weight;
        }
        let mut found = HashMap::new();
        heaviest.add_to(&mut found);
        assert_eq!(heaviest.followed.len(), 100);
        assert!(found.iter().all(|(key, weight)| *weight <= exact[key]));
        let is_heavy = |weight: u64| weight > total / 100;
        assert!(
            exact.iter().filter(|(_, weight)| is_heavy(**weight)).all(|(key, _)| found.contains_key(key))
        );
        let told = most(found, 10);
        assert!(told.iter().all(|(key, _)| key.len() == 1), "{:?}", names(&told));
    }

    #[test]
    fn what_is_too_long_is_not_followed() {
        let mut heaviest = Heaviest::new(2);
        heaviest.add(&vec![b'x'; KEY_MAX_BYTES + 1], 5);
        Heaviest::new(0).add(b"k", 5);
        assert!(heaviest.followed.is_empty());
    }
}
