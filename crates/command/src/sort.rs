//! SORT and SORT_RO: the elements of a list, set or sorted set in order of themselves or of values of other
//! keys.
//!
//! Keys that a pattern makes of an element are not in the arguments: with such patterns the command runs with
//! all shards locked. Strings compare bytewise; no locale is asked.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use martlet_base::number::{NumberBuffer, parse_f64};
use martlet_base::slot::{slot_of, slot_of_pattern};
use martlet_engine::{EventClass, Keys};
use martlet_keyspace::{Key, Value};
use martlet_protocol::request::Args;
use martlet_spec::{
    Acl, Begin, Command, Cursor, Error, Find, Flags, Group, KeyFlags, KeyPart, Outcome, command,
};
use martlet_types::element::Element;
use martlet_types::hash::Hash;
use martlet_types::list::{End, List};
use martlet_types::set::Set;
use martlet_types::zset::ZSet;

use crate::Handler;
use crate::context::Context;
use crate::set::expire_operands;

/// The family.
pub static COMMANDS: &[&Command<Handler>] = &[&SORT, &SORT_RO];

const CATEGORIES: Acl = Acl::SET.with(Acl::SORTED_SET).with(Acl::LIST).with(Acl::DANGEROUS);
const SOURCE: KeyPart = KeyPart::one(1, KeyFlags::RO.with(KeyFlags::ACCESS));
const PATTERNS: KeyPart = KeyPart::new(Begin::Unknown, Find::Unknown, KeyFlags::RO.with(KeyFlags::ACCESS))
    .notes("The keys of BY and GET: unknown, because the sorted elements make their names.");
const DESTINATION: KeyPart = KeyPart::new(
    Begin::Keyword("STORE"),
    Find::Range { last: 0, step: 1, limit: 0 },
    KeyFlags::OW.with(KeyFlags::UPDATE),
)
.notes("The key of STORE: unknown, because the word may be any of the arguments.");

static SORT: Command<Handler> = command("sort", -2, sort as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM).with(Flags::MOVABLE_KEYS))
    .keys(&[SOURCE, PATTERNS, DESTINATION])
    .find_keys(find_keys)
    .acl(CATEGORIES)
    .undeclared_keys_if(touches_other_keys)
    .syntax(
        "key:k0 ?by-pattern:p1/pattern=BY ?limit=LIMIT(offset:i count:i) \
         ?*+get-pattern:p1/pattern=GET ?order(ASC|DESC) ?sorting:x=ALPHA ?destination:k2=STORE",
    )
    .doc(
        Group::Generic,
        "1.0.0",
        "O(N*log(N)), N being the number of elements; O(N) where they are not sorted",
        "Returns or stores the elements of a list, set or sorted set, sorted.",
    );

/// The source, and the key of the last STORE that is an option.
fn find_keys(args: &Args<'_>, out: &mut Vec<usize>) -> bool {
    out.push(1);
    let (mut rest, mut destination) = (Cursor::new(*args, 2), None);
    while rest.left() > 0 {
        let words = [("LIMIT", 2), ("BY", 1), ("GET", 1)];
        if rest.word("STORE") {
            destination = Some(rest.index()).filter(|_| rest.left() > 0);
            rest.skip(1);
        } else {
            let operands = rest.one_of(&words);
            rest.skip(operands.unwrap_or(1));
        }
    }
    out.extend(destination);
    true
}

fn sort(ctx: &mut Context<'_>) -> Outcome {
    run(ctx, false)
}

static SORT_RO: Command<Handler> = command("sort_ro", -2, sort_ro as Handler)
    .flags(Flags::READONLY.with(Flags::MOVABLE_KEYS))
    .keys(&[SOURCE, PATTERNS])
    .acl(CATEGORIES)
    .undeclared_keys_if(touches_other_keys)
    .syntax(
        "key:k0 ?by-pattern:p1/pattern=BY ?limit=LIMIT(offset:i count:i) \
         ?*+get-pattern:p1/pattern=GET ?order(ASC|DESC) ?sorting:x=ALPHA",
    )
    .doc(
        Group::Generic,
        "7.0.0",
        "O(N*log(N)), N being the number of elements; O(N) where they are not sorted",
        "Returns the elements of a list, set or sorted set, sorted.",
    );

fn sort_ro(ctx: &mut Context<'_>) -> Outcome {
    run(ctx, true)
}

/// Whether these arguments may name keys that the spec does not find: those of patterns.
fn touches_other_keys(args: &Args<'_>) -> bool {
    args.iter().skip(2).any(|arg| arg.contains(&b'*'))
}

/// The client may read whatever keys a pattern names.
fn may_read(ctx: &mut Context<'_>, pattern: &[u8], option: &str) -> Outcome {
    let key = ctx.key(1).bytes;
    let is_elsewhere = || pattern != b"#" && slot_of_pattern(pattern) != Some(slot_of(key));
    if ctx.settings.compatibility_sample_percent > 0 && is_elsewhere() {
        ctx.count_incompatible();
    }
    let refuse = |why: &str| Err(Error::Text(format!("ERR {option} option of SORT denied {why}")));
    if ctx.settings.is_clustered && is_elsewhere() {
        refuse("in Cluster mode when keys formed by the pattern may be in different slots.")
    } else if !ctx.reads_any_key {
        refuse("due to insufficient ACL permissions.")
    } else {
        Ok(())
    }
}

/// What to sort by, and how.
struct Request<'a> {
    descending: bool,
    alpha: bool,
    limit: Option<(i64, i64)>,
    /// The pattern of the keys whose values are compared.
    by: Option<&'a [u8]>,
    /// A BY pattern without `*`: nothing is compared.
    unsorted: bool,
    get: Vec<&'a [u8]>,
    store: Option<Key<'a>>,
}

impl<'a> Request<'a> {
    fn parse(ctx: &mut Context<'a>, read_only: bool) -> Result<Request<'a>, Error> {
        let mut request = Request {
            descending: false,
            alpha: false,
            limit: None,
            by: None,
            unsorted: false,
            get: Vec::new(),
            store: None,
        };
        let mut rest = ctx.rest(2);
        loop {
            if rest.word("ASC") {
                request.descending = false;
            } else if rest.word("DESC") {
                request.descending = true;
            } else if rest.word("ALPHA") {
                request.alpha = true;
            } else if rest.option("LIMIT", 2) {
                request.limit = Some((rest.int()?, rest.int()?));
            } else if !read_only && rest.option("STORE", 1) {
                request.store = Some(Key::new(rest.value()?));
            } else if rest.option("BY", 1) {
                let pattern = rest.value()?;
                request.by = Some(pattern);
                // As in Redis, one constant pattern is enough for the order not to matter.
                if !pattern.contains(&b'*') {
                    request.unsorted = true;
                } else {
                    may_read(ctx, pattern, "BY")?;
                }
            } else if rest.option("GET", 1) {
                let pattern = rest.value()?;
                may_read(ctx, pattern, "GET")?;
                request.get.push(pattern);
            } else {
                rest.finish()?;
                return Ok(request);
            }
        }
    }

    /// The part of `len` elements that is wanted.
    fn range(&self, len: usize) -> std::ops::Range<usize> {
        let Some((start, count)) = self.limit else { return 0..len };
        let start = usize::try_from(start.max(0)).unwrap_or(usize::MAX).min(len);
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(len - start);
        start..start + count
    }
}

/// An element and its sort key.
struct Item<'a> {
    element: Element<'a>,
    score: f64,
    text: Option<Vec<u8>>,
}

fn run(ctx: &mut Context<'_>, read_only: bool) -> Outcome {
    let mut request = Request::parse(ctx, read_only)?;
    if request.store.is_some() {
        expire_operands(ctx.keys, &[ctx.key(1)]);
    }
    let due_ms = ctx.keys.due_ms();
    // A clone shares the elements, which then stay while other keys are looked up and the destination is
    // replaced.
    let source = match ctx.keys.lookup(&ctx.key(1)) {
        Some(entry) => Source::new(entry.value())?,
        None => Source::List(List::new()),
    };
    if request.unsorted && source.is_unordered() && (request.store.is_some() || ctx.deny_blocking) {
        // A stored result, or one that a script relies on, must not depend on the order inside a set.
        (request.unsorted, request.alpha, request.by) = (false, true, None);
    }
    let elements = source.elements(request.unsorted && request.descending, due_ms);
    let wanted = request.range(elements.len());
    let mut items: Vec<Item<'_>> =
        elements.into_iter().map(|element| Item { element, score: 0.0, text: None }).collect();
    if !request.unsorted {
        weigh(ctx.keys, &request, &mut items)?;
        items.sort_by(|left, right| compare(&request, left, right));
    }
    let items = items.get(wanted).unwrap_or_default();
    match request.store {
        Some(destination) => store(ctx, &request, items, &destination),
        None => {
            answer(ctx, &request, items);
            Ok(())
        }
    }
}

/// The elements to sort.
enum Source {
    List(List),
    Set(Set),
    ZSet(ZSet),
}

impl Source {
    fn new(value: Value) -> Result<Source, Error> {
        match value {
            Value::List(list) => Ok(Source::List(list)),
            Value::Set(set) => Ok(Source::Set(set)),
            Value::ZSet(set) => Ok(Source::ZSet(set)),
            _ => Err(Error::WrongType),
        }
    }

    /// Whether the order of the elements means nothing.
    fn is_unordered(&self) -> bool {
        matches!(self, Source::Set(_))
    }

    /// All elements that have not expired by `due_ms`; from the last to the first if `backwards`, where they
    /// have an order.
    fn elements(&self, backwards: bool, due_ms: i64) -> Vec<Element<'_>> {
        match self {
            Source::List(list) if backwards => list.iter_back_from(list.len().saturating_sub(1)).collect(),
            Source::List(list) => list.iter().collect(),
            Source::Set(set) => set.live(due_ms).collect(),
            Source::ZSet(set) => set.range(0..set.len(), backwards).map(|entry| entry.member).collect(),
        }
    }
}

/// Finds what each element is compared by.
fn weigh(keys: &mut Keys, request: &Request<'_>, items: &mut [Item<'_>]) -> Result<(), Error> {
    if request.alpha && request.by.is_none() {
        return Ok(());
    }
    for item in items {
        let text = match request.by {
            Some(pattern) => resolve(keys, pattern, &item.element),
            None => match item.element {
                Element::Int(int) => {
                    item.score = int as f64;
                    continue;
                }
                Element::Bytes(bytes) => Some(bytes.to_vec()),
            },
        };
        if request.alpha {
            item.text = text;
        } else if let Some(text) = text {
            item.score =
                score(&text).ok_or(Error::Fixed("ERR One or more scores can't be converted into double"))?;
        }
    }
    Ok(())
}

/// A text's number. An empty one is 0, and a text ends at its first zero byte, as C sees it.
fn score(text: &[u8]) -> Option<f64> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    if text.is_empty() { Some(0.0) } else { parse_f64(text).filter(|score| !score.is_nan()) }
}

fn compare(request: &Request<'_>, left: &Item<'_>, right: &Item<'_>) -> Ordering {
    let order = match (request.alpha, request.by) {
        // An absent text comes first.
        (true, Some(_)) => left.text.cmp(&right.text),
        (true, None) => left.element.cmp(&right.element),
        (false, _) => {
            let by_score = left.score.partial_cmp(&right.score).unwrap_or(Ordering::Equal);
            by_score.then_with(|| left.element.cmp(&right.element))
        }
    };
    if request.descending { order.reverse() } else { order }
}

/// The value that a pattern stands for: `#` the element itself, else that of the key named by the pattern
/// with the element in the place of the first `*`, or of a field of the hash at that key (`key*->field`).
fn resolve(keys: &mut Keys, pattern: &[u8], element: &Element<'_>) -> Option<Vec<u8>> {
    if pattern == b"#" {
        return Some(element.to_vec());
    }
    let star = pattern.iter().position(|&byte| byte == b'*')?;
    let after = &pattern[star + 1..];
    let arrow = after.windows(2).position(|pair| pair == b"->").filter(|&at| at + 2 < after.len());
    let (suffix, field) = match arrow {
        Some(at) => (&after[..at], Some(&after[at + 2..])),
        None => (after, None),
    };
    let mut name = pattern[..star].to_vec();
    element.write_to(&mut name);
    name.extend_from_slice(suffix);
    let due_ms = keys.due_ms();
    let key = Key::new(&name);
    let entry = keys.lookup(&key)?;
    let Some(field) = field else {
        return entry.str().map(|value| value.bytes(&mut NumberBuffer::new()).to_vec());
    };
    let hash = entry.object::<Hash>()?;
    let value = hash.get(field, due_ms).map(|found| found.value.to_vec());
    if value.is_none() && hash.next_expiry_ms() <= due_ms {
        keys.expire_parts::<Hash>(&key, [field]);
    }
    value
}

fn answer(ctx: &mut Context<'_>, request: &Request<'_>, items: &[Item<'_>]) {
    ctx.reply.array(items.len() * request.get.len().max(1));
    for item in items {
        if request.get.is_empty() {
            crate::list::bulk(ctx.reply, item.element);
        }
        for pattern in &request.get {
            let value = resolve(ctx.keys, pattern, &item.element);
            ctx.reply.bulk_or_null(value.as_deref());
        }
        if ctx.reply.is_full() {
            break;
        }
    }
}

fn store(ctx: &mut Context<'_>, request: &Request<'_>, items: &[Item<'_>], destination: &Key<'_>) -> Outcome {
    let mut list = List::new();
    for item in items {
        if request.get.is_empty() {
            list.push(End::Tail, item.element);
        }
        for pattern in &request.get {
            let value = resolve(ctx.keys, pattern, &item.element).unwrap_or_default();
            list.push(End::Tail, value.as_slice());
        }
    }
    ctx.reply.count(list.len());
    if list.is_empty() {
        if ctx.keys.delete(destination) {
            ctx.keys.changed(destination, EventClass::GENERIC, "del");
        }
        return Ok(());
    }
    let changes = list.len() as u64;
    list.after_building(ctx.settings.list_limit);
    ctx.keys.set_value(destination, Value::List(list), None);
    ctx.keys.changed(destination, EventClass::LIST, "sortstore");
    ctx.keys.dirty += changes - 1;
    Ok(())
}
