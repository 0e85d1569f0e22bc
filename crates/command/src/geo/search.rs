//! Searching by circle, rectangle and polygon: GEOSEARCH and its older forms, answered or stored.

use std::ops::Range;

use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_spec::{
    Acl, Command, Cursor, Error, Flags, Group, KeyFlags, KeyPart, Outcome, Presentation, command,
};
use martlet_types::element::{Element, IntBuffer};
use martlet_types::geo::{Area, Point, Shape};
use martlet_types::zset::{AddOptions, ScoreBound, ZSet, ZSetLimits};

use super::{READS, number, position, position_of, unit_m, write_distance, write_position};
use crate::Handler;
use crate::context::Context;
use crate::list::bulk;
use crate::zset::store;

const COMPLEXITY: &str =
    "O(log N + M), N being the number of members and M that of those in the squares around the area";
const OVERWRITES: KeyFlags = KeyFlags::OW.with(KeyFlags::UPDATE);

/// What differs between the commands.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Form {
    /// GEORADIUS: position and radius at their places.
    AroundPosition { may_store: bool },
    /// GEORADIUSBYMEMBER: member and radius at their places.
    AroundMember { may_store: bool },
    /// GEOSEARCH: everything is an option.
    Search,
    /// GEOSEARCHSTORE: behind the destination.
    SearchStore,
}

impl Form {
    /// The index of the first option.
    fn options_from(self) -> usize {
        match self {
            Form::AroundPosition { .. } => 6,
            Form::AroundMember { .. } => 5,
            Form::Search => 2,
            Form::SearchStore => 3,
        }
    }

    /// The index of the key that is searched.
    fn source(self) -> usize {
        if self == Form::SearchStore { 2 } else { 1 }
    }

    fn is_search(self) -> bool {
        matches!(self, Form::Search | Form::SearchStore)
    }

    fn may_store(self) -> bool {
        matches!(self, Form::AroundPosition { may_store: true } | Form::AroundMember { may_store: true })
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Order {
    Nearest,
    Farthest,
}

/// Where the result goes.
#[derive(Copy, Clone, Debug)]
struct Destination {
    /// The argument that is the key.
    index: usize,
    /// Scores become distances.
    by_distance: bool,
}

/// The centre, as it was asked for.
#[derive(Copy, Clone, Debug)]
enum Centre {
    Position(Point),
    /// A member's position; `None` in a missing key.
    Member(Option<Point>),
}

/// The request.
#[derive(Default)]
struct Query {
    presentation: Presentation,
    centre: Option<Centre>,
    shape: Option<Shape>,
    unit_m: f64,
    with_distance: bool,
    with_hash: bool,
    with_position: bool,
    order: Option<Order>,
    /// How many at most.
    count: Option<usize>,
    /// Which of them does not matter.
    any: bool,
    destination: Option<Destination>,
}

impl Query {
    fn parse(
        args: Args<'_>,
        form: Form,
        set: Option<&ZSet>,
        presentation: Presentation,
    ) -> Result<Query, Error> {
        let mut query = Query { presentation, ..Query::default() };
        match form {
            Form::AroundPosition { .. } => {
                let mut circle = Cursor::new(args, 2);
                query.centre = Some(Centre::Position(position(&mut circle)?));
                query.set_circle(&mut circle)?;
            }
            // In a key that is not there, neither member nor radius are looked at.
            Form::AroundMember { .. } if set.is_none() => {}
            Form::AroundMember { .. } => {
                let mut circle = Cursor::new(args, 2);
                query.centre = Some(centre_of(set, circle.value()?, presentation)?);
                query.set_circle(&mut circle)?;
            }
            Form::SearchStore => query.destination = Some(Destination { index: 1, by_distance: false }),
            Form::Search => {}
        }
        let mut rest = Cursor::new(args, form.options_from());
        while query.take_common_option(&mut rest)?
            || form.is_search() && query.take_search_option(&mut rest, form, set)?
            || form.may_store() && query.take_store_option(&mut rest)?
        {}
        rest.finish()?;
        query.check(args, form)?;
        Ok(query)
    }

    /// Takes an option that all forms have, if one comes next.
    fn take_common_option(&mut self, rest: &mut Cursor<'_>) -> Result<bool, Error> {
        if rest.word("WITHDIST") {
            self.with_distance = true;
        } else if rest.word("WITHHASH") {
            self.with_hash = true;
        } else if rest.word("WITHCOORD") {
            self.with_position = true;
        } else if rest.word("ANY") {
            self.any = true;
        } else if rest.word("ASC") {
            self.order = Some(Order::Nearest);
        } else if rest.word("DESC") {
            self.order = Some(Order::Farthest);
        } else if rest.option("COUNT", 1) {
            let count = usize::try_from(rest.int()?).ok().filter(|&count| count > 0);
            self.count = Some(count.ok_or(Error::Fixed("ERR COUNT must be > 0"))?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn take_search_option(
        &mut self,
        rest: &mut Cursor<'_>,
        form: Form,
        set: Option<&ZSet>,
    ) -> Result<bool, Error> {
        let has_position = matches!(self.centre, Some(Centre::Position(_)));
        let has_member = matches!(self.centre, Some(Centre::Member(_)));
        let is_circle = matches!(self.shape, Some(Shape::Circle { .. }));
        let is_rectangle = matches!(self.shape, Some(Shape::Rectangle { .. }));
        let is_polygon = self.is_polygon();
        if form == Form::SearchStore && rest.word("STOREDIST") {
            self.destination = Some(Destination { index: 1, by_distance: true });
        } else if !has_position && !is_polygon && rest.option("FROMMEMBER", 1) {
            self.centre = Some(centre_of(set, rest.value()?, self.presentation)?);
        } else if !has_member && !is_polygon && rest.option("FROMLONLAT", 2) {
            self.centre = Some(Centre::Position(position(rest)?));
        } else if !is_rectangle && !is_polygon && rest.option("BYRADIUS", 2) {
            self.set_circle(rest)?;
        } else if !is_circle && !is_polygon && rest.option("BYBOX", 3) {
            let width = number(rest, Error::Fixed("ERR need numeric width"))?;
            let height = number(rest, Error::Fixed("ERR need numeric height"))?;
            if width < 0.0 || height < 0.0 {
                return Err(Error::Fixed("ERR height or width cannot be negative"));
            }
            self.unit_m = unit_m(rest)?;
            self.shape = Some(Shape::Rectangle { width, height });
        } else if !is_circle && !is_rectangle && self.centre.is_none() && rest.option("BYPOLYGON", 2) {
            self.set_polygon(rest)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn is_polygon(&self) -> bool {
        matches!(self.shape, Some(Shape::Polygon { .. }))
    }

    /// Takes the number of corners and each of them.
    fn set_polygon(&mut self, rest: &mut Cursor<'_>) -> Outcome {
        let count = rest.int().ok().and_then(|count| i32::try_from(count).ok());
        let count = count.ok_or(Error::Fixed("ERR invalid number of vertices"))?;
        let count = usize::try_from(count).unwrap_or(0);
        if count < 3 || rest.left() / 2 < count {
            return Err(Error::Fixed("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices"));
        }
        let vertices = (0..count).map(|_| position(rest)).collect::<Result<_, Error>>()?;
        self.unit_m = 1.0;
        self.shape = Some(Shape::Polygon { vertices });
        Ok(())
    }

    fn take_store_option(&mut self, rest: &mut Cursor<'_>) -> Result<bool, Error> {
        let Some(by_distance) = rest.one_of(STORE_WORDS) else { return Ok(false) };
        self.destination = Some(Destination { index: rest.index(), by_distance });
        rest.value()?;
        Ok(true)
    }

    /// Takes a radius and its unit.
    fn set_circle(&mut self, rest: &mut Cursor<'_>) -> Outcome {
        let radius = number(rest, Error::Fixed("ERR need numeric radius"))?;
        if radius < 0.0 {
            return Err(Error::Fixed("ERR radius cannot be negative"));
        }
        self.unit_m = unit_m(rest)?;
        self.shape = Some(Shape::Circle { radius });
        Ok(())
    }

    /// Whether the parts of the request fit each other.
    fn check(&self, args: Args<'_>, form: Form) -> Outcome {
        if self.destination.is_some() && (self.with_distance || self.with_hash || self.with_position) {
            return Err(Error::Fixed(if form.is_search() {
                "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            } else {
                "ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            }));
        }
        let missing = |what: &str| {
            Err(Error::quoting(&format!("ERR exactly one of {what} can be specified for "), args.at(0), ""))
        };
        if form.is_search() && self.centre.is_none() && !self.is_polygon() {
            return missing("FROMMEMBER or FROMLONLAT");
        }
        if form.is_search() && self.shape.is_none() {
            return missing("BYRADIUS and BYBOX");
        }
        if self.any && self.count.is_none() {
            return Err(Error::Fixed("ERR the ANY argument requires COUNT argument"));
        }
        Ok(())
    }

    /// The area; `None` if its centre is a member of a key that is not there.
    fn area(&self) -> Option<Area> {
        if let Some(Shape::Polygon { vertices }) = &self.shape {
            return Some(Area::of_polygon(vertices.clone()));
        }
        let (Centre::Position(centre) | Centre::Member(Some(centre))) = self.centre? else { return None };
        Some(Area::new(centre, self.shape.clone()?, self.unit_m))
    }

    /// Everything inside the area that is asked for, in order.
    fn search<'a>(&self, set: &'a ZSet, area: &Area) -> Vec<Hit<'a>> {
        let enough = self.count.filter(|_| self.any).unwrap_or(usize::MAX);
        let mut hits = Vec::new();
        'ranges: for Range { start, end } in area.score_ranges() {
            let min = ScoreBound { score: start as f64, exclusive: false };
            let max = ScoreBound { score: end as f64, exclusive: true };
            for entry in set.range(set.ranks_by_score(min, max), false) {
                if let Some((point, distance_m)) = area.find(entry.score) {
                    hits.push(Hit { member: entry.member, score: entry.score, point, distance_m });
                    if hits.len() >= enough {
                        break 'ranges;
                    }
                }
            }
        }
        let wanted = self.count.unwrap_or(usize::MAX);
        // With a limit the nearest are meant.
        let implied = self.count.filter(|_| !self.any).map(|_| Order::Nearest);
        if let Some(order) = self.order.or(implied) {
            sort(&mut hits, order, wanted);
        }
        hits.truncate(wanted);
        hits
    }

    fn write(&self, reply: &mut Reply, area: &Area, hits: &[Hit<'_>]) {
        let options = [self.with_distance, self.with_hash, self.with_position];
        let extras = options.into_iter().filter(|&is| is).count();
        reply.array(hits.len());
        for hit in hits {
            if extras > 0 {
                reply.array(1 + extras);
            }
            bulk(reply, hit.member);
            if self.with_distance {
                write_distance(reply, area.in_unit(hit.distance_m));
            }
            if self.with_hash {
                reply.int(hit.score as i64);
            }
            if self.with_position {
                write_position(reply, hit.point, self.presentation);
            }
            if reply.is_full() {
                break;
            }
        }
    }
}

/// What says where the members are stored, and whether as their distances.
const STORE_WORDS: &[(&str, bool)] = &[("STORE", false), ("STOREDIST", true)];

/// A member as a centre.
fn centre_of(set: Option<&ZSet>, member: &[u8], presentation: Presentation) -> Result<Centre, Error> {
    let point = match set {
        Some(set) => {
            let missing = || match presentation {
                Presentation::Redis => Error::Fixed("ERR could not decode requested zset member"),
                Presentation::Valkey { .. } => Error::quoting("ERR member ", member, " does not exist"),
            };
            Some(position_of(set, member).ok_or_else(missing)?)
        }
        None => None,
    };
    Ok(Centre::Member(point))
}

/// A member inside the area.
struct Hit<'a> {
    member: Element<'a>,
    score: f64,
    point: Point,
    distance_m: f64,
}

/// Sorts by distance the `wanted` hits that come first; the others come somehow behind them. Equal distances
/// keep their order where all are wanted.
fn sort(hits: &mut [Hit<'_>], order: Order, wanted: usize) {
    let compare = |a: &Hit<'_>, b: &Hit<'_>| match order {
        Order::Nearest => a.distance_m.total_cmp(&b.distance_m),
        Order::Farthest => b.distance_m.total_cmp(&a.distance_m),
    };
    let mut first = hits;
    if wanted < first.len() {
        first.select_nth_unstable_by(wanted, compare);
        first = &mut first[..wanted];
    }
    first.sort_by(compare);
}

fn search(ctx: &mut Context<'_>, form: Form) -> Outcome {
    let source = ctx.key(form.source());
    let (args, limits) = (ctx.args, ctx.settings.zset_limits);
    let presentation = ctx.settings.presentation;
    let Context { keys, reply, .. } = ctx;
    let set = keys.read::<ZSet>(&source)?;
    let query = Query::parse(args, form, set, presentation)?;
    let found = set.zip(query.area()).map(|(set, area)| (query.search(set, &area), area));
    let Some(Destination { index, by_distance }) = query.destination else {
        match found {
            Some((hits, area)) => query.write(reply, &area, &hits),
            None => reply.array(0),
        }
        return Ok(());
    };
    let result = found.map_or_else(ZSet::new, |(hits, area)| collect(&hits, &area, by_distance, limits));
    let (destination, len) = (ctx.key(index), result.len() as u64);
    store(ctx, &destination, result, if form.is_search() { "geosearchstore" } else { "georadiusstore" });
    ctx.keys.dirty += len.saturating_sub(1);
    Ok(())
}

/// The hits as a sorted set, by their scores or distances.
fn collect(hits: &[Hit<'_>], area: &Area, by_distance: bool, limits: ZSetLimits) -> ZSet {
    let mut set = ZSet::new();
    set.prepare(hits.len(), 0, limits);
    for hit in hits {
        let score = if by_distance { area.in_unit(hit.distance_m) } else { hit.score };
        set.add(hit.member.as_bytes(&mut IntBuffer::new()), score, AddOptions::default(), limits);
    }
    set
}

pub(super) static GEOSEARCH: Command<Handler> = command("geosearch", -7, geosearch as Handler)
    .flags(Flags::READONLY)
    .keys(&[READS])
    .acl(Acl::GEO)
    .syntax(
        "key:k0 ?from(member=FROMMEMBER|fromlonlat=FROMLONLAT(longitude:d latitude:d)) \
         by(circle(radius:d=BYRADIUS unit(M|KM|FT|MI))|box(width:d=BYBOX height:d \
         unit(M|KM|FT|MI))|polygon(num-vertices:i=BYPOLYGON *vertices(longitude:d latitude:d))) ?order(ASC|DESC) ?count-block(count:i=COUNT ?ANY) ?WITHCOORD \
         ?WITHDIST ?WITHHASH",
    )
    .doc(Group::Geo, "6.2.0", COMPLEXITY, "Returns the members inside a circle, a rectangle or a polygon.")
    .history(&[("7.0.0", "Units in upper case, too."), ("9.0.0", "Option `BYPOLYGON` (Valkey).")]);

fn geosearch(ctx: &mut Context<'_>) -> Outcome {
    search(ctx, Form::Search)
}

pub(super) static GEOSEARCHSTORE: Command<Handler> = command("geosearchstore", -8, geosearchstore as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[KeyPart::one(1, OVERWRITES), KeyPart::one(2, KeyFlags::RO.with(KeyFlags::ACCESS))])
    .acl(Acl::GEO)
    .syntax(
        "destination:k0 source:k1 ?from(member=FROMMEMBER|fromlonlat=FROMLONLAT(longitude:d \
         latitude:d)) by(circle(radius:d=BYRADIUS unit(M|KM|FT|MI))|box(width:d=BYBOX height:d \
         unit(M|KM|FT|MI))|polygon(num-vertices:i=BYPOLYGON *vertices(longitude:d latitude:d))) ?order(ASC|DESC) ?count-block(count:i=COUNT ?ANY) ?STOREDIST",
    )
    .doc(Group::Geo, "6.2.0", COMPLEXITY, "Stores the members inside a circle, a rectangle or a polygon in a key.")
    .history(&[("7.0.0", "Units in upper case, too."), ("9.0.0", "Option `BYPOLYGON` (Valkey).")]);

fn geosearchstore(ctx: &mut Context<'_>) -> Outcome {
    search(ctx, Form::SearchStore)
}

/// The key that is searched, and that of the last STORE or STOREDIST, which alone is written.
fn find_keys(args: &Args<'_>, options_from: usize, out: &mut Vec<usize>) -> bool {
    out.push(1);
    let (mut rest, mut destination) = (Cursor::new(*args, options_from), None);
    while rest.left() > 1 {
        if rest.one_of(STORE_WORDS).is_some() {
            destination = Some(rest.index());
        }
        rest.skip(1);
    }
    out.extend(destination);
    true
}

pub(super) static GEORADIUS: Command<Handler> = command("georadius", -6, georadius as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[READS, KeyPart::behind("STORE", 6, OVERWRITES), KeyPart::behind("STOREDIST", 6, OVERWRITES)])
    .find_keys(|args, out| find_keys(args, 6, out))
    .acl(Acl::GEO)
    .syntax(
        "key:k0 longitude:d latitude:d radius:d unit(M|KM|FT|MI) ?WITHCOORD ?WITHDIST ?WITHHASH \
         ?count-block(count:i=COUNT ?ANY^6.2.0) ?order(ASC|DESC) \
         ?store(storekey:k1/key=STORE|storedistkey:k2/key=STOREDIST)",
    )
    .doc(Group::Geo, "3.2.0", COMPLEXITY, "Returns or stores the members within a distance of a position.")
    .history(&[("6.2.0", "Option `ANY` of `COUNT`."), ("7.0.0", "Units in upper case, too.")])
    .deprecated("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with `BYRADIUS`");

fn georadius(ctx: &mut Context<'_>) -> Outcome {
    search(ctx, Form::AroundPosition { may_store: true })
}

pub(super) static GEORADIUS_RO: Command<Handler> = command("georadius_ro", -6, georadius_ro as Handler)
    .flags(Flags::READONLY)
    .keys(&[READS])
    .acl(Acl::GEO)
    .syntax(
        "key:k0 longitude:d latitude:d radius:d unit(M|KM|FT|MI) ?WITHCOORD ?WITHDIST ?WITHHASH \
         ?count-block(count:i=COUNT ?ANY^6.2.0) ?order(ASC|DESC)",
    )
    .doc(Group::Geo, "3.2.10", COMPLEXITY, "Returns the members within a distance of a position.")
    .history(&[("6.2.0", "Option `ANY` of `COUNT`."), ("7.0.0", "Units in upper case, too.")])
    .deprecated("6.2.0", "`GEOSEARCH` with `BYRADIUS`");

fn georadius_ro(ctx: &mut Context<'_>) -> Outcome {
    search(ctx, Form::AroundPosition { may_store: false })
}

pub(super) static GEORADIUSBYMEMBER: Command<Handler> =
    command("georadiusbymember", -5, georadiusbymember as Handler)
        .flags(Flags::WRITE.with(Flags::DENYOOM))
        .keys(&[READS, KeyPart::behind("STORE", 5, OVERWRITES), KeyPart::behind("STOREDIST", 5, OVERWRITES)])
        .find_keys(|args, out| find_keys(args, 5, out))
        .acl(Acl::GEO)
        .syntax(
            "key:k0 member radius:d unit(M|KM|FT|MI) ?WITHCOORD ?WITHDIST ?WITHHASH \
         ?count-block(count:i=COUNT ?ANY) ?order(ASC|DESC) \
         ?store(storekey:k1/key=STORE|storedistkey:k2/key=STOREDIST)",
        )
        .doc(Group::Geo, "3.2.0", COMPLEXITY, "Returns or stores the members within a distance of another.")
        .history(&[("6.2.0", "Option `ANY` of `COUNT`."), ("7.0.0", "Units in upper case, too.")])
        .deprecated("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with `BYRADIUS` and `FROMMEMBER`");

fn georadiusbymember(ctx: &mut Context<'_>) -> Outcome {
    search(ctx, Form::AroundMember { may_store: true })
}

pub(super) static GEORADIUSBYMEMBER_RO: Command<Handler> =
    command("georadiusbymember_ro", -5, georadiusbymember_ro as Handler)
        .flags(Flags::READONLY)
        .keys(&[READS])
        .acl(Acl::GEO)
        .syntax(
            "key:k0 member radius:d unit(M|KM|FT|MI) ?WITHCOORD ?WITHDIST ?WITHHASH \
         ?count-block(count:i=COUNT ?ANY) ?order(ASC|DESC)",
        )
        .doc(Group::Geo, "3.2.10", COMPLEXITY, "Returns the members within a distance of another.")
        .history(&[("6.2.0", "Option `ANY` of `COUNT`."), ("7.0.0", "Units in upper case, too.")])
        .deprecated("6.2.0", "`GEOSEARCH` with `BYRADIUS` and `FROMMEMBER`");

fn georadiusbymember_ro(ctx: &mut Context<'_>) -> Outcome {
    search(ctx, Form::AroundMember { may_store: false })
}
