//! The arguments of MIGRATESLOTS and of SYNCSLOTS' ESTABLISH and FINISH, with Valkey's errors.

use super::{SlotMigrations, State};
use crate::id::{ID_BYTES, NodeId};
use crate::machine::{Cluster, CommandError, parse_slot};

/// The error for words that do not fit together.
const SYNTAX: &str = "syntax error";

fn refuse<T>(text: impl Into<String>) -> Result<T, CommandError> {
    Err(CommandError(text.into()))
}

/// Slots that are to go to another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The ranges.
    pub ranges: Vec<(u16, u16)>,
    /// The other node.
    pub target: NodeId,
}

/// A source's request, or a primary's report of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Establish {
    /// The migration's name.
    pub name: NodeId,
    /// From where; not asked of a primary.
    pub source: Option<NodeId>,
    /// The ranges.
    pub ranges: Vec<(u16, u16)>,
}

/// How an import has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// The migration's name.
    pub name: NodeId,
    /// It has succeeded.
    pub is_success: bool,
    /// Why not.
    pub message: Option<String>,
}

impl Finish {
    /// How far the import is then.
    pub(super) fn state(&self) -> State {
        if self.is_success { State::Success } else { State::Failed }
    }
}

fn is_word(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

/// Ranges, how many words they are, and the owner of all their slots, if that was asked for.
type Ranges = (Vec<(u16, u16)>, usize, Option<NodeId>);

/// Ranges up to the first word that is no number; of slots that one node owns, if there is a `cluster` to be
/// asked.
fn ranges(cluster: Option<&Cluster>, words: &[&[u8]]) -> Result<Ranges, CommandError> {
    let is_number = |word: &[u8]| {
        std::str::from_utf8(word).is_ok_and(|text| !text.starts_with('+') && text.parse::<i64>().is_ok())
    };
    let (mut ranges, mut owner, mut at) = (Vec::<(u16, u16)>::new(), None, 0);
    while let Some(first) = words.get(at).filter(|word| is_number(word)) {
        let first = parse_slot(first)?;
        let Some(last) = words.get(at + 1) else { return refuse("No end slot for final slot range") };
        let last = parse_slot(last)?;
        if first > last {
            return refuse(format!("Start slot number {first} is greater than end slot number {last}."));
        }
        for (slot, cluster) in (first..=last).filter_map(|slot| Some((slot, cluster?))) {
            let Some(of) = cluster.owner(slot) else {
                return refuse(format!("Slot {slot} has no node served."));
            };
            if *owner.get_or_insert(of) != of {
                return refuse("Requested slots span multiple shards");
            }
        }
        if let Some((a, b)) = ranges.iter().find(|(a, b)| last >= *a && first <= *b) {
            return refuse(format!("Slot range {first}-{last} overlaps with previous range {a}-{b}."));
        }
        ranges.push((first, last));
        at += 2;
    }
    if ranges.is_empty() {
        return refuse("No slot ranges specified");
    }
    let owner = cluster.zip(owner).map(|(cluster, owner)| cluster.node(owner).id);
    Ok((ranges, at, owner))
}

/// The one owner of slots that a task may move.
///
/// # Errors
/// Why it may not, in Redis' words.
pub(super) fn check_import(cluster: &Cluster, ranges: &[(u16, u16)]) -> Result<NodeId, CommandError> {
    if cluster.myself().is_replica() {
        return refuse("slot migration not allowed on replica.");
    }
    if cluster.importing().next().is_some() || cluster.migrating().next().is_some() {
        return refuse("all slot states must be STABLE to start a slot migration task.");
    }
    let mut source = None;
    for slot in ranges.iter().flat_map(|(first, last)| *first..=*last) {
        let Some(owner) = cluster.owner(slot) else { return refuse(format!("slot has no owner: {slot}")) };
        if *source.get_or_insert(owner) != owner {
            return refuse("slots belong to different source nodes");
        }
    }
    source.map(|key| cluster.node(key).id).ok_or_else(|| CommandError(SYNTAX.into()))
}

/// A migration may begin here at all.
fn may_start(cluster: &Cluster) -> Result<(), CommandError> {
    if cluster.myself().is_replica() {
        return refuse("Slot migration can only be used on primary nodes.");
    }
    if cluster.importing().next().is_some() {
        return refuse("Slots are being manually imported");
    }
    if cluster.migrating().next().is_some() {
        return refuse("Slots are being manually migrated");
    }
    Ok(())
}

/// MIGRATESLOTS.
///
/// # Errors
/// The request's fault; nothing has changed.
pub fn parse_requests(
    cluster: &Cluster,
    migrations: &SlotMigrations,
    words: &[&[u8]],
) -> Result<Vec<Request>, CommandError> {
    may_start(cluster)?;
    let (mut requests, mut at) = (Vec::<Request>::new(), 0);
    while at < words.len() {
        if !is_word(words[at], "slotsrange") {
            return refuse(SYNTAX);
        }
        let (ranges, count, owner) = ranges(Some(cluster), &words[at + 1..])?;
        at += 1 + count;
        if owner != Some(cluster.myself().id) {
            return refuse("Slots are not served by this node.");
        }
        let mut slots = ranges.iter().flat_map(|(first, last)| *first..=*last);
        if let Some(slot) = slots.find(|slot| migrations.is_exporting(*slot)) {
            return refuse(format!("I am already migrating slot {slot}."));
        }
        let overlap = |(a, b): &(u16, u16)| ranges.iter().any(|(first, last)| last >= a && first <= b);
        if requests.iter().any(|other| other.ranges.iter().any(overlap)) {
            return refuse("Slot ranges in migrations overlap");
        }
        let (Some(word), Some(id)) = (words.get(at), words.get(at + 1)) else { return refuse(SYNTAX) };
        if !is_word(word, "node") {
            return refuse(SYNTAX);
        }
        let text = String::from_utf8_lossy(id);
        if id.len() != ID_BYTES {
            return refuse(format!("Invalid node name: {text}"));
        }
        let target = NodeId::parse(id).filter(|id| cluster.find(id.as_bytes()).is_some());
        let Some(target) = target else { return refuse(format!("Unknown node name: {text}")) };
        if target == cluster.myself().id {
            return refuse("Target node can not be this node.");
        }
        requests.push(Request { ranges, target });
        at += 2;
    }
    Ok(requests)
}

/// SYNCSLOTS ESTABLISH; `is_told` if the primary reports its own job.
///
/// # Errors
/// The request's fault; nothing has changed.
pub fn parse_establish(
    cluster: &Cluster,
    migrations: &SlotMigrations,
    words: &[&[u8]],
    is_told: bool,
) -> Result<Establish, CommandError> {
    if !is_told {
        may_start(cluster)?;
    }
    let (mut name, mut source, mut slots, mut at) = (None, None, None, 0);
    while at < words.len() {
        let value = words.get(at + 1).filter(|value| value.len() == ID_BYTES);
        if is_word(words[at], "source") {
            let Some(value) = value.filter(|_| source.is_none()) else { return refuse(SYNTAX) };
            at += 2;
            if is_told {
                continue;
            }
            let Some(node) = NodeId::parse(value).filter(|id| cluster.find(id.as_bytes()).is_some()) else {
                return refuse("Target node does not know the source node");
            };
            if node == cluster.myself().id {
                return refuse("Source node is target node itself");
            }
            source = Some(node);
        } else if is_word(words[at], "name") {
            let value = value.filter(|_| name.is_none()).and_then(|value| NodeId::parse(value));
            let Some(value) = value else { return refuse(SYNTAX) };
            name = Some(value);
            at += 2;
        } else if is_word(words[at], "slotsrange") && slots.is_none() {
            // A replica may not know yet whose the slots are.
            let known = (!is_told).then_some(cluster);
            let (ranges, count, owner) = ranges(known, &words[at + 1..])?;
            at += 1 + count;
            let mut asked = ranges.iter().flat_map(|(first, last)| *first..=*last);
            // A replica may hear of its primary's imports once more.
            if !is_told && asked.any(|slot| migrations.is_importing(slot)) {
                return refuse("Slot is already being imported on the target by a different migration");
            }
            slots = Some((ranges, owner));
        } else {
            return refuse(SYNTAX);
        }
    }
    let (Some(name), Some((ranges, owner))) = (name, slots) else { return refuse(SYNTAX) };
    if source.is_none() && !is_told {
        return refuse(SYNTAX);
    }
    if source.is_some() && source != owner {
        return refuse("Target node does not agree about current slot ownership");
    }
    Ok(Establish { name, source, ranges })
}

/// SYNCSLOTS FINISH, of a migration that is known.
///
/// # Errors
/// The request's fault.
pub fn parse_finish(words: &[&[u8]], is_known: impl FnOnce(NodeId) -> bool) -> Result<Finish, CommandError> {
    let (mut name, mut state, mut message) = (None, None, None);
    for pair in words.chunks(2) {
        let [word, value] = pair else { return refuse(SYNTAX) };
        if is_word(word, "state") && state.is_none() {
            state = Some(*value);
        } else if is_word(word, "name") && name.is_none() && value.len() == ID_BYTES {
            name = NodeId::parse(value);
        } else if is_word(word, "message") && message.is_none() {
            message = Some(String::from_utf8_lossy(value).into_owned());
        } else {
            return refuse(SYNTAX);
        }
    }
    let (Some(state), Some(name)) = (state, name) else { return refuse(SYNTAX) };
    if !is_known(name) {
        return refuse("No such slot migration job");
    }
    match (is_word(state, "success"), is_word(state, "failed")) {
        (false, false) => refuse(SYNTAX),
        (is_success, _) => Ok(Finish { name, is_success, message }),
    }
}
