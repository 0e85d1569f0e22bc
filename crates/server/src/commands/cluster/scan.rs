//! CLUSTERSCAN: a scan of all keys of a cluster, slot after slot and so from node to node, as in Valkey 9.1.
//!
//! A cursor is `fingerprint-{tag}-position`. The tag's slot is the next one, so that clients find its owner
//! as they find a key's. The position is one of this process, which the fingerprint names; to others it means
//! the slot's begin. Fingerprint `0` belongs to no process: a slot of which nothing was visited.
//!
//! Invariant: a key that is in the cluster throughout is met, whatever slots move in that time. A slot that
//! moves as a whole is scanned again by its new owner. Of one that moves key by key the owner answers with
//! the present keys, and redirects the client to the other end after that, as keys go one way only.

use std::sync::LazyLock;

use martlet_base::hash::hash_bytes;
use martlet_base::slot::{SLOT_COUNT, slot_of, tag_of_slot};
use martlet_command::generic::{SlotPlace, SlotScan, parse_cursor};
use martlet_command::{Acl, Error, Flags, Group, KeyFlags, KeyPart, Outcome, Tip, command};

use super::super::{Call, ServerCommand, ServerHandler};
use super::node;
use crate::cluster::routes::Redirect;
use crate::cluster::routes::Routes;

pub(super) static CLUSTERSCAN: ServerCommand = command("clusterscan", -2, clusterscan as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::KEYSPACE)
    .keys(&[KeyPart::one(1, KeyFlags::NOT_KEY)])
    .syntax("cursor ?match-pattern:p=MATCH ?count:i=COUNT ?type=TYPE ?slot:i=SLOT")
    .doc(
        Group::Cluster,
        "9.1.0",
        "O(1) for every call, O(N) for all of them, N being the number of keys in the cluster",
        "Returns some keys of the cluster and a cursor for the next call.",
    )
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT, Tip::REQUEST_SPECIAL, Tip::RESPONSE_SPECIAL]);

/// The fingerprint of a cursor without a visited part.
const NOBODY: &str = "0";
/// The position behind a slot's keys here, while others of them may be at the other end already.
const BEHIND: u64 = u64::MAX;

/// What names this process' positions: they follow from the seed of its hashes, which this does not tell.
static FINGERPRINT: LazyLock<String> = LazyLock::new(|| {
    const CHARACTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut left = hash_bytes(b"fingerprint of CLUSTERSCAN");
    let mut character = || {
        let count = CHARACTERS.len() as u64;
        let character = char::from(CHARACTERS[(left % count) as usize]);
        left /= count;
        character
    };
    (0..6).map(|_| character()).collect()
});

/// A cursor.
struct Scanned<'a> {
    fingerprint: &'a [u8],
    place: SlotPlace,
}

impl Scanned<'_> {
    fn parse(text: &[u8]) -> Option<Scanned<'_>> {
        let mut parts = text.split(|byte| *byte == b'-');
        let (fingerprint, tag, position) = (parts.next()?, parts.next()?, parts.next()?);
        let place = SlotPlace { slot: slot_of(tag), position: parse_cursor(position)? };
        parts.next().is_none().then_some(Scanned { fingerprint, place })
    }

    fn is_mine(&self) -> bool {
        self.fingerprint == FINGERPRINT.as_bytes()
    }

    fn is_nobodys(&self) -> bool {
        self.fingerprint == NOBODY.as_bytes()
    }
}

fn clusterscan(call: &mut Call<'_>) -> Outcome {
    node(call)?;
    let scan = SlotScan::parse(call.rest(2))?;
    let pattern_slot = scan.slot_of_pattern();
    if call.arg(1) == b"0" {
        let slot = scan.slot.or(pattern_slot).unwrap_or(0);
        let is_over = pattern_slot.is_some_and(|wanted| wanted != slot);
        return answer(call, if is_over { None } else { Some(begin_of(slot)) }, &[]);
    }
    let cursor = Scanned::parse(call.arg(1)).ok_or(Error::Fixed("ERR Invalid cursor"))?;
    let slot = cursor.place.slot;
    if scan.slot.is_some_and(|only| only != slot) {
        return Err(Error::Fixed("ERR Cursor slot mismatch with SLOT argument"));
    }
    match pattern_slot {
        Some(wanted) if wanted > slot && scan.slot.is_none() => answer(call, Some(begin_of(wanted)), &[]),
        Some(wanted) if wanted != slot => answer(call, None, &[]),
        _ => {
            let is_alone = scan.slot.is_some() || pattern_slot.is_some();
            walk(call, &scan, &cursor, is_alone)
        }
    }
}

/// Visits keys from the cursor on, of its slot only if that `is_alone`.
fn walk(call: &mut Call<'_>, scan: &SlotScan<'_>, cursor: &Scanned<'_>, is_alone: bool) -> Outcome {
    let Some(routes) = call.worker.routes.clone() else { return answer(call, None, &[]) };
    let SlotPlace { slot, position } = cursor.place;
    if let Some(to) = routes.migrates_to(slot)
        && (cursor.is_mine() && position == BEHIND || !cursor.is_mine() && !cursor.is_nobodys())
    {
        let error = call.worker.redirection(call.connection, Redirect::Ask(slot, to));
        return Err(Error::Redirect(error));
    }
    let position = if cursor.is_mine() && position != BEHIND { position } else { 0 };
    let end = if is_alone { slot } else { last_of_range(&routes, slot) };
    let stop = (slot..end).find(|slot| routes.migrates_to(*slot).is_some()).unwrap_or(end);
    let (names, place) = scan.run(&mut call.worker.keys, SlotPlace { slot, position }, stop);
    let next = match place {
        Some(place) => Some(mine(place)),
        None if routes.migrates_to(stop).is_some() => Some(mine(SlotPlace { slot: stop, position: BEHIND })),
        None if is_alone || usize::from(stop) + 1 == SLOT_COUNT => None,
        None => Some(begin_of(stop + 1)),
    };
    answer(call, next, &names)
}

/// The last slot of those that one call may go through: all that one node owns, without a gap.
fn last_of_range(routes: &Routes, slot: u16) -> u16 {
    if routes.is_shards(slot) { routes.last_with_owner(slot) } else { slot }
}

/// The cursor before a slot.
fn begin_of(slot: u16) -> String {
    format!("{NOBODY}-{{{}}}-0", tag_of_slot(slot))
}

/// The cursor of a place here.
fn mine(place: SlotPlace) -> String {
    format!("{}-{{{}}}-{}", *FINGERPRINT, tag_of_slot(place.slot), place.position)
}

fn answer(call: &mut Call<'_>, next: Option<String>, names: &[Vec<u8>]) -> Outcome {
    call.reply.array(2);
    call.reply.bulk(next.as_deref().unwrap_or("0").as_bytes());
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name));
    Ok(())
}
