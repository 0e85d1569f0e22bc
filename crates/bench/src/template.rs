//! Requests with placeholders, compiled once: rendering one allocates nothing. The language is
//! resp-benchmark's, `SET {key uniform 1000} {value 64}`, with more distributions and sizes; `__rand_int__`
//! is redis-benchmark's. A compiled template whose every placeholder has a fixed width is rendered once and
//! then patched in place; any other is rendered for each request.

mod classic;

pub use classic::{VECTOR, Words, commands};

use crate::distribution::{Distribution, parse_size};
use martlet_base::random::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Digits of a key's number, after `key_`.
const KEY_DIGITS: usize = 10;
/// Digits of redis-benchmark's `__rand_int__`.
const RAND_INT_DIGITS: usize = 12;
const RAND_INT: &str = "__rand_int__";
const TAG: &str = "{tag}";
/// Bytes of the pool that values are cut from.
const POOL_BYTES: usize = 1 << 18;
/// Most bytes between one value's end and the next one's start in the pool, and one more.
const POOL_STRIDE: u64 = 64;
/// Longest value that a template may ask for.
pub const MAX_VALUE_BYTES: u64 = 512 << 20;
/// Variables that a session may bind.
pub const MAX_VARIABLES: usize = 8;
/// Components of the vectors of tests unless said otherwise.
pub const DIMENSION: usize = 128;
/// Most components of a vector; vector sets take fewer.
pub const MAX_DIMENSION: usize = 1 << 16;
const COMPONENT_BYTES: usize = size_of::<f32>();

/// Sizes of values.
#[derive(Clone, Debug)]
pub enum Size {
    /// Always the same.
    Fixed(usize),
    /// Uniform between both, inclusive.
    Range(usize, usize),
    /// Log-normal with this median and sigma, cut at the third.
    LogNormal(f64, f64, usize),
    /// Sizes with cumulated weights.
    Weighted(Vec<(u64, usize)>),
}

impl Size {
    fn draw(&self, random: &mut Random) -> usize {
        match self {
            Size::Fixed(size) => *size,
            Size::Range(low, high) => low + random.below((high - low + 1) as u64) as usize,
            Size::LogNormal(median, sigma, max) => {
                let radius = (-2.0 * (1.0 - random.unit_f64()).ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * random.unit_f64()).cos();
                ((median * (sigma * normal).exp()).round() as usize).clamp(1, *max)
            }
            Size::Weighted(sizes) => {
                let total = sizes.last().map_or(1, |(cumulated, _)| *cumulated);
                let drawn = random.below(total);
                sizes.iter().find(|(cumulated, _)| drawn < *cumulated).map_or(0, |(_, size)| *size)
            }
        }
    }

    /// Parses `64`, `10-100`, `lognormal MEDIAN SIGMA [MAX]` or `list 64:9,1024:1`.
    fn parse(words: &[&str]) -> Result<Size, String> {
        let bytes = |text: &str| {
            parse_size(text).and_then(|size| {
                if size > MAX_VALUE_BYTES {
                    Err(format!("a value of {size} bytes is too large"))
                } else {
                    Ok(size as usize)
                }
            })
        };
        let number = |text: &str| {
            text.parse::<f64>()
                .ok()
                .filter(|v| *v > 0.0 && v.is_finite())
                .ok_or(format!("'{text}' is not above 0"))
        };
        match words {
            [one] => match one.split_once('-') {
                None => Ok(Size::Fixed(bytes(one)?)),
                Some((low, high)) => {
                    let (low, high) = (bytes(low)?, bytes(high)?);
                    if low > high {
                        Err(format!("'{one}': the range is empty"))
                    } else {
                        Ok(Size::Range(low, high))
                    }
                }
            },
            ["lognormal", median, sigma] => Ok(Size::LogNormal(number(median)?, number(sigma)?, 1 << 20)),
            ["lognormal", median, sigma, max] => {
                Ok(Size::LogNormal(number(median)?, number(sigma)?, bytes(max)?))
            }
            ["list", list] => {
                let (mut sizes, mut cumulated) = (Vec::new(), 0);
                for entry in list.split(',') {
                    let (size, weight) = entry.split_once(':').unwrap_or((entry, "1"));
                    cumulated += parse_size(weight)?;
                    sizes.push((cumulated, bytes(size)?));
                }
                Ok(Size::Weighted(sizes))
            }
            _ => {
                Err("value takes N, LOW-HIGH, 'lognormal MEDIAN SIGMA [MAX]' or 'list SIZE:WEIGHT,…'".into())
            }
        }
    }
}

/// One placeholder.
#[derive(Clone, Debug)]
pub enum Field {
    /// `key_` and ten digits.
    Key(Distribution),
    /// Twelve digits.
    RandInt(Distribution),
    /// Twelve digits of a number with this place, the same at each occurrence: the first draws it (`true`).
    Shared(usize, Distribution, bool),
    /// Random alphanumerics.
    Value(Size),
    /// A number, in as many digits as it has.
    Number(Distribution, i64),
    /// The lower or the upper of two numbers a width apart (`true`: the upper, drawn with the lower).
    Range(u64, u64, bool),
    /// A session's variable, in as many digits as it has.
    Variable(usize),
    /// A hash tag of the connection's cluster node.
    Tag,
    /// As many components from -1 to 1, as little-endian `f32`.
    Vector(usize),
}

/// What drawing needs.
pub struct Draw<'a> {
    /// The thread's generator.
    pub random: &'a mut Random,
    /// What values are cut from.
    pub pool: &'a mut Pool,
    /// Values of the session's variables.
    pub variables: &'a [u64; MAX_VARIABLES],
    /// Tags of slots that the connection's node holds.
    pub tags: &'a [[u8; 3]],
    /// What later placeholders repeat.
    pub drawn: &'a mut Drawn,
}

/// Numbers that were drawn for one placeholder and stand in others, too.
#[derive(Default)]
pub struct Drawn {
    /// The number of the request, or of the batch of a template that has several, over all threads.
    turn: u64,
    /// The lower number of the range placeholder drawn last.
    range_low: u64,
    shared: [u64; 9],
}

/// Random alphanumerics that values are cut from, shared by all threads. Each walks through them by small
/// random steps: a cut at a random place each time would miss the caches of pages and lines, which costs more
/// than the copy.
#[derive(Clone)]
pub struct Pool {
    characters: Arc<[u8]>,
    /// Where the last value ended.
    at: usize,
}

impl Pool {
    fn fill(&mut self, mut out: &mut [u8], random: &mut Random) {
        while !out.is_empty() {
            let take = out.len().min(self.characters.len() / 2);
            let near = self.at + random.below(POOL_STRIDE) as usize;
            let start = match self.characters.len() - take {
                last if near <= last => near,
                last => random.below(last as u64 + 1) as usize,
            };
            let (head, tail) = out.split_at_mut(take);
            head.copy_from_slice(&self.characters[start..start + take]);
            self.at = start + take;
            out = tail;
        }
    }
}

/// A pool with what this seed gives.
pub fn value_pool(seed: u64) -> Pool {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut random = Random::seeded(seed ^ 0x9E37_79B9_7F4A_7C15);
    let mut pool = Vec::with_capacity(POOL_BYTES + 8);
    while pool.len() < POOL_BYTES {
        let mut bits = random.next_u64();
        // Eight characters of one draw: the bias of the last is below 1e-3.
        for _ in 0..8 {
            pool.push(ALPHABET[(bits % 62) as usize]);
            bits /= 62;
        }
    }
    pool.truncate(POOL_BYTES);
    // The end: the first value begins at a random place.
    Pool { characters: pool.into(), at: POOL_BYTES }
}

fn write_digits(mut value: u64, out: &mut [u8]) {
    const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";
    let mut chunks = out.rchunks_exact_mut(2);
    for pair in &mut chunks {
        let index = (value % 100) as usize * 2;
        value /= 100;
        pair.copy_from_slice(&PAIRS[index..index + 2]);
    }
    if let [first] = chunks.into_remainder() {
        *first = b'0' + (value % 10) as u8;
    }
}

/// Fills with components of a vector, two of each draw.
fn fill_vector(out: &mut [u8], random: &mut Random) {
    // 24 bits are as many as an `f32` holds exactly.
    let component = |bits: u64| ((bits & 0xFF_FFFF) as f32 / 8_388_608.0 - 1.0).to_le_bytes();
    for pair in out.chunks_mut(2 * COMPONENT_BYTES) {
        let bits = random.next_u64();
        for (place, bits) in pair.chunks_exact_mut(COMPONENT_BYTES).zip([bits, bits >> 32]) {
            place.copy_from_slice(&component(bits));
        }
    }
}

impl Field {
    /// The width in bytes, where each draw has the same.
    fn width(&self) -> Option<usize> {
        match self {
            Field::Key(_) => Some(4 + KEY_DIGITS),
            Field::RandInt(_) | Field::Shared(..) => Some(RAND_INT_DIGITS),
            Field::Value(Size::Fixed(size)) => Some(*size),
            Field::Tag => Some(TAG.len()),
            Field::Vector(dimension) => Some(dimension * COMPONENT_BYTES),
            _ => None,
        }
    }

    /// Draws a field of fixed width into its place.
    fn patch(&self, out: &mut [u8], draw: &mut Draw<'_>) {
        match self {
            Field::Key(distribution) => {
                let value = distribution.draw(draw.random, draw.drawn.turn);
                let (prefix, digits) = out.split_at_mut(4);
                prefix.copy_from_slice(b"key_");
                write_digits(value, digits);
            }
            Field::RandInt(distribution) => {
                write_digits(distribution.draw(draw.random, draw.drawn.turn), out)
            }
            Field::Shared(place, distribution, draws) => {
                let turn = draw.drawn.turn;
                let Some(number) = draw.drawn.shared.get_mut(*place) else { return };
                if *draws {
                    *number = distribution.draw(draw.random, turn);
                }
                write_digits(*number, out);
            }
            Field::Value(_) => draw.pool.fill(out, draw.random),
            Field::Tag => {
                out.copy_from_slice(TAG.as_bytes());
                if !draw.tags.is_empty() {
                    let tag = draw.tags[draw.random.below(draw.tags.len() as u64) as usize];
                    out[1..4].copy_from_slice(&tag);
                }
            }
            Field::Vector(_) => fill_vector(out, draw.random),
            Field::Number(..) | Field::Range(..) | Field::Variable(_) => {}
        }
    }

    /// A number for a variable of the session with this number; 0 for fields that are no numbers.
    pub fn draw_number(&self, random: &mut Random, turn: u64) -> u64 {
        match self {
            Field::Key(distribution) | Field::RandInt(distribution) | Field::Number(distribution, 0) => {
                distribution.draw(random, turn)
            }
            Field::Number(distribution, low) => {
                low.wrapping_add_unsigned(distribution.draw(random, turn)) as u64
            }
            _ => 0,
        }
    }

    /// Whether a draw depends on the number of the request.
    fn is_counted(&self) -> bool {
        match self {
            Field::Key(distribution)
            | Field::RandInt(distribution)
            | Field::Shared(_, distribution, _)
            | Field::Number(distribution, _) => distribution.is_counted(),
            _ => false,
        }
    }

    fn append(&self, out: &mut Vec<u8>, draw: &mut Draw<'_>) {
        let start = out.len();
        let number = match self {
            Field::Number(distribution, low) => {
                low.wrapping_add_unsigned(distribution.draw(draw.random, draw.drawn.turn))
            }
            Field::Range(size, width, false) => {
                let low = draw.random.below(*size);
                // Kept inside the range where the width allows it.
                draw.drawn.range_low = low.min(size.saturating_sub(1).saturating_sub(*width));
                draw.drawn.range_low as i64
            }
            Field::Range(size, width, true) => {
                (draw.drawn.range_low + width).min(size.saturating_sub(1)) as i64
            }
            Field::Variable(index) => draw.variables.get(*index).copied().unwrap_or(0) as i64,
            Field::Value(size) => {
                let len = size.draw(draw.random);
                out.resize(start + len, 0);
                return draw.pool.fill(&mut out[start..], draw.random);
            }
            Field::Key(_) | Field::RandInt(_) | Field::Shared(..) | Field::Tag | Field::Vector(_) => {
                out.resize(start + self.width().unwrap_or(0), 0);
                return self.patch(&mut out[start..], draw);
            }
        };
        append_number(out, number);
    }
}

fn append_number(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0u8; 20];
    let mut rest = value.unsigned_abs();
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

#[derive(Clone)]
enum Op {
    /// Bytes as they are.
    Literal(Vec<u8>),
    /// A field of fixed width.
    Fixed(Field, usize),
    /// A whole argument of unknown width: its parts.
    Argument(Vec<Part>),
}

#[derive(Clone, Debug)]
enum Part {
    Literal(Vec<u8>),
    Field(Field),
}

/// A compiled request, or several that always leave together.
#[derive(Clone)]
pub struct Template {
    ops: Vec<Op>,
    fixed_len: Option<usize>,
    requests: usize,
    /// How often it has been rendered, over all threads; nothing to count where no draw depends on it.
    turns: Option<Arc<AtomicU64>>,
}

/// A place in a rendered pipeline that changes from request to request.
struct Place {
    /// Which of the pipeline's turns it belongs to.
    turn: u64,
    at: usize,
    width: usize,
    /// Index of its operation.
    op: usize,
}

/// The places in a rendered pipeline that change from request to request.
pub struct Patches {
    places: Vec<Place>,
    turns: u64,
}

impl Template {
    /// Bytes sent as they are, such as an inline command.
    pub fn raw(bytes: &[u8]) -> Template {
        Template {
            ops: vec![Op::Literal(bytes.to_vec())],
            fixed_len: Some(bytes.len()),
            requests: 1,
            turns: None,
        }
    }

    /// Compiles a command line in the placeholder language; `variables` are the names that a session binds.
    pub fn parse(text: impl AsRef<[u8]>, variables: &[String]) -> Result<Template, String> {
        Template::of_words(&split_words(text.as_ref())?, variables)
    }

    /// Compiles the words of a command as a shell passes them on: only a placeholder's words belong together.
    pub fn parse_words(words: &[Vec<u8>]) -> Result<Template, String> {
        let mut joined: Vec<Vec<u8>> = Vec::new();
        let mut depth = 0u32;
        for word in words {
            match joined.last_mut().filter(|_| depth > 0) {
                Some(begun) => begun.extend([b" ", word.as_slice()].concat()),
                None => joined.push(word.clone()),
            }
            depth = word.iter().fold(depth, |depth, byte| depth_after(depth, *byte));
        }
        Template::of_words(&joined, &[])
    }

    fn of_words(words: &[Vec<u8>], variables: &[String]) -> Result<Template, String> {
        let mut arguments: Vec<Vec<Part>> = Vec::new();
        for word in words {
            arguments.extend(parse_argument(word, variables)?);
        }
        if arguments.is_empty() {
            return Err("the command is empty".into());
        }
        Ok(Template::compile(&arguments))
    }

    fn compile(arguments: &[Vec<Part>]) -> Template {
        let mut ops: Vec<Op> = Vec::new();
        let mut literal = format!("*{}\r\n", arguments.len()).into_bytes();
        for parts in arguments {
            let width: Option<usize> = parts
                .iter()
                .map(|part| match part {
                    Part::Literal(bytes) => Some(bytes.len()),
                    Part::Field(field) => field.width(),
                })
                .sum();
            let Some(width) = width else {
                ops.push(Op::Literal(std::mem::take(&mut literal)));
                ops.push(Op::Argument(parts.clone()));
                continue;
            };
            literal.extend_from_slice(format!("${width}\r\n").as_bytes());
            for part in parts {
                match part {
                    Part::Literal(bytes) => literal.extend_from_slice(bytes),
                    Part::Field(field) => {
                        ops.push(Op::Literal(std::mem::take(&mut literal)));
                        ops.push(Op::Fixed(field.clone(), field.width().unwrap_or(0)));
                    }
                }
            }
            literal.extend_from_slice(b"\r\n");
        }
        ops.push(Op::Literal(literal));
        ops.retain(|op| !matches!(op, Op::Literal(bytes) if bytes.is_empty()));
        let fixed_len = ops
            .iter()
            .map(|op| match op {
                Op::Literal(bytes) => Some(bytes.len()),
                Op::Fixed(_, width) => Some(*width),
                Op::Argument(_) => None,
            })
            .sum();
        let fields = arguments.iter().flatten().filter_map(|part| match part {
            Part::Field(field) => Some(field),
            Part::Literal(_) => None,
        });
        let turns = fields.into_iter().any(Field::is_counted).then(Arc::default);
        Template { ops, fixed_len, requests: 1, turns }
    }

    /// Takes the numbers of the next turns, and returns the first of them.
    fn take_turns(&self, count: u64) -> u64 {
        self.turns.as_ref().map_or(0, |turns| turns.fetch_add(count, Ordering::Relaxed))
    }

    /// The length of each request, where all have the same.
    #[cfg(test)]
    pub fn fixed_len(&self) -> Option<usize> {
        self.fixed_len
    }

    /// How many requests it holds.
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// Appends its requests, mostly one. `scratch` is working memory.
    pub fn append(&self, out: &mut Vec<u8>, scratch: &mut Vec<u8>, draw: &mut Draw<'_>) {
        draw.drawn.turn = self.take_turns(1);
        for op in &self.ops {
            match op {
                Op::Literal(bytes) => out.extend_from_slice(bytes),
                Op::Fixed(field, _) => field.append(out, draw),
                Op::Argument(parts) => {
                    scratch.clear();
                    for part in parts {
                        match part {
                            Part::Literal(bytes) => scratch.extend_from_slice(bytes),
                            Part::Field(field) => field.append(scratch, draw),
                        }
                    }
                    out.push(b'$');
                    append_number(out, scratch.len() as i64);
                    out.extend_from_slice(b"\r\n");
                    out.extend_from_slice(scratch);
                    out.extend_from_slice(b"\r\n");
                }
            }
        }
    }

    /// Offsets of the fixed fields of `count` consecutive requests, a multiple of the template's own number;
    /// `None` if a width varies.
    pub fn patches(&self, count: usize) -> Option<Patches> {
        let len = self.fixed_len?;
        let mut places = Vec::new();
        let turns = count / self.requests.max(1);
        for turn in 0..turns {
            let mut at = turn * len;
            for (index, op) in self.ops.iter().enumerate() {
                match op {
                    Op::Literal(bytes) => at += bytes.len(),
                    Op::Fixed(_, width) => {
                        places.push(Place { turn: turn as u64, at, width: *width, op: index });
                        at += width;
                    }
                    Op::Argument(_) => return None,
                }
            }
        }
        Some(Patches { places, turns: turns as u64 })
    }

    /// Draws all fixed fields of a rendered pipeline again, in place.
    #[inline]
    pub fn patch(&self, patches: &Patches, buffer: &mut [u8], draw: &mut Draw<'_>) {
        let first = self.take_turns(patches.turns);
        for &Place { turn, at, width, op } in &patches.places {
            if let (Some(Op::Fixed(field, _)), Some(place)) =
                (self.ops.get(op), buffer.get_mut(at..at + width))
            {
                draw.drawn.turn = first.wrapping_add(turn);
                field.patch(place, draw);
            }
        }
    }
}

/// A text with every occurrence of a pattern replaced.
pub fn replace_text(text: &[u8], pattern: &str, by: &str) -> Vec<u8> {
    let (mut replaced, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((before, after)) = split_once(rest, pattern) {
        replaced.extend_from_slice(before);
        replaced.extend_from_slice(by.as_bytes());
        rest = after;
    }
    replaced.extend_from_slice(rest);
    replaced
}

/// The parts before and behind the first occurrence of a pattern.
pub fn split_once<'a>(text: &'a [u8], pattern: &str) -> Option<(&'a [u8], &'a [u8])> {
    let at = memchr::memmem::find(text, pattern.as_bytes())?;
    Some((text.get(..at)?, text.get(at + pattern.len()..)?))
}

fn replace(parts: Vec<Part>, pattern: &[u8], field: &Field) -> Vec<Part> {
    let mut replaced = Vec::new();
    for part in parts {
        let Part::Literal(bytes) = part else {
            replaced.push(part);
            continue;
        };
        let mut rest = &bytes[..];
        while let Some(at) = memchr::memmem::find(rest, pattern) {
            let (before, after) = rest.split_at(at);
            if !before.is_empty() {
                replaced.push(Part::Literal(before.to_vec()));
            }
            replaced.push(Part::Field(field.clone()));
            rest = after.get(pattern.len()..).unwrap_or_default();
        }
        if !rest.is_empty() {
            replaced.push(Part::Literal(rest.to_vec()));
        }
    }
    replaced
}

/// Splits at spaces outside braces and quotes. Quotes group only where they open a word, and unlike a shell's
/// they may hold placeholders; a backslash takes the next byte as it is.
fn split_words(text: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let (mut words, mut word, mut open) = (Vec::new(), Vec::new(), false);
    let (mut quote, mut depth) = (None, 0u32);
    let mut bytes = text.iter().copied();
    while let Some(c) = bytes.next() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (_, b'\\') => {
                let next = bytes.next().ok_or("the command ends in a backslash")?;
                if !matches!(next, b'"' | b'\'' | b'\\') {
                    word.push(b'\\');
                }
                word.push(next);
                open = true;
            }
            (None, b'"' | b'\'') if !open => (quote, open) = (Some(c), true),
            (None, c) if c.is_ascii_whitespace() && depth == 0 => {
                if std::mem::take(&mut open) {
                    words.push(std::mem::take(&mut word));
                }
            }
            (_, c) => {
                depth = depth_after(depth, c);
                open = true;
                word.push(c);
            }
        }
    }
    let unclosed = |what: char| format!("a {what} is never closed in '{}'", String::from_utf8_lossy(text));
    if let Some(q) = quote {
        return Err(unclosed(char::from(q)));
    }
    if depth > 0 {
        return Err(unclosed('{'));
    }
    if open {
        words.push(word);
    }
    Ok(words)
}

/// How many braces are open behind a byte.
fn depth_after(depth: u32, byte: u8) -> u32 {
    match byte {
        b'{' => depth.saturating_add(1),
        b'}' => depth.saturating_sub(1),
        _ => depth,
    }
}

/// The arguments that one word stands for: one, or two for a range placeholder.
fn parse_argument(word: &[u8], variables: &[String]) -> Result<Vec<Vec<Part>>, String> {
    let mut arguments = vec![Vec::new()];
    let mut rest = word;
    while let Some(open) = memchr::memchr(b'{', rest) {
        let (before, after) = rest.split_at(open);
        let Some(close) = memchr::memchr(b'}', after) else {
            return Err(format!("a {{ is never closed in '{}'", String::from_utf8_lossy(word)));
        };
        let inside = after.get(1..close).unwrap_or_default();
        push_literal(&mut arguments, before);
        // Placeholders do not nest: a brace before another one is text, such as an object's in JSON.
        if memchr::memchr(b'{', inside).is_some() {
            push_literal(&mut arguments, b"{");
            rest = after.get(1..).unwrap_or_default();
            continue;
        }
        rest = after.get(close + 1..).unwrap_or_default();
        // Names and numbers are ASCII: a word with other bytes is neither, and stays unchanged.
        let shown = String::from_utf8_lossy(inside);
        let words: Vec<&str> = shown.split_ascii_whitespace().collect();
        match parse_field(&words, variables).map_err(|error| format!("placeholder {{{shown}}}: {error}"))? {
            Some(Field::Range(size, width, _)) => {
                push_field(&mut arguments, Field::Range(size, width, false));
                arguments.push(vec![Part::Field(Field::Range(size, width, true))]);
            }
            Some(field) => push_field(&mut arguments, field),
            None => push_literal(&mut arguments, after.get(..=close).unwrap_or_default()),
        }
    }
    push_literal(&mut arguments, rest);
    Ok(arguments)
}

fn push_literal(arguments: &mut [Vec<Part>], bytes: &[u8]) {
    if let Some(last) = arguments.last_mut().filter(|_| !bytes.is_empty()) {
        last.push(Part::Literal(bytes.to_vec()));
    }
}

fn push_field(arguments: &mut [Vec<Part>], field: Field) {
    if let Some(last) = arguments.last_mut() {
        last.push(Part::Field(field));
    }
}

/// A placeholder's field; `None` where braces hold a literal hash tag, or an object of JSON.
pub fn parse_field(words: &[&str], variables: &[String]) -> Result<Option<Field>, String> {
    let field = match words {
        ["key", rest @ ..] => Field::Key(Distribution::parse(rest)?),
        ["value", rest @ ..] => Field::Value(Size::parse(rest)?),
        ["rand", size] => Field::Number(Distribution::Uniform(parse_size(size)?), 0),
        ["rand_int", size] => Field::RandInt(Distribution::Uniform(parse_size(size)?)),
        ["number", rest @ ..] => Field::Number(Distribution::parse(rest)?, 0),
        ["int" | "ttl", low, high] => {
            let parse =
                |text: &str| text.parse::<i64>().map_err(|_| format!("'{text}' is not a whole number"));
            let (low, high) = (parse(low)?, parse(high)?);
            let size =
                high.checked_sub(low).and_then(|d| u64::try_from(d).ok()).ok_or("the range is empty")?;
            Field::Number(Distribution::Uniform(size.saturating_add(1)), low)
        }
        ["range", size, width] => Field::Range(parse_size(size)?, parse_size(width)?, false),
        ["tag"] => Field::Tag,
        ["vector", dimension] => Field::Vector(parse_dimension(dimension)?),
        ["rand" | "rand_int" | "range" | "int" | "ttl" | "vector", ..] => {
            return Err(format!("wrong number of parameters for '{}'", words.first().unwrap_or(&"")));
        }
        [name] => match variables.iter().position(|v| v == name) {
            Some(index) => Field::Variable(index),
            None => return Ok(None),
        },
        [] => return Ok(None),
        [name, ..] if name.starts_with('"') => return Ok(None),
        _ => {
            return Err("unknown placeholder: key, value, rand, rand_int, number, int, ttl, range, vector \
                        or a variable"
                .into());
        }
    };
    Ok(Some(field))
}

/// Reads how many components a vector has.
///
/// # Errors
/// No number, 0, or more than [`MAX_DIMENSION`].
pub fn parse_dimension(text: &str) -> Result<usize, String> {
    let dimension = text.parse().ok().filter(|dimension| (1..=MAX_DIMENSION).contains(dimension));
    dimension.ok_or_else(|| format!("'{text}' is not a number of components from 1 to {MAX_DIMENSION}"))
}

#[cfg(test)]
mod tests;
