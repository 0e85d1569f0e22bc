//! A model of N processors that share memory lines: the cost of a recorded trace of requests by their
//! number.
//!
//! A line is in the caches of those that have read it since the last write. A read elsewhere fetches it, a
//! write takes it away from all others; either takes `transfer_ns`, and a line is under way to one processor
//! at a time, so that those that want a contended line queue for it. All other work takes a request's time on
//! one processor, measured. Lines that only one recorded thread has touched (stacks, its heap, its counters)
//! are one per processor; all others are the same line everywhere.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Bytes of a line, as a shift.
pub const LINE_SHIFT: u32 = 6;
/// Requests of each processor before those that count.
const WARM_UP: usize = 50;
/// Requests of each processor that count.
const COUNTED: usize = 200;

/// An access to a line, by its number.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub line: u64,
    pub is_write: bool,
    /// The address of the instruction.
    pub code: u64,
}

/// An access to a line that several threads use: how far into its request, as a part of 1, it comes.
#[derive(Copy, Clone, Debug)]
struct Shared {
    at: f64,
    line: u64,
    is_write: bool,
    code: u64,
}

/// A line that many requests write to.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct HotLine {
    /// The part of requests that do.
    pub part: f64,
    /// The address of an instruction that does.
    pub code: u64,
}

/// Requests as seen by the lines that they share.
pub struct Workload {
    /// By recorded thread, each request's accesses.
    threads: Vec<Vec<Vec<Shared>>>,
    /// What threads in the background do for each request.
    background: Vec<Vec<Access>>,
}

/// The costs that a trace does not tell, in nanoseconds.
#[derive(Copy, Clone, Debug)]
pub struct Costs {
    /// A request on one processor.
    pub request_ns: f64,
    /// A line's way from one processor to another.
    pub transfer_ns: f64,
}

/// The rate and the cost of a number of processors.
#[derive(Copy, Clone, Debug)]
pub struct Point {
    pub processors: usize,
    /// Requests per second.
    pub rate: f64,
    /// Lines that one request fetches from other processors.
    pub transfers: f64,
    /// How many of them it waits for behind others, in nanoseconds.
    pub queued_ns: f64,
}

impl Workload {
    /// The requests of traced threads: `requests` of each of `threads`, and the accesses of the others beside
    /// them.
    pub fn new(threads: &[Vec<Access>], background: &[Vec<Access>], requests: usize) -> Workload {
        let mut users: HashMap<u64, (usize, bool)> = HashMap::new();
        for (number, accesses) in threads.iter().chain(background).enumerate() {
            for access in accesses {
                let (first, is_shared) = users.entry(access.line).or_insert((number, false));
                *is_shared |= *first != number;
            }
        }
        let is_shared = |access: &Access| users.get(&access.line).is_some_and(|(_, shared)| *shared);
        let of_thread = |accesses: &Vec<Access>| -> Vec<Vec<Shared>> {
            parts(accesses, requests)
                .map(|part| {
                    let shared = part.iter().enumerate().filter(|(_, access)| is_shared(access));
                    let at = |index: usize| index as f64 / part.len() as f64;
                    shared
                        .map(|(index, one)| Shared {
                            at: at(index),
                            line: one.line,
                            is_write: one.is_write,
                            code: one.code,
                        })
                        .collect()
                })
                .collect()
        };
        let all: Vec<Access> = background.iter().flatten().copied().filter(|one| is_shared(one)).collect();
        Workload {
            threads: threads.iter().map(of_thread).collect(),
            background: parts(&all, requests * threads.len()).map(<[Access]>::to_vec).collect(),
        }
    }

    /// Writes to shared lines per request, as recorded.
    pub fn shared_writes(&self) -> f64 {
        let requests = self.threads.iter().map(Vec::len).sum::<usize>();
        let writes = self.threads.iter().flatten().flatten().filter(|access| access.is_write).count();
        writes as f64 / requests.max(1) as f64
    }

    /// Lines by the part of requests that write to them, the most written first.
    pub fn hottest(&self, count: usize) -> Vec<HotLine> {
        let requests = self.threads.iter().map(Vec::len).sum::<usize>();
        let mut writers: HashMap<u64, (usize, u64)> = HashMap::new();
        for request in self.threads.iter().flatten() {
            let mut lines: Vec<_> = request.iter().filter(|one| one.is_write).collect();
            lines.sort_unstable_by_key(|one| one.line);
            lines.dedup_by_key(|one| one.line);
            lines.into_iter().for_each(|one| writers.entry(one.line).or_insert((0, one.code)).0 += 1);
        }
        let mut lines: Vec<_> = writers.into_iter().collect();
        lines.sort_unstable_by_key(|(line, (writers, _))| (Reverse(*writers), *line));
        let hot = |(_, (writers, code))| HotLine { part: writers as f64 / requests.max(1) as f64, code };
        lines.into_iter().take(count).map(hot).collect()
    }

    /// Runs it on a number of processors, at most 128.
    pub fn run(&self, processors: usize, costs: Costs) -> Point {
        let mut lines: HashMap<u64, Line> = HashMap::new();
        let mut states: Vec<Processor> = (0..processors).map(|_| Processor::default()).collect();
        let mut due: BinaryHeap<Reverse<(u64, usize)>> = (0..processors).map(|p| Reverse((0, p))).collect();
        let (mut transfers, mut queued_ns) = (0_u64, 0.0);
        let (mut background, mut begun_ns, mut ended_ns) = (0, f64::MAX, 0.0_f64);
        while let Some(Reverse((_, processor))) = due.pop() {
            let state = &mut states[processor];
            let request = self.request(processor, state.requests);
            let now_ns = state.next_ns(request, costs);
            if let Some(access) = request.get(state.at) {
                let line = lines.entry(access.line).or_default();
                if !line.serves(processor, access.is_write) {
                    let waited_ns = (line.free_ns - now_ns).max(0.0);
                    line.free_ns = now_ns + waited_ns + costs.transfer_ns;
                    state.delay_ns += waited_ns + costs.transfer_ns;
                    if state.requests >= WARM_UP {
                        transfers += 1;
                        queued_ns += waited_ns;
                    }
                }
                line.fetch(processor, access.is_write);
                state.at += 1;
            } else {
                let requests = state.requests + 1;
                *state = Processor { begun_ns: now_ns, requests, ..Processor::default() };
                if !self.background.is_empty() {
                    for access in &self.background[background % self.background.len()] {
                        lines.entry(access.line).or_default().fetch(Line::BACKGROUND, access.is_write);
                    }
                    background += 1;
                }
                if requests == WARM_UP {
                    begun_ns = begun_ns.min(now_ns);
                }
                if requests == WARM_UP + COUNTED {
                    ended_ns = ended_ns.max(now_ns);
                    continue;
                }
            }
            let state = &states[processor];
            let next_ns = state.next_ns(self.request(processor, state.requests), costs);
            due.push(Reverse((next_ns as u64, processor)));
        }
        let requests = (processors * COUNTED) as f64;
        Point {
            processors,
            rate: requests / (ended_ns - begun_ns) * 1e9,
            transfers: transfers as f64 / requests,
            queued_ns: queued_ns / requests,
        }
    }

    /// The request that a processor runs after this number. Those that replay one thread's are at different
    /// places of it.
    fn request(&self, processor: usize, requests: usize) -> &[Shared] {
        let recorded = &self.threads[processor % self.threads.len()];
        &recorded[(requests + processor * 7) % recorded.len()]
    }
}

/// Equal parts, as many, of accesses that one thread made.
fn parts(accesses: &[Access], count: usize) -> impl Iterator<Item = &[Access]> {
    let bound = move |at: usize| accesses.len() * at / count.max(1);
    (0..count).map(move |at| &accesses[bound(at)..bound(at + 1)]).filter(|part| !part.is_empty())
}

#[derive(Default)]
struct Processor {
    /// When its request began, and how long lines have held it up since.
    begun_ns: f64,
    delay_ns: f64,
    requests: usize,
    /// Its next access.
    at: usize,
}

impl Processor {
    /// When its next access to a shared line is, or the end of the request.
    fn next_ns(&self, request: &[Shared], costs: Costs) -> f64 {
        let part = request.get(self.at).map_or(1.0, |access| access.at);
        self.begun_ns + part * costs.request_ns + self.delay_ns
    }
}

/// Where a line is.
#[derive(Default)]
struct Line {
    /// The processors that have it, a bit each.
    holders: u128,
    /// Exactly one has it, and may write.
    is_exclusive: bool,
    /// From when on it can be fetched, in nanoseconds.
    free_ns: f64,
}

impl Line {
    /// The processor of the threads in the background.
    const BACKGROUND: usize = 127;

    /// Whether a processor needs no transfer for an access.
    fn serves(&self, processor: usize, is_write: bool) -> bool {
        self.holders == 0 || self.holders & 1 << processor != 0 && (!is_write || self.is_exclusive)
    }

    fn fetch(&mut self, processor: usize, is_write: bool) {
        if is_write || self.holders == 0 {
            self.holders = 1 << processor;
            self.is_exclusive = true;
        } else if self.holders & 1 << processor == 0 {
            self.holders |= 1 << processor;
            self.is_exclusive = false;
        }
    }
}

/// The two parameters of the Universal Scalability Law, contention and coherency, that fit points best:
/// rate(N) = N rate(1) / (1 + contention (N - 1) + coherency N (N - 1)).
pub fn scalability_law(points: &[Point]) -> (f64, f64) {
    let Some(one) = points.iter().find(|point| point.processors == 1) else { return (0.0, 0.0) };
    let (mut aa, mut ab, mut bb, mut ay, mut by) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for point in points.iter().filter(|point| point.processors > 1) {
        let n = point.processors as f64;
        let (a, b, y) = (n - 1.0, n * (n - 1.0), n * one.rate / point.rate - 1.0);
        // By relative error.
        let weight = (point.rate / (n * one.rate)).powi(2);
        aa += weight * a * a;
        ab += weight * a * b;
        bb += weight * b * b;
        ay += weight * a * y;
        by += weight * b * y;
    }
    let determinant = aa * bb - ab * ab;
    if determinant.abs() < f64::EPSILON {
        return (0.0, 0.0);
    }
    let both = ((ay * bb - by * ab) / determinant, (by * aa - ay * ab) / determinant);
    match both {
        (contention, coherency) if contention >= 0.0 && coherency >= 0.0 => both,
        // Neither is negative: one of them alone then.
        (_, coherency) if coherency < 0.0 => ((ay / aa).max(0.0), 0.0),
        _ => (0.0, (by / bb).max(0.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs { request_ns: 1000.0, transfer_ns: 100.0 };

    fn write(line: u64) -> Access {
        Access { line, is_write: true, code: line }
    }

    fn read(line: u64) -> Access {
        Access { line, is_write: false, code: line }
    }

    /// Two threads' requests, each the same.
    fn workload(of_first: &[Access], of_second: &[Access]) -> Workload {
        Workload::new(&[of_first.repeat(100), of_second.repeat(100)], &[], 100)
    }

    #[test]
    fn requests_that_share_nothing_scale() {
        let alone = workload(&[write(1), read(2)], &[write(3), read(4)]);
        for processors in [1, 2, 16, 64] {
            let point = alone.run(processors, COSTS);
            let wanted = processors as f64 * 1e6;
            assert!((point.rate / wanted - 1.0).abs() < 0.02, "{point:?}");
            assert!(point.transfers == 0.0);
        }
        assert_eq!(alone.shared_writes(), 0.0);
    }

    #[test]
    fn lines_that_all_only_read_are_fetched_once() {
        let reads = workload(&[write(1), read(9)], &[write(2), read(9)]);
        let point = reads.run(32, COSTS);
        assert!(point.transfers < 0.01 && (point.rate / 32e6 - 1.0).abs() < 0.02, "{point:?}");
    }

    #[test]
    fn a_line_that_all_write_bends_the_curve_where_it_is_always_under_way() {
        let counter = workload(&[read(1), write(9), read(1)], &[read(2), write(9), read(2)]);
        assert_eq!(counter.shared_writes(), 1.0);
        assert_eq!(counter.hottest(3), [HotLine { part: 1.0, code: 9 }]);
        let rates: Vec<f64> = [1, 4, 16, 64].iter().map(|n| counter.run(*n, COSTS).rate).collect();
        // A transfer takes a tenth of a request: ten processors keep the line busy.
        assert!(rates[1] / rates[0] > 3.0 && rates[2] / rates[0] < 10.5, "{rates:?}");
        assert!((rates[3] / 10e6 - 1.0).abs() < 0.05, "{rates:?}");
        let points: Vec<Point> = [1, 2, 4, 8, 16, 32, 64].iter().map(|n| counter.run(*n, COSTS)).collect();
        let (contention, coherency) = scalability_law(&points);
        let last = 64.0 / (1.0 + 63.0 * contention + 64.0 * 63.0 * coherency);
        assert!((8.0..12.0).contains(&last), "{contention} {coherency}");
    }

    #[test]
    fn a_thread_in_the_background_takes_lines_away() {
        let with = Workload::new(&[vec![write(9); 100]], &[vec![read(9); 100]], 100);
        assert!(with.run(1, COSTS).transfers > 0.9);
    }

    #[test]
    fn the_law_is_found_in_its_own_curve() {
        let rate = |n: f64| n * 1e6 / (1.0 + 0.02 * (n - 1.0) + 0.001 * n * (n - 1.0));
        let point = |n: usize| Point { processors: n, rate: rate(n as f64), transfers: 0.0, queued_ns: 0.0 };
        let points: Vec<Point> = [1, 2, 4, 8, 16, 32, 64].into_iter().map(point).collect();
        let (contention, coherency) = scalability_law(&points);
        assert!((contention - 0.02).abs() < 1e-6 && (coherency - 0.001).abs() < 1e-6);
    }
}
