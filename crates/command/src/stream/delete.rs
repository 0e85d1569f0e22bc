//! XDELEX and XACKDEL: entries that go by their ids, with what groups still know of them, or only once no
//! group does.

use martlet_base::number::parse_i64;
use martlet_spec::{Acl, Command, Cursor, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};
use martlet_types::stream::{Id, References, Stream};

use super::{note, parse_id};
use crate::Handler;
use crate::context::Context;

/// Takes the word on groups' references, if that comes next.
pub(super) fn take_references(rest: &mut Cursor<'_>) -> Option<References> {
    rest.one_of(&[
        ("KEEPREF", References::Keep),
        ("DELREF", References::Delete),
        ("ACKED", References::Acked),
    ])
}

/// The arguments behind the key and the group.
struct Request {
    references: References,
    /// Which arguments the ids are.
    ids: std::ops::Range<usize>,
}

impl Request {
    fn parse(mut rest: Cursor<'_>) -> Result<Request, Error> {
        let (mut references, mut ids) = (None, None);
        while rest.left() > 0 {
            if references.is_none() {
                references = take_references(&mut rest);
                if references.is_some() {
                    continue;
                }
            }
            if !rest.option("IDS", 1) {
                return Err(Error::Syntax);
            }
            let count = parse_i64(rest.value()?).filter(|count| *count > 0);
            let count = count.ok_or(Error::Fixed("ERR Number of IDs must be a positive integer"))?;
            let span = rest.span(count);
            const TOO_FEW: Error =
                Error::Fixed("ERR The `numids` parameter must match the number of arguments");
            ids = Some(span.map_err(|_| TOO_FEW)?);
        }
        let ids = ids.ok_or(Error::Fixed("ERR IDS option is required"))?;
        Ok(Request { references: references.unwrap_or_default(), ids })
    }

    /// The answer where there is no key or no group.
    fn write_missing(&self, ctx: &mut Context<'_>) -> Outcome {
        ctx.reply.array(self.ids.len());
        self.ids.clone().for_each(|_| ctx.reply.int(Fate::Missing as i64));
        Ok(())
    }

    fn parse_ids(&self, ctx: &Context<'_>) -> Result<Vec<Id>, Error> {
        self.ids.clone().map(|at| parse_id(ctx.arg(at), 0)).collect()
    }
}

/// The fate of an entry, as in the reply.
#[derive(Clone, Copy)]
enum Fate {
    Missing = -1,
    Deleted = 1,
    Referenced = 2,
}

/// How much has changed.
#[derive(Default)]
struct Changes {
    /// Entries that were deleted.
    deleted: u64,
    /// Ids of which at least a reference is gone.
    others: u64,
}

impl Changes {
    /// Deletes an entry, if groups allow it.
    fn delete(&mut self, stream: &mut Stream, id: Id, references: References) -> Fate {
        if references == References::Acked && stream.is_referenced(id) {
            return Fate::Referenced;
        }
        let has_dropped = references == References::Delete && stream.delete_references(id);
        if stream.log().contains(id) && stream.log_mut().delete(id) {
            self.deleted += 1;
            return Fate::Deleted;
        }
        self.others += u64::from(has_dropped);
        Fate::Missing
    }

    fn note(self, ctx: &mut Context<'_>) {
        let key = ctx.key(1);
        if self.deleted > 0 {
            note(ctx.keys, &key, "xdel");
            ctx.keys.dirty -= 1;
        }
        ctx.keys.dirty += self.deleted + self.others;
    }
}

pub(super) static XDELEX: Command<Handler> = command("xdelex", -5, xdelex as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::DELETE))])
    .acl(Acl::STREAM)
    .syntax("key:k0 ?condition(KEEPREF|DELREF|ACKED) ids=IDS(numids:i *id)")
    .doc(
        Group::Stream,
        "8.2.0",
        "O(log N) for each entry, N being the number of entries",
        "Deletes entries from a stream and returns the outcome of each.",
    );

fn xdelex(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let is_there = ctx.keys.read::<Stream>(&key)?.is_some();
    let request = Request::parse(ctx.rest(2))?;
    if !is_there {
        return request.write_missing(ctx);
    }
    let ids = request.parse_ids(ctx)?;
    let Some(mut stream) = ctx.keys.write::<Stream>(&key)? else { return request.write_missing(ctx) };
    let mut changes = Changes::default();
    ctx.reply.array(ids.len());
    for id in ids {
        ctx.reply.int(changes.delete(&mut stream, id, request.references) as i64);
    }
    drop(stream);
    changes.note(ctx);
    Ok(())
}

pub(super) static XACKDEL: Command<Handler> = command("xackdel", -6, xackdel as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE).with(KeyFlags::DELETE))])
    .acl(Acl::STREAM)
    .syntax("key:k0 group ?condition(KEEPREF|DELREF|ACKED) ids=IDS(numids:i *id)")
    .doc(
        Group::Stream,
        "8.2.0",
        "O(log N) for each entry, N being the number of entries",
        "Acknowledges entries that a group's consumers have got, and deletes them.",
    );

fn xackdel(ctx: &mut Context<'_>) -> Outcome {
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let is_there = ctx.keys.read::<Stream>(&key)?.is_some_and(|stream| stream.group(name).is_some());
    let request = Request::parse(ctx.rest(3))?;
    if !is_there {
        return request.write_missing(ctx);
    }
    let ids = request.parse_ids(ctx)?;
    let Some(mut stream) = ctx.keys.write::<Stream>(&key)? else { return request.write_missing(ctx) };
    let mut changes = Changes::default();
    ctx.reply.array(ids.len());
    for id in ids {
        let fate = if super::group::acknowledge(&mut stream, name, &[id]) == 0 {
            Fate::Missing
        } else {
            let before = changes.deleted;
            let fate = changes.delete(&mut stream, id, request.references);
            if changes.deleted == before {
                changes.others += 1;
            }
            // An entry that was gone already counts as deleted.
            if matches!(fate, Fate::Referenced) { fate } else { Fate::Deleted }
        };
        ctx.reply.int(fate as i64);
    }
    drop(stream);
    changes.note(ctx);
    Ok(())
}
