//! Geography: sorted sets whose scores are positions, searched by circle and rectangle. Searching is in
//! `search`.

mod search;
#[cfg(test)]
mod tests;

use martlet_base::number::{NumberBuffer, format_i64};
use martlet_protocol::reply::Reply;
use martlet_spec::{
    Acl, Command, Cursor, Error, Flags, Group, KeyFlags, KeyPart, Outcome, Presentation, command,
};
use martlet_types::geo::Point;
use martlet_types::zset::{AddOptions, ZSet};

use crate::Handler;
use crate::context::Context;
use crate::zset::{self, Additions};

/// The family.
pub static COMMANDS: &[&Command<Handler>] = &[
    &GEOADD,
    &GEOPOS,
    &GEOHASH,
    &GEODIST,
    &search::GEOSEARCH,
    &search::GEOSEARCHSTORE,
    &search::GEORADIUS,
    &search::GEORADIUS_RO,
    &search::GEORADIUSBYMEMBER,
    &search::GEORADIUSBYMEMBER_RO,
];

const READS: KeyPart = KeyPart::one(1, KeyFlags::RO.with(KeyFlags::ACCESS));

/// A number, or this error.
fn number(rest: &mut Cursor<'_>, error: Error) -> Result<f64, Error> {
    rest.float().map_err(|_| error)
}

/// Takes a position: two arguments.
fn position(rest: &mut Cursor<'_>) -> Result<Point, Error> {
    let (x, y) = (rest.float()?, rest.float()?);
    Point::new(x, y).ok_or_else(|| Error::Text(format!("ERR invalid longitude,latitude pair {x:.6},{y:.6}")))
}

/// Takes a unit of length: how many metres it has.
fn unit_m(rest: &mut Cursor<'_>) -> Result<f64, Error> {
    let unit = rest.one_of(&[("m", 1.0), ("km", 1000.0), ("ft", 0.3048), ("mi", 1609.34)]);
    unit.ok_or(Error::Fixed("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

/// Writes a distance, with four digits behind the point.
fn write_distance(reply: &mut Reply, distance: f64) {
    let scaled = (distance * 10_000.0).round_ties_even() as i64;
    reply.bulk(format!("{}.{:04}", scaled / 10_000, scaled % 10_000).as_bytes());
}

/// Writes a position; Valkey spells 17 decimals, as Redis did before 7.2.
fn write_position(reply: &mut Reply, point: Point, presentation: Presentation) {
    reply.array(2);
    for part in [point.longitude, point.latitude] {
        if presentation.is_valkey() {
            let text = format!("{part:.17}");
            reply.double_text(text.trim_end_matches('0').trim_end_matches('.').as_bytes());
        } else {
            reply.double(part);
        }
    }
}

static GEOADD: Command<Handler> = command("geoadd", -5, geoadd as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE))])
    .acl(Acl::GEO)
    .syntax("key:k0 ?condition(NX|XX)^6.2.0 ?change:x=CH^6.2.0 *data(longitude:d latitude:d member)")
    .doc(
        Group::Geo,
        "3.2.0",
        "O(log N) for each member, N being the number of members",
        "Adds members with their positions, or changes positions. Creates the key if it is not there.",
    )
    .history(&[("6.2.0", "`CH`, `NX` and `XX`.")]);

fn geoadd(ctx: &mut Context<'_>) -> Outcome {
    let (mut options, mut count_changed, mut rest) = (AddOptions::default(), false, ctx.rest(2));
    loop {
        if rest.word("NX") {
            options.nx = true;
        } else if rest.word("XX") {
            options.xx = true;
        } else if rest.word("CH") {
            count_changed = true;
        } else {
            break;
        }
    }
    let (first, words) = (rest.index(), rest.left());
    if words == 0 || !words.is_multiple_of(3) || (options.nx && options.xx) {
        return Err(Error::Syntax);
    }
    let args = ctx.args;
    let places = (first..ctx.argc()).step_by(3).map(|at| position(&mut ctx.rest(at)));
    let scores = places.map(|place| Ok(place?.score())).collect::<Result<Vec<u64>, Error>>()?;
    let member = |index: usize| args.at(first + 3 * index + 2);
    let key = ctx.key(1);
    let members = scores.iter().enumerate().map(|(index, &score)| (score as f64, member(index)));
    let Additions { added, updated, .. } =
        zset::add_members(ctx.keys, &key, options, ctx.settings.zset_limits, members)?;
    if added + updated > 0 {
        ctx.keys.effects.replace(ctx.keys.db(), || {
            let mut words: Vec<Vec<u8>> = vec![b"ZADD".to_vec()];
            words.extend((1..first).map(|at| args.at(at).to_vec()));
            for (index, &score) in scores.iter().enumerate() {
                words.push(format_i64(score as i64, &mut NumberBuffer::new()).to_vec());
                words.push(member(index).to_vec());
            }
            words
        });
    }
    ctx.reply.count(if count_changed { added + updated } else { added });
    Ok(())
}

static GEOPOS: Command<Handler> = command("geopos", -2, geopos as Handler)
    .flags(Flags::READONLY)
    .keys(&[READS])
    .acl(Acl::GEO)
    .syntax("key:k0 ?*member")
    .doc(Group::Geo, "3.2.0", "O(1) for each member", "Returns the positions of members.");

fn geopos(ctx: &mut Context<'_>) -> Outcome {
    let presentation = ctx.settings.presentation;
    each_member(ctx, |reply, point| match point {
        Some(point) => write_position(reply, point, presentation),
        None => reply.null_array(),
    })
}

static GEOHASH: Command<Handler> = command("geohash", -2, geohash as Handler)
    .flags(Flags::READONLY)
    .keys(&[READS])
    .acl(Acl::GEO)
    .syntax("key:k0 ?*member")
    .doc(Group::Geo, "3.2.0", "O(1) for each member", "Returns the positions of members as geohashes.");

fn geohash(ctx: &mut Context<'_>) -> Outcome {
    each_member(ctx, |reply, point| match point {
        Some(point) => reply.bulk(&point.geohash()),
        None => reply.null(),
    })
}

/// Answers for each member named, given its position if it is there.
fn each_member(ctx: &mut Context<'_>, mut answer: impl FnMut(&mut Reply, Option<Point>)) -> Outcome {
    let key = ctx.key(1);
    let Context { keys, reply, args, .. } = ctx;
    let set = keys.read::<ZSet>(&key)?;
    let members = args.from(2);
    reply.array(members.len());
    for member in members.iter() {
        answer(reply, set.and_then(|set| position_of(set, member)));
    }
    Ok(())
}

fn position_of(set: &ZSet, member: &[u8]) -> Option<Point> {
    set.score(member).map(Point::from_score)
}

static GEODIST: Command<Handler> = command("geodist", -4, geodist as Handler)
    .flags(Flags::READONLY)
    .keys(&[READS])
    .acl(Acl::GEO)
    .syntax("key:k0 member1 member2 ?unit(M|KM|FT|MI)")
    .doc(Group::Geo, "3.2.0", "O(1)", "Returns the distance between two members.");

fn geodist(ctx: &mut Context<'_>) -> Outcome {
    let unit_m = match ctx.argc() {
        4 => 1.0,
        5 => unit_m(&mut ctx.rest(4))?,
        _ => return Err(Error::Syntax),
    };
    let key = ctx.key(1);
    let Context { keys, reply, args, .. } = ctx;
    let set = keys.read::<ZSet>(&key)?;
    let point = |index: usize| set.and_then(|set| position_of(set, args.at(index)));
    match point(2).zip(point(3)) {
        Some((one, other)) => write_distance(reply, one.distance_m(other) / unit_m),
        None => reply.null(),
    }
    Ok(())
}
