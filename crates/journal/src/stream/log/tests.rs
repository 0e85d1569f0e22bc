//! Readers against a model that keeps the whole stream: each reads exactly its part, from where it began, and
//! the kept part is bounded.

use proptest::prelude::*;

use super::*;

/// Most bytes of a piece, and so of a block here.
const LONGEST: usize = 200_000;

#[derive(Clone, Debug)]
enum Step {
    Append(Audience, usize),
    Mark(bool),
    /// From this many thousandths of the stream so far, with a limit or without.
    Attach(Audience, u64, Option<u64>),
    Read(usize, usize),
    Detach(usize),
    Backlog(u64),
    Rebase(u64),
}

fn audience() -> impl Strategy<Value = Audience> {
    prop_oneof![6 => Just(Audience::All), 1 => Just(Audience::File), 1 => Just(Audience::Replicas)]
}

fn step() -> impl Strategy<Value = Step> {
    let reader = prop_oneof![Just(Audience::File), Just(Audience::Replicas)];
    let most_behind = prop_oneof![Just(None), (0..300_000_u64).prop_map(Some)];
    prop_oneof![
        8 => (audience(), 0..300_usize).prop_map(|(audience, len)| Step::Append(audience, len)),
        1 => (audience(), 0..LONGEST).prop_map(|(audience, len)| Step::Append(audience, len)),
        3 => any::<bool>().prop_map(Step::Mark),
        2 => (reader, 0..=1000_u64, most_behind).prop_map(|(audience, at, most)| Step::Attach(audience, at, most)),
        6 => (any::<usize>(), 0..100_000_usize).prop_map(|(reader, len)| Step::Read(reader, len)),
        1 => any::<usize>().prop_map(Step::Detach),
        1 => prop_oneof![Just(0), 0..400_000_u64].prop_map(Step::Backlog),
        1 => (0..1_000_000_u64).prop_map(Step::Rebase),
    ]
}

/// A reader, its kind, the end of its reading so far, and its limit.
struct Known {
    number: usize,
    audience: Audience,
    at: usize,
    most_behind: Option<u64>,
}

/// The stream as each kind of reader sees it, and where the marks are.
#[derive(Default)]
struct Model {
    file: Vec<u8>,
    replicas: Vec<u8>,
    /// The replication offset of the first of these.
    base: u64,
    places: Vec<Place>,
}

impl Model {
    fn of(&self, audience: Audience) -> &[u8] {
        if audience == Audience::File { &self.file } else { &self.replicas }
    }

    /// The begin of a reader's part, as it counts.
    fn base_of(&self, audience: Audience) -> u64 {
        if audience == Audience::File { 0 } else { self.base }
    }
}

/// Reads at most `len` bytes; they must be the model's.
fn read(log: &mut Log, model: &Model, known: &mut Known, len: usize) {
    let mut rest = len;
    while rest > 0 {
        match log.next(known.number, u64::MAX) {
            Ok(Some(chunk)) => {
                let len = chunk.len().min(rest);
                assert_eq!(&chunk[..len], &model.of(known.audience)[known.at..known.at + len]);
                log.advance(known.number, len as u64);
                (known.at, rest) = (known.at + len, rest - len);
            }
            Ok(None) => return assert_eq!(known.at, model.of(known.audience).len()),
            Err(FellBehind) => {
                let behind = (model.of(known.audience).len() - known.at) as u64;
                return assert!(known.most_behind.is_some_and(|most| behind > most), "{behind}");
            }
        }
    }
}

fn run(steps: Vec<Step>) {
    let (mut log, mut model) = (Log::new(0), Model::default());
    let (mut readers, mut backlog, mut others) = (Vec::<Known>::new(), 0, 0);
    // Bytes that the backlog may have freed, whatever it covers later.
    let mut floor = 0;
    for (index, step) in steps.into_iter().enumerate() {
        match step {
            Step::Append(audience, len) => {
                let bytes: Vec<u8> = (0..len).map(|at| (index * 31 + at) as u8).collect();
                log.append(audience, &bytes);
                log.trim();
                others += if audience == Audience::All { 0 } else { len };
                if audience != Audience::Replicas {
                    model.file.extend_from_slice(&bytes);
                }
                if audience != Audience::File {
                    model.replicas.extend_from_slice(&bytes);
                }
            }
            Step::Mark(is_exact) => {
                model.places.push(log.end());
                log.mark(model.places.len() as u64, is_exact);
            }
            Step::Attach(audience, thousandths, most_behind) => {
                let len = model.of(audience).len() as u64;
                let at = len * thousandths / 1000;
                let is_near = most_behind.is_none_or(|most| len - at <= most.max(backlog));
                let kept = is_near && (audience == Audience::Replicas && at >= floor || at == len);
                if audience == Audience::Replicas && model.base > 0 {
                    assert_eq!(log.attach(audience, Some(model.base - 1), None), Err(FellBehind));
                }
                match log.attach(audience, Some(model.base_of(audience) + at), most_behind) {
                    Ok(number) => readers.push(Known { number, audience, at: at as usize, most_behind }),
                    Err(FellBehind) => assert!(!kept),
                }
            }
            Step::Read(reader, len) if !readers.is_empty() => {
                let reader = reader % readers.len();
                read(&mut log, &model, &mut readers[reader], len);
            }
            Step::Detach(reader) if !readers.is_empty() => {
                log.detach(readers.swap_remove(reader % readers.len()).number);
            }
            Step::Backlog(bytes) => {
                (backlog, _) = (bytes, log.set_backlog(bytes));
            }
            Step::Rebase(offset) => {
                log.rebase(offset);
                readers.retain(|known| {
                    let is_of_file = known.audience == Audience::File;
                    if !is_of_file {
                        assert_eq!(log.next(known.number, u64::MAX).err(), Some(FellBehind));
                        log.detach(known.number);
                    }
                    is_of_file
                });
                (model.base, floor) = (offset, 0);
                model.replicas.clear();
                model.places.iter_mut().for_each(|place| place.offset = offset);
            }
            Step::Read(..) | Step::Detach(_) => {}
        }
        floor = floor.max((model.replicas.len() as u64).saturating_sub(backlog));
        check(&log, &model, &readers, backlog, others);
    }
}

/// The kept part is the one that some reader may need, and little more; positions and places translate into
/// each other.
fn check(log: &Log, model: &Model, readers: &[Known], backlog: u64, others: usize) {
    let offset = model.base + model.replicas.len() as u64;
    let place = Place { offset, file_offset: model.file.len() as u64 };
    assert_eq!(log.end(), place);
    let behind = |known: &Known| {
        let behind = (model.of(known.audience).len() - known.at) as u64;
        known.most_behind.map_or(behind, |most| behind.min(most))
    };
    let most = readers.iter().map(behind).max().unwrap_or(0).max(backlog) as usize;
    // A span at each end is kept as a whole, and so are other readers' parts within the part that some reader
    // still needs.
    let kept: usize = log.spans.iter().map(|span| span.chunk.len()).sum();
    assert!(kept <= most + 2 * LONGEST + others, "{kept} bytes for {most}");
    for (position, exact) in (1..).zip(&model.places) {
        let found = log.place_of(position).expect("it is in the stream");
        assert!(found.offset >= exact.offset && found.file_offset >= exact.file_offset);
        let at = log.position_of(Audience::File, found.file_offset);
        assert!(at >= position || found.file_offset < log.begin().file_offset, "{position}: {at}");
    }
    assert_eq!(log.place_of(model.places.len() as u64 + 1), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn readers_read_exactly_what_is_for_them(steps in prop::collection::vec(step(), 0..120)) {
        run(steps);
    }
}

#[test]
fn what_another_stream_leaves_between_is_not_read() {
    let mut log = Log::new(0);
    let file = log.attach(Audience::File, None, None).unwrap();
    log.append(Audience::All, b"before ");
    log.append(Audience::Replicas, b"theirs ");
    log.rebase(7);
    log.append(Audience::File, b"after");
    let mut all = Vec::new();
    while let Some(chunk) = log.next(file, u64::MAX).unwrap() {
        all.extend_from_slice(&chunk);
        log.advance(file, chunk.len() as u64);
    }
    assert_eq!(all, b"before after");
}

#[test]
fn a_block_that_everybody_has_read_is_used_again() {
    let mut log = Log::new(0);
    let reader = log.attach(Audience::File, None, None).unwrap();
    let mut places = std::collections::HashSet::new();
    for round in 0..100_u8 {
        log.append(Audience::All, &vec![round; BLOCK_BYTES / 3]);
        while let Some(chunk) = log.next(reader, u64::MAX).unwrap() {
            assert!(chunk.iter().all(|&byte| byte == round));
            places.insert(chunk.as_ptr().addr() / BLOCK_BYTES);
            log.advance(reader, chunk.len() as u64);
        }
        assert!(log.spans.is_empty());
        if round % 10 == 9 {
            log.restart();
            assert_eq!(log.tail.len(), 0);
        }
    }
    // Two blocks, wherever they begin.
    assert!(places.len() <= 4, "{places:?}");
}

#[test]
fn a_slow_reader_is_told_that_it_fell_behind() {
    let mut log = Log::new(0);
    let slow = log.attach(Audience::Replicas, None, Some(100_000)).unwrap();
    for _ in 0..100_000 / 1000 {
        log.append(Audience::All, &[b'x'; 1000]);
        log.trim();
    }
    assert_eq!(log.next(slow, u64::MAX).unwrap().unwrap().len(), 100_000);
    for _ in 0..10_000 {
        log.append(Audience::All, &[b'x'; 1000]);
        log.trim();
    }
    assert_eq!(log.next(slow, u64::MAX).unwrap_err(), FellBehind);
    assert!(log.block_bytes() <= 100_000 + 2 * BLOCK_BYTES);
    let (blocks, spare) = (log.block_bytes(), log.spare.as_ref().map_or(0, Chunk::block_bytes));
    assert_eq!(log.memory_bytes(), (blocks + spare) as u64);
    log.detach(slow);
    assert!(log.block_bytes() <= BLOCK_BYTES);
    log.set_backlog(200_000);
    log.append(Audience::All, &vec![b'x'; 600_000]);
    log.trim();
    let end = log.end().offset;
    assert!(log.attach(Audience::Replicas, Some(end - 200_000), Some(0)).is_ok());
    assert_eq!(log.attach(Audience::Replicas, Some(end + 1), None).unwrap_err(), FellBehind);
    assert_eq!(log.attach(Audience::Replicas, Some(0), None).unwrap_err(), FellBehind);
}
